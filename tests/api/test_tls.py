"""TLS with certificates of our own: which versions and ciphers, certificates of clients, the swap on SIGHUP, streams."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path

from harness.case import Case, S, uid
from harness.sessiond import SLOW, Daemon, eventually
from harness.sse import LineSplitter

runs = {"asan", "release", "tsan"}


def openssl(*arguments, **more):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60 * SLOW, check=False, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Certificates:
    """An authority, and what it has signed: files in one directory."""

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="sd-tls-"))
        self.ca = self.authority("ca")

    def authority(self, name):
        cert, key = self.dir / f"{name}.pem", self.dir / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2, "-keyout", key,
                "-out", cert, "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE")
        return cert

    def signed(self, name, common_name, ca="ca"):
        """(certificate, key) for 127.0.0.1 and localhost."""
        cert, key, request = (self.dir / f"{name}.{end}" for end in ("pem", "key", "csr"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", request,
                "-subj", f"/CN={common_name}")
        names = self.dir / f"{name}.ext"
        names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl("x509", "-req", "-in", request, "-CA", self.dir / f"{ca}.pem", "-CAkey", self.dir / f"{ca}.key", "-days", 2,
                "-extfile", names, "-out", cert)
        return cert, key

    def close(self):
        for file in self.dir.iterdir():
            file.unlink()
        self.dir.rmdir()


class Tls(Case):
    @classmethod
    def setUpClass(cls):
        cls.certificates = Certificates()
        cls.addClassCleanup(cls.certificates.close)
        cert, key = cls.certificates.signed("server", "sessiond one")
        cls.begin(Daemon({"listen": {"tls": {"cert": str(cert), "key": str(key), "clientCa": str(cls.certificates.ca)}}}))
        cls.api = cls.daemon.local()

    def context(self, client=None, ca=None):
        context = ssl.create_default_context(cafile=str(ca or self.certificates.ca))
        if client:
            context.load_cert_chain(*map(str, client))
        return context

    def connect(self, context=None):
        plain = socket.create_connection(("127.0.0.1", self.daemon.port), 20 * SLOW)
        return (context or self.context()).wrap_socket(plain, server_hostname="127.0.0.1")

    def request(self, method, path, body=None, context=None, **headers):
        connection = http.client.HTTPSConnection("127.0.0.1", self.daemon.port, timeout=30 * SLOW, context=context or self.context())
        head = {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request(method, path, body=json.dumps(body) if body is not None else None, headers=head)
        response = connection.getresponse()
        raw = response.read()
        connection.close()
        return response, raw

    def bearer(self):
        return {"Authorization": "Bearer " + self.daemon.admin_token}

    def name_served(self):
        with self.connect() as secure:
            return dict(pair for group in secure.getpeercert()["subject"] for pair in group)["commonName"]

    def test_requests_big_and_small(self):
        key = f"agent:main:slack:channel:{uid()}"
        text = "é" + "x" * 3_000_000
        response, _ = self.request("POST", "/v1/agents/main/sessions", {"key": key}, **self.bearer())
        self.assertEqual(response.status, 201)
        response, _ = self.request("POST", S(key, "main", "messages"), {"role": "user", "text": text}, **self.bearer())
        self.assertEqual(response.status, 201)
        response, raw = self.request("GET", S(key, "main", "transcript"), **self.bearer())
        self.assertEqual(response.status, 200)
        self.assertTrue(any(text in json.loads(line).get("message", {}).get("content", [{}])[0].get("text", "")
                            for line in raw.splitlines() if b"xxxx" in line), "the text is not there")

    def test_one_connection_many_requests_pipelined(self):
        with self.connect() as secure:
            one = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            secure.sendall(one * 99 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            data = b""
            while piece := secure.recv(1 << 16):
                data += piece
        self.assertEqual(data.count(b"HTTP/1.1 200 OK"), 100)

    def test_versions_and_ciphers(self):
        with self.connect() as secure:
            self.assertEqual((secure.version(), secure.compression()), ("TLSv1.3", None))
        two = self.context()
        two.maximum_version = ssl.TLSVersion.TLSv1_2
        with self.connect(two) as secure:
            self.assertEqual(secure.version(), "TLSv1.2")
            self.assertRegex(secure.cipher()[0], "^ECDHE-(ECDSA|RSA)-.*(GCM|POLY1305)")
        tried = 0
        names = openssl("ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:eNULL:@SECLEVEL=0").strip().split(":")
        for name in names:
            good = name.startswith("ECDHE-ECDSA-") and name.endswith(("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"))
            done = self.s_client("-tls1_2", "-cipher", name + ":@SECLEVEL=0")
            self.assertEqual("Cipher is " + name in done, good, f"{name}: {done[-300:]}")
            tried += 1
        self.assertGreater(tried, 40)
        for version in ("-tls1_1", "-tls1"):
            self.assertIn("Cipher is (NONE)", self.s_client(version, "-cipher", "ALL:@SECLEVEL=0"))

    def s_client(self, *arguments):
        done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.daemon.port}", *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30 * SLOW, check=False)
        return done.stdout + done.stderr

    def test_alpn(self):
        context = self.context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        with self.connect(context) as secure:
            self.assertEqual(secure.selected_alpn_protocol(), "http/1.1")

    def test_clients_with_certificates(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        mine = self.context(self.certificates.signed("viewer", made["id"]))
        response, raw = self.request("GET", "/v1/whoami", context=mine)
        self.assertEqual((response.status, json.loads(raw)["id"]), (200, made["id"]))
        _, raw = self.request("GET", "/v1/whoami", context=mine, **self.bearer())
        self.assertEqual(json.loads(raw)["role"], "admin", "a token that is sent goes before the certificate")
        runner = self.ok(self.api.post("/v1/admin/tokens", {"role": "runner"}), 201)
        writes = self.context(self.certificates.signed("runner", runner["id"]))
        path, body = "/v1/agents/main/sessions", {"key": f"agent:main:slack:channel:{uid()}"}
        self.assertEqual(self.request("POST", path, body, context=writes, Origin="https://evil.example")[0].status, 403)
        self.assertEqual(self.request("POST", path, body, context=writes)[0].status, 201)
        stranger = self.context(self.certificates.signed("nobody", "zzzzzzzz"))
        self.assertEqual(self.request("GET", "/v1/whoami", context=stranger)[0].status, 401)
        self.assertEqual(self.request("GET", "/v1/whoami")[0].status, 401)
        self.certificates.authority("other")
        forged = self.context(self.certificates.signed("forged", made["id"], "other"))
        with self.assertRaises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            self.request("GET", "/v1/whoami", context=forged)
        self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
        self.assertEqual(self.request("GET", "/v1/whoami", context=mine)[0].status, 401)

    def test_swapped_on_sighup_without_dropping_a_stream(self):
        secure = self.connect()
        secure.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.daemon.admin_token}\r\n\r\n".encode())
        lines = LineSplitter()

        def wait_for(text):
            while True:
                piece = secure.recv(1 << 16)
                self.assertTrue(piece, "the stream was dropped")
                if any(text in line for line in lines.feed(piece)):
                    return

        wait_for(b"stream.hello")
        self.assertEqual(self.name_served(), "sessiond one")
        server = Path(self.daemon.config["listen"]["tls"]["cert"])
        old, old_key = server.read_bytes(), server.with_suffix(".key").read_bytes()
        self.certificates.signed("server", "sessiond two")
        self.daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: self.name_served() == "sessiond two", 10, what="the new certificate")
        wait_for(b"config.reloaded")
        server.write_text("no certificate at all")
        self.daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: any("tls_not_reloaded" in line for line in self.daemon.stderr), 10, what="a word in the log")
        self.assertEqual(self.name_served(), "sessiond two")
        server.write_bytes(old)
        server.with_suffix(".key").write_bytes(old_key)
        self.daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: self.name_served() == "sessiond one", 10, what="the old certificate")
        key = f"agent:main:slack:channel:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key}), 201)
        wait_for(key.encode())
        secure.close()

    def test_login_cookie_is_secure(self):
        response, _ = self.request("POST", "/v1/login", {"token": self.daemon.admin_token})
        self.assertTrue(response.headers["Set-Cookie"].endswith("; Secure"))

    def test_no_tls_no_answer(self):
        self.assertIsNone(self.daemon.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        for junk in (b"", b"\x16\x03\x01", os.urandom(5000)):
            with socket.create_connection(("127.0.0.1", self.daemon.port), 10 * SLOW) as plain:
                plain.sendall(junk)
        self.assertEqual(self.request("GET", "/healthz")[0].status, 200)

    def test_a_stream_ends_with_bye(self):
        cert, key = self.certificates.signed("drained", "drained")
        daemon = self.spawn({"listen": {"tls": {"cert": str(cert), "key": str(key)}}})
        plain = socket.create_connection(("127.0.0.1", daemon.port), 20 * SLOW)
        with self.context().wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            secure.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.admin_token}\r\n\r\n".encode())
            data = b""
            while b"stream.hello" not in data:
                data += secure.recv(1 << 16)
            daemon.process.send_signal(signal.SIGTERM)
            while piece := secure.recv(1 << 16):
                data += piece
        self.assertIn(b"event: stream.bye", data)

    def test_slow_hands_are_let_go(self):
        cert, key = self.certificates.signed("slow", "slow")
        daemon = self.spawn({"listen": {"tls": {"cert": str(cert), "key": str(key)}}, "limits": {"requestTimeoutMs": 300, "headerTimeoutMs": 300}})
        with socket.create_connection(("127.0.0.1", daemon.port), 20 * SLOW) as plain:
            plain.sendall(b"\x16\x03\x01\x02\x00")
            self.assertEqual(plain.recv(1), b"")


class Refused(Case):
    def refusal(self, listen):
        daemon = Daemon({"listen": listen})
        self.addCleanup(daemon.close)
        with self.assertRaises(AssertionError) as refused:
            daemon.start()
        return str(refused.exception)

    def test_plain_tcp_for_others(self):
        self.assertIn("/listen/tcp", self.refusal({"tcp": "0.0.0.0:0"}))

    def test_what_is_no_certificate(self):
        self.assertIn("/nowhere.pem", self.refusal({"tls": {"cert": "/nowhere.pem", "key": "/nowhere.key"}}))
        self.assertIn("/listen/tls", self.refusal({"tls": {"cert": "/nowhere.pem"}}))

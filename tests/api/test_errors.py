"""Every error code that can be provoked, the ground rules of daemon/api/README.md, and HTTP that nobody should accept (RFC 9112)."""

import json
import re
import socket
import time

from harness.case import Case, S
from harness.sessiond import SLOW
from harness.sse import StreamRefused


class Ground(Case):
    def test_request_ids(self):
        reply = self.api.get("/v1/whoami", x_request_id="my-request.1")
        self.assertEqual(reply.headers["X-Request-Id"], "my-request.1")
        one, two = (self.api.get("/v1/whoami").headers["X-Request-Id"] for _ in range(2))
        self.assertTrue(one and two and one != two)
        reply = self.api.get("/v1/nowhere", x_request_id="seen-in-the-body")
        self.assertEqual(reply.json["requestId"], "seen-in-the-body")

    def test_date_and_cache_control(self):
        for path in ("/v1/whoami", "/healthz", "/v1/nowhere"):
            reply = self.api.get(path)
            self.assertRegex(reply.headers["Date"], r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
            self.assertEqual(reply.headers["Cache-Control"], "no-store")

    def test_keep_alive_and_pipelining(self):
        head = f"Host: localhost\r\nAuthorization: Bearer {self.daemon.admin_token}\r\n"
        with socket.create_connection(("127.0.0.1", self.daemon.port), 10 * SLOW) as sock:
            sock.sendall((f"GET /healthz HTTP/1.1\r\n{head}\r\nGET /v1/whoami HTTP/1.1\r\n{head}\r\n"
                          f"GET /version HTTP/1.1\r\n{head}Connection: close\r\n\r\n").encode())
            data = b""
            while chunk := sock.recv(65536):
                data += chunk
        self.assertEqual(data.count(b"HTTP/1.1 200 "), 3)
        self.assertLess(data.index(b'"role"'), data.rindex(b'"version"'))

    def test_expect_continue(self):
        key = self.new()["key"]
        body = json.dumps({"role": "user", "text": "after 100"}).encode()
        with socket.create_connection(("127.0.0.1", self.daemon.port), 10 * SLOW) as sock:
            sock.sendall((f"POST {S(key, 'main', 'messages')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.daemon.admin_token}\r\n"
                          f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n").encode())
            self.assertTrue(sock.recv(4096).startswith(b"HTTP/1.1 100 "))
            sock.sendall(body)
            data = b""
            while chunk := sock.recv(65536):
                data += chunk
        self.assertIn(b"HTTP/1.1 201 ", data)

    def test_chunked_bodies(self):
        key = self.new()["key"]
        body = json.dumps({"role": "user", "text": "in chunks"}).encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:])) + b"0\r\n\r\n"
        reply = self.daemon.raw(f"POST {S(key, 'main', 'messages')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.daemon.admin_token}\r\n"
                                "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode() + chunks)
        self.ok(reply, 201)
        self.assertEqual(self.texts(key), ["in chunks"])

    def test_http_1_0(self):
        reply = self.daemon.raw(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        self.assertEqual((reply.status, reply.closed), (200, True))


class Bodies(Case):
    def setUp(self):
        super().setUp()
        self.path = S(self.new()["key"], "main", "messages")

    def test_bad_json(self):
        for body in (b"", b"{", b'{"role":"user","text":"x"', b'{"role":"user","text":"x"}}', b"{'role':'user'}",
                     b'{"a":01}', b'{"a":+1}', b'{"a":NaN}',
                     b'{"a":"\x01"}', b'{"a":"\\x"}', b'{"a":1,}', b"\xef\xbb\xbf{}", b'{"a":"\\ud83"}', b"nul"):
            with self.subTest(body):
                self.problem(self.api.post(self.path, body), 400, "bad_request")

    def test_duplicate_names(self):
        self.problem(self.api.post(self.path, b'{"role":"user","text":"a","text":"b"}'), 400, "bad_request")
        self.problem(self.api.post(self.path, b'{"role":"user","text":"a","x":{"y":1,"\\u0079":2}}'), 400,
                     "bad_request")

    def test_utf_8_is_checked(self):
        for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"):
            with self.subTest(bad):
                self.problem(self.api.post(self.path, b'{"role":"user","text":"' + bad + b'"}'), 400, "bad_request")

    def test_depth(self):
        deep = lambda n: b'{"role":"user","text":"x","deep":' + b"[" * n + b"]" * n + b"}"
        self.ok(self.api.post(self.path, deep(63)), 201)
        for depth in (64, 100_000):
            self.assertIn(self.api.post(self.path, deep(depth)).status, (400, 422))
        self.assertEqual(len(self.api.get(self.path).json["data"]), 1)

    def test_content_types(self):
        body = b'{"role":"user","text":"x"}'
        for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON", ""):
            self.ok(self.api.post(self.path, body, content_type=kind), 201)
        for kind in ("text/plain", "application/xml", "application/x-www-form-urlencoded",
                     "multipart/form-data; boundary=x"):
            with self.subTest(kind):
                self.problem(self.api.post(self.path, body, content_type=kind), 415, "unsupported_media_type")

    def test_content_encoding(self):
        reply = self.api.post(self.path, b"\x1f\x8b\x08\x00", content_encoding="gzip")
        self.assertIn(reply.status, (400, 415))


class Routes(Case):
    def test_unknown_routes(self):
        for path in ("/v1/nowhere", "/v2/agents", "/v1/agents/main/sessions/x/nothing", "/v1", "/healthz/",
                     "/v1/agents/main/sessions/a/b/c/d"):
            with self.subTest(path):
                self.problem(self.api.get(path), 404, "not_found", "session_not_found")
        self.assertIn(self.daemon.anonymous().get("/v1/nowhere").status, (401, 404))

    def test_each_404(self):
        self.new()
        self.problem(self.api.get("/v1/agents/nobody-here"), 404, "agent_not_found")
        self.problem(self.api.get(S("agent:main:nothing")), 404, "session_not_found")
        self.problem(self.api.get(S(self.new()["key"], "main", "messages", "deadbeef")), 404, "message_not_found")
        self.problem(self.api.get("/v1/agents/%21%21"), 404, "agent_not_found")

    def test_wrong_methods(self):
        for method, path, allowed in (("DELETE", "/v1/agents", {"GET"}), ("PUT", "/v1/inbound", {"POST"}),
                                      ("POST", "/healthz", {"GET"}),
                                      ("POST", S("agent:main:x"), {"GET", "PUT", "PATCH", "DELETE", "HEAD"}),
                                      ("BREW", "/v1/sessions", {"GET"})):
            with self.subTest(f"{method} {path}"):
                reply = self.api.request(method, path)
                self.problem(reply, 405, "method_not_allowed")
                self.assertTrue(allowed <= {m.strip() for m in reply.headers["Allow"].split(",")},
                                reply.headers["Allow"])

    def test_not_acceptable(self):
        session = self.new()
        for accept in ("*/*", "application/json", "application/*;q=0.5, text/html", "application/problem+json"):
            self.ok(self.api.get(S(session["key"]), accept=accept), 200)
        with self.assertRaises(StreamRefused) as refused:
            self.api.stream(headers={"Accept": "image/png"})
        self.assertEqual((refused.exception.status, refused.exception.json["code"]), (406, "not_acceptable"))

    def test_paths_that_try_something(self):
        for path in ("/v1/agents/..%2f..%2fetc/sessions",
                     "/v1/agents/main/sessions/..%2f..%2f..%2fetc%2fpasswd/transcript", "/v1/agents/main/sessions/%00",
                     "/v1/agents/main/sessions/x/transcript?topic=..%2f..%2fx", "/../etc/passwd",
                     "/v1/agents/main/sessions/%ff%fe", "/v1/agents/main/sessions/%zz"):
            with self.subTest(path):
                reply = self.api.get(path)
                self.assertIn(reply.status, (400, 404, 422), reply)
                self.problem(reply, reply.status)

    def test_hosts(self):
        port = self.daemon.port
        for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST", f"[::1]:{port}"):
            self.assertEqual(self.daemon.raw(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()).status, 200, host)
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "169.254.169.254"):
            reply = self.daemon.raw(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            self.problem(reply, 421, "misdirected_host")
        daemon = self.spawn({"listen": {"hosts": ["sessions.example"]}})
        reply = daemon.raw(b"GET /healthz HTTP/1.1\r\nHost: sessions.example\r\nConnection: close\r\n\r\n")
        self.assertEqual(reply.status, 200)

    def test_no_cors_unless_allowed(self):
        reply = self.api.get("/v1/whoami", origin="https://evil.example")
        self.assertIsNone(reply.headers.get("Access-Control-Allow-Origin"))


class Limits(Case):
    config = {"limits": {"bodyBytes": 4096, "headerBytes": 2048, "targetBytes": 512,
                         "requestTimeoutMs": int(800 * SLOW), "jsonDepth": 8}}

    def raw(self, request, **named):
        return self.daemon.raw(request if isinstance(request, bytes) else request.encode(), **named)

    def test_body(self):
        key = self.new()["key"]
        head = f"POST {S(key, 'main', 'messages')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.daemon.admin_token}\r\n"
        self.say(key, "x" * 3900)
        reply = self.raw(head + "Content-Length: 4097\r\n\r\n")
        self.problem(reply, 413, "content_too_large")
        reply = self.raw(head + "Content-Length: 99999999999999999999999\r\n\r\n")
        self.assertIn(reply.status, (400, 413))
        chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
        reply = self.raw(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 8)
        self.problem(reply, 413, "content_too_large")
        self.assertEqual(len(self.messages(key)), 1)

    def test_target(self):
        reply = self.raw(f"GET /healthz?{'x' * 600} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.problem(reply, 414, "uri_too_long")

    def test_headers(self):
        reply = self.raw(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {'x' * 3000}\r\n\r\n")
        self.problem(reply, 431, "header_fields_too_large")

    def test_time(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port), 20 * SLOW) as sock:
            sock.sendall(b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n")
            began, data = time.monotonic(), b""
            while chunk := sock.recv(4096):
                data += chunk
        self.assertIn(b" 408 ", data.split(b"\r\n")[0])
        self.assertIn(b'"request_timeout"', data)
        self.assertGreater(time.monotonic() - began, 0.3)

    def test_depth_from_configuration(self):
        key = self.new()["key"]
        reply = self.api.post(S(key, "main", "messages"),
                              b'{"role":"user","text":"x","d":' + b"[" * 9 + b"]" * 9 + b"}")
        self.assertIn(reply.status, (400, 422))

    def test_default_body_limit(self):
        daemon = self.spawn()
        reply = daemon.raw(f"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.admin_token}\r\n"
                           f"Content-Length: {8 * 1024 * 1024 + 1}\r\n\r\n".encode())
        self.problem(reply, 413, "content_too_large")


class Malformed(Case):
    """What Beast accepts by default and RFC 9112 says to reject: 400, and the connection is closed."""

    REQUESTS = {
        "no Host": b"GET /healthz HTTP/1.1\r\n\r\n",
        "two Hosts": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "bad Host": b"GET /healthz HTTP/1.1\r\nHost: local host\r\n\r\n",
        "obs-fold": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n c\r\n\r\n",
        "unknown coding": b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        "chunked not last": b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "chunked twice": b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "coding and length": b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "coding in 1.0": b"POST /v1/inbound HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "two lengths": b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        "bad length": b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nContent-Length: +2\r\n\r\n{}",
        "asterisk": b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "bytes in the target": b"GET /healthz?\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "bare CR": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\rc\r\n\r\n",
        "bad chunk size": b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        "space before colon": b"GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\0c\r\n\r\n",
        "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n\r\n",
    }

    def test_each(self):
        for name, request in self.REQUESTS.items():
            with self.subTest(name):
                reply = self.daemon.raw(request)
                if reply is not None or name != "no HTTP":
                    self.assertIsNotNone(reply, "closed without an answer")
                    self.assertEqual(reply.status, 400, reply)
                    self.assertTrue(reply.closed, "the connection is to be closed")
        self.ok(self.daemon.anonymous().get("/healthz"), 200)

    def test_nothing_smuggled_is_answered(self):
        smuggled = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
        request = (b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(smuggled)))
        with socket.create_connection(("127.0.0.1", self.daemon.port), 10 * SLOW) as sock:
            sock.sendall(request + smuggled)
            data = b""
            try:
                while chunk := sock.recv(65536):
                    data += chunk
            except ConnectionResetError:
                pass
        self.assertEqual(len(re.findall(rb"(?m)^HTTP/1\.1 ", data)), 1)


class Overload(Case):
    config = {"limits": {"connections": 20}}

    def test_too_many_connections_do_not_lock_out_for_good(self):
        socks = []
        for _ in range(40):
            try:
                socks.append(socket.create_connection(("127.0.0.1", self.daemon.port), 5 * SLOW))
            except OSError:
                break
        for sock in socks:
            sock.close()
        for _ in range(100):
            try:
                if self.daemon.anonymous().get("/healthz").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05 * SLOW)
        self.fail("no answer after the connections were closed")

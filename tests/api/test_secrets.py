"""Secrets: entries take none (policy.secretScan), and nobody's token is ever in a log, a problem, a metric or a file."""

import base64
import os
import signal

from harness.case import Case, S, json, uid
from harness.sessiond import SLOW, eventually

# Put together here, so that no file of the repository holds what looks like a key.
GITHUB = "ghp" + "_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
ALL = "/v1/agents/main/sessions"


class InEntries(Case):
    def refused(self, reply, *pointers):
        body = self.invalid(reply, *pointers)
        self.assertNotIn(GITHUB.encode(), reply.raw)
        self.assertNotIn(AWS.encode(), reply.raw)
        return body

    def test_every_way_into_an_entry(self):
        post = lambda body: self.api.post(ALL, body)
        self.refused(post({"label": "my " + GITHUB}), "/label")
        self.refused(post({"name": AWS}), "/name")
        self.refused(post({"key": "agent:main:slack:channel:" + AWS}), "/key")
        self.refused(post({"entry": {"context": {"variables": {"a/b": [1, {"k": GITHUB}]}}, "x": AWS}}),
                     "/entry/context/variables/a~1b/1/k", "/entry/x")
        key = self.new()["key"]
        self.refused(self.api.patch(S(key), {"context": {"variables": {"token": GITHUB}}}), "/context/variables/token")
        self.refused(self.api.patch(S(key), {"x": {GITHUB: 1}}), "/x")
        self.refused(self.api.patch(S(key), b'{"x":"\\u0067' + GITHUB[1:].encode() + b'"}'), "/x")
        self.refused(self.api.put(S(key), {"session": {"context": {"variables": {"k": GITHUB}}}}),
                     "/session/context/variables/k")
        self.refused(self.api.put(S("agent:main:slack:channel:" + AWS), {"label": "x"}), "/key")
        self.refused(self.api.post(S(key, "main", "spawn"), {"label": GITHUB}), "/label")
        self.refused(self.api.post(S(key, "main", "spawn"), {"entry": {"x": GITHUB}}), "/entry/x")
        self.refused(self.api.post(S(key, "main", "reset"), {"reason": GITHUB}), "/reason")
        self.refused(self.api.put(S(key, "main", "route"), {"channel": "slack", "to": GITHUB}), "/to")
        self.refused(self.api.post("/v1/admin/tokens", {"role": "viewer", "note": "for " + GITHUB}), "/note")
        self.daemon.checkpoint()
        for path in self.daemon.state.rglob("*"):
            if path.is_file():
                self.assertNotIn(GITHUB.encode(), path.read_bytes(), path)
                self.assertNotIn(AWS.encode(), path.read_bytes(), path)

    def test_messages_are_what_people_say(self):
        key = self.new()["key"]
        self.say(key, "my key is " + GITHUB)
        self.inbound(text="and mine " + AWS)
        self.assertIn("my key is " + GITHUB, self.texts(key))

    def test_ordinary_entries_pass(self):
        self.new("agent:main:telegram:direct:1234567890")
        picture = base64.b64encode(os.urandom(300_000)).decode()
        self.ok(self.api.post(ALL, {"label": "ghp_ and AKIA are prefixes", "entry": {
            "sdkSessionId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "commit": uid(32) * 2, "picture": picture,
            "spawnedBy": "agent:main:telegram:direct:1234567890"}}), 201)

    def test_what_another_program_wrote_stays_and_can_be_patched_elsewhere(self):
        key = self.new(label="before")["key"]
        path = self.daemon.agent_dir() / "sessions.json"
        store = self.daemon.sessions_json()
        store[key].update({"x-theirs": GITHUB, "updatedAt": store[key]["updatedAt"] + 5})
        path.with_suffix(".tmp").write_text(json.dumps(store))
        os.replace(path.with_suffix(".tmp"), path)
        eventually(lambda: self.api.get(S(key), cache_control="no-cache").json.get("x-theirs") == GITHUB)
        self.assertEqual(self.ok(self.api.patch(S(key), {"label": "after"}), 200)["x-theirs"], GITHUB)
        self.assertEqual(self.daemon.sessions_json()[key]["x-theirs"], GITHUB)

    def test_warn_and_off(self):
        daemon = self.spawn({"policy": {"secretScan": "warn"}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.ok(api.patch(S(key), {"x": {"y": GITHUB}}), 200)
        line = eventually(lambda: [line for line in daemon.stderr if "secret_in_entry" in line], what="the warning")[0]
        self.assertIn(key, line)
        self.assertIn("/x/y", line)
        self.assertNotIn(GITHUB, line)
        daemon.config["policy"]["secretScan"] = "off"
        daemon.config_file.write_text(json.dumps(daemon.config))
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: any("config_reloaded" in line for line in daemon.stderr), what="the reload")
        self.ok(api.patch(S(key), {"z": GITHUB}), 200)
        self.assertEqual(sum("secret_in_entry" in line for line in daemon.stderr), 1)


class NowhereElse(Case):
    """Tokens and tickets are sent right, wrong and in the wrong places; then every byte that is left is looked through."""

    @classmethod
    def setUpClass(cls):
        pass  # each test has a daemon of its own

    def setUp(self):
        self.daemon = self.spawn({"log": {"level": "debug"}}, start=False)
        self.daemon.wrapper = ["bash", "-c", 'ulimit -c unlimited; exec "$0" "$@"']
        self.daemon.start()
        self.api = self.daemon.client()
        self.key = self.new()["key"]
        admin = self.daemon.admin_token
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
        ticket = lambda: self.ok(self.api.post("/v1/stream-tickets", {}), 201)["ticket"]
        login = self.daemon.anonymous().post("/v1/login", {"token": admin}).headers["Set-Cookie"].split(";")[0]
        self.secrets = {"admin": admin, "login cookie": login.partition("=")[2], "bridge": self.daemon.token("bridge"), "revoked": made["token"],
                        "wrong": admin[:-6] + "Zz9_-Q", "unknown": "sd_zz00zz00_" + "Ab1-_" * 8 + "Ab1",
                        "short": admin[:-1], "long": admin + "xyz", "ticket": ticket(), "used": ticket(),
                        "bad ticket": "sdt_" + "Ab1-_" * 30}
        self.replies = []

    tearDown = lambda self: None  # the daemon is killed on the way

    def ask(self, method, path, body=None, headers=None, api=None):
        reply = (api or self.api).request(method, path, body, headers=headers)
        self.replies.append((f"{method} {path}", reply))
        return reply

    def raw(self, text):
        reply = self.daemon.raw(text.encode())
        if reply is not None:
            self.replies.append((text[:60], reply))

    def in_wrong_places(self, secret):
        session, nobody = S(self.key), self.daemon.anonymous()
        for method, path in (("GET", "/v1/sessions?token="), ("GET", "/v1/sessions?cursor="), ("GET", "/v1/events?after="),
                             ("GET", "/metrics?token="), ("GET", "/nowhere/"), ("GET", "/v1/agents/"),
                             ("GET", ALL + "/"), ("PUT", ALL + "/"), ("PATCH", ALL + "/"), ("DELETE", ALL + "/"),
                             ("POST", ALL + "/"), ("GET", session + "/messages?limit="),
                             ("GET", session + "/messages?before="), ("GET", session + "/messages?types="),
                             ("GET", session + "/messages/"), ("DELETE", session + "/topics/"),
                             ("DELETE", "/v1/admin/tokens/"), ("DELETE", "/v1/admin/streams/")):
            self.ask(method, path + secret, {} if method in ("PUT", "PATCH", "POST") else None)
        self.ask("POST", f"/v1/agents/{secret}/sessions", {"label": "x"})
        self.ask("PUT", f"/v1/agents/{secret}/sessions/x", {"label": "x"})
        self.ask("POST", "/v1/inbound", {"agent": secret, "channel": "slack", "chatType": "direct", "peer": "u", "text": "t"})
        for wrong in ("/v1/whoami?ticket=", "/v1/events?token=", "/v1/whoami?access_token="):
            self.ask("GET", wrong + secret, api=nobody)
        if secret not in (self.secrets["ticket"], self.secrets["used"]):  # which open a stream
            self.ask("GET", "/v1/events?ticket=" + secret, api=nobody)
        for value in (secret, "Bearer" + secret, f"Bearer {secret} {secret}", "Token " + secret, f"Bearer token={secret}",
                      "Bearer \t" + secret + ",", "Basic " + base64.b64encode(f"u:{secret}".encode()).decode()):
            self.ask("GET", "/v1/whoami", headers={"Authorization": value}, api=nobody)
        for name in ("X-Request-Id", "If-Match", "If-None-Match", "Prefer", "Cookie", "Referer", "User-Agent", "Accept",
                     "Last-Event-Id", "Range", "Origin"):
            self.ask("GET", session, headers={name: secret})
            self.ask("PATCH", session, {"n": uid()}, headers={name: secret})
        self.ok(self.ask("POST", session + "/messages", {"role": "user", "text": uid()},
                         headers={"Idempotency-Key": secret}), 201)
        self.ask("PATCH", session, {"n": 1}, headers={"Content-Type": secret})
        self.ask("PATCH", session, f'{{"{secret}":1,"{secret}":2}}'.encode())
        self.ask("PATCH", session, {"label": secret})
        self.ask("POST", ALL, {secret: 1})
        self.ask("POST", ALL, {"entry": {"sendPolicy": secret}})
        self.ask("POST", "/v1/admin/tokens", {"role": "viewer", "note": secret})
        self.ask("POST", "/v1/policy/evaluate", {secret: secret})
        self.ask("POST", "/v1/stream-tickets", {"filters": {secret: secret}})
        self.raw(f"GET /healthz HTTP/1.1\r\nHost: {secret}\r\nConnection: close\r\n\r\n")
        self.raw(f"{secret} /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.raw(f"GET {secret} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.raw(f"GET /{secret}#{secret} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.raw(f"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: {secret}\r\nContent-Length: {secret}\r\n\r\n")
        self.raw(f"{secret}\r\n\r\n")

    def test_nothing_is_left(self):
        for secret in self.secrets.values():
            self.in_wrong_places(secret)
        with self.api.stream("/v1/events?replay=3&ticket=" + self.secrets["used"]) as stream:
            stream.wait_type("stream.hello")
            self.ask("GET", "/v1/admin/streams")
        self.a_file_fails()
        self.daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: any("config_reloaded" in line for line in self.daemon.stderr), what="the reload")
        for path in ("/metrics", "/readyz", "/v1/admin/config", "/v1/admin/tokens", "/v1/agents"):
            self.ok(self.ask("GET", path), 200) if path == "/v1/admin/config" else self.ask("GET", path)
        self.ask("POST", "/v1/admin/doctor")
        self.daemon.checkpoint()
        self.daemon.process.send_signal(signal.SIGABRT)
        self.assertEqual(self.daemon.process.wait(30 * SLOW), -signal.SIGABRT)
        self.daemon._join()
        self.daemon.process = None
        self.look()
        self.daemon.start()
        self.ask("GET", "/v1/sessions")
        self.assertEqual(self.daemon.stop(), 0)
        self.look()

    def a_file_fails(self):
        tokens = self.daemon.state / "tokens.json"
        kept = tokens.read_bytes()
        tokens.unlink()
        tokens.mkdir()
        reply = self.ask("POST", "/v1/admin/tokens", {"role": "viewer"},
                         headers={"X-Request-Id": self.secrets["wrong"]})
        self.problem(reply, 503, "degraded")
        tokens.rmdir()
        tokens.write_bytes(kept)

    def look(self):
        encoded = {f"{name} in base64": base64.b64encode(f"u:{secret}".encode()).decode()
                   for name, secret in self.secrets.items()}
        everywhere = {**self.secrets, **encoded}
        # Of a token that is cut or lengthened the rest is as bad.
        everywhere["the admin's secret part"] = self.daemon.admin_token.split("_", 2)[2][:30]
        files = [path for path in self.daemon.state.rglob("*") if path.is_file() and not path.is_symlink()]
        self.assertFalse([p for p in self.daemon.home.rglob("*") if p.name.startswith("core") and p.is_file()
                          and p.stat().st_size > 100_000], "no core is dumped: it would hold every token")
        places = {str(path): path.read_bytes() for path in files}
        places |= {"name of " + str(path): str(path).encode() for path in self.daemon.state.rglob("*")}
        places |= {f"stderr:{i}": line.encode() for i, line in enumerate(self.daemon.stderr)}
        for i, (what, reply) in enumerate(self.replies):
            head = "\n".join(f"{k}: {v}" for k, v in reply.headers.items()).encode()
            places[f"reply {i} to {what}"] = head + b"\n" + reply.raw
        leaks = [f"{name} is in {place}: {text[max(0, text.find(secret.encode()) - 80):][:240]!r}"
                 for name, secret in everywhere.items() for place, text in places.items() if secret.encode() in text]
        self.assertFalse(leaks, f"{len(leaks)}:\n" + "\n".join(leaks[:20]))
        self.assertTrue(any("level=debug" in line for line in self.daemon.stderr))

    def test_a_request_id_that_looks_like_a_token_is_not_echoed(self):
        reply = self.ask("GET", "/v1/whoami", headers={"X-Request-Id": self.secrets["wrong"]})
        self.assertNotIn(self.secrets["wrong"][:20], reply.headers["X-Request-Id"])
        self.assertEqual(self.ask("GET", "/v1/whoami", headers={"X-Request-Id": "trace-1"}).headers["X-Request-Id"],
                         "trace-1")

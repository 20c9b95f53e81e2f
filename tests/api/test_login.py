"""Browsers: the login cookie and its CSRF token, pages of other origins, and what the dashboard may do."""

import json
import re

from harness.case import Case, S, uid


class Login(Case):
    config = {"cors": {"allowedOrigins": ["https://chat.example.org"]}}

    def log_in(self, token=None, **headers):
        reply = self.daemon.anonymous().post("/v1/login", {"token": token or self.daemon.admin_token}, **headers)
        self.assertEqual((reply.status, reply.raw), (204, b""), reply)
        cookie = reply.headers["Set-Cookie"]
        self.assertRegex(cookie, r"^sessiond=sdc_[\w-]+; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$")
        return cookie.split(";")[0]

    def csrf(self, cookie):
        return self.ok(self.daemon.anonymous().get("/v1/whoami", cookie=cookie))["csrf"]

    def test_reads_with_the_cookie_alone(self):
        cookie = self.log_in()
        nobody = self.daemon.anonymous()
        self.assertEqual(self.ok(nobody.get("/v1/whoami", cookie=cookie))["role"], "admin")
        self.ok(nobody.get("/v1/sessions", cookie="theme=dark; " + cookie + "; x=y"))
        with nobody.stream(headers={"Cookie": cookie}) as stream:
            stream.wait_type("stream.hello")

    def test_writes_need_the_csrf_token(self):
        cookie, path = self.log_in(), "/v1/agents/main/sessions"
        nobody, body = self.daemon.anonymous(), {"key": f"agent:main:slack:channel:{uid()}"}
        self.problem(nobody.post(path, body, cookie=cookie), 403, "forbidden")
        self.problem(nobody.post(path, body, cookie=cookie, x_csrf_token="guess"), 403, "forbidden")
        self.problem(nobody.post(path, body, cookie=cookie, x_csrf_token=self.csrf(self.log_in())), 403, "forbidden")
        csrf = self.csrf(cookie)
        for origin in ("https://evil.example", "null", "https://127.0.0.1.evil.example", "http://127.0.0.1:1"):
            self.problem(nobody.post(path, body, cookie=cookie, x_csrf_token=csrf, origin=origin), 403, "forbidden")
        own = f"http://127.0.0.1:{self.daemon.port}"
        self.ok(nobody.post(path, body, cookie=cookie, x_csrf_token=csrf, origin=own), 201)

    def test_readyz_tells_a_browser_what_it_tells_the_token(self):
        nobody = self.daemon.anonymous()
        self.assertNotIn("damage", nobody.get("/readyz").json)
        self.assertNotIn("damage", nobody.get("/readyz", cookie="sessiond=sdc_guess").json)
        self.assertEqual(nobody.get("/readyz", cookie=self.log_in()).json["damage"], [])

    def test_what_is_no_cookie_of_ours(self):
        cookie = self.log_in()
        for bad in ("sessiond=", "sessiond=sdc_", "sessiond=sdc_AAAA", cookie[:-1], cookie + "A", cookie.replace("sdc_", "sdt_"),
                    cookie[:-1] + ("A" if cookie[-1] != "A" else "B"), "sessiond=" + "A" * 4000):
            self.problem(self.daemon.anonymous().get("/v1/whoami", cookie=bad), 401, "unauthorized")

    def test_ends_with_logout_and_with_its_token(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        one, two = self.log_in(made["token"]), self.log_in(made["token"])
        nobody = self.daemon.anonymous()
        self.problem(nobody.post("/v1/logout", cookie=one), 403, "forbidden")
        left = nobody.post("/v1/logout", cookie=one, x_csrf_token=self.csrf(one))
        self.ok(left, 204)
        self.assertIn("Max-Age=0", left.headers["Set-Cookie"])
        self.problem(nobody.get("/v1/whoami", cookie=one), 401)
        self.ok(nobody.get("/v1/whoami", cookie=two))
        with nobody.stream(headers={"Cookie": two}) as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
            stream.wait_end(10)
        self.problem(nobody.get("/v1/whoami", cookie=two), 401)

    def test_outlives_a_restart(self):
        cookie = self.log_in()
        self.daemon.restart(kill=True)
        self.ok(self.daemon.anonymous().get("/v1/whoami", cookie=cookie))

    def test_a_logout_outlives_a_restart(self):
        daemon = self.spawn()
        nobody = daemon.anonymous()

        def log_in():
            return self.ok_cookie(nobody.post("/v1/login", {"token": daemon.admin_token}))

        out, stays = log_in(), log_in()
        csrf = self.ok(nobody.get("/v1/whoami", cookie=out))["csrf"]
        self.ok(nobody.post("/v1/logout", cookie=out, x_csrf_token=csrf), 204)
        for kill in (False, True):
            daemon.restart(kill=kill)
            self.problem(nobody.get("/v1/whoami", cookie=out), 401, "unauthorized")
            self.ok(nobody.get("/v1/whoami", cookie=stays))

    def ok_cookie(self, reply):
        self.assertEqual(reply.status, 204, reply)
        return reply.headers["Set-Cookie"].split(";")[0]

    def test_login_refuses(self):
        nobody, token = self.daemon.anonymous(), self.daemon.admin_token
        self.problem(nobody.post("/v1/login", {"token": token[:-1] + "x"}), 401)
        self.invalid(nobody.post("/v1/login", {}), "/token")
        self.invalid(nobody.post("/v1/login", {"token": token, "more": 1}), "/more")
        self.problem(nobody.post("/v1/login", {"token": token}, origin="https://evil.example"), 403)
        self.assertIsNone(nobody.post("/v1/login", {"token": "x"}).headers["Set-Cookie"])

    def test_a_token_goes_before_the_cookie(self):
        viewer = self.daemon.token("viewer")
        who = self.ok(self.daemon.client(viewer).get("/v1/whoami", cookie=self.log_in()))
        self.assertEqual(who["role"], "viewer")
        self.assertNotIn("csrf", who)

    def test_cors(self):
        allowed, other = "https://chat.example.org", "https://evil.example"
        reply = self.api.get("/v1/agents", origin=allowed)
        self.assertEqual(reply.headers["Access-Control-Allow-Origin"], allowed)
        self.assertIn("Idempotency-Replayed", reply.headers["Access-Control-Expose-Headers"])
        self.assertIsNone(reply.headers["Access-Control-Allow-Credentials"])
        for origin in (other, allowed + ".evil.example", "http://chat.example.org", "null", None):
            reply = self.api.get("/v1/agents", origin=origin)
            self.assertIsNone(reply.headers["Access-Control-Allow-Origin"])
            self.assertEqual(reply.headers["Vary"], "Origin")
        ask = {"access_control_request_method": "PATCH", "access_control_request_headers": "authorization, if-match"}
        reply = self.daemon.anonymous().request("OPTIONS", S("global"), origin=allowed, **ask)
        self.assertEqual((reply.status, reply.headers["Access-Control-Allow-Origin"]), (204, allowed))
        self.assertIn("PATCH", reply.headers["Access-Control-Allow-Methods"])
        self.assertIn("Authorization", reply.headers["Access-Control-Allow-Headers"])
        self.assertIsNone(self.daemon.anonymous().request("OPTIONS", S("global"), origin=other, **ask)
                          .headers["Access-Control-Allow-Origin"])
        self.assertEqual(self.daemon.anonymous().get("/v1/agents", origin=allowed).headers["Access-Control-Allow-Origin"], allowed)
        with self.api.stream(headers={"Origin": allowed}) as stream:
            self.assertEqual(stream.headers["Access-Control-Allow-Origin"], allowed)

    def test_dashboard_runs_only_its_own_script(self):
        page = self.daemon.anonymous().get("/")
        policy = page.headers["Content-Security-Policy"]
        for directive in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "require-trusted-types-for 'script'"):
            self.assertIn(directive, policy)
        self.assertEqual([inline for inline in re.findall(rb"<(?:script|style)\b[^>]*>([^<]+)<", page.raw) if inline.strip()], [])
        self.assertNotIn("unsafe", policy)
        self.assertIn("frame-ancestors 'none'", policy)
        for reply in (page, self.api.get("/v1/agents"), self.daemon.anonymous().get("/nowhere")):
            self.assertEqual(reply.headers.get_all("X-Content-Type-Options"), ["nosniff"])
        self.assertEqual(page.headers["X-Frame-Options"], "DENY")


class Closed(Case):
    """Without allowed origins nothing speaks of CORS."""

    def test_no_cors(self):
        reply = self.api.get("/v1/agents", origin="https://chat.example.org")
        self.assertFalse([name for name in reply.headers if name.lower().startswith(("access-control", "vary"))])


class Rates(Case):
    config = {"limits": {"requestsPerSecond": 20, "failedLoginsPerMinute": 5}}

    def test_requests_of_a_token(self):
        viewer, other = self.daemon.client(self.daemon.token("viewer")), self.daemon.client(self.daemon.token("viewer"))
        replies = [viewer.get("/v1/whoami") for _ in range(200)]
        granted = [r for r in replies if r.status == 200]
        self.assertGreaterEqual(len(granted), 20)
        refused = [r for r in replies if r.status != 200]
        self.assertTrue(refused)
        self.problem(refused[0], 429, "too_many_requests")
        self.assertEqual(refused[0].headers["Retry-After"], "1")
        self.assertEqual((granted[0].headers["RateLimit-Limit"], granted[0].headers["RateLimit-Remaining"]), ("20", "19"))
        self.assertLessEqual(int(granted[0].headers["RateLimit-Reset"]), 1)
        self.ok(other.get("/v1/whoami"))
        self.ok(self.daemon.local().get("/v1/whoami"))

    def test_wrong_tokens(self):
        wrong = self.daemon.admin_token[:-1] + ("x" if self.daemon.admin_token[-1] != "x" else "y")
        answers = [self.daemon.anonymous().get("/v1/agents", authorization="Bearer " + wrong).status for _ in range(9)]
        self.assertEqual((answers[:5], set(answers[6:])), ([401] * 5, {429}))
        limited = self.daemon.anonymous().post("/v1/login", {"token": wrong})
        self.problem(limited, 429, "too_many_requests")
        self.assertGreaterEqual(int(limited.headers["Retry-After"]), 1)
        self.problem(self.daemon.anonymous().get("/v1/agents"), 401, "unauthorized")  # has not guessed
        self.ok(self.api.get("/v1/agents"))                                           # is not kept out


class Audit(Case):
    config = {"audit": {"maxBytes": 65536}}

    def lines(self, count=100):
        return self.ok(self.api.get(f"/v1/admin/audit?limit={count}"))["data"]

    def test_an_ephemeral_session_is_named_by_a_hash_only(self):
        word = uid().lower()
        key = f"agent:main:slack:direct:eph{word}"
        made = self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.say(key, "x")
        self.ok(self.api.post("/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": "eph" + word, "text": "hi"}), 200, 201)
        self.ok(self.api.patch(S(made["sessionId"]), {"label": "x"}), 200)
        self.ok(self.api.delete(S(key.replace(":direct:", ":dm:"))), 204)
        self.problem(self.api.post(S(key, "main", "reset"), {}), 404)
        named = [line["key"] for line in self.lines() if str(line.get("key")).startswith("ephemeral:")]
        self.assertEqual(len(named), 5)
        said = (self.daemon.state / "audit.jsonl").read_text()
        self.assertEqual((word in said, made["sessionId"] in said), (False, False))
        self.new(key)
        self.say(key, "x")
        self.assertIn(key, [line.get("key") for line in self.lines(10)])

    def test_a_line_says_in_whose_name_and_whether_it_was_a_dry_run(self):
        api = self.spawn().client()
        key, hidden = (f"agent:main:slack:direct:{uid()}" for _ in range(2))
        self.new(key, api=api)
        self.ok(api.post("/v1/agents/main/sessions", {"key": hidden, "ephemeral": True}), 201)
        for each in (key, hidden):
            self.ok(api.post(S(each, "main", "takeover"), {"name": "Hanne"}), 200)
        self.ok(api.post(S(key, "main", "handback"), {"dryRun": True}), 200)
        self.ok(api.post(S(key, "main", "handback"), {}), 200)
        self.ok(api.post("/v1/admin/maintenance", {}), 200)
        lines = self.ok(api.get("/v1/admin/audit?limit=5"))["data"]
        told = [(line["route"].split("/")[-1], line.get("person"), line.get("dryRun")) for line in lines]
        self.assertEqual(told, [("takeover", "Hanne", None), ("takeover", None, None), ("handback", None, True), ("handback", None, None), ("maintenance", None, True)])

    def test_every_write_and_refusal_and_nothing_that_was_said(self):
        key = f"agent:main:slack:channel:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key}), 201)
        said = uid()
        self.say(key, "the word is " + said)
        self.api.get(S(key))                                       # a read is nobody's business
        self.api.patch(S(key), {"x": 1}, if_match='"r999999"')
        inbound = self.inbound(text="hello " + said)
        viewer = self.daemon.client(self.daemon.token("viewer"))
        viewer.post(S(key, "main", "messages"), {"role": "user", "text": said})
        self.daemon.anonymous().get("/v1/agents", x_request_id="audit-1")
        lines = self.lines()
        of_key = [(l["method"], l["route"], l["status"], l.get("code")) for l in lines if l.get("key") == key]
        session = "/v1/agents/{agent}/sessions/{key}"
        self.assertEqual(of_key, [("POST", session + "/messages", 201, None), ("PATCH", session, 412, "precondition_failed"),
                                  ("POST", session + "/messages", 403, "forbidden")])
        self.assertEqual([l["status"] for l in lines if l.get("key") == inbound["sessionKey"]], [201])
        refused = next(l for l in lines if l["requestId"] == "audit-1")
        self.assertEqual((refused["actor"], refused["status"], refused["code"]), ("", 401, "unauthorized"))
        self.assertTrue(refused["peer"].startswith("127.0.0.1:"))
        self.assertNotIn(said, (self.daemon.state / "audit.jsonl").read_text())
        self.assertEqual((self.daemon.state / "audit.jsonl").stat().st_mode & 0o777, 0o600)

    def test_rotates(self):
        daemon = self.spawn({"audit": {"maxBytes": 65536}})
        api, key = daemon.client(), f"agent:main:slack:channel:{uid()}"
        for _ in range(800):
            api.patch(S(key), {})  # 404: not a write that happens, but one that was tried
        newest = self.ok(api.get("/v1/admin/audit?limit=1000"))["data"]
        files = sorted(f.name for f in daemon.state.glob("audit.jsonl*"))
        self.assertEqual(files[:2], ["audit.jsonl", "audit.jsonl.1"])
        for file in files:
            text = (daemon.state / file).read_text()
            self.assertLess(len(text), 66_000)
            self.assertTrue(all(json.loads(line) for line in text.splitlines()))
        self.assertEqual(len([l for l in newest if l["method"] == "PATCH"]), 800)

    def test_lines_survive_a_stop(self):
        daemon = self.spawn()
        daemon.client().patch(S("nothing"), {}, x_request_id="last-one")
        daemon.stop()
        self.assertIn("last-one", (daemon.state / "audit.jsonl").read_text())

    def test_none_when_not_wanted(self):
        daemon = self.spawn({"audit": {"path": None}})
        daemon.client().patch(S("nothing"), {})
        self.problem(daemon.client().get("/v1/admin/audit"), 404, "not_found")
        self.assertFalse(list(daemon.state.glob("audit*")))


class Bodies(Case):
    """Nobody's body is waited for who would be refused whatever it says."""

    def begun(self, path, token=None, **headers):
        """The answer to a request of which only the head and a first piece are sent."""
        head = {"Host": "localhost", "Content-Type": "application/json", **({"Authorization": "Bearer " + token} if token else {}), **headers}
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in head.items())
        return self.daemon.raw(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + b"1000\r\n" + b"x" * 100)

    def test_strangers_are_told_before_their_body(self):
        viewer = self.daemon.token("viewer")
        long, chunks = {"Content_Length": 8 << 20}, {"Transfer_Encoding": "chunked"}
        path = "/v1/agents/main/sessions"
        for framing in (long, chunks):
            for token, where, status in ((None, path, 401), (viewer[:-1] + "_", path, 401), (viewer, path, 403), (viewer, "/nowhere", 404),
                                         (viewer, "/v1/agents", 405)):
                with self.subTest(status=status, **framing):
                    reply = self.begun(where, token, **framing)
                    self.assertEqual((reply.status, reply.closed), (status, True), reply)

    def test_a_login_is_short(self):
        self.problem(self.begun("/v1/login", Content_Length=8 << 20), 413, "content_too_large")
        piece = b"fff\r\n" + b"x" * 0xfff + b"\r\n"
        head = b"POST /v1/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.problem(self.daemon.raw(head + piece * 8), 413, "content_too_large")

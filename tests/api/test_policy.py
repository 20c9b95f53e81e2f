"""Send policy: the store-wide rules, a session's own, and evaluation with its explanation."""

import stat

from harness.case import Case, S, json, uid

RULES = {"default": "allow", "rules": [
    {"match": {"channel": "discord", "chatType": "group"}, "action": "deny"},
    {"match": {"keyPrefix": "agent:main:slack:"}, "action": "allow"},
    {"match": {"chatType": "dm"}, "action": "deny"},
    {"match": {"to": "+1555", "accountId": "biz"}, "action": "deny"},
    {"match": {"rawKeyPrefix": "agent:codex:"}, "action": "deny"},
]}


class SendPolicy(Case):
    def put(self, policy, api=None):
        api = api or self.api
        return api.put("/v1/policy/send", policy, if_match=api.get("/v1/policy/send").etag)

    def evaluate(self, **body):
        return self.ok(self.api.post("/v1/policy/evaluate", body), 200)

    def test_get(self):
        reply = self.api.get("/v1/policy/send")
        body = self.ok(reply, 200)
        self.assertIsInstance(body["rules"], list)
        self.assertIn("default", body)
        self.assertTrue(reply.etag)

    def test_put_needs_if_match(self):
        self.ok(self.api.put("/v1/policy/send", {"rules": []}, if_match="*"), 200)
        before = self.api.get("/v1/policy/send")
        self.problem(self.api.put("/v1/policy/send", RULES), 428, "precondition_required")
        reply = self.api.put("/v1/policy/send", RULES, if_match='"nonsense"')
        self.problem(reply, 412, "precondition_failed")
        self.assertEqual(reply.etag, before.etag, "412 tells the current ETag")
        reply = self.api.put("/v1/policy/send", RULES, if_match=before.etag)
        self.ok(reply, 200)
        after = self.api.get("/v1/policy/send")
        self.assertEqual(reply.etag, after.etag)
        self.assertNotEqual(after.etag, before.etag)
        self.assertEqual(after.json["rules"], RULES["rules"])
        self.problem(self.api.put("/v1/policy/send", RULES, if_match=before.etag), 412)

    def test_put_is_validated(self):
        before = self.api.get("/v1/policy/send").raw
        self.invalid(self.put({"default": "maybe", "rules": []}), "/default")
        self.invalid(self.put({"rules": [{"match": {"channle": "slack"}, "action": "deny"},
                                         {"match": {}, "action": "shout"}]}),
                     "/rules/0/match/channle", "/rules/1/action")
        self.invalid(self.put({"evaluation": "dice", "rules": []}), "/evaluation")
        self.invalid(self.put({"rules": [], "ruels": []}), "/ruels")
        self.invalid(self.put({"rules": [{"match": {"chatType": "crowd"}, "action": "deny"}]}),
                     "/rules/0/match/chatType")
        self.assertEqual(json.loads(before)["rules"], self.api.get("/v1/policy/send").json["rules"])

    def test_persists_and_applies_at_once(self):
        daemon = self.spawn({"sendPolicy": {"default": "allow",
                                            "rules": [{"match": {"channel": "irc"}, "action": "deny"}]}})
        api = daemon.client()
        self.assertEqual(api.get("/v1/policy/send").json["rules"], [{"match": {"channel": "irc"}, "action": "deny"}])
        self.new("agent:main:irc:direct:u", api=api)
        self.problem(api.post(S("agent:main:irc:direct:u", "main", "outbound"), {"text": "no"}), 403, "policy_denied")
        session = self.ok(api.post("/v1/inbound",
                                   {"channel": "discord", "chatType": "group", "peer": "g", "text": "x"}), 201)
        self.assertEqual(session["send"]["action"], "allow")
        self.ok(api.post(S(session["sessionKey"], "main", "outbound"), {"text": "still allowed"}), 201)
        with api.stream("/v1/events?types=policy.*") as stream:
            self.ok(self.put(RULES, api), 200)
            changed = stream.wait_type("policy.changed")
            self.assertEqual(changed.data["data"]["policy"]["rules"], RULES["rules"])
        denied = self.problem(api.post(S(session["sessionKey"], "main", "outbound"), {"text": "no"}), 403,
                              "policy_denied")
        self.assertEqual(denied["rule"], 0)
        path = daemon.state / "policy.json"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(json.loads(path.read_bytes())["rules"], RULES["rules"])
        daemon.restart(kill=True)
        self.assertEqual(api.get("/v1/policy/send").json["rules"], RULES["rules"],
                         "what was PUT stands before the configuration")
        self.problem(api.post(S(session["sessionKey"], "main", "outbound"), {"text": "no"}), 403, "policy_denied")

    def test_evaluate_first_match(self):
        self.ok(self.put(RULES), 200)
        table = [
            ({"channel": "discord", "chatType": "group"}, "deny", "rule", 0),
            ({"channel": "Discord", "chatType": "GROUP"}, "deny", "rule", 0),
            ({"channel": "discord", "chatType": "channel"}, "allow", "default", None),
            ({"sessionKey": "agent:main:slack:direct:u1"}, "allow", "rule", 1),
            ({"sessionKey": "agent:main:telegram:direct:u1"}, "deny", "rule", 2),
            ({"sessionKey": "agent:main:telegram:dm:u1"}, "deny", "rule", 2),
            ({"chatType": "direct", "channel": "x"}, "deny", "rule", 2),
            ({"channel": "whatsapp", "chatType": "group", "to": "+1555", "accountId": "biz"}, "deny", "rule", 3),
            ({"channel": "whatsapp", "chatType": "group", "to": "+1555"}, "allow", "default", None),
            ({"sessionKey": "agent:codex:whatsapp:group:g"}, "deny", "rule", 4),
            ({}, "allow", "default", None),
        ]
        for case, action, source, rule in table:
            with self.subTest(case):
                body = self.evaluate(**case)
                self.assertEqual((body["action"], body["source"], body["rule"]), (action, source, rule))
        many = self.ok(self.api.post("/v1/policy/evaluate", {"cases": [case for case, *_ in table]}), 200)["results"]
        self.assertEqual([(r["action"], r["source"], r["rule"]) for r in many], [tuple(row[1:]) for row in table])

    def test_trace_explains(self):
        self.ok(self.put(RULES), 200)
        trace = self.evaluate(channel="discord", chatType="channel")["trace"]
        self.assertEqual([t["rule"] for t in trace], [0, 1, 2, 3, 4])
        self.assertFalse([t for t in trace if t["matched"]])
        self.assertIn("chatType", trace[0]["because"])
        trace = self.evaluate(channel="discord", chatType="group")["trace"]
        self.assertEqual((trace[-1]["rule"], trace[-1]["matched"]), (0, True))

    def test_evaluate_with_another_policy(self):
        before = self.api.get("/v1/policy/send")
        policy = {"evaluation": "deny-overrides", "default": "allow", "rules": [
            {"match": {"channel": "slack"}, "action": "allow"},
            {"match": {"keyPrefix": "slack:direct:"}, "action": "deny"}]}
        body = self.evaluate(sessionKey="agent:main:slack:direct:u1", policy=policy)
        self.assertEqual((body["action"], body["rule"]), ("deny", 1), "any matching deny wins")
        del policy["evaluation"]
        body = self.evaluate(sessionKey="agent:main:slack:direct:u1", policy=policy)
        self.assertEqual((body["action"], body["rule"]), ("allow", 0))
        body = self.evaluate(channel="slack", policy={"default": "deny", "rules": []})
        self.assertEqual((body["action"], body["source"], body["rule"]), ("deny", "default", None))
        body = self.evaluate(channel="slack", policy={"rules": []})
        self.assertEqual((body["action"], body["source"]), ("allow", "none"))
        self.assertEqual(self.api.get("/v1/policy/send").etag, before.etag, "nothing is kept")
        self.problem(self.api.post("/v1/policy/evaluate", {"channel": "x", "policy": {"rules": "all"}}), 422,
                     "validation_failed")
        self.problem(self.api.post("/v1/policy/evaluate", {"chanel": "x"}), 422, "validation_failed")

    def test_evaluate_uses_the_sessions_entry(self):
        self.ok(self.put(RULES), 200)
        session = self.new(f"agent:main:odd:{uid()}", channel="discord", chatType="group")
        body = self.evaluate(sessionKey=session["key"])
        self.assertEqual((body["action"], body["rule"]), ("deny", 0))
        for action, source, rule, status in (("deny", "session", None, 403), ("inherit", "rule", 0, 403), ("allow", "session", None, 201)):
            self.ok(self.api.put(S(session["key"], "main", "send-policy"), {"action": action}), 200)
            body = self.evaluate(sessionKey=session["key"])
            self.assertEqual((body["action"], body["source"], body["rule"]), ("deny" if status == 403 else "allow", source, rule))
            self.assertEqual(self.api.post(S(session["key"], "main", "outbound"), {"text": "x"}).status, status, action)

    def test_of_a_session(self):
        path = S(self.new()["key"], "main", "send-policy")
        self.assertEqual(self.ok(self.api.get(path), 200)["action"], "inherit")
        self.ok(self.api.put(path, {"action": "deny"}), 200)
        self.assertEqual(self.api.get(path).json["action"], "deny")
        self.assertEqual(self.api.get(path.removesuffix("/send-policy")).json["sendPolicy"], "deny")
        self.ok(self.api.put(path, {"action": "inherit"}), 200)
        self.assertEqual(self.api.get(path).json["action"], "inherit")
        self.assertNotIn("sendPolicy", self.api.get(path.removesuffix("/send-policy")).json)
        self.invalid(self.api.put(path, {"action": "perhaps"}), "/action")
        self.invalid(self.api.put(path, {}), "/action")
        self.problem(self.api.get(S("agent:main:no:such", "main", "send-policy")), 404, "session_not_found")

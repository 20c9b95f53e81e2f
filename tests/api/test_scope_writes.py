"""Writes that would reach over the edge of a scope: what they would open stays shut, and a bridge can do its work
inside."""

from harness.case import Case, S, uid


class Reaching(Case):

    def bridge(self, role="bridge", daemon=None, **scope):
        daemon = daemon or self.daemon
        return daemon.client(daemon.token(role, **{"agents": ["codex"], "channel": "slack", **scope}))

    def inside(self, api=None, channel="slack"):
        return self.inbound(api, agent="codex", channel=channel, chatType="group", peer="c" + uid())["sessionKey"]

    def test_a_bridge_can_do_its_work(self):
        bridge = self.bridge()
        with bridge.stream("/v1/events") as stream, bridge.stream("/v1/agents/codex/events?types=message.*") as messages:
            stream.wait_type("stream.hello")
            messages.wait_type("stream.hello")
            body = {"agent": "codex", "channel": "slack", "chatType": "group", "peer": "c1", "from": "u1", "text": "hello"}
            made = self.ok(bridge.post("/v1/inbound", body, idempotency_key="slack:1"), 201)
            again = bridge.post("/v1/inbound", body, idempotency_key="slack:1")
            self.assertEqual((again.status, again.headers["Idempotency-Replayed"]), (201, "true"))
            path = S(made["sessionKey"], "codex")
            self.ok(bridge.put(path + "/route", {"channel": "slack", "to": "c1"}), 200)
            sent = self.ok(bridge.post(path + "/outbound", {"text": "answer"}), 201)
            messages.wait_for(lambda e: e.data.get("data", {}).get("deliver"))
            stream.wait_type("session.created")
            self.assertEqual(len(self.ok(bridge.get(path + "/messages"), 200)["data"]), 2)
            self.ok(bridge.get(f"{path}/messages/{sent['messageId']}"), 200)
            for what in ("", "/transcript", "/topics", "/history", "/children", "/send-policy"):
                self.assertEqual(bridge.get(path + what).status, 200, what)
            with bridge.stream(path + "/events?replay=10") as session:
                session.wait_type("message.appended")
            self.assertIn(made["sessionKey"], [s["key"] for s in self.ok(bridge.get("/v1/sessions"), 200)["data"]])
            self.assertEqual([a["agent"] for a in self.ok(bridge.get("/v1/agents"), 200)["data"]], ["codex"])

    def test_a_session_cannot_be_moved_out_of_the_scope(self):
        key = self.inside()
        for api in (self.bridge(), self.bridge("operator")):
            self.problem(api.put(S(key, "codex", "route"), {"channel": "discord", "to": "x"}), 403, "forbidden")
        elsewhere = ({"channel": "discord"}, {"deliveryContext": {"channel": "discord", "to": "x"}},
                     {"lastChannel": "discord", "lastTo": "x"}, {"lastProvider": "discord", "lastTo": "x"},
                     {"lastChannel": None, "deliveryContext": None, "lastProvider": "Discord", "lastTo": "x"},
                     {"lastChannel": None, "deliveryContext": {"channel": "discord", "to": "x"}})
        for patch in elsewhere:
            self.problem(self.bridge("runner").patch(S(key, "codex"), patch), 403, "forbidden")
            fields = {"channel": "slack", **{name: value for name, value in patch.items() if value}}
            self.problem(self.bridge("runner").put(S(key, "codex"), fields), 403, "forbidden")
            self.problem(self.bridge("runner").post(S(key, "codex", "spawn"), {"entry": fields}), 403, "forbidden")
            new = {"key": "agent:codex:slack:group:" + uid(), "entry": fields}
            self.problem(self.bridge("runner").post("/v1/agents/codex/sessions", new), 403, "forbidden")
        self.ok(self.bridge("runner").patch(S(key, "codex"), {"lastProvider": "slack", "lastTo": "c2"}), 200)
        self.assertEqual(self.ok(self.api.get(S(key, "codex")), 200)["channel"], "slack")

    def test_a_child_outside_the_scope_cannot_be_made(self):
        key, runner = self.inside(), self.bridge("runner")
        self.problem(runner.post(S(key, "codex", "spawn"), {"entry": {"channel": "discord"}}), 403, "forbidden")
        for entry in ({}, {"channel": "slack"}):
            child = self.ok(runner.post(S(key, "codex", "spawn"), {"entry": entry}), 201)
            self.ok(runner.get(S(child["key"], "codex")), 200)

    def test_another_transcript_cannot_be_named(self):
        hidden = self.inside(channel="discord")
        secret = self.say(hidden, "secret " + uid(), agent="codex")
        file = self.ok(self.api.get(S(hidden, "codex")), 200)["sessionId"] + ".jsonl"
        key, runner = self.inside(), self.bridge("runner")
        self.problem(runner.patch(S(key, "codex"), {"sessionFile": file}), 403, "forbidden")
        self.problem(runner.put(S(key, "codex"), {"channel": "slack", "sessionFile": file}), 403, "forbidden")
        made = {"key": "agent:codex:slack:group:" + uid(), "entry": {"sessionFile": file}}
        self.problem(runner.post("/v1/agents/codex/sessions", made), 403, "forbidden")
        spawn = {"entry": {"channel": "slack", "sessionFile": file}}
        self.problem(runner.post(S(key, "codex", "spawn"), spawn), 403, "forbidden")
        self.assertNotIn(secret["ids"][0].encode(), runner.get(S(key, "codex", "messages")).raw)
        self.ok(self.api.patch(S(key, "codex"), {"sessionFile": file}), 200)  # who sees the whole agent may

    def test_whose_a_session_id_is_is_not_told(self):
        hidden = self.inside(channel="discord")
        taken = self.ok(self.api.get(S(hidden, "codex")), 200)["sessionId"]
        runner = self.bridge("runner")
        body = {"key": "agent:codex:slack:group:" + uid(), "sessionId": taken}
        reply = runner.post("/v1/agents/codex/sessions", body)
        self.problem(reply, 409, "session_exists")
        self.assertNotIn(hidden.encode(), reply.raw)

    def test_a_key_of_the_channel_stays_the_channels(self):
        key, bridge = self.inside(), self.bridge()
        self.ok(self.api.patch(S(key, "codex"), {"channel": "discord"}), 200)
        self.problem(bridge.get(S(key, "codex")), 404, "session_not_found")
        self.inbound(bridge, agent="codex", channel="slack", chatType="group", peer=key.rsplit(":", 1)[1])
        self.ok(bridge.get(S(key, "codex")), 200)

    def test_deleting_what_may_be_missing(self):
        hidden, runner = self.inside(channel="discord"), self.bridge("runner")
        self.ok(runner.delete(S(hidden, "codex") + "?missing=ok"), 204)
        self.problem(runner.delete(S(hidden, "codex")), 404, "session_not_found")
        self.ok(self.api.get(S(hidden, "codex")), 200)
        self.ok(self.api.delete(S("agent:nosuch:x", "nosuch") + "?missing=ok"), 204)

    def test_what_counts_everything_is_for_who_sees_everything(self):
        for role in ("operator", "admin", "metrics"):
            narrow = self.daemon.client(self.daemon.token(role, agents=["codex"]))
            self.problem(narrow.get("/metrics"), 403, "forbidden")
        self.problem(self.bridge("operator").post("/v1/admin/checkpoint"), 403, "forbidden")
        self.problem(self.bridge("operator").post("/v1/admin/locks/codex/evict"), 403, "forbidden")
        self.assertEqual(self.ok(self.bridge("operator").get("/v1/admin/locks"), 200)["data"], [])

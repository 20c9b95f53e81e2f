"""A conversation that several channels reach (session.dmScope, identityLinks): each bridge brings and delivers what is
its own, and no token that is limited to a channel sees what was said there."""

import json

from harness.case import Case, S, text_of, uid
from harness.sessiond import eventually
from test_files import replace_store

KEY = "agent:main:main"


class Shared(Case):
    config = {"session": {"dmScope": "main"}}

    def setUp(self):
        super().setUp()
        self.other = self.spawn(self.config)
        self.api = self.other.client()
        self.slack, self.discord = (self.limited("bridge", channel) for channel in ("slack", "discord"))

    def limited(self, role, channel):
        return self.other.client(self.other.token(role, channel=channel))

    def bring(self, api, channel, status=201, **body):
        return self.inbound(api, status, **{"channel": channel, "chatType": "direct", "peer": "u1", "messageId": uid(), **body})

    def hidden(self, api, word):
        """Nothing that the token may ask for shows the session or the word."""
        self.problem(api.get(S(KEY)), 404, "session_not_found")
        for what in ("messages", "transcript", "context", "export?format=json", "history", "events", "archives"):
            self.problem(api.get(S(KEY, "main", what)), 404, "session_not_found")
        self.assertEqual(self.ok(api.get("/v1/sessions?archived=any"), 200)["data"], [])
        self.assertEqual(self.ok(api.get("/v1/agents/main/archives"), 200)["data"], [])
        self.assertNotIn(word.encode(), api.get("/v1/agents/main/export").raw)
        self.assertEqual(self.ok(api.get("/v1/search?archived=any&q=" + word), 200)["data"], [])


class TestBridges(Shared):

    def test_the_people_of_each_channel_are_taken_into_the_session_that_routing_gives(self):
        one = self.bring(self.discord, "discord", text="from discord")
        two = self.bring(self.slack, "slack", text="from slack")
        self.assertEqual((one["sessionKey"], two["sessionKey"], two["sessionId"]), (KEY, KEY, one["sessionId"]))
        self.assertEqual(two["created"], False)
        self.assertEqual(self.texts(KEY, api=self.api), ["from discord", "from slack"])
        self.assertEqual(self.ok(self.api.get(S(KEY)), 200)["channels"], ["discord", "slack"])

    def test_a_bridge_changes_its_own_peoples_messages_alone(self):
        self.bring(self.discord, "discord", text="from discord", messageId="d1")
        self.bring(self.slack, "slack", text="from slack", messageId="s1")
        there = {"channel": "slack", "peer": "u1", "messageId": "s1"}
        self.ok(self.slack.post("/v1/inbound/reactions", {**there, "emoji": "+1", "from": "Ada"}), 200, 201)
        self.ok(self.slack.post("/v1/inbound/edits", {**there, "text": "from Slack"}), 200, 201)
        self.assertEqual(self.texts(KEY, api=self.api), ["from discord", "from Slack"])
        self.ok(self.slack.post("/v1/inbound/deletes", there), 200, 201)
        self.assertEqual(self.texts(KEY, api=self.api)[0], "from discord")
        theirs = {"channel": "discord", "peer": "u1", "messageId": "d1"}
        self.assertTrue(self.ok(self.slack.post("/v1/inbound/deletes", theirs), 202)["early"], "as one that did not come")
        self.assertEqual(self.texts(KEY, api=self.api)[0], "from discord")
        self.ok(self.slack.post(S(KEY, "main", "typing"), {"from": "Ada"}), 204)
        telegram = self.limited("bridge", "telegram")
        self.problem(telegram.post(S(KEY, "main", "typing"), {"from": "Ada"}), 404, "session_not_found")
        self.problem(self.slack.post(S(KEY, "main", "outbound"), {"text": "as the agent"}), 404, "session_not_found")

    def test_a_bridge_gets_the_answers_to_its_own_people(self):
        for api, channel in ((self.slack, "slack"), (self.discord, "discord")):
            self.assertEqual(api.post("/v1/deliveries/claim", {"channel": channel}).status, 204)  # it is there now
        for api, channel in ((self.discord, "discord"), (self.slack, "slack")):
            run = self.bring(api, channel, text="from " + channel)["run"]["runId"]
            claimed = self.ok(self.api.post("/v1/agents/main/runs/claim", {"waitMs": 5000}), 200)
            self.assertEqual(claimed["runId"], run)
            body = {"fence": claimed["lease"]["fence"], "status": "done",
                    "entries": [{"role": "assistant", "text": "to " + channel}]}
            self.ok(self.api.post(S(KEY, "main", f"runs/{run}/finish"), body), 200)
            other = self.slack if api is self.discord else self.discord
            self.assertEqual(other.post("/v1/deliveries/claim", {"waitMs": 0}).status, 204)
            got = self.ok(api.post("/v1/deliveries/claim", {"waitMs": 5000}), 200)["data"]
            self.assertEqual([d["text"] for d in got], ["to " + channel])
            self.problem(other.get("/v1/deliveries/" + got[0]["deliveryId"]), 404, "delivery_not_found")
            ack = {"attempt": got[0]["attempt"], "platformMessageId": uid()}
            self.ok(api.post(f"/v1/deliveries/{got[0]['deliveryId']}/ack", ack), 200)

    def test_a_run_that_was_claimed_before_another_channel_came_is_finished_by_its_holder(self):
        runner = self.limited("runner", "slack")
        self.assertEqual(self.slack.post("/v1/deliveries/claim", {"channel": "slack"}).status, 204)
        run = self.bring(self.slack, "slack")["run"]["runId"]
        lease = self.ok(runner.post("/v1/agents/main/runs/claim", {"waitMs": 5000}), 200)["lease"]["fence"]
        self.bring(self.discord, "discord")
        there = S(KEY, "main", f"runs/{run}")
        step = {"fence": lease, "events": [{"type": "step.started", "step": 1}]}
        self.ok(runner.post(there + "/events", step), 200, 202, 204)
        body = {"fence": lease, "status": "done", "entries": [{"role": "assistant", "text": "the answer"}]}
        self.problem(self.limited("runner", "slack").post(there + "/finish", body), 404, "session_not_found")
        self.problem(runner.patch(S(KEY), {"label": "mine"}), 404, "session_not_found")
        self.ok(runner.post(there + "/finish", body), 200)
        got = self.ok(self.slack.post("/v1/deliveries/claim", {"waitMs": 5000}), 200)["data"]
        self.assertEqual([d["text"] for d in got], ["the answer"])

    def test_a_key_prefix_holds_for_a_shared_conversation_too(self):
        self.bring(self.discord, "discord")
        narrow = self.other.client(self.other.token("bridge", channel="slack", keyPrefix="agent:main:slack:"))
        self.bring(narrow, "slack", 403)
        self.assertEqual(len(self.texts(KEY, api=self.api)), 1)


class TestSight(Shared):

    def test_what_several_channels_said_is_hidden_from_each(self):
        word = "zebra" + uid()
        self.bring(self.discord, "discord", text=word)
        self.ok(self.discord.get(S(KEY, "main", "messages")), 200)
        self.bring(self.slack, "slack", text="one of slack")
        eventually(lambda: self.ok(self.api.get("/v1/search?q=" + word), 200)["data"])
        for kill in (None, False, True):
            if kill is not None:
                self.other.restart(kill=kill)
                eventually(lambda: self.ok(self.api.get("/v1/search?q=" + word), 200)["data"])
            for channel in ("slack", "discord"):
                self.hidden(self.limited("viewer", channel), word)
                self.hidden(self.limited("runner", channel), word)

    def test_streams_tell_no_other_channel_what_was_said(self):
        word = "zebra" + uid()
        viewer = self.limited("viewer", "slack")
        for channel in ("discord", "slack", "discord"):
            self.bring(self.api, channel, text=word if channel == "discord" else "of slack")
        self.say(KEY, word, api=self.api)
        self.ok(self.api.post(S(KEY, "main", "reset"), {}), 200)
        self.say(KEY, word, api=self.api)
        told = self.ok(viewer.get("/v1/events?poll=1&replay=1000"), 200)["data"]
        self.assertNotIn(word, json.dumps(told))
        self.assertEqual([e["type"] for e in told], ["message.appended"])

    def test_it_stays_hidden_over_resets_with_all_its_archives(self):
        word = "zebra" + uid()
        first = self.bring(self.discord, "discord", text=word)["sessionId"]
        self.bring(self.discord, "discord", text="/new")  # an archive of discord alone
        viewer = self.limited("viewer", "discord")
        self.ok(viewer.get(S(first, "main", "transcript")), 200)
        self.bring(self.slack, "slack", text=word)
        self.bring(self.slack, "slack", text="/new and alone again")
        for who in (viewer, self.limited("viewer", "slack")):
            self.hidden(who, word)
            self.problem(who.get(S(first, "main", "transcript")), 404, "session_not_found")
        self.ok(self.api.delete(S(KEY)), 204)
        for who in (viewer, self.limited("viewer", "slack")):
            self.problem(who.get(S(KEY, "main", "messages")), 404, "session_not_found")
        runner = self.limited("runner", "slack")
        self.problem(runner.post(S(KEY, "main", "restore"), {}), 404, "session_not_found")
        again = self.bring(self.slack, "slack", text="a new one")
        self.assertTrue(again["created"])
        self.ok(self.slack.get(S(KEY)), 200)

    def test_a_fork_and_a_restored_session_are_hidden_as_the_session_is(self):
        word = "zebra" + uid()
        self.bring(self.discord, "discord", text=word)
        self.bring(self.slack, "slack", text="one of slack")
        fork = self.ok(self.api.post(S(KEY, "main", "fork"), {"key": "agent:main:slack:direct:u9"}), 201)["key"]
        self.ok(self.api.delete(S(KEY)), 204)
        self.ok(self.api.post(S(KEY, "main", "restore"), {}), 200, 201)
        for who in (self.slack, self.discord):
            self.hidden(who, word)
            self.problem(who.get(S(fork, "main", "messages")), 404, "session_not_found")

    def test_a_child_is_hidden_as_its_parent_is(self):
        self.bring(self.discord, "discord")
        self.bring(self.slack, "slack")
        tool = self.other.client(self.other.token("session", key=KEY, agents=["main"]))
        child = self.ok(tool.post(S(KEY, "main", "spawn"), {"task": "what discord said"}), 201)["key"]
        self.ok(tool.get(S(child)), 200)
        for who in (self.slack, self.discord):
            self.problem(who.get(S(child)), 404, "session_not_found")

    def test_a_fork_into_a_key_of_another_channel_has_the_words_of_its_own(self):
        self.bring(self.discord, "discord")
        fork = self.ok(self.api.post(S(KEY, "main", "fork"), {"key": "agent:main:slack:group:g7"}), 201)["key"]
        self.bring(self.slack, "slack", chatType="group", peer="g7")
        for who in (self.slack, self.discord):
            self.problem(who.get(S(fork)), 404, "session_not_found")

    def test_an_entry_without_a_channel_keeps_that_of_its_messages(self):
        self.bring(self.discord, "discord")
        self.ok(self.api.patch(S(KEY), {"channel": None}), 200)
        self.ok(self.api.put(S(KEY, "main", "route"), {"channel": "slack", "to": "u1"}), 200)
        self.problem(self.slack.get(S(KEY)), 404, "session_not_found")
        self.ok(self.discord.get(S(KEY)), 200)

    def test_who_sent_replies_elsewhere_has_brought_no_message(self):
        self.bring(self.slack, "slack")
        self.ok(self.api.put(S(KEY, "main", "route"), {"channel": "discord", "to": "x"}), 200)
        self.ok(self.slack.get(S(KEY)), 200)
        self.bring(self.slack, "slack")
        self.ok(self.slack.get(S(KEY)), 200)
        self.problem(self.discord.get(S(KEY)), 404, "session_not_found")

    def test_channels_are_the_daemons_to_name(self):
        self.bring(self.discord, "discord")
        whole = self.ok(self.api.get(S(KEY)), 200)
        self.invalid(self.api.patch(S(KEY), {"channels": ["slack"]}), "/channels")
        for channels in ([], ["slack"], [None], "slack", {"a": 1}):
            body = {"sessionId": whole["sessionId"], "channel": "discord", "channels": channels}
            self.invalid(self.api.put(S(KEY), body), "/channels")
            body["sessionId"] = uid()
            self.invalid(self.limited("operator", "slack").put(S("agent:main:new"), {**body, "channel": "slack"}), "/channels")
        self.bring(self.slack, "slack", provider="Slack Enterprise")
        whole = self.ok(self.api.get(S(KEY)), 200)
        self.assertEqual(whole["channels"], ["discord", "slack"])
        self.ok(self.api.put(S(KEY), {name: whole[name] for name in ("sessionId", "channel", "channels", "lastChannel")}), 200)
        self.ok(self.api.put(S(KEY), {"sessionId": whole["sessionId"], "channel": "slack"}), 200)
        self.assertEqual(self.ok(self.api.get(S(KEY)), 200)["channels"], ["discord", "slack"])

    def test_a_name_of_its_own_for_the_provider_is_no_other_channel(self):
        self.bring(self.slack, "slack", provider="slack-enterprise")
        self.ok(self.slack.get(S(KEY)), 200)

    def test_streams_tell_a_bridge_of_its_own_messages_and_deliveries_alone(self):
        with self.slack.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            self.assertEqual(self.slack.post("/v1/deliveries/claim", {"channel": "slack"}).status, 204)
            self.bring(self.discord, "discord", text="from discord")
            self.bring(self.slack, "slack", text="from slack", messageId="s1")
            self.bring(self.discord, "discord", text="from discord again")
            self.say(KEY, "noted", api=self.api)
            self.ok(self.api.post(S(KEY, "main", "outbound"), {"text": "to discord"}), 201)
            self.ok(self.api.put(S(KEY, "main", "route"), {"channel": "slack", "to": "u1"}), 200)
            self.ok(self.api.post(S(KEY, "main", "outbound"), {"text": "to slack"}), 201)
            self.ok(self.slack.post("/v1/inbound/deletes", {"channel": "slack", "peer": "u1", "messageId": "s1"}), 200, 201)
            stream.wait_type("message.deleted")
            self.assertEqual({e.data["channel"] for e in stream.events if e.type == "message.appended"}, {"slack"})
            self.assertNotIn("discord", "".join(e.raw for e in stream.events))
            told = [(e.type, text_of(e.data["data"].get("message", {})))
                    for e in stream.events if not e.type.startswith("stream.")]
        self.assertEqual(told, [("message.appended", "from slack"), ("message.appended", "to slack"),
                                ("message.appended", ""), ("message.deleted", "")])


class TestApprovals(Shared):

    def test_an_approval_names_where_the_answer_goes(self):
        run = self.bring(self.api, "slack", threadId="t7")["run"]["runId"]
        claimed = self.ok(self.api.post("/v1/agents/main/runs/claim", {"waitMs": 5000}), 200)
        body = {"runId": run, "fence": claimed["lease"]["fence"], "tool": "shell", "args": {}}
        asked = self.ok(self.api.post(S(claimed["key"], "main", "approvals"), body), 201)
        self.assertEqual((asked["channel"], asked["to"], asked["threadId"]), ("slack", "u1", "t7"))
        self.assertNotIn("topic", asked)
        events = self.ok(self.api.get("/v1/events?poll=1&replay=100&types=approval.requested"), 200)["data"]
        self.assertEqual([(e["data"]["channel"], e["data"]["to"]) for e in events], [("slack", "u1")])
        self.other.restart(kill=True)
        kept = self.ok(self.api.get("/v1/approvals"), 200)["data"]
        self.assertEqual([(a["channel"], a["to"], a["threadId"]) for a in kept], [("slack", "u1", "t7")])


class TestOtherPrograms(Case):
    """OpenClaw, whose session of all direct messages is one by default, keeps in it the channel that spoke last."""

    def setUp(self):
        super().setUp()
        self.other = self.spawn({"store": {"mode": "shared"}, "session": {"dmScope": "main"}}, start=False)
        self.file = self.other.agent_dir("main") / "sessions.json"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({KEY: {"sessionId": uid(), "updatedAt": 1_760_000_000_000,
                                               "origin": {"provider": "discord"}, "lastTo": "u1"}}))

    def store(self, channel):
        entry = json.loads(self.file.read_text())[KEY]
        entry.update({"lastChannel": channel, "deliveryContext": {"channel": channel, "to": "u1"},
                      "updatedAt": entry["updatedAt"] + 1000})
        replace_store(self.file, {KEY: entry})

    def last_channel(self):
        return self.ok(self.api.get(S(KEY), cache_control="no-cache"), 200)["lastChannel"]

    def seen(self):
        self.api = self.other.client()
        return [self.other.client(self.other.token("viewer", channel=channel)).get(S(KEY)).status
                for channel in ("discord", "slack")]

    def test_a_session_whose_origin_and_last_channel_differ_has_messages_of_both(self):
        self.store("slack")
        self.other.start()
        self.assertEqual(self.seen(), [404, 404])

    def test_a_channel_that_another_program_took_a_message_of_is_not_forgotten(self):
        self.store("discord")
        self.other.start()
        self.assertEqual(self.seen(), [200, 404])
        for channel in ("slack", "discord"):
            self.store(channel)
            eventually(lambda channel=channel: self.last_channel() == channel)
            self.assertEqual(self.seen(), [404, 404])
        self.other.restart()
        self.assertEqual(self.seen(), [404, 404])
        self.other.checkpoint()
        self.assertEqual(json.loads(self.file.read_text())[KEY]["channels"], ["discord", "slack"])

"""Edits and deletions that come before their message (daemon/api/README.md)."""

import threading

from harness.case import S, uid
from test_message_authors import ADA, BOB, CHANNEL, Group

EARLY = {"runs": {"onInbound": True}, "inbound": {"earlyChangeMs": 600_000}}


class Early(Group):
    config = EARLY

    def early(self, what, id="m1", **more):
        kept = self.ok(self.change(what, id, **more), 202)
        self.assertEqual(set(kept), {"early", "until", "asOf"})
        self.assertTrue(kept["early"])
        return kept

    def key(self):
        return f"agent:main:{CHANNEL}:group:{self.peer}"

    def test_a_message_that_was_deleted_before_it_came_is_stored_nowhere(self):
        kept = self.early("deletes")
        self.assertEqual(self.early("deletes")["until"], kept["until"], "once")
        self.restart()
        told = self.tell(ADA, "the secret", 200, mentioned=True)
        self.assertEqual([told[name] for name in ("deleted", "seq", "messageId", "activate", "run", "created")],
                         [True, None, None, False, None, False])
        self.problem(self.api.get(S(self.key())), 404)
        self.restart()
        self.assertEqual(self.tell(ADA, "the secret", 200, mentioned=True), {**told, "duplicate": True})
        self.assertTrue(self.ok(self.change("deletes"), 200)["duplicate"])
        self.problem(self.change("edits", text="x"), 404, "message_not_found")
        self.problem(self.change("reactions", emoji="+1", **{"from": "U"}), 404, "message_not_found")
        self.assertEqual(self.find(), [])
        self.tell(ADA, "other", id="m2")
        self.assertNotIn(b"the secret", b"".join(file.read_bytes() for file in self.daemon.state.rglob("*") if file.is_file()))

    def test_in_a_session_that_is_there_nothing_changes(self):
        key = self.tell(ADA, "hello", id="m0")["sessionKey"]
        before = self.ok(self.api.get(S(key)), 200)
        self.early("deletes")
        told = self.tell(ADA, "/new", 200, mentioned=True)
        self.assertEqual((told["deleted"], told["sessionId"]), (True, before["sessionId"]))
        after = self.ok(self.api.get(S(key)), 200)
        self.assertEqual({**after, "asOf": None}, {**before, "asOf": None})
        self.assertEqual(self.chat(key), ["hello"])

    def test_an_edit_before_its_message_holds_for_it(self):
        self.early("edits", text="helo, all")
        self.early("edits", text="hello, all")
        self.restart()
        self.daemon.checkpoint()
        self.restart()
        with self.api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            told = self.tell(ADA, "helo")
            taken = stream.wait_type("message.change_taken").data
            edited = stream.wait_type("message.edited").data
        self.assertEqual(taken["key"], told["sessionKey"])
        self.assertEqual(edited["data"]["target"]["id"], told["messageId"])
        key = told["sessionKey"]
        self.assertEqual(self.chat(key), ["hello, all"])
        self.assertNotIn("firstMessage", self.ok(self.api.get(S(key)), 200))
        self.restart()
        self.assertEqual(self.chat(key), ["hello, all"])
        self.assertEqual(self.tell(ADA, "helo", 200)["messageId"], told["messageId"])
        self.ok(self.change("edits", text="later"), 201)

    def test_an_edit_before_its_message_may_address_the_agent(self):
        self.early("edits", text="@bot hello", mentioned=True)
        self.early("edits", text="@bot hello!")
        told = self.tell(ADA, "hello")
        self.assertTrue(told["activate"])
        run = self.ok(self.api.post("/v1/agents/main/runs/claim", {"waitMs": 5000}), 200)
        self.assertEqual((run["runId"], run["input"]), (told["run"]["runId"], [told["messageId"]]))
        shown = self.ok(self.api.get(S(told["sessionKey"], "main", "messages") + f"?view=llm&run={run['runId']}"), 200)["data"]
        self.assertIn("@bot hello!", str(shown[-1]["content"]))

    def test_an_edit_in_a_new_topic_of_a_new_session(self):
        self.early("edits", text="hello, all")
        told = self.tell(ADA, "helo", topic="t1")
        rows = self.ok(self.api.get(S(told["sessionKey"], "main", "messages") + "?view=chat&topic=t1"), 200)["data"]
        self.assertEqual([row["text"] for row in rows], ["hello, all"])

    def test_a_deletion_stands_before_its_message_too(self):
        self.early("edits", text="x")
        self.early("deletes")
        self.early("edits", text="back")
        self.assertTrue(self.tell(ADA, "hello", 200)["deleted"])

    def test_a_change_is_of_one_message(self):
        self.early("deletes", target={"from": "+49"})
        first = self.tell(ADA, "hello")
        self.assertTrue(self.tell(BOB, "hi", 200)["deleted"])
        self.early("deletes", "m2", accountId="work")
        self.tell(ADA, "hello", id="m2")
        self.assertTrue(self.tell(ADA, "hello", 200, id="m2", accountId="Work")["deleted"])
        self.assertEqual(self.chat(first["sessionKey"]), ["hello", "hello"])

    def test_an_ephemeral_session_takes_a_deletion_and_tells_no_file(self):
        key = self.key()
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.early("deletes")
        self.problem(self.change("edits", "m2", text="words for nobody"), 404, "message_not_found")
        for _ in range(2):
            self.assertTrue(self.tell(ADA, "hello", 200, mentioned=True)["deleted"])
        self.assertTrue(self.ok(self.change("deletes"), 200)["duplicate"])
        self.problem(self.change("edits", text="x"), 404, "message_not_found")
        self.tell(ADA, "m2", id="m2")
        self.assertEqual(self.chat(key), ["m2"])
        self.daemon.checkpoint()
        files = b"".join(file.read_bytes() for file in self.daemon.state.rglob("*") if file.is_file())
        self.assertNotIn(b"words for nobody", files)

    def test_a_deleted_message_is_known_beside_another_persons(self):
        self.early("deletes")
        self.tell(ADA, "the secret", 200)
        self.tell(BOB, "hi")
        self.invalid(self.change("deletes"), "/target/from")
        self.invalid(self.change("edits", text="x"), "/target/from")
        self.assertTrue(self.ok(self.change("deletes", target={"from": "+44"}), 200)["duplicate"])
        self.tell(BOB, "hi", id="m2")
        self.early("deletes", "m2", target={"from": "+44"})
        self.tell(ADA, "the secret", 200, id="m2")
        self.assertTrue(self.ok(self.change("deletes", "m2", target={"from": "+44"}), 200)["duplicate"])
        self.invalid(self.change("deletes", "m2"), "/target/from")
        self.assertEqual([row["content"][0]["text"] for row in self.find()], ["hi"])

    def test_the_agents_own_message_may_be_deleted_before_its_ack(self):
        key = self.tell(ADA, "hello", id="m0")["sessionKey"]
        self.ok(self.api.post("/v1/deliveries/claim", {"channel": CHANNEL}), 204)
        sent = []
        for text in ("one", "two"):
            self.ok(self.api.post(S(key, "main", "outbound"), {"text": text}), 201)
            sent += self.ok(self.api.post("/v1/deliveries/claim", {"channel": CHANNEL}), 200)["data"]
            self.early("deletes" if text == "one" else "edits", text, **({} if text == "one" else {"text": "2"}))
            self.ok(self.api.post(f"/v1/deliveries/{sent[-1]['deliveryId']}/ack", {"platformMessageId": text}), 200)
        self.assertEqual(self.chat(key), ["hello", None, "2"])
        self.assertTrue(self.ok(self.change("deletes", "one"), 200)["duplicate"])
        self.restart()
        self.assertEqual(self.chat(key), ["hello", None, "2"])

    def test_a_deletion_of_one_part_stands_over_an_edit_of_another(self):
        key = self.tell(ADA, "hello", id="m0")["sessionKey"]
        self.ok(self.api.post("/v1/deliveries/claim", {"channel": CHANNEL}), 204)
        for n, changes in enumerate(([("edits", "a"), ("deletes", "b")], [("deletes", "a"), ("edits", "b")],
                                     [("edits", "a"), ("edits", "b")])):
            self.ok(self.api.post(S(key, "main", "outbound"), {"text": "a long one"}), 201)
            sent = self.ok(self.api.post("/v1/deliveries/claim", {"channel": CHANNEL}), 200)["data"][0]
            for what, part in changes:
                self.early(what, f"{part}{n}", **({"text": f"edit of {part}"} if what == "edits" else {}))
            ack = {"platformMessageId": f"a{n}", "parts": [f"a{n}", f"b{n}"]}
            with self.api.stream("/v1/events") as stream:
                stream.wait_type("stream.hello")
                self.ok(self.api.post(f"/v1/deliveries/{sent['deliveryId']}/ack", ack), 200)
                taken = [stream.wait_for(lambda e, p=part: e.type == "message.change_taken" and e.data["data"]["messageId"] == f"{p}{n}")
                         for _, part in changes]
                self.assertEqual(len({event.data["data"]["changeId"] for event in taken}), 2)
        self.ok(self.api.post(S(key, "main", "outbound"), {"text": "in many parts"}), 201)
        sent = self.ok(self.api.post("/v1/deliveries/claim", {"channel": CHANNEL}), 200)["data"][0]
        parts = [f"p{n}" for n in range(20)]
        for part in parts:
            self.early("edits", part, text="edit of " + part)
        with self.api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.post(f"/v1/deliveries/{sent['deliveryId']}/ack", {"platformMessageId": "p0", "parts": parts}), 200)
            taken = {stream.wait_for(lambda e, p=part: e.type == "message.change_taken" and e.data["data"]["messageId"] == p).data["key"] for part in parts}
        self.assertEqual(taken, {key})
        self.restart()
        self.assertEqual(self.chat(key)[:4], ["hello", None, None, "edit of b"])
        self.assertIn(self.chat(key)[4], ["edit of " + part for part in parts])

    def test_an_edit_that_can_change_nothing_is_lost(self):
        self.early("edits", text="")
        self.early("edits", "m2", text="/new and more")
        with self.api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            key = self.tell(ADA, "hello")["sessionKey"]
            self.assertEqual(stream.wait_type("message.change_lost").data["data"]["messageId"], "m1")
            self.assertIsNone(self.tell(ADA, "/new", id="m2", mentioned=True)["seq"])
            self.assertEqual(stream.wait_for(lambda e: e.type == "message.change_lost" and e.data["data"]["messageId"] == "m2").type,
                             "message.change_lost")
        self.assertEqual(self.chat(key), [])
        self.early("edits", "m3", text="")
        self.tell(ADA, "see", id="m3", attachments=[{"type": "image", "url": "https://example.org/a.png"}])
        self.assertEqual(self.chat(key), [""])

    def test_bad_input_keeps_nothing(self):
        self.invalid(self.change("edits"), "/text")
        self.invalid(self.change("edits", text="x", target={"from": 1}), "/target")
        self.problem(self.change("edits", text="x" * (1 << 20)), 404, "message_not_found")
        self.problem(self.change("reactions", emoji="x", **{"from": "U"}), 404, "message_not_found")
        self.assertEqual(self.chat(self.tell(ADA, "hello")["sessionKey"]), ["hello"])

    def test_a_message_and_its_deletion_at_once_leave_nothing(self):
        for n in range(10):
            self.peer = "G" + uid()

            def delete():
                api = self.daemon.client()
                while (reply := self.change("deletes", api=api)).status == 409:
                    self.assertTrue(reply.json["retryable"])
                self.assertIn(reply.status, (201, 202), reply)

            thread = threading.Thread(target=delete)
            thread.start()
            told = self.api.post("/v1/inbound", {"channel": CHANNEL, "chatType": "group", "peer": self.peer, "messageId": "m1",
                                                 "from": ADA, "text": "hello"})
            thread.join()
            self.assertIn(told.status, (200, 201))
            if told.status == 201:
                self.assertEqual(self.chat(told.json["sessionKey"]), [None])

    def test_idempotent_as_any_call(self):
        first = self.early("deletes", idempotencyKey="k1")
        self.tell(ADA, "hello", 200)
        self.assertEqual(self.ok(self.change("deletes", idempotencyKey="k1"), 202), first)


class Rooms(Group):
    """Who has room for early changes, and what becomes of those that have to go."""

    config = EARLY

    def token(self, **limits):
        return self.daemon.client(token=self.daemon.token("bridge", **limits))

    def test_a_limited_token_changes_only_what_it_brings(self):
        part = self.token(channel=CHANNEL)
        self.ok(self.change("deletes", api=part), 202)
        self.assertEqual(self.chat(self.tell(ADA, "hello")["sessionKey"]), ["hello"], "another token brought it")
        self.ok(self.change("deletes", "m2", api=part), 202)
        self.assertTrue(self.tell(ADA, "hello", 200, id="m2", api=part)["deleted"])
        self.ok(self.change("deletes", "m3"), 202)
        self.assertTrue(self.tell(ADA, "hello", 200, id="m3", api=part)["deleted"], "told by one that sees all")

    def test_a_hidden_message_is_as_one_that_did_not_come(self):
        self.tell(ADA, "hello")
        part = self.token(keyPrefix="agent:main:other:")
        hidden, unknown = self.change("deletes", api=part), self.change("deletes", "none", api=part)
        self.assertEqual([set(self.ok(reply, 202)) for reply in (hidden, unknown)], [{"early", "until", "asOf"}] * 2)
        self.problem(self.change("deletes", "none", api=self.token(agents=["other"])), 403, "forbidden")

    def test_the_oldest_of_a_conversation_goes_and_its_bridge_learns_it(self):
        part, other = self.token(channel=CHANNEL), self.token(channel=CHANNEL)
        self.ok(self.change("deletes", "all"), 202)
        with part.stream("/v1/events") as mine, other.stream("/v1/events") as theirs, self.api.stream("/v1/events") as full:
            for stream in (mine, theirs, full):
                stream.wait_type("stream.hello")
            for n in range(101):
                self.ok(self.change("deletes", f"m{n}", api=part), 202)
            for stream in (mine, full):
                lost = stream.wait_type("message.change_lost").data["data"]
                lost.pop("changeId")
                self.assertEqual(lost, {"channel": CHANNEL, "peer": self.peer, "messageId": "m0", "what": "delete"})
            self.ok(self.change("deletes", "mine", api=other), 202)
            self.assertEqual(theirs.wait_type("message.change_early").data["data"]["messageId"], "mine")
            self.assertEqual([event.type for event in theirs.events if event.type == "message.change_lost"], [])
        self.assertEqual(self.chat(self.tell(ADA, "kept", id="m0", api=part)["sessionKey"]), ["kept"])
        self.assertTrue(self.tell(ADA, "x", 200, id="m1", api=part)["deleted"])
        self.assertTrue(self.tell(ADA, "x", 200, id="all", api=part)["deleted"])

    def test_long_edits_drive_out_those_of_whoever_keeps_the_most(self):
        part = self.token(channel=CHANNEL)
        self.ok(self.change("edits", "all", text="hello, all"), 202)
        with self.api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            for n in range(5):
                self.ok(self.change("edits", f"m{n}", api=part, text="x" * 1_000_000), 202)
            self.assertEqual(stream.wait_type("message.change_lost").data["data"]["messageId"], "m0")
        self.assertEqual(self.chat(self.tell(ADA, "hello", id="all")["sessionKey"]), ["hello, all"])


class Late(Group):
    config = {"inbound": {"earlyChangeMs": 1}}

    def test_a_change_whose_time_ends_is_lost_and_told(self):
        with self.api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            self.ok(self.change("edits", accountId="work", text="x", target={"from": "+44"}), 202)
            lost = stream.wait_type("message.change_lost").data
        lost["data"].pop("changeId")
        self.assertEqual(lost["data"], {"channel": CHANNEL, "accountId": "work", "peer": self.peer, "messageId": "m1",
                                        "from": "+44", "what": "edit"})
        self.assertEqual((lost["agent"], lost["channel"], "key" in lost), ("main", CHANNEL, False))
        self.assertEqual(self.chat(self.tell(ADA, "hello", accountId="work")["sessionKey"]), ["hello"])


class Restarted(Group):
    config = {"inbound": {"earlyChangeMs": 1_500}}

    def test_its_time_ends_over_a_restart(self):
        self.tell(ADA, "hello", id="m0")
        for kill in (True, False):
            since = self.ok(self.change("deletes", f"k{kill}"), 202)["asOf"]
            self.daemon.restart(kill=kill)
            self.api = self.daemon.client()
            with self.api.stream(f"/v1/events?after={since}") as stream:
                self.assertEqual(stream.wait_type("message.change_lost").data["data"]["messageId"], f"k{kill}")


class Off(Group):
    config = {"inbound": {"earlyChangeMs": 0}}

    def test_without_it_a_change_needs_its_message(self):
        self.problem(self.change("deletes"), 404, "message_not_found")
        self.problem(self.change("edits", text="x"), 404, "message_not_found")

"""What people say and do on chat platforms, as bridges tell it (daemon/api/README.md)."""

import json
import threading

from harness.case import Case, S, uid
from preload import preload

CHANNEL = "telegram"


class Bridge(Case):
    def setUp(self):
        super().setUp()
        self.peer = "P" + uid()

    def receive(self, id=None, text="hello", api=None, status=201, **more):
        body = {"channel": CHANNEL, "chatType": "direct", "peer": self.peer, "text": text, **more}
        if id is not None:
            body["messageId"] = id
        reply = (api or self.api).post("/v1/inbound", body)
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def change(self, what, id, api=None, **more):
        return (api or self.api).post("/v1/inbound/" + what,
                                      {"channel": CHANNEL, "peer": self.peer, "messageId": id, **more})

    def changed(self, what, id, **more):
        return self.ok(self.change(what, id, **more), 201)

    def find(self, id, api=None, **more):
        query = "&".join(f"{name}={value}" for name, value in
                         {"channel": CHANNEL, "peer": self.peer, "platformMessageId": id, **more}.items())
        return self.ok((api or self.api).get("/v1/agents/main/messages?" + query), 200)["data"]

    def view(self, key, view="chat", query=""):
        return self.ok(self.api.get(S(key, "main", "messages") + f"?view={view}{query}"), 200)["data"]

    def chat(self, key):
        return [(m.get("text"), m.get("edited", False), m.get("deleted", False)) for m in self.view(key)]


class Named(Bridge):
    """A message that a bridge tells twice."""

    def test_the_same_id_twice_is_one_message(self):
        first = self.receive("m1", **{"from": {"id": "U1", "name": "Ada"}})
        self.assertNotIn("duplicate", first)
        second = self.receive("m1", text="other words", status=200)
        self.assertEqual(second, {**first, "duplicate": True})
        self.assertEqual(self.texts(first["sessionKey"]), ["hello"])
        stored = self.messages(first["sessionKey"])[0]
        self.assertEqual((stored["platformMessageId"], stored["from"]), ("m1", {"id": "U1", "name": "Ada"}))

    def test_the_same_id_from_another_peer_is_another_message(self):
        first = self.receive("m1")
        self.peer += "b"
        second = self.receive("m1")
        self.assertNotEqual(first["sessionKey"], second["sessionKey"])
        self.receive("m1", accountId="work")  # no account is one of its own
        self.receive("m1", accountId="Work", status=200)
        self.receive("m1", agent="codex")
        self.receive("m1", channel="slack")

    def test_a_new_is_not_done_twice(self):
        self.receive("m1")
        reset = self.receive("m2", text="/new")
        self.assertEqual(reset["reset"]["reason"], "trigger")
        self.assertEqual(self.receive("m2", text="/new", status=200)["sessionId"], reset["sessionId"])
        self.assertEqual(self.find("m2"), [])

    def test_the_same_id_is_one_message_after_a_kill_too(self):
        daemon = self.spawn()
        self.api = daemon.client()
        first = self.receive("m1")
        daemon.restart(kill=True)
        self.api = daemon.client()
        self.assertEqual(self.receive("m1", status=200)["messageId"], first["messageId"])
        daemon.checkpoint()
        daemon.restart(kill=True)
        self.api = daemon.client()
        self.assertEqual(self.receive("m1", status=200)["messageId"], first["messageId"])
        self.assertEqual([m["id"] for m in self.find("m1")], [first["messageId"]])
        self.changed("edits", "m1", text="after the kill")
        self.assertEqual(self.chat(first["sessionKey"]), [("after the kill", True, False)])

    def test_the_same_id_is_one_message_beside_an_idempotency_key(self):
        body = {"channel": CHANNEL, "chatType": "direct", "peer": self.peer, "text": "a", "messageId": "m1"}
        key = {"Idempotency-Key": uid()}
        first = self.api.post("/v1/inbound", body, headers=key)
        again = self.api.post("/v1/inbound", body, headers=key)
        self.assertEqual((first.status, again.status, first.json), (201, 201, again.json))
        other = {"Idempotency-Key": uid()}
        same = self.api.post("/v1/inbound", body, headers=other)
        self.assertEqual((same.status, same.json["duplicate"]), (200, True))
        self.assertEqual(self.api.post("/v1/inbound", body, headers=other).json, same.json)
        self.problem(self.api.post("/v1/inbound", {**body, "messageId": "m2"}, headers=key), 422,
                     "idempotency_key_reused")
        self.problem(self.api.post("/v1/inbound", {**body, "messageId": "m2"}, headers=other), 422,
                     "idempotency_key_reused")

    def test_an_array_takes_what_it_can(self):
        messages = [{"channel": CHANNEL, "chatType": "direct", "peer": self.peer, "text": str(n), "messageId": f"m{n}"}
                    for n in range(100)]
        del messages[50]["channel"]
        results = self.ok(self.api.post("/v1/inbound", messages), 200)["results"]
        self.assertEqual([r["status"] for r in results], [201] * 50 + [422] + [201] * 49)
        self.assertEqual((results[50]["code"], results[50]["errors"][0]["pointer"]), ("validation_failed", "/channel"))
        self.assertEqual(self.texts(results[0]["sessionKey"]), [str(n) for n in range(100) if n != 50])
        again = self.ok(self.api.post("/v1/inbound", messages), 200)["results"]
        self.assertEqual([r["status"] for r in again], [200] * 50 + [422] + [200] * 49)
        self.assertEqual(again[7], {**results[7], "status": 200, "duplicate": True})

    def test_an_array_is_refused_whole_for_its_length_and_one_by_one_for_its_entries(self):
        one = {"channel": CHANNEL, "chatType": "direct", "peer": self.peer, "text": "a"}
        self.problem(self.api.post("/v1/inbound", []), 422)
        self.problem(self.api.post("/v1/inbound", [one] * 101), 422)
        self.problem(self.api.post("/v1/inbound", [one], headers={"Idempotency-Key": "k"}), 422)
        results = self.ok(self.api.post("/v1/inbound", [7, None, {**one, "idempotencyKey": self.peer}]), 200)["results"]
        self.assertEqual([r["status"] for r in results], [422, 422, 201])
        twice = self.ok(self.api.post("/v1/inbound", [{**one, "idempotencyKey": self.peer}]), 200)["results"][0]
        self.assertEqual(twice["seq"], results[2]["seq"])
        other = self.ok(self.api.post("/v1/inbound", [{**one, "text": "b", "idempotencyKey": self.peer}]), 200)
        self.assertEqual(other["results"][0]["code"], "idempotency_key_reused")


class Told(Bridge):
    def test_the_event_says_what_the_reply_does(self):
        with self.api.stream("/v1/events?types=message.appended") as stream:
            stream.wait_type("stream.hello")
            got = self.receive("m1", chatType="group", mentioned=True, **{"from": {"id": "U1", "username": "ada"}})
            event = stream.wait_type("message.appended").data
        inbound = event["data"]["inbound"]
        self.assertEqual({name: inbound[name] for name in ("activate", "systemIntro", "mentioned")},
                         {"activate": got["activate"], "systemIntro": got["systemIntro"], "mentioned": True})
        self.assertEqual(inbound["send"], got["send"])
        self.assertIn("run", inbound)
        self.assertEqual(event["data"]["message"]["from"], {"id": "U1", "username": "ada"})
        self.assertEqual(self.view(got["sessionKey"])[0]["from"], {"id": "U1", "username": "ada"})

    def test_who_spoke(self):
        for wrong in (7, [], {}, {"name": "Ada"}, {"id": 7}, {"id": "U1", "age": 7}, {"id": ""}):
            self.invalid(self.api.post("/v1/inbound", {"channel": CHANNEL, "chatType": "direct", "peer": self.peer,
                                                       "text": "a", "from": wrong}), "/from")
        key = self.receive(**{"from": {"id": "U1", "name": "Ada"}})["sessionKey"]
        session = self.ok(self.api.get(S(key)), 200)
        self.assertEqual((session["displayName"], session["origin"]["from"]), ("Ada", "U1"))

    def test_typing_is_a_bridges_too(self):
        key = self.receive()["sessionKey"]
        bridge = self.daemon.client(self.daemon.token("bridge", channel=CHANNEL))
        with self.api.stream("/v1/events?types=session.typing") as stream:
            stream.wait_type("stream.hello")
            self.ok(bridge.post(S(key, "main", "typing"), {"from": {"id": "U1", "name": "Ada"}}), 204)
            self.assertEqual(stream.wait_type("session.typing").data["data"], {"from": {"id": "U1", "name": "Ada"}})


class Needs(Bridge):
    def needs(self, key):
        listed = self.ok(self.api.get("/v1/agents/main/sessions?needs=answer&keyPrefix=" + key), 200)["data"]
        return [(n["seq"], n["topic"]) for session in listed for n in session["needs"]]

    def test_a_deleted_message_waits_no_more(self):
        key = self.receive("m1")["sessionKey"]
        self.receive("m2")
        self.assertEqual(self.needs(key), [(0, None)])
        self.ok(self.change("deletes", "m2"), 201)
        self.assertEqual(self.needs(key), [(0, None)], "it is not the one that is named")
        self.ok(self.change("deletes", "m1"), 201)
        self.assertEqual(self.needs(key), [])

    def test_the_next_input_of_a_run_waits_then(self):
        daemon = self.spawn({"runs": {"onInbound": True}})
        self.api = daemon.client()
        key = self.receive("m1")["sessionKey"]
        self.receive("m2")
        self.receive("m3")
        self.ok(self.change("deletes", "m2"), 201)
        self.ok(self.change("deletes", "m1"), 201)
        self.assertEqual(self.needs(key), [(2, None)])
        self.ok(self.change("deletes", "m3"), 201)
        self.assertEqual(self.needs(key), [])

    def test_until_there_is_an_answer(self):
        first = self.receive()
        key = first["sessionKey"]
        self.assertEqual(self.needs(key), [(first["seq"], None)])
        self.receive(text="more")
        self.assertEqual(self.needs(key), [(first["seq"], None)], "the first one that waits")
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "content": [
            {"type": "toolCall", "id": "c", "name": "n", "arguments": {}}]}), 201)
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": "Hel", "state": "interrupted"}), 201)
        self.assertEqual(len(self.needs(key)), 1)
        self.say(key, "an answer", role="assistant")
        self.assertEqual(self.needs(key), [])
        self.assertNotIn("needs", self.ok(self.api.get(S(key)), 200))

    def test_each_topic_by_itself(self):
        main = self.receive()
        key = main["sessionKey"]
        topic = self.receive(topic="t1")
        self.assertEqual(self.needs(key), [(main["seq"], None), (topic["seq"], "t1")])
        self.say(key, "an answer", role="assistant", query="?topic=t1")
        self.assertEqual(self.needs(key), [(main["seq"], None)])
        self.receive(topic="t2")
        self.ok(self.api.delete(S(key, "main", "topics", "t2")), 204)
        self.assertEqual(self.needs(key), [(main["seq"], None)])

    def test_not_what_activates_nobody_and_not_after_a_reset(self):
        key = self.receive(chatType="group", activate=False)["sessionKey"]
        self.assertEqual(self.needs(key), [])
        self.receive(chatType="group", activate=True)
        self.assertEqual(len(self.needs(key)), 1)
        self.ok(self.api.post(S(key, "main", "reset")), 200)
        self.assertEqual(self.needs(key), [])

    def test_it_is_not_a_clients_to_write(self):
        key = self.receive()["sessionKey"]
        self.invalid(self.api.patch(S(key), {"needs": []}), "/needs")
        self.problem(self.api.get("/v1/sessions?needs=love"), 400)

    def test_over_a_kill(self):
        daemon = self.spawn()
        self.api = daemon.client()
        key = self.receive()["sessionKey"]
        other = self.receive(peer="other")["sessionKey"]
        self.say(key, "an answer", role="assistant")
        daemon.restart(kill=True)
        self.api = daemon.client()
        self.assertEqual((self.needs(key), self.needs(other)), ([], [(0, None)]))


class Changed(Bridge):
    """Edits, deletions, reactions and acks."""

    def test_an_edit_replaces_what_is_shown(self):
        got = self.receive("m1", text="helo")
        key = got["sessionKey"]
        with self.api.stream("/v1/events?keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            done = self.changed("edits", "m1", text="hello")
            stored = stream.wait_type("message.appended").data
            event = stream.wait_type("message.edited").data
        self.assertEqual(done["target"], {"sessionId": got["sessionId"], "seq": got["seq"]})
        self.assertEqual((done["sessionKey"], done["seq"]), (key, 1))
        self.assertEqual(stored["data"]["message"]["customType"], "sessiond.edit")
        self.assertEqual((event["data"]["target"]["id"], event["data"]["text"]), (got["messageId"], "hello"))
        self.assertEqual(self.chat(key), [("hello", True, False)])
        self.assertEqual(self.messages(key)[0]["content"][0]["text"], "hello")
        self.assertIn("helo", json.dumps(self.view(key, "raw")[0]), "what is stored stays")
        self.changed("edits", "m1", text="hello!")  # of an edit
        self.assertEqual(self.chat(key), [("hello!", True, False)])
        model = self.view(key, "llm")
        self.assertEqual([(row["content"], row["edited"]) for row in model], [([{"type": "text", "text": "hello!"}], True)])
        self.changed("edits", "m1", content=[{"type": "text", "text": "by parts"}])
        self.assertEqual(self.chat(key), [("by parts", True, False)])

    def test_an_edit_to_what_is_there_is_none(self):
        got = self.receive("m1", text="see https://example.org")
        key = got["sessionKey"]
        unchanged = self.ok(self.change("edits", "m1", text="see https://example.org"), 200)
        self.assertEqual((unchanged["duplicate"], unchanged["seq"]), (True, got["seq"]))
        self.assertEqual(self.chat(key), [("see https://example.org", False, False)])
        self.changed("edits", "m1", text="other")
        self.assertTrue(self.ok(self.change("edits", "m1", text="other"), 200)["duplicate"])
        self.changed("edits", "m1", text="see https://example.org")  # back again is an edit
        self.changed("edits", "m1", content=[{"type": "text", "text": "by parts"}])
        self.assertTrue(self.ok(self.change("edits", "m1", content=[{"type": "text", "text": "by parts"}]), 200)["duplicate"])
        self.receive("m2", text="/new")
        self.assertTrue(self.ok(self.change("edits", "m1", text="by parts"), 200)["duplicate"], "in an archive")
        self.assertEqual(self.messages(key), [])

    def test_files_only_grow(self):
        got = self.receive("m1")
        before = self.api.get(S(got["sessionKey"], "main", "transcript")).raw
        self.changed("edits", "m1", text="x")
        self.changed("reactions", "m1", emoji="+1", **{"from": "U1"})
        self.changed("deletes", "m1")
        after = self.api.get(S(got["sessionKey"], "main", "transcript")).raw
        self.assertTrue(after.startswith(before) and len(after) > len(before))

    def test_a_deletion_stands(self):
        got = self.receive("m1", text="secret")
        key = got["sessionKey"]
        self.receive("m2", text="other")
        self.changed("deletes", "m1")
        self.changed("edits", "m1", text="back again")
        shown = self.view(key)
        self.assertEqual((shown[0]["deleted"], "text" in shown[0]), (True, False))
        self.assertEqual([row["content"][0]["text"] for row in self.view(key, "llm")], ["other"])

    def test_a_message_is_deleted_once(self):
        got = self.receive("m1", text="secret")
        first = self.changed("deletes", "m1")
        size = len(self.messages(got["sessionKey"]))
        for _ in range(3):
            self.assertEqual(self.ok(self.change("deletes", "m1"), 200), {**first, "duplicate": True})
        self.assertEqual(len(self.messages(got["sessionKey"])), size)
        self.receive("m2", text="/new")
        self.assertTrue(self.ok(self.change("deletes", "m1"), 200)["duplicate"])

    def test_reactions_are_a_set(self):
        got = self.receive("m1")
        key = got["sessionKey"]
        ada = {"id": "U1", "name": "Ada"}
        for emoji, person, more in (("👍", ada, {}), ("👍", "U1", {}), ("👍", "U2", {}), ("❤", "U2", {}),
                                    ("❤", "U2", {"removed": True}), ("🎉", "U3", {"removed": True})):
            self.changed("reactions", "m1", emoji=emoji, **{"from": person}, **more)
        self.assertEqual(self.view(key)[0]["reactions"], [{"emoji": "👍", "count": 2}])

    def test_an_answer_that_went_out_can_be_changed(self):
        """A delivery's ack names the message on the platform; until it does, an edit waits for its message."""
        key = self.receive("m1")["sessionKey"]
        claim = lambda: self.api.post("/v1/deliveries/claim", {"channel": CHANNEL, "keyPrefix": key})  # noqa: E731
        self.assertEqual(claim().status, 204)
        said = self.ok(self.api.post(S(key, "main", "outbound"), {"text": "out"}), 201)
        self.problem(self.change("reactions", "out-1", emoji="+1", **{"from": "U"}), 404, "message_not_found")
        delivery, = self.ok(claim(), 200)["data"]
        self.ok(self.api.post(f"/v1/deliveries/{delivery['deliveryId']}/ack", {"platformMessageId": "out-1"}), 200)
        self.assertEqual([(m["role"], m["id"]) for m in self.find("out-1")], [("assistant", said["messageId"])])
        before = self.api.get(S(key, "main", "transcript")).raw
        done = self.changed("reactions", "out-1", emoji="+1", **{"from": "U1"})
        self.assertEqual(done["target"], {"sessionId": said["sessionId"], "seq": said["seq"]})
        self.assertEqual([(m["text"], m.get("reactions")) for m in self.view(key)],
                         [("hello", None), ("out", [{"emoji": "+1", "count": 1}])])
        self.changed("edits", "out-1", text="out, edited")
        self.changed("deletes", "out-1")
        self.assertEqual(self.chat(key), [("hello", False, False), (None, False, True)])
        self.assertTrue(self.api.get(S(key, "main", "transcript")).raw.startswith(before))

    def answer_out(self, key, id, text="out", api=None, **ack):
        """An answer that a bridge has sent, as the platform calls it."""
        self.ok(self.api.post(S(key, "main", "outbound"), {"text": text}), 201)
        claimed = self.ok((api or self.api).post("/v1/deliveries/claim", {"channel": CHANNEL, "keyPrefix": key}), 200)["data"]
        return self.ok((api or self.api).post(f"/v1/deliveries/{claimed[0]['deliveryId']}/ack", {"platformMessageId": id, **ack}), 200)

    def adopt(self):
        self.assertIn(self.api.post("/v1/deliveries/claim", {"channel": CHANNEL, "keyPrefix": "agent:none:"}).status, (204, 404))
        self.assertIn(self.api.post("/v1/deliveries/claim", {"channel": CHANNEL}).status, (200, 204))

    def test_a_delivered_message_can_be_changed(self):
        self.adopt()
        key = self.receive("m1", text="question")["sessionKey"]
        self.answer_out(key, "bot.1", parts=["bot.1", {"platformMessageId": "bot.2"}, 7])
        for id in ("bot.1", "bot.2"):
            self.assertEqual([(m["key"], m["role"]) for m in self.find(id)], [(key, "assistant")])
        self.changed("reactions", "bot.1", emoji="+1", **{"from": "U1"})
        self.changed("reactions", "bot.2", emoji="+1", **{"from": "U2"})
        shown = [m for m in self.view(key) if m.get("role") == "assistant"]
        self.assertEqual(shown[0]["reactions"], [{"emoji": "+1", "count": 2}])
        self.changed("edits", "bot.1", text="out, edited")
        self.assertEqual(self.chat(key)[-1], ("out, edited", True, False))
        self.changed("deletes", "bot.1")
        self.assertEqual(self.chat(key)[-1], (None, False, True))
        self.receive("m2", text="/new")
        self.changed("reactions", "bot.1", emoji="late", **{"from": "U1"})

    def test_an_ack_hides_no_message_that_was_there_before_it_was_answered(self):
        self.adopt()
        got = self.receive("m1", text="question")
        key = got["sessionKey"]
        self.answer_out(key, "m1")  # a guess, or a platform that counts anew
        self.assertEqual([m["id"] for m in self.find("m1")], [got["messageId"]])
        self.assertEqual(self.chat(key), [("question", False, False), ("out", False, False)])
        # from a session that is somewhere else
        other = self.receive("x1", chatType="group", activate=True)["sessionKey"]
        self.answer_out(other, "m3")
        third = self.receive("m3", text="third")
        self.assertEqual([m["id"] for m in self.find("m3")], [third["messageId"]])

    def test_an_archived_message_can_be_changed(self):
        first = self.receive("m1", text="old")
        key = first["sessionKey"]
        self.changed("edits", "m1", text="old, edited")
        self.receive("m2", text="/new")
        second = self.receive("m3", text="new")
        done = self.changed("edits", "m1", text="old, edited late")
        self.changed("reactions", "m1", emoji="+1", **{"from": "U1"})
        self.assertEqual(done["target"], {"sessionId": first["sessionId"], "seq": 0})
        self.assertEqual(self.chat(key), [("new", False, False)])
        archived = self.view(first["sessionId"])
        self.assertEqual([(m["text"], m.get("edited"), m.get("reactions")) for m in archived],
                         [("old, edited late", True, [{"emoji": "+1", "count": 1}])])
        self.assertEqual([row["content"][0]["text"] for row in self.view(first["sessionId"], "llm")], ["old, edited late"])
        self.receive("m4", text="/new")
        self.receive("m5", text="newest")
        self.assertEqual(self.view(first["sessionId"])[0]["text"], "old, edited late", "told by the next archive")
        self.changed("deletes", "m1")
        self.assertTrue(self.view(first["sessionId"])[0]["deleted"])
        self.changed("edits", "m3", text="new, edited")
        self.assertEqual(self.view(second["sessionId"])[0]["text"], "new, edited")
        self.assertEqual([m["sessionId"] for m in self.find("m1")], [first["sessionId"]])
        self.assertEqual(self.chat(key), [("newest", False, False)])

    def test_a_message_in_a_topic_can_be_changed(self):
        key = self.receive("m1", topic="t1", text="a")["sessionKey"]
        self.changed("edits", "m1", text="b")
        shown = self.view(key, query="&topic=t1")
        self.assertEqual([(m["text"], m["edited"]) for m in shown], [("b", True)])

    def test_a_change_is_shown_on_a_page_far_before(self):
        key = self.receive("m1")["sessionKey"]
        for part in range(6):
            self.ok(self.api.post(S(key, "main", "messages"), {"entries": [
                {"role": "user", "text": f"{part} {n}"} for n in range(100)]}), 201)
        self.changed("edits", "m1", text="edited")
        self.assertEqual(self.view(key, query="&limit=1")[0]["text"], "edited")

    def test_what_is_unknown(self):
        self.receive("m1")
        for what, more in (("edits", {"text": "x"}), ("deletes", {}), ("reactions", {"emoji": "x", "from": "U"})):
            for id, other in (("m9", {}), ("m1", {"accountId": "a"}), ("m1", {"peer": self.peer + "x"})):
                reply = self.change(what, id, **other, **more)
                if what == "reactions":
                    self.problem(reply, 404, "message_not_found")
                else:
                    self.assertTrue(self.ok(reply, 202)["early"])
        self.invalid(self.change("edits", "m1"), "/text")
        self.invalid(self.change("reactions", "m1", emoji="x"), "/from")
        self.invalid(self.change("reactions", "m1", **{"from": "U"}), "/emoji")
        self.invalid(self.change("reactions", "m1", emoji="x" * 300, **{"from": "U"}), "/emoji")
        self.invalid(self.change("reactions", "m1", emoji="", **{"from": ""}), "/emoji", "/from")
        self.invalid(self.change("deletes", "m1", text="x"), "/text")

    def test_of_a_purged_session(self):
        key = self.receive("m1")["sessionKey"]
        self.ok(self.api.delete(S(key) + "?purge=true"), 204)
        self.problem(self.change("edits", "m1", text="x"), 404, "message_not_found")
        self.assertEqual(self.find("m1"), [])

    def test_a_queued_run_without_input_is_dropped(self):
        key = self.new(key=f"agent:main:{CHANNEL}:direct:{self.peer.lower()}", queueDebounceMs=0)["key"]
        got = self.receive("m1")
        if not got["run"]:
            self.skipTest("runs are not made by inbound messages here")
        self.changed("deletes", "m1")
        run = self.ok(self.api.get(S(key, "main", "runs", got["run"]["runId"])), 200)
        self.assertEqual(run["status"], "dropped")


class Hostile(Bridge):
    def test_ids_of_all_lengths(self):
        self.invalid(self.api.post("/v1/inbound", {"channel": CHANNEL, "chatType": "direct", "peer": self.peer,
                                                   "text": "a", "messageId": "x" * 10_240}), "/messageId")
        long = "\u0000\n\"" + "x" * 4000
        got = self.receive(long)
        self.assertEqual(self.receive(long, status=200)["messageId"], got["messageId"])
        self.changed("edits", long, text="b")
        self.problem(self.change("edits", "x" * 10_240, text="b"), 422)

    def foreign(self, got, entries):
        """Writes entries into the transcript as another program does, while no daemon runs."""
        file = self.transcript(got)
        self.daemon.stop()
        with open(file, "a") as out:
            for n, entry in enumerate(entries):
                out.write(json.dumps({"type": "custom", "id": f"f{n}", "parentId": got["messageId"],
                                      "timestamp": "2026-01-01T00:00:00.000Z", **entry}) + "\n")
        self.daemon.start()

    def transcript(self, got):
        paths = self.ok(self.api.get(S(got["sessionKey"])), 200)["paths"]
        return next(self.daemon.state.rglob(paths["transcript"].rsplit("/", 1)[-1]))

    def test_ten_thousand_edits_of_one_message(self):
        self.daemon = self.spawn()
        self.api = self.daemon.client()
        got = self.receive("m1")
        key = got["sessionKey"]
        target = {"sessionId": got["sessionId"], "seq": 0, "id": got["messageId"]}
        self.daemon.checkpoint()
        self.foreign(got, [{"customType": "sessiond.edit", "data": {"target": target, "text": str(n)}} for n in range(10_000)])
        self.assertEqual(self.chat(key), [("9999", True, False)])
        self.changed("edits", "m1", text="last")
        self.assertEqual(self.chat(key), [("last", True, False)])

    def test_entries_that_only_look_like_changes(self):
        self.daemon = self.spawn()
        self.api = self.daemon.client()
        got = self.receive("m1")
        self.daemon.checkpoint()
        self.foreign(got, [{"customType": "sessiond.edit", "data": data} for data in (
            None, 7, [], {}, {"target": 7}, {"target": {"id": got["messageId"]}},
            {"target": {"sessionId": got["sessionId"], "id": 7}, "text": "x"})])
        self.assertEqual(self.chat(got["sessionKey"]), [("hello", False, False)])

    def test_nobody_forges_the_daemons_entries(self):
        got = self.receive("m1")
        key = got["sessionKey"]
        target = {"sessionId": got["sessionId"], "seq": 0, "id": got["messageId"]}
        runner = self.daemon.client(self.daemon.token("runner"))
        tool = self.daemon.client(self.daemon.token("session", agents=["main"], key=key))
        for type in ("custom", "custom_message"):
            for name in ("sessiond.edit", "sessiond.delete", "sessiond.run", "sessiond."):
                entry = {"type": type, "customType": name, "content": "x", "data": {"target": target, "text": "forged"}}
                for api in (self.api, runner, tool):
                    self.invalid(api.post(S(key, "main", "messages"), entry), "/customType")
                    self.invalid(api.post(S(key, "main", "messages"), {"entries": [{"role": "user", "text": "a"}, entry]}),
                                 "/entries/1/customType")
        run = self.ok(runner.post(S(key, "main", "runs"), {}), 201)
        body = {"fence": run["lease"]["fence"], "status": "done",
                "entries": [{"type": "custom", "customType": "sessiond.delete", "data": {"target": target}}]}
        place = S(key, "main", "runs", run["runId"], "finish")
        self.invalid(runner.post(place, body), "/entries/0/customType")
        body["entries"][0]["customType"] = "mine.delete"
        self.ok(runner.post(place, body), 200)
        self.assertEqual(self.chat(key), [("hello", False, False)])

    def test_a_confined_token_names_nothing_outside(self):
        mine, theirs = self.peer, self.peer + "x"
        self.peer = theirs
        secret = self.receive("m1", text="theirs")
        for confined in ({"keyPrefix": f"agent:main:{CHANNEL}:direct:{mine.lower()}:"}, {"channel": "slack"},
                         {"agents": ["codex"]}):
            bridge = self.daemon.client(self.daemon.token("bridge", **confined))
            for what, more in (("edits", {"text": "x"}), ("deletes", {}), ("reactions", {"emoji": "x", "from": "U"})):
                known = self.change(what, "m1", api=bridge, **more)
                unknown = self.change(what, "m9", api=bridge, **more)
                said = lambda reply: (reply.status, reply.json.get("code"), reply.json.get("detail"))  # noqa: E731
                self.assertEqual(said(known), said(unknown))
                self.assertIn(known.status, (202, 403, 404))
            if "agents" not in confined:
                self.assertEqual(self.find("m1", api=bridge), [])
        self.assertEqual(self.chat(secret["sessionKey"]), [("theirs", False, False)])

    def test_a_confined_token_learns_nothing_by_repeating(self):
        """The same peer and id in a group that the token does not see: for this token nothing was said yet."""
        group = self.receive("m1", chatType="group", text="theirs", activate=True)
        bridge = self.daemon.client(self.daemon.token("bridge", keyPrefix=f"agent:main:{CHANNEL}:direct:"))
        mine = self.receive("m1", api=bridge, text="mine")
        self.assertNotEqual(mine["sessionKey"], group["sessionKey"])
        self.assertEqual(self.receive("m1", api=bridge, status=200)["sessionKey"], mine["sessionKey"])
        self.assertEqual([m["key"] for m in self.find("m1", api=bridge)], [mine["sessionKey"]])
        self.ok(self.change("edits", "m1", api=bridge, text="mine, edited"), 201)
        self.assertEqual(self.chat(mine["sessionKey"]), [("mine, edited", True, False)])
        self.assertEqual(self.chat(group["sessionKey"]), [("theirs", False, False)])

    def test_a_token_that_was_first_hides_no_message(self):
        """One id in a direct conversation, a group and two threads of it: the platform's name is the same for all."""
        daemon = self.spawn()
        self.api = daemon.client()
        confined = daemon.client(daemon.token("bridge", keyPrefix=f"agent:main:{CHANNEL}:direct:"))
        bridge = daemon.client(daemon.token("bridge"))
        first = self.receive("m1", api=confined, text="first")
        places = [{"chatType": "group"}, {"chatType": "group", "threadId": "t1"}, {"chatType": "group", "threadId": "t2"}]
        got = [self.receive("m1", api=bridge, text="theirs", **place) for place in places]
        self.assertEqual(len({first["sessionKey"], *(one["sessionKey"] for one in got)}), 4)
        for one in got:
            self.assertEqual(self.texts(one["sessionKey"]), ["theirs"])
        for _ in range(2):
            for place, one in zip(places, got):
                again = self.receive("m1", api=bridge, status=200, **place)
                self.assertEqual((again["messageId"], again["duplicate"]), (one["messageId"], True))
            self.assertEqual(self.receive("m1", api=confined, status=200)["messageId"], first["messageId"])
            # of what it brought itself, the last; else what it sees
            self.assertEqual([m["id"] for m in self.find("m1", api=bridge)], [got[-1]["messageId"]])
            self.assertEqual([m["id"] for m in self.find("m1", api=confined)], [first["messageId"]])
            daemon.restart(kill=True)
            self.api, confined, bridge = daemon.client(), daemon.client(confined.token), daemon.client(bridge.token)
        groups = daemon.client(daemon.token("bridge", keyPrefix=f"agent:main:{CHANNEL}:group:"))
        self.assertEqual([m["id"] for m in self.find("m1", api=groups)], [got[0]["messageId"]])
        self.ok(self.change("deletes", "m1", api=groups), 201)
        self.assertEqual(self.chat(first["sessionKey"]), [("first", False, False)])
        self.assertEqual(self.chat(got[0]["sessionKey"]), [(None, False, True)])

    def test_the_same_id_at_once_in_two_conversations(self):
        answers = []

        def receive(api, chat_type, id):
            answers.append(api.post("/v1/inbound", {"channel": CHANNEL, "peer": self.peer, "text": "x", "messageId": id,
                                                    "chatType": chat_type}))

        clients = {chat_type: self.api.clone() for chat_type in ("direct", "group", "channel")}
        for n in range(20):
            tries = [threading.Thread(target=receive, args=(api, chat_type, f"m{n}")) for chat_type, api in clients.items()]
            for thread in tries:
                thread.start()
            for thread in tries:
                thread.join()
        self.assertEqual([(reply.status, "duplicate" in reply.json) for reply in answers], [(201, False)] * 60)
        keys = {reply.json["sessionKey"] for reply in answers}
        self.assertEqual(sorted(len(self.texts(key)) for key in keys), [20, 20, 20])

    def test_a_clock_that_steps(self):
        hour = 3_600_000
        daemon = preload(self.spawn(start=False))
        daemon.start()
        self.api = daemon.client()
        key = self.receive("m1", text="first")["sessionKey"]
        for n, wall_ms in enumerate((200 * hour, -200 * hour, 0)):
            daemon.page.wall_ms = wall_ms
            self.receive("m1", status=200)
            self.changed("edits", "m1", text=f"edit {n}")
            self.assertEqual(self.chat(key)[0], (f"edit {n}", True, False), "by order, not by time")
        self.changed("deletes", "m1")
        daemon.page.wall_ms = -200 * hour
        self.changed("edits", "m1", text="late")
        self.assertEqual(self.chat(key)[0], (None, False, True))

    def test_ephemeral_sessions(self):
        key = f"agent:main:{CHANNEL}:direct:{self.peer.lower()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.receive("m1")
        self.assertTrue(self.receive("m1", status=200)["duplicate"])
        self.changed("edits", "m1", text="b")
        self.assertEqual(self.chat(key), [("b", True, False)])
        self.assertEqual(len(self.find("m1")), 1)

"""include=lastMessage and include=messageCounts: what was said in a session, as people left it."""

from urllib.parse import quote

from harness.case import Case, S, uid

SESSIONS = "/v1/agents/main/sessions"


class LastMessage(Case):
    def setUp(self):
        super().setUp()
        self.peer = "p" + uid()
        self.key = "agent:main:chat:direct:" + self.peer

    def receive(self, text, **more):
        self.ids = getattr(self, "ids", 0) + 1
        body = {"channel": "chat", "chatType": "direct", "peer": self.peer, "text": text, "messageId": f"m{self.ids}",
                "from": {"id": self.peer, "name": "Ilse"}, **more}
        return self.ok(self.api.post("/v1/inbound", body), 201)

    def append(self, key, *entries):
        return self.ok(self.api.post(S(key, "main", "messages"), {"entries": list(entries)}), 201)

    def last(self, key=None, api=None):
        """What the session has, which is what lists have of it."""
        api, key = api or self.api, key or self.key
        one = self.ok(api.get(S(key) + "?include=lastMessage"), 200).get("lastMessage")
        for path in (SESSIONS, "/v1/sessions"):
            rows = self.ok(api.get(f"{path}?include=lastMessage&archived=any&fields=name&keyPrefix={quote(key)}"), 200)["data"]
            self.assertEqual([row.get("lastMessage") for row in rows if row["key"] == key], [one], path)
        return one

    def test_it_is_the_newest_with_words(self):
        told = self.receive("where is my parcel?")
        said = self.last()
        self.assertEqual((said["id"], said["seq"], said["role"], said["text"]), (told["messageId"], told["seq"], "user", "where is my parcel?"))
        self.assertEqual(said["from"]["name"], "Ilse")
        self.append(self.key, {"role": "assistant", "content": [{"type": "text", "text": "On its way."}]},
                    {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "track", "arguments": {}}]},
                    {"role": "toolResult", "toolCallId": "c1", "toolName": "track", "content": [{"type": "text", "text": "a result"}]},
                    {"type": "custom", "customType": "note", "data": {"text": "a note", "by": "x"}})
        self.assertEqual((self.last()["role"], self.last()["text"]), ("assistant", "On its way."))

    def counts(self, key=None, api=None):
        return self.ok((api or self.api).get(S(key or self.key) + "?include=messageCounts"), 200).get("messageCounts")

    def test_messages_are_counted_by_who_said_them(self):
        self.receive("where is my parcel?")
        self.assertEqual(self.counts(), {"people": 1, "agent": 0, "team": 0})
        self.append(self.key, {"role": "assistant", "content": [{"type": "text", "text": "On its way."}]},
                    {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "track", "arguments": {}}]},
                    {"role": "toolResult", "toolCallId": "c1", "toolName": "track", "content": [{"type": "text", "text": "a result"}]},
                    {"type": "custom", "customType": "note", "data": {"text": "a note", "by": "x"}},
                    {"role": "user", "text": "tell them about the strike", "audience": "agent"},
                    {"role": "user", "text": "added by a program", "synthetic": True},
                    {"role": "assistant", "content": "never sent", "state": "superseded"})
        self.receive("thanks")
        self.receive("nonsense")
        self.ok(self.api.post("/v1/inbound/deletes", {"channel": "chat", "peer": self.peer, "messageId": "m3"}), 201)
        self.receive("a typo")
        self.ok(self.api.post("/v1/inbound/edits", {"channel": "chat", "peer": self.peer, "messageId": "m4", "text": "no typo"}), 201)
        self.ok(self.api.post(S(self.key, "main", "takeover"), {"name": "Hanne"}), 200)
        self.ok(self.api.post(S(self.key, "main", "outbound"), {"text": "Hanne here."}), 201)
        self.assertEqual(self.counts(), {"people": 3, "agent": 1, "team": 1})

    def test_of_a_long_transcript_the_newest_are_counted(self):
        key = self.new()["key"]
        for _ in range(6):
            self.append(key, *[{"role": "user", "text": "x"}] * 1000)
        self.assertEqual(self.counts(key), {"people": 5_000, "agent": 0, "team": 0, "more": True})
        wide = self.new()["key"]
        for _ in range(12):
            self.append(wide, {"role": "user", "text": "x" * (1 << 20)})
        counted = self.counts(wide)
        self.assertTrue(counted["more"])
        self.assertLess(counted["people"], 12)

    def test_only_an_assistants_message_can_be_of_the_team(self):
        key = self.new()["key"]
        self.append(key, {"role": "user", "text": "hi", "author": {"name": "Eve"}}, {"role": "assistant", "content": "hello", "author": "x"},
                    {"role": "assistant", "content": "It is me.", "author": {"name": "Hanne"}})
        self.assertEqual(self.counts(key), {"people": 1, "agent": 1, "team": 1})
        self.assertEqual(self.last(key)["author"], {"name": "Hanne"})

    def test_counts_are_of_one_session_and_never_stored(self):
        self.receive("hello")
        for path in (SESSIONS, "/v1/sessions"):
            self.problem(self.api.get(path + "?include=messageCounts"), 400, "bad_request")
        self.assertNotIn("messageCounts", self.ok(self.api.get(S(self.key)), 200))
        self.problem(self.api.patch(S(self.key), {"messageCounts": {"people": 9}}), 422, "validation_failed")
        other = self.daemon.client(self.daemon.token("viewer", keyPrefix="agent:main:other:"))
        self.problem(other.get(S(self.key) + "?include=messageCounts"), 404, "session_not_found")

    def test_it_is_left_out_unless_asked_for(self):
        self.receive("hello")
        self.assertNotIn("lastMessage", self.ok(self.api.get(S(self.key)), 200))
        rows = self.ok(self.api.get(SESSIONS + "?limit=200&include=snapshots"), 200)["data"]
        self.assertEqual([row for row in rows if "lastMessage" in row], [])
        both = self.ok(self.api.get(S(self.key) + "?include=snapshots,lastMessage"), 200)
        self.assertEqual(both["lastMessage"]["text"], "hello")
        for path in (S(self.key), SESSIONS, "/v1/sessions"):
            self.problem(self.api.get(path + "?include=all"), 400, "bad_request")

    def test_long_words_are_cut_between_characters(self):
        self.receive("é" * 201)
        said = self.last()
        self.assertEqual((said["text"], said["more"]), ("é" * 200, True))
        self.receive("é" * 200)
        self.assertEqual((self.last()["text"], self.last().get("more")), ("é" * 200, None))

    def test_it_is_as_people_left_it(self):
        self.receive("first")
        self.receive("secnd")
        names = {"channel": "chat", "peer": self.peer, "messageId": "m2"}
        self.ok(self.api.post("/v1/inbound/edits", {**names, "text": "second"}), 201)
        self.assertEqual((self.last()["text"], self.last()["edited"]), ("second", True))
        fork = self.ok(self.api.post(S(self.key, "main", "fork"), {}), 201)["key"]
        self.assertEqual(self.last(fork)["text"], "second")
        self.ok(self.api.post("/v1/inbound/deletes", names), 201)
        self.assertEqual(self.last()["text"], "first")
        self.assertEqual(self.last(fork)["text"], "first", "words that were deleted later are in no copy")

    def test_lists_find_sessions_by_how_their_last_run_is(self):
        keys = {}
        for status in ("done", "failed"):
            keys[status] = self.new()["key"]
            run = self.ok(self.api.post(S(keys[status], "main", "runs"), {}), 201)
            self.ok(self.api.post(S(keys[status], "main", "runs", run["runId"], "finish"), {"fence": run["lease"]["fence"], "status": status}), 200)
        keys["running"] = self.new()["key"]
        self.ok(self.api.post(S(keys["running"], "main", "runs"), {}), 201)
        keys["none"] = self.new()["key"]
        for asked in ("done", "failed", "failed,running", "interrupted,done", "never"):
            rows = self.ok(self.api.get(f"/v1/sessions?limit=200&status={asked}"), 200)["data"]
            found = {key for key in keys.values()} & {row["key"] for row in rows}
            self.assertEqual(found, {keys[one] for one in asked.split(",") if one in keys}, asked)

    def test_an_empty_or_a_long_silent_session_has_none(self):
        key = self.new()["key"]
        self.assertIsNone(self.last(key))
        self.receive("hello")
        self.append(self.key, *({"type": "custom", "customType": "x", "data": {}} for _ in range(100)))
        self.assertIsNone(self.last())
        self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)
        self.assertIsNone(self.last())

    def test_topics_are_conversations_of_their_own(self):
        self.receive("main")
        self.append(self.key, {"role": "assistant", "text": "still main"})
        self.ok(self.api.post(S(self.key, "main", "messages") + "?topic=side", {"role": "user", "text": "aside"}), 201)
        self.assertEqual(self.last()["text"], "still main")

    def test_sessions_in_memory_have_it(self):
        key = "agent:main:chat:direct:e" + uid()
        self.ok(self.api.post(SESSIONS, {"key": key, "ephemeral": True}), 201)
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "text": "kept nowhere"}), 201, 202)
        self.assertEqual(self.last(key)["text"], "kept nowhere")

    def test_a_token_reads_only_what_it_sees(self):
        self.receive("mine")
        other = self.new()["key"]
        self.append(other, {"role": "user", "text": "not yours"})
        viewer = self.daemon.client(self.daemon.token("viewer", agents=["main"], keyPrefix=self.key))
        rows = self.ok(viewer.get(SESSIONS + "?include=lastMessage"), 200)["data"]
        self.assertEqual([(row["key"], row["lastMessage"]["text"]) for row in rows], [(self.key, "mine")])

    def test_a_transcript_that_cannot_be_read_leaves_the_list_whole(self):
        world = self.spawn()
        self.api = world.client()
        self.receive("hello")
        name = self.ok(self.api.get(S(self.key)), 200)["sessionId"]
        world.stop()
        file = next(world.state.rglob(f"{name}.jsonl"))
        file.unlink()
        file.mkdir()
        world.start()
        self.api = world.client()
        rows = self.ok(self.api.get(SESSIONS + "?include=lastMessage"), 200)["data"]
        self.assertEqual([(row["key"], row.get("lastMessage")) for row in rows], [(self.key, None)])

    def test_pages_go_on_with_and_without_it(self):
        for n in range(6):
            self.peer = "many" + uid()
            self.receive(f"message {n}")
        first = self.ok(self.api.get("/v1/sessions?include=lastMessage&limit=2&q=many"), 200)
        self.assertEqual([row["lastMessage"]["text"] for row in first["data"]], ["message 5", "message 4"])
        more = self.ok(self.api.get("/v1/sessions?limit=2&q=many&cursor=" + first["page"]["next"]), 200)
        self.assertEqual(["lastMessage" in row for row in more["data"]], [False, False])
        last = self.ok(self.api.get("/v1/sessions?include=lastMessage&limit=2&q=many&cursor=" + more["page"]["next"]), 200)
        self.assertEqual([row["lastMessage"]["text"] for row in last["data"]], ["message 1", "message 0"])

    def test_what_is_for_the_agent_alone_is_not_said(self):
        self.receive("where is my parcel?")
        run = self.ok(self.api.post("/v1/agents/main/runs/claim", {"keyPrefix": self.key, "waitMs": 5000}), 200)
        self.append(self.key, {"role": "user", "text": "order 7714", "audience": "agent"})
        self.assertEqual(self.last()["text"], "where is my parcel?")
        self.ok(self.api.post(S(self.key, "main", "takeover"), {"name": "Hanne", "stop": True}), 200)
        self.ok(self.api.post(S(self.key, "main", "runs", run["runId"], "finish"),
                              {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": "never sent"}]}), 200)
        self.assertEqual(self.last()["text"], "where is my parcel?")
        self.ok(self.api.post(S(self.key, "main", "outbound"), {"text": "On Friday."}), 201)
        self.assertEqual((self.last()["text"], self.last()["author"]), ("On Friday.", {"name": "Hanne"}))
        self.ok(self.api.post(S(self.key, "main", "handback"), {"note": "it is settled"}), 200)
        self.assertEqual(self.last()["text"], "On Friday.")

    def test_nobody_writes_it(self):
        self.receive("hello")
        whole = self.ok(self.api.get(S(self.key) + "?include=lastMessage"), 200)
        self.problem(self.api.patch(S(self.key), {"lastMessage": {"text": "forged"}}), 422, "validation_failed")
        self.ok(self.api.put(S(self.key), whole, headers={"If-Match": '"r%d"' % whole["rev"]}), 200)
        self.assertNotIn("lastMessage", self.ok(self.api.get(S(self.key)), 200))

    def test_a_tag_does_not_hide_new_words(self):
        self.receive("one")
        tag = self.api.get(S(self.key) + "?include=lastMessage").headers["ETag"]
        self.receive("two")
        again = self.api.get(S(self.key) + "?include=lastMessage", headers={"If-None-Match": tag})
        self.assertEqual((again.status, again.json["lastMessage"]["text"]), (200, "two"))

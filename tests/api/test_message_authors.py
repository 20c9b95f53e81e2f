"""Two people's messages under one id of their platform, and edits that address the agent (daemon/api/README.md)."""

import threading

from harness.case import Case, S, uid

CHANNEL = "signal"
BOB, ADA = {"id": "+49", "name": "Bob"}, {"id": "+44", "name": "Ada"}


class Group(Case):
    config = {"runs": {"onInbound": True}, "inbound": {"earlyChangeMs": 0}}

    def setUp(self):
        super().setUp()
        self.daemon = self.spawn(self.config)
        self.api = self.daemon.client()
        self.peer = "G" + uid()

    def restart(self):
        self.daemon.restart(kill=True)
        self.api = self.daemon.client()

    def tell(self, person, text, status=201, id="m1", api=None, **more):
        body = {"channel": CHANNEL, "chatType": "group", "peer": self.peer, "messageId": id, "text": text, **more}
        if person is not None:
            body["from"] = person
        return self.ok((api or self.api).post("/v1/inbound", body), status)

    def change(self, what, id="m1", api=None, **more):
        return (api or self.api).post("/v1/inbound/" + what, {"channel": CHANNEL, "peer": self.peer, "messageId": id, **more})

    def find(self, id="m1"):
        found = self.api.get(f"/v1/agents/main/messages?channel={CHANNEL}&peer={self.peer}&platformMessageId={id}")
        return self.ok(found, 200)["data"]

    def runs(self, key):
        return self.ok(self.api.get(S(key, "main", "runs")), 200)["data"]

    def chat(self, key, api=None):
        return [row.get("text") for row in self.ok((api or self.api).get(S(key, "main", "messages") + "?view=chat"), 200)["data"]]


class Purged(Group):
    def test_a_purge_right_behind_an_edit_leaves_no_words_of_it(self):
        for n in range(8):
            key = self.tell(ADA, "hello", id=f"m{n}")["sessionKey"]
            session = self.ok(self.api.get(S(key)), 200)["sessionId"]
            self.ok(self.change("edits", f"m{n}", text="a secret that was edited in"), 201)
            self.ok(self.api.delete(S(key) + "?purge=true"), 200, 204)
            self.daemon.checkpoint()
            files = [file for file in self.daemon.state.rglob(f"changes/{session}*") if file.is_file()]
            self.assertEqual(files, [])


class Authors(Group):
    def test_another_persons_other_words_under_one_id_are_another_message(self):
        first, second = self.tell(ADA, "hello"), self.tell(BOB, "hi")
        self.assertEqual((second["seq"], "duplicate" in second), (1, False))
        for _ in range(2):
            for person, text, message in ((ADA, "hello", first), (BOB, "hi", second), (BOB, "hi, edited", second),
                                          (ADA, "hi", first), (BOB, "hello", second)):
                self.assertEqual(self.tell(person, text, 200), {**message, "duplicate": True})
            self.restart()
        self.assertEqual(self.chat(first["sessionKey"]), ["hello", "hi"])
        self.assertEqual([row["from"]["id"] for row in self.find()], ["+44", "+49"])

    def test_everything_else_is_a_second_telling(self):
        first = self.tell(ADA, "hello")
        for person, text in ((BOB, "hello"), (ADA, "other"), ("Bob", "other"), (None, "other")):
            self.assertEqual(self.tell(person, text, 200)["messageId"], first["messageId"])
        named = self.tell("Ada", "hello", id="m2")
        self.assertEqual(self.tell(BOB, "other", 200, id="m2")["messageId"], named["messageId"])
        self.assertEqual(len(self.chat(first["sessionKey"])), 2)

    def test_other_attachments_are_other_words(self):
        photo = lambda name: [{"type": "image", "url": f"https://example.org/{name}.png"}]  # noqa: E731
        first = self.tell(ADA, "", attachments=photo("a"))
        self.assertEqual(self.tell(BOB, "", 200, attachments=photo("a"))["messageId"], first["messageId"])
        self.assertEqual(self.tell(BOB, "", attachments=photo("b"))["seq"], 1)

    def test_changes_name_the_author_where_two_have_the_id(self):
        key = self.tell(ADA, "hello")["sessionKey"]
        self.tell(BOB, "hi")
        for what, more in (("edits", {"text": "x"}), ("deletes", {}), ("reactions", {"emoji": "+1", "from": "U"})):
            self.invalid(self.change(what, **more), "/target/from")
            self.problem(self.change(what, target={"from": "+33"}, **more), 404, "message_not_found")
            for wrong in ({}, {"from": ""}, {"from": 1}, {"id": "+49"}, {"from": "+49", "id": 1}, {"from": "x" * 5000},
                          {"from": {"id": "+49", "z": 1}}):
                self.invalid(self.change(what, target=wrong, **more), "/target")
        self.restart()
        self.ok(self.change("edits", target={"from": BOB}, text="hi, edited"), 201)
        self.ok(self.change("edits", target={"from": "+44"}, text="hello, edited"), 201)
        self.assertEqual(self.chat(key), ["hello, edited", "hi, edited"])
        self.ok(self.change("deletes", target={"from": "+49"}), 201)
        self.assertTrue(self.ok(self.change("deletes", target={"from": "+49"}), 200)["duplicate"])
        self.assertEqual(self.chat(key), ["hello, edited", None])

    def test_the_author_is_found_in_another_session_of_the_conversation(self):
        first, second = self.tell(ADA, "in a thread", threadId="7"), self.tell(BOB, "in the group")
        self.assertNotEqual(first["sessionKey"], second["sessionKey"])
        self.assertEqual(self.ok(self.change("edits", text="edited"), 201)["sessionKey"], second["sessionKey"], "the last one")
        self.ok(self.change("deletes", target={"from": "+44"}), 201)
        self.assertEqual([self.chat(each["sessionKey"]) for each in (first, second)], [[None], ["edited"]])

    def test_a_message_is_found_as_people_left_it(self):
        self.tell(ADA, "hello"), self.tell(BOB, "the secret")
        self.ok(self.change("edits", target={"from": "+44"}, text="hello, all"), 201)
        self.ok(self.change("deletes", target={"from": "+49"}), 201)
        for _ in range(2):
            first, second = self.find()
            self.assertEqual((first["content"][0]["text"], first["edited"]), ("hello, all", True))
            self.assertEqual((second["deleted"], "content" in second), (True, False))
            self.ok(self.api.post(S(first["key"], "main", "reset"), {}), 200) if not _ else None

    def test_the_same_words_in_another_form_are_the_same(self):
        self.tell(ADA, "hello")
        body = {"channel": CHANNEL, "chatType": "group", "peer": self.peer, "messageId": "m1", "from": BOB}
        for content in ("hello", [{"type": "text", "text": "hello"}]):
            self.assertTrue(self.ok(self.api.post("/v1/inbound", {**body, "content": content}), 200)["duplicate"])

    def test_the_author_may_be_named_where_one_has_the_id(self):
        key = self.tell(ADA, "hello")["sessionKey"]
        self.problem(self.change("edits", target={"from": "+49"}, text="x"), 404, "message_not_found")
        self.ok(self.change("edits", target={"from": "+44"}, text="hello!"), 201)
        self.tell("Carl", "salut", id="m2")
        self.ok(self.change("edits", id="m2", target={"from": "+44"}, text="salut!"), 201)
        self.assertEqual(self.chat(key), ["hello!", "salut!"])

    def test_three_people_at_once_under_one_id_lose_nothing(self):
        people = [{"id": f"+{n}"} for n in range(3)]

        def tell(person):
            body = {"channel": CHANNEL, "chatType": "group", "peer": self.peer, "messageId": "m1", "from": person,
                    "text": "I am " + person["id"]}
            api = self.daemon.client()
            while (reply := api.post("/v1/inbound", body)).status == 409:
                self.assertEqual(reply.json["code"], "idempotency_in_flight")
            self.assertEqual(reply.status, 201, reply)

        threads = [threading.Thread(target=tell, args=(person,)) for person in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(row["from"]["id"] for row in self.find()), ["+0", "+1", "+2"])
        for person in people:
            self.assertEqual(self.ok(self.change("reactions", target={"from": person}, emoji="+1", **{"from": "U"}), 201)["sessionKey"],
                             self.tell(person, "again", 200)["sessionKey"])

    def test_the_other_message_has_its_own_second_telling(self):
        self.tell(ADA, "hello")
        second = self.tell(BOB, "@bot hi")
        self.assertFalse(second["activate"])
        again = self.tell(BOB, "@bot hi", 200, mentioned=True)
        self.assertEqual((again["activate"], again["messageId"]), (True, second["messageId"]))
        self.assertEqual([run["input"] for run in self.runs(second["sessionKey"])], [[second["messageId"]]])
        self.assertFalse(self.tell(ADA, "hello", 200)["activate"])

    def test_an_ephemeral_session_has_both_messages(self):
        key = self.tell(ADA, "hello", id="m0")["sessionKey"]
        self.ok(self.api.delete(S(key)), 200, 204)
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.tell(ADA, "hello"), self.tell(BOB, "hi"), self.tell(BOB, "hi", 200)
        self.invalid(self.change("deletes"), "/target/from")
        self.ok(self.change("deletes", target={"from": "+49"}), 201)
        self.assertEqual(self.chat(key), ["hello", None])


class Addressed(Group):
    """An edit that addresses the agent."""

    def test_an_edit_that_addresses_the_agent_activates_a_message_once(self):
        first = self.tell(ADA, "hello", threadId="7", accountId="work")
        key = first["sessionKey"]
        self.assertFalse(first["activate"])
        self.assertNotIn("activate", self.ok(self.change("edits", accountId="work", text="hello, all"), 201))
        done = self.ok(self.change("edits", accountId="work", text="@bot hello", mentioned=True), 201)
        self.assertEqual((done["activate"], done["systemIntro"]), (True, True))
        self.restart()
        for text, status in (("@bot hello?", 201), ("@bot hello?", 200)):
            self.assertNotIn("activate", self.ok(self.change("edits", accountId="work", text=text, mentioned=True), status))
        run = self.ok(self.api.post("/v1/agents/main/runs/claim", {"waitMs": 5000}), 200)
        self.assertEqual((run["runId"], run["input"]), (done["run"]["runId"], [first["messageId"]]))
        self.assertEqual(run["replyTo"], {"channel": CHANNEL, "to": self.peer, "accountId": "work", "threadId": "7"})
        self.assertEqual(len(self.runs(key)), 1)
        told = self.tell(ADA, "hello", 200, threadId="7", accountId="work", mentioned=True)
        self.assertEqual((told["activate"], told["run"]), (True, done["run"]), "its telling says so, too")
        self.assertEqual(self.chat(key), ["@bot hello?"])

    def test_an_edit_to_what_is_there_may_address_the_agent(self):
        key = self.tell(ADA, "@bot hello")["sessionKey"]
        done = self.ok(self.change("edits", text="@bot hello", mentioned=True), 200)
        self.assertEqual((done["duplicate"], done["activate"]), (True, True))
        self.assertEqual(len(self.messages(key)), len([row for row in self.messages(key) if row.get("customType") != "sessiond.edit"]))
        self.assertEqual(len(self.runs(key)), 1)

    def test_an_edit_activates_nothing_that_is_deleted_archived_or_was_activated(self):
        for what in ("deleted", "archived", "activated", "told", "own"):
            self.peer = "G" + uid()
            key = self.tell(ADA, "hello", mentioned=what == "activated", fromMe=what == "own")["sessionKey"]
            if what == "deleted":
                self.ok(self.change("deletes"), 201)
            if what == "archived":
                self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
            if what == "told":
                self.tell(ADA, "hello", 200, mentioned=True)
            before = len(self.runs(key))
            done = self.ok(self.change("edits", text="@bot hello", mentioned=True), 201)
            self.assertNotIn("activate", done, what)
            self.assertEqual(len(self.runs(key)), before, what)

    def test_a_failed_activation_changes_nothing(self):
        key = self.tell(ADA, "hello")["sessionKey"]
        self.ok(self.api.post(S(key, "main", "archive"), {}), 200)
        self.problem(self.change("edits", text="@bot hello", mentioned=True), 409, "session_archived")
        self.ok(self.api.post(S(key, "main", "unarchive"), {}), 200)
        self.assertTrue(self.ok(self.change("edits", text="@bot hello", mentioned=True), 201)["activate"])

    def test_an_edit_and_a_telling_at_once_begin_one_run(self):
        for _ in range(5):
            self.peer = "G" + uid()
            key = self.tell(ADA, "hello")["sessionKey"]
            replies = []

            def edit():
                api = self.daemon.client()
                while (reply := self.change("edits", api=api, text="@bot hello", mentioned=True)).status == 409:
                    pass
                replies.append(reply)

            thread = threading.Thread(target=edit)
            thread.start()
            body = {"channel": CHANNEL, "chatType": "group", "peer": self.peer, "messageId": "m1", "text": "hello", "mentioned": True}
            while (reply := self.api.post("/v1/inbound", body)).status == 409:
                pass
            thread.join()
            self.assertEqual([reply.status, replies[0].status], [200, 201])
            self.assertEqual(len(self.runs(key)), 1)


class Attachments(Group):
    def test_an_edit_may_leave_only_the_attachments(self):
        for more in ({"attachments": [{"type": "image", "url": "https://example.org/a.png"}]},
                     {"text": None, "content": [{"type": "text", "text": "see"}, {"type": "image", "url": "https://example.org/a.png"}]}):
            self.peer = "G" + uid()
            text = more.pop("text", "see")
            body = {"channel": CHANNEL, "chatType": "group", "peer": self.peer, "messageId": "m1", "mentioned": True, **more}
            if text is not None:
                body["text"] = text
            key = self.ok(self.api.post("/v1/inbound", body), 201)["sessionKey"]
            self.ok(self.change("edits", text=""), 201)
            self.assertTrue(self.ok(self.change("edits", text=""), 200)["duplicate"])
            row = self.ok(self.api.get(S(key, "main", "messages") + "?view=chat"), 200)["data"][0]
            self.assertEqual((row["text"], row["edited"], row["attachments"][0]["type"]), ("", True, "image"))
            shown = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm"), 200)["data"][0]
            self.assertNotIn("see", str(shown["content"]))
            self.assertTrue(shown["content"])

    def test_an_edit_may_not_leave_nothing(self):
        key = self.tell(ADA, "hello")["sessionKey"]
        self.invalid(self.change("edits", text=""), "/text")
        self.assertEqual(self.chat(key), ["hello"])

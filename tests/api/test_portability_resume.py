"""Going on with a session: what a person is shown, and the beginning of the conversation that a session keeps."""

from harness.case import Case, S, json, uid

GOLDEN = """You are resuming a previous conversation session.
Session: my-session
Created: 2025-01-04T14:32:15.000Z
Last activity: 2025-01-04T15:45:30.000Z
Total messages: 24 (12 from user, 12 from assistant)
Description: Working on authentication feature
First topic: Help me implement JWT authentication...

The conversation history follows. Continue naturally from where you left off."""


class Resume(Case):
    def sample(self, **more):
        key = f"agent:main:cli:{uid()}"
        self.ok(self.api.put(S(key), {"createdAt": 1736001135000, "name": "my-session", **more}), 201)
        entries = []
        for n in range(12):
            entries += [{"role": "user", "text": f"question {n}" if n else "Help me implement JWT authentication"},
                        {"role": "assistant", "text": f"answer {n}"}]
        self.ok(self.api.post(S(key, "main", "messages"), {"entries": entries}), 201)
        self.ok(self.api.patch(S(key), {"lastInteractionAt": 1736005530000}))
        return key

    def resume(self, key, body=None, **named):
        return self.api.post(S(key, "main", "resume"), body, **named)

    def test_resume_says_exactly_this(self):
        key = self.sample(description="Working on authentication feature")
        with self.api.stream("/v1/events?types=session.resumed&keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            answer = self.ok(self.resume(key, {"client": "cli-1"}), 200)
            event = stream.wait_type("session.resumed").data
        self.assertEqual(event["data"], {"client": "cli-1"})
        self.assertEqual(answer["resumeSummary"], GOLDEN)
        self.assertEqual(answer["messages"], {"count": 24, "firstSeq": 0, "lastSeq": 23})
        self.assertIsNone(answer["contextSummary"])
        self.assertEqual(answer["restored"], {"messages": True, "metadata": True, "contextSummary": False,
                                              "toolContext": False, "eventLogs": False})
        shown = self.ok(self.api.get(S(key)))
        self.assertEqual({**answer["session"], "asOf": 0}, {**shown, "paths": answer["session"].get("paths"), "asOf": 0}
                         if "paths" in answer["session"] else {k: v for k, v in {**shown, "asOf": 0}.items()
                                                               if k != "paths"})
        plain = self.resume(shown["sessionId"], headers={"Accept": "text/plain"})
        self.assertEqual(plain.raw.decode(), GOLDEN)
        self.assertTrue(plain.headers.get("Content-Type").startswith("text/plain"))
        without = self.ok(self.resume(self.new()["key"]), 200)
        self.assertEqual(without["messages"], {"count": 0, "firstSeq": None, "lastSeq": None})
        for line in ("Description", "First topic"):
            self.assertNotIn(line, without["resumeSummary"])

    def test_a_model_is_shown_nothing_of_it(self):
        key = self.sample()
        before = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm"))
        self.ok(self.resume(key), 200)
        after = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm"))
        self.assertEqual(json.dumps(after["data"]), json.dumps(before["data"]))
        self.assertNotIn("resuming", json.dumps(after))

    def test_the_first_message_is_that_of_a_person_cut_at_200_characters(self):
        key = self.new()["key"]
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "system", "text": "be brief"}), 201)
        self.say(key, "é" * 300)
        self.say(key, "second")
        session = self.ok(self.api.get(S(key)))
        self.assertEqual(session["firstMessage"], "é" * 200)
        self.invalid(self.api.patch(S(key), {"firstMessage": "x"}), "/firstMessage")
        self.daemon.restart(kill=True)
        self.assertEqual(self.ok(self.api.get(S(key)))["firstMessage"], "é" * 200)
        self.ok(self.api.post(S(key, "main", "reset")), 200)
        self.assertNotIn("firstMessage", self.ok(self.api.get(S(key))))
        self.say(key, "anew")
        self.assertEqual(self.ok(self.api.get(S(key)))["firstMessage"], "anew")
        first = self.inbound(text="hello there")
        self.assertEqual(self.ok(self.api.get(S(first["sessionKey"])))["firstMessage"], "hello there")

    def test_lists_begin_with_the_newest_and_absent_sessions_are_404(self):
        agent = "l" + uid(8).lower()
        keys = []
        for n in range(3):
            session = self.new(f"agent:{agent}:{n}")
            keys.append(session["key"])
            self.wait_past(session)
        self.say(keys[0], agent=agent)
        listed = self.ok(self.api.get(f"/v1/agents/{agent}/sessions"))["data"]
        self.assertEqual([s["key"] for s in listed], [keys[0], keys[2], keys[1]])
        self.assertEqual(self.api.request("HEAD", S(keys[1], agent)).status, 200)
        self.ok(self.api.delete(S(keys[1], agent)), 204)
        self.problem(self.api.delete(S(keys[1], agent)), 404, "session_not_found")
        self.assertEqual(self.api.request("HEAD", S(keys[1], agent)).status, 404)
        self.problem(self.api.get(S(keys[1], agent)), 404, "session_not_found")
        self.problem(self.api.post(S(keys[1], agent, "resume")), 404, "session_not_found")

    def test_tools_are_never_restored(self):
        key = self.sample()
        self.ok(self.api.post(S(key, "main", "compact"), {"summary": "what was", "firstKeptEntryId":
                self.messages(key)[20]["id"]}), 200, 201)
        answer = self.ok(self.resume(key), 200)
        self.assertEqual(answer["contextSummary"], "what was")
        self.assertEqual((answer["restored"]["contextSummary"], answer["restored"]["toolContext"]), (True, False))
        self.assertEqual(answer["messages"]["count"], 24)

    def test_the_same_idempotency_key_gets_the_same_answer(self):
        key = self.sample()
        headers = {"Idempotency-Key": uid()}
        first = self.resume(key, headers=headers)
        self.say(key)
        again = self.resume(key, headers=headers)
        self.assertEqual((again.json, again.headers.get("Idempotency-Replayed")), (first.json, "true"))

    def test_an_ephemeral_session(self):
        key = f"agent:main:cli:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.say(key, "hello")
        answer = self.ok(self.resume(key), 200)
        self.assertEqual((answer["messages"]["count"], answer["durable"]), (1, False))
        self.assertIn("First topic: hello...", answer["resumeSummary"])

    def test_counts_after_a_restart_and_of_foreign_lines(self):
        key = self.sample()
        self.ok(self.resume(key), 200)
        self.daemon.restart()
        self.say(key, "one more")
        answer = self.ok(self.resume(key), 200)
        self.assertIn("Total messages: 25 (13 from user, 12 from assistant)", answer["resumeSummary"])

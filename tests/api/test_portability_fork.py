"""Fork: a session that begins as another one did. Replace: a session that gets another transcript."""

from harness.case import Case, S, json, text_of, uid


class ForkCase(Case):
    def prepared(self, count=9, key=None, **entry):
        key = key or f"agent:main:work:{uid().lower()}"
        self.ok(self.api.put(S(key), {"label": "L", "thinkingLevel": "high", "modelOverride": "m", **entry}), 201)
        entries = []
        for n in range(count):
            role = "assistant" if n % 2 else "user"
            entries.append({"role": role, "text": f"text {n}",
                            **({"usage": {"input": 10, "output": n, "totalTokens": 10 + n}} if n % 2 else {})})
        if entries:
            self.ok(self.api.post(S(key, "main", "messages"), {"entries": entries}), 201)
        return key

    def fork(self, key, body=None, **named):
        return self.api.post(S(key, "main", "fork"), body, **named)

    def raw(self, key, query=""):
        return self.api.get(S(key, "main", "transcript") + query).raw

    def left(self):
        return [p.name for p in self.daemon.agent_dir().iterdir() if p.name.endswith(".staged.tmp")]


class Fork(ForkCase):
    def test_a_fork_ends_at_its_message(self):
        origin = self.prepared()
        before = self.raw(origin)
        session = self.ok(self.api.get(S(origin)))
        said = self.messages(origin)
        with self.api.stream("/v1/events?types=session.*") as stream:
            stream.wait_type("stream.hello")
            reply = self.fork(session["sessionId"], {"messageId": said[4]["id"], "name": "Second try"})
            fork = self.ok(reply, 201)
            created = stream.wait_type("session.created").data
            event = stream.wait_type("session.forked").data
        self.assertEqual(reply.headers["Location"], S(fork["key"]))
        self.assertRegex(fork["sessionId"], r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        self.assertEqual(created["data"]["reason"], "fork")
        self.assertEqual((event["key"], event["data"]), (fork["key"], {"from": session["sessionId"],
                                                                       "messageId": said[4]["id"]}))
        self.assertEqual(fork["forkedFrom"], {"sessionId": session["sessionId"], "messageId": said[4]["id"]})
        self.assertEqual(self.messages(fork["key"]), said[:5])
        lines = self.raw(fork["key"]).splitlines(keepends=True)
        self.assertEqual(lines[1:], before.splitlines(keepends=True)[1:6])
        header = json.loads(lines[0])
        self.assertEqual((header["id"], header["parentSession"]), (fork["sessionId"], session["sessionId"] + ".jsonl"))
        self.assertEqual([fork[n] for n in ("messageCount", "inputTokens", "outputTokens", "totalTokens")], [5, 20, 4, 24])
        self.assertEqual((fork["name"], fork["slug"]), ("Second try", "second-try"))
        self.assertEqual((fork["thinkingLevel"], fork["modelOverride"], fork["firstMessage"]), ("high", "m", "text 0"))
        self.assertNotIn("label", fork)
        self.say(fork["key"], "here")
        self.say(origin, "there")
        self.assertEqual(self.texts(fork["key"]), [f"text {n}" for n in range(5)] + ["here"])
        self.assertEqual(self.texts(origin), [f"text {n}" for n in range(9)] + ["there"])
        self.assertTrue(self.raw(origin).startswith(before))
        self.assertEqual(self.messages(fork["key"])[5]["parentId"], said[4]["id"])
        self.assertEqual(self.left(), [])
        self.daemon.restart(kill=True)
        self.assertEqual(self.texts(fork["key"]), [f"text {n}" for n in range(5)] + ["here"])

    def test_a_whole_session_and_an_empty_one(self):
        origin = self.prepared()
        key = f"agent:main:work:{uid().lower()}"
        fork = self.ok(self.fork(origin, {"key": key}), 201)
        self.assertEqual((fork["key"], fork["forkedFrom"]["messageId"]), (key, self.messages(origin)[-1]["id"]))
        self.assertEqual(self.messages(key), self.messages(origin))
        of_fork = self.ok(self.fork(key), 201)
        self.assertEqual(self.messages(of_fork["key"]), self.messages(origin))
        self.problem(self.fork(origin, {"key": key}), 409, "session_exists")
        empty = self.ok(self.fork(self.prepared(0)), 201)
        self.assertEqual((empty["messageCount"], empty["forkedFrom"]["messageId"]), (0, None))
        self.assertEqual(self.say(empty["key"])["firstSeq"], 0)

    def test_only_the_path_to_the_message(self):
        origin = self.prepared(4)
        said = self.messages(origin)
        self.ok(self.api.post(S(origin, "main", "messages"), {"role": "user", "text": "branch", "parentId": said[1]["id"]}), 201)
        fork = self.ok(self.fork(origin), 201)
        self.assertEqual(self.texts(fork["key"]), ["text 0", "text 1", "branch"])
        other = self.ok(self.fork(origin, {"messageId": said[3]["id"]}), 201)
        self.assertEqual(self.texts(other["key"]), ["text 0", "text 1", "text 2", "text 3"])

    def test_a_message_of_a_topic(self):
        origin = self.prepared(2)
        for topic in ("s", "t"):
            for n in range(3):
                self.say(origin, f"{topic} {n}", query="?topic=" + topic)
        inside = self.messages(origin, query="topic=t")[1]["id"]
        fork = self.ok(self.fork(origin, {"messageId": inside}), 201)
        self.assertEqual(self.texts(fork["key"]), ["text 0", "text 1"])
        self.assertEqual(self.texts(fork["key"], query="topic=t"), ["t 0", "t 1"])
        self.assertEqual([t["topic"] for t in self.ok(self.api.get(S(fork["key"], "main", "topics")))["data"]], ["t"])
        self.assertEqual(fork["messageCount"], 4)
        self.invalid(self.fork(origin, {"messageId": inside, "key": f"agent:main:x:group:{uid().lower()}:topic:t"}), "/key")
        of_topic = self.prepared(2, key=f"agent:main:x:group:{uid().lower()}:topic:7")
        again = self.ok(self.fork(of_topic, {"key": f"agent:main:x:group:{uid().lower()}:topic:8"}), 201)
        self.assertEqual(self.texts(again["key"]), ["text 0", "text 1"])
        self.say(again["key"], "more")
        self.daemon.restart()
        self.assertEqual(self.texts(again["key"]), ["text 0", "text 1", "more"])

    def test_a_long_transcript(self):
        origin = self.prepared(0)
        for _ in range(5):
            self.ok(self.api.post(S(origin, "main", "messages"), {"entries": [{"role": "user", "text": "x" * 20000}] * 200}), 201)
        fork = self.ok(self.fork(origin), 201)
        self.assertEqual(fork["messageCount"], 1000)
        self.assertEqual(self.raw(fork["key"]).split(b"\n", 1)[1], self.raw(origin).split(b"\n", 1)[1])

    def test_what_it_may_do_comes_along(self):
        origin = self.prepared(3, turnCap=2, permissionMode="strict", tools=["a"], sdkSessionId=uid())
        fork = self.ok(self.fork(origin), 201)
        for name in ("turnCap", "permissionMode", "tools"):
            self.assertEqual(fork[name], self.api.get(S(origin)).json[name], name)
        self.assertNotIn("sdkSessionId", fork)
        self.invalid(self.fork(origin, {"turnCap": 9}), "/turnCap")

    def test_limited_tokens(self):
        prefix = f"agent:main:p{uid().lower()}:"
        token = self.daemon.client(self.daemon.token("operator", agents=["main"], keyPrefix=prefix))
        hidden, mine = self.prepared(), self.prepared(key=prefix + "a")
        def fork(key, body):
            return token.post(S(key, "main", "fork"), body)
        absent = fork("agent:main:none", {"key": prefix + "b"})
        self.problem(absent, 404, "session_not_found")
        self.problem(fork(hidden, {"key": prefix + "b"}), 404, "session_not_found")
        self.problem(fork(mine, {}), 403, "forbidden")
        self.problem(fork(mine, {"key": "agent:main:else"}), 403, "forbidden")
        made = self.ok(fork(mine, {"key": prefix + "b"}), 201)
        self.assertEqual(self.messages(made["key"]), self.messages(mine))
        reader = self.daemon.client(self.daemon.token("viewer"))
        self.problem(reader.post(S(mine, "main", "fork"), {}), 403, "forbidden")

    def test_faults(self):
        origin = self.prepared(2)
        self.problem(self.fork(origin, {"messageId": "nope"}), 404, "message_not_found")
        self.invalid(self.fork(origin, {"messageId": "a b"}), "/messageId")
        self.problem(self.fork(origin, {"name": "index"}), 422, "reserved_name")
        self.invalid(self.fork(origin, {"name": "x" * 513}), "/name")
        self.assertEqual(self.left(), [])
        key = f"agent:main:cli:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.invalid(self.fork(key), "")
        headers = {"Idempotency-Key": uid()}
        first, again = self.fork(origin, headers=headers), self.fork(origin, headers=headers)
        self.assertEqual((again.json, again.headers["Idempotency-Replayed"]), (first.json, "true"))
        self.assertEqual(self.left(), [])


class Replace(ForkCase):
    def replace(self, key, entries, expected=None, **named):
        body = {"entries": entries, **({} if expected is None else {"expectedSeq": expected})}
        return self.api.put(S(key, "main", "transcript"), body, **named)

    def test_a_put_replaces_a_transcript(self):
        key = self.prepared(9, sdkSessionId=uid())
        before = self.ok(self.api.get(S(key)))
        new = [{"id": "one", "role": "user", "text": "new"},
               {"role": "assistant", "text": "answer", "usage": {"input": 3, "output": 4}}]
        self.problem(self.replace(key, new), 428, "precondition_required")
        self.problem(self.replace(key, new, 8), 412, "precondition_failed")
        self.say(key, "meanwhile")
        self.problem(self.replace(key, new, 9), 412, "precondition_failed")
        self.assertEqual(self.left(), [])
        with self.api.stream("/v1/events?types=session.reset&keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            after = self.ok(self.replace(key, new, 10), 200)
            event = stream.wait_type("session.reset").data["data"]
        self.assertEqual((event["reason"], event["previousSessionId"]), ("replace", before["sessionId"]))
        self.assertEqual(after["previousSessionId"], before["sessionId"])
        self.assertNotEqual(after["sessionId"], before["sessionId"])
        self.assertEqual([after[n] for n in ("messageCount", "inputTokens", "outputTokens", "firstMessage", "label")],
                         [2, 3, 4, "new", "L"])
        self.assertNotIn("sdkSessionId", after)
        said = self.messages(key)
        self.assertEqual([(m["seq"], m["parentId"], text_of(m)) for m in said],
                         [(0, None, "new"), (1, "one", "answer")])
        self.assertEqual(len(self.messages(before["sessionId"])), 10)
        history = self.ok(self.api.get(S(key, "main", "history")))["data"]
        self.assertEqual([h["sessionId"] for h in history], [after["sessionId"], before["sessionId"]])
        self.assertEqual(history[1]["reason"], "replace")
        self.assertEqual(self.say(key, "on")["firstSeq"], 2)
        self.daemon.restart(kill=True)
        self.assertEqual(self.texts(key), ["new", "answer", "on"])

    def test_a_message_has_at_most_10_files(self):
        key = self.prepared(0)
        def with_files(count):
            return {"role": "user", "content": [{"type": "text", "text": "see"}] + [
                {"type": "image", "data": "x", "mimeType": "image/png"}] * count}
        self.invalid(self.replace(key, [{"role": "user", "text": "a"}, with_files(11)], 0), "/entries/1")
        self.ok(self.replace(key, [with_files(10)], 0), 200)

    def test_faults_change_nothing(self):
        key = self.prepared(2)
        before = self.raw(key)
        self.invalid(self.replace(key, [{"role": "user", "text": "a"}, {"role": "user"}], 2), "/entries/1/text")
        self.problem(self.replace(key, [{"id": "a", "role": "user", "text": "a"}] * 2, 2), 409, "entry_id_conflict")
        self.invalid(self.api.put(S(key, "main", "transcript"), {"expectedSeq": 2}), "/entries")
        self.problem(self.replace("agent:main:none", [], 0), 404, "session_not_found")
        self.problem(self.replace(key, [], 2, headers={"If-Match": '"r1"'}), 412, "precondition_failed")
        self.ok(self.api.post(S(key, "main", "archive")), 200)
        self.problem(self.replace(key, [], 2), 409, "session_archived")
        self.assertEqual((self.raw(key), self.left()), (before, []))

    def test_with_nothing_and_with_much(self):
        key = self.prepared(2)
        self.ok(self.replace(key, [], 2), 200)
        self.assertEqual(self.messages(key), [])
        self.assertEqual(self.say(key)["firstSeq"], 0)
        self.ok(self.replace(key, [{"role": "user", "text": "y" * 300}] * 15000, 1), 200)
        self.assertEqual(self.ok(self.api.get(S(key)))["messageCount"], 15000)
        self.assertEqual(self.say(key)["firstSeq"], 15000)


class Shared(ForkCase):
    config = {"store": {"mode": "shared"}}

    def test_in_a_store_that_is_shared(self):
        origin = self.prepared(4)
        fork = self.ok(self.fork(origin), 201)
        self.assertEqual(self.messages(fork["key"]), self.messages(origin))
        self.ok(self.api.put(S(origin, "main", "transcript"), {"entries": [{"role": "user", "text": "a"}], "expectedSeq": 4}), 200)
        self.assertEqual(self.texts(origin), ["a"])
        self.ok(self.api.post(S(fork["key"], "main", "clear")), 200)
        self.say(fork["key"], "b")
        self.daemon.restart(kill=True)
        self.assertEqual((self.texts(origin), self.texts(fork["key"])), (["a"], ["b"]))

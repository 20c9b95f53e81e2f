"""Clear: a session is emptied and keeps its id."""

from harness.case import Case, S, uid


class Clear(Case):
    def prepared(self, **entry):
        key = f"agent:main:slack:group:{uid()}"
        self.ok(self.api.put(S(key), {"label": "L", "sdkSessionId": uid(), "systemSent": True, **entry}), 201)
        self.say(key, "before")
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": "x",
                                                           "usage": {"input": 10, "output": 5}}), 201)
        self.say(key, "topic before", query="?topic=t")
        return self.ok(self.api.get(S(key)))

    def clear(self, key, **named):
        return self.api.post(S(key, "main", "clear"), **named)

    def test_clear_keeps_the_id_and_archives_the_rest(self):
        before = self.prepared()
        key = before["key"]
        with self.api.stream("/v1/events?types=context.*&keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            reply = self.clear(key)
            after = self.ok(reply, 200)
            event = stream.wait_type("context.cleared").data
        self.assertEqual(reply.etag, f'"r{after["rev"]}"')
        self.assertEqual(after["sessionId"], before["sessionId"])
        self.assertEqual(event["data"]["archivedAs"], after["archivedAs"])
        self.assertEqual(len(after["archivedAs"]), 2)
        for counter in ("messageCount", "inputTokens", "outputTokens", "totalTokens", "compactionCount", "runCount"):
            self.assertEqual(after[counter], 0, counter)
        for gone in ("sdkSessionId", "firstMessage", "systemSent"):
            self.assertNotIn(gone, after)
        self.assertEqual((after["label"], after["createdAt"]), ("L", before["createdAt"]))
        self.assertEqual(self.messages(key), [])
        self.assertEqual(self.messages(key, query="topic=t"), [])
        self.assertEqual(self.ok(self.api.get(S(key, "main", "topics")))["data"], [])
        for name in after["archivedAs"]:
            self.assertRegex(name, rf"^{before['sessionId']}(-topic-t)?\.jsonl\.reset\.")
            said = self.texts(key, query="archive=" + name)
            self.assertEqual(said, ["topic before"] if "topic" in name else ["before", "x"])
            raw = self.api.get(S(key, "main", "transcript") + "?archive=" + name)
            self.assertEqual(raw.status, 200)
        history = self.ok(self.api.get(S(key, "main", "history")))["data"]
        self.assertEqual([(h["sessionId"], h.get("reason")) for h in history],
                         [(before["sessionId"], None), (before["sessionId"], "cleared")])
        self.assertEqual(self.say(key, "after")["firstSeq"], 0)
        self.assertEqual(self.texts(key), ["after"])
        self.assertEqual(self.ok(self.api.get(S(key)))["firstMessage"], "after")

    def test_again_and_over_kills(self):
        before = self.prepared()
        key = before["key"]
        names = []
        for n in range(3):
            names += self.ok(self.clear(key), 200)["archivedAs"]
            self.say(key, f"round {n}")
            self.daemon.restart(kill=n != 1)
            self.assertEqual(self.texts(key), [f"round {n}"])
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(sorted(t for n in names for t in self.texts(key, query="archive=" + n)),
                         ["before", "round 0", "round 1", "topic before", "x"])
        self.ok(self.api.delete(S(key)), 204)
        self.assertEqual(self.texts(before["sessionId"], query="archive=" + names[0]), ["before", "x"])
        restored = self.ok(self.api.post(S(key, "main", "restore")), 200)
        self.assertEqual(restored["sessionId"], before["sessionId"])
        self.assertEqual(self.texts(key), ["round 2"])
        self.daemon.restart(kill=True)
        self.assertEqual(self.texts(key), ["round 2"])

    def test_an_empty_session_can_be_cleared(self):
        key = self.new()["key"]
        self.assertEqual(self.ok(self.clear(key), 200)["archivedAs"], [])
        self.daemon.restart(kill=True)
        self.assertEqual(self.messages(key), [])

    def test_faults(self):
        before = self.prepared()
        key = before["key"]
        self.problem(self.clear(key, headers={"If-Match": '"r1"'}), 412, "precondition_failed")
        self.problem(self.clear("agent:main:none"), 404, "session_not_found")
        self.invalid(self.api.post(S(key, "main", "clear"), {"x": 1}), "/x")
        self.assertEqual(self.texts(key), ["before", "x"])
        for name in ("nope", f"{before['sessionId']}.jsonl", "../tokens.json"):
            self.problem(self.api.get(S(key, "main", "messages") + "?archive=" + name), 404, "not_found")
        other = self.prepared()
        name = self.ok(self.clear(other["key"]), 200)["archivedAs"][0]
        self.problem(self.api.get(S(key, "main", "messages") + "?archive=" + name), 404, "not_found")
        self.problem(self.api.get(S(key, "main", "messages") + f"?archive={name}&topic=t"), 400, "bad_request")

    def test_an_ephemeral_session(self):
        key = f"agent:main:cli:{uid()}"
        made = self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.say(key, "hello")
        after = self.ok(self.clear(key), 200)
        self.assertEqual((after["sessionId"], after["archivedAs"]), (made["sessionId"], []))
        self.assertEqual(self.messages(key), [])

    def test_a_run_ends(self):
        first = self.inbound(text="do something")
        key = first["sessionKey"]
        after = self.ok(self.clear(key), 200)
        run = self.ok(self.api.get(S(key, "main", "runs/") + first["run"]["runId"]))
        self.assertNotIn(run["status"], ("queued", "running"))
        self.assertEqual(after["sessionId"], first["sessionId"])

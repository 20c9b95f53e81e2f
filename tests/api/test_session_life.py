"""The life of a session: deleted, reset, archived, with children and with topics."""

import re

from harness.case import Case, S, json, uid

ALL = "/v1/agents/main/sessions"


class Delete(Case):
    def test_archives_the_transcripts(self):
        session = self.new()
        self.say(session["key"], "keep me")
        self.say(session["key"], "in a topic", query="?topic=7")
        with self.api.stream("/v1/events?types=session.*&keyPrefix=" + session["key"]) as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.delete(S(session["key"])), 204)
            data = stream.wait_type("session.deleted").data["data"]
        self.assertFalse(data["purged"])
        self.assertEqual(len(data["archivedAs"]), 2)
        for name in data["archivedAs"]:
            self.assertRegex(name, rf"^{session['sessionId']}(-topic-7)?\.jsonl\.deleted\.\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{{3}}Z$")
        self.daemon.checkpoint()
        for name in data["archivedAs"]:
            self.assertTrue((self.daemon.agent_dir() / name).exists(), name)
        self.assertFalse((self.daemon.agent_dir() / f"{session['sessionId']}.jsonl").exists())
        self.problem(self.api.get(S(session["key"])), 404, "session_not_found")
        self.problem(self.api.delete(S(session["key"])), 404, "session_not_found")
        self.ok(self.api.delete(S(session["key"]) + "?missing=ok"), 204)
        self.assertNotIn(session["key"], self.daemon.sessions_json())
        # The archived transcript stays readable by its id, and only that.
        self.assertEqual(self.texts(session["sessionId"]), ["keep me"])
        self.assertIn(self.api.post(S(session["sessionId"], "main", "messages"), {"role": "user", "text": "x"}).status,
                      (404, 405, 409))
        again = self.new(session["key"])
        self.assertNotEqual(again["sessionId"], session["sessionId"])

    def test_purge_destroys(self):
        session = self.new()
        self.say(session["key"], "burn me")
        with self.api.stream("/v1/events?types=session.*&keyPrefix=" + session["key"]) as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.delete(S(session["key"]) + "?purge=true"), 204)
            self.assertTrue(stream.wait_type("session.deleted").data["data"]["purged"])
        self.daemon.checkpoint()
        self.assertFalse([p.name for p in self.daemon.agent_dir().iterdir() if p.name.startswith(session["sessionId"])])
        self.problem(self.api.get(S(session["sessionId"], "main", "messages")), 404, "session_not_found")


class Reset(Case):
    KEPT = {"channel": "slack", "chatType": "group", "label": "L", "name": "N", "displayName": "D", "groupId": "G",
            "subject": "S", "space": "P",
            "groupChannel": "#g", "sendPolicy": "deny", "groupActivation": "always", "modelOverride": "m",
            "providerOverride": "p",
            "authProfileOverride": "a", "authProfileOverrideSource": "user", "thinkingLevel": "high", "verboseLevel": "on", "execHost": "h",
            "queueMode": "steer",
            "queueCap": 3, "responseUsage": "full", "ttsAuto": "always", "skillsSnapshot": {"skills": [1]},
            "spawnedBy": "agent:main:main",
            "origin": {"label": "O"}, "deliveryContext": {"channel": "slack", "to": "C1"}, "x-unknown": 12}
    CLEARED = {"sdkSessionId": "s", "cliSessionIds": {"a": "b"}, "claudeCliSessionId": "c", "systemSent": True,
               "abortedLastRun": True,
               "lastHeartbeatText": "t", "lastHeartbeatSentAt": 5, "memoryFlushAt": 6, "memoryFlushCompactionCount": 1}

    def prepared(self):
        key = f"agent:main:slack:group:{uid()}"
        self.ok(self.api.put(S(key), {**self.KEPT, **self.CLEARED, "inputTokens": 10, "outputTokens": 5,
                                      "totalTokens": 15, "compactionCount": 2}), 201)
        self.say(key, "before")
        self.say(key, "topic before", query="?topic=t")
        return self.api.get(S(key)).json

    def test_keeps_and_clears(self):
        before = self.prepared()
        with self.api.stream("/v1/events?types=session.*&keyPrefix=" + before["key"]) as stream:
            stream.wait_type("stream.hello")
            reply = self.api.post(S(before["key"], "main", "reset"), {"reason": "spring cleaning"})
            after = self.ok(reply, 200)
            data = stream.wait_type("session.reset").data
        self.assertEqual(after["previousSessionId"], before["sessionId"])
        self.assertNotEqual(after["sessionId"], before["sessionId"])
        self.assertEqual(reply.etag, f'"r{after["rev"]}"')
        now = self.api.get(S(before["key"])).json
        for name in self.KEPT:
            self.assertEqual(now.get(name), before[name], name)
        for name in self.CLEARED:
            self.assertFalse(now.get(name), name)
        for name in ("messageCount", "inputTokens", "outputTokens", "totalTokens", "compactionCount"):
            self.assertFalse(now.get(name), name)
        self.assertEqual((data["data"]["previousSessionId"], data["data"]["reason"], data["sessionId"]),
                         (before["sessionId"], "spring cleaning", after["sessionId"]))
        self.assertEqual(sorted(data["data"]["archivedAs"]), sorted(after["archivedAs"]))
        self.assertEqual(len(after["archivedAs"]), 2, "the transcript and its topic")
        self.daemon.checkpoint()
        for name in after["archivedAs"]:
            self.assertRegex(name, rf"^{before['sessionId']}(-topic-t)?\.jsonl\.reset\.")
            self.assertTrue((self.daemon.agent_dir() / name).exists(), name)

    def test_the_new_transcript_is_empty_and_the_old_one_readable(self):
        before = self.prepared()
        after = self.ok(self.api.post(S(before["key"], "main", "reset")), 200)
        self.assertEqual(self.messages(before["key"]), [])
        self.assertEqual(self.texts(before["sessionId"]), ["before"])
        self.say(before["key"], "after")
        self.assertEqual(self.texts(before["key"]), ["after"])
        problem = self.problem(self.api.get(S(before["key"], "main", "messages") + "?sessionId=" + before["sessionId"]),
                               409, "session_reset")
        self.assertIn(after["sessionId"], json.dumps(problem), "with the new id")
        history = self.ok(self.api.get(S(before["key"], "main", "history")), 200)["data"]
        self.assertEqual({h["sessionId"] for h in history}, {before["sessionId"], after["sessionId"]})
        for name in after["archivedAs"]:
            self.assertIn(name, json.dumps(history))

    def test_without_metadata(self):
        before = self.prepared()
        after = self.ok(self.api.post(S(before["key"], "main", "reset"), {"keepMetadata": False}), 200)
        for name in ("label", "sendPolicy", "modelOverride", "skillsSnapshot", "thinkingLevel", "sdkSessionId"):
            self.assertNotIn(name, after)
        self.assertNotEqual(after["sessionId"], before["sessionId"])
        self.assertEqual((self.texts(before["key"]), self.texts(before["sessionId"])), ([], ["before"]))
        self.daemon.checkpoint()
        archived = self.daemon.agent_dir().glob(f"{before['sessionId']}*.reset.*Z")
        self.assertEqual(sorted(path.name for path in archived), sorted(after["archivedAs"]))
        self.assertEqual(len(after["archivedAs"]), 2, "the transcript and its topic")

    def test_faults(self):
        session = self.new()
        self.invalid(self.api.post(S(session["key"], "main", "reset"), {"keep": True}), "/keep")
        self.invalid(self.api.post(S(session["key"], "main", "reset"), {"keepMetadata": "yes"}), "/keepMetadata")

    def test_twice_in_the_same_millisecond(self):
        session = self.new()
        ids = [session["sessionId"]]
        for _ in range(5):
            self.say(session["key"])
            ids.append(self.ok(self.api.post(S(session["key"], "main", "reset")), 200)["sessionId"])
        self.assertEqual(len(set(ids)), 6)
        self.daemon.checkpoint()
        for old in ids[:-1]:
            self.assertEqual(len(self.messages(old)), 1)


class Archive(Case):
    def test_archive_and_back(self):
        session = self.new()
        self.say(session["key"], "one")
        body = self.ok(self.api.post(S(session["key"], "main", "archive")), 200)
        self.assertGreater(body["archivedAt"], 1_600_000_000_000)
        self.problem(self.api.post(S(session["key"], "main", "messages"), {"role": "user", "text": "two"}), 409,
                     "session_archived")
        self.problem(self.api.post(S(session["key"], "main", "outbound"), {"text": "two"}), 409, "session_archived")
        self.assertEqual(self.texts(session["key"]), ["one"], "still to be read")
        listed = lambda query: [s["key"] for s in self.api.get(ALL + "?limit=200&" + query).json["data"]]
        self.assertNotIn(session["key"], listed(""))
        self.assertIn(session["key"], listed("archived=true"))
        self.assertIn(session["key"], listed("archived=any"))
        self.assertFalse([k for k in listed("archived=true") if k not in listed("archived=any")])
        body = self.ok(self.api.post(S(session["key"], "main", "unarchive")), 200)
        self.assertNotIn("archivedAt", body)
        self.say(session["key"], "two")
        self.assertEqual(self.texts(session["key"]), ["one", "two"])

    def test_events(self):
        session = self.new()
        with self.api.stream("/v1/events?types=session.*&keyPrefix=" + session["key"]) as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.post(S(session["key"], "main", "archive")), 200)
            self.ok(self.api.post(S(session["key"], "main", "archive")), 200)  # again: nothing more happens
            self.ok(self.api.post(S(session["key"], "main", "unarchive")), 200)
            stream.wait_type("session.unarchived")
            self.assertEqual([e.type for e in stream.durable], ["session.archived", "session.unarchived"])


class Spawn(Case):
    config = {"session": {"spawn": {"depth": 2, "count": 3}}}

    def spawned(self, parent, **body):
        return self.ok(self.api.post(S(parent, "main", "spawn"), body), 201)

    def test_children(self):
        parent = self.new()["key"]
        child = self.spawned(parent, label="research", entry={"modelOverride": "small", "x-own": 1})
        self.assertRegex(child["key"], r":subagent:[0-9a-f-]{36}$")
        self.assertTrue(child["key"].startswith("agent:main:"))
        self.assertEqual((child["spawnedBy"], child["label"], child["modelOverride"], child["x-own"]),
                         (parent, "research", "small", 1))
        self.assertEqual([c["key"] for c in self.ok(self.api.get(S(parent, "main", "children")), 200)["data"]],
                         [child["key"]])
        self.assertEqual(self.ok(self.api.get(S(child["key"], "main", "children")), 200)["data"], [])
        self.assertEqual([s["key"] for s in self.api.get(ALL + "?spawnedBy=" + parent).json["data"]], [child["key"]])
        self.invalid(self.api.post(S(parent, "main", "spawn"), {"lable": "x"}), "/lable")

    def test_depth_is_capped(self):
        key = self.new()["key"]
        for _ in range(2):
            key = self.spawned(key)["key"]
        reply = self.api.post(S(key, "main", "spawn"), {})
        self.assertIn(reply.status, (409, 422), reply)
        self.assertIn("dep", reply.json["detail"])

    def test_count_is_capped(self):
        key = self.new()["key"]
        children = [self.spawned(key)["key"] for _ in range(3)]
        self.assertIn(self.api.post(S(key, "main", "spawn"), {}).status, (409, 422))
        self.ok(self.api.delete(S(children[0])), 204)
        self.spawned(key)


class Topics(Case):
    def test_topics(self):
        session = self.new()
        key = session["key"]
        self.assertEqual(self.ok(self.api.get(S(key, "main", "topics")), 200)["data"], [])
        self.say(key, "in none")
        for topic, count in (("42", 2), ("a/b ü", 1)):
            for i in range(count):
                self.say(key, f"{topic} {i}", query="?topic=" + re.sub("[^0-9a-z]",
                                                                       lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), topic))
        rows = {t["topic"]: t for t in self.ok(self.api.get(S(key, "main", "topics")), 200)["data"]}
        self.assertEqual({t: r["messageCount"] for t, r in rows.items()}, {"42": 2, "a/b ü": 1})
        self.assertGreater(rows["42"]["updatedAt"], 1_600_000_000_000)
        self.daemon.checkpoint()
        names = {p.name for p in self.daemon.agent_dir().iterdir() if p.name.startswith(session["sessionId"])}
        self.assertEqual(names, {f"{session['sessionId']}{t}.jsonl"
                                 for t in ("", "-topic-42", "-topic-a%2Fb%20%C3%BC")})
        reply = self.api.delete(S(key, "main", "topics", "42"))
        self.ok(reply, 200, 204)
        self.assertEqual([t["topic"] for t in self.api.get(S(key, "main", "topics")).json["data"]], ["a/b ü"])
        self.problem(self.api.delete(S(key, "main", "topics", "42")), 404)
        self.daemon.checkpoint()
        self.assertTrue([p for p in self.daemon.agent_dir().iterdir()
                         if p.name.startswith(f"{session['sessionId']}-topic-42.jsonl.deleted.")])
        self.assertEqual(self.texts(key), ["in none"])
        self.say(key, "42 anew", query="?topic=42")
        self.assertEqual(self.texts(key, query="topic=42"), ["42 anew"])

    def test_first_message_makes_the_topic_known(self):
        key = self.new()["key"]
        with self.api.stream("/v1/events?keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            self.say(key, "one", query="?topic=t")
            self.say(key, "two", query="?topic=t")
            stream.wait_for(lambda e: "two" in e.raw)
            events = stream.durable
        self.assertEqual([(e.type, e.data["topic"]) for e in events],
                         [("topic.created", "t"), ("message.appended", "t"), ("message.appended", "t")])


class Restarts(Case):
    """A restart between any two steps."""
    runs = {"asan", "tsan"}

    def test_a_topic_that_was_archived_begins_again_at_0_and_its_archive_is_not_lost(self):
        session = self.new()
        for turn in range(3):
            said = self.say(session["key"], f"turn {turn}", query="?topic=t")
            self.assertEqual((said["firstSeq"], said["lastSeq"]), (0, 0))
            self.ok(self.api.delete(S(session["key"], "main", "topics", "t")), 204)
            self.daemon.restart(kill=turn == 0)
            self.assertEqual(self.ok(self.api.get(S(session["key"], "main", "topics")))["data"], [])
        names = [n for a in self.ok(self.api.get(S(session["key"], "main", "archives")))["data"] for n in a["archivedAs"]]
        self.assertEqual(len(set(names)), 3, names)
        kept = sorted(text for name in names for text in re.findall(r"turn \d", (self.daemon.agent_dir() / name).read_text()))
        self.assertEqual(kept, ["turn 0", "turn 1", "turn 2"])

    def inbound_as(self, key, text):
        return self.api.post("/v1/inbound", {"channel": "slack", "chatType": "channel", "peer": key.rsplit(":", 1)[1], "text": text,
                                             "mentioned": True}, idempotency_key=uid())

    def test_all_that_can_be_read_is_the_same_after_either_end_of_each_step(self):
        key, parent = "agent:main:slack:channel:" + uid(), "agent:main:p:" + uid()
        path, ids = S(key), []
        entry = {"type": "message", "id": uid(), "message": {"role": "assistant", "content": "x", "usage": {"input": 3, "output": 4}}}
        steps = [lambda: self.api.post(ALL, {"key": key, "entry": {"label": "ü", "x": {"y": [1]}}}),
                 lambda: self.api.post(ALL, {"key": parent}),
                 lambda: self.post_to(key, {"entries": [{"role": "user", "text": "a"}, entry]}),
                 lambda: self.post_to(key, {"role": "user", "text": "in the topic"}, "?topic=t"),
                 lambda: self.inbound_as(key, "from a bridge"),
                 lambda: self.api.patch(path, {"label": None, "x": {"z": 2}}),
                 lambda: self.api.put(path + "/send-policy", {"action": "deny"}),
                 lambda: self.api.put(path + "/route", {"channel": "slack", "to": "c9"}),
                 lambda: self.api.post(S(parent, "main", "spawn"), {"label": "child"}),
                 lambda: self.api.delete(path + "/topics/t"),
                 lambda: self.inbound_as(key, "/new again"),
                 lambda: self.api.post(path + "/archive"),
                 lambda: self.api.post(path + "/unarchive"),
                 lambda: self.api.post(path + "/reset", {"reason": "r"}),
                 lambda: self.api.delete(path),
                 lambda: self.api.post(ALL, {"key": key, "sessionId": ids[0]}),
                 lambda: self.post_to(key, {"role": "user", "text": "last"})]
        after = self.ok(self.api.get("/v1/sessions?limit=1"))["asOf"]
        for n, step in enumerate(steps):
            reply = step()
            self.assertTrue(200 <= reply.status < 300, (n, reply))
            if n == 0:
                ids.append(reply.json["sessionId"])
            before = self.all_shown(key, parent)
            self.daemon.restart(kill=n % 2 == 0)
            self.assertEqual(self.all_shown(key, parent), before, f"step {n}")
        self.assertEqual(self.texts(key), ["last"])
        seqs = [e["seq"] for e in self.polled(after)]
        self.assertEqual(seqs, list(range(seqs[0], seqs[0] + len(seqs))), "seq rises by 1 without a hole")

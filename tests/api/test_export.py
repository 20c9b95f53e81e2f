"""Sessions as other programs keep them: what is exported, imported elsewhere and exported again is the same."""

from export_documents import Random, lines_of, stored
from harness.case import Case, S, json, uid

IMPORT = "/v1/agents/{}/import?format={}"


class Exporting(Case):
    def raw(self, reply):
        self.ok(reply, 200)
        return reply.raw

    def take_in(self, body, format, api=None, agent="main", query=""):
        body = body.encode() if isinstance(body, str) else body
        return self.ok((api or self.api).post(IMPORT.format(agent, format) + query, body), 200)

    def document(self, key, format, agent="main", api=None, query=""):
        return self.raw((api or self.api).get(S(key, agent, "export") + "?format=" + format + query))

    def test_a_session_of_the_daemon_as_a_stored_session(self):
        key = self.new(name="My session", description="d", model="m", modelProvider="p")["key"]
        self.say(key, "hi")
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": "yo", "theirs": 1}), 201)
        found = json.loads(self.document(key, "json"))
        session = self.ok(self.api.get(S(key)), 200)
        self.assertEqual({name: found["metadata"][name] for name in found["metadata"] if not name.endswith("At")},
                         {"id": session["sessionId"], "name": "My session", "description": "d", "messageCount": 2,
                          "firstMessage": "hi", "provider": "p", "model": "m"})
        self.assertEqual([(m["role"], m["content"][0]["text"]) for m in found["messages"]], [("user", "hi"), ("assistant", "yo")])
        self.assertRegex(found["messages"][0]["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(found["messages"][1]["theirs"], 1)

    def test_json_goes_to_an_empty_daemon_and_back(self):
        key = self.new(name="n")["key"]
        for text in ("one", "two"):
            self.say(key, text)
        once = self.document(key, "json")
        other = self.spawn()
        self.take_in(once, "json", other.client())
        session_id = json.loads(once)["metadata"]["id"]
        self.assertEqual(self.document(session_id, "json", api=other.client()), once)

    def test_a_record_comes_back(self):
        record = {"id": "r" + uid(), "cwd": "/w", "name": "n", "createdAt": "2025-01-04T14:32:15.000Z",
                  "updatedAt": "2025-01-04T14:40:00.000Z",
                  "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"},
                               {"role": "assistant", "content": "", "toolCalls": [
                                   {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
                               {"role": "tool", "content": "x", "toolCallId": "c"}],
                  "history": [{"id": "h", "category": "event", "type": "tool-summary", "data": {}}],
                  "systemPrompt": "be kind", "toolSchemas": [{"name": "ls", "parameters": {"type": "object"}}],
                  "backgroundTasks": [{"id": "t", "state": "running"}], "backgroundTaskEvents": [{"taskId": "t", "delta": "wo"}],
                  "backgroundJobGroups": [{"id": "g"}], "backgroundJobGroupEvents": [{"groupId": "g", "type": "started"}],
                  "memoryEvents": [{"type": "saved", "topic": "t"}], "usedMemoryReferences": [{"topic": "t"}]}
        self.assertEqual(self.take_in(record, "robota")["ids"], [record["id"]])
        self.daemon.restart(kill=True)
        self.assertNotIn("sessiond.history", json.dumps(self.messages(record["id"], query="view=llm")))
        self.assertEqual(json.loads(self.document(record["id"], "robota")), record)
        again = self.take_in(record, "robota")
        self.assertEqual((again["created"], again["skipped"], again["skips"][0]["why"]), (0, 1, "is there already"))
        del record["history"]
        record["id"] = "r" + uid()
        self.take_in(record, "robota")
        made = json.loads(self.document(record["id"], "robota"))
        self.assertEqual(made["messages"], record["messages"])
        self.assertEqual([m["role"] for m in made["history"][:4]], ["system", "user", "assistant", "tool"])

    def stream(self, api, key, name):
        told, after = [], -1
        while after is not None:
            page = self.ok(api.get(S(key, "main", "streams", name) + f"?limit=200&after={after}"), 200)
            told += [row["data"] for row in page["data"]]
            after = page["page"]["nextAfter"] if page["page"]["hasMore"] else None
        return told

    def test_a_record_has_the_snapshots_and_streams_of_a_living_session(self):
        key = self.new(name="n", cwd="/w", systemPrompt="be kind", backgroundTasks=[{"id": "t"}])["key"]
        self.say(key, "hi")
        schemas = [{"name": "ls", "about": "x" * 2_000}]  # a blob has it
        self.ok(self.api.put(S(key, "main", "snapshots", "toolSchemas"), schemas), 200)
        streams = {"memoryEvents": [{"n": n, "text": "é" * 40_000} for n in range(15)], "backgroundTaskEvents": [{"delta": "wo"}]}
        for name, entries in streams.items():
            self.ok(self.api.post(S(key, "main", "streams", name), {"entries": entries}), 201)
        once = self.document(key, "robota")
        record = json.loads(once)
        self.assertEqual({name: record.get(name) for name in ("systemPrompt", "toolSchemas", "backgroundTasks", *streams)},
                         {"systemPrompt": "be kind", "toolSchemas": schemas, "backgroundTasks": [{"id": "t"}], **streams})
        self.assertNotIn("usedMemoryReferences", record)
        other, session_id = self.spawn().client(), record["id"]
        for query in ("", "&ifExists=replace"):
            self.take_in(once, "robota", other, query=query)
            for name in ("systemPrompt", "toolSchemas", "backgroundTasks"):
                self.assertEqual(self.ok(other.get(S(session_id, "main", "snapshots", name)), 200), record[name])
            for name, entries in streams.items():
                self.assertEqual(self.stream(other, session_id, name), entries)
            made = json.loads(self.document(session_id, "robota", api=other))
            self.assertEqual({**made, "updatedAt": query or record["updatedAt"]}, {**record, "updatedAt": query or made["updatedAt"]},
                             "a session that is replaced was changed now")
        self.ok(other.post(S(session_id, "main", "streams", "memoryEvents"), {"n": "last"}), 201)
        self.ok(other.delete(S(session_id, "main", "snapshots", "systemPrompt")), 204)
        later = json.loads(self.document(session_id, "robota", api=other))
        self.assertEqual((later["memoryEvents"][-1], "systemPrompt" in later), ({"n": "last"}, False))
        self.assertNotIn("memoryEvents", json.loads(self.document(session_id, "robota", api=other, query="&topic=42")))

    def test_what_is_no_list_of_a_stream_stays_in_the_record(self):
        record = {"id": "r" + uid(), "cwd": "/w", "createdAt": "2025-01-04T14:32:15.000Z", "updatedAt": "2025-01-04T14:32:15.000Z",
                  "messages": [], "history": [], "systemPrompt": None, "memoryEvents": [1], "usedMemoryReferences": {}, "backgroundTaskEvents": []}
        self.take_in(record, "robota")
        self.assertEqual(json.loads(self.document(record["id"], "robota")), record)
        self.ok(self.api.post(S(record["id"], "main", "streams", "memoryEvents"), {"n": 1}), 201)
        self.assertEqual(json.loads(self.document(record["id"], "robota")), {**record, "memoryEvents": [{"n": 1}]})

    def test_a_manager_session_with_ten_files_comes_back(self):
        def document(files):
            return {"id": "m" + uid(), "workerId": "w", "workspaceId": "x", "name": "n", "messages": [
                {"role": "user", "text": "see", "files": [{"id": str(i), "path": "/f"} for i in range(files)]},
                {"role": "assistant", "text": "done", "toolCalls": [{"id": "c", "name": "ls", "arguments": {}, "result": "x"}],
                 "usage": {"inputTokens": 5, "outputTokens": 6}, "model": "m", "summary": True}]}
        ten = document(10)
        self.take_in(ten, "manager")
        self.assertEqual(json.loads(self.document(ten["id"], "manager")), ten)
        self.assertEqual(self.ok(self.api.get(S(ten["id"])), 200)["totalTokens"], 11)
        self.invalid(self.api.post(IMPORT.format("main", "manager"), document(11)), "/messages/0")

    def test_random_sessions_are_the_same_to_the_byte(self):
        other = self.spawn().client()
        sessions = Random(11)
        ids = ["x" + uid() for _ in range(50)]  # tests/unit/formats has 500
        texts = {session_id: sessions.transcript(session_id) for session_id in ids}
        done = self.take_in("".join(texts.values()), "jsonl", agent="random")
        self.assertEqual((done["created"], done["skipped"]), (50, 0), done["skips"])
        for format in ("json", "robota", "manager", "jsonl"):
            query = "&entry=true" if format == "jsonl" else ""
            agent = "random" if format == "jsonl" else format + "s"  # the keys of transcripts name their agent
            once = {i: self.document(i, format, "random", query=query) for i in ids}
            done = self.take_in(b"".join(once.values()), format, other, agent)
            self.assertEqual((done["created"], done["skipped"]), (50, 0), done["skips"])
            for i in ids:
                self.assertEqual(self.document(i, format, agent, other, query), once[i])
                self.ok(other.delete(S(i, agent) + "?purge=true"), 200, 204)
        for i in ids:
            stored_lines = texts[i].encode().split(b"\n", 1)[1]
            self.assertEqual(self.document(i, "jsonl", "random").split(b"\n", 1)[1], stored_lines)

    def test_topics_and_fields_come_along(self):
        key = self.new(key=f"agent:main:slack:group:{uid()}", name="n", sendPolicy="deny")["key"]
        self.say(key, "main")
        self.say(key, "in it", query="?topic=42")
        whole = self.document(key, "jsonl", query="&entry=true")
        self.assertEqual(whole.count(b'"sessiond":'), 2, whole)
        other = self.spawn().client()
        self.take_in(whole, "jsonl", other)
        self.assertEqual(self.texts(key, api=other), ["main"])
        self.assertEqual(self.texts(key, api=other, query="topic=42"), ["in it"])
        self.assertEqual(self.ok(other.get(S(key)), 200)["sendPolicy"], "deny")
        self.assertEqual(self.document(key, "jsonl", api=other, query="&entry=true"), whole)

    def test_a_long_transcript_is_streamed(self):
        key = "agent:main:long" + uid()
        text = "x" * 20_000
        entries = [{"type": "message", "id": f"e{n}", "parentId": f"e{n - 1}" if n else None,
                    "message": {"role": "user", "content": f"{n} {text}"}} for n in range(300)]
        self.take_in(lines_of({"type": "session", "version": 3, "id": "l" + uid(), "sessiond": {"key": key}}, *entries), "jsonl")
        for format in ("json", "manager", "robota"):
            found = json.loads(self.document(key, format))["messages"]
            self.assertEqual([m.get("content", m.get("text")).split()[0] for m in found], [str(n) for n in range(300)])

    def test_what_people_took_back_is_not_exported(self):
        peer = "u" + uid()
        key = self.inbound(peer=peer, text="secret", messageId="m1")["sessionKey"]
        self.inbound(peer=peer, text="public", messageId="m2")
        self.ok(self.api.post("/v1/inbound/deletes", {"agent": "main", "channel": "slack", "peer": peer, "messageId": "m1"}), 201)
        for format in ("json", "manager", "robota"):
            document = json.loads(self.document(key, format))
            document.pop("history", None)  # Robota's keeps every line, as jsonl does
            self.assertIn("public", json.dumps(document))
            self.assertNotIn("secret", json.dumps(document), format)
        self.assertNotIn("firstMessage", self.ok(self.api.get(S(key))))

    def test_an_index(self):
        agent = "i" + uid().lower()
        a, b = stored("i" + uid(), "one"), stored("i" + uid(), "two", description="d")
        self.take_in(lines_of(a, b), "json", agent=agent)
        index = json.loads(self.raw(self.api.get(f"/v1/agents/{agent}/export?format=index")))
        self.assertEqual(index["version"], "1.0")
        self.assertEqual(index["updatedAt"], "2025-01-04T14:05:00.000Z")
        self.assertEqual(index["sessions"], {d["metadata"]["id"]: d["metadata"] for d in (a, b)})
        index["sessions"][a["metadata"]["id"]]["name"] = "renamed"
        index["sessions"]["gone"] = {"name": "x"}
        done = self.take_in(index, "index", agent=agent)
        self.assertEqual((done["created"], done["updated"], done["skipped"]), (0, 1, 2))
        self.assertEqual([s["id"] for s in done["skips"] if "missing" in s["why"]], ["gone"])
        self.assertEqual(self.ok(self.api.get(S(a["metadata"]["id"], agent)), 200)["name"], "renamed")

    def test_what_cannot_be_asked(self):
        key = self.new()["key"]
        for query in ("?format=yaml", "?format=json&entry=true", "?format=jsonl&entry=true&topic=1", "?formats=json"):
            self.problem(self.api.get(S(key, "main", "export") + query), 400, "bad_request")
        self.problem(self.api.get(S("agent:main:none" + uid(), "main", "export")), 404, "session_not_found")
        self.problem(self.api.get("/v1/agents/nobody/export"), 404, "agent_not_found")

"""messageCount counts messages of users, assistants and tools, and entryCount all entries, whatever brought them."""

from harness.case import Case, S, json, uid
from harness.sessiond import eventually

MIXED = [{"role": "user", "text": "u"}, {"role": "assistant", "text": "a"}, {"role": "tool", "text": "t", "toolCallId": "c"},
         {"role": "system", "text": "s"}, {"type": "custom", "customType": "x", "data": {}}, {"type": "compaction", "summary": "all of it"}]
LINES = [{"type": "message", "id": "f1", "message": {"role": "user", "content": "u"}},
         {"type": "custom", "id": "f2", "customType": "x", "data": {}},
         {"type": "message", "id": "f3", "message": {"role": "assistant", "content": "a"}}]


def as_lines(entries):
    return "".join(json.dumps(entry) + "\n" for entry in entries)


class CountsCase(Case):
    def await_known(self, daemon):
        """Waits until the daemon has noted what stands in the transcripts: without that a start takes all for known."""
        eventually(lambda: any((daemon.state / "journal" / "ends").glob("main*")), what="the record of known ends")

    def counts(self, key, api=None):
        session = self.ok((api or self.api).get(S(key)), 200)
        return session.get("messageCount"), session.get("entryCount")

    def mixed(self):
        key = "agent:main:counts:" + uid().lower()
        self.ok(self.api.put(S(key), {}), 201)
        self.add(key)
        return key

    def add(self, key, query=""):
        return self.ok(self.api.post(S(key, "main", "messages") + query, {"entries": MIXED}), 201)


class Counts(CountsCase):
    def test_what_was_copied_is_counted_once_when_a_kill_and_a_foreign_line_follow(self):
        for mode in ("own", "shared"):
            daemon = self.spawn({"store": {"mode": mode}})
            api = daemon.client()
            key = self.new(api=api)["key"]
            self.say(key, "first", api=api)
            copy = self.ok(api.post(S(key, "main", "fork"), {}), 201)
            self.assertEqual(self.texts(copy["key"], api=api), ["first"])
            file = daemon.agent_dir() / (copy["sessionId"] + ".jsonl")
            eventually(file.exists)
            self.await_known(daemon)
            daemon.kill9()
            with file.open("a") as out:
                out.write(json.dumps({"type": "message", "id": "theirs", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z",
                                      "message": {"role": "user", "content": "theirs"}}) + "\n")
            api = daemon.start().client()
            eventually(lambda: self.ok(api.get(S(copy["key"])))["entryCount"] == 2)
            told = self.ok(api.get("/v1/events?poll=1&replay=1000&types=message.appended"))["data"]
            self.assertEqual([e["data"]["message"]["id"] for e in told if e["source"] == "external"], ["theirs"])

    def test_entries_that_are_no_messages_count_as_entries_only(self):
        key = self.mixed()
        self.assertEqual(self.counts(key), (3, 6))
        self.add(key, "?topic=t")
        self.assertEqual(self.counts(key), (6, 12))
        row = next(s for s in self.api.get("/v1/agents/main/sessions?limit=200").json["data"] if s["key"] == key)
        self.assertEqual((row["messageCount"], row["entryCount"]), (6, 12))
        topics = self.ok(self.api.get(S(key, "main", "topics")))["data"]
        self.assertEqual([(t["messageCount"], t["entryCount"]) for t in topics], [(3, 6)])

    def test_the_index_the_document_and_the_session_agree(self):
        key = self.mixed()
        session_id = self.ok(self.api.get(S(key)))["sessionId"]
        index = json.loads(self.api.get("/v1/agents/main/export?format=index").raw)
        document = json.loads(self.api.get(S(key, "main", "export") + "?format=json").raw)
        self.assertEqual((index["sessions"][session_id]["messageCount"], document["metadata"]["messageCount"]), (3, 3))

    def test_an_event_has_both_as_they_are_then(self):
        with self.api.stream("/v1/events?types=message.appended") as stream:
            stream.wait_type("stream.hello")
            self.mixed()
            stream.wait_until(lambda s: len(s.durable) >= len(MIXED))
            sets = [event.data["data"]["set"] for event in stream.durable[:len(MIXED)]]
        self.assertEqual([s["entryCount"] for s in sets], [1, 2, 3, 4, 5, 6])
        self.assertEqual([s["messageCount"] for s in sets if "messageCount" in s], [1, 2, 3])

    def test_a_reset_and_a_clear_begin_at_nothing(self):
        for command in ("reset", "clear"):
            key = self.mixed()
            self.ok(self.api.post(S(key, "main", command), {}), 200)
            self.assertEqual(self.counts(key), (0, 0), command)
            self.say(key, "again")
            self.assertEqual(self.counts(key), (1, 1), command)

    def test_a_fork_and_a_new_transcript_count_what_they_hold(self):
        key = self.mixed()
        fork = self.ok(self.api.post(S(key, "main", "fork"), {}), 201)
        self.assertEqual((fork["messageCount"], fork["entryCount"]), (3, 6))
        put = self.ok(self.api.put(S(key, "main", "transcript"), {"entries": MIXED[:5], "expectedSeq": 6}), 200)
        self.assertEqual((put["messageCount"], put["entryCount"]), (3, 5))

    def test_a_session_that_was_deleted_comes_back_with_its_counts(self):
        key = self.mixed()
        self.ok(self.api.delete(S(key)), 200, 204)
        restored = self.ok(self.api.post(S(key, "main", "restore"), {}), 200)
        self.assertEqual((restored["messageCount"], restored["entryCount"]), (3, 6))
        self.say(key, "again")
        self.assertEqual(self.counts(key), (4, 7))

    def test_an_import_counts_what_came(self):
        session_id = "imp-" + uid()
        head = {"type": "session", "version": 3, "id": session_id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/",
                "sessiond": {"entry": {"messageCount": 99, "entryCount": 99}}}
        reply = self.api.request("POST", "/v1/agents/main/import?format=jsonl", body=as_lines([head, *LINES]).encode(),
                                 headers={"Content-Type": "application/x-ndjson"})
        self.ok(reply, 200, 201)
        self.assertEqual(self.counts(session_id), (2, 3))

    def test_lines_of_another_program_count_the_same(self):
        key = self.mixed()
        session_id = self.ok(self.api.get(S(key)))["sessionId"]
        self.daemon.checkpoint()
        with (self.daemon.agent_dir() / (session_id + ".jsonl")).open("a") as file:
            file.write(as_lines(LINES))
        eventually(lambda: self.counts(key) == (5, 9), 20, what="the lines being published")

    def test_the_counts_are_read_only(self):
        self.invalid(self.api.patch(S(self.mixed()), {"entryCount": 1}), "/entryCount")


class CountedBefore(CountsCase):
    """Sessions of a daemon that counted all entries as messages."""

    def old(self, *ids, topic=()):
        daemon = self.spawn(start=False)
        folder = daemon.agent_dir()
        folder.mkdir(parents=True, exist_ok=True)
        entries = {}
        for id in ids:
            header = {"type": "session", "version": 3, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
            (folder / f"{id}.jsonl").write_text(as_lines([header, *LINES]))
            if id in topic:
                (folder / f"{id}-topic-t.jsonl").write_text(as_lines([header, *LINES]))
            entries[f"agent:main:{id}"] = {"sessionId": id, "updatedAt": 1767225600000, "rev": 1, "messageCount": 6 if id in topic else 3}
        (folder / "sessions.json").write_text(json.dumps(entries))
        daemon.start()
        return daemon, daemon.client()

    def test_an_append_puts_its_session_right_and_a_start_none(self):
        daemon, api = self.old("one", "two", topic=("one",))
        self.assertEqual((self.counts("agent:main:one", api), self.counts("agent:main:two", api)), ((6, None), (3, None)))
        before = self.ok(api.get(S("agent:main:one")))["rev"]
        self.say("agent:main:one", "more", api=api)
        self.assertEqual(self.counts("agent:main:one", api), (5, 7))
        self.assertEqual(self.ok(api.get(S("agent:main:one")))["rev"], before)
        daemon.kill9()
        api = daemon.start().client()
        self.assertEqual(self.counts("agent:main:one", api), (5, 7))
        self.assertEqual(self.counts("agent:main:two", api), (3, None))

    def test_a_read_puts_its_session_right(self):
        daemon, api = self.old("one", "two")
        self.ok(api.get(S("agent:main:one", "main", "messages")), 200)
        eventually(lambda: self.counts("agent:main:one", api) == (2, 3), 20, what="the counts being put right")
        daemon.kill9()
        api = daemon.start().client()
        self.assertEqual(self.counts("agent:main:one", api), (2, 3))
        self.assertEqual(self.counts("agent:main:two", api), (3, None))

    def test_lines_of_another_program_put_its_session_right(self):
        daemon, api = self.old("one")
        self.await_known(daemon)
        daemon.restart()
        api = daemon.client()
        self.assertEqual(self.counts("agent:main:one", api), (3, None))
        with (daemon.agent_dir() / "one.jsonl").open("a") as file:
            file.write(as_lines([{**line, "id": "g" + line["id"]} for line in LINES]))
        eventually(lambda: self.counts("agent:main:one", api) == (4, 6), 20, what="the counts being put right")

    def test_a_put_of_an_old_entry_counts_anew(self):
        key = self.mixed()
        entry = self.ok(self.api.get(S(key)))
        old = {name: entry[name] for name in ("sessionId", "updatedAt")} | {"messageCount": 6}
        self.ok(self.api.put(S(key), old), 200)
        self.assertEqual(self.counts(key), (6, None))
        self.say(key, "more")
        self.assertEqual(self.counts(key), (4, 7))

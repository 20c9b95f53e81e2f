"""Streams of a session: lists beside its messages that clients append to."""

import threading

from harness.case import Case, S, json, uid
from harness.sessiond import eventually

STREAMS = ("backgroundTaskEvents", "backgroundJobGroupEvents", "memoryEvents", "usedMemoryReferences")


class SessionStreams(Case):
    def setUp(self):
        super().setUp()
        self.key = f"agent:main:slack:direct:{uid().lower()}"
        self.made = self.ok(self.api.post("/v1/agents/main/sessions", {"key": self.key}), 201)

    def add(self, stream, body, **named):
        return self.ok(self.api.post(S(self.key, "main", "streams", stream), body, **named), 201)

    def page(self, stream, query="", key=None, api=None):
        return self.ok((api or self.api).get(S(key or self.key, "main", "streams", stream) + query), 200)

    def told(self, stream, query="", **named):
        return [(row["seq"], row["data"]) for row in self.page(stream, query, **named)["data"]]

    def test_each_session_has_seqs_of_its_own_that_outlive_kills(self):
        for n, stream in enumerate(STREAMS):
            for i in range(n + 1):
                self.assertEqual(self.add(stream, {"kind": "saved", "n": i})["firstSeq"], i)
        for kill in (False, True):
            self.daemon.restart(kill=kill)
            type(self).api = self.daemon.client()
            for n, stream in enumerate(STREAMS):
                self.assertEqual(self.told(stream), [(i, {"kind": "saved", "n": i}) for i in range(n + 1)], stream)
        self.assertEqual(self.add("memoryEvents", {"n": "last"})["firstSeq"], 3)

    def test_pages_and_lists(self):
        reply = self.add("memoryEvents", {"entries": [{"n": i} for i in range(5)]})
        self.assertEqual((reply["firstSeq"], reply["lastSeq"], reply["topic"]), (0, 4, "stream:memoryEvents"))
        self.assertEqual([seq for seq, _ in self.told("memoryEvents", "?after=1&limit=2")], [2, 3])
        self.assertEqual([seq for seq, _ in self.told("memoryEvents", "?before=2")], [1, 0])
        self.assertEqual(self.page("memoryEvents", "?limit=2")["page"], {"nextAfter": 1, "hasMore": True})
        self.assertEqual(self.told("usedMemoryReferences"), [])
        self.problem(self.api.get(S(self.key, "main", "streams", "memoryEvents") + "?sessionId=other"), 409, "session_reset")

    def test_a_stream_is_no_part_of_the_conversation(self):
        self.api.post(S(self.key, "main", "messages"), {"role": "user", "text": "hi"})
        before = self.ok(self.api.get(S(self.key)), 200)
        self.add("memoryEvents", {"text": "kept"})
        after = self.ok(self.api.get(S(self.key)), 200)
        for name in ("messageCount", "updatedAt", "rev", "lastInteractionAt", "firstMessage"):
            self.assertEqual(before.get(name), after.get(name), name)
        self.assertEqual(self.ok(self.api.get(S(self.key, "main", "topics")), 200)["data"], [])
        self.assertEqual(len(self.ok(self.api.get(S(self.key, "main", "messages")), 200)["data"]), 1)
        topic = "stream%3AmemoryEvents"
        for method, path, body in (("GET", f"messages?topic={topic}", None), ("POST", f"messages?topic={topic}", {"role": "user", "text": "x"}),
                                   ("DELETE", f"topics/{topic}", None), ("GET", f"transcript?topic={topic}", None)):
            self.problem(self.api.request(method, S(self.key, "main") + "/" + path, body), 422, "reserved_name")
        self.daemon.checkpoint()
        report = self.ok(self.api.post("/v1/admin/doctor", None), 200)
        self.assertEqual([finding for finding in report["findings"] if self.made["sessionId"] in json.dumps(finding)], [])

    def test_what_is_refused_changes_nothing(self):
        path = S(self.key, "main", "streams", "memoryEvents")
        for body, pointer in (({"entries": []}, "/entries"), ({"entries": [{}, 1]}, "/entries/1"), ([1], ""),
                              ({"entries": [{"x": "y" * (256 << 10)}]}, "/entries/0"), ({"entries": [{}] * 1001}, "/entries"),
                              ({"entries": [{}], "more": 1}, "/more")):
            reply = self.problem(self.api.post(path, body), 422, "validation_failed")
            self.assertEqual([fault["pointer"] for fault in reply["errors"]], [pointer])
        for method in ("GET", "POST"):
            for name in ("nosuch", "memoryevents", "stream%3AmemoryEvents"):
                self.problem(self.api.request(method, S(self.key, "main", "streams") + "/" + name, {} if method == "POST" else None), 404, "not_found")
        self.assertEqual(self.told("memoryEvents"), [])
        self.problem(self.api.post(S("agent:main:no:such", "main", "streams", "memoryEvents"), {}), 404, "session_not_found")

    def test_a_request_that_is_repeated_appends_once(self):
        head = {"Idempotency-Key": uid()}
        first, again = (self.add("memoryEvents", {"n": 1}, headers=head) for _ in range(2))
        self.assertEqual(first, again)
        self.assertEqual(self.told("memoryEvents"), [(0, {"n": 1})])

    def test_many_at_once_are_all_there(self):
        clients = [self.daemon.client() for _ in range(4)]

        def append(n):
            for i in range(10):
                self.ok(clients[n].post(S(self.key, "main", "streams", "memoryEvents"), {"n": n, "i": i}), 201)

        threads = [threading.Thread(target=append, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = self.told("memoryEvents", "?limit=200")
        self.assertEqual([seq for seq, _ in told], list(range(40)))
        self.assertEqual({(row["n"], row["i"]) for _, row in told}, {(n, i) for n in range(4) for i in range(10)})

    def test_reset_restore_and_purge_take_it_along(self):
        self.add("memoryEvents", {"word": "zqstream"})
        self.assertIn("%3AmemoryEvents.jsonl", " ".join(self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)["archivedAs"]))
        self.assertEqual(self.told("memoryEvents"), [])
        self.assertEqual(self.told("memoryEvents", key=self.made["sessionId"]), [(0, {"word": "zqstream"})])
        self.ok(self.api.delete(S(self.key)), 200, 204)
        self.ok(self.api.post(S(self.key, "main", "restore"), {"sessionId": self.made["sessionId"]}), 200, 201)
        self.assertEqual(self.told("memoryEvents"), [(0, {"word": "zqstream"})])
        self.ok(self.api.delete(S(self.key) + "?purge=true"), 200, 204)
        folder = self.daemon.agent_dir()
        eventually(lambda: not [file for file in folder.iterdir() if file.name.startswith(self.made["sessionId"])], what="the files to go")

    def test_an_export_of_everything_brings_it_along(self):
        self.api.post(S(self.key, "main", "messages"), {"role": "user", "text": "hi"})
        self.add("memoryEvents", {"n": 1})
        text = self.api.get(S(self.key, "main", "export") + "?format=jsonl&entry=true").raw
        other = self.spawn().client()
        self.ok(other.post("/v1/agents/main/import?format=jsonl", text, headers={"Content-Type": "application/x-ndjson"}), 200)
        self.assertEqual(self.told("memoryEvents", api=other), [(0, {"n": 1})])

    def test_who_may(self):
        self.add("memoryEvents", {"n": 1})
        path = S(self.key, "main", "streams", "memoryEvents")
        viewer = self.daemon.client(self.daemon.token("viewer"))
        self.assertEqual(viewer.get(path).status, 200)
        self.problem(viewer.post(path, {"n": 2}), 403)
        elsewhere = self.daemon.client(self.daemon.token("runner", keyPrefix="agent:main:discord:"))
        self.problem(elsewhere.get(path), 404, "session_not_found")
        self.problem(elsewhere.post(path, {"n": 2}), 404, "session_not_found")
        self.assertEqual(self.told("memoryEvents"), [(0, {"n": 1})])

    def test_an_ephemeral_session_has_them_in_memory(self):
        self.key = f"agent:main:slack:direct:{uid().lower()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": self.key, "ephemeral": True}), 201)
        self.add("memoryEvents", {"n": 1})
        self.assertEqual(self.told("memoryEvents"), [(0, {"n": 1})])
        self.assertFalse(list(self.daemon.agent_dir().glob("*zq*")))

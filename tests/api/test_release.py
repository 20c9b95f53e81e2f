"""S/release lets a session leave memory; S/migrate writes old transcripts as version 3 while the daemon runs."""

import json
import threading
import time

from harness.case import Case, S, text_of, uid
from harness.sessiond import eventually


class Release(Case):
    def test_a_session_leaves_memory_and_comes_back(self):
        key = self.new()["key"]
        self.say(key, "one")
        self.say(key, "two", query="?topic=t")
        with self.api.stream("/v1/events?types=session.released") as stream:
            stream.wait_type("stream.hello")
            self.assertEqual(self.ok(self.api.post(S(key, "main", "release")), 200), {"released": True})
            event = stream.wait_type("session.released")
        self.assertIsNone(event.id)
        self.assertEqual((event.data["agent"], event.data["key"], event.data["data"]), ("main", key, {}))
        self.assertNotIn("seq", event.data)
        stored = json.loads((self.daemon.agent_dir() / "sessions.json").read_bytes())
        self.assertEqual(stored[key]["messageCount"], 2, "sessions.json holds it")
        self.say(key, "three")
        self.assertEqual(self.texts(key), ["one", "three"])
        self.problem(self.api.post(S("agent:main:no:such", "main", "release")), 404, "session_not_found")

    def test_a_token_of_the_parent_is_told(self):
        parent = self.new()["key"]
        child = self.ok(self.api.post(S(parent, "main", "spawn"), {}), 201)["key"]
        tool = self.daemon.client(self.daemon.token("session", agents=["main"], key=parent))
        with tool.stream("/v1/events?types=session.released") as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.post(S(self.new()["key"], "main", "release")), 200)
            self.ok(self.api.post(S(child, "main", "release")), 200)
            self.assertEqual(stream.wait_type("session.released").data["key"], child)

    def test_a_stream_on_the_session_keeps_it(self):
        key = self.new()["key"]
        with self.api.stream(S(key, "main", "events")) as stream:
            stream.wait_type("stream.hello")
            self.assertEqual(self.ok(self.api.post(S(key, "main", "release")), 200), {"released": False, "because": "stream"})
        eventually(lambda: self.api.post(S(key, "main", "release")).json == {"released": True}, what="the stream's end")

    def test_an_ephemeral_session_stays(self):
        key = f"agent:main:tmp:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.assertEqual(self.ok(self.api.post(S(key, "main", "release")), 200), {"released": False, "because": "ephemeral"})
        self.assertEqual(self.ok(self.api.post(S(key, "main", "migrate")), 200), {"changed": False})

    def test_it_happens_by_itself_when_nothing_used_the_agent(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 300}})
        api = daemon.client()
        with api.stream("/v1/events?types=session.released") as stream:
            stream.wait_type("stream.hello")
            key = self.new(api=api)["key"]
            self.say(key, "one", api=api)
            self.assertEqual(stream.wait_type("session.released").data["key"], key)
        self.assertEqual(self.texts(key, api=api), ["one"])

    def test_an_idle_session_leaves_memory_while_its_agent_is_used(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 300}})
        api = daemon.client()
        idle, used = self.new(api=api)["key"], self.new(api=api)["key"]
        self.say(idle, "one", api=api)
        with api.stream("/v1/events?types=session.released") as stream:
            stream.wait_type("stream.hello")

            def released():
                self.say(used, "busy", api=api)
                return [e.data["key"] for e in stream.events if e.type == "session.released"]
            eventually(lambda: idle in released(), what="the idle session's release")
        self.assertEqual(self.say(idle, "two", api=api)["firstSeq"], 1)
        self.assertEqual(self.texts(idle, api=api), ["one", "two"])

    def test_appends_beside_it_are_kept_once(self):
        key = self.new()["key"]
        ended, said = threading.Event(), []

        def say():
            api = self.daemon.client()
            while not ended.is_set():
                said.append(self.say(key, f"t{len(said)}", api=api)["firstSeq"])
        writer = threading.Thread(target=say)
        writer.start()
        for _ in range(20):
            self.ok(self.api.post(S(key, "main", "release")), 200)
        ended.set()
        writer.join()
        self.assertEqual(said, list(range(len(said))))
        self.assertEqual(self.texts(key)[:200], [f"t{n}" for n in range(len(said))][:200])


class ReleaseShared(Release):
    config = {"store": {"mode": "shared"}}


class Migrate(Case):
    def old(self, version=1, count=30, daemon=None):
        """A session that a foreign program made: its key, and its transcript."""
        daemon = daemon or self.daemon
        self.new(api=daemon.client())
        daemon.checkpoint()  # makes the folder
        store = daemon.agent_dir() / "sessions.json"
        key, sid = f"agent:main:old:{uid()}", uid()
        head = [{"type": "session", "version": version, "id": sid, "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/"}] if version else []
        lines = [{"type": "message", "message": {"role": "user", "content": f"old {n}"}} if version else
                 {"type": "user", "content": [{"type": "text", "text": f"old {n}"}]} for n in range(count)]
        file = daemon.agent_dir() / f"{sid}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in head + lines))
        file.chmod(0o644)
        entries = json.loads(store.read_bytes())
        entries[key] = {"sessionId": sid, "updatedAt": int(time.time() * 1000)}
        store.write_text(json.dumps(entries))
        eventually(lambda: daemon.client().get(S(key)).status == 200, what="the foreign session")
        return key, file

    def seen(self, key, api=None):
        return [(m["seq"], m["id"], text_of(m)) for m in self.messages(key, api=api)]

    def test_an_old_transcript_becomes_version_3(self):
        for version in (0, 1, 2):
            with self.subTest(version=version):
                key, file = self.old(version)
                before, raw = self.seen(key), file.read_bytes()
                done = self.ok(self.api.post(S(key, "main", "migrate")), 200)
                self.assertEqual(done, {"changed": True, "transcripts": [
                    {"topic": None, "version": version, "entries": 30, "rewritten": 30}]})
                lines = [json.loads(line) for line in file.read_text().splitlines()]
                self.assertEqual((lines[0]["type"], lines[0]["version"]), ("session", 3))
                self.assertTrue(all(line["id"] for line in lines[1:]))
                self.assertEqual(self.seen(key), before, "clients see no change")
                kept = [f for f in (self.daemon.state / "journal" / "kept").rglob(file.name)]
                self.assertEqual([(f.read_bytes(), f.stat().st_mode & 0o777) for f in kept], [(raw, 0o600)])
                self.assertEqual(self.ok(self.api.post(S(key, "main", "migrate")), 200), {"changed": False})
                self.assertEqual(self.say(key, "new")["firstSeq"], 30)
                self.assertEqual(self.texts(key)[-2:], ["old 29", "new"])
                self.assertEqual(json.loads(file.read_text().splitlines()[-1])["parentId"], before[-1][1])

    def test_a_session_of_our_own_and_one_without_messages(self):
        key = self.new()["key"]
        self.assertEqual(self.ok(self.api.post(S(key, "main", "migrate")), 200), {"changed": False})
        self.say(key)
        self.assertEqual(self.ok(self.api.post(S(key, "main", "migrate")), 200), {"changed": False})
        self.problem(self.api.post(S("agent:main:no:such", "main", "migrate")), 404, "session_not_found")

    def test_a_header_alone_and_a_header_that_a_message_of_ours_follows(self):
        for said in ([], ["hello"]):
            with self.subTest(said=said):
                key, file = self.old(2, count=0)
                for text in said:
                    self.say(key, text)
                self.assertTrue(self.ok(self.api.post(S(key, "main", "migrate")), 200)["changed"])
                self.assertEqual(json.loads(file.read_text().splitlines()[0])["version"], 3)
                self.assertEqual(self.ok(self.api.post(S(key, "main", "migrate")), 200), {"changed": False})
                self.assertEqual(self.say(key, "new")["firstSeq"], len(said))
                self.assertEqual(self.texts(key), said + ["new"])

    def test_a_last_line_without_newline_is_an_entry_and_is_published(self):
        key, file = self.old(1, count=3)
        before = self.seen(key)
        with self.api.stream(S(key, "main", "events")) as stream:
            stream.wait_type("stream.hello")
            with file.open("a") as out:
                out.write(json.dumps({"type": "message", "message": {"role": "user", "content": "last"}}))
            eventually(lambda: len(self.seen(key)) == 4, what="the line")
            self.assertEqual(self.ok(self.api.post(S(key, "main", "migrate")), 200)["transcripts"][0]["rewritten"], 4)
            eventually(lambda: "last" in [text_of(e.data["data"]["message"]) for e in stream.durable
                                          if e.type == "message.appended"], what="its event")
        self.assertEqual(self.seen(key)[:3], before)
        self.assertTrue(file.read_text().endswith("\n"))
        self.assertEqual(self.say(key, "new")["firstSeq"], 4)
        self.assertEqual(self.texts(key), ["old 0", "old 1", "old 2", "last", "new"])

    def test_a_torn_last_line_goes_the_way_it_goes_before_an_append(self):
        key, file = self.old(1, count=3)
        with file.open("a") as out:
            out.write('{"type":"message","mess')
        self.assertEqual(self.ok(self.api.post(S(key, "main", "migrate")), 200)["transcripts"][0]["rewritten"], 3)
        aside = [f.read_text() for f in file.parent.glob(file.name + ".torn.*")]
        self.assertEqual(aside, [] if self.config else ['{"type":"message","mess'])
        self.assertEqual(self.say(key, "new")["firstSeq"], 4 if self.config else 3)
        self.assertEqual([m["type"] for m in self.messages(key)].count("unreadable"), 1 if self.config else 0)

    def test_a_folder_in_its_place_is_no_fault_of_ours(self):
        key, file = self.old(1)
        file.unlink()
        file.mkdir()
        self.problem(self.api.get(S(key, "main", "messages")), 503, "degraded")
        self.problem(self.api.post(S(key, "main", "migrate")), 503, "degraded")
        file.rmdir()

    def test_writers_without_a_pause_do_not_keep_it_waiting(self):
        key, file = self.old(1, 30)
        ended, said = threading.Event(), []

        def say():
            api = self.daemon.client()
            while not ended.is_set():
                reply = api.post(S(key, "main", "messages"), {"role": "user", "text": "t"}, headers={"Prefer": "respond-async"})
                said.append(self.ok(reply, 201, 202)["firstSeq"])
        writers = [threading.Thread(target=say) for _ in range(6)]
        for writer in writers:
            writer.start()
        eventually(lambda: len(said) > 50, what="some messages")
        self.assertTrue(self.ok(self.api.post(S(key, "main", "migrate")), 200)["changed"])
        ended.set()
        for writer in writers:
            writer.join()
        self.assertEqual(sorted(said), list(range(30, 30 + len(said))))
        eventually(lambda: len(file.read_text().splitlines()) == 31 + len(said), what="all lines")

    def test_appends_beside_it_are_kept_once_and_renumber_nothing(self):
        key, file = self.old(1, 3000)
        ended, said = threading.Event(), []

        def say():
            api = self.daemon.client()
            while not ended.is_set():
                said.append(self.say(key, f"t{len(said)}", api=api)["firstSeq"])
        with self.api.stream("/v1/events?types=transcript.renumbered,store.external_change") as stream:
            stream.wait_type("stream.hello")
            writer = threading.Thread(target=say)
            writer.start()
            eventually(lambda: len(said) > 5, what="some messages")
            self.assertTrue(self.ok(self.api.post(S(key, "main", "migrate")), 200)["changed"])
            many = len(said)
            eventually(lambda: len(said) > many + 5, what="more messages")
            ended.set()
            writer.join()
            self.assertFalse([e.type for e in stream.durable])
        self.assertEqual(said, list(range(3000, 3000 + len(said))))
        texts = self.texts(key, query="limit=200&order=desc")
        self.assertEqual(texts[:min(len(said), 200)], [f"t{n}" for n in reversed(range(len(said)))][:200])
        self.assertEqual(len(file.read_text().splitlines()), 1 + 3000 + len(said))


class MigrateShared(Migrate):
    config = {"store": {"mode": "shared"}}

"""What goes by the limits of session.maintenance, by itself and when told to; archives, orphans and how they are adopted."""

import json
import os
import re
import signal
import threading
import time

from harness.case import Case, S, uid
from harness.sessiond import eventually
from preload import preload

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
HEADER = '{"type":"session","version":3,"id":"%s","timestamp":"2020-01-02T03:04:05.000Z","cwd":"/"}\n'
LINE = '{"type":"message","id":"%s","parentId":null,"timestamp":"%s","message":{"role":"%s","content":"%s"}}\n'


class Kept(Case):
    """A daemon of each test with limits, and what it holds."""

    @classmethod
    def setUpClass(cls):
        pass  # there is none of the class

    def launch(self, limits=None, wall_ms=0):
        daemon = preload(self.spawn({"session": {"maintenance": limits or {}}}, start=False))
        daemon.page.wall_ms = wall_ms
        self.d, self.a = daemon, daemon.start().client()
        return daemon

    def reload(self, limits):
        self.d.config["session"]["maintenance"] = limits
        self.d.config_file.write_text(json.dumps(self.d.config))
        self.d.process.send_signal(signal.SIGHUP)

    def restart(self, limits=None):
        if limits is not None:
            self.d.config["session"]["maintenance"] = limits
            self.d.config_file.write_text(json.dumps(self.d.config))
        self.d.restart()
        self.a = self.d.client()

    def seed(self, count):
        """Sessions agent:main:x:0 … with a message each; the last of their users spoke an hour ago, the one before an hour before."""
        now = int(time.time() * 1000)
        for i in range(count):
            key = f"agent:main:x:{i}"
            self.ok(self.a.put(S(key), {"sessionId": f"s{i}", "lastInteractionAt": now - (count - i) * HOUR}), 201)
            self.ok(self.a.post(S(key, "main", "messages"), {"role": "assistant", "text": f"text {i}"}), 201)

    def keys(self):
        return [s["key"] for s in self.ok(self.a.get("/v1/agents/main/sessions?sort=key"), 200)["data"]]

    def files(self, pattern="*"):
        return sorted(p.name for p in self.d.agent_dir().glob(pattern))

    def maintain(self, **body):
        return self.ok(self.a.post("/v1/admin/maintenance", body), 200)

    def reindex(self, **body):
        return self.ok(self.a.post("/v1/admin/reindex", {"agent": "main", **body}), 200)

    def stop_for_good(self, key, how):
        path = S(key) if how == "delete" else S(key, "main", "reset")
        self.ok(self.a.delete(path) if how == "delete" else self.a.post(path))


class ByItself(Kept):
    def test_it_names_what_a_limit_reaches_and_takes_it_when_the_notice_is_over(self):
        limits = {"pruneAfterMs": 90 * MINUTE, "everyMs": 100}
        self.launch()
        self.seed(3)
        with self.a.stream("/v1/agents/main/events?types=retention.notice") as stream:
            stream.wait_type("stream.hello")
            self.reload(limits)
            named = stream.wait_type("retention.notice")
        self.assertEqual(named.data["data"], {"keys": ["agent:main:x:0", "agent:main:x:1"]})
        self.assertNotIn("key", named.data)
        self.assertEqual(len(self.keys()), 3, "mode warn takes nothing")
        notices = self.d.state / "journal" / "retention"
        eventually(notices.exists, what="the notices on disk")
        eventually(lambda: "x:0" in notices.read_text(), what="a name in it")
        first = notices.read_text()
        self.restart(limits | {"mode": "enforce"})
        self.assertEqual(notices.read_text(), first, "a restart begins no notice anew")
        with self.a.stream("/v1/agents/main/events?types=session.deleted") as stream:
            stream.wait_type("stream.hello")
            self.ok(self.a.patch(S("agent:main:x:1"), {"pinnedAt": 1}), 200)
            self.reload(limits | {"mode": "enforce", "noticeMs": 0})
            gone = stream.wait_type("session.deleted")
        self.assertEqual((gone.data["key"], gone.data["data"]["reason"]), ("agent:main:x:0", "age"))
        self.assertEqual(self.keys(), ["agent:main:x:1", "agent:main:x:2"])
        self.ok(self.a.post(S("agent:main:x:0", "main", "restore")), 200)

    def test_by_default_nothing_is_named_until_a_reload_sets_a_limit(self):
        self.launch({"everyMs": 100, "mode": "enforce", "noticeMs": 0})
        self.seed(2)
        with self.a.stream("/v1/events?types=retention.*,config.reloaded,session.deleted") as stream:
            stream.wait_type("stream.hello")
            self.reload({"everyMs": 100, "mode": "enforce", "noticeMs": 0, "pruneAfterMs": 90 * MINUTE})
            stream.wait_type("session.deleted")
            self.assertEqual([event.type for event in stream.durable], ["config.reloaded", "retention.notice", "session.deleted"])
        self.assertEqual(self.keys(), ["agent:main:x:1"])

    def test_the_oldest_beyond_a_number_go(self):
        self.launch()
        self.seed(3)
        self.reload({"maxEntries": 2, "everyMs": 100, "mode": "enforce", "noticeMs": 0})
        eventually(lambda: self.keys() == ["agent:main:x:1", "agent:main:x:2"], what="the end of the oldest, by itself")

    def test_a_wall_clock_that_is_ahead_for_a_while_takes_nothing(self):
        limits = {"pruneAfterMs": 2 * DAY, "everyMs": 100, "mode": "enforce", "noticeMs": DAY}
        self.launch(limits)
        self.seed(2)
        with self.a.stream("/v1/events?types=retention.notice") as stream:
            stream.wait_type("stream.hello")
            self.d.page.wall_ms = 400 * DAY
            stream.wait_type("retention.notice")
        notices = self.d.state / "journal" / "retention"
        eventually(lambda: notices.exists() and "x:0" in notices.read_text(), what="the notice on disk")
        self.d.page.wall_ms = 0
        eventually(lambda: "x:0" not in notices.read_text(), what="the end of the notice")
        self.assertEqual(len(self.keys()), 2)

    def test_a_token_that_sees_part_of_an_agent_is_told_nothing(self):
        self.launch({"everyMs": 100, "maxEntries": 1})
        part = self.d.client(self.d.token("viewer", keyPrefix="agent:main:x:"))
        with part.stream("/v1/events?types=retention.notice,session.created") as some, self.a.stream("/v1/events?types=retention.notice") as all_:
            all_.wait_type("stream.hello")
            self.seed(2)
            all_.wait_type("retention.notice")
            self.ok(self.a.put(S("agent:main:x:last"), {}), 201)
            some.wait_until(lambda s: len(s.durable) == 3, what="three sessions")
            self.assertEqual({event.type for event in some.durable}, {"session.created"})


class Archives(Kept):
    def ended(self, limits=None):
        """Two archives of yesterday, one of today, and what looks like archives and is none."""
        self.launch(limits, wall_ms=-DAY)
        self.seed(3)
        self.ok(self.a.post(S("agent:main:x:0", "main", "messages") + "?topic=t", {"role": "user", "text": "in a topic"}), 201)
        self.stop_for_good("agent:main:x:0", "delete")
        self.stop_for_good("agent:main:x:1", "reset")
        self.d.page.wall_ms = 0
        self.stop_for_good("agent:main:x:2", "delete")
        self.d.checkpoint()
        folder = self.d.agent_dir()
        for name in ("notes.txt", "s0.jsonl.bak", "s0.jsonl.reset.yesterday", "s0.jsonl.torn.2020-01-01T00-00-00.000Z"):
            (folder / name).write_text("theirs")
        (folder / "dir.jsonl.deleted.2020-01-01T00-00-00.000Z").mkdir()
        (folder / "link.jsonl.deleted.2020-01-01T00-00-00.000Z").symlink_to("notes.txt")
        return folder

    def test_archives_go_by_their_age_with_their_entries_and_nothing_else_goes(self):
        folder = self.ended({"archiveRetentionMs": HOUR})
        (folder / "unknown.jsonl.reset.2020-01-01T00-00-00.000Z").write_text(HEADER % "unknown")
        self.restart()
        before = self.files()
        named = self.maintain()
        self.assertEqual([(row["key"], row["sessionId"], row["reason"]) for row in named["data"]],
                         [(None, "unknown", "archive"), ("agent:main:x:0", "s0", "archive"), ("agent:main:x:1", "s1", "archive")])
        self.assertEqual(self.files(), before, "a dry run takes nothing")
        self.assertIn("unknown.jsonl.reset.2020-01-01T00-00-00.000Z", self.d.cli("sessions", "prune").stdout)
        with self.a.stream("/v1/events?types=archive.*") as stream:
            stream.wait_type("stream.hello")
            self.assertEqual(self.maintain(dryRun=False), named)
            stream.wait_until(lambda s: len(s.durable) == 3, what="three archives")
            told = {event.data.get("key"): event.data["data"] for event in stream.durable}
        self.assertEqual(len(told["agent:main:x:0"]["archivedAs"]), 2)
        self.assertTrue(told["agent:main:x:0"]["entryAs"].endswith(".entry"))
        self.d.checkpoint()
        gone = [name for name in before if name.startswith(("s0.jsonl.deleted.", "s0-topic-t.", "s1.jsonl.reset.", "unknown."))]
        self.assertEqual(len(gone), 6)
        self.assertEqual([name for name in before if name not in gone], self.files())
        self.assertEqual((folder / "notes.txt").read_text(), "theirs")
        self.assertEqual(self.maintain(dryRun=False)["count"], 0)
        for _ in range(2):
            listed = self.ok(self.a.get("/v1/agents/main/archives"), 200)["data"]
            self.assertNotIn("agent:main:x:0", [a["key"] for a in listed])
            self.problem(self.a.post(S("agent:main:x:0", "main", "restore")), 404, "session_not_found")
            self.ok(self.a.get(S("agent:main:x:1", "main", "history")), 200)
            self.restart()
        self.ok(self.a.post(S("agent:main:x:2", "main", "restore")), 200)

    def test_an_archive_goes_by_itself_when_it_was_named(self):
        self.ended()
        limits = {"archiveRetentionMs": HOUR, "everyMs": 100}
        with self.a.stream("/v1/events?types=retention.notice,archive.destroyed") as stream:
            stream.wait_type("stream.hello")
            self.reload(limits)
            named = stream.wait_type("retention.notice")
            self.assertEqual(named.data["data"]["keys"], [])
            self.assertEqual([name.split(".jsonl")[0].split("-topic")[0] for name in named.data["data"]["files"]], ["s0", "s1"])
            self.assertEqual(len(self.files("s*.entry")), 3, "mode warn takes nothing")
            self.reload(limits | {"mode": "enforce", "noticeMs": 0})
            stream.wait_until(lambda s: len(s.durable) == 3, what="two archives")
        eventually(lambda: len(self.files("s*.entry")) == 1, what="the files")

    def test_a_restore_and_the_end_of_an_archive_at_once(self):
        self.launch()
        keys = [f"agent:main:x:{uid()}" for _ in range(20)]
        for key in keys:
            self.ok(self.a.put(S(key), {}), 201)
            self.say(key, "kept", api=self.a)
            self.stop_for_good(key, "delete")
        self.d.checkpoint()
        restored = []

        def restore():
            api = self.d.client()
            restored.extend(key for key in keys if api.post(S(key, "main", "restore")).status == 200)
        thread = threading.Thread(target=restore)
        thread.start()
        gone = self.maintain(dryRun=False, maxDiskBytes=0)["data"]
        thread.join()
        archives = {row["key"] for row in gone if "file" in row}
        self.assertFalse(archives & set(restored), "either it is restored or it is destroyed")
        self.assertLessEqual(set(keys), archives | set(restored))
        left = set(self.keys())
        self.assertEqual(left, set(restored) - {row["key"] for row in gone if "file" not in row})
        for key in left:
            self.assertEqual(self.texts(key, api=self.a), ["kept"])

    def test_for_disk_space_archives_go_before_sessions(self):
        self.launch()
        self.seed(4)
        for i in (2, 3):
            self.stop_for_good(f"agent:main:x:{i}", "delete")
        self.d.checkpoint()
        used = sum(p.stat().st_size for p in self.d.agent_dir().iterdir())
        first = self.maintain(maxDiskBytes=used - 1)
        self.assertEqual([(row["sessionId"], row["reason"], "file" in row) for row in first["data"]], [("s2", "disk", True)])
        more = self.maintain(maxDiskBytes=0, dryRun=False)
        self.assertEqual([(row["sessionId"], "file" in row) for row in more["data"]],
                         [("s2", True), ("s3", True), ("s0", False), ("s1", False)])
        self.assertEqual({row["reason"] for row in more["data"]}, {"disk"})
        self.d.checkpoint()
        self.assertEqual(self.files("*.jsonl*"), [])


class ManyAgents(Kept):
    def store(self, agent):
        folder = self.d.agent_dir(agent)
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_text(json.dumps({f"agent:{agent}:x": {"sessionId": f"s-{agent}", "updatedAt": 1700000000000}}))
        return folder / "sessions.json"

    def in_memory(self):
        return int(re.search(r"^sessiond_agents (\d+)$", self.a.get("/metrics").raw.decode(), re.M)[1])

    def test_what_went_of_one_agent_is_told_though_another_fails(self):
        daemon = self.d = self.spawn(start=False)
        for agent in ("a", "b", "c"):
            self.store(agent)
        bad = daemon.agent_dir("b") / "sessions.json"
        bad.unlink()
        bad.mkdir()
        self.a = daemon.start().client()
        for dry_run in (True, False):
            told = self.maintain(keep=0, dryRun=dry_run)
            self.assertEqual([(row["agent"], row["sessionId"]) for row in told["data"]], [("a", "s-a"), ("c", "s-c")])
            self.assertEqual([failed["agent"] for failed in told["failed"]], ["b"])
            self.assertIn("is a folder, where a file should be", told["failed"][0]["detail"])
        self.problem(self.a.post("/v1/admin/maintenance", {"keep": 0, "dryRun": False}), 503, "degraded")
        bad.rmdir()

    def test_a_look_leaves_no_agent_in_memory(self):
        daemon = self.d = self.spawn(start=False)
        for n in range(20):
            self.store(f"a{n}")
        self.a = daemon.start().client()
        self.ok(self.a.get("/v1/agents/a3/sessions"), 200)
        self.assertEqual(self.maintain(keep=0)["count"], 20)
        eventually(lambda: self.in_memory() <= 2, timeout=30, what="the leaving of all but a3, and main, which the start looked at")


class Orphans(Kept):
    def orphan(self, id, age_ms=0, topic=None, text=None):
        folder = self.d.agent_dir()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / (f"{id}-topic-{topic}.jsonl" if topic else f"{id}.jsonl")
        file.write_text(text if text is not None else HEADER % id + LINE % ("a1", "2020-01-02T03:04:06.000Z", "assistant", "hello")
                        + LINE % ("a2", "2020-01-02T03:04:07.000Z", "user", "what is " + "é" * 300)
                        + '{"type":"session_info","id":"a3","parentId":null,"timestamp":"2020-01-02T03:04:08.000Z","name":"A name"}\n')
        at = time.time() - age_ms / 1000
        os.utime(file, (at, at))
        return file

    def test_adopt_makes_a_session_of_each_transcript_once(self):
        daemon = self.d = self.spawn(start=False)
        files = [self.orphan(id) for id in ("Old-1", "old-2", "old-3")]
        self.orphan("old-3", topic="t")
        before = [file.read_bytes() for file in files]
        self.a = daemon.start().client()
        listed = self.reindex()
        self.assertEqual([(o["sessionId"], len(o["files"])) for o in listed["data"]], [("Old-1", 1), ("old-2", 1), ("old-3", 2)])
        self.assertEqual(self.keys(), [])
        self.assertEqual(self.reindex(adopt=True), listed)
        self.assertEqual(self.keys(), [o["key"] for o in listed["data"]])
        session = self.ok(self.a.get(S("agent:main:recovered:old-1")), 200)
        base = 1577934245000  # 2020-01-02T03:04:05Z
        self.assertEqual({name: session.get(name) for name in ("sessionId", "createdAt", "updatedAt", "name", "messageCount", "firstMessage")},
                         {"sessionId": "Old-1", "createdAt": base, "updatedAt": base + 3000, "name": "A name", "messageCount": 2,
                          "firstMessage": "what is " + "é" * 192})
        self.assertEqual(self.reindex(adopt=True), {"count": 0, "data": []})
        self.assertEqual(self.reindex()["count"], 0)
        self.assertEqual([t["topic"] for t in self.ok(self.a.get(S("agent:main:recovered:old-3", "main", "topics")), 200)["data"]], ["t"])
        daemon.checkpoint()
        self.assertEqual([file.read_bytes() for file in files], before)
        self.say("agent:main:recovered:old-2", "more", api=self.a)
        self.restart()
        self.assertEqual(self.texts("agent:main:recovered:old-2", api=self.a)[-1], "more")
        self.assertEqual(self.reindex()["count"], 0)

    def test_a_folder_of_transcripts_without_an_index_is_named_and_offered(self):
        daemon = self.d = self.spawn(start=False)
        self.orphan("kept")
        daemon.agent_dir().parent.rename(daemon.agent_dir().parent.with_name("old"))
        self.orphan("s0")
        (daemon.agent_dir() / "sessions.json").write_text("{}")
        self.a = daemon.start().client()
        named = eventually(lambda: self.ok(self.a.get("/readyz"), 200)["unindexed"], what="the folders to be listed")
        self.assertEqual(named, ["old"])
        viewer = daemon.client(daemon.token("admin", agents=["main"]))
        self.assertNotIn("unindexed", viewer.get("/readyz").json)
        self.assertEqual([o["sessionId"] for o in self.reindex(agent="old")["data"]], ["kept"])
        self.assertEqual(self.reindex(agent="old", adopt=True)["count"], 1)
        eventually(lambda: self.ok(self.a.get("/readyz"), 200)["unindexed"] == [], what="the folder to have an index")

    def test_one_that_cannot_be_adopted_keeps_none_of_the_others(self):
        daemon = self.d = self.spawn(start=False)
        for id in ("a", "b", "c"):
            self.orphan(id)
        self.a = daemon.start().client()
        key = "agent:main:recovered:b"
        self.ok(self.a.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        adopted = self.reindex(adopt=True)
        self.assertEqual([o["sessionId"] for o in adopted["data"]], ["a", "c"])
        self.assertEqual([o["sessionId"] for o in adopted["failed"]], ["b"])
        self.ok(self.a.delete(S(key)), 204)
        self.assertEqual([o["sessionId"] for o in self.reindex(adopt=True)["data"]], ["b"])

    def test_an_id_that_no_session_may_have_or_that_gives_a_key_of_another_is_told(self):
        daemon = self.d = self.spawn(start=False)
        for id in ("abc", "ABC", "a..b", "main"):
            self.orphan(id)
        self.a = daemon.start().client()
        adopted = self.reindex(adopt=True)
        self.assertEqual([o["sessionId"] for o in adopted["data"]], ["ABC"])
        told = {o["sessionId"]: o["detail"] for o in adopted["failed"]}
        self.assertEqual(sorted(told), ["a..b", "abc", "main"])
        self.assertEqual(told["abc"], "the session ABC has the key agent:main:recovered:abc: rename the transcript to adopt it")
        self.assertIn('".."', told["a..b"])
        (daemon.agent_dir() / "abc.jsonl").rename(daemon.agent_dir() / "other.jsonl")
        self.assertEqual([o["sessionId"] for o in self.reindex(adopt=True)["data"]], ["other"])

    def test_times_that_cannot_be_are_those_of_the_file(self):
        daemon = self.d = self.spawn(start=False)
        for id, time_of in (("late", "9999-01-02T03:04:05.000Z"), ("early", "1969-01-02T03:04:05.000Z")):
            self.orphan(id, HOUR, text=HEADER.replace("2020-01-02T03:04:05.000Z", time_of) % id + LINE % ("a1", time_of, "user", "hi"))
        self.orphan("mixed", HOUR, text=HEADER.replace("2020", "9999") % "mixed" + LINE % ("a1", "2020-01-02T03:04:06.000Z", "user", "hi")
                    + LINE % ("a2", "9999-01-02T03:04:06.000Z", "user", "hi"))
        written = time.time() * 1000 - HOUR
        self.a = daemon.start().client()
        self.assertEqual(self.reindex(adopt=True)["count"], 3)
        for id in ("late", "early"):
            session = self.ok(self.a.get(S(f"agent:main:recovered:{id}")), 200)
            for name in ("createdAt", "sessionStartedAt", "updatedAt"):
                self.assertAlmostEqual(session[name], written, delta=MINUTE, msg=f"{id} {name}")
        session = self.ok(self.a.get(S("agent:main:recovered:mixed")), 200)
        self.assertEqual((session["createdAt"], session["updatedAt"]), (1577934246000, 1577934246000))

    def test_a_transcript_that_comes_while_the_daemon_runs_is_adopted_without_events_of_its_messages(self):
        self.launch()
        self.seed(1)
        self.orphan("late")
        self.orphan("late", topic="t")
        with self.a.stream("/v1/agents/main/events") as stream:
            stream.wait_type("stream.hello")
            self.assertEqual([o["sessionId"] for o in self.reindex(adopt=True)["data"]], ["late"])
            self.say("agent:main:recovered:late", "more", api=self.a)
            stream.wait_type("message.appended")
            self.assertEqual([event.type for event in stream.durable], ["session.created", "topic.created", "message.appended"])
        session = self.ok(self.a.get(S("agent:main:recovered:late")), 200)
        self.assertEqual((session["messageCount"], session["entryCount"]), (5, 7))

    def test_odd_transcripts_are_adopted_too(self):
        self.launch()
        self.orphan("empty", text="")
        self.orphan("garbage", text="\x00\x01 no json\n{\n")
        self.orphan("bare", text='{"role":"user","content":"hi"}\n')
        self.orphan("topics-only", topic="t")
        (self.d.agent_dir() / "link.jsonl").symlink_to("bare.jsonl")
        (self.d.agent_dir() / "dir.jsonl").mkdir()
        (self.d.agent_dir() / "..jsonl").write_text("")
        adopted = self.reindex(adopt=True)
        self.assertEqual([o["sessionId"] for o in adopted["data"]], ["bare", "empty", "garbage", "topics-only"])
        self.assertEqual(self.ok(self.a.get(S("agent:main:recovered:bare")), 200)["firstMessage"], "hi")
        for row in adopted["data"]:
            self.ok(self.a.get(S(row["key"], "main", "messages")), 200)

    def test_only_an_admin_that_sees_everything_reindexes(self):
        self.launch()
        self.seed(1)
        for role, more in (("operator", {}), ("admin", {"agents": ["main"]}), ("admin", {"keyPrefix": "agent:main:"}), ("viewer", {})):
            self.problem(self.d.client(self.d.token(role, **more)).post("/v1/admin/reindex", {"agent": "main"}), 403, "forbidden")
        self.invalid(self.a.post("/v1/admin/reindex", {}), "/agent")
        self.invalid(self.a.post("/v1/admin/reindex", {"agent": "main", "adopt": 1, "x": 1}), "/adopt", "/x")
        self.problem(self.a.post("/v1/admin/reindex", {"agent": "nobody"}), 404, "agent_not_found")

    def test_an_old_orphan_is_archived_and_comes_back(self):
        self.launch({"pruneAfterMs": 90 * MINUTE})
        self.seed(1)
        self.orphan("old", 2 * HOUR)
        self.orphan("old", 3 * HOUR, topic="t")
        self.orphan("written", 2 * HOUR)
        self.orphan("written", 0, topic="t")
        self.d.checkpoint()
        os.utime(self.d.agent_dir() / "s0.jsonl", (1, 1))
        whole = (self.d.agent_dir() / "old.jsonl").read_bytes()
        named = self.maintain()
        self.assertEqual([(row["key"], row["sessionId"], row["reason"], row["file"]) for row in named["data"]],
                         [("agent:main:recovered:old", "old", "orphan", "old.jsonl")])
        self.assertEqual(self.maintain(dryRun=False), named)
        self.d.checkpoint()
        self.assertEqual([name.split(".pruned.")[0] for name in self.files("*.pruned.*")], ["old-topic-t.jsonl", "old.jsonl"])
        self.assertEqual(self.files("*.jsonl"), ["s0.jsonl", "written-topic-t.jsonl", "written.jsonl"])
        self.assertEqual(self.maintain(dryRun=False)["count"], 0)
        self.restart()
        back = self.ok(self.a.post(S("agent:main:recovered:old", "main", "restore")), 200)
        self.assertEqual(back["sessionId"], "old")
        self.d.checkpoint()
        self.assertEqual((self.d.agent_dir() / "old.jsonl").read_bytes(), whole)
        self.assertEqual(self.reindex()["count"], 1, "the one that is being written to")

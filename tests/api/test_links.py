"""Symbolic links below the state directory are never followed out of it, and names cannot leave their folder.

As root these tests run against no permission at all, so that only the daemon itself can be what refuses; as another user they
hold all the same.
"""

import ctypes
import http.client
import io
import os
import stat
import tarfile
import threading

from harness.case import Case, S, json, text_of, uid


OUTSIDE = b'{"agent:main:x:outside":{"sessionId":"outside","updatedAt":1,"label":"from outside"}}\n'


def exchange(one: bytes, other: bytes) -> int:
    at_cwd, rename_exchange = -100, 2
    return ctypes.CDLL(None).renameat2(at_cwd, one, at_cwd, other, rename_exchange)


class Links(Case):
    @classmethod
    def setUpClass(cls):
        pass  # each test has a daemon of its own

    def prepared(self):
        """A daemon that has run and stopped, with one session that has a transcript; a folder outside that nobody may touch."""
        daemon = self.spawn()
        api = daemon.client()
        session = self.new("agent:main:links:a", api=api)
        self.say(session["key"], "ours", api=api)
        daemon.checkpoint()
        daemon.stop()
        outside = daemon.home / "outside"
        outside.mkdir()
        (outside / "file").write_bytes(OUTSIDE)
        return daemon, session, outside

    def untouched(self, outside, *more):
        self.assertEqual({p.name for p in outside.iterdir()}, {"file", *more})
        self.assertEqual((outside / "file").read_bytes(), OUTSIDE)

    def starts(self, daemon):
        try:
            daemon.start()
            return True
        except AssertionError:
            daemon.process = None
            return False

    def use(self, daemon, session):
        """Everything that reads and writes; what came back."""
        api = daemon.client()
        got = [api.get("/v1/agents/main/sessions"), api.get(S(session["key"], "main", "messages")),
               api.get(S(session["key"], "main", "transcript")), api.patch(S(session["key"]), {"label": uid()}),
               api.post(S(session["key"], "main", "messages"), {"role": "user", "text": "more"}),
               api.post(S(session["key"], "main", "reset")), api.post("/v1/admin/checkpoint"), api.post("/v1/admin/doctor")]
        for reply in got[:6]:
            self.assertNotIn(b"from outside", reply.raw)
        return got

    def test_a_file_that_is_a_link_out(self):
        for name in ("agents/main/sessions/sessions.json", "agents/main/sessions/{id}.jsonl", "tokens.json", "policy.json",
                     "sessiond.lock", "journal/CHECKPOINT", "journal/EPOCH", "journal/cursor.key", "journal/tickets",
                     "journal/ends/main.jsonl", "journal/previous/main.json", "agents/main/sessions/sessions.json.lock",
                     "journal/{segment}"):
            with self.subTest(name):
                daemon, session, outside = self.prepared()
                segment = sorted((daemon.state / "journal").glob("*.jsonl"))[-1].name
                path = daemon.state / name.format(id=session["sessionId"], segment=segment)
                path.parent.mkdir(exist_ok=True)
                path.unlink(missing_ok=True)
                path.symlink_to(outside / "file")
                if self.starts(daemon):
                    self.use(daemon, session)
                    daemon.stop()
                self.untouched(outside)

    def test_a_folder_that_is_a_link_out(self):
        for name in ("agents", "agents/main", "agents/main/sessions", "journal", "journal/keys", "journal/index",
                     "journal/index/main", "journal/previous", "journal/ends"):
            with self.subTest(name):
                daemon, session, outside = self.prepared()
                path = daemon.state / name
                path.parent.mkdir(exist_ok=True)
                if path.exists():
                    path.rename(daemon.home / "was")
                path.symlink_to(outside)
                if self.starts(daemon):
                    self.use(daemon, session)
                    daemon.stop()
                self.untouched(outside)

    def test_a_link_that_stays_within_and_the_state_directory_as_a_link(self):
        daemon, session, _ = self.prepared()
        daemon.state.rename(daemon.home / "elsewhere")
        daemon.state.symlink_to("elsewhere")
        daemon.start()
        self.assertEqual(self.texts(session["key"], api=daemon.client()), ["ours"])
        self.say(session["key"], "more", api=daemon.client())
        daemon.checkpoint()
        self.assertIn(b"more", (daemon.home / "elsewhere" / "agents" / "main" / "sessions" /
                                (session["sessionId"] + ".jsonl")).read_bytes())

    def linked(self, daemon, session, target):
        """The session's transcript is a link now; the file lies at `target`."""
        path = daemon.agent_dir() / (session["sessionId"] + ".jsonl")
        target.parent.mkdir(exist_ok=True)
        path.rename(target)
        path.symlink_to(os.path.relpath(target, path.parent))
        return path

    def test_a_transcript_that_is_a_link_within_the_state_directory_is_served(self):
        daemon, session, outside = self.prepared()
        target = daemon.state / "big" / "a.jsonl"
        path = self.linked(daemon, session, target)
        daemon.start()
        api, key = daemon.client(), session["key"]
        self.assertEqual(self.texts(key, api=api), ["ours"])
        self.assertEqual(self.say(key, "more", api=api)["firstSeq"], 1)
        daemon.checkpoint()
        self.assertIn(b"more", target.read_bytes())
        self.assertEqual(api.get(S(key, "main", "transcript")).raw, target.read_bytes())
        self.assertIn(b"more", api.get(S(key, "main", "export") + "?format=jsonl").raw)
        with target.open("ab") as theirs:  # another program goes on in the file itself
            theirs.write(b'{"type":"message","id":"0123456789abcdef","parentId":null,'
                         b'"message":{"role":"assistant","content":"theirs"}}\n')
        self.assertEqual(self.texts(key, api=api), ["ours", "more", "theirs"])
        self.assertEqual(self.say(key, "again", api=api)["firstSeq"], 3)
        self.assertEqual(api.get("/readyz").json["degraded"], [])
        report = self.ok(api.post("/v1/admin/doctor"), 200)
        self.assertEqual([f for f in report["findings"] if f["check"] == "symlink" and f["level"] != "ok"], [])
        backup = api.post("/v1/admin/backup")
        self.assertEqual(backup.status, 200)
        with tarfile.open(fileobj=io.BytesIO(backup.raw)) as tar:
            stored = [m for m in tar.getmembers() if m.name.endswith("sessions/" + path.name)]
            self.assertTrue(stored[0].isreg())
            self.assertIn(b"again", tar.extractfile(stored[0]).read())
        daemon.restart(kill=True)
        self.assertEqual(self.texts(key, api=api), ["ours", "more", "theirs", "again"])
        daemon.stop()
        self.assertIn(daemon.cli("doctor", "--repair").returncode, (0, 1))
        self.assertTrue(path.is_symlink())
        daemon.start()
        self.ok(api.post(S(key, "main", "reset")), 200)
        self.assertEqual(self.texts(key, api=api), [])
        self.say(key, "new", api=api)
        self.assertFalse(path.exists())
        self.assertIn(b"again", target.read_bytes())
        archive = [p for p in daemon.agent_dir().iterdir() if ".jsonl.reset." in p.name and not p.name.endswith(".entry")]
        self.assertEqual(len(archive), 1)
        rows = self.messages(key, api=api, query=f"limit=200&order=asc&archive={archive[0].name}")
        self.assertEqual([text_of(r) for r in rows], ["ours", "more", "theirs", "again"])
        self.ok(api.delete(S(key)), 204)
        self.untouched(outside)

    def test_a_transcript_that_is_a_link_out_is_refused_for_good_and_named(self):
        daemon, session, outside = self.prepared()
        path = daemon.agent_dir() / (session["sessionId"] + ".jsonl")
        was = path.read_bytes()
        path.unlink()
        for target, what in ((outside / "file", "leads out of the state directory"), (outside / "none", "leads nowhere")):
            with self.subTest(what):
                path.unlink(missing_ok=True)
                path.symlink_to(target)
                daemon.start()
                api = daemon.client()
                for reply in (api.get(S(session["key"], "main", "messages")),
                              api.post(S(session["key"], "main", "messages"), {"role": "user", "text": "t"})):
                    body = self.problem(reply, 503, "degraded")
                    self.assertEqual((body["retryable"], what in body["detail"]), (False, True), body)
                self.assertTrue([d for d in api.get("/readyz").json["degraded"] if path.name in d and what in d])
                self.ok(api.get(S(session["key"])), 200)
                self.untouched(outside)
                path.unlink()
                path.write_bytes(was)
                self.assertEqual(self.texts(session["key"], api=api), ["ours"])
                self.assertEqual(api.get("/readyz").json["degraded"], [])
                daemon.stop()

    def test_an_archive_goes_over_nothing(self):
        daemon, session, outside = self.prepared()
        daemon.start()
        topic = daemon.agent_dir() / f"{session['sessionId']}-topic-t.jsonl"
        topic.symlink_to(outside / "file")
        got = self.use(daemon, session)
        self.assertEqual(got[4].status // 100, 2)
        daemon.stop()
        self.untouched(outside)

    def test_a_folder_that_is_swapped_for_a_link_while_it_is_used(self):
        daemon, session, outside = self.prepared()
        sessions = daemon.agent_dir()
        # What the daemon looks for is there too, so that a link that is followed finds something.
        (outside / "sessions.json").write_bytes(OUTSIDE)
        (outside / (session["sessionId"] + ".jsonl")).write_bytes(
            b'{"type":"session","version":3,"id":"' + session["sessionId"].encode() + b'"}\n'
            b'{"type":"message","id":"0123456789abcdef","parentId":null,"message":{"role":"user","content":"from outside"}}\n')
        there = {p.name: p.read_bytes() for p in outside.iterdir()}
        daemon.start()
        api = daemon.client()
        over = threading.Event()

        link = sessions.with_name("link")
        link.symlink_to(outside)

        def swap():  # folder and link change places in one step: the folder is never missing
            while not over.is_set():
                self.assertEqual(exchange(bytes(sessions), bytes(link)), 0)
            if sessions.is_symlink():
                exchange(bytes(sessions), bytes(link))

        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            for i in range(150):
                for ask in (lambda: api.get(S(session["key"], "main", "messages"), cache_control="no-cache"),
                            lambda: api.get(S(session["key"], "main", "transcript")),
                            lambda: api.post(S(session["key"], "main", "messages"), {"role": "user", "text": f"m{i}"})):
                    try:
                        self.assertNotIn(b"from outside", ask().raw)
                    except (OSError, http.client.HTTPException):
                        self.assertTrue(daemon.alive)  # a transcript that cannot be opened when its turn comes is not sent
        finally:
            over.set()
            swapping.join()
            link.unlink()
        daemon.checkpoint()
        daemon.stop()
        self.assertEqual({p.name: p.read_bytes() for p in outside.iterdir()}, there)

    def test_ids_cannot_leave_their_folder(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        before = sorted(str(p) for p in daemon.home.iterdir())
        for bad in ("../x", "..", "/etc/x", "a/../../x", "x/y", "/etc/passwd", "\u0000", "..\\x", "%2e%2e%2fx"):
            with self.subTest(bad):
                api.post("/v1/agents/main/sessions", {"sessionId": bad})
                api.put(S("agent:main:put:" + uid()), {"sessionId": bad, "sessionFile": bad})
                api.patch(S(key), {"sessionFile": bad})
                self.assertNotIn(b"root:", api.get(S(key, "main", "transcript")).raw)
                api.post(S(key, "main", "messages"), {"role": "user", "text": "t"})
                api.request("POST", S(key, "main", "messages") + "?topic=" + json.dumps(bad)[1:-1].replace("\\", "%5c"),
                            {"role": "user", "text": "t"})
                api.post("/v1/inbound", {"agent": bad, "channel": "c", "chatType": "direct", "peer": bad, "topic": bad,
                                         "threadId": bad, "text": "t"})
        daemon.checkpoint()
        self.assertEqual(sorted(str(p) for p in daemon.home.iterdir()), before)
        names = {path.name for path in daemon.agent_dir().iterdir()}
        self.assertFalse({"..", "x", "x.jsonl"} & names, names)

    def test_a_state_directory_that_is_too_open(self):
        daemon = self.spawn(start=False, umask=0)
        daemon.state.mkdir()
        os.chmod(daemon.state, 0o777)
        daemon.start()
        self.say(self.new(api=daemon.client())["key"], api=daemon.client())
        daemon.checkpoint()
        report = daemon.client().post("/v1/admin/doctor").json
        self.assertIn("all users can write here", json.dumps(report))
        for path in daemon.state.rglob("*"):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                self.assertEqual(stat.S_IMODE(path.lstat().st_mode) & 0o077, 0, path)

"""`sessiond backup` and `restore`: consistent while written, whole or known not to be, never over what is there."""

import io
import os
import pty
import resource
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
from pathlib import Path

from harness.case import Case, S, json, uid
from harness.sessiond import SLOW, Daemon, binary, eventually
from test_trees import files_of, trees

runs = {"asan", "tsan"}

# What the place of the tests, not the backup, may be warned of.
OF_THE_PLACE = ("file_system", "disk_space")


def lines_of(state: Path):
    """(file, line) of every transcript and archive."""
    for path in sorted(state.glob("agents/*/sessions/*.jsonl*")):
        data = path.read_bytes()
        assert not data or data.endswith(b"\n"), f"{path} ends in half a line"
        for line in data.splitlines():
            yield path, json.loads(line)


def texts_of(state: Path):
    found = []
    for _, line in lines_of(state):
        content = line.get("message", {}).get("content")
        found += [part["text"] for part in content] if isinstance(content, list) else [content] if content else []
    return found


class BackupCase(Case):
    def place(self, name) -> Path:
        """A path that is not there, in a directory of its own that goes with the test."""
        home = self.daemon.home / uid()
        home.mkdir()
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        return home / name

    def backup(self, daemon=None, to=None) -> Path:
        to = to or self.place("backup")
        done = (daemon or self.daemon).cli("backup", to)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((to / "MANIFEST.json").exists())
        return to

    def restore(self, source, state=None, daemon=None, *more) -> Path:
        state = state or self.place("state")
        done = (daemon or self.daemon).cli("restore", source, "--state-dir", state, *more)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        self.assertHealthy(state)
        return state

    def refused(self, source, state=None, *more, input=None, saying=""):
        state = state or self.place("state")
        before = files_of(state) if state.exists() else {}
        done = subprocess.run([binary(), "restore", str(source), "--state-dir", str(state), *more], input=input,
                              env=self.daemon.env, capture_output=True, timeout=60 * SLOW)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(b"nothing was restored", done.stderr)
        self.assertIn(saying, done.stderr.decode())
        before.pop("sessiond.lock", None)
        after = files_of(state)
        after.pop("sessiond.lock", None)
        self.assertEqual(before, after)
        self.assertEqual([p for p in state.parent.iterdir() if ".restore." in p.name], [], "nothing is left beside")

    def findings(self, state):
        done = self.daemon.cli("doctor", "--json", "--state-dir", state)
        return [f for f in json.loads(done.stdout)["findings"] if f["level"] != "ok" and f["check"] not in OF_THE_PLACE]

    def assertHealthy(self, state):
        self.assertEqual(self.findings(state), [])

    def links(self, daemon=None):
        return [p.name for p in ((daemon or self.daemon).state / "journal").iterdir() if p.name.startswith("backup.")]


class Backup(BackupCase):
    def test_what_was_there_is_there_again(self):
        session = self.new()
        texts = [f"one {uid()}", f"two {uid()}"]
        for text in texts:
            self.say(session["key"], text)
        self.ok(self.api.post(S(session["key"], "main", "reset")), 200)
        self.say(session["key"], "three")
        keyed = {"Idempotency-Key": uid()}
        first = self.api.post(S(session["key"], "main", "messages"), {"role": "user", "text": "keyed"}, headers=keyed)
        token = self.daemon.token("viewer")
        last = self.api.get("/v1/sessions").json["asOf"]
        backup = self.backup()
        self.assertEqual(self.links(), [])
        self.assertHealthy(backup)
        for path in [backup, *backup.rglob("*")]:
            self.assertEqual(path.stat().st_mode & 0o7777, 0o700 if path.is_dir() else 0o600, path)
        manifest = json.loads((backup / "MANIFEST.json").read_bytes())
        self.assertEqual(manifest["asOf"], last)

        restored = self.spawn(state=self.restore(backup))
        api = restored.client(token=self.daemon.admin_token)
        self.assertEqual(self.texts(session["key"], api=api), ["three", "keyed"])
        self.assertEqual({t for t in texts_of(restored.state) if t in texts}, set(texts), "archives are there")
        again = api.post(S(session["key"], "main", "messages"), {"role": "user", "text": "keyed"}, headers=keyed)
        self.assertEqual((again.raw, again.headers["Idempotency-Replayed"]), (first.raw, "true"))
        self.ok(restored.client(token=token).get("/v1/sessions"), 200)
        self.say(session["key"], "four", api=api)
        with api.stream("/v1/events", last_event_id=last) as stream:
            gap = stream.wait_type("stream.gap").data
            self.assertEqual(gap["reason"], "epoch")
        self.assertNotEqual(gap["to"].split("-")[0], last.split("-")[0])

    def test_while_eight_write(self):
        daemon = self.spawn({"journal": {"segmentBytes": 65536, "maxBytes": 65536}})  # retention at work all the time
        stop, acknowledged = threading.Event(), [[] for _ in range(8)]
        failures = []

        def write(mine, number):
            try:
                api, key = daemon.client(), f"agent:a{number % 3}:slack:channel:w{number}"
                agent = key.split(":")[1]
                self.new(key, api=api)
                for i in range(100_000):
                    if stop.is_set():
                        return
                    text = f"w{number} {i}"
                    self.say(key, text, agent, api)
                    mine.append(text)
                    if i % 7 == number % 7:
                        self.ok(api.patch(S(key, agent), {"label": f"{number} {i}"}))
                    if i % 23 == number:
                        self.ok(api.post(S(key, agent, "reset")), 200)
                    if i % 31 == number:
                        other = self.new(f"agent:{agent}:slack:channel:x{number}-{i}", api=api)["key"]
                        self.say(other, f"x{number} {i}", agent, api)
                        mine.append(f"x{number} {i}")
                        if i % 2:
                            self.ok(api.delete(S(other, agent)), 204)
            except Exception as error:  # told by the test, not by a thread
                failures.append(error)

        writers = [threading.Thread(target=write, args=(mine, i)) for i, mine in enumerate(acknowledged)]
        for writer in writers:
            writer.start()
        try:
            eventually(lambda: failures or all(len(mine) > 60 for mine in acknowledged), 60, what="a start of writing")
            rounds = []
            for _ in range(3):
                known = [text for mine in acknowledged for text in list(mine)]
                rounds.append((known, self.backup(daemon)))
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        self.assertEqual(failures, [])
        for known, backup in rounds:
            state = self.restore(backup)
            found = texts_of(state)
            self.assertEqual(len(found), len(set(found)), "each once")
            self.assertEqual(set(known) - set(found), set())
            head = int(json.loads((state / "journal" / "CHECKPOINT").read_bytes())["seq"])
            for store in state.glob("agents/*/sessions/sessions.json"):
                for key, entry in json.loads(store.read_bytes()).items():
                    self.assertLessEqual(entry["rev"], head, key)
                    transcript = store.with_name(entry["sessionId"] + ".jsonl")
                    there = len(transcript.read_bytes().splitlines()) - 1 if transcript.exists() else 0
                    self.assertEqual(there, entry.get("entryCount", 0), key)
        restored = self.spawn(state=state)
        self.ok(restored.client(token=daemon.admin_token).get("/readyz"), 200)

    def test_without_a_daemon(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        texts = [uid() for _ in range(50)]
        for text in texts:
            self.say(key, text, api=api)
        daemon.kill9()  # what the files have not is in the journal
        state = self.restore(self.backup(daemon))
        self.assertEqual(texts_of(state), texts)
        daemon.start()
        self.assertEqual(self.texts(key, api=api), texts)
        done = daemon.cli("backup", self.place("b"), "--state-dir", self.place("nowhere"))
        self.assertEqual(done.returncode, 1)

    def test_an_archive_that_is_a_file_is_for_its_owner_alone(self):
        daemon = self.spawn()
        self.say(self.new(api=daemon.client())["key"], "kept", api=daemon.client())
        file = daemon.home / "all.tar"
        self.assertEqual(daemon.cli("backup", file, "--state-dir", daemon.state).returncode, 0)
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        again = daemon.cli("backup", file, "--state-dir", daemon.state)
        self.assertEqual((again.returncode, "there already" in again.stderr), (1, True))
        self.assertEqual(sorted(p.name for p in daemon.home.iterdir() if "all.tar" in p.name), ["all.tar"])
        back = daemon.home / "back"
        self.assertEqual(daemon.cli("restore", file, "--state-dir", back).returncode, 0)

    def test_names_with_dots(self):
        """Transcripts, topics, archives and what was put aside of them, whose names look like a lock's or a temporary's."""
        daemon = self.spawn()
        api = daemon.client()
        said = []
        for session_id in ("build.lock", "a.tmp.b", "c.lock.77", "d.lock.77.ab", "e.tmp"):
            key = f"agent:main:slack:channel:{uid()}"
            self.ok(api.post("/v1/agents/main/sessions", {"key": key, "sessionId": session_id}), 201)
            self.assertEqual(self.ok(api.get(S(key)))["sessionId"], session_id)
            said += [uid() for _ in range(3)]
            self.say(key, said[-3], api=api)
            self.say(key, said[-2], api=api, query="?topic=a.lock.b")
            self.ok(api.post(S(key, "main", "reset"), {}))
            self.say(key, said[-1], api=api)
        daemon.checkpoint()
        torn = daemon.agent_dir() / "build.lock.jsonl.torn.2026-01-02T03-04-05.678Z"
        torn.write_text("half a l")
        passing = daemon.agent_dir() / "build.lock.jsonl.lock.99999999.0a1b2c3d4e5f"
        passing.write_text("")
        state = self.place("state")
        done = daemon.cli("restore", self.backup(daemon), "--state-dir", state)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        (state / "agents" / "main" / "sessions" / torn.name).rename(self.daemon.home / torn.name)
        self.assertEqual((self.daemon.home / torn.name).read_text(), "half a l")
        self.assertEqual(sorted(texts_of(state)), sorted(said))
        self.assertFalse((state / "agents" / "main" / "sessions" / passing.name).exists())
        told = {Path(f.get("path") or "").name: f["check"] for f in self.findings(daemon.state)}
        self.assertEqual((told.get(torn.name), told.get(passing.name)), ("quarantine", "temporary"), told)

    def test_real_trees(self):
        for tree in trees():
            with self.subTest(tree.name):
                state = self.place("tree")
                shutil.copytree(tree, state)
                daemon = self.spawn(state=state)
                daemon.checkpoint()
                backup = self.backup(daemon)
                self.assertEqual(daemon.stop(), 0)
                restored = self.place("state")
                done = daemon.cli("restore", backup, "--state-dir", restored)
                self.assertIn(done.returncode, (0, 1, 4), done.stderr)
                kept = lambda root: {n: b for n, b in files_of(root).items()
                                     if "/sessions/" in n and not n.endswith((".lock", ".tmp"))}
                self.assertEqual(kept(restored), kept(state))
                bare = lambda root: sorted((f["level"], f["check"], f["detail"]) for f in self.findings(root)
                                           if f["check"] not in ("modes", "temporary", "lock", "state_dir"))
                self.assertEqual(bare(restored), bare(state), "the doctor sees what it saw")

    def test_who_may(self):
        for token in (self.daemon.token("operator"), self.daemon.token("admin", agents=["main"])):
            self.problem(self.daemon.client(token=token).post("/v1/admin/backup"), 403)
        reply = self.api.post("/v1/admin/backup")
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "application/x-tar"))
        with tarfile.open(fileobj=io.BytesIO(reply.raw)) as archive:
            self.assertEqual(archive.getnames()[-1], "MANIFEST.json")

    def test_where_to(self):
        full = self.place("full")
        full.mkdir()
        (full / "x").write_text("mine")
        done = self.daemon.cli("backup", full)
        self.assertEqual((done.returncode, list(full.iterdir())), (1, [full / "x"]), done.stderr)
        empty = self.place("empty")
        empty.mkdir(mode=0o755)
        self.backup(to=empty)
        self.assertEqual(empty.stat().st_mode & 0o7777, 0o700)
        controller, terminal = pty.openpty()
        try:
            for command, stream, code in (("backup", "stdout", 2), ("restore", "stdin", 64)):
                done = subprocess.run([binary(), command, "-", "--state-dir", str(self.place("s"))], env=self.daemon.env,
                                      stderr=subprocess.PIPE, timeout=30 * SLOW, **{stream: terminal})
                self.assertEqual(done.returncode, code, done.stderr)
        finally:
            os.close(controller)
            os.close(terminal)

    def test_a_full_disk_at_the_target(self):
        self.say(self.new()["key"], "x" * 300_000)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([binary(), "backup", "-"], stdout=full, stderr=subprocess.PIPE, timeout=30 * SLOW,
                                  env={**self.daemon.env, "SESSIOND_CONFIG": str(self.daemon.config_file)})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"incomplete", done.stderr)

        def small():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        to = self.place("small")
        done = subprocess.run([binary(), "backup", str(to)], capture_output=True, timeout=30 * SLOW, preexec_fn=small,
                              env={**self.daemon.env, "SESSIOND_CONFIG": str(self.daemon.config_file)})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"incomplete", done.stderr)
        self.assertFalse((to / "MANIFEST.json").exists())
        self.refused(to, saying="MANIFEST.json")
        eventually(lambda: not self.links(), what="the end of the daemon's links")

    def test_an_interrupted_backup_is_known(self):
        self.say(self.new()["key"], "x" * 300_000)
        whole = self.api.post("/v1/admin/backup").raw
        for length in (0, 700, len(whole) // 2, len(whole) - 1100):
            path = str(self.daemon.home / f"{uid(6)}.sock")
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen()
                listener.settimeout(30 * SLOW)

                def serve():
                    peer, _ = listener.accept()
                    with peer:
                        peer.recv(65536)
                        peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + whole[:length])

                thread = threading.Thread(target=serve)
                thread.start()
                config = self.place("cut.json")
                config.write_text(json.dumps({"stateDir": str(self.daemon.state), "listen": {"unix": path}}))
                to = self.place("cut")
                done = self.daemon.cli("backup", to, "--config", config)
                thread.join()
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("incomplete", done.stderr)
            self.assertFalse((to / "MANIFEST.json").exists())
            self.refused(to)
            self.refused("-", input=whole[:length])

    def test_a_reader_that_stops_or_goes_pins_nothing(self):
        daemon = self.spawn({"stream": {"stallTimeoutMs": 1000}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        for _ in range(12):
            self.say(key, "x" * 1_000_000, api=api)
        request = (f"POST /v1/admin/backup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
                   f"Authorization: Bearer {daemon.admin_token}\r\n\r\n").encode()
        for leave in (True, False):
            with socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
                sock.connect(("127.0.0.1", daemon.port))
                sock.sendall(request)
                self.assertTrue(sock.recv(100).startswith(b"HTTP/1.1 200"))
                self.assertEqual(len(self.links(daemon)), 1)
                if leave:
                    sock.close()
                eventually(lambda: not self.links(daemon), 10, what="the end of the links")
        with socket.socket() as sock:  # nor does it keep the daemon from ending
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            sock.connect(("127.0.0.1", daemon.port))
            sock.sendall(request)
            sock.recv(100)
            daemon.kill9()
        self.assertEqual(len(self.links(daemon)), 1)
        daemon.start()
        self.assertEqual(self.links(daemon), [], "a killed one's links go with the next start")


class Restore(BackupCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        api = cls.api
        cls.key = f"agent:main:slack:channel:{uid()}"
        assert api.post("/v1/agents/main/sessions", {"key": cls.key}).status == 201
        for text in ("one", "two"):
            assert api.post(S(cls.key, "main", "messages"), {"role": "user", "text": text}).status == 201
        long = "t" * 80
        assert api.post(S(cls.key, "main", "messages") + f"?topic={long}", {"role": "user", "text": "long"}).status == 201
        assert api.post(S(cls.key, "main", "reset")).status == 200  # archives with names over 100 bytes
        cls.archive = api.post("/v1/admin/backup").raw

    def test_from_stdin_file_and_directory(self):
        path = self.place("b.tar")
        path.write_bytes(self.archive)
        directory = self.backup()
        wanted = sorted(["one", "two", "long"])
        for source in (path, directory):
            self.assertEqual(sorted(texts_of(self.restore(source))), wanted)
        state = self.place("state")
        done = subprocess.run([binary(), "restore", "-", "--state-dir", str(state)], input=self.archive,
                              env=self.daemon.env, capture_output=True, timeout=60 * SLOW)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertEqual(sorted(texts_of(state)), wanted)

    def test_gnu_tar_reads_ours_and_we_read_its(self):
        path = self.place("b.tar")
        path.write_bytes(self.archive)
        listing = subprocess.run(["tar", "tvf", path], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        self.assertEqual((listing.returncode, listing.stderr), (0, ""))
        self.assertTrue(all(line.startswith(("-rw------- ", "drwx------ ")) for line in listing.stdout.splitlines()),
                        listing.stdout)
        self.assertIn("MANIFEST.json", listing.stdout.splitlines()[-1])
        self.assertGreater(max(map(len, listing.stdout.splitlines())), 150)
        unpacked = self.place("backup-1")
        unpacked.mkdir()
        subprocess.run(["tar", "xf", path, "-C", unpacked], check=True)
        self.assertEqual(sorted(texts_of(self.restore(unpacked))), ["long", "one", "two"])
        for form in ("gnu", "oldgnu", "pax"):
            for what in ((["-C", unpacked, "."]), (["-C", unpacked.parent, unpacked.name])):
                theirs = self.place("theirs.tar")
                subprocess.run(["tar", "cf", theirs, f"--format={form}", *what], check=True)
                with self.subTest(f"{form} {what[-1]}"):
                    self.assertEqual(sorted(texts_of(self.restore(theirs))), ["long", "one", "two"])

    def test_what_is_there_stays(self):
        path = self.place("b.tar")
        path.write_bytes(self.archive)
        state = self.restore(path)
        marked = state / "agents" / "main" / "sessions" / "mark.txt"
        marked.write_text("here")
        self.refused(path, state, saying="--force")
        before = files_of(state)
        self.restore(path, state, None, "--force")
        self.assertFalse(marked.exists())
        aside = [p for p in state.parent.iterdir() if p.name.startswith(state.name + ".before-restore.")]
        self.assertEqual(len(aside), 1)
        after = files_of(aside[0])
        for files in (before, after):
            files.pop("sessiond.lock", None)
        self.assertEqual(after, before)

    def test_not_while_a_daemon_runs(self):
        path = self.place("b.tar")
        path.write_bytes(self.archive)
        done = self.daemon.cli("restore", path, "--force")
        self.assertEqual(done.returncode, 3)
        self.assertIn(str(self.daemon.process.pid), done.stderr)
        self.ok(self.api.get(S(self.key)), 200)

    def test_damaged_and_hostile_ones_are_refused(self):
        self.refused("-", input=b"", saying="the archive is empty")
        self.refused("-", input=os.urandom(5000), saying="not a tar archive")
        self.refused(self.place("nosuch"))
        self.refused("-", input=self.archive.replace(b'"one"', b'"One"'), saying="differs from the backup")
        for name, kind in (("/etc/x", tarfile.REGTYPE), ("../x", tarfile.REGTYPE), ("journal/x", tarfile.SYMTYPE),
                           ("journal/x", tarfile.LNKTYPE), ("journal/x", tarfile.CHRTYPE),
                           ("journal/more.jsonl", tarfile.REGTYPE), ("journal/EPOCH/x", tarfile.REGTYPE)):
            with self.subTest(name=name, kind=kind):
                out = io.BytesIO()
                with tarfile.open(fileobj=out, mode="w") as archive:
                    member = tarfile.TarInfo(name)
                    member.type, member.linkname = kind, "/etc/passwd"
                    archive.addfile(member)
                self.refused("-", input=out.getvalue()[:512] + self.archive)

    def test_a_template_that_is_another(self):
        config = self.place("c.json")
        config.write_text(json.dumps({"store": {"pathTemplate": "data/{agentId}/sessions.json"}}))
        self.refused("-", None, "--config", str(config), input=self.archive, saying="pathTemplate")

    def test_a_damaged_journal_is_told(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        for i in range(5):
            self.say(key, str(i), api=api)
        daemon.stop()
        segment = next((daemon.state / "journal").glob("0*.jsonl"))
        data = bytearray(segment.read_bytes())
        data[len(data) // 3] ^= 1
        segment.write_bytes(data)
        backup, state = self.backup(daemon), self.place("state")
        done = self.daemon.cli("restore", backup, "--state-dir", state)
        self.assertEqual(done.returncode, 4)
        self.assertIn("damaged at offset", done.stdout)
        self.assertEqual((state / "journal" / segment.name).read_bytes(), data)

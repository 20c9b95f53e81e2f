"""Damage in journal/: what of it is served, what is told, and that the doctor's advice mends what the doctor names."""

import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from harness.case import Case, S
from harness.sessiond import Daemon, eventually

MESSAGES = 40  # of 5 kB: four sealed segments and the live one
CONFIG = {"journal": {"segmentBytes": 65536}, "stream": {"tailBytes": 65536}}
OF_THE_PLACE = ("file_system", "disk_space", "daemon")


def flip(path: Path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def remove(path: Path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def halve(path: Path):
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path):
    os.truncate(path, 0)


def folder(path: Path):
    remove(path)
    path.mkdir(mode=0o700)


def file(path: Path):
    remove(path)
    path.write_text("no folder")
    path.chmod(0o600)


def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


class JournalCase(Case):
    """Each test gets copies of one state directory that was filled and stopped."""

    @classmethod
    def setUpClass(cls):
        cls.source = Daemon(CONFIG).start()
        cls.addClassCleanup(cls.source.close)
        api = cls.source.client()
        cls.key = "agent:main:damage:a"
        assert api.post("/v1/agents/main/sessions", {"key": cls.key}).status == 201
        for i in range(MESSAGES):
            reply = api.post(S(cls.key, "main", "messages"), {"role": "user", "text": f"{i} " + "x" * 5000},
                             headers={"Idempotency-Key": f"k{i}"})
            assert reply.status == 201, reply
        ticket = api.post("/v1/stream-tickets", {}).json["ticket"]
        with api.stream("/v1/events?ticket=" + ticket) as stream:
            stream.wait_type("stream.hello")
        assert api.patch(S(cls.key), {"label": "last"}).status == 200
        cls.source.checkpoint()
        cls.epoch, cls.head = api.get("/v1/sessions").json["asOf"].split("-")
        cls.token = cls.source.admin_token
        assert cls.source.stop() == 0

    def copy(self, config=None) -> Daemon:
        daemon = self.spawn({**CONFIG, **(config or {})}, start=False)
        shutil.copytree(self.source.state, daemon.state)
        return daemon

    def segments(self, daemon):
        return sorted((daemon.state / "journal").glob("*.jsonl"))

    def api_of(self, daemon):
        return daemon.client(token=self.token)

    def starts(self, daemon, *arguments):
        daemon.arguments = list(arguments)
        try:
            daemon.start()
            return ""
        except AssertionError as error:
            daemon.process = None
            return str(error)

    def findings(self, daemon, *arguments):
        done = daemon.cli("doctor", "--json", *arguments)
        return [f for f in json.loads(done.stdout)["findings"]
                if f["level"] != "ok" and f["check"] not in OF_THE_PLACE]

    def poll_all(self, api, after):
        """Every event and gap from a place on."""
        events, gaps = [], []
        while True:
            page = self.ok(api.get(f"/v1/events?poll=1&waitMs=1000&limit=500&after={after}"), 200)
            events += page["data"]
            gaps += [page["gap"]] if "gap" in page else []
            if page["next"] == after:
                return events, gaps
            after = page["next"]

    def serves(self, daemon):
        api = self.api_of(daemon)
        texts = self.texts(self.key, api=api)
        self.assertEqual([int(t.split()[0]) for t in texts if t.endswith("xxx")], list(range(MESSAGES)))
        self.say(self.key, "goes on", api=api)
        self.ok(api.post("/v1/admin/checkpoint"), 200)
        return api


class BeforeCheckpoint(JournalCase):
    """Damage that recovery does not need: it is served around, told, and put aside by a repair."""

    runs = {"asan", "tsan"}

    def test_a_reader_is_told_of_damage_and_goes_on_behind_it(self):
        daemon = self.copy()
        flip(self.segments(daemon)[1])
        daemon.start()
        api = self.api_of(daemon)
        events, gaps = self.poll_all(api, self.epoch + "-0")
        self.assertEqual([g["reason"] for g in gaps], ["damage"])
        first, last = (int(gaps[0][end].split("-")[1]) for end in ("from", "to"))
        self.assertEqual(last, first + 1, "one event was in the damaged line")
        self.assertEqual([e["seq"] for e in events if e["seq"] <= int(self.head)],
                         [seq for seq in range(1, int(self.head) + 1) if seq != last])
        with api.stream(last_event_id=f"{self.epoch}-{first - 1}") as stream:
            gap = stream.wait_type("stream.gap")
            self.assertEqual((gap.data["reason"], gap.id), ("damage", f"{self.epoch}-{last}"))
            stream.wait_for(lambda e: e.id == f"{self.epoch}-{last + 1}")
        self.serves(daemon)

    def test_damage_is_told_by_readyz_before_somebody_meets_it(self):
        daemon = self.copy()
        flip(self.segments(daemon)[1])
        daemon.start()
        api = self.api_of(daemon)
        name = self.segments(daemon)[1].name
        eventually(lambda: any(name in d for d in api.get("/readyz").json.get("damage", [])), what="the damage in /readyz")
        eventually(lambda: any("journal_damaged" in line and name in line for line in daemon.stderr), what="its log line")
        self.assertNotIn(name, daemon.anonymous().get("/readyz").raw.decode(), "names of files are for who may see all")

    def test_a_repair_believes_no_index(self):
        for repair in ("serve", "doctor"):
            with self.subTest(repair):
                daemon = self.copy()
                flip(self.segments(daemon)[1])
                if repair == "doctor":
                    daemon.cli("doctor", "--repair")
                    daemon.start()
                else:
                    self.assertEqual(self.starts(daemon, "--repair"), "")
                self.assertTrue(list((daemon.state / "journal").glob("*.damaged.*")))
                api = self.serves(daemon)
                events, gaps = self.poll_all(api, self.epoch + "-0")
                self.assertEqual([g["reason"] for g in gaps], ["epoch"])
                self.assertEqual(daemon.stop(), 0)
                self.assertEqual([f for f in self.findings(daemon) if f["check"] != "quarantine"], [])

    def test_a_segment_without_an_index_is_served_around_too(self):
        for damage in (flip, halve, empty, remove, folder):
            with self.subTest(damage.__name__):
                daemon = self.copy()
                segment = self.segments(daemon)[1]
                segment.with_suffix(".idx").unlink()
                damage(segment)
                daemon.start()
                events, gaps = self.poll_all(self.serves(daemon), self.epoch + "-0")
                self.assertEqual([g["reason"] for g in gaps], ["damage"])
                seqs = [e["seq"] for e in events]
                self.assertEqual(seqs[0], 1)
                self.assertIn(int(self.head), seqs)
                self.assertTrue(self.api_of(daemon).get("/readyz").json["damage"])

    def test_a_rebuild_reads_only_what_it_needs(self):
        daemon = self.copy({"store": {**CONFIG.get("store", {}), "damageAfterMs": 0}})
        flip(self.segments(daemon)[0])
        empty(daemon.agent_dir() / "sessions.json")
        daemon.start()
        self.serves(daemon)


class BeyondCheckpoint(JournalCase):
    def behind(self):
        """A state directory whose CHECKPOINT knows only the first segment."""
        daemon = self.copy()
        second = int(self.segments(daemon)[1].stem)
        (daemon.state / "journal" / "CHECKPOINT").write_text(
            json.dumps({"epoch": self.epoch, "seq": second - 1, "agents": {}, "previous": {}}))
        return daemon

    def test_what_recovery_needs_is_not_passed_over(self):
        for damage in (flip, halve, remove, folder):
            with self.subTest(damage.__name__):
                daemon = self.behind()
                damage(self.segments(daemon)[2])
                self.assertIn("--repair", self.starts(daemon))
                self.assertEqual(self.starts(daemon, "--repair"), "")
                self.serves(daemon)
                self.assertEqual(daemon.stop(), 0)
                self.assertEqual(self.starts(daemon), "", "without --repair from then on")

    def test_a_lost_end_is_named_and_repaired_also_without_checkpoint(self):
        for with_checkpoint in (True, False):
            with self.subTest(with_checkpoint):
                daemon = self.copy()
                remove(self.segments(daemon)[-1])
                if not with_checkpoint:
                    remove(daemon.state / "journal" / "CHECKPOINT")
                self.assertIn("--repair", self.starts(daemon))
                self.assertEqual(self.starts(daemon, "--repair"), "")
                api = self.api_of(daemon)
                entry = self.ok(api.patch(S(self.key), {"label": "new"}), 200)
                self.assertGreater(entry["rev"], int(self.head) - 1, "no rev is given twice")


class UnderTheDaemon(JournalCase):
    """Segments that go while the daemon runs."""

    runs = {"asan", "tsan"}

    def taken(self):
        daemon = self.copy().start()
        remove(self.segments(daemon)[1])
        return daemon, self.api_of(daemon)

    def test_a_stream_is_told_a_gap_where_a_segment_has_gone(self):
        daemon, api = self.taken()
        with api.stream(last_event_id=self.epoch + "-0") as stream:
            stream.wait_type("stream.gap")
            stream.wait_for(lambda e: e.id == f"{self.epoch}-{self.head}")

    def test_a_poll_is_never_404_where_a_segment_has_gone(self):
        daemon, api = self.taken()
        events, gaps = self.poll_all(api, self.epoch + "-0")
        self.assertEqual(len(gaps), 1)
        self.assertIn(int(self.head), [e["seq"] for e in events])


class Obstacles(JournalCase):
    """Something else in the place of a file or folder of the journal: moved aside, told, served."""

    FILES = ("CHECKPOINT", "EPOCH", "cursor.key", "tickets", "ends/main.jsonl", "previous/main.json",
             "previous/main.note", "previous/main.current.json", "{idx}", "{keys}")
    FOLDERS = ("ends", "keys", "previous")

    def test_whatever_stands_in_a_files_place_keeps_nobody_from_being_served(self):
        for name in self.FILES + self.FOLDERS:
            with self.subTest(name):
                daemon = self.copy()
                journal = daemon.state / "journal"
                keys = sorted((journal / "keys").glob("*.jsonl"))[0].relative_to(journal)
                path = journal / name.format(idx=self.segments(daemon)[1].with_suffix(".idx").name, keys=keys)
                folder(path) if name in self.FILES else file(path)
                self.assertIn(str(path), [f["path"] for f in self.findings(daemon)])
                daemon.start()
                api = self.serves(daemon)
                self.assertTrue([r for r in api.get("/readyz").json["repairs"] if path.name in r])
                self.assertTrue(list(path.parent.glob(path.name + ".damaged.*")))
                self.assertEqual(daemon.stop(), 0)
                self.assertEqual([f for f in self.findings(daemon) if f["check"] != "quarantine"], [])

    def test_a_damaged_record_of_known_lines_tells_nothing_twice(self):
        for damage in (flip, halve, empty, remove):
            with self.subTest(damage.__name__):
                daemon = self.copy()
                record = daemon.state / "journal" / "ends" / "main.jsonl"
                damage(record)
                daemon.start()
                api = self.api_of(daemon)
                self.ok(api.post("/v1/admin/checkpoint"), 200)
                self.serves(daemon)
                self.assertEqual(api.get(S(self.key)).json["messageCount"], MESSAGES + 1)


class Advice(JournalCase):
    """Class h: for every fault of the journal that the doctor knows, its advice is followed to the letter."""

    DAMAGES = {
        "sealed segment, flipped": lambda j, s: flip(s[1]),
        "sealed segment, cut": lambda j, s: halve(s[1]),
        "sealed segment, empty": lambda j, s: empty(s[1]),
        "sealed segment, missing": lambda j, s: remove(s[1]),
        "sealed segment, a folder": lambda j, s: folder(s[1]),
        "sealed segment, flipped, no index": lambda j, s: (flip(s[1]), remove(s[1].with_suffix(".idx"))),
        "last segment, flipped": lambda j, s: flip(s[-1]),
        "last segment, cut": lambda j, s: halve(s[-1]),
        "last segment, missing": lambda j, s: remove(s[-1]),
        "last segment, a folder": lambda j, s: folder(s[-1]),
        "all segments missing": lambda j, s: [remove(p) for p in s],
        "CHECKPOINT flipped": lambda j, s: flip(j / "CHECKPOINT"),
        "CHECKPOINT missing": lambda j, s: remove(j / "CHECKPOINT"),
        "CHECKPOINT a folder": lambda j, s: folder(j / "CHECKPOINT"),
        "EPOCH missing": lambda j, s: remove(j / "EPOCH"),
        "EPOCH a folder": lambda j, s: folder(j / "EPOCH"),
        "ends flipped": lambda j, s: flip(j / "ends" / "main.jsonl"),
        "cursor.key cut": lambda j, s: halve(j / "cursor.key"),
        "answers cut": lambda j, s: halve(sorted((j / "keys").glob("*.jsonl"))[0]),
        "keys a file": lambda j, s: file(j / "keys"),
        "an index of another segment": lambda j, s: shutil.copy(s[0].with_suffix(".idx"), s[1].with_suffix(".idx")),
        "a copy of a generation, damaged": lambda j, s: empty(j / "previous" / "main.json"),
        "a file of somebody else": lambda j, s: (j / "readme").write_text("x"),
    }

    def follow(self, daemon, advice, path, other):
        """Does what the advice says; `other`: the second of two ways that it names."""
        commands = re.findall(r"sessiond (serve --repair|doctor --repair|serve)", advice)
        if commands:
            command = commands[-1 if other else 0]
            if command == "doctor --repair":
                self.assertLess(daemon.cli("doctor", "--repair").returncode, 3)
                return
            self.assertEqual(self.starts(daemon, *command.split()[1:]), "")
            self.assertEqual(daemon.stop(), 0)
        elif "the next start" in advice or "made again" in advice or "nothing to do" in advice:
            self.assertEqual(self.starts(daemon), "")
            self.serves(daemon)
            self.assertEqual(daemon.stop(), 0)
        elif "run: " in advice:
            subprocess.run(["sh", "-c", advice.partition("run: ")[2]], check=True)
        elif "move it out" in advice:
            shutil.move(path, daemon.home)
        elif "chmod -R" in advice:
            subprocess.run(["chmod", "-R", "u=rwX,go=", str(daemon.state / "journal")], check=True)
        else:
            self.fail(f"no advice that can be followed: {advice}")

    def test_the_doctors_advice_mends_what_the_doctor_names(self):
        for number, (name, damage) in enumerate(self.DAMAGES.items()):
            with self.subTest(name):
                daemon = self.copy()
                damage(daemon.state / "journal", self.segments(daemon))
                for _ in range(4):  # what was put aside is found the second time
                    found = self.findings(daemon)
                    if not found:
                        break
                    worst = max(found, key=lambda f: f["level"] == "error")
                    self.follow(daemon, worst["advice"], worst["path"], number % 2 == 1)
                    self.assertNotIn((worst["path"], worst["detail"]),
                                     [(f["path"], f["detail"]) for f in self.findings(daemon)])
                self.assertEqual(self.findings(daemon), [])
                self.assertEqual(self.starts(daemon), "")
                self.serves(daemon)


class Left(JournalCase):
    """What kills leave behind."""

    runs = {"asan", "tsan"}

    def test_a_torn_batch_is_the_normal_mark_of_a_kill(self):
        daemon = self.copy()
        last = self.segments(daemon)[-1]
        with last.open("ab") as segment:
            segment.write(b'0123abcd {"seq":999,"ev')
        self.assertEqual(self.findings(daemon), [])
        daemon.start()
        torn = list((daemon.state / "journal").glob("*.torn.*"))
        self.assertEqual(len(torn), 1)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(self.findings(daemon), [])
        backup = daemon.home / "backup"
        done = daemon.cli("backup", backup)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(backup.rglob("*.torn.*")), [])
        os.utime(torn[0], (1, 1))
        daemon.start()
        self.assertFalse(torn[0].exists(), "it goes with retention")

    def test_what_kills_left_is_swept_by_the_next_start(self):
        daemon = self.copy()
        (daemon.state / "journal" / "previous" / "main.note").unlink()  # a power cut took it
        sidecar = daemon.state / "journal" / "index" / "main" / "a.jsonl.idx.77.0a.tmp"
        for made in (sidecar.parent.parent, sidecar.parent):
            made.mkdir(mode=0o700, exist_ok=True)
        sidecar.write_text("half an ind")
        temp = daemon.agent_dir() / f"sessions.json.{dead_pid()}.6f9619ff-8b86-d011-b42d-00cf4fc964ff.tmp"
        temp.write_text('{"agent:main:somebody:else": {"sessionId": "z"}')
        daemon.start()
        self.serves(daemon)
        self.assertFalse(sidecar.exists())
        self.assertFalse(temp.exists())
        kept = list((daemon.state / "journal" / "kept").rglob(temp.name))
        self.assertEqual(len(kept), 1, "it may be the only copy of what another program wrote")
        self.assertTrue([r for r in self.api_of(daemon).get("/readyz").json["repairs"] if temp.name in r])
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(self.findings(daemon), [])

    def test_missing_indexes_are_made_while_others_are_served(self):
        daemon = self.copy()
        indexes = sorted((daemon.state / "journal").glob("*.idx"))
        self.assertGreater(len(indexes), 2)
        for index in indexes:
            index.unlink()
        daemon.start()
        api = self.serves(daemon)
        eventually(lambda: api.get("/readyz").json.get("journalCheck", 0) is None, what="the end of the check")
        for index in indexes:
            self.assertTrue(index.exists(), index)
        told = [line for line in daemon.stderr if "journal_checked" in line]
        self.assertTrue(told and f"indexes_made={len(indexes)}" in told[0], daemon.stderr)


class Watched:
    """The names that come and go in one folder, in order."""

    MOVED_FROM, MOVED_TO, CREATE = 0x40, 0x80, 0x100

    def __init__(self, path):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK)
        assert self._libc.inotify_add_watch(self._fd, os.fsencode(path), self.MOVED_FROM | self.MOVED_TO) >= 0

    def moved(self):
        """(from, to) of every rename."""
        raw, events = b"", []
        while True:
            try:
                raw += os.read(self._fd, 65536)
            except BlockingIOError:
                break
        pending = {}
        at = 0
        while at < len(raw):
            _, mask, cookie, size = struct.unpack_from("iIII", raw, at)
            name = raw[at + 16:at + 16 + size].rstrip(b"\0").decode()
            at += 16 + size
            if mask & self.MOVED_FROM:
                pending[cookie] = name
            else:
                events.append((pending.pop(cookie, None), name))
        return events

    def close(self):
        os.close(self._fd)


class Restores(JournalCase):
    def prepared(self):
        """A stopped daemon, a backup of it, and a token that was revoked since."""
        daemon = self.copy().start()
        api = self.api_of(daemon)
        token = self.ok(api.post("/v1/admin/tokens", {"role": "viewer", "note": "revoked later"}), 201)
        backup = daemon.home / "backup"
        self.assertEqual(daemon.cli("backup", backup).returncode, 0)
        self.ok(api.delete("/v1/admin/tokens/" + token["id"]))
        made = self.ok(api.post("/v1/admin/tokens", {"role": "viewer", "note": "made later"}), 201)
        self.assertEqual(daemon.stop(), 0)
        return daemon, backup, token, made

    def test_a_restore_says_which_revoked_tokens_it_brings_back(self):
        daemon, backup, token, made = self.prepared()
        done = daemon.cli("restore", backup, "--force")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertRegex(done.stdout, r"valid again: .*" + token["id"])
        self.assertRegex(done.stdout, r"no longer valid: .*" + made["id"])
        daemon.start()
        self.ok(daemon.client(token=token["token"]).get("/v1/sessions"), 200)

    def test_keep_tokens_keeps_the_present_ones(self):
        daemon, backup, token, made = self.prepared()
        done = daemon.cli("restore", backup, "--force", "--keep-tokens")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertNotIn("valid again", done.stdout)
        daemon.start()
        self.problem(daemon.client(token=token["token"]).get("/v1/sessions"), 401)
        self.ok(daemon.client(token=made["token"]).get("/v1/sessions"), 200)

    def test_the_old_state_never_lies_under_a_name_that_says_nothing(self):
        daemon, backup, _, _ = self.prepared()
        watched = Watched(daemon.state.parent)
        try:
            self.assertIn(daemon.cli("restore", backup, "--force").returncode, (0, 1))
            moved = watched.moved()
        finally:
            watched.close()
        away = [to for source, to in moved if source == daemon.state.name]
        self.assertTrue(away and all(".before-restore." in to for to in away), moved)
        aside = [p for p in daemon.home.iterdir() if ".before-restore." in p.name]
        self.assertEqual(len(aside), 1)
        self.assertFalse((aside[0] / "MANIFEST.json").exists() or (daemon.state / "MANIFEST.json").exists())
        self.assertEqual(self.findings(daemon), [])

    def test_what_a_killed_restore_left_is_named_with_what_to_do(self):
        daemon, backup, _, _ = self.prepared()
        name = daemon.state.name
        only_copy = daemon.home / f"{name}.restore.{dead_pid()}.6f9619ff-8b86-d011-b42d-00cf4fc964ff.tmp"
        shutil.copytree(daemon.state, only_copy)  # as 0.1.0 left it between exchange and rename
        half = daemon.home / f"{name}.restore.{dead_pid()}.7f9619ff-8b86-d011-b42d-00cf4fc964ff.tmp"
        (half / "agents").mkdir(parents=True)
        not_placed = daemon.home / f"{name}.before-restore.2026-01-01T00-00-00.000Z"
        shutil.copytree(backup, not_placed)
        told = {f["path"]: (f["level"], f["advice"]) for f in self.findings(daemon)}
        self.assertEqual({p: told[str(p)][0] for p in (only_copy, half, not_placed)},
                         {only_copy: "error", half: "warning", not_placed: "warning"})
        done = daemon.cli("restore", backup)  # refused, for the directory is not empty
        self.assertEqual(done.returncode, 2)
        for path in (only_copy, half, not_placed):
            self.assertIn(str(path), done.stderr)
            command = re.search(r"(rm -r|mv) \S.*", told[str(path)][1]).group(0)
            subprocess.run(command, shell=True, check=True)
        self.assertEqual([f for f in self.findings(daemon) if f["check"] == "restore"], [])
        kept = [p for p in daemon.home.iterdir() if ".before-restore." in p.name]
        self.assertEqual(len(kept), 1)
        self.assertTrue((kept[0] / "tokens.json").exists())

"""The ways to the named points that points.py kills at: what happens before, with which faults the daemon runs, what makes it get there."""

import json
import os
import resource
import signal
import threading
import time
from pathlib import Path

from life import GONE, Life
from harness.case import text_of
from harness.sessiond import S, SLOW, Daemon, eventually
from world import Reader, compare_store


class Case:
    """A way to a point: what happens before (`prepare`), with which faults the daemon then runs, and what makes it get there (`drive`)."""
    config = {"journal": {"segmentBytes": 1 << 16, "maxBytes": 1 << 18}, "idempotency": {"maxBytes": 1 << 20}}
    arguments = ()
    new_epoch = False     # the history is another one afterwards
    points = ()           # names, or "name:nth"
    second = ("recovery.replayed", "checkpoint.locked", "checkpoint.exchanged", "transcript.written", "marks.written",
              "archive.renamed", "archive.entry_kept", "restore.renamed", "settle.kept", "settle.removed")  # where it dies again, in turn

    def __init__(self, point, turn):
        self.point, self.then = point, self.second[turn % len(self.second)]
        self.daemon = Daemon(self.config)
        self.me = Life(self.daemon)
        self.reader = None

    # -- what a case may say for itself

    def prepare(self):
        for _ in range(12):
            assert self.me.step()
        for number in range(4):  # so that the last segment has a middle
            assert self.me.say(next(iter(self.me.sessions)), f"more {number}")
        self.rest()
        self.stop()

    def rest(self):
        """An agent that is written to once: its generations hold the journal back."""
        reply = self.daemon.client().post("/v1/agents/rest/sessions", {"key": "agent:rest:x"})
        assert reply.status == 201, reply

    def drive(self):
        if self.me.unknown:  # from a death in `prepare`
            eventually(self.settled_or_dead, 20, what="an answer to the retry")
        for _ in range(900):
            if self.me.unknown or not self.me.step():
                return

    def check(self):
        return []

    # -- the run

    def start(self, faults="", arguments=()):
        """Starts; False when it died of a fault on the way."""
        self.daemon.env["SESSIOND_FAULT"] = faults
        self.daemon.arguments = [*self.arguments, *arguments]
        try:
            self.daemon.start(60)
        except AssertionError as fault:
            if not faults or "(exit -9)" not in str(fault):
                raise
            return False
        if self.reader is None:
            self.reader = Reader(self.daemon.client())
        try:
            self.reader.connect(0 if faults else 30)
        except GONE:
            if not faults:
                raise
        return True

    def end(self, how):
        """Ends the daemon by `how` and keeps what the subscriber has seen."""
        how()
        if self.reader and self.reader.stream:
            self.reader.stream.wait_end(30)
            self.reader.collect()
            self.reader.stream = None

    def stop(self):
        self.end(lambda: self.daemon.stop(30))

    def dead(self, timeout):
        """Has it died of the fault, by itself?"""
        if self.daemon.process is None:
            return True
        try:
            code = self.daemon.process.wait(timeout * SLOW)
        except Exception:  # noqa: BLE001: subprocess.TimeoutExpired
            return False
        assert code == -signal.SIGKILL, f"exit {code}"
        self.end(self.daemon.kill9)
        return True

    def run_into(self, faults, drive, patience=10):
        if self.start(faults):
            drive()
            return self.dead(patience)
        return True

    def run(self):
        self.start()
        self.prepare()
        if not self.run_into(self.point + "=kill", self.drive):
            self.end(self.daemon.kill9)
            return ["the point was not reached"]
        # Again while it recovers, where it comes that far: whatever it does by itself, and one more request.
        if not self.run_into(self.then + "=kill", self.settle, 0.1):
            self.end(self.daemon.kill9)
        self.start()
        return self.verify()

    def settle(self):
        if not self.me.unknown or eventually(self.settled_or_dead, 20, what="an answer to the retry"):
            try:
                self.daemon.checkpoint()
            except GONE:
                pass

    def settled_or_dead(self):
        return self.me.send() or self.daemon.process.poll() is not None

    def verify(self):
        daemon, me = self.daemon, self.me
        me.client = daemon.client()
        faults = me.faults(settled=False)
        if me.unknown and not eventually(me.send, 20, what="an answer to the retry"):
            faults.append("the retry was not answered")
        faults += me.again()
        store, differ = compare_store(daemon, me.client)
        faults += differ + me.faults(settled=True) + self.check()
        if set(store) != set(me.sessions):
            faults.append(f"sessions.json has {sorted(store)}, acknowledged {sorted(me.sessions)}")
        head = int(me.client.get("/v1/sessions?limit=1").json["asOf"].split("-")[1])
        self.reader.catch_up(head)
        faults += self.leftovers()
        before = self.files()
        self.end(daemon.kill9)
        faults += [] if self.new_epoch else self.reader.holes
        faults += me.archive_faults(self.reader.renames)
        self.start()
        me.client = daemon.client()
        faults += me.faults(settled=True) + me.again()
        now = int(me.client.get("/v1/sessions?limit=1").json["asOf"].split("-")[1])
        if now != head:
            faults.append(f"a start without work to do committed {now - head} events")
        self.stop()
        changed = sorted(name for name in set(before) | set(self.files()) if before.get(name) != self.files().get(name))
        if changed:
            faults.append(f"one more start changed {changed}")
        return faults + daemon.sanitizer_reports()

    def files(self):
        """What others read: every file of the agents."""
        return {str(f.relative_to(self.daemon.state)): f.read_bytes() for f in (self.daemon.state / "agents").rglob("*")
                if f.is_file()}

    def leftovers(self):
        names = [str(f.relative_to(self.daemon.state)) for f in self.daemon.state.rglob("*")]
        return [f"{n} is left" for n in names if n.endswith((".tmp", ".old")) or "json.lock." in n]


class Traffic(Case):
    points = ("last.written", "journal.written", "journal.written:9", "journal.synced", "journal.synced:8", "journal.segment_created",
              "journal.segment_begun", "journal.segment_sealed", "journal.segment_removed", "replace.temp_synced",
              "replace.temp_synced:4", "replace.renamed", "replace.renamed:3", "lock.payload_written", "lock.linked",
              "checkpoint.noted", "checkpoint.temp_written", "checkpoint.temp_synced", "checkpoint.temp_noted:2",
              "checkpoint.locked", "checkpoint.unchanged", "checkpoint.exchanged", "checkpoint.exchanged:5",
              "checkpoint.old_kept", "checkpoint.linked", "checkpoint.released", "checkpoint.dirs_synced",
              "transcript.created", "transcript.created:2", "transcript.written", "transcript.written:6",
              "transcript.synced", "transcript.synced:3", "archive.closed", "archive.closed:2", "archive.renamed",
              "archive.renamed:2", "archive.renamed:3", "archive.synced", "archive.synced:2", "archive.recorded",
              "archive.recorded:2", "archive.purged",
              "archive.purged:2", "archive.entry_kept", "archive.entry_kept:2", "restore.renamed", "restore.renamed:2", "marks.files_synced", "marks.answers_synced", "marks.written:2",
              "marks.previous_renewed", "answers.written", "answers.synced", "answers.sealed", "answers.removed")


class Failing(Case):
    """The disk takes no more of the live segment: a file size limit."""
    points = ("journal.abandoned", "journal.overridden")

    def drive(self):
        limit = 30_000  # everything else fits below it
        while self.segment().stat().st_size < limit:
            assert self.me.step()
        self.limit(limit)
        while self.me.step():  # below the limit there may be zeros, which take lines
            pass

    def segment(self):
        return max((self.daemon.state / "journal").glob("*.jsonl"))

    def limit(self, size):
        resource.prlimit(self.daemon.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class FailingTwice(Failing):
    """The first batch of a new segment fails, and so does the segment that is to override it, until there is room."""
    points = ("journal.overridden_removed",)

    def drive(self):
        key = next(iter(self.me.sessions))
        assert self.me.say(key, "before")
        self.limit(0)
        assert not self.me.say(key, "rolls " + "x" * 70_000)
        self.limit(resource.RLIM_INFINITY)


class Torn(Case):
    points = ("torn.kept", "torn.cut")

    def prepare(self):
        super().prepare()
        segment = max((self.daemon.state / "journal").glob("*.jsonl"))
        last = segment.read_bytes().splitlines()[-1]
        with segment.open("ab") as file:
            file.write(last[:len(last) // 2])


class Repair(Case):
    """Damage in the middle of a segment, of which the files hold everything."""
    points = ("repair.epoch", "repair.kept", "repair.split", "repair.cut", "replace.renamed")
    second = ("repair.kept", "repair.split", "repair.cut", "recovery.replayed")
    arguments = ("--repair",)
    new_epoch = True

    def prepare(self):
        super().prepare()
        segment = max((self.daemon.state / "journal").glob("*.jsonl"))
        lines = segment.read_bytes().splitlines(keepends=True)
        middle = len(lines) // 2
        lines[middle] = lines[middle][:20] + b"#" + lines[middle][21:]
        segment.write_bytes(b"".join(lines))
        self.reader.last_id = None  # of another epoch by now


class Adopt(Case):
    """The first look at a store that other programs have written."""
    points = ("adopt.copied", "adopt.linked", "adopt.noted", "replace.temp_synced", "replace.renamed")
    STORE = {f"agent:other:main:{i}": {"sessionId": f"1111-{i}", "updatedAt": 1700000000000 + i, "future": ["1e400", i]}
             for i in range(3)}

    def prepare(self):
        super().prepare()
        self.text = json.dumps(self.STORE, indent=2).replace('"1e400"', "1e400")
        self.daemon.agent_dir("other").mkdir(parents=True)
        (self.daemon.agent_dir("other") / "sessions.json").write_text(self.text)

    def drive(self):
        try:
            self.daemon.client().get("/v1/agents/other/sessions")
        except GONE:
            pass

    settle = drive

    def check(self):
        data = self.me.client.get("/v1/agents/other/sessions?archived=any").json["data"]
        faults = [] if {s["key"] for s in data} == set(self.STORE) else [f"adopted {data}"]
        if (self.daemon.agent_dir("other") / "sessions.json").read_text() != self.text:
            faults.append("a store that nobody wrote to was rewritten")
        return faults


class AfterCheckpoint(Case):
    """The next start finds what a killed checkpoint left."""
    points = ("settle.removed", "settle.kept", "lock.moved_aside")
    first = {"settle.removed": "checkpoint.temp_noted:3", "settle.kept": "checkpoint.exchanged:3",
             "lock.moved_aside": "checkpoint.locked:3"}

    def prepare(self):
        super().prepare()
        assert self.run_into(self.first[self.point] + "=kill", self.drive)


class Damaged(Case):
    """sessions.json is emptied: what comes back is an older generation with the journal over it, or the damage still stands."""
    config = {**Case.config, "store": {"damageAfterMs": 0}}
    points = ("rebuild.replayed", "checkpoint.noted", "checkpoint.temp_noted", "checkpoint.unchanged", "checkpoint.exchanged",
              "checkpoint.old_kept", "checkpoint.linked", "checkpoint.released", "checkpoint.dirs_synced")
    second = ("rebuild.replayed", "checkpoint.exchanged", "checkpoint.old_kept", "checkpoint.dirs_synced", "recovery.replayed")

    def prepare(self):
        for _ in range(3):
            for _ in range(9):
                assert self.me.step()
            self.daemon.checkpoint()
        self.end(self.daemon.kill9)
        os.truncate(self.daemon.agent_dir() / "sessions.json", 0)

    def drive(self):
        try:
            self.daemon.client().get("/v1/agents/main/sessions")
        except GONE:
            pass

    def settle(self):
        self.drive()
        super().settle()

    def check(self):
        names = [f.name for f in self.daemon.agent_dir().iterdir() if ".corrupt." in f.name]
        return [] if len(names) == 1 else [f"put aside: {names}"]


def relabel(store_file, key):
    """As another program does: reads, changes, renames over."""
    store = json.loads(store_file.read_bytes())
    store[key]["x-foreign"] = "theirs"
    store[key]["updatedAt"] = int(time.time() * 1000) + 1000
    temp = store_file.with_name("sessions.json.foreign")
    temp.write_text(json.dumps(store, indent=2))
    os.replace(temp, store_file)


class ForeignDown(Case):
    """Another program changes the store of a daemon that was killed."""
    points = ("recovery.replayed", "recovery.merged", "checkpoint.locked", "checkpoint.exchanged", "checkpoint.dirs_synced")
    second = ("recovery.merged", "checkpoint.exchanged", "recovery.replayed", "marks.written")

    def prepare(self):
        super().prepare()
        self.key = next(iter(self.me.sessions))
        assert self.run_into("marks.files_synced=kill", self.drive)
        relabel(self.daemon.agent_dir() / "sessions.json", self.key)

    def check(self):
        if self.key in self.me.deleted:
            return []
        return [] if self.me.client.get(S(self.key)).json.get("x-foreign") == "theirs" else ["the other program's change is lost"]


class ForeignUnderLock(Case):
    """Another program, which ignores the lock, replaces the store between our look and our exchange."""
    points = ("checkpoint.exchanged", "checkpoint.old_kept", "checkpoint.released", "checkpoint.dirs_synced")
    second = ("settle.kept", "recovery.replayed", "checkpoint.old_kept", "recovery.merged")

    def prepare(self):
        super().prepare()
        self.key = next(iter(self.me.sessions))

    def start(self, faults="", arguments=()):
        stop = "checkpoint.unchanged=stop," if faults == self.point + "=kill" else ""
        return super().start(stop + faults, arguments)

    def drive(self):
        step = threading.Thread(target=self.me.say, args=(self.key, "while it stops"))
        step.start()
        stat = Path(f"/proc/{self.daemon.process.pid}/stat")
        eventually(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", 20, what="the stop")
        relabel(self.daemon.agent_dir() / "sessions.json", self.key)
        self.daemon.process.send_signal(signal.SIGCONT)
        step.join()

    check = ForeignDown.check


class Lent(Case):
    """A script edits the store under a lock that the daemon lends."""
    points = ("lend.locked", "lend.released", "checkpoint.locked", "checkpoint.exchanged", "recovery.merged")
    second = ("lock.moved_aside", "recovery.merged", "checkpoint.exchanged", "recovery.replayed", "marks.written")

    def prepare(self):
        super().prepare()
        self.key, self.edited = next(iter(self.me.sessions)), False

    def drive(self):
        locks, client = "/v1/agents/main/locks", self.daemon.client()
        try:
            lent = client.post(locks, {"ttlMs": 20000}).json["id"]
            relabel(self.daemon.agent_dir() / "sessions.json", self.key)
            self.edited = True
            if not self.me.say(self.key, "under the lock"):
                return None
            if self.point == "recovery.merged":
                return self.end(self.daemon.kill9)
            client.delete(f"{locks}/{lent}")
            self.daemon.checkpoint()
        except GONE:
            pass
        return None

    def run_into(self, faults, drive, patience=10):
        if self.point == "recovery.merged" and faults.startswith(self.point) and self.start(""):
            drive()
            return not self.start(faults)
        return super().run_into(faults, drive, patience)

    def check(self):
        lock = self.daemon.agent_dir() / "sessions.json.lock"
        faults = ["the lock is left"] if lock.exists() else []
        label = self.me.client.get(S(self.key)).json.get("x-foreign")
        return faults + ([] if label == ("theirs" if self.edited else None) else [f"the script's change is {label}"])


class Migrate(Case):
    """A transcript of version 1 is written as version 3 while the daemon runs."""
    points = ("migrate.kept", "migrate.renamed", "transcript.written:2")
    second = ("recovery.replayed", "marks.written", "checkpoint.exchanged")
    KEY = "agent:old:main"
    LINES = ['{"type":"session","version":1,"id":"0old","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/"}'] + [
        json.dumps({"type": "message", "message": {"role": "user", "content": f"old {n}"}}) for n in range(50)]

    def prepare(self):
        super().prepare()
        folder = self.daemon.agent_dir("old")
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_text(json.dumps({self.KEY: {"sessionId": "0old", "updatedAt": 1700000000000}}))
        self.file, self.said = folder / "0old.jsonl", []
        self.file.write_text("".join(line + "\n" for line in self.LINES))

    def drive(self):
        client = self.daemon.client()
        path = S(self.KEY, "old", "messages")
        try:
            for text in ("before", "after"):
                if client.post(path, {"role": "user", "text": text}).status == 201:
                    self.said.append(text)
                if text == "before":
                    assert client.post(S(self.KEY, "old", "migrate")).status == 200
        except GONE:
            pass

    def check(self):
        client = self.me.client
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        faults = [] if lines[0]["version"] in (1, 3) else [f"the header is {lines[0]}"]
        ids = [line for line in lines[1:51] if "id" in line]
        if len(ids) != (50 if lines[0]["version"] == 3 else 0):
            faults.append(f"half of it is migrated: {len(ids)} of 50 entries have ids")
        want = [f"old {n}" for n in range(50)] + self.said
        page = client.get(S(self.KEY, "old", "messages") + "?limit=200&order=asc").json["data"]
        if (texts := [text_of(message) for message in page])[:len(want)] != want:
            faults.append(f"the messages are {texts[45:]}")
        for changed in ((lines[0]["version"] == 1), False):
            if (got := client.post(S(self.KEY, "old", "migrate")).json)["changed"] != changed:
                faults.append(f"migrate again: {got}")
        kept = list((self.daemon.state / "journal" / "kept").rglob("0old.jsonl"))
        if not kept or any(file.stat().st_mode & 0o777 != 0o600 for file in kept):
            faults.append(f"kept: {kept}")
        if not any(file.read_text().startswith("\n".join(self.LINES)) for file in kept):
            faults.append("no old file is kept")
        return faults


CASES = (Traffic, Failing, FailingTwice, Torn, Repair, Adopt, AfterCheckpoint, Damaged, ForeignDown, ForeignUnderLock, Lent, Migrate)

#!/usr/bin/env python3
"""Kill -9 at every named point between two steps (store/fault_point.hpp), and again while it recovers.

    tests/crash/points.py --binary PATH [--without PATH] [-k PATTERN] [-j N]

The binary is built with SESSIOND_FAULT_POINTS; that of --without must not contain one of their names.
A case is a way to a point. A client posts, patches, resets and deletes; the daemon dies at the point, comes up, dies at another one while
it recovers, and comes up again. Then: what was acknowledged is there once, a request that was not answered is settled by its retry, an
answer comes again for its key, sessions.json agrees with the API, archives have the names that events tell, the event stream goes on
without a hole, nothing temporary is left, and one more start changes not a byte. A point that no case reaches is a failure.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import re
import resource
import signal
import sys
import threading
import time
import traceback
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "api"))
from case import text_of  # noqa: E402
from sessiond import REPO, S, SLOW, Client, Daemon, eventually  # noqa: E402
from world import Reader, compare_store, transcript  # noqa: E402

POINTS = re.findall(r'"([a-z_]+\.[a-z_]+)"', (REPO / "store/fault_point.hpp").read_text())
GONE = (OSError, http.client.HTTPException)


class Life:
    """One client, one request at a time: it knows what must be there, and which one request may or may not be."""

    def __init__(self, daemon):
        self.daemon, self.numbers = daemon, count(1)
        self.client = None
        self.sessions = {}   # key -> {"sid", "patch", topic or None -> texts}
        self.archived = {}   # file name without its archive's ending -> texts
        self.deleted, self.purged = set(), set()  # keys; session ids
        self.answers = []    # (request, raw answer) of POSTs
        self.unknown = None  # the request that has no answer
        self.plan = self.stories()

    def stories(self):
        for story in count():
            key = f"agent:main:points:{story}"
            yield "POST", "/v1/agents/main/sessions", {"key": key, "entry": {"x-note": "ä" * 4000}}, key, "create", None
            for what in ("append", "topic", "patch", "append", "reset", "append", "topic", "append"):
                n = next(self.numbers)
                text = f"text {n} " + "x" * (n * 997 % 6000)
                if what == "patch":
                    yield "PATCH", S(key), {"x-patch": n}, key, what, n
                elif what == "reset":
                    yield "POST", S(key, "main", "reset"), {}, key, what, None
                else:
                    query = "?topic=t" if what == "topic" else ""
                    yield "POST", S(key, "main", "messages") + query, {"role": "user", "text": text}, key, what, text
            if story % 3:
                what = "delete" if story % 3 == 1 else "purge"
                yield "DELETE", S(key) + "?missing=ok" + ("&purge=true" if what == "purge" else ""), None, key, what, None

    def step(self, body=None):
        """One request; False when it was not answered, as when the daemon has died."""
        method, path, planned, key, what, value = next(self.plan)
        if body:
            method, path, planned, key, what, value = body
        name = f"key-{next(self.numbers)}" if method == "POST" else None
        self.unknown = (method, path, planned, name, key, what, value)
        return self.send()

    def say(self, key, text):
        return self.step(("POST", S(key, "main", "messages"), {"role": "user", "text": text}, key, "append", text))

    def send(self):
        method, path, body, name, key, what, value = self.unknown
        try:
            self.client = self.client or Client(self.daemon, self.daemon.admin_token)
            reply = self.client.request(method, path, body, idempotency_key=name)
        except GONE:
            return False
        if reply.status == 503:
            return False  # outcome unknown, or draining: the retry settles it
        assert reply.status in (200, 201, 204), (self.unknown, reply)
        if name:
            self.answers = [*self.answers[-4:], (self.unknown, reply)]
        self.unknown = None
        self.take(key, what, value, reply)
        return True

    def take(self, key, what, value, reply):
        if what == "create":
            self.sessions[key] = {"sid": reply.json["sessionId"], "patch": None, "main": [], "t": []}
            self.deleted.discard(key)
            return
        session = self.sessions[key]
        if what == "append":
            session["main"].append(value)
        elif what == "topic":
            session["t"].append(value)
        elif what == "patch":
            session["patch"] = value
        else:
            if what == "purge":
                self.purged.add(session["sid"])
            else:
                for topic, name in (("main", ""), ("t", "-topic-t")):
                    if session[topic]:
                        self.archived[f"{session['sid']}{name}.jsonl"] = session[topic]
            if what == "reset":
                session.update(sid=reply.json["sessionId"], main=[], t=[])
            else:
                del self.sessions[key]
                self.deleted.add(key)

    def again(self):
        """The same keys get the same answers."""
        faults = []
        for (method, path, body, name, *_), first in self.answers:
            reply = self.client.request(method, path, body, idempotency_key=name)
            if (reply.status, reply.raw, reply.headers.get("Idempotency-Replayed")) != (first.status, first.raw, "true"):
                faults.append(f"{path} again with its key: {reply}, was {first}")
        return faults

    def faults(self, settled):
        """What is not as it was acknowledged. Before the retry, the session of the unanswered request may be either way."""
        faults = []
        for key, session in self.sessions.items():
            if not settled and self.unknown and self.unknown[4] == key:
                continue
            texts = transcript(self.client, key)
            if texts != session["main"]:
                faults.append(f"{key} has {brief(texts)}, acknowledged {brief(session['main'])}")
            got = self.client.get(S(key)).json
            if (got.get("sessionId"), got.get("x-patch")) != (session["sid"], session["patch"]):
                faults.append(f"{key} is {got}, acknowledged {session['sid']} {session['patch']}")
            for topic, name in (("main", ""), ("t", "-topic-t")):
                file = self.daemon.agent_dir() / f"{session['sid']}{name}.jsonl"
                if settled and texts_of(file) != session[topic]:
                    faults.append(f"{file.name} has {brief(texts_of(file))}, acknowledged {brief(session[topic])}")
        for key in self.deleted:
            if settled and self.client.get(S(key)).status != 404:
                faults.append(f"{key} was deleted and is there")
        return faults

    def archive_faults(self, renames):
        """Archives have the names that the events tell, and hold what their transcripts held."""
        faults, files = [], {f.name for f in self.daemon.agent_dir().iterdir()}
        told = {}
        for event in renames:
            for name in event["data"]["archivedAs"]:
                told[name] = event["data"].get("purged", False)
        there = {n for n in files if ".jsonl.reset." in n or ".jsonl.deleted." in n}
        if there != {n for n, purged in told.items() if not purged}:
            faults.append(f"archives {sorted(there)} are not those of the events {told}")
        for name in there:
            file = name[:name.index(".jsonl") + 6]
            if file in files:
                faults.append(f"{file} is there beside its archive {name}")
            if self.archived.get(file) != texts_of(self.daemon.agent_dir() / name):
                faults.append(f"{name} has {brief(texts_of(self.daemon.agent_dir() / name))}, acknowledged {brief(self.archived.get(file))}")
        if {n[:n.index(".jsonl") + 6] for n in there} != set(self.archived):
            faults.append(f"archives {sorted(there)}, acknowledged {sorted(self.archived)}")
        faults += [f"{n} was purged" for n in files if n[:36] in self.purged]
        return faults


def brief(texts):
    return texts if texts is None else [t[:12] for t in texts]


def texts_of(file):
    """Texts of a transcript file; every line must be whole."""
    if not file.exists():
        return []
    raw = file.read_bytes()
    assert not raw or raw.endswith(b"\n"), f"{file.name} ends in half a line"
    return [text_of(entry["message"]) for entry in map(json.loads, raw.splitlines()) if entry["type"] == "message"]


class Case:
    """A way to a point: what happens before (`prepare`), with which faults the daemon then runs, and what makes it get there (`drive`)."""
    config = {"journal": {"segmentBytes": 1 << 16, "maxBytes": 1 << 18}, "idempotency": {"maxBytes": 1 << 20}}
    arguments = ()
    new_epoch = False     # the history is another one afterwards
    points = ()           # names, or "name:nth"
    second = ("recovery.replayed", "checkpoint.locked", "checkpoint.exchanged", "transcript.written", "marks.written",
              "archive.renamed", "settle.kept", "settle.removed")  # where it dies again, in turn

    def __init__(self, point, turn):
        self.point, self.then = point, self.second[turn % len(self.second)]
        self.daemon = Daemon(self.config)
        self.me = Life(self.daemon)
        self.reader = None

    # -- what a case may say for itself

    def prepare(self):
        for _ in range(12):
            assert self.me.step()
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
    points = ("journal.written", "journal.written:9", "journal.synced", "journal.synced:8", "journal.segment_created",
              "journal.segment_begun", "journal.segment_sealed", "journal.segment_removed", "replace.temp_synced",
              "replace.temp_synced:4", "replace.renamed", "replace.renamed:3", "lock.payload_written", "lock.linked",
              "checkpoint.noted", "checkpoint.temp_written", "checkpoint.temp_synced", "checkpoint.temp_noted:2",
              "checkpoint.locked", "checkpoint.unchanged", "checkpoint.exchanged", "checkpoint.exchanged:5",
              "checkpoint.old_kept", "checkpoint.linked", "checkpoint.released", "checkpoint.dirs_synced",
              "transcript.created", "transcript.created:2", "transcript.written", "transcript.written:6",
              "transcript.synced", "transcript.synced:3", "archive.closed", "archive.closed:2", "archive.renamed",
              "archive.renamed:2", "archive.renamed:3", "archive.synced", "archive.synced:2", "archive.purged",
              "archive.purged:2", "marks.files_synced", "marks.answers_synced", "marks.written:2",
              "marks.previous_renewed", "answers.written", "answers.synced", "answers.sealed", "answers.removed")


class Failing(Case):
    """The disk takes no more of the live segment: a file size limit."""
    points = ("journal.abandoned", "journal.overridden")

    def drive(self):
        while self.segment().stat().st_size < 40_000:  # so that everything else fits below the limit
            assert self.me.step()
        self.limit(self.segment().stat().st_size)
        self.me.step()

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


CASES = (Traffic, Failing, FailingTwice, Torn, Repair, Adopt, AfterCheckpoint, Damaged, ForeignDown, ForeignUnderLock)


def run_case(kind, point, turn):
    began = time.monotonic()
    case = None
    try:
        case = kind(point, turn)
        faults = case.run()
    except Exception:  # noqa: BLE001: whatever it is, the others go on
        faults = [traceback.format_exc()]
    finally:
        log = [] if case is None else case.daemon.stderr
        if case:
            case.daemon.close()
    then = "" if case is None else f" then {case.then}"
    return f"{kind.__name__} {point}{then} ({time.monotonic() - began:.1f} s)", faults, log


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="a sessiond with fault points (default build/asan/sessiond)",
                        default=str(REPO / "build/asan/sessiond"))
    parser.add_argument("--without", help="a release binary, which must not know a single point's name")
    parser.add_argument("-k", default="", help="only cases and points whose name contains this")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    options = parser.parse_args()
    os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    runs = [(kind, point, turn) for kind in CASES for turn, point in enumerate(kind.points)
            if options.k in f"{kind.__name__} {point}"]
    reached, failed = set(), 0
    if options.without:
        program = Path(options.without).read_bytes()
        for name in (p for p in [*POINTS, "SESSIOND_FAULT"] if p.encode() in program):
            failed += 1
            print(f"FAIL {options.without} contains {name}")
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for name, faults, log in pool.map(lambda run: run_case(*run), runs):
            if not faults:
                reached.add(name.split()[1].split(":")[0])
            failed += bool(faults)
            if faults:
                print(f"FAIL {name}", *(f"  FAULT {f}" for f in faults[:10]), "--- its log", *log[-30:], "---", sep="\n", flush=True)
            elif options.k:
                print(f"ok   {name}", flush=True)
    missing = [] if options.k else sorted(set(POINTS) - reached)
    for point in missing:
        print(f"FAIL no case gets to {point}")
    print(f"points {len(POINTS)} reached {len(reached)} runs {len(runs)} failures {failed + len(missing)}")
    sys.exit(1 if failed or missing or not runs else 0)


if __name__ == "__main__":
    main()

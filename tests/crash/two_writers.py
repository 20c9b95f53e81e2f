#!/usr/bin/env python3
"""Several programs write one sessions.json: the daemon, by PATCHes over HTTP, and others beside it, on the same entries.

Every update of either side sets a field of its own and is looked for at the end, in the file and in the API; the others
also count each entry's x-<name> up under the lock, so that an update that is lost for a moment shows too. The others take
the lock by store/lock/README.md or as OpenClaw 2026.1, 2026.2 and 2026.4 do, ignore it, write in place without it, die with it, are stopped with it; and the
daemon is stopped while it has it. Another makes and deletes entries as fast as it can beside 16 writers
of ours, and one takes turns at a transcript, whose lock it takes, with 16 writers of ours: seq, parentId and expectedSeq
must be right each time. Maintenance archives sessions of another that changes them, and they are restored. The last line says how many updates were lost.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS))  # harness
from harness.other_writer import RULES, replace  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.sessiond import SLOW, Client, Daemon, S  # noqa: E402
from world import leave_locks  # noqa: E402

ENTRIES = 100
LEAD = 20  # updates that one side may be ahead of the other: they are to meet
LEAST = 300  # updates where these are small
KEYS = [f"agent:main:both:{i:03d}" for i in range(ENTRIES)]


class Other:
    """A process of other_writer.py; what it has done is what it has told."""

    def __init__(self, daemon, rule, updates, name="t", first=0, **named):
        self.name, self.rule, self.done, self.told = name, rule, [], []
        self.stopped, self.ended = threading.Event(), threading.Event()
        arguments = [a for key, value in named.items() if value is not None
                     for a in ("--" + key.replace("_", "-"), *([] if value is True else [str(value)]))]
        self.process = subprocess.Popen(
            [sys.executable, str(TESTS / "harness" / "other_writer.py"), str(daemon.agent_dir() / "sessions.json"),
             "--rule", rule, "--updates", str(updates), "--name", name, "--first", str(first), *arguments],
            stdout=subprocess.PIPE, text=True)
        self._moved = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._moved:
                if line.strip() == "holding":
                    self.stopped.set()
                elif line.startswith("{"):
                    self.told.append(json.loads(line))
                else:
                    self.done.append(int(line.split()[0]))
                    self.told.append(line.split())
                self._moved.notify_all()
        self.ended.set()
        with self._moved:
            self._moved.notify_all()

    def await_done(self, count, timeout=180.0):
        """Until it has made so many updates, has stopped itself or has ended."""
        def there():
            return len(self.done) >= count or self.stopped.is_set() or self.ended.is_set()
        with self._moved:
            if not self._moved.wait_for(there, timeout * SLOW):
                raise AssertionError(f"{self.name} ({self.rule}) stands still at {len(self.done)} updates")

    def wake(self):
        self.stopped.clear()
        self.process.send_signal(signal.SIGCONT)

    def finish(self):
        self._reader.join()
        return self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.send_signal(signal.SIGCONT)
        self.finish()


class Ours:
    """The daemon's clients: numbered PATCHes, each to a field of its own."""

    def __init__(self, daemon):
        # The daemon is stopped for longer than a request usually takes.
        self.client, self.done = Client(daemon, daemon.client().token, timeout=300), 0

    def patch(self):
        number = self.done
        reply = self.client.patch(S(KEYS[number % ENTRIES]), {f"o{number // ENTRIES}": number})
        assert reply.status == 200, reply
        self.done += 1


# A process of its own, for the lock is there for a fraction of a millisecond. Tells each stop; goes on at a line on stdin.
# A daemon that has stopped itself (SESSIOND_FAULT) is found stopped.
STOPPER = """
import os, signal, sys
pid, path = int(sys.argv[1]), sys.argv[2]
ours = f'"pid":{pid},'
while True:
    try:
        with open(path) as lock:
            seen = ours in lock.read()
        if seen:
            os.kill(pid, signal.SIGSTOP)
            with open(path) as lock:
                seen = ours in lock.read()
    except FileNotFoundError:
        seen = False
    with open(f"/proc/{pid}/stat") as stat:
        stopped = stat.read().rsplit(")", 1)[1].split()[0] == "T"
    if seen or stopped and os.path.exists(path):
        print("stopped", flush=True)
        if not sys.stdin.readline():
            break
    os.kill(pid, signal.SIGCONT)
os.kill(pid, signal.SIGCONT)
"""


class Stopper:
    """Stops the daemon while it has sessions.json.lock, until the other has gone on without it, and so on."""

    def __init__(self, daemon, other, seconds):
        self.daemon, self.other, self.seconds, self.stops, self.failure = daemon, other, seconds, 0, None
        self.process = subprocess.Popen([sys.executable, "-c", STOPPER, str(daemon.process.pid),
                                         str(daemon.agent_dir() / "sessions.json.lock")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.other.ended.is_set() and self.process.stdout.readline():
                self.stops += 1
                self.other.await_done(len(self.other.done) + 10)
                time.sleep(self.seconds)  # the length of the stop is what is tested
                self.process.stdin.write("\n")
                self.process.stdin.flush()
                self.other.await_done(len(self.other.done) + 5)
        except BrokenPipeError:
            pass  # end() has killed it
        except Exception as failure:  # noqa: BLE001: told by end()
            self.failure = failure
        finally:
            self.process.kill()
            self.daemon.process.send_signal(signal.SIGCONT)

    def end(self):
        self.other.finish()
        self.process.kill()
        self.daemon.process.send_signal(signal.SIGCONT)
        self.thread.join()
        self.process.communicate()
        if self.failure:
            raise self.failure


class Scenario:
    earlier_boot = False  # shared mode; the start finds the lock of an earlier boot

    def __init__(self, fault=None, mode="own"):
        # Duty 1: checkpoints follow each other at once, and so meet the other writer as often as can be.
        mode = "shared" if self.earlier_boot else mode
        self.daemon = Daemon({"store": {"mode": mode, "checkpointDuty": 1.0, "lock": {"staleMs": 1000}}},
                             env={"SESSIOND_FAULT": fault} if fault else None)
        self.others = []

    def __enter__(self):
        if self.earlier_boot:
            leave_locks(self.daemon)
        self.daemon.start()
        client = self.daemon.client()
        for key in KEYS:
            reply = client.post("/v1/agents/main/sessions", {"key": key})
            assert reply.status == 201, reply
        self.daemon.checkpoint()
        self.ours = Ours(self.daemon)
        return self

    def __exit__(self, *_):
        for other in self.others:
            other.end()
        self.daemon.close()

    def other(self, *arguments, **named):
        self.others.append(Other(self.daemon, *arguments, **named))
        return self.others[-1]

    def run_beside(self, other, updates):
        """PATCHes, never far from what the other has done."""
        for _ in range(updates):
            if not other.ended.is_set():
                other.await_done(self.ours.done - LEAD)
            self.ours.patch()

    def lost(self, strict=True):
        """What is missing of both sides, in the file and in the API. Not `strict`: only ours must be there."""
        for other in self.others:
            other.finish()
        store = self.daemon.sessions_json()
        served = {key: self.ours.client.get(S(key), headers={"Cache-Control": "no-cache"}).json for key in KEYS}
        store = self.daemon.sessions_json()
        missing = []
        for where, entries in (("file", store), ("api", served)):
            for number in range(self.ours.done):
                if entries[KEYS[number % ENTRIES]].get(f"o{number // ENTRIES}") != number:
                    missing.append(f"o {number} in the {where}")
            for name in {other.name for other in self.others} if strict else ():
                done = [n for other in self.others if other.name == name for n in other.done]
                counts = {}
                for number in done:
                    counts[number % ENTRIES] = counts.get(number % ENTRIES, 0) + 1
                    if entries[KEYS[number % ENTRIES]].get(f"{name}{number // ENTRIES}") != number:
                        missing.append(f"{name} {number} in the {where}")
                for index, count in counts.items():
                    counted = entries[KEYS[index]].get("x-" + name)
                    if counted != count:
                        missing.append(f"{name} counted {counted} of {count} in entry {index} in the {where}")
        for key in KEYS:
            differ = [n for n, v in store[key].items() if served[key].get(n) != v]
            if differ:
                missing.append(f"{key}: {differ[:5]} differ between the file and the API")
        left = [p.name for p in self.daemon.agent_dir().iterdir() if ".lock" in p.name or p.name.endswith(".tmp")]
        return missing + [f"{name} was left" for name in left]


def takes_turns(rule, updates, options):
    with Scenario() as at:
        at.run_beside(at.other(rule, updates), updates)
        missing = at.lost()
        return at.ours.done, len(at.others[0].done), missing


def three(_, updates, options):
    with Scenario() as at:
        first = at.other("formats", updates, name="t")
        at.other("2026.4", updates, name="u")
        at.run_beside(first, updates)
        return at.ours.done, 2 * updates, at.lost()


def ignores(_, updates, options):
    with Scenario() as at:
        at.run_beside(at.other("none", updates), updates)
        missing = at.lost(strict=False)
        return at.ours.done, len(at.others[0].done), missing


def writes_in_place(mode, updates, options):
    """Without the lock, and slowly. A field of its own in each update: x-<name> it may count from an old copy."""
    with Scenario(mode=mode) as at:
        other = at.other("none", updates, pause_ms=options.pause_ms)
        at.run_beside(other, updates)
        other.finish()
        missing = [one for one in at.lost() if " counted " not in one]
        missing += [f"{p.name} is set aside" for p in at.daemon.agent_dir().iterdir() if ".corrupt." in p.name]
        return at.ours.done, len(other.done), missing


def dies(rule, updates, options):
    """Each life ends with the lock held; the next one goes on."""
    with Scenario() as at:
        done = 0
        while done < updates:
            other = at.other(rule, updates - done, first=done, hold="die", every=max(10, updates // 10))
            at.run_beside(other, max(10, updates // 10))
            other.finish()
            done = max(other.done, default=done - 1) + 1
            if other.process.returncode == -signal.SIGKILL:
                at.daemon.checkpoint()  # gets past the dead holder
                done += 1  # the update it died with was never made
        return at.ours.done, sum(len(o.done) for o in at.others), at.lost()


def stopped(rule, updates, options):
    """The other is stopped with the lock, having read the store; the daemon takes the lock away and goes on; it wakes."""
    with Scenario() as at:
        every = max(10, updates // 5)
        other = at.other(rule, updates, hold="stop", every=every)
        while not other.ended.is_set():
            at.ours.patch()
            other.await_done(at.ours.done - LEAD)
            if other.stopped.is_set():
                for _ in range(10):
                    at.ours.patch()
                at.daemon.checkpoint()  # when the lock has stood unchanged for staleMs
                other.wake()
        return at.ours.done, len(other.done), at.lost()


def daemon_stopped(rule, updates, options):
    with Scenario(fault=options.fault) as at:
        other = at.other(rule, 100 * updates, stale_ms=options.stale_ms)
        stopper = Stopper(at.daemon, other, options.stop_seconds)
        # It is found with the lock by chance: not for ever.
        while at.ours.done < updates or stopper.stops < options.stops and at.ours.done < 10 * updates:
            at.ours.patch()
            other.await_done(at.ours.done - LEAD)
        other.process.terminate()
        stopper.end()
        print(f"  the daemon was stopped {stopper.stops} times with the lock", flush=True)
        return at.ours.done, len(other.done), at.lost()


class Crowd:
    """WRITERS clients at once: each calls do(client, number) with the next number until the other has ended and `least`
    were done; never far ahead of the other."""
    WRITERS = 16

    def __init__(self, daemon, other, least, do):
        self.daemon, self.other, self.least, self.do = daemon, other, least, do
        self.next, self.lock, self.failures = 0, threading.Lock(), []
        self.token = daemon.client().token
        self.threads = [threading.Thread(target=self.write) for _ in range(self.WRITERS)]
        for thread in self.threads:
            thread.start()

    def write(self):
        client = Client(self.daemon, self.token, timeout=120)
        try:
            while not self.failures:
                with self.lock:
                    if self.next >= self.least and self.other.ended.is_set():
                        return
                    number, self.next = self.next, self.next + 1
                if not self.other.ended.is_set():
                    self.other.await_done(number - 10 * LEAD)
                self.do(client, number)
        except Exception as failure:  # noqa: BLE001: told by join()
            self.failures.append(failure)
        finally:
            client.close()

    def join(self):
        for thread in self.threads:
            thread.join()
        if self.failures:
            raise self.failures[0]


def all_entries(client):
    entries, cursor = {}, ""
    while cursor is not None:
        page = client.get("/v1/agents/main/sessions?limit=200" + cursor, headers={"Cache-Control": "no-cache"}).json
        entries.update({one["key"]: one for one in page["data"]})
        following = page["page"]["nextCursor"] if page["page"]["hasMore"] else None
        cursor = following and f"&cursor={quote(following)}"
    return entries


def churns(mode, updates, options):
    """Every deletion of the other stands, and every update of either side is there."""
    updates = max(updates, LEAST)
    with Scenario(mode=mode) as at:
        other = at.other("formats", updates, churn=True)

        def patch(client, number):
            reply = client.patch(S(KEYS[number % ENTRIES]), {f"o{number // ENTRIES}": number})
            assert reply.status == 200, reply

        crowd = Crowd(at.daemon, other, updates, patch)
        crowd.join()
        other.finish()
        told = other.told[-1]
        missing = list(told["undone"])
        wanted = {key: fields for key, fields in told["made"].items() if fields}
        served = all_entries(at.daemon.client())
        at.daemon.checkpoint()
        for where, entries in (("api", served), ("file", at.daemon.sessions_json())):
            there = {key for key in entries if ":churn:" in key}
            missing += [f"{key} stands in the {where} though deleted" for key in sorted(there - set(wanted))]
            missing += [f"{key} is not in the {where}" for key in sorted(set(wanted) - there)]
            missing += [f"{key} lacks {field} in the {where}" for key in sorted(there & set(wanted))
                        for field, value in wanted[key].items() if entries[key].get(field) != value]
            missing += [f"o {number} in the {where}" for number in range(crowd.next)
                        if entries[KEYS[number % ENTRIES]].get(f"o{number // ENTRIES}") != number]
            missing += [f"t {number} in the {where}" for number in other.done[::4]
                        if entries[KEYS[number // 4 % ENTRIES]].get(f"t{number}") != number]
        print(f"  {told['deletions']} deletions of theirs", flush=True)
        return crowd.next, len(other.done), missing


def maintained(rule, updates, options):
    """Maintenance archives sessions while another program changes them, and a script under locks that the daemon lends
    it. Once restored they have all that both wrote."""
    updates, keep = max(updates, LEAST), ENTRIES * 7 // 10
    with Scenario(mode="shared") as at:
        client, archived = at.daemon.client(), 0
        token = client.token

        def restore(row):
            one = Client(at.daemon, token, timeout=120)
            reply = one.post(S(row["key"], "main", "restore"))
            one.close()
            assert reply.status == 200, reply

        def script():
            """The (number, key) of its changes."""
            done, one, path = [], Client(at.daemon, token, timeout=120), at.daemon.agent_dir() / "sessions.json"
            while not other.ended.is_set():
                lent = one.post("/v1/agents/main/locks", {"ttlMs": 30_000, "waitMs": 30_000})
                if lent.status == 503:
                    continue
                assert lent.status == 201, lent
                entries = json.loads(path.read_bytes())
                key = random.choice(sorted(entries))
                entries[key][f"b{len(done)}"] = len(done)
                replace(path, entries)
                reply = one.delete(f"/v1/agents/main/locks/{lent.json['id']}")
                assert reply.status == 204, reply
                done.append((len(done), key))
            one.close()
            return done

        other = at.other(rule, updates, present=True)
        with ThreadPoolExecutor(16) as restorers, ThreadPoolExecutor(1) as scripts:
            changes = scripts.submit(script)
            while not other.ended.is_set():
                reply = client.post("/v1/admin/maintenance", {"agent": "main", "keep": keep, "dryRun": False})
                assert reply.status == 200, reply
                archived += reply.json["count"]
                list(restorers.map(restore, reply.json["data"]))
        other.finish()
        at.daemon.checkpoint()
        store, served = at.daemon.sessions_json(), all_entries(client)
        told = [("t", int(number), key) for number, key in other.told] + [("b", *change) for change in changes.result()]
        print(f"  the script made {len(told) - len(other.told)} changes", flush=True)
        missing = [f"{key} is not in the {where}" for where, entries in (("file", store), ("api", served))
                   for key in KEYS if key not in entries]
        missing += [f"{who} {number} is not in the {where}" for where, entries in (("file", store), ("api", served))
                    for who, number, key in told if entries.get(key, {}).get(f"{who}{number}") != number]
        return archived, len(other.done), missing


def transcript_turns(rule, updates, options):
    """All that is told of places in a transcript is the lines', however many take turns at it."""
    updates = max(updates, LEAST)
    with Scenario(mode="shared") as at:
        client, key = at.daemon.client(), KEYS[0]
        path = at.daemon.agent_dir() / (client.get(S(key)).json["sessionId"] + ".jsonl")
        first = client.post(S(key, "main", "messages"), {"role": "user", "text": "first"}).json
        told, refused, expected = {0: first["ids"][0]}, [], [1]
        other = at.other(rule, updates, transcript=path)

        def append(client, number):
            body = {"role": "user", "text": str(number)}
            if number % 2:
                reply = client.post(S(key, "main", "messages"), body)
            else:  # half of them say where they are to stand
                wanted = expected[0]
                reply = client.post(S(key, "main", "messages"), {"entries": [body], "expectedSeq": wanted})
                if reply.status == 412:
                    expected[0] = int(reply.json["detail"].rsplit(" ", 1)[1])
                    refused.append((wanted, expected[0]))
                    return
                assert reply.json["firstSeq"] == wanted, reply
            assert reply.status == 201, reply
            told[reply.json["firstSeq"]] = reply.json["ids"][0]
            expected[0] = reply.json["firstSeq"] + 1

        crowd = Crowd(at.daemon, other, updates, append)
        crowd.join()
        other.finish()
        lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        with client.stream(f"/v1/events?after={first['asOf']}") as stream:
            stream.wait_until(lambda s: len([e for e in s.durable if e.type == "message.appended"]) >= len(lines) - 1, 120)
            events = [e.data["data"].get("message") for e in stream.durable
                      if e.type in ("message.appended", "transcript.renumbered")]
        missing = [f"seq {seq} was told of another entry" for seq, entry in told.items() if lines[seq]["id"] != entry]
        missing += [f"their turn {seq} is another entry's" for seq, entry in other.told if lines[int(seq)]["id"] != entry]
        missing += [f"seq {n} has a wrong parent" for n, line in enumerate(lines)
                    if line["parentId"] != (lines[n - 1]["id"] if n else None)]
        missing += [f"an event says {event}" for event, line in zip(events, lines[1:])
                    if not event or (event["id"], event["parentId"]) != (line["id"], line["parentId"])]
        missing += [f"an event says seq {event['seq']} for {n}" for n, event in enumerate(events, 1)
                    if event and event["seq"] != n]
        missing += [f"expectedSeq {wanted} was refused, for {next_}" for wanted, next_ in refused if wanted == next_]
        if not len(lines) == len(events) + 1 == len(told) + len(other.done):
            missing.append(f"{len(lines)} lines, {len(events)} events, {len(told)} ours, {len(other.done)} theirs")
        print(f"  {len(told)} of ours in place, {len(refused)} refused by expectedSeq", flush=True)
        return crowd.next, len(other.done), missing


SCENARIOS = {
    **{f"another makes and deletes entries, {mode} mode": (churns, mode) for mode in ("own", "shared")},
    **{f"turns at a transcript with {rule}": (transcript_turns, rule) for rule in ("formats", "2026.4")},
    **{f"turns with {rule}": (takes_turns, rule) for rule in RULES},
    "maintenance and restore": (maintained, "formats"),
    "three processes": (three, None),
    "the other ignores the lock": (ignores, None),
    **{f"the other writes in place, without the lock, {mode} mode": (writes_in_place, mode) for mode in ("own", "shared")},
    "the other dies with the lock": (dies, "formats"),
    "the other dies with the lock, 2026.1": (dies, "2026.1"),
    **{f"the other is stopped with the lock, {rule}": (stopped, rule) for rule in RULES},
    **{f"the daemon is stopped with the lock, {rule}": (daemon_stopped, rule) for rule in RULES},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("--updates", type=int, default=100, help="of each side, in each scenario")
    parser.add_argument("--stale-ms", type=int, default=300, help="when the others call a stopped daemon's lock stale")
    parser.add_argument("--pause-ms", type=float, default=20, help="of the other that writes in place, at half, on average")
    parser.add_argument("--stop-seconds", type=float, default=0.0, help="for which it stays stopped after that")
    parser.add_argument("--stops", type=int, default=1, help="how often it is stopped at least")
    parser.add_argument("--fault", help="SESSIOND_FAULT of a daemon that is to stop itself (builds with the fault hook)")
    parser.add_argument("-k", default="", help="only scenarios whose name has this in it")
    parser.add_argument("--earlier-boot", action="store_true", help="shared mode; the start finds the lock of an earlier boot")
    options = parser.parse_args()
    Scenario.earlier_boot = options.earlier_boot
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    report, lost, ours, theirs = Report(), 0, 0, 0
    for name, (run, rule) in SCENARIOS.items():
        if options.k not in name or not report.wants(name):
            continue
        began = time.monotonic()
        try:
            mine, others, missing = run(rule, options.updates, options)
        except Exception as fault:  # noqa: BLE001: whatever it is, the last line must come
            mine, others, missing = 0, 0, [repr(fault)]
        ours, theirs, lost = ours + mine, theirs + others, lost + len(missing)
        print(f"{name}: {mine} of ours, {others} of theirs, lost {len(missing)}, {time.monotonic() - began:.1f} s", flush=True)
        report.judge(name, missing[:10])
    print(f"updates {ours} ours {theirs} theirs lost {lost}", flush=True)
    sys.exit(report.finish())


if __name__ == "__main__":
    main()

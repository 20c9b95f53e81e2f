#!/usr/bin/env python3
"""The power goes at a random file call under load, again and again, and takes what was not synced: nothing that was promised is missing.

    tests/crash/powercut.py --binary PATH [--rounds 20] [--seed N] [--writers 8] [--earlier-boot]

A round: writers append, patch, post inbound messages and media, reset, delete and lead runs whose log is kept; at a random call the shim drops
un-fsync'ed pages and names, all or any subset of them (shim/power.hpp), and kills the daemon. sessions.json is a whole generation. After the next
start everything acknowledged is there once, media to the byte, what has no answer at most once and once after a retry with the same key, the stream
has no hole, and journal, API, sessions.json, transcripts and the files of the logs agree. Some cuts hit the start itself.
--earlier-boot: in shared mode, and each start finds locks of an earlier boot of the machine on every file.
The line before the last counts also media and lines of logs. The last line is `N passed, N failed`.
"""

import argparse
import json
import os
import random
import sys
import threading
import traceback
from collections import Counter
from http.client import HTTPException
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness
from harness import sessiond  # noqa: E402
from harness.lasting import LASTING, Runner, doctor_faults  # noqa: E402
from promises import STREAM, Promises, append, append_media, create, delete, inbound, of_run, patch, reset  # noqa: E402
from shim import ShimmedDaemon  # noqa: E402
from world import SHARED, leave_locks  # noqa: E402


class Writer:
    """One client with one request at a time."""

    def __init__(self, number, seed):
        self.number, self.dice, self.sent, self.requests = number, random.Random(f"{seed} {number}"), 0, []
        self.key = self.run_key = None
        self.runner = Runner(f"r{number}")

    def begin(self):
        """What it was doing to its sessions is not known: it goes on with others."""
        self.requests, self.key, self.run_key = [], None, None
        self.runner.forget()

    def next(self):
        self.sent += 1
        name = f"w{self.number}.{self.sent}"
        kind = self.dice.random()
        if self.key is None:
            self.key = f"agent:main:cut:{name}"
            return create(self.key)
        if self.run_key is None:
            self.run_key = f"agent:main:cut:run:{name}"
            return create(self.run_key)
        if kind > 0.75:
            return of_run(self.runner, self.run_key)
        if kind > 0.65:
            return append_media(self.key, name)
        if kind < 0.10:
            return patch(self.key, name)
        if kind < 0.20:
            return inbound(f"u{self.number}", name)
        if kind < 0.30:  # its mark is the key: the next request makes another
            key, self.key = self.key, None
            return reset(key) if kind < 0.25 else delete(key)
        return append(self.key, name, self.dice.choice((0, 100, 5000, 20000)), self.dice.choice((None, None, None, "t")))

    def run(self, daemon, token):
        client = sessiond.Client(daemon, token, timeout=60)
        while True:
            request = self.next()
            self.requests.append(request)
            reply = request.send(client)
            if reply is None:
                return
            if request.outcome != "acknowledged":
                raise AssertionError(f"{request}: {reply}")
            if request.lines:
                self.runner.take(reply, request.lines)


def sound_store(daemon):
    """sessions.json as the cut left it: a generation, or none yet."""
    path = daemon.agent_dir() / "sessions.json"
    if path.exists():
        json.loads(path.read_bytes())


class Cuts:
    def __init__(self, seed, writers, earlier_boot):
        self.dice, self.seed, self.earlier_boot = random.Random(seed), seed, earlier_boot
        self.daemon = ShimmedDaemon({"journal": {"segmentBytes": 64 << 10}, **LASTING, **(SHARED if earlier_boot else {})})
        self.promises = Promises()
        self.writers = [Writer(i, seed) for i in range(writers)]
        self.last_id = None
        self.events = []
        self.classes = Counter()

    def start(self, **named):
        if self.earlier_boot:
            leave_locks(self.daemon)
        self.daemon.start(**named)

    def start_and_stream(self):
        self.start()
        return self.daemon.client().stream(STREAM, self.last_id)

    def round(self, number):
        daemon, disk = self.daemon, self.daemon.disk
        disk.seed, disk.cut_at = self.dice.randrange(1 << 32), 0
        at_start = number > 1 and self.dice.random() < 0.25
        if at_start:
            disk.cut_at = disk.calls + self.dice.randrange(1, 120)
        try:
            stream = self.start_and_stream()
        except (AssertionError, ConnectionError, HTTPException):
            if not at_start:
                raise
            self.classes["while starting"] += 1
            daemon.wait_dead()  # it was the cut, before or just after it said that it is ready
            sound_store(daemon)
            disk.cut_at = 0
            stream = self.start_and_stream()
        client = daemon.client()
        with stream:
            disk.cut_at = disk.calls + int(10 ** self.dice.uniform(0, 3))
            threads = [threading.Thread(target=self.write, args=(writer, client.token)) for writer in self.writers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            daemon.wait_dead()
            stream.wait_end(10)
            self.events += stream.durable
            self.last_id = stream.last_id or self.last_id
        disk.cut_at = 0
        sound_store(daemon)
        self.start(shim=False)
        self.check()
        if daemon.stop() != 0:
            self.promises.faults.append("exit code")
        self.promises.faults += doctor_faults(daemon)

    def write(self, writer, token):
        try:
            writer.run(self.daemon, token)
        except Exception:  # noqa: BLE001: told by the round
            self.promises.faults.append(traceback.format_exc())
            self.daemon.disk.cut_at = 1

    def check(self):
        for writer in self.writers:
            self.classes.update(request.outcome for request in writer.requests)
            self.promises.requests += writer.requests
        for request in (request for writer in self.writers for request in writer.requests):
            if request.outcome == "acknowledged":
                self.classes["media"] += bool(request.medium)
                self.classes["lines of logs"] += len(request.lines)
        for writer in self.writers:
            writer.begin()
        self.promises.streams = [self.events]
        self.promises.check(self.daemon.client(), self.daemon)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seed", type=int, help="of everything but the threads' timing (default: random, and printed)")
    parser.add_argument("--world", type=int, default=10, help="rounds on one state directory")
    parser.add_argument("--earlier-boot", action="store_true", help="shared mode; each start finds locks of an earlier boot")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    seed = options.seed if options.seed is not None else random.randrange(1 << 31)
    print(f"seed {seed}", flush=True)
    passed = failed = 0
    classes, cuts = Counter(), None
    for number in range(options.rounds):
        if cuts is None:
            cuts = Cuts(seed + number, options.writers, options.earlier_boot)
        try:
            cuts.round(number % options.world + 1)
            faults = cuts.promises.faults
        except Exception as fault:  # noqa: BLE001: whatever it is, it belongs to this round
            faults = cuts.promises.faults + [str(fault) if isinstance(fault, AssertionError) else traceback.format_exc()]
        passed, failed = passed + (not faults), failed + bool(faults)
        if faults:
            print(f"FAILED round {number}, world of seed {seed + number - number % options.world}",
                  *[f[:1500] for f in faults[:6]], *cuts.daemon.stderr[-12:], sep="\n  ", flush=True)
        if faults or (number + 1) % options.world == 0 or number + 1 == options.rounds:
            classes += cuts.classes
            cuts.daemon.close()
            cuts = None
            if faults:
                seed += options.world  # another world; the rounds in it begin anew
    print(f"{options.rounds} power cuts: " + ", ".join(f"{name} {count}" for name, count in sorted(classes.items())))
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Kill -9 under load, again and again: nothing acknowledged is missing or doubled, and the stream has no hole.

    tests/crash/kill9.py --binary PATH [--rounds 20] [--writers 64] [--load 0.3] [--seed N] [--earlier-boot]

A round: 64 writers append, patch, post inbound messages and media, and lead runs whose log is kept, each text and Idempotency-Key its own; at
a random moment the daemon is killed and started again. Then every 201 must be in its transcript once and in its writer's order, its medium the
same to the byte, and the log of each run's session has exactly the lines of what was acknowledged; a request without an answer is there at most
once, and sent again with the same key it is there exactly once; after POST /v1/admin/checkpoint sessions.json and the files of the logs agree
with the API. One event stream is resumed over all rounds. Ten rounds write to the same sessions, then to new ones; the last round looks at all
of them again.
--earlier-boot: in shared mode, and each start finds locks of an earlier boot of the machine on every file.
The line before the last counts media and lines of logs. The last line is `rounds R acknowledged A lost L doubled D holes H`; the exit code is 1
when a check failed.
"""

import argparse
import http.client
import json
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness
from harness import sessiond  # noqa: E402
from harness.case import text_of  # noqa: E402
from harness.lasting import LASTING, Runner, doctor_faults, file_lines, log_faults, log_file, media_fault, part_of, read_log, shape  # noqa: E402
from harness.sealed import plain_bytes  # noqa: E402
from harness.sessiond import S, SLOW, Daemon  # noqa: E402
from world import SHARED, Reader, compare_store, leave_locks, transcript  # noqa: E402

TOGETHER = 10  # rounds that write to the same sessions


class Place:
    """Where the rounds of one generation write: a channel of its own."""

    def __init__(self, number, writers):
        self.channel = f"crash{(number - 1) // TOGETHER}"
        self.prefix = f"agent:main:{self.channel}:"
        self.shared = [f"{self.prefix}shared{i}" for i in range(4)]  # sessions that all writers append to
        self.own = [f"{self.prefix}writer{i}" for i in range(writers)]
        self.runs = [f"{self.prefix}runner{i}" for i in range(writers)]  # of one writer's runs each

    def make(self, client):
        for key in self.shared + self.own + self.runs:
            reply = client.post("/v1/agents/main/sessions", {"key": key})
            assert reply.status == 201, reply


@dataclass
class Request:
    method: str
    path: str
    body: object
    name: str | None = None   # Idempotency-Key
    key: str | None = None    # of the session
    texts: list = field(default_factory=list)  # of the messages that it brings
    number: int = 0           # of a PATCH
    headers: dict = field(default_factory=dict)
    medium: bool = False
    lines: list | None = None  # of a run: the shapes of the lines that it brings to the log

    def send(self, client):
        return client.request(self.method, self.path, self.body, self.headers, idempotency_key=self.name)


class Writer:
    """One client with one request at a time, so its acknowledged texts have an order."""

    def __init__(self, daemon, token, number):
        self.daemon, self.token, self.number = daemon, token, number
        self.place = self.key = None
        self.sent = 0
        self.acknowledged = {}   # key of a session -> texts, in the order of their 201
        self.fresh = set()       # keys it wrote to since the last check
        self.unknown = None      # the Request that was sent and never answered
        self.last = None         # (request, reply) of the last acknowledged POST, to be sent again after the kill
        self.media = []          # (key, id, text) of acknowledged messages with a medium
        self.fresh_media = 0     # the first one that was not checked yet
        self.runner = Runner(f"w{number} run")
        self.patched = None      # the last acknowledged PATCH's number
        self.patching = None     # one that was never answered
        self.faults = []

    def move(self, place):
        self.place, self.key, self.patched = place, place.own[self.number], None
        self.runner.forget()

    def next_request(self):
        self.sent += 1
        n, kind = self.sent, self.sent % 12
        name, text = f"k-{self.number}-{n}", f"w{self.number} n{n} äöü " + "x" * (n * 37 % 400)
        if kind == 5:
            return Request("PATCH", S(self.key), {"x-patch": n}, number=n)
        if kind in (3, 7):  # a new conversation every second time, and one that goes on
            peer = f"p{self.number}-{n if kind == 3 else 'on'}"
            body = {"channel": self.place.channel, "chatType": "direct", "peer": peer, "text": text}
            return Request("POST", "/v1/inbound", body, name, f"{self.place.prefix}direct:{peer}", [text])
        if kind in (2, 9, 10):
            path, body, headers, texts, lines = self.runner.next(self.place.runs[self.number])
            key = None if path.endswith("/finish") else name  # a run is finished once without one
            return Request("POST", path, body, key, self.place.runs[self.number], texts, headers=headers, lines=lines)
        key = self.place.shared[n % 4] if kind in (0, 4) else self.key
        medium = kind in (4, 11)
        body = {"role": "user", "content": [{"type": "text", "text": text}, part_of(text)]} if medium else {"role": "user", "text": text}
        return Request("POST", S(key, "main", "messages"), body, name, key, [text], medium=medium)

    def run(self, stop):
        """Until the daemon is gone. What was sent and not answered is unknown."""
        client = sessiond.Client(self.daemon, self.token, timeout=60)
        try:
            while not stop.is_set():
                request = self.next_request()
                if request.method == "PATCH":
                    self.patching = request.number
                else:
                    self.unknown = request
                try:
                    reply = request.send(client)
                except (OSError, http.client.HTTPException):
                    return
                if not self.take(request, reply):
                    return
        finally:
            client.close()

    def take(self, request, reply):
        if reply.status == 503:
            return False  # draining, or outcome unknown: stays unknown
        if reply.status not in (200, 201):
            self.faults.append(f"{request} answered {reply}"[:2000])
        elif request.method == "PATCH":
            self.patched, self.patching = request.number, None
            return True
        else:
            self.acknowledged.setdefault(request.key, []).extend(request.texts)
            self.fresh.add(request.key)
            self.last = (request, reply)
            if request.medium:
                self.media.append((request.key, reply.json["ids"][0], request.texts[0]))
            if request.lines:
                self.runner.take(reply, request.lines)
        self.unknown = None
        return True

    def settle(self, client):
        """Sends again with the same keys: what was answered is answered the same, what never was gets its final answer now."""
        if self.last:
            request, first = self.last
            reply = request.send(client)
            if (reply.status, reply.raw, reply.headers.get("Idempotency-Replayed")) != (
                    first.status, first.raw, "true" if request.name else None):
                self.faults.append(f"{request.path} again with its key {request.name}: {reply}, was {first}")
        if self.unknown:
            for _ in range(100):
                reply = self.unknown.send(client)
                if reply.status != 409 or (reply.json or {}).get("code") != "idempotency_in_flight":
                    break
                time.sleep(0.05)
            self.take(self.unknown, reply)


class Round:
    """The state of the world after one kill: what is lost, doubled or out of order."""

    def __init__(self, daemon, client, writers, place):
        self.daemon, self.client, self.writers, self.place = daemon, client, writers, place
        self.lost, self.doubled, self.faults = set(), set(), []
        self.transcripts, self.logs = {}, {}

    def read(self, keys):
        self.transcripts = {key: transcript(self.client, key) or [] for key in keys}

    def keys(self, everything=False):
        """What was written since the last check, or ever."""
        keys = set(self.place.shared)
        for writer in self.writers:
            keys |= set(writer.acknowledged if everything else writer.fresh) | ({writer.unknown.key}
                    if writer.unknown else set())
        return keys

    def check_messages(self, moment):
        counts = {key: Counter(texts) for key, texts in self.transcripts.items()}
        for writer in self.writers:
            for key in counts:
                texts = writer.acknowledged.get(key, [])
                for text in texts:
                    count = counts[key][text]
                    if count != 1:
                        (self.doubled if count else self.lost).add((key, text))
                        self.faults.append(f"{moment}: {text[:40]!r} is {count} times in {key}")
                wanted = set(texts)
                there = [t for t in self.transcripts[key] if t in wanted]
                if there != texts and len(there) == len(texts):
                    self.faults.append(f"{moment}: writer {writer.number}'s messages are out of order in {key}")
            for text in writer.unknown.texts if writer.unknown else []:
                if counts[writer.unknown.key][text] > 1:
                    self.doubled.add((writer.unknown.key, text))
                    self.faults.append(f"{moment}: an unacknowledged message is there twice")
        for key, count in counts.items():
            for text, times in count.items():
                if text and times > 1:  # what a run tells of itself has no text
                    self.faults.append(f"{moment}: {text[:40]!r} {times} times in {key}")

    def check_media(self, everything):
        for writer in self.writers:
            for key, entry_id, text in writer.media[0 if everything else writer.fresh_media:]:
                if fault := media_fault(self.client, key, entry_id, text):
                    self.lost.add((key, "medium of " + text))
                    self.faults.append(fault)

    def check_logs(self, moment, everything):
        """A log has the lines of what was acknowledged, and no others but those of the request without an answer."""
        for writer in self.writers:
            unknown = writer.unknown if writer.unknown and writer.unknown.lines else None
            keys = set(writer.runner.logs) if everything else set(writer.runner.logs) & writer.fresh
            for key in keys | ({unknown.key} if unknown else set()):
                lines, acknowledged = read_log(self.client, key), writer.runner.logs.get(key, [])
                unanswered = unknown.lines if unknown and unknown.key == key else []
                faults = log_faults(lines, acknowledged, unanswered, f"{moment}: the log of {key}")
                self.faults += faults
                if faults:
                    lost = {(key, line) for line in acknowledged} - {(key, shape(line)) for line in lines}
                    self.lost |= lost
                    self.doubled |= set() if lost else {(key, "lines of its log")}
                self.logs[key] = lines

    def check_log_files(self, store):
        for key, lines in self.logs.items():
            if file_lines(log_file(self.daemon, store[key]["sessionId"])) != lines:
                self.faults.append(f"{key}: the file of the log and the API differ")

    def check_patches(self):
        for writer in self.writers:
            value = self.client.get(S(writer.key)).json.get("x-patch")
            fine = {writer.patched, writer.patching} if writer.patching else {writer.patched}
            if value not in fine:
                self.lost.add((writer.key, writer.patched))
                self.faults.append(f"patch of writer {writer.number} is {value}, acknowledged {writer.patched}, unanswered {writer.patching}")
            writer.patched, writer.patching = value, None

    def check_files(self, prefix):
        """sessions.json parses and agrees with the API; transcript files hold what the API tells."""
        store, faults = compare_store(self.daemon, self.client, prefix)
        self.faults += faults
        self.check_log_files(store)
        for key in set(self.transcripts) & set(store):
            file = self.daemon.agent_dir() / f"{store[key]['sessionId']}.jsonl"  # made by the first append
            lines = plain_bytes(file).splitlines()[1:] if file.exists() else []
            if [text_of(json.loads(line).get("message", {})) for line in lines] != self.transcripts[key]:
                self.faults.append(f"{key}: the transcript's file and the API differ")


def check(daemon, client, writers, place, last):
    world = Round(daemon, client, writers, place)
    world.read(world.keys())
    world.check_messages("after the restart")
    world.check_logs("after the restart", last)
    unknown = sum(bool(w.unknown) for w in writers)
    for writer in writers:
        writer.settle(client)
    world.read(world.keys(everything=last))
    world.check_messages("after the retries")
    world.check_logs("after the retries", last)
    world.check_media(last)
    world.check_patches()
    world.check_files("agent:main:" if last else place.prefix)
    if any(w.unknown for w in writers):
        world.faults.append("a retry with the same key was not answered with a 2xx")
    for writer in writers:
        world.faults += writer.faults
        writer.fresh.clear()
        writer.fresh_media = len(writer.media)
    return world, unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--load", type=float, default=0.3, help="seconds until the kill, at most")
    parser.add_argument("--seed", type=int, default=None,
                        help="of the moments of the kills (default: random, and printed)")
    parser.add_argument("--earlier-boot", action="store_true", help="shared mode; each start finds locks of an earlier boot")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    seed = options.seed if options.seed is not None else random.randrange(1 << 31)
    dice = random.Random(seed)
    print(f"seed {seed}", flush=True)

    daemon = Daemon({"journal": {"segmentBytes": 1 << 20}, **LASTING, **(SHARED if options.earlier_boot else {})})
    before_start = leave_locks if options.earlier_boot else lambda _: None
    failed = lost = doubled = 0
    try:
        before_start(daemon)
        daemon.start()
        client = daemon.client()
        writers = [Writer(daemon, client.token, i) for i in range(options.writers)]
        reader = Reader(client.clone())
        for number in range(1, options.rounds + 1):
            if number % TOGETHER == 1:
                place = Place(number, options.writers)
                place.make(client)
                for writer in writers:
                    writer.move(place)
            reader.connect()
            stop = threading.Event()
            threads = [threading.Thread(target=w.run, args=(stop,)) for w in writers]
            for thread in threads:
                thread.start()
            time.sleep(dice.uniform(0.02, options.load) * SLOW)  # the moment of the kill: any moment is right
            daemon.kill9()
            stop.set()
            for thread in threads:
                thread.join()
            reader.stream.wait_end(30)
            reader.collect()
            before_start(daemon)
            began = time.monotonic()
            daemon.start(60)
            started = time.monotonic() - began
            world, unknown = check(daemon, client, writers, place, number == options.rounds)
            faults = world.faults + reader.holes[:5] + daemon.sanitizer_reports()
            lost, doubled = lost + len(world.lost), doubled + len(world.doubled)
            if faults or number % 50 == 0:
                print(f"round {number}: {unknown} without an answer, {reader.events} events so far, up again in {started:.2f} s"
                      + "".join("\n  FAULT " + f for f in faults[:20]), flush=True)
            if faults:
                failed += 1
                print("\n".join(daemon.stderr[-40:]))
                break
        # The subscriber catches up with everything at the end.
        reader.connect()
        head = int(client.get("/v1/sessions?limit=1").json["asOf"].split("-")[1])
        reader.catch_up(head, 60)
        reader.collect()
        faults = reader.holes[:5] + ([] if daemon.stop() == 0 else ["exit code"]) + doctor_faults(daemon)
        failed += bool(faults)
        for fault in faults:
            print("  FAULT", fault)
        total = sum(len(texts) for w in writers for texts in w.acknowledged.values())
        logged = sum(len(lines) for w in writers for lines in w.runner.logs.values())
        print(f"media {sum(len(w.media) for w in writers)} lines of logs {logged}")
        print(f"rounds {number} acknowledged {total} lost {lost} doubled {doubled} holes {len(reader.holes)}", flush=True)
    except Exception as fault:  # noqa: BLE001: whatever it is, the last line must come
        failed += 1
        traceback.print_exc()
        print(f"  FAULT {fault!r}", *daemon.stderr[-40:], sep="\n")
    finally:
        daemon.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

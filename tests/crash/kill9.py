#!/usr/bin/env python3
"""Kill -9 under load, again and again: nothing acknowledged is missing or doubled, and the stream has no hole.

    tests/crash/kill9.py --binary PATH [--rounds 20] [--writers 64] [--load 0.3] [--seed N] [--earlier-boot]

A round: 64 writers append, patch and post inbound messages, each text and Idempotency-Key its own; at a random moment the daemon is killed and
started again. Then every 201 must be in its transcript once and in its writer's order; a request without an answer is there at most once, and
sent again with the same key it is there exactly once; after POST /v1/admin/checkpoint sessions.json agrees with the API. One event
stream is resumed over all rounds. Ten rounds write to the same sessions, then to new ones; the last round looks at all of them again.
--earlier-boot: in shared mode, and each start finds locks of an earlier boot of the machine on every file.
The last line is `rounds R acknowledged A lost L doubled D holes H`; the exit code is 1 when a check failed.
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
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness
from harness import sessiond  # noqa: E402
from harness.case import text_of  # noqa: E402
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

    def make(self, client):
        for key in self.shared + self.own:
            reply = client.post("/v1/agents/main/sessions", {"key": key})
            assert reply.status == 201, reply


class Writer:
    """One client with one request at a time, so its acknowledged texts have an order."""

    def __init__(self, daemon, token, number):
        self.daemon, self.token, self.number = daemon, token, number
        self.place = self.key = None
        self.sent = 0
        self.acknowledged = {}   # key of a session -> texts, in the order of their 201
        self.fresh = set()       # keys it wrote to since the last check
        self.unknown = None      # (method, path, body, idempotency key, session key, text): sent, never answered
        self.last = None         # (request, raw body) of the last acknowledged POST, to be sent again after the kill
        self.patched = None      # the last acknowledged PATCH's number
        self.patching = None     # one that was never answered
        self.faults = []

    def move(self, place):
        self.place, self.key, self.patched = place, place.own[self.number], None

    def next_request(self):
        self.sent += 1
        n, kind = self.sent, self.sent % 8
        text = f"w{self.number} n{n} äöü " + "x" * (n * 37 % 400)
        if kind == 5:
            return "PATCH", S(self.key), {"x-patch": n}, None, None, n
        if kind in (3, 7):  # a new conversation every second time, and one that goes on
            peer = f"p{self.number}-{n if kind == 3 else 'on'}"
            body = {"channel": self.place.channel, "chatType": "direct", "peer": peer, "text": text}
            return "POST", "/v1/inbound", body, f"k-{self.number}-{n}", f"{self.place.prefix}direct:{peer}", text
        key = self.place.shared[n % 4] if kind in (0, 4) else self.key
        return "POST", S(key, "main", "messages"), {"role": "user", "text": text}, f"k-{self.number}-{n}", key, text

    def run(self, stop):
        """Until the daemon is gone. What was sent and not answered is unknown."""
        client = sessiond.Client(self.daemon, self.token, timeout=60)
        try:
            while not stop.is_set():
                request = self.next_request()
                method, path, body, name, key, text = request
                if method == "PATCH":
                    self.patching = text
                else:
                    self.unknown = request
                try:
                    reply = client.request(method, path, body, idempotency_key=name)
                except (OSError, http.client.HTTPException):
                    return
                if not self.take(request, reply):
                    return
        finally:
            client.close()

    def take(self, request, reply):
        method, _, _, _, key, text = request
        if reply.status == 503:
            return False  # draining, or outcome unknown: stays unknown
        if reply.status not in (200, 201):
            self.faults.append(f"{request} answered {reply}")
        elif method == "PATCH":
            self.patched, self.patching = text, None
            return True
        else:
            self.acknowledged.setdefault(key, []).append(text)
            self.fresh.add(key)
            self.last = (request, reply.raw)
        self.unknown = None
        return True

    def settle(self, client):
        """Sends again with the same keys: what was answered is answered the same, what never was gets its final answer now."""
        if self.last:
            (method, path, body, name, _, text), raw = self.last
            reply = client.request(method, path, body, idempotency_key=name)
            if (reply.status, reply.raw, reply.headers.get("Idempotency-Replayed")) != (201, raw, "true"):
                self.faults.append(f"{text[:40]!r} again with its key {name}: {reply}, was {raw[:300]!r}")
        if self.unknown:
            method, path, body, name, _, _ = self.unknown
            for _ in range(100):
                reply = client.request(method, path, body, idempotency_key=name)
                if reply.status != 409 or (reply.json or {}).get("code") != "idempotency_in_flight":
                    break
                time.sleep(0.05)
            self.take(self.unknown, reply)


class Round:
    """The state of the world after one kill: what is lost, doubled or out of order."""

    def __init__(self, daemon, client, writers, place):
        self.daemon, self.client, self.writers, self.place = daemon, client, writers, place
        self.lost, self.doubled, self.faults = set(), set(), []
        self.transcripts = {}

    def read(self, keys):
        self.transcripts = {key: transcript(self.client, key) or [] for key in keys}

    def keys(self, everything=False):
        """What was written since the last check, or ever."""
        keys = set(self.place.shared)
        for writer in self.writers:
            keys |= set(writer.acknowledged if everything else writer.fresh) | ({writer.unknown[4]}
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
            if writer.unknown and counts[writer.unknown[4]][writer.unknown[5]] > 1:
                self.doubled.add(writer.unknown[4:])
                self.faults.append(f"{moment}: an unacknowledged message is there twice")
        for key, count in counts.items():
            for text, times in count.items():
                if times > 1:
                    self.faults.append(f"{moment}: {text[:40]!r} {times} times in {key}")

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
        for key in set(self.transcripts) & set(store):
            file = self.daemon.agent_dir() / f"{store[key]['sessionId']}.jsonl"  # made by the first append
            lines = file.read_bytes().splitlines()[1:] if file.exists() else []
            if [text_of(json.loads(line)["message"]) for line in lines] != self.transcripts[key]:
                self.faults.append(f"{key}: the transcript's file and the API differ")


def check(daemon, client, writers, place, last):
    world = Round(daemon, client, writers, place)
    world.read(world.keys())
    world.check_messages("after the restart")
    unknown = sum(bool(w.unknown) for w in writers)
    for writer in writers:
        writer.settle(client)
    world.read(world.keys(everything=last))
    world.check_messages("after the retries")
    world.check_patches()
    world.check_files("agent:main:" if last else place.prefix)
    if any(w.unknown for w in writers):
        world.faults.append("a retry with the same key was not answered with a 2xx")
    for writer in writers:
        world.faults += writer.faults
        writer.fresh.clear()
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

    daemon = Daemon({"journal": {"segmentBytes": 1 << 20}, **(SHARED if options.earlier_boot else {})})
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
        faults = reader.holes[:5] + ([] if daemon.stop() == 0 else ["exit code"])
        failed += bool(faults)
        for fault in faults:
            print("  FAULT", fault)
        total = sum(len(texts) for w in writers for texts in w.acknowledged.values())
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

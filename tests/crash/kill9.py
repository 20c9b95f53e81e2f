#!/usr/bin/env python3
"""Kill -9 under load, again and again: nothing acknowledged is missing or doubled, and the stream has no hole.

    tests/crash/kill9.py --binary PATH [--rounds 20] [--writers 64] [--seed N]

A round: 64 writers append, patch and post inbound messages, each text and Idempotency-Key its own; at a random moment the daemon is killed and
started again. Then every 201 must be in its transcript once and in its writer's order; a request without an answer is there at most once, and
sent again with the same key it is there exactly once; after POST /v1/admin/checkpoint sessions.json agrees with the API. One event
stream is resumed over all rounds. The last line is `N passed, N failed`, one for each round's check; the exit code is 1 when any failed.
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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "api"))
import sessiond  # noqa: E402
from case import text_of  # noqa: E402
from sessiond import S, SLOW, Daemon  # noqa: E402

SHARED = [f"agent:main:crash:shared{i}" for i in range(4)]  # sessions that all writers append to


class Writer:
    """One client with one request at a time, so its acknowledged texts have an order."""

    def __init__(self, daemon, token, number):
        self.daemon, self.token, self.number = daemon, token, number
        self.key = f"agent:main:crash:writer{number}"
        self.sent = 0
        self.acknowledged = {}   # key of a session -> texts, in the order of their 201
        self.fresh = set()       # keys it wrote to since the last check
        self.unknown = None      # (method, path, body, idempotency key, session key, text): sent, never answered
        self.last = None         # (request, raw body) of the last acknowledged POST, to be sent again after the kill
        self.patched = None      # the last acknowledged PATCH's number
        self.patching = None     # one that was never answered
        self.faults = []

    def next_request(self):
        self.sent += 1
        n, kind = self.sent, self.sent % 8
        text = f"w{self.number} n{n} äöü " + "x" * (n * 37 % 400)
        if kind == 5:
            return "PATCH", S(self.key), {"x-patch": n}, None, None, n
        if kind in (3, 7):  # a new conversation every second time, and one that goes on
            peer = f"p{self.number}-{n if kind == 3 else 'on'}"
            body = {"channel": "crash", "chatType": "direct", "peer": peer, "text": text}
            return "POST", "/v1/inbound", body, f"k-{self.number}-{n}", f"agent:main:crash:direct:{peer}", text
        key = SHARED[n % len(SHARED)] if kind in (0, 4) else self.key
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


class Reader:
    """One subscriber over all rounds: comes back with the last id it has, as a browser does."""

    def __init__(self, client):
        self.client, self.last_id, self.seqs, self.gaps, self.stream = client, None, [], 0, None

    def connect(self):
        deadline = time.monotonic() + 30 * SLOW
        while True:
            try:
                self.stream = self.client.stream("/v1/events", self.last_id)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def collect(self):
        """Takes what the ended connection had seen."""
        self.stream.close()
        self.seqs += self.stream.seqs()
        self.gaps += sum(e.type == "stream.gap" for e in self.stream.events)
        self.last_id = self.stream.last_id or self.last_id

    def faults(self):
        found = [f"seq {a} then {b}" for a, b in zip(self.seqs, self.seqs[1:]) if b != a + 1]
        return found[:5] + ([f"{self.gaps} gaps"] if self.gaps else [])


def transcript(client, key):
    """Texts of a whole transcript over its pages; None when there is no such session."""
    texts, more = [], ""
    while True:
        reply = client.get(S(key, "main", "messages") + f"?limit=200&order=asc{more}")
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise AssertionError(f"{key}: {reply}")
        body = reply.json
        texts += [text_of(m) for m in body["data"]]
        if not body["page"]["hasMore"]:
            return texts
        more = f"&after={body['page']['nextAfter']}"


class Round:
    """The state of the world after one kill: what is lost, doubled or out of order."""

    def __init__(self, daemon, client, writers, everything):
        self.daemon, self.client, self.writers, self.everything = daemon, client, writers, everything
        self.lost, self.doubled, self.faults = set(), set(), []
        self.transcripts = {}

    def read(self, keys):
        self.transcripts = {key: transcript(self.client, key) or [] for key in keys}

    def keys(self):
        """What was written since the last check, or ever: the last round looks at all of it."""
        keys = set(SHARED)
        for writer in self.writers:
            keys |= set(writer.acknowledged if self.everything else writer.fresh) | ({writer.unknown[4]}
                    if writer.unknown else set())
        return keys

    def check_messages(self, moment):
        counts = {key: Counter(texts) for key, texts in self.transcripts.items()}
        for writer in self.writers:
            for key in set(writer.acknowledged) & set(counts):
                texts = writer.acknowledged[key]
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

    def check_file(self):
        """sessions.json parses and agrees with the API; transcript files hold what the API tells."""
        self.daemon.checkpoint()
        store = json.loads((self.daemon.agent_dir() / "sessions.json").read_bytes())
        served, more = {}, ""
        while True:
            body = self.client.get(f"/v1/agents/main/sessions?archived=any&include=snapshots&limit=200&sort=key{more}").json
            served.update({s["key"]: s for s in body["data"]})
            if not body["page"]["hasMore"]:
                break
            more = "&cursor=" + body["page"]["next"]
        if set(store) != set(served):
            self.faults.append(f"sessions.json and the API differ in {sorted(set(store) ^ set(served))[:5]}")
        for key in set(store) & set(served):
            wrong = [n for n, v in store[key].items() if served[key].get(n) != v]
            if wrong:
                self.faults.append(f"{key}: {wrong} differ between sessions.json and the API")
        for key in self.keys() & set(store):
            file = self.daemon.agent_dir() / f"{store[key]['sessionId']}.jsonl"  # made by the first append
            lines = file.read_bytes().splitlines()[1:] if file.exists() else []
            if [text_of(json.loads(line)["message"]) for line in lines] != (transcript(self.client, key) or []):
                self.faults.append(f"{key}: the transcript's file and the API differ")


def check(daemon, client, writers, everything):
    world = Round(daemon, client, writers, everything)
    world.read(world.keys())
    world.check_messages("after the restart")
    unknown = sum(bool(w.unknown) for w in writers)
    for writer in writers:
        writer.settle(client)
    world.read(world.keys())
    world.check_messages("after the retries")
    world.check_patches()
    world.check_file()
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
    parser.add_argument("--seed", type=int, default=None,
                        help="of the moments of the kills (default: random, and printed)")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    seed = options.seed if options.seed is not None else random.randrange(1 << 31)
    dice = random.Random(seed)
    print(f"seed {seed}", flush=True)

    daemon = Daemon({"journal": {"segmentBytes": 1 << 20}})
    passed = failed = lost = doubled = 0
    try:
        daemon.start()
        client = daemon.client()
        for key in SHARED + [f"agent:main:crash:writer{i}" for i in range(options.writers)]:
            reply = client.post("/v1/agents/main/sessions", {"key": key})
            assert reply.status == 201, reply
        writers = [Writer(daemon, client.token, i) for i in range(options.writers)]
        reader = Reader(client.clone())
        for number in range(1, options.rounds + 1):
            reader.connect()
            stop = threading.Event()
            threads = [threading.Thread(target=w.run, args=(stop,)) for w in writers]
            for thread in threads:
                thread.start()
            time.sleep(dice.uniform(0.02, 1.0) * SLOW)  # the moment of the kill: any moment is right
            daemon.kill9()
            stop.set()
            for thread in threads:
                thread.join()
            reader.stream.wait_end(30)
            reader.collect()
            began = time.monotonic()
            daemon.start(60)
            started = time.monotonic() - began
            world, unknown = check(daemon, client, writers, number == options.rounds)
            reports = daemon.sanitizer_reports()
            faults = world.faults + reader.faults() + reports
            lost, doubled = lost + len(world.lost), doubled + len(world.doubled)
            passed, failed = passed + (not faults), failed + bool(faults)
            total = sum(len(texts) for w in writers for texts in w.acknowledged.values())
            print(f"round {number}: {total} acknowledged so far, {unknown} without an answer, {len(reader.seqs)} events, "
                  f"up again in {started:.2f} s" + "".join("\n  FAULT " + f for f in faults[:20]), flush=True)
            if faults:
                print("\n".join(daemon.stderr[-40:]))
                break
        # The subscriber catches up with everything at the end.
        reader.connect()
        head = int(client.get("/v1/sessions?limit=1").json["asOf"].split("-")[1])
        reader.stream.wait_seq(head, 60)
        reader.collect()
        faults = reader.faults() + ([] if daemon.stop() == 0 else ["exit code"])
        passed, failed = passed + (not faults), failed + bool(faults)
        for fault in faults:
            print("  FAULT", fault)
        total = sum(len(texts) for w in writers for texts in w.acknowledged.values())
        print(f"rounds {options.rounds} acknowledged {total} lost {lost} doubled {doubled} events {len(reader.seqs)}")
    except Exception as fault:  # noqa: BLE001: whatever it is, the last line must come
        failed += 1
        traceback.print_exc()
        print(f"  FAULT {fault!r}", *daemon.stderr[-40:], sep="\n")
    finally:
        daemon.close()
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()

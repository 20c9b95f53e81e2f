#!/usr/bin/env python3
"""One token does the worst it can, another one works: tests/edge/hostile.py --binary PATH [--seconds 600] [--nice 19] [--slice]

The hostile token is a runner's, limited to one key prefix of the agent that the other works in. Its clients, several processes of
threads, send entries of too many members and bytes, deep ones, topics without end, policies and cases, filters, searches and long
bodies; ask for pages and read none; leave polls; reset and delete; log in and out. Meanwhile the other token posts, reads, patches
and lists: its p50, p99 and slowest are printed by kind, and the daemon's resident memory at its peak. In the end everything of the
other must be as it wrote it, and the hostile one must have seen nothing outside its prefix.

Passed are: the other's p99 of each kind below 50 ms, the memory below 300 MiB, what the other wrote, what the hostile one saw. The
attackers are on the same machine and take its processors, too: --nice 19 lets them do that only where nobody else wants them, which
is nearer to attackers elsewhere. Both are worth measuring. --slice is what `make test` runs: 10 seconds, and nothing timed.
"""

import argparse
import json
import multiprocessing
import os
import random
import re
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness

from harness.report import Report  # noqa: E402
from harness.sessiond import SLOW, Daemon, S, uid  # noqa: E402

PREFIX = "agent:main:guest:"
OTHERS = re.compile(rb"agent:main:work:\w*")
SECRET = "the other's words"
P99_MS, MEMORY_MIB = 50, 300
CONFIG = {"limits": {"bytesPerToken": 16 << 20, "entryBytesPerAgent": 64 << 20, "sessionsPerAgent": 20_000, "streamsPerToken": 32},
          "journal": {"segmentBytes": 16 << 20, "maxBytes": 256 << 20}}


def members(count, prefix="m"):
    return {f"{prefix}{i}": i for i in range(count)}


def nested(depth, inner):
    for _ in range(depth):
        inner = {"n": inner}
    return inner


class Attacker:
    """One client of the hostile token: each attack is a method; what it is told must be of its own prefix."""

    def __init__(self, port, token, seed):
        self.port, self.token, self.random = port, token, random.Random(seed)
        self.sock, self.seen, self.count, self.told = None, [], {}, (b"", b"")
        self.key = f"{PREFIX}p{seed % 7}"

    def head(self, method, path, length=None, **more):
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        if "Cookie" not in more:
            lines.append(f"Authorization: Bearer {self.token}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
        if length is not None:
            lines += [f"Content-Length: {length}", "Content-Type: application/json"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def send(self, method, path, body=None, read=True, **more):
        """Sends a request; its status (0: cut off). With read=False the answer is left where it is."""
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            sock = socket.create_connection(("127.0.0.1", self.port), 30 * SLOW) if not read or self.sock is None else self.sock
            if read:
                self.sock = sock
            sock.sendall(self.head(method, path, None if body is None else len(raw), **more) + raw)
            if not read:
                return sock
            data = b""
            while b"\r\n\r\n" not in data:
                got = sock.recv(1 << 16)
                if not got:
                    raise ConnectionResetError
                data += got
            head, _, rest = data.partition(b"\r\n\r\n")
            length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
            while len(rest) < length:
                got = sock.recv(1 << 20)
                if not got:
                    raise ConnectionResetError
                rest += got
            self.told = head, rest
            told = {name.decode() for name in OTHERS.findall(rest)}  # a refusal may repeat what was asked for
            if SECRET.encode() in rest or any(name not in path for name in told):
                self.seen.append(f"{method} {path}: {rest[:200]!r}")
            if b"connection: close" in head.lower():
                self.close()
            status = int(head.split()[1])
        except (OSError, ValueError, IndexError):
            self.close()
            status = 0
        return status

    def close(self):
        if self.sock is not None:
            self.sock.close()
        self.sock = None

    # -- what it does

    def many_members(self):
        return self.send("PATCH", S(self.key), members(40_000))

    def deep_members(self):
        return self.send("PATCH", S(self.key), {"deep": {"in": members(19_000, str(self.random.random()))}})

    def deep(self):
        return self.send("PATCH", S(self.key), {"d": nested(55, [[]] * 100_000)})

    def big_entry(self):
        return self.send("PATCH", S(f"{PREFIX}b{self.random.randrange(400)}"), {"big": "x" * 1_000_000})

    def create(self):
        key = f"{PREFIX}b{self.random.randrange(400)}"
        return self.send("POST", "/v1/agents/main/sessions", {"key": key, "ifExists": "reuse", "entry": {"big": "y" * 500_000}})

    def long_body(self):
        return self.send("POST", S(self.key, "main", "messages"), {"role": "user", "text": "z" * 4_000_000})

    def names_of_one_hash(self):
        return self.send("POST", S(self.key, "main", "messages"), {"role": "user", "content": [{"type": "x", **members(200_000)}]})

    def topic(self):
        return self.send("POST", S(self.key, "main", "messages") + f"?topic=t{self.random.randrange(1 << 30)}", {"role": "user", "text": "t"})

    def reset(self):
        return self.send("POST", S(self.key, "main", "reset"), {}) if self.random.random() < 0.1 else self.topic()

    def delete(self):
        return self.send("DELETE", S(f"{PREFIX}b{self.random.randrange(400)}") + "?purge=true")

    def spawn(self):
        return self.send("POST", S(self.key, "main", "spawn"), {"entry": members(900)})

    def policy(self):
        rules = [{"match": {"channel": f"c{i}", "to": "t" * 100}, "action": "deny"} for i in range(1000)]
        return self.send("POST", "/v1/policy/evaluate", {"policy": {"rules": rules}, "trace": True,
                                                         "cases": [{"channel": "guest", "sessionKey": self.key}] * self.random.choice((2, 100, 1000))})

    def faults(self):
        return self.send("POST", "/v1/agents/main/sessions", {f"unknown{i}": "x" for i in range(100_000)})

    def fields(self):
        return self.send("GET", S(self.key) + "?fields=" + ",".join(["f"] * self.random.choice((60, 3000))))

    def search(self):
        return self.send("GET", f"/v1/sessions?q={uid()}&limit=200")

    def list(self):
        return self.send("GET", "/v1/sessions?limit=200&include=snapshots")

    def others(self):
        for path in (S("agent:main:work:w0"), S("agent:main:work:w0", "main", "messages"), "/v1/sessions?keyPrefix=agent:main:work:"):
            self.send("GET", path)
        self.send("DELETE", S(f"agent:main:work:w{self.random.randrange(20)}") + "?purge=true")
        self.send("PUT", S(f"agent:main:work:w{self.random.randrange(20)}"), {"label": "taken"})
        return self.send("POST", S(f"agent:main:work:w{self.random.randrange(20)}", "main", "messages"), {"role": "user", "text": "mine"})

    def unread(self):
        socks = [self.send("GET", path, read=False) for path in (S(self.key, "main", "messages") + "?limit=200", "/v1/sessions?limit=200") * 4]
        time.sleep(0.5)  # a client that takes its time
        for sock in socks:
            if isinstance(sock, socket.socket):
                sock.close()
        return 0

    def poll_and_leave(self):
        sock = self.send("GET", "/v1/events?poll=1&replay=1000&types=policy.*", read=False)
        if isinstance(sock, socket.socket):
            sock.close()
        return 0

    def log_in_and_out(self):
        status = self.send("POST", "/v1/login", {"token": self.token})
        cookie = next((line.split(b":", 1)[1].split(b";")[0].strip().decode() for line in self.told[0].split(b"\r\n")
                       if line.lower().startswith(b"set-cookie:")), None)
        if status != 204 or cookie is None or self.send("GET", "/v1/whoami", Cookie=cookie) != 200:
            return status
        return self.send("POST", "/v1/logout", {}, Cookie=cookie, X_CSRF_Token=json.loads(self.told[1])["csrf"])

    def run(self, until):
        attacks = [getattr(self, name) for name in
                   ("many_members", "deep_members", "deep", "big_entry", "create", "long_body", "names_of_one_hash", "topic", "reset",
                    "delete", "spawn", "policy", "faults", "fields", "search", "list", "others", "unread", "poll_and_leave",
                    "log_in_and_out")]
        while time.time() < until:
            attack = self.random.choice(attacks)
            status = attack()
            told = self.count.setdefault(attack.__name__, {})
            told[status] = told.get(status, 0) + 1
        self.close()


def attack(port, token, seed, threads, until, nice, results):
    os.nice(nice)
    attackers = [Attacker(port, token, seed * 1000 + i) for i in range(threads)]
    running = [threading.Thread(target=a.run, args=(until,)) for a in attackers]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    total = {}
    for attacker in attackers:
        for name, told in attacker.count.items():
            for status, count in told.items():
                total.setdefault(name, {}).setdefault(status, 0)
                total[name][status] += count
    results.put(({name: told for name, told in total.items()}, [s for a in attackers for s in a.seen]))


class Worker:
    """The other token: what it wrote is known, each request is timed by kind."""

    def __init__(self, daemon, api):
        self.daemon, self.api, self.times, self.faults = daemon, api, {}, []
        self.texts = {f"agent:main:work:w{i}": [] for i in range(20)}
        self.labels = {}

    def timed(self, kind, status, method, path, body=None):
        begin = time.perf_counter()
        reply = self.api.request(method, path, body)
        self.times.setdefault(kind, []).append((time.perf_counter() - begin) * 1e3)
        if reply.status != status:
            self.faults.append(f"{kind}: {reply}")
        return reply

    def begin(self):
        for key in self.texts:
            reply = self.api.post("/v1/agents/main/sessions", {"key": key, "entry": {"label": "begun"}})
            assert reply.status == 201, reply

    def turn(self, number):
        key = f"agent:main:work:w{number % 20}"
        text = f"{SECRET} {number}"
        if self.timed("append", 201, "POST", S(key, "main", "messages"), {"role": "user", "text": text}).status == 201:
            self.texts[key].append(text)
        self.timed("read", 200, "GET", S(key, "main", "messages") + "?limit=20&order=desc")
        label = f"label {number}"
        if self.timed("patch", 200, "PATCH", S(key), {"label": label}).status == 200:
            self.labels[key] = label
        self.timed("entry", 200, "GET", S(key))
        self.timed("list", 200, "GET", "/v1/agents/main/sessions?limit=20&keyPrefix=agent:main:work:")

    def check(self):
        """What is not as it was written."""
        wrong = []
        for key, texts in self.texts.items():
            entry = self.api.get(S(key)).json
            if not entry or entry.get("label") != self.labels.get(key, "begun"):
                wrong.append(f"{key}: label {entry and entry.get('label')}")
            seen, after = [], None
            while True:
                page = self.api.get(S(key, "main", "messages") + "?limit=200&order=asc" + ("" if after is None else f"&after={after}")).json
                seen += [m["content"][0]["text"] if isinstance(m["content"], list) else m["content"] for m in page["data"]]
                if not page["page"]["hasMore"]:
                    break
                after = page["page"]["nextAfter"]
            if seen != texts:
                wrong.append(f"{key}: {len(seen)} messages instead of {len(texts)}, or others")
        return wrong


def peak_mib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--slice", action="store_true")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = str(Path(options.binary).resolve())
    if options.slice:
        options.seconds, options.processes, options.threads = 10, 2, 2
    report = Report()

    def check(what, good, detail=""):
        report.judge(what, None if good else [detail])

    daemon = Daemon(CONFIG)
    daemon.start()
    try:
        pid = daemon.process.pid
        guest = daemon.token("runner", agents=["main"], keyPrefix=PREFIX)
        worker = Worker(daemon, daemon.client(daemon.token("runner", agents=["main"])))
        worker.begin()
        for i in range(7):
            assert daemon.client().post("/v1/agents/main/sessions", {"key": f"{PREFIX}p{i}"}).status == 201
        for number in range(200):
            worker.turn(number)
        calm, worker.times = worker.times, {}
        results = multiprocessing.Queue()
        until = time.time() + options.seconds
        attackers = [multiprocessing.Process(target=attack, args=(daemon.port, guest, seed, options.threads, until, options.nice, results))
                     for seed in range(options.processes)]
        for process in attackers:
            process.start()
        number = 200
        while time.time() < until and daemon.alive:
            worker.turn(number)
            number += 1
        told, seen = {}, []
        for _ in attackers:
            counts, sights = results.get(timeout=120 * SLOW)
            seen += sights
            for name, by_status in counts.items():
                for status, count in by_status.items():
                    told.setdefault(name, {}).setdefault(status, 0)
                    told[name][status] += count
        for process in attackers:
            process.join()

        print(f"{options.processes} processes of {options.threads} hostile clients for {options.seconds:.0f} s, nice {options.nice}, "
              f"{os.cpu_count()} processors for them and the daemon together, load {os.getloadavg()[0]:.1f}")
        for name in sorted(told):
            print(f"  {name:18} " + ", ".join(f"{status or 'cut off'}: {count}" for status, count in sorted(told[name].items())))
        for label, times in (("calm", calm), ("under attack", worker.times)):
            print(f"the other token, {label} (ms):        p50      p99      max  requests")
            for kind, took in sorted(times.items()):
                took.sort()
                print(f"  {kind:32} {took[len(took) // 2]:8.1f} {took[min(len(took) - 1, len(took) * 99 // 100)]:8.1f} {took[-1]:8.1f} {len(took):9}")
        check("the daemon lives", daemon.alive)
        memory = peak_mib(pid) if daemon.alive else 0
        print(f"resident memory at its peak: {memory:.0f} MiB")
        check("each request of the other was answered as it should be", not worker.faults, worker.faults[:3])
        if not options.slice:
            for kind, took in sorted(worker.times.items()):
                p99 = took[min(len(took) - 1, len(took) * 99 // 100)]
                check(f"p99 of {kind} below {P99_MS} ms", p99 < P99_MS, f"{p99:.1f}")
            check(f"memory below {MEMORY_MIB} MiB", memory < MEMORY_MIB, f"{memory:.0f}")
        wrong = worker.check()
        check("everything of the other is as it wrote it", not wrong, wrong[:3])
        check("the hostile token saw nothing of the other", not seen, seen[:3])
        daemon.kill9()
        daemon.start()
        wrong = worker.check()
        check("and so it is after kill -9 and a start", not wrong, wrong[:3])
        check("the daemon ends as it should", daemon.stop(60) == 0)
    finally:
        daemon.close()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""make cost: how many user instructions the release daemon spends on an operation, all threads, held against budget.json.

One daemon runs under callgrind; one client sends requests of fixed sizes over one connection, one after another. Each
scenario runs in rounds of the same number of requests. The daemon's clock stands still in a round (frozen_clock.c) and
runs after it, so that what goes on behind the requests (transcript lines, the audit log) is done once a round,
however slow the machine is. Callgrind's counts are dumped after each round; those of the median round are told, divided
by the requests. Start-up is in none of them. The kernel's instructions are not counted.

"reader" is what one more event stream costs an appended message: the difference between few and many streams, divided,
in the parts that send it.
The parts are namespaces and libraries: what a function itself executes, with what the compiler put into it from other functions.

Fails when a scenario exceeds its budget by 5 % (--tolerance), or has none. `make test` allows 25 %: it measures beside other suites, and
stops what has become far too dear; `make cost`, by itself, judges. --update lowers the numbers of scenarios that have become cheaper, and
adds missing ones; to raise a number, edit the file and say why in the commit message. Needs the Debian package valgrind.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # harness
sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.report import Report  # noqa: E402
from harness.sessiond import REPO, SLOW, Daemon, S  # noqa: E402
from scale import NOW, write_sessions, write_transcript  # noqa: E402

BUDGET = Path(__file__).with_name("budget.json")
ROUNDS = 3
IDLE = 200_000  # instructions in 0.3 s: timers only
BEHIND_S = 0.4  # until the timers behind a write have expired: the audit log's lines are gathered for 0.2 s
READERS = (20, 420)  # event streams open
OF_READER = ("stream", "asio", "beast", "http", "runtime", "std", "libc", "memory")  # what a reader costs; appends vary in the others
MARKER = b"########"  # a number that no other request of the run has
AGENT = "bench"  # the requests that write; `main` holds what is listed and read, and rests
BIG = "agent:main:bench:direct:u00000000"

# A namespace of ours counts as the part of its own name, unless NAMESPACES names another one. LIBRARIES names the part of a
# shared library.
NAMESPACES = {"answers": "store", "lock": "store", "sessions": "store", "delivery": "store", "frames": "stream"}
LIBRARIES = {"libjemalloc": "memory", "libc": "libc", "libcrypto": "crypto", "libdeflate": "crc", "libstdc++": "std", "libfmt": "fmt", "libspdlog": "fmt"}
FOLDERS = {"api", "auth", "decide", "http", "journal", "json", "ledger", "policy", "runtime", "store", "stream", "transcripts"}
SCOPED = re.compile(r"_Z+N?[KVrRO]*(?:(?P<std>S[a-z])|(?P<length>\d))")
LENGTH = re.compile(r"\d+")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(REPO / "build" / "release" / "sessiond"))
    parser.add_argument("--only", action="append", default=[], help="scenarios whose name contains this; may be given again")
    parser.add_argument("--tolerance", type=float, default=5, help="percent over its budget that a scenario may cost (5)")
    parser.add_argument("--update", action="store_true", help="lower the budget to what was counted")
    parser.add_argument("--keep", metavar="DIR", help="copy each scenario's counts there, for callgrind_annotate")
    parser.add_argument("--search", action="store_true", help="with the index of the search, whose thread is counted too")
    return parser.parse_args()


# --- counting ---

def scope_of(name):
    """Where a mangled name belongs: _ZN8sessiond4http6RouterC2Ev -> ["sessiond", "http"]."""
    found = SCOPED.match(name)
    if not found:
        return ["", ""]
    if found["std"]:
        return ["std", ""]
    scope, at = [], found.start("length")
    while len(scope) < 2 and (length := LENGTH.match(name, at)):
        at = length.end() + int(length[0])
        scope.append(name[length.end():at])
    return [*scope, ""][:2]


def part_of(library, name):
    if library != "sessiond":
        return LIBRARIES.get(library.split(".so")[0], "other")
    outer, inner = scope_of(name)
    if outer == "sessiond":
        return NAMESPACES.get(inner, inner if inner in FOLDERS else "other")
    if outer == "boost":
        return inner if inner in ("asio", "beast") else "other"
    return {"std": "std", "__gnu_cxx": "std", "fmt": "fmt", "boost_asio_handler_invoke_helpers": "asio"}.get(outer, "other")


def read_dump(path):
    """Instructions by part. Format: https://valgrind.org/docs/manual/cl-format.html; a name is written out once."""
    counts, names, libraries = Counter(), {}, {}
    current = library = ""
    of_callee = False
    with open(path, encoding="utf-8", errors="replace") as dump:
        for line in dump:
            key, equals, value = line.rstrip("\n").partition("=")
            if not equals:
                if line[:1] in "0123456789+-*" and line.strip():
                    if not of_callee:
                        counts[library, current] += int(line.split()[1])
                    of_callee = False
            elif key == "calls":
                of_callee = True  # the next line is what the callee cost
            elif key in ("fn", "cfn", "ob", "cob"):
                number, _, text = value.partition(" ")
                known = names if key.endswith("fn") else libraries
                if text:
                    known[number] = text
                if key == "fn":
                    current = known[number]
                elif key == "ob":
                    library = os.path.basename(known[number])
    parts = Counter()
    for (library, name), count in counts.items():
        parts[part_of(library, name)] += count
    return parts


class FrozenClock:
    """Stops the daemon's monotonic clock while in scope."""

    def __init__(self, directory):
        library, self.file = str(directory / "frozen_clock.so"), str(directory / "clock")
        subprocess.run(["clang-19", "-O2", "-shared", "-fPIC", "-o", library, str(Path(__file__).with_name("frozen_clock.c"))], check=True)
        self._write(0)
        self.environment = {"LD_PRELOAD": library, "FROZEN_CLOCK": self.file}

    def _write(self, nanoseconds):
        with open(self.file, "r+b" if os.path.exists(self.file) else "wb") as out:
            out.write(nanoseconds.to_bytes(8, sys.byteorder))

    def __enter__(self):
        self._write(time.monotonic_ns())

    def __exit__(self, *_):
        self._write(0)


class Counted:
    """The daemon under callgrind."""

    def __init__(self, keep, search):
        self.keep, self.dumps = keep, 0
        # The index of the search has a thread of its own and gathers what it is behind: its share would be another one in each run.
        self.daemon = Daemon(config={"store": {"checkpointDuty": 0.001}, "search": {"enabled": search}})
        self.out = str(self.daemon.home / "callgrind.out")
        self.vgdb = f"--vgdb-prefix={self.daemon.home / 'vgdb'}"
        self.clock = FrozenClock(self.daemon.home)
        self.daemon.env.update(self.clock.environment)
        self.daemon.wrapper = ["valgrind", "--quiet", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={self.out}", self.vgdb]

    def start(self):
        self.daemon.start(timeout=120)

    def dump(self):
        """The counts since the last dump, and their file."""
        subprocess.run(["vgdb", self.vgdb, f"--pid={self.daemon.process.pid}", "dump"], check=True, capture_output=True, timeout=60 * SLOW)
        self.dumps += 1
        path = f"{self.out}.{self.dumps}"
        return read_dump(path), path

    def rest(self):
        """Waits until the daemon has done what goes on behind the requests: no thread of it runs."""
        time.sleep(BEHIND_S)
        idle = 0
        while idle < 3:
            states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{self.daemon.process.pid}/task").glob("*/stat")]
            idle = idle + 1 if set(states) == {"S"} else 0
            time.sleep(0.03)

    def settle(self):
        """Waits until the daemon has loaded and indexed what it was started on."""
        for _ in range(200):
            time.sleep(0.3)
            counts, path = self.dump()
            os.unlink(path)
            if counts.total() < IDLE:
                return
        raise SystemExit("the daemon does not come to rest")

    def measure(self, name, operation, count):
        """Counts of the median round, an operation. The first round warms up and does not count."""
        rounds = []
        for _ in range(1 + ROUNDS):
            with self.clock:
                for _ in range(count):
                    operation()
            self.rest()
            rounds.append(self.dump())
        counts, path = sorted(rounds[1:], key=lambda counted: counted[0].total())[ROUNDS // 2]
        if self.keep:
            shutil.copyfile(path, Path(self.keep) / f"{name.replace(' ', '-')}.callgrind")
        for _, each in rounds:
            os.unlink(each)
        return Counter({part: instructions / count for part, instructions in counts.items()})


# --- the client ---

class Connection:
    """Sends prepared requests and reads their replies."""

    def __init__(self, daemon):
        self.token = daemon.admin_token
        self.socket = socket.create_connection(("127.0.0.1", daemon.port), 60 * SLOW)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = 0

    def prepare(self, method, path, body=None, headers=()):
        """A function that sends the request once. MARKER in it becomes a number that no request had before."""
        data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}", *headers]
        if data:
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            lines += [f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
        request = "\r\n".join([*lines, "", ""]).encode() + data

        def send():
            self.number += 1
            self.socket.sendall(request.replace(MARKER, b"%08d" % self.number))
            status, reply = self.read()
            if not 200 <= status < 300:
                raise SystemExit(f"{method} {path}: {status} {reply[:300]!r}")
            return reply

        return send

    def read(self):
        reply = b""
        while b"\r\n\r\n" not in reply:
            reply += self.receive()
        head, _, body = reply.partition(b"\r\n\r\n")
        length = int(re.search(rb"\r\nContent-Length: (\d+)", head, re.IGNORECASE)[1])
        while len(body) < length:
            body += self.receive()
        return int(head.split()[1]), body

    def receive(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise SystemExit("the daemon closed the connection")
        return data


class Readers:
    """Event streams that read every event as it comes."""

    def __init__(self, daemon):
        self.daemon, self.streams = daemon, []

    def grow(self, count):
        while len(self.streams) < count:
            stream = Connection(self.daemon)
            stream.socket.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {stream.token}\r\n\r\n".encode())
            self.streams.append(stream)
            self.wait(stream, b"event: stream.hello")

    @staticmethod
    def wait(stream, event):
        data = b""
        while event not in data or not data.endswith(b"\n\n"):
            data += stream.receive()

    def wait_all(self):
        for stream in self.streams:
            self.wait(stream, b"event: message.appended")


# --- the scenarios ---

def prepare_state(state):
    """10 000 sessions as POST /v1/inbound makes them. The first is as POST …/sessions makes it, and has 200 messages of 100 bytes."""
    def entry(n):
        made = {"sessionId": f"{n:08x}-0000-4000-8000-000000000000", "updatedAt": NOW + n, "createdAt": NOW + n, "sessionStartedAt": NOW + n,
                "messageCount": 1, "channel": "bench", "chatType": "direct"}
        peer = f"u{n:08}"
        met = {"origin": {"label": peer, "provider": "bench", "surface": "bench", "chatType": "direct", "from": peer, "to": peer},
               "displayName": peer, "lastChannel": "bench", "lastTo": peer, "deliveryContext": {"channel": "bench", "to": peer},
               "lastInteractionAt": NOW + n, "rev": 1}
        return {**made, **(met if n else {"label": "new"})}

    folder = write_sessions(state, ((f"agent:main:bench:direct:u{n:08}", entry(n)) for n in range(10_000)))
    first = entry(0)["sessionId"]
    write_transcript(os.path.join(folder, f"{first}.jsonl"), first, 200, 200 * 280)


def text(size):
    return (MARKER.decode() + " the quick brown fox jumps over the lazy dog and" * (size // 40 + 1))[:size]


def scenarios(connection):
    """(name, one operation, operations a round). Each that writes has a session of its own; `main` is read while it is in memory."""
    message = {"role": "user", "text": text(100)}

    def session(peer, *more):
        key = f"agent:{AGENT}:bench:direct:{peer}"
        connection.prepare("POST", f"/v1/agents/{AGENT}/sessions",
                           {"key": key, "ifExists": "reuse", "entry": {"channel": "bench", "chatType": "direct", "label": "new"}})()
        return S(key, AGENT, *more)

    batch = {"entries": [{"type": "message", "message": message}] * 50}
    inbound = {"agent": AGENT, "channel": "bench", "chatType": "direct", "peer": "u00000005", "text": text(100)}
    once = [f"Idempotency-Key: bench:{MARKER.decode()}"]
    session("u00000005")
    return [
        ("GET session", connection.prepare("GET", S(BIG)), 60),
        ("list of 50", connection.prepare("GET", "/v1/agents/main/sessions?limit=50"), 8),
        ("page of 50", connection.prepare("GET", S(BIG, "main", "messages") + "?order=desc&limit=50"), 8),
        ("view of 100", connection.prepare("GET", S(BIG, "main", "messages") + "?view=llm&maxMessages=100"), 8),
        ("append 100 B", connection.prepare("POST", session("u00000001", "messages"), message), 40),
        ("append 4 KiB", connection.prepare("POST", session("u00000002", "messages"), {"role": "user", "text": text(4096)}), 40),
        ("batch of 50", connection.prepare("POST", session("u00000003", "messages"), batch), 8),
        ("patch", connection.prepare("PATCH", session("u00000004"), {"label": f"bench-{MARKER.decode()}"}), 40),
        ("inbound", connection.prepare("POST", "/v1/inbound", inbound, once), 40),
        ("outbound", connection.prepare("POST", session("u00000006", "outbound"), {"text": text(100)}), 40),
    ]


def reader(counted, append):
    readers = Readers(counted.daemon)

    def operation():
        append()
        readers.wait_all()

    costs = []
    for streams in READERS:
        readers.grow(streams)
        costs.append(counted.measure(f"{streams} readers", operation, 8))
    few, many = costs
    more = READERS[1] - READERS[0]
    return Counter({part: (many[part] - few[part]) / more for part in OF_READER})


def is_wanted(name, options, report):
    return report.wants(name) and (not options.only or any(part in name for part in options.only))


def count_all(options, report):
    """{scenario: instructions by part}"""
    counted = Counted(options.keep, options.search)
    costs = {}
    try:
        prepare_state(counted.daemon.state)
        counted.start()
        connection = Connection(counted.daemon)
        all_scenarios = scenarios(connection)
        for _, operation, _ in all_scenarios:
            operation()
        counted.settle()
        for name, operation, count in all_scenarios:
            if is_wanted(name, options, report):
                costs[name] = counted.measure(name, operation, count)
        if is_wanted("reader", options, report):
            append = next(operation for name, operation, _ in all_scenarios if name == "append 100 B")
            costs["reader"] = reader(counted, append)
    finally:
        counted.daemon.close()
    return costs


# --- the table ---

def number(value):
    return f"{value:,.0f}".replace(",", " ")


def print_table(costs, budget):
    def row(title, cells):
        print(f"{title:<14}" + "".join(f"{cell:>13}" for cell in cells))

    parts = sum(costs.values(), Counter())
    row("instructions", costs)
    for part, _ in parts.most_common():
        row(f"  {part}", [number(each[part]) for each in costs.values()])
    row("all", [number(each.total()) for each in costs.values()])
    row("budget", [number(budget[name]) if name in budget else "none" for name in costs])
    row("", [f"{100 * (each.total() / budget[name] - 1):+.1f} %" if name in budget else "" for name, each in costs.items()])


def main():
    options = arguments()
    if not shutil.which("valgrind"):
        raise SystemExit("valgrind is not installed")
    if not os.access(options.binary, os.X_OK):
        raise SystemExit(f"{options.binary} is not there; build the release preset first")
    os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
    budget = json.loads(BUDGET.read_text()) if BUDGET.exists() else {}
    report = Report()
    costs = count_all(options, report)
    print_table(costs, budget)
    if options.update:
        for name, each in costs.items():
            budget[name] = min(budget.get(name, sys.maxsize), round(each.total()))
        BUDGET.write_text(json.dumps(budget, indent=2) + "\n")
    if not options.only and report.only is None:
        for name in budget.keys() - costs.keys():
            report.failed(name, f"{BUDGET.name} has a number for it, and there is no such scenario")
    for name, each in costs.items():
        if name not in budget:
            report.failed(name, f"{number(each.total())} instructions, and no number in {BUDGET.name}; --update adds it")
        elif each.total() > (1 + options.tolerance / 100) * budget[name]:
            report.failed(name, f"{number(each.total())} instructions, over the budget of {number(budget[name])} by more than {options.tolerance:g} %")
        else:
            report.passed(name)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

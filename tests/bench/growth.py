#!/usr/bin/env python3
"""make bench: what an operation costs as things grow, and what a small request waits beside a big one.

1. Processor time of the daemon for each operation (all threads, user and system), in µs: over stores of 100 to 1 000 000 sessions,
   transcripts of 10 to 2 000 000 lines, entries of 1 to 100 KB, and of an event to 1 to 10 000 readers. Flat is good. What is done behind
   the answer (checkpoints of a sessions.json of that size) is in it.
2. Beside each job that takes long (a list that looks at every session, a whole transcript, a model's view of a long one, a reply of 200
   sessions, an export, a backup) another connection gets one small session again and again: its p99.

Needs the release build and Python 3.
"""

import argparse
import contextlib
import http.client
import json
import os
import resource
import selectors
import socket
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from daemon import Beside, need  # noqa: E402
from scale import NOW, ROOT, Life, Probe, Session, Targets, messages, store_entries, write_sessions, write_transcript  # noqa: E402

KEY = "agent:main:bench:direct:u00000007"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=os.path.join(ROOT, "build/release/sessiond"))
    parser.add_argument("--dir", default=os.path.join(ROOT, "build"), help="where the state directories are made; a real disk")
    parser.add_argument("--sessions", type=int, nargs="+", default=[100, 10_000, 100_000, 1_000_000])
    parser.add_argument("--lines", type=int, nargs="+", default=[10, 10_000, 200_000, 2_000_000])
    parser.add_argument("--kilobytes", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--readers", type=int, nargs="+", default=[1, 10, 100, 1000, 10_000])
    parser.add_argument("--requests", type=int, default=4000, help="for each figure")
    parser.add_argument("--seconds", type=float, default=5, help="that each long job goes on, beside the small request")
    parser.add_argument("--only", choices=("growth", "beside"))
    return parser.parse_args()


def cpu_s(daemon):
    threads = f"/proc/{daemon.pid}/task"
    total = 0
    for thread in os.listdir(threads):
        with open(f"{threads}/{thread}/schedstat", encoding="ascii") as spent:
            total += int(spent.read().split()[0])
    return total / 1e9


def cost(daemon, session, requests, method, path, body=None):
    """µs of processor time that a request takes, the work behind the last answer included."""
    for _ in range(20):
        session.call(method, path, body)
    before = cpu_s(daemon)
    for _ in range(requests):
        session.call(method, path, body)
    if method != "GET":
        settle(daemon)
    return (cpu_s(daemon) - before) * 1e6 / requests


def settle(daemon):
    """Waits until what was done behind the answers is done: the processor rests for half a second."""
    give_up = time.monotonic() + 60
    last = cpu_s(daemon)
    while time.monotonic() < give_up:
        time.sleep(0.5)
        now = cpu_s(daemon)
        if now - last < 0.02:
            return
        last = now


def row(what, figures):
    print(f"  {what:<34}" + "".join(f"{figure:>12.1f}" for figure in figures), flush=True)


def grow_sessions(options):
    print("\nµs a request, by sessions in the store\n  " + " " * 34 + "".join(f"{n:>12}" for n in options.sessions))
    body = json.dumps({"role": "user", "text": "x" * 100})
    operations = {"append of 100 bytes": ("POST", messages(KEY), body),
                  "patch of one field": ("PATCH", "/v1/agents/main/sessions/" + KEY, None),
                  "GET of a session": ("GET", "/v1/agents/main/sessions/" + KEY, None),
                  "list of 50": ("GET", "/v1/agents/main/sessions?limit=50", None)}
    figures = {name: [] for name in operations}
    first = []
    for count in options.sessions:
        with contextlib.ExitStack() as stack:
            life = Life(options, stack)
            write_sessions(life.state, store_entries(count))
            daemon = life.start()
            with Session(daemon) as session:
                first.append(session.call("GET", "/v1/agents/main/sessions?limit=50")[0])
                settle(daemon)
                for name, (method, path, sent) in operations.items():
                    if method == "PATCH":
                        figures[name].append(patch_cost(daemon, session, options.requests, path))
                    else:
                        figures[name].append(cost(daemon, session, options.requests, method, path, sent))
    for name, values in figures.items():
        row(name, values)
    row("first list after a start, ms", first)


def patch_cost(daemon, session, requests, path):
    before = cpu_s(daemon)
    for number in range(requests):
        session.call("PATCH", path, json.dumps({"label": f"label {number}"}))
    settle(daemon)
    return (cpu_s(daemon) - before) * 1e6 / requests


def grow_transcript(options):
    print("\nµs a request, by lines of the transcript\n  " + " " * 34 + "".join(f"{n:>12}" for n in options.lines))
    figures = {"append of 100 bytes": [], "newest page of 50": [], "view=llm, 20 behind a compaction": []}
    for count in options.lines:
        with contextlib.ExitStack() as stack:
            life = Life(options, stack)
            folder = write_sessions(life.state, [(KEY, {"sessionId": "big", "updatedAt": NOW})])
            write_transcript(os.path.join(folder, "big.jsonl"), "big", count, count * 500)
            daemon = life.start()
            with Session(daemon) as session:
                session.call("GET", messages(KEY) + "?order=desc&limit=50")
                turns = [{"role": role, "text": "and so on"} for _ in range(10) for role in ("user", "assistant")]
                appended = session.call("POST", messages(KEY), json.dumps({"entries": turns}))[1]
                session.call("POST", messages(KEY).replace("/messages", "/compact"),
                             json.dumps({"summary": "what was said", "firstKeptEntryId": appended["ids"][0]}))
                settle(daemon)
                figures["view=llm, 20 behind a compaction"].append(cost(daemon, session, options.requests, "GET", messages(KEY) + "?view=llm"))
                figures["newest page of 50"].append(cost(daemon, session, options.requests, "GET", messages(KEY) + "?order=desc&limit=50"))
                body = json.dumps({"role": "user", "text": "x" * 100})
                figures["append of 100 bytes"].append(cost(daemon, session, options.requests, "POST", messages(KEY), body))
    for name, values in figures.items():
        row(name, values)


def grow_entries(options):
    print("\nµs a request, by KB of the entry\n  " + " " * 34 + "".join(f"{n:>12}" for n in options.kilobytes))
    figures = []
    with contextlib.ExitStack() as stack:
        life = Life(options, stack)
        write_sessions(life.state, store_entries(100))
        daemon = life.start()
        with Session(daemon) as session:
            for size in options.kilobytes:
                body = json.dumps({"role": "user", "text": "x" * (size * 1000)})
                figures.append(cost(daemon, session, min(options.requests, 1000), "POST", messages(KEY), body))
    row("append", figures)


class Reader:
    """An event stream of which only the ends of events are looked at."""

    def __init__(self, daemon):
        self.socket = socket.create_connection(("127.0.0.1", daemon.port), 60)
        self.socket.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.token}\r\n\r\n".encode())
        self.rest = b""
        while b"event: stream.hello" not in self.rest or not self.rest.endswith(b"\n\n"):
            self.rest += self.socket.recv(1 << 16)
        self.rest = b""

    def read(self):
        """How many messages came."""
        self.rest += self.socket.recv(1 << 16)
        whole, end, self.rest = self.rest.rpartition(b"\n\n")
        return (whole + end).count(b"event: message.appended\n")


def grow_readers(options):
    """Each event is sent when every reader has the one before."""
    events = 50
    body = json.dumps({"role": "user", "text": "x" * 100})
    print(f"\nµs an event of 100 bytes, by readers ({events} events, one at a time)\n  " + " " * 34
          + "".join(f"{n:>12}" for n in options.readers))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    figures = {"an event, to all": [], "each reader": []}
    with contextlib.ExitStack() as stack:
        life = Life(options, stack, {"limits": {"connections": max(options.readers) + 100}})
        write_sessions(life.state, store_entries(10))
        daemon = life.start()
        selector = stack.enter_context(selectors.DefaultSelector())
        session = stack.enter_context(Session(daemon))
        open_readers = 0
        for count in options.readers:
            for _ in range(count - open_readers):
                reader = Reader(daemon)
                stack.callback(reader.socket.close)
                selector.register(reader.socket, selectors.EVENT_READ, reader)
            open_readers = count
            settle(daemon)
            before = cpu_s(daemon)
            for _ in range(events):
                session.call("POST", messages(KEY), body)
                came = 0
                while came < count:
                    came += sum(key.data.read() for key, _ in selector.select(60))
            spent = (cpu_s(daemon) - before) * 1e6 / events
            figures["an event, to all"].append(spent)
            figures["each reader"].append(spent / count)
    for name, values in figures.items():
        row(name, values)


class Job(Beside):
    """Asks the same big thing again and again while in scope."""

    def __init__(self, daemon, method, path):
        super().__init__()
        self.daemon, self.method, self.path = daemon, method, path
        self.done, self.bytes, self.refused = 0, 0, None

    def __exit__(self, *_):
        super().__exit__()
        if self.refused:
            raise SystemExit(self.refused)

    def _run(self):
        while not self._stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=120)
            connection.request(self.method, self.path, headers={"Authorization": f"Bearer {self.daemon.token}"})
            reply = connection.getresponse()
            if reply.status >= 300:
                self.refused = f"{self.method} {self.path}: {reply.status} {reply.read()[:300]!r}"
                return
            while not self._stop.is_set() and (piece := reply.read(1 << 20)):
                self.bytes += len(piece)
            self.done += 1
            connection.close()


def measure_beside(options, targets):
    sessions, lines = 100_000, 1_000_000
    with contextlib.ExitStack() as stack:
        life = Life(options, stack)
        entries = list(store_entries(sessions))
        entries.append(("agent:main:big", {"sessionId": "big", "updatedAt": NOW}))
        folder = write_sessions(life.state, entries)
        write_transcript(os.path.join(folder, "big.jsonl"), "big", lines, lines * 400)
        daemon = life.start()
        big = "/v1/agents/main/sessions/agent:main:big"
        jobs = {"a list that looks at all of 100 000 sessions": "/v1/agents/main/sessions?q=nobody+has+this&limit=50",
                "a reply of 200 sessions": "/v1/agents/main/sessions?limit=200",
                "every session, page by page": "/v1/sessions?limit=200",
                "200 messages of 1 000 000": big + "/messages?limit=200",
                "the whole transcript, 400 MB": big + "/transcript",
                "a model's view of it": big + "/messages?view=llm&maxMessages=2000",
                "an export of it": big + "/export?format=jsonl",
                "a backup": "/v1/admin/backup"}
        with Session(daemon) as session:
            session.call("GET", "/v1/agents/main/sessions?limit=1")
            session.call("GET", big + "/messages?limit=1")
            settle(daemon)
        print(f"\na small GET beside a long job: {sessions} sessions, a transcript of {lines} lines")
        with Probe(daemon, "/v1/agents/main/sessions/" + KEY) as probe:
            time.sleep(options.seconds)
        print(f"  {'nothing':<50}{probe.told()}", flush=True)
        for what, path in jobs.items():
            with Job(daemon, "POST" if path.endswith("backup") else "GET", path) as job, \
                    Probe(daemon, "/v1/agents/main/sessions/" + KEY) as probe:
                time.sleep(options.seconds)
            print(f"  {what:<50}{probe.told()}  ({job.done} done, {job.bytes / 1e6:.0f} MB)", flush=True)
            targets.line(f"p99 beside {what}", probe.took[len(probe.took) * 99 // 100], 5)


def main():
    options = arguments()
    need(options.daemon)
    targets = Targets()
    if options.only in (None, "growth"):
        grow_entries(options)
        grow_readers(options)
        grow_transcript(options)
        grow_sessions(options)
    if options.only in (None, "beside"):
        measure_beside(options, targets)
    return 1 if targets.missed else 0


if __name__ == "__main__":
    sys.exit(main())

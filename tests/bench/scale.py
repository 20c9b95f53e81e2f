#!/usr/bin/env python3
"""make bench: what size costs. A transcript of 1 GiB and 2 million lines; a store of 100 000 sessions with 1 GiB of journal.

Prints first indexing, pages from the beginning, the middle and the end, an entry by its id, what memory they cost, and the same as the
first thing after a restart; then start-up from exec to the first 200 of /readyz with the first list after it, and what reads wait while
a big sessions.json is checkpointed all the time. "cold": the state directory's files are put out of the page cache first. Needs the
release build, Python 3, and 4 GiB of disk in --dir, which it gives back.
"""

import argparse
import contextlib
import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from daemon import Beside, CheckpointCounter, Daemon, need  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GIB = 1 << 30
BIG = "agent:main:big"
SMALL = "agent:main:small"
NOW = 1_767_225_600_000  # ms; what is generated is from then


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=os.path.join(ROOT, "build/release/sessiond"))
    parser.add_argument("--client", default=os.path.join(ROOT, "build/release/tests/bench/sessiond_bench"))
    parser.add_argument("--dir", default=os.path.join(ROOT, "build"), help="where the state directories are made; a real disk")
    parser.add_argument("--lines", type=int, default=2_000_000, help="of the transcript")
    parser.add_argument("--bytes", type=int, default=GIB, help="of the transcript, and of the journal")
    parser.add_argument("--sessions", type=int, default=100_000, help="in the store")
    parser.add_argument("--only", choices=("transcript", "store"))
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    return parser.parse_args()


class Targets:
    """What was to be, and is or is not."""

    def __init__(self):
        self.missed = False

    def line(self, what, value, limit=None, unit="ms"):
        verdict = ""
        if limit is not None:
            met = value < limit
            self.missed = self.missed or not met
            verdict = f"  {'met' if met else 'MISSED'} (< {limit:g} {unit})"
        print(f"  {what:<64}{value:>10.1f} {unit}{verdict}", flush=True)


class Life:
    """One state directory and the daemon on it, over restarts; ended and removed with the scope."""

    def __init__(self, options, stack, more=None):
        self.binary, self.more, self.daemon = options.daemon, more, None
        self.directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-", dir=options.dir, ignore_cleanup_errors=True))
        self.state = os.path.join(self.directory, "state")
        stack.callback(self.stop)

    def start(self):
        self.daemon = Daemon(self.binary, self.directory, self.more)
        return self.daemon

    def stop(self):
        if self.daemon:
            self.daemon.stop()

    def kill(self):
        self.daemon.process.kill()
        self.daemon.process.wait()


class Session:
    """One keep-alive connection; calls are timed."""

    def __init__(self, daemon):
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=120)
        self.headers = {"Authorization": f"Bearer {daemon.token}", "Content-Type": "application/json"}
        self.connection.connect()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def call(self, method, path, body=None, headers=None):
        """(ms, parsed body) of a request that must succeed."""
        start = time.perf_counter()
        self.connection.request(method, path, body=body, headers={**self.headers, **(headers or {})})
        reply = self.connection.getresponse()
        raw = reply.read()
        took = (time.perf_counter() - start) * 1e3
        if not 200 <= reply.status < 300:
            raise SystemExit(f"{method} {path}: {reply.status} {raw[:300]!r}")
        return took, json.loads(raw)


class Probe(Beside):
    """Asks the same small thing again and again while in scope: what everybody else waits meanwhile."""

    def __init__(self, daemon, path):
        super().__init__()
        self.daemon, self.path = daemon, path
        self.took = []

    def _run(self):
        with Session(self.daemon) as session:
            while not self._stop.is_set():
                self.took.append(session.call("GET", self.path)[0])
                time.sleep(0.0005)

    def __exit__(self, *_):
        super().__exit__()
        self.took.sort()

    def told(self):
        return f"p50 {self.took[len(self.took) // 2]:.2f}, p99 {self.took[len(self.took) * 99 // 100]:.2f}, most {self.took[-1]:.2f} ms"


def rss_mib(daemon):
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


def forget_cached(directory):
    """Puts every file below out of the page cache; needs no rights."""
    for folder, _, files in os.walk(directory):
        for name in files:
            fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def entry_id(seq):
    return f"{seq * 0x9E3779B97F4A7C15 % (1 << 64):016x}"


def messages(key):
    return f"/v1/agents/main/sessions/{key}/messages"


def write_sessions(state, entries):
    """sessions.json, one entry a line; `entries` are (key, entry)."""
    folder = os.path.join(state, "agents", "main", "sessions")
    os.makedirs(folder, 0o700)
    with open(os.path.join(folder, "sessions.json"), "w", encoding="ascii") as out:
        for n, (key, entry) in enumerate(entries):
            out.write(("{" if n == 0 else ",") + f"\n{json.dumps(key)}: {json.dumps(entry, separators=(',', ':'))}")
        out.write("\n}\n")
    return folder


def write_transcript(path, session_id, lines, size):
    header = f'{{"type":"session","version":3,"id":"{session_id}","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}}\n'
    empty = ('{"type":"message","id":"%s","parentId":"%s","timestamp":"2026-01-01T00:00:00.000Z","message":'
             '{"role":"user","content":"%s","timestamp":1767225600000}}\n')
    text = ("the quick brown fox jumps over the lazy dog " * 100)[:max(size // lines - len(empty % (entry_id(0), entry_id(0), "")), 1)]
    before, between, after = (empty % ("\0", "\0", text)).split("\0")
    with open(path, "w", encoding="ascii", buffering=1 << 20) as out:
        out.write(header)
        parent = "0" * 16
        for seq in range(lines):
            own = entry_id(seq)
            out.write(f"{before}{own}{between}{parent}{after}")
            parent = own


# --- a big transcript ---

def pages(lines):
    return [("first page", "?limit=50", 0), ("middle page", f"?after={lines // 2 - 1}&limit=50", lines // 2),
            ("last page", "?order=desc&limit=50", None), ("an entry near the beginning by id", "/" + entry_id(100), 100)]


def check_page(what, body, first):
    data = body.get("data", [body])
    if first is not None and data[0]["seq"] != first:
        raise SystemExit(f"{what}: begins with seq {data[0]['seq']}, not {first}")


def measure_view(options, targets, session, daemon, small_page):
    """The 100 messages behind a compaction at the end of the transcript, as a model is shown them."""
    context = messages(BIG).replace("/messages", "/context")
    with Probe(daemon, small_page) as probe:
        took, _ = session.call("GET", context)
    targets.line("how full the window is, nothing measured yet", took)
    print(f"    meanwhile a page of another session: {probe.told()}")
    turns = [{"role": role, "text": f"{role} {turn} " + "and so on " * 20} for turn in range(50) for role in ("user", "assistant")]
    _, appended = session.call("POST", messages(BIG), json.dumps({"entries": turns}))
    session.call("POST", messages(BIG).replace("/messages", "/compact"),
                 json.dumps({"summary": "what was said", "firstKeptEntryId": appended["ids"][0]}))
    for what, path, limit in (("view=llm of 100 messages behind the others, p99 of 300", messages(BIG) + "?view=llm", 5),
                              ("how full the window is, p99 of 300", context, 5)):
        took = []
        for _ in range(300):
            ms, body = session.call("GET", path)
            if "data" in body and len(body["data"]) != 102:
                raise SystemExit(f"the view has {len(body['data'])} rows, not 102")
            took.append(ms)
        targets.line(what, sorted(took)[296], limit)


def measure_transcript(options, targets, stack):
    life = Life(options, stack)
    folder = write_sessions(life.state, [(BIG, {"sessionId": "big", "updatedAt": NOW}), (SMALL, {"sessionId": "small", "updatedAt": NOW})])
    transcript = os.path.join(folder, "big.jsonl")
    write_transcript(transcript, "big", options.lines, options.bytes)
    write_transcript(os.path.join(folder, "small.jsonl"), "small", 100, 50_000)
    print(f"transcript of {options.lines} lines, {os.path.getsize(transcript) / GIB:.2f} GiB")
    small_page = messages(SMALL) + "?limit=20"

    forget_cached(life.state)
    daemon = life.start()
    with Session(daemon) as session:
        session.call("GET", small_page)
        before = rss_mib(daemon)
        for what, path, first in pages(options.lines):
            if what not in ("first page", "an entry near the beginning by id"):
                continue
            with Probe(daemon, small_page) as probe:
                took, body = session.call("GET", messages(BIG) + path)
            check_page(what, body, first)
            targets.line(f"{what}, nothing indexed yet", took)
            print(f"    meanwhile a page of another session: {probe.told()}")
        measure_view(options, targets, session, daemon, small_page)
        for what, path, first in pages(options.lines):
            took = []
            for _ in range(50):
                ms, body = session.call("GET", messages(BIG) + path)
                check_page(what, body, first)
                took.append(ms)
            targets.line(f"{what}, warm, median of 50", statistics.median(took), 10)
            targets.line(f"{what}, warm, the slowest", max(took))
        batch = json.dumps({"entries": [{"type": "message", "id": f"f{n:015x}", "message": {"role": "user", "content": "x"}} for n in range(1000)]})
        took, body = session.call("POST", messages(BIG), batch)
        targets.line("POST of 1000 entries with ids of the client's", took)
        took, body = session.call("POST", messages(BIG), batch)
        if body["duplicates"] != 1000:
            raise SystemExit(f"{body['duplicates']} duplicates of 1000")
        targets.line("the same again: 1000 duplicates", took)
        targets.line("memory, after all that", rss_mib(daemon) - before, 64, "MiB")
    for kind in ("warm", "cold"):
        for what, path, first in pages(options.lines):
            took = []
            for _ in range(3):
                life.stop()
                if kind == "cold":
                    forget_cached(life.state)
                with Session(life.start()) as session:
                    ms, body = session.call("GET", messages(BIG) + path)
                check_page(what, body, first)
                took.append(ms)
            targets.line(f"{what}, first request after a restart, {kind}, median of 3", statistics.median(took), 100)


# --- a big store ---

def store_entries(count):
    for n in range(count):
        yield (f"agent:main:bench:direct:u{n:08}",
               {"sessionId": f"{n:08x}-0000-4000-8000-000000000000", "updatedAt": NOW + n, "createdAt": NOW, "channel": "bench",
                "chatType": "direct", "lastChannel": "bench", "lastTo": f"u{n:08}", "displayName": f"Somebody with the number {n}",
                "deliveryContext": {"channel": "bench", "to": f"u{n:08}", "accountId": "default"},
                "origin": {"label": f"somebody {n}", "provider": "bench", "surface": "bench", "chatType": "direct", "from": f"bench:u{n:08}"},
                "inputTokens": 4812, "outputTokens": 931, "totalTokens": 5743, "contextTokens": 200000, "compactionCount": 1,
                "modelProvider": "made-up", "model": "m-1", "systemSent": True, "abortedLastRun": False, "thinkingLevel": "low"})


def fill_journal(options, daemon, size):
    """Big messages up to seven eighths, small ones with idempotency keys for the rest: what recovery reads is the end."""
    folder = os.path.join(daemon.state, "journal")

    def bytes_of_journal():
        return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".jsonl"))

    big = json.dumps({"role": "user", "text": "x" * (1 << 20)})
    with Session(daemon) as session:
        while bytes_of_journal() < size * 7 // 8:
            session.call("POST", messages("agent:main:bench:direct:u00000000"), big)
    first = 0
    while bytes_of_journal() < size:
        done = load(options, daemon, "append", "--count", "20000", "--first", str(first), "--idempotency-keys", "1", "--sessions", "1000")
        first += done["total"]
    return bytes_of_journal()


def load_command(options, daemon, scenario, *more):
    return [options.client, "--scenario", scenario, "--port", str(daemon.port), "--token-file", daemon.token_file, *more]


def load(options, daemon, *scenario):
    done = subprocess.run(load_command(options, daemon, *scenario), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"FAILED: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measure_start(targets, life, kind, end):
    """Ends the daemon by `end` and starts it again, several times."""
    ready, first_list, rss = [], [], []
    for _ in range(5):
        end()
        if kind.startswith("cold"):
            forget_cached(life.state)
        daemon = life.start()
        with Session(daemon) as session:
            ms, body = session.call("GET", "/v1/agents/main/sessions?limit=50")
        if len(body["data"]) != 50:
            raise SystemExit(f"a list of {len(body['data'])}")
        ready.append(daemon.ready_s * 1e3)
        first_list.append(daemon.ready_s * 1e3 + ms)
        rss.append(rss_mib(daemon))
    targets.line(f"start, {kind}: ready, median of {len(ready)}", statistics.median(ready), 2000)
    targets.line(f"start, {kind}: first list of sessions answered", statistics.median(first_list), 2000)
    targets.line(f"start, {kind}: memory then", statistics.median(rss), None, "MiB")


def measure_store(options, targets, stack):
    life = Life(options, stack, {"journal": {"maxBytes": 2 * options.bytes + GIB}})
    write_sessions(life.state, store_entries(options.sessions))
    daemon = life.start()
    size = fill_journal(options, daemon, options.bytes)
    print(f"store of {options.sessions} sessions, sessions.json {os.path.getsize(daemon.sessions_file()) / (1 << 20):.0f} MiB, "
          f"journal {size / GIB:.2f} GiB, {sum(1 for _ in os.scandir(os.path.join(daemon.state, 'journal', 'keys')))} files of answers")

    def kill_busy():
        load(options, life.daemon, "append", "--seconds", "0.5", "--warmup", "0", "--sessions", "64", "--idempotency-keys", "1",
             "--first", str(time.time_ns() // 1000))
        life.kill()

    for kind, end in (("warm", life.stop), ("cold", life.stop), ("warm, after kill -9 right behind a load", kill_busy),
                      ("cold, after kill -9 right behind a load", kill_busy)):
        measure_start(targets, life, kind, end)

    daemon = life.daemon
    for scenario, sessions in (("append", "64"), ("patch", "64"), ("append", str(options.sessions))):
        with CheckpointCounter(daemon.sessions_file()) as counter, Probe(daemon, "/v1/agents/main/sessions/agent:main:bench:direct:u00000007") as probe:
            done = load(options, daemon, scenario, "--seconds", "10", "--sessions", sessions, "--connections", "8",
                        "--first", str(time.time_ns() // 1000))
        print(f"  {scenario} over {sessions} sessions, 8 connections, 10 s: {done['perSecond']:.0f}/s, {counter.count} checkpoints")
        targets.line("    GET of a session meanwhile, p99", probe.took[len(probe.took) * 99 // 100])
        print(f"      ({probe.told()}; the load's own p99 {done['p99Us'] / 1e3:.1f}, most {done['maxUs'] / 1e3:.1f} ms)")


def main():
    options = arguments()
    need(options.daemon, options.client)
    os.makedirs(options.dir, exist_ok=True)
    if shutil.disk_usage(options.dir).free < 6 * options.bytes:
        raise SystemExit(f"{options.dir} has not enough space")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that what was started is ended
    targets = Targets()
    for name, measure in (("transcript", measure_transcript), ("store", measure_store)):
        if options.only in (None, name):
            with contextlib.ExitStack() as stack:
                measure(options, targets, stack)
    return 1 if targets.missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

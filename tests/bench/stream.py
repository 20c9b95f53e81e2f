#!/usr/bin/env python3
"""make bench-stream: what it costs to send every event to every reader, beside nginx with nchan in the same minutes.

The servers take turns, several rounds; the table has the medians. An event is as many bytes on a reader's wire for each server: the text
of nchan's and the bare writer's events is made so much longer. "server us" is the CPU time of the server (all threads, with what the kernel
does for it: the schedstat of its tasks) from just before the first event is published until every reader has all of them, divided by the
events delivered; publishing, and for sessiond writing to disk, is in it. Latency is from just before an event is sent by its publisher
until a reader has received it; client and server share the machine. Every run checks for every reader that nothing is lost, doubled or out
of order. Needs Python 3 and, for the comparison, the Debian packages nginx and libnginx-mod-nchan.

nchan  one worker, memory store, eventsource subscribers, no access log.
bare   does nothing for an event but one send() a reader: the floor. Not a server that anybody could use.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from run import machine, progress  # noqa: E402
from stream_servers import Bare, Nchan, Sessiond, session_key  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BURSTS = (10, 50, 500)  # events at a time, at 500 a second
FAULTS = ("lost", "doubled", "outOfOrder", "changed", "gaps", "unacknowledged")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=os.path.join(ROOT, "build/release/sessiond"))
    parser.add_argument("--client", default=os.path.join(ROOT, "build/release/tests/bench/sessiond_stream_bench"))
    parser.add_argument("--dir", default=os.path.join(ROOT, "build"), help="where the state directories are made; a real disk")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="abcdefg", help="the letters of the scenarios (see the table)")
    parser.add_argument("--scale", type=float, default=1, help="times the numbers of readers, for quick trying; goals then mean little")
    parser.add_argument("--events", type=int, default=1_000_000, help="in the journal that is replayed")
    parser.add_argument("--seconds", type=float, default=60, help="of the writers that the kills interrupt")
    parser.add_argument("--json", metavar="FILE", help="every single result, too")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--allow-tmpfs", action="store_true", help="for trying this script")
    return parser.parse_args()


class Bench:
    """The servers that run all the time, the client, and what it found: results by row."""

    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.started = []
        self.results = {}

    def start(self, server):
        self.started.append(server)
        return server

    def stop(self, server):
        server.stop()
        self.started.remove(server)

    def readers(self, count):
        return max(1, round(count * self.options.scale))

    def command(self, server, pids=(), **more):
        out = [self.options.client, *server.arguments(), "--payload", str(server.payload)]
        for pid in pids:
            out += ["--pid", str(pid)]
        for name, value in more.items():  # a later option wins
            out += ["--" + name.replace("_", "-"), str(value)]
        return out

    def client(self, server, **more):
        done = subprocess.run(self.command(server, server.pids(), **more), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return self.outcome(done.returncode, done.stdout, done.stderr, server)

    @staticmethod
    def outcome(code, out, err, server):
        server.check_alive()
        if code != 0:
            raise SystemExit(f"FAILED with {server.name}: {err.strip()}")
        return json.loads(out)

    def keep(self, row, result):
        self.results.setdefault(row, []).append(result)
        return result

    def equal_bytes(self):
        """Makes an event of each server as long on a reader's wire as sessiond's; an event's bytes, by server."""
        target, lengths = None, {}
        for server in self.servers:
            for _ in range(2):
                # Past the first thousand events, so that numbers have their usual width.
                seen = self.client(server, readers=2, events=100, rate=1000, publishers=1)["bytesPerEvent"]
                target = target or seen
                if server is self.servers[0]:
                    break
                server.payload += round(target - seen)
            lengths[server.name] = seen
        return lengths

    def start_servers(self):
        self.servers = [self.start(Sessiond(self.options.daemon, os.path.join(self.directory, "sessiond")))]
        self.servers[0].make_sessions(64)
        self.servers[0].fill(1000, 0)
        if Nchan.missing():
            print(Nchan.missing())
        else:
            self.servers.append(self.start(Nchan(self.directory)))
        self.servers.append(self.start(Bare(self.options.client)))


# --- the scenarios: one round of each ---

def one_a_write(bench):
    """And what publishing alone costs, which is in the figures of all readers too."""
    for server in bench.servers:
        bench.keep(f"a. 1 reader, one event at a time: {server.name}", bench.client(server, readers=1, events=100, rate=40))
        bench.keep(f"a. 1 000 readers, one event at a time: {server.name}",
                   bench.client(server, readers=bench.readers(1000), events=200, rate=40))


def bursts(bench):
    for server in bench.servers:
        for burst in BURSTS:
            bench.keep(f"b. 1 000 readers, 500/s, {burst} at a time: {server.name}",
                       bench.client(server, readers=bench.readers(1000), events=1500, rate=500, burst=burst, publishers=min(burst, 64)))


def many_readers(bench):
    for server in bench.servers:
        bench.keep(f"c. 5 000 readers, 8/s: {server.name}", bench.client(server, readers=bench.readers(5000), events=40, rate=8))


def idle(bench):
    """In a server of its own: what others have freed would hide what is needed."""
    kinds = [lambda: Sessiond(bench.options.daemon, tempfile.mkdtemp(dir=bench.directory))]
    if not Nchan.missing():
        kinds.append(lambda: Nchan(tempfile.mkdtemp(dir=bench.directory)))
    for kind in kinds:
        server = bench.start(kind())
        result = bench.client(server, mode="idle", readers=bench.readers(10_000), seconds=17)  # with a sign of life
        for field in ("resident", "proportional"):
            result[field + "Each"] = (result[field + "After"] - result[field + "Before"]) / result["readers"]
        bench.keep(f"d. 10 000 idle readers: {server.name}", result)
        bench.stop(server)


def stalled(bench):
    """Which of the two comes first changes from round to round: a machine that drifts would be taken for their difference."""
    rows = {0: "e. 1 000 readers, 500/s, alone: sessiond", 100: "e. 1 000 readers, 500/s, and 100 that read nothing: sessiond"}
    for count in sorted(rows, reverse=len(bench.results.get(rows[0], ())) % 2 == 1):
        bench.keep(rows[count], bench.client(bench.servers[0], readers=bench.readers(1000), stalled=bench.readers(count) if count else 0,
                                             events=10_000, rate=500, burst=10, publishers=10))


class Replay:
    """A daemon of its own with a long journal, filled once; a reader at another session meanwhile, in a process of its own."""

    def __init__(self):
        self.server = None

    def __call__(self, bench):
        if not self.server:
            self.server = bench.start(Sessiond(bench.options.daemon, os.path.join(bench.directory, "replay"),
                                               {"journal": {"maxBytes": 8 << 30}}))
            self.server.make_sessions(2)
            start = time.monotonic()
            self.epoch = self.server.fill(bench.options.events, session=1)
            print(f"replay    {bench.options.events} events, appended in {time.monotonic() - start:.1f} s")
        path = f"/v1/events?after={self.epoch}-0"
        one = bench.keep("f. replay to 1 reader: sessiond", bench.client(self.server, mode="replay", path=path, readers=1))
        if one["delivered"] < bench.options.events:
            raise SystemExit(f"FAILED: {one['delivered']} of {bench.options.events} events were replayed")
        live = subprocess.Popen(bench.command(self.server, readers=1, events=2000, rate=100,
                                              path=f"/v1/agents/main/sessions/{session_key(0)}/events"),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            time.sleep(0.3)
            bench.keep("f. replay to 100 readers, 20 s of it: sessiond",
                       bench.client(self.server, mode="replay", path=path, readers=100, seconds=20))
            out, err = live.communicate(timeout=120)
        finally:
            live.kill()
        bench.keep("f. an unrelated live reader meanwhile: sessiond", bench.outcome(live.returncode, out, err, self.server))


def kills(bench):
    """64 writers in a closed loop (they wait while a reader is 2000 events behind); five kills, a sixth of the time apart."""
    server = bench.start(Sessiond(bench.options.daemon, tempfile.mkdtemp(dir=bench.directory)))
    server.make_sessions(64)
    seconds = bench.options.seconds
    client = subprocess.Popen(bench.command(server, mode="closed-loop", readers=bench.readers(1000), publishers=64, sessions=64,
                                            seconds=seconds, reconnect=1, most_behind=2000),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    start = time.monotonic()
    killed = 0
    try:
        while killed < 5 and client.poll() is None:
            time.sleep(max(0.0, start + seconds * (killed + 1) / 6 - time.monotonic()))
            server.kill_and_restart()
            killed += 1
        out, err = client.communicate(timeout=600)
    finally:
        client.kill()
    result = bench.keep("g. 64 writers, 1 000 readers, kills: sessiond", bench.outcome(client.returncode, out, err, server))
    result["kills"] = killed
    bench.stop(server)


# --- what came of it ---

def median(each, field):
    return statistics.median(result[field] for result in each)


def number(value, digits):
    return f"{value:,.{digits}f}".replace(",", " ")


def print_table(results):
    print("\n| | server us/event (least - most) | events/s | bytes/event | p50 ms | p90 | p99 | p99.9 | most | client us |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row, each in results.items():
        if not each[0]["delivered"]:
            continue
        cpu = [result["serverCpuUs"] for result in each]
        cost = f"{statistics.median(cpu):.2f} ({min(cpu):.2f} - {max(cpu):.2f})" if any(cpu) else ""
        timed = any(result["maxMs"] for result in each)
        times = [number(median(each, field), 2) if timed else "" for field in ("p50Ms", "p90Ms", "p99Ms", "p999Ms", "maxMs")]
        print(f"| {row} | {cost} | {number(median(each, 'perSecond'), 0)} | "
              f"{median(each, 'bytesPerEvent'):.0f} | {' | '.join(times)} | {median(each, 'clientCpuUs'):.2f} |")
    print()
    for row, each in results.items():
        if "residentEach" in each[0]:
            print(f"{row}: {number(median(each, 'residentEach'), 0)} bytes of RSS each, {number(median(each, 'proportionalEach'), 0)} of Pss")
        if "kills" in each[0]:
            for result in each:
                print(f"{row}: {result['kills']} kills, {result['published']} events acknowledged, {result['delivered']} delivered, "
                      f"{result['reconnects']} reconnections, {result['retries']} retries; " + told(result))
        if any(result["stalled"] for result in each):
            print(f"{row}: those had every event {median(each, 'drainSeconds'):.1f} s after the rest; "
                  f"{sum(result['reconnects'] for result in each)} reconnections")


def told(result):
    return ", ".join(f"{result[field]} {field}" for field in FAULTS)


def goals(bench, letters):
    """Prints each goal and whether it is met; true when all are."""
    results, lines = bench.results, []

    def row(start, server="sessiond"):
        return next((each for name, each in results.items() if name.startswith(start) and name.endswith(": " + server)), None)

    def ratio(what, ours, theirs, limit, field="serverCpuUs"):
        if ours and theirs:
            value = median(ours, field) / median(theirs, field)
            lines.append((value <= limit, f"{what}: {value:.2f} x (goal {limit:.2f} x)"))

    def at_most(what, each, field, limit, unit):
        if each:
            lines.append((median(each, field) <= limit, f"{what}: {number(median(each, field), 2)} {unit} (goal {number(limit, 2)})"))

    ratio("a. CPU an event, one at a time, to nchan's", row("a. 1 000"), row("a. 1 000", "nchan"), 0.70)
    ours, bare = row("a. 1 000"), row("a. 1 000", Bare.name)
    if ours and bare:
        lines.append((None, f"a. CPU an event, one at a time, to the bare writer's: {median(ours, 'serverCpuUs') / median(bare, 'serverCpuUs'):.2f} x"))
    nchan = [each for name, each in results.items() if name.startswith(("a. 1 000", "b.", "c.")) and name.endswith(": nchan")]
    best = min(nchan, key=lambda each: median(each, "serverCpuUs"), default=None)
    for burst in BURSTS:
        mine = row(f"b. 1 000 readers, 500/s, {burst} at")
        ratio(f"b. CPU an event, {burst} at a time, to nchan's at its best", mine, best, 0.40)
        at_most(f"b. CPU an event, {burst} at a time", mine, "serverCpuUs", 1.2, "us")
    ratio("c. CPU an event, 5 000 readers, to nchan's", row("c."), row("c.", "nchan"), 0.75)
    ratio("c. p99 latency, 5 000 readers, to nchan's", row("c."), row("c.", "nchan"), 1.0, "p99Ms")
    at_most("d. memory of an idle reader", row("d."), "residentEach", 6 * 1024, "bytes")
    ratio("e. CPU an event for the rest, with 100 stalled readers to without", row("e. 1 000 readers, 500/s, and"),
          row("e. 1 000 readers, 500/s, alone"), 1.1)
    if row("f. replay to 1 "):
        rate = median(row("f. replay to 1 "), "perSecond")
        lines.append((rate >= 300_000, f"f. replay to 1 reader: {number(rate, 0)} events/s (goal 300 000)"))
    at_most("f. p99 of a live reader beside 100 replays", row("f. an unrelated"), "p99Ms", 50, "ms")
    for letter in letters:
        each = [result for name, of_row in results.items() if name.startswith(letter) and name.endswith("sessiond") for result in of_row]
        faults = sum(result[field] for result in each for field in FAULTS)
        unfinished = sum(not result["complete"] for result in each if result["published"])
        lines.append((faults == 0 and unfinished == 0, f"{letter}. every event, once, in order, for every reader: {faults} faults"
                      + (f", {unfinished} runs did not end" if unfinished else "")))
    print()
    for met, text in lines:
        print(f"{'' if met is None else 'met' if met else 'MISSED':<8}{text}")
    return all(met is not False for met, _ in lines)


def main():
    options = arguments()
    for binary in (options.daemon, options.client):
        if not os.access(binary, os.X_OK):
            raise SystemExit(f"{binary} is not there; make bench-stream builds it")
    os.makedirs(options.dir, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="stream-", dir=options.dir)
    bench = Bench(options, directory)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the servers inherit it
    scenarios = {"a": one_a_write, "b": bursts, "c": many_readers, "d": idle, "e": stalled, "f": Replay(), "g": kills}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that `finally` stops what was started
    try:
        machine(options, directory)
        bench.start_servers()
        lengths = ", ".join(f"{name} {length:.1f}" for name, length in bench.equal_bytes().items())
        print(f"an event  bytes on a reader's wire: {lengths}; {options.rounds} rounds")
        for round_number in range(options.rounds):
            for letter, scenario in scenarios.items():
                if letter in options.only:
                    progress(f"round {round_number + 1} of {options.rounds}: {letter}")
                    scenario(bench)
        progress("")
        print_table(bench.results)
        all_met = goals(bench, [letter for letter in scenarios if letter in options.only])
        if options.json:
            with open(options.json, "w", encoding="utf-8") as out:
                json.dump({"scale": options.scale, "results": bench.results}, out, indent=1)
        return 0 if all_met or not options.check else 1
    finally:
        for each in reversed(bench.started):
            each.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

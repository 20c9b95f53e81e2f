#!/usr/bin/env python3
"""make bench: what the release daemon does on this machine, and what others do in the same minutes.

One daemon, one store of 10 000 sessions on a real disk. 64 keep-alive connections in a closed loop (each sends its next request when
it has its reply), every write answered only when it is on disk. The scenarios and the peers take turns, several rounds; the table has
the medians, and the least and the most. Any reply that is not 2xx fails the run, and so does a message that was acknowledged and is
not counted by its session afterwards. Needs Python 3; compares with Redis and nginx where redis-server and nginx are installed.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import disk  # noqa: E402
import peers  # noqa: E402
from daemon import CheckpointCounter, Daemon, need  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCENARIOS = [  # name in the table, scenario of the client, sessions, connections if not those of --connections
    ("append, 1 session", "append", 1, None),
    ("append, 1 session, 1 connection", "append", 1, 1),
    ("append, 64 sessions", "append", 64, None),
    ("patch, 1 session", "patch", 1, None),
    ("patch, 1 session, 1 connection", "patch", 1, 1),
    ("patch, 64 sessions", "patch", 64, None),
    ("get, 1 session", "get", 1, None),
    ("inbound, 64 peers", "inbound", 64, None),
]
RATIOS = [  # ours, the peer's, at least so many times its requests a second
    ("append, 1 session", "append: redis appendfsync=always", 0.9),
    ("append, 1 session, 1 connection", "append: redis appendfsync=always, 1 connection", 0.9),
    ("patch, 1 session", "patch: redis appendfsync=always", 0.9),
    ("get, 1 session", "get: nginx return 200", 0.6),
    ("append, 64 sessions", "append, 1 session", 0.95),
    ("patch, 64 sessions", "patch, 1 session", 0.95),
]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=os.path.join(ROOT, "build/release/sessiond"))
    parser.add_argument("--client", default=os.path.join(ROOT, "build/release/tests/bench/sessiond_bench"))
    parser.add_argument("--dir", default=os.path.join(ROOT, "build"), help="where the state directory is made; a real disk")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="measured for each scenario in each round")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--entries", type=int, default=10_000, help="sessions in the store")
    parser.add_argument("--only", help="scenarios and peers whose name has this in it")
    parser.add_argument("--idempotency-keys", action="store_true", help="a new Idempotency-Key with every POST")
    parser.add_argument("--json", metavar="FILE", help="every single result, too")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    parser.add_argument("--allow-tmpfs", action="store_true", help="for trying this script; the figures are worth nothing")
    return parser.parse_args()


class Client:
    """The load client, its numbers going on from run to run: every label and key is a new one."""

    def __init__(self, options, token_file):
        self.options = options
        self.token_file = token_file
        self.next_number = 0

    def __call__(self, scenario, port, pid, sessions=1, seconds=0.0, count=0, first=None, connections=None):
        command = [self.options.client, "--scenario", scenario, "--port", str(port), "--pid", str(pid),
                   "--sessions", str(sessions), "--connections", str(connections or self.options.connections),
                   "--seconds", str(seconds), "--count", str(count),
                   "--first", str(self.next_number if first is None else first),
                   "--idempotency-keys", "1" if self.options.idempotency_keys else "0"]
        if not scenario.startswith("redis-"):
            command += ["--token-file", self.token_file]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"FAILED: {done.stderr.strip()}")
        result = json.loads(done.stdout)
        self.next_number += result["total"] + 1
        return result


def machine(options, directory):
    kind, mount_point = disk.file_system(directory)
    if kind in ("tmpfs", "ramfs") and not options.allow_tmpfs:
        raise SystemExit(f"{directory} is on {kind}: nothing durable could be measured there; use --dir")
    median, p99 = disk.fdatasync_ms(directory)
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())
    print(f"machine   {os.cpu_count()} x {model}, Linux {platform.release()}")
    print(f"disk      {kind} on {mount_point}; append 4 KiB + fdatasync, 500 times: median {median:.3f} ms, p99 {p99:.3f} ms")
    return median


def progress(text):
    if sys.stderr.isatty():
        print(f"\r{text:<90}\r", end="", file=sys.stderr, flush=True)


def measure(options, daemon, client, all_peers):
    """Everything in turns -> results by name, checkpoints seen by name, what fdatasync took before each round."""
    checkpoints = {}
    syncs = []

    def scenario(name, kind, sessions, connections):
        def run():
            with CheckpointCounter(daemon.sessions_file()) as counter:
                result = client(kind, daemon.port, daemon.pid, sessions, options.seconds, connections=connections)
            daemon.check_alive()
            checkpoints.setdefault(name, []).append(counter.count)
            return result
        return run

    turns = [(name, scenario(name, *rest)) for name, *rest in SCENARIOS]
    for peer in all_peers:
        for kind in ("append", "patch", "get"):
            if hasattr(peer, kind):
                turns.append((f"{kind}: {peer.name}", lambda peer=peer, kind=kind: getattr(peer, kind)(options.seconds)))
        if isinstance(peer, peers.Redis):
            for kind in ("append", "patch"):
                turns.append((f"{kind}: {peer.name}, 1 connection",
                              lambda peer=peer, kind=kind: getattr(peer, kind)(options.seconds, connections=1)))
    if options.only:
        turns = [turn for turn in turns if options.only in turn[0]]
    results = {name: [] for name, _ in turns}
    for round_number in range(options.rounds):
        syncs.append(disk.fdatasync_ms(os.path.dirname(daemon.state), 100)[0])
        for name, run in turns:
            progress(f"round {round_number + 1} of {options.rounds}: {name}")
            results[name].append(run())
    progress("")
    return results, checkpoints, syncs


def median(results, field):
    values = [result[field] for result in results if result[field] is not None]
    return statistics.median(values) if values else None


def print_table(results, checkpoints):
    def number(value, digits):
        return "-" if value is None else f"{value:,.{digits}f}".replace(",", " ")

    print(f"\n{'':<46}{'requests/s (least - most)':>32}{'p50 us':>10}{'p99 us':>10}{'server us':>11}{'client us':>11}"
          f"{'checkpoints':>13}")
    for name, each in results.items():
        rates = [result["perSecond"] for result in each]
        rate = f"{number(statistics.median(rates), 0)} ({number(min(rates), 0)} - {number(max(rates), 0)})"
        seen = number(statistics.median(checkpoints[name]), 0) if name in checkpoints else ""
        print(f"{name:<46}{rate:>32}{number(median(each, 'p50Us'), 0):>10}{number(median(each, 'p99Us'), 0):>10}"
              f"{number(median(each, 'daemonCpuUs'), 1):>11}{number(median(each, 'clientCpuUs'), 1):>11}{seen:>13}")
    print("\nserver us, client us: CPU time a request, all threads. checkpoints: sessions.json replaced during one run (median).")


def targets(results, checkpoints, fdatasync_ms):
    """Prints each target and whether it is met; true when all are."""
    rate = {name: median(each, "perSecond") for name, each in results.items()}
    lines = []
    if "append, 1 session" in rate:
        met = None if fdatasync_ms >= 0.3 else rate["append, 1 session"] >= 30_000
        lines.append((met, f"append >= 30 000/s where fdatasync takes under 0.3 ms (here {fdatasync_ms:.3f}, median of all readings): "
                           f"{rate['append, 1 session']:.0f}"))
    if "patch, 1 session" in rate:
        running = min(checkpoints["patch, 1 session"]) > 0
        lines.append((rate["patch, 1 session"] >= 15_000 and running,
                      f"patch >= 15 000/s while checkpoints go on: {rate['patch, 1 session']:.0f}"
                      + ("" if running else ", but a run saw no checkpoint")))
    for ours, others, goal in RATIOS:
        if ours in rate and others in rate:
            ratio = rate[ours] / rate[others]
            lines.append((ratio >= goal, f"{ours} at least {goal} x {others}: {ratio:.2f}"))
    print()
    for met, text in lines:
        print(f"{'does not apply' if met is None else 'met' if met else 'MISSED':<15}{text}")
    return all(met is not False for met, _ in lines)


def check_counts(daemon, results):
    """Every acknowledged append and inbound message must be counted by its session."""
    expected = sum(result["total"] for name, each in results.items() for result in each
                   if name.startswith(("append,", "inbound,")))
    sessions = [daemon.session(f"agent:main:bench:direct:u{i:08}") for i in range(64)]
    counted = sum(session.get("messageCount", 0) for session in sessions)
    print(f"acknowledged messages {expected}, counted by their sessions {counted}")
    if expected != counted:
        raise SystemExit("FAILED: what was acknowledged and what is there differ")


def main():
    options = arguments()
    need(options.daemon, options.client)
    os.makedirs(options.dir, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="bench-", dir=options.dir)
    stoppable = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that `finally` stops what was started
    try:
        fdatasync = machine(options, directory)
        daemon = Daemon(options.daemon, directory)
        stoppable.append(daemon)
        client = Client(options, daemon.token_file)
        made = client("create", daemon.port, daemon.pid, count=options.entries, first=0)
        print(f"store     {options.entries} sessions, made at {made['perSecond']:.0f}/s; {options.connections} connections; "
              f"{options.rounds} rounds of {options.seconds:g} s")
        status, body = daemon.request("POST", "/v1/admin/checkpoint")
        if not 200 <= status < 300:
            raise SystemExit(f"POST /v1/admin/checkpoint: {status} {body[:300]!r}")

        all_peers = [peers.Rewrite(directory, daemon.sessions_file()), peers.Sqlite(directory, options.entries)]
        stoppable.append(all_peers[-1])
        if peers.Redis.binary():
            all_peers.append(peers.Redis(directory, client))
            stoppable.append(all_peers[-1])
        if peers.Nginx.binary():
            _, body = daemon.request("GET", "/v1/agents/main/sessions/agent:main:bench:direct:u00000000")
            all_peers.append(peers.Nginx(directory, client, len(body)))
            stoppable.append(all_peers[-1])
        results, checkpoints, syncs = measure(options, daemon, client, all_peers)
        fdatasync = statistics.median([fdatasync, *syncs])

        print(f"fdatasync before each round, median of 100: {', '.join(f'{sync:.3f}' for sync in syncs)} ms")
        print_table(results, checkpoints)
        print(peers.__doc__.replace("\n\n", "\n"))
        if not peers.Redis.binary():
            print("redis-server is not installed: not compared.")
        if not peers.Nginx.binary():
            print("nginx is not installed: not compared.")
        all_met = targets(results, checkpoints, fdatasync)
        check_counts(daemon, results)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as out:
                json.dump({"fdatasyncMs": fdatasync, "results": results, "checkpoints": checkpoints}, out, indent=1)
        return 0 if all_met or not options.check else 1
    finally:
        for each in reversed(stoppable):
            each.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

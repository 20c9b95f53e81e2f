#!/usr/bin/env python3
"""What maintenance costs others: 2 000 stale and 500 live sessions of one agent, and 64 writers.

    tests/bench/retention.py [--daemon PATH] [--client PATH] [--check]

A dry run names the 2 000 with their reasons; then they are archived while 64 connections append to 64 sessions in a closed loop, and what
those wait is told beside what they wait without maintenance; then one is restored, and its transcript is compared byte for byte. Needs
the release build with its client (ninja sessiond_bench) and Python 3.
"""

import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from daemon import Daemon, need  # noqa: E402
from scale import Session, Targets  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DAY = 86_400_000  # ms


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=os.path.join(ROOT, "build/release/sessiond"))
    parser.add_argument("--client", default=os.path.join(ROOT, "build/release/tests/bench/sessiond_bench"))
    parser.add_argument("--dir", default=os.path.join(ROOT, "build"), help="where the state directory is made; a real disk")
    parser.add_argument("--stale", type=int, default=2_000)
    parser.add_argument("--live", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=4, help="how long the writers are measured")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    return parser.parse_args()


def path(kind, number, *more):
    return "/".join([f"/v1/agents/main/sessions/agent:main:{kind}:{number}", *more])


def seed(session, options):
    now = int(time.time() * 1000)
    for kind, count, age in (("stale", options.stale, 100 * DAY), ("live", options.live, DAY)):
        for number in range(count):
            entry = {"sessionId": f"{kind}-{number}", "lastInteractionAt": now - age, "label": f"{kind} {number}"}
            session.call("PUT", path(kind, number), json.dumps(entry))
            for text in ("hello", "how are you"):
                session.call("POST", path(kind, number, "messages"), json.dumps({"role": "assistant", "text": text}))
    for number in range(64):  # those that the writers append to
        session.call("PUT", f"/v1/agents/main/sessions/agent:main:bench:direct:u{number:08}", "{}")
    session.call("POST", "/v1/admin/checkpoint")


@contextlib.contextmanager
def writers(options, daemon, outcome):
    """64 writers while in scope, or as long as they are measured; `outcome` gets their numbers."""
    process = subprocess.Popen([options.client, "--scenario", "append", "--sessions", "64", "--connections", "64", "--port", str(daemon.port),
                                "--token-file", daemon.token_file, "--seconds", str(options.seconds)], stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(0.6)  # its warm-up
        yield
        out, _ = process.communicate(timeout=options.seconds + 60)
        if process.returncode != 0:
            raise SystemExit(f"the writers ended with {process.returncode}")
        outcome.update(json.loads(out))
    finally:
        process.kill()


def main():
    options = arguments()
    need(options.daemon, options.client)
    targets = Targets()
    with tempfile.TemporaryDirectory(prefix="retention-", dir=options.dir, ignore_cleanup_errors=True) as directory:
        daemon = Daemon(options.daemon, directory)
        try:
            with Session(daemon) as session:
                measure(options, daemon, session, targets)
        finally:
            daemon.stop()
    sys.exit(1 if options.check and targets.missed else 0)


def measure(options, daemon, session, targets):
    seed(session, options)
    folder = os.path.dirname(daemon.sessions_file())
    with open(os.path.join(folder, "stale-7.jsonl"), "rb") as file:
        before = file.read()
    order = {"olderThanMs": 90 * DAY}
    took, named = session.call("POST", "/v1/admin/maintenance", json.dumps(order))
    targets.line(f"dry run: {dict(collections.Counter(row['reason'] for row in named['data']))}", took)
    if named["count"] != options.stale:
        raise SystemExit(f"{named['count']} were named, not {options.stale}")

    alone, beside = {}, {}
    with writers(options, daemon, alone):
        pass
    with writers(options, daemon, beside):
        took, gone = session.call("POST", "/v1/admin/maintenance", json.dumps({**order, "dryRun": False}))
    if gone["data"] != named["data"]:
        raise SystemExit(f"{gone['count']} went, {named['count']} were named")
    targets.line(f"archiving {gone['count']} beside 64 writers", took, 5_000)
    for what, result, limit in (("without maintenance", alone, None), ("beside it", beside, 30)):
        targets.line(f"p99 of 64 writers {what} ({result['perSecond']:.0f}/s, most {result['maxUs'] / 1e3:.1f} ms)", result["p99Us"] / 1e3, limit)

    session.call("POST", "/v1/admin/checkpoint")
    took, _ = session.call("POST", path("stale", 7, "restore"), "{}")
    session.call("POST", "/v1/admin/checkpoint")
    with open(os.path.join(folder, "stale-7.jsonl"), "rb") as file:
        same = file.read() == before
    targets.line(f"a restore, byte for byte: {'yes' if same else 'NO'}", took)
    targets.missed = targets.missed or not same


if __name__ == "__main__":
    main()

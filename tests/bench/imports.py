#!/usr/bin/env python3
"""What a large import costs: 100 000 sessions of a command-line agent's folder, beside a reader, and a daemon that is killed in the middle.

    tests/bench/imports.py [--daemon PATH] [--sessions N] [--check]

The first daemon is killed when about half of the sessions are there; the import must say so. A second daemon starts on its state, and the
same command runs to its end. Then each session is looked for: all are there, none twice, each with its words. Told are the memory of
daemon and command at 10 % and at the end, and what a small GET waits meanwhile. Needs the release build and Python 3.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from daemon import Beside, Daemon, need  # noqa: E402
from scale import Probe, Session, Targets, rss_mib  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = "/v1/agents/other/sessions/agent:other:small"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=os.path.join(ROOT, "build/release/sessiond"))
    parser.add_argument("--dir", default=os.path.join(ROOT, "build"), help="where folder and state directory are made; a real disk")
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    return parser.parse_args()


def document(number):
    session_id = f"session-{number:07}"
    messages = [{"role": ("user", "assistant")[at % 2], "content": f"{number} said {at} " + "word " * 40, "timestamp": f"2026-01-02T03:04:0{at}.000Z"}
                for at in range(4)]
    metadata = {"id": session_id, "name": f"Session {number}", "createdAt": "2026-01-02T03:04:05.000Z", "lastActivityAt": "2026-01-02T03:05:05.000Z",
                "messageCount": len(messages), "firstMessage": messages[0]["content"], "provider": "", "model": ""}
    return session_id, json.dumps({"metadata": metadata, "messages": messages})


def write_folder(folder, count):
    for number in range(count):
        session_id, text = document(number)
        with open(os.path.join(folder, session_id + ".json"), "w", encoding="utf-8") as out:
            out.write(text)


class Watch(Beside):
    """Notes every 50 ms the memory of daemon and command, and how many sessions are there; kills the daemon at `kill_at` of them."""

    def __init__(self, daemon, command, kill_at=None):
        super().__init__()
        self.daemon, self.command, self.kill_at = daemon, command, kill_at
        self.notes = []  # (sessions, MiB of the daemon, MiB of the command)

    def _run(self):
        with Session(self.daemon) as session:
            while not self._stop.wait(0.05):
                try:
                    there = session.call("GET", "/v1/agents")[1]
                    count = sum(agent["sessions"] for agent in there["data"] if agent["agent"] == "main")
                    self.notes.append((count, rss_mib(self.daemon), rss_mib(self.command)))
                except (OSError, StopIteration, ValueError):
                    return  # one of the two is gone
                if self.kill_at and count >= self.kill_at:
                    self.daemon.process.kill()
                    return


def command(options, directory, daemon, folder):
    return subprocess.Popen([options.daemon, "import", folder, "--layout", "cli", "--agent", "main", "--url", f"http://127.0.0.1:{daemon.port}",
                             "--token-file", daemon.token_file], stdout=subprocess.PIPE, stderr=open(os.path.join(directory, "import.err"), "ab"), text=True)


def look_at_all(options, session):
    """How many of the sessions are there once, with their words."""
    good = 0
    seen = {}
    cursor = ""
    while True:
        page = session.call("GET", "/v1/agents/main/sessions?limit=200" + cursor)[1]
        for row in page["data"]:
            if row["sessionId"] in seen:
                raise SystemExit(f"{row['sessionId']} is there twice")
            seen[row["sessionId"]] = row["key"]
        if not page["page"]["hasMore"]:
            break
        cursor = "&cursor=" + urllib.parse.quote(str(page["page"]["next"]))
    for number in range(0, options.sessions, max(1, options.sessions // 5_000)):  # the words of 5 000 of them
        session_id, text = document(number)
        there = session.call("GET", f"/v1/agents/main/sessions/{seen[session_id]}/messages?limit=50")[1]["data"]
        said = [entry["content"] for entry in there]
        good += said == [message["content"] for message in json.loads(text)["messages"]]
    return len(seen), good


def main():
    options = arguments()
    need(options.daemon)
    targets = Targets()
    with tempfile.TemporaryDirectory(prefix="imports-", dir=options.dir, ignore_cleanup_errors=True) as directory:
        folder = os.path.join(directory, "folder")
        os.mkdir(folder)
        write_folder(folder, options.sessions)
        measure(options, targets, directory, folder)
    sys.exit(1 if options.check and targets.missed else 0)


def measure(options, targets, directory, folder):
    daemon = Daemon(options.daemon, directory)
    try:
        started = time.monotonic()
        process = command(options, directory, daemon, folder)
        with Watch(daemon, process, options.sessions // 2) as watch:
            said, _ = process.communicate()
        print(f"  killed at {watch.notes[-1][0]} sessions after {time.monotonic() - started:.0f} s; the command ended with {process.returncode}: {said.strip()}")
        targets.missed = targets.missed or process.returncode == 0
        daemon.stop()

        daemon = Daemon(options.daemon, directory)
        targets.line("start after the kill", daemon.ready_s * 1e3)
        with Session(daemon) as session:
            session.call("PUT", SMALL, "{}")
        alone = Probe(daemon, SMALL)
        with alone:
            time.sleep(3)
        started = time.monotonic()
        process = command(options, directory, daemon, folder)
        probe = Probe(daemon, SMALL)
        with Watch(daemon, process) as watch, probe:
            said, _ = process.communicate()
        took = time.monotonic() - started
        print(f"  the same command again: {said.strip()}, ended with {process.returncode}")
        fresh = watch.notes[-1][0] - watch.notes[0][0]
        print(f"  {took:.0f} s, {fresh / took:.0f} new sessions a second beside the reader")
        print(f"  a small GET alone: {alone.told()}; beside the import: {probe.told()}")
        targets.line("p99 of a small GET beside the import", probe.took[len(probe.took) * 99 // 100], 30)
        tenth = watch.notes[len(watch.notes) // 10]
        last = watch.notes[-1]
        targets.line("memory of the command at a tenth", tenth[2], unit="MiB")
        targets.line("memory of the command at the end", last[2], tenth[2] * 1.5 + 16, unit="MiB")
        print(f"  memory of the daemon: {tenth[1]:.0f} MiB with {tenth[0]} sessions, {last[1]:.0f} MiB with {last[0]}")
        with Session(daemon) as session:
            there, good = look_at_all(options, session)
        looked = len(range(0, options.sessions, max(1, options.sessions // 5_000)))
        print(f"  {there} of {options.sessions} are there, each once; {good} of {looked} looked at have their words")
        targets.missed = targets.missed or there != options.sessions or good != looked
    finally:
        daemon.stop()


if __name__ == "__main__":
    main()

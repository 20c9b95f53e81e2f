#!/usr/bin/env python3
"""A state directory on a disk that is full: clear 507s, no partial line, nothing acknowledged lost, and it goes on when there is room again.

    tests/crash/full_disk.py --binary PATH [--mib 200] [--rounds 2]

A tmpfs of that size is filled up with appends by several writers (beside a file that takes most of it, so that it takes seconds); where
mounting is not permitted the shim imposes the size. While it is full every write is refused with 507 storage_full (or 503 outcome_unknown,
when not even that could be made durable), reads go on, /readyz says why. After room was made the same daemon takes writes again, and
everything refused or unknown is sent again. After a kill and a restart all is there once. The last line is `N passed, N failed`.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness
from harness import sessiond  # noqa: E402
from promises import Promises, append, create  # noqa: E402
from harness.sessiond import S, Daemon, eventually  # noqa: E402
from shim import ShimmedDaemon  # noqa: E402

WRITERS = 4
CONFIG = {"journal": {"segmentBytes": 1 << 20}}


class Tmpfs:
    """A daemon whose state directory is a file system of its own."""

    def __init__(self, size):
        self.daemon = Daemon(CONFIG)
        self.daemon.state.mkdir()
        self.mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.daemon.state], capture_output=True).returncode == 0
        self.ballast = self.daemon.state / "ballast"

    def fill(self, leave):
        with self.ballast.open("wb") as file:
            free = os.statvfs(self.daemon.state)
            os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - leave, 4096))

    def make_room(self):
        self.ballast.unlink()

    def close(self):
        if self.daemon.alive:
            self.daemon.kill9()
        if self.mounted:
            subprocess.run(["umount", "-l", self.daemon.state], check=True)
        self.daemon.close()


class Quota:
    """The same by the shim's count of bytes."""

    def __init__(self, size):
        self.daemon, self.size = ShimmedDaemon(CONFIG), size

    def fill(self, leave):
        self.daemon.disk.quota = self.daemon.disk.used + leave

    def make_room(self):
        self.daemon.disk.quota = self.daemon.disk.used + self.size

    def close(self):
        self.daemon.close()


def disk_of(size):
    disk = Tmpfs(size)
    if disk.mounted:
        return disk
    disk.close()
    print("no mount is permitted here: the shim imposes the size")
    return Quota(size)


class Writer:
    def __init__(self, number):
        self.number, self.key, self.sent, self.requests, self.faults = number, f"agent:main:full:w{number}", 0, [], []

    def until_refused(self, daemon, token):
        """Appends until the disk has been full for a while."""
        client, refused = sessiond.Client(daemon, token, timeout=60), 0
        while refused < 5:
            self.sent += 1
            request = append(self.key, f"w{self.number}.{self.sent}.", size=(3_000, 30_000)[self.sent % 2])
            self.requests.append(request)
            reply = request.send(client)
            if reply is None:
                self.faults.append(f"{request}: the daemon is gone")
                return
            code = (reply.json or {}).get("code")
            if request.outcome == "acknowledged":
                refused = 0
                continue
            refused += 1
            if (reply.status, code) not in ((507, "storage_full"), (503, "outcome_unknown")):
                self.faults.append(f"{request}: {reply}")
            time.sleep(0.05)  # a client's pause, no wait for anything


def one_round(disk, promises, writers, leave):
    daemon = disk.daemon
    client = daemon.client()
    disk.fill(leave)
    threads = [threading.Thread(target=w.until_refused, args=(daemon, client.token)) for w in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    promises.faults += [fault for writer in writers for fault in writer.faults]
    ready = client.get("/readyz")
    for writer in writers:  # what is there can be read
        reply = client.get(S(writer.key, "main", "messages"))
        if reply.status == 200:
            promises.saw(reply.json["data"])
    disk.make_room()
    probe = append(writers[0].key, f"with room again {len(promises.requests)}")
    eventually(lambda: probe.send(client) and probe.outcome == "acknowledged", 15, 0.05, "a write after room was made")
    promises.requests.append(probe)
    eventually(lambda: client.get("/readyz").status == 200, 15, 0.05, "ready again")
    outcomes = Counter(request.outcome for writer in writers for request in writer.requests)
    for writer in writers:
        for request in writer.requests:
            if request.outcome == "unknown" or (request.outcome == "refused" and writer.number % 2):
                reply = request.send(client)
                if request.outcome != "acknowledged":
                    promises.faults.append(f"{request} with room again: {reply}")
        promises.requests += writer.requests
        writer.requests = []
    print(f"filled up: {dict(sorted(outcomes.items()))}, readyz {ready.status} {(ready.json or {}).get('reasons')}", flush=True)
    if not outcomes["refused"] + outcomes["unknown"]:
        promises.faults.append("nothing was refused: the disk was never full")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("--mib", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quota", action="store_true", help="by the shim, as where nobody may mount")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    size = options.mib << 20
    disk = Quota(size) if options.quota else disk_of(size)
    promises, writers = Promises(), [Writer(i) for i in range(WRITERS)]
    try:
        disk.daemon.start()
        client = disk.daemon.client()
        for writer in writers:
            request = create(writer.key)
            promises.requests.append(request)
            request.send(client)
        with client.stream("/v1/events") as stream:
            for number in range(options.rounds):
                one_round(disk, promises, writers, size // 4 + number * 300_000)
            promises.streams.append(stream.durable)
        disk.daemon.kill9()
        disk.daemon.start()
        promises.check(disk.daemon.client(), disk.daemon)
        if disk.daemon.stop() != 0:
            promises.faults.append("exit code")
        faults = promises.faults
    except Exception:  # noqa: BLE001: whatever it is, the last line must come
        faults = promises.faults + [traceback.format_exc()]
    finally:
        disk.close()
    if faults:
        print("FAILED", *[f[:1000] for f in faults[:20]], *disk.daemon.stderr[-20:], sep="\n  ")
    print(f"{len(promises.requests)} requests: " + ", ".join(f"{n} {c}" for n, c in sorted(Counter(r.outcome for r in promises.requests).items())))
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed", flush=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

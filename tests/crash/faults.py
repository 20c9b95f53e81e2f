#!/usr/bin/env python3
"""Every file call of a short scenario fails once, in every way it can, and from then on: each request ends in one of three ways.

    tests/crash/faults.py --binary PATH [--every 1] [--first 1] [--faults ENOSPC,EIO,EINTR,short] [--at N] [--write-through]

The scenario (two lives of a daemon: create, append, patch, inbound, reset, delete, checkpoints, a segment that is full, a kill, a recovery)
runs once to count its file calls. Then for every --every'th call and each fault it runs again on a disk that fails at that call: once, or
from there on until the test mends it. Each request is acknowledged and there after a restart; or refused and not there; or its outcome is
unknown and the same key settles it; none is told of a fault of the daemon (500). A start may be refused, with a reason. Nothing that was
seen is missing afterwards, the daemon goes on without a restart once the disk is mended, and /readyz tells it until then. Every other run
ends with a power cut. The last line is `N passed, N failed`.
"""

import argparse
import os
import sys
import threading
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness
from harness.report import Report  # noqa: E402
from promises import Promises, append, create, delete, inbound, patch, reset  # noqa: E402
from harness.sessiond import S, eventually  # noqa: E402
from shim import FAULTS, ShimmedDaemon  # noqa: E402

SEGMENT = 64 << 10
CONFIG = {"journal": {"segmentBytes": SEGMENT}, "store": {"checkpointDuty": 0.001}}  # it checkpoints when it is told to
KEYS = [f"agent:main:fault:s{i}" for i in range(4)]

FIRST_LIFE = [
    create(KEYS[0]), append(KEYS[0], "one"), append(KEYS[0], "two"), patch(KEYS[0], "p1"), inbound("u1", "in one"), "checkpoint",
    create(KEYS[1]), append(KEYS[1], "large one", SEGMENT // 2), append(KEYS[1], "large two", SEGMENT // 2), append(KEYS[1], "in a topic", topic="t"),
    reset(KEYS[1]), append(KEYS[1], "after the reset"), "read", create(KEYS[2]), append(KEYS[2], "to be deleted"), "checkpoint",
    delete(KEYS[2]), append(KEYS[0], "three"), patch(KEYS[0], "p2"),
]
SECOND_LIFE = [
    append(KEYS[0], "four"), "read", inbound("u1", "in two"), reset(KEYS[0]), append(KEYS[0], "five"), "checkpoint",
    create(KEYS[3]), append(KEYS[3], "six"), patch(KEYS[3], "p3"),
]
NEEDED = ("session.created",)  # what others build on is sent until it is there


def copy(step):
    if isinstance(step, str):
        return step
    fresh = object.__new__(type(step))
    fresh.__dict__.update(step.__dict__)
    return fresh


class Run:
    """The scenario once, on a disk that fails at call `at`."""

    def __init__(self, at=0, fault=None, lasting=False):
        self.at, self.fault, self.lasting = at, fault, lasting
        self.daemon = ShimmedDaemon(CONFIG)
        self.promises = Promises()
        self.client = None
        self.last_id = None
        self.refused_starts = 0
        self.mended = not lasting
        self.last = None  # reply to a checkpoint

    def go(self):
        disk = self.daemon.disk
        disk.fault, disk.lasting, disk.seed, disk.fault_at = FAULTS.get(self.fault, 0), self.lasting, self.at * 10 + disk.fault, self.at
        try:
            self.life(FIRST_LIFE, "kill")
            self.life(SECOND_LIFE, "cut" if self.at % 2 else "stop")
            disk.mend()
            self.daemon.start(shim=False)
            self.promises.check(self.daemon.client(), self.daemon)
            if self.daemon.stop() != 0:
                self.promises.faults.append("a daemon on a good disk did not end with 0")
            return self
        finally:
            self.daemon.close()

    def life(self, steps, end):
        self.start()
        with self.client.stream("/v1/events", self.last_id) as stream:
            for step in map(copy, steps):
                self.step(step)
            self.recover()
            self.ending(end)
            stream.wait_end(10)
        if stream.durable:
            self.promises.streams.append(stream.durable)
        self.last_id = stream.last_id or self.last_id

    def start(self):
        try:
            self.daemon.start()
        except AssertionError as refused:
            if self.at == 0 or self.daemon.process.returncode < 0 or "level=error" not in str(refused) and "[error]" not in str(refused):
                raise
            self.refused_starts += 1
            self.mend()
            self.daemon.start()
        self.client = self.daemon.client()

    def step(self, step):
        if step == "checkpoint":
            self.client.post("/v1/admin/checkpoint")  # may fail; recover() asks until it does not
        elif step == "read":
            self.read()
        else:
            self.request(step)

    def read(self):
        for key in KEYS[:2]:
            reply = self.client.get(S(key, "main", "messages"))
            if reply.status == 200:
                self.promises.saw(reply.json["data"])
            elif reply.status not in (404, 503, 507):
                self.promises.faults.append(f"GET of messages of {key}: {reply}")

    def request(self, request):
        self.promises.requests.append(request)
        again = request.mark[0] in NEEDED or self.at % 4 < 2  # otherwise it stays as it was answered, to the end
        for _ in range(4):
            reply = request.send(self.client)
            if reply is None:
                raise AssertionError(f"{request}: the daemon is gone")
            if request.outcome == "acknowledged":
                return
            if self.at == 0:
                raise AssertionError(f"{request}: {reply}")
            if reply.status not in (503, 507):
                self.promises.faults.append(f"{request}: {reply}")
            self.recover()
            if not again:
                return
        self.promises.faults.append(f"{request} is refused on a disk that is well again: {reply}")

    def recover(self):
        """The disk is mended; the daemon goes on by itself. Until then /readyz tells that it cannot."""
        def checkpoint():
            self.last = self.client.post("/v1/admin/checkpoint")
            return self.last.status < 300

        if self.at and not checkpoint() and self.lasting and not self.mended:
            eventually(lambda: self.client.get("/readyz").status == 503, 5, 0.02, "unready")
        self.mend()
        if self.at:
            eventually(lambda: self.mend() or checkpoint(), 15, 0.1, "a checkpoint")
        eventually(lambda: self.client.get("/readyz").status == 200, 15, 0.02, "ready again")

    def mend(self):
        if self.lasting and self.daemon.disk.faults:
            self.daemon.disk.mend()
            self.mended = True

    def ending(self, end):
        if end == "kill":
            self.daemon.kill9()
        elif end == "cut":
            self.daemon.disk.cut_at = 1
            last = append(KEYS[0], "at the power cut")
            self.promises.requests.append(last)
            last.send(self.client)
            self.daemon.wait_dead()
        else:
            code = self.daemon.stop()
            if code != 0 and not self.daemon.disk.faults:
                self.promises.faults.append(f"exit code {code}")


def gives(call, fault):
    if fault == "EIO":
        return True
    if fault == "ENOSPC":
        return call not in ("unlink", "ftruncate")
    if fault == "EINTR":
        return call in ("open", "write", "pwrite", "writev", "fsync", "fdatasync", "ftruncate")
    return call in ("write", "pwrite", "writev")


def count_calls():
    run = Run()
    run.daemon.close, close = lambda: None, run.daemon.close
    try:
        faults = run.go().promises.faults
        if faults:
            raise AssertionError("on a good disk: " + "; ".join(faults))
        return [line.split()[1] for line in run.daemon.trace.read_text().splitlines()]
    finally:
        close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("--every", type=int, default=1, help="only every so many'th of (call, fault)")
    parser.add_argument("--first", type=int, default=0, help="the first of these")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--at", type=lambda text: range(*map(int, text.split(":"))), help="only these calls, FIRST:END")
    parser.add_argument("--write-through", action="store_true", help="each reply waits for sessions.json")
    parser.add_argument("-j", type=int, default=2)
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)

    CONFIG["store"]["writeThrough"] = options.write_through
    calls = count_calls()
    kinds = [(f, lasting) for f in options.faults.split(",") for lasting in ((False, True) if f in ("ENOSPC", "EIO") else (False,))]

    def named(point):
        at, kind, lasting = point
        return f"{kind} at call {at}{' and on' if lasting else ''}"

    points = [(at, *kind) for at, call in enumerate(calls, 1) for kind in kinds if gives(call, kind[0])]
    report = Report()
    if report.only is not None:  # by name: this run of the scenario may count other calls, or one fewer
        every = [(at, *kind) for at in range(1, 2 * len(calls)) for kind in kinds]
        chosen = [point for point in every if report.wants(named(point))]
    elif options.at is not None:
        chosen = [point for point in points if point[0] in options.at]
    else:
        chosen = points[options.first::options.every]
    print(f"{len(calls)} file calls, {len(points)} injection points, {len(chosen)} of them now", flush=True)

    classes, counting = Counter(), threading.Lock()

    def one(point):
        run, faults = Run(*point), None
        try:
            faults = run.go().promises.faults
        except Exception as fault:  # noqa: BLE001: whatever it is, it belongs to this point
            faults = [repr(fault) if isinstance(fault, AssertionError) else traceback.format_exc(), f"last: {run.last}"]
        with counting:
            classes.update(request.outcome for request in run.promises.requests)
            classes["start refused"] += run.refused_starts
        report.judge(named(point), faults and [f"call {point[0]}: {''.join(calls[point[0] - 1:point[0]])}", *faults[:6], *run.daemon.stderr[-12:]])

    with ThreadPoolExecutor(report.jobs(options.j)) as pool:
        list(pool.map(one, chosen))
    print(f"{len(chosen)} injection points: " + ", ".join(f"{name} {count}" for name, count in sorted(classes.items())))
    sys.exit(report.finish())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runners that wait in long polls: how soon one of them has a run, and what waiting costs.

    tests/bench/claims.py --binary PATH [--runners 1000] [--rate 100] [--seconds 20] [--sessions 400]

Each of the runners claims with waitMs 30000 on a connection of its own, finishes what it gets and claims again. Meanwhile runs are posted at an
even rate. A claim's time is from the first byte of the POST that makes the run to the claim's answer, so it has the commit in it.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness
from harness import sessiond  # noqa: E402
from harness.sessiond import Daemon  # noqa: E402


class Connection:
    def __init__(self, port, token):
        self.port, self.token, self.reader = port, token, None

    async def post(self, path, body):
        if self.reader is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps(body).encode()
        self.writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
                          f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        status = int((await self.reader.readline()).split()[1])
        length = 0
        while (line := await self.reader.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        raw = await self.reader.readexactly(length)
        return status, json.loads(raw) if raw else None


class Bench:
    def __init__(self, daemon, options):
        self.daemon, self.options, self.token = daemon, options, daemon.token("runner")
        self.posted, self.claimed, self.delays, self.wrong = {}, Counter(), [], []

    def connection(self):
        return Connection(self.daemon.port, self.token)

    async def runner(self):
        connection = self.connection()
        while True:
            status, run = await connection.post("/v1/agents/main/runs/claim", {"waitMs": 30_000})
            now = time.perf_counter()
            if status == 200:
                self.claimed[run["runId"]] += 1
                self.delays.append(now - self.posted.pop(run["runId"], now))
                path = f"/v1/agents/main/sessions/{quote(run['key'], safe=':')}/runs/{run['runId']}/finish"
                status, reply = await connection.post(path, {"fence": run["lease"]["fence"], "status": "done"})
                if status != 200:
                    self.wrong.append(f"finish {status} {reply}")
            elif status != 204:
                self.wrong.append(f"claim {status} {run}")
                await asyncio.sleep(1)

    async def post(self, free, number):
        connection = await free.get()
        run = f"r-{number}"
        key = f"agent:main:bench:direct:u{number % self.options.sessions}"
        self.posted[run] = time.perf_counter()
        status, reply = await connection.post(f"/v1/agents/main/sessions/{key}/runs",
                                              {"runId": run, "queueOnly": True, "whenBusy": "queue", "input": {"role": "user", "text": "x"}})
        if status != 202:
            self.wrong.append(f"run {status} {reply}")
        free.put_nowait(connection)

    def cpu(self):
        fields = Path(f"/proc/{self.daemon.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def run(self):
        o = self.options
        client = self.daemon.client()
        for number in range(o.sessions):
            reply = client.post("/v1/agents/main/sessions", {"key": f"agent:main:bench:direct:u{number}",
                                                             "entry": {"queueMode": "followup", "turnCap": "unlimited"}})
            assert reply.status == 201, reply
        runners = []
        for number in range(o.runners):
            runners.append(asyncio.create_task(self.runner()))
            if number % 50 == 49:
                await asyncio.sleep(0.02)
        await asyncio.sleep(2)
        before = self.cpu()
        await asyncio.sleep(10)
        waiting = (self.cpu() - before) / 10
        print(f"{o.runners} runners wait: the daemon takes {waiting * 100:.2f} % of a processor", flush=True)
        free = asyncio.Queue()
        for _ in range(64):
            free.put_nowait(self.connection())
        began, before, posts = time.perf_counter(), self.cpu(), []
        for number in range(o.rate * o.seconds):
            await asyncio.sleep(max(0, began + number / o.rate - time.perf_counter()))
            posts.append(asyncio.create_task(self.post(free, number)))
        await asyncio.gather(*posts)
        while self.posted and time.perf_counter() - began < o.seconds + 30:
            await asyncio.sleep(0.05)
        took = time.perf_counter() - began
        busy = (self.cpu() - before) / took
        for task in runners:
            task.cancel()
        delays = sorted(1000 * delay for delay in self.delays)
        twice = [run for run, times in self.claimed.items() if times > 1]
        at = lambda share: delays[min(len(delays) - 1, int(share * len(delays)))] if delays else float("nan")  # noqa: E731
        print(f"{len(self.claimed)} of {o.rate * o.seconds} runs in {took:.1f} s, claimed twice {len(twice)}, wrong {len(self.wrong)} {self.wrong[:2]}\n"
              f"ms from POST to claim: p50 {at(.5):.1f} p90 {at(.9):.1f} p99 {at(.99):.1f} max {at(1):.1f}; "
              f"the daemon takes {busy * 100:.0f} % of a processor", flush=True)
        return not twice and not self.wrong and len(self.claimed) == o.rate * o.seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to measure (default build/release/sessiond)")
    parser.add_argument("--runners", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=100, help="runs a second")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=400)
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    print(sessiond.binary(), flush=True)
    with Daemon() as daemon:
        good = asyncio.run(Bench(daemon, options).run())
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

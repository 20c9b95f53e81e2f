#!/usr/bin/env python3
"""The whole loop under kill -9: people write, bridges bring it in, runners answer, bridges bring it out; every process is killed at random.

    tests/crash/loop.py --binary PATH [--bridges 4] [--runners 8] [--conversations 64] [--messages 10000] [--kills 200] [--seed N]

The runner and the bridge are those of tests/api/newcomers, the platform is tests/harness/chat.py. Half of the conversations collect what waits
into one run, half answer each message by itself. At the end, of each conversation: each message is in its transcript once and was answered
once; every answer reached the platform, in the transcript's order; no delivery is left. Of each run: it ended once, and ran alone in its session.
No two runners printed the same lease, and the fences of a session rise.
The last line is `messages M answered A runs R attempts lost L kills K repeated P faults F`; the exit code is 1 when there was a fault.
"""

import argparse
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS))  # harness
from harness import sessiond  # noqa: E402
from harness.case import text_of  # noqa: E402
from harness.chat import Chat  # noqa: E402
from harness.sessiond import S, Daemon  # noqa: E402

PROGRAMS = TESTS / "api" / "newcomers"
AHEAD = 6  # messages of a conversation that wait for an answer


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class World:
    def __init__(self, options):
        self.options = options
        self.daemon = Daemon({"listen": {"tcp": f"127.0.0.1:{free_port()}"}, "runs": {"maxAttempts": 1000},
                              "deliveries": {"maxAttempts": 1000}})
        self.chat = Chat(options.bridges)
        self.people = [f"p{number}" for number in range(options.conversations)]
        self.processes, self.faults = {}, []
        self.leases = self.daemon.home / "leases"
        self.errors = self.daemon.home / "errors"

    def prepare(self):
        self.daemon.start()
        client = self.daemon.client()
        for number, person in enumerate(self.people):
            entry = {"turnCap": "unlimited", "queueCap": 10_000, "queueDebounceMs": 20, "queueMode": ("collect", "followup")[number % 2]}
            reply = client.post("/v1/agents/main/sessions", {"key": self.key(person), "entry": entry})
            assert reply.status == 201, reply
        address = f"127.0.0.1:{self.daemon.port}"
        runner, bridge = self.daemon.token("runner"), self.daemon.token("bridge", channel="chat")
        assert client.post("/v1/deliveries/claim", {"channel": "chat"}).status == 204  # adopted
        self.commands = {f"runner {n}": ("runner.py", address, runner, "main", "2000") for n in range(self.options.runners)}
        self.commands |= {f"bridge {n}": ("bridge.py", address, bridge, "chat", self.chat.address, str(n)) for n in range(self.options.bridges)}
        for name in self.commands:
            self.begin(name)

    @staticmethod
    def key(person):
        return f"agent:main:chat:direct:{person}"

    def begin(self, name):
        program, *arguments = self.commands[name]
        with open(self.leases, "ab") as out, open(self.errors, "ab") as errors:
            self.processes[name] = subprocess.Popen([sys.executable, str(PROGRAMS / program), *arguments], stdout=out, stderr=errors)

    def kill(self, name):
        if name == "daemon":
            self.daemon.kill9()
            self.daemon.start(60)
            return
        self.processes[name].kill()
        self.processes[name].wait()
        self.begin(name)

    def answered(self, person):
        """How many messages of a person the platform has answers to."""
        return sum(len(text.removeprefix("You said: ").split()) for text in self.chat.sent.get(person, []))

    def write(self):
        """People write while fewer than AHEAD of their messages wait."""
        written = Counter()
        share, more = divmod(self.options.messages, len(self.people))
        self.wanted = {person: share + (number < more) for number, person in enumerate(self.people)}
        while sum(written.values()) < self.options.messages:
            for number, person in enumerate(self.people):
                if written[person] < self.wanted[person] and written[person] - self.answered(person) < AHEAD:
                    name = f"{person}.{written[person]}"
                    written[person] += 1
                    self.chat.write(number % self.options.bridges, person, name, name)
            time.sleep(0.01)

    def total(self):
        return sum(map(self.answered, self.people))

    def run(self, chance):
        """Kills at random until all is answered; the number of kills of each kind."""
        kills, writing = Counter(), threading.Thread(target=self.write, daemon=True)
        writing.start()
        began, last, moved = time.monotonic(), 0, time.monotonic()
        while (total := self.total()) < self.options.messages:
            if total > last:
                last, moved = total, time.monotonic()
            if time.monotonic() - moved > 120:
                self.faults.append(f"nothing was answered for 120 s: {total} of {self.options.messages}")
                break
            due = self.options.kills * total / self.options.messages  # spread over the messages
            if kills.total() <= due and kills.total() < self.options.kills:
                name = "daemon" if chance.random() < 0.2 else chance.choice(list(self.processes))
                self.kill(name)
                kills[name.split()[0]] += 1
                if kills.total() % 20 == 0:
                    print(f"{kills.total()} kills, {total} answered in {time.monotonic() - began:.0f} s", flush=True)
            time.sleep(chance.uniform(0, 0.1))
        writing.join(5)
        print(f"answered {self.total()} in {time.monotonic() - began:.1f} s", flush=True)
        return kills

    def settle(self):
        """Until the last ack is there."""
        end = time.monotonic() + 60
        client = self.daemon.client()
        while time.monotonic() < end:
            if not any(client.get(f"/v1/deliveries?status={status}&limit=1").json["data"] for status in ("pending", "leased")):
                break
            time.sleep(0.1)
        else:
            self.faults.append("deliveries are left: " + str(client.get("/v1/deliveries?status=pending").raw[:500]))
        for process in self.processes.values():
            process.kill()
            process.wait()

    # -- what must be true at the end

    def pages(self, path):
        client, rows, after = self.daemon.client(), [], None
        while True:
            page = client.get(path + ("" if after is None else f"&after={after}")).json
            rows += page["data"]
            if not page["data"] or not page["page"]["hasMore"]:
                return rows
            after = page["data"][-1]["seq"]

    def check_conversation(self, person):
        wanted = [f"{person}.{number}" for number in range(self.wanted[person])]
        entries = [row for row in self.pages(S(self.key(person), "main", "messages") + "?limit=200&order=asc") if "role" in row]
        asked = [text_of(row) for row in entries if row["role"] == "user"]
        answers = [text_of(row) for row in entries if row["role"] == "assistant" and row.get("state") != "interrupted"]
        said = Counter(word for text in answers for word in text.removeprefix("You said: ").split())
        if asked != wanted:
            self.faults.append(f"{person}: {len(asked)} messages, wanted {len(wanted)}: {missing(wanted, asked)}")
        if said != Counter(wanted):
            self.faults.append(f"{person}: not answered once: {dict((Counter(wanted) - said) or (said - Counter(wanted)))}")
        if self.chat.sent.get(person, []) != answers:
            self.faults.append(f"{person}: the platform has {len(self.chat.sent.get(person, []))} answers, the transcript {len(answers)}, or another order")
        return sum(said[name] == 1 for name in wanted)

    def events(self):
        client = self.daemon.client()
        after = client.get("/v1/sessions?limit=1").json["asOf"].split("-")[0] + "-0"
        while True:
            page = client.get(f"/v1/events?poll=1&limit=1000&after={after}&types=run.queued,run.started,run.finished,delivery.sent").json
            yield from page["data"]
            if not page["data"] and page["next"] == after:
                return
            after = page["next"]

    def check_events(self):
        """Each run ends once; a session's runs do not overlap; deliveries are acked in the order of a conversation."""
        active, ended, begun, acked, lost, queued, waits = {}, Counter(), set(), set(), 0, {}, []
        for event in self.events():
            kind, data, key = event["type"], event["data"], event.get("key")
            if kind == "delivery.sent":
                acked.add(data["deliveryId"])
                continue
            run = data["runId"]
            begun.add(run)
            if kind == "run.queued":
                queued[run] = event["time"]
            if kind == "run.started":
                waits.append((event["time"] - queued.get(run, event["time"]), run, key))
                if key in active:
                    self.faults.append(f"{key}: {run} started while {active[key]} was active")
                active[key] = run
            elif kind == "run.finished":
                ended[run] += 1
                lost += (data.get("error") or {}).get("code") == "lease_lost"
                if active.get(key) == run:
                    del active[key]
        wrong = [run for run in begun if ended[run] != 1]
        if wrong or active:
            self.faults.append(f"{len(wrong)} runs did not end once: {wrong[:5]} {active}")
        unsent = set(self.chat.nonces) - acked
        if unsent:
            self.faults.append(f"{len(unsent)} sent answers were never acked: {list(unsent)[:5]}")
        waits.sort()
        print(f"ms that a run waited: p50 {waits[len(waits) // 2][0]} p99 {waits[len(waits) * 99 // 100][0]}, longest {waits[-1]}", flush=True)
        return len(begun), lost

    def check_leases(self):
        held = Counter(self.leases.read_text().splitlines())
        twice = [lease for lease, times in held.items() if times > 1]
        if twice:
            self.faults.append(f"leases that two runners held: {twice[:5]}")


def missing(wanted, got):
    return {"missing": [x for x in wanted if x not in set(got)][:5], "double": [x for x, n in Counter(got).items() if n > 1][:5],
            "order": wanted != got and sorted(wanted) == sorted(got)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("--bridges", type=int, default=4)
    parser.add_argument("--runners", type=int, default=8)
    parser.add_argument("--conversations", type=int, default=64)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="of what is killed, and when (default: random, and printed)")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    seed = options.seed if options.seed is not None else random.randrange(1 << 31)
    print(f"seed {seed}, {sessiond.binary()}", flush=True)
    world = World(options)
    answered = runs = lost = 0
    kills = Counter()
    try:
        world.prepare()
        kills = world.run(random.Random(seed))
        world.settle()
        answered = sum(map(world.check_conversation, world.people))
        runs, lost = world.check_events()
        world.check_leases()
        if errors := world.errors.read_text().strip():
            print("programs said:", errors[-2000:])
    finally:
        for process in world.processes.values():
            process.kill()
        world.daemon.close()
        world.chat.close()
    for fault in world.faults[:20]:
        print("FAULT", fault)
    told = ", ".join(f"{name} {count}" for name, count in sorted(kills.items()))
    print(f"messages {options.messages} answered {answered} runs {runs} attempts lost {lost} kills {kills.total()} ({told}) "
          f"repeated {world.chat.repeated} faults {len(world.faults)}", flush=True)
    sys.exit(1 if world.faults or answered != options.messages else 0)


if __name__ == "__main__":
    main()

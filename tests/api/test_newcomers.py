"""A runner and a bridge that were written from README.md and web/openapi.json alone (newcomers/), together under 150 lines,
hold a conversation through kill -9 of the runner, the bridge and the daemon."""

import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from harness.case import Case, S
from harness.chat import Chat
from harness.sessiond import SLOW, eventually

runs = {"release"}

HERE = Path(__file__).parent / "newcomers"
MESSAGES = 40


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Newcomers(Case):
    def program(self, name, *arguments):
        process = subprocess.Popen([sys.executable, str(HERE / name), *map(str, arguments)], stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_bridge_and_runner_are_short(self):
        lines = [line for file in HERE.glob("*.py") for line in file.read_text().splitlines()]
        self.assertLess(len(lines), 150)

    def test_a_conversation_goes_on_through_kills(self):
        daemon = self.spawn({"listen": {"tcp": f"127.0.0.1:{free_port()}"}, "runs": {"maxAttempts": 1000, "turnCap": 0}})
        chat = Chat()
        self.addCleanup(chat.close)
        key = self.new("agent:main:chat:direct:ada", api=daemon.client(), queueDebounceMs=50, queueCap=1000, turnCap="unlimited")["key"]
        address = f"127.0.0.1:{daemon.port}"
        tokens = {"runner.py": (daemon.token("runner"), "main"), "bridge.py": (daemon.token("bridge", channel="chat"), "chat", chat.address, 0)}
        processes = {name: self.program(name, address, *more) for name, more in tokens.items()}
        eventually(lambda: daemon.client().get("/metrics").status == 200)
        chance, kills = random.Random(5), {"daemon": 0, "runner.py": 0, "bridge.py": 0}
        turns = [name for name in kills for _ in range(4)]
        chance.shuffle(turns)
        for number in range(MESSAGES):
            chat.write(0, "ada", f"m{number}", f"<{number}>")
            time.sleep(chance.uniform(0, 0.15) * SLOW)
            if number % 3 == 2 and turns:
                name = turns.pop()
                kills[name] += 1
                if name == "daemon":
                    daemon.kill9()
                    daemon.start()
                else:
                    processes[name].send_signal(signal.SIGKILL)
                    processes[name].wait()
                    processes[name] = self.program(name, address, *tokens[name])
        self.assertEqual(set(kills.values()), {4})
        numbers = lambda texts: [word for text in texts for word in text.removeprefix("You said: ").split()]  # noqa: E731
        wanted = [f"<{number}>" for number in range(MESSAGES)]
        eventually(lambda: len(numbers(chat.sent.get("ada", []))) >= MESSAGES, 60, what="every answer on the platform")
        api = daemon.client()
        entries = [entry for entry in self.messages(key, api=api) if entry.get("state") != "interrupted"]
        said = [(entry["role"], entry["content"][0]["text"]) for entry in entries if entry.get("role") in ("user", "assistant")]
        self.assertEqual([text for role, text in said if role == "user"], wanted)
        answers = [text for role, text in said if role == "assistant"]
        self.assertEqual(numbers(answers), wanted)
        self.assertEqual(chat.sent["ada"], answers)
        eventually(lambda: not self.ok(api.get("/v1/deliveries?status=leased"), 200)["data"], 20, what="the last ack")
        self.assertEqual(self.ok(api.get("/v1/deliveries?status=pending"), 200)["data"], [])
        self.assertEqual({run["status"] for run in self.ok(api.get(S(key, "main", "runs")), 200)["data"]} - {"done", "interrupted"}, set())

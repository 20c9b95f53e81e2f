"""The npm clients of the event stream, of the versions in package-lock.json, in node."""

import subprocess
import threading
from pathlib import Path

from harness.case import json
from harness.npm import install
from harness.sessiond import eventually
from talk import TYPES, Talk

HERE = Path(__file__).resolve().parent


class Node:
    """A script that tells what it sees, one JSON object a line."""

    def __init__(self, script, *arguments):
        self.lines, self.errors = [], []
        self._process = subprocess.Popen(["node", str(script), *arguments], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._readers = [threading.Thread(target=self._read, args=arguments, daemon=True) for arguments in
                         ((self._process.stdout, lambda line: self.lines.append(json.loads(line))),
                          (self._process.stderr, self.errors.append))]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(pipe, keep):
        for line in pipe:
            keep(line)
        pipe.close()

    def seen(self):
        return [(line["id"], line["type"]) for line in list(self.lines) if line.get("type") in TYPES]

    def states(self):
        return [line["state"] for line in list(self.lines) if "state" in line]

    @property
    def alive(self):
        return self._process.poll() is None

    def close(self):
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(5)


class InNode(Talk):
    @classmethod
    def setUpClass(cls):
        cls.installed = install(HERE)
        super().setUpClass()

    def follow(self, script, path="/v1/events", token=None):
        node = Node(self.installed / script, f"http://127.0.0.1:{self.daemon.port}{path}", token or self.daemon.admin_token, *TYPES)
        self.addCleanup(node.close)
        eventually(lambda: "open" in node.states() or node.errors, 20, what="the stream")
        self.assertEqual(node.errors, [])
        return node

    def survives_kills(self, script):
        viewer = self.daemon.token("viewer")
        node = self.follow(script, token=viewer)
        first = int(self.say(self.key)["asOf"].split("-")[1])
        for _ in range(3):
            last = self.say_through_a_kill()
            eventually(lambda: node.seen() and node.seen()[-1][0].endswith(f"-{last}"), 20, what=f"event {last} in node")
        self.assertTrue(node.alive)
        self.check(node.seen(), first, last)
        self.assertEqual(node.states()[-1], "open")
        self.assertGreaterEqual(node.states().count("open"), 4)
        print(f"     {script}: {len(node.seen())} events over 3 kills, {first} to {last}, contiguous")

    def test_eventsource(self):
        self.survives_kills("eventsource.mjs")

    def test_eventsource_client(self):
        self.survives_kills("eventsource-client.mjs")

    def test_eventsource_closes_when_its_token_is_revoked(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        node = self.follow("eventsource.mjs", token=made["token"])
        self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
        eventually(lambda: node.states()[-1] == "closed", 10, what="closed")
        self.assertEqual(node.lines[-1]["code"], 401)

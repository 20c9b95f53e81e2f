#!/usr/bin/env python3
"""A runner that asks no model: it repeats what people said. Written from README.md and web/openapi.json alone.

    runner.py ADDRESS TOKEN AGENT [LEASE_MS]        prints a line for each run that it holds: its id and its fence
"""

import sys
import time
from urllib.parse import quote

from client import Client

ADDRESS, TOKEN, AGENT = sys.argv[1:4]
LEASE_MS = int(sys.argv[4]) if len(sys.argv) > 4 else 1000


class Lost(Exception):
    """The daemon gave the run to another runner, or ended it."""


def text_of(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Run:
    def __init__(self, daemon, run):
        self.daemon, self.run, self.calls = daemon, run, 0
        self.session = f"/v1/agents/{AGENT}/sessions/{quote(run['key'], safe=':')}"

    def post(self, verb, body):
        status, reply = self.daemon.ask("POST", f"{self.session}/runs/{self.run['runId']}/{verb}", {"fence": self.run["lease"]["fence"], **body})
        if status != 200:
            raise Lost(reply)
        return reply

    def tell(self, *events):
        self.calls += 1
        return self.post("events", {"n": self.calls, "events": list(events)})

    def answer(self):
        self.tell({"type": "step.started", "step": 1})
        said = []
        for entry in self.run["input"]:
            status, message = self.daemon.ask("GET", f"{self.session}/messages/{entry}")
            if status != 200:
                raise Lost(message)
            said.append(text_of(message))
        text = "You said: " + " ".join(said)
        for word in text.split(" ")[:3]:
            if self.tell({"type": "text.delta", "text": word + " "})["abort"]:
                return self.post("finish", {"status": "interrupted"})
            time.sleep(0.005)
        return self.post("finish", {"status": "done", "entries": [{"role": "assistant", "text": text}]})


daemon = Client(ADDRESS, TOKEN)
while True:
    status, run = daemon.ask("POST", f"/v1/agents/{AGENT}/runs/claim", {"waitMs": 10_000, "leaseMs": LEASE_MS})
    if status == 200:
        sys.stdout.write(f"{run['runId']} {run['lease']['fence']}\n")  # one write: runners share the file
        sys.stdout.flush()
        try:
            Run(daemon, run).answer()
        except Lost:
            pass
    elif status != 204:
        sys.exit(f"the claim was answered {status} {run}")

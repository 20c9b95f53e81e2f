"""A runner that a test stops with SIGSTOP: sleeping_runner.py ADDRESS TOKEN KEY LEASE_MS

Claims a run of KEY, prints its id, and says every 50 ms that it lives. Once that is refused it tries every write there is, and prints a line of
JSON for each: [what, status, code].
"""

import json
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "newcomers"))

from client import Client  # noqa: E402

address, token, key, lease_ms = sys.argv[1:]
daemon = Client(address, token)
status, run = daemon.ask("POST", "/v1/agents/main/runs/claim", {"keyPrefix": key, "waitMs": 10_000, "leaseMs": int(lease_ms)})
assert status == 200, (status, run)
print(run["runId"], flush=True)
session, fence = f"/v1/agents/main/sessions/{key}", run["lease"]["fence"]
path = f"{session}/runs/{run['runId']}"
while daemon.ask("POST", path + "/events", {"fence": fence, "events": [{"type": "text.delta", "text": "early "}]})[0] == 200:
    time.sleep(0.05)

daemon.headers["X-Run"] = f"{run['runId']};{fence}"
said = {"role": "assistant", "text": "from beyond"}
for what, method, place, body in (
        ("events", "POST", path + "/events", {"fence": fence, "events": [{"type": "text.delta", "text": "from beyond"}]}),
        ("steps", "POST", path + "/events", {"fence": fence, "events": [{"type": "step.started", "step": 1}]}),
        ("approvals", "POST", session + "/approvals", {"runId": run["runId"], "fence": fence, "tool": "rm", "args": {}}),
        ("messages", "POST", session + "/messages", said),
        ("messages that are delivered", "POST", session + "/messages", {**said, "deliver": True}),
        ("outbound", "POST", session + "/outbound", {"text": "from beyond"}),
        ("compact", "POST", session + "/compact", {"summary": "from beyond", "firstKeptEntryId": run["input"][0]}),
        ("deltas", "POST", session + "/deltas", {"runId": run["runId"], "text": "from beyond"}),
        ("PATCH", "PATCH", session, {"label": "from beyond"}),
        ("finish", "POST", path + "/finish", {"fence": fence, "status": "done", "entries": [said]}),
        ("finish failed", "POST", path + "/finish", {"fence": fence, "status": "failed"})):
    daemon.headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status, reply = daemon.ask(method, place, body)
    print(json.dumps([what, status, (reply or {}).get("code")]), flush=True)

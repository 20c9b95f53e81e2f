"""What the crash tests share: a subscriber that comes back after every kill, and what must agree after a restart."""

import json
import os
import time
import uuid
from pathlib import Path

from harness.case import text_of
from harness.sessiond import S, SLOW


SHARED = {"store": {"mode": "shared"}}
ANOTHER_BOOT = "01234567-89ab-cdef-0123-456789abcdef"


def leave_locks(daemon):
    """What an earlier boot left in a shared store: a lock on each file, half of them as 0.1.0 wrote them, and a name beside each.

    Their pid is ours, so that a process that has it lives."""
    folder = daemon.agent_dir()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        machine = Path("/etc/machine-id").read_text().strip() + ":"
    except OSError:
        machine = ""
    files = [folder / "sessions.json", *folder.glob("*.jsonl")]
    for number, file in enumerate(files):
        host = f"{machine if number % 2 else ''}{ANOTHER_BOOT}:4026531836"
        lock = file.with_name(file.name + ".lock")
        for name in (lock, lock.with_name(f"{lock.name}.{os.getpid()}.{uuid.uuid4().hex[:24]}")):
            name.write_text(json.dumps({"pid": os.getpid(), "createdAt": "2026-01-01T00:00:00.000Z", "starttime": 1, "host": host, "token": "left"}))


class Reader:
    """One subscriber over all rounds: comes back with the last id it has, as a browser does."""

    def __init__(self, client):
        self.client, self.last_id, self.last_seq, self.events, self.stream = client, None, 0, 0, None
        self.holes = []    # what was left out, or came twice
        self.renames = []  # every event that renames transcripts of the agent main

    def connect(self, patience=30):
        deadline = time.monotonic() + patience * SLOW
        while True:
            try:
                self.stream = self.client.stream("/v1/events?types=*,log.*", self.last_id)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def catch_up(self, head, timeout=30):
        """Waits until it has seen seq `head`, now or before the last kill."""
        if self.last_seq < head:
            self.stream.wait_seq(head, timeout)

    def collect(self):
        """Takes what the ended connection had seen."""
        self.stream.close()
        for seq in self.stream.seqs():
            if self.events and seq != self.last_seq + 1:
                self.holes.append(f"seq {self.last_seq} then {seq}")
            self.last_seq, self.events = seq, self.events + 1
        self.holes += ["a gap" for e in self.stream.events if e.type == "stream.gap"]
        self.renames += [e.data for e in self.stream.durable if e.data.get("agent") == "main"
                         and (e.type in ("session.reset", "session.deleted", "context.cleared")
                              or e.type == "session.created" and "archivedAs" in e.data["data"])]
        self.last_id = self.stream.last_id or self.last_id


def transcript(client, key):
    """Texts of a whole transcript over its pages; None when there is no such session."""
    texts, more = [], ""
    while True:
        reply = client.get(S(key, "main", "messages") + f"?limit=200&order=asc{more}")
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise AssertionError(f"{key}: {reply}")
        body = reply.json
        texts += [text_of(m) for m in body["data"]]
        if not body["page"]["hasMore"]:
            return texts
        more = f"&after={body['page']['nextAfter']}"


def compare_store(daemon, client, prefix="agent:main:"):
    """(the entries of sessions.json with this prefix after a checkpoint, where they and the API differ)."""
    store = {key: entry for key, entry in daemon.sessions_json().items() if key.startswith(prefix)}
    served, more, faults = {}, "", []
    while True:
        body = client.get(f"/v1/agents/main/sessions?archived=any&include=snapshots&limit=200&sort=key&keyPrefix={prefix}{more}").json
        served.update({s["key"]: s for s in body["data"]})
        if not body["page"]["hasMore"]:
            break
        more = "&cursor=" + body["page"]["next"]
    if set(store) != set(served):
        faults.append(f"sessions.json and the API differ in {sorted(set(store) ^ set(served))[:5]}")
    for key in set(store) & set(served):
        wrong = [n for n, v in store[key].items() if served[key].get(n) != v and n != "previousSessions"]  # in S/history
        if wrong:
            faults.append(f"{key}: {wrong} differ between sessions.json and the API")
    return store, faults

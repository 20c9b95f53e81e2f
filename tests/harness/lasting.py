"""Media and the logs of sessions in tests that kill or copy a store: what a request brings, and whether it is there, whole, once and in order.

A Runner leads one run after the other in a session of its own, a request at a time: it starts the run, logs what it asked of its model and
was answered, and finishes it. The daemon writes pre_run and assistant in the commits of the first and the last. So the whole log of the
session follows from what was acknowledged.
"""

import base64
import hashlib
import json

from harness.sealed import plain_bytes
from harness.sessiond import S

LASTING = {"sessionLog": "full", "transcripts": {"durableContent": "media"}}
FIRST = ("session_init", "")


def media(text):
    """Bytes of a medium, above the size from which it is a blob. Every fourth is one that other texts have, too."""
    number = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    name = f"shared {number % 3}" if number % 4 == 0 else text
    return hashlib.sha256(name.encode()).digest() * 2100


def part_of(text):
    return {"type": "image", "data": base64.b64encode(media(text)).decode(), "mimeType": "image/png"}


def media_fault(client, key, entry_id, text):
    """What is wrong with the message of this text and its medium, or None. A session that is gone shows it by its blob only."""
    reply = client.get(S(key, "main", "messages", entry_id) + "?media=inline")
    if reply.status == 404:
        return blob_fault(client, text)
    if reply.status != 200:
        return f"the message {text[:40]!r} of {key} is answered {reply.status} {reply.raw[:200]!r}"
    content = reply.json["content"]
    if content != [{"type": "text", "text": content[0].get("text")}, part_of(text)]:
        return f"the medium of {text[:40]!r} in {key} is another: {str(content)[:300]}"
    return None


def blob_fault(client, text):
    blob = client.get("/v1/blobs/" + hashlib.sha256(media(text)).hexdigest())
    return None if blob.status == 200 and blob.raw == media(text) else f"the blob of {text[:40]!r} is answered {blob.status} {blob.raw[:200]!r}"


def shape(line):
    """(kind, the text that a request put into it) of a line of the log."""
    kind = line["type"]
    if kind == "provider_request":
        return kind, line["messages"][0]["content"]
    if kind == "provider_response_normalized":
        return kind, line["message"]["content"]
    return kind, {"pre_run": line.get("input"), "assistant": line.get("content")}.get(kind, "")


class Runner:
    """Plans the requests of the runs of one session, and knows its log."""

    def __init__(self, name):
        self.name, self.count, self.step, self.run = name, 0, 0, None
        self.logs = {}  # key of a session -> the shapes of its acknowledged lines, in order

    def next(self, key):
        """(path, body, headers, the texts of messages, the shapes of lines) of the next request. Its key stays until the run is finished."""
        if self.step == 0:
            self.count += 1
            self.key, self.text = key, f"{self.name}.{self.count}"
            body = {"runId": f"{self.name}.{self.count}".replace(" ", "-"), "leaseMs": 600_000,
                    "input": {"role": "user", "text": f"<{self.text}>"}}
            first = [] if self.logs.get(key) else [FIRST]
            return S(key, "main", "runs"), body, {}, [f"<{self.text}>"], [*first, ("pre_run", f"<{self.text}>")]
        run = self.run
        if self.step == 1:
            asked, answered = f"<{self.text} asked>", f"<{self.text} answered>"
            body = {"entries": [{"type": "provider_request", "provider": "p", "model": "m", "messages": [{"role": "user", "content": asked}]},
                                {"type": "provider_response_normalized", "message": {"role": "assistant", "content": answered},
                                 "toolCallCount": 0}]}
            return (S(self.key, "main", "log"), body, {"X-Run": f"{run['runId']};{run['lease']['fence']}"}, [],
                    [("provider_request", asked), ("provider_response_normalized", answered)])
        said = f"<{self.text} said>"
        body = {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": said}]}
        return S(self.key, "main", "runs", run["runId"], "finish"), body, {}, [said], [("assistant", said)]

    def take(self, reply, shapes):
        """It was acknowledged."""
        if self.step == 0:
            self.run = reply.json
        self.logs.setdefault(self.key, []).extend(shapes)
        self.step = (self.step + 1) % 3

    def forget(self):
        """The next request starts a run in another session."""
        self.step, self.run = 0, None


def read_log(client, key):
    lines, more = [], ""
    while True:
        reply = client.get(S(key, "main", "log") + f"?limit=200{more}")
        if reply.status != 200:
            raise AssertionError(f"the log of {key}: {reply}")
        lines += reply.json["data"]
        if not reply.json["page"]["hasMore"]:
            return lines
        more = f"&after={reply.json['page']['nextAfter']}"


def log_faults(lines, acknowledged, unanswered, name):
    """Where a log differs from what was acknowledged; the lines of a request without an answer are all there, or none."""
    if [line.get("seq") for line in lines] != list(range(len(lines))):
        return [f"{name} has the seqs {[line.get('seq') for line in lines]}"]
    there = [shape(line) for line in lines]
    if there in (acknowledged, acknowledged + unanswered):
        return []
    at = next((n for n, (a, b) in enumerate(zip(there, acknowledged)) if a != b), min(len(there), len(acknowledged)))
    return [f"{name} has {len(there)} lines, {len(acknowledged)} were acknowledged, {len(unanswered)} have no answer; they differ from line {at}: "
            f"{there[at:at + 4]}, acknowledged {acknowledged[at:at + 4]}"]


def doctor_faults(daemon):
    """What the doctor says of blobs and logs, while the daemon is stopped."""
    report = json.loads(daemon.cli("doctor", "--json", timeout=60).stdout)
    return [f"the doctor: {f['check']} {f['path']}: {f['detail']}" for f in report["findings"]
            if f["level"] != "ok" and (f["check"] in ("blobs", "logs", "encryption", "kind")
                                       or f["check"] == "modes" and ("/blobs/" in f["path"] or f["path"].endswith("/logs")))]


def log_file(daemon, session_id, agent="main"):
    return daemon.state / "agents" / agent / "logs" / f"{session_id}.jsonl"


def file_lines(path):
    """The lines of a log's file, opened. What is no whole line of JSON is there as its bytes, which no answer equals."""
    raw = plain_bytes(path) if path.exists() else b""
    lines = raw.split(b"\n")
    return [parsed(line) for line in lines[:-1]] + [line for line in lines[-1:] if line]


def parsed(line):
    try:
        return json.loads(line)
    except ValueError:
        return line

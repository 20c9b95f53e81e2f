"""What a daemon has promised, and whether it is kept after a restart.

Every request leaves a mark: a type of event and a text that no other event of that type has. A request that was acknowledged has its event
once, one that was refused has none, one of unknown outcome has it at most once, and once after it was sent again with the same key. Whatever
was seen in a reply, a read or a stream is in the log after a restart; the log, the API, sessions.json and the transcripts say the same.
"""

import http.client
import json
import time
from collections import Counter

from harness.case import text_of
from harness.sessiond import S, SLOW

LOST = (OSError, http.client.HTTPException)  # the connection went, with the daemon


class Request:
    def __init__(self, method, path, body, mark, key=None):
        self.method, self.path, self.body, self.mark, self.key = method, path, body, mark, key
        self.outcome = None  # acknowledged | refused | unknown

    def __repr__(self):
        return f"{self.method} {self.path} {self.mark[1][:40]!r}"

    def send(self, client):
        """The reply, or None when the connection was lost. A key that is still in flight is waited for."""
        deadline = time.monotonic() + 10 * SLOW
        while True:
            try:
                reply = client.request(self.method, self.path, self.body, idempotency_key=self.key)
            except LOST:
                self.outcome = "unknown"
                return None
            if (reply.json or {}).get("code") != "idempotency_in_flight" or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        code = (reply.json or {}).get("code")
        if reply.status < 300 or (self.method == "DELETE" and reply.status == 404 and self.outcome == "unknown"):
            self.outcome = "acknowledged"
        else:
            self.outcome = "unknown" if code == "outcome_unknown" else "refused"
        return reply


def create(key):
    return Request("POST", "/v1/agents/main/sessions", {"key": key}, ("session.created", f'"key":"{key}"'), "create " + key)


def append(key, text, size=0, topic=None):
    body = {"type": "message", "id": text.replace(" ", "-"), "message": {"role": "user", "content": f"<{text}>" + "x" * size}}
    path = S(key, "main", "messages") + (f"?topic={topic}" if topic else "")
    return Request("POST", path, body, ("message.appended", f"<{text}>"), "append " + text)


def inbound(peer, text):
    body = {"channel": "crash", "chatType": "direct", "peer": peer, "text": f"<{text}>"}
    return Request("POST", "/v1/inbound", body, ("message.appended", f"<{text}>"), "inbound " + text)


def patch(key, value):
    return Request("PATCH", S(key), {"x-patch": value}, ("session.updated", f'"x-patch":"{value}"'))


def reset(key):
    return Request("POST", S(key, "main", "reset"), {}, ("session.reset", f'"key":"{key}"'), "reset " + key)


def delete(key):
    return Request("DELETE", S(key), None, ("session.deleted", f'"key":"{key}"'))


def log_of(client):
    """All durable events, by a stream from the beginning."""
    epoch, head = client.get("/v1/sessions?limit=1").json["asOf"].split("-")
    with client.stream("/v1/events", f"{epoch}-0") as stream:
        if int(head) > 0:
            stream.wait_seq(int(head), 30)
        return stream.durable


class Promises:
    def __init__(self):
        self.requests, self.seen, self.streams, self.faults = [], [], [], []

    def saw(self, messages):
        self.seen += [text_of(message)[:80].split(">")[0] + ">" for message in messages]

    def check(self, client, daemon):
        """After a restart. Requests of unknown outcome are sent again."""
        self._against(log_of(client), "after the restart")
        for request in self.requests:
            if request.outcome == "unknown":
                reply = request.send(client)
                gone = (reply.json or {}).get("code") == "session_not_found" and self._deleted_since(request)
                if request.outcome != "acknowledged" and not gone:
                    self.faults.append(f"{request} sent again: {reply}")
        log = log_of(client)
        self._against(log, "after the retries")
        self._files(client, daemon, log)
        return self.faults

    def _deleted_since(self, request):
        """Its session was deleted meanwhile, by us: then "refused" is how it is settled, and the log must not have it."""
        later = self.requests[self.requests.index(request) + 1:]
        return any(one.method == "DELETE" and one.outcome == "acknowledged" and request.path.startswith(one.path) for one in later)

    def _against(self, log, when):
        marks = {}  # what an event begins with has its mark; the rest may be long
        for event in log:
            marks.setdefault(event.type, []).append(event.raw[:1500])
        for request in self.requests:
            kind, text = request.mark
            times = sum(text in mark for mark in marks.get(kind, []))
            fine = {"acknowledged": [1], "refused": [0], "unknown": [0, 1]}[request.outcome]
            if times > 1 and request.method == "PATCH":
                times = 1  # has no key: sent twice, it may be there twice
            if times not in fine:
                self.faults.append(f"{when}: {request} was {request.outcome} and is {times} times in the log")
        text = "\n".join(marks.get("message.appended", []))
        self.faults += [f"{when}: a read showed {seen!r}, which is not there" for seen in self.seen if seen not in text]
        by_seq = {event.seq: event.raw for event in log}
        for events in self.streams:
            self.faults += [f"{when}: a stream showed {e.raw[:200]}, which is not there" for e in events if by_seq.get(e.seq) != e.raw][:3]
            seqs = [e.seq for e in events]
            self.faults += [f"a stream went from seq {a} to {b}" for a, b in zip(seqs, seqs[1:]) if b != a + 1][:3]

    def _files(self, client, daemon, log):
        """sessions.json, the transcripts and the API agree with the log."""
        daemon.checkpoint()
        messages, sessions = {}, {}
        for event in log:
            key, session = event.data.get("key"), event.data.get("sessionId")
            if event.type == "message.appended":
                messages.setdefault((session, event.data["topic"]), []).append(text_of(event.data["data"]["message"]))
            if event.type == "session.deleted":
                sessions.pop(key, None)
            elif key:
                entry = sessions.setdefault(key, {})
                entry["sessionId"] = session
                change = event.data["data"].get("set", {})
                entry.update({name: change[name] for name in ("x-patch", "messageCount") if name in change})
        path = daemon.agent_dir() / "sessions.json"
        store = json.loads(path.read_bytes()) if path.exists() else {}
        if set(store) != set(sessions):
            self.faults.append(f"sessions.json and the log differ in {sorted(set(store) ^ set(sessions))}")
        for key in set(store) & set(sessions):
            served = client.get(S(key)).json
            for name, value in sessions[key].items():
                if served.get(name) != value or store[key].get(name) != value:
                    self.faults.append(f"{key}: {name} is {value!r} in the log, {served.get(name)!r} by the API, "
                                       f"{store[key].get(name)!r} in sessions.json")
        for (session, topic), texts in messages.items():
            name = f"{session}-topic-{topic}" if topic else session
            archived = (name + ".jsonl.reset", name + ".jsonl.deleted")
            found = [f for f in daemon.agent_dir().iterdir() if f.name == name + ".jsonl" or f.name.startswith(archived)
                     and not f.name.endswith(".entry")]
            if len(found) != 1:
                self.faults.append(f"the transcript {name} is in {[f.name for f in found]}")
                continue
            raw = found[0].read_bytes()
            there = self._lines(found[0].name, raw)
            if there != texts:
                twice = [t[:30] for t, n in Counter(there).items() if n > 1]
                self.faults.append(f"{found[0].name} has {[t[:30] for t in there]} (twice {twice}), the log {[t[:30] for t in texts]}")

    def _lines(self, name, raw):
        if not raw.endswith(b"\n"):
            self.faults.append(f"{name} does not end with a whole line")
        try:
            lines = [json.loads(line) for line in raw.splitlines()]
        except ValueError as error:
            self.faults.append(f"{name}: {error} in {raw[:300]!r}")
            return []
        if [line["type"] for line in lines].count("session") != 1 or lines[0]["type"] != "session":
            self.faults.append(f"{name} has its header not once at the beginning")
        return [text_of(line["message"]) for line in lines if line["type"] == "message"]

"""What a daemon has promised, and whether it is kept after a restart.

Every request leaves a mark: a type of event and a text that no other event of that type has. A request that was acknowledged has its event
once, one that was refused has none, one of unknown outcome has it at most once, and once after it was sent again with the same key. Whatever
was seen in a reply, a read or a stream is in the log after a restart; the log, the API, sessions.json, the transcripts and the logs of sessions
say the same. An acknowledged medium is there, byte for byte.
"""

import http.client
import json
import time
from collections import Counter

from harness.case import text_of
from harness.lasting import blob_fault, file_lines, log_file, media_fault, part_of, shape
from harness.sealed import plain_bytes
from harness.sessiond import S, SLOW

STREAM = "/v1/events?types=*,log.*"  # all durable events
LOST = (OSError, http.client.HTTPException)  # the connection went, with the daemon


class Request:
    def __init__(self, method, path, body, mark, key=None, headers=None):
        self.method, self.path, self.body, self.mark, self.key, self.headers = method, path, body, mark, key, headers
        self.outcome = None  # acknowledged | refused | unknown
        self.lines = []      # the shapes of the lines that it brings to the session's log
        self.medium = None   # (session key, text) of a message that has one
        self.reply = None    # when it was acknowledged

    def __repr__(self):
        return f"{self.method} {self.path} {self.mark[1][:40]!r}"

    def send(self, client):
        """The reply, or None when the connection was lost. A key that is still in flight is waited for."""
        deadline = time.monotonic() + 10 * SLOW
        while True:
            try:
                reply = client.request(self.method, self.path, self.body, self.headers, idempotency_key=self.key)
            except LOST:
                self.outcome = "unknown"
                return None
            if (reply.json or {}).get("code") != "idempotency_in_flight" or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        code = (reply.json or {}).get("code")
        if reply.status < 300 or (self.method == "DELETE" and reply.status == 404 and self.outcome == "unknown"):
            self.outcome, self.reply = "acknowledged", reply
        else:
            self.outcome = "unknown" if code == "outcome_unknown" else "refused"
        return reply


def create(key):
    return Request("POST", "/v1/agents/main/sessions", {"key": key}, ("session.created", f'"key":"{key}"'), "create " + key)


def append(key, text, size=0, topic=None):
    body = {"type": "message", "id": text.replace(" ", "-"), "message": {"role": "user", "content": f"<{text}>" + "x" * size}}
    path = S(key, "main", "messages") + (f"?topic={topic}" if topic else "")
    return Request("POST", path, body, ("message.appended", f"<{text}>"), "append " + text)


def append_media(key, text):
    """A message with a medium: a blob, in a store of its own."""
    request = append(key, text)
    request.body = {"role": "user", "content": [{"type": "text", "text": f"<{text}>"}, part_of(text)]}
    request.medium = (key, text)
    return request


def of_run(runner, key):
    """The next request of a run: its mark is what it says, or logs."""
    path, body, headers, texts, lines = runner.next(key)
    kind = "message.appended" if texts else "log.appended"
    request = Request("POST", path, body, (kind, (texts or [lines[-1][1]])[0]), f"run {runner.text} {runner.step}", headers)
    request.lines = lines
    return request


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
    with client.stream(STREAM, f"{epoch}-0") as stream:
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
        self._media(client)
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
        logged = Counter(shape(event.data["data"]["entry"]) for event in log if event.type == "log.appended")
        for request in self.requests:
            times = {logged[line] for line in request.lines if line[1]}
            if times and times not in ([{1}] if request.outcome == "acknowledged" else [{0}] if request.outcome == "refused" else [{0}, {1}]):
                self.faults.append(f"{when}: {request} was {request.outcome} and its lines {request.lines} are {times} times in the log")
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
        messages, sessions, logs = {}, {}, {}
        for event in log:
            key, session = event.data.get("key"), event.data.get("sessionId")
            if event.type == "message.appended" and event.data["data"]["message"].get("type", "message") == "message":
                messages.setdefault((session, event.data["topic"]), []).append(text_of(event.data["data"]["message"]))
            if event.type == "log.appended":
                logs.setdefault(session, []).append(event.data["data"]["entry"])
            if event.type == "session.deleted":
                sessions.pop(key, None)
            elif key:
                entry = sessions.setdefault(key, {})
                entry["sessionId"] = session
                change = event.data["data"].get("set", {})
                entry.update({name: change[name] for name in ("x-patch", "messageCount", "entryCount") if name in change})
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
            raw = plain_bytes(found[0])
            there = self._lines(found[0].name, raw)
            if there != texts:
                twice = [t[:30] for t, n in Counter(there).items() if n > 1]
                self.faults.append(f"{found[0].name} has {[t[:30] for t in there]} (twice {twice}), the log {[t[:30] for t in texts]}")

        for session, lines in logs.items():
            there = file_lines(log_file(daemon, session))
            if there != lines or [line["seq"] for line in lines] != list(range(len(lines))):
                self.faults.append(f"the log of {session} has {len(there)} lines {there[-3:]}, {len(lines)} events {lines[-3:]}")

    def _media(self, client):
        for request in self.requests:
            if request.medium and request.outcome == "acknowledged":
                key, text = request.medium
                fault = blob_fault(client, text) or media_fault(client, key, request.reply.json["ids"][0], text)
                self.faults += [fault] if fault else []

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

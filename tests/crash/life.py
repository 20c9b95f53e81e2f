"""One client's life under kills: what it said, what it was answered, and what must therefore be there."""

import http.client
import json
from itertools import count

from harness.case import text_of
from harness.sealed import plain_bytes
from harness.sessiond import Client, S
from world import transcript

GONE = (OSError, http.client.HTTPException)


class Life:
    """One client, one request at a time: it knows what must be there, and which one request may or may not be."""

    def __init__(self, daemon):
        self.daemon, self.numbers = daemon, count(1)
        self.client = None
        self.sessions = {}   # key -> {"sid", "patch", topic or None -> texts}
        self.removed = {}    # key -> what was in sessions, of the deleted ones
        self.archived = {}   # file name without its archive's ending -> the texts of each archive, the oldest first
        self.deleted, self.purged = set(), set()  # keys; session ids
        self.answers = []    # (request, raw answer) of POSTs
        self.unknown = None  # the request that has no answer
        self.plan = self.stories()

    def stories(self):
        for story in count():
            key = f"agent:main:points:{story}"
            yield "POST", "/v1/agents/main/sessions", {"key": key, "entry": {"x-note": "ä" * 4000}}, key, "create", None
            clear = () if story % 3 == 2 else ("clear", "append", "topic")  # a purge leaves what was cleared before
            for what in ("append", "topic", "patch", "append", "reset", "append", "topic", *clear, "append"):
                n = next(self.numbers)
                text = f"text {n} " + "x" * (n * 997 % 6000)
                if what == "patch":
                    yield "PATCH", S(key), {"x-patch": n}, key, what, n
                elif what in ("reset", "clear"):
                    yield "POST", S(key, "main", what), {}, key, what, None
                else:
                    query = "?topic=t" if what == "topic" else ""
                    yield "POST", S(key, "main", "messages") + query, {"role": "user", "text": text}, key, what, text
            if story % 3:
                what = "delete" if story % 3 == 1 else "purge"
                yield "DELETE", S(key) + "?missing=ok" + ("&purge=true" if what == "purge" else ""), None, key, what, None
            if story % 6 == 1:
                yield "POST", S(key, "main", "restore"), {}, key, "restore", None
                for what in ("append", "topic"):
                    query = "?topic=t" if what == "topic" else ""
                    text = f"text {next(self.numbers)}"
                    yield "POST", S(key, "main", "messages") + query, {"role": "user", "text": text}, key, what, text

    def step(self, body=None):
        """One request; False when it was not answered, as when the daemon has died."""
        method, path, planned, key, what, value = body or next(self.plan)
        once = method == "POST" and "/import?" not in path  # an import is done once without a key
        name = f"key-{next(self.numbers)}" if once else None
        self.unknown = (method, path, planned, name, key, what, value)
        return self.send()

    def say(self, key, text):
        return self.step(("POST", S(key, "main", "messages"), {"role": "user", "text": text}, key, "append", text))

    def take_in(self, key, session_id, texts):
        document = {"metadata": {"id": session_id, "name": session_id}, "messages": [{"role": "user", "content": text} for text in texts]}
        return self.step(("POST", "/v1/agents/main/import?format=json", document, key, "import", (session_id, texts)))

    def fork(self, origin, key):
        return self.step(("POST", S(origin, "main", "fork"), {"key": key}, key, "fork", origin))

    def take_in_again(self, key, texts):
        """An import that replaces a session: it keeps its id."""
        session_id = self.sessions[key]["sid"]
        document = {"metadata": {"id": session_id, "name": session_id}, "messages": [{"role": "user", "content": text} for text in texts]}
        return self.step(("POST", "/v1/agents/main/import?format=json&ifExists=replace", document, key, "replace", texts))

    def replace(self, key, texts):
        body = {"entries": [{"role": "user", "text": text} for text in texts], "expectedSeq": len(self.sessions[key]["main"])}
        return self.step(("PUT", S(key, "main", "transcript"), body, key, "replace", texts))

    def send(self):
        method, path, body, name, key, what, value = self.unknown
        try:
            self.client = self.client or Client(self.daemon, self.daemon.admin_token)
            if what == "replace" and transcript(self.client, key) == value:  # done, and it would be done twice
                self.unknown = None
                self.take(key, what, value, self.client.get(S(key)))
                return True
            reply = self.client.request(method, path, body, idempotency_key=name)
        except GONE:
            return False
        if reply.status == 503:
            return False  # outcome unknown, or draining: the retry settles it
        assert reply.status in (200, 201, 204), (self.unknown, reply)
        if name:
            self.answers = [*self.answers[-4:], (self.unknown, reply)]
        self.unknown = None
        self.take(key, what, value, reply)
        return True

    def take(self, key, what, value, reply):
        if what == "create":
            self.sessions[key] = {"sid": reply.json["sessionId"], "patch": None, "main": [], "t": []}
            self.deleted.discard(key)
            return
        if what == "import":
            session_id, texts = value
            assert reply.json["created"] + reply.json["skipped"] == 1, reply
            self.sessions[key] = {"sid": session_id, "patch": None, "main": list(texts), "t": []}
            return
        if what == "fork":
            self.sessions[key] = {"sid": reply.json["sessionId"], "patch": None, "main": list(self.sessions[value]["main"]), "t": []}
            return
        if what == "restore":
            session = self.sessions[key] = self.removed.pop(key)
            assert reply.json["sessionId"] == session["sid"], (session, reply)
            self.deleted.discard(key)
            for topic, name in (("main", ""), ("t", "-topic-t")):
                if session[topic]:
                    self.archived[f"{session['sid']}{name}.jsonl"].pop()
            return
        session = self.sessions[key]
        if what == "append":
            session["main"].append(value)
        elif what == "topic":
            session["t"].append(value)
        elif what == "patch":
            session["patch"] = value
        elif what == "replace":
            if session["main"]:
                self.archived.setdefault(f"{session['sid']}.jsonl", []).append(session["main"])
            session.update(sid=reply.json.get("sessionId", session["sid"]), main=list(value), t=[])
        else:
            if what == "purge":
                self.purged.add(session["sid"])
            else:
                for topic, name in (("main", ""), ("t", "-topic-t")):
                    if session[topic]:
                        self.archived.setdefault(f"{session['sid']}{name}.jsonl", []).append(session[topic])
            if what in ("reset", "clear"):
                session.update(sid=reply.json["sessionId"], main=[], t=[])
            else:
                self.removed[key] = self.sessions.pop(key)
                self.deleted.add(key)

    def again(self):
        """The same keys get the same answers."""
        faults = []
        for (method, path, body, name, *_), first in self.answers:
            reply = self.client.request(method, path, body, idempotency_key=name)
            if (reply.status, reply.raw, reply.headers.get("Idempotency-Replayed")) != (first.status, first.raw, "true"):
                faults.append(f"{path} again with its key: {reply}, was {first}")
        return faults

    def faults(self, settled):
        """What is not as it was acknowledged. Before the retry, the session of the unanswered request may be either way."""
        faults = []
        for key, session in self.sessions.items():
            if not settled and self.unknown and self.unknown[4] == key:
                continue
            texts = transcript(self.client, key)
            if texts != session["main"]:
                faults.append(f"{key} has {brief(texts)}, acknowledged {brief(session['main'])}")
            got = self.client.get(S(key)).json
            if (got.get("sessionId"), got.get("x-patch")) != (session["sid"], session["patch"]):
                faults.append(f"{key} is {got}, acknowledged {session['sid']} {session['patch']}")
            for topic, name in (("main", ""), ("t", "-topic-t")):
                file = self.daemon.agent_dir() / f"{session['sid']}{name}.jsonl"
                if settled and texts_of(file) != session[topic]:
                    faults.append(f"{file.name} has {brief(texts_of(file))}, acknowledged {brief(session[topic])}")
        for key in self.deleted:
            if settled and self.client.get(S(key)).status != 404:
                faults.append(f"{key} was deleted and is there")
        return faults

    def archive_faults(self, renames):
        """Archives have the names that the events tell, and hold what their transcripts held."""
        faults, files = [], {f.name for f in self.daemon.agent_dir().iterdir()}
        told, entries = {}, set()
        for event in renames:
            data = event["data"]
            if "entry" in data:  # restored
                for name in data["archivedAs"]:
                    del told[name]
                entries.remove(data["entryAs"])
                continue
            for name in data["archivedAs"]:
                told[name] = data.get("purged", False)
            entries |= {data["entryAs"]} if "entryAs" in data else set()
        if entries != (kept := {n for n in files if n.endswith(".entry")}):
            faults.append(f"entries {sorted(kept)} are not those of the events {sorted(entries)}")
        there = {n for n in files if ".jsonl.reset." in n or ".jsonl.deleted." in n} - kept
        if there != {n for n, purged in told.items() if not purged}:
            faults.append(f"archives {sorted(there)} are not those of the events {told}")
        living = {session["sid"] for session in self.sessions.values()}
        have = {}
        for name in sorted(there, key=lambda n: n[-24:]):  # by their time
            file = name[:name.index(".jsonl") + 6]
            if file in files and file[:36] not in living:
                faults.append(f"{file} is there beside its archive {name}")
            have.setdefault(file, []).append(texts_of(self.daemon.agent_dir() / name))
        acknowledged = {file: all_of for file, all_of in self.archived.items() if all_of}
        for file in {*have, *acknowledged}:
            if have.get(file) != acknowledged.get(file):
                faults.append(f"archives of {file} have {[brief(t) for t in have.get(file, [])]}, acknowledged "
                              f"{[brief(t) for t in acknowledged.get(file, [])]}")
        faults += [f"{n} was purged" for n in files if n[:36] in self.purged]
        return faults


def brief(texts):
    return texts if texts is None else [t[:12] for t in texts]


def texts_of(file):
    """Texts of a transcript file; every line must be whole."""
    if not file.exists():
        return []
    raw = plain_bytes(file)
    assert not raw or raw.endswith(b"\n"), f"{file.name} ends in half a line"
    return [text_of(entry["message"]) for entry in map(json.loads, raw.splitlines()) if entry["type"] == "message"]

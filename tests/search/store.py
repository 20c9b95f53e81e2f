"""A store that random operations change: the sessions of one agent. It remembers what must be found afterwards and what must not."""

import json
import os
from dataclasses import dataclass, field

from harness.case import S, uid
from harness.sessiond import eventually
from texts import a_text

CHANNELS = ("slack", "discord")


def or_none(look, *args):
    try:
        return look(*args)
    except FileNotFoundError:
        return None


@dataclass
class Session:
    key: str
    words: set = field(default_factory=set)  # that are in its transcripts
    copied: bool = False                     # to or from other sessions or archives: a purge may leave words


@dataclass
class Heard:
    """A message of a platform, in whatever transcript it lies by now."""

    channel: str
    peer: str
    id: str
    word: str


class Store:
    def __init__(self, case, number, chance):
        self.api, self.daemon, self.chance = case.api, case.world, chance
        self.agent = f"s{number}x{uid(6)}"
        self.sessions = {}
        self.heard = []
        self.gone = []         # sessions that were deleted, with their session ids
        self.dead = set()      # words that nobody may find any more
        self.unknown = set()   # words that may have gone
        self.said = set()
        self.done = []         # what was done, for who looks for a fault
        self.count = 0

    def path(self, session, *more):
        return S(session.key, self.agent, *more)

    def word(self):
        self.count += 1
        word = f"w{self.count}q{self.agent}"
        self.said.add(word)
        return word

    def text(self, word):
        return f"{a_text(self.chance)} {word} {a_text(self.chance)}"

    def note(self, what, session, reply):
        self.done.append(f"{what} {session.key}: {reply.status}")
        if reply.status >= 500:
            raise AssertionError(f"{self.done[-1]}: {reply}")
        return reply

    def make(self):
        channel = self.chance.choice(CHANNELS)
        kind = self.chance.choice(("direct", "group", "channel"))
        thread = ":topic:" + uid(4) if kind == "group" and self.chance.random() < 0.4 else ""  # has a transcript of its own name
        session = Session(f"agent:{self.agent}:{channel}:{kind}:{self.chance.choice('ab')}{uid(5)}{thread}")
        body = {"key": session.key}
        if self.chance.random() < 0.5:
            body["name"] = a_text(self.chance)[:60]
        if self.chance.random() < 0.1:
            body["ephemeral"] = True
        if self.note("make", session, self.api.post(f"/v1/agents/{self.agent}/sessions", body)).status == 201 and "ephemeral" not in body:
            self.sessions[session.key] = session
        elif "ephemeral" in body:
            word = self.word()
            self.api.post(S(session.key, self.agent, "messages"), {"role": "user", "text": self.text(word)})
            self.dead.add(word)

    def say(self, session):
        entries = []
        for _ in range(self.chance.choice((1, 1, 1, 3))):
            word = self.word()
            session.words.add(word)
            kind = self.chance.randrange(6)
            if kind == 0:
                entries.append({"type": "custom", "customType": "note", "data": {"text": self.text(word), "by": "me"}})
            elif kind == 1:
                entries.append({"role": "assistant", "content": [{"type": "thinking", "thinking": "never found: thought"},
                                                                 {"type": "text", "text": self.text(word)}, {"type": "text", "text": "second"}]})
            else:
                entries.append({"role": ("user", "assistant")[kind % 2], "text": self.text(word)})
        topic = self.chance.choice(("", "", "?topic=t1", "?topic=t2"))
        if self.note("say" + topic, session, self.api.post(self.path(session, "messages") + topic, {"entries": entries})).status != 201:
            self.unknown |= session.words

    def hear(self):
        before = self.chance.choice(self.heard) if self.heard and self.chance.random() < 0.7 else None
        channel = before.channel if before else self.chance.choice(CHANNELS)
        peer = before.peer if before else "p" + uid(5)
        word = self.word()
        body = {"agent": self.agent, "channel": channel, "peer": peer, "chatType": "direct", "text": self.text(word), "messageId": word}
        reply = self.api.post("/v1/inbound", body)
        if reply.status == 409 and reply.json["code"] == "session_archived":
            self.dead.add(word)
            return
        if reply.status != 201:
            raise AssertionError(f"inbound {body}: {reply}")
        session = self.sessions.setdefault(reply.json["sessionKey"], Session(reply.json["sessionKey"]))
        session.words.add(word)
        self.heard.append(Heard(channel, peer, word, word))
        self.note("hear", session, reply)

    def change(self, new):
        """Edits a message to a text with this word, or deletes it. One that is nowhere any more is told as an early one, or refused."""
        message = self.chance.choice(self.heard)
        body = {"agent": self.agent, "channel": message.channel, "peer": message.peer, "messageId": message.id}
        reply = self.api.post("/v1/inbound/" + ("edits" if new else "deletes"), {**body, "text": self.text(new)} if new else body)
        self.done.append(f"{'edit' if new else 'unsay'} {message.word}: {reply.status}")
        if reply.status in (200, 201):
            self.dead.add(message.word)
            holders = [session for session in self.sessions.values() if message.word in session.words]
            for session in holders if new else ():
                session.words.add(new)
            if new and not holders:
                self.unknown.add(new)
        else:
            self.unknown |= {message.word, new}
        message.word = new
        if not new:
            self.heard.remove(message)

    def edit(self):
        if self.heard:
            self.change(self.word())

    def unsay(self):
        if self.heard:
            self.change(None)

    def fork(self, session):
        body = {}
        if self.chance.random() < 0.4:
            data = self.api.get(self.path(session, "messages") + "?limit=200").json.get("data") or []
            if data:
                body["messageId"] = self.chance.choice(data)["id"]
        if self.chance.random() < 0.5:
            body["key"] = f"agent:{self.agent}:{self.chance.choice(CHANNELS)}:direct:{self.chance.choice('ab')}{uid(5)}"
        reply = self.note("fork", session, self.api.post(self.path(session, "fork"), body))
        if reply.status == 201:
            session.copied = True
            self.sessions[reply.json["key"]] = Session(reply.json["key"], copied=True)

    def ended(self, session):
        """Its transcripts are archives now."""
        session.words = set()

    def reset(self, session):
        if self.note("reset", session, self.api.post(self.path(session, "reset"), {})).status == 200:
            self.ended(session)

    def clear(self, session):
        if self.note("clear", session, self.api.post(self.path(session, "clear"), {})).status == 200:
            self.ended(session)

    def archive(self, session):
        self.note("archive", session, self.api.post(self.path(session, "archive"), {}))

    def unarchive(self, session):
        self.note("unarchive", session, self.api.post(self.path(session, "unarchive"), {}))

    def delete(self, session, purge=""):
        there = self.api.get(self.path(session)).json
        reply = self.note("delete" + purge, session, self.api.delete(self.path(session) + purge))
        if reply.status != 204:
            return
        del self.sessions[session.key]
        if not purge:
            self.gone.append((session, there["sessionId"]))
        elif session.copied:
            self.unknown |= session.words
        else:
            self.dead |= session.words

    def purge(self, session):
        self.delete(session, "?purge=true")

    def restore(self):
        if not self.gone:
            return
        session, session_id = self.gone.pop(self.chance.randrange(len(self.gone)))
        session.copied = True
        if self.note("restore", session, self.api.post(self.path(session, "restore"), {"sessionId": session_id})).status in (200, 201):
            self.sessions[session.key] = session

    def delete_topic(self, session):
        self.note("delete topic", session, self.api.delete(self.path(session, "topics", self.chance.choice(("t1", "t2")))))
        session.copied = True

    def replace(self, session):
        end = self.api.get(self.path(session, "messages") + "?view=raw&limit=1&order=desc").json.get("data") or [{"seq": -1}]
        word = self.word()
        body = {"entries": [{"role": "user", "text": self.text(word)}], "expectedSeq": end[0]["seq"] + 1}
        if self.note("replace", session, self.api.put(self.path(session, "transcript"), body)).status == 200:
            self.ended(session)
            session.words.add(word)
        else:
            self.dead.add(word)

    def take_in(self, session, if_exists):
        """Imports the session's own document with an entry more; what was said since it was made is kept in an archive."""
        document = self.api.get(self.path(session, "export") + "?format=jsonl")
        if document.status != 200:
            return
        head, *rest = document.raw.splitlines()
        last = json.loads(rest[-1]) if rest else {"id": None}
        if if_exists == "replace":
            self.say(session)
        word = self.word()
        line = {"type": "message", "id": "i" + uid(), "parentId": last["id"], "timestamp": last.get("timestamp", "2026-01-01T00:00:00.000Z"),
                "message": {"role": "user", "content": self.text(word)}}
        head = {**json.loads(head), "sessiond": {"key": session.key}}
        body = b"\n".join([json.dumps(head).encode(), *rest, json.dumps(line).encode()]) + b"\n"
        reply = self.note("import " + if_exists, session, self.api.post(f"/v1/agents/{self.agent}/import?format=jsonl&ifExists={if_exists}", body))
        session.copied = True
        # The document of a copy does not have the edits and deletions of the original.
        self.unknown |= {word} | session.words | {one for one in self.said if one.encode() in document.raw}

    def import_replace(self, session):
        self.take_in(session, "replace")

    def import_continue(self, session):
        self.take_in(session, "continue")

    def rename(self, session):
        field = self.chance.choice(("name", "label"))
        self.note(field, session, self.api.patch(self.path(session), {field: a_text(self.chance)[:60]}))

    def spawn(self, session):
        reply = self.note("spawn", session, self.api.post(self.path(session, "spawn"), {"task": "help"}))
        if reply.status == 201:
            key = reply.json["key"]
            self.sessions[key] = Session(key)
            self.say(self.sessions[key])

    def foreign(self, session):
        """Another program appends to the transcript."""
        there = self.api.get(self.path(session)).json
        self.daemon.checkpoint()
        file = self.daemon.agent_dir(self.agent) / f"{there['sessionId']}.jsonl"
        if not file.exists():
            return
        word = self.word()
        line = {"type": "message", "id": "f" + uid(), "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z",
                "message": {"role": "user", "content": self.text(word)}}
        with open(file, "a") as end:
            end.write(json.dumps(line) + "\n")
        reply = self.api.get(self.path(session, "messages") + "?limit=1", headers={"Cache-Control": "no-cache"})
        self.note("foreign", session, reply)
        session.words.add(word)

    def lose_index(self):
        """Removes the index. It goes on once a new one is being made, beside what follows."""
        path = self.daemon.state / "search" / "index.db"
        with eventually(lambda: or_none(path.open, "rb"), what="an index") as lost:
            inode = os.fstat(lost.fileno()).st_ino  # as long as it is open no other file gets it
            path.unlink(missing_ok=True)
            eventually(lambda: (there := or_none(path.stat)) and there.st_ino != inode, timeout=30, what="a new index")
        self.done.append("lose index")

    # The operations with their weights: those of the store, and those of one session.
    ALONE = ((make, 3), (hear, 8), (edit, 4), (unsay, 3), (restore, 3), (lose_index, 1))
    OF_SESSION = ((say, 10), (fork, 3), (reset, 2), (clear, 1), (archive, 1), (unarchive, 1), (delete, 2), (purge, 2),
                  (delete_topic, 1), (replace, 1), (rename, 2), (spawn, 1), (foreign, 1),
                  (import_replace, 1), (import_continue, 1))

    def live(self, operations):
        self.make()
        self.hear()
        every = [(one, False) for one, often in self.ALONE for _ in range(often)] + [(one, True) for one, often in self.OF_SESSION for _ in range(often)]
        for _ in range(operations):
            operation, of_session = self.chance.choice(every)
            if not of_session:
                operation(self)
            elif self.sessions:
                operation(self, self.chance.choice(list(self.sessions.values())))

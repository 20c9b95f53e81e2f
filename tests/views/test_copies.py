"""Lives of sessions that are forked, archived, restored, replaced and imported again while people edit and delete: what they
took back is in no reply that follows changes."""

import random
import re
from collections import Counter

from harness.case import Case, S, uid
from refused import refused
from views import number, tell

EXPORTED = ("conversation", "json", "manager", "relavium-yaml", "robota")
WORD = re.compile(r"w\d+x\d+v\d+z")  # life, message, version


class Life:
    """One person's conversation and its copies. Each text is one word, that says of which message and version it is."""

    def __init__(self, case, api, elsewhere, rng, n):
        self.case, self.api, self.elsewhere, self.rng, self.n = case, api, elsewhere, rng, n
        self.changes, self.wrong = 0, []
        self.peer = "p" + uid()
        self.key = f"agent:main:chat:direct:{self.peer}"
        self.versions = {}  # of each message: the one that stands; None: it was deleted
        self.keys = [self.key]
        self.say()

    def word(self, message, version):
        return f"w{self.n}x{message}v{version}z"

    def say(self):
        message = len(self.versions)
        body = {"channel": "chat", "chatType": "direct", "peer": self.peer, "text": self.word(message, 0), "messageId": f"m{message}"}
        if self.rng.random() < 0.15:
            body["topic"] = "side"
        if self.rng.random() < 0.1:
            body["text"] = "/new"
            self.case.ok(self.api.post("/v1/inbound", body), 201)
            self.versions[message] = None  # a command is no message
            return
        self.case.ok(self.api.post("/v1/inbound", body), 201)
        self.versions[message] = 0

    def change(self):
        message = self.rng.choice([m for m, version in self.versions.items() if version is not None] or [None])
        if message is None:
            return
        body = {"channel": "chat", "peer": self.peer, "messageId": f"m{message}"}
        version = None if self.rng.random() < 0.5 else self.versions[message] + 1
        what, more = ("deletes", {}) if version is None else ("edits", {"text": self.word(message, version)})
        reply = self.api.post("/v1/inbound/" + what, {**body, **more})
        if reply.status == 404:  # its session is deleted
            return
        self.case.ok(reply, 201)
        self.versions[message] = version
        self.changes += 1

    def fork(self):
        if len(self.keys) < 6:
            copy = "agent:main:chat:direct:f" + uid()
            self.case.ok(self.api.post(S(self.rng.choice(self.keys), "main", "fork"), {"key": copy}), 201)
            self.keys.append(copy)

    def reset(self):
        self.case.ok(self.api.post(S(self.rng.choice(self.keys), "main", self.rng.choice(("reset", "clear"))), {}), 200)

    def restore(self):
        key = self.rng.choice(self.keys)
        session = self.case.ok(self.api.get(S(key)), 200)["sessionId"]
        self.case.ok(self.api.delete(S(key)), 204)
        self.change()  # without its session the message may be unknown
        self.case.ok(self.api.post(f"/v1/agents/main/sessions/{session}/restore", {}), 200, 201)

    def replace(self):
        key = self.rng.choice(self.keys)
        lines = self.case.ok(self.api.get(S(key, "main", "messages") + "?limit=200&view=raw"), 200)["data"]
        entries = [{"id": row["line"]["id"], **row["line"]["message"]} for row in lines if row["line"].get("type") == "message"]
        if entries:
            for entry in entries:
                entry.pop("platformMessageId", None)
            self.case.ok(self.api.put(S(key, "main", "transcript"), {"entries": entries, "expectedSeq": len(lines)}), 200)

    def carry(self):
        """The export of a copy is imported by another daemon."""
        document = self.api.get(S(self.rng.choice(self.keys), "main", "export") + "?format=json")
        self.case.assertEqual(document.status, 200, document)
        self.wrong_in(document.raw.decode(), "an export")
        done = self.case.ok(self.elsewhere.post("/v1/agents/main/import?format=json", document.raw), 200)
        for session in done["ids"]:
            for view in ("chat", "full", "raw"):
                self.wrong_in(self.elsewhere.get(S(session, "main", "messages") + "?view=" + view).raw.decode(), "an import")
            self.elsewhere.delete(S(session) + "?purge=true")

    def step(self):
        kinds = (self.say, self.change, self.fork, self.reset, self.restore, self.replace, self.carry)
        self.rng.choices(kinds, (10, 8, 3, 2, 1, 1, 1))[0]()

    def wrong_in(self, text, what):
        bad = sorted({word for word in WORD.findall(text) if word.startswith(f"w{self.n}x") and not self.stands(word)})
        if bad:
            self.wrong.append(f"{what}: {' '.join(bad)}")

    def stands(self, word):
        message, version = re.fullmatch(r"w\d+x(\d+)v(\d+)z", word).groups()
        return self.versions[int(message)] == int(version)

    def replies(self):
        yield "/v1/agents/main/sessions?limit=200"
        for key in self.keys:
            yield S(key)
            yield S(key, "main", "context")
            for query in ("", "&topic=side"):
                for view in ("chat", "full", "llm"):
                    yield S(key, "main", "messages") + f"?view={view}{query}" + ("" if view == "llm" else "&limit=200")
            for format in EXPORTED:
                yield S(key, "main", "export") + "?format=" + format
            listed = self.api.get(S(key, "main", "archives") + "?limit=100")
            for record in listed.json["data"]:
                for archive in record["archivedAs"]:
                    for view in ("chat", "full", "llm"):
                        yield S(key, "main", "messages") + f"?view={view}&archive={archive}"

    def check(self):
        looked = 0
        for path in self.replies():
            reply = self.api.get(path)
            looked += 1
            if reply.status == 200:
                self.wrong_in(reply.raw.decode(), path)
                if "view=llm" in path:
                    self.wrong += [f"{path}: {fault}" for fault in refused(reply.json)]
            elif not (reply.status == 404 and ("topic=" in path or "archive=" in path)):
                self.wrong.append(f"{path}: {reply}")
        for key in self.keys:
            told, shown = (self.api.get(S(key, "main") + where) for where in ("/context", "/messages?view=llm&prune=off"))
            if told.status == shown.status == 200 and told.json["used"] != shown.json["context"]["used"]:
                self.wrong.append(f"{key}: S/context says {told.json['used']} used, the view {shown.json['context']['used']}")
        return looked


class CopiesOfSessions(Case):
    def test_what_people_took_back_is_in_no_copy(self):
        elsewhere = self.spawn().client()
        tally, wrong = Counter(), []
        for n in range(number("COUNT", 40)):
            rng = random.Random(f"{number('SEED', 5)} {n}")
            life = Life(self, self.api, elsewhere, rng, n)
            for _ in range(rng.randrange(5, 40)):
                life.step()
                if rng.random() < 0.005:
                    self.daemon.restart(kill=True)
                    type(self).api = life.api = self.api = self.daemon.client()
                    tally["kills"] += 1
            tally.update(lives=1, words=len(life.versions), changes=life.changes, copies=len(life.keys) - 1, replies=life.check())
            wrong += [f"{n}: {fault}" for fault in life.wrong]
        tell(**tally, wrong=len(wrong))
        self.assertEqual(wrong[:12], [])

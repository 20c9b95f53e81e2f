"""The ways of points.py to the points of maintenance: what goes, goes whole or not at all, and a session that is adopted is there whole or not at all."""

from harness.sessiond import S
from life import GONE
from point_cases import Case

HEADER = '{"type":"session","version":3,"id":"%s","timestamp":"2020-01-02T03:04:05.000Z","cwd":"/"}\n'
LINE = '{"type":"message","id":"a1","parentId":null,"timestamp":"2020-01-02T03:04:06.000Z","message":{"role":"user","content":"%s"}}\n'


class Maintaining(Case):
    """An agent of its own, with sessions, archives and orphans. Each has a transcript and one of a topic."""
    SESSIONS, ORPHANS = ("s0", "s1", "s2", "s3"), ("o0", "o1")
    DELETED = ("s0", "s1")  # archives already

    def prepare(self):
        client = self.daemon.client()
        for sid in self.SESSIONS:
            key = f"agent:old:x:{sid}"
            assert client.put(S(key, "old"), {"sessionId": sid, "label": sid}).status == 201
            for query in ("", "?topic=t"):
                said = client.post(S(key, "old", "messages") + query, {"role": "user", "text": sid + query})
                assert said.status == 201, said
        self.daemon.checkpoint()
        folder = self.daemon.agent_dir("old")
        for sid in self.ORPHANS:
            for name in self.transcripts(sid):
                (folder / name).write_text(HEADER % sid + LINE % name)
        self.bytes = {name: (folder / name).read_bytes() for sid in (*self.SESSIONS, *self.ORPHANS) for name in self.transcripts(sid)}
        for sid in self.DELETED:
            assert client.delete(S(f"agent:old:x:{sid}", "old")).status == 204
        super().prepare()

    @staticmethod
    def transcripts(sid):
        return [f"{sid}-topic-t.jsonl", f"{sid}.jsonl"]

    def ask(self, path, body):
        try:
            return self.daemon.client().post(path, {"agent": "old", **body})
        except GONE:
            return None

    def drive(self):
        self.ask("/v1/admin/maintenance", {"dryRun": False, "olderThanMs": 0})    # archives
        self.ask("/v1/admin/maintenance", {"dryRun": False, "maxDiskBytes": 0})   # destroys

    def state_of(self, sid):
        """(what it is, its faults): live, archived or gone."""
        folder = self.daemon.agent_dir("old")
        names = sorted(f.name for f in folder.iterdir() if f.name.startswith((sid + ".", sid + "-")))
        if not names:
            return "gone", []
        ending = names[-1].removesuffix(".entry").partition(".jsonl")[2]
        own = [name + ending for name in self.transcripts(sid)]
        entry = [own[1] + ".entry"] if ending and sid in self.SESSIONS else []
        faults = [] if names == sorted(own + entry) else [f"{sid} is neither whole nor gone: {names}"]
        faults += [f"{name} has changed" for name in names if name in own
                   and (folder / name).read_bytes() != self.bytes[name.removesuffix(ending)]]
        return "archived" if ending else "live", faults

    def check(self):
        faults, client = [], self.me.client
        sessions = {s["sessionId"] for s in client.get("/v1/agents/old/sessions").json["data"]}
        archives = {a["sessionId"] for a in client.get("/v1/agents/old/archives").json["data"]}
        orphans = {o["sessionId"] for o in self.ask("/v1/admin/reindex", {}).json["data"]}
        for sid in (*self.SESSIONS, *self.ORPHANS):
            what, wrong = self.state_of(sid)
            faults += wrong
            told = [name for name, ids in (("session", sessions), ("archive", archives), ("orphan", orphans)) if sid in ids]
            if told != {"gone": [], "archived": ["archive"], "live": ["session" if sid in self.SESSIONS else "orphan"]}[what]:
                faults.append(f"{sid} is {what} and told as {told}")
        return faults


class Prune(Maintaining):
    points = ("journal.written", "archive.entry_kept", "archive.entry_kept:2", "archive.renamed", "archive.renamed:2",
              "archive.renamed:5", "archive.renamed:7", "archive.recorded:2", "archive.recorded:4", "archive.unlinked",
              "archive.unlinked:2", "archive.unlinked:3", "archive.unlinked:8", "journal.synced:2")
    second = ("archive.unlinked", "archive.renamed", "recovery.replayed", "archive.entry_kept", "marks.written")


class AdoptOrphans(Maintaining):
    ORPHANS = ("o0", "o1", "o2")
    DELETED = ()
    points = ("journal.written", "journal.written:2", "journal.synced", "journal.synced:3", "checkpoint.locked",
              "checkpoint.exchanged", "checkpoint.dirs_synced", "marks.written")

    def drive(self):
        self.ask("/v1/admin/reindex", {"adopt": True})
        try:
            self.daemon.checkpoint()
        except GONE:
            pass

    def check(self):
        faults, client = [], self.me.client
        for done in range(2):
            sessions = {s["sessionId"]: s for s in client.get("/v1/agents/old/sessions").json["data"]}
            orphans = {o["sessionId"] for o in self.ask("/v1/admin/reindex", {}).json["data"]}
            if sorted([*sessions, *orphans]) != sorted([*self.SESSIONS, *self.ORPHANS]) or (done and orphans):
                faults.append(f"sessions {sorted(sessions)}, orphans {sorted(orphans)}")
            for sid in set(self.ORPHANS) & set(sessions):
                got = {name: sessions[sid].get(name) for name in ("key", "createdAt", "updatedAt", "messageCount", "firstMessage")}
                if got != {"key": f"agent:old:recovered:{sid}", "createdAt": 1577934245000, "updatedAt": 1577934246000,
                           "messageCount": 2, "firstMessage": f"{sid}.jsonl"}:
                    faults.append(f"{sid} is {got}")
            for sid in self.ORPHANS:
                faults += self.state_of(sid)[1]
            self.ask("/v1/admin/reindex", {"adopt": True})
        self.daemon.checkpoint()  # of what this adopted
        return faults


CASES = (Prune, AdoptOrphans)

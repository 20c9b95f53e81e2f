"""The ways of points.py to the points of logs: a line that was acknowledged is in the log once, in its place, whatever dies between the journal and the
file; the log of a purged session is gone."""

from harness.sessiond import S
from life import GONE
from point_cases import Case


class Logs(Case):
    """An agent of its own: a session whose log grows, one that is purged."""
    config = {**Case.config, "sessionLog": "full"}
    points = ("journal.written:2", "journal.synced:3", "transcript.created", "transcript.written", "transcript.written:2", "transcript.synced",
              "log.purged")
    KEY, GONE_KEY, NEW_KEY = "agent:logs:x:stays", "agent:logs:x:goes", "agent:logs:x:new"

    def __init__(self, *named):
        super().__init__(*named)
        self.acknowledged, self.sent, self.purged = [], 0, None

    def write(self, key, count=3):
        lines = [{"type": "server_tool", "tool": "t", "query": str(self.sent + n)} for n in range(count)]
        self.sent += count
        try:
            reply = self.daemon.client().post(S(key, "logs", "log"), {"entries": lines})
        except GONE:
            return False
        assert reply.status == 201, reply
        if key == self.KEY:
            self.acknowledged += [(reply.json["firstSeq"] + n, line["query"]) for n, line in enumerate(lines)]
        return True

    def prepare(self):
        for key in (self.KEY, self.GONE_KEY):
            made = self.daemon.client().post("/v1/agents/logs/sessions", {"key": key})
            assert made.status == 201, made
            self.purged = made.json["sessionId"]
            assert self.write(key)
        super().prepare()

    def drive(self):
        for _ in range(4):
            if not self.write(self.KEY):
                return
        try:
            self.daemon.checkpoint()
            self.daemon.client().post("/v1/agents/logs/sessions", {"key": self.NEW_KEY})
            if not self.write(self.NEW_KEY):
                return
            self.daemon.checkpoint()
            self.daemon.client().delete(S(self.GONE_KEY, "logs") + "?purge=true")
            self.daemon.checkpoint()
        except GONE:
            pass

    def check(self):
        client, faults = self.me.client, []
        client.delete(S(self.GONE_KEY, "logs") + "?purge=true&missing=ok")
        self.daemon.checkpoint()
        page = client.get(S(self.KEY, "logs", "log") + "?limit=200").json["data"]
        there = [(line["seq"], line["query"]) for line in page]
        if [seq for seq, _ in there] != list(range(len(there))) or len({query for _, query in there}) != len(there):
            faults.append(f"lines are not there once and in order: {there}")
        if not set(self.acknowledged) <= set(there):
            faults.append(f"acknowledged {self.acknowledged}, in the log {there}")
        if (self.daemon.state / "agents/logs/logs" / f"{self.purged}.jsonl").exists():
            faults.append("the log of the purged session is there")
        return faults


CASES = (Logs,)

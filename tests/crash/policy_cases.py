"""The way of points.py through guardrails of a key whose session is deleted and made again. Whatever dies, they stand."""

from harness.sessiond import S
from life import GONE
from point_cases import Case

KEY = "agent:old:x:direct:guarded"
HARD = {"approval": ["rm"], "allowedCommands": []}
SESSIONS = "/v1/agents/old/sessions"


class Policies(Case):
    points = ("journal.written", "journal.synced", "checkpoint.exchanged", "policies.written", "replace.renamed", "marks.written")
    second = ("recovery.replayed", "policies.written", "journal.synced")
    is_set = False

    def drive(self):
        try:
            admin = self.daemon.client()
            runner = self.daemon.client(self.daemon.token("runner"))
            self.is_set = admin.post(SESSIONS, {"key": KEY, "entry": {"guardrails": HARD}}).status == 201
            self.daemon.checkpoint()
            runner.delete(S(KEY, "old") + "?purge=true")
            self.daemon.checkpoint()
            runner.post(SESSIONS, {"key": KEY})
            self.daemon.checkpoint()
        except GONE:
            pass

    def check(self):
        if not self.is_set:
            return []
        api = self.daemon.client(self.daemon.token("runner"))
        api.delete(S(KEY, "old"))
        made = api.post(SESSIONS, {"key": KEY})
        self.daemon.checkpoint()
        return [] if made.status == 201 and made.json.get("guardrails") == HARD else [f"made again: {made}"]


CASES = (Policies,)

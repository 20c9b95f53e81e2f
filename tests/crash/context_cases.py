"""The way of points.py through a compaction: a plan, a summary, its event. Whatever dies, there is one compaction or none."""

from harness.sessiond import S
from life import GONE
from point_cases import Case

KEY = "agent:old:x:compacted"


class Compact(Case):
    points = ("journal.written", "journal.synced", "transcript.written", "checkpoint.locked", "checkpoint.exchanged",
              "checkpoint.dirs_synced", "marks.written")
    second = ("recovery.replayed", "transcript.written", "journal.synced")

    def prepare(self):
        client = self.daemon.client()
        assert client.put(S(KEY, "old"), {"sessionId": "s0"}).status == 201
        entries = [{"role": role, "text": f"{role} {turn}"} for turn in range(7) for role in ("user", "assistant")]
        assert client.post(S(KEY, "old", "messages"), {"entries": entries}).status == 201
        self.daemon.checkpoint()
        self.plan = client.post(S(KEY, "old", "compact"), {}).json["plan"]
        super().prepare()

    def compact(self):
        """The same request each time, as a runner would send it again."""
        return self.daemon.client().post(S(KEY, "old", "compact"), {"summary": "S", "firstKeptEntryId": self.plan["firstKeptEntryId"]},
                                         headers={"Idempotency-Key": "compaction-1"})

    def drive(self):
        try:
            self.compact()
            self.daemon.checkpoint()
        except GONE:
            pass

    def check(self):
        faults, client = [], self.me.client
        reply = self.compact()
        if reply.status != 201:
            faults.append(f"the summary sent again: {reply}")
        self.daemon.checkpoint()
        entries = client.get(S(KEY, "old", "messages") + "?limit=200").json["data"]
        compactions = [entry["id"] for entry in entries if entry["type"] == "compaction"]
        session = client.get(S(KEY, "old")).json
        epoch = session["asOf"].split("-")[0]
        told = [event["data"]["summaryEntryId"]
                for event in client.get(S(KEY, "old", "events") + f"?poll=1&after={epoch}-0&types=context.compacted").json["data"]]
        if not compactions == told == [reply.json["entryId"]] or session.get("compactionCount") != 1:
            faults.append(f"compactions {compactions}, events {told}, answer {reply.json}, count {session.get('compactionCount')}")
        view = client.get(S(KEY, "old", "messages") + "?view=llm").json["data"]
        if [row.get("summary") for row in view[:3]] != [True, True, None] or len(view) != 10:
            faults.append(f"the view: {view[:3]}")
        return faults


CASES = (Compact,)

"""The way of points.py through a run: started, told of, finished. Whatever dies, it begins once, ends once, and says its answer once."""

from harness.sessiond import S
from life import GONE
from point_cases import Case

KEY = "agent:old:x:worked"
ANSWER = {"role": "assistant", "text": "the answer", "id": "answer-1"}


class Runs(Case):
    points = ("journal.written", "journal.synced", "transcript.written", "checkpoint.exchanged", "runs.written", "replace.renamed",
              "marks.written", "book.appended", "book.ended", "book.compacted", "book.renamed")
    second = ("recovery.replayed", "runs.written", "journal.synced", "book.appended", "book.ended")

    def prepare(self):
        client = self.daemon.client()
        assert client.put(S(KEY, "old"), {"sessionId": "s0"}).status == 201
        self.fence = None
        super().prepare()

    def start_run(self):
        return self.daemon.client().post(S(KEY, "old", "runs"), {"runId": "r-1", "leaseMs": 600_000, "input": {"role": "user", "text": "q"}},
                                         headers={"Idempotency-Key": "run-1"})

    def finish(self):
        """The same calls each time, as a runner would send them again."""
        client = self.daemon.client()
        reply = self.start_run()
        fence = reply.json["lease"]["fence"]
        told = client.post(S(KEY, "old", "runs", "r-1", "events"), {"fence": fence, "n": 1, "events": [{"type": "step.started", "step": 1}]})
        done = client.post(S(KEY, "old", "runs", "r-1", "finish"), {"fence": fence, "status": "done", "entries": [ANSWER]})
        return reply, told, done

    def drive(self):
        try:
            self.start_run()
            self.daemon.checkpoint()
            self.finish()
            self.daemon.checkpoint()
        except GONE:
            pass

    def check(self):
        faults, client = [], self.me.client
        started, told, done = self.finish()
        if started.status != 201 or done.status != 200 or told.status not in (200, 409):
            faults.append(f"sent again: {started} {told} {done}")
        self.daemon.checkpoint()
        entries = client.get(S(KEY, "old", "messages") + "?limit=200").json["data"]
        said = [(entry.get("role"), entry["type"]) for entry in entries]
        if said != [("user", "message"), (None, "custom"), ("assistant", "message"), (None, "custom")]:
            faults.append(f"the transcript: {said}")
        session = client.get(S(KEY, "old")).json
        epoch = session["asOf"].split("-")[0]
        events = client.get(S(KEY, "old", "events") + f"?poll=1&after={epoch}-0&types=run.*,step.*").json["data"]
        types = [event["type"] for event in events]
        if types != ["run.started", "step.started", "run.finished"]:
            faults.append(f"events {types}")
        if (session.get("status"), session.get("runCount"), session.get("turnCount")) != ("done", 1, 1) or "activeRun" in session:
            faults.append(f"the session: {session}")
        return faults


CASES = (Runs,)

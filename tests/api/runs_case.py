"""What the tests of runs share: a client that starts, claims, tells and finishes runs."""

import time

from harness.case import Case, S, text_of


class RunsCase(Case):
    def make(self, **entry):
        return self.new(**entry)["key"]

    def start(self, key, text=None, status=201, api=None, **body):
        if text is not None:
            body["input"] = {"role": "user", "text": text}
        reply = (api or self.api).post(S(key, "main", "runs"), body)
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def claim(self, status=200, api=None, **body):
        reply = (api or self.api).post("/v1/agents/main/runs/claim", body)
        self.assertEqual(reply.status, status, reply)
        return reply.json if status == 200 else None

    def tell(self, run, *events, status=200, api=None, **body):
        reply = (api or self.api).post(S(run["key"], "main", "runs", run["runId"], "events"),
                                       {"fence": run["lease"]["fence"], "events": list(events), **body})
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def finish(self, run, *entries, status=200, api=None, outcome="done", **body):
        body = {"status": outcome, **body}
        if entries:
            body["entries"] = list(entries)
        reply = (api or self.api).post(S(run["key"], "main", "runs", run["runId"], "finish"),
                                       {"fence": run["lease"]["fence"], **body})
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def run_of(self, key, run_id="active", status=200, api=None):
        reply = (api or self.api).get(S(key, "main", "runs", run_id))
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def runs_of(self, key, status):
        return self.ok(self.api.get(S(key, "main", "runs") + f"?status={status}"), 200)["data"]

    def said(self, key):
        """What people and the agent said, the oldest first."""
        return [text_of(message) for message in self.messages(key) if message.get("role") in ("user", "assistant")]

    def entry(self, key, api=None):
        return self.ok((api or self.api).get(S(key)), 200)

    def of_type(self, key, *types, api=None):
        api = api or self.api
        epoch = self.ok(api.get(S(key, "main", "context")), 200)["asOf"].split("-")[0]
        reply = self.ok(api.get(S(key, "main", "events") + f"?poll=1&waitMs=5000&limit=1000&after={epoch}-0&types=" + ",".join(types)), 200)
        return [event["data"] for event in reply["data"]]

    def wait_for_run(self, key, run_id, *statuses, api=None, seconds=10):
        """Polls: deadlines of the daemon are what is tested."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            run = self.run_of(key, run_id, api=api)
            if run["status"] in statuses:
                return run
            time.sleep(0.02)
        self.fail(f"the run is {run}")

"""What the tests of approvals share: a run that asks, a person who answers."""

from harness.case import Case, S


class ApprovalsCase(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.person = cls.daemon.client(cls.daemon.token("operator"))

    def begin_run(self, api=None, key=None, **entry):
        """A session with an active run; the run."""
        key = key or self.new(api=api, **entry)["key"]
        return self.ok((api or self.api).post(S(key, key.split(":")[1], "runs"), {}), 201)

    def place(self, run, *more):
        return S(run["key"], run["key"].split(":")[1], "approvals", *more)

    def ask(self, run, tool="bash", status=None, api=None, **body):
        """The answer to a question; open or decided."""
        reply = (api or self.api).post(self.place(run), {"runId": run["runId"], "fence": run["lease"]["fence"], "tool": tool, **body})
        if status in (None, 200, 201):
            approval = self.ok(reply, *([status] if status else [200, 201]))
            self.assertEqual(reply.status, 201 if approval["decision"] is None else 200)
            return approval
        return self.problem(reply, status)

    def answer(self, run, approval, decision="allow", api=None, **body):
        return self.ok((api or self.person).post(self.place(run, approval["id"]), {"decision": decision, **body}), 200)

    def approval(self, run, approval, query="", api=None):
        return self.ok((api or self.person).get(self.place(run, approval["id"]) + query), 200)

    def finish(self, run, status="done", api=None):
        return self.ok((api or self.api).post(S(run["key"], "main", "runs", run["runId"], "finish"),
                                              {"fence": run["lease"]["fence"], "status": status}), 200)

    def outcome(self, approval):
        return approval["decision"], approval["source"]

    def events(self, key, api=None):
        api = api or self.api
        epoch = self.ok(api.get(S(key)), 200)["asOf"].split("-")[0]
        page = self.ok(api.get(S(key, "main", "events") + f"?poll=1&waitMs=5000&limit=1000&after={epoch}-0&types=approval.*,run.finished"), 200)
        return page["data"]

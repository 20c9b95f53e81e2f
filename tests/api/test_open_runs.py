"""GET /v1/runs: what runs and what waits, in all sessions that a token sees."""

from harness.case import S, uid
from runs_case import RunsCase


class OpenRuns(RunsCase):
    def listed(self, api=None, query=""):
        page = self.ok((api or self.api).get("/v1/runs?" + query), 200)
        self.assertFalse(page["hasMore"])
        return page["data"]

    def test_active_and_queued_ones_the_oldest_first(self):
        agent = "a" + uid()
        keys = [f"agent:{agent}:{channel}:direct:u" for channel in ("slack", "discord")]
        for key in keys:
            self.ok(self.api.put(S(key, agent), {"channel": key.split(":")[2]}), 201)
        start = lambda key, status: self.ok(self.api.post(S(key, agent, "runs"), {"input": {"role": "user", "text": "go"}}), status)  # noqa: E731
        first, second = start(keys[0], 201), start(keys[1], 201)
        waits = start(keys[0], 202)
        of = lambda query="": [run["runId"] for run in self.listed(query=f"agent={agent}&{query}")]  # noqa: E731
        self.assertEqual(of(), [first["runId"], second["runId"], waits["runId"]])
        self.assertEqual({(run["agent"], run["key"]) for run in self.listed(query=f"agent={agent}")}, {(agent, key) for key in keys})
        self.assertEqual(of("status=running"), [first["runId"], second["runId"]])
        self.assertEqual(of("status=queued"), [waits["runId"]])
        self.assertEqual(of("channel=Discord"), [second["runId"]])
        self.assertEqual(self.ok(self.api.get("/v1/runs?agent=nosuch"), 200)["data"], [])
        self.ok(self.api.post(S(keys[1], agent, "abort"), {}), 202)
        self.assertEqual(of("status=aborting"), [second["runId"]])
        for query in ("status=done", "agent=..", "limit=3"):
            self.problem(self.api.get("/v1/runs?" + query), 400, "bad_request")
        for run, key in ((first, keys[0]), (second, keys[1])):
            self.ok(self.api.post(S(key, agent, "runs", run["runId"], "finish"), {"fence": run["lease"]["fence"], "status": "done"}), 200)
        self.assertEqual(of(), [waits["runId"]])

    def test_a_token_sees_those_of_its_scope_and_no_lease(self):
        mine, other = (self.new(f"agent:main:{channel}:channel:{uid()}")["key"] for channel in ("slack", "discord"))
        runs = {key: self.start(key, "go") for key in (mine, other)}
        seen = lambda **scope: [run for run in self.listed(self.daemon.client(self.daemon.token("viewer", **scope)))  # noqa: E731
                                if run["key"] in (mine, other)]
        for scope in ({"keyPrefix": mine}, {"channel": "slack"}):
            (run,) = seen(**scope)
            self.assertEqual((run["key"], run["runId"], "lease" in run), (mine, runs[mine]["runId"], False), scope)
        self.assertEqual(seen(agents=["another"]), [])
        self.assertEqual({run["key"] for run in seen()}, {mine, other})
        self.problem(self.daemon.client(self.daemon.token("metrics")).get("/v1/runs"), 403, "forbidden")
        for run in runs.values():
            self.finish(run)

    def test_ephemeral_sessions_have_runs_too(self):
        made = self.ok(self.api.post("/v1/agents/main/sessions", {"key": f"agent:main:slack:channel:{uid()}", "ephemeral": True}), 201)
        run = self.start(made["key"], "go")
        self.assertIn(run["runId"], [one["runId"] for one in self.listed()])
        self.ok(self.api.delete(S(made["key"])), 204)
        self.assertNotIn(run["runId"], [one["runId"] for one in self.listed()])

    def test_they_are_there_after_a_restart_and_leave_with_their_session(self):
        daemon = self.spawn()
        api = daemon.client()
        keys = [self.new(api=api)["key"] for _ in range(2)]
        active, waits = self.start(keys[0], "one", api=api), self.start(keys[1], "two", status=202, api=api, queueOnly=True)
        for again in (daemon.kill9, daemon.stop):
            again()
            daemon.start()
            api = daemon.client()
            self.assertEqual({run["runId"] for run in self.listed(api)}, {active["runId"], waits["runId"]})
        for key in keys:
            self.ok(api.delete(S(key)), 204)
        self.assertEqual(self.listed(api), [])

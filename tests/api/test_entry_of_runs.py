"""The fields of an entry that say which agent a session has, and what it may do; and those that the daemon keeps of its runs."""

import json

from harness.case import Case, S, uid

ALL = "/v1/agents/main/sessions"
OF_RUNS = {"status": "done", "activeRun": {"runId": "r"}, "runCount": 3, "turnCount": 4, "allowedTools": ["ls"]}
BOUND = {"agentRef": "helper", "agentSnapshot": {"id": "helper", "tools": ["ls", "read"]}, "fallbackChain": ["m-1", "m-2"]}


class OfTheDaemon(Case):
    def foreign(self, **fields):
        """The key of a session that another program made, in an agent of its own."""
        agent = "other-" + uid(8)
        key, folder = f"agent:{agent}:x", self.daemon.agent_dir(agent)
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_text(json.dumps({key: {"sessionId": "s-" + uid(8), "updatedAt": 5, **fields}}))
        return key, agent

    def test_clients_cannot_write_it(self):
        key = self.new()["key"]
        for name, value in OF_RUNS.items():
            self.invalid(self.api.patch(S(key), {name: value, "label": "x"}), "/" + name)
            self.invalid(self.api.patch(S(key), {name: None}), "/" + name)
            self.invalid(self.api.put(S(key), {name: value}), "/" + name)
            self.invalid(self.api.put(S("agent:main:" + uid()), {name: value}), "/" + name)
            self.invalid(self.api.post(ALL, {"entry": {name: value}}), "/entry/" + name)
            self.invalid(self.api.post(S(key, "main", "spawn"), {"entry": {name: value}}), "/entry/" + name)
        self.assertNotIn("label", self.ok(self.api.get(S(key)), 200))

    def test_what_another_program_wrote_stands(self):
        key, agent = self.foreign(**OF_RUNS, label="a", startedAt=1, endedAt=2, runtimeMs=1)
        before = self.ok(self.api.get(S(key, agent)), 200)
        self.assertEqual({name: before[name] for name in OF_RUNS}, OF_RUNS)
        self.assertEqual(self.ok(self.api.put(S(key, agent), before), 200)["rev"], before["rev"], "a Session sent back")
        self.ok(self.api.patch(S(key, agent), {"label": "b"}), 200)
        self.ok(self.api.put(S(key, agent), {"label": "c"}), 200)
        after = self.ok(self.api.get(S(key, agent)), 200)
        self.assertEqual({name: after[name] for name in OF_RUNS}, OF_RUNS)
        self.invalid(self.api.put(S(key, agent), {**before, "status": "failed"}), "/status")
        self.ok(self.api.post(S(key, agent, "reset")), 200)
        after = self.ok(self.api.get(S(key, agent)), 200)
        self.assertEqual([name for name in OF_RUNS if name in after], [])


class OfTheAgent(Case):
    def test_a_session_keeps_its_agent(self):
        key = self.new(**BOUND)["key"]
        for name, other in {"agentRef": "x", "agentSnapshot": {"id": "y"}, "fallbackChain": ["m-2"]}.items():
            self.ok(self.api.patch(S(key), {name: BOUND[name]}), 200)
            for value in (other, None):
                self.problem(self.api.patch(S(key), {name: value}), 409, "agent_bound")
            self.problem(self.api.put(S(key), {**BOUND, name: other}), 409, "agent_bound")
            self.problem(self.api.put(S(key), {k: v for k, v in BOUND.items() if k != name}), 409, "agent_bound")
        self.ok(self.api.put(S(key), {**BOUND, "label": "x"}), 200)
        unbound = self.new()["key"]
        self.ok(self.api.patch(S(unbound), {"agentRef": "x"}), 200)
        self.problem(self.api.patch(S(unbound), {"agentRef": "y"}), 409, "agent_bound")

    def test_no_reset_lifts_it(self):
        limits = {"tools": ["ls"], "guardrails": {"approval": ["bash"]}, "permissionMode": "plan", "turnCap": 3}
        key = self.new(**BOUND, **limits, label="x")["key"]
        for keep in (True, False):
            after = self.ok(self.api.post(S(key, "main", "reset"), {"keepMetadata": keep}), 200)
            self.assertEqual({name: after.get(name) for name in {**BOUND, **limits}}, {**BOUND, **limits})
        self.assertNotIn("label", after)
        self.problem(self.api.patch(S(key), {"agentRef": "other"}), 409, "agent_bound")

    def test_tools_are_those_of_the_agent_or_fewer(self):
        key = self.new(**BOUND)["key"]
        self.ok(self.api.patch(S(key), {"tools": ["read"]}), 200)
        self.ok(self.api.patch(S(key), {"tools": ["ls", "read"]}), 200)
        self.invalid(self.api.patch(S(key), {"tools": ["ls", "rm"]}), "/tools/1")
        self.invalid(self.api.put(S(key), {**BOUND, "tools": ["rm"]}), "/tools/0")
        self.invalid(self.api.post(ALL, {"entry": {**BOUND, "tools": ["rm"]}}), "/entry/tools/0")
        self.ok(self.api.patch(S(key), {"tools": None}), 200)

    def test_tools_only_narrow_while_a_run_is_active(self):
        key = self.new(**BOUND, tools=["ls"])["key"]
        run = self.ok(self.api.post(S(key, "main", "runs"), {}), 201)
        self.invalid(self.api.patch(S(key), {"tools": ["ls", "read"]}), "/tools/1")
        self.assertEqual(self.api.patch(S(key), {"tools": None}).status, 422)
        self.ok(self.api.patch(S(key), {"tools": []}), 200)
        self.assertEqual(self.api.patch(S(key), {"tools": ["ls"]}).status, 422)
        self.ok(self.api.post(S(key, "main", "runs", run["runId"], "finish"), {"fence": run["lease"]["fence"], "status": "done"}), 200)
        self.ok(self.api.patch(S(key), {"tools": ["ls", "read"]}), 200)

    def test_what_limits_it_has_its_shape(self):
        key = self.new()["key"]
        wrong = {"permissionMode": "a b", "turnCap": -1, "tools": "ls", "agentRef": 5, "agentSnapshot": [], "fallbackChain": {},
                 "guardrails": "strict", "startedAt": "now", "runtimeMs": -1}
        for name, value in wrong.items():
            self.invalid(self.api.patch(S(key), {name: value}), "/" + name)
        for command in ("git status; x", "X=1 git", "git 'status", " ", "git status\nx", "git $HOME"):
            self.invalid(self.api.patch(S(key), {"guardrails": {"allowedCommands": ["git", command]}}),
                         "/guardrails/allowedCommands/1")
        self.invalid(self.api.patch(S(key), {"guardrails": {"approval": ["bash", 5]}}), "/guardrails/approval/1")
        right = {"permissionMode": "acceptEdits", "turnCap": "unlimited",
                 "guardrails": {"allowedCommands": ["git status", "npm 'test'"], "approval": []}}
        self.assertEqual({k: v for k, v in self.ok(self.api.patch(S(key), right), 200).items() if k in right}, right)
        for cap in (0, 3):
            self.assertEqual(self.ok(self.api.patch(S(key), {"turnCap": cap}), 200)["turnCap"], cap)
        self.assertNotIn("turnCap", self.ok(self.api.patch(S(key), {"turnCap": None}), 200))

"""Who may change what a session is allowed to do: guardrails, caps, the permission mode."""

from harness.case import Case, S, uid


class Guarded(Case):
    """Who may change what a session is allowed to do."""

    def setUp(self):
        super().setUp()
        self.runner = self.daemon.client(self.daemon.token("runner"))
        self.operator = self.daemon.client(self.daemon.token("operator"))

    def refuse(self, reply):
        self.assertEqual(self.problem(reply, 403, "forbidden")["permission"], "policy")

    def test_a_runner_does_not_free_itself(self):
        strict = {"allowedCommands": ["git status"], "approval": ["run_command"]}
        key = self.new(guardrails=strict, turnCap=5)["key"]
        entry = self.ok(self.api.get(S(key)), 200)
        for change in ({"guardrails": {"allowedCommands": ["rm"]}}, {"guardrails": None}, {"guardrails": {"approval": []}},
                       {"turnCap": 6}, {"turnCap": None}, {"turnCap": "unlimited"}):
            self.refuse(self.runner.patch(S(key), change))
            whole = {name: value for name, value in {**entry, **change}.items() if value is not None}
            self.refuse(self.runner.put(S(key), whole))
        self.ok(self.runner.patch(S(key), {"guardrails": strict, "turnCap": 5, "label": "same"}), 200)
        entry = self.ok(self.runner.get(S(key)), 200)
        self.ok(self.runner.put(S(key), entry), 200)
        self.assertEqual(self.ok(self.api.get(S(key)), 200)["guardrails"], strict)
        bare = self.ok(self.runner.post("/v1/agents/main/sessions", {"entry": {"turnCap": 3}}), 201)["key"]
        self.refuse(self.runner.patch(S(bare), {"guardrails": {"approval": ["x"]}}))
        self.ok(self.operator.patch(S(key), {"guardrails": {"approval": []}, "turnCap": "unlimited"}), 200)

    def test_a_child_is_guarded_as_its_parent(self):
        strict = {"allowedCommands": ["git status"]}
        key = self.new(guardrails=strict, permissionMode="ask")["key"]
        tool = self.daemon.client(self.daemon.token("session", agents=["main"], key=key))

        def spawn(api, status=201, **entry):
            reply = api.post(S(key, "main", "spawn"), {"entry": entry} if entry else {})
            return self.ok(reply, status) if status == 201 else self.refuse(reply)

        for child in (spawn(tool), spawn(self.runner), spawn(self.runner, guardrails=strict, label="x"),
                      self.ok(self.runner.post("/v1/agents/main/sessions", {"entry": {"spawnedBy": key}}), 201)):
            self.assertEqual((child["guardrails"], child["permissionMode"]), (strict, "ask"))
        spawn(self.runner, 403, guardrails={"allowedCommands": ["rm"]})
        spawn(self.runner, 403, permissionMode="free")
        self.refuse(self.runner.post("/v1/agents/main/sessions",
                                     {"entry": {"spawnedBy": key, "guardrails": {"allowedCommands": ["rm"]}}}))
        new = "agent:main:x:direct:" + uid()
        self.refuse(self.runner.put(S(new), {"spawnedBy": key, "permissionMode": "free"}))
        self.assertEqual(self.ok(self.runner.put(S(new), {"spawnedBy": key}), 201)["guardrails"], strict)
        child = spawn(self.operator, guardrails={"allowedCommands": ["rm"]})
        self.assertEqual((child["guardrails"], child["permissionMode"]), ({"allowedCommands": ["rm"]}, "ask"))
        bare = self.new()["key"]
        self.ok(self.runner.post(S(bare, "main", "spawn"), {"entry": {"guardrails": strict}}), 201)

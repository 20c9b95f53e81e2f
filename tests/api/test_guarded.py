"""Who may change what a session is allowed to do: guardrails, caps, the permission mode."""

import json
import shutil

from harness.case import Case, S, uid
from harness.sessiond import eventually


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


class GuardedKeys(Case):
    """Guardrails and turnCap belong to the key: whatever makes a session of it again, they stand."""

    HARD = {"approval": ["rm"], "allowedCommands": []}

    def setUp(self):
        super().setUp()
        self.d = self.spawn()
        self.admin = self.d.client()
        self.runner = self.d.client(self.d.token("runner"))
        self.bridge = self.d.client(self.d.token("bridge"))

    def make(self, **entry):
        key = f"agent:main:slack:direct:{uid()}"
        self.new(key, api=self.admin, guardrails=self.HARD, turnCap=2, **entry)
        self.say(key, "hello", api=self.admin)
        return key

    def stands(self, key):
        entry = self.ok(self.admin.get(S(key)), 200)
        self.assertEqual((entry.get("guardrails"), entry.get("turnCap")), (self.HARD, 2))

    def test_whatever_makes_the_key_again(self):
        create = lambda key, **entry: self.runner.post("/v1/agents/main/sessions", {"key": key, "entry": entry})  # noqa: E731
        inbound = lambda key: self.bridge.post(  # noqa: E731
            "/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": key.rsplit(":", 1)[1], "text": "hi"})
        ways = {
            "create": lambda key: self.ok(create(key), 201),
            "put": lambda key: self.ok(self.runner.put(S(key), {"label": "x"}), 201),
            "inbound": lambda key: self.ok(inbound(key), 200, 201),
            "restore": lambda key: self.ok(self.runner.post(S(key, "main", "restore"), {}), 200),
            "other spelling": lambda key: self.ok(create(key.replace(":direct:", ":dm:")), 201),
            "fork": lambda key: self.ok(self.runner.post(S(self.new(api=self.admin)["key"], "main", "fork"), {"key": key}), 201),
            "ephemeral": lambda key: self.ok(
                self.runner.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201),
        }
        for name, again in ways.items():
            with self.subTest(name):
                key = self.make()
                self.ok(self.runner.delete(S(key)), 204)
                for others in ({"guardrails": {"approval": []}}, {"turnCap": "unlimited"}):
                    self.problem(create(key, **others), 403, "forbidden")
                    self.problem(self.runner.put(S(key), others), 403, "forbidden")
                again(key)
                self.stands(key)

    def test_an_older_archive_or_a_changed_export_brings_nothing_back(self):
        key = f"agent:main:slack:direct:{uid()}"
        old = self.new(key, api=self.admin, guardrails={"approval": []}, turnCap="unlimited")["sessionId"]
        self.say(key, "x", api=self.admin)
        self.ok(self.admin.post(S(key, "main", "reset"), {}), 200)
        self.ok(self.admin.patch(S(key), {"guardrails": self.HARD, "turnCap": 2}), 200)
        export = self.admin.get(S(key, "main", "export") + "?format=jsonl&entry=true").raw.decode()
        self.ok(self.runner.delete(S(key)), 204)
        self.ok(self.runner.post(S(key, "main", "restore"), {"sessionId": old}), 200)
        self.stands(key)
        self.ok(self.runner.delete(S(key)), 204)
        header, *rest = export.splitlines()
        head = json.loads(header)
        text = json.dumps({**head, "id": "fresh-" + uid()})
        lines = "\n".join([text, *rest]).replace('"turnCap":2', '"turnCap":"unlimited"')
        self.ok(self.runner.post("/v1/agents/main/import?format=jsonl", lines.encode(), headers={"Content-Type": "application/x-ndjson"}), 200)
        self.stands(key)

    def test_over_a_purge_maintenance_and_a_kill(self):
        key = self.make()
        self.ok(self.runner.delete(S(key) + "?purge=true"), 204)
        other = self.make()
        reply = self.ok(self.admin.post("/v1/admin/maintenance", {"agent": "main", "dryRun": False, "keep": 0}), 200)
        self.assertIn(other, [one["key"] for one in reply["data"]])
        self.d.kill9()
        self.d.start()
        self.setUpClients()
        for one in (key, other):
            self.ok(self.runner.post("/v1/agents/main/sessions", {"key": one}), 201)
            self.stands(one)
        self.ok(self.admin.post("/v1/admin/checkpoint", {}), 200, 204)
        self.ok(self.runner.delete(S(key)), 204)
        self.d.stop()
        self.d.start()
        self.setUpClients()
        self.ok(self.runner.post("/v1/agents/main/sessions", {"key": key}), 201)
        self.stands(key)

    def setUpClients(self):
        self.admin = self.d.client()
        self.runner = self.d.client(self.d.token("runner"))

    def test_only_the_permission_policy_takes_them_back(self):
        key = self.make()
        self.ok(self.admin.patch(S(key), {"turnCap": None}), 200)
        self.ok(self.runner.delete(S(key)), 204)
        self.problem(self.runner.post("/v1/agents/main/sessions", {"key": key, "entry": {"turnCap": "unlimited"}}), 403)
        entry = self.ok(self.runner.post("/v1/agents/main/sessions", {"key": key}), 201)
        self.assertEqual((entry.get("guardrails"), entry.get("turnCap")), (self.HARD, None))
        self.ok(self.runner.delete(S(key)), 204)
        made = self.ok(self.admin.post("/v1/agents/main/sessions", {"key": key, "entry": {"guardrails": {"approval": []}}}), 201)
        self.assertEqual(made["guardrails"], {"approval": []})

    def test_another_program_does_not_change_them(self):
        key = self.make()
        store = self.d.agent_dir() / "sessions.json"
        self.ok(self.admin.post("/v1/admin/checkpoint", {}), 200, 204)
        foreign = json.loads(store.read_text())
        foreign[key] = {**{name: value for name, value in foreign[key].items() if name != "guardrails"},
                        "turnCap": "unlimited", "label": "theirs", "updatedAt": foreign[key]["updatedAt"] + 1}
        replace(store, json.dumps(foreign))
        eventually(lambda: self.fresh(key).get("label") == "theirs")
        self.stands(key)
        self.ok(self.admin.post("/v1/admin/checkpoint", {}), 200, 204)
        self.assertEqual(json.loads(store.read_text())[key]["guardrails"], self.HARD)
        gone = json.loads(store.read_text())
        theirs = gone.pop(key)
        replace(store, json.dumps(gone))
        eventually(lambda: self.admin.get(S(key), headers={"Cache-Control": "no-cache"}).status == 404)
        theirs = {name: value for name, value in theirs.items() if name not in ("guardrails", "turnCap", "rev")}
        replace(store, json.dumps({**gone, key: {**theirs, "sessionId": "anew-" + uid()}}))
        eventually(lambda: self.fresh(key).get("guardrails") == self.HARD)
        self.stands(key)

    def test_another_programs_value_stands_where_no_operator_has_set_one(self):
        key = f"agent:main:slack:direct:{uid()}"
        self.ok(self.runner.post("/v1/agents/main/sessions", {"key": key, "entry": {"turnCap": 7}}), 201)
        self.ok(self.admin.post("/v1/admin/checkpoint", {}), 200, 204)
        store = self.d.agent_dir() / "sessions.json"
        entries = json.loads(store.read_text())
        entries[key] = {**entries[key], "turnCap": 8, "updatedAt": entries[key]["updatedAt"] + 1}
        replace(store, json.dumps(entries))
        eventually(lambda: self.fresh(key).get("turnCap") == 8)

    def test_a_store_that_was_changed_while_nobody_looked_is_put_right(self):
        key = self.make()
        self.d.stop()
        store = self.d.agent_dir() / "sessions.json"
        entries = json.loads(store.read_text())
        entries[key] = {name: value for name, value in entries[key].items() if name not in ("guardrails", "turnCap")}
        store.write_text(json.dumps(entries))
        shutil.rmtree(self.d.state / "journal" / "previous")
        self.d.start()
        self.setUpClients()
        eventually(lambda: self.ok(self.admin.get(S(key)), 200).get("guardrails") == self.HARD)
        self.stands(key)

    def test_an_ephemeral_and_a_durable_session_of_a_key_have_the_same(self):
        key = f"agent:main:slack:direct:{uid()}"
        create = lambda api, **body: self.ok(api.post("/v1/agents/main/sessions", {"key": key, **body}), 201)  # noqa: E731
        create(self.admin, ephemeral=True, entry={"guardrails": {"approval": []}, "turnCap": "unlimited"})
        self.ok(self.runner.delete(S(key)), 204)
        create(self.runner)
        self.ok(self.admin.patch(S(key), {"guardrails": self.HARD, "turnCap": 2}), 200)
        self.ok(self.runner.delete(S(key)), 204)
        create(self.runner, ephemeral=True)
        self.stands(key)
        self.ok(self.admin.patch(S(key), {"turnCap": 3}), 200)
        self.ok(self.runner.delete(S(key)), 204)
        self.assertEqual(create(self.runner)["turnCap"], 3)

    def test_a_child_or_a_fork_is_not_less_guarded_than_its_parent(self):
        parent = self.make()
        key = f"agent:main:slack:direct:{uid()}"
        self.new(key, api=self.admin, guardrails={"approval": []})
        self.ok(self.runner.delete(S(key)), 204)
        child = {"spawnedBy": parent}
        self.problem(self.runner.post("/v1/agents/main/sessions", {"key": key, "entry": child}), 403, "forbidden")
        self.problem(self.runner.put(S(key), child), 403, "forbidden")
        self.problem(self.runner.post(S(parent, "main", "fork"), {"key": key}), 403, "forbidden")
        self.ok(self.admin.post("/v1/agents/main/sessions", {"key": key, "entry": child}), 201)

    def test_an_import_over_a_session_leaves_what_an_operator_has_set(self):
        key = self.make()
        export = self.admin.get(S(key, "main", "export") + "?format=jsonl&entry=true").raw.decode()
        changed = export.replace('"turnCap":2', '"turnCap":"unlimited"')
        self.assertNotEqual(changed, export)
        self.ok(self.admin.post("/v1/agents/main/import?format=jsonl&ifExists=replace", changed.encode(),
                                headers={"Content-Type": "application/x-ndjson"}), 200)
        self.stands(key)

    def test_what_a_maker_chose_itself_goes_with_the_session(self):
        for _ in range(3):
            key = f"agent:main:slack:direct:{uid()}"
            self.ok(self.runner.post("/v1/agents/main/sessions", {"key": key, "entry": {"turnCap": 7}}), 201)
            self.ok(self.runner.delete(S(key)), 204)
        self.assertNotIn("turnCap", self.ok(self.runner.post("/v1/agents/main/sessions", {"key": key}), 201))
        self.ok(self.admin.post("/v1/admin/checkpoint", {}), 200, 204)
        book = self.d.state / "journal" / "policies" / "main.json"
        self.assertEqual(json.loads(book.read_text())["keys"] if book.exists() else [], [])

    def test_a_key_without_its_agent_is_the_same_key(self):
        store = self.d.agent_dir() / "sessions.json"
        key = "slack:direct:" + uid().lower()
        self.ok(self.admin.post("/v1/admin/checkpoint", {}), 200, 204)
        there = json.loads(store.read_text()) if store.exists() else {}
        store.parent.mkdir(parents=True, exist_ok=True)
        replace(store, json.dumps({**there, key: {"sessionId": "f-" + uid(), "updatedAt": 1, "guardrails": self.HARD, "turnCap": 2}}))
        eventually(lambda: self.fresh(key).get("guardrails") == self.HARD)
        self.ok(self.runner.delete(S(key)), 204)
        made = self.ok(self.runner.post("/v1/agents/main/sessions", {"key": key}), 201)
        self.stands(made["key"])

    def fresh(self, key):
        reply = self.admin.get(S(key), headers={"Cache-Control": "no-cache"})
        return reply.json if reply.status == 200 else {}


def replace(path, text):
    new = path.with_name(path.name + ".theirs")
    new.write_text(text)
    new.rename(path)

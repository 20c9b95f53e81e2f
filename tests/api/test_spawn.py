"""Parents and children: who may name whom, how deep, and what a token of one session can do with it."""

from harness.case import Case, S, uid

runs = {"asan", "release"}

ALL = "/v1/agents/main/sessions"


class Spawn(Case):
    config = {"session": {"spawn": {"depth": 3, "count": 5}}}

    def spawned(self, key, api=None, **body):
        return self.ok((api or self.api).post(S(key, "main", "spawn"), body), 201)

    def test_depth_and_parent_cannot_be_patched(self):
        parent, other = self.new()["key"], self.new()["key"]
        child = self.spawned(parent)["key"]
        for patch in ({"spawnDepth": None}, {"spawnDepth": 0}, {"spawnDepth": 9}, {"spawnedBy": other}, {"spawnedBy": None}):
            with self.subTest(str(patch)):
                self.invalid(self.api.patch(S(child), patch), "/" + next(iter(patch)))
        session = self.ok(self.api.get(S(child)), 200)
        self.assertEqual((session["spawnedBy"], session["spawnDepth"]), (parent, 1))
        self.invalid(self.api.post(ALL, {"entry": {"spawnDepth": 0}}), "/entry/spawnDepth")
        self.invalid(self.api.post(S(child, "main", "spawn"), {"entry": {"spawnedBy": other}}), "/entry/spawnedBy")

    def test_a_put_does_not_lose_them(self):
        parent = self.new()["key"]
        child = self.spawned(parent)
        self.ok(self.api.put(S(child["key"]), {"label": "x"}), 200)
        self.ok(self.api.put(S(child["key"]), self.api.get(S(child["key"])).json), 200)
        session = self.ok(self.api.get(S(child["key"])), 200)
        self.assertEqual((session["spawnedBy"], session["spawnDepth"]), (parent, 1))

    def test_the_parent_must_be_there_and_makes_the_child_deeper(self):
        absent = f"agent:main:slack:channel:{uid()}"
        for by in (absent, self.new("agent:codex:x:" + uid())["key"], "agent:codex:x"):
            self.invalid(self.api.post(ALL, {"key": f"agent:main:x:{uid()}", "entry": {"spawnedBy": by}}), "/entry/spawnedBy")
        self.invalid(self.api.post(ALL, {"key": absent, "entry": {"spawnedBy": absent}}), "/entry/spawnedBy")
        key = self.new()["key"]
        for depth in (1, 2, 3):
            key = self.ok(self.api.post(ALL, {"entry": {"spawnedBy": key.upper().replace("AGENT:MAIN", "agent:main")}}), 201)
            self.assertEqual(key["spawnDepth"], depth)
            key = key["key"]
        self.problem(self.api.post(ALL, {"entry": {"spawnedBy": key}}), 422, "validation_failed")
        self.problem(self.api.post(S(key, "main", "spawn")), 422, "validation_failed")

    def test_children_count_however_they_are_made(self):
        parent = self.new()["key"]
        for made in range(5):
            self.ok(self.api.post(ALL, {"entry": {"spawnedBy": parent}}), 201)
        self.problem(self.api.post(ALL, {"entry": {"spawnedBy": parent}}), 422, "validation_failed")

    def test_a_ring_cannot_be_imported(self):
        one, two = self.new()["key"], self.new()["key"]
        self.ok(self.api.put(S(two), {"spawnedBy": one}), 200)
        for key, by in ((one, two), (one, one), (one, one.upper().replace("AGENT:MAIN", "agent:main"))):
            self.invalid(self.api.put(S(key), {"spawnedBy": by}), "/spawnedBy")

    def test_an_import_may_set_them_and_only_an_import(self):
        parent, key = self.new()["key"], f"agent:main:slack:channel:{uid()}"
        made = self.ok(self.api.put(S(key), {"spawnedBy": parent, "spawnDepth": 2}), 201)
        self.assertEqual((made["spawnedBy"], made["spawnDepth"]), (parent, 2))
        runner = self.daemon.client(self.daemon.token("runner", agents=["main"]))
        self.invalid(runner.put(S(key), {"spawnDepth": 0}), "/spawnDepth")
        self.invalid(runner.put(S(key), {"spawnedBy": self.new()["key"]}), "/spawnedBy")
        fresh = f"agent:main:slack:channel:{uid()}"
        self.invalid(runner.put(S(fresh), {"spawnedBy": parent, "spawnDepth": 0}), "/spawnDepth")
        self.invalid(runner.put(S(fresh), {"spawnedBy": fresh + "none"}), "/spawnedBy")
        self.assertEqual(self.ok(runner.put(S(fresh), {"spawnedBy": parent}), 201)["spawnDepth"], 1)

    def test_a_child_in_dm_spelling_is_among_its_parents_children(self):
        peer = uid()
        parent = self.new(f"agent:main:slack:direct:{peer}")["key"]
        daemon_side = f"agent:main:x:{uid()}"
        child = self.ok(self.api.post(ALL, {"key": daemon_side, "entry": {"spawnedBy": f"agent:main:slack:dm:{peer}"}}), 201)
        self.assertEqual(child["spawnedBy"], parent, "in the parent's own spelling")
        other = self.spawn(start=False)
        other.agent_dir().mkdir(parents=True)
        (other.agent_dir() / "sessions.json").write_text(
            '{"agent:main:slack:direct:p":{"sessionId":"p","updatedAt":1},'
            '"agent:main:subagent:c":{"sessionId":"c","updatedAt":1,"spawnedBy":"agent:main:slack:DM:P"}}')
        api = other.start().client()
        for parent in ("agent:main:slack:direct:p", "agent:main:slack:dm:p"):
            for path in (S(parent, "main", "children"), ALL + "?spawnedBy=" + parent):
                self.assertEqual([s["key"] for s in self.ok(api.get(path), 200)["data"]], ["agent:main:subagent:c"], path)

    def test_a_token_of_one_session_spawns_from_it_and_sees_the_child(self):
        for key in (f"agent:main:slack:direct:{uid()}", f"agent:main:telegram:group:-1:topic:{uid(4)}", f"agent:main:{uid()}"):
            with self.subTest(key):
                self.new(key)
                runner = self.daemon.client(self.daemon.token("runner", keyPrefix=key))
                child = self.spawned(key, runner, task="t")
                self.assertEqual((child["spawnedBy"], child["spawnDepth"]), (key, 1))
                self.ok(runner.get(S(child["key"])), 200)
                self.say(child["key"], "to the child", api=runner)
                self.assertEqual(self.texts(child["key"], api=runner), ["to the child"])
                self.assertEqual([s["key"] for s in self.ok(runner.get(S(key, "main", "children")), 200)["data"]], [child["key"]])
                grandchild = self.spawned(child["key"], runner)
                self.assertEqual(grandchild["spawnDepth"], 2)
                self.ok(runner.get(S(grandchild["key"])), 200)
        self.assertTrue(self.spawned(self.new()["key"])["key"].startswith("agent:main:subagent:"), "for who sees all, as before")

    def test_a_parent_that_is_not_seen_is_as_one_that_is_not_there(self):
        own, hidden = f"agent:main:slack:direct:{uid()}", self.new()["key"]
        runner = self.daemon.client(self.daemon.token("runner", keyPrefix=own))
        answers = [self.problem(runner.post(ALL, {"key": f"{own}:{uid(4)}", "entry": {"spawnedBy": by}}), 422, "validation_failed")
                   for by in (hidden, f"agent:main:slack:direct:{uid()}")]
        self.assertEqual(answers[0]["errors"], answers[1]["errors"])

"""The fields of an entry that are objects with a form: context, and the parts of systemPromptReport."""

from harness.case import Case, S, json, uid

ANTHROPIC = "sk-ant-" + "api03-" + "Ab1_" * 12
WHOLE = {"workingDir": "/w", "activeFile": "a.c", "selection": {"file": "a.c", "startLine": 1, "endLine": 1}, "gitRef": "main",
         "fsScopeTier": "project", "variables": {"env": "test"}}


class Workspace(Case):
    def make(self, api=None, **entry):
        return (api or self.api).post("/v1/agents/main/sessions", {"entry": entry})

    def made(self, **entry):
        return self.ok(self.make(**entry), 201)

    def test_a_workspace_has_its_forms_and_a_default(self):
        self.assertEqual(self.made(context=WHOLE)["context"], WHOLE)
        made = self.made(context={"workingDir": "/w", "theirs": [1]})
        self.assertEqual(made["context"], {"workingDir": "/w", "theirs": [1], "fsScopeTier": "sandboxed"})
        self.daemon.restart(kill=True)
        self.__class__.api = self.daemon.client()
        self.assertEqual(self.ok(self.api.get(S(made["key"])))["context"]["fsScopeTier"], "sandboxed")
        self.assertNotIn("context", self.made())
        for context, *pointers in (
                ({}, "/workingDir"), ({"workingDir": ""}, "/workingDir"), ({"workingDir": 1}, "/workingDir"),
                ({"fsScopeTier": "root"}, "/fsScopeTier"), ({"fsScopeTier": None}, "/fsScopeTier"),
                ({"activeFile": 1, "gitRef": []}, "/activeFile", "/gitRef"), ({"selection": "a"}, "/selection"),
                ({"selection": {}}, "/selection/file", "/selection/startLine", "/selection/endLine"),
                ({"selection": {"file": "a", "startLine": 2, "endLine": 1}}, "/selection/endLine"),
                ({"selection": {"file": "a", "startLine": 0, "endLine": 1.5}}, "/selection/startLine", "/selection/endLine"),
                ({"selection": {"file": "a", "startLine": 1, "endLine": 1e300}}, "/selection/endLine"),
                ({"variables": {"k": 1, "a/b": None}}, "/variables/k", "/variables/a~1b"), ({"variables": []}, "/variables")):
            with self.subTest(context):
                whole = context if "/workingDir" in pointers else {"workingDir": "/w", **context}
                self.invalid(self.make(context=whole), *("/entry/context" + p for p in pointers))
                self.invalid(self.api.put(S("agent:main:put" + uid()), {"context": whole}), *("/context" + p for p in pointers))
        self.invalid(self.make(context="/w"), "/entry/context")
        self.invalid(self.make(context={"workingDir": "/w", "variables": dict.fromkeys(map(str, range(1000)), 1)}),
                     *(f"/entry/context/variables/{n}" for n in range(20)))

    def test_a_patch_is_checked_as_a_whole(self):
        key = self.made(context=WHOLE)["key"]

        def patch(context):
            return self.api.patch(S(key), {"context": context})
        self.invalid(patch({"workingDir": None}), "/context/workingDir")
        self.invalid(patch({"selection": {"startLine": 5}}), "/context/selection/endLine")
        self.assertEqual(self.ok(self.api.get(S(key)))["context"], WHOLE)
        self.assertEqual(self.ok(patch({"selection": {"startLine": 5, "endLine": 6}}))["context"]["selection"]["endLine"], 6)
        self.assertEqual(self.ok(patch({"fsScopeTier": None, "variables": None}))["context"]["fsScopeTier"], "sandboxed")
        self.assertNotIn("context", self.ok(self.api.patch(S(key), {"context": None})))
        self.invalid(patch({"gitRef": "x"}), "/context/workingDir")

    def test_keys_in_variables_are_refused_whatever_the_policy_says(self):
        daemon = self.spawn({"policy": {"secretScan": "off"}})
        api = daemon.client()
        at = "/context/variables/k"
        context = {"workingDir": "/w", "variables": {"k": "see " + ANTHROPIC}}
        self.invalid(self.make(api, context=context), "/entry" + at)
        self.invalid(api.put(S("agent:main:x"), {"context": context}), at)
        key = self.ok(self.make(api, context={"workingDir": "/w"}), 201)["key"]
        self.invalid(api.patch(S(key), {"context": {"variables": {"k": ANTHROPIC}}}), at)
        escaped = json.dumps({"context": context}).replace("sk-ant", "\\u0073k-ant")
        self.invalid(api.patch(S(key), escaped.encode()), at)
        self.invalid(api.patch(S(key), {"context": {"variables": {ANTHROPIC: "x"}}}), "/context/variables")
        self.ok(api.patch(S(key), {"other": ANTHROPIC}), 200)

    def test_it_stays_over_a_reset_and_goes_with_a_fork(self):
        key = self.made(context=WHOLE)["key"]
        self.say(key, "hi")
        self.assertEqual(self.ok(self.api.post(S(key, "main", "fork"), {}), 201)["context"], WHOLE)
        self.ok(self.api.post(S(key, "main", "reset"), {"keepMetadata": False}))
        self.assertEqual(self.ok(self.api.get(S(key)))["context"], WHOLE)

    def test_a_context_that_was_there_before_may_be_sent_back(self):
        key, old = "agent:old:main", {"cwd": "/w"}
        daemon = self.spawn(start=False)
        folder = daemon.state / "agents" / "old" / "sessions"
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_text(json.dumps({key: {"sessionId": "s1", "updatedAt": 1767537120000, "context": old}}))
        api = daemon.start().client()
        there = self.ok(api.get(S(key, "old")))
        self.assertEqual(there["context"], old)
        self.assertEqual(self.ok(api.put(S(key, "old"), {**there, "label": "x"}))["label"], "x")
        self.ok(api.patch(S(key, "old"), {"label": "y"}))
        self.invalid(api.patch(S(key, "old"), {"context": {"gitRef": "x"}}), "/context/workingDir")

    def test_parts_of_a_report(self):
        parts = [{"source": source, "chars": 5} for source in ("default", "skills", "subagents", "cwd", "media", "runtime")]
        self.made(systemPromptReport={"parts": parts, "theirs": 1})
        self.made(systemPromptReport={})
        at = "/entry/systemPromptReport/parts"
        for wrong, *pointers in (("x", ""), ([1], "/0"), ([{"source": "other", "chars": 1}], "/0/source"), ([{}], "/0/source", "/0/chars"),
                                 ([parts[0], {"source": "cwd", "chars": -1}], "/1/chars")):
            with self.subTest(wrong):
                self.invalid(self.make(systemPromptReport={"parts": wrong}), *(at + p for p in pointers))

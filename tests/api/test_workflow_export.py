"""Sessions as workflows: S/export?format=relavium-yaml. tests/data/relavium has transcripts and what is made of them."""

import re
from pathlib import Path

from harness import yaml_text
from harness.case import Case, S, uid

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "relavium"
NAMES = ("three-turns", "split-turn", "empty", "odd-values")


class WorkflowExport(Case):
    def take_in(self, name):
        body = (GOLDEN / (name + ".jsonl")).read_bytes()
        self.ok(self.api.post("/v1/agents/main/import?format=jsonl&ifExists=replace", body), 200)
        return f"agent:main:{name}"

    def exported(self, key, agent="main", query=""):
        reply = self.api.get(S(key, agent, "export") + "?format=relavium-yaml" + query)
        self.ok(reply, 200)
        self.assertEqual(reply.headers.get("Content-Type"), "application/yaml")
        return reply.raw.decode()

    def workflow(self, key, agent="main"):
        return yaml_text.parse(self.exported(key, agent))

    def post(self, key, *messages):
        for message in messages:
            self.ok(self.api.post(S(key, "main", "messages"), message), 201)

    def test_exports_equal_the_golden_files_also_after_a_restart(self):
        keys = {name: self.take_in(name) for name in NAMES}
        once = {}
        for name, key in keys.items():
            with self.subTest(name):
                once[name] = self.exported(key)
                self.assertEqual(once[name], (GOLDEN / (name + ".yaml")).read_text())
                self.assertEqual(once[name], self.exported(key))
                self.assertEqual(yaml_text.write(yaml_text.parse(once[name])), once[name])
        self.daemon.restart()
        self.__class__.api = self.daemon.client()
        for name, key in keys.items():
            self.assertEqual(self.exported(key), once[name], name)

    def test_turns_that_were_broken_off_are_in_the_metadata_only(self):
        made = yaml_text.parse((GOLDEN / "three-turns.yaml").read_text())
        self.assertEqual([n["id"] for n in made["nodes"]], ["input", "turn-1", "turn-2", "output"])
        self.assertEqual(made["nodes"][1]["tools"], ["read", "ls"])
        self.assertEqual([(e["from"], e["to"]) for e in made["edges"]],
                         [("input", "turn-1"), ("turn-1", "turn-2"), ("turn-2", "output")])
        self.assertEqual([m["sequenceNumber"] for m in made["metadata"]["relaviumExport"]["messages"]], list(range(12)))

    def test_ids_and_prompts_are_there_and_models_and_signatures_never(self):
        made = yaml_text.parse((GOLDEN / "three-turns.yaml").read_text())
        self.assertEqual(made["id"], "caf-dj-vu")
        self.assertEqual(made["nodes"][2]["prompt_template"], "use { {ctx.x}} and { { {deep}}}")
        self.assertEqual(yaml_text.parse((GOLDEN / "split-turn.yaml").read_text())["id"], "exported-session")
        for name in NAMES:
            text = (GOLDEN / (name + ".yaml")).read_text()
            self.assertIsNone(re.search(r"^ *(- )?(model|temperature|max_tokens|retry|output_schema|thinkingSignature):", text, re.M))
            self.assertNotIn("SIG", text)

    def test_one_node_for_split_rows_and_none_for_an_empty_session(self):
        made = yaml_text.parse((GOLDEN / "split-turn.yaml").read_text())
        self.assertEqual([n.get("prompt_template") for n in made["nodes"]], [None, "first\nsecond", None])
        self.assertEqual((made["agents"][0]["id"], made["nodes"][1]["agent_ref"]), ("coder", "coder"))
        empty = yaml_text.parse((GOLDEN / "empty.yaml").read_text())
        self.assertEqual(empty["edges"], [{"from": "input", "to": "output"}])
        self.assertNotIn("agents", empty)

    def test_a_session_of_the_daemon(self):
        key = self.new(name="One & two")["key"]
        self.assertEqual(self.workflow(key)["edges"], [{"from": "input", "to": "output"}])
        self.post(key, {"role": "assistant", "text": "before anyone asked"}, {"role": "user", "text": "hi"})
        self.assertEqual(len(self.workflow(key)["nodes"]), 2)
        self.post(key, {"role": "assistant", "text": " "})
        self.assertEqual(len(self.workflow(key)["nodes"]), 2)
        self.post(key, {"role": "assistant", "text": "yo"})
        made = self.workflow(key)
        self.assertEqual((made["id"], made["name"], len(made["nodes"])), ("one-two", "One & two", 3))
        session = self.ok(self.api.get(S(key)), 200)
        messages = made["metadata"]["relaviumExport"]["messages"]
        self.assertEqual({m["sessionId"] for m in messages}, {session["sessionId"]})
        self.assertEqual(messages[1]["content"], [{"type": "text", "text": "hi"}])

    def test_a_long_transcript_is_streamed(self):
        key = self.new()["key"]
        text = "x" * 20_000
        entries = [{"role": role, "text": f"{n} {text}"} for n in range(75) for role in ("user", "assistant")]
        self.ok(self.api.post(S(key, "main", "messages"), {"entries": entries}), 201)
        made = self.workflow(key)
        self.assertEqual(len(made["nodes"]), 77)
        self.assertEqual([n["prompt_template"].split()[0] for n in made["nodes"][1:-1]], [str(n) for n in range(75)])
        self.assertEqual([m["sequenceNumber"] for m in made["metadata"]["relaviumExport"]["messages"]], list(range(150)))

    def test_deep_values_cost_no_indentation(self):
        key = self.new()["key"]
        deep = {"a": 1}
        for _ in range(24):
            deep = {"b": [deep]} if isinstance(deep, list) else [deep]
        self.post(key, {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "t", "arguments": {"d": deep}}]})
        text = self.exported(key)
        self.assertLess(max(len(line) - len(line.lstrip()) for line in text.splitlines()), 30)
        part = yaml_text.parse(text)["metadata"]["relaviumExport"]["messages"][0]["content"][0]
        self.assertEqual(part["arguments"]["d"], deep)

    def test_it_is_not_read_and_a_scope_holds(self):
        self.problem(self.api.post("/v1/agents/main/import?format=relavium-yaml", "id: x\n"), 400, "bad_request")
        key = self.new()["key"]
        other = self.daemon.client(self.daemon.token("viewer", agents=["other"]))
        self.problem(other.get(S(key, "main", "export") + "?format=relavium-yaml"), 403)

    def test_by_command(self):
        key = self.new(name="cmd " + uid())["key"]
        done = self.daemon.cli("export", key, "--format", "relavium-yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, self.exported(key))

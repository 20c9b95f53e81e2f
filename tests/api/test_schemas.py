"""The schemas of /v1/schemas: each stands alone, and what the daemon answers and reads is valid by it."""

import json

import jsonschema

from export_documents import stored
from harness.case import Case, S, uid
from harness.sessiond import REPO
from test_import_agents import SAMPLE

NAMES = ("session", "message", "context", "event", "stored-session", "session-record")


class Schemas(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.schemas = {name: cls.daemon.anonymous().get("/v1/schemas/" + name).json for name in NAMES}

    def check(self, name, value):
        faults = [fault.message[:300] for fault in jsonschema.Draft202012Validator(self.schemas[name]).iter_errors(value)]
        self.assertEqual(faults, [], json.dumps(value)[:500])

    def refuse(self, name, value):
        self.assertFalse(jsonschema.Draft202012Validator(self.schemas[name]).is_valid(value), value)

    def references(self, value):
        if isinstance(value, dict):
            for name, part in value.items():
                if name == "$ref":
                    yield part
                else:
                    yield from self.references(part)
        elif isinstance(value, list):
            for part in value:
                yield from self.references(part)

    def test_they_are_schemas_that_stand_alone(self):
        for name, schema in self.schemas.items():
            with self.subTest(name):
                jsonschema.Draft202012Validator.check_schema(schema)
                self.assertEqual(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")
                self.assertEqual({ref for ref in self.references(schema) if ref.removeprefix("#/$defs/") not in schema["$defs"]}, set())
                self.assertEqual(set(schema["$defs"]) - {ref.removeprefix("#/$defs/") for ref in self.references(schema)}, set())

    def test_the_type_and_an_unknown_name(self):
        reply = self.daemon.anonymous().get("/v1/schemas/session")
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "application/schema+json"))
        for name in ("Session", "nosuch", "%2e%2e", "session%00"):
            self.assertIn(self.daemon.anonymous().get("/v1/schemas/" + name).status, (400, 404), name)

    def test_answers_and_sample_files(self):
        daemon = self.spawn()
        for source, name in (("openclaw", SAMPLE), ("claude-code", REPO / "tests/data/claude-code"), ("codex", REPO / "tests/data/codex")):
            daemon.cli("import", name, "--from", source, "--agent", "a" + source)
        api, seen = daemon.client(), {"sessions": 0, "messages": 0}
        for row in self.ok(api.get("/v1/sessions?limit=200&archived=any"), 200)["data"]:
            self.check("session", row)
            self.check("session", self.ok(api.get(S(row["key"], row["agent"])), 200))
            seen["sessions"] += 1
            for message in self.ok(api.get(S(row["key"], row["agent"], "messages") + "?limit=200"), 200)["data"]:
                self.check("message", message)
                seen["messages"] += 1
            self.check("stored-session", self.ok(api.get(S(row["key"], row["agent"], "export") + "?format=json"), 200))
            self.check("session-record", self.ok(api.get(S(row["key"], row["agent"], "export") + "?format=robota"), 200))
        beginning = api.get("/version").json["epoch"] + "-0"
        for event in self.ok(api.get(f"/v1/events?poll=1&waitMs=0&after={beginning}", headers={"Accept": "application/json"}), 200)["data"]:
            self.check("event", event)
        self.assertGreater(seen["sessions"], 5)
        self.assertGreater(seen["messages"], 20)

    def test_what_is_none_of_it_is_refused(self):
        document = stored("s" + uid(), "hi", "there")
        self.check("stored-session", document)
        self.refuse("stored-session", {**document, "messages": [{"role": "robot", "content": "x"}]})
        self.refuse("stored-session", {**document, "metadata": {"id": "x"}})
        record = {"id": "r", "cwd": "/w", "createdAt": "2025-01-04T14:32:15.000Z", "updatedAt": "2025-01-04T14:32:15.000Z",
                  "messages": [{"role": "user", "content": "hi"}], "history": []}
        self.check("session-record", record)
        self.refuse("session-record", {**record, "id": 1})
        workspace = {"workingDir": "/w", "selection": {"file": "a", "startLine": 1, "endLine": 2}, "fsScopeTier": "project", "variables": {"k": "v"}}
        self.check("context", workspace)
        self.refuse("context", {**workspace, "fsScopeTier": "root"})
        self.refuse("context", {**workspace, "variables": {"k": 1}})
        self.refuse("event", {"type": "foo", "time": 1, "topic": None, "data": {}})
        self.refuse("message", {"seq": -1, "id": "x", "parentId": None, "type": "message"})
        self.refuse("session", {"key": "agent:main:main"})

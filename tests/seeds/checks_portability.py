"""What the rows of portability.table try. Most are tests of tests/api: `Resume.test_10_…` is that test of the class Resume, on the daemon
of this table."""

import pathlib
import re
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "api"))

import test_export  # noqa: E402
import test_import  # noqa: E402
import test_portability_clear  # noqa: E402
import test_portability_commands  # noqa: E402
import test_portability_fork  # noqa: E402
import test_portability_last  # noqa: E402
import test_portability_names  # noqa: E402
import test_portability_resume  # noqa: E402
from harness.case import Case, S, json, uid  # noqa: E402

KINDS = {"Exporting": test_export.Exporting, "Commands": test_import.Commands, "Clear": test_portability_clear.Clear,
         "ByCommand": test_portability_commands.Commands, "Fork": test_portability_fork.Fork, "Replace": test_portability_fork.Replace,
         "Last": test_portability_last.Last, "Names": test_portability_names.Names, "Resume": test_portability_resume.Resume}
RESERVED = ["index", "metadata", "last_session", "con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 5))]
RECORD = {"id": "", "cwd": "/w", "name": "n", "createdAt": "2025-01-04T14:32:15.000Z", "updatedAt": "2025-01-04T14:40:00.000Z",
          "messages": [{"role": "user", "content": "hi"}], "history": [{"id": "h", "category": "event", "type": "x", "data": {"n": 1}}],
          "systemPrompt": "be kind", "toolSchemas": [{"name": "ls", "parameters": {"type": "object"}}],
          "backgroundTasks": [{"id": "t", "state": "running"}], "backgroundTaskEvents": [{"taskId": "t", "delta": "wo"}],
          "backgroundJobGroups": [{"id": "g"}], "backgroundJobGroupEvents": [{"groupId": "g", "type": "started"}],
          "memoryEvents": [{"type": "saved", "topic": "t"}], "usedMemoryReferences": [{"topic": "t"}]}


class Checks(Case):
    def the_same_file_or_a_new_one(self):
        """A caller fixes the id, goes on under it, or goes on under a new one; else it is a fresh UUID."""
        given = "mine-" + uid()
        session = self.ok(self.api.post("/v1/agents/main/sessions", {"sessionId": given}), 201)
        self.assertEqual(session["sessionId"], given)
        self.say(session["key"], "one")
        resumed = self.ok(self.api.post(S(given, "main", "resume")), 200)["session"]
        self.assertEqual((resumed["sessionId"], resumed["key"]), (given, session["key"]))
        self.say(session["key"], "two")
        fork = self.ok(self.api.post(S(given, "main", "fork"), {}), 201)
        self.assertRegex(fork["sessionId"], r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        self.say(fork["key"], "three")
        self.assertEqual((self.texts(given), self.texts(fork["key"])), (["one", "two"], ["one", "two", "three"]))

    def a_record_with_all_members(self):
        record = {**RECORD, "id": "r" + uid()}
        done = self.ok(self.api.post("/v1/agents/main/import?format=robota", record), 200)
        self.assertEqual(done["created"], 1, done)
        self.daemon.restart(kill=True)
        self.assertEqual(self.ok(self.api.get(S(record["id"], "main", "export") + "?format=robota"), 200), record)
        view = json.dumps(self.ok(self.api.get(S(record["id"], "main", "messages") + "?view=llm"), 200)["data"])
        self.assertNotIn("sessiond.history", view)

    def deleted_twice(self):
        key = self.new()["key"]
        for _ in range(2):
            self.ok(self.api.delete(S(key) + "?missing=ok"), 204)
        self.problem(self.api.get(S(key)), 404, "session_not_found")

    def ids_of_a_millisecond(self):
        made = [self.ok(self.api.post("/v1/agents/main/sessions", {"idKind": "timestamp"}), 201)["sessionId"] for _ in range(50)]
        self.assertEqual(len(set(made)), 50)
        for session_id in made:
            self.assertTrue(re.fullmatch(r"\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d-\d{3}-[a-z0-9]{4}", session_id), session_id)

    def reserved_names(self):
        for name in [*RESERVED, *(name.upper() for name in RESERVED)]:
            for body in ({"name": name}, {"name": name, "idFrom": "name"}, {"sessionId": name}):
                self.problem(self.api.post("/v1/agents/main/sessions", body), 422, "reserved_name")

    def ids_that_leave_the_folder(self):
        for session_id in ("..", "a..b", "a/b", "a\\b", "a\0b", "../up", "ä", "a b"):
            self.problem(self.api.post("/v1/agents/main/sessions", {"sessionId": session_id}), 422, "invalid_id", "validation_failed")
        self.ok(self.api.post("/v1/agents/main/sessions", {"sessionId": f"A_z.0-9{uid()}"}), 201)

    def nothing_is_left_beside_a_file(self):
        """Files of an export are there whole; of one that fails, nothing is."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.daemon.home))
        key = self.new()["key"]
        self.say(key, "hi")
        (folder / "in the way").mkdir()
        self.assertNotEqual(self.daemon.cli("export", key, "-o", folder / "in the way").returncode, 0)
        self.assertNotEqual(self.daemon.cli("export", "agent:main:none", "-o", folder / "x.json").returncode, 0)
        self.assertEqual([p.name for p in folder.iterdir()], ["in the way"])
        self.assertEqual(self.daemon.cli("export", key, "-o", folder / "x.json").returncode, 0)
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["in the way", "x.json"])

    def exported_by_api_and_command(self):
        """A session that was started, sent to and cancelled is the same document by both ways."""
        key = self.new()["key"]
        self.say(key, "hi")
        self.ok(self.api.post(S(key, "main", "abort")), 200, 202, 204)
        for form in ("json", "robota", "manager", "jsonl", "relavium-yaml"):
            whole = self.api.get(S(key, "main", "export") + "?format=" + form)
            self.assertEqual(whole.status, 200)
            self.assertEqual(self.daemon.cli("export", key, "--format", form).stdout.encode(), whole.raw)
        self.say(key, "it goes on")


def of_tests(kind, name):
    def check(self):
        case = kind(name)
        case.daemon, case.api, case._others = self.daemon, self.api, []
        case.setUp()
        try:
            getattr(case, name)()
        finally:
            case.doCleanups()
    return check


for label, kind in KINDS.items():
    for name in dir(kind):
        if name.startswith("test_"):
            setattr(Checks, f"{label}.{name}", of_tests(kind, name))

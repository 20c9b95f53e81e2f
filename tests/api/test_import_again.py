"""Claude Code's sessions, imported again while the program goes on with them: sessiond import --if-exists continue."""

import uuid

from harness.case import Case, S, json


class ImportAgain(Case):
    def setUp(self):
        super().setUp()
        self.session = str(uuid.uuid4())
        self.file = self.daemon.state.parent / f"claude-{self.session}" / "projects" / "-w" / f"{self.session}.jsonl"
        self.file.parent.mkdir(parents=True)
        self.lines = []
        self.add("user", content="look at both", parent=None)

    def add(self, type, parent="", content=None, of=None, **more):
        """A line of the file; of: the message.id of a reply. Its uuid."""
        id = f"u{len(self.lines)}"
        message = {"role": type, "content": content}
        if of:
            message.update(id=of, model="claude", usage={"input_tokens": 9, "output_tokens": 3})
        line = {"type": type, "uuid": id, "parentUuid": f"u{len(self.lines) - 1}" if parent == "" else parent,
                "sessionId": self.session, "cwd": "/w", "timestamp": f"2026-01-04T14:32:{len(self.lines):02}.000Z", **more}
        self.lines.append({**line, "message": message} if content is not None else line)
        return id

    def read(self, status=0, *options):
        self.file.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        done = self.daemon.cli("import", self.file, "--from", "claude-code", "--agent", "main", "--if-exists", "continue",
                               "--json", *options)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout), done.stderr

    def call(self, name):
        return [{"type": "tool_use", "id": name, "name": "read", "input": {}}]

    def result(self, name, parent):
        return self.add("user", parent, [{"type": "tool_result", "tool_use_id": name, "content": f"of {name}"}])

    def view(self):
        return self.ok(self.api.get(S(self.session, "main", "messages") + "?view=llm"), 200)

    def shown(self):
        """Role and parts of each message: texts, calls and results."""
        return [(m["role"], [part.get("text") or part.get("id") or part["content"] for part in m["content"]]
                 if isinstance(m["content"], list) else [m["content"]]) for m in self.view()["data"]]

    def test_a_message_that_grew_is_completed_and_shown_as_one(self):
        first = self.add("assistant", content=[{"type": "text", "text": "I look"}], of="m1")
        self.add("progress")
        self.assertEqual(self.read()[0]["created"], 1)
        second = self.add("assistant", content=self.call("a"), of="m1")
        self.assertEqual(self.read()[0]["updated"], 1)
        self.daemon.restart(kill=True)
        type(self).api = self.daemon.client()
        third = self.add("assistant", content=self.call("b"), of="m1")
        self.assertEqual(self.read()[0]["updated"], 1)
        self.assertEqual(self.read()[0]["skipped"], 1)
        self.result("a", second)
        self.result("b", third)
        self.add("assistant", content=[{"type": "text", "text": "done"}], of="m2")
        self.assertEqual(self.read()[0]["updated"], 1)
        view = self.view()
        self.assertEqual(self.shown(), [("user", ["look at both"]), ("assistant", ["I look", "a", "b"]), ("toolResult", ["of a"]),
                                        ("toolResult", ["of b"]), ("assistant", ["done"])])
        self.assertEqual((view["data"][1]["entryIds"], view["repaired"]), ([first, f"{first}.2", f"{first}.3"], []))
        whole = self.ok(self.api.get(S(self.session)), 200)
        self.ok(self.api.delete(S(self.session) + "?purge=true"), 200, 204)
        self.read()
        self.assertEqual(whole["usageTotals"], self.ok(self.api.get(S(self.session)), 200)["usageTotals"])

    def test_where_people_went_on_it_is_named_and_left(self):
        first = self.add("assistant", content=[{"type": "text", "text": "I look"}], of="m1")
        self.read()
        self.say(self.session, "and the third?")
        self.add("assistant", content=self.call("a"), of="m1")
        self.result("a", "u2")
        for _ in range(2):
            counts, told = self.read(1)
            self.assertEqual((counts["updated"], counts["skipped"]), (0, 1))
            self.assertIn(f"the message {first} has grown, but the conversation went on here", told)
        self.assertEqual(self.shown(), [("user", ["look at both"]), ("assistant", ["I look"]), ("user", ["and the third?"])])

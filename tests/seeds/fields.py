"""The fields of a seed's entries, one a line of its .fields file: written, refused, and served as a foreign program wrote them."""

import json

from harness.case import S, uid

ALL = "/v1/agents/main/sessions"


class Field:
    """One line: line of the seed | field | a right value | wrong values | flags"""

    def __init__(self, line):
        parts = [part.strip() for part in line.split("|")]
        self.line, self.name = int(parts[0]), parts[1]
        self.outer, _, self.inner = self.name.partition(".")
        self.right = json.loads(parts[2])
        self.wrong = [json.loads(value) for value in parts[3].split()]
        self.flags = parts[4].split()
        self.pointer = "/" + self.name.replace(".", "/")

    def __str__(self):
        return f"{self.line} {self.name}"

    def entry(self, value):
        return {self.outer: {self.inner: value}} if self.inner else {self.outer: value}

    def of(self, session):
        found = session.get(self.outer)
        return found.get(self.inner) if self.inner and isinstance(found, dict) else found

    def refused(self, case, reply, prefix, value):
        """422 at the field, or at a member of it."""
        problem = case.problem(reply, 422)
        pointers = [error["pointer"] for error in problem.get("errors", [])] or [self.pointer]
        for pointer in pointers:
            case.assertTrue(pointer.startswith(prefix + self.pointer), f"{value!r}: {problem}")

    def check(self, case):
        parent = "agent:main:parent"
        case.api.post(ALL, {"key": parent})
        key = case.new()["key"]
        if "import" in self.flags:
            case.invalid(case.api.patch(S(key), self.entry(self.right)), self.pointer)
            case.invalid(case.api.post(ALL, {"entry": self.entry(self.right)}), "/entry" + self.pointer) \
                if self.name != "spawnedBy" else None
            key += "-imported"
            case.ok(case.api.put(S(key), self.entry(self.right)), 201)
        else:
            case.ok(case.api.patch(S(key), self.entry(self.right)), 200)
        case.assertEqual(self.of(case.ok(case.api.get(S(key)), 200)), self.right)
        for value in self.wrong:
            if "import" in self.flags:
                self.refused(case, case.api.put(S(key + "-wrong"), self.entry(value)), "", value)
            else:
                self.refused(case, case.api.patch(S(key), self.entry(value)), "", value)
                self.refused(case, case.api.post(ALL, {"entry": self.entry(value)}), "/entry", value)
        case.assertEqual(self.of(case.ok(case.api.get(S(key)), 200)), self.right, "a refusal changes nothing")
        case.ok(case.api.delete(S(key)), 204)  # its ids are free again


def check_foreign(case, fields):
    """What a foreign program wrote of a wrong type is served as it lies, and stays. Returns the fields that were not."""
    daemon = case.spawn(start=False)
    written = [(f"agent:main:x:{i}-{j}", field, value) for i, field in enumerate(fields) for j, value in enumerate(field.wrong)]
    daemon.agent_dir().mkdir(parents=True)
    file = daemon.agent_dir() / "sessions.json"
    file.write_text(json.dumps({key: {"sessionId": "s-" + uid(), "updatedAt": 1, **field.entry(value)}
                                for key, field, value in written}))
    before = json.loads(file.read_text())
    api = daemon.start().client()
    wrong = set()
    for key, field, value in written:
        shown = field.of(case.ok(api.get(S(key)), 200))
        if shown != value and "own" not in field.flags:
            wrong.add(f"{field}: {value!r} is shown as {shown!r}")
        case.ok(api.patch(S(key), {"x-touched": True}), 200)
    case.ok(api.post("/v1/admin/checkpoint"))
    after = json.loads(file.read_text())
    for key, field, value in written:
        if field.of(after[key]) != field.of(before[key]) and field.name != "updatedAt":
            wrong.add(f"{field}: {value!r} is stored as {field.of(after[key])!r}")
    return sorted(wrong)

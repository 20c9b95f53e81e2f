"""Reads and writes the YAML that exports are in: blocks of two spaces, JSON strings, and values on one line below twelve levels."""

import json
import re

PLAIN = re.compile(r"^[A-Za-z_][A-Za-z0-9_./-]*$")
WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
DEEPEST = 12
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z0-9_./+-]+')
ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def scalar(token):
    if token.startswith('"'):
        return json.loads(token)
    if PLAIN.match(token):
        return {"null": None, "true": True, "false": False}.get(token, token)
    return json.loads(token)


class Flow:
    """A value on one line."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def take(self, mark):
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def value(self):
        if self.take("["):
            found = []
            while not self.take("]"):
                found.append(self.value())
                self.take(", ")
            return found
        if self.take("{"):
            found = {}
            while not self.take("}"):
                self.take("? ")
                key = self.value()
                assert self.take(": ") and key not in found, self.text[self.at:][:40]
                found[key] = self.value()
                self.take(", ")
            return found
        match = TOKEN.match(self.text, self.at)
        self.at = match.end()
        return scalar(match[0])


class Block:
    def __init__(self, text):
        assert text.endswith("\n") and not text.endswith("\n\n")
        self.lines = text[:-1].split("\n")

    def level(self):
        return len(self.lines[0]) - len(self.lines[0].lstrip(" ")) if self.lines else -1

    def value(self, level):
        return self.list(level) if self.lines[0][level:].startswith("- ") else self.object(level)

    def list(self, level):
        found = []
        while self.level() == level and self.lines[0][level:].startswith("- "):
            rest = self.lines[0][level + 2:]
            if rest.startswith(("- ", "? ")) or re.match(r'("(?:[^"\\]|\\.)*"|[^\[{"][^ ]*):( |$)', rest):
                self.lines[0] = " " * (level + 2) + rest
                found.append(self.value(level + 2))
            else:
                found.append(self.whole(self.lines.pop(0)[level + 2:]))
        return found

    def object(self, level):
        found = {}
        while self.level() == level:
            line = self.lines.pop(0)[level:]
            apart = line.startswith("? ")
            match = TOKEN.match(line, 2 if apart else 0)
            rest = self.lines.pop(0)[level:] if apart else line[match.end():]
            key = scalar(match[0])
            assert rest.startswith(":") and key not in found, line[:80]
            found[key] = self.whole(rest[2:]) if rest != ":" else self.value(level + 2)
        return found

    @staticmethod
    def whole(text):
        flow = Flow(text)
        value = flow.value()
        assert flow.at == len(text), text[:80]
        return value


def parse(text):
    block = Block(text)
    value = block.value(0)
    assert not block.lines, block.lines[0]
    return value


def written(value):
    if isinstance(value, str):
        if PLAIN.match(value) and value.lower() not in WORDS:
            return value
        return ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
    return json.dumps(value)


def flow(value):
    if isinstance(value, dict):
        return "{" + ", ".join(("? " if len(k.encode()) > 1000 else "") + written(k) + ": " + flow(value[k]) for k in sorted(value)) + "}"
    return "[" + ", ".join(map(flow, value)) + "]" if isinstance(value, list) else written(value)


def block(value, level):
    lines = []
    for key in sorted(value) if isinstance(value, dict) else range(len(value)):
        item, nested = value[key], value[key] and isinstance(value[key], (dict, list)) and level < DEEPEST
        inner = block(item, level + 1) if nested else [flow(item)]
        if isinstance(value, list):
            lines += ["- " + inner[0]] + ["  " + line if nested else line for line in inner[1:]]
            continue
        name = [written(key) + ":"] if len(key.encode()) <= 1000 else ["? " + written(key), ":"]
        lines += name + ["  " + line for line in inner] if nested else name[:-1] + [name[-1] + " " + inner[0]]
    return lines


def write(value):
    return "".join(line + "\n" for line in block(value, 0))

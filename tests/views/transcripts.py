"""Random transcripts, each made from a number: what runners, people and foreign programs leave in a session.

A Story has the entries that stand in its file before the daemon starts, and the batches that a client appends afterwards.
A batch is a list of entries, or COMPACT. Entries of a file have ids and parents; those of a batch get them from the daemon.
"""

import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timezone

import texts

COMPACT = "compact"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOLS = ["read", "bash", "edit", "web_search", "skill_read"]
SPELLINGS = ["pi"] * 6 + ["openai"] * 2 + ["anthropic"] * 2
BEGAN = 1_780_000_000_000


@dataclass
class Story:
    number: int
    spelling: str
    key: str
    session_id: str
    file: list = field(default_factory=list)     # lines: dicts, or str for what is no JSON
    batches: list = field(default_factory=list)  # lists of entries, or COMPACT
    ephemeral: bool = False


class Pi:
    """The spelling of Pi and OpenClaw."""

    name = "pi"

    def __init__(self, rng):
        self.rng = rng

    def image(self):
        return {"type": "image", "data": PIXEL, "mimeType": "image/png"}

    def user(self, text, images):
        if not images and self.rng.random() < 0.4:
            return {"role": "user", "content": text}
        return {"role": "user", "content": [{"type": "text", "text": text}] + [self.image() for _ in range(images)]}

    def assistant(self, thinking, text, calls):
        parts = [{"type": "thinking", "thinking": thinking, "thinkingSignature": "c2lnbmVk"}] if thinking else []
        parts += [{"type": "text", "text": text}] if text else []
        parts += [{"type": "toolCall", "id": i, "name": name, "arguments": a} for i, name, a in calls]
        said = {"role": "assistant", "content": parts, "api": "anthropic-messages", "provider": "anthropic",
                "model": "claude-test"}
        if self.rng.random() < 0.3:
            said["usage"] = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
        return [{**said, "stopReason": "toolUse" if calls else "stop"}]

    def results(self, results):
        return [{"role": "toolResult", "toolCallId": i, "toolName": name, "isError": bad,
                 "content": [{"type": "text", "text": text}] + [self.image() for _ in range(images)]}
                for i, name, text, images, bad in results]


class OpenAI(Pi):
    name = "openai"

    def image(self):
        return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}

    def assistant(self, thinking, text, calls):
        said = {"role": "assistant", "content": text}
        if calls:
            said["tool_calls"] = [{"id": i, "type": "function", "function": {"name": name, "arguments": json.dumps(a)}}
                                  for i, name, a in calls]
        return [said]

    def results(self, results):
        made = [{"role": "tool", "tool_call_id": i, "content": text} for i, _, text, _, _ in results]
        for one in made:
            if self.rng.random() < 0.3:
                one["content"] = [{"type": "text", "text": one["content"]}]
        return made


class Anthropic(Pi):
    name = "anthropic"

    def image(self):
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}

    def assistant(self, thinking, text, calls):
        parts = [{"type": "thinking", "thinking": thinking, "signature": "c2lnbmVk"}] if thinking else []
        parts += [{"type": "text", "text": text}] if text else []
        parts += [{"type": "tool_use", "id": i, "name": name, "input": a} for i, name, a in calls]
        if len(parts) > 1 and self.rng.random() < 0.2:  # some runners write a line for each part
            return [{"role": "assistant", "content": [part]} for part in parts]
        return [{"role": "assistant", "content": parts}]

    def results(self, results):
        parts = []
        for i, _, text, images, bad in results:
            content = text if not images and self.rng.random() < 0.5 else (
                [{"type": "text", "text": text}] + [self.image() for _ in range(images)])
            failed = {"is_error": True} if bad else {}
            parts.append({"type": "tool_result", "tool_use_id": i, "content": content, **failed})
        if len(parts) > 1 and self.rng.random() < 0.3:
            return [{"role": "user", "content": [part]} for part in parts]
        if parts and self.rng.random() < 0.2:  # a person spoke meanwhile
            parts.append({"type": "text", "text": "and be quick"})
        return [{"role": "user", "content": parts}] if parts else []


def odd(rng, message):
    """Makes of a message what no provider takes: programs write such lines, and people paste such texts."""
    content, parts = message.get("content"), [part for part in message.get("content") or [] if isinstance(part, dict)]
    calls = [part for part in parts if part.get("type") in ("toolCall", "tool_use")] + (message.get("tool_calls") or [])
    blank = rng.choice(["", " ", "\n\t", "\u00a0\u2003", "\u3000"])
    fate = rng.randrange(9)
    if fate == 0 and calls:
        rng.choice(calls)["id"] = rng.choice(["", "functions.ls:0", "exec_0", "c" * 70, "a|b", "é"])
    elif fate == 1 and isinstance(content, list):
        message["content"] = [{"type": "text", "text": blank}, *content, {"type": "text", "text": blank}]
    elif fate == 2 and isinstance(content, str) and not message.get("tool_calls"):
        message["content"] = blank
    elif fate == 3 and message["role"] == "assistant" and isinstance(content, list):
        message["content"] = [part for part in parts if part.get("type") == "thinking"]
    elif fate == 4 and isinstance(content, str):
        message["content"] = content + rng.choice(["\ud83d", "\ude00 half", "\udfff"])
    elif fate == 5 and message["role"] == "user" and not any(part.get("type") == "tool_result" for part in parts):
        message.update(content=blank, attachments=[{"type": "image", "url": "https://example.org/a.png"}])
    elif fate == 6 and message["role"] in ("tool", "toolResult"):
        message["content"] = rng.choice([[], blank, [{"type": "text", "text": blank}]])
    elif fate == 7 and calls:
        calls.append(dict(calls[0]))  # twice under one id
        if isinstance(content, list) and calls[0] in content:
            content.append(dict(calls[0]))
    elif fate == 6 and message["role"] == "user" and any(part.get("type") == "tool_result" for part in parts):
        message["content"] = [{"type": "text", "text": "wait"}, *content]
    elif fate == 8:
        message["content"] = [*parts, {"type": "image", "data": PIXEL * 20, "mimeType": "image/png"}] if parts and not calls else content
    return message


class Writer:
    """Writes one story, turn by turn. `odd`: the share of messages that are odd."""

    def __init__(self, number, seed, kind, turns, odd=0):
        self.odd, self.odds = odd, random.Random(f"{seed}/{number}/odd")
        # What is said has a generator of its own, so that other documents make no other transcripts.
        self.rng, self.words = random.Random(f"{seed}/{number}"), random.Random(f"{seed}/{number}/words")
        spelling = self.rng.choice(SPELLINGS)
        self.spell = {"pi": Pi, "openai": OpenAI, "anthropic": Anthropic}[spelling](self.rng)
        self.kind, self.turns, self.calls = kind, turns, 0
        self.story = Story(number, spelling, f"agent:main:slack:channel:v{number}",
                           f"{number:08d}-0000-4000-8000-{seed % 10**12:012d}")
        self.out = []  # (type, body); unreadable lines are ("", text)

    def text(self, kind=None):
        return texts.text(self.words, kind or self.kind)

    def chance(self, share):
        return self.rng.random() < share

    def add(self, *messages):
        self.out += [("message", odd(self.odds, message) if self.odds.random() < self.odd else message) for message in messages]

    def call_ids(self, count):
        """The ids of an answer's calls. Gemini's have none, so some runners number them, in each answer from 0 on."""
        if self.spell.name != "anthropic" and self.chance(0.1):
            return [f"call_{number}" for number in range(count)]
        self.calls += count
        end = "|fc_1" if self.spell.name == "pi" and self.chance(0.2) else ""
        start = "toolu" if self.spell.name == "anthropic" else "call"
        return [f"{start}_{number:04d}{end}" for number in range(self.calls - count, self.calls)]

    def result_text(self):
        if self.chance(0.01):
            return (self.text() + "\n") * (60_000 // 200)
        return "" if self.chance(0.03) else self.text()

    def result(self, call, name):
        """(id, tool, text, images, whether it is an error)"""
        if self.chance(0.1):
            why = self.rng.choice(["Permission denied", "Blocked by hook: not on Sundays", self.text()])
            return call, name, why, 0, True
        return call, name, self.result_text(), 1 if self.chance(0.05) else 0, False

    def foreign(self):
        """What other programs write between messages."""
        note = {"customType": "note", "display": True}
        made = self.rng.choice([("custom_message", {**note, "content": self.text("prose")}),
                                ("custom_message", {**note, "content": [{"type": "text", "text": "noted"}]}),
                                ("label", {"targetId": "00000000", "label": "here"}),
                                ("branch_summary", {"fromId": "root", "summary": self.text("prose")}),
                                ("model_change", {"provider": "openai", "modelId": "gpt-test"}),
                                ("custom", {"customType": "state", "data": {"n": 1}}),
                                ("", '{"type":"message","id":"torn'), ("", "\x00\x00 not JSON")])
        self.out.append(made)

    def step(self):
        """The model's answer with its calls, and their results, as they come."""
        count = self.rng.choice([0, 1, 1, 1, 2, 3])
        calls = [(i, self.rng.choice(TOOLS), texts.arguments(self.words, self.kind)) for i in self.call_ids(count)]
        if self.chance(0.1):  # the same call again and again
            calls = [(i, "ls", {"b": 2, "a": 1}) for i in self.call_ids(1)]
        text = self.text() if self.chance(0.6) or not calls else ""
        said = self.spell.assistant(self.text("prose") if self.chance(0.3) else "", text, calls)
        self.add(*said)
        results = [self.result(i, name) for i, name, _ in calls]
        late = []
        fate = self.rng.random()
        if fate < 0.08:
            results = []
        elif fate < 0.16:
            results = results[1:]
        elif fate < 0.24:
            results.reverse()
        elif fate < 0.29:
            results.append(("call_of_nobody", "read", "an orphan", 0, False))
        elif fate < 0.33:
            results += results[:1]
        elif fate < 0.38:
            results, late = results[:-1], results[-1:]
        if self.chance(0.05):
            self.foreign()
        self.add(*self.spell.results(results))
        if late:
            hello = [self.spell.user("hello?", 0)]
            self.add(*(self.spell.assistant("", "meanwhile", []) if self.chance(0.5) else hello))
            self.add(*self.spell.results(late))
        return bool(calls)

    def turn(self):
        if self.chance(0.1):
            self.add({"role": "developer" if self.spell.name == "openai" else "system", "content": self.text("prose")})
        for _ in range(2 if self.chance(0.1) else 1):
            self.add(self.spell.user(self.text("prose"), 1 if self.chance(0.08) else 0))
        if self.chance(0.05):
            self.add({"role": "user", "content": "Remember the plan.", "synthetic": True})
        for _ in range(self.rng.randint(0, 4)):
            if self.chance(0.05):
                self.foreign()
            if not self.step():
                break
        if self.chance(0.05):  # the run was interrupted
            self.add({"role": "assistant", "content": [], "stopReason": self.rng.choice(["aborted", "error"])})

    def write(self):
        if self.chance(0.3):
            self.add({"role": "system", "content": self.text("prose")})
        if self.chance(0.05):
            self.add(*self.spell.assistant("", self.text("prose"), []))
        marks = []  # where turns begin
        for _ in range(self.turns or self.rng.randint(1, 9)):
            marks.append(len(self.out))
            self.turn()
            if self.chance(0.04):
                told = "The conversation so far was summarized."
                self.add({"role": "user", "content": told, "synthetic": True, "summary": True},
                         {"role": "assistant", "content": "[Context Summary] " + self.text("prose"), "summary": True})
        in_file = 0 if self.chance(0.2) else len(self.out) if self.chance(0.2) else self.rng.randrange(len(self.out))
        self.story.ephemeral = in_file == 0 and self.chance(0.3)
        self.to_file(self.out[:in_file])
        self.to_batches([one for one in self.out[in_file:] if one[0]])
        return self.story

    def to_file(self, entries):
        parent, ids = None, []
        for at, (kind, body) in enumerate(entries):
            if not kind:
                self.story.file.append(body)
                continue
            number = f"{self.rng.getrandbits(32):08x}"
            if len(ids) > 4 and self.chance(0.01):
                parent = self.rng.choice(ids)  # somebody went back
            time = BEGAN + at * 1000
            body = {"message": {**body, "timestamp": time}} if kind == "message" else body
            self.story.file.append({"type": kind, "id": number, "parentId": parent, "timestamp": iso(time), **body})
            parent = number
            ids.append(number)
            if len(ids) > 4 and self.chance(0.02):  # a foreign program compacted
                parent = f"{self.rng.getrandbits(32):08x}"
                self.story.file.append({
                    "type": "compaction", "id": parent, "parentId": number, "timestamp": iso(time),
                    "summary": self.text("prose"), "firstKeptEntryId": self.rng.choice(ids), "tokensBefore": 9})

    def to_batches(self, entries):
        at = 0
        while at < len(entries):
            size = self.rng.randint(1, 12)
            self.story.batches.append([{"type": kind, **({"message": body} if kind == "message" else body)}
                                       for kind, body in entries[at:at + size]])
            at += size
            if self.chance(0.1):
                self.story.batches.append(COMPACT)


def iso(ms):
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def story(number, seed=1, kind=None, turns=None, odd=0) -> Story:
    return Writer(number, seed, kind, turns, odd).write()

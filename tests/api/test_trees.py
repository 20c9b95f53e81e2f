"""Real input: state trees of OpenClaw releases (../shared/data/openclaw, when there) and our own of the same shapes (tests/data).

Each is copied, served, changed in a few places; what was not touched must be what it was, byte for byte.
"""

import json
import os
import re
import shutil
import unittest
from collections import Counter
from pathlib import Path
from urllib.parse import quote, unquote

from harness.case import Case, S, text_of, uid
from harness.sessiond import REPO, Daemon

OWN = REPO / "tests" / "data"
SHARED = REPO.parent / "shared" / "data" / "openclaw"
ARCHIVED = re.compile(r"^(?P<id>.+?)(?:-topic-(?P<topic>.+?))?\.jsonl\.(?:reset|deleted)\.")
# What an append or a patch of `label` may move in an entry; everything else keeps its bytes.
MOVED = {"updatedAt", "lastInteractionAt", "messageCount", "entryCount", "rev", "label", "inputTokens", "outputTokens", "totalTokens",
         "archivedAt"}
# What a reset may change or clear.
RESET = MOVED | {"sessionId", "sessionFile", "sessionStartedAt", "createdAt", "sdkSessionId", "cliSessionIds",
                 "claudeCliSessionId", "compactionCount",
                 "systemPromptReport", "usageTotals", "totalTokensFresh", "systemSent", "abortedLastRun", "lastHeartbeatText", "lastHeartbeatSentAt",
                 "memoryFlushAt",
                 "memoryFlushCompactionCount", "groupActivationNeedsSystemIntro", "authProfileOverrideCompactionCount",
                 "status", "activeRun", "runCount", "turnCount", "allowedTools"}


def trees():
    found = sorted(p for p in OWN.iterdir() if (p / "agents").is_dir())
    if SHARED.is_dir():
        found += sorted(p for p in SHARED.iterdir() if (p / "agents").is_dir())
    return found


def raw_members(text: str):
    """(name, raw value) of a JSON object's members, the values as they stand in the text."""
    decoder, space = json.JSONDecoder(), re.compile(r"\s*")
    at = space.match(text, text.index("{") + 1).end()
    while text[at] != "}":
        name, at = decoder.raw_decode(text, at)
        begin = space.match(text, text.index(":", at) + 1).end()
        _, at = decoder.raw_decode(text, begin)
        yield name, text[begin:at]
        at = space.match(text, at).end()
        if text[at] == ",":
            at = space.match(text, at + 1).end()


def compact(text: str) -> str:
    return re.sub(r'("(?:\\.|[^"\\])*")|\s+', lambda m: m[1] or "", text)


def sent(text: str) -> str:
    """JSON as it leaves the daemon: an emoji that was cut in two ends in U+FFFD."""
    return re.sub(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])", r"\\ufffd", text)


def entries_of(path: Path) -> dict:
    return {key: compact(raw) for key, raw in raw_members(path.read_bytes().decode())}


def fields_of(entry: str) -> dict:
    return {name: compact(raw) for name, raw in raw_members(entry)}


def files_of(root: Path) -> dict:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


class TreeTests:
    """One of these for each tree, made below; a class of its own so that each tree is read by one daemon."""

    tree: Path

    @classmethod
    def copied(cls) -> Daemon:
        daemon = Daemon()
        shutil.copytree(cls.tree / "agents", daemon.state / "agents", copy_function=shutil.copyfile)
        for path in [daemon.state, *daemon.state.rglob("*")]:
            os.chmod(path, 0o700 if path.is_dir() else 0o600)
        return daemon

    @classmethod
    def setUpClass(cls):
        cls.agents = sorted(p.name for p in (cls.tree / "agents").iterdir())
        cls.loaded = {a: json.loads((cls.tree / "expected" / f"{a}.loaded.json").read_bytes()) for a in cls.agents}
        cls.transcripts = {a: json.loads((cls.tree / "expected" / f"{a}.transcripts.json").read_bytes())
                           for a in cls.agents}
        cls.raw = {a: json.loads((cls.folder(a) / "sessions.json").read_bytes()) for a in cls.agents}
        cls.begin(cls.copied())

    @classmethod
    def folder(cls, agent) -> Path:
        return cls.tree / "agents" / agent / "sessions"

    @classmethod
    def owners(cls, agent) -> dict:
        """transcript file -> the key whose own transcript it is"""
        found = {}
        for key, entry in cls.raw[agent].items():
            name = os.path.basename(entry["sessionFile"]) if entry.get("sessionFile") else entry["sessionId"] + ".jsonl"
            topic = re.search(r":topic:([^:]+)$", key)
            if topic and not entry.get("sessionFile"):
                name = f"{entry['sessionId']}-topic-{topic[1]}.jsonl"
            if (cls.folder(agent) / name).exists():
                found[name] = key
        return found

    def pages(self, path, limit=17, order="asc"):
        """Every Message of a transcript over its pages, in the order of the file."""
        found, more = [], ""
        while True:
            body = self.ok(self.api.get(f"{path}limit={limit}&order={order}{more}"), 200)
            found += body["data"]
            if not body["page"]["hasMore"]:
                return found if order == "asc" else found[::-1]
            more = f"&after={body['page']['nextAfter']}" if order == "asc" else f"&before={body['page']['nextBefore']}"

    # -- reading -----------------------------------------------------------------------------------------------------

    def test_agents(self):
        rows = {a["agent"]: a for a in self.ok(self.api.get("/v1/agents"), 200)["data"]}
        self.assertEqual({a: rows[a]["sessions"] for a in rows}, {a: len(self.loaded[a]) for a in self.agents})

    def test_every_session_is_listed(self):
        for agent in self.agents:
            for query in ("limit=200", "limit=7&sort=key", "limit=5&sort=updatedAt"):
                keys, more = [], ""
                while True:
                    body = self.ok(self.api.get(f"/v1/agents/{agent}/sessions?archived=any&{query}{more}"), 200)
                    keys += [s["key"] for s in body["data"]]
                    if not body["page"]["hasMore"]:
                        break
                    more = "&cursor=" + quote(body["page"]["next"])
                self.assertEqual(sorted(keys), sorted(self.loaded[agent]), f"{agent} {query}")

    def test_every_field_is_served(self):
        for agent in self.agents:
            for key, expected in self.loaded[agent].items():
                with self.subTest(f"{agent} {key}"):
                    served = self.ok(self.api.get(S(key, agent)), 200)
                    self.assertEqual((served["key"], served["agent"]), (key, agent))
                    raw = self.raw[agent][key]
                    for name, value in expected.items():
                        if name == "skillsSnapshot" and "promptRef" in raw.get(name, {}):
                            value = raw[name]  # the prompt lies in skills-prompts; the reference to it is served
                        if name == "route" and served.get(name) == raw.get(name):
                            continue  # a field we do not know: served as it is stored
                        got = served.get(name)
                        if name == "deliveryContext":  # may say more than an old release: last* win over it
                            got = {n: v for n, v in got.items() if n in value}
                        self.assertEqual(got, json.loads(sent(json.dumps(value))), name)
                    self.assertEqual(self.ok(self.api.get(S(expected["sessionId"], agent)), 200)["key"], key)

    def test_what_is_not_known_is_served_to_the_byte(self):
        for agent in self.agents:
            for key, entry in entries_of(self.folder(agent) / "sessions.json").items():
                served = fields_of(self.api.get(S(key, agent)).raw.decode())
                for name, raw in fields_of(entry).items():
                    if name.startswith("x-") or name in ("preview", "sdkSessionId", "skillsSnapshot", "cliSessionIds"):
                        self.assertEqual(served.get(name), sent(raw), f"{agent} {key} {name}")

    def test_every_transcript_is_paged(self):
        for agent in self.agents:
            owners = self.owners(agent)
            self.assertEqual(set(self.transcripts[agent]) - set(owners), set(), "each transcript belongs to a session")
            for name, expected in self.transcripts[agent].items():
                with self.subTest(f"{agent} {name}"):
                    path = S(owners[name], agent, "messages") + "?"
                    messages = self.pages(path)
                    self.assertEqual(len(messages), expected["entries"])
                    self.assertEqual(dict(Counter(m["type"] for m in messages)), expected["types"])
                    self.assertEqual([m["seq"] for m in messages],
                                     list(range(messages[0]["seq"], messages[0]["seq"] + len(messages))))
                    self.assertEqual(self.pages(path, 13, "desc"), messages)
                    stored = (self.folder(agent) / name).read_bytes()
                    self.assertEqual(self.api.get(S(owners[name], agent, "transcript")).raw, stored)
                    self.check_lines(messages, self.pages(path + "view=raw&", 50), stored)

    def check_lines(self, messages, raw, stored):
        lines = stored.split(b"\n")[1:]
        for message, row, line in zip(messages, raw, lines):
            if message["type"] == "unreadable":
                continue
            self.assertEqual(row["line"], json.loads(line))
            entry = json.loads(sent(line.decode()))
            if "id" in entry:
                self.assertEqual(message["id"], entry["id"])
            if entry.get("type") == "message":
                for name, value in entry["message"].items():
                    if name != "timestamp":
                        self.assertEqual(message.get(name), value, name)

    def test_one_message_by_id(self):
        for agent in self.agents:
            for name, key in self.owners(agent).items():
                messages = self.pages(S(key, agent, "messages") + "?", 200)
                for message in (messages[0], messages[len(messages) // 2], messages[-1]):
                    if message["type"] != "unreadable":
                        body = self.ok(self.api.get(S(key, agent, "messages", message["id"])), 200)
                        self.assertEqual({n: body[n] for n in message}, message, f"{agent} {name}")

    def test_archived_transcripts_by_id(self):
        for agent in self.agents:
            for path in self.folder(agent).iterdir():
                archived = ARCHIVED.match(path.name)
                if not archived:
                    continue
                query = f"?topic={quote(unquote(archived['topic']))}&" if archived["topic"] else "?"
                messages = self.pages(S(archived["id"], agent, "messages") + query)
                stored = path.read_bytes()
                self.assertEqual(len(messages), len(stored.splitlines()) - 1, path.name)
                self.check_lines(messages, self.pages(S(archived["id"], agent, "messages") + query + "view=raw&"),
                                 stored)
                reply = self.api.post(S(archived["id"], agent, "messages"), {"role": "user", "text": "no"})
                self.assertIn(reply.status, (404, 405, 409), "read only")

    # -- writing -----------------------------------------------------------------------------------------------------

    def test_reading_changes_nothing(self):
        daemon = self.copied()
        self._others.append(daemon)
        self.addCleanup(self._finish, daemon)
        before = files_of(daemon.state / "agents")
        api = daemon.start().client()
        for agent in self.agents:
            for key in self.loaded[agent]:
                self.ok(api.get(S(key, agent, "messages")), 200)
                self.ok(api.get(S(key, agent, "topics")), 200)
                self.ok(api.get(S(key, agent, "history")), 200)
        daemon.checkpoint()
        daemon.stop()
        after = files_of(daemon.state / "agents")
        self.assertEqual({n for n in after if n not in before and not n.endswith(".idx")}, set(),
                         "nothing new beside them")
        self.assertEqual([n for n in before if after.get(n) != before[n]], [])
        daemon.start()
        self.assertFalse([e for a in self.agents for e in self.loaded[a] if api.get(S(e, a)).status != 200])

    def test_touching_a_few_leaves_the_rest(self):
        daemon = self.copied()
        self._others.append(daemon)
        self.addCleanup(self._finish, daemon)
        before = files_of(daemon.state / "agents")
        entries = entries_of(daemon.agent_dir() / "sessions.json")
        owners = {key: name for name, key in self.owners("main").items()}
        api = daemon.start().client()

        appended = ["agent:main:main", next(k for k in owners if ":topic:" in k),
                    next(k for k in entries if k not in owners)]
        reset = next(k for k in owners if ":slack:channel:" in k and ":thread:" not in k)
        legacy = next(k for k, e in entries.items() if '"lastProvider"' in e or '"room"' in e)
        others = [k for k in entries if k not in (*appended, reset, legacy)]
        patched = [legacy, next((k for k in others if re.search(r'"x-[a-z]|"preview"', entries[k])), others[0])]
        for key in appended:
            self.ok(api.post(S(key, "main", "messages"), {"role": "user", "text": f"appended to {key}"}), 201)
        for key in patched:
            self.ok(api.patch(S(key), {"label": "patched", "x-ours": {"n": 1}}), 200)
        answer = self.ok(api.post(S(reset, "main", "reset")), 200)
        made = self.new(f"agent:main:made:{uid()}", api=api)["key"]
        self.assertEqual(daemon.stop(), 0)

        after = files_of(daemon.state / "agents")
        touched = {f"main/sessions/{n}" for n in [owners[k] for k in appended if k in owners] + [owners[reset],
                "sessions.json"]}
        for name, content in before.items():
            if name not in touched:
                self.assertEqual(after.get(name), content, f"{name} was not touched")
        for key in appended:
            name = owners.get(key) or json.loads(entries[key])["sessionId"] + ".jsonl"
            old, new = before.get(f"main/sessions/{name}", b""), after[f"main/sessions/{name}"]
            self.assertTrue(new.startswith(old), name)
            lines = new[len(old):].splitlines()
            self.assertEqual(text_of(json.loads(lines[-1])["message"]), f"appended to {key}")
            self.assertEqual(len(lines), 1 if old else 2)
        self.assertIn(before[f"main/sessions/{owners[reset]}"],
                      [after[f"main/sessions/{n}"] for n in answer["archivedAs"]])
        self.assertNotIn(f"main/sessions/{owners[reset]}", after)

        now = entries_of(daemon.agent_dir() / "sessions.json")
        self.assertEqual(list(now), list(entries) + [made], "places are kept, new ones come last")
        for key, entry in entries.items():
            with self.subTest(key):
                if key not in (*appended, *patched, reset):
                    self.assertEqual(now[key], entry, "an entry that nobody touched")
                    continue
                may, fields = (RESET if key == reset else MOVED), fields_of(now[key])
                for name, raw in fields_of(entry).items():
                    if name not in may:
                        self.assertEqual(fields.get(name), raw, name)
        for key in patched:
            self.assertEqual((fields_of(now[key])["label"], fields_of(now[key])["x-ours"]), ('"patched"', '{"n":1}'))

        daemon.start()
        self.assertEqual({s["key"] for s in self.ok(api.get("/v1/agents/main/sessions?archived=any&limit=200"),
                                                    200)["data"]}, set(now))
        for key in appended:
            message = self.ok(api.get(S(key, "main", "messages") + "?order=desc&limit=1"), 200)["data"][0]
            self.assertEqual(text_of(message), f"appended to {key}")


for _tree in trees():
    _name = "Tree_" + re.sub(r"\W", "_", _tree.name)
    globals()[_name] = type(_name, (TreeTests, Case), {"tree": _tree, "__module__": __name__})


class TreesAreThere(unittest.TestCase):
    def test_our_own(self):
        self.assertTrue([t for t in trees() if OWN in t.parents], "tests/data holds a tree of our own")

    def test_real_ones(self):
        if not SHARED.is_dir():
            self.skipTest("no ../shared/data/openclaw here")
        self.assertTrue([t for t in trees() if SHARED in t.parents])

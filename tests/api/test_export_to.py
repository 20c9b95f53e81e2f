"""sessiond export --to: files that Claude Code and OpenClaw read, and what cannot go out is named."""

import pathlib
import re
import tempfile

from harness.case import Case, S, json, uid

CONVERSATION = [
    {"role": "user", "content": [{"type": "text", "text": "please look"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}, {"type": "text", "text": "I look."},
                                      {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "/"}}]},
    {"role": "toolResult", "toolCallId": "c1", "toolName": "ls", "content": [{"type": "text", "text": "bin"}], "isError": False},
    {"role": "assistant", "content": [{"type": "text", "text": "There is bin."}]}]


def said(lines):
    """Who said what, in a file of Claude Code."""
    return [(line["type"], part.get("text") or part.get("name") or part["type"])
            for line in lines for part in line["message"]["content"]]


class To(Case):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.daemon.home))
        self.agent = "out" + uid().lower()

    def talk(self, name, messages=(), **entry):
        key = self.new(f"agent:{self.agent}:{name}", **entry)["key"]
        if messages:
            self.ok(self.api.post(S(key, self.agent, "messages"), {"entries": [{"type": "message", "message": m} if "content" in m else m for m in messages]}), 200, 201)
        return key

    def export(self, *arguments, code=0):
        done = self.daemon.cli("export", *arguments, "-o", self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def temporaries(self):
        return [*self.folder.rglob("*.tmp")]

    def conversation(self, key, agent):
        shown = [{k: v for k, v in m.items() if k in ("role", "content", "toolCallId", "toolName")}
                 for m in self.ok(self.api.get(S(key, agent, "messages")), 200)["data"] if m["type"] == "message"]
        return [{**m, "content": [p for p in m["content"] if p["type"] != "thinking"]} for m in shown]


class ClaudeCode(To):
    def lines(self):
        file, = (self.folder / "projects").rglob("*.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]

    def test_a_file_as_claude_code_writes_it(self):
        key = self.talk("a", CONVERSATION)
        done = self.export(key, "--to", "claude-code", "--cwd", "/home/ada/my work")
        file, = (self.folder / "projects/-home-ada-my-work").glob("*.jsonl")
        self.assertEqual(done.stdout, f"{key}: {file}\n")
        self.assertEqual(done.stderr, f"{key}: left out: 1 × thinking\n")
        lines = self.lines()
        self.assertEqual({(line["cwd"], line["sessionId"]) for line in lines}, {("/home/ada/my work", file.stem)})
        self.assertEqual([line["parentUuid"] for line in lines], [None, *(line["uuid"] for line in lines[:-1])])
        self.assertEqual(self.temporaries(), [])

    def test_messages_come_back_in_another_daemon(self):
        key = self.talk("b", CONVERSATION)
        self.export(key, "--to", "claude-code", "--cwd", "/w")
        file, = (self.folder / "projects/-w").glob("*.jsonl")
        other = self.spawn()
        done = other.cli("import", self.folder, "--from", "claude-code")
        self.assertEqual(done.stdout, "1 created, 0 updated, 0 skipped\n", done.stderr)
        mine, self.api = self.conversation(key, self.agent), other.client()
        self.assertEqual(self.conversation(file.stem, "main"), mine)
        self.assertEqual(other.cli("import", self.folder, "--from", "claude-code").stdout, "0 created, 0 updated, 1 skipped\n")

    def test_what_is_there_stays(self):
        key = self.talk("c", CONVERSATION)
        arguments = (key, "--to", "claude-code", "--cwd", "/w")
        self.export(*arguments)
        file, = (self.folder / "projects/-w").glob("*.jsonl")
        first = file.read_bytes()
        self.say(key, "more", self.agent)
        self.assertIn(f"{file}: is there already", self.export(*arguments, code=1).stderr)
        self.assertEqual(file.read_bytes(), first)
        self.export(*arguments, "--force")
        self.assertTrue(file.read_bytes().startswith(first))
        self.assertEqual(said(self.lines())[-1], ("user", "more"))
        self.assertEqual(self.temporaries(), [])

    def test_what_people_changed_is_as_they_left_it(self):
        made = self.inbound(agent=self.agent, channel="slack", chatType="direct", peer="u" + uid(), text="secrat", messageId="m1")
        key = made["sessionKey"]
        self.inbound(agent=self.agent, channel="slack", chatType="direct", peer=key.rsplit(":", 1)[1], text="oops", messageId="m2")
        peer = {"agent": self.agent, "channel": "slack", "peer": key.rsplit(":", 1)[1]}
        self.ok(self.api.post("/v1/inbound/edits", {**peer, "messageId": "m1", "text": "secret"}), 201)
        self.ok(self.api.post("/v1/inbound/deletes", {**peer, "messageId": "m2"}), 201)
        done = self.export(key, "--to", "claude-code", "--cwd", "/w")
        self.assertEqual(said(self.lines()), [("user", "secret")])
        self.assertIn("1 × message that was deleted", done.stderr)
        self.assertIn("1 × message that was deleted", self.export(key, "--to", "openclaw").stderr)
        file, = (self.folder / "agents").rglob("*.jsonl")
        text = file.read_text()
        self.assertIn("secret", text)
        for gone in ("secrat", "oops", "sessiond."):
            self.assertNotIn(gone, text)

    def test_a_fork_is_written_as_people_left_its_messages(self):
        made = self.inbound(agent=self.agent, channel="slack", chatType="direct", peer="u" + uid(), text="oops", messageId="m1")
        key, peer = made["sessionKey"], made["sessionKey"].rsplit(":", 1)[1]
        self.say(key, "stays", self.agent)
        fork = f"agent:{self.agent}:fork"
        self.ok(self.api.post(S(key, self.agent, "fork"), {"key": fork}), 201)
        self.ok(self.api.post("/v1/inbound/deletes", {"agent": self.agent, "channel": "slack", "peer": peer, "messageId": "m1"}), 201)
        self.export(fork, "--to", "claude-code", "--cwd", "/w")
        self.assertEqual(said(self.lines()), [("user", "stays")])

    def test_each_call_has_its_result_directly_behind_it(self):
        calls = [{"type": "toolCall", "id": c, "name": "ls", "arguments": {}} for c in ("c1", "c2")]
        result = [{"role": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": text}]} for text in ("late", "again")]
        key = self.talk("pairs", [{"role": "user", "text": "go"}, {"role": "assistant", "content": calls}, {"role": "user", "text": "stop"},
                                  *result, {"role": "user", "content": [{"type": "text", "text": "  "}]}, {"role": "assistant", "text": "ok"}])
        done = self.export(key, "--to", "claude-code", "--cwd", "/w")
        self.assertEqual(done.stderr, f"{key}: left out: 1 × message with nothing in it, 1 × second result of a call\n")
        self.assertEqual(said(self.lines()), [("user", "go"), ("assistant", "ls"), ("assistant", "ls"), ("user", "tool_result"),
                                              ("user", "tool_result"), ("user", "stop"), ("assistant", "ok")])

    def test_a_conversation_goes_out_in_the_order_of_its_runs(self):
        key = self.talk("runs")
        run = self.ok(self.api.post(S(key, self.agent, "runs"), {"input": {"role": "user", "text": "q1"}}), 201)
        escaped = b'{"type":"message","message":{"r\\u006fle":"us\\u0065r","content":"q2"}}'
        self.ok(self.api.request("POST", S(key, self.agent, "messages"), escaped), 201)
        finish = {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": "a1"}]}
        self.ok(self.api.post(S(key, self.agent, "runs", run["runId"], "finish"), finish), 200)
        self.export(key, "--to", "claude-code", "--cwd", "/w")
        self.assertEqual(said(self.lines()), [("user", "q1"), ("assistant", "a1"), ("user", "q2")])
        self.export(key, "--to", "openclaw")
        file, = (self.folder / "agents").rglob("*.jsonl")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual([line["parentId"] for line in lines[1:]], [None, *(line["id"] for line in lines[1:-1])])
        for document in ("json", "manager", "robota", "relavium-yaml", "conversation"):
            text = self.api.get(S(key, self.agent, "export") + f"?format={document}").raw.decode()
            if document == "relavium-yaml":  # its messages have the file's order, its turns that of the runs
                self.assertEqual((text.count("prompt_template"), text.count("to: turn-")), (1, 1))
                continue
            places = [re.search(rf"\b{word}\b", text).start() for word in ("q1", "a1", "q2")]
            self.assertEqual(places, sorted(places), document)

    def test_a_summary_names_what_it_keeps(self):
        key = self.talk("kept", [{"role": role, "text": f"{role[0]}{n}"} for n in range(1, 9) for role in ("user", "assistant")])
        plan = self.ok(self.api.post(S(key, self.agent, "compact"), {}), 200)["plan"]
        self.ok(self.api.post(S(key, self.agent, "compact"), {"summary": "so far", "firstKeptEntryId": plan["firstKeptEntryId"]}), 201)
        self.say(key, "and now?", self.agent)
        self.export(key, "--to", "claude-code", "--cwd", "/w")
        file, = (self.folder / "projects").rglob("*.jsonl")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        texts = [line["message"]["content"] if "message" in line else line["subtype"] for line in lines]
        texts = [text if isinstance(text, str) else text[0]["text"] for text in texts]
        at = texts.index("compact_boundary")
        self.assertEqual(texts[at:], ["compact_boundary", "so far", "and now?"])
        segment = lines[at]["compactMetadata"]["preservedSegment"]
        kept = self.ok(self.api.get(S(key, self.agent, "messages") + "?view=llm"), 200)["data"][2]["content"]
        kept = kept if isinstance(kept, str) else kept[0]["text"]
        self.assertEqual(segment, {"headUuid": lines[texts.index(kept)]["uuid"], "anchorUuid": lines[at + 1]["uuid"], "tailUuid": lines[at - 1]["uuid"]})
        other = self.spawn()
        self.assertEqual(other.cli("import", self.folder, "--from", "claude-code").returncode, 0)
        def shown(api, of, agent):
            return [row["content"] if isinstance(row["content"], str) else row["content"][0]["text"]
                    for row in self.ok(api.get(S(of, agent, "messages") + "?view=llm"), 200)["data"]]
        self.assertEqual(shown(other.client(), file.stem, "main"), shown(self.api, key, self.agent))

    def test_topics_are_files_of_their_own(self):
        key = self.talk("d", [{"role": "user", "text": "main"}])
        self.ok(self.api.post(S(key, self.agent, "messages") + "?topic=42", {"role": "user", "text": "in it"}), 200, 201)
        done = self.export(key, "--to", "claude-code", "--cwd", "/w")
        self.assertEqual(len([*(self.folder / "projects/-w").glob("*.jsonl")]), 2)
        self.assertIn(f"{key} topic 42: ", done.stdout)

    def test_all_of_an_agent_and_those_of_a_prefix(self):
        keys = [self.talk(f"{group}:{n}", [{"role": "user", "text": f"{group}{n}"}], cwd=f"/w/{group}") for group in "xy" for n in (1, 2)]
        self.talk("x:empty", cwd="/w/x")
        done = self.export("--agent", self.agent, "--to", "claude-code", code=1)
        self.assertEqual(sorted(line.split(": ")[0] for line in done.stdout.splitlines()), keys)
        self.assertIn(f"agent:{self.agent}:x:empty: has no messages", done.stderr)
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.daemon.home))
        self.export(f"agent:{self.agent}:y:*", "--to", "claude-code")
        self.assertEqual([p.name for p in (self.folder / "projects").iterdir()], ["-w-y"])

    def test_what_cannot_be_asked(self):
        for arguments in (["--to", "claude-code"], ["x", "--to", "codex"], ["x", "--cwd", "/w"], ["x", "--force"], []):
            self.assertEqual(self.daemon.cli("export", *arguments).returncode, 2, arguments)
        self.export(f"agent:{self.agent}:none", "--to", "claude-code", code=4)
        self.export("x", "--agent", "../up", "--to", "openclaw", code=1)
        self.assertEqual([*self.folder.iterdir()], [])


class OpenClaw(To):
    def sessions(self):
        return self.folder / "agents" / self.agent / "sessions"

    def test_there_and_back(self):
        keys = [self.talk(name, CONVERSATION, label=name) for name in "ab"]
        self.ok(self.api.post(S(keys[0], self.agent, "messages") + "?topic=42", {"role": "user", "text": "in it"}), 200, 201)
        self.export("--agent", self.agent, "--to", "openclaw")
        index = json.loads((self.sessions() / "sessions.json").read_text())
        self.assertEqual(sorted(index), keys)
        self.assertEqual([index[key]["label"] for key in keys], ["a", "b"])
        for key in keys:
            mine = self.api.get(S(key, self.agent, "transcript")).raw
            self.assertEqual((self.sessions() / (index[key]["sessionId"] + ".jsonl")).read_bytes(), mine)
        other = self.spawn()
        done = other.cli("import", self.folder, "--from", "openclaw")
        self.assertEqual(done.stdout, "2 created, 0 updated, 0 skipped\n", done.stderr)
        self.assertEqual(self.texts(keys[0], self.agent, api=other.client(), query="topic=42"), ["in it"])
        self.assertEqual(self.ok(other.client().get(S(keys[1], self.agent)), 200)["label"], "b")

    def test_an_index_that_is_there(self):
        key = self.talk("a", CONVERSATION)
        self.sessions().mkdir(parents=True)
        file = self.sessions() / "sessions.json"
        file.write_text('{"agent:x:other":{"sessionId":"o" , "n":1e400}}')
        self.assertIn(f"{file}: is there already", self.export(key, "--to", "openclaw", code=1).stderr)
        self.assertEqual([p.name for p in self.sessions().iterdir()], ["sessions.json"])
        self.export(key, "--to", "openclaw", "--force")
        self.assertIn('"agent:x:other":{"sessionId":"o" , "n":1e400}', file.read_text())
        self.assertEqual([*json.loads(file.read_text().replace("1e400", "1"))], ["agent:x:other", key])
        file.write_text("{")
        self.export(key, "--to", "openclaw", "--force", code=1)
        self.assertEqual(file.read_text(), "{")

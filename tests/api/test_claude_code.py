"""A session that was written for Claude Code goes on in Claude Code itself, which talks to a stand-in of its provider.

The file is tests/data/claude-code-written; tests/unit/formats/claude_code_test.cpp holds the writer to it. The same session also goes
through a daemon: sessiond import --from codex, sessiond export --to claude-code.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness.npm import install
from harness.sessiond import REPO, Daemon
from standins.anthropic import Anthropic

WRITTEN = REPO / "tests/data/claude-code-written/projects/-home-ada-work"


@unittest.skipUnless(shutil.which("npm"), "npm is not installed")
class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        programs = install(REPO / "tests/programs") / "node_modules/@anthropic-ai"
        found = [*programs.glob("claude-code-*/claude")]
        if not found:
            raise unittest.SkipTest("SKIPPED: Claude Code has no program for this machine")
        cls.claude = found[0]

    def setUp(self):
        home = tempfile.TemporaryDirectory(prefix="sessiond-claude-")
        self.addCleanup(home.cleanup)
        self.home = Path(home.name).resolve()
        self.work = self.home / "work"
        self.work.mkdir()
        self.provider = Anthropic("And on it goes.")
        self.addCleanup(self.provider.close)
        self.write()

    def write(self):
        """Writes the session's file: self.session, self.file."""
        source = next(WRITTEN.glob("*.jsonl"))
        self.session = source.stem
        folder = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(self.work))
        self.file = self.home / ".claude/projects" / folder / source.name
        self.file.parent.mkdir(parents=True)
        self.file.write_text(source.read_text(encoding="utf-8").replace("/home/ada/work", str(self.work)), encoding="utf-8")

    def run_claude(self, *arguments):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "ANTHROPIC_BASE_URL": self.provider.url,
                       "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1"}
        return subprocess.run([self.claude, *arguments, "--model", "claude-sonnet-4-5"], cwd=self.work, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def check_goes_on(self, said):
        self.assertEqual((said.returncode, said.stdout.strip()), (0, "And on it goes."), said.stderr)
        messages = self.provider.requests[-1]["messages"]
        told = json.dumps(messages)
        for text in ["please usetool", "Using a tool.", "out42", "Answer 8.", "image/png", "Answer 10.", "Go on."]:
            self.assertIn(text, told)
        calls = [part["id"] for m in messages for part in m["content"] if part["type"] == "tool_use"]
        results = [part["tool_use_id"] for m in messages for part in m["content"] if part["type"] == "tool_result"]
        self.assertEqual((calls, results), (["call_4"], ["call_4"]))
        lines = [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]
        self.assertEqual([line["message"]["content"][0]["text"] for line in lines if line["type"] == "assistant"][-1], "And on it goes.")

    def test_it_is_resumed_by_its_id(self):
        self.check_goes_on(self.run_claude("-p", "Go on.", "--resume", self.session))

    def test_it_is_the_last_session_of_its_folder(self):
        self.check_goes_on(self.run_claude("-p", "Go on.", "--continue"))


class ThroughTheDaemon(Resume):
    def write(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        daemon.start()
        done = daemon.cli("import", REPO / "tests/data/codex", "--from", "codex")
        self.assertEqual(done.returncode, 0, done.stderr)
        session = next(s for s in daemon.client().get("/v1/agents/main/sessions").json["data"])
        done = daemon.cli("export", session["key"], "--to", "claude-code", "-o", self.home / ".claude", "--cwd", self.work)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.file, = (self.home / ".claude/projects").rglob("*.jsonl")
        self.session = self.file.stem


class BehindASummary(Resume):
    """Claude Code is shown the summary and the messages that it keeps, and none that it has summarised."""

    def write(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        api = daemon.start().client()
        session = "/v1/agents/main/sessions/agent%3Amain%3Akept"
        turns = [{"role": role, "text": f"{role} says {n}."} for n in range(8) for role in ("user", "assistant")]
        self.assertEqual(api.put(session, {}).status, 201)
        self.assertEqual(api.post(f"{session}/messages", {"entries": turns}).status, 201)
        first = api.post(f"{session}/compact", {}).json["plan"]["firstKeptEntryId"]
        self.assertEqual(api.post(f"{session}/compact", {"summary": "They counted.", "firstKeptEntryId": first}).status, 201)
        self.assertEqual(api.post(f"{session}/messages", {"role": "assistant", "text": "Behind it."}).status, 201)
        done = daemon.cli("export", "agent:main:kept", "--to", "claude-code", "-o", self.home / ".claude", "--cwd", self.work)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.file, = (self.home / ".claude/projects").rglob("*.jsonl")
        self.session = self.file.stem

    def check_goes_on(self, said):
        self.assertEqual((said.returncode, said.stdout.strip()), (0, "And on it goes."), said.stderr)
        told = json.dumps(self.provider.requests[-1]["messages"])
        for text in ["They counted.", "user says 4.", "assistant says 7.", "Behind it.", "Go on."]:
            self.assertIn(text, told)
        self.assertNotIn("says 3.", told)

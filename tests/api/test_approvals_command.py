"""sessiond approvals: what it prints, what it asks on a terminal, and its exit codes."""

import os
import pty
import subprocess

from approvals_case import ApprovalsCase
from harness.sessiond import SLOW, binary, eventually


class Command(ApprovalsCase):
    def test_the_command_for_scripts(self):
        daemon = self.spawn()
        api = daemon.client()
        self.assertEqual(daemon.cli("approvals").stdout, "no run waits for an answer\n")
        run = self.begin_run(api=api)
        first, second = self.ask(run, args={"command": "ls"}, api=api), self.ask(run, api=api)
        lines = daemon.cli("approvals").stdout.splitlines()
        self.assertEqual(lines[0].split(), ["ID", "SESSION", "TOOL", "ARGS", "LEFT"])
        self.assertIn(first["id"], lines[1])
        self.assertIn('{"command":"ls"}', lines[1])
        self.assertEqual(daemon.cli("approvals", first["id"], "allow").stdout, "allowed bash by local\n")
        denied = daemon.cli("approvals", second["id"], "deny", "--reason", "no", "--json")
        self.assertIn('"reason":"no"', denied.stdout)
        self.assertEqual(daemon.cli("approvals", first["id"], "allow").returncode, 4)
        self.assertEqual(daemon.cli("approvals", first["id"]).returncode, 2)
        self.assertEqual(daemon.cli("approvals", first["id"], "perhaps").returncode, 2)

    def test_the_command_on_a_terminal(self):
        daemon = self.spawn({"approvals": {"requireApprover": True}})
        api = daemon.client()
        run = self.begin_run(api=api)
        here, there = pty.openpty()
        process = subprocess.Popen([binary(), "approvals", "--config", str(daemon.config_file)], stdin=there, stdout=there, stderr=there)
        os.close(there)
        seen = b""

        def read_until(text):
            nonlocal seen
            while text not in seen:
                seen += os.read(here, 65536)
            seen = seen[seen.index(text) + len(text):]

        read_until(b"waiting for tools")
        eventually(lambda: len(self.ok(api.get("/v1/admin/streams"), 200)["data"]) == 1, 5, what="the command's stream")
        for typed, outcome in (("y", ("allow", "answer")), ("n", ("deny", "answer")), ("always", ("allow", "answer"))):
            asked = self.ask(run, args={"text": "\x1b[31m"}, api=api, status=201)
            read_until(b"always: ")
            os.write(here, typed.encode() + b"\n")
            self.assertEqual(self.outcome(self.approval(run, asked, "?waitMs=10000", api=api)), outcome)
        self.assertEqual(self.outcome(self.ask(run, api=api, status=200)), ("allow", "session"))
        self.assertNotIn(b"\x1b[31m", seen)
        os.write(here, b"\x04")
        self.assertEqual(process.wait(10 * SLOW), 0)
        os.close(here)

"""sessiond last, resume and fork: what they print, and their exit codes."""

import os
import subprocess

from harness.case import Case, S, json, uid
from harness.sessiond import SLOW, binary


class Commands(Case):
    def sessiond(self, *arguments, code=0):
        done = subprocess.run([binary(), *arguments, "--config", str(self.daemon.config_file)], capture_output=True,
                              text=True, timeout=60 * SLOW, stdin=subprocess.DEVNULL, env=dict(os.environ))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def test_last_resume_and_fork(self):
        self.assertEqual(self.sessiond("last", "--agent", "none", code=4), "")
        self.sessiond("resume", "--agent", "none", code=4)
        a, b = self.new()["key"], self.new()["key"]
        self.say(a, "hello \x1b[31m")
        self.say(b, "there")
        self.assertEqual(self.sessiond("last"), b + "\n")
        text = self.sessiond("resume", a, "--client", "tui")
        self.assertTrue(text.startswith("You are resuming a previous conversation session.\nSession: "), text)
        self.assertTrue(text.endswith("Continue naturally from where you left off.\n"), text)
        self.assertNotIn("\x1b", text)
        self.assertEqual([self.sessiond("last"), self.sessiond("last", "--client", "tui")], [a + "\n", a + "\n"])
        self.say(b)
        self.assertIn("Total messages: 1 (1 from user", self.sessiond("resume", "--client", "tui"))
        answer = json.loads(self.sessiond("resume", "--json"))
        self.assertEqual(answer["session"]["key"], a)
        key = f"agent:main:work:{uid().lower()}"
        self.assertEqual(self.sessiond("fork", a, "--key", key, "--name", "x", "--message", self.messages(a)[0]["id"]),
                         key + "\n")
        self.assertEqual(self.messages(key), self.messages(a))
        self.sessiond("fork", "agent:main:no:such", code=4)
        self.sessiond("fork", code=2)
        self.sessiond("resume", "agent:main:no:such", code=4)
        self.ok(self.api.get(S(key)))

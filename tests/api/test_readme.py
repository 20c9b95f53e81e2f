"""Every command in README.md runs: curl and sessiond as written, make by its targets (this test is one of them)."""

import os
import re
import subprocess

from case import Case
from sessiond import binary

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def commands():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as readme:
        blocks = re.findall(r"```sh\n(.*?)```", readme.read(), re.S)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip() and not line.startswith("#")]


class Readme(Case):
    def environment(self):
        binaries = os.path.join(str(self.daemon.home), "bin")
        os.makedirs(binaries, exist_ok=True)
        link = os.path.join(binaries, "sessiond")
        if not os.path.lexists(link):
            os.symlink(os.path.abspath(binary()), link)
        return {**os.environ, **self.daemon.env, "TOKEN": self.daemon.admin_token, "STATE_DIR": str(self.daemon.state),
                "SESSIOND_CONFIG": str(self.daemon.config_file), "PATH": binaries + ":" + os.environ["PATH"]}

    def test_curl_and_sessiond(self):
        ran = 0
        for command in commands():
            if command.startswith("make"):
                continue
            line = command.replace("127.0.0.1:7433", f"127.0.0.1:{self.daemon.port}")
            line = line.replace('--unix-socket "$STATE_DIR/sessiond.sock"', f"--unix-socket '{self.daemon.unix}'")
            with self.subTest(command):
                done = subprocess.run(["bash", "-c", line], env=self.environment(), cwd=ROOT, capture_output=True, text=True, timeout=60)
                streams = "/v1/events" in command and done.returncode == 28  # curl's own time limit ends it
                warned = command == "sessiond doctor" and done.returncode == 1  # of the disk or file system it runs on
                self.assertTrue(done.returncode == 0 or streams or warned, done.stdout + done.stderr)
                self.assertNotIn("urn:sessiond:problem", done.stdout)
                ran += 1
        self.assertGreater(ran, 8)
        self.assertEqual([m["text"] for m in self.api.get("/v1/agents/main/sessions/agent:main:slack:direct:u1/messages?view=chat").json["data"]],
                         ["hello", "hello, Ada"])

    def test_make_targets_are_there(self):
        with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as makefile:
            targets = set(re.findall(r"^([a-z]+):", makefile.read(), re.M))
        for command in commands():
            if command.startswith("make"):
                self.assertIn(command.split()[1], targets)

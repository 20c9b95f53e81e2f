"""What the command line says of state directories, of who has one, and of itself."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.case import Case
from harness.sessiond import SLOW, binary, eventually
from test_locks import Background

WAIT = 60 * SLOW
FLOCK = """
import fcntl, sys
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.readline()
"""


class World:
    """A home without anything in it."""

    def __init__(self, case):
        self.folder = tempfile.TemporaryDirectory(prefix="sd-")
        case.addCleanup(self.folder.cleanup)
        self.home = Path(self.folder.name)

    def run(self, *arguments, **env):
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("SESSIOND_CONFIG", "SESSIOND_STATE", "XDG_"))}
        return subprocess.run([binary(), *map(str, arguments)], env={**variables, "HOME": str(self.home), **env}, capture_output=True,
                              text=True, timeout=WAIT, cwd=self.home, stdin=subprocess.DEVNULL)

    def made(self):
        return sorted(str(p.relative_to(self.home)) for p in self.home.rglob("*"))


class StateDirectories(Case):
    COMMANDS = (("token", "create", "--role", "viewer"), ("token", "list"), ("token", "rotate", "abcd1234"), ("token", "revoke", "abcd1234"),
                ("doctor",), ("doctor", "--repair"), ("doctor", "--migrate"), ("backup", "copy"), ("backup", "-"))

    @classmethod
    def setUpClass(cls):
        pass  # no daemon

    def test_no_command_makes_a_state_directory(self):
        world = World(self)
        for command in self.COMMANDS:
            for where in ((), ("--state-dir", world.home / "there")):
                with self.subTest(command + where):
                    done = world.run(*command, *where)
                    self.assertNotEqual(done.returncode, 0)
                    told = done.stdout + done.stderr
                    self.assertIn(str(where[1] if where else world.home / ".sessiond"), told)
                    self.assertIn("SESSIOND_STATE_DIR", told)
                    self.assertEqual(world.made(), [])

    def test_the_variable_names_the_directory_for_every_command(self):
        world = World(self)
        there = world.home / "there"
        for command in self.COMMANDS:
            with self.subTest(command):
                done = world.run(*command, SESSIOND_STATE_DIR=str(there))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(str(there), done.stdout + done.stderr)
        there.mkdir()
        token = world.run("token", "create", "--role", "viewer", SESSIOND_STATE_DIR="there")  # an empty one is taken; below the working directory
        self.assertEqual(token.returncode, 0, token.stderr)
        self.assertTrue((there / "tokens.json").exists())
        self.assertIn("viewer", world.run("token", "list", SESSIOND_STATE_DIR="~/there").stdout)
        self.assertIn("no tokens", world.run("token", "list", "--state-dir", world.home, SESSIOND_STATE_DIR=str(there)).stderr)
        self.assertEqual(json.loads(world.run("config", SESSIOND_STATE_DIR=str(there)).stdout)["stateDir"], str(there))
        self.assertIn(str(there), world.run("doctor", SESSIOND_STATE_DIR=str(there)).stdout)

    def test_the_variable_stands_before_the_configuration_for_serve_too(self):
        daemon = self.spawn(start=False)
        other = daemon.home / "other"
        daemon.env["SESSIOND_STATE_DIR"] = str(other)
        daemon.start()
        self.assertTrue((other / "sessiond.lock").exists())
        self.assertFalse(daemon.state.exists())

    def test_a_state_directory_that_cannot_be_made_is_in_use_by_nobody(self):
        world = World(self)
        (world.home / "file").touch()
        done = world.run("serve", "--state-dir", world.home / "file" / "below")
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("in_use", done.stderr)
        self.assertIn("state_directory_unusable", done.stderr)
        self.assertIn(str(world.home / "file"), done.stderr)

    def test_no_admin_token_is_made_before_the_daemon_listens(self):
        world = World(self)
        done = world.run("serve", "--state-dir", world.home / "state", "--config", self._taken(world))
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot_listen", done.stderr)
        self.assertNotIn("sd_", done.stdout)
        self.assertFalse([name for name in world.made() if "token" in name], world.made())

    def _taken(self, world):
        import socket
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = world.home / "config.json"
        config.write_text(json.dumps({"listen": {"tcp": f"127.0.0.1:{taken.getsockname()[1]}"}}))
        return config


class StateLock(Case):
    @classmethod
    def setUpClass(cls):
        pass

    def stopped(self):
        """A state directory with more in it than a pipe takes, and no daemon."""
        daemon = self.spawn()
        session = self.new(api=daemon.client())
        for _ in range(4):
            self.say(session["key"], "x" * 100_000, api=daemon.client())
        daemon.stop()
        return daemon

    def starts_when(self, daemon, holder, name, end):
        """It waits for the holder, says for whom, and starts when that has ended."""
        starting = Background(daemon.start)
        try:
            line = eventually(lambda: next((l for l in daemon.stderr if "state_directory_waits" in l), None), 30, what="a word of the holder")
            self.assertIn(f"pid {holder.pid} ({name}", line)
            self.assertTrue(starting.waits)
        finally:
            end()
            starting.result()
        self.ok(daemon.client().get("/readyz"), 200)

    def test_serve_waits_for_a_backup_and_says_so(self):
        daemon = self.stopped()
        mark = len(daemon.stderr)
        del daemon.stderr[:mark]
        backup = subprocess.Popen([binary(), "backup", "-", "--config", str(daemon.config_file)], env=daemon.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)  # nobody reads it: it holds the lock
        eventually(lambda: json.loads((daemon.state / "sessiond.lock").read_text() or "{}").get("pid") == backup.pid, 30)
        refused = daemon.cli("token", "create", "--role", "viewer")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"pid {backup.pid} (sessiond backup)", refused.stderr)
        self.starts_when(daemon, backup, "sessiond backup", backup.communicate)

    def test_serve_waits_for_a_holder_that_is_no_program_of_ours(self):
        daemon = self.stopped()
        holder = subprocess.Popen([sys.executable, "-c", FLOCK, str(daemon.state / "sessiond.lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)
        self.assertEqual(holder.stdout.readline(), "held\n")
        self.starts_when(daemon, holder, Path(sys.executable).name[:6], lambda: holder.communicate("\n"))

    def test_another_daemon_is_named_with_its_pid_at_once(self):
        daemon = self.spawn()
        for file in (None, b"", b"garbage"):  # whatever the file says, the kernel knows
            with self.subTest(file):
                if file is not None:
                    (daemon.state / "sessiond.lock").write_bytes(file)
                again = subprocess.run([binary(), "serve", "--config", str(daemon.config_file)], env=daemon.env, capture_output=True, text=True,
                                       timeout=WAIT)
                self.assertEqual(again.returncode, 3, again.stderr)
                self.assertIn(f"pid {daemon.process.pid} (sessiond serve)", again.stderr)


class Words(Case):
    def test_help_of_each_command_is_its_own(self):
        program = self.daemon.cli("--help").stdout
        for words in (("version",), ("serve",), ("token",), ("token", "create"), ("doctor",), ("config",), ("backup",), ("restore",)):
            with self.subTest(words):
                asked, named = self.daemon.cli(*words, "--help"), self.daemon.cli("help", *words)
                self.assertEqual((asked.returncode, named.returncode), (0, 0), named.stderr)
                self.assertEqual(asked.stdout, named.stdout)
                self.assertIn("Usage: sessiond " + " ".join(words), asked.stdout)
                self.assertIn("Exit codes:" if words != ("token",) else "Roles:", asked.stdout)
                self.assertNotIn("sessiond COMMAND --help", asked.stdout)
        self.assertEqual(self.daemon.cli("help").stdout, program)
        self.assertEqual(self.daemon.cli("help", "tokn").returncode, 2)
        self.assertIn("did you mean token?", self.daemon.cli("help", "tokn").stderr)

    def test_suggestions_are_near_and_of_the_group(self):
        self.assertNotIn("did you mean", self.daemon.cli("sessions", "list").stderr)
        self.assertIn("did you mean list?", self.daemon.cli("token", "lst").stderr)
        self.assertIn("did you mean serve?", self.daemon.cli("srve").stderr)

    def test_a_token_that_has_expired_is_told_plainly(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer", "expiresAt": int(time.time() * 1000) + 300}), 201)
        eventually(lambda: self.api.clone(made["token"]).get("/v1/whoami").status == 401)
        done = self.daemon.cli("token", "rotate", made["id"])
        self.assertEqual(done.stderr, f"sessiond token: token {made['id']} has expired; make a new one\n")

    def test_a_time_that_is_none_is_answered_with_one_that_is(self):
        done = self.daemon.cli("token", "create", "--role", "viewer", "--expires-at", "tomorrow")
        self.assertEqual(done.returncode, 2)
        self.assertIn('"tomorrow" is not a number of ms since the epoch', done.stderr)
        self.assertIn("--expires-at $(date -d tomorrow +%s000)", done.stderr)

    def test_one_file_is_told_in_the_singular(self):
        folder = self.daemon.home / "one"
        (folder / "state").mkdir(parents=True)
        (folder / "state" / "policy.json").write_text('{"default":"allow"}\n')
        done = self.daemon.cli("backup", folder / "copy", "--state-dir", folder / "state", env={"SESSIOND_CONFIG": ""})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stderr, r"\b1 (files|bytes)\b|\b[02-9]\d* (file|byte)\b")
        self.assertIn(": 1 file, ", done.stderr)

    def test_exit_codes_of_doctor_and_restore_mean_one_thing_each(self):
        for command in ("doctor", "restore"):
            text = self.daemon.cli(command, "--help").stdout.split("Exit codes:")[1]
            codes = re.findall(r"(?:^|\s)(\d+) [a-z]", text)
            self.assertEqual(len(codes), len(set(codes)), text)
            self.assertEqual(self.daemon.cli(command, "--bogus").returncode, 64)
        self.assertEqual(self.daemon.cli("doctor", "--repair").returncode, 3)
        backup = self.daemon.home / "kept"
        self.assertEqual(self.daemon.cli("backup", backup).returncode, 0)
        self.assertEqual(self.daemon.cli("restore", backup, "--force").returncode, 3)
        self.assertEqual(self.daemon.cli("restore", self.daemon.home / "nothing", "--state-dir", self.daemon.home / "new").returncode, 2)

    def test_json_ends_with_a_newline(self):
        key = self.new()["key"]
        for reply in (self.api.get("/v1/sessions"), self.api.get("/readyz"), self.api.get("/v1/nothing"), self.daemon.anonymous().get("/v1/sessions"),
                      self.api.get("/openapi.json"), self.api.patch("/v1/agents/main/sessions/" + key, {"label": "x"})):
            self.assertTrue(reply.raw.endswith(b"}\n"), reply)
            self.assertEqual(int(reply.headers["Content-Length"]), len(reply.raw))
        self.assertEqual(self.api.delete("/v1/agents/main/sessions/" + key).raw, b"")

    def test_a_request_is_found_in_the_log_by_the_name_the_api_uses(self):
        daemon = self.spawn({"log": {"level": "debug"}})
        reply = daemon.client().get("/v1/nothing")
        wanted = f"requestId={reply.json['requestId']}"
        eventually(lambda: any(wanted in line for line in daemon.stderr), what=wanted)
        self.assertFalse(any("request_id" in line for line in daemon.stderr))

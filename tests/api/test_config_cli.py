"""The command line and the configuration: `--help` that teaches, faults with their pointers, doctor, a second daemon."""

import json
import re
import signal
import subprocess

from harness.case import Case, uid
from harness.sessiond import REPO, SLOW, binary, eventually

COMMANDS = ("serve", "token", "config", "doctor", "backup", "restore", "version")


def without_comments(text: str) -> str:
    """JSON with // and /* */ comments and trailing commas, as plain JSON."""
    token = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.S)
    text = token.sub(lambda m: m[0] if m[0].startswith('"') else "", text)
    return re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda m: m[1] or "", text)


class CommandLine(Case):
    def test_version(self):
        for arguments in (("version",), ("--version",)):
            done = self.daemon.cli(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"\d+\.\d+\.\d+")
        self.assertIn(self.api.get("/version").json["version"], self.daemon.cli("version").stdout)

    def test_help_teaches(self):
        whole = self.daemon.cli("--help")
        self.assertEqual(whole.returncode, 0)
        for command in COMMANDS:
            self.assertIn(command, whole.stdout)
            done = self.daemon.cli(command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertGreater(len(done.stdout.splitlines()), 3, command)
        for command in ("create", "list", "rotate", "revoke"):
            done = self.daemon.cli("token", command, "--help")
            self.assertEqual(done.returncode, 0, command)
        for option in ("--role", "--agent", "--key-prefix", "--channel", "--note"):
            self.assertIn(option, self.daemon.cli("token", "create", "--help").stdout)
        self.assertIn("--config", self.daemon.cli("serve", "--help").stdout)

    def test_wrong_use(self):
        for arguments in (("dance",), ("serve", "--nosuch"), ("token", "create"), ("token", "revoke")):
            with self.subTest(arguments):
                done = self.daemon.cli(*arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertTrue(done.stderr)

    def test_doctor(self):
        self.new()
        for moment in ("beside the running daemon", "offline"):
            daemon = self.spawn()
            if moment == "offline":
                daemon.stop()
            done = daemon.cli("doctor")
            self.assertEqual(done.returncode, 0, f"{moment}: {done.stdout}{done.stderr}")
            self.assertTrue(done.stdout.strip(), moment)

    def test_doctor_tells_what_is_wrong(self):
        daemon = self.spawn()
        api = daemon.client()
        session = self.new(api=api)
        self.say(session["key"], api=api)
        daemon.stop()
        orphan = daemon.agent_dir() / "0f0e0d0c-0000-4000-8000-000000000000.jsonl"
        orphan.write_bytes((daemon.agent_dir() / f"{session['sessionId']}.jsonl").read_bytes())
        done = daemon.cli("doctor")
        self.assertIn(orphan.name, done.stdout + done.stderr, "a transcript without an entry is listed")
        self.assertTrue(orphan.exists(), "report only")

    def test_second_daemon_on_the_same_state(self):
        again = subprocess.run([binary(), "serve", "--config", str(self.daemon.config_file)], env=self.daemon.env,
                               capture_output=True,
                               text=True, timeout=30 * SLOW)
        self.assertEqual(again.returncode, 3, again.stderr)
        self.assertIn(str(self.daemon.process.pid), again.stderr, "it names the owner")
        self.ok(self.api.get("/readyz"), 200)

    def test_second_sigterm_ends_at_once_and_loses_nothing(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        for i in range(50):
            self.say(key, str(i), api=api)
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(10 * SLOW)
        daemon.start()
        self.assertEqual(self.texts(key, api=api), [str(i) for i in range(50)])

    def test_sighup_reloads(self):
        daemon = self.spawn()
        api = daemon.client()
        with api.stream("/v1/events?types=config.*") as stream:
            stream.wait_type("stream.hello")
            daemon.config["session"] = {"resetTriggers": ["/over"]}
            daemon.config_file.write_text(json.dumps(daemon.config))
            daemon.process.send_signal(signal.SIGHUP)
            stream.wait_type("config.reloaded")
        self.inbound(api, peer="u")
        self.assertEqual(self.inbound(api, peer="u", text="/over")["reset"]["reason"], "trigger")
        daemon.config_file.write_text("{")
        mark = len(daemon.stderr)
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: daemon.stderr[mark:], what="a line about the faulty configuration")
        self.assertEqual(self.inbound(api, peer="u", text="/over")["reset"]["reason"], "trigger",
                         "a faulty file changes nothing")


class Configuration(Case):
    def check(self, text):
        path = self.daemon.home / "check.json"
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return self.daemon.cli("config", "--check", env={"SESSIOND_CONFIG": str(path)})

    def test_all_faults_at_once_with_their_pointers(self):
        done = self.check({"bogus": 1, "listen": {"tcp": "nonsense", "unix": 5},
                           "limits": {"bodyBytes": -1, "typo": 2, "jsonDepth": "deep"},
                           "session": {"dmScope": "everyone", "reset": {"mode": "never"}},
                           "store": {"pathTemplate": "../x", "mode": "mine"},
                           "sendPolicy": {"rules": [{"match": {"channle": "x"}, "action": "maybe"}]}})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for pointer in ("/bogus", "/listen/tcp", "/listen/unix", "/limits/bodyBytes", "/limits/typo",
                        "/limits/jsonDepth", "/session/dmScope",
                        "/session/reset/mode", "/store/pathTemplate", "/store/mode", "/sendPolicy/rules/0/action",
                        "/sendPolicy/rules/0/match/channle"):
            self.assertIn(pointer, done.stdout + done.stderr)

    def test_syntax_faults(self):
        for text in ("{", '{"stateDir": }', "[]", '{"stateDir":"/x","stateDir":"/y"}', ""):
            with self.subTest(text):
                self.assertEqual(self.check(text).returncode, 1)

    def test_comments_are_allowed(self):
        done = self.check(f'// one\n{{ /* two */ "stateDir": "/tmp/{uid()}", // three\n }}\n')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_missing_file(self):
        done = self.daemon.cli("config", "--check", env={"SESSIOND_CONFIG": str(self.daemon.home / "nosuch.json")})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nosuch.json", done.stderr + done.stdout)

    def test_defaults_print_and_pass(self):
        done = self.daemon.cli("config", "--print-defaults")
        self.assertEqual(done.returncode, 0, done.stderr)
        defaults = json.loads(without_comments(done.stdout))
        for section in ("listen", "limits", "journal", "idempotency", "store", "stream", "session", "sendPolicy", "api",
                        "log"):
            self.assertIn(section, defaults)
        self.assertEqual((defaults["listen"]["tcp"], defaults["session"]["dmScope"], defaults["limits"]["bodyBytes"]),
                         ("127.0.0.1:7433", "per-channel-peer", 8 << 20))
        self.assertEqual(self.check(done.stdout).returncode, 0)

    def test_the_shipped_file_is_the_defaults(self):
        shipped = (REPO / "config" / "sessiond.json").read_text()
        self.assertEqual(self.check(shipped).returncode, 0)
        self.assertEqual(json.loads(without_comments(shipped)),
                         json.loads(without_comments(self.daemon.cli("config", "--print-defaults").stdout)))

    def test_a_faulty_configuration_does_not_serve(self):
        path = self.daemon.home / "faulty.json"
        path.write_text('{"limits": {"bodyByts": 1}}')
        done = subprocess.run([binary(), "serve", "--config", str(path)], env=self.daemon.env, capture_output=True,
                              text=True, timeout=30 * SLOW)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/limits/bodyByts", done.stderr)

    def test_open_to_the_world_without_tls_is_refused(self):
        daemon = self.spawn({"listen": {"tcp": "0.0.0.0:0"}}, start=False)
        done = subprocess.run([binary(), "serve", "--config", str(daemon.config_file)], env=daemon.env,
                              capture_output=True, text=True, timeout=30 * SLOW)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("insecure", done.stderr)
        allowed = self.spawn({"listen": {"tcp": "0.0.0.0:0", "insecure": True}})
        self.ok(allowed.anonymous().get("/healthz", host="localhost"), 200)

    def test_where_it_is_looked_for(self):
        daemon = self.spawn(start=False)
        home = daemon.home / "config" / "sessiond"
        home.mkdir(parents=True)
        (home / "sessiond.json").write_text('{"fromHome": 1}')
        env = dict(daemon.env)
        done = subprocess.run([binary(), "config", "--check"], env=env, capture_output=True, text=True,
                              timeout=30 * SLOW)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/fromHome", done.stdout + done.stderr)
        done = daemon.cli("config", "--check")  # SESSIOND_CONFIG wins over the home directory
        self.assertEqual(done.returncode, 0, done.stderr)


class Paths(Case):
    def test_path_template(self):
        daemon = self.spawn({"store": {"pathTemplate": "data/{agentId}/s/sessions.json"}})
        api = daemon.client()
        session = self.new(api=api)
        self.say(session["key"], api=api)
        daemon.checkpoint()
        folder = daemon.state / "data" / "main" / "s"
        self.assertEqual(sorted(p.name for p in folder.iterdir()), [f"{session['sessionId']}.jsonl", "sessions.json"])
        self.assertFalse((daemon.state / "agents" / "main").exists())

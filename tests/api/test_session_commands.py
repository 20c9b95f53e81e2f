"""sessiond sessions, locks and paths: what the commands print, on a terminal and for scripts, and their exit codes."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

from harness.case import Case, S, uid
from harness.sessiond import SLOW, binary

WAIT = 60 * SLOW
DONE, REFUSED, USAGE, NOT_THERE, NO_DAEMON = 0, 1, 2, 4, 5


class Commands(Case):
    def run_at(self, daemon, *arguments, **env):
        return subprocess.run([binary(), *map(str, arguments), "--config", str(daemon.config_file)], capture_output=True, text=True, timeout=WAIT,
                              stdin=subprocess.DEVNULL, env={**os.environ, **env})

    def sessiond(self, *arguments, code=DONE):
        done = self.run_at(self.daemon, *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def on_terminal(self, columns, *arguments):
        """What the command prints on a terminal that wide."""
        here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        env = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        process = subprocess.Popen([binary(), *arguments, "--config", str(self.daemon.config_file)], stdout=there, stdin=subprocess.DEVNULL, env=env)
        os.close(there)
        printed = b""
        try:
            while piece := os.read(here, 65536):
                printed += piece
        except OSError:  # the other side is closed
            pass
        os.close(here)
        self.assertEqual(process.wait(WAIT), 0)
        return printed.decode().replace("\r\n", "\n")

    def test_list_fits_the_terminal(self):
        agent = "a" + uid()
        long = f"agent:{agent}:slack:channel:c0123456789abcdef:thread:1700000000.000100:and:more:and:more"
        self.ok(self.api.put(S(long, agent), {"label": "Grüße an alle, die hier lesen und noch viel mehr"}), 201)
        self.ok(self.api.put(S(f"agent:{agent}:x:1", agent), {"label": "\x1b]0;own\x07red"}), 201)
        shown = self.on_terminal(80, "sessions", "list", "--agent", agent)
        lines = shown.splitlines()
        self.assertEqual(lines[0].split(), ["KEY", "UPDATED", "(UTC)", "MESSAGES", "NAME"])
        self.assertEqual([len(line) for line in lines if len(line) > 80], [])
        self.assertIn("…", shown)
        self.assertNotIn("\x1b", shown)
        self.assertNotIn("\x07", shown)
        self.assertIn("?]0;own?red", shown)
        piped = self.sessiond("sessions", "list", "--agent", agent).stdout
        self.assertIn(long, piped, "where there is no terminal nothing is cut")

    def test_list_shows_how_a_session_without_a_name_began(self):
        agent = "a" + uid()
        for key, entry in ((f"agent:{agent}:x:1", {}), (f"agent:{agent}:x:2", {"label": "a label"})):
            self.ok(self.api.put(S(key, agent), entry), 201)
            self.ok(self.api.post(S(key, agent, "messages"), {"role": "user", "text": "the first\nwords"}), 201)
        shown = self.sessiond("sessions", "list", "--agent", agent).stdout
        self.assertIn("the first words", shown)
        self.assertIn("a label", shown)
        self.assertEqual(shown.count("the first"), 1)

    def test_list_pages_and_filters(self):
        agent = "a" + uid()
        for i in range(205):
            self.ok(self.api.put(S(f"agent:{agent}:x:{i}", agent), {"channel": "slack" if i < 3 else "discord"}), 201)
        keys = lambda *more: [s["key"] for s in json.loads(self.sessiond("sessions", "list", "--agent", agent, "--json", *more).stdout)["data"]]
        self.assertEqual(len(keys()), 50)
        self.assertEqual(len(set(keys("--limit", "1000"))), 205)
        self.assertEqual(len(keys("--limit", "201")), 201)
        self.assertEqual(len(keys("--channel", "slack")), 3)
        self.assertEqual(keys("--search", "x:204"), [f"agent:{agent}:x:204"])
        self.assertIn("--limit 100", self.sessiond("sessions", "list", "--agent", agent).stderr)

    def test_a_session_from_show_to_delete(self):
        key = self.new(label="called\nso")["key"]
        self.say(key, "hello")
        shown = self.sessiond("sessions", "show", key).stdout
        self.assertIn("called?so", shown)
        self.assertIn(" UTC)", shown)
        session = json.loads(self.sessiond("sessions", "show", key, "--json").stdout)
        self.assertEqual(session["key"], key)
        self.assertEqual(json.loads(self.sessiond("sessions", "show", session["sessionId"], "--json").stdout)["key"], key, "by its id")
        self.assertIn(session["sessionId"], self.sessiond("sessions", "reset", key).stderr)
        self.sessiond("sessions", "archive", key)
        self.assertEqual([s["key"] for s in json.loads(self.sessiond("sessions", "list", "--archived", "--json").stdout)["data"]], [key])
        self.sessiond("sessions", "unarchive", key)
        self.say(key, "hello again")
        self.sessiond("sessions", "delete", key)
        gone = self.sessiond("sessions", "show", key, code=NOT_THERE)
        self.assertIn(key, gone.stderr)
        self.assertEqual(gone.stdout, "")
        archives = self.ok(self.api.get("/v1/agents/main/archives"), 200)["data"]
        named = next(a["archivedAs"][0] for a in archives if a["sessionId"] != session["sessionId"] and a["key"] == key)
        self.sessiond("sessions", "restore", key, "--archive", "no.such.jsonl.deleted.2026-01-01T00-00-00.000Z", code=NOT_THERE)
        self.assertIn(key, self.sessiond("sessions", "restore", key, "--archive", named).stderr)
        self.assertEqual(json.loads(self.sessiond("sessions", "show", key, "--json").stdout)["key"], key)
        self.assertIn(key, self.sessiond("sessions", "restore", key, code=REFUSED).stderr, "it has a session")

    def test_prune_names_first_and_takes_with_yes(self):
        agent = "a" + uid()
        now = int(time.time() * 1000)
        for i in range(3):
            self.ok(self.api.put(S(f"agent:{agent}:x:{i}", agent), {"lastInteractionAt": now - (10 - i) * 86_400_000 + 3_600_000}), 201)
        named = self.sessiond("sessions", "prune", "--agent", agent, "--older-than", "9d")
        self.assertIn(f"agent:{agent}:x:0", named.stdout)
        self.assertIn("1 session would go", named.stderr)
        self.assertIn("--yes", named.stderr)
        left = lambda: len(self.ok(self.api.get(f"/v1/agents/{agent}/sessions"), 200)["data"])
        self.assertEqual(left(), 3)
        self.assertIn("2 sessions went", self.sessiond("sessions", "prune", "--agent", agent, "--keep", "1", "--yes").stderr)
        self.assertEqual(left(), 1)
        self.assertEqual(json.loads(self.sessiond("sessions", "prune", "--agent", agent, "--json").stdout)["count"], 0)

    def test_paths_of_store_transcript_and_topic_are_printed(self):
        session = self.ok(self.api.put(S("agent:main:slack:channel:c1"), {"channel": "slack"}), 201)
        folder = self.daemon.agent_dir()
        printed = self.sessiond("paths", "--agent", "main", "--session", session["key"], "--topic", "123").stdout.split("\n")
        self.assertEqual(printed, [str(folder / "sessions.json"), str(folder / f"{session['sessionId']}.jsonl"),
                                   str(folder / f"{session['sessionId']}-topic-123.jsonl"), ""])
        self.assertEqual(json.loads(self.sessiond("paths", "--json").stdout), {"store": str(folder / "sessions.json")})

    def test_runs(self):
        key = self.new()["key"]
        self.assertEqual(self.daemon.cli("runs", key).stdout, "no runs\n")
        self.assertEqual(self.daemon.cli("runs", key, "--abort").stdout, "no run is active\n")
        run = self.ok(self.api.post(S(key, "main", "runs"), {"runner": "worker"}), 201)
        listed = self.daemon.cli("runs", key).stdout.splitlines()
        self.assertEqual(listed[0].split(), ["RUN", "STATUS", "CREATED", "ATTEMPT", "STEPS", "RUNNER", "OUTCOME"])
        self.assertIn("running", listed[1])
        self.assertIn("worker", listed[1])
        self.assertIn("aborting", self.daemon.cli("runs", key, "--abort").stdout)
        shown = json.loads(self.daemon.cli("runs", key, "--run", run["runId"], "--json").stdout)
        self.assertEqual(shown["status"], "aborting")
        self.assertEqual(self.daemon.cli("runs", key, "--run", "none").returncode, 4)
        self.assertEqual(self.daemon.cli("runs", "agent:main:no:such").returncode, 4)

    def test_context(self):
        key = self.new(contextTokens=1000)["key"]
        for number in range(7):
            self.say(key, f"question {number}")
            self.ok(self.api.post(S(key, "main", "messages"),
                                  {"role": "assistant", "text": "answer", "usage": {"input": 800, "output": 1}}), 201)
        plain = self.daemon.cli("context", key)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertIn("801 of 1000 tokens, 80.1 %", plain.stdout)
        self.assertIn("the beginning: 14 messages in 7 turns", plain.stdout)
        self.assertIn("compaction   is due\n             would summarise 6 messages", plain.stdout)
        self.assertNotIn("#", plain.stdout, "a bar is for a terminal")
        both = json.loads(self.daemon.cli("context", key, "--json").stdout)
        self.assertEqual((both["context"]["used"], both["plan"]["maxTokens"]), (801, 4096))
        self.assertEqual(self.daemon.cli("context", "agent:main:no:such").returncode, 4)
        lines = self.on_terminal(80, "context", key)
        self.assertIn("[" + "#" * 32 + "." * 8 + "]  801 of 1000 tokens, 80.1 %", lines)

    def test_locks(self):
        self.new()
        self.daemon.checkpoint()
        lock = self.daemon.agent_dir() / "sessions.json.lock"
        self.assertIn("free", self.sessiond("locks").stdout)
        lock.write_text(json.dumps({"pid": os.getpid(), "createdAt": "2026-01-01T00:00:00.000Z"}))
        self.assertIn(f"pid {os.getpid()}", self.sessiond("locks").stdout)
        self.assertIn(str(lock), self.sessiond("locks", "--evict", "main").stderr)
        self.assertFalse(lock.exists())
        self.sessiond("locks", "--evict", "main", code=NOT_THERE)

    def test_a_daemon_elsewhere_is_asked_with_a_token(self):
        key = self.new()["key"]
        with tempfile.TemporaryDirectory(prefix="sd-") as folder:
            file = Path(folder) / "token"
            file.write_text(self.daemon.token("viewer") + "\n")
            url = f"http://127.0.0.1:{self.daemon.port}"
            done = self.sessiond("sessions", "show", key, "--url", url, "--token-file", file, "--json")
            self.assertEqual(json.loads(done.stdout)["key"], key)
            refused = self.sessiond("sessions", "delete", key, "--url", url, "--token-file", file, code=REFUSED)
            self.assertNotIn("uid", refused.stderr, "advice for the unix socket is of no use here")
            self.sessiond("sessions", "show", key, "--url", url, code=REFUSED)
            self.sessiond("sessions", "show", key, "--url", "https://127.0.0.1", code=REFUSED)
            self.assertIn("http://", self.sessiond("sessions", "list", "--url", "127.0.0.1:1", code=REFUSED).stderr)
            self.sessiond("sessions", "list", "--url", "http://127.0.0.1:1", code=NO_DAEMON)

    def test_exit_codes(self):
        self.sessiond("sessions", code=USAGE)
        self.sessiond("sessions", "show", code=USAGE)
        self.sessiond("sessions", "show", "", code=USAGE)
        self.sessiond("sessions", "list", "--limit", "0", code=USAGE)
        self.sessiond("sessions", "prune", "--older-than", "yesterday", code=USAGE)
        self.sessiond("locks", "--transcript", "x.jsonl", code=USAGE)
        self.sessiond("sessions", "show", "agent:main:no:such", code=NOT_THERE)
        self.sessiond("paths", "--agent", "", code=USAGE)
        stopped = self.spawn(start=False)
        stopped.state.mkdir(parents=True, exist_ok=True)
        for command in (("sessions", "list"), ("sessions", "delete", "x"), ("locks",), ("paths", "--session", "x")):
            done = self.run_at(stopped, *command)
            self.assertEqual(done.returncode, NO_DAEMON, done.stderr)
            self.assertIn("is the daemon running?", done.stderr)


class Completion(Case):
    @classmethod
    def setUpClass(cls):
        pass  # no daemon

    def script(self, shell):
        done = subprocess.run([binary(), "completion", shell], capture_output=True, text=True, timeout=WAIT, check=True)
        return done.stdout

    def shell(self, *command):
        return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=True).stdout.splitlines()

    def in_bash(self, *typed):
        """What bash offers behind the words; the last one is begun."""
        words = " ".join(f"'{word}'" for word in ("sessiond", *typed))
        ask = f"{self.script('bash')}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed)}; _sessiond; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return self.shell("bash", "-c", ask)

    def in_zsh(self, *typed):
        """In a completion `words` and `CURRENT` are set by zsh, and it chooses by the last word from what compadd is given."""
        ask = (f"compdef() {{}}; compadd() {{ shift; print -l -- \"$@\" }}; _files() {{ print a-file }}\n{self.script('zsh')}\n"
               'words=(sessiond "$@"); CURRENT=$#words; _sessiond')
        return [word for word in self.shell("zsh", "-fc", ask, "zsh", *typed) if word.startswith(typed[-1])]

    def in_fish(self, *typed):
        ask = f"{self.script('fish')}\ncomplete -C 'sessiond {' '.join(typed)}'"
        return [line.split("\t")[0] for line in self.shell("fish", "--no-config", "-c", ask)]

    def test_every_shell_completes(self):
        for complete in (self.in_bash, self.in_zsh, self.in_fish):
            with self.subTest(complete.__name__):
                self.assertIn("sessions", complete(""))
                self.assertEqual(sorted(complete("se")), ["search", "serve", "sessions"])
                self.assertEqual(complete("sessions", "un"), ["unarchive"])
                self.assertEqual(complete("sessions", "prune", "--old"), ["--older-than"])
                self.assertEqual(complete("token", "create", "--key-"), ["--key-prefix"])

    def test_names_of_files_are_left_to_the_shell(self):
        self.assertEqual(self.in_bash("serve", "--config", ""), [""])
        self.assertEqual(self.in_zsh("serve", "--config", ""), ["a-file"])
        self.assertIn("/etc/", self.in_fish("serve", "--config", "/et"))

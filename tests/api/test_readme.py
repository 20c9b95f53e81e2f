"""README.md typed from top to bottom, then the other documents with commands: every command as it stands there, in one shell, in
an empty home, with no variable set for it.

`make run` is the real one, in a copy of the tree whose build is up to date: build/release/sessiond is the binary under test and ninja
finds nothing to do. The address is another one, given as README says.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from harness.sessiond import SLOW, binary

runs = {"release"}

ROOT = Path(__file__).resolve().parents[2]
WAIT = 120 * SLOW
KEPT = re.compile(r"PATH|(ASAN|LSAN|TSAN|UBSAN)_OPTIONS|SESSIOND_TEST_\w+")


# In the order in which they are typed: what README has set and started is there for the others.
WITH_COMMANDS = ("README.md", "daemon/api/README.md", "store/lock/README.md", "policy/context/README.md", "formats/README.md")


FOLDERS = ("config", "store", "transcripts", "policy", "formats", "daemon", "tests", "web")


def documents():
    """The names of all documents; build folders and npm's packages have Markdown of others."""
    found = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
    return sorted(str(path.relative_to(ROOT)) for path in found if "node_modules" not in path.parts)


def document(name):
    return (ROOT / name).read_text(encoding="utf-8")


def commands(name):
    blocks = re.findall(r"```sh\n(.*?)```", document(name), re.S)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip() and not line.startswith("#")]


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


def built_tree(folder):
    """What make wants, with a build that is up to date."""
    tree = folder / "sessiond"
    (tree / "build" / "release").mkdir(parents=True)
    for name in ("Makefile", "CMakePresets.json", "config", "README.md"):
        (tree / name).symlink_to(ROOT / name)
    (tree / "build" / ".packages").touch()
    (tree / "build" / "release" / "build.ninja").write_text("build sessiond: phony\n")
    (tree / "build" / "release" / "sessiond").symlink_to(os.path.abspath(binary()))
    return tree


class Shell:
    """One bash, typed into."""

    def __init__(self, folder, cwd):
        self.home, self._out = folder / "home", (folder / "output").open("w+b")
        self.home.mkdir()
        self._told, told = os.pipe()
        self.process = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=self._out, stderr=self._out, cwd=cwd, start_new_session=True,
                                        pass_fds=[told], env={"HOME": str(self.home)} | {k: v for k, v in os.environ.items() if KEPT.fullmatch(k)})
        self._told, self._fd = os.fdopen(self._told), told
        os.close(told)

    def type(self, command):
        """(exit code, all that was printed meanwhile)"""
        begin = os.fstat(self._out.fileno()).st_size
        self.process.stdin.write(f"{command}\necho $? >&{self._fd}\n".encode())
        self.process.stdin.flush()
        code = int(self._told.readline())
        with open(self._out.name, "rb") as out:
            out.seek(begin)
            return code, out.read().decode()

    def close(self):
        self.process.stdin.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self._told.close()
        self._out.close()


@unittest.skipUnless(shutil.which("make") and shutil.which("ninja") and shutil.which("curl"), "needs make, ninja and curl")
class Readme(unittest.TestCase):
    def setUp(self):
        folder = Path(tempfile.mkdtemp(prefix="rm-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.folder, self.tree = folder, built_tree(folder)

    def test_the_readme_works_typed_from_top_to_bottom_in_an_empty_home(self):
        address = free_address()
        self.assertIn("make run ADDRESS=", document("README.md"), "README tells how another address is given")
        shell = Shell(self.folder, self.tree)
        self.addCleanup(shell.close)
        printed = {}
        for command in [command for name in WITH_COMMANDS for command in commands(name)]:
            typed = command.replace("127.0.0.1:7433", address).replace("make run", f"make run ADDRESS={address}")
            with self.subTest(command):
                code, output = shell.type(typed)
                printed[command] = output
                streams = "/v1/events" in command and code == 28      # curl's own time limit ends it
                warned = command == "sessiond doctor" and code == 1  # of the disk or file system it runs on
                self.assertTrue(code == 0 or streams or warned, f"exit {code}: {output}")
                self.assertNotIn("urn:sessiond:problem", output)
        self.assertGreater(len(printed), 12)

        def answer(part):
            output = next(output for command, output in printed.items() if part in command)
            self.assertTrue(output, f"{part} printed nothing; all: {printed}")
            return output

        self.assertEqual([m["text"] for m in json.loads(answer("view=chat"))["data"]], ["hello", "hello, Ada"])
        self.assertTrue(answer("view=chat").endswith("}\n"))
        self.assertEqual(json.loads(answer("/ack"))["status"], "sent")
        self.assertIn('"agent:main:slack:direct:u1"', answer("--unix-socket"))
        token = answer("token create").strip()
        ask = urllib.request.Request(f"http://{address}/v1/whoami", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(ask, timeout=WAIT) as reply:  # the daemon that README started knows it
            self.assertEqual(json.loads(reply.read())["role"], "bridge")
        self.assertIn(token[3:11], answer("token list"))
        self.assertTrue(json.loads(answer('"chatType":"channel"'))["systemIntro"])
        session = "/v1/agents/main/sessions/agent:main:slack:direct:u1"
        ask = urllib.request.Request(f"http://{address}{session}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(ask, timeout=WAIT) as reply:
            self.assertEqual(json.loads(reply.read())["subject"], "mine")
        self.assertEqual(sorted(p.name for p in shell.home.iterdir()), [], "nothing was made in the home by the way")
        code, output = shell.type("kill %1; wait")
        self.assertFalse((self.tree / "run" / "state" / "sessiond.sock").exists(), output)

    def test_make_run_on_another_address_says_why_it_cannot(self):
        """Instead of waiting for ever."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            for address, word in ((f"127.0.0.1:{taken.getsockname()[1]}", "in use"), ("nowhere", "/listen/tcp")):
                with self.subTest(address):
                    done = subprocess.run(["make", "run", f"ADDRESS={address}"], cwd=self.tree, capture_output=True, text=True, timeout=WAIT)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(word, done.stderr.lower())
                    self.assertIn("ended before it was ready", done.stdout)
                    self.assertFalse((self.tree / "run" / "config" / "sessiond" / "admin.token").exists())

    def test_documents_and_changelog_name_the_same_versions_of_openclaw(self):
        """Those before the first that keeps its sessions in SQLite."""
        locks = document("store/lock/README.md")
        took_no_lock = re.search(r"2026\.5 to (2026\.\d+) \| takes no lock", locks)[1]
        sqlite = re.search(r"(2026\.\d+) and later \| keeps its sessions in SQLite", locks)[1]
        read = re.search(r"OpenClaw trees \(2026\.1 to (2026\.\d+)\)", document("CHANGELOG.md"))[1]
        self.assertEqual(read, took_no_lock)
        self.assertIn(f"OpenClaw 2026.1 to {read}", document("README.md"))
        self.assertEqual(int(sqlite.split(".")[1]), int(read.split(".")[1]) + 1)

    def test_make_targets_are_there(self):
        targets = set(re.findall(r"^([a-z-]+):", document("Makefile"), re.M))
        for name in documents():
            for target in re.findall(r"`make ([a-z-]+)", document(name)):
                self.assertIn(target, targets, name)

    def test_commands_stand_only_where_they_are_typed(self):
        self.assertEqual({name for name in documents() if "```sh\n" in document(name)}, set(WITH_COMMANDS))

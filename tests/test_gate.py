#!/usr/bin/env python3
"""The gate itself: tests/run.py with suites made for it, and tests/landable.py in a repository made for it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent

# A suite of three tests. `fails` have failed for ever, `falters` only the first time.
SUITE = """
import os, sys
from pathlib import Path
sys.path.append({tests!r})
from harness.report import Report
report = Report()
for test in ("one", "two, with a comma", "three"):
    if report.wants(test):
        seen = Path("build") / (sys.argv[1] + test)
        falters = test in {falters!r} and not seen.exists()
        seen.touch()
        report.judge(test, ["first line", "second line"] if falters or test in {fails!r} else None)
sys.exit(report.finish())
"""
SUITES = """
import runpy
real = runpy.run_path({tests!r} + "/suites.py")
Build, Suite = real["Build"], real["Suite"]
BUILDS, TIDY, TSAN, SOAK = [Build("broken", "broken")], [], Suite("tsan", "false"), {soak}
TEST = {test}
"""


class Gate(unittest.TestCase):
    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.root / "tests").mkdir()
        (self.root / "build" / "broken").mkdir(parents=True)
        for name in ("run.py", "changed.py", "includes.py"):
            shutil.copy(TESTS / name, self.root / "tests")
        shutil.copytree(TESTS / "harness", self.root / "tests" / "harness", ignore=shutil.ignore_patterns("__pycache__"))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("SESSIOND_", "GIT_"))}

    def suite(self, name, fails=(), falters=()):
        """The line of suites.py for a suite with these tests."""
        (self.root / f"{name}.py").write_text(SUITE.format(tests=str(TESTS), fails=fails, falters=falters))
        return f"Suite({name!r}, 'python3 {name}.py {name}')"

    def run_gate(self, *suites, soak=(), arguments=(), landable=False):
        (self.root / "tests" / "suites.py").write_text(SUITES.format(
            tests=str(TESTS), test=f"[{', '.join(suites)}]", soak=f"[{', '.join(soak)}]"))
        return subprocess.run([sys.executable, self.root / "tests" / "run.py", *arguments], cwd=self.root, capture_output=True, text=True, timeout=60,
                              env={**self.env, "SESSIOND_LANDABLE": "1" if landable else "0"})

    def remembered(self):
        return [json.loads(line)["unsteady"] for line in (self.root / "build" / "unsteady").read_text().splitlines()]

    def test_one_run_names_what_fails_in_every_suite(self):
        done = self.run_gate(self.suite("a", fails=["one"]), self.suite("b"), self.suite("c", fails=["two, with a comma"]), self.suite("d", fails=["three"]))
        self.assertEqual(done.returncode, 1, done.stdout)
        for name in ("FAILED a: one\n    first line\n", "FAILED c: two, with a comma\n", "FAILED d: three\n", "9 passed, 3 failed, 0 unsteady"):
            self.assertIn(name, done.stdout)
        self.assertNotIn("FAILED b", done.stdout)

    def test_what_fails_once_is_unsteady_and_the_run_passes(self):
        done = self.run_gate(self.suite("a", falters=["one", "two, with a comma"]), self.suite("b"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("UNSTEADY a: one\n    first line\n", done.stdout)
        self.assertIn("6 passed, 0 failed, 2 unsteady", done.stdout)
        self.assertEqual(self.remembered(), [["a: one", "a: two, with a comma"]])

    def test_what_fails_beside_something_unsteady_still_fails(self):
        done = self.run_gate(self.suite("a", falters=["one"], fails=["three"]))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("1 failed, 1 unsteady", done.stdout)

    def test_unsteady_in_two_of_five_landable_runs_fails(self):
        unsteady, quiet = self.suite("a", falters=["one"]), self.suite("b")

        def run(suite, landable=True):
            for file in (self.root / "build").glob("aone"):
                file.unlink()
            return self.run_gate(suite, landable=landable).returncode

        self.assertEqual([run(unsteady), *(run(quiet) for _ in range(4)), run(unsteady)], [0] * 6, "five runs lie between")
        self.assertEqual(run(unsteady, landable=False), 0, "only landable runs are judged")
        self.assertEqual([run(quiet), run(unsteady)], [0, 1])

    def test_many_failures_are_not_run_again(self):
        done = self.run_gate(self.program("many", ('("one", "two, with a comma", "three")', "map(str, range(21))"), ("in {falters!r}", "not in {falters!r}")))
        self.assertIn("0 passed, 21 failed, 0 unsteady", done.stdout)
        self.assertEqual(done.returncode, 1)

    def program(self, name, *changes):
        """A suite like the others whose program is changed; its line of suites.py."""
        text = SUITE
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        (self.root / f"{name}.py").write_text(text.format(tests=str(TESTS), fails=(), falters=["one"]))
        return f"Suite({name!r}, 'python3 {name}.py {name}')"

    def test_a_suite_that_dies_after_a_failure_fails_though_the_test_passes_alone(self):
        dies = self.program("dies", ("if report.wants(test):", "if report.wants(test):\n        assert test != 'three'"))
        ends = self.program("ends", ("if report.wants(test):", "if report.wants(test):\n        if test == 'three': sys.exit(0)"))
        done = self.run_gate(dies, ends)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("UNSTEADY dies: one\n", done.stdout)
        self.assertIn("FAILED dies: dies\n    exit code 1 before its last test\n", done.stdout)
        self.assertIn("FAILED ends: ends\n    exit code 0 before its last test\n", done.stdout)

    def test_a_suite_that_skips_everything_fails(self):
        done = self.run_gate(self.program("skips", ("report.judge(", "report.skipped(test, 'no such thing here') if True else report.judge(")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("SKIPPED skips: one\n    no such thing here\n", done.stdout)

    def test_a_sanitizers_report_is_never_unsteady(self):
        done = self.run_gate(self.program("races", ('"second line"', '"WARNING: ThreadSanitizer: data race"')))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("2 passed, 1 failed, 0 unsteady", done.stdout)

    def test_what_a_suite_leaves_behind_is_killed(self):
        self.run_gate("Suite('leaves', 'sh -c \"sleep 1000 & echo $! > build/left\"')")
        left = Path("/proc") / (self.root / "build" / "left").read_text().strip() / "stat"
        self.assertTrue(not left.exists() or left.read_text().rpartition(")")[2].split()[0] == "Z")

    def test_a_program_that_is_not_there_fails_by_its_name(self):
        done = self.run_gate("Suite('gone', 'no-such-program')", self.suite("a"))
        self.assertIn("FAILED gone: gone\n", done.stdout)
        self.assertIn("3 passed, 1 failed", done.stdout)

    def test_a_signal_ends_the_run_and_its_programs(self):
        self.run_gate("Suite('waits', 'sh -c \"echo $$ > build/waits; exec sleep 1000\"')", self.suite("a"), arguments=["a"])
        process = subprocess.Popen([sys.executable, self.root / "tests" / "run.py", "waits"], cwd=self.root, env=self.env, stdout=subprocess.DEVNULL)
        waits = self.root / "build" / "waits"
        while not waits.exists() or not waits.read_text().strip():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.terminate()
        self.assertNotEqual(process.wait(30), 0)
        state = Path("/proc") / waits.read_text().strip() / "stat"
        self.assertTrue(not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z")

    def test_a_soak_runs_nothing_again(self):
        done = self.run_gate(soak=[self.suite("a", falters=["one"])], arguments=["--soak"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 passed, 1 failed, 0 unsteady", done.stdout)

    def test_a_suite_without_a_report_is_one_test(self):
        done = self.run_gate("Suite('good', 'true')", "Suite('bad', 'sh -c \"echo FAULT lost one; exit 3\"')")
        self.assertIn("1 passed, 1 failed", done.stdout)
        self.assertIn("FAILED bad: bad\n    exit code 3\n    FAULT lost one\n", done.stdout)

    def test_a_suite_of_no_test_and_one_that_dies_are_failures(self):
        done = self.run_gate(self.program("none", ('("one", "two, with a comma", "three")', "()")), self.program("dies", ("sys.exit", "os.abort() #")))
        self.assertIn("FAILED none: none\n", done.stdout)
        self.assertIn("FAILED dies: dies\n    exit code -6 before its last test\n", done.stdout)

    def test_a_build_that_fails_fails_what_needs_it_and_nothing_else(self):
        (self.root / "build" / "broken" / "build.ninja").write_text("rule f\n command = false\nbuild all: f\n")
        done = self.run_gate("Suite('needs', 'true', ('broken',))", self.suite("a"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED needs: needs\n    not run: the build broken failed", done.stdout)
        self.assertIn("3 passed, 1 failed", done.stdout)

    def test_only_the_suites_that_are_named_run(self):
        done = self.run_gate(self.suite("a"), self.suite("b"), arguments=["b"])
        self.assertIn("3 passed, 0 failed", done.stdout)
        self.assertIn("there is no suite nothing", self.run_gate(self.suite("a"), arguments=["nothing"]).stderr)


class Landable(unittest.TestCase):
    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory())) / "work"
        (self.root / "tests").mkdir(parents=True)
        (self.root / ".ci").mkdir()
        (self.root.parent / "shared").mkdir()
        (self.root.parent / "shared" / "here").touch()
        shutil.copy(TESTS / "landable.py", self.root / "tests")
        (self.root / ".gitignore").write_text("build/\n")
        self.git("init", "--quiet")

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, script):
        run = self.root / ".ci" / "run"
        run.write_text("#!/bin/sh\n" + script)
        run.chmod(0o755)
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", "x")
        return self.git("rev-parse", "HEAD^{tree}")

    def landable(self, **env):
        return subprocess.run([sys.executable, self.root / "tests" / "landable.py"], capture_output=True, text=True, timeout=60, env={**os.environ, **env})

    def known(self):
        return (self.root / "build" / "landable").read_text().strip()

    def test_a_tree_that_passed_is_named_and_one_that_failed_changes_nothing(self):
        good = self.commit("test -f ../shared/here && test ! -e unknown && mkdir build && echo '{}' > build/unsteady\n")
        self.assertEqual(self.landable().returncode, 0)
        self.assertEqual(self.known(), good)
        self.assertTrue((self.root / "build" / "unsteady").exists(), "it comes back from the clone")
        self.commit("exit 1\n")
        failed = self.landable()
        self.assertEqual(failed.returncode, 1)
        self.assertIn("stays as it was", failed.stderr)
        self.assertEqual(self.known(), good)

    def test_what_is_not_committed_is_refused(self):
        good = self.commit("exit 0\n")
        self.landable()
        (self.root / "new").touch()
        refused = self.landable()
        self.assertEqual((refused.returncode, self.known()), (1, good))
        self.assertIn("?? new", refused.stderr)

    def test_what_changes_meanwhile_does_not_change_what_passed(self):
        good = self.commit(f"echo z > {self.root}/z && git -C {self.root} add z && git -C {self.root} -c user.name=t -c user.email=t@t commit --quiet -m z\n")
        self.assertEqual(self.landable().returncode, 0)
        self.assertEqual(self.known(), good)
        self.assertNotEqual(self.git("rev-parse", "HEAD^{tree}"), good)

    def test_nothing_of_the_outer_make_reaches_the_clone(self):
        self.commit("env | grep -q '^MAKEFLAGS\\|^SESSIOND_TEST' && exit 1; exit 0\n")
        self.assertEqual(self.landable(MAKEFLAGS="-i", SESSIOND_TEST_SLOW="9").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)

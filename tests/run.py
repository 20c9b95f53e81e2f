#!/usr/bin/env python3
"""Runs suites, all of them to their ends, and says in one table what passed and what failed: tests/run.py [--soak | --check] [SUITE…]

Without a name: all of `make test` (tests/suites.py). A test that failed is run once more, alone, when all else is done. If it passes then, it is
*unsteady*: the run passes, and build/unsteady remembers it. A sanitizer's report is never unsteady. build/unsteady has a line of JSON for
each of the last runs; a test that was unsteady in two of the last five runs of `make landable` fails. A suite of a soak is not run again.
Logs: build/test/<suite>.log. Exits with 1 when a test failed, a build did, or a suite had no test.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import changed
import suites
from harness.report import SANITIZER

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "test"
UNSTEADY = ROOT / "build" / "unsteady"
LANDABLE = os.environ.get("SESSIOND_LANDABLE") == "1"  # set by tests/landable.py
LIMIT_S = 60 * 60  # of a build, and of a suite of `make test`: two cores that share a disk took 39 minutes for api-asan
SLOTS = 4  # suites at a time: what runs the processor beside what waits for disks and daemons
MOST_AGAIN = 20  # failed tests of a suite that are run again; a suite with more is broken
SHOWN = 12  # lines of a reason
REASON = re.compile(r"FAULT|FAIL|LOST|Error\b|error:")
RUNS_KEPT, RUNS_JUDGED = 20, 5  # in build/unsteady: of other runs, of `make landable`


@dataclass
class Outcome:
    """The result of one run of a suite."""

    suite: suites.Suite
    passed: set = field(default_factory=set)
    failed: dict = field(default_factory=dict)    # test: reason
    skipped: dict = field(default_factory=dict)
    unsteady: dict = field(default_factory=dict)  # failed first, passed alone: the reason of the first time
    seconds: float = 0.0
    processor_s: float = 0.0


class Processes:
    """The programs that run, each in a process group of its own. `end` kills them and lets no other one start."""

    def __init__(self):
        self._running, self._lock, self._ended = set(), threading.Lock(), False

    def run(self, command, log, env=None, limit_s=None):
        """(exit code, seconds of processor); the output goes to the file. Whatever the program leaves behind is killed with it."""
        with self._lock:
            if self._ended:
                raise InterruptedError("the run has ended")
            process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            self._running.add(process.pid)
        timer = threading.Timer(limit_s or 1e6, self._kill, (process.pid,))
        timer.daemon = True
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        with self._lock:
            self._running.discard(process.pid)
        self._kill(process.pid)
        return process.returncode, used.ru_utime + used.ru_stime

    def end(self):
        with self._lock:
            self._ended = True
            for pid in self._running:
                self._kill(pid)

    @staticmethod
    def _kill(pid):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def say(line):
    print(time.strftime("%H:%M:%S"), line, flush=True)


class Runner:
    def __init__(self, options):
        self.words = {"jobs": options.jobs, "classes": 3 * options.jobs, "rounds": options.rounds}
        self.processes = Processes()
        self._builds = {}  # name: whether it was made; nothing: not yet
        self._change = threading.Condition()

    # -- builds --

    def build(self, names):
        for build in suites.BUILDS:
            if build.name in names:
                made = False
                try:
                    made = self._make(build)
                except OSError as fault:  # there is no cmake or ninja, or the disk is full
                    say(f"build {build.name}: FAILED: {fault}")
                with self._change:
                    self._builds[build.name] = made
                    self._change.notify_all()

    def _make(self, build):
        began, path, code = time.monotonic(), LOGS / f"build-{build.name}.log", 0
        folder, presets = ROOT / "build" / build.preset, ROOT / "CMakePresets.json"
        configured = folder / "build.ninja"
        with open(path, "wb") as log:
            if not configured.exists() or (presets.exists() and presets.stat().st_mtime > configured.stat().st_mtime):
                code, _ = self.processes.run(["cmake", "--preset", build.preset], log, limit_s=LIMIT_S)
            if code == 0:
                command = ["ninja", "-C", folder, "-j", str(self.words["jobs"]), "--quiet", *build.targets.split()]
                code, _ = self.processes.run(command, log, limit_s=LIMIT_S)
        say(f"build {build.name}: {'made' if code == 0 else 'FAILED'}, {time.monotonic() - began:.0f} s")
        if code:
            print(*tail(path, 40), sep="\n", flush=True)
        return code == 0

    # -- suites --

    def run(self, chosen, slots):
        """Outcomes, in the order of `chosen`."""
        waiting, outcomes = list(chosen), {}

        def work():
            while True:
                with self._change:
                    self._change.wait_for(lambda: not waiting or next_of(waiting, self._builds))
                    if not waiting:
                        return
                    suite = next_of(waiting, self._builds)
                    waiting.remove(suite)
                    self._change.notify_all()
                outcomes[suite.name] = self._attempt(suite)

        workers = [threading.Thread(target=work, daemon=True) for _ in range(slots)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return [outcomes[suite.name] for suite in chosen]

    def _attempt(self, suite):
        if missing := [name for name in suite.needs if not self._builds[name]]:
            return Outcome(suite, failed={suite.name: f"not run: the build {', '.join(missing)} failed (build/test/build-{missing[0]}.log)"})
        outcome = self.execute(suite)
        say(f"{suite.name}: {len(outcome.passed)} passed, {len(outcome.failed)} failed, {outcome.seconds:.0f} s")
        return outcome

    def execute(self, suite, only=None):
        """Runs a suite, or the tests of it that `only` names, one at a time."""
        try:
            return self._execute(suite, only)
        except Exception as fault:  # noqa: BLE001: whatever it is, the table must come
            return Outcome(suite, failed={suite.name: f"{fault!r}\n{traceback.format_exc()}"})

    def _execute(self, suite, only):
        name, limit_s = suite.name + (".again" if only else ""), None if suite in suites.SOAK else LIMIT_S
        log, report = LOGS / f"{name}.log", LOGS / f"{name}.report"
        report.unlink(missing_ok=True)
        env = {**os.environ, "SESSIOND_TEST_REPORT": str(report), "SESSIOND_TEST_SLOW": os.environ.get("SESSIOND_TEST_SLOW", str(suite.slow)),
               "SESSIOND_TEST_LIMIT_S": str(limit_s - 60 if limit_s else 0)}
        env.pop("SESSIOND_TEST_ONLY", None)
        if suite.threads:
            env["SESSIOND_TEST_THREADS"] = str(suite.threads)
        if only and suite.name not in only:
            env["SESSIOND_TEST_ONLY"] = "\n".join(only)
        outcome, began = Outcome(suite), time.monotonic()
        with open(log, "wb") as output:
            code, outcome.processor_s = self.processes.run(shlex.split(suite.command.format(**self.words)), output, env, limit_s)
        outcome.seconds = time.monotonic() - began
        end = read_report(report, outcome) if report.exists() else code
        if code not in (0, 1) or end != code or (code == 1 and not outcome.failed):
            late = limit_s and outcome.seconds > limit_s
            why = f"did not end within {limit_s} s" if late else f"exit code {code}" + ("" if end == code else " before its last test")
            outcome.failed[suite.name] = "\n".join([why, *reason_of(log)])
        elif not report.exists():
            outcome.passed.add(suite.name)
        return outcome

    def again(self, outcome):
        """Runs what failed once more, alone: what passes now is unsteady. A sanitizer's report stays a failure."""
        reported = {test for test, reason in outcome.failed.items() if SANITIZER.search(reason)}
        due = outcome.failed.keys() - reported
        if not due or len(due) > MOST_AGAIN or outcome.suite in suites.SOAK or not all(self._builds[name] for name in outcome.suite.needs):
            return
        second = self.execute(outcome.suite, due)
        outcome.seconds, outcome.processor_s = outcome.seconds + second.seconds, outcome.processor_s + second.processor_s
        steady = dict(second.failed)
        for test, reason in outcome.failed.items():
            if test not in reported and (test in second.passed or (test == outcome.suite.name and not second.failed)):
                outcome.unsteady[test] = reason
            else:
                steady.setdefault(test, reason)
        outcome.failed = steady
        outcome.passed |= outcome.unsteady.keys()
        say(f"{outcome.suite.name}, again: {len(outcome.unsteady)} passed, {len(steady)} failed")


def read_report(report, outcome):
    """Fills the outcome, and returns the exit code that the suite announced; nothing when it died before."""
    end = None
    for line in report.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # it died while it wrote
            return None
        if "end" in record:
            end = record["end"]
        elif record["outcome"] == "failed":
            outcome.failed.setdefault(record["test"], record["reason"])
        elif record["outcome"] == "skipped":
            outcome.skipped[record["test"]] = record["reason"]
        else:
            outcome.passed.add(record["test"])
    outcome.passed -= outcome.failed.keys()
    return end


def next_of(waiting, builds):
    """The first suite whose builds have ended, well or not."""
    return next((suite for suite in waiting if all(name in builds for name in suite.needs)), None)


def tail(path, lines):
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]


def reason_of(log):
    """What a suite without a report printed: lines that look like a reason, and its last ones."""
    lines = tail(log, 1_000_000)
    return [*[line for line in lines[:-5] if REASON.search(line)][:6], *lines[-5:]]


def remember_unsteady(outcomes):
    """Writes down which tests were unsteady in this run, and returns those that were so too often."""
    named = {f"{outcome.suite.name}: {test}" for outcome in outcomes for test in outcome.unsteady}
    runs = []
    for line in UNSTEADY.read_text().splitlines() if UNSTEADY.exists() else ():
        try:
            runs.append(json.loads(line))
        except ValueError:
            print(f"{UNSTEADY.relative_to(ROOT)}: passed over a line that is not JSON: {line[:60]}")
    runs.append({"at": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "landable": LANDABLE, "unsteady": sorted(named)})
    judged, others = ([run for run in runs if run["landable"] == landable] for landable in (True, False))
    judged = judged[-RUNS_JUDGED:]
    written = UNSTEADY.with_suffix(".new")
    written.write_text("".join(json.dumps(run) + "\n" for run in runs if run in judged or run in others[-RUNS_KEPT:]))
    written.rename(UNSTEADY)
    return {test for test in named if sum(test in run["unsteady"] for run in judged) > 1} if LANDABLE else set()


def show(outcomes):
    print(f"\n{'suite':<26}{'passed':>8}{'failed':>8}{'unsteady':>10}{'skipped':>9}{'seconds':>9}{'processor':>11}")
    for outcome in outcomes:
        print(f"{outcome.suite.name:<26}{len(outcome.passed):>8}{len(outcome.failed):>8}{len(outcome.unsteady):>10}{len(outcome.skipped):>9}"
              f"{outcome.seconds:>9.0f}{outcome.processor_s:>11.0f}")
    for word, most in (("skipped", 1), ("unsteady", SHOWN), ("failed", SHOWN)):
        for outcome in outcomes:
            tests = getattr(outcome, word)
            for test, reason in tests.items():
                print(f"\n{word.upper()} {outcome.suite.name}: {test}", *(f"    {line}" for line in reason.splitlines()[:most]), sep="\n")
            if tests and word != "skipped":
                print(f"  logs: build/test/{outcome.suite.name}*.log")


def chosen_of(options):
    known = {suite.name: suite for suite in (*suites.TEST, suites.TSAN, *suites.SOAK)}
    if nowhere := {need for suite in known.values() for need in suite.needs} - {build.name for build in suites.BUILDS}:
        sys.exit(f"suites.py names builds that are not there: {', '.join(nowhere)}")
    if unknown := [name for name in options.suites if name not in known]:
        sys.exit(f"there is no suite {', '.join(unknown)}; there are {', '.join(known)}")
    if options.suites:
        return [known[name] for name in options.suites]
    if options.check:
        return [*suites.TIDY, changed.api_suite(suites.API_ASAN), suites.UNIT]
    return suites.SOAK if options.soak else suites.TEST


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    parser.add_argument("--soak", action="store_true", help="what takes hours: one suite after another, and nothing is run again")
    parser.add_argument("--check", action="store_true", help="what takes minutes: no suite of the release, and the API tests of what changed")
    parser.add_argument("--rounds", type=int, default=1000, help="of each crash test of a soak")
    parser.add_argument("-j", dest="jobs", type=int, default=os.cpu_count(), help="processors")
    options = parser.parse_args()
    began, chosen = time.monotonic(), chosen_of(options)
    LOGS.mkdir(parents=True, exist_ok=True)
    runner = Runner(options)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        threading.Thread(target=runner.build, args=({name for suite in chosen for name in suite.needs},), daemon=True).start()
        outcomes = runner.run(chosen, 1 if options.soak else max(SLOTS, options.jobs))
        for outcome in outcomes:
            runner.again(outcome)
    finally:
        runner.processes.end()
    show(outcomes)
    too_often = remember_unsteady(outcomes)
    for test in sorted(too_often):
        print(f"\nFAILED {test}\n    unsteady in two of the last {RUNS_JUDGED} runs of make landable: mend it")
    count = {word: sum(len(getattr(outcome, word)) for outcome in outcomes) for word in ("passed", "failed", "unsteady", "skipped")}
    print("\n" + ", ".join(f"{number} {word}" for word, number in count.items()) + f", {time.monotonic() - began:.0f} s")
    return 1 if count["failed"] or too_often else 0


if __name__ == "__main__":
    sys.exit(main())

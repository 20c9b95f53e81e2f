"""What a suite reports of its tests: a line for people about each that fails, and a record of each for tests/run.py.

tests/run.py names two things in the environment. SESSIOND_TEST_REPORT is the file of the records, one JSON object a line:
{"test", "outcome": "passed" | "failed" | "skipped", "reason"}, and {"end": exit code} as the last one: a report without it is a suite that
died. SESSIOND_TEST_ONLY has the names of the tests to run, one a line, one test at a time; without it all run. A suite of one test needs no
report: its exit code and the end of its output are enough.
"""

import json
import os
import re
import sys
import threading

SANITIZER = re.compile(r"ERROR: AddressSanitizer|ERROR: LeakSanitizer|WARNING: ThreadSanitizer|runtime error:|UndefinedBehaviorSanitizer")


class Report:
    """Any thread may call it."""

    def __init__(self):
        sys.stdout.reconfigure(errors="backslashreplace")  # a reason may hold anything
        path = os.environ.get("SESSIOND_TEST_REPORT")
        only = os.environ.get("SESSIOND_TEST_ONLY")
        self.only = None if only is None else set(only.splitlines())
        self._file = open(path, "a", encoding="utf-8") if path else None
        self._lock = threading.Lock()
        self._outcomes = {}

    def wants(self, *names):
        """Returns whether a test that goes by any of these names is to run."""
        return self.only is None or not self.only.isdisjoint(names)

    def jobs(self, count):
        """Returns how many tests may run at a time."""
        return max(1, count) if self.only is None else 1

    def passed(self, test):
        self._record(test, "passed")

    def failed(self, test, reason):
        """Prints the failure. A test that fails twice is one failed test, with both reasons in the file."""
        with self._lock:
            print(f"FAIL {test}\n{reason}", flush=True)
        self._record(test, "failed", str(reason))

    def skipped(self, test, reason):
        with self._lock:
            print(f"skip {test}: {reason}", flush=True)
        self._record(test, "skipped", str(reason))

    def judge(self, test, faults):
        """Passed without faults, failed with them."""
        if faults:
            self.failed(test, "\n".join(map(str, faults)))
        else:
            self.passed(test)

    def finish(self):
        """Prints the failed tests and `N passed, N failed`, and returns the exit code. A suite in which no test passed has failed."""
        with self._lock:
            outcomes = list(self._outcomes.values())
            for test in sorted(test for test, outcome in self._outcomes.items() if outcome == "failed"):
                print("failed:", test)
            count = {outcome: outcomes.count(outcome) for outcome in ("passed", "failed", "skipped")}
            print(f"{count['passed']} passed, {count['failed']} failed" + (f", {count['skipped']} skipped" if count["skipped"] else ""), flush=True)
            code = 0 if count["passed"] and not count["failed"] else 1
            self._write({"end": code})
            return code

    def _record(self, test, outcome, reason=""):
        test = " ".join(test.split())  # a name is one line
        with self._lock:
            if self._outcomes.get(test) != "failed":
                self._outcomes[test] = outcome
            self._write({"test": test, "outcome": outcome, "reason": reason})

    def _write(self, record):
        if self._file:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()

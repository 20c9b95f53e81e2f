"""Runs the tests of one folder against a binary; tests/api/run.py and tests/browser/run.py call it.

Classes run side by side (each has its own daemon), tests of a class one after another. The last line is `N passed, N failed`
(and skipped, when some were); the exit code is 1 when any failed.
"""

import argparse
import concurrent.futures
import faulthandler
import os
import sys
import threading
import time
import traceback
import unittest

from harness import sessiond


class Result(unittest.TestResult):
    """Counts tests, not sub-tests; prints a failure as soon as it happens, with the test's name."""

    printing = threading.Lock()

    def __init__(self, verbose=False):
        super().__init__()
        self.passed, self.failed, self.left_out = set(), set(), set()
        self._verbose, self._began = verbose, {}

    def startTest(self, test):
        super().startTest(test)
        self._began[test.id()] = time.monotonic()

    def _say(self, word, test, detail=""):
        took = time.monotonic() - self._began.get(test.id(), time.monotonic())
        with self.printing:
            print(f"{word} {test.id()} ({took:.1f} s)" + ("\n" + detail if detail else ""), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.add(test.id())
        if self._verbose:
            self._say("ok  ", test)

    def _fail(self, test, err):
        self.failed.add(test.id())
        self._say("FAIL", test, self._exc_info_to_string(err, test) if isinstance(test, unittest.TestCase)
                  else "".join(traceback.format_exception(*err)))

    def addError(self, test, err):
        super().addError(test, err)
        self._fail(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._fail(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed.add(test.id())
            self._say("FAIL", subtest, self._exc_info_to_string(err, subtest))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.left_out.add(test.id())
        self._say("skip", test, "     " + reason)

    def addExpectedFailure(self, test, err):
        self.addFailure(test, err)  # nobody is expected to fail here

    def addUnexpectedSuccess(self, test):
        self.addSuccess(test)


def classes(suite, found):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            classes(item, found)
        else:
            found.setdefault((type(item).__module__, type(item).__qualname__), unittest.TestSuite()).addTest(item)
    return found


def main(folder, description):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("-k", dest="patterns", action="append",
                        help="only tests whose name has this (fnmatch pattern or part)")
    parser.add_argument("-x", dest="without", action="append", default=[], help="no classes whose name has this")
    parser.add_argument("-j", dest="jobs", type=int, default=1, help="classes at a time")
    parser.add_argument("-v", dest="verbose", action="store_true", help="name passed tests too")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    if not os.access(sessiond.binary(), os.X_OK):
        parser.error(f"{sessiond.binary()} is no program; build it or give --binary")
    slow = float(os.environ.get("SESSIOND_TEST_SLOW", "1"))
    faulthandler.dump_traceback_later(1200 * slow, exit=True)  # a hang tells where

    loader = unittest.TestLoader()
    if options.patterns:
        loader.testNamePatterns = [p if "*" in p else f"*{p}*" for p in options.patterns]
    found = classes(loader.discover(str(folder), "test_*.py", str(folder)), {})
    suites = [suite for (module, name), suite in found.items() if not any(part in f"{module}.{name}" for part in options.without)]
    results = []

    def run(suite):
        result = Result(options.verbose)
        results.append(result)
        suite.run(result)

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for future in [pool.submit(run, suite) for suite in suites]:
            future.result()
    failed = set().union(*(r.failed for r in results)) if results else set()
    passed = (set().union(*(r.passed for r in results)) if results else set()) - failed
    skipped = (set().union(*(r.left_out for r in results)) if results else set()) - failed
    print(f"{len(suites)} classes in {time.monotonic() - began:.1f} s")
    for name in sorted(failed):
        print("failed:", name)
    print(f"{len(passed)} passed, {len(failed)} failed" + (f", {len(skipped)} skipped" if skipped else ""), flush=True)
    sys.exit(1 if failed or loader.errors or not passed else 0)


if __name__ == "__main__":
    main()

"""Runs the tests of one folder against a binary; tests/api/run.py, tests/browser/run.py and tests/views/run.py call it.

Classes run side by side (each has its own daemon), tests of a class one after another.

A test says by which builds `make test` and `make soak` run it: `runs = {"asan", "release", "tsan"}` of the method (`@runs_in`), else of its
class, else of its module, else asan alone. --build takes the tests of one build; --binary takes all, for any binary.
"""

import argparse
import concurrent.futures
import faulthandler
import os
import sys
import time
import traceback
import unittest

from harness import sessiond
from harness.report import Report

BUILDS = {"asan", "release", "tsan"}


def runs_in(*builds):
    """Decorates a test that does not run where the others of its class do."""
    def mark(test):
        test.runs = set(builds)
        return test
    return mark


def builds_of(test):
    """The builds that run a test."""
    method = getattr(test, getattr(test, "_testMethodName", ""), None)
    for owner in (method, type(test), sys.modules.get(type(test).__module__)):
        if isinstance(builds := getattr(owner, "runs", None), set):  # a function of that name is none
            break
    else:
        builds = {"asan"}
    if not builds & {"asan", "release"} or not builds <= BUILDS:
        sys.exit(f"{test.id()}: runs is {builds}; it must name asan or release, which `make test` runs, and may name tsan")
    return builds


class Result(unittest.TestResult):
    """Reports tests, not sub-tests."""

    def __init__(self, report, verbose=False):
        super().__init__()
        self._report, self._verbose, self._began = report, verbose, {}
        self.fell = set()  # names that did not pass

    def startTest(self, test):
        super().startTest(test)
        self._began[test.id()] = time.monotonic()

    def stopTest(self, test):
        if self._verbose and test.id() not in self.fell:
            print(f"ok   {test.id()} ({time.monotonic() - self._began[test.id()]:.1f} s)", flush=True)
        super().stopTest(test)

    def _fail(self, test, err, part=None):
        """The reason begins with what is wrong: the way to it is longer than what a table shows."""
        self.fell.add(test.id())
        what = "".join(traceback.format_exception_only(*err[:2])).strip()
        way = self._exc_info_to_string(err, part or test) if isinstance(test, unittest.TestCase) else "".join(traceback.format_exception(*err))
        self._report.failed(test.id(), (f"{part}: " if part else "") + f"{what}\n{way}")

    def addSuccess(self, test):
        super().addSuccess(test)
        if test.id() not in self.fell:
            self._report.passed(test.id())

    def addError(self, test, err):
        super().addError(test, err)
        self._fail(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._fail(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._fail(test, err, subtest)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.fell.add(test.id())
        self._report.skipped(test.id(), reason)

    def addExpectedFailure(self, test, err):
        self.addFailure(test, err)  # nobody is expected to fail here

    def addUnexpectedSuccess(self, test):
        self.addSuccess(test)


def tests_of(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def of_class(test):
    """The names of a failure in setUpClass and in tearDownClass."""
    owner = f"{type(test).__module__}.{type(test).__qualname__}"
    return f"setUpClass ({owner})", f"tearDownClass ({owner})"


def run_class(suite, report, verbose):
    tests = list(suite)
    result = Result(report, verbose)
    suite.run(result)
    for name in of_class(tests[0]) if report.only else ():
        if name in report.only and name not in result.fell:
            report.passed(name)


def main(folder, description):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("--build", choices=sorted(BUILDS), help="instead of --binary: the build to test, with the tests that say they run there")
    parser.add_argument("-k", dest="patterns", action="append",
                        help="only tests whose name has this (fnmatch pattern or part)")
    parser.add_argument("-j", dest="jobs", type=int, default=1, help="classes at a time")
    parser.add_argument("-v", dest="verbose", action="store_true", help="name passed tests too")
    options = parser.parse_args()
    if options.build:
        options.binary = sessiond.REPO / "build" / options.build / "sessiond"
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    if not os.access(sessiond.binary(), os.X_OK):
        parser.error(f"{sessiond.binary()} cannot be executed; build it or give --binary")
    slow = float(os.environ.get("SESSIOND_TEST_SLOW", "1"))
    limit_s = float(os.environ.get("SESSIOND_TEST_LIMIT_S", "0")) or 1200 * slow  # of tests/run.py, which kills us later
    faulthandler.dump_traceback_later(limit_s, exit=True)  # a hang tells where

    loader = unittest.TestLoader()
    if options.patterns:
        loader.testNamePatterns = [p if "*" in p else f"*{p}*" for p in options.patterns]
    report, classes = Report(), {}
    for test in tests_of(loader.discover(str(folder), "test_*.py", str(folder))):
        broken = type(test).__module__ == "unittest.loader"  # a module that cannot be loaded
        if (broken or not options.build or options.build in builds_of(test)) and report.wants(test.id(), *of_class(test)):
            classes.setdefault((type(test).__module__, type(test).__qualname__), unittest.TestSuite()).addTest(test)

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(report.jobs(options.jobs)) as pool:
        for future in [pool.submit(run_class, suite, report, options.verbose) for suite in classes.values()]:
            future.result()
    print(f"{len(classes)} classes in {time.monotonic() - began:.1f} s")
    sys.exit(report.finish())

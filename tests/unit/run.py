#!/usr/bin/env python3
"""Runs the unit tests of a build, and a slice of its fuzzers: tests/unit/run.py --build asan [-k PATTERN] [-j N]

CMake knows the programs (`ctest -N`). They run side by side, the largest first. A unit test is named `program: test case`; a program that
ends in another way than its test cases do (a crash, a sanitizer's report), and a fuzzer that fails, is one failed test by its own name.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS))  # harness
from harness.report import SANITIZER, Report  # noqa: E402


def programs_of(build):
    """{name: command} of all that CMake calls a test, the largest program first."""
    told = subprocess.run(["ctest", "--test-dir", TESTS.parent / "build" / build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    commands = {test["name"]: test["command"] for test in json.loads(told.stdout)["tests"]}
    return dict(sorted(commands.items(), key=lambda item: -os.path.getsize(item[1][0])))


def reasons(case):
    """What failed in a test case, from the XML of doctest."""
    for scope in (case, *case.iter("SubCase")):
        within = f" in {scope.get('name')}" if scope is not case else ""
        for fault in scope:
            if fault.tag in ("Expression", "Exception", "Message") and fault.get("success") != "true":
                place = f"{Path(fault.get('filename', case.get('filename'))).name}:{fault.get('line', case.get('line'))}"
                said = " ".join(" ".join(part.split()) for part in fault.itertext() if part.strip())
                yield f"{place}{within}: {fault.get('type', fault.tag)} {said}"


def run(name, command, pattern, report):
    """Runs a program's test cases, or of them those that the report wants."""
    cases = []
    if not name.startswith("unit_"):
        if (pattern and pattern.strip("*") not in name) or not report.wants(name):
            return
    elif report.only is not None and name not in report.only:
        chosen = [test.partition(": ")[2] for test in report.only if test.startswith(name + ": ")]
        if not chosen:
            return
        command = [*command, "-tc=" + ",".join(case.replace(",", "?") for case in chosen)]  # a comma would end a name; ? is any character
    elif pattern:
        command = [*command, f"-tc={pattern}"]
    with tempfile.NamedTemporaryFile(suffix=".xml") as written:
        if name.startswith("unit_"):
            command = [*command, "--reporters=xml", f"--out={written.name}"]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if name.startswith("unit_"):
            try:
                cases = [case for case in ElementTree.parse(written.name).iter("TestCase") if case.get("skipped") != "true"]
            except ElementTree.ParseError as fault:
                cases, ended.returncode = [], ended.returncode or f"{ended.returncode}, {fault}"
    fell = 0
    for case in cases:
        good = case.find("OverallResultsAsserts").get("test_case_success") == "true"
        fell += not good
        report.judge(f"{name}: {case.get('name')}", [] if good else [*reasons(case), "the test case failed"])
    if ended.returncode in (0, 1) and bool(ended.returncode) == bool(fell) and not SANITIZER.search(ended.stdout):
        if report.only is not None and name in report.only or not name.startswith("unit_"):
            report.passed(name)
    else:
        report.failed(name, f"exit code {ended.returncode}\n" + "\n".join(ended.stdout.splitlines()[-60:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="asan")
    parser.add_argument("-k", dest="pattern", help="only test cases whose name has this (with * as a wildcard)")
    parser.add_argument("-j", dest="jobs", type=int, default=1, help="programs at a time")
    options = parser.parse_args()
    pattern = options.pattern and (options.pattern if "*" in options.pattern else f"*{options.pattern}*")
    report = Report()
    with concurrent.futures.ThreadPoolExecutor(report.jobs(options.jobs)) as pool:
        for future in [pool.submit(run, name, command, pattern, report) for name, command in programs_of(options.build).items()]:
            future.result()
    sys.exit(report.finish())


if __name__ == "__main__":
    main()

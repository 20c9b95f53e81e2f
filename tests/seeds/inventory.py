#!/usr/bin/env python3
"""Counts the features of the five seeds and the checks of what lasts, and fails when one has no test: tests/seeds/inventory.py

`inventory.list` has each feature with its tests or with the reason why it is none of the daemon's, `durable.list` each check by its number.
A test counts when it is there: a program of tests/, or a test that a class of a module has. Whether it passes, its own suite says.
"""

import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
FEATURES = 240
CHECKS = [*map(str, range(1, 17)), "search"]
CASE = "unittest.TestCase"


def rows(name):
    """The columns of each line that is no comment."""
    for line in (HERE / name).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield [part.strip() for part in line.split("|")]


@cache
def tests_of(path):
    """The tests of each class of a Python file, with those of its bases, also of other files; and CASE, when unittest collects them."""
    found = {CASE: {CASE}}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for file in (folder / (node.module.replace(".", "/") + ".py") for folder in (path.parent, TESTS)):
                if file.is_file():
                    found |= {kind.name: tests_of(file)[kind.name] for kind in node.names if kind.name in tests_of(file)}
        elif isinstance(node, ast.ClassDef):
            own = {part.name for part in node.body if isinstance(part, ast.FunctionDef) and part.name.startswith("test_")}
            found[node.name] = own.union(*(found.get(ast.unparse(base), ()) for base in node.bases))
    return found


def fault_of(test):
    """Why a test cannot be found; nothing: it is there."""
    name, _, part = test.partition(" ")
    path = TESTS / name
    if path.suffix != ".py" or not path.is_file():
        return f"tests/{name} is no program"
    kind, _, method = part.partition(".")
    if part and not (path.name.startswith("test_") and {CASE, method} <= tests_of(path).get(kind, set())):
        return f"tests/{name} has no test {part}"
    return None


def faults_of(what, tests):
    return [f"{what}: {fault}" for fault in map(fault_of, map(str.strip, tests.split(","))) if fault]


def main():
    faults, states = [], Counter()
    features = list(rows("inventory.list"))
    for feature, state, where in features:
        states[state] += 1
        if state == "works":
            faults += faults_of(feature, where)
        elif state != "n/a":
            faults.append(f"{feature}: {state} is neither works nor n/a")
        elif len(where) < 10:
            faults.append(f"{feature}: n/a needs a reason")
    ids = Counter(feature for feature, *_ in features)
    faults += [f"{feature} stands there {count} times" for feature, count in ids.items() if count > 1]
    if len(ids) != FEATURES:
        faults.append(f"{len(ids)} features; there are {FEATURES}")

    checks = list(rows("durable.list"))
    if [number for number, _ in checks] != CHECKS:
        faults.append(f"durable.list has the checks {[number for number, _ in checks]}, not {CHECKS}")
    wrong = [found for found in (faults_of(f"check {number}", tests) for number, tests in checks) if found]
    faults += sum(wrong, [])
    for fault in faults:
        print("FAIL", fault)
    print(f"features {len(ids)} works {states['works']} n/a {states['n/a']}, checks {len(checks)} tested {len(checks) - len(wrong)}, "
          f"faults {len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Counts the features of the five seeds and the checks of what lasts, and fails when one has no test: tests/seeds/inventory.py

`inventory.list` has each feature with its test or with the reason why it is none of the daemon's, `durable.list` each check by its number.
A test counts when it is there: a row of a table, a method of a class, a program. Whether it passes, its own suite says.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
FEATURES = 240
CHECKS = [*map(str, range(1, 17)), "search"]


def rows(path):
    """The columns of each line that is no comment."""
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield [part.strip() for part in line.split("|")]


def methods(path, known={}):
    """`Class.method` of a Python file, with those that a class has of another one in the file."""
    if path not in known:
        classes = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}

        def of(node):
            found = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            for base in node.bases:
                if isinstance(base, ast.Name) and base.id in classes:
                    found |= of(classes[base.id])
            return found

        known[path] = {f"{name}.{method}" for name, node in classes.items() for method in of(node)}
    return known[path]


def fault_of(test, feature):
    """Why a test cannot be found; nothing: it is there."""
    name, _, part = test.partition(" ")
    path = TESTS / name
    if not path.is_file():
        return f"tests/{name} is no file"
    if path.suffix == ".table":
        row = part or feature
        return None if any(columns[0] == row for columns in rows(path)) else f"tests/{name} has no row {row}"
    if part and part not in methods(path):
        return f"tests/{name} has no {part}"
    return None


def waiting(test, feature):
    """What the row of a table says is not built yet."""
    name, _, part = test.partition(" ")
    if not name.endswith(".table"):
        return ""
    said = next(columns for columns in rows(TESTS / name) if columns[0] == (part or feature))
    return said[3].removeprefix("waits:").strip() if len(said) > 3 else ""


def main():
    faults, waits, counts = [], [], Counter()
    for feature, state, where in rows(HERE / "inventory.list"):
        if where.startswith("waits:"):
            counts["waits"] += 1
            waits.append(f"{feature}: {where.removeprefix('waits:').strip()}")
        elif state == "n/a":
            counts[state] += 1
            if len(where) < 10:
                faults.append(f"{feature}: n/a needs a reason")
        elif state == "works":
            fault = fault_of(where, feature)
            part = "" if fault else waiting(where, feature)
            counts["waits" if part else state] += 1
            if fault:
                faults.append(f"{feature}: {fault}")
            if part:
                waits.append(f"{feature}: {part}")
        else:
            faults.append(f"{feature}: {state} is neither works nor n/a")
    ids = Counter(columns[0] for columns in rows(HERE / "inventory.list"))
    faults += [f"{feature} stands there {count} times" for feature, count in ids.items() if count > 1]
    if len(ids) != FEATURES:
        faults.append(f"{len(ids)} features; there are {FEATURES}")

    checks, tested = [columns + [""] for columns in rows(HERE / "durable.list")], 0
    if [columns[0] for columns in checks] != CHECKS:
        faults.append(f"durable.list has the checks {[columns[0] for columns in checks]}, not {CHECKS}")
    for number, tests, wait, *_ in checks:
        found = [fault_of(test.strip(), "") for test in tests.split(",") if test.strip() != "-"]
        faults += [f"check {number}: {fault}" for fault in found if fault]
        if wait:
            waits.append(f"check {number}: {wait.removeprefix('waits:').strip()}")
        elif not found:
            faults.append(f"check {number} has no test")
        else:
            tested += 1
    for wait in waits:
        print("waits", wait)
    for fault in faults:
        print("FAIL", fault)
    print(f"features {len(ids)} works {counts['works']} n/a {counts['n/a']} waits {counts['waits']}, "
          f"checks {len(checks)} tested {tested}, faults {len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

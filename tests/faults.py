#!/usr/bin/env python3
"""Counts the faults of version 0.1.0 that have a test: prints `faults 59 tested 59`.

An outside examination of 0.1.0 found 59 numbered faults. Each one that was mended left a test whose name holds its number: `test_fault_13_…` in
Python, `"fault 13: …"` in doctest. Exits with 1 when a number has none. `-v` names the tests of each.
"""

import re
import sys
from pathlib import Path

FAULTS = 59
NAMED = re.compile(r'def (test_fault_(\d+)\w*)|TEST_CASE\(\s*"(fault (\d+)[^"]*)')


def tests_by_fault(folder):
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".cpp")):
        for match in NAMED.finditer(path.read_text()):
            number = int(match[2] or match[4])
            found.setdefault(number, []).append(f"{path.relative_to(folder)}: {match[1] or match[3]}")
    return found


def main():
    tests = tests_by_fault(Path(__file__).resolve().parent)
    if "-v" in sys.argv[1:]:
        for number in sorted(tests):
            print(number, *tests[number], sep="\n    ")
    missing = [number for number in range(1, FAULTS + 1) if number not in tests]
    print(f"faults {FAULTS} tested {FAULTS - len(missing)}")
    if missing:
        sys.exit(f"no test names fault {', '.join(map(str, missing))}")


if __name__ == "__main__":
    main()

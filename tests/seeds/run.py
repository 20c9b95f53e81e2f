#!/usr/bin/env python3
"""Holds a binary against the features of the seeds: tests/seeds/run.py --binary PATH [-k PART]

A table has a row for each feature, with the check that runs against the daemon: a method in the module beside it. `003.table` has those of
seed 003 (`checks_003.py`), `context.table` those of all seeds about what a model is shown, `runs.table` those about runs, approvals and queues, `hooks.table` those about hooks, `portability.table` those about names, resuming, import and export.
`003.fields` has a line for each field of an entry.
The last line of a table counts its rows; the exit code is 1 when any failed.
"""

import argparse
import importlib
import os
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # harness

import fields  # noqa: E402
from harness import sessiond  # noqa: E402


class Row:
    """One line: id of the feature | lines of the seed | check, or - | `waits: reason` where a part of it is not built yet"""

    def __init__(self, line):
        self.id, self.lines, self.check, waits = (part.strip() for part in (line + "|").split("|")[:4])
        self.waits = waits.removeprefix("waits:").strip()

    def __str__(self):
        return self.id


def read(path, kind):
    if not path.exists():
        return []
    return [kind(line) for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def attempt(name, case, call):
    """Runs a check; False and the reason when it fails."""
    case._others = []
    try:
        try:
            call(case)
        finally:
            case.doCleanups()
        return True
    except Exception:
        print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
        return False


def check_fields(kind, path, part):
    chosen = [field for field in read(path, fields.Field) if part in field.name]
    passed = sum(attempt(f"field {field}", kind(), field.check) for field in chosen)

    def foreign(case):
        wrong = fields.check_foreign(case, chosen)
        assert not wrong, "\n".join(wrong)

    good = attempt("fields that a foreign program wrote", kind(), foreign) if chosen else True
    print(f"fields {len(chosen)} passed {passed}", flush=True)
    return good and passed == len(chosen)


def check_rows(kind, path, part):
    chosen = [row for row in read(path, Row) if part in row.id]
    run = [row for row in chosen if row.check != "-"]
    passed = sum(attempt(f"row {row}", kind(), getattr(kind, row.check)) for row in run)
    for row in chosen:
        if row.waits:
            print(f"waits {row.id}: {row.waits}")
    print(f"rows {len(run)} passed {passed}", flush=True)
    return passed == len(run)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("-k", dest="part", default="", help="only features and fields whose name has this")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    if not os.access(sessiond.binary(), os.X_OK):
        parser.error(f"{sessiond.binary()} is no program; build it or give --binary")
    good = True
    for table in sorted(HERE.glob("*.table")):
        kind = importlib.import_module("checks_" + table.stem).Checks
        kind.begin(sessiond.Daemon(kind.config))
        good = check_fields(kind, table.with_suffix(".fields"), options.part) and good
        good = check_rows(kind, table, options.part) and good
        kind.doClassCleanups()
        for failure in kind.tearDown_exceptions:
            print("FAIL at the end:", failure[1], flush=True)
            good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

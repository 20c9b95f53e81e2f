#!/usr/bin/env python3
"""Holds a binary against the features of the seeds: tests/seeds/run.py --binary PATH [-k PART]

A table has a row for each feature, with the check that runs against the daemon: a method in the module beside it. `003.table` has those of
seed 003 (`checks_003.py`), `context.table` those of all seeds about what a model is shown, `runs.table` those about runs, approvals and queues, `hooks.table` those about hooks, `portability.table` those about names, resuming, import and export.
`003.fields` has a line for each field of an entry.
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
from harness.report import Report  # noqa: E402


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


def attempt(report, name, case, call):
    """Runs a check. When the end of a table is run again, its checks run too."""
    if not report.wants(name, f"{name.split()[0]} at the end"):
        return
    case._others = []
    try:
        try:
            call(case)
        finally:
            clean = case.doCleanups()
        assert clean, "a daemon of this check did not end as it should"
        report.passed(name)
    except Exception as fault:  # noqa: BLE001: whatever it is, the others go on
        report.failed(name, f"{fault!r}\n{traceback.format_exc()}")


def check_fields(report, kind, path, part):
    chosen = [field for field in read(path, fields.Field) if part in field.name]
    for field in chosen:
        attempt(report, f"{path.stem} field {field}", kind(), field.check)

    def foreign(case):
        wrong = fields.check_foreign(case, chosen)
        assert not wrong, "\n".join(wrong)

    if chosen:
        attempt(report, f"{path.stem} fields that a foreign program wrote", kind(), foreign)


def check_rows(report, kind, path, part):
    for row in [row for row in read(path, Row) if part in row.id]:
        if row.check != "-":
            attempt(report, f"{path.stem} {row}", kind(), getattr(kind, row.check))
        if row.waits:
            print(f"waits {row.id}: {row.waits}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("-k", dest="part", default="", help="only features and fields whose name has this")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    if not os.access(sessiond.binary(), os.X_OK):
        parser.error(f"{sessiond.binary()} cannot be executed; build it or give --binary")
    report = Report()
    for table in sorted(HERE.glob("*.table")):
        kind = importlib.import_module("checks_" + table.stem).Checks
        kind.begin(sessiond.Daemon(kind.config))
        check_fields(report, kind, table.with_suffix(".fields"), options.part)
        check_rows(report, kind, table, options.part)
        kind.doClassCleanups()
        report.judge(f"{table.stem} at the end", [failure[1] for failure in kind.tearDown_exceptions])
    sys.exit(report.finish())


if __name__ == "__main__":
    main()

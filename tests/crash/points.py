#!/usr/bin/env python3
"""Kill -9 at every named point between two steps (store/fault_point.hpp), and again while it recovers.

    tests/crash/points.py --binary PATH [--without PATH] [-k PATTERN] [-j N]

The binary is built with SESSIOND_FAULT_POINTS; that of --without must not contain one of their names.
A case is a way to a point. A client posts, patches, resets and deletes; the daemon dies at the point, comes up, dies at another one while
it recovers, and comes up again. Then: what was acknowledged is there once, a request that was not answered is settled by its retry, an
answer comes again for its key, sessions.json agrees with the API, archives have the names that events tell, the event stream goes on
without a hole, nothing temporary is left, and one more start changes not a byte. A point that no case reaches is a failure.
"""

import argparse
import concurrent.futures
import os
import re
import sys
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness
import blob_cases  # noqa: E402
import context_cases  # noqa: E402
import delivery_cases  # noqa: E402
import early_cases  # noqa: E402
import log_cases  # noqa: E402
import maintenance_cases  # noqa: E402
import point_cases  # noqa: E402
import policy_cases  # noqa: E402
import run_cases  # noqa: E402
import search_cases  # noqa: E402
import transfer_cases  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.sessiond import REPO  # noqa: E402

WITHOUT, REACHED = "the release knows no point", "each point has a case"
POINTS = re.findall(r'"([a-z_]+\.[a-z_]+)"', (REPO / "store/fault_point.hpp").read_text())


def run_case(kind, point, turn):
    """(where it died again, faults, its log)"""
    case = None
    try:
        case = kind(point, turn)
        faults = case.run()
    except Exception:  # noqa: BLE001: whatever it is, the others go on
        faults = [traceback.format_exc()]
    finally:
        log = [] if case is None else case.daemon.stderr
        if case:
            case.daemon.close()
    return "" if case is None else f"then {case.then}", faults, log


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="a sessiond with fault points (default build/asan/sessiond)",
                        default=str(REPO / "build/asan/sessiond"))
    parser.add_argument("--without", help="a release binary, which must not know a single point's name")
    parser.add_argument("-k", default="", help="only cases and points whose name contains this")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    options = parser.parse_args()
    os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    report = Report()
    runs = [(kind, point, turn) for kind in (*point_cases.CASES, *maintenance_cases.CASES, *context_cases.CASES,
                                 *run_cases.CASES, *delivery_cases.CASES, *early_cases.CASES, *policy_cases.CASES,
                                 *transfer_cases.CASES, *blob_cases.CASES, *log_cases.CASES, *search_cases.CASES) for turn, point in enumerate(kind.points)
            if options.k in f"{kind.__name__} {point}"]
    if options.without and report.wants(WITHOUT):
        program = Path(options.without).read_bytes()
        report.judge(WITHOUT, [f"{options.without} contains {name}" for name in [*POINTS, "SESSIOND_FAULT"] if name.encode() in program])
    if not options.k and report.wants(REACHED):
        report.judge(REACHED, [f"no case gets to {point}" for point in sorted(set(POINTS) - {point.split(":")[0] for _, point, _ in runs})])
    runs = [(kind, point, turn) for kind, point, turn in runs if report.wants(f"{kind.__name__} {point}")]
    with concurrent.futures.ThreadPoolExecutor(report.jobs(options.j)) as pool:
        for (kind, point, _), (then, faults, log) in zip(runs, pool.map(lambda run: run_case(*run), runs)):
            report.judge(f"{kind.__name__} {point}", faults and [then, *faults[:10], "--- its log", *log[-30:], "---"])
    sys.exit(report.finish())


if __name__ == "__main__":
    main()

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
import time
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness
import blob_cases  # noqa: E402
import context_cases  # noqa: E402
import delivery_cases  # noqa: E402
import log_cases  # noqa: E402
import maintenance_cases  # noqa: E402
import point_cases  # noqa: E402
import run_cases  # noqa: E402
import search_cases  # noqa: E402
import transfer_cases  # noqa: E402
from harness.sessiond import REPO  # noqa: E402

POINTS = re.findall(r'"([a-z_]+\.[a-z_]+)"', (REPO / "store/fault_point.hpp").read_text())


def run_case(kind, point, turn):
    began = time.monotonic()
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
    then = "" if case is None else f" then {case.then}"
    return f"{kind.__name__} {point}{then} ({time.monotonic() - began:.1f} s)", faults, log


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="a sessiond with fault points (default build/asan/sessiond)",
                        default=str(REPO / "build/asan/sessiond"))
    parser.add_argument("--without", help="a release binary, which must not know a single point's name")
    parser.add_argument("-k", default="", help="only cases and points whose name contains this")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    options = parser.parse_args()
    os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    runs = [(kind, point, turn) for kind in (*point_cases.CASES, *maintenance_cases.CASES, *context_cases.CASES,
                                 *run_cases.CASES, *delivery_cases.CASES,
                                 *transfer_cases.CASES, *blob_cases.CASES, *log_cases.CASES, *search_cases.CASES) for turn, point in enumerate(kind.points)
            if options.k in f"{kind.__name__} {point}"]
    reached, failed = set(), 0
    if options.without:
        program = Path(options.without).read_bytes()
        for name in (p for p in [*POINTS, "SESSIOND_FAULT"] if p.encode() in program):
            failed += 1
            print(f"FAIL {options.without} contains {name}")
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for name, faults, log in pool.map(lambda run: run_case(*run), runs):
            if not faults:
                reached.add(name.split()[1].split(":")[0])
            failed += bool(faults)
            if faults:
                print(f"FAIL {name}", *(f"  FAULT {f}" for f in faults[:10]), "--- its log", *log[-30:], "---", sep="\n", flush=True)
            elif options.k:
                print(f"ok   {name}", flush=True)
    missing = [] if options.k else sorted(set(POINTS) - reached)
    for point in missing:
        print(f"FAIL no case gets to {point}")
    print(f"points {len(POINTS)} reached {len(reached)} runs {len(runs)} failures {failed + len(missing)}")
    sys.exit(1 if failed or missing or not runs else 0)


if __name__ == "__main__":
    main()

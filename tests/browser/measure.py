#!/usr/bin/env python3
"""Measures the dashboard in headless Chromium: tests/browser/measure.py [--binary PATH] [PART …]

Prints numbers and decides nothing. `make test` does not run it: the numbers depend on what else the machine does.

  cold      from the start of `sessiond serve --demo` until the overview is usable, and the bytes sent until then
  flood     how soon a posted message is drawn; the long tasks of --seconds at 500 messages a second; the heap at each minute
  sessions  the overview with --sessions: opening, scrolling to the end, filtering, a message to the oldest; the long tasks of each
"""

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # harness

from harness.npm import install  # noqa: E402
from harness.sessiond import Daemon, binary  # noqa: E402
from crowd import write_crowd  # noqa: E402
from scenario import play  # noqa: E402


def flood(folder, options):
    with Daemon() as daemon:
        play(folder, "flood", f"http://127.0.0.1:{daemon.port}", daemon.admin_token, SECONDS=str(options.seconds))


def sessions(folder, options):
    daemon = Daemon()
    write_crowd(daemon.state, options.sessions)
    with daemon:
        play(folder, "crowd", f"http://127.0.0.1:{daemon.port}", daemon.admin_token, SESSIONS=str(options.sessions))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", default=["cold", "flood", "sessions"])
    parser.add_argument("--binary", help="the sessiond to measure (default build/release/sessiond)")
    parser.add_argument("--seconds", type=int, default=60, help="of the flood; 600 shows whether memory is flat")
    parser.add_argument("--sessions", type=int, default=100_000)
    options = parser.parse_args()
    os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary or binary())
    parts = {"cold": lambda folder, _: play(folder, "cold", "", "", SESSIOND_BINARY=binary()), "flood": flood, "sessions": sessions}
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no part is named {', '.join(sorted(unknown))}")
    folder = install(HERE)
    for name in options.parts:
        print(f"{name}:", flush=True)
        parts[name](folder, options)


if __name__ == "__main__":
    main()

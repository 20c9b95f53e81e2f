#!/usr/bin/env python3
"""Searches random stores, damaged indexes, and indexes that were killed while they were made:
tests/search/run.py --binary PATH [-k PATTERN] [--stores 1000] [--kills 50] [-v]

Without --stores and --kills a slice is taken. Prints and exits as tests/api/run.py does.
"""

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # harness

from harness import runner  # noqa: E402

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--stores", default="")
    parser.add_argument("--kills", default="")
    ours, rest = parser.parse_known_args()
    for name, value in (("SESSIOND_SEARCH_STORES", ours.stores), ("SESSIOND_SEARCH_KILLS", ours.kills)):
        if value:
            os.environ[name] = value
    sys.argv[1:] = rest
    runner.main(HERE, __doc__)

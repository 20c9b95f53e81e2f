#!/usr/bin/env python3
"""Crosses what ends, copies, moves or replaces a session with every state that one can be in: tests/crossings/run.py --binary PATH [-k PATTERN] [--part N/M] [-v]

Each cell asks the same (judge.py): is every acknowledged text where the contract says, and there once; has every run ended or
does it go on; is every delivery kept; does a token of another scope see nothing of it. A cell may be refused, with the code
that operations.py says. --part 1/4 takes every fourth cell. Prints and exits as tests/api/run.py does.
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
    parser.add_argument("--part")
    ours, rest = parser.parse_known_args()
    if ours.part:
        os.environ["SESSIOND_CROSSINGS_PART"] = ours.part
    sys.argv[1:] = rest
    runner.main(HERE, __doc__)

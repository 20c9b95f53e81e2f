#!/usr/bin/env python3
"""Runs the API tests against a binary: tests/api/run.py --binary PATH [-k PATTERN] [-j N]"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # harness

from harness import runner  # noqa: E402

if __name__ == "__main__":
    runner.main(HERE, __doc__)

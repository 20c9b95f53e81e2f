#!/usr/bin/env python3
"""Runs real clients of the event stream against a binary: tests/browser/run.py --binary PATH [-k PATTERN] [-v]

Headless Chromium's EventSource, and the npm clients of package.json in node: of event streams, and of POST /mcp. Prints and exits as tests/api/run.py does.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # harness

from harness import runner  # noqa: E402

if __name__ == "__main__":
    runner.main(HERE, __doc__)

#!/usr/bin/env python3
"""Shows random transcripts to models: tests/views/run.py --binary PATH [-k PATTERN] [--count N] [--seed N] [-v]

The daemon's view=llm becomes request bodies of four providers, checked against the types of their npm packages;
properties of the view; its estimate of tokens beside a tokenizer; OpenClaw's session manager on the same files. --count is
the number of transcripts of each part. Prints and exits as tests/api/run.py does, and a line of counts for each part.
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
    parser.add_argument("--count")
    parser.add_argument("--seed")
    ours, rest = parser.parse_known_args()
    for name, value in vars(ours).items():
        if value:
            os.environ[f"SESSIOND_VIEWS_{name.upper()}"] = str(value)
    sys.argv[1:] = rest
    runner.main(HERE, __doc__)

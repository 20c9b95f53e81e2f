"""What the rows of hooks.table try: tests of tests/api/test_hooks.py, most of them by the contract's numbers."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "api"))

import test_hooks  # noqa: E402

Checks = test_hooks.Hooks

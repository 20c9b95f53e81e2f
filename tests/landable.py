#!/usr/bin/env python3
"""Runs what the integration runs: .ci/run on a clean clone of HEAD. `make landable` calls it.

The clone is build/clone, with ../shared beside it as a link when it is there; it shares the compiler's cache. When .ci/run passes, build/landable
gets the id of the tree that was run (`git rev-parse HEAD^{tree}`); when it fails, that file stays as it was. What is not committed would
not land: it is refused before anything runs. build/unsteady goes into the clone and comes back: tests/run.py judges by it which tests were
unsteady too often.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
CLONE = BUILD / "clone"


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main():
    if changes := git("status", "--porcelain"):
        sys.exit(f"not committed, so it would not land:\n{changes}\nbuild/landable stays as it was")
    commit, tree = git("rev-parse", "HEAD"), git("rev-parse", "HEAD^{tree}")
    shutil.rmtree(CLONE, ignore_errors=True)
    BUILD.mkdir(exist_ok=True)
    git("clone", "--quiet", "--no-hardlinks", str(ROOT), str(CLONE))
    subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=CLONE, check=True)
    shared = BUILD / "shared"  # beside the clone
    shared.unlink(missing_ok=True)
    if (ROOT.parent / "shared").exists():
        shared.symlink_to(ROOT.parent / "shared")
    unsteady, of_clone = BUILD / "unsteady", CLONE / "build" / "unsteady"
    if unsteady.exists():
        of_clone.parent.mkdir(exist_ok=True)
        shutil.copyfile(unsteady, of_clone)
    # Nothing of this shell or of the make that called us: JOBS=…, -k and SESSIOND_TEST_SLOW are not the integration's.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SESSIOND_", "MAKE", "MFLAGS", "GIT_"))}
    passed = subprocess.run([CLONE / ".ci" / "run"], cwd=CLONE, env={**env, "SESSIOND_LANDABLE": "1"}).returncode == 0
    if of_clone.exists():
        shutil.copyfile(of_clone, unsteady)
    if not passed:
        sys.exit(f"{commit[:12]} failed; its logs are in {CLONE.relative_to(ROOT)}/build/test; build/landable stays as it was")
    (BUILD / "landable").write_text(tree + "\n")
    print(f"{commit[:12]} is landable: tree {tree}")


if __name__ == "__main__":
    main()

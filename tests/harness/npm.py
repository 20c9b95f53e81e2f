"""Packages of npm, of the versions in a folder's package-lock.json, below build/ and beside copies of its scripts."""

import filecmp
import shutil
import subprocess
import threading
import unittest
from pathlib import Path

from harness.sessiond import REPO


_installing = threading.Lock()  # classes run side by side


def install(folder: Path) -> Path:
    """`npm ci` of a test folder, unless that has been done; where it is.

    SkipTest only where the registry cannot be reached.
    """
    with _installing:
        return _install(folder)


def _install(folder):
    files = ["package.json", "package-lock.json"]
    installed = REPO / "build" / folder.name
    installed.mkdir(parents=True, exist_ok=True)
    for script in [*folder.glob("*.mjs"), *folder.glob("*.ts")]:
        shutil.copy(script, installed)
    done = installed / "installed"
    if done.exists() and all(filecmp.cmp(folder / file, installed / file, False) for file in files):
        return installed
    for file in files:
        shutil.copy(folder / file, installed)
    done.unlink(missing_ok=True)
    npm = lambda *arguments: subprocess.run(["npm", *arguments], cwd=installed, capture_output=True, text=True,
                                            timeout=600)
    said = npm("ci", "--no-audit", "--no-fund", "--ignore-scripts")
    if said.returncode != 0:
        if npm("ping", "--fetch-retries=0").returncode != 0:
            raise unittest.SkipTest("SKIPPED: npm's registry cannot be reached, so what needs its packages in "
                                    f"{folder.relative_to(REPO)} is not tested: {said.stderr.strip()[:300]}")
        raise AssertionError(f"npm ci: {said.stdout}{said.stderr}")
    done.touch()
    return installed

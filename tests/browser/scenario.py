"""Plays a scenario of the dashboard: dashboard.mjs in node, which drives headless Chromium."""

import json
import os
import subprocess

from chromium import program
from harness.sessiond import SLOW


def play(folder, scenario, url, token, restart=None, **env):
    """Runs `see_<scenario>.mjs`, prints what it says, and calls `restart` when it asks for a daemon that was killed.

    Raises AssertionError with what the scenario wrote when it fails.
    """
    environment = {**os.environ, "SESSIOND_URL": url, "SESSIOND_TOKEN": token, "CHROMIUM": program(), "SESSIOND_TEST_SLOW": str(SLOW), **env}
    with subprocess.Popen(["node", str(folder / "dashboard.mjs"), scenario], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            for line in process.stdout:
                told = json.loads(line)
                if "say" in told:
                    print("     dashboard:", told["say"], flush=True)
                elif told.get("do") == "restart":
                    restart()
                    process.stdin.write("done\n")
                    process.stdin.flush()
            said = process.stderr.read()
            if process.wait() != 0:
                raise AssertionError(said)
        finally:
            process.kill()

"""Headless Chromium over the DevTools protocol: `--remote-debugging-pipe`, JSON that ends in NUL, on the browser's
descriptors 3 (it reads) and 4 (it writes)."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from harness.sessiond import SLOW

ARGUMENTS = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run", "--disable-gpu",
             "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--disable-extensions", "--window-size=800,600"]


def program():
    return shutil.which("chromium")


class Chromium:
    """One browser with one page, in a profile of its own."""

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="sd-chromium-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        env = {**os.environ, "HOME": self.home, "XDG_CONFIG_HOME": self.home, "XDG_CACHE_HOME": self.home}
        with open(os.path.join(self.home, "log"), "wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "chromium", program(), *ARGUMENTS,
                 "--user-data-dir=" + os.path.join(self.home, "profile"), "about:blank"],
                pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                start_new_session=True)
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._ids, self._session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank", timeout=60)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method, timeout=20.0, **params):
        """A command's result; what the browser tells besides is not listened to."""
        self._ids += 1
        message = {"id": self._ids, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self._out, rest):]
        deadline = time.monotonic() + timeout * SLOW
        while True:
            answer = self._read(deadline, method)
            if answer.get("id") != self._ids:
                continue
            if "error" in answer:
                raise AssertionError(f"{method}: {answer['error']}")
            return answer["result"]

    def _read(self, deadline, what):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            piece = os.read(self._in, 1 << 20) if ready else b""
            if not piece:
                raise AssertionError(f"chromium {'ended' if ready else 'did not answer'} at {what}: " + self.log()[-2000:])
            self._rest += piece
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def log(self):
        with open(os.path.join(self.home, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def forget(self):
        """Leaves the page and every cookie, so that a test does not begin logged in as the one before it."""
        self.call("Network.clearBrowserCookies")
        self.open("about:blank")

    def open(self, url):
        said = self.call("Page.navigate", url=url)
        assert not said.get("errorText"), said
        deadline = time.monotonic() + 20 * SLOW
        while self.run("document.readyState") != "complete" or self.run("location.href") != url:
            assert time.monotonic() < deadline, f"{url} does not load"
            time.sleep(0.02)

    def run(self, script):
        """The value of an expression (a promise is waited for) in the page."""
        got = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise AssertionError(f"in the page: {got['exceptionDetails']}")
        return got["result"].get("value")

    def screenshot(self, path):
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        with open(path, "wb") as file:
            file.write(data)
        return data

    def close(self):
        try:
            self._session = None
            self.call("Browser.close", timeout=5)
            self.process.wait(10 * SLOW)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, 9)  # the browser's own session: nobody else is in it
            self.process.wait()
        finally:
            os.close(self._in)
            os.close(self._out)
            shutil.rmtree(self.home, ignore_errors=True)

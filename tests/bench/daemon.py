"""A daemon of the bench's own: release binary, state directory on the disk that is measured, a port the kernel chooses."""

import http.client
import json
import os
import re
import subprocess
import threading
import time
import urllib.parse

LISTENING = re.compile(r"listening.*127\.0\.0\.1:(\d+)")


def end(process):
    """Asks it to, waits for 15 s, then kills it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def need(*binaries):
    for binary in binaries:
        if not os.access(binary, os.X_OK):
            raise SystemExit(f"{binary} is not there; build the release preset first")


class Beside:
    """Runs in a thread of its own while in scope."""

    def __init__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


class Daemon:
    """Starts, or starts again where `directory` holds a state already. `more` goes into its configuration."""

    def __init__(self, binary, directory, more=None):
        self.state = os.path.join(directory, "state")
        self.log_path = os.path.join(directory, "daemon.log")
        config_home = os.path.join(directory, "config")
        self.token_file = os.path.join(config_home, "sessiond", "admin.token")
        os.makedirs(config_home, 0o700, exist_ok=True)
        config = os.path.join(directory, "sessiond.json")
        with open(config, "w", encoding="utf-8") as out:
            json.dump({"stateDir": self.state, "listen": {"tcp": "127.0.0.1:0", "unix": None}, **(more or {})}, out)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SESSIOND_", "OPENCLAW_"))}
        environment["XDG_CONFIG_HOME"] = config_home
        started = time.monotonic()
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([binary, "serve", "--config", config], env=environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.port = self._wait_for_port()
            with open(self.token_file, encoding="utf-8") as token:
                self.token = token.read().strip()
            self._wait_until_ready()
            self.ready_s = time.monotonic() - started  # from exec to the first 200 of /readyz
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def check_alive(self):
        if self.process.poll() is not None:
            raise SystemExit(f"the daemon ended with {self.process.returncode}:\n{self.log()[-4000:]}")

    def _wait_for_port(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            self.check_alive()
            found = LISTENING.search(self.log())
            if found:
                return int(found.group(1))
            time.sleep(0.005)
        raise SystemExit(f"the daemon named no port within 30 s:\n{self.log()[-4000:]}")

    def _wait_until_ready(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            self.check_alive()
            if self.request("GET", "/readyz")[0] == 200:
                return
            time.sleep(0.005)
        raise SystemExit(f"the daemon was not ready within 30 s:\n{self.log()[-4000:]}")

    def request(self, method, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, headers={"Authorization": f"Bearer {self.token}"})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def session(self, key):
        status, body = self.request("GET", "/v1/agents/main/sessions/" + urllib.parse.quote(key))
        if status != 200:
            raise SystemExit(f"GET of {key}: {status} {body[:300]!r}")
        return json.loads(body)

    def sessions_file(self):
        return os.path.join(self.state, "agents", "main", "sessions", "sessions.json")

    def stop(self):
        end(self.process)


class CheckpointCounter(Beside):
    """Counts how often sessions.json was replaced while in scope, by looking every 20 ms."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.count = 0

    def _identity(self):
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_ctime_ns, status.st_size

    def _run(self):
        last = self._identity()
        while not self._stop.wait(0.02):
            now = self._identity()
            self.count += now != last
            last = now

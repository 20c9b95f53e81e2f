"""Starts the real daemon in a world of its own (state, HOME, XDG_CONFIG_HOME in one temporary directory) and talks to it.

SESSIOND_BINARY names the program (else build/release/sessiond of this tree); SESSIOND_TEST_SLOW multiplies every timeout,
for sanitizer builds; SESSIOND_TEST_ENCRYPT=1 turns encryption on. Nothing here knows how the daemon works inside: only its
command line, its log line `listening`, its sockets and its files.
"""

import atexit
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path
from urllib.parse import quote

from harness.report import SANITIZER
from harness.sealed import plain_store, write_keys
from harness.sse import EventStream

REPO = Path(__file__).resolve().parents[2]
THREADS = int(os.environ.get("SESSIOND_TEST_THREADS", "0"))  # network.threads of every daemon; 0: the default
ENCRYPT = os.environ.get("SESSIOND_TEST_ENCRYPT", "0") == "1"  # every daemon in store.mode own gets a key file
SLOW = float(os.environ.get("SESSIOND_TEST_SLOW", "1"))
EVENT_ID = re.compile(r"^[0-9a-f]{8}-\d+$")


def binary() -> str:
    return os.environ.get("SESSIOND_BINARY") or str(REPO / "build" / "release" / "sessiond")


def uid(length=12) -> str:
    return uuid.uuid4().hex[:length]


def S(key: str, agent="main", *more: str) -> str:
    """The path of a session: S("global", "main", "messages") -> /v1/agents/main/sessions/global/messages"""
    return "/".join([f"/v1/agents/{quote(agent, safe='')}/sessions/{quote(key, safe=':')}", *more])


class Reply:
    """(status, headers, json) of an answer; unpacks as these three. `raw` are the body's bytes."""

    def __init__(self, status, headers, raw, closed=False):
        self.status, self.headers, self.raw, self.closed = status, headers, raw, closed

    @property
    def json(self):
        kind = self.headers.get("Content-Type") or ""
        return json.loads(self.raw) if self.raw and "json" in kind and "ndjson" not in kind else None

    @property
    def etag(self):
        return self.headers.get("ETag")

    def __iter__(self):
        return iter((self.status, self.headers, self.json))

    def __repr__(self):
        return f"<{self.status} {self.raw[:600]!r}>"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """One keep-alive connection with one token; for one thread. Reconnects after the daemon was restarted."""

    def __init__(self, daemon, token=None, unix=False, timeout=30.0):
        self.daemon, self.token, self._unix, self._timeout = daemon, token, unix, timeout * SLOW
        self._connection, self._to = None, None

    def clone(self, token=None):
        return Client(self.daemon, token or self.token, self._unix)

    def request(self, method, path, body=None, headers=None, **named) -> Reply:
        """`body`: bytes as they are, anything else as JSON. Named arguments are headers: if_match='"r1"', idempotency_key="k"."""
        head = {k.replace("_", "-").title(): str(v) for k, v in named.items() if v is not None}
        head.update(headers or {})
        if self.token and "Authorization" not in head:
            head["Authorization"] = "Bearer " + self.token
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None and "Content-Type" not in head:
            head["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        head = {k: v for k, v in head.items() if v != ""}  # "" takes a default header away
        to = self.daemon.unix if self._unix else self.daemon.port
        if self._connection is None or self._to != (to, self.daemon.starts) or self._closed_by_peer():
            self.close()
            self._connection = (UnixConnection(to, self._timeout) if self._unix
                                else http.client.HTTPConnection("127.0.0.1", to, timeout=self._timeout))
            self._to = (to, self.daemon.starts)
        try:
            self._connection.request(method, path, body=body, headers=head)
            response = self._connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def _closed_by_peer(self):
        sock = self._connection.sock
        if sock is None:
            return False
        poll = select.poll()  # select() knows no descriptors above 1023, and crowds of streams run beside us
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))  # nothing is owed to us: readable means closed

    def get(self, path, **named):
        return self.request("GET", path, **named)

    def post(self, path, body=None, **named):
        return self.request("POST", path, body, **named)

    def put(self, path, body=None, **named):
        return self.request("PUT", path, body, **named)

    def patch(self, path, body=None, **named):
        return self.request("PATCH", path, body, **named)

    def delete(self, path, **named):
        return self.request("DELETE", path, **named)

    def stream(self, path="/v1/events", last_event_id=None, headers=None) -> EventStream:
        head = {"Accept": "text/event-stream", **(headers or {})}
        if self.token:
            head["Authorization"] = "Bearer " + self.token
        if last_event_id is not None:
            head["Last-Event-ID"] = last_event_id
        return EventStream("127.0.0.1", self.daemon.port, path, head, SLOW)

    def close(self):
        if self._connection is not None:
            self._connection.close()
        self._connection = None


_running = set()


@atexit.register
def _end_all():
    """What an interrupted run has started is ended with it."""
    for daemon in list(_running):
        daemon.close()


class Daemon:
    """A daemon with a state directory of its own, or on `state`, which is then left alone at the end."""

    def __init__(self, config=None, state=None, env=None, arguments=(), umask=-1):
        self.home = Path(tempfile.mkdtemp(prefix="sd-"))
        self.state = Path(state) if state else self.home / "state"
        self.unix = str(self.home / "s.sock")
        self.config_file = self.home / "sessiond.json"
        self.config = {"stateDir": str(self.state), "listen": {"tcp": "127.0.0.1:0", "unix": self.unix}}
        if THREADS:
            self.config["network"] = {"threads": THREADS}
        for name, value in (config or {}).items():
            section = self.config.get(name)
            self.config[name] = {**section, **value} if isinstance(section, dict) and isinstance(value, dict) else value
        if ENCRYPT:
            self.encrypt()
        self.config_file.write_text(json.dumps(self.config, indent=1))
        self.env = {k: v for k, v in os.environ.items()
                    if k not in ("SESSIOND_CONFIG", "SESSIOND_STATE_DIR", "OPENCLAW_SESSION_CACHE_TTL_MS")}
        self.env.update({"HOME": str(self.home / "home"), "XDG_CONFIG_HOME": str(self.home / "config"), "TZ": "UTC"},
                        **(env or {}))
        (self.home / "home").mkdir()
        self.arguments, self.umask = list(arguments), umask
        self.wrapper = []  # a command that execs the rest of its arguments
        self.inherited = []  # descriptors that it gets
        self.process, self.port, self.starts = None, None, 0
        self.stderr, self.stdout = [], []  # every line, over all starts
        self._readers = []

    def encrypt(self):
        """Names a key file in the configuration, where the daemon takes one. It stays as it is over restarts."""
        store = self.config.get("store")
        if store is not None and not isinstance(store, dict) or (store or {}).get("mode") == "shared" or "encryption" in (store or {}):
            return
        keys = self.home / "keys.json"
        if not keys.exists():
            write_keys(keys, "k1")
        self.config["store"] = {**(store or {}), "encryption": {"keyFile": str(keys)}}

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self, timeout=30.0):
        _running.add(self)
        ready = threading.Event()
        mark = len(self.stderr)
        self.process = subprocess.Popen([*self.wrapper, binary(), "serve", "--config", str(self.config_file), *self.arguments],
                                        env=self.env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        cwd=self.home, umask=self.umask, pass_fds=self.inherited)
        self.port = None

        def read(pipe, lines, looking):
            for raw in pipe:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                lines.append(line)
                found = looking and re.search(r'msg="?listening\b.*?\btcp="?[^\s"]*?:(\d+)', line)
                if found and self.port is None:
                    self.port = int(found.group(1))
                    ready.set()
            pipe.close()
            if looking:
                ready.set()

        self._readers = [threading.Thread(target=read, args=(self.process.stderr, self.stderr, True), daemon=True),
                         threading.Thread(target=read, args=(self.process.stdout, self.stdout, False), daemon=True)]
        for reader in self._readers:
            reader.start()
        in_time = ready.wait(timeout * SLOW)
        if self.port is None:
            code = self.process.poll() if in_time else None
            self.process.kill()
            code = self.process.wait() if code is None else code
            raise AssertionError(f"the daemon did not say that it listens (exit {code}):\n" + "\n".join(self.stderr[mark:][-50:]))
        self.starts += 1
        return self

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, timeout=10.0) -> int:
        """SIGTERM; the exit code. A daemon that has not gone in time is killed and reported."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running {timeout * SLOW:.0f} s after SIGTERM")
        finally:
            self._join()
        self.process = None
        return code

    def kill9(self):
        self.process.kill()
        self.process.wait()
        self._join()
        self.process = None

    def restart(self, kill=False):
        if kill:
            self.kill9()
        else:
            code = self.stop()
            assert code == 0, f"exit {code} after SIGTERM"
        return self.start()

    def _join(self):
        for reader in self._readers:
            reader.join(5)

    def close(self):
        """Ends what still runs and removes the directory."""
        _running.discard(self)
        if self.alive:
            self.kill9()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def sanitizer_reports(self, mark=0):
        return [line for line in self.stderr[mark:] if SANITIZER.search(line)]

    # -- talking -----------------------------------------------------------------------------------------------------

    @property
    def admin_token(self) -> str:
        return (self.home / "config" / "sessiond" / "admin.token").read_text().strip()

    def client(self, token=None) -> Client:
        return Client(self, token or self.admin_token)

    def anonymous(self) -> Client:
        return Client(self)

    def local(self) -> Client:
        return Client(self, unix=True)

    def token(self, role, **more) -> str:
        reply = self.client().post("/v1/admin/tokens", {"role": role, **more})
        assert reply.status == 201, reply
        return reply.json["token"]

    def cli(self, *arguments, timeout=30.0, input=None, env=None) -> subprocess.CompletedProcess:
        """Runs a command of the same binary in the same world, on the same configuration."""
        return subprocess.run([binary(), *map(str, arguments)],
                              env={**self.env, "SESSIOND_CONFIG": str(self.config_file), **(env or {})},
                              input=input, capture_output=True, text=True, timeout=timeout * SLOW, cwd=self.home)

    def raw(self, data: bytes, timeout=10.0, method="GET"):
        """Sends bytes as they are; the first answer, or None when the connection was closed without one."""
        with socket.create_connection(("127.0.0.1", self.port), timeout * SLOW) as sock:
            try:
                sock.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused early; the answer may still be there
            response = http.client.HTTPResponse(sock, method=method)
            try:
                response.begin()
                body = response.read()
            except (http.client.HTTPException, ConnectionResetError):
                return None
            except TimeoutError:
                raise AssertionError(f"no answer within {timeout * SLOW:.0f} s") from None
            sock.settimeout(2 * SLOW)
            try:
                sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")  # answered where the connection is kept
                closed = sock.recv(1) == b""
            except (BrokenPipeError, ConnectionResetError):
                closed = True
            except TimeoutError:
                closed = False
            return Reply(response.status, response.headers, body, closed)

    # -- files -------------------------------------------------------------------------------------------------------

    def agent_dir(self, agent="main") -> Path:
        return self.state / "agents" / agent / "sessions"

    def checkpoint(self):
        reply = self.client().post("/v1/admin/checkpoint")
        assert 200 <= reply.status < 300, reply

    def sessions_json(self, agent="main") -> dict:
        """sessions.json as it is after a forced checkpoint."""
        self.checkpoint()
        return plain_store((self.agent_dir(agent) / "sessions.json").read_bytes())


def has_fault_points():
    """Whether the binary dies where SESSIOND_FAULT says: store/fault_point.hpp is compiled into sanitizer builds only."""
    return b"archive.closed" in Path(binary()).read_bytes()


def eventually(check, timeout=5.0, every=0.02, what="it"):
    """Calls `check` until it is truthy; its value. For what the contract promises soon, not at once."""
    deadline = time.monotonic() + timeout * SLOW
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout * SLOW:.0f} s")
        time.sleep(every)

#!/usr/bin/env python3
"""Thousands of half-open and slow connections, and one good client among them: tests/edge/flood.py --binary PATH [--check]

A quarter of the connections says nothing, a quarter sends a byte of a header a second, a quarter a byte of a body a second
(with a token: nobody else's body is read), a quarter asks for page after page and reads none. Who is closed comes back at once.
Meanwhile a good client posts messages and reads them: its p50 and p99 and the daemon's resident memory at its peak are printed.
limits.connections is a little more than the flood here, so that the good client has a place. Where it is reached (at_the_limit),
TCP is turned away with 503 until somebody leaves, and the unix socket still lets an operator in.

--slice: what `make test` runs. Short deadlines, nothing timed: every slow client must be told 408 or be closed, the good client
must be served, and the daemon must end as it should.
"""

import argparse
import multiprocessing
import os
import resource
import selectors
import socket
import struct
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness

from harness.sessiond import SLOW, S, Daemon, eventually, uid  # noqa: E402

KINDS = ("silent", "head", "body", "deaf")
FIRST = {
    "silent": b"",
    "head": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "body": b"POST /v1/inbound HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 100000\r\n\r\n",
    "deaf": b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,
}
RESET = struct.pack("ii", 1, 0)  # closing leaves no port behind in TIME_WAIT
OPEN = "sessiond_connections"  # the gauge in /metrics
P99_MS, MEMORY_MIB = 50, 200


class Slow:
    """One slow client; opens itself anew when it is closed."""

    def __init__(self, kind, number, port, token):
        self.kind, self.source, self.port = kind, f"127.0.0.{2 + number % 16}", port
        self.first = FIRST[kind].replace(b"%s", token.encode())
        self.socket = None

    def open(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if self.kind == "deaf":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.bind((self.source, 0))
        self.socket.setblocking(False)
        try:
            self.socket.connect(("127.0.0.1", self.port))
        except BlockingIOError:
            pass
        self.begun, self.head = False, b""

    def drip(self):
        """False when the daemon has ended this connection."""
        try:
            if not self.begun:
                self.socket.send(self.first)
                self.begun = True
            elif self.kind in ("head", "body"):
                self.socket.send(b"x")
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def hear(self):
        """What there is to read: False at the end."""
        try:
            data = self.socket.recv(4096)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.head += data[:max(0, 12 - len(self.head))]
        return bool(data)


def crowd(port, token, numbers, again, finish, told, leave):
    """Holds these connections until `finish` is set, or until every slow sender has ended when they do not come back. Puts
    "open" when all are begun, then how many of each kind ended and how many of those with 408; lets go of the rest at `leave`."""
    slow = [Slow(KINDS[n % len(KINDS)], n, port, token) for n in numbers]
    watched = selectors.DefaultSelector()
    ended, with_408 = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)

    def begin(one):
        try:
            one.open()
        except OSError:
            one.socket = None  # again in the next turn
        if one.socket and one.kind != "deaf":
            watched.register(one.socket, selectors.EVENT_READ, one)

    def end(one):
        if one.kind != "deaf":
            watched.unregister(one.socket)
        one.socket.close()
        one.socket = None
        ended[one.kind] += 1
        with_408[one.kind] += one.head.endswith(b"408")
        if again:
            begin(one)

    for one in slow:
        begin(one)
        one.socket and one.drip()
    told.put("open")
    turn = time.monotonic()
    while not finish.is_set() and (again or any(one.socket for one in slow if one.kind in ("head", "body"))):
        for key, _ in watched.select(max(0.0, turn - time.monotonic())):
            if key.data.socket is not None and not key.data.hear():
                end(key.data)
        if time.monotonic() >= turn:
            turn += 1.0
            for one in slow:
                if one.socket is not None and not one.drip():
                    end(one)
                elif one.socket is None and again:
                    begin(one)
    told.put((ended, with_408))
    leave.wait()


class Crowd:
    def __init__(self, daemon, connections, again):
        self._told, self._finish, self._leave = multiprocessing.Queue(), multiprocessing.Event(), multiprocessing.Event()
        self._process = multiprocessing.Process(target=crowd, daemon=True, args=(
            daemon.port, daemon.admin_token, range(connections), again, self._finish, self._told, self._leave))
        self._process.start()
        self._told.get(timeout=60 * SLOW)

    def working(self):
        return self._told.empty()

    def finish(self):
        self._finish.set()
        return self._told.get(timeout=60 * SLOW)

    def leave(self):
        self._leave.set()
        self._process.join()


def resident(pid):
    """(now, peak) in MiB."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


def good_client(daemon, going):
    """Posts and reads while it is going; seconds of each request."""
    api, key = daemon.client(), f"agent:main:slack:channel:{uid()}"
    assert api.post("/v1/agents/main/sessions", {"key": key}).status == 201
    path, took, posted = S(key, "main", "messages"), [], 0
    while going() or not took:
        posted += 1
        began = time.monotonic()
        post = api.post(path, {"role": "user", "text": f"message {posted}"})
        between = time.monotonic()
        read = api.get(path + "?limit=10&order=desc")
        took += [between - began, time.monotonic() - between]
        assert post.status == 201 and read.status == 200, (post, read)
        assert read.json["data"][0]["seq"] == post.json["lastSeq"], read
    return took


def open_connections(daemon):
    text = daemon.client().get("/metrics").raw.decode()
    return next(int(float(line.split()[-1])) for line in text.splitlines() if line.startswith(OPEN + " ") or line.startswith(OPEN + "{"))


def at_the_limit():
    """limits.connections is full: TCP is turned away, an operator still gets in over the unix socket, and there is room again later."""
    with Daemon({"limits": {"connections": 20}}) as daemon:
        held = [socket.create_connection(("127.0.0.1", daemon.port), 20 * SLOW) for _ in range(20)]
        for sock in held:
            assert healthz(sock) == 200
        with socket.create_connection(("127.0.0.1", daemon.port), 20 * SLOW) as refused:
            assert healthz(refused, ask=False) == 503
        operator = daemon.local().get("/v1/whoami")
        assert operator.status == 200, operator
        for sock in held:
            sock.close()
        eventually(lambda: daemon.client().get("/healthz").status == 200, what="room again")
        assert daemon.stop() == 0


def few_descriptors():
    """More connections than the system has descriptors for: those for files are left alone, so the daemon goes on writing."""
    daemon = Daemon()
    daemon.wrapper = ["prlimit", "--nofile=600:600"]
    with daemon:
        held = [socket.create_connection(("127.0.0.1", daemon.port), 20 * SLOW) for _ in range(400)]
        assert healthz(held[0]) == 200
        assert healthz(held[-1], ask=False) == 503
        operator = daemon.local()
        key = f"agent:main:slack:channel:{uid()}"
        assert operator.post("/v1/agents/main/sessions", {"key": key}).status == 201
        assert operator.post(S(key, "main", "messages"), {"role": "user", "text": "written"}).status == 201
        assert operator.post("/v1/admin/checkpoint").status in (200, 204)
        for sock in held:
            sock.close()
        assert daemon.stop() == 0


def healthz(sock, ask=True):
    if ask:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return int(sock.recv(4096).split(b" ")[1])


def whole(options):
    with Daemon({"limits": {"connections": options.connections + 100}}) as daemon:
        before = resident(daemon.process.pid)[0]
        slow = Crowd(daemon, options.connections, again=True)
        until = time.monotonic() + options.seconds
        took, held = [], []

        def going():
            if not held or time.monotonic() > held[-1][0] + 5:
                held.append((time.monotonic(), open_connections(daemon)))
            return time.monotonic() < until

        took = [1000 * seconds for seconds in good_client(daemon, going)]
        ended, with_408 = slow.finish()
        peak = resident(daemon.process.pid)[1]
        slow.leave()
        code = daemon.stop()
    took.sort()
    p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
    print(f"{options.connections} connections for {options.seconds:.0f} s: {sum(ended.values())} ended and came back, "
          f"{sum(with_408.values())} of them told 408; held at once {min(n for _, n in held[1:] or held)} to {max(n for _, n in held)}")
    print(f"good client: {len(took)} requests, p50 {p50:.1f} ms, p99 {p99:.1f} ms, slowest {took[-1]:.1f} ms")
    print(f"daemon: {before:.0f} MiB before, {peak:.0f} MiB at its peak")
    at_the_limit()
    print("at limits.connections: TCP is told 503, the unix socket lets an operator in")
    if code != 0:
        return f"the daemon ended with {code}"
    if options.check and (p99 > P99_MS or peak > MEMORY_MIB):
        return f"more than {P99_MS} ms or {MEMORY_MIB} MiB"
    return None


def slice_of_it(options):
    with Daemon({"limits": {"headerTimeoutMs": 500, "requestTimeoutMs": 1000, "connections": options.connections + 100},
                 "stream": {"stallTimeoutMs": 1000}}) as daemon:
        slow = Crowd(daemon, options.connections, again=False)
        good_client(daemon, slow.working)
        ended, with_408 = slow.finish()
        of_each = options.connections // len(KINDS)
        assert ended["head"] == ended["body"] == of_each, ended
        assert with_408["head"] == with_408["body"] == of_each, with_408
        assert ended["silent"] == 0, "who says nothing is idle, not late"
        # Its own connections beside: the good client's may be open yet, and the one that asks is.
        eventually(lambda: open_connections(daemon) <= of_each + 2, timeout=20, what="that only the silent ones are left")
        slow.leave()
        assert daemon.stop() == 0 and not daemon.sanitizer_reports(), daemon.stderr[-40:]
    at_the_limit()
    few_descriptors()
    print(f"{options.connections} slow connections: {sum(with_408.values())} told 408, {of_each} that took nothing closed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--check", action="store_true", help=f"exit 1 when p99 is over {P99_MS} ms or memory over {MEMORY_MIB} MiB")
    parser.add_argument("--slice", action="store_true", help="a few, and nothing is timed")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wrong = slice_of_it(options) if options.slice else whole(options)
    if wrong:
        print("WRONG:", wrong)
        sys.exit(1)


if __name__ == "__main__":
    main()

"""A thousand readers of one stream, a hundred of whom read nothing for a while: each gets the same events, whole and in order."""

import hashlib
import resource
import select
import socket
import time

from harness.case import Case
from harness.sessiond import SLOW

runs = {"asan", "tsan"}

READERS, STALLED = 1000, 100
HELLO, END = b"event: stream.hello\n", b"\n\n"


class Listener:
    """One reader. What follows its hello is counted and hashed, not kept."""

    def __init__(self, daemon):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        self.socket.connect(("127.0.0.1", daemon.port))
        self.socket.sendall(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {daemon.admin_token}\r\n\r\n".encode())
        self.hello, self.open = b"", False  # what came up to its end
        self.hash, self.length, self.last = hashlib.sha256(), 0, b""

    def receive(self):
        chunk = self.socket.recv(1 << 20)
        if not chunk:
            raise AssertionError(f"closed after {self.length} bytes: {self.last!r}")
        if not self.open:
            self.hello += chunk
            _, found, behind = self.hello.partition(HELLO)
            _, self.open, chunk = behind.partition(END)
            if not found or not self.open:
                self.open = False
                return
        self.hash.update(chunk)
        self.length += len(chunk)
        self.last = (self.last + chunk)[-1000:]

    def has(self, words):
        """Whole: the event with these words at its end is the last one."""
        return words in self.last and self.last.endswith(END)


def read(listeners, until):
    """Reads what comes for these until `until(listener)` holds for each."""
    poller, by_fd = select.epoll(), {}
    for listener in listeners:
        if not until(listener):
            by_fd[listener.socket.fileno()] = listener
            poller.register(listener.socket, select.EPOLLIN)
    deadline = time.monotonic() + 30 * SLOW
    with poller:
        while by_fd:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(by_fd)} of {len(listeners)} readers still wait")
            for fd, _ in poller.poll(1):
                listener = by_fd[fd]
                listener.receive()
                if until(listener):
                    poller.unregister(fd)
                    del by_fd[fd]


class Crowd(Case):
    config = {"stream": {"heartbeatMs": 300_000, "stallTimeoutMs": 300_000, "tailBytes": 1 << 20}}

    @classmethod
    def setUpClass(cls):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the daemon inherits it
        cls.addClassCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        super().setUpClass()

    def test_a_thousand_of_whom_a_hundred_stop_reading(self):
        key = self.new()["key"]
        readers = []
        for _ in range(READERS):
            readers.append(Listener(self.daemon))
            self.addCleanup(readers[-1].socket.close)
        read(readers, lambda reader: reader.open)
        stalled, rest = readers[:STALLED], readers[STALLED:]
        with self.api.stream() as one:
            one.wait_type("stream.hello")
            for i in range(150):
                self.say(key, "x" * 6000 + f" the last is {i}")
                if i % 50 == 0:
                    read(rest, lambda reader: reader.length > 0)
            one.wait_for(lambda event: "the last is 149" in event.raw)
            read(rest, lambda reader: reader.has(b"the last is 149"))
            seqs = one.seqs()
        self.assertEqual(seqs, list(range(seqs[0], seqs[0] + len(seqs))))
        self.assertGreaterEqual(len(seqs), 150)
        self.assertEqual({reader.length for reader in stalled}, {0})
        behind = [s for s in self.ok(self.api.get("/v1/admin/streams"))["data"] if s["lag"]["events"] > 50]
        self.assertEqual(len(behind), STALLED)
        read(stalled, lambda reader: reader.has(b"the last is 149"))
        self.assertEqual({reader.length for reader in readers}, {readers[0].length})
        self.assertEqual({reader.hash.hexdigest() for reader in readers}, {readers[-1].hash.hexdigest()})

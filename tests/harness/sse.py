"""A reader of one event stream: parses Server-Sent Events as the HTML standard says and keeps everything it saw.

Nothing is decoded with str methods that know more line ends than SSE does: CR, LF and CRLF end a line, U+2028 does not.
"""

import http.client
import json
import re
import socket
import threading
import time
from typing import Callable, NamedTuple, Optional


class Event(NamedTuple):
    id: Optional[str]  # the id line of this block; None when it had none
    type: str
    data: dict
    raw: str           # the data as it came, before JSON

    @property
    def seq(self):
        return self.data.get("seq") if isinstance(self.data, dict) else None


class LineSplitter:
    """Bytes in, whole lines out. A CR ends a line at once; the LF that may follow it in the next chunk is dropped."""

    def __init__(self):
        self._rest = b""
        self._after_cr = False

    def feed(self, chunk: bytes):
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r") or (self._after_cr and not chunk)
        *lines, self._rest = re.split(rb"\r\n|\r|\n", self._rest + chunk)
        return lines


class EventStream:
    """Opens `path` at once (raises on another status than 200) and reads in a thread until close() or the server ends it."""

    def __init__(self, host, port, path, headers, slow=1.0):
        self._slow = slow
        self._changed = threading.Condition()
        self.events = []      # every Event, stream.* ones included
        self.comments = []    # text of comment lines
        self.bare_ids = []    # ids that came in a block without data
        self.retry = None
        self.last_id = ""
        self.ended = False
        self._connection = http.client.HTTPConnection(host, port, timeout=10 * slow)
        self._connection.request("GET", path, headers=headers)
        response = self._connection.getresponse()
        self.status, self.headers = response.status, response.headers
        self._socket = self._connection.sock or response.fp.raw._sock
        if response.status != 200:
            body = response.read()
            self._connection.close()
            raise StreamRefused(response.status, response.headers, body)
        self._socket.settimeout(None)
        self._response = response
        self._thread = threading.Thread(target=self._read, name="sse " + path, daemon=True)
        self._thread.start()

    # -- what was seen -----------------------------------------------------------------------------------------------

    @property
    def durable(self):
        """Events of the log, in order: the ones with a seq."""
        with self._changed:
            return [e for e in self.events if e.seq is not None]

    def seqs(self):
        return [e.seq for e in self.durable]

    def wait_for(self, predicate: Callable[[Event], bool], timeout=5.0, what="an event") -> Event:
        """The first event, seen or to come, that fits. AssertionError tells what came instead."""
        deadline = time.monotonic() + timeout * self._slow
        looked = 0
        with self._changed:
            while True:
                while looked < len(self.events):
                    if predicate(self.events[looked]):
                        return self.events[looked]
                    looked += 1
                left = deadline - time.monotonic()
                if self.ended or left <= 0:
                    seen = [f"{e.type}{'' if e.seq is None else '#' + str(e.seq)}" for e in self.events[-40:]]
                    raise AssertionError(f"{what} did not come ({'stream ended' if self.ended else 'timeout'}); saw {seen}")
                self._changed.wait(left)

    def wait_type(self, type_, timeout=5.0) -> Event:
        return self.wait_for(lambda e: e.type == type_, timeout, type_)

    def wait_seq(self, seq, timeout=10.0) -> Event:
        return self.wait_for(lambda e: e.seq is not None and e.seq >= seq, timeout, f"seq {seq}")

    def wait_until(self, predicate: Callable[["EventStream"], bool], timeout=5.0, what="the condition"):
        deadline = time.monotonic() + timeout * self._slow
        with self._changed:
            while not predicate(self):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"{what} did not come true; {len(self.events)} events, comments {self.comments[-3:]}, "
                                         f"bare ids {self.bare_ids[-3:]}, ended {self.ended}")
                self._changed.wait(left)

    def wait_end(self, timeout=5.0):
        self.wait_until(lambda s: s.ended, timeout, "the stream's end")

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join(10)
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self):
        splitter = LineSplitter()
        block = []
        try:
            while chunk := self._response.read1(65536):
                for line in splitter.feed(chunk):
                    if line:
                        block.append(line)
                    else:
                        self._dispatch(block)
                        block = []
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            pass  # closed under us, by either side
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def _dispatch(self, lines):
        id_, type_, data = None, "message", []
        with self._changed:
            for line in lines:
                name, _, value = line.partition(b":")
                value = value[1:] if value.startswith(b" ") else value
                if not name:
                    self.comments.append(value.decode("utf-8"))
                elif name == b"id":
                    id_ = value.decode("utf-8")
                elif name == b"event":
                    type_ = value.decode("utf-8")
                elif name == b"data":
                    data.append(value)
                elif name == b"retry":
                    self.retry = int(value)
            if id_ is not None:
                self.last_id = id_
            if data:
                raw = b"\n".join(data).decode("utf-8")
                self.events.append(Event(id_, type_, json.loads(raw), raw))
            elif id_ is not None:
                self.bare_ids.append(id_)
            self._changed.notify_all()


class StreamRefused(Exception):
    def __init__(self, status, headers, body):
        super().__init__(f"stream refused: {status} {body[:300]!r}")
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

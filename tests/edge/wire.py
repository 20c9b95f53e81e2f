"""One conversation over a bare socket: bytes out, replies in, each reply judged by the rules that every reply keeps."""

import re
import socket
from email.utils import parsedate_to_datetime

STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5]\d\d) [ -~]*\Z")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0-\x08\x0a-\x1f\x7f]*)\Z")
DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\Z")
ONCE = ("date", "content-length", "content-type", "connection", "x-request-id", "allow", "cache-control")


class Wrong(Exception):
    """What came is not what had to come."""


class Reply:
    def __init__(self, status, headers, body=b""):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"{self.status} {self.body[:160]!r}"


class Conversation:
    def __init__(self, daemon, timeout, unix=False):
        if unix:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(timeout)
            self.socket.connect(daemon.unix)
        else:
            self.socket = socket.create_connection(("127.0.0.1", daemon.port), timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.ended = b"", False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused early; what was said is still there

    def end_sending(self):
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _more(self):
        try:
            piece = self.socket.recv(65536)
        except ConnectionResetError:
            piece = b""
        except TimeoutError:
            raise Wrong(f"neither a reply nor the end came; so far {self.buffer[:200]!r}") from None
        self.ended = not piece
        self.buffer += piece
        return not self.ended

    def closed(self):
        """Waits for the end; anything that comes before it is wrong."""
        while not self.buffer and self._more():
            pass
        if self.buffer:
            raise Wrong(f"more than was to come: {self.buffer[:300]!r}")

    def reply(self, to_head=False):
        """The next reply, or None at the end."""
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                if self.buffer:
                    raise Wrong(f"ends in the middle of a reply: {self.buffer[:200]!r}")
                return None
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        reply = judge_head(head)
        if reply.status < 200:
            return reply
        bodiless = to_head or reply.status in (204, 304)
        length = reply.headers.get("content-length")
        if length is None and not bodiless:  # until the end
            if reply.headers.get("connection") != "close":
                raise Wrong("neither Content-Length nor Connection: close")
            return reply
        size = 0 if bodiless else int(length)
        while len(self.buffer) < size:
            if not self._more():
                raise Wrong("ends in the middle of a body")
        reply.body, self.buffer = self.buffer[:size], self.buffer[size:]
        return reply


def judge_head(head):
    """RFC 9112 §4 and §5, and what every reply has (daemon/api/README.md)."""
    line, *fields = head.split(b"\r\n")
    status = STATUS_LINE.match(line)
    if not status:
        raise Wrong(f"no status line: {line[:100]!r}")
    reply = Reply(int(status[1]), {})
    for field in fields:
        parts = FIELD.match(field)
        if not parts:
            raise Wrong(f"no header field: {field[:100]!r}")
        name, value = parts[1].decode().lower(), parts[2].decode("latin-1").rstrip()
        if name in reply.headers and name in ONCE:
            raise Wrong(f"{name} stands twice")
        if name == "set-cookie" or name == "transfer-encoding":
            raise Wrong(f"{name} was not to be there")
        reply.headers[name] = value
    if reply.status < 200:
        if fields:
            raise Wrong(f"an interim reply with fields: {head!r}")
        return reply
    if not DATE.match(reply.headers.get("date", "")):
        raise Wrong(f"Date is {reply.headers.get('date')!r}")
    parsedate_to_datetime(reply.headers["date"])
    if "x-request-id" not in reply.headers:
        raise Wrong("no X-Request-Id")
    if reply.status == 204 and "content-length" in reply.headers:
        raise Wrong("204 with Content-Length (RFC 9110 §8.6)")
    if reply.status == 405 and "allow" not in reply.headers:
        raise Wrong("405 without Allow (RFC 9110 §15.5.6)")
    if reply.status >= 400 and reply.headers.get("content-type") != "application/problem+json":
        raise Wrong(f"{reply.status} is no problem+json")
    return reply

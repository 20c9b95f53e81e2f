"""What a case is, and the few words that the tables are written in.

A case is bytes and what must come: the statuses of all final replies in order, and what becomes of the connection. After the
bytes of every case a request follows in the same breath, GET /version, named by its X-Request-Id:

    kept      it is answered next: the bytes before it were read as exactly the requests that the case says
    closed    it is never answered: the connection ends after the case's last reply, which says Connection: close
    cut       it is not sent; the client ends its side: nothing more is answered, for a request was still incomplete
    late      it is not sent, the client waits (and sends `drip` over and over, a byte at a time) until it is told 408

In a case's bytes `@K` stands for a session that the suite has made (`@%K`: its colons encoded), `@R` for one whose transcript
is known, `@AUTH` for a field with the admin's token, `@OTHER` with one of an agent that is another; in what must come `@SIZE` is the size of that transcript.
"""

from dataclasses import dataclass, field

KEPT, CLOSED, CUT, LATE = "kept", "closed", "cut", "late"
CRLF = b"\r\n"


@dataclass
class Case:
    name: str
    sent: list               # pieces; before each but the first a reply (of any kind) is waited for
    statuses: tuple          # an entry may be a tuple: any of these
    then: str
    head: bool = False       # the replies are to HEAD: no body
    has: dict = field(default_factory=dict)      # fields of the last reply; None: not there
    body: object = None      # of the last reply: a call that says whether it is good, or (first, end) of the transcript
    unix: bool = False
    wire: bool = False       # of what the request reader decides: over a socket, too
    bytewise: bool = False   # each byte in a packet of its own
    drip: bytes = b""
    stored: str = ""         # the text of the session's newest message afterwards


def case(name, sent, statuses, then, **more):
    pieces = [as_bytes(piece) for piece in (sent if isinstance(sent, list) else [sent])]
    return Case(name, pieces, statuses if isinstance(statuses, tuple) else (statuses,), then, **more)


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode("latin-1")


def lines(*all_lines):
    """A request head of these lines."""
    return CRLF.join(map(as_bytes, all_lines)) + CRLF + CRLF


def get(*fields, target="/healthz", version="HTTP/1.1", host="localhost", method="GET"):
    """A request with these further fields; host=None: without Host."""
    return lines(f"{method} {target} {version}", *([] if host is None else [f"Host: {host}"]), *fields)


def line(request_line):
    """A good request but for its first line."""
    return lines(request_line, "Host: localhost")


MESSAGE = b'{"role":"user","text":"hello"}'


def post(*fields, body=b"", target="/v1/agents/main/sessions/@K/messages", version="HTTP/1.1"):
    """A message, however its body is framed by `fields`."""
    return lines(f"POST {target} {version}", "Host: localhost", "@AUTH", *fields) + as_bytes(body)


def chunk(data, extension="", size=None):
    data = as_bytes(data)
    return (as_bytes(size) if size is not None else b"%x" % len(data)) + as_bytes(extension) + CRLF + data + CRLF


LAST = b"0\r\n\r\n"
CHUNKED = "Transfer-Encoding: chunked"
LENGTH = f"Content-Length: {len(MESSAGE)}"

"""Slow clients (RFC 9110 §15.5.9): the head is due headerTimeoutMs after a request's first byte, all of it requestTimeoutMs after that byte."""

from case import CHUNKED, CUT, KEPT, LATE, LENGTH, MESSAGE, case, get, post

CONFIG = {"limits": {"headerTimeoutMs": 250, "requestTimeoutMs": 500}}

CASES = [
    case("in time", get(), 200, KEPT),
    case("its first byte and no more", b"G", 408, LATE),
    case("half a request line", b"GET /hea", 408, LATE),
    case("a request line", b"GET /healthz HTTP/1.1\r\n", 408, LATE),
    case("a header block without its end", get()[:-2], 408, LATE),
    case("a header block without its last byte", get()[:-1], 408, LATE),
    case("HEAD is told without a body", get(method="HEAD")[:-2], 408, LATE, head=True),
    case("an empty line and a first byte", b"\r\nG", 408, LATE),
    case("a field a byte at a time", get()[:-2] + b"X-A: ", 408, LATE, drip=b"b"),
    case("fields a byte at a time", get()[:-2], 408, LATE, drip=b"a:\r\n"),
    case("a target a byte at a time", b"GET /", 408, LATE, drip=b"x"),
    case("a head and no body", post(LENGTH), 408, LATE),
    case("a body without its last byte", post(LENGTH, body=MESSAGE[:-1]), 408, LATE),
    case("a body a byte at a time", post("Content-Length: 100000"), 408, LATE, drip=b"x"),
    case("no chunk", post(CHUNKED), 408, LATE),
    case("half a chunk size", post(CHUNKED, body=b"1"), 408, LATE),
    case("half a chunk", post(CHUNKED, body=b"1e\r\n{"), 408, LATE),
    case("chunks of a byte, one at a time", post(CHUNKED), 408, LATE, drip=b"1\r\nx\r\n"),
    case("a chunk extension a byte at a time", post(CHUNKED, body=b"1;"), 408, LATE, drip=b"a"),
    case("no end after the last chunk", post(CHUNKED, body=b"0\r\n"), 408, LATE),
    case("a trailer a byte at a time", post(CHUNKED, body=b"0\r\nX-A: "), 408, LATE, drip=b"b"),
    case("100, and then nothing", [post(LENGTH, "Expect: 100-continue"), b""], (100, 408), LATE),
    case("100, and then a byte at a time", [post("Content-Length: 100000", "Expect: 100-continue"), b""], (100, 408), LATE, drip=b"x"),
    case("the second request", get() + b"GET /", (200, 408), LATE),
    case("the second request's body", get() + post(LENGTH), (200, 408), LATE),
    case("who leaves in between is told nothing", get()[:-2], (), CUT),
]

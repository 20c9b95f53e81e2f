"""What comes back: order of pipelined replies (RFC 9112 §9.3.2), methods (9110 §9), ranges (9110 §14)."""

from case import CHUNKED, CLOSED, CUT, KEPT, LAST, LENGTH, MESSAGE, case, chunk, get, line, lines, post

BAD = get("X-A : b")
S = "/v1/agents/main/sessions/@K"
FILE = "/v1/agents/main/sessions/@R/transcript"


def ranged(spec, *fields, method="GET"):
    return get("@AUTH", f"Range: {spec}", *fields, target=FILE, method=method)


def named(*names):
    return b"".join(get(f"X-Request-Id: {name}") for name in names)


CASES = [
    # -- pipelining
    case("three in order", named("a", "b", "c"), (200, 200, 200), KEPT, has={"x-request-id": "c"}),
    case("two hundred in order", named(*map(str, range(200))), (200,) * 200, KEPT, has={"x-request-id": "199"}),
    case("different ones in order", post(LENGTH, body=MESSAGE) + get(target="/nowhere") + line("DELETE /healthz HTTP/1.1") +
         post(CHUNKED, body=chunk(MESSAGE) + LAST) + get(target="/v1/whoami") + get(), (201, 404, 405, 201, 401, 200), KEPT),
    case("empty lines between them", get() + b"\r\n" + get() + b"\r\n\r\n" + get(), (200, 200, 200), KEPT),
    case("after a malformed one nothing", get() + BAD + get(), (200, 400), CLOSED),
    case("after another host's nothing", get() + get(host="evil.example") + get(), (200, 421), CLOSED),
    case("after one with two framings nothing", get() + post(LENGTH, CHUNKED, body=LAST) + get(), (200, 400), CLOSED),
    case("after one that is too long nothing", post("Content-Length: 9000000") + get(), (413,), CLOSED),
    case("after Connection: close nothing", get() + get("Connection: close") + get(), (200, 200), CLOSED),
    case("after an HTTP/1.0 request nothing", get() + get(version="HTTP/1.0") + get(), (200, 200), CLOSED),
    case("after one of HTTP/0.9 nothing", get() + b"GET /healthz\r\n" + get(), (200, 400), CLOSED),
    case("a body that is bad JSON leaves the framing whole", post("Content-Length: 5", body="{bad}") + get(), (400, 200), KEPT),
    case("a 401 does not lose the place", lines("POST /v1/inbound HTTP/1.1", "Host: localhost", "Content-Length: 5") + b"12345" + get(), (401, 200), KEPT),
    case("a 404 does not lose the place", lines("POST /nowhere HTTP/1.1", "Host: localhost", CHUNKED) + chunk("12345") + LAST + get(), (404, 200), KEPT),
    case("the client ends its side and still gets every answer", get() + get() + get(), (200, 200, 200), CUT),
    case("the client ends its side in the middle of the second", get() + get()[:-4], (200,), CUT),
    case("one by one in many packets", named("a", "b") + post(LENGTH, body=MESSAGE), (200, 200, 201), KEPT, bytewise=True),

    # -- HEAD
    case("HEAD", get(method="HEAD"), 200, KEPT, head=True, has={"content-length": lambda v: int(v) > 0}),
    case("HEAD with a body of its own", get("Content-Length: 5", method="HEAD") + b"hello", 200, KEPT, head=True),
    case("HEAD of nothing", get(method="HEAD", target="/nowhere"), 404, KEPT, head=True, has={"content-length": lambda v: int(v) > 0}),
    case("HEAD where only POST is", get(method="HEAD", target="/v1/inbound"), 405, KEPT, head=True, has={"allow": "OPTIONS, POST"}),
    case("HEAD without a token", get(method="HEAD", target="/v1/whoami"), 401, KEPT, head=True),
    case("HEAD of a session", get("@AUTH", method="HEAD", target=S), 200, KEPT, head=True, has={"etag": lambda v: v.startswith('"r')}),
    case("HEAD of a transcript", get("@AUTH", method="HEAD", target=FILE), 200, KEPT, head=True, has={"content-length": lambda v: int(v) > 0}),
    case("HEAD of an event stream ends", get("@AUTH", method="HEAD", target="/v1/events"), 200, CLOSED, head=True, has={"content-type": lambda v: "event-stream" in v}),
    case("HEAD malformed: no body (9110 §9.3.2)", get("X-A : b", method="HEAD"), 400, CLOSED, head=True),
    case("HEAD with obs-fold: no body", get("X-A: b", " c", method="HEAD"), 400, CLOSED, head=True),
    case("HEAD for another host: no body", get(method="HEAD", host="evil.example"), 421, CLOSED, head=True),
    case("HEAD too long: no body", get("X-A: " + "x" * 17000, method="HEAD"), 431, CLOSED, head=True),
    case("HEAD *", line("HEAD * HTTP/1.1"), 400, CLOSED, head=True),

    # -- OPTIONS, 405
    case("OPTIONS", get(method="OPTIONS"), 204, KEPT, has={"allow": "GET, HEAD, OPTIONS", "content-length": None}),
    case("OPTIONS of a session", get(method="OPTIONS", target=S), 204, KEPT, has={"allow": "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"}),
    case("OPTIONS with a body", get("Content-Length: 5", method="OPTIONS") + b"hello", 204, KEPT),
    case("OPTIONS of nothing", get(method="OPTIONS", target="/nowhere"), 404, KEPT),
    case("OPTIONS * tells every method", line("OPTIONS * HTTP/1.1"), 204, KEPT, has={"allow": "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"}),
    *[case(f"{method} where only GET is", get(method=method), 405, KEPT, has={"allow": "GET, HEAD, OPTIONS"})
      for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "M-SEARCH", "GETX")],
    case("TRACE gives nothing back (9110 §9.3.8)", get("@AUTH", "X-Secret: mine", method="TRACE"), 405, KEPT, body=lambda b: b"mine" not in b),
    case("GET where only POST is", get(target="/v1/inbound"), 405, KEPT, has={"allow": "OPTIONS, POST"}),
    case("X-HTTP-Method-Override means nothing", get("X-HTTP-Method-Override: DELETE"), 200, KEPT),

    # -- ranges of a transcript; `body` says which of its bytes must come
    case("the whole file", get("@AUTH", target=FILE), 200, KEPT, has={"accept-ranges": "bytes", "content-range": None}, body=(0, None)),
    case("its first ten bytes", ranged("bytes=0-9"), 206, KEPT, has={"content-range": "bytes 0-9/@SIZE", "content-length": "10"}, body=(0, 10)),
    case("one byte", ranged("bytes=5-5"), 206, KEPT, has={"content-range": "bytes 5-5/@SIZE"}, body=(5, 6)),
    case("from the tenth on", ranged("bytes=10-"), 206, KEPT, body=(10, None)),
    case("its last five", ranged("bytes=-5"), 206, KEPT, body=(-5, None)),
    case("more of the end than there is", ranged("bytes=-99999999"), 206, KEPT, body=(0, None)),
    case("a last byte behind the end", ranged("bytes=10-99999999"), 206, KEPT, body=(10, None)),
    case("a last byte of 30 digits", ranged("bytes=10-" + "9" * 30), ((200, 206),), KEPT),
    case("a first byte behind the end", ranged("bytes=99999999-"), 416, KEPT, has={"content-range": "bytes */@SIZE"}),
    case("a first byte of 30 digits", ranged("bytes=" + "9" * 30 + "-"), ((200, 416),), KEPT),
    case("the last 0 bytes", ranged("bytes=-0"), 416, KEPT, has={"content-range": "bytes */@SIZE"}),
    case("units are case-insensitive (9110 §14.1)", ranged("Bytes=0-9"), 206, KEPT, body=(0, 10)),
    *[case(f"the range {spec!r} is passed over (9110 §14.2)", ranged(spec), 200, KEPT, has={"content-range": None}, body=(0, None))
      for spec in ("bytes=9-0", "bytes=a-b", "bytes=", "bytes=-", "bytes=5", "bytes", "bytes 0-9", "lines=0-9", "bytes=0x0-0x9", "bytes=+0-9",
                   "bytes=0--9", "0-9", "")],
    case("several ranges: all of it", ranged("bytes=0-1,3-4"), 200, KEPT, body=(0, None)),
    case("a thousand overlapping ranges: all of it (9110 §17.15)", ranged("bytes=" + ",".join(["0-"] * 1000)), 200, KEPT, body=(0, None)),
    case("Range means nothing to HEAD (9110 §14.2)", ranged("bytes=0-9", method="HEAD"), 200, KEPT, head=True, has={"content-range": None}),
    case("Range means nothing to another resource", get("Range: bytes=0-1"), 200, KEPT),
    case("If-Range with a validator that is not the file's (9110 §13.1.5)", ranged("bytes=0-9", 'If-Range: "x"'), 200, KEPT, body=(0, None)),
    case("two Ranges", ranged("bytes=0-9", "Range: bytes=1-2"), 400, CLOSED),
    case("a range without a token", get("Range: bytes=0-9", target=FILE), 401, KEPT),
]

"""Where a body ends: RFC 9112 §6, §7; RFC 9110 §8.6, §10.1.1. Two ways to read it are one too many: request smuggling."""

from case import CHUNKED, CLOSED, CUT, KEPT, LAST, LENGTH, MESSAGE, case, chunk, get, post

SMUGGLED = get(target="/v1/smuggled")  # if it is answered, it got through
WHOLE = chunk(MESSAGE) + LAST


def chunked(body, *fields):
    return post(CHUNKED, *fields, body=body)


CASES = [
    # -- Content-Length
    case("a body with a length", post(LENGTH, body=MESSAGE), 201, KEPT, stored="hello"),
    case("a body to a request that needs none", get("Content-Length: 5") + b"hello", 200, KEPT),
    case("a length of 0", get("Content-Length: 0"), 200, KEPT),
    case("a length with zeros before it (9110 §8.6)", get("Content-Length: 0000000000000000000005") + b"hello", 200, KEPT),
    case("a length with white space around it", get("Content-Length: \t 5 \t") + b"hello", 200, KEPT),
    case("no length and no coding: no body", get() + b"bytes that are\r\n", (200, 400), CLOSED),
    case("less than the length came", post(LENGTH, body=MESSAGE[:-1]), (), CUT, wire=True),
    case("a length for the request that follows", get(f"Content-Length: {len(SMUGGLED)}") + SMUGGLED, 200, KEPT),
    *[case(f"the length {length!r}", post(f"Content-Length: {length}", body=MESSAGE), 400, CLOSED)
      for length in ("", "-1", "+30", "30,30", "30, 30", "30;", "3 0", "0x1e", "1e", "30.0", "3e1", "'30'", "\"30\"", "30\x0b", "\xb2", "l",
                     "18446744073709551616", "18446744073709551646", "99999999999999999999999999999999", "30, chunked", "identity")],
    case("two equal lengths", post(LENGTH, LENGTH, body=MESSAGE), 400, CLOSED, wire=True),
    case("two lengths, the first 0", post("Content-Length: 0", LENGTH, body=MESSAGE), 400, CLOSED),
    case("two lengths, the last 0", post(LENGTH, "Content-Length: 0", body=MESSAGE), 400, CLOSED),
    case("two lengths in different capitals", post(LENGTH, LENGTH.upper(), body=MESSAGE), 400, CLOSED),
    case("a space before the colon of the length", post(LENGTH.replace(":", " :"), body=MESSAGE), 400, CLOSED),
    case("Content_Length is another field", get("Content_Length: 5"), 200, KEPT),
    case("a length over 8 MiB", post(f"Content-Length: {8 * 1024 * 1024 + 1}"), 413, CLOSED, wire=True),
    case("a length of 2^63", post(f"Content-Length: {2**63}"), 413, CLOSED),

    # -- Transfer-Encoding
    case("chunks", chunked(WHOLE), 201, KEPT, stored="hello"),
    case("CHUNKED (codings are case-insensitive, 9112 §7)", post("Transfer-Encoding: CHUNKED", body=WHOLE), 201, KEPT),
    case("a tab before chunked is white space", post("Transfer-Encoding:\tchunked", body=WHOLE), 201, KEPT),
    case("CL.TE", post("Content-Length: 5", CHUNKED, body=LAST + SMUGGLED), 400, CLOSED, wire=True),
    case("CL.TE, the length over all", post(f"Content-Length: {5 + len(SMUGGLED)}", CHUNKED, body=LAST + SMUGGLED), 400, CLOSED),
    case("TE.CL", post(CHUNKED, "Content-Length: 4", body=chunk(SMUGGLED) + LAST), 400, CLOSED, wire=True),
    case("TE.CL with a length of 0 (CL.0)", post(CHUNKED, "Content-Length: 0", body=chunk(SMUGGLED) + LAST), 400, CLOSED),
    case("TE.0: a GET with both", get(CHUNKED, "Content-Length: 5") + LAST, 400, CLOSED),
    case("TE.TE, both chunked", post(CHUNKED, CHUNKED, body=WHOLE), 400, CLOSED),
    case("TE.TE, the second odd", post(CHUNKED, "Transfer-Encoding: x", body=WHOLE), 400, CLOSED),
    case("TE.TE, the first odd", post("Transfer-Encoding: x", CHUNKED, body=WHOLE), 400, CLOSED),
    case("TE.TE in different capitals", post(CHUNKED, "transfer-encoding: identity", body=WHOLE), 400, CLOSED),
    *[case(f"the coding {coding!r}", post(f"Transfer-Encoding: {coding}", body=WHOLE), ((400, 501),), CLOSED)
      for coding in ("", "identity", "gzip", "gzip, chunked", "chunked, gzip", "chunked, identity", "chunked, chunked", "chunked,", ",chunked",
                     ", chunked", "xchunked", "chunkedx", "chunk", "chunked;q=1", "\"chunked\"", "'chunked'", "chunked\x0b", "\x0bchunked",
                     "chunked\0", "\0chunked", "chun\tked", "cow chunked", "chunked\xa0", "\xff", "chunKed\x85")],
    *[case(f"the coding {coding!r} beside a length", post(LENGTH, f"Transfer-Encoding: {coding}", body=MESSAGE), ((400, 501),), CLOSED)
      for coding in ("", "identity", "xchunked", "\x0bchunked", "chunked, identity")],
    case("a space before the colon of the coding", post("Transfer-Encoding : chunked", LENGTH, body=MESSAGE), 400, CLOSED),
    case("a NUL before the colon of the coding", post("Transfer-Encoding\0: chunked", LENGTH, body=MESSAGE), 400, CLOSED),
    case("a space before the name of the coding", post("X-A: b", " Transfer-Encoding: chunked", LENGTH, body=MESSAGE), 400, CLOSED),
    case("Transfer_Encoding is another field", post("Transfer_Encoding: chunked", LENGTH, body=MESSAGE), 201, KEPT),
    case("TE says what may come back, nothing more", get("TE: trailers, chunked"), 200, KEPT),
    case("Content-Encoding is not framing", get("Content-Encoding: chunked", "Content-Length: 5") + b"hello" + get(), (415, 200), KEPT),

    # -- chunk sizes
    case("many chunks", chunked(b"".join(chunk(MESSAGE[i:i + 1]) for i in range(len(MESSAGE))) + LAST), 201, KEPT, stored="hello"),
    case("a size in capitals", chunked(chunk(MESSAGE, size="1E") + LAST), 201, KEPT),
    case("a size with zeros before it", chunked(chunk(MESSAGE, size="00000000000000000000001e") + LAST), 201, KEPT),
    case("a last chunk of several zeros (9112 §7.1)", chunked(chunk(MESSAGE) + b"000\r\n\r\n"), 201, KEPT),
    case("no chunk but the last: an empty body", get(CHUNKED) + LAST, 200, KEPT),
    *[case(f"the chunk size {size!r}", chunked(chunk(MESSAGE, size=size) + LAST), 400, CLOSED)
      for size in ("", "-1e", "+1e", "0x1e", "1e ", " 1e", "\t1e", "1e\t", "1_e", "1.e", "1eh", "g", "\xb2", "1e\0", "\0", "1e\x0b", "1e\r", "30;",
                   "1e,", "\"1e\"", "1e 1e", "1000000000000001e", "fffffffffffffffff", "10000000000000000000000000000001e")],
    case("a size of 2^64 - 1", chunked(chunk(MESSAGE, size="f" * 16) + LAST), ((400, 413),), CLOSED),
    case("a size of 2^32 + 30 is not 30", chunked(chunk(MESSAGE, size="10000001e") + LAST), ((400, 413),), CLOSED),
    case("a body over 8 MiB in chunks", chunked(b"800001\r\n" + b"x" * 1000), 413, CLOSED),
    case("bare LF after a size", chunked(b"1e\n" + MESSAGE + b"\r\n" + LAST), 400, CLOSED),
    case("bare CR after a size", chunked(b"1e\r" + MESSAGE + b"\r\n" + LAST), 400, CLOSED),
    case("bare LF after a chunk", chunked(b"1e\r\n" + MESSAGE + b"\n" + LAST), 400, CLOSED),
    case("no line end after a chunk", chunked(b"1e\r\n" + MESSAGE + LAST), 400, CLOSED),
    case("a chunk longer than its size", chunked(b"1e\r\n" + MESSAGE + b"XX" + LAST), 400, CLOSED),
    case("a chunk shorter than its size", chunked(b"1f\r\n" + MESSAGE + b"\r\n" + LAST), 400, CLOSED),
    case("an empty line before a size", chunked(b"\r\n" + WHOLE), 400, CLOSED),
    case("two empty lines after a chunk", chunked(chunk(MESSAGE) + b"\r\n" + LAST), 400, CLOSED),
    case("bare LF ends the last chunk", chunked(chunk(MESSAGE) + b"0\n\r\n"), 400, CLOSED),
    case("bare LF ends the body", chunked(chunk(MESSAGE) + b"0\r\n\n"), 400, CLOSED),
    case("the last chunk without its empty line", chunked(chunk(MESSAGE) + b"0\r\n"), (), CUT),
    case("no last chunk", chunked(chunk(MESSAGE)), (), CUT),
    case("the next request where the body's end should be", chunked(chunk(MESSAGE) + b"0\r\n" + SMUGGLED), 400, CLOSED),
    case("chunks byte by byte", chunked(chunk(MESSAGE[:9]) + chunk(MESSAGE[9:], ";a=b") + b"0\r\nX-A: b\r\n\r\n"), 201, KEPT, bytewise=True, stored="hello"),

    # -- chunk extensions (9112 §7.1.1)
    *[case(f"the extension {extension!r}", chunked(chunk(MESSAGE, extension) + LAST), 201, KEPT)
      for extension in (";a", ";a=b", ";a;b;c=d", ";a=\"b c\"", ";a=\"\\\"\"", " ;a", "; a", ";a = b", ";a=\"\t\xe4\"")],
    *[case(f"the extension {extension!r}", chunked(chunk(MESSAGE, extension) + LAST), 400, CLOSED)
      for extension in (";", ";;", ";=b", ";a=", ";a=\"", ";a=\"b", ";a\n", ";\n0\r\n\r\n", ";a=\"\n\"", ";a=\"\r\"", ";a\rb", ";a\0", ";a=\"\0\"",
                        ";a=\"\x01\"", ";a=(b)", ";a b", ";\xe4", "z")],
    case("an extension of 20 KiB", chunked(chunk(MESSAGE, ";a=" + "b" * 20480) + LAST), ((400, 413, 431),), CLOSED),
    case("extensions of 20 KiB together", chunked(b"".join(chunk("x", ";" + "a" * 100) for _ in range(200)) + LAST), ((400, 413, 431),), CLOSED),
    case("an extension of the last chunk", chunked(chunk(MESSAGE) + b"0;a=b\r\n\r\n"), 201, KEPT),
    case("a bad extension of the last chunk", chunked(chunk(MESSAGE) + b"0;a\nb\r\n\r\n"), 400, CLOSED),

    # -- trailers (9112 §7.1.2; 9110 §6.5): read strictly, then dropped
    case("a trailer", chunked(chunk(MESSAGE) + b"0\r\nX-A: b\r\n\r\n"), 201, KEPT, stored="hello"),
    case("a trailer that says Connection: close is not heard", chunked(chunk(MESSAGE) + b"0\r\nConnection: close\r\n\r\n"), 201, KEPT),
    case("a trailer that says Host is not heard", chunked(chunk(MESSAGE) + b"0\r\nHost: evil.example\r\n\r\n"), 201, KEPT),
    case("a trailer authorises nobody", get(CHUNKED, target="/v1/whoami") + b"0\r\n@AUTH\r\n\r\n", 401, KEPT),
    case("a trailer names no request", get(CHUNKED) + b"0\r\nX-Request-Id: mine\r\n\r\n", 200, KEPT, has={"x-request-id": lambda v: v != "mine"}),
    case("a length in the trailer", chunked(chunk(MESSAGE) + b"0\r\nContent-Length: 5\r\n\r\n"), 400, CLOSED),
    case("a coding in the trailer", chunked(chunk(MESSAGE) + b"0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, CLOSED),
    case("obs-fold in a trailer", chunked(chunk(MESSAGE) + b"0\r\nX-A: b\r\n c\r\n\r\n"), 400, CLOSED),
    case("white space before the first trailer", chunked(chunk(MESSAGE) + b"0\r\n X-A: b\r\n\r\n"), 400, CLOSED),
    case("a space before a trailer's colon", chunked(chunk(MESSAGE) + b"0\r\nX-A : b\r\n\r\n"), 400, CLOSED),
    case("a trailer without colon", chunked(chunk(MESSAGE) + b"0\r\nX-A\r\n\r\n"), 400, CLOSED),
    case("a trailer with an empty name", chunked(chunk(MESSAGE) + b"0\r\n: b\r\n\r\n"), 400, CLOSED),
    case("bare LF in a trailer", chunked(chunk(MESSAGE) + b"0\r\nX-A: b\nX-B: c\r\n\r\n"), 400, CLOSED),
    case("bare CR in a trailer", chunked(chunk(MESSAGE) + b"0\r\nX-A: b\rX-B: c\r\n\r\n"), 400, CLOSED),
    case("NUL in a trailer", chunked(chunk(MESSAGE) + b"0\r\nX-A: b\0\r\n\r\n"), 400, CLOSED),
    case("a trailer of 17 KiB", chunked(chunk(MESSAGE) + b"0\r\nX-A: " + b"b" * 17000 + b"\r\n\r\n"), ((400, 413, 431),), CLOSED),
    case("a trailer without end", chunked(chunk(MESSAGE) + b"0\r\nX-A: " + b"b" * 20000), ((400, 413, 431),), CLOSED),

    # -- Expect (9110 §10.1.1)
    case("100, then the body", [post(LENGTH, "Expect: 100-continue"), MESSAGE], (100, 201), KEPT, stored="hello"),
    case("100-CONTINUE", [post(LENGTH, "Expect: 100-CONTINUE"), MESSAGE], (100, 201), KEPT),
    case("100 among other expectations", [post(LENGTH, "Expect: x, 100-continue"), MESSAGE], ((100, 417), 201), KEPT),
    case("100 before chunks", [chunked(b"", "Expect: 100-continue"), WHOLE], (100, 201), KEPT),
    case("who does not wait for it may go without", post(LENGTH, "Expect: 100-continue", body=MESSAGE), 201, KEPT),
    case("no body, no 100", get("Expect: 100-continue"), 200, KEPT),
    case("a length of 0, no 100", get("Expect: 100-continue", "Content-Length: 0"), 200, KEPT),
    case("HTTP/1.0 is never told 100", post(LENGTH, "Expect: 100-continue", "Connection: keep-alive", body=MESSAGE, version="HTTP/1.0"), 201, KEPT),
    case("too long: 413 instead of 100", post("Content-Length: 9000000", "Expect: 100-continue"), 413, CLOSED),
    case("another host: 421 instead of 100", [get("Content-Length: 5", "Expect: 100-continue", host="evil.example")], 421, CLOSED),
    case("malformed: 400 instead of 100", post(LENGTH, CHUNKED, "Expect: 100-continue"), 400, CLOSED),
    case("an expectation that nobody knows (9110 lets 417 be optional)", get("Expect: x"), ((200, 417),), KEPT),
]

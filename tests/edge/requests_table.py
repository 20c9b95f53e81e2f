"""Request lines and targets: RFC 9112 §2.2, §2.3, §3; RFC 9110 §4.2, §7.1, §7.4, §9.1. And protocols that are not HTTP/1."""

from case import CLOSED, CUT, KEPT, MESSAGE, LENGTH, case, get, line, lines, post

HELLO = (b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03" + bytes(range(32)) + b"\x20" + bytes(32) +
         b"\x00\x02\x13\x01\x01\x00\x00\xa5")  # a TLS 1.3 ClientHello, begun

CASES = [
    # -- lines and their ends
    case("a plain request", get(), 200, KEPT, wire=True),
    case("an empty line before it is ignored (9112 §2.2)", b"\r\n" + get(), 200, KEPT),
    case("so are three", b"\r\n\r\n\r\n" + get(), 200, KEPT),
    case("an empty line that is a bare LF", b"\n" + get(), 400, CLOSED),
    case("an empty line that is a bare CR", b"\r" + get(), 400, CLOSED),
    case("nothing but empty lines is no request", b"\r\n\r\n", (), CUT),
    case("bare LF ends the request line", b"GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n", 400, CLOSED),
    case("bare LF ends every line", b"GET /healthz HTTP/1.1\nHost: localhost\n\n", 400, CLOSED, wire=True),
    case("bare LF ends the header block", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n", 400, CLOSED),
    case("bare CR ends the request line", b"GET /healthz HTTP/1.1\rHost: localhost\r\n\r\n", 400, CLOSED),
    case("CR CR LF ends the request line", b"GET /healthz HTTP/1.1\r\r\nHost: localhost\r\n\r\n", 400, CLOSED),
    case("half a request line", b"GET /heal", (), CUT, wire=True),
    case("half a header block", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", (), CUT),

    # -- its parts
    case("two spaces after the method", line("GET  /healthz HTTP/1.1"), 400, CLOSED),
    case("two spaces before the version", line("GET /healthz  HTTP/1.1"), 400, CLOSED),
    case("a tab after the method", line("GET\t/healthz HTTP/1.1"), 400, CLOSED),
    case("a tab before the version", line("GET /healthz\tHTTP/1.1"), 400, CLOSED),
    case("vertical tab as white space", line("GET\x0b/healthz HTTP/1.1"), 400, CLOSED),
    case("a space before the method", line(" GET /healthz HTTP/1.1"), 400, CLOSED),
    case("a space after the version", line("GET /healthz HTTP/1.1 "), 400, CLOSED),
    case("something after the version", line("GET /healthz HTTP/1.1 HTTP/1.1"), 400, CLOSED),
    case("no method", line("/healthz HTTP/1.1"), 400, CLOSED),
    case("no target", line("GET HTTP/1.1"), 400, CLOSED),
    case("an empty target", line("GET  HTTP/1.1"), 400, CLOSED),
    case("HTTP/0.9", b"GET /healthz\r\n", 400, CLOSED, wire=True),
    case("no version but fields", line("GET /healthz"), 400, CLOSED),
    case("a method with a character that no token has", line("G@T /healthz HTTP/1.1"), 400, CLOSED),
    case("NUL in the method", line("G\0T /healthz HTTP/1.1"), 400, CLOSED),
    case("a method of 4000 bytes", line("A" * 4000 + " /healthz HTTP/1.1"), 400, CLOSED, wire=True),
    case("a method without end", b"A" * 100, 400, CLOSED),
    case("methods are case-sensitive (9110 §9.1)", line("get /healthz HTTP/1.1"), 405, KEPT),
    case("an unknown method", line("BREW /healthz HTTP/1.1"), ((405, 501),), KEPT),

    # -- versions
    case("HTTP/1.2 is served as 1.1 (9110 §2.5)", line("GET /healthz HTTP/1.2"), 200, KEPT),
    case("HTTP/1.9 with a body", post(LENGTH, body=MESSAGE, version="HTTP/1.9"), 201, KEPT),
    *[case(f"version {v!r}", line(f"GET /healthz {v}"), ((400, 505),), CLOSED)
      for v in ("HTTP/2.0", "HTTP/2", "HTTP/3", "HTTP/0.9", "HTTP/1", "HTTP/1.", "HTTP/.1", "HTTP/1.10", "HTTP/01.1", "HTTP/1.01",
                "HTTP/1.1.1", "HTTP/1,1", "HTTP /1.1", "HTTP/ 1.1", "HTTP/1 .1", "http/1.1", "Http/1.1", "HTTPS/1.1", "HTP/1.1",
                "HTTP/+1.1", "HTTP/1.-1", "HTTP/1.1x", "HTTP/1.1\0", "HTTP/1.\xb9", "ICY/1.1")],

    # -- targets
    case("a byte outside ASCII", line("GET /healthz?\xe4 HTTP/1.1"), 400, CLOSED),
    case("NUL in the target", line("GET /health\0z HTTP/1.1"), 400, CLOSED),
    case("CR in the target", line("GET /health\rz HTTP/1.1"), 400, CLOSED),
    case("DEL in the target", line("GET /health\x7fz HTTP/1.1"), 400, CLOSED),
    case("a space in the target", line("GET /health z HTTP/1.1"), 400, CLOSED),
    case("a fragment", line("GET /healthz#x HTTP/1.1"), 400, CLOSED),
    case("no slash before the path", line("GET healthz HTTP/1.1"), 400, CLOSED),
    case("a query and no path", line("GET ?x=1 HTTP/1.1"), 400, CLOSED),
    case("a backslash before the path", line("GET \\healthz HTTP/1.1"), 400, CLOSED),
    case("a backslash in the path (3986 has none)", line("GET /x\\..\\healthz HTTP/1.1"), 400, CLOSED),
    case("angle brackets in the path (3986 has none)", line("GET /<script> HTTP/1.1"), 400, CLOSED),
    case("two slashes begin a path, not an authority", line("GET //localhost/healthz HTTP/1.1"), 404, KEPT),
    case("an empty query", line("GET /healthz? HTTP/1.1"), 200, KEPT),

    # -- absolute form
    case("absolute form", line("GET http://localhost/healthz HTTP/1.1"), 200, KEPT),
    case("its scheme in capitals", line("GET HTTP://localhost/healthz HTTP/1.1"), 200, KEPT),
    case("its host in capitals and a port", line("GET http://LOCALHOST:80/healthz HTTP/1.1"), 200, KEPT),
    case("its host an address", line("GET http://127.0.0.1/healthz HTTP/1.1"), 200, KEPT),
    case("an empty path is / (9112 §3.2.1)", line("GET http://localhost HTTP/1.1"), 200, KEPT, has={"content-type": "text/html; charset=utf-8"}),
    case("an empty path with a query", line("GET http://localhost?x=1 HTTP/1.1"), 200, KEPT),
    case("another host in it", line("GET http://evil.example/healthz HTTP/1.1"), 421, CLOSED),
    case("another host in it, Host ours: the target counts (9112 §3.2.2)", get(target="http://evil.example/healthz"), 421, CLOSED),
    case("ours in it, another Host: the target counts", get(target="http://localhost/healthz", host="evil.example"), 200, KEPT),
    case("absolute form without Host in HTTP/1.1", get(target="http://localhost/healthz", host=None), 400, CLOSED),
    case("absolute form, Host doubled", get("Host: localhost", target="http://localhost/healthz"), 400, CLOSED),
    case("absolute form, Host malformed", get(target="http://localhost/healthz", host="a b"), 400, CLOSED),
    case("user information (9110 §4.2.4)", line("GET http://admin@localhost/healthz HTTP/1.1"), 400, CLOSED),
    case("user information that looks like us", line("GET http://localhost@evil.example/healthz HTTP/1.1"), 400, CLOSED),
    case("a backslash in the authority", line("GET http://evil.example\\@localhost/healthz HTTP/1.1"), 400, CLOSED),
    case("an empty host", line("GET http:///healthz HTTP/1.1"), 400, CLOSED),
    case("a port that is no number", line("GET http://localhost:8x/healthz HTTP/1.1"), 400, CLOSED),
    case("https on a connection without TLS (9110 §7.4)", line("GET https://localhost/healthz HTTP/1.1"), 421, CLOSED),
    case("another scheme", line("GET ftp://localhost/healthz HTTP/1.1"), 400, CLOSED),
    case("a scheme and one slash", line("GET http:/localhost/healthz HTTP/1.1"), 400, CLOSED),
    case("file:", line("GET file:///etc/passwd HTTP/1.1"), 400, CLOSED),
    case("absolute form with a dot segment", line("GET http://localhost/x/../healthz HTTP/1.1"), 400, KEPT),

    # -- authority and asterisk form
    case("CONNECT", line("CONNECT localhost:80 HTTP/1.1"), 405, CLOSED, has={"allow": lambda v: "GET" in v}),
    case("CONNECT to what is no authority", line("CONNECT local@host HTTP/1.1"), 400, CLOSED),
    case("CONNECT with a path", line("CONNECT /healthz HTTP/1.1"), 405, KEPT),
    case("authority form with GET", line("GET localhost:80 HTTP/1.1"), 400, CLOSED),
    case("GET *", line("GET * HTTP/1.1"), 400, CLOSED),
    case("POST *", line("POST * HTTP/1.1"), 400, CLOSED),
    case("OPTIONS *", line("OPTIONS * HTTP/1.1"), 204, KEPT, has={"content-length": None}),
    case("OPTIONS *?x", line("OPTIONS *?x HTTP/1.1"), 400, CLOSED),
    case("OPTIONS of the whole server in absolute form", line("OPTIONS http://localhost HTTP/1.1"), 204, KEPT),
    case("OPTIONS * for another host", get(method="OPTIONS", target="*", host="evil.example"), 421, CLOSED),

    # -- what is not HTTP/1 is told at once, not when a line has ended
    case("a TLS ClientHello", HELLO, 400, CLOSED),
    case("an SSLv2 ClientHello", b"\x80\x2e\x01\x03\x01", 400, CLOSED),
    case("the HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", ((400, 505),), CLOSED),
    case("an upgrade to h2c is passed over", get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"), 200, KEPT),
    case("an upgrade to a WebSocket is passed over", get("Connection: Upgrade", "Upgrade: websocket"), 200, KEPT),
    case("the PROXY protocol", b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + get(), 400, CLOSED),
    case("the PROXY protocol, version 2", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12), 400, CLOSED),
    case("SSH", b"SSH-2.0-OpenSSH_9.2\r\n", 400, CLOSED),
    case("Redis", b"*1\r\n$4\r\nPING\r\n", 400, CLOSED),
    case("SMTP", b"EHLO localhost\r\n", 400, CLOSED),
    case("NULs", bytes(64), 400, CLOSED),
    case("a reply", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 400, CLOSED),

    # -- over-long
    case("a target of 8 KiB", line("GET /healthz?" + "x" * (8192 - 9) + " HTTP/1.1"), 200, KEPT),
    case("a target of 8 KiB and a byte", line("GET /healthz?" + "x" * (8192 - 8) + " HTTP/1.1"), 414, CLOSED),
    case("a request line without end", b"GET /" + b"x" * 9000, 414, CLOSED),

    # -- byte by byte
    case("byte by byte", get("X-A: b"), 200, KEPT, bytewise=True),
    case("byte by byte, with a body", post(LENGTH, body=MESSAGE), 201, KEPT, bytewise=True, stored="hello"),
    case("a bad one byte by byte", lines("GET /healthz HTTP/1.1", "Host : localhost"), 400, CLOSED, bytewise=True),
]

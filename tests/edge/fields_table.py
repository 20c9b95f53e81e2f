"""Header fields: RFC 9112 §3.2, §5, §9.3, §9.6; RFC 9110 §5, §7.2, §7.6.1, §11.6.2."""

from case import CLOSED, KEPT, LENGTH, MESSAGE, case, get, post

V10 = "HTTP/1.0"

CASES = [
    # -- Host
    case("no Host", get(host=None), 400, CLOSED, wire=True),
    case("an empty Host names nobody here", get(host=""), ((400, 421),), CLOSED),
    case("two Hosts", get("Host: evil.example"), 400, CLOSED),
    case("two equal Hosts", get("Host: localhost"), 400, CLOSED),
    case("two Hosts, one in capitals", get("HOST: localhost"), 400, CLOSED),
    case("HOST", get("HOST: localhost", host=None), 200, KEPT),
    case("another Host", get(host="evil.example"), 421, CLOSED),
    case("another Host over the unix socket", get(host="evil.example"), 200, KEPT, unix=True),
    case("Host in capitals with a port", get(host="LocalHost:7433"), 200, KEPT),
    case("Host with an empty port (3986 §3.2.3)", get(host="localhost:"), 200, KEPT),
    case("Host is our address", get(host="127.0.0.1"), 200, KEPT),
    case("Host is an address that is not ours", get(host="127.0.0.2"), 421, CLOSED),
    case("Host is our address as a number", get(host="2130706433"), 421, CLOSED),
    case("Host is our address in octal", get(host="0177.0.0.1"), 421, CLOSED),
    case("Host is our address, short", get(host="127.1"), 421, CLOSED),
    case("Host is IPv6 loopback", get(host="[::1]:7433"), 200, KEPT),
    case("Host is our address mapped into IPv6", get(host="[::ffff:127.0.0.1]"), 421, CLOSED),
    case("Host begins like ours", get(host="localhost.evil.example"), 421, CLOSED),
    case("Host ends like ours", get(host="evillocalhost"), 421, CLOSED),
    case("Host with a dot behind it", get(host="localhost."), 421, CLOSED),
    *[case(f"Host {host!r}", get(host=host), 400, CLOSED)
      for host in ("local host", "localhost/", "localhost/healthz", "user@localhost", "localhost:80:80", "localhost:8o", "localhost:-1",
                   "[::1", "::1", "[::1]x", "[localhost]", "localhost, localhost", "localhost\t80", "local\0host", "local\xe4host",
                   "localhost?", "localhost#", "localhost\\", "http://localhost", ":80", "<localhost>")],

    # -- lines
    case("obs-fold with a space", get("X-A: b", " c"), 400, CLOSED),
    case("obs-fold with a tab", get("X-A: b", "\tc"), 400, CLOSED),
    case("obs-fold of nothing", get("X-A: b", " "), 400, CLOSED),
    case("obs-fold into Host", get("Host:", " localhost", host=None), 400, CLOSED),
    case("obs-fold into Transfer-Encoding", post("Transfer-Encoding:", " chunked", body="0\r\n\r\n"), 400, CLOSED),
    case("obs-fold into Content-Length", post("Content-Length:", " 0"), 400, CLOSED, wire=True),
    case("white space before the first field (9112 §2.2)", b"GET /healthz HTTP/1.1\r\n X-A: b\r\nHost: localhost\r\n\r\n", 400, CLOSED),
    case("white space alone before the first field", b"GET /healthz HTTP/1.1\r\n \r\nHost: localhost\r\n\r\n", 400, CLOSED),
    case("a space before the colon (9112 §5.1)", get("X-A : b"), 400, CLOSED),
    case("a tab before the colon", get("X-A\t: b"), 400, CLOSED),
    case("a space before the colon of Host", get("Host : localhost", host=None), 400, CLOSED),
    case("an empty name", get(": b"), 400, CLOSED),
    case("no colon", get("X-A"), 400, CLOSED),
    case("a request line among the fields", get("GET /version HTTP/1.1"), 400, CLOSED),
    *[case(f"the name {name!r}", get(f"{name}: b"), 400, CLOSED)
      for name in ("X A", "X(A)", "X/A", "X[A]", "X{A}", "X\"A\"", "X@A", "X,A", "X;A", "X=A", "X?A", "X\\A", "X<A>", "X\0A", "X\x7fA",
                   "X\xe4A", "X\x0bA")],
    case("every other character that a token has", get("!#$%&'*+-.^_`|~09azAZ: b"), 200, KEPT),

    # -- values
    case("NUL in a value (9110 §5.5)", get("X-A: b\0c"), 400, CLOSED),
    case("bare CR in a value (9112 §2.2)", get("X-A: b\rc"), 400, CLOSED),
    case("CR before CR LF", get("X-A: b\r"), 400, CLOSED),
    case("bare LF in a value", get("X-A: b\nX-C: d"), 400, CLOSED),
    case("a field behind a bare LF", post("X-A: b\nTransfer-Encoding: chunked", "Content-Length: 0"), 400, CLOSED),
    case("a field behind a bare CR", post("X-A: b\rTransfer-Encoding: chunked", "Content-Length: 0"), 400, CLOSED),
    case("a control character in a value", get("X-A: b\x01c"), 400, CLOSED),
    case("escape in a value", get("X-A: \x1b[31m"), 400, CLOSED),
    case("DEL in a value", get("X-A: b\x7fc"), 400, CLOSED),
    case("obs-text in a value is opaque (9110 §5.5)", get("X-A: \xe4\xff"), 200, KEPT),
    case("a tab in a value", get("X-A: b\tc"), 200, KEPT),
    case("white space around a value", get("X-A: \t b \t "), 200, KEPT),
    case("no white space before a value", get("X-A:b"), 200, KEPT),
    case("an empty value", get("X-A:"), 200, KEPT),
    case("a value of colons", get("X-A: ::: b: c"), 200, KEPT),
    case("a field twice that may be a list (9110 §5.3)", get("Accept: text/html", "Accept: */*"), 200, KEPT),

    # -- fields that say who asks, or for what: two are two meanings
    case("two Authorizations", get("@AUTH", "Authorization: Bearer x", target="/v1/whoami"), 400, CLOSED, wire=True),
    case("two Authorizations, the good one last", get("Authorization: Bearer x", "@AUTH", target="/v1/whoami"), 400, CLOSED),
    case("two Content-Types", post("Content-Type: application/json", "Content-Type: text/plain", LENGTH, body=MESSAGE), 400, CLOSED),
    case("two Idempotency-Keys", post("Idempotency-Key: a", "Idempotency-Key: b", LENGTH, body=MESSAGE), 400, CLOSED),
    case("two Cookies are one (9113 §8.2.3)", get("Cookie: a=1", "Cookie: b=2"), 200, KEPT),
    case("a body in a coding (9110 §15.5.16)", post("Content-Encoding: gzip", LENGTH, body=MESSAGE), 415, KEPT, has={"accept-encoding": "identity"}),
    case("a body in no coding", post("Content-Encoding: identity", LENGTH, body=MESSAGE), 201, KEPT),
    case("one Authorization", get("@AUTH", target="/v1/whoami"), 200, KEPT),
    case("a wrong one", get("Authorization: Bearer sd_x_y", target="/v1/whoami"), 401, KEPT, has={"www-authenticate": 'Bearer realm="sessiond"'}),
    case("none", get(target="/v1/whoami"), 401, KEPT),

    # -- X-Request-Id comes back only when it is harmless
    case("a request id", get("X-Request-Id: a.b_c-1"), 200, KEPT, has={"x-request-id": "a.b_c-1"}),
    case("one that is none is replaced", get("X-Request-Id: <b>"), 200, KEPT, has={"x-request-id": lambda v: "<" not in v}),
    case("a long one is replaced", get("X-Request-Id: " + "a" * 129), 200, KEPT, has={"x-request-id": lambda v: len(v) < 100}),
    case("the id of a refused request", get("X-Request-Id: mine", "X-A : b"), 400, CLOSED, has={"x-request-id": lambda v: v}),

    # -- over-long
    case("a field of 16 KiB", get("X-A: " + "x" * 16384), 431, CLOSED),
    case("a field without end", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"x" * 17000, 431, CLOSED, wire=True),
    case("a name without end", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"x" * 17000, 431, CLOSED),
    case("fields of 16 KiB together", get(*[f"X-{i}: {'x' * 250}" for i in range(70)]), 431, CLOSED),
    case("90 fields", get(*[f"X-{i}: b" for i in range(90)]), 200, KEPT),
    case("4000 short fields", get(*["a:"] * 4000), 431, CLOSED),

    # -- the connection (9112 §9.3)
    case("Connection: close", get("Connection: close"), 200, CLOSED, wire=True),
    case("Connection: CLOSE", get("Connection: CLOSE"), 200, CLOSED),
    case("close in a list", get("Connection: x, close"), 200, CLOSED),
    case("close in a second line", get("Connection: x", "Connection: close"), 200, CLOSED),
    case("close wins over keep-alive", get("Connection: keep-alive, close"), 200, CLOSED),
    case("Connection: keep-alive", get("Connection: keep-alive"), 200, KEPT, has={"connection": None}),
    case("an option that nobody knows", get("Connection: closed"), 200, KEPT),
    case("Connection cannot take Host away", get("Connection: Host"), 200, KEPT),
    case("Connection cannot take Content-Length away", post("Connection: Content-Length", LENGTH, body=MESSAGE), 201, KEPT),
    case("Proxy-Connection means nothing", get("Proxy-Connection: close"), 200, KEPT),
    case("Keep-Alive means nothing", get("Keep-Alive: timeout=0, max=0"), 200, KEPT),

    # -- HTTP/1.0
    case("1.0 closes", get(version=V10), 200, CLOSED, wire=True),
    case("1.0 without Host", get(version=V10, host=None), 200, CLOSED),
    case("1.0 with another Host", get(version=V10, host="evil.example"), 421, CLOSED),
    case("1.0 with two Hosts", get("Host: localhost", version=V10), 400, CLOSED),
    case("1.0 with keep-alive (9112 §9.3)", get("Connection: keep-alive", version=V10), 200, KEPT, has={"connection": "keep-alive"}),
    case("1.0 with keep-alive and close", get("Connection: keep-alive, close", version=V10), 200, CLOSED),
    case("1.0 in absolute form", get(version=V10, host=None, target="http://localhost/healthz"), 200, CLOSED),
    case("1.0 in absolute form for another host", get(version=V10, host=None, target="http://evil.example/healthz"), 421, CLOSED),
    case("1.0 with a body", post(LENGTH, "Connection: keep-alive", body=MESSAGE, version=V10), 201, KEPT),
    case("1.0 with a coding (9112 §6.1)", post("Transfer-Encoding: chunked", body="0\r\n\r\n", version=V10), 400, CLOSED),
]

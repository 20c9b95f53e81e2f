"""{agent}, {key} and {topic} in percent-encoding: split first, decoded once, never a path of the file system (RFC 3986 §2, §6)."""

import re

from case import KEPT, CLOSED, LENGTH, MESSAGE, case, get, post

V = "/v1/agents"
S = V + "/main/sessions/@K"
NOT_THERE = ((400, 404, 422),)


def read(path):
    return get("@AUTH", target=path)


def write(path):
    return post(LENGTH, body=MESSAGE, target=path)


def no_secret(body):
    return b"root:" not in body and b"token" not in body


CASES = [
    case("a session", read(S), 200, KEPT),
    case("its colons encoded", read(V + "/main/sessions/@%K"), 200, KEPT),
    case("letters of a fixed segment encoded (3986 §6.2.2.2: the same)", read("/v1/%61gents/main"), 200, KEPT),
    case("letters of the agent encoded", read("/v1/agents/%6dai%6E"), 200, KEPT),
    case("an encoded slash is no separator: {key}", read("/v1/agents/main%2Fsessions"), NOT_THERE, KEPT),
    case("an encoded slash is no separator: fixed", read("/v1%2Fagents"), 404, KEPT),
    case("an encoded slash is no separator: small letters", read("/v1%2fagents"), 404, KEPT),
    case("an encoded question mark begins no query", read(S + "%3Ftopic=x"), 404, KEPT),
    case("an encoded number sign", read(S + "%23x"), 404, KEPT),
    case("a segment parameter is part of the name", read(S + ";a=b"), 404, KEPT),
    case("two slashes", read("/v1//agents"), 404, KEPT),
    case("a slash behind it", read("/v1/agents/"), 404, KEPT),
    case("an empty agent", read("/v1/agents//sessions"), 404, KEPT),

    # -- dot segments
    *[case(f"the path {path!r}", read(path), 400, KEPT)
      for path in ("/v1/./agents", "/v1/../healthz", "/../healthz", "/.", "/..", "/healthz/.", "/healthz/..", "/v1/%2e/agents", "/v1/%2e%2e/healthz",
                   "/v1/.%2e/healthz", "/v1/%2E./healthz", V + "/../main", V + "/%2e%2e/main", V + "/main/sessions/..", V + "/main/sessions/%2e",
                   V + "/main/sessions/%2e%2e/transcript")],
    *[case(f"the path {path!r}", read(path), NOT_THERE, KEPT, body=no_secret)
      for path in (V + "/..%2F..%2F..%2Fetc", V + "/%2e%2e%2f%2e%2e%2fconfig", V + "/main%2f..%2fmain",
                   V + "/main/sessions/..%2f..%2f..%2f..%2fetc%2fpasswd/transcript", V + "/main/sessions/%2fetc%2fpasswd/transcript",
                   V + "/main/sessions/..%5c..%5cetc", V + "/..;/main", V + "/..%3b/main", V + "/main/sessions/....%2f%2f", V + "/.../main",
                   V + "/%2e%2e%2e", V + "/main/sessions/sessions.json/transcript", V + "/main/sessions/..%2fsessions.json/transcript",
                   V + "/main/sessions/@K%2ejsonl/transcript")],

    # -- encoded twice: decoded once
    *[case(f"the path {path!r}", read(path), NOT_THERE, KEPT, body=no_secret)
      for path in (V + "/%252e%252e/main", V + "/main%252Fsessions", V + "/main/sessions/%252e%252e%252fx", V + "/%256dain", V + "/main/sessions/%2500",
                   V + "/main/sessions/%25%30%30", V + "/main/sessions/%25%32%65%25%32%65")],

    # -- what is no percent-encoding
    *[case(f"the path {path!r}", read(path), 400, KEPT)
      for path in ("/%", "/%4", "/%4x", "/%zz", "/v1/agents/%", V + "/main/sessions/%", V + "/main/sessions/a%", V + "/main/sessions/%u002e%u002e",
                   V + "/main/sessions/%%32%65", V + "/main/sessions/%-1", V + "/main/sessions/%+41", V + "/%00", V + "/main%00", V + "/main/sessions/@K%00",
                   V + "/main/sessions/@K%00.jsonl/transcript", "/healthz%00")],
    case("a broken % in the query", read("/healthz?x=%zz"), 400, CLOSED),
    case("NUL in the query", read("/healthz?x=%00"), 400, CLOSED),

    # -- bytes that are no UTF-8, or too many ways to write a character
    *[case(f"the key {key!r}", read(V + "/main/sessions/" + key), NOT_THERE, KEPT, body=no_secret)
      for key in ("%ff%fe", "%c0%ae%c0%ae", "%c0%afx", "%e0%80%af", "%f0%80%80%af", "%ed%a0%80", "%c3", "%ef%bc%8e%ef%bc%8e", "%80")],

    # -- characters that would end a header, a log line or a file name
    *[case(f"the key {key!r}", read(V + "/main/sessions/" + key), NOT_THERE, KEPT, has={"x-a": None})
      for key in ("%0d%0aX-A:%20b", "%0aX-A:b", "a%0db", "%1b[31m", "%7f", "%09", "x" * 600, "%41" * 600, "%e2%80%ae", "%20", "%3Cscript%3E")],

    # -- agents are named with [a-z0-9_-]; every other character is replaced before anything is looked up, scope included
    *[case(f"the agent {agent!r} is main or nobody", read(f"{V}/{agent}"), ((200, 400, 404),), KEPT, body=lambda b: b'"agent":"main"' in b or b'"status":4' in b)
      for agent in ("..%2fmain", "%2e%2e%2fmain", "main%2f", "MAIN", "main%20", "%2fmain")],
    *[case(f"the agent {agent!r} to a token of agent other", get("@OTHER", target=f"{V}/{agent}"), ((400, 403, 404),), KEPT)
      for agent in ("main", "..%2fmain", "%2e%2e%2fmain", "main%2f", "MAIN", "main%20", "%2fmain", "other%2f..%2fmain", "other%00main")],
    case("the agent other to its own token", get("@OTHER", target=f"{V}/other/sessions"), 200, KEPT),
    case("another agent's session to it", get("@OTHER", target=f"{V}/other/sessions/@K"), NOT_THERE, KEPT),
    case("another agent's session to it, by an encoded path", get("@OTHER", target=f"{V}/other%2f..%2fmain/sessions/@K"), ((400, 403, 404),), KEPT),
    *[case(f"a new agent {agent!r}", get("@AUTH", "Content-Length: 2", target=f"{V}/{agent}/sessions", method="POST") + b"{}", ((201, 400, 404, 422),), KEPT,
           body=lambda b: b'"status":4' in b or re.search(rb'"agent":"[a-z0-9_-]{1,64}"', b))
      for agent in ("..%2fx", "%2e%2e%2fx", "a%2fb", "a%5cb", "%20", "a%0ab", "%ff", "x" * 300, "...%2f", "~%2f.ssh", "%252e%252e%252fx", "a%7fb")],

    # -- topics
    case("a topic with an encoded slash is one topic", write(S + "/messages?topic=a%2Fb"), 201, KEPT, body=lambda b: b'"topic":"a/b"' in b),
    case("a topic encoded twice is another", write(S + "/messages?topic=a%252Fb"), 201, KEPT, body=lambda b: b'"topic":"a%2Fb"' in b),
    case("a plus is a plus", write(S + "/messages?topic=a+b"), 201, KEPT, body=lambda b: b'"topic":"a+b"' in b),
    case("a topic of dots and slashes stays in its folder", write(S + "/messages?topic=..%2f..%2f..%2fescaped"), ((201, 400, 422),), KEPT),
    case("a topic of dots", write(S + "/messages?topic=%2e%2e"), ((201, 400, 422),), KEPT),
    case("NUL in a topic", write(S + "/messages?topic=a%00b"), 400, CLOSED),
    case("a broken % in a topic", write(S + "/messages?topic=%2"), 400, CLOSED),
    case("a topic of 81 bytes", write(S + "/messages?topic=" + "x" * 81), ((400, 422),), KEPT),
    case("a topic of 30 slashes is 90 bytes", write(S + "/messages?topic=" + "%2f" * 30), ((400, 422),), KEPT),
    case("a topic that is no UTF-8", write(S + "/messages?topic=%ff"), ((400, 422),), KEPT),
    case("a topic with a line end", write(S + "/messages?topic=a%0d%0ab"), ((400, 422),), KEPT),
    case("deleting a topic by its encoded name", get("@AUTH", method="DELETE", target=S + "/topics/a%2Fb"), ((200, 204),), KEPT),
    case("deleting a topic by its name unencoded is another path", get("@AUTH", method="DELETE", target=S + "/topics/a/b"), 404, KEPT),
    case("deleting a topic of dots", get("@AUTH", method="DELETE", target=S + "/topics/%2e%2e"), 400, KEPT),
    case("an empty ticket in the query is no ticket", get(target="/v1/events?ticket="), ((400, 401),), KEPT),
]

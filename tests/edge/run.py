#!/usr/bin/env python3
"""HTTP as the RFCs have it, byte by byte: tests/edge/run.py --binary PATH [-k PART]

Every case of the *_table.py beside this file against the real daemon (case.py says how to read them).
"""

import argparse
import itertools
import os
import re
import select
import sys
from pathlib import Path
from urllib.parse import quote

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness

import answers_table, deadlines_table, fields_table, framing_table, paths_table, requests_table  # noqa: E401,E402
from case import CLOSED, CUT, KEPT, LATE, get  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.sessiond import SLOW, S, Daemon, uid  # noqa: E402
from wire import Conversation, Wrong  # noqa: E402

TABLES = (requests_table, fields_table, framing_table, answers_table, paths_table, deadlines_table)
AGENT = re.compile("[a-z0-9_-]+")
LEFT = "what was stored, and the end"
TIMEOUT = 20 * SLOW  # of what must come; nothing waits this long when it is right


class World:
    """A daemon, a session to write into and one whose transcript stays as it is."""

    def __init__(self, daemon):
        self.daemon, self.api = daemon, daemon.client()
        self.key, self.fixed = (f"agent:main:slack:channel:{uid()}" for _ in range(2))
        for key in (self.key, self.fixed):
            assert self.api.post("/v1/agents/main/sessions", {"key": key}).status == 201
        for i in range(4):
            assert self.api.post(S(self.fixed, "main", "messages"), {"role": "user", "text": f"line {i}"}).status == 201
        self.file = self.api.get(S(self.fixed, "main", "transcript")).raw
        assert self.api.post("/v1/agents/other/sessions", {}).status == 201
        self.other = daemon.token("operator", agents=["other"])
        self.probes = itertools.count()

    def bytes_of(self, piece):
        for name, value in (("@%K", quote(self.key, safe="")), ("@K", self.key), ("@R", self.fixed),
                            ("@OTHER", "Authorization: Bearer " + self.other), ("@AUTH", "Authorization: Bearer " + self.daemon.admin_token)):
            piece = piece.replace(name.encode(), value.encode())
        return piece

    def messages(self):
        return self.api.get(S(self.key, "main", "messages") + "?limit=200&order=desc").json["data"]


def tell(talk, case, pieces, replies):
    for index, piece in enumerate(pieces):
        if index:
            replies.append(talk.reply(case.head))
        for part in ([piece[i:i + 1] for i in range(len(piece))] if case.bytewise else [piece]):
            talk.send(part)


def drip(talk, data):
    for byte in itertools.cycle([data[i:i + 1] for i in range(len(data))]):
        if talk.buffer or select.select([talk.socket], [], [], 0.02)[0]:
            return
        talk.send(byte)


def check(world, case):
    """Raises Wrong."""
    pieces = [world.bytes_of(piece) for piece in case.sent]
    probe = f"probe-{next(world.probes)}"
    if case.then in (KEPT, CLOSED):
        pieces[-1] += get(f"X-Request-Id: {probe}", target="/version")
    replies = []
    with Conversation(world.daemon, TIMEOUT, case.unix) as talk:
        tell(talk, case, pieces, replies)
        if case.then == CUT:
            talk.end_sending()
        if case.drip:
            drip(talk, case.drip)
        while len(replies) < len(case.statuses):
            reply = talk.reply(case.head)
            if reply is None:
                break
            replies.append(reply)
        came = [reply.status if reply else None for reply in replies]
        if len(came) != len(case.statuses) or any(
                s not in (want if isinstance(want, tuple) else (want,)) for s, want in zip(came, case.statuses)):
            raise Wrong(f"got {came} {replies[-1:]}, not {list(case.statuses)}")
        if any(reply.headers.get("connection") == "close" for reply in (replies if case.then == KEPT else replies[:-1])):
            raise Wrong("Connection: close, and yet more was to be answered")
        if case.then == KEPT:
            after = talk.reply()
            if after is None or after.status != 200 or after.headers["x-request-id"] != probe:
                raise Wrong(f"the request that followed got {after}")
        else:
            if case.then in (CLOSED, LATE) and replies[-1].headers.get("connection") != "close":
                raise Wrong("no Connection: close (RFC 9112 §9.6)")
            talk.closed()
    if replies:
        judge(world, case, replies[-1])
    if case.stored and world.messages()[0]["content"] not in (case.stored, [{"type": "text", "text": case.stored}]):
        raise Wrong(f"stored: {world.messages()[0]}")


def judge(world, case, reply):
    for name, want in case.has.items():
        value = reply.headers.get(name)
        want = want.replace("@SIZE", str(len(world.file))) if isinstance(want, str) else want
        if not (value is not None and want(value) if callable(want) else value == want):
            raise Wrong(f"{name} is {value!r}" + ("" if callable(want) else f", not {want!r}"))
    if isinstance(case.body, tuple):
        if reply.body != world.file[case.body[0]:case.body[1]]:
            raise Wrong(f"the body is {reply.body[:100]!r}")
    elif case.body and not case.body(reply.body):
        raise Wrong(f"the body is {reply.body[:300]!r}")


def stored_by(case):
    """How many messages a case puts into the session's own transcript."""
    return 0 if any(b"topic=" in piece for piece in case.sent) else case.statuses.count(201)


def run(table, part, report):
    """The cases of one table, and what all of them left behind."""
    def full(name):
        return f"{table.__name__}: {name}"

    cases = [case for case in table.CASES if part in case.name and report.wants(full(case.name), full(LEFT))]
    if not cases:
        return

    with Daemon(getattr(table, "CONFIG", {})) as daemon:
        world = World(daemon)
        for case in cases:
            mark = len(daemon.stderr)
            try:
                check(world, case)
                report.passed(full(case.name))
            except Wrong as what:
                report.failed(full(case.name), what)
            if not daemon.alive or daemon.sanitizer_reports():
                report.failed(full(case.name), "the daemon died:\n" + "\n".join(daemon.stderr[mark:][-60:]))
                report.failed(full(LEFT), f"the daemon died in {case.name!r}: the cases after it did not run")
                return
        left = []
        written = sum(map(stored_by, cases))
        if len(world.messages()) != written:
            left.append(f"{len(world.messages())} messages, {written} were acknowledged")
        strange = [p for p in (daemon.state / "agents").iterdir() if not AGENT.fullmatch(p.name)]
        strange += [p for p in daemon.home.rglob("*escaped*") if daemon.agent_dir() not in p.parents]
        if strange:
            left.append(f"where nothing belongs: {strange}")
        if (code := daemon.stop()) != 0 or daemon.sanitizer_reports():
            left += [f"exit code {code}", *daemon.stderr[-60:]]
        report.judge(full(LEFT), left)


def write_seeds(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(case for table in TABLES for case in table.CASES):
        sent = b"".join(case.sent).replace(b"/v1/agents/main/sessions/@K/messages", b"/x").replace(b"@AUTH", b"X-Auth: x")
        (folder / f"edge-{number:03}").write_bytes(bytes([number % 97]) + sent)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the sessiond to test (default build/release/sessiond)")
    parser.add_argument("--seeds", help="only write the cases' bytes there, as a corpus of tests/fuzz/connection.cpp")
    parser.add_argument("-k", dest="part", default="", help="only cases whose name has this")
    options = parser.parse_args()
    if options.binary:
        os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    if options.seeds:
        return write_seeds(Path(options.seeds))
    report = Report()
    for table in TABLES:
        run(table, options.part, report)
    sys.exit(report.finish())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""HTTP as the RFCs have it, byte by byte: tests/edge/run.py --binary PATH [-k PART]

The cases of the *_table.py beside this file (case.py says how to read them). How requests are taken apart is asked of the request reader
itself, by the program read_requests; over a socket, of the real daemon, go those of these cases that the reader alone does not decide or
that say so, and all cases of the other tables.
"""

import argparse
import itertools
import os
import re
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness

import answers_table, deadlines_table, fields_table, framing_table, paths_table, requests_table  # noqa: E401,E402
from case import CLOSED, CUT, KEPT, LATE, get  # noqa: E402
from harness import sessiond  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.sessiond import SLOW, S, Daemon, uid  # noqa: E402
from wire import Conversation, Wrong  # noqa: E402

READER = (requests_table, fields_table, framing_table)
TABLES = (*READER, answers_table, paths_table, deadlines_table)
AGENT = re.compile("[a-z0-9_-]+")
LEFT = "what was stored, and the end"
TIMEOUT = 20 * SLOW  # of what must come; nothing waits this long when it is right


def filled(piece, key, fixed, other, admin):
    for name, value in (("@%K", quote(key, safe="")), ("@K", key), ("@R", fixed),
                        ("@OTHER", "Authorization: Bearer " + other), ("@AUTH", "Authorization: Bearer " + admin)):
        piece = piece.replace(name.encode(), value.encode())
    return piece


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
        return filled(piece, self.key, self.fixed, self.other, self.daemon.admin_token)

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


def followed(case, pieces, probe):
    """The pieces, and the request that comes in the same breath."""
    return [*pieces[:-1], pieces[-1] + get(f"X-Request-Id: {probe}", target="/version")] if case.then in (KEPT, CLOSED) else pieces


def fault_of_reading(case, told):
    """What is wrong with how the reader read a case in one way."""
    read, last, end = told.split()
    whole = sum(1 for want in case.statuses if not refusal(case, want))
    if int(read) != whole + (case.then == KEPT):
        return f"{read} requests were read"
    if case.then == KEPT:
        return None if (last, end) == ("probe", "idle") else "the request that followed was not read as one"
    if case.then == CUT:
        return None if end in ("more", "idle") else "it was not waited for more"
    if whole == len(case.statuses):
        return None if end == "close" else "the connection goes on"
    want = case.statuses[-1]
    return None if end.isdigit() and int(end) in (want if isinstance(want, tuple) else (want,)) else f"the end is not {want}"


def refusal(case, want):
    """Whether a status is one with which the reader ends the connection, and not an answer to a request that it read."""
    return case.then == CLOSED and min(want if isinstance(want, tuple) else (want,)) >= 400 and want is case.statuses[-1]


def reader():
    return Path(sessiond.binary()).parent / "tests" / "read_requests"


def ask_reader(table, cases, report):
    """All cases in one process, each in one piece, in pieces of 7 bytes and byte by byte."""
    sent = [b"".join(followed(case, [filled(piece, "agent:main:x:1", "agent:main:x:2", "o" * 40, "a" * 40) for piece in case.sent], "probe"))
            for case in cases]
    done = subprocess.run([reader()], input=b"".join(b"%d\n%s" % (len(bytes_), bytes_) for bytes_ in sent), capture_output=True, timeout=TIMEOUT)
    told = done.stdout.decode().splitlines()
    report.judge(f"{table.__name__}: the reader", [] if done.returncode == 0 and len(told) == 3 * len(cases)
                 else [f"exit code {done.returncode}, {len(told)} lines for {len(cases)} cases", done.stderr.decode()[-4000:]])
    for case, ways in zip(cases, zip(*[iter(told)] * 3)):
        report.judge(f"{table.__name__}: {case.name}", [f"{fault}: {way}" for way in ways if (fault := fault_of_reading(case, way))])


def by_reader(case):
    """Whether the reader alone decides: nothing of it is a matter of hosts, routes, replies or of what is stored."""
    plain = not (case.has or case.body or case.stored or case.unix or case.drip or case.head) and len(case.sent) == 1 and case.then != LATE
    return plain and all(status in (200, 201, 204, 400, 413, 414, 431, 501, 505) and (status < 400 or refusal(case, want))
                         for want in case.statuses for status in (want if isinstance(want, tuple) else (want,)))


def check(world, case):
    """Raises Wrong."""
    probe = f"probe-{next(world.probes)}"
    pieces = followed(case, [world.bytes_of(piece) for piece in case.sent], probe)
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


def fault_of(world, case):
    try:
        check(world, case)
    except Wrong as what:
        return [what]
    return []


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

    def full_wire(case):
        return full(case.name) + (" over a socket" if case.wire else "")

    cases = [case for case in table.CASES if part in case.name]
    if table in READER:
        asked = [case for case in cases if by_reader(case) and report.wants(full(case.name), f"{table.__name__}: the reader")]
        if asked:
            ask_reader(table, asked, report)
        cases = [case for case in cases if case.wire or not by_reader(case)]
    cases = [case for case in cases if report.wants(full_wire(case), full(LEFT))]
    if not cases:
        return

    with Daemon(getattr(table, "CONFIG", {})) as daemon:
        world = World(daemon)
        at_once = 8 if table is deadlines_table else 1  # these wait, and store nothing
        with ThreadPoolExecutor(at_once) as pool:
            faults = pool.map(lambda case: fault_of(world, case), cases)
            for case, fault in zip(cases, faults):
                report.judge(full_wire(case), fault)
                if not daemon.alive or daemon.sanitizer_reports():
                    pool.shutdown(cancel_futures=True)
                    report.failed(full(LEFT), f"the daemon died in {case.name!r} or beside it: the cases after it did not run\n" +
                                  "\n".join(daemon.stderr[-60:]))
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
    parser.add_argument("--binary", help="the sessiond of build/asan", default="build/asan/sessiond")
    parser.add_argument("--seeds", help="only write the cases' bytes there, as a corpus of tests/fuzz/connection.cpp")
    parser.add_argument("-k", dest="part", default="", help="only cases whose name has this")
    options = parser.parse_args()
    os.environ["SESSIOND_BINARY"] = os.path.abspath(options.binary)
    if options.seeds:
        return write_seeds(Path(options.seeds))
    if not reader().exists():
        parser.error(f"{reader()} is not there: it belongs to the asan build (ninja -C build/asan sessiond read_requests)")
    report = Report()
    for table in TABLES:
        run(table, options.part, report)
    sys.exit(report.finish())


if __name__ == "__main__":
    main()

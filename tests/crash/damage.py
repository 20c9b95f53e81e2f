#!/usr/bin/env python3
"""Damage at every kind of file in the state directory, one at a time: the daemon serves all that is not in that file, says what is wrong,
and the advice that it gives mends it.

    tests/crash/damage.py --binary PATH [-j 4] [-k WORD]

A state directory with three agents, topics, archives, tokens, rules, idempotency keys, indexes, tickets and a sealed journal segment is made
once. Each row of the table is a copy of it in which one file was damaged while the daemon was stopped: bits flipped, removed, cut, filled with
garbage, replaced by a folder or a dangling link. Then the daemon starts, everything else that was acknowledged is asked for, the file's name
is looked for in /readyz, the log and `sessiond doctor`, the commands in the doctor's advice are run to the letter until it has none left, and
all is asked for again. The last line is `N passed, N failed`.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # harness
from harness.case import text_of  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.sessiond import S, Daemon  # noqa: E402

AGENTS = ("one", "two", "three")
CONFIG = {"journal": {"segmentBytes": 64 << 10}, "store": {"checkpointDuty": 1, "damageAfterMs": 0}}
LONG = "a long text " * 400  # makes segments and indexes worth having
COMMAND = re.compile(r"run: (.+)$")
REPAIR = re.compile(r"\b(?:sessiond )?(doctor|serve) --repair")


# -- the state directory -------------------------------------------------------------------------------------------------------------------

class World:
    """What was acknowledged, and how to ask for it. A fact is (the kinds of file it rests on) -> (request, what must come back)."""

    def __init__(self):
        self.daemon = Daemon(CONFIG)
        self.facts = {}
        daemon = self.daemon.start()
        api = daemon.client()
        self.tokens = [daemon.token("viewer"), daemon.token("bridge", agents=["two"])]
        assert api.put("/v1/policy/send", {"rules": [{"action": "deny", "match": {"channel": "irc"}}]}, if_match="*").status == 200
        for agent in AGENTS:
            for name in "abc":
                key = f"agent:{agent}:x:{name}"
                assert api.post(f"/v1/agents/{agent}/sessions", {"key": key, "entry": {"label": name}}).status == 201
                for i in range(6):
                    self.say(api, agent, key, f"{name} {i} {LONG}")
                self.say(api, agent, key, f"in a topic of {name}", "?topic=t")
            assert api.post(S(f"agent:{agent}:x:b", agent, "reset"), {}).status == 200
            self.say(api, agent, f"agent:{agent}:x:b", "after the reset")
            assert api.delete(S(f"agent:{agent}:x:c", agent)).status in (200, 204)
            daemon.checkpoint()
        big = "agent:one:x:a"  # long enough for an index of its own
        for i in range(40):
            self.say(api, "one", big, f"{i} {LONG}{LONG}")
        reply = api.post(S(big, "one", "messages"), {"role": "user", "text": "once"}, idempotency_key="k1")
        assert reply.status == 201, reply
        self.answer = reply.raw
        self.ticket = api.post("/v1/stream-tickets").json["ticket"]
        assert daemon.anonymous().get(f"/v1/events?ticket={self.ticket}&poll=1&waitMs=0").status in (200, 401, 406)
        for _ in range(2):
            for agent in AGENTS:
                assert api.patch(S(f"agent:{agent}:x:a", agent), {"label": f"label {agent}"}).status == 200
            daemon.checkpoint()
        self.texts(api, "one", big)
        daemon.restart()
        api = daemon.client()
        self.known = self.look(api)
        daemon.stop()
        kept = daemon.state / "journal" / "kept" / "2026-01-01T00-00-00.000Z"
        kept.mkdir(parents=True, mode=0o700)
        (kept.parent).chmod(0o700)
        (kept / "something.jsonl").write_bytes(b"kept\n")
        (kept / "something.jsonl").chmod(0o600)
        self.archives = {p.relative_to(daemon.state): p.read_bytes() for p in daemon.state.rglob("*.jsonl.*")
                         if ".reset." in p.name or ".deleted." in p.name}
        assert self.archives

    def say(self, api, agent, key, text, query=""):
        reply = api.post(S(key, agent, "messages") + query, {"role": "user", "text": text})
        assert reply.status == 201, reply

    def texts(self, api, agent, key, topic=""):
        out, more = [], ""
        while True:
            reply = api.get(S(key, agent, "messages") + f"?limit=200&order=asc{topic}{more}")
            if reply.status != 200:
                return f"{reply.status} {(reply.json or {}).get('code')}"
            out += [text_of(m) for m in reply.json["data"]]
            if not reply.json["page"]["hasMore"]:
                return out
            more = f"&after={reply.json['page']['nextAfter']}"

    def look(self, api):
        """Every fact as it is now."""
        facts = {}
        for agent in AGENTS:
            listed = api.get(f"/v1/agents/{agent}/sessions?limit=200")
            facts["list", agent] = (sorted((s["key"], s["sessionId"], s.get("label")) for s in listed.json["data"])
                                    if listed.status == 200 else f"{listed.status} {(listed.json or {}).get('code')}")
            for name in "ab":
                key = f"agent:{agent}:x:{name}"
                facts["texts", agent, name] = self.texts(api, agent, key)
                facts["topic", agent, name] = self.texts(api, agent, key, "&topic=t")
        everything = api.get("/v1/sessions?limit=200")
        facts["list of all"] = (sorted(s["key"] for s in everything.json["data"]) if everything.status == 200 else everything.status)
        policy = api.get("/v1/policy/send")
        facts["policy"] = json.dumps(policy.json.get("rules", policy.json)) if policy.status == 200 else policy.status
        for n, token in enumerate(self.tokens):
            facts["token", n] = api.clone(token).get("/v1/whoami").status
        again = api.post(S("agent:one:x:a", "one", "messages"), {"role": "user", "text": "once"}, idempotency_key="k1")
        facts["same answer"] = again.raw == self.answer
        return facts

    def close(self):
        self.daemon.close()


class Row:
    """One copy with one file damaged."""

    def __init__(self, world, kind, damage):
        self.world, self.kind, self.damage = world, kind, damage
        self.daemon = Daemon(CONFIG)
        shutil.copytree(world.daemon.state, self.daemon.state, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        shutil.copytree(world.daemon.home / "config", self.daemon.home / "config")
        for path in self.daemon.state.rglob("*"):
            os.chmod(path, 0o700 if path.is_dir() else 0o600)
        self.faults, self.outcome, self.told, self.mended = [], "", "", ""

    def run(self):
        daemon = self.daemon
        daemon.start()
        daemon.stop()  # files have other inodes now: settled before anything is damaged
        self.sid = {k: s for a in AGENTS for (k, s, _) in self.world.known["list", a]}
        paths = sorted(self.kind.find(self))
        if not paths:
            self.outcome = "no such file"
            self.faults.append("there is no such file in the state directory")
            return
        self.path = paths[0] if not self.kind.last else paths[-1]
        self.baseline = {self.finding(f) for f in self.doctor()["findings"] if f["level"] != "ok"}
        self.damage(self.path)
        if self.path.is_file() and not self.path.is_symlink():
            os.utime(self.path, (0, 0))  # nobody is writing it just now
        mark = len(daemon.stderr)
        if self.starts():
            self.compare("served", self.kind.may_lose, "while it is damaged")
            readyz = daemon.client().get("/readyz").raw.decode(errors="replace") if self.has_admin() else ""
            daemon.stop()
        else:
            self.outcome = "refuses to start"
            readyz = ""
            if not self.kind.may_refuse:
                self.faults.append("it does not start: " + " | ".join(daemon.stderr[-2:]))
        log = "\n".join(daemon.stderr[mark:])
        name = self.path.name
        report = self.doctor()
        findings = [f for f in report["findings"] if f["level"] != "ok" and self.finding(f) not in self.baseline]
        where = [w for w, text in (("readyz", readyz), ("log", log), ("doctor", json.dumps(findings))) if name in text]
        self.told = "+".join(where) or "-"
        if not where and self.kind.is_told(self.damage):
            self.faults.append(f"nothing names {name}")
        self.follow_advice()
        if self.starts():
            self.compare("", self.kind.lost_for_good, "after the advice was followed")
            daemon.stop()
        else:
            self.faults.append("it does not start after the advice was followed: " + " | ".join(daemon.stderr[-2:]))
        left = [f for f in self.doctor()["findings"] if f["level"] != "ok" and self.finding(f) not in self.baseline]
        self.mended = self.mended or "nothing to do"
        left = [f for f in left if not self.kind.stays(f) and not (self.damage.__name__ in FLIPS and f["check"] in AFTER_A_FLIP)]
        if left:
            self.faults.append("the doctor still says: " + "; ".join(f"{f['path']}: {f['detail']} -> {f['advice']}" for f in left[:3]))

    def finding(self, f):
        return f["check"], f["path"], f["detail"] if f["check"] not in ("disk_space",) else ""

    def has_admin(self):
        return (self.daemon.home / "config" / "sessiond" / "admin.token").exists()

    def starts(self, *arguments):
        self.daemon.arguments = list(arguments)
        try:
            self.daemon.start()
            return True
        except AssertionError:
            self.daemon.process = None
            return False
        finally:
            self.daemon.arguments = []

    def doctor(self, *arguments):
        done = self.daemon.cli("doctor", "--json", *arguments)
        try:
            return json.loads(done.stdout)
        except ValueError:
            self.faults.append(f"the doctor says {done.stdout!r} {done.stderr!r}")
            return {"findings": [], "repairs": []}

    def compare(self, outcome, may_differ, when):
        now = self.world.look(self.daemon.client())
        wrong = [name for name, value in self.world.known.items() if now[name] != value]
        bad = [name for name in wrong if not may_differ(self, name)]
        for name in bad[:3]:
            self.faults.append(f"{when}, {name} is {brief(now[name])}, acknowledged {brief(self.world.known[name])}")
        for name, content in self.world.archives.items():
            path = self.daemon.state / name
            if path != self.path and (not path.is_file() or path.read_bytes() != content):
                self.faults.append(f"{when}, archive {name} is not what it was")
        if outcome:
            states = {str(now[name])[:3] for name in wrong if str(now[name])[:1].isdigit()}
            self.outcome = ("all served" if not wrong else
                            f"{len(wrong)} of {len(now)} not" + (f" ({', '.join(sorted(states))})" if states else ""))

    def follow_advice(self):
        done, before = [], None
        for _ in range(6):
            commands, findings = [], self.doctor()["findings"]
            if findings == before:
                break  # what it advises has no effect
            before = findings
            for f in findings:
                if f["level"] == "ok" or self.finding(f) in self.baseline:
                    continue
                found = COMMAND.search(f["advice"])
                repair = REPAIR.search(f["advice"])
                if found and not repair:
                    commands.append(found[1])
                elif repair:
                    commands.append(f"sessiond {repair[1]} --repair")
            commands = list(dict.fromkeys(commands))
            if any(" --repair" in c for c in commands):
                commands = [c for c in commands if " --repair" in c]
            if not commands:
                break
            for command in commands:
                if command == "sessiond serve --repair":
                    if self.starts("--repair"):
                        self.daemon.stop()
                elif command == "sessiond doctor --repair":
                    self.doctor("--repair")
                else:
                    subprocess.run(command, shell=True, check=False, capture_output=True)
            done += commands
        self.mended = ", ".join(dict.fromkeys(short(c) for c in done))

    def close(self):
        self.daemon.close()


def short(command):
    return command.replace("sessiond ", "") if command.startswith("sessiond") else command.split()[0]


def brief(value):
    if isinstance(value, list):
        return f"{len(value)} [{', '.join(str(v)[:14] for v in value[:8])}]"
    return str(value)[:60]


# -- damages -------------------------------------------------------------------------------------------------------------------------------

def flipped(part):
    def flip(path):
        raw = bytearray(path.read_bytes())
        if raw:
            raw[min(int(len(raw) * part), len(raw) - 1)] ^= 0x10
            path.write_bytes(raw)
    flip.__name__ = f"bit at {int(part * 100)} %"
    return flip


def removed(path):
    path.unlink()


def half(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    os.truncate(path, 0)


def garbage(path):
    path.write_bytes(bytes(range(256)) * 4)


def folder(path):
    path.unlink()
    path.mkdir()


def dangling(path):
    path.unlink()
    path.symlink_to("nowhere")


half.__name__, emptied.__name__, dangling.__name__ = "cut to half", "cut to 0", "dangling link"
DAMAGES = [flipped(0), flipped(0.4), flipped(0.999), removed, half, emptied, garbage, folder, dangling]
NOT_SEEN = {d.__name__ for d in DAMAGES[:3]} | {"removed"}  # of what is made again or is not looked at


# -- kinds of files ------------------------------------------------------------------------------------------------------------------------

class Kind:
    def __init__(self, name, pattern, loses=(), last=False, may_refuse=False, silent=(), lasting=(), stays=(), pick=None):
        """`loses`: facts that rest on the file; `lasting`: those of them that no advice can bring back; `silent`: damages that nothing
        tells; `stays`: checks of the doctor that go on telling of what cannot be mended."""
        self.name, self.pattern, self.last, self.may_refuse = name, pattern, last, may_refuse
        self.loses, self.lasting, self.silent, self.staying, self.pick = loses, lasting, set(silent), stays, pick

    def find(self, row):
        found = [p for p in row.daemon.state.glob(self.pattern.format(**{"a": row.sid["agent:one:x:a"]})) if not p.is_symlink()]
        return [p for p in found if self.pick is None or self.pick(p)]

    def may_lose(self, row, fact):
        return self.holds(self.loses, fact)

    def lost_for_good(self, row, fact):
        # A flipped bit may leave what is as good as before: another label, another id. Nobody can tell it from a change.
        # Garbage in a transcript stays before what the journal brings back, as unreadable lines.
        kept = row.damage.__name__ in FLIPS or (row.damage.__name__ == "garbage" and "transcript" in self.staying)
        return self.holds(self.loses if kept else self.lasting, fact)

    def holds(self, facts, fact):
        return any(fact == f or (isinstance(fact, tuple) and isinstance(f, tuple) and fact[:len(f)] == f) for f in facts)

    def is_told(self, damage):
        return damage.__name__ not in self.silent

    def stays(self, finding):
        return finding["check"] in self.staying


ALL = {d.__name__ for d in DAMAGES}
FLIPS = {d.__name__ for d in DAMAGES[:3]}
ONCE = ("same answer", ("texts", "one", "a"))  # without its key a request that comes again is another one
AFTER_A_FLIP = ("orphan", "missing")
OF_ONE = ("same answer", ("list", "one"), ("texts", "one"), ("topic", "one"), "list of all")
TEXTS = ("same answer", ("texts", "one", "a"))
SEGMENT = re.compile(r"^\d{20}\.jsonl$")


def segments(path):
    return SEGMENT.match(path.name)


KINDS = [
    Kind("sessions.json", "agents/one/sessions/sessions.json", OF_ONE, silent=FLIPS),
    Kind("transcript", "agents/one/sessions/{a}.jsonl", TEXTS, lasting=(), silent=FLIPS, stays=("transcript",)),
    Kind("topic file", "agents/one/sessions/{a}-topic-t.jsonl", (("topic", "one", "a"),), silent=FLIPS | {"removed"}, stays=("transcript",)),
    Kind("archive's entry", "agents/one/sessions/*.entry", silent=ALL),
    Kind("archive", "agents/one/sessions/*.jsonl.reset.*Z", silent=FLIPS | {"removed", "cut to 0", "cut to half"}, stays=("transcript",)),
    Kind("tokens.json", "tokens.json", (("token",), *ONCE), may_refuse=True, lasting=(("token",), *ONCE), silent=FLIPS | {"removed"}),
    Kind("policy.json", "policy.json", ("policy",), may_refuse=True, lasting=("policy",), silent=FLIPS | {"removed"}),
    Kind("sessiond.lock", "sessiond.lock", may_refuse=True, silent=ALL - {"folder", "dangling link"}),
    Kind("segment, sealed", "journal/*.jsonl", pick=segments, may_refuse=True, silent={"bit at 0 %", "removed"}),  # the oldest that is gone looks like retention
    Kind("segment, last", "journal/*.jsonl", pick=segments, last=True, may_refuse=True),
    Kind("segment's index", "journal/*.idx", silent=ALL),
    Kind("CHECKPOINT", "journal/CHECKPOINT", silent=FLIPS | {"removed"}),
    Kind("EPOCH", "journal/EPOCH", silent=FLIPS),
    Kind("keys/*", "journal/keys/*.jsonl", ONCE, lasting=ONCE, silent=FLIPS | {"removed", "cut to 0", "cut to half"}, stays=("idempotency",)),
    Kind("ends/*", "journal/ends/one.jsonl", silent=FLIPS | {"removed", "cut to 0", "cut to half"}, stays=("missing",)),
    Kind("kept/*", "journal/kept/*/*", silent=ALL),
    Kind("index/*", "journal/index/one/*", silent=ALL - {"folder"}),
    Kind("previous/*", "journal/previous/one.json", silent=FLIPS | {"removed"}),
    Kind("previous/*.current", "journal/previous/one.current.json", silent=FLIPS | {"removed"}),
    Kind("previous/*.note", "journal/previous/one.note", silent=ALL - {"folder", "dangling link"}),
    Kind("tickets", "journal/tickets", silent=FLIPS | {"removed", "cut to 0"}),
    Kind("cursor.key", "journal/cursor.key", silent=FLIPS | {"removed"}),
]


def one(world, kind, damage):
    row = Row(world, kind, damage)
    try:
        row.run()
    except Exception:  # a row that breaks is a failure, not the end of the others
        row.faults.append(traceback.format_exc(limit=3))
    finally:
        row.close()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("-j", type=int, default=4)
    parser.add_argument("-k", default="", help="only rows with this in their name")
    args = parser.parse_args()
    os.environ["SESSIOND_BINARY"] = str(Path(args.binary).resolve())
    world, report = World(), Report()
    wanted = [(k, d) for k in KINDS for d in DAMAGES if args.k in f"{k.name} {d.__name__}" and report.wants(f"{k.name} {d.__name__}")]
    with concurrent.futures.ThreadPoolExecutor(report.jobs(args.j)) as pool:
        rows = list(pool.map(lambda pair: one(world, *pair), wanted))
    world.close()
    print(f"{'file':<20} {'damage':<14} {'then':<24} {'told by':<20} {'advice':<24}")
    for row in rows:
        print(f"{row.kind.name:<20} {row.damage.__name__:<14} {row.outcome:<24} {row.told:<20} {row.mended:<24} "
              f"{'FAIL' if row.faults else 'ok'}")
    for row in rows:
        report.judge(f"{row.kind.name} {row.damage.__name__}", row.faults[:6])
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

"""Damage: whatever happened to a file, nothing of it is destroyed and all that can be read is served."""

import json
import os
import subprocess

from harness.case import Case, S, text_of
from harness.sessiond import eventually

BOM = b"\xef\xbb\xbf"


def found(report, check):
    return [f for f in report["findings"] if f["check"] == check and f["level"] != "ok"]


class Stores(Case):
    def prepared(self):
        daemon = self.spawn({"store": {"damageAfterMs": 0}})  # at once; tests/api/test_in_place.py has what is waited for
        api = daemon.client()
        keys = [self.new(f"agent:main:d:{c}", api=api, label=c)["key"] for c in "abc"]
        self.say(keys[0], "still here", api=api)
        self.ok(api.patch(S(keys[1]), {"label": "changed"}), 200)
        daemon.checkpoint()
        return daemon, api, keys, daemon.agent_dir() / "sessions.json"

    def check_all_there(self, api, keys):
        listed = {s["key"]: s for s in self.ok(api.get("/v1/agents/main/sessions"), 200)["data"]}
        self.assertEqual(sorted(listed), keys)
        self.assertEqual(listed[keys[1]]["label"], "changed")
        self.assertEqual(self.texts(keys[0], api=api), ["still here"])

    def check_told(self, daemon, api, stream, damage):
        event = stream.wait_type("store.repaired").data
        self.assertEqual(event["agent"], "main")
        self.assertIn("sessions.json", event["data"]["path"])
        self.assertTrue([r for r in self.ok(api.get("/readyz"), 200)["repairs"] if "sessions.json" in r])
        kept = list(daemon.agent_dir().glob("sessions.json.corrupt.*"))
        self.assertEqual([p.read_bytes() for p in kept], [damage])
        report = self.ok(api.post("/v1/admin/doctor"), 200)
        self.assertIn(str(kept[0]), [f["path"] for f in found(report, "quarantine")])
        self.assertTrue([f for f in report["findings"] if f["check"] == "repaired"])

    def test_truncated_under_a_running_daemon(self):
        daemon, api, keys, store = self.prepared()
        with api.stream("/v1/events?types=store.*") as stream:
            stream.wait_type("stream.hello")
            subprocess.run(["truncate", "-s", "0", store], check=True)
            self.check_all_there(api, keys)
            self.check_told(daemon, api, stream, b"")
        self.check_all_there(api, keys)
        eventually(lambda: store.stat().st_size and set(json.loads(store.read_bytes())) == set(keys),
                   what="the store, written again")

    def test_truncated_under_a_stopped_daemon(self):
        daemon, api, keys, store = self.prepared()
        before = api.get("/v1/sessions").json["asOf"]
        daemon.stop()
        os.truncate(store, 0)
        daemon.start()
        self.check_all_there(api, keys)
        with api.stream("/v1/events?types=store.*&after=" + before) as stream:
            self.check_told(daemon, api, stream, b"")
        self.check_all_there(api, keys)
        self.assertEqual(set(daemon.sessions_json()), set(keys))

    def test_odd_but_sound(self):
        daemon, api, keys, store = self.prepared()
        text = store.read_bytes()
        odd = text.rstrip().removesuffix(b"}").rstrip() + b""",
            "agent:main:d:z": {"sessionId": "z", "updatedAt": 1, "label": "first"},
            "agent:main:d:z": {"sessionId": "z", "updatedAt": 1, "label": "half \\ud83d", "n": 12345678901234567890, "m": 1e400}}"""
        for name, whole in (("BOM", BOM + odd), ("CRLF", odd.replace(b"\n", b"\r\n"))):
            with self.subTest(name):
                daemon.stop()
                store.write_bytes(whole)
                daemon.start()
                self.check_all_there(api, keys + ["agent:main:d:z"])
                raw = api.get(S("agent:main:d:z")).raw
                for part in (rb"half \ufffd", b"12345678901234567890", b"1e400"):
                    self.assertIn(part, raw, "of a key that stands there twice the last one holds")
                self.assertEqual(list(daemon.agent_dir().glob("*.corrupt.*")), [], "it is not damaged")
                daemon.stop()
                self.assertIn(b"1e400", store.read_bytes())


class Transcripts(Case):
    """Each kind of damage in a transcript of a session of its own, one daemon for all."""

    GOOD = b'{"type":"message","id":"%s","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"%s"}}\n'
    HEADER = b'{"type":"session","version":3,"id":"%s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n'
    A, B = GOOD % (b"aaaaaaaa", b"one"), GOOD % (b"bbbbbbbb", b"two")
    M, U = "message", "unreadable"
    # name -> (the file, the types that are served, in order); %s is the session's id
    FILES = {
        "garbled-header": (b"\x00\x13{\"type\":\"sess\xff\n" + A + B, [U, M, M]),
        "no-header": (A + B, [M, M]),
        "garbage": (HEADER + A + b"garbage\n\xff\xfe{\n[1]\n17\n\n" + B, [M, U, U, U, U, U, M]),
        "nested": (HEADER + A + b"[" * 10000 + b"]" * 10000 + b"\n" + b'{"a":' * 10000 + b"1" + b"}" * 10000 + b"\n" + B,
                   [M, U, U, M]),
        "nuls": (HEADER + A + b"\0" * 5000 + b"\n" + B, [M, U, M]),
        "values": (HEADER + A + GOOD % (b"cccccccc", rb'half \ud83d","n":12345678901234567890,"m":1e400,"x":"') + B,
                   [M, M, M]),
        "crlf": ((HEADER + A + B).replace(b"\n", b"\r\n"), [M, M]),
        "bom": (BOM + HEADER + A + B, [M, M]),
    }
    ENDS = {"torn": b'{"type":"message","id":"cc', "torn-nuls": b"\0" * 700, "no-newline": b""}

    def prepared(self, files):
        daemon = self.spawn(start=False)
        directory = daemon.agent_dir()
        directory.mkdir(parents=True)
        for name, content in files.items():
            (directory / f"{name}.jsonl").write_bytes(content.replace(b"%s", name.encode()))
        (directory / "sessions.json").write_text(json.dumps(
            {f"agent:main:{name}": {"sessionId": name, "updatedAt": 1} for name in files}))
        return daemon.start(), daemon.client(), directory

    def test_every_line_has_its_place(self):
        daemon, api, directory = self.prepared({name: content for name, (content, _) in self.FILES.items()})
        for name, (content, types) in self.FILES.items():
            with self.subTest(name):
                key, path = f"agent:main:{name}", directory / f"{name}.jsonl"
                before = path.read_bytes()
                rows = self.messages(key, api=api)
                self.assertEqual([r["type"] for r in rows], types)
                self.assertEqual([r["seq"] for r in rows], list(range(rows[0]["seq"], rows[0]["seq"] + len(types))))
                self.assertEqual([text_of(rows[types.index("message")]), text_of(rows[-1])], ["one", "two"])
                for row in rows:
                    self.assertEqual(self.ok(api.get(S(key, "main", "messages", row["id"])), 200)["seq"], row["seq"])
                self.assertEqual(self.say(key, "three", api=api)["firstSeq"], rows[-1]["seq"] + 1)
                self.assertEqual(self.messages(key, api=api)[-1]["parentId"], "bbbbbbbb")
                daemon.checkpoint()
                self.assertTrue(path.read_bytes().startswith(before), "nothing before is touched")
        raw = api.get(S("agent:main:values", "main", "messages")).raw
        for part in (rb"half \ufffd", b"12345678901234567890", b"1e400"):
            self.assertIn(part, raw)
        daemon.restart(kill=True)
        for name, (_, types) in self.FILES.items():
            self.assertEqual([r["type"] for r in self.messages(f"agent:main:{name}", api=api)], types + ["message"])
        report = self.ok(api.post("/v1/admin/doctor"), 200)
        told = " ".join(f["path"] for f in found(report, "transcript"))
        for name, (_, types) in self.FILES.items():
            self.assertEqual(f"{name}.jsonl" in told, "unreadable" in types, name)

    def test_ends(self):
        whole = self.HEADER + self.A + self.B
        daemon, api, directory = self.prepared({name: whole.removesuffix(b"\n") if not end else whole + end
                                                for name, end in self.ENDS.items()})
        with api.stream("/v1/events?types=store.*") as stream:
            stream.wait_type("stream.hello")
            for name, end in self.ENDS.items():
                with self.subTest(name):
                    key = f"agent:main:{name}"
                    self.assertEqual(self.texts(key, api=api, query="types=message")[:2], ["one", "two"])
                    self.say(key, "three", api=api)
                    self.assertEqual(self.texts(key, api=api), ["one", "two", "three"])
                    kept = [p.read_bytes() for p in directory.glob(f"{name}.jsonl.torn.*")]
                    self.assertEqual(kept, [end] if end else [])
                    if end:
                        stream.wait_for(lambda e, n=name: e.type == "store.repaired" and n in e.data["data"]["path"])
                        self.assertTrue([r for r in api.get("/readyz").json["repairs"] if f"{name}.jsonl" in r])
        report = self.ok(api.post("/v1/admin/doctor"), 200)
        self.assertEqual(len([f for f in found(report, "quarantine") if ".torn." in f["path"]]), 2)

"""What lies on disk: layout, modes, the journal, and living beside other programs that write the same store."""

import json
import os
import re
import stat
import subprocess
import time
import zlib
from pathlib import Path

from harness.case import Case, S, text_of, uid
from harness.sessiond import eventually

runs = {"asan", "tsan"}


def journal_lines(state: Path):
    for segment in sorted((state / "journal").glob("*.jsonl")):
        for line in segment.read_bytes().splitlines(keepends=True):
            yield segment.name, line


def replace_store(path: Path, store: dict):
    """As another program does: pretty-printed, to a temporary file, renamed over."""
    temporary = path.with_name(f"sessions.json.{os.getpid()}.{uid()}.tmp")
    temporary.write_text(json.dumps(store, indent=2, ensure_ascii=False))
    os.chmod(temporary, 0o600)
    os.replace(temporary, path)


class Layout(Case):
    def test_sessions_json_has_one_entry_a_line(self):
        keys = [self.new(f"agent:layout:k:{c}", label=f"Zeile {c}\n")["key"] for c in "cab"]
        self.daemon.checkpoint()
        text = (self.daemon.agent_dir("layout") / "sessions.json").read_text()
        lines = text.split("\n")
        self.assertEqual((lines[0], lines[-2], lines[-1]), ("{", "}", ""))
        self.assertEqual([re.match(r'"([^"]+)": \{', line).group(1) for line in lines[1:-2]], keys,
                         "in the order of creation")
        for line in lines[1:-2]:
            json.loads("{" + line.rstrip(",") + "}")

    def test_modes_whatever_the_umask(self):
        daemon = self.spawn(umask=0)
        api = daemon.client()
        session = self.new(api=api)
        self.say(session["key"], api=api)
        self.say(session["key"], api=api, query="?topic=t")
        self.ok(api.put("/v1/policy/send", {"rules": []}, if_match=api.get("/v1/policy/send").etag), 200)
        self.ok(api.post(S(session["key"], "main", "reset")), 200)
        daemon.checkpoint()
        for path in [daemon.state, *daemon.state.rglob("*")]:
            mode = path.lstat().st_mode
            if stat.S_ISSOCK(mode):
                continue
            self.assertEqual(oct(stat.S_IMODE(mode)), oct(0o700 if path.is_dir() else 0o600), path)

    def test_names(self):
        session = self.new()
        self.say(session["key"])
        self.daemon.checkpoint()
        names = {p.name for p in self.daemon.state.iterdir()}
        self.assertTrue({"sessiond.lock", "journal", "agents", "tokens.json"} <= names, names)
        self.assertTrue((self.daemon.state / "journal" / "CHECKPOINT").exists())
        checkpoint = json.loads((self.daemon.state / "journal" / "CHECKPOINT").read_bytes())
        self.assertRegex(checkpoint["epoch"], r"^[0-9a-f]{8}$")
        self.assertEqual(checkpoint["epoch"], self.api.get("/v1/sessions").json["asOf"].split("-")[0])
        self.assertIn("main", checkpoint["agents"])
        left = [p.name for p in self.daemon.agent_dir().iterdir() if p.name.endswith(".tmp")
                or p.name.endswith(".lock")]
        self.assertEqual(left, [], "no temporary file and no lock stays")

    def test_transcript(self):
        session = self.new()
        body = self.ok(self.api.post(S(session["key"], "main", "messages"),
                                     {"entries": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}]}),
                                     201)
        self.daemon.checkpoint()
        raw = (self.daemon.agent_dir() / f"{session['sessionId']}.jsonl").read_bytes()
        self.assertTrue(raw.endswith(b"\n"))
        header, *entries = [json.loads(line) for line in raw.splitlines()]
        self.assertEqual((header["type"], header["version"], header["id"]), ("session", 3, session["sessionId"]))
        self.assertIn("cwd", header)
        self.assertEqual([e["id"] for e in entries], body["ids"])
        self.assertEqual([e["parentId"] for e in entries], [None, body["ids"][0]])
        self.assertEqual([e["message"]["role"] for e in entries], ["user", "assistant"])
        for entry in entries:
            self.assertRegex(entry["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_checkpoint_agrees_with_the_api(self):
        for i in range(10):
            got = self.inbound(chatType="group", peer=f"agree{i}")
            self.ok(self.api.patch(S(got["sessionKey"]), {"label": f"l{i}", "x": {"n": i}}), 200)
        store = self.daemon.sessions_json()
        listed, cursor = {}, ""
        while True:
            body = self.ok(self.api.get("/v1/agents/main/sessions?archived=any&include=snapshots&limit=200" + cursor),
                           200)
            listed.update({s["key"]: s for s in body["data"]})
            if not body["page"]["hasMore"]:
                break
            cursor = "&cursor=" + body["page"]["next"]
        self.assertEqual(set(store), set(listed))
        for key, entry in store.items():
            for name, value in entry.items():
                self.assertEqual(listed[key].get(name), value, f"{key} {name}")

    def test_state_that_leaves_the_directory_is_refused(self):
        daemon = self.spawn(start=False)
        outside = daemon.home / "outside"
        outside.mkdir()
        (daemon.state / "agents" / "evil").mkdir(parents=True)
        (daemon.state / "agents" / "evil" / "sessions").symlink_to(outside)
        daemon.start()
        reply = daemon.client().post("/v1/agents/evil/sessions", {"key": "agent:evil:x"})
        self.assertGreaterEqual(reply.status, 400, reply)
        self.assertEqual(list(outside.iterdir()), [])


class Journal(Case):
    def test_lines(self):
        session = self.new()
        first = self.say(session["key"], "grüße \u2028")["asOf"]
        self.ok(self.api.post(S(session["key"], "main", "messages"), {"role": "user", "text": "kept"},
                              idempotency_key=uid()), 201)
        expected, found = None, False
        for segment, line in journal_lines(self.daemon.state):
            self.assertTrue(line.endswith(b"\n"), segment)
            self.assertRegex(segment, r"^\d{20}\.jsonl$")
            crc, space, payload = line[:8], line[8:9], line[9:-1]
            self.assertEqual(space, b" ")
            self.assertEqual(int(crc, 16), zlib.crc32(payload), "CRC-32 of what follows the space")
            batch = json.loads(payload)
            if expected is not None:
                self.assertEqual(batch["seq"], expected, "no hole between batches")
            for offset, event in enumerate(batch["events"]):
                self.assertEqual(event["seq"], batch["seq"] + offset)
            expected = batch["seq"] + len(batch["events"])
            found = found or str(first.split("-")[1]) in [str(e["seq"]) for e in batch["events"]]
        self.assertTrue(found, "what was acknowledged is in the journal")

    def test_events_are_exactly_what_subscribers_receive(self):
        start = self.api.get("/v1/sessions").json["asOf"]
        session = self.new()
        last = int(self.say(session["key"], "the very bytes \u00e4")["asOf"].split("-")[1])
        with self.api.stream("/v1/events?after=" + start) as stream:
            stream.wait_seq(last)
        stored = b"".join(line for _, line in journal_lines(self.daemon.state)).decode()
        for event in stream.durable:
            self.assertIn(event.raw, stored)

    def test_cut_and_jq_read_it(self):
        self.say(self.new()["key"])
        segment = sorted((self.daemon.state / "journal").glob("*.jsonl"))[-1]
        try:
            done = subprocess.run(f"cut -c10- '{segment}' | jq -r '.events[].seq'", shell=True, capture_output=True,
                                  text=True)
        except FileNotFoundError:
            self.skipTest("no shell")
        if done.returncode == 127:
            self.skipTest("jq is not installed")
        self.assertEqual(done.returncode, 0, done.stderr)
        seqs = [int(n) for n in done.stdout.split()]
        self.assertEqual(seqs, list(range(seqs[0], seqs[-1] + 1)))

    def test_segments_roll(self):
        daemon = self.spawn({"journal": {"segmentBytes": 65536, "maxBytes": 1 << 30}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        for i in range(40):
            self.say(key, "s" * 6000, api=api)
        names = sorted(p.name for p in (daemon.state / "journal").glob("*.jsonl"))
        self.assertGreater(len(names), 2)
        for name in names:
            first = json.loads((daemon.state / "journal" / name).read_bytes().split(b"\n", 1)[0][9:])
            self.assertEqual(int(name.removesuffix(".jsonl")), first["seq"])
        daemon.restart(kill=True)
        self.assertEqual(len(self.messages(key, api=api)), 40)

    def test_a_torn_last_line_is_cut_off_and_kept(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.say(key, "whole", api=api)
        daemon.kill9()
        segment = sorted((daemon.state / "journal").glob("*.jsonl"))[-1]
        with segment.open("ab") as file:
            file.write(b'12345678 {"seq":99999,"events":[{"type":"mess')
        daemon.start()
        self.assertEqual(self.texts(key, api=api), ["whole"])
        self.assertTrue(list((daemon.state / "journal").glob("*.torn.*")))
        self.say(key, "goes on", api=api)

    def test_damage_before_the_end_is_never_skipped_in_silence(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        for i in range(10):
            self.say(key, f"line {i}", api=api)
        daemon.kill9()
        segment = sorted((daemon.state / "journal").glob("*.jsonl"))[-1]
        raw = bytearray(segment.read_bytes())
        raw[len(raw) // 2] ^= 0x01
        segment.write_bytes(raw)
        with self.assertRaises(AssertionError):
            daemon.start()
        self.assertIn(segment.name, "\n".join(daemon.stderr[-20:]), "names the segment")
        daemon.process = None
        daemon.arguments = ["--repair"]
        daemon.start()
        self.ok(api.get("/healthz"), 200)
        self.say(self.new(api=api)["key"], api=api)


class Foreign(Case):
    """Another program rewrites sessions.json while we run, and while we do not."""

    def store(self, daemon):
        return daemon.agent_dir() / "sessions.json"

    def prepared(self, daemon):
        api = daemon.client()
        sessions = [self.new(f"agent:main:f:{c}", api=api, label=c, x={"y": 1}) for c in "abc"]
        return api, sessions, daemon.sessions_json()

    def change(self, path, store):
        now = int(time.time() * 1000) + 5
        store["agent:main:f:a"].update({"label": "theirs", "updatedAt": now, "x-new": True})
        del store["agent:main:f:b"]
        store["agent:main:f:new"] = {"sessionId": "foreign-1", "updatedAt": now, "label": "made elsewhere"}
        replace_store(path, store)

    def check(self, api):
        fresh = {"cache_control": "no-cache"}
        a = api.get(S("agent:main:f:a"), **fresh).json  # though cacheTtlMs is 45 s
        self.assertEqual((a["label"], a["x-new"], a["x"]), ("theirs", True, {"y": 1}))
        self.assertEqual(api.get(S("agent:main:f:c"), **fresh).json["label"], "c")
        self.problem(api.get(S("agent:main:f:b"), **fresh), 404, "session_not_found")
        self.assertEqual(api.get(S("agent:main:f:new"), **fresh).json["sessionId"], "foreign-1")

    def test_noticed_and_told(self):
        daemon = self.spawn()
        api, _, store = self.prepared(daemon)
        with api.stream("/v1/events?types=session.*") as stream:
            stream.wait_type("stream.hello")
            self.change(self.store(daemon), store)
            self.check(api)
            for type_, key in (("session.updated", "agent:main:f:a"), ("session.deleted", "agent:main:f:b"),
                               ("session.created", "agent:main:f:new")):
                event = stream.wait_for(lambda e, t=type_, k=key: e.type == t and e.data["key"] == k, what=type_)
                self.assertEqual(event.data["source"], "external")
        # What we write afterwards keeps what they wrote.
        self.ok(api.patch(S("agent:main:f:c"), {"label": "ours"}), 200)
        self.say("agent:main:f:new", "into the foreign session", api=api)
        after = daemon.sessions_json()
        self.assertEqual((after["agent:main:f:a"]["label"], after["agent:main:f:a"]["x-new"],
                          after["agent:main:f:c"]["label"]), ("theirs", True, "ours"))
        self.assertNotIn("agent:main:f:b", after)
        self.assertEqual(after["agent:main:f:new"]["sessionId"], "foreign-1")

    def test_noticed_without_being_asked(self):
        daemon = self.spawn()
        api, _, store = self.prepared(daemon)
        with api.stream("/v1/events?types=session.*") as stream:
            stream.wait_type("stream.hello")
            self.change(self.store(daemon), store)
            stream.wait_for(lambda e: e.type == "session.updated" and e.data["source"] == "external", 10)

    def test_while_we_were_down(self):
        daemon = self.spawn()
        api, _, store = self.prepared(daemon)
        head = api.get("/v1/sessions").json["asOf"]
        daemon.stop()
        self.change(self.store(daemon), store)
        daemon.start()
        self.check(api)
        with api.stream("/v1/events?after=" + head) as stream:
            stream.wait_type("store.external_change")
            stream.wait_for(lambda e: e.type == "session.created" and e.data["key"] == "agent:main:f:new")
        self.assertFalse([e for e in stream.events if e.type == "stream.gap"])

    def test_unwritten_changes_of_ours_survive_theirs(self):
        daemon = self.spawn()
        api, _, store = self.prepared(daemon)
        for _ in range(10):
            name = uid()
            store["agent:main:f:a"]["x-theirs"] = name
            store["agent:main:f:a"]["updatedAt"] = int(time.time() * 1000)
            self.ok(api.patch(S("agent:main:f:a"), {"x-ours": name}), 200)
            replace_store(self.store(daemon), store)
            store = daemon.sessions_json()
            self.assertEqual((store["agent:main:f:a"].get("x-ours"), store["agent:main:f:a"].get("x-theirs")),
                             (name, name))

    def test_a_damaged_store_is_neither_empty_nor_overwritten(self):
        for damage in (b"", b"\0" * 500, b'{"agent:main:f:a": {"sessionId"', b"[]"):
            with self.subTest(damage[:20]):
                daemon = self.spawn({"store": {"damageAfterMs": 0}})
                api, sessions, _ = self.prepared(daemon)
                self.say(sessions[0]["key"], "still here", api=api)
                daemon.stop()
                self.store(daemon).write_bytes(damage)
                daemon.start()
                self.assertEqual(sorted(s["key"] for s in self.ok(api.get("/v1/agents/main/sessions"), 200)["data"]),
                                 [s["key"] for s in sessions])
                self.assertEqual(self.texts(sessions[0]["key"], api=api), ["still here"])
                kept = list(daemon.agent_dir().glob("sessions.json.corrupt.*"))
                self.assertEqual([p.read_bytes() for p in kept], [damage])
                self.assertEqual(set(daemon.sessions_json()), {s["key"] for s in sessions})


class Previous(Case):
    def test_a_generation_before_the_last_is_kept(self):
        session = self.new(label="one")
        self.daemon.checkpoint()
        self.ok(self.api.patch(S(session["key"]), {"label": "two"}), 200)
        self.daemon.checkpoint()
        previous = json.loads((self.daemon.state / "journal" / "previous" / "main.json").read_bytes())
        self.assertEqual(previous[session["key"]]["label"], "one")

    def test_lost_files_come_back_from_the_journal(self):
        daemon = self.spawn()
        api = daemon.client()
        session = self.new(api=api)
        self.say(session["key"], "from the journal", api=api)
        daemon.kill9()  # at once: the files need hold nothing yet
        daemon.start()
        self.assertEqual(text_of(self.messages(session["key"], api=api)[0]), "from the journal")

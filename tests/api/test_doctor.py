"""`sessiond doctor --repair` and `--migrate`: what they change, what they keep, and that they do it once."""

import base64
import hashlib
import json
import os
import subprocess
import sys

from harness.case import Case, S
from harness.sealed import write_keys
from harness.sessiond import binary


class Repair(Case):
    def doctor(self, daemon, *arguments, code=None):
        done = daemon.cli("doctor", "--json", *arguments)
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, {"ok": 0, "warning": 1, "error": 2}[report["status"]], done.stdout)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout)
        return report

    def prepared(self):
        daemon = self.spawn({"store": {"damageAfterMs": 0}})
        api = daemon.client()
        keys = [self.new(f"agent:main:r:{c}", api=api)["key"] for c in "ab"]
        for i in range(5):
            self.say(keys[0], f"text {i}", api=api)
        return daemon, api, keys

    def dead_pid(self):
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        return process.pid

    def test_refused_while_a_daemon_runs(self):
        for option in ("--repair", "--migrate"):
            done = self.daemon.cli("doctor", option)
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertIn(f"pid {self.daemon.process.pid}", done.stdout)

    def test_all_at_once_and_only_once(self):
        daemon, api, keys = self.prepared()
        session = api.get(S(keys[0])).json
        daemon.stop()
        directory = daemon.agent_dir()
        transcript = directory / f"{session['sessionId']}.jsonl"
        whole = transcript.read_bytes()
        transcript.write_bytes(whole + b'{"type":"mess')
        os.chmod(transcript, 0o644)
        left = directory / f"sessions.json.{self.dead_pid()}.0a0b.tmp"
        left.write_bytes(b"left")
        lock = directory / "sessions.json.lock"
        lock.write_text(json.dumps({"pid": self.dead_pid()}))
        os.truncate(directory / "sessions.json", 0)
        self.doctor(daemon, code=2)
        report = self.doctor(daemon, "--repair", code=1)  # what was put aside is a warning
        self.assertTrue({"transcript", "modes", "temporary", "lock", "rebuild"}
                        <= {step["action"] for step in report["repairs"]}, report["repairs"])
        for step in report["repairs"]:
            if step["kept"]:
                self.assertTrue(os.path.exists(step["kept"]), step)
        self.assertEqual((transcript.read_bytes(), left.exists(), lock.exists()), (whole, False, False))
        self.assertEqual(set(json.loads((directory / "sessions.json").read_bytes())), set(keys))
        self.assertEqual(self.doctor(daemon, "--repair", "--migrate", code=1)["repairs"], [])
        daemon.start()
        self.assertEqual(self.texts(keys[0], api=api), [f"text {i}" for i in range(5)])

    def test_a_damaged_journal(self):
        daemon, api, keys = self.prepared()
        daemon.stop()
        segment = sorted((daemon.state / "journal").glob("*.jsonl"))[-1]
        raw = bytearray(segment.read_bytes())
        raw[len(raw) // 2] ^= 1
        segment.write_bytes(raw)
        self.doctor(daemon, code=2)
        report = self.doctor(daemon, "--repair", code=1)
        self.assertIn(segment.name, json.dumps(report["repairs"]))
        self.assertTrue(list((daemon.state / "journal").glob("*.damaged.*")))
        self.assertEqual(self.doctor(daemon, "--repair", code=1)["repairs"], [])
        daemon.start()
        self.assertEqual(self.texts(keys[0], api=api), [f"text {i}" for i in range(5)], "the files had it all")

    def test_migration_keeps_ids_and_seqs(self):
        daemon, api, keys = self.prepared()
        session = api.get(S(keys[1])).json
        daemon.stop()
        transcript = daemon.agent_dir() / f"{session['sessionId']}.jsonl"
        old = (b'{"type":"session","id":"%s","cwd":"/"}\n' % session["sessionId"].encode()
               + b'{"type":"message","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"v1"}}\n'
               + b'{"type":"user","content":"flat","timestamp":1234567890000,"x":1e400}\ngarbage\n'
               + b'{"role":"assistant","content":"bare"}\n')
        transcript.write_bytes(old)
        daemon.start()
        before = self.messages(keys[1], api=api)
        daemon.stop()
        report = self.doctor(daemon, "--migrate")
        self.assertEqual([step["path"] for step in report["repairs"]], [str(transcript)])
        with open(report["repairs"][0]["kept"], "rb") as kept:
            self.assertEqual(kept.read(), old)
        self.assertEqual(self.doctor(daemon, "--migrate")["repairs"], [])
        daemon.start()
        after = self.messages(keys[1], api=api)
        for row in before + after:
            row.pop("parentId")
        self.assertEqual(after, before)
        self.assertEqual(self.say(keys[1], "goes on", api=api)["firstSeq"], before[-1]["seq"] + 1)
        daemon.checkpoint()
        header, *entries = transcript.read_bytes().splitlines()
        self.assertEqual(json.loads(header)["version"], 3)
        self.assertEqual([json.loads(line)["type"] for line in entries if line != b"garbage"], ["message"] * 4)
        self.assertIn(b'"x":1e400', transcript.read_bytes())

    def test_killed_anywhere_it_is_done_again(self):
        daemon, api, keys = self.prepared()
        session = api.get(S(keys[0])).json
        daemon.stop()
        directory = daemon.agent_dir()
        transcript, store = directory / f"{session['sessionId']}.jsonl", directory / "sessions.json"
        entries, torn = store.read_bytes(), b'{"type":"torn'
        for i in range(12):
            lines = transcript.read_bytes().splitlines(keepends=True)
            flat = b'{"role":"user","content":"flat %d"}\n' % i
            transcript.write_bytes(b"".join(lines) + flat + torn)
            store.write_bytes(b"")
            doctor = subprocess.Popen([binary(), "doctor", "--repair", "--migrate"], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL,
                                      env={**daemon.env, "SESSIOND_CONFIG": str(daemon.config_file)})
            try:
                doctor.wait(0.005 * i)  # any moment will do
            except subprocess.TimeoutExpired:
                doctor.kill()
                doctor.wait()
            self.doctor(daemon, "--repair", "--migrate", code=1)
            self.assertEqual(self.doctor(daemon, "--repair", "--migrate", code=1)["repairs"], [])
            now = transcript.read_bytes().splitlines(keepends=True)
            self.assertEqual(now[:-1], lines)
            self.assertEqual(json.loads(now[-1])["message"]["content"], f"flat {i}")
            self.assertEqual(set(json.loads(store.read_bytes())), set(json.loads(entries)))
            self.assertIn(torn, [p.read_bytes() for p in directory.glob("*.torn.*")])
            self.assertEqual([p.name for p in directory.iterdir() if p.name.endswith(".lock")], [])
        # A whole store beside which an interrupted checkpoint left its file is nothing to repair: the next start settles it.
        daemon.start()
        self.assertEqual(api.get(S(keys[0])).status, 200)
        self.assertEqual([p.name for p in directory.iterdir() if ".tmp" in p.name], [])


class Lasting(Case):
    """Blobs and logs of sessions: what is damaged in them is named, sealed or not, beside a daemon or without one."""

    def faults(self, daemon, *checks):
        report = json.loads(daemon.cli("doctor", "--json").stdout)
        return [(f["level"], f["check"], f["path"], f["detail"]) for f in report["findings"] if f["level"] != "ok" and f["check"] in checks]

    def prepared(self, sealed):
        daemon = self.daemon_with(sealed)
        api = daemon.client()
        session = self.new("agent:main:r:a", api=api)
        data = os.urandom(90_000)
        part = {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}
        self.ok(api.post(S(session["key"], "main", "messages"), {"role": "user", "content": [part]}), 201)
        for n in range(3):
            self.ok(api.post(S(session["key"], "main", "log"), {"type": "server_tool", "tool": "t", "query": f"q{n}"}), 201)
        daemon.checkpoint()
        sha = hashlib.sha256(data).hexdigest()
        logs = daemon.state / "agents/main/logs"
        return daemon, session, daemon.state / "blobs/sha256" / sha[:2] / sha, logs / f"{session['sessionId']}.jsonl"

    def daemon_with(self, sealed):
        if not sealed:
            return self.spawn({"sessionLog": "full", "store": {"encryption": {"keyFile": None}}})
        keys = self.daemon.home / f"{self.id()}.json"
        write_keys(keys, "k1")
        return self.spawn({"sessionLog": "full", "store": {"encryption": {"keyFile": str(keys)}}})

    def test_damage_is_named(self):
        for sealed in (False, True):
            for running in (True, False):
                with self.subTest(sealed=sealed, running=running):
                    daemon, session, blob, log = self.prepared(sealed)
                    if not running:
                        daemon.stop()
                    looked = ("blobs", "logs", "encryption", "modes", "quarantine", "temporary", "kind")
                    self.assertEqual(self.faults(daemon, *looked), [])
                    whole, lines = blob.read_bytes(), log.read_bytes()
                    self.assertEqual((whole.startswith(b'{"e":1'), lines.startswith(b'{"e":1')), (sealed, sealed))
                    at = len(whole) // 2
                    blob.write_bytes(whole[:at] + (b"A" if whole[at:at + 1] != b"A" else b"B") + whole[at + 1:])
                    [(level, check, path, detail)] = self.faults(daemon, *looked)
                    self.assertEqual((level, check, path), ("error", "blobs", str(blob)))
                    self.assertIn(blob.name, detail)
                    blob.write_bytes(whole)
                    away = blob.rename(daemon.home / blob.name)
                    [(level, check, path, detail)] = self.faults(daemon, *looked)
                    self.assertEqual((level, check, path), ("error", "blobs", str(daemon.agent_dir() / f"{session['sessionId']}.jsonl")))
                    self.assertIn(blob.name, detail)
                    away.rename(blob)
                    first, second, third = lines.splitlines(True)
                    damaged = second.replace(b'","c":"', b'","c":"AAAA') if sealed else second[1:]
                    log.write_bytes(first + damaged + third)
                    [(level, check, path, detail)] = self.faults(daemon, *looked)
                    self.assertEqual((level, check, path), ("warning", "logs", str(log)))
                    self.assertIn(f"1 of 3 lines cannot be read, the first is line 2 at offset {len(first)}", detail)
                    log.write_bytes(lines + b'{"seq":3,"ti')
                    os.utime(log, (1, 1))  # what is fresh may be in flight
                    found = self.faults(daemon, *looked)
                    self.assertEqual([f[:3] for f in found if f[1] == "logs"], [] if running else [("warning", "logs", str(log))])
                    self.assertEqual([f[1] for f in found if f[1] != "logs"], ["encryption"] if sealed else [])

    def test_a_repair_ends_a_torn_log_and_the_next_line_follows(self):
        for sealed in (False, True):
            with self.subTest(sealed=sealed):
                daemon, session, _, log = self.prepared(sealed)
                daemon.stop()
                lines = log.read_bytes()
                log.write_bytes(lines + b'{"seq":3,"ti')
                done = daemon.cli("doctor", "--json", "--repair")
                self.assertEqual([step["action"] for step in json.loads(done.stdout)["repairs"]], ["logs"], done.stdout)
                self.assertEqual(log.read_bytes(), lines)
                daemon.start()
                api = daemon.client()
                self.ok(api.post(S(session["key"], "main", "log"), {"type": "server_tool", "tool": "t", "query": "q3"}), 201)
                shown = api.get(S(session["key"], "main", "log")).json["data"]
                self.assertEqual([(line["seq"], line["query"]) for line in shown], [(n, f"q{n}") for n in range(4)])

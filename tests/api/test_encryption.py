"""Encryption at rest: what is said stands in no file of the state directory or a backup; a file that is not sealed, a lost or
another key, and bytes that were moved or changed are noticed and said."""

import base64
import hashlib
import random
import re
import shutil
import threading
from pathlib import Path

from harness.case import Case, S, json, text_of, uid
from harness.sealed import plain_bytes, plain_store, write_keys
from harness.sessiond import eventually

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Words:
    """Words that stand nowhere by chance: of fourteen letters, made from a number."""

    def __init__(self, number):
        self.random, self.all = random.Random(number), []

    def __call__(self, count=1):
        fresh = ["".join(self.random.choices(LETTERS, k=14)) for _ in range(count)]
        self.all += fresh
        return " ".join(fresh)

    def found_in(self, *folders):
        """(file, word) of each word that a file holds as it is."""
        known = {word.encode() for word in self.all}
        pattern = re.compile(rb"[a-z]{14}")
        found = set()
        for folder in folders:
            for path in Path(folder).rglob("*"):
                if path.is_file():
                    data = path.read_bytes()
                    runs = re.findall(rb"[a-z]{14,}", data)
                    for run in runs:
                        found |= {(str(path), run[at:at + 14].decode()) for at in range(len(run) - 13) if run[at:at + 14] in known}
        return sorted(found)


class EncryptionCase(Case):
    def keyed(self, active="k1", *others, start=True, **config):
        """A daemon of this test with a key file."""
        daemon = self.spawn(config, start=False)
        self.keys = daemon.home / "at-rest.json"
        write_keys(self.keys, active, *others)
        self.name_keys(daemon, self.keys)
        return daemon.start() if start else daemon

    def name_keys(self, daemon, keys):
        store = daemon.config.setdefault("store", {})
        store["encryption"] = {"keyFile": str(keys) if keys else None}
        daemon.config_file.write_text(json.dumps(daemon.config))

    def refused(self, daemon, *saying):
        """The daemon does not start, says this, and changes no file."""
        before = files_of(daemon.state)
        mark = len(daemon.stderr)
        with self.assertRaises(AssertionError):
            daemon.start()
        said = "\n".join(daemon.stderr[mark:])
        for words in saying:
            self.assertIn(words, said)
        self.assertEqual(files_of(daemon.state), before)

    def findings(self, daemon, check="encryption"):
        done = daemon.cli("doctor", "--json")
        return [f for f in json.loads(done.stdout)["findings"] if f["check"] == check]


def files_of(state):
    return {str(p.relative_to(state)): p.read_bytes() for p in Path(state).rglob("*")
            if p.is_file() and p.name != "sessiond.lock"}


def lines_in(path):
    return path.read_bytes().split(b"\n")[:-1]


class TestWordsInFiles(EncryptionCase):
    def test_a_message_goes_in_and_comes_out_after_a_restart_and_no_file_holds_its_words(self):
        daemon = self.keyed()
        words = Words(1)
        api = daemon.client()
        key = f"agent:main:slack:direct:{uid()}"
        self.new(key, api=api)
        said = []
        for _ in range(20):
            said.append(words(5))
            self.say(key, said[-1], api=api)
        self.assertEqual(self.texts(key, api=api), said)
        for kill in (False, True):
            daemon.restart(kill)
            self.assertEqual(self.texts(key, api=api), said)
        daemon.checkpoint()
        self.assertEqual(words.found_in(daemon.state), [])
        daemon.stop()
        self.assertEqual(words.found_in(daemon.state), [])

    def test_the_log_of_a_session_is_sealed_too(self):
        daemon, words = self.keyed(sessionLog="full"), Words(3)
        api = daemon.client()
        key = f"agent:main:slack:direct:{uid()}"
        session = self.new(key, api=api)
        for n in range(10):
            self.ok(api.post(S(key, "main", "log"), {"type": "server_tool", "tool": "search", "query": words(10)}), 201)
        logged = api.get(S(key, "main", "log")).json["data"]
        self.assertEqual(len(logged), 10)
        for kill in (False, True):
            daemon.restart(kill)
            self.assertEqual(api.get(S(key, "main", "log")).json["data"], logged)
        [file] = daemon.state.rglob(f"logs/{session['sessionId']}.jsonl")
        self.assertEqual(len(lines_in(file)), 10)
        self.assertEqual(words.found_in(daemon.state), [])
        self.assertEqual([f for f in self.findings(daemon) if f["level"] != "ok"], [])

    def test_a_thousand_words_by_every_way_in_stand_in_no_file_and_in_no_backup(self):
        daemon, words = self.keyed(), Words(2)
        api = daemon.client()
        key = f"agent:main:slack:direct:{uid()}"
        session = self.new(key, api=api, displayName=words(), subject=words(), skillsSnapshot={"prompt": words(50)},
                           origin={"label": words(), "from": words()}, systemPromptReport={"x": words(20)})
        for turn in range(20):
            self.say(key, words(20), api=api, headers=None) if turn % 2 else self.ok(
                api.post(S(key, "main", "messages"), {"role": "assistant", "content": [{"type": "thinking", "thinking": words(5)},
                                                     {"type": "text", "text": words(15)}]}, headers={"Idempotency-Key": uid()}), 201)
        self.ok(api.post(S(key, "main", "messages?topic=t1"), {"role": "user", "text": words(20)}), 201)
        self.ok(api.post(S(key, "main", "streams/memoryEvents"), {"what": words(20)}), 201)
        peer = "U" + uid(8)
        for _ in range(5):
            platform_id = uid()
            came = self.inbound(api=api, peer=peer, text=words(20), messageId=platform_id)["sessionKey"]
        self.ok(api.post("/v1/inbound/edits", {"channel": "slack", "peer": peer, "messageId": platform_id, "text": words(10)}))
        self.ok(api.post(S(came, "main", "outbound"), {"text": words(20)}, headers={"Idempotency-Key": uid()}))
        media = words(20).encode() * 300
        self.ok(api.post(S(key, "main", "messages"), {"role": "user", "content": [
            {"type": "image", "data": base64.b64encode(media).decode(), "mimeType": "image/png"}]}), 201)
        hash = hashlib.sha256(media).hexdigest()
        self.assertTrue((daemon.state / "blobs" / "sha256" / hash[:2] / hash).exists())
        gone = f"agent:main:slack:direct:{uid()}"
        self.new(gone, api=api, displayName=words(), origin={"label": words()})
        self.say(gone, words(20), api=api)
        self.ok(api.post(S(gone, "main", "reset"), {}))
        self.say(gone, words(20), api=api)
        self.ok(api.delete(S(gone)))
        self.ok(api.post(S(key, "main", "fork"), {"key": f"agent:main:slack:direct:{uid()}"}), 201)
        while len(words.all) < 1000:
            self.say(key, words(50), api=api)
        exported = api.get(S(key, "main", "export"))
        self.assertEqual(exported.status, 200, exported)
        before = {k: api.get(S(k, "main", "messages") + "?limit=200&order=asc").json for k in (key,)}
        daemon.checkpoint()
        backup = daemon.home / "backup"
        done = daemon.cli("backup", backup)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(words.found_in(daemon.state, backup), [])
        daemon.restart(kill=True)
        self.assertEqual({k: api.get(S(k, "main", "messages") + "?limit=200&order=asc").json for k in before}, before)
        self.assertEqual(api.get(f"/v1/blobs/{hash}").raw, media)
        self.assertEqual(api.get(f"/v1/blobs/{hash}", headers={"Range": "bytes=5-104"}).raw, media[5:105])
        shown = api.get(S(key) + "?include=snapshots").json
        self.assertEqual([shown[name] for name in ("displayName", "subject", "origin", "skillsSnapshot", "systemPromptReport")],
                         [session.get(name, shown[name]) for name in ("displayName", "subject", "origin", "skillsSnapshot", "systemPromptReport")])
        self.assertEqual(api.get(S(key, "main", "export")).raw, exported.raw)
        self.assertEqual(self.ok(api.post(S(gone, "main", "restore"), {}))["key"], gone)
        self.assertEqual(words.found_in(daemon.state, backup), [])
        self.assertEqual([f for f in self.findings(daemon) if f["level"] != "ok"], [])
        # The log of the daemon has no text either.
        self.assertFalse([line for line in daemon.stderr if any(word in line for word in words.all)])

    def test_a_sweep_finds_what_sealed_files_name_and_waits_when_one_does_not_open(self):
        daemon = self.keyed(blobs={"graceMs": 0})
        api, names = daemon.client(), [f"agent:main:slack:direct:{uid()}" for _ in range(3)]
        blobs, sessions = {}, {}
        for key in names:
            sessions[key] = self.new(key, api=api)
            media = random.Random(key).randbytes(80_000)
            self.ok(api.post(S(key, "main", "messages"), {"role": "user", "content": [
                {"type": "image", "data": base64.b64encode(media).decode(), "mimeType": "image/png"}]}), 201)
            blobs[key] = hashlib.sha256(media).hexdigest()
        self.ok(api.delete(S(names[1])))  # archived: it may be restored
        daemon.restart()

        def swept():
            self.ok(api.post("/v1/admin/maintenance", {"dryRun": False}))
            return {f.name for f in (daemon.state / "blobs" / "sha256").glob("??/*")}

        self.assertEqual(swept(), set(blobs.values()))
        self.say(names[0], "more", api=api)
        self.assertEqual(swept(), set(blobs.values()))
        self.ok(api.delete(S(names[2]) + "?purge=true"))
        file = daemon.agent_dir() / f"{sessions[names[0]]['sessionId']}.jsonl"
        daemon.checkpoint()
        whole = file.read_bytes()
        daemon.stop()
        file.write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
        daemon.start()
        self.assertEqual(swept(), set(blobs.values()))
        daemon.stop()
        file.write_bytes(whole)
        daemon.start()
        self.assertEqual(swept(), {blobs[names[0]], blobs[names[1]]})

    def test_another_library_opens_what_was_sealed_by_the_places_that_the_readme_names(self):
        daemon = self.keyed()
        api = daemon.client()
        key = f"agent:main:slack:direct:{uid()}"
        session = self.new(key, api=api, displayName="Ada", origin={"label": "here"})
        for text in ("one", "two", "three"):
            self.say(key, text, api=api)
        store = daemon.sessions_json()
        self.assertEqual((store[key]["displayName"], store[key]["origin"]), ("Ada", {"label": "here"}))
        file = daemon.agent_dir() / f"{session['sessionId']}.jsonl"
        self.assertEqual(api.get(S(key, "main", "transcript")).raw, plain_bytes(file))
        self.assertEqual(api.get(S(key, "main", "transcript"), headers={"Range": "bytes=10-300"}).raw, plain_bytes(file)[10:301])
        nonces = [json.loads(line)["n"] for line in lines_in(file)]
        self.assertEqual(len(set(nonces)), 4)


class TestKeys(EncryptionCase):
    def test_a_lost_or_another_key_is_said_by_name_before_anything_is_written(self):
        daemon = self.keyed()
        api, key = daemon.client(), f"agent:main:slack:direct:{uid()}"
        self.new(key, api=api)
        self.say(key, "before", api=api)
        daemon.kill9()
        kept = self.keys.read_bytes()
        self.keys.unlink()
        self.refused(daemon, str(self.keys), "no such key file")
        write_keys(self.keys, "other")
        self.refused(daemon, str(self.keys), 'k1')
        write_keys(self.keys, "k1", secret="not the one")
        self.refused(daemon, str(self.keys), "is not the one")
        self.keys.write_bytes(kept)
        self.keys.chmod(0o644)
        self.refused(daemon, str(self.keys), "chmod 600")
        self.keys.chmod(0o600)
        self.keys.write_bytes(kept[:40])
        self.refused(daemon, str(self.keys), "not a JSON object")
        self.keys.unlink()
        self.keys.mkdir(0o700)
        self.refused(daemon, str(self.keys))
        self.keys.rmdir()
        self.name_keys(daemon, None)
        self.refused(daemon, "k1", "keyFile")
        (daemon.state / "journal" / "seals").rename(daemon.home / "seals")  # the segments still tell
        self.refused(daemon, "k1", "keyFile")
        done = daemon.cli("doctor", "--repair")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("nothing else was examined", done.stdout)
        (daemon.home / "seals").rename(daemon.state / "journal" / "seals")
        self.name_keys(daemon, self.keys)
        self.keys.write_bytes(kept)
        self.keys.chmod(0o600)
        daemon.start()
        self.assertEqual(self.texts(key, api=api), ["before"])

    def test_shared_mode_takes_no_key_file(self):
        daemon = self.keyed(start=False, store={"mode": "shared"})
        with self.assertRaises(AssertionError) as refused:
            daemon.start()
        self.assertIn("/store/encryption/keyFile", str(refused.exception))

    def test_keys_are_rotated_under_load_and_over_kills(self):
        daemon = self.keyed("k0")
        words, stop, said, faults = Words(3), threading.Event(), {}, []
        names = [f"agent:main:slack:direct:{uid()}" for _ in range(4)]
        for key in names:
            self.new(key, api=daemon.client())

        def write(key, dice):
            api = daemon.client()
            while not stop.is_set():
                text = "".join(dice.choices(LETTERS, k=14))
                reply = api.post(S(key, "main", "messages"), {"role": "user", "text": text})
                if reply.status != 201:
                    faults.append(reply)
                said.setdefault(key, []).append(text)

        writers = [threading.Thread(target=write, args=(key, random.Random(key))) for key in names]
        for writer in writers:
            writer.start()
        try:
            eventually(lambda: sum(map(len, said.values())) > 20, 20)
            for number in range(1, 6):
                mark = len(daemon.stderr)
                write_keys(self.keys, f"k{number}", *(f"k{n}" for n in range(number)))
                daemon.process.send_signal(1)
                eventually(lambda: any("encryption_keys_reloaded" in line for line in daemon.stderr[mark:]), 20)
                count = sum(map(len, said.values()))
                eventually(lambda: sum(map(len, said.values())) > count + 20, 20)
            # One that is in use cannot be taken away.
            mark = len(daemon.stderr)
            write_keys(self.keys, "k5")
            daemon.process.send_signal(1)
            eventually(lambda: any("encryption_keys_not_reloaded" in line for line in daemon.stderr[mark:]), 20)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        self.assertEqual(faults, [])
        write_keys(self.keys, "k6", *(f"k{n}" for n in range(6)))
        daemon.restart(kill=True)
        for key in names:
            got, after = [], ""
            while True:
                page = daemon.client().get(S(key, "main", "messages") + f"?limit=200&order=asc{after}").json
                got += [text_of(m) for m in page["data"]]
                if not page["page"]["hasMore"]:
                    break
                after = f"&after={page['page']['nextAfter']}"
            self.assertEqual(got, said[key])
        words.all = [text for texts in said.values() for text in texts]
        self.assertEqual(words.found_in(daemon.state), [])
        used = {json.loads(line)["k"] for path in daemon.agent_dir().glob("*.jsonl") for line in lines_in(path)}
        self.assertEqual(used, {f"k{n}" for n in range(6)})
        [told] = [f["detail"] for f in self.findings(daemon) if f["level"] == "ok"]
        self.assertIn('with the key "k0"', told)
        daemon.stop()
        self.assertIn(daemon.cli("doctor", "--migrate").returncode, (0, 1))
        used = {json.loads(line)["k"] for path in daemon.agent_dir().glob("*.jsonl") for line in lines_in(path)}
        self.assertEqual(used, {"k6"})
        daemon.start()
        self.assertEqual(len(self.texts(names[0], api=daemon.client())), min(200, len(said[names[0]])))


class TestTampering(EncryptionCase):
    def setUp(self):
        super().setUp()
        self.at_rest = self.keyed()
        api = self.at_rest.client()
        self.names = [f"agent:main:slack:direct:{uid()}" for _ in range(2)]
        self.files = []
        for key in self.names:
            session = self.new(key, api=api, displayName="name of " + key)
            for number in range(4):
                self.say(key, f"{key} {number}", api=api)
            self.files.append(self.at_rest.agent_dir() / f"{session['sessionId']}.jsonl")
        self.at_rest.stop()

    def after(self, *change):
        """The messages of the first session (None: it cannot be read) after a file was changed."""
        self.at_rest.start()
        data = self.messages(self.names[0], api=self.at_rest.client(), query="limit=200&order=asc&view=full")
        self.at_rest.stop()
        return [text_of(m) if m.get("role") == "user" else None for m in data]

    def put(self, path, lines):
        path.write_bytes(b"".join(line + b"\n" for line in lines))

    def test_lines_do_not_open_in_another_place(self):
        key = self.names[0]
        true = [f"{key} {number}" for number in range(4)]
        mine, other = lines_in(self.files[0]), lines_in(self.files[1])
        self.put(self.files[0], [mine[0], mine[2], mine[1], *mine[3:]])  # exchanged
        self.assertEqual(self.after(), [None, None, *true[2:]])
        self.put(self.files[0], [*mine[:3], other[3], mine[4]])  # of another session, at the same place
        self.assertEqual(self.after(), [*true[:2], None, true[3]])
        self.put(self.files[0], [*mine[:2], mine[1], *mine[3:]])  # doubled
        self.assertEqual(self.after(), [true[0], None, *true[2:]])
        self.put(self.files[0], mine)
        self.assertEqual(self.after(), true)
        found = [f for f in json.loads(self.at_rest.cli("doctor", "--json").stdout)["findings"] if f["level"] == "error"]
        self.assertEqual(found, [])

    def test_no_bit_of_a_line_can_be_changed(self):
        true = lines_in(self.files[0])
        dice = random.Random(5)
        for _ in range(6):
            at, bit = dice.randrange(len(true[2])), 1 << dice.randrange(8)
            line = bytearray(true[2])
            line[at] ^= bit
            if line[at] in (10, 13):
                continue
            self.put(self.files[0], [*true[:2], bytes(line), *true[3:]])
            texts = self.after()
            self.assertIsNone(texts[1], (at, bit))
            self.assertEqual(texts[2:], [f"{self.names[0]} {n}" for n in (2, 3)])

    def test_a_torn_last_line_comes_back_from_the_journal_and_the_next_one_follows(self):
        whole = self.files[0].read_bytes()
        self.files[0].write_bytes(whole[:-100])
        (self.at_rest.state / "journal" / "CHECKPOINT").unlink()
        self.assertEqual(self.after(), [f"{self.names[0]} {n}" for n in range(4)])
        self.assertEqual(self.files[0].read_bytes(), whole)  # the same nonce for the same text at the same place
        self.at_rest.start()
        self.say(self.names[0], "next", api=self.at_rest.client())
        self.at_rest.stop()
        self.assertEqual(self.after()[-1], "next")

    def test_a_member_of_an_entry_does_not_open_in_another_entry(self):
        path = self.at_rest.agent_dir() / "sessions.json"
        store = json.loads(path.read_bytes())
        a, b = (store[key] for key in self.names)
        a["displayName"], b["displayName"] = b["displayName"], a["displayName"]
        path.write_text(json.dumps(store))
        found = [f for f in json.loads(self.at_rest.cli("doctor", "--json").stdout)["findings"] if "does not open" in f["detail"]]
        self.assertEqual(len(found), 2, found)
        self.at_rest.start()
        for key in self.names:
            self.assertNotIn("name of", str(self.at_rest.client().get(S(key)).json.get("displayName")))

    def test_a_batch_of_the_journal_does_not_open_at_another_seq_and_is_told_as_damage(self):
        segment = max((self.at_rest.state / "journal").glob("0*.jsonl"))
        lines = lines_in(segment)
        import zlib
        first, second = (line[line.index(b',"e":1'):] for line in lines[:2])
        body = lines[0][9:lines[0].index(b',"e":1')] + second
        self.put(segment, [b"%08x " % zlib.crc32(body) + body, *lines[1:]])
        self.at_rest.start()
        self.assertTrue([line for line in self.at_rest.stderr if "journal_damaged" in line and "at offset 0" in line])
        self.at_rest.stop()
        self.put(segment, lines)
        found = [f for f in json.loads(self.at_rest.cli("doctor", "--json").stdout)["findings"] if f["level"] == "error"]
        self.assertEqual(found, [])


class TestFilesOfBefore(EncryptionCase):
    def test_an_unsealed_state_directory_is_read_as_it_is_and_what_comes_is_sealed(self):
        daemon, words = self.spawn(start=False), Words(6)
        daemon.config.get("store", {}).pop("encryption", None)
        daemon.config_file.write_text(json.dumps(daemon.config))
        daemon.start()
        api, key, gone = daemon.client(), f"agent:main:slack:direct:{uid()}", f"agent:main:slack:direct:{uid()}"
        session = self.new(key, api=api, displayName=words())
        said = [words(3) for _ in range(3)]
        for text in said:
            self.say(key, text, api=api)
        self.new(gone, api=api)
        self.say(gone, words(3), api=api)
        self.ok(api.delete(S(gone)))
        daemon.stop()
        old = list(words.all)
        self.keys = daemon.home / "at-rest.json"
        write_keys(self.keys, "k1")
        self.name_keys(daemon, self.keys)
        daemon.start()
        self.assertEqual(self.texts(key, api=api), said)
        words.all = []
        said.append(words(3))
        self.say(key, said[-1], api=api)
        self.assertEqual(self.texts(key, api=api), said)
        self.ok(api.patch(S(key), {"subject": words()}))
        daemon.checkpoint()
        self.assertEqual(words.found_in(daemon.state), [])
        file = daemon.agent_dir() / f"{session['sessionId']}.jsonl"
        self.assertEqual([line.startswith(b'{"e":1,') for line in lines_in(file)], [False] * 4 + [True])
        named = {Path(f["path"]).name: f["detail"] for f in self.findings(daemon) if f["level"] == "warning"}
        self.assertEqual(named.get(file.name), "4 of 5 lines are not sealed")
        self.assertNotIn("sessions.json", named)
        daemon.stop()
        # Transcripts and archives are sealed on demand; the copies that were put aside are named.
        done = daemon.cli("doctor", "--migrate")
        self.assertIn(done.returncode, (0, 1), done.stdout)
        words.all += old
        left = {Path(path).relative_to(daemon.state).parts[:2] for path, _ in words.found_in(daemon.state)}
        self.assertLessEqual(left, {("journal", name) for name in ("kept", "previous", *(p.name for p in (daemon.state / "journal").glob("0*.jsonl")))})
        shutil.rmtree(daemon.state / "journal" / "kept")
        daemon.start()
        self.assertEqual(self.texts(key, api=api), said)
        self.assertEqual(self.ok(api.post(S(gone, "main", "restore"), {}))["key"], gone)
        self.assertEqual(api.get(S(key)).json["displayName"], old[0])


class TestBackups(EncryptionCase):
    def test_an_export_of_sealed_files_has_media_whole(self):
        daemon = self.keyed()
        api, key = daemon.client(), f"agent:main:slack:direct:{uid()}"
        self.new(key, api=api)
        data = base64.b64encode(bytes(range(256)) * 400).decode()
        part = {"type": "image", "data": data, "mimeType": "image/png"}
        for content in ([part, part], [{"type": "text", "text": "é" * 100_000}], [part]):
            self.ok(api.post(S(key, "main", "messages"), {"role": "user", "content": content}), 201)
        for query in ("jsonl&entry=true", "jsonl", "json"):
            other = self.spawn()
            exported = api.get(S(key, "main", "export") + "?format=" + query)
            self.assertEqual((exported.status, exported.raw.count(data.encode())), (200, 3), query)
            kind = query.partition("&")[0]
            done = self.ok(other.client().post(f"/v1/agents/main/import?format={kind}&ifExists=replace", exported.raw), 200)
            self.assertEqual(len(done["ids"]), 1, (query, done))
            taken = done["ids"][0]
            again = other.client().get(S(taken, "main", "export") + "?format=" + query)
            self.assertEqual(again.raw, exported.raw, query)

    def test_a_backup_stays_sealed_and_is_restored_with_its_keys_only(self):
        daemon, words = self.keyed(), Words(7)
        api, key = daemon.client(), f"agent:main:slack:direct:{uid()}"
        self.new(key, api=api)
        said = [words(3) for _ in range(5)]
        for text in said:
            self.say(key, text, api=api)
        backup = daemon.home / "backup"
        self.assertEqual(daemon.cli("backup", backup).returncode, 0)
        self.assertEqual(words.found_in(backup), [])
        keys = self.keys.read_bytes()
        write_keys(self.keys, "other")
        done = daemon.cli("restore", backup, "--state-dir", daemon.home / "restored")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(str(self.keys), done.stderr)
        self.assertIn("nothing was restored", done.stderr)
        self.keys.write_bytes(keys)
        done = daemon.cli("restore", backup, "--state-dir", daemon.home / "restored")
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        self.assertEqual(words.found_in(daemon.home / "restored"), [])
        restored = self.spawn(state=daemon.home / "restored", start=False)
        self.name_keys(restored, self.keys)
        restored.start()
        self.assertEqual(self.texts(key, api=restored.client(daemon.admin_token)), said)

    def test_an_export_is_readable_and_an_import_is_sealed(self):
        daemon, words = self.keyed(), Words(8)
        api, key = daemon.client(), f"agent:main:slack:direct:{uid()}"
        self.new(key, api=api)
        said = [words(3) for _ in range(5)]
        for text in said:
            self.say(key, text, api=api)
        exported = api.get(S(key, "main", "export"))
        self.assertIn(said[0], exported.text if hasattr(exported, "text") else exported.raw.decode())
        other = self.keyed("another")
        [taken] = self.ok(other.client().post("/v1/agents/main/import", exported.json), 200, 201)["ids"]
        other.checkpoint()
        self.assertEqual(self.texts(taken, api=other.client()), said)
        self.assertEqual(words.found_in(other.state), [])

"""What sessions keep beside their transcripts: blobs, logs, streams and the index of the search. Each has limits and figures, counts in
maintenance, and comes back from a backup."""

import io
import tarfile
import threading
from urllib.parse import quote

from harness.case import Case, S, json, uid
from harness.lasting import LASTING, Runner, file_lines, log_faults, log_file, media_fault, part_of, read_log, shape
from harness.sealed import write_keys
from harness.sessiond import eventually

KIB, MIB = 1 << 10, 1 << 20


def figures(api):
    lines = api.get("/metrics").raw.decode().splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line and line[0] != "#" and "{" not in line}


def taken(state, pattern):
    return [path.stat().st_size for path in state.rglob(pattern) if path.is_file()]


class Figures(Case):
    def written(self, **config):
        """A daemon with one session that has something in every store."""
        daemon = self.spawn({**LASTING, **config})
        api = daemon.client()
        session = self.new(api=api)
        self.write(api, session["key"])
        return daemon, api, session

    def write(self, api, key):
        text = f"sunflower {uid()}"
        self.ok(api.post(S(key, "main", "messages"), {"role": "user", "content": [{"type": "text", "text": text}, part_of(text)]}), 201)
        self.ok(api.post(S(key, "main", "log"), {"type": "server_tool", "tool": "t", "query": "q" * 3000}), 201)
        self.ok(api.post(S(key, "main", "streams", "memoryEvents"), {"said": "s" * 2000}), 201)

    def test_metrics_have_what_each_store_takes_and_may_take(self):
        daemon, api, session = self.written(limits={"logBytes": 2 * MIB, "streamBytes": 3 * MIB}, blobs={"maxBytes": 5 * MIB},
                                            search={"maxBytes": 7 * MIB})
        other = self.new(api=api)
        self.write(api, other["key"])
        self.ok(api.post(S(other["key"], "main", "reset")), 200)  # its log and its stream stay, with the archive
        daemon.checkpoint()

        def told():
            found = figures(api)
            return [found.get(name) for name in ("sessiond_session_logs", "sessiond_session_log_bytes", "sessiond_session_streams",
                                             "sessiond_session_stream_bytes", "sessiond_blobs", "sessiond_blob_bytes")]

        def there():
            logs, blobs = taken(daemon.state, "logs/*.jsonl"), taken(daemon.state, "blobs/sha256/*/*")
            streams = taken(daemon.state, "sessions/*-topic-stream%3AmemoryEvents.jsonl*")
            return [len(logs), sum(logs), len(streams), sum(streams), len(blobs), sum(blobs)]

        wanted = there()
        self.assertEqual((wanted[0], wanted[2]), (2, 2))
        self.assertGreater(min(wanted[1], wanted[3]), 4000)
        eventually(lambda: told() == wanted, 20, what=f"the figures {wanted}")
        found = figures(api)
        self.assertEqual([found[f"sessiond_{name}_bytes_max"] for name in ("session_log", "session_stream", "blob", "search")],
                         [2 * MIB, 3 * MIB, 5 * MIB, 7 * MIB])
        eventually(lambda: figures(api)["sessiond_search_rows"] >= 1, 20)
        self.assertGreater(figures(api)["sessiond_search_bytes"], 0)
        self.ok(api.delete(S(session["key"]) + "?purge=true"), 204)
        daemon.checkpoint()
        eventually(lambda: there()[0] == 1 and told()[:4] == there()[:4], 20, what="one log and one stream")

    def test_files_of_foreign_programs_count_too(self):
        daemon, api, _ = self.written()
        daemon.checkpoint()
        eventually(lambda: figures(api).get("sessiond_session_logs") == 1, 20)
        for n in range(2000):
            (daemon.state / f"agents/main/logs/foreign-{n}.jsonl").write_text("")
        eventually(lambda: figures(api)["sessiond_session_logs"] == 2001, 20)

    def test_disk_space_counts_every_store_of_a_session(self):
        daemon, api, session = self.written()
        for _ in range(20):
            self.write(api, session["key"])
        daemon.checkpoint()
        store = (daemon.agent_dir() / "sessions.json").stat().st_size
        own = taken(daemon.state, f"sessions/{session['sessionId']}*.jsonl") + taken(daemon.state, f"logs/{session['sessionId']}.jsonl")
        self.assertEqual(len(own), 3, "a transcript, a stream and a log")
        for most, named in ((sum(own) + store, []), (sum(own) + store - 1, [session["sessionId"]])):
            reply = self.ok(api.post("/v1/admin/maintenance", {"agent": "main", "maxDiskBytes": most}), 200)
            self.assertEqual([row["sessionId"] for row in reply["data"]], named, reply)

    def test_the_defaults_are_in_the_configuration(self):
        defaults = self.daemon.cli("config", "--print-defaults").stdout
        for line in ('"logBytes": 67108864', '"logEntryBytes": 4194304', '"streamBytes": 67108864', '"streamEntryBytes": 262144',
                     '"maxBytes": 68719476736', '"maxBytes": "unlimited"', '"graceMs": 3600000'):
            self.assertIn(line, defaults)


class Copied(Case):
    """A backup that is taken while blobs, logs and streams are written has all that was acknowledged before it."""

    def daemon_on(self, keys, state=None):
        store = {"store": {"encryption": {"keyFile": str(keys) if keys else None}}}
        return self.spawn({**LASTING, **store, "journal": {"segmentBytes": 64 * KIB, "maxBytes": 64 * KIB}}, state=state)

    def write(self, daemon, number, mine, failures, stop):
        try:
            api, runner = daemon.client(), Runner(f"r{number}")
            key, runs = f"agent:main:x:w{number}", f"agent:main:x:runs{number}"
            self.new(key, api=api)
            self.new(runs, api=api)
            while not stop.is_set():
                text = f"w{number}.{len(mine['media'])} sunflower"
                content = [{"type": "text", "text": text}, part_of(text)]
                done = self.ok(api.post(S(key, "main", "messages"), {"role": "user", "content": content}), 201)
                mine["media"].append((key, done["ids"][0], text))
                path, body, headers, _, lines = runner.next(runs)
                reply = api.post(path, body, headers=headers)
                self.assertIn(reply.status, (200, 201), reply)
                runner.take(reply, lines)
                mine["log"].setdefault(runs, []).extend(lines)
                self.ok(api.post(S(key, "main", "streams", "memoryEvents"), {"n": len(mine["stream"])}), 201)
                mine["stream"].append((key, len(mine["stream"])))
        except Exception as error:  # told by the test, not by a thread
            failures.append(error)

    def check(self, source, daemon, keys, known, whole):
        """`whole`: nothing was written after what is known."""
        state = daemon.home / uid() / "restored"
        state.parent.mkdir()
        done = daemon.cli("restore", source, "--state-dir", state)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        restored = self.daemon_on(keys, state)
        api = restored.client(daemon.admin_token)
        for mine in known:
            for key, entry_id, text in mine["media"]:
                self.assertIsNone(media_fault(api, key, entry_id, text))
            for key, acknowledged in mine["log"].items():
                lines = read_log(api, key)
                there = [shape(line) for line in lines]
                self.assertEqual(there[:len(acknowledged)], acknowledged, key)
                self.assertEqual(log_faults(lines, acknowledged if whole else there, [], key), [])
                session = self.ok(api.get(S(key)), 200)
                self.assertEqual(file_lines(log_file(restored, session["sessionId"])), lines)
            for key in {key for key, _ in mine["stream"]}:
                path, data, more = S(key, "main", "streams", "memoryEvents"), [], "-1"
                while more is not None:
                    page = self.ok(api.get(path + f"?limit=200&after={more}"), 200)
                    data += [entry["data"]["n"] for entry in page["data"]]
                    more = page["page"]["nextAfter"] if page["page"]["hasMore"] else None
                self.assertEqual(data[:len(mine["stream"])], [n for _, n in mine["stream"]])
        hit = known[0]["media"][-1]
        eventually(lambda: any(row["key"] == hit[0] for row in self.ok(api.get("/v1/search?q=" + quote(f'"{hit[2]}"')), 200)["data"]), 20,
                   what="the index, which is made anew")
        restored.stop()
        report = json.loads(restored.cli("doctor", "--json").stdout)
        self.assertEqual([f for f in report["findings"] if f["level"] != "ok" and f["check"] not in ("file_system", "disk_space")], [])

    def known(self, all_of):
        return [{"media": list(mine["media"]), "log": {key: list(lines) for key, lines in mine["log"].items()}, "stream": list(mine["stream"])}
                for mine in all_of]

    def copy_while_written(self, sealed):
        keys = self.daemon.home / f"{uid()}.json" if sealed else None
        if sealed:
            write_keys(keys, "k1")
        daemon = self.daemon_on(keys)
        all_of = [{"media": [], "log": {}, "stream": []} for _ in range(4)]
        stop, failures = threading.Event(), []
        writers = [threading.Thread(target=self.write, args=(daemon, n, mine, failures, stop)) for n, mine in enumerate(all_of)]
        for writer in writers:
            writer.start()
        backups = []
        try:
            for count in (3, 8, 15):
                eventually(lambda: failures or all(len(mine["media"]) >= count for mine in all_of), 60, what="writing")
                known, to = self.known(all_of), daemon.home / f"backup-{count}"
                done = daemon.cli("backup", to)
                self.assertEqual(done.returncode, 0, done.stderr)
                backups.append((to, known))
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        self.assertEqual(failures, [])
        for to, known in backups:
            self.check(to, daemon, keys, known, whole=False)
        daemon.stop()
        at_rest = daemon.home / "at-rest.tar"
        self.assertEqual(daemon.cli("backup", at_rest).returncode, 0)
        self.check(at_rest, daemon, keys, self.known(all_of), whole=True)

    def test_what_was_acknowledged_before_a_backup_is_in_it(self):
        self.copy_while_written(sealed=False)

    def test_the_same_with_encryption(self):
        self.copy_while_written(sealed=True)

    def test_a_backup_has_each_store_but_the_index(self):
        daemon = self.daemon_on(None)
        api = daemon.client()
        session = self.new(api=api)
        Figures.write(self, api, session["key"])
        eventually(lambda: figures(api)["sessiond_search_rows"] >= 1, 20)
        with tarfile.open(fileobj=io.BytesIO(api.post("/v1/admin/backup").raw), mode="r|*") as tar:
            names = [member.name for member in tar]
        self.assertIn(f"agents/main/logs/{session['sessionId']}.jsonl", names)
        self.assertIn(f"agents/main/sessions/{session['sessionId']}-topic-stream%3AmemoryEvents.jsonl", names)
        self.assertEqual(len([name for name in names if name.startswith("blobs/sha256/") and len(name) > 70]), 1)
        self.assertEqual([name for name in names if "index.db" in name], [])

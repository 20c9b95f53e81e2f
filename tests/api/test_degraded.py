"""What befalls one agent's store is that agent's trouble alone, and a store that is gone is damage, not a deletion."""

import json
import os
import select
import shutil
import socket

from harness.case import Case, S
from harness.sessiond import SLOW, eventually

runs = {"asan", "tsan"}

BACKLOG = 64 << 20  # bytes of journal beyond CHECKPOINT at which writers wait
MESSAGE = 900_000   # bytes of text
BIG = 30_000        # entries of a store that takes a while to read
ADDED = 600         # bytes of each


class Degraded(Case):
    @classmethod
    def setUpClass(cls):
        pass  # each test has a daemon of its own

    def prepared(self, config=None, agents=("main", "other"), **named):
        daemon = self.spawn(config, **named)
        api = daemon.client()
        for agent in agents:
            for c in "abc":
                key = f"agent:{agent}:d:{c}"
                self.new(key, api=api, label=c)
                self.say(key, f"hello {c}", agent=agent, api=api)
        daemon.checkpoint()
        return daemon, api

    def keys(self, api, agent="main"):
        return sorted(s["key"] for s in self.ok(api.get(f"/v1/agents/{agent}/sessions"), 200)["data"])

    def events(self, daemon, api, after, kind):
        listed = self.ok(api.get(f"/v1/events?poll=1&after={after}&limit=1000&waitMs=0"), 200)["data"]
        return [e for e in listed if e["type"] == kind]

    def all_keys(self, agent="main"):
        return [f"agent:{agent}:d:{c}" for c in "abc"]

    def told(self, api, text, member="repairs"):
        return [r for r in api.get("/readyz").json[member] if text in r]

    # -- 4: a store that is gone -------------------------------------------------------------------------------------

    def check_gone(self, take_away, transcripts):
        daemon, api = self.prepared()
        before = api.get("/v1/sessions").json["asOf"]
        daemon.stop()
        take_away(daemon)
        daemon.start()
        self.assertEqual(self.keys(api), self.all_keys())
        self.assertEqual(len(self.ok(api.get("/v1/sessions"), 200)["data"]), 6)
        self.assertEqual(self.events(daemon, api, before, "session.deleted"), [])
        self.assertTrue(eventually(lambda: self.events(daemon, api, before, "store.repaired")))
        self.assertTrue(self.told(api, "vanished"), api.get("/readyz").json)
        self.assertTrue(self.told(api, "To remove an agent"))
        if transcripts:
            self.assertEqual(self.texts("agent:main:d:a", api=api), ["hello a"])
        else:
            self.assertTrue(self.told(api, "3 of 3 sessions lost their transcript"))
        self.say("agent:main:d:a", "more", api=api)
        self.assertEqual(set(daemon.sessions_json()), set(self.all_keys()))
        self.assertEqual(daemon.restart().client().get("/readyz").json["repairs"], [])
        self.assertEqual(self.keys(api), self.all_keys())

    def test_a_store_gone_at_the_start_is_rebuilt(self):
        self.check_gone(lambda d: (d.agent_dir() / "sessions.json").unlink(), transcripts=True)

    def check_folder_gone(self, daemon, api):
        """The agent alone answers 503; both remedies are told, and nothing is written in the folder's place."""
        folder = daemon.state / "agents" / "main"
        for reply in (api.get("/v1/agents/main/sessions"), api.get(S("agent:main:d:a")), api.get(S("agent:main:new")),
                      api.post("/v1/agents/main/sessions", {"key": "agent:main:new"}),
                      api.post(S("agent:main:d:a", "main", "messages"), {"role": "user", "text": "t"})):
            detail = self.problem(reply, 503, "degraded")["detail"]
            self.assertIn(str(folder / "sessions"), detail)
            self.assertIn("not mounted", detail)
            self.assertIn("sessiond doctor --repair", detail)
        self.assertEqual(self.keys(api, "other"), self.all_keys("other"))
        self.assertEqual(self.ok(api.get("/v1/sessions"), 200)["degraded"], ["main"])
        self.assertTrue([d for d in self.told(api, str(folder), "degraded") if "doctor --repair" in d])
        report = self.ok(api.post("/v1/admin/doctor"), 200)
        told = [f for f in report["findings"] if f["check"] == "sessions" and f["level"] == "error"]
        self.assertEqual([f["path"] for f in told], [str(folder / "sessions")])
        self.assertIn("doctor --repair", told[0]["advice"])
        self.say("agent:other:d:a", "goes on", agent="other", api=api)
        self.ok(api.post("/v1/admin/checkpoint"), 200)
        self.assertEqual(list((folder / "sessions").iterdir()) if folder.exists() else [], [])

    def test_an_agents_folder_gone_at_the_start_is_not_made_and_is_served_when_it_is_back(self):
        for mode, stop in (("own", "stopped"), ("own", "killed"), ("shared", "stopped"), ("shared", "killed")):
            with self.subTest(mode=mode, stop=stop):
                daemon, api = self.prepared({"store": {"mode": mode}})
                folder, away = daemon.state / "agents" / "main", daemon.home / "away"
                before = api.get("/v1/sessions").json["asOf"]
                self.say("agent:main:d:a", "last", api=api)  # killed, the journal has it beyond CHECKPOINT
                daemon.kill9() if stop == "killed" else daemon.stop()
                folder.rename(away)
                daemon.start()
                self.check_folder_gone(daemon, api)
                daemon.restart()
                self.check_folder_gone(daemon, api)
                away.rename(folder)
                eventually(lambda api=api: api.get("/v1/agents/main/sessions").status == 200, what="the agent, served")
                self.assertEqual(self.keys(api), self.all_keys())
                eventually(lambda api=api, f=folder: not self.told(api, str(f), "degraded"), what="nothing is degraded")
                self.assertEqual(self.texts("agent:main:d:a", api=api), ["hello a", "last"])
                self.assertEqual(self.say("agent:main:d:a", "more", api=api)["firstSeq"], 2)
                self.assertEqual(self.events(daemon, api, before, "session.deleted"), [])
                self.assertEqual(self.texts("agent:main:d:a", api=api), ["hello a", "last", "more"])

    def test_an_agents_folder_that_is_empty_at_the_start_is_as_one_that_is_gone(self):
        for mode, stop in (("own", "stopped"), ("own", "killed"), ("shared", "stopped"), ("shared", "killed")):
            with self.subTest(mode=mode, stop=stop):
                daemon, api = self.prepared({"store": {"mode": mode}})
                folder, away = daemon.agent_dir(), daemon.home / "away"
                self.say("agent:main:d:a", "last", api=api)  # killed, the journal has it beyond CHECKPOINT
                daemon.kill9() if stop == "killed" else daemon.stop()
                folder.rename(away)
                folder.mkdir()  # where a volume is not mounted
                daemon.start()
                self.check_folder_gone(daemon, api)
                daemon.restart()
                self.check_folder_gone(daemon, api)
                self.assertEqual(list(folder.iterdir()), [])
                folder.rmdir()
                away.rename(folder)
                eventually(lambda api=api: api.get("/v1/agents/main/sessions").status == 200, what="the agent, served")
                eventually(lambda api=api, f=folder: not self.told(api, str(f), "degraded"), what="nothing is degraded")
                self.assertEqual(self.texts("agent:main:d:a", api=api), ["hello a", "last"])
                self.assertEqual(self.say("agent:main:d:a", "more", api=api)["firstSeq"], 2)

    def test_a_transcript_that_is_missing_is_named_though_a_stream_of_its_session_is_there(self):
        daemon = self.spawn()
        api = daemon.client()
        made = self.new(api=api)
        self.say(made["key"], "said", api=api)
        self.ok(api.post(S(made["key"], "main", "streams/memoryEvents"), {"event": "saved"}), 201)
        daemon.stop()
        (daemon.agent_dir() / (made["sessionId"] + ".jsonl")).unlink()
        api = daemon.start().client()
        api.get(S(made["key"]))
        eventually(lambda: made["sessionId"] in str(self.told(api, "is missing", "degraded")))

    def test_the_transcript_of_a_topic_or_stream_that_is_missing_is_named_until_it_is_back(self):
        for mode in ("own", "shared"):
            with self.subTest(mode):
                daemon = self.spawn({"store": {"mode": mode}})
                api = daemon.client()
                made = self.new(api=api)
                self.say(made["key"], "said", api=api)
                self.say(made["key"], "said", api=api, query="?topic=t")
                self.ok(api.post(S(made["key"], "main", "streams/memoryEvents"), {"event": "saved"}), 201)
                daemon.checkpoint()
                daemon.stop()
                beside = [f for f in daemon.agent_dir().glob("*-topic-*.jsonl") if f.name.startswith(made["sessionId"])]
                self.assertEqual(len(beside), 2, beside)
                for file in beside:
                    file.rename(daemon.home / file.name)
                told = [f["path"] for f in self.findings(daemon) if f["check"] == "missing"]
                self.assertTrue({str(f) for f in beside} <= set(told), told)
                for _ in range(2):  # also when it was told before
                    api = daemon.start().client()
                    self.ok(api.get(S(made["key"])), 200)
                    told = eventually(lambda api=api: (found := self.told(api, "is missing", "degraded"))
                                      and len(found) == 2 and "".join(sorted(found)), what="both being named")
                    for text in (f'session {made["key"]} had entries in its topic "t"', "in its stream memoryEvents"):
                        self.assertIn(text, told)
                    daemon.stop()
                told = [f["path"] for f in self.findings(daemon) if f["check"] == "missing"]
                self.assertTrue({str(f) for f in beside} <= set(told), told)
                api = daemon.start().client()
                self.ok(api.get(S(made["key"])), 200)
                eventually(lambda api=api: len(self.told(api, "is missing", "degraded")) == 2)
                for file in beside:
                    (daemon.home / file.name).rename(file)
                self.assertEqual(self.told(api, "is missing", "degraded"), [])
                self.assertEqual(self.texts(made["key"], api=api, query="limit=200&order=asc&topic=t"), ["said"])
                self.ok(api.delete(S(made["key"])), 204)
                daemon.stop()
                self.assertEqual([f for f in self.findings(daemon) if f["check"] == "missing"], [])

    def findings(self, daemon):
        done = daemon.cli("doctor", "--json")
        return json.loads(done.stdout)["findings"]

    def test_a_transcript_that_is_missing_is_named_until_it_is_back(self):
        for mode in ("own", "shared"):
            with self.subTest(mode):
                daemon, api = self.prepared({"store": {"mode": mode}})
                topic = self.new("agent:main:d:topic", api=api)
                self.ok(api.post(S(topic["key"], "main", "messages") + "?topic=t", {"role": "user", "text": "x"}), 201)
                path = daemon.agent_dir() / f"{api.get(S('agent:main:d:a')).json['sessionId']}.jsonl"
                daemon.stop()
                path.rename(daemon.home / "away")
                daemon.start()
                self.assertEqual(self.keys(api), [*self.all_keys(), "agent:main:d:topic"])
                told = self.told(api, "is missing", "degraded")
                self.assertEqual(len(told), 1, told)
                self.assertTrue(told[0].startswith(f"{path} is missing: session agent:main:d:a has 1 messages"), told)
                (daemon.home / "away").rename(path)
                self.assertEqual(self.told(api, "is missing", "degraded"), [])
                self.assertEqual(self.texts("agent:main:d:a", api=api), ["hello a"])

    def check_repair(self, take_away):
        daemon, api = self.prepared()
        daemon.stop()
        take_away(daemon)
        daemon.start()
        self.check_folder_gone(daemon, api)
        daemon.stop()
        self.assertIn(daemon.cli("doctor", "--repair").returncode, (0, 1))
        daemon.start()
        self.assertEqual(self.keys(api), self.all_keys())
        return daemon, api

    def test_the_doctor_rebuilds_a_folder_that_is_gone_from_the_journal(self):
        def take_away(daemon):
            shutil.rmtree(daemon.state / "agents" / "main")
        _, api = self.check_repair(take_away)
        self.assertEqual(self.texts("agent:main:d:a", api=api), ["hello a"])
        self.assertEqual(self.say("agent:main:d:a", "more", api=api)["firstSeq"], 1)

    def test_the_doctor_rebuilds_what_a_fork_copied(self):
        for mode in ("own", "shared"):
            with self.subTest(mode):
                daemon, api = self.prepared({"store": {"mode": mode}})
                key = "agent:main:d:a"
                self.say(key, "then", api=api)
                middle = self.messages(key, api=api)[1]["id"]
                self.say(key, "later", api=api)
                self.say(key, "in the topic", api=api, query="?topic=t")
                of_topic = self.messages(key, api=api, query="limit=200&order=asc&topic=t")[0]["id"]
                forks = {}
                for name, asked in (("whole", {}), ("part", {"messageId": middle}), ("topic", {"messageId": of_topic})):
                    forks[name] = self.ok(api.post(S(key, "main", "fork"), {"key": f"agent:main:d:{name}", **asked}), 201)["key"]
                forks["again"] = self.ok(api.post(S(forks["part"], "main", "fork"), {"key": "agent:main:d:again"}), 201)["key"]
                for fork in forks.values():
                    if fork != forks["whole"]:
                        self.say(fork, "only here", api=api)
                self.say(key, "behind", api=api)
                queries = ("limit=200&order=asc", "limit=200&order=asc&topic=t")
                def seen():
                    return {fork: [[(m["seq"], m["id"], m["type"]) for m in self.messages(fork, api=api, query=query)]
                                   for query in queries[:2 if fork == forks["topic"] else 1]] for fork in forks.values()}
                before = seen()
                daemon.checkpoint()
                daemon.stop()
                shutil.rmtree(daemon.state / "agents" / "main")
                self.assertIn(daemon.cli("doctor", "--repair").returncode, (0, 1))
                api = daemon.start().client()
                self.assertEqual(seen(), before)
                self.assertEqual(self.texts(forks["whole"], api=api), ["hello a", "then", "later"])
                self.assertEqual(self.texts(forks["again"], api=api), ["hello a", "then", "only here"])
                self.assertEqual(self.say(forks["part"], "more", api=api)["firstSeq"], 3)

    def test_the_doctor_rebuilds_a_folder_that_is_empty(self):
        def take_away(daemon):
            shutil.rmtree(daemon.agent_dir())
            daemon.agent_dir().mkdir()
        _, api = self.check_repair(take_away)
        self.assertEqual(self.texts("agent:main:d:a", api=api), ["hello a"])

    def test_the_doctor_rebuilds_a_folder_without_earlier_generations(self):
        def take_away(daemon):
            shutil.rmtree(daemon.state / "agents" / "main")
            for kept in (daemon.state / "journal" / "previous").glob("main.*"):
                kept.unlink()
        _, api = self.check_repair(take_away)
        self.assertEqual(self.texts("agent:main:d:a", api=api), ["hello a"])

    def test_what_the_journal_has_not_any_more_is_unreadable_and_seqs_mean_the_same(self):
        small = {"segmentBytes": 1 << 16, "maxBytes": 1 << 17, "retentionMs": 1000}
        daemon, api = self.prepared({"journal": small})
        told = {}
        self.say("agent:main:d:b", "long ago", api=api)
        for n in range(60):
            reply = self.say("agent:main:d:a", f"{n} " + "x" * 6000, api=api)
            told[reply["firstSeq"]] = reply["ids"][0]
            if n % 10 == 0:
                daemon.checkpoint()
        daemon.checkpoint()
        eventually(lambda: len(list((daemon.state / "journal").glob("0*.jsonl"))) < 6 or daemon.checkpoint(),
                   what="a journal without its beginning")
        daemon.stop()
        shutil.rmtree(daemon.state / "agents" / "main")
        self.assertIn(daemon.cli("doctor", "--repair").returncode, (0, 1))
        daemon.start()
        rows = self.messages("agent:main:d:a", api=api)
        self.assertEqual([r["seq"] for r in rows], list(range(61)))
        kept = [r for r in rows if r["type"] == "message"]
        lost = [r for r in rows if r["type"] == "unreadable"]
        self.assertTrue(kept and lost, (len(kept), len(lost)))
        self.assertEqual(len(kept) + len(lost), 61)
        self.assertEqual({r["seq"]: r["id"] for r in kept}, {r["seq"]: told[r["seq"]] for r in kept})
        self.assertEqual(self.say("agent:main:d:a", "more", api=api)["firstSeq"], 61)
        self.assertEqual(self.say("agent:main:d:b", "more", api=api)["firstSeq"], 2)
        self.assertEqual([r["type"] for r in self.messages("agent:main:d:b", api=api)],
                         ["unreadable", "unreadable", "message"])

    def test_a_store_that_vanishes_while_it_runs(self):
        daemon, api = self.prepared({"store": {"cacheTtlMs": 100}})
        self.ok(api.get("/v1/agents/other/sessions"), 200)
        before = api.get("/v1/sessions").json["asOf"]
        shutil.rmtree(daemon.state / "agents" / "main")  # in memory or not: it leaves memory after 100 ms
        eventually(lambda: self.told(api, "vanished"), what="the repair, told")
        eventually(lambda: (daemon.agent_dir() / "sessions.json").exists(), what="the store, written again")
        self.assertEqual(self.keys(api), self.all_keys())
        self.assertEqual(self.events(daemon, api, before, "session.deleted"), [])

    def test_an_agent_is_removed_as_the_log_says(self):
        daemon, api = self.prepared()
        daemon.stop()
        (daemon.agent_dir() / "sessions.json").write_text("{}")
        daemon.start()
        self.assertEqual(self.keys(api), [])
        daemon.checkpoint()
        daemon.stop()
        shutil.rmtree(daemon.state / "agents" / "main")
        daemon.start()
        self.problem(api.get("/v1/agents/main/sessions"), 404, "agent_not_found")
        self.assertEqual(self.told(api, "vanished"), [])
        self.assertEqual(self.keys(api, "other"), self.all_keys("other"))

    def test_a_first_checkpoint_that_never_was_is_no_damage(self):
        daemon = self.spawn()
        api = daemon.client()
        self.new("agent:main:d:a", api=api)
        daemon.restart(kill=True)
        self.assertEqual(self.keys(api), ["agent:main:d:a"])
        self.assertEqual(self.told(api, "vanished"), [])

    # -- 15 and 57: something else stands there ------------------------------------------------------------------------

    IN_THE_WAY = {
        "folder": lambda path: path.mkdir(),
        "dangling link": lambda path: path.symlink_to("nowhere"),
        "fifo": lambda path: os.mkfifo(path),
        "link out": lambda path: path.symlink_to("/etc/passwd"),
    }

    def check_alone(self, daemon, api, fault):
        """Only agent main answers 503, and it is told."""
        for reply in (api.get("/v1/agents/main/sessions"), api.get(S("agent:main:d:a")),
                      api.post(S("agent:main:d:a", "main", "messages"), {"role": "user", "text": "t"})):
            body = self.problem(reply, 503, "degraded")
            self.assertIn("sessions.json", body["detail"])
            self.assertTrue(int(reply.headers["Retry-After"]) > 0)
        self.assertEqual(self.keys(api, "other"), self.all_keys("other"))
        listed = self.ok(api.get("/v1/sessions"), 200)
        self.assertEqual(({s["agent"] for s in listed["data"]}, listed["degraded"]), ({"other"}, ["main"]))
        agents = self.ok(api.get("/v1/agents"), 200)
        self.assertEqual(([a["agent"] for a in agents["data"]], agents["degraded"]), (["other"], ["main"]))
        self.assertTrue(self.told(api, "agent main", "degraded"), (fault, api.get("/readyz").json))
        self.say("agent:other:d:a", fault, agent="other", api=api)

    def in_place(self, daemon, put):
        store = daemon.agent_dir() / "sessions.json"
        store.rename(daemon.home / "was.json")
        put(store)
        return store

    def back(self, daemon, api, store):
        store.rmdir() if store.is_dir() and not store.is_symlink() else store.unlink()
        (daemon.home / "was.json").rename(store)
        self.assertEqual(eventually(lambda: api.get("/v1/agents/main/sessions").status == 200 and self.keys(api)),
                         self.all_keys())
        self.assertEqual(self.told(api, "agent main", "degraded"), [])

    def test_another_thing_in_the_place_of_a_store_stops_nobody_else(self):
        daemon, api = self.prepared()
        for name, put in self.IN_THE_WAY.items():
            for running in (True, False):
                with self.subTest(name, running=running):
                    if not running:
                        daemon.stop()
                    store = self.in_place(daemon, put)
                    if not running:
                        daemon.start()
                    eventually(lambda: api.get("/v1/agents/main/sessions").status == 503, what="503")
                    self.check_alone(daemon, api, name)
                    self.back(daemon, api, store)

    def test_a_start_with_events_beyond_CHECKPOINT(self):
        daemon, api = self.prepared({"store": {"checkpointDuty": 0.001}})
        self.ok(api.patch(S("agent:main:d:a"), {"label": "newer"}), 200)
        daemon.kill9()
        store = self.in_place(daemon, lambda path: path.mkdir())
        daemon.start()
        self.check_alone(daemon, api, "folder")
        daemon.restart(kill=True)  # CHECKPOINT keeps its seq
        self.check_alone(daemon, api, "folder")
        self.back(daemon, api, store)
        self.assertEqual(api.get(S("agent:main:d:a")).json["label"], "newer")

    def test_the_backlog_of_one_agent_stops_nobody_else(self):
        daemon, api = self.prepared()
        store = daemon.agent_dir() / "sessions.json"
        store.unlink()
        store.mkdir()
        self.assertIn(api.patch(S("agent:main:d:a"), {"label": "x"}).status, (200, 503))
        text, writer = "x" * MESSAGE, daemon.client()
        for _ in range(BACKLOG // MESSAGE + 12):
            self.ok(writer.post(S("agent:other:d:a", "other", "messages"), {"role": "user", "text": text}), 201)
        self.problem(api.get("/v1/agents/main/sessions"), 503, "degraded")
        store.rmdir()
        self.assertEqual(eventually(lambda: api.get("/v1/agents/main/sessions").status == 200 and self.keys(api)),
                         self.all_keys())

    def test_one_transcript_that_cannot_be_written_stops_nobody_else(self):
        daemon, api = self.prepared()
        session = api.get(S("agent:main:d:a")).json["sessionId"]
        transcript = daemon.agent_dir() / f"{session}.jsonl"
        whole = transcript.read_bytes()
        for running in (True, False):
            with self.subTest(running=running):
                if not running:
                    daemon.stop()
                transcript.unlink()
                transcript.mkdir()
                if not running:
                    daemon.start()
                reply = api.post(S("agent:main:d:a", "main", "messages"), {"role": "user", "text": "t"})
                if reply.status != 201:  # it may have been taken before the folder was seen
                    self.problem(reply, 503, "degraded")
                eventually(lambda: api.get(S("agent:main:d:a", "main", "messages")).status == 503, what="503")
                self.say("agent:main:d:b", "fine", api=api)
                self.say("agent:other:d:a", "fine", agent="other", api=api)
                self.assertEqual(self.texts("agent:other:d:a", agent="other", api=api)[-1], "fine")
                daemon.checkpoint()
                transcript.rmdir()
                transcript.write_bytes(whole)
                self.assertIn("hello a", eventually(
                    lambda: api.get(S("agent:main:d:a", "main", "messages")).status == 200
                    and self.texts("agent:main:d:a", api=api)))
                daemon.checkpoint()
                whole = transcript.read_bytes()

    # -- 40: databases of OpenClaw 2026.8 ----------------------------------------------------------------------------

    def test_a_state_directory_that_keeps_sessions_in_SQLite(self):
        for name in ("agents/main/agent/openclaw-agent.sqlite", "state/openclaw.sqlite"):
            with self.subTest(name):
                daemon = self.spawn(start=False)
                path = daemon.state / name
                path.parent.mkdir(parents=True)
                path.write_bytes(b"SQLite format 3\0")
                with self.assertRaises(AssertionError):
                    daemon.start()
                daemon.process = None
                self.assertTrue([line for line in daemon.stderr if "sqlite_state" in line and "--ignore-sqlite" in line])
                self.assertEqual(sorted(p.name for p in daemon.state.iterdir()),
                                 sorted({name.split("/")[0], "sessiond.lock"}), "nothing was made")
                done = daemon.cli("doctor", "--json")
                self.assertEqual([f["path"] for f in json.loads(done.stdout)["findings"] if f["check"] == "sqlite"], [str(path)])
                daemon.arguments = ["--ignore-sqlite"]
                daemon.start()
                api = daemon.client()
                self.inbound(api=api)
                eventually(lambda: self.told(api, path.name, "degraded"), what="readyz")

    def test_an_agent_that_moves_to_SQLite_while_we_run(self):
        daemon, api = self.prepared()
        with api.stream("/v1/events?types=store.*") as stream:
            stream.wait_type("stream.hello")
            folder = daemon.state / "agents" / "third" / "agent"
            folder.mkdir(parents=True)
            eventually(lambda: len(self.ok(api.get("/v1/agents"), 200)["data"]) == 2)
            (folder / "openclaw-agent.sqlite").write_bytes(b"SQLite format 3\0")
            (daemon.state / "agents" / "fourth").mkdir()  # a look at everything, wherever the file was made
            event = stream.wait_for(lambda e: e.type == "store.degraded")
            self.assertIn("openclaw-agent.sqlite", event.data["data"]["reason"])
        self.assertTrue(self.told(api, "openclaw-agent.sqlite", "degraded"))

    # -- 42: what is no UTF-8 ----------------------------------------------------------------------------------------

    def test_an_entry_that_is_no_UTF_8(self):
        daemon, api = self.prepared()
        store = daemon.agent_dir() / "sessions.json"
        bad = b'{"sessionId": "bad", "updatedAt": 1, "displayName": "half \xc3( \xff", "subject": "\xe2\x82"}'
        with api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            temp = store.with_name("theirs.tmp")
            temp.write_bytes(store.read_bytes().rstrip()[:-1].rstrip() + b',\n"agent:main:d:bad": ' + bad + b"\n}\n")
            temp.rename(store)
            event = stream.wait_for(lambda e: e.type == "session.created" and e.data["key"] == "agent:main:d:bad")
            self.assertEqual(event.data["data"]["entry"]["displayName"], "half \ufffd( \ufffd")
        for path in ("/v1/sessions", "/v1/agents/main/sessions", S("agent:main:d:bad"), "/v1/events?poll=1&replay=100&waitMs=0",
                     S("agent:main:d:bad", "main", "history")):
            raw = self.ok_raw(api.get(path))
            if "history" not in path:
                self.assertIn("half \ufffd( \ufffd", raw)
        self.ok(api.patch(S("agent:main:d:a"), {"label": "newer"}), 200)
        daemon.restart()
        self.ok(api.patch(S("agent:main:d:bad"), {"label": "newer"}), 200)
        daemon.checkpoint()
        self.assertIn(b'"half \xc3( \xff"', store.read_bytes())
        self.assertIn(b'"subject":"\xe2\x82"', store.read_bytes().replace(b'": "', b'":"'))

    def ok_raw(self, reply):
        self.assertEqual(reply.status, 200, reply)
        return reply.raw.decode("utf-8")  # strict

    # -- 59 and 51: a big agent ----------------------------------------------------------------------------------------

    def test_others_are_served_while_a_big_agent_is_read(self):
        daemon, api = self.prepared({"store": {"cacheTtlMs": 0}}, agents=("other",))
        daemon.stop()
        folder = daemon.agent_dir("big")
        folder.mkdir(parents=True)
        filler = "x" * ADDED
        (folder / "sessions.json").write_text("{" + ",\n".join(
            json.dumps(f"agent:big:d:{i}") + ":" + json.dumps({"sessionId": f"s{i}", "updatedAt": i, "x-filler": filler})
            for i in range(BIG)) + "}")
        first = []
        for _ in range(5):  # which answer comes first; the machine may be busy just then
            daemon.start()
            with socket.create_connection(("127.0.0.1", daemon.port)) as one, \
                    socket.create_connection(("127.0.0.1", daemon.port)) as two:
                head = f"Host: localhost\r\nAuthorization: Bearer {daemon.admin_token}\r\n\r\n"
                one.sendall(f"GET /v1/agents/big/sessions?limit=1 HTTP/1.1\r\n{head}".encode())
                two.sendall(f"GET /v1/agents/other/sessions?limit=1 HTTP/1.1\r\n{head}".encode())
                ready, _, _ = select.select([one, two], [], [], 60 * SLOW)
                first.append(ready == [two])
                for sock in (one, two):
                    sock.settimeout(60 * SLOW)
                    self.assertIn(b"200 OK", sock.recv(64))
            daemon.stop()
            if first[-1]:
                break
        self.assertIn(True, first, "the small agent's answer came before the big one's")
        self.assertTrue([line for line in daemon.stderr if "agent_loading" in line and "big" in line])
        self.assertTrue([line for line in daemon.stderr if "agent_loaded" in line and f"sessions={BIG}" in line])

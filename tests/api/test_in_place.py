"""A store that another program writes in place is not damage: it is waited for and never written over."""

import os

from harness.case import Case, S, json
from harness.sessiond import eventually

runs = {"asan", "tsan"}

FRESH = {"Cache-Control": "no-cache"}
THEIRS = "agent:main:d:theirs"


def found(report):
    return [(f["level"], f["detail"]) for f in report["findings"] if f["check"] == "sessions" and f["level"] != "ok"]


class InPlace(Case):
    @classmethod
    def setUpClass(cls):
        pass  # each test has a daemon of its own

    def prepared(self, mode="own", **store):
        daemon = self.spawn({"store": {"mode": mode, "lock": {"timeoutMs": 200}, **store}})
        api = daemon.client()
        for agent in ("main", "other"):
            for c in "ab":
                self.new(f"agent:{agent}:d:{c}", api=api, label=c)
        daemon.checkpoint()
        self.path = daemon.agent_dir() / "sessions.json"
        return daemon, api

    def begin(self, flags="w"):
        """Another program opens the store and writes a half of it, with a session of its own. The result writes the rest."""
        entries = json.loads(self.path.read_bytes())
        text = json.dumps({**entries, THEIRS: {"sessionId": "s-theirs", "updatedAt": 5}}, indent=2)
        writer = open(self.path, flags)  # noqa: SIM115: it stays open
        self.addCleanup(writer.close)
        self.half, rest = text[:len(text) // 2], text[len(text) // 2:]
        writer.write(self.half)
        writer.flush()

        def end():
            writer.write(rest)
            writer.close()
        return end

    def aside(self, daemon):
        return sorted(p.name for p in daemon.agent_dir().iterdir() if ".corrupt." in p.name)

    def label(self, api, key="agent:main:d:a"):
        return self.ok(api.get(S(key), headers=FRESH), 200)["label"]

    def stream(self, api):
        stream = api.stream("/v1/events")
        self.addCleanup(stream.close)
        stream.wait_type("stream.hello")
        return stream

    def await_theirs(self, stream):
        stream.wait_for(lambda e: e.type == "session.created" and e.data.get("key") == THEIRS, 30)

    def check_both(self, daemon, api, label):
        self.assertEqual(self.label(api), label)
        self.ok(api.get(S(THEIRS), headers=FRESH), 200)
        store = daemon.sessions_json()
        self.assertEqual((store["agent:main:d:a"]["label"], store[THEIRS]["sessionId"]), (label, "s-theirs"))

    def test_a_half_written_store_is_served_from_memory_and_not_written(self):
        for mode in ("own", "shared"):
            with self.subTest(mode):
                daemon, api = self.prepared(mode, damageAfterMs=60_000)
                stream = self.stream(api)
                end = self.begin()
                for n in range(20):
                    self.ok(api.patch(S("agent:main:d:a"), {"label": f"ours {n}"}), 200)
                self.assertEqual(self.label(api), "ours 19")
                self.problem(api.post("/v1/admin/checkpoint"), 503, "lock_timeout")
                self.assertEqual(self.path.read_text(), self.half)
                self.ok(api.patch(S("agent:other:d:a", "other"), {"label": "not kept back"}), 200)
                eventually(lambda d=daemon: json.loads((d.agent_dir("other") / "sessions.json").read_bytes())
                           ["agent:other:d:a"]["label"] == "not kept back", what="the other agent's store")
                end()
                self.await_theirs(stream)
                self.check_both(daemon, api, "ours 19")
                self.assertEqual(self.aside(daemon), [])

    def check_start(self, stop):
        daemon, api = self.prepared(damageAfterMs=60_000)
        end = self.begin()
        self.ok(api.patch(S("agent:main:d:a"), {"label": "ours"}), 200)
        stop(daemon)
        daemon.start()
        reply = api.get(S("agent:main:d:a"))
        self.assertIn("sessions.json is not whole", self.problem(reply, 503, "starting")["detail"])
        self.assertTrue(int(reply.headers["Retry-After"]) > 0)
        self.assertEqual(len(self.ok(api.get("/v1/agents/other/sessions"), 200)["data"]), 2)
        listed = self.ok(api.get("/v1/sessions"), 200)
        self.assertEqual(({s["agent"] for s in listed["data"]}, listed["degraded"]), ({"other"}, ["main"]))
        self.assertEqual(self.ok(api.get("/v1/agents"), 200)["degraded"], ["main"])
        self.assertTrue([l for l in api.get("/readyz").json["loading"] if "not whole" in l])
        self.assertEqual(self.path.read_text(), self.half)
        self.assertEqual(self.aside(daemon), [])
        end()
        eventually(lambda: api.get(S("agent:main:d:a")).status == 200, what="the agent, served again")
        self.check_both(daemon, api, "ours")
        self.assertEqual(self.aside(daemon), [])
        self.assertEqual(api.get("/readyz").json["loading"], [])

    def test_a_daemon_stopped_while_the_store_is_half_written_waits_for_it_at_the_start(self):
        self.check_start(lambda daemon: daemon.stop())

    def test_a_daemon_killed_while_the_store_is_half_written_waits_for_it_at_the_start(self):
        self.check_start(lambda daemon: daemon.kill9())

    def test_a_writer_that_died_is_damage_though_nobody_asks(self):
        daemon, api = self.prepared(damageAfterMs=300)
        stream = self.stream(api)
        self.begin()
        self.ok(api.patch(S("agent:main:d:a"), {"label": "ours"}), 200)
        stream.wait_type("store.repaired")
        self.assertEqual(daemon.sessions_json()["agent:main:d:a"]["label"], "ours")
        self.assertEqual([(daemon.agent_dir() / name).read_text() for name in self.aside(daemon)], [self.half])
        daemon.stop()
        os.truncate(self.path, 0)
        daemon.start()
        eventually(lambda: api.get(S("agent:main:d:a")).status == 200, what="the agent, served again")
        self.assertEqual(self.label(api), "ours")

    def test_a_writer_that_ends_after_its_file_was_set_aside_is_merged(self):
        daemon, api = self.prepared(damageAfterMs=50)
        stream = self.stream(api)
        end = self.begin()
        self.label(api)  # has it looked at: a store that is still open is, when somebody asks
        stream.wait_type("store.repaired")
        self.ok(api.patch(S("agent:main:d:a"), {"label": "ours"}), 200)
        self.new("agent:main:d:later", api=api)
        daemon.checkpoint()
        end()
        self.await_theirs(stream)
        self.check_both(daemon, api, "ours")
        self.ok(api.get(S("agent:main:d:later"), headers=FRESH), 200)

    def test_a_program_that_opened_the_store_before_a_checkpoint_is_merged(self):
        daemon, api = self.prepared()
        stream = self.stream(api)
        entries = json.loads(self.path.read_bytes())
        with open(self.path, "r+") as writer:
            self.ok(api.patch(S("agent:main:d:a"), {"label": "ours"}), 200)
            self.new("agent:main:d:later", api=api)
            daemon.checkpoint()
            text = json.dumps({**entries, THEIRS: {"sessionId": "s-theirs", "updatedAt": 5}})
            writer.truncate(0)
            writer.write(text[:40])
            writer.flush()
            self.ok(api.patch(S("agent:main:d:a"), {"label": "ours again"}), 200)
            daemon.checkpoint()
            writer.write(text[40:])
        self.await_theirs(stream)
        self.check_both(daemon, api, "ours again")
        self.ok(api.get(S("agent:main:d:later"), headers=FRESH), 200)
        self.assertEqual(self.aside(daemon), [])

    def test_an_empty_object_that_is_filled_later_deletes_nothing(self):
        daemon, api = self.prepared(damageAfterMs=60_000)
        stream = self.stream(api)
        entries = json.loads(self.path.read_bytes())
        with open(self.path, "w") as writer:
            writer.write("{}")
            writer.flush()
            self.assertEqual(self.label(api), "a")
            self.ok(api.patch(S("agent:main:d:a"), {"label": "ours"}), 200)
            writer.seek(0)
            json.dump({**entries, THEIRS: {"sessionId": "s-theirs", "updatedAt": 5}}, writer)
        self.await_theirs(stream)
        self.check_both(daemon, api, "ours")
        self.assertEqual([e for e in stream.durable if e.type == "session.deleted"], [])

    def test_the_doctor_says_that_a_store_may_be_being_written(self):
        daemon, api = self.prepared(damageAfterMs=60_000)
        end = self.begin()
        for examined in ("beside a daemon", "alone"):
            with self.subTest(examined):
                if examined == "alone":
                    daemon.stop()
                    daemon.cli("doctor", "--repair")
                    report = json.loads(daemon.cli("doctor", "--json").stdout)
                else:
                    report = self.ok(api.post("/v1/admin/doctor"), 200)
                [(level, detail)] = found(report)
                self.assertEqual(level, "warning")
                self.assertIn("a program may be writing it in place", detail)
                self.assertEqual(self.path.read_text(), self.half)
        end()
        self.assertEqual(found(json.loads(daemon.cli("doctor", "--json").stdout)), [])
        daemon.start()
        self.ok(api.get(S(THEIRS)), 200)


class InPlaceWhileDown(Case):
    """A program that writes the store in place while no daemon runs changes the second name that we keep of it, too."""

    @classmethod
    def setUpClass(cls):
        pass  # each test has a daemon of its own

    def prepared(self, mode):
        daemon = self.spawn({"store": {"mode": mode}})
        api = daemon.client()
        for c in "abc":
            self.new(f"agent:main:d:{c}", api=api, label=c)
            self.say(f"agent:main:d:{c}", "hello", api=api)
        daemon.checkpoint()
        self.path = daemon.agent_dir() / "sessions.json"
        return daemon, api

    def rewrite(self, daemon, change, kill=False):
        if kill:
            daemon.kill9()
        else:
            daemon.stop()
        entries = json.loads(self.path.read_bytes())
        change(entries)
        inode = self.path.stat().st_ino
        self.path.write_text(json.dumps(entries, indent=2))
        self.assertEqual(self.path.stat().st_ino, inode)
        daemon.start()

    def test_what_it_changed_is_told_and_moves_the_version(self):
        for mode in ("own", "shared"):
            for kill in (False, True):
                with self.subTest(mode, kill=kill):
                    daemon, api = self.prepared(mode)
                    before = self.ok(api.get(S("agent:main:d:a")), 200)

                    def change(entries):
                        entries["agent:main:d:a"]["label"] = "theirs"
                        del entries["agent:main:d:b"]
                        entries[THEIRS] = {"sessionId": "s-theirs", "updatedAt": 5}
                    self.rewrite(daemon, change, kill)
                    with api.stream("/v1/events?after=" + before["asOf"]) as stream:
                        stream.wait_type("store.external_change")
                        told = {(e.type, e.data.get("key")) for e in stream.events if "key" in (e.data or {})}
                    self.assertIn(("session.updated", "agent:main:d:a"), told)
                    self.assertIn(("session.deleted", "agent:main:d:b"), told)
                    self.assertIn(("session.created", THEIRS), told)
                    self.assertNotIn("agent:main:d:c", {key for _, key in told})
                    after = self.ok(api.get(S("agent:main:d:a"), headers=FRESH), 200)
                    self.assertEqual((after["label"], after["rev"] > before["rev"]), ("theirs", True))

    def test_a_run_of_a_session_that_it_reset_or_deleted_is_over(self):
        for mode in ("own", "shared"):
            with self.subTest(mode):
                daemon, api = self.prepared(mode)
                runs = {}
                for c in "ab":
                    runs[c] = self.ok(api.post(S(f"agent:main:d:{c}", "main", "runs"), {"input": {"role": "user", "text": "old"}}), 201)
                daemon.checkpoint()

                def change(entries):
                    entries["agent:main:d:a"]["sessionId"] = "s-theirs"
                    del entries["agent:main:d:b"]
                self.rewrite(daemon, change)
                for c, run in runs.items():
                    path = S(f"agent:main:d:{c}", "main", "runs") + f"/{run['runId']}/finish"
                    late = {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": "late"}]}
                    self.assertIn(api.post(path, late).status, (404, 409), c)
                names = [one["sessionId"] for one in self.ok(api.get(S("agent:main:d:a", "main", "history")), 200)["data"]]
                self.assertEqual(names, ["s-theirs", runs["a"]["sessionId"]])
                self.new("agent:main:d:b", api=api)
                again = self.ok(api.post(S("agent:main:d:b", "main", "runs"), {"input": {"role": "user", "text": "new"}}), 201)
                self.assertEqual(again["status"], "running")

    def test_runs_of_a_session_that_is_gone_end_though_nothing_is_left_to_compare(self):
        daemon, api = self.prepared("own")
        self.ok(api.post(S("agent:main:d:b", "main", "runs"), {"input": {"role": "user", "text": "old"}}), 201)
        daemon.checkpoint()
        daemon.stop()
        for file in (daemon.state / "journal" / "previous").iterdir():
            file.unlink()
        entries = json.loads(self.path.read_bytes())
        del entries["agent:main:d:b"]
        self.path.write_text(json.dumps(entries))
        daemon.start()
        eventually(lambda: api.get(S("agent:main:d:b"), headers=FRESH).status == 404)
        self.new("agent:main:d:b", api=api)
        again = self.ok(api.post(S("agent:main:d:b", "main", "runs"), {"input": {"role": "user", "text": "new"}}), 201)
        self.assertEqual(again["status"], "running")

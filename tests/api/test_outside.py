"""store.pathTemplate outside of the state directory, and where a session's files are."""

import json
import os
from pathlib import Path

from harness.case import Case, S, uid
from harness.sessiond import Client, Daemon, eventually


class Paths(Case):
    def test_get_names_the_files_for_whoever_sees_everything(self):
        session = self.new()
        paths = self.ok(self.api.get(S(session["key"])), 200)["paths"]
        folder = self.daemon.agent_dir()
        self.assertEqual(paths, {"store": str(folder / "sessions.json"),
                                 "transcript": str(folder / (session["sessionId"] + ".jsonl"))})
        self.assertEqual(self.api.get(S(session["key"]) + "?fields=paths").json["paths"], paths)
        self.assertNotIn("paths", self.api.get(S(session["key"]) + "?fields=label").json)
        part = self.daemon.client(self.daemon.token("admin", agents=["main"]))
        self.assertNotIn("paths", self.ok(part.get(S(session["key"])), 200))
        self.invalid(self.api.patch(S(session["key"]), {"paths": {}}), "/paths")
        whole = self.api.get(S(session["key"])).json
        self.ok(self.api.put(S(session["key"]), whole), 200)
        self.assertNotIn("paths", self.daemon.sessions_json()[session["key"]])
        key = f"agent:main:tmp:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.assertNotIn("paths", self.ok(self.api.get(S(key)), 200))

    def test_cwd_goes_into_the_header(self):
        for given, wanted in (("/srv/project", "/srv/project"), (None, str(self.daemon.home))):
            session = self.new(**({"cwd": given} if given else {}))
            self.say(session["key"])
            self.daemon.checkpoint()
            header = (self.daemon.agent_dir() / (session["sessionId"] + ".jsonl")).read_text().splitlines()[0]
            self.assertEqual(json.loads(header)["cwd"], wanted)

    def test_ids_that_leave_their_folder_are_refused(self):
        for bad in ("a..b", "..", "../x"):
            self.problem(self.api.post("/v1/agents/main/sessions", {"sessionId": bad}), 422, "invalid_id")


class Outside(Case):
    """The agents' folders lie beside the state directory."""

    def outside(self, template=None, **more):
        daemon = self.spawn(start=False)
        daemon.root = daemon.home / "elsewhere" / "agents"
        config = {**daemon.config, "store": {"pathTemplate": template or str(daemon.root / "{agentId}" / "sessions" / "sessions.json"),
                                             "allowOutside": True, **more}}
        daemon.config_file.write_text(json.dumps(config))
        daemon.agent_dir = lambda agent="main": daemon.root / agent / "sessions"
        return daemon.start()

    def test_it_lives_there_over_kills_resets_and_foreign_changes(self):
        for mode in ("own", "shared"):
            with self.subTest(mode=mode):
                daemon = self.outside(mode=mode)
                api = daemon.client()
                key = self.new(api=api)["key"]
                self.say(key, "one", api=api)
                daemon.kill9()
                daemon.start()
                self.assertEqual(self.texts(key, api=api), ["one"])
                reset = self.ok(api.post(S(key, "main", "reset")), 200)
                self.say(key, "two", api=api)
                self.assertEqual(self.texts(key, api=api), ["two"])
                daemon.checkpoint()
                folder = daemon.agent_dir()
                self.assertTrue((folder / reset["archivedAs"][0]).exists())
                self.assertFalse((daemon.state / "agents").exists())
                self.assertEqual({f.stat().st_mode & 0o777 for f in folder.rglob("*") if f.is_file()}, {0o600})
                self.assertEqual({d.stat().st_mode & 0o777 for d in (daemon.root, folder)}, {0o700})
                store = folder / "sessions.json"
                entries = json.loads(store.read_bytes())
                entries[key]["label"] = "theirs"
                entries[key]["updatedAt"] += 1000
                store.write_text(json.dumps(entries))
                eventually(lambda: api.get(S(key)).json.get("label") == "theirs", what="the foreign change")
                self.assertEqual(api.get(S(key)).json["paths"]["store"], str(store))
                self.assertEqual([a["agent"] for a in api.get("/v1/agents").json["data"]], ["main"])
                self.ok(api.delete(S(key) + "?purge=true"), 204)
                report = self.ok(api.post("/v1/admin/doctor"), 200)
                self.assertEqual(report["status"], "ok", report)

    def test_links_out_of_it_are_refused(self):
        daemon = self.outside()
        api = daemon.client()
        away = daemon.home / "away"
        (away / "sessions").mkdir(parents=True)
        os.symlink(away, daemon.root / "led")
        self.problem(api.post("/v1/agents/led/sessions", {"key": "agent:led:x"}), 503, "degraded")
        self.assertEqual(list((away / "sessions").iterdir()), [])

    def test_a_backup_is_a_state_directory_that_needs_nothing_outside(self):
        daemon = self.outside()
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.say(key, "kept", api=api)
        copy = daemon.home / "backup"
        done = daemon.cli("backup", copy)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((copy / "stores/main/sessions/sessions.json").is_file(), sorted(copy.rglob("*")))
        refused = daemon.cli("restore", copy, "--state-dir", daemon.home / "other")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("stores/{agentId}/sessions/sessions.json", refused.stderr)
        other = Daemon({"store": {"pathTemplate": "stores/{agentId}/sessions/sessions.json"}})
        self._others.append(other)
        self.addCleanup(self._finish, other)
        restored = other.cli("restore", copy)
        self.assertEqual(restored.returncode, 0, restored.stderr + restored.stdout)
        other.start()
        self.assertEqual(self.texts(key, api=Client(other, api.token)), ["kept"])

    def test_two_daemons_do_not_share_it(self):
        daemon = self.outside()
        second = self.spawn(start=False)
        second.config_file.write_text(json.dumps({**second.config, "store": {
            "pathTemplate": str(daemon.root / "{agentId}" / "sessions" / "sessions.json"), "allowOutside": True}}))
        with self.assertRaisesRegex(AssertionError, "stores_unusable"):
            second.start()

    def test_home_and_what_the_configuration_must_say(self):
        daemon = self.spawn(start=False)
        for store, fine in (({"pathTemplate": "~/agents/{agentId}/s.json", "allowOutside": True}, True),
                            ({"pathTemplate": "~/agents/{agentId}/s.json"}, False),
                            ({"pathTemplate": "/x/{agentId}/s.json"}, False),
                            ({"pathTemplate": "~other/{agentId}/s.json", "allowOutside": True}, False),
                            ({"pathTemplate": "/x/../{agentId}/s.json", "allowOutside": True}, False),
                            ({"pathTemplate": str(daemon.state / "journal" / "{agentId}" / "s.json"), "allowOutside": True}, False)):
            with self.subTest(store=store):
                daemon.config_file.write_text(json.dumps({**daemon.config, "store": store}))
                done = daemon.cli("config", "--check")
                self.assertEqual(done.returncode == 0, fine, done.stdout + done.stderr)
        daemon.config_file.write_text(json.dumps({**daemon.config, "store": {
            "pathTemplate": "~/agents/{agentId}/s.json", "allowOutside": True}}))
        daemon.start()
        self.new(api=daemon.client())
        daemon.checkpoint()
        self.assertTrue((Path(daemon.env["HOME"]) / "agents" / "main" / "s.json").exists())


class Keys(Case):
    def test_auto_save_and_max_sessions(self):
        daemon = self.spawn(start=False)
        for session, fine in (({"autoSave": True}, True), ({"autoSave": False}, False), ({"maxSessions": 3}, True),
                              ({"maxSessions": 3, "maintenance": {"maxEntries": 3}}, True),
                              ({"maxSessions": 3, "maintenance": {"maxEntries": 4}}, False)):
            with self.subTest(session=session):
                daemon.config_file.write_text(json.dumps({**daemon.config, "session": session}))
                done = daemon.cli("config", "--check")
                self.assertEqual(done.returncode == 0, fine, done.stdout + done.stderr)
        self.assertIn("always on", self.refusal({"autoSave": False}))
        daemon.config_file.write_text(json.dumps({**daemon.config, "session": {"maxSessions": 3}}))
        daemon.start()
        api = daemon.client()
        for n in range(5):
            self.new(f"agent:main:room:{n}", api=api)
        found = self.ok(api.post("/v1/admin/maintenance"), 200)
        self.assertEqual([one["key"] for one in found["data"]], ["agent:main:room:0", "agent:main:room:1"])

    def refusal(self, session):
        daemon = self.spawn(start=False)
        daemon.config_file.write_text(json.dumps({**daemon.config, "session": session}))
        done = daemon.cli("config", "--check")
        return done.stdout + done.stderr

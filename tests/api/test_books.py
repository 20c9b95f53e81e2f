"""The books of runs and deliveries on disk (daemon/ledger/book_files.hpp): what they bring over kills, upgrades and backups."""

import json
import unittest

from harness.books import outbox_before, read_log, runs_before
from harness.case import Case, S, uid
from harness.sessiond import ENCRYPT

FOLDERS = ("runs", "outbox")


class Books(Case):
    def setUp(self):
        super().setUp()
        self.channel = "c" + uid()[:8]

    def file(self, daemon, folder, ending=".log"):
        return daemon.state / "journal" / folder / ("main" + ending)

    def talk(self, api):
        """A session with ended, active and waiting runs, one that a person has taken over, and deliveries at each stage."""
        keys = [self.new(f"agent:main:{self.channel}:direct:{uid()}", api=api, turnCap="unlimited",
                         deliveryContext={"channel": self.channel, "to": "u1"})["key"] for _ in range(3)]
        busy, taken, sends = keys
        api.post("/v1/deliveries/claim", {"channel": self.channel})
        for n in range(3):
            self.one_run(api, busy, f"answer {n}")
        self.ok(api.post(S(busy, "main", "runs"), {"input": {"role": "user", "text": "go"}, "leaseMs": 600_000}), 201)
        for n in range(2):
            self.ok(api.post(S(busy, "main", "runs"), {"input": {"role": "user", "text": f"wait {n}"}, "whenBusy": "queue"}), 202)
        self.ok(api.post(S(taken, "main", "takeover"), {"name": "Hanne"}), 200)
        for n in range(4):
            self.ok(api.post(S(sends, "main", "outbound"), {"text": f"out {n}"}), 201)
        first = self.ok(api.post("/v1/deliveries/claim", {"channel": self.channel, "leaseMs": 600_000}), 200)["data"][0]
        self.ok(api.post(f"/v1/deliveries/{first['deliveryId']}/ack", {"platformMessageId": "p"}), 200)
        second = self.ok(api.post("/v1/deliveries/claim", {"channel": self.channel, "leaseMs": 600_000}), 200)["data"][0]
        self.ok(api.post(f"/v1/deliveries/{second['deliveryId']}/nack", {"attempt": second["attempt"], "final": True,
                                                                         "error": {"code": "gone", "message": "no"}}), 200)
        self.ok(api.post("/v1/deliveries/claim", {"channel": self.channel, "leaseMs": 600_000}), 200)
        return keys

    def one_run(self, api, key, text):
        run = self.ok(api.post(S(key, "main", "runs"), {}), 201)
        self.ok(api.post(S(key, "main", "runs", run["runId"], "finish"),
                         {"fence": run["lease"]["fence"], "status": "done", "deliver": False,
                          "entries": [{"role": "assistant", "text": text}]}), 200)

    def picture(self, api, keys):
        """All that clients see of the books, but for the rest of leases."""
        def still(value):
            if isinstance(value, dict):
                return {name: still(each) for name, each in value.items()
                        if name not in ("asOf", "leaseUntil", "expiresAt", "until", "lease", "ageUntil", "nextCursor")}
            return [still(each) for each in value] if isinstance(value, list) else value

        runs = {key: api.get(S(key, "main", "runs") + "?limit=200").json["data"] for key in keys}
        deliveries = api.get(f"/v1/deliveries?agent=main&channel={self.channel}&limit=200").json["data"]
        held = [api.get(S(key)).json.get("takeover", {}).get("name") for key in keys]
        return json.loads(json.dumps(still([runs, deliveries, held])))

    def test_runs_deliveries_and_takeovers_are_there_after_a_kill(self):
        daemon = self.spawn()
        api = daemon.client()
        keys = self.talk(api)
        for n in range(3):
            self.one_run(api, keys[2], f"more {n}")
            daemon.checkpoint()
            before = self.picture(api, keys)
            daemon.restart(kill=True)
            api = daemon.client()
            self.assertEqual(self.picture(api, keys), before)
        self.assertEqual([left for folder in FOLDERS for left in self.file(daemon, folder).parent.iterdir() if left.suffix != ".log"], [])

    @unittest.skipIf(ENCRYPT, "the files are sealed")
    def test_books_that_an_earlier_version_wrote_are_taken_over_with_the_first_change(self):
        daemon = self.spawn()
        api = daemon.client()
        keys = self.talk(api)
        before = self.picture(api, keys)
        daemon.stop()
        runs_before(self.file(daemon, "runs"))
        outbox_before(self.file(daemon, "outbox"))
        daemon.start()
        api = daemon.client()
        self.assertEqual(self.picture(api, keys), before)
        self.one_run(api, keys[2], "first change")
        self.ok(api.post(S(keys[2], "main", "outbound"), {"text": "and out"}), 201)
        before = self.picture(api, keys)
        daemon.checkpoint()
        for folder in FOLDERS:
            self.assertTrue(self.file(daemon, folder).exists())
            self.assertFalse(self.file(daemon, folder, ".json").exists())
        daemon.restart(kill=True)
        self.assertEqual(self.picture(daemon.client(), keys), before)

    def test_a_backup_has_them(self):
        daemon = self.spawn()
        api = daemon.client()
        keys = self.talk(api)
        before = self.picture(api, keys)
        backup, state = daemon.home / "backup", daemon.home / "restored"
        self.assertEqual(daemon.cli("backup", backup).returncode, 0)
        daemon.kill9()
        self.assertIn(daemon.cli("restore", backup, "--state-dir", state).returncode, (0, 1))
        restored = self.spawn(state=state)
        self.assertEqual(self.picture(restored.client(token=daemon.admin_token), keys), before)
        told = "\n".join(restored.stderr)
        self.assertNotIn("is gone", told)
        self.assertNotIn("damaged", told)

    @unittest.skipIf(ENCRYPT, "the files are sealed")
    def test_what_a_purge_forgets_leaves_the_files_and_a_change_adds_a_line(self):
        daemon = self.spawn()
        api = daemon.client()
        keys = self.talk(api)
        daemon.checkpoint()
        self.assertIn("t ", {key[:2] for key in read_log(self.file(daemon, "outbox"))[0]})
        self.assertIn(b"out 3", self.file(daemon, "outbox").read_bytes())
        sizes = {folder: self.file(daemon, folder).stat().st_size for folder in FOLDERS}
        self.one_run(api, keys[2], "short")
        daemon.checkpoint()
        self.assertLess(self.file(daemon, "runs").stat().st_size - sizes["runs"], 4000)
        self.assertEqual(api.delete(S(keys[2]) + "?purge=true").status, 204)
        daemon.checkpoint()
        for said in (b"out 0", b"out 3", b"short"):
            for folder in FOLDERS:
                self.assertNotIn(said, self.file(daemon, folder).read_bytes())

    def test_a_log_that_is_cut_behind_checkpoint_is_made_again(self):
        """The last lines are gone, though CHECKPOINT says that they were written."""
        daemon = self.spawn()
        api = daemon.client()
        keys = self.talk(api)
        daemon.checkpoint()
        self.one_run(api, keys[2], "the last")
        self.ok(api.post(S(keys[2], "main", "outbound"), {"text": "the last, too"}), 201)
        before = self.picture(api, keys)
        daemon.stop()
        for folder in FOLDERS:
            file = self.file(daemon, folder)
            lines = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(b"".join(lines[:-1]))
        mark = len(daemon.stderr)
        daemon.start()
        self.assertEqual(self.picture(daemon.client(), keys), before)
        told = "\n".join(daemon.stderr[mark:])
        for folder in FOLDERS:
            self.assertIn(f"{folder}/main.log was damaged", told)

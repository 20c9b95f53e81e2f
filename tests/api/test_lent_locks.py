"""Locks of sessions.json that the daemon lends to a script: POST /v1/agents/{agent}/locks."""

import json
import os
import threading
import time

from harness.case import Case, S, uid
from harness.sessiond import SLOW, eventually

LOCKS = "/v1/agents/main/locks"


class LentCase(Case):
    def lend(self, ttl=5000, api=None, **more):
        return self.ok((api or self.api).post(LOCKS, {"ttlMs": ttl, **more}), 201)

    def give_back(self, lent, api=None):
        reply = (api or self.api).delete(f"{LOCKS}/{lent['id']}")
        self.assertEqual(reply.status, 204, reply)

    def edit(self, key, daemon=None, **fields):
        """As a script does: reads, changes, renames over."""
        store = (daemon or self.daemon).agent_dir() / "sessions.json"
        entries = json.loads(store.read_bytes())
        entries[key].update(fields)
        temp = store.with_name("sessions.json.mine")
        temp.write_text(json.dumps(entries))
        os.replace(temp, store)


class Lent(LentCase):
    def test_a_script_edits_the_file_under_it_and_commits_go_on(self):
        session = self.new()
        key = session["key"]
        self.ok(self.api.patch(S(key), {"displayName": "before"}), 200)
        before = int(time.time() * 1000)
        lent = self.lend()
        self.assertTrue(before + 4000 < lent["expiresAt"] < before + 5000 + 30_000 * SLOW, lent)
        lock = self.daemon.agent_dir() / "sessions.json.lock"
        self.assertEqual(lent["path"], str(lock.resolve()))
        self.assertEqual(json.loads(lock.read_bytes())["pid"], self.daemon.process.pid)
        held = json.loads((self.daemon.agent_dir() / "sessions.json").read_bytes())[key]
        self.assertEqual(held["displayName"], "before", "the file holds what was acknowledged before")
        listed = next(one for one in self.api.get("/v1/admin/locks").json["data"] if one["path"] == lent["path"])
        self.assertEqual(listed["lent"]["expiresAt"], lent["expiresAt"])
        self.assertTrue(listed["holder"]["ours"])
        with self.api.stream(f"/v1/events?agent=main&types=session.updated") as stream:
            stream.wait_type("stream.hello")
            self.edit(key, label="theirs", updatedAt=int(time.time() * 1000))
            self.ok(self.api.patch(S(key), {"subject": "ours"}), 200)
            self.assertNotIn("label", self.api.get(S(key)).json, "the file is read at the end")
            self.give_back(lent)
            got = self.ok(self.api.get(S(key)), 200)
            self.assertEqual((got["label"], got["subject"]), ("theirs", "ours"))
            self.say(key)
            self.ok(self.api.patch(S(key), {"space": "last"}), 200)
            stream.wait_for(lambda event: (event.data.get("data") or {}).get("set", {}).get("space") == "last")
            told = [event.data for event in stream.durable if event.data["key"] == key]
        self.assertEqual([event["source"] for event in told], ["api", "external", "api"])
        eventually(lambda: not lock.exists(), what="the end of the daemon's own checkpoint")
        stored = self.daemon.sessions_json()[key]
        self.assertEqual((stored["label"], stored["subject"], stored["space"]), ("theirs", "ours", "last"))

    def test_one_that_is_not_given_back_ends_by_itself_and_is_told(self):
        key = self.new()["key"]
        with self.api.stream("/v1/events?types=lock.*") as stream:
            stream.wait_type("stream.hello")
            lent = self.lend(300)
            self.edit(key, label="late", updatedAt=int(time.time() * 1000))
            data = stream.wait_type("lock.expired").data
        self.assertEqual((data["agent"], data["data"]["id"], data["data"]["path"]), ("main", lent["id"], lent["path"]))
        eventually(lambda: not os.path.exists(lent["path"]), what="the lock's end")
        eventually(lambda: self.api.get(S(key)).json.get("label") == "late", what="the merge")
        self.problem(self.api.delete(f"{LOCKS}/{lent['id']}"), 404, "not_found")
        self.problem(self.api.post(f"{LOCKS}/{lent['id']}/renew", {"ttlMs": 1000}), 404, "not_found")

    def test_renew_sets_the_time_from_now(self):
        self.new()
        lent = self.lend(3000)
        again = self.ok(self.api.post(f"{LOCKS}/{lent['id']}/renew", {"ttlMs": 30_000}), 200)
        self.assertEqual((again["id"], again["path"]), (lent["id"], lent["path"]))
        time.sleep(3.2)  # beyond the first time: the length is what is tested
        self.assertTrue(os.path.exists(lent["path"]))
        self.give_back(lent)

    def test_one_an_agent_and_others_wait(self):
        self.new()
        self.ok(self.api.post("/v1/agents/other/sessions", {"key": "agent:other:k:a"}), 201, 409)
        lent = self.lend(20_000)
        began = time.monotonic()
        self.problem(self.api.post(LOCKS, {"ttlMs": 1000, "waitMs": 200}), 503, "lock_timeout")
        self.assertGreaterEqual(time.monotonic() - began, 0.2)
        other = self.ok(self.api.post("/v1/agents/other/locks", {"ttlMs": 1000}), 201)
        self.assertEqual(self.api.delete(f"/v1/agents/other/locks/{other['id']}").status, 204)
        got = []
        waiting = threading.Thread(target=lambda: got.append(self.daemon.client().post(LOCKS, {"ttlMs": 1000, "waitMs": 20_000})))
        waiting.start()  # right whether it waits by now or comes later
        self.give_back(lent)
        waiting.join()
        second = self.ok(got[0], 201)
        self.assertNotEqual(second["id"], lent["id"])
        self.give_back(second)

    def test_what_is_asked_must_be_right(self):
        self.new()
        self.invalid(self.api.post(LOCKS, {}), "/ttlMs")
        self.invalid(self.api.post(LOCKS, {"ttlMs": 30_001, "waitMs": -1}), "/ttlMs", "/waitMs")
        self.problem(self.api.post("/v1/agents/nobody/locks", {"ttlMs": 1000}), 404, "agent_not_found")
        part = self.daemon.client(self.daemon.token("operator", keyPrefix="agent:main:slack"))
        self.problem(part.post(LOCKS, {"ttlMs": 1000}), 403, "forbidden")
        self.problem(part.delete(LOCKS + "/x"), 403, "forbidden")
        runner = self.daemon.client(self.daemon.token("runner"))
        self.problem(runner.post(LOCKS, {"ttlMs": 1000}), 403, "forbidden")

    def test_a_daemon_that_is_killed_takes_its_lock_away_and_merges(self):
        for rested in (False, True):
            with self.subTest(rested=rested):
                daemon = self.spawn()
                api = daemon.client()
                key = self.new(api=api)["key"]
                lent = self.lend(30_000, api=api)
                if rested:  # the journal's next start has nothing of this agent to go through
                    daemon.checkpoint()
                else:
                    self.ok(api.patch(S(key), {"subject": "ours"}), 200)
                self.edit(key, daemon, label="theirs", updatedAt=int(time.time() * 1000))
                daemon.kill9()
                self.assertTrue(os.path.exists(lent["path"]))
                daemon.start()
                eventually(lambda: not os.path.exists(lent["path"]), 10, what="the stale lock's end")
                eventually(lambda: api.get(S(key)).json.get("label") == "theirs", 10, what="the merge")
                self.assertEqual(api.get(S(key)).json.get("subject"), None if rested else "ours")
                self.assertEqual(daemon.sessions_json()[key]["label"], "theirs")

    def test_a_daemon_that_stops_gives_it_back(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        lent = self.lend(30_000, api=api)
        self.edit(key, daemon, label="theirs", updatedAt=int(time.time() * 1000))
        self.ok(api.patch(S(key), {"subject": "ours"}), 200)
        daemon.stop()
        self.assertFalse(os.path.exists(lent["path"]))
        stored = json.loads((daemon.agent_dir() / "sessions.json").read_bytes())[key]
        self.assertEqual((stored["label"], stored["subject"]), ("theirs", "ours"))

    def test_one_that_a_foreign_program_takes_away(self):
        self.new()
        lent = self.lend(20_000)
        os.unlink(lent["path"])
        self.problem(self.api.post(f"{LOCKS}/{lent['id']}/renew", {"ttlMs": 1000}), 404, "not_found")
        self.give_back(self.lend(1000, waitMs=5000))

    def test_the_defaults_of_the_file_lock_and_of_the_cache_are_as_they_were(self):
        printed = self.daemon.cli("config", "--print-defaults").stdout
        for text in ('"timeoutMs": 10000', '"pollIntervalMs": 25', '"staleMs": 30000', '"cacheTtlMs": 45000'):
            self.assertIn(text, printed)


class LentForLong(LentCase):
    """A lock that is lent for longer than store.lock.timeoutMs is no failure."""
    config = {"store": {"mode": "shared", "lock": {"timeoutMs": 100, "pollIntervalMs": 10}}}

    def test_what_waits_for_the_file_waits_for_its_end(self):
        key = self.new()["key"]
        self.daemon.checkpoint()
        lent = self.lend(30_000)
        replies = []
        deleting = threading.Thread(target=lambda: replies.append(self.daemon.client().delete(S(key))))
        deleting.start()
        time.sleep(0.5)  # beyond timeoutMs: the length is what is tested
        self.assertEqual(self.api.get("/readyz").status, 200)
        self.assertEqual(replies, [])
        self.give_back(lent)
        deleting.join()
        self.assertEqual(replies[0].status, 204, replies)


class LentShared(Lent):
    config = {"store": {"mode": "shared"}}


class LentLong(Case):
    """A lock that is renewed for longer than staleMs is not taken for a stale one by the daemon itself."""
    config = {"store": {"lock": {"staleMs": 1000}}}

    def test_a_lock_of_ours_is_not_stale(self):
        key = self.new()["key"]
        lent = self.ok(self.api.post(LOCKS, {"ttlMs": 20_000}), 201)
        for _ in range(5):
            self.ok(self.api.patch(S(key), {"subject": uid()}), 200)
            self.api.get(S(key), headers={"Cache-Control": "no-cache"})
            time.sleep(0.4)  # five times: beyond staleMs, which is what is tested
        self.assertTrue(os.path.exists(lent["path"]))
        self.assertEqual(self.api.delete(f"{LOCKS}/{lent['id']}").status, 204)

"""The life of a session: when it is reset, by which rule, through changes of clocks."""

import time
import unittest
from datetime import datetime, timezone
from pathlib import Path

from harness.case import Case, S, uid
from preload import preload

MINUTE, HOUR = 60_000, 3_600_000

# zone, hour of the reset, when the session began (UTC), now (UTC), the reset that is due. The days are those on which clocks change
# (in Asia/Kolkata and UTC they never do). Computed by stepping through each day's minutes with Python's zoneinfo, not by the rules of the daemon.
DAYLIGHT = """
Europe/Berlin        2  2027-03-27T18:00  2027-03-28T00:59  -
Europe/Berlin        2  2027-03-27T18:00  2027-03-28T01:00  daily
Europe/Berlin        2  2027-03-28T01:00  2027-03-28T21:00  -
Europe/Berlin        4  2027-03-27T19:00  2027-03-28T01:59  -
Europe/Berlin        4  2027-03-27T19:00  2027-03-28T02:00  daily
Europe/Berlin        4  2027-03-28T02:00  2027-03-28T22:00  -
Europe/Berlin        2  2027-10-30T17:00  2027-10-30T23:59  -
Europe/Berlin        2  2027-10-30T17:00  2027-10-31T00:00  daily
Europe/Berlin        2  2027-10-31T00:00  2027-10-31T20:00  -
Europe/Berlin        4  2027-10-30T20:00  2027-10-31T02:59  -
Europe/Berlin        4  2027-10-30T20:00  2027-10-31T03:00  daily
Europe/Berlin        4  2027-10-31T03:00  2027-10-31T23:00  -
Europe/Berlin        0  2027-03-27T16:00  2027-03-27T22:59  -
Europe/Berlin        0  2027-03-27T16:00  2027-03-27T23:00  daily
Europe/Berlin        0  2027-03-27T23:00  2027-03-28T19:00  -
America/New_York     2  2027-03-14T00:00  2027-03-14T06:59  -
America/New_York     2  2027-03-14T00:00  2027-03-14T07:00  daily
America/New_York     2  2027-03-14T07:00  2027-03-15T03:00  -
America/New_York     4  2027-03-14T01:00  2027-03-14T07:59  -
America/New_York     4  2027-03-14T01:00  2027-03-14T08:00  daily
America/New_York     4  2027-03-14T08:00  2027-03-15T04:00  -
America/New_York     2  2027-11-07T00:00  2027-11-07T06:59  -
America/New_York     2  2027-11-07T00:00  2027-11-07T07:00  daily
America/New_York     2  2027-11-07T07:00  2027-11-08T03:00  -
America/New_York     4  2027-11-07T02:00  2027-11-07T08:59  -
America/New_York     4  2027-11-07T02:00  2027-11-07T09:00  daily
America/New_York     4  2027-11-07T09:00  2027-11-08T05:00  -
America/New_York     0  2027-03-13T22:00  2027-03-14T04:59  -
America/New_York     0  2027-03-13T22:00  2027-03-14T05:00  daily
America/New_York     0  2027-03-14T05:00  2027-03-15T01:00  -
Australia/Lord_Howe  2  2027-04-03T08:30  2027-04-03T15:29  -
Australia/Lord_Howe  2  2027-04-03T08:30  2027-04-03T15:30  daily
Australia/Lord_Howe  2  2027-04-03T15:30  2027-04-04T11:30  -
Australia/Lord_Howe  4  2027-04-03T10:30  2027-04-03T17:29  -
Australia/Lord_Howe  4  2027-04-03T10:30  2027-04-03T17:30  daily
Australia/Lord_Howe  4  2027-04-03T17:30  2027-04-04T13:30  -
Australia/Lord_Howe  2  2027-10-02T08:30  2027-10-02T15:29  -
Australia/Lord_Howe  2  2027-10-02T08:30  2027-10-02T15:30  daily
Australia/Lord_Howe  2  2027-10-02T15:30  2027-10-03T11:30  -
Australia/Lord_Howe  4  2027-10-02T10:00  2027-10-02T16:59  -
Australia/Lord_Howe  4  2027-10-02T10:00  2027-10-02T17:00  daily
Australia/Lord_Howe  4  2027-10-02T17:00  2027-10-03T13:00  -
Australia/Lord_Howe  0  2027-04-03T06:00  2027-04-03T12:59  -
Australia/Lord_Howe  0  2027-04-03T06:00  2027-04-03T13:00  daily
Australia/Lord_Howe  0  2027-04-03T13:00  2027-04-04T09:00  -
Asia/Kolkata         4  2027-03-27T15:30  2027-03-27T22:29  -
Asia/Kolkata         4  2027-03-27T15:30  2027-03-27T22:30  daily
Asia/Kolkata         4  2027-03-27T22:30  2027-03-28T18:30  -
UTC                  4  2027-03-27T21:00  2027-03-28T03:59  -
UTC                  4  2027-03-27T21:00  2027-03-28T04:00  daily
UTC                  4  2027-03-28T04:00  2027-03-29T00:00  -
"""


def ms(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


def table():
    zones = {}
    for line in DAYLIGHT.split("\n"):
        if line:
            zone, hour, began, now, due = line.split()
            zones.setdefault(zone, []).append((int(hour), ms(began), ms(now), None if due == "-" else due))
    return zones


class Freshness(Case):
    def freshness(self, api, key):
        return self.ok(api.get(S(key, "main", "freshness")), 200)

    def put(self, api, key, began, last=None, **more):
        last = began if last is None else last
        return self.ok(api.put(S(key), {"sessionStartedAt": began, "lastInteractionAt": last} | more), 201)

    @unittest.skipUnless(Path("/usr/share/zoneinfo/Australia/Lord_Howe").exists(), "needs tzdata")
    def test_daily_resets_through_changes_of_clocks(self):
        """Each daemon lives through the changes of its zone's clocks; its wall clock is put where the row wants it."""
        rows = table()
        self.assertGreaterEqual(sum(map(len, rows.values())), 40)
        for zone, cases in rows.items():
            for hour in sorted({case[0] for case in cases}):
                daemon = preload(self.spawn({"session": {"reset": {"mode": "daily", "atHour": hour}}}, start=False, env={"TZ": zone}))
                daemon.start()
                api = daemon.client()
                for _, began, now, due in sorted(case for case in cases if case[0] == hour):
                    with self.subTest(zone=zone, hour=hour, began=began, now=now):
                        key = "agent:main:slack:direct:u" + uid()
                        daemon.page.wall_ms = began - int(time.time() * 1000)
                        self.put(api, key, began, channel="slack", chatType="direct")
                        daemon.page.wall_ms = now - int(time.time() * 1000)
                        got = self.freshness(api, key)
                        self.assertEqual(got["due"], due)
                        self.assertGreater(got["dailyAt"], now)
                        self.assertLessEqual(got["dailyAt"], now + 26 * HOUR)
                        reset = self.inbound(api, peer=key.rsplit(":", 1)[1])["reset"]
                        self.assertEqual(reset and reset["reason"], due)

    def test_idle_to_the_millisecond(self):
        daemon = preload(self.spawn({"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}, start=False))
        daemon.start()
        api = daemon.client()
        now = int(time.time() * 1000)
        for late, due in ((-MINUTE, None), (0, "idle"), (HOUR, "idle")):
            key = "agent:main:slack:direct:u" + uid()
            self.put(api, key, now - HOUR - late, channel="slack", chatType="direct")
            got = self.freshness(api, key)
            self.assertEqual((got["due"], got["idleAt"]), (due, now - late))
            self.assertEqual(got["rule"], {"from": "base", "mode": "idle", "idleMinutes": 60})
            self.assertNotIn("dailyAt", got)

    def test_the_rule_of_the_channel_stands_before_that_of_the_type_and_nothing_is_inherited(self):
        api = self.spawn({"session": {"reset": {"mode": "idle", "idleMinutes": 5},
                                      "resetByType": {"group": {"mode": "idle"}, "thread": {"mode": "none"}},
                                      "resetByChannel": {"Discord": {"mode": "daily", "idleMinutes": 7}}}}).client()
        now = int(time.time() * 1000)
        for key, rule in (("agent:main:slack:direct:a", {"from": "base", "mode": "idle", "idleMinutes": 5}),
                          ("agent:main:slack:group:a", {"from": "type", "mode": "idle", "idleMinutes": 60}),
                          ("agent:main:slack:group:a:thread:1", {"from": "type", "mode": "none"}),
                          ("agent:main:discord:group:a", {"from": "channel", "mode": "daily", "idleMinutes": 7, "atHour": 4}),
                          ("agent:main:discord:group:a:thread:1", {"from": "channel", "mode": "daily", "idleMinutes": 7, "atHour": 4})):
            with self.subTest(key):
                _, _, channel, kind = key.split(":")[:4]
                self.put(api, key, now, channel=channel, chatType=kind)
                got = self.freshness(api, key)
                self.assertEqual((got["rule"], got["due"]), (rule, None))
        self.put(api, "agent:main:discord:direct:b", now, now - 8 * MINUTE, channel="discord", chatType="direct")
        self.assertEqual(self.inbound(api, channel="discord", peer="b")["reset"]["reason"], "idle", "mode daily with idleMinutes beside it")

    def test_a_session_whose_beginning_nobody_knows(self):
        daemon = self.spawn({"session": {"reset": {"mode": "daily", "atHour": 4}}}, start=False)
        folder = daemon.agent_dir()
        folder.mkdir(parents=True)
        header = {"type": "session", "version": 3, "id": "old", "timestamp": "2020-01-01T00:00:00.000Z", "cwd": "/"}
        (folder / "old.jsonl").write_text(str(header).replace("'", '"') + "\n")
        now = int(time.time() * 1000)
        entries = ",".join(f'"agent:main:slack:direct:{id}":{{"sessionId":"{id}","updatedAt":{now}}}' for id in ("old", "none"))
        (folder / "sessions.json").write_text("{" + entries + "}")
        api = daemon.start().client()
        old = self.freshness(api, "agent:main:slack:direct:old")
        self.assertEqual((old["due"], old["sessionStartedAt"]), ("daily", ms("2020-01-01T00:00")))
        none = self.freshness(api, "agent:main:slack:direct:none")
        self.assertEqual((none["due"], none["sessionStartedAt"], none["lastInteractionAt"]), (None, None, now))

    def test_a_session_outside_the_tokens_prefix_is_not_there(self):
        self.ok(self.api.put(S("agent:main:slack:direct:in"), {}), 201)
        outside = self.daemon.client(self.daemon.token("viewer", agents=["main"], keyPrefix="agent:main:discord:"))
        self.problem(outside.get(S("agent:main:slack:direct:in", "main", "freshness")), 404, "session_not_found")
        self.problem(outside.get(S("agent:main:slack:direct:no", "main", "freshness")), 404, "session_not_found")


class RequiredFields(Case):
    config = {"session": {"requireFields": ["workerId", "a/b"]}}

    def test_a_session_that_a_client_makes_has_the_required_fields(self):
        made = {"workerId": "w1", "a/b": 1}
        self.invalid(self.api.post("/v1/agents/main/sessions", {}), "/entry/workerId", "/entry/a~1b")
        self.invalid(self.api.post("/v1/agents/main/sessions", {"entry": {"a/b": 1, "workerId": None}}), "/entry/workerId")
        self.invalid(self.api.put(S("agent:main:x:put"), {"workerId": "w", "a/b": None}), "/a~1b")
        key = self.ok(self.api.post("/v1/agents/main/sessions", {"entry": made}), 201)["key"]
        self.invalid(self.api.patch(S(key), {"workerId": None}), "/workerId")
        self.ok(self.api.patch(S(key), {"workerId": "w2", "label": None}), 200)
        child = self.ok(self.api.post(S(key, "main", "spawn"), {"entry": {"a/b": 2}}), 201)
        self.assertEqual((child["workerId"], child["a/b"]), ("w2", 2), "what a spawn leaves out is as in its parent")
        self.assertTrue(self.inbound()["created"], "bridges are exempt")


class Types(Case):
    def test_queue_and_speech_fields_have_their_types(self):
        key = self.new()["key"]
        for field, value in (("queueDebounceMs", -5), ("queueDebounceMs", 1.5), ("queueCap", "3"), ("memoryFlushAt", -1),
                             ("contextTokens", -1), ("ttsAuto", "sometimes")):
            with self.subTest(field=field, value=value):
                self.invalid(self.api.patch(S(key), {field: value}), "/" + field)
        for mode in ("off", "always", "inbound", "tagged"):
            self.assertEqual(self.ok(self.api.patch(S(key), {"ttsAuto": mode}), 200)["ttsAuto"], mode)


class Maintenance(Case):
    def seeded(self, count, config=None, **more):
        """Sessions 0 to count - 1 with a message each, the oldest first; an hour apart."""
        daemon = self.spawn(config)
        api, now = daemon.client(), int(time.time() * 1000)
        for i in range(count):
            self.ok(api.put(S(f"agent:main:x:{i:04}"), {"sessionId": f"s{i:04}", "lastInteractionAt": now - (count - i) * HOUR} | more), 201)
            self.ok(api.post(S(f"agent:main:x:{i:04}", "main", "messages"), {"role": "assistant", "text": f"text {i}"}), 201)
        return daemon, api, now

    def maintain(self, api, **body):
        return self.ok(api.post("/v1/admin/maintenance", body), 200)

    def test_the_oldest_beyond_a_number_are_named_then_archived(self):
        daemon, api, now = self.seeded(53)
        self.assertEqual(self.maintain(api, dryRun=False), {"count": 0, "data": [], "kept": []}, "by default nothing goes")
        named = self.maintain(api, keep=50)
        self.assertEqual([row["key"] for row in named["data"]], [f"agent:main:x:{i:04}" for i in range(3)])
        self.assertEqual((named["count"], {row["reason"] for row in named["data"]}), (3, {"count"}))
        self.assertGreater(named["data"][0]["bytes"], 100)
        self.assertEqual(len(self.ok(api.get("/v1/agents/main/sessions?limit=200"), 200)["data"]), 53, "a dry run takes nothing")
        self.assertEqual(self.maintain(api, keep=50, dryRun=False), named)
        self.assertEqual(len(self.ok(api.get("/v1/agents/main/sessions?limit=200"), 200)["data"]), 50)
        self.assertEqual(self.maintain(api, keep=50, dryRun=False)["count"], 0)
        archives = self.ok(api.get("/v1/agents/main/archives"), 200)["data"]
        self.assertEqual({(a["sessionId"], a["reason"]) for a in archives}, {(f"s{i:04}", "pruned") for i in range(3)})
        self.ok(api.post("/v1/admin/checkpoint"), 200)
        files = sorted(p.name for p in daemon.agent_dir().glob("*.pruned.*"))
        self.assertEqual([name.split(".")[0] for name in files if not name.endswith(".entry")], ["s0000", "s0001", "s0002"])
        self.assertEqual(len(files), 6, "each with its entry beside it")
        self.assertEqual(self.texts("s0001", api=api), ["text 1"], "an archive is read by its session id")
        daemon.restart()
        self.assertEqual({a["reason"] for a in self.ok(daemon.client().get("/v1/agents/main/archives"), 200)["data"]}, {"pruned"})

    def test_by_age_and_what_is_in_use_stays(self):
        daemon, api, now = self.seeded(8, {"session": {"maintenance": {"pruneAfterMs": 90 * MINUTE, "preserve": ["agent:main:x:0003"]}}})
        self.ok(api.patch(S("agent:main:x:0000"), {"pinnedAt": now}), 200)
        self.ok(api.post(S("agent:main:x:0001", "main", "spawn"), {}), 201)
        self.ok(api.put(S("agent:main:main"), {"lastInteractionAt": 1}), 201)
        with api.stream(S("agent:main:x:0002", "main", "events")) as stream:
            stream.wait_type("stream.hello")
            named = self.maintain(api)
            self.assertEqual({row["key"][-4:]: row["because"] for row in named["kept"]},
                             {"0000": "pinned", "0001": "children", "0002": "stream", "0003": "preserve", "main": "main"})
            self.assertEqual([(row["key"][-4:], row["reason"]) for row in named["data"]], [(f"000{i}", "age") for i in (4, 5, 6)])
        with api.stream("/v1/agents/main/events?types=session.deleted") as stream:
            stream.wait_type("stream.hello")
            self.assertEqual([row["key"][-4:] for row in self.maintain(api, dryRun=False, olderThanMs=4 * HOUR - MINUTE)["data"]], ["0002", "0004"])
            stream.wait_until(lambda s: len(s.durable) == 2, what="two deletions")
            self.assertEqual({(event.type, event.data["data"]["reason"]) for event in stream.durable}, {("session.deleted", "age")})

    def test_to_clear_disk_space_sessions_are_destroyed(self):
        daemon, api, now = self.seeded(5)
        self.ok(api.post("/v1/admin/checkpoint"), 200)
        gone = self.maintain(api, dryRun=False, maxDiskBytes=0)
        self.assertEqual((gone["count"], {row["reason"] for row in gone["data"]}), (5, {"disk"}))
        self.ok(api.post("/v1/admin/checkpoint"), 200)
        self.assertEqual([p.name for p in daemon.agent_dir().glob("*.jsonl*")], [])

    def test_limited_tokens_maintain_what_they_see_whole(self):
        daemon, api, now = self.seeded(2)
        self.ok(api.put("/v1/agents/other/sessions/agent:other:x:1", {"lastInteractionAt": 1}), 201)
        for wish, found in ((dict(agents=["other"]), ["agent:other:x:1"]), (dict(keyPrefix="agent:main:x:"), [])):
            operator = daemon.client(daemon.token("operator", **wish))
            self.assertEqual([row["key"] for row in self.maintain(operator, keep=0)["data"]], found)
            self.problem(operator.post("/v1/admin/maintenance", {"agent": "main", "keep": 0}), 404, "agent_not_found")
        self.problem(daemon.client(daemon.token("bridge")).post("/v1/admin/maintenance", {}), 403, "forbidden")
        self.invalid(api.post("/v1/admin/maintenance", {"keep": -1, "olderThan": 1}), "/keep", "/olderThan")
        self.problem(api.post("/v1/admin/maintenance", {"agent": "nobody"}), 404, "agent_not_found")


class Restore(Case):
    def lines(self, daemon, name):
        return (daemon.agent_dir() / name).read_bytes()

    def test_a_deleted_session_comes_back_byte_for_byte(self):
        daemon = self.spawn()
        api = daemon.client()
        key = "agent:main:slack:direct:u1"
        made = self.ok(api.put(S(key), {"channel": "slack", "chatType": "direct", "label": "old", "inputTokens": 7, "x": {"y": [1]}}), 201)
        for text in ("one", "two"):
            self.say(key, text, api=api)
        self.say(key, "in a topic", api=api, query="?topic=t/1")
        self.ok(api.post(S(key, "main", "reset")), 200)  # an earlier session of the key
        self.say(key, "three", api=api)
        self.say(key, "in another topic", api=api, query="?topic=t2")
        before = self.ok(api.get(S(key)), 200)
        messages = self.ok(api.get(S(key, "main", "messages")), 200)["data"]
        daemon.checkpoint()
        transcript = self.lines(daemon, before["sessionId"] + ".jsonl")
        self.ok(api.delete(S(key)), 204)
        self.problem(api.get(S(key)), 404, "session_not_found")
        back = self.ok(api.post(S(key, "main", "restore")), 200)
        changed = {"rev", "updatedAt", "asOf", "previousSessions", "paths"}
        self.assertEqual({k: v for k, v in back.items() if k not in changed}, {k: v for k, v in before.items() if k not in changed})
        self.assertGreaterEqual(back["updatedAt"], before["updatedAt"])
        self.assertEqual(self.ok(api.get(S(key, "main", "messages")), 200)["data"], messages)
        self.assertEqual(self.lines(daemon, before["sessionId"] + ".jsonl"), transcript)
        self.assertEqual(self.texts(key, api=api, query="limit=9&topic=t2&order=asc"), ["in another topic"])
        self.assertEqual([t["topic"] for t in self.ok(api.get(S(key, "main", "topics")), 200)["data"]], ["t2"])
        history = self.ok(api.get(S(key, "main", "history")), 200)["data"]
        self.assertEqual([h["sessionId"] for h in history], [before["sessionId"], made["sessionId"]])
        self.problem(api.post(S(key, "main", "restore")), 409, "session_exists")
        self.say(key, "four", api=api)
        self.assertEqual(self.texts(key, api=api), ["three", "four"])
        for start_again in (daemon.kill9, daemon.stop):
            start_again()
            daemon.start()
            api = daemon.client()
            self.assertEqual(self.texts(key, api=api), ["three", "four"])
            self.assertEqual(self.ok(api.get(S(key)), 200)["label"], "old")
            self.assertEqual([a["sessionId"] for a in self.ok(api.get(S(key, "main", "archives")), 200)["data"]], [made["sessionId"]])
        self.assertEqual([p.name for p in daemon.agent_dir().glob("*.deleted.*")], [])
        self.ok(api.delete(S(key)), 204)
        first = self.ok(api.post(S(key, "main", "restore"), {"sessionId": made["sessionId"]}), 200)
        self.assertEqual((first["sessionId"], self.texts(key, api=api)), (made["sessionId"], ["one", "two"]))

    def test_a_pruned_session_without_messages_comes_back_too(self):
        daemon = self.spawn()
        api = daemon.client()
        made = self.ok(api.put(S("agent:main:x:1"), {"label": "settings only", "lastInteractionAt": 1}), 201)
        self.ok(api.post("/v1/admin/maintenance", {"olderThanMs": 1000, "dryRun": False}), 200)
        daemon.checkpoint()
        self.assertEqual([p.name[:-len(p.name.split(".pruned.")[1])] for p in daemon.agent_dir().glob("*.entry")], [made["sessionId"] + ".jsonl.pruned."])
        self.assertEqual((daemon.agent_dir() / next(daemon.agent_dir().glob("*.entry"))).stat().st_mode & 0o777, 0o600)
        daemon.restart()
        api = daemon.client()
        listed = self.ok(api.get("/v1/agents/main/archives"), 200)["data"]
        self.assertEqual([(a["key"], a["archivedAs"]) for a in listed], [("agent:main:x:1", [])])
        back = self.ok(api.post(S("agent:main:x:1", "main", "restore")), 200)
        self.assertEqual((back["label"], back["sessionId"]), ("settings only", made["sessionId"]))
        daemon.checkpoint()
        self.assertEqual(list(daemon.agent_dir().glob("*.entry")), [])

    def test_archives_of_a_version_that_kept_no_entry(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.say(key, "kept", api=api)
        self.ok(api.delete(S(key)), 204)
        daemon.checkpoint()
        for entry in daemon.agent_dir().glob("*.entry"):
            entry.unlink()
        daemon.restart()
        api = daemon.client()
        self.ok(api.post(S(key, "main", "restore")), 200)
        self.assertEqual(self.texts(key, api=api), ["kept"])

    def test_what_stands_in_the_way(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.say(key, "kept", api=api)
        id = self.ok(api.get(S(key)), 200)["sessionId"]
        self.ok(api.delete(S(key)), 204)
        daemon.checkpoint()
        entry = next(daemon.agent_dir().glob("*.entry"))
        whole = entry.read_text()
        entry.write_text(whole[:20])
        self.assertIn(entry.name, self.problem(api.post(S(key, "main", "restore")), 503, "degraded")["detail"])
        entry.write_text(whole)
        (daemon.agent_dir() / f"{id}.jsonl").write_text("")
        self.problem(api.post(S(key, "main", "restore")), 409, "session_exists")
        (daemon.agent_dir() / f"{id}.jsonl").unlink()
        self.problem(api.post(S(key, "main", "restore"), {"sessionId": "other"}), 404, "session_not_found")
        self.problem(api.post(S("agent:main:no:such", "main", "restore")), 404, "session_not_found")
        self.ok(api.post(S(key, "main", "restore"), {"sessionId": id}), 200)
        gone = self.new(api=api)["key"]
        self.ok(api.delete(S(gone) + "?purge=true"), 204)
        self.problem(api.post(S(gone, "main", "restore")), 404, "session_not_found")

    def test_tokens_restore_what_they_see(self):
        daemon = self.spawn()
        api = daemon.client()
        for key in ("agent:main:slack:direct:a", "agent:main:discord:direct:a"):
            self.ok(api.put(S(key), {"channel": key.split(":")[2]}), 201)
            self.say(key, "kept", api=api)
            self.ok(api.delete(S(key)), 204)
        runner = daemon.client(daemon.token("runner", agents=["main"], keyPrefix="agent:main:slack:"))
        absent = runner.post(S("agent:main:discord:direct:b", "main", "restore")).json
        other = runner.post(S("agent:main:discord:direct:a", "main", "restore")).json
        same = lambda problem: {k: v for k, v in problem.items() if k not in ("instance", "requestId", "detail")}
        self.assertEqual(same(absent), same(other))
        self.assertEqual(absent["status"], 404)
        self.ok(runner.post(S("agent:main:slack:direct:a", "main", "restore")), 200)
        viewer = daemon.client(daemon.token("viewer"))
        self.problem(viewer.post(S("agent:main:discord:direct:a", "main", "restore")), 403, "forbidden")
        self.ok(api.post(S("agent:main:discord:direct:a", "main", "restore")), 200)

    def test_a_restore_is_done_once_for_its_idempotency_key(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.ok(api.delete(S(key)), 204)
        first = api.post(S(key, "main", "restore"), {}, idempotency_key="r1")
        again = api.post(S(key, "main", "restore"), {}, idempotency_key="r1")
        self.assertEqual((first.status, first.raw, again.headers.get("Idempotency-Replayed")), (200, again.raw, "true"))

"""Times and counters: what a client may name, what a file may hold, and the clock by which sessions are reset."""

import datetime
import json
import time

from harness.case import Case, S, uid
from harness.runner import runs_in
from harness.sessiond import SLOW, eventually

AFTER_9999 = 253_402_300_800_000
MOST = 2 ** 53
HOUR = 3600 * 1000


class Range(Case):
    def test_times_outside_1970_to_9999_are_refused(self):
        key = self.new()["key"]
        for bad in (AFTER_9999, -1, 2 ** 62, -2 ** 62):
            with self.subTest(bad):
                self.invalid(self.api.post("/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": "u" + uid(),
                                                           "text": "x", "timestamp": bad}), "/timestamp")
                for entry, pointer in (
                        ({"role": "user", "text": "x", "timestamp": bad}, "/timestamp"),
                        ({"type": "message", "message": {"role": "user", "content": "x", "timestamp": bad}}, "/message/timestamp")):
                    self.invalid(self.api.post(S(key, "main", "messages"), entry), pointer)
                for field in ("lastInteractionAt", "archivedAt", "memoryFlushAt", "lastHeartbeatSentAt"):
                    self.invalid(self.api.patch(S(key), {field: bad}), "/" + field)
                for field in ("createdAt", "updatedAt", "sessionStartedAt"):
                    self.invalid(self.api.put(S(key), {field: bad}), "/" + field)
        self.invalid(self.api.post("/v1/admin/tokens", {"role": "viewer", "expiresAt": AFTER_9999}), "/expiresAt")
        self.assertEqual(self.messages(key), [])
        self.say(key, "the last moment", timestamp=AFTER_9999 - 1)
        line = self.ok(self.api.get(S(key, "main", "messages") + "?view=raw"), 200)["data"][0]["line"]
        self.assertEqual(line["timestamp"], "9999-12-31T23:59:59.999Z")

    @runs_in("asan", "tsan")
    def test_counters_end_at_2_to_the_53_and_stay_there_over_a_kill(self):
        stands = {}
        for output, total, told in ((2 ** 62, 10 ** 30, MOST), (7, MOST, 21)):
            key = self.new()["key"]
            stands[key] = [MOST, told, MOST, 3]
            for _ in range(3):
                self.say(key, role="assistant", usage={"input": MOST - 1, "output": output, "totalTokens": total})
        for restart in (lambda: None, lambda: self.daemon.restart(kill=True), self.daemon.restart):
            restart()
            for key, counters in stands.items():
                session = self.ok(self.api.get(S(key)), 200)
                self.assertEqual([session[name] for name in ("inputTokens", "outputTokens", "totalTokens", "messageCount")], counters)
        self.invalid(self.api.put(S(key), {"inputTokens": MOST + 1}), "/inputTokens")

    def test_counters_of_a_foreign_file_end_there_too(self):
        daemon = self.spawn(start=False)
        daemon.agent_dir().mkdir(parents=True)
        names = ("inputTokens", "outputTokens", "totalTokens", "messageCount", "compactionCount")
        key = "agent:main:slack:direct:u"
        (daemon.agent_dir() / "sessions.json").write_text(json.dumps(
            {key: {"sessionId": "s-1", "updatedAt": 1, **dict.fromkeys((*names, "entryCount"), 2 ** 63 - 1), "totalTokens": 10 ** 25}}))
        api = daemon.start().client()
        self.ok(api.post(S(key, "main", "messages"), {"entries": [
            {"role": "assistant", "text": "a", "usage": {"input": 5, "output": 5}},
            {"type": "compaction", "summary": "s"}]}), 201)
        session = self.ok(api.get(S(key)), 200)
        self.assertEqual([session[name] for name in names], [MOST] * 5)


class Reset(Case):
    config = {"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}

    def test_what_the_agent_does_does_not_delay_an_idle_reset(self):
        key = "agent:main:slack:direct:u" + uid()
        long_ago = int(time.time() * 1000) - 2 * HOUR
        self.ok(self.api.put(S(key), {"channel": "slack", "chatType": "direct", "sessionId": "s-" + uid(),
                                      "lastInteractionAt": long_ago}), 201)
        at = lambda: self.ok(self.api.get(S(key)), 200)["lastInteractionAt"]  # noqa: E731
        self.ok(self.api.post(S(key, "main", "outbound"), {"text": "a heartbeat"}), 201)
        self.ok(self.api.post(S(key, "main", "messages"), {"entries": [
            {"role": "assistant", "text": "a"}, {"role": "tool", "text": "t"}, {"type": "custom", "data": {}}]}), 201)
        state = {"lastHeartbeatText": "h", "lastHeartbeatSentAt": 5, "systemSent": True, "abortedLastRun": True}
        self.ok(self.api.patch(S(key), state), 200)
        self.assertEqual(at(), long_ago)
        self.assertEqual(self.inbound(peer=key.rsplit(":", 1)[1])["reset"]["reason"], "idle")
        self.assertGreater(at(), long_ago)
        self.ok(self.api.patch(S(key), {"lastInteractionAt": long_ago}), 200)
        self.say(key, "a user's entry")
        self.assertGreater(at(), long_ago)

    def test_foreign_lines_of_the_agent_do_not_delay_it_either(self):
        daemon = self.spawn(self.config)
        api, key = daemon.client(), "agent:main:slack:direct:u"
        long_ago = int(time.time() * 1000) - 2 * HOUR
        made = self.ok(api.put(S(key), {"channel": "slack", "chatType": "direct", "lastInteractionAt": long_ago}), 201)
        self.say(key, "hello", api=api)
        self.ok(api.patch(S(key), {"lastInteractionAt": long_ago}), 200)
        daemon.checkpoint()
        line = {"type": "message", "id": "f0000001", "parentId": None, "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                "message": {"role": "assistant", "content": "by another program"}}
        with (daemon.agent_dir() / (made["sessionId"] + ".jsonl")).open("a") as file:
            file.write(json.dumps(line) + "\n")
        eventually(lambda: self.ok(api.get(S(key)), 200)["messageCount"] == 2, 10, what="the line being published")
        self.assertEqual(self.ok(api.get(S(key)), 200)["lastInteractionAt"], long_ago)

    def test_a_trigger_alone_is_an_interaction(self):
        key = "agent:main:slack:direct:u" + uid()
        self.ok(self.api.put(S(key), {"channel": "slack", "chatType": "direct", "lastInteractionAt": 1}), 201)
        peer = key.rsplit(":", 1)[1]
        self.assertEqual(self.inbound(peer=peer, text="/new")["reset"]["reason"], "trigger")
        self.assertIsNone(self.inbound(peer=peer)["reset"], "it was just begun anew")


class Daily(Case):
    def test_a_change_of_clocks_while_the_daemon_runs_moves_the_daily_reset(self):
        """The zone's clock goes an hour ahead a moment after the start and skips the hour of the reset."""
        now = time.gmtime(time.time() + 4 * SLOW)
        day = now.tm_yday - 1
        local = f"{now.tm_hour}:{now.tm_min:02}:{now.tm_sec:02}"
        # AAA is UTC; at that second BBB begins, an hour ahead, until a day that is far away.
        zone = f"AAA0BBB-1,{day}/{local},{(day + 180) % 365}"
        hour = (now.tm_hour + 1) % 24
        daemon = self.spawn({"session": {"reset": {"mode": "daily", "atHour": hour}}}, env={"TZ": zone})
        api, key = daemon.client(), "agent:main:slack:direct:u"
        two_hours_ago = int(time.time() * 1000) - 2 * HOUR
        self.ok(api.put(S(key), {"channel": "slack", "chatType": "direct", "sessionStartedAt": two_hours_ago,
                                 "lastInteractionAt": two_hours_ago}), 201)
        reset = eventually(lambda: self.inbound(api, peer="u")["reset"], 20, 0.2, "the reset at the change of clocks")
        self.assertEqual(reset["reason"], "daily")
        self.assertIsNone(self.inbound(api, peer="u")["reset"])

    def test_daily_goes_by_the_sessions_beginning(self):
        hour = time.gmtime().tm_hour
        api = self.spawn({"session": {"reset": {"mode": "daily", "atHour": hour}}}).client()
        now = int(time.time() * 1000)
        key = "agent:main:slack:direct:u"
        self.ok(api.put(S(key), {"channel": "slack", "chatType": "direct", "sessionStartedAt": now - 30 * HOUR,
                                 "lastInteractionAt": now}), 201)
        self.assertEqual(self.inbound(api, peer="u")["reset"]["reason"], "daily", "it was used a moment ago, but is of yesterday")
        self.assertIsNone(self.inbound(api, peer="u")["reset"])

    def test_a_foreign_session_begins_with_its_transcript(self):
        daemon = self.spawn({"session": {"reset": {"mode": "daily", "atHour": time.gmtime().tm_hour}}}, start=False)
        daemon.agent_dir().mkdir(parents=True)
        now = int(time.time() * 1000)
        for peer, began in (("old", "2020-01-01T00:00:00.000Z"), ("none", "no time")):
            header = {"type": "session", "version": 3, "id": peer, "timestamp": began, "cwd": "/"}
            (daemon.agent_dir() / f"{peer}.jsonl").write_text(json.dumps(header) + "\n")
        (daemon.agent_dir() / "sessions.json").write_text(json.dumps(
            {f"agent:main:slack:direct:{peer}": {"sessionId": peer, "updatedAt": now, "chatType": "direct"} for peer in ("old", "none")}))
        api = daemon.start().client()
        self.assertEqual(self.inbound(api, peer="old")["reset"], {"reason": "daily", "previousSessionId": "old"})
        self.assertIsNone(self.inbound(api, peer="none")["reset"], "not known when it began")

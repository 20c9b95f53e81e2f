"""The wall clock steps while the daemon runs, or is wrong when it starts: nothing is done twice, ended or removed for it."""

import time

from harness.case import Case, S, uid
from preload import preload

runs = {"asan", "tsan"}

HOUR = 3_600_000
STEPS = (30 * HOUR, -30 * HOUR, 24 * 365 * HOUR, 0)
REPLAYED = "Idempotency-Replayed"


class Clock(Case):
    def daemon_at(self, wall_ms=0, config=None):
        daemon = preload(self.spawn(config, start=False))
        daemon.page.wall_ms = wall_ms
        return daemon.start()

    def post(self, daemon, key, text="once"):
        return daemon.client().post(self.path, {"role": "user", "text": text}, idempotency_key=key)

    def first(self, daemon):
        """A message with an Idempotency-Key; the key."""
        session = self.new(api=daemon.client())["key"]
        self.path, self.session, key = S(session, "main", "messages"), session, uid()
        self.ok(self.post(daemon, key), 201)
        return key

    def assert_once(self, daemon, key):
        again = self.post(daemon, key)
        self.assertEqual((again.status, again.headers.get(REPLAYED)), (201, "true"), again)
        self.assertEqual(self.texts(self.session, api=daemon.client()), ["once"])

    def checkpoint(self, daemon):
        self.new(api=daemon.client())  # something to write
        daemon.checkpoint()

    def test_an_answer_is_kept_through_a_clock_that_is_ahead_for_a_while(self):
        daemon = self.daemon_at()
        key = self.first(daemon)
        daemon.page.wall_ms = 30 * HOUR
        self.assert_once(daemon, key)
        for _ in range(3):
            self.checkpoint(daemon)
        daemon.page.wall_ms = 0
        self.assert_once(daemon, key)

    def test_an_answer_is_kept_through_a_boot_at_1970(self):
        daemon = self.daemon_at(-int(time.time() * 1000) + HOUR)
        key = self.first(daemon)
        daemon.page.wall_ms = 0
        self.assert_once(daemon, key)
        self.checkpoint(daemon)
        daemon.restart()
        self.assert_once(daemon, key)

    def test_an_answer_is_kept_through_restarts_by_a_wrong_clock(self):
        daemon = self.daemon_at()
        key = self.first(daemon)
        self.checkpoint(daemon)
        for wall_ms in (30 * HOUR, -int(time.time() * 1000) + HOUR, 24 * 365 * 20 * HOUR, 0):
            daemon.page.wall_ms = wall_ms
            daemon.restart(kill=wall_ms < 0)
            self.assert_once(daemon, key)
            self.checkpoint(daemon)

    def test_the_journal_keeps_what_is_not_old(self):
        daemon = self.daemon_at(config={"journal": {"segmentBytes": 1 << 20, "retentionMs": HOUR}})
        api = daemon.client()
        session = self.new(api=api)["key"]
        segments = lambda: sorted(path.name for path in (daemon.state / "journal").glob("*.jsonl"))  # noqa: E731
        while len(segments()) < 3:
            self.say(session, "x" * 200_000, api=api)
        self.checkpoint(daemon)
        before = segments()
        daemon.page.wall_ms = 2 * HOUR
        for _ in range(3):
            self.checkpoint(daemon)
        self.assertEqual(segments()[:len(before)], before)
        daemon.restart()
        for _ in range(3):
            self.checkpoint(daemon)
        self.assertEqual(segments()[:len(before)], before)

    def test_a_login_is_as_long_as_it_is(self):
        daemon = self.daemon_at()
        nobody = daemon.anonymous()
        reply = nobody.post("/v1/login", {"token": daemon.admin_token})
        self.assertEqual(reply.status, 204, reply)
        cookie = reply.headers["Set-Cookie"].split(";")[0]
        for wall_ms in (30 * HOUR, -30 * HOUR, 0):
            daemon.page.wall_ms = wall_ms
            self.ok(nobody.get("/v1/whoami", cookie=cookie))

    def test_another_body_or_topic_stays_refused_whatever_the_clock_and_the_restart(self):
        daemon = self.daemon_at()
        api, key, body = daemon.client(), uid(), {"role": "user", "text": "once"}
        name = self.new(api=api)["key"]
        first = self.once(lambda: self.post_to(name, body, "?topic=t", api, idempotency_key=key))
        for at, wall_ms in enumerate(STEPS):
            daemon.page.wall_ms = wall_ms
            if at % 2:
                daemon.restart(kill=at == 1)
            for text, topic in (("other", "t"), ("once", "u")):
                refused = self.post_to(name, {**body, "text": text}, "?topic=" + topic, api, idempotency_key=key)
                self.problem(refused, 422, "idempotency_key_reused")
            self.once(lambda: self.post_to(name, body, "?topic=t", api, idempotency_key=key), first)
        self.assertEqual([self.texts(name, api=api, query=q) for q in ("topic=t", "topic=u", "")], [["once"], [], []])

    def test_a_trigger_that_is_delivered_again_by_another_clock_does_not_reset_again(self):
        daemon = self.daemon_at()
        api, event = daemon.client(), "slack:A:T:" + uid()
        body = {"channel": "slack", "chatType": "direct", "peer": "u1", "text": "/new begin"}
        first = self.once(lambda: api.post("/v1/inbound", body, idempotency_key=event))
        for at, wall_ms in enumerate(STEPS):
            daemon.page.wall_ms = wall_ms
            daemon.restart(kill=at % 2 == 0)
            self.once(lambda: api.post("/v1/inbound", body, idempotency_key=event), first)
        self.assertEqual(self.texts(first.json["sessionKey"], api=api), ["begin"])
        self.assertEqual(self.ok(api.get(S(first.json["sessionKey"])))["sessionId"], first.json["sessionId"])

    def test_archives_that_were_made_by_a_clock_that_goes_back_are_all_kept(self):
        daemon = self.daemon_at()
        api, key, ids = daemon.client(), "agent:main:slack:channel:c1", []
        for at, wall_ms in enumerate((0, 30 * HOUR, -30 * HOUR, 1 - int(time.time() * 1000) + HOUR, 0)):
            daemon.page.wall_ms = wall_ms
            ids.append(self.new(key, api=api)["sessionId"])
            self.say(key, f"turn {at}", api=api)
            if at % 2:
                self.ok(api.post(S(key, "main", "reset"), {}), 200)
            self.ok(api.delete(S(key)), 204)
            if at in (1, 3):
                daemon.restart(kill=at == 3)
        self.assertEqual([self.texts(i, api=api) for i in ids], [[f"turn {n}"] for n in range(5)])
        listed = {a["sessionId"] for a in self.ok(api.get(S(key, "main", "archives") + "?limit=200"))["data"]}
        self.assertLessEqual(set(ids), listed)

"""The wall clock steps while the daemon runs, or is wrong when it starts: nothing is done twice, ended or removed for it."""

import time

from harness.case import Case, S, uid
from preload import preload

runs = {"asan", "tsan"}

HOUR = 3_600_000
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

    def test_fault_10_a_clock_that_is_ahead_for_a_while(self):
        daemon = self.daemon_at()
        key = self.first(daemon)
        daemon.page.wall_ms = 30 * HOUR
        self.assert_once(daemon, key)
        for _ in range(3):
            self.checkpoint(daemon)
        daemon.page.wall_ms = 0
        self.assert_once(daemon, key)

    def test_fault_10_a_boot_at_1970(self):
        daemon = self.daemon_at(-int(time.time() * 1000) + HOUR)
        key = self.first(daemon)
        daemon.page.wall_ms = 0
        self.assert_once(daemon, key)
        self.checkpoint(daemon)
        daemon.restart()
        self.assert_once(daemon, key)

    def test_fault_10_restarts_by_a_wrong_clock(self):
        daemon = self.daemon_at()
        key = self.first(daemon)
        self.checkpoint(daemon)
        for wall_ms in (30 * HOUR, -int(time.time() * 1000) + HOUR, 24 * 365 * 20 * HOUR, 0):
            daemon.page.wall_ms = wall_ms
            daemon.restart(kill=wall_ms < 0)
            self.assert_once(daemon, key)
            self.checkpoint(daemon)

    def test_fault_10_the_journal_keeps_what_is_not_old(self):
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

    def test_fault_10_a_login_is_as_long_as_it_is(self):
        daemon = self.daemon_at()
        nobody = daemon.anonymous()
        reply = nobody.post("/v1/login", {"token": daemon.admin_token})
        self.assertEqual(reply.status, 204, reply)
        cookie = reply.headers["Set-Cookie"].split(";")[0]
        for wall_ms in (30 * HOUR, -30 * HOUR, 0):
            daemon.page.wall_ms = wall_ms
            self.ok(nobody.get("/v1/whoami", cookie=cookie))

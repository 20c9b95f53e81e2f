"""What ends with time: a runner that slept through its lease writes nothing, and no deadline fires early or is lost, whatever the clock does."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness.case import S
from harness.sessiond import SLOW
from preload import preload
from runs_case import RunsCase

HOUR = 3_600_000
LENGTH = 3000  # ms, of each deadline
WAITING = ("queued", "pending")


class Sleeper(RunsCase):
    def test_a_runner_that_slept_writes_nothing(self):
        key = self.make()
        self.start(key, "question", status=202, queueOnly=True, whenBusy="queue")
        runner = subprocess.Popen([sys.executable, Path(__file__).parent / "sleeping_runner.py", f"127.0.0.1:{self.daemon.port}",
                                   self.daemon.token("runner"), key, "500"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(runner.stdout.close)
        self.addCleanup(runner.wait)
        self.addCleanup(runner.kill)
        first = runner.stdout.readline().strip()
        time.sleep(0.2)
        runner.send_signal(signal.SIGSTOP)
        self.wait_for_run(key, first, "interrupted")
        again = self.claim(keyPrefix=key, waitMs=5000)
        self.assertEqual((again["retryOf"], again["attempt"]), (first, 2))
        before = self.api.get(S(key, "main", "transcript")).raw
        runner.send_signal(signal.SIGCONT)
        told = [json.loads(line) for line in runner.stdout]
        self.assertEqual(len(told), 11, told)
        self.assertEqual([line for line in told if line[1:] != [409, "lease_lost"]], [])
        self.assertEqual(self.api.get(S(key, "main", "transcript")).raw, before)
        self.assertNotIn("label", self.entry(key))
        self.finish(again, {"role": "assistant", "text": "answer"})
        said = [m["text"] for m in self.ok(self.api.get(S(key, "main", "messages") + "?view=chat"), 200)["data"] if m["role"] == "assistant"]
        self.assertEqual((said[-1], "from beyond" in str(said)), ("answer", False))


class Deadlines(RunsCase):
    daemon = None

    @classmethod
    def setUpClass(cls):
        pass  # each test has a daemon whose clock it sets

    def setUp(self):
        super().setUp()
        self.statuses = []  # of the run and the delivery that waited, in the end

    def begin_all(self):
        """Starts one of each deadline; name -> whether it has fired."""
        api, config = self.api, {"api": self.api}
        self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:slack:direct:u", "entry": {
            "deliveryContext": {"channel": "slack", "to": "u"}}}), 201)
        self.assertEqual(api.post("/v1/deliveries/claim", {"channel": "slack"}).status, 204)
        make = lambda **entry: self.new(api=api, **entry)["key"]  # noqa: E731
        runs = {"lease": self.start(make(), "x", leaseMs=LENGTH, **config),
                "idle": self.start(make(), "x", idleTimeoutMs=LENGTH, **config),
                "abort": self.start(make(), "x", **config)}
        self.tell(runs["idle"], {"type": "step.started", "step": 1}, **config)
        self.ok(api.post(S(runs["abort"]["key"], "main", "abort"), {}), 202)
        asking = self.start(make(), "x", **config)
        asked = self.ok(api.post(S(asking["key"], "main", "approvals"), {"runId": asking["runId"], "fence": asking["lease"]["fence"],
                                                                         "tool": "rm", "args": {}, "timeoutMs": LENGTH}), 201)
        self.ok(api.post(S("agent:main:slack:direct:u", "main", "outbound"), {"text": "out"}), 201)
        self.ok(api.post(S("agent:main:slack:direct:u", "main", "outbound"), {"text": "behind it"}), 201)
        delivery, = self.ok(api.post("/v1/deliveries/claim", {"channel": "slack", "leaseMs": LENGTH}), 200)["data"]
        long_run = self.start(make(), "x", leaseMs=600_000, **config)
        self.waiting = self.start(long_run["key"], "y", status=202, whenBusy="queue", **config)
        self.long = [(long_run, "running")]

        def is_over(run):
            return lambda: self.run_of(run["key"], run["runId"], api=self.api)["status"] not in ("running", "aborting")

        return {**{name: is_over(run) for name, run in runs.items()},
                "approval": lambda: self.ok(self.api.get(S(asking["key"], "main", "approvals", asked["id"])), 200)["decision"] is not None,
                "delivery": lambda: self.ok(self.api.get("/v1/deliveries/" + delivery["deliveryId"]), 200)["status"] != "leased"}

    def watch(self, checks, seconds):
        """When each of them fired, by our own clock; those that have not are not in it."""
        fired, end = {}, time.monotonic() + seconds
        while len(fired) < len(checks) and time.monotonic() < end:
            for name in checks.keys() - fired.keys():
                if checks[name]():
                    fired[name] = time.monotonic()
            time.sleep(0.02)
        return fired

    def hold(self, disturb):
        """Starts one of each, disturbs the daemon, and waits until all have fired, none early; name -> after how many seconds."""
        daemon = preload(self.spawn({"runs": {"abortGraceMs": LENGTH}}, start=False)).start()
        self.api = daemon.client()
        began = time.monotonic()
        checks = self.begin_all()
        disturb(daemon)
        fired = self.watch(checks, 20 * SLOW)
        self.assertEqual(checks.keys() - fired.keys(), set(), "lost")
        early = {name: at - began for name, at in fired.items() if at - began < LENGTH / 1000}
        self.assertEqual(early, {}, "fired early")
        self.assertEqual([(self.run_of(run["key"], run["runId"], api=self.api)["status"], status) for run, status in self.long],
                         [(status, status) for _, status in self.long])
        behind, = [d for d in self.ok(self.api.get("/v1/deliveries"), 200)["data"] if d["text"] == "behind it"]
        waiting = self.run_of(self.waiting["key"], self.waiting["runId"], api=self.api)
        self.statuses.append((waiting["status"], behind["status"]))
        return {name: at - began for name, at in fired.items()}

    def test_a_clock_that_steps_while_the_daemon_runs(self):
        for wall_ms in (30 * HOUR, -30 * HOUR):
            with self.subTest(wall_ms):
                def disturb(daemon):
                    daemon.page.wall_ms = wall_ms

                took = self.hold(disturb)
                self.assertLess(max(took.values()), (LENGTH / 1000 + 4) * SLOW, took)
        self.assertEqual(self.statuses, 2 * [WAITING])

    def restarted(self, wall_ms):
        def disturb(daemon):
            time.sleep(0.5)
            daemon.kill9()
            daemon.page.wall_ms = wall_ms
            daemon.start()
            self.api = daemon.client(self.api.token)

        self.hold(disturb)

    def test_restarts_by_a_clock_that_steps(self):
        for wall_ms in (0, 30 * HOUR, -30 * HOUR):
            with self.subTest(wall_ms):
                self.restarted(wall_ms)
        self.assertEqual((self.statuses[0], self.statuses[2]), (WAITING, WAITING))

    def test_a_restart_by_a_clock_that_is_ahead_ends_nothing(self):
        self.restarted(30 * HOUR)
        self.assertEqual(self.statuses, [WAITING])

"""What waits for a runner is as people left it: edited and deleted messages, steering, the summary of a full queue."""

from harness.case import Case, S, text_of, uid
from harness.sessiond import eventually


class Inputs(Case):
    """Messages that people edit or delete while a run is to answer them."""

    config = {"runs": {"onInbound": True}}

    def setUp(self):
        super().setUp()
        self.peer = "p" + uid()

    def receive(self, id, text):
        reply = self.api.post("/v1/inbound", {"channel": "chat", "chatType": "direct", "peer": self.peer, "text": text,
                                              "messageId": id})
        return self.ok(reply, 201)

    def change(self, what, id, **more):
        self.ok(self.api.post("/v1/inbound/" + what, {"channel": "chat", "peer": self.peer, "messageId": id, **more}), 201)

    def begin_run(self, leaseMs=60_000, **entry):
        """A session with an active run that answers m0; its key is self.key."""
        self.key = self.receive("m0", "first")["sessionKey"]
        self.ok(self.api.patch(S(self.key), {"queueDebounceMs": 0, **entry}), 200)
        return self.claim(leaseMs=leaseMs)

    def claim(self, **more):
        reply = self.api.post("/v1/agents/main/runs/claim", {"keyPrefix": self.key, "waitMs": 5_000, **more})
        return self.ok(reply, 200)

    def steer(self, run):
        reply = self.api.post(S(self.key, "main", "runs", run["runId"], "events"), {"fence": run["lease"]["fence"], "events": []})
        return [each["text"] for each in self.ok(reply, 200)["steer"]]

    def finish(self, run):
        self.ok(self.api.post(S(self.key, "main", "runs", run["runId"], "finish"),
                              {"fence": run["lease"]["fence"], "status": "done"}), 200)

    def runs(self, status):
        return self.ok(self.api.get(S(self.key, "main", "runs") + "?status=" + status), 200)["data"]

    def test_what_was_steered_is_as_people_left_it(self):
        for mode in ("steer", "steer-backlog"):
            self.peer = "p" + uid()
            run = self.begin_run(queueMode=mode)
            self.receive("m1", "secret")
            kept = self.receive("m2", "turn left")
            self.assertEqual(self.steer(run), ["secret", "turn left"])
            self.change("deletes", "m1")
            self.change("edits", "m2", text="turn right")
            self.assertEqual(self.steer(run), ["turn right"])
            self.finish(run)
            self.assertEqual(self.claim()["input"], [kept["messageId"]])

    def test_what_was_steered_and_deleted_makes_no_run(self):
        run = self.begin_run(queueMode="steer")
        self.receive("m1", "secret")
        self.change("deletes", "m1")
        self.finish(run)
        self.assertEqual(self.runs("queued"), [])

    def test_an_edit_that_is_too_long_to_steer_waits(self):
        run = self.begin_run(queueMode="steer")
        got = self.receive("m1", "short")
        self.change("edits", "m1", text="x" * (300 << 10))
        self.assertEqual(self.steer(run), [])
        self.assertEqual([waiting["input"] for waiting in self.runs("queued")], [[got["messageId"]]])

    def test_the_summary_of_a_full_queue_is_as_people_left_it(self):
        run = self.begin_run(queueMode="collect", queueCap=2)
        for n in range(6):
            self.receive(f"w{n}", f"waiting {n}")
            if n == 0:
                self.change("edits", "w0", text="edited while it waits")
        self.change("deletes", "w1")                       # dropped
        self.change("edits", "w2", text="edited later")    # dropped
        self.change("deletes", "w4")                       # waits
        self.daemon.restart(kill=True)
        self.finish(run)
        last = self.claim()
        said = [text_of(message) for message in self.messages(self.key) if message.get("id") == last["input"][0]]
        self.assertEqual(said, ["[Queue overflow] Dropped 3 messages.\n- edited while it waits\n- edited later\n- waiting 3"])
        self.assertEqual(len(last["input"]), 2)

    def test_a_retry_goes_without_what_was_deleted(self):
        self.begin_run(leaseMs=300)
        self.change("deletes", "m0")
        eventually(lambda: self.runs("interrupted"), 10)
        self.assertEqual(self.runs("queued"), [])
        self.peer = "p" + uid()
        self.key = self.receive("m0", "deleted")["sessionKey"]
        kept = self.receive("m1", "kept")
        run = self.claim(leaseMs=500)
        self.assertEqual(len(run["input"]), 2)
        self.change("deletes", "m0")
        self.daemon.restart(kill=True)
        self.assertEqual(self.claim(waitMs=20_000)["input"], [kept["messageId"]])

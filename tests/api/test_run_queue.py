"""What waits in a session while a run is active: collected, queued, dropped, steered, and where its answer goes (policy/runs/README.md)."""

from harness.case import S, uid
from runs_case import RunsCase


class Queue(RunsCase):
    def receive(self, peer, text, api=None, channel="slack", **more):
        return self.inbound(api=api, channel=channel, peer=peer, text=text, **more)

    def test_messages_within_the_debounce_time_are_one_run(self):
        """Three messages that come within the debounce time, while a run is active, are the input of one run."""
        peer = "u" + uid()
        key = self.new(f"agent:main:slack:direct:{peer}")["key"]
        active = self.start(key, "0")
        told = [self.receive(peer, str(n)) for n in range(1, 4)]
        self.assertEqual(len({got["run"]["runId"] for got in told}), 1, told)
        self.finish(active)
        run = self.claim(keyPrefix=key, waitMs=10_000)
        self.assertEqual((run["runId"], run["input"]), (told[0]["run"]["runId"], [got["messageId"] for got in told]))
        self.finish(run)
        self.claim(status=204, keyPrefix=key, waitMs=1500)

    def test_another_topic_waits_by_itself(self):
        peer = "u" + uid()
        key = self.new(f"agent:main:slack:direct:{peer}", queueDebounceMs=0)["key"]
        active = self.start(key, "0")
        plain, topic = self.receive(peer, "here"), self.receive(peer, "there", topic="t1")
        self.assertNotEqual(plain["run"]["runId"], topic["run"]["runId"])
        self.finish(active)
        for got, name in ((plain, None), (topic, "t1")):
            run = self.claim(keyPrefix=key, waitMs=5000)
            self.assertEqual((run["runId"], run["topic"], run["input"]), (got["run"]["runId"], name, [got["messageId"]]))
            self.finish(run, {"role": "assistant", "text": "answer"})
        self.assertEqual(self.texts(key, query="view=chat&topic=t1&order=asc"), ["there", "answer"])

    def test_a_full_queue_refuses_and_keeps_the_message(self):
        peer = "u" + uid()
        key = self.new(f"agent:main:slack:direct:{peer}", queueMode="followup", queueCap=2, queueDrop="new")["key"]
        active = self.start(key, "0")
        told = [self.receive(peer, str(n)) for n in range(1, 4)]
        self.assertEqual(told[2]["run"], {"refused": "queue_full"})
        self.problem(self.api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "x"}}), 409, "queue_full")
        self.assertEqual(self.texts(key, query="view=chat&order=asc"), ["0", "1", "2", "3"])
        self.finish(active)
        for got in told[:2]:
            run = self.claim(keyPrefix=key)
            self.assertEqual(run["runId"], got["run"]["runId"])
            self.finish(run)
        self.claim(status=204, keyPrefix=key)

    def test_the_event_tells_a_refusal(self):
        peer = "u" + uid()
        key = self.new(f"agent:main:slack:direct:{peer}", queueCap=0, queueDrop="new")["key"]
        self.start(key, "0")
        self.assertEqual(self.receive(peer, "1")["run"], {"refused": "queue_full"})
        self.assertEqual(self.of_type(key, "message.appended")[-1]["inbound"]["run"], {"refused": "queue_full"})

    def test_a_full_queue_drops_or_is_summed_up(self):
        key = self.make(queueMode="followup", queueCap=2, queueDrop="old")
        active = self.start(key, "0")
        runs = [self.start(key, str(i), status=202) for i in range(1, 6)]
        self.assertEqual([self.run_of(key, run["runId"])["status"] for run in runs], ["dropped"] * 3 + ["queued"] * 2)
        self.finish(active)
        self.assertEqual(self.claim(keyPrefix=key)["runId"], runs[3]["runId"])

        key = self.make(queueMode="followup", queueCap=2, queueDrop="new")
        self.start(key, "0")
        for i in range(2):
            self.start(key, str(i), status=202)
        self.problem(self.api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "x"}}), 409, "queue_full")

        key = self.make(queueMode="followup", queueCap=2, queueDrop="summarize")
        active = self.start(key, "0")
        for i in range(1, 6):
            self.start(key, f"line {i}\nmore", status=202)
        self.finish(active)
        run = self.claim(keyPrefix=key)
        first = self.ok(self.api.get(S(key, "main", "messages", run["input"][0])), 200)
        self.assertTrue(first["synthetic"])
        self.assertEqual(first["content"], "[Queue overflow] Dropped 3 messages.\n- line 1 more\n- line 2 more\n- line 3 more")

    def test_a_message_steers_the_active_run(self):
        key = self.make(queueMode="steer")
        run = self.start(key, "0")
        steered = self.start(key, "turn left", status=202)
        self.assertEqual((steered["runId"], len(steered["steered"])), (run["runId"], 1))
        told, = self.of_type(key, "directive.injected")
        self.assertEqual((told["entryId"], told["runId"]), (steered["steered"][0], run["runId"]))
        heard = self.tell(run)["steer"]
        self.assertEqual(heard, [{"entryId": steered["steered"][0], "text": "turn left"}])
        self.finish(run)
        left = self.claim(keyPrefix=key)
        self.assertEqual(left["input"], steered["steered"])
        again = self.start(key, "right", status=202)
        self.assertEqual(self.tell(left, steered=again["steered"])["steer"], [])
        self.finish(left)
        self.claim(status=204, keyPrefix=key)

    def test_what_is_steered_and_queued_comes_once(self):
        key = self.make(queueMode="steer-backlog")
        run = self.start(key, "0")
        confirmed, lost = [self.start(key, text, status=202)["input"][0] for text in ("left", "right")]
        self.assertEqual([heard["entryId"] for heard in self.tell(run)["steer"]], [confirmed, lost])
        self.assertEqual([heard["entryId"] for heard in self.tell(run, steered=[confirmed])["steer"]], [lost])
        self.finish(run)
        left = self.claim(keyPrefix=key)
        self.assertEqual(left["input"], [lost])
        self.finish(left)
        self.claim(status=204, keyPrefix=key)

    def test_a_finish_confirms_what_was_steered(self):
        for mode in ("steer", "steer-backlog", "steer+backlog"):
            key = self.make(queueMode=mode)
            run = self.start(key, "0")
            self.start(key, "left", status=202)
            steered = [heard["entryId"] for heard in self.tell(run)["steer"]]
            self.finish(run, steered=steered)
            self.claim(status=204, keyPrefix=key)
            self.assertEqual([event["entryId"] for event in self.of_type(key, "directive.injected")], steered)

    def test_the_answer_goes_to_who_asked(self):
        """Slack asks; Discord moves the conversation while the runner works. The answer goes to Slack, the next one to Discord."""
        daemon = self.spawn({"session": {"dmScope": "main"}})
        api = daemon.client()
        for channel in ("slack", "discord"):
            self.assertEqual(api.post("/v1/deliveries/claim", {"channel": channel}).status, 204)
        asked = self.receive("U1", "question", api=api, accountId="work")
        run = self.claim(waitMs=10_000, api=api)
        self.assertEqual(run["replyTo"], {"channel": "slack", "to": "U1", "accountId": "work"})
        moved = self.receive("D1", "and here", api=api, channel="discord", accountId="bot")
        self.assertEqual(moved["sessionKey"], asked["sessionKey"])
        self.assertEqual(self.entry(run["key"], api=api)["lastChannel"], "discord")
        ended = self.finish(run, {"role": "assistant", "text": "to slack"}, api=api)
        following = self.claim(waitMs=10_000, api=api)
        ended = [*ended["deliveries"], *self.finish(following, {"role": "assistant", "text": "to discord"}, api=api)["deliveries"]]
        self.assertEqual([(d["channel"], d["to"], d["accountId"]) for d in ended], [("slack", "U1", "work"), ("discord", "D1", "bot")])
        for channel in ("slack", "discord"):
            sent = self.ok(api.post("/v1/deliveries/claim", {"channel": channel}), 200)["data"]
            self.assertEqual([d["text"] for d in sent], ["to " + channel])

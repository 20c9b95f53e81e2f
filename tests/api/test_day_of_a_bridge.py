"""A day of a bridge, the whole of it: two platforms post, the daemon keeps, a dashboard watches; things go wrong and nothing is lost."""

import json

from harness.case import Case, S, text_of
from harness.sse import EventStream

runs = {"asan", "release", "tsan"}

# Platform ids as Slack and Telegram give them. Slack delivers an event again after 3 s, 1 min and 5 min.
SLACK, TELEGRAM = "slack:A01:T01:", "telegram:bot1:"


class DayOfABridge(Case):
    def setUp(self):
        super().setUp()
        self.bridges = {"slack": self.daemon.client(self.daemon.token("bridge", agents=["main"], channel="slack",
                                                                      note="slack")),
                        "telegram": self.daemon.client(self.daemon.token("bridge", agents=["main"], channel="telegram",
                                note="telegram"))}
        self.dashboard = self.daemon.client(self.daemon.token("viewer"))
        self.told = {}       # (key, topic) -> texts that were acknowledged, in order
        self.answers = {}    # idempotency key -> (body, raw answer)
        self.seen = []       # what the dashboard saw, over all its connections
        self.last_id = None
        self.stream = None

    # -- the players -------------------------------------------------------------------------------------------------

    def deliver(self, event, status=201, **body):
        """A platform's event through its bridge; a first delivery is remembered."""
        reply = self.bridges[body["channel"]].post("/v1/inbound", body, idempotency_key=event)
        answer = self.ok(reply, status)
        self.assertIsNone(reply.headers.get("Idempotency-Replayed"))
        self.answers[event] = (body, reply.raw)
        if answer["seq"] is not None:
            text = body["text"].removeprefix("/new").strip()
            self.told.setdefault((answer["sessionKey"], answer["topic"]), []).append(text)
        return answer

    def redeliver(self, *events):
        for event in events or list(self.answers):
            body, raw = self.answers[event]
            reply = self.bridges[body["channel"]].post("/v1/inbound", body, idempotency_key=event)
            self.assertEqual((reply.status, reply.raw, reply.headers["Idempotency-Replayed"]), (201, raw, "true"),
                             event)

    def answer(self, key, text, status=201, channel=None, **body):
        channel = channel or key.split(":")[2]
        reply = self.bridges[channel].post(S(key, "main", "outbound"), {"text": text, **body})
        if status == 201:
            media = [f"[media: {url.rsplit('/', 1)[1]}]" for url in body.get("mediaUrls", [])]
            self.told.setdefault((key, None), []).append("\n".join([text, *media]))
        return reply

    def watch(self) -> EventStream:
        self.stream = self.dashboard.stream(last_event_id=self.last_id)
        self.stream.wait_type("stream.hello")
        return self.stream

    def leave(self):
        self.stream.close()
        self.seen += self.stream.durable
        self.last_id = self.stream.last_id
        self.assertFalse([e for e in self.stream.events if e.type == "stream.gap"])

    # -- the story ---------------------------------------------------------------------------------------------------

    def test_the_day(self):
        start = self.dashboard.get("/v1/sessions").json["asOf"]
        self.last_id = start
        self.watch()

        # Morning: every kind of conversation on both platforms.
        direct = self.deliver(SLACK + "Ev1", channel="slack", chatType="direct", peer="U1", text="good morning",
                              **{"from": "U1"})
        self.assertEqual((direct["sessionKey"], direct["activate"]), ("agent:main:slack:direct:u1", True))
        room = self.deliver(SLACK + "Ev2", channel="slack", chatType="channel", peer="C1", text="who is on call?",
                            groupChannel="#ops", **{"from": "U2"})
        self.assertFalse(room["activate"], "nobody mentioned us")
        thread = self.deliver(SLACK + "Ev3", channel="slack", chatType="channel", peer="C1",
                              threadId="1700000001.000100", mentioned=True,
                              text="@bot summarise this", **{"from": "U2"})
        self.assertEqual(thread["sessionKey"], "agent:main:slack:channel:c1:thread:1700000001.000100")
        self.assertTrue(thread["activate"] and thread["systemIntro"])
        group = self.deliver(TELEGRAM + "1", channel="telegram", chatType="group", peer="-1001", subject="Familie",
                             text="hallo", **{"from": "7"})
        topic = self.deliver(TELEGRAM + "2", channel="telegram", chatType="group", peer="-1001", topic="42",
                             text="im Thema", **{"from": "7"})
        self.assertEqual((topic["sessionKey"], topic["topic"]), (group["sessionKey"], "42"))
        private = self.deliver(TELEGRAM + "3", channel="telegram", chatType="direct", peer="4711", text="psst",
                               **{"from": "4711"})

        # The agent answers; the bridge hears of it on its own stream and sends exactly what says deliver.
        with self.bridges["slack"].stream("/v1/events?types=message.*") as outbox:
            outbox.wait_type("stream.hello")
            self.ok(self.answer(direct["sessionKey"], "good morning to you"), 201)
            self.ok(self.answer(thread["sessionKey"], "three points", mediaUrls=["https://files/x.png"]), 201)
            self.ok(self.answer(private["sessionKey"], "already sent by hand", mirrorOnly=True), 201)
            outbox.wait_for(lambda e: e.data.get("data", {}).get("deliver") and "three points" in e.raw)
            self.assertEqual([text_of(e.data["data"]["message"]) for e in outbox.durable
                              if e.data["data"].get("deliver")],
                             ["good morning to you", "three points\n[media: x.png]"])
            self.assertEqual({e.data["channel"] for e in outbox.durable}, {"slack"}, "its own channel only")

        # Slack has seen no answer in time and delivers again, twice.
        self.redeliver(SLACK + "Ev1", SLACK + "Ev3")
        self.redeliver(SLACK + "Ev1")

        # Quiet hours in the group: a send is denied, told, and not recorded.
        policy = {"default": "allow", "rules": [{"match": {"channel": "telegram", "chatType": "group"},
                                                 "action": "deny"}]}
        self.ok(self.api.put("/v1/policy/send", policy, if_match=self.api.get("/v1/policy/send").etag), 200)
        denied = self.problem(self.answer(group["sessionKey"], "not now", 403), 403, "policy_denied")
        self.assertEqual(denied["rule"], 0)
        told = self.stream.wait_type("policy.denied").data
        self.assertEqual((told["key"], told["data"]["text"]), (group["sessionKey"], "not now"))

        # The dashboard's laptop is closed; the day goes on without it.
        self.stream.wait_for(lambda e: e.type == "policy.denied")
        self.leave()
        for i in range(10):
            self.deliver(TELEGRAM + f"1{i}", channel="telegram", chatType="direct", peer="4711", text=f"one more {i}")
        before = direct["sessionId"]
        self.told.pop((direct["sessionKey"], None))
        fresh = self.deliver(SLACK + "Ev20", channel="slack", chatType="direct", peer="U1",
                             text="/new let us start again")
        self.assertEqual(fresh["reset"], {"reason": "trigger", "previousSessionId": before})
        alone = self.deliver(SLACK + "Ev21", channel="slack", chatType="channel", peer="C1", text="/new")
        self.assertEqual((alone["seq"], alone["messageId"]), (None, None))
        self.told.pop((room["sessionKey"], None))

        # Noon: the machine reboots without asking. Both platforms deliver again what they are not sure of: everything.
        self.daemon.restart(kill=True)
        self.redeliver()
        self.watch()
        self.stream.wait_for(lambda e: e.type == "session.reset" and e.data["key"] == room["sessionKey"])
        self.assertEqual(self.texts(before, api=self.dashboard), ["good morning", "good morning to you"],
                         "the talk before /new")

        # Afternoon: work goes on; the policy holds after the restart; an orderly restart for good measure.
        self.deliver(SLACK + "Ev30", channel="slack", chatType="channel", peer="C1", text="back again",
                     **{"from": "U2"})
        self.problem(self.answer(group["sessionKey"], "still not", 403), 403, "policy_denied")
        second = self.deliver(SLACK + "Ev31", channel="slack", chatType="channel", peer="C1",
                              threadId="1700000001.000100", mentioned=True, text="and now?")
        self.assertEqual((second["sessionId"], second["created"], second["systemIntro"]),
                         (thread["sessionId"], False, False))
        self.stream.wait_for(lambda e: "and now?" in e.raw)
        self.daemon.restart()
        self.stream.wait_end()
        self.assertEqual(self.stream.events[-1].type, "stream.bye")
        self.leave()
        self.deliver(TELEGRAM + "30", channel="telegram", chatType="group", peer="-1001", topic="42", text="gute Nacht",
                     **{"from": "7"})
        self.redeliver(TELEGRAM + "30", TELEGRAM + "2", SLACK + "Ev31")
        self.watch()
        self.stream.wait_for(lambda e: "gute Nacht" in e.raw)
        self.leave()

        self.count_up(start)

    def count_up(self, start):
        """Evening: transcripts, stream, files and API tell the same story."""
        for (key, topic), texts in self.told.items():
            query = "limit=200&order=asc" + (f"&topic={topic}" if topic else "")
            self.assertEqual(self.texts(key, query=query), texts, f"{key} {topic}")
        # The dashboard missed and doubled nothing, over two absences and two restarts.
        with self.dashboard.stream("/v1/events?after=" + start) as whole:
            whole.wait_seq(self.seen[-1].seq)
            truth = [e.id for e in whole.durable if e.seq <= self.seen[-1].seq]
        self.assertEqual([e.id for e in self.seen], truth)
        self.assertEqual([e.seq for e in self.seen], list(range(int(start.split("-")[1]) + 1, self.seen[-1].seq + 1)))
        appended = [e.data for e in self.seen if e.type == "message.appended"]
        for (key, topic), texts in self.told.items():
            told = [text_of(e["data"]["message"]) for e in appended if (e["key"], e["topic"]) == (key, topic)]
            self.assertEqual(told[-len(texts):], texts)
        # The files agree.
        store = self.daemon.sessions_json()
        served = {s["key"]: s for s in self.api.get("/v1/agents/main/sessions?archived=any&limit=200").json["data"]}
        self.assertEqual(set(store), set(served))
        for key, session in served.items():
            self.assertEqual(store[key]["sessionId"], session["sessionId"])
        for (key, topic), texts in self.told.items():
            name = store[key]["sessionId"] + (f"-topic-{topic}" if topic else "") + ".jsonl"
            lines = (self.daemon.agent_dir() / name).read_bytes().splitlines()[1:]
            self.assertEqual([text_of(json.loads(line)["message"]) for line in lines], texts)

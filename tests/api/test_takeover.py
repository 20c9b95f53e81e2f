"""A person speaks in place of the agent, and hands back: nothing is answered twice, and nothing is forgotten."""

import random
import threading

from harness.case import S, text_of, uid
from harness.sessiond import eventually
from runs_case import RunsCase

HOUR = 3_600_000


class TakeoverCase(RunsCase):
    def setUp(self):
        super().setUp()
        self.peer = "p" + uid()
        self.names = 0

    def receive(self, text, peer=None, channel="chat", api=None, status=201, **more):
        self.names += 1
        body = {"channel": channel, "chatType": "direct", "peer": peer or self.peer, "text": text, "messageId": f"m{self.names}", **more}
        return self.ok((api or self.api).post("/v1/inbound", body), status)

    def take(self, key, status=200, api=None, **body):
        reply = (api or self.api).post(S(key, "main", "takeover"), body)
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def back(self, key, status=200, api=None, **body):
        reply = (api or self.api).post(S(key, "main", "handback"), body)
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def send(self, key, text, status=201, api=None, **body):
        reply = (api or self.api).post(S(key, "main", "outbound"), {"text": text, **body})
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def claim_of(self, key, status=200, wait=5_000, api=None):
        return self.claim(status, api=api, keyPrefix=key, waitMs=wait if status == 200 else 0)

    def input_of(self, key, run):
        texts = {message["id"]: text_of(message) for message in self.messages(key)}
        return [texts[id] for id in run["input"]]

    def shown(self, key, topic=""):
        rows = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm" + topic), 200)["data"]
        return [(row["role"], text_of(row)) for row in rows]

    def sent(self, key):
        """What went out to people."""
        events = self.of_type(key, "message.appended")
        return [text_of(event["message"]) for event in events if event.get("deliver")]


class Takeover(TakeoverCase):
    def test_messages_wait_over_a_kill_and_one_run_gets_them(self):
        world = self.spawn()
        api = self.api = world.client()
        key = self.receive("before")["sessionKey"]
        self.finish(self.claim_of(key), {"role": "assistant", "text": "hello"})
        taken = self.take(key, name="Hanne")
        self.assertEqual((taken["takeover"]["name"], taken["stopped"], taken["waiting"]), ("Hanne", None, []))
        for text in ("one", "two", "three"):
            told = self.receive(text)
            self.assertEqual((told["activate"], told["held"], told["run"]), (False, "takeover", None))
        self.claim_of(key, 204)
        world.restart(kill=True)
        api = self.api = world.client()
        self.claim_of(key, 204)
        self.assertEqual(self.entry(key)["takeover"]["name"], "Hanne")
        self.assertEqual(self.entry(key)["needs"][0]["seq"], self.messages(key)[-3]["seq"])
        handed = self.back(key)
        self.assertEqual((len(handed["waiting"]), handed["answered"], len(handed["runs"])), (3, [], 1))
        self.assertNotIn("takeover", self.entry(key))
        run = self.claim_of(key)
        self.assertEqual(self.input_of(key, run), ["one", "two", "three"])
        self.finish(run)
        self.claim_of(key, 204)
        self.back(key, 204)
        self.assertIs(api, self.api)

    def test_what_the_person_has_seen_is_answered(self):
        key = self.receive("hello")["sessionKey"]
        self.finish(self.claim_of(key), {"role": "assistant", "text": "hi"})
        self.take(key, name="Hanne")
        told = [self.receive(text) for text in ("one", "two", "three")]
        self.send(key, "I see to it", seenSeq=told[1]["seq"])
        self.assertEqual([need["seq"] for need in self.entry(key)["needs"]], [told[2]["seq"]])
        dry = self.back(key, dryRun=True)
        handed = self.back(key, note="be kind")
        self.assertEqual((dry["answered"], dry["waiting"]), (handed["answered"], handed["waiting"]))
        self.assertEqual(handed["answered"], [each["messageId"] for each in told[:2]])
        self.assertEqual(handed["waiting"], [told[2]["messageId"]])
        run = self.claim_of(key)
        self.assertEqual(self.input_of(key, run), ["[note by Hanne] be kind", "three"])
        self.assertEqual(self.shown(key), [("user", "hello"), ("assistant", "hi"), ("user", "one"), ("user", "two"),
                                           ("user", "[sent by Hanne, of the team] I see to it"),
                                           ("user", "[note by Hanne] be kind"), ("user", "three")])
        stored = self.messages(key)
        self.assertEqual([message["author"] for message in stored if "author" in message], [{"name": "Hanne"}])

    def test_a_word_answers_all_before_it(self):
        key = self.receive("one")["sessionKey"]
        waiting = self.take(key)["waiting"]
        self.assertEqual(len(waiting), 1)
        self.receive("two")
        self.send(key, "done")
        self.assertNotIn("needs", self.entry(key))
        handed = self.back(key)
        self.assertEqual((len(handed["answered"]), handed["waiting"], handed["runs"]), (2, [], []))
        self.claim_of(key, 204)
        ended = self.ok(self.api.get(S(key, "main", "runs")), 200)["data"]
        self.assertEqual([(run["status"], run["error"]["code"]) for run in ended], [("dropped", "answered_by_person")])

    def test_all_and_none_say_what_starts(self):
        for answered, wanted in (("all", 0), ("none", 1)):
            self.peer = "p" + uid()
            key = self.receive("one")["sessionKey"]
            self.take(key)
            self.receive("two")
            if answered == "none":
                self.send(key, "wait a moment")
            handed = self.back(key, answered=answered)
            self.assertEqual((len(handed["answered"]), len(handed["runs"])), (2 * (1 - wanted), wanted))
            if wanted:
                self.assertEqual(self.input_of(key, self.claim_of(key)), ["one", "two"])
            else:
                self.assertNotIn("needs", self.entry(key))

    def test_a_word_during_a_run_is_the_only_answer(self):
        key = self.receive("question")["sessionKey"]
        run = self.claim_of(key)
        self.take(key, name="Hanne")
        self.assertEqual(self.run_of(key)["status"], "running")
        self.send(key, "the person's answer")
        self.assertTrue(self.tell(run)["abort"])
        ended = self.finish(run, {"role": "assistant", "text": "the model's answer", "usage": {"input": 3, "output": 4}}, deliver=True)
        self.assertEqual((ended["status"], ended["superseded"], ended["deliveries"]), ("interrupted", True, []))
        self.assertEqual(self.sent(key), ["the person's answer"])
        self.assertEqual((self.entry(key)["inputTokens"], self.entry(key)["outputTokens"]), (3, 4))
        self.assertEqual(self.back(key)["runs"], [])
        self.claim_of(key, 204)
        self.assertEqual(self.shown(key), [("user", "question"), ("user", "[sent by Hanne, of the team] the person's answer")])

    def test_a_model_is_shown_the_persons_words_where_they_answer(self):
        key = self.receive("q1")["sessionKey"]
        run = self.claim_of(key)
        self.take(key, name="Hanne")
        self.receive("q2")
        self.send(key, "w1")
        self.finish(run, {"role": "assistant", "text": "too late"})
        self.receive("q3")
        self.send(key, "w2")
        self.receive("q4")
        self.back(key)
        run = self.claim_of(key)
        self.assertEqual(self.input_of(key, run), ["q4"])
        wanted = [("user", text) for text in ("q1", "q2", "[sent by Hanne, of the team] w1", "q3", "[sent by Hanne, of the team] w2", "q4")]
        self.assertEqual(self.shown(key), wanted)
        of_run = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm&run=" + run["runId"]), 200)["data"]
        self.assertEqual([(row["role"], text_of(row)) for row in of_run], wanted)

    def test_a_run_without_an_address_answers_at_the_sessions(self):
        key = self.receive("hello", activate=False)["sessionKey"]
        run = self.start(key, "question")
        self.take(key)
        self.send(key, "the person's answer")
        self.finish(run, {"role": "assistant", "text": "too late"}, deliver=True)
        self.assertEqual(self.back(key)["runs"], [])
        self.assertEqual(self.sent(key), ["the person's answer"])

    def test_many_waiting_runs_are_handed_back_at_once(self):
        key = self.receive("first")["sessionKey"]
        run = self.claim_of(key)
        self.ok(self.api.patch(S(key), {"queueMode": "followup", "queueCap": 100}), 200)
        told = [self.receive(f"text {n}") for n in range(70)]
        self.take(key)
        self.send(key, "all but the last", seenSeq=told[-2]["seq"])
        self.finish(run)
        handed = self.back(key)
        self.assertEqual((len(handed["answered"]), handed["waiting"]), (70, [told[-1]["messageId"]]))

    def test_what_was_steered_and_waits_too_starts_once(self):
        key = self.receive("one")["sessionKey"]
        self.ok(self.api.patch(S(key), {"queueMode": "steer-backlog", "queueDebounceMs": 0}), 200)
        self.claim_of(key)
        two = self.receive("two")
        self.take(key, stop=True)
        handed = self.back(key)
        self.assertEqual(handed["waiting"].count(two["messageId"]), 1)
        got = []
        while len(got) < 2:
            run = self.claim_of(key)
            got += self.input_of(key, run)
            self.finish(run)
        self.assertEqual(got, ["one", "two"])
        self.claim_of(key, 204)

    def test_what_went_out_is_not_asked_again(self):
        for how in ("mirrored", "aborted", "sent"):
            self.peer = "p" + uid()
            key = self.receive("question")["sessionKey"]
            run = self.claim_of(key)
            held = {"X-Run": f"{run['runId']};{run['lease']['fence']}"}
            if how == "aborted":
                self.ok(self.api.post(S(key, "main", "abort"), {}), 202)
            else:
                self.ok(self.api.post(S(key, "main", "outbound"), {"text": "the answer", "mirrorOnly": how == "mirrored"}, headers=held), 201)
            self.take(key, stop=True)
            self.problem(self.api.post(S(key, "main", "outbound"), {"text": "more"}, headers=held), 409, "taken_over")
            self.assertEqual(self.back(key)["runs"], [], how)
            self.claim_of(key, 204)

    def test_a_word_answers_nothing_that_comes_later(self):
        key = self.receive("one")["sessionKey"]
        self.take(key)
        self.send(key, "done", seenSeq=2**60)
        later = self.receive("two")
        self.assertEqual(self.back(key)["waiting"], [later["messageId"]])

    def test_a_deleted_question_leaves_the_next_one_waiting(self):
        key = self.receive("one")["sessionKey"]
        self.finish(self.claim_of(key), {"role": "assistant", "text": "hi"})
        self.take(key)
        self.receive("two")
        three = self.receive("three")
        self.ok(self.api.post("/v1/inbound/deletes", {"channel": "chat", "peer": self.peer, "messageId": f"m{self.names - 1}"}), 201)
        self.assertEqual([need["seq"] for need in self.entry(key)["needs"]], [three["seq"]])

    def test_words_that_were_said_before_take_nothing_over(self):
        key = self.receive("one")["sessionKey"]
        self.send(key, "it is me", takeover=True, messageId="w1." + key[-6:])
        self.back(key)
        self.send(key, "it is me", takeover=True, messageId="w1." + key[-6:])
        self.assertNotIn("takeover", self.entry(key))

    def test_a_person_speaks_beside_exclusive_runs(self):
        world = self.spawn({"runs": {"exclusive": True}})
        self.api = world.client()
        key = self.receive("one")["sessionKey"]
        run = self.claim_of(key)
        self.send(key, "it is me", takeover=True)
        self.send(key, "and again")
        self.assertTrue(self.tell(run)["abort"])

    def test_a_run_that_nobody_overtakes_ends_and_is_delivered(self):
        key = self.receive("question")["sessionKey"]
        run = self.claim_of(key)
        self.take(key)
        self.finish(run, {"role": "assistant", "text": "answer"})
        self.assertEqual(self.sent(key), ["answer"])
        self.assertEqual(self.back(key)["answered"], [])
        self.claim_of(key, 204)

    def test_a_stopped_run_leaves_its_question_waiting(self):
        for ends in ("by its runner", "by nobody"):
            self.peer = "p" + uid()
            key = self.receive("question")["sessionKey"]
            run = self.claim_of(key)
            self.assertEqual(self.take(key, stop=True)["stopped"], run["runId"])
            if ends == "by its runner":
                self.finish(run, {"role": "assistant", "text": "never sent"})
            handed = self.back(key)
            self.assertEqual((len(handed["waiting"]), len(handed["runs"])), (1, 1), ends)
            self.assertEqual(self.sent(key), [])
            again = self.claim_of(key)
            self.assertEqual((self.input_of(key, again), again["retryOf"]), (["question"], run["runId"]))
            self.assertEqual(self.shown(key), [("user", "question")])
            if ends == "by nobody":
                self.finish(run, status=409)
            self.finish(again, {"role": "assistant", "text": "answer"})
            self.assertEqual(self.sent(key), ["answer"])

    def test_its_time_passes_once(self):
        world = self.spawn({"takeover": {"defaultMs": 1_000}})
        self.api = world.client()
        key = self.receive("one")["sessionKey"]
        self.take(key)
        world.stop()
        world.start()
        self.api = world.client()
        run = self.claim_of(key, wait=20_000)
        self.assertEqual(self.input_of(key, run), ["one"])
        told = self.of_type(key, "session.handback")
        self.assertEqual([(one["reason"], one["waiting"]) for one in told], [("expired", run["input"])])

    def test_of_many_takeovers_one_holds(self):
        key = self.make()
        tokens = [self.daemon.token("operator") for _ in range(16)]
        replies = []

        def try_it(token):
            replies.append(self.daemon.client(token).post(S(key, "main", "takeover"), {"name": token[:8]}))

        threads = [threading.Thread(target=try_it, args=(token,)) for token in tokens]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(reply.status for reply in replies), [200] + 15 * [409])
        for reply in replies:
            if reply.status == 409:
                self.problem(reply, 409, "taken_over")
                self.assertGreater(reply.json["until"], 0)

    def test_a_full_queue_loses_nothing(self):
        for mode in ("collect", "followup", "steer", "steer-backlog", "interrupt"):
            for drop in ("old", "new", "summarize"):
                self.peer = "p" + uid()
                key = self.receive("first")["sessionKey"]
                self.finish(self.claim_of(key))
                self.ok(self.api.patch(S(key), {"queueMode": mode, "queueDrop": drop, "queueCap": 20}), 200)
                self.take(key)
                texts = [f"text {n}" for n in range(30)]
                for text in texts:
                    self.receive(text)
                self.back(key)
                got = []
                while len(got) < 30:
                    run = self.claim_of(key)
                    got += self.input_of(key, run)
                    self.finish(run)
                self.assertEqual(got, texts, (mode, drop))
                self.claim_of(key, 204)

    def test_a_bot_without_runs_is_silent(self):
        key = self.receive("question")["sessionKey"]
        self.finish(self.claim_of(key))
        self.take(key, name="Hanne")
        bot = self.daemon.client(self.daemon.token("runner"))
        reply = bot.post(S(key, "main", "outbound"), {"text": "I am a bot"})
        self.problem(reply, 409, "taken_over")
        self.assertEqual(reply.json["name"], "Hanne")
        entry = {"role": "assistant", "text": "I am a bot"}
        self.problem(bot.post(S(key, "main", "messages"), {**entry, "deliver": True}), 409, "taken_over")
        self.problem(bot.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "go"}}), 409, "taken_over")
        self.problem(self.api.post(S(key, "main", "messages"), {**entry, "deliver": True}), 409, "taken_over")
        self.problem(bot.post(S(key, "main", "deltas"), {"text": "I am"}), 409, "taken_over")
        self.problem(bot.post(S(key, "main", "typing"), {}), 409, "taken_over")
        self.ok(bot.post(S(key, "main", "outbound"), {"text": "sent elsewhere", "mirrorOnly": True}), 201)
        self.assertEqual(self.said(key), ["question", "sent elsewhere"])
        held = self.ok(bot.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "later"}, "queueOnly": True}), 202)
        self.assertEqual((held["status"], held["held"]), ("queued", "takeover"))
        self.claim_of(key, 204)

    def test_a_word_answers_at_its_address_only(self):
        world = self.spawn({"session": {"dmScope": "main"}})
        self.api = world.client()
        key = self.receive("from discord", channel="discord")["sessionKey"]
        self.finish(self.claim_of(key))
        self.take(key)
        self.receive("a question on discord", channel="discord")
        self.assertEqual(self.receive("a question on slack", channel="slack")["sessionKey"], key)
        self.send(key, "for slack")
        handed = self.back(key)
        self.assertEqual((len(handed["answered"]), len(handed["waiting"])), (1, 1))
        run = self.claim_of(key)
        self.assertEqual((self.input_of(key, run), run["replyTo"]["channel"]), (["a question on discord"], "discord"))

    def test_a_reset_does_not_hand_back(self):
        key = self.receive("one")["sessionKey"]
        self.finish(self.claim_of(key))
        self.take(key, name="Hanne")
        self.receive("old")
        reset = self.receive("/new now")
        self.assertEqual((reset["reset"]["reason"], reset["held"]), ("trigger", "takeover"))
        for path, body in (("clear", {}), ("reset", {"keepMetadata": False})):
            self.ok(self.api.post(S(key, "main", path), body), 200)
            self.assertEqual(self.entry(key)["takeover"]["name"], "Hanne")
        self.receive("new")
        self.assertEqual(len(self.back(key)["waiting"]), 1)
        self.assertEqual(self.input_of(key, self.claim_of(key)), ["new"])

    def test_archive_and_delete_end_it(self):
        for end in ("archive", "delete"):
            self.peer = "p" + uid()
            key = self.receive("one")["sessionKey"]
            self.take(key)
            if end == "archive":
                self.assertNotIn("takeover", self.ok(self.api.post(S(key, "main", "archive")), 200))
                self.assertEqual([one["reason"] for one in self.of_type(key, "session.handback")], ["ended"])
            else:
                self.ok(self.api.delete(S(key)), 204)
                again = self.receive("two")
                self.assertEqual((again["sessionKey"], again["activate"], again.get("held")), (key, True, None))

    def test_nothing_starts_meanwhile(self):
        key = self.receive("one")["sessionKey"]
        self.ok(self.api.patch(S(key), {"queueMode": "steer"}), 200)
        run = self.claim_of(key, 200)
        asked = self.ok(self.api.post(S(key, "main", "approvals"),
                                      {"runId": run["runId"], "fence": run["lease"]["fence"], "tool": "deploy"}), 201)
        self.take(key)
        self.receive("not steered")
        self.assertEqual(self.tell(run)["steer"], [])
        self.assertIsNone(self.ok(self.api.get(S(key, "main", "approvals", asked["id"])), 200)["decision"])
        self.tell(run, status=200)
        self.finish(run, outcome="failed", error={"code": "x", "message": "y"})
        self.claim_of(key, 204)
        self.back(key)
        self.assertEqual(self.input_of(key, self.claim_of(key)), ["not steered"])

    def test_a_lost_lease_waits_for_the_hand_back(self):
        key = self.receive("one")["sessionKey"]
        run = self.claim(keyPrefix=key, waitMs=5_000, leaseMs=100)
        self.take(key)
        self.wait_for_run(key, run["runId"], "interrupted")
        self.claim_of(key, 204)
        self.back(key)
        self.assertEqual(self.claim_of(key)["retryOf"], run["runId"])

    def test_deleted_and_edited_words_wait_as_people_left_them(self):
        key = self.receive("one")["sessionKey"]
        self.finish(self.claim_of(key))
        self.take(key)
        for text in ("gone", "wrong"):
            self.receive(text)
        names = {"channel": "chat", "peer": self.peer}
        self.ok(self.api.post("/v1/inbound/deletes", {**names, "messageId": f"m{self.names - 1}"}), 201)
        self.ok(self.api.post("/v1/inbound/edits", {**names, "messageId": f"m{self.names}", "text": "right"}), 201)
        self.back(key)
        self.assertEqual(self.input_of(key, self.claim_of(key)), ["right"])

    def test_a_message_that_is_told_again_waits_once(self):
        key = self.receive("one")["sessionKey"]
        self.finish(self.claim_of(key))
        self.take(key)
        told = self.receive("two")
        self.names -= 1
        again = self.receive("two", status=200)
        self.assertEqual((again["duplicate"], again["held"], again["messageId"]), (True, "takeover", told["messageId"]))
        self.assertEqual(len(self.back(key)["waiting"]), 1)
        self.names -= 1
        self.receive("two", status=200, mentioned=True)
        run = self.claim_of(key)
        self.assertEqual(self.input_of(key, run), ["two"])
        self.finish(run)
        self.claim_of(key, 204)

    def test_what_the_owner_types_by_hand_takes_over(self):
        world = self.spawn({"takeover": {"fromMeMs": HOUR}})
        self.api = world.client()
        key = self.receive("one")["sessionKey"]
        run = self.claim_of(key)
        self.receive("I do it myself", fromMe=True, **{"from": {"id": "o", "name": "Olga"}})
        self.assertEqual(self.entry(key)["takeover"]["name"], "Olga")
        self.assertNotIn("needs", self.entry(key))
        self.assertTrue(self.tell(run)["abort"])
        self.finish(run, {"role": "assistant", "text": "too late"})
        self.assertEqual(self.sent(key), [])
        self.receive("thank you")
        self.problem(self.api.post(S(key, "main", "outbound"), {"text": "the bot of the same token"}), 409, "taken_over")
        self.assertNotIn("by", self.entry(key)["takeover"])
        self.receive("and a word of mine", fromMe=True, **{"from": {"id": "o", "name": "Olga"}})
        self.assertEqual(self.back(key, force=True)["waiting"], [])
        self.receive("again by hand", fromMe=True, activate=True)
        self.assertNotIn("takeover", self.entry(key))
        begun = self.receive("I begin", peer="new" + uid(), fromMe=True)["sessionKey"]
        self.assertEqual(self.entry(begun)["takeover"]["name"], "the account's owner")

    def test_a_word_can_take_over(self):
        key = self.receive("one")["sessionKey"]
        self.send(key, "it is me", takeover=True, name="Hanne")
        self.assertEqual(self.entry(key)["takeover"]["name"], "Hanne")
        other = self.daemon.client(self.daemon.token("operator"))
        self.problem(other.post(S(key, "main", "outbound"), {"text": "no, me", "takeover": True}), 409, "taken_over")
        self.problem(other.post(S(key, "main", "handback"), {}), 409, "taken_over")
        self.take(key, api=other, force=True, name="Ben")
        self.problem(self.api.post(S(key, "main", "outbound"), {"text": "still me"}), 409, "taken_over")
        told = self.of_type(key, "session.takeover")
        self.assertEqual([(one["name"], one.get("forced", False)) for one in told], [("Hanne", False), ("Ben", True)])
        self.back(key, force=True)

    def test_a_word_keeps_how_long_it_lasts(self):
        key = self.receive("one")["sessionKey"]
        self.take(key, name="Hanne", forMs=HOUR)
        for body in ({"takeover": True, "name": "Hanne"}, {}):
            self.send(key, "it is me", **body)
            shown = self.entry(key)["takeover"]
            self.assertEqual(shown["until"] - shown["since"] < HOUR + 600_000, True, shown)
        self.assertEqual(len(self.of_type(key, "session.takeover")), 1, "words in the same minute tell nothing")
        renewed = self.take(key, name="Hanne")["takeover"]
        self.assertLess(renewed["until"] - renewed["since"], HOUR + 600_000)
        self.assertEqual(renewed["by"], self.ok(self.api.get("/v1/whoami"), 200)["id"])

    def test_lists_show_who_speaks(self):
        key, free = self.make(), self.make()
        self.take(key, name="Hanne")
        for path in ("/v1/sessions", "/v1/agents/main/sessions"):
            rows = self.ok(self.api.get(path + "?held=takeover&limit=200"), 200)["data"]
            self.assertIn((key, "Hanne"), [(row["key"], row["takeover"]["name"]) for row in rows])
            self.assertNotIn(free, [row["key"] for row in rows])
        limited = self.daemon.client(self.daemon.token("viewer", agents=["main"], keyPrefix=free))
        self.assertEqual(self.ok(limited.get("/v1/sessions?held=takeover"), 200)["data"], [])
        self.problem(self.api.get("/v1/sessions?held=pause"), 400, "bad_request")
        rev = self.entry(key)["rev"]
        self.back(key)
        self.assertEqual(self.entry(key)["rev"], rev)
        self.problem(self.api.patch(S(key), {"takeover": {}}), 422, "validation_failed")

    def test_copies_are_free(self):
        key = self.receive("one")["sessionKey"]
        self.take(key)
        fork = self.ok(self.api.post(S(key, "main", "fork"), {}), 201)
        self.assertNotIn("takeover", fork)
        child = self.ok(self.api.post(S(key, "main", "spawn"), {"task": "help"}), 201)
        self.assertNotIn("takeover", self.entry(child["key"]))

    def test_only_who_may_takes_over(self):
        key = self.make()
        for role in ("viewer", "runner", "bridge"):
            self.problem(self.daemon.client(self.daemon.token(role)).post(S(key, "main", "takeover"), {}), 403, "forbidden")
        runner = self.daemon.client(self.daemon.token("runner"))
        self.problem(runner.post(S(key, "main", "outbound"), {"text": "x", "takeover": True}), 403, "forbidden")
        run = self.start(key)
        held = {"X-Run": f"{run['runId']};{run['lease']['fence']}"}
        self.assertPointers(self.api.post(S(key, "main", "outbound"), {"text": "x", "takeover": True}, headers=held), "/takeover")
        self.finish(run)
        person = self.daemon.client(self.daemon.token("viewer", permissions=["takeover"], agents=["main"], keyPrefix=key))
        self.take(key, api=person, name="Hanne")
        self.send(key, "hello", api=person)
        self.problem(person.post(S("agent:main:none", "main", "takeover"), {}), 404, "session_not_found")
        for body, pointer in (({"forMs": 59_999}, "/forMs"), ({"name": "x" * 101}, "/name"), ({"name": "a\nb"}, "/name"), ({"who": 1}, "/who")):
            self.assertPointers(self.api.post(S(key, "main", "takeover"), body), pointer)
        for body, pointer in (({"answered": "some"}, "/answered"), ({"note": "x" * 4097}, "/note")):
            self.assertPointers(self.api.post(S(key, "main", "handback"), body), pointer)
        self.assertPointers(self.api.post(S(key, "main", "outbound"), {"text": "x", "name": "Ben"}), "/name")

    def test_ephemeral_sessions_can_be_taken_over(self):
        key = "agent:main:chat:direct:e" + uid()
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.take(key, name="Hanne")
        self.problem(self.api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "x"}}), 409, "taken_over")
        self.assertEqual(self.entry(key)["takeover"]["name"], "Hanne")
        self.back(key)
        self.start(key, "x")


class WithoutRuns(TakeoverCase):
    config = {"runs": {"onInbound": False}}

    def test_bridges_that_ask_models_learn_what_waits(self):
        key = self.receive("one")["sessionKey"]
        self.take(key)
        told = [self.receive(text) for text in ("two", "three")]
        self.assertEqual([(one["activate"], one["held"]) for one in told], 2 * [(False, "takeover")])
        self.send(key, "for two", seenSeq=told[0]["seq"])
        handed = self.back(key)
        ids = [one["messageId"] for one in told]
        self.assertEqual((handed["answered"], handed["waiting"], handed["runs"]), (ids[:1], ids[1:], []))
        event = self.of_type(key, "session.handback")[-1]
        self.assertEqual((event["answered"], event["waiting"]), (ids[:1], ids[1:]))


class InASharedStore(TakeoverCase):
    config = {"store": {"mode": "shared"}, "runs": {"onInbound": True}}

    def test_other_programs_are_silent_meanwhile(self):
        for before in (None, "allow", "deny"):  # of the entry
            self.peer = "p" + uid()
            key = self.receive("one")["sessionKey"]
            self.ok(self.api.patch(S(key), {"sendPolicy": before}), 200)
            run = self.claim_of(key)
            self.take(key)
            self.assertEqual(self.entry(key)["sendPolicy"], "deny")
            policy = self.ok(self.api.get(S(key, "main", "send-policy")), 200)
            self.assertEqual((policy["action"], policy["effective"]["action"]), (before or "inherit", before or "allow"))
            evaluated = self.ok(self.api.post("/v1/policy/evaluate", {"sessionKey": key}), 200)
            self.assertEqual(evaluated["action"], before or "allow")
            fork = self.ok(self.api.post(S(key, "main", "fork"), {}), 201)
            self.assertEqual(fork.get("sendPolicy"), before)
            if before != "deny":
                self.finish(run, {"role": "assistant", "text": "answer"})
                self.send(key, "from the person")
                self.assertEqual(self.sent(key), ["answer", "from the person"])
            self.back(key)
            self.assertEqual(self.entry(key).get("sendPolicy"), before)


class Random(TakeoverCase):
    """Questions, words, kills and runners at random: each question is answered once."""

    def test_each_question_is_answered_once(self):
        for seed in range(3):
            self.one_day(random.Random(seed))

    def one_day(self, chance):
        world = self.spawn()
        self.api = world.client()
        self.names, asked, answered = 0, [], []
        key = self.receive("hello")["sessionKey"]
        self.finish(self.claim_of(key))
        held, active = False, []

        def answer(run):
            answered.extend(text for text in self.input_of(key, run) if text in asked)

        for n in range(60):
            step = chance.choice(("ask", "ask", "ask", "claim", "finish", "take", "word", "back", "kill"))
            if step == "ask":
                asked.append(f"question {n}")
                self.receive(asked[-1])
            elif step == "claim" and not active:
                reply = self.api.post("/v1/agents/main/runs/claim", {"keyPrefix": key, "leaseMs": 600_000})
                active = [reply.json] if reply.status == 200 else []
                self.assertFalse(held and active, "a run has started while a person speaks")
            elif step == "finish" and active:
                run = active.pop()
                reply = self.api.post(S(key, "main", "runs", run["runId"], "finish"),
                                      {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": f"answer {n}"}]})
                if reply.status == 200 and reply.json["deliveries"]:
                    answer(run)
                elif reply.status != 200:
                    self.problem(reply, 409, "lease_lost")
            elif step == "take":
                self.take(key, stop=chance.random() < 0.3)
                held = True
            elif step == "word" and held:
                self.send(key, f"word {n}")
            elif step == "back" and held:
                held = False
                texts = {message["id"]: text_of(message) for message in self.messages(key)}
                answered.extend(texts[id] for id in self.back(key)["answered"] if texts[id] in asked)
            elif step == "kill":
                world.restart(kill=True)
                self.api = world.client()
        if held:
            texts = {message["id"]: text_of(message) for message in self.messages(key)}
            answered.extend(texts[id] for id in self.back(key)["answered"])
        while len(answered) < len(asked):
            run = active.pop() if active else self.claim_of(key)
            reply = self.api.post(S(key, "main", "runs", run["runId"], "finish"),
                                  {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": "late"}]})
            if reply.status == 200 and reply.json["deliveries"]:
                answer(run)
        self.assertEqual(sorted(answered), sorted(asked))
        eventually(lambda: self.api.get("/readyz").status == 200, what="ready")
        world.stop()

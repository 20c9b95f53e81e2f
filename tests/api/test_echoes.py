"""What the agent has sent comes back from the platform: it is known as its own, and nobody answers it."""

import threading

from harness.case import S, text_of, uid
from runs_case import RunsCase


class Echoes(RunsCase):
    config = {"runs": {"onInbound": True}}

    def setUp(self):
        super().setUp()
        self.peer = "p" + uid()
        self.key = f"agent:main:chat:direct:{self.peer}"

    def say_in(self, text, id, status=201, **more):
        body = {"channel": "chat", "chatType": "direct", "peer": self.peer, "text": text, "messageId": id, **more}
        return self.ok(self.api.post("/v1/inbound", body), status)

    def answer(self, text):
        """The agent says something; the delivery of it, as its bridge has claimed it."""
        self.ok(self.api.post("/v1/deliveries/claim", {"channel": "chat"}), 200, 204)
        self.say_in("hi", "m" + uid())
        self.finish(self.claim(keyPrefix=self.key, waitMs=5_000), {"role": "assistant", "text": text})
        found = self.ok(self.api.post("/v1/deliveries/claim", {"channel": "chat", "keyPrefix": self.key, "waitMs": 5_000}), 200)
        return found["data"][0]

    def ack(self, delivery, **body):
        return self.ok(self.api.post(f"/v1/deliveries/{delivery['deliveryId']}/ack", body), 200)

    def shown(self, view="chat&limit=200&order=asc"):
        """What is shown, without what counts as deleted."""
        rows = self.ok(self.api.get(S(self.key, "main", "messages") + f"?view={view}"), 200)["data"]
        return [text_of(row) for row in rows if not row.get("deleted")]

    def test_the_echo_of_a_sent_message_is_stored_nowhere(self):
        delivery = self.answer("hello")
        self.ack(delivery, platformMessageId="P1", parts=["P2", {"platformMessageId": "P3"}])
        before = self.shown()
        for id, more in (("P1", {}), ("P2", {"from": "the bot"}), ("P3", {"fromMe": True}), ("P1", {"mentioned": True, "activate": True})):
            got = self.say_in("hello", id, 200, **more)
            self.assertEqual((got["own"], got["duplicate"], got["activate"], got["run"], got["messageId"]),
                             (True, True, False, None, delivery["messageId"]))
        self.assertEqual(self.shown(), before)
        self.assertEqual(self.runs_of(self.key, "queued"), [])
        self.daemon.restart(kill=True)
        self.api = self.daemon.client()
        self.assertTrue(self.say_in("hello", "P1", 200)["own"])
        elsewhere = self.ok(self.api.post("/v1/inbound", {"channel": "chat", "chatType": "direct", "peer": "q" + uid(), "text": "hello", "messageId": "P1"}), 201)
        self.assertNotIn("own", elsewhere, "an id of another conversation")

    def test_the_response_of_a_run_is_as_people_left_it(self):
        delivery = self.answer("hello")
        self.ack(delivery, platformMessageId="P1")
        run, = self.runs_of(self.key, "done")
        self.assertEqual((run["response"], run["responseEntryId"]), ("hello", delivery["messageId"]))
        target = {"channel": "chat", "peer": self.peer, "messageId": "P1"}
        def shown():
            runs = self.ok(self.api.get(S(self.key, "main", "runs")), 200)["data"]
            return [one.get("response") for one in [*runs, self.run_of(self.key, run["runId"])]]
        self.ok(self.api.post("/v1/inbound/edits", {**target, "text": "hello, friend"}), 201)
        self.assertEqual(shown(), ["hello, friend"] * 2)
        self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)  # what follows is done to an archive
        self.ok(self.api.post("/v1/inbound/deletes", target), 201)
        self.assertEqual(shown(), [None] * 2)
        self.daemon.restart(kill=True)
        self.api = self.daemon.client()
        self.assertEqual(shown(), [None] * 2)

    def test_an_echo_that_came_before_the_acknowledgement_is_taken_out_with_it(self):
        delivery = self.answer("hello")
        echo = self.say_in("hello", "P1")
        self.assertIsNotNone(echo["run"])
        self.ack(delivery, platformMessageId="P1")
        self.assertEqual(self.shown(), ["hi", "hello"])
        self.assertEqual(self.shown("llm"), ["hi", "hello"])
        self.assertEqual(self.run_of(self.key, echo["run"]["runId"])["status"], "dropped")
        told, = self.of_type(self.key, "message.deleted")
        self.assertEqual((told["target"]["id"], told["own"]), (echo["messageId"], True))
        again = self.say_in("hello", "P1", 200)
        self.assertEqual((again["own"], again["messageId"], again["run"]), (True, delivery["messageId"], None))
        self.ok(self.api.post("/v1/inbound/deletes", {"channel": "chat", "peer": self.peer, "messageId": "P1"}), 201)
        self.assertEqual(self.shown(), ["hi"], "the id is that of the agent's message now")

    def test_the_echoes_of_all_parts_are_taken_out_with_one_acknowledgement(self):
        delivery = self.answer("hello")
        parts = [f"P{n}" for n in range(90)]
        run = [self.say_in("hello", part)["run"]["runId"] for part in parts][0]
        self.ack(delivery, parts=parts)
        self.assertEqual(self.shown(), ["hi", "hello"])
        self.assertEqual(self.runs_of(self.key, "queued"), [])
        self.assertEqual(self.run_of(self.key, run)["status"], "dropped")

    def test_an_echo_that_came_after_a_reset_is_taken_out_too(self):
        delivery = self.answer("hello")
        self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)
        echo = self.say_in("hello", "P1")
        self.ack(delivery, platformMessageId="P1")
        self.assertEqual(self.shown(), [])
        self.assertEqual(self.run_of(self.key, echo["run"]["runId"])["status"], "dropped")

    def test_a_run_that_answers_more_than_an_echo_goes_on(self):
        delivery = self.answer("hello")
        self.say_in("and tomorrow?", "M2")
        self.say_in("hello", "P1")
        run = self.claim(keyPrefix=self.key, waitMs=5_000)
        self.ack(delivery, platformMessageId="P1")
        self.assertFalse(self.tell(run)["abort"])
        self.finish(run, {"role": "assistant", "text": "rain"})
        self.assertEqual(self.shown(), ["hi", "hello", "and tomorrow?", "rain"])

    def test_a_run_that_answers_an_echo_is_stopped(self):
        delivery = self.answer("hello")
        self.say_in("hello", "P1")
        run = self.claim(keyPrefix=self.key, waitMs=5_000)
        self.ack(delivery, platformMessageId="P1")
        self.assertTrue(self.tell(run)["abort"])
        self.finish(run)
        self.assertEqual(self.run_of(self.key, run["runId"])["status"], "interrupted")

    def test_what_the_account_sends_is_the_agents_or_its_owners(self):
        delivery = self.answer("hello")
        got = self.say_in("hello", "P1", 200, fromMe=True)
        self.assertEqual((got["own"], got["messageId"], got["run"]), (True, delivery["messageId"], None), "a delivery of this text is under way")
        self.ack(delivery, platformMessageId="P1")
        self.assertTrue(self.say_in("hello", "P1", 200, fromMe=True)["own"])
        typed = self.say_in("I will call you", "P9", fromMe=True, **{"from": {"id": "owner", "name": "Olga"}})
        self.assertEqual((typed["activate"], typed["run"]), (False, None))
        self.assertNotEqual(self.entry(self.key).get("displayName"), "Olga")
        stored, = [m for m in self.messages(self.key) if m.get("platformMessageId") == "P9"]
        self.assertTrue(stored["fromMe"])
        self.assertEqual(self.shown("llm"), ["hi", "hello", "[sent by the account's owner] I will call you"])
        view = self.ok(self.api.get(S(self.key, "main", "messages") + "?view=llm&prune=off"), 200)["context"]["used"]
        self.assertEqual(self.ok(self.api.get(S(self.key, "main", "context")), 200)["used"], view)
        self.assertIsNotNone(self.say_in("a note to myself", "P10", fromMe=True, activate=True)["run"])

    def test_what_the_owner_says_to_another_person_is_no_echo(self):
        self.answer("ok")
        bob = "b" + uid()
        body = {"channel": "chat", "chatType": "direct", "peer": bob, "text": "ok", "messageId": "P1", "fromMe": True}
        self.assertNotIn("own", self.ok(self.api.post("/v1/inbound", body), 201))
        photo = self.say_in("", "P2", fromMe=True, attachments=[{"type": "image", "url": "https://example.org/a.png"}])
        self.assertNotIn("own", photo)
        session = self.entry(self.key)["sessionId"]
        self.say_in("/new", "P3", fromMe=True)
        self.assertEqual(self.entry(self.key)["sessionId"], session, "it was not said to the agent")

    def test_an_echo_beside_its_acknowledgement_is_answered_by_nobody(self):
        bridge = self.daemon.client()
        for n in range(20):
            delivery = self.answer(f"hello {n}")
            got = []
            echo = threading.Thread(target=lambda: got.append(bridge.post("/v1/inbound", {
                "channel": "chat", "chatType": "direct", "peer": self.peer, "text": "anything", "messageId": f"E{n}"})))
            echo.start()
            self.ack(delivery, platformMessageId=f"E{n}")
            echo.join()
            self.assertIn(got[0].status, (200, 201, 409), got[0])
            self.assertEqual(self.runs_of(self.key, "queued"), [])
        self.assertNotIn("anything", self.shown())

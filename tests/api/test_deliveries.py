"""Deliveries: how what an agent answers gets out, once each at least, in order (daemon/leases/README.md)."""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness.case import Case, S, uid
from harness.sessiond import SLOW, eventually
from preload import preload

HOUR = 3_600_000


class Deliveries(Case):
    def setUp(self):
        super().setUp()
        self.channel = "c" + uid()[:8]

    def session(self, api=None, channel=None, **delivery):
        channel = channel or self.channel
        key = f"agent:main:{channel}:direct:{uid()}"
        return self.new(key, api=api, deliveryContext={"channel": channel, "to": "u1", **delivery})["key"]

    def claim(self, status=200, api=None, **body):
        body = {"channel": self.channel, **body}
        reply = (api or self.api).post("/v1/deliveries/claim", body)
        self.assertEqual(reply.status, status, reply)
        return reply.json["data"] if status == 200 else None

    def adopt(self, api=None, **body):
        self.claim(204, api=api, **body)

    def say(self, key, text="hi", api=None, **body):
        return self.ok((api or self.api).post(S(key, "main", "outbound"), {"text": text, **body}), 201)

    def act(self, delivery, verb, body=None, status=200, api=None):
        id_ = delivery if isinstance(delivery, str) else delivery["deliveryId"]
        reply = (api or self.api).post(f"/v1/deliveries/{id_}/{verb}", {} if body is None else body)
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def shown(self, delivery, status=200, api=None):
        id_ = delivery if isinstance(delivery, str) else delivery["deliveryId"]
        reply = (api or self.api).get("/v1/deliveries/" + id_)
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def nack(self, delivery, status=200, **body):
        return self.act(delivery, "nack", {"attempt": delivery["attempt"], "error": {"code": "net", "message": "no route"}, **body}, status)

    def events(self, key, types="delivery.*", api=None):
        api = api or self.api
        epoch = self.ok(api.get(S(key, "main", "context")), 200)["asOf"].split("-")[0]
        reply = self.ok(api.get(S(key, "main", "events") + f"?poll=1&waitMs=5000&limit=1000&after={epoch}-0&types={types}"), 200)
        return [(event["type"], event["data"]) for event in reply["data"]]

    def test_two_bridges_that_are_killed_bring_everything_in_order(self):
        conversations, answers = 64, int(os.environ.get("SESSIOND_TEST_ANSWERS", "20"))  # the contract says 100, which takes minutes
        daemon = self.spawn({"deliveries": {"maxAttempts": 1000}})
        api = daemon.client()
        keys = [self.session(api=api, to=f"u{n}") for n in range(conversations)]
        self.adopt(api=api)
        log = daemon.home / "sent"
        log.touch()
        token = daemon.token("bridge", channel=self.channel)

        def bridge():
            return subprocess.Popen([sys.executable, Path(__file__).parent / "dying_bridge.py", f"127.0.0.1:{daemon.port}", token,
                                     self.channel, log])

        def say():
            client = daemon.client()
            for first in range(0, answers, 10):
                for key in keys:
                    self.ok(client.post(S(key, "main", "messages"), {"deliver": True, "entries": [
                        {"role": "assistant", "text": str(n)} for n in range(first, first + 10)]}), 201)

        saying = threading.Thread(target=say)
        saying.start()
        bridges, chance, kills = [bridge(), bridge()], random.Random(7), 0
        count = lambda status: self.ok(api.get(f"/v1/deliveries?status={status}&limit=1"), 200)["data"]  # noqa: E731
        try:
            end = time.monotonic() + (60 + 3 * answers) * SLOW
            while saying.is_alive() or count("pending") or count("leased"):
                self.assertLess(time.monotonic(), end, "not all was sent")
                time.sleep(chance.uniform(0.2, 0.8))
                which = chance.randrange(2)
                bridges[which].kill()
                bridges[which].wait()
                bridges[which] = bridge()
                kills += 1
        finally:
            for process in bridges:
                process.kill()
                process.wait()
            saying.join()
        self.assertGreater(kills, 3)
        sent = {}
        for line in log.read_text().splitlines():
            to, text = line.split()
            sent.setdefault(to, []).append(int(text))
        for n, key in enumerate(keys):
            acked = [data["deliveryId"] for type_, data in self.events(key, api=api) if type_ == "delivery.sent"]
            made = [data["delivery"]["deliveryId"] for _, data in self.events(key, "message.appended", api=api) if "delivery" in data]
            self.assertEqual(len(made), answers)
            self.assertEqual(acked, made, key)
            first_times = list(dict.fromkeys(sent[f"u{n}"]))
            self.assertEqual(first_times, list(range(answers)), key)
        self.assertEqual(self.ok(api.get("/v1/deliveries?status=failed"), 200)["data"], [])

    def test_a_lease_survives_a_kill(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.session(api=api)
        self.adopt(api=api)
        made = self.say(key, "first", api=api)["delivery"]
        self.say(key, "second", api=api)
        claimed = self.claim(api=api, leaseMs=2000)
        self.assertEqual([(d["deliveryId"], d["attempt"], d["status"], d["text"]) for d in claimed],
                         [(made["deliveryId"], 1, "leased", "first")])
        daemon.kill9()
        daemon.start()
        api = daemon.client()
        self.assertEqual(self.shown(made, api=api)["status"], "leased")
        self.claim(204, api=api)  # its conversation waits
        again = self.claim(api=api, waitMs=10_000)
        self.assertEqual([(d["deliveryId"], d["attempt"]) for d in again], [(made["deliveryId"], 2)])
        daemon.kill9()
        daemon.start()
        api = daemon.client()
        self.assertEqual(self.act(made, "ack", {"platformMessageId": "p1"}, api=api)["status"], "sent")
        daemon.kill9()
        daemon.start()
        api = daemon.client()
        self.assertEqual(self.shown(made, api=api)["platformMessageId"], "p1")
        self.assertEqual([d["text"] for d in self.claim(api=api)], ["second"])

    def test_the_answer_goes_where_the_question_came_from(self):
        daemon = self.spawn({"session": {"dmScope": "main"}, "runs": {"onInbound": False}})
        api = daemon.client()
        self.adopt(api=api, channel="slack")
        self.adopt(api=api, channel="discord")
        asked = self.inbound(api=api, channel="slack", peer="U1", text="question")
        key = asked["sessionKey"]
        claimed = None
        run = self.ok(api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "do"}}), 201)
        self.ok(api.post(S(key, "main", "messages"), {"role": "assistant", "text": "for slack", "deliver": True}), 201)
        self.inbound(api=api, channel="discord", peer="D1", text="and now here")
        said = self.ok(api.post(S(key, "main", "messages"), {"role": "assistant", "text": "for discord", "deliver": True}), 201)
        self.assertEqual((said["delivery"]["channel"], said["delivery"]["to"], said["delivery"]["status"]), ("discord", "D1", "pending"))
        claimed = self.claim(api=api, channel="slack")
        self.assertEqual([(d["channel"], d["to"], d["text"]) for d in claimed], [("slack", "U1", "for slack")])
        self.assertEqual([d["text"] for d in self.claim(api=api, channel="discord")], ["for discord"])
        self.ok(api.post(S(key, "main", "runs", run["runId"], "finish"), {"fence": run["lease"]["fence"], "status": "done"}), 200)

    def test_a_run_answers_to_its_reply_to(self):
        daemon = self.spawn({"session": {"dmScope": "main"}, "runs": {"onInbound": True}, "policy": {}})
        api = daemon.client()
        self.adopt(api=api, channel="slack")
        key = self.inbound(api=api, channel="slack", peer="U1", text="question")["sessionKey"]
        reply = api.post("/v1/agents/main/runs/claim", {"waitMs": 5000})
        self.assertEqual(reply.status, 200, reply)
        run = reply.json
        self.inbound(api=api, channel="discord", peer="D1", text="and now here")
        body = {"fence": run["lease"]["fence"], "status": "done",
                "entries": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "one"}]},
                            {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "x", "arguments": {}}]},
                            {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": "r"}]},
                            {"role": "assistant", "text": "two"}]}
        ended = self.ok(api.post(S(key, "main", "runs", run["runId"], "finish"), body), 200)
        self.assertEqual([(d["channel"], d["to"], d["status"]) for d in ended["deliveries"]], [("slack", "U1", "pending")] * 2)
        again = self.ok(api.post(S(key, "main", "runs", run["runId"], "finish"), body), 200)
        self.assertEqual(again["deliveries"], ended["deliveries"])
        first = self.claim(api=api, channel="slack")
        self.assertEqual([(d["text"], "content" in d, d["messageId"]) for d in first], [("one", False, ended["deliveries"][0]["messageId"])])
        self.act(first[0], "ack", api=api)
        self.assertEqual([d["text"] for d in self.claim(api=api, channel="slack")], ["two"])

    def test_denied_is_stored_and_not_sent(self):
        key = self.session()
        self.adopt()
        self.ok(self.api.put(S(key, "main", "send-policy"), {"action": "deny"}), 200)
        run = self.ok(self.api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "do"}}), 201)
        ended = self.ok(self.api.post(S(key, "main", "runs", run["runId"], "finish"),
                                      {"fence": run["lease"]["fence"], "status": "done", "deliver": True,
                                       "entries": [{"role": "assistant", "text": "secret"}]}), 200)
        self.assertEqual([(d["status"], d["rule"]) for d in ended["deliveries"]], [("denied", None)])
        said = self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": "more", "deliver": True}), 201)
        self.assertEqual(said["delivery"]["status"], "denied")
        self.assertEqual(self.texts(key, query="view=chat&limit=200&order=asc"), ["do", "secret", "more"])
        self.claim(204)
        appended = [data for _, data in self.events(key, "message.appended") if data.get("delivery")]
        self.assertEqual([(data["delivery"]["status"], "deliver" in data) for data in appended], [("denied", False)] * 2)

    def test_a_nack_tries_again_and_a_late_word_is_refused(self):
        key = self.session()
        self.adopt()
        ids = [self.say(key, text)["delivery"]["deliveryId"] for text in ("one", "two", "three")]
        one = self.claim()[0]
        failed = self.nack(one, final=True)
        self.assertEqual((failed["status"], failed["error"]), ("failed", {"code": "net", "message": "no route"}))
        two = self.claim()[0]
        self.assertEqual(two["deliveryId"], ids[1])
        waits = self.nack(two, retryAfterMs=300)
        self.assertEqual((waits["status"], waits["attempt"]), ("pending", 1))
        self.claim(204)  # and the third waits behind it
        retried = self.claim(waitMs=5000)[0]
        self.assertEqual((retried["deliveryId"], retried["attempt"]), (ids[1], 2))
        self.nack(two, 409)
        self.problem(self.api.post(f"/v1/deliveries/{ids[1]}/extend", {"attempt": 1, "leaseMs": 5000}), 409, "lease_lost")
        longer = self.act(retried, "extend", {"attempt": 2, "leaseMs": 500_000})
        self.assertGreater(longer["leaseUntil"], retried["leaseUntil"])
        sent = self.act(two, "ack", {"platformMessageId": "p2", "parts": ["a", "b"]})
        self.assertEqual((sent["status"], sent["parts"], "text" in sent), ("sent", ["a", "b"], False))
        self.assertEqual(self.act(two, "ack", {"platformMessageId": "other"})["platformMessageId"], "p2")
        self.assertEqual(self.act(one, "ack", {"platformMessageId": "p1"})["status"], "sent")  # it was, after all
        self.assertEqual(self.claim()[0]["deliveryId"], ids[2])
        noted = self.ok(self.api.get(S(key, "main", "messages") + "?types=custom"), 200)["data"]
        self.assertEqual([(n["customType"], n["data"]["platformMessageId"], n["data"]["target"]["seq"]) for n in noted],
                         [("sessiond.delivered", "p2", 1), ("sessiond.delivered", "p1", 0)])

    def test_nothing_is_kept_where_nobody_claims(self):
        key = self.session()
        self.assertEqual(self.say(key)["delivery"], {"channel": self.channel, "to": "u1", "accountId": None, "threadId": None, "status": "event"})
        self.adopt()
        self.claim(204)
        made = self.say(key, to="u2", threadId=7)["delivery"]
        self.assertEqual((made["to"], made["threadId"], made["status"]), ("u2", 7, "pending"))
        plain = self.session(channel="x" + self.channel)
        self.assertEqual(self.say(plain)["delivery"]["status"], "event")
        self.assertIsNone(self.say(key, mirrorOnly=True)["delivery"])
        self.assertEqual([d["to"] for d in self.claim()], ["u2"])

    def test_a_claim_waits_and_adopts_what_comes_later(self):
        token = self.daemon.client(self.daemon.token("bridge", channel=self.channel))
        got = []
        waiter = threading.Thread(target=lambda: got.append(token.post("/v1/deliveries/claim", {"waitMs": 10_000})))
        waiter.start()
        time.sleep(0.3)
        key = self.session()
        self.say(key, "hello", mediaUrls=["https://x/y.png"])
        waiter.join()
        delivery = got[0].json["data"][0]
        self.assertEqual((delivery["text"], delivery["mediaUrls"], len(delivery["deliveryId"])), ("hello", ["https://x/y.png"], 24))

    def test_what_is_given_up_is_told(self):
        daemon = self.spawn({"deliveries": {"maxAttempts": 2, "maxAgeMs": 2000}})
        api = daemon.client()
        key = self.session(api=api)
        self.adopt(api=api)
        tried = self.say(key, "a", api=api)["delivery"]["deliveryId"]
        for attempt in (1, 2):
            self.assertEqual(self.claim(api=api, waitMs=2000)[0]["attempt"], attempt)
            self.act(tried, "nack", {"attempt": attempt, "error": {"code": "x"}, "retryAfterMs": 0}, api=api)
        self.assertEqual(self.shown(tried, api=api)["error"]["code"], "too_many_attempts")
        old = self.say(key, "b", api=api)["delivery"]["deliveryId"]
        end = time.monotonic() + 10
        while self.shown(old, api=api)["status"] == "pending" and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.shown(old, api=api)["error"]["code"], "too_old")
        self.assertEqual(api.get("/readyz").json["failedDeliveries"], 2)
        metrics = api.get("/metrics").raw.decode()
        self.assertIn('sessiond_deliveries{status="failed"} 2', metrics)
        self.assertIn("sessiond_delivery_oldest_seconds 0", metrics)
        self.assertEqual([type_ for type_, _ in self.events(key, "delivery.failed", api=api)], ["delivery.failed"] * 2)
        again = self.act(tried, "retry", api=api)
        self.assertEqual((again["status"], again["attempt"], "error" in again), ("pending", 2, False))
        self.assertEqual([(d["text"], d["attempt"]) for d in self.claim(api=api)], [("a", 3)])
        self.problem(api.post(f"/v1/deliveries/{tried}/nack", {"attempt": 1, "error": {"code": "late"}, "final": True}), 409, "lease_lost")
        dropped = self.ok(api.delete("/v1/deliveries/" + old), 200)
        self.assertEqual(dropped["error"]["code"], "given_up")
        self.assertEqual(api.get("/readyz").json["failedDeliveries"], 0)

    def test_each_try_that_failed_says_when_and_why(self):
        key = self.session()
        self.adopt()
        said = self.say(key, "hello")["delivery"]["deliveryId"]
        fresh = self.shown(said)
        self.assertEqual([name for name in ("claimedBy", "failedAt", "final", "failedTries") if name in fresh], [])
        token = self.api.get("/v1/whoami").json["id"]
        first = self.claim()[0]
        self.assertEqual(first["claimedBy"], token)
        long = "\u00e9" * 2000
        self.act(first, "nack", {"attempt": 1, "error": {"code": "busy", "message": long}, "retryAfterMs": 0})
        silent = self.claim(waitMs=5000, leaseMs=1000)[0]
        self.assertEqual(silent["attempt"], 2)
        third = self.claim(waitMs=10_000)[0]
        before = self.shown(said)
        self.assertEqual((before["status"], "failedAt" in before, "final" in before), ("leased", False, False))
        self.act(third, "nack", {"attempt": 3, "error": {"code": "50001", "message": "Missing Access"}, "final": True})
        failed = self.shown(said)
        self.assertEqual([(one["attempt"], one.get("error")) for one in failed["failedTries"]],
                         [(1, {"code": "busy", "message": "\u00e9" * 100}), (2, None), (3, {"code": "50001", "message": "Missing Access"})])
        self.assertEqual(failed["failedTries"][-1]["at"], failed["failedAt"])
        self.assertIs(failed["final"], True)
        at = failed["failedAt"]
        again = self.act(failed, "retry")
        self.assertEqual((again["status"], "failedAt" in again, "final" in again, len(again["failedTries"])), ("pending", False, False, 3))
        for attempt in range(4, 14):
            taken = self.claim(waitMs=5000)[0]
            self.act(taken, "nack", {"attempt": attempt, "error": {"code": "x"}, "retryAfterMs": 0})
        tries = [(one["attempt"], one["error"]["code"]) for one in self.shown(said)["failedTries"]]
        self.assertEqual(tries, [(attempt, "x") for attempt in range(9, 14)], "the last five, and the bridge's own word on the last one")
        self.daemon.restart(kill=True)
        kept = self.shown(said)
        self.assertEqual((kept["status"], kept["error"]["code"], len(kept["failedTries"]), kept["claimedBy"]), ("failed", "too_many_attempts", 5, token))
        self.assertGreaterEqual(kept["failedAt"], at)
        dropped = self.ok(self.api.delete("/v1/deliveries/" + said), 200)
        self.assertEqual((dropped["error"]["code"], dropped["failedAt"]), ("given_up", kept["failedAt"]), "giving up is no try")
        self.assertEqual(len(dropped["failedTries"]), 5)
        sent = self.act(dropped, "ack")
        self.assertEqual([name for name in ("failedAt", "final", "failedTries") if name in sent], [])

    def test_a_try_says_what_its_bridge_said_and_no_more(self):
        key = self.session()
        self.adopt()
        silent = self.say(key)["delivery"]["deliveryId"]
        token = self.claim()[0]["claimedBy"]
        other = self.daemon.client(self.daemon.token("operator"))
        extended = self.ok(other.post(f"/v1/deliveries/{silent}/extend", {"attempt": 1, "leaseMs": 60_000}), 200)
        self.assertEqual(extended["claimedBy"], token, "who extends a lease has not claimed it")
        dropped = self.ok(self.api.delete("/v1/deliveries/" + silent), 200)
        self.assertEqual((dropped["error"]["code"], "failedTries" in dropped), ("given_up", False), "giving up is no try")
        daemon = self.spawn({"deliveries": {"maxAttempts": 2}})
        api = daemon.client()
        key = self.session(api=api)
        self.adopt(api=api)
        said = self.say(key, api=api)["delivery"]["deliveryId"]
        first = self.claim(api=api)[0]
        self.act(first, "nack", {"attempt": 1, "error": {"code": "busy", "message": "later"}, "retryAfterMs": 0}, api=api)
        self.claim(api=api, waitMs=5000, leaseMs=1000)
        failed = eventually(lambda: (now := self.shown(said, api=api))["status"] == "failed" and now, timeout=20)
        self.assertEqual((failed["error"]["code"], failed["error"]["message"]), ("too_many_attempts", "2 attempts, as many as deliveries.maxAttempts allows: later"))
        self.assertEqual([(one["attempt"], one.get("error")) for one in failed["failedTries"]], [(1, {"code": "busy", "message": "later"}), (2, None)])

    def test_reset_and_deletion_leave_them_and_a_purge_does_not(self):
        self.adopt()
        key = self.session()
        self.say(key, "before the reset")
        self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        claimed = self.claim()[0]
        self.assertEqual(claimed["text"], "before the reset")
        self.act(claimed, "ack", {"platformMessageId": "p"})
        deleted = self.session()
        self.say(deleted, "before the end")
        self.assertEqual(self.api.delete(S(deleted)).status, 204)
        self.assertEqual(self.act(self.claim()[0], "ack")["status"], "sent")
        purged = self.session()
        made = self.say(purged, "never to be seen")["delivery"]
        self.assertEqual(self.api.delete(S(purged) + "?purge=true").status, 204)
        shown = self.shown(made)
        self.assertEqual((shown["status"], shown["error"]["code"], "text" in shown), ("failed", "purged", False))
        self.claim(204)
        self.assertEqual(self.act(made, "retry")["status"], "failed")  # there is nothing to send

    def test_a_token_claims_and_names_only_what_it_sees(self):
        mine, other = self.session(), self.session(channel="y" + self.channel)
        self.adopt()
        self.adopt(channel="y" + self.channel)
        seen, hidden = self.say(mine)["delivery"], self.say(other)["delivery"]
        bridge = self.daemon.client(self.daemon.token("bridge", channel=self.channel))
        narrow = self.daemon.client(self.daemon.token("bridge", keyPrefix=mine))
        for token in (bridge, narrow):
            listed = self.ok(token.get("/v1/deliveries"), 200)["data"]
            self.assertEqual([d["deliveryId"] for d in listed if d["deliveryId"] in (seen["deliveryId"], hidden["deliveryId"])], [seen["deliveryId"]])
            for verb, body in (("ack", {}), ("nack", {"attempt": 1, "error": {"code": "x"}}), ("extend", {"attempt": 1})):
                path = "/v1/deliveries/{}/" + verb
                refused = self.problem(token.post(path.format(hidden["deliveryId"]), body), 404, "delivery_not_found")
                absent = self.problem(token.post(path.format("0" * 24), body), 404, "delivery_not_found")
                self.assertEqual(refused["detail"].replace(hidden["deliveryId"], "0" * 24), absent["detail"])
        self.problem(bridge.post("/v1/deliveries/claim", {"channel": "y" + self.channel}), 404, "delivery_not_found")
        self.problem(narrow.post("/v1/deliveries/claim", {"keyPrefix": other}), 404, "delivery_not_found")
        limited = self.daemon.client(self.daemon.token("bridge", agents=["main"]))
        self.problem(limited.post("/v1/deliveries/claim", {"agent": "else"}), 404, "delivery_not_found")
        self.assertEqual([d["deliveryId"] for d in self.claim(api=narrow, channel="")], [seen["deliveryId"]])
        self.problem(bridge.post(f"/v1/deliveries/{seen['deliveryId']}/retry", {}), 403, "forbidden")
        self.problem(bridge.delete(f"/v1/deliveries/{seen['deliveryId']}"), 403, "forbidden")
        runner = self.daemon.client(self.daemon.token("runner"))
        self.problem(runner.post("/v1/deliveries/claim", {}), 403, "forbidden")
        # What a token limited to a prefix adopts is within its prefix.
        fresh = "z" + self.channel
        prefixed = self.daemon.client(self.daemon.token("bridge", keyPrefix=f"agent:main:{fresh}:direct:a"))
        self.claim(204, api=prefixed, channel=fresh)
        inside = self.new(f"agent:main:{fresh}:direct:a1", deliveryContext={"channel": fresh, "to": "a1"})["key"]
        outside = self.new(f"agent:main:{fresh}:direct:b1", deliveryContext={"channel": fresh, "to": "b1"})["key"]
        self.assertEqual([self.say(key)["delivery"]["status"] for key in (inside, outside)], ["pending", "event"])

    def test_a_message_sent_again_has_one_delivery(self):
        key = self.session()
        self.adopt()
        first = self.say(key, "once", messageId="m1")["delivery"]
        self.assertEqual(self.say(key, "once", messageId="m1")["delivery"], first)
        self.assertEqual(len(self.claim()), 1)

    def test_deliver_of_messages(self):
        key = self.session()
        self.adopt()
        path = S(key, "main", "messages")
        self.problem(self.api.post(path, {"role": "user", "text": "x", "deliver": True}), 422, "validation_failed")
        self.assertNotIn("delivery", self.ok(self.api.post(path, {"role": "assistant", "text": "x", "deliver": False}), 201))
        several = self.ok(self.api.post(path, {"deliver": {"to": "u9", "mediaUrls": ["https://x/z.png"]}, "entries": [
            {"role": "user", "text": "q"}, {"role": "assistant", "text": "a"}]}), 201)
        self.assertEqual([(d["to"], d["messageId"]) for d in several["deliveries"]], [("u9", several["ids"][1])])
        claimed = self.claim()[0]
        self.assertEqual((claimed["text"], claimed["mediaUrls"]), ("a", ["https://x/z.png"]))
        of_session = self.daemon.client(self.daemon.token("session", agents=["main"], key=key))
        self.problem(of_session.post(path, {"role": "assistant", "text": "x", "deliver": True}), 403, "forbidden")

    def test_a_stream_of_deliveries(self):
        key = self.session()
        self.adopt()
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "text": "x"}), 201)
        self.say(key, "answer")
        self.act(self.claim()[0], "ack")
        epoch = self.ok(self.api.get(S(key, "main", "context")), 200)["asOf"].split("-")[0]
        reply = self.ok(self.api.get(S(key, "main", "events") + f"?poll=1&waitMs=5000&limit=1000&after={epoch}-0&deliver=true"), 200)
        self.assertEqual([event["type"] for event in reply["data"]], ["message.appended", "delivery.leased", "delivery.sent"])

    def test_a_damaged_outbox_is_made_again_from_the_journal(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.session(api=api)
        self.adopt(api=api)
        ids = [self.say(key, str(n), api=api)["delivery"]["deliveryId"] for n in range(3)]
        self.act(self.claim(api=api)[0], "ack", {"platformMessageId": "p"}, api=api)
        daemon.stop()
        file = daemon.state / "journal" / "outbox" / "main.log"
        text = bytearray(file.read_bytes())
        text[len(text) // 2] ^= 1
        file.write_bytes(bytes(text))
        daemon.start()
        api = daemon.client()
        self.assertEqual([self.shown(id_, api=api)["status"] for id_ in ids], ["sent", "pending", "pending"])
        self.assertEqual([d["deliveryId"] for d in self.claim(api=api)], [ids[1]])

    def test_a_book_that_is_gone_or_damaged_is_made_again_and_taken_up(self):
        def flip(file):
            text = file.read_bytes()
            at = text.index(b'"active":{' if b'"active":{' in text else b'"k":"d ') + 2
            file.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1:])

        for harm in (lambda file: file.unlink(), lambda file: (file.unlink(), file.mkdir()), lambda file: file.write_bytes(b""),
                     lambda file: file.write_bytes(file.read_bytes()[:10]), flip):
            daemon = self.spawn()
            api = daemon.client()
            key = self.session(api=api)
            self.adopt(api=api)
            made = self.say(key, "waits", api=api)["delivery"]
            run = self.ok(api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "q"}, "leaseMs": 1000}), 201)
            daemon.stop()
            for book in ("outbox", "runs"):
                harm(daemon.state / "journal" / book / "main.log")
            daemon.start()
            api = daemon.client()
            # Nothing has read the agent yet.
            self.assertEqual([d["deliveryId"] for d in self.claim(api=api)], [made["deliveryId"]])
            self.assertEqual(self.ok(api.get(S(key, "main", "runs", run["runId"])), 200)["runId"], run["runId"])
            eventually(lambda: self.ok(api.get(S(key, "main", "runs", run["runId"])), 200)["status"] != "running", 20,  # noqa: B023
                       what="the end of the lease")

    def test_the_command(self):
        key = self.session()
        self.adopt()
        made = self.say(key, "hello")["delivery"]["deliveryId"]
        self.assertIn(made, self.daemon.cli("deliveries", "--channel", self.channel).stdout)
        self.assertIn("given_up", self.daemon.cli("deliveries", "drop", made).stdout)
        self.assertIn("pending", self.daemon.cli("deliveries", "retry", made).stdout)
        self.assertEqual(self.daemon.cli("deliveries", "drop", "0" * 24).returncode, 4)

    def test_an_adoption_ends_when_no_claim_comes(self):
        daemon = self.spawn({"deliveries": {"adoptMs": 6000}})
        api = daemon.client()
        key = self.session(api=api)
        self.adopt(api=api)
        daemon.kill9()
        daemon.start()
        api = daemon.client()
        self.assertEqual(self.say(key, api=api)["delivery"]["status"], "pending")
        self.assertEqual(len(self.claim(api=api)), 1)
        end = time.monotonic() + 30
        while self.say(key, api=api)["delivery"]["status"] == "pending" and time.monotonic() < end:
            time.sleep(0.2)
        self.assertEqual(self.say(key, api=api)["delivery"]["status"], "event")

    def test_what_a_bridge_says_is_checked(self):
        key = self.session()
        self.adopt()
        made = self.say(key)["delivery"]["deliveryId"]
        for verb, body in (("nack", {"attempt": 1}), ("nack", {"attempt": None, "error": {"code": "x"}}), ("nack", {"attempt": 1, "error": None}),
                           ("nack", {"attempt": 1, "error": {}}), ("nack", {"attempt": 1, "error": {"code": "x"}, "final": True, "retryAfterMs": 1}),
                           ("extend", {"attempt": 1, "leaseMs": 1}), ("ack", {"parts": "x"}), ("ack", {"other": 1})):
            self.problem(self.api.post(f"/v1/deliveries/{made}/{verb}", body), 422, "validation_failed")
        for body in ({"limit": 0}, {"limit": 101}, {"waitMs": 30_001}, {"leaseMs": 999}):
            self.problem(self.api.post("/v1/deliveries/claim", body), 422, "validation_failed")
        self.problem(self.api.get("/v1/deliveries?status=denied"), 400, "bad_request")
        self.problem(self.api.get("/v1/events?poll=1&deliver=maybe"), 422, "validation_failed")

    def test_pages(self):
        key = self.session()
        self.adopt()
        for n in range(5):
            self.say(key, str(n))
        path, seen = f"/v1/deliveries?limit=2&channel={self.channel}", []
        cursor = ""
        while cursor is not None:
            page = self.ok(self.api.get(path + (f"&cursor={cursor}" if cursor else "")), 200)
            seen += [d["text"] for d in page["data"]]
            cursor = page["page"]["next"]
        self.assertEqual(sorted(seen), ["0", "1", "2", "3", "4"])

    # What a hostile review found.
    def test_another_sessions_delivery_is_not_shown(self):
        mine, other = self.session(to="+49 170"), self.session(to="u2")
        self.adopt()
        entry = {"role": "assistant", "id": "answer-1", "text": "x"}
        made = self.ok(self.api.post(S(mine, "main", "messages"), {**entry, "deliver": True}), 201)["delivery"]
        self.ok(self.api.post(S(other, "main", "messages"), entry), 201)
        self.assertIsNone(self.ok(self.api.post(S(other, "main", "messages"), {**entry, "deliver": True}), 201)["delivery"])
        again = self.ok(self.api.post(S(mine, "main", "messages"), {**entry, "deliver": True}), 201)["delivery"]
        self.assertEqual(again, made)

    def test_an_agent_that_cannot_be_served_holds_up_no_other(self):
        daemon = self.spawn()
        api = daemon.client()
        self.adopt(api=api)
        for agent in ("aa", "zz"):
            key = self.new(f"agent:{agent}:{self.channel}:direct:u", api=api, deliveryContext={"channel": self.channel, "to": "u"})["key"]
            self.ok(api.post(S(key, agent, "outbound"), {"text": "for " + agent}), 201)
        daemon.checkpoint()
        store = daemon.agent_dir("aa") / "sessions.json"
        store.unlink()
        store.mkdir()
        (store / "x").write_text("y")
        eventually(lambda: api.get("/v1/agents/aa/sessions", cache_control="no-cache").status == 503, what="the degraded agent")
        limited = daemon.client(daemon.token("bridge", keyPrefix="agent:zz:"))
        self.assertEqual([d["text"] for d in self.claim(api=limited, leaseMs=1000)], ["for zz"])
        self.claim(204, api=daemon.client(daemon.token("bridge", keyPrefix="agent:aa:")), agent="aa")
        self.problem(api.post("/v1/deliveries/claim", {"agent": "aa"}), 503, "degraded")
        self.assertEqual([d["text"] for d in self.claim(api=api, waitMs=5000)], ["for zz"])
        shutil.rmtree(store)

    def test_a_clock_that_steps_over_a_restart_fails_nothing(self):
        daemon = preload(self.spawn({"runs": {"onInbound": True}}, start=False))
        daemon.start()
        api = daemon.client()
        key = self.session(api=api)
        self.adopt(api=api)
        made = self.say(key, api=api)["delivery"]
        asked = self.inbound(api=api, text="question")["sessionKey"]
        for wall_ms in (400 * 24 * HOUR, -30 * HOUR, 0):
            daemon.page.wall_ms = wall_ms
            daemon.restart(kill=True)
            api = daemon.client()
            time.sleep(0.3)
            self.assertEqual(self.shown(made, api=api)["status"], "pending", wall_ms)
            self.assertEqual([run["status"] for run in self.ok(api.get(S(asked, "main", "runs")), 200)["data"]], ["queued"], wall_ms)

    def test_books_that_are_gone_are_made_again(self):
        def folder(file):
            file.unlink()
            file.mkdir()

        def a_file(file):
            shutil.rmtree(file.parent)
            file.parent.write_text("x")

        daemon = self.spawn()
        api = daemon.client()
        key = self.session(api=api)
        self.adopt(api=api)
        ids = [self.say(key, str(n), api=api)["delivery"]["deliveryId"] for n in range(3)]
        run = self.ok(api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "go"}}), 201)["runId"]
        sessionless = self.new(f"agent:b:{self.channel}:direct:u", api=api, deliveryContext={"channel": self.channel, "to": "u"})["key"]
        left = self.ok(api.post(S(sessionless, "b", "outbound"), {"text": "left"}), 201)["delivery"]["deliveryId"]
        self.assertEqual(api.delete(S(sessionless, "b")).status, 204)
        for gone in (lambda file: file.unlink(), folder, a_file):
            daemon.checkpoint()
            time.sleep(1.2)  # CHECKPOINT names them
            daemon.stop()
            for book in ("outbox", "runs"):
                gone(daemon.state / "journal" / book / "main.log")
            if gone is not a_file:
                gone(daemon.state / "journal" / "outbox" / "b.log")
            mark = len(daemon.stderr)
            daemon.start()
            api = daemon.client()
            self.assertEqual([self.shown(id_, api=api)["status"] for id_ in (*ids, left)], ["pending"] * 4)
            self.assertEqual([run["runId"] for run in self.ok(api.get(S(key, "main", "runs")), 200)["data"]], [run])
            told = "\n".join(daemon.stderr[mark:])
            for file in ("outbox/main.log is gone", "runs/main.log is gone", "outbox/b.log is gone"):
                self.assertIn(file, told)

    def test_no_session_holds_up_another_one(self):
        keys = [self.session() for _ in range(2)]  # with the same receiver
        bridges = [self.daemon.client(self.daemon.token("bridge", keyPrefix=key)) for key in keys]
        for bridge in bridges:
            self.claim(204, api=bridge)
        for key in keys:
            self.say(key, key)
        for key, bridge in reversed(list(zip(keys, bridges))):
            self.assertEqual([d["text"] for d in self.claim(api=bridge)], [key])

    def test_an_answer_as_an_event_goes_by_its_own_channel(self):
        daemon = self.spawn({"runs": {"onInbound": True}})
        api, runner = daemon.client(), daemon.client(daemon.token("runner"))
        slack, discord = (daemon.client(daemon.token("bridge", channel=name)) for name in ("slack", "discord"))
        key = self.inbound(api=api, channel="slack", peer="u1", text="question")["sessionKey"]
        run = self.ok(runner.post("/v1/agents/main/runs/claim", {"waitMs": 5000}), 200)
        self.ok(api.patch(S(key), {"deliveryContext": {"channel": "discord", "to": "d1"}, "channel": "discord"}), 200)
        ended = self.ok(runner.post(S(key, "main", "runs", run["runId"], "finish"),
                                    {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": "answer"}]}), 200)
        self.assertEqual([(d["channel"], d["status"]) for d in ended["deliveries"]], [("slack", "event")])
        epoch = self.ok(api.get(S(key, "main", "context")), 200)["asOf"].split("-")[0]

        def texts(client, query):
            reply = self.ok(client.get(f"/v1/events?poll=1&waitMs=5000&limit=1000&after={epoch}-0&deliver=true{query}"), 200)
            return [event["data"]["delivery"]["to"] for event in reply["data"]]

        self.assertEqual((texts(slack, ""), texts(discord, "")), (["u1"], []))
        self.assertEqual((texts(api, "&channel=slack"), texts(api, "&channel=discord")), (["u1"], []))

    def test_the_policy_is_asked_for_the_runs_address(self):
        daemon = self.spawn({"runs": {"onInbound": True}})
        api, runner = daemon.client(), daemon.client(daemon.token("runner"))
        key = self.inbound(api=api, channel="slack", peer="u1", text="question")["sessionKey"]
        run = self.ok(runner.post("/v1/agents/main/runs/claim", {"waitMs": 5000}), 200)
        self.ok(api.patch(S(key), {"deliveryContext": {"channel": "discord", "to": "d1"}, "channel": "discord"}), 200)
        policy = {"default": "allow", "rules": [{"action": "deny", "match": {"channel": "slack"}}]}
        self.ok(api.put("/v1/policy/send", policy, if_match=api.get("/v1/policy/send").etag), 200)
        held = {"X-Run": f"{run['runId']};{run['lease']['fence']}"}
        refused = runner.request("POST", S(key, "main", "outbound"), {"text": "x"}, headers=held)
        self.problem(refused, 403, "policy_denied")
        self.assertEqual(self.say(key, api=api)["delivery"]["channel"], "discord")

    def test_a_delivery_names_the_run_that_said_it(self):
        daemon = self.spawn({"runs": {"onInbound": True}})
        api = daemon.client()
        self.claim(204, api=api, channel="slack")
        key = self.inbound(api=api, channel="slack", peer="u1", text="question")["sessionKey"]
        run = self.ok(api.post("/v1/agents/main/runs/claim", {"waitMs": 5000}), 200)
        finish = {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": "answer"}]}
        self.ok(api.post(S(key, "main", "runs", run["runId"], "finish"), finish), 200)
        self.say(key, "by hand", api=api)
        daemon.restart(kill=True)
        for wanted in (run["runId"], None):
            delivery, = self.claim(api=daemon.client(), channel="slack", limit=1)
            self.assertEqual(delivery.get("runId"), wanted)
            self.act(delivery, "ack", {"attempt": delivery["attempt"]}, api=daemon.client())

    def test_a_waiting_claim_is_woken_by_what_it_covers(self):
        key = self.session(accountId="a")
        got, begun = {}, time.monotonic()

        def wait(name, **body):
            reply = self.daemon.client(self.daemon.admin_token).post("/v1/deliveries/claim", {"waitMs": 3000, **body})
            got[name] = (reply.status, time.monotonic() - begun)

        threads = [threading.Thread(target=wait, args=(name,), kwargs=body) for name, body in {
            "all of it": {"channel": self.channel, "accountId": "a", "keyPrefix": key}, "other": {"channel": "other" + self.channel}}.items()]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        self.say(key)
        for thread in threads:
            thread.join()
        self.assertEqual((got["all of it"][0], got["other"][0]), (200, 204))
        self.assertLess(got["all of it"][1], 2.5)
        self.claim(204)

    def test_answers_end_by_bytes(self):
        self.adopt()
        for agent in ("g0", "g1", "g2"):
            key = self.new(f"agent:{agent}:{self.channel}:direct:u", deliveryContext={"channel": self.channel, "to": "u"})["key"]
            self.ok(self.api.post(S(key, agent, "outbound"), {"text": "x" * (3 << 20)}), 201)
        path, pages, cursor = f"/v1/deliveries?channel={self.channel}", [], ""
        while cursor is not None:
            page = self.ok(self.api.get(path + (f"&cursor={cursor}" if cursor else "")), 200)
            pages.append(len(page["data"]))
            cursor = page["page"]["next"]
        self.assertEqual(pages, [1, 1, 1])
        self.assertEqual([len(self.claim(limit=100)), len(self.claim(limit=100))], [2, 1])

    def test_filters_replace_their_oldest_and_end_with_their_token(self):
        secret = self.daemon.token("bridge", keyPrefix="agent:main:")
        bridge = self.daemon.client(secret)
        key = self.session()
        self.claim(204, api=bridge)
        self.assertEqual(self.say(key)["delivery"]["status"], "pending")
        for n in range(100):
            self.claim(204, api=bridge, channel=f"{self.channel}-{n}")
        self.assertEqual(self.say(key)["delivery"]["status"], "event")
        self.claim(api=bridge)
        self.assertEqual(self.say(key)["delivery"]["status"], "pending")
        self.assertEqual(self.api.delete("/v1/admin/tokens/" + secret.split("_")[1]).status, 204)
        self.assertEqual(self.say(key)["delivery"]["status"], "event")

    def test_agents_of_approvals_are_named_as_elsewhere(self):
        self.ok(self.api.get("/v1/approvals?agent=MAIN"), 200)
        self.problem(self.api.get("/v1/approvals?agent=.."), 400, "bad_request")

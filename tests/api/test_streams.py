"""What is around the event stream: long polling of the same log, what is published and not kept, operators' view of who listens."""

import json
import re
import signal
import socket
import threading
import time
from http.client import HTTPConnection, HTTPException

from harness.case import Case, S, text_of, uid
from harness.sessiond import SLOW, eventually

runs = {"asan", "tsan"}


class Waiting:
    """A request that is on its way: sent when made, answered when asked for."""

    def __init__(self, daemon, path, token=None):
        self.connection = HTTPConnection("127.0.0.1", daemon.port, timeout=40 * SLOW)
        self.connection.request("GET", path, headers={"Authorization": "Bearer " + (token or daemon.admin_token)})
        daemon.client().get("/healthz")  # answered after the daemon has seen the other

    def answer(self):
        response = self.connection.getresponse()
        body = response.read()
        self.connection.close()
        return response.status, json.loads(body)


class Poll(Case):
    def poll(self, query="", api=None, status=200, path="/v1/events"):
        return self.ok((api or self.api).get(f"{path}?poll=1{query}"), status)

    def test_the_same_log_in_pages(self):
        key = self.new()["key"]
        start = self.poll("&waitMs=0")
        self.assertEqual(start["data"], [])
        for i in range(25):
            self.say(key, f"page {i}")
        seen, at = [], start["next"]
        while True:
            page = self.poll(f"&after={at}&limit=7&waitMs=0")
            if not page["data"]:
                self.assertEqual(page["next"], at)
                break
            self.assertLessEqual(len(page["data"]), 7)
            self.assertNotIn("gap", page)
            seen += page["data"]
            at = page["next"]
            self.assertEqual(at.split("-")[1], str(page["data"][-1]["seq"]))
        with self.api.stream("/v1/events", start["next"]) as stream:
            stream.wait_seq(seen[-1]["seq"])
            self.assertEqual([e.data for e in stream.durable], seen)

    def test_waits_for_the_first_event_and_no_longer(self):
        key = self.new()["key"]
        at = self.poll("&waitMs=0")["next"]
        waiting = Waiting(self.daemon, f"/v1/events?poll=1&after={at}&types=message.*&waitMs=30000")
        self.api.patch(S(key), {"x": 1})  # not for it
        self.say(key, "at last")
        status, page = waiting.answer()
        self.assertEqual(status, 200)
        self.assertEqual([text_of(e["data"]["message"]) for e in page["data"]], ["at last"])
        self.assertEqual(page["next"].split("-")[1], str(page["data"][0]["seq"]))

    def test_position_moves_over_what_is_not_for_it(self):
        key = self.new()["key"]
        at = self.poll("&waitMs=0")["next"]
        self.say(key, "not for it")
        page = self.poll(f"&after={at}&types=policy.*&waitMs=100")
        self.assertEqual(page["data"], [])
        self.assertGreater(int(page["next"].split("-")[1]), int(at.split("-")[1]))

    def test_gaps(self):
        head = self.poll("&waitMs=0")["next"]
        epoch, seq = head.split("-")
        ahead = self.poll(f"&after={epoch}-{int(seq) + 1000}")
        self.assertEqual((ahead["gap"]["reason"], ahead["data"]), ("ahead", []))
        other = self.poll(f"&after={'0' * 8 if epoch != '0' * 8 else '1' * 8}-1")
        self.assertEqual(other["gap"]["reason"], "epoch")
        self.assertTrue(other["gap"]["resync"])

    def test_of_a_session_and_replay(self):
        one, two = self.new()["key"], self.new()["key"]
        for i in range(4):
            self.say(one, f"one {i}")
            self.say(two, f"two {i}")
        page = self.poll("&replay=2&types=message.*&waitMs=0", path=S(one) + "/events")
        self.assertEqual([text_of(e["data"]["message"]) for e in page["data"]], ["one 2", "one 3"])

    def test_what_is_refused(self):
        self.problem(self.api.get("/v1/events?poll=2"), 400, "bad_request")
        self.problem(self.api.get("/v1/events?poll=1&waitMs=70000"), 400, "bad_request")
        self.problem(self.api.get("/v1/events?waitMs=7"), 400, "bad_request")
        self.problem(self.api.get("/v1/events?poll=1&after=x"), 400, "bad_request")
        self.problem(self.api.get("/v1/events?poll=1", headers={"Accept": "text/event-stream"}), 406, "not_acceptable")

    def test_a_token_revoked_meanwhile_gets_nothing(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        at = self.poll("&waitMs=0")["next"]
        waiting = Waiting(self.daemon, f"/v1/events?poll=1&after={at}&types=message.*&waitMs=20000", made["token"])
        self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
        self.say(self.new()["key"], "not for it any more")
        self.assertEqual(waiting.answer()[0], 401)

    def test_a_token_narrowed_meanwhile_sees_what_it_may_see_now(self):
        daemon = self.spawn()
        api = daemon.client()
        one, two = self.new(api=api)["key"], self.new(api=api)["key"]
        made = self.ok(api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        at = self.poll("&waitMs=0", api)["next"]
        waiting = Waiting(daemon, f"/v1/events?poll=1&after={at}&types=message.*&waitMs=30000", made["token"])
        file = daemon.state / "tokens.json"
        tokens = json.loads(file.read_bytes())
        next(t for t in tokens["tokens"] if t["id"] == made["id"])["keyPrefix"] = two
        file.write_text(json.dumps(tokens))
        daemon.process.send_signal(signal.SIGHUP)
        with api.stream("/v1/events?replay=1&types=config.*") as stream:
            stream.wait_type("config.reloaded")
        self.say(one, "no more for it", api=api)
        self.say(two, "for it", api=api)
        self.assertEqual([text_of(e["data"]["message"]) for e in waiting.answer()[1]["data"]], ["for it"])


class Passing(Case):
    """typing and deltas"""

    def test_typing_and_deltas_reach_who_listens_and_are_kept_nowhere(self):
        key = self.new()["key"]
        with self.api.stream() as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.post(S(key, "main", "typing")), 204)
            typing = stream.wait_type("session.typing")
            self.ok(self.api.post(S(key, "main", "deltas"), {"runId": "r1", "text": "Hel"}), 204)
            delta = stream.wait_type("text.delta")
            said = self.say(key, "after")
            stream.wait_for(lambda e: "after" in e.raw)
            ids = [e.id for e in stream.events if e.type in ("session.typing", "text.delta")]
        self.assertEqual(set(ids), {None})
        self.assertEqual((typing.data["key"], typing.data["data"]), (key, {}))
        self.assertEqual(delta.data["data"], {"runId": "r1", "text": "Hel"})
        self.assertNotIn("seq", delta.data)
        self.assertTrue(said)
        with self.api.stream("/v1/events?replay=50") as again:
            again.wait_for(lambda e: "after" in e.raw)
            self.assertEqual([e for e in again.events if e.type in ("session.typing", "text.delta")], [])

    def test_pieces_of_a_run_are_all_there_in_order(self):
        key = self.new()["key"]
        with self.api.stream("/v1/events?types=text.delta") as stream:
            stream.wait_type("stream.hello")
            for i in range(200):
                self.ok(self.api.post(S(key, "main", "deltas"), {"runId": "r", "text": f"{i} "}), 204)
            whole = "".join(f"{i} " for i in range(200))

            def got():
                return "".join(e.data["data"]["text"] for e in list(stream.events) if e.type == "text.delta")
            stream.wait_for(lambda _: got() == whole)

    def test_filters_and_scope(self):
        key, other = self.new()["key"], self.new()["key"]
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer", "keyPrefix": key}), 201)
        viewer = self.daemon.client(made["token"])
        with viewer.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.post(S(other, "main", "typing")), 204)
            self.ok(self.api.post(S(key, "main", "typing")), 204)
            stream.wait_type("session.typing")
            self.assertEqual([e.data["key"] for e in stream.events if e.type == "session.typing"], [key])
        self.problem(viewer.post(S(key, "main", "typing")), 403)

    def test_what_is_refused(self):
        key = self.new()["key"]
        self.invalid(self.api.post(S(key, "main", "deltas"), {"runId": "r"}), "/text")
        self.invalid(self.api.post(S(key, "main", "typing"), {"nonsense": 1}), "/nonsense")
        self.problem(self.api.post(S("agent:main:nobody", "main", "typing")), 404, "session_not_found")


class Operators(Case):
    def streams(self):
        return self.ok(self.api.get("/v1/admin/streams"), 200)["data"]

    def test_who_is_connected_and_closing_one(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        with self.daemon.client(made["token"]).stream("/v1/events?types=message.*") as stream:
            stream.wait_type("stream.hello")
            mine = [s for s in self.streams() if s["token"] == made["id"]]
            self.assertEqual(len(mine), 1)
            self.assertEqual(mine[0]["filters"], {"types": ["message.*"]})
            self.assertTrue(mine[0]["peer"].startswith("127.0.0.1:"))
            self.assertEqual(mine[0]["lag"]["events"], 0)
            self.ok(self.api.delete(f"/v1/admin/streams/{mine[0]['id']}"), 204)
            stream.wait_end()
        self.problem(self.api.delete(f"/v1/admin/streams/{mine[0]['id']}"), 404, "not_found")
        self.problem(self.api.delete("/v1/admin/streams/x"), 404, "not_found")

    def test_a_reader_that_takes_nothing_is_named_and_closed(self):
        daemon = self.spawn({"stream": {"stallTimeoutMs": 1000, "tailBytes": 1 << 20}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        made = self.ok(api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        quiet = socket.create_connection(("127.0.0.1", daemon.port))
        self.addCleanup(quiet.close)
        quiet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        quiet.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {made['token']}\r\n\r\n".encode())
        deadline = time.monotonic() + 60
        while True:  # until its socket is full
            self.say(key, "x" * 200_000, api=api)
            blocked = [s for s in self.ok(api.get("/v1/admin/streams"), 200)["data"] if s["state"] == "blocked"]
            if blocked or time.monotonic() > deadline:
                break
        self.assertEqual([s["token"] for s in blocked], [made["id"]])
        self.say(key, "one more", api=api)
        metrics = api.get("/metrics").raw.decode()
        self.assertRegex(metrics, r'sessiond_stream_lag_events\{[^}]*token="' + made["id"])
        while "sessiond_streams_stalled_total 1" not in api.get("/metrics").raw.decode():
            self.assertLess(time.monotonic(), deadline)
        line = eventually(lambda: [row for row in daemon.stderr if "stream_closed" in row and "reason=stalled" in row], what="the log telling it")
        self.assertIn("token=" + made["id"], line[0])
        self.assertRegex(line[0], r"lag=[1-9]\d* lag_bytes=[1-9]")


class Exact(Case):
    def test_awkward_text_arrives_exactly(self):
        key = self.new()["key"]
        texts = ["cr\rlf\ncrlf\r\nend", "nul \u0000 here", "line\u2028sep\u2029par", "é😀 " + uid(), "x" * (1 << 20), ": ping\n\ndata: {}"]
        with self.api.stream() as stream:
            stream.wait_type("stream.hello")
            for text in texts:
                self.say(key, text)
            stream.wait_for(lambda e: "ping" in e.raw and e.type == "message.appended")
            live = [text_of(e.data["data"]["message"]) for e in stream.events if e.type == "message.appended"]
        self.assertEqual(live, texts)
        sent = int(float(re.search(r"(?m)^sessiond_sent_bytes_total (\S+)", self.api.get("/metrics").raw.decode())[1]))
        self.assertGreater(sent, 1 << 20, "what streams send is counted")
        with self.api.stream("/v1/events?replay=6&types=message.*") as stream:
            stream.wait_for(lambda e: "ping" in e.raw and e.type == "message.appended")
            self.assertEqual([text_of(e.data["data"]["message"]) for e in stream.events if e.type == "message.appended"], texts)


class Many(Case):
    """Readers that leave and come back, while writers write and the daemon is killed."""

    def write(self, number):
        while not self.stop.is_set():
            name = f"{number}.{self.sent[number]}"
            try:
                reply = self.daemon_now.client().post(S(self.keys[number], "main", "messages"), {"role": "user", "text": name},
                                                      headers={"Idempotency-Key": name})
            except (OSError, HTTPException):  # it is down
                time.sleep(0.01)
                continue
            if reply.status not in (200, 201):
                self.faults.append(str(reply))
                return
            self.sent[number] += 1

    def follow(self, seqs, most):
        """Reads about `most` events a connection, until it has the goal."""
        at = self.begin_at
        while self.goal is None or not seqs or seqs[-1] < self.goal:
            if time.monotonic() > self.deadline:
                self.faults.append(f"a reader never got there: {seqs[-3:]} of {self.goal}")
                return
            try:
                with self.daemon_now.client().stream("/v1/events", at) as stream:
                    try:
                        stream.wait_until(lambda s: s.ended or len(s.events) > most or (s.seqs() and s.seqs()[-1] == self.goal), 1)
                    except AssertionError:
                        pass  # nothing new for a while
            except (OSError, HTTPException):
                time.sleep(0.01)
                continue
            seqs += stream.seqs()
            at = stream.last_id or at

    def test_kill_9(self):
        self.daemon_now = daemon = self.spawn()
        api = daemon.client()
        self.keys = [self.new(api=api)["key"] for _ in range(4)]
        self.begin_at = self.ok(api.get("/v1/events?poll=1&waitMs=0"), 200)["next"]
        self.stop, self.faults, self.sent, self.goal = threading.Event(), [], [0] * 4, None
        self.deadline = time.monotonic() + 60 * SLOW
        seen = [[], [], [], []]
        writers = [threading.Thread(target=self.write, args=(n,)) for n in range(4)]
        readers = [threading.Thread(target=self.follow, args=(one, 10 + 40 * n)) for n, one in enumerate(seen)]
        for thread in writers + readers:
            thread.start()
        for _ in range(4):
            enough = sum(self.sent) + 40
            while sum(self.sent) < enough and not self.faults and time.monotonic() < self.deadline:
                time.sleep(0.01)
            daemon.kill9()
            daemon.start()
        self.stop.set()
        for thread in writers:
            thread.join()
        head = self.ok(daemon.client().get("/v1/events?poll=1&waitMs=0"), 200)["next"]
        self.goal = int(head.split("-")[1])
        for thread in readers:
            thread.join()
        self.assertEqual(self.faults, [])
        first = int(self.begin_at.split("-")[1]) + 1
        for seqs in seen:
            self.assertEqual(seqs, list(range(first, self.goal + 1)))

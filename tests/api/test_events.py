"""The event stream: every event once, in order, live or replayed, whatever the filter."""

import fnmatch
import json
import threading
import time

from harness.case import Case, S, text_of, uid
from harness.sse import StreamRefused

runs = {"asan", "release", "tsan"}

ENVELOPE = ["seq", "time", "type", "agent", "key", "sessionId", "channel", "chatType", "topic", "actor", "source",
            "data"]


def contiguous(seqs):
    return all(b == a + 1 for a, b in zip(seqs, seqs[1:]))


class Stream(Case):
    def head(self):
        return self.api.get("/v1/sessions?limit=1").json["asOf"]

    def test_hello_and_headers(self):
        head = self.head()
        with self.api.stream() as stream:
            hello = stream.wait_type("stream.hello")
            self.assertEqual(stream.headers["Content-Type"].split(";")[0], "text/event-stream")
            self.assertEqual(stream.headers["Cache-Control"], "no-store, no-transform")
            self.assertEqual(stream.headers["X-Accel-Buffering"], "no")
            self.assertTrue(stream.headers["X-Request-Id"])
            self.assertEqual(stream.retry, 2000)
            self.assertEqual(hello, stream.events[0])
            epoch, seq = head.split("-")
            self.assertEqual(hello.data["epoch"], epoch)
            self.assertGreaterEqual(hello.data["head"], int(seq))
            self.assertLessEqual(hello.data["oldest"], hello.data["head"] + 1)
            self.assertIn("version", hello.data)
            self.assertIn("filters", hello.data)
            self.assertEqual(hello.id, f"{epoch}-{hello.data['head']}",
                             "its id is the position the stream starts after")

    def test_live_and_whole(self):
        with self.api.stream() as stream:
            stream.wait_type("stream.hello")
            got = self.inbound(chatType="channel", peer="C" + uid(), text="live one")
            event = stream.wait_for(lambda e: "live one" in e.raw)
        data = event.data
        self.assertEqual([name for name in ENVELOPE if name not in data], [])
        self.assertEqual((data["type"], data["agent"], data["key"], data["sessionId"], data["channel"],
                          data["chatType"], data["topic"], data["source"]),
                         ("message.appended", "main", got["sessionKey"], got["sessionId"], "slack", "channel", None,
                          "api"))
        self.assertEqual((event.type, event.id.split("-")[1]), (data["type"], str(data["seq"])))
        self.assertEqual((data["data"]["message"]["id"], data["data"]["message"]["seq"],
                          text_of(data["data"]["message"])),
                         (got["messageId"], got["seq"], "live one"))
        self.assertEqual(data["data"]["set"]["messageCount"], 1, "counters are resulting values")
        self.assertTrue(data["actor"])
        self.assertTrue(contiguous(stream.seqs()))

    def test_one_event_for_each_entry(self):
        key = self.new()["key"]
        with self.api.stream("/v1/events?types=message.appended&keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            body = self.ok(self.api.post(S(key, "main", "messages"),
                                         {"entries": [{"role": "user", "text": str(i)} for i in range(30)]}), 201)
            stream.wait_for(lambda e: e.type == "message.appended"
                            and e.data["data"]["message"]["seq"] == body["lastSeq"])
            self.assertEqual([e.data["data"]["message"]["id"] for e in stream.durable], body["ids"])

    def test_text_cannot_break_the_framing(self):
        key = self.new()["key"]
        text = "a\r\nid: 0-0\n\ndata: {}\r\revent: x\0\u2028\u2029\x85 b"
        with self.api.stream("/v1/events?keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            self.say(key, text)
            event = stream.wait_type("message.appended")
            self.assertEqual(text_of(event.data["data"]["message"]), text)
            self.assertNotIn("\r", event.raw)
            self.assertNotIn("\n", event.raw)

    def test_resume(self):
        key = self.new()["key"]
        self.say(key, "before")
        with self.api.stream() as stream:
            stream.wait_type("stream.hello")
            self.say(key, "first")
            last = stream.wait_for(lambda e: "first" in e.raw).id
        sent = [self.say(key, f"while away {i}")["asOf"] for i in range(25)]
        with self.api.stream(last_event_id=last) as stream:
            hello = stream.wait_type("stream.hello")
            self.assertEqual(hello.id, last)
            self.say(key, "back")
            stream.wait_for(lambda e: "back" in e.raw)
            self.assertEqual(stream.seqs()[0], int(last.split("-")[1]) + 1)
            self.assertTrue(contiguous(stream.seqs()))
            self.assertEqual([e.id for e in stream.durable][:-1], sent)

    def test_after_and_precedence_of_the_header(self):
        key = self.new()["key"]
        ids = [self.say(key, f"n{i}")["asOf"] for i in range(5)]
        with self.api.stream(f"/v1/events?after={ids[1]}") as stream:
            stream.wait_for(lambda e: "n4" in e.raw)
            self.assertEqual([e.id for e in stream.durable], ids[2:])
        with self.api.stream(f"/v1/events?after={ids[0]}", last_event_id=ids[3]) as stream:
            stream.wait_for(lambda e: "n4" in e.raw)
            self.assertEqual([e.id for e in stream.durable], ids[4:])

    def test_replay_of_the_last_n(self):
        key = self.new()["key"]
        ids = [self.say(key, f"r{i}")["asOf"] for i in range(10)]
        with self.api.stream("/v1/events?replay=4") as stream:
            stream.wait_for(lambda e: "r9" in e.raw)
            self.assertEqual([e.id for e in stream.durable], ids[6:])
        with self.api.stream(f"/v1/events?replay=3&types=message.*&keyPrefix={key}") as stream:
            self.new()  # does not match
            self.say(key, "r10")
            stream.wait_for(lambda e: "r10" in e.raw)
            self.assertEqual([text_of(e.data["data"]["message"]) for e in stream.durable][-1], "r10")
            self.assertTrue(set(e.data["key"] for e in stream.durable) == {key})

    def test_resume_after_a_kill(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        stream = api.stream()
        stream.wait_type("stream.hello")
        ids = [self.say(key, f"k{i}", api=api)["asOf"] for i in range(5)]
        stream.wait_for(lambda e: "k2" in e.raw)
        daemon.kill9()
        stream.wait_end()
        stream.close()
        seen = stream.durable
        self.assertTrue(contiguous(stream.seqs()))
        daemon.start()
        ids += [self.say(key, f"k{i}", api=api)["asOf"] for i in range(5, 8)]
        with api.stream(last_event_id=stream.last_id) as more:
            more.wait_for(lambda e: "k7" in e.raw)
            self.assertFalse([e for e in more.events if e.type == "stream.gap"], "the epoch outlives a kill")
            every = [e.id for e in seen + more.durable if e.type == "message.appended"]
            self.assertEqual(every, ids)

    def test_far_behind(self):
        """Older than the tail in memory: replayed from the journal, then live, without a hole."""
        daemon = self.spawn({"stream": {"tailBytes": 4096}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        start = api.get("/v1/sessions").json["asOf"]
        stop = threading.Event()

        def write():
            client = daemon.client()
            while not stop.is_set():
                self.say(key, "x" * 500, api=client)
            client.close()

        writer = threading.Thread(target=write)
        for i in range(200):
            self.say(key, f"{i} " + "y" * 500, api=api)
        writer.start()
        try:
            streams = [api.stream(f"/v1/events?after={start}") for _ in range(3)]
            for stream in streams:
                stream.wait_until(lambda s: len(s.events) > 400, 30, "400 events")
        finally:
            stop.set()
            writer.join()
        last = int(self.say(key, "end", api=api)["asOf"].split("-")[1])
        for stream in streams:
            stream.wait_seq(last)
            self.assertTrue(contiguous(stream.seqs()))
            self.assertEqual(stream.seqs()[0], int(start.split("-")[1]) + 1)
            stream.close()


class Filters(Case):
    def story(self, mark):
        """Events of every kind over two agents; the last one matches every filter that is tested. Returns the position before them."""
        start = self.api.get("/v1/sessions?limit=1").json["asOf"]
        for agent in ("codex", "main"):
            for channel in ("telegram", "slack"):
                for kind in ("group", "channel"):
                    self.inbound(agent=agent, channel=channel, chatType=kind, peer="p" + mark,
                                 topic="42" if kind == "channel" else "7")
        key = f"agent:main:slack:channel:p{mark}"
        self.ok(self.api.patch(S(key), {"label": "x"}), 200)
        self.ok(self.api.post(S(key, "main", "archive")), 200)
        self.ok(self.api.post(S(key, "main", "unarchive")), 200)
        self.inbound(agent="main", channel="slack", chatType="channel", peer="p" + mark, topic="42",
                     text="end of " + mark)
        return start, key

    def test_each_live_and_replayed_against_the_whole(self):
        mark = uid()
        key = f"agent:main:slack:channel:p{mark}"
        self.inbound(agent="codex")  # so that both agents are there to be streamed
        self.new()
        self.new(key)  # and the session whose own stream is opened
        fits = lambda pattern: lambda e: any(fnmatch.fnmatch(e.type, p) for p in pattern.split(","))
        tests = {
            "/v1/events?types=message.*": fits("message.*"),
            "/v1/events?types=message.appended": fits("message.appended"),
            "/v1/events?types=session.created,message.*": fits("session.created,message.*"),
            "/v1/events?agent=main": lambda e: e.data.get("agent") == "main",
            f"/v1/events?keyPrefix=agent:main:slack:channel:p{mark}": lambda e: e.data.get("key", "").startswith(key),
            "/v1/events?channel=slack": lambda e: e.data.get("channel") == "slack",
            "/v1/events?topic=42": lambda e: e.data.get("topic") == "42",
            "/v1/events?types=message.*&agent=main&channel=slack&topic=42":
                lambda e: e.type.startswith("message.") and e.data.get("agent") == "main"
                and e.data.get("channel") == "slack" and e.data["topic"] == "42",
            "/v1/agents/main/events": lambda e: e.data.get("agent") == "main",
            S(key, "main", "events"): lambda e: e.data.get("key") == key,
        }
        live = {path: self.api.stream(path) for path in tests}
        for stream in live.values():
            stream.wait_type("stream.hello")
        start, _ = self.story(mark)
        end = lambda e: "end of " + mark in e.raw
        with self.api.stream("/v1/events?after=" + start) as whole:
            last = whole.wait_for(end).seq
            truth = [e for e in whole.durable if e.seq <= last]
        self.assertTrue(contiguous([e.seq for e in truth]))
        for path, fits_ in tests.items():
            with self.subTest(path):
                expected = [e.id for e in truth if fits_(e)]
                self.assertTrue(0 < len(expected) <= len(truth))
                live[path].wait_for(end)
                got = [e.id for e in live[path].durable if e.seq <= last]
                self.assertEqual(got, expected, "live")
                live[path].close()
                with self.api.stream(path + ("&" if "?" in path else "?") + "after=" + start) as replay:
                    replay.wait_for(end)
                    self.assertEqual([e.id for e in replay.durable if e.seq <= last], expected, "replayed")

    def test_unknown_session(self):
        with self.assertRaises(StreamRefused) as refused:
            self.api.stream(S("agent:main:no:such", "main", "events"))
        self.assertEqual((refused.exception.status, refused.exception.json["code"]), (404, "session_not_found"))

    def test_malformed(self):
        for path, last in (("/v1/events?after=xyz", None), ("/v1/events?after=12345678", None),
                           ("/v1/events", "garbage"), ("/v1/events", "1234567-1"),
                           ("/v1/events?after=00000000-x", None), ("/v1/events?replay=-1", None),
                           ("/v1/events?replay=many", None),
                           ("/v1/events?heartbeatMs=soon", None)):
            with self.subTest(f"{path} {last}"):
                with self.assertRaises(StreamRefused) as refused:
                    self.api.stream(path, last_event_id=last)
                self.assertEqual((refused.exception.status, refused.exception.json["code"]), (400, "bad_request"))


class Gaps(Case):
    def test_another_epoch(self):
        key = self.new()["key"]
        head = self.say(key, "head")["asOf"]
        other = ("0" * 8 if not head.startswith("0" * 8) else "1" * 8) + "-1"
        with self.api.stream(last_event_id=other) as stream:
            gap = stream.wait_type("stream.gap")
            self.assertEqual(gap.data["reason"], "epoch")
            self.assertIn("resync", gap.data)
            self.assertEqual(gap.id, head, "its id is the position to go on from: the head")
            self.assertEqual(gap.data["to"] in (gap.id, int(head.split("-")[1])), True, gap)
            after = self.say(key, "after the gap")["asOf"]
            stream.wait_for(lambda e: "after the gap" in e.raw)
            self.assertEqual([e.id for e in stream.durable], [after])
            self.assertEqual([e.type for e in stream.events].count("stream.gap"), 1)

    def test_ahead_of_the_head(self):
        key = self.new()["key"]
        epoch, head = self.say(key)["asOf"].split("-")
        with self.api.stream(f"/v1/events?after={epoch}-{int(head) + 1000}") as stream:
            gap = stream.wait_type("stream.gap")
            self.assertEqual((gap.data["reason"], gap.id), ("ahead", f"{epoch}-{head}"))
            self.say(key, "goes on")
            self.assertEqual(stream.wait_for(lambda e: "goes on" in e.raw).seq, int(head) + 1)

    def test_behind_retention(self):
        daemon = self.spawn({"journal": {"segmentBytes": 65536, "maxBytes": 65536}, "stream": {"tailBytes": 65536}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        epoch = self.say(key, api=api)["asOf"].split("-")[0]
        deadline = time.monotonic() + 60
        while True:
            for i in range(20):
                self.say(key, f"{i} " + "z" * 8000, api=api)
            daemon.checkpoint()
            with api.stream(f"/v1/events?after={epoch}-1") as stream:
                last = int(self.say(key, "end", api=api)["asOf"].split("-")[1])
                stream.wait_seq(last)
                gap = next((e for e in stream.events if e.type == "stream.gap"), None)
                if gap:
                    break
            self.assertLess(time.monotonic(), deadline, "nothing was ever taken away by retention")
        self.assertEqual(gap.data["reason"], "retention")
        self.assertEqual([e.type for e in stream.events].count("stream.gap"), 1)
        position = int(gap.id.split("-")[1])
        self.assertIn(stream.seqs()[0], (position, position + 1), "goes on from the oldest that is kept")
        self.assertTrue(contiguous(stream.seqs()))
        self.assertEqual(stream.events[0].type, "stream.hello")


class KeepAlive(Case):
    def test_pings_and_positions_behind_a_narrow_filter(self):
        key = self.new()["key"]
        with self.api.stream(f"/v1/events?heartbeatMs=200&keyPrefix={key}&types=message.*") as stream:
            hello = stream.wait_type("stream.hello")
            stream.wait_until(lambda s: "ping" in [c.strip() for c in s.comments], 5, "a ping")
            self.assertEqual(stream.bare_ids, [], "no id when nothing was filtered away")
            other = self.new()["key"]
            passed = self.say(other, "filtered away")["asOf"]
            stream.wait_until(lambda s: s.bare_ids, 5, "a bare id line")
            stream.wait_until(lambda s: s.bare_ids[-1] == passed, 5, "the position behind the other session's message")
            self.assertEqual(stream.last_id, passed)
            self.assertEqual(stream.durable, [], "dispatches nothing")
            self.assertNotEqual(hello.id, passed)
        with self.api.stream(f"/v1/events?keyPrefix={key}", last_event_id=passed) as stream:
            own = self.say(key, "mine")["asOf"]
            self.assertEqual(stream.wait_for(lambda e: "mine" in e.raw).id, own)

    def test_from_configuration(self):
        daemon = self.spawn({"stream": {"heartbeatMs": 100, "retryMs": 1234}})
        with daemon.client().stream() as stream:
            stream.wait_until(lambda s: len(s.comments) >= 3, 5, "three pings")
            self.assertEqual(stream.retry, 1234)

    def test_ping_as_event(self):
        with self.api.stream("/v1/events?heartbeatMs=200&ping=event") as stream:
            ping = stream.wait_for(lambda e: "ping" in e.type)
            self.assertIsNone(ping.id, "ephemeral: it has no id")

    def test_bye_on_sigterm(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        with api.stream() as stream, api.stream("/v1/events?types=policy.*") as quiet:
            for each in (stream, quiet):
                each.wait_type("stream.hello")
            last = self.say(key, api=api)["asOf"]
            self.assertEqual(daemon.stop(), 0)
            for each in (stream, quiet):
                each.wait_end()
                self.assertEqual(each.events[-1].type, "stream.bye")
                self.assertIn("retryMs", each.events[-1].data)
                self.assertIsNone(each.events[-1].id)
            self.assertEqual(stream.last_id, last)
        daemon.start()
        with api.stream(last_event_id=last) as stream:
            self.say(key, "again", api=api)
            again = stream.wait_for(lambda e: "again" in e.raw)
            self.assertTrue(contiguous([int(last.split("-")[1])] + [e.seq for e in stream.durable]),
                            json.dumps(again.data))


class Order(Case):
    def test_nobody_sees_what_is_not_yet_to_be_read(self):
        """An event that a stream shows is in every later read, and a reply never comes before what it tells can be read."""
        key = self.new()["key"]
        with self.api.stream("/v1/events?types=message.*&keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            for i in range(20):
                body = self.say(key, f"o{i}")
                self.assertEqual(self.messages(key, query=f"after={body['firstSeq'] - 1}"
                                               if body["firstSeq"] else "")[-1]["id"], body["ids"][0])
                event = stream.wait_for(lambda e, i=i: f'"o{i}"' in e.raw)
                self.assertEqual(event.id, body["asOf"])

    def test_many_writers_many_readers(self):
        keys = [self.new()["key"] for _ in range(4)]
        streams = [self.api.stream() for _ in range(4)] + [self.api.stream(f"/v1/events?keyPrefix={key}")
                                                           for key in keys]
        for stream in streams:
            stream.wait_type("stream.hello")

        def write(key):
            client = self.daemon.client()
            for i in range(50):
                self.say(key, f"w{i}", api=client)
            client.close()

        threads = [threading.Thread(target=write, args=(key,)) for key in keys]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        head = int(self.api.get("/v1/sessions?limit=1").json["asOf"].split("-")[1])
        for stream in streams[:4]:
            stream.wait_seq(head)
            self.assertTrue(contiguous(stream.seqs()))
        for key, stream in zip(keys, streams[4:]):
            stream.wait_for(lambda e: '"w49"' in e.raw)
            self.assertEqual([text_of(e.data["data"]["message"]) for e in stream.durable], [f"w{i}" for i in range(50)])
        for stream in streams:
            stream.close()


class Restarts(Case):
    runs = {"asan", "tsan"}

    def test_the_events_of_all_messages_have_the_places_that_get_shows_over_both_ends(self):
        key = self.new()["key"]
        after = self.ok(self.api.get("/v1/sessions?limit=1"))["asOf"]
        for turn in range(4):
            for n in range(3):
                self.say(key, f"{turn}.{n}", query="?topic=t" if n == 1 else "")
            self.daemon.restart(kill=turn % 2 == 0)
        told = [(e["topic"], e["data"]["message"]["seq"], e["data"]["message"]["id"])
                for e in self.polled(after, "&types=message.appended")]
        for topic, query in ((None, ""), ("t", "topic=t")):
            self.assertEqual([(s, i) for t, s, i in told if t == topic],
                             [(m["seq"], m["id"]) for m in self.messages(key, query="limit=200&order=asc&" + query)])

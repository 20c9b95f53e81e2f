"""Messages and transcripts: appended in every form, read back by pages, to the byte."""

import threading

from harness.case import Case, S, json, text_of, uid
from harness.runner import runs_in

runs = {"asan", "release", "tsan"}


class Append(Case):
    def post(self, key, body, query="", **named):
        return self.api.post(S(key, "main", "messages") + query, body, **named)

    def test_short_form(self):
        session = self.new()
        body = self.ok(self.post(session["key"], {"role": "user", "text": "grüß dich"}), 201)
        self.assertEqual((body["sessionId"], body["topic"], len(body["ids"]), body["duplicates"]),
                         (session["sessionId"], None, 1, 0))
        self.assertEqual(body["firstSeq"], body["lastSeq"])
        self.assertEventId(body["asOf"])
        message = self.messages(session["key"])[0]
        self.assertEqual((message["seq"], message["id"], message["parentId"], message["type"], message["role"],
                          text_of(message)),
                         (body["firstSeq"], body["ids"][0], None, "message", "user", "grüß dich"))
        self.assertIsInstance(message["timestamp"], int)
        self.assertRegex(message["id"], r"^[0-9a-f-]{8,36}$")

    def test_a_long_one_is_stored_as_a_short_one_is(self):
        """Long ones are read on a disk thread."""
        forms = [
            lambda n: {"role": "user", "content": "x", **{f"k{i}": 1 for i in range(n)}},
            lambda n: {"role": "user", "content": [{"type": "text", "text": "a\u2028\u00fc"}] * n},
            lambda n: {"role": "assistant", "content": [{"type": "toolCall", "id": f"c{i}", "name": "ls", "arguments": {}} for i in range(n)],
                       "usage": {"input": 3, "output": 4}},
            lambda n: {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": "b"}] * n, "seq": 3}},
            lambda n: {"type": "custom", "customType": "x", "data": [{"a": 1}] * n},
            lambda n: {"entries": [{"role": "user", "text": "one"}, {"role": "assistant", "content": "y" * 10 * n}]},
        ]
        fields = ("messageCount", "usageTotals", "firstMessage")
        for number, form in enumerate(forms):
            with self.subTest(number):
                shown = []
                for n in (2, 20_000):
                    key = self.new()["key"]
                    body = self.ok(self.post(key, form(n)), 201)
                    rows = self.messages(key)
                    given = form(n)
                    for row, entry in zip(rows, given.get("entries", [given]), strict=True):
                        message = {**entry.get("message", entry)}
                        for name in ("text", "seq"):
                            message.pop(name, None)
                        self.assertEqual({name: row[name] for name in message}, message)
                    session = self.ok(self.api.get(S(key)), 200)
                    shown.append((body["firstSeq"], body["lastSeq"], [session.get(name) for name in fields]))
                    raw = [row["line"] for row in self.messages(key, query="view=raw")]
                    self.assertEqual([line.get("type") for line in raw], [row["type"] for row in rows])
                if number not in (1,):
                    self.assertEqual(shown[0], shown[1])
        for body in ('{"role":"user","content":"x","a":1,"a":2,"b":"' + "x" * 100_000 + '"}',
                     '{"role":"user","content":"' + "x" * 100_000):
            self.problem(self.post(key, body.encode(), headers={"Content-Type": "application/json"}), 400, "bad_request")
        for entry in ({"role": "user", "content": ["x" * 100_000]}, {"role": "user", "id": "", "text": "x" * 100_000}):
            self.problem(self.post(key, entry), 422)

    def test_full_entry(self):
        key = self.new()["key"]
        entry = {"type": "message", "id": "e." + uid(), "timestamp": "2026-01-02T03:04:05.678Z",
                 "message": {"role": "assistant", "content": [{"type": "text", "text": "a"},
                                                              {"type": "thinking", "thinking": "hm", "x": 1},
                                                              {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}],
                             "usage": {"input": 10, "output": 5, "cacheRead": 2, "cacheWrite": 1, "totalTokens": 15,
                                       "cost": {"total": 0.5}},
                             "api": "x-api", "provider": "anthropic", "model": "m-1", "stopReason": "stop",
                             "timestamp": 1767323045678,
                             "x-unknown": {"a": [None]}}, "x-outer": 2}
        body = self.ok(self.post(key, entry), 201)
        self.assertEqual(body["ids"], [entry["id"]])
        self.ok(self.post(key, entry["message"]), 201)
        for message in self.messages(key):
            self.assertEqual({name: message[name] for name in entry["message"]}, entry["message"])
        raw = [row["line"] for row in self.messages(key, query="view=raw&order=asc")]
        self.assertEqual((raw[0]["x-outer"], raw[0]["message"], raw[1]["message"]), (2, entry["message"], entry["message"]))

    def test_batch_is_whole_and_in_order(self):
        key = self.new()["key"]
        first = self.ok(self.post(key, {"role": "user", "text": "0"}), 201)
        body = self.ok(self.post(key, {"entries": [{"role": "user", "text": str(i)} for i in range(1, 51)]}), 201)
        self.assertEqual((body["firstSeq"], body["lastSeq"], len(body["ids"])),
                         (first["lastSeq"] + 1, first["lastSeq"] + 50, 50))
        messages = self.messages(key)
        self.assertEqual([text_of(m) for m in messages], [str(i) for i in range(51)])
        self.assertEqual([m["parentId"] for m in messages], [None] + [m["id"] for m in messages[:-1]])
        self.assertEqual([m["seq"] for m in messages], list(range(first["firstSeq"], first["firstSeq"] + 51)))
        half = {"entries": [{"role": "user", "text": "fine"}, {"role": "user", "text": 7}]}
        self.invalid(self.post(key, half), "/entries/1/text")
        self.assertEqual(len(self.messages(key)), 51, "all or nothing")
        self.problem(self.post(key, {"entries": []}), 422, "validation_failed")

    def test_every_type_is_kept(self):
        key = self.new()["key"]
        entries = [{"type": "model_change", "provider": "p", "modelId": "m"},
                   {"type": "thinking_level_change", "thinkingLevel": "high"},
                   {"type": "custom", "customType": "note", "data": {"a": 1}},
                   {"type": "custom_message", "customType": "c", "content": "x"},
                   {"type": "label", "targetId": "x", "label": "l"}, {"type": "session_info", "name": "n"},
                   {"type": "compaction", "summary": "s", "firstKeptEntryId": "x", "tokensBefore": 9},
                   {"type": "branch_summary", "fromId": "x", "summary": "s"}, {"type": "x_future", "what": [1]}]
        self.ok(self.post(key, {"entries": entries}), 201)
        for entry, message in zip(entries, self.messages(key), strict=True):
            self.assertEqual({k: message[k] for k in entry}, entry)
            self.assertIn("parentId", message)
        self.assertEqual([m["type"] for m in self.messages(key, query="types=compaction,label")],
                         ["label", "compaction"])
        self.assertEqual(self.messages(key, query="view=chat"), [])
        self.assertEqual(self.api.get(S(key)).json["compactionCount"], 1)

    def test_views(self):
        key = self.new()["key"]
        self.say(key, "question")
        self.ok(self.post(key, {"type": "custom", "customType": "x"}), 201)
        self.ok(self.post(key, {"role": "assistant",
                                "content": [{"type": "text", "text": "answer"}, {"type": "toolCall", "id": "1"},
                                                                 {"type": "text", "text": "more"}]}), 201)
        chat = self.messages(key, query="view=chat")
        self.assertEqual([(m["role"], m["text"].split()) for m in chat],
                         [("user", ["question"]), ("assistant", ["answer", "more"])])
        self.assertEqual(self.messages(key, query="view=full"), self.messages(key, query=""))
        raw = self.messages(key, query="view=raw")
        self.assertEqual([m["seq"] for m in raw], [m["seq"] for m in self.messages(key)])
        self.daemon.checkpoint()
        stored = (self.daemon.agent_dir() / f"{self.api.get(S(key)).json['sessionId']}.jsonl").read_bytes().splitlines()[1:]
        self.assertEqual([m["line"] for m in raw], [json.loads(line) for line in stored])
        self.assertIn(self.api.get(S(key, "main", "messages") + "?view=sideways").status, (400, 422))

    def test_expected_seq(self):
        key = self.new()["key"]
        last = self.say(key)["lastSeq"]
        body = self.ok(self.post(key, {"entries": [{"role": "user", "text": "a"}, {"role": "user", "text": "b"}],
                                       "expectedSeq": last + 1}), 201)
        self.assertEqual((body["firstSeq"], body["lastSeq"]), (last + 1, last + 2))
        for wrong in (last + 1, last + 4, 0):
            self.problem(self.post(key, {"entries": [{"role": "user", "text": "c"}], "expectedSeq": wrong}), 412,
                         "precondition_failed")
        self.assertEqual(len(self.messages(key)), 3)
        self.invalid(self.post(key, {"entries": [{"role": "user", "text": "c"}], "expectedSeq": "1"}), "/expectedSeq")

    def test_the_same_id_again(self):
        key = self.new()["key"]
        entry = {"type": "message", "id": "same-" + uid(), "message": {"role": "user", "content": "once"}}
        first = self.ok(self.post(key, entry), 201)
        again = self.ok(self.post(key, entry), 201)
        self.assertEqual((again["duplicates"], again["ids"]), (1, first["ids"]))
        mixed = self.ok(self.post(key, {"entries": [entry, {"role": "user", "text": "new"}]}), 201)
        self.assertEqual((mixed["duplicates"], mixed["ids"][0]), (1, entry["id"]))
        self.assertEqual(self.texts(key), ["once", "new"])
        problem = self.problem(self.post(key, {**entry, "message": {"role": "user", "content": "twice"}}), 409,
                               "entry_id_conflict")
        self.assertIn(entry["id"], problem["detail"])
        self.problem(self.post(key, {"entries": [{"role": "user", "text": "lost"},
                                                 {**entry, "message": {"role": "user", "content": "twice"}}]}),
                     409, "entry_id_conflict")
        self.assertEqual(self.texts(key), ["once", "new"])
        self.assertEqual(self.api.get(S(key)).json["messageCount"], 2)
        self.ok(self.post(self.new()["key"], {**entry, "message": {"role": "user", "content": "elsewhere"}}), 201)

    def test_own_parent(self):
        key = self.new()["key"]
        first, second = (self.say(key)["ids"][0] for _ in range(2))
        third = self.ok(self.post(key, {"type": "message", "parentId": first,
                                        "message": {"role": "user", "content": "branch"}}), 201)["ids"][0]
        fourth = self.say(key)["ids"][0]
        self.assertEqual([(m["id"], m["parentId"]) for m in self.messages(key)],
                         [(first, None), (second, first), (third, first), (fourth, third)])

    def test_faults(self):
        key = self.new()["key"]
        self.invalid(self.post(key, {"role": "user"}), "/text")
        self.invalid(self.post(key, {"role": "user", "text": 1}), "/text")
        self.invalid(self.post(key, {"role": 5, "text": "x"}), "/role")
        bad = self.post(key, {"type": "message", "id": "bad id", "message": {"role": "user", "content": "x"}})
        self.assertIn("/id", self.problem(bad, 422, "invalid_id")["detail"])
        self.invalid(self.post(key, {"type": "message", "message": "x"}), "/message")
        self.invalid(self.post(key, {"type": "message", "timestamp": "yesterday",
                                     "message": {"role": "user", "content": "x"}}), "/timestamp")
        for body in ({}, {"entries": {}}, {"entries": [1]}):
            self.problem(self.post(key, body), 422, "validation_failed")
        self.problem(self.post("agent:main:no:such", {"role": "user", "text": "x"}), 404, "session_not_found")
        self.assertIn(self.post(key, {"role": "user", "text": "x"}, "?topic=" + "x" * 129).status, (400, 422))
        self.assertIn(self.post(key, {"role": "user", "text": "x"}, "?topic=a%00b").status, (400, 422))
        self.problem(self.post(key, {"type": "session", "version": 3, "id": "x"}), 422, "validation_failed")
        self.assertEqual(self.messages(key), [])

    def test_a_topic_is_as_long_as_the_document_says(self):
        key = self.new()["key"]
        longest = self.api.get("/openapi.json").json["components"]["schemas"]["Topic"]["maxLength"]
        e_acute = "%C3%A9"  # six bytes in the name of a file
        for topic, fits in (("x" * longest, True), ("x" * (longest + 1), False),
                            (e_acute * (longest // 6), True), (e_acute * (longest // 6 + 1), False),
                            ("." + "x" * (longest - 3), True), ("." + "x" * (longest - 2), False)):
            reply = self.post(key, {"role": "user", "text": "x"}, "?topic=" + topic)
            self.ok(reply, 201) if fits else self.problem(reply, 422, "invalid_id")

    def test_counters(self):
        key = self.new()["key"]
        use = lambda i, o: {"type": "message", "message": {"role": "assistant", "content": "x", "usage": {
            "input": i, "output": o, "cacheRead": 1, "cacheWrite": 1, "totalTokens": i + o + 2,
            "cost": {"total": 0.5}}}}
        self.ok(self.post(key, use(10, 5)), 201)
        self.ok(self.post(key, {"entries": [use(100, 50), {"role": "user", "text": "y"}]}), 201)
        session = self.api.get(S(key)).json
        self.assertEqual([session[n] for n in ("messageCount", "inputTokens", "outputTokens", "totalTokens")],
                         [3, 110, 55, 169])
        self.daemon.restart(kill=True)
        again = self.api.get(S(key)).json
        self.assertEqual({n: again[n] for n in ("messageCount", "inputTokens", "outputTokens", "totalTokens", "rev")},
                         {n: session[n] for n in ("messageCount", "inputTokens", "outputTokens", "totalTokens", "rev")})

    def test_respond_async(self):
        key = self.new()["key"]
        reply = self.post(key, {"role": "user", "text": "soon"}, prefer="respond-async")
        self.assertIn(reply.status, (201, 202))
        self.assertEqual(self.texts(key), ["soon"])

    def test_one_mebibyte(self):
        key = self.new()["key"]
        text = "ä€😀 " * (1 << 17)
        self.assertGreater(len(text.encode()), 1 << 20)
        self.say(key, text)
        self.say(key, "after")
        first = self.ok(self.api.get(S(key, "main", "messages") + "?order=asc"), 200)
        self.assertEqual([text_of(m) for m in first["data"]], [text], "a page ends at 1 MiB")
        self.assertEqual((first["page"]["hasMore"], first["page"]["nextAfter"]), (True, first["data"][-1]["seq"]))
        self.assertEqual(self.texts(key, query=f"order=asc&after={first['page']['nextAfter']}"), ["after"])

    def test_writers_side_by_side_keep_their_own_order(self):
        key = self.new()["key"]
        faults = []

        def write(name):
            client = self.daemon.client()
            try:
                for i in range(40):
                    reply = client.post(S(key, "main", "messages"), {"role": "user", "text": f"{name} {i}"})
                    if reply.status != 201:
                        faults.append(reply)
            except Exception as fault:
                faults.append(fault)
            finally:
                client.close()

        threads = [threading.Thread(target=write, args=(w,)) for w in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertFalse(faults)
        texts = self.texts(key) + self.texts(key, query=f"limit=200&order=asc&after={self.messages(key)[-1]['seq']}")
        self.assertEqual(len(texts), 320)
        for w in range(8):
            self.assertEqual([t for t in texts if t.startswith(f"{w} ")], [f"{w} {i}" for i in range(40)])
        messages = self.messages(key)
        self.assertEqual([m["parentId"] for m in messages[1:]], [m["id"] for m in messages[:-1]])


class Read(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.key = "agent:main:read:many"
        assert cls.api.post("/v1/agents/main/sessions", {"key": cls.key}).status == 201
        entries = [{"role": "user", "text": str(i)} if i % 10 else {"type": "custom", "customType": "n", "data": i}
                   for i in range(300)]
        reply = cls.api.post(S(cls.key, "main", "messages"), {"entries": entries})
        assert reply.status == 201, reply
        cls.first, cls.last = reply.json["firstSeq"], reply.json["lastSeq"]
        cls.ids = reply.json["ids"]

    def page(self, query):
        return self.ok(self.api.get(S(self.key, "main", "messages") + "?" + query), 200)

    def seqs(self, query):
        return [m["seq"] for m in self.page(query)["data"]]

    def test_forward(self):
        for limit in (1, 7, 64, 200):
            with self.subTest(limit):
                seen, query = [], f"limit={limit}&order=asc"
                while True:
                    body = self.page(query)
                    self.assertLessEqual(len(body["data"]), limit)
                    seen += [m["seq"] for m in body["data"]]
                    if not body["page"]["hasMore"]:
                        break
                    query = f"limit={limit}&order=asc&after={body['page']['nextAfter']}"
                self.assertEqual(seen, list(range(self.first, self.last + 1)))

    def test_backward(self):
        for limit in (1, 63, 200):
            with self.subTest(limit):
                seen, query = [], f"limit={limit}&order=desc"
                while True:
                    body = self.page(query)
                    seen += [m["seq"] for m in body["data"]]
                    if not body["page"]["hasMore"]:
                        break
                    query = f"limit={limit}&order=desc&before={body['page']['nextBefore']}"
                self.assertEqual(seen, list(range(self.last, self.first - 1, -1)))

    def test_windows(self):
        f = self.first
        self.assertEqual(self.seqs("limit=3"), [f, f + 1, f + 2])
        self.assertEqual(len(self.seqs("")), 50)
        self.assertEqual(self.seqs(f"after={f + 9}&limit=2"), [f + 10, f + 11])
        self.assertEqual(self.seqs(f"before={f + 9}&order=desc&limit=2"), [f + 8, f + 7])
        self.assertEqual(self.seqs(f"after={f + 9}&before={f + 13}&order=asc"), [f + 10, f + 11, f + 12])
        self.assertEqual(self.seqs(f"after={self.last}"), [])
        self.assertEqual(self.seqs(f"before={f}&order=desc"), [])
        self.assertEqual(self.seqs(f"after={self.last + 1000}"), [])
        for query in ("limit=0", "limit=201", "after=x", "before=-1", "order=up", "after=99999999999999999999999"):
            with self.subTest(query):
                self.assertIn(self.api.get(S(self.key, "main", "messages") + "?" + query).status, (400, 422))

    def test_filtered_pages(self):
        seen, query = [], "types=custom&limit=7"
        while True:
            body = self.page(query)
            seen += [m["data"] for m in body["data"]]
            if not body["page"]["hasMore"]:
                break
            query = f"types=custom&limit=7&after={body['page']['nextAfter']}"
        self.assertEqual(seen, list(range(0, 300, 10)))

    def test_one(self):
        body = self.ok(self.api.get(S(self.key, "main", "messages", self.ids[151])), 200)
        self.assertEqual((body["id"], body["seq"], text_of(body)), (self.ids[151], self.first + 151, "151"))
        self.problem(self.api.get(S(self.key, "main", "messages", "ffffffff-none")), 404, "message_not_found")

    def test_session_id_guards(self):
        own = self.api.get(S(self.key)).json["sessionId"]
        self.assertEqual(self.page("sessionId=" + own)["sessionId"], own)
        self.problem(self.api.get(S(self.key, "main", "messages") + "?sessionId=other"), 409, "session_reset")

    def test_transcript_and_ranges(self):
        path = S(self.key, "main", "transcript")
        whole = self.api.get(path)
        self.ok(whole, 200)
        self.assertEqual(whole.headers["Content-Type"].split(";")[0], "application/x-ndjson")
        lines = whole.raw.splitlines()
        self.assertEqual(len(lines), 301)
        header = json.loads(lines[0])
        self.assertEqual((header["type"], header["version"], header["id"]),
                         ("session", 3, self.api.get(S(self.key)).json["sessionId"]))
        self.assertRegex(header["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        size = len(whole.raw)
        for value, begin, end in (("bytes=0-9", 0, 10), ("bytes=100-", 100, size), ("bytes=-10", size - 10, size),
                                  (f"bytes={size - 5}-{size + 500}", size - 5, size), (f"bytes=-{size + 1}", 0, size)):
            with self.subTest(value):
                reply = self.api.get(path, range=value)
                self.assertEqual(reply.status, 206, reply)
                self.assertEqual(reply.raw, whole.raw[begin:end])
                self.assertEqual(reply.headers["Content-Range"], f"bytes {begin}-{end - 1}/{size}")
        for value in (f"bytes={size}-", "bytes=-0"):
            reply = self.api.get(path, range=value)
            self.problem(reply, 416)
            self.assertEqual(reply.headers["Content-Range"], f"bytes */{size}")
        for value in ("lines=0-9", "bytes=9-1", "bytes=x"):
            reply = self.api.get(path, range=value)
            self.assertEqual((reply.status, len(reply.raw)), (200, size), f"{value} is to be ignored")
        self.daemon.checkpoint()
        stored = self.daemon.agent_dir() / (header["id"] + ".jsonl")
        self.assertEqual(stored.read_bytes(), whole.raw)

    def test_transcript_of_a_session_without_one(self):
        reply = self.api.get(S(self.new()["key"], "main", "transcript"))
        self.assertIn((reply.status, reply.raw if reply.status == 200 else b""), ((200, b""), (404, b"")))

    def test_topics_are_files_of_their_own(self):
        session = self.new()
        self.say(session["key"], "main line")
        body = self.say(session["key"], "aside", query="?topic=42")
        self.assertEqual(body["topic"], "42")
        self.assertEqual(self.texts(session["key"]), ["main line"])
        self.assertEqual(self.texts(session["key"], query="topic=42"), ["aside"])
        self.assertEqual(self.texts(session["key"], query="topic=43"), [])
        raw = self.api.get(S(session["key"], "main", "transcript") + "?topic=42").raw
        self.assertEqual(len(raw.splitlines()), 2)
        self.daemon.checkpoint()
        self.assertEqual((self.daemon.agent_dir() / f"{session['sessionId']}-topic-42.jsonl").read_bytes(), raw)
        self.assertEqual(self.messages(session["key"], query="topic=42")[0]["seq"],
                         self.messages(session["key"])[0]["seq"])


class Counted(Case):
    def test_usage_in_each_providers_words(self):
        table = [({"inputTokens": 10, "outputTokens": 5}, (10, 5, 15)),
                 ({"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100}, (10, 5, 115)),
                 ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
                   "prompt_tokens_details": {"cached_tokens": 4}}, (6, 5, 15)),
                 ({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, (10, 5, 15)),
                 ({"input": 10, "output": 5, "cacheRead": 2, "cacheWrite": 1}, (10, 5, 18))]
        for usage, counted in table:
            with self.subTest(str(usage)):
                key = self.new()["key"]
                self.say(key, role="assistant", usage=usage)
                session = self.ok(self.api.get(S(key)), 200)
                self.assertEqual((session["inputTokens"], session["outputTokens"], session["totalTokens"]), counted)
                self.assertEqual(self.ok(self.api.get(S(key, "main", "context")), 200)["used"], counted[2])


class Places(Case):
    def test_duplicates_tell_where_they_stand_also_after_restarts(self):
        key, ids = self.new()["key"], [uid() for _ in range(6)]

        def entry(id, text=None):
            """In either form."""
            text = text or id
            return ({"role": "user", "text": text, "id": id} if id in ids[::2] else
                    {"type": "message", "id": id, "message": {"role": "user", "content": text}})

        def post(*names):
            answer = self.ok(self.post_to(key, {"entries": [entry(name) for name in names]}), 201)
            self.assertEqual(answer["ids"], list(names))
            return answer["firstSeq"], answer["lastSeq"], answer["duplicates"]

        a, b, c, d, e, f = ids
        self.assertEqual(post(a, b, c), (0, 2, 0))
        for restart in (lambda: None, self.daemon.restart, lambda: self.daemon.restart(kill=True)):
            restart()
            for part, told in (((a, b, c), (0, 2, 3)), ((a,), (0, 0, 1)), ((b,), (1, 1, 1)), ((b, c), (1, 2, 2)), ((c, b), (1, 2, 2)),
                               ((c, a), (0, 2, 2))):
                self.assertEqual(post(*part), told)
            for name in (a, b):
                self.problem(self.post_to(key, entry(name, "other")), 409, "entry_id_conflict")
        self.assertEqual((post(b, d), post(c, d, e), post(f)), ((1, 3, 1), (2, 4, 2), (5, 5, 0)))
        for name in (a, b):
            self.problem(self.post_to(key, {"entries": [{"role": "user", "text": "new"}, entry(name, "other")]}), 409, "entry_id_conflict")
        self.assertEqual([m["id"] for m in self.messages(key)], ids, "nothing of a batch that is refused")

    def test_seq_begins_at_0_and_minus_1_is_before_the_first(self):
        key, archived = self.new()["key"], self.new()
        for n in range(3):
            self.say(key, str(n))
            self.say(archived["key"], str(n))
        self.ok(self.api.delete(S(archived["key"])), 204)
        page = lambda name, query: self.ok(self.api.get(S(name, "main", "messages") + "?" + query), 200)  # noqa: E731
        seqs = lambda answer: ([m["seq"] for m in answer["data"]], answer["page"]["hasMore"])  # noqa: E731
        for name in (key, archived["sessionId"]):
            for query, wanted in (("after=-1", [0, 1, 2]), ("after=0", [1, 2]), ("after=1", [2]), ("after=2", []), ("after=99", []),
                                  ("before=0&order=asc", []), ("before=1&order=asc", [0]), ("before=3&order=asc", [0, 1, 2]),
                                  ("before=99&order=asc", [0, 1, 2]), ("before=2", [1, 0]), ("after=-1&before=2", [0, 1]),
                                  ("after=-1&before=2&order=asc", [0, 1]), ("after=0&before=1&order=asc", []),
                                  ("after=0&before=2&order=desc", [1]), ("after=-1&order=desc", [2, 1, 0])):
                self.assertEqual(seqs(page(name, query)), (wanted, False), query)
            first = page(name, "after=-1&limit=2")
            self.assertEqual((seqs(first), seqs(page(name, f"after={first['page']['nextAfter']}&limit=2"))), (([0, 1], True), ([2], False)))
            for query in ("after=-2", "before=-1", "after=x", "after=0.5", "before=", "after=99999999999999999999", "order=up"):
                self.problem(self.api.get(S(name, "main", "messages") + "?" + query), 400, "bad_request")
        empty = self.new()["key"]
        for query in ("", "after=-1", "after=0", "before=0", "before=1", "order=asc", "order=desc", "topic=never", "types=compaction"):
            self.assertEqual(seqs(page(empty, query)), ([], False), query)

    def test_chat_shows_who_spoke(self):
        peer = "G" + uid()
        got = self.inbound(chatType="group", peer=peer, text="hi", **{"from": "U1"})
        self.say(got["sessionKey"], "by nobody in particular")
        self.say(got["sessionKey"], "with a name", **{"from": {"id": "U2", "name": "Zoë"}})
        chat = self.messages(got["sessionKey"], query="view=chat")
        self.assertEqual([m.get("from") for m in chat], ["U1", None, {"id": "U2", "name": "Zoë"}])
        self.assertEqual([m["text"] for m in chat], ["hi", "by nobody in particular", "with a name"])

    def test_chat_shows_a_photo_without_words_and_that_it_was_deleted(self):
        peer = "u" + uid()
        key = self.inbound(peer=peer, text="", messageId="m1", attachments=[{"type": "image", "name": "cat.png", "url": "https://x/secret"}])["sessionKey"]
        chat, = self.messages(key, query="view=chat")
        self.assertEqual((chat["text"], chat["attachments"]), ("", [{"type": "image", "name": "cat.png"}]))
        self.ok(self.api.post("/v1/inbound/deletes", {"channel": "slack", "peer": peer, "messageId": "m1"}), 201)
        chat, = self.messages(key, query="view=chat")
        self.assertEqual([chat.get(name) for name in ("deleted", "text", "attachments")], [True, None, None])

    def test_halves_of_surrogate_pairs_leave_as_a_replacement_but_where_bytes_are_promised(self):
        key = self.new()["key"]
        half = b'"cut \\ud83d\\u2026"'
        with self.api.stream("/v1/events?keyPrefix=" + key) as events:
            events.wait_type("stream.hello")
            self.ok(self.api.request("POST", S(key, "main", "messages"), b'{"role":"user","text":%s}' % half), 201)
            self.ok(self.api.request("PATCH", S(key), b'{"displayName":%s}' % half), 200)
            told = events.wait_type("message.appended").data
        seen = self.inbound(messageId="half", channel="slack", peer=(peer := uid()))
        edit = b'{"channel":"slack","peer":"%s","messageId":"half","content":[{"type":"text","text":%s}]}' % (peer.encode(), half)
        self.ok(self.api.request("POST", "/v1/inbound/edits", edit), 201)
        self.daemon.checkpoint()
        read = [json.dumps(told).encode(), *(self.api.get(path).raw for path in (
            S(key), "/v1/agents/main/sessions", S(key, "main", "history"), *(S(key, "main", "messages") + f"?view={v}" for v in ("full", "chat", "llm")),
            S(key, "main", "export") + "?format=json", S(key, "main", "events") + "?poll=1&waitMs=0",
            *(S(seen["sessionKey"], "main", "messages") + f"?view={v}" for v in ("full", "chat", "llm")),
            S(seen["sessionKey"], "main", "export") + "?format=json"))]
        for raw in read:
            self.assertNotIn(b"\\ud83d", raw)
        for path in (S(key, "main", "transcript"), S(key, "main", "messages") + "?view=raw"):
            self.assertIn(b"\\ud83d", self.api.get(path).raw)

    @runs_in("asan", "tsan")
    def test_expected_seq_is_0_in_an_empty_transcript_and_again_after_a_reset_and_a_kill(self):
        key = self.new()["key"]

        def expecting(seq, text, query=""):
            return self.post_to(key, {"entries": [{"role": "user", "text": text}], "expectedSeq": seq}, query)

        for turn in range(3):
            for wrong in (1, 2 ** 53 - 1):
                self.problem(expecting(wrong, "x"), 412, "precondition_failed")
            self.invalid(expecting(-1, "x"), "/expectedSeq")
            for query in ("", "?topic=t"):
                self.ok(expecting(0, "0", query), 201)
                self.problem(expecting(0, "x", query), 412)
            self.assertEqual((self.texts(key), self.texts(key, query="topic=t")), (["0"], ["0"]))
            self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
            self.daemon.restart(kill=turn == 0)

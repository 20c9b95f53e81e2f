"""POST S/outbound: what the agent sends, recorded and, unless a policy denies it, to be delivered."""

from harness.case import Case, S, json, text_of, uid


class Outbound(Case):
    def setUp(self):
        super().setUp()
        self.session = self.inbound(chatType="group", peer="G" + uid(), **{"from": "U1"})
        self.key = self.session["sessionKey"]

    def send(self, status=201, **body):
        return self.ok(self.api.post(S(self.key, "main", "outbound"), body), status)

    def test_allowed(self):
        body = self.send(text="on my way")
        self.assertEqual((body["sessionId"], body["topic"], body["deliver"]), (self.session["sessionId"], None, True))
        self.assertEqual(body["send"]["action"], "allow")
        self.assertEventId(body["asOf"])
        message = self.messages(self.key)[-1]
        self.assertEqual((message["role"], text_of(message), message["id"], message["seq"]),
                         ("assistant", "on my way", body["messageId"], body["seq"]))

    def test_the_event_says_deliver_and_mirror_only_does_not(self):
        with self.api.stream("/v1/events?types=message.*&keyPrefix=" + self.key) as stream:
            stream.wait_type("stream.hello")
            self.send(text="please deliver")
            mirrored = self.send(text="already sent", mirrorOnly=True)
            self.assertFalse(mirrored["deliver"])
            one = stream.wait_for(lambda e: "please deliver" in e.raw)
            two = stream.wait_for(lambda e: "already sent" in e.raw)
            self.assertIs(one.data["data"]["deliver"], True)
            self.assertFalse(two.data["data"].get("deliver"))
        self.assertEqual(self.texts(self.key)[-2:], ["please deliver", "already sent"])

    def test_media_without_text_is_told_by_the_files_names(self):
        with self.api.stream("/v1/events?types=message.*&keyPrefix=" + self.key) as stream:
            stream.wait_type("stream.hello")
            urls = ["https://example.com/pictures/a.png", "https://example.com/b.pdf?sig=1#page=2", "/tmp/c.txt"]
            self.send(mediaUrls=urls)
            event = stream.wait_type("message.appended")
            self.assertEqual(event.data["data"]["mediaUrls"], urls)
        self.assertEqual(self.texts(self.key)[-1], "a.png, b.pdf, c.txt")
        self.send(mediaUrls=urls, text="three files")
        self.assertEqual(self.texts(self.key)[-1], "three files\n[media: a.png, b.pdf, c.txt]")

    def test_content_parts(self):
        parts = [{"type": "text", "text": "one"}, {"type": "image", "source": {"kind": "url", "x-new": 1}}]
        self.send(content=parts)
        self.assertEqual(self.messages(self.key)[-1]["content"], parts)

    def test_own_message_id_makes_it_once(self):
        name = "out." + uid()
        first = self.send(text="same", messageId=name)
        self.assertEqual(first["messageId"], name)
        self.send(text="same", messageId=name)
        self.assertEqual(self.texts(self.key).count("same"), 1)
        self.problem(self.api.post(S(self.key, "main", "outbound"), {"text": "other", "messageId": name}), 409,
                     "entry_id_conflict")

    def test_validation(self):
        path = S(self.key, "main", "outbound")
        before = len(self.messages(self.key))
        self.problem(self.api.post(path, {}), 422, "validation_failed")
        self.problem(self.api.post(path, {"text": "a", "content": "b"}), 422, "validation_failed")
        self.invalid(self.api.post(path, {"text": "a", "loud": True}), "/loud")
        self.invalid(self.api.post(path, {"text": 7}), "/text")
        self.invalid(self.api.post(path, {"mediaUrls": ["https://x/a.png", 3]}), "/mediaUrls/1")
        self.problem(self.api.post(S("agent:main:no:such", "main", "outbound"), {"text": "a"}), 404,
                     "session_not_found")
        self.assertEqual(len(self.messages(self.key)), before)

    def test_denied_by_the_session(self):
        self.ok(self.api.put(S(self.key, "main", "send-policy"), {"action": "deny"}), 200)
        with self.api.stream("/v1/events?types=policy.*&keyPrefix=" + self.key) as stream:
            stream.wait_type("stream.hello")
            problem = self.problem(self.api.post(S(self.key, "main", "outbound"), {"text": "x" * 300}), 403,
                                   "policy_denied")
            self.assertIn("rule", problem)
            event = stream.wait_type("policy.denied").data
            self.assertEqual((event["key"], event["data"]["source"], event["data"]["text"]),
                             (self.key, "session", "x" * 200))
        self.assertEqual(len(self.messages(self.key)), 1, "nothing was recorded")
        self.assertEqual(self.inbound(chatType="group", peer=self.key.rsplit(":", 1)[1])["send"],
                         {"action": "deny", "source": "session", "rule": None})

    def test_denied_by_a_rule_for_the_recipient(self):
        policy = {"default": "allow", "rules": [{"match": {"to": "C-forbidden"}, "action": "deny"}]}
        self.ok(self.api.put("/v1/policy/send", policy, if_match=self.api.get("/v1/policy/send").etag), 200)
        problem = self.problem(self.api.post(S(self.key, "main", "outbound"), {"text": "x", "to": "C-forbidden"}), 403,
                               "policy_denied")
        self.assertEqual(problem["rule"], 0)
        self.send(text="to the usual place")
        self.ok(self.api.put(S(self.key, "main", "route"), {"channel": "slack", "to": "c-FORBIDDEN"}), 200)
        self.problem(self.api.post(S(self.key, "main", "outbound"), {"text": "x"}), 403, "policy_denied")


class Kept(Case):
    """What the transcript has of it."""

    def sent(self, api=None, **body):
        key = self.new()["key"]
        self.ok((api or self.api).post(S(key, "main", "outbound"), body), 201)
        return key, self.messages(key)[-1]

    def test_text_and_media_both_reach_the_transcript(self):
        urls = ["https://example.com/image.png", "https://example.com/b.pdf?x=1"]
        part = lambda text: {"type": "text", "text": text}  # noqa: E731
        table = [({"text": "Message sent to user"}, [part("Message sent to user"), part("[media: image.png, b.pdf]")]),
                 ({"content": "as a string"}, [part("as a string"), part("[media: image.png, b.pdf]")]),
                 ({"content": [part("as"), part("parts")]}, [part("as"), part("parts"), part("[media: image.png, b.pdf]")]),
                 ({}, [part("image.png, b.pdf")])]
        for body, content in table:
            with self.subTest(str(body)):
                key, message = self.sent(**body, mediaUrls=urls)
                self.assertEqual((message["content"], message["mediaUrls"]), (content, urls))
                session = self.ok(self.api.get(S(key)), 200)
                self.daemon.checkpoint()
                line = (self.daemon.agent_dir() / (session["sessionId"] + ".jsonl")).read_text().splitlines()[-1]
                self.assertEqual(json.loads(line)["message"]["mediaUrls"], urls)
        self.assertNotIn("mediaUrls", self.sent(text="alone")[1])

    def test_usage_is_counted_and_kept(self):
        usage = {"input_tokens": 10, "output_tokens": 5, "x-own": [1]}
        key, message = self.sent(text="a", usage=usage, model="m", provider="p", stopReason="length")
        self.assertEqual([message[name] for name in ("usage", "model", "provider", "stopReason")], [usage, "m", "p", "length"])
        session = self.ok(self.api.get(S(key)), 200)
        self.assertEqual([session[name] for name in ("inputTokens", "outputTokens", "totalTokens")], [10, 5, 15])
        self.invalid(self.api.post(S(key, "main", "outbound"), {"text": "a", "usage": 3}), "/usage")

    def test_a_runner_may_send(self):
        runner = self.daemon.client(self.daemon.token("runner"))
        self.assertEqual(text_of(self.sent(runner, text="by the runner")[1]), "by the runner")
        self.problem(runner.post("/v1/inbound", {}), 403, "forbidden")
        viewer = self.daemon.client(self.daemon.token("viewer"))
        self.assertEqual(self.problem(viewer.post(S(self.new()["key"], "main", "outbound"), {"text": "x"}), 403)["permission"], "send")

"""GET …/messages?around=: a page with one message in its middle."""

from harness.case import Case, S, uid


class Around(Case):
    def setUp(self):
        super().setUp()
        self.key = f"agent:main:slack:direct:{uid().lower()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": self.key}), 201)
        self.ids = self.say(*(f"text {n}" for n in range(9)))

    def say(self, *texts, topic=None, **more):
        path = S(self.key, "main", "messages") + (f"?topic={topic}" if topic else "")
        entries = [{"role": "user", "text": text, **more} for text in texts]
        return self.ok(self.api.post(path, {"entries": entries}), 201)["ids"]

    def page(self, around, key=None, **more):
        path = S(key or self.key, "main", "messages") + f"?around={around}"
        return self.ok(self.api.get(path + "".join(f"&{name}={value}" for name, value in more.items())), 200)

    def seqs(self, around, **more):
        page = self.page(around, **more)
        self.assertEqual(page["page"]["hasMore"], (page["page"]["nextBefore"], page["page"]["nextAfter"]) != (None, None))
        return [one["seq"] for one in page["data"]], page["page"]["nextBefore"], page["page"]["nextAfter"]

    def test_the_message_stands_in_the_middle_unless_there_are_too_few_on_one_side(self):
        for seq, limit, wanted in ((4, 5, ([2, 3, 4, 5, 6], 2, 6)), (4, 4, ([3, 4, 5, 6], 3, 6)), (0, 3, ([0, 1, 2], None, 2)),
                                   (8, 3, ([6, 7, 8], 6, None)), (8, 1, ([8], 8, None)), (0, 1, ([0], None, 0)), (4, 1, ([4], 4, 4)),
                                   (7, 5, ([4, 5, 6, 7, 8], 4, None)), (4, 9, (list(range(9)), None, None)),
                                   (4, 200, (list(range(9)), None, None)), (1, 200, (list(range(9)), None, None))):
            self.assertEqual(self.seqs(self.ids[seq], limit=limit), wanted, (seq, limit))

    def test_the_pages_beside_it_join(self):
        page = self.page(self.ids[4], limit=3)
        path = S(self.key, "main", "messages")
        before = self.ok(self.api.get(path + f"?before={page['page']['nextBefore']}&limit=200&order=asc"), 200)["data"]
        behind = self.ok(self.api.get(path + f"?after={page['page']['nextAfter']}&limit=200"), 200)["data"]
        self.assertEqual([one["seq"] for one in before[:3] + page["data"] + behind], list(range(9)))

    def test_every_view_but_those_of_a_model(self):
        for n in range(30):
            self.ok(self.api.post(S(self.key, "main", "messages"), {"type": "custom", "customType": "odd", "data": {"n": n}}), 201)
        last = self.say("end")[0]
        self.assertEqual([one["seq"] for one in self.page(last, limit=3, view="chat")["data"]], [7, 8, 39])
        self.assertEqual([one["seq"] for one in self.page(last, limit=3)["data"]], [37, 38, 39])
        self.assertEqual([one["line"]["id"] for one in self.page(last, limit=1, view="raw")["data"]], [last])
        self.assertEqual([one["seq"] for one in self.page(self.ids[8], limit=3, view="chat")["data"]], [7, 8, 39])
        for view in ("llm", "summarize"):
            self.problem(self.api.get(S(self.key, "main", "messages") + f"?around={last}&view={view}"), 400, "bad_request")
        for other in ("after=1", "before=3", "order=asc", "types=message", "media=inline"):
            self.problem(self.api.get(S(self.key, "main", "messages") + f"?around={last}&{other}"), 400, "bad_request")

    def test_a_page_is_bounded_as_others_are(self):
        long = self.say(*("x" * 300_000 for _ in range(12)))
        page = self.page(long[6], limit=100)
        self.assertLess(len(page["data"]), 6)
        self.assertIn(long[6], [one["id"] for one in page["data"]])
        seqs, cursor = [one["seq"] for one in page["data"]], page["page"]["nextAfter"]
        path = S(self.key, "main", "messages")
        while cursor is not None:
            part = self.ok(self.api.get(path + f"?after={cursor}"), 200)
            seqs += [one["seq"] for one in part["data"]]
            cursor = part["page"]["nextAfter"]
        self.assertEqual(seqs, list(range(seqs[0], 21)))
        before = self.ok(self.api.get(path + f"?before={page['page']['nextBefore']}&limit=1"), 200)["data"]
        self.assertEqual(before[0]["seq"], seqs[0] - 1)

    def test_topics_archives_and_what_is_not_there(self):
        aside = self.say("aside", topic="side")[0]
        self.problem(self.api.get(S(self.key, "main", "messages") + f"?around={aside}"), 404, "message_not_found")
        self.assertEqual(self.seqs(aside, topic="side"), ([0], None, None))
        self.problem(self.api.get(S(self.key, "main", "messages") + "?around="), 404, "message_not_found")
        gone = self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)
        archive = next(name for name in gone["archivedAs"] if "topic" not in name)
        self.problem(self.api.get(S(self.key, "main", "messages") + f"?around={self.ids[4]}"), 404, "message_not_found")
        self.assertEqual(self.seqs(self.ids[4], limit=3, archive=archive), ([3, 4, 5], 3, 5))
        self.problem(self.api.get(S("agent:main:nobody", "main", "messages") + f"?around={aside}"), 404, "session_not_found")

    def test_a_message_that_people_deleted_and_one_of_an_ephemeral_session(self):
        to = {"channel": "slack", "peer": "d" + uid().lower()}
        posted = [self.ok(self.api.post("/v1/inbound", {**to, "chatType": "direct", "text": f"said {n}", "messageId": f"m{n}"}), 201) for n in range(3)]
        key = posted[0]["sessionKey"]
        self.ok(self.api.post("/v1/inbound/deletes", {**to, "messageId": "m1"}), 201)
        middle = self.ok(self.api.get(S(key, "main", "messages")), 200)["data"][1]["id"]
        page = self.page(middle, key, limit=3, view="chat")
        self.assertEqual([(one["seq"], one.get("deleted", False)) for one in page["data"]], [(0, False), (1, True), (2, False)])
        key = f"agent:main:e:{uid().lower()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        entries = [{"role": "user", "text": str(n)} for n in range(5)]
        ids = self.ok(self.api.post(S(key, "main", "messages"), {"entries": entries}), 201)["ids"]
        page = self.page(ids[2], key, limit=3)
        self.assertEqual(([one["seq"] for one in page["data"]], page["durable"]), ([1, 2, 3], False))

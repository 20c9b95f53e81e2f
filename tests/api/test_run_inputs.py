"""What waits for a runner is as people left it: edited and deleted messages, steering, the summary of a full queue."""

from harness.case import Case, S, text_of, uid
from harness.sessiond import eventually


class Inputs(Case):
    """Messages that people edit or delete while a run is to answer them."""

    config = {"runs": {"onInbound": True}}

    def setUp(self):
        super().setUp()
        self.peer = "p" + uid()

    def receive(self, id, text):
        reply = self.api.post("/v1/inbound", {"channel": "chat", "chatType": "direct", "peer": self.peer, "text": text,
                                              "messageId": id})
        return self.ok(reply, 201)

    def change(self, what, id, **more):
        self.ok(self.api.post("/v1/inbound/" + what, {"channel": "chat", "peer": self.peer, "messageId": id, **more}), 201)

    def begin_run(self, leaseMs=60_000, **entry):
        """A session with an active run that answers m0; its key is self.key."""
        self.key = self.receive("m0", "first")["sessionKey"]
        self.ok(self.api.patch(S(self.key), {"queueDebounceMs": 0, **entry}), 200)
        return self.claim(leaseMs=leaseMs)

    def claim(self, **more):
        reply = self.api.post("/v1/agents/main/runs/claim", {"keyPrefix": self.key, "waitMs": 5_000, **more})
        return self.ok(reply, 200)

    def steer(self, run):
        reply = self.api.post(S(self.key, "main", "runs", run["runId"], "events"), {"fence": run["lease"]["fence"], "events": []})
        return [each["text"] for each in self.ok(reply, 200)["steer"]]

    def finish(self, run):
        self.ok(self.api.post(S(self.key, "main", "runs", run["runId"], "finish"),
                              {"fence": run["lease"]["fence"], "status": "done"}), 200)

    def runs(self, status):
        return self.ok(self.api.get(S(self.key, "main", "runs") + "?status=" + status), 200)["data"]

    def hint(self, text="offer a refund", status=202, api=None, **body):
        reply = (api or self.api).post(S(self.key, "main", "runs"), {"input": {"role": "user", "text": text, "audience": "agent"}, "queueOnly": True, **body})
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def test_a_hint_with_the_address_of_the_run_steers_it(self):
        run = self.begin_run()
        for odd in ({}, {"replyTo": {**run["replyTo"], "to": "somebody-else"}}):
            self.assertNotIn("steered", self.hint("aside", whenBusy="steer", **odd))
            self.assertEqual(self.steer(run), [])
        told = self.hint(whenBusy="steer", replyTo={**run["replyTo"], "accountId": None, "threadId": None})
        self.assertEqual((told["runId"], len(told["steered"])), (run["runId"], 1))
        self.assertEqual(self.steer(run), ["offer a refund"])

    def test_an_answer_to_a_hint_is_sent_where_the_hint_says(self):
        self.receive("m0", "first")
        self.key = f"agent:main:chat:direct:{self.peer}"
        self.finish(self.claim())
        self.ok(self.api.post(S(self.key, "main", "outbound"), {"text": "done"}), 201)
        self.ok(self.api.post("/v1/deliveries/claim", {"channel": "chat", "keyPrefix": self.key}), 204)
        waits = self.hint(replyTo={"channel": " Chat ", "to": self.peer, "threadId": "t7"})
        self.assertEqual(waits["replyTo"], {"channel": "chat", "to": self.peer, "threadId": "t7"})
        self.assertNotIn("needs", self.ok(self.api.get(S(self.key)), 200), "no person waits for it")
        run = self.claim()
        done = self.ok(self.api.post(S(self.key, "main", "runs", run["runId"], "finish"),
                                     {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": "A refund?"}]}), 200)
        [sent] = done["deliveries"]
        self.assertEqual((sent["to"], sent["threadId"], sent["status"]), (self.peer, "t7", "pending"))
        self.assertEqual(self.hint()["replyTo"] if "replyTo" in self.hint() else None, None)
        self.receive("m1", "and now?")
        self.assertEqual(len(self.ok(self.api.get(S(self.key)), 200)["needs"]), 1)

    def test_a_hint_never_waits_for_an_answer_and_a_question_beside_it_does(self):
        needs = lambda: [need["seq"] for need in self.ok(self.api.get(S(self.key)), 200).get("needs", [])]
        run = self.begin_run()
        self.assertEqual(needs(), [0])
        self.hint(whenBusy="steer", replyTo=run["replyTo"])
        self.change("deletes", "m0")
        self.assertEqual(needs(), [], "what was asked is gone, and the hint asks nothing")
        key = self.new()["key"]
        both = [{"role": "user", "text": "be kind", "audience": "agent"}, {"role": "user", "text": "where is my money?"}]
        self.ok(self.api.post(S(key, "main", "runs"), {"input": both, "queueOnly": True}), 202)
        session = self.ok(self.api.get(S(key)), 200)
        self.assertEqual([need["seq"] for need in session["needs"]], [1])
        self.assertNotEqual(session.get("firstMessage"), "be kind")

    def test_a_persons_word_stops_the_run_of_a_hint_to_the_same_people(self):
        self.key = self.receive("m0", "first")["sessionKey"]
        self.ok(self.api.patch(S(self.key), {"deliveryContext": {"channel": "chat", "to": self.peer, "accountId": "a1"}}), 200)
        self.finish(self.claim())
        self.hint(replyTo={"channel": "chat", "to": f" {self.peer} "})
        run = self.claim()
        self.assertEqual(run["replyTo"], {"channel": "chat", "to": self.peer, "accountId": "a1"})
        self.ok(self.api.post(S(self.key, "main", "takeover"), {"name": "Hanne"}), 200)
        self.ok(self.api.post(S(self.key, "main", "outbound"), {"text": "Hanne here."}), 201)
        self.assertEqual(self.ok(self.api.get(S(self.key, "main", "runs", "active")), 200)["status"], "aborting")
        self.assertPointers(self.api.post(S(self.key, "main", "runs"), {"replyTo": {"channel": "chat", "to": " "}, "queueOnly": True}), "/replyTo/to")

    def test_an_answer_is_sent_nowhere_that_the_session_and_the_token_are_not(self):
        self.begin_run()
        to = {"channel": "chat", "to": self.peer}
        self.assertPointers(self.api.post(S(self.key, "main", "runs"), {"replyTo": {"channel": "slack", "to": "u1"}, "queueOnly": True}), "/replyTo/channel")
        for odd, pointers in (({"to": "x"}, ["/replyTo/channel"]), ({"channel": "chat"}, ["/replyTo/to"]), ({**to, "more": 1}, ["/replyTo/more"]),
                              ({**to, "threadId": 1.5}, ["/replyTo/threadId"]), ("chat", ["/replyTo"])):
            self.assertPointers(self.api.post(S(self.key, "main", "runs"), {"replyTo": odd, "queueOnly": True}), *pointers)
        bare = self.new()["key"]
        self.assertPointers(self.api.post(S(bare, "main", "runs"), {"replyTo": to, "queueOnly": True}), "/replyTo/channel")
        self.ok(self.api.patch(S(self.key), {"deliveryContext": {"channel": "slack", "to": "u1"}}), 200)  # it moves, and its run does not
        limited = self.daemon.client(self.daemon.token("runner", channel="chat"))
        moved = {"channel": "slack", "to": "u1"}
        self.problem(limited.post(S(self.key, "main", "runs"), {"replyTo": moved, "queueOnly": True}), 403, "forbidden")
        self.hint(api=limited, replyTo=to)
        self.hint(replyTo=moved)
        self.assertEqual(sorted(run["replyTo"]["channel"] for run in self.runs("queued")), ["chat", "slack"])

    def test_what_was_steered_is_as_people_left_it(self):
        for mode in ("steer", "steer-backlog"):
            self.peer = "p" + uid()
            run = self.begin_run(queueMode=mode)
            self.receive("m1", "secret")
            kept = self.receive("m2", "turn left")
            self.assertEqual(self.steer(run), ["secret", "turn left"])
            self.change("deletes", "m1")
            self.change("edits", "m2", text="turn right")
            self.assertEqual(self.steer(run), ["turn right"])
            self.finish(run)
            self.assertEqual(self.claim()["input"], [kept["messageId"]])

    def forked(self, message):
        fork = self.ok(self.api.post(S(self.key, "main", "fork"), {"messageId": message}), 201)
        self.assertEqual(fork["forkedFrom"]["messageId"], message)
        return fork["key"]

    def shown(self, key):
        rows = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm"), 200)["data"]
        return [(row["role"][0], text_of(row)) for row in rows]

    def test_a_fork_at_a_word_reaches_to_where_a_run_was_handed_it(self):
        run = self.begin_run()
        asked = self.receive("m1", "second")["messageId"]
        early = self.forked(asked)
        self.ok(self.api.post(S(self.key, "main", "runs", run["runId"], "finish"),
                              {"fence": run["lease"]["fence"], "status": "done",
                               "entries": [{"role": "assistant", "text": "answer"}]}), 200)
        self.assertEqual(self.claim()["input"], [asked])
        self.assertEqual(self.shown(self.forked(asked)), [("u", "first"), ("a", "answer"), ("u", "second")])
        self.assertEqual(self.shown(early), [("u", "first"), ("u", "second")])

    def test_a_fork_has_no_words_that_waited_where_it_ends(self):
        run = self.begin_run(queueMode="followup")
        second, third = self.receive("m1", "second")["messageId"], self.receive("m2", "third")["messageId"]
        of_both = self.forked(third)
        for answer in ("a1", "a2"):
            self.ok(self.api.post(S(self.key, "main", "runs", run["runId"], "finish"),
                                  {"fence": run["lease"]["fence"], "status": "done",
                                   "entries": [{"role": "assistant", "text": answer}]}), 200)
            run = self.claim()
        self.assertEqual(run["input"], [third])
        ids = {text_of(message): message["id"] for message in self.messages(self.key) if message["type"] == "message"}
        first = [("u", "first"), ("a", "a1")]
        self.assertEqual(self.shown(self.forked(ids["a1"])), first)
        self.assertEqual(self.shown(self.forked(second)), first + [("u", "second")])
        self.assertEqual(self.shown(self.forked(ids["a2"])), first + [("u", "second"), ("a", "a2")])
        self.assertEqual(self.shown(self.forked(third)), first + [("u", "second"), ("a", "a2"), ("u", "third")])
        self.assertEqual(self.shown(of_both), [("u", "first"), ("u", "second"), ("u", "third")])
        raw = self.ok(self.api.get(S(self.forked(ids["a2"]), "main", "messages") + "?limit=200&order=asc"), 200)["data"]
        self.assertEqual([entry["parentId"] for entry in raw], [None] + [entry["id"] for entry in raw[:-1]],
                         "programs that go from parent to parent find all of it")
        self.receive("m3", "fourth")
        self.say(self.key, "beside", role="assistant")
        beside = self.messages(self.key)[-1]["id"]
        self.assertNotIn(("u", "fourth"), self.shown(self.forked(beside)), "it waits now")

    def test_a_fork_behind_a_checkpoint_has_all_that_it_keeps(self):
        run = self.begin_run(queueMode="followup", contextTokens=1000)
        self.receive("m1", "waits")
        held = {"X-Run": f"{run['runId']};{run['lease']['fence']}"}
        for n in range(8):
            self.say(self.key, f"step {n} " + "x" * 600, role="assistant")
        plan = self.ok(self.api.post(S(self.key, "main", "compact"), {}, headers=held), 200)["plan"]
        self.ok(self.api.post(S(self.key, "main", "compact"), {"summary": "SUM", "firstKeptEntryId": plan["firstKeptEntryId"]},
                              headers=held), 201)
        self.say(self.key, "last", role="assistant")
        origin = self.shown(self.key)
        self.assertEqual((origin[-1], ("a", "last") in origin), (("u", "waits"), True))
        self.assertEqual(self.shown(self.forked(self.messages(self.key)[-1]["id"])), origin)

    def test_no_run_is_under_way_in_a_fork(self):
        run = self.begin_run()
        self.ok(self.api.post(S(self.key, "main", "messages"), {"role": "assistant", "text": "half"},
                              headers={"X-Run": f"{run['runId']};{run['lease']['fence']}"}), 201)
        half = self.messages(self.key)[-1]["id"]
        for fork in (self.forked(half), self.ok(self.api.post(S(self.key, "main", "fork")), 201)["key"]):
            for role, said in (("user", "then"), ("assistant", "so"), ("user", "and")):
                self.say(fork, said, role=role)
            self.assertEqual(self.shown(fork), [("u", "first"), ("a", "half"), ("u", "then"), ("a", "so"), ("u", "and")])
            ended = self.messages(fork, query="view=full")[-4]
            self.assertEqual((ended["customType"], ended["data"]["runId"], ended["data"]["stopReason"]),
                             ("sessiond.run", run["runId"], "copied"))
        ended = [entry for entry in self.messages(self.key) if entry.get("customType") == "sessiond.run"]
        self.assertEqual(ended, [], "the run goes on in the origin")
        self.finish(run)

    def test_what_was_steered_and_deleted_makes_no_run(self):
        run = self.begin_run(queueMode="steer")
        self.receive("m1", "secret")
        self.change("deletes", "m1")
        self.finish(run)
        self.assertEqual(self.runs("queued"), [])

    def test_an_edit_that_is_too_long_to_steer_waits(self):
        run = self.begin_run(queueMode="steer")
        got = self.receive("m1", "short")
        self.change("edits", "m1", text="x" * (300 << 10))
        self.assertEqual(self.steer(run), [])
        self.assertEqual([waiting["input"] for waiting in self.runs("queued")], [[got["messageId"]]])

    def test_the_summary_of_a_full_queue_is_as_people_left_it(self):
        run = self.begin_run(queueMode="collect", queueCap=2)
        for n in range(6):
            self.receive(f"w{n}", f"waiting {n}")
            if n == 0:
                self.change("edits", "w0", text="edited while it waits")
        self.change("deletes", "w1")                       # dropped
        self.change("edits", "w2", text="edited later")    # dropped
        self.change("deletes", "w4")                       # waits
        self.daemon.restart(kill=True)
        self.finish(run)
        last = self.claim()
        said = [text_of(message) for message in self.messages(self.key) if message.get("id") == last["input"][0]]
        self.assertEqual(said, ["[Queue overflow] Dropped 3 messages.\n- edited while it waits\n- edited later\n- waiting 3"])
        self.assertEqual(len(last["input"]), 2)

    def overflow(self, *later):
        """A run that was told of three dropped messages, of which people take back some `later`."""
        run = self.begin_run(queueMode="collect", queueCap=1)
        for n in range(4):
            self.receive(f"w{n}", f"word {n} of people")
        self.finish(run)
        last = self.claim()
        self.finish(last)
        for what, id, more in later:
            self.change(what, id, **more)
        return last["input"][0]

    def told(self, entry):
        """Each way in which the entry that tells of dropped messages is shown, and all that is shown beside it."""
        views = {view: self.ok(self.api.get(S(self.key, "main", "messages") + f"?view={view}"), 200)["data"] for view in ("chat", "full", "llm")}
        views["one"] = [self.ok(self.api.get(S(self.key, "main", "messages", entry)), 200)]
        copy = "agent:main:chat:direct:f" + uid()
        self.ok(self.api.post(S(self.key, "main", "fork"), {"key": copy}), 201)
        views["fork"] = self.ok(self.api.get(S(copy, "main", "messages") + "?view=llm"), 200)["data"]
        for format in ("json", "conversation", "robota", "manager"):
            views[format] = [{"text": self.api.get(S(self.key, "main", "export") + "?format=" + format).raw.decode()}]
        return views

    def test_what_was_dropped_is_shown_to_a_model_once(self):
        self.overflow()
        for query in ("", "&run="):
            run = self.runs("done")[0]["runId"]
            view = self.ok(self.api.get(S(self.key, "main", "messages") + f"?view=llm&prune=off{query}{run if query else ''}"), 200)
            self.assertEqual([text_of(row) for row in view["data"]][:2],
                             ["first", "[Queue overflow] Dropped 3 messages.\n- word 0 of people\n- word 1 of people\n- word 2 of people"])
            self.assertEqual(str(view["data"]).count("word 1 of people"), 1)
            self.assertEqual(str(view["data"]).count("word 3 of people"), 1)
        context, shown = self.ok(self.api.get(S(self.key, "main", "context")), 200), view["context"]
        for name in ("used", "messages", "turns"):
            self.assertEqual(context[name], shown[name], name)
        self.receive("m9", "later")
        self.daemon.restart(kill=True)
        type(self).api = self.daemon.client()
        context = self.ok(self.api.get(S(self.key, "main", "context")), 200)
        shown = self.ok(self.api.get(S(self.key, "main", "messages") + "?view=llm&prune=off"), 200)["context"]
        for name in ("used", "messages", "turns"):
            self.assertEqual(context[name], shown[name], name)
        told = self.api.get(S(self.key, "main", "export") + "?format=conversation").raw.decode()
        self.assertEqual(told.count("word 1 of people"), 1)
        chat = self.ok(self.api.get(S(self.key, "main", "messages") + "?view=chat"), 200)["data"]
        self.assertEqual(str(chat).count("word 1 of people"), 2, "people see what was written")

    def test_only_the_daemon_says_what_was_dropped(self):
        key = self.new()["key"]
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "text": "hello"}), 201)
        kept = self.messages(key)[0]
        hides = {"role": "user", "synthetic": True, "content": "[Queue overflow] Dropped 1 messages.\n- hello", "dropped": [kept["id"]]}
        self.invalid(self.api.post(S(key, "main", "messages"), hides), "/dropped")
        self.invalid(self.api.post(S(key, "main", "messages"), {"entries": [{"type": "message", "message": hides}]}), "/entries/0/dropped")
        self.invalid(self.api.post(S(key, "main", "runs"), {"input": hides}), "/input/dropped")
        self.assertIn("hello", str(self.ok(self.api.get(S(key, "main", "messages") + "?view=llm"), 200)["data"]))

    def test_what_was_dropped_is_told_as_people_left_it_later(self):
        entry = self.overflow(("deletes", "w1", {}), ("edits", "w2", {"text": "a better\nword"}))
        for restarted in (False, True):
            for view, rows in self.told(entry).items():
                shown = str(rows)
                self.assertNotIn("word 1 of people", shown, view)
                self.assertNotIn("word 2 of people", shown, view)
                wanted = "[Queue overflow] Dropped 2 messages.\n- word 0 of people\n- a better word"
                self.assertIn(repr(wanted)[1:-1] if view in ("chat", "full", "llm", "one", "fork") else "Dropped 2 messages.", shown, view)
            context = self.ok(self.api.get(S(self.key, "main", "context")), 200)["used"]
            self.assertEqual(context, self.ok(self.api.get(S(self.key, "main", "messages") + "?view=llm&prune=off"), 200)["context"]["used"])
            if not restarted:
                self.daemon.restart(kill=True)
                type(self).api = self.daemon.client()
        self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)
        archive = self.ok(self.api.get(S(self.key, "main", "archives")), 200)["data"][0]["archivedAs"][0]
        for view in ("chat", "full", "llm"):
            rows = self.ok(self.api.get(S(self.key, "main", "messages") + f"?view={view}&archive={archive}"), 200)["data"]
            self.assertNotIn("word 1 of people", str(rows))
            self.assertIn("Dropped 2 messages.", str(rows))

    def test_what_was_dropped_and_is_deleted_whole_is_not_told(self):
        entry = self.overflow(*[("deletes", f"w{n}", {}) for n in range(3)])
        for view, rows in self.told(entry).items():
            self.assertNotIn("Queue overflow", str(rows), view)

    def test_a_run_is_told_of_what_was_dropped_at_its_address(self):
        """Words of one place are never told in another."""
        daemon = self.spawn({**self.config, "session": {"dmScope": "main"}})
        api = daemon.client()

        def receive(channel, text):
            return self.ok(api.post("/v1/inbound", {"channel": channel, "chatType": "direct", "peer": "u1", "text": text}), 201)

        key = receive("slack", "first")["sessionKey"]
        self.assertEqual(receive("discord", "also first")["sessionKey"], key)
        self.ok(api.patch(S(key), {"queueDebounceMs": 0, "queueMode": "followup", "queueCap": 3}), 200)

        def claim():
            return self.ok(api.post("/v1/agents/main/runs/claim", {"keyPrefix": key, "waitMs": 5_000}), 200)

        def finish(run):
            self.ok(api.post(S(key, "main", "runs", run["runId"], "finish"), {"fence": run["lease"]["fence"], "status": "done"}), 200)

        finish(claim())
        finish(claim())
        receive("slack", "go")
        active = claim()
        for n in range(3):
            receive("slack", f"of slack {n}")
            receive("discord", f"of discord {n}")
        daemon.restart(kill=True)
        api = daemon.client()
        finish(active)
        for _ in range(3):
            run = claim()
            texts = [text_of(self.ok(api.get(S(key, "main", "messages", id)), 200)) for id in run["input"]]
            channel = run["replyTo"]["channel"]
            other = "discord" if channel == "slack" else "slack"
            self.assertNotIn(f"of {other}", str(texts))
            finish(run)
        every = [text_of(m) for m in self.ok(api.get(S(key, "main", "messages") + "?limit=200&order=asc"), 200)["data"] if m.get("synthetic")]
        self.assertEqual(sorted(every), ["[Queue overflow] Dropped 1 messages.\n- of discord 0", "[Queue overflow] Dropped 2 messages.\n- of slack 0\n- of slack 1"])

    def test_what_was_dropped_goes_with_its_topic(self):
        key = self.new()["key"]
        self.ok(self.api.patch(S(key), {"queueDebounceMs": 0, "queueMode": "followup", "queueCap": 1}), 200)
        self.key = key

        def start(text, topic, *statuses):
            body = {"input": {"role": "user", "text": text}, "whenBusy": "queue"}
            return self.ok(self.api.post(S(key, "main", "runs") + f"?topic={topic}", body), *statuses)

        for deleted in (False, True):
            active = start("go", "other", 201)
            for n in range(3):
                start(f"dropped {n}", "work", 202)
            if deleted:
                self.ok(self.api.delete(S(key, "main", "topics", "work")), 200, 204)
                start("later", "work", 202)
            self.finish(active)
            run = self.claim()
            said = [text_of(m) for m in self.messages(key, query="topic=work&limit=200&order=asc") if m.get("id") in run["input"]]
            self.assertEqual(sorted(said), ["later"] if deleted else ["[Queue overflow] Dropped 2 messages.\n- dropped 0\n- dropped 1", "dropped 2"])
            self.finish(run)

    def test_a_retry_goes_without_what_was_deleted(self):
        self.begin_run(leaseMs=300)
        self.change("deletes", "m0")
        eventually(lambda: self.runs("interrupted"), 10)
        self.assertEqual(self.runs("queued"), [])
        self.peer = "p" + uid()
        self.key = self.receive("m0", "deleted")["sessionKey"]
        kept = self.receive("m1", "kept")
        run = self.claim(leaseMs=500)
        self.assertEqual(len(run["input"]), 2)
        self.change("deletes", "m0")
        self.daemon.restart(kill=True)
        self.assertEqual(self.claim(waitMs=20_000)["input"], [kept["messageId"]])

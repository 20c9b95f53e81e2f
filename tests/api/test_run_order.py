"""The order of a conversation is the order of its runs: what a model is shown, how full it is, what is compacted."""

from urllib.parse import quote

from harness.case import S, text_of, uid
from runs_case import RunsCase


class RunOrder(RunsCase):
    config = {"runs": {"maxAttempts": 3}}

    def shown(self, key, query="", api=None, **named):
        return [text_of(row) for row in self.view(key, query, api, **named)["data"]]

    def view(self, key, query="", api=None, **named):
        reply = (api or self.api).get(S(key, "main", "messages") + "?view=llm" + query, **named)
        return self.ok(reply, 200)

    def counted(self, key, query="", api=None):
        """S/context, which says the same of the window as the view does."""
        told = self.ok((api or self.api).get(S(key, "main", "context") + "?" + query), 200)
        view = self.view(key, "&prune=off&" + query, api)["context"]
        self.assertEqual({name: told[name] for name in view}, view)
        return told

    def notes(self, key, api=None):
        return [(m["customType"], m["data"]) for m in self.messages(key, api=api) if m.get("customType", "").startswith("sessiond.")]

    def test_a_second_message_is_asked_behind_the_answer_to_the_first(self):
        key = self.make()
        first = self.start(key, "q1")
        second = self.start(key, "q2", status=202)
        self.assertEqual(self.shown(key), ["q1", "q2"])
        self.assertEqual(self.shown(key, f"&run={first['runId']}"), ["q1"])
        self.finish(first, {"role": "assistant", "text": "a1", "usage": {"input": 100, "output": 10}})
        self.assertEqual(self.shown(key), ["q1", "a1", "q2"])
        self.assertEqual((self.counted(key)["used"], self.counted(key)["turns"]), (111, 2))
        second = self.claim(keyPrefix=key, waitMs=5_000)
        self.assertEqual(self.shown(key, f"&run={second['runId']}"), ["q1", "a1", "q2"])
        self.assertEqual(second["context"]["used"], 111)
        self.finish(second, {"role": "assistant", "text": "a2"})
        self.assertEqual(self.shown(key), ["q1", "a1", "q2", "a2"])
        self.assertEqual([(what, data["runId"], data.get("entries")) for what, data in self.notes(key)], [
            ("sessiond.input", first["runId"], first["input"]), ("sessiond.run", first["runId"], None),
            ("sessiond.input", second["runId"], second["input"]), ("sessiond.run", second["runId"], None)])
        self.assertEqual([text_of(m) for m in self.messages(key, query="limit=200&order=asc&view=chat")], ["q1", "q2", "a1", "a2"])

    def test_the_order_is_the_same_after_a_kill_and_in_memory(self):
        daemon = self.spawn()
        for ephemeral in (False, True):
            api = daemon.client()
            key = f"agent:main:slack:channel:{uid()}"
            self.ok(api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": ephemeral}), 201)
            first = self.start(key, "q1", api=api)
            self.start(key, "q2", status=202, api=api)
            self.say(key, "aside", api=api)
            self.finish(first, {"role": "assistant", "text": "a1"}, api=api)
            if not ephemeral:
                daemon.restart(kill=True)
                api = daemon.client()
            self.assertEqual(self.shown(key, api=api), ["q1", "a1", "aside", "q2"])
            self.counted(key, api=api)

    def test_what_was_steered_is_shown_from_its_confirmation_on(self):
        key = self.make(queueMode="steer")
        run = self.start(key, "q1")
        mine = f"&run={run['runId']}"
        steered = self.start(key, "and this", status=202)["steered"]
        self.assertEqual(self.shown(key, mine), ["q1"])
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": "working"}), 201)
        self.assertEqual(self.view(key, mine)["repaired"], [{"entryId": self.messages(key)[-1]["id"], "why": "continued"}])
        self.assertEqual(self.shown(key, mine), ["q1", "working", "Continue."])
        self.counted(key, mine[1:])
        self.tell(run, steered=steered)
        self.assertEqual(self.shown(key, mine), ["q1", "working", "and this"])
        late = self.start(key, "at the end", status=202)["steered"]
        self.finish(run, {"role": "assistant", "text": "done"}, steered=late)
        self.assertEqual(self.shown(key), ["q1", "working", "and this", "at the end", "done"])

    def test_a_further_attempt_sees_what_the_first_saw_and_what_it_wrote(self):
        key = self.make(queueMode="followup")
        self.start(key, "waits", status=202, queueOnly=True)
        first = self.start(key, "q1", leaseMs=2_000)
        self.assertEqual(self.shown(key, f"&run={first['runId']}"), ["q1"])
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": "half"},
                              headers={"X-Run": f"{first['runId']};{first['lease']['fence']}"}), 201)
        self.say(key, "aside")
        self.wait_for_run(key, first["runId"], "interrupted")
        between = self.start(key, "another")  # a retry waits, and this one begins at once
        self.assertEqual(self.shown(key, f"&run={between['runId']}"), ["half", "aside", "another"])
        self.finish(between, {"role": "assistant", "text": "to another"})
        again = self.claim(keyPrefix=key, waitMs=5_000)
        self.assertEqual((again["attempt"], again["retryOf"]), (2, first["runId"]))
        self.assertEqual(self.shown(key, f"&run={again['runId']}"), ["q1", "half", "Continue."])
        self.counted(key, f"run={again['runId']}")
        self.assertEqual(again["context"]["used"], self.view(key, f"&prune=off&run={again['runId']}")["context"]["used"])

    def test_a_run_that_ends_before_it_begins_is_recorded(self):
        key = self.make(queueMode="followup", queueCap=2, queueDrop="old")
        active = self.start(key, "q1")
        dropped, kept, last = (self.start(key, text, status=202) for text in ("one", "two", "three"))
        self.ok(self.api.post(S(key, "main", "abort"), {"runId": kept["runId"]}), 200)
        records = [(data["runId"], data["status"], data["input"], data["error"]["code"]) for what, data in self.notes(key) if "input" in data]
        self.assertEqual(records, [(dropped["runId"], "dropped", dropped["input"], "queue_full"),
                                   (kept["runId"], "interrupted", kept["input"], "aborted")])
        self.finish(active, {"role": "assistant", "text": "a1"})
        self.assertEqual(self.shown(key), ["q1", "a1", "one", "two", "three"])
        self.assertEqual(self.claim(keyPrefix=key, waitMs=5_000)["runId"], last["runId"])
        self.counted(key)

    def test_a_view_of_a_run_is_of_one_that_has_begun_here(self):
        key, other = self.make(), self.make()
        run = self.start(key, "q1")
        waiting = self.start(key, "q2", status=202)
        there = self.start(other, "elsewhere")
        held = {"X-Run": f"{run['runId']};{run['lease']['fence']}"}
        for path in ("messages?view=llm", "context?"):
            at = S(key, "main", path)
            self.assertEqual(self.ok(self.api.get(at + f"&run={run['runId']}"), 200)["sessionId"], self.entry(key)["sessionId"])
            self.ok(self.api.get(at, headers=held), 200)
            for wrong in (waiting["runId"], there["runId"], "nobody", quote("../x")):
                self.problem(self.api.get(at + f"&run={wrong}"), 404, "run_not_found")
            self.problem(self.api.get(at + f"&topic=side&run={run['runId']}"), 404, "run_not_found")
            for lost in (f"{run['runId']};99", f"{waiting['runId']};1", f"{there['runId']};{there['lease']['fence']}"):
                self.problem(self.api.get(at, headers={"X-Run": lost}), 409, "lease_lost")
            for bad in ("bad", " "):
                self.problem(self.api.get(at, headers={"X-Run": bad}), 400, "bad_request")
        self.assertEqual(self.shown(key, headers=held), ["q1"])
        self.assertEqual(self.shown(key, "&topic=side", headers=held), [], "another conversation: not of this run")
        self.problem(self.api.get(S(key, "main", "messages") + f"?run={run['runId']}"), 400, "bad_request")
        self.finish(run, {"role": "assistant", "text": "a1"})
        self.assertEqual(self.shown(key, f"&run={run['runId']}"), ["q1", "a1", "Continue."])
        self.problem(self.api.get(S(key, "main", "messages") + "?view=llm", headers=held), 409, "lease_lost")
        old = self.entry(key)["sessionId"]
        self.ok(self.api.delete(S(key)), 204)
        self.problem(self.api.get(S(old, "main", "messages") + f"?view=llm&run={run['runId']}"), 404, "run_not_found")

    def test_beside_other_programs_words_stay_where_they_are(self):
        daemon = self.spawn({"store": {"mode": "shared"}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        run = self.start(key, "q1", api=api)
        self.say(key, "aside", api=api)
        self.finish(run, {"role": "assistant", "text": "a1"}, api=api)
        self.assertEqual(self.shown(key, api=api), ["q1", "aside", "a1"])

    def test_a_compaction_keeps_by_the_order_of_runs(self):
        key = self.make(queueMode="followup")
        for n in range(5):
            run = self.start(key, f"q{n}") if n == 0 else self.claim(keyPrefix=key, waitMs=5_000)
            self.start(key, f"q{n + 1}", status=202)
            self.finish(run, {"role": "assistant", "text": f"a{n}"})
        active = self.claim(keyPrefix=key, waitMs=5_000)
        waiting = self.start(key, "q6", status=202)
        order = [word for n in range(5) for word in (f"q{n}", f"a{n}")] + ["q5", "q6"]
        self.assertEqual(self.shown(key), order)
        plan = self.ok(self.api.post(S(key, "main", "compact"), {}), 200)["plan"]
        summarised = [text_of(row) for row in self.ok(self.api.get(plan["summarize"]["url"]), 200)["data"]]
        self.assertEqual(summarised, order[:len(summarised)])
        self.assertEqual(plan["summarize"]["count"], len(summarised))
        self.ok(self.api.post(S(key, "main", "compact"), {"summary": "S", "firstKeptEntryId": plan["firstKeptEntryId"]}), 201)
        pair = ["The conversation so far was summarized.", "[Context Summary] S"]
        self.assertEqual(self.shown(key), pair + order[len(summarised):])
        self.counted(key)
        entry = [m for m in self.messages(key) if m["type"] == "compaction"][-1]
        file = [m["id"] for m in self.messages(key)]
        self.assertEqual(entry["details"]["firstShown"], plan["firstKeptEntryId"])
        self.assertTrue(all(file.index(run) < file.index(entry["firstKeptEntryId"]) for run in entry["details"]["runs"]), "the runs that it cuts")
        kept = [m["id"] for m in self.messages(key)[file.index(entry["firstKeptEntryId"]):]]
        self.assertIn(plan["firstKeptEntryId"], kept, "who reads by the file loses none")
        self.assertEqual(self.shown(key, f"&run={active['runId']}")[-1], "q5")
        self.finish(active, {"role": "assistant", "text": "a5"})
        self.assertEqual(self.shown(key), pair + order[len(summarised):-1] + ["a5", "q6"])
        self.assertEqual(self.claim(keyPrefix=key, waitMs=5_000)["runId"], waiting["runId"])
        self.assertEqual(self.shown(key)[-2:], ["a5", "q6"])

    def test_a_compaction_keeps_the_order_of_runs_that_it_cuts(self):
        """A word that came during a run stands behind it also where the file's beginning is summarised."""
        key = self.make()
        for n in range(6):
            run = self.start(key, f"q{n}")
            self.say(key, f"aside{n}")
            self.finish(run, {"role": "assistant", "text": f"a{n}"})
        order = [word for n in range(6) for word in (f"q{n}", f"a{n}", f"aside{n}")]
        self.assertEqual(self.shown(key), order)
        for _ in range(2):
            plan = self.ok(self.api.post(S(key, "main", "compact"), {}), 200)["plan"]
            summarised = [text_of(row) for row in self.ok(self.api.get(plan["summarize"]["url"]), 200)["data"]]
            self.ok(self.api.post(S(key, "main", "compact"), {"summary": "S", "firstKeptEntryId": plan["firstKeptEntryId"]}), 201)
            order = order[len(summarised):]
            self.assertEqual(self.shown(key)[2:], order)
            self.counted(key)
            for n in (6, 7):
                run = self.start(key, f"q{n}")
                self.finish(run, {"role": "assistant", "text": f"a{n}"})
                order += [f"q{n}", f"a{n}"]
            self.assertEqual(self.shown(key)[2:], order)
            self.counted(key)

    def test_a_compaction_may_begin_with_a_word_that_waits(self):
        key = self.make()
        self.start(key, "waits", status=202, queueOnly=True)
        run = self.start(key, "q1")
        self.finish(run, {"role": "assistant", "text": "a1"})
        waiting = next(m["id"] for m in self.messages(key) if text_of(m) == "waits")
        self.ok(self.api.post(S(key, "main", "compact"), {"summary": "S", "firstKeptEntryId": waiting}), 201)
        self.assertEqual(self.shown(key)[2:], ["waits"])
        self.counted(key)

    def test_what_a_runner_writes_is_of_its_run_whoever_says_it(self):
        key = self.make()
        run = self.start(key, leaseMs=600_000)
        held = {"X-Run": f"{run['runId']};{run['lease']['fence']}"}
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "text": "a nudge"}, headers=held), 201)
        self.assertEqual(self.shown(key, f"&run={run['runId']}"), ["a nudge"])
        self.finish(run, {"role": "user", "text": "q"}, {"role": "assistant", "text": "a"})
        self.assertEqual(self.shown(key), ["a nudge", "q", "a"])
        self.counted(key)

    def test_what_waits_in_a_topic_is_of_that_topic(self):
        key = self.make()
        one = {"role": "user", "text": "q1", "id": "m1"}
        self.ok(self.api.post(S(key, "main", "messages"), one), 201)
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": "a1"}), 201)
        self.ok(self.api.post(S(key, "main", "runs") + "?topic=side", {"input": {**one, "text": "elsewhere"}, "queueOnly": True}), 202)
        self.assertEqual(self.shown(key), ["q1", "a1"])
        self.assertEqual(self.shown(key, "&topic=side"), ["elsewhere"])
        self.ok(self.api.delete(S(key, "main", "topics") + "/side"), 204)
        self.ok(self.api.post(S(key, "main", "messages") + "?topic=side", {"role": "user", "text": "anew"}), 201)
        self.assertEqual([m["seq"] for m in self.messages(key, query="limit=200&order=asc&topic=side")], [0])
        self.assertEqual(self.notes(key), [])

    def test_a_runner_confirms_what_it_was_handed_and_nothing_else(self):
        key = self.make(queueMode="steer")
        aside = self.say(key, "aside")["ids"][0]
        run = self.start(key, "q1")
        steered = self.start(key, "and this", status=202)["steered"]
        for _ in range(3):
            self.tell(run, steered=[aside, "nothing", *steered])
        named = [data["entries"] for what, data in self.notes(key) if what == "sessiond.input"]
        self.assertEqual(named, [run["input"], steered])

    def test_every_entry_counts_also_those_of_runs_that_end_in_the_queue(self):
        daemon = self.spawn({"runs": {"onInbound": True}})
        api, peer = daemon.client(), "p" + uid()
        said = {"channel": "chat", "chatType": "direct", "peer": peer}
        key = self.ok(api.post("/v1/inbound", {**said, "text": "one", "messageId": "m1"}), 201)["sessionKey"]
        self.ok(api.patch(S(key), {"queueCap": 1, "queueDrop": "old"}), 200)
        self.ok(api.post("/v1/inbound", {**said, "text": "two", "messageId": "m2"}), 201)
        self.ok(api.post("/v1/inbound/deletes", {"channel": "chat", "peer": peer, "messageId": "m2"}), 201)
        self.assertEqual(self.entry(key, api=api)["entryCount"], len(self.messages(key, api=api)))
        told = [event for event in self.of_type(key, "message.appended", api=api) if "inbound" in event]
        self.assertEqual([text_of(event["message"]) for event in told], ["one", "two"])
        again = self.ok(api.post("/v1/inbound", {**said, "text": "three", "messageId": "m3"}), 201)
        fresh = self.ok(api.post("/v1/inbound", {**said, "text": "/new four", "messageId": "m4"}), 201)
        told = [event for event in self.of_type(key, "message.appended", api=api) if "inbound" in event]
        self.assertEqual([text_of(event["message"]) for event in told][-2:], ["three", "four"])
        self.assertNotEqual(fresh["sessionId"], again["sessionId"])

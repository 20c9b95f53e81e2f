"""Runs: who answers, how it is stopped, what waits (policy/runs/README.md)."""

import json
import threading
import time

from harness.case import S, text_of, uid
from harness.sessiond import eventually
from runs_case import RunsCase


class Runs(RunsCase):
    def test_a_run_and_its_message_survive_a_kill(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        run = self.start(key, "hello", api=api)
        daemon.kill9()
        self.assertEqual((run["status"], run["attempt"], len(run["input"])), ("running", 1, 1))
        daemon.start()
        api = daemon.client()
        self.assertEqual(self.texts(key, api=api, query="view=chat&limit=200&order=asc"), ["hello"])
        now = self.run_of(key, api=api)
        self.assertEqual((now["runId"], now["status"], now["lease"]["fence"]), (run["runId"], "running", run["lease"]["fence"]))
        self.assertEqual(self.entry(key, api=api)["status"], "running")
        appended, _ = self.of_type(key, "message.appended", api=api)
        started, = self.of_type(key, "run.started", api=api)
        self.assertEqual((appended["message"]["id"], started["runId"], "fence" in str(started)), (run["input"][0], run["runId"], False))
        self.finish(run, {"role": "assistant", "text": "hi"}, api=api)
        self.assertEqual(self.entry(key, api=api)["status"], "done")

    def test_a_second_run_waits_or_is_refused(self):
        key = self.make()
        first = self.start(key, "one")
        second = self.start(key, "two", status=202)
        self.assertEqual((second["status"], second["position"]), ("queued", 1))
        self.assertEqual(self.start(key, "three", status=202)["runId"], second["runId"], "collect")
        refused = self.problem(self.api.post(S(key, "main", "runs"), {"whenBusy": "reject"}), 409, "session_busy")
        self.assertEqual(refused["runId"], first["runId"])
        self.finish(first)
        self.assertEqual(self.run_of(key, status=404)["code"], "run_not_found")

    def test_the_turn_cap_refuses_the_next_run(self):
        for entry, passes in (({}, 50), ({"turnCap": 0}, 50), ({"turnCap": None}, 50), ({"turnCap": 3}, 3)):
            key = self.make(**entry)
            for _ in range(passes):
                run = self.start(key)
                self.tell(run, {"type": "step.started", "step": 1})
                self.finish(run)
            before = self.entry(key)["messageCount"]
            refused = self.problem(self.api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "x"}}), 409, "turn_limit")
            self.assertEqual(refused["limit"], "turnCap")
            self.assertEqual(self.entry(key)["messageCount"], before)
            self.say(key, "still here")
            self.assertEqual(self.said(key), ["still here"])
            last = self.of_type(key, "run.finished")[-1]
            self.assertEqual((last["status"], last["stopReason"], last["error"]["code"]), ("failed", "error", "turn_limit"))
            self.assertEqual(self.api.get(S(key, "main", "runs", last["runId"])).status, 404)
        key = self.make(turnCap="unlimited")
        for _ in range(60):
            run = self.start(key)
            self.tell(run, {"type": "step.started", "step": 1})
            self.finish(run)
        self.assertEqual(self.entry(key)["turnCount"], 60)

    def test_a_run_ends_at_its_most_steps(self):
        key = self.make()
        run = self.start(key)
        for step in range(1, 11):
            self.tell(run, {"type": "step.started", "step": step}, {"type": "step.finished", "step": step})
        self.invalid_step(key)
        refused = self.tell(run, {"type": "tool.started", "tool": "ls", "args": {}, "callId": "c"}, {"type": "step.started", "step": 11},
                            status=409)
        self.assertEqual((refused["code"], refused["limit"]), ("turn_limit", "maxSteps"))
        ended = self.run_of(key, run["runId"])
        self.assertEqual((ended["status"], ended["error"]["code"], ended["steps"]), ("failed", "turn_limit", 10))
        self.assertEqual(len(self.of_type(key, "tool.started")), 1)
        free = self.start(key, maxSteps=0)
        for step in range(1, 26):
            self.tell(free, {"type": "step.started", "step": step})

    def invalid_step(self, key):
        run = self.run_of(key)
        reply = self.api.post(S(key, "main", "runs", run["runId"], "events"),
                              {"fence": run["lease"]["fence"], "events": [{"type": "step.started", "step": 12}]})
        self.invalid(reply, "/events/0/step")

    def test_an_abort_keeps_what_was_said(self):
        daemon = self.spawn({"runs": {"abortGraceMs": 200}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.assertEqual([api.post(S(key, "main", "abort"), {}).status for _ in range(2)], [204, 204], "nothing runs")
        self.assertEqual(self.of_type(key, "run.*", api=api), [])
        run = self.start(key, "question", api=api)
        self.tell(run, {"type": "text.delta", "text": "Hel"}, {"type": "text.delta", "text": "lo"}, api=api)
        self.tell(run, {"type": "step.started", "step": 1}, api=api)
        self.assertTrue(self.entry(key, api=api)["systemSent"])
        self.assertEqual(api.post(S(key, "main", "abort"), {}).status, 202)
        self.assertEqual(api.post(S(key, "main", "abort"), {}).status, 202)
        self.assertTrue(self.tell(run, api=api)["abort"])
        self.assertIn(self.entry(key, api=api)["status"], ("aborting", "interrupted"))
        self.wait_for_run(key, run["runId"], "interrupted", api=api)
        messages = [m for m in self.messages(key, api=api) if m.get("role") == "assistant"]
        self.assertEqual([(m["content"][0]["text"], m["state"], m["stopReason"]) for m in messages], [("Hello", "interrupted", "aborted")])
        chat = self.messages(key, api=api, query="view=chat&order=asc")
        self.assertEqual([m.get("interrupted") for m in chat if m["role"] == "assistant"], [True])
        self.assertTrue(self.entry(key, api=api)["abortedLastRun"])
        self.assertEqual(len(self.of_type(key, "run.aborting", api=api)), 1)
        self.assertEqual(len(self.of_type(key, "run.finished", api=api)), 1)

    def test_an_aborted_run_ends_interrupted_once_whatever_its_runner_says(self):
        """And the conversation goes on behind what was said."""
        for outcome in ("done", "failed", "interrupted"):
            key = self.make()
            run = self.start(key, "a long story")
            self.tell(run, {"type": "text.delta", "text": "Once upon"})
            self.ok(self.api.post(S(key, "main", "abort"), {"reason": "enough"}), 202)
            self.assertEqual([self.finish(run, outcome=outcome)["status"] for _ in range(2)], ["interrupted"] * 2)
            self.assertEqual([told["status"] for told in self.of_type(key, "run.finished")], ["interrupted"])
            self.finish(self.start(key, "go on"), {"role": "assistant", "text": " a time"})
            self.assertEqual(self.texts(key, query="view=chat&order=asc"), ["a long story", "Once upon", "go on", " a time"])
        self.finish(self.start(key), outcome="interrupted", status=422)

    def test_a_run_that_was_stopped_says_by_whom(self):
        daemon = self.spawn()
        api, person = daemon.client(), daemon.client(daemon.token("operator"))
        me = self.ok(person.get("/v1/whoami"), 200)["id"]
        key = self.new(api=api)["key"]
        run = self.start(key, "a long story", api=api)
        self.ok(person.post(S(key, "main", "abort"), {}), 202)
        daemon.restart(kill=True)
        self.assertEqual(self.run_of(key, api=api)["stoppedBy"], me)
        self.assertEqual(self.finish(run, outcome="interrupted", api=api)["stoppedBy"], me)
        [record] = [entry for entry in self.messages(key, api=api, query="types=custom") if entry["customType"] == "sessiond.run"]
        self.assertEqual(record["data"]["stoppedBy"], me)
        again = self.start(key, "go on", api=api)
        self.assertNotIn("stoppedBy", self.finish(again, api=api))

    def test_a_silent_run_ends_at_its_idle_timeout(self):
        key = self.make()
        run = self.start(key, idleTimeoutMs=300)
        self.tell(run, {"type": "step.started", "step": 1})
        begin = time.monotonic()
        while time.monotonic() - begin < 1:
            self.tell(run, {"type": "text.delta", "text": "x"})
            time.sleep(0.1)
        end = time.monotonic() + 10
        while self.run_of(key, run["runId"])["status"] == "running" and time.monotonic() < end:
            self.api.post(S(key, "main", "runs", run["runId"], "events"), {"fence": run["lease"]["fence"], "events": []})
        ended = self.run_of(key, run["runId"])
        self.assertEqual((ended["status"], ended["error"]["code"]), ("failed", "provider_idle_timeout"))

    def test_a_lost_lease_is_tried_again(self):
        key = self.make()
        run = self.start(key, "question", leaseMs=100)
        fence = run["lease"]["fence"]
        runs = [run]
        for attempt in (2, 3):
            ended = self.wait_for_run(key, runs[-1]["runId"], "interrupted")
            self.assertEqual(ended["error"]["code"], "lease_lost")
            self.assertEqual(self.tell(runs[-1], status=409)["code"], "lease_lost")
            self.assertEqual(self.finish(runs[-1], status=409)["code"], "lease_lost")
            stale = self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": "late"},
                                  headers={"X-Run": f"{runs[-1]['runId']};{runs[-1]['lease']['fence']}"})
            self.problem(stale, 409, "lease_lost")
            run = self.claim(keyPrefix=key, leaseMs=100)
            self.assertEqual((run["attempt"], run["retryOf"], run["input"]), (attempt, runs[-1]["runId"], runs[0]["input"]))
            self.assertEqual(run["lease"]["fence"], fence + attempt - 1)
            runs.append(run)
        self.wait_for_run(key, runs[-1]["runId"], "interrupted")
        self.claim(status=204, keyPrefix=key)

    def test_one_of_64_claimers_gets_the_run(self):
        key = self.make()
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(
            self.daemon.client().post("/v1/agents/main/runs/claim", {"keyPrefix": key, "waitMs": 1500}).status)) for _ in range(64)]
        for thread in threads:
            thread.start()
        self.start(key, "one", status=202, queueOnly=True, whenBusy="queue")
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(replies), [200] + 63 * [204])

    def test_a_repeated_call_says_nothing_twice(self):
        key = self.make()
        run = self.start(key, "question")
        for _ in range(2):
            self.tell(run, {"type": "text.delta", "text": "once"}, n=1)
        self.assertEqual(self.tell(run, status=409, n=3)["code"], "out_of_order")
        for _ in range(2):
            self.tell(run, {"type": "step.started", "step": 1}, n=2)
        self.assertEqual(len(self.of_type(key, "step.started")), 1)
        self.api.post(S(key, "main", "abort"), {})
        self.finish(run, status=200)
        said = [m["content"][0]["text"] for m in self.messages(key) if m.get("role") == "assistant"]
        self.assertEqual(said, ["once"])

    def test_a_finish_is_answered_again_as_the_first(self):
        key = self.make()
        run = self.start(key, "q")
        first = self.finish(run, {"role": "assistant", "text": "answer"})
        self.assertEqual((first["status"], first["response"]), ("done", "answer"))
        self.assertEqual(self.finish(run, {"role": "assistant", "text": "answer"}), first)
        self.assertEqual([m["role"] for m in self.messages(key) if "role" in m], ["user", "assistant"])

    def test_metrics_count_runs(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        run = self.start(key, "q", api=api)
        self.start(key, "next", status=202, api=api)

        def value(name):
            lines = api.get("/metrics").raw.decode().splitlines()
            return [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + " ")][0]

        self.assertEqual((value("sessiond_runs_active"), value("sessiond_runs_queued")), (1, 1))
        self.finish(run, api=api)
        self.assertEqual((value("sessiond_runs_active"), value('sessiond_runs_ended_total{status="done"}')), (0, 1))

    def test_an_inbound_message_makes_a_run(self):
        peer = "p" + uid()
        body = {"channel": "slack", "chatType": "direct", "peer": peer, "accountId": "a"}
        first = self.ok(self.api.post("/v1/inbound", {**body, "text": "one"}), 201)
        second = self.ok(self.api.post("/v1/inbound", {**body, "text": "two"}), 201)
        key = first["sessionKey"]
        self.assertEqual((first["created"], first["run"]), (True, second["run"]))
        self.assertEqual(self.run_of(key, first["run"]["runId"])["status"], "queued")
        run = self.claim(keyPrefix=key, waitMs=5000)
        self.assertEqual((run["runId"], run["input"]), (first["run"]["runId"], [first["messageId"], second["messageId"]]))
        self.assertEqual(run["replyTo"], {"channel": "slack", "to": peer, "accountId": "a"})
        self.finish(run, {"role": "assistant", "text": "both"})
        self.assertEqual(self.texts(key, query="view=chat&order=asc"), ["one", "two", "both"])

    def test_a_session_tells_whether_it_is_at_work_and_counts_runs(self):
        key = self.make()
        self.assertNotIn("status", self.entry(key))
        for outcome in ("done", "done", "failed"):
            self.run_of(key, status=404)
            run = self.start(key, "x")
            self.tell(run, {"type": "step.started", "step": 1}, {"type": "step.finished", "step": 1})
            self.assertEqual((self.run_of(key)["runId"], self.entry(key)["status"]), (run["runId"], "running"))
            self.finish(run, outcome=outcome)
            entry = self.entry(key)
            self.assertEqual((entry["status"], "activeRun" in entry), (outcome, False))
        self.run_of(key, status=404)
        self.assertEqual((entry["runCount"], entry["turnCount"]), (2, 3), "a run that failed took a turn")

    def test_steps_tools_and_the_answer_are_told_in_order(self):
        key = self.make()
        run = self.start(key, "What is here?")
        step = lambda number, *between: self.tell(run, {"type": "step.started", "step": number}, *between,  # noqa: E731
                                                  {"type": "step.finished", "step": number})
        step(1, {"type": "text.delta", "text": "a"})
        step(2, {"type": "tool.started", "tool": "ls", "args": {"path": "."}, "callId": "c"},
             {"type": "tool.finished", "tool": "ls", "callId": "c", "success": False, "denied": True, "resultData": {"n": 1}})
        step(3, {"type": "text.delta", "text": "b"}, {"type": "tool.started", "tool": "ls", "args": {}, "callId": "d"})
        ended = self.finish(run, {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}]},
                            {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": "README"}]},
                            {"role": "assistant", "text": "One file."})
        self.assertEqual((ended["status"], ended["response"], ended["steps"]), ("done", "One file.", 3))
        self.assertEqual(self.texts(key, query="view=chat&order=asc")[-1], "One file.")
        epoch = self.entry(key)["asOf"].split("-")[0]
        query = f"?poll=1&limit=1000&after={epoch}-0&types=run.started,run.finished,step.*,tool.*"
        told = self.ok(self.api.get(S(key, "main", "events") + query), 200)["data"]
        self.assertEqual([event["type"] for event in told], [
            "run.started", "step.started", "step.finished", "step.started", "tool.started", "tool.finished", "step.finished",
            "step.started", "tool.started", "step.finished", "run.finished"])
        self.assertEqual([event["data"]["step"] for event in told if event["type"] == "step.started"], [1, 2, 3])
        self.assertTrue(all({"seq", "time", "key"} <= event.keys() for event in told))
        begun, done = told[4]["data"], told[5]["data"]
        self.assertEqual((begun["tool"], begun["args"], begun["runId"]), ("ls", {"path": "."}, run["runId"]))
        self.assertEqual((done["success"], done["denied"], done["resultData"]), (False, True, {"n": 1}))

    def test_a_sessions_stream_has_the_deltas_of_its_own_run(self):
        one, other = self.start(self.make()), self.start(self.make())
        with self.api.stream(S(one["key"], "main", "events")) as stream:
            stream.wait_type("stream.hello")
            self.tell(other, {"type": "text.delta", "text": "other"})
            self.tell(one, {"type": "text.delta", "text": "mine"})
            told = stream.wait_type("text.delta").data["data"]
        self.assertEqual((told["text"], told["runId"]), ("mine", one["runId"]))
        thief = self.daemon.client(self.daemon.token("runner"))
        self.assertEqual(self.tell(one, {"type": "text.delta", "text": "x"}, api=thief, status=409)["code"], "lease_lost")

    def test_a_provider_that_fails_leaves_the_conversation(self):
        key = self.make()
        first = self.start(key, "hello")
        self.finish(first, {"role": "assistant", "text": "hi"})
        shown = lambda: [self.ok(self.api.get(S(key, "main", "messages") + f"?view={view}"), 200)["data"]  # noqa: E731
                         for view in ("chat", "llm")]
        run = self.start(key, "more")
        before = shown()
        self.tell(run, {"type": "step.started", "step": 1}, {"type": "text.delta", "text": "half an an"})
        error = {"code": "provider_error", "message": "529 overloaded"}
        ended = self.finish(run, outcome="failed", stopReason="error", error=error)
        self.assertEqual((ended["status"], ended["error"]), ("failed", error))
        self.assertEqual(shown(), before)
        self.assertEqual((self.entry(key)["status"], self.entry(key)["abortedLastRun"]), ("failed", False))
        told, = [event for event in self.of_type(key, "run.finished") if event["runId"] == run["runId"]]
        self.assertEqual((told["status"], told["stopReason"], told["error"]), ("failed", "error", error))
        self.claim(status=204, keyPrefix=key)
        again = self.start(key)
        self.assertEqual(self.finish(again, {"role": "assistant", "text": "now"})["response"], "now")

    def test_20_a_reset_ends_the_run(self):
        key = self.make()
        run = self.start(key, "q")
        self.start(key, "waits", status=202)
        self.tell(run, {"type": "text.delta", "text": "half an ans"}, {"type": "step.started", "step": 1})
        reset = self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        late = self.finish(run, {"role": "assistant", "text": "late"}, status=409)
        self.assertEqual(late["code"], "lease_lost")
        self.assertEqual(self.messages(key), [])
        old = self.ok(self.api.get(S(reset["previousSessionId"], "main", "messages") + "?limit=200"), 200)["data"]
        self.assertEqual([m["content"][0]["text"] for m in old if m.get("role") == "assistant"], ["half an ans"])
        self.assertEqual([run["status"] for run in self.ok(self.api.get(S(key, "main", "runs")), 200)["data"]], ["dropped", "interrupted"])
        self.assertNotIn("activeRun", self.entry(key))

    def test_the_model_is_found_by_four_levels(self):
        daemon = self.spawn({"runs": {"model": "m-default", "provider": "p-default"}, "agents": {"main": {"model": "m-agent"}}})
        api = daemon.client()
        key = self.new(api=api)["key"]

        def chosen(**body):
            run = self.start(key, api=api, **body)
            self.finish(run, api=api)
            return run.get("model"), run.get("provider"), run["modelSource"]

        def would(query=""):
            shown = self.ok(api.get(S(key, "main", "model") + query), 200)
            return shown["model"], shown["provider"], shown["source"]

        self.assertEqual(chosen(), ("m-agent", None, "agent"))
        self.assertEqual(would(), ("m-agent", None, "agent"))
        self.ok(api.patch(S(key), {"modelOverride": "m-session", "providerOverride": "p-session"}), 200)
        self.assertEqual(chosen(), ("m-session", "p-session", "session"))
        self.assertEqual(chosen(provider="p-run"), ("m-session", "p-run", "session"))
        self.assertEqual(chosen(model="m-run"), ("m-run", None, "run"))
        self.assertEqual(would("?provider=p-run"), ("m-session", "p-run", "session"))
        self.assertEqual(would("?model=m-run"), ("m-run", None, "run"))
        run = self.start(key, "q", api=api, model="m-run", provider="p-run")
        waits = self.start(key, "next", status=202, api=api, whenBusy="queue")
        self.assertEqual((waits["status"], waits.get("model")), ("queued", None))
        self.ok(api.patch(S(key), {"modelOverride": "m-other", "providerOverride": None}), 200)
        daemon.stop()
        daemon.config.update(runs={"model": "m-new", "provider": "p-new"}, agents={"main": {"model": "m-newer"}})
        daemon.config_file.write_text(json.dumps(daemon.config))
        daemon.start()
        api = daemon.client()
        now = self.run_of(key, api=api)
        self.assertEqual([now[name] for name in ("model", "provider", "modelSource")], ["m-run", "p-run", "run"])
        self.finish(run, api=api)
        late = self.claim(keyPrefix=key, api=api)
        self.assertEqual((late["runId"], late["model"], late["modelSource"]), (waits["runId"], "m-other", "session"))

    def test_a_claim_with_a_key_answers_again_and_does_not_spin(self):
        """A capped session has two waiting runs: a claim with an Idempotency-Key ends both and goes on to the next session."""
        capped = self.make(turnCap=1)
        run = self.start(capped)
        self.tell(run, {"type": "step.started", "step": 1})
        self.start(capped, "a", status=202, whenBusy="queue")
        self.start(capped, "b", status=202, whenBusy="queue")
        self.finish(run)
        headers = {"Idempotency-Key": "claim-" + uid()}
        claim = lambda: self.api.post("/v1/agents/main/runs/claim", {"keyPrefix": capped}, headers=headers)  # noqa: E731
        self.assertEqual(claim().status, 204)
        self.assertEqual({run["status"] for run in self.ok(self.api.get(S(capped, "main", "runs")), 200)["data"]}, {"done", "failed"})
        free = self.make()
        waiting = self.start(free, "c", status=202, queueOnly=True, whenBusy="queue")
        body, headers = {"keyPrefix": free}, {"Idempotency-Key": "claim-" + uid()}
        first = self.ok(self.api.post("/v1/agents/main/runs/claim", body, headers=headers), 200)
        again = self.ok(self.api.post("/v1/agents/main/runs/claim", body, headers=headers), 200)
        self.assertEqual((first["runId"], again), (waiting["runId"], first))

    def test_a_refused_inbound_ends_no_other_run(self):
        peer = "p" + uid()
        body = {"channel": "slack", "chatType": "direct", "peer": peer}
        key = self.ok(self.api.post("/v1/inbound", {**body, "text": "one"}), 201)["sessionKey"]
        run = self.claim(keyPrefix=key, waitMs=5000)
        self.tell(run, {"type": "step.started", "step": 1})
        self.finish(run)
        self.ok(self.api.patch(S(key), {"queueMode": "steer"}), 200)
        self.ok(self.api.post("/v1/inbound", {**body, "text": "two"}), 201)
        active = self.claim(keyPrefix=key, waitMs=5000)
        self.ok(self.api.patch(S(key), {"turnCap": 1}), 200)
        refused = self.ok(self.api.post("/v1/inbound", {**body, "text": "three"}), 201)
        self.assertEqual(refused["run"], {"refused": "turn_limit"})
        self.assertEqual(self.run_of(key)["runId"], active["runId"])
        self.finish(active, {"role": "assistant", "text": "two"})

    def test_a_runner_cannot_change_the_entry_by_an_event(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api, guardrails={"allowedCommands": []}, turnCap=7)["key"]
        run = self.start(key, api=api)
        self.tell(run, {"type": "step.started", "step": 1, "unset": ["guardrails", "turnCap"], "set": {"label": "x"}, "\\u0073et": {}}, api=api)
        self.tell(run, {"type": "tool.started", "tool": "t", "args": {}, "callId": "c", "dropped": ["line"]}, api=api)
        daemon.kill9()
        daemon.start()
        entry = self.entry(key, api=daemon.client())
        self.assertEqual((entry["turnCap"], entry["guardrails"], entry.get("label")), (7, {"allowedCommands": []}, None))

    def test_a_reset_takes_what_was_steered_with_it(self):
        key = self.make(queueMode="steer")
        self.start(key, "0")
        self.start(key, "left", status=202)
        self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        self.claim(status=204, keyPrefix=key)

    def test_a_deleted_topic_ends_its_runs_and_no_others(self):
        key = self.make()
        run = self.ok(self.api.post(S(key, "main", "runs") + "?topic=t1", {"input": {"role": "user", "text": "q"}}), 201)
        other = self.ok(self.api.post(S(key, "main", "runs") + "?topic=t2", {"input": {"role": "user", "text": "q"}}), 202)
        self.tell(run, {"type": "text.delta", "text": "half"}, {"type": "step.started", "step": 1})
        self.ok(self.api.delete(S(key, "main", "topics", "t1")), 204)
        self.assertEqual(self.run_of(key, run["runId"])["status"], "interrupted")
        self.assertEqual(self.finish(run, status=409)["code"], "lease_lost")
        self.assertEqual(self.claim(keyPrefix=key, waitMs=5000)["runId"], other["runId"])

    def test_runs_of_ephemeral_sessions_are_handed_out(self):
        key = f"agent:main:slack:channel:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        waiting = self.start(key, "hello", status=202, queueOnly=True)
        run = self.claim(keyPrefix=key, waitMs=5000)
        self.assertEqual(run["runId"], waiting["runId"])
        self.finish(run, {"role": "assistant", "text": "hi"})
        self.assertEqual(self.said(key), ["hello", "hi"])

    def test_what_a_runner_took_is_answered_once(self):
        key = self.make(queueMode="steer-backlog")
        run = self.start(key, "0")
        taken = self.start(key, "left", status=202)
        self.assertEqual(taken["steered"], taken["input"])
        self.start(key, "right", status=202)
        heard = [each["entryId"] for each in self.tell(run)["steer"]]
        self.assertEqual(len(heard), 2)
        self.finish(run, steered=heard[:1])
        self.assertNotIn(taken["runId"], [each["runId"] for each in self.runs_of(key, "queued")])
        left = self.claim(keyPrefix=key)
        self.assertEqual(left["input"], heard[1:])
        self.finish(left)
        self.claim(status=204, keyPrefix=key)

    def test_a_lost_message_is_told_of_with_the_next_claim(self):
        key = self.make(queueMode="followup", queueCap=1)
        first = self.start(key, "0")
        for text in ("a", "b", "c"):
            self.start(key, text, status=202)
        self.finish(first)
        posted = self.api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "now"}})
        self.assertEqual(posted.status, 201)
        self.finish(posted.json)
        claimed = self.claim(keyPrefix=key)
        self.assertEqual(len(claimed["input"]), 2)
        self.assertIn("[Queue overflow] Dropped 2 messages.", self.said(key)[-1])

    def test_what_was_said_in_the_call_that_ends_a_run_is_kept(self):
        key = self.make()
        run = self.start(key, "q", maxSteps=1)
        self.tell(run, {"type": "step.started", "step": 1}, n=1)
        said = [{"type": "text.delta", "text": "one "}, {"type": "step.finished", "step": 1},
                {"type": "text.delta", "text": "two"}, {"type": "step.started", "step": 2}]
        self.assertEqual(self.tell(run, *said, n=2, status=409)["code"], "turn_limit")
        self.assertEqual(self.said(key), ["q", "one two"])

    def test_text_is_stored_once_however_calls_overlap(self):
        key = self.make()
        run = self.start(key, "q")
        words = [f"w{n} " for n in range(60)]
        def tell(n):
            return self.daemon.client().post(S(key, "main", "runs", run["runId"], "events"),
                                 {"fence": run["lease"]["fence"], "n": n + 1, "events": [{"type": "text.delta", "text": words[n]}]})
        for n in range(0, 60, 2):
            self.assertEqual(tell(n).status, 200)
            pair = [threading.Thread(target=tell, args=(n + 1,)) for _ in range(2)]  # sent again before it is answered
            for thread in pair:
                thread.start()
            for thread in pair:
                thread.join()
        self.ok(self.api.post(S(key, "main", "abort"), {}), 202)
        self.finish(run, **{"status": 200})
        self.assertEqual(self.said(key)[-1], "".join(words))

    def test_exclusive_runs_alone_tell_what_the_agent_does(self):
        daemon = self.spawn(config={"runs": {"exclusive": True}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        run = self.start(key, "q", api=api)
        held = {"X-Run": f"{run['runId']};{run['lease']['fence']}"}
        for what, body in (("typing", {}), ("deltas", {"text": "x"})):
            self.assertEqual(api.post(S(key, "main", what), body).json["code"], "session_busy")
            self.assertEqual(api.post(S(key, "main", what), body, headers=held).status, 204)
            lost = {"X-Run": f"{run['runId']};{run['lease']['fence'] + 1}"}
            self.assertEqual(api.post(S(key, "main", what), body, headers=lost).json["code"], "lease_lost")
        self.assertEqual(api.post(S(key, "main", "typing"), {"from": "Ada"}).status, 204)

    def test_a_lease_says_when_it_ends(self):
        key = self.make()
        run = self.start(key, "q", leaseMs=60_000)
        self.assertAlmostEqual(self.run_of(key)["lease"]["expiresAt"], run["lease"]["expiresAt"], delta=5_000)
        self.assertEqual(self.run_of(key)["lease"]["fence"], run["lease"]["fence"])

    def test_an_idle_runner_is_evicted_once(self):
        daemon = self.spawn(config={"runs": {"runnerIdleMs": 1000}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        stream = api.stream("/v1/events?types=runner.evicted")
        self.addCleanup(stream.close)
        self.finish(self.start(key, "q", runner="r1", api=api), api=api)
        limited = daemon.client(daemon.token("viewer", keyPrefix="agent:main:elsewhere:"))
        listed = self.ok(api.get("/v1/runners"), 200)["data"]
        self.assertEqual([(each["runner"], each["sessions"]) for each in listed], [("r1", [key])])
        self.assertEqual(self.ok(limited.get("/v1/runners"), 200)["data"], [])
        evicted = stream.wait_type("runner.evicted")
        self.assertEqual(evicted.data["data"], {"runner": "r1", "lastAt": listed[0]["lastAt"]})
        self.assertEqual(self.ok(api.get("/v1/runners"), 200)["data"], [])
        self.finish(self.start(key, "q", runner="r2", api=api), api=api)
        stream.wait_for(lambda e: e.type == "runner.evicted" and e.data["data"]["runner"] == "r2")
        self.assertEqual(len([e for e in stream.events if e.type == "runner.evicted"]), 2)

    def test_a_page_of_runs_ends_at_1_mebibyte(self):
        key = self.make(turnCap="unlimited")
        ended = []
        for n in range(5):
            run = self.start(key)
            self.finish(run, {"role": "assistant", "text": str(n) * 400_000}, deliver=False)
            ended.insert(0, run["runId"])
        sizes, seen, cursor = [], [], ""
        while True:
            reply = self.api.get(S(key, "main", "runs") + "?limit=200" + cursor)
            page = self.ok(reply, 200)
            self.assertLess(len(json.dumps(page)), 1_100_000)
            sizes.append(len(page["data"]))
            seen += [run["runId"] for run in page["data"]]
            if not page["page"]["hasMore"]:
                break
            cursor = "&cursor=" + page["page"]["next"]
        self.assertEqual((sizes, seen), ([2, 2, 1], ended))

    def test_a_claim_prefers_the_last_runner(self):
        key = self.make()
        self.finish(self.start(key, "q", runner="r2"))
        got = {}
        def claim(runner):
            got[runner] = self.daemon.client().post("/v1/agents/main/runs/claim", {"runner": runner, "keyPrefix": key, "waitMs": 3000}).status
        waiting = [threading.Thread(target=claim, args=(runner,)) for runner in ("r1", "r2", "r3")]
        for thread in waiting:
            thread.start()
        eventually(lambda: "sessiond_runs_claims_waiting 3" in self.api.get("/metrics").raw.decode(), what="three waiting claims")
        self.start(key, "next", status=202, queueOnly=True)
        for thread in waiting:
            thread.join()
        self.assertEqual(got, {"r1": 204, "r2": 200, "r3": 204})

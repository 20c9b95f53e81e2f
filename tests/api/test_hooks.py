"""Hooks: handlers are told, or asked, when something happens in a session (policy/runs/README.md)."""

import http.client
import json
import shutil
import threading
import time

from harness.case import S, uid
from harness.sessiond import eventually
from hooks_case import HooksCase


class Hooks(HooksCase):
    def test_a_hook_denies_a_tool(self):
        run = self.begin_run(guardrails={"allowedCommands": ["git status"]})
        handler = self.handled("PreToolUse", blocking=True, says=lambda call: {"block": call["input"]["args"].get("x") == 1, "reason": "no"})
        denied = self.ask(run, "run_command", 200, args={"command": "git status", "x": 1}, callId="c1")
        self.assertEqual((*self.outcome(denied), denied["reason"]), ("deny", "hook", "no"))
        self.assertEqual(handler.calls[0]["input"], {"tool": "run_command", "args": {"command": "git status", "x": 1}, "callId": "c1"})
        self.assertEqual(handler.calls[0]["runId"], run["runId"])
        self.assertEqual(self.outcome(self.ask(run, "run_command", 200, args={"command": "git status"})), ("allow", "guardrail"))
        self.assertEqual(self.outcome(self.ask(run, "run_command", 200, args={"command": "rm"})), ("deny", "guardrail"))
        self.ask(run, status=201)
        called = len(handler.calls)
        self.assertEqual(self.ask(run, "run_command", 200, args={"command": "git status", "x": 1}, callId="c1")["id"], denied["id"])
        self.assertEqual(len(self.calls(run["key"])), called)  # the same question is not asked twice
        self.problem(self.api.post(self.place(run), {"runId": run["runId"], "fence": 99, "tool": "bash"}), 409, "lease_lost")
        self.assertEqual(len(self.calls(run["key"])), called)

    def test_hooks_that_are_made_at_once_all_stay(self):
        names = [f"c{number}-{uid(6)}" for number in range(16)]
        made = []

        def make(name):
            api = self.api.clone()
            made.append(api.put("/v1/hooks/" + name, {"events": ["PreToolUse"]}).status)
            api.close()

        threads = [threading.Thread(target=make, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(made), {201})
        self.daemon.restart(kill=True)
        there = {hook["name"] for hook in self.ok(self.api.get("/v1/hooks"), 200)["data"]}
        self.assertLessEqual(set(names), there)
        for name in names:
            self.ok(self.api.delete("/v1/hooks/" + name), 204)

    def test_what_hooks_add_is_in_the_run_only(self):
        self.handled("UserPromptSubmit", blocking=True, name="b" + uid(6), says=lambda call: {"additionalContext": "second"})
        first = self.handled("UserPromptSubmit", blocking=True, name="a" + uid(6), says=lambda call: time.sleep(0.1) or {"additionalContext": "first"})
        key = self.new()["key"]
        run = self.ok(self.start(key, "what?"), 201)
        self.assertEqual(run["additionalContext"], "first\nsecond")
        self.assertEqual(first.calls[0]["input"], {"prompt": "what?"})
        self.assertEqual(first.calls[0]["runId"], run["runId"])
        self.assertEqual(self.texts(key), ["what?"])
        self.assertEqual(self.ok(self.api.get(S(key, "main", "runs", "active")), 200)["additionalContext"], "first\nsecond")
        types = [e["type"] for e in self.told(key)]
        self.assertEqual(types, ["hook.called"] * 2 + ["hook.answered"] * 2 + ["message.appended"] * 2 + ["run.started"])
        self.assertEqual(self.finish(run)["additionalContext"], "first\nsecond")

    def test_a_blocked_prompt_is_not_appended(self):
        self.handled("UserPromptSubmit", blocking=True, says=lambda call: {"block": True, "reason": "not this", "additionalContext": "x"})
        key = self.new()["key"]
        problem = self.problem(self.start(key, "secret", runId="mine"), 422, "hook_blocked")
        self.assertEqual(problem["reason"], "not this")
        self.assertEqual(self.texts(key), [])
        events = self.told(key)
        self.assertEqual([e["type"] for e in events], ["hook.called", "hook.answered", "run.finished"])
        self.assertEqual((events[2]["data"]["runId"], events[2]["data"]["status"], events[2]["data"]["error"]["code"]), ("mine", "failed", "hook_blocked"))
        self.assertEqual(self.ok(self.api.get(S(key, "main", "runs")), 200)["data"], [])
        self.assertNotIn("status", self.ok(self.api.get(S(key)), 200))

    def test_a_queued_run_that_is_blocked_fails_and_the_claim_waits(self):
        self.handled("UserPromptSubmit", blocking=True, says=lambda call: {"block": "bad" in call["input"]["prompt"], "reason": "bad", "additionalContext": "c"})
        prefix = "agent:main:slack:channel:" + uid()
        bad, good = (self.new(prefix + end)["key"] for end in ("-a", "-b"))
        run = self.ok(self.start(bad, "a bad one", queueOnly=True, whenBusy="queue"), 202)
        taken = []
        claim = threading.Thread(target=lambda: taken.append(self.api.clone().post("/v1/agents/main/runs/claim", {"waitMs": 15_000, "keyPrefix": prefix})))
        claim.start()
        ended = eventually(lambda: (lambda r: r["status"] == "failed" and r)(self.ok(self.api.get(S(bad, "main", "runs", run["runId"])), 200)), 5)
        self.assertEqual((ended["error"]["code"], ended["error"]["message"]), ("hook_blocked", "bad"))
        self.assertEqual(self.texts(bad), ["a bad one"])
        self.assertEqual(taken, [])
        self.ok(self.start(good, "a good one", queueOnly=True, whenBusy="queue"), 202)
        claim.join()
        got = self.ok(taken[0], 200)
        self.assertEqual((got["key"], got["additionalContext"]), (good, "c"))
        self.assertNotIn("StopFailure", [call["event"] for call in self.calls(bad)])

    def test_hooks_are_told_when_sessions_open_and_end(self):
        starts = self.hook("SessionStart", "SessionEnd")
        key = self.new()["key"]
        opened = lambda: [call["input"] for call in self.calls(key, starts)]  # noqa: E731
        for _ in range(3):
            self.finish(self.ok(self.start(key), 201))
        self.assertEqual(opened(), [{"source": "startup"}])
        self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        self.finish(self.ok(self.start(key), 201))
        self.assertEqual(opened(), [{"source": "startup"}, {"source": "clear"}])
        self.say(key, "last words")
        first = self.ok(self.api.post(S(key, "main", "shutdown"), {"reason": "exit"}), 200)
        self.assertEqual((first["reason"], first["first"]), ("exit", True))
        second = self.ok(self.api.post(S(key, "main", "shutdown"), {"reason": "again"}), 200)
        self.assertEqual((second["reason"], second["at"], second["first"]), ("exit", first["at"], False))
        self.assertEqual(opened()[2:], [{"reason": "exit"}])
        events = [e for e in self.told(key) if e["type"] == "message.appended" or e["data"].get("event") == "SessionEnd"]
        self.assertEqual(events[-1]["type"], "hook.called")
        self.daemon.restart(kill=True)
        self.assertFalse(self.ok(self.api.post(S(key, "main", "shutdown"), {"reason": "again"}), 200)["first"])
        self.finish(self.ok(self.start(key), 201))
        self.finish(self.ok(self.start(key), 201))
        self.assertEqual(opened()[3:], [{"source": "resume"}])

    def test_a_shutdown_stops_what_runs(self):
        key = self.new()["key"]
        self.assertEqual(self.ok(self.api.post(S(key, "main", "shutdown"), {"reason": "x"}), 200)["at"], None)
        run = self.ok(self.start(key), 201)
        waiting = self.ok(self.start(key, "later", whenBusy="queue"), 202)
        replies = []
        shutdown = threading.Thread(target=lambda: replies.append(self.api.clone().post(S(key, "main", "shutdown"), {"reason": "x"})))
        shutdown.start()
        eventually(lambda: self.ok(self.api.get(S(key, "main", "runs", "active")), 200)["status"] == "aborting", 5)
        self.finish(run)
        shutdown.join()
        self.assertTrue(self.ok(replies[0], 200)["first"])
        states = {r["runId"]: r["status"] for r in self.ok(self.api.get(S(key, "main", "runs")), 200)["data"]}
        self.assertEqual(states, {run["runId"]: "interrupted", waiting["runId"]: "dropped"})
        self.invalid(self.api.post(S(key, "main", "shutdown"), {}), "/reason")
        self.problem(self.daemon.client(self.daemon.token("runner")).post(S(key, "main", "shutdown"), {"reason": "x"}), 403)
        self.problem(self.api.post(S("agent:main:nosuch", "main", "shutdown"), {"reason": "x"}), 404, "session_not_found")

    def test_a_restored_session_resumes(self):
        starts = self.hook("SessionStart")
        key = self.new()["key"]
        self.finish(self.ok(self.start(key), 201))
        self.assertEqual(self.api.delete(S(key)).status, 204)
        self.ok(self.api.post(S(key, "main", "restore"), {}), 200)
        self.finish(self.ok(self.start(key), 201))
        self.assertEqual([call["input"]["source"] for call in self.calls(key, starts)][-1], "resume")

    def test_the_end_of_a_run_is_told_to_stop_or_stop_failure(self):
        stop = self.hook("Stop", "StopFailure")
        key = self.new()["key"]
        run = self.ok(self.start(key), 201)
        self.ok(self.api.post(S(key, "main", "runs", run["runId"], "finish"), {
            "fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": "Sunny."}]}), 200)
        failed = self.ok(self.start(key), 201)
        self.ok(self.api.post(S(key, "main", "runs", failed["runId"], "finish"), {
            "fence": failed["lease"]["fence"], "status": "failed", "error": {"code": "provider_error", "message": "x"}}), 200)
        stopped = self.ok(self.start(key), 201)
        self.ok(self.api.post(S(key, "main", "abort"), {}), 202)
        self.finish(stopped, "interrupted")
        lost = self.ok(self.start(key, leaseMs=100), 201)
        eventually(lambda: self.ok(self.api.get(S(key, "main", "runs", lost["runId"])), 200)["status"] == "interrupted", 5)
        self.assertEqual([(c["event"], c["runId"], c["input"]) for c in self.calls(key, stop)], [
            ("Stop", run["runId"], {"response": "Sunny.", "last_assistant_message": "Sunny.", "stop_hook_active": False}),
            ("StopFailure", failed["runId"], {"reason": "provider_error"})])

    # -- calls and answers

    def test_the_first_answer_counts(self):
        stop = self.hook("Stop")
        key = self.new()["key"]
        self.finish(self.ok(self.start(key), 201))
        call = self.calls(key, stop)[0]
        place = "/v1/hooks/calls/" + call["id"]
        first = self.ok(self.handler.post(place, {"additionalContext": "one"}), 200)
        self.assertEqual((first["id"], first["name"], first["event"], first["additionalContext"]), (call["id"], stop, "Stop", "one"))
        self.assertEqual(self.ok(self.api.post(place, {"additionalContext": "two"}), 200)["additionalContext"], "one")
        answered = [e for e in self.told(key) if e["type"] == "hook.answered"]
        self.assertEqual(len(answered), 1)
        self.problem(self.handler.post("/v1/hooks/calls/nosuch", {}), 404, "hook_not_found")
        self.invalid(self.handler.post(place, {"block": 1, "reason": "x" * 1025, "additionalContext": "x" * 16_385, "y": 1}),
                     "/block", "/reason", "/additionalContext", "/y")

    def test_a_handler_that_is_silent(self):
        key = self.new()["key"]
        silent = self.hook("UserPromptSubmit", blocking=True, timeoutMs=200)
        began = time.monotonic()
        run = self.ok(self.start(key), 201)
        self.assertGreaterEqual(time.monotonic() - began, 0.2)
        self.assertNotIn("additionalContext", run)
        self.finish(run)
        call = self.calls(key, silent)[0]
        eventually(lambda: [e for e in self.told(key) if e["type"] == "hook.expired"], 5)
        late = self.ok(self.handler.post("/v1/hooks/calls/" + call["id"], {"block": True}), 200)
        self.assertTrue(late["expired"])
        self.assertEqual(len([e for e in self.told(key) if e["type"] == "hook.answered"]), 0)
        self.hook("UserPromptSubmit", name=silent, blocking=True, timeoutMs=200, onTimeout="block")
        problem = self.problem(self.start(key), 422, "hook_blocked")
        self.assertIn(silent, problem["reason"])

    def test_one_block_is_enough(self):
        self.hook("UserPromptSubmit", blocking=True, name="b" + uid(6))  # says nothing for 10 s
        self.handled("UserPromptSubmit", blocking=True, name="a" + uid(6), says=lambda call: {"block": True, "reason": "a"})
        key, began = self.new()["key"], time.monotonic()
        self.assertEqual(self.problem(self.start(key), 422, "hook_blocked")["reason"], "a")
        self.assertLess(time.monotonic() - began, 5)

    def test_a_handler_that_is_not_waited_for(self):
        name = self.hook("UserPromptSubmit", "PreToolUse")
        key, began = self.new()["key"], time.monotonic()
        run = self.ok(self.start(key, "x" * 70_000), 201)
        self.ask(run, status=201)
        self.assertLess(time.monotonic() - began, 5)
        prompt, tool = self.calls(key, name)
        self.assertEqual((len(prompt["input"]["prompt"]), prompt["input"]["truncated"]), (65_536, True))
        self.assertEqual(tool["event"], "PreToolUse")

    def test_while_hooks_are_asked_the_session_is_busy(self):
        go = threading.Event()
        handler = self.handled("UserPromptSubmit", blocking=True, says=lambda call: go.wait(8) and {})
        key, replies = self.new()["key"], []
        one = threading.Thread(target=lambda: replies.append(self.api.clone().post(
            S(key, "main", "runs"), {"runId": "one", "input": {"role": "user", "text": "first"}}, headers={"Idempotency-Key": "k1"})))
        one.start()
        eventually(lambda: handler.calls, 5)
        self.assertEqual(self.texts(key), [])
        self.assertEqual(self.ok(self.api.get(S(key, "main", "runs")), 200)["data"], [])
        self.assertEqual(self.problem(self.start(key, whenBusy="reject"), 409, "session_busy")["runId"], "one")
        self.problem(self.start(key, runId="one"), 409, "run_exists")
        same = {"runId": "one", "input": {"role": "user", "text": "first"}}
        self.problem(self.api.post(S(key, "main", "runs"), same, headers={"Idempotency-Key": "k1"}), 409, "idempotency_in_flight")
        later = self.ok(self.start(key, "second", whenBusy="queue"), 202)
        prefix = {"keyPrefix": key}
        self.assertEqual(self.api.post("/v1/agents/main/runs/claim", prefix).status, 204)
        go.set()
        one.join()
        run = self.ok(replies[0], 201)
        self.assertEqual(self.ok(self.api.post(S(key, "main", "runs"), same, headers={"Idempotency-Key": "k1"}), 201)["runId"], "one")
        self.finish(run)
        self.assertEqual(self.ok(self.api.post("/v1/agents/main/runs/claim", {**prefix, "waitMs": 5000}), 200)["runId"], later["runId"])
        self.assertEqual(self.texts(key)[:2], ["second", "first"])

    def test_a_kill_while_hooks_are_asked_leaves_no_run(self):
        name = self.hook("UserPromptSubmit", blocking=True)
        key = self.new()["key"]
        threading.Thread(target=lambda: self.dies(self.start, key, api=self.api.clone()), daemon=True).start()
        eventually(lambda: self.calls(key, name), 5)
        self.daemon.restart(kill=True)
        self.assertEqual(self.ok(self.api.get(S(key, "main", "runs")), 200)["data"], [])
        self.assertEqual(self.texts(key), [])
        self.problem(self.handler.post("/v1/hooks/calls/" + self.calls(key, name)[0]["id"], {}), 404, "hook_not_found")
        self.api.delete("/v1/hooks/" + name)
        self.ok(self.start(key), 201)

    def dies(self, call, *arguments, **named):
        try:
            return call(*arguments, **named)
        except OSError:
            return None

    def test_who_waits_is_answered_when_the_daemon_stops(self):
        daemon = self.spawn()
        api = daemon.client()
        self.ok(api.put("/v1/hooks/h", {"events": ["UserPromptSubmit"], "blocking": True}), 201)
        key = self.new(api=api)["key"]
        replies = []
        waits = threading.Thread(target=lambda: replies.append(self.start(key, api=api.clone())))
        waits.start()
        epoch = self.ok(api.get(S(key)), 200)["asOf"].split("-")[0]
        eventually(lambda: self.ok(api.get(S(key, "main", "events") + f"?poll=1&after={epoch}-0&types=hook.called"), 200)["data"], 5)
        began = time.monotonic()
        daemon.stop()
        waits.join()
        self.assertLess(time.monotonic() - began, 8)
        self.problem(replies[0], 503, "draining")
        daemon.start()
        self.assertEqual(self.texts(key, api=daemon.client()), [])

    def test_a_client_that_goes_leaves_nothing(self):
        name = self.hook("UserPromptSubmit", blocking=True)
        key = self.new()["key"]
        going = http.client.HTTPConnection("127.0.0.1", self.daemon.port)
        going.request("POST", S(key, "main", "runs"), json.dumps({"input": {"role": "user", "text": "gone"}}),
                      {"Authorization": "Bearer " + self.daemon.admin_token, "Content-Type": "application/json"})
        eventually(lambda: self.calls(key, name), 5)
        self.problem(self.start(key, whenBusy="reject"), 409, "session_busy")
        going.close()
        self.api.delete("/v1/hooks/" + name)
        eventually(lambda: self.start(key, "here", whenBusy="reject").status == 201, 8, every=0.2)
        self.assertEqual(self.texts(key), ["here"])

    def test_compactions(self):
        key = self.new()["key"]
        for n in range(8):
            self.say(key, f"q{n}")
            self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": f"a{n}"}), 201)
        answer = {"block": True, "reason": "not now"}
        handler = self.handled("PreCompact", "PostCompact", says=lambda call: answer)
        self.hook("PreCompact", name=handler._name, blocking=True)
        self.assertEqual(self.problem(self.api.post(S(key, "main", "compact"), {}), 422, "hook_blocked")["reason"], "not now")
        answer = {"additionalContext": "keep names"}
        planned = self.ok(self.api.post(S(key, "main", "compact"), {"instructions": "short"}), 200)
        self.assertEqual(planned["additionalContext"], "keep names")
        self.assertEqual(handler.calls[-1]["input"], {"instructions": "short"})
        after = self.hook("PostCompact")
        self.ok(self.api.post(S(key, "main", "compact"), {"summary": "all", "firstKeptEntryId": planned["plan"]["firstKeptEntryId"]}), 201)
        self.assertEqual(self.calls(key, after)[0]["input"], {"summary": "all"})

    def test_ephemeral_sessions_have_hooks(self):
        self.handled("UserPromptSubmit", blocking=True, says=lambda call: {"additionalContext": "x"})
        key = f"agent:main:part:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.assertEqual(self.ok(self.start(key), 201)["additionalContext"], "x")

    # -- the hooks themselves

    def test_hooks_are_kept(self):
        name = "k" + uid(8)
        put = {"events": ["Stop", "UserPromptSubmit"], "timeoutMs": 500, "onTimeout": "block", "agents": ["main"]}
        made = self.ok(self.api.put("/v1/hooks/" + name, put), 201)
        self.addCleanup(self.api.delete, "/v1/hooks/" + name)
        self.assertEqual(made, {"name": name, "blocking": False, **put})
        self.daemon.restart(kill=True)
        self.assertEqual(self.ok(self.api.get("/v1/hooks/" + name), 200), made)
        self.assertIn(made, self.ok(self.api.get("/v1/hooks"), 200)["data"])
        self.assertEqual(self.ok(self.api.put("/v1/hooks/" + name, {"events": ["Stop"]}), 200)["events"], ["Stop"])
        self.assertEqual(self.api.delete("/v1/hooks/" + name).status, 204)
        self.problem(self.api.delete("/v1/hooks/" + name), 404, "hook_not_found")
        self.problem(self.api.get("/v1/hooks/" + name), 404, "hook_not_found")

    def test_what_a_hook_may_be(self):
        put = lambda **body: self.api.put("/v1/hooks/" + uid(), body)  # noqa: E731
        self.invalid(put(), "/events")
        self.invalid(put(events=[]), "/events")
        self.invalid(put(events=["Nosuch"]), "/events")
        self.invalid(put(events=["Stop"], blocking=True), "/blocking")
        self.invalid(put(events=["Stop"], timeoutMs=9), "/timeoutMs")
        self.invalid(put(events=["Stop"], timeoutMs=10_001), "/timeoutMs")
        self.invalid(put(events=["Stop"], onTimeout="x", agents=["?"], y=1), "/onTimeout", "/agents", "/y")
        self.problem(self.api.put("/v1/hooks/" + "n" * 65, {"events": ["Stop"]}), 422, "invalid_id")
        self.problem(self.api.put("/v1/hooks/a%2Fb", {"events": ["Stop"]}), 422, "invalid_id")

    def test_a_damaged_file_is_moved_away_and_told(self):
        daemon = self.spawn()
        self.ok(daemon.client().put("/v1/hooks/h", {"events": ["Stop"]}), 201)
        daemon.stop()
        file = daemon.state / "journal" / "hooks"
        file.write_text(file.read_text().replace("Stop", "Stap"))
        daemon.start()
        self.assertEqual(self.ok(daemon.client().get("/v1/hooks"), 200)["data"], [])
        self.assertIn("hooks was damaged", json.dumps(self.ok(daemon.client().get("/readyz"), 200)))
        self.assertEqual(len(list(file.parent.glob("hooks.damaged.*"))), 1)

    def test_a_backup_has_them(self):
        daemon = self.spawn()
        made = self.ok(daemon.client().put("/v1/hooks/h", {"events": ["Stop"]}), 201)
        self.addCleanup(shutil.rmtree, self.daemon.home / "kept", ignore_errors=True)
        kept, state = self.daemon.home / "kept" / "backup", self.daemon.home / "kept" / "state"
        kept.parent.mkdir()
        done = daemon.cli("backup", kept)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(daemon.cli("restore", kept, "--state-dir", state).returncode, (0, 1))
        self.assertEqual(self.ok(self.spawn(state=state).client(daemon.admin_token).get("/v1/hooks"), 200)["data"], [made])

    def test_there_are_so_many_hooks(self):
        api = self.spawn().client()
        for n in range(50):
            self.ok(api.put(f"/v1/hooks/h{n}", {"events": ["Stop"]}), 201)
        self.problem(api.put("/v1/hooks/more", {"events": ["Stop"]}), 422)
        self.ok(api.put("/v1/hooks/h1", {"events": ["StopFailure"]}), 200)

    def test_a_limited_token_takes_no_places_from_others(self):
        daemon = self.spawn()
        limited, other = (daemon.client(daemon.token("operator", agents=["main"])) for _ in range(2))
        put = {"events": ["Stop"]}
        for n in range(8):
            self.ok(limited.put(f"/v1/hooks/l{n}", put), 201)
        self.problem(limited.put("/v1/hooks/more", put), 422)
        self.ok(limited.put("/v1/hooks/l1", put), 200)
        self.ok(other.put("/v1/hooks/l1", put), 200)  # of the same agent: still the first token's
        self.problem(limited.put("/v1/hooks/more", put), 422)
        self.ok(other.put("/v1/hooks/o", put), 201)
        for n in range(50):
            self.ok(daemon.client().put(f"/v1/hooks/h{n}", put), 201)
        self.problem(daemon.client().put("/v1/hooks/last", put), 422)

    # -- who may

    def test_who_may(self):
        put = {"events": ["UserPromptSubmit"], "blocking": True, "timeoutMs": 300}
        client = lambda role, **limits: self.daemon.client(self.daemon.token(role, **limits))  # noqa: E731
        for role in ("viewer", "runner", "bridge"):
            self.problem(client(role).put("/v1/hooks/w", put), 403)
            self.problem(client(role).post("/v1/hooks/calls/x", {}), 403)
            self.problem(client(role, permissions=["hook"]).post("/v1/hooks/calls/x", {}), 404, "hook_not_found")
        for limits in ({"keyPrefix": "agent:main:slack:"}, {"channel": "slack"}):
            limited = client("operator", **limits)
            self.problem(limited.put("/v1/hooks/w", put), 403)
            self.assertEqual(self.ok(limited.get("/v1/hooks"), 200)["data"], [])
        other = client("operator", agents=["other"])
        self.problem(other.put("/v1/hooks/w", {**put, "agents": ["main"]}), 403)
        self.assertEqual(self.ok(other.put("/v1/hooks/w", put), 201)["agents"], ["other"])
        self.addCleanup(self.api.delete, "/v1/hooks/w")
        mine = client("operator", agents=["main"])
        self.problem(mine.get("/v1/hooks/w"), 404, "hook_not_found")
        self.problem(mine.delete("/v1/hooks/w"), 404, "hook_not_found")
        self.problem(mine.put("/v1/hooks/w", put), 409, "hook_exists")
        key = self.new()["key"]
        self.ok(self.start(key), 201)  # it is not called for main
        self.assertEqual(self.calls(key), [])

    def test_a_limited_handler_sees_and_answers_what_lies_in_its_scope(self):
        stop = self.hook("Stop")
        inside, outside = (self.new(f"agent:main:{channel}:channel:{uid()}")["key"] for channel in ("slack", "discord"))
        limited = self.daemon.client(self.daemon.token("viewer", permissions=["hook"], keyPrefix="agent:main:slack:"))
        stream = limited.stream("/v1/events?types=hook.*")
        self.addCleanup(stream.close)
        for key in (outside, inside):
            self.finish(self.ok(self.start(key), 201))
        seen = stream.wait_for(lambda e: e.type == "hook.called")
        self.assertEqual(seen.data["key"], inside)
        hidden, shown = (self.calls(key, stop)[0]["id"] for key in (outside, inside))
        absent = self.problem(limited.post("/v1/hooks/calls/" + hidden, {}), 404, "hook_not_found")
        self.assertEqual(absent["detail"].replace(hidden, "x"), self.problem(limited.post("/v1/hooks/calls/x", {}), 404)["detail"])
        self.ok(limited.post("/v1/hooks/calls/" + shown, {}), 200)
        self.assertNotIn("expired", self.ok(self.handler.post("/v1/hooks/calls/" + hidden, {}), 200))


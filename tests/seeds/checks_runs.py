"""What the rows of runs.table try. Those that are tests by number are in tests/api/test_runs.py and test_run_queue.py."""

import re
import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "api"))

import approvals_case  # noqa: E402
import test_compaction_time  # noqa: E402
import test_run_queue  # noqa: E402
import test_runs  # noqa: E402
from harness.case import S, text_of, uid  # noqa: E402

BOUND = {"agentRef": "helper", "agentSnapshot": {"id": "helper", "tools": ["ls", "read"]}, "fallbackChain": ["m-1", "m-2"]}


class Checks(test_runs.Runs, test_run_queue.Queue, test_compaction_time.Compaction):
    ask, place = approvals_case.ApprovalsCase.ask, approvals_case.ApprovalsCase.place

    def answer(self, run, asked, decision="allow"):
        person = self.daemon.client(self.daemon.token("viewer", permissions=["approve"]))
        return self.ok(person.post(self.place(run, asked["id"]), {"decision": decision}), 200)

    def outcome(self, approval):
        return approval["decision"], approval["source"]

    def step(self, run, number, *between):
        self.tell(run, {"type": "step.started", "step": number}, *between, {"type": "step.finished", "step": number})

    def chat(self, key):
        return [(m["role"], text_of(m)) for m in self.messages(key, query="view=chat&limit=200&order=asc")]

    def one_run(self):
        """A message goes in, tools are used, and the answer is stored."""
        key = self.make()
        run = self.start(key, "What is here?")
        call = {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}
        self.step(run, 1, {"type": "tool.started", "tool": "ls", "args": {}, "callId": "c"},
                  {"type": "tool.finished", "tool": "ls", "callId": "c", "success": True})
        ended = self.finish(run, {"role": "assistant", "content": [call]},
                            {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": "README"}]},
                            {"role": "assistant", "text": "One file."})
        self.assertEqual((ended["status"], ended["response"], ended["steps"]), ("done", "One file.", 1))
        self.assertEqual(self.chat(key)[-1], ("assistant", "One file."))

    def one_call(self):
        """What a bridge posts is routed, stored, and waits for a runner; the session is made on the way."""
        got = self.inbound(channel="slack", peer="u" + uid(), text="hello")
        self.assertTrue(got["created"])
        run = self.claim(keyPrefix=got["sessionKey"], waitMs=10_000)
        self.assertEqual((run["runId"], run["input"]), (got["run"]["runId"], [got["messageId"]]))
        self.finish(run, {"role": "assistant", "text": "hi"})
        self.assertEqual(self.chat(got["sessionKey"]), [("user", "hello"), ("assistant", "hi")])

    def recorded_and_waited_for(self):
        """A rule decides, a person decides, or nobody: then it is denied."""
        run = self.start(self.make(guardrails={"allowedCommands": ["git status"]}))
        self.assertEqual(self.outcome(self.ask(run, "run_command", 200, args={"command": "git status -s"})), ("allow", "guardrail"))
        self.assertEqual(self.outcome(self.answer(run, self.ask(run, status=201))), ("allow", "answer"))
        self.assertEqual(self.outcome(self.ask(run, timeoutMs=100, waitMs=5000, status=200)), ("deny", "default"))

    def permission_mode(self):
        key = self.make()
        self.assertEqual(self.ok(self.api.patch(S(key), {"permissionMode": "acceptEdits"}), 200)["permissionMode"], "acceptEdits")
        for wrong in (42, "a b", ""):
            self.invalid(self.api.patch(S(key), {"permissionMode": wrong}), "/permissionMode")

    def completed_runs(self):
        key = self.make()
        for outcome in ("done", "done", "failed"):
            run = self.start(key, "x")
            self.step(run, 1)
            self.finish(run, outcome=outcome)
        entry = self.entry(key)
        self.assertEqual((entry["runCount"], entry["turnCount"]), (2, 3))

    def abort_when_idle(self):
        key = self.make()
        self.assertEqual([self.api.post(S(key, "main", "abort"), {}).status for _ in range(2)], [204, 204])
        self.assertEqual(self.of_type(key, "run.*"), [])

    def is_running(self):
        key = self.make()
        self.run_of(key, status=404)
        run = self.start(key)
        self.assertEqual((self.run_of(key)["runId"], self.entry(key)["status"]), (run["runId"], "running"))
        self.finish(run)
        self.run_of(key, status=404)
        self.assertEqual(self.entry(key)["status"], "done")

    def allowed_tools(self):
        run = self.start(self.make())
        self.answer(run, self.ask(run, "bash"), "allow-session")
        self.assertEqual(self.outcome(self.ask(run, "bash", 200)), ("allow", "session"))
        tools = S(run["key"], "main", "allowed-tools")
        self.assertEqual(self.ok(self.api.get(tools), 200)["data"], ["bash"])
        self.assertEqual(self.api.delete(tools).status, 204)
        self.ask(run, "bash", 201)

    def deltas_of_one_session(self):
        """A stream of one session has its deltas and no other's; no runner without the lease can send any."""
        one, other = self.start(self.make()), self.start(self.make())
        with self.api.stream(S(one["key"], "main", "events")) as stream:
            stream.wait_type("stream.hello")
            self.tell(other, {"type": "text.delta", "text": "other"})
            self.tell(one, {"type": "text.delta", "text": "mine"})
            told = stream.wait_type("text.delta").data
        self.assertEqual((told["data"]["text"], told["data"]["runId"]), ("mine", one["runId"]))
        thief = self.daemon.client(self.daemon.token("runner"))
        self.assertEqual(self.tell(one, {"type": "text.delta", "text": "x"}, api=thief, status=409)["code"], "lease_lost")

    def tools_are_told(self):
        run = self.start(self.make())
        self.step(run, 1, {"type": "tool.started", "tool": "ls", "args": {"path": "."}, "callId": "c"},
                  {"type": "tool.finished", "tool": "ls", "callId": "c", "success": False, "denied": True, "resultData": {"n": 1}})
        begun, ended = self.of_type(run["key"], "tool.started", "tool.finished")
        self.assertEqual((begun["tool"], begun["args"], begun["runId"]), ("ls", {"path": "."}, run["runId"]))
        self.assertEqual((ended["success"], ended["denied"], ended["resultData"]), (False, True, {"n": 1}))

    def one_end(self):
        """Whatever a runner says after an abort: the run ended interrupted, once."""
        for outcome in ("done", "failed", "interrupted"):
            key = self.make()
            run = self.start(key)
            self.ok(self.api.post(S(key, "main", "abort"), {"reason": "enough"}), 202)
            self.assertEqual(self.finish(run, outcome=outcome)["status"], "interrupted")
            self.finish(run, outcome=outcome)
            self.assertEqual([told["status"] for told in self.of_type(key, "run.finished")], ["interrupted"])
        run = self.start(key)
        self.finish(run, outcome="interrupted", status=422)

    def denied_tools(self):
        """A denial is a tool's result like others, and the conversation stays whole."""
        key = self.make()
        run = self.start(key, "go")
        self.assertEqual(self.outcome(self.answer(run, self.ask(run, "rm"), "deny")), ("deny", "answer"))
        self.finish(run, {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "rm", "arguments": {}}]},
                    {"role": "toolResult", "toolCallId": "c", "isError": True, "content": [{"type": "text", "text": "Permission denied"}]},
                    {"role": "assistant", "text": "I may not."})
        view = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm"), 200)
        self.assertEqual(([row.get("status") for row in view["data"]], view["repaired"]), ([None, None, "denied", None], []))

    def session_events(self):
        key = f"agent:main:slack:channel:{uid()}"
        with self.api.stream("/v1/events?keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            self.new(key)
            stream.wait_type("session.created")
            self.say(key)
            stream.wait_type("message.appended")
            self.ok(self.api.delete(S(key)), 204)
            stream.wait_type("session.deleted")

    def the_last_runner(self):
        """Of two claims that wait, the run goes to the runner that had the session."""
        key = self.make()
        self.finish(self.start(key, "one", runner="second"))
        got = {}
        waiting = [threading.Thread(target=lambda name=name: got.update({name: self.daemon.client().post(
            "/v1/agents/main/runs/claim", {"keyPrefix": key, "waitMs": 2000, "runner": name})})) for name in ("first", "second")]
        for thread in waiting:
            thread.start()
            threading.Event().wait(0.3)
        self.start(key, "two", status=202, queueOnly=True, whenBusy="queue")
        for thread in waiting:
            thread.join()
        self.assertEqual({name: reply.status for name, reply in got.items()}, {"first": 204, "second": 200})

    def a_session_and_a_runner(self):
        """A session that is not there is 404; a run that nobody claims waits."""
        self.problem(self.api.post(S("agent:main:nope", "main", "runs"), {}), 404, "session_not_found")
        key = self.make()
        waiting = self.start(key, "x", status=202, queueOnly=True, whenBusy="queue")
        self.assertEqual(self.run_of(key, waiting["runId"])["status"], "queued")

    def answered_at_once(self):
        got = self.inbound(channel="slack", peer="u" + uid(), text="hello")
        self.assertEqual(self.run_of(got["sessionKey"], got["run"]["runId"])["status"], "queued")

    def steps_of_any_kind(self):
        run = self.start(self.make())
        self.step(run, 1, {"type": "text.delta", "text": "a"})
        self.step(run, 2, {"type": "tool.started", "tool": "t", "args": {}, "callId": "c"},
                  {"type": "tool.finished", "tool": "t", "callId": "c", "success": True})
        self.step(run, 3, {"type": "text.delta", "text": "b"}, {"type": "tool.started", "tool": "t", "args": {}, "callId": "d"})
        self.finish(run, {"role": "assistant", "text": "ab"})
        self.assertEqual([told["step"] for told in self.of_type(run["key"], "step.started")], [1, 2, 3])
        epoch = self.entry(run["key"])["asOf"].split("-")[0]
        page = self.ok(self.api.get(S(run["key"], "main", "events") + f"?poll=1&limit=1000&after={epoch}-0"), 200)["data"]
        types = [event["type"] for event in page if re.match("run.(started|finished)|step|tool", event["type"])]
        self.assertEqual(types, ["run.started", "step.started", "step.finished", "step.started", "tool.started", "tool.finished",
                                 "step.finished", "step.started", "tool.started", "step.finished", "run.finished"])
        self.assertTrue(all({"seq", "time", "key", "data"} <= set(event) for event in page))

    def bound(self):
        key = self.make(**BOUND)
        self.problem(self.api.patch(S(key), {"agentRef": "other"}), 409, "agent_bound")
        self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        self.assertEqual({name: self.entry(key)[name] for name in BOUND}, BOUND)

    def life(self):
        """Idle, at work with rounds of tools, idle again."""
        key = self.make()
        self.assertNotIn("status", self.entry(key))
        run = self.start(key, "x")
        self.step(run, 1)
        self.assertEqual(self.entry(key)["status"], "running")
        self.finish(run)
        self.assertEqual((self.entry(key)["status"], "activeRun" in self.entry(key)), ("done", False))

    def stopped_and_resumed(self):
        key = self.make()
        run = self.start(key, "a long story")
        self.tell(run, {"type": "text.delta", "text": "Once upon"})
        self.ok(self.api.post(S(key, "main", "abort"), {}), 202)
        self.finish(run)
        again = self.start(key, "go on")
        self.finish(again, {"role": "assistant", "text": " a time"})
        self.assertEqual([text for _, text in self.chat(key)], ["a long story", "Once upon", "go on", " a time"])

    def directives(self):
        key = self.make(queueMode="steer")
        run = self.start(key, "x")
        steered = self.start(key, "left", status=202)["steered"]
        told, = self.of_type(key, "directive.injected")
        self.assertEqual((told["entryId"], told["runId"]), (steered[0], run["runId"]))

    def three_limits(self):
        """maxSteps ends a run, turnCap refuses the next, and what a model is shown is neither's business."""
        key = self.make(turnCap=1)
        run = self.start(key, "x", maxSteps=1)
        self.step(run, 1)
        self.assertEqual(self.tell(run, {"type": "step.started", "step": 2}, status=409)["limit"], "maxSteps")
        refused = self.problem(self.api.post(S(key, "main", "runs"), {}), 409, "turn_limit")
        self.assertEqual(refused["limit"], "turnCap")
        self.say(key, "still here")
        self.assertEqual(self.chat(key), [("user", "x"), ("user", "still here")])

    def narrowed(self):
        key = self.make(**BOUND)
        self.ok(self.api.patch(S(key), {"tools": ["read"]}), 200)
        self.invalid(self.api.patch(S(key), {"tools": ["read", "rm"]}), "/tools/1")

    def guardrails(self):
        run = self.start(self.make(guardrails={"allowedCommands": ["npm test"]}))
        self.assertEqual(self.outcome(self.ask(run, "run_command", 200, args={"command": "npm test -- x"})), ("allow", "guardrail"))
        self.assertEqual(self.outcome(self.ask(run, "run_command", 200, args={"command": "npm publish"})), ("deny", "guardrail"))
        self.ask(run, "git_commit", 201)

"""Approvals: a run asks whether it may use a tool; rules, people, a deadline or the end of the run decide (policy/runs/README.md)."""

import threading
import time

from approvals_case import ApprovalsCase
from harness.case import S, uid
from harness.sessiond import SLOW, eventually
from preload import preload

HOUR = 3_600_000


class Approvals(ApprovalsCase):
    def test_an_approval_that_nobody_answers_is_denied(self):
        run = self.begin_run()
        began = time.monotonic()
        decided = self.ask(run, timeoutMs=200, waitMs=5000, args={"command": "rm x"})
        self.assertGreaterEqual(time.monotonic() - began, 0.2)
        self.assertEqual(self.outcome(decided), ("deny", "default"))
        self.assertEqual((decided["args"], decided["runId"], decided["callId"]), ({"command": "rm x"}, run["runId"], None))
        self.assertEqual([event["type"] for event in self.events(run["key"])], ["approval.requested", "approval.resolved"])

    def test_a_tool_that_is_allowed_for_the_session(self):
        run = self.begin_run()
        first = self.answer(run, self.ask(run), "allow-session", reason="fine")
        self.assertEqual((*self.outcome(first), first["reason"]), ("allow", "answer", "fine"))
        self.assertEqual(self.outcome(self.ask(run, status=200)), ("allow", "session"))
        tools = S(run["key"], "main", "allowed-tools")
        self.assertEqual(self.ok(self.api.get(tools), 200)["data"], ["bash"])
        self.assertEqual(self.ok(self.api.get(S(run["key"])), 200)["allowedTools"], ["bash"])
        self.problem(self.daemon.client(self.daemon.token("runner")).delete(tools), 403)
        self.assertEqual(self.api.delete(tools + "/other").status, 204)
        self.assertEqual(self.ok(self.api.get(tools), 200)["data"], ["bash"])
        self.answer(run, self.ask(run, tool="web/search"), "allow-session")
        self.assertEqual(self.api.delete(tools + "/web%2Fsearch").status, 204)
        self.assertEqual(self.ok(self.api.get(tools), 200)["data"], ["bash"])
        self.assertEqual(self.api.delete(tools).status, 204)
        self.assertEqual(self.ok(self.api.get(tools), 200)["data"], [])
        self.assertIsNone(self.ask(run, status=201)["decision"])

    def test_of_two_answers_at_once_one_counts(self):
        run = self.begin_run()
        people = [self.daemon.client(self.daemon.token("operator")) for _ in range(8)]
        for turn in range(5):
            asked, answers = self.ask(run, args={"turn": turn}), []
            give = lambda who, n: answers.append(self.answer(run, asked, ("allow", "deny")[n % 2], api=who))  # noqa: E731
            threads = [threading.Thread(target=give, args=(who, n)) for n, who in enumerate(people)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(answers), len(people))
            self.assertEqual(len({(a["decision"], a["by"]) for a in answers}), 1, answers)
        resolved = [event for event in self.events(run["key"]) if event["type"] == "approval.resolved"]
        self.assertEqual(len(resolved), 5)

    def test_git_commit_is_asked_though_it_is_allowed(self):
        run = self.begin_run()
        decided = self.answer(run, self.ask(run, tool="git_commit"), "allow-session")
        self.assertEqual(self.outcome(decided), ("allow", "answer"))
        self.assertEqual(self.ok(self.api.get(S(run["key"], "main", "allowed-tools")), 200)["data"], [])
        self.answer(run, self.ask(run, tool="bash"), "allow-session")
        self.ok(self.api.patch(S(run["key"]), {"guardrails": {"approval": ["bash"]}}), 200)
        self.ask(run, tool="bash", status=201)
        self.ok(self.api.patch(S(run["key"]), {"guardrails": {"approval": []}}), 200)
        self.assertEqual(self.outcome(self.ask(run, tool="bash", status=200)), ("allow", "session"))

    def test_commands_are_matched_word_by_word(self):
        run = self.begin_run(guardrails={"allowedCommands": ["git status", "npm test"]})
        for command in ("npm test -- x", 'git  "status" -s', "g'i't status"):
            self.assertEqual(self.outcome(self.ask(run, "run_command", 200, args={"command": command})), ("allow", "guardrail"), command)
        for command in ("npm publish", "git statusx", "git status; x", "git status && x", "git status $(x)", 'git status "$HOME"',
                        "git status\nx", "git status \\\n", "X=1 git status", "git status > f", "git 'status", "git status # x",
                        "(git status)"):
            self.assertEqual(self.outcome(self.ask(run, "run_command", 200, args={"command": command})), ("deny", "guardrail"), command)
        for args in ({}, {"command": 1}, {"command": None}, None):
            self.assertEqual(self.outcome(self.ask(run, "run_command", 200, args=args)), ("deny", "guardrail"), args)
        self.ok(self.api.patch(S(run["key"]), {"guardrails": {"allowedCommands": []}}), 200)
        self.assertEqual(self.outcome(self.ask(run, "run_command", 200, args={"command": "git status"})), ("deny", "guardrail"))
        self.ok(self.api.patch(S(run["key"]), {"guardrails": {"allowedCommands": ["git status"], "approval": ["run_command"]}}), 200)
        self.ask(run, "run_command", 201, args={"command": "git status"})

    # -- questions

    def test_a_question_that_is_sent_again_is_the_same(self):
        run = self.begin_run()
        first = self.ask(run, callId="c1", args={"a": 1, "b": [2]})
        self.assertEqual(self.ask(run, callId="c1", args={"b": [2], "a": 1}, status=201)["id"], first["id"])
        self.answer(run, first)
        again = self.ask(run, callId="c1", args={"a": 1, "b": [2]}, status=200)
        self.assertEqual((again["id"], *self.outcome(again)), (first["id"], "allow", "answer"))
        self.invalid(self.api.post(self.place(run), {"runId": run["runId"], "fence": run["lease"]["fence"], "tool": "bash",
                                                     "args": {"a": 2, "b": [2]}, "callId": "c1"}), "/callId")
        self.assertNotEqual(self.ask(run, args={})["id"], self.ask(run, args={})["id"])
        self.finish(run)
        self.assertNotEqual(self.ask(self.begin_run(key=run["key"]), callId="c1", args={"a": 1, "b": [2]})["id"], first["id"])

    def test_only_who_has_the_lease_may_ask(self):
        run = self.begin_run()
        body = {"runId": run["runId"], "fence": run["lease"]["fence"], "tool": "bash"}
        self.problem(self.person.post(self.place(run), body), 409, "lease_lost")
        self.problem(self.api.post(self.place(run), {**body, "fence": body["fence"] + 1}), 409, "lease_lost")
        self.problem(self.daemon.client(self.daemon.token("viewer", permissions=["approve"])).post(self.place(run), body), 403)
        self.invalid(self.api.post(self.place(run), {}), "/runId", "/fence", "/tool")
        self.invalid(self.api.post(self.place(run), {**body, "args": [], "timeoutMs": 9, "waitMs": 30_001}), "/args", "/timeoutMs", "/waitMs")
        self.invalid(self.api.post(self.place(run), {**body, "args": {"x": "y" * 65_536}}), "/args")
        self.finish(run)
        self.problem(self.api.post(self.place(run), body), 409, "lease_lost")

    def test_a_run_has_so_many_questions_open(self):
        run = self.begin_run()
        asked = [self.ask(run) for _ in range(100)]
        self.problem(self.api.post(self.place(run), {"runId": run["runId"], "fence": run["lease"]["fence"], "tool": "bash"}), 429)
        self.answer(run, asked[0])
        self.ask(run, status=201)

    # -- answers

    def test_a_denied_question_never_opens_again(self):
        """A run that asks more than is kept of it is refused; it cannot wash an answer away."""
        run = self.begin_run()
        first = self.ask(run, callId="first", args={"command": "x"})
        self.answer(run, first, "deny")
        asked = 0
        while asked < 100:
            reply = self.api.post(self.place(run), {"runId": run["runId"], "fence": run["lease"]["fence"], "tool": "bash",
                                                    "callId": f"c{asked}", "args": {"text": "y" * 65_000}})
            if reply.status == 429:
                break
            self.answer(run, self.ok(reply, 201), "deny")
            asked += 1
        self.problem(reply, 429, "too_many_requests")
        self.assertGreater(asked, 50)
        again = self.ask(run, callId="first", args={"command": "x"}, status=200)
        self.assertEqual((again["id"], *self.outcome(again)), (first["id"], "deny", "answer"))
        self.ask(run, args={"text": "y" * 65_000}, status=201)  # without a callId nothing is promised
        self.assertEqual(self.ask(run, callId="first", args={"command": "x"}, status=200)["id"], first["id"])
        self.finish(run)
        self.ask(self.begin_run(key=run["key"]), callId="c", args={"text": "y" * 65_000}, status=201)

    def test_the_token_that_asked_may_not_answer(self):
        run = self.begin_run()
        asked = self.ask(run)
        self.assertEqual(asked["askedBy"], self.ok(self.api.get("/v1/whoami"), 200)["id"])
        self.problem(self.api.post(self.place(run, asked["id"]), {"decision": "allow"}), 403, "forbidden")
        self.assertIsNone(self.approval(run, asked)["decision"])
        self.assertNotIn("resolvedAt", self.approval(run, asked))
        self.answer(run, asked, "deny")
        decided = self.approval(run, asked)
        self.assertGreaterEqual(decided["resolvedAt"], decided["askedAt"])
        again = self.ok(self.api.post(self.place(run, asked["id"]), {"decision": "allow"}), 200)
        self.assertEqual(again["decision"], "deny")
        self.problem(self.person.post(self.place(run, "nosuch"), {"decision": "allow"}), 404, "approval_not_found")
        self.invalid(self.person.post(self.place(run, asked["id"]), {"decision": "yes"}), "/decision")
        self.invalid(self.person.post(self.place(run, asked["id"]), {}), "/decision")

    def test_a_run_that_ends_denies_what_is_open(self):
        for end in ("finish", "reset", "lease"):
            with self.subTest(end):
                key = self.new()["key"]
                run = self.ok(self.api.post(S(key, "main", "runs"), {"leaseMs": 300 if end == "lease" else 60_000}), 201)
                answered, asked = self.ask(run), self.ask(run)
                self.answer(run, answered)
                if end == "finish":
                    self.finish(run)
                elif end == "reset":
                    self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
                decided = self.approval(run, asked, "?waitMs=10000")
                self.assertEqual(self.outcome(decided), ("deny", "run_ended"))
                self.assertEqual(self.outcome(self.approval(run, answered)), ("allow", "answer"))
                types = [event["type"] for event in self.events(key)]
                self.assertEqual(types[-2:], ["approval.resolved", "run.finished"])
                self.assertEqual(self.outcome(self.answer(run, asked)), ("deny", "run_ended"))

    def test_a_session_that_is_deleted_takes_its_approvals_along(self):
        run = self.begin_run()
        asked = self.ask(run)
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(self.person.get(self.place(run, asked["id"]) + "?waitMs=20000")))
        thread.start()
        time.sleep(0.2)
        self.assertIn(self.api.delete(S(run["key"])).status, (200, 204))
        thread.join(5 * SLOW)
        self.problem(waiting[0], 404, "session_not_found")
        self.assertNotIn(asked["id"], [a["id"] for a in self.ok(self.person.get("/v1/approvals?open=true"), 200)["data"]])

    def test_a_wait_ends_with_the_answer(self):
        run = self.begin_run()
        asked = self.ask(run)
        threading.Timer(0.3, lambda: self.answer(run, asked, "deny", reason="no")).start()
        began = time.monotonic()
        decided = self.approval(run, asked, "?waitMs=20000", api=self.daemon.client(self.daemon.token("viewer")))
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual((decided["decision"], decided["reason"]), ("deny", "no"))
        began = time.monotonic()
        self.assertIsNone(self.ask(run, waitMs=200)["decision"])
        self.assertGreaterEqual(time.monotonic() - began, 0.2)

    def test_a_question_waits_without_a_call_in_between(self):
        run = self.begin_run()
        answers = []
        asking = self.daemon.client()
        thread = threading.Thread(target=lambda: answers.append(self.ask(run, waitMs=20_000, callId="c", api=asking)))
        thread.start()
        eventually(lambda: self.ok(self.person.get(self.place(run) + "?open=true"), 200)["data"], 5, what="the question")
        (asked,) = self.ok(self.person.get(self.place(run) + "?open=true"), 200)["data"]
        self.answer(run, asked)
        thread.join(10 * SLOW)
        self.assertEqual(self.outcome(answers[0]), ("allow", "answer"))

    # -- who sees what

    def test_permissions(self):
        for wrong in (["nosuch"], ["run"], ["admin"], [1]):
            self.invalid(self.api.post("/v1/admin/tokens", {"role": "viewer", "permissions": wrong}), "/permissions/0")
        self.invalid(self.api.post("/v1/admin/tokens", {"role": "viewer", "permissions": "approve"}), "/permissions")
        run = self.begin_run()
        for role, may in (("admin", True), ("operator", True), ("runner", False), ("bridge", False), ("viewer", False), ("metrics", False)):
            for given in ([], ["approve"]):
                client = self.daemon.client(self.daemon.token(role, permissions=given))
                self.assertEqual(self.ok(client.get("/v1/whoami"), 200)["permissions"], given)
                reply = client.post(self.place(run, self.ask(run)["id"]), {"decision": "deny"})
                self.assertEqual(reply.status, 200 if may or given else 403, (role, given, reply))
                seen = client.get("/v1/approvals")
                self.assertEqual(seen.status, 403 if role == "metrics" and not given else 200, (role, given, seen))
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "metrics", "permissions": ["approve", "approve"]}), 201)
        rotated = self.ok(self.api.post(f"/v1/admin/tokens/{made['id']}/rotate", {}), 201)
        self.assertEqual(rotated["permissions"], ["approve"])
        self.daemon.restart()
        self.assertEqual(self.ok(self.daemon.client(rotated["token"]).get("/v1/whoami"), 200)["permissions"], ["approve"])
        printed = self.daemon.cli("token", "create", "--role", "viewer", "--permission", "approve").stdout.strip()
        self.assertEqual(self.ok(self.daemon.client(printed).get("/v1/whoami"), 200)["permissions"], ["approve"])
        self.assertEqual(self.daemon.cli("token", "create", "--role", "viewer", "--permission", "nosuch").returncode, 2)
        self.assertIn("may approve", self.daemon.cli("token", "list").stdout)

    def test_a_token_answers_within_its_scope_only(self):
        mine = self.begin_run(key=self.new("agent:main:slack:channel:mine-" + uid())["key"])
        other = self.begin_run(key=self.new("agent:main:discord:channel:other-" + uid())["key"])
        inside, outside = self.ask(mine), self.ask(other)
        client = self.daemon.client(self.daemon.token("viewer", keyPrefix="agent:main:slack:channel:mine-", permissions=["approve"]))
        seen = self.ok(client.get("/v1/approvals?open=true"), 200)["data"]
        self.assertEqual({a["key"] for a in seen if a["id"] in (inside["id"], outside["id"])}, {mine["key"]})
        there = client.post(self.place(other, outside["id"]), {"decision": "allow"})
        self.problem(there, 404, "session_not_found")
        self.problem(client.get(self.place(other, outside["id"])), 404, "session_not_found")
        self.problem(client.post(self.place(mine, outside["id"]), {"decision": "allow"}), 404, "approval_not_found")
        self.answer(mine, inside, api=client)
        self.assertIsNone(self.approval(other, outside)["decision"])
        by_channel = self.daemon.client(self.daemon.token("viewer", channel="discord", permissions=["approve"]))
        self.assertNotIn(mine["key"], [a["key"] for a in self.ok(by_channel.get("/v1/approvals"), 200)["data"]])
        self.answer(other, outside, api=by_channel)

    def test_the_list_over_all(self):
        key = f"agent:a{uid()}:slack:direct:u"
        agent = key.split(":")[1]
        self.assertEqual(self.api.put(S(key, agent), {"channel": "slack"}).status, 201)
        run = self.begin_run(key=key)
        asked = self.ask(run, callId="c")
        of = lambda query="": [a["id"] for a in self.ok(self.person.get("/v1/approvals?" + query), 200)["data"]]  # noqa: E731
        for query in ("", "open=true", f"agent={agent}", "channel=Slack", f"open=true&agent={agent}&channel=slack"):
            self.assertIn(asked["id"], of(query), query)
        for query in ("agent=nosuch", "channel=discord"):
            self.assertNotIn(asked["id"], of(query), query)
        self.problem(self.person.get("/v1/approvals?open=false"), 400, "bad_request")
        (row,) = self.ok(self.person.get(f"/v1/approvals?agent={agent}"), 200)["data"]
        self.assertEqual((row["agent"], row["key"], row["callId"], row["decision"]), (agent, key, "c", None))
        self.assertRegex(self.api.get("/metrics").raw.decode(), r"(?m)^sessiond_approvals_open [1-9]")
        self.answer(run, asked)
        self.assertEqual(of(f"agent={agent}"), [])
        self.assertEqual([a["id"] for a in self.ok(self.person.get(self.place(run)), 200)["data"]], [asked["id"]])
        self.assertEqual(self.ok(self.person.get(self.place(run) + "?open=true"), 200)["data"], [])

    def test_ephemeral_sessions_have_approvals_too(self):
        made = self.ok(self.api.post("/v1/agents/main/sessions", {"key": f"agent:main:slack:channel:{uid()}", "ephemeral": True}), 201)
        run = self.begin_run(key=made["key"])
        asked = self.ask(run)
        self.assertIn(asked["id"], [a["id"] for a in self.ok(self.person.get("/v1/approvals"), 200)["data"]])
        self.answer(run, asked, "allow-session")
        self.assertEqual(self.outcome(self.ask(run, status=200)), ("allow", "session"))
        self.assertEqual(self.outcome(self.ask(run, tool="x", timeoutMs=50, waitMs=5000)), ("deny", "default"))

    def test_without_anybody_who_could_answer(self):
        daemon = self.spawn({"approvals": {"requireApprover": True}})
        api, person = daemon.client(), daemon.client(daemon.token("viewer", channel="slack", permissions=["approve"]))
        run = self.begin_run(api=api)
        outcome = lambda: self.outcome(self.ask(run, timeoutMs=300, waitMs=5000, api=api))  # noqa: E731
        quick = lambda: self.outcome(self.ask(run, api=api))  # noqa: E731
        self.assertEqual(quick(), ("deny", "default"))
        for query, client in (("?types=message.*", person), ("?channel=discord", person), ("", daemon.client(daemon.token("viewer"))), ("", api)):
            with client.stream("/v1/events" + query) as stream:
                stream.wait_type("stream.hello")
                self.assertEqual(quick(), ("deny", "default"), query)
        with person.stream("/v1/events?types=approval.*") as stream:
            stream.wait_type("stream.hello")
            asked = self.ask(run, api=api, status=201)
            self.assertEqual(stream.wait_type("approval.requested").data["data"]["id"], asked["id"])
            self.assertEqual(self.outcome(self.answer(run, asked, api=person)), ("allow", "answer"))
            self.assertEqual(outcome(), ("deny", "default"))

    # -- restarts

    def test_an_open_approval_survives_a_restart(self):
        daemon = self.spawn()
        api, person = daemon.client(), daemon.client(daemon.token("operator"))
        run = self.begin_run(api=api)
        kept, asked = self.ask(run, callId="kept", api=api), self.ask(run, callId="open", api=api)
        self.answer(run, kept, "allow-session", api=person)
        for stop in (daemon.kill9, daemon.stop):
            stop()
            daemon.start()
            api, person = daemon.client(api.token), daemon.client(person.token)
            self.assertEqual([a["id"] for a in self.ok(person.get("/v1/approvals"), 200)["data"]], [asked["id"]])
            self.assertEqual(self.ask(run, callId="open", api=api, status=201), {**asked, "asOf": self.ask(run, callId="open", api=api)["asOf"]})
            self.assertEqual(self.ask(run, callId="kept", api=api, status=200)["id"], kept["id"])
            self.assertEqual(self.outcome(self.ask(run, api=api, status=200)), ("allow", "session"))
        self.assertEqual(self.outcome(self.answer(run, asked, api=person)), ("allow", "answer"))
        daemon.kill9()
        daemon.start()
        self.assertEqual(self.outcome(self.approval(run, asked, api=daemon.client(person.token))), ("allow", "answer"))

    def test_a_deadline_over_a_restart(self):
        daemon = self.spawn()
        api = daemon.client()
        run = self.begin_run(api=api)
        soon, later = self.ask(run, timeoutMs=1500, api=api), self.ask(run, tool="x", api=api)
        daemon.kill9()
        time.sleep(0.5)
        daemon.start()
        decided = self.approval(run, soon, "?waitMs=10000", api=daemon.client())
        self.assertEqual(self.outcome(decided), ("deny", "default"))
        self.assertIsNone(self.approval(run, later, api=daemon.client())["decision"])

    def test_a_clock_that_steps_over_a_restart_denies_nothing(self):
        daemon = preload(self.spawn(start=False))
        daemon.start()
        api, person = daemon.client(), daemon.client(daemon.token("operator"))
        run = self.begin_run(api=api)
        asked = self.ask(run, api=api)
        for wall_ms in (30 * HOUR, -30 * HOUR, 0):
            daemon.page.wall_ms = wall_ms
            daemon.kill9()
            daemon.start()
            time.sleep(0.3)
            person = daemon.client(person.token)
            self.assertIsNone(self.approval(run, asked, api=person)["decision"], wall_ms)
        self.answer(run, asked, api=person)

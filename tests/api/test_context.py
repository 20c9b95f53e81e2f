"""What a model is shown: S/context, view=llm, compaction, pruning, doom loops, pairs of calls and results (policy/context/README.md)."""

import collections
import hashlib
import json
import random
import shutil
import threading

from harness.case import Case, S, text_of, uid
from harness.sessiond import REPO

SHARED = REPO.parent / "shared" / "data" / "openclaw"


def call(*calls, **more):
    """An assistant's message with calls: (id, name, arguments)."""
    parts = [{"type": "toolCall", "id": i, "name": name, "arguments": arguments} for i, name, arguments in calls]
    return {"role": "assistant", "content": parts, **more}


def result(call_id, text="done", name="tool", **more):
    return {"role": "toolResult", "toolCallId": call_id, "toolName": name, "content": [{"type": "text", "text": text}], **more}


def usage(tokens):
    return {"usage": {"input": tokens - 1, "output": 1}}


class Context(Case):
    config = {"agents": {"main": {"compactInstructions": "of the agent"}}}

    def make(self, **entry):
        return self.new(**entry)["key"]

    def append(self, key, *messages, status=201, api=None):
        reply = (api or self.api).post(S(key, "main", "messages"), {"entries": list(messages)})
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def turn(self, key, number, tokens=None, api=None):
        """A person's message and the model's answer."""
        self.append(key, {"role": "user", "text": f"question {number}"},
                    {"role": "assistant", "text": f"answer {number}", **(usage(tokens) if tokens else {})}, api=api)

    def context(self, key, query="", api=None):
        return self.ok((api or self.api).get(S(key, "main", "context") + query), 200)

    def view(self, key, query="", api=None):
        return self.ok((api or self.api).get(S(key, "main", "messages") + "?view=llm" + query), 200)

    def compact(self, key, body=None, api=None):
        return (api or self.api).post(S(key, "main", "compact"), body if body is not None else {})

    def of_type(self, key, *types):
        """The events of these types, from the journal."""
        epoch = self.context(key)["asOf"].split("-")[0]
        reply = self.ok(self.api.get(S(key, "main", "events") + f"?poll=1&after={epoch}-0&types=" + ",".join(types)), 200)
        return [event["data"] for event in reply["data"]]

    def test_due_by_share_messages_and_turns(self):
        key = self.make(contextTokens=1000)
        for number in range(1, 5):
            self.turn(key, number, 799)
        self.append(key, {"role": "user", "text": "fifth"})
        self.append(key, {"role": "assistant", "text": "a", **usage(799)})
        self.assertEqual(self.context(key)["due"], {"compaction": False, "reason": "below_threshold"})
        self.append(key, {"role": "assistant", "text": "b", **usage(800)})
        seen = self.context(key)
        self.assertEqual((seen["used"], seen["percent"], seen["source"], seen["last"]["exact"]), (800, 80.0, "provider", 800))
        self.assertEqual(seen["due"], {"compaction": True, "reason": "due"})
        self.append(key, {"role": "assistant", "text": "c", **usage(900)})
        self.append(key, {"role": "assistant", "text": "d", **usage(10)})
        self.append(key, {"role": "assistant", "text": "e", **usage(801)})
        due = self.of_type(key, "compaction.due")
        # The fifth question (2 tokens) made it due, and so did 800 and 801 after less.
        self.assertEqual([one["used"] for one in due], [801, 800, 801], "once for each crossing")
        few = self.make(contextTokens=1000)
        for number in range(5):
            self.append(few, {"role": "user", "text": "q"} if number % 2 == 0 else {"role": "assistant", "text": "a", **usage(900)})
        self.assertEqual(self.context(few)["due"]["reason"], "too_few_messages")
        long = self.make(contextTokens=1000)
        for number in range(4):
            self.turn(long, number)
            self.append(long, {"role": "assistant", "text": "more", **usage(900)})
        seen = self.context(long)
        self.assertEqual((seen["messages"], seen["turns"], seen["due"]["reason"]), (12, 4, "too_few_turns"))

    def seven(self, key, system=True):
        for number in range(1, 8):
            self.turn(key, number)
            if number == 1 and system:
                self.append(key, {"role": "system", "text": "Be brief."})

    def rows(self, key, query=""):
        return [row for row in self.view(key, query)["data"]]

    def said(self, rows):
        return [row["content"] if isinstance(row["content"], str) else row["content"][0].get("text") for row in rows]

    def long_turn(self, key, steps, text="y" * 3900):
        self.append(key, {"role": "user", "text": "port it"})
        for n in range(steps):
            self.append(key, {"role": "assistant", "content": [{"type": "toolCall", "id": f"c{n}", "name": "ls", "arguments": {"n": n}}]},
                        {"role": "toolResult", "toolCallId": f"c{n}", "content": [{"type": "text", "text": text}]})

    def sum_up(self, key, text, query="", api=None):
        """Compacts a session as a runner does. Returns what was to be summarised."""
        plan = self.ok((api or self.api).post(S(key, "main", "compact") + query, {}), 200)["plan"]
        rows = self.ok((api or self.api).get(plan["summarize"]["url"]), 200)["data"]
        self.assertEqual(len(rows), plan["summarize"]["count"])
        self.ok(self.compact(key, {"summary": text, "firstKeptEntryId": plan["firstKeptEntryId"]}, api), 201)
        return rows

    def test_a_full_window_of_one_turn_is_due_and_keeps_the_words_that_began_it(self):
        key = self.make(contextTokens=20_000)
        self.long_turn(key, 19)
        self.assertEqual(self.context(key)["due"], {"compaction": False, "reason": "too_few_turns"})
        self.append(key, {"role": "assistant", "text": "z" * 4_000})
        before = self.context(key)
        self.assertEqual(before["due"], {"compaction": True, "reason": "window_full"})
        self.assertEqual(len(self.of_type(key, "compaction.due")), 1)
        rows = self.sum_up(key, "FIRST")
        self.assertNotIn("port it", json.dumps(rows))
        said = self.rows(key)
        self.assertEqual([row["role"] for row in said[:4]], ["user", "assistant", "user", "assistant"])
        self.assertIn("FIRST", json.dumps(said[1]))
        self.assertIn("port it", json.dumps(said[2]))
        after = self.context(key)
        self.assertLess(after["used"], before["used"] / 4)
        self.assertEqual(after["due"]["reason"], "below_threshold")
        self.assertEqual(self.view(key, "&prune=off")["context"]["used"], after["used"])
        self.daemon.restart(kill=True)
        type(self).api = self.api = self.daemon.client()
        self.assertEqual(self.rows(key), said)
        self.assertEqual(self.context(key)["used"], after["used"])
        # Again and again, and the words stay.
        for n in range(20, 60):
            self.append(key, {"role": "assistant", "content": [{"type": "toolCall", "id": f"c{n}", "name": "ls", "arguments": {"n": n}}]},
                        {"role": "toolResult", "toolCallId": f"c{n}", "content": [{"type": "text", "text": "y" * 3900}]})
            if self.context(key)["due"]["compaction"]:
                self.sum_up(key, f"S{n}")
        said = self.rows(key)
        self.assertEqual([row["role"] for row in said[:4]], ["user", "assistant", "user", "assistant"])
        self.assertIn("port it", json.dumps(said[2]))
        self.assertEqual(json.dumps(said).count("port it"), 1)
        self.assertEqual(self.view(key, "&prune=off")["context"]["used"], self.context(key)["used"])

    def test_a_window_that_the_last_words_fill_is_blocked_until_they_are_answered(self):
        key = self.make(contextTokens=1000)
        self.append(key, {"role": "user", "text": "x" * 7_000})
        due = self.context(key)["due"]
        self.assertEqual((due["compaction"], due["reason"], due["blocked"]["reason"]), (False, "blocked", "nothing_to_summarise"))
        self.problem(self.compact(key), 409, "nothing_to_compact")
        self.append(key, {"role": "assistant", "text": "a"}, {"role": "user", "text": "y" * 1_200}, {"role": "assistant", "text": "c"})
        self.assertEqual(self.context(key)["due"], {"compaction": True, "reason": "window_full"})
        rows = self.sum_up(key, "S")
        self.assertEqual([row["role"] for row in rows], ["user", "assistant"])
        self.assertIn("[Message trimmed: kept first 200 chars and last 200 chars of 7000 chars.]", text_of(rows[0]))
        self.assertEqual(self.context(key)["due"]["compaction"], False)

    def test_whenever_a_compaction_is_due_there_is_a_plan(self):
        rng = random.Random(11)
        told = collections.Counter()
        for _ in range(25):
            key = self.make(contextTokens=rng.choice((300, 600, 1200)))
            open_calls = []
            for n in range(rng.randrange(4, 40)):
                kind = rng.random()
                text = rng.choice(("a ", "word ")) * rng.randrange(1, 200)
                if kind < 0.3:
                    self.append(key, {"role": "user", "text": text})
                elif kind < 0.6:
                    self.append(key, {"role": "assistant", "text": text})
                elif kind < 0.8 or not open_calls:
                    open_calls.append(f"c{n}")
                    self.append(key, {"role": "assistant", "content": [{"type": "toolCall", "id": f"c{n}", "name": "ls", "arguments": {}}]})
                else:
                    self.append(key, {"role": "toolResult", "toolCallId": open_calls.pop(), "content": [{"type": "text", "text": text}]})
                due = self.context(key)["due"]
                told[due["reason"]] += 1
                reply = self.compact(key)
                if due["compaction"] or due["reason"] == "blocked":
                    self.assertEqual(due["compaction"], reply.status == 200, reply)
                if due["compaction"] and rng.random() < 0.7:
                    self.sum_up(key, "S")
                    self.assertEqual(self.view(key, "&prune=off")["context"]["used"], self.context(key)["used"])
        self.assertLessEqual({"due", "window_full", "blocked", "below_threshold"}, set(told))

    def test_a_transcript_of_any_length_can_be_compacted(self):
        daemon = self.spawn()
        api, key = daemon.client(), "agent:main:big"
        self.ok(api.post("/v1/agents/main/sessions", {"key": key}), 201)
        turn = [{"role": "user", "text": "q"}, {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "read", "arguments": {}}]},
                {"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": [{"type": "text", "text": "x" * 7_000_000}]},
                {"role": "assistant", "text": "done"}]
        for _ in range(11):
            self.append(key, *turn, api=api)
        self.assertEqual(api.get(S(key, "main", "messages") + "?view=llm").status, 422)
        for _ in range(3):
            if not self.context(key, api=api)["due"]["compaction"]:
                break
            self.sum_up(key, "S", api=api)
        self.assertEqual(self.view(key, api=api)["data"][-1]["content"][0]["text"], "done")

    # 2, 3, 4
    def test_a_compaction_is_planned_summed_up_and_keeps_the_system_message(self):
        key = self.make()
        self.seven(key)
        plan = self.ok(self.compact(key), 200)["plan"]
        entries = self.ok(self.api.get(S(key, "main", "messages")), 200)["data"]
        fourth = next(e for e in entries if e["role"] == "user" and e["content"][0]["text"] == "question 4")
        self.assertEqual((plan["firstKeptEntryId"], plan["maxTokens"], plan["temperature"]), (fourth["id"], 4096, 0.3))
        self.assertEqual(plan["summarize"]["count"], 6, "the system message is not summarised")
        rows = self.ok(self.api.get(plan["summarize"]["url"]), 200)["data"]
        self.assertEqual(self.said(rows), [f"{w} {n}" for n in (1, 2, 3) for w in ("question", "answer")])
        done = self.ok(self.compact(key, {"summary": "S", "firstKeptEntryId": plan["firstKeptEntryId"]}), 201)
        self.assertEqual(done["compactionCount"], 1)
        view = self.view(key)
        self.assertEqual(view["system"][0]["content"], [{"type": "text", "text": "Be brief."}])
        self.assertEqual(view["data"][0], {"role": "user", "content": "The conversation so far was summarized.", "synthetic": True,
                                           "summary": True, "entryIds": [done["entryId"]]})
        self.assertEqual(view["data"][1], {"role": "assistant", "content": "[Context Summary] S", "summary": True,
                                           "entryIds": [done["entryId"]]})
        self.assertEqual(self.said(view["data"][2:]), [f"{w} {n}" for n in (4, 5, 6, 7) for w in ("question", "answer")])
        alone = self.view(key, "&style=assistant")["data"]
        self.assertEqual(alone, view["data"][1:])
        told = self.of_type(key, "context.compacted")
        self.assertEqual([(t["summaryEntryId"], t["summary"], t["firstKeptEntryId"]) for t in told],
                         [(done["entryId"], "S", fourth["id"])])
        self.assertEqual(self.context(key)["checkpoint"]["entryId"], done["entryId"])
        self.problem(self.compact(key, {"summary": "again", "firstKeptEntryId": plan["firstKeptEntryId"]}), 409, "nothing_to_compact")
        self.problem(self.compact(key, {"summary": "x", "firstKeptEntryId": "nope"}), 422, "validation_failed")
        for number in range(8, 12):
            self.turn(key, number)
        second = self.ok(self.compact(key), 200)["plan"]
        self.assertEqual(second["summarize"]["previousSummary"], "S")
        self.ok(self.compact(key, {"summary": "S2", "firstKeptEntryId": second["firstKeptEntryId"]}), 201)
        rows = self.rows(key)
        self.assertEqual(self.said(rows)[:3], ["The conversation so far was summarized.", "[Context Summary] S2", "question 8"])
        self.assertEqual(self.ok(self.api.get(S(key)), 200)["compactionCount"], 2)

    def test_instructions_are_of_the_request_else_of_the_session_else_of_the_agent(self):
        key = self.make()
        self.seven(key)
        asked = lambda body=None: self.ok(self.compact(key, body), 200)["plan"]["instructions"]  # noqa: E731
        self.assertEqual(asked(), "of the agent")
        self.ok(self.api.patch(S(key), {"compactInstructions": "of the session"}), 200)
        self.assertEqual(asked(), "of the session")
        self.assertEqual(asked({"instructions": "of the call"}), "of the call")

    def test_a_pair_of_summaries_is_a_checkpoint(self):
        key = self.make()
        self.append(key, {"role": "user", "text": "old"}, {"role": "assistant", "text": "older answer"},
                    {"role": "user", "text": "summed up", "synthetic": True, "summary": True},
                    {"role": "assistant", "text": "what was said", "summary": True}, {"role": "user", "text": "new"})
        flags = [(row.get("synthetic"), row.get("summary")) for row in self.messages(key)]
        self.assertEqual(flags, [(None, None), (None, None), (True, True), (None, True), (None, None)])
        rows = self.rows(key)
        self.assertEqual(self.said(rows), ["The conversation so far was summarized.", "[Context Summary] what was said", "new"])
        self.assertEqual([row.get("summary") for row in rows], [True, True, None])

    def test_a_failure_changes_nothing(self):
        key = self.make(contextTokens=1000)
        for number in range(1, 7):
            self.turn(key, number, 900)
        before = self.view(key)
        self.ok(self.compact(key, {"error": {"code": "model", "message": "no"}}), 200)
        self.assertEqual(self.of_type(key, "compaction.failed"), [{"error": {"code": "model", "message": "no"}}])
        after = self.view(key)
        self.assertEqual(before["data"], after["data"])
        self.assertTrue(self.context(key)["due"]["compaction"])
        self.turn(key, 7)
        few = self.make()
        for _ in range(5):
            self.append(few, {"role": "user", "text": "q"})
        self.problem(self.compact(few), 409, "nothing_to_compact")

    def long_session(self, text, window=100_000, **more):
        key = self.make(contextTokens=window)
        self.append(key, {"role": "user", "text": "go"}, call(("c1", "read", {})), result("c1", text, "read"))
        for number in range(3):
            self.append(key, {"role": "assistant", "text": f"step {number}", **more})
        return key

    def sum_of(self, key):
        self.assertEqual(self.api.get(S(key, "main", "transcript")).status, 200)  # all lines are in the file
        file = self.daemon.agent_dir() / f"{self.ok(self.api.get(S(key)), 200)['sessionId']}.jsonl"
        return hashlib.sha256(file.read_bytes()).hexdigest()

    # 6, 9
    def test_long_tool_results_are_shortened(self):
        for text, size in (("x" * 60_000, 60_000), ("é" * 60_000, 60_000)):
            key = self.long_session(text, 40_000)
            before = self.sum_of(key)
            view = self.view(key, "&prune=soft")
            shown = view["data"][2]["content"][0]["text"]
            notice = f"\n[Tool result trimmed: kept first 1500 chars and last 1500 chars of {size} chars.]\n"
            self.assertEqual(shown, text[:1500] + notice + text[-1500:])
            self.assertEqual(view["pruned"], [{"entryId": view["data"][2]["entryIds"][0], "tool": "read", "from": size,
                                               "to": 3000 + len(notice), "how": "soft"}])
            raw = self.ok(self.api.get(S(key, "main", "messages") + "?view=raw"), 200)["data"][2]
            self.assertEqual(raw["line"]["message"]["content"][0]["text"], text)
            self.assertEqual(before, self.sum_of(key))
        for size, cut in ((49_999, False), (50_000, True)):
            view = self.view(self.long_session("x" * size, 10_000), "&prune=soft")
            self.assertEqual(bool(view["pruned"]), cut, size)
        key = self.long_session("x" * 5000, 4000)
        self.assertEqual(self.view(key)["pruned"], [], "shorter than 50 000")
        view = self.view(key, "&prune=aggressive")
        self.assertEqual([(p["how"], p["from"], p["aggressive"]) for p in view["pruned"]], [("soft", 5000, True)])
        self.assertTrue(view["aggressive"])

    def test_exactly_at_a_share_nothing_happens(self):
        key = self.long_session("x" * 60_000, 100_000, **usage(30_000))
        self.assertEqual(self.view(key)["pruned"], [], "exactly 30 %")
        self.assertEqual(self.view(key, "&window=99999")["pruned"][0]["how"], "soft")
        # 60 000 become 3 080 characters: 14 230 tokens less.
        removed = (60_000 - (3_000 + len("\n[Tool result trimmed: kept first 1500 chars and last 1500 chars of 60000 chars.]\n")) + 3) // 4
        left = 30_000 - removed
        view = self.view(key, f"&window={2 * left}")
        self.assertEqual(([p["how"] for p in view["pruned"]], view["context"]["used"]), (["soft"], left), "exactly 50 % after soft")
        view = self.view(key, f"&window={2 * left - 1}")
        self.assertEqual([p["how"] for p in view["pruned"]], ["hard"])
        self.assertEqual(view["data"][2]["content"], [{"type": "text", "text": "[Old tool result content cleared]"}])

    def test_the_last_three_assistants_are_protected(self):
        key = self.make(contextTokens=1000)
        self.append(key, {"role": "user", "text": "go"})
        for number in range(4):
            self.append(key, call((f"c{number}", "read", {"n": number})), result(f"c{number}", "x" * 50_000, "read"))
        view = self.view(key, "&prune=hard")
        self.assertEqual([p["entryId"] for p in view["pruned"]], view["data"][2]["entryIds"])
        two = self.make(contextTokens=1000)
        for number in range(2):
            self.append(two, call((f"c{number}", "read", {"n": number})), result(f"c{number}", "x" * 50_000, "read"))
        self.assertEqual(self.view(two, "&prune=hard")["pruned"], [])
        for tool in ("Skill", "skill_read"):
            skill = self.make(contextTokens=1000)
            self.append(skill, call(("s", tool, {})), result("s", "x" * 50_000, tool))
            for number in range(4):
                self.append(skill, {"role": "assistant", "text": str(number)})
            self.assertEqual(self.view(skill, "&prune=hard")["pruned"], [], tool)

    def test_a_run_that_found_the_window_full_makes_the_next_view_shorter(self):
        key = self.make()
        self.turn(key, 1)

        def run(status, **more):
            run = self.ok(self.api.post(S(key, "main", "runs"), {}), 201)
            self.ok(self.api.post(S(key, "main", "runs", run["runId"], "finish"), {"fence": run["lease"]["fence"], "status": status, **more}), 200)

        def aggressive(query=""):
            return self.view(key, query).get("aggressive", False)

        self.assertFalse(aggressive())
        run("failed", error={"code": "provider_error"})
        self.assertFalse(aggressive())
        run("failed", error={"code": "context_length"})
        self.assertTrue(aggressive())
        self.assertFalse(aggressive("&prune=auto"))
        run("done")
        self.assertFalse(aggressive())

    def test_a_run_counts_what_its_provider_counted(self):
        key = self.make(contextTokens=1000)
        self.append(key, {"role": "user", "text": "x" * 400})
        seen = self.context(key)
        self.assertEqual((seen["used"], seen["source"], seen["last"]["exact"]), (100, "estimate", None))
        run = self.ok(self.api.post(S(key, "main", "runs"), {}), 201)
        told = S(key, "main", "runs", run["runId"], "events")
        fence = run["lease"]["fence"]
        for phase, tokens in (("estimate", 90), ("exact", 100)):
            self.ok(self.api.post(told, {"fence": fence, "events": [{"type": "context.updated", "phase": phase, "tokens": tokens}]}), 200)
        last = self.context(key)["last"]
        self.assertEqual((last["estimate"], last["exact"]), (90, 100))
        self.assertEqual(self.context(key)["source"], "estimate")
        self.ok(self.api.post(S(key, "main", "runs", run["runId"], "finish"),
                              {"fence": fence, "status": "done", "entries": [{"role": "assistant", "text": "a", **usage(101)}]}), 200)
        self.assertEqual((self.context(key)["source"], self.context(key)["used"]), ("provider", 101))
        self.append(key, {"role": "user", "text": "y" * 40})
        self.assertEqual(self.context(key)["used"], 111)

    def loop(self, key, *names):
        for number, name in enumerate(names):
            if name == "user":
                self.append(key, {"role": "user", "text": "hm"})
                continue
            arguments = {"a": 1, "b": 2} if number % 2 else {"b": 2.0, "a": 1}
            self.append(key, call((f"c{number}", name, arguments)))
            self.append(key, result(f"c{number}", "same", name))

    def warnings(self, key):
        return [e for e in self.ok(self.api.get(S(key, "main", "messages")), 200)["data"] if e.get("synthetic")]

    def test_the_same_call_three_times_is_a_doom_loop(self):
        key = self.make()
        self.loop(key, "ls", "ls", "ls")
        warnings = self.warnings(key)
        self.assertEqual([w["content"] for w in warnings],
                         ["Warning: ls was called 3 times in a row with the same arguments. The result will not change; try "
                          "something else or stop."])
        self.assertEqual(self.of_type(key, "doom_loop.detected"), [{"tool": "ls", "count": 3, "callIds": ["c0", "c1", "c2"]}])
        for names, count in ((("ls", "ls", "cat", "ls"), 0), (("ls",) * 6, 2), (("ls", "ls", "user", "ls"), 0)):
            key = self.make()
            self.loop(key, *names)
            self.assertEqual(len(self.warnings(key)), count, names)
        both = self.make()
        self.loop(both, "ls", "ls")
        self.append(both, call(("x", "ls", {"a": 1, "b": 2}), ("y", "cat", {})))
        self.append(both, result("x"))
        self.assertEqual(self.warnings(both), [], "a call waits for its result")
        self.append(both, result("y"))
        self.assertEqual(len(self.warnings(both)), 1)

    def test_calls_and_results_are_pairs(self):
        key = self.make()
        self.append(key, {"role": "user", "text": "go"})
        reply = self.append(key, result("nobody"))
        self.assertEqual(reply["warnings"], [{"code": "unmatched_tool_result", "id": "nobody"}])
        self.append(key, call(("c1", "ls", {})))
        reply = self.append(key, {"role": "user", "text": "stop"})
        self.assertEqual(reply["warnings"], [{"code": "unmatched_tool_call", "id": "c1"}])
        self.assertNotIn("warnings", self.append(key, {"role": "user", "text": "please"}), "that was told")
        view = self.view(key)
        self.assertEqual([row["role"] for row in view["data"]], ["user", "assistant", "toolResult", "user", "user"])
        made = view["data"][2]
        self.assertEqual((made["toolCallId"], made["isError"], made["content"][0]["text"]),
                         ("c1", True, "No result: the call was interrupted."))
        self.assertEqual(view["repaired"], [{"callId": "nobody", "why": "orphan_result"}, {"callId": "c1", "why": "missing_result"}])

    def test_a_result_belongs_to_its_call_across_peoples_words(self):
        for repaired in (False, True):
            key = self.make()
            self.append(key, {"role": "user", "text": "delete the logs"}, call(("c1", "rm", {})), {"role": "user", "text": "are you there?"})
            if repaired:
                self.ok(self.api.post(S(key, "main", "repair")), 200)
            self.assertNotIn("warnings", self.append(key, result("c1", "42 files")))
            self.daemon.restart(kill=True)
            type(self).api = self.daemon.client()
            view = self.view(key)
            self.assertEqual([text_of(row) for row in view["data"]], ["delete the logs", "", "42 files", "are you there?"])
            self.assertEqual(view["repaired"][-1], {"callId": "c1", "why": "late_result" if repaired else "moved_result"})
            self.append(key, result("c1", "again"))
            self.assertEqual(self.view(key)["repaired"][-1], {"callId": "c1", "why": "duplicate_result"})
            self.assertEqual(self.context(key)["used"], self.view(key, "&prune=off")["context"]["used"])

    def test_strict_refuses_only_results_that_no_message_calls(self):
        strict = self.spawn({"messages": {"pairs": "strict"}}).client()
        for ephemeral in (False, True):
            key = self.ok(strict.post("/v1/agents/main/sessions", {"ephemeral": ephemeral}), 201)["key"]
            say = lambda *entries, status=201: self.append(key, *entries, api=strict, status=status)  # noqa: B023, E731
            refused = self.problem(strict.post(S(key, "main", "messages"), result("nobody")), 422, "unmatched_tool_result")
            self.assertIn("nobody", refused["detail"])
            say(*({"role": role, "text": role} for _ in range(5) for role in ("user", "assistant")))
            say(call(("c1", "ls", {}), ("c2", "ls", {})))
            say({"role": "assistant", "text": "on"})
            say({"role": "user", "text": "what people say is never refused"})
            say(result("c1"))
            say(result("c1"))
            plan = self.ok(strict.post(S(key, "main", "compact"), {}), 200)["plan"]
            self.ok(strict.post(S(key, "main", "compact"), {"summary": "S", "firstKeptEntryId": plan["firstKeptEntryId"]}), 201)
            say(result("c2"))
            say(result("c2"))
            say(call(("c3", "ls", {})), result("c3"), result("c3"))
            say(result("C1"), status=422)
            many = [(f"m{n}", "ls", {}) for n in range(90)]
            say(call(*many), *(result(name) for name, _, _ in many))
            say(*(result(name) for name, _, _ in many))
            # An id is found however it is spelt.
            spelt = rb'{"role":"assistant","content":[{"type":"toolCall","id":"a\/\u00e9","name":"ls","arguments":{}}]}'
            self.ok(strict.request("POST", S(key, "main", "messages"), spelt), 201)
            for _ in range(2):
                say(result("a/\u00e9"))

    def test_nothing_blank_is_shown(self):
        key = self.make()
        self.append(key, {"role": "user", "content": "q1"}, {"role": "assistant", "content": [], "stopReason": "error"},
                    {"role": "assistant", "content": [{"type": "text", "text": ""}, call(("c", "ls", {}))["content"][0]]}, result("c", ""),
                    {"role": "assistant", "content": [{"type": "text", "text": "\n\n"}, {"type": "thinking", "thinking": "hm"}]})
        photo = self.inbound(channel="telegram", peer=uid(), messageId="p", text="", attachments=[{"type": "image", "url": "https://a/b.jpg"}])
        view = self.view(key)
        self.assertEqual([(row["role"], text_of(row)) for row in view["data"]],
                         [("user", "q1"), ("assistant", ""), ("toolResult", "(no output)")])
        self.assertEqual([one["why"] for one in view["repaired"]], ["blank_message", "blank_text", "blank_text", "blank_message"])
        self.assertEqual([text_of(row) for row in self.view(photo["sessionKey"])["data"]], ["[image]"])
        for one in (key, photo["sessionKey"]):
            self.assertEqual(self.context(one)["used"], self.view(one, "&prune=off")["context"]["used"])

    def test_ids_of_calls_differ_in_a_view(self):
        key = self.make()
        for number in range(3):
            self.append(key, call(("exec:0", "ls", {"n": number})), result("exec:0"))
        view = self.view(key)
        self.assertEqual([row["content"][0]["id"] for row in view["data"][::2]], ["exec_0", "exec_0-2", "exec_0-3"])
        self.assertEqual([row["toolCallId"] for row in view["data"][1::2]], ["exec_0", "exec_0-2", "exec_0-3"])
        self.assertEqual(view["repaired"][-1], {"callId": "exec:0", "why": "renamed_call", "shownAs": "exec_0-3"})

    def test_repair_appends_a_result_for_each_call_without_one(self):
        key = self.make()
        self.append(key, {"role": "user", "text": "go"}, call(("a", "ls", {}), ("b", "cat", {})), result("a"))
        dry = self.ok(self.api.post(S(key, "main", "repair"), {"dryRun": True}), 200)
        self.assertEqual(dry["added"], [{"callId": "b", "entryId": None}])
        done = self.ok(self.api.post(S(key, "main", "repair")), 200)["added"]
        self.assertEqual([one["callId"] for one in done], ["b"])
        self.assertEqual(self.view(key)["repaired"], [])
        self.assertEqual(self.ok(self.api.post(S(key, "main", "repair")), 200)["added"], [])

    def test_usage_is_taken_in_both_spellings_with_the_last_model(self):
        for given in ({"inputTokens": 10, "outputTokens": 5}, {"input": 10, "output": 5}):
            key = self.make()
            self.append(key, {"role": "assistant", "text": "a", "usage": given, "provider": "anthropic", "model": "m1"})
            entry = self.ok(self.api.get(S(key)), 200)
            self.assertEqual((entry["inputTokens"], entry["outputTokens"], entry["totalTokens"]), (10, 5, 15))
            self.assertEqual((entry["modelProvider"], entry["model"]), ("anthropic", "m1"))
            self.append(key, {"role": "assistant", "text": "a", "usage": {"input": 0, "output": 0}, "model": "delivery-mirror"})
            self.append(key, {"role": "assistant", "text": "b", "model": "m2"})
            self.assertEqual(self.ok(self.api.get(S(key)), 200)["model"], "m2")

    def test_files_go_with_their_message(self):
        key = self.make()
        parts = [{"type": "file", "name": str(n)} for n in range(11)]
        self.problem(self.api.post(S(key, "main", "messages"), {"role": "user", "content": parts}), 422, "validation_failed")
        self.append(key, {"role": "user", "content": parts[:10]})
        inbound = {"channel": "slack", "chatType": "direct", "peer": uid(), "text": "see"}
        files = [{"url": str(n)} for n in range(11)]
        self.problem(self.api.post("/v1/inbound", {**inbound, "attachments": files}), 422, "validation_failed")
        self.ok(self.api.post("/v1/inbound", {**inbound, "attachments": files[:10]}), 201)

    def test_a_view_is_bounded(self):
        key = self.make()
        for number in range(3):
            self.append(key, {"role": "user", "text": f"q{number}"}, call((f"c{number}", "ls", {"n": number})),
                        result(f"c{number}", "y" * 500), {"role": "assistant", "text": "done"})
        view = self.view(key, "&maxToolChars=100")
        self.assertEqual(view["data"][2]["content"][0]["text"], "y" * 100 + "…[cut]")
        self.assertEqual(self.ok(self.api.get(S(key, "main", "messages")), 200)["data"][2]["content"][0]["text"], "y" * 500)
        rows = self.view(key, "&maxMessages=4")["data"]
        self.assertEqual([r["role"] for r in rows], ["user", "assistant", "toolResult", "assistant"])
        self.assertEqual([r["role"] for r in self.view(key, "&maxMessages=2")["data"]],
                         ["user", "assistant", "toolResult", "assistant"], "the last turn is whole")
        self.assertEqual(len(self.view(key, "&maxMessages=11")["data"]), 8)

    def test_windows(self):
        daemon = self.spawn({"context": {"window": 5000, "windows": {"m1": 6000}}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        shown = lambda query="": (lambda c: (c["window"], c["windowSource"]))(self.context(key, query, api))  # noqa: E731
        self.assertEqual(shown(), (5000, "config"))
        self.append(key, {"role": "assistant", "text": "a", "model": "m1"}, api=api)
        self.assertEqual(shown(), (6000, "model"))
        self.ok(api.patch(S(key), {"contextTokens": 7000}), 200)
        self.assertEqual(shown(), (7000, "entry"))
        self.assertEqual(shown("?window=8000"), (8000, "query"))

    def test_after_a_restart_it_is_the_same(self):
        daemon = self.spawn({})
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.append(key, {"role": "system", "text": "s"}, {"role": "user", "text": "hello there"}, call(("c", "ls", {})), api=api)
        before = {k: v for k, v in self.context(key, "", api).items() if k != "asOf"}
        daemon.restart(kill=True)
        api = daemon.client()
        self.assertEqual({k: v for k, v in self.context(key, "", api).items() if k != "asOf"}, before)
        self.assertNotIn("warnings", self.append(key, result("c"), api=api), "the call is known")

    def test_ephemeral(self):
        key = f"agent:main:tmp:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.seven(key)
        plan = self.ok(self.compact(key), 200)["plan"]
        self.ok(self.compact(key, {"summary": "S", "firstKeptEntryId": plan["firstKeptEntryId"]}), 201)
        self.assertEqual(self.said(self.rows(key))[1:3], ["[Context Summary] S", "question 4"])
        self.turn(key, 8)
        self.assertEqual(self.context(key)["turns"], 5)

    def test_ephemeral_branches(self):
        """What a decision needs of the transcript is read beside the loop: the decision is made again afterwards."""
        key = f"agent:main:tmp:{uid()}"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        ids = self.append(key, *({"role": role, "text": f"{role} {n} " + "x" * 5000} for n in range(20) for role in ("user", "assistant")))["ids"]
        self.append(key, {"role": "user", "text": "right", "parentId": ids[1]})
        once = {"role": "user", "text": "once"}
        replies = []

        def post():
            replies.append(self.api.clone().post(S(key, "main", "messages"), once, headers={"Idempotency-Key": "k" + key}))

        threads = [threading.Thread(target=post) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({(reply.status, reply.json["ids"][0]) for reply in replies}, {(201, replies[0].json["ids"][0])})
        self.assertEqual(self.said(self.rows(key))[2:], ["right", "once"])
        self.assertEqual(self.context(key)["messages"], 4)
        self.append(key, {"id": "mine", "type": "message", "message": {"role": "user", "content": "mine"}})
        again = self.append(key, {"id": "mine", "type": "message", "message": {"role": "user", "content": "mine"}}, status=201)
        self.assertEqual(again["duplicates"], 1)

    def test_the_path_to_the_leaf(self):
        key = self.make()
        ids = self.append(key, {"role": "user", "text": "q1"}, {"role": "assistant", "text": "a1"})["ids"]
        self.append(key, {"role": "user", "text": "left"}, {"role": "assistant", "text": "left answer"})
        self.append(key, {"role": "user", "text": "right", "parentId": ids[1]})
        self.append(key, {"role": "assistant", "text": "right answer"})
        self.assertEqual(self.said(self.rows(key)), ["q1", "a1", "right", "right answer"])
        self.assertEqual(self.context(key)["messages"], 4)

    def test_a_model_is_named_by_a_short_string(self):
        key = self.make()
        self.append(key, {"role": "assistant", "text": "a", "model": "m", "provider": {"x": 1}})
        entry = self.ok(self.api.get(S(key)), 200)
        self.assertEqual((entry["model"], entry.get("modelProvider")), ("m", None))
        self.append(key, {"role": "assistant", "text": "a", "model": "M" * 10_000, "provider": "p"}, {"role": "assistant", "text": "a", "model": 7})
        self.assertEqual(self.ok(self.api.get(S(key)), 200)["model"], "m")

    def test_long_ids_and_many_open_calls_make_no_long_answers(self):
        key = self.make()
        self.append(key, call(("x" * 100_000, "ls", {})))
        self.assertNotIn("warnings", self.append(key, {"role": "assistant", "text": "b"}), "such an id is not remembered")
        other = self.make()
        self.append(other, call(*((f"c{n}", "ls", {"n": n}) for n in range(900))))
        reply = self.append(other, *({"role": "assistant", "text": "b"} for _ in range(200)))
        self.assertEqual(len(reply["warnings"]), 100)

    def test_many_results_in_one_message(self):
        """Each result is rewritten once, not the whole message for each."""
        key = self.make()
        parts = [{"type": "tool_use", "id": f"c{n}", "name": "ls", "input": {"n": n}} for n in range(2000)]
        results = [{"type": "tool_result", "tool_use_id": f"c{n}", "content": "y" * 200} for n in range(2000)]
        self.append(key, {"role": "user", "text": "go"}, {"role": "assistant", "content": parts}, {"role": "user", "content": results})
        row = self.view(key, "&maxToolChars=10")["data"][2]
        self.assertEqual({part["content"] for part in row["content"]}, {"y" * 10 + "…[cut]"})

    def test_a_compaction_of_the_session_before_a_reset(self):
        """What was looked up in one transcript says nothing of another."""
        for _ in range(10):
            key = self.make()
            self.seven(key, system=False)
            plan = self.ok(self.compact(key), 200)["plan"]
            reset = threading.Thread(target=lambda key=key: self.api.clone().post(S(key, "main", "reset")))
            reset.start()
            reply = self.compact(key, {"summary": "OLD", "firstKeptEntryId": plan["firstKeptEntryId"]})
            reset.join()
            self.append(key, {"role": "user", "text": "new"})
            self.assertIn(reply.status, (201, 422))
            self.assertEqual(self.said(self.rows(key)), ["new"])

    def test_a_topic_without_messages_is_an_empty_conversation(self):
        key = self.make()
        self.seven(key)
        at = "?topic=none"
        self.assertEqual(self.ok(self.api.get(S(key, "main", "messages") + at), 200)["data"], [])
        self.assertEqual(self.view(key, "&topic=none")["data"], [])
        seen = self.context(key, at)
        self.assertEqual((seen["used"], seen["messages"], seen["due"]["reason"]), (0, 0, "below_threshold"))
        compact = S(key, "main", "compact") + at
        self.problem(self.api.post(compact, {}), 409, "nothing_to_compact")
        self.problem(self.api.post(compact, {"summary": "S", "firstKeptEntryId": "x"}), 422, "validation_failed")
        self.ok(self.api.post(compact, {"error": {"code": "model"}}), 200)
        self.assertEqual(self.ok(self.api.post(S(key, "main", "repair") + at), 200)["added"], [])
        self.assertEqual(self.ok(self.api.get(S(key, "main", "topics")), 200)["data"], [], "nothing of it is kept")

    def test_questions_that_are_wrong(self):
        key = self.make()
        for query in ("?view=llm&after=1", "?view=llm&window=0", "?view=llm&style=x", "?view=summarize", "?view=full&prune=off",
                      "?view=llm&maxMessages=0", "?view=llm&until=x"):
            self.problem(self.api.get(S(key, "main", "messages") + query), 400, "bad_request")
        self.problem(self.api.get(S(key, "main", "messages") + "?view=summarize&until=x"), 404, "message_not_found")
        for body in ({"summary": ""}, {"summary": "S"}, {"firstKeptEntryId": "x"}, {"error": 1, "summary": "S", "firstKeptEntryId": "x"}, {"x": 1}):
            self.problem(self.compact(key, body), 422, "validation_failed")


class Foreign(Case):
    """Transcripts that OpenClaw wrote: the view is what OpenClaw itself would send, but for calls and results without a counterpart."""

    NAMES = {"compactionSummary": "assistant", "custom": "user", "branchSummary": "user"}

    def test_the_same_messages_as_openclaw(self):
        compared = 0
        for tree in sorted(SHARED.iterdir()) if SHARED.is_dir() else ():
            if not (tree / "expected").is_dir():
                continue
            daemon = self.spawn({}, start=False)
            shutil.copytree(tree / "agents", daemon.state / "agents")
            daemon.start()
            api = daemon.client()
            for agent in ("main", "codex"):
                expected = json.loads((tree / "expected" / f"{agent}.transcripts.json").read_text())
                for file, wanted in expected.items():
                    name, _, topic = file.removesuffix(".jsonl").partition("-topic-")
                    query = f"&topic={topic}" if topic else ""
                    reply = api.get(S(name, agent, "messages") + "?view=llm&style=assistant&prune=off" + query)
                    if reply.status == 404:
                        continue  # a fork that no session has
                    self.assertEqual(reply.status, 200, reply)
                    view = reply.json
                    left_out = [r for r in view["repaired"] if r["why"] in ("orphan_result", "duplicate_result", "blank_message")]
                    roles = [row["role"] for row in view["data"] if row["entryIds"]]
                    roles += ["toolResult" if "callId" in r else self.ok(api.get(S(name, agent, "messages", r["entryId"]) + "?" + query), 200)["role"]
                              for r in left_out]
                    roles_wanted = [self.NAMES.get(role, role) for role in wanted["contextRoles"]]
                    self.assertEqual(sorted(roles), sorted(roles_wanted), file)
                    if not view["repaired"]:
                        self.assertEqual(roles, roles_wanted, file)
                    compared += 1
        if SHARED.is_dir():
            self.assertGreater(compared, 130)

"""Compactions beside runs, deletions and other programs: no word is lost, and what is due can be planned."""

from harness.case import Case, S, uid


def user(text):
    return {"role": "user", "text": text}


def says(text, size=0):
    return {"role": "assistant", "text": text + " " + "z" * size if size else text}


class Talk(Case):
    def make(self, key=None, **entry):
        key = key or "agent:main:slack:channel:" + uid()
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "entry": entry}), 201)
        return key

    def append(self, key, *entries, run=None, query=""):
        headers = {"x_run": f"{run['runId']};{run['lease']['fence']}"} if run else {}
        return self.ok(self.api.post(S(key, "main", "messages") + query, {"entries": list(entries)}, **headers), 201)

    def context(self, key, query=""):
        return self.ok(self.api.get(S(key, "main", "context") + query), 200)

    def said(self, key, query="&prune=off"):
        """The words of a view, in order, each up to its first space."""
        rows = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm" + query), 200)["data"]
        return self.words(rows)

    def words(self, rows):
        texts = [row["content"] if isinstance(row["content"], str) else row["content"][0].get("text", "") for row in rows]
        return [text.removeprefix("[Context Summary] ").split(" ")[0] for text in texts if not text.startswith("The conversation so far")]

    def plan(self, key):
        return self.ok(self.api.post(S(key, "main", "compact"), {}), 200)["plan"]

    def rows(self, plan):
        return self.words(self.ok(self.api.get(plan["summarize"]["url"]), 200)["data"])

    def commit(self, key, first, summary="SUM"):
        return self.api.post(S(key, "main", "compact"), {"summary": summary, "firstKeptEntryId": first})

    def compact(self, key, summary="SUM"):
        plan = self.plan(key)
        rows = self.rows(plan)
        self.ok(self.commit(key, plan["firstKeptEntryId"], summary), 201)
        return rows

    def start(self, key, text):
        return self.ok(self.api.post(S(key, "main", "runs"), {"input": user(text), "leaseMs": 600_000}), 201)

    def steer(self, key, run, text):
        steered = self.ok(self.api.post(S(key, "main", "runs"), {"input": user(text)}), 202)["steered"]
        self.ok(self.api.post(S(key, "main", "runs", run["runId"], "events"),
                              {"fence": run["lease"]["fence"], "events": [], "steered": steered}), 200)

    def finish(self, key, run, status="done", **more):
        return self.ok(self.api.post(S(key, "main", "runs", run["runId"], "finish"),
                                     {"fence": run["lease"]["fence"], "status": status, **more}), 200)

    def inbound(self, peer, text, message, **more):
        return self.ok(self.api.post("/v1/inbound", {"channel": "chat", "chatType": "direct", "peer": peer, "text": text,
                                                     "messageId": message, **more}), 200, 201)

    def delete(self, peer, message):
        self.ok(self.api.post("/v1/inbound/deletes", {"channel": "chat", "peer": peer, "messageId": message}), 201)

    def told(self, key, kind):
        epoch = self.context(key)["asOf"].split("-")[0]
        return [e["data"] for e in self.ok(self.api.get(S(key, "main", "events") + f"?poll=1&after={epoch}-0&types={kind}"))["data"]]


class Compactions(Talk):
    def test_words_that_steer_a_run_stay_at_their_place_over_many_compactions_of_it(self):
        key = self.make(contextTokens=1000, queueMode="steer")
        run = self.start(key, "PORT it")
        self.append(key, says("w0"), run=run)
        self.steer(key, run, "STEERED in French")
        step, told = 0, []
        for round in range(4):
            while not self.context(key)["due"]["compaction"]:
                step += 1
                self.append(key, says(f"x{step}", 700), run=run)
            told += self.compact(key, f"SUM{round}")
            for query in ("&prune=off", "&prune=off&run=" + run["runId"]):
                said = self.said(key, query)
                self.assertEqual(said[:3], [f"SUM{round}", "PORT", "STEERED"], query)
                # Nothing is lost: each step was told to a summary, or is shown.
                self.assertLessEqual({f"x{n}" for n in range(1, step + 1)}, set(told) | set(said))
            self.assertEqual(self.context(key)["used"], self.ok(self.api.get(S(key, "main", "messages") + "?view=llm&prune=off"))["context"]["used"])

    def test_however_long_a_conversation_is_plan_after_plan_tells_every_word_once(self):
        key = self.make(contextTokens=600)
        said = []
        for turn in range(60):  # some 40 windows
            said += [f"q{turn}", f"c{turn}", f"r{turn}", f"a{turn}"]
            self.append(key, user(f"q{turn} " + "x" * 600), {"role": "assistant", "content": [
                            {"type": "text", "text": f"c{turn} "}, {"type": "toolCall", "id": f"t{turn}", "name": "ls", "arguments": {}}]},
                        {"role": "toolResult", "toolCallId": f"t{turn}", "content": [{"type": "text", "text": f"r{turn} " + "y" * 900}]},
                        says(f"a{turn}", 800))
        self.append(key, user("LONG " + "z" * 30_000), says("so", 10))  # longer than ten windows
        said += ["LONG", "so"]
        told = []
        while self.context(key)["due"]["compaction"]:
            rows = self.compact(key, "SUM")
            self.assertGreater(len(rows), 0)
            told += rows
        kept = self.said(key)
        self.assertEqual(kept[0], "SUM")
        self.assertEqual(sorted(told + kept[1:]), sorted(said))

    def test_a_run_that_ends_between_a_plan_and_its_summary_loses_no_words(self):
        key = self.make(contextTokens=1000, queueMode="steer")
        run = self.start(key, "FIRST question")
        self.append(key, says("w1", 900), says("w2", 900), run=run)
        self.steer(key, run, "STEERED also")
        self.append(key, *[says(f"x{n}", 500) for n in range(5)], run=run)
        plan = self.plan(key)
        rows = self.rows(plan)
        self.finish(key, run, entries=[says("end")])
        self.ok(self.commit(key, plan["firstKeptEntryId"]), 201)
        shown = set(rows) | set(self.said(key))
        self.assertLessEqual({"FIRST", "w1", "w2", "STEERED", "x0", "x4", "end"}, shown)

    def test_a_word_that_was_deleted_is_not_kept_in_place_of_the_one_before_it(self):
        peer = "p" + uid()
        key = self.inbound(peer, "ONE port it", "m1", activate=False)["sessionKey"]
        self.ok(self.api.patch(S(key), {"contextTokens": 1000}), 200)
        self.append(key, says("a1", 1400))
        self.inbound(peer, "TWO never mind", "m2", activate=False)
        self.append(key, *[says(f"s{n}", 700) for n in range(4)])
        self.delete(peer, "m2")
        self.assertTrue(self.context(key)["due"]["compaction"])
        rows = self.compact(key)
        said = self.said(key)
        self.assertIn("ONE", set(rows) | set(said))
        self.assertEqual((rows.count("TWO"), said.count("TWO")), (0, 0))
        self.assertLessEqual({"a1", "s0", "s1", "s2", "s3"}, set(rows) | set(said))

    def test_what_was_summarised_stays_so_when_the_first_word_that_is_kept_is_deleted(self):
        peer = "p" + uid()
        key = f"agent:main:chat:direct:{peer}"
        self.make(key)
        run = self.start(key, "q1")
        self.inbound(peer, "aside", "m1", activate=False)
        self.append(key, says("a1"), says("a2"), run=run)
        self.finish(key, run)
        self.append(key, says("later"))
        rows = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm"))["data"]
        aside = next(row["entryIds"][0] for row in rows if row["content"][0].get("text") == "aside")
        self.ok(self.commit(key, aside), 201)
        self.assertEqual(self.said(key), ["SUM", "aside", "later"])
        self.delete(peer, "m1")
        self.assertEqual(self.said(key), ["SUM", "later"])
        self.assertEqual(self.context(key)["used"], self.ok(self.api.get(S(key, "main", "messages") + "?view=llm&prune=off"))["context"]["used"])

    def test_a_checkpoint_of_another_program_keeps_by_its_id_whatever_details_it_has(self):
        key = self.make()
        ids = self.append(key, *[user(word) for word in ("one", "two", "three", "four")])["ids"]
        for details in ({"from": "abc", "firstBehindWords": "abc"}, {"words": ids[:1], "firstBehindWords": ids[3]},
                        {"firstShown": ids[2], "firstBehindWords": "nowhere"}):
            self.append(key, {"type": "compaction", "summary": "S", "firstKeptEntryId": ids[2], "tokensBefore": 9, "details": details})
            self.assertEqual(self.said(key), ["S", "three", "four"], details)

    def test_a_plan_is_taken_once(self):
        key = self.make(contextTokens=1000, queueMode="steer")
        self.append(key, user("q"), *[says(f"x{n}", 800) for n in range(5)])
        plan = self.plan(key)
        self.ok(self.commit(key, plan["firstKeptEntryId"]), 201)
        self.problem(self.commit(key, plan["firstKeptEntryId"]), 409, "nothing_to_compact")
        self.assertEqual(self.ok(self.api.get(S(key)))["compactionCount"], 1)

    def test_what_is_due_in_the_context_of_a_run_is_what_can_be_planned(self):
        key = self.make(contextTokens=1000)
        run = self.start(key, "q")
        self.append(key, says("a", 2400), says("b", 1600), says("c"), run=run)
        for query in ("", "?run=" + run["runId"]):
            self.assertEqual(self.context(key, query)["due"]["compaction"], self.api.post(S(key, "main", "compact"), {}).status == 200)
        self.compact(key)
        self.finish(key, run)
        old = self.context(key, "?run=" + run["runId"])
        self.assertEqual(old["due"], self.context(key)["due"])
        view = self.ok(self.api.get(S(key, "main", "messages") + f"?view=llm&prune=off&run={run['runId']}"))
        self.assertEqual((view["context"]["used"], view["context"]["due"]), (old["used"], old["due"]))

    def test_a_question_that_waits_is_not_where_a_plan_begins_to_keep(self):
        key = self.make(contextTokens=1000)
        run = self.start(key, "q")
        self.append(key, says("a", 3800), run=run)
        self.ok(self.api.post(S(key, "main", "runs"), {"input": user("next")}), 202)
        self.assertEqual(self.context(key)["due"]["reason"], "blocked")
        self.problem(self.api.post(S(key, "main", "compact"), {}), 409, "nothing_to_compact")

    def test_a_provider_that_refuses_marks_the_transcript_and_no_other(self):
        key = self.make()
        run = self.start(key, "hello")
        too_long = {"error": {"code": "context_length", "message": "too long"}}
        self.finish(key, run, "failed", **too_long)
        self.append(key, says("x"), user("side word"), query="?topic=side")
        self.assertEqual(self.context(key)["due"]["reason"], "blocked")
        self.assertEqual(self.context(key, "?topic=side")["due"]["reason"], "below_threshold")
        for how in ("clear", "reset"):
            self.ok(self.api.post(S(key, "main", how), {}), 200)
            self.assertEqual(self.context(key)["due"]["reason"], "below_threshold")
            self.assertNotIn("aggressive", self.ok(self.api.get(S(key, "main", "messages") + "?view=llm")))
            run = self.start(key, "again")
            self.finish(key, run, "failed", **too_long)
            self.assertEqual(self.context(key)["due"]["reason"], "blocked")
        run = self.start(key, "short")
        self.finish(key, run, entries=[says("done")])
        self.assertEqual(self.context(key)["due"]["reason"], "below_threshold")


class Told(Talk):
    config = {"context": {"compaction": {"when": "after_turn"}}}

    def test_a_compaction_that_was_not_enough_is_told_again(self):
        key = self.make(contextTokens=3000)
        for n in range(12):
            self.append(key, user(f"q{n}"), says("y", 2400))
        self.assertEqual(len(self.told(key, "compaction.due")), 1)
        self.compact(key)
        self.assertTrue(self.context(key)["due"]["compaction"])
        self.append(key, user("more"), says("y"))
        self.assertEqual(len(self.told(key, "compaction.due")), 2)
        self.append(key, user("more"), says("y"))
        self.assertEqual(len(self.told(key, "compaction.due")), 2)

    def test_that_a_provider_refused_is_told(self):
        key = self.make()
        self.append(key, user("q"), says("a"), says("b"))
        run = self.start(key, "again")
        self.finish(key, run, "failed", error={"code": "context_length", "message": "too long"})
        self.assertEqual(len(self.told(key, "compaction.due")), 1)


"""When a model's window is to be compacted: told by the Run that starts, or by the event compaction.due behind a message."""

from harness.case import S
from runs_case import RunsCase


class Compaction(RunsCase):
    def fill(self):
        key = self.make(contextTokens=1000)
        for n in range(6):
            self.say(key, text=f"question {n}")
            self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": f"answer {n}", "usage": {"input": 850, "output": 5}}), 201)
        return key

    def told(self, key):
        return len(self.of_type(key, "compaction.due"))

    def test_a_run_that_starts_says_how_full_the_window_is(self):
        key = self.fill()
        self.assertEqual(self.told(key), 1)
        run = self.start(key, "more")
        shown = self.ok(self.api.get(S(key, "main", "context")), 200)
        self.assertEqual(run["compaction"], {"due": True, "reason": "due"})
        self.assertEqual({name: shown[name] for name in run["context"]}, run["context"])
        self.finish(run)
        self.start(key, "later", status=202, queueOnly=True)
        self.assertEqual(self.claim(keyPrefix=key, waitMs=5000)["compaction"]["reason"], "due")
        self.assertEqual(self.start(self.make(), "q")["compaction"], {"due": False, "reason": "below_threshold"})


class AtRunStart(Compaction):
    config = {"context": {"compaction": {"when": "run_start"}}}

    def test_a_run_that_starts_says_how_full_the_window_is(self):
        key = self.fill()
        self.assertEqual(self.start(key, "more")["compaction"], {"due": True, "reason": "due"})
        self.assertEqual(self.told(key), 0)


class AfterTurn(Compaction):
    config = {"context": {"compaction": {"when": "after_turn"}}}

    def test_a_run_that_starts_says_how_full_the_window_is(self):
        key = self.fill()
        self.assertEqual(self.start(key, "more")["compaction"], {"due": False, "reason": "after_turn"})
        self.assertEqual(self.told(key), 1)

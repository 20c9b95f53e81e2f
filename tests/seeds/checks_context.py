"""What the rows of context.table try. Most are tests of tests/api/test_context.py, which hold the contract's numbers."""

import importlib.util
from pathlib import Path

from harness.case import S

_tests = Path(__file__).resolve().parent.parent / "api" / "test_context.py"
_spec = importlib.util.spec_from_file_location("test_context", _tests)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
call, result, usage = _module.call, _module.result, _module.usage


class Checks(_module.Context):
    config = {"agents": {"main": {"compactInstructions": "of the agent"}}}

    def flags(self):
        """`synthetic` and `summary` are kept and served."""
        key = self.make()
        self.append(key, {"role": "user", "text": "x", "synthetic": True}, {"role": "assistant", "text": "y", "summary": True})
        first, second = self.ok(self.api.get(S(key, "main", "messages")), 200)["data"]
        self.assertEqual((first["synthetic"], second["summary"]), (True, True))

    def pair(self):
        """A pair of messages with `summary` is a checkpoint: the model is shown it and what follows."""
        key = self.make()
        self.append(key, {"role": "user", "text": "old"}, {"role": "assistant", "text": "older answer"},
                    {"role": "user", "text": "summed up", "synthetic": True, "summary": True},
                    {"role": "assistant", "text": "what was said", "summary": True}, {"role": "user", "text": "new"})
        rows = self.rows(key)
        self.assertEqual(self.said(rows), ["The conversation so far was summarized.", "[Context Summary] what was said", "new"])
        self.assertEqual([row.get("summary") for row in rows], [True, True, None])

    def aggressive(self):
        key = self.make(contextTokens=4000)
        self.append(key, {"role": "user", "text": "go"}, call(("c", "read", {})), result("c", "x" * 5000, "read"),
                    {"role": "assistant", "text": "done"})
        self.assertEqual(self.view(key)["pruned"], [], "shorter than 50 000")
        view = self.view(key, "&prune=aggressive")
        self.assertEqual([(p["how"], p["from"], p["aggressive"]) for p in view["pruned"]], [("soft", 5000, True)])
        self.assertTrue(view["aggressive"])

    def system_message(self):
        key = self.make()
        self.append(key, {"role": "user", "text": "a"}, {"role": "system", "text": "rules"})
        view = self.view(key)
        self.assertEqual((self.said(view["system"]), self.said(view["data"])), (["rules"], ["a"]))

    def two_phases(self):
        """Exact as soon as a provider said so, and estimated until then."""
        key = self.make()
        self.append(key, {"role": "user", "text": "x" * 400})
        seen = self.context(key)
        self.assertEqual((seen["used"], seen["source"], seen["last"]["exact"]), (100, "estimate", None))
        self.append(key, {"role": "assistant", "text": "a", **usage(150)})
        seen = self.context(key)
        self.assertEqual((seen["used"], seen["source"], seen["last"]["exact"]), (150, "provider", 150))
        self.append(key, {"role": "user", "text": "y" * 40})
        self.assertEqual(self.context(key)["used"], 160)

    def providers(self):
        """Tokens in each provider's spelling."""
        for given, used in (({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 40}}, 105),
                            ({"input_tokens": 60, "output_tokens": 5, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 7}, 112),
                            ({"promptTokenCount": 100, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "cachedContentTokenCount": 9}, 108),
                            ({"inputTokens": 1, "outputTokens": 2}, 3), ({"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}, 10)):
            key = self.make()
            self.append(key, {"role": "assistant", "text": "a", "usage": given})
            self.assertEqual(self.context(key)["used"], used, given)

    def instructions(self):
        """Of the request, else of the session, else of the agent."""
        key = self.make()
        self.seven(key)
        asked = lambda body=None: self.ok(self.compact(key, body), 200)["plan"]["instructions"]  # noqa: E731
        self.assertEqual(asked(), "of the agent")
        self.ok(self.api.patch(S(key), {"compactInstructions": "of the session"}), 200)
        self.assertEqual(asked(), "of the session")
        self.assertEqual(asked({"instructions": "of the call"}), "of the call")

    def statuses(self):
        """Denied, blocked and failed calls are results like others: the conversation stays whole."""
        key = self.make()
        self.append(key, {"role": "user", "text": "go"}, call(("a", "rm", {}), ("b", "ls", {}), ("c", "cat", {})),
                    result("a", "Permission denied", isError=True), result("b", "Blocked by hook: no", isError=True),
                    result("c", "no such file", isError=True))
        view = self.view(key)
        self.assertEqual([row.get("status") for row in view["data"][2:]], ["denied", "blocked", "error"])
        self.assertEqual(view["repaired"], [])

    def the_path(self):
        self.test_the_path_to_the_leaf()

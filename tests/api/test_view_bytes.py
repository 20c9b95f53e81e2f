"""How many bytes a model is shown (policy/context/README.md): images, files and results give way to notices."""

import json

from harness.case import S, uid
from test_blobs import BlobCase, image, media

CLEARED = {"type": "text", "text": "[Old image content cleared]"}


def call(call_id, tool="screen"):
    return {"role": "assistant", "content": [{"type": "toolCall", "id": call_id, "name": tool, "arguments": {"n": call_id}}]}


class BytesCase(BlobCase):
    config = {"context": {"viewBytes": 400_000}}

    def append(self, key, *entries, api=None):
        return self.ok((api or self.api).post(S(key, "main", "messages"), {"entries": list(entries)}), 201)

    def ask(self, key, query="", api=None, view="llm"):
        return (api or self.api).get(S(key, "main", "messages") + f"?view={view}" + query)

    def view(self, key, query="", api=None):
        return self.ok(self.ask(key, query, api), 200)

    def context(self, key):
        return self.ok(self.api.get(S(key, "main", "context")), 200)

    def too_large(self, reply):
        self.problem(reply, 422, "view_too_large")
        self.assertGreater(reply.json["bytes"], reply.json["maxBytes"])
        return reply.json

    def photos(self, *sizes, **more):
        key = self.new(**more)["key"]
        for size in sizes:
            self.append(key, {"role": "user", "content": [{"type": "text", "text": "look"}, image(media(size))]},
                        {"role": "assistant", "text": "a photo"})
        return key


class Bytes(BytesCase):
    def test_the_oldest_images_go_first_in_every_form_of_media(self):
        key = self.photos(150_000, 150_000, 90_000)
        self.append(key, {"role": "user", "text": "and now?"})
        before = self.context(key)
        shown = {form: self.view(key, "&media=" + form) for form in ("handle", "inline", "url")}
        for form, view in shown.items():
            kinds = [[part["type"] for part in row["content"]] for row in view["data"] if row["role"] == "user" and row["content"] != "and now?"]
            self.assertEqual(kinds[:3], [["text", "text"], ["text", "image"], ["text", "image"]], form)
            self.assertEqual(view["data"][0]["content"][1], CLEARED)
            self.assertEqual(view["pruned"], [{"entryId": view["data"][0]["entryIds"][0], "media": "image", "bytes": view["pruned"][0]["bytes"],
                                               "how": "bytes"}])
            self.assertGreater(view["pruned"][0]["bytes"], 200_000)
            self.assertEqual(view["context"]["used"], before["used"] - 2000 + 7)
        self.assertGreater(len(json.dumps(shown["inline"]["data"])), 320_000)
        self.assertEqual(self.context(key), before)
        self.assertEqual(self.view(key, "&maxBytes=600000")["pruned"], [])
        self.assertEqual(len(self.view(key, "&maxBytes=200000")["pruned"]), 2)
        stored = self.content(key)[0]
        self.assertEqual(stored[1]["type"], "image", "the transcript keeps it")

    def test_without_pruning_it_is_refused_at_once(self):
        key = self.photos(150_000, 150_000, 90_000)
        problem = self.too_large(self.ask(key, "&prune=off"))
        self.assertIn("prune=off", problem["detail"])
        self.assertEqual(problem["maxBytes"], 400_000)
        self.assertEqual(len(self.view(key, "&prune=off&maxBytes=10000000")["pruned"]), 0)
        for prune in ("auto", "soft", "hard", "aggressive"):
            self.view(key, "&prune=" + prune)

    def test_the_last_turn_stays_whole_or_the_view_is_refused(self):
        key = self.photos(90_000)
        work = [{"role": "user", "text": "go"}]
        for n in range(4):
            work += [call(f"c{n}"), {"role": "toolResult", "toolCallId": f"c{n}", "toolName": "screen", "content": [image(media(90_000))]}]
        self.append(key, *work)
        problem = self.too_large(self.ask(key))
        self.assertIn("prune=aggressive", problem["detail"])
        view = self.view(key, "&prune=aggressive")
        self.assertEqual([one["how"] for one in view["pruned"]], ["hard"] * 4)
        self.assertEqual([row["content"] for row in view["data"] if row["role"] == "toolResult"][:3], [[CLEARED]] * 3)
        self.append(key, {"role": "assistant", "text": "done"}, {"role": "user", "text": "thanks"})
        self.assertEqual([one["how"] for one in self.view(key)["pruned"]], ["bytes"] * 2)

    def test_results_go_when_no_image_is_left(self):
        key = self.new()["key"]
        for n, tool in enumerate(("skill_a", "read", "read")):
            self.append(key, {"role": "user", "text": "go"}, call(f"c{n}", tool),
                        {"role": "toolResult", "toolCallId": f"c{n}", "toolName": tool, "content": "x" * 40_000}, {"role": "assistant", "text": "ok"})
        self.append(key, {"role": "user", "text": "and now?"})
        view = self.view(key, "&maxBytes=90000")
        self.assertEqual([(one["tool"], one["from"], one["how"]) for one in view["pruned"]], [("read", 40_000, "bytes")])
        self.assertEqual(len(self.view(key, "&maxBytes=50000")["pruned"]), 2)
        self.too_large(self.ask(key, "&maxBytes=30000"))

    def test_what_a_run_was_asked_stays_though_words_came_meanwhile(self):
        key = self.new()["key"]
        photo = {"role": "user", "content": [{"type": "text", "text": "make it look like this"}, image(media(90_000))]}
        run = self.ok(self.api.post(S(key, "main", "runs"), {"input": photo}), 201)
        self.append(key, call("c1"), {"role": "toolResult", "toolCallId": "c1", "toolName": "screen", "content": [image(media(90_000))]})
        for query in ("&maxBytes=140000&run=" + run["runId"], "&maxBytes=140000"):
            self.too_large(self.ask(key, query))
        self.append(key, {"role": "assistant", "text": "step"}, {"role": "user", "text": "aside"})
        view = self.view(key, "&maxBytes=140000")
        self.assertEqual([one["entryId"] for one in view["pruned"]], [view["data"][2]["entryIds"][0]])

    def test_a_summary_is_made_of_what_can_be_sent(self):
        key = self.new(contextTokens=20_000)["key"]
        for n in range(8):
            self.append(key, {"role": "user", "content": [{"type": "text", "text": f"look {n}"}, image(media(90_000))]},
                        {"role": "assistant", "text": "a photo", "usage": {"input": 17_000, "output": 1}})
        plan = self.ok(self.api.post(S(key, "main", "compact"), {}), 200)["plan"]
        rows = self.ok(self.api.get(plan["summarize"]["url"] + "&maxBytes=130000"), 200)["data"]
        kinds = [row["content"][1]["type"] for row in rows if row["role"] == "user"]
        self.assertEqual((kinds[-1], set(kinds[:-1])), ("image", {"text"}))

    def test_bad_values(self):
        key = self.new()["key"]
        for value in ("0", "-1", "x", "1.5", "9999999999999"):
            self.problem(self.ask(key, "&maxBytes=" + value), 400, "bad_request")
        self.problem(self.api.get(S(key, "main", "messages") + "?maxBytes=5"), 400, "bad_request")



class Long(BytesCase):
    def test_a_transcript_that_is_too_long_to_read_has_the_same_code(self):
        key = self.new()["key"]
        for n in range(9):
            self.append(key, {"role": "user", "text": f"{n}" + "x" * 7_900_000}, {"role": "assistant", "text": "ok"})
        self.problem(self.ask(key), 422, "view_too_large")
        self.view(key, "&maxMessages=1&maxBytes=9000000")


class Memory(Bytes):
    """Media of an ephemeral session are no blobs."""

    def new(self, key=None, **entry):
        key = key or f"agent:main:slack:channel:{uid()}"
        return self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True, "entry": entry}), 201)

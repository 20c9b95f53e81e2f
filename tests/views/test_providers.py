"""view=llm becomes bodies of four providers that fit the types of their npm packages and the rules of their APIs."""

from views import Views, tell


class Providers(Views):
    def test_bodies_of_four_providers(self):
        views = [{"number": story.number, "view": self.view(story)} for story in self.stories]
        views = [one for one in views if one["view"]["data"]]
        result = self.node("check.mjs", given=views)
        tell(transcripts=len(views), bodies=result["bodies"], **result["kinds"], wrong=len(result["wrong"]),
             faults=result["faults"], unseen=len(result["unseen"]))
        self.assertNothing(result["wrong"])
        self.assertNothing(result["unseen"])
        self.assertGreater(result["faults"], len(views) / 10 * 4 * 4)

    def test_an_answer_of_openai_is_taken_as_it_comes(self):
        key = self.new()["key"]
        call = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        answer = {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [call]}
        for entry in (answer, {"type": "message", "message": answer}):
            with self.subTest(entry=entry):
                self.ok(self.api.post(f"/v1/agents/main/sessions/{key}/messages", {"entries": [entry]}), 201)

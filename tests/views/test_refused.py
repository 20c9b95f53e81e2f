"""Whatever lies in a transcript, and wherever its messages go, a model can be asked with what is shown."""

import json

from harness.case import S, uid
from refused import refused
from views import Views, tell

IMPORTED = ("json", "robota", "manager", "jsonl")


class Refused(Views):
    count = 150
    seed = 7
    odd = 0.3

    def look(self, api, key, query="", of_run=False):
        reply = api.get(S(key, "main", "messages") + "?view=llm" + query)
        return refused(self.ok(reply, 200), of_run)

    def runs(self, story):
        """A run with a question, and one without: it goes on."""
        wrong = []
        for body in ({"input": {"role": "user", "text": "and now?"}}, {}):
            reply = self.api.post(S(story.key, "main", "runs"), body)
            run = self.ok(reply, 201)
            shown = self.look(self.api, story.key, f"&run={run['runId']}", bool(body) or self.has_words(story))
            wrong += [f"of a run: {fault}" for fault in shown]
            finish = {"fence": run["lease"]["fence"], "status": "done", "entries": [{"role": "assistant", "text": "done"}]}
            self.ok(self.api.post(S(story.key, "main", "runs", run["runId"], "finish"), finish), 200)
        return wrong

    def has_words(self, story):
        return bool(self.view(story)["data"])

    def fork(self, story):
        entries = self.ok(self.api.get(S(story.key, "main", "messages") + "?limit=200&order=asc&types=message"), 200)["data"]
        body = {"key": "agent:main:copy:" + uid()}
        if entries and story.number % 2:
            body["messageId"] = entries[story.number % len(entries)]["id"]
        reply = self.api.post(S(story.key, "main", "fork"), body)
        if reply.status == 404 and "messageId" in body:  # it is not on the path
            return []
        self.ok(reply, 201)
        return [f"a fork: {fault}" for fault in self.look(self.api, body["key"])]

    def carried(self, story, elsewhere):
        """Imports of what is exported."""
        wrong = []
        for format, api in elsewhere.items():
            document = self.api.get(S(story.key, "main", "export") + "?format=" + format)
            self.assertEqual(document.status, 200, document)
            done = self.ok(api.post(f"/v1/agents/main/import?format={format}", document.raw), 200)
            for session in done["ids"]:
                wrong += [f"{format}: {fault}" for fault in self.look(api, session)]
            if not done["ids"]:
                wrong.append(f"{format}: {json.dumps(done)[:300]}")
        return wrong

    def test_a_model_takes_every_view(self):
        elsewhere = {format: self.spawn().client() for format in IMPORTED}
        wrong, forks, imports = [], 0, 0
        for story in self.stories:
            faults = self.look(self.api, story.key)
            if not story.ephemeral:
                faults += self.fork(story) + self.carried(story, elsewhere)
                forks, imports = forks + 1, imports + len(IMPORTED)
            faults += self.runs(story)
            wrong += [f"{story.number} ({story.spelling}): {fault}" for fault in faults]
        tell(transcripts=len(self.stories), forks=forks, imports=imports, wrong=len(wrong))
        self.assertNothing(wrong)


class Validator(Views):
    """It finds each of these faults."""

    count = 1

    def test_it_sees_each_fault(self):
        call = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {}}
        result = {"role": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": "done"}]}
        said, asked = {"role": "assistant", "content": [call]}, {"role": "user", "content": "hi"}
        good = [asked, said, result]
        self.assertEqual(refused({"data": good}, of_run=True), [])
        self.assertEqual(refused({"data": [*good, {"role": "assistant", "content": "hello"}]}), [])
        openai = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]}
        self.assertEqual(refused({"data": [asked, openai, {"role": "tool", "tool_call_id": "c1", "content": "x"}]}, of_run=True), [])
        bad = {"blank text": [{"role": "user", "content": " \n"}], "blank content": [{"role": "user", "content": []}],
               "without content": [{"role": "assistant"}], "a blank part": [{"role": "user", "content": [{"type": "text", "text": ""}]}],
               "a part without text": [{"role": "user", "content": [{"type": "input_text"}]}],
               "thinking alone": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}],
               "no result": [asked, said], "no call": [asked, result], "two results": [*good, result],
               "a word between": [asked, said, asked, result], "ids that are equal": [*good, said, result],
               "an empty id": [{"role": "assistant", "content": [{**call, "id": ""}]}, {**result, "toolCallId": ""}],
               "an id that is not taken": [{"role": "assistant", "content": [{**call, "id": "a:0"}]}, {**result, "toolCallId": "a:0"}],
               "a long id": [{"role": "assistant", "content": [{**call, "id": "c" * 65}]}, {**result, "toolCallId": "c" * 65}],
               "a blank result": [asked, said, {**result, "content": ""}], "half a pair": [{"role": "user", "content": "\ud83d"}]}
        self.assertEqual([name for name, rows in bad.items() if not refused({"data": rows})], [])
        self.assertEqual([rows for rows in ([], [{"role": "assistant", "content": "hello"}]) if not refused({"data": rows}, of_run=True)], [])
        self.assertTrue(refused({"system": [{"role": "system", "content": ""}], "data": good}))

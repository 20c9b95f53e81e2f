"""What holds for each view of any transcript."""

import hashlib
import json
import random

from harness.case import S
from refused import bytes_of, refused
from spelling import estimate, last_question, status_of, turn_starts, unmatched
from views import Views, tell


class Properties(Views):
    count = 1000
    seed = 2
    OFF = "&prune=off"
    QUERIES = ("", "&prune=soft&window=2000", "&prune=hard&window=2000", "&prune=aggressive&window=8000",
               "&window=3000&maxToolChars=10", "&style=assistant", "&window=3000&maxMessages=5", "&prune=hard&maxMessages=4", "&prune=aggressive&maxMessages=4")

    def test_each_view_of_each_transcript(self):
        wrong, views, rows, pruned, repaired = [], 0, 0, 0, 0
        for story in self.stories:
            self.rng = random.Random(story.number)
            before = None if story.ephemeral else self.sum_of(story)
            ids = {entry["id"] for entry in self.entries(story)}
            for query in (self.OFF, *self.rng.sample(self.QUERIES, 2)):
                shown, faults = self.checked(story, query, ids)
                if query == self.OFF:
                    states = {tuple(row["entryIds"]): status_of(row) for row in shown["data"]}
                    faults += self.trimmed(story, shown) + self.limited(story, shown) + self.measured(story, shown) + self.exported(story, shown)
                faults += [f"status {row.get('status')} of {row['entryIds']}" for row in shown["data"]
                           if row.get("status") != states[tuple(row["entryIds"])]]
                views, rows, pruned, repaired = (views + 1, rows + len(shown["data"]), pruned + len(shown["pruned"]),
                                                 repaired + len(shown["repaired"]))
                wrong += [f"{story.number} ({story.spelling}) {query}: {fault}" for fault in faults]
            if before and before != self.sum_of(story):
                wrong.append(f"{story.number}: the transcript's bytes changed")
        tell(transcripts=len(self.stories), views=views, rows=rows, pruned=pruned, repaired=repaired, wrong=len(wrong))
        self.assertNothing(wrong)
        if len(self.stories) >= 100:
            self.assertGreater(min(pruned, repaired), 0)

    def checked(self, story, query, ids):
        path = S(story.key, "main", "messages") + "?view=llm" + query
        first = self.api.get(path)
        shown = self.ok(first, 200)
        wrong = refused(shown)
        if query != self.OFF and self.api.get(path).raw != first.raw:
            wrong.append("asked twice, other bytes")
        named = [one for row in shown["system"] + shown["data"] for one in row["entryIds"]]
        named += [one["entryId"] for one in shown["pruned"]]
        wrong += [f"entry {one} is not there" for one in named if one not in ids]
        if query == self.OFF and shown["context"]["source"] == "estimate":
            sum_of_rows = sum(map(estimate, shown["system"] + shown["data"]))
            if shown["context"]["used"] != sum_of_rows:
                wrong.append(f"used {shown['context']['used']}, the rows have {sum_of_rows}")
        return shown, wrong

    def trimmed(self, story, shown):
        """maxMessages leaves the longest end that is made of whole turns, and at least the last turn."""
        whole = [row for row in shown["data"] if not row.get("summary")]
        starts, wrong = sorted({0, *turn_starts(whole)}), []
        for most in {1, self.rng.randint(1, len(whole) + 1)}:
            rows = [row for row in self.view(story, f"{self.OFF}&maxMessages={most}")["data"] if not row.get("summary")]
            begin = next((at for at in starts if len(whole) - at <= most), starts[-1])
            if rows != whole[begin:]:
                wrong.append(f"maxMessages={most}: {len(rows)} rows of {len(whole)}, "
                             f"whole turns are {len(whole) - begin}")
            wrong += [f"maxMessages={most}: {fault}" for fault in unmatched(rows)]
        return wrong

    def limited(self, story, shown):
        """maxBytes takes images and results before the last turn, and nothing else; what is too long then is refused."""
        most = self.rng.randint(1, bytes_of(shown) + 1_000)
        reply = self.api.get(S(story.key, "main", "messages") + f"?view=llm&window=1000000000&maxBytes={most}")
        if reply.status == 422:
            ok = reply.json["code"] == "view_too_large" and reply.json["bytes"] > reply.json["maxBytes"] == most
            return [] if ok else [f"maxBytes={most}: {reply}"]
        view = self.ok(reply, 200)
        wrong = refused(view) + [f"{one}" for one in view["pruned"] if one["how"] != "bytes"]
        if bytes_of(view) > most:
            wrong.append(f"{bytes_of(view)} bytes")
        begin = last_question(shown["data"])
        if [row["entryIds"] for row in view["data"]] != [row["entryIds"] for row in shown["data"]] or view["data"][begin:] != shown["data"][begin:]:
            wrong.append("other rows")
        return [f"maxBytes={most}: {fault}" for fault in wrong]

    def measured(self, story, shown):
        """S/context tells what the view is made of."""
        told = self.ok(self.api.get(S(story.key, "main", "context")), 200)
        if told["used"] == shown["context"]["used"]:
            return []
        return [f"S/context says {told['used']} used, the view {shown['context']['used']}"]

    def exported(self, story, shown):
        """What another program goes on with is the same conversation, whole."""
        reply = self.api.get(S(story.key, "main", "export") + "?format=conversation")
        self.assertEqual(reply.status, 200, reply)
        header, *entries, end = [json.loads(line) for line in reply.raw.decode().splitlines()]
        wrong = [] if end.get("customType") == "sessiond.end" and header["type"] == "session" else ["it broke off"]
        if [entry["parentId"] for entry in entries] != [None, *(entry["id"] for entry in entries)][:len(entries)]:
            wrong.append("its entries are no chain")
        told = [entry["message"] for entry in entries if entry["type"] == "message"]
        # Half of a summary, where somebody went back to before the other half, is kept, and shown to no model.
        told = [message for message in told if message.get("role") in ("user", "assistant", "tool", "toolResult") and not message.get("summary")]
        wrong += unmatched(told)
        if any(row.get("summary") for row in shown["data"]) or any(entry["type"] in ("custom_message", "branch_summary") for entry in entries):
            return [f"conversation: {fault}" for fault in wrong]
        rows = [{name: value for name, value in row.items() if name not in ("entryIds", "status")} for row in shown["data"]]
        told = [{name: value for name, value in message.items() if name != "status"} for message in told]
        if rows != told:
            at = next((at for at, (row, message) in enumerate(zip(rows, told)) if row != message), min(len(rows), len(told)))
            wrong.append(f"{len(told)} messages, the view has {len(rows)}; the first that differs is {at}")
        return [f"conversation: {fault}" for fault in wrong]

    def entries(self, story):
        entries, after = [], ""
        while True:
            page = self.ok(self.api.get(S(story.key, "main", "messages") + f"?limit=200&order=asc{after}"), 200)
            entries += page["data"]
            if not page["page"]["hasMore"]:
                return entries
            after = f"&after={entries[-1]['seq']}"

    def sum_of(self, story):
        return hashlib.sha256(self.file_of(story).read_bytes()).hexdigest()


class Odd(Properties):
    """The same of transcripts that no provider takes as they are."""

    count = 300
    seed = 6
    odd = 0.3

"""The same view after a kill, from memory as from files, and after a repair."""

import copy
from collections import Counter

from harness.case import S
from planted import append
from spelling import unmatched
from views import Views, tell


def shown(view):
    """What a view shows, without the ids of entries, which the daemon makes."""
    rows = [{**row, "entryIds": len(row["entryIds"])} for row in view["system"] + view["data"]]
    repaired = [{name: value for name, value in one.items() if name != "entryId"} for one in view["repaired"]]
    return rows, view["context"]["used"], repaired, [{**one, "entryId": None} for one in view["pruned"]]


class Lives(Views):
    seed = 4
    count = 100
    QUERY = "&window=4000"

    def told(self, story, *without):
        context = self.ok(self.api.get(S(story.key, "main", "context")), 200)
        return {name: value for name, value in context.items() if name not in ("asOf", *without)}

    def test_after_a_kill_it_is_the_same(self):
        stories = [story for story in self.stories if not story.ephemeral]
        before = [(self.view(story, self.QUERY), self.told(story)) for story in stories]
        self.daemon.restart(kill=True)
        wrong = []
        for story, (view, told) in zip(stories, before):
            after = self.view(story, self.QUERY)
            wrong += [f"{story.number} ({story.spelling}): {name}"
                      for name in ("system", "data", "context", "pruned", "repaired") if after[name] != view[name]]
            if self.told(story) != told:
                wrong.append(f"{story.number} ({story.spelling}): S/context was {told}, is {self.told(story)}")
        tell(kills=1, transcripts=len(stories), wrong=len(wrong))
        self.assertNothing(wrong)

    def test_a_session_in_memory_shows_the_same(self):
        wrong, made = [], 0
        for story in self.stories:
            if story.file:
                continue
            twins = [copy.copy(story), copy.copy(story)]
            for twin, ephemeral in zip(twins, (False, True)):
                twin.key, twin.ephemeral = f"{story.key}twin{int(ephemeral)}", ephemeral
                append(self, self.api, twin, seed=story.key)
            made += 1
            durable, memory = ([shown(self.view(twin, query)) for query in (self.QUERY, "&maxMessages=6")]
                               for twin in twins)
            if durable != memory:
                wrong.append(f"{story.number} ({story.spelling})")
            contexts = [self.told(twin, "sessionId", "durable", "checkpoint") for twin in twins]
            if contexts[0] != contexts[1]:
                wrong.append(f"{story.number} ({story.spelling}): {contexts}")
        tell(pairs=made, wrong=len(wrong))
        self.assertNothing(wrong)
        self.assertGreater(made, len(self.stories) / 20)

    def test_repair_appends_what_the_view_completes(self):
        wrong, added = [], 0
        for story in self.stories:
            if story.ephemeral:
                continue
            key = story.key
            missing = Counter(one["callId"] for one in self.view(story)["repaired"] if one["why"] == "missing_result")
            planned = self.ok(self.api.post(S(key, "main", "repair"), {"dryRun": True}), 200)["added"]
            done = self.ok(self.api.post(S(key, "main", "repair"), {}), 200)["added"]
            if [one["callId"] for one in planned] != [one["callId"] for one in done]:
                wrong.append(f"{story.number} ({story.spelling}): planned {planned}, added {done}")
            added += len(done)
            again = self.ok(self.api.post(S(key, "main", "repair"), {}), 200)["added"]
            view = self.view(story)
            left = Counter(one["callId"] for one in view["repaired"] if one["why"] == "missing_result")
            if again or left != missing - Counter(one["callId"] for one in done):
                wrong.append(f"{story.number} ({story.spelling}): {dict(missing)} missing, added {done}, "
                             f"{dict(left)} left, then {again}")
            wrong += [f"{story.number} ({story.spelling}): {fault}" for fault in unmatched(view["data"])]
        tell(transcripts=len(self.stories), added=added, wrong=len(wrong))
        self.assertNothing(wrong)

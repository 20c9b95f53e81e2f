"""Lives of sessions with runs: people write at any time, runners and the daemon die, and each question is answered once, in turn."""

import random
from collections import Counter

from harness.case import Case, S, text_of, uid
from harness.sessiond import eventually
from refused import refused
from views import number, tell


class Life:
    """One session, its people and its runner. The words of people are q0, q1, …; a run answers `a <words>`."""

    def __init__(self, case, api, rng):
        self.case, self.api, self.rng = case, api, rng
        self.peer = "p" + uid()
        self.key = f"agent:main:chat:direct:{self.peer}"
        self.said, self.held, self.calls = 0, None, 0
        self.mortal = rng.random() < 0.5  # its runners die: their leases are short
        self.seen = {}   # what the last attempt of a run was shown, by the id of its first attempt
        self.first = {}  # the first attempt, by run id
        self.wrong = []
        self.write()
        mode = rng.choice(("collect", "followup", "steer", "steer-backlog", "interrupt"))
        case.ok(api.patch(S(self.key), {"queueMode": mode, "queueDebounceMs": 0, "queueCap": 1000}), 200)

    def write(self):
        body = {"channel": "chat", "chatType": "direct", "peer": self.peer, "text": f"q{self.said}", "messageId": f"m{self.said}"}
        self.case.ok(self.api.post("/v1/inbound", body), 201)
        self.said += 1

    def aside(self):
        """A word that nobody is to answer."""
        self.case.ok(self.api.post(S(self.key, "main", "messages"), {"role": "user", "text": "aside"}), 201)

    def claim(self, wait=0):
        reply = self.api.post("/v1/agents/main/runs/claim", {"keyPrefix": self.key, "waitMs": wait, "leaseMs": 400 if self.mortal else 600_000})
        self.case.ok(reply, 200, 204)
        if reply.status == 204:
            return
        self.held, self.calls = reply.json, 0
        self.first[self.held["runId"]] = self.first.get(self.held.get("retryOf"), self.held["runId"])
        began, shown = self.held["context"]["used"], self.look()["context"]["used"]
        if began != shown:
            self.wrong.append(f"a run begins with {began} tokens, its view has {shown}")

    def of_run(self):
        return self.case.ok(self.api.get(S(self.key, "main", "messages") + f"?view=llm&prune=off&run={self.held['runId']}"), 200)

    def look(self):
        view = self.of_run()
        self.wrong += refused(view, of_run=True)
        shown = [(row["entryIds"], text_of(row)) for row in view["data"] if row["entryIds"]]
        run = self.first[self.held["runId"]]
        before = self.seen.get(run, [])
        if shown[:len(before)] != before:
            self.wrong.append(f"another attempt of {run} was shown {shown}, the one before {before}")
        self.seen[run] = shown
        return view

    def post(self, path, body, status):
        """What a runner posts under its lease; nothing when that is over."""
        run = self.held
        if run is None:
            return {}
        headers = {"X-Run": f"{run['runId']};{run['lease']['fence']}"} if path == "messages" else {}
        reply = self.api.post(S(self.key, "main", path), body, headers=headers)
        if reply.status == 409 and reply.json["code"] == "lease_lost":
            self.held = None
            return {}
        return self.case.ok(reply, status)

    def tell(self, **body):
        self.calls += 1
        return self.post(f"runs/{self.held['runId']}/events", {"fence": self.held["lease"]["fence"], "n": self.calls, "events": [], **body}, 200)

    def work(self):
        """A step: a call and its result, with words of people between them now and then."""
        name = f"c{self.rng.randrange(3)}"
        call = {"role": "assistant", "content": [{"type": "toolCall", "id": name, "name": "ls", "arguments": {}}], "usage": {"input": self.rng.randrange(50, 5_000)}}
        self.post("messages", call, 201)
        if self.rng.random() < 0.3:
            self.write()
        result = {"role": "toolResult", "toolCallId": name, "content": [{"type": "text", "text": "a\nb"}]}
        self.post("messages", result, 201)

    def steer(self):
        if heard := self.tell().get("steer"):
            self.tell(steered=[one["entryId"] for one in heard[:self.rng.randrange(1, len(heard) + 1)]])
            if self.held:
                self.look()

    def finish(self):
        view = self.of_run()
        asked = [text_of(row) for row in view["data"]][-1]
        body = {"fence": self.held["lease"]["fence"], "status": self.rng.choice(("done", "done", "failed")),
                "entries": [{"role": "assistant", "text": f"a {asked}", "usage": {"input": self.rng.randrange(50, 5_000)}}]}
        if self.rng.random() < 0.3 and (heard := self.tell().get("steer")):
            body["steered"] = [one["entryId"] for one in heard]
        if self.held:
            self.post(f"runs/{self.held['runId']}/finish", body, 200)
        self.held = None

    def die(self):
        """The runner is gone, and its lease ends: another attempt waits, or none."""
        run, self.held = self.held, None
        path = S(self.key, "main", "runs", run["runId"])
        eventually(lambda: self.case.ok(self.api.get(path), 200)["status"] not in ("running", "aborting") or None, timeout=30)

    def step(self):
        if self.held is None:
            self.rng.choice((self.write, self.claim, self.claim, self.aside))()
        else:
            self.rng.choice((self.write, self.aside, self.work, self.steer, self.finish, self.finish, self.die if self.mortal else self.work))()
        self.check()

    def check(self):
        """The window is as full as the view says, at any time."""
        view = self.case.ok(self.api.get(S(self.key, "main", "messages") + "?view=llm&prune=off"), 200)
        told = self.case.ok(self.api.get(S(self.key, "main", "context")), 200)
        for name in ("used", "messages", "turns", "source", "due"):
            if told[name] != view["context"][name]:
                self.wrong.append(f"S/context says {name} {told[name]}, the view {view['context'][name]}")
        texts = [text_of(row) for row in view["data"]]
        words = [text for text in texts if text[:1] == "q"]
        if Counter(words).most_common(1)[0][1] > 1 or len(words) != self.said:
            self.wrong.append(f"{self.said} words were said, {words} are shown")

    def entries(self):
        entries, more, after = [], True, -1
        while more:
            page = self.case.ok(self.api.get(S(self.key, "main", "messages") + f"?limit=200&order=asc&after={after}"), 200)
            entries, more, after = entries + page["data"], page["page"]["hasMore"], page["page"]["nextAfter"]
        return entries

    def end(self):
        """All that waits is answered. Then each word was handed over, and answered by one run that ended, in turn."""
        while self.held or self.case.ok(self.api.get(S(self.key, "main", "runs") + "?status=queued"), 200)["data"]:
            if self.held is None:
                self.claim(wait=5_000)
            if self.held:
                self.finish()
        entries = self.entries()
        ended = {m["data"]["runId"]: m["data"] for m in entries if m.get("customType") == "sessiond.run"}
        handed = {}
        for entry in entries:
            if entry.get("customType") == "sessiond.input":
                run = self.first[entry["data"]["runId"]]
                for word in entry["data"]["entries"]:
                    if handed.setdefault(word, run) != run:
                        self.wrong.append(f"{word} was handed to two runs")
        for entry in entries:
            if entry.get("role") == "user" and "platformMessageId" in entry and entry["id"] not in handed:
                self.wrong.append(f"{text_of(entry)} was never asked")
        last = {self.first[run]: data["status"] for run, data in ended.items() if run in self.first}
        self.wrong += [f"the run {run} ended {status}" for run, status in last.items() if status not in ("done", "failed", "interrupted")]
        self.check()
        return len(handed)


class Lives(Case):
    config = {"runs": {"onInbound": True, "maxSteps": 0, "turnCap": "unlimited"}}

    def test_each_question_is_answered_once_and_in_turn(self):
        wrong, words, kills = [], 0, 0
        for n in range(number("COUNT", 20)):
            rng = random.Random(f"{number('SEED', 5)} {n}")
            life = Life(self, self.api, rng)
            for _ in range(rng.randrange(5, 40)):
                life.step()
                if rng.random() < 0.01:
                    self.daemon.restart(kill=True)
                    type(self).api = life.api = self.api = self.daemon.client()
                    kills += 1
            words += life.end()
            wrong += [f"{n}: {fault}" for fault in life.wrong]
        tell(lives=number("COUNT", 20), words=words, kills=kills, wrong=len(wrong))
        self.assertNothing(wrong)

    def assertNothing(self, wrong):
        self.assertFalse(wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:20]))

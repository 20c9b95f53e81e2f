"""What is asked after every cell."""

import json
from collections import Counter

from harness.case import S

ENDED = ("done", "failed", "interrupted", "aborted", "dropped", "expired", "lost")


def texts_of(api, path, query):
    reply = api.get(f"{path}?view=raw&limit=200&order=asc{query}")
    return [] if reply.status == 404 else [json.dumps(entry) for entry in reply.json["data"]]


def here(api, key):
    """All texts of a session and of its topics: pairs of topic and text. None: there is no such session."""
    if api.get(S(key)).status == 404:
        return None
    found = [("", text) for text in texts_of(api, S(key, "main", "messages"), "")]
    topics = api.get(S(key, "main", "topics"))
    for topic in topics.json["data"] if topics.status == 200 else []:
        found += [(topic["topic"], text) for text in texts_of(api, S(key, "main", "messages"), "&topic=" + topic["topic"])]
    return found


def kept(api, key):
    """The same of its archives."""
    found = []
    reply = api.get(S(key, "main", "archives") + "?limit=200")
    for record in reply.json["data"] if reply.status == 200 else []:
        for name in record["archivedAs"]:
            found += [(record["topic"] or "", text) for text in texts_of(api, S(key, "main", "messages"), "&archive=" + name)]
    return found


def count(words, found):
    return Counter({word: sum(word in text for _, text in found or []) for word in words})


class Judge:
    def __init__(self, check, state, scene, operation):
        self.check, self.state, self.scene, self.operation = check, state, scene, operation
        self.api = scene.api
        self.passed_by = state in operation.stays or (state in operation.refused and state not in operation.texts_of)
        self.goes_on = self.passed_by or operation.runs == "go on"

    def all(self):
        self.texts()
        self.plans()
        self.approvals()
        self.runs()
        self.deliveries()
        self.others()

    def place(self, topic):
        if self.passed_by:
            return "here"
        if topic in self.operation.topics:
            return self.operation.topics[topic]
        return self.operation.texts_of.get(self.state, self.operation.texts)

    def texts(self):
        scene = self.scene
        live, old = here(self.api, scene.key), kept(self.api, scene.key)
        if live is not None and (now := self.api.get(S(scene.key)).json["sessionId"]) != scene.id:
            past = [one["sessionId"] for one in self.api.get(S(scene.key, "main", "history")).json["data"]]
            self.check.assertEqual((past[0], past.count(scene.id)), (now, 1), "the history names what was before")
        copy = here(self.api, scene.copy) if scene.copy else []
        words = [*scene.said, scene.partial] if scene.partial else list(scene.said)
        in_live, in_old, in_copy, in_files = count(words, live), count(words, old), count(words, copy), self.files(words)
        for word in words:
            topic = scene.said.get(word, "")
            place = self.place(topic)
            found = (in_live[word], in_old[word], in_copy[word])
            wanted = {"here": (1, 0, 0), "kept": (0, 1, 0), "gone": (0, 0, 0), "file": (0, 0, 0), "again": (1, 1, 0), "both": (1, 0, 0 if topic else 1)}[place]
            if word == scene.since and not self.passed_by or word == scene.partial and place == "again":
                wanted = (0, 1, 0)  # it is not in the document
            about = f"{word} of topic {topic!r} (here, kept, in the copy); here {live}, kept {old}, copy {copy}"
            if word == scene.partial and self.goes_on:  # it may not be stored yet
                self.check.assertLessEqual(found, wanted, about)
                continue
            self.check.assertEqual(found, wanted, about)
            if place in ("file", "gone"):
                self.check.assertEqual(in_files[word], 1 if place == "file" else 0, f"files that hold {word}")
        for child in scene.children:
            for word in child.said:
                total = count([word], here(self.api, child.key))[word] + count([word], kept(self.api, child.key))[word]
                self.check.assertIn(total, (0, 1) if self.operation.texts == "gone" else (1,), f"{word} of the child, which goes by itself")

    def files(self, words):
        """How many files of the agent's folder hold each word."""
        self.scene.daemon.checkpoint()
        texts = [path.read_bytes() for path in self.scene.daemon.agent_dir().iterdir() if path.is_file()]
        return Counter({word: sum(word.encode() in text for text in texts) for word in words})

    def plans(self):
        """A summary that was planned before is taken or refused; no word goes for it."""
        if (plan := self.scene.plan) is None:
            return
        found = count(self.scene.said, here(self.api, self.scene.key))
        told = self.api.post(self.scene.path("compact"), {"summary": "sum", "firstKeptEntryId": plan["firstKeptEntryId"]})
        self.check.assertIn(told.status, (201, 404, 409, 422), told)
        if self.place("") in ("here", "both"):
            self.check.assertTrue(told.status == 201 or told.json["code"] == "session_archived", told)
        elif self.place("") != "again":
            self.check.assertNotEqual(told.status, 201, f"a summary of another conversation: {told}")
        self.check.assertEqual(count(self.scene.said, here(self.api, self.scene.key)), found)

    def approvals(self):
        """What a person is asked is open while its run goes on, and no longer."""
        if (approval := self.scene.approval) is None:
            return
        open_ones = [one["id"] for one in self.check.ok(self.api.get("/v1/approvals"), 200)["data"]]
        self.check.assertEqual(approval["id"] in open_ones, self.goes_on, open_ones)
        answered = self.check.person.post(self.scene.path("approvals", approval["id"]), {"decision": "allow"})
        decided = answered.json["decision"] if answered.status == 200 else "none"
        self.check.assertEqual(decided == "allow", self.goes_on, answered)

    def runs(self):
        """Ended, or going on and able to end; an ended one's answer comes nowhere."""
        scene = self.scene
        if scene.run:
            run = self.api.get(scene.path("runs", scene.run["runId"]))
            answer = f"late-answer-{scene.key}"
            done = scene.finish({"role": "assistant", "text": answer})
            found = count([answer], (here(self.api, scene.key) or []) + kept(self.api, scene.key))[answer]
            if self.goes_on:
                self.check.assertEqual(done.status, 200, f"the run {run} goes on: {done}")
                self.check.assertEqual(found, 1, "its answer")
            else:
                self.check.assertNotEqual(done.status, 200, f"the run {run} has ended: {done}")
                self.check.assertEqual(found, 0, "the answer of a run that has ended")
        for run_id in scene.waiting:
            claimed = self.api.post("/v1/agents/main/runs/claim", {"keyPrefix": scene.key})
            if self.goes_on:
                self.check.assertEqual(claimed.status, 200, claimed)
                self.check.assertEqual(claimed.json["runId"], run_id)
                scene.run = claimed.json
                self.check.assertEqual(scene.finish({"role": "assistant", "text": "x"}).status, 200)
            else:
                self.check.assertEqual(claimed.status, 204, f"a run that waited has ended: {claimed}")

    def deliveries(self):
        if not (delivery := self.scene.delivery):
            return
        acked = self.api.post(f"/v1/deliveries/{delivery['deliveryId']}/ack", {"platformMessageId": "p1"})
        self.check.assertEqual(acked.status, 200, f"what a bridge has sent it can say: {acked}")

    def others(self):
        """A token of another scope, of another channel and of another agent sees no word."""
        for token in self.check.strangers:
            for path in ("/v1/sessions?limit=200", "/v1/agents/main/sessions?limit=200", "/v1/agents/main/archives?limit=200", self.scene.path(),
                         self.scene.path("messages"), self.scene.path("archives"), self.scene.path("runs")):
                reply = token.get(path)
                self.check.assertNotIn(self.scene.key.encode(), b"" if reply.status >= 400 else reply.raw, (path, reply))
                for word in self.scene.said:
                    self.check.assertNotIn(word.encode(), reply.raw, path)

"""One session of a cell: how it came into its state, and what was acknowledged about it."""

import threading
from dataclasses import dataclass, field

from harness.case import S, uid


@dataclass
class Scene:
    api: object
    daemon: object
    check: object                                     # the test, for its assertions
    key: str = ""
    id: str = ""
    ephemeral: bool = False
    said: dict = field(default_factory=dict)          # word: topic, "" for none
    partial: str = ""                                 # what the active run has said so far
    run: dict | None = None                           # the active one, with its lease
    waiting: list = field(default_factory=list)       # ids of runs that wait
    approval: dict | None = None                      # open
    delivery: dict | None = None                      # leased
    plan: dict | None = None                          # of a compaction
    children: list = field(default_factory=list)      # of Scene
    copy: str = ""                                    # the key of what the operation has made of it
    since: str = ""                                   # what was said behind the place that an import goes back to
    after: list = field(default_factory=list)         # what ends the state when the operation is done

    def path(self, *more):
        return S(self.key, "main", *more)

    def ok(self, reply, *statuses):
        return self.check.ok(reply, *statuses)

    def end_state(self):
        while self.after:
            self.after.pop()()

    def word(self, what, topic=""):
        """A new word, which is acknowledged once the caller's request is."""
        word = f"{what}-{uid()}"
        self.said[word] = topic
        return word

    def say(self, role="user", topic=""):
        word = self.word(role, topic)
        query = f"?topic={topic}" if topic else ""
        self.ok(self.api.post(self.path("messages") + query, {"role": role, "text": word}), 201)

    def tell(self, *events):
        return self.api.post(self.path("runs", self.run["runId"], "events"), {"fence": self.run["lease"]["fence"], "events": list(events)})

    def finish(self, *entries, outcome="done"):
        return self.api.post(self.path("runs", self.run["runId"], "finish"),
                             {"fence": self.run["lease"]["fence"], "status": outcome, "entries": list(entries)})


def begin(check, ephemeral=False, **entry) -> Scene:
    scene = Scene(check.api, check.daemon, check, "agent:main:slack:direct:u" + uid(), ephemeral=ephemeral)
    body = {"key": scene.key, "entry": entry, **({"ephemeral": True} if ephemeral else {})}
    scene.id = scene.ok(scene.api.post("/v1/agents/main/sessions", body), 201)["sessionId"]
    scene.say()
    scene.say("assistant")
    return scene


def idle(check):
    return begin(check)


def run_active(check, **entry):
    scene = begin(check, **entry)
    question = scene.word("question")
    scene.run = scene.ok(scene.api.post(scene.path("runs"), {"input": {"role": "user", "text": question}}), 201)
    return scene


def run_waiting(check):
    """A question waits for a runner, and none has it."""
    scene = run_active(check, queueMode="followup", queueDebounceMs=0)
    waits = scene.word("waits")
    told = scene.ok(scene.api.post(scene.path("runs"), {"input": {"role": "user", "text": waits}}), 202)
    scene.waiting.append(told["runId"])
    answer = scene.word("answer")
    scene.ok(scene.finish({"role": "assistant", "text": answer}), 200)
    scene.run = None
    return scene


def in_step(check):
    """The model speaks, and a tool runs."""
    scene = run_active(check)
    scene.partial = "partial-" + uid()
    scene.ok(scene.tell({"type": "step.started", "step": 1}, {"type": "text.delta", "text": scene.partial},
                        {"type": "tool.started", "callId": "c1", "name": "bash"}), 200)
    return scene


def approval_open(check):
    scene = run_active(check)
    scene.approval = scene.ok(scene.api.post(scene.path("approvals"), {
        "runId": scene.run["runId"], "fence": scene.run["lease"]["fence"], "tool": "bash", "callId": "c1"}), 201)
    return scene


def hook_asked(check):
    """A run waits for what a hook says about its tool, and nobody answers yet."""
    scene = run_active(check)
    name = "h" + uid(8)
    scene.ok(scene.api.put("/v1/hooks/" + name, {"events": ["PreToolUse"], "timeoutMs": 10_000}), 200, 201)
    with scene.api.stream("/v1/events?types=hook.called") as events:
        events.wait_type("stream.hello")
        asking = threading.Thread(target=lambda: scene.api.clone().post(scene.path("approvals"), {
            "runId": scene.run["runId"], "fence": scene.run["lease"]["fence"], "tool": "bash", "callId": "c1"}), daemon=True)
        asking.start()
        called = events.wait_for(lambda event: event.type == "hook.called" and event.data["key"] == scene.key).data["data"]["id"]

    def end():
        scene.api.post("/v1/hooks/calls/" + called, {})
        scene.api.delete("/v1/hooks/" + name)
        asking.join(30)
    scene.after.append(end)
    return scene


def compaction_planned(check):
    scene = begin(check)
    for _ in range(12):
        scene.say()
        scene.say("assistant")
    scene.plan = scene.ok(scene.api.post(scene.path("compact"), {}), 200)["plan"]
    return scene


def delivery_leased(check):
    scene = begin(check)
    channel = "c" + uid(8)
    scene.ok(scene.api.put(scene.path("route"), {"channel": channel, "to": "u1"}), 200)
    scene.api.post("/v1/deliveries/claim", {"channel": channel})
    scene.ok(scene.api.post(scene.path("outbound"), {"text": scene.word("out")}), 201)
    scene.delivery = scene.ok(scene.api.post("/v1/deliveries/claim", {"channel": channel}), 200)["data"][0]
    return scene


def lent_lock(check):
    """A script holds the lock of sessions.json."""
    scene = begin(check)
    lent = scene.ok(scene.api.post("/v1/agents/main/locks", {"ttlMs": 20_000}), 201)
    scene.after.append(lambda: scene.api.delete(f"/v1/agents/main/locks/{lent['id']}"))
    return scene


def ephemeral(check):
    return begin(check, ephemeral=True)


def with_topics(check):
    scene = begin(check)
    for topic in ("t1", "t2"):
        scene.say(topic=topic)
        scene.say("assistant", topic)
    return scene


def with_children(check):
    scene = begin(check)
    child = Scene(scene.api, scene.daemon, check)
    made = scene.ok(scene.api.post(scene.path("spawn"), {}), 201)
    child.key, child.id = made["key"], made["sessionId"]
    child.say()
    scene.children.append(child)
    return scene


STATES = {state.__name__: state for state in (idle, run_waiting, run_active, in_step, approval_open, hook_asked, compaction_planned,
                                              delivery_leased, lent_lock, ephemeral, with_topics, with_children)}

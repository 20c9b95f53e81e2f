"""A store for proving scopes: two agents and a third, several channels, topics, archived and reset sessions, children,
labels; and in every text of it a marker, a word that stands nowhere else. Whoever may not see a session may not see its
markers, in no byte of any answer."""

import concurrent.futures
import uuid

from harness.sessiond import S

AGENTS = ("main", "codex")
CHANNELS = ("slack", "discord")


def marker() -> str:
    return "zq" + uuid.uuid4().hex[:14]


class Place:
    """A session, what is known of it, and the words that give it away."""

    def __init__(self, agent, channel, key, session_id, markers, named=(), parents=()):
        self.agent, self.channel, self.key, self.session_id = agent, channel, key, session_id
        self.parents = parents  # the keys of the sessions that it descends from
        self.markers = set(markers) | {session_id}
        self.named = set(named)  # of the markers, those that its key consists of
        self.message_id = None
        self.platform = None  # channel, peer and messageId, as a bridge names its message

    def seen_by(self, scope) -> bool:
        if "key" in scope and scope["key"] not in (self.key, *self.parents):
            return False
        return (self.agent in scope.get("agents", [self.agent]) and self.key.startswith(scope.get("keyPrefix", ""))
                and scope.get("channel", self.channel) == self.channel)

    def __repr__(self):
        return self.key


class Store:
    """Fills a daemon. `places` are the sessions; `secrets` are markers of what is nobody's but who sees everything."""

    def __init__(self, api):
        self.api, self.places, self.secrets, self.answers = api, [], set(), []
        self.third = marker()  # an agent whose very name is a secret
        for agent in (*AGENTS, self.third):
            for channel in CHANNELS:
                group = self.group(agent, channel)
                self.topic(group)
                self.direct(agent, channel)
                self.archived(agent, channel)
                self.reset(agent, channel)
                child = self.child(group, {"channel": channel})
                self.child(child, {"channel": channel})
                self.child(group, {})
            self.imported(agent)
        self.policy()

    def done(self, reply):
        assert 200 <= reply.status < 300, reply
        return reply.json

    def mark(self, place):
        word = marker()
        place.markers.add(word)
        return word

    def inbound(self, agent, channel, chat_type):
        words = [marker() for _ in range(7)]
        peer, sender, text, label, subject, space, message = words
        body = {"agent": agent, "channel": channel, "chatType": chat_type, "peer": peer, "from": sender, "text": text,
                "label": label, "subject": subject, "space": space, "messageId": message}
        key = "key-" + marker()
        made = self.done(self.api.post("/v1/inbound", body, idempotency_key=key))
        self.answers.append((key, body))
        place = Place(agent, channel, made["sessionKey"], made["sessionId"], words, [peer])
        if agent not in AGENTS:
            place.markers.add(agent)
        place.message_id = made["messageId"]
        place.platform = {"agent": agent, "channel": channel, "peer": peer, "messageId": message}
        place.markers.add(place.message_id)
        self.places.append(place)
        self.done(self.api.patch(S(place.key, agent), {"label": self.mark(place), "name": self.mark(place),
                                                       "displayName": self.mark(place), "model": self.mark(place)}))
        return place

    def group(self, agent, channel):
        return self.inbound(agent, channel, "group")

    def direct(self, agent, channel):
        place = self.inbound(agent, channel, "direct")
        self.done(self.api.post(S(place.key, agent, "outbound"), {"text": self.mark(place), "to": self.mark(place)}))
        return place

    def topic(self, place):
        topic = self.mark(place)
        self.done(self.api.post(S(place.key, place.agent, "messages") + "?topic=" + topic,
                                {"role": "user", "text": self.mark(place)}))
        place.topic = topic

    def archived(self, agent, channel):
        place = self.inbound(agent, channel, "group")
        self.done(self.api.post(S(place.key, agent, "archive")))

    def reset(self, agent, channel):
        place = self.inbound(agent, channel, "channel")
        after = self.done(self.api.post(S(place.key, agent, "reset"), {"reason": self.mark(place)}))
        place.markers.add(after["sessionId"])
        place.message_id = None

    def child(self, parent, entry):
        """With its parent's channel, or with none, as runners make them."""
        label, task = marker(), marker()
        made = self.done(self.api.post(S(parent.key, parent.agent, "spawn"), {"label": label, "task": task, "entry": entry}))
        place = Place(parent.agent, entry.get("channel", ""), made["key"], made["sessionId"], [label, task],
                      parents=(parent.key, *parent.parents))
        place.markers.add(made["key"].rsplit(":", 1)[1])
        self.places.append(place)
        return place

    def imported(self, agent):
        """A key that names no channel, in a session that has one."""
        word, session_id, label = marker(), marker(), marker()
        key = f"agent:{agent}:{word}"
        self.done(self.api.put(S(key, agent), {"sessionId": session_id, "channel": "discord", "label": label}))
        self.places.append(Place(agent, "discord", key, session_id, [word, label], [word]))

    def policy(self):
        rule = {"match": {"channel": "discord", "to": marker()}, "action": "deny"}
        self.secrets.add(rule["match"]["to"])
        prefix = {"match": {"keyPrefix": f"agent:{self.third}:"}, "action": "deny"}
        self.done(self.api.put("/v1/policy/send", {"default": "allow", "rules": [rule, prefix]}, if_match="*"))
        note = marker()
        self.secrets.add(note)
        self.done(self.api.post("/v1/admin/tokens", {"role": "viewer", "note": note}))

    def bind(self, scope):
        """The scope of a token of role session: `parent` stands for a session that has grandchildren."""
        if scope.get("key") != "parent":
            return scope
        return {**scope, "key": next(p.parents[-1] for p in self.places if p.agent in scope["agents"] and len(p.parents) == 2)}

    def hidden_from(self, scope):
        return [place for place in self.places if not place.seen_by(scope)]

    def seen_in(self, scope):
        return [place for place in self.places if place.seen_by(scope)]

    def forbidden(self, scope):
        """Every word that a token of this scope may never be told."""
        words = set(self.secrets)
        for place in self.hidden_from(scope):
            words |= place.markers
        if "agents" in scope or "keyPrefix" in scope or "key" in scope:
            words.add(self.third)
        for place in self.seen_in(scope):
            words -= place.markers
        return words

    def write_everywhere(self):
        """One more of each kind of write in every session, new words in each; several at a time, as they share an fsync."""
        def write(places):
            api = self.api.clone()
            for place in places:
                base = S(place.key, place.agent)
                api.post(base + "/typing", {})
                api.post(base + "/deltas", {"runId": self.mark(place), "text": self.mark(place)})
                api.post(base + "/messages", {"role": "assistant", "text": self.mark(place)})
                api.post(base + "/streams/memoryEvents", {"text": self.mark(place)})
                api.patch(base, {"label": self.mark(place)})
                api.post(base + "/outbound", {"text": self.mark(place), "mediaUrls": ["https://x/" + self.mark(place)]})
            api.close()

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for done in [pool.submit(write, self.places[start::16]) for start in range(16)]:
                done.result()
        for agent in (*AGENTS, self.third):
            for channel in CHANNELS:
                self.group(agent, channel)
        self.policy()

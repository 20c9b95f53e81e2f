"""What tokens find in random stores is what each of them may GET, and nothing of what was deleted."""

import os
import random
import shutil
import urllib.parse

from harness.case import Case, S, text_of
from harness.sessiond import eventually
from store import Store
from texts import a_question, matches

STORES = int(os.environ.get("SESSIOND_SEARCH_STORES", "24"))
BATCH = 12       # stores of one daemon
OPERATIONS = 40  # of a store
QUESTIONS = 6    # of a token in a store
ROLES = {"user": "user", "assistant": "assistant", "tool": "tool", "toolResult": "tool"}


def spoken(message):
    """Role and text of an entry by which it is found; nothing of others."""
    if message.get("type") == "custom" and message.get("customType") == "note":
        return "note", message["data"]["text"]
    if message.get("type") == "message" and message.get("role") in ROLES:
        return ROLES[message["role"]], text_of(message)
    return None


def topic_of(key, session_id, archive):
    stem = archive.split(".jsonl.")[0]
    topic = stem.removeprefix(session_id + "-topic-") if stem != session_id else ""
    return "" if key and key.endswith(":topic:" + topic) else topic  # the session's own


class Stores:
    part = 0  # which batches
    mode = "own"


    def every(self, api, path):
        """All rows of a list; nothing when the token may not see it."""
        rows, cursor = [], ""
        while True:
            reply = api.get(path + ("&" if "?" in path else "?") + "limit=200" + cursor)
            if reply.status in (403, 404):
                return []
            rows += self.ok(reply, 200)["data"]
            if not reply.json["page"]["hasMore"]:
                return rows
            page = reply.json["page"]
            cursor = f"&after={page['nextAfter']}" if "nextAfter" in page else "&cursor=" + urllib.parse.quote(page["next"])

    def names(self, store):
        """What there is in a store, by whoever sees everything: keys, and archives as key or id, session id, name."""
        listed = self.every(self.api, f"/v1/agents/{store.agent}/sessions?archived=any")
        keys = [row["key"] for row in listed if row.get("durable", True)]
        records = self.every(self.api, f"/v1/agents/{store.agent}/archives")
        for key in keys:
            records += self.every(self.api, S(key, store.agent, "archives"))
        archives = {(row["key"] or row["sessionId"], row["sessionId"], topic_of(row["key"], row["sessionId"], name), name)
                    for row in records for name in row["archivedAs"]}
        return keys, archives

    def readable(self, api, store, names):
        """{(key, session id, topic, archive, seq, role): (text, time, is archived)} of what the token may GET."""
        texts = {}
        keys, archives = names
        for key in keys:
            reply = api.get(S(key, store.agent))
            if reply.status != 200:
                self.assertIn(reply.status, (403, 404), reply)
                continue
            session = reply.json
            archived = bool(session.get("archivedAt"))
            for role in ("name", "label"):
                if session.get(role):
                    texts[key, session["sessionId"], "", "", None, role] = (session[role], None, archived)
            topics = [""] + [row["topic"] for row in self.ok(api.get(S(key, store.agent, "topics")), 200)["data"]]
            for topic in topics:
                for message in self.every(api, S(key, store.agent, "messages") + f"?topic={topic}" * bool(topic)):
                    if said := spoken(message):
                        texts[key, session["sessionId"], topic, "", message["seq"], said[0]] = (said[1], message["timestamp"], archived)
        for key, session_id, topic, name in archives:
            for message in self.every(api, S(session_id, store.agent, "messages") + f"?archive={name}"):
                if said := spoken(message):
                    texts[key, session_id, topic, name, message["seq"], said[0]] = (said[1], message["timestamp"], True)
        return texts

    def found(self, api, question, **more):
        hits, cursor = [], {}
        while True:
            query = urllib.parse.urlencode({"q": question, **more, **cursor}, quote_via=urllib.parse.quote)
            page = self.ok(api.get("/v1/search?" + query), 200)
            self.assertFalse(page["partial"], query)
            hits += page["data"]
            if not page["page"]["hasMore"]:
                return hits
            cursor = {"cursor": page["page"]["next"]}

    def holds(self, api, texts, question, wrong, **more):
        """Compares what is found with what may be read."""
        archived, role = more.get("archived", "false"), more.get("role")
        wanted = {at for at, (text, _, old) in texts.items()
                  if matches(question, text) and role in (None, at[-1]) and archived in ("any", {True: "true", False: "false"}[old])}
        hits = self.found(api, question, **more)
        seen = [(hit["key"], hit["sessionId"], hit.get("topic", ""), hit.get("archive", ""), hit["seq"], hit["role"]) for hit in hits]
        times = [hit["timestamp"] for hit in hits]
        if len(set(seen)) != len(seen) or set(seen) != wanted or times != sorted(times, reverse=True):
            again = len(self.found(api, question, **more))
            wrong.append(f"{question!r} {more}: missing {sorted(wanted - set(seen), key=str)}, too many {sorted(set(seen) - wanted, key=str)}, "
                         f"doubled {len(seen) - len(set(seen))}, times {times}, asked again {again} of {len(wanted)}, metrics "
                         f"{[line for line in self.api.get('/metrics').raw.decode().splitlines() if line.startswith('sessiond_search')]}, "
                         f"missing texts {[texts[at][0] for at in wanted - set(seen)]}")

    def is_followed(self):
        def whole():
            metrics = self.api.get("/metrics").raw.decode()
            return "sessiond_search_whole 1\n" in metrics and "sessiond_search_lag_events 0\n" in metrics or None
        eventually(whole, timeout=60, what="the index follows")

    def tokens(self, store, names):
        """Four: of the agent, a prefix, a channel, and one session."""
        key = store.chance.choice(names[0] or [f"agent:{store.agent}:main"])
        limits = [("viewer", {}), ("viewer", {"keyPrefix": f"agent:{store.agent}:slack:"}), ("viewer", {"channel": "discord"}), ("session", {"key": key})]
        return [self.world.token(role, agents=[store.agent], **more) for role, more in limits]

    def destroy_archives(self):
        """By maintenance: the oldest archives of all stores."""
        used = sum(file.stat().st_size for file in self.world.state.glob("agents/*/sessions/*"))
        self.ok(self.api.post("/v1/admin/maintenance", {"dryRun": False, "maxDiskBytes": used * 9 // 10}), 200)

    def make_anew(self):
        self.world.stop()
        shutil.rmtree(self.world.state / "search")
        self.world.start()
        self.api = self.world.client()

    def check(self, stores, tokens, wrong, destroyed=False):
        self.is_followed()
        for store in stores:
            names, faults = self.names(store), []
            every = None
            for token in tokens[store]:
                api = self.world.client(token)
                texts = self.readable(api, store, names)
                every = every if every is not None else texts
                all_texts = [text for text, _, _ in every.values() if text]
                for _ in range(QUESTIONS):
                    more = store.chance.choice(({}, {"archived": "any"}, {"archived": "any"}, {"archived": "true"}, {"archived": "any", "role": "user"}))
                    self.holds(api, texts, a_question(store.chance, all_texts), faults, limit=store.chance.choice((1, 3, 100)), **more)
                for word in store.dead - store.unknown:
                    if self.found(api, word, archived="any"):
                        faults.append(f"{word} is dead, and found")
            alive = store.said - store.dead - store.unknown
            told = " ".join(text for text, _, _ in every.values())
            faults += [f"{word} is lost" for word in alive if word not in told and not destroyed]
            if faults:
                wrong.append("\n".join([f"store {store.agent}:", *faults[:10], *store.done]))

    def test_random_stores(self):
        wrong, counts = [], {"stores": 0, "texts": 0, "dead": 0}
        for batch in range(self.part * BATCH, STORES, 2 * BATCH):
            self.world = self.spawn({"store": {"mode": self.mode}})
            self.api = self.world.client()
            stores = [Store(self, number, random.Random(number)) for number in range(batch, min(batch + BATCH, STORES))]
            for store in stores:
                store.live(OPERATIONS)
            tokens = {store: self.tokens(store, self.names(store)) for store in stores}
            self.check(stores, tokens, wrong)
            destroys = batch // BATCH % 3 == 0
            if destroys:
                self.destroy_archives()
                self.check(stores, tokens, wrong, destroyed=True)
            self.make_anew()
            self.check(stores, tokens, wrong, destroyed=destroys)
            self.world.stop()
            for one in stores:
                counts["stores"] += 1
                counts["texts"] += len(one.said)
                counts["dead"] += len(one.dead)
        print("search:", counts, flush=True)
        self.assertFalse(wrong, "\n\n".join(wrong[:5]))


class Own(Stores, Case):
    runs = {"release"}


class Shared(Stores, Case):
    runs = {"release"}
    part = 1
    mode = "shared"

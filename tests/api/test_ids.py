"""Which session ids are free, and that none can be guessed: what a token limited to one key prefix can name, guess or
make first never leads it to another's transcript."""

import json
import os
import time
from urllib.parse import quote

from harness.case import Case, S, uid
from harness.sessiond import eventually
from test_foreign import line

MANY_IDS = 10_000
MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def splitmix(state):
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def unshift(value, shift):
    """The x of which `value` is x ^ (x >> shift)."""
    out = value
    for _ in range(64 // shift + 1):
        out = value ^ (out >> shift)
    return out


def state_of(output):
    """The state of a splitmix64 generator that has just given this output."""
    z = unshift(output, 31)
    z = (z * pow(0x94D049BB133111EB, -1, 1 << 64)) & MASK
    z = unshift(z, 27)
    z = (z * pow(0xBF58476D1CE4E5B9, -1, 1 << 64)) & MASK
    return unshift(z, 30)


def uuid_of(high, low):
    high = (high & 0xFFFFFFFFFFFF0FFF) | 0x4000
    low = (low & 0x3FFFFFFFFFFFFFFF) | 0x8000000000000000
    return f"{high >> 32:08x}-{(high >> 16) & 0xFFFF:04x}-{high & 0xFFFF:04x}-{low >> 48:04x}-{low & 0xFFFFFFFFFFFF:012x}"


class Ids(Case):
    """The fence: sessions below agent:main:guest: for the guest, the rest for others."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.guest = cls.daemon.client(cls.daemon.token("runner", agents=["main"], keyPrefix="agent:main:guest:"))

    def make(self, api, key, status=201, **more):
        return self.ok(api.post("/v1/agents/main/sessions", {"key": key, **more}), status)

    def refused(self, api, session_id, key=None, **more):
        body = self.problem(api.post("/v1/agents/main/sessions",
                                     {"key": key or "agent:main:guest:" + uid(), "sessionId": session_id, **more}),
                            409, "session_exists")
        self.assertEqual(body["detail"], f"the session id {session_id} is taken")
        put = self.problem(api.put(S("agent:main:guest:" + uid()), {"sessionId": session_id}), 409, "session_exists")
        self.assertEqual(put["detail"], body["detail"])

    def lay(self, name, *texts):
        """A file of another program in the agent's folder; entry ids and texts are in it."""
        lines = [{"type": "session", "version": 3, "id": name.split(".")[0], "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}]
        lines += [{"type": "message", "id": uid(8), "parentId": None, "timestamp": "2026-01-01T00:00:01.000Z",
                   "message": {"role": "user", "content": text}} for text in texts]
        self.daemon.agent_dir().mkdir(parents=True, exist_ok=True)
        (self.daemon.agent_dir() / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    # -- 1 -------------------------------------------------------------------------------------------------------------

    def test_an_entry_id_does_not_give_the_next_session_ids(self):
        own = "agent:main:guest:" + uid()
        self.make(self.guest, own)
        seen = self.say(own, api=self.guest)["ids"][0]
        state = state_of(int(seen, 16))
        outputs = [splitmix((state + GAMMA * n) & MASK) for n in range(1, 24)]
        predicted = [uuid_of(high, low) for high, low in zip(outputs, outputs[1:])]
        for guess in predicted:
            self.make(self.guest, "agent:main:guest:" + uid(), sessionId=guess)
        theirs = self.inbound(text="for the owner alone")
        self.assertNotIn(theirs["sessionId"], predicted)
        for guess in predicted:
            self.assertEqual(self.messages(guess, api=self.guest), [])

    def test_of_10000_ids_none_tells_another(self):
        key = self.new()["key"]
        ids = []
        while len(ids) < MANY_IDS:
            batch = {"entries": [{"type": "custom", "customType": "n", "data": {}} for _ in range(1000)]}
            ids += self.ok(self.api.post(S(key, "main", "messages"), batch), 201)["ids"]
        numbers = [int(i, 16) for i in ids]
        self.assertEqual(len(set(numbers)), MANY_IDS)
        known = set(numbers)
        told = sum(splitmix((state_of(n) + GAMMA) & MASK) in known for n in numbers)
        self.assertEqual(told, 0, "ids from which the next one was computed")
        # Nor does a difference come again, as it would of a counter under any other permutation that keeps order.
        self.assertEqual(len({(b - a) & MASK for a, b in zip(numbers, numbers[1:])}), MANY_IDS - 1)
        for bit in range(64):  # each is a coin: 10 000 throws are 5 000 but for 6 standard deviations
            self.assertLess(abs(sum(n >> bit & 1 for n in numbers) - MANY_IDS / 2), 300, f"bit {bit}")

    def test_a_purged_id_is_not_given_to_another_key_while_the_journal_knows_it(self):
        gone = self.new()
        self.ok(self.api.delete(S(gone["key"]) + "?purge=true"))
        self.refused(self.guest, gone["sessionId"])
        self.refused(self.api, gone["sessionId"])
        self.daemon.restart(kill=True)
        self.refused(self.api, gone["sessionId"])

    # -- 2 -------------------------------------------------------------------------------------------------------------

    def test_the_stem_of_anothers_session_file_is_taken(self):
        stem = "kept-" + uid()
        owner = self.new(sessionFile=stem + ".jsonl")
        self.say(owner["key"], "secret of the owner")
        self.refused(self.guest, stem)
        self.refused(self.api, stem)
        self.assertEqual(self.texts(owner["key"]), ["secret of the owner"])

    def test_a_transcript_without_an_entry_is_for_tokens_that_see_the_agent(self):
        self.new()
        orphan, topical = "orphan-" + uid(), "orphan-" + uid()
        self.lay(orphan + ".jsonl", "found", "again")
        self.lay(f"{topical}-topic-t.jsonl", "in a topic")
        for session_id in (orphan, topical):
            self.refused(self.guest, session_id)
        adopted = self.make(self.api, "agent:main:adopted:" + uid(), sessionId=orphan)
        self.assertEqual(self.texts(adopted["key"]), ["found", "again"])
        self.make(self.api, "agent:main:adopted:" + uid(), sessionId=topical)

    def test_an_archived_id_is_free_where_its_archive_is_seen(self):
        theirs, own = self.new(), "agent:main:guest:" + uid()
        self.say(theirs["key"], "of others")
        mine = self.make(self.guest, own)
        self.say(own, "of the guest", api=self.guest)
        self.ok(self.api.delete(S(theirs["key"])))
        self.ok(self.guest.delete(S(own)))
        self.refused(self.guest, theirs["sessionId"])
        unknown = "archived-" + uid()
        self.lay(unknown + ".jsonl.deleted.2026-02-21T21-31-50.885Z", "of nobody")
        self.refused(self.guest, unknown)
        self.daemon.restart()
        self.refused(self.guest, theirs["sessionId"])
        self.refused(self.guest, unknown)
        again = self.make(self.guest, "agent:main:guest:" + uid(), sessionId=mine["sessionId"])
        self.assertEqual(self.messages(again["key"], api=self.guest), [])
        self.assertEqual(self.make(self.api, theirs["key"], sessionId=theirs["sessionId"])["sessionId"],
                         theirs["sessionId"])
        self.make(self.api, "agent:main:other:" + uid(), sessionId=unknown)

    # -- 3 -------------------------------------------------------------------------------------------------------------

    def test_a_session_id_whose_key_is_there_is_a_conflict(self):
        word = "abc" + uid()
        there = self.make(self.api, f"agent:main:session:{word}", label="first")
        self.say(there["key"], "history")
        for body in ({"sessionId": word.upper()}, {"sessionId": word}, {"sessionId": there["sessionId"]}):
            self.problem(self.api.post("/v1/agents/main/sessions", body), 409, "session_exists")
            reused = self.ok(self.api.post("/v1/agents/main/sessions", {**body, "ifExists": "reuse"}), 200)
            self.assertEqual((reused["key"], reused["sessionId"]), (there["key"], there["sessionId"]))
        self.refused(self.api, word)
        now = self.ok(self.api.get(S(there["key"])), 200)
        self.assertEqual((now["label"], now["sessionId"], now["etag"] if "etag" in now else now["rev"]),
                         ("first", there["sessionId"], there["rev"]))
        self.assertEqual(self.texts(there["key"]), ["history"])

    def test_reuse_finds_by_session_id_whatever_the_key(self):
        named = self.make(self.api, "agent:main:k" + uid(), sessionId="mine-" + uid())
        reused = self.ok(self.api.post("/v1/agents/main/sessions",
                                       {"sessionId": named["sessionId"], "ifExists": "reuse"}), 200)
        self.assertEqual(reused["key"], named["key"])

    # -- 53 ------------------------------------------------------------------------------------------------------------

    def test_an_id_whose_topics_are_anothers_is_taken(self):
        word = uid()
        first = self.make(self.api, "agent:main:t1" + word, sessionId="x" + word)
        self.say(first["key"], "of the topic", query="?topic=topic-y")
        # "x-topic" with the topic "y" would be the file of "x" with the topic "topic-y".
        self.problem(self.api.post("/v1/agents/main/sessions", {"key": "agent:main:t2" + word, "sessionId": f"x{word}-topic"}),
                     422, "reserved_name")
        self.problem(self.api.put(S("agent:main:t3" + word), {"sessionId": f"x{word}-topic"}), 422, "reserved_name")
        self.problem(self.api.put(S("agent:main:t4" + word), {"sessionId": f"x{word}-topic-topic-y"}), 422)

    def test_an_id_whose_topics_file_another_entry_names_is_taken(self):
        daemon = self.spawn(start=False)
        folder = daemon.agent_dir()
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_text(json.dumps({"agent:main:two": {
            "sessionId": "11111111-aaaa-4bbb-8ccc-000000000002", "updatedAt": 1, "sessionFile": "gold-topic-7.jsonl"}}))
        (folder / "gold-topic-7.jsonl").write_text(json.dumps(
            {"type": "message", "id": "aaaaaaaa", "parentId": None, "message": {"role": "user", "content": "secret"}}) + "\n")
        api = daemon.start().client()
        self.problem(api.put(S("agent:main:other"), {"sessionId": "gold"}), 409, "session_exists")
        self.problem(api.post("/v1/agents/main/sessions", {"sessionId": "gold"}), 409, "session_exists")
        self.ok(api.put(S("agent:main:other"), {"sessionId": "gol"}), 201)
        self.ok(api.delete(S("agent:main:two")), 204)
        self.ok(api.put(S("agent:main:third"), {"sessionId": "gold"}), 201)
        self.problem(api.post("/v1/agents/main/sessions", {"sessionId": ""}), 422)

    def test_a_foreign_session_keeps_its_file_from_anothers_topic(self):
        daemon = self.spawn(start=False)
        folder = daemon.agent_dir()
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_text(json.dumps({
            "agent:main:guest:a": {"sessionId": "x", "updatedAt": 1},
            "agent:main:owner:b": {"sessionId": "x-topic-n", "updatedAt": 1}}))
        (folder / "x-topic-n.jsonl").write_text(json.dumps(
            {"type": "message", "id": "aaaaaaaa", "parentId": None, "message": {"role": "user", "content": "secret"}}) + "\n")
        daemon.start()
        api = daemon.client()
        guest = daemon.client(daemon.token("runner", agents=["main"], keyPrefix="agent:main:guest:"))
        self.assertNotIn(b"secret", guest.get(S("agent:main:guest:a", "main", "messages") + "?topic=n").raw)
        self.assertNotIn(b"secret", guest.get(S("agent:main:guest:a", "main", "transcript") + "?topic=n").raw)
        self.assertEqual(self.ok(guest.get(S("agent:main:guest:a", "main", "topics")), 200)["data"], [])
        self.problem(guest.post(S("agent:main:guest:a", "main", "messages") + "?topic=n", {"role": "user", "text": "y"}),
                     409, "session_exists")
        self.problem(guest.delete(S("agent:main:guest:a", "main", "topics", "n")), 404)
        self.ok(guest.delete(S("agent:main:guest:a")))
        self.assertEqual(self.texts("agent:main:owner:b", api=api), ["secret"])


class Purges(Case):
    """A purge that is replayed destroys what it meant, and nothing that came after it."""

    def foreign_session(self, daemon, key, session_id, texts):
        """As another program makes one: its transcript, then its entry."""
        folder = daemon.agent_dir()
        lines = [{"type": "session", "version": 3, "id": session_id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}]
        lines += [{"type": "message", "id": uid(8), "parentId": None, "timestamp": "2026-01-01T00:00:01.000Z",
                   "message": {"role": "user", "content": text}} for text in texts]
        (folder / (session_id + ".jsonl")).write_text("".join(json.dumps(line) + "\n" for line in lines))
        store = json.loads((folder / "sessions.json").read_text())
        store[key] = {"sessionId": session_id, "updatedAt": int(time.time() * 1000)}
        temp = folder / "sessions.json.foreign"
        temp.write_text(json.dumps(store))
        os.rename(temp, folder / "sessions.json")

    def test_replaying_a_purge_leaves_a_newer_transcript_of_its_name(self):
        for turn in range(4):
            with self.subTest(turn=turn):
                daemon = self.spawn()
                api = daemon.client()
                # A purge in an agent whose store cannot be written for a while keeps CHECKPOINT behind it.
                key = "agent:main:purged"
                old = self.ok(api.post("/v1/agents/main/sessions", {"key": key}), 201)
                self.say(key, "old", api=api)
                self.ok(api.post("/v1/agents/held/sessions", {"key": "agent:held:x"}), 201)
                daemon.checkpoint()
                self.hold_checkpoint(daemon, "held")
                self.ok(api.patch(S("agent:held:x", "held"), {"label": "dirty"}), 200)
                self.ok(api.delete(S(key) + "?purge=true"))
                eventually(lambda: not (daemon.agent_dir() / (old["sessionId"] + ".jsonl")).exists(), what="the purge")
                eventually(lambda: key not in json.loads((daemon.agent_dir() / "sessions.json").read_text()),
                           what="the checkpoint of the purge")
                texts = [f"newer {turn}", "of another program"]
                self.foreign_session(daemon, "agent:main:newer", old["sessionId"], texts)
                eventually(lambda: (reply := api.get(S("agent:main:newer", "main", "messages"))).status == 200
                           and len(reply.json["data"]) == 2, 10, what="the foreign lines")
                self.say("agent:main:newer", "and ours", api=api)
                self.assertEqual(self.texts("agent:main:newer", api=api), [*texts, "and ours"])
                daemon.kill9()
                (daemon.agent_dir("held") / "sessions.json.lock").unlink(missing_ok=True)
                daemon.start()
                self.assertEqual(self.texts("agent:main:newer", api=daemon.client()), [*texts, "and ours"])
                self.assertEqual(list(daemon.agent_dir().glob(old["sessionId"] + ".jsonl.deleted.*")), [])

    def purged(self, daemon, key):
        """A session that was purged; its id."""
        api = daemon.client()
        message = {"channel": "chat", "peer": "p", "messageId": "m1"}
        made = self.ok(api.post("/v1/inbound", {**message, "chatType": "direct", "text": "old"}), 201)
        self.assertEqual(made["sessionKey"], key)
        self.ok(api.post("/v1/inbound/edits", {**message, "text": "older"}), 201)
        self.ok(api.delete(S(key) + "?purge=true"), 204)
        return made["sessionId"]

    def test_a_purged_id_is_used_again_under_its_key(self):
        for make in ("put", "post"):
            with self.subTest(make=make):
                key = "agent:main:sdk:" + uid()
                made = self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "sessionId": "sdk-" + uid()}), 201)
                entries = [{"type": "message", "id": f"e{n}", "message": {"role": "user", "content": f"old {n}"}} for n in range(3)]
                before = self.ok(self.post_to(key, {"entries": entries}), 201)["asOf"]
                self.ok(self.api.delete(S(key) + "?purge=true"), 204)
                if make == "put":
                    self.ok(self.api.put(S(key), {"sessionId": made["sessionId"]}), 201)
                else:
                    self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "sessionId": made["sessionId"]}), 201)
                self.assertEqual(self.texts(key), [])
                for entry in entries:
                    entry["message"]["content"] = "new " + entry["id"]
                added = self.ok(self.post_to(key, {"entries": entries}), 201)
                self.assertEqual((added["duplicates"], added["firstSeq"]), (0, 0))
                want = ["new e0", "new e1", "new e2"]
                for restart in (lambda: None, self.daemon.restart, lambda: self.daemon.restart(kill=True)):
                    restart()
                    self.assertEqual(self.texts(key), want)
                    events = S(key, "main", "events")
                    self.problem(self.api.get(events + f"?poll=1&after={before}"), 400, "bad_cursor")
                    told = self.ok(self.api.get(events + "?poll=1&replay=1000"), 200)["data"]
                    self.assertEqual(told[0]["type"], "session.created")
                    self.assertNotIn("old", json.dumps(told))

    def test_what_people_changed_of_a_purged_message_is_forgotten(self):
        message = {"channel": "chat", "peer": "u" + uid(), "messageId": "m1"}
        old = self.inbound(**message, chatType="direct", text="old")
        self.ok(self.api.post("/v1/inbound/deletes", message), 201)
        self.daemon.checkpoint()
        key = old["sessionKey"]
        self.ok(self.api.delete(S(key) + "?purge=true"), 204)
        self.ok(self.api.put(S(key), {"sessionId": old["sessionId"]}), 201)
        entry = {"type": "message", "id": old["messageId"], "message": {"role": "user", "content": "new"}}
        self.ok(self.post_to(key, {"entries": [entry]}), 201)
        for restart in (lambda: None, lambda: self.daemon.restart(kill=True)):
            restart()
            self.assertEqual(self.texts(key), ["new"])
        self.assertEqual(self.ok(self.api.get(f"/v1/agents/main/messages?channel=chat&peer={message['peer']}&platformMessageId=m1"), 200)["data"], [])

    def test_a_platform_tells_a_purged_message_again(self):
        message = {"channel": "slack", "chatType": "direct", "peer": "U" + uid(8), "messageId": "m1", "text": "old"}
        old = self.inbound(**message)
        self.assertTrue(self.inbound(status=200, **message)["duplicate"])
        key = old["sessionKey"]
        self.ok(self.api.delete(S(key) + "?purge=true"), 204)
        self.ok(self.api.put(S(key), {"sessionId": old["sessionId"]}), 201)
        for restart in (lambda: None, lambda: self.daemon.restart(kill=True)):
            restart()
            new = self.api.post("/v1/inbound", {**message, "text": "new"})
            self.assertIn(new.status, (200, 201))
            self.assertEqual(self.texts(key), ["new"])
        self.assertEqual(new.json["duplicate"], True)

    def test_a_start_between_a_purge_and_what_is_told_again(self):
        message = {"channel": "slack", "chatType": "direct", "peer": "U" + uid(8), "messageId": "m1", "text": "old"}
        old = self.inbound(**message)
        key = old["sessionKey"]
        entries = {"entries": [{"type": "message", "id": "e1", "message": {"role": "user", "content": "added"}}]}
        again = {"idempotency_key": "k" + uid()}
        other = {"idempotency_key": "k" + uid()}
        self.ok(self.post_to(key, entries, **again), 201)
        self.ok(self.post_to(key, {"role": "user", "text": "old body"}, **other), 201)
        self.ok(self.api.delete(S(key) + "?purge=true"), 204)
        self.ok(self.api.put(S(key), {"sessionId": old["sessionId"]}), 201)
        self.daemon.restart(kill=True)
        self.ok(self.api.post("/v1/inbound", message), 200, 201)
        self.daemon.restart(kill=True)
        for _ in range(2):
            self.ok(self.post_to(key, entries, **again), 201)
            self.ok(self.post_to(key, {"role": "user", "text": "new body"}, **other), 201)
        self.assertEqual(self.texts(key), ["old", "added", "new body"])

    def test_deliveries_of_a_purged_session_are_not_those_of_the_next_one(self):
        key = "agent:main:slack:direct:u" + uid()
        channel = "c" + uid(6)
        made = self.new(key, lastChannel=channel, lastTo="u")
        self.api.post("/v1/deliveries/claim", {"channel": channel})
        self.ok(self.post_to(key, {"deliver": True, "entries": [
            {"type": "message", "id": "e1", "message": {"role": "assistant", "content": "old"}}]}), 201)
        claimed = self.ok(self.api.post("/v1/deliveries/claim", {"channel": channel}), 200)["data"][0]
        self.ok(self.api.post(f"/v1/deliveries/{claimed['deliveryId']}/ack", {"platformMessageId": "p1"}), 200)
        self.ok(self.api.delete(S(key) + "?purge=true"), 204)
        self.problem(self.api.get("/v1/deliveries/" + claimed["deliveryId"]), 404, "delivery_not_found")
        self.ok(self.api.put(S(key), {"sessionId": made["sessionId"], "lastChannel": channel, "lastTo": "u"}), 201)
        self.assertEqual(self.ok(self.api.get("/v1/deliveries?key=" + quote(key)), 200)["data"], [])
        self.ok(self.post_to(key, {"deliver": True, "entries": [
            {"type": "message", "id": "e1", "message": {"role": "assistant", "content": "new"}}]}), 201)
        self.assertEqual(self.ok(self.api.post("/v1/deliveries/claim", {"channel": channel}), 200)["data"][0]["text"], "new")

    def test_changes_that_copies_are_shown_by_keep_the_id_taken(self):
        message = {"channel": "chat", "peer": "u" + uid(), "messageId": "m1"}
        made = self.inbound(**message, chatType="direct", text="SECRET")
        key = made["sessionKey"]
        fork = self.ok(self.api.post(S(key, "main", "fork"), {}), 201)
        self.ok(self.api.post("/v1/inbound/deletes", message), 201)
        self.ok(self.api.delete(S(key) + "?purge=true"), 204)
        self.problem(self.api.put(S(key), {"sessionId": made["sessionId"]}), 409, "session_exists")
        self.assertNotIn("SECRET", json.dumps(self.messages(fork["key"])))

    def test_another_key_and_another_token_do_not_get_it(self):
        key = "agent:main:sdk:" + uid()
        made = self.new(key)
        self.ok(self.api.delete(S(key) + "?purge=true"), 204)
        other = self.daemon.client(self.daemon.token("runner", agents=["main"], keyPrefix="agent:main:guest:"))
        seeing = self.daemon.client(self.daemon.token("runner", agents=["main"], keyPrefix=key))
        for api in (self.api, other, seeing):
            at = key + ":2" if api is seeing else "agent:main:guest:" + uid()
            self.problem(api.put(S(at), {"sessionId": made["sessionId"]}), 409, "session_exists")
        self.assertIn(other.put(S(key), {"sessionId": made["sessionId"]}).status, (403, 409))
        self.ok(seeing.put(S(key), {"sessionId": made["sessionId"]}), 201)

    def test_a_kill_between_a_purge_and_the_next_use(self):
        for turn in range(4):
            with self.subTest(turn=turn):
                daemon = self.spawn()
                key = "agent:main:chat:direct:p"
                self.ok(daemon.client().post("/v1/agents/held/sessions", {"key": "agent:held:x"}), 201)
                daemon.checkpoint()
                self.hold_checkpoint(daemon, "held")
                self.ok(daemon.client().patch(S("agent:held:x", "held"), {"label": "dirty"}), 200)
                session_id = self.purged(daemon, key)
                if turn % 2:
                    daemon.kill9()
                    (daemon.agent_dir("held") / "sessions.json.lock").unlink(missing_ok=True)
                    daemon.start()
                api = daemon.client()
                self.ok(api.put(S(key), {"sessionId": session_id}), 201)
                message = {"channel": "chat", "peer": "p", "messageId": "m1"}
                self.ok(api.post("/v1/inbound", {**message, "chatType": "direct", "text": "new"}), 201)
                self.ok(api.post("/v1/inbound/edits", {**message, "text": "edited"}), 201)
                daemon.kill9()
                (daemon.agent_dir("held") / "sessions.json.lock").unlink(missing_ok=True)
                daemon.start()
                self.assertEqual(self.texts(key, api=daemon.client()), ["edited"])
                self.assertNotIn("old", (daemon.agent_dir() / f"{session_id}.jsonl").read_text())

    def hold_checkpoint(self, daemon, agent):
        """A lock that a living program holds (this one): events of that agent stay beyond CHECKPOINT."""
        stat = open("/proc/self/stat").read()
        payload = {"pid": os.getpid(), "createdAt": "2026-01-01T00:00:00.000Z", "startedAt": int(time.time() * 1000),
                   "starttime": int(stat.rsplit(")", 1)[1].split()[19])}
        (daemon.agent_dir(agent) / "sessions.json.lock").write_text(json.dumps(payload))


class Archived(Case):
    def test_topics_of_an_archived_id_are_found(self):
        session = self.new()
        self.say(session["key"], "main")
        self.say(session["key"], "one", query="?topic=t1")
        self.say(session["key"], "two", query="?topic=t1")
        self.ok(self.api.delete(S(session["key"])))
        topics = self.ok(self.api.get(S(session["sessionId"], "main", "topics")), 200)["data"]
        self.assertEqual([(t["topic"], t["messageCount"]) for t in topics], [("t1", 2)])
        self.assertEqual(self.texts(session["sessionId"], query="topic=t1"), ["one", "two"])
        self.problem(self.api.get(S("nosuch", "main", "topics")), 404, "session_not_found")

    def test_archives_of_a_key_are_found_living_and_deleted(self):
        guest = self.daemon.client(self.daemon.token("viewer", agents=["main"], keyPrefix="agent:main:guest:"))
        for key in ("agent:main:guest:" + uid(), "agent:main:owner:" + uid()):
            first = self.new(key)
            self.say(key)
            self.ok(self.api.post(S(key, "main", "reset"), {"reason": "why"}), 200)
            second = self.ok(self.api.get(S(key)), 200)
            self.say(key)
            self.say(key, query="?topic=t")
            listed = self.ok(self.api.get(S(key, "main", "archives")), 200)
            self.assertEqual([(a["key"], a["sessionId"], a["reason"]) for a in listed["data"]],
                             [(key, first["sessionId"], "why")])
            self.ok(self.api.delete(S(key)))
            for _ in range(2):
                pages, path = [], S(key, "main", "archives") + "?limit=1"
                while path:
                    page = self.ok(self.api.get(path), 200)
                    pages += page["data"]
                    path = page["page"]["hasMore"] and f"{S(key, 'main', 'archives')}?limit=1&cursor={page['page']['next']}"
                self.assertEqual([(a["sessionId"], a["reason"], len(a["archivedAs"])) for a in pages],
                                 [(second["sessionId"], "deleted", 2), (first["sessionId"], "why", 1)])
                deleted = self.ok(self.api.get("/v1/agents/main/archives?limit=200"), 200)["data"]
                self.assertEqual([a["sessionId"] for a in deleted if a["key"] == key],
                                 [second["sessionId"], first["sessionId"]])
                for name in pages[0]["archivedAs"]:
                    eventually((self.daemon.agent_dir() / name).exists, what=name)
                own = key.startswith("agent:main:guest:")
                self.assertEqual(guest.get(S(key, "main", "archives")).status, 200 if own else 404)
                seen = self.ok(guest.get("/v1/agents/main/archives?limit=200"), 200)["data"]
                self.assertEqual(any(a["key"] == key for a in seen), own)
                self.assertTrue(all(a["key"].startswith("agent:main:guest:") for a in seen))
                self.daemon.restart(kill=True)
        self.problem(self.api.get(S("agent:main:never", "main", "archives")), 404, "session_not_found")
        self.problem(self.api.get("/v1/agents/main/archives?cursor=00"), 400, "bad_cursor")

    def test_archives_that_lay_there_are_told_to_whoever_sees_the_agent(self):
        daemon = self.spawn(start=False)
        daemon.agent_dir().mkdir(parents=True)
        name = "lay-there.jsonl.reset.2026-02-21T21-31-50.885Z"
        (daemon.agent_dir() / name).write_text("{}\n")
        daemon.start()
        listed = self.ok(daemon.client().get("/v1/agents/main/archives"), 200)["data"]
        self.assertEqual([(a["key"], a["sessionId"], a["archivedAs"]) for a in listed], [(None, "lay-there", [name])])
        guest = daemon.client(daemon.token("viewer", agents=["main"], keyPrefix="agent:main:guest:"))
        self.assertEqual(self.ok(guest.get("/v1/agents/main/archives"), 200)["data"], [])

    def test_an_empty_page_with_more_behind_it_is_documented(self):
        document = self.ok(self.daemon.anonymous().get("/openapi.json"), 200)
        get = document["paths"]["/v1/agents/{agent}/sessions/{key}/messages"]["get"]
        types = next(p for p in get["parameters"] if p.get("name") == "types")
        self.assertIn("empty", types["description"])


class Places(Case):
    def test_the_header_has_the_sessions_own_cwd(self):
        key = self.new(cwd="/srv/project")["key"]
        self.say(key)
        self.say(key, query="?topic=t")
        for query in ("", "?topic=t"):
            header = json.loads(self.api.get(S(key, "main", "transcript") + query).raw.split(b"\n")[0])
            self.assertEqual(header["cwd"], "/srv/project")
        self.ok(self.api.post(S(key, "main", "reset")), 200)
        self.say(key)
        header = json.loads(self.api.get(S(key, "main", "transcript")).raw.split(b"\n")[0])
        self.assertEqual(header["cwd"], "/srv/project")
        self.invalid(self.api.post("/v1/agents/main/sessions", {"entry": {"cwd": 7}}), "/entry/cwd")

    def test_history_outlives_deletion_and_a_new_session(self):
        key = self.new()["key"]
        ids = []
        for step in ("reset", "delete", "delete"):
            ids.insert(0, self.ok(self.api.get(S(key)), 200)["sessionId"])
            self.say(key)
            if step == "reset":
                self.ok(self.api.post(S(key, "main", "reset")), 200)
            else:
                self.ok(self.api.delete(S(key)))
                self.daemon.restart()
                self.new(key)
        history = self.ok(self.api.get(S(key, "main", "history")), 200)["data"]
        self.assertTrue(history[0]["current"])
        self.assertEqual([h["sessionId"] for h in history[1:]], ids)
        self.assertEqual([len(h["archivedAs"]) for h in history[1:]], [1, 1, 1])

    def test_a_session_id_with_two_dots_is_refused(self):
        for session_id in ("a..b", "a.."):
            self.problem(self.api.post("/v1/agents/main/sessions", {"sessionId": session_id}), 422, "invalid_id")
            self.assertEqual(self.api.put(S("agent:main:" + uid()), {"sessionId": session_id}).status, 422)
        self.ok(self.api.post("/v1/agents/main/sessions", {"sessionId": "a.b" + uid()}), 201)

    def test_rooms_that_differ_by_case_alone(self):
        for channel, kind, one, other in (("matrix", "channel", "!AbC%s:hs", "!aBc%s:hs"),
                                          ("signal", "group", "AbC%s=", "aBc%s=")):
            with self.subTest(channel=channel):
                self.are_two(channel, kind, one, other)
        for channel, kind in (("slack", "channel"), ("matrix", "direct")):  # users have no case there
            word = uid()
            first = self.inbound(channel=channel, chatType=kind, peer="CAb" + word)
            self.assertEqual(self.inbound(channel=channel, chatType=kind, peer="caB" + word)["sessionKey"],
                             first["sessionKey"])

    def are_two(self, channel, kind, one, other):
        word = uid()
        first = self.inbound(channel=channel, chatType=kind, peer=one % word, text="in one")
        second = self.inbound(channel=channel, chatType=kind, peer=other % word, text="in the other")
        self.assertNotEqual(first["sessionKey"], second["sessionKey"])
        self.assertTrue(second["created"])
        self.assertEqual(self.texts(first["sessionKey"]), ["in one"])
        self.assertEqual(self.texts(second["sessionKey"]), ["in the other"])
        again = self.inbound(channel=channel, chatType=kind, peer=one % word)
        self.assertEqual(again["sessionKey"], first["sessionKey"])
        only = self.daemon.client(self.daemon.token("viewer", keyPrefix=first["sessionKey"]))
        self.assertEqual(only.get(S(first["sessionKey"])).status, 200)
        self.assertEqual(only.get(S(second["sessionKey"])).status, 404)


class OwnCase(Places):
    """With channels of its own in the configuration."""

    config = {"routing": {"caseSensitive": ["line"]}}

    def test_rooms_that_differ_by_case_alone(self):
        self.are_two("line", "direct", "UAb%s", "UaB%s")
        one = self.inbound(channel="matrix", chatType="channel", peer="!AbC" + (word := uid()))
        self.assertEqual(self.inbound(channel="matrix", chatType="channel", peer="!aBc" + word)["sessionKey"],
                         one["sessionKey"])


class Spellings(Case):
    def test_a_put_of_another_spelling_is_a_put_of_the_session_that_is_there(self):
        for key, spelling in (("agent:main:slack:direct:v1", "slack:direct:v1"), ("agent:main:slack:direct:v2", "agent:main:slack:direct:v2 "),
                              ("agent:main:slack:direct:v3", " slack:dm:V3"), ("agent:main:main", "main")):
            with self.subTest(spelling):
                made = self.new(key)
                self.say(key, "valuable")
                self.ok(self.api.put(S(spelling), {"label": "new"}), 200)
                self.assertEqual(self.ok(self.api.get(S(key)))["sessionId"], made["sessionId"])
                self.assertEqual(len(self.messages(key)), 1)

    def test_a_channels_token_gets_no_hidden_session_by_another_spelling(self):
        guest = self.daemon.client(self.daemon.token("runner", channel="slack"))
        for key, spelling in (("agent:main:foo", "agent:main:foo "), ("agent:main:bar", "bar")):
            with self.subTest(spelling):
                made = self.new(key, channel="discord")
                self.problem(guest.put(S(spelling), {"channel": "slack"}), 403)
                now = self.ok(self.api.get(S(key)))
                self.assertEqual((now["sessionId"], now["channel"]), (made["sessionId"], "discord"))

    def test_no_client_names_a_session_id_that_others_use_as_a_key(self):
        guest = self.daemon.client(self.daemon.token("runner", keyPrefix="agent:main:guest:"))
        for name in ("main", "Global", "unknown", "heartbeat"):
            made = guest.post("/v1/agents/main/sessions", {"key": f"agent:main:guest:{uid()}", "sessionId": name})
            self.problem(made, 422, "reserved_name")

    def test_a_limited_token_reads_the_archives_of_its_own_keys(self):
        guest = self.daemon.client(self.daemon.token("runner", keyPrefix="agent:main:guest:"))
        stranger = self.daemon.client(self.daemon.token("runner", keyPrefix="agent:main:other:"))
        key = f"agent:main:guest:{uid()}"
        old = self.new(key)["sessionId"]
        self.say(key, "before")
        self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        self.assertEqual(len(self.ok(guest.get(S(old, "main", "messages")))["data"]), 1)
        self.assertEqual(guest.get(S(old, "main", "topics")).status, 200)
        self.problem(stranger.get(S(old, "main", "messages")), 404)


class KeysOfOpenClaw(Case):
    """In a store that OpenClaw writes too, a key is the one that it makes."""

    config = {"store": {"mode": "shared"}}

    def stored(self, *keys):
        """A daemon over a store that has these keys, each changed later than the one before."""
        daemon = self.spawn(self.config, start=False)
        folder = daemon.agent_dir()
        folder.mkdir(parents=True)
        now = int(time.time() * 1000) - len(keys)
        (folder / "sessions.json").write_text(json.dumps(
            {key: {"sessionId": f"s-{i}", "updatedAt": now + i} for i, key in enumerate(keys)}))
        return daemon.start()

    def told(self, api, peer, **more):
        return self.ok(api.post("/v1/inbound", {"channel": "irc", "chatType": "channel", "peer": peer, "text": "x",
                                                "from": "ada", **more}), 200, 201)

    def test_a_key_that_openclaw_lowered_is_found_by_the_name_that_the_platform_writes(self):
        daemon = self.stored("agent:main:irc:channel:#überblick", "agent:main:irc:channel:#привет")
        api = daemon.client()
        for i, peer in enumerate(("#Überblick", "#ПРИВЕТ")):
            told = self.told(api, peer)
            self.assertEqual((told["sessionId"], told["created"]), (f"s-{i}", False))
        made = self.told(api, "#ΟΔΟΣ")
        self.assertEqual(made["sessionKey"], "agent:main:irc:channel:#οδος")
        guest = daemon.client(daemon.token("viewer", keyPrefix="agent:main:irc:channel:#ÜBER"))
        self.assertEqual([row["key"] for row in self.ok(guest.get("/v1/agents/main/sessions"))["data"]],
                         ["agent:main:irc:channel:#überblick"])
        self.assertEqual(guest.get(S("agent:main:irc:channel:#Überblick")).status, 200)
        self.problem(guest.get(S("agent:main:irc:channel:#привет")), 404)
        rows = self.ok(api.get("/v1/agents/main/sessions?keyPrefix=" + quote("irc:channel:#ПРИ")))["data"]
        self.assertEqual([row["sessionId"] for row in rows], ["s-1"])

    def test_a_key_that_is_named_exactly_is_that_one_and_a_message_comes_to_the_one_changed_last(self):
        loud, odd = "agent:main:irc:channel:#ÜBER", "agent:main:irc:channel:#ÜbEr"
        for keys in ((loud, odd), (odd, loud)):
            daemon = self.stored(*keys)
            api = daemon.client()
            for i, key in enumerate(keys):
                self.assertEqual(self.ok(api.get(S(key)))["sessionId"], f"s-{i}")
            self.assertEqual(self.told(api, "#Über")["sessionId"], "s-1")
        api = self.stored("agent:main:irc:channel:#über", loud).client()
        self.assertEqual(self.told(api, "#Über")["sessionId"], "s-0")

    def test_a_thread_of_a_telegram_group_is_its_topic_unless_it_is_a_thread_already(self):
        group = "agent:main:telegram:group:-100"
        daemon = self.stored(f"{group}:topic:1", f"{group}:thread:2", f"{group}:thread:3", f"{group}:topic:3")
        api = daemon.client()
        def told(thread, **more):
            return self.told(api, "-100", channel="telegram", chatType="group", threadId=thread, messageId=f"m{thread}", **more)
        self.assertEqual([told(n)["sessionId"] for n in (1, 2, 3)], ["s-0", "s-1", "s-2"])
        self.assertEqual([told(n).get("duplicate") for n in (1, 2, 3)], [True] * 3)
        made = told(4)
        self.assertEqual((made["sessionKey"], made["created"]), (f"{group}:topic:4", True))
        self.assertTrue((daemon.agent_dir() / f"{made['sessionId']}-topic-4.jsonl").exists())
        guest = daemon.client(daemon.token("bridge", agents=["main"], keyPrefix=f"{group}:topic:"))
        self.assertEqual(guest.post("/v1/inbound", {"channel": "telegram", "chatType": "group", "peer": "-100", "text": "x",
                                                    "from": "ada", "threadId": 2}).status, 403)
        edited = api.post("/v1/inbound/edits", {"channel": "telegram", "peer": "-100", "messageId": "m4", "text": "y"})
        self.assertEqual(edited.status, 201)

    def test_a_topic_is_one_conversation_with_the_thread_that_it_was(self):
        group = "agent:main:telegram:group:-100"
        api = self.stored(f"{group}:thread:2").client()
        def told():
            return self.told(api, "-100", channel="telegram", chatType="group", threadId=2, messageId="m2")
        self.assertEqual(told()["sessionKey"], f"{group}:thread:2")
        self.ok(api.delete(S(f"{group}:thread:2")), 204)
        self.assertTrue(told()["duplicate"])

    def test_a_topic_is_reset_as_a_thread_is(self):
        api = self.spawn({**self.config, "session": {"resetByType": {"thread": {"mode": "idle", "idleMinutes": 77}}}}).client()
        key = self.told(api, "-100", channel="telegram", chatType="group", threadId=9)["sessionKey"]
        self.assertTrue(key.endswith(":topic:9"))
        self.assertEqual(self.ok(api.get(S(key, "main", "freshness")))["rule"]["idleMinutes"], 77)

    def test_the_archives_of_a_key_that_new_sessions_would_not_get_are_its_own(self):
        for key in ("agent:main:irc:channel:#Überblick", "agent:main:slack:channel:C1"):
            api = self.stored(key).client()
            self.say(key, "valuable", api=api)
            self.ok(api.delete(S(key)), 204)
            self.assertEqual(len(self.ok(api.get(S(key, "main", "archives")))["data"]), 1)
            self.ok(api.post(S(key, "main", "restore"), {}), 200, 201)
            self.assertEqual(self.texts(key, api=api), ["valuable"])

    def test_what_openclaw_keeps_in_a_topics_file_is_served_from_it_also_behind_a_reset(self):
        thread = "1700000001.000100"
        self.served_from_its_file(f"agent:main:slack:channel:c1:thread:{thread}", thread, channel="slack", peer="c1", threadId=thread)
        self.served_from_its_file("agent:main:discord:channel:998877", "998877", channel="discord", peer="998877")

    def served_from_its_file(self, key, name, peer, **at):
        daemon = self.spawn(self.config, start=False)
        folder = daemon.agent_dir()
        folder.mkdir(parents=True)
        own = folder / f"s-1-topic-{name}.jsonl"
        own.write_text('{"type":"session","version":3,"id":"s-1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n' + line("asked in the thread"))
        (folder / "sessions.json").write_text(json.dumps(
            {key: {"sessionId": "s-1", "updatedAt": int(time.time() * 1000), "sessionFile": str(own)}}))
        api = daemon.start().client()
        def said(query=""):
            return self.texts(key, api=api, query="view=chat" + query)
        self.assertEqual(said(), ["asked in the thread"])
        told = self.told(api, peer, **at, text="and now?", messageId="m1")
        self.assertEqual((told["sessionId"], told["created"]), ("s-1", False))
        self.assertEqual(said(), ["asked in the thread", "and now?"])
        self.ok(api.post("/v1/inbound/edits", {"channel": at["channel"], "peer": peer, "messageId": "m1", "text": "and then?"}), 201)
        self.assertEqual(said(), ["asked in the thread", "and then?"])
        self.assertEqual(self.ok(api.get(S(key, "main", "topics")))["data"], [])
        reset = self.ok(api.post(S(key, "main", "reset"), {}), 200)
        self.assertEqual(reset["sessionFile"], str(folder / f"{reset['sessionId']}.jsonl"))
        self.assertEqual(said(), [])
        archive = reset["archivedAs"][0]
        self.assertEqual(said(f"&archive={archive}"), ["asked in the thread", "and then?"])
        daemon.restart(kill=True)
        api = daemon.client()
        self.told(api, peer, **at, text="anew")
        self.assertEqual(self.texts(key, api=api), ["anew"])
        eventually(lambda: "anew" in (folder / f"{reset['sessionId']}.jsonl").read_text())

    def test_a_thread_that_is_made_names_its_file_where_openclaw_looks_for_it(self):
        daemon = self.spawn(self.config)
        api = daemon.client()
        made = self.told(api, "c1", channel="slack", threadId="17.5")
        entry = self.ok(api.get(S(made["sessionKey"])))
        self.assertEqual(entry["sessionFile"], str(daemon.agent_dir() / f"{made['sessionId']}.jsonl"))
        self.assertIn("sessionFile", self.ok(api.get(S(self.told(api, "998877", channel="discord")["sessionKey"]))))
        self.assertNotIn("sessionFile", self.ok(api.get(S(self.told(api, "c1", channel="slack")["sessionKey"]))))
        own = self.spawn().client()
        self.assertNotIn("sessionFile", self.ok(own.get(S(self.told(own, "c1", channel="slack", threadId="17.5")["sessionKey"]))))

    def test_a_store_of_its_own_has_threads(self):
        daemon = self.spawn()
        made = self.told(daemon.client(), "-100", channel="telegram", chatType="group", threadId=4)
        self.assertEqual(made["sessionKey"], "agent:main:telegram:group:-100:thread:4")


class LocksThatAreNone(Case):
    config = {"store": {"mode": "shared"}}

    def test_a_folder_in_the_place_of_one_transcripts_lock_stops_nobody_else(self):
        key, other = f"agent:main:{uid()}", f"agent:two:{uid()}"
        made = self.new(key)
        self.say(key, "one")
        self.new(other)
        lock = self.daemon.agent_dir() / (made["sessionId"] + ".jsonl.lock")
        lock.mkdir()
        self.api.post(S(key, "main", "reset"), {})
        for _ in range(3):
            self.ok(self.api.post(S(other, "two", "messages"), {"role": "user", "text": "on"}), 201)
            self.ok(self.api.get(S(other, "two", "messages")))
        lock.rmdir()
        old = S(made["sessionId"], "main", "messages")
        eventually(lambda: [e["id"] for e in self.api.get(old).json.get("data", [])])  # archived, and all there


class PurgesInASharedStore(Case):
    config = {"store": {"mode": "shared"}}
    test_a_purged_id_is_used_again_under_its_key = Purges.test_a_purged_id_is_used_again_under_its_key
    test_what_people_changed_of_a_purged_message_is_forgotten = Purges.test_what_people_changed_of_a_purged_message_is_forgotten


class Fences(Case):
    """A token of one prefix, over restarts."""
    runs = {"asan", "tsan"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.guest = cls.daemon.client(cls.daemon.token("runner", agents=["main"], keyPrefix="agent:main:guest:"))

    def test_whatever_an_id_is_taken_by_a_limited_token_reads_the_same_refusal(self):
        living, archived, purged = self.new(), self.new(), self.new()
        topical, orphan = self.new(), "orphan-" + uid()
        self.say(archived["key"])
        self.say(topical["key"], query="?topic=t")
        for gone, how in ((archived, ""), (topical, ""), (purged, "?purge=true")):
            self.ok(self.api.delete(S(gone["key"]) + how), 204)
        (self.daemon.agent_dir() / f"{orphan}.jsonl").write_text(line("nobody's"))
        for restart in (lambda: None, self.daemon.restart, lambda: self.daemon.restart(kill=True)):
            restart()
            told = set()
            for session_id in (living["sessionId"], archived["sessionId"], purged["sessionId"], topical["sessionId"], orphan):
                key = "agent:main:guest:" + uid()
                body = {"key": key, "sessionId": session_id}
                for reply in (self.guest.post("/v1/agents/main/sessions", body), self.guest.put(S(key), {"sessionId": session_id}),
                              self.guest.post("/v1/agents/main/sessions", body, idempotency_key=uid())):
                    told.add(self.problem(reply, 409, "session_exists")["detail"].replace(session_id, "<id>"))
                self.problem(self.guest.get(S(key)), 404, "session_not_found")
            self.assertEqual(len(told), 1, told)

    def test_an_archive_of_another_is_not_there_by_any_route_of_reading(self):
        theirs = self.new()
        self.say(theirs["key"], "secret")
        self.say(theirs["key"], "secret", query="?topic=t")
        self.ok(self.api.delete(S(theirs["key"])), 204)
        for what in ("/messages", "/messages?topic=t", "/transcript", "/transcript?topic=t", "/topics"):
            self.assertEqual(self.api.get(S(theirs["sessionId"]) + what).status, 200)
            self.problem(self.guest.get(S(theirs["sessionId"]) + what), 404, "session_not_found")
        own = self.new("agent:main:guest:" + uid(), api=self.guest)
        for what in ("/messages", "/transcript"):  # nor does the guard of a session of its own tell it
            reply = self.guest.get(S(own["key"]) + f"{what}?sessionId={theirs['sessionId']}")
            self.assertNotIn(b"secret", reply.raw)

    def test_a_limited_token_that_deletes_and_makes_its_key_again_has_both_histories_after_a_kill(self):
        key, ids = self.new("agent:main:guest:" + uid(), api=self.guest)["key"], []
        for turn in range(3):
            ids.insert(0, self.ok(self.guest.get(S(key)), 200)["sessionId"])
            self.say(key, f"turn {turn}", api=self.guest)
            self.ok(self.guest.delete(S(key)), 204)
            self.daemon.restart(kill=turn % 2 == 0)
            self.problem(self.guest.get(S(key)), 404, "session_not_found")
            self.new(key, api=self.guest)
        self.assertEqual([h["sessionId"] for h in self.ok(self.guest.get(S(key, "main", "history")))["data"]][1:], ids)
        self.assertEqual([a["sessionId"] for a in self.ok(self.guest.get(S(key, "main", "archives")))["data"]], ids)
        self.assertEqual([self.texts(i) for i in ids], [["turn 2"], ["turn 1"], ["turn 0"]])
        self.assertEqual(self.messages(key, api=self.guest), [])

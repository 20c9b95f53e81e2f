"""Where one rule of the contract meets another: limited tokens and ids, other programs and resets, clocks and kept answers, bounds at
their edges, and a restart between any two of these. Each test says what it holds; what the contract leaves open is not asked."""

import os
import re
import time

from harness.case import Case, S, json, text_of, uid
from preload import preload
from harness.sessiond import eventually

runs = {"asan", "tsan"}

ALL = "/v1/agents/main/sessions"
REPLAYED = "Idempotency-Replayed"
MIB = 1 << 20
HOUR = 3_600_000


class Neighbours(Case):
    """What the classes below share."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.guest = cls.daemon.client(cls.daemon.token("runner", agents=["main"], keyPrefix="agent:main:guest:"))

    def mine(self, api=None, **more):
        return self.ok((api or self.guest).post(ALL, {"key": "agent:main:guest:" + uid(), **more}), 201)

    def post(self, key, body, query="", api=None, **named):
        return (api or self.api).post(S(key, "main", "messages") + query, body, **named)

    def once(self, request, first=None):
        """`request` again is the first answer again, to the byte."""
        first = first or request()
        self.ok(first)
        again = request()
        self.assertEqual((again.status, again.raw, again.headers.get(REPLAYED)), (first.status, first.raw, "true"))
        return first

    def read(self, key, order="asc", query="", api=None, limit=200):
        """A transcript read to its end by pages; the pages."""
        pages, at = [], ""
        while True:
            reply = (api or self.api).get(S(key, "main", "messages") + f"?limit={limit}&order={order}{query}{at}")
            page = self.ok(reply, 200)
            pages.append((page["data"], len(reply.raw)))
            if not page["page"]["hasMore"]:
                return pages
            self.assertLess(len(pages), 500)
            at = f"&after={page['page']['nextAfter']}" if order == "asc" else f"&before={page['page']['nextBefore']}"

    def poll(self, api, after, **query):
        """The events after an id, by pages, until there are none."""
        found = []
        while True:
            page = self.ok(api.get(f"/v1/events?poll=1&waitMs=0&limit=1000&after={after}" + "".join(f"&{k}={v}" for k, v in query.items())))
            if not page["data"]:
                return found
            found += page["data"]
            after = page["next"]

    def seen(self, api, keys, topics=("t",), ids=()):
        """All that a client can read of these sessions, without what moves with every answer."""
        state = {}
        for key in keys:
            for what in ("", "/topics", "/history", "/archives", "/children", "/send-policy", "/messages?limit=200&order=asc",
                         *(f"/messages?limit=200&order=asc&topic={t}" for t in topics)):
                reply = api.get(S(key) + what)
                body = reply.json
                for member in ("asOf", "requestId", "instance"):
                    body.pop(member, None)
                state[key, what] = reply.status, body
        for session_id in ids:
            state[session_id] = [text_of(m) for m in self.messages(session_id, api=api)]
        return state

    # -- another program -----------------------------------------------------------------------------------------------

    def line(self, text, id=None):
        return json.dumps({"type": "message", "id": id or uid(8), "parentId": None, "timestamp": "2026-01-02T03:04:05.678Z",
                           "message": {"role": "user", "content": text}}) + "\n"

    def append(self, daemon, session_id, *texts):
        with open(daemon.agent_dir() / f"{session_id}.jsonl", "ab") as file:
            file.write("".join(map(self.line, texts)).encode())

    def rewrite(self, daemon, change):
        """Another program reads the store, changes it and puts it in the place of the old one."""
        path = daemon.agent_dir() / "sessions.json"
        store = daemon.sessions_json()
        change(store)
        temporary = path.with_name(f"foreign.{uid()}")
        temporary.write_text(json.dumps(store))
        os.rename(temporary, path)


class Fences(Neighbours):
    """Tokens that see a part."""

    def test_two_tokens_with_one_idempotency_key_have_an_answer_each(self):
        session, key, body = self.mine(), uid(), {"role": "user", "text": "once each"}
        answers = [self.once(lambda api=api: self.post(session["key"], body, api=api, idempotency_key=key))
                   for api in (self.guest, self.api)]
        self.assertNotEqual(answers[0].json["ids"], answers[1].json["ids"])
        self.assertEqual(self.texts(session["key"]), ["once each"] * 2)

    def test_a_refused_id_is_no_kept_answer_and_the_same_key_takes_it_when_it_is_free(self):
        old, key = self.mine(), uid()
        self.say(old["key"], "of the first", api=self.guest)
        body = {"key": "agent:main:guest:" + uid(), "sessionId": old["sessionId"]}

        def take():
            return self.guest.post(ALL, body, idempotency_key=key)

        for _ in range(2):
            refused = take()
            self.problem(refused, 409, "session_exists")
            self.assertIsNone(refused.headers.get(REPLAYED))
        self.ok(self.guest.delete(S(old["key"])), 204)
        first = take()
        self.ok(first, 201)
        self.assertIsNone(first.headers.get(REPLAYED))
        self.daemon.restart(kill=True)
        self.once(take, first)
        self.assertEqual(self.messages(body["key"], api=self.guest), [], "the archive stays an archive")

    def test_whatever_an_id_is_taken_by_a_limited_token_reads_the_same_refusal(self):
        living, archived, purged = self.new(), self.new(), self.new()
        topical, orphan = self.new(), "orphan-" + uid()
        self.say(archived["key"])
        self.say(topical["key"], query="?topic=t")
        self.ok(self.api.delete(S(archived["key"])), 204)
        self.ok(self.api.delete(S(topical["key"])), 204)
        self.ok(self.api.delete(S(purged["key"]) + "?purge=true"), 204)
        (self.daemon.agent_dir() / f"{orphan}.jsonl").write_text(self.line("nobody's"))
        for restart in (lambda: None, self.daemon.restart, lambda: self.daemon.restart(kill=True)):
            restart()
            told = set()
            for session_id in (living["sessionId"], archived["sessionId"], purged["sessionId"], topical["sessionId"], orphan):
                key = "agent:main:guest:" + uid()
                for reply in (self.guest.post(ALL, {"key": key, "sessionId": session_id}), self.guest.put(S(key), {"sessionId": session_id}),
                              self.guest.post(ALL, {"key": key, "sessionId": session_id}, idempotency_key=uid())):
                    problem = self.problem(reply, 409, "session_exists")
                    told.add(problem["detail"].replace(session_id, "<id>"))
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
        own = self.mine()
        for what in ("/messages", "/transcript"):  # nor does the guard of a session of its own tell it
            reply = self.guest.get(S(own["key"]) + f"{what}?sessionId={theirs['sessionId']}")
            self.assertNotIn(b"secret", reply.raw)

    def test_a_limited_token_that_deletes_and_makes_its_key_again_has_both_histories_after_a_kill(self):
        session = self.mine()
        key, ids = session["key"], []
        for turn in range(3):
            ids.insert(0, self.ok(self.guest.get(S(key)), 200)["sessionId"])
            self.say(key, f"turn {turn}", api=self.guest)
            self.ok(self.guest.delete(S(key)), 204)
            self.daemon.restart(kill=turn % 2 == 0)
            self.problem(self.guest.get(S(key)), 404, "session_not_found")
            self.ok(self.guest.post(ALL, {"key": key}), 201)
        self.assertEqual([h["sessionId"] for h in self.ok(self.guest.get(S(key, "main", "history")))["data"]][1:], ids)
        self.assertEqual([a["sessionId"] for a in self.ok(self.guest.get(S(key, "main", "archives")))["data"]], ids)
        self.assertEqual([self.texts(i) for i in ids], [["turn 2"], ["turn 1"], ["turn 0"]])
        self.assertEqual(self.messages(key, api=self.guest), [])

    def test_a_limited_stream_over_restarts_tells_its_own_sessions_alone_and_all_of_them(self):
        after = self.ok(self.guest.get("/v1/sessions"), 200)["asOf"]
        wanted = []
        for turn in range(3):
            own = self.mine()
            said = self.say(own["key"], f"own {turn}", api=self.guest)
            self.say(self.new()["key"], "of others")
            self.ok(self.guest.post(S(own["key"], "main", "reset"), {}), 200)
            self.ok(self.guest.delete(S(own["key"])), 204)
            wanted += [(kind, own["key"]) for kind in ("session.created", "message.appended", "session.reset", "session.deleted")]
            self.assertEventId(said["asOf"])
            self.daemon.restart(kill=turn == 1)
        told = [(e["type"], e["key"]) for e in self.poll(self.guest, after)]
        self.assertEqual(told, wanted)

    def test_a_revoked_token_does_not_get_the_answer_that_was_kept_for_it(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "runner", "agents": ["main"], "keyPrefix": "agent:main:guest:"}), 201)
        api, session, key = self.daemon.client(made["token"]), self.mine(), uid()
        self.once(lambda: self.post(session["key"], {"role": "user", "text": "x"}, api=api, idempotency_key=key))
        self.ok(self.api.delete(f"/v1/admin/tokens/{made['id']}"), 204)
        for kill in (True, False):
            self.problem(self.post(session["key"], {"role": "user", "text": "x"}, api=api, idempotency_key=key), 401, "unauthorized")
            self.daemon.restart(kill=kill)
        self.assertEqual(self.texts(session["key"]), ["x"])


class Again(Neighbours):
    """The same request twice, with something between."""

    def test_a_message_to_a_session_that_was_reset_deleted_or_made_again_meanwhile_is_not_said_twice(self):
        session, key, body = self.new(), uid(), {"role": "user", "text": "once"}
        name, path = session["key"], S(session["key"])

        def say():
            return self.post(name, body, "?topic=t", idempotency_key=key)

        first = self.once(say)
        for between in (lambda: self.api.post(path + "/reset", {}), lambda: self.api.delete(path + "/topics/t"),
                        lambda: self.api.delete(path), lambda: self.api.post(ALL, {"key": name}), lambda: self.api.post(path + "/archive")):
            between()
            self.once(say, first)
        self.ok(self.api.post(path + "/unarchive"))
        self.daemon.restart(kill=True)
        self.once(say, first)
        self.assertEqual(self.messages(name, query="topic=t"), [])

    def test_a_topic_that_was_archived_begins_again_at_0_and_its_archive_is_not_lost(self):
        session = self.new()
        for turn in range(3):
            said = self.say(session["key"], f"turn {turn}", query="?topic=t")
            self.assertEqual((said["firstSeq"], said["lastSeq"]), (0, 0))
            self.ok(self.api.delete(S(session["key"], "main", "topics", "t")), 204)
            self.daemon.restart(kill=turn == 0)
            self.assertEqual(self.ok(self.api.get(S(session["key"], "main", "topics")))["data"], [])
        names = [n for a in self.ok(self.api.get(S(session["key"], "main", "archives")))["data"] for n in a["archivedAs"]]
        self.assertEqual(len(set(names)), 3, names)
        kept = sorted(text for name in names for text in re.findall(r"turn \d", (self.daemon.agent_dir() / name).read_text()))
        self.assertEqual(kept, ["turn 0", "turn 1", "turn 2"])

    def test_a_trigger_that_is_delivered_three_times_resets_once(self):
        for content in ({"text": "/new and this"}, {"content": [{"type": "text", "text": "/reset and this"}]}, {"text": "/new"},
                        {"content": "/reset", "topic": "t"}):
            with self.subTest(content):
                peer, event = "U" + uid(8), "slack:A:T:" + uid()
                before = self.inbound(peer=peer, text="before")
                body = {"channel": "slack", "chatType": "direct", "peer": peer, **content}
                first = self.once(lambda: self.api.post("/v1/inbound", body, idempotency_key=event))
                self.daemon.restart(kill="text" in content)
                self.once(lambda: self.api.post("/v1/inbound", body, idempotency_key=event), first)
                self.assertEqual(first.json["reset"], {"reason": "trigger", "previousSessionId": before["sessionId"]})
                history = self.ok(self.api.get(S(before["sessionKey"], "main", "history")))["data"]
                self.assertEqual([h["sessionId"] for h in history], [first.json["sessionId"], before["sessionId"]])
                alone = "and" not in str(content)
                self.assertEqual(self.texts(before["sessionKey"]), [] if alone else ["and this"])
                self.assertEqual((first.json["seq"] is None, first.json["activate"]), (alone, not alone))

    def test_reset_and_spawn_with_a_key_are_done_once_over_either_end(self):
        session = self.new()
        path, keys = S(session["key"]), (uid(), uid())
        resets = self.once(lambda: self.api.post(path + "/reset", {"reason": "r"}, idempotency_key=keys[0]))
        spawns = self.once(lambda: self.api.post(path + "/spawn", {"label": "c"}, idempotency_key=keys[1]))
        for kill in (False, True):
            self.daemon.restart(kill=kill)
            self.once(lambda: self.api.post(path + "/reset", {"reason": "r"}, idempotency_key=keys[0]), resets)
            self.once(lambda: self.api.post(path + "/spawn", {"label": "c"}, idempotency_key=keys[1]), spawns)
            self.problem(self.api.post(path + "/reset", {"reason": "s"}, idempotency_key=keys[0]), 422, "idempotency_key_reused")
        self.assertEqual(len(self.ok(self.api.get(path + "/history"))["data"]), 2)
        self.assertEqual([c["key"] for c in self.ok(self.api.get(path + "/children"))["data"]], [spawns.json["key"]])

    def test_a_request_that_was_refused_for_its_query_or_place_is_not_kept(self):
        session, key, body = self.new(), uid(), {"role": "user", "text": "x"}
        self.problem(self.post(session["key"], body, "?zz=1", idempotency_key=key), 400, "bad_request")
        self.problem(self.post(session["key"], {"entries": [body], "expectedSeq": 7}, idempotency_key=key), 412, "precondition_failed")
        self.once(lambda: self.post(session["key"], body, idempotency_key=key))
        self.assertEqual(self.texts(session["key"]), ["x"])

    def test_duplicates_have_the_places_of_the_first_in_a_batch_with_new_ones_after_a_kill(self):
        key, ids = self.new()["key"], [uid() for _ in range(5)]
        entries = [{"type": "message", "id": i, "message": {"role": "user", "content": i}} for i in ids]
        self.ok(self.post(key, {"entries": entries[:3]}), 201)
        for kill in (False, True):
            self.daemon.restart(kill=kill)
            for part, told in ((entries[:3], (0, 2, 3)), (entries[1:2], (1, 1, 1)), (entries[2:0:-1], (1, 2, 2))):
                body = self.ok(self.post(key, {"entries": part}), 201)
                self.assertEqual((body["firstSeq"], body["lastSeq"], body["duplicates"]), told)
        body = self.ok(self.post(key, {"entries": entries[2:]}), 201)
        self.assertEqual((body["firstSeq"], body["lastSeq"], body["duplicates"], body["ids"]), (2, 4, 1, ids[2:]))
        other = {**entries[0], "message": {"role": "user", "content": "other"}}
        self.problem(self.post(key, {"entries": [{"role": "user", "text": "new"}, other]}), 409, "entry_id_conflict")
        self.assertEqual([m["id"] for m in self.messages(key)], ids, "nothing of a batch that is refused")


class Clocks(Neighbours):
    """The wall clock steps between a request and the same request again."""

    @classmethod
    def setUpClass(cls):
        pass  # a daemon for each

    def daemon_at(self, wall_ms=0):
        daemon = preload(self.spawn(start=False))
        daemon.page.wall_ms = wall_ms
        return daemon.start()

    STEPS = (30 * HOUR, -30 * HOUR, 24 * 365 * HOUR, 0)

    def test_another_body_or_topic_stays_refused_whatever_the_clock_and_the_restart(self):
        daemon = self.daemon_at()
        api, key, body = daemon.client(), uid(), {"role": "user", "text": "once"}
        name = self.new(api=api)["key"]
        first = self.once(lambda: self.post(name, body, "?topic=t", api, idempotency_key=key))
        for at, wall_ms in enumerate(self.STEPS):
            daemon.page.wall_ms = wall_ms
            if at % 2:
                daemon.restart(kill=at == 1)
            self.problem(self.post(name, {**body, "text": "other"}, "?topic=t", api, idempotency_key=key), 422, "idempotency_key_reused")
            self.problem(self.post(name, body, "?topic=u", api, idempotency_key=key), 422, "idempotency_key_reused")
            self.once(lambda: self.post(name, body, "?topic=t", api, idempotency_key=key), first)
        self.assertEqual([self.texts(name, api=api, query=q) for q in ("topic=t", "topic=u", "")], [["once"], [], []])

    def test_a_trigger_that_is_delivered_again_by_another_clock_does_not_reset_again(self):
        daemon = self.daemon_at()
        api, event = daemon.client(), "slack:A:T:" + uid()
        body = {"channel": "slack", "chatType": "direct", "peer": "u1", "text": "/new begin"}
        first = self.once(lambda: api.post("/v1/inbound", body, idempotency_key=event))
        for at, wall_ms in enumerate(self.STEPS):
            daemon.page.wall_ms = wall_ms
            daemon.restart(kill=at % 2 == 0)
            self.once(lambda: api.post("/v1/inbound", body, idempotency_key=event), first)
        self.assertEqual(self.texts(first.json["sessionKey"], api=api), ["begin"])
        self.assertEqual(self.ok(api.get(S(first.json["sessionKey"])))["sessionId"], first.json["sessionId"])

    def test_archives_that_were_made_by_a_clock_that_goes_back_are_all_kept(self):
        daemon = self.daemon_at()
        api, key, ids = daemon.client(), "agent:main:slack:channel:c1", []
        for at, wall_ms in enumerate((0, 30 * HOUR, -30 * HOUR, 1 - int(time.time() * 1000) + HOUR, 0)):
            daemon.page.wall_ms = wall_ms
            made = api.post(ALL, {"key": key})
            ids.append(self.ok(made, 201)["sessionId"])
            self.say(key, f"turn {at}", api=api)
            if at % 2:
                self.ok(api.post(S(key, "main", "reset"), {}), 200)
            self.ok(api.delete(S(key)), 204)
            if at in (1, 3):
                daemon.restart(kill=at == 3)
        self.assertEqual([self.texts(i, api=api) for i in ids], [[f"turn {n}"] for n in range(5)])
        listed = {a["sessionId"] for a in self.ok(api.get(S(key, "main", "archives") + "?limit=200"))["data"]}
        self.assertLessEqual(set(ids), listed)


class Others(Neighbours):
    """Another program writes the same tree."""
    config = {"store": {"cacheTtlMs": 200}}

    def fresh(self, key):
        return self.api.get(S(key), cache_control="no-cache")

    def test_a_line_of_another_program_goes_into_the_archive_of_the_reset_and_not_into_the_new_transcript(self):
        for end in ("reset", "delete", "inbound"):
            with self.subTest(end):
                got = self.inbound(text="ours")
                key, old = got["sessionKey"], got["sessionId"]
                self.assertEqual(self.texts(key), ["ours"])  # in the file
                self.append(self.daemon, old, "theirs", "theirs too")
                eventually(lambda: len(self.messages(key)) == 3, what="their lines")
                if end == "reset":
                    self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
                elif end == "delete":
                    self.ok(self.api.delete(S(key)), 204)
                    self.ok(self.api.post(ALL, {"key": key}), 201)
                else:
                    self.inbound(peer=key.rsplit(":", 1)[1], text="/new")
                self.daemon.restart(kill=True)
                self.assertEqual(self.messages(key), [])
                self.assertEqual(self.texts(old), ["ours", "theirs", "theirs too"])
                self.problem(self.api.get(S(key, "main", "messages") + f"?sessionId={old}"), 409, "session_reset")

    def test_our_append_behind_a_line_of_another_program_has_the_place_that_get_shows(self):
        session = self.new()
        key = session["key"]
        self.say(key, "0")
        self.texts(key)
        for turn in range(1, 8, 2):
            self.append(self.daemon, session["sessionId"], str(turn))
            eventually(lambda: len(self.messages(key)) == turn + 1, what="their line")
            self.problem(self.post(key, {"entries": [{"role": "user", "text": "x"}], "expectedSeq": turn}), 412, "precondition_failed")
            said = self.ok(self.post(key, {"entries": [{"role": "user", "text": str(turn + 1)}], "expectedSeq": turn + 1}), 201)
            got = self.messages(key)
            self.assertEqual([(m["seq"], text_of(m)) for m in got], [(n, str(n)) for n in range(turn + 2)])
            self.assertEqual((said["firstSeq"], said["ids"][0], got[-1]["parentId"]), (turn + 1, got[-1]["id"], got[-2]["id"]))
            if turn % 4 == 3:
                self.daemon.restart(kill=turn == 3)

    def test_an_id_that_a_line_of_another_program_bears_is_not_given_to_other_content(self):
        session, taken = self.new(), uid(8)
        self.say(session["key"], "0")
        self.texts(session["key"])
        with open(self.daemon.agent_dir() / f"{session['sessionId']}.jsonl", "a") as file:
            file.write(self.line("theirs", taken))
        eventually(lambda: len(self.messages(session["key"])) == 2, what="their line")
        for kill in (False, True):
            self.problem(self.post(session["key"], {"role": "user", "text": "ours", "id": taken}), 409, "entry_id_conflict")
            self.daemon.restart(kill=kill)
        self.assertEqual(self.texts(session["key"]), ["0", "theirs"])

    def test_a_deletion_by_another_program_stands_and_the_key_can_be_made_again(self):
        session = self.new(label="first")
        key = session["key"]
        after = self.say(key, "old")["asOf"]
        self.rewrite(self.daemon, lambda store: store.pop(key))
        eventually(lambda: self.fresh(key).status == 404, what="the deletion")
        self.daemon.restart(kill=True)
        self.problem(self.fresh(key), 404, "session_not_found")
        again = self.ok(self.api.post(ALL, {"key": key}), 201)
        self.assertNotEqual(again["sessionId"], session["sessionId"])
        self.assertNotIn("label", again)
        self.say(key, "new")
        self.daemon.restart(kill=True)
        self.assertEqual(self.texts(key), ["new"])
        told = [e["type"] for e in self.poll(self.api, after) if e.get("key") == key]
        self.assertEqual(told, ["session.deleted", "session.created", "message.appended"])
        self.assertIn(key, self.daemon.sessions_json())

    def test_a_deleted_key_that_another_program_makes_again_is_there_over_a_kill(self):
        for how in ("new id", "old id, after a restart"):
            with self.subTest(how):
                session = self.new(label="kept")
                key = session["key"]
                stored = self.daemon.sessions_json()[key]
                self.ok(self.api.delete(S(key)), 204)
                self.daemon.checkpoint()
                if how == "new id":
                    stored["sessionId"] = "theirs-" + uid()
                else:
                    self.daemon.restart()
                after = self.ok(self.api.get("/v1/sessions?limit=1"))["asOf"]
                stored["updatedAt"] = int(time.time() * 1000)
                self.rewrite(self.daemon, lambda store: store.update({key: stored}))
                eventually(lambda: self.fresh(key).status == 200, what="the entry")
                for kill in (True, False):
                    self.daemon.restart(kill=kill)
                    back = self.ok(self.fresh(key), 200)
                    self.assertEqual((back["sessionId"], back["label"]), (stored["sessionId"], "kept"))
                told = [(e["type"], e["source"], e["data"]["reason"]) for e in self.poll(self.api, after) if e.get("key") == key]
                self.assertEqual(told, [("session.created", "external", "external")])

    def test_another_program_that_resets_a_session_is_seen_by_readers_of_the_old_id(self):
        session = self.new()
        key, new_id = session["key"], "theirs-" + uid()
        self.say(key, "old")
        (self.daemon.agent_dir() / f"{new_id}.jsonl").write_text(self.line("new"))
        self.rewrite(self.daemon, lambda store: store[key].update({"sessionId": new_id, "updatedAt": int(time.time() * 1000) + 1}))
        eventually(lambda: self.fresh(key).json["sessionId"] == new_id, what="the new id")
        for kill in (False, True):
            problem = self.problem(self.api.get(S(key, "main", "messages") + f"?sessionId={session['sessionId']}"), 409, "session_reset")
            self.assertEqual(problem["sessionId"], new_id)
            self.assertEqual(self.texts(key)[0], "new")
            self.say(key, "ours")
            self.daemon.restart(kill=kill)
        self.assertEqual(self.texts(key), ["new", "ours", "ours"])

    def test_a_store_that_vanishes_loses_nothing_whether_it_comes_back_or_not(self):
        daemon = self.spawn(self.config)
        api = daemon.client()
        said, patched, deleted = [self.new(f"agent:main:v:{c}", api=api, label=c)["key"] for c in "abc"]
        self.say(said, "before", api=api)
        store, aside = daemon.agent_dir() / "sessions.json", daemon.agent_dir() / "aside"
        made, label = [], "b"
        for comes_back, kill in ((True, False), (False, True), (True, True), (False, False)):
            daemon.checkpoint()
            after, wanted = self.ok(api.get("/v1/sessions?limit=1"))["asOf"], []
            os.rename(store, aside)
            self.say(said, "meanwhile", api=api)
            if comes_back:
                os.rename(aside, store)
            else:
                label = "patched " + uid()
                self.ok(api.patch(S(patched), {"label": label}), 200)
                self.ok(api.delete(S(deleted)), 204)
                made.append(self.new(api=api)["key"])
                wanted = [("session.deleted", deleted), ("session.created", made[-1])]
                eventually(store.exists, what="the store, written again")
            self.ok(api.get(ALL, cache_control="no-cache"))
            daemon.restart(kill=kill)
            self.assertEqual([self.ok(api.get(S(k), cache_control="no-cache"))["label"] for k in (said, patched)], ["a", label])
            self.assertEqual(api.get(S(deleted)).status, 200 if comes_back else 404)
            told = [(e["type"], e["key"]) for e in self.poll(api, after) if e["type"] in ("session.deleted", "session.created")]
            self.assertEqual(told, wanted)
            if not comes_back:
                self.new(deleted, api=api)
        self.assertEqual(self.texts(said, api=api), ["before"] + ["meanwhile"] * 4)
        self.assertEqual(set(daemon.sessions_json()), {said, patched, deleted, *made})

    def test_a_transcript_that_vanishes_and_comes_back_is_read_again_and_goes_on(self):
        session = self.new()
        key, path = session["key"], self.daemon.agent_dir() / f"{session['sessionId']}.jsonl"
        for n in range(3):
            self.say(key, str(n))
        self.texts(key)
        self.daemon.checkpoint()
        aside = path.with_name("aside-" + uid())
        os.rename(path, aside)
        self.fresh(key)
        os.rename(aside, path)
        eventually(lambda: self.texts(key) == ["0", "1", "2"], what="the transcript")
        self.assertEqual(self.say(key, "3")["firstSeq"], 3)
        self.daemon.restart(kill=True)
        self.assertEqual([(m["seq"], text_of(m)) for m in self.messages(key)], [(n, str(n)) for n in range(4)])

    def test_another_spelling_of_the_same_values_is_no_change_and_ours_stays(self):
        session = self.new(label="é", **{"x-n": {"a": [1, "ü"]}})
        key = session["key"]
        after = self.ok(self.api.patch(S(key), {"name": "ours ö"}), 200)["rev"]
        self.daemon.checkpoint()
        events = self.ok(self.api.get("/v1/sessions?limit=1"))["asOf"]
        path = self.daemon.agent_dir() / "sessions.json"
        temporary = path.with_name("foreign." + uid())
        temporary.write_text(json.dumps(json.loads(path.read_bytes()), ensure_ascii=True, indent=3))
        os.rename(temporary, path)
        self.ok(self.fresh(key), 200)
        self.daemon.restart(kill=True)
        now = self.ok(self.fresh(key), 200)
        self.assertEqual((now["label"], now["name"], now["x-n"], now["rev"]), ("é", "ours ö", {"a": [1, "ü"]}, after))
        self.assertEqual([e for e in self.poll(self.api, events) if e.get("key") == key], [])


class Edges(Neighbours):
    """Bounds, at the last that passes and the first that does not."""
    config = {"session": {"spawn": {"count": 1000}}}

    def fill(self, key, topics):
        """Topics t0, t1, …, of which all but three lay there when the daemon started."""
        for n in range(2):
            self.say(key, "x", query=f"?topic=t{n}")
        self.daemon.checkpoint()
        session_id = self.ok(self.api.get(S(key)))["sessionId"]
        self.assertEqual(self.daemon.stop(), 0)
        folder = self.daemon.agent_dir()
        text = (folder / f"{session_id}-topic-t0.jsonl").read_text()
        for n in range(2, topics - 1):
            (folder / f"{session_id}-topic-t{n}.jsonl").write_text(text)
        self.daemon.start()
        self.say(key, "x", query=f"?topic=t{topics - 1}")

    def test_1000_fields_20000_members_and_almost_1_mib_pass_and_no_more(self):
        def some(count):
            return {f"f{n}": n for n in range(count)}
        kept = []
        for entry, more, pointer in ((some(1000), some(1001), ""), ({"deep": some(19_999)}, {"deep": some(20_001)}, "/deep"),
                                     ({"big": "x" * (MIB - 1024)}, {"big": "x" * MIB}, "/big")):
            key = self.new("agent:main:x:" + uid())["key"]
            self.invalid(self.api.patch(S(key), more), pointer)
            self.invalid(self.api.put(S("agent:main:x:" + uid()), more), pointer)
            self.invalid(self.api.post(ALL, {"entry": more}), "/entry" + pointer)
            self.invalid(self.api.post(S(key, "main", "spawn"), {"entry": more}), "/entry" + pointer)
            self.ok(self.api.patch(S(key), entry), 200)
            self.invalid(self.api.patch(S(key), {"one": {"more": "y" * 1024}}), pointer)
            for reply in (self.api.put(S("agent:main:x:" + uid()), entry), self.api.post(S(key, "main", "spawn"), {"entry": entry})):
                kept.append((self.ok(reply, 201)["key"], entry))
            self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        self.daemon.restart(kill=True)
        for key, entry in kept:
            self.assertTrue(entry.items() <= self.ok(self.api.get(S(key)), 200).items(), key)

    def test_1000_topics_pass_by_any_route_and_a_deleted_one_makes_room_for_the_refused_request(self):
        key = self.new("agent:main:slack:channel:" + uid())["key"]
        self.fill(key, 1000)
        self.assertEqual(len(self.ok(self.api.get(S(key, "main", "topics")))["data"]), 1000)
        event, body = uid(), {"role": "user", "text": "late"}
        for kill in (False, True):
            self.invalid(self.post(key, body, "?topic=late", idempotency_key=event), "/topic")
            self.invalid(self.api.post(S(key, "main", "outbound"), {"text": "x", "topic": "late"}), "/topic")
            self.say(key, "more", query="?topic=t999")
            self.daemon.restart(kill=kill)
        self.ok(self.api.delete(S(key, "main", "topics", "t500")), 204)
        self.once(lambda: self.post(key, body, "?topic=late", idempotency_key=event))
        self.invalid(self.post(key, body, "?topic=t500"), "/topic")
        self.assertEqual(self.texts(key, query="topic=late"), ["late"])

    def test_100_names_of_archives_are_told_and_the_101st_is_counted(self):
        for topics, more, ends in ((99, None, ("reset",)), (100, 1, ("reset", "delete"))):
            for end in ends:
                with self.subTest(topics=topics, end=end):
                    key = self.new()["key"]
                    after = self.say(key)["asOf"]
                    self.fill(key, topics)
                    old = self.ok(self.api.get(S(key)))["sessionId"]
                    answers = [self.ok(self.api.post(S(key, "main", "reset"), {}))] if end == "reset" else []
                    if end == "delete":
                        self.ok(self.api.delete(S(key)), 204)
                    self.daemon.restart(kill=True)
                    kind = "session.reset" if end == "reset" else "session.deleted"
                    answers += [e["data"] for e in self.poll(self.api, after, types=kind) if e["key"] == key]
                    answers += [a for a in self.ok(self.api.get(S(key, "main", "archives")))["data"] if a["sessionId"] == old]
                    self.assertEqual(len(answers), 3 if end == "reset" else 2)
                    for answer in answers:
                        self.assertEqual((len(answer["archivedAs"]), answer.get("archivedMore")), (100, more))
                    self.assertEqual(len(list(self.daemon.agent_dir().glob(f"{old}*.jsonl.{end}*Z"))), topics + 1)

    def test_20_faults_are_all_told_and_of_21_are_told_20(self):
        for count in (19, 20, 21, 22):
            for path, body in (("/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": "u", "text": "x"}),
                               (ALL, {}), (S(self.new()["key"], "main", "spawn"), {})):
                problem = self.problem(self.api.post(path, {**body, **{f"zz{n}": 1 for n in range(count)}}), 422, "validation_failed")
                self.assertEqual(len(problem["errors"]), min(count, 20), path)

    def test_1000_entries_of_a_batch_pass_and_1001_do_not_and_pages_of_200_have_them_all(self):
        key = self.new()["key"]
        entries = [{"role": "user", "text": str(n)} for n in range(1001)]
        self.problem(self.post(key, {"entries": entries}), 422, "validation_failed")
        self.assertEqual(self.messages(key), [])
        body = self.ok(self.post(key, {"entries": entries[:1000]}), 201)
        self.assertEqual((body["firstSeq"], body["lastSeq"], len(set(body["ids"]))), (0, 999, 1000))
        self.daemon.restart(kill=True)
        for order, limit in (("asc", 200), ("desc", 200), ("asc", 199), ("desc", 111)):
            pages = self.read(key, order, limit=limit)
            seqs = [m["seq"] for data, _ in pages for m in data]
            self.assertEqual(sorted(seqs), list(range(1000)))
            self.assertEqual(len(pages), -(-1000 // limit))

    def test_a_body_of_8_mib_passes_and_a_byte_more_does_not(self):
        key, bare = self.new()["key"], len(json.dumps({"role": "user", "text": ""}))
        body = {"role": "user", "text": "x" * (8 * MIB - bare)}
        self.assertEqual(len(json.dumps(body)), 8 * MIB)
        self.assertEqual(self.post(key, {**body, "text": body["text"] + "x"}).status, 413)
        said = self.ok(self.post(key, body), 201)
        self.daemon.restart(kill=True)
        got = self.ok(self.api.get(S(key, "main", "messages", said["ids"][0])), 200)
        self.assertTrue(text_of(got) == body["text"])
        self.say(key, "small")
        self.assertEqual([m["seq"] for data, _ in self.read(key, "desc") for m in data], [1, 0])

    def test_pages_of_exactly_1_mib_have_no_hole_and_no_double_in_both_orders(self):
        key, probe = self.new()["key"], self.new()["key"]
        self.say(probe, "x")
        bare = len(json.dumps(self.messages(probe)[0], separators=(",", ":"))) - 1
        for less in (0, 14, 15, 16, 50, 60, 300):  # four and their commas, or the whole page, are 1 MiB at one of these
            self.ok(self.post(key, {"entries": [{"role": "user", "text": "y" * (MIB // 4 - bare - less)} for _ in range(4)]}), 201)
        self.ok(self.post(key, {"entries": [{"role": "user", "text": "z" * size} for size in (MIB - bare, 1, MIB, 1, 2 * MIB, 1)]}), 201)
        self.daemon.restart()
        count = 7 * 4 + 6
        for order, query in (("asc", ""), ("desc", ""), ("desc", "&view=raw"), ("asc", "&view=chat")):
            with self.subTest(query=query, order=order):
                pages = self.read(key, order, query)
                seqs = [m["seq"] for data, _ in pages for m in data]
                self.assertEqual(seqs, list(range(count)) if order == "asc" else list(range(count))[::-1])
                for data, size in pages:
                    self.assertTrue(data)
                    self.assertTrue(len(data) == 1 or size <= MIB + 1024, size)

    def test_lists_have_1_to_200_and_idempotency_keys_up_to_255_characters(self):
        key = self.new()["key"]
        self.once(lambda: self.post(key, {"role": "user", "text": "x"}, idempotency_key="k" * 255))
        self.assertIn(self.post(key, {"role": "user", "text": "y"}, idempotency_key="k" * 256).status, (400, 422))
        self.assertEqual(self.texts(key), ["x"])
        for path in ("/v1/sessions", ALL, "/v1/agents/main/archives", S(key, "main", "archives"), S(key, "main", "messages")):
            for limit, status in ((0, 400), (1, 200), (200, 200), (201, 400), (-1, 400), ("x", 400), ("", 400), ("1e1", 400)):
                reply = self.api.get(f"{path}?limit={limit}")
                self.assertEqual(reply.status, status, (path, limit, reply))

    def test_counters_stop_at_2_to_the_53_and_stay_there_over_a_kill(self):
        key = self.new()["key"]
        for n in range(3):
            self.ok(self.post(key, {"type": "message", "message": {"role": "assistant", "content": "x", "usage": {
                "input": 2 ** 53 - 1, "output": 7, "totalTokens": 2 ** 53}}}), 201)
        for kill in (True, False):
            self.daemon.restart(kill=kill)
            now = self.ok(self.api.get(S(key)))
            self.assertEqual((now["inputTokens"], now["outputTokens"], now["totalTokens"], now["messageCount"]), (2 ** 53, 21, 2 ** 53, 3))


class Asked(Neighbours):
    """Queries."""

    def test_seq_begins_at_0_and_minus_1_is_before_the_first(self):
        session = self.new()
        key = session["key"]
        for n in range(3):
            self.say(key, str(n))
        archived = self.new()
        for n in range(3):
            self.say(archived["key"], str(n))
        self.ok(self.api.delete(S(archived["key"])), 204)
        for name in (key, archived["sessionId"]):
            for query, wanted in (("after=-1", [0, 1, 2]), ("after=0", [1, 2]), ("after=1", [2]), ("after=2", []), ("after=99", []),
                                  ("before=0&order=asc", []), ("before=1&order=asc", [0]), ("before=3&order=asc", [0, 1, 2]),
                                  ("before=99&order=asc", [0, 1, 2]), ("before=2", [1, 0]), ("after=-1&before=2&order=asc", [0, 1]),
                                  ("after=0&before=1&order=asc", []), ("after=0&before=2&order=desc", [1]), ("after=-1&order=desc", [2, 1, 0])):
                page = self.ok(self.api.get(S(name, "main", "messages") + "?" + query), 200)
                self.assertEqual(([m["seq"] for m in page["data"]], page["page"]["hasMore"]), (wanted, False), query)
            for query in ("after=-2", "before=-1", "after=x", "after=0.5", "before=", "after=99999999999999999999", "order=up"):
                self.problem(self.api.get(S(name, "main", "messages") + "?" + query), 400, "bad_request")
        empty = self.new()["key"]
        for query in ("", "after=-1", "after=0", "before=0", "before=1", "order=asc", "order=desc", "topic=never", "types=compaction"):
            page = self.ok(self.api.get(S(empty, "main", "messages") + "?" + query), 200)
            self.assertEqual((page["data"], page["page"]["hasMore"]), ([], False), query)

    def test_expected_seq_is_0_in_an_empty_transcript_and_again_after_a_reset_and_a_kill(self):
        key = self.new()["key"]
        for turn in range(3):
            for wrong in (1, 2 ** 53 - 1):
                self.problem(self.post(key, {"entries": [{"role": "user", "text": "x"}], "expectedSeq": wrong}), 412, "precondition_failed")
            self.invalid(self.post(key, {"entries": [{"role": "user", "text": "x"}], "expectedSeq": -1}), "/expectedSeq")
            for query in ("", "?topic=t"):
                self.ok(self.post(key, {"entries": [{"role": "user", "text": "0"}], "expectedSeq": 0}, query), 201)
                self.problem(self.post(key, {"entries": [{"role": "user", "text": "x"}], "expectedSeq": 0}, query), 412)
            self.assertEqual((self.texts(key), self.texts(key, query="topic=t")), (["0"], ["0"]))
            self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
            self.daemon.restart(kill=turn == 0)

    def test_an_unknown_parameter_beside_known_ones_changes_nothing_on_any_route(self):
        document = self.daemon.anonymous().get("/openapi.json").json
        refs = document["components"]["parameters"]
        session = self.new()
        self.say(session["key"], "stays")
        self.say(session["key"], "stays", query="?topic=t")
        values = {"agent": "main", "key": session["key"], "topic": "t", "id": self.messages(session["key"])[0]["id"]}
        bodies = {"/reset": {}, "/archive": {}, "/spawn": {}, "/messages": {"role": "user", "text": "no"}, "/outbound": {"text": "no"},
                  "/send-policy": {"action": "deny"}, "/route": {"channel": "slack", "to": "no"}, "/inbound": {
                      "channel": "slack", "chatType": "channel", "peer": session["key"].rsplit(":", 1)[1], "text": "no"},
                  "/tokens": {"role": "viewer", "note": "no"}, "/sessions": {"key": "agent:main:no"}}
        before, asked = self.seen(self.api, [session["key"]]), 0
        tokens = len(self.ok(self.api.get("/v1/admin/tokens"))["data"])
        for path, item in document["paths"].items():
            if path in ("/", "/healthz", "/readyz", "/metrics"):
                continue
            for method in ("get", "put", "post", "delete", "patch"):
                if method not in item:
                    continue
                known = [p if "in" in p else refs[p["$ref"].rsplit("/", 1)[1]] for p in item[method].get("parameters", [])]
                known = {p["name"] for p in known if p["in"] == "query"}
                target = re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], "x"), path)
                body = next((b for end, b in bodies.items() if path.endswith(end)), {} if method in ("post", "put", "patch") else None)
                for query in ("zz=1", "zz", "Limit=1", "topic%20=t", "after[]=1", "limit=1;order=asc"):
                    if "limit" in known and query.startswith("limit"):
                        continue
                    if "poll" in known:
                        query += "&poll=1&waitMs=0"
                    named = {"idempotency_key": uid()} if method == "post" and asked % 2 else {}
                    reply = self.api.request(method.upper(), target + "?" + query, body, **named)
                    asked += 1
                    self.problem(reply, 400, "bad_request")
        self.assertGreater(asked, 240)
        self.assertEqual(self.seen(self.api, [session["key"]]), before)
        self.assertEqual(len(self.ok(self.api.get("/v1/admin/tokens"))["data"]), tokens)
        self.problem(self.api.get(S("agent:main:no")), 404, "session_not_found")


class Ends(Neighbours):
    """A restart between any two."""

    def test_all_that_can_be_read_is_the_same_after_either_end_of_each_step(self):
        key, parent = "agent:main:slack:channel:" + uid(), "agent:main:p:" + uid()
        path, ids = S(key), []
        entry = {"type": "message", "id": uid(), "message": {"role": "assistant", "content": "x", "usage": {"input": 3, "output": 4}}}
        steps = [lambda: self.api.post(ALL, {"key": key, "entry": {"label": "ü", "x": {"y": [1]}}}),
                 lambda: self.api.post(ALL, {"key": parent}),
                 lambda: self.post(key, {"entries": [{"role": "user", "text": "a"}, entry]}),
                 lambda: self.post(key, {"role": "user", "text": "in the topic"}, "?topic=t"),
                 lambda: self.inbound_as(key, "from a bridge"),
                 lambda: self.api.patch(path, {"label": None, "x": {"z": 2}}),
                 lambda: self.api.put(path + "/send-policy", {"action": "deny"}),
                 lambda: self.api.put(path + "/route", {"channel": "slack", "to": "c9"}),
                 lambda: self.api.post(S(parent, "main", "spawn"), {"label": "child"}),
                 lambda: self.api.delete(path + "/topics/t"),
                 lambda: self.inbound_as(key, "/new again"),
                 lambda: self.api.post(path + "/archive"),
                 lambda: self.api.post(path + "/unarchive"),
                 lambda: self.api.post(path + "/reset", {"reason": "r"}),
                 lambda: self.api.delete(path),
                 lambda: self.api.post(ALL, {"key": key, "sessionId": ids[0]}),
                 lambda: self.post(key, {"role": "user", "text": "last"})]
        after = self.ok(self.api.get("/v1/sessions?limit=1"))["asOf"]
        for n, step in enumerate(steps):
            reply = step()
            self.assertTrue(200 <= reply.status < 300, (n, reply))
            if n == 0:
                ids.append(reply.json["sessionId"])
            before = self.seen(self.api, [key, parent])
            self.daemon.restart(kill=n % 2 == 0)
            self.assertEqual(self.seen(self.api, [key, parent]), before, f"step {n}")
        self.assertEqual(self.texts(key), ["last"])
        seqs = [e["seq"] for e in self.poll(self.api, after)]
        self.assertEqual(seqs, list(range(seqs[0], seqs[0] + len(seqs))), "seq rises by 1 without a hole")

    def inbound_as(self, key, text):
        return self.api.post("/v1/inbound", {"channel": "slack", "chatType": "channel", "peer": key.rsplit(":", 1)[1], "text": text,
                                             "mentioned": True}, idempotency_key=uid())

    def test_the_events_of_all_messages_have_the_places_that_get_shows_over_both_ends(self):
        key = self.new()["key"]
        after = self.ok(self.api.get("/v1/sessions?limit=1"))["asOf"]
        for turn in range(4):
            for n in range(3):
                self.say(key, f"{turn}.{n}", query="?topic=t" if n == 1 else "")
            self.daemon.restart(kill=turn % 2 == 0)
        told = [(e["topic"], e["data"]["message"]["seq"], e["data"]["message"]["id"])
                for e in self.poll(self.api, after, types="message.appended")]
        for topic, query in ((None, ""), ("t", "topic=t")):
            self.assertEqual([(s, i) for t, s, i in told if t == topic],
                             [(m["seq"], m["id"]) for m in self.messages(key, query="limit=200&order=asc&" + query)])

    def test_the_introduction_is_told_once_to_the_first_that_activates_over_both_ends(self):
        body = {"channel": "slack", "chatType": "group", "peer": "G" + uid()}

        def said(text, mentioned):
            got = self.inbound(**body, text=text, mentioned=mentioned)
            self.daemon.restart(kill=mentioned)
            return got["activate"], got["systemIntro"]

        self.assertEqual([said("a", False), said("b", True), said("c", True)], [(False, False), (True, True), (True, False)])
        self.assertEqual([said("/new", True), said("d", False), said("e", True), said("f", True)],
                         [(False, False), (False, False), (True, True), (True, False)])



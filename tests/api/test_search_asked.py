"""GET /v1/search: what may be asked, what a hit tells, what is refused, and what a page is while things come and go."""

import glob
import sqlite3
import threading

from harness.case import S, json, uid
from harness.sessiond import eventually
from search_case import SearchCase, query


class Asked(SearchCase):
    def refused(self, words, place, api=None, code="bad_request", **more):
        reply = (api or self.api).get(query(words, **more))
        self.problem(reply, 400, code)
        self.assertTrue(reply.json["detail"].startswith(place + ":"), reply.json["detail"])

    def pages(self, words, api=None, **more):
        found, cursors = [], [None]
        while len(found) < 1000:
            page = self.page(words, api, **more, **({"cursor": cursors[-1]} if cursors[-1] else {}))
            found.append(page)
            cursor = page["page"]["next"]
            self.assertEqual(page["page"]["hasMore"], cursor is not None)
            if cursor is None:
                return found
            self.assertNotIn(cursor, cursors, "each page gets on")
            cursors.append(cursor)
        self.fail("pages without end")

    def test_what_is_no_question_is_refused_with_its_place(self):
        self.problem(self.api.get("/v1/search"), 400, "bad_request")
        for words in ("", " \t", '""', '" "', "\u3000", "x" * 1025, "é" * 513, "a\x07", "\x7f", "\x85\x80", 'a "b', '"'):
            self.refused(words, "q")
        self.page("x" * 1024)
        self.page("ü" * 512)
        for more, place in (({"limit": 0}, "limit"), ({"limit": 101}, "limit"), ({"role": "system"}, "role"), ({"agent": "/"}, "agent"),
                            ({"key": ""}, "key"), ({"from": ""}, "from")):
            reply = self.api.get(query("x", **more))
            self.problem(reply, 400, "bad_request")
            self.assertIn(place, reply.json["detail"])
        for more in ({"since": -1}, {"until": "x"}, {"archived": "maybe"}, {"q2": "x"}):
            self.problem(self.api.get(query("x", **more)), 400, "bad_request")

    def test_a_cursor_is_of_one_question_one_token_and_one_index(self):
        self.make()
        for n in range(5):
            self.say(f"{self.word} {n}")
        self.finds(self.word, [(self.key, n) for n in range(4, -1, -1)])
        cursor = self.page(self.word, limit=2)["page"]["next"]
        self.assertEqual(self.hits(self.word, limit=1, cursor=cursor), [(self.key, 2)], "the limit may be another one")
        self.refused(self.word + " x", "cursor", code="bad_cursor", cursor=cursor)
        self.refused(self.word, "cursor", code="bad_cursor", cursor=cursor, role="user")
        other = self.daemon.client(self.daemon.token("viewer"))
        self.refused(self.word, "cursor", other, code="bad_cursor", cursor=cursor)
        self.refused(self.word, "cursor", code="bad_cursor", cursor=cursor[:-1])
        narrow = self.page(self.word, limit=2, role="user", channel="slack")["page"]["next"]
        self.assertEqual(len(self.hits(self.word, limit=2, channel="slack", role="user", cursor=narrow)), 2, "in any order")
        self.refused(self.word + "&role=user", "cursor", code="bad_cursor", cursor=narrow, channel="slack")
        self.assertNotIn(self.word.encode().hex(), cursor)

    def test_a_cursor_of_an_index_that_is_gone_is_refused(self):
        daemon = self.spawn()
        api = daemon.client()
        self.ok(api.post("/v1/agents/main/sessions", {"key": self.key}), 201)
        for n in range(3):
            self.say(f"{self.word} {n}", api=api)
        self.finds(self.word, [(self.key, n) for n in (2, 1, 0)], api)
        cursor = self.page(self.word, api, limit=1)["page"]["next"]
        daemon.restart()
        api = daemon.client()
        self.assertEqual(self.hits(self.word, api, cursor=cursor), [(self.key, 1), (self.key, 0)], "a restart keeps it")
        (daemon.state / "search" / "index.db").unlink()
        eventually(lambda: api.get(query(self.word, cursor=cursor)).status == 400 or None, timeout=20)
        self.refused(self.word, "cursor", api, code="bad_cursor", cursor=cursor)
        self.finds(self.word, [(self.key, n) for n in (2, 1, 0)], api)

    def test_twenty_hits_unless_asked_and_the_state_they_are_of(self):
        self.make()
        self.ok(self.api.post(S(self.key, "main", "messages"), {"entries": [{"role": "user", "text": f"{self.word} {n}"} for n in range(30)]}), 200, 201)
        eventually(lambda: len(self.hits(self.word, limit=100)) == 30 or None, timeout=20)
        page = self.page(self.word)
        self.assertEqual((len(page["data"]), page["partial"]), (20, False))
        for n in range(20):
            said = self.say(f"{self.word} late {n}")["asOf"]
            page = self.page(f'"{self.word} late {n}"')
            self.assertEqual(page["asOf"].split("-")[0], said.split("-")[0])
            if not page["data"]:
                self.assertLess(int(page["asOf"].split("-")[1]), int(said.split("-")[1]), "it says that it does not have the event yet")

    def test_a_hit_tells_who_said_it_and_where_the_words_stand(self):
        to = {"channel": "slack", "peer": uid().lower(), "chatType": "direct"}
        ada = {"id": "U7" + self.word, "name": "Ada  Lovelace", "username": "ada" + self.word}
        key = self.ok(self.api.post("/v1/inbound", {**to, "from": ada, "text": f"Ich fuhr {self.word.upper()}  auf der STRAẞE", "messageId": "m"}), 201)["sessionKey"]
        self.finds(f'"{self.word} auf" straße', [(key, 0)])
        hit = self.page(f'"{self.word} auf" straße', key=key)["data"][0]
        self.assertEqual(hit["snippet"], f"Ich fuhr {self.word.upper()} auf der STRAẞE")
        self.assertEqual(hit["ranges"], [[9, len(self.word) + 4], [18 + len(self.word), 6]])
        self.assertEqual((hit["from"], hit["role"], hit["agent"], hit["key"]), (ada, "user", "main", key))
        self.assertNotIn("copyOf", hit)
        self.assertEqual(self.hits(f"{self.word} strasse"), [])
        for name, found in ((ada["id"], True), (ada["username"].upper(), True), ("ada lovelace", "key"), ("ada", False)):
            self.assertEqual(bool(self.hits(self.word, key=key, **{"from": name})), bool(found), name)

    def test_times_and_keys_narrow_it(self):
        for key in (self.key, self.key + "2"):
            self.make(key)
            for n in range(3):
                self.say(f"{self.word} {n}", key)
        eventually(lambda: len(self.hits(self.word)) == 6 or None, timeout=20)
        hits = self.page(self.word, key=self.key.upper())["data"]
        self.assertEqual([hit["key"] for hit in hits], [self.key] * 3)
        times = sorted(hit["timestamp"] for hit in self.page(self.word)["data"])
        for since, until in ((times[1], times[4]), (times[0], times[0]), (times[5] + 1, times[5] + 9), (times[3], times[2] - 1)):
            found = sorted(hit["timestamp"] for hit in self.page(self.word, since=since, until=until)["data"])
            self.assertEqual(found, [time for time in times if since <= time <= until])
        self.assertEqual(self.hits(self.word, key="agent:main:nobody"), [])
        self.assertEqual(self.hits(self.word, agent="nobody"), [])

    def test_notes_are_found_and_what_only_looks_like_one_is_not(self):
        self.make()
        note = {"type": "custom", "customType": "note", "data": {"text": f"{self.word} noted", "by": "me"}}
        self.ok(self.api.post(S(self.key, "main", "messages"), note), 201)
        self.ok(self.api.post(S(self.key, "main", "messages"), {**note, "customType": "other"}), 201)
        self.say(f"{self.word} said")
        self.finds(self.word, [(self.key, 2), (self.key, 0)])
        self.assertEqual(self.hits(self.word, role="note"), [(self.key, 0)])
        hit = self.page(self.word, role="note")["data"][0]
        self.assertEqual((hit["role"], hit["from"], hit["snippet"]), ("note", "me", f"{self.word} noted"))

    def test_a_copy_says_of_what_to_whom_may_see_that(self):
        to = {"channel": "slack", "peer": "c" + uid().lower(), "chatType": "direct"}
        key = self.ok(self.api.post("/v1/inbound", {**to, "text": f"{self.word} old", "messageId": "m"}), 201)["sessionKey"]
        self.finds(self.word, [(key, 0)])
        first = self.page(self.word)["data"][0]
        fork = f"agent:main:fork:{uid().lower()}"
        self.ok(self.api.post(S(key, "main", "fork"), {"key": fork}), 201)
        eventually(lambda: len(self.hits(self.word)) == 2 or None, timeout=20)
        copy = next(hit for hit in self.page(self.word)["data"] if hit["key"] == fork)
        self.assertEqual(copy["copyOf"], {"sessionId": first["sessionId"], "id": first["id"]})
        limited = self.daemon.client(self.daemon.token("viewer", keyPrefix="agent:main:fork:"))
        seen = self.page(self.word, limited)["data"]
        self.assertEqual([hit["key"] for hit in seen], [fork])
        self.assertNotIn("copyOf", seen[0])
        self.assertNotIn(first["sessionId"], json.dumps(self.page(self.word, limited)))
        self.ok(self.api.post("/v1/inbound/edits", {"channel": "slack", "peer": to["peer"], "messageId": "m", "text": f"{self.word} new"}), 201)
        self.assertEqual(self.hits(f"{self.word} old"), [], "gone at once, in copies too")
        eventually(lambda: {key for key, _ in self.hits(f"{self.word} new")} == {key, fork} or None, timeout=20)

    def test_what_is_hidden_changes_nothing(self):
        """9 000 hits that a token does not see, and three that it does: its pages are as without them."""
        daemon = self.spawn({"search": {"timeoutMs": 60_000}})
        self.api = daemon.client()
        mine = [f"agent:main:mine{self.word}:{n}" for n in range(3)]
        for key in mine:
            self.make(key)
        hidden = f"agent:main:theirs:{uid().lower()}"
        self.make(hidden)
        token = daemon.client(daemon.token("viewer", keyPrefix=f"agent:main:mine{self.word}:"))
        for key in mine:
            self.say(f"{self.word} seen", key)
            for _ in range(6):
                entries = [{"role": "user", "text": f"{self.word} hidden"}] * 500
                self.ok(self.api.post(S(hidden, "main", "messages"), {"entries": entries}), 200, 201)
        eventually(lambda: self.page(self.word, limit=1)["data"][0]["seq"] == 8999 or None, timeout=60)
        self.finds(self.word, [(key, 0) for key in reversed(mine)], token)
        for words in (self.word, self.word[:2], f'"{self.word} hidden"'):
            for limit in (1, 2, 20):
                pages = self.pages(words, token, limit=limit)
                self.assertEqual([page["partial"] for page in pages], [False] * len(pages))
                keys = [hit["key"] for page in pages for hit in page["data"]]
                self.assertEqual(keys, [] if "hidden" in words else list(reversed(mine)), (words, limit))
                self.assertTrue(all(len(page["data"]) == limit for page in pages[:-1]))

    def test_pages_miss_none_and_repeat_none_while_others_come_and_go(self):
        self.make()
        for at in range(0, 400, 100):
            entries = [{"role": "user", "text": f"{self.word} {n}"} for n in range(at, at + 100)]
            self.ok(self.api.post(S(self.key, "main", "messages"), {"entries": entries}), 200, 201)
        eventually(lambda: len(self.hits(self.word, limit=1)) == 1 and self.hits(self.word, limit=1)[0][1] == 399 or None, timeout=20)
        ended = threading.Event()

        def others(api):
            for n in range(1000):
                if ended.is_set():
                    break
                key = f"agent:main:come:{self.word}{n}"
                api.post("/v1/agents/main/sessions", {"key": key})
                api.post(S(key, "main", "messages"), {"role": "user", "text": f"{self.word} other"})
                if n % 2:
                    api.delete(S(key) + "?purge=true")

        beside = threading.Thread(target=others, args=(self.daemon.client(),))
        beside.start()
        try:
            seen = [(hit["key"], hit["seq"]) for page in self.pages(self.word, limit=20) for hit in page["data"]]
        finally:
            ended.set()
            beside.join()
        self.assertEqual([seq for key, seq in seen if key == self.key], list(range(399, -1, -1)))
        self.assertEqual(len(seen), len(set(seen)))

    def test_long_texts_are_found_page_by_page_and_hold_nobody_up(self):
        daemon = self.spawn({"search": {"timeoutMs": 200}})
        api = daemon.client()
        self.ok(api.post("/v1/agents/main/sessions", {"key": self.key}), 201)
        for n in range(12):
            self.say(("ж" * 500 + " ") * 900 + f"привет {self.word}", api=api)
        eventually(lambda: self.ok(api.get("/readyz"), 200)["search"]["rows"] == 12 or None, timeout=60)
        seqs = [hit["seq"] for page in self.pages(f"привет {self.word}", api, limit=10) for hit in page["data"]]
        self.assertEqual(seqs, list(range(11, -1, -1)))
        searches = [threading.Thread(target=lambda: daemon.client().get(query("привет", limit=100))) for _ in range(6)]
        for one in searches:
            one.start()
        for one in searches:
            one.join()
        self.ok(api.get(S(self.key, "main", "messages") + "?limit=1"), 200)
        daemon.stop()

    def test_archived_sessions_alone_are_looked_for_among_many_others(self):
        daemon = self.spawn()
        api = daemon.client()
        for key in (self.key, self.key + "2"):
            self.ok(api.post("/v1/agents/main/sessions", {"key": key, "name": f"title {self.word}"}), 201)
        for _ in range(8):
            entries = [{"role": "user", "text": f"{self.word} live"}] * 500
            self.ok(api.post(S(self.key, "main", "messages"), {"entries": entries}), 201)
        self.say(f"{self.word} old", self.key + "2", api=api)
        self.ok(api.post(S(self.key + "2", "main", "archive"), {}), 200)
        eventually(lambda: self.ok(api.get("/readyz"), 200)["search"]["rows"] == 4003 or None, timeout=60)
        wanted = {(self.key + "2", 0), (self.key + "2", None)}
        eventually(lambda: set(self.hits(self.word, api, archived="true")) == wanted or None, timeout=20)
        self.assertEqual(len(self.pages(self.word, api, archived="true", limit=1)), 2)
        self.assertEqual({key for key, _ in self.hits(self.word, api, limit=100)}, {self.key})
        self.ok(api.post(S(self.key + "2", "main", "unarchive"), {}), 200)
        eventually(lambda: self.hits(self.word, api, archived="true") == [] or None, timeout=20)
        eventually(lambda: self.hits(f"{self.word} old", api) == [(self.key + "2", 0)] or None, timeout=20)

    def test_an_index_that_others_changed_shows_nothing_that_is_not_said_there(self):
        daemon = self.spawn()
        api = daemon.client()
        keys = {name: f"agent:main:{name}:1" for name in ("mine", "theirs")}
        for name, key in keys.items():
            self.ok(api.post("/v1/agents/main/sessions", {"key": key}), 201)
            self.say(f"{self.word} {name} secret", key, api=api)
        self.finds(self.word, [(keys["theirs"], 0), (keys["mine"], 0)], api)
        token = daemon.token("viewer", keyPrefix="agent:main:mine:")
        daemon.stop()
        index = sqlite3.connect(daemon.state / "search" / "index.db")
        docs = dict(index.execute("SELECT key, id FROM docs WHERE archive = ''").fetchall())
        index.execute("UPDATE rows SET doc = ? WHERE doc = ?", (docs[keys["mine"]], docs[keys["theirs"]]))
        index.commit()
        index.close()
        daemon.start()
        limited = daemon.client(token)
        self.assertEqual(self.hits(f"{self.word} theirs", limited), [])
        self.assertEqual(self.hits(f"{self.word} mine", limited), [(keys["mine"], 0)])

    def test_nothing_of_a_purged_text_stays_in_the_files_of_the_index(self):
        daemon = self.spawn()
        api = daemon.client()
        self.ok(api.post("/v1/agents/main/sessions", {"key": self.key}), 201)
        self.say(f"{self.word} 龘靐齉", api=api)
        self.ok(api.post("/v1/agents/main/sessions", {"key": self.key + "2"}), 201)
        self.say("stays", key=self.key + "2", api=api)
        self.finds(self.word, [(self.key, 0)], api)
        self.finds("stays", [(self.key + "2", 0)], api)

        def bytes_of_index():
            return b"".join(open(path, "rb").read() for path in glob.glob(str(daemon.state / "search" / "*")))

        self.assertIn("齉".encode(), bytes_of_index())
        self.ok(api.delete(S(self.key) + "?purge=true"), 204)
        self.assertEqual(self.hits(self.word, api, archived="any"), [])
        eventually(lambda: (self.word.encode() not in bytes_of_index() and "齉".encode() not in bytes_of_index()) or None, timeout=20)
        self.finds("stays", [(self.key + "2", 0)], api)


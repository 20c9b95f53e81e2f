"""Lists of sessions: filters, order, and pages that stay true while sessions come and go."""

import re
import time

from harness.case import Case, S, uid
from urllib.parse import quote

ALL = "/v1/agents/main/sessions"


class Filters(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.began = int(time.time() * 1000)
        old = cls.began - 3 * 3600 * 1000
        cls.entries = {
            "agent:main:slack:channel:c1": {"channel": "slack", "chatType": "channel", "label": "Alpha",
                                            "name": "first",
                                            "skillsSnapshot": {"skills": ["x" * 50]}, "systemPromptReport": {"y": 1}},
            "agent:main:slack:direct:u1": {"channel": "slack", "chatType": "direct", "label": "Beta",
                                           "displayName": "Ünal Öz"},
            "agent:main:telegram:group:g1": {"channel": "telegram", "chatType": "group", "label": "Alpha",
                                             "spawnedBy": "agent:main:main"},
            "agent:main:telegram:direct:u2": {"channel": "telegram", "chatType": "direct", "updatedAt": old,
                                              "subject": "old stuff"},
            "agent:main:telegram:group:gone": {"channel": "telegram", "chatType": "group"},
            "agent:main:legacy:1": {"provider": "discord", "chatType": "dm", "updatedAt": old - 1},
        }
        for key, entry in cls.entries.items():
            reply = cls.api.put(S(key), entry)
            assert reply.status == 201, reply
        assert cls.api.post(S("agent:main:telegram:group:gone", "main", "archive")).status == 200
        assert cls.api.put(S("agent:codex:slack:direct:u1", "codex"), {"channel": "slack"}).status == 201

    def keys(self, query, path=ALL):
        return [s["key"].removeprefix("agent:main:") for s in self.ok(self.api.get(f"{path}?{query}"), 200)["data"]]

    def test_each_filter(self):
        table = {
            "channel=slack": ["slack:channel:c1", "slack:direct:u1"],
            "channel=SLACK": ["slack:channel:c1", "slack:direct:u1"],
            "channel=discord": ["legacy:1"],
            "chatType=direct": ["legacy:1", "slack:direct:u1", "telegram:direct:u2"],
            "chatType=dm": ["legacy:1", "slack:direct:u1", "telegram:direct:u2"],
            "chatType=group": ["telegram:group:g1"],
            "keyPrefix=agent:main:tele": ["telegram:direct:u2", "telegram:group:g1"],
            "label=Alpha": ["slack:channel:c1", "telegram:group:g1"],
            "name=first": ["slack:channel:c1"],
            "spawnedBy=agent:main:main": ["telegram:group:g1"],
            f"updatedSince={self.began - 1000}": ["slack:channel:c1", "slack:direct:u1", "telegram:group:g1"],
            "activeMinutes=60": ["slack:channel:c1", "slack:direct:u1", "telegram:group:g1"],
            "activeMinutes=600": ["legacy:1", "slack:channel:c1", "slack:direct:u1", "telegram:direct:u2",
                                  "telegram:group:g1"],
            "archived=true": ["telegram:group:gone"],
            "archived=any&chatType=group": ["telegram:group:g1", "telegram:group:gone"],
            "archived=false&chatType=group": ["telegram:group:g1"],
            "q=ALPH": ["slack:channel:c1", "telegram:group:g1"],
            "q=" + quote("ünal"): ["slack:direct:u1"],
            "q=direct:u": ["slack:direct:u1", "telegram:direct:u2"],
            "channel=slack&label=Alpha": ["slack:channel:c1"],
            "channel=nosuch": [],
        }
        for query, expected in table.items():
            with self.subTest(query):
                self.assertEqual(self.keys(query + "&sort=key"), expected)

    def test_over_all_agents(self):
        self.assertEqual(sorted(self.keys("channel=slack", "/v1/sessions")),
                         ["agent:codex:slack:direct:u1", "slack:channel:c1", "slack:direct:u1"])

    def test_order(self):
        by = lambda sort: [s["key"] for s in self.ok(self.api.get(f"{ALL}?archived=any&sort={sort}"), 200)["data"]]
        self.assertEqual(by("key"), sorted(self.entries))
        self.assertEqual(by("updatedAt")[:2], ["agent:main:legacy:1", "agent:main:telegram:direct:u2"])
        self.assertEqual(by("-updatedAt")[-2:], ["agent:main:telegram:direct:u2", "agent:main:legacy:1"])
        self.assertEqual(by("-updatedAt"), [s["key"] for s in self.api.get(ALL + "?archived=any").json["data"]],
                         "newest first is the default")
        times = [s["updatedAt"] for s in self.api.get(ALL + "?archived=any").json["data"]]
        self.assertEqual(times, sorted(times, reverse=True))

    def test_snapshots_only_when_asked_for(self):
        row = self.api.get(ALL + "?name=first").json["data"][0]
        self.assertNotIn("skillsSnapshot", row)
        self.assertNotIn("systemPromptReport", row)
        row = self.api.get(ALL + "?name=first&include=snapshots").json["data"][0]
        self.assertEqual((row["skillsSnapshot"], row["systemPromptReport"]), ({"skills": ["x" * 50]}, {"y": 1}))
        self.assertIn("skillsSnapshot", self.api.get(S("agent:main:slack:channel:c1")).json)

    def test_fields(self):
        row = self.ok(self.api.get(ALL + "?name=first&fields=label,channel"), 200)["data"][0]
        self.assertEqual((row["label"], row["channel"]), ("Alpha", "slack"))
        self.assertLessEqual(set(row), {"key", "agent", "sessionId", "rev", "label", "channel"})

    def test_faults(self):
        for query in ("limit=0", "limit=201", "limit=ten", "sort=size", "archived=perhaps", "activeMinutes=-1",
                      "updatedSince=now", "chatType=crowd"):
            with self.subTest(query):
                reply = self.api.get(f"{ALL}?{query}")
                self.problem(reply, reply.status)
                self.assertIn(reply.status, (400, 422))
        for cursor in ("x", "AAAA", "e30", ""):
            with self.subTest(cursor):
                self.problem(self.api.get(f"{ALL}?cursor={cursor}"), 400, "bad_cursor")


class Pages(Case):
    def setUp(self):
        super().setUp()
        self.agent = "pages-" + uid(6)
        self.path = f"/v1/agents/{self.agent}/sessions"
        self.keys = [f"agent:{self.agent}:k:{i:03}" for i in range(25)]
        for key in self.keys:
            self.ok(self.api.post(self.path, {"key": key}), 201)

    def walk(self, query, between=lambda page: None):
        """Every key over all pages, checking what each page says of the next."""
        keys, cursor, as_of, page = [], None, None, 0
        while True:
            reply = self.api.get(f"{self.path}?{query}" + (f"&cursor={quote(cursor)}" if cursor else ""))
            body = self.ok(reply, 200)
            self.assertEventId(body["asOf"])
            as_of = as_of or body["asOf"]
            self.assertEqual(body["asOf"], as_of, "over several pages it is the first page's")
            keys += [s["key"] for s in body["data"]]
            link = reply.headers.get("Link") or ""
            self.assertEqual(body["page"]["hasMore"], body["page"]["next"] is not None)
            self.assertEqual(bool(re.search(r'<[^>]+>;\s*rel="?next"?', link)), body["page"]["hasMore"])
            if not body["page"]["hasMore"]:
                return keys
            following = self.api.get(re.search(r"<([^>]+)>",
                                               link).group(1).replace(f"http://127.0.0.1:{self.daemon.port}", ""))
            cursor = body["page"]["next"]
            direct = self.api.get(f"{self.path}?{query}&cursor={quote(cursor)}")
            self.assertEqual(following.json["data"], direct.json["data"], "the link leads where the cursor leads")
            between(page)
            page += 1

    def test_all_once(self):
        for sort in ("key", "updatedAt", "-updatedAt"):
            for limit in (1, 7, 25, 200):
                with self.subTest(f"{sort} {limit}"):
                    keys = self.walk(f"sort={sort}&limit={limit}")
                    self.assertEqual(sorted(keys), self.keys)

    def test_stable_under_inserts_and_changes(self):
        def disturb(page):
            self.ok(self.api.post(self.path, {"key": f"agent:{self.agent}:k:{page:03}-new"}), 201)
            self.ok(self.api.post(self.path, {"key": f"agent:{self.agent}:zz:{page}"}), 201)
        for sort in ("key", "-updatedAt"):
            with self.subTest(sort):
                keys = self.walk(f"sort={sort}&limit=4", disturb)
                self.assertEqual(len(keys), len(set(keys)), "nothing twice")
                self.assertEqual(sorted(k for k in keys if k in self.keys), self.keys, "nothing missed")
                for row in self.api.get(self.path + "?limit=200&sort=key").json["data"]:
                    if row["key"] not in self.keys:
                        self.ok(self.api.delete(S(row["key"], self.agent)), 204)

    def test_stable_when_the_page_border_is_deleted(self):
        first = self.ok(self.api.get(self.path + "?sort=key&limit=5"), 200)
        self.ok(self.api.delete(S(self.keys[4], self.agent)), 204)
        self.ok(self.api.delete(S(self.keys[5], self.agent)), 204)
        second = self.ok(self.api.get(self.path + f"?sort=key&limit=5&cursor={quote(first['page']['next'])}"), 200)
        self.assertEqual([s["key"] for s in second["data"]], self.keys[6:11])

    def test_cursors_are_signed(self):
        cursor = self.api.get(self.path + "?limit=5").json["page"]["next"]
        flipped = ("A" if cursor[0] != "A" else "B") + cursor[1:]
        middle = len(cursor) // 2
        for bad in (flipped, cursor[:-1], cursor[:middle] + ("A"
                                                             if cursor[middle] != "A" else "B") + cursor[middle + 1:]):
            self.problem(self.api.get(self.path + "?limit=5&cursor=" + quote(bad)), 400, "bad_cursor")

    def test_the_stream_goes_on_where_the_list_ends(self):
        as_of = self.api.get(self.path + "?limit=5").json["asOf"]
        key = f"agent:{self.agent}:later"
        self.ok(self.api.post(self.path, {"key": key}), 201)
        with self.api.stream(f"/v1/agents/{self.agent}/events?after={as_of}") as stream:
            event = stream.wait_type("session.created")
            self.assertEqual((event.data["key"], len(stream.durable)), (key, 1))

    def test_every_get_of_state_has_as_of(self):
        key = self.keys[0]
        for path in ("/v1/agents", "/v1/sessions", f"/v1/agents/{self.agent}", self.path, S(key, self.agent),
                     S(key, self.agent, "messages"),
                     S(key, self.agent, "topics"), S(key, self.agent, "children"), S(key, self.agent, "history")):
            with self.subTest(path):
                self.assertEventId(self.ok(self.api.get(path), 200)["asOf"])

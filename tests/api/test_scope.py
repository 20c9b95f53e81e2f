"""Outside its scope a token learns nothing: every GET with every plausible parameter, every error, every stream,
searched byte by byte for the words of what it may not see; and what is outside answers as what is not there."""

import itertools
import re
import threading

from harness.case import Case, S, uid
from scope_store import AGENTS, Store, marker
from scope_token import SCOPES, Token
from harness.sse import StreamRefused

runs = {"release", "tsan"}

LISTS = ("", "?limit=1", "?limit=200&sort=key", "?archived=any&limit=200", "?archived=true", "?include=snapshots&archived=any",
         "?include=lastMessage&archived=any&limit=200", "?status=running,done,failed",
         "?q=zq", "?q=a&archived=any", "?channel=discord", "?channel=slack", "?keyPrefix=agent:main:", "?keyPrefix=discord:",
         "?chatType=direct", "?sort=updatedAt&limit=3", "?activeMinutes=60", "?fields=key,label", "?sdkSessionId=zq&archived=any")


class Scope(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.store = Store(cls.api)
        document = cls.daemon.anonymous().get("/openapi.json").json
        cls.routes = [(method.upper(), path) for path, item in document["paths"].items()
                      for method in ("get", "put", "post", "delete", "patch") if method in item]

    def token(self, name):
        token = Token(self, name, self.store)
        self.addCleanup(token.client.close)
        return token

    def setUp(self):
        super().setUp()
        self.tokens = self.answers = 0

    def tearDown(self):
        print(f"scope proof: {self._testMethodName[5:]}: {self.tokens} tokens, {self.answers} answers searched", flush=True)
        super().tearDown()

    def settle(self, token):
        if token.leaks:
            self.fail(f"{len(token.leaks)} of {token.cases}:\n" + "\n".join(token.leaks[:4]))
        self.tokens, self.answers = self.tokens + 1, self.answers + token.cases

    def fill(self, path, agent, place):
        topic = getattr(place, "topic", None) or "t"
        return (path.replace("{agent}", agent).replace("{key}", place.key).replace("{topic}", topic)
                .replace("{id}", place.message_id or "nosuch").replace("{stream}", "memoryEvents"))

    def sweep(self, token):
        """Every GET there is, of everything there is; the answers by what was asked."""
        seen = {}
        ask = lambda path, headers=None: seen.setdefault((path, str(headers)), token.ask("GET", path, None, headers))
        for _, path in (route for route in self.routes if route[0] == "GET"):
            if "{key}" in path:
                for place in self.store.places:
                    filled = self.fill(path, place.agent, place)
                    ask(filled)
                    if path.endswith("{key}"):
                        ask(filled.replace(place.key, place.session_id))
                        ask(filled, {"If-None-Match": "*"})
                    if path.endswith(("/messages", "/transcript")):
                        ask(filled + "?topic=" + getattr(place, "topic", "t"))
                        ask(filled.replace(place.key, place.session_id))
            elif path.endswith("{agent}/messages"):
                for place in self.store.places:
                    if place.platform:
                        named = place.platform
                        ask(path.replace("{agent}", place.agent) +
                            f"?channel={named['channel']}&peer={named['peer']}&platformMessageId={named['messageId']}")
            elif "{agent}" in path:
                for agent in (*AGENTS, self.store.third, "nosuch"):
                    for query in LISTS if path.endswith("/sessions") else ("",):
                        ask(path.replace("{agent}", agent) + query)
            else:
                for query in LISTS if path == "/v1/sessions" else ("",):
                    ask(path.replace("{id}", "nosuch") + query)
        for agent in (*AGENTS, self.store.third, "nosuch"):
            ask("/v1/sessions?agent=" + agent)
        for place in self.store.hidden_from(token.scope):
            ask("/v1/sessions?archived=any&spawnedBy=" + place.key)
            for word in sorted(place.markers)[:3]:
                ask("/v1/sessions?archived=any&q=" + word)
                ask("/v1/sessions?archived=any&label=" + word)
        return seen

    def test_every_get(self):
        for name in SCOPES:
            with self.subTest(name):
                token = self.token(name)
                self.sweep(token)
                for query in ("?limit=1", "?limit=3&sort=key"):  # from where an admin's page ended
                    page = self.ok(self.api.get("/v1/sessions" + query), 200)["page"]["next"]
                    while page:
                        token.ask("GET", f"/v1/sessions{query}&cursor={page}")
                        page = self.ok(self.api.get(f"/v1/sessions{query}&cursor={page}"), 200)["page"]["next"]
                self.settle(token)

    def bodies(self, path):
        if path.endswith("/messages"):
            return [{"role": "user", "text": "x"}]
        if path.endswith("/outbound"):
            return [{"text": "x"}]
        if path.endswith("/route"):
            return [{"channel": "slack", "to": "x"}]
        if path.endswith("/send-policy"):
            return [{"action": "deny"}]
        if path.endswith("/deltas"):
            return [{"text": "x"}]
        return [{}, {"label": "x"}, {"nosuch": 1}]

    def test_what_is_outside_answers_as_what_is_not_there(self):
        for name in SCOPES:
            with self.subTest(name):
                token = self.token(name)
                one_of_each = {(p.agent, p.channel, *p.key.split(":")[3:4]): p
                               for p in self.store.hidden_from(token.scope) if p.named and p.agent in AGENTS}
                hidden = list(one_of_each.values())
                for (method, path), place in itertools.product(self.routes, hidden):
                    if "{key}" not in path or (method == "PUT" and path.endswith("{key}")):
                        continue
                    absent = place.key
                    names = [(word, marker()) for word in place.named]
                    for word, stand_in in names:
                        absent = absent.replace(word, stand_in)
                    there = self.fill(path, place.agent, place)
                    stranger = there.replace(place.key, absent)
                    compare = lambda body=None, headers=None, query="": token.same(
                        method, there + query, stranger + query, body, headers, names)
                    for body in self.bodies(path) if method in ("PUT", "POST", "PATCH") else [None]:
                        compare(body)
                    etag = self.api.get(S(place.key, place.agent)).etag
                    compare(None if method in ("GET", "DELETE") else {}, {"If-Match": etag, "If-None-Match": etag})
                    if method == "DELETE":
                        compare(query="?missing=ok")
                        compare(query="?missing=ok&purge=true")
                    if path.endswith("/messages") and method == "GET":
                        compare(query="?sessionId=" + place.session_id)
                        compare(query="?topic=" + getattr(place, "topic", "t"))
                # A whole entry, for a key that is known to be outside: it could not be made anyway.
                for place in hidden:
                    absent, (word,) = marker(), place.named
                    if place.seen_by({**token.scope, "keyPrefix": ""}):
                        continue
                    for headers in ({"If-Match": "*"}, {"If-Match": '"r1"'}):
                        there = S(place.key, place.agent)
                        token.same("PUT", there, there.replace(word, absent), {"channel": place.channel}, headers,
                                   [(word, absent)])
                for place in self.store.hidden_from(token.scope):
                    self.assertEqual(self.api.get(S(place.key, place.agent)).status, 200, "nothing was done to it")
                self.settle(token)

    def test_agents_outside_answer_as_agents_that_are_not_there(self):
        for name in SCOPES:
            with self.subTest(name):
                token = self.token(name)
                for agent in (*AGENTS, self.store.third):
                    if any(p.agent == agent for p in self.store.seen_in(token.scope)):
                        continue
                    if agent in token.scope.get("agents", ()):
                        continue
                    absent = (marker() + "x" * 20)[:len(agent)]
                    for (method, path) in self.routes:
                        if "{agent}" not in path or (method, path.rsplit("/", 1)[1]) in (("POST", "sessions"), ("PUT", "{key}")):
                            continue
                        there = path.replace("{agent}", agent).replace("{key}", f"agent:{agent}:slack:group:x")
                        there = there.replace("{topic}", "t").replace("{id}", "m").replace("{stream}", "memoryEvents")
                        for body in self.bodies(path) if method in ("PUT", "POST", "PATCH") else [None]:
                            token.same(method, there, there.replace(agent, absent), body, None, [(agent, absent)])
                self.settle(token)

    def test_counts_do_not_move_with_what_is_outside(self):
        for name in ("bridge codex slack", "viewer slack", "viewer prefix", "operator discord",
                     "operator of an empty channel", "session of a parent"):
            with self.subTest(name):
                token = self.token(name)
                plain = lambda sweep: {asked: (r.status, re.sub(rb'"requestId":"[^"]*"|[0-9a-f]{8}-\d+', b"", r.raw))
                                       for asked, r in sweep.items()
                                       if "/admin/" not in asked[0] and "cursor" not in asked[0]
                                       and not asked[0].startswith(("/readyz", "/metrics"))}
                without_next = lambda raw: re.sub(rb'"next":"[\w-]+"', b"", raw)
                before = plain(self.sweep(token))
                outside = [p for p in self.store.hidden_from(token.scope) if p.channel and p.named]
                for place in outside[:6]:
                    self.api.post(S(place.key, place.agent, "messages"), {"role": "user", "text": self.store.mark(place)})
                    self.ok(self.api.patch(S(place.key, place.agent), {"label": self.store.mark(place)}))
                agent = "main" if "agents" in token.scope else "codex"
                for _ in range(3):
                    if token.scope.get("channel") == "discord":
                        self.store.inbound("main", "slack", "group")
                    else:
                        self.store.inbound(agent, "discord", "group")
                token.look_up()
                after = plain(self.sweep(token))
                self.assertGreater(len(before.keys() & after.keys()), 500)
                for asked in before.keys() & after.keys():
                    self.assertEqual((before[asked][0], without_next(before[asked][1])),
                                     (after[asked][0], without_next(after[asked][1])), asked)
                shown = [p for p in self.store.seen_in(token.scope)]
                if token.role != "metrics":
                    agents = self.ok(token.ask("GET", "/v1/agents"), 200)["data"]
                    self.assertEqual({a["agent"]: a["sessions"] for a in agents},
                                     {a: sum(p.agent == a for p in shown) for a in {p.agent for p in shown}})
                self.settle(token)

    def test_messages_of_another_conversation(self):
        """By the names that bridges give them."""
        for name in SCOPES:
            with self.subTest(name):
                token = self.token(name)
                for place in [p for p in self.store.hidden_from(token.scope) if p.platform]:
                    for what, more in (("edits", {"text": "x"}), ("deletes", {}), ("reactions", {"emoji": "x", "from": "x"})):
                        answers = [token.ask("POST", "/v1/inbound/" + what, {**place.platform, **more, **other})
                                   for other in ({}, {"messageId": marker()})]
                        plain = [(reply.status, re.sub(rb'"(requestId|asOf)":"[^"]*"|"until":\d+', b"", reply.raw))
                                 for reply in answers]
                        self.assertEqual(plain[0], plain[1])
                        self.assertIn(plain[0][0], (202, 403, 404))
                self.settle(token)

    def test_kept_answers_of_another_token(self):
        token = self.token("bridge codex slack")
        for key, body in self.store.answers:
            token.ask("POST", "/v1/inbound", body, {"Idempotency-Key": key})
            mine = {"agent": "codex", "channel": "slack", "chatType": "group", "peer": "mine", "text": "x"}
            reply = token.ask("POST", "/v1/inbound", mine, {"Idempotency-Key": key})
            self.assertIn(reply.status, (201, 422), reply)
            if reply.status == 422:  # the key is its own by now, not the other token's
                self.assertEqual((body["agent"], body["channel"]), ("codex", "slack"))
        self.settle(token)

    def test_evaluate(self):
        for name in ("bridge codex slack", "viewer slack", "viewer prefix", "admin codex"):
            token = self.token(name)
            for place in self.store.places:
                for extra in ({}, {"channel": "discord"}, {"to": "x"}):
                    token.ask("POST", "/v1/policy/evaluate", {"sessionKey": place.key, **extra})
            reply = token.ask("POST", "/v1/policy/evaluate", {"channel": "slack", "chatType": "direct"})
            self.assertEqual(self.ok(reply, 200)["trace"], [])
            if "agents" in token.scope:
                self.problem(token.ask("POST", "/v1/policy/evaluate", {"cases": [{"sessionKey": "agent:main:x"}]}), 403)
            self.problem(token.ask("GET", "/v1/policy/send"), 403, "forbidden")
            self.settle(token)

    # -- streams -------------------------------------------------------------------------------------------------------

    def searched(self, token, stream, what):
        with stream._changed:
            seen = [f"{e.id} {e.type} {e.raw}" for e in stream.events] + stream.comments + stream.bare_ids
        for one in seen:
            token.search(what, one.encode())
        token.search(what, str(stream.headers).encode())

    def stream_paths(self, token):
        yield "/v1/events"
        for agent in token.scope.get("agents", AGENTS):
            yield f"/v1/agents/{agent}/events"
        for place in self.store.seen_in(token.scope)[:3]:
            yield S(place.key, place.agent, "events")

    def test_every_stream(self):
        epoch = self.ok(self.api.get("/version"), 200)["epoch"]
        starts = ("replay=1000", f"after={epoch}-0", "types=*&replay=1000", "channel=discord&replay=1000",
                  "agent=main&replay=1000", "keyPrefix=agent:main:&replay=1000")
        for name in SCOPES:
            token = self.token(name)
            if token.role == "metrics":
                continue
            with self.subTest(name):
                open_ = []
                try:
                    for path in self.stream_paths(token):
                        for start in starts:
                            open_.append((f"{path}?{start}", token.client.stream(f"{path}?{start}&heartbeatMs=500")))
                        open_.append((path + " Last-Event-ID", token.client.stream(path + "?heartbeatMs=500",
                                                                                        last_event_id=epoch + "-0")))
                        if token.role == "session":  # it gets no tickets
                            continue
                        ticket = self.ok(token.ask("POST", "/v1/stream-tickets"), 201)["ticket"]
                        by_ticket = self.daemon.anonymous().stream(f"{path}?ticket={ticket}&replay=1000&heartbeatMs=500")
                        open_.append((path + " by ticket", by_ticket))
                    for place in self.store.hidden_from(token.scope)[:6]:
                        for path in (S(place.key, place.agent, "events"), f"/v1/agents/{place.agent}/events"):
                            try:
                                open_.append((path, token.client.stream(path + "?replay=1000&heartbeatMs=500")))
                            except StreamRefused as refused:
                                token.search(path, str(refused.headers).encode() + refused.body, path)
                    for _, stream in open_:
                        stream.wait_type("stream.hello")
                    polled = self.poll_while(token, self.store.write_everywhere)
                    end = self.ok(self.api.get("/v1/sessions"), 200)["asOf"]
                    last = int(end.split("-")[1])
                    reached = lambda s: int((s.last_id or "-0").split("-")[1]) >= last
                    for what, stream in open_:
                        if not stream.ended:
                            stream.wait_until(reached, 20, f"{what} as far as {end}")
                    token.look_up()  # with the words of what was written meanwhile
                    for what, stream in open_:
                        self.searched(token, stream, what)
                    for page in polled:
                        token.search("long poll", page)
                finally:
                    for _, stream in open_:
                        stream.close()
                whole = next(s for what, s in open_ if what == "/v1/events?replay=1000")
                self.assertEqual({e.data["key"] for e in whole.durable if e.data.get("key")},
                                 {p.key for p in self.store.seen_in(token.scope)}, "what is inside comes")
                self.settle(token)

    def poll_while(self, token, work):
        """Pages of a long poll, before and while others write."""
        pages, over = [], threading.Event()
        client = self.daemon.client(token.text)

        def poll():
            at = "replay=1000"
            last = False
            while not last:
                last = over.is_set()  # one more, when all is written
                reply = client.get(f"/v1/events?poll=1&waitMs=200&{at}")
                pages.append(str(reply.headers).encode() + reply.raw)
                if reply.status != 200:
                    return
                at = "after=" + reply.json["next"]

        poller = threading.Thread(target=poll)
        poller.start()
        try:
            work()
        finally:
            over.set()
            poller.join()
            client.close()
        self.assertGreater(len(pages), 1)
        return pages


class Restarts(Case):
    runs = {"asan", "tsan"}

    def test_a_limited_stream_over_restarts_tells_its_own_sessions_alone_and_all_of_them(self):
        guest = self.daemon.client(self.daemon.token("runner", agents=["main"], keyPrefix="agent:main:guest:"))
        after, wanted = self.ok(guest.get("/v1/sessions"), 200)["asOf"], []
        for turn in range(3):
            own = self.new("agent:main:guest:" + uid(), api=guest)["key"]
            self.assertEventId(self.say(own, f"own {turn}", api=guest)["asOf"])
            self.say(self.new()["key"], "of others")
            self.ok(guest.post(S(own, "main", "reset"), {}), 200)
            self.ok(guest.delete(S(own)), 204)
            wanted += [(kind, own) for kind in ("session.created", "message.appended", "session.reset", "session.deleted")]
            self.daemon.restart(kill=turn == 1)
        self.assertEqual([(e["type"], e["key"]) for e in self.polled(after, api=guest)], wanted)

"""Which session was used last: per agent and per client, after deletions, kills and for tokens that see a part."""

from harness.case import Case, S, uid
from harness.sessiond import eventually
from test_locks import held

LAST = "/v1/agents/{}/sessions/-/last"


class LastCase(Case):
    def setUp(self):
        super().setUp()
        self.agent = "a" + uid(8).lower()

    def key(self, rest=None):
        return f"agent:{self.agent}:{rest or 'k' + uid(8).lower()}"

    def make(self, rest=None):
        return self.new(self.key(rest))["key"]

    def speak(self, key, client=None, api=None, role="user"):
        headers = {"Sessiond-Client": client} if client else None
        self.ok((api or self.api).post(S(key, self.agent, "messages"), {"role": role, "text": "x"}, headers=headers), 201)

    def last(self, client=None, api=None, status=200):
        reply = (api or self.api).get(LAST.format(self.agent) + (f"?client={client}" if client else ""))
        if status != 200:
            return self.problem(reply, status, "session_not_found", "agent_not_found")
        session = self.ok(reply, 200)
        self.assertEqual(reply.etag, f'"r{session["rev"]}"')
        self.assertEventId(session["asOf"])
        return session["key"]


class Last(LastCase):
    def test_the_last_session_is_the_one_where_a_person_spoke_last(self):
        self.problem(self.api.get(LAST.format(self.agent)), 404, "agent_not_found")
        a, b = self.make(), self.make()
        self.speak(a)
        self.speak(b)
        self.assertEqual(self.last(), b)
        self.ok(self.api.get(S(a, self.agent)))
        self.ok(self.api.patch(S(a, self.agent), {"label": "L"}))
        self.speak(a, role="assistant")
        self.assertEqual(self.last(), b, "only people's messages count")
        self.ok(self.api.delete(S(b, self.agent)), 204)
        self.assertEqual(self.last(), a)
        self.ok(self.api.delete(S(a, self.agent)), 204)
        self.last(status=404)
        never_used = self.make()
        self.assertEqual(self.last(), never_used, "the newest that lives")

    def test_a_client_has_a_last_session_of_its_own(self):
        a, b, c = self.make(), self.make(), self.make()
        self.speak(a, "x")
        self.speak(b, "x")
        self.speak(c, "y")
        self.assertEqual([self.last("x"), self.last("y"), self.last("z"), self.last()], [b, c, c, c])
        self.ok(self.api.post(S(a, self.agent, "resume"), {"client": "x"}), 200)
        self.assertEqual([self.last("x"), self.last("y"), self.last()], [a, c, a])
        self.ok(self.api.delete(S(a, self.agent)), 204)
        self.assertEqual([self.last("x"), self.last()], [b, c])
        self.ok(self.api.delete(S(b, self.agent)), 204)
        self.assertEqual(self.last("x"), c, "a client without a session has the agent's")

    def test_the_last_session_survives_a_kill_and_a_restart(self):
        a, b = self.make(), self.make()
        self.speak(a, "x")
        self.speak(b)
        file = self.daemon.agent_dir(self.agent).parent / "last_session"
        for kill in (True, True, False):
            self.daemon.restart(kill=kill)
            self.assertEqual([self.last("x"), self.last()], [a, b])
            self.daemon.checkpoint()
            self.assertEqual(file.read_text(), self.ok(self.api.get(S(b, self.agent)))["sessionId"])
        reset = self.ok(self.api.post(S(b, self.agent, "reset")), 200)
        self.daemon.checkpoint()
        self.assertEqual(file.read_text(), reset["sessionId"])
        for key in (a, b):
            self.ok(self.api.delete(S(key, self.agent)), 204)
        self.daemon.checkpoint()
        self.assertFalse(file.exists())

    def test_the_file_follows_while_the_store_is_locked_and_over_a_kill(self):
        daemon = self.spawn()
        self.api = daemon.client()  # of this test alone
        a, b = self.make(), self.make()
        daemon.checkpoint()
        file = daemon.agent_dir(self.agent).parent / "last_session"
        ids = {key: self.ok(self.api.get(S(key, self.agent)))["sessionId"] for key in (a, b)}
        store = daemon.agent_dir(self.agent) / "sessions.json"
        with held(store):
            for key in (a, b, a):
                self.speak(key)
                eventually(lambda: file.read_text() == ids[key], what="the file to name the session")
            self.speak(b)
            daemon.kill9()
        file.write_text(ids[a])
        daemon.start()
        eventually(lambda: file.read_text() == ids[b], what="the file to name the session that was used before the kill")

    def test_the_book_is_gone_or_damaged(self):
        a, b = self.make(), self.make()
        self.speak(a, "x")
        self.speak(b)
        self.speak(a)
        self.daemon.stop()
        book = self.daemon.state / "journal" / "last" / f"{self.agent}.json"
        text = book.read_text()
        for damage in (text[:-20], text.replace("keys", "kexs"), "", None):
            if damage is None:
                book.unlink()
            else:
                book.write_text(damage)
            self.daemon.start()
            self.assertEqual(self.last(), a)
            self.daemon.stop()
        self.daemon.start()

    def test_an_inbound_message_counts(self):
        a = self.make()
        self.speak(a)
        message = {"agent": self.agent, "channel": "slack", "chatType": "direct", "peer": "U" + uid(8), "text": "hello"}
        first = self.ok(self.api.post("/v1/inbound", message, headers={"Sessiond-Client": "bridge"}), 201)
        self.assertEqual([self.last(), self.last("bridge")], [first["sessionKey"]] * 2)
        self.speak(a)
        self.ok(self.api.post("/v1/inbound", {**message, "text": "/new"}), 201)
        self.assertEqual(self.last(), first["sessionKey"], "a trigger without a message counts, too")

    def test_archived_sessions_are_no_last_ones(self):
        a, b = self.make(), self.make()
        self.speak(a)
        self.speak(b)
        self.ok(self.api.post(S(b, self.agent, "archive")), 200)
        self.assertEqual(self.last(), a)
        self.problem(self.api.post(S(b, self.agent, "resume")), 409, "session_archived")

    def test_the_key_is_reserved(self):
        self.problem(self.api.put(S("-", self.agent), {}), 422, "reserved_name")
        for key in ("-", self.key("-")):
            self.problem(self.api.post(f"/v1/agents/{self.agent}/sessions", {"key": key}), 422, "reserved_name")
        self.make()
        self.problem(self.api.get(S("-", self.agent)), 404, "session_not_found")

    def test_bad_clients(self):
        a = self.make()
        self.problem(self.api.get(LAST.format(self.agent) + "?client=a%20b"), 400, "bad_request")
        self.problem(self.api.post(S(a, self.agent, "messages"), {"role": "user", "text": "x"},
                                   headers={"Sessiond-Client": "a b"}), 400, "bad_request")
        self.invalid(self.api.post(S(a, self.agent, "resume"), {"client": "x" * 129}), "/client")
        self.invalid(self.api.post(S(a, self.agent, "resume"), {"client": "a b"}), "/client")


class LimitedTokens(LastCase):
    """What a token that sees a part of the agent is told, and what it can change for others."""

    def limited(self, prefix="mine:"):
        return self.daemon.client(self.daemon.token("operator", agents=[self.agent], keyPrefix=self.key(prefix)))

    def test_they_get_the_newest_that_they_see(self):
        token = self.limited()
        nothing = token.get(LAST.format(self.agent))
        self.problem(nothing, 404, "session_not_found")
        other = self.make()
        self.speak(other, "x")
        self.assertEqual(self.problem(token.get(LAST.format(self.agent)), 404, "session_not_found")["detail"],
                         nothing.json["detail"], "an agent that is there, and one that is not")
        first, second = self.make("mine:1"), self.make("mine:2")
        self.assertEqual(self.last(api=token), second, "the newest")
        self.speak(first, "x")
        self.speak(other, "x")
        self.assertEqual([self.last(api=token), self.last("x", api=token), self.last("x")], [first, first, other])

    def test_they_get_one_behind_many_that_they_do_not_see(self):
        mine = self.make("mine:1")
        for _ in range(3):
            self.ok(self.api.post("/v1/agents/%s/sessions" % self.agent, {}), 201)
        self.assertEqual(self.last(api=self.limited()), mine)

    def test_their_clients_are_their_own(self):
        token = self.limited()
        victim = self.make()
        mine = self.make("mine:1")
        self.speak(victim, "cli")
        self.speak(mine, "cli", api=token)
        self.assertEqual(self.last("cli"), victim)
        for n in range(100):
            self.speak(mine, f"flood-{n}", api=token)
        self.assertEqual(self.last("cli"), victim)
        self.assertEqual(self.last("flood-99", api=token), mine)
        self.assertEqual(self.last("flood-99"), mine, "not known: the agent's last one")

    def test_a_session_token(self):
        parent = self.make("parent")
        token = self.daemon.client(self.daemon.token("session", agents=[self.agent], key=parent))
        self.speak(self.make())
        self.assertEqual(self.last(api=token), parent)

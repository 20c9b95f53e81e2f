"""The life of a token: rotation with an overlap, changes of tokens.json that count by themselves, how many streams
one may have."""

import time

from harness.case import Case, S, json, uid
from harness.sessiond import SLOW, eventually
from harness.sse import StreamRefused

runs = {"asan", "tsan"}


class TokenCase(Case):
    def make(self, role="viewer", api=None, **more):
        return self.ok((api or self.api).post("/v1/admin/tokens", {"role": role, **more}), 201)

    def rotate(self, made, body=None, api=None):
        return (api or self.api).post(f"/v1/admin/tokens/{made['id']}/rotate", body)

    def row(self, made, api=None):
        rows = self.ok((api or self.api).get("/v1/admin/tokens"), 200)["data"]
        return next((row for row in rows if row["id"] == made["id"]), None)


class Connections(TokenCase):
    def test_a_token_is_refused_at_the_next_request_of_its_connection(self):
        ends = {"revoked": lambda made: self.api.delete(f"/v1/admin/tokens/{made['id']}"),
                "rotated": lambda made: self.rotate(made, {"overlapMs": 0})}
        for how, end in ends.items():
            made = self.make("bridge")
            client = self.daemon.client(made["token"])
            for _ in range(3):
                self.assertEqual(self.ok(client.get("/v1/whoami"), 200)["role"], "bridge")
            place = client._connection.sock.getsockname()
            self.ok(end(made))
            self.problem(client.get("/v1/whoami"), 401, "unauthorized", how)
            self.problem(client.get("/v1/sessions"), 401, "unauthorized", how)
            self.assertEqual(client._connection.sock.getsockname(), place, "it is one connection")


class Rotation(TokenCase):
    def test_the_new_one_is_as_the_old_one_and_both_are_good_for_the_overlap(self):
        ends = int(time.time() * 1000) + 86_400_000
        old = self.make("bridge", agents=["codex"], keyPrefix="agent:codex:", channel="slack", note="n", expiresAt=ends)
        before = int(time.time() * 1000)
        reply = self.rotate(old)
        new = self.ok(reply, 201)
        self.assertEqual(reply.headers["Location"], "/v1/admin/tokens/" + new["id"])
        self.assertNotEqual(new["id"], old["id"])
        for member in ("role", "agents", "keyPrefix", "channel", "note", "expiresAt"):
            self.assertEqual(new[member], old[member], member)
        self.assertEqual(new["replaces"]["id"], old["id"])
        self.assertTrue(before + 3_600_000 <= new["replaces"]["expiresAt"] <= int(time.time() * 1000) + 3_600_000)
        self.assertEqual(self.row(old)["expiresAt"], new["replaces"]["expiresAt"])
        for token in (old, new):
            self.assertEqual(self.ok(self.daemon.client(token["token"]).get("/v1/whoami"), 200)["id"], token["id"])

    def test_an_overlap_ends_and_the_old_ones_streams_with_it(self):
        old = self.make()
        with self.daemon.client(old["token"]).stream() as stream:
            stream.wait_type("stream.hello")
            new = self.ok(self.rotate(old, {"overlapMs": int(1000 * SLOW)}), 201)
            self.ok(self.daemon.client(old["token"]).get("/v1/whoami"), 200)
            stream.wait_end(10)
        self.problem(self.daemon.client(old["token"]).get("/v1/whoami"), 401, "unauthorized")
        self.ok(self.daemon.client(new["token"]).get("/v1/whoami"), 200)

    def test_without_an_overlap_the_old_one_is_revoked(self):
        old = self.make()
        client = self.daemon.client(old["token"])
        with client.stream() as stream, self.api.stream("/v1/events?types=token.*") as told:
            for each in (stream, told):
                each.wait_type("stream.hello")
            new = self.ok(self.rotate(old, {"overlapMs": 0}), 201)
            stream.wait_end(3)
            told.wait_for(lambda e: e.type == "token.created" and e.data["data"] == {"id": new["id"], "role": "viewer"})
            told.wait_for(lambda e: e.type == "token.revoked" and e.data["data"]["id"] == old["id"])
        self.problem(client.get("/v1/whoami"), 401, "unauthorized")
        self.assertIsNone(self.row(old))

    def test_with_an_overlap_it_is_only_made(self):
        old = self.make()
        with self.api.stream("/v1/events?types=token.*") as told:
            told.wait_type("stream.hello")
            new = self.ok(self.rotate(old, {"overlapMs": 604_800_000}), 201)
            told.wait_for(lambda e: e.type == "token.created" and e.data["data"]["id"] == new["id"])
            last = self.make()
            told.wait_for(lambda e: e.type == "token.created" and e.data["data"]["id"] == last["id"])
            self.assertFalse([e for e in told.durable if e.type == "token.revoked"])

    def test_an_overlap_never_lengthens_a_life(self):
        ends = int(time.time() * 1000) + 60_000
        old = self.make(expiresAt=ends)
        self.assertEqual(self.ok(self.rotate(old, {"overlapMs": 604_800_000}), 201)["replaces"]["expiresAt"], ends)
        self.assertEqual(self.row(old)["expiresAt"], ends)

    def test_what_is_refused(self):
        old = self.make()
        for wrong in ({"overlapMs": -1}, {"overlapMs": 604_800_001}, {"overlapMs": "1h"}):
            self.invalid(self.rotate(old, wrong), "/overlapMs")
        self.invalid(self.rotate(old, {"overlap": 1}), "/overlap")
        self.problem(self.rotate({"id": "zzzzzzzz"}), 404, "not_found")
        brief = self.make(expiresAt=int(time.time() * 1000) + 200)
        eventually(lambda: self.daemon.client(brief["token"]).get("/v1/whoami").status == 401, what="its end")
        self.problem(self.rotate(brief), 422, "validation_failed")
        self.assertNotIn("expiresAt", self.row(old), "nothing was done to it")

    def test_both_are_saved_before_anybody_is_told(self):
        daemon = self.spawn()
        api = daemon.client()
        short, gone = self.make(api=api), self.make(api=api)
        new = self.ok(self.rotate(short, api=api), 201)
        instead = self.ok(self.rotate(gone, {"overlapMs": 0}, api=api), 201)
        daemon.restart(kill=True)
        self.assertEqual(self.row(short, api)["expiresAt"], new["replaces"]["expiresAt"])
        for token, status in ((short, 200), (new, 200), (gone, 401), (instead, 200)):
            self.assertEqual(daemon.client(token["token"]).get("/v1/whoami").status, status)

    def test_a_rotation_that_cannot_be_saved_changes_nothing(self):
        daemon = self.spawn()
        api = daemon.client()
        old = self.make(api=api)
        path = daemon.state / "tokens.json"
        whole = path.read_text()
        path.write_text(whole[:-5])
        for overlap in (0, 1000):
            self.assertGreaterEqual(self.rotate(old, {"overlapMs": overlap}, api=api).status, 500)
        self.assertNotIn("expiresAt", self.row(old, api))
        self.ok(daemon.client(old["token"]).get("/v1/whoami"), 200)
        path.write_text(whole)
        self.ok(self.rotate(old, api=api), 201)

    def test_on_the_command_line(self):
        daemon = self.spawn()
        old = daemon.cli("token", "create", "--role", "bridge", "--channel", "slack").stdout.strip()
        for running in (True, False):
            done = daemon.cli("token", "rotate", old.split("_")[1], "--overlap", "1h" if running else "0")
            self.assertEqual(done.returncode, 0, done.stderr)
            new = done.stdout.strip()
            self.assertRegex(new, r"^sd_[a-z0-9]{8}_[A-Za-z0-9_-]{43}$", "the token alone on stdout")
            self.assertIn(old.split("_")[1], done.stderr)
            if running:
                self.ok(daemon.client(old).get("/v1/whoami"), 200)
                daemon.stop()
                old, older = new, old
        daemon.start()
        self.assertEqual(self.ok(daemon.client(new).get("/v1/whoami"), 200)["channel"], "slack")
        self.problem(daemon.client(old).get("/v1/whoami"), 401)
        self.ok(daemon.client(older).get("/v1/whoami"), 200)
        self.assertEqual(daemon.cli("token", "rotate", "zzzzzzzz").returncode, 1)
        self.assertEqual(daemon.cli("token", "rotate", new.split("_")[1], "--overlap", "8d").returncode, 2)

    def test_the_list_tells_when_a_token_was_last_used(self):
        self.ok(self.api.get("/v1/sessions"), 200)
        self.assertIn(time.strftime("%Y-%m-", time.gmtime()), self.daemon.cli("token", "list").stdout)
        listed = json.loads(self.daemon.cli("token", "list", "--json").stdout)["data"]
        mine = next(row for row in listed if row["id"] == self.daemon.admin_token.split("_")[1])
        self.assertIn("lastUsed", mine)


class HotReload(TokenCase):
    """A change of tokens.json counts by itself."""

    def setUp(self):
        super().setUp()
        self.own = self.spawn()
        self.path = self.own.state / "tokens.json"
        self.admin = self.own.client()

    def edit(self, change):
        tokens = json.loads(self.path.read_text())
        change(tokens["tokens"])
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(tokens))
        beside.chmod(0o600)
        beside.rename(self.path)

    def told(self, event):
        return [line for line in self.own.stderr if event in line]

    def test_a_token_taken_out_is_refused_and_its_streams_end(self):
        gone, kept = self.make(api=self.admin), self.make(api=self.admin)
        client = self.own.client(gone["token"])
        with client.stream() as stream, self.own.client(kept["token"]).stream() as other:
            for each in (stream, other):
                each.wait_type("stream.hello")
            self.edit(lambda tokens: tokens.remove(next(t for t in tokens if t["id"] == gone["id"])))
            stream.wait_end(5)
            self.problem(client.get("/v1/whoami"), 401, "unauthorized")
            mark = "after " + uid()
            self.inbound(self.admin, text=mark)
            other.wait_for(lambda e: mark in e.raw)

    def test_a_long_poll_of_a_token_taken_out_ends(self):
        gone = self.make(api=self.admin)
        client = self.own.client(gone["token"])
        with self.own.client(gone["token"]).stream() as stream:
            stream.wait_type("stream.hello")
            self.edit(lambda tokens: tokens.remove(next(t for t in tokens if t["id"] == gone["id"])))
            reply = client.get("/v1/events?poll=1&waitMs=60000")  # begun before or after: it does not wait for a minute
            self.problem(reply, 401, "unauthorized")
            stream.wait_end(5)

    def test_a_token_put_in_or_narrowed(self):
        made, more = self.make(api=self.admin), self.make(api=self.admin)
        row = next(t for t in json.loads(self.path.read_text())["tokens"] if t["id"] == more["id"])
        self.ok(self.admin.delete("/v1/admin/tokens/" + more["id"]), 204)
        client, again = self.own.client(made["token"]), self.own.client(more["token"])

        def change(tokens):
            next(t for t in tokens if t["id"] == made["id"])["agents"] = ["codex"]
            tokens.append(row)

        self.edit(change)
        eventually(lambda: again.get("/v1/whoami").status == 200, what="the token that was put in")
        self.problem(client.get("/v1/agents/main/sessions"), 403, "forbidden")

    def test_damage_changes_nothing_and_is_told_once(self):
        made = self.make(api=self.admin)
        whole = self.path.read_text()
        self.path.write_text(whole[:len(whole) // 2])
        eventually(lambda: self.told("tokens_not_reloaded"), what="the complaint")
        self.make_look_again()
        self.ok(self.own.client(made["token"]).get("/v1/whoami"), 200)
        self.assertEqual(len(self.told("tokens_not_reloaded")), 1)
        reloads = len(self.told("tokens_reloaded"))
        self.path.write_text(whole)
        eventually(lambda: len(self.told("tokens_reloaded")) > reloads, what="reading it again")
        self.ok(self.own.client(made["token"]).get("/v1/whoami"), 200)
        self.path.write_text("{")
        eventually(lambda: len(self.told("tokens_not_reloaded")) == 2, what="the next complaint")
        self.path.write_text(whole)

    def make_look_again(self):
        """Long enough for more looks; what must not happen has no event to wait for."""
        until = time.monotonic() + 1.5
        eventually(lambda: time.monotonic() > until, what="a while")

    def test_our_own_writes_are_no_changes(self):
        for _ in range(3):
            self.make(api=self.admin)
        self.make_look_again()
        self.assertEqual(self.told("tokens_reloaded"), [])


class StreamsPerToken(TokenCase):
    config = {"limits": {"streamsPerToken": 2}}

    def refused(self, open_):
        with self.assertRaises(StreamRefused) as refused:
            open_().close()
        problem = refused.exception
        self.assertEqual((problem.status, problem.json["code"], problem.json["limit"]),
                         (429, "too_many_requests", "streamsPerToken"))
        self.assertIn("limits.streamsPerToken", problem.json["detail"])
        self.assertGreaterEqual(int(problem.headers["Retry-After"]), 1)

    def test_one_more_is_429_until_one_ends(self):
        client, other = (self.daemon.client(self.make()["token"]) for _ in range(2))
        with client.stream() as first, client.stream("/v1/agents/main/events") as second:
            for each in (first, second):
                each.wait_type("stream.hello")
            self.refused(client.stream)
            with other.stream() as theirs:
                theirs.wait_type("stream.hello")
            first.close()

            def opened():
                try:
                    client.stream().close()
                    return True
                except StreamRefused:
                    return False

            eventually(opened, what="the place that was let go")

    def test_tickets_count_for_their_token(self):
        client = self.daemon.client(self.make()["token"])
        ticket = self.ok(client.post("/v1/stream-tickets"), 201)["ticket"]
        by_ticket = lambda: self.daemon.anonymous().stream("/v1/events?ticket=" + ticket)
        with by_ticket() as first, client.stream() as second:
            for each in (first, second):
                each.wait_type("stream.hello")
            self.refused(by_ticket)
            self.refused(client.stream)

    def test_a_long_poll_counts_while_it_waits(self):
        client = self.daemon.client(self.make()["token"])
        with client.stream() as first, client.stream() as second:
            for each in (first, second):
                each.wait_type("stream.hello")
            reply = client.get("/v1/events?poll=1&waitMs=1000")
            self.assertEqual(self.problem(reply, 429, "too_many_requests")["limit"], "streamsPerToken")
            self.ok(client.get("/v1/events?poll=1&waitMs=0"), 200)
            self.inbound()
            epoch = self.api.get("/version").json["epoch"]
            self.ok(client.get(f"/v1/events?poll=1&waitMs=1000&after={epoch}-0"), 200)  # has something, waits for nothing

    def test_many_short_ones_are_no_many(self):
        client = self.daemon.client(self.make()["token"])
        for _ in range(5):
            self.ok(client.get("/v1/events?poll=1&waitMs=1"), 200)
            self.assertEqual(client.request("HEAD", S("agent:main:x", "main", "events")).status, 404)

    def test_the_socket_of_the_owner_has_no_limit(self):
        for _ in range(4):
            self.ok(self.daemon.local().get("/v1/events?poll=1&waitMs=1"), 200)

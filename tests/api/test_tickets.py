"""Stream tickets: they open event streams in the place of their token, and nothing else."""

import signal
import stat
import time

from harness.case import Case, S, json, uid
from harness.sessiond import SLOW, eventually
from harness.sse import StreamRefused

runs = {"asan", "tsan"}


class TicketCase(Case):
    def ticket(self, api=None, **body):
        made = self.ok((api or self.api).post("/v1/stream-tickets", body or None), 201)
        return made["ticket"]

    def open(self, ticket, path="/v1/events", query="", daemon=None, **more):
        """As EventSource does: the URL alone, no Authorization."""
        return (daemon or self.daemon).anonymous().stream(f"{path}?ticket={ticket}{query}", **more)

    def refused(self, status, code, ticket, *where, **more):
        with self.assertRaises(StreamRefused) as refused:
            self.open(ticket, *where, **more).close()
        self.assertEqual((refused.exception.status, refused.exception.json["code"]), (status, code))
        if len(ticket) > 8:
            self.assertNotIn(ticket.encode(), refused.exception.body)
        return refused.exception


class Tickets(TicketCase):
    def test_made_by_whoever_may_stream(self):
        for role, may in {"admin": True, "operator": True, "bridge": True, "runner": True, "viewer": True,
                          "metrics": False}.items():
            with self.subTest(role):
                api = self.daemon.client(self.daemon.token(role))
                before = int(time.time() * 1000)
                reply = api.post("/v1/stream-tickets")
                if not may:
                    self.problem(reply, 403, "forbidden")
                    continue
                made = self.ok(reply, 201)
                self.assertEqual(set(made), {"ticket", "expiresAt"})
                self.assertRegex(made["ticket"], r"^sdt_[A-Za-z0-9_-]{43,}$")
                self.assertTrue(before + 59_000 <= made["expiresAt"] <= int(time.time() * 1000) + 60_000)
                with self.open(made["ticket"]) as stream:
                    stream.wait_type("stream.hello")

    def test_the_unix_socket_has_no_token_to_make_one_from(self):
        self.problem(self.daemon.local().post("/v1/stream-tickets"), 403, "forbidden")

    def test_opens_all_event_routes_and_reconnects(self):
        key = self.new()["key"]
        for path in ("/v1/events", "/v1/agents/main/events", S(key, "main", "events")):
            with self.subTest(path):
                ticket = self.ticket()
                with self.open(ticket, path) as stream:
                    stream.wait_type("stream.hello")
                    self.say(key, "first")
                    last = stream.wait_for(lambda e: "first" in e.raw).id
                away = self.say(key, "away")["asOf"]
                with self.open(ticket, path, last_event_id=last) as stream:
                    self.assertEqual(stream.wait_for(lambda e: "away" in e.raw).id, away)

    def test_opens_nothing_else(self):
        key = self.new()["key"]
        ticket = self.ticket()
        nobody = self.daemon.anonymous()
        for method, path in (("GET", "/v1/sessions"), ("GET", S(key)), ("GET", S(key, "main", "messages")),
                             ("GET", "/v1/whoami"), ("GET", "/metrics"), ("POST", "/v1/stream-tickets"),
                             ("POST", "/v1/inbound"), ("GET", "/v1/admin/tokens"), ("POST", "/v1/admin/tokens")):
            with self.subTest(f"{method} {path}"):
                body = {} if method == "POST" else None
                self.problem(nobody.request(method, f"{path}?ticket={ticket}", body), 401, "unauthorized")
                self.problem(nobody.request(method, path, body, headers={"Authorization": "Bearer " + ticket}), 401)
        self.problem(self.api.get("/v1/sessions?ticket=" + ticket), 400, "bad_request")

    def test_made_up(self):
        good = self.ticket()
        for bad in ("", "x", "sdt_", "sdt_" + "A" * 107, good[:-1], good + "A", good[:40] + ("A" if good[40] != "A" else "B") + good[41:],
                    self.daemon.admin_token):
            with self.subTest(bad[:12]):
                self.refused(401, "unauthorized", bad)

    def test_goes_before_what_a_proxy_or_the_socket_adds(self):
        narrow = self.daemon.client(self.daemon.token("viewer", keyPrefix="agent:main:telegram:"))
        ticket = self.ticket(narrow)
        mark = "before " + uid()
        with self.open(ticket, headers={"Authorization": "Basic dXNlcjpwYXNz"}) as stream, \
                self.api.stream("/v1/events?ticket=" + ticket) as over:
            for each in (stream, over):
                each.wait_type("stream.hello")
            self.inbound(channel="slack", text=mark)
            self.inbound(channel="telegram", text=mark)
            for each in (stream, over):
                self.assertIn(":telegram:", each.wait_for(lambda e: mark in e.raw).data["key"])

    def test_carries_the_scope_of_its_token(self):
        api = self.daemon.client(self.daemon.token("viewer", agents=["main"], channel="slack"))
        ticket = self.ticket(api)
        self.refused(403, "forbidden", ticket, "/v1/agents/codex/events")
        hidden = self.inbound(channel="telegram")["sessionKey"]
        self.refused(404, "session_not_found", ticket, S(hidden, "main", "events"))
        mark = "scope " + uid()
        with self.open(ticket) as stream:
            stream.wait_type("stream.hello")
            for agent, channel in (("codex", "slack"), ("main", "telegram"), ("main", "slack")):
                self.inbound(agent=agent, channel=channel, text=f"{mark} {agent} {channel}")
            stream.wait_for(lambda e: f"{mark} main slack" in e.raw)
            self.assertEqual({(e.data["agent"], e.data["channel"]) for e in stream.durable}, {("main", "slack")})

    def test_ends_with_its_token(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        api = self.daemon.client(made["token"])
        used, unused = self.ticket(api), self.ticket(api)
        with self.open(used) as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
            stream.wait_end(3)
        for ticket in (used, unused):
            self.refused(401, "unauthorized", ticket)

    def test_expires_with_its_token(self):
        made = self.ok(self.api.post("/v1/admin/tokens",
                                     {"role": "viewer", "expiresAt": int(time.time() * 1000) + int(1500 * SLOW)}), 201)
        ticket = self.ticket(self.daemon.client(made["token"]))
        with self.open(ticket) as stream:
            stream.wait_type("stream.hello")
            stream.wait_end(5)
        self.refused(401, "unauthorized", ticket)

    def test_of_a_narrowed_token(self):
        daemon = self.spawn()
        made = self.ok(daemon.client().post("/v1/admin/tokens", {"role": "viewer"}), 201)
        api = daemon.client(made["token"])
        ticket = self.ticket(api)
        with self.open(ticket, daemon=daemon) as stream:
            stream.wait_type("stream.hello")
            path = daemon.state / "tokens.json"
            tokens = json.loads(path.read_text())
            next(t for t in tokens["tokens"] if t["id"] == made["id"])["agents"] = ["codex"]
            path.write_text(json.dumps(tokens))
            daemon.process.send_signal(signal.SIGHUP)
            stream.wait_end(3)
        self.refused(401, "unauthorized", ticket, daemon=daemon)
        with self.open(self.ticket(api), daemon=daemon) as stream:
            stream.wait_type("stream.hello")


class Filters(TicketCase):
    def test_are_what_the_stream_filters_by(self):
        filters = {"types": "message.*", "agent": "main", "keyPrefix": "slack:", "channel": "slack"}
        ticket = self.ticket(filters=filters)
        mark = "filters " + uid()
        for query in ("", "&channel=slack&types=message.*"):
            with self.open(ticket, query=query) as stream:
                hello = stream.wait_type("stream.hello")
                self.assertEqual(hello.data["filters"], {**filters, "types": ["message.*"]})
                self.inbound(channel="telegram", text=mark + query)
                self.inbound(channel="slack", text=mark + query)
                stream.wait_for(lambda e: mark + query in e.raw)
                self.assertEqual({(e.type, e.data["channel"]) for e in stream.durable}, {("message.appended", "slack")})

    def test_a_query_may_narrow_further_but_not_differ(self):
        ticket = self.ticket(filters={"channel": "slack"})
        with self.open(ticket, query="&types=session.*&heartbeatMs=200") as stream:
            self.assertEqual(stream.wait_type("stream.hello").data["filters"],
                             {"types": ["session.*"], "channel": "slack"})
        for query in ("&channel=telegram", "&channel=", "&channel=telegram&channel=slack", "&channel=Slack"):
            with self.subTest(query):
                self.assertIn("channel", self.refused(400, "bad_request", ticket, query=query).json["detail"])

    def test_validation(self):
        post = lambda body: self.api.post("/v1/stream-tickets", body)
        self.invalid(post({"filters": {"types": "message.*,nosuch.*"}}), "/filters/types")
        self.invalid(post({"filters": {"agent": "!"}}), "/filters/agent")
        self.invalid(post({"filters": {"channel": 1, "topic": " ", "keyPrefix": "x" * 513, "key": "y"}}),
                     "/filters/channel", "/filters/topic", "/filters/keyPrefix", "/filters/key")
        self.invalid(post({"filters": ["types"]}), "/filters")
        self.invalid(post({"filter": {}}), "/filter")
        self.problem(post(b"{"), 400, "bad_request")
        for empty in ({}, {"filters": {}}, {"filters": None}):
            self.ok(post(empty), 201)


class Restart(TicketCase):
    def test_reconnects_after_a_kill(self):
        daemon = self.spawn({"log": {"level": "debug"}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        used, unused = self.ticket(api), self.ticket(api)
        with self.open(used, daemon=daemon) as stream:
            stream.wait_type("stream.hello")
            last = self.say(key, "before", api=api)["asOf"]
            stream.wait_for(lambda e: "before" in e.raw)
            daemon.kill9()
            stream.wait_end()
        daemon.start()
        missed = self.say(key, "missed", api=api)["asOf"]
        with self.open(used, daemon=daemon, last_event_id=last) as stream:
            self.assertEqual(stream.wait_for(lambda e: "missed" in e.raw).id, missed)
        with self.open(unused, daemon=daemon) as stream:
            stream.wait_type("stream.hello")

        kept = daemon.state / "journal" / "tickets"
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o600)
        self.assertEqual(len(kept.read_text().splitlines()), 2)
        self.problem(daemon.anonymous().get("/v1/sessions?ticket=" + used), 401)
        self.refused(401, "unauthorized", used[:-1], daemon=daemon)
        metrics = api.get("/metrics").raw.decode()
        eventually(lambda: sum("stream_closed" in line for line in daemon.stderr) >= 2, what="the log of closed streams")
        for ticket in (used, unused):
            for where in (kept.read_text(), metrics, "\n".join(daemon.stderr + daemon.stdout)):
                self.assertNotIn(ticket[4:40], where, "a ticket is never told on")
        report = daemon.cli("doctor")
        self.assertNotIn("journal/tickets", report.stdout)

    def test_a_disk_that_refuses_does_not_refuse_the_stream(self):
        daemon = self.spawn()
        api = daemon.client()
        (daemon.state / "journal" / "tickets").mkdir()
        with self.open(self.ticket(api), daemon=daemon) as stream:
            stream.wait_type("stream.hello")
        eventually(lambda: any("tickets_not_saved" in line for line in daemon.stderr), what="the warning")
        self.assertEqual(daemon.stop(), 0)
        daemon.start()  # and what cannot be read is none
        with self.open(self.ticket(daemon.client()), daemon=daemon) as stream:
            stream.wait_type("stream.hello")

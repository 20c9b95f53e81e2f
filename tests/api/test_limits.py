"""What one client can make the daemon hold or do has a bound (store/limits.hpp): entries, topics, archives, policies, pages, answers."""

import codecs
import socket
import time
import unittest

from harness.case import Case, S, json, uid
from harness.sessiond import SLOW, eventually, has_fault_points

runs = {"asan", "tsan"}

FIELDS = 1000          # of an entry
MEMBERS = 20_000       # of an entry at all depths
ENTRY = 1 << 20        # bytes of an entry
TOPICS = 1000          # of a session
TOLD = 100             # names of archives
PAGE = 1 << 20         # bytes of a page


def fields(count, prefix="f"):
    return {f"{prefix}{i}": 1 for i in range(count)}


class Entries(Case):
    config = {"session": {"spawn": {"count": 1000}}}

    def ways(self, entry):
        """Each way that makes or changes an entry, with `entry` in it: name, reply, prefix of the pointers."""
        key = self.new()["key"]
        yield "patch", self.api.patch(S(key), entry), ""
        yield "put", self.api.put(S(key), entry), ""
        yield "import", self.api.put(S("agent:main:slack:channel:" + uid()), entry), ""
        yield "create", self.api.post("/v1/agents/main/sessions", {"key": f"agent:main:x:{uid()}", "entry": entry}), "/entry"
        yield "spawn", self.api.post(S(key, "main", "spawn"), {"entry": entry}), "/entry"

    def test_fault_13_more_than_1000_fields_are_refused_by_each_way(self):
        for way, reply, prefix in self.ways(fields(FIELDS + 1)):
            with self.subTest(way):
                self.invalid(reply, prefix)
        for way, reply, _ in self.ways(fields(FIELDS - 20)):
            with self.subTest(way):
                self.ok(reply)

    def test_fault_13_patch_of_40000_members_is_refused(self):
        key = self.new()["key"]
        self.invalid(self.api.patch(S(key), fields(40_000)), "")
        self.assertNotIn("f0", self.api.get(S(key)).json)

    def test_fault_13_fields_that_come_one_after_the_other_are_counted_too(self):
        key = self.new()["key"]
        self.ok(self.api.patch(S(key), fields(600, "a")))
        before = self.api.get(S(key))
        self.invalid(self.api.patch(S(key), fields(600, "b")), "")
        self.assertEqual(self.api.get(S(key)).etag, before.etag, "a refused write changes nothing")
        self.ok(self.api.patch(S(key), {**fields(300, "b"), **{f"a{i}": None for i in range(300)}}))

    def test_fault_13_an_entry_does_not_grow_beyond_1_mib(self):
        key = self.new()["key"]
        part = "x" * (ENTRY // 2 - 200)
        self.ok(self.api.patch(S(key), {"first": part, "second": part}))
        self.invalid(self.api.patch(S(key), {"third": "y" * 2000, "z": 1}), "/second")
        self.ok(self.api.patch(S(key), {"third": "y" * 2000, "second": None}))
        for way, reply, prefix in self.ways({"big": "x" * ENTRY}):
            with self.subTest(way):
                self.invalid(reply, prefix + "/big")

    def test_fault_13_what_the_daemon_itself_writes_is_not_counted(self):
        key = self.new()["key"]
        part = "x" * (ENTRY // 2 - 200)
        self.ok(self.api.patch(S(key), {"first": part, "second": part}))
        self.say(key, "a message")
        self.ok(self.api.post(S(key, "main", "reset")))
        self.ok(self.api.post(S(key, "main", "archive")))
        self.ok(self.api.post(S(key, "main", "unarchive")))

    def test_fault_13_previous_sessions_of_an_import_are_bounded(self):
        key = "agent:main:slack:channel:" + uid()
        self.invalid(self.api.put(S(key), {"previousSessions": [{"sessionId": uid()}] * 51}), "/previousSessions")
        self.invalid(self.api.put(S(key), {"previousSessions": ["x" * 300_000]}), "/previousSessions")
        self.ok(self.api.put(S(key), {"previousSessions": [{"sessionId": uid()}] * 50}), 201)

    def test_fault_13_bridges_and_routes_grow_no_entry_beyond_it(self):
        said = self.inbound(chatType="group", peer="G" + uid())
        key = said["sessionKey"]
        peer = key.rsplit(":", 1)[1]
        part = "x" * (ENTRY // 2 - 500)
        self.ok(self.api.patch(S(key), {"first": part, "second": part}))
        body = {"channel": "slack", "chatType": "group", "peer": peer, "text": "hi", "subject": "s" * 4000}
        self.invalid(self.api.post("/v1/inbound", body), "/second")
        self.ok(self.api.post("/v1/inbound", {**body, "subject": ""}), 201)
        self.invalid(self.api.put(S(key, "main", "route"), {"channel": "slack", "to": "t" * 512, "accountId": "a" * 512}), "/second")

    def test_fault_55_more_than_20000_members_inside_one_field_are_refused(self):
        for way, reply, prefix in self.ways({"deep": {"in": fields(MEMBERS + 1)}}):
            with self.subTest(way):
                self.invalid(reply, prefix + "/deep")
        self.invalid(self.api.patch(S(self.new()["key"]), {"list": [{"a": i} for i in range(MEMBERS + 1)]}), "/list")

    def test_fault_55_what_is_nested_is_merged_as_rfc_7396_has_it(self):
        key = self.new()["key"]
        count = MEMBERS // 2
        self.ok(self.api.patch(S(key), {"deep": {"a": fields(count), "s": "x", "o": {"k": 1}}}))
        changed = {f"f{i}": None if i % 2 else {"n": {"gone": None, "kept": i}} for i in range(0, count, 100)}
        self.ok(self.api.patch(S(key), {"deep": {"a": {**changed, "new": 1}, "s": {"y": None, "z": 2}, "o": [1]}}))
        deep = self.api.get(S(key)).json["deep"]
        self.assertEqual(len(deep["a"]), count + 1)
        self.assertEqual((deep["a"]["f0"], deep["a"]["f1"], deep["a"]["new"]), ({"n": {"kept": 0}}, 1, 1))
        self.assertEqual((deep["s"], deep["o"]), ({"z": 2}, [1]))

    def test_fault_55_delivery_context_of_many_members_is_refused(self):
        key = self.new()["key"]
        context = {"channel": "slack", "to": "x", **fields(MEMBERS)}
        self.invalid(self.api.patch(S(key), {"deliveryContext": context}), "/deliveryContext")

    def test_fault_13_a_larger_entry_of_another_program_may_shrink(self):
        daemon = self.spawn()
        api = daemon.client()
        self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:slack:channel:c1"}), 201)
        daemon.checkpoint()
        self.assertEqual(daemon.stop(), 0)
        store = daemon.agent_dir() / "sessions.json"
        stored = json.loads(store.read_text())
        entry = next(iter(stored.values()))
        entry.update(fields(3000))
        store.write_text(json.dumps(stored))
        daemon.start()
        path = S("agent:main:slack:channel:c1")
        self.assertEqual(api.get(path).json["f2999"], 1)
        self.invalid(api.patch(path, {"more": 1}), "")
        self.ok(api.patch(path, {"f0": 2}))
        self.ok(api.patch(path, {"f1": None, "more": 1}))
        self.ok(api.patch(path, {f"f{i}": None for i in range(2, 2500)}), 200)
        self.ok(api.patch(path, {"again": 1}))


class Topics(Case):
    config = {"store": {"cacheTtlMs": 86_400_000}}

    def with_topics(self, count, **named):
        """A daemon whose session has `count` topics that lay there when it started."""
        daemon = self.spawn(**named)
        api = daemon.client()
        session = self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:slack:channel:c1"}), 201)
        self.ok(api.post(S(session["key"], "main", "messages"), {"role": "user", "text": "own"}), 201)
        self.ok(api.post(S(session["key"], "main", "messages") + "?topic=t0", {"role": "user", "text": "t0"}), 201)
        daemon.checkpoint()
        self.assertEqual(daemon.stop(), 0)
        folder = daemon.agent_dir()
        text = (folder / f"{session['sessionId']}-topic-t0.jsonl").read_text()
        for i in range(1, count):
            (folder / f"{session['sessionId']}-topic-t{i}.jsonl").write_text(text)
        daemon.start()
        return daemon, api, session

    def names(self, daemon, session):
        """Of its transcripts and their archives; not of the entry that is kept beside these."""
        return sorted(p.name for p in daemon.agent_dir().glob(session["sessionId"] + "*") if p.suffix != ".entry")

    def test_fault_16_names_of_archives_beyond_100_are_counted(self):
        count = TOLD + 30
        daemon, api, session = self.with_topics(count)
        with api.stream("/v1/events?types=session.reset,session.deleted") as stream:
            stream.wait_type("stream.hello")
            after = self.ok(api.post(S(session["key"], "main", "reset")), 200)
            told = stream.wait_type("session.reset").data["data"]
        self.assertEqual((len(after["archivedAs"]), after["archivedMore"]), (TOLD, count + 1 - TOLD))
        self.assertEqual((told["archivedAs"], told["archivedMore"]), (after["archivedAs"], after["archivedMore"]))
        old = self.ok(api.get(S(session["key"], "main", "history")))["data"][1]
        self.assertEqual((len(old["archivedAs"]), old["archivedMore"]), (TOLD, count + 1 - TOLD))
        daemon.checkpoint()
        names = self.names(daemon, session)
        self.assertEqual(len(names), count + 1)
        self.assertTrue(all(".jsonl.reset." in n for n in names), "all of them are archived")

    @unittest.skipUnless(has_fault_points(), "a build without fault points")
    def test_fault_16_all_are_archived_after_a_kill_too(self):
        count = TOLD + 30
        for method, path, mark in (("POST", "/reset", ".jsonl.reset."), ("DELETE", "", ".jsonl.deleted."),
                                   ("DELETE", "?purge=true", None)):
            for point in ("archive.closed=kill", "archive.renamed:60=kill", "archive.renamed:120=kill"):
                with self.subTest(path=path, point=point):
                    daemon, api, session = self.with_topics(count)
                    self.assertEqual(daemon.stop(), 0)
                    daemon.env["SESSIOND_FAULT"] = point
                    daemon.start()
                    try:
                        api.request(method, S(session["key"]) + path)
                    except OSError:
                        pass  # it may die before the answer is out
                    eventually(lambda: not daemon.alive, 10, what="the death at " + point)
                    del daemon.env["SESSIOND_FAULT"]
                    daemon.kill9()
                    daemon.start()
                    daemon.checkpoint()
                    names = self.names(daemon, session)
                    if mark is None:
                        self.assertEqual(names, [], "purged")
                    else:
                        self.assertEqual(len(names), count + 1)
                        self.assertTrue(all(mark in n for n in names), [n for n in names if mark not in n][:3])
                    self.assertEqual(daemon.stop(), 0)

    @unittest.skipUnless(has_fault_points(), "a build without fault points")
    def test_fault_16_renames_of_one_reset_are_synced_at_once(self):
        daemon, api, session = self.with_topics(20)
        self.assertEqual(daemon.stop(), 0)
        daemon.env["SESSIOND_FAULT"] = "archive.synced:2=kill"  # once is enough: it never comes there a second time
        daemon.start()
        self.ok(api.post(S(session["key"], "main", "reset")), 200)
        daemon.checkpoint()
        self.assertTrue(daemon.alive)
        self.assertTrue(all(".jsonl.reset." in n for n in self.names(daemon, session)))
        del daemon.env["SESSIOND_FAULT"]

    def test_fault_16_a_session_has_at_most_1000_topics(self):
        daemon, api, session = self.with_topics(TOPICS + 5)
        messages = S(session["key"], "main", "messages")
        self.ok(api.post(messages + "?topic=t7", {"role": "user", "text": "known"}), 201)
        self.assertEqual(len(self.ok(api.get(messages + f"?topic=t{TOPICS + 4}"))["data"]), 1, "others' are served")
        self.invalid(api.post(messages + "?topic=more", {"role": "user", "text": "new"}), "/topic")
        self.invalid(api.post(S(session["key"], "main", "outbound") + "", {"text": "x", "topic": "more"}), "/topic")
        body = {"channel": "slack", "chatType": "channel", "peer": "c1", "text": "x", "topic": "more"}
        self.invalid(api.post("/v1/inbound", body), "/topic")
        self.assertFalse((daemon.agent_dir() / f"{session['sessionId']}-topic-more.jsonl").exists())
        self.ok(api.post(S(session["key"], "main", "reset")), 200)
        self.ok(api.post(messages + "?topic=more", {"role": "user", "text": "new"}), 201)


class Policies(Case):
    def rules(self, count, **match):
        return {"default": "allow", "rules": [{"match": {"channel": f"c{i}", **match}, "action": "deny"} for i in range(count)]}

    def evaluate(self, body):
        return self.api.post("/v1/policy/evaluate", body)

    def test_fault_14_cases_have_a_trace_only_when_it_is_asked_for(self):
        body = {"policy": self.rules(3), "cases": [{"channel": "slack"}, {"channel": "c1"}]}
        for result in self.ok(self.evaluate(body))["results"]:
            self.assertNotIn("trace", result)
        self.assertEqual([r["action"] for r in self.ok(self.evaluate(body))["results"]], ["allow", "deny"])
        traced = self.ok(self.evaluate({**body, "trace": True}))["results"]
        self.assertEqual([len(r["trace"]) for r in traced], [3, 2])
        self.assertEqual(len(self.ok(self.evaluate({"policy": self.rules(3), "channel": "slack"}))["trace"]), 3)

    def test_fault_14_rules_times_cases_are_bounded(self):
        case = {"channel": "slack"}
        self.ok(self.evaluate({"policy": self.rules(100), "cases": [case] * 1000}))
        self.invalid(self.evaluate({"policy": self.rules(101), "cases": [case] * 1000}), "/cases")
        self.ok(self.evaluate({"policy": self.rules(100), "cases": [case] * 20, "trace": True}))
        self.invalid(self.evaluate({"policy": self.rules(100), "cases": [case] * 21, "trace": True}), "/cases")

    def test_fault_14_a_policy_is_bounded(self):
        self.invalid(self.evaluate({"policy": self.rules(1001), "channel": "slack"}), "/policy/rules")
        self.invalid(self.evaluate({"policy": self.rules(600, to="t" * 500), "channel": "slack"}), "/policy")
        etag = self.api.get("/v1/policy/send").etag
        self.invalid(self.api.put("/v1/policy/send", self.rules(1001), if_match=etag), "/rules")
        self.invalid(self.api.put("/v1/policy/send", self.rules(600, to="t" * 500), if_match=etag), "")
        self.assertEqual(self.api.get("/v1/policy/send").etag, etag)

    def test_fault_14_a_step_of_a_trace_is_short(self):
        policy = {"rules": [{"match": {"to": "é" * 2000}, "action": "deny"}]}
        trace = self.ok(self.evaluate({"policy": policy, "to": "b" * 500}))["trace"]
        self.assertLess(len(trace[0]["because"]), 400)


class Pages(Case):
    def test_fault_17_a_page_of_messages_ends_at_1_mib(self):
        key = self.new()["key"]
        for i in range(6):
            self.say(key, str(i) * 300_000)
        for order in ("asc", "desc"):
            seen, query = [], ""
            while True:
                reply = self.api.get(S(key, "main", "messages") + f"?limit=200&order={order}" + query)
                self.assertLess(len(reply.raw), PAGE + 10_000)
                page = self.ok(reply, 200)
                self.assertTrue(page["data"])
                seen += [m["seq"] for m in page["data"]]
                if not page["page"]["hasMore"]:
                    break
                query = f"&after={page['page']['nextAfter']}" if order == "asc" else f"&before={page['page']['nextBefore']}"
            self.assertEqual(seen if order == "asc" else seen[::-1], sorted(seen))
            self.assertEqual(len(seen), 6)

    def test_fault_17_a_message_larger_than_a_page_is_one(self):
        key = self.new()["key"]
        self.say(key, "x" * (2 * PAGE))
        self.say(key, "y")
        page = self.ok(self.api.get(S(key, "main", "messages")), 200)
        self.assertEqual((len(page["data"]), page["page"]["hasMore"]), (1, True))

    def test_fault_17_a_page_of_sessions_ends_at_1_mib(self):
        agent = "big" + uid(6)
        keys = [f"agent:{agent}:x:{i}" for i in range(8)]
        for key in keys:
            self.ok(self.api.post(f"/v1/agents/{agent}/sessions", {"key": key, "entry": {"big": "b" * 400_000}}), 201)
        seen, query = [], ""
        while True:
            reply = self.api.get(f"/v1/agents/{agent}/sessions?sort=key&limit=200" + query)
            self.assertLess(len(reply.raw), 2 * PAGE)
            page = self.ok(reply, 200)
            seen += [s["key"] for s in page["data"]]
            if not page["page"]["hasMore"]:
                break
            query = "&cursor=" + page["page"]["next"]
        self.assertEqual(seen, keys)

    def test_fault_17_children_end_at_1_mib(self):
        key = self.new()["key"]
        for _ in range(5):
            self.ok(self.api.post(S(key, "main", "spawn"), {"entry": {"big": "b" * 400_000}}), 201)
        reply = self.api.get(S(key, "main", "children"))
        self.assertTrue(self.ok(reply, 200)["hasMore"])
        self.assertLess(len(reply.raw), 2 * PAGE)


class Unread(Case):
    """Clients that read nothing. A socket pair of ours has room for some; the daemon keeps the rest, up to the bound."""
    config = {"limits": {"bytesPerToken": 4 << 20}}
    clients = 24

    def deaf(self, request):
        sock = socket.socket()
        self.addCleanup(sock.close)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(10 * SLOW)
        sock.connect(("127.0.0.1", self.daemon.port))
        sock.sendall(request)
        return sock

    def head(self, sock):
        text = b""
        while b"\r\n\r\n" not in text:
            text += sock.recv(512)
        return int(text.split()[1])

    def test_fault_17_replies_that_nobody_reads_are_bounded_for_a_token(self):
        key = self.new()["key"]
        for i in range(3):
            self.say(key, str(i) * 300_000)
        page = (f"GET {S(key, 'main', 'messages')}?limit=200 HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.daemon.token('viewer')}\r\n\r\n").encode()
        deaf = [self.deaf(page) for _ in range(self.clients)]
        statuses = [self.head(s) for s in deaf]
        self.assertEqual(set(statuses), {200, 429}, statuses)
        self.assertLessEqual(statuses.count(200), 8, "about 4 MiB of 0.9 MiB each, and what the kernel took")
        self.ok(self.api.get(S(key, "main", "messages")), 200)  # another token reads on
        for s in deaf:
            s.close()
        reader = self.daemon.client(page.split(b"Bearer ")[1].split(b"\r")[0].decode())
        eventually(lambda: reader.get(S(key, "main", "messages")).status == 200, what="room again")

    def test_fault_17_bodies_that_come_in_are_bounded_too(self):
        token = self.daemon.token("runner")
        key = self.new()["key"]
        head = (f"POST {S(key, 'main', 'messages')} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Authorization: Bearer {token}\r\nContent-Length: {2 << 20}\r\n\r\n").encode()
        held = []
        for _ in range(6):
            sock = self.deaf(head)
            try:
                sock.sendall(b" " * ((2 << 20) - 1))
            except (ConnectionResetError, BrokenPipeError):
                pass  # it was refused meanwhile
            held.append(sock)

        def refused(sock):
            sock.setblocking(False)
            try:
                return sock.recv(12).split()[1:2] == [b"429"]
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True

        open_ones = list(held)

        def few_are_left():
            open_ones[:] = [s for s in open_ones if not refused(s)]
            return len(open_ones) <= 2
        eventually(few_are_left, what="the refusal of all but two")
        self.ok(self.api.get("/v1/whoami"), 200)


class Answers(Case):
    def test_fault_18_a_problem_tells_at_most_20_faults(self):
        for path, body in (("/v1/inbound", {f"unknown{i}": 1 for i in range(5000)}),
                           ("/v1/agents/main/sessions", {"key": "agent:main:x:y", "entry": {f"rev{i}" if i else "rev": 1 for i in range(900)}}),
                           ("/v1/admin/tokens", {"role": "viewer", "agents": [1] * 900})):
            with self.subTest(path):
                reply = self.api.post(path, body)
                if reply.status == 201:
                    continue
                problem = self.problem(reply, 422)
                self.assertLessEqual(len(problem["errors"]), 20)
                self.assertLess(len(reply.raw), 64 << 10)
        detail = self.problem(self.api.post("/v1/inbound", {f"unknown{i}": 1 for i in range(500)}), 422)["detail"]
        self.assertIn("more)", detail)

    def test_fault_18_long_names_are_told_in_short(self):
        name = "é" * 300_000
        reply = self.api.post("/v1/inbound", {name: 1})
        problem = self.problem(reply, 422)
        self.assertLess(len(reply.raw), 16 << 10)
        self.assertTrue(problem["errors"][0]["pointer"].startswith("/é") or problem["errors"])

    def test_fault_18_fields_and_types_are_bounded(self):
        key = self.new()["key"]
        many = ",".join(f"f{i}" for i in range(65))
        long = "x" * 4100
        for query in (f"fields={many}", f"fields={long}"):
            self.problem(self.api.get(S(key) + "?" + query), 400, "bad_request")
            self.problem(self.api.get("/v1/sessions?" + query), 400, "bad_request")
        self.problem(self.api.get(S(key, "main", "messages") + "?types=" + many), 400, "bad_request")
        self.problem(self.api.get("/v1/events?poll=1&types=" + ",".join(["message.*"] * 65)), 400, "bad_request")
        fields = self.ok(self.api.get(S(key) + "?fields=sessionId,agent"), 200)
        self.assertEqual(set(fields), {"key", "agent", "sessionId", "asOf"})

    def test_fault_18_versions_in_if_match_are_bounded(self):
        key = self.new()["key"]
        tags = ", ".join(f'"r{i}"' for i in range(1, 66))
        self.problem(self.api.patch(S(key), {"label": "x"}, if_match=tags), 400, "bad_request")

    def test_fault_18_a_long_body_counts_once(self):
        daemon = self.spawn({"limits": {"requestsPerSecond": 1}})
        local = daemon.local()  # whom no limit counts
        self.ok(local.post("/v1/agents/main/sessions", {"key": "agent:main:x:y"}), 201)
        token = self.ok(local.post("/v1/admin/tokens", {"role": "runner"}), 201)["token"]
        body = json.dumps({"role": "user", "text": "x" * 100_000}).encode()
        with socket.create_connection(("127.0.0.1", daemon.port), 10 * SLOW) as sock:
            sock.sendall((f"POST {S('agent:main:x:y', 'main', 'messages')} HTTP/1.1\r\nHost: localhost\r\n"
                          f"Content-Type: application/json\r\nExpect: 100-continue\r\nAuthorization: Bearer {token}\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n").encode())
            self.assertIn(b"100 Continue", sock.recv(200))
            sock.sendall(body)
            self.assertIn(b" 201 ", sock.recv(100))

    def test_fault_18_a_search_over_many_sessions_finds_all_in_pages(self):
        daemon = self.spawn()
        api = daemon.client()
        self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:x:y"}), 201)
        daemon.checkpoint()
        self.assertEqual(daemon.stop(), 0)
        store = daemon.agent_dir() / "sessions.json"
        stored = json.loads(store.read_text())
        for i in range(5000):
            stored[f"agent:main:x:n{i:04}"] = {"sessionId": f"id{i}", "updatedAt": 1000 + i, "label": "needle" if i % 500 == 7 else "hay"}
        store.write_text(json.dumps(stored))
        daemon.start()
        wanted = [f"agent:main:x:n{i:04}" for i in range(7, 5000, 500)]
        for sort in ("key", "updatedAt", "-updatedAt"):
            for limit in (3, 200):
                with self.subTest(sort=sort, limit=limit):
                    seen, query = [], ""
                    while True:
                        page = self.ok(api.get(f"/v1/sessions?q=NEEDLE&sort={sort}&limit={limit}" + query), 200)
                        seen += [s["key"] for s in page["data"]]
                        if not page["page"]["hasMore"]:
                            break
                        query = "&cursor=" + page["page"]["next"]
                    self.assertEqual(seen, wanted if sort != "-updatedAt" else wanted[::-1])

    def test_fault_18_repairs_of_an_odd_store_are_told_once(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 1}})
        api = daemon.client()
        self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:x:y"}), 201)
        daemon.checkpoint()
        self.assertEqual(daemon.stop(), 0)
        store = daemon.agent_dir() / "sessions.json"
        store.write_bytes(codecs.BOM_UTF8 + store.read_bytes())
        daemon.start()
        for i in range(3):
            entries = json.loads(store.read_text("utf-8-sig"))
            entries["agent:main:x:y"]["label"] = f"look {i}"
            other = store.with_name("other")
            other.write_text(json.dumps(entries), "utf-8-sig")
            other.replace(store)
            self.assertEqual(self.ok(api.get(S("agent:main:x:y"), cache_control="no-cache"), 200)["label"], f"look {i}")
        told = [line for line in daemon.stderr if "store_repaired" in line and "byte order mark" in line]
        self.assertEqual(len(told), 1, told)


class Crowds(Case):
    config = {"limits": {"agents": 3, "sessionsPerAgent": 5, "entryBytesPerAgent": 1 << 20}}

    def test_agents_that_clients_make_are_bounded(self):
        daemon = self.spawn(self.config)
        api = daemon.client()
        for i in range(3):
            self.ok(self.inbound_as(api, f"a{i}"), 201)
            daemon.checkpoint()
        self.invalid(self.inbound_as(api, "a3"), "/agent")
        self.problem(api.get("/v1/agents/a3/sessions"), 404, "agent_not_found")
        self.ok(self.inbound_as(api, "a1"), 201)

    def inbound_as(self, api, agent):
        return api.post("/v1/inbound", {"agent": agent, "channel": "slack", "chatType": "direct", "peer": "u", "text": "x"})

    def test_sessions_of_an_agent_are_bounded(self):
        for i in range(5):
            self.ok(self.api.post("/v1/agents/many/sessions", {"key": f"agent:many:x:{i}"}), 201)
        self.invalid(self.api.post("/v1/agents/many/sessions", {"key": "agent:many:x:5"}), "")
        self.ok(self.api.delete(S("agent:many:x:0", "many")), 204)
        self.ok(self.api.post("/v1/agents/many/sessions", {"key": "agent:many:x:5"}), 201)

    def test_bytes_of_an_agents_entries_are_bounded(self):
        big = {"big": "x" * 400_000}
        for i in range(2):
            self.ok(self.api.post("/v1/agents/bytes/sessions", {"key": f"agent:bytes:x:{i}", "entry": big}), 201)
        self.invalid(self.api.post("/v1/agents/bytes/sessions", {"key": "agent:bytes:x:2", "entry": big}), "/entry")
        self.ok(self.api.post("/v1/agents/bytes/sessions", {"key": "agent:bytes:x:3"}), 201)
        self.invalid(self.api.patch(S("agent:bytes:x:3", "bytes"), big), "")
        self.ok(self.api.patch(S("agent:bytes:x:0", "bytes"), {"big": None}), 200)
        self.ok(self.api.patch(S("agent:bytes:x:3", "bytes"), big), 200)

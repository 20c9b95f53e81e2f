"""What one client can make the daemon hold or do has a bound (store/limits.hpp): entries, topics, archives, policies, pages, answers."""

import codecs
import socket
import time
import unittest

from harness.case import Case, S, json, text_of, uid
from harness.sessiond import SLOW, eventually, has_fault_points

runs = {"asan", "tsan"}

FIELDS = 1000          # of an entry
MEMBERS = 20_000       # of an entry at all depths
ENTRY = 1 << 20        # bytes of an entry
TOPICS = 1000          # of a session
TOLD = 100             # names of archives
PAGE = 1 << 20         # bytes of a page
BODY = 8 << 20         # bytes of a request


def fields(count, prefix="f"):
    return {f"{prefix}{i}": 1 for i in range(count)}


class Entries(Case):
    config = {"session": {"spawn": {"count": 1000}}}

    def ways(self, entry):
        """Each way that makes or changes an entry, with `entry` in it: name, reply, prefix of the pointers."""
        key = self.new("agent:main:x:" + uid())["key"]  # it has no field that counts
        yield "patch", self.api.patch(S(key), entry), ""
        yield "put", self.api.put(S(key), entry), ""
        yield "import", self.api.put(S("agent:main:slack:channel:" + uid()), entry), ""
        yield "create", self.api.post("/v1/agents/main/sessions", {"key": f"agent:main:x:{uid()}", "entry": entry}), "/entry"
        yield "spawn", self.api.post(S(key, "main", "spawn"), {"entry": entry}), "/entry"

    def test_1000_fields_20000_members_and_almost_1_mib_pass_by_each_way_and_no_more(self):
        kept = []
        for entry, more, pointer in ((fields(FIELDS), fields(FIELDS + 1), ""),
                                     ({"deep": {"in": fields(MEMBERS - 2)}}, {"deep": {"in": fields(MEMBERS - 1)}}, "/deep"),
                                     ({"big": "x" * (ENTRY - 1024)}, {"big": "x" * ENTRY}, "/big")):
            for way, reply, prefix in self.ways(more):
                with self.subTest(way, pointer=pointer):
                    self.invalid(reply, prefix + pointer)
            for way, reply, _ in self.ways(entry):
                with self.subTest(way, pointer=pointer):
                    key = self.ok(reply)["key"]
                    kept.append((key, entry))
                    self.invalid(self.api.patch(S(key), {"one": {"more": "y" * 1024}}), pointer)
            self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        self.daemon.restart(kill=True)
        for key, entry in kept:
            self.assertTrue(entry.items() <= self.ok(self.api.get(S(key)), 200).items(), key)

    def test_patch_of_40000_members_is_refused(self):
        key = self.new()["key"]
        self.invalid(self.api.patch(S(key), fields(40_000)), "")
        self.assertNotIn("f0", self.api.get(S(key)).json)

    def test_fields_that_come_one_after_the_other_are_counted_too(self):
        key = self.new()["key"]
        self.ok(self.api.patch(S(key), fields(600, "a")))
        before = self.api.get(S(key))
        self.invalid(self.api.patch(S(key), fields(600, "b")), "")
        self.assertEqual(self.api.get(S(key)).etag, before.etag, "a refused write changes nothing")
        self.ok(self.api.patch(S(key), {**fields(300, "b"), **{f"a{i}": None for i in range(300)}}))

    def test_an_entry_does_not_grow_beyond_1_mib(self):
        key = self.new()["key"]
        part = "x" * (ENTRY // 2 - 200)
        self.ok(self.api.patch(S(key), {"first": part, "second": part}))
        self.invalid(self.api.patch(S(key), {"third": "y" * 2000, "z": 1}), "/second")
        self.ok(self.api.patch(S(key), {"third": "y" * 2000, "second": None}))

    def test_what_the_daemon_itself_writes_is_not_counted(self):
        key = self.new()["key"]
        part = "x" * (ENTRY // 2 - 200)
        self.ok(self.api.patch(S(key), {"first": part, "second": part}))
        self.say(key, "a message")
        self.ok(self.api.post(S(key, "main", "reset")))
        self.ok(self.api.post(S(key, "main", "archive")))
        self.ok(self.api.post(S(key, "main", "unarchive")))

    def test_previous_sessions_of_an_import_are_bounded(self):
        key = "agent:main:slack:channel:" + uid()
        self.invalid(self.api.put(S(key), {"previousSessions": [{"sessionId": uid()}] * 51}), "/previousSessions")
        self.invalid(self.api.put(S(key), {"previousSessions": ["x" * 300_000]}), "/previousSessions")
        self.ok(self.api.put(S(key), {"previousSessions": [{"sessionId": uid()}] * 50}), 201)

    def test_bridges_and_routes_grow_no_entry_beyond_it(self):
        said = self.inbound(chatType="group", peer="G" + uid())
        key = said["sessionKey"]
        peer = key.rsplit(":", 1)[1]
        part = "x" * (ENTRY // 2 - 500)
        self.ok(self.api.patch(S(key), {"first": part, "second": part}))
        body = {"channel": "slack", "chatType": "group", "peer": peer, "text": "hi", "subject": "s" * 4000}
        self.invalid(self.api.post("/v1/inbound", body), "/second")
        self.ok(self.api.post("/v1/inbound", {**body, "subject": ""}), 201)
        self.invalid(self.api.put(S(key, "main", "route"), {"channel": "slack", "to": "t" * 512, "accountId": "a" * 512}), "/second")

    def test_more_than_20000_members_of_a_list_are_refused(self):
        self.invalid(self.api.patch(S(self.new()["key"]), {"list": [{"a": i} for i in range(MEMBERS + 1)]}), "/list")

    def test_what_is_nested_is_merged_as_rfc_7396_has_it(self):
        key = self.new()["key"]
        count = MEMBERS // 2
        self.ok(self.api.patch(S(key), {"deep": {"a": fields(count), "s": "x", "o": {"k": 1}}}))
        changed = {f"f{i}": None if i % 2 else {"n": {"gone": None, "kept": i}} for i in range(0, count, 100)}
        self.ok(self.api.patch(S(key), {"deep": {"a": {**changed, "new": 1}, "s": {"y": None, "z": 2}, "o": [1]}}))
        deep = self.api.get(S(key)).json["deep"]
        self.assertEqual(len(deep["a"]), count + 1)
        self.assertEqual((deep["a"]["f0"], deep["a"]["f1"], deep["a"]["new"]), ({"n": {"kept": 0}}, 1, 1))
        self.assertEqual((deep["s"], deep["o"]), ({"z": 2}, [1]))

    def test_delivery_context_of_many_members_is_refused(self):
        key = self.new()["key"]
        context = {"channel": "slack", "to": "x", **fields(MEMBERS)}
        self.invalid(self.api.patch(S(key), {"deliveryContext": context}), "/deliveryContext")

    def test_a_larger_entry_of_another_program_may_shrink(self):
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

    def test_100_names_of_archives_are_told_and_those_beyond_are_counted(self):
        for count, end in ((TOLD - 1, "reset"), (TOLD, "reset"), (TOLD, "deleted"), (TOLD + 30, "reset")):
            with self.subTest(count=count, end=end):
                daemon, api, session = self.with_topics(count)
                path, begin, old = S(session["key"]), self.ok(api.get("/v1/sessions"))["asOf"], session["sessionId"]
                with api.stream("/v1/events?types=session.reset,session.deleted") as stream:
                    stream.wait_type("stream.hello")
                    done = api.post(path + "/reset") if end == "reset" else api.delete(path)
                    answers = [stream.wait_type("session." + end).data["data"]]
                self.assertEqual(done.status, 200 if end == "reset" else 204, done)
                daemon.restart(kill=True)
                answers += [e["data"] for e in self.polled(begin, "&types=session." + end, api)]
                answers += [a for a in self.ok(api.get(path + "/archives"))["data"] if a["sessionId"] == old]
                if end == "reset":
                    self.assertEqual(done.json["archivedAs"], answers[0]["archivedAs"])
                    answers += [done.json, *(h for h in self.ok(api.get(path + "/history"))["data"] if h["sessionId"] == old)]
                self.assertEqual(len(answers), 5 if end == "reset" else 3)
                for answer in answers:
                    self.assertEqual((len(answer["archivedAs"]), answer.get("archivedMore")), (TOLD, count + 1 - TOLD or None))
                self.assertEqual(answers[1]["archivedAs"], answers[0]["archivedAs"])
                daemon.checkpoint()
                names = self.names(daemon, session)
                self.assertEqual(len(names), count + 1)
                self.assertTrue(all(f".jsonl.{end}." in n for n in names), "all of them are archived")

    @unittest.skipUnless(has_fault_points(), "a build without fault points")
    def test_all_are_archived_after_a_kill_too(self):
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
    def test_renames_of_one_reset_are_synced_at_once(self):
        daemon, api, session = self.with_topics(20)
        self.assertEqual(daemon.stop(), 0)
        daemon.env["SESSIOND_FAULT"] = "archive.synced:2=kill"  # once is enough: it never comes there a second time
        daemon.start()
        self.ok(api.post(S(session["key"], "main", "reset")), 200)
        daemon.checkpoint()
        self.assertTrue(daemon.alive)
        self.assertTrue(all(".jsonl.reset." in n for n in self.names(daemon, session)))
        del daemon.env["SESSIOND_FAULT"]

    def test_a_session_has_at_most_1000_topics(self):
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

    def test_1000_topics_pass_by_any_route_and_a_deleted_one_makes_room_for_the_refused_request(self):
        daemon, api, session = self.with_topics(TOPICS - 1)
        key, event, body = session["key"], uid(), {"role": "user", "text": "late"}
        last = f"?topic=t{TOPICS - 1}"
        self.say(key, "x", api=api, query=last)
        self.assertEqual(len(self.ok(api.get(S(key, "main", "topics")))["data"]), TOPICS)
        for kill in (False, True):
            self.invalid(self.post_to(key, body, "?topic=late", api, idempotency_key=event), "/topic")
            self.invalid(api.post(S(key, "main", "outbound"), {"text": "x", "topic": "late"}), "/topic")
            self.say(key, "more", api=api, query=last)
            daemon.restart(kill=kill)
        self.ok(api.delete(S(key, "main", "topics", "t500")), 204)
        self.once(lambda: self.post_to(key, body, "?topic=late", api, idempotency_key=event))
        self.invalid(self.post_to(key, body, "?topic=t500", api), "/topic")
        self.assertEqual(self.texts(key, api=api, query="topic=late"), ["late"])


class Policies(Case):
    def rules(self, count, **match):
        return {"default": "allow", "rules": [{"match": {"channel": f"c{i}", **match}, "action": "deny"} for i in range(count)]}

    def evaluate(self, body):
        return self.api.post("/v1/policy/evaluate", body)

    def test_cases_have_a_trace_only_when_it_is_asked_for(self):
        body = {"policy": self.rules(3), "cases": [{"channel": "slack"}, {"channel": "c1"}]}
        for result in self.ok(self.evaluate(body))["results"]:
            self.assertNotIn("trace", result)
        self.assertEqual([r["action"] for r in self.ok(self.evaluate(body))["results"]], ["allow", "deny"])
        traced = self.ok(self.evaluate({**body, "trace": True}))["results"]
        self.assertEqual([len(r["trace"]) for r in traced], [3, 2])
        self.assertEqual(len(self.ok(self.evaluate({"policy": self.rules(3), "channel": "slack"}))["trace"]), 3)

    def test_rules_times_cases_are_bounded(self):
        case = {"channel": "slack"}
        self.ok(self.evaluate({"policy": self.rules(100), "cases": [case] * 1000}))
        self.invalid(self.evaluate({"policy": self.rules(101), "cases": [case] * 1000}), "/cases")
        self.ok(self.evaluate({"policy": self.rules(100), "cases": [case] * 20, "trace": True}))
        self.invalid(self.evaluate({"policy": self.rules(100), "cases": [case] * 21, "trace": True}), "/cases")

    def test_a_policy_is_bounded(self):
        self.invalid(self.evaluate({"policy": self.rules(1001), "channel": "slack"}), "/policy/rules")
        self.invalid(self.evaluate({"policy": self.rules(600, to="t" * 500), "channel": "slack"}), "/policy")
        etag = self.api.get("/v1/policy/send").etag
        self.invalid(self.api.put("/v1/policy/send", self.rules(1001), if_match=etag), "/rules")
        self.invalid(self.api.put("/v1/policy/send", self.rules(600, to="t" * 500), if_match=etag), "")
        self.assertEqual(self.api.get("/v1/policy/send").etag, etag)

    def test_a_step_of_a_trace_is_short(self):
        policy = {"rules": [{"match": {"to": "é" * 2000}, "action": "deny"}]}
        trace = self.ok(self.evaluate({"policy": policy, "to": "b" * 500}))["trace"]
        self.assertLess(len(trace[0]["because"]), 400)


class Pages(Case):
    def read(self, key, order="asc", query="", limit=200):
        """A transcript read to its end by pages; the pages' messages and sizes."""
        pages, at = [], ""
        while True:
            reply = self.api.get(S(key, "main", "messages") + f"?limit={limit}&order={order}{query}{at}")
            page = self.ok(reply, 200)
            pages.append((page["data"], len(reply.raw)))
            if not page["page"]["hasMore"]:
                return pages
            self.assertLess(len(pages), 500)
            at = f"&after={page['page']['nextAfter']}" if order == "asc" else f"&before={page['page']['nextBefore']}"

    def test_pages_of_exactly_1_mib_have_no_hole_and_no_double_in_both_orders(self):
        key, probe = self.new()["key"], self.new()["key"]
        self.say(probe, "x")
        bare = len(json.dumps(self.messages(probe)[0], separators=(",", ":"))) - 1
        for less in (0, 14, 15, 16, 50, 60, 300):  # four and their commas, or the whole page, are 1 MiB at one of these
            self.ok(self.post_to(key, {"entries": [{"role": "user", "text": "y" * (PAGE // 4 - bare - less)} for _ in range(4)]}), 201)
        sizes = (PAGE - bare, 1, PAGE, 1, 2 * PAGE, 1)  # a message larger than a page is one
        self.ok(self.post_to(key, {"entries": [{"role": "user", "text": "z" * size} for size in sizes]}), 201)
        self.daemon.restart()
        count = 7 * 4 + len(sizes)
        for order, query in (("asc", ""), ("desc", ""), ("desc", "&view=raw"), ("asc", "&view=chat")):
            with self.subTest(query=query, order=order):
                pages = self.read(key, order, query)
                seqs = [m["seq"] for data, _ in pages for m in data]
                self.assertEqual(seqs, list(range(count)) if order == "asc" else list(range(count))[::-1])
                for data, size in pages:
                    self.assertTrue(data)
                    self.assertTrue(len(data) == 1 or size <= PAGE + 1024, size)

    def test_1000_entries_of_a_batch_pass_and_1001_do_not_and_pages_of_200_have_them_all(self):
        key = self.new()["key"]
        entries = [{"role": "user", "text": str(n)} for n in range(1001)]
        self.problem(self.post_to(key, {"entries": entries}), 422, "validation_failed")
        self.assertEqual(self.messages(key), [])
        body = self.ok(self.post_to(key, {"entries": entries[:1000]}), 201)
        self.assertEqual((body["firstSeq"], body["lastSeq"], len(set(body["ids"]))), (0, 999, 1000))
        self.daemon.restart(kill=True)
        for order, limit in (("asc", 200), ("desc", 200), ("asc", 199), ("desc", 111)):
            pages = self.read(key, order, limit=limit)
            seqs = [m["seq"] for data, _ in pages for m in data]
            self.assertEqual(sorted(seqs), list(range(1000)))
            self.assertEqual(len(pages), -(-1000 // limit))

    def test_a_body_of_8_mib_passes_and_a_byte_more_does_not(self):
        key, bare = self.new()["key"], len(json.dumps({"role": "user", "text": ""}))
        body = {"role": "user", "text": "x" * (BODY - bare)}
        self.assertEqual(len(json.dumps(body)), BODY)
        self.assertEqual(self.post_to(key, {**body, "text": body["text"] + "x"}).status, 413)
        said = self.ok(self.post_to(key, body), 201)
        self.daemon.restart(kill=True)
        got = self.ok(self.api.get(S(key, "main", "messages", said["ids"][0])), 200)
        self.assertTrue(text_of(got) == body["text"])
        self.say(key, "small")
        self.assertEqual([m["seq"] for data, _ in self.read(key, "desc") for m in data], [1, 0])

    def test_pages_have_1_to_200(self):
        key = self.new()["key"]
        for path in ("/v1/sessions", "/v1/agents/main/sessions", "/v1/agents/main/archives", S(key, "main", "archives"),
                     S(key, "main", "messages")):
            for limit, status in ((0, 400), (1, 200), (200, 200), (201, 400), (-1, 400), ("x", 400), ("", 400), ("1e1", 400)):
                reply = self.api.get(f"{path}?limit={limit}")
                self.assertEqual(reply.status, status, (path, limit, reply))

    def test_a_page_of_sessions_ends_at_1_mib(self):
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

    def test_children_end_at_1_mib(self):
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

    def test_replies_that_nobody_reads_are_bounded_for_a_token(self):
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

    def test_bodies_that_come_in_are_bounded_too(self):
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
    def test_20_faults_are_all_told_and_of_21_are_told_20(self):
        for count in (19, 20, 21, 22):
            for path, body in (("/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": "u", "text": "x"}),
                               ("/v1/agents/main/sessions", {}), (S(self.new()["key"], "main", "spawn"), {})):
                problem = self.problem(self.api.post(path, {**body, **fields(count, "zz")}), 422, "validation_failed")
                self.assertEqual(len(problem["errors"]), min(count, 20), path)

    def test_a_problem_tells_at_most_20_faults(self):
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

    def test_long_names_are_told_in_short(self):
        name = "é" * 300_000
        reply = self.api.post("/v1/inbound", {name: 1})
        problem = self.problem(reply, 422)
        self.assertLess(len(reply.raw), 16 << 10)
        self.assertTrue(problem["errors"][0]["pointer"].startswith("/é") or problem["errors"])

    def test_fields_and_types_are_bounded(self):
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

    def test_versions_in_if_match_are_bounded(self):
        key = self.new()["key"]
        tags = ", ".join(f'"r{i}"' for i in range(1, 66))
        self.problem(self.api.patch(S(key), {"label": "x"}, if_match=tags), 400, "bad_request")

    def test_a_long_body_counts_once(self):
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

    def test_a_search_over_many_sessions_finds_all_in_pages(self):
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

    def test_repairs_of_an_odd_store_are_told_once(self):
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

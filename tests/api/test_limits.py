"""What one client can make the daemon hold or do has a bound (store/limits.hpp): entries, topics, archives, policies, pages, answers."""

import socket
import time

from case import Case, S, json, uid
from sessiond import SLOW, eventually

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
        return sorted(p.name for p in daemon.agent_dir().glob(session["sessionId"] + "*"))

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

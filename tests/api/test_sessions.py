"""Sessions: made, read, changed, reset, archived, deleted."""

import contextlib
import http.client
import json
import socket
import threading

from harness.case import Case, S, uid
from harness.sessiond import SLOW

UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
ALL = "/v1/agents/main/sessions"


class Create(Case):
    def test_with_a_key(self):
        key = f"agent:main:slack:channel:{uid()}"
        reply = self.api.post(ALL, {"key": key, "name": "Planung", "label": "Räume",
                                    "entry": {"channel": "slack", "x-own": [1]}})
        body = self.ok(reply, 201)
        self.assertEqual((body["key"], body["agent"], body["name"], body["label"], body["channel"], body["x-own"]),
                         (key, "main", "Planung", "Räume", "slack", [1]))
        self.assertRegex(body["sessionId"], UUID)
        self.assertEqual(reply.etag, f'"r{body["rev"]}"')
        self.assertLess(abs(body["updatedAt"] - body["createdAt"]), 1000)
        got = self.api.get(S(key))
        self.assertEqual(got.etag, reply.etag)
        self.assertEqual(got.json["paths"]["transcript"], str(self.daemon.agent_dir() / (body["sessionId"] + ".jsonl")))
        self.assertEqual({**got.json, "asOf": 0, "paths": 0}, {**body, "asOf": 0, "paths": 0})
        self.assertEventId(got.json["asOf"])

    def test_without_a_key(self):
        one = self.ok(self.api.post(ALL, {}), 201)
        two = self.ok(self.api.post(ALL, {"label": "x"}), 201)
        for body in (one, two):
            self.assertTrue(body["key"].startswith("agent:main:"), body["key"])
        self.assertNotEqual(one["key"], two["key"])
        self.assertNotEqual(one["sessionId"], two["sessionId"])

    def test_keys_are_made_canonical(self):
        name = uid()
        body = self.ok(self.api.post(ALL, {"key": f"Slack:DM:U{name}"}), 201)
        self.assertEqual(body["key"], f"agent:main:slack:direct:u{name}")
        self.problem(self.api.post(ALL, {"key": f"agent:main:slack:direct:u{name}"}), 409, "session_exists")
        self.problem(self.api.post(ALL, {"key": f"agent:codex:x:{name}"}), 422, "agent_mismatch")
        self.assertEqual(self.api.post(ALL, {"key": "agent:main:" + "x" * 510}).status, 422)
        self.assertEqual(self.api.post(ALL, {"key": "agent:main:a\nb"}).status, 422)

    def test_if_exists(self):
        key = f"agent:main:x:{uid()}"
        first = self.ok(self.api.post(ALL, {"key": key, "label": "one"}), 201)
        problem = self.problem(self.api.post(ALL, {"key": key, "label": "two"}), 409, "session_exists")
        self.assertFalse(problem["retryable"])
        self.problem(self.api.post(ALL, {"key": key, "ifExists": "error"}), 409, "session_exists")
        reply = self.api.post(ALL, {"key": key, "ifExists": "reuse", "label": "two"})
        body = self.ok(reply, 200)
        self.assertEqual((body["sessionId"], body["label"], body["rev"]), (first["sessionId"], "one", first["rev"]))
        self.invalid(self.api.post(ALL, {"key": key, "ifExists": "maybe"}), "/ifExists")

    def test_session_ids(self):
        made = {self.ok(self.api.post(ALL, {"idKind": "timestamp"}), 201)["sessionId"] for _ in range(50)}
        self.assertEqual(len(made), 50)
        for session_id in made:
            self.assertRegex(session_id, r"^\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d-\d{3}-[0-9a-z]{4}$")
        self.assertRegex(self.ok(self.api.post(ALL, {"idKind": "uuid"}), 201)["sessionId"], UUID)
        self.invalid(self.api.post(ALL, {"idKind": "serial"}), "/idKind")
        name = "My_Session.0-" + uid()
        self.assertEqual(self.ok(self.api.post(ALL, {"sessionId": name}), 201)["sessionId"], name)
        self.problem(self.api.post(ALL, {"sessionId": name}), 409, "session_exists")
        for bad in ("..", "a..b", "../up", ".hidden", "a/b", "a\\b", "a\0b", "ä", "x" * 129, "a b"):
            self.problem(self.api.post(ALL, {"sessionId": bad}), 422, "invalid_id", "validation_failed")

    def test_faults(self):
        self.invalid(self.api.post(ALL, {"kee": "x", "entry": {}}), "/kee")
        self.invalid(self.api.post(ALL, {"label": 7, "entry": []}), "/label", "/entry")
        self.invalid(self.api.post(ALL, {"entry": {"sendPolicy": "maybe", "rev": 3}}), "/entry/sendPolicy",
                     "/entry/rev")
        self.assertIn(self.api.post(ALL, []).status, (400, 422))

    def test_a_new_agent_comes_with_its_first_session(self):
        name = "fresh-" + uid(6)
        self.problem(self.api.get("/v1/agents/" + name), 404, "agent_not_found")
        self.problem(self.api.get(f"/v1/agents/{name}/sessions"), 404, "agent_not_found")
        self.problem(self.api.get(S("agent:x:y", name)), 404, "agent_not_found", "session_not_found")
        body = self.ok(self.api.post(f"/v1/agents/{name}/sessions", {"key": f"agent:{name}:main"}), 201)
        self.assertEqual(body["agent"], name)
        self.assertIn(name, [a["agent"] for a in self.ok(self.api.get("/v1/agents"), 200)["data"]])
        self.assertEqual(self.ok(self.api.get("/v1/agents/" + name), 200)["sessions"], 1)


class Read(Case):
    def test_by_every_name(self):
        name = uid()
        session = self.new(f"agent:main:telegram:direct:{name}")
        for spelling in (session["key"], session["sessionId"], f"agent:main:telegram:dm:{name}", session["key"].upper(),
                         f"Agent:Main:Telegram:DM:{name}"):
            with self.subTest(spelling):
                self.assertEqual(self.ok(self.api.get(S(spelling)), 200)["key"], session["key"])
        self.assertEqual(self.api.get(S(session["key"], "MAIN")).json["key"], session["key"])
        self.ok(self.api.get(f"/v1/agents/main/sessions/{session['key'].replace(':', '%3A')}"), 200)

    def test_keys_with_any_character(self):
        key = f"agent:main:odd:a/b c%25?#ü-{uid()}"
        session = self.ok(self.api.post(ALL, {"key": key}), 201)
        self.assertEqual(self.ok(self.api.get(S(session["key"])), 200)["key"], session["key"])
        self.say(session["key"])

    def test_head(self):
        session = self.new()
        reply = self.api.request("HEAD", S(session["key"]))
        self.assertEqual((reply.status, reply.raw, reply.etag), (200, b"", f'"r{session["rev"]}"'))
        reply = self.api.request("HEAD", S("agent:main:no:such"))
        self.assertEqual((reply.status, reply.raw), (404, b""))

    def test_not_there(self):
        self.problem(self.api.get(S("agent:main:no:such")), 404, "session_not_found")
        for more in ("messages", "topics", "history", "children", "transcript", "send-policy"):
            self.problem(self.api.get(S("agent:main:no:such", "main", more)), 404, "session_not_found")
        for verb in ("reset", "archive", "unarchive", "spawn", "runs"):
            self.problem(self.api.post(S("agent:main:no:such", "main", verb), {}), 404, "session_not_found")
        self.problem(self.api.patch(S("agent:main:no:such"), {"label": "x"}), 404, "session_not_found")


class Change(Case):
    def patch(self, key, body, status=200, **named):
        return self.ok(self.api.patch(S(key), body, **named), status)

    def test_merge_patch(self):
        session = self.new(label="old", origin={"label": "L", "from": "F"}, thinkingLevel="high")
        body = self.patch(session["key"], {"label": "new", "origin": {"from": None, "surface": "web"},
                                           "thinkingLevel": None,
                                           "x-unknown": {"deep": [1, {"er": None}]}})
        self.assertEqual((body["label"], body["origin"], body["x-unknown"]),
                         ("new", {"label": "L", "surface": "web"}, {"deep": [1, {"er": None}]}))
        self.assertNotIn("thinkingLevel", body)
        self.assertEqual(body["sessionId"], session["sessionId"])
        self.assertGreater(body["rev"], session["rev"])
        self.assertEqual(self.api.get(S(session["key"])).json["label"], "new")
        self.patch(session["key"], {"label": "as json"}, content_type="application/json")
        self.ok(self.api.patch(S(session["key"]), {"label": "no type"}, content_type=""), 200)

    def test_nothing_changed_moves_nothing(self):
        session = self.new(label="same")
        for body in ({}, {"label": "same"}, {"nosuch": None}):
            reply = self.api.patch(S(session["key"]), body)
            self.ok(reply, 200)
            self.assertEqual(reply.etag, f'"r{session["rev"]}"', body)

    def test_what_we_do_not_know_keeps_its_bytes(self):
        session = self.new()
        raw = rb'{"x-int":12345678901234567890,"x-big":1e400,"x-half":"cut \ud83d","x-form":1.50E+1}'
        self.ok(self.api.patch(S(session["key"]), raw), 200)
        self.ok(self.api.patch(S(session["key"]), {"label": "another field"}), 200)
        self.ok(self.api.post(S(session["key"], "main", "reset")), 200)
        got = self.api.get(S(session["key"])).raw
        for part in (b"12345678901234567890", b"1e400", rb"cut \ufffd", b"1.50E+1"):
            self.assertIn(part, got)
        self.daemon.checkpoint()
        stored = (self.daemon.agent_dir() / "sessions.json").read_bytes()
        line = next(row for row in stored.splitlines() if session["key"].encode() in row)
        for part in (b"12345678901234567890", b"1e400", rb"cut \ud83d", b"1.50E+1"):
            self.assertIn(part, line)

    def test_read_only_fields(self):
        session = self.new()
        fields = {"rev": 1, "sessionId": "x", "createdAt": 1, "updatedAt": 1, "messageCount": 1, "inputTokens": 1,
                  "outputTokens": 1,
                  "totalTokens": 1, "compactionCount": 1}
        self.invalid(self.api.patch(S(session["key"]), {**fields, "label": "x"}), *("/" + name for name in fields))
        self.assertNotIn("label", self.api.get(S(session["key"])).json)

    def test_known_enums_and_types(self):
        session = self.new()
        bad = {"sendPolicy": "maybe", "groupActivation": "sometimes", "chatType": "crowd", "responseUsage": "loud",
               "queueDrop": "all",
               "label": 7}
        self.invalid(self.api.patch(S(session["key"]), bad), *("/" + name for name in bad))
        good = {"sendPolicy": "deny", "groupActivation": "always", "chatType": "group", "responseUsage": "tokens",
                "queueDrop": "summarize"}
        self.assertEqual({k: v for k, v in self.patch(session["key"], good).items() if k in good}, good)
        self.assertEqual(self.patch(session["key"], {"chatType": "dm"})["chatType"], "direct")
        self.assertEqual(self.daemon.sessions_json()[session["key"]]["chatType"], "direct")
        self.assertIn(self.api.patch(S(session["key"]), []).status, (400, 422))
        self.assertIn(self.api.patch(S(session["key"]), b'"x"').status, (400, 422))

    def test_both_forms_of_delivery_are_written(self):
        key = self.new()["key"]
        body = self.patch(key, {"deliveryContext": {"channel": " Slack ", "to": "C1", "accountId": "work",
                                                    "threadId": 12}})
        self.assertEqual(body["deliveryContext"], {"channel": "slack", "to": "C1", "accountId": "work", "threadId": 12})
        self.assertEqual([body[n] for n in ("lastChannel", "lastTo", "lastAccountId", "lastThreadId")],
                         ["slack", "C1", "work", 12])
        body = self.patch(key, {"lastTo": "C2", "lastThreadId": "t-9"})
        self.assertEqual(body["deliveryContext"],
                         {"channel": "slack", "to": "C2", "accountId": "work", "threadId": "t-9"})
        self.assertEqual((body["lastTo"], body["lastThreadId"]), ("C2", "t-9"))
        body = self.patch(key, {"deliveryContext": {"threadId": None}})
        self.assertNotIn("lastThreadId", body)
        self.assertEqual(body["deliveryContext"], {"channel": "slack", "to": "C2", "accountId": "work"})
        stored = self.daemon.sessions_json()[key]
        self.assertEqual((stored["deliveryContext"], stored["lastChannel"], stored["lastTo"], stored["lastAccountId"]),
                         ({"channel": "slack", "to": "C2", "accountId": "work"}, "slack", "C2", "work"))
        body = self.patch(key, {"lastChannel": " Slack ", "lastAccountId": ""})
        self.assertEqual((body["deliveryContext"], body["lastChannel"]), ({"channel": "slack", "to": "C2"}, "slack"))
        self.assertEqual(self.daemon.sessions_json()[key]["lastChannel"], "slack")

    def test_route(self):
        key = self.new()["key"]
        body = self.ok(self.api.put(S(key, "main", "route"),
                                    {"channel": "Telegram", "to": "-100", "accountId": "bot", "threadId": 7}), 200)
        self.assertEqual(body["deliveryContext"],
                         {"channel": "telegram", "to": "-100", "accountId": "bot", "threadId": 7})
        self.assertEqual((body["lastChannel"], body["lastTo"], body["lastThreadId"]), ("telegram", "-100", 7))
        body = self.ok(self.api.put(S(key, "main", "route"), {"channel": "slack", "to": "C1"}), 200)
        self.assertEqual(body["deliveryContext"], {"channel": "slack", "to": "C1"}, "a route is replaced, not merged")
        self.assertNotIn("lastThreadId", body)
        self.invalid(self.api.put(S(key, "main", "route"), {"to": "C1"}), "/channel")
        self.invalid(self.api.put(S(key, "main", "route"), {"channel": "slack", "to": "C1", "too": "C2"}), "/too")

    def test_put_upserts_and_imports(self):
        key = f"agent:main:import:{uid()}"
        entry = {"sessionId": "import-" + uid(), "updatedAt": 1_700_000_000_000, "createdAt": 1_690_000_000_000,
                 "inputTokens": 10,
                 "outputTokens": 5, "totalTokens": 15, "compactionCount": 2, "label": "from elsewhere", "x-own": True}
        body = self.ok(self.api.put(S(key), entry), 201)
        self.assertEqual({k: body[k] for k in entry}, entry)
        body = self.ok(self.api.put(S(key), {"label": "again"}), 200)
        self.assertEqual((body["label"], body["sessionId"]), ("again", entry["sessionId"]))
        self.assertNotIn("x-own", body, "PUT replaces the entry")
        self.invalid(self.api.put(S(key), {"sendPolicy": "maybe"}), "/sendPolicy")

    def test_updates_are_told_with_what_changed(self):
        session = self.new(label="a", thinkingLevel="low")
        with self.api.stream("/v1/events?types=session.*&keyPrefix=" + session["key"]) as stream:
            stream.wait_type("stream.hello")
            self.patch(session["key"], {"label": "b", "thinkingLevel": None})
            data = stream.wait_type("session.updated").data["data"]
            self.assertEqual(data["set"]["label"], "b")
            self.assertIn("thinkingLevel", data["unset"])

    def test_each_change_moves_the_time_and_is_told_once(self):
        key = self.new()["key"]
        with self.api.stream(S(key, "main", "events")) as stream:
            stream.wait_type("stream.hello")
            for n, change in enumerate((
                    lambda: self.say(key), lambda: self.patch(key, {"model": "m"}), lambda: self.patch(key, {"memoryFlushAt": 5}),
                    lambda: self.ok(self.api.put(S(key, "main", "route"), {"channel": "slack", "to": "u"}), 200),
                    lambda: self.say(key, role="assistant", usage={"input": 1}),
                    lambda: self.ok(self.api.post(S(key, "main", "messages"), {"type": "compaction", "summary": "s"}), 201)), 1):
                before = self.ok(self.api.get(S(key)), 200)
                self.wait_past(before)
                change()
                self.assertGreater(self.ok(self.api.get(S(key)), 200)["updatedAt"], before["updatedAt"])
                stream.wait_until(lambda s, n=n: len(s.durable) >= n)
            stream.wait_seq(int(self.say(key, "last")["asOf"].split("-")[1]))
            self.assertEqual(len(stream.durable), n + 1)

    def test_writers_of_one_entry_lose_nothing(self):
        key, numbers = self.new()["key"], range(40)

        def write(some):
            client = self.daemon.client()
            for number in some:
                client.patch(S(key), {f"x-{number}": number})
            client.close()

        threads = [threading.Thread(target=write, args=(numbers[start::4],)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        session = self.ok(self.api.get(S(key)), 200)
        self.assertEqual([session.get(f"x-{number}") for number in numbers], list(numbers))


class Preconditions(Case):
    def test_if_match(self):
        session = self.new()
        path, old = S(session["key"]), f'"r{session["rev"]}"'
        reply = self.api.patch(path, {"label": "one"}, if_match=old)
        self.ok(reply, 200)
        current = reply.etag
        self.assertNotEqual(current, old)
        for attempt in (lambda: self.api.patch(path, {"label": "two"}, if_match=old),
                        lambda: self.api.put(path, {"label": "x"}, if_match=old),
                        lambda: self.api.delete(path, if_match=old),
                        lambda: self.api.post(path + "/reset", {}, if_match=old)):
            reply = attempt()
            self.problem(reply, 412, "precondition_failed")
            self.assertEqual(reply.etag, current)
        self.assertEqual(self.api.get(path).json["label"], "one")
        self.ok(self.api.patch(path, {"label": "three"}, if_match="*"), 200)
        self.ok(self.api.patch(path, {"label": "four"}, if_match=f'"r0", {self.api.get(path).etag}'), 200)
        self.ok(self.api.delete(path, if_match=self.api.get(path).etag), 204)

    def test_of_conditional_writes_in_one_batch_one_wins(self):
        """Sent without waiting for an answer, they are decided while the first one is still on its way to the disk."""
        session = self.new()
        path, etag = S(session["key"]), f'"r{session["rev"]}"'
        for turn in range(10):
            body = json.dumps({"label": f"turn {turn}"}).encode()
            head = (f"PATCH {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.api.token}\r\nIf-Match: {etag}\r\n"
                    f"Content-Type: application/merge-patch+json\r\nContent-Length: {len(body)}\r\n\r\n").encode()
            with contextlib.ExitStack() as stack:
                sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", self.daemon.port), 30 * SLOW)) for _ in range(8)]
                for one in sockets:
                    one.sendall(head + body)
                answers = [http.client.HTTPResponse(one) for one in sockets]
                for answer in answers:
                    answer.begin()
                    answer.read()
            etag = next(a.headers["ETag"] for a in answers if a.status == 200)
            self.assertEqual(sorted((a.status, a.headers["ETag"]) for a in answers), [(200, etag)] + [(412, etag)] * 7)
        self.assertEqual(etag, self.api.get(path).etag)

    def test_appending_does_not_move_the_etag(self):
        session = self.new()
        self.say(session["key"])
        reply = self.api.get(S(session["key"]))
        self.assertEqual(reply.etag, f'"r{session["rev"]}"')
        self.assertEqual(reply.json["messageCount"], 1)
        self.assertGreaterEqual(reply.json["updatedAt"], session["updatedAt"])
        self.ok(self.api.patch(S(session["key"]), {"label": "x"}, if_match=reply.etag), 200)

    def test_if_none_match(self):
        session = self.new()
        reply = self.api.get(S(session["key"]), if_none_match=f'"r{session["rev"]}"')
        self.assertIn(reply.status, (200, 304))  # optional for us; never an empty 200
        self.assertTrue(reply.status == 304 or reply.json)

    def test_required_by_configuration(self):
        daemon = self.spawn({"api": {"requireIfMatch": True}})
        api = daemon.client()
        session = self.new(api=api)
        path = S(session["key"])
        for attempt in (lambda: api.patch(path, {"label": "x"}), lambda: api.put(path, {"label": "x"}),
                        lambda: api.delete(path),
                        lambda: api.post(path + "/reset", {})):
            self.problem(attempt(), 428, "precondition_required")
        self.ok(api.patch(path, {"label": "x"}, if_match=api.get(path).etag), 200)
        self.say(session["key"], api=api)


class Refused(Case):
    def test_queue_numbers_are_counts(self):
        key = self.new()["key"]
        for patch in ({"queueDebounceMs": -1}, {"queueCap": 1.5}, {"queueCap": -1}, {"queueDebounceMs": 0.5}, {"contextTokens": -1},
                      {"memoryFlushCompactionCount": 1.5}, {"queueCap": 2 ** 53 + 1}):
            self.invalid(self.api.patch(S(key), patch), "/" + next(iter(patch)))
        self.ok(self.api.patch(S(key), {"queueDebounceMs": 0, "queueCap": 20, "contextTokens": 200000}), 200)

    def test_an_empty_key_is_no_key(self):
        before = len(self.ok(self.api.get("/v1/sessions?limit=200"), 200)["data"])
        for key in ("", "  "):
            self.invalid(self.api.post("/v1/agents/main/sessions", {"key": key}), "/key")
        self.assertEqual(len(self.ok(self.api.get("/v1/sessions?limit=200"), 200)["data"]), before)

"""Idempotency-Key: the same request again is the same answer, also over a kill -9, and one transcript line."""

import json
import threading

from harness.case import Case, S, uid

runs = {"asan", "tsan"}

ALL = "/v1/agents/main/sessions"
REPLAYED = "Idempotency-Replayed"


class Idempotency(Case):
    def setUp(self):
        super().setUp()
        self.key = self.new()["key"]
        self.path = S(self.key, "main", "messages")

    def post(self, path, body, key, api=None, **named):
        return (api or self.api).post(path, body, idempotency_key=key, **named)

    def test_same_request_same_answer(self):
        key, body = uid(), {"role": "user", "text": "once"}
        first = self.post(self.path, body, key)
        self.ok(first, 201)
        self.assertIsNone(first.headers.get(REPLAYED))
        for _ in range(3):
            again = self.post(self.path, body, key)
            self.assertEqual((again.status, again.raw, again.headers[REPLAYED]), (201, first.raw, "true"))
        self.assertEqual(self.texts(self.key), ["once"])

    def test_every_post_that_commits(self):
        requests = [("/v1/agents/main/sessions", {"label": "x"}),
                    ("/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": "U" + uid(), "text": "x"}),
                    (S(self.key, "main", "outbound"), {"text": "x"}), (S(self.key, "main", "spawn"), {"label": "x"}),
                    (S(self.key, "main", "reset"), {}),
                    (S(self.key, "main", "archive"), {}), (S(self.key, "main", "unarchive"), {})]
        for path, body in requests:
            with self.subTest(path):
                key = uid()
                first, again = self.post(path, body, key), self.post(path, body, key)
                self.ok(first)
                self.assertEqual((again.status, again.raw, again.headers.get(REPLAYED), again.etag),
                                 (first.status, first.raw, "true", first.etag))

    def test_other_body_same_key(self):
        key = uid()
        self.ok(self.post(self.path, {"role": "user", "text": "a"}, key), 201)
        self.problem(self.post(self.path, {"role": "user", "text": "b"}, key), 422, "idempotency_key_reused")
        self.assertEqual(self.texts(self.key), ["a"])

    def test_scope_is_principal_method_and_path(self):
        key, body = uid(), {"role": "user", "text": "x"}
        first = self.post(self.path, body, key)
        self.ok(first, 201)
        other = self.new()["key"]
        reply = self.post(S(other, "main", "messages"), body, key)
        self.ok(reply, 201)
        self.assertIsNone(reply.headers.get(REPLAYED))
        operator = self.daemon.client(self.daemon.token("operator", agents=["main"], keyPrefix="agent:main:slack:"))
        reply = self.post(self.path, body, key, operator)
        self.ok(reply, 201)
        self.assertIsNone(reply.headers.get(REPLAYED))
        self.assertNotEqual(reply.json["ids"], first.json["ids"])
        self.assert_replayed(first, self.path, body, key)
        self.assert_replayed(reply, self.path, body, key, api=operator)
        self.assertEqual(self.texts(self.key), ["x", "x"])

    def test_refusals_are_not_kept_but_denials_are(self):
        key, body = uid(), {"role": "user", "text": "right now"}
        self.problem(self.post(self.path, {"role": "user"}, key), 422, "validation_failed")
        self.problem(self.post(self.path + "?zz=1", body, key), 400, "bad_request")
        self.problem(self.post(self.path, {"entries": [body], "expectedSeq": 7}, key), 412, "precondition_failed")
        self.once(lambda: self.post(self.path, body, key))
        self.assertEqual(self.texts(self.key), ["right now"])
        key, missing = uid(), f"agent:main:late:{uid()}"
        body = {"role": "user", "text": "x"}
        self.problem(self.post(S(missing, "main", "messages"), body, key), 404)
        self.new(missing)
        self.ok(self.post(S(missing, "main", "messages"), body, key), 201)
        policy = S(self.key, "main", "send-policy")
        self.ok(self.api.put(policy, {"action": "deny"}), 200)
        key, out = uid(), S(self.key, "main", "outbound")
        denied = self.post(out, {"text": "no"}, key)
        self.problem(denied, 403, "policy_denied")
        self.ok(self.api.put(policy, {"action": "allow"}), 200)
        again = self.post(out, {"text": "no"}, key)
        self.problem(again, 403, "policy_denied")
        self.assertEqual(again.headers[REPLAYED], "true")
        self.ok(self.post(out, {"text": "no"}, uid()), 201)

    def test_header_and_body_must_agree(self):
        body = {"channel": "slack", "chatType": "direct", "peer": "U" + uid(), "text": "x"}
        key = uid()
        first = self.post("/v1/inbound", {**body, "idempotencyKey": key}, key)
        self.ok(first, 201)
        alone = self.api.post("/v1/inbound", {**body, "idempotencyKey": key})
        self.assertEqual((alone.status, alone.headers.get(REPLAYED), alone.raw), (201, "true", first.raw))
        self.problem(self.post("/v1/inbound", {**body, "idempotencyKey": key + "x"}, key), 422, "validation_failed")
        self.assertEqual(len(self.messages(first.json["sessionKey"])), 1)

    def test_over_kill_nine(self):
        daemon = self.spawn()
        api = daemon.client()
        event = f"slack:A1:T1:{uid()}"
        body = {"channel": "slack", "chatType": "channel", "peer": "C1", "text": "delivered twice"}
        first = self.post("/v1/inbound", body, event, api)
        self.ok(first, 201)
        daemon.restart(kill=True)
        again = self.post("/v1/inbound", body, event, api)
        self.assertEqual((again.status, again.raw, again.headers[REPLAYED]), (201, first.raw, "true"))
        self.problem(self.post("/v1/inbound", {**body, "text": "other"}, event, api), 422, "idempotency_key_reused")
        self.assertEqual(self.texts(first.json["sessionKey"], api=api), ["delivered twice"])
        daemon.checkpoint()
        transcript = (daemon.agent_dir() / f"{first.json['sessionId']}.jsonl").read_bytes()
        self.assertEqual(transcript.count(b"delivered twice"), 1)
        daemon.restart()
        self.assertEqual(self.post("/v1/inbound", body, event, api).headers[REPLAYED], "true")
        self.assertTrue(list((daemon.state / "journal" / "keys").iterdir()), "kept in journal/keys")

    def test_at_the_same_moment(self):
        for _ in range(10):
            key, text, replies, start = uid(), uid(), [], threading.Barrier(6)

            def send():
                client = self.daemon.client()
                start.wait()
                replies.append(self.post(self.path, {"role": "user", "text": text}, key, client))
                client.close()

            threads = [threading.Thread(target=send) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(replies), 6)
            for reply in replies:
                if reply.status == 409:
                    self.assertTrue(self.problem(reply, 409, "idempotency_in_flight")["retryable"])
                    self.assertGreaterEqual(int(reply.headers["Retry-After"]), 0)
                else:
                    self.ok(reply, 201)
            self.assertEqual(len({r.raw for r in replies if r.status == 201}), 1)
            self.assertLessEqual(len([r for r in replies if r.status == 201 and not r.headers.get(REPLAYED)]), 1)
            self.assertEqual(self.texts(self.key).count(text), 1)

    def assert_replayed(self, first, path, body, key, **named):
        again = self.post(path, body, key, **named)
        self.assertEqual((again.status, again.headers.get(REPLAYED), again.raw), (first.status, "true", first.raw), path)

    def test_another_query_is_another_request(self):
        key, body = uid(), {"role": "user", "text": "once"}
        first = self.post(self.path + "?topic=7", body, key)
        self.ok(first, 201)
        for query in ("", "?topic=8", "?topic=77"):
            self.problem(self.post(self.path + query, body, key), 422, "idempotency_key_reused")
        self.assert_replayed(first, self.path + "?topic=%37", body, key)  # the same, in another spelling
        self.assertEqual(self.texts(self.key, query="limit=200&order=asc&topic=7"), ["once"])
        self.assertEqual(self.texts(self.key), [])

    def test_another_if_match_is_another_request(self):
        path, key, etag = S(self.key, "main", "archive"), uid(), self.api.get(S(self.key)).etag
        first = self.post(path, {}, key, if_match=etag)
        self.ok(first)
        self.problem(self.post(path, {}, key, if_match='"r999"'), 422, "idempotency_key_reused")
        self.problem(self.post(path, {}, key), 422, "idempotency_key_reused")
        self.assert_replayed(first, path, {}, key, if_match=etag)

    def test_another_spelling_of_the_path_is_the_same_request(self):
        peer = uid(8)
        session = self.new(f"agent:main:slack:direct:{peer}")
        path, key, body = S(session["key"], "main", "messages"), uid(), {"role": "user", "text": "once"}
        first = self.post(path, body, key)
        self.ok(first, 201)
        for again in (path.replace("agent:", "%61gent:"), path.replace("agent:", "agent%3A"), path.replace("agents/main", "agents/MAIN"),
                      path.replace("messages", "%6Dessages"), path.replace(":direct:", ":dm:"), path.replace(peer, peer.upper()),
                      S(session["sessionId"], "main", "messages")):
            self.assert_replayed(first, again, body, key)
        self.assertEqual(self.texts(session["key"]), ["once"])
        key, body = uid(), {"channel": "slack", "chatType": "direct", "peer": "U" + uid(), "text": "once"}
        first = self.post("/v1/inbound", body, key)
        self.ok(first, 201)
        self.assert_replayed(first, "/v1/%69nbound", body, key)
        self.assertEqual(self.texts(first.json["sessionKey"]), ["once"])

    def test_another_spelling_is_the_same_over_a_kill(self):
        daemon = self.spawn()
        api = daemon.client()
        session = self.new(api=api)
        path, key, body = S(session["sessionId"], "main", "messages"), uid(), {"role": "user", "text": "once"}
        first = self.post(path, body, key, api)
        self.ok(first, 201)
        daemon.restart(kill=True)
        self.assert_replayed(first, S(session["key"], "MAIN", "messages"), body, key, api=api)
        self.assert_replayed(first, path, body, key, api=api)

    def test_by_the_id_that_a_reset_took(self):
        session = self.ok(self.api.get(S(self.key)))
        path, key, body = S(session["sessionId"], "main", "messages"), uid(), {"role": "user", "text": "once"}
        first = self.post(path, body, key)
        self.ok(first, 201)
        self.ok(self.api.post(S(self.key, "main", "reset"), {}))
        self.assert_replayed(first, path, body, key)
        self.assert_replayed(first, self.path, body, key)

    def test_sessions_that_differ_in_case_only_are_two(self):
        small = f"agent:main:x:{uid()}a"
        big = small[:-1] + "A"
        daemon = self.spawn(start=False)
        folder = daemon.agent_dir()
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_text(json.dumps({key: {"sessionId": uid(), "updatedAt": 1} for key in (small, big)}))
        daemon.start()
        api, key, body = daemon.client(), uid(), {"role": "user", "text": "once"}
        for name in (small, big):
            reply = self.post(S(name, "main", "messages"), body, key, api)
            self.ok(reply, 201)
            self.assertIsNone(reply.headers.get(REPLAYED))

    def test_a_key_has_up_to_255_characters(self):
        for length in (256, 1025):
            reply = self.post(self.path, {"role": "user", "text": "y"}, "k" * length)
            self.assertIn(reply.status, (400, 422), reply)
        self.once(lambda: self.post(self.path, {"role": "user", "text": "x"}, "k" * 255))
        self.assertEqual(self.texts(self.key), ["x"])


class Between(Case):
    """The same request again, with something between."""

    def test_a_message_to_a_session_that_was_reset_deleted_or_made_again_meanwhile_is_not_said_twice(self):
        session, key, body = self.new(), uid(), {"role": "user", "text": "once"}
        name, path = session["key"], S(session["key"])

        def say():
            return self.post_to(name, body, "?topic=t", idempotency_key=key)

        first = self.once(say)
        for between in (lambda: self.api.post(path + "/reset", {}), lambda: self.api.delete(path + "/topics/t"),
                        lambda: self.api.delete(path), lambda: self.api.post(ALL, {"key": name}), lambda: self.api.post(path + "/archive")):
            between()
            self.once(say, first)
        self.ok(self.api.post(path + "/unarchive"))
        self.daemon.restart(kill=True)
        self.once(say, first)
        self.assertEqual(self.messages(name, query="topic=t"), [])

    def test_reset_and_spawn_with_a_key_are_done_once_over_either_end(self):
        session = self.new()
        path, keys = S(session["key"]), (uid(), uid())
        resets = self.once(lambda: self.api.post(path + "/reset", {"reason": "r"}, idempotency_key=keys[0]))
        spawns = self.once(lambda: self.api.post(path + "/spawn", {"label": "c"}, idempotency_key=keys[1]))
        for kill in (False, True):
            self.daemon.restart(kill=kill)
            self.once(lambda: self.api.post(path + "/reset", {"reason": "r"}, idempotency_key=keys[0]), resets)
            self.once(lambda: self.api.post(path + "/spawn", {"label": "c"}, idempotency_key=keys[1]), spawns)
            self.problem(self.api.post(path + "/reset", {"reason": "s"}, idempotency_key=keys[0]), 422, "idempotency_key_reused")
        self.assertEqual(len(self.ok(self.api.get(path + "/history"))["data"]), 2)
        self.assertEqual([c["key"] for c in self.ok(self.api.get(path + "/children"))["data"]], [spawns.json["key"]])

    def test_a_refused_id_is_no_kept_answer_and_the_same_key_takes_it_when_it_is_free(self):
        guest, key = self.daemon.client(self.daemon.token("runner", agents=["main"], keyPrefix="agent:main:guest:")), uid()
        old = self.new("agent:main:guest:" + uid(), api=guest)
        self.say(old["key"], "of the first", api=guest)
        body = {"key": "agent:main:guest:" + uid(), "sessionId": old["sessionId"]}

        def take():
            return guest.post(ALL, body, idempotency_key=key)

        for _ in range(2):
            refused = take()
            self.problem(refused, 409, "session_exists")
            self.assertIsNone(refused.headers.get(REPLAYED))
        self.ok(guest.delete(S(old["key"])), 204)
        first = take()
        self.ok(first, 201)
        self.assertIsNone(first.headers.get(REPLAYED))
        self.daemon.restart(kill=True)
        self.once(take, first)
        self.assertEqual(self.messages(body["key"], api=guest), [], "the archive stays an archive")

    def test_a_revoked_token_does_not_get_the_answer_that_was_kept_for_it(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "runner", "agents": ["main"], "keyPrefix": "agent:main:guest:"}), 201)
        api, key, body = self.daemon.client(made["token"]), uid(), {"role": "user", "text": "x"}
        name = self.new("agent:main:guest:" + uid())["key"]
        self.once(lambda: self.post_to(name, body, api=api, idempotency_key=key))
        self.ok(self.api.delete(f"/v1/admin/tokens/{made['id']}"), 204)
        for kill in (True, False):
            self.problem(self.post_to(name, body, api=api, idempotency_key=key), 401, "unauthorized")
            self.daemon.restart(kill=kill)
        self.assertEqual(self.texts(name), ["x"])

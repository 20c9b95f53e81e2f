"""Ephemeral sessions: they live in the daemon's memory only."""

import json
import time

from harness.case import Case, S, text_of, uid
from harness.sessiond import eventually

ALL = "/v1/agents/main/sessions"


class Ephemeral(Case):
    def make(self, key=None, api=None, **more):
        key = key or f"agent:main:slack:channel:{uid()}"
        made = self.ok((api or self.api).post(ALL, {"key": key, "ephemeral": True, **more}), 201)
        self.assertEqual((made["ephemeral"], made["durable"]), (True, False))
        return made

    def test_nothing_of_it_reaches_a_file(self):
        daemon = self.spawn()
        api = daemon.client()
        word, label = "hush" + uid(), "label" + uid()
        key = self.make(api=api, label=label)["key"]
        self.new("agent:main:kept", api=api)
        with api.stream("/v1/events") as everything, api.stream(S(key, "main", "events")) as own:
            for stream in (everything, own):
                stream.wait_type("stream.hello")
            said = self.say(key, word + " one", api=api)
            self.assertIs(said["durable"], False)
            for stream in (everything, own):
                event = stream.wait_type("message.appended")
                self.assertIsNone(event.id)
                self.assertNotIn("seq", event.data)
                self.assertEqual(text_of(event.data["data"]["message"]), word + " one")
        self.ok(api.patch(S(key), {"displayName": word}), 200)
        self.say(key, word + " two", api=api, query="?topic=t")
        self.ok(api.post("/v1/inbound", {"channel": "slack", "chatType": "channel", "peer": key.rsplit(":", 1)[1],
                                         "text": word + " in", "idempotencyKey": "k1"}), 201)
        self.ok(api.post(S(key, "main", "outbound"), {"text": word + " out"}), 201)
        self.ok(api.post("/v1/admin/checkpoint"), 200)
        backup = daemon.home / "backup.tar"
        done = daemon.cli("backup", backup)
        self.assertEqual(done.returncode, 0, done.stderr)

        def found():
            return [str(file) for root in (daemon.state, backup) for file in ([root] if root.is_file() else root.rglob("*"))
                    if file.is_file() and any(text.encode() in file.read_bytes() for text in (word, label))]
        self.assertEqual(found(), [])
        self.assertEqual(list(daemon.sessions_json()), ["agent:main:kept"])
        daemon.stop()
        self.assertEqual(found(), [])
        self.assertFalse([line for line in daemon.stderr if word in line])
        daemon.start()
        self.problem(api.get(S(key)), 404, "session_not_found")
        self.assertEqual([s["key"] for s in api.get(ALL).json["data"]], ["agent:main:kept"])

    def test_it_is_read_and_written_as_others_are(self):
        made = self.make(entry={"channel": "slack", "label": "L"})
        key = made["key"]
        first = self.say(key, "one")
        self.assertEqual((first["firstSeq"], first["lastSeq"]), (0, 0))
        self.say(key, "two")
        reply = self.api.post(S(key, "main", "messages"), {"entries": [{"type": "message", "id": "mine", "message": {"role": "user", "content": "three"}}]})
        self.ok(reply, 201)
        again = self.api.post(S(key, "main", "messages"), {"entries": [{"type": "message", "id": "mine", "message": {"role": "user", "content": "three"}}]})
        self.assertEqual(self.ok(again, 201, 200)["duplicates"], 1)
        self.problem(self.api.post(S(key, "main", "messages"), {"entries": [{"type": "message", "id": "mine", "message": {"role": "user", "content": "x"}}]}),
                     409, "entry_id_conflict")
        self.assertEqual(self.texts(key), ["one", "two", "three"])
        page = self.ok(self.api.get(S(key, "main", "messages") + "?limit=2&order=desc"), 200)
        self.assertEqual(([text_of(m) for m in page["data"]], page["page"]["hasMore"], page["durable"]), (["three", "two"], True, False))
        rest = self.ok(self.api.get(S(key, "main", "messages") + f"?limit=2&order=desc&before={page['page']['nextBefore']}"), 200)
        self.assertEqual(([text_of(m) for m in rest["data"]], rest["page"]["hasMore"]), (["one"], False))
        self.assertEqual(text_of(self.ok(self.api.get(S(key, "main", "messages", "mine")), 200)), "three")
        self.problem(self.api.get(S(key, "main", "messages", "nope")), 404, "message_not_found")
        lines = self.api.get(S(key, "main", "transcript"))
        self.assertEqual((lines.status, lines.raw.count(b"\n")), (200, 4))
        self.say(key, "in a topic", query="?topic=t")
        self.assertEqual(self.texts(key, query="topic=t&limit=5"), ["in a topic"])
        self.assertEqual([(t["topic"], t["messageCount"]) for t in self.api.get(S(key, "main", "topics")).json["data"]], [("t", 1)])
        got = self.ok(self.api.get(S(key)), 200)
        self.assertEqual((got["messageCount"], got["label"], got["durable"]), (4, "L", False))
        for listed in (self.api.get(ALL + "?label=L"), self.api.get("/v1/sessions?label=L")):
            self.assertIn(key, [s["key"] for s in self.ok(listed, 200)["data"]])
        self.assertEqual(self.ok(self.api.get(S(got["sessionId"])), 200)["key"], key)
        # versions
        stale = self.api.get(S(key)).etag
        self.ok(self.api.patch(S(key), {"label": "M"}, if_match=stale), 200)
        self.problem(self.api.patch(S(key), {"label": "N"}, if_match=stale), 412, "precondition_failed")
        for field in ("ephemeral", "durable"):
            self.invalid(self.api.patch(S(key), {field: True}), "/" + field)
        # life
        self.assertEqual(self.ok(self.api.get(S(key, "main", "freshness")), 200)["due"], None)
        self.assertEqual(self.ok(self.api.get(S(key, "main", "archives")), 200)["data"], [])
        child = self.ok(self.api.post(S(key, "main", "spawn"), {"label": "c"}), 201)
        self.assertIs(child["durable"], False)
        self.assertEqual([s["key"] for s in self.api.get(S(key, "main", "children")).json["data"]], [child["key"]])
        reset = self.ok(self.api.post(S(key, "main", "reset")), 200)
        self.assertNotEqual(reset["sessionId"], got["sessionId"])
        self.assertEqual((reset["archivedAs"], reset["durable"], self.texts(key)), ([], False, []))
        self.say(key, "anew")
        self.assertEqual(self.api.delete(S(key)).status, 204)
        self.problem(self.api.get(S(key)), 404, "session_not_found")
        self.assertEqual(self.new(key)["key"], key)
        self.assertNotIn("durable", self.api.get(S(key)).json)

    def test_a_key_is_either_durable_or_not(self):
        durable = self.new()
        self.problem(self.api.post(ALL, {"key": durable["key"], "ephemeral": True}), 409, "session_exists")
        self.problem(self.api.post(ALL, {"key": durable["key"], "ephemeral": True, "ifExists": "reuse"}), 409, "session_exists")
        self.problem(self.api.post(ALL, {"sessionId": durable["sessionId"], "ephemeral": True}), 409, "session_exists")
        key = self.make()["key"]
        self.problem(self.api.post(ALL, {"key": key}), 409, "session_exists")
        self.problem(self.api.post(ALL, {"key": key, "ephemeral": True}), 409, "session_exists")
        self.assertIs(self.ok(self.api.post(ALL, {"key": key, "ifExists": "reuse"}), 200)["durable"], False)
        put = self.ok(self.api.put(S(key), {"label": "put"}), 200)
        self.assertEqual((put["label"], put["durable"]), ("put", False))

    def test_it_gives_way_to_a_durable_session_that_a_foreign_program_makes(self):
        durable, same_key, same_id = self.new()["key"], self.make()["key"], self.make()
        self.say(same_key, "gone")
        self.daemon.checkpoint()
        store = self.daemon.agent_dir() / "sessions.json"
        now = int(time.time() * 1000)
        with self.api.stream("/v1/events?types=session.deleted,session.created") as stream:
            stream.wait_type("stream.hello")
            entries = json.loads(store.read_bytes())
            entries[same_key] = {"sessionId": "f" + uid(), "updatedAt": now, "label": "theirs"}
            entries[f"agent:main:f:{uid()}"] = {"sessionId": same_id["sessionId"], "updatedAt": now}
            store.write_text(json.dumps(entries))
            stream.wait_until(lambda s: same_key in [e.data["key"] for e in s.events if e.type == "session.created"])
            self.assertEqual(sorted((e.data["key"], e.data["data"]["reason"], e.id) for e in stream.events if e.type == "session.deleted"),
                             sorted([(same_key, "foreign", None), (same_id["key"], "foreign", None)]))
        keys = [s["key"] for s in self.api.get(ALL + "?limit=200").json["data"]]
        self.assertEqual((keys.count(same_key), keys.count(same_id["key"]), keys.count(durable)), (1, 0, 1))
        got = self.ok(self.api.get(S(same_key)), 200)
        self.assertEqual((got["label"], got.get("durable"), self.texts(same_key)), ("theirs", None, []))

    def test_it_gives_way_when_its_agent_has_left_memory(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 100}})
        api = daemon.client()
        for agent, durable in (("none", False), ("some", True)):
            with self.subTest(agent=agent):
                key, store = f"agent:{agent}:x", daemon.agent_dir(agent) / "sessions.json"
                entries = {}
                if durable:
                    self.new(f"agent:{agent}:d", api=api)
                    daemon.checkpoint()
                    entries = json.loads(store.read_bytes())
                self.ok(api.post(f"/v1/agents/{agent}/sessions", {"key": key, "ephemeral": True}), 201)
                eventually(lambda: "\nsessiond_agents 0\n" in api.get("/metrics").raw.decode(), what="the agent's leaving")
                store.parent.mkdir(parents=True, exist_ok=True)
                store.write_text(json.dumps({**entries, key: {"sessionId": "f" + uid(), "updatedAt": 1, "label": "theirs"}}))
                eventually(lambda: api.get(S(key, agent)).json.get("label") == "theirs", what="the durable one")
                listed = [s["key"] for s in api.get(f"/v1/agents/{agent}/sessions").json["data"]]
                self.assertEqual(listed.count(key), 1)

    def test_the_id_of_an_archive_is_taken(self):
        old = self.new()
        self.say(old["key"], "archived")
        self.ok(self.api.delete(S(old["key"])), 204)
        part = self.daemon.client(self.daemon.token("runner", keyPrefix="agent:main:part"))
        for api in (self.api, part):
            self.problem(api.post(ALL, {"key": f"agent:main:part:{uid()}", "sessionId": old["sessionId"], "ephemeral": True}), 409, "session_exists")
        self.ok(self.api.post(S(old["key"], "main", "restore")), 200)

    def test_an_idempotency_key_is_kept_in_memory(self):
        name = "k" + uid()
        body = {"key": f"agent:main:k:{uid()}", "ephemeral": True}
        first = self.api.post(ALL, body, idempotency_key=name)
        self.ok(first, 201)
        again = self.api.post(ALL, body, idempotency_key=name)
        self.assertEqual((again.status, again.raw, again.headers.get("Idempotency-Replayed")), (201, first.raw, "true"))
        self.problem(self.api.post(ALL, {"key": "agent:main:k:other"}, idempotency_key=name), 422, "idempotency_key_reused")
        said = self.api.post(S(body["key"], "main", "messages"), {"role": "user", "text": "x"}, idempotency_key=name)
        again = self.api.post(S(body["key"], "main", "messages"), {"role": "user", "text": "x"}, idempotency_key=name)
        self.assertEqual((again.raw, again.headers.get("Idempotency-Replayed")), (said.raw, "true"))
        self.assertEqual(self.texts(body["key"]), ["x"])

    def test_scopes_hold(self):
        key = self.make(f"agent:main:discord:channel:{uid()}", entry={"channel": "discord"})["key"]
        part = self.daemon.client(self.daemon.token("runner", keyPrefix="agent:main:slack"))
        self.problem(part.get(S(key)), 404, "session_not_found")
        self.problem(part.post(S(key, "main", "messages"), {"role": "user", "text": "x"}), 404, "session_not_found")
        self.assertNotIn(key, [s["key"] for s in part.get(ALL + "?limit=200").json["data"]])
        self.problem(part.post(ALL, {"key": key, "ephemeral": True}), 403, "forbidden")
        viewer = self.daemon.client(self.daemon.token("viewer"))
        self.problem(viewer.post(ALL, {"ephemeral": True}), 403, "forbidden")

    def test_an_agent_of_ephemeral_sessions_alone(self):
        agent = "only" + uid(6)
        made = self.ok(self.api.post(f"/v1/agents/{agent}/sessions", {"key": f"agent:{agent}:x", "ephemeral": True}), 201)
        self.say(made["key"], "one", agent=agent)
        self.assertEqual(self.texts(made["key"], agent), ["one"])
        self.assertEqual([s["key"] for s in self.api.get(f"/v1/agents/{agent}/sessions").json["data"]], [made["key"]])
        self.assertIn(made["key"], [s["key"] for s in self.api.get("/v1/sessions?limit=200").json["data"]])
        self.assertFalse((self.daemon.state / "agents" / agent).exists())

    def test_it_outlives_the_cache_and_other_agents_unloading(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 100}})
        api = daemon.client()
        key = self.make(api=api)["key"]
        self.say(key, "one", api=api)
        with api.stream("/v1/events?types=session.released") as stream:
            stream.wait_type("stream.hello")
            self.say(self.new(api=api)["key"], "durable", api=api)
            stream.wait_type("session.released")  # what is durable has left memory
        self.assertEqual(self.texts(key, api=api), ["one"])
        self.say(key, "two", api=api)
        self.assertEqual(self.texts(key, api=api), ["one", "two"])


class Bounded(Case):
    config = {"session": {"ephemeralBytes": 65536}}

    def test_a_patch_that_is_too_big_takes_nobodys_room(self):
        keys = [f"agent:main:patched:{n}" for n in range(3)]
        for key in keys:
            self.ok(self.api.post(ALL, {"key": key, "ephemeral": True}), 201)
        self.problem(self.api.patch(S(keys[0]), {"x": "y" * 70_000}), 507, "storage_full")
        for key in keys:
            self.ok(self.api.delete(S(key)), 204)

    def test_another_session_id_gives_the_room_of_the_transcript_back(self):
        for n in range(8):
            key = f"agent:main:moved:{n}"
            self.ok(self.api.post(ALL, {"key": key, "ephemeral": True}), 201)
            self.say(key, "x" * 18_000)
            self.ok(self.api.put(S(key), {"sessionId": f"other-{n}"}), 200)
            self.ok(self.api.delete(S(key)), 204)
        self.ok(self.api.post(ALL, {"key": "agent:main:moved:last", "ephemeral": True}), 201)
        self.ok(self.api.delete(S("agent:main:moved:last")), 204)

    def test_approvals_and_partial_texts_take_room(self):
        keys = [f"agent:main:busy:{n}" for n in range(2)]
        with self.api.stream("/v1/events?types=session.deleted") as stream:
            stream.wait_type("stream.hello")
            for key in keys:
                self.ok(self.api.post(ALL, {"key": key, "ephemeral": True}), 201)
                run = self.ok(self.api.post(S(key, "main", "runs"), {}), 201)
                asks = {"runId": run["runId"], "fence": run["lease"]["fence"], "tool": "ls", "args": {"a": "x" * 9_000}}
                for n in range(4):
                    self.ok(self.api.post(S(key, "main", "approvals"), {**asks, "callId": f"c{n}"}), 201)
                time.sleep(0.01)  # so that each is older than the next: updatedAt has milliseconds
            event = stream.wait_type("session.deleted")
        self.assertEqual((event.data["key"], event.data["data"]["reason"]), (keys[0], "ephemeralBytes"))
        more = {**asks, "callId": "more", "args": {"a": "x" * 20_000}}
        self.problem(self.api.post(S(keys[1], "main", "approvals"), more), 507, "storage_full")
        said = {"fence": asks["fence"], "events": [{"type": "step.started", "step": 1},
                                                   {"type": "text.delta", "text": "x" * 20_000},
                                                   {"type": "step.finished", "step": 1}]}
        self.problem(self.api.post(S(keys[1], "main", "runs", run["runId"], "events"), said), 507, "storage_full")
        self.ok(self.api.delete(S(keys[1])), 204)  # its room is free again
        self.ok(self.api.post(ALL, {"key": keys[1], "ephemeral": True}), 201)
        self.say(keys[1], "x" * 40_000)
        self.ok(self.api.delete(S(keys[1])), 204)

    def test_the_oldest_goes(self):
        keys = [f"agent:main:room:{n}" for n in range(4)]
        with self.api.stream("/v1/events?types=session.deleted") as stream:
            stream.wait_type("stream.hello")
            for key in keys:
                self.ok(self.api.post(ALL, {"key": key, "ephemeral": True}), 201)
                self.say(key, "x" * 18_000)
                time.sleep(0.01)  # so that each is older than the next: updatedAt has milliseconds
            event = stream.wait_type("session.deleted")
        self.assertEqual((event.data["key"], event.data["data"]["reason"], event.id), (keys[0], "ephemeralBytes", None))
        self.assertEqual([self.api.get(S(key)).status for key in keys], [404, 200, 200, 200])
        reply = self.api.post(S(keys[3], "main", "messages"), {"role": "user", "text": "y" * 60_000})
        self.problem(reply, 507, "storage_full")
        self.assertEqual(self.texts(keys[3]), ["x" * 18_000])


class Legacy(Case):
    def test_one_that_an_earlier_version_stored_is_gone_with_the_next_start(self):
        daemon = self.spawn(start=False)
        folder = daemon.agent_dir()
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_text('{"agent:main:old":{"sessionId":"11","updatedAt":1700000000000,'
                                              '"createdAt":1700000000000,"ephemeral":true}}')
        daemon.start()
        eventually(lambda: daemon.client().get(S("agent:main:old")).status == 404, what="its end")

"""Snapshots of sessions: large fields of an entry, kept once for all sessions that have them alike."""

import hashlib
import json
import os
import time

from harness.case import Case, S, uid

NAMES = ("systemPrompt", "toolSchemas", "backgroundTasks", "backgroundJobGroups", "skillsSnapshot", "systemPromptReport")
NOW = {"dryRun": False}


def big(size=5_000, **more):
    return {"prompt": os.urandom(size // 2).hex(), **more}


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


def sha(value):
    return hashlib.sha256(compact(value)).hexdigest()


class SnapshotCase(Case):
    def key(self):
        return f"agent:main:slack:direct:{uid().lower()}"

    def at(self, key, name, agent="main"):
        return S(key, agent, "snapshots", name)

    def files(self, daemon=None):
        return {f.name: f for f in ((daemon or self.daemon).state / "blobs" / "sha256").glob("??/*")}

    def put(self, key, name, value, api=None, **named):
        return self.ok((api or self.api).put(self.at(key, name), value, **named), 200)

    def got(self, key, name, api=None):
        reply = (api or self.api).get(self.at(key, name))
        self.assertEqual(reply.status, 200, reply)
        return reply.json


class Snapshots(SnapshotCase):
    config = {"blobs": {"graceMs": 0}}

    def test_of_four_hundred_snapshots_five_distinct_ones_are_stored(self):
        daemon = self.spawn()
        api, kinds = daemon.client(), [big(43 << 10, version=n) for n in range(5)]
        for n in range(400):
            body = {"key": f"agent:main:n{n}", "entry": {"skillsSnapshot": kinds[n % 5]}}
            self.ok(api.post("/v1/agents/main/sessions", body), 201)
        daemon.checkpoint()
        self.assertLess((daemon.agent_dir() / "sessions.json").stat().st_size, 1_000_000)
        self.assertEqual(set(self.files(daemon)), {sha(kind) for kind in kinds})
        took = []
        for _ in range(20):
            began = time.monotonic()
            listed = self.ok(api.get("/v1/sessions?limit=200"), 200)["data"]
            took.append(time.monotonic() - began)
        print(f"sessions.json {(daemon.agent_dir() / 'sessions.json').stat().st_size} bytes, "
              f"list of 200 in {sorted(took)[len(took) // 2] * 1000:.1f} ms (median of 20)")
        self.assertEqual(len(listed), 200)
        self.assertNotIn("skillsSnapshot", listed[0])
        whole = self.ok(api.get("/v1/agents/main/sessions?limit=200&include=snapshots"), 200)["data"]
        for session in whole:
            number = int(session["key"].rpartition(":n")[2])
            self.assertEqual(session["skillsSnapshot"], kinds[number % 5])
        one = self.ok(api.get(S("agent:main:n7") + "?include=snapshots"), 200)
        self.assertEqual(one["skillsSnapshot"], kinds[2])
        handle = {"$blob": sha(kinds[2]), "bytes": len(compact(kinds[2]))}
        self.assertEqual(self.ok(api.get(S("agent:main:n7")), 200)["skillsSnapshot"], handle)
        daemon.restart(kill=True)
        self.assertEqual(self.got("agent:main:n8", "skillsSnapshot", daemon.client()), kinds[3])

    def test_background_tasks_are_kept(self):
        key = self.key()
        self.new(key)
        first, second = [{"id": "t1", "state": "running"}], [big(), big()]
        one = self.api.put(self.at(key, "backgroundTasks"), first)
        self.assertEqual(one.etag, f'"{sha(first)}"')
        two = self.api.put(self.at(key, "backgroundTasks"), second)
        self.assertEqual((self.ok(two, 200)["sha256"], two.json["bytes"]), (sha(second), len(compact(second))))
        self.assertEqual(self.got(key, "backgroundTasks"), second)
        refused = self.api.put(self.at(key, "backgroundTasks"), first, if_match=one.etag)
        self.problem(refused, 412, "precondition_failed")
        self.assertEqual(refused.etag, two.etag)
        self.problem(self.api.delete(self.at(key, "backgroundTasks"), if_match=one.etag), 412)
        self.problem(self.api.put(self.at(key, "toolSchemas"), [], if_match="*"), 412)
        self.assertEqual(self.got(key, "backgroundTasks"), second)
        self.put(key, "backgroundTasks", first, if_match=two.etag)
        reply = self.api.get(self.at(key, "backgroundTasks"))
        self.assertEqual((reply.json, reply.etag), (first, one.etag))
        self.assertEqual(self.api.get(self.at(key, "backgroundTasks"), if_none_match=one.etag).status, 304)
        for kill in (False, True):
            self.daemon.restart(kill=kill)
            type(self).api = self.daemon.client()
            self.assertEqual(self.got(key, "backgroundTasks"), first)
        self.assertEqual(self.api.delete(self.at(key, "backgroundTasks"), if_match=one.etag).status, 204)
        self.problem(self.api.get(self.at(key, "backgroundTasks")), 404, "not_found")
        self.assertEqual(self.api.delete(self.at(key, "backgroundTasks")).status, 204)

    def test_each_of_them_in_each_way(self):
        for name in NAMES:
            values = {size: big(size) for size in (10, 5_000)}
            for value in values.values():
                made, patched, put = self.key(), self.key(), self.key()
                self.ok(self.api.post("/v1/agents/main/sessions", {"key": made, "entry": {name: value}}), 201)
                self.new(patched)
                self.ok(self.api.patch(S(patched), {name: value, "label": "l"}), 200)
                self.ok(self.api.put(S(put), {name: value}), 201)
                for key in (made, patched, put):
                    self.assertEqual(self.got(key, name), value)
                    self.assertEqual(self.ok(self.api.get(S(key) + "?include=snapshots"), 200)[name], value)
                back = self.ok(self.api.get(S(made)), 200)
                self.ok(self.api.put(S(made), {k: v for k, v in back.items() if k != "asOf"}), 200)
                self.assertEqual(self.got(made, name), value)
            self.assertIn(sha(values[5_000]), self.files())
            self.assertNotIn(sha(values[10]), self.files())
        self.ok(self.api.patch(S(patched), {name: {"a": None, "b": 1}}), 200)
        self.assertEqual(self.got(patched, name), {"a": None, "b": 1})  # whole, not merged
        self.ok(self.api.patch(S(patched), {name: None}), 200)
        self.problem(self.api.get(self.at(patched, name)), 404, "not_found")

    def test_text_is_a_json_string(self):
        key, text = self.key(), "You are “kind”.\n" * 500
        self.new(key)
        self.put(key, "systemPrompt", text.encode(), content_type="text/plain; charset=utf-8")
        self.assertEqual(self.got(key, "systemPrompt"), text)
        plain = self.api.get(self.at(key, "systemPrompt"), accept="text/plain")
        self.assertEqual((plain.raw.decode(), plain.headers["Content-Type"]), (text, "text/plain; charset=utf-8"))
        self.problem(self.api.put(self.at(key, "systemPrompt"), b"\xff\xfe", content_type="text/plain"), 400, "bad_request")
        self.assertEqual(self.got(key, "systemPrompt"), text)

    def test_what_is_refused_changes_nothing(self):
        key = self.key()
        self.new(key)
        before = set(self.files())
        for name, body, status in (("nosuch", [1], 404), ("systemprompt", "x", 404), ("skillsSnapshot", [big()] * 2, 422), ("backgroundTasks", b"{", 400),
                                   ("backgroundTasks", b"null", 422), ("backgroundTasks", b'{"a":1,"a":2}', 400),
                                   ("systemPromptReport", big(parts=[{"source": "moon", "chars": 1}]), 422),
                                   ("toolSchemas", big(key="sk-ant-" + "api03-" + "A1b2" * 24), 422)):
            self.problem(self.api.put(self.at(key, name), body), status)
        self.problem(self.api.put(self.at(self.key(), "toolSchemas"), big()), 404, "session_not_found")
        self.assertEqual([n for n in NAMES if n in self.ok(self.api.get(S(key)), 200)], [])
        self.problem(self.api.get(S(key) + "?include=all"), 400, "bad_request")
        self.api.post("/v1/admin/maintenance", NOW)
        self.assertLessEqual(set(self.files()), before)

    def test_a_hash_is_no_key_to_a_snapshot(self):
        secret, key = big(), self.key()
        self.ok(self.api.post("/v1/agents/side/sessions", {"key": "agent:side:x", "entry": {"toolSchemas": secret}}), 201)
        limited = self.daemon.client(self.daemon.token("operator", agents=["main"], keyPrefix=key))
        self.new(key, api=limited)
        handle = {"$blob": sha(secret), "bytes": 9}
        for reply in (limited.put(self.at(key, "toolSchemas"), handle), limited.patch(S(key), {"toolSchemas": handle}),
                      limited.patch(S(key), {"toolSchemas": {"bytes": 1, "$blob": sha(secret)}}), limited.put(S(key), {"toolSchemas": handle}),
                      limited.post("/v1/agents/main/sessions", {"key": key + "2", "entry": {"toolSchemas": handle}})):
            self.problem(reply, 422, "validation_failed")
        self.problem(limited.get("/v1/blobs/" + sha(secret)), 404, "not_found")
        self.problem(limited.get(self.at("agent:side:x", "toolSchemas", "side")), 403, "forbidden")
        self.put(key, "skillsSnapshot", handle)  # whoever sees it may hand it on
        self.assertEqual(self.got(key, "skillsSnapshot", limited), secret)
        self.assertEqual(limited.get("/v1/blobs/" + sha(secret)).raw, compact(secret))

    def test_what_no_entry_names_goes(self):
        keys, value = (self.key(), self.key()), big()
        for key in keys:
            self.new(key)
            self.put(key, "toolSchemas", value)
        self.put(keys[0], "toolSchemas", big())
        self.api.post("/v1/admin/maintenance", NOW)
        self.assertIn(sha(value), self.files())
        self.assertEqual(self.api.delete(S(keys[1])).status, 204)  # its entry lies beside the archive
        self.api.post("/v1/admin/maintenance", NOW)
        self.assertIn(sha(value), self.files())
        self.ok(self.api.post(S(keys[1], "main", "restore"), {}))
        self.assertEqual(self.got(keys[1], "toolSchemas"), value)
        self.assertEqual(self.api.delete(S(keys[1]) + "?purge=true").status, 204)
        self.api.post("/v1/admin/maintenance", NOW)
        self.assertNotIn(sha(value), self.files())

    def test_a_damaged_one_is_said_and_never_shown(self):
        key, value = self.key(), big()
        self.new(key)
        self.put(key, "toolSchemas", value)
        file = self.files()[sha(value)]
        file.write_bytes(file.read_bytes().replace(b'"prompt"', b'"prompx"'))
        self.problem(self.api.get(self.at(key, "toolSchemas")), 503, "degraded")
        shown = self.ok(self.api.get(S(key) + "?include=snapshots"), 200)["toolSchemas"]
        self.assertEqual((shown["$blob"], shown["unavailable"]), (sha(value), True))
        self.put(key, "toolSchemas", value)
        self.assertEqual(self.got(key, "toolSchemas"), value)

    def test_a_shared_store_and_a_session_in_memory_have_them_inline(self):
        shared = self.spawn({"store": {"mode": "shared"}})
        api, key, value = shared.client(), self.key(), big()
        self.new(key, api=api)
        self.put(key, "skillsSnapshot", value, api=api)
        self.assertEqual(shared.sessions_json()[key]["skillsSnapshot"], value)
        self.assertFalse((shared.state / "blobs").exists())
        self.assertEqual(self.got(key, "skillsSnapshot", api), value)
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True, "entry": {"toolSchemas": value}}), 201)
        self.put(key, "skillsSnapshot", value)
        self.ok(self.api.patch(S(key), {"systemPromptReport": value}), 200)
        self.assertNotIn(sha(value), self.files())
        self.assertEqual(self.got(key, "toolSchemas"), value)


class Exports(SnapshotCase):
    """What an export has goes to a daemon that has no blobs of this one."""

    def test_an_export_has_media_and_snapshots_whole(self):
        import base64
        data = base64.b64encode(os.urandom(300_000)).decode()
        key, value = self.key(), big()
        self.new(key)
        self.put(key, "skillsSnapshot", value)
        part = {"type": "image", "data": data, "mimeType": "image/png"}
        said = [{"role": "user", "content": [part, part]}, {"role": "user", "text": "é" * 100_000}, {"role": "assistant", "content": [part]}]
        for message in said:
            self.ok(self.api.post(S(key, "main", "messages"), message), 201)
        for query in ("jsonl&entry=true", "jsonl", "json"):
            exported = self.api.get(S(key, "main", "export") + "?format=" + query)
            self.assertEqual(exported.status, 200)
            self.assertIn(data.encode(), exported.raw)
            self.assertEqual(compact(value) in exported.raw, "entry" in query)
            kind, other = query.partition("&")[0], self.spawn()
            done = self.ok(other.client().post(f"/v1/agents/main/import?format={kind}&ifExists=replace", exported.raw), 200)
            self.assertEqual(done["skipped"], 0, done)
            taken = done["ids"][0]
            again = other.client().get(S(taken, "main", "export") + "?format=" + query)
            self.assertEqual(again.raw, exported.raw, query)
            self.assertEqual(len(self.files(other)), 2 if "entry" in query else 1)
            self.assertEqual(self.ok(other.client().get(S(taken, "main", "messages") + "?media=inline"), 200)["data"][0]["content"], [part, part])
        yaml = self.api.get(S(key, "main", "export") + "?format=relavium-yaml")
        self.assertNotIn(data[:100].encode(), yaml.raw)

"""Media as blobs: content of messages that is stored once and named by its hash. The numbers of checks are those of the
contract of durable content."""

import base64
import hashlib
import json
import os
import threading

from harness.case import S, uid
from harness.sessiond import Daemon, eventually
from runs_case import RunsCase

SMALL = 64 << 10
NOW = {"dryRun": False}  # a body of /v1/admin/maintenance


def media(size=90_000, head=b"\x89PNG\r\n\x1a\n"):
    return head + os.urandom(size - len(head))


def b64(data, **how):
    return (base64.urlsafe_b64encode if how.get("url") else base64.b64encode)(data).decode()


def sha(data):
    return hashlib.sha256(data).hexdigest()


def image(data):
    return {"type": "image", "data": b64(data), "mimeType": "image/png"}


class BlobCase(RunsCase):
    def key(self):
        return f"agent:main:slack:direct:{uid().lower()}"

    def files(self, daemon=None):
        folder = (daemon or self.daemon).state / "blobs" / "sha256"
        return {file.name: file for file in folder.glob("??/*")}

    def content(self, key, query="media=inline", api=None, agent="main"):
        return [m["content"] for m in self.messages(key, agent, api, "limit=200&order=asc&" + query)]

    def say_media(self, key, *all_media, api=None, agent="main"):
        parts = [{"type": "text", "text": "look"}, *map(image, all_media)]
        return self.ok((api or self.api).post(S(key, agent, "messages"), {"role": "user", "content": parts}), 201)

    def blob(self, hash, api=None, **named):
        return (api or self.api).get("/v1/blobs/" + hash, **named)

    def served(self, data, api=None):
        reply = self.blob(sha(data), api)
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(reply.raw, data)
        return reply

    def swept(self, api=None):
        return self.ok((api or self.api).post("/v1/admin/maintenance", NOW), 200)["blobs"]


class Media(BlobCase):
    config = {"blobs": {"graceMs": 0}, "context": {"maxFilesPerMessage": 100}}

    def test_media_are_handles_and_signatures_go(self):
        daemon = self.spawn({"transcripts": {"durableContent": "full"}})
        api, data, key = daemon.client(), media(), self.key()
        self.new(key, api=api)
        said = {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "SIG", "thinkingSignature": "SIG"},
            {"type": "redacted_thinking", "data": "SIG"}, {"type": "text", "text": "t", "thoughtSignature": "SIG"},
            {"type": "toolCall", "id": "c1", "name": "sign", "arguments": {"signature": "mine"}}, image(data)]}
        self.ok(api.post(S(key, "main", "messages"), said), 201)
        daemon.checkpoint()
        line = [l for f in daemon.agent_dir().glob("*.jsonl") for l in f.read_bytes().splitlines() if b"look" in l or b"thinking" in l]
        self.assertEqual(len(line), 1)
        self.assertLess(len(line[0]), 1024)
        for file in daemon.state.rglob("*"):
            if file.is_file():
                self.assertNotIn(b'"SIG"', file.read_bytes(), file)
        handle = json.loads(line[0])["message"]["content"][-1]
        self.assertEqual(handle["type"], "image")
        self.assertEqual({k: handle["source"][k] for k in ("type", "sha256", "media_type", "bytes")},
                         {"type": "blob", "sha256": sha(data), "media_type": "image/png", "bytes": len(data)})
        self.served(data, api)
        self.assertEqual(self.content(key, api=api)[0], [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "t"},
            {"type": "toolCall", "id": "c1", "name": "sign", "arguments": {"signature": "mine"}}, image(data)])

    def test_the_view_has_signatures_while_their_run_goes_on(self):
        daemon = self.spawn({"transcripts": {"durableContent": "full"}})
        api = daemon.client()
        key, other = self.key(), self.key()
        for one in (key, other):
            self.new(one, api=api)
        stray = api.post(S(key, "main", "messages"), {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "OLD"}, {"type": "text", "text": "b"}]})
        self.ok(stray, 201)  # of no run
        run = self.start(key, "hi", api=api)
        said = [[{"type": "thinking", "thinking": "b", "signature": f"SIG{n}"}, {"type": "redacted_thinking", "data": f"RED{n}"},
                 {"type": "text", "text": "c"}, {"type": "toolCall", "id": f"c{n}", "name": "ls", "arguments": {}}] for n in range(2)]
        bare = [[part for part in content if part["type"] != "redacted_thinking"] for content in said]
        for content, shown in zip(said, bare, strict=True):
            shown[0] = {"type": "thinking", "thinking": "b"}
            blank = [*content[:-1], {"type": "text", "text": ""}, content[-1]]  # which no view shows
            self.ok(api.post(S(key, "main", "messages"), {"role": "assistant", "content": blank}), 201)
            self.ok(api.post(S(key, "main", "messages"), {"role": "toolResult", "toolCallId": content[-1]["id"], "content": "ok"}), 201)

        def shown_by(query, one=key):
            return [m["content"] for m in self.ok(api.get(S(one, "main", "messages") + query), 200)["data"] if m.get("role") == "assistant"]

        old = [{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "b"}]
        # A token that may not see the session cannot place signatures.
        stranger = daemon.client(daemon.token("operator", keyPrefix=other))
        forged = [{**said[0][0], "signature": "FORGED"}, *said[0][1:]]
        self.assertEqual(stranger.post(S(key, "main", "messages"), {"role": "assistant", "content": forged}).status, 404)
        self.assertEqual(shown_by("?view=llm"), [old, *said])
        self.assertEqual(shown_by("?order=asc"), [old, *[[*one[:-1], {"type": "text", "text": ""}, one[-1]] for one in bare]])
        self.assertNotIn(b"SIG", b"".join(f.read_bytes() for f in daemon.state.rglob("*") if f.is_file()))
        # A request that is sent again shows its message once, with its own signature.
        again = {"role": "assistant", "content": [{"type": "thinking", "thinking": "b", "signature": "SIG2"}, {"type": "text", "text": "d"}]}
        other_one = {"role": "assistant", "content": [{"type": "thinking", "thinking": "b", "signature": "SIG3"}, {"type": "text", "text": "d"}]}
        for body, id in ((again, "k1"), (other_one, "k2"), (again, "k1")):
            self.ok(api.post(S(key, "main", "messages"), body, headers={"Idempotency-Key": key + id}), 201)
        self.assertEqual(shown_by("?view=llm"), [old, *said, again["content"], other_one["content"]])
        self.finish(run, api=api)
        self.assertEqual(shown_by("?view=llm"), [old, *bare, *[[{"type": "thinking", "thinking": "b"}, {"type": "text", "text": "d"}]] * 2])
        self.start(key, "again", api=api)  # another run does not have them
        self.assertEqual(shown_by("?view=llm"), [old, *bare, *[[{"type": "thinking", "thinking": "b"}, {"type": "text", "text": "d"}]] * 2])

    def test_a_shared_store_keeps_all_as_it_came(self):
        daemon = self.spawn({"store": {"mode": "shared"}})
        api, data, key = daemon.client(), media(), self.key()
        self.new(key, api=api)
        said = [{"type": "thinking", "thinking": "hm", "signature": "SIG"}, image(data)]
        self.ok(api.post(S(key, "main", "messages"), {"role": "assistant", "content": said}), 201)
        self.assertIn(json.dumps(image(data)).replace(", ", ",").replace(": ", ":").encode(),
                      b"".join(f.read_bytes().replace(b", ", b",").replace(b": ", b":") for f in daemon.agent_dir().glob("*.jsonl")))
        self.assertEqual(self.content(key, "media=handle", api=api), [said])
        self.assertFalse((daemon.state / "blobs").exists())

    def test_one_blob_for_two_sessions_as_long_as_one_is_left(self):
        data, other, keys = media(), media(), (self.key(), self.key())
        before = len(self.files())
        for key in keys:
            self.new(key)
            self.say_media(key, data, data)
        self.assertEqual(len(self.files()), before + 1)
        self.new("agent:side:x")
        self.say_media("agent:side:x", other, agent="side")
        limited = self.daemon.client(self.daemon.token("viewer", agents=["main"]))
        self.served(data, limited)
        hidden, absent = self.problem(self.blob(sha(other), limited), 404, "not_found"), self.problem(self.blob("0" * 64, limited), 404, "not_found")
        for reply in (hidden, absent):
            for name in ("requestId", "instance"):
                reply.pop(name)
            reply["detail"] = reply["detail"].replace(sha(other), "0" * 64)
        self.assertEqual(hidden, absent)
        one = self.daemon.client(self.daemon.token("viewer", agents=["main"], keyPrefix=keys[0]))
        self.served(data, one)
        self.assertEqual(self.api.delete(S(keys[0]) + "?purge=true").status, 204)
        self.problem(self.blob(sha(data), one), 404, "not_found")
        self.swept()
        self.served(data)
        self.assertEqual(self.api.delete(S(keys[1])).status, 204)  # archived
        self.swept()
        self.served(data)
        archived = self.ok(self.api.get("/v1/agents/main/archives?limit=200"), 200)["data"]
        self.assertTrue(archived)
        purged = self.ok(self.api.post("/v1/admin/maintenance", {**NOW, "agent": "main", "maxDiskBytes": 0}), 200)
        self.assertTrue(purged["count"])
        self.assertGreaterEqual(self.swept()["removed"], 1)
        self.assertNotIn(sha(data), self.files())
        self.problem(self.blob(sha(data)), 404, "not_found")
        self.served(other)

    def test_all_spellings_come_back_as_they_came(self):
        data, key = media(), self.key()
        self.new(key)
        url = "data:image/png;base64," + b64(data)
        parts = [
            {"type": "image", "data": b64(data), "mimeType": "image/png"},
            {"type": "image_url", "image_url": {"url": url, "detail": "low"}}, {"type": "input_image", "image_url": url},
            {"type": "input_audio", "input_audio": {"data": b64(data), "format": "wav"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64," + b64(data)}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(data)}, "cache_control": {"type": "ephemeral"}},
            {"inlineData": {"mimeType": "image/png", "data": b64(data)}}, {"inline_data": {"mime_type": "image/png", "data": b64(data, url=True)}},
            {"type": "image", "data": b64(data).rstrip("="), "mimeType": "image/png", "unknown": [1.50, "é\n"]},
            {"type": "toolResult", "toolCallId": "c", "content": [{"type": "image", "data": b64(data), "mimeType": "image/png"}]}]
        for part in parts:
            self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "content": [part]}), 201)
        self.assertEqual(self.content(key), [[part] for part in parts])
        shown = self.content(key, "media=handle")
        self.assertTrue(all(sha(data) in json.dumps(one) for one in shown))
        self.assertLess(len(json.dumps(shown)), 8_000)
        for one in self.content(key, "media=url")[:9]:
            self.assertEqual((one[0]["source"]["type"], one[0]["source"]["url"]), ("url", "/v1/blobs/" + sha(data)))
        entry = self.messages(key)[0]["id"]
        got = self.ok(self.api.get(S(key, "main", "messages", entry) + "?media=inline"), 200)
        self.assertEqual(got["content"], [parts[0]])
        llm = self.ok(self.api.get(S(key, "main", "messages") + "?view=llm&media=inline"), 200)
        self.assertIn(b64(data), json.dumps(llm))
        self.assertNotIn('"blob"', json.dumps(llm))
        self.problem(self.api.get(S(key, "main", "messages") + "?media=all"), 400, "bad_request")

    def test_what_is_no_whole_base64_or_small_stays(self):
        key, text = self.key(), b64(media())
        self.new(key)
        lines = "\r\n".join(text[i:i + 76] for i in range(0, len(text), 76))
        parts = [{"type": "image", "data": bad, "mimeType": "image/png"} for bad in (
            lines, "!" + text, text + "=", text[:-1] + "\x00", text[:-3], b64(media(SMALL)), text + " ", "é" * 90_000, "=" * 90_000)]
        parts += [{"type": "text", "text": text}, {"type": "image", "data": [text], "mimeType": 5}, {"data": text},
                  {"type": "image_url", "image_url": {"url": "data:image/png," + text}}, {"type": "image_url", "image_url": {"url": "data:;base64"}}]
        before = set(self.files())
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "content": parts}), 201)
        self.assertEqual(self.content(key, "media=handle"), [parts])
        self.assertEqual(set(self.files()), before)
        edge = media(SMALL + 1)
        self.say_media(key, edge)
        self.assertEqual(set(self.files()) - before, {sha(edge)})

    def test_inbound_and_outbound_and_runs(self):
        data, more, sent = media(), media(), media()
        got = self.inbound(peer="U" + uid(8), content=[image(data)], attachments=[{"type": "image", "data": b64(more), "mimeType": "image/png"}])
        key = got["sessionKey"]
        self.ok(self.api.post(S(key, "main", "outbound"), {"content": [image(sent)]}), 201)
        for one in (data, more, sent):
            self.served(one)
        self.assertEqual(self.content(key)[-1], [image(sent)])

    def test_a_session_in_memory_keeps_its_media_from_the_disk(self):
        data, key = media(), self.key()
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key, "ephemeral": True}), 201)
        self.say_media(key, data)
        self.assertNotIn(sha(data), self.files())
        self.assertEqual(self.content(key, "media=handle")[0][1], image(data))

    def test_how_a_blob_is_answered(self):
        key = self.key()
        self.new(key)
        kinds = {"image/png": media(), "image/jpeg": media(head=b"\xff\xd8\xff"), "application/pdf": media(head=b"%PDF-"),
                 "application/octet-stream": media(head=b"<svg onload='alert(1)'>"), "audio/wav": media(head=b"RIFF\0\0\0\0WAVE")}
        self.say_media(key, *kinds.values())
        for kind, data in kinds.items():
            reply = self.served(data)
            self.assertEqual(reply.headers["Content-Type"], kind)
            self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")
            self.assertIn("attachment", reply.headers["Content-Disposition"])
            self.assertIn("sandbox", reply.headers["Content-Security-Policy"])
        data = kinds["image/png"]
        self.assertEqual(self.blob(sha(data), if_none_match=f'"{sha(data)}"').status, 304)
        part = self.blob(sha(data), range="bytes=10-19")
        self.assertEqual((part.status, part.raw, part.headers["Content-Range"]), (206, data[10:20], f"bytes 10-19/{len(data)}"))
        self.problem(self.blob(sha(data), range="bytes=900000-"), 416, "range_not_satisfiable")
        self.assertEqual(self.api.request("HEAD", "/v1/blobs/" + sha(data)).headers["Content-Length"], str(len(data)))
        for wrong in (sha(data).upper(), sha(data)[:-1], "..%2f..%2fadmin.token", sha(data) + "0"):
            self.problem(self.api.get("/v1/blobs/" + wrong), 404, "not_found")

    def test_blobs_outlive_kills(self):
        daemon = self.spawn()
        api, data, key = daemon.client(), media(), self.key()
        self.new(key, api=api)
        self.say_media(key, data, api=api)
        for kill in (True, False):
            daemon.restart(kill=kill)
            api = daemon.client()
            self.served(data, api)
            self.assertEqual(self.content(key, api=api)[0][1], image(data))
        metrics = api.get("/metrics").raw.decode()
        self.assertIn("\nsessiond_blobs 1\n", metrics)
        self.assertIn(f"\nsessiond_blob_bytes {len(data)}\n", metrics)


class Handles(BlobCase):
    """Handles that a client writes."""
    config = {"blobs": {"graceMs": 0}, "context": {"maxFilesPerMessage": 10_000}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.secret = media()
        cls.api.post("/v1/agents/side/sessions", {"key": "agent:side:x"})
        cls.api.post(S("agent:side:x", "side", "messages"), {"role": "user", "content": [image(cls.secret)]})
        cls.limited = cls.daemon.client(cls.daemon.token("operator", agents=["main"], keyPrefix="agent:main:slack:"))

    def handle(self, hash=None, **more):
        return {"type": "image", "source": {"type": "blob", "sha256": hash or sha(self.secret), "media_type": "image/png", **more}}

    def test_a_hash_is_no_key_to_a_blob(self):
        key, hash = self.key(), sha(self.secret)
        self.new(key, api=self.limited)
        messages = S(key, "main", "messages")
        for body, pointer in (
                ({"role": "user", "content": [{"type": "text", "text": "x"}, self.handle()]}, "/content/1/source"),
                ({"role": "user", "content": [{"source": {"sha256": hash, "x": 1, "type": "blob"}, "type": "image"}]}, "/content/0/source"),
                ({"entries": [{"role": "user", "text": "x"}, {"role": "user", "content": [self.handle()]}]}, "/entries/1/content/0/source"),
                ({"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "n", "arguments": json.dumps(self.handle())}]}, "/content/0/arguments")):
            self.invalid(self.limited.post(messages, body), pointer)
        self.invalid(self.limited.patch(S(key), {"skillsSnapshot": {"$blob": hash, "bytes": 1}}), "/skillsSnapshot")
        raw = json.dumps({"role": "user", "content": [self.handle()]}).replace('"sha256"', '"sh\\u0061256"').encode()
        self.assertEqual(self.limited.post(messages, raw).status, 422)
        self.assertEqual(self.messages(key, api=self.limited), [])
        self.problem(self.blob(hash, self.limited), 404, "not_found")
        # What only looks like one is no name of it.
        for raw in (b'{"role":"user","content":[{"type":"image","source":{"type":"bl\\u006fb","sha256":"%s"}}]}' % hash.encode(),
                    json.dumps({"role": "user", "text": json.dumps(self.handle())}).encode(),
                    json.dumps({"role": "user", "text": hash}).encode()):
            self.limited.post(messages, raw)
        self.limited.patch(S(key), {"note": {"type": "blob"}})
        self.limited.patch(S(key), {"note": {"sha256": hash}})
        self.problem(self.blob(hash, self.limited), 404, "not_found")
        for shown in self.content(key, api=self.limited):
            self.assertNotIn(b64(self.secret)[:100], json.dumps(shown))

    def test_imports_cannot_name_a_blob_either(self):
        call = {"role": "assistant", "content": "", "toolCalls": [{"id": "c", "type": "function", "function": {"name": "n", "arguments": json.dumps(
            self.handle()).replace("blob", "bl\\u006fb")}}]}
        for line in (json.dumps({"type": "message", "id": "a1", "parentId": None, "timestamp": "2020-01-02T03:04:06.000Z",
                                 "message": {"role": "user", "content": [self.handle()]}}),):
            body = ('{"type":"session","version":3,"id":"%s","timestamp":"2020-01-02T03:04:05.000Z","cwd":"/"}\n' % uid() + line + "\n").encode()
            reply = self.limited.post("/v1/agents/main/import?format=jsonl", body, content_type="application/x-ndjson")
            self.assertEqual(reply.status, 422, reply)
        document = {"id": uid(), "name": "n", "createdAt": "2020-01-02T03:04:05.000Z", "updatedAt": "2020-01-02T03:04:05.000Z",
                    "messages": [{"role": "user", "content": "x"}, call]}
        self.limited.post("/v1/agents/main/import?format=robota", document)
        self.problem(self.blob(sha(self.secret), self.limited), 404, "not_found")

    def test_a_client_may_name_what_it_sees(self):
        data, keys = media(), (self.key(), self.key())
        for key in keys:
            self.new(key, api=self.limited)
        self.say_media(keys[0], data, api=self.limited)
        self.ok(self.limited.post(S(keys[1], "main", "messages"), {"role": "user", "content": [{"source": {"sha256": sha(data), "type": "blob"}, "type": "image"}]}), 201)
        self.assertEqual(self.content(keys[1])[0], [{"type": "image", "data": b64(data), "mimeType": "application/octet-stream"}])
        self.assertEqual(self.api.delete(S(keys[0]) + "?purge=true").status, 204)
        self.swept()
        self.served(data, self.limited)

    def test_handles_of_a_view_that_are_sent_back(self):
        data, keys = media(), (self.key(), self.key())
        for key in keys:
            self.new(key)
        self.say_media(keys[0], data)
        self.ok(self.api.post(S(keys[1], "main", "messages"), {"role": "user", "content": self.content(keys[0], "media=handle")[0]}), 201)
        self.assertEqual(self.content(keys[1]), self.content(keys[0]))

    def test_five_thousand_in_one_message(self):
        data, key = media(), self.key()
        self.new(key)
        self.say_media(key, data)
        many = [self.handle(sha(data)) for _ in range(5000)]
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "content": many}), 201)
        self.assertEqual(len(self.content(key, "media=url")[1]), 5000)
        strange = [self.handle(f"{n:064x}") for n in range(5000)]
        self.assertEqual(len(self.problem(self.api.post(S(key, "main", "messages"), {"role": "user", "content": strange}), 422)["errors"]), 20)
        bounded = self.ok(self.api.get(S(key, "main", "messages") + "?media=inline&after=0"), 200)
        self.assertLess(len(json.dumps(bounded)), 100 << 20)

    def test_a_fork_keeps_the_blobs_of_its_origin(self):
        data, key = media(), self.key()
        self.new(key)
        self.say_media(key, data)
        fork = self.ok(self.api.post(S(key, "main", "fork"), {}), 201)
        self.assertEqual(self.api.delete(S(key) + "?purge=true").status, 204)
        self.swept()
        self.served(data)
        self.assertEqual(self.content(fork["key"])[0][1], image(data))

    def test_a_copy_keeps_the_blobs_of_an_edit(self):
        data, peer = media(), "p" + uid()
        said = {"channel": "chat", "chatType": "direct", "peer": peer, "text": "one", "messageId": "m1"}
        origin = self.ok(self.api.post("/v1/inbound", said), 201)["sessionKey"]
        copy = f"agent:main:slack:direct:{peer}"
        self.ok(self.api.post(S(origin, "main", "fork"), {"key": copy}), 201)
        edit = {"channel": "chat", "peer": peer, "messageId": "m1", "content": [image(data)]}
        self.ok(self.api.post("/v1/inbound/edits", edit), 201)
        self.assertEqual(self.api.delete(S(origin) + "?purge=true").status, 204)
        self.swept()
        self.served(data)
        self.served(data, self.limited)


class Faults(BlobCase):
    @classmethod
    def setUpClass(cls):
        pass  # each test has a daemon of its own

    def started(self, **config):
        daemon = self.spawn({"blobs": {"graceMs": 0, **config}})
        api, key = daemon.client(), self.key()
        self.new(key, api=api)
        return daemon, api, key

    def test_a_flipped_bit_is_never_served_and_mended_by_the_same_content(self):
        daemon, api, key = self.started()
        data = media()
        self.say_media(key, data, api=api)
        file = self.files(daemon)[sha(data)]
        for damaged in (data[:500] + bytes([data[500] ^ 1]) + data[501:], data[:-1], b""):
            file.write_bytes(damaged)
            self.assertIn(file.name, self.problem(self.blob(sha(data), api), 503, "degraded")["detail"])
            shown = self.content(key, api=api)[0][1]
            self.assertIs(shown["source"]["unavailable"], True)
            self.say_media(key, data, api=api)
            self.served(data, api)
        file.unlink()
        self.assertIn("missing", self.problem(self.blob(sha(data), api), 503, "degraded")["detail"])
        file.mkdir()
        self.assertIn("move it away", self.problem(self.blob(sha(data), api), 503, "degraded")["detail"])
        self.assertEqual(api.post(S(key, "main", "messages"), {"role": "user", "content": [image(data)]}).status, 503)
        file.rmdir()
        self.say_media(key, data, api=api)
        self.served(data, api)

    def test_what_is_in_the_way_refuses_media_and_nothing_else(self):
        daemon, api, key = self.started()
        (daemon.state / "blobs").write_text("in the way")
        body = {"role": "user", "content": [image(media())]}
        for _ in range(2):
            reply = self.problem(api.post(S(key, "main", "messages"), body), 503, "degraded")
            self.assertIn("blobs", reply["detail"])
        self.say(key, "still here", api=api)
        self.assertEqual(self.texts(key, api=api), ["still here"])
        (daemon.state / "blobs").unlink()
        self.ok(api.post(S(key, "main", "messages"), body), 201)
        daemon.restart(kill=True)
        self.assertEqual(len(self.messages(key, api=daemon.client())), 2)

    def test_all_blobs_together_have_a_limit(self):
        daemon, api, key = self.started(maxBytes=1 << 20)
        datas = [media(300_000) for _ in range(4)]
        for data in datas[:3]:
            self.say_media(key, data, api=api)
        for daemon_again in (False, True):
            if daemon_again:
                daemon.restart()
                api = daemon.client()
                eventually(lambda: b"sessiond_blobs 3\n" in api.get("/metrics").raw)
            reply = self.problem(api.post(S(key, "main", "messages"), {"role": "user", "content": [image(datas[3])]}), 507, "storage_full")
            self.assertIn("blobs.maxBytes", reply["detail"])
        self.say_media(key, datas[0], api=api)  # what is there is no more
        self.assertEqual(api.delete(S(key) + "?purge=true").status, 204)
        self.assertEqual(self.swept(api), {"removed": 3, "bytes": 900_000})
        self.new(key, api=api)
        self.say_media(key, datas[3], api=api)

    def test_a_sweep_beside_appends_of_the_same_content(self):
        daemon, api, key = self.started()
        data, rounds, stop = media(), 25, threading.Event()
        faults = []

        def sweep():
            client = daemon.client()
            while not stop.is_set():
                reply = client.post("/v1/admin/maintenance", NOW)
                if reply.status != 200:
                    faults.append(reply)
        sweeper = threading.Thread(target=sweep)
        sweeper.start()
        try:
            for _ in range(rounds):
                one = self.key()
                self.new(one, api=api)
                self.say_media(one, data, api=api)
                self.served(data, api)
                self.assertEqual(api.delete(S(one) + "?purge=true").status, 204)
        finally:
            stop.set()
            sweeper.join()
        self.assertEqual(faults, [])
        self.swept(api)
        self.assertEqual(self.files(daemon), {})

    def test_what_was_lately_written_stays(self):
        daemon, api, key = self.started(graceMs=3_600_000)
        data, old = media(), media()
        self.say_media(key, data, old, api=api)
        self.assertEqual(api.delete(S(key) + "?purge=true").status, 204)
        self.assertEqual(self.swept(api), {"removed": 0, "bytes": 0})
        left = self.files(daemon)[sha(old)].with_name("x.tmp")
        left.write_text("of a kill")
        for file in (self.files(daemon)[sha(old)], left):
            os.utime(file, (0, 0))
        self.assertEqual(self.swept(api), {"removed": 1, "bytes": len(old)})
        self.assertEqual(set(self.files(daemon)), {sha(data), "x.tmp"})  # as far as a sweep knows, a request writes it
        daemon.restart(kill=True)
        self.assertEqual(set(self.files(daemon)), {sha(data)})

    def test_maintenance_removes_blobs_by_itself(self):
        daemon = self.spawn({"blobs": {"graceMs": 0}, "session": {"maintenance": {"everyMs": 100}}})
        api, key = daemon.client(), self.key()
        self.new(key, api=api)
        self.say_media(key, media(), api=api)
        self.assertEqual(len(self.files(daemon)), 1)
        self.assertEqual(api.delete(S(key) + "?purge=true").status, 204)
        eventually(lambda: not self.files(daemon), 20)

    def test_backups_have_the_blobs_that_their_sessions_name(self):
        daemon, api, key = self.started()
        data = media()
        self.say_media(key, data, api=api)
        to = daemon.home / "backup.tar"
        done = daemon.cli("backup", to)
        self.assertEqual(done.returncode, 0, done.stderr)
        daemon.stop()
        at_rest = daemon.home / "rest.tar"
        done = daemon.cli("backup", at_rest)
        self.assertEqual(done.returncode, 0, done.stderr)
        for number, source in enumerate((to, at_rest)):
            state = daemon.home / f"state-{number}"
            done = daemon.cli("restore", source, "--state-dir", state)
            self.assertEqual(done.returncode, 0, done.stderr)
            again = self.spawn({"blobs": {"graceMs": 0}}, state=state)
            client = again.client(daemon.admin_token)
            self.served(data, client)
            self.assertEqual(self.content(key, api=client)[0][1], image(data))
            self.assertEqual(self.swept(client), {"removed": 0, "bytes": 0})
            again.stop()
            report = again.cli("doctor", "--json")
            found = [f for f in json.loads(report.stdout)["findings"] if f["check"] == "blobs"]
            self.assertEqual([f["level"] for f in found], ["ok"], found)

    def test_nothing_goes_while_a_file_cannot_be_read(self):
        daemon, api, key = self.started()
        data = media()
        self.say_media(key, data, api=api)
        self.assertEqual(api.delete(S(key) + "?purge=true").status, 204)
        odd = daemon.agent_dir() / "deep"
        odd.mkdir()
        (odd / "name.jsonl").symlink_to(odd / "name.jsonl")
        (daemon.agent_dir() / "other.txt").write_text('{"type":"blob","sha256":"%s"}' % sha(data))
        self.assertEqual(self.swept(api)["removed"], 0)  # a file of nobody's names it
        (daemon.agent_dir() / "other.txt").unlink()
        self.assertEqual(self.swept(api)["removed"], 1)

"""Keys in what people and agents say: policy.secretScanMessages. What was taken out is in no file, no stream and no log."""

import base64
import json as plain_json

from harness.sessiond import uid
from harness.case import S, json
from runs_case import RunsCase

# Put together here, so that no file of the repository holds what looks like a key.
BODY = "Ab1_" * 12 + "Zz"
KEY = "sk-ant-" + "api03-" + BODY
PLACE = "[redacted: Anthropic key]"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "MIIEow" * 20 + "\n-----END RSA PRIVATE KEY-----"


def user(text):
    return {"role": "user", "text": text}


class Redacted(RunsCase):
    config = {"policy": {"secretScanMessages": "redact"}, "log": {"level": "debug"}}

    def setUp(self):
        super().setUp()
        self.key = self.new()["key"]

    def nowhere(self, *secrets):
        """Looks through every file of the state directory, the stream and the log."""
        self.daemon.checkpoint()
        stream = self.api.get("/v1/events?poll=1&limit=1000&after=" + self.epoch() + "-0").raw
        places = {"stream": stream, "log": "\n".join(self.daemon.stderr).encode()}
        places |= {str(path): path.read_bytes() for path in self.daemon.state.rglob("*") if path.is_file()}
        for secret in secrets or (BODY,):
            for name, held in places.items():
                self.assertNotIn(secret.encode(), held, name)

    def epoch(self):
        return self.ok(self.api.get(S(self.key, "main", "context")), 200)["asOf"].split("-")[0]

    def post(self, body, what="messages", status=201):
        return self.ok(self.api.post(S(self.key, "main", what), body), status)

    def test_a_key_in_an_append_is_redacted(self):
        with self.api.stream() as events:
            reply = self.post(user("my key is " + KEY + ", use it"))
            event = events.wait_type("message.appended")
        self.assertIn(PLACE, json.dumps(event.data))
        self.assertEqual(self.texts(self.key), [f"my key is {PLACE}, use it"])
        self.assertEqual(reply["warnings"], [{"code": "secret_in_message", "pointer": "/text", "kind": "Anthropic key"}])
        self.nowhere()

    def test_escapes_parts_and_arguments(self):
        escaped = plain_json.dumps(user(f"a\n{KEY}")).replace("sk-ant", "\\u0073k\\u002dant").encode()
        self.ok(self.api.post(S(self.key, "main", "messages"), escaped), 201)
        half = len(KEY) // 3
        self.post({"role": "assistant", "content": [
            {"type": "text", "text": "first " + KEY[:half]}, {"type": "text", "text": KEY[half:2 * half]},
            {"type": "text", "text": KEY[2 * half:] + " last"}, {"type": "text", "text": "sk"}, {"type": "text", "text": KEY[2:]},
            {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "export K=" + KEY, KEY: 1}}]})
        self.post({"role": "assistant", "content": "", "tool_calls": [
            {"id": "c2", "type": "function", "function": {"name": "x", "arguments": plain_json.dumps({"a": [plain_json.dumps({"b": "\n" + KEY})]})}}]})
        self.post({"role": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": f"{AWS}\n{PEM}"}]})
        self.nowhere(BODY, KEY[:half], KEY[half:2 * half], KEY[2 * half:], AWS, "MIIEow")
        found = self.messages(self.key)
        self.assertEqual(found[0]["content"][0]["text"], "a\n" + PLACE)
        self.assertEqual([part.get("text") for part in found[1]["content"][:5]], ["first " + PLACE, "", " last", PLACE, ""])
        self.assertEqual(found[1]["content"][5]["arguments"], {"command": "export K=" + PLACE, PLACE: 1})
        inner = plain_json.loads(found[2]["tool_calls"][0]["function"]["arguments"])["a"][0]
        self.assertEqual(plain_json.loads(inner), {"b": "\n" + PLACE})

    def test_every_way_in(self):
        text = "see " + KEY
        made = self.inbound(text=text, messageId="m1")
        self.ok(self.api.post("/v1/inbound/edits", {"agent": "main", "sessionKey": made["sessionKey"], "channel": "slack",
                "chatType": "channel", "peer": "c7", "from": "U1", "targetMessageId": "m1", "text": text}), 200, 201, 404, 422)
        self.post({"text": text}, "outbound")
        run = self.start(self.key, text)
        self.tell(run, {"type": "step.started", "step": 1}, {"type": "text.delta", "text": text}, {"type": "reasoning.delta", "text": text},
                  {"type": "tool.started", "callId": "c", "name": "bash", "args": {"command": text}},
                  {"type": "tool.finished", "callId": "c", "name": "bash", "result": text})
        self.post({"runId": run["runId"], "fence": run["lease"]["fence"], "tool": "bash", "args": {"command": text}, "callId": "c1"}, "approvals")
        self.finish(run, {"role": "assistant", "text": text}, error={"code": "x", "message": text})
        self.ok(self.api.post(S(self.key, "main", "typing"), {"from": KEY}), 204)
        self.ok(self.api.post(S(self.key, "main", "deltas"), {"text": text}), 204)
        line = json.dumps({"metadata": {"id": "i" + uid()}, "messages": [{"role": "user", "content": text}]})
        done = self.ok(self.api.post("/v1/agents/main/import?format=json", line.encode()), 200)
        self.assertEqual((done["created"], done["warnings"][0]["pointer"]), (1, "/messages/0/content"))
        lines = [{"type": "session", "version": 3, "id": "j" + uid()}, {"type": "message", "id": "a", "message": {"role": "user", "content": text}}]
        body = "\n".join(map(json.dumps, lines)) + "\nno json " + KEY + "\n"
        done = self.ok(self.api.post("/v1/agents/main/import?format=jsonl", body.encode()), 200)
        self.assertEqual([w["pointer"] for w in done["warnings"]], ["line 2: /message/content", "line 3: "])
        tag = self.api.get(S(self.key)).etag
        put = self.api.request("PUT", S(self.key, "main", "transcript"), {"entries": [user(text)]}, headers={"If-Match": tag})
        self.assertIn(put.status, (200, 201, 412, 422, 428), put)
        self.nowhere()

    def test_what_is_no_key_keeps_its_bytes(self):
        picture = base64.b64encode(bytes(range(256)) * 250).decode()
        body = ('{"role":"user","content":[{"type":"image","mimeType":"image/png","data":"%s"},{"type":"text","text":"sk- and \\u0041 \\/"}],'
                '"n":1.50,"x":1e400}' % picture).encode()
        self.assertNotIn("warnings", self.ok(self.api.post(S(self.key, "main", "messages"), body), 201))
        self.daemon.checkpoint()
        line = next(self.daemon.agent_dir().glob(self.ok(self.api.get(S(self.key)))["sessionId"] + ".jsonl")).read_bytes()
        self.assertIn(picture.encode(), line)
        self.assertIn(b'"n":1.50,"x":1e400', line)

    def test_base64_is_not_decoded(self):
        held = base64.b64encode(KEY.encode()).decode()
        self.assertNotIn("warnings", self.post(user(held)))
        self.assertEqual(self.texts(self.key), [held])

    def test_a_retry_is_the_same_request(self):
        again = [self.api.post(S(self.key, "main", "messages"), user(f"b {KEY} {n}"), idempotency_key="same") for n in (1, 1)]
        self.assertEqual([reply.status for reply in again], [201, 201])
        self.assertEqual(again[0].json, again[1].json)
        self.assertEqual(len(self.texts(self.key)), 1)


class OtherModes(RunsCase):
    def test_warn_is_the_default(self):
        key = self.new()["key"]
        reply = self.ok(self.api.post(S(key, "main", "messages"), {"entries": [user("fine"), user("my " + KEY)]}), 201)
        self.assertEqual(reply["warnings"], [{"code": "secret_in_message", "pointer": "/entries/1/text", "kind": "Anthropic key"}])
        self.assertEqual(self.texts(key), ["fine", "my " + KEY])
        self.assertTrue(any("secret_in_message" in line for line in self.daemon.stderr))
        self.assertFalse(any(BODY in line for line in self.daemon.stderr))

    def test_a_message_with_a_key_is_refused_where_policy_says_so(self):
        daemon = self.spawn({"policy": {"secretScanMessages": "reject"}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        reply = api.post(S(key, "main", "messages"), user(KEY))
        self.invalid(reply, "/text")
        self.assertNotIn(BODY.encode(), reply.raw)
        self.assertEqual(self.texts(key, api=api), [])
        self.invalid(api.post(S(key, "main", "runs"), {"input": user(KEY)}), "/input/text")

    def test_off(self):
        daemon = self.spawn({"policy": {"secretScanMessages": "off"}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.assertNotIn("warnings", self.ok(api.post(S(key, "main", "messages"), user(KEY)), 201))
        self.assertEqual(self.texts(key, api=api), [KEY])

"""Keys in what people and agents say: policy.secretScanMessages. What was taken out is in no file, no stream and no log."""

import base64
import json as plain_json
import os
from random import Random

from harness.sessiond import uid
from harness.case import S, json
from runs_case import RunsCase

# Put together here, so that no file of the repository holds what looks like a key.
BODY = "Ab1_" * 12 + "Zz"
KEY = "sk-ant-" + "api03-" + BODY
PLACE = "[redacted: Anthropic key]"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
OTHER = "AKIA" + "IOSFODNN8EXAMPLE"
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
        self.ok(self.api.post(S(self.key, "main", "typing"), {"from": {"id": "U1", "name": KEY}}), 204)
        self.post({"text": text}, "streams/memoryEvents")
        self.post({"reason": text}, "shutdown", 200)
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

    def test_no_name_holds_a_key(self):
        """Paths, queries, ids, addresses and stored headers cannot be another text: they are refused."""
        one = S(self.key, "main")
        self.ok(self.api.put(one + "/route", {"channel": "slack", "to": "u1"}), 200)
        self.api.post("/v1/deliveries/claim", {"channel": "slack"})
        self.post({"text": "out"}, "outbound")
        delivery = self.ok(self.api.post("/v1/deliveries/claim", {"channel": "slack"}), 200)["data"][0]["deliveryId"]
        run = self.start(self.key, "go")
        before = self.api.get(one).json["updatedAt"], self.texts(self.key)
        hold = {"runId": run["runId"], "fence": run["lease"]["fence"]}
        refused = [
            ("POST", f"{one}/messages?topic={KEY}", user("x"), "?topic"), ("PUT", "/v1/hooks/" + KEY, {"events": ["Stop"]}, "{name}"),
            ("PUT", S(KEY), {"label": "x"}, "{key}"), ("POST", f"{one}/messages", {**user("x"), "id": KEY}, "/id"),
            ("POST", f"{one}/messages", {"entries": [user("x"), {**user("y"), "parentId": KEY}]}, "/entries/1/parentId"),
            ("POST", f"{one}/streams/{KEY}", {"text": "x"}, "{stream}"), ("POST", f"{one}/typing", {"from": KEY}, "/from"),
            ("POST", "/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": KEY, "text": "x"}, "/peer"),
            ("POST", "/v1/deliveries/claim", {"channel": "slack", "accountId": KEY}, "/accountId"),
            ("POST", f"/v1/deliveries/{delivery}/ack", {"parts": [{"text": KEY}]}, "/parts/0/text"),
            ("POST", f"{one}/runs/{run['runId']}/events", {**hold, "events": [{"type": "tool.started", "callId": KEY, "name": "x"}]}, "/events/0/callId"),
            ("POST", "/v1/stream-tickets", {"filters": {"keyPrefix": KEY}}, "/filters/keyPrefix")]
        for method, path, body, pointer in refused:
            with self.subTest(pointer):
                self.invalid(self.api.request(method, path, body), pointer)
        self.invalid(self.api.post(f"{one}/resume", {}, headers={"Sessiond-Client": KEY}), "header sessiond-client")
        self.assertEqual((self.api.get(one).json["updatedAt"], self.texts(self.key)), before)
        self.problem(self.api.delete(S(KEY)), 404, "session_not_found")  # nothing is stored by a deletion
        self.nowhere()

    def test_a_deltas_key_is_found_wherever_it_is_cut(self):
        """In 1 to 5 calls, with anything between; what was said is one text, and what was thought another."""
        random = Random(int(os.environ.get("SESSIOND_TEST_SEED", "34")))
        heard = []
        for turn in range(int(os.environ.get("SESSIOND_TEST_CUTS", "100"))):
            if turn % 40 == 0:
                if turn:
                    self.daemon.restart()
                self.key = self.new()["key"]
            with self.api.stream(f"/v1/agents/main/sessions/{self.key}/events") as events:
                self.tell_cut(random, KEY if turn % 2 else AWS, f"go {turn}")
                events.wait_type("run.finished")
                heard.append("".join(json.dumps(event.data) for event in events.events))
                for kind in ("text", "reasoning"):
                    heard.append("".join(event.data["data"]["text"] for event in events.events if event.type == kind + ".delta"))
        self.nowhere(BODY, AWS)
        backup = self.daemon.home / "b.tar"
        done = self.daemon.cli("backup", backup)
        self.assertEqual(done.returncode, 0, done.stderr)
        for text in [*heard, backup.read_bytes().decode("latin-1")]:
            self.assertFalse(BODY in text or AWS in text, text[:2000])

    def tell_cut(self, random, secret, question):
        run = self.start(self.key, question)
        self.tell(run, {"type": "step.started", "step": 1})
        calls = [[] for _ in range(random.randint(1, 5))]
        for kind in ("text", "reasoning"):
            texts = self.cut(random, f"A {secret} end")
            for call, text in zip(sorted(random.randrange(len(calls)) for _ in texts), texts):
                calls[call].append({"type": kind + ".delta", "text": text})
        for call in calls:
            for between in random.sample([{"type": "tool.started", "callId": "c", "name": "x"}, {"type": "tool.progress", "callId": "c", "text": "sk"},
                                          {"type": "context.updated", "phase": "exact", "tokens": 7}], random.randrange(3)):
                call.insert(random.randint(0, len(call)), between)
            self.tell(run, *call)
        if random.random() < 0.5:
            return self.finish(run)
        self.post({}, "abort", 202)
        return self.finish(run, outcome="interrupted")

    @staticmethod
    def cut(random, text):
        ends = sorted({random.randrange(1, len(text)) for _ in range(random.randint(0, 5))})
        return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)])]

    def test_prose_is_told_at_once_and_a_key_never(self):
        run = self.start(self.key, "go")
        with self.api.stream(f"/v1/agents/main/sessions/{self.key}/events?types=text.delta,run.finished") as events:
            pieces = ["Hello", " there:", " risk-", "free\n"]
            for piece in pieces:
                self.tell(run, {"type": "text.delta", "text": piece})
                self.heard(events, pieces[:pieces.index(piece) + 1])
            self.tell(run, {"type": "text.delta", "text": "mine is "}, {"type": "text.delta", "text": KEY[:9]})
            self.heard(events, pieces + ["mine is "])
            self.tell(run, {"type": "tool.started", "callId": "c", "name": "x"}, {"type": "text.delta", "text": KEY[9:40]})
            reply = self.tell(run, {"type": "text.delta", "text": KEY[40:] + " see"})
            self.assertEqual(reply["warnings"], [{"code": "secret_in_message", "pointer": "/events/0/text", "kind": "Anthropic key"}])
            self.heard(events, pieces + ["mine is ", PLACE + " see"])
            self.tell(run, {"type": "text.delta", "text": " sk-"})
            self.finish(run)
            events.wait_type("run.finished")
            self.heard(events, pieces + ["mine is ", PLACE + " see", " ", "sk-"])

    def heard(self, events, texts):
        """Deltas that wait for a reader are joined."""
        events.wait_until(lambda stream: "".join(e.data["data"]["text"] for e in stream.events if e.type == "text.delta") == "".join(texts))

    def test_deltas_without_a_run_are_one_text(self):
        with self.api.stream(f"/v1/agents/main/sessions/{self.key}/events?types=text.delta") as events:
            for at in range(0, len(KEY), 7):
                self.ok(self.api.post(S(self.key, "main", "deltas"), {"text": KEY[at:at + 7]}), 204)
            self.ok(self.api.post(S(self.key, "main", "deltas"), {"text": " then"}), 204)
            self.assertEqual(events.wait_type("text.delta").data["data"]["text"], PLACE + " then")

    def test_only_deltas_of_the_run_are_left_to_the_run(self):
        """A tool's data may call itself one."""
        run = self.start(self.key, "go")
        self.tell(run, {"type": "tool.started", "callId": "c", "name": "x", "args": {"type": "text.delta", "text": KEY}},
                  {"type": "tool.finished", "callId": "c", "name": "x", "result": [{"type": "text.delta", "text": KEY[:20]}, {"type": "text.delta", "text": KEY[20:]}]})
        self.finish(run)
        self.nowhere(BODY, KEY[20:])

    def test_places_of_media_and_signatures_hide_no_key(self):
        for n, part in enumerate(({"type": "text", "text": f"data:{KEY};base64,AAAA"}, {"type": "text", "text": "x", "signature": KEY},
                                  {"type": "text", "text": "x", "signature": "hi " + KEY}, {"type": "text", "text": "x", "format": "md", "data": OTHER},
                                  {"type": "image", "mimeType": "image/png", "data": OTHER})):
            with self.subTest(n):
                self.post({"role": "assistant", "content": [part]})
        self.nowhere(BODY, OTHER)

    def test_escapes_are_seen_through_in_json_within_strings(self):
        hook = "https://hooks.slack.com/services/T00000000/B00000000/" + "x1Y2" * 6
        for arguments in (plain_json.dumps({"url": hook}).replace("/", "\\/"), plain_json.dumps({"a": KEY}).replace("sk-", "\\u0073k-"),
                          " " + plain_json.dumps({"a": plain_json.dumps({"b": KEY}).replace("sk-", "\\u0073k-")})):
            self.post({"role": "assistant", "content": "", "tool_calls": [{"id": "c2", "type": "function", "function": {"name": "x", "arguments": arguments}}]})
        self.nowhere(BODY, "x1Y2" * 6)

    def test_a_stop_in_the_middle_of_a_key_stores_no_key(self):
        daemon = self.spawn(self.config)
        api = daemon.client()
        key = self.new(api=api)["key"]
        run = self.start(key, "go", api=api)
        self.tell(run, {"type": "text.delta", "text": "so " + KEY[:30]}, api=api)
        daemon.restart()
        api = daemon.client()
        self.tell(run, {"type": "text.delta", "text": KEY[30:] + " ok"}, api=api)
        self.ok(api.post(S(key, "main", "abort"), {}), 202)
        self.finish(run, outcome="interrupted", api=api)
        self.assertIn("so " + KEY[:30] + PLACE + " ok", self.texts(key, api=api))
        daemon.checkpoint()
        for path in daemon.state.rglob("*"):
            self.assertFalse(path.is_file() and KEY[30:].encode() in path.read_bytes(), path)

    def test_an_id_is_refused_however_many_keys_stand_before_it(self):
        keys = [f"AKIAIOSFODNN7EXAMP{n}" for n in range(10, 40)]
        reply = self.api.post(S(self.key, "main", "messages"), {"role": "assistant", "content": [
            *({"type": "text", "text": key} for key in keys), {"type": "toolCall", "id": AWS, "name": "x", "arguments": {}}]})
        self.assertIn("/content/30/id", [fault["pointer"] for fault in self.problem(reply, 422, "validation_failed")["errors"]])
        self.assertEqual(self.texts(self.key), [])

    def test_an_import_with_a_byte_order_mark_is_read_as_json(self):
        document = plain_json.dumps({"metadata": {"id": "i" + uid()}, "messages": [{"role": "user", "content": KEY}]}).replace('"sk-', '"\\u0073k-')
        self.ok(self.api.post("/v1/agents/main/import?format=json", b"\xef\xbb\xbf" + document.encode()), 200)
        self.nowhere()

    def test_an_empty_delta_tells_no_half_of_a_key_that_goes_on(self):
        with self.api.stream(f"/v1/agents/main/sessions/{self.key}/events?types=text.delta") as events:
            for text in ("q " + KEY[:20], "", KEY[20:] + " q"):
                self.ok(self.api.post(S(self.key, "main", "deltas"), {"text": text}), 204)
            self.heard(events, ["q ", KEY[:20], PLACE + " q"])

    def test_the_end_of_a_text_is_told_once_though_its_finish_is_refused(self):
        run = self.start(self.key, "go")
        with self.api.stream(f"/v1/agents/main/sessions/{self.key}/events?types=text.delta,run.finished") as events:
            self.tell(run, {"type": "text.delta", "text": "ends with sk-"})
            for _ in range(3):
                self.finish(run, outcome="interrupted", status=422)  # nobody has aborted it
            self.tell(run, {"type": "text.delta", "text": " fine"})
            self.finish(run)
            events.wait_type("run.finished")
            self.heard(events, ["ends with sk- fine"])

    def test_media_and_signatures_are_not_looked_at(self):
        data = "iVBOR/" + "ASIA" + "IOSFODNN7EXAMPLE" + "/AAA="
        self.ok(self.api.post(S(self.key, "main", "messages"), {"role": "assistant", "content": [
            {"type": "image", "data": data, "mimeType": "image/png"}, {"type": "thinking", "thinking": "x", "thinkingSignature": data}]}), 201)
        self.assertEqual([part.get("data") or part["thinkingSignature"] for part in self.messages(self.key)[0]["content"]], [data, data])

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

    def test_a_key_that_deltas_bring_in_pieces_is_refused(self):
        daemon = self.spawn({"policy": {"secretScanMessages": "reject"}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        run = self.start(key, "go", api=api)
        self.tell(run, {"type": "text.delta", "text": "so " + KEY[:9]}, api=api)
        reply = api.post(S(key, "main", "runs", run["runId"], "events"), {"fence": run["lease"]["fence"], "events": [
            {"type": "reasoning.delta", "text": "hm"}, {"type": "text.delta", "text": KEY[9:]}]})
        self.invalid(reply, "/events/1/text")
        self.tell(run, {"type": "text.delta", "text": " well"}, api=api)
        self.ok(api.post(S(key, "main", "deltas"), {"text": "so " + KEY[:9]}), 204)
        self.invalid(api.post(S(key, "main", "deltas"), {"text": KEY[9:]}), "/text")
        self.ok(api.post(S(key, "main", "deltas"), {"text": " well"}), 204)

    def test_our_own_tokens_are_stored_in_no_mode(self):
        for mode in ("off", "warn", "redact", "reject"):
            with self.subTest(mode):
                daemon = self.spawn({"policy": {"secretScanMessages": mode, "secretScan": "off"}})
                api = daemon.client()
                token = daemon.token("runner")
                key = self.new(api=api)["key"]
                reply = api.post(S(key, "main", "messages"), user("mine: " + token))
                if mode == "reject":
                    self.invalid(reply, "/text")
                else:
                    self.assertEqual(self.ok(reply, 201)["warnings"][0]["kind"], "sessiond token")
                    self.assertEqual(self.texts(key, api=api), ["mine: [redacted: sessiond token]"])
                self.invalid(api.post(S(key, "main", "messages"), {**user("x"), "id": token}), "/id")
                self.invalid(api.post(S(key, "main", "messages") + "?topic=" + token, user("x")), "?topic")
                self.invalid(api.put("/v1/hooks/" + token, {"events": ["Stop"]}), "{name}")
                self.invalid(api.patch(S(key), {"label": token}), "/label")
                self.invalid(api.post("/v1/deliveries/claim", {"accountId": token}), "/accountId")
                self.invalid(api.post(S(key, "main", "resume"), {}, headers={"Sessiond-Client": token}), "header sessiond-client")
                self.ok(api.post("/v1/login", {"token": token}), 204)  # its own place
                daemon.checkpoint()
                for path in daemon.state.rglob("*"):
                    self.assertFalse(token in str(path) or (path.is_file() and token.encode() in path.read_bytes()), path)

    def test_off(self):
        daemon = self.spawn({"policy": {"secretScanMessages": "off"}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.assertNotIn("warnings", self.ok(api.post(S(key, "main", "messages"), user(KEY)), 201))
        self.assertEqual(self.texts(key, api=api), [KEY])

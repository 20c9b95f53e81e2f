"""Bodies of more than 64 KiB are read on a disk thread: each route does with them what it does with short ones."""

import socket

from harness.case import S, json, text_of, uid
from harness.sessiond import eventually
from runs_case import RunsCase

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def parts(count, text="ä"):
    return [{"type": "text", "text": text}] * count


def members(count, prefix="k"):
    return {f"{prefix}{i}": 1 for i in range(count)}


class LongBodies(RunsCase):
    config = {"policy": {"secretScanMessages": "redact", "secretScan": "reject"}}
    SIZES = (2, 5_000)  # a short body, and a long one

    def inbound(self, **more):
        return {"channel": "slack", "chatType": "direct", "peer": "p" + uid(), "from": "p", **more}

    def refused(self, reply, pointer):
        problem = self.problem(reply, 422, "validation_failed")
        self.assertIn(pointer, [each["pointer"] for each in problem["errors"]])

    def test_inbound(self):
        shown = []
        for count in self.SIZES:
            body = self.inbound(content=parts(count), messageId=uid(), attachments=[members(count)],
                                idempotencyKey=uid())
            first = self.api.post("/v1/inbound", body)
            told = self.ok(first, 201)
            again = self.api.post("/v1/inbound", body)
            self.assertEqual((again.status, again.json, again.headers["Idempotency-Replayed"]), (201, told, "true"))
            del body["idempotencyKey"]
            self.assertTrue(self.ok(self.api.post("/v1/inbound", body), 200)["duplicate"])
            message, = self.messages(told["sessionKey"])
            self.assertEqual((message["content"], message["attachments"]), (body["content"], body["attachments"]))
            session = self.ok(self.api.get(S(told["sessionKey"])), 200)
            shown.append([session[name] for name in ("messageCount", "origin") if name != "origin"])
            self.refused(self.api.post("/v1/inbound", {**body, "unknown": members(count)}), "/unknown")
            self.refused(self.api.post("/v1/inbound", {**body, "text": "x"}), "/content")
        self.assertEqual(shown[0], shown[1])

    def test_the_trigger_of_a_long_message_resets(self):
        for text in ("/new " + "x" * 9, "/new " + "x" * 100_000):
            for form in ({"text": text}, {"content": [{"type": "text", "text": text}]}):
                peer = "p" + uid()
                self.ok(self.api.post("/v1/inbound", self.inbound(text="before") | {"peer": peer}), 201)
                told = self.ok(self.api.post("/v1/inbound", self.inbound(**form) | {"peer": peer}), 201)
                self.assertEqual(told["reset"]["reason"], "trigger")
                message, = self.messages(told["sessionKey"])
                self.assertEqual(text_of(message), text.removeprefix("/new "))

    def test_inbound_in_a_list(self):
        bodies = [self.inbound(content=parts(3_000)), self.inbound(text="x", unknown=1), self.inbound(content=parts(2))]
        results = self.ok(self.api.post("/v1/inbound", bodies), 200)["results"]
        self.assertEqual([each["status"] for each in results], [201, 422, 201])
        self.assertEqual(results[1]["errors"][0]["pointer"], "/unknown")
        self.problem(self.api.post("/v1/inbound", [self.inbound(text="x" * 1_000)] * 101), 422)

    def test_edits(self):
        for count in self.SIZES:
            body = self.inbound(text="first", messageId=uid())
            told = self.ok(self.api.post("/v1/inbound", body), 201)
            edit = {name: body[name] for name in ("channel", "peer", "messageId")} | {"content": parts(count, "e")}
            self.ok(self.api.post("/v1/inbound/edits", edit), 201)
            self.assertTrue(self.ok(self.api.post("/v1/inbound/edits", edit), 200)["duplicate"])
            message, = [each for each in self.messages(told["sessionKey"]) if each["type"] == "message"]
            self.assertEqual(text_of(message), "\n".join(["e"] * count))
            self.refused(self.api.post("/v1/inbound/edits", {**edit, "unknown": members(count)}), "/unknown")
            early = self.inbound(messageId=uid())
            edit |= {"peer": early["peer"], "messageId": early["messageId"]}
            self.assertTrue(self.ok(self.api.post("/v1/inbound/edits", edit), 202)["early"])
            told = self.ok(self.api.post("/v1/inbound", early | {"text": "old"}), 201)
            self.assertEqual(text_of(self.messages(told["sessionKey"])[0]), "\n".join(["e"] * count))

    def test_outbound(self):
        for count in self.SIZES:
            key = self.make()
            body = {"content": parts(count), "usage": {"input": 3, "output": 4, **members(count)}}
            headers = {"Idempotency-Key": uid()}
            told = self.ok(self.api.post(S(key, "main", "outbound"), body, headers=headers), 201)
            again = self.api.post(S(key, "main", "outbound"), body, headers=headers)
            self.assertEqual((again.status, again.json), (201, told))
            message, = self.messages(key)
            self.assertEqual((message["content"], message["usage"]), (body["content"], body["usage"]))
            self.refused(self.api.post(S(key, "main", "outbound"), {**body, "unknown": members(count)}), "/unknown")

    def test_secrets_are_taken_out(self):
        for count in self.SIZES:
            words = [*parts(count), {"type": "text", "text": SECRET}]
            key = self.make()
            run = self.start(self.make())
            told = self.ok(self.api.post("/v1/inbound", self.inbound(content=words)), 201)
            for reply in (self.api.post(S(key, "main", "outbound"), {"content": words}),
                          self.api.post(S(key, "main", "messages"), {"role": "user", "content": words})):
                self.assertEqual(self.ok(reply, 201)["warnings"][0]["pointer"], f"/content/{count}/text")
            self.finish(run, {"role": "assistant", "content": words})
            for each in (key, told["sessionKey"], run["key"]):
                raw = json.dumps(self.messages(each))
                self.assertNotIn(SECRET, raw)
                self.assertIn("[redacted", raw)
            self.problem(self.api.patch(S(key), {"x": [*range(count), SECRET]}), 422)

    def test_entries_of_sessions(self):
        for count in self.SIZES:
            key = self.make()
            self.ok(self.api.patch(S(key), {"x": members(count), "y": {"a": 1}}), 200)
            self.ok(self.api.patch(S(key), {"x": {"k0": None}, "y": None, "pad": "p" * count * 20}), 200)
            session = self.ok(self.api.get(S(key)), 200)
            self.assertEqual((len(session["x"]), "y" in session), (count - 1, False))
            put = "agent:main:put:" + uid()
            self.ok(self.api.put(S(put), {"x": members(count)}), 201)
            self.ok(self.api.put(S(put), {"z": members(count)}), 200)
            self.assertEqual({"x", "z"} & set(self.ok(self.api.get(S(put)), 200)), {"z"})
            made = self.ok(self.api.post("/v1/agents/main/sessions", {"entry": {"x": members(count)}}), 201)
            self.assertEqual(len(made["x"]), count)
            self.refused(self.api.post("/v1/agents/main/sessions", {"unknown": members(count)}), "/unknown")

    def test_what_is_too_large_is_refused_with_its_place(self):
        key = self.make(x=members(900))
        before = self.ok(self.api.get(S(key)), 200)
        for path, send, prefix in ((S(key), self.api.patch, ""), (S(key), self.api.put, ""),
                                   ("/v1/agents/main/sessions", self.api.post, "/entry"),
                                   (S(key, "main", "spawn"), self.api.post, "/entry")):
            for entry, pointer in ((members(50_000), ""), ({"x": members(50_000)}, "/x"),
                                   ({"y": "y" * 3_000_000}, "/y"), ({"status": 1, "y": [1] * 1_500_000}, "/y")):
                with self.subTest(path, pointer=pointer):
                    body = {"entry": entry} if prefix else entry
                    self.refused(send(path, body), prefix + pointer)
        self.assertEqual(self.ok(self.api.get(S(key)), 200)["rev"], before["rev"])
        self.ok(self.api.patch(S(key), {"x": {f"k{i}": None for i in range(900)} | members(19_000, "n")}), 200)
        self.ok(self.api.patch(S(key), {"x": {f"n{i}": None for i in range(19_000)} | members(19_000, "m")}), 200)
        self.assertEqual(len(self.ok(self.api.get(S(key)), 200)["x"]), 19_000)

    def test_runs(self):
        answers = []
        for count in self.SIZES:
            key = self.make(channel="slack", lastTo="u1")
            run = self.start(key, input={"role": "user", "content": parts(count, "q")})
            self.tell(run, {"type": "tool.finished", "tool": "ls", "callId": "c", "success": True,
                            "resultData": members(count)})
            entry = {"role": "assistant", "content": parts(count, "a")}
            ended = self.finish(run, entry, {"type": "custom", "customType": "x", "data": members(count)}, deliver=True)
            self.assertEqual(ended["response"], "\n".join(["a"] * count))
            rows = self.messages(key)
            self.assertEqual([row["content"] for row in rows if row["type"] == "message"],
                             [parts(count, "q"), entry["content"]])
            answers.append([ended["status"], ended["deliveries"] == [], self.entry(key).get("needs")])
            other = self.start(self.make())
            reply = self.api.post(S(other["key"], "main", "runs", other["runId"], "finish"),
                                  {"fence": other["lease"]["fence"], "status": "done",
                                   "entries": [entry, {"role": "assistant", "content": ["x" * count]}]})
            self.refused(reply, "/entries/1/content/0")
            self.refused(self.api.post(S(self.make(), "main", "runs"), {"input": [
                {"role": "user", "content": parts(count)}, {"role": "assistant", "text": "x"}]}), "/input/1/role")
        self.assertEqual(answers[0], answers[1])

    def test_streams_and_logs(self):
        for count in self.SIZES:
            key = self.make()
            entries = [{"a": members(10)}] * min(count, 1_000)
            self.ok(self.api.post(S(key, "main", "streams", "memoryEvents"), {"entries": entries}), 201)
            self.problem(self.api.post(S(key, "main", "streams", "memoryEvents"), {"entries": [*entries[1:], 1]}), 422)

    def test_the_send_policy(self):
        for count in (2, 900):
            rules = [{"action": "deny", "match": {"channel": "x" + "y" * 100}}] * count
            cases = [{"sessionKey": "agent:main:x", "channel": "c" * 400}] * (100 if count > 2 else 2)
            results = self.ok(self.api.post("/v1/policy/evaluate", {"policy": {"rules": rules}, "cases": cases}), 200)
            self.assertEqual(len(results["results"]), len(cases))
            self.problem(self.api.post("/v1/policy/evaluate", {"cases": [*cases, {"unknown": "x" * 90_000}]}), 422)
        self.problem(self.api.put("/v1/policy/send", {"rules": [{"action": "x" * 90_000}]}, headers={"If-Match": "*"}), 422)
        self.problem(self.api.put("/v1/policy/send", {"rules": [{"action": "x" * 90_000}]}), 428)

    def test_small_commands_refuse_a_long_unknown_field(self):
        key = self.make()
        for path in (S(key, "main", "reset"), S(key, "main", "archive"), S(key, "main", "clear"), S(key, "main", "fork"),
                     S(key, "main", "compact"), "/v1/agents/main/runs/claim", S(key, "main", "deltas"),
                     "/v1/admin/maintenance"):
            with self.subTest(path):
                self.refused(self.api.post(path, {"unknown": members(9_000)}), "/unknown")
        self.refused(self.api.post(S(key, "main", "reset"), {"reason": "\\u0061" * 100_000}), "/reason")

    def test_a_client_that_leaves_early(self):
        """The request is done all the same, and the daemon goes on."""
        body = self.inbound(text="before")
        key = self.ok(self.api.post("/v1/inbound", body), 201)["sessionKey"]
        del body["text"]
        raw = json.dumps(body | {"content": parts(5_000)}).encode()
        with socket.create_connection(("127.0.0.1", self.daemon.port)) as there:
            there.sendall(f"POST /v1/inbound HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.daemon.admin_token}\r\n"
                          f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw)
        eventually(lambda: len(self.messages(key)) == 2, what="the message", timeout=30)

"""web/openapi.json beside what the daemon answers: every member that is answered is in the schema, every member that the
schema promises is answered, and nothing in it makes a code generator say what is not so."""

import time

from harness.case import Case, S, uid

METHODS = ("get", "put", "post", "delete", "patch")


class Document(Case):
    config = {"sessionLog": "full"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.document = cls.daemon.anonymous().get("/openapi.json").json

    def resolve(self, schema):
        while "$ref" in schema:
            at = self.document
            for name in schema["$ref"].removeprefix("#/").split("/"):
                at = at[name]
            schema = at
        return schema

    def members(self, schema):
        """Properties and required names, allOf merged; of anyOf the alternatives' properties together."""
        schema = self.resolve(schema)
        properties, required = dict(schema.get("properties", {})), set(schema.get("required", ()))
        for part in schema.get("allOf", ()):
            more, needed = self.members(part)
            properties.update(more)
            required |= needed
        return properties, required

    def fits(self, schema, value):
        kind = self.resolve(schema).get("type", "object")
        return kind == ("array" if isinstance(value, list) else "object" if isinstance(value, dict) else kind)

    def faults(self, schema, value, at=""):
        schema = self.resolve(schema)
        choices = [s for s in schema.get("anyOf", ()) if self.fits(s, value)]
        if choices:
            return min((self.faults(choice, value, at) for choice in choices), key=len)
        if isinstance(value, list):
            return [f for n, item in enumerate(value) for f in self.faults(schema.get("items", {}), item, f"{at}/{n}")]
        if not isinstance(value, dict):
            return []
        properties, required = self.members(schema)
        if isinstance(schema.get("additionalProperties"), dict):
            return [f for name, item in value.items() for f in self.faults(schema["additionalProperties"], item, f"{at}/{name}")]
        if not properties:
            return [] if not schema or schema.get("additionalProperties") is True else [f"{at}: an object without properties"] if value else []
        found = [f"{at}/{name} is not in the schema" for name in value if name not in properties]
        found += [f"{at}/{name} is not answered" for name in required if name not in value]
        return found + [f for name, item in value.items() if name in properties for f in self.faults(properties[name], item, f"{at}/{name}")]

    def check(self, method, path, reply, *statuses):
        answer = self.ok(reply, *statuses)
        responses = self.document["paths"][path][method]["responses"]
        self.assertIn(str(reply.status), responses, f"{method} {path}")
        schema = self.resolve(responses[str(reply.status)])["content"]["application/json"]["schema"]
        self.assertEqual(self.faults(schema, answer), [], f"{method} {path}")
        return answer

    def test_answers_are_as_the_document_says(self):
        agent, one = "/v1/agents/{agent}", "/v1/agents/{agent}/sessions/{key}"
        get = lambda pattern, path: self.check("get", pattern, self.api.get(path), 200)  # noqa: E731
        post = lambda pattern, path, body, status: self.check("post", pattern, self.api.post(path, body), status)  # noqa: E731
        token = post("/v1/admin/tokens", "/v1/admin/tokens", {"role": "viewer", "agents": ["main"], "keyPrefix": "agent:main:", "channel": "slack",
                                                              "note": "n", "expiresAt": int(time.time() * 1000) + 3_600_000}, 201)
        self.ok(self.daemon.client(token["token"]).get("/v1/whoami"), 200)
        self.assertIn("lastUsed", [t for t in get("/v1/admin/tokens", "/v1/admin/tokens")["data"] if t["id"] == token["id"]][0])
        get("/v1/whoami", "/v1/whoami")
        got = post("/v1/inbound", "/v1/inbound", {
            "channel": "slack", "accountId": "a", "chatType": "group", "peer": "g" + uid(), "from": "U1", "threadId": 7, "text": "hi",
            "attachments": [{"type": "image"}], "messageId": "m-1", "label": "l", "subject": "s", "space": "t", "groupChannel": "#c",
            "surface": "x", "provider": "slack", "mentioned": True}, 201)
        key = got["sessionKey"]
        post("/v1/inbound", "/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": "u", "text": "/new"}, 201)
        named = {"channel": "slack", "peer": "p" + uid(), "messageId": "m-2"}
        said = {**named, "chatType": "direct", "text": "hi", "from": {"id": "U1", "name": "Ada", "username": "ada"}}
        post("/v1/inbound", "/v1/inbound", said, 201)
        post("/v1/inbound", "/v1/inbound", said, 200)
        post("/v1/inbound", "/v1/inbound", [said, {}], 200)
        post("/v1/inbound/edits", "/v1/inbound/edits", {**named, "text": "hi!"}, 201)
        post("/v1/inbound/reactions", "/v1/inbound/reactions", {**named, "emoji": "+1", "from": "U2"}, 201)
        found = get("/v1/agents/{agent}/messages", f"/v1/agents/main/messages?channel=slack&peer={named['peer']}&platformMessageId=m-2")
        changed = get(one + "/messages", S(found["data"][0]["key"], "main", "messages") + "?view=chat")["data"][0]
        self.assertEqual((changed["edited"], changed["reactions"]), (True, [{"emoji": "+1", "count": 1}]))
        post("/v1/inbound/deletes", "/v1/inbound/deletes", named, 201)
        get(one + "/messages", S(found["data"][0]["key"], "main", "messages") + "?view=chat")
        self.assertTrue(get("/v1/sessions", "/v1/sessions?needs=answer")["data"][0]["needs"])
        post(one + "/messages", S(key, "main", "messages"), {"role": "assistant", "text": "a", "usage": {"input": 1}}, 201)
        post(one + "/streams/{stream}", S(key, "main", "streams", "memoryEvents"), {"event": "saved"}, 201)
        get(one + "/streams/{stream}", S(key, "main", "streams", "memoryEvents"))
        post(one + "/outbound", S(key, "main", "outbound"), {"text": "b", "mediaUrls": ["https://x/y.png"], "usage": {"output": 2}}, 201)
        self.check("patch", one, self.api.request("PATCH", S(key), {"label": "x", "queueCap": 3}, {"Content-Type": "application/json"}), 200)
        for view in ("full", "chat"):
            page = get(one + "/messages", S(key, "main", "messages") + "?view=" + view)
            self.assertEqual(page["data"][0]["from"], "U1")
        get(one, S(key))
        for name in ("json", "robota", "manager"):
            get(one + "/export", S(key, "main", "export") + "?format=" + name)
        get(agent + "/export", "/v1/agents/main/export")
        post(agent + "/import", "/v1/agents/main/import", {"metadata": {"id": "i" + uid()}, "messages": []}, 200)
        post(one + "/takeover", S(key, "main", "takeover"), {"name": "Hanne", "forMs": 60_000, "stop": True, "force": True}, 200)
        self.assertIn("takeover", get("/v1/sessions", "/v1/sessions?held=takeover")["data"][0])
        self.assertEqual(post("/v1/inbound", "/v1/inbound", {"channel": "slack", "accountId": "a", "chatType": "group", "peer": got["sessionKey"].split(":")[4],
                                                             "text": "hi", "mentioned": True}, 201).get("held", "takeover"), "takeover")
        post(one + "/outbound", S(key, "main", "outbound"), {"text": "c", "takeover": True, "name": "Hanne", "seenSeq": 1}, 201)
        post(one + "/handback", S(key, "main", "handback"), {"answered": "all", "note": "n", "dryRun": True}, 200)
        post(one + "/handback", S(key, "main", "handback"), {"answered": "all", "force": True}, 200)
        run = post(one + "/runs", S(key, "main", "runs"), {"input": {"role": "user", "text": "do"}}, 201)
        named = S(key, "main", "runs", run["runId"])
        post(one + "/runs", S(key, "main", "runs"), {}, 202)
        post(one + "/runs/{id}/events", named + "/events", {"fence": run["lease"]["fence"], "events": [{"type": "step.started", "step": 1}]}, 200)
        post(one + "/log", S(key, "main", "log"), {"type": "provider_request", "runId": run["runId"], "messagesRef": {"throughSeq": 0, "query": "view=llm"}}, 201)
        self.assertTrue(get(one + "/log", S(key, "main", "log"))["data"])
        get(one + "/runs/{id}/replay", named + "/replay")
        asked = post(one + "/approvals", S(key, "main", "approvals"), {"runId": run["runId"], "fence": run["lease"]["fence"], "tool": "bash",
                                                                      "args": {"command": "ls"}, "callId": "c1"}, 201)
        get("/v1/approvals", "/v1/approvals")
        self.assertTrue(get("/v1/runs", "/v1/runs")["data"])
        answerer = self.daemon.client(self.daemon.token("viewer", permissions=["approve"]))
        answered = answerer.post(S(key, "main", "approvals", asked["id"]), {"decision": "allow-session", "reason": "fine"})
        self.check("post", one + "/approvals/{id}", answered, 200)
        get(one + "/approvals", S(key, "main", "approvals"))
        get(one + "/approvals/{id}", S(key, "main", "approvals", asked["id"]))
        get(one + "/allowed-tools", S(key, "main", "allowed-tools"))
        post(one + "/abort", S(key, "main", "abort"), {"reason": "enough"}, 202)
        post(one + "/runs/{id}/finish", named + "/finish", {"fence": run["lease"]["fence"], "status": "done"}, 200)
        get(one + "/runs/{id}", named)
        get(one + "/runs", S(key, "main", "runs"))
        post(agent + "/runs/claim", "/v1/agents/main/runs/claim", {"waitMs": 2000}, 200)
        put = self.api.put("/v1/hooks/doc", {"events": ["SessionEnd"], "timeoutMs": 500, "agents": ["main"]})
        self.check("put", "/v1/hooks/{name}", put, 201)
        get("/v1/hooks/{name}", "/v1/hooks/doc")
        get("/v1/hooks", "/v1/hooks")
        post(one + "/shutdown", S(key, "main", "shutdown"), {"reason": "over"}, 200)
        called = self.ok(self.api.get(S(key, "main", "events") + f"?poll=1&after={run['asOf'].split('-')[0]}-0&types=hook.called"), 200)["data"]
        post("/v1/hooks/calls/{id}", "/v1/hooks/calls/" + called[0]["data"]["id"], {"additionalContext": "x"}, 200)
        self.assertEqual(self.api.delete("/v1/hooks/doc").status, 204)
        one_of = "/v1/deliveries/{id}"
        self.api.post("/v1/deliveries/claim", {"channel": "slack"})
        sent = [self.ok(self.api.post(S(key, "main", "outbound"), {"text": text, "to": text}), 201)["delivery"]["deliveryId"] for text in "xy"]
        post(one + "/messages", S(key, "main", "messages"), {"role": "assistant", "text": "a", "deliver": True}, 201)
        post("/v1/deliveries/claim", "/v1/deliveries/claim", {"channel": "slack", "limit": 100}, 200)
        post(one_of + "/extend", f"/v1/deliveries/{sent[0]}/extend", {"attempt": 1, "leaseMs": 90_000}, 200)
        post(one_of + "/ack", f"/v1/deliveries/{sent[0]}/ack", {"platformMessageId": "1", "parts": ["1"]}, 200)
        post(one_of + "/nack", f"/v1/deliveries/{sent[1]}/nack", {"attempt": 1, "error": {"code": "x", "message": "m"}, "final": True}, 200)
        post(one_of + "/retry", f"/v1/deliveries/{sent[1]}/retry", {}, 200)
        self.check("delete", one_of, self.api.delete(f"/v1/deliveries/{sent[1]}"), 200)
        get(one_of, f"/v1/deliveries/{sent[0]}")
        self.assertGreaterEqual(len(get("/v1/deliveries", "/v1/deliveries")["data"]), 3)
        get("/v1/sessions", "/v1/sessions")
        get("/v1/agents", "/v1/agents")
        get(agent, "/v1/agents/main")
        post(one + "/spawn", S(key, "main", "spawn"), {"label": "c", "task": "t"}, 201)
        get(one + "/children", S(key, "main", "children"))
        post(one + "/reset", S(key, "main", "reset"), {}, 200)
        get(one + "/history", S(key, "main", "history"))
        get(one + "/send-policy", S(key, "main", "send-policy"))
        get("/v1/policy/send", "/v1/policy/send")
        get("/v1/admin/locks", "/v1/admin/locks")
        get("/v1/admin/audit", "/v1/admin/audit")
        post("/v1/admin/doctor", "/v1/admin/doctor", None, 200)
        (self.daemon.agent_dir() / f"{uid()}.jsonl").write_text("")  # a transcript without a session
        self.assertEqual(post("/v1/admin/reindex", "/v1/admin/reindex", {"agent": "main"}, 200)["count"], 1)
        named = post("/v1/admin/maintenance", "/v1/admin/maintenance", {"agent": "main", "olderThanMs": 0, "maxDiskBytes": 0}, 200)
        self.assertEqual({row["reason"] for row in named["data"]}, {"age", "disk", "orphan"})
        post("/v1/stream-tickets", "/v1/stream-tickets", None, 201)
        head = {"MCP-Protocol-Version": "2025-11-25"}
        for method, params in (("tools/list", {}), ("tools/call", {"name": "get_messages", "arguments": {"key": key}}), ("nosuch", {})):
            asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            self.check("post", "/mcp", self.api.post("/mcp", asked, headers=head), 200)
        self.ok(self.api.post(S(key, "main", "messages"), {"type": "custom", "customType": "note", "data": {"text": "n", "by": "t"}}), 201)
        self.assertEqual(get(one + "/messages", S(key, "main", "messages") + "?view=chat")["data"][-1]["role"], "note")
        self.check("get", "/readyz", self.api.get("/readyz"), 200)
        self.check("get", "/version", self.api.get("/version"), 200)
        self.check("get", "/v1/events", self.api.get("/v1/events?poll=1&waitMs=0", headers={"Accept": "application/json"}), 200)

    def objects(self, schema, at):
        """Every schema below this one, with its place."""
        if isinstance(schema, dict):
            yield at, schema
            for name, part in schema.items():
                if name not in ("example", "examples", "enum", "const", "x-data"):
                    yield from self.objects(part, f"{at}/{name}")
        elif isinstance(schema, list):
            for n, part in enumerate(schema):
                yield from self.objects(part, f"{at}/{n}")

    def test_no_object_is_without_members(self):
        """openapi-typescript makes Record<string, never> of an object that says nothing of its members."""
        bare = [at for at, schema in self.objects({k: self.document[k] for k in ("paths", "components")}, "")
                if schema.get("type") == "object" and not schema.get("properties") and "additionalProperties" not in schema
                and "allOf" not in schema]
        self.assertEqual(bare, [])
        patch = self.resolve({"$ref": "#/components/schemas/EntryPatch"})["properties"]
        self.assertIn("null", str(patch["label"]["type"]))
        self.assertNotIn("spawnDepth", patch)

    def test_a_default_makes_no_member_of_a_body_required(self):
        """openapi-typescript makes a property with a default one that must be there."""
        self.assertEqual([f"{at}/{name}" for at, schema in self.objects(self.document["components"]["schemas"], "") if isinstance(
            schema.get("properties"), dict) for name, member in schema["properties"].items() if "default" in member], [])
        self.assertEqual([at for at, schema in self.objects(self.document["paths"], "") if isinstance(schema.get("properties"), dict)
                          and any("default" in member for member in schema["properties"].values())], [])

    def test_patch_takes_both_types_and_they_are_told(self):
        patch = self.document["paths"]["/v1/agents/{agent}/sessions/{key}"]["patch"]
        self.assertEqual(set(patch["requestBody"]["content"]), {"application/merge-patch+json", "application/json"})

"""POST /mcp: how requests are read, what the tools answer and to whom, and what a note becomes."""

import base64
import random
import re
import urllib.parse

import jsonschema

from harness.case import Case, S, json, text_of, uid
from harness.sessiond import REPO, eventually
from scope_store import Store
from scope_token import SCOPES

NOW, OLD, OLDER = "2026-07-28", "2025-11-25", "2025-06-18"
META = "io.modelcontextprotocol/"
TOOLS = ["search", "list_sessions", "get_messages", "append_note"]


def params_of(version=NOW, **more):
    return {"_meta": {META + "protocolVersion": version, META + "clientCapabilities": {}}, **more}


def body_of(method, id=1, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params_of(**params)}


class McpCase(Case):
    """`self.send` posts a request as it is; `self.call` calls a tool and returns what it answered."""

    def send(self, body, headers=None, api=None, **named):
        return (api or self.api).post("/mcp", body, headers=headers, **named)

    def ask(self, method, api=None, id=1, headers=None, **params):
        """A request of 2026, with the headers that belong to it."""
        head = {"MCP-Protocol-Version": NOW, "Mcp-Method": method}
        if "name" in params:
            head["Mcp-Name"] = params["name"]
        return self.send(body_of(method, id, **params), {**head, **(headers or {})}, api)

    def result(self, reply, id=1):
        body = self.ok(reply, 200)
        self.assertEqual((body["jsonrpc"], body["id"]), ("2.0", id), body)
        self.assertNotIn("error", body)
        return body["result"]

    def error(self, reply, status, code, id=1):
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(reply.headers["Content-Type"], "application/json")
        body = reply.json
        self.assertEqual((body["jsonrpc"], body["id"], body["error"]["code"]), ("2.0", id, code), body)
        self.assertTrue(body["error"]["message"])
        self.assertNotIn("result", body)
        return body["error"]

    def schemas(self, api=None):
        return {tool["name"]: tool["outputSchema"] for tool in self.result(self.ask("tools/list", api))["tools"]}

    def called(self, name, api=None, **arguments):
        """The whole result of a tool, which obeys the tool's schema."""
        result = self.result(self.ask("tools/call", api, name=name, arguments=arguments))
        self.assertEqual((result["resultType"], result["content"][0]["type"]), ("complete", "text"))
        jsonschema.Draft202012Validator(self.schemas()[name]).validate(result["structuredContent"])
        if not result["isError"]:
            self.assertEqual(json.loads(result["content"][0]["text"]), result["structuredContent"])
        return result

    def call(self, name, api=None, **arguments):
        result = self.called(name, api, **arguments)
        self.assertFalse(result["isError"], result)
        return result["structuredContent"]

    def refused(self, name, status, code, api=None, **arguments):
        result = self.called(name, api, **arguments)
        problem = result["structuredContent"]
        self.assertTrue(result["isError"], result)
        self.assertEqual((problem["status"], problem["code"]), (status, code), problem)
        self.assertEqual(result["content"], [{"type": "text", "text": f"{code}: {problem['detail']}"}])
        return problem


class Wire(McpCase):
    def test_a_request_of_2026_names_version_method_and_tool_in_headers_too(self):
        good = {"MCP-Protocol-Version": NOW, "Mcp-Method": "tools/call", "Mcp-Name": "list_sessions"}
        body = body_of("tools/call", name="list_sessions", arguments={})
        self.result(self.send(body, good))
        for name in good:
            self.error(self.send(body, {k: v for k, v in good.items() if k != name}), 400, -32020)
            for other in ("other", OLD if name == "MCP-Protocol-Version" else good[name].upper()):
                self.error(self.send(body, {**good, name: other}), 400, -32020)
        listed = {"MCP-Protocol-Version": NOW, "Mcp-Method": "tools/list"}
        self.result(self.send(body_of("tools/list"), listed))
        self.error(self.send(body_of("tools/list"), {**listed, "Mcp-Method": "tools/call"}), 400, -32020)

    def test_a_name_in_a_header_may_be_base64(self):
        for name, decoded in (("list_sessions", True), ("größe", False)):
            head = {"Mcp-Name": "=?base64?" + base64.b64encode(name.encode()).decode() + "?="}
            reply = self.ask("tools/call", name=name, arguments={}, headers=head)
            if decoded:
                self.assertFalse(self.result(reply)["isError"])
            else:
                self.error(reply, 200, -32602)  # the header fits, and there is no such tool
        for bad in ("=?base64?!!!?=", "=?base64?" + base64.b64encode(b"search").decode() + "?=", "=?base64??="):
            self.error(self.ask("tools/call", name="list_sessions", arguments={}, headers={"Mcp-Name": bad}), 400, -32020)

    def test_version_and_capabilities_stand_in_meta(self):
        head = {"MCP-Protocol-Version": NOW, "Mcp-Method": "tools/list"}
        whole = params_of()["_meta"]
        for name in whole:
            meta = {k: v for k, v in whole.items() if k != name}
            self.error(self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}, head), 400, -32602)
        for params in ({}, {"params": {}}):
            self.error(self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", **params}, head), 400, -32602)
            self.error(self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", **params}), 400, -32020)
        self.error(self.send(body_of("tools/list")), 400, -32020)

    def test_another_version_is_told_which_are_supported(self):
        for version in ("2099-01-01", "2025-03-26"):
            head = {"MCP-Protocol-Version": version, "Mcp-Method": "tools/list"}
            for body in (body_of("tools/list", version=version), {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}):
                error = self.error(self.send(body, head), 400, -32022)
                self.assertEqual(error["data"], {"supported": [NOW, OLD, OLDER], "requested": version})

    def test_what_is_not_a_request(self):
        head = {"MCP-Protocol-Version": NOW, "Mcp-Method": "tools/list"}
        for bad in (b"", b"{", b"\xff", b"{} {}", b'{"a":1,"a":2}', b"[" * 100):
            self.error(self.send(bad, head), 400, -32700, None)
        good = body_of("tools/list")
        for bad in ([good], [], "x", 7, None, {}, {**good, "jsonrpc": "1.0"}, {**good, "id": None}, {**good, "id": 1.5},
                    {**good, "id": {}}, {**good, "id": True}, {**good, "method": 7}, {"jsonrpc": "2.0", "id": 1, "result": {}}):
            id = bad["id"] if isinstance(bad, dict) and bad.get("id") == 1 and bad.get("id") is not True else None
            self.error(self.send(json.dumps(bad).encode(), head), 400, -32600, id)
        self.error(self.send({**good, "params": []}, head), 400, -32602)
        self.problem(self.send(good, {**head, "Content-Type": "text/plain"}), 415, "unsupported_media_type")
        self.problem(self.send({**good, "more": "x" * (1 << 20)}, head), 413, "content_too_large")
        self.problem(self.api.post("/mcp?x=1", good, headers=head), 400, "bad_request")

    def test_an_id_comes_back_as_it_was(self):
        for id in (0, -7, 12345678901234567890123, "", "a\"b\u2028", "日本"):
            self.result(self.ask("tools/list", id=id), id)

    def test_a_notification_is_202(self):
        for method, more in (("notifications/initialized", {}), ("notifications/cancelled", {"params": {"requestId": 1}}), ("x", {})):
            for head in ({}, {"MCP-Protocol-Version": OLD}, {"MCP-Protocol-Version": NOW, "Mcp-Method": method}):
                reply = self.send({"jsonrpc": "2.0", "method": method, **more}, head)
                self.assertEqual((reply.status, reply.raw), (202, b""))

    def test_get_and_delete_are_405(self):
        for method in ("GET", "DELETE", "PUT"):
            reply = self.api.request(method, "/mcp")
            self.assertEqual((reply.status, reply.headers["Allow"]), (405, "OPTIONS, POST"))

    def test_unknown_methods_and_tools(self):
        for method in ("prompts/list", "ping", "x", ""):
            head = {"Mcp-Method": method or "x"}
            reply = self.ask(method, headers=head)
            self.error(reply, *((404, -32601) if method else (400, -32020)))
        self.error(self.ask("tools/call", name="nosuch", arguments={}), 200, -32602)
        for method in ("server/discover", "prompts/list"):
            self.error(self.send({"jsonrpc": "2.0", "id": 1, "method": method}, {"MCP-Protocol-Version": OLD}), 200, -32601)
        for params in ({}, {"name": 7}, {"name": "search", "arguments": []}, {"name": "nosuch"}):
            self.error(self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, {"MCP-Protocol-Version": OLD}), 200, -32602)

    def test_a_refusal_repeats_no_token_and_no_long_text(self):
        own = self.daemon.token("viewer")
        head = {"MCP-Protocol-Version": OLD}
        ask = lambda method, head=head, **params: self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, head)
        for reply in (ask(own), ask("tools/call", name=own), ask("x", {"MCP-Protocol-Version": own}), self.ask("x", headers={"Mcp-Method": own}),
                      self.ask("tools/call", name="search", headers={"Mcp-Name": own}), ask("é" * 100_000), ask("tools/call", name="é" * 100_000)):
            self.assertIn("error", reply.json)
            self.assertNotIn(own, reply.raw.decode())
            self.assertLess(len(reply.raw), 1000)

    def test_discovery(self):
        result = self.result(self.ask("server/discover"))
        version = self.ok(self.api.get("/version"), 200)["version"]
        server = {"name": "sessiond", "version": version}
        self.assertEqual(result.pop("_meta"), {META + "serverInfo": server})
        self.assertIn("not orders", result.pop("instructions"))
        self.assertEqual(result, {"resultType": "complete", "supportedVersions": [NOW, OLD, OLDER], "capabilities": {"tools": {}},
                                  "serverInfo": server, "ttlMs": 3600000, "cacheScope": "public"})

    def test_what_a_client_of_2025_says(self):
        for asked, told in ((OLD, OLD), (OLDER, OLDER), ("2024-11-05", OLD), (NOW, OLD)):
            reply = self.send({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
                "protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
            result = self.result(reply, "i")
            self.assertEqual((result["protocolVersion"], result["capabilities"], result["serverInfo"]["name"]), (told, {"tools": {}}, "sessiond"))
            self.assertNotIn("resultType", result)
            self.assertIsNone(reply.headers.get("Mcp-Session-Id"))
        for version in (OLD, OLDER):
            head = {"MCP-Protocol-Version": version, "Mcp-Session-Id": "x", "Last-Event-ID": "7", "Accept": "text/plain"}
            ask = lambda method, head=head, **params: self.result(self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, head))
            self.assertEqual(ask("ping"), {})
            self.assertEqual(sorted(ask("tools/list")), ["tools"])
            self.assertEqual(sorted(ask("tools/call", name="list_sessions")), ["content", "isError", "structuredContent"])

    def test_tools_are_told_in_one_order_with_schemas_of_2020_12(self):
        result = self.result(self.ask("tools/list"))
        self.assertEqual((result["ttlMs"], result["cacheScope"]), (300000, "private"))
        self.assertEqual([tool["name"] for tool in result["tools"]], TOOLS)
        for tool in result["tools"]:
            for schema in (tool["inputSchema"], tool["outputSchema"]):
                jsonschema.Draft202012Validator.check_schema(schema)
                self.assertEqual(schema["type"], "object")
                self.assertNotIn("$ref", json.dumps(schema))
            self.assertEqual(tool["annotations"]["readOnlyHint"], tool["name"] != "append_note")
        self.assertTrue(result["tools"][3]["annotations"]["idempotentHint"])
        described = json.loads((REPO / "web" / "mcp.json").read_text())
        self.assertEqual([tool["name"] for tool in described["tools"]], TOOLS)

    def test_only_a_bearer_token_counts(self):
        head = {"MCP-Protocol-Version": NOW, "Mcp-Method": "tools/list"}
        body = body_of("tools/list")
        token = self.daemon.token("viewer")
        login = self.daemon.anonymous().post("/v1/login", {"token": token})
        self.ok(login)
        cookie = login.headers["Set-Cookie"].split(";")[0]
        csrf = self.ok(self.daemon.anonymous().get("/v1/whoami", headers={"Cookie": cookie}), 200)["csrf"]
        for api, more in ((self.daemon.anonymous(), {}), (self.daemon.local(), {}), (self.daemon.anonymous(), {"Cookie": cookie}),
                          (self.daemon.anonymous(), {"Cookie": cookie, "X-CSRF-Token": csrf}),
                          (self.daemon.anonymous(), {"Authorization": "Bearer sd_nosuch_" + "x" * 43})):
            reply = self.send(body, {**head, **more}, api)
            self.problem(reply, 401, "unauthorized")
            self.assertTrue(reply.headers["WWW-Authenticate"].startswith("Bearer"))
        self.result(self.send(body, head, self.daemon.client(token)))
        self.result(self.send(body, {**head, "Authorization": "Bearer " + token}, self.daemon.local()))

    def test_a_page_of_another_origin_is_refused(self):
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
            self.problem(self.ask("tools/list", headers={"Origin": origin}), 403, "forbidden")
        self.result(self.ask("tools/list", headers={"Origin": f"http://127.0.0.1:{self.daemon.port}"}))
        self.problem(self.ask("tools/list", headers={"Host": "evil.example"}), 421, "misdirected_host")
        friendly = self.spawn({"cors": {"allowedOrigins": ["https://chat.example.org"]}})
        reply = self.ask("tools/list", friendly.client(), headers={"Origin": "https://chat.example.org"})
        self.result(reply)
        self.assertEqual(reply.headers.get_all("Access-Control-Allow-Origin"), ["https://chat.example.org"])
        before = friendly.anonymous().request("OPTIONS", "/mcp", headers={
            "Origin": "https://chat.example.org", "Access-Control-Request-Method": "POST"})
        for name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"):
            self.assertIn(name, before.headers["Access-Control-Allow-Headers"])

    def test_off(self):
        off = self.spawn({"mcp": {"enabled": False}})
        for method in ("GET", "POST", "DELETE"):
            for api in (off.client(), off.anonymous()):
                self.problem(api.request(method, "/mcp", {} if method == "POST" else None), 404, "not_found")

    def test_a_store_that_cannot_be_read_is_503(self):
        daemon = self.spawn()
        api, key = daemon.client(), "agent:main:x"
        self.ok(api.post("/v1/agents/main/sessions", {"key": key}), 201)
        daemon.checkpoint()
        path = daemon.agent_dir() / "sessions.json"
        path.unlink()
        path.mkdir()
        for name, arguments in (("list_sessions", {"agent": "main"}), ("get_messages", {"key": key}), ("append_note", {"key": key, "text": "x"})):
            asked = lambda name=name, arguments=arguments: self.ask("tools/call", api, name=name, arguments=arguments)
            reply = eventually(lambda asked=asked: (reply := asked()).status == 503 and reply, 20)
            self.problem(reply, 503, "degraded")
            self.assertEqual(len(reply.headers.get_all("Retry-After")), 1)
        self.assertEqual(self.call("list_sessions", api)["data"], [])

    def test_too_many_requests_are_429_and_a_call_counts_once(self):
        daemon = self.spawn({"limits": {"requestsPerSecond": 3}})
        api = daemon.client(daemon.token("viewer"))
        self.ok(daemon.client().post("/v1/agents/main/sessions", {"key": "agent:main:x"}), 201)
        replies = []
        while not replies or replies[-1].status == 200:
            replies.append(self.ask("tools/call", api, name="list_sessions", arguments={}))
            self.assertLess(len(replies), 1000)
        first = len(replies) - 1
        self.assertGreaterEqual(first, 3, "the requests that a tool makes are not counted")
        self.problem(replies[first], 429, "too_many_requests")
        self.assertTrue(replies[first].headers["Retry-After"])
        self.assertEqual(len(replies[first].headers.get_all("Retry-After")), 1)
        self.assertEqual(len(replies[0].headers.get_all("RateLimit-Limit")), 1)

    def test_the_audit_log_names_what_a_tool_did_and_no_text(self):
        key = self.new()["key"]
        viewer = self.daemon.client(self.daemon.token("viewer"))
        word = "w" + uid()
        for name, arguments in (("append_note", {"key": key, "text": word}), ("search", {"query": word}), ("get_messages", {"key": key})):
            self.call(name, **arguments)
        self.refused("append_note", 403, "forbidden", viewer, key=key, text=word)
        self.ask("tools/list", headers={"Origin": "https://evil.example"})
        lines = self.ok(self.api.get("/v1/admin/audit?limit=20"), 200)["data"]
        mine = [(line["route"], line.get("status"), line.get("key")) for line in lines
                if line["route"] == "/mcp" or line.get("key") == key]
        route = "/v1/agents/{agent}/sessions/{key}/messages"
        self.assertEqual(mine[-3:], [(route, 201, key), (route, 403, key), ("/mcp", 403, None)])
        self.assertNotIn(word, json.dumps(lines))


class Tools(McpCase):
    def chat(self, key, api=None, query=""):
        return self.ok((api or self.api).get(S(key, "main", "messages") + "?view=chat&limit=200" + query), 200)["data"]

    def found(self, word, count, **more):
        return eventually(lambda: len(self.call("search", query=word, **more)["data"]) == count and self.call("search", query=word, **more), 20)

    def test_search_is_the_search_of_the_api(self):
        word, key = "w" + uid().lower(), self.new()["key"]
        for n in range(12):
            self.say(key, f"{word} {n}", role=("user", "assistant")[n % 2])
        page = self.found(word, 10)
        plain = lambda reply: {k: v for k, v in self.ok(reply, 200).items() if k != "asOf"}
        path = "/v1/search?" + urllib.parse.urlencode({"q": word, "limit": 10})
        self.assertEqual({k: v for k, v in page.items() if k not in ("asOf", "page")},
                         {k: v for k, v in plain(self.api.get(path)).items() if k != "page"})
        more = self.call("search", query=word, cursor=page["page"]["next"])
        self.assertEqual([hit["seq"] for hit in page["data"] + more["data"]], list(reversed(range(12))))
        self.assertEqual(len(self.call("search", query=word, role="assistant", agent="main", channel="slack", since=0, archived="any", limit=50)["data"]), 6)
        self.assertEqual(self.call("search", query=word, agent="other")["data"], [])

    def test_arguments_are_refused_with_their_place(self):
        key = self.new()["key"]
        for name, arguments, pointers in (
                ("search", {}, ["/query"]), ("search", {"query": ""}, ["/query"]), ("search", {"query": 7}, ["/query"]),
                ("search", {"query": "x", "limit": 51, "since": "y", "more": 1}, ["/limit", "/more", "/since"]),
                ("list_sessions", {"limit": 101}, ["/limit"]), ("list_sessions", {"limit": 0}, ["/limit"]),
                ("get_messages", {}, ["/agent", "/key"]), ("get_messages", {"key": "x"}, ["/agent"]),
                ("get_messages", {"key": key, "before": 1, "after": 2}, ["/after", "/before"]), ("get_messages", {"key": key, "at": 1}, ["/at"]),
                ("get_messages", {"key": key, "around": "x", "id": "y"}, ["/around", "/id"]), ("get_messages", {"key": ""}, ["/agent", "/key"]),
                ("append_note", {"key": key}, ["/text"]), ("append_note", {"key": key, "text": "x" * 16385}, ["/text"]),
                ("append_note", {"key": key, "text": "é" * 8193}, ["/text"]), ("append_note", {"key": key, "text": "x", "noteId": "x" * 129}, ["/noteId"])):
            problem = self.refused(name, 422, "validation_failed", **arguments)
            self.assertEqual(sorted({error["pointer"] for error in problem["errors"]}), pointers, (name, arguments, problem))

        self.refused("search", 422, "validation_failed", **{f"a{n}": n for n in range(2000)})

    def test_what_the_api_refuses_is_an_error_of_the_tool(self):
        key = self.new()["key"]
        self.refused("search", 400, "bad_request", query='""')
        self.refused("search", 400, "bad_cursor", query="x", cursor="x")
        self.refused("get_messages", 404, "session_not_found", agent="main", key="nosuch")
        self.refused("get_messages", 404, "message_not_found", key=key, id="nosuch")
        self.refused("get_messages", 409, "session_reset", key=key, sessionId="nosuch")
        self.refused("append_note", 404, "session_not_found", agent="main", key="no/such ..%2F", text="x")
        for path in ("..", "."):
            self.refused("get_messages", 400, "bad_request", agent="main", key=path)

    def test_list_sessions_tells_what_was_said_last(self):
        word = "W" + uid()
        keys = [f"agent:main:slack:channel:{word.lower()}{n}" for n in range(5)]
        for n, key in enumerate(keys):
            self.wait_past(self.new(key, **({"name": f"n {word}"} if n == 4 else {})))
        self.say(keys[4], "q" * 300)
        self.ok(self.post_to(keys[4], {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "x", "arguments": {}}]}), 201)
        page = self.call("list_sessions", query=word, limit=2)
        row = page["data"][0]
        self.assertEqual([r["key"] for r in page["data"]], [keys[4], keys[3]])
        self.assertEqual([row[name] for name in ("agent", "name", "channel", "messageCount")], ["main", f"n {word}", "slack", 2])
        self.assertEqual(row["updatedAt"], self.ok(self.api.get(S(keys[4])), 200)["updatedAt"])
        last = row["lastMessage"]
        self.assertEqual((last["seq"], last["role"], last["text"], last["more"]), (0, "user", "q" * 200, 100))
        self.assertEqual((page["data"][1]["lastMessage"], page["data"][1]["name"]), (None, None))
        seen = [row["key"] for row in page["data"]]
        while page["page"]["next"]:
            page = self.call("list_sessions", query=word, limit=2, cursor=page["page"]["next"])
            seen += [row["key"] for row in page["data"]]
        self.assertEqual(seen, list(reversed(keys)))
        self.assertEqual([row["key"] for row in self.call("list_sessions", agent="main", query=word, limit=100)["data"]], seen)
        self.refused("list_sessions", 404, "agent_not_found", agent="nosuch")

    def test_messages_are_those_of_the_chat_the_oldest_first(self):
        key = self.new()["key"]
        for n in range(30):
            self.say(key, f"t{n}", role=("user", "assistant")[n % 2])
        all_of_them = self.chat(key)
        page = self.call("get_messages", key=key, limit=5)
        self.assertEqual((page["data"], page["page"]), (all_of_them[25:], {"nextBefore": 25, "nextAfter": None}))
        older = self.call("get_messages", key=key, limit=5, before=page["page"]["nextBefore"])
        self.assertEqual((older["data"], older["page"]), (all_of_them[20:25], {"nextBefore": 20, "nextAfter": 24}))
        again = self.call("get_messages", key=key, limit=100, after=older["page"]["nextAfter"])
        self.assertEqual((again["data"], again["page"]), (all_of_them[25:], {"nextBefore": 25, "nextAfter": None}))
        first = self.call("get_messages", key=key, after=-1)
        self.assertEqual((first["data"], first["page"]), (all_of_them[:20], {"nextBefore": None, "nextAfter": 19}))
        self.assertEqual(self.call("get_messages", key=key, before=0)["data"], [])
        self.assertEqual(first["sessionId"], self.ok(self.api.get(S(key)), 200)["sessionId"])

    def test_a_page_is_filled_though_tools_said_most(self):
        key = self.new()["key"]
        self.say(key, "first")
        for n in range(60):
            self.ok(self.post_to(key, {"role": "assistant", "content": [{"type": "toolCall", "id": f"c{n}", "name": "x", "arguments": {"n": n}}]}), 201)
            self.ok(self.post_to(key, {"role": "toolResult", "toolCallId": f"c{n}", "content": "x"}), 201)
        self.say(key, "last")
        page = self.call("get_messages", key=key)
        self.assertEqual([m["text"] for m in page["data"]], ["first", "last"])
        self.assertEqual(page["page"], {"nextBefore": None, "nextAfter": None})
        page = self.call("get_messages", key=key, limit=1)
        self.assertEqual(([m["text"] for m in page["data"]], page["page"]["nextBefore"]), (["last"], 121))
        page = self.call("get_messages", key=key, after=5, limit=50)
        self.assertEqual([m["text"] for m in page["data"]], ["last"])

    def test_a_long_text_is_cut_and_read_on(self):
        key, text = self.new()["key"], "".join(random.Random(5).choice("aé日😀\n\"") for _ in range(9001))
        self.say(key, text)
        message = self.call("get_messages", key=key)["data"][0]
        self.assertEqual((message["text"], message["more"]), (text[:4000], 5001))
        read, at = "", 0
        while True:
            part = self.call("get_messages", key=key, id=message["id"], at=at)["data"][0]
            self.assertEqual(part.get("at", 0), at)
            read, at = read + part["text"], at + len(part["text"])
            if "more" not in part:
                break
            self.assertEqual(part["more"], len(text) - at)
        self.assertEqual(read, text)
        self.assertEqual(self.call("get_messages", key=key, id=message["id"], at=9001)["data"][0]["text"], "")
        self.assertEqual(self.call("get_messages", key=key, id=message["id"], at=99999)["data"][0]["text"], "")

    def test_a_result_ends_at_256_kib_and_goes_on(self):
        key = self.new()["key"]
        texts = [f"{n} " + "日" * 3990 for n in range(60)]
        for text in texts:
            self.say(key, text)
        for side, order in (("before", -1), ("after", 1)):
            seen, at = [], -1 if side == "after" else None
            for _ in range(10):
                page = self.call("get_messages", key=key, limit=100, **({side: at} if at is not None else {}))
                self.assertLess(len(json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()), (256 << 10) + 1)
                seen += [m["text"] for m in page["data"]][::order]
                at = page["page"]["next" + side.capitalize()]
                if at is None:
                    break
            self.assertEqual(seen, texts[::order], side)
            self.assertIsNone(at)

    def test_topics_and_archives(self):
        key = self.new()["key"]
        self.say(key, "aside", query="?topic=side")
        self.say(key, "before")
        self.assertEqual([m["text"] for m in self.call("get_messages", key=key, topic="side")["data"]], ["aside"])
        self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        self.assertEqual(self.call("get_messages", key=key)["data"], [])
        archives = self.ok(self.api.get(S(key, "main", "archives")), 200)["data"]
        name = next(name for archive in archives for name in archive["archivedAs"] if "side" not in name)
        self.assertEqual([m["text"] for m in self.call("get_messages", key=key, archive=name)["data"]], ["before"])

    def test_edited_and_deleted_messages_are_as_people_left_them(self):
        peer = "U" + uid(8)
        said = [self.inbound(peer=peer, messageId=f"m{n}", text=f"old {n}") for n in range(3)]
        key, named = said[0]["sessionKey"], {"channel": "slack", "peer": peer}
        self.ok(self.api.post("/v1/inbound/edits", {**named, "messageId": "m0", "text": "new"}), 201)
        self.ok(self.api.post("/v1/inbound/deletes", {**named, "messageId": "m1"}), 201)
        page = self.call("get_messages", key=key)
        self.assertEqual(page["data"], self.chat(key))
        self.assertEqual([(m.get("text"), m.get("edited"), m.get("deleted")) for m in page["data"]],
                         [("new", True, None), (None, None, True), ("old 2", None, None)])
        for row in page["data"]:
            self.assertEqual(self.call("get_messages", key=key, id=row["id"])["data"], [row])

    def test_around_a_hit(self):
        key = self.new()["key"]
        for n in range(40):
            self.say(key, f"t{n}")
        ids = [m["id"] for m in self.chat(key)]
        for n in (0, 20, 39):
            page = self.call("get_messages", key=key, around=ids[n], limit=5)
            shown = [m["id"] for m in page["data"]]
            self.assertIn(ids[n], shown)
            self.assertEqual(shown, ids[ids.index(shown[0]):][:len(shown)])
            ends = page["page"]
            self.assertEqual((ends["nextBefore"] is None, ends["nextAfter"] is None), (shown[0] == ids[0], shown[-1] == ids[-1]))
        self.refused("get_messages", 404, "message_not_found", key=key, around="nosuch")
        long = self.new()["key"]
        ids = [self.say(long, f"{n} " + "日" * 3990)["ids"][0] for n in range(60)]
        for n in (0, 7, 30, 59):  # what is too long ends on both sides of the message
            page = self.call("get_messages", key=long, around=ids[n], limit=100)
            shown = [m["id"] for m in page["data"]]
            self.assertLess(len(json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()), (256 << 10) + 1)
            self.assertGreater(len(shown), 15)
            self.assertEqual(shown, ids[ids.index(shown[0]):][:len(shown)])
            self.assertIn(ids[n], shown)
            first, last = page["data"][0]["seq"], page["data"][-1]["seq"]
            self.assertEqual(page["page"], {"nextBefore": first if first else None, "nextAfter": last if last < 59 else None})

    def test_filters_of_a_search(self):
        word, keys = "w" + uid().lower(), [self.new()["key"] for _ in range(2)]
        for key in keys:
            self.say(key, word)
        page = self.found(word, 2)
        self.assertEqual([hit["key"] for hit in self.call("search", query=word, key=keys[0])["data"]], [keys[0]])
        self.assertEqual(self.call("search", query=word, **{"from": "nobody"})["data"], [])
        self.assertEqual(self.call("search", query=word, until=min(hit["timestamp"] for hit in page["data"]) - 1)["data"], [])


class Notes(McpCase):
    def full(self, key, view="chat"):
        return self.ok(self.api.get(S(key, "main", "messages") + f"?view={view}"), 200)["data"]

    def test_a_note_is_in_the_chat_and_in_no_view_of_a_model(self):
        key, text = self.new()["key"], f"note {uid()} \"é\" \u2028"
        self.say(key, "question")
        start = self.say(key, "answer", role="assistant")["asOf"]
        before = self.full(key, "llm")
        session = self.ok(self.api.get(S(key)), 200)
        runner = self.daemon.client(self.daemon.token("runner"))
        me = self.ok(runner.get("/v1/whoami"), 200)["id"]
        made = self.call("append_note", runner, key=key, text=text)
        self.assertEqual((made["agent"], made["key"], made["seq"], made["duplicate"]), ("main", key, 2, False))
        self.assertEqual(made["sessionId"], session["sessionId"])
        note = self.full(key)[2]
        self.assertEqual([note[name] for name in ("seq", "id", "role", "by", "text")], [2, made["id"], "note", me, text])
        self.assertEqual(self.call("get_messages", key=key)["data"][2], note)
        self.assertEqual(self.call("get_messages", key=key, id=made["id"])["data"], [note])
        self.assertEqual(self.call("list_sessions", query=key)["data"][0]["lastMessage"]["role"], "note")
        self.assertEqual(self.full(key, "llm"), before)
        events = self.polled(start)
        self.assertEqual([event["type"] for event in events if event.get("key") == key], ["message.appended"])
        self.assertNotIn("deliver", json.dumps(events))
        self.assertEqual(self.ok(self.api.get(S(key, "main", "runs")), 200)["data"], [])
        self.assertNotIn("needs", self.ok(self.api.get(S(key)), 200))
        self.assertEqual(self.ok(self.api.get("/v1/sessions?needs=answer&keyPrefix=" + key), 200)["data"], [])
        self.say(key, "next")
        summarised = self.full(key, "summarize&until=" + self.full(key)[3]["id"])
        self.assertTrue(summarised)
        self.assertNotIn("note", json.dumps(summarised))
        self.assertEqual([text_of(m) for m in self.full(key, "llm")], ["question", "answer", "next"], "what follows a note goes on")

    def test_the_same_note_is_kept_once(self):
        key, other = self.new()["key"], self.new()["key"]
        first = self.call("append_note", key=key, text="a note")
        again = self.call("append_note", key=key, text="a note")
        self.assertEqual(again, {**first, "duplicate": True})
        self.assertFalse(self.call("append_note", key=key, text="another")["duplicate"])
        self.assertFalse(self.call("append_note", key=other, text="a note")["duplicate"])
        named = self.call("append_note", key=key, text="a note", noteId="n1")
        self.assertEqual((named["duplicate"], named["seq"]), (False, 2))
        self.assertTrue(self.call("append_note", key=key, text="a note", noteId="n1")["duplicate"])
        self.refused("append_note", 422, "idempotency_key_reused", key=key, text="other words", noteId="n1")
        runner = self.daemon.client(self.daemon.token("runner"))
        self.assertFalse(self.call("append_note", runner, key=key, text="a note")["duplicate"])
        self.assertEqual([m["text"] for m in self.full(key)], ["a note", "another", "a note", "a note"])

    def test_a_note_twice_over_a_kill_is_one(self):
        daemon = self.spawn()
        api, key = daemon.client(), "agent:main:slack:direct:u1"
        self.ok(api.post("/v1/agents/main/sessions", {"key": key}), 201)
        made = {}
        for text, more in (("by its text", {}), ("by its id", {"noteId": "n"})):
            made[text] = self.call("append_note", api, key=key, text=text, **more)
            daemon.restart(kill=True)
            again = self.call("append_note", api, key=key, text=text, **more)
            self.assertEqual(again, {**made[text], "duplicate": True})
        self.assertEqual([m["id"] for m in self.call("get_messages", api, key=key)["data"]], [m["id"] for m in made.values()])

    def test_nothing_is_kept_between_calls(self):
        """Each call of a conversation may reach a daemon that was just started."""
        daemon = self.spawn()
        api, head = daemon.client(), {"MCP-Protocol-Version": OLD}
        self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:x"}), 201)
        ask = lambda method, **params: self.result(self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, head, api))
        for method, params in (("initialize", {"protocolVersion": OLD}), ("tools/list", {}), ("tools/call", {"name": "list_sessions"}),
                               ("tools/call", {"name": "append_note", "arguments": {"key": "agent:main:x", "text": "n"}}),
                               ("tools/call", {"name": "get_messages", "arguments": {"key": "agent:main:x"}})):
            result = ask(method, **params)
            daemon.restart(kill=True)
        self.assertEqual([m["text"] for m in result["structuredContent"]["data"]], ["n"])

    def test_keys_in_a_note_are_treated_as_in_messages(self):
        key, secret = self.new()["key"], "sk-ant-api03-" + "aB3" * 31 + "AA"
        made = self.call("append_note", key=key, text="mine: " + secret)
        self.assertEqual(made["warnings"][0]["code"], "secret_in_message")
        own = self.daemon.token("viewer")
        self.call("append_note", key=key, text="token " + own)
        self.assertIn("[redacted: sessiond token]", self.full(key)[-1]["text"])
        strict = self.spawn({"policy": {"secretScanMessages": "reject"}})
        self.ok(strict.client().post("/v1/agents/main/sessions", {"key": key}), 201)
        self.refused("append_note", 422, "validation_failed", strict.client(), key=key, text=secret)
        self.assertNotIn(secret, json.dumps(self.ok(strict.client().get(S(key, "main", "messages")), 200)))

    def test_a_note_is_found_within_a_second(self):
        word, key = "w" + uid().lower(), self.new()["key"]
        made = self.call("append_note", key=key, text=f"{word} kept")
        hit = eventually(lambda: self.call("search", query=word)["data"], 1)[0]
        self.assertEqual((hit["id"], hit["role"], hit["snippet"]), (made["id"], "note", f"{word} kept"))
        self.assertEqual([h["id"] for h in self.call("search", query=word, role="note")["data"]], [made["id"]])


class Scope(McpCase):
    """A tool tells a token what the API tells it, and of what is hidden what it tells of what is not there."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.store = Store(cls.api)
        last = cls.store.places[-1]
        path = "/v1/search?archived=any&q="
        words = [marker for place in cls.store.places for marker in place.markers - place.named if marker.startswith("zq")]
        found = lambda: cls.api.get(path + last_word).json["data"]
        last_word = "w" + uid()
        cls.api.post(S(last.key, last.agent, "messages"), {"role": "user", "text": last_word})
        eventually(found, 20)
        cls.words = words

    def client(self, name):
        role, scope = SCOPES[name]
        scope = self.store.bind(scope)
        return scope, self.daemon.client(self.daemon.token(role, **scope))

    def plain(self, data):
        """Without what differs from reply to reply."""
        return re.sub(r'"(requestId|instance|asOf)":\s*"[^"]*"', "", json.dumps(data))

    NAMES = ("viewer slack", "viewer prefix", "runner codex slack", "session of a parent")

    def test_results_equal_those_of_the_api(self):
        for name in self.NAMES:
            with self.subTest(name):
                scope, api = self.client(name)
                listed = self.ok(api.get("/v1/sessions?limit=100"), 200)["data"]
                rows = self.call("list_sessions", api, limit=100)["data"]
                self.assertEqual([(r["agent"], r["key"], r["updatedAt"]) for r in rows], [(s["agent"], s["key"], s["updatedAt"]) for s in listed])
                self.assertTrue(rows)
                for row in rows:
                    shown = self.ok(api.get(S(row["key"], row["agent"], "messages") + "?view=chat&limit=100"), 200)
                    page = self.call("get_messages", api, agent=row["agent"], key=row["key"], limit=100)
                    self.assertEqual((page["data"], page["sessionId"]), (shown["data"], shown["sessionId"]))
                    if shown["data"]:
                        self.assertEqual(row["lastMessage"]["id"], shown["data"][-1]["id"])
                for word in random.Random(3).sample(self.words, min(40, len(self.words))):
                    told = self.ok(api.get(f"/v1/search?q={word}&limit=50&archived=any"), 200)
                    self.assertEqual(self.plain(self.call("search", api, query=word, limit=50, archived="any")), self.plain(told))

    def test_what_is_hidden_answers_as_what_is_not_there(self):
        for name in self.NAMES:
            scope, api = self.client(name)
            for place in self.store.hidden_from(scope):
                if not place.named:
                    continue
                word, absent = next(iter(place.named)), "zq" + uid(14)
                for tool, arguments in (("get_messages", {}), ("get_messages", {"id": place.message_id or "x"}), ("append_note", {"text": "x"}),
                                        ("get_messages", {"sessionId": place.session_id})):
                    replies = []
                    for key in (place.key, place.key.replace(word, absent)):
                        reply = self.ask("tools/call", api, name=tool, arguments={"agent": place.agent, "key": key, **arguments})
                        text = re.sub(r'(\\?"requestId\\?":\s*\\?")[^"\\]*', "", reply.raw.decode())
                        replies.append((reply.status, text.replace(word, absent)))
                    self.assertEqual(replies[0], replies[1], (name, tool, place.key))
                self.assertEqual(self.plain(self.call("search", api, query=word, key=place.key)),
                                 self.plain(self.call("search", api, query=absent, key=place.key.replace(word, absent))))
                self.assertEqual(self.call("list_sessions", api, query=word)["data"], [])

    def test_a_viewer_has_no_append_note(self):
        key, viewer = self.new()["key"], self.daemon.client(self.daemon.token("viewer"))
        names = lambda api: [tool["name"] for tool in self.result(self.ask("tools/list", api))["tools"]]
        self.assertEqual(names(viewer), TOOLS[:3])
        problem = self.refused("append_note", 403, "forbidden", viewer, key=key, text="x")
        self.assertEqual(problem["permission"], "append")
        self.assertEqual(names(self.daemon.client(self.daemon.token("runner"))), TOOLS)
        self.assertEqual(names(self.daemon.client(self.daemon.token("metrics"))), [])
        self.assertEqual(names(self.daemon.client(self.daemon.token("bridge"))), TOOLS[:3])

    def test_a_token_of_role_session_need_not_name_its_session(self):
        key, other = self.new()["key"], self.new()["key"]
        child = self.ok(self.api.post(S(key, "main", "spawn"), {"label": "c", "task": "t"}), 201)["key"]
        api = self.daemon.client(self.daemon.token("session", agents=["main"], key=key))
        made = self.call("append_note", api, text="mine")
        self.assertEqual((made["agent"], made["key"]), ("main", key))
        self.assertEqual([m["text"] for m in self.call("get_messages", api)["data"]], ["mine"])
        self.call("get_messages", api, key=child)
        self.assertEqual({row["key"] for row in self.call("list_sessions", api)["data"]}, {key, child})
        self.refused("get_messages", 404, "session_not_found", api, key=other)
        self.refused("append_note", 404, "session_not_found", api, key=other, text="x")
        self.refused("get_messages", 403, "forbidden", api, agent="codex", key=key)

    def test_a_token_of_one_agent_need_not_name_it(self):
        key = self.new()["key"]
        self.say(key, "hello")
        session_id = self.ok(self.api.get(S(key)), 200)["sessionId"]
        api = self.daemon.client(self.daemon.token("viewer", agents=["main"]))
        for name in (key, session_id):
            self.assertEqual([m["text"] for m in self.call("get_messages", api, key=name)["data"]], ["hello"])

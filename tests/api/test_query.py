"""Query parameters that a route does not know, on every route of openapi.json."""

import re

from harness.case import Case, S, uid

METHODS = ("get", "put", "post", "delete", "patch")
ANY = {("GET", "/"), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")}


class Query(Case):
    def test_an_unknown_parameter_is_400_on_every_route(self):
        document = self.daemon.anonymous().get("/openapi.json").json
        wrong, asked = [], 0
        for path, item in document["paths"].items():
            for method in METHODS:
                if method not in item:
                    continue
                target = re.sub(r"\{[^}]*\}", "zz" + uid(6), path.replace("{agent}", "main")) + "?zz=1"
                reply = self.api.request(method.upper(), target, b"{}" if method in ("post", "put", "patch") else None)
                asked += 1
                if (method.upper(), path) in ANY:
                    right = reply.status == 200
                else:
                    right = reply.status == 400 and '"zz" is not a query parameter of this route' in reply.json["detail"]
                if not right:
                    wrong.append(f"{method} {path}: {reply}")
        self.assertGreater(asked, 50)
        self.assertFalse(wrong, "\n".join(wrong))

    def test_a_topic_in_the_query_of_outbound_does_not_go_to_the_main_transcript(self):
        key = self.new()["key"]
        self.problem(self.api.post(S(key, "main", "outbound") + "?topic=t1", {"text": "x"}), 400, "bad_request")
        self.assertEqual(self.messages(key), [])

    def test_who_may_not_ask_is_told_that_first(self):
        self.problem(self.daemon.anonymous().get("/v1/whoami?zz=1"), 401, "unauthorized")
        viewer = self.daemon.client(self.daemon.token("viewer"))
        self.problem(viewer.post("/v1/admin/checkpoint?zz=1"), 403, "forbidden")
        self.assertEqual(viewer.request("HEAD", "/v1/whoami?zz=1").status, 400)


class Beside(Case):
    runs = {"asan", "tsan"}

    def test_an_unknown_parameter_beside_known_ones_changes_nothing_on_any_route(self):
        document = self.daemon.anonymous().get("/openapi.json").json
        refs = document["components"]["parameters"]
        key, asked = self.new()["key"], 0
        self.say(key, "stays")
        self.say(key, "stays", query="?topic=t")
        values = {"agent": "main", "key": key, "topic": "t", "id": self.messages(key)[0]["id"]}
        bodies = {"/reset": {}, "/archive": {}, "/spawn": {}, "/messages": {"role": "user", "text": "no"}, "/outbound": {"text": "no"},
                  "/send-policy": {"action": "deny"}, "/route": {"channel": "slack", "to": "no"}, "/inbound": {
                      "channel": "slack", "chatType": "channel", "peer": key.rsplit(":", 1)[1], "text": "no"},
                  "/tokens": {"role": "viewer", "note": "no"}, "/sessions": {"key": "agent:main:no"}}
        before, tokens = self.all_shown(key), len(self.ok(self.api.get("/v1/admin/tokens"))["data"])
        for path, item in document["paths"].items():
            for method in METHODS:
                if method not in item or (method.upper(), path) in ANY:
                    continue
                known = [p if "in" in p else refs[p["$ref"].rsplit("/", 1)[1]] for p in item[method].get("parameters", [])]
                known = {p["name"] for p in known if p["in"] == "query"}
                target = re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], "x"), path)
                body = next((b for end, b in bodies.items() if path.endswith(end)), {} if method in ("post", "put", "patch") else None)
                for query in ("zz=1", "zz", "Limit=1", "topic%20=t", "after[]=1", "limit=1;order=asc"):
                    if "limit" in known and query.startswith("limit"):
                        continue
                    if "poll" in known:
                        query += "&poll=1&waitMs=0"
                    named = {"idempotency_key": uid()} if method == "post" and asked % 2 else {}
                    self.problem(self.api.request(method.upper(), target + "?" + query, body, **named), 400, "bad_request")
                    asked += 1
        self.assertGreater(asked, 240)
        self.assertEqual(self.all_shown(key), before)
        self.assertEqual(len(self.ok(self.api.get("/v1/admin/tokens"))["data"]), tokens)
        self.problem(self.api.get(S("agent:main:no")), 404, "session_not_found")

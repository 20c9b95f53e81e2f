"""Query parameters that a route does not know, on every route of openapi.json."""

import re

from harness.case import Case, S, uid

METHODS = ("get", "put", "post", "delete", "patch")
ANY = {("GET", "/"), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")}


class Query(Case):
    def test_fault_26_an_unknown_parameter_is_400_on_every_route(self):
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

    def test_fault_26_a_topic_in_the_query_of_outbound_does_not_go_to_the_main_transcript(self):
        key = self.new()["key"]
        self.problem(self.api.post(S(key, "main", "outbound") + "?topic=t1", {"text": "x"}), 400, "bad_request")
        self.assertEqual(self.messages(key), [])

    def test_fault_26_who_may_not_ask_is_told_that_first(self):
        self.problem(self.daemon.anonymous().get("/v1/whoami?zz=1"), 401, "unauthorized")
        viewer = self.daemon.client(self.daemon.token("viewer"))
        self.problem(viewer.post("/v1/admin/checkpoint?zz=1"), 403, "forbidden")
        self.assertEqual(viewer.request("HEAD", "/v1/whoami?zz=1").status, 400)

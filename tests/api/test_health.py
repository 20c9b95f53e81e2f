"""Operating routes and the promise that /openapi.json describes what is built."""

import base64
import hashlib
import re

from harness.case import Case, S, json, uid
from harness.sessiond import eventually
from harness.sse import StreamRefused

runs = {"asan", "tsan"}

# Every route these tests use, in OpenAPI's spelling; names of parameters do not matter.
ROUTES = {
    "get": ["/healthz", "/readyz", "/metrics", "/version", "/openapi.json", "/v1/agents", "/v1/agents/{agent}",
            "/v1/sessions",
            "/v1/agents/{agent}/sessions", "S", "S/children", "S/topics", "S/history", "S/messages", "S/messages/{id}",
            "S/transcript", "S/send-policy", "S/events", "/v1/policy/send", "/v1/events", "/v1/agents/{agent}/events",
            "/v1/whoami", "/v1/admin/tokens", "/v1/admin/locks", "/v1/admin/streams", "/v1/admin/config"],
    "post": ["/v1/agents/{agent}/sessions", "S/reset", "S/archive", "S/unarchive", "S/spawn", "S/messages",
             "S/outbound", "S/typing", "S/deltas",
             "/v1/inbound", "/v1/policy/evaluate", "/v1/stream-tickets", "/v1/admin/tokens", "/v1/admin/checkpoint", "/v1/admin/backup", "/v1/admin/doctor",
             "/v1/admin/locks/{agent}/evict"],
    "put": ["S", "S/route", "S/send-policy", "/v1/policy/send"],
    "patch": ["S"],
    "head": ["S"],
    "delete": ["S", "S/topics/{topic}", "/v1/admin/tokens/{id}", "/v1/admin/streams/{id}"],
}
METHODS = ("get", "put", "post", "delete", "patch", "head", "options")


def anonymous(path):
    return re.sub(r"\{[^}]*\}", "{}", path.replace("S", "/v1/agents/{agent}/sessions/{key}", 1)
                  if path.startswith("S") else path)


class Health(Case):
    def test_healthz_needs_no_token(self):
        self.ok(self.daemon.anonymous().get("/healthz"), 200)

    def test_readyz(self):
        reply = self.daemon.anonymous().get("/readyz")
        body = self.ok(reply, 200)
        self.assertIsInstance(body, dict)
        hidden = {"repairs", "degraded", "loading", "damage", "unindexed", "unwatched", "failedDeliveries"}
        self.assertEqual(hidden & set(body), set())  # an empty list would say that there is nothing
        limited = self.daemon.client(self.daemon.token("runner", agents=["main"]))
        self.assertEqual(hidden & set(self.ok(limited.get("/readyz"), 200)), set())
        self.assertEqual(hidden & set(self.ok(self.api.get("/readyz"), 200)), hidden)

    def test_version(self):
        body = self.ok(self.daemon.anonymous().get("/version"), 200)
        self.assertRegex(body["version"], r"^\d+\.\d+\.\d+")

    def test_head_of_open_routes_has_no_body(self):
        for path in ("/healthz", "/version"):
            reply = self.daemon.anonymous().request("HEAD", path)
            self.assertEqual((reply.status, reply.raw), (200, b""), path)

    def test_metrics_are_prometheus_text(self):
        session = self.new()
        self.say(session["key"])
        reply = self.api.get("/metrics")
        self.assertEqual(reply.status, 200)
        self.assertTrue(reply.headers["Content-Type"].startswith("text/plain"), reply.headers["Content-Type"])
        sample = re.compile(r'^[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="(\\.|[^"\\])*",?)*\})? '
                            r'(NaN|[+-]?Inf|[+-]?[0-9.eE+-]+)( \d+)?$')
        types = {}
        for line in reply.raw.decode().splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ", 3)
                self.assertNotIn(name, types, "a metric has one TYPE line")
                types[name] = kind
            elif line and not line.startswith("#"):
                self.assertRegex(line, sample)
                name = re.match(r"[a-zA-Z0-9_:]+", line).group()
                self.assertTrue(any(name == t or name in (t + "_bucket", t + "_sum", t + "_count") for t in types),
                                line)
        self.assertTrue([name for name in types if name.startswith("sessiond_")], sorted(types))

    def test_each_batch_is_in_one_bucket_of_how_long_it_took(self):
        self.say(self.new()["key"])
        values = dict(line.rsplit(" ", 1) for line in self.api.get("/metrics").raw.decode().splitlines() if not line.startswith("#"))
        buckets = [float(value) for name, value in values.items() if name.startswith("sessiond_journal_sync_seconds_bucket")]
        self.assertEqual(buckets, sorted(buckets))
        self.assertGreater(buckets[-1], 0)
        self.assertEqual({buckets[-1], float(values["sessiond_journal_sync_seconds_count"])}, {float(values["sessiond_journal_batches_total"])})
        self.assertEqual(float(values["sessiond_journal_sync_seconds_sum"]), float(values["sessiond_journal_sync_seconds_total"]))

    def test_the_last_hour_is_kept_in_columns_of_one_length(self):
        key = self.new()["key"]
        for _ in range(3):
            self.say(key)
        path = "/v1/metrics/history"
        first = eventually(lambda: (got := self.api.get(path).json)["at"] and got, timeout=30)
        columns = {name: value for name, value in first.items() if isinstance(value, list)}
        self.assertEqual({len(column) for column in columns.values()}, {len(first["at"])}, first)
        self.assertEqual(first["everyMs"], 5000)
        self.assertLessEqual(first["startedAt"], first["at"][0])
        said = eventually(lambda: self.say(key) and (got := self.api.get(path).json)["syncMs"][-1] and got, timeout=30)
        for name in ("requests", "commits", "requestP50Ms", "requestP99Ms", "syncMs", "syncP99Ms", "commitsPerBatch", "connections"):
            self.assertGreater(said[name][-1], 0, name)
        self.assertEqual(said["at"], sorted(said["at"]))
        self.assertEqual(said["n"], list(range(1, len(said["n"]) + 1)))
        later = eventually(lambda: (got := self.ok(self.api.get(f"{path}?after={first['n'][-1]}"), 200))["n"] and got, timeout=30)
        self.assertEqual(later["n"][0], first["n"][-1] + 1)
        self.assertEqual(self.ok(self.api.get(f"{path}?after={10**15}"), 200)["at"], [])
        self.problem(self.api.get(path + "?after=x"), 400, "bad_request")
        self.problem(self.api.get(path + "?until=1"), 400, "bad_request")

    def test_the_last_hour_is_for_those_who_may_read_all_metrics(self):
        path = "/v1/metrics/history"
        self.problem(self.daemon.anonymous().get(path), 401, "unauthorized")
        for role, limits in (("bridge", {}), ("viewer", {}), ("operator", {"agents": ["other"]}), ("operator", {"keyPrefix": "agent:main:x"})):
            self.problem(self.daemon.client(self.daemon.token(role, **limits)).get(path), 403, "forbidden")
        self.ok(self.daemon.client(self.daemon.token("metrics")).get(path), 200)

    def test_metrics_need_a_token(self):
        self.problem(self.daemon.anonymous().get("/metrics"), 401, "unauthorized")

    def test_admin_routes(self):
        self.new()
        self.assertIsInstance(self.ok(self.api.get("/v1/admin/locks"), 200), dict)
        config = self.ok(self.api.get("/v1/admin/config"), 200)
        self.assertIn(str(self.daemon.state), json.dumps(config))
        self.assertIsInstance(self.ok(self.api.post("/v1/admin/doctor"), 200), dict)
        agent = self.ok(self.api.get("/v1/agents/main"), 200)
        for member in ("agent", "sessions", "bytes", "updatedAt", "checkpointLagMs", "dirty"):
            self.assertIn(member, agent)
        self.assertEqual(agent["agent"], "main")
        self.ok(self.api.post("/v1/admin/checkpoint"))
        agent = self.ok(self.api.get("/v1/agents/main"), 200)
        self.assertFalse(agent["dirty"], "a checkpoint answers when all is in the files")


class OpenApi(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reply = cls.daemon.anonymous().get("/openapi.json")
        assert reply.status == 200, reply
        cls.document = reply.json

    def test_is_openapi_3_1(self):
        self.assertRegex(self.document["openapi"], r"^3\.1\.")
        self.assertEqual(self.document["info"]["version"], self.api.get("/version").json["version"])
        for path, item in self.document["paths"].items():
            for method in set(item) & set(METHODS):
                self.assertTrue(item[method].get("responses"), f"{method} {path} has no responses")

    def test_lists_every_route_that_these_tests_use(self):
        listed = {(method, anonymous(path)) for path, item in self.document["paths"].items() for method in item}
        used = {(method, anonymous(path)) for method, paths in ROUTES.items() for path in paths}
        used = {("get" if method == "head" else method, path) for method, path in used}  # HEAD is answered by GET
        self.assertFalse(sorted(used - listed))

    def _filled(self, path):
        """The path with names of things that are there, so that a 404 can only mean that the route is not."""
        session = self.new()
        self.say(session["key"])
        self.say(session["key"], query="?topic=t1")
        message = self.messages(session["key"])[0]["id"]
        values = {"agent": "main", "key": session["key"], "id": message, "topic": "t1", "messageId": message,
                  "stream": "memoryEvents"}
        if "/snapshots/" in path:
            values["name"] = "backgroundTasks"
            self.ok(self.api.put(S(session["key"], "main", "snapshots", "backgroundTasks"), [1]), 200)
        if path == "/v1/schemas/{name}":
            values["name"] = "session"
        if "{sha256}" in path:
            data = b"\x89PNG" + bytes(90_000)
            values["sha256"] = hashlib.sha256(data).hexdigest()
            part = {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}
            self.ok(self.api.post(S(session["key"], "main", "messages"), {"role": "user", "content": [part]}), 201)
        if "/admin/tokens/" in path:
            values["id"] = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)["id"]
        return re.sub(r"\{([^}]*)\}", lambda m: values.get(m.group(1), "x"), path)

    def test_every_listed_route_is_there(self):
        for path, item in self.document["paths"].items():
            for method in sorted(set(item) & set(METHODS)):
                with self.subTest(f"{method} {path}"):
                    target = self._filled(path)
                    if method == "get" and target.endswith("/events"):
                        with self.api.stream(target) as stream:
                            stream.wait_type("stream.hello")
                        continue
                    reply = self.api.request(method.upper(), target,
                                             b"{}" if method in ("put", "post", "patch") else None)
                    self.assertNotEqual(reply.status, 405, reply)
                    self.assertNotIn(reply.status, (500, 501), reply)
                    if reply.status == 404 and all(part not in path for part in ("/locks/", "/streams/", "/assets/")):
                        self.assertNotEqual(reply.json and reply.json["code"], "not_found", reply)

    def test_other_methods_are_405_with_what_is_allowed(self):
        for path, item in self.document["paths"].items():
            # A literal path may be another pattern's, too: DELETE /v1/deliveries/claim is about the delivery "claim".
            same = [at for at in self.document["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", at), path)]
            there = {m.upper() for at in same for m in set(self.document["paths"][at]) & set(METHODS)}
            other = next(m for m in ("DELETE", "PATCH", "PUT", "POST") if m not in there)
            with self.subTest(f"{other} {path}"):
                reply = self.api.request(other, self._filled(path))
                self.problem(reply, 405)
                allowed = {m.strip() for m in reply.headers["Allow"].split(",")}
                self.assertTrue(there <= allowed, f"Allow: {allowed}, documented: {there}")
                self.assertNotIn(other, allowed)

    def test_nothing_but_the_open_routes_answers_without_a_token(self):
        open_ = {"/healthz", "/readyz", "/version", "/openapi.json", "/v1/schemas/{name}", "/", "/v1/login"}
        nobody = self.daemon.anonymous()
        for path, item in self.document["paths"].items():
            if path in open_ or not path.startswith(("/v1/", "/metrics")):
                continue
            for method in sorted(set(item) & set(METHODS) - {"options"}):
                with self.subTest(f"{method} {path}"):
                    target = re.sub(r"\{[^}]*\}", "x" + uid(4), path)
                    if item[method].get("x-permission") == "stream":
                        with self.assertRaises(StreamRefused) as refused:
                            nobody.stream(target)
                        self.assertEqual(refused.exception.status, 401)
                        continue
                    reply = nobody.request(method.upper(), target,
                                           b"{}" if method in ("put", "post", "patch") else None)
                    self.assertEqual(reply.status, 401, reply)
                    self.assertIn("Bearer", reply.headers["WWW-Authenticate"])


class Drain(Case):
    def test_sigterm_ends_within_ten_seconds_and_keeps_all(self):
        daemon = self.spawn()
        api = daemon.client()
        session = self.new(api=api)
        for i in range(20):
            self.say(session["key"], f"line {i}", api=api)
        self.assertEqual(daemon.stop(), 0)
        # After a clean end the files alone hold everything (checkpoint on SIGTERM).
        store = json.loads((daemon.agent_dir() / "sessions.json").read_bytes())
        self.assertEqual(store[session["key"]]["sessionId"], session["sessionId"])
        lines = (daemon.agent_dir() / f"{session['sessionId']}.jsonl").read_bytes().splitlines()
        self.assertEqual(len(lines), 21)
        daemon.start()
        self.assertEqual(len(self.messages(session["key"], api=api)), 20)

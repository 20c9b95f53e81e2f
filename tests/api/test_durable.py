"""Nothing is shown before it is durable: while the journal's fdatasync hangs, and when it then fails."""

import json
import select
import unittest
from contextlib import contextmanager

from harness.case import Case, S, uid
from preload import preload
from harness.sessiond import REPO, Client, eventually

runs = {"asan", "release", "tsan"}

# Every other GET route answers from the state of an agent. The routes of one run, one approval, all open runs and all open approvals need a run; the
# lists of a session show the same. Runners are known once they took one. Hooks are a file of their own.
OF_NO_AGENT = {"/", "/assets/{name}", "/healthz", "/readyz", "/version", "/openapi.json", "/metrics", "/v1/metrics/history", "/v1/schemas/{name}", "/v1/blobs/{sha256}", "/v1/whoami", "/v1/policy/send", "/v1/events",
               "/v1/agents/{agent}/events", "/v1/admin/streams", "/v1/admin/tokens", "/v1/admin/locks", "/v1/admin/audit",
               "/v1/admin/config", "/v1/deliveries", "/v1/deliveries/{id}", "/v1/agents/{agent}/sessions/{key}/runs/{id}",
               "/v1/agents/{agent}/sessions/{key}/runs/{id}/replay",
               "/v1/agents/{agent}/sessions/{key}/approvals/{id}", "/v1/approvals", "/v1/runs", "/v1/runners", "/v1/hooks", "/v1/hooks/{name}",
               "/v1/search", "/v1/agents/{agent}/messages"}  # find by what is durable, and are 400 without a query


def routes():
    paths = json.loads((REPO / "web" / "openapi.json").read_text())["paths"]
    return [path for path, methods in paths.items() if "get" in methods and path not in OF_NO_AGENT]


class Asked:
    """A request that was sent and whose answer may be a while."""

    def __init__(self, api, method, path, body=None, **headers):
        self.path, self._client = path, Client(api.daemon, api.token)
        self._client.get("/healthz")  # the connection stands
        head = {"Authorization": "Bearer " + api.token, "Content-Type": "application/json",
                **{name.replace("_", "-").title(): value for name, value in headers.items()}}
        self.connection = self._client._connection
        self.connection.request(method, path, None if body is None else json.dumps(body).encode(), head)

    def answered(self):
        poll = select.poll()
        poll.register(self.connection.sock, select.POLLIN)
        return bool(poll.poll(0))

    def answer(self):
        response = self.connection.getresponse()
        stream = (response.headers.get("Content-Type") or "").startswith("text/event-stream")
        body = b"" if stream else response.read()
        self._client.close()
        if (response.headers.get("Content-Type") or "").split(";")[0] in ("application/json", "application/problem+json"):
            body = {name: value for name, value in json.loads(body).items() if name not in ("asOf", "requestId")}
            for agent in body.get("data", [body]) if "/sessions" not in self.path else []:
                for name in ("checkpointLagMs", "dirty", "bytes"):  # of files, not of sessions
                    agent.pop(name, None)
        return response.status, body


class Durable(Case):
    @classmethod
    def begin(cls, daemon):
        super().begin(preload(daemon))
        cls.page = daemon.page

    def tearDown(self):
        self.page.hold = self.page.fail = 0
        super().tearDown()

    def reads(self, key, message="none", agent="main"):
        paths = [path.replace("{agent}", agent).replace("{key}", key).replace("{id}", message)
                 .replace("{stream}", "memoryEvents").replace("{name}", "backgroundTasks") for path in routes()]
        self.assertGreater(len(paths), 10)
        return [("GET", path) for path in paths] + [("POST", "/v1/policy/evaluate", {"sessionKey": key, "channel": "slack"})]

    def answers(self, asked):
        return {one.path: one.answer() for one in asked}

    def ask(self, requests):
        return [Asked(self.api, *request) for request in requests]

    @contextmanager
    def taken_back(self, method, path, body=None, headers=None):
        """Within: a write is decided and not durable. Then it is taken back."""
        self.page.hold = 1
        write = Asked(self.api, method, path, body, **(headers or {}))
        self.page.wait_held()
        yield
        self.page.fail = 1
        self.page.hold = 0
        status, body = write.answer()
        self.assertEqual(status, 503, body)
        spare = {"key": "agent:spare:main", "ifExists": "reuse", "label": uid()}
        eventually(lambda: self.api.post("/v1/agents/spare/sessions", spare).status < 300, what="a write after the failed one")

    def during(self, requests, method, path, body=None):
        """Answers of requests that came while a write was not durable, and was then taken back."""
        with self.taken_back(method, path, body):
            asked = self.ask(requests)
            self.api.get("/healthz")  # after them
            early = [one.path for one in asked if one.answered()]
        answers = self.answers(asked)
        self.assertEqual(early, [], "answered before it was durable")
        return answers

    def assert_as_before(self, requests, method, path, body=None):
        before = self.answers(self.ask(requests))
        during = self.during(requests, method, path, body)
        for asked, answer in during.items():
            with self.subTest(path=asked):
                self.assertEqual(answer, before[asked])
        return before

    def full_session(self):
        key = f"agent:main:slack:channel:{uid()}"
        self.new(key, displayName="before")
        self.ok(self.api.put(S(key, "main", "snapshots", "backgroundTasks"), {"id": "t1"}), 200)
        self.say(key)
        self.say(key, query="?topic=7")
        self.ok(self.api.post(S(key, "main", "spawn"), {"label": "child"}), 201)
        return key, self.messages(key)[0]["id"]

    def test_no_read_shows_a_deletion_that_is_taken_back(self):
        key, message = self.full_session()
        before = self.assert_as_before(self.reads(key, message), "DELETE", S(key))
        statuses = {status for status, _ in before.values()}
        self.assertEqual(statuses, {200}, before)

    def test_no_read_shows_a_patch_that_is_taken_back(self):
        key, message = self.full_session()
        before = self.assert_as_before(self.reads(key, message), "PUT", S(key, "main", "send-policy"), {"action": "deny"})
        self.assertEqual(before["/v1/policy/evaluate"][1]["action"], "allow")

    def test_no_read_shows_a_session_whose_creation_is_taken_back(self):
        key = f"agent:main:slack:channel:{uid()}"
        self.new()  # the agent is there
        writes = [("POST", S(key, "main", "typing"), {}),
                  ("POST", S(key, "main", "deltas"), {"text": "x", "runId": "r"})]
        before = self.assert_as_before(self.reads(key) + writes, "POST", "/v1/agents/main/sessions", {"key": key})
        for path in (S(key), S(key, "main", "events"), S(key, "main", "messages")):
            self.assertEqual(before[path][0], 404, path)

    def test_no_read_shows_an_agent_whose_creation_is_taken_back(self):
        agent = "a" + uid(8)
        key = f"agent:{agent}:slack:channel:{uid()}"
        before = self.assert_as_before(self.reads(key, agent=agent), "POST", f"/v1/agents/{agent}/sessions", {"key": key})
        self.assertEqual(before[f"/v1/agents/{agent}"][0], 404)
        self.assertNotIn(agent, json.dumps(self.ok(self.api.get("/v1/agents"))))

    def test_an_etag_that_is_taken_back_is_not_confirmed(self):
        key = self.new()["key"]
        etag = self.api.get(S(key)).etag
        next_etag = '"r' + str(int(etag.strip('"r')) + 1) + '"'
        with self.taken_back("PATCH", S(key), {"displayName": "other"}, {"content_type": "application/merge-patch+json"}):
            asked = Asked(self.api, "GET", S(key), if_none_match=next_etag)
            self.api.get("/healthz")
        self.assertEqual(asked.answer()[0], 200)

    def test_refusals_of_writes_wait(self):
        """What a refusal rests on is taken back: the write is not refused for it."""
        key = f"agent:main:slack:channel:{uid()}"
        gone = self.new()["key"]
        self.new()
        with self.taken_back("POST", "/v1/agents/main/sessions", {"key": key}):
            asked = [Asked(self.api, "POST", "/v1/agents/main/sessions", {"key": key}),
                     Asked(self.api, "PATCH", S(key), {"displayName": "x"}, if_match='"r9"', content_type="application/merge-patch+json")]
            self.api.get("/healthz")
            self.assertFalse([one.path for one in asked if one.answered()])
        self.assertEqual([one.answer()[0] for one in asked], [503, 503])
        with self.taken_back("DELETE", S(gone)):
            asked = [Asked(self.api, "POST", S(gone, "main", "messages"), {"role": "user", "text": "x"})]
            self.api.get("/healthz")
            self.assertFalse([one.path for one in asked if one.answered()])
        self.assertEqual([one.answer()[0] for one in asked], [503])

    def test_a_slow_disk_delays_and_loses_nothing(self):
        key, message = self.full_session()
        self.page.hold = 1
        write = Asked(self.api, "DELETE", S(key))
        self.page.wait_held()
        asked = self.ask([("GET", S(key)), ("GET", S(key, "main", "topics")), ("GET", S(key, "main", "events"))])
        other = self.api.get("/v1/policy/send")  # rests on no agent
        self.assertEqual(other.status, 200)
        self.assertFalse([one.path for one in asked if one.answered()])
        self.page.hold = 0
        self.assertEqual(write.answer()[0], 204)
        self.assertEqual([one.answer()[0] for one in asked], [404, 404, 404])

    def test_what_is_durable_does_not_wait(self):
        """A read of one session goes on while another one's write is not durable."""
        key, message = self.full_session()
        other = self.new()["key"]
        with self.taken_back("PATCH", S(other), {"displayName": "x"}, {"content_type": "application/merge-patch+json"}):
            self.assertEqual(self.api.get(S(key)).status, 200)
            self.assertEqual(self.api.get(S(key, "main", "messages")).status, 200)


if __name__ == "__main__":
    unittest.main()

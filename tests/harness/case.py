"""What the API tests share: one daemon a class, checks that say what they got, the daemon's log beside a failure."""

import json
import sys
import time
import unittest

from harness.sessiond import EVENT_ID, S, Daemon, uid

__all__ = ["Case", "S", "uid", "json", "text_of"]

PROBLEM_MEMBERS = ("type", "title", "status", "code", "detail", "instance", "retryable", "requestId")


def text_of(message) -> str:
    """The text of a Message, whether its content is a string or parts."""
    content = message.get("content", message.get("text"))
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or [] if part.get("type") == "text")


class Case(unittest.TestCase):
    config = {}        # of the class's daemon, over the harness's own
    daemon = None
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.begin(Daemon(cls.config))

    @classmethod
    def begin(cls, daemon):
        """Starts the class's daemon; it is ended after the class's tests, also when the rest of setUpClass fails."""
        cls.daemon = daemon
        cls.addClassCleanup(cls.end)
        daemon.start()
        cls.api = daemon.client()

    @classmethod
    def end(cls):
        daemon, cls.daemon = cls.daemon, None
        try:
            code = daemon.stop()
            reports = daemon.sanitizer_reports()
            if code != 0 or reports:
                raise AssertionError(f"at the end: exit {code}, {reports}\n" + "\n".join(daemon.stderr[-60:]))
        finally:
            daemon.close()

    def run(self, result=None):
        self._others = []
        mark = len(self.daemon.stderr) if self.daemon else 0
        before = len(result.failures) + len(result.errors)
        outcome = super().run(result)
        if len(result.failures) + len(result.errors) > before:
            for daemon, start in [(self.daemon, mark)] + [(d, 0) for d in self._others]:
                if daemon and daemon.stderr[start:]:
                    print(f"--- the daemon's log during {self.id()}", *daemon.stderr[start:][-80:], "---", sep="\n",
                          file=sys.stderr)
        return outcome

    def setUp(self):
        if self.daemon and not self.daemon.alive:
            self.daemon.start()  # a test before us killed it; ours is not to suffer
        if self.daemon:
            self._mark = len(self.daemon.stderr)

    def tearDown(self):
        if self.daemon:
            reports = self.daemon.sanitizer_reports(self._mark)
            self.assertFalse(reports, "sanitizer reports: " + "\n".join(reports))
            self.assertTrue(self.daemon.alive, "the daemon died: exit " + str(self.daemon.process
                    and self.daemon.process.poll()))

    def spawn(self, config=None, start=True, **named) -> Daemon:
        """A daemon for this test alone; stopped (exit 0, no sanitizer report) and removed when the test ends."""
        daemon = Daemon(config, **named)
        self._others.append(daemon)
        self.addCleanup(self._finish, daemon)
        return daemon.start() if start else daemon

    def _finish(self, daemon):
        try:
            if daemon.alive:
                self.assertEqual(daemon.stop(), 0, "exit code after SIGTERM")
            self.assertFalse(daemon.sanitizer_reports())
        finally:
            daemon.close()

    # -- checks ------------------------------------------------------------------------------------------------------

    def ok(self, reply, *statuses):
        """The JSON of an answer that must have one of these statuses (any 2xx when none is given)."""
        if statuses:
            self.assertIn(reply.status, statuses, reply)
        else:
            self.assertTrue(200 <= reply.status < 300, reply)
        return reply.json

    def assertPointers(self, reply, *pointers):
        """A refused body, and the places that are wrong in it."""
        self.problem(reply, 422, "validation_failed")
        self.assertEqual([error["pointer"] for error in reply.json["errors"]], list(pointers))

    def problem(self, reply, status, *codes):
        """The JSON of a problem+json with this status and one of these codes; every member is there."""
        self.assertEqual(reply.status, status, reply)
        self.assertEqual((reply.headers.get("Content-Type") or "").split(";")[0], "application/problem+json", reply)
        body = json.loads(reply.raw)
        for member in PROBLEM_MEMBERS:
            self.assertIn(member, body)
        self.assertEqual(body["status"], status)
        self.assertEqual(body["type"], "urn:sessiond:problem:" + body["code"])
        self.assertIsInstance(body["retryable"], bool)
        if not reply.headers.get("Idempotency-Replayed"):  # a kept answer is the first one's to the byte
            self.assertEqual(body["requestId"], reply.headers.get("X-Request-Id"))
        if codes:
            self.assertIn(body["code"], codes, body)
        return body

    def invalid(self, reply, *pointers):
        """422 validation_failed with exactly these pointers among its errors, each with a detail."""
        body = self.problem(reply, 422, "validation_failed")
        self.assertEqual(sorted(e["pointer"] for e in body["errors"]), sorted(pointers), body)
        for error in body["errors"]:
            self.assertTrue(error["detail"])
        return body

    def assertEventId(self, text):
        self.assertRegex(text, EVENT_ID)

    # -- doing -------------------------------------------------------------------------------------------------------

    @staticmethod
    def wait_past(session):
        """Waits until a change would be later than this session's: orders by time go by milliseconds."""
        while time.time() * 1000 <= session["updatedAt"] + 1:
            time.sleep(0.0005)

    def new(self, key=None, api=None, **entry):
        """A new session of agent main; its Session. A key of its own unless one is given."""
        key = key or f"agent:main:slack:channel:{uid()}"
        agent = key.split(":")[1] if key.startswith("agent:") else "main"
        return self.ok((api or self.api).post(f"/v1/agents/{agent}/sessions", {"key": key, "entry": entry}), 201)

    def say(self, key, text=None, agent="main", api=None, query="", **more):
        body = {"role": "user", "text": text or f"text {uid()}", **more}
        return self.ok((api or self.api).post(S(key, agent, "messages") + query, body), 201)

    def messages(self, key, agent="main", api=None, query="limit=200&order=asc"):
        return self.ok((api or self.api).get(S(key, agent, "messages") + "?" + query), 200)["data"]

    def texts(self, key, agent="main", api=None, query="limit=200&order=asc"):
        """The texts of its messages; other entries have none."""
        return [text_of(m) for m in self.messages(key, agent, api, query) if "role" in m]

    def post_to(self, key, body, query="", api=None, **named):
        """POST …/messages of a session of agent main; the reply."""
        return (api or self.api).post(S(key, "main", "messages") + query, body, **named)

    def once(self, request, first=None):
        """`request` again is the first answer again, to the byte; that answer."""
        first = first or request()
        self.ok(first)
        again = request()
        self.assertEqual((again.status, again.raw, again.headers.get("Idempotency-Replayed")), (first.status, first.raw, "true"))
        return first

    def polled(self, after, query="", api=None):
        """The events after an id, by pages, until there are none."""
        found = []
        while (page := self.ok((api or self.api).get(f"/v1/events?poll=1&waitMs=0&limit=1000&after={after}{query}")))["data"]:
            found, after = found + page["data"], page["next"]
        return found

    def all_shown(self, *keys):
        """All that can be read of sessions of agent main with a topic t, without what moves with every answer."""
        shown = {}
        for key in keys:
            for what in ("", "/topics", "/history", "/archives", "/children", "/send-policy", "/messages?limit=200&order=asc",
                         "/messages?limit=200&order=asc&topic=t"):
                reply = self.api.get(S(key) + what)
                body = {name: value for name, value in reply.json.items() if name not in ("asOf", "requestId", "instance")}
                shown[key, what] = reply.status, body
        return shown

    def inbound(self, api=None, status=201, headers=None, **body):
        """POST /v1/inbound with sensible defaults for what is not given."""
        whole = {"channel": "slack", "chatType": "direct", "peer": "U" + uid(8), **body}
        if "text" not in whole and "content" not in whole:
            whole["text"] = f"hello {uid()}"
        reply = (api or self.api).post("/v1/inbound", whole, headers=headers)
        return self.ok(reply, status)

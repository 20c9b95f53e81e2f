"""What the tests of hooks share: hooks, and handlers that answer their calls."""

import threading

from approvals_case import ApprovalsCase
from harness.case import S, uid


class Handler:
    """A client that sees calls on its stream and answers those of one hook with what `says` returns; None: it is silent."""

    def __init__(self, case, name, says, api=None):
        self.calls = []
        self.api = (api or case.handler).clone()
        case.addCleanup(self.api.close)
        self._name, self._says = name, says
        self.stream = self.api.stream("/v1/events?types=hook.*")
        case.addCleanup(self.stream.close)
        self._thread = case.background(self._answer)

    def _answer(self, done):
        seen = 0
        while not done.wait(0.01):
            called = [e.data for e in list(self.stream.events) if e.type == "hook.called" and e.data["data"]["name"] == self._name]
            for event in called[seen:]:
                seen += 1
                self.calls.append(event["data"])
                answer = self._says(event["data"]) if self._says else None
                if answer is not None:
                    self.api.post("/v1/hooks/calls/" + event["data"]["id"], answer)


class HooksCase(ApprovalsCase):
    @classmethod
    def begin(cls, daemon):
        super().begin(daemon)
        cls.handler = cls.daemon.client(cls.daemon.token("viewer", permissions=["hook"]))

    def background(self, work):
        done = threading.Event()
        thread = threading.Thread(target=work, args=(done,), daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(done.set)
        return thread

    def hook(self, *events, name=None, **more):
        """Makes a hook until the end of the test; its name."""
        name = name or "h" + uid(8)
        self.ok(self.api.put("/v1/hooks/" + name, {"events": list(events), **more}), 200, 201)
        self.addCleanup(self.api.delete, "/v1/hooks/" + name)
        return name

    def handled(self, *events, says=None, name=None, api=None, **more):
        """A hook with a handler that answers."""
        name = name or "h" + uid(8)
        handler = Handler(self, name, says, api)
        self.hook(*events, name=name, **more)
        return handler

    def start(self, key, text="hello", api=None, **more):
        return (api or self.api).post(S(key, "main", "runs"), {"input": {"role": "user", "text": text}, **more})

    def told(self, key, types="hook.*,run.*,message.appended,session.updated"):
        """The events of a session so far."""
        epoch = self.ok(self.api.get(S(key)), 200)["asOf"].split("-")[0]
        page = self.ok(self.api.get(S(key, "main", "events") + f"?poll=1&waitMs=5000&limit=1000&after={epoch}-0&types={types}"), 200)
        return page["data"]

    def calls(self, key, name=None):
        return [e["data"] for e in self.told(key, "hook.called") if name in (None, e["data"]["name"])]

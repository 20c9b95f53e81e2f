"""A conversation that goes on while the daemon is killed and started again, and what a client must have seen of it."""

import http.client
import threading
import time

from harness.case import Case, S, json
from harness.sessiond import SLOW, eventually

# Every durable type: EventSource gives a page only those it names.
TYPES = ["session.created", "session.updated", "session.reset", "session.archived", "session.unarchived",
         "session.resumed", "session.forked", "context.cleared",
         "session.deleted", "message.appended", "log.appended", "cost.exceeded", "topic.created", "topic.deleted", "policy.changed", "policy.denied", "lock.evicted", "lock.expired",
         "store.repaired", "store.degraded", "store.external_change", "transcript.renumbered", "config.reloaded", "token.created",
         "token.revoked", "retention.notice", "archive.destroyed", "stream.gap"]


class Talk(Case):
    # A client that comes back finds the daemon down a few times before it is there again.
    config = {"stream": {"retryMs": 200}}
    daemon = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stay(cls.daemon)

    @classmethod
    def stay(cls, daemon):
        """From the next start on it listens where it listens now: clients know nothing but their URL."""
        daemon.config["listen"]["tcp"] = f"127.0.0.1:{daemon.port}"
        daemon.config_file.write_text(json.dumps(daemon.config))

    def setUp(self):
        super().setUp()
        self.key = self.new()["key"]

    def head(self):
        return self.api.get("/v1/sessions?limit=1").json["asOf"]

    def say_through_a_kill(self, down=0.7):
        """Says things without pause while the daemon is killed and `down` seconds later started again; the seq of the
        last event."""
        stop, acknowledged = threading.Event(), []

        def write():
            client = self.daemon.client()
            while not stop.is_set():
                try:
                    reply = client.post(S(self.key, "main", "messages"), {"role": "user", "text": "…"})
                    acknowledged.append(self.ok(reply, 201)["asOf"])
                except (OSError, http.client.HTTPException):
                    time.sleep(0.02)
            client.close()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            eventually(lambda: len(acknowledged) >= 20, what="messages")
            self.daemon.kill9()
            time.sleep(down * SLOW)
            self.daemon.start()
            before = len(acknowledged)
            eventually(lambda: len(acknowledged) >= before + 20, what="messages after the restart")
        finally:
            stop.set()
            writer.join()
        return int(self.head().split("-")[1])

    def check(self, seen, first, last):
        """`seen`: (id, type) of every durable event as the client tells it, in order."""
        self.assertEqual({type_ for _, type_ in seen} - set(TYPES), set())
        self.assertNotIn("stream.gap", [type_ for _, type_ in seen])
        self.assertEqual([int(id_.split("-")[1]) for id_, _ in seen], list(range(first, last + 1)),
                         "every event once, in order")
        self.assertGreater(sum(type_ == "message.appended" for _, type_ in seen), 40)
        self.assertEqual(len({id_.split("-")[0] for id_, _ in seen}), 1, "one epoch")

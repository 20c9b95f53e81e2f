"""Slack, as far as Bolt in socket mode asks for it: the Web API at /api/, events and buttons by WebSocket."""

import json
import threading
import uuid

from standins.platform import Platform


class Slack(Platform):
    channel, bot, account = "slack", "UBOT", "T1"

    def __init__(self):
        super().__init__()
        self.acked = set()   # envelopes that the bridge has acked
        self.waiting = {}    # those that it has not
        self._lock = threading.Lock()

    def env(self):
        return {"SLACK_API_URL": f"http://127.0.0.1:{self.port}/api/", "SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}

    def answer(self, method, path, body):
        self.calls.append((method, path, body))
        name = path.removeprefix("/api/")
        if name == "auth.test":
            return 200, {"ok": True, "user_id": self.bot, "bot_id": "B1", "team_id": self.account}
        if name == "apps.connections.open":
            return 200, {"ok": True, "url": f"ws://127.0.0.1:{self.port}/socket"}
        if name == "chat.postMessage":
            if self.refusals:
                return self.refusals.pop(0)
            message = self.take(body["client_msg_id"], body)
            return 200, {"ok": True, "channel": body["channel"], "ts": f"900.{message['n']:06}", "message": body}
        return 200, {"ok": name == "chat.update"}

    limited = (429, {"ok": False}, {"Retry-After": "1"})
    gone = (200, {"ok": False, "error": "channel_not_found"})

    def talk(self, connection):
        connection.send({"type": "hello"})
        with self._lock:
            self.sockets.append(connection)
            for envelope in self.waiting.values():  # Slack sends again what was not acked
                connection.send(envelope)
        while (said := connection.read()) is not None:
            self.acked.add(said["envelope_id"])
            self.waiting.pop(said["envelope_id"], None)
        if connection in self.sockets:
            self.sockets.remove(connection)

    def _tell(self, type_, payload):
        envelope = {"type": type_, "envelope_id": uuid.uuid4().hex, "payload": payload, "accepts_response_payload": False}
        with self._lock:
            self.waiting[envelope["envelope_id"]] = envelope
            for connection in self.sockets:
                try:
                    connection.send(envelope)
                except OSError:
                    pass
        return envelope["envelope_id"]

    def _event(self, **event):
        return self._tell("events_api", {"type": "event_callback", "team_id": self.account, "event_id": uuid.uuid4().hex, "event": event})

    # -- what people do; peer is U… or C… ------------------------------------------------------------------------------

    def _where(self, peer):
        return {"channel": "D" + peer, "channel_type": "im"} if peer.startswith("U") else {"channel": peer, "channel_type": "channel"}

    def say(self, peer, text, n, user="U1", thread=None, mention=False):
        more = {"thread_ts": self.id(thread)} if thread else {}
        text = f"<@{self.bot}> {text}" if mention else text
        return self._event(type="message", user=user, ts=self.id(n), text=text, **self._where(peer), **more)

    def edit(self, peer, text, n, user="U1"):
        was = {"type": "message", "user": user, "ts": self.id(n), "text": "?"}
        return self._event(type="message", subtype="message_changed", message={**was, "text": text}, previous_message=was,
                           **self._where(peer))

    def delete(self, peer, n, user="U1"):
        was = {"type": "message", "user": user, "ts": self.id(n), "text": "?"}
        return self._event(type="message", subtype="message_deleted", deleted_ts=self.id(n), previous_message=was, **self._where(peer))

    def react(self, peer, emoji, n, user="U1", removed=False):
        item = {"type": "message", "channel": self._where(peer)["channel"], "ts": self.id(n)}
        return self._event(type="reaction_removed" if removed else "reaction_added", user=user, reaction=emoji, item=item)

    def press(self, message, word):
        """A person presses a button of a message of the bot."""
        block = next(block for block in json.loads(message["blocks"]) if block["type"] == "actions")
        button = next(element for element in block["elements"] if element["action_id"] == word)
        self._tell("interactive", {
            "type": "block_actions", "team": {"id": self.account}, "user": {"id": "U1"}, "channel": {"id": message["channel"]},
            "message": {"ts": "900.1", "text": message["text"]}, "actions": [{**button, "block_id": "b", "action_ts": "1"}]})

    # -- what they see -------------------------------------------------------------------------------------------------

    @staticmethod
    def id(n):
        """The platform's id of a person's nth message."""
        return f"100.{n:06}"

    text, given_id = staticmethod(lambda body: body["text"]), staticmethod(lambda body: body["client_msg_id"])

    def updates(self):
        return [body["text"] for _, path, body in self.calls if path == "/api/chat.update"]

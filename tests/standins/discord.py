"""Discord, as far as discord.js asks for it: the REST API below /api/, the gateway by WebSocket."""

import threading

from standins.platform import Platform

GUILD, BOT, DIRECT = "700", "500", "9"   # a direct channel's id is that of the person behind DIRECT


class Discord(Platform):
    channel, bot, account = "discord", BOT, BOT

    def __init__(self):
        super().__init__()
        self.log = []   # the gateway's events in order; the first has seq 1
        self._lock = threading.Lock()

    def env(self):
        return {"DISCORD_API_URL": f"http://127.0.0.1:{self.port}/api", "DISCORD_TOKEN": "abc"}

    def _channel(self, id_):
        if id_.startswith(DIRECT):
            return {"id": id_, "type": 1, "last_message_id": None, "recipients": [self._user(id_.removeprefix(DIRECT))]}
        return {"id": id_, "type": 0, "name": "c", "guild_id": GUILD, "position": 0, "permission_overwrites": []}

    @staticmethod
    def _user(id_, **more):
        return {"id": id_, "username": "u" + id_, "discriminator": "0", "global_name": None, "avatar": None, **more}

    def answer(self, method, path, body):
        self.calls.append((method, path, body))
        parts = path.removeprefix("/api/v10/").split("/")
        if parts == ["gateway", "bot"]:
            limit = {"total": 1000, "remaining": 1000, "reset_after": 1, "max_concurrency": 1}
            return 200, {"url": f"ws://127.0.0.1:{self.port}", "shards": 1, "session_start_limit": limit}
        if parts == ["users", "@me", "channels"]:
            return 200, self._channel(DIRECT + body["recipient_id"])
        if parts[0] == "channels" and len(parts) == 2:
            return 200, self._channel(parts[1])
        if parts[0] == "channels" and parts[2] == "messages":
            if self.refusals:
                return self.refusals.pop(0)
            assert body["enforce_nonce"], "or Discord takes a repeated message as another one"
            message = self.take(body["nonce"], {"channel": parts[1], **body})
            return 200, self._message(parts[1], str(900 + message["n"]), body["content"], self._user(BOT, bot=True))
        return 204, None    # typing, answers to buttons

    limited = (503, {"message": "overloaded", "code": 0})
    gone = (404, {"message": "Unknown Channel", "code": 10003})

    def talk(self, connection):
        connection.send({"op": 10, "d": {"heartbeat_interval": 30_000}})
        while (said := connection.read()) is not None:
            if said["op"] == 1:
                connection.send({"op": 11})
            if said["op"] == 2:     # a new session
                with self._lock:
                    self.log = []
                    self.sockets.append(connection)
                    ready = {"v": 10, "user": self._user(BOT, bot=True), "session_id": "s",
                             "guilds": [{"id": GUILD, "unavailable": True}],
                             "resume_gateway_url": f"ws://127.0.0.1:{self.port}", "application": {"id": BOT, "flags": 0}}
                self._dispatch("READY", ready)
                self._dispatch("GUILD_CREATE", {
                    "id": GUILD, "name": "g", "owner_id": "1", "channels": [self._channel("601"), self._channel("602")], "roles": [],
                    "members": [{"user": self._user(BOT, bot=True), "roles": [], "joined_at": "2026-01-01T00:00:00Z"}], "threads": [], "emojis": [],
                    "stickers": [], "voice_states": [], "presences": [], "features": [], "member_count": 1, "preferred_locale": "en-US",
                    "joined_at": "2026-01-01T00:00:00Z", "stage_instances": [], "guild_scheduled_events": []})
            if said["op"] == 6:     # goes on after a lost connection
                with self._lock:
                    for event in self.log[said["d"]["seq"]:]:
                        connection.send(event)
                    connection.send({"op": 0, "t": "RESUMED", "s": len(self.log), "d": {}})
                    self.sockets.append(connection)
        if connection in self.sockets:
            self.sockets.remove(connection)

    def _dispatch(self, type_, data):
        with self._lock:
            self.log.append({"op": 0, "t": type_, "s": len(self.log) + 1, "d": data})
            for connection in self.sockets:
                try:
                    connection.send(self.log[-1])
                except OSError:
                    pass

    # -- what people do; peer is a person or a channel -----------------------------------------------------------------

    def _where(self, peer):
        return {"channel_id": peer, "guild_id": GUILD} if peer in ("601", "602") else {"channel_id": DIRECT + peer, "channel_type": 1}

    def _message(self, channel, id_, text, author, **more):
        return {"id": id_, "channel_id": channel, "type": 0, "content": text, "author": author, "timestamp": "2026-01-01T00:00:00Z",
                "edited_timestamp": None, "mentions": [], "mention_roles": [], "mention_everyone": False, "attachments": [], "embeds": [],
                "pinned": False, "tts": False, **more}

    def say(self, peer, text, n, user="101", thread=None, mention=False):
        where = self._where(peer)
        if mention:
            text, where["mentions"] = f"<@{BOT}> {text}", [self._user(BOT, bot=True)]
        self._dispatch("MESSAGE_CREATE", self._message(where.pop("channel_id"), self.id(n), text, self._user(user), **where))

    def edit(self, peer, text, n, user="101"):
        where = self._where(peer)
        self._dispatch("MESSAGE_UPDATE", {**self._message(where["channel_id"], self.id(n), text, self._user(user), **where),
                                          "edited_timestamp": "2026-01-01T00:00:01Z"})

    def delete(self, peer, n, user="101"):
        self._dispatch("MESSAGE_DELETE", {"id": self.id(n), **self._where(peer)})

    def react(self, peer, emoji, n, user="101", removed=False):
        self._dispatch("MESSAGE_REACTION_REMOVE" if removed else "MESSAGE_REACTION_ADD",
                       {"user_id": user, "message_id": self.id(n), "emoji": {"id": None, "name": emoji}, **self._where(peer)})

    def press(self, message, word):
        """A person presses a button of a message of the bot."""
        button = next(button for button in message["components"][0]["components"] if button["label"] == word)
        self._dispatch("INTERACTION_CREATE", {
            "id": "801", "application_id": BOT, "type": 3, "token": "t", "version": 1, "channel_id": message["channel"], "user": self._user("101"),
            "data": {"component_type": 2, "custom_id": button["custom_id"]}, "channel": self._channel(message["channel"]), "entitlements": [],
            "message": self._message(message["channel"], "901", message["content"], self._user(BOT, bot=True)), "locale": "en-US",
            "authorizing_integration_owners": {}, "attachment_size_limit": 0})

    # -- what they see -------------------------------------------------------------------------------------------------

    @staticmethod
    def id(n):
        """The platform's id of a person's nth message."""
        return str(1000 + n)

    text, given_id = staticmethod(lambda body: body["content"]), staticmethod(lambda body: body["nonce"])

    def updates(self):
        return [body["data"]["content"] for _, path, body in self.calls if path.endswith("/callback")]

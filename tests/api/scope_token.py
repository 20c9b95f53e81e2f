"""The tokens that the proof of scopes is made with, and a client that lets nothing pass unread."""

import json
import re

# What the proof is made with: role and scope.
SCOPES = {
    "bridge codex slack": ("bridge", {"agents": ["codex"], "channel": "slack"}),
    "viewer codex": ("viewer", {"agents": ["codex"]}),
    "viewer slack": ("viewer", {"channel": "slack"}),
    "viewer prefix": ("viewer", {"keyPrefix": "agent:codex:slack:group:"}),
    "operator codex slack prefix": ("operator", {"agents": ["codex"], "channel": "slack", "keyPrefix": "agent:codex:slack:"}),
    "operator discord": ("operator", {"channel": "discord"}),
    "runner codex slack": ("runner", {"agents": ["codex"], "channel": "slack"}),
    "admin codex": ("admin", {"agents": ["codex"]}),
    "metrics slack": ("metrics", {"channel": "slack"}),
    "operator of an empty channel": ("operator", {"channel": "irc"}),
    "session of a parent": ("session", {"agents": ["codex"], "key": "parent"}),  # Store.bind names the session
}
VOLATILE = {"date", "x-request-id", "content-length"}


class Token:
    """A client that lets nothing pass unread: every answer is searched for words that its scope forbids."""

    def __init__(self, case, name, store):
        self.case, self.name, self.store = case, name, store
        self.role, self.scope = SCOPES[name]
        self.scope = store.bind(self.scope)
        self.text = case.daemon.token(self.role, **self.scope)
        self.client = case.daemon.client(self.text)
        self.cases, self.leaks = 0, []
        self.look_up()

    def look_up(self):
        """What it may not be told, of all that is there by now."""
        self.words = self.store.forbidden(self.scope)

    def ask(self, method, path, body=None, headers=None):
        if method == "GET" and re.search(r"/events(\?|$)", path):
            path += ("&" if "?" in path else "?") + "poll=1&waitMs=0"
        reply = self.client.request(method, path, body, headers)
        self.search(f"{method} {path}", f"{reply.headers}".encode() + reply.raw, json.dumps([path, body, headers]))
        return reply

    def search(self, what, answer, said=""):
        """`said` was the token's own: hearing it again tells nothing."""
        self.cases += 1
        for word in re.findall(rb"zq[0-9a-f]{14}|[0-9a-f-]{36}", answer):
            word = word.decode()
            if word in self.words and word not in said:
                self.leaks.append(f"{self.name}: {what} tells {word} in {answer[:600]!r}")
                return

    def same(self, method, there, absent, body=None, headers=None, rename=()):
        """The answer for what is outside is the one for what is not there, to the byte."""
        answers = []
        for path, names in ((there, rename), (absent, ())):
            reply = self.ask(method, path, body, headers)
            text = reply.raw.replace(b"claude-code, codex, opencode", b"programs")  # not the agent codex
            for name, stand_in in names:
                text = re.sub(rb"\b%s\b" % name.encode(), stand_in.encode(), text)
            text = re.sub(rb'"(instance|requestId)":"[^"]*"', b"", text)
            head = sorted((k.lower(), v) for k, v in reply.headers.items() if k.lower() not in VOLATILE)
            answers.append((reply.status, head, text))
        if answers[0] != answers[1]:
            self.leaks.append(f"{self.name}: {method} {there} {body} {headers} -> {answers[0]}, but {absent} -> {answers[1]}")

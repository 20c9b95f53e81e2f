"""Every role on every route of openapi.json: the answer is what the route's x-permission says. Routes are taken from the
document, so a new one is tested without touching this file; names in paths are of nothing that is there, so whoever gets
past the door spoils nothing."""

import re
import time

from harness.case import Case, uid
from harness.sessiond import eventually
from harness.sse import StreamRefused

runs = {"release"}

METHODS = ("get", "put", "post", "delete", "patch")
# The permissions of each role. Every token has `self` and `mcp`, too; routes with `open` need no token.
GRANTS = {
    "admin": {"read", "stream", "ticket", "write", "append", "spawn", "bridge", "send", "deliver", "run", "abort", "approvals", "approve", "takeover", "hook", "policy", "maintenance", "tokens", "metrics"},
    "operator": {"read", "stream", "ticket", "write", "append", "spawn", "bridge", "send", "deliver", "run", "abort", "approvals", "approve", "takeover", "hook", "policy", "maintenance", "metrics"},
    "bridge": {"read", "stream", "ticket", "bridge", "send", "deliver", "abort", "approvals"},
    "runner": {"read", "stream", "ticket", "write", "append", "spawn", "send", "run", "abort", "approvals"},
    "viewer": {"read", "stream", "ticket", "approvals"},
    "metrics": {"metrics"},
    "session": {"read", "stream", "append", "spawn", "approvals"},
}
# Tokens of these roles are limited; others see everything. A granted route may be for tokens that see everything only: a 403 that
# names no permission.
LIMITS = {"session": {"agents": ["main"], "key": "agent:main:slack:direct:u1"}}
KNOWN = {"open", "self", "mcp"}.union(*GRANTS.values())


class Matrix(Case):
    config = {"limits": {"failedLoginsPerMinute": 0}}  # hundreds of wrong tokens come from here

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        document = cls.daemon.anonymous().get("/openapi.json").json
        cls.routes = [(method.upper(), path, item[method].get("x-permission")) for path, item in document["paths"].items()
                      for method in METHODS if method in item]
        cls.tokens = {role: cls.daemon.token(role, **LIMITS.get(role, {})) for role in GRANTS}
        cls.bad = cls.bad_tokens()

    @classmethod
    def bad_tokens(cls):
        revoked, rotated = (cls.api.post("/v1/admin/tokens", {"role": "admin"}).json for _ in range(2))
        cls.api.delete("/v1/admin/tokens/" + revoked["id"])
        cls.api.post(f"/v1/admin/tokens/{rotated['id']}/rotate", {"overlapMs": 0})
        expired = cls.api.post("/v1/admin/tokens", {"role": "admin", "expiresAt": int(time.time() * 1000) + 300}).json
        client = cls.daemon.client(expired["token"])
        eventually(lambda: client.get("/v1/whoami").status == 401, 5, what="the token's end")
        right = cls.daemon.admin_token
        wrong = right[:-1] + ("A" if right[-1] != "A" else "B")
        swapped = right[:12] + cls.tokens["viewer"][12:]
        return {"none": None, "revoked": revoked["token"], "rotated away": rotated["token"], "expired": expired["token"],
                "wrong secret": wrong, "another's secret": swapped, "of nobody": "sd_" + "z" * 8 + "_" + "A" * 43}

    def ticket(self):
        return self.ok(self.api.post("/v1/stream-tickets"), 201)["ticket"]

    def ask(self, method, path, token, query="", permission=None):
        """Status, and what a 403 says is missing."""
        named = re.sub(r"\{agent\}", "main", path)
        target = re.sub(r"\{[^}]*\}", "zz" + uid(6), named)
        if permission == "stream":  # a page instead of a stream that does not end
            query = query + ("&" if query else "?") + "poll=1&waitMs=0"
        client = self.daemon.client(token) if token else self.daemon.anonymous()
        try:
            reply = client.request(method, target + query, b"{}" if method in ("POST", "PUT", "PATCH") else None)
        finally:
            client.close()
        body = reply.json if reply.status == 403 else None
        return reply.status, body and body.get("permission"), reply

    def expect(self, who, method, path, permission, granted, token, query="", unauthorized=False):
        status, missing, reply = self.ask(method, path, token, query, permission)
        self.cases += 1
        if unauthorized:
            right = status == 401 and (method == "HEAD" or b'"unauthorized"' in reply.raw)
        elif granted:
            limited = who in LIMITS and status == 403 and not missing
            right = limited or (status not in (401, 403, 405, 429) and status < 500)
        else:
            right = status == 403 and (method == "HEAD" or missing == permission)
        if not right:
            self.wrong.append(f"{who}: {method} {path}{query} ({permission}) -> {reply}")

    def test_every_role_on_every_route(self):
        self.cases, self.wrong = 0, []
        for method, path, permission in self.routes:
            self.assertIn(permission, KNOWN, f"{method} {path}")
            forms = [method] + (["HEAD"] if method == "GET" and permission != "stream" else [])
            for form in forms:
                for role, token in self.tokens.items():
                    granted = permission in GRANTS[role] or permission in ("open", "self", "mcp")
                    self.expect(role, form, path, permission, granted, token)
                for who, token in self.bad.items():
                    self.expect(who, form, path, permission, True, token, unauthorized=permission != "open")
                ticket = self.ticket()
                self.expect("a ticket", form, path, permission, True, None, "?ticket=" + ticket,
                            unauthorized=permission not in ("open", "stream"))
                self.expect("a ticket as a token", form, path, permission, True, ticket, unauthorized=permission != "open")
        print(f"role x route matrix: {len(self.routes)} routes, {self.cases} cases, {len(self.wrong)} wrong", flush=True)
        self.assertFalse(self.wrong, "\n".join(self.wrong))

    def test_streams_open_for_whom_pages_do(self):
        for method, path, permission in self.routes:
            if permission != "stream" or "{key}" in path:
                continue
            for who, token in {**self.tokens, **self.bad}.items():
                with self.subTest(f"{who} {path}"):
                    client = self.daemon.client(token) if token else self.daemon.anonymous()
                    try:
                        with client.stream(path.replace("{agent}", "main")) as stream:
                            stream.wait_type("stream.hello")
                            status = 200
                    except StreamRefused as refused:
                        status = refused.status
                    self.assertEqual(status, 401 if who in self.bad else 200 if "stream" in GRANTS[who] else 403)

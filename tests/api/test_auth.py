"""Who may do what: tokens, roles, scopes, the unix socket."""

import os
import pty
import stat
import subprocess
import time

from harness.case import Case, S, json, uid
from harness.sessiond import SLOW, binary, eventually
from harness.sse import StreamRefused


class FirstStart(Case):
    def test_admin_token_is_made_once_and_private(self):
        daemon = self.spawn()
        token = daemon.admin_token
        self.assertRegex(token, r"^sd_[A-Za-z0-9]+_[A-Za-z0-9_-]{43}$")
        path = daemon.home / "config" / "sessiond" / "admin.token"
        eventually(lambda: any(str(path) in line for line in daemon.stderr), what="the name of the token's file")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE((daemon.state / "tokens.json").stat().st_mode), 0o600)
        self.assertNotIn(token.split("_", 2)[2], (daemon.state / "tokens.json").read_text(),
                         "only its SHA-256 is stored")
        daemon.restart()
        self.assertEqual(daemon.admin_token, token)
        self.assertNotIn(token, "".join(daemon.stdout + daemon.stderr), "a pipe is no terminal")
        self.ok(daemon.client(token).get("/v1/whoami"), 200)

    def test_the_first_token_is_printed_once_on_a_terminal(self):
        daemon = self.spawn(start=False)
        for shown in (True, False):
            controller, terminal = pty.openpty()
            self.addCleanup(os.close, controller)
            command = [binary(), "serve", "--state-dir", daemon.state, "--listen", "127.0.0.1:0"]
            environment = {**os.environ, "HOME": str(daemon.home), "XDG_CONFIG_HOME": str(daemon.home / "config")}
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE, env=environment) as process:
                os.close(terminal)
                for line in process.stderr:
                    if b"msg=listening" in line:
                        break
                process.terminate()
                process.stderr.read()
            printed = b""
            while True:
                try:
                    piece = os.read(controller, 4096)
                except OSError:  # nobody has the terminal any more
                    break
                if not piece:
                    break
                printed += piece
            self.assertEqual(printed.count(daemon.admin_token.encode()), 1 if shown else 0)


class Tokens(Case):
    def test_no_token(self):
        reply = self.daemon.anonymous().get("/v1/sessions")
        self.problem(reply, 401, "unauthorized")
        self.assertTrue(reply.headers["WWW-Authenticate"].startswith("Bearer"))

    def test_wrong_tokens(self):
        right = self.daemon.admin_token
        for header in ("Bearer " + right[:-1] + ("A" if right[-1] != "A" else "B"), "Bearer sd_nosuch_" + "a" * 43,
                       "Bearer ",
                       "Basic dXNlcjpwYXNz", "Bearer " + right + "x"):
            with self.subTest(header[:20]):
                reply = self.daemon.anonymous().get("/v1/sessions", headers={"Authorization": header})
                self.problem(reply, 401, "unauthorized")

    def test_scheme_is_case_insensitive(self):
        reply = self.daemon.anonymous().get("/v1/whoami",
                                            headers={"Authorization": "bearer " + self.daemon.admin_token})
        self.ok(reply, 200)

    def test_create_list_revoke(self):
        made = self.ok(self.api.post("/v1/admin/tokens",
                                     {"role": "viewer", "agents": ["main"], "note": "für den Flur"}), 201)
        self.assertRegex(made["token"], r"^sd_[A-Za-z0-9]+_[A-Za-z0-9_-]{43}$")
        self.assertEqual(made["token"].split("_")[1], made["id"], "the id is the middle part of the token")
        listed = self.api.get("/v1/admin/tokens")
        self.assertNotIn(made["token"].encode(), listed.raw, "shown only once")
        row = next(t for t in self.ok(listed, 200)["data"] if t["id"] == made["id"])
        self.assertEqual((row["role"], row["agents"], row["note"]), ("viewer", ["main"], "für den Flur"))
        viewer = self.daemon.client(made["token"])
        self.assertEqual(self.ok(viewer.get("/v1/whoami"), 200)["role"], "viewer")
        self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
        self.problem(viewer.get("/v1/whoami"), 401, "unauthorized")
        self.problem(self.api.delete("/v1/admin/tokens/" + made["id"]), 404)
        self.assertNotIn(made["id"], [t["id"] for t in self.api.get("/v1/admin/tokens").json["data"]])

    def test_tokens_outlive_a_restart(self):
        daemon = self.spawn()
        token = daemon.token("bridge")
        gone = self.ok(daemon.client().post("/v1/admin/tokens", {"role": "bridge"}), 201)
        self.ok(daemon.client().delete("/v1/admin/tokens/" + gone["id"]), 204)
        daemon.restart(kill=True)
        self.ok(daemon.client(token).get("/v1/whoami"), 200)
        self.problem(daemon.client(gone["token"]).get("/v1/whoami"), 401)

    def test_validation(self):
        self.invalid(self.api.post("/v1/admin/tokens", {"role": "emperor"}), "/role")
        self.invalid(self.api.post("/v1/admin/tokens", {}), "/role")
        self.invalid(self.api.post("/v1/admin/tokens", {"role": "viewer", "agent": "main"}), "/agent")

    def test_expiry(self):
        made = self.ok(self.api.post("/v1/admin/tokens",
                                     {"role": "viewer", "expiresAt": int(time.time() * 1000) + int(1500 * SLOW)}), 201)
        client = self.daemon.client(made["token"])
        self.ok(client.get("/v1/whoami"), 200)
        eventually(lambda: client.get("/v1/whoami").status == 401, 10, what="the token's end")

    def test_whoami(self):
        body = self.ok(self.api.get("/v1/whoami"), 200)
        self.assertEqual(body["role"], "admin")
        self.assertEqual(body["id"], self.daemon.admin_token.split("_")[1])
        scoped = self.daemon.client(self.daemon.token("bridge", agents=["main"], keyPrefix="agent:main:slack:",
                                                      channel="slack"))
        body = self.ok(scoped.get("/v1/whoami"), 200)
        self.assertEqual((body["role"], body["agents"], body["keyPrefix"], body["channel"]),
                         ("bridge", ["main"], "agent:main:slack:", "slack"))

    def test_last_used_is_told(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        self.ok(self.daemon.client(made["token"]).get("/v1/whoami"), 200)
        row = next(t for t in self.api.get("/v1/admin/tokens").json["data"] if t["id"] == made["id"])
        self.assertGreater(row["lastUsed"], 1_600_000_000_000)

    def test_events_of_tokens(self):
        with self.api.stream("/v1/events?types=token.*") as stream:
            made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
            event = stream.wait_for(lambda e: e.type == "token.created" and e.data["data"]["id"] == made["id"])
            self.assertEqual(event.data["data"]["role"], "viewer")
            self.assertNotIn(made["token"], event.raw)
            self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
            stream.wait_for(lambda e: e.type == "token.revoked" and e.data["data"]["id"] == made["id"])

    def test_streams_of_a_revoked_token_end(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        with self.daemon.client(made["token"]).stream() as stream:
            stream.wait_type("stream.hello")
            self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
            stream.wait_end(3)

    def test_failed_logins_are_slowed_but_the_right_token_is_not(self):
        daemon = self.spawn()
        nobody = daemon.anonymous()
        statuses = set()
        for i in range(100):
            reply = nobody.get("/v1/sessions", headers={"Authorization": f"Bearer sd_x{i}_" + "b" * 43})
            statuses.add(reply.status)
            if reply.status == 429:
                self.problem(reply, 429, "too_many_requests")
                self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
                break
        self.assertLessEqual(statuses, {401, 429})
        self.ok(daemon.client().get("/v1/whoami"), 200)


class CommandLine(Case):
    def test_create_list_revoke_beside_a_running_daemon(self):
        made = self.daemon.cli("token", "create", "--role", "bridge", "--agent", "main", "--note", "from a shell")
        self.assertEqual(made.returncode, 0, made.stderr)
        token = made.stdout.strip()
        self.assertRegex(token, r"^sd_[A-Za-z0-9]+_[A-Za-z0-9_-]{43}$", "the token alone on stdout")
        body = self.ok(self.daemon.client(token).get("/v1/whoami"), 200)
        self.assertEqual((body["role"], body["agents"]), ("bridge", ["main"]))
        listed = self.daemon.cli("token", "list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn(body["id"], listed.stdout)
        self.assertIn("from a shell", listed.stdout)
        self.assertNotIn(token, listed.stdout)
        revoked = self.daemon.cli("token", "revoke", body["id"])
        self.assertEqual(revoked.returncode, 0, revoked.stderr)
        self.problem(self.daemon.client(token).get("/v1/whoami"), 401)
        self.assertNotEqual(self.daemon.cli("token", "revoke", body["id"]).returncode, 0,
                            "there is no such token any more")

    def test_offline(self):
        daemon = self.spawn()
        daemon.stop()
        made = daemon.cli("token", "create", "--role", "viewer", "--key-prefix", "agent:main:slack:", "--channel",
                          "slack")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(stat.S_IMODE((daemon.state / "tokens.json").stat().st_mode), 0o600)
        gone = daemon.cli("token", "create", "--role", "viewer").stdout.strip()
        self.assertEqual(daemon.cli("token", "revoke", gone.split("_")[1]).returncode, 0)
        daemon.start()
        body = self.ok(daemon.client(made.stdout.strip()).get("/v1/whoami"), 200)
        self.assertEqual((body["keyPrefix"], body["channel"]), ("agent:main:slack:", "slack"))
        self.problem(daemon.client(gone).get("/v1/whoami"), 401)

    def test_wrong_role(self):
        made = self.daemon.cli("token", "create", "--role", "emperor")
        self.assertNotEqual(made.returncode, 0)
        self.assertEqual(made.stdout, "")
        self.assertIn("role", made.stderr)


class UnixSocket(Case):
    def test_the_own_uid_is_admin_without_a_token(self):
        mode = (self.daemon.home / "s.sock").stat().st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        local = self.daemon.local()
        self.assertEqual(self.ok(local.get("/v1/whoami"), 200)["role"], "admin")
        session = self.new(api=local)
        self.ok(local.post(S(session["key"], "main", "messages"), {"role": "user", "text": "over the socket"}), 201)
        self.ok(local.post("/v1/admin/tokens", {"role": "viewer"}), 201)

    def test_the_socket_goes_and_comes_with_the_daemon(self):
        daemon = self.spawn()
        daemon.restart(kill=True)  # a socket file left by kill -9 does not keep the next one from starting
        self.ok(daemon.local().get("/v1/whoami"), 200)
        daemon.stop()
        self.assertFalse((daemon.home / "s.sock").exists())


# What each role may do on a sample of routes; True: not 401, 403 or 404.
PERMITTED = {
    "list": {"admin", "operator", "bridge", "viewer"},
    "get": {"admin", "operator", "bridge", "viewer"},
    "messages": {"admin", "operator", "bridge", "viewer"},
    "policy": {"admin", "operator", "viewer"},
    "patch": {"admin", "operator"},
    "append": {"admin", "operator"},
    "reset": {"admin", "operator"},
    "create": {"admin", "operator"},
    "inbound": {"admin", "bridge"},
    "outbound": {"admin", "bridge"},
    "route": {"admin", "bridge"},
    "checkpoint": {"admin", "operator"},
    "tokens": {"admin"},
    "mint": {"admin"},
    "metrics": {"admin", "metrics"},
}
UNSAID = {("policy", "bridge"), ("inbound", "operator"), ("outbound", "operator"), ("route", "operator"),
          ("metrics", "operator"), ("metrics", "viewer"), ("metrics", "bridge")}  # the contract leaves these open


class Roles(Case):
    def requests(self, key):
        return {
            "list": ("GET", "/v1/agents/main/sessions", None),
            "get": ("GET", S(key), None),
            "messages": ("GET", S(key, "main", "messages"), None),
            "policy": ("GET", "/v1/policy/send", None),
            "patch": ("PATCH", S(key), {"label": uid()}),
            "append": ("POST", S(key, "main", "messages"), {"role": "user", "text": "x"}),
            "reset": ("POST", S(key, "main", "reset"), {}),
            "create": ("POST", "/v1/agents/main/sessions", {"key": "agent:main:slack:channel:" + uid()}),
            "inbound": ("POST", "/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": "U1", "text": "x"}),
            "outbound": ("POST", S(key, "main", "outbound"), {"text": "x"}),
            "route": ("PUT", S(key, "main", "route"), {"channel": "slack", "to": "C1"}),
            "checkpoint": ("POST", "/v1/admin/checkpoint", None),
            "tokens": ("GET", "/v1/admin/tokens", None),
            "mint": ("POST", "/v1/admin/tokens", {"role": "viewer"}),
            "metrics": ("GET", "/metrics", None),
        }

    def test_roles_by_routes(self):
        session = self.new()
        for role in ("admin", "operator", "bridge", "viewer", "metrics"):
            client = self.daemon.client(self.daemon.token(role))
            for name, (method, path, body) in self.requests(session["key"]).items():
                if (name, role) in UNSAID:
                    continue
                with self.subTest(f"{role} {name}"):
                    reply = client.request(method, path, body)
                    if role in PERMITTED[name]:
                        self.ok(reply)
                    else:
                        problem = self.problem(reply, 403, "forbidden")
                        self.assertTrue(problem["detail"], "names the scope that is missing")
            self.ok(client.get("/v1/whoami"), 200)

    def test_streams(self):
        for role, may in {"operator": True, "bridge": True, "viewer": True, "metrics": False}.items():
            client = self.daemon.client(self.daemon.token(role))
            if may:
                with client.stream() as stream:
                    stream.wait_type("stream.hello")
            else:
                with self.assertRaises(StreamRefused) as refused:
                    client.stream()
                self.assertEqual(refused.exception.status, 403)

    def test_a_refused_write_leaves_no_trace(self):
        session = self.new(label="before")
        viewer = self.daemon.client(self.daemon.token("viewer"))
        self.problem(viewer.patch(S(session["key"]), {"label": "after"}), 403, "forbidden")
        self.problem(viewer.post(S(session["key"], "main", "messages"), {"role": "user", "text": "x"}), 403,
                     "forbidden")
        self.problem(viewer.delete(S(session["key"])), 403, "forbidden")
        self.assertEqual(self.api.get(S(session["key"])).json["label"], "before")
        self.assertEqual(self.messages(session["key"]), [])


class Scopes(Case):
    """Outside its scope a token finds 404; 403 where the path names an agent it has not."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for agent in ("main", "codex"):
            for channel in ("slack", "telegram"):
                for peer in ("a", "b"):
                    reply = cls.api.post("/v1/inbound", {"agent": agent, "channel": channel, "chatType": "group",
                                                         "peer": peer,
                                                         "from": "u", "text": f"{agent} {channel} {peer}"})
                    assert reply.status == 201, reply

    def keys(self, client, path="/v1/sessions"):
        return sorted(s["key"] for s in self.ok(client.get(path), 200)["data"])

    def test_agents(self):
        client = self.daemon.client(self.daemon.token("bridge", agents=["main"]))
        for path in ("", "/sessions", "/archives", "/sessions/agent:codex:slack:group:a", "/sessions/agent:codex:slack:group:a/messages",
                     "/sessions/agent:codex:slack:group:nosuch"):
            self.problem(client.get("/v1/agents/codex" + path), 403, "forbidden")
        operator = self.daemon.client(self.daemon.token("operator", agents=["main"]))
        self.problem(operator.patch(S("agent:codex:slack:group:a", "codex"), {"label": "x"}), 403, "forbidden")
        self.problem(operator.delete(S("agent:codex:slack:group:a", "codex")), 403, "forbidden")
        self.assertEqual({key.split(":")[1] for key in self.daemon.sessions_json("codex")}, {"codex"})
        self.assertEqual({key.split(":")[1] for key in self.daemon.sessions_json("main")}, {"main"})
        self.assertEqual([a["agent"] for a in self.ok(client.get("/v1/agents"), 200)["data"]], ["main"])
        self.assertTrue(all(k.startswith("agent:main:") for k in self.keys(client)))
        self.assertEqual(len(self.keys(client)), len(self.keys(self.api, "/v1/agents/main/sessions")))
        reply = client.post("/v1/inbound", {"agent": "codex", "channel": "slack", "chatType": "direct", "peer": "x",
                                            "text": "x"})
        self.assertIn(reply.status, (403, 404), reply)

    def test_key_prefix(self):
        client = self.daemon.client(self.daemon.token("bridge", keyPrefix="agent:main:slack:"))
        self.assertEqual(self.keys(client), ["agent:main:slack:group:a", "agent:main:slack:group:b"])
        self.problem(client.get(S("agent:main:telegram:group:a")), 404, "session_not_found")
        self.problem(client.get(S("agent:main:telegram:group:a", "main", "messages")), 404, "session_not_found")
        self.ok(client.get(S("agent:main:slack:group:a")), 200)
        # A session id is no way around the prefix.
        other = self.api.get(S("agent:main:telegram:group:a")).json["sessionId"]
        self.problem(client.get(S(other)), 404, "session_not_found")
        reply = client.post("/v1/inbound", {"channel": "telegram", "chatType": "group", "peer": "a", "text": "x"})
        self.assertIn(reply.status, (403, 404), reply)

    def test_channel(self):
        client = self.daemon.client(self.daemon.token("bridge", channel="telegram"))
        self.assertEqual(self.keys(client), sorted(f"agent:{a}:telegram:group:{p}" for a in ("main", "codex")
                                                   for p in "ab"))
        self.problem(client.get(S("agent:main:slack:group:a")), 404, "session_not_found")
        reply = client.post("/v1/inbound", {"channel": "slack", "chatType": "group", "peer": "a", "text": "x"})
        self.assertIn(reply.status, (403, 404), reply)
        self.ok(client.post("/v1/inbound", {"channel": "telegram", "chatType": "group", "peer": "a", "text": "y"}), 201)

    def test_streams_show_only_the_scope_live_and_replayed(self):
        client = self.daemon.client(self.daemon.token("bridge", keyPrefix="agent:main:slack:", channel="slack"))
        start = self.api.get("/v1/sessions").json["asOf"]
        mark = "scope " + uid()
        with client.stream("/v1/events?after=" + start) as live:
            live.wait_type("stream.hello")
            for agent, channel in (("codex", "slack"), ("main", "telegram"), ("main", "slack")):
                self.inbound(agent=agent, channel=channel, chatType="group", peer="a", text=f"{mark} {agent} {channel}")
            seen = live.wait_for(lambda e: mark in e.raw)
            self.assertIn(f"{mark} main slack", seen.raw)
        with client.stream("/v1/events?after=" + start) as replay:
            replay.wait_for(lambda e: mark in e.raw)
        for stream in (live, replay):
            self.assertEqual({e.data.get("key") for e in stream.durable}, {"agent:main:slack:group:a"})

    def test_events_without_a_key_need_the_whole_agent(self):
        narrow = self.daemon.client(self.daemon.token("viewer", keyPrefix="agent:main:"))
        agent = self.daemon.client(self.daemon.token("viewer", agents=["main"]))
        whole = self.daemon.client(self.daemon.token("viewer"))
        with narrow.stream() as a, agent.stream() as b, whole.stream() as c:
            for stream in (a, b, c):
                stream.wait_type("stream.hello")
            made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
            mark = "after the token " + uid()
            self.inbound(channel="slack", chatType="group", peer="a", text=mark)
            c.wait_for(lambda e: e.type == "token.created" and e.data["data"]["id"] == made["id"])
            for stream in (a, b, c):
                stream.wait_for(lambda e: mark in e.raw)
            for stream in (a, b):
                self.assertFalse([e for e in stream.durable if e.type.startswith("token.")],
                                 "tokens concern the whole store")

    def test_stream_of_another_agent(self):
        client = self.daemon.client(self.daemon.token("viewer", agents=["main"]))
        with self.assertRaises(StreamRefused) as refused:
            client.stream("/v1/agents/codex/events")
        self.assertEqual(refused.exception.status, 403)
        self.assertEqual(json.loads(refused.exception.body)["code"], "forbidden")

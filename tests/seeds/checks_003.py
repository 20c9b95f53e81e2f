"""What the rows of 003.table try, against a real daemon. Each method is one row, and says what it holds."""

import json
import os
import stat
import threading
import time

from harness.case import Case, S, uid
from harness.sessiond import SLOW, eventually

ALL = "/v1/agents/{}/sessions"
IMAGE = "https://example.com/image.png"
RULES = [{"match": {"channel": "discord", "chatType": "group"}, "action": "deny"},
         {"match": {"keyPrefix": "agent:main:slack"}, "action": "allow"}]


class Checks(Case):
    config = {"session": {"spawn": {"depth": 3, "count": 5}, "reset": {"mode": "idle", "idleMinutes": 60}}}

    # -- helpers -----------------------------------------------------------------------------------------------------

    def get(self, key, agent="main"):
        return self.ok(self.api.get(S(key, agent)), 200)

    def stored(self, key, agent="main"):
        self.daemon.checkpoint()
        return self.daemon.sessions_json(agent)[key]

    def patched(self, key=None, **fields):
        """Every field is written, served, and in sessions.json."""
        key = key or self.new()["key"]
        self.ok(self.api.patch(S(key), fields), 200)
        session, stored = self.get(key), self.stored(key)
        for name, value in fields.items():
            self.assertEqual((session.get(name), stored.get(name)), (value, value), name)
        return key

    def lines(self, session, topic=None, agent="main"):
        self.daemon.checkpoint()
        name = session["sessionId"] + (f"-topic-{topic}" if topic else "") + ".jsonl"
        return [json.loads(line) for line in (self.daemon.agent_dir(agent) / name).read_text().splitlines()]

    def foreign(self, agent, entries, **named):
        """A daemon that finds this store of a foreign program."""
        daemon = self.spawn(start=False, **named)
        daemon.agent_dir(agent).mkdir(parents=True)
        file = daemon.agent_dir(agent) / "sessions.json"
        file.write_text(json.dumps(entries))
        return daemon.start(), file

    def cleared(self, key, *names):
        self.ok(self.api.post(S(key, "main", "reset")), 200)
        session = self.get(key)
        for name in names:
            self.assertIn(session.get(name), (None, 0), name)

    # -- architecture ------------------------------------------------------------------------------------------------

    def layout(self):
        made = self.inbound(topic="123")
        self.say(made["sessionKey"])
        self.daemon.checkpoint()
        names = {path.name for path in self.daemon.agent_dir().iterdir()}
        self.assertLessEqual({"sessions.json", made["sessionId"] + ".jsonl", made["sessionId"] + "-topic-123.jsonl"}, names)

    def agent_isolation(self):
        self.new("agent:codex:x:" + uid())
        self.daemon.checkpoint()
        self.assertNotEqual(self.daemon.agent_dir("main"), self.daemon.agent_dir("codex"))
        self.assertFalse(set(self.daemon.sessions_json("codex")) & set(self.daemon.sessions_json("main")))
        main = self.daemon.client(self.daemon.token("operator", agents=["main"]))
        for path in ("", "/sessions", "/sessions/x", "/sessions/x/messages", "/archives"):
            self.problem(main.get("/v1/agents/codex" + path), 403, "forbidden")

    def paths(self):
        session = self.new()
        printed = self.daemon.cli("paths", "--agent", "main", "--session", session["key"], "--topic", "123").stdout
        folder = self.daemon.agent_dir()
        self.assertEqual(printed.split(), [str(folder / "sessions.json"), str(folder / f"{session['sessionId']}.jsonl"),
                                           str(folder / f"{session['sessionId']}-topic-123.jsonl")])
        daemon = self.spawn({"store": {"pathTemplate": "stores/{agentId}/index.json"}})
        self.new(api=daemon.client())
        daemon.client().post("/v1/admin/checkpoint")
        self.assertTrue((daemon.state / "stores/main/index.json").exists())
        self.assertEqual(self.get(session["key"])["paths"], dict(zip(("store", "transcript"), printed.split())))
        daemon = self.spawn({"store": {"pathTemplate": "~/agents/{agentId}/sessions/sessions.json", "allowOutside": True}})
        self.new(api=daemon.client())
        daemon.client().post("/v1/admin/checkpoint")
        self.assertTrue((daemon.home / "home" / "agents/main/sessions/sessions.json").exists())

    # -- the entry ---------------------------------------------------------------------------------------------------

    def core_fields(self):
        parent = self.new()["key"]
        key = self.new()["key"]
        for name, value in (("sessionId", "x"), ("updatedAt", 1), ("spawnedBy", parent), ("spawnDepth", 0)):
            self.invalid(self.api.patch(S(key), {name: value}), "/" + name)
        before = self.get(key)
        self.say(key)
        self.assertGreaterEqual(self.get(key)["updatedAt"], before["updatedAt"])
        self.assertRegex(before["sessionId"], r"^[0-9a-f]{8}-[0-9a-f]{4}-4")
        self.invalid(self.api.post(ALL.format("main"), {"entry": {"spawnedBy": "agent:codex:x"}}), "/entry/spawnedBy")
        made = self.ok(self.api.put(S(key + "i"), {"sessionId": "s-" + uid(), "updatedAt": 5, "spawnedBy": parent}), 201)
        self.assertEqual((made["updatedAt"], made["spawnedBy"], made["spawnDepth"]), (5, parent, 1))
        self.ok(self.api.patch(S(key), {"sessionFile": "/etc/passwd"}), 200)
        self.assertIn(self.api.get(S(key, "main", "transcript")).status, (200, 404))
        self.assertNotIn(b"root:", self.api.get(S(key, "main", "transcript")).raw)

    def sdk_fields(self):
        key = self.patched(sdkSessionId=uid(), cliSessionIds={"codex-cli": uid()}, claudeCliSessionId=uid())
        self.cleared(key, "sdkSessionId", "cliSessionIds", "claudeCliSessionId")
        daemon, file = self.foreign("main", {"agent:main:x:1": {"sessionId": "a", "updatedAt": 1, "claudeCliSessionId": "c"}})
        before = file.read_bytes()
        self.assertEqual(self.ok(daemon.client().get(S("agent:main:x:1")), 200)["sdkSessionId"], "c")
        self.assertEqual(file.read_bytes(), before)

    def delivery(self):
        key = self.new()["key"]
        self.ok(self.api.patch(S(key), {"lastChannel": " Slack ", "lastTo": "u1", "lastThreadId": 42, "lastAccountId": "a"}), 200)
        session, stored = self.get(key), self.stored(key)
        self.assertEqual(session["deliveryContext"], {"channel": "slack", "to": "u1", "accountId": "a", "threadId": 42})
        self.assertEqual(stored["lastChannel"], "slack")
        self.ok(self.api.patch(S(key), {"deliveryContext": {"to": "u2"}}), 200)
        self.assertEqual(self.get(key)["lastTo"], "u2")
        self.ok(self.api.patch(S(key), {"lastAccountId": ""}), 200)
        self.assertNotIn("accountId", self.get(key)["deliveryContext"])
        made = self.inbound(channel="slack", accountId="A1")
        self.assertEqual(self.get(made["sessionKey"])["lastChannel"], "slack")

    def group_fields(self):
        key = self.patched(chatType="group", groupId="g", subject="s", groupChannel="#c", space="w", displayName="d")
        self.ok(self.api.patch(S(key), {"chatType": "dm"}), 200)
        self.assertEqual((self.get(key)["chatType"], self.stored(key)["chatType"]), ("direct", "direct"))

    def send_policy(self):
        key = self.patched(sendPolicy="deny")
        self.invalid(self.api.patch(S(key), {"sendPolicy": "maybe"}), "/sendPolicy")
        self.ok(self.api.put(S(key, "main", "send-policy"), {"action": "inherit"}), 200)
        self.assertNotIn("sendPolicy", self.get(key))

    def group_activation(self):
        peer = uid()
        said = lambda **more: self.inbound(chatType="group", peer=peer, **more)
        answers = [said(), said(mentioned=True), said(mentioned=True)]
        self.assertEqual([(a["activate"], a["systemIntro"]) for a in answers], [(False, False), (True, True), (True, False)])
        key = answers[0]["sessionKey"]
        self.ok(self.api.patch(S(key), {"groupActivation": "always"}), 200)
        self.assertTrue(said()["activate"])
        self.ok(self.api.post(S(key, "main", "reset")), 200)
        self.assertTrue(self.get(key)["groupActivationNeedsSystemIntro"])
        self.assertTrue(said()["systemIntro"])

    def model_fields(self):
        fields = {"providerOverride": "p", "modelOverride": "m", "authProfileOverride": "a", "authProfileOverrideSource": "user"}
        key = self.patched(**fields, authProfileOverrideCompactionCount=1)
        self.invalid(self.api.patch(S(key), {"authProfileOverrideSource": "x"}), "/authProfileOverrideSource")
        self.ok(self.api.post(S(key, "main", "reset")), 200)
        session = self.get(key)
        self.assertEqual({name: session.get(name) for name in fields}, fields)

    def exec_fields(self):
        self.patched(execHost="h", execSecurity="s", execAsk="a", execNode="n")

    def ui_fields(self):
        key = self.patched(thinkingLevel="high", verboseLevel="on", reasoningLevel="on", elevatedLevel="off",
                           responseUsage="full", ttsAuto="inbound")
        self.invalid(self.api.patch(S(key), {"responseUsage": "x", "ttsAuto": "sometimes"}), "/responseUsage", "/ttsAuto")

    def queue_fields(self):
        key = self.patched(queueMode="collect", queueDebounceMs=500, queueCap=20, queueDrop="summarize")
        self.invalid(self.api.patch(S(key), {"queueMode": "x", "queueDebounceMs": -5, "queueCap": 1.5, "queueDrop": "x"}),
                     "/queueMode", "/queueDebounceMs", "/queueCap", "/queueDrop")
        busy = self.patched(queueMode="followup", queueDebounceMs=0, queueCap=1, queueDrop="new")
        ask = lambda text: self.api.post(S(busy, "main", "runs"), {"input": {"role": "user", "text": text}})  # noqa: E731
        self.assertEqual([ask("at work").status, ask("waits").status], [201, 202])
        self.problem(ask("refused"), 409, "queue_full")
        self.ok(self.api.patch(S(busy), {"queueDrop": "old"}), 200)
        newest = self.ok(ask("newest"), 202)["runId"]
        listed = self.ok(self.api.get(S(busy, "main", "runs")), 200)["data"]
        self.assertEqual(sorted(run["status"] for run in listed), ["dropped", "queued", "running"])
        self.assertEqual([run["runId"] for run in listed if run["status"] == "queued"], [newest])

    def usage(self):
        key = self.patched(contextTokens=200000, modelProvider="anthropic", model="claude-opus-4.5")
        for _ in range(2):
            self.say(key, role="assistant", usage={"input": 1000, "output": 500, "totalTokens": 1500})
        session = self.get(key)
        self.assertEqual([session[n] for n in ("inputTokens", "outputTokens", "totalTokens")], [2000, 1000, 3000])
        self.cleared(key, "inputTokens", "outputTokens", "totalTokens")

    def compaction(self):
        key = self.patched(memoryFlushAt=1795298400000, memoryFlushCompactionCount=1)
        self.ok(self.api.post(S(key, "main", "messages"), {"type": "compaction", "summary": "s"}), 201)
        self.assertEqual(self.get(key)["compactionCount"], 1)
        self.cleared(key, "compactionCount", "memoryFlushAt", "memoryFlushCompactionCount")

    def state(self):
        key = self.new()["key"]
        self.say(key)
        spoken = self.get(key)["lastInteractionAt"]
        self.patched(key, systemSent=True, abortedLastRun=True, lastHeartbeatText="alive", lastHeartbeatSentAt=1795298400000)
        self.assertEqual(self.get(key)["lastInteractionAt"], spoken)
        self.cleared(key, "systemSent", "abortedLastRun", "lastHeartbeatText", "lastHeartbeatSentAt")
        run = self.ok(self.api.post(S(key, "main", "runs"), {}), 201)
        say = lambda verb, **body: self.ok(self.api.post(  # noqa: E731
            S(key, "main", "runs", run["runId"], verb), {"fence": run["lease"]["fence"], **body}), 200)
        say("events", events=[{"type": "step.started", "step": 1}])
        self.assertTrue(self.get(key)["systemSent"])
        self.ok(self.api.post(S(key, "main", "abort"), {}), 202)
        say("finish", status="done")
        self.assertTrue(self.get(key)["abortedLastRun"])
        self.cleared(key, "systemSent", "abortedLastRun")

    def origin(self):
        made = self.inbound(label="l", provider="p", surface="web", accountId="a", **{"from": "u1"})
        origin = self.get(made["sessionKey"])["origin"]
        self.assertEqual({k: origin.get(k) for k in ("label", "provider", "surface", "chatType", "from", "accountId")},
                         {"label": "l", "provider": "p", "surface": "web", "chatType": "direct", "from": "u1", "accountId": "a"})
        self.patched(made["sessionKey"], label="L")
        self.invalid(self.api.patch(S(made["sessionKey"]), {"label": "x" * 201}), "/label")
        self.invalid(self.api.patch(S(made["sessionKey"]), {"origin": {"threadId": True}}), "/origin/threadId")

    def snapshots(self):
        key = self.patched(skillsSnapshot={"prompt": "p" * 1000}, systemPromptReport={"chars": 1})
        listed = self.ok(self.api.get(ALL.format("main") + "?keyPrefix=" + key), 200)["data"][0]
        self.assertFalse({"skillsSnapshot", "systemPromptReport"} & set(listed))
        with_them = self.ok(self.api.get(ALL.format("main") + "?include=snapshots&keyPrefix=" + key), 200)["data"][0]
        self.assertEqual(with_them["systemPromptReport"], {"chars": 1})

    def unknown_fields(self):
        number = "123456789012345678901.50"
        key = self.new()["key"]
        self.ok(self.api.request("PATCH", S(key), b'{"x-own":{"n":%s}}' % number.encode()), 200)
        self.ok(self.api.post(S(key, "main", "reset")), 200)
        self.daemon.checkpoint()
        self.assertIn(number, (self.daemon.agent_dir() / "sessions.json").read_text())
        self.assertIn(number.encode(), self.api.get(S(key)).raw)

    # -- SDK sessions ------------------------------------------------------------------------------------------------

    def sdk_map(self):
        daemon = self.spawn()
        api = daemon.client()
        key, other = self.new(api=api)["key"], self.new("agent:codex:x:1", api=api)["key"]
        found = lambda sdk: [s["key"] for s in self.ok(api.get("/v1/sessions?sdkSessionId=" + sdk), 200)["data"]]
        self.ok(api.patch(S(key), {"sdkSessionId": "one"}), 200)
        daemon.restart(kill=True)
        api = daemon.client()
        self.assertEqual((self.ok(api.get(S(key)), 200)["sdkSessionId"], found("one")), ("one", [key]))
        refusal = api.patch(S(other, "codex"), {"sdkSessionId": "one"})
        self.problem(refusal, 409, "sdk_session_taken")
        self.assertNotIn(key.encode(), refusal.raw)
        self.ok(api.patch(S(key), {"sdkSessionId": "two"}), 200)
        self.assertEqual((found("one"), found("two")), ([], [key]))
        self.ok(api.post(S(key, "main", "reset")), 200)
        self.assertNotIn("sdkSessionId", self.ok(api.get(S(key)), 200))
        self.ok(api.patch(S(other, "codex"), {"sdkSessionId": "two"}), 200)
        self.assertEqual(found("two"), [other])

    # -- lifecycle ---------------------------------------------------------------------------------------------------

    def creation(self):
        made = self.inbound()
        self.assertTrue(made["created"])
        self.assertEqual(self.get(made["sessionKey"])["sessionId"], made["sessionId"])
        child = self.ok(self.api.post(S(made["sessionKey"], "main", "spawn")), 201)
        self.assertEqual(child["spawnedBy"], made["sessionKey"])
        thread = self.inbound(chatType="channel", peer="c" + uid(), threadId="17.5")
        self.assertTrue(thread["sessionKey"].endswith(":thread:17.5"), thread["sessionKey"])

    def updates(self):
        key = self.new()["key"]
        with self.api.stream(S(key, "main", "events")) as stream:
            stream.wait_type("stream.hello")
            for change in (lambda: self.say(key), lambda: self.ok(self.api.patch(S(key), {"model": "m"}), 200),
                           lambda: self.ok(self.api.put(S(key, "main", "route"), {"channel": "slack", "to": "u"}), 200),
                           lambda: self.say(key, role="assistant", usage={"input": 1}),
                           lambda: self.ok(self.api.post(S(key, "main", "messages"), {"type": "compaction", "summary": "s"}), 201),
                           lambda: self.ok(self.api.patch(S(key), {"memoryFlushAt": 5}), 200)):
                before, count = self.get(key)["updatedAt"], len(stream.durable)
                time.sleep(0.002)  # so that the clock has moved: updatedAt has milliseconds
                change()
                self.assertGreater(self.get(key)["updatedAt"], before)
                stream.wait_until(lambda s: len(s.durable) == count + 1)

    def reset_manual(self):
        peer = uid()
        said = lambda **body: self.inbound(peer=peer, **body)["reset"]
        said()
        parts = [{"type": "text", "text": "/new"}]
        for body in ({"text": "/new"}, {"text": "/RESET"}, {"content": "/new"}, {"content": parts},
                     {"text": "<@U1> /new", "mentioned": True}):
            self.assertTrue(said(**body), body)
        for body in ({"text": "/newest"}, {"text": "say /new"}):
            self.assertIsNone(said(**body), body)

    def reset_idle(self):
        now = int(time.time() * 1000)
        for ago, due in ((61, "idle"), (59, None)):
            key = self.new()["key"]
            at = now - ago * 60_000
            self.ok(self.api.put(S(key), {"channel": "slack", "lastInteractionAt": at, "sessionStartedAt": at, "updatedAt": at}), 200)
            fresh = self.ok(self.api.get(S(key, "main", "freshness")), 200)
            self.assertEqual((fresh["due"], fresh["idleAt"]), (due, at + 3_600_000))

    def maintained(self, daemon, most):
        """Starts the daemon again, to keep this number of sessions by itself."""
        daemon.config["session"] = {"maintenance": {"mode": "enforce", "maxEntries": most, "noticeMs": 0, "everyMs": 100}}
        daemon.config_file.write_text(json.dumps(daemon.config))
        daemon.restart()
        return daemon.client()

    def deletion(self):
        session = self.new()
        self.say(session["key"], "kept")
        self.ok(self.api.delete(S(session["key"])), 204)
        self.problem(self.api.get(S(session["key"])), 404, "session_not_found")
        self.assertEqual(self.texts(session["sessionId"]), ["kept"])
        gone = self.new()["key"]
        self.assertEqual(self.daemon.cli("sessions", "delete", gone).returncode, 0)
        self.problem(self.api.get(S(gone)), 404)
        daemon = self.spawn()
        api = daemon.client()
        keys = []
        for _ in range(3):
            session = self.new(api=api)
            keys.append(session["key"])
            self.wait_past(session)
        plan = self.ok(api.post("/v1/admin/maintenance", {"keep": 2}), 200)
        self.assertEqual([one["key"] for one in plan["data"]], [keys[0]])
        self.assertEqual(self.ok(api.post("/v1/admin/maintenance", {"keep": 2, "dryRun": False}), 200)["count"], 1)
        self.problem(api.get(S(keys[0])), 404)
        api = self.maintained(daemon, 1)
        eventually(lambda: api.get(S(keys[1])).status == 404, what="the end of the oldest session, by itself")
        self.ok(api.get(S(keys[2])), 200)

    def reset_steps(self):
        for keep in (True, False):
            key = self.new(label="L", sdkSessionId=uid())["key"]
            self.say(key, "before")
            self.say(key, "in topic", query="?topic=t")
            old = self.get(key)["sessionId"]
            self.ok(self.api.post(S(key, "main", "reset"), {"keepMetadata": keep}), 200)
            session = self.get(key)
            self.assertNotEqual(session["sessionId"], old)
            self.assertNotIn("sdkSessionId", session)
            self.assertEqual(session.get("label"), "L" if keep else None)
            self.assertEqual((self.texts(key), self.texts(old)), ([], ["before"]))
            self.daemon.checkpoint()
            names = [path.name for path in self.daemon.agent_dir().glob(old + "*") if not path.name.endswith(".entry")]
            self.assertEqual(len([name for name in names if ".reset." in name]), 2, names)

    # -- transcripts -------------------------------------------------------------------------------------------------

    def json_lines(self):
        session = self.new()
        self.say(session["key"])
        self.lines(session)
        file = self.daemon.agent_dir() / (session["sessionId"] + ".jsonl")
        with file.open("ab") as out:
            out.write(b'{"type":"message","id":"f00","message":{"role":"user","content":"theirs", "x": 1 }}\n')
        before = file.read_bytes()
        eventually(lambda: "theirs" in self.texts(session["key"]), 10, what="the foreign line")
        self.say(session["key"], "ours")
        self.daemon.checkpoint()
        self.assertTrue(file.read_bytes().startswith(before))
        self.assertEqual(self.texts(session["key"])[1:], ["theirs", "ours"])

    def header(self):
        session = self.new(cwd="/srv/project")
        self.say(session["key"])
        head = self.lines(session)[0]
        self.assertEqual({name: head.get(name) for name in ("type", "version", "id", "cwd")},
                         {"type": "session", "version": 3, "id": session["sessionId"], "cwd": "/srv/project"})
        self.assertRegex(head["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def flat_entry(self):
        daemon, file = self.foreign("main", {"agent:main:x:1": {"sessionId": "flat", "updatedAt": 1}})
        lines = ['{"type":"session","version":3,"id":"flat","timestamp":"2025-01-15T12:00:00Z","cwd":"/path"}',
                 '{"type":"user","content":[{"type":"text","text":"Hello"}],"timestamp":1234567890}',
                 '{"role":"assistant","content":[{"type":"text","text":"Hi!"}],"timestamp":1234567891}']
        (file.parent / "flat.jsonl").write_text("\n".join(lines) + "\n")
        self.assertEqual(self.texts("agent:main:x:1", api=daemon.client()), ["Hello", "Hi!"])
        key = self.new()["key"]
        self.ok(self.api.post(S(key, "main", "messages"), json.loads(lines[1])), 201)
        self.assertEqual(self.texts(key), ["Hello"])

    def role_entry(self):
        whole = {"role": "assistant", "content": [{"type": "text", "text": "t"}, {"type": "image", "source": {"type": "url", "url": IMAGE}}],
                 "api": "openai-responses", "provider": "anthropic", "model": "claude-opus-4.5", "stopReason": "stop",
                 "usage": {"input": 1000, "output": 500, "cacheRead": 200, "cacheWrite": 100, "totalTokens": 1500, "cost": {"total": 0.5}},
                 "timestamp": 1234567890}
        session = self.new()
        self.ok(self.api.post(S(session["key"], "main", "messages"), whole), 201)
        served = self.messages(session["key"])[0]
        self.assertEqual({name: served.get(name) for name in whole}, whole)
        stored = self.lines(session)[-1]["message"]
        self.assertEqual({name: stored.get(name) for name in whole}, whole)

    def transcript_manager(self):
        session = self.new()
        for n in range(3):
            self.say(session["key"], f"m{n}")
        self.assertEqual([m["seq"] for m in self.messages(session["key"])], [0, 1, 2])
        daemon = self.spawn({"store": {"mode": "shared"}})
        api = daemon.client()
        one = self.new(api=api)
        self.say(one["key"], api=api)
        lock = daemon.agent_dir() / (one["sessionId"] + ".jsonl.lock")
        lock.write_text(json.dumps({"pid": os.getpid(), "createdAt": "2099-01-01T00:00:00.000Z"}))
        threading.Timer(0.5, lock.unlink).start()
        begin = time.monotonic()
        self.say(one["key"], "waited", api=api)
        self.assertGreater(time.monotonic() - begin, 0.3)
        old = daemon.agent_dir() / "old.jsonl"
        daemon.stop()
        old.write_text('{"type":"session","id":"old","timestamp":"2025-01-15T12:00:00Z","cwd":"/"}\n'
                       '{"type":"message","timestamp":"2025-01-15T12:00:01Z","message":{"role":"user","content":"v1"}}\n')
        self.assertIn(daemon.cli("doctor", "--migrate").returncode, (0, 1, 4))
        self.assertEqual(json.loads(old.read_text().splitlines()[0])["version"], 3)
        self.assertEqual(self.ok(self.api.post(S(self.new()["key"], "main", "migrate")), 200), {"changed": False})
        migrated = old.read_bytes()
        daemon.cli("doctor", "--migrate")
        self.assertEqual(old.read_bytes(), migrated)
        daemon.start()

    def mirror(self):
        session = self.new(f"agent:main:discord:direct:{uid()}")
        for text, shown in (("Message sent to user", "Message sent to user"), (None, "image.png")):
            body = {"mediaUrls": [IMAGE], "mirrorOnly": True, **({"text": text} if text else {})}
            self.ok(self.api.post(S(session["key"], "main", "outbound"), body), 201)
            message = self.lines(session)[-1]["message"]
            self.assertEqual((message["role"], message["content"][0]["text"], message["mediaUrls"]), ("assistant", shown, [IMAGE]))
        self.assertIn("image.png", json.dumps(self.lines(session)[-2]["message"]["content"]))

    def topics(self):
        session = self.new()
        self.say(session["key"], "in the parent")
        self.say(session["key"], "in the topic", query="?topic=123")
        self.assertEqual(self.lines(session, "123")[-1]["message"]["content"][0]["text"], "in the topic")
        self.assertEqual(self.texts(session["key"]), ["in the parent"])
        self.assertEqual(self.texts(session["key"], query="topic=123"), ["in the topic"])
        self.assertEqual([t["topic"] for t in self.ok(self.api.get(S(session["key"], "main", "topics")), 200)["data"]], ["123"])
        self.ok(self.api.delete(S(session["key"])), 204)
        self.daemon.checkpoint()
        self.assertEqual(len(list(self.daemon.agent_dir().glob(session["sessionId"] + "*.jsonl"))), 0)

    # -- send policy -------------------------------------------------------------------------------------------------

    def ruled(self):
        daemon = self.spawn({"sendPolicy": {"default": "allow", "rules": RULES}})
        return daemon.client()

    def asked(self, api, **case):
        return self.ok(api.post("/v1/policy/evaluate", case), 200)

    def policy_rules(self):
        api = self.ruled()
        group, slack = f"agent:main:discord:group:{uid()}", f"agent:main:slack:channel:{uid()}"
        for key, status in ((group, 403), (slack, 201), (f"agent:main:discord:direct:{uid()}", 201)):
            self.new(key, api=api)
            self.assertEqual(api.post(S(key, "main", "outbound"), {"text": "x"}).status, status, key)
        self.assertEqual(self.asked(api, sessionKey=slack)["rule"], 1)

    def policy_override(self):
        api, key = self.ruled(), f"agent:main:discord:group:{uid()}"
        self.new(key, api=api)
        for action, status in (("allow", 201), ("inherit", 403), ("deny", 403)):
            self.ok(api.put(S(key, "main", "send-policy"), {"action": action}), 200)
            self.assertEqual(api.post(S(key, "main", "outbound"), {"text": "x"}).status, status, action)

    def policy_order(self):
        api, key = self.ruled(), f"agent:main:discord:group:{uid()}"
        self.new(key, api=api, sendPolicy="allow")
        self.assertEqual(self.asked(api, sessionKey=key)["source"], "session")
        self.assertEqual(self.asked(api, channel="discord", chatType="group")["rule"], 0)
        self.assertEqual(self.asked(api, channel="telegram")["source"], "default")
        none = self.asked(api, channel="telegram", policy={"rules": []})
        self.assertEqual((none["action"], none["source"]), ("allow", "none"))
        for chat_type in ("dm", "direct"):
            policy = {"rules": [{"match": {"chatType": chat_type}, "action": "deny"}]}
            self.assertEqual(self.asked(api, channel="x", chatType="direct", policy=policy)["action"], "deny")

    def policy_explained(self):
        answer = self.asked(self.ruled(), channel="discord", chatType="group", trace=True)
        self.assertEqual((answer["action"], answer["rule"]), ("deny", 0))
        self.assertTrue(answer["trace"])

    # -- isolation ---------------------------------------------------------------------------------------------------

    def keys(self):
        peer = uid()
        daemon, _ = self.foreign("main", {f"agent:main:discord:dm:{peer}": {"sessionId": "d", "updatedAt": 1}})
        made = self.inbound(daemon.client(), channel="discord", peer=peer)
        self.assertEqual((made["created"], made["sessionKey"]), (False, f"agent:main:discord:dm:{peer}"))
        for kind in ("dm", "direct"):
            self.ok(daemon.client().get(S(f"agent:main:discord:{kind}:{peer}")), 200)
        self.assertTrue(self.inbound(daemon.client(), channel="discord", peer=peer, agent="codex")["created"])

    def no_cross(self):
        key = f"agent:codex:discord:direct:{uid()}"
        self.new(key, sdkSessionId=(sdk := uid()))
        main = self.daemon.client(self.daemon.token("operator", agents=["main"]))
        for method, path, body in (("GET", S(key, "codex"), None), ("GET", S(key, "codex", "messages"), None),
                                   ("PATCH", S(key, "codex"), {"label": "x"}), ("DELETE", S(key, "codex"), None)):
            self.problem(main.request(method, path, body), 403, "forbidden")
        self.problem(self.api.post(ALL.format("main"), {"key": key}), 422, "agent_mismatch")
        self.problem(main.patch(S(self.new()["key"]), {"sdkSessionId": sdk}), 409, "sdk_session_taken")
        self.invalid(main.post(ALL.format("main"), {"key": f"agent:main:x:{uid()}", "entry": {"spawnedBy": key}}), "/entry/spawnedBy")

    def subagent(self):
        peer = uid()
        parent = self.new(f"agent:main:discord:direct:{peer}")["key"]
        child = f"agent:main:subagent:worker1:{uid()}"
        made = self.ok(self.api.post(ALL.format("main"), {"key": child, "entry": {"spawnedBy": f"agent:main:discord:dm:{peer}"}}), 201)
        self.assertEqual((made["key"], made["spawnedBy"], made["spawnDepth"]), (child, parent, 1))
        for spelling in (parent, parent.replace("direct", "dm")):
            self.assertEqual([s["key"] for s in self.ok(self.api.get(S(spelling, "main", "children")), 200)["data"]], [child])

    def tool_scope(self):
        key, sibling = self.new()["key"], self.new()["key"]
        tool = self.daemon.client(self.daemon.token("session", agents=["main"], key=key))
        below = key
        for depth in (1, 2, 3):
            below = self.ok(tool.post(S(below, "main", "spawn")), 201)["key"]
            self.say(below, "x", api=tool)
        self.problem(tool.post(S(below, "main", "spawn")), 422, "validation_failed")
        self.problem(tool.get(S(sibling)), 404, "session_not_found")
        self.problem(tool.get("/v1/agents/codex/sessions"), 403, "forbidden")
        self.problem(tool.patch(S(key), {"label": "x"}), 403, "forbidden")

    # -- cache -------------------------------------------------------------------------------------------------------

    def cache_ttl(self):
        ttl = lambda daemon: self.ok(daemon.client().get("/v1/admin/config"), 200)["store"]["cacheTtlMs"]
        self.assertEqual(ttl(self.daemon), 45_000)
        self.assertEqual(ttl(self.spawn(env={"OPENCLAW_SESSION_CACHE_TTL_MS": "0"})), 0)

    def changed_by_another(self, fresh):
        daemon = self.spawn({"store": {"cacheTtlMs": 45_000 if fresh else 0}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        daemon.checkpoint()
        file = daemon.agent_dir() / "sessions.json"
        store = json.loads(file.read_text())
        store[key].update(label="theirs", updatedAt=store[key]["updatedAt"] + 1)
        file.write_text(json.dumps(store))
        headers = {"Cache-Control": "no-cache"} if fresh else None
        self.assertEqual(self.ok(api.get(S(key), headers=headers), 200)["label"], "theirs")

    def cache_mtime(self):
        self.changed_by_another(fresh=False)

    def skip_cache(self):
        self.changed_by_another(fresh=True)

    def cache_invalidation(self):
        key = self.new()["key"]
        for label in ("a", "b"):
            self.ok(self.api.patch(S(key), {"label": label}), 200)
            self.assertEqual(self.get(key)["label"], label)
        self.daemon.checkpoint()
        file = self.daemon.agent_dir() / "sessions.json"
        store = json.loads(file.read_text())
        store[key].update(label="theirs", updatedAt=store[key]["updatedAt"] + 1)
        file.write_text(json.dumps(store))
        eventually(lambda: self.get(key)["label"] == "theirs", 10, what="the foreign change, by itself")

    def cache_clone(self):
        key = self.new(label="L")["key"]
        answer = self.get(key)
        answer["label"] = "changed by the reader"
        self.assertEqual(self.get(key)["label"], "L")

    # -- locks -------------------------------------------------------------------------------------------------------

    def locked(self, daemon, pid=None, created="2099-01-01T00:00:00.000Z"):
        lock = daemon.agent_dir() / "sessions.json.lock"
        lock.write_text(json.dumps({"pid": pid or os.getpid(), "createdAt": created}))
        return lock

    def lock_file(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        daemon.checkpoint()
        lock = self.locked(daemon)
        self.ok(api.patch(S(key), {"label": "at once"}), 200)
        self.assertIn(str(os.getpid()), json.dumps(self.ok(api.get("/v1/admin/locks"), 200)))
        file = daemon.agent_dir() / "sessions.json"
        self.assertNotIn("label", json.loads(file.read_text())[key])
        lock.unlink()
        eventually(lambda: json.loads(file.read_text())[key].get("label") == "at once", 10, what="the write after the lock")

    def lock_poll(self):
        daemon = self.spawn({"store": {"writeThrough": True, "lock": {"timeoutMs": 600}}})
        key = self.new(api=daemon.client())["key"]
        lock = self.locked(daemon)
        begin = time.monotonic()
        reply = daemon.client().patch(S(key), {"label": "x"})
        self.problem(reply, 503, "lock_timeout")
        self.assertGreater(time.monotonic() - begin, 0.5)
        lock.unlink()

    def lock_stale(self):
        daemon = self.spawn({"store": {"writeThrough": True, "lock": {"staleMs": 1500}}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        dead = 2 ** 22 - 7
        for pid, most in ((dead, 1.4), (os.getpid(), 8)):
            lock = self.locked(daemon, pid)
            begin = time.monotonic()
            self.ok(api.patch(S(key), {"label": str(pid)}), 200)
            self.assertLess(time.monotonic() - begin, most * SLOW)
            self.assertFalse(lock.exists())

    def lock_release(self):
        for _ in range(3):
            self.new()
            self.daemon.checkpoint()
        self.assertEqual(list(self.daemon.agent_dir().glob("*.lock")), [])

    def lock_api(self):
        key = self.new()["key"]
        numbers = range(40)
        def write(some):
            client = self.daemon.client()
            for number in some:
                self.ok(client.patch(S(key), {f"x-{number}": number}), 200)
            client.close()
        threads = [threading.Thread(target=write, args=(numbers[start::4],)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        session = self.get(key)
        self.assertEqual([session.get(f"x-{number}") for number in numbers], list(numbers))
        lent = self.ok(self.api.post("/v1/agents/main/locks", {"ttlMs": 5000}), 201)
        file = self.daemon.agent_dir() / "sessions.json"
        store = json.loads(file.read_text())
        store[key].update(label="under the lock", updatedAt=store[key]["updatedAt"] + 1)
        file.write_text(json.dumps(store))
        self.ok(self.api.delete(f"/v1/agents/main/locks/{lent['id']}"), 204)
        self.assertEqual(self.get(key)["label"], "under the lock")

    def lock_options(self):
        lock = self.ok(self.api.get("/v1/admin/config"), 200)["store"]["lock"]
        self.assertEqual((lock["timeoutMs"], lock["pollIntervalMs"], lock["staleMs"]), (10_000, 25, 30_000))

    # -- functions ---------------------------------------------------------------------------------------------------

    def entry_functions(self):
        key = self.new()["key"]
        self.patched(key, label="one")
        whole = self.get(key)
        self.ok(self.api.put(S(key), {**whole, "label": "two"}), 200)
        self.assertEqual(self.get(key)["label"], "two")
        self.ok(self.api.put(S(key, "main", "route"), {"channel": "Slack", "to": "u1", "accountId": "a", "threadId": 4}), 200)
        session = self.get(key)
        self.assertEqual((session["lastChannel"], session["lastTo"], session["deliveryContext"]["threadId"]), ("slack", "u1", 4))
        made = self.inbound(chatType="group", subject="S", space="W")
        self.assertEqual((self.get(made["sessionKey"])["subject"], self.get(made["sessionKey"])["space"]), ("S", "W"))
        index = self.ok(self.api.get("/v1/agents/main/export?format=index"), 200)  # the whole store, loaded and saved
        index["sessions"][whole["sessionId"]]["name"] = "three"
        self.ok(self.api.post("/v1/agents/main/import?format=index", index), 200)
        self.assertEqual(self.get(key)["name"], "three")

    def other_functions(self):
        self.mirror()
        self.paths()
        self.policy_order()

    def permissions(self):
        daemon = self.spawn(umask=0)
        made = self.inbound(daemon.client(), topic="t")
        daemon.client().post(S(made["sessionKey"], "main", "reset"))
        daemon.checkpoint()
        for path in [daemon.state, *daemon.state.rglob("*")]:
            mode = path.lstat().st_mode
            if not stat.S_ISSOCK(mode):
                self.assertEqual(oct(stat.S_IMODE(mode)), oct(0o700 if path.is_dir() else 0o600), path)

    def considerations(self):
        """The ten considerations are rows of their own; this holds them together in one life of a daemon."""
        for check in (self.lock_api, self.cache_invalidation, self.agent_isolation, self.json_lines, self.sdk_map,
                      self.policy_order, self.delivery, self.topics, self.reset_steps, self.permissions):
            check()

    # -- seed 002 ----------------------------------------------------------------------------------------------------

    def purge_by_count(self):
        daemon = self.spawn()
        api = daemon.client()
        keys = []
        for n in range(53):
            keys.append(f"agent:main:x:{n:02}")
            self.ok(api.put(S(keys[-1]), {"channel": "x", "lastInteractionAt": 1_000 + n, "updatedAt": 1_000 + n}), 201)
        plan = self.ok(api.post("/v1/admin/maintenance", {"keep": 50}), 200)
        self.assertEqual(([one["key"] for one in plan["data"]], plan["count"]), (keys[:3], 3))
        self.assertEqual(self.ok(api.post("/v1/admin/maintenance", {"keep": 50, "dryRun": False}), 200)["count"], 3)
        self.assertEqual(len(self.ok(api.get(ALL.format("main") + "?limit=200"), 200)["data"]), 50)
        self.assertEqual(self.ok(api.post("/v1/admin/maintenance", {"keep": 50, "dryRun": False}), 200)["count"], 0)
        api = self.maintained(daemon, 48)
        left = lambda: [one["key"] for one in self.ok(api.get(ALL.format("main") + "?limit=200&sort=key"), 200)["data"]]  # noqa: E731
        eventually(lambda: left() == keys[5:], what="the end of the two oldest, by itself")

    def most_sessions(self):
        api = self.spawn({"session": {"maxSessions": 3}}).client()
        for n in range(5):
            self.ok(api.put(S(f"agent:main:x:{n}"), {"lastInteractionAt": 1_000 + n, "updatedAt": 1_000 + n}), 201)
        found = self.ok(api.post("/v1/admin/maintenance"), 200)
        self.assertEqual([one["key"] for one in found["data"]], ["agent:main:x:0", "agent:main:x:1"])

    def config_keys(self):
        self.spawn({"session": {"autoSave": True, "maxSessions": 50}})
        daemon = self.spawn({"session": {"autoSave": False}}, start=False)
        done = daemon.cli("config", "--check")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("always on", done.stdout + done.stderr)

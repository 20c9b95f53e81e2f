"""Secrets: entries take none (policy.secretScan), and nobody's token is ever in a log, a problem, a metric or a file."""

import base64
import os
import signal

from case import Case, S, json, uid
from sessiond import eventually

# Put together here, so that no file of the repository holds what looks like a key.
GITHUB = "ghp" + "_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
ALL = "/v1/agents/main/sessions"


class InEntries(Case):
    def refused(self, reply, *pointers):
        body = self.invalid(reply, *pointers)
        self.assertNotIn(GITHUB.encode(), reply.raw)
        self.assertNotIn(AWS.encode(), reply.raw)
        return body

    def test_every_way_into_an_entry(self):
        post = lambda body: self.api.post(ALL, body)
        self.refused(post({"label": "my " + GITHUB}), "/label")
        self.refused(post({"name": AWS}), "/name")
        self.refused(post({"key": "agent:main:slack:channel:" + AWS}), "/key")
        self.refused(post({"entry": {"context": {"variables": {"a/b": [1, {"k": GITHUB}]}}, "x": AWS}}),
                     "/entry/context/variables/a~1b/1/k", "/entry/x")
        key = self.new()["key"]
        self.refused(self.api.patch(S(key), {"context": {"variables": {"token": GITHUB}}}), "/context/variables/token")
        self.refused(self.api.patch(S(key), {"x": {GITHUB: 1}}), "/x")
        self.refused(self.api.patch(S(key), b'{"x":"\\u0067' + GITHUB[1:].encode() + b'"}'), "/x")
        self.refused(self.api.put(S(key), {"session": {"context": {"variables": {"k": GITHUB}}}}),
                     "/session/context/variables/k")
        self.refused(self.api.put(S("agent:main:slack:channel:" + AWS), {"label": "x"}), "/key")
        self.refused(self.api.post(S(key, "main", "spawn"), {"label": GITHUB}), "/label")
        self.refused(self.api.post(S(key, "main", "spawn"), {"entry": {"x": GITHUB}}), "/entry/x")
        self.refused(self.api.post(S(key, "main", "reset"), {"reason": GITHUB}), "/reason")
        self.refused(self.api.put(S(key, "main", "route"), {"channel": "slack", "to": GITHUB}), "/to")
        self.refused(self.api.post("/v1/admin/tokens", {"role": "viewer", "note": "for " + GITHUB}), "/note")
        self.daemon.checkpoint()
        for path in self.daemon.state.rglob("*"):
            if path.is_file():
                self.assertNotIn(GITHUB.encode(), path.read_bytes(), path)
                self.assertNotIn(AWS.encode(), path.read_bytes(), path)

    def test_messages_are_what_people_say(self):
        key = self.new()["key"]
        self.say(key, "my key is " + GITHUB)
        self.inbound(text="and mine " + AWS)
        self.assertIn("my key is " + GITHUB, self.texts(key))

    def test_ordinary_entries_pass(self):
        picture = base64.b64encode(os.urandom(300_000)).decode()
        self.ok(self.api.post(ALL, {"label": "ghp_ and AKIA are prefixes", "entry": {
            "sdkSessionId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "commit": uid(32) * 2, "picture": picture,
            "spawnedBy": "agent:main:telegram:direct:1234567890"}}), 201)

    def test_what_another_program_wrote_stays_and_can_be_patched_elsewhere(self):
        key = self.new(label="before")["key"]
        path = self.daemon.agent_dir() / "sessions.json"
        store = self.daemon.sessions_json()
        store[key].update({"x-theirs": GITHUB, "updatedAt": store[key]["updatedAt"] + 5})
        path.with_suffix(".tmp").write_text(json.dumps(store))
        os.replace(path.with_suffix(".tmp"), path)
        eventually(lambda: self.api.get(S(key), cache_control="no-cache").json.get("x-theirs") == GITHUB)
        self.assertEqual(self.ok(self.api.patch(S(key), {"label": "after"}), 200)["x-theirs"], GITHUB)
        self.assertEqual(self.daemon.sessions_json()[key]["x-theirs"], GITHUB)

    def test_warn_and_off(self):
        daemon = self.spawn({"policy": {"secretScan": "warn"}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.ok(api.patch(S(key), {"x": {"y": GITHUB}}), 200)
        line = eventually(lambda: [line for line in daemon.stderr if "secret_in_entry" in line], what="the warning")[0]
        self.assertIn(key, line)
        self.assertIn("/x/y", line)
        self.assertNotIn(GITHUB, line)
        daemon.config["policy"]["secretScan"] = "off"
        daemon.config_file.write_text(json.dumps(daemon.config))
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: any("config_reloaded" in line for line in daemon.stderr), what="the reload")
        self.ok(api.patch(S(key), {"z": GITHUB}), 200)
        self.assertEqual(sum("secret_in_entry" in line for line in daemon.stderr), 1)

"""SDK session ids: no two sessions of the store share one, and each finds its session."""

import json
import threading

from harness.case import Case, S, uid
from harness.sessiond import eventually

ALL = "/v1/agents/{}/sessions"
TAKEN = "sdk_session_taken"


class SdkSessions(Case):
    config = {"session": {"spawn": {"depth": 3, "count": 5}}}

    def of(self, agent="main", api=None, **entry):
        """A new session of an agent; its key."""
        key = f"agent:{agent}:slack:channel:{uid()}"
        return self.ok((api or self.api).post(ALL.format(agent), {"key": key, "entry": entry}), 201)["key"]

    def taken(self, reply, *keys):
        self.problem(reply, 409, TAKEN)
        for key in keys:
            self.assertNotIn(key.rsplit(":", 1)[1].encode(), reply.raw)

    def found(self, sdk, api=None, agent=None):
        path = (ALL.format(agent) if agent else "/v1/sessions") + "?sdkSessionId=" + sdk
        return [s["key"] for s in self.ok((api or self.api).get(path), 200)["data"]]

    def test_an_id_has_one_session_in_the_whole_store(self):
        sdk, first, other, abroad = "sdk-" + uid(), self.of(), self.of(), self.of("codex")
        self.ok(self.api.patch(S(first), {"sdkSessionId": sdk}), 200)
        self.ok(self.api.patch(S(first), {"sdkSessionId": sdk, "label": "again"}), 200)
        for key, agent in ((other, "main"), (abroad, "codex")):
            for patch in ({"sdkSessionId": sdk}, {"claudeCliSessionId": sdk}, {"cliSessionIds": {"claude-cli": sdk}},
                          {"cliSessionIds": {"x": sdk}}):
                self.taken(self.api.patch(S(key, agent), patch), first)
            self.taken(self.api.put(S(key, agent), {"sdkSessionId": sdk}), first)
            self.taken(self.api.put(S(key + "new", agent), {"sdkSessionId": sdk}), first)
            self.taken(self.api.post(ALL.format(agent), {"entry": {"sdkSessionId": sdk}}), first)
            self.taken(self.api.post(S(key, agent, "spawn"), {"entry": {"sdkSessionId": sdk}}), first)
            self.assertNotIn("sdkSessionId", self.ok(self.api.get(S(key, agent)), 200))
        self.assertEqual(self.found(sdk), [first])
        self.assertEqual(self.found(sdk, agent="main"), [first])
        self.assertEqual(self.found(sdk, agent="codex"), [])
        self.assertEqual(self.found("sdk-" + uid()), [])

    def test_an_id_is_free_again_after_reset_delete_and_maintenance(self):
        for end in ("reset", "delete", "purge", "prune", "null", "another"):
            with self.subTest(end):
                sdk, first, other = "sdk-" + uid(), self.of("ended"), self.of("codex")
                self.ok(self.api.patch(S(first, "ended"), {"sdkSessionId": sdk}), 200)
                self.taken(self.api.patch(S(other, "codex"), {"sdkSessionId": sdk}), first)
                if end == "reset":
                    self.ok(self.api.post(S(first, "ended", "reset")), 200)
                elif end == "prune":
                    self.ok(self.api.post("/v1/admin/maintenance", {"agent": "ended", "keep": 0, "dryRun": False}), 200)
                    self.problem(self.api.get(S(first, "ended")), 404)
                elif end in ("null", "another"):
                    self.ok(self.api.patch(S(first, "ended"), {"sdkSessionId": None if end == "null" else uid()}), 200)
                else:
                    self.ok(self.api.delete(S(first, "ended") + ("?purge=true" if end == "purge" else "")), 204)
                self.ok(self.api.patch(S(other, "codex"), {"sdkSessionId": sdk}), 200)
                self.assertEqual(self.found(sdk), [other])

    def test_a_session_at_rest_keeps_its_id(self):
        sdk, first = "sdk-" + uid(), self.of()
        self.ok(self.api.patch(S(first), {"sdkSessionId": sdk}), 200)
        self.ok(self.api.post(S(first, "main", "archive")), 200)
        self.taken(self.api.patch(S(self.of()), {"sdkSessionId": sdk}), first)
        self.assertEqual(self.found(sdk + "&archived=any"), [first])

    def test_a_child_does_not_get_its_parents(self):
        daemon = self.spawn({"session": {"requireFields": ["sdkSessionId"]}})
        api, sdk = daemon.client(), "sdk-" + uid()
        parent = self.of(api=api, sdkSessionId=sdk, claudeCliSessionId="c", cliSessionIds={"x": "y"})
        child = self.ok(api.post(S(parent, "main", "spawn")), 201)
        for field in ("sdkSessionId", "claudeCliSessionId", "cliSessionIds"):
            self.assertNotIn(field, child)
        self.assertEqual(self.found(sdk, api), [parent])

    def test_a_restored_session_gives_way(self):
        for meanwhile in (False, True):
            with self.subTest(meanwhile=meanwhile):
                sdk, other = "sdk-" + uid(), self.of("codex")
                first = self.of(sdkSessionId=sdk, claudeCliSessionId="c" + sdk, label="kept")
                self.say(first)
                self.ok(self.api.delete(S(first)), 204)
                if meanwhile:
                    self.ok(self.api.patch(S(other, "codex"), {"sdkSessionId": sdk}), 200)
                with self.api.stream("/v1/events?agent=main&types=session.created") as stream:
                    stream.wait_type("stream.hello")
                    back = self.ok(self.api.post(S(first, "main", "restore")), 200)
                    created = stream.wait_type("session.created").data["data"]
                self.assertEqual(back["label"], "kept")
                told = ["sdkSessionId", "claudeCliSessionId"] if meanwhile else None
                self.assertEqual((back.get("leftOut"), created.get("leftOut")), (told, told))
                self.assertEqual(back.get("sdkSessionId"), None if meanwhile else sdk)
                self.assertEqual(self.found(sdk), [other if meanwhile else first])
                self.assertNotIn("leftOut", self.ok(self.api.get(S(first)), 200))

    def write(self, daemon, agent, entries):
        daemon.agent_dir(agent).mkdir(parents=True, exist_ok=True)
        (daemon.agent_dir(agent) / "sessions.json").write_text(json.dumps(
            {key: {"sessionId": "s" + uid(), "updatedAt": 1, **entry} for key, entry in entries.items()}))

    def test_earlier_fields_are_read_and_never_written(self):
        shown = {  # entry: the id that it is mapped to
            '{"sdkSessionId":"a","claudeCliSessionId":"b"}': "a",
            '{"claudeCliSessionId":"c","cliSessionIds":{"claude-cli":"d"}}': "c",
            '{"sdkSessionId":null,"cliSessionIds":{"claude-cli":"e","codex-cli":"f"}}': "e",
            '{"cliSessionIds":{"codex-cli":"g"}}': "g",
            '{"cliSessionIds":{"codex-cli":"h","x":"i"}}': None,
            '{"cliSessionIds":{"claude-cli":null,"x":"j"}}': None,
            '{"cliSessionIds":"k"}': None,
            '{"sdkSessionId":7,"claudeCliSessionId":"l"}': 7,
        }
        daemon = self.spawn(start=False)
        entries = {f"agent:main:x:{i}": json.loads(entry) for i, entry in enumerate(shown)}
        self.write(daemon, "main", entries)
        file = daemon.agent_dir() / "sessions.json"
        before = file.read_bytes()
        api = daemon.start().client()
        for key, sdk in zip(entries, shown.values()):
            self.assertEqual(self.ok(api.get(S(key)), 200).get("sdkSessionId"), sdk, key)
            self.assertEqual(self.ok(api.get(S(key) + "?fields=sdkSessionId"), 200).get("sdkSessionId"), sdk)
            if isinstance(sdk, str):
                self.assertEqual(self.found(sdk, api), [key])
        other = self.of("codex", api)
        for sdk in ("c", "e", "g"):
            self.taken(api.patch(S(other, "codex"), {"sdkSessionId": sdk}))
        for free in ("b", "d", "f", "h", "l", "7"):
            self.ok(api.patch(S(other, "codex"), {"sdkSessionId": free}), 200)
        self.assertEqual(file.read_bytes(), before)
        self.ok(api.patch(S("agent:main:x:1"), {"label": "x"}), 200)
        self.ok(api.post("/v1/admin/checkpoint"))
        stored = json.loads(file.read_bytes())["agent:main:x:1"]
        self.assertEqual((stored["claudeCliSessionId"], stored.get("sdkSessionId")), ("c", None))

    def test_doubles_of_a_foreign_program_are_served_and_found(self):
        daemon = self.spawn(start=False)
        one, two, abroad = "agent:main:x:1", "agent:main:x:2", "agent:codex:x:3"
        self.write(daemon, "main", {one: {"sdkSessionId": "d"}, two: {"claudeCliSessionId": "d"}})
        self.write(daemon, "codex", {abroad: {"sdkSessionId": "d"}})
        api = daemon.start().client()
        self.assertEqual(self.found("d&sort=key", api), [abroad, one, two])
        self.assertEqual(self.found("d&sort=key&limit=1", api), [abroad])
        for key, agent in ((one, "main"), (two, "main"), (abroad, "codex")):
            session = self.ok(api.patch(S(key, agent), {"label": "x", "sdkSessionId": "d"}), 200)
            self.assertEqual(session["sdkSessionId"], "d")
        self.taken(api.patch(S(self.of(api=api)), {"sdkSessionId": "d"}))
        for key, agent in ((one, "main"), (two, "main")):
            self.ok(api.delete(S(key, agent)), 204)
        self.taken(api.patch(S(self.of(api=api)), {"sdkSessionId": "d"}))
        self.ok(api.delete(S(abroad, "codex")), 204)
        self.ok(api.patch(S(self.of(api=api)), {"sdkSessionId": "d"}), 200)

    def test_what_a_foreign_program_writes_counts_once_it_is_merged(self):
        daemon = self.spawn()
        api, agent = daemon.client(), "codex"
        self.of(agent, api)
        self.ok(api.post("/v1/admin/checkpoint"))
        file = daemon.agent_dir(agent) / "sessions.json"
        store = json.loads(file.read_bytes())
        store["agent:codex:x:new"] = {"sessionId": uid(), "updatedAt": 5, "sdkSessionId": "f"}
        file.write_text(json.dumps(store))
        eventually(lambda: api.get(S("agent:codex:x:new", agent)).status == 200, 5, what="the foreign session")
        self.taken(api.patch(S(self.of(api=api)), {"sdkSessionId": "f"}))

    def test_many_agents_at_once_give_it_to_one(self):
        keys = [(self.of(agent), agent) for agent in (f"a{i}" for i in range(8))]
        for _ in range(10):
            sdk, answers = "sdk-" + uid(), []
            start = threading.Barrier(len(keys))

            def take(key, agent):
                client = self.daemon.client()
                start.wait()
                answers.append((client.patch(S(key, agent), {"sdkSessionId": sdk}).status, key))
                client.close()

            threads = [threading.Thread(target=take, args=one) for one in keys]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(status for status, _ in answers), [200] + [409] * 7)
            self.assertEqual(self.found(sdk), [key for status, key in answers if status == 200])

    def test_the_ids_of_agents_that_are_not_in_memory_are_known(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 200}})
        api, owners = daemon.client(), {}
        for i in range(6):
            owners[f"sdk-{i}"] = self.of(f"a{i}", api, sdkSessionId=f"sdk-{i}")
        out = lambda: b"\nsessiond_agents 0\n" in api.get("/metrics").raw
        for start in ("running", "restarted", "killed"):
            if start != "running":
                daemon.kill9() if start == "killed" else daemon.stop()
                daemon.start()
                api = daemon.client()
            eventually(out, 10, what="agents to leave memory")
            with self.subTest(start):
                for sdk, owner in owners.items():
                    agent = owner.split(":")[1]
                    self.taken(api.post(ALL.format("zz"), {"entry": {"sdkSessionId": sdk}}), owner)
                    self.assertEqual(self.found(sdk, api, agent), [owner])
                    self.assertEqual(self.found(sdk, api), [owner])
                    self.ok(api.patch(S(owner, agent), {"sdkSessionId": sdk}), 200)
                free = self.of("zz", api, sdkSessionId="free-" + start)
                self.assertEqual(self.found("free-" + start, api), [free])

    def test_a_limited_token_learns_nothing_but_the_refusal(self):
        sdk = "sdk-" + uid()
        hidden, own = self.of(sdkSessionId=sdk), self.of("codex")
        abroad = self.of("codex")
        limited = self.daemon.client(self.daemon.token("runner", agents=["codex"], keyPrefix=own))
        stranger = "sdk-" + uid()
        for path in ("/v1/sessions", ALL.format("codex")):
            replies = [self.ok(limited.get(f"{path}?sdkSessionId={one}"), 200) for one in (sdk, stranger)]
            self.assertEqual(*[{k: v for k, v in reply.items() if k != "asOf"} for reply in replies])
        self.problem(limited.get(ALL.format("main") + "?sdkSessionId=" + sdk), 403, "forbidden")
        self.taken(limited.patch(S(own, "codex"), {"sdkSessionId": sdk}), hidden)
        replies = [limited.patch(S(abroad, "codex"), {"sdkSessionId": one}) for one in (sdk, stranger)]
        for reply in replies:
            self.problem(reply, 404, "session_not_found")
        self.ok(limited.patch(S(own, "codex"), {"sdkSessionId": stranger}), 200)
        self.assertEqual(self.found(stranger, limited), [own])

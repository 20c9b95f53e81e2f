"""Runs beside everything else that happens to a session: maintenance, releases, resets, other writers' leases."""

import itertools
import json
import threading

from harness.case import S, text_of, uid
from harness.other_writer import Lock
from harness.sessiond import eventually
from runs_case import RunsCase
from test_files import replace_store

HALF = {"type": "text.delta", "text": "half an answer"}


class RunsBeside(RunsCase):
    def lease(self, run, fence=None):
        return {"X-Run": f"{run['runId']};{fence or run['lease']['fence']}"}

    # -- what maintenance and a release may take

    def maintain(self, api, **limits):
        reply = self.ok(api.post("/v1/admin/maintenance", {"agent": "main", "dryRun": False, **limits}), 200)
        return [one["key"] for one in reply["data"]], {one["key"]: one["because"] for one in reply["kept"]}

    def test_maintenance_keeps_what_is_under_way_whatever_the_limit(self):
        daemon = self.spawn({"runs": {"onInbound": False}})
        api = daemon.client()
        self.assertEqual(api.post("/v1/deliveries/claim", {"channel": "slack"}).status, 204)  # adopted
        active, waiting, unsent, idle = (
            self.new(f"agent:main:slack:direct:{uid()}", api=api, deliveryContext={"channel": "slack", "to": "u"})["key"] for _ in range(4))
        for key in (active, waiting, unsent, idle):
            self.say(key, "x" * 1000, api=api)
        run = self.start(active, "go", api=api)
        self.start(waiting, "go", 202, api=api, queueOnly=True)
        self.ok(api.post(S(unsent, "main", "outbound"), {"text": "on its way"}), 200, 201)
        because = {active: "run", waiting: "run", unsent: "delivery"}
        eventually(lambda: self.maintain(api, olderThanMs=1) == ([idle], because))
        for limits in ({"keep": 0}, {"maxDiskBytes": 1}):
            taken, kept = self.maintain(api, **limits)
            self.assertEqual((set(taken) - {idle}, kept), (set(), because), limits)  # an archive of its may go
        self.finish(run, {"role": "assistant", "text": "the answer"}, api=api)
        self.assertEqual(self.texts(active, api=api, query="view=chat&order=asc")[1:], ["go", "the answer"])
        eventually(lambda: self.maintain(api, olderThanMs=1)[0] == [active])

    def test_a_session_with_work_is_not_released(self):
        release = lambda key: self.ok(self.api.post(S(key, "main", "release"), {}), 200)  # noqa: E731
        key = self.make()
        run = self.start(key, "go")
        self.assertEqual(release(key), {"released": False, "because": "run"})
        self.finish(run)
        self.assertEqual(release(key), {"released": True})
        self.start(key, "wait", 202, queueOnly=True)
        self.assertEqual(release(key), {"released": False, "because": "run"})

    # -- partial text

    def said_in_files(self, daemon, session_id):
        self.ok(daemon.client().post("/v1/admin/checkpoint", {}), 200, 204)
        lines = [line for path in sorted(daemon.agent_dir().glob(f"{session_id}*.jsonl*"))
                 for line in path.read_text().splitlines() if path.suffix != ".json"]
        return [text_of(json.loads(line)["message"]) for line in lines if json.loads(line).get("type") == "message"]

    def test_whatever_ends_a_run_keeps_what_it_has_said(self):
        daemon = self.spawn()
        api = daemon.client()
        new = {"channel": "slack", "chatType": "direct", "text": "/new"}
        ends = {
            "reset": lambda key: api.post(S(key, "main", "reset"), {}),
            "clear": lambda key: api.post(S(key, "main", "clear"), {}),
            "archive": lambda key: api.post(S(key, "main", "archive"), {}),
            "delete": lambda key: api.delete(S(key)),
            "/new": lambda key: api.post("/v1/inbound", {**new, "peer": key.rsplit(":", 1)[1]}),
            "PUT transcript": lambda key: api.put(S(key, "main", "transcript"), 
                {"expectedSeq": 2, "entries": [{"role": "user", "text": "other"}]}),
        }
        for name, end in ends.items():
            with self.subTest(name):
                key = self.new(f"agent:main:slack:direct:{uid()}", api=api)["key"]
                run = self.start(key, "question", api=api)
                self.tell(run, HALF, api=api)
                self.ok(end(key), 200, 201, 204)
                said = self.said_in_files(daemon, run["sessionId"])
                self.assertEqual(said[:2], ["question", "half an answer"])
                self.assertEqual(said.count("half an answer"), 1)
        key = self.new(api=api)["key"]
        run = self.ok(api.post(S(key, "main", "runs") + "?topic=7", {"input": {"role": "user", "text": "question"}}), 201)
        self.tell(run, HALF, api=api)
        self.ok(api.delete(S(key, "main", "topics", "7")), 200, 204)
        self.assertEqual(self.said_in_files(daemon, run["sessionId"]), ["question", "half an answer"])

    def test_another_program_that_takes_a_session_leaves_the_words_of_its_run(self):
        changes = {
            "reset": lambda store, key: store[key].update(sessionId="theirs-" + uid(), updatedAt=store[key]["updatedAt"] + 1),
            "delete": lambda store, key: store.pop(key),
        }
        for mode in ("own", "shared"):
            daemon = self.spawn({"store": {"mode": mode}})
            api = daemon.client()
            for (name, change), stopped, is_moved in itertools.product(changes.items(), (False, True), (False, True)):
                with self.subTest(f"{mode} {name} {'while stopped' if stopped else ''} {'file moved' if is_moved else ''}"):
                    key = self.new(api=api)["key"]
                    run = self.start(key, "question", api=api)
                    self.tell(run, {"type": "step.started", "step": 1}, HALF, api=api)
                    store = daemon.sessions_json()
                    file = daemon.agent_dir() / (run["sessionId"] + ".jsonl")
                    if stopped:
                        daemon.stop()
                    change(store, key)
                    if is_moved:
                        file.rename(file.with_name(file.name + ".moved"))
                    replace_store(daemon.agent_dir() / "sessions.json", store)
                    if stopped:
                        daemon.start()
                        api = daemon.client()
                    there = lambda: api.get(S(key), cache_control="no-cache")  # noqa: E731
                    eventually(lambda: there().json.get("sessionId") != run["sessionId"])
                    events = self.ok(api.get("/v1/events?poll=1&replay=1000&types=run.finished"), 200)["data"]
                    self.assertEqual([e["data"]["status"] for e in events if e["key"] == key], ["interrupted"])
                    said = self.said_in_files(daemon, run["sessionId"])
                    self.assertEqual(said, ["question"] + ["half an answer"] * (not is_moved))
                    self.assertEqual(file.exists(), not is_moved)

    def test_an_entry_of_before_a_reset_that_another_program_writes_back_leaves_the_new_run(self):
        for mode in ("own", "shared"):
            with self.subTest(mode):
                daemon = self.spawn({"store": {"mode": mode}})
                api = daemon.client()
                key = self.new(api=api)["key"]
                self.say(key, "before", api=api)
                old = daemon.sessions_json()
                new_id = self.ok(api.post(S(key, "main", "reset"), {}), 200)["sessionId"]
                run = self.start(key, "question", api=api)
                self.tell(run, {"type": "step.started", "step": 1}, HALF, api=api)
                daemon.sessions_json()
                old[key]["label"] = "theirs"
                replace_store(daemon.agent_dir() / "sessions.json", old)
                fresh = lambda: self.ok(api.get(S(key), cache_control="no-cache"))  # noqa: E731
                eventually(lambda: fresh().get("label") == "theirs")
                self.assertEqual(fresh()["sessionId"], new_id)
                self.finish(run, {"role": "assistant", "text": "the answer"}, api=api)
                self.assertEqual(self.texts(key, api=api, query="view=chat&order=asc")[-1], "the answer")

    def test_a_locked_transcript_of_a_session_that_is_taken_makes_nobody_wait_and_gets_the_words_later(self):
        daemon = self.spawn({"store": {"mode": "shared"}})
        api = daemon.client()
        other = self.new(api=api)["key"]
        key = self.new(api=api)["key"]
        run = self.start(key, "question", api=api)
        self.tell(run, {"type": "step.started", "step": 1}, HALF, api=api)
        store = daemon.sessions_json()
        with Lock(daemon.agent_dir() / (run["sessionId"] + ".jsonl")):
            del store[key]
            replace_store(daemon.agent_dir() / "sessions.json", store)
            eventually(lambda: api.get(S(key), cache_control="no-cache").status == 404)
            self.ok(api.get(S(other), cache_control="no-cache"), 200)
        eventually(lambda: self.said_in_files(daemon, run["sessionId"]) == ["question", "half an answer"])

    def test_text_that_a_call_just_stored_is_kept_once(self):
        key = self.make()
        run = self.start(key, "question")
        self.tell(run, {"type": "text.delta", "text": "one "})
        self.tell(run, {"type": "text.delta", "text": "two "}, {"type": "step.started", "step": 1})
        self.tell(run, {"type": "text.delta", "text": "three"})
        self.ok(self.api.post(S(key, "main", "archive"), {}), 200)
        self.assertEqual(self.said(key), ["question", "one two three"])

    def test_text_that_was_acknowledged_is_kept_though_others_write_beside_it(self):
        daemon = self.spawn()
        api = daemon.client()
        busy = self.new(api=api)["key"]
        stop = threading.Event()

        def write():
            client = daemon.client()
            while not stop.is_set():
                client.post(S(busy, "main", "messages"), {"role": "user", "text": "x"})

        writers = [threading.Thread(target=write) for _ in range(2)]
        for writer in writers:
            writer.start()
        try:
            for _ in range(30):
                key = self.new(api=api)["key"]
                run = self.start(key, "question", api=api)
                told = []

                def tell(run=run, told=told):
                    client = daemon.client()
                    path = S(run["key"], "main", "runs", run["runId"], "events")
                    for number in range(1000):
                        text = f"<{number}>"
                        body = {"fence": run["lease"]["fence"], "events": [{"type": "text.delta", "text": text}]}
                        if client.post(path, body).status != 200:
                            return
                        told.append(text)

                teller = threading.Thread(target=tell)
                teller.start()
                eventually(lambda told=told: len(told) > 3)
                self.ok(api.post(S(key, "main", "archive"), {}), 200)
                teller.join()
                said = self.texts(key, api=api, query="view=chat&order=asc")[-1]
                self.assertTrue(said.startswith("".join(told)) or "".join(told) == said, (said, told))
        finally:
            stop.set()
            for writer in writers:
                writer.join()

    def test_what_was_held_back_of_a_text_is_kept(self):
        daemon = self.spawn({"policy": {"secretScanMessages": "redact"}})
        api = daemon.client()
        ends = "Hello ends in sk-ant-api03"
        for stored in (False, True):
            key = self.new(api=api)["key"]
            run = self.start(key, "question", api=api)
            self.tell(run, {"type": "text.delta", "text": ends}, api=api)
            if stored:
                eventually(lambda key=key: self.of_type(key, "run.progress", api=api))
            self.ok(api.post(S(key, "main", "archive"), {}), 200)
            self.assertEqual(self.texts(key, api=api, query="view=chat&order=asc"), ["question", ends])
        key = self.new(api=api)["key"]
        self.tell(self.start(key, "question", api=api), {"type": "text.delta", "text": ends}, api=api)
        daemon.stop()
        daemon.start()
        api = daemon.client()
        self.assertEqual("".join(data.get("text", "") for data in self.of_type(key, "run.progress", api=api)), ends)

    def test_a_clean_stop_stores_what_a_run_has_said_and_ends_none(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        run = self.start(key, "question", api=api)
        self.tell(run, HALF, api=api)
        daemon.stop()
        daemon.start()
        api = daemon.client()
        self.assertEqual(self.run_of(key, api=api)["status"], "running")
        self.assertEqual("".join(data.get("text", "") for data in self.of_type(key, "run.progress", api=api)), "half an answer")

    # -- another conversation in its place

    def test_a_put_of_another_session_id_is_a_reset(self):
        key = self.make()
        run = self.start(key, "question")
        self.tell(run, HALF)
        entry = self.entry(key)
        anew = "anew-" + uid()
        put = self.ok(self.api.put(S(key), {"sessionId": anew, "label": "x"}), 200)
        self.assertEqual((put["sessionId"], put["messageCount"], put.get("status")), (anew, 0, None))
        self.assertEqual(self.said(key), [])
        self.finish(run, {"role": "assistant", "text": "late"}, status=409)
        history = self.ok(self.api.get(S(key, "main", "history")), 200)["data"]
        self.assertEqual([one["sessionId"] for one in history], [anew, entry["sessionId"]])
        archived = self.ok(self.api.get(S(key, "main", "messages") + f"?archive={history[1]['archivedAs'][0]}&order=asc"), 200)["data"]
        self.assertEqual([text_of(m) for m in archived if m.get("role")], ["question", "half an answer"])
        self.assertEqual(self.of_type(key, "session.reset")[-1]["reason"], "put")

    def test_a_reset_by_another_program_ends_the_runs(self):
        daemon = self.spawn()
        api = daemon.client()
        key = self.new(api=api)["key"]
        run = self.start(key, "question", api=api)
        self.start(key, "more", 202, api=api)
        self.ok(api.post("/v1/admin/checkpoint", {}), 200, 204)
        store = daemon.agent_dir() / "sessions.json"
        entries = json.loads(store.read_text())
        entries[key] = {**entries[key], "sessionId": "theirs-" + uid(), "updatedAt": entries[key]["updatedAt"] + 1}
        theirs = store.with_name("theirs.tmp")
        theirs.write_text(json.dumps(entries))
        theirs.rename(store)
        fresh = {"Cache-Control": "no-cache"}
        eventually(lambda: api.get(S(key), headers=fresh).json["sessionId"].startswith("theirs-"))
        self.assertEqual(self.run_of(key, run["runId"], api=api)["error"]["code"], "session_reset")
        self.finish(run, {"role": "assistant", "text": "late"}, api=api, status=409)
        self.assertEqual(self.texts(key, api=api), [])
        self.assertEqual(self.ok(api.get(S(key, "main", "runs") + "?status=queued"), 200)["data"], [])

    # -- leases

    def test_a_repeated_finish_is_answered_as_the_first_as_long_as_the_run_is_kept(self):
        daemon = self.spawn({"runs": {"keep": 3}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        runs = []
        for text in "abc":
            runs.append(self.start(key, text, api=api))
            self.finish(runs[-1], {"role": "assistant", "text": text * 2}, api=api)
        first = self.finish(runs[0], {"role": "assistant", "text": "aa"}, api=api)
        self.assertEqual((first["runId"], first["response"]), (runs[0]["runId"], "aa"))
        daemon.kill9()
        daemon.start()
        api = daemon.client()
        self.assertEqual(self.finish(runs[0], api=api), first)
        stranger = daemon.client(daemon.token("runner"))
        for run in runs:
            reply = stranger.post(S(key, "main", "runs", run["runId"], "finish"), {"fence": run["lease"]["fence"], "status": "done"})
            self.problem(reply, 409, "lease_lost")
        self.finish(self.start(key, "d", api=api), api=api)
        gone = api.post(S(key, "main", "runs", runs[0]["runId"], "finish"), {"fence": runs[0]["lease"]["fence"], "status": "done"})
        self.problem(gone, 409, "lease_lost")
        self.assertEqual(self.texts(key, api=api, query="view=chat&order=asc"), ["a", "aa", "b", "bb", "c", "cc", "d"])

    def test_each_write_that_names_a_run_is_fenced(self):
        key = self.make()
        lost = self.lease(self.start(key, "go"), fence=99)
        other = self.make()
        instead = {"expectedSeq": 1, "entries": [{"role": "user", "text": "other"}]}
        writes = {
            "messages": lambda h: self.api.post(S(key, "main", "messages"), {"role": "user", "text": "x"}, headers=h),
            "outbound": lambda h: self.api.post(S(key, "main", "outbound"), {"text": "x"}, headers=h),
            "patch": lambda h: self.api.patch(S(key), {"label": "x"}, headers=h),
            "put": lambda h: self.api.put(S(key), {"label": "x"}, headers=h),
            "delete": lambda h: self.api.delete(S(key), headers=h),
            "transcript": lambda h: self.api.put(S(key, "main", "transcript"), instead, headers=h),
            "reset": lambda h: self.api.post(S(key, "main", "reset"), {}, headers=h),
            "clear": lambda h: self.api.post(S(key, "main", "clear"), {}, headers=h),
            "archive": lambda h: self.api.post(S(key, "main", "archive"), {}, headers=h),
            "unarchive": lambda h: self.api.post(S(key, "main", "unarchive"), {}, headers=h),
            "fork": lambda h: self.api.post(S(key, "main", "fork"), {}, headers=h),
            "spawn": lambda h: self.api.post(S(key, "main", "spawn"), {}, headers=h),
            "resume": lambda h: self.api.post(S(key, "main", "resume"), {}, headers=h),
            "abort": lambda h: self.api.post(S(key, "main", "abort"), {}, headers=h),
            "runs": lambda h: self.api.post(S(key, "main", "runs"), {"queueOnly": True}, headers=h),
            "snapshot": lambda h: self.api.put(S(key, "main", "snapshots", "systemPrompt"), {"text": "x"}, headers=h),
            "log": lambda h: self.api.post(S(key, "main", "log"), {"entries": [{"type": "error", "message": "x"}]}, headers=h),
            "create": lambda h: self.api.post("/v1/agents/main/sessions", {"key": f"agent:main:{uid()}"}, headers=h),
            "put anew": lambda h: self.api.put(S(f"agent:main:{uid()}"), {"label": "x"}, headers=h),
            "inbound": lambda h: self.api.post(
                "/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": uid(), "text": "x"}, headers=h),
            "create there": lambda h: self.api.post("/v1/agents/main/sessions", {"key": other}, headers=h),
        }
        before = (self.entry(key), self.messages(key), len(self.ok(self.api.get("/v1/agents/main/sessions?limit=200"), 200)["data"]))
        for name, write in writes.items():
            with self.subTest(name):
                self.problem(write(lost), 409, "lease_lost")
                self.problem(write({"X-Run": "no lease"}), 400, "bad_request")
        after = (self.entry(key), self.messages(key), len(self.ok(self.api.get("/v1/agents/main/sessions?limit=200"), 200)["data"]))
        self.assertEqual(after, before)

    def test_a_lease_that_is_held_is_taken_for_what_it_makes(self):
        key = self.make()
        held = self.lease(self.start(key, "go"))
        new = lambda: f"agent:main:slack:direct:{uid()}"  # noqa: E731
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": new()}, headers=held), 201)
        self.ok(self.api.put(S(new()), {"label": "x"}, headers=held), 201)
        self.ok(self.api.post(S(key, "main", "spawn"), {}, headers=held), 201)
        gone = new()
        self.new(gone)
        self.say(gone, "x")
        self.ok(self.api.delete(S(gone)), 204)
        self.ok(self.api.post(S(gone, "main", "restore"), {}, headers=held), 200)
        self.ok(self.api.post("/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": uid(), "text": "x"}, headers=held), 200, 201)

    def test_a_call_about_a_run_names_no_other_in_its_header(self):
        key = self.make()
        run = self.start(key, "go")
        path = S(key, "main", "runs", run["runId"], "events")
        body = {"fence": run["lease"]["fence"], "events": []}
        self.problem(self.api.post(path, body, headers=self.lease(run, fence=99)), 409, "lease_lost")
        self.ok(self.api.post(path, body, headers=self.lease(run)), 200)

    # -- who hears of it

    def test_events_of_runs_carry_nothing_of_the_daemons_own(self):
        key = self.make()
        run = self.start(key, "go")
        self.start(key, "more", 202)
        self.finish(run)
        told = self.of_type(key, "run.started", "run.queued", "run.finished")
        self.assertEqual(len(told), 3)
        schema = self.ok(self.api.get("/openapi.json"), 200)["components"]["schemas"]["Run"]["properties"]
        for one in told:
            self.assertEqual(set(one) - set(schema) - {"set", "unset"}, set(), one)

    def test_a_claim_for_an_agent_that_is_not_there_is_told_so(self):
        daemon = self.spawn()
        claim = lambda api, agent: api.post(f"/v1/agents/{agent}/runs/claim", {})  # noqa: E731
        self.new(api=daemon.client())
        reply = claim(daemon.client(), "typo")
        self.assertEqual((reply.status, reply.headers.get("Sessiond-Hint")), (204, 'no agent "typo"'))
        self.assertIsNone(claim(daemon.client(), "main").headers.get("Sessiond-Hint"))
        limited = daemon.client(daemon.token("runner", keyPrefix="agent:main:slack:"))
        self.assertIsNone(claim(limited, "typo").headers.get("Sessiond-Hint"))

    # -- the queue

    def test_the_first_message_on_an_idle_session_starts_at_once_and_what_follows_is_collected(self):
        key = self.make(queueDebounceMs=600_000)
        self.start(key, "one", 202, queueOnly=True)
        run = self.claim(keyPrefix=key)
        self.start(key, "two", 202, queueOnly=True)
        self.start(key, "three", 202, queueOnly=True)
        self.finish(run)
        waiting, = self.runs_of(key, "queued")
        self.assertEqual(len(waiting["input"]), 2)
        self.claim(204, keyPrefix=key)

    def test_a_run_that_collects_begins_though_more_keeps_coming(self):
        daemon = self.spawn({"runs": {"queueMaxWaitMs": 500}})
        api = daemon.client()
        key = self.new(api=api, queueDebounceMs=600_000, queueCap=10_000)["key"]
        first = self.start(key, "one", api=api)
        self.start(key, "two", 202, api=api)
        self.finish(first, api=api)
        for _ in range(10_000):  # each one would hold it back for as long again
            self.start(key, "more", 202, api=api, queueOnly=True)
            reply = api.post("/v1/agents/main/runs/claim", {})
            if reply.status == 200:
                break
        self.assertEqual(reply.status, 200)
        self.assertGreater(len(reply.json["input"]), 1)

"""The log of a session: what runs asked of models and tools, and requests rebuilt from it. The numbers are the contract's."""

import base64
import io
import json as plain_json
import os
import shutil
import tarfile

from harness.case import S, json, uid
from harness.sessiond import eventually
from runs_case import RunsCase

KINDS = ("session_init", "server_tool", "pre_run", "provider_request", "provider_response_normalized", "tool_batch_started",
         "tool_execution_request", "tool_execution_result", "text_delta", "assistant", "session_shutdown", "error")
CALL = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}}
KEY = "sk-ant-" + "api03-" + "Ab1_" * 22 + "Zz"
BODY = "Ab1_" * 8


class LogCase(RunsCase):
    config = {"sessionLog": "full"}

    def setUp(self):
        super().setUp()
        self.session = self.new(cwd="/srv/app", systemPrompt="You are hé.", toolSchemas=[{"name": "ls"}])
        self.key = self.session["key"]

    def write(self, *lines, status=201, key=None, **headers):
        body = lines[0] if len(lines) == 1 else {"entries": list(lines)}
        reply = self.api.post(S(key or self.key, "main", "log"), body, **headers)
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def log(self, query="", key=None, api=None):
        return self.ok((api or self.api).get(S(key or self.key, "main", "log") + query), 200)

    def lines(self, query="?limit=200", **named):
        return self.log(query, **named)["data"]

    def kinds(self, query="?limit=200", **named):
        return [line["type"] for line in self.lines(query, **named)]

    def path(self, session_id=None, daemon=None):
        return (daemon or self.daemon).state / "agents/main/logs" / f"{session_id or self.session['sessionId']}.jsonl"

    def of_runner(self, run):
        return {"headers": {"X-Run": f"{run['runId']};{run['lease']['fence']}"}}

    def rounds(self, run):
        """The lines of a runner for a run of two rounds."""
        first = {"type": "provider_request", "provider": "p", "model": "m", "round": 1, "executionId": "e1",
                 "messages": [{"role": "user", "content": "hi"}], "options": {"temperature": 0}}
        lines = [first, {"type": "provider_response_normalized", "message": {"role": "assistant", "content": ""}, "toolCallCount": 1},
                 {"type": "tool_batch_started", "mode": "parallel", "maxConcurrency": 2, "count": 1, "tools": ["ls"]},
                 {"type": "tool_execution_request", "tool": "ls", "callId": "c1", "params": {"path": "."}, "batchIndex": 0},
                 {"type": "tool_execution_result", "tool": "ls", "callId": "c1", "success": True, "result": "a b"},
                 {**first, "round": 2}, {"type": "provider_response_normalized", "message": {"role": "assistant", "content": "done"}, "toolCallCount": 0}]
        self.write(*lines, **self.of_runner(run))
        return lines


class SessionLog(LogCase):
    def test_a_line_is_not_taken_for_the_entry_of_the_session(self):
        """A token that is limited to a channel may write of another one. It may not have the session answered there."""
        key = self.new(f"agent:main:slack:direct:{uid()}", deliveryContext={"channel": "slack", "to": "u1"})["key"]
        limited = self.daemon.client(self.daemon.token("operator", channel="slack"))
        line = {"type": "error", "lastChannel": "discord", "deliveryContext": {"channel": "discord"}}
        self.ok(limited.post(S(key, "main", "log"), line), 201)
        self.problem(limited.patch(S(key), {"lastChannel": "discord"}), 403, "forbidden")

    def test_each_kind_of_line_is_logged(self):
        for kind in KINDS:
            self.write({"type": kind})
        self.assertEqual(self.kinds(), list(KINDS))
        self.problem(self.api.post(S(self.key, "main", "log"), {"type": "foo"}), 422, "validation_failed", "/type")
        for body, pointer in (({"entries": [{"type": "error"}, {}]}, "/entries/1/type"), ({"entries": []}, "/entries"),
                              ({"type": "error", "seq": 1}, "/seq"), ({"type": "error", "round": "1"}, "/round"),
                              ({"type": "provider_request", "messagesRef": {"throughSeq": 1, "query": "limit=1"}}, "/messagesRef/query"),
                              ({"type": "provider_request", "messagesRef": {"query": "view=llm"}}, "/messagesRef/throughSeq")):
            self.problem(self.api.post(S(self.key, "main", "log"), body), 422, "validation_failed", pointer)
        self.assertEqual(len(self.lines()), len(KINDS))

    def test_a_run_of_two_rounds_is_logged(self):
        run = self.start(self.key, "hi")
        sent = self.rounds(run)
        self.finish(run, {"role": "assistant", "text": "done"})
        self.assertEqual(self.kinds(), [
            "session_init", "pre_run", "provider_request", "provider_response_normalized", "tool_batch_started",
            "tool_execution_request", "tool_execution_result", "provider_request", "provider_response_normalized", "assistant"])
        for _ in range(3):
            self.ok(self.api.post(S(self.key, "main", "shutdown"), {"reason": "quit"}), 200)
        lines = self.lines()
        self.assertEqual([line["type"] for line in lines].count("session_shutdown"), 1)
        self.assertEqual((lines[-1]["type"], lines[-1]["reason"]), ("session_shutdown", "quit"))
        self.assertEqual([line["seq"] for line in lines], list(range(len(lines))))
        init, before, last = lines[0], lines[1], lines[-2]
        self.assertEqual((init["systemPrompt"], init["systemPromptLength"], init["cwd"], init["toolSchemas"]),
                         ("You are hé.", 11, "/srv/app", [{"name": "ls"}]))
        self.assertEqual((before["input"], before["historyThroughSeq"], before["webToolsEnabled"], before["provider"]), ("hi", 1, False, ""))
        self.assertEqual((last["content"], last["runId"]), ("done", run["runId"]))
        self.assertEqual({line.get("runId") for line in lines[:-1]}, {run["runId"]})
        for told, line in zip(sent, lines[2:9]):
            self.assertEqual({**told, "runId": run["runId"]}, {k: v for k, v in line.items() if k not in ("seq", "time", "id")})
        file = self.path().read_text().splitlines()  # the acknowledged lines, as they are in the file
        self.assertEqual([plain_json.loads(line) for line in file], lines)
        second = self.start(self.key, "again")
        self.assertEqual(self.kinds("?after=10"), ["session_init", "pre_run"])
        self.finish(second, outcome="failed", error={"code": "overloaded", "message": "later"})
        line = self.lines("?types=error")[0]
        self.assertEqual((line["code"], line["message"], line["runId"]), ("overloaded", "later", second["runId"]))

    def test_deltas_are_in_the_file_while_the_run_goes_on(self):
        run = self.start(self.key, "hi")
        for n, text in enumerate(("Hel", "lo"), 1):
            self.tell(run, {"type": "text.delta", "text": text}, n=n)
        eventually(lambda: self.path().exists() and self.path().read_text().count('"text_delta"') == 2)
        deltas = [line for line in map(plain_json.loads, self.path().read_text().splitlines()) if line["type"] == "text_delta"]
        self.assertEqual([line["text"] for line in deltas], ["Hel", "lo"])
        self.tell(run, {"type": "text.delta", "text": "lo"}, n=2)  # the reply was lost, and the call comes again
        self.assertEqual([line["text"] for line in self.lines("?types=text_delta")], ["Hel", "lo"])
        self.assertEqual(self.run_of(self.key)["status"], "running")
        self.finish(run, {"role": "assistant", "text": "Hello"})

    def test_the_history_has_its_structure(self):
        run = self.start(self.key, "hé")
        self.finish(run, {"role": "assistant", "content": [CALL], "model": "m"},
                    {"role": "toolResult", "toolCallId": "c1", "toolName": "ls", "content": [{"type": "text", "text": "a"}]})
        structure = self.lines("?types=assistant")[0]["historyStructure"]
        self.assertEqual(structure[:2], [
            {"role": "user", "contentLength": 2, "hasToolCalls": False, "toolCallNames": [], "metadata": {}},
            {"role": "assistant", "contentLength": 0, "hasToolCalls": True, "toolCallNames": ["ls"], "metadata": {"model": "m"}}])
        self.assertEqual([row["role"] for row in structure], ["user", "assistant", "tool"])
        later = self.start(self.key, "and?")
        self.finish(later, {"role": "assistant", "text": "ok"})
        line = self.lines("?types=assistant")[1]
        self.assertEqual([row["contentLength"] for row in line["historyStructure"]], [2, 0, 1, 4, 2])
        self.assertEqual(line["historyThroughSeq"], 8)

    def test_pages_and_filters(self):
        self.write(*[{"type": "error", "code": str(n), "runId": f"r{n % 2}"} for n in range(6)])
        self.assertEqual([line["code"] for line in self.lines("?after=1&limit=2")], ["2", "3"])
        self.assertEqual(self.log("?limit=2")["page"], {"nextAfter": 1, "hasMore": True})
        page = self.log("?limit=2&runId=r1")
        self.assertEqual([line["code"] for line in page["data"]], ["1", "3"])
        self.assertEqual([line["code"] for line in self.lines(f"?limit=2&runId=r1&after={page['page']['nextAfter']}")], ["5"])
        self.assertEqual(self.lines("?types=assistant"), [])
        self.assertEqual(self.api.get(S(self.key, "main", "log") + "?types=foo").status, 400)

    def test_it_outlives_a_kill(self):
        run = self.start(self.key, "hi")
        self.tell(run, {"type": "text.delta", "text": "one"})
        acknowledged = self.write({"type": "server_tool", "tool": "web_search", "query": "tea"}, **self.of_runner(run))
        before = self.lines()
        self.assertEqual(before[-1]["seq"], acknowledged["lastSeq"])
        with self.path().open("a") as file:
            file.write('{"seq":9,"torn')
        self.daemon.restart(kill=True)
        type(self).api = self.daemon.client()
        self.assertEqual(self.lines()[:len(before)], before)
        self.write({"type": "error", "code": "after"})
        self.assertEqual(self.lines()[-1]["code"], "after")
        self.assertEqual([line["seq"] for line in self.lines()], list(range(len(before) + 1)))
        if path := self.path():
            self.assertEqual(len(path.read_text().splitlines()), len(before) + 1)

    def test_a_file_that_is_lost_before_a_restart_is_written_again(self):
        self.write({"type": "error", "code": "kept"})
        self.daemon.kill9()
        if self.path().exists():
            self.path().unlink()
        self.daemon.start()
        type(self).api = self.daemon.client()
        eventually(lambda: self.path().exists())
        self.assertEqual([line["code"] for line in self.lines()], ["kept"])

    def test_a_log_that_cannot_be_written(self):
        daemon = self.spawn(config={"sessionLog": "full"})
        api = daemon.client()
        logs = daemon.state / "agents/main/logs"
        logs.parent.mkdir(parents=True, exist_ok=True)
        logs.write_text("no folder")  # tests may run as root, who writes into any folder
        made = self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:slack:direct:u9"}), 201)
        with api.stream() as events:
            events.wait_type("stream.hello")
            run = self.start(made["key"], "hi", api=api)
            told = events.wait_type("store.degraded")
            self.assertEqual(told.data["data"]["what"], "log")
        self.tell(run, {"type": "text.delta", "text": "x"}, api=api)
        self.finish(run, {"role": "assistant", "text": "done"}, api=api)
        self.assertEqual(self.run_of(made["key"], run["runId"], api=api)["status"], "done")
        ready = api.get("/readyz")
        self.assertEqual(ready.status, 503)
        self.assertIn("sessiond_session_logs_unwritable 1", api.get("/metrics").raw.decode())
        self.assertIn("session log", " ".join(ready.json["reasons"]))
        daemon.restart(kill=True)  # the lines wait in the journal
        api = daemon.client()
        logs.unlink()
        eventually(lambda: api.get("/readyz").status == 200)
        self.assertEqual(self.kinds(key=made["key"], api=api), ["session_init", "pre_run", "text_delta", "assistant"])

    def test_whatever_stands_in_the_way_of_one_log(self):
        """A folder in place of the file, a link out of the store: the runs end done, and nothing outside is written."""
        outside = self.daemon.state.parent / "outside"
        outside.mkdir()
        self.addCleanup(shutil.rmtree, outside)
        for put in (lambda path: path.mkdir(), lambda path: path.symlink_to(outside / "log.jsonl")):
            made = self.new()
            path = self.path(made["sessionId"])
            path.parent.mkdir(exist_ok=True)
            put(path)
            run = self.start(made["key"], "hi")
            self.finish(run, {"role": "assistant", "text": "done"})
            eventually(lambda: any("session log" in why for why in self.api.get("/readyz").json["reasons"]))
            self.assertEqual(self.api.get(S(made["key"], "main", "log")).status // 100 in (2, 5), True)
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            eventually(lambda: self.api.get("/readyz").status == 200)
            self.assertEqual(self.kinds(key=made["key"]), ["session_init", "pre_run", "assistant"])
        self.assertEqual(list(outside.iterdir()), [])

    def test_another_program_appends_to_the_log(self):
        self.write({"type": "error", "code": "ours 1"})
        eventually(lambda: self.path().exists())
        for foreign in ('{"type":"error","code":"theirs"}\n', "no json\n", '{"type":"error","code":"torn"'):
            with self.path().open("a") as file:
                file.write(foreign)
            self.write({"type": "error", "code": "ours"})
        eventually(lambda: self.path().read_text().count('"ours"') == 3)
        lines = self.lines()
        self.assertEqual([line.get("code") for line in lines if line.get("code", "").startswith("ours")], ["ours 1", "ours", "ours", "ours"])
        self.assertIn("theirs", [line.get("code") for line in lines])
        self.daemon.restart(kill=True)
        type(self).api = self.daemon.client()
        self.assertEqual([line.get("code") for line in self.lines() if line.get("code", "").startswith("ours")], ["ours 1", "ours", "ours", "ours"])

    def test_a_backup_has_the_logs(self):
        self.write({"type": "error", "code": "kept"})
        with tarfile.open(fileobj=io.BytesIO(self.api.post("/v1/admin/backup").raw), mode="r|*") as tar:
            self.assertIn(f"agents/main/logs/{self.session['sessionId']}.jsonl", [member.name for member in tar])

    def test_a_long_run_of_deltas(self):
        run = self.start(self.key, "hi")
        for n in range(1, 21):
            self.tell(run, *[{"type": "text.delta", "text": f"{n} {m} "} for m in range(250)], n=n)
        self.finish(run, {"role": "assistant", "text": "done"})
        text, after = "", "-1"
        while after is not None:
            page = self.log(f"?types=text_delta&limit=200&after={after}")
            text += "".join(line["text"] for line in page["data"])
            after = page["page"]["nextAfter"]
        self.assertEqual(text, "".join(f"{n} {m} " for n in range(1, 21) for m in range(250)))

    def test_off_and_meta(self):
        for mode in ("off", "meta"):
            daemon = self.spawn(config={"sessionLog": mode})
            api = daemon.client()
            made = self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:slack:direct:u9", "entry": {"systemPrompt": "PROMPT"}}), 201)
            run = self.start(made["key"], "WORDS", api=api)
            self.tell(run, {"type": "text.delta", "text": "WORDSé"}, api=api)
            line = {"type": "provider_request", "provider": "p", "messages": ["WORDS"], "round": 1}
            reply = api.post(S(made["key"], "main", "log"), line)
            self.finish(run, {"role": "assistant", "text": "WORDS"}, api=api)
            shown = self.ok(api.get(S(made["key"], "main", "log")), 200)
            if mode == "off":
                self.problem(reply, 409, "session_log_off")
                self.assertEqual((shown["data"], shown["enabled"]), ([], False))
                self.assertFalse((daemon.state / "agents/main/logs").exists())
                continue
            self.assertEqual(reply.status, 201, reply)
            self.assertTrue(shown["enabled"])
            text = plain_json.dumps(shown["data"])
            self.assertNotIn("WORDS", text)
            self.assertNotIn("PROMPT", text)
            self.assertEqual(shown["data"][0]["systemPrompt"], {"length": 6})
            self.assertEqual(shown["data"][2]["text"], {"length": 6})
            self.assertEqual((shown["data"][3]["messages"], shown["data"][3]["provider"]), ({"length": 9}, "p"))

    def test_limits(self):
        daemon = self.spawn(config={"sessionLog": "full", "limits": {"logBytes": 65536, "logEntryBytes": 20000}})
        api = daemon.client()
        made = self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:slack:direct:u9"}), 201)
        where = S(made["key"], "main", "log")
        self.problem(api.post(where, {"type": "error", "message": "x" * 20000}), 422, "validation_failed")
        for _ in range(3):
            self.ok(api.post(where, {"type": "error", "message": "x" * 19000}), 201)
        self.problem(api.post(where, {"type": "error", "message": "x" * 19000}), 413, "content_too_large")
        run = self.start(made["key"], "hi", api=api)
        self.tell(run, {"type": "text.delta", "text": "y" * 10000}, api=api)
        self.finish(run, {"role": "assistant", "text": "done"}, api=api)
        lines = self.ok(api.get(where + "?limit=200"), 200)["data"]
        self.assertEqual(lines[-1]["code"], "log_full")
        self.assertEqual([line.get("code") for line in lines].count("log_full"), 1)
        self.assertEqual(daemon.state.joinpath("agents/main/logs", made["sessionId"] + ".jsonl").stat().st_size < 70000, True)

    def test_limits_of_streams(self):
        daemon = self.spawn(config={"limits": {"streamBytes": 65536, "streamEntryBytes": 20000}})
        api = daemon.client()
        made = self.ok(api.post("/v1/agents/main/sessions", {"key": "agent:main:slack:direct:u9"}), 201)
        where = S(made["key"], "main", "streams", "memoryEvents")
        self.problem(api.post(where, {"x": "x" * 20000}), 422, "validation_failed")
        for _ in range(3):
            self.ok(api.post(where, {"x": "x" * 19000}), 201)
        self.problem(api.post(where, {"x": "x" * 19000}), 413, "content_too_large")

    def test_streams_show_lines_only_where_they_are_asked_for(self):
        after = self.ok(self.api.get(S(self.key)), 200)["asOf"]
        self.write({"type": "error", "code": "one"})
        def events(query):
            return [event["type"] for event in self.ok(self.api.get(f"/v1/events?poll=1&waitMs=5000&limit=100&after={after}{query}"), 200)["data"] if event.get("key") == self.key]
        for query in ("", "&types=*", "&keyPrefix=agent:", "&types=message.*,session.*"):
            self.assertNotIn("log.appended", events(query), query)
        for query in ("&types=log.appended", "&types=log.*", "&types=message.*,log.*"):
            self.assertEqual(events(query), ["log.appended"], query)

    def test_resets_deletions_and_purges(self):
        self.write({"type": "error", "code": "old"})
        old = self.session["sessionId"]
        self.ok(self.api.post(S(self.key, "main", "messages"), {"role": "user", "text": "hi"}), 201)
        now = self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)
        self.assertNotEqual(now["sessionId"], old)
        self.assertEqual(self.lines(), [])
        self.assertEqual([line["code"] for line in self.lines(key=old)], ["old"])
        self.write({"type": "error", "code": "new"})
        self.ok(self.api.delete(S(self.key)), 204)
        eventually(lambda: self.path(now["sessionId"]).exists())
        other = f"agent:main:slack:direct:{uid().lower()}"  # nobody else gets the id, and with it the log
        self.problem(self.api.post("/v1/agents/main/sessions", {"key": other, "sessionId": old}), 409, "session_exists")
        made = self.new()
        self.write({"type": "error", "code": "gone"}, key=made["key"])
        self.ok(self.api.delete(S(made["key"]) + "?purge=true"), 204)
        eventually(lambda: not self.path(made["sessionId"]).exists())
        self.daemon.restart(kill=True)
        type(self).api = self.daemon.client()
        self.ok(self.api.get("/v1/agents"), 200)
        self.assertFalse(self.path(made["sessionId"]).exists())

    def test_a_token_sees_the_log_of_its_sessions_only(self):
        self.write({"type": "error", "code": "secret"})
        own = self.daemon.client(self.daemon.token("runner", agents=["main"], keyPrefix="agent:main:discord:"))
        for method, path, body in (("GET", "log", None), ("POST", "log", {"type": "error"}), ("GET", "runs/r1/replay", None)):
            self.problem(own.request(method, S(self.key, "main") + "/" + path, body), 404, "session_not_found")
        theirs = "agent:main:discord:direct:u1"
        self.problem(own.post("/v1/agents/main/sessions", {"key": theirs, "sessionId": self.session["sessionId"]}), 409, "session_exists")

    def test_a_fork_begins_without_a_log_and_an_ephemeral_session_has_none(self):
        self.write({"type": "error"})
        self.ok(self.api.post(S(self.key, "main", "messages"), {"role": "user", "text": "hi"}), 201)
        fork = self.ok(self.api.post(S(self.key, "main", "fork"), {}), 201)
        self.assertEqual(self.lines(key=fork["key"]), [])
        passing = self.ok(self.api.post("/v1/agents/main/sessions", {"key": f"agent:main:slack:direct:{uid().lower()}", "ephemeral": True}), 201)["key"]
        self.assertEqual(self.log(key=passing)["enabled"], False)
        self.problem(self.api.post(S(passing, "main", "log"), {"type": "error"}), 409, "session_log_off")
        run = self.start(passing, "hi")
        self.finish(run, {"role": "assistant", "text": "ok"})


class Replay(LogCase):
    def view(self, key, query):
        raw = self.api.get(S(key, "main", "messages") + "?" + query).raw
        begin = raw.index(b'"data":[') + len(b'"data":')
        return raw[begin:raw.index(b',"context":{')]

    def replay(self, key, run_id, **named):
        reply = self.api.get(S(key, "main", "runs", run_id, "replay"), **named)
        self.assertEqual(reply.status, 200, reply)
        return reply

    def record(self, key, n):
        """A run whose request is logged twice: as it is, and by reference. Returns its id, and what was sent."""
        run = self.start(key, f"question {n} é" + "x" * (n * 7 % 50))
        query = "view=llm" + ("&maxMessages=5" if n % 3 == 0 else "&window=1000" if n % 3 == 1 else "")
        sent = self.view(key, query)
        through = self.lines(f"?types=pre_run&runId={run['runId']}", key=key)[0]["historyThroughSeq"]
        head = b'{"type":"provider_request","round":%d,"messages":' % n
        self.ok(self.api.post(S(key, "main", "log"), head + sent + b"}", **self.of_runner(run)), 201)
        self.write({"type": "provider_request", "round": n, "messagesRef": {"throughSeq": through, "query": query}}, key=key, **self.of_runner(run))
        self.write({"type": "provider_response_normalized", "message": {"role": "assistant"}}, {"type": "tool_execution_request", "tool": "ls"},
                   {"type": "tool_execution_result", "tool": "ls", "success": True}, key=key, **self.of_runner(run))
        content = [{"type": "text", "text": f"answer {n}"}] + ([{**CALL, "id": f"c{n}"}] if n % 4 == 0 else [])
        entries = [{"role": "assistant", "content": content}]
        if n % 4 == 0:
            entries.append({"role": "toolResult", "toolCallId": f"c{n}", "toolName": "ls", "content": [{"type": "text", "text": "r" * 300}]})
        self.finish(run, *entries)
        return run["runId"], sent

    def check(self, key, recorded, runs=None):
        for run_id, sent in recorded:
            raw = self.replay(key, run_id).raw
            self.assertEqual(raw.count(b'"messages":' + sent), 2, run_id)
            shown = plain_json.loads(raw)
            self.assertEqual([len(shown[part]) for part in ("requests", "responses", "tools")], [2, 1, 2])

    def test_a_view_that_was_too_long_is_rebuilt_with_what_was_left_out(self):
        key = self.new()["key"]
        for n in range(2):
            photo = {"type": "image", "data": base64.b64encode(os.urandom(90_000)).decode(), "mimeType": "image/png"}
            self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "content": [{"type": "text", "text": f"look {n}"}, photo]}), 201)
            self.ok(self.api.post(S(key, "main", "messages"), {"role": "assistant", "text": "a photo"}), 201)
        run = self.start(key, "and now?")
        query = "view=llm&maxBytes=200000"
        sent = self.view(key, query)
        self.assertEqual(sent.count(b"[Old image content cleared]"), 1)
        through = self.lines(f"?types=pre_run&runId={run['runId']}", key=key)[0]["historyThroughSeq"]
        for asked in (query, "view=llm"):
            self.write({"type": "provider_request", "round": 1, "messagesRef": {"throughSeq": through, "query": asked}}, key=key, **self.of_runner(run))
        kept = [line["messagesRef"]["query"] for line in self.lines("?types=provider_request", key=key)]
        self.assertEqual(kept[0].count("maxBytes"), 1)
        self.assertIn(f"&maxBytes={24 << 20}", kept[1])
        self.finish(run)
        self.append_more(key)
        self.assertEqual(self.replay(key, run["runId"]).raw.count(b'"messages":' + sent), 1)

    def append_more(self, key):
        for n in range(3):
            self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "text": f"more {n}"}), 201)

    def test_requests_of_100_runs_are_rebuilt_byte_for_byte(self):
        keys = [self.key, self.new()["key"], self.new()["key"], self.new()["key"]]
        recorded = {key: [] for key in keys}
        for n in range(100):
            key = keys[n % 4]
            if n // 4 == 22:
                break
            recorded[key].append(self.record(key, n))
        for n in range(sum(map(len, recorded.values())), 100):
            if n % 4 == 0:  # what was said before is edited, and compacted: a replay shows what it was
                self.edit_and_compact(keys[n // 4 % 4])
            recorded[keys[n % 4]].append(self.record(keys[n % 4], n))
        self.assertEqual(sum(map(len, recorded.values())), 100)
        for key in keys:
            self.check(key, recorded[key])
        self.daemon.restart(kill=True)
        type(self).api = self.daemon.client()
        self.check(keys[1], recorded[keys[1]][:3] + recorded[keys[1]][-2:])
        reset = self.ok(self.api.get(S(keys[0])), 200)["sessionId"]
        self.ok(self.api.post(S(keys[0], "main", "reset"), {}), 200)
        self.check(reset, recorded[keys[0]][:2] + recorded[keys[0]][-1:])
        self.problem(self.api.get(S(keys[1], "main", "runs", "none", "replay")), 404, "run_not_found")

    def edit_and_compact(self, key):
        messages = [m for m in self.messages(key) if m.get("role") in ("user", "assistant")]
        kept = next(m for m in reversed(messages) if m["role"] == "user")
        self.ok(self.api.post(S(key, "main", "compact"), {"summary": "they talked", "firstKeptEntryId": kept["id"]}), 201)

    def test_media_come_back_inline(self):
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"png" * 30_000).decode()}}
        self.ok(self.api.post(S(self.key, "main", "messages"), {"role": "user", "content": [image]}), 201)
        run = self.start(self.key, "what is it?")
        for query in ("view=llm&media=inline", "view=llm"):
            sent = self.view(self.key, query)
            self.assertEqual(b"cG5n" * 100 in sent, query != "view=llm")
            self.write({"type": "provider_request", "messagesRef": {"throughSeq": 1, "query": query}}, **self.of_runner(run))
            self.assertIn(b'"messages":' + sent, self.replay(self.key, run["runId"]).raw)

    def test_an_edit_does_not_change_what_was_sent(self):
        inbound = {"channel": "slack", "chatType": "direct", "peer": uid().lower(), "text": "first", "messageId": "m1", "activate": False}
        key = self.ok(self.api.post("/v1/inbound", inbound), 201)["sessionKey"]
        recorded = [self.record(key, 1)]
        self.ok(self.api.post("/v1/inbound/edits", {k: inbound[k] for k in ("channel", "chatType", "peer", "messageId") if k != "chatType"} | {"text": "second"}), 201)
        self.assertIn(b"second", self.view(key, "view=llm"))
        self.check(key, recorded)
        recorded.append(self.record(key, 2))
        self.check(key, recorded)


class OfAnAgent(RunsCase):
    config = {"sessionLog": "full", "agents": {"main": {"maxMessages": 2, "fsScope": "project"}}}

    def test_what_a_model_is_shown_and_where_it_may_work(self):
        key = self.new(context={"workingDir": "/w"})["key"]
        self.assertEqual(self.entry(key)["context"]["fsScopeTier"], "project")
        other = self.ok(self.api.post("/v1/agents/other/sessions", {"key": "agent:other:main", "entry": {"context": {"workingDir": "/w"}}}), 201)
        self.assertEqual(other["context"]["fsScopeTier"], "sandboxed")
        for text in ("a", "b", "c"):
            for role in ("user", "assistant"):
                self.ok(self.api.post(S(key, "main", "messages"), {"role": role, "text": text}), 201)
        seen = lambda query: len(self.ok(self.api.get(S(key, "main", "messages") + "?view=llm" + query), 200)["data"])  # noqa: E731
        self.assertEqual((seen(""), seen("&maxMessages=4")), (2, 4))
        self.ok(self.api.post(S(key, "main", "log"), {"type": "provider_request", "messagesRef": {"throughSeq": 1, "query": "view=llm"}}), 201)
        line = self.ok(self.api.get(S(key, "main", "log")), 200)["data"][0]
        self.assertIn("&maxMessages=2", line["messagesRef"]["query"])


class Cost(RunsCase):
    config = {"agents": {"main": {"maxCostMicrocents": 1_000_000}, "loose": {"maxCostMicrocents": 1_000_000, "onExceed": "warn"}}}

    def spend(self, key, dollars, agent="main"):
        return self.ok(self.api.post(S(key, agent, "messages"), {"role": "assistant", "text": "x", "usage": {"input": 1, "cost": {"total": dollars}}}), 201)

    def events(self, key, agent):
        reply = self.ok(self.api.get(f"/v1/agents/{agent}/events?poll=1&waitMs=5000&limit=1000&types=cost.exceeded&after={self.epoch}-0"), 200)
        return [event["data"] for event in reply["data"] if event["key"] == key]

    def setUp(self):
        super().setUp()
        self.epoch = self.ok(self.api.get("/version"), 200)["epoch"]

    def test_a_run_over_its_cap_of_cost_fails(self):
        key = self.make()
        self.spend(key, 0.004)
        run = self.start(key, "hi")
        self.finish(run, {"role": "assistant", "text": "ok", "usage": {"input": 1, "cost": {"total": 0.006}}})
        self.assertEqual(self.entry(key)["costMicrocents"], 1_000_000)
        before = len(self.messages(key))
        refused = self.api.post(S(key, "main", "runs"), {"input": {"role": "user", "text": "more"}})
        self.problem(refused, 409, "cost_limit")
        self.assertEqual(refused.json["limit"], "maxCostMicrocents")
        self.assertEqual(len(self.messages(key)), before)
        self.assertEqual(len(self.events(key, "main")), 1)
        inbound = self.ok(self.api.post("/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": "costly", "text": "hi"}), 201)
        self.assertIn("runId", inbound["run"])
        self.spend(inbound["sessionKey"], 2)
        again = self.ok(self.api.post("/v1/inbound", {"channel": "slack", "chatType": "direct", "peer": "costly", "text": "hi"}), 201)
        self.assertEqual(again["run"], {"refused": "cost_limit"})
        self.assertEqual(self.claim(status=204, keyPrefix=inbound["sessionKey"]), None)  # the run that waited ends failed
        self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        self.start(key, "after the reset")
        self.daemon.restart(kill=True)
        type(self).api = self.daemon.client()
        self.assertEqual(self.entry(inbound["sessionKey"])["costMicrocents"], 200_000_000)

    def test_a_warning_comes_once(self):
        key = self.ok(self.api.post("/v1/agents/loose/sessions", {"key": f"agent:loose:slack:direct:{uid().lower()}"}), 201)["key"]
        for dollars in (0.009999, 0.000001, 0.5, 0.5):
            self.spend(key, dollars, "loose")
        told = self.events(key, "loose")
        self.assertEqual([(one["costMicrocents"], one["maxCostMicrocents"]) for one in told], [(1_000_000, 1_000_000)])
        self.assertEqual(self.api.post(S(key, "loose", "runs"), {"input": {"role": "user", "text": "hi"}}).status, 201)

    def test_odd_costs_count_nothing(self):
        key = self.make()
        for total in (-1, "0.5", None, 0):
            self.spend(key, total)
        self.assertNotIn("costMicrocents", self.entry(key))
        self.spend(key, 1e300)
        self.assertEqual(self.entry(key)["costMicrocents"], 2 ** 53)
        self.problem(self.api.patch(S(key), {"costMicrocents": 0}), 422, "validation_failed")


class CutKeys(LogCase):
    config = {"sessionLog": "full", "policy": {"secretScanMessages": "redact"}}
    place = "[redacted: Anthropic key]"

    def deltas(self, events):
        return "".join(event.data["data"]["text"] for event in events.events if event.type == "text.delta")

    def nowhere(self):
        self.daemon.checkpoint()
        places = {str(path): path.read_bytes() for path in self.daemon.state.rglob("*") if path.is_file()}
        places["log"] = "\n".join(self.daemon.stderr).encode()
        for name, held in places.items():
            self.assertNotIn(BODY.encode(), held, name)

    def test_a_key_that_two_calls_of_a_run_bring_is_cut(self):
        for cut in (1, 5, 12, len(KEY) // 2, len(KEY) - 20, len(KEY) - 1):
            run = self.start(self.make(), "hi")
            with self.api.stream() as events:
                events.wait_type("stream.hello")  # what passes before is not for it
                for part in ("before ", KEY[:cut], KEY[cut:], " after"):
                    self.tell(run, {"type": "text.delta", "text": part})
                self.tell(run, {"type": "step.started", "step": 1})
                events.wait_until(lambda seen: self.deltas(seen).endswith("after"))
                text = self.deltas(events)
            self.assertEqual(text, f"before {self.place} after", cut)
            lines = self.lines("?types=text_delta", key=run["key"])
            self.assertEqual("".join(line["text"] for line in lines), text)
            self.ok(self.api.post(S(run["key"], "main", "abort"), {}), 202)
            self.finish(run, outcome="interrupted")
            self.assertEqual(self.said(run["key"])[-1], text)
        self.nowhere()

    def test_text_that_waits_for_the_scan_is_told_at_the_end(self):
        run = self.start(self.key, "hi")
        with self.api.stream() as events:
            events.wait_type("stream.hello")  # what passes before is not for it
            self.tell(run, {"type": "text.delta", "text": "the last word"})
            self.finish(run, {"role": "assistant", "text": "the last word"})
            events.wait_type("run.finished")
            # A delta that still waits to be sent when the message comes is dropped: the message has its text.
            self.assertIn(self.deltas(events), ("the last ", "the last word"))
        self.assertEqual("".join(line["text"] for line in self.lines("?types=text_delta")), "the last word")

    def test_a_key_that_two_deltas_bring_is_cut(self):
        where = S(self.key, "main", "deltas")
        with self.api.stream() as events:
            events.wait_type("stream.hello")  # what passes before is not for it
            for part in ("a ", KEY[:30], KEY[30:], " b ", ""):
                self.ok(self.api.post(where, {"text": part}), 204)
            events.wait_until(lambda seen: self.deltas(seen).endswith(" b "))
            text = self.deltas(events)
        self.assertEqual(text, f"a {self.place} b ")

    def test_keys_in_slack_and_discord_messages_are_cut(self):
        keys = {}
        for channel in ("slack", "discord"):
            reply = self.ok(self.api.post("/v1/inbound", {"channel": channel, "chatType": "direct", "peer": "u1", "messageId": f"{channel}1",
                                                          "from": {"id": "u1", "name": "Ada"}, "text": f"take {KEY} please"}), 201)
            keys[channel] = reply["sessionKey"]
            run = self.claim(keyPrefix=reply["sessionKey"], waitMs=10_000)
            self.tell(run, {"type": "text.delta", "text": "I have " + KEY[:50]}, {"type": "text.delta", "text": KEY[50:]})
            self.tell(run, {"type": "tool.started", "tool": "curl", "callId": "c1", "args": {"header": "Bearer " + KEY}},
                      {"type": "tool.finished", "tool": "curl", "callId": "c1", "success": True, "resultData": {"body": KEY}})
            self.write({"type": "provider_request", "messages": [{"role": "user", "content": KEY}]}, key=run["key"], **self.of_runner(run))
            self.finish(run, {"role": "assistant", "text": "your key is " + KEY}, deliver=True)
            self.ok(self.api.post(S(keys[channel], "main", "outbound"), {"text": "again " + KEY}), 201)
            self.ok(self.api.post("/v1/inbound/edits", {"channel": channel, "peer": "u1", "messageId": f"{channel}1", "text": "now " + KEY}), 201)
        for key in keys.values():
            self.assertIn(self.place, json.dumps(self.messages(key)))
            self.assertIn(self.place, json.dumps(self.lines(key=key)))
        after = self.ok(self.api.get(S(self.key, "main", "context")), 200)["asOf"].split("-")[0]
        self.assertNotIn(BODY.encode(), self.api.get(f"/v1/events?poll=1&limit=1000&after={after}-0").raw)
        self.nowhere()

"""Sessions of other programs come in: each once, whole or not at all, within the scope of who sends them."""

import concurrent.futures
import os
import pathlib
import subprocess
import tempfile

from export_documents import lines_of, stored
from harness.case import Case, S, json, uid
from harness.sessiond import binary

IMPORT = "/v1/agents/main/import?format="
KNOWN = "not a known format; known are json, robota, manager, jsonl and index, and with `sessiond import --from` " \
        "claude-code, codex, opencode, openclaw and goose"
# Exports of other chat programs, which no reader knows.
UNKNOWN = {
    "Open WebUI": b'[{"id":"c1","user_id":"u","title":"t","chat":{"models":["m"],"history":{"messages":{}},'
                  b'"messages":[{"id":"x","role":"user","content":"hi"}]},"updated_at":1,"created_at":1,"meta":{}}]',
    "LibreChat": b'{"conversationId":"c1","endpoint":"openAI","title":"t","exportAt":"10:00","options":{"model":"m"},'
                 b'"messages":[{"messageId":"x","sender":"User","text":"hi","isCreatedByUser":true}]}',
    "ChatGPT": b'[{"title":"t","create_time":1.5,"mapping":{"x":{"id":"x","message":{"author":{"role":"user"},'
               b'"content":{"content_type":"text","parts":["hi"]}},"children":[]}},"current_node":"x"}]',
    "a text": b"hello",
}


def transcript(session_id, count, begin=0, **sessiond):
    entries = [{"type": "message", "id": f"e{n}", "parentId": f"e{n - 1}" if n else None,
                "timestamp": "2025-01-04T14:00:00.000Z", "message": {"role": "user", "content": str(n)}}
               for n in range(begin, count)]
    return lines_of({"type": "session", "version": 3, "id": session_id, "sessiond": sessiond}, *entries)


class Bodies(Case):
    def raw(self, reply):
        self.ok(reply, 200)
        return reply.raw

    def take_in(self, body, format="json", query="", api=None):
        body = body.encode() if isinstance(body, str) else body
        return self.ok((api or self.api).post(IMPORT + format + query, body), 200)


class Importing(Bodies):
    def test_a_session_keeps_its_id_times_and_counters(self):
        document = stored("s" + uid(), "hi", "yo", name="Their name", model="m", provider="p")
        with self.api.stream("/v1/events?types=session.created") as stream:
            stream.wait_type("stream.hello")
            done = self.take_in(document)
            event = stream.wait_type("session.created").data
        self.assertEqual((done["created"], done["ids"], done["skips"]), (1, [document["metadata"]["id"]], []))
        self.assertEqual(event["data"]["reason"], "import")
        session = self.ok(self.api.get(S(document["metadata"]["id"])), 200)
        self.assertEqual({name: session[name] for name in ("name", "model", "modelProvider", "messageCount", "updatedAt", "sessionStartedAt")},
                         {"name": "Their name", "model": "m", "modelProvider": "p", "messageCount": 2,
                          "updatedAt": 1735999500000, "sessionStartedAt": 1735999200000})
        self.assertEqual(session["key"], "agent:main:session:" + document["metadata"]["id"])
        self.assertEqual(self.texts(session["key"]), ["hi", "yo"])

    def test_lines_are_documents_and_a_bad_one_stops_nothing(self):
        good = [stored("g" + uid(), "x") for _ in range(3)]
        bad = stored("b" + uid(), "x")
        bad["messages"][0]["role"] = "robot"
        done = self.take_in(lines_of(good[0], bad, good[1]) + "{not JSON}\n\n" + lines_of(good[2]))
        self.assertEqual((done["created"], done["skipped"]), (3, 2))
        self.assertTrue(done["skips"][0]["why"].startswith('line 2: /messages/0/role: is "robot"'), done["skips"])
        self.assertTrue(done["skips"][1]["why"].startswith("line 4: is not JSON"), done["skips"])
        self.invalid(self.api.post(IMPORT + "json", bad), "/messages/0/role")
        self.problem(self.api.get(S(bad["metadata"]["id"])), 404, "session_not_found")
        self.take_in(json.dumps(stored("p" + uid(), "x"), indent=2))

    def test_a_session_that_is_there(self):
        document = stored("s" + uid(), "old")
        session_id = document["metadata"]["id"]
        self.take_in(document)
        document["messages"][0]["content"] = "new"
        self.assertEqual(self.take_in(document)["skipped"], 1)
        self.assertEqual(self.texts(session_id), ["old"])
        done = self.take_in(document, query="&ifExists=replace")
        self.assertEqual((done["updated"], done["ids"]), (1, [session_id]))
        self.assertEqual(self.texts(session_id), ["new"])
        self.assertEqual(len(self.ok(self.api.get(S(session_id, "main", "archives")), 200)["data"]), 1)
        other = self.take_in(transcript(session_id, 1, key="agent:main:other" + uid()), "jsonl")
        self.assertEqual((other["skipped"], other["created"]), (1, 0))
        self.assertIn("another session has", other["skips"][0]["why"])
        self.assertEqual(self.ok(self.api.post("/v1/agents/second/import", document), 200)["skips"],
                         [{"id": session_id, "why": f"another session has the id {session_id} or its key"}])

    def test_a_transcript_in_parts(self):
        session_id = "c" + uid()
        go_on = "&ifExists=continue"
        self.assertEqual(self.take_in(transcript(session_id, 10), "jsonl", go_on)["created"], 1)
        self.assertEqual(self.take_in(transcript(session_id, 450, 5), "jsonl", go_on)["updated"], 1)
        self.assertEqual(self.take_in(transcript(session_id, 450, 300), "jsonl", go_on)["skipped"], 1)
        whole = self.raw(self.api.get(S(session_id, "main", "export") + "?format=jsonl")).decode()
        self.assertEqual(whole.split("\n", 1)[1], transcript(session_id, 450).split("\n", 1)[1])
        self.assertEqual(self.ok(self.api.get(S(session_id)), 200)["messageCount"], 450)
        self.say(session_id, "said now")
        self.assertEqual(self.take_in(transcript(session_id, 451, 449), "jsonl", go_on)["updated"], 1)
        self.problem(self.api.post(IMPORT + "json" + go_on, stored("s" + uid())), 400, "bad_request")

    def test_parts_survive_a_kill(self):
        daemon = self.spawn()
        session_id = "k" + uid()
        for end in (10, 300):
            self.take_in(transcript(session_id, end), "jsonl", "&ifExists=continue", daemon.client())
        daemon.kill9()
        daemon.start()
        self.assertEqual(self.take_in(transcript(session_id, 300), "jsonl", "&ifExists=continue", daemon.client())["skipped"], 1)
        whole = self.raw(daemon.client().get(S(session_id, "main", "transcript"))).decode()
        self.assertEqual(whole.split("\n", 1)[1], transcript(session_id, 300).split("\n", 1)[1])

    def test_each_once_after_a_kill(self):
        daemon = self.spawn()
        ids = ["k" + uid() for _ in range(400)]
        body = "".join(transcript(i, 3) for i in ids).encode()
        with concurrent.futures.ThreadPoolExecutor() as pool, daemon.client().stream("/v1/events?types=session.created") as stream:
            stream.wait_type("stream.hello")
            sent = pool.submit(lambda: daemon.client().post(IMPORT + "jsonl", body))
            stream.wait_until(lambda s: sum(e.type == "session.created" for e in s.events) >= 20, 20)
            daemon.kill9()
            self.assertIsInstance(sent.exception(), OSError)
        daemon.start()
        done = self.take_in(body, "jsonl", api=daemon.client())
        self.assertEqual(done["created"] + done["skipped"], 400)
        self.assertGreaterEqual(done["skipped"], 20)
        self.assertEqual(self.take_in(body, "jsonl", api=daemon.client())["skipped"], 400)
        for i in ids:
            self.assertEqual(self.texts(i, api=daemon.client()), ["0", "1", "2"])
        folder = daemon.state / "agents/main/sessions"
        self.assertEqual(len(list(folder.glob("*.jsonl"))), 400)
        self.assertEqual(list(folder.glob("*.staged.tmp")), [])

    def test_a_session_is_as_old_as_it_was_there(self):
        document = stored("c" + uid(), "hi")
        self.take_in(document)
        started = 1735999200000
        session = self.ok(self.api.get(S(document["metadata"]["id"])), 200)
        self.assertEqual((session["createdAt"], session["sessionStartedAt"]), (started, started))
        session_id = "c" + uid()
        self.take_in(transcript(session_id, 2), "jsonl")
        self.assertEqual(self.ok(self.api.get(S(session_id)), 200)["createdAt"], started, "the time of its first entry")
        session_id = "c" + uid()
        self.take_in(transcript(session_id, 2, entry={"createdAt": 5, "sessionStartedAt": 7}), "jsonl")
        self.assertEqual(self.ok(self.api.get(S(session_id)), 200)["createdAt"], 5, "what the entry says stands")
        self.take_in(transcript(session_id, 2, entry={"sessionStartedAt": 9}), "jsonl", "&ifExists=replace")
        self.assertEqual(self.ok(self.api.get(S(session_id)), 200)["createdAt"], 9)

    def test_a_session_tells_how_it_began(self):
        def began(*lines, query="", id=None, **entry):
            session_id = id or "f" + uid()
            head = {"type": "session", "version": 3, "id": session_id, "sessiond": {"entry": entry}}
            self.take_in(lines_of(head, *[line(session_id) if callable(line) else line for line in lines]), "jsonl", query)
            session = self.ok(self.api.get(S(session_id)), 200)
            return session_id, (session.get("firstMessage"), session.get("firstMessageId"))

        def says(id, text, role="user", **more):
            return {"type": "message", "id": id, "parentId": None, "message": {"role": role, "content": text, **more}}

        def change(what, id, **more):
            return lambda session_id: {"type": "custom", "id": "x" + what, "parentId": id, "customType": "sessiond." + what,
                                       "data": {"target": {"sessionId": session_id, "id": id}, **more}}

        opening = [says("a", "be kind", "system"), says("b", "made up", synthetic=True), says("c", "é" * 201), says("d", "more")]
        self.assertEqual(began(*opening)[1], ("é" * 200, "c"))
        self.assertEqual(began(*opening, firstMessage="theirs")[1], ("theirs", None))
        self.assertEqual(began(says("a", "hello", "assistant"))[1], (None, None))
        self.assertEqual(began(*opening, change("delete", "c"))[1], (None, None), "deleted words are shown nowhere")
        self.assertEqual(began(*opening, change("edit", "c", text="new"))[1], (None, None))
        self.assertEqual(began(*opening, change("delete", "d"))[1][1], "c")
        unnamed = {"type": "message", "message": {"role": "user", "content": "hi \ud83d"}}
        session_id, first = began(unnamed)
        self.assertEqual(first[0], "hi \ufffd")
        shown = self.ok(self.api.get(S(session_id, "main", "messages")), 200)["data"][0]["id"]
        self.assertEqual(first[1], shown, "the id that an entry without one is shown with")
        self.assertEqual(began(unnamed, change("delete", shown))[1], (None, None))
        session_id, first = began(*opening)
        self.assertEqual(first[1], "c")
        self.assertEqual(began(change("delete", "c"), id=session_id, query="&ifExists=continue")[1], (None, None),
                         "a deletion may come with a later part")
        session_id, first = began(*opening)
        self.assertEqual(began(says("z", "hello", "assistant"), id=session_id, query="&ifExists=replace")[1], (None, None))

    def test_the_first_message_is_no_field_that_may_not_have_a_key(self):
        document = transcript("k" + uid(), 1).replace('"content": "0"', '"content": "my key is sk-ant-api03-' + "a1B2" * 24 + '"')
        self.assertIn("sk-ant", document)
        done = self.take_in(document, "jsonl")
        self.assertEqual((done["created"], done["skips"]), (1, []))

    def test_an_import_needs_no_required_fields(self):
        daemon = self.spawn({"session": {"requireFields": ["workerId"]}})
        api, document = daemon.client(), stored("r" + uid(), "hi")
        self.assertEqual(self.take_in(document, api=api)["created"], 1)
        self.assertEqual(self.take_in(document, query="&ifExists=replace", api=api)["updated"], 1)
        self.invalid(api.put(S("agent:main:x:put"), {}), "/workerId")
        self.invalid(api.put(S(document["metadata"]["id"]), {"label": "x"}), "/workerId")

    def test_a_byte_order_mark_is_skipped_and_utf_16_named(self):
        bodies = {"json": stored, "jsonl": lambda id, *texts: transcript(id, 1),
                  "robota": lambda id, *texts: {"id": id, "messages": [{"role": "user", "content": "hi"}]}}
        for format, made in bodies.items():
            with self.subTest(format=format):
                session_id = "b" + uid()
                body = made(session_id, "hi")
                body = body if isinstance(body, str) else json.dumps(body)
                reply = self.api.post(IMPORT + format, body.encode("utf-16"))
                self.invalid(reply, "")
                self.assertIn("is UTF-16", reply.json["detail"])
                self.assertNotIn("not a known format", reply.json["detail"])
                self.assertEqual(self.take_in("\ufeff" + body, format)["ids"], [session_id])
        index = {"version": "1.0", "sessions": {session_id: {"name": "Named"}}}
        self.assertEqual(self.take_in("\ufeff" + json.dumps(index), "index")["updated"], 1)

    def test_a_body_in_no_known_format_is_answered_with_those_that_are(self):
        for name, text in UNKNOWN.items():
            for format in ("json", "robota", "manager", "jsonl", "index"):
                with self.subTest(name=name, format=format):
                    reply = self.api.post(IMPORT + format, text)
                    self.problem(reply, 422, "validation_failed")
                    self.assertIn(KNOWN, reply.json["detail"])
                    self.assertIn(KNOWN, reply.json["errors"][0]["detail"])
        reply = self.api.post(IMPORT + "json", {"id": "r" + uid(), "messages": []})
        self.invalid(reply, "/metadata")
        self.assertNotIn(KNOWN, reply.json["detail"], "it is a record, sent as another format")
        bad = stored("k" + uid(), "x")
        del bad["messages"]
        self.assertNotIn(KNOWN, self.api.post(IMPORT + "json", bad).json["detail"])

    def test_a_body_that_is_none(self):
        self.problem(self.api.post(IMPORT + "json", b""), 400, "bad_request")
        self.problem(self.api.post(IMPORT + "json&ifExists=merge", {}), 400, "bad_request")
        self.problem(self.api.post(IMPORT + "json", b"x", headers={"Content-Type": "text/csv"}), 415, "unsupported_media_type")
        self.invalid(self.api.post(IMPORT + "json", {"metadata": {"id": "../up"}, "messages": []}), "/metadata/id")
        found = self.take_in(transcript("e" + uid(), 1, entry={"activeRun": {}}), "jsonl")
        self.assertEqual(found["skipped"], 1)
        self.assertIn("/activeRun", found["skips"][0]["why"])


class Scope(Bodies):
    def setUp(self):
        super().setUp()
        self.inside = f"agent:main:team{uid()}:"
        self.limited = self.daemon.client(self.daemon.token("operator", agents=["main"], keyPrefix=self.inside))

    def send(self, *bodies, query=""):
        return self.ok(self.limited.post(IMPORT + "jsonl" + query, "".join(bodies).encode()), 200)

    def test_only_keys_within_it(self):
        inside, outside = "i" + uid(), "o" + uid()
        done = self.send(transcript(inside, 1, key=self.inside + "a"), transcript(outside, 1, key="agent:main:else" + uid()),
                         transcript("n" + uid(), 1))
        self.assertEqual((done["created"], done["skipped"], done["ids"]), (1, 2, [inside]))
        self.problem(self.api.get(S(outside)), 404, "session_not_found")

    def test_what_is_outside_is_not_told(self):
        there, key = "t" + uid(), "agent:main:else" + uid()
        self.ok(self.api.post(IMPORT + "jsonl", transcript(there, 1, key=key).encode()), 200)
        for query in ("", "&ifExists=replace", "&ifExists=continue"):
            seen = self.send(transcript(there, 2, key=key), query=query)["skips"][0]["why"]
            absent_id = "a" + uid()
            absent = self.send(transcript(absent_id, 2, key="agent:main:else" + uid()), query=query)["skips"][0]["why"]
            self.assertEqual(seen.replace(there, "ID"), absent.replace(absent_id, "ID"))
            taken = self.send(transcript(there, 2, key=self.inside + uid()), query=query)["skips"][0]["why"]
            self.assertEqual(taken.replace(there, "ID"), absent.replace(absent_id, "ID"))
        self.assertEqual(self.texts(key), ["0"])
        index = {"version": "1.0", "sessions": {there: {"name": "x"}, "absent": {"name": "x"}}, "updatedAt": ""}
        skips = self.ok(self.limited.post(IMPORT + "index", index), 200)["skips"]
        self.assertEqual(skips[0]["why"], skips[1]["why"])

    def test_the_index_has_what_is_inside(self):
        inside, outside = "i" + uid(), "o" + uid()
        self.send(transcript(inside, 1, key=self.inside + "a"))
        self.ok(self.api.post(IMPORT + "jsonl", transcript(outside, 1).encode()), 200)
        index = json.loads(self.raw(self.limited.get("/v1/agents/main/export")))
        self.assertEqual(list(index["sessions"]), [inside])
        self.problem(self.limited.get(S(outside, "main", "export")), 404, "session_not_found")
        nobody = json.loads(self.raw(self.daemon.client(self.daemon.token("viewer", agents=["none"], keyPrefix="agent:none:x")).get("/v1/agents/none/export")))
        self.assertEqual(nobody["sessions"], {})

    def test_a_viewer_imports_nothing(self):
        viewer = self.daemon.client(self.daemon.token("viewer"))
        self.problem(viewer.post(IMPORT + "jsonl", transcript("v" + uid(), 1).encode()), 403, "forbidden")


class Commands(Bodies):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.daemon.home))

    def test_a_folder_goes_there_and_back(self):
        agent = "f" + uid().lower()
        there, back = self.folder / "there", self.folder / "back"
        there.mkdir()
        documents = [stored("f" + uid(), "hi", "yo", name=f"Session {n}") for n in range(5)]
        for document in documents:
            (there / (document["metadata"]["id"] + ".json")).write_text(json.dumps(document))
        (there / "broken.json").write_text("{")
        (there / "last_session").write_text(documents[0]["metadata"]["id"])
        dry = self.daemon.cli("import", there, "--agent", agent, "--layout", "cli", "--dry-run")
        self.assertIn("5 sessions with 10 entries", dry.stdout, dry.stderr)
        done = self.daemon.cli("import", there, "--agent", agent, "--layout", "cli")
        self.assertEqual((done.stdout, done.returncode), ("5 created, 0 updated, 1 skipped\n", 1), done.stderr)
        self.assertIn("broken.json: line 1: is not JSON", done.stderr)
        again = self.daemon.cli("import", there, "--agent", agent)
        self.assertEqual(again.stdout, "0 created, 0 updated, 6 skipped\n", again.stderr)
        self.assertEqual(self.daemon.cli("export", back, "--agent", agent, "--layout", "cli").returncode, 0)
        for document in documents:
            self.assertEqual(json.loads((back / (document["metadata"]["id"] + ".json")).read_text()), document)
        index = json.loads((back / "index.json").read_text())
        self.assertEqual(index["sessions"], {d["metadata"]["id"]: d["metadata"] for d in documents})
        self.assertIn((back / "last_session").read_text(), index["sessions"])
        self.assertEqual(len(os.listdir(back)), 7)
        (back / "index.json").unlink()
        self.assertEqual(self.daemon.cli("import", back, "--agent", agent, "--if-exists", "replace").stdout,
                         "0 created, 5 updated, 0 skipped\n")
        self.assertEqual(json.loads(self.raw(self.api.get(f"/v1/agents/{agent}/export"))), index)

    def test_files_in_no_known_format_are_answered_with_those_that_are(self):
        def refused(path, *options):
            done = self.daemon.cli("import", path, "--agent", "main", *options)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(KNOWN, done.stderr)
            return done

        files = (("conversations.json", UNKNOWN["ChatGPT"]), ("export.json", UNKNOWN["LibreChat"]),
                 ("chats.json", UNKNOWN["Open WebUI"]), ("notes.txt", b"hello"), ("export.zip", b"PK\x03\x04\0"))
        for name, text in files:
            with self.subTest(file=name):
                (self.folder / name).write_bytes(text)
                self.assertEqual(refused(self.folder / name).stdout, "")
                refused(self.folder / name, "--format", "robota")
        self.assertEqual(refused(self.folder).stdout, "")
        (self.folder / "theirs.jsonl").write_text('{"type":"user","uuid":"a","message":{"role":"user","content":"hi"}}\n')
        refused(self.folder / "theirs.jsonl")
        (self.folder / "theirs.jsonl").unlink()
        known = {"id": "z" + uid(), "messages": [{"role": "user", "content": "hi"}]}
        (self.folder / "z.json").write_text(json.dumps(known))
        self.assertIn("1 created, 0 updated, 3 skipped", refused(self.folder).stdout, "each file by itself")
        (self.folder / "index.json").write_text('{"version":"1.0","sessions":{}}')
        self.assertIn("an index holds no messages", self.daemon.cli("import", self.folder / "index.json").stderr)

    def test_a_file_with_a_byte_order_mark_is_read_and_one_in_utf_16_named(self):
        for ending, text in (("jsonl", transcript("m" + uid(), 1)), ("json", json.dumps(stored("m" + uid(), "hi")))):
            with self.subTest(ending=ending):
                file = self.folder / ("x." + ending)
                file.write_bytes(text.replace("\n", "\r\n").encode("utf-16"))
                done = self.daemon.cli("import", file)
                self.assertEqual((done.stdout, done.returncode), ("0 created, 0 updated, 1 skipped\n", 1))
                self.assertIn(f"{file}: ", done.stderr)
                self.assertIn("is UTF-16", done.stderr)
                file.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
                done = self.daemon.cli("import", file)
                self.assertEqual((done.stdout, done.returncode), ("1 created, 0 updated, 0 skipped\n", 0), done.stderr)

    def test_transcripts_that_were_put_together_without_a_line_break_are_two(self):
        first, second = "p" + uid(), "p" + uid()
        file = self.folder / "x.jsonl"
        file.write_text(transcript(first, 2).rstrip("\n") + transcript(second, 3))
        done = self.daemon.cli("import", file)
        self.assertEqual((done.stdout, done.returncode), ("2 created, 0 updated, 0 skipped\n", 0), done.stderr)
        self.assertEqual([len(self.texts(f"agent:main:session:{id}")) for id in (first, second)], [2, 3])

    def test_a_long_session_goes_in_parts(self):
        session_id = "l" + uid()
        entries = [{"type": "message", "id": f"e{n}", "parentId": f"e{n - 1}" if n else None,
                    "message": {"role": "user", "content": f"{n} " + "x" * 10_000}} for n in range(1200)]
        file = self.folder / "long.jsonl"
        file.write_text(lines_of({"type": "session", "version": 3, "id": session_id}, *entries) + transcript("s" + uid(), 2))
        done = self.daemon.cli("import", file, timeout=120)
        self.assertEqual(done.stdout, "2 created, 0 updated, 0 skipped\n", done.stderr)
        out = self.folder / "out.jsonl"
        self.assertEqual(self.daemon.cli("export", session_id, "--agent", "main", "--format", "jsonl", "-o", out).returncode, 0)
        self.assertEqual(out.read_text().split("\n", 1)[1], lines_of(*entries))
        again = self.daemon.cli("import", file, timeout=120)
        self.assertEqual((again.stdout, again.returncode), ("0 created, 0 updated, 2 skipped\n", 0), again.stderr)

    def test_an_import_that_was_killed_is_run_again(self):
        daemon = self.spawn()
        session_id = "l" + uid()
        entries = [{"type": "message", "id": f"e{n}", "parentId": f"e{n - 1}" if n else None,
                    "message": {"role": "user", "content": f"{n} " + "x" * 10_000}} for n in range(2000)]
        file = self.folder / "long.jsonl"
        file.write_text(lines_of({"type": "session", "version": 3, "id": session_id}, *entries))
        for victim in ("command", "daemon"):
            command = subprocess.Popen([binary(), "import", file], env={**daemon.env, "SESSIOND_CONFIG": str(daemon.config_file)},
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with daemon.client().stream("/v1/events?types=message.appended") as stream:
                stream.wait_type("message.appended", 20)
                command.kill() if victim == "command" else daemon.kill9()
            command.wait(60)
            if victim == "daemon":
                daemon.start()
        done = daemon.cli("import", file, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = self.raw(daemon.client().get(S(session_id, "main", "transcript"))).decode()
        self.assertEqual(whole.split("\n", 1)[1], lines_of(*entries))

    def test_one_document(self):
        key = self.new(name="n")["key"]
        self.say(key, "hi")
        shown = self.daemon.cli("export", key)
        self.assertEqual(json.loads(shown.stdout)["messages"][0]["content"][0]["text"], "hi", shown.stderr)
        for format in ("json", "robota", "manager", "jsonl", "relavium-yaml"):
            whole = self.raw(self.api.get(S(key, "main", "export") + "?format=" + format))
            self.assertEqual(self.daemon.cli("export", key, "--format", format).stdout.encode(), whole)
        self.assertEqual(self.daemon.cli("export", "agent:main:none").returncode, 4)
        self.assertEqual(self.daemon.cli("import", self.folder / "none.json").returncode, 1)

"""Transcripts to the byte: what is stored is what was sent, and what others wrote stays."""

import json

from harness.case import Case, S, text_of, uid

runs = {"asan", "tsan"}


class Bytes(Case):
    MESSAGE = (rb'{"role":"user","content":[{"type":"text","text":"half \ud83d and whole \ud83d\ude00 \u00e4\/\u0000\u2028"}],'
               rb'"x-int":12345678901234567890,"x-big":1e400,"x-form":[1.50E+1,-0,0.10],"a":1,"A":2,"z":{},"y":[]}')

    def test_what_is_stored_is_what_was_sent(self):
        key = self.new()["key"]
        name = "bytes-" + uid()
        body = self.ok(self.api.post(S(key, "main", "messages"),
                                     b'{"type":"message","id":"%s","message":%s}' % (name.encode(), self.MESSAGE)), 201)
        self.assertEqual(body["ids"], [name])
        transcript = self.api.get(S(key, "main", "transcript")).raw
        self.assertIn(b'"message":' + self.MESSAGE + b"}\n", transcript)
        view = self.api.get(S(key, "main", "messages", name)).raw
        for part in (rb'half \ufffd and', b"12345678901234567890", b"1e400", b"[1.50E+1,-0,0.10]"):
            self.assertIn(part, view)
        self.assertIn(self.MESSAGE, self.api.get(S(key, "main", "messages") + "?view=raw").raw)
        self.daemon.restart(kill=True)
        self.assertEqual(self.api.get(S(key, "main", "transcript")).raw, transcript)
        stream = self.api.stream(f"/v1/events?replay=1&types=message.*&keyPrefix={key}")
        with stream:
            event = stream.wait_type("message.appended")
            self.assertIn("12345678901234567890", event.raw)
            self.assertIn(r"half \ufffd and", event.raw)

    def test_text_with_every_kind_of_line_end(self):
        key = self.new()["key"]
        text = "cr\rlf\ncrlf\r\nnul\0ls\u2028ps\u2029nel\x85vt\vff\f\x1f\x7f\ufeff"
        self.say(key, text)
        self.assertEqual(self.texts(key), [text])
        self.assertEqual(self.api.get(S(key, "main", "transcript")).raw.count(b"\n"), 2)


ENDS = "nel\x85ls\u2028ps\u2029end"
RAW_ENDS = [end.encode() for end in "\x85\u2028\u2029"]


class LineEnds(Case):
    """No line that the daemon makes ends within a text, for any reader of lines."""

    def made(self, daemon):
        """What the daemon has written, without indexes and what foreign programs wrote."""
        daemon.checkpoint()
        files = [file for kind in ("*.jsonl", "*.jsonl.*", "sessions.json") for file in daemon.state.rglob(kind)]
        self.assertTrue(any(file.parent.name == "journal" for file in files), files)
        return {file: file.read_bytes() for file in files if file.is_file()}

    def assertNoEnds(self, name, data):
        for end in RAW_ENDS:
            self.assertNotIn(end, data, name)

    def test_in_the_files_and_exports_of_what_clients_send(self):
        daemon = self.spawn()
        api = daemon.client()
        body = lambda value: json.dumps(value, ensure_ascii=False).encode()  # noqa: E731
        key = self.ok(api.post("/v1/agents/main/sessions", body({"key": "agent:main:x", "entry": {"label": ENDS, "x-own": [ENDS]}})), 201)["key"]
        self.ok(api.post(S(key, "main", "messages"), body({"role": "user", "text": ENDS})), 201)
        self.ok(api.post(S(key, "main", "messages"), body({"entries": [
            {"type": "message", "message": {"role": "assistant", "content": ENDS + "z" * 100_000}}]})), 201)
        self.ok(api.post(S(key, "main", "messages") + "?topic=t", body({"role": "user", "text": ENDS})), 201)
        self.ok(api.post("/v1/inbound", body({"channel": "chat", "chatType": "direct", "peer": "p", "text": ENDS, "messageId": ENDS})), 201)
        self.ok(api.patch(S(key), body({"displayName": ENDS})), 200)
        self.ok(api.put(S("agent:main:y"), body({"label": "y " + ENDS})), 201)
        lines = b"".join(body(line) + b"\n" for line in (
            {"type": "session", "version": 3, "id": "imported", "timestamp": "2026-01-01T00:00:00.000Z"},
            {"type": "message", "id": "m1", "timestamp": "2026-01-01T00:00:01.000Z", "message": {"role": "user", "content": ENDS}}))
        self.ok(api.post("/v1/agents/main/import?format=jsonl", lines), 200)
        for one in (key, "agent:main:session:imported", "agent:main:chat:direct:p"):
            for form in ("json", "jsonl", "robota", "conversation"):
                reply = api.get(S(one, "main", "export") + "?format=" + form)
                self.assertEqual(reply.status, 200, reply)
                self.assertNoEnds(form, reply.raw)
            self.assertIn(ENDS, "".join(self.texts(one, api=api)))
        session = self.ok(api.get(S(key)), 200)
        self.assertEqual((session["label"], session["displayName"], session["x-own"]), (ENDS, ENDS, [ENDS]))
        for name, data in self.made(daemon).items():
            self.assertNoEnds(name, data)
        daemon.restart(kill=True)
        self.assertEqual(self.texts(key, api=daemon.client())[0], ENDS)

    def test_in_copies_and_events_of_what_another_program_wrote(self):
        daemon = self.spawn()
        api = daemon.client()
        session = self.new(api=api)
        self.say(session["key"], "one", api=api)
        self.assertEqual(daemon.stop(), 0)
        line = json.dumps({"type": "message", "id": "f1", "timestamp": "2026-01-01T00:00:00.000Z",
                           "message": {"role": "user", "content": ENDS}}, ensure_ascii=False)
        path = daemon.agent_dir() / f"{session['sessionId']}.jsonl"
        path.write_bytes(path.read_bytes() + line.encode() + b"\n")
        store = json.loads((daemon.agent_dir() / "sessions.json").read_text())
        store[session["key"]]["subject"] = ENDS
        (daemon.agent_dir() / "sessions.json").write_text(json.dumps(store, ensure_ascii=False))
        daemon.start()
        api = daemon.client()
        self.assertEqual(self.texts(session["key"], api=api), ["one", ENDS])
        self.assertEqual(self.ok(api.get(S(session["key"])), 200)["subject"], ENDS)
        fork = self.ok(api.post(S(session["key"], "main", "fork"), {}), 201)
        self.assertEqual(self.texts(fork["key"], api=api), ["one", ENDS])
        self.assertNoEnds("export", api.get(S(session["key"], "main", "export") + "?format=conversation").raw)
        self.ok(api.patch(S(session["key"]), {"label": "l"}), 200)
        for name, data in self.made(daemon).items():
            if name != path:  # theirs stays as they wrote it
                self.assertNoEnds(name, data)


class Foreign(Case):
    """Lines that other programs wrote, or that nobody can read, stay and have their place."""

    def prepared(self, tail: bytes):
        daemon = self.spawn()
        api = daemon.client()
        session = self.new(api=api)
        self.say(session["key"], "one", api=api)
        daemon.stop()
        path = daemon.agent_dir() / f"{session['sessionId']}.jsonl"
        before = path.read_bytes()
        path.write_bytes(before + tail)
        daemon.start()
        return api, session["key"], path, before + tail

    def test_unreadable_lines(self):
        tail = b'this is no JSON\n\xff\xfe{"broken\n[1,2]\n{"type":"message","id":"after01","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"two"}}\n'
        api, key, path, before = self.prepared(tail)
        rows = self.messages(key, api=api)
        self.assertEqual([r["type"] for r in rows], ["message", "unreadable", "unreadable", "unreadable", "message"])
        self.assertEqual([r["seq"] for r in rows], list(range(rows[0]["seq"], rows[0]["seq"] + 5)))
        body = self.say(key, "three", api=api)
        self.assertEqual(body["firstSeq"], rows[-1]["seq"] + 1)
        message = self.messages(key, api=api)[-1]
        self.assertEqual((message["parentId"], text_of(message)), ("after01", "three"))
        api.daemon.checkpoint()
        self.assertTrue(path.read_bytes().startswith(before), "nothing before is touched")
        raw = self.messages(key, api=api, query="view=raw")
        self.assertEqual(raw[1]["line"], "this is no JSON")

    def test_a_missing_newline_is_put_first(self):
        tail = b'{"type":"message","id":"nonl0001","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"two"}}'
        api, key, path, before = self.prepared(tail)
        self.say(key, "three", api=api)
        self.assertEqual(self.texts(key, api=api), ["one", "two", "three"])
        api.daemon.checkpoint()
        self.assertTrue(path.read_bytes().startswith(before + b"\n{"))

    def test_other_shapes(self):
        tail = (b'{"type":"user","content":[{"type":"text","text":"flat"}],"timestamp":1234567890000}\n'
                b'{"role":"assistant","content":"bare","timestamp":1234567891000}\n')
        api, key, _, _ = self.prepared(tail)
        rows = self.messages(key, api=api)
        self.assertEqual([(r.get("role"), text_of(r)) for r in rows],
                         [("user", "one"), ("user", "flat"), ("assistant", "bare")])
        for row in rows:
            self.assertEqual(self.ok(api.get(S(key, "main", "messages", row["id"])), 200)["seq"], row["seq"],
                             "derived ids lead back")
        self.assertEqual([r["text"] for r in self.messages(key, api=api, query="view=chat")], ["one", "flat", "bare"])
        flat = {"type": "user", "content": [{"type": "text", "text": "posted"}], "timestamp": 1234567890000}
        self.ok(api.post(S(key, "main", "messages"), flat), 201)
        self.assertEqual(self.texts(key, api=api), ["one", "flat", "bare", "posted"])

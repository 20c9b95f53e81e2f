"""What gets in the way of an import or an export: a reply that breaks off, odd files, another program that is faster."""

import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import re
import socket
import tempfile
import threading
import unittest

from export_documents import lines_of
from harness.case import Case, S, json, uid
from harness.sessiond import SLOW, eventually, has_fault_points


class Folder(Case):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.daemon.home))


class Exports(Folder):
    def test_a_reply_that_breaks_off_replaces_no_file(self):
        """A daemon that is killed while it sends a document closes the connection before the document's end."""
        out = self.folder / "kept.json"
        for headers in ("", "Content-Length: 1000\r\n"):
            for command in (("export", "k", "-o", out), ("export", "k")):
                out.write_text("the good one")
                with socket.create_server(("127.0.0.1", 0)) as server:
                    def answer(server=server, headers=headers):
                        connection, _ = server.accept()
                        with connection:
                            connection.recv(65536)
                            connection.sendall(f'HTTP/1.1 200 OK\r\n{headers}Connection: close\r\n\r\n{{"messages":['.encode())
                    thread = threading.Thread(target=answer)
                    thread.start()
                    token = self.folder / "token"
                    token.write_text("x")
                    done = self.daemon.cli(*command, "--url", f"http://127.0.0.1:{server.getsockname()[1]}", "--token-file", token)
                    thread.join()
                self.assertEqual(done.returncode, 1, done)
                self.assertTrue(done.stderr)
                self.assertEqual(out.read_text(), "the good one")
                self.assertEqual(sorted(os.listdir(self.folder)), ["kept.json", "token"])

    def test_o_names_no_regular_file(self):
        key = self.new()["key"]
        self.say(key, "hello")
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            read = pool.submit(pipe.read_text)
            done = self.daemon.cli("export", key, "-o", pipe)
            self.assertIn("hello", read.result(30))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(pipe.is_fifo())
        self.assertEqual(self.daemon.cli("export", key, "-o", "/dev/null").returncode, 0)
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        (self.folder / "there").mkdir()
        target, link = self.folder / "there" / "x.json", self.folder / "latest.json"
        target.write_text("old")
        link.symlink_to(target)
        self.assertEqual(self.daemon.cli("export", key, "-o", link).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertIn("hello", target.read_text())
        self.assertEqual(self.daemon.cli("export", key, "-o", self.folder).returncode, 1)
        self.assertEqual(self.daemon.cli("export", "agent:main:none", "-o", self.folder / "none.json").returncode, 4)
        self.assertEqual(self.daemon.cli("export", key, "-o", self.folder / "new.json").returncode, 0)
        self.assertEqual(sorted(os.listdir(self.folder)), ["latest.json", "new.json", "pipe", "there"])
        self.assertEqual(os.listdir(self.folder / "there"), ["x.json"])

    def test_a_transcript_that_is_replaced_while_it_is_sent(self):
        """The reply breaks off: it never goes on with entries of the new transcript."""
        for query in ("format=json", "format=robota", "format=jsonl&entry=true"):
            key = self.new()["key"]
            entries = [{"role": "user", "text": "old " + "x" * 100_000}] * 80
            self.ok(self.api.post(S(key, "main", "messages"), {"entries": entries}), 201)
            with socket.socket() as connection:
                connection.settimeout(30 * SLOW)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # the sockets do not hold all of it
                connection.connect(("127.0.0.1", self.daemon.port))
                connection.sendall(f"GET {S(key, 'main', 'export')}?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                   f"Authorization: Bearer {self.daemon.admin_token}\r\nConnection: close\r\n\r\n".encode())
                got = connection.recv(4096)
                self.assertIn(b"200 OK", got)
                self.ok(self.api.post(S(key, "main", "clear")), 200)
                new = [{"role": "user", "text": "new " + "y" * 100_000}] * 80
                for _ in range(2):
                    self.ok(self.api.post(S(key, "main", "messages"), {"entries": new}), 201)
                with contextlib.suppress(ConnectionResetError):
                    while more := connection.recv(1 << 20):
                        got += more
            self.assertNotIn(b"new y", got)
            if query.endswith("json") or query.endswith("robota"):
                self.assertFalse(got.endswith(b"\n"), query)
            head, body = got.split(b"\r\n\r\n", 1)
            length = re.search(rb"Content-Length: (\d+)", head)
            self.assertTrue(length is None or len(body) <= int(length[1]))

    def test_bytes_that_are_no_text(self):
        """They are stored as they came, and shown as U+FFFD."""
        for bad in (b'"\xff"', b'[{"type":"text","text":"\xff"}]', b'"x","zz":"\xff"'):
            session_id = "b" + uid()
            body = json.dumps({"type": "session", "id": session_id}).encode() + b"\n" + b"".join(
                b'{"type":"message","id":"%d","message":{"role":"user","content":%s}}\n' % (n, bad) for n in range(3))
            self.ok(self.api.post("/v1/agents/main/import?format=jsonl", body))
            for format in ("json", "robota", "manager", "jsonl"):
                reply = self.api.get(S(session_id, "main", "export") + "?format=" + format)
                self.assertEqual(reply.status, 200)
                if format != "jsonl":
                    self.assertIn("\ufffd", json.dumps(json.loads(reply.raw), ensure_ascii=False))

    def test_links_in_a_layout_are_replaced(self):
        agent = "l" + uid().lower()
        session_id = self.ok(self.api.post(f"/v1/agents/{agent}/sessions", {}), 201)["sessionId"]
        kept = self.folder / "kept"
        kept.write_text("theirs")
        layout = self.folder / "layout"
        layout.mkdir()
        for name in (session_id + ".json", "index.json", "last_session"):
            (layout / name).symlink_to(kept)
        done = self.daemon.cli("export", layout, "--agent", agent, "--layout", "cli")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(kept.read_text(), "theirs")
        self.assertEqual([p.name for p in layout.iterdir() if p.is_symlink()], [])

    def test_exports_beside_replacements_are_of_one_transcript(self):
        """Each reply has the header and the entries of the one or of the other."""
        session_id = "r" + uid()
        def body(letter, count, pad):
            return lines_of({"type": "session", "version": 3, "id": session_id, "pad": pad * letter},
                            *({"type": "message", "id": f"{letter}{n}", "parentId": f"{letter}{n - 1}" if n else None,
                               "message": {"role": "user", "content": letter}} for n in range(count))).encode()
        bodies = [body("a", 60, 300), body("b", 40, 5)]
        path = "/v1/agents/main/import?format=jsonl&ifExists=replace"
        self.ok(self.api.post(path, bodies[0]))
        replaced = threading.Event()
        def replace():
            client = self.daemon.client()
            for n in range(80):
                self.ok(client.post(path, bodies[(n + 1) % 2]))
            replaced.set()
        def read(query):
            client, wrong = self.daemon.client(), []
            while not replaced.is_set():
                try:
                    reply = client.get(S(session_id, "main", "export") + query)
                except (OSError, http.client.HTTPException):
                    continue  # it broke off
                if reply.status == 409:
                    continue
                self.assertEqual(reply.status, 200)
                header, *entries = map(json.loads, reply.raw.splitlines())
                found = len(header["pad"]), len(entries), {e["id"][0] for e in entries}
                wrong += [found] if found not in ((300, 60, {"a"}), (5, 40, {"b"})) else []
            return wrong
        with concurrent.futures.ThreadPoolExecutor() as pool:
            done = pool.submit(replace)
            readers = [pool.submit(read, query) for query in ("?format=jsonl&entry=true", "?format=jsonl")]
            done.add_done_callback(lambda _: replaced.set())
            done.result()
            self.assertEqual([reader.result() for reader in readers], [[], []])

    def test_a_transcript_whose_last_line_has_no_end(self):
        key = self.new()["key"]
        session_id = self.ok(self.api.get(S(key)))["sessionId"]
        self.say(key, "own")
        self.say(key, "in it", query="?topic=42")
        self.daemon.checkpoint()
        with (self.daemon.agent_dir() / f"{session_id}.jsonl").open("a") as file:
            file.write('{"type":"message","id":"last","parentId":null,"message":{"role":"user","content":"no end"}}')
        whole = self.api.get(S(key, "main", "export") + "?format=jsonl&entry=true").raw
        self.assertEqual([json.loads(line)["type"] for line in whole.splitlines()],
                         ["session", "message", "message", "session", "message"])


class Imports(Folder):
    def test_a_long_session_without_ids_comes_once(self):
        """Parts of a long session are known by the ids of their entries; the first format of transcripts has none."""
        def write(megabytes):
            session_id = "v" + uid()
            lines = [{"type": "message", "message": {"role": "user", "content": [
                {"type": "toolCall", "id": "nested", "name": "x", "arguments": {"a": "x" * 100_000}}]}}] * (10 * megabytes)
            file = self.folder / (session_id + ".jsonl")
            file.write_text(lines_of({"type": "session", "id": session_id}, *lines))
            return session_id, file, len(lines)
        session_id, file, count = write(5)
        self.assertEqual(self.daemon.cli("import", file).stdout, "1 created, 0 updated, 0 skipped\n")
        self.assertEqual(self.daemon.cli("import", file).stdout, "0 created, 0 updated, 1 skipped\n")
        self.assertEqual(self.ok(self.api.get(S(session_id)))["messageCount"], count)
        session_id, file, _ = write(20)
        with file.open("a") as more:
            more.write(lines_of({"type": "session", "id": "z" + uid()}))
        done = self.daemon.cli("import", file)
        self.assertEqual((done.stdout, done.returncode), ("1 created, 0 updated, 1 skipped\n", 1), done.stderr)
        self.assertIn(session_id + ": it is left out: it has more than", done.stderr)
        self.problem(self.api.get(S(session_id)), 404)

    def test_entries_without_ids_do_not_continue_a_transcript(self):
        session_id = "n" + uid()
        body = lines_of({"type": "session", "id": session_id}, {"type": "custom", "customType": "x"}).encode()
        path = "/v1/agents/main/import?format=jsonl&ifExists=continue"
        self.assertEqual(self.ok(self.api.post(path, body))["created"], 1)
        again = self.ok(self.api.post(path, body))
        self.assertEqual((again["updated"], again["skipped"]), (0, 1))
        self.assertIn("none of the entries has an id", again["skips"][0]["why"])

    def test_bodies_that_no_session_has(self):
        good = "g" + uid()
        def take_in(*lines, query=""):
            body = lines_of(*lines, {"type": "session", "id": good}).encode()
            return self.ok(self.api.post("/v1/agents/main/import?format=jsonl" + query, body))
        for why, lines in (("the topic t comes twice", [{"sessiond": {}}, {"sessiond": {"topic": "t"}}, {"sessiond": {"topic": "t"}}]),
                           ("has 1001 topics", [{"sessiond": {}}, *({"sessiond": {"topic": str(n)}} for n in range(1001))]),
                           ("must be an object", [{"sessiond": {"entry": {"previousSessions": ["secret"]}}}]),
                           ("its entry has more than", [{"sessiond": {"entry": {"label": "x" * (2 << 20)}}}])):
            session_id = "b" + uid()
            done = take_in(*({"type": "session", "id": session_id, **line} for line in lines))
            self.assertEqual([s["id"] for s in done["skips"]][:1], [session_id], done)
            self.assertIn(why, done["skips"][0]["why"])
            self.problem(self.api.get(S(session_id)), 404)
        entries = [{"type": "custom", "customType": "x"}] * 10_002
        many = {"type": "session", "id": "m" + uid()}
        self.assertEqual(take_in(many, {"type": "custom", "customType": "x", "id": "a"}, *entries)["skipped"], 1)  # `good` is there
        done = take_in(many, {"type": "custom", "customType": "x", "id": "b"}, *entries, query="&ifExists=continue")
        self.assertIn("more than 10000 entries in a row have no id", done["skips"][0]["why"])

    def test_what_is_no_file_among_transcripts(self):
        good = uid()
        (self.folder / "good.jsonl").write_text(lines_of({"type": "session", "id": good}))
        os.mkfifo(self.folder / "pipe.jsonl")
        (self.folder / "folder.jsonl").mkdir()
        (self.folder / "gone.jsonl").symlink_to("nowhere")
        done = self.daemon.cli("import", self.folder, "--from", "jsonl")
        self.assertIn("1 created", done.stdout, done.stderr)
        self.assertIn("pipe.jsonl: is not a regular file", done.stderr)
        self.assertEqual(self.ok(self.api.get(S(good)))["sessionId"], good)

    @unittest.skipUnless(has_fault_points(), "a build without fault points")
    def test_another_program_is_faster_than_a_replacement(self):
        """The imported transcript, which was acknowledged, is kept as an archive."""
        daemon = self.spawn()
        key = self.ok(daemon.client().post("/v1/agents/main/sessions", {}), 201)["key"]
        session_id = self.ok(daemon.client().get(S(key)))["sessionId"]
        self.ok(daemon.client().post(S(key, "main", "messages"), {"role": "user", "text": "before"}), 201)
        self.assertEqual(daemon.stop(), 0)
        daemon.env["SESSIOND_FAULT"] = "archive.renamed=kill"
        daemon.start()
        body = lines_of({"type": "session", "version": 3, "id": session_id},
                        {"type": "message", "id": "e1", "parentId": None, "message": {"role": "user", "content": "imported"}})
        try:
            daemon.client().post("/v1/agents/main/import?format=jsonl&ifExists=replace", body.encode())
        except OSError:
            pass  # it may die before the answer is out
        eventually(lambda: not daemon.alive, 10, what="the death")
        del daemon.env["SESSIOND_FAULT"]
        daemon.kill9()
        foreign = daemon.agent_dir() / f"{session_id}.jsonl"
        self.assertFalse(foreign.exists())
        foreign.write_text(lines_of({"type": "session", "version": 3, "id": session_id},
                                    {"type": "message", "id": "f1", "parentId": None,
                                     "message": {"role": "user", "content": "foreign"}}))
        for _ in range(2):
            daemon.start()
            daemon.checkpoint()
            self.assertEqual([m["message"]["content"] for m in map(json.loads, foreign.read_text().splitlines()) if m["type"] == "message"],
                             ["foreign"])
            kept = [p.read_text() for p in daemon.agent_dir().glob(f"{session_id}.jsonl.reset.*Z")]
            self.assertEqual(sorted("imported" in text for text in kept), [False, True], kept)
            self.assertEqual(list(daemon.agent_dir().glob("*.staged.tmp")), [])
            self.assertEqual(daemon.stop(), 0)

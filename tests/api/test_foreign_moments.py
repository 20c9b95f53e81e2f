"""What another program does within milliseconds of us: a line just before or just after ours, an entry that it changes
and then deletes, a store that it writes again in another spelling."""

import json
import os
import threading

from harness.case import Case, S, text_of, uid
from harness.other_writer import Lock, Turns
from harness.sessiond import eventually
from test_foreign import Writer, appended, line

runs = {"asan", "tsan"}

ROUNDS = 20
TURNS = 60  # of the program that takes the transcript's lock


def put(daemon, change):
    """Another program reads the store, changes it and puts it back under the lock."""
    store = daemon.agent_dir() / "sessions.json"
    with Lock(store):
        entries = json.loads(store.read_bytes())
        text = change(entries)
        temporary = store.with_name(f"sessions.json.{uid()}.tmp")
        temporary.write_text(text or json.dumps(entries, indent=2))
        os.replace(temporary, store)


class Moments(Case):
    config = {"store": {"mode": "own"}}

    def setUp(self):
        super().setUp()
        self.other = Writer(self)

    def session(self, **named):
        session = self.ok(self.api.post("/v1/agents/main/sessions", {"key": f"agent:main:moments:{uid()}", **named}), 201)
        return session["key"], session["sessionId"], self.daemon.agent_dir() / (session["sessionId"] + ".jsonl")

    def stream(self, query=""):
        stream = self.api.stream("/v1/events" + query)
        self.addCleanup(stream.close)
        stream.wait_type("stream.hello")
        return stream

    def post(self, key, expected=None, **entry):
        body = {"role": "user", "text": uid(), **entry}
        return self.api.post(S(key, "main", "messages"), body if expected is None
                             else {"entries": [body], "expectedSeq": expected})

    def lines(self, path):
        return [json.loads(text) for text in path.read_text().splitlines()[1:]]


class Lines(Moments):
    def test_our_line_goes_right_behind_a_foreign_one(self):
        key, _, path = self.session()
        self.say(key, "first")
        self.texts(key)
        for n in range(ROUNDS):
            theirs = uid(8)
            self.other.write(path, line(f"theirs {n}", theirs))
            reply = self.ok(self.post(key), 201)
            self.texts(key)  # in the file
            ours = self.lines(path)[-1]
            self.assertEqual((ours["id"], ours["parentId"]), (reply["ids"][0], theirs), f"round {n}")

    def test_expected_seq_counts_the_foreign_line(self):
        key, _, path = self.session()
        count = self.say(key, "first")["lastSeq"] + 1
        self.texts(key)
        for n in range(ROUNDS):
            self.other.write(path, line(f"theirs {n}"))
            self.problem(self.post(key, expected=count), 412, "precondition_failed")
            self.other.write(path, line(f"theirs again {n}"))
            said = self.ok(self.post(key, expected=count + 2), 201)
            self.assertEqual(said["firstSeq"], count + 2, f"round {n}")
            count += 3
            whole = self.messages_all(key)
            self.assertEqual([m["seq"] for m in whole], list(range(count)))
            self.assertEqual([text_of(m) for m in whole[-3:-1]], [f"theirs {n}", f"theirs again {n}"])
            self.assertEqual((said["ids"][0], whole[-1]["parentId"]), (whole[-1]["id"], whole[-2]["id"]))
            if n % 8 == 3:
                self.daemon.restart(kill=n == 3)

    def messages_all(self, key):
        return self.messages(key, query="limit=200&order=asc")

    def test_a_seq_that_is_told_is_the_lines(self):
        key, _, path = self.session()
        stream = self.stream()
        self.say(key, "first")
        told = {}
        for n in range(ROUNDS):
            self.texts(key)
            self.other.write(path, line(f"theirs {n}"))
            reply = self.ok(self.post(key), 201)
            told[reply["firstSeq"]] = reply["ids"][0]
        stored = {m["seq"]: m["id"] for m in self.messages_all(key)}
        self.assertEqual({seq: stored[seq] for seq in told}, told)
        stream.wait_until(lambda s: len(appended(s, key)) == 1 + 2 * ROUNDS)
        events = {e.data["data"]["message"]["seq"]: e.data["data"]["message"]["id"] for e in stream.durable
                  if e.type == "message.appended" and e.data["key"] == key}
        self.assertEqual(events, stored)

    def test_a_place_that_was_taken_is_told(self):
        stream = self.stream()
        for topic in (None, "t 1"):
            key, session_id, path = self.session()
            query = "?topic=t%201" if topic else ""
            if topic:
                path = path.with_name(session_id + "-topic-t%201.jsonl")
            self.say(key, "first", query=query)
            self.texts(key, query="limit=200&order=asc" + ("&topic=t%201" if topic else ""))
            for n in range(ROUNDS):  # until it comes in time: ours is in the file some milliseconds after its answer
                told = self.say(key, f"ours {n}", query=query)
                self.other.write(path, line(f"theirs {n}"))
                self.texts(key, query="limit=200&order=asc" + ("&topic=t%201" if topic else ""))
                if self.lines(path)[told["firstSeq"]]["id"] != told["ids"][0]:
                    break
            else:
                self.fail("the other program never came in time")
            event = stream.wait_for(lambda e: e.type == "transcript.renumbered" and e.data["key"] == key).data
            self.assertEqual((event["topic"], event["source"], event["data"]),
                             (topic, "external", {"topic": topic, "from": told["firstSeq"]}))
            self.assertEqual(self.ok(self.post(key), 201)["topic"], None)
        with self.api.stream("/v1/events?types=transcript.*") as only:
            only.wait_type("stream.hello")

    def test_a_foreign_line_with_the_id_of_ours_keeps_ours_not_out(self):
        key, _, path = self.session()
        stream = self.stream("?types=store.degraded")
        self.say(key, "first")
        self.texts(key)
        for n in range(ROUNDS):
            entry_id = uid(8)
            self.ok(self.post(key, id=entry_id, text=f"ours {n}"), 201)
            self.other.write(path, line(f"theirs {n}", entry_id))
            texts = self.texts(key)
            self.assertIn(f"ours {n}", texts)
            self.assertIn(f"theirs {n}", texts)
            if texts.index(f"theirs {n}") < texts.index(f"ours {n}"):
                break
        else:
            self.fail("the other program never came in time")
        told = stream.wait_for(lambda e: e.type == "store.degraded" and entry_id in e.data["data"]["reason"]).data
        self.assertIn(path.name, told["data"]["reason"])
        eventually(lambda: any("entry_id_doubled" in row and entry_id in row for row in self.daemon.stderr), what="a line in the log")

    def test_an_entry_may_have_the_id_of_the_header(self):
        daemon = self.spawn()
        self.api, self.daemon_here = daemon.client(), daemon
        for n in range(ROUNDS):
            session_id = uid()
            key = self.ok(self.api.post("/v1/agents/main/sessions", {"key": f"agent:main:header:{n}",
                                                                     "sessionId": session_id}), 201)["key"]
            path = daemon.agent_dir() / f"{session_id}.jsonl"
            self.say(key, "first")
            self.texts(key)
            daemon.restart()  # nothing is known of the file
            self.ok(self.post(key, id=session_id, text="ours"), 201)
            self.other.write(path, line("theirs"))
            texts = self.texts(key)
            self.assertEqual(sorted(texts), ["first", "ours", "theirs"])
            if texts[-1] == "ours":
                return
        self.fail("the other program never came in time")


class Ends(Moments):
    """What another program writes to a transcript that becomes an archive, or becomes a transcript again."""

    def begun(self, mode):
        daemon = self.spawn({"store": {"mode": mode}})
        api = daemon.client()
        key = self.new(api=api)["key"]
        self.say(key, "first", api=api)
        self.say(key, "first", api=api, query="?topic=t")
        session_id = self.ok(api.get(S(key)))["sessionId"]
        files = [daemon.agent_dir() / (session_id + end) for end in (".jsonl", "-topic-t.jsonl")]
        for file in files:
            eventually(file.exists, what=file.name)
        return daemon, api, key, files

    def told(self, api):
        """The ids of messages that another program is said to have written."""
        events = self.ok(api.get("/v1/events?poll=1&replay=1000&types=message.appended"))["data"]
        return sorted(e["data"]["message"]["id"] for e in events if e["source"] == "external")

    def counts(self, api, key):
        session = self.ok(api.get(S(key)))
        return session["messageCount"], session.get("entryCount")

    def test_a_line_just_before_a_deletion_is_told_and_counted(self):
        for mode in ("own", "shared"):
            _, api, key, files = self.begun(mode)
            for n in range(3):
                for file in files:
                    eventually(file.exists, what="the transcript being restored")
                    self.other.write(file, line("theirs"))
                self.ok(api.delete(S(key)), 204)
                self.assertEqual(len(self.told(api)), 2 * (n + 1), mode)
                self.ok(api.post(S(key, "main", "restore"), {}), 200)
                self.assertEqual(self.counts(api, key), (4 + 2 * n, 4 + 2 * n), mode)

    def test_a_line_in_an_archive_is_counted_when_it_is_restored(self):
        for mode in ("own", "shared"):
            _, api, key, files = self.begun(mode)
            for file in files:
                self.other.write(file, line("before"), hold=True)
            self.ok(api.delete(S(key)), 204)
            eventually(lambda: not any(file.exists() for file in files), what="the transcripts being archived")
            for file in files:
                self.other.write(file, line("behind"))
            restored = self.ok(api.post(S(key, "main", "restore"), {}), 200)
            self.assertEqual((restored["messageCount"], restored["entryCount"]), (6, 6), mode)
            self.assertEqual(len(self.messages(key, api=api)), 3)
            self.assertEqual(self.counts(api, key), (6, 6), mode)

    def test_a_line_behind_a_restore_and_a_kill_is_told_and_counted_once(self):
        for mode in ("own", "shared"):
            daemon, api, key, files = self.begun(mode)
            self.ok(api.delete(S(key)), 204)
            restored = self.ok(api.post(S(key, "main", "restore"), {}), 200)
            self.assertEqual((restored["messageCount"], restored["entryCount"]), (2, 2), mode)
            for file in files:
                eventually(file.exists, what=file.name)
            daemon.kill9()
            for file in files:
                self.other.write(file, line("theirs"))
            for _ in range(2):
                api = daemon.start().client()
                eventually(lambda: self.counts(api, key) == (4, 4), what="the lines being counted")
                self.assertEqual(len(self.told(api)), 2, mode)
                daemon.kill9()
            daemon.start()


class LinesShared(Moments):
    """Beside a program that takes the transcript's lock: all that is told of places is exact."""
    config = {"store": {"mode": "shared"}}

    def beside(self, ours):
        """Runs `ours(n)` while another program takes its turns; the transcript's lines, and theirs by seq."""
        key, _, path = self.session()
        self.say(key, "first")
        theirs, over = {}, threading.Event()

        def turns():
            try:
                own = Turns(path)
                for n in range(TURNS):
                    with Lock(path, poll=0.002):
                        seq, entry_id = own.take(f"theirs {n}")
                    theirs[seq] = entry_id
            finally:
                over.set()

        thread = threading.Thread(target=turns)
        thread.start()
        n = 0
        while not over.is_set() or n < TURNS:
            ours(key, n)
            n += 1
        thread.join()
        self.assertEqual(len(theirs), TURNS)
        lines = self.lines(path)
        self.assertEqual({seq: lines[seq]["id"] for seq in theirs}, theirs)
        self.assertEqual([entry["parentId"] for entry in lines], [None] + [entry["id"] for entry in lines[:-1]])
        return key, lines

    def test_seq_and_parent_are_right_beside_a_program_that_locks(self):
        stream, told = self.stream(), {}

        def ours(key, _):
            reply = self.ok(self.post(key), 201)
            told[reply["firstSeq"]] = reply["ids"][0]

        key, lines = self.beside(ours)
        self.assertEqual({seq: lines[seq]["id"] for seq in told}, told)
        stream.wait_until(lambda s: len(appended(s, key)) == len(lines))
        events = sorted((e.data["data"]["message"]["seq"], e.data["data"]["message"]["id"],
                         e.data["data"]["message"]["parentId"]) for e in stream.durable
                        if e.type == "message.appended" and e.data["key"] == key)
        self.assertEqual(events, [(n, entry["id"], entry["parentId"]) for n, entry in enumerate(lines)])
        self.assertFalse([e for e in stream.durable if e.type == "transcript.renumbered"])

    def test_expected_seq_is_right_beside_a_program_that_locks(self):
        told, refused = {}, 0
        state = {"next": 1}

        def ours(key, _):
            nonlocal refused
            reply = self.post(key, expected=state["next"])
            if reply.status == 201:
                told[state["next"]] = reply.json["ids"][0]
                self.assertEqual(reply.json["firstSeq"], state["next"])
                state["next"] += 1
            else:
                problem = self.problem(reply, 412, "precondition_failed")
                self.assertGreater(int(problem["detail"].rsplit(" ", 1)[1]), state["next"])
                state["next"] = int(problem["detail"].rsplit(" ", 1)[1])
                refused += 1

        _, lines = self.beside(ours)
        self.assertTrue(told)
        self.assertTrue(refused)
        self.assertEqual({seq: lines[seq]["id"] for seq in told}, told)


class Stores(Moments):
    def test_what_a_program_changed_and_then_deleted_stays_deleted(self):
        stream = self.stream()
        for n in range(ROUNDS):
            key, _, _ = self.session()
            self.daemon.checkpoint()
            put(self.daemon, lambda entries: entries[key].update({"label": f"theirs {n}"}))
            stream.wait_for(lambda e: e.type == "session.updated" and e.data["key"] == key)
            put(self.daemon, lambda entries: entries.pop(key) and None)
            eventually(lambda: self.api.get(S(key), cache_control="no-cache").status == 404, what=f"deletion {n}")
            self.daemon.checkpoint()
            self.assertNotIn(key, self.daemon.sessions_json())

    def test_what_a_program_made_deleted_and_made_again_is_there(self):
        stream = self.stream()
        self.session()  # there is a store
        self.daemon.checkpoint()
        entry = {"sessionId": uid(), "updatedAt": 1767323045000}
        key = f"agent:main:again:{uid()}"
        for n in range(ROUNDS):
            mark = len(stream.durable)
            put(self.daemon, lambda entries: entries.update({key: entry}))
            stream.wait_until(lambda s: [e for e in s.durable[mark:] if e.type == "session.created"])
            put(self.daemon, lambda entries: entries.pop(key) and None)
            stream.wait_until(lambda s: [e for e in s.durable[mark:] if e.type == "session.deleted"], 10, f"deletion {n}")
            self.daemon.checkpoint()
            self.assertNotIn(key, self.daemon.sessions_json())

    def test_another_spelling_is_no_change(self):
        spelt = {"label": "é \u2028 😀 / \"", "x-n": 1.0, "x-e": 1e3, "x-o": {"b": [1, 2.50], "ä": {}}}
        key = self.new(**spelt)["key"]
        other = self.new()["key"]
        self.ok(self.api.patch(S(key), {"name": "ours ö"}), 200)
        self.daemon.checkpoint()
        before = self.ok(self.api.get(S(key)))
        stream = self.stream()

        def spell(entries):
            entries[other]["label"] = "changed"
            entries[key]["x-n"], entries[key]["x-e"], entries[key]["x-o"] = 1, 1000, {"ä": {}, "b": [1.0, 2.5]}
            text = json.dumps(entries, ensure_ascii=True, indent=1)
            return text.replace(" / ", " \\/ ")

        put(self.daemon, spell)
        told = stream.wait_type("store.external_change").data["data"]
        self.assertEqual(told["changed"], [other])
        self.assertEqual(self.ok(self.api.get(S(key), cache_control="no-cache"))["rev"], before["rev"])
        self.ok(self.api.patch(S(other), {"label": "ours"}), 200)
        self.daemon.checkpoint()
        text = (self.daemon.agent_dir() / "sessions.json").read_text()
        self.assertIn("\\u00e9 \\u2028 \\ud83d\\ude00 \\/", text)  # as they wrote it
        self.assertFalse([e for e in stream.durable if e.data.get("key") == key])
        self.daemon.restart(kill=True)
        after = self.ok(self.api.get(S(key), cache_control="no-cache"))
        self.assertEqual({**after, "asOf": before["asOf"]}, before)
        self.assertFalse([e for e in self.polled(before["asOf"]) if e.get("key") == key])

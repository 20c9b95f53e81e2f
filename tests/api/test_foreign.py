"""Other programs write the same tree: lines in transcripts, stores, whole agents; while we run and while we do not.

The other program is a process of its own (`Writer`): it appends bytes as told and says when it has.
"""

import json
import os
import subprocess
import sys
import threading
import time

from harness.case import Case, S, text_of, uid
from harness.sessiond import eventually
from test_files import replace_store

runs = {"asan", "tsan"}

WRITER = """
import json, os, sys
held = {}
for command in sys.stdin:
    path, text, hold = json.loads(command)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = held.get(path) or open(path, "ab", buffering=0)
    file.write(text.encode())
    if hold:
        held[path] = file
    else:
        held.pop(path, None)
        file.close()
    print("done", flush=True)
"""


class Writer:
    """A second process that appends to files; with `hold` it keeps them open, as some programs do."""

    def __init__(self, case):
        self.process = subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        case.addCleanup(self.end)

    def write(self, path, text, hold=False):
        self.process.stdin.write(json.dumps([str(path), text, hold]) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            raise AssertionError("the other program died")

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def line(text, id=None, parent=None, **message):
    return json.dumps({"type": "message", "id": id or uid(8), "parentId": parent,
                       "timestamp": "2026-01-02T03:04:05.678Z",
                       "message": {"role": "user", "content": text, **message}}) + "\n"


def header(session_id):
    return json.dumps({"type": "session", "version": 3, "id": session_id, "timestamp": "2026-01-02T03:04:05.678Z",
                       "cwd": "/"}) + "\n"


def appended(stream, key=None):
    """(seq in the transcript, text, source) of every message.appended so far."""
    return [(e.data["data"]["message"]["seq"], text_of(e.data["data"]["message"]), e.data["source"])
            for e in stream.durable if e.type == "message.appended" and key in (None, e.data["key"])]


class Lines(Case):
    mode = "own"

    @classmethod
    def setUpClass(cls):
        cls.config = {"store": {"mode": cls.mode}}
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.other = Writer(self)

    def session(self, api=None):
        session = self.new(api=api)
        return session["key"], session["sessionId"], (self.daemon.agent_dir() / (session["sessionId"] + ".jsonl"))

    def stream(self, api=None, after=None):
        stream = (api or self.api).stream("/v1/events" + (f"?after={after}" if after else ""))
        self.addCleanup(stream.close)
        stream.wait_type("stream.hello")
        return stream

    def wait(self, stream, key, expected, timeout=10):
        stream.wait_until(lambda s: len(appended(s, key)) >= len(expected), timeout, f"{len(expected)} lines of {key}")
        self.assertEqual(appended(stream, key), expected)

    def test_published_with_seq_source_and_counters_and_ours_go_on(self):
        key, _, path = self.session()
        stream = self.stream()
        first = self.say(key, "ours")
        self.texts(key)  # in the file
        self.other.write(path, line("theirs", "f0e1d2c3", first["ids"][0]))
        self.wait(stream, key, [(0, "ours", "api"), (1, "theirs", "external")])
        before = path.read_bytes()
        event = [e for e in stream.durable if e.type == "message.appended"][-1].data
        self.assertEqual((event["actor"], event["data"]["message"]["id"], event["data"]["message"]["parentId"]),
                         ("external", "f0e1d2c3", first["ids"][0]))
        entry = self.ok(self.api.get(S(key)))
        self.assertEqual((event["data"]["set"]["messageCount"], entry["messageCount"]), (2, 2))
        self.assertGreaterEqual(entry["updatedAt"], event["data"]["set"]["updatedAt"])
        third = self.say(key, "ours again")
        self.assertEqual(third["firstSeq"], 2)
        self.assertEqual([(m["seq"], m["parentId"]) for m in self.messages(key)][2], (2, "f0e1d2c3"))
        self.wait(stream, key, [(0, "ours", "api"), (1, "theirs", "external"), (2, "ours again", "api")])
        self.assertTrue(path.read_bytes().startswith(before))
        self.assertEqual(len(path.read_bytes().splitlines()), 4)

    def test_a_program_that_keeps_the_file_open(self):
        key, _, path = self.session()
        self.say(key, "0")
        self.texts(key)
        stream = self.stream()
        for i in range(1, 6):
            self.other.write(path, line(str(i)), hold=True)
            self.wait(stream, key, [(n, str(n), "external") for n in range(1, i + 1)])
        self.other.write(path, "", hold=False)

    def test_a_torn_line_waits_until_it_is_whole(self):
        key, _, path = self.session()
        self.say(key, "0")
        self.texts(key)
        stream = self.stream()
        whole = line("torn once")
        self.other.write(path, line("before") + whole[:40], hold=True)
        self.wait(stream, key, [(1, "before", "external")])
        self.ok(self.api.get(S(key), cache_control="no-cache"))  # looked again: still torn
        self.assertEqual(len(appended(stream, key)), 1)
        self.other.write(path, whole[40:])
        self.wait(stream, key, [(1, "before", "external"), (2, "torn once", "external")])

    def test_a_transcript_that_they_begin(self):
        key, session_id, path = self.session()
        stream = self.stream()
        self.other.write(path, header(session_id))
        self.other.write(path, line("first of all"))
        self.wait(stream, key, [(0, "first of all", "external")])
        self.assertEqual(self.say(key, "second")["firstSeq"], 1)
        self.assertEqual(self.texts(key), ["first of all", "second"])

    def test_a_topic_that_they_begin(self):
        key, session_id, _ = self.session()
        stream = self.stream()
        self.other.write(self.daemon.agent_dir() / f"{session_id}-topic-a%20b.jsonl",
                         header(session_id) + line("in a topic"))
        self.wait(stream, key, [(0, "in a topic", "external")])
        told = [(e.type, e.data["topic"]) for e in stream.durable if e.data.get("key") == key]
        self.assertEqual(told, [("topic.created", "a b"), ("message.appended", "a b")])
        self.assertEqual([t["topic"] for t in self.ok(self.api.get(S(key, "main", "topics")))["data"]], ["a b"])

    def test_lines_before_their_session(self):
        key, session_id = f"agent:main:later:{uid()}", uid()
        stream = self.stream()
        self.other.write(self.daemon.agent_dir() / f"{session_id}.jsonl", header(session_id) + line("early"))
        store = self.daemon.sessions_json()
        self.assertEqual(appended(stream, key), [])
        store[key] = {"sessionId": session_id, "updatedAt": 1767323045000}
        temporary = self.daemon.agent_dir() / f"sessions.json.{uid()}.tmp"
        temporary.write_text(json.dumps(store))
        os.replace(temporary, self.daemon.agent_dir() / "sessions.json")
        self.wait(stream, key, [(0, "early", "external")])
        created = stream.wait_for(lambda e: e.type == "session.created" and e.data["key"] == key)
        self.assertEqual(created.data["data"]["entry"]["createdAt"], 1767323045000)
        self.assertEqual(self.ok(self.api.get(S(key)))["createdAt"], 1767323045000)

    def test_garbage_is_published_as_unreadable_and_keeps_its_seq(self):
        key, _, path = self.session()
        self.say(key, "0")
        self.texts(key)
        stream = self.stream()
        self.other.write(path, "no json\n\n" + '{"role":"user",\r"content":"bare"}\n' + "[" * 70 + "]" * 70 + "\n" +
                         '{"type":"x","n":1e400,"deep":' + "[" * 200 + "]" * 200 + "}\n")
        stream.wait_until(lambda s: len(appended(s, key)) == 5)
        messages = [e.data["data"]["message"] for e in stream.durable if e.type == "message.appended"]
        self.assertEqual([(m["seq"], m["type"]) for m in messages],
                         [(1, "unreadable"), (2, "unreadable"), (3, "message"), (4, "unreadable"), (5, "x")])
        self.assertEqual(self.say(key, "after")["firstSeq"], 6)
        self.daemon.restart(kill=True)
        self.assertEqual([m["seq"] for m in self.messages(key)], list(range(7)))

    def test_both_at_once_lose_and_double_nothing(self):
        key, _, path = self.session()
        stream = self.stream()
        ours, theirs = [f"ours {i}" for i in range(150)], [f"theirs {i}" for i in range(150)]
        api = self.api.clone()

        def append():
            for text in ours:
                self.ok(api.post(S(key, "main", "messages"), {"role": "user", "text": text}), 201)

        appending = threading.Thread(target=append)
        appending.start()
        for text in theirs:
            self.other.write(path, line(text))
        appending.join()
        stream.wait_until(lambda s: len(appended(s, key)) >= 300, 20)
        self.ok(self.api.get(S(key), cache_control="no-cache"))
        told = appended(stream, key)
        self.assertEqual(sorted(text for _, text, _ in told), sorted(ours + theirs))
        self.assertEqual([text for _, text, source in told if source == "external"], theirs)
        stored = [(m["seq"], text_of(m)) for m in self.messages_all(key)]
        self.assertEqual([n for n, _ in stored], list(range(300)))
        self.assertEqual([t for _, t in stored if t.startswith("ours")], ours)
        self.assertEqual([t for _, t in stored if t.startswith("theirs")], theirs)
        places = {text: n for n, text in stored}
        for seq, text, source in told:  # a line of theirs is where we said
            if source == "external":
                self.assertEqual(places[text], seq)
        self.assertEqual(self.ok(self.api.get(S(key)))["messageCount"], 300)
        self.assertEqual(self.say(key, "last")["firstSeq"], 300)

    def test_a_line_that_begins_a_transcript_is_told_though_ours_come_in_the_same_moment(self):
        stream = self.stream()
        for n in range(40):
            key, _, path = self.session()
            self.other.write(path, line(f"theirs {n}"))
            for text in ("a", "b", "c"):
                self.say(key, text)
            stream.wait_until(lambda s, key=key: len(appended(s, key)) >= 4, 20)
            self.assertEqual(sorted(text for _, text, _ in appended(stream, key)), ["a", "b", "c", f"theirs {n}"])
            self.assertEqual(self.ok(self.api.get(S(key)))["entryCount"], 4)

    def messages_all(self, key):
        first = self.messages(key)
        return first + self.messages(key, query=f"limit=200&order=asc&after={first[-1]['seq']}")

    def test_rewritten_or_cut(self):
        for how in ("replaced", "cut", "removed"):
            with self.subTest(how):
                key, _, path = self.session()
                for i in range(4):
                    self.say(key, str(i))
                self.texts(key)
                self.daemon.checkpoint()
                stream = self.stream()
                lines = path.read_bytes().splitlines(keepends=True)
                if how == "cut":
                    with open(path, "r+b") as file:
                        file.truncate(len(b"".join(lines[:3])))
                    left = ["0", "1"]
                elif how == "replaced":
                    path.with_suffix(".tmp").write_bytes(b"".join(lines[:1] + lines[3:]))
                    os.replace(path.with_suffix(".tmp"), path)
                    left = ["2", "3"]
                else:
                    path.unlink()
                    left = []
                told = stream.wait_type("store.external_change").data
                self.assertEqual((told["source"], told["data"]), ("external", {"changed": [key], "resync": True}))
                self.assertEqual(self.texts(key), left)
                self.assertEqual(self.say(key, "ours")["firstSeq"], len(left))
                self.assertEqual(self.texts(key), left + ["ours"])
                self.other.write(path, line("theirs"))
                self.wait(stream, key, [(len(left), "ours", "api"), (len(left) + 1, "theirs", "external")])

    def test_our_own_lines_are_not_foreign(self):
        key, _, path = self.session()
        stream = self.stream()
        for i in range(20):
            self.say(key, f"a{i}")
            self.say(key, f"t{i}", query="?topic=t")
        self.texts(key)
        self.ok(self.api.post(S(key, "main", "reset")))
        self.say(key, "after the reset")
        self.ok(self.api.get(S(key), cache_control="no-cache"))
        last = self.say(key, "end")["asOf"]
        stream.wait_seq(int(last.split("-")[1]))
        self.assertEqual({source for _, _, source in appended(stream, key)}, {"api"})
        self.assertFalse([e for e in stream.durable if e.type == "store.external_change" and key in str(e.data)])

    def test_while_we_were_down(self):
        for kill in (False, True):
            with self.subTest(kill=kill):
                key, _, path = self.session()
                other_key, other_id, other_path = self.session()
                for i in range(3):
                    after = self.say(key, str(i))["asOf"]
                self.texts(key)
                self.daemon.kill9() if kill else self.daemon.stop()
                self.other.write(path, line("down 3") + line("down 4") + '{"torn')
                self.other.write(other_path, header(other_id) + line("a new transcript"))
                self.daemon.start()
                stream = self.stream(after=after)
                self.wait(stream, key, [(3, "down 3", "external"), (4, "down 4", "external")])
                self.wait(stream, other_key, [(0, "a new transcript", "external")])
                self.assertEqual(self.ok(self.api.get(S(key)))["messageCount"], 5)
                # Again: nothing twice.
                self.daemon.kill9() if kill else self.daemon.stop()
                self.daemon.start()
                last = self.say(other_key, "end")
                self.assertEqual(last["firstSeq"], 1)
                self.ok(self.api.get(S(key), cache_control="no-cache"))
                stream = self.stream(after=after)
                stream.wait_seq(int(last["asOf"].split("-")[1]))
                self.assertEqual(len(appended(stream, key)), 2)
                self.assertEqual(len(appended(stream, other_key)), 2)

    def test_killed_at_any_moment_each_is_told_once(self):
        key, _, path = self.session()
        self.texts(key)
        after = self.say(key, "0")["asOf"]
        self.texts(key)
        count = 0
        for round_ in range(6):
            for _ in range(10):
                count += 1
                self.other.write(path, line(str(count)))
            if round_ % 2:
                self.say(key, f"ours {round_}")
            time.sleep(0.007 * round_)  # lands before, in and after the look at the file
            self.daemon.restart(kill=True)
        stream = self.stream(after=after)
        stream.wait_until(lambda s: len([1 for _, _, source in appended(s, key) if source == "external"]) >= count, 10)
        self.ok(self.api.get(S(key), cache_control="no-cache"))
        stream.wait_seq(int(self.say(key, "end")["asOf"].split("-")[1]))
        self.assertEqual([text for _, text, source in appended(stream, key) if source == "external"],
                         [str(n) for n in range(1, count + 1)])
        self.assertEqual([t for t in self.texts(key) if t.isdigit()], [str(n) for n in range(count + 1)])
        self.assertEqual(self.ok(self.api.get(S(key)))["messageCount"], count + 5)


class LinesShared(Lines):
    mode = "shared"


class NotWatched(Case):
    """No inotify to be had: all is looked at when the TTL is over, and whoever asks is told."""

    def test_the_floor(self):
        limited = ["unshare", "--user", "--map-root-user", "sh", "-c",
                   "echo 0 > /proc/sys/user/max_inotify_watches && exec \"$@\"", "sh"]
        if subprocess.run([*limited, "true"], capture_output=True).returncode != 0:
            self.skipTest("no user namespaces here")
        daemon = self.spawn({"store": {"cacheTtlMs": 1000}}, start=False)
        daemon.wrapper = limited
        daemon.start()
        api = daemon.client()
        why = eventually(lambda: self.ok(api.get("/readyz"), 200)["unwatched"], what="/readyz telling it")
        self.assertIn("cannot be watched", why)
        eventually(lambda: any("not_watched" in row for row in daemon.stderr), what="the log telling it")
        session = self.new(api=api)
        self.say(session["key"], "0", api=api)
        self.texts(session["key"], api=api)
        with api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            Writer(self).write(daemon.agent_dir() / (session["sessionId"] + ".jsonl"), line("seen by stat"))
            stream.wait_for(lambda e: e.type == "message.appended" and e.data["source"] == "external", 10)
        self.assertEqual(self.say(session["key"], "2", api=api)["firstSeq"], 2)

    def test_the_variable_of_other_programs(self):
        daemon = self.spawn(env={"OPENCLAW_SESSION_CACHE_TTL_MS": "0"})
        api = daemon.client()
        self.assertEqual(self.ok(api.get("/v1/admin/config"), 200)["store"]["cacheTtlMs"], 0)
        key = self.new("agent:main:ttl", api=api)["key"]
        store = daemon.sessions_json()
        for i in range(10):  # looked at on every read: never stale, whatever inotify says when
            store[key].update({"label": str(i), "updatedAt": int(time.time() * 1000) + i})
            temporary = daemon.agent_dir() / "t.tmp"
            temporary.write_text(json.dumps(store))
            os.replace(temporary, daemon.agent_dir() / "sessions.json")
            self.assertEqual(self.ok(api.get(S(key)))["label"], str(i))
            store = daemon.sessions_json()


class Restarts(Case):
    """What another program did, over the end of the daemon."""
    config = {"store": {"cacheTtlMs": 200}}

    def fresh(self, key):
        return self.api.get(S(key), cache_control="no-cache")

    def path(self, session_id):
        return self.daemon.agent_dir() / f"{session_id}.jsonl"

    def write(self, session_id, *lines):
        Writer(self).write(self.path(session_id), "".join(lines))

    def rewrite(self, change):
        """Another program reads the store, changes it and puts it in the place of the old one."""
        store = self.daemon.sessions_json()
        change(store)
        replace_store(self.daemon.agent_dir() / "sessions.json", store)

    def test_a_line_of_another_program_goes_into_the_archive_of_the_reset_and_not_into_the_new_transcript(self):
        for end in ("reset", "delete", "inbound"):
            with self.subTest(end):
                got = self.inbound(text="ours")
                key, old = got["sessionKey"], got["sessionId"]
                self.assertEqual(self.texts(key), ["ours"])  # in the file
                self.write(old, line("theirs"), line("theirs too"))
                eventually(lambda: len(self.messages(key)) == 3, what="their lines")
                if end == "reset":
                    self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
                elif end == "delete":
                    self.ok(self.api.delete(S(key)), 204)
                    self.new(key)
                else:
                    self.inbound(peer=key.rsplit(":", 1)[1], text="/new")
                self.daemon.restart(kill=True)
                self.assertEqual(self.messages(key), [])
                self.assertEqual(self.texts(old), ["ours", "theirs", "theirs too"])
                self.problem(self.api.get(S(key, "main", "messages") + f"?sessionId={old}"), 409, "session_reset")

    def test_an_id_that_a_line_of_another_program_bears_is_not_given_to_other_content(self):
        session, taken = self.new(), uid(8)
        key = session["key"]
        self.say(key, "0")
        self.texts(key)
        self.write(session["sessionId"], line("theirs", taken))
        eventually(lambda: len(self.messages(key)) == 2, what="their line")
        for kill in (False, True):
            self.problem(self.post_to(key, {"role": "user", "text": "ours", "id": taken}), 409, "entry_id_conflict")
            self.daemon.restart(kill=kill)
        self.assertEqual(self.texts(key), ["0", "theirs"])

    def test_a_deletion_by_another_program_stands_and_the_key_can_be_made_again(self):
        session = self.new(label="first")
        key = session["key"]
        after = self.say(key, "old")["asOf"]
        self.rewrite(lambda store: store.pop(key))
        eventually(lambda: self.fresh(key).status == 404, what="the deletion")
        self.daemon.restart(kill=True)
        self.problem(self.fresh(key), 404, "session_not_found")
        again = self.new(key)
        self.assertNotEqual(again["sessionId"], session["sessionId"])
        self.assertNotIn("label", again)
        self.say(key, "new")
        self.daemon.restart(kill=True)
        self.assertEqual(self.texts(key), ["new"])
        told = [e["type"] for e in self.polled(after) if e.get("key") == key]
        self.assertEqual(told, ["session.deleted", "session.created", "message.appended"])
        self.assertIn(key, self.daemon.sessions_json())

    def test_a_deleted_key_that_another_program_makes_again_is_there_over_a_kill(self):
        for how in ("new id", "old id, after a restart"):
            with self.subTest(how):
                key = self.new(label="kept")["key"]
                stored = self.daemon.sessions_json()[key]
                self.ok(self.api.delete(S(key)), 204)
                self.daemon.checkpoint()
                if how == "new id":
                    stored["sessionId"] = "theirs-" + uid()
                else:
                    self.daemon.restart()
                after = self.ok(self.api.get("/v1/sessions?limit=1"))["asOf"]
                stored["updatedAt"] = int(time.time() * 1000)
                self.rewrite(lambda store: store.update({key: stored}))
                eventually(lambda: self.fresh(key).status == 200, what="the entry")
                for kill in (True, False):
                    self.daemon.restart(kill=kill)
                    back = self.ok(self.fresh(key), 200)
                    self.assertEqual((back["sessionId"], back["label"]), (stored["sessionId"], "kept"))
                told = [(e["type"], e["source"], e["data"]["reason"]) for e in self.polled(after) if e.get("key") == key]
                self.assertEqual(told, [("session.created", "external", "external")])

    def test_another_program_that_resets_a_session_is_seen_by_readers_of_the_old_id(self):
        session = self.new()
        key, new_id = session["key"], "theirs-" + uid()
        self.say(key, "old")
        self.write(new_id, line("new"))
        self.rewrite(lambda store: store[key].update({"sessionId": new_id, "updatedAt": int(time.time() * 1000) + 1}))
        eventually(lambda: self.fresh(key).json["sessionId"] == new_id, what="the new id")
        for kill in (False, True):
            problem = self.problem(self.api.get(S(key, "main", "messages") + f"?sessionId={session['sessionId']}"), 409, "session_reset")
            self.assertEqual(problem["sessionId"], new_id)
            self.assertEqual(self.texts(key)[0], "new")
            self.say(key, "ours")
            self.daemon.restart(kill=kill)
        self.assertEqual(self.texts(key), ["new", "ours", "ours"])

    def test_a_store_that_vanishes_loses_nothing_whether_it_comes_back_or_not(self):
        daemon = self.spawn(self.config)
        api = daemon.client()
        said, patched, deleted = [self.new(f"agent:main:v:{c}", api=api, label=c)["key"] for c in "abc"]
        self.say(said, "before", api=api)
        store, aside = daemon.agent_dir() / "sessions.json", daemon.agent_dir() / "aside"
        made, label = [], "b"
        for comes_back, kill in ((True, False), (False, True), (True, True), (False, False)):
            daemon.checkpoint()
            after, wanted = self.ok(api.get("/v1/sessions?limit=1"))["asOf"], []
            os.rename(store, aside)
            self.say(said, "meanwhile", api=api)
            if comes_back:
                os.rename(aside, store)
            else:
                label = "patched " + uid()
                self.ok(api.patch(S(patched), {"label": label}), 200)
                self.ok(api.delete(S(deleted)), 204)
                made.append(self.new(api=api)["key"])
                wanted = [("session.deleted", deleted), ("session.created", made[-1])]
                eventually(store.exists, what="the store, written again")
            self.ok(api.get("/v1/agents/main/sessions", cache_control="no-cache"))
            daemon.restart(kill=kill)
            self.assertEqual([self.ok(api.get(S(k), cache_control="no-cache"))["label"] for k in (said, patched)], ["a", label])
            self.assertEqual(api.get(S(deleted)).status, 200 if comes_back else 404)
            told = [(e["type"], e["key"]) for e in self.polled(after, api=api) if e["type"] in ("session.deleted", "session.created")]
            self.assertEqual(told, wanted)
            if not comes_back:
                self.new(deleted, api=api)
        self.assertEqual(self.texts(said, api=api), ["before"] + ["meanwhile"] * 4)
        self.assertEqual(set(daemon.sessions_json()), {said, patched, deleted, *made})

    def test_a_transcript_that_vanishes_and_comes_back_is_read_again_and_goes_on(self):
        session = self.new()
        key, path = session["key"], self.path(session["sessionId"])
        for n in range(3):
            self.say(key, str(n))
        self.texts(key)
        self.daemon.checkpoint()
        aside = path.with_name("aside-" + uid())
        os.rename(path, aside)
        self.fresh(key)
        os.rename(aside, path)
        eventually(lambda: self.texts(key) == ["0", "1", "2"], what="the transcript")
        self.assertEqual(self.say(key, "3")["firstSeq"], 3)
        self.daemon.restart(kill=True)
        self.assertEqual([(m["seq"], text_of(m)) for m in self.messages(key)], [(n, str(n)) for n in range(4)])

"""The locks that the daemon shares with other programs, and the routes that show and evict them."""

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from harness.case import Case, S, text_of, uid
from harness.other_writer import host, process
from harness.sessiond import eventually

runs = {"asan", "tsan"}

HOLDER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from harness.other_writer import Lock
with Lock(sys.argv[2], sys.argv[3]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def payload(pid, **more):
    return json.dumps({"pid": pid, "createdAt": "2026-01-01T00:00:00.000Z", "startedAt": 1767225600000, "starttime": 1,
                       "host": host(), "token": uid(), **more})


def dead_pid():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


class Holder:
    """A process that has taken the lock of a file by the protocol, and keeps it."""

    def __init__(self, target, rule="formats"):
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER, str(Path(__file__).parents[1]), str(target), rule],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "held\n"
        self.pid = self.process.pid

    def release(self):
        if self.process.poll() is None:
            self.process.communicate("\n")

    def kill9(self):
        self.process.kill()
        self.process.communicate()


@contextmanager
def held(target, rule="formats"):
    holder = Holder(target, rule)
    try:
        yield holder
    finally:
        holder.release()


class Background:
    """A request whose answer is waited for later."""

    def __init__(self, call):
        self.reply = None
        self._thread = threading.Thread(target=lambda: setattr(self, "reply", call()))
        self._thread.start()

    @property
    def waits(self):
        return self._thread.is_alive()

    def result(self):
        self._thread.join()
        return self.reply


def lock_of(api, path):
    """What GET /v1/admin/locks says of a lock."""
    return next((lock for lock in api.get("/v1/admin/locks").json["data"] if lock["path"].endswith(path)), None)


class StoreLock(Case):
    """sessions.json.lock"""
    config = {"store": {"checkpointDuty": 1.0}}  # on a busy machine the duty cycle would decide, not the lock

    def test_a_dead_holder_does_not_block(self):
        session = self.new()
        lock = self.daemon.agent_dir() / "sessions.json.lock"
        self.daemon.checkpoint()
        with self.api.stream("/v1/events?types=lock.*") as stream:
            stream.wait_type("stream.hello")
            lock.write_text(payload(dead_pid()))
            self.ok(self.api.patch(S(session["key"]), {"label": "past the dead"}), 200)
            self.daemon.checkpoint()
            data = stream.wait_type("lock.evicted").data["data"]
            self.assertTrue(data["reason"])
            self.assertIn("sessions.json.lock", data["path"])
        self.assertFalse(lock.exists())
        self.assertEqual(self.daemon.sessions_json()[session["key"]]["label"], "past the dead")

    def test_a_reused_pid_is_not_the_holder(self):
        session = self.new()
        lock = self.daemon.agent_dir() / "sessions.json.lock"
        self.daemon.checkpoint()
        lock.write_text(payload(os.getpid(), starttime=process(os.getpid())[1] + 1))
        self.ok(self.api.patch(S(session["key"]), {"label": "y"}), 200)
        self.daemon.checkpoint()
        self.assertFalse(lock.exists())

    def test_a_living_holder_is_respected(self):
        daemon = self.spawn({"store": {"writeThrough": True, "lock": {"timeoutMs": 400, "staleMs": 60000}}})
        api = daemon.client()
        session = self.new(api=api)
        lock = daemon.agent_dir() / "sessions.json.lock"
        text = payload(os.getpid(), starttime=process(os.getpid())[1])
        lock.write_text(text)
        held = self.ok(api.get("/v1/admin/locks"), 200)
        self.assertIn(str(os.getpid()), json.dumps(held))
        reply = api.patch(S(session["key"]), {"label": "waits"})
        problem = self.problem(reply, 503, "lock_timeout")
        self.assertTrue(problem["retryable"])
        self.assertGreaterEqual(int(reply.headers["Retry-After"]), 0)
        self.ok(api.get(S(session["key"])), 200)  # no reader ever waits for a lock
        self.assertEqual(lock.read_text(), text)
        lock.unlink()
        eventually(lambda: json.loads((daemon.agent_dir() / "sessions.json").read_bytes())[session["key"]].get("label") == "waits",
                   10, what="the commit, durable all along, in the file")

    def test_a_living_holder_is_evicted_when_its_lock_is_stale(self):
        daemon = self.spawn({"store": {"writeThrough": True, "lock": {"staleMs": 1000}}})
        api = daemon.client()
        session = self.new(api=api)
        lock = daemon.agent_dir() / "sessions.json.lock"
        with api.stream("/v1/events?types=lock.*") as stream:
            stream.wait_type("stream.hello")
            lock.write_text(payload(os.getpid(), starttime=process(os.getpid())[1]))
            self.ok(api.patch(S(session["key"]), {"label": "waited"}), 200)
            self.assertIn(str(os.getpid()), json.dumps(stream.wait_type("lock.evicted").data["data"]))
        self.assertFalse(lock.exists())

    def test_a_holder_that_is_killed_keeps_nobody_waiting(self):
        """Acknowledged at once, and in sessions.json long before the lock would be stale (30 s)."""
        session = self.new()
        self.daemon.checkpoint()
        store = self.daemon.agent_dir() / "sessions.json"
        for rule in ("formats", "2026.1", "2026.2", "2026.4"):
            with self.subTest(rule):
                Holder(store, rule).kill9()
                self.assertTrue(store.with_name("sessions.json.lock").exists())
                label = uid()
                self.ok(self.api.patch(S(session["key"]), {"label": label}), 200)
                eventually(lambda: json.loads(store.read_bytes())[session["key"]].get("label") == label, 10,
                           what="the write in sessions.json")
                eventually(lambda: not store.with_name("sessions.json.lock").exists(), 10, what="our lock let go of")

    def test_one_agents_lock_holds_up_no_other_agent(self):
        one, two = self.new("agent:one:k:a"), self.new("agent:two:k:a")
        self.daemon.checkpoint()
        with held(self.daemon.agent_dir("one") / "sessions.json"):
            self.ok(self.api.patch(S(one["key"], "one"), {"label": "kept back"}), 200)
            eventually(lambda: "waiting" in lock_of(self.api, "/one/sessions/sessions.json.lock"))
            self.assertNotIn("label", json.loads((self.daemon.agent_dir("one") / "sessions.json").read_bytes())[one["key"]])
            self.ok(self.api.patch(S(two["key"], "two"), {"label": "goes on"}), 200)
            store = self.daemon.agent_dir("two") / "sessions.json"
            eventually(lambda: json.loads(store.read_bytes())[two["key"]].get("label") == "goes on",
                       what="the other agent's write in its file")
            self.ok(self.api.get(S(one["key"], "one")), 200)
        self.assertEqual(self.daemon.sessions_json("one")[one["key"]]["label"], "kept back")

    def test_a_damaged_store_is_served_while_its_lock_is_held(self):
        daemon = self.spawn({"store": {"damageAfterMs": 0}})
        api = daemon.client()
        session = self.new(api=api)
        daemon.checkpoint()
        daemon.stop()
        store = daemon.agent_dir() / "sessions.json"
        store.write_bytes(b"")
        with held(store):
            daemon.start()
            self.ok(api.get(S(session["key"])), 200)
            self.assertEqual(store.read_bytes(), b"", "nobody writes without the lock")
        self.assertIn(session["key"], daemon.sessions_json())

    def test_the_list_says_who_holds_it_and_what_is_done_about_it(self):
        session = self.new()
        self.daemon.checkpoint()
        lock = lock_of(self.api, "main/sessions/sessions.json.lock")
        self.assertEqual((lock["agent"], lock["held"]), ("main", False))
        self.assertNotIn("waiting", lock)
        with held(self.daemon.agent_dir() / "sessions.json") as holder:
            checkpoint = Background(lambda: self.daemon.client().post("/v1/admin/checkpoint"))
            self.ok(self.api.patch(S(session["key"]), {"label": uid()}), 200)
            waiting = Background(lambda: self.daemon.client().post("/v1/admin/checkpoint"))
            lock = eventually(lambda: (found := lock_of(self.api, "main/sessions/sessions.json.lock"))
                              and found.get("waiting", {}).get("requests") and found)
            self.assertTrue(lock["held"])
            about = lock["holder"]
            self.assertEqual((about["pid"], about["host"], about["ours"], about["stale"]),
                             (holder.pid, host(), False, False))
            self.assertEqual(about["payload"]["starttime"], process(holder.pid)[1])
            self.assertRegex(about["createdAt"], r"^20\d\d-.*Z$")
            self.assertGreaterEqual(about["ageMs"], 0)
            self.assertGreater(lock["waiting"]["since"], 1_700_000_000_000)
            self.assertGreaterEqual(lock["waiting"]["attempts"], 1)
            self.assertTrue(0 < lock["waiting"]["evictInMs"] <= 30_000)
            self.assertIn("sessiond_lock_waits 1\n", self.api.get("/metrics").raw.decode())
        self.ok(checkpoint.result())
        self.ok(waiting.result())
        self.assertNotIn("waiting", lock_of(self.api, "main/sessions/sessions.json.lock"))

    def test_a_stale_holder_is_told_apart(self):
        self.new("agent:idle:k:a")
        self.daemon.checkpoint()
        pid = dead_pid()
        path = self.daemon.agent_dir("idle") / "sessions.json.lock"
        path.write_text(payload(pid))
        about = lock_of(self.api, "idle/sessions/sessions.json.lock")["holder"]
        self.assertEqual((about["stale"], about["why"]), (True, f"holder {pid} is dead"))
        path.write_text("not JSON")
        about = lock_of(self.api, "idle/sessions/sessions.json.lock")["holder"]
        self.assertEqual((about["stale"], about["payload"]), (False, "not JSON"))
        path.unlink()

    def test_an_admin_evicts_any_holder_and_everybody_is_told(self):
        self.new()
        self.daemon.checkpoint()
        lock = self.daemon.agent_dir() / "sessions.json.lock"
        with self.api.stream("/v1/events?types=lock.*") as stream, held(lock.with_suffix("")) as holder:
            stream.wait_type("stream.hello")
            done = self.ok(self.api.post("/v1/admin/locks/main/evict"), 200)
            self.assertFalse(lock.exists())
            self.assertEqual((done["reason"], done["holder"]["pid"]), ("admin", holder.pid))
            self.assertEqual(stream.wait_type("lock.evicted").data["data"], done)
        last = lock_of(self.api, "main/sessions/sessions.json.lock")["lastEviction"]
        self.assertEqual((last["reason"], last["holder"]), ("admin", done["holder"]))
        self.problem(self.api.post("/v1/admin/locks/main/evict"), 404, "not_found")
        self.problem(self.api.post("/v1/admin/locks/nobody/evict"), 404, "agent_not_found")
        self.problem(self.api.post("/v1/admin/locks/main/evict?transcript=../x.jsonl"), 400, "bad_request")
        self.problem(self.api.post("/v1/admin/locks/main/evict?transcript=x.jsonl"), 404, "not_found")
        viewer = self.api.clone(self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)["token"])
        self.problem(viewer.post("/v1/admin/locks/main/evict"), 403, "forbidden")

    def test_what_cannot_be_a_lock_keeps_the_store_back_and_is_told(self):
        daemon = self.spawn()
        api = daemon.client()
        session = self.new(api=api)
        daemon.checkpoint()
        lock = daemon.agent_dir() / "sessions.json.lock"
        lock.mkdir()
        self.ok(api.patch(S(session["key"]), {"label": "x"}), 200)
        eventually(lambda: "sessions.json.lock" in json.dumps(api.get("/readyz").json), what="readyz naming it")
        lock.rmdir()
        self.assertEqual(daemon.sessions_json()[session["key"]]["label"], "x")


class TranscriptLock(Case):
    """<transcript>.jsonl.lock, in shared mode."""
    config = {"store": {"mode": "shared"}}

    def transcript(self, session):
        return self.daemon.agent_dir() / (session["sessionId"] + ".jsonl")

    def lines(self, session):
        return [json.loads(line) for line in self.transcript(session).read_text().splitlines()[1:]]

    def talk(self):
        """A session with one message in its file."""
        session = self.new()
        self.say(session["key"], "first")
        return session

    def test_a_line_is_in_its_file_before_it_is_acknowledged(self):
        session = self.new()
        for n in range(20):
            self.say(session["key"], f"n{n}")
            self.assertEqual(text_of(self.lines(session)[-1]["message"]), f"n{n}")
        self.assertFalse(list(self.daemon.agent_dir().glob("*.lock")))

    def test_a_held_transcript_keeps_its_own_appends_back_and_no_others(self):
        session, other = self.talk(), self.talk()
        with held(self.transcript(session)) as holder:
            waiting = Background(lambda: self.daemon.client().post(S(session["key"], "main", "messages"),
                                                                   {"role": "user", "text": "second"}))
            lock = eventually(lambda: (found := lock_of(self.api, session["sessionId"] + ".jsonl.lock"))
                              and found.get("waiting", {}).get("requests") == 1 and found)
            self.assertEqual((lock["agent"], lock["holder"]["pid"]), ("main", holder.pid))
            self.say(other["key"], "goes on")
            self.ok(self.api.post("/v1/admin/checkpoint"))
            self.assertEqual(self.texts(session["key"]), ["first"], "a reader gets what is in the file")
            last = self.lines(session)[-1]
            foreign = {"type": "message", "id": "f" + uid(7), "parentId": last["id"],
                       "timestamp": "2026-11-21T22:00:00.000Z", "message": {"role": "user", "content": "theirs"}}
            with self.transcript(session).open("a") as out:
                out.write(json.dumps(foreign) + "\n")
            self.assertTrue(waiting.waits)
        self.ok(waiting.result(), 201)
        self.assertEqual([text_of(line["message"]) for line in self.lines(session)], ["first", "theirs", "second"])
        self.assertEqual(self.lines(session)[-1]["parentId"], foreign["id"])
        self.say(session["key"], "third")
        lines = self.lines(session)
        self.assertEqual([line["parentId"] for line in lines[1:]], [line["id"] for line in lines[:-1]])
        eventually(lambda: self.texts(session["key"]) == ["first", "theirs", "second", "third"])

    def test_a_daemon_that_ends_answers_what_waits_for_a_lock(self):
        daemon = self.spawn(self.config)
        api = daemon.client()
        session = self.new(api=api)
        self.say(session["key"], "first", api=api)
        with held(daemon.agent_dir() / (session["sessionId"] + ".jsonl")):
            waiting = Background(lambda: daemon.client().post(S(session["key"], "main", "messages"), {"role": "user", "text": "second"}))
            eventually(lambda: ((lock_of(api, session["sessionId"] + ".jsonl.lock") or {}).get("waiting") or {}).get("requests") == 1)
            self.assertEqual(daemon.stop(), 0)
            self.problem(waiting.result(), 503, "draining")

    def test_nothing_is_decided_while_the_lock_is_held_however_it_is_answered(self):
        session, other = self.talk(), self.talk()
        path = S(session["key"], "main", "messages")
        with held(self.transcript(session)):
            waiting = [Background(lambda n=n: self.daemon.client().post(
                path, {"role": "user", "text": f"n{n}"}, prefer="respond-async" if n % 2 else None)) for n in range(8)]
            eventually(lambda: ((lock_of(self.api, session["sessionId"] + ".jsonl.lock") or {}).get("waiting")
                                or {}).get("requests") == len(waiting))
            self.say(other["key"], "goes on")
            self.assertEqual(self.ok(self.api.get(S(session["key"])))["messageCount"], 1)
            self.assertTrue(all(one.waits for one in waiting))
        told = {self.ok(one.result(), 201, 202)["firstSeq"]: f"n{n}" for n, one in enumerate(waiting)}
        eventually(lambda: len(self.lines(session)) == 1 + len(waiting), what="all that waited")
        self.assertEqual([text_of(line["message"]) for line in self.lines(session)],
                         ["first"] + [told[seq] for seq in range(1, 1 + len(waiting))])

    def test_a_dead_holder_is_evicted_at_once(self):
        session = self.talk()
        with self.api.stream("/v1/events?types=lock.*") as stream:
            stream.wait_type("stream.hello")
            Holder(self.transcript(session), "2026.4").kill9()
            self.say(session["key"], "second")
            data = stream.wait_type("lock.evicted").data["data"]
        self.assertTrue(data["path"].endswith(session["sessionId"] + ".jsonl.lock"))
        self.assertIn("is dead", data["reason"])
        self.assertEqual(self.texts(session["key"]), ["first", "second"])

    def test_an_admin_evicts_a_transcripts_holder(self):
        session = self.talk()
        with held(self.transcript(session)):
            waiting = Background(lambda: self.daemon.client().post(S(session["key"], "main", "messages"),
                                                                   {"role": "user", "text": "second"}))
            eventually(lambda: "waiting" in (lock_of(self.api, session["sessionId"] + ".jsonl.lock") or {}))
            self.ok(self.api.post(f"/v1/admin/locks/main/evict?transcript={session['sessionId']}.jsonl"), 200)
            self.ok(waiting.result(), 201)

    def test_a_reset_waits_with_the_file_and_holds_up_nobody(self):
        session, other = self.talk(), self.talk()
        file = self.transcript(session)
        with held(file):
            self.ok(self.api.post(S(session["key"], "main", "reset")), 200)
            self.say(session["key"], "in the new conversation")
            self.say(other["key"], "goes on")
            self.assertTrue(file.exists(), "nobody renames what another program has locked")
        eventually(lambda: not file.exists(), what="the archive")
        archived = list(self.daemon.agent_dir().glob(file.name + ".reset.*Z"))
        self.assertEqual(len(archived), 1)
        self.assertIn("first", archived[0].read_text())

    def test_a_kill_while_a_line_waits_loses_nothing(self):
        daemon = self.spawn({"store": {"mode": "shared"}})
        api = daemon.client()
        session = self.new(api=api)
        self.say(session["key"], "first", api=api)
        file = daemon.agent_dir() / (session["sessionId"] + ".jsonl")
        path = S(session["key"], "main", "messages")
        body = {"role": "user", "text": "second"}
        with held(file):
            def post():
                try:
                    return daemon.client().post(path, body, idempotency_key="k")
                except OSError:
                    return None
                except Exception:  # http.client's: the connection ended
                    return None
            waiting = Background(post)
            eventually(lambda: "waiting" in (lock_of(api, ".jsonl.lock") or {}))
            daemon.kill9()
            self.assertIsNone(waiting.result())
            daemon.start()  # though the file is still held
            self.problem(api.get(path), 503, "lock_timeout")  # nobody knows any more what was acknowledged
            again = Background(lambda: daemon.client().post(path, body, idempotency_key="k"))
            eventually(lambda: (lock_of(api, ".jsonl.lock") or {}).get("waiting", {}))
        self.ok(again.result(), 201)
        self.assertEqual(self.texts(session["key"], api=api), ["first", "second"])


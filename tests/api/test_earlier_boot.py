"""Locks that an earlier boot of the machine left behind, as after a power cut, and what the daemon shows meanwhile."""

import json
import os
from pathlib import Path

from harness.case import Case, S, uid
from harness.other_writer import host, process
from harness.sessiond import eventually
from test_locks import Background, held

runs = {"asan", "tsan"}

SAID = ["one", "two", "three", "four", "five"]
ANOTHER_BOOT = "01234567-89ab-cdef-0123-456789abcdef"
LATER = 60.0  # much less than the 30 min after which an unchanged lock is presumed stale


def machine_id():
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return "-"


def hosts_of_an_earlier_boot():
    """As sessiond writes it, and as 0.1.0 did."""
    return f"{machine_id()}:{ANOTHER_BOOT}:4026531836", f"{ANOTHER_BOOT}:4026531836"


def payload(**more):
    """Its pid lives: it was given to another process since."""
    return json.dumps({"pid": os.getpid(), "createdAt": "2026-01-01T00:00:00.000Z", "startedAt": 1767225600000, "starttime": 1,
                       "token": uid(), **more})


class EarlierBoot(Case):
    def after_a_power_cut(self):
        """A shared store with five acknowledged messages, of which the file has kept two."""
        daemon = self.spawn({"store": {"mode": "shared"}})
        api = daemon.client()
        session = self.new(api=api)
        for text in SAID:
            self.say(session["key"], text, api=api)
        daemon.kill9()
        file = daemon.agent_dir() / (session["sessionId"] + ".jsonl")
        checkpoint = daemon.state / "journal" / "CHECKPOINT"
        if checkpoint.exists():  # it came to disk after what it speaks of, which a cut then cannot have taken
            checkpoint.unlink()
        lines = file.read_bytes().splitlines(keepends=True)
        self.assertEqual(len(lines), 1 + len(SAID))
        file.write_bytes(b"".join(lines[:3]))
        return daemon, api, session, file

    def whole(self, daemon, api, session, file):
        """All is shown at once, and all is in the file soon."""
        self.assertEqual(self.texts(session["key"], api=api), SAID)
        eventually(lambda: len(file.read_bytes().splitlines()) == 1 + len(SAID), LATER)
        self.say(session["key"], "six", api=api)
        self.assertEqual(self.texts(session["key"], api=api), [*SAID, "six"])

    def test_a_transcript_lock_of_an_earlier_boot_hides_nothing(self):
        for written in hosts_of_an_earlier_boot():
            with self.subTest(written):
                daemon, api, session, file = self.after_a_power_cut()
                file.with_name(file.name + ".lock").write_text(payload(host=written))
                daemon.start()
                self.whole(daemon, api, session, file)

    def test_an_empty_lock_goes_within_seconds(self):
        daemon, api, session, file = self.after_a_power_cut()
        lock = file.with_name(file.name + ".lock")
        lock.touch()
        daemon.start()
        eventually(lambda: api.get(S(session["key"], "main", "messages")).status == 200, LATER)
        self.whole(daemon, api, session, file)

    def test_a_read_that_cannot_show_all_is_refused_and_the_daemon_is_not_ready(self):
        daemon, api, session, file = self.after_a_power_cut()
        with held(file):
            daemon.start()
            for path in (S(session["key"], "main", "messages"), S(session["key"], "main", "transcript")):
                reply = api.get(path)
                self.problem(reply, 503, "lock_timeout")
                self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
            ready = api.get("/readyz")
            self.assertEqual(ready.status, 503)
            self.assertIn(file.name, json.dumps(ready.json))
            blind = daemon.anonymous().get("/readyz")
            self.assertEqual((blind.status, blind.json["reasons"]), (503, ["recovery waits for a lock"]))
        eventually(lambda: api.get("/readyz").status == 200, LATER)
        self.whole(daemon, api, session, file)

    def test_what_was_not_acknowledged_keeps_no_reader_away(self):
        daemon = self.spawn({"store": {"mode": "shared"}})
        api = daemon.client()
        session = self.new(api=api)
        self.say(session["key"], "first", api=api)
        with held(daemon.agent_dir() / (session["sessionId"] + ".jsonl")):
            waiting = Background(lambda: daemon.client().post(S(session["key"], "main", "messages"), {"role": "user", "text": "second"}))
            eventually(lambda: any("waiting" in lock for lock in api.get("/v1/admin/locks").json["data"]))
            self.assertEqual(self.texts(session["key"], api=api), ["first"])
        self.ok(waiting.result(), 201)

    def test_a_lock_of_this_boot_says_which_machine_it_is(self):
        """The lock of a checkpoint that is stopped half-way would show it; the state lock says the same at any time."""
        owner = json.loads((self.daemon.state / "sessiond.lock").read_text())
        self.assertEqual(owner["host"], f"{machine_id()}:{host()}")

    def test_a_store_lock_of_an_earlier_boot_holds_up_no_checkpoint(self):
        session = self.new()
        self.daemon.checkpoint()
        lock = self.daemon.agent_dir() / "sessions.json.lock"
        for written in hosts_of_an_earlier_boot():
            with self.subTest(written), self.api.stream("/v1/events?types=lock.*") as stream:
                stream.wait_type("stream.hello")
                lock.write_text(payload(host=written))
                self.ok(self.api.patch(S(session["key"]), {"label": uid()}), 200)
                self.ok(self.api.post("/v1/admin/checkpoint"))
                self.assertIn("earlier boot", stream.wait_type("lock.evicted").data["data"]["reason"])
                self.assertFalse(lock.exists())

    def test_a_lock_of_this_boot_is_still_respected(self):
        """The same pid, and it holds: another machine's, another pid namespace's and a living process's lock."""
        daemon = self.spawn({"store": {"writeThrough": True, "lock": {"timeoutMs": 300, "pollIntervalMs": 20, "staleMs": 600_000}}})
        api = daemon.client()
        session = self.new(api=api)
        lock = daemon.agent_dir() / "sessions.json.lock"
        boot, space = host().split(":")
        for written in (f"{machine_id()}:{boot}:{int(space) + 1}", f"{'0' * 31}1:{ANOTHER_BOOT}:{space}", host()):
            with self.subTest(written):
                text = payload(host=written, starttime=process(os.getpid())[1])
                lock.write_text(text)
                self.problem(api.patch(S(session["key"]), {"label": uid()}), 503, "lock_timeout")
                self.assertEqual(lock.read_text(), text)
                lock.unlink()

    def test_lock_names_beside_transcripts_are_swept_at_start(self):
        daemon = self.spawn({"store": {"mode": "shared"}})
        session = self.new(api=daemon.client())
        self.say(session["key"], api=daemon.client())
        daemon.stop()
        file = daemon.agent_dir() / (session["sessionId"] + ".jsonl")
        left = [file.with_name(f"{file.name}.lock.{os.getpid()}.{uid()}{uid()}") for _ in range(3)]
        for name in left:
            name.write_text(payload(host=hosts_of_an_earlier_boot()[0]))
        daemon.start()
        eventually(lambda: not any(name.exists() for name in left), LATER)
        self.assertTrue(file.exists())

"""Whatever becomes of the index's files while the daemon serves: no search fails, nothing wrong is shown, and all is found again."""

import contextlib
import os
import random
import sqlite3
import threading
import time
import urllib.parse

from harness.case import Case, S
from harness.sessiond import eventually
from texts import a_question, a_text, matches

PAGE = 4096
FLIPS = int(os.environ.get("SESSIOND_SEARCH_KILLS", "8"))
KEYS = [f"agent:main:slack:direct:u{n}" for n in range(8)]


class Damage(Case):
    runs = {"release"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.chance = random.Random(11)
        cls.said = {}  # key: texts by seq
        for key in KEYS:
            cls.api.post("/v1/agents/main/sessions", {"key": key})
            texts = [a_text(cls.chance) for _ in range(250)]
            cls.api.post(S(key, "main", "messages"), {"entries": [{"role": "user", "text": text} for text in texts]})
            cls.said[key] = texts
        cls.index = cls.daemon.state / "search" / "index.db"

    def setUp(self):
        super().setUp()
        self.finds_all()
        self.refused, self.enough = [], threading.Event()
        searcher = threading.Thread(target=self.search_on, args=(self.daemon.client(),))
        searcher.start()
        self.addCleanup(lambda: (self.enough.set(), searcher.join(), self.assertFalse(self.refused)))

    def search_on(self, api):
        """Beside each harm somebody looks."""
        while not self.enough.is_set():
            for question in ("quick", "本", "st", "move foo"):
                reply = api.get("/v1/search?" + urllib.parse.urlencode({"q": question}))
                if reply.status != 200:
                    self.refused.append(reply)

    def say(self):
        for key in KEYS[:2]:
            text = a_text(self.chance)
            self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "text": text}), 201)
            self.said[key].append(text)

    def look(self, question):
        """Whether the answer is whole, and what it shows: never an error, never what is not said there."""
        found, cursor, whole = set(), {}, True
        while True:
            query = urllib.parse.urlencode({"q": question, "limit": 100, **cursor}, quote_via=urllib.parse.quote)
            reply = self.api.get("/v1/search?" + query)
            if cursor and reply.status == 400:  # of an index that is gone
                return False, found
            page = self.ok(reply, 200)
            whole = whole and not page["partial"]
            for hit in page["data"]:
                self.assertTrue(matches(question, self.said[hit["key"]][hit["seq"]]), (question, hit))
                self.assertNotIn((hit["key"], hit["seq"]), found, "found twice")
                found.add((hit["key"], hit["seq"]))
            if not page["page"]["hasMore"]:
                return whole, found
            cursor = {"cursor": page["page"]["next"]}

    def finds_all(self, again=None):
        """`again`: does the harm once more where it may have been taken for the index's own writing."""
        every = [text for texts in self.said.values() for text in texts]
        questions = [a_question(self.chance, every) for _ in range(8)] + ["本", "日本語", "std::move(x)", '"the quick"']

        wrong = []

        def all_is_found():
            for question in questions:
                wanted = {(key, seq) for key, texts in self.said.items() for seq, text in enumerate(texts) if matches(question, text)}
                whole, found = self.look(question)
                if not whole or found != wanted:
                    wrong[:] = [question, whole, sorted(wanted - found)[:5], sorted(found - wanted)[:5]]
                    return None
            return True

        try:
            eventually(all_is_found, timeout=20, what="all is found")
        except AssertionError:
            if not again:
                self.fail(wrong)
            again()
            self.finds_all()

    def settle(self):
        """Lets the daemon write all that is in the log of the index to its file, as it does after a purge."""
        key = "agent:main:slack:direct:purged"
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": key}), 201)
        self.ok(self.api.post(S(key, "main", "messages"), {"role": "user", "text": "gone"}), 201)
        self.ok(self.api.delete(S(key) + "?purge=true"), 204)
        log = self.index.with_name("index.db-wal")
        eventually(lambda: log.exists() and log.stat().st_size == 0 and self.index.stat().st_size > 100 * PAGE or None, timeout=20, what="an empty log")

    def write(self, at, data, name=""):
        with open(str(self.index) + name, "r+b") as file:
            file.seek(at)
            file.write(data)

    def flip(self):
        size = os.path.getsize(self.index)
        at = self.chance.randrange(100, size)  # behind the header
        with open(self.index, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << self.chance.randrange(8)]))

    def test_flipped_bits(self):
        for _ in range(FLIPS):
            self.settle()
            self.flip()
            self.say()
            self.finds_all(again=lambda: os.utime(self.index))

    def test_truncated(self):
        for part in (0, 1, 100, 0.1, 0.5, 0.9, 0.999):
            self.settle()
            size = os.path.getsize(self.index)
            os.truncate(self.index, int(size * part) if isinstance(part, float) else part)
            self.say()
            self.finds_all(again=lambda: os.utime(self.index))

    def test_pages_of_zeros_and_of_garbage(self):
        for data in (bytes(PAGE), os.urandom(PAGE), os.urandom(4 * PAGE)):
            self.settle()
            pages = os.path.getsize(self.index) // PAGE
            self.write(self.chance.randrange(1, pages - 4) * PAGE, data)
            self.say()
            self.finds_all(again=lambda: os.utime(self.index))

    def test_what_lies_beside_it(self):
        def log():
            return os.path.getsize(str(self.index) + "-wal")
        for harm in ("cut", "garbage", "removed"):
            self.say()
            eventually(lambda: log() > 0 or None, timeout=20)
            if harm == "cut":
                os.truncate(str(self.index) + "-wal", log() // 2)
            elif harm == "garbage":
                self.write(log() // 2, os.urandom(64), "-wal")
            else:
                os.unlink(str(self.index) + "-wal")
            self.say()
            self.finds_all()

    def test_while_the_index_writes(self):
        log = self.index.with_name("index.db-wal")
        for harm in (log.unlink, lambda: os.truncate(log, log.stat().st_size // 2), self.index.unlink, lambda: os.truncate(self.index, PAGE)):
            enough = threading.Event()

            def write(enough=enough):
                while not enough.is_set():
                    self.say()

            writer = threading.Thread(target=write)
            writer.start()
            eventually(lambda: log.exists() and log.stat().st_size > 50 * PAGE or None, timeout=20)
            harm()
            time.sleep(0.2)  # whatever the index does meanwhile
            enough.set()
            writer.join()
            self.finds_all()

    def test_a_program_that_holds_it_open_holds_up_nobody(self):
        daemon = self.spawn()
        index = daemon.state / "search" / "index.db"
        api = daemon.client()
        key = KEYS[0]
        self.ok(api.post("/v1/agents/main/sessions", {"key": key}), 201)
        self.ok(api.post(S(key, "main", "messages"), {"role": "user", "text": "needle"}), 201)
        eventually(lambda: self.ok(api.get("/v1/search?q=needle"), 200)["data"] or None, timeout=20)
        daemon.stop()
        with contextlib.closing(sqlite3.connect(index)) as other:
            other.execute("SELECT count(*) FROM docs").fetchall()
            daemon.start()
            api = daemon.client()
            eventually(lambda: "database is locked" in "\n".join(daemon.stderr) or None, timeout=30)
            self.assertEqual(self.ok(api.get("/v1/search?q=needle"), 200)["partial"], True)
            self.assertEqual(daemon.stop(), 0)
            daemon.start()
            api = daemon.client()
        eventually(lambda: self.ok(api.get("/v1/search?q=needle"), 200)["data"] or None, timeout=30)

    def test_of_an_older_version(self):
        for change in ("PRAGMA user_version = 4", "DROP TABLE docs", "DELETE FROM rows", "UPDATE meta SET value = 'x' WHERE name = 'epoch'"):
            self.settle()
            copy = self.index.with_name("copy.db")
            copy.write_bytes(self.index.read_bytes())
            with sqlite3.connect(copy) as other:
                other.execute(change)
            other.close()
            os.replace(copy, self.index)
            self.say()
            self.finds_all()

    def test_others_are_locked_out(self):
        with sqlite3.connect(self.index, timeout=0) as other, self.assertRaises(sqlite3.OperationalError):
            other.execute("DELETE FROM rows")
        other.close()
        self.finds_all()

    def test_another_file_in_its_place(self):
        self.settle()
        old = self.index.read_bytes()
        for other in (old, old[:len(old) // 2], b"", b"no database", os.urandom(9000)):
            self.say()
            fresh = self.index.with_name("other.db")
            fresh.write_bytes(other)
            os.replace(fresh, self.index)
            self.say()
            self.finds_all()

    def test_it_is_told(self):
        self.settle()
        before = "\n".join(self.daemon.stderr).count("search_index_discarded")
        rebuilds = self.ok(self.api.get("/readyz"), 200)["search"]["rebuilds"]
        self.write(PAGE, os.urandom(8 * PAGE))
        self.say()
        self.finds_all(again=lambda: os.utime(self.index))
        self.assertGreater("\n".join(self.daemon.stderr).count("search_index_discarded"), before)
        ready = self.ok(self.api.get("/readyz"), 200)
        self.assertEqual((ready["status"], ready["search"]["state"]), ("ready", "ready"))
        self.assertGreater(ready["search"]["rebuilds"], rebuilds)

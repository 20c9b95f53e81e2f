"""GET /v1/search: what it finds, for whom, and what becomes of the index."""

import contextlib
import os
import pty
import random
import select
import stat
import subprocess

from harness.case import Case, S, json, text_of, uid
from harness.sessiond import SLOW, binary, eventually
from preload import preload
from search_case import SearchCase, query

WORDS = "alpha Beta gamma delta ÉPSILON zeta 日本語 東京 straße naïve ab z 100% _x 'quote".split()


class Search(SearchCase):
    def test_words_phrases_case_and_scripts(self):
        self.make()
        for text in (f"Hello {self.word} World", f"Grüße {self.word} aus 東京都", f"{self.word} world said hello"):
            self.say(text)
        self.finds(self.word, [(self.key, 2), (self.key, 1), (self.key, 0)])
        for words, seqs in ((f"{self.word} hello WORLD", [2, 0]), (f'"hello {self.word}"', [0]), (f"{self.word} 東京", [1]),
                            (f"{self.word} 京", [1]), (f"{self.word} GRÜSSE", []), (f"{self.word} grÜße", [1]),
                            (f"{self.word} OR", [2, 0]), (f"{self.word} -hello", []), (f"{self.word[1:-1]} hello", [2, 0])):
            self.assertEqual(self.hits(words), [(self.key, seq) for seq in seqs], words)
        hit = self.page(f"{self.word} aus")["data"][0]
        there = self.ok(self.api.get(S(self.key, "main", "messages")), 200)["data"][1]
        self.assertEqual([hit[name] for name in ("agent", "seq", "id", "timestamp", "role")],
                         ["main", 1, there["id"], there["timestamp"], "user"])
        self.assertEqual(hit["snippet"], f"Grüße {self.word} aus 東京都")

    def test_what_is_asked_wrongly(self):
        for bad in ("", "   ", '""', "x" * 1025, " ".join(["a"] * 33)):
            self.problem(self.api.get(query(bad)), 400, "bad_request")
        for more in ({"role": "x"}, {"since": -1}, {"archived": "x"}, {"limit": 0}, {"cursor": "x"}):
            self.assertEqual(self.api.get(query("a", **more)).status, 400, more)

    def test_filters_roles_and_pages(self):
        self.make()
        for n in range(7):
            self.say(f"{self.word} {n}", role=("user", "assistant")[n % 2])
        self.finds(self.word, [(self.key, n) for n in reversed(range(7))])
        self.assertEqual(self.hits(self.word, role="assistant"), [(self.key, n) for n in (5, 3, 1)])
        self.assertEqual(self.hits(self.word, channel="discord"), [])
        self.assertEqual(self.hits(self.word, agent="other"), [])
        since = self.page(self.word)["data"][2]["timestamp"]
        self.assertTrue(all(hit["timestamp"] >= since for hit in self.page(self.word, since=since)["data"]))
        seen, cursor = [], None
        for _ in range(10):
            page = self.page(self.word, limit=2, **({"cursor": cursor} if cursor else {}))
            seen += [hit["seq"] for hit in page["data"]]
            cursor = page["page"]["next"]
            if not page["page"]["hasMore"]:
                break
        self.assertEqual(seen, list(reversed(range(7))))

    def test_names_and_labels(self):
        self.make(name=f"My {self.word}", label="x")
        self.finds(self.word, [(self.key, None)])
        self.ok(self.api.patch(S(self.key), {"name": "other", "label": f"l {self.word}"}), 200)
        eventually(lambda: [h["role"] for h in self.page(self.word)["data"]] == ["label"] or None, timeout=20)
        self.ok(self.api.delete(S(self.key)), 204)
        self.assertEqual(self.hits(self.word), [])

    def test_names_that_an_archived_session_gets_and_one_keeps_over_a_reset(self):
        self.make()
        self.ok(self.api.post(S(self.key, "main", "archive"), {}), 200)
        self.ok(self.api.patch(S(self.key), {"label": self.word}), 200)
        self.finds(self.word, [(self.key, None)], archived="true")
        self.assertEqual(self.hits(self.word), [])
        self.ok(self.api.post(S(self.key, "main", "unarchive"), {}), 200)
        self.finds(self.word, [(self.key, None)])
        after = self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)["sessionId"]
        self.finds(self.word, [(self.key, None)])
        self.assertEqual([hit["sessionId"] for hit in self.page(self.word)["data"]], [after])

    def test_a_transcript_that_was_put_is_found_without_another_message(self):
        self.make()
        self.say(f"{self.word} old")
        self.ok(self.api.put(S(self.key, "main", "transcript"), {"entries": [{"role": "user", "text": f"{self.word} new"}], "expectedSeq": 1}), 200)
        self.finds(self.word, [(self.key, 0)])
        self.finds(self.word, [(self.key, 0), (self.key, 0)], archived="any")

    def test_a_name_that_changes_often(self):
        """The last label of many is found, and none of a session that was deleted and made again in the same moment."""
        for life in range(3):
            self.make(label=f"{self.word} {life} first")
            for n in range(40):
                self.ok(self.api.patch(S(self.key), {"label": f"{self.word} {life} {n}"}), 200)
            eventually(lambda life=life: [h["snippet"] for h in self.page(self.word)["data"]] == [f"{self.word} {life} 39"] or None, timeout=20)
            self.ok(self.api.patch(S(self.key), {"name": f"{self.word} name"}), 200)
            self.ok(self.api.delete(S(self.key)), 204)
            self.make()
            self.say(f"{self.word} said")  # found after what came before it
            self.finds(self.word, [(self.key, 0)])
            self.ok(self.api.delete(S(self.key)), 204)

    def test_resets_clears_deletions_and_purges(self):
        self.make()
        self.say(f"{self.word} before")
        self.finds(self.word, [(self.key, 0)])
        self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)
        self.assertEqual(self.hits(self.word), [], "gone at once")
        self.finds(self.word, [(self.key, 0)], archived="any")
        self.assertIn(".reset.", self.page(self.word, archived="any")["data"][0]["archive"])
        self.say(f"{self.word} after")
        self.finds(self.word, [(self.key, 0)])
        self.ok(self.api.post(S(self.key, "main", "clear"), {}), 200)
        self.assertEqual(self.hits(self.word), [])
        self.finds(self.word, [(self.key, 0), (self.key, 0)], archived="true")
        self.say(f"{self.word} {self.word} third")
        self.finds(self.word, [(self.key, 0)])
        self.ok(self.api.delete(S(self.key) + "?purge=true"), 204)
        self.assertEqual(self.hits(f'"{self.word} {self.word}"', archived="any"), [], "a purge is seen at once")
        self.finds(self.word, [(self.key, 0), (self.key, 0)], archived="any")

    def test_edits_and_deletions_of_messages(self):
        peer = uid().lower()
        with_id = {"channel": "slack", "peer": peer}
        key = self.ok(self.api.post("/v1/inbound", {**with_id, "chatType": "direct", "text": f"{self.word} old", "messageId": "m1"}), 201)["sessionKey"]
        self.finds(self.word, [(key, 0)])
        self.ok(self.api.post("/v1/inbound/edits", {**with_id, "messageId": "m1", "text": f"{self.word} new"}), 201)
        self.assertEqual(self.hits(f"{self.word} old"), [], "gone at once")
        self.finds(f"{self.word} new", [(key, 0)])
        self.ok(self.api.post("/v1/inbound/deletes", {**with_id, "messageId": "m1"}), 201)
        self.assertEqual(self.hits(self.word), [])
        self.say(f"{self.word} next", key)
        self.finds(self.word, [(key, 4)])

    def test_topics_and_what_is_not_found(self):
        self.make()
        self.say(f"{self.word} t", topic="side")
        eventually(lambda: [h.get("topic") for h in self.page(self.word)["data"]] == ["side"] or None, timeout=20)
        self.ok(self.api.delete(S(self.key, "main", "topics") + "/side"), 204)
        self.assertEqual(self.hits(self.word), [])
        self.make(self.key + "e", ephemeral=True)
        self.say(f"{self.word} ephemeral", self.key + "e")
        self.ok(self.api.post(S(self.key, "main", "messages"), {"role": "assistant", "content": [
            {"type": "thinking", "thinking": f"{self.word} thought"}, {"type": "text", "text": f"{self.word} said"}]}), 201)
        self.ok(self.api.post(S(self.key, "main", "messages"), {"role": "system", "text": f"{self.word} system"}), 201)
        self.say(f"{self.word} end")
        self.finds(self.word, [(self.key, 2), (self.key, 0)])
        self.assertEqual(self.page(f"{self.word} thought")["data"], [])

    def test_command(self):
        self.make(name=f"Title {self.word}")
        self.say(f"{self.word} one\nline \x1b[31m two", topic="side")
        self.say("just before")
        self.say(f"{self.word} three")
        self.say("right behind\nit")
        eventually(lambda: len(self.hits(self.word)) == 3 or None, timeout=20)

        def lines(*arguments, code=0):
            done = self.daemon.cli("search", *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            return (done.stdout if code == 0 else done.stderr).splitlines()

        found = [json.loads(line) for line in lines(self.word)]
        self.assertEqual(found, self.page(self.word)["data"], "in a pipe each hit is a line as the daemon answers it")
        self.assertEqual(lines(self.word), lines(self.word, "--json"))
        self.assertEqual(len(lines(self.word, "three", "--role", "user", "--agent", "main", "--channel", "slack", "--since", "1h",
                                   "--key", self.key)), 1)
        self.assertEqual(lines(self.word, "--key", self.key + "x"), [])
        self.assertEqual(lines(self.word, "--from", "nobody"), [])
        self.assertEqual(len(lines(f'"{self.word} three"', "--archived", "--limit", "1")), 1)
        self.assertIn("q: has no word", lines('""', code=1)[0])
        self.assertEqual(self.daemon.cli("search").returncode, 2)
        self.assertEqual(self.daemon.cli("search", "x", "--role", "nobody").returncode, 2)

        def shown(*arguments):
            here, there = pty.openpty()
            process = subprocess.Popen([binary(), "search", "--config", str(self.daemon.config_file), *arguments], stdout=there,
                                       env={**self.daemon.env, "TERM": "xterm", "COLUMNS": "60"})
            os.close(there)
            out = b""
            with contextlib.suppress(OSError):  # the terminal ends with its last writer
                while select.select([here], [], [], 20 * SLOW)[0] and (part := os.read(here, 65536)):
                    out += part
            os.close(here)
            self.assertEqual(process.wait(20 * SLOW), 0)
            return out.decode().replace("\r\n", "\n")

        marked = f"\x1b[1m{self.word}\x1b[0m"
        three, one, title = shown(self.word).split("\n\n")
        self.assertEqual(three.splitlines()[1:], ["  user: just before", f"> user: {marked} three", "  user: right behind it"])
        self.assertIn(f"{self.key} #1", three.splitlines()[0])
        self.assertIn(f"> user: {marked} one line  [31m two", one)
        self.assertIn(f"> name: Title {marked}", title)
        self.assertEqual(shown(f'"three {self.word}"'), "nothing found\n")
        self.assertNotIn("just before", shown(self.word, "--context", "0"))

    def test_lines_of_foreign_programs(self):
        made = self.make()
        self.say("hello")
        self.daemon.checkpoint()
        path = self.daemon.state / "agents/main/sessions" / (made["sessionId"] + ".jsonl")
        with open(path, "a") as file:
            file.write(json.dumps({"type": "message", "id": "f1", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z",
                                   "message": {"role": "user", "content": f"{self.word} foreign"}}) + "\n")
        self.finds(self.word, [(self.key, 1)])

    def test_sessions_made_with_a_past_and_without(self):
        folder = self.daemon.state / "agents/main/sessions"
        folder.mkdir(parents=True, exist_ok=True)
        past = uid()
        line = {"type": "message", "id": "p1", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z",
                "message": {"role": "user", "content": f"{self.word} before"}}
        (folder / f"{past}.jsonl").write_text(json.dumps(line) + "\n")
        seen = []
        with self.api.stream("/v1/events?types=session.created") as stream:
            for key, entry in ((self.key, {"sessionId": past}), (self.key + "2", {"sessionId": uid()}), (self.key + "3", {})):
                self.make(key, **entry)
                event = stream.wait_for(lambda e, key=key: e.type == "session.created" and e.data["key"] == key)
                seen.append(event.data["data"]["reason"])
        self.assertEqual(seen, ["adopt", "api", "api"])
        self.finds(self.word, [(self.key, 0)])
        self.say(f"{self.word} now", key=self.key + "2")
        self.finds(self.word, [(self.key + "2", 0), (self.key, 0)])

    def test_a_tokens_results_equal_what_it_may_get(self):
        chance = random.Random(7)
        keys = {}
        for agent in ("main", "other"):
            for n in range(5):
                key = f"agent:{agent}:{chance.choice(('slack', 'discord'))}:direct:{chance.choice('ab')}{n}{uid().lower()}"
                self.make(key, agent)
                keys[key] = agent
        for _ in range(120):
            key = chance.choice(list(keys))
            self.say(" ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 6))), key, agent=keys[key],
                     role=chance.choice(("user", "assistant")))
        self.say(self.word, key, agent=keys[key])
        self.finds(self.word, [(key, self.ok(self.api.get(S(key, keys[key], "messages") + "?limit=200"), 200)["data"][-1]["seq"])])
        a_key = chance.choice(list(keys))
        limits = [{}, {"agents": ["main"]}, {"keyPrefix": "agent:main:slack:direct:a"}, {"channel": "discord"}, {"keyPrefix": a_key},
                  {"agents": ["other"], "channel": "slack"}]
        clients = [self.daemon.client(self.daemon.token("viewer", **limit)) for limit in limits]
        clients.append(self.daemon.client(self.daemon.token("session", agents=[keys[a_key]], key=a_key)))
        for api in clients:
            texts = []
            for key, agent in keys.items():
                reply = api.get(S(key, agent, "messages") + "?limit=200")
                if reply.status == 200:
                    texts += [(m["timestamp"], key, m["seq"], text_of(m).lower()) for m in reply.json["data"]]
            for _ in range(25):
                words = [chance.choice(WORDS)[:chance.randint(1, 9)] for _ in range(chance.randint(1, 2))]
                wanted = sorted((t, key, seq) for t, key, seq, text in texts if all(word.lower() in text for word in words))
                found, cursor = [], None
                while True:
                    page = self.page(" ".join(words), api, limit=7, **({"cursor": cursor} if cursor else {}))
                    self.assertFalse(page["partial"])
                    rows = [(h["timestamp"], h["key"], h["seq"]) for h in page["data"] if h["key"] in keys]
                    found += rows
                    cursor = page["page"]["next"]
                    if not page["page"]["hasMore"]:
                        break
                    self.assertEqual(len(page["data"]), 7)
                self.assertEqual([t for t, *_ in found], sorted((t for t, *_ in found), reverse=True), words)
                self.assertEqual(sorted(found), wanted, words)


class TheIndex(Case):
    def setUp(self):
        super().setUp()
        self.other = self.spawn()
        self.api2 = self.other.client()
        self.file = self.other.state / "search" / "index.db"
        self.key = "agent:main:slack:direct:u1"
        self.ok(self.api2.post("/v1/agents/main/sessions", {"key": self.key}), 201)
        self.say("needle one")

    def say(self, text):
        self.ok(self.api2.post(S(self.key, "main", "messages"), {"role": "user", "text": text}), 201)

    def finds(self, words, seqs, **more):
        def found():
            page = self.ok(self.api2.get(query(words, **more)), 200)  # never 503
            return ([hit["seq"] for hit in page["data"]] == seqs and not page["partial"]) or None
        eventually(found, timeout=30, what=f"{words} {seqs}")

    def restart(self, kill=False):
        self.other.restart(kill=kill)
        self.api2 = self.other.client()

    def test_file_is_private_and_not_in_a_backup(self):
        self.finds("needle", [0])
        for name in ("", "-wal", "-shm"):
            path = str(self.file) + name
            if os.path.exists(path):
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, name)
        self.assertEqual(stat.S_IMODE(os.stat(self.file.parent).st_mode), 0o700)
        done = self.other.cli("backup", str(self.other.home / "copy"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([str(p) for p in (self.other.home / "copy").rglob("*") if "index.db" in p.name], [])

    def test_deleted_and_damaged_while_serving(self):
        self.finds("needle", [0])
        for harm in ("unlink", "garbage", "replace"):
            if harm == "unlink":
                self.file.unlink()
            elif harm == "garbage":
                with open(self.file, "r+b") as file:
                    file.write(os.urandom(8192))
            else:
                self.file.unlink()
                self.file.write_bytes(b"no database")
            self.say(f"needle {harm}")
            self.finds(harm, [{"unlink": 1, "garbage": 2, "replace": 3}[harm]])
        self.finds("needle", [3, 2, 1, 0])

    def test_lost_damaged_or_a_folder_at_the_start(self):
        self.finds("needle", [0])
        for harm in ("lost", "garbage", "folder"):
            self.other.stop()
            for name in ("", "-wal", "-shm"):
                if harm != "lost" or not name:
                    path = str(self.file) + name
                    if os.path.exists(path):
                        os.unlink(path)
            if harm == "garbage":
                self.file.write_bytes(os.urandom(20000))
            if harm == "folder":
                self.file.mkdir()
            self.other.start()
            self.api2 = self.other.client()
            self.say("writes go on")
            if harm == "folder":
                page = self.ok(self.api2.get(query("needle")), 200)
                self.assertEqual((page["data"], page["partial"]), ([], True))
                self.file.rmdir()
            self.finds("needle", [0])

    def test_a_kill_loses_and_doubles_nothing(self):
        for n in range(5):
            for i in range(20):
                self.say(f"straw {n} {i}")
            self.restart(kill=True)
        self.finds("straw", list(range(100, 50, -1)), limit=50)
        self.ok(self.api2.post(S(self.key, "main", "reset"), {}), 200)
        self.restart(kill=True)
        self.finds("straw", [])
        self.finds('"straw 3 7"', [68], archived="any")

    def test_a_new_index_has_messages_as_people_left_them(self):
        """A transcript and its edits are read in one transaction: what was changed in memory is found before it is written."""
        to = {"channel": "slack", "peer": "u1"}
        for n in range(3):
            self.ok(self.api2.post("/v1/inbound", {**to, "chatType": "direct", "text": f"thimble old {n}", "messageId": f"m{n}"}), 201)
        self.ok(self.api2.post("/v1/inbound/edits", {**to, "messageId": "m0", "text": "thimble new"}), 201)
        self.ok(self.api2.post("/v1/inbound/deletes", {**to, "messageId": "m1"}), 201)
        for again in range(2):
            self.finds("thimble", [3, 1])
            self.finds('"thimble old 0"', [])
            self.finds('"thimble old 1"', [])
            self.other.stop()
            self.file.unlink()
            self.other.start()
            self.api2 = self.other.client()

    def test_a_folder_in_its_place_while_serving(self):
        self.finds("needle", [0])
        for name in ("-wal", ""):
            os.unlink(str(self.file) + name)
        self.file.mkdir()
        eventually(lambda: "sessiond_search_working 0" in self.api2.get("/metrics").raw.decode() or None, timeout=20)
        self.say("needle two")
        self.assertIn("search_is_behind", "\n".join(self.other.stderr))
        ready = self.ok(self.api2.get("/readyz"), 200)
        self.assertEqual((ready["status"], ready["search"]["state"]), ("ready", "behind"))
        self.assertIn(str(self.file), ready["search"]["error"])
        self.file.rmdir()
        self.finds("needle", [1, 0])
        self.assertEqual(self.ok(self.api2.get("/readyz"), 200)["search"]["state"], "ready")

    def test_a_full_disk_hurts_the_search_alone(self):
        daemon = preload(self.spawn(start=False))
        daemon.page.full = 1
        daemon.start()
        self.other, self.api2 = daemon, daemon.client()
        self.ok(self.api2.post("/v1/agents/main/sessions", {"key": self.key}), 201)
        self.say("needle one")
        eventually(lambda: "sessiond_search_working 0" in self.api2.get("/metrics").raw.decode() or None, timeout=20)
        page = self.ok(self.api2.get(query("needle")), 200)
        self.assertEqual((page["data"], page["partial"]), ([], True))
        daemon.page.full = 0
        self.finds("needle", [0])
        daemon.page.full = 1
        self.say("needle two")
        eventually(lambda: "sessiond_search_working 0" in self.api2.get("/metrics").raw.decode() or None, timeout=20)
        self.assertEqual([hit["seq"] for hit in self.ok(self.api2.get(query("needle")), 200)["data"]], [0], "what was there before")
        daemon.page.full = 0
        self.finds("needle", [1, 0])

    def test_a_place_outside_and_a_file_that_is_not_ours(self):
        away = self.other.home / "away"
        away.mkdir()
        (away / "diary").write_text("dear diary")
        daemon = self.spawn({"search": {"path": str(away / "diary")}})
        api = daemon.client()
        eventually(lambda: "is no index of sessiond" in "\n".join(daemon.stderr) or None, timeout=20)
        self.ok(api.get(query("dear")), 200)
        self.assertEqual((away / "diary").read_text(), "dear diary")
        os.rename(away / "diary", away / "kept")
        eventually(lambda: (away / "diary").exists() and "sessiond_search_whole 1" in api.get("/metrics").raw.decode() or None, timeout=20)
        daemon.restart()  # knows its own again
        eventually(lambda: "sessiond_search_whole 1" in daemon.client().get("/metrics").raw.decode() or None, timeout=20)
        self.assertEqual("\n".join(daemon.stderr).count("is no index of sessiond"), 1)

    def test_off(self):
        off = self.spawn({"search": {"enabled": False}})
        self.problem(off.client().get(query("x")), 404, "not_found")
        self.assertIsNone(self.ok(off.client().get("/readyz"), 200)["search"])
        self.assertFalse((off.state / "search").exists())
        done = off.cli("search", "x")
        self.assertEqual((done.returncode, "search.enabled" in done.stderr), (4, True), done.stderr)

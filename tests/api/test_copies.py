"""What people deleted or edited stays so in every copy: forks, archives, restored and replaced transcripts."""

import json

from harness.case import Case, S, text_of, uid
from harness.sessiond import eventually

VIEWS = ("chat", "llm", "full")


class Copies(Case):
    def setUp(self):
        super().setUp()
        self.peer = "p" + uid()
        self.key = f"agent:main:chat:direct:{self.peer}"

    def say(self, text, id, status=201, **more):
        body = {"channel": "chat", "chatType": "direct", "peer": self.peer, "text": text, "messageId": id, **more}
        return self.ok(self.api.post("/v1/inbound", body), status)

    def change(self, what, id, **more):
        return self.ok(self.api.post("/v1/inbound/" + what, {"channel": "chat", "peer": self.peer, "messageId": id, **more}), 201)

    def fork(self, key, **body):
        copy = "agent:main:chat:direct:f" + uid()
        self.ok(self.api.post(S(key, "main", "fork"), {"key": copy, **body}), 201)
        return copy

    def raw(self, key, query="", part="messages"):
        reply = self.api.get(S(key, "main", part) + query)
        self.assertEqual(reply.status, 200, reply)
        return reply.raw.decode()

    def shows(self, key, new, gone, query=""):
        for view in VIEWS:
            text = self.raw(key, f"?view={view}{query}")
            for word in gone:
                self.assertNotIn(word, text, view)
            for word in new:
                self.assertIn(word, text, view)

    def transcript(self, key, query=""):
        return [json.loads(line) for line in self.raw(key, query, "transcript").splitlines()]

    def conversation(self):
        self.say("SECRET", "m1")
        self.say("OLDTEXT", "m2")
        self.say("other", "m3")

    def take_back(self):
        self.change("deletes", "m1")
        self.change("edits", "m2", text="NEWTEXT")

    def test_a_fork_shows_what_people_left(self):
        self.conversation()
        before = self.fork(self.key)
        self.take_back()
        after = self.fork(self.key)
        copy_of_copy = self.fork(before)
        for key in (self.key, before, after, copy_of_copy):
            self.shows(key, ["NEWTEXT", "other"], ["SECRET", "OLDTEXT"])
        self.change("edits", "m2", text="NEWER")
        for key in (self.key, before, after, copy_of_copy):
            self.shows(key, ["NEWER"], ["SECRET", "OLDTEXT", "NEWTEXT"])
        self.assertIn("SECRET", self.raw(before, "?view=raw"), "what is stored stays")
        self.daemon.restart(kill=True)
        self.api = self.daemon.client()
        self.shows(copy_of_copy, ["NEWER"], ["SECRET", "OLDTEXT", "NEWTEXT"])

    def test_a_copy_names_the_transcript_in_which_a_line_was_first_written(self):
        first = self.say("one", "m1")
        self.say("two", "m2")
        fork = self.fork(self.key)
        header = self.transcript(fork)[0]
        self.assertEqual(header["copied"], [{"sessionId": first["sessionId"], "firstSeq": 0, "lastSeq": 1}])
        self.ok(self.api.post(S(fork, "main", "messages"), {"role": "user", "text": "three"}), 201)
        again = self.fork(fork)
        own = self.ok(self.api.get(S(fork)), 200)["sessionId"]
        self.assertEqual(self.transcript(again)[0]["copied"], [
            {"sessionId": first["sessionId"], "firstSeq": 0, "lastSeq": 1}, {"sessionId": own, "firstSeq": 2, "lastSeq": 2}])
        self.assertNotIn("copied", self.transcript(self.key)[0])

    def test_an_equal_id_in_another_transcript_is_another_message(self):
        mine = self.say("mine", "m1")
        other = self.new()["key"]
        self.ok(self.api.post(S(other, "main", "messages"), {"id": mine["messageId"], "role": "user", "text": "theirs"}), 201)
        self.change("deletes", "m1")
        self.assertIn("theirs", self.raw(other, "?view=chat"))

    def test_an_archive_follows_changes(self):
        for how in ("reset", "clear"):
            with self.subTest(how):
                self.peer = "p" + uid()
                self.key = f"agent:main:chat:direct:{self.peer}"
                self.conversation()
                self.ok(self.api.post(S(self.key, "main", how), {}), 200)
                archive = self.ok(self.api.get(S(self.key, "main", "archives")), 200)["data"][0]["archivedAs"][0]
                self.take_back()
                self.shows(self.key, ["NEWTEXT"], ["SECRET", "OLDTEXT"], "&archive=" + archive)
                self.assertNotIn("SECRET", self.raw(self.key, "?view=chat"))

    def test_an_archived_topic_follows_changes(self):
        self.say("SECRET", "m1", topic="tt")
        self.ok(self.api.delete(S(self.key, "main", "topics", "tt")), 204)
        archive = self.ok(self.api.get(S(self.key, "main", "archives")), 200)["data"][0]["archivedAs"][0]
        self.change("deletes", "m1")
        self.shows(self.key, [], ["SECRET"], "&archive=" + archive)

    def test_any_number_of_archives_may_lie_between(self):
        self.conversation()
        first = self.ok(self.api.get(S(self.key)), 200)["sessionId"]
        for n in range(20):
            self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)
            self.say(f"word {n}", f"w{n}")
        self.take_back()
        self.shows(first, ["NEWTEXT"], ["SECRET", "OLDTEXT"])

    def test_a_restored_session_shows_what_was_changed_meanwhile(self):
        self.conversation()
        first = self.ok(self.api.get(S(self.key)), 200)["sessionId"]
        self.ok(self.api.post(S(self.key, "main", "reset"), {}), 200)
        self.take_back()
        self.ok(self.api.delete(S(self.key)), 204)
        self.ok(self.api.post(f"/v1/agents/main/sessions/{first}/restore", {}), 200, 201)
        self.shows(self.key, ["NEWTEXT", "other"], ["SECRET", "OLDTEXT"])

    def test_a_transcript_that_is_replaced_keeps_what_its_lines_are(self):
        self.conversation()
        entries = [{k: m[k] for k in ("id", "role", "content")} for m in self.messages(self.key)]
        old = self.ok(self.api.get(S(self.key)), 200)["sessionId"]
        entries.insert(1, {"role": "user", "text": "put between"})
        self.ok(self.api.put(S(self.key, "main", "transcript"), {"entries": entries, "expectedSeq": 3}), 200)
        self.assertEqual(self.transcript(self.key)[0]["copied"], [
            {"sessionId": old, "firstSeq": 0, "lastSeq": 0}, {"sessionId": old, "firstSeq": 2, "lastSeq": 3}])
        self.take_back()
        self.shows(self.key, ["NEWTEXT", "other", "put between"], ["SECRET", "OLDTEXT"])
        self.shows(self.fork(self.key), ["NEWTEXT", "other", "put between"], ["SECRET", "OLDTEXT"])

    def test_a_change_holds_for_copies_when_the_first_transcript_is_destroyed(self):
        self.conversation()
        fork = self.fork(self.key)
        self.take_back()
        self.ok(self.api.delete(S(self.key) + "?purge=true"), 204)
        self.shows(fork, ["NEWTEXT", "other"], ["SECRET", "OLDTEXT"])
        self.daemon.restart(kill=True)
        self.api = self.daemon.client()
        self.shows(fork, ["NEWTEXT", "other"], ["SECRET", "OLDTEXT"])

    def test_a_purge_leaves_what_archives_of_the_session_are_shown_by(self):
        self.conversation()
        self.say("TOPICAL", "m4", topic="side")
        self.ok(self.api.delete(S(self.key, "main", "topics", "side")), 204)
        self.ok(self.api.post(S(self.key, "main", "clear"), {}), 200)
        session = self.ok(self.api.get(S(self.key)), 200)["sessionId"]
        records = self.ok(self.api.get(S(self.key, "main", "archives")), 200)["data"]
        archives = [archive for record in records for archive in record["archivedAs"]]
        self.assertEqual(len(archives), 2)
        self.take_back()
        self.change("deletes", "m4")
        self.ok(self.api.delete(S(self.key) + "?purge=true"), 204)
        for restarted in (False, True):
            for archive in archives:
                self.shows(session, [], ["SECRET", "OLDTEXT", "TOPICAL"], "&archive=" + archive)
            if not restarted:
                self.daemon.restart(kill=True)
                self.api = self.daemon.client()

    def test_another_text_under_the_same_id_is_another_message(self):
        self.conversation()
        self.take_back()
        lines = self.ok(self.api.get(S(self.key, "main", "messages") + "?view=raw&limit=50"), 200)["data"]
        entries = [{"id": row["line"]["id"], **row["line"]["message"]} for row in lines if row["line"]["type"] == "message"]
        entries[1]["content"] = [{"type": "text", "text": "[taken out]"}]
        entries[2]["content"] = "other"
        self.ok(self.api.put(S(self.key, "main", "transcript"), {"entries": entries, "expectedSeq": len(lines)}), 200)
        self.shows(self.key, ["[taken out]", "other"], ["SECRET", "OLDTEXT", "NEWTEXT"])
        self.assertEqual([record["lastSeq"] for record in self.transcript(self.key)[0]["copied"]], [0, 2])

    def test_a_fork_whose_messages_come_from_too_many_places_is_refused(self):
        session = "s" * 128
        self.ok(self.api.post("/v1/agents/main/sessions", {"key": self.key, "sessionId": session}), 201)

        def entry(n, text):
            return {"id": f"{n:08x}", "role": "user", "text": text}

        old = [entry(n, "x") for n in range(5_000)]
        for at in range(0, len(old), 1_000):
            self.ok(self.api.post(S(self.key, "main", "messages"), {"entries": old[at : at + 1_000]}), 201)
        both = [each for n in range(5_000) for each in (old[n], entry(n + 5_000, "y"))]
        self.ok(self.api.put(S(self.key, "main", "transcript"), {"entries": both, "expectedSeq": 5_000}), 200)
        refused = self.api.post(S(self.key, "main", "fork"), {"key": "agent:main:chat:direct:f" + uid()})
        self.assertEqual((refused.status, refused.json["code"]), (422, "validation_failed"))

    def test_changes_that_cannot_be_read_stop_no_post_and_show_nothing(self):
        self.conversation()
        fork = self.fork(self.key)
        self.change("deletes", "m1")
        self.daemon.checkpoint()
        session = self.ok(self.api.get(S(self.key)), 200)["sessionId"]
        file = next(self.daemon.state.rglob(f"changes/{session}.jsonl"))
        self.daemon.stop()
        kept = file.rename(file.with_suffix(".kept"))
        file.mkdir()
        self.daemon.start()
        self.api = self.daemon.client()
        self.say("more", "m4")
        for view in VIEWS:
            refused = self.api.get(S(fork, "main", "messages") + "?view=" + view)
            self.assertEqual((refused.status, refused.json["code"]), (503, "degraded"))
            self.assertIn(str(file), refused.json["detail"])
        self.daemon.stop()
        file.rmdir()
        kept.rename(file)
        self.daemon.start()
        type(self).api = self.api = self.daemon.client()
        self.shows(fork, ["OLDTEXT"], ["SECRET"])

    def test_a_purge_without_copies_leaves_nothing(self):
        self.conversation()
        self.take_back()
        self.daemon.checkpoint()
        files = list(self.daemon.state.rglob("changes/*.jsonl"))
        self.assertTrue(files)
        mine = [file for file in files if "NEWTEXT" in file.read_text()]
        session = self.ok(self.api.get(S(self.key)), 200)["sessionId"]
        self.ok(self.api.delete(S(self.key) + "?purge=true"), 204)
        self.daemon.checkpoint()
        self.assertEqual([file for file in mine if session in file.name and file.exists()], [])

    def test_one_message_is_shown_as_people_left_it(self):
        self.conversation()
        one, two, _ = self.messages(self.key)
        self.take_back()
        path = S(self.key, "main", "messages") + "/"
        deleted = self.ok(self.api.get(path + one["id"]), 200)
        self.assertEqual((deleted["deleted"], deleted.get("content"), deleted["role"]), (True, None, "user"))
        edited = self.ok(self.api.get(path + two["id"]), 200)
        self.assertEqual((text_of(edited), edited["edited"]), ("NEWTEXT", True))
        self.assertIn("SECRET", self.api.get(path + one["id"] + "?view=raw").raw.decode())

    def test_an_edit_that_does_not_stand_any_more_shows_no_text(self):
        self.conversation()
        for text in ("FIRSTEDIT", "SECONDEDIT"):
            self.change("edits", "m2", text=text)
        self.assertNotIn("FIRSTEDIT", self.raw(self.key))
        self.assertIn("SECONDEDIT", self.raw(self.key))
        edit = [m for m in self.messages(self.key) if m.get("customType") == "sessiond.edit"][0]
        self.assertNotIn("FIRSTEDIT", self.raw(self.key, "/" + edit["id"]))
        self.change("deletes", "m2")
        self.assertNotIn("SECONDEDIT", self.raw(self.key))

    def test_changes_hold_beside_programs_that_share_the_store(self):
        daemon = self.spawn({"store": {"mode": "shared"}})
        self.api = daemon.client()
        self.conversation()
        fork = self.fork(self.key)
        self.take_back()
        for key in (self.key, fork):
            self.shows(key, ["NEWTEXT", "other"], ["SECRET", "OLDTEXT"])

    def test_a_backup_has_them(self):
        self.conversation()
        fork = self.fork(self.key)
        self.take_back()
        to = self.daemon.home / uid()
        self.assertEqual(self.daemon.cli("backup", to).returncode, 0)
        kept = [path for path in to.rglob("changes/*.jsonl") if "NEWTEXT" in path.read_text()]
        self.assertTrue(kept)
        state = self.daemon.home / uid()
        self.assertEqual(self.daemon.cli("restore", to, "--state-dir", state).returncode, 0)
        self.api = self.spawn(state=state).client(self.daemon.admin_token)
        self.shows(fork, ["NEWTEXT", "other"], ["SECRET", "OLDTEXT"])

    def test_an_import_keeps_the_changes_that_came_along(self):
        self.conversation()
        self.take_back()
        fork = self.fork(self.key)
        for key in (self.key, fork):
            exported = self.raw(key, "?format=jsonl", "export").encode()
            daemon = self.spawn()
            api = daemon.client()
            done = api.post("/v1/agents/main/import?format=jsonl", exported, headers={"Content-Type": "application/x-ndjson"})
            self.assertEqual(done.status, 200, done)
            here, self.api = self.api, api
            made = self.ok(api.get("/v1/agents/main/sessions"), 200)["data"][0]["key"]
            self.shows(made, ["NEWTEXT", "other"], ["SECRET", "OLDTEXT"])
            self.assertNotIn("copied", self.transcript(made)[0])
            self.api = here

    def test_an_import_changes_no_message_of_another_session(self):
        mine = self.say("mine", "m1")
        crafted = "\n".join(json.dumps(line) for line in (
            {"type": "session", "version": 3, "id": "crafted-" + uid(), "timestamp": "2026-01-01T00:00:00.000Z",
             "copied": [{"sessionId": mine["sessionId"], "firstSeq": 0, "lastSeq": 9}]},
            {"type": "message", "id": mine["messageId"], "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z",
             "message": {"role": "user", "content": [{"type": "text", "text": "theirs"}]}},
            {"type": "custom", "id": "c1", "parentId": mine["messageId"], "timestamp": "2026-01-01T00:00:00.000Z",
             "customType": "sessiond.delete", "data": {"target": {"sessionId": mine["sessionId"], "id": mine["messageId"], "seq": 0}}}))
        self.ok(self.api.post("/v1/agents/main/import?format=jsonl", crafted.encode(), headers={"Content-Type": "application/x-ndjson"}), 200)
        self.assertIn("mine", self.raw(self.key, "?view=chat"))

    def test_the_first_message_of_a_fork_is_none_that_was_taken_back(self):
        self.conversation()
        before = self.fork(self.key)
        deeper = self.fork(before)
        self.assertEqual(self.ok(self.api.get(S(deeper)), 200)["firstMessage"], "SECRET")
        self.take_back()
        for key in (self.key, before, deeper, self.fork(self.key)):
            self.assertNotIn("SECRET", self.api.get(S(key)).raw.decode())
        for format in ("json", "manager", "relavium-yaml"):
            self.assertNotIn("SECRET", self.raw(before, "?format=" + format, "export"))

    def test_the_first_message_of_a_copy_is_known_when_the_copies_before_it_are_gone(self):
        self.conversation()
        between = self.fork(self.key)
        deeper = self.fork(between)
        self.assertEqual(len(self.ok(self.api.get(S(deeper)), 200)["copiedFrom"]), 1)
        self.ok(self.api.post(S(between, "main", "reset"), {}), 200)
        self.take_back()
        self.assertNotIn("SECRET", self.api.get(S(deeper)).raw.decode())

    def test_a_restored_session_begins_with_no_message_that_was_taken_back_meanwhile(self):
        self.conversation()
        kept, told = self.fork(self.key), self.fork(self.key)
        ids = [self.ok(self.api.get(S(key)), 200)["sessionId"] for key in (kept, told)]
        self.ok(self.api.delete(S(kept)), 204)
        self.ok(self.api.post(f"/v1/agents/main/sessions/{ids[0]}/restore", {}), 200)
        self.assertEqual(self.ok(self.api.get(S(kept)), 200)["firstMessage"], "SECRET")
        self.ok(self.api.delete(S(told)), 204)
        self.take_back()
        self.ok(self.api.post(f"/v1/agents/main/sessions/{ids[1]}/restore", {}), 200)
        self.assertNotIn("firstMessage", self.ok(self.api.get(S(told)), 200))

    def test_search_finds_nothing_that_was_taken_back_in_a_copy(self):
        word, new = "w" + uid(), "n" + uid()
        self.say(word, "m1")
        fork = self.fork(self.key)
        keys = lambda q: {hit["key"] for hit in self.ok(self.api.get("/v1/search?q=" + q), 200)["data"]}  # noqa: E731
        eventually(lambda: keys(word) == {self.key, fork}, what="both are found")
        self.change("edits", "m1", text=new)
        self.assertEqual(keys(word), set())
        eventually(lambda: keys(new) == {self.key, fork}, what="both are found")
        self.change("deletes", "m1")
        self.assertEqual(keys(new), set())


USAGE = {"input": 50, "output": 10, "cacheRead": 900, "cacheWrite": 40}
TOTALS = {"input": 50, "output": 10, "total": 1000}


class Tokens(Case):
    """What a copy, an archive or an import says of tokens: sums in usageTotals, the present context where it is shared."""

    config = {"store": {"mode": "shared"}}

    def replied(self, api=None):
        key = self.new(api=api)["key"]
        self.say(key, "q", api=api)
        self.ok(self.post_to(key, {"role": "assistant", "text": "a", "usage": USAGE}, api=api), 201)
        return key

    def tokens(self, key, api=None):
        session = self.ok((api or self.api).get(S(key)), 200)
        return session.get("totalTokens"), session.get("totalTokensFresh"), session.get("usageTotals")

    def test_a_shared_store_tells_the_size_of_the_context(self):
        key = self.replied()
        self.ok(self.post_to(key, {"role": "assistant", "text": "b", "usage": USAGE}), 201)
        sums = {"input": 100, "output": 20, "total": 2000}
        self.assertEqual(self.tokens(key), (990, True, sums))
        self.daemon.checkpoint()
        stored = self.daemon.sessions_json()[key]
        self.assertEqual((stored["totalTokens"], stored["totalTokensFresh"], stored["usageTotals"]), (990, True, sums))

    def test_a_change_and_a_restore_keep_the_sums(self):
        key = self.new()["key"]
        self.ok(self.post_to(key, {"role": "assistant", "text": "a", "usage": {"input": 50, "output": 10}}), 201)
        sums = {"input": 50, "output": 10, "total": 60}
        self.ok(self.api.put(S(key), {"label": "x"}), 200)
        self.assertEqual(self.tokens(key), (50, True, sums))
        self.ok(self.api.delete(S(key)), 204)
        self.ok(self.api.post(S(key, "main", "restore"), {}), 200)
        self.assertEqual(self.tokens(key)[2], sums)
        bare = {"metadata": {"id": "c" + uid()}, "messages": [{"role": "user", "content": "x"}]}
        self.ok(self.api.post("/v1/agents/main/import?format=json", bare), 200)
        self.assertIn(self.tokens(bare["metadata"]["id"])[2], (None, {"input": 0, "output": 0, "total": 0}))

    def test_a_copy_tells_it_too(self):
        origin = self.replied()
        fork = self.ok(self.api.post(S(origin, "main", "fork"), {}), 201)
        self.assertEqual(self.tokens(fork["key"]), (990, True, TOTALS))
        copied = self.ok(self.api.get(S(origin, "main", "export") + "?format=json"), 200)
        copied["metadata"]["id"] = "c" + uid()
        self.ok(self.api.post("/v1/agents/main/import?format=json", copied), 200)
        self.assertEqual(self.tokens("agent:main:session:" + copied["metadata"]["id"])[:2], (990, True))

    def test_a_compaction_and_a_reset_make_it_unknown(self):
        key = self.replied()
        self.ok(self.post_to(key, {"entries": [{"type": "compaction", "summary": "s"}]}), 201)
        self.assertEqual(self.tokens(key), (990, False, TOTALS))
        self.ok(self.api.post(S(key, "main", "reset"), {}), 200)
        self.assertEqual(self.tokens(key), (None, False, None))

    def test_an_entry_goes_from_one_mode_to_the_other(self):
        daemon = self.spawn()
        api = daemon.client()
        key, gone = self.replied(api), self.replied(api)
        self.assertEqual(self.tokens(key, api), (1000, None, TOTALS))
        self.ok(api.delete(S(gone)), 204)
        self.assertEqual(daemon.stop(), 0)

        def restart(mode):
            daemon.config["store"] = {"mode": mode}
            daemon.config_file.write_text(json.dumps(daemon.config))
            daemon.start()
            return daemon.client()

        api = restart("shared")
        self.assertEqual(self.tokens(key, api)[2], TOTALS)
        self.ok(api.post(S(gone, "main", "restore"), {}), 200)
        self.assertEqual(self.tokens(gone, api), (1000, False, TOTALS))
        self.ok(self.post_to(key, {"role": "assistant", "text": "b", "usage": USAGE}, api=api), 201)
        self.assertEqual(self.tokens(key, api), (990, True, {"input": 100, "output": 20, "total": 2000}))
        self.assertEqual(daemon.stop(), 0)
        api = restart("own")
        self.ok(self.post_to(key, {"role": "assistant", "text": "c", "usage": USAGE}, api=api), 201)
        self.assertEqual(self.tokens(key, api), (3000, None, {"input": 150, "output": 30, "total": 3000}))

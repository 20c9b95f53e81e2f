"""sessiond import --agent: sessions whose keys belong to another agent come to this one, under its keys."""

import os
import pathlib
import tempfile

from export_documents import lines_of
from harness.case import Case, S, json, uid
from harness.sessiond import REPO

SAMPLE = REPO / "tests/data/small"


def transcript(key, session_id, **entry):
    return lines_of({"type": "session", "version": 3, "id": session_id, "sessiond": {"key": key, "entry": entry}},
                    {"type": "message", "id": "e0", "parentId": None, "message": {"role": "user", "content": session_id}})


class Agents(Case):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.daemon.home))
        self.a, self.b = "a" + uid().lower(), "b" + uid().lower()

    def take_in(self, *transcripts, options=(), code=0, daemon=None):
        (self.folder / "x.jsonl").write_text("".join(transcripts))
        done = (daemon or self.daemon).cli("import", self.folder / "x.jsonl", *options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def session(self, key, agent):
        return self.ok(self.api.get(S(key, agent)), 200)

    def test_lines_that_are_left_out_do_not_count_as_sessions(self):
        session_id = "7f0c2a54-6b1e-4f52-9a3d-" + uid()
        said = {"type": "user", "uuid": "u1", "parentUuid": None, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/w",
                "sessionId": session_id, "message": {"role": "user", "content": "hi"}}
        file = self.folder / f"{session_id}.jsonl"
        file.write_text(lines_of(said) + "{broken\n" + lines_of({**said, "uuid": "u2", "message": {"role": "user", "content": 7}}))
        for options, told in (((), "1 created, 0 updated, 0 skipped; 2 of their lines left out\n"),
                              (("--dry-run",), "1 sessions with 1 entries would be imported, 0 cannot be read; 2 of their lines left out\n")):
            done = self.daemon.cli("import", file, "--from", "claude-code", *options)
            self.assertEqual((done.returncode, done.stdout), (1, told), done.stderr)
        counts = json.loads(self.daemon.cli("import", file, "--from", "claude-code", "--dry-run", "--json").stdout)
        self.assertEqual((counts["skipped"], counts["linesLeftOut"]), (0, 2))

    def test_the_sample_of_openclaw(self):
        index = json.loads((SAMPLE / "agents/main/sessions/sessions.json").read_text())
        for options, agent, sample in (((), "main", SAMPLE), (("--agent", "coder"), "coder", SAMPLE / "agents/main")):
            daemon = self.spawn()
            done = daemon.cli("import", sample, "--from", "openclaw", *options)
            self.assertNotIn("agent_mismatch", done.stderr)
            self.assertNotIn("belongs to agent", done.stderr)
            for key, entry in index.items():
                if not key.startswith("agent:main:") or "sessionId" not in entry:
                    continue
                got = daemon.client().get(S(f"agent:{agent}:" + key.removeprefix("agent:main:"), agent))
                self.assertEqual((got.status, got.json.get("sessionId")), (200, entry["sessionId"]), (key, done.stderr))
                self.assertEqual(got.json.get("importedKey"), key if options else None)
            if not options:
                self.assertEqual(self.texts("agent:codex:telegram:group:-100888:topic:1", "codex", api=daemon.client()), ["a forum topic"])
            self.assertFalse([line for line in daemon.stderr if "did not become" in line])
            self.assertEqual({a["agent"] for a in daemon.client().get("/v1/agents").json["data"]}, {agent} if options else {"main", "codex"})
            again = daemon.cli("import", sample, "--from", "openclaw", *options)
            self.assertTrue(again.stdout.startswith("0 created, 0 updated, "), again.stdout)

    def test_the_agent_of_the_key_without_agent(self):
        one, two, three = (uid() for _ in range(3))
        done = self.take_in(transcript(f"agent:{self.a}:x", one), transcript(f"agent:{self.b}:x", two),
                            transcript(f"agent:{self.a}:y", three))
        self.assertEqual(done.stdout, "3 created, 0 updated, 0 skipped\n")
        self.assertEqual([self.session(f"agent:{agent}:{name}", agent)["sessionId"]
                          for agent, name in ((self.a, "x"), (self.b, "x"), (self.a, "y"))], [one, two, three])

    def test_a_key_and_a_parent_of_another_agent(self):
        parent, child = uid(), uid()
        texts = (transcript("agent:theirs:main", parent), transcript("agent:theirs:subagent:1", child, spawnedBy="agent:theirs:main"))
        self.take_in(*texts, options=("--agent", self.a))
        got = self.session(f"agent:{self.a}:subagent:1", self.a)
        self.assertEqual((got["sessionId"], got["spawnedBy"], got["importedKey"]),
                         (child, f"agent:{self.a}:main", "agent:theirs:subagent:1"))
        self.assertEqual(self.texts(f"agent:{self.a}:main", self.a), [parent])
        again = self.take_in(*texts, options=("--agent", self.a))
        self.assertEqual(again.stdout, "0 created, 0 updated, 2 skipped\n", again.stderr)
        self.problem(self.api.get("/v1/agents/theirs"), 404, "agent_not_found")

    def test_keys_that_become_one(self):
        one, two = uid(), uid()
        done = self.take_in(transcript("agent:p:x", one), transcript("agent:q:x", two), options=("--agent", self.a), code=1)
        self.assertEqual(done.stdout, "1 created, 0 updated, 1 skipped\n")
        self.assertIn(f"{two}: another session has the key agent:{self.a}:x", done.stderr)
        self.assertEqual(self.session(f"agent:{self.a}:x", self.a)["sessionId"], one)

    def test_a_limited_token_gets_no_more(self):
        token = self.folder / "token"
        token.write_text(self.daemon.token("operator", agents=[self.a], keyPrefix=f"agent:{self.a}:team:"))
        inside, outside = uid(), uid()
        there = ("--url", f"http://127.0.0.1:{self.daemon.port}", "--token-file", token)
        texts = (transcript("agent:theirs:team:1", inside), transcript("agent:theirs:else", outside))
        done = self.take_in(*texts, options=("--agent", self.a, *there), code=1)
        self.assertEqual(done.stdout, "1 created, 0 updated, 1 skipped\n")
        self.assertIn(f"{outside}: another session has the id {outside} or its key", done.stderr)
        self.assertEqual(self.session(f"agent:{self.a}:team:1", self.a)["sessionId"], inside)
        self.problem(self.api.get(S(outside, self.a)), 404, "session_not_found")
        self.take_in(*texts, options=there, code=1)  # agent theirs is none of the token's
        self.problem(self.api.get("/v1/agents/theirs"), 404, "agent_not_found")

    def test_a_topic_that_is_the_session_itself(self):
        key, session_id = f"agent:{self.a}:telegram:group:-1:topic:7", uid()
        done = self.take_in(transcript(key, session_id), lines_of({"type": "session", "version": 3, "id": session_id, "sessiond": {"topic": "7"}}),
                            code=1)
        self.assertIn("its key ends in :topic:7, so the transcript of topic 7 is its own", done.stderr)
        self.problem(self.api.get(S(session_id, self.a)), 404)

    def test_an_id_that_another_agent_has(self):
        """It is taken once, as far as the token sees; of agents that it does not see whole it learns nothing."""
        taken = uid()
        self.take_in(transcript(f"agent:{self.a}:x", taken))
        done = self.take_in(transcript(f"agent:{self.b}:x", taken), code=1)
        self.assertIn(f"{taken}: another session has the id {taken} or its key", done.stderr)
        limited = self.daemon.client(self.daemon.token("operator", agents=[self.b], keyPrefix=f"agent:{self.b}:team:"))
        for session_id in (taken, uid()):
            done = self.ok(limited.post(f"/v1/agents/{self.b}/import?format=jsonl",
                                        transcript(f"agent:{self.b}:team:{session_id}", session_id).encode()), 200)
            self.assertEqual((done["created"], done["skips"]), (1, []))

    def test_ids_of_agents_at_rest(self):
        """Their folders are listed once, and again when another program has changed them."""
        daemon = self.spawn()
        one, two = uid(), uid()
        self.take_in(transcript(f"agent:{self.a}:x", one), daemon=daemon)
        daemon.checkpoint()
        folder = daemon.agent_dir(self.a)
        os.utime(folder, (1, 1))
        for _ in range(2):
            self.assertIn(one, self.take_in(transcript(f"agent:{self.b}:x", one), code=1, daemon=daemon).stderr)
        (folder / f"{two}.jsonl").write_text("")
        self.assertIn(two, self.take_in(transcript(f"agent:{self.b}:x", two), code=1, daemon=daemon).stderr)
        self.take_in(transcript(f"agent:{self.b}:x", uid()), daemon=daemon)

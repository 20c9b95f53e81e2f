"""OpenClaw 2026.4.29 reads our transcripts, and the same context comes out of its transcripts and ours.

Its session manager is the class SessionManager of @mariozechner/pi-coding-agent 0.70.6, which it imports and pins. That
package is taken alone: its session manager needs none of its dependencies but uuid, and all of openclaw would be 368 MB.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import threading
import unittest
from collections import Counter
from urllib.parse import quote, unquote

from harness.case import Case, S
from harness.npm import install
from harness.sessiond import REPO, Daemon
from refused import refused
from spelling import calls_of, results_of
from views import HERE, Views, tell

PACKAGE = "@mariozechner/pi-coding-agent@0.70.6"
SHA512 = "S4hUZghBeHPqsL6+DNg/TbGLziSh5+/mEHPVlYq5y6ImirWXhISLdLCnyZUW83OblKWihmG7unhJXiHQTH82mQ=="
SHARED = REPO.parent / "shared" / "data" / "openclaw"


unpacking = threading.Lock()


def session_manager():
    """Unpacks the package beside the scripts, unless that has been done."""
    installed = install(HERE)
    with unpacking:
        unpack(installed)


def unpack(installed):
    target = installed / "pi-coding-agent"
    if target.exists():
        return
    done = subprocess.run(["npm", "pack", PACKAGE, "--silent"], cwd=installed, capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"npm pack {PACKAGE}: {done.stderr}")
    archive = installed / done.stdout.strip().splitlines()[-1]
    sha512 = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if sha512 != SHA512:
        raise AssertionError(f"{archive} is another package: {sha512}")
    with tarfile.open(archive) as files:
        files.extractall(installed / "unpacked")
    (installed / "unpacked" / "package").rename(target)


def is_system(message):
    return message["role"] in ("system", "developer")


def plain(message):
    """A row without what the view adds to a message."""
    return {name: value for name, value in message.items() if name not in ("entryIds", "status")}


def of_openclaw(message):
    """A message of OpenClaw's context as view=llm shows it."""
    if message["role"] == "custom":
        return {"role": "user", "content": message["content"], "synthetic": True}
    if message["role"] == "branchSummary":
        return {"role": "user", "content": message["summary"], "synthetic": True}
    return message


def nameless(message):
    """A message without ids of calls: the view gives calls others where providers would not take theirs."""
    content = message.get("content")
    if isinstance(content, list):
        content = [{name: value for name, value in part.items() if name != "id"} if isinstance(part, dict) else part for part in content]
    return [message["role"], content, [call["function"] for call in message.get("tool_calls") or []]]


def is_blank(part):
    return part.get("type") == "text" and not part.get("text", "").strip()


def sendable(message):
    """A message without blank text; None if nothing is left of it."""
    content = message.get("content")
    if isinstance(content, list):
        content = [part for part in content if not is_blank(part)]
        empty = all(part.get("type") == "thinking" for part in content)
    else:
        empty = not (content or "").strip()
        content = None if empty else content
    return None if empty and not message.get("tool_calls") else {**message, "content": content}


def output(content):
    """A result's content as it can be sent."""
    if isinstance(content, list):
        return [part for part in content if not is_blank(part)] or [{"type": "text", "text": "(no output)"}]
    return content if (content or "").strip() else "(no output)"


def split(messages):
    """(what was said, in order; the results of tools): the view moves results to their calls, and leaves orphans out."""
    said, results = [], Counter()
    for message in messages:
        found = results_of(message)
        results.update(json.dumps(output(content), sort_keys=True) for _, content in found)
        if message["role"] in ("tool", "toolResult"):
            continue
        if found:
            message = {**message, "content": [part for part in message["content"] if part.get("type") != "tool_result"]}
        if sent := sendable(message):
            said.append(json.dumps(nameless(sent), sort_keys=True))
    return said, results


def differences(view, context):
    """What differs between a view without pruning and OpenClaw's context."""
    summary = context.pop(0)["summary"] if context and context[0]["role"] == "compactionSummary" else None
    rows = view["data"]
    if summary is not None:
        pair = [row.get("summary") for row in rows[:2]] == [True, True]
        if not pair or rows[1]["content"] != "[Context Summary] " + summary:
            return [f"the view does not begin with the summary {summary[:60]!r}"]
        rows = rows[2:]
    elif rows and rows[0].get("summary"):
        return ["the view begins with a summary"]
    theirs = [of_openclaw(message) for message in context]
    systems = [plain(row) for row in view["system"]]
    wrong = [f"the system message {one} is not in the view" for one in theirs if is_system(one) and one not in systems]
    theirs = [one for one in theirs if not is_system(one)]
    if not view["repaired"] and [plain(row) for row in rows] != theirs:
        wrong.append("the rows are others")
    said, results = split(plain(row) for row in rows if row["entryIds"])
    their_said, their_results = split(theirs)
    if said != their_said:
        wrong.append(f"{len(said)} messages, theirs {len(their_said)}")
    if results - their_results:
        wrong.append(f"results that theirs has not: {list(results - their_results)[:2]}")
    for why, expected in repairs(theirs).items():
        told = Counter(one.get("callId") for one in view["repaired"] if one["why"] == why)
        if told != expected:
            wrong.append(f"{why}: told {dict(told)}, but {dict(expected)}")
    lost = (their_results - results).total() - sum(one["why"] in ("orphan_result", "duplicate_result") for one in view["repaired"])
    return wrong + ([f"{lost} results are not shown and not told to be left out"] if lost else [])


def keeps_words(view, file):
    """Whether the view's summary ends within a turn whose words are kept. Who reads by the file begins at these words,
    and so sees what was summarised of the turn, too."""
    ids = view["data"][0]["entryIds"] if view["data"] and view["data"][0].get("summary") else []
    entries = [json.loads(line) for line in file.read_text().splitlines() if '"compaction"' in line]
    return any(entry.get("id") in ids and "words" in entry.get("details", {}) for entry in entries)


def missing(view, context):
    """What a view has that OpenClaw's context, which shows more, has not."""
    theirs = [of_openclaw(message) for message in context if message["role"] != "compactionSummary"]
    said, results = split(plain(row) for row in view["data"] if row["entryIds"] and not row.get("summary"))
    their_said, their_results = split(one for one in theirs if not is_system(one))
    rest = iter(their_said)
    wrong = [f"theirs has not, or not in this order: {one[:60]}" for one in said if one not in rest]
    return wrong + ([f"results that theirs has not: {list(results - their_results)[:2]}"] if results - their_results else [])


def repairs(messages):
    """What a view has to repair: a result belongs to the latest message before it that has a call of its id."""
    told = {why: Counter() for why in ("missing_result", "orphan_result", "duplicate_result")}
    waiting = {}  # by id, of the latest message with it; 0: all have results
    for message in messages:
        for call, _ in results_of(message):
            if waiting.get(call):
                waiting[call] -= 1
            else:
                told["duplicate_result" if call in waiting else "orphan_result"][call] += 1
        calls = Counter(call for call, _, _ in calls_of(message))
        for call, count in calls.items():
            told["missing_result"][call] += waiting.get(call, 0)
            waiting[call] = count
    told["missing_result"].update(waiting)
    return {why: +counts for why, counts in told.items()}


class OpenClaw(Views):
    seed = 3

    @classmethod
    def setUpClass(cls):
        session_manager()
        super().setUpClass()

    def test_its_context_of_our_transcripts(self):
        stories = [story for story in self.stories if not story.ephemeral]
        contexts = self.node("openclaw.mjs", given=[{"file": str(self.file_of(story))} for story in stories])
        wrong, summaries, pairs, divided, rows = [], 0, 0, 0, 0
        for story, context in zip(stories, contexts):
            if any(message.get("summary") is True for message in context):
                pairs += 1  # a summary that a runner wrote as two messages: it does not know these
                continue
            view = self.view(story, "&prune=off")
            summaries += bool(context and context[0]["role"] == "compactionSummary")
            rows += len(view["data"])
            divides = keeps_words(view, self.file_of(story))
            divided += divides
            wrong += [f"{story.number} ({story.spelling}): {one}" for one in (missing if divides else differences)(view, context)]
        tell(transcripts=len(stories), summaries=summaries, within_a_turn=divided, rows=rows, without_a_summary_entry=pairs, wrong=len(wrong))
        self.assertNothing(wrong)

    def test_its_context_begins_with_our_summary(self):
        key = self.new()["key"]
        path = S(key, "main", "messages")
        for number in range(8):
            calls = [{"type": "toolCall", "id": f"c{number}", "name": "ls", "arguments": {}}]
            result = {"role": "toolResult", "toolCallId": f"c{number}", "toolName": "ls",
                      "content": [{"type": "text", "text": "a"}]}
            self.ok(self.api.post(path, {"entries": [{"role": "user", "text": f"question {number}"},
                                                     {"role": "user", "text": "noted", "synthetic": True},
                                                     {"role": "assistant", "content": calls}, result]}), 201)
        for _ in range(3):  # the warning of a doom loop is a synthetic message, too
            self.ok(self.api.post(path, {"entries": [{"role": "assistant", "content": calls}, result]}), 201)
        plan = self.ok(self.api.post(S(key, "main", "compact"), {}), 200)["plan"]
        summary = {"summary": "What was said.", "firstKeptEntryId": plan["firstKeptEntryId"]}
        self.ok(self.api.post(S(key, "main", "compact"), summary), 201)
        self.ok(self.api.post(path, {"role": "user", "text": "and now?"}), 201)
        self.assertEqual(self.api.get(S(key, "main", "transcript")).status, 200)
        file = self.daemon.agent_dir() / f"{self.ok(self.api.get(S(key)), 200)['sessionId']}.jsonl"
        [context] = self.node("openclaw.mjs", given=[{"file": str(file)}])
        self.assertEqual((context[0]["role"], context[0]["summary"]), ("compactionSummary", "What was said."))
        self.assertEqual(context[1]["content"], [{"type": "text", "text": "question 4"}])
        self.assertTrue(any(one.get("content") and "was called 3 times" in str(one["content"]) for one in context))
        view = self.ok(self.api.get(path + "?view=llm&prune=off"), 200)
        self.assertNothing(differences(view, context))


@unittest.skipUnless(SHARED.is_dir(), "no ../shared/data/openclaw here")
class Trees(Case):
    """Transcripts that OpenClaw wrote and compacted."""

    node, assertNothing = Views.node, Views.assertNothing

    @classmethod
    def setUpClass(cls):
        session_manager()
        daemon = Daemon()
        for tree in sorted(path for path in SHARED.iterdir() if (path / "agents").is_dir()):
            for agent in (tree / "agents").iterdir():
                name = f"{agent.name}-{tree.name.replace('.', '-')}"
                shutil.copytree(agent, daemon.state / "agents" / name, copy_function=shutil.copyfile)
        for path in [daemon.state, *daemon.state.rglob("*")]:
            os.chmod(path, 0o700 if path.is_dir() else 0o600)
        cls.begin(daemon)

    def test_the_same_context_of_its_transcripts(self):
        files = sorted((self.daemon.state / "agents").glob("*/sessions/*.jsonl"))
        contexts = self.node("openclaw.mjs", given=[{"file": str(file)} for file in files])
        wrong, seen, compacted, rows = [], 0, 0, 0
        for file, context in zip(files, contexts):
            session, _, topic = file.stem.partition("-topic-")
            query = "?view=llm&prune=off" + (f"&topic={quote(unquote(topic))}" if topic else "")
            reply = self.api.get(S(session, file.parts[-3], "messages") + query)
            if reply.status == 404:
                continue  # the store has no session with this transcript
            view = self.ok(reply, 200)
            seen, rows = seen + 1, rows + len(view["data"])
            compacted += bool(context and context[0]["role"] == "compactionSummary")
            wrong += [f"{file.parent.parent.name}/{file.name}: {one}" for one in differences(view, context) + refused(view)]
        tell(transcripts=seen, of=len(files), compacted=compacted, rows=rows, wrong=len(wrong))
        self.assertNothing(wrong)
        self.assertGreater(compacted, 10)

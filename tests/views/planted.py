"""A daemon that has random transcripts: their files are written before it starts, the rest is sent to it."""

import json
import random

import texts
from harness.case import S
from transcripts import COMPACT, iso, BEGAN


def line_of(entry):
    """As a program writes it; half a surrogate pair is an escape."""
    try:
        return (line := json.dumps(entry, ensure_ascii=False)).encode() and line
    except UnicodeEncodeError:
        return json.dumps(entry)


def plant(daemon, stories):
    """Writes the beginnings of stories as a foreign program leaves them."""
    folder = daemon.agent_dir()
    folder.mkdir(parents=True, mode=0o700)
    store = {}
    for story in stories:
        if not story.file:
            continue
        head = {"type": "session", "version": 3, "id": story.session_id, "timestamp": iso(BEGAN), "cwd": "/home/agent"}
        lines = [line if isinstance(line, str) else line_of(line) for line in (head, *story.file)]
        (folder / f"{story.session_id}.jsonl").write_text("\n".join(lines) + "\n")
        store[story.key] = {"sessionId": story.session_id, "updatedAt": BEGAN}
    (folder / "sessions.json").write_text(json.dumps(store))


def append(case, api, story, seed=None):
    """Sends the rest of a story."""
    rng = random.Random(seed or story.key)
    if not story.file:
        case.ok(api.post("/v1/agents/main/sessions", {"key": story.key, "ephemeral": story.ephemeral}), 201)
    for batch in story.batches:
        if batch == COMPACT:
            compact(case, api, story.key, rng)
        else:
            case.ok(api.post(S(story.key, "main", "messages"), {"entries": batch}), 201)


def compact(case, api, key, rng):
    """Compacts as the daemon plans it; where it plans nothing, from any message on."""
    asked = api.post(S(key, "main", "compact"), {})
    if asked.status == 200 and rng.random() < 0.5:
        first = asked.json["plan"]["firstKeptEntryId"]
    else:
        rows = case.ok(api.get(S(key, "main", "messages") + "?view=llm&prune=off"), 200)["data"]
        ids = [one for row in rows if not row.get("summary") for one in row["entryIds"]]
        if not ids:
            return
        first = rng.choice(ids)
    reply = api.post(S(key, "main", "compact"), {"summary": texts.text(rng, "prose"), "firstKeptEntryId": first})
    if reply.status != 409:
        case.ok(reply, 201)

"""What ends, copies, moves or replaces a session: each operation on a scene, and what the contract says of each state.

Where texts are afterwards:
  here   in the session under its key, once
  kept   in an archive of the key, or in a session before it, once
  file   in a transcript of the agent's folder that no session has: reindex offers it
  both   here and in the copy that was made
  again  here, from the document, and kept as it was
  gone   nowhere
"""

import json
import os
import time
from dataclasses import dataclass, field
from typing import Callable

from harness.case import uid
from scene import STATES


@dataclass(frozen=True)
class Operation:
    run: Callable                # of (scene): the reply that decides, or None
    texts: str
    topics: dict = field(default_factory=dict)    # topic: the place of its texts, where it is another
    runs: str = "end"            # or "go on"
    refused: dict = field(default_factory=dict)  # state: code; the state stays as it was
    stays: tuple = ()            # states that the operation passes by
    texts_of: dict = field(default_factory=dict)  # state: another place


def reset(scene):
    return scene.api.post(scene.path("reset"), {})


def clear(scene):
    return scene.api.post(scene.path("clear"), {})


def archive(scene):
    return scene.api.post(scene.path("archive"), {})


def delete(scene):
    return scene.api.delete(scene.path())


def purge(scene):
    return scene.api.delete(scene.path() + "?purge=true")


def restore(scene):
    gone = delete(scene)
    return gone if gone.status >= 400 else scene.api.post(scene.path("restore"), {"sessionId": scene.id})


def fork(scene):
    reply = scene.api.post(scene.path("fork"), {})
    if reply.status == 201:
        scene.copy = reply.json["key"]
    return reply


def exported(scene):
    """The document of the transcript, which names the session's key as another installation's would."""
    taken = scene.api.get(scene.path("export") + "?format=jsonl")
    if taken.status < 400:
        head, rest = taken.raw.split(b"\n", 1)
        taken.raw = json.dumps({**json.loads(head), "sessiond": {"key": scene.key}}).encode() + b"\n" + rest
    return taken


def import_replace(scene):
    """By a document of before: what was said since is kept."""
    taken = exported(scene)
    if taken.status < 400:
        scene.since = scene.word("since")
        scene.ok(scene.api.post(scene.path("messages"), {"role": "user", "text": scene.since}), 201)
    return taken if taken.status >= 400 else scene.api.post("/v1/agents/main/import?format=jsonl&ifExists=replace", taken.raw)


def import_continue(scene):
    """By a document that has one entry more."""
    taken = exported(scene)
    if taken.status >= 400:
        return taken
    last = json.loads(taken.raw.splitlines()[-1])
    more = {"type": "message", "id": "i" + uid(), "parentId": last["id"], "timestamp": last["timestamp"], "message": {"role": "user", "content": "more-" + uid()}}
    reply = scene.api.post("/v1/agents/main/import?format=jsonl&ifExists=continue", taken.raw + json.dumps(more).encode() + b"\n")
    if (reply.json or {}).get("updated"):
        scene.said[more["message"]["content"]] = ""
    return reply


def put_transcript(scene):
    end = scene.api.get(scene.path("messages") + "?view=raw&limit=1&order=desc").json["data"]
    seq = end[0]["seq"] + 1
    return scene.api.put(scene.path("transcript"), {"entries": [{"role": "user", "text": "new " + uid()}], "expectedSeq": seq})


def put_session(scene):
    entry = scene.api.get(scene.path()).json
    return scene.api.put(scene.path(), {**entry, "sessionId": "put-" + uid()})


def delete_topic(scene):
    return scene.api.delete(scene.path("topics", "t1"))


def migrate(scene):
    return scene.api.post(scene.path("migrate"), {})


def release(scene):
    return scene.api.post(scene.path("release"), {})


def maintain(scene, **limit):
    time.sleep(0.005)  # older than a millisecond
    return scene.api.post("/v1/admin/maintenance", {"dryRun": False, **limit})


def by_age(scene):
    return maintain(scene, olderThanMs=1)


def by_count(scene):
    return maintain(scene, keep=0)


def by_disk(scene):
    return maintain(scene, maxDiskBytes=1)


def rewrite(scene, change):
    """As another program does: reads sessions.json, changes it and renames over it; the daemon is told to look."""
    scene.daemon.checkpoint()
    store = scene.daemon.agent_dir() / "sessions.json"
    entries = json.loads(store.read_bytes())
    if scene.key in entries:
        change(entries)
    temp = store.with_name("sessions.json.theirs")
    temp.write_text(json.dumps(entries))
    os.replace(temp, store)
    scene.end_state()
    scene.api.get(scene.path(), headers={"Cache-Control": "no-cache"})


def rewrite_down(scene, change):
    """The same in place, while no daemon runs: the daemon's second name of the file is of the same bytes."""
    scene.daemon.checkpoint()
    scene.end_state()
    scene.daemon.kill9()
    store = scene.daemon.agent_dir() / "sessions.json"
    entries = json.loads(store.read_bytes())
    if scene.key in entries:
        change(entries)
    store.write_text(json.dumps(entries))
    scene.daemon.start()
    scene.api.get(scene.path(), headers={"Cache-Control": "no-cache"})


def take_out(scene):
    return lambda entries: entries.pop(scene.key)


def give_another_id(scene):
    return lambda entries: entries[scene.key].update(sessionId="theirs-" + uid(), updatedAt=int(time.time() * 1000))


def foreign_delete(scene):
    rewrite(scene, take_out(scene))


def foreign_reset(scene):
    rewrite(scene, give_another_id(scene))


def foreign_delete_down(scene):
    rewrite_down(scene, take_out(scene))


def foreign_reset_down(scene):
    rewrite_down(scene, give_another_id(scene))


def kill9(scene):
    scene.daemon.restart(kill=True)


IN_MEMORY = {"ephemeral": "gone"}
BUSY = ("run_waiting", "run_active", "in_step", "approval_open", "hook_asked", "delivery_leased", "with_children", "ephemeral")
NO_TOPIC = {state: "not_found" for state in STATES if state != "with_topics"}

OPERATIONS = {
    "reset": Operation(reset, "kept", texts_of=IN_MEMORY),
    "clear": Operation(clear, "kept", texts_of=IN_MEMORY),
    "archive": Operation(archive, "here"),
    "delete": Operation(delete, "kept", texts_of=IN_MEMORY),
    "purge": Operation(purge, "gone"),
    "restore": Operation(restore, "here", refused={"ephemeral": "session_not_found"}, texts_of=IN_MEMORY),
    "fork": Operation(fork, "both", runs="go on", refused={"ephemeral": "validation_failed"}),
    "import_replace": Operation(import_replace, "again", topics={"t1": "kept", "t2": "kept"}, refused={"ephemeral": "skipped"}),
    "import_continue": Operation(import_continue, "here", runs="go on", refused={"ephemeral": "skipped"}),
    "put_transcript": Operation(put_transcript, "kept", refused={"ephemeral": "validation_failed"}),
    "put_session": Operation(put_session, "kept", texts_of=IN_MEMORY),
    "delete_topic": Operation(delete_topic, "here", topics={"t1": "kept"}, runs="go on", refused=NO_TOPIC),
    "migrate": Operation(migrate, "here", runs="go on"),
    "release": Operation(release, "here", runs="go on"),
    "by_age": Operation(by_age, "kept", stays=BUSY, refused={"lent_lock": "lock_timeout"}),
    "by_count": Operation(by_count, "kept", stays=BUSY, refused={"lent_lock": "lock_timeout"}),
    "by_disk": Operation(by_disk, "gone", stays=BUSY, refused={"lent_lock": "lock_timeout"}),
    "foreign_delete": Operation(foreign_delete, "file", stays=("ephemeral",)),
    "foreign_reset": Operation(foreign_reset, "file", stays=("ephemeral",)),
    "foreign_delete_down": Operation(foreign_delete_down, "file", texts_of=IN_MEMORY),
    "foreign_reset_down": Operation(foreign_reset_down, "file", texts_of=IN_MEMORY),
    "kill9": Operation(kill9, "here", runs="go on", texts_of=IN_MEMORY),
}

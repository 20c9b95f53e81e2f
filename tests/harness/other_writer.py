"""Another program that shares a store with the daemon: takes sessions.json.lock by store/lock/README.md, or as one of the programs of
the OpenClaw family does, which judge a holder by three different rules; reads, changes and replaces sessions.json under it.

With --transcript it takes turns at a transcript instead: takes <transcript>.lock, appends an entry behind the last one and
tells "<seq> <id>" on stdout. With --churn it makes, changes and deletes entries as fast as it can; the last line on stdout
is {"made": {<key>: {<field>: …}}, "deletions": n, "undone": […]}, what it found otherwise than it had left it.

As a program it makes --updates changes: the k-th of an entry sets the field t<k> and counts x-theirs up, and each one done
is told by a line on stdout. With --present it takes any entry that is there, and tells "<k> <its key>". With --pause-ms it writes in place, slowly. --hold stop|die: every --every updates it stops or kills itself holding the lock, having read.
"""

import argparse
import json
import os
import random
import signal
import time
import uuid
from datetime import datetime, timezone
from pathlib import Path

RULES = ("formats", "2026.1", "2026.2", "2026.4")


def host() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")
    return f"{boot}:{namespace}"


def process(pid):
    """(state, starttime) of a process; None when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0], int(fields[19])
    except (OSError, IndexError):
        return None


def alive(pid) -> bool:
    found = process(pid)
    return found is not None and found[0] not in "ZX"


def iso(ms) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def ms_of(text):
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000
    except (AttributeError, ValueError):
        return None


class Lock:
    def __init__(self, target, rule="formats", stale_ms=30_000, timeout=60.0, poll=0.025):
        directory, name = os.path.split(str(target))
        self.path = os.path.join(os.path.realpath(directory), name + ".lock")
        self.rule, self.stale_ms, self.timeout, self.poll = rule, stale_ms, timeout, poll
        self._token, self._seen, self._since = None, None, 0.0

    def payload(self) -> str:
        now = int(time.time() * 1000)
        pid = os.getpid()
        self._token = uuid.uuid4().hex
        return json.dumps({
            "formats": {"pid": pid, "createdAt": iso(now), "startedAt": now, "starttime": process(pid)[1],
                        "host": host(), "token": self._token},
            "2026.1": {"pid": pid, "startedAt": now},
            "2026.2": {"pid": pid, "createdAt": iso(now)},
            "2026.4": {"pid": pid, "createdAt": iso(now), "starttime": process(pid)[1]},
        }[self.rule])

    def __enter__(self):
        deadline = time.monotonic() + self.timeout
        while not self.take():
            if time.monotonic() > deadline:
                raise TimeoutError(self.path)
            if not self.evicted():
                time.sleep(self.poll * random.uniform(0.5, 1.5))
        return self

    def take(self) -> bool:
        if self.rule != "formats":  # appears empty for a moment
            try:
                fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                return False
            os.write(fd, self.payload().encode())
            os.close(fd)
            return True
        temp = f"{self.path}.{os.getpid()}.{uuid.uuid4().hex[:12]}"
        Path(temp).write_text(self.payload())
        try:
            os.link(temp, self.path)
            return True
        except FileExistsError:
            return False
        finally:
            os.unlink(temp)

    def read(self):
        try:
            value = json.loads(Path(self.path).read_text())
            return value if isinstance(value, dict) else {}
        except (OSError, ValueError):
            return {}

    def evicted(self) -> bool:
        """Looks at the holder as the rule does; true when the lock was taken away or has gone."""
        try:
            seen = os.stat(self.path)
        except FileNotFoundError:
            return True
        holder = self.read()
        if not self.stale(seen, holder):
            return False
        if self.rule != "formats":  # removes whatever stands at the name by now
            try:
                os.unlink(self.path)
            except FileNotFoundError:
                pass
            return True
        aside = f"{self.path}.{os.getpid()}.{uuid.uuid4().hex[:12]}"
        try:
            os.rename(self.path, aside)
        except FileNotFoundError:
            return True
        if os.stat(aside).st_ino != seen.st_ino or json.loads(Path(aside).read_text() or "{}") != holder:
            try:
                os.link(aside, self.path)
            except FileExistsError:
                pass
        os.unlink(aside)
        return True

    def stale(self, seen, holder) -> bool:
        pid, age = holder.get("pid"), time.time() * 1000 - seen.st_mtime * 1000
        created = ms_of(holder.get("createdAt"))
        too_old = created is not None and time.time() * 1000 - created > self.stale_ms
        if self.rule == "2026.1":
            return age > self.stale_ms
        if self.rule == "2026.2":
            return created is None or too_old or not pid or not alive(pid)
        reused = bool(pid) and alive(pid) and holder.get("starttime") not in (None, process(pid)[1])
        if self.rule == "2026.4":
            if not pid or created is None:
                return age > self.stale_ms
            return too_old or not alive(pid) or reused
        if pid and holder.get("host", host()) == host() and (not alive(pid) or reused and "host" in holder):
            return True
        identity = (seen.st_ino, seen.st_ctime_ns, json.dumps(holder))
        if identity != self._seen:
            self._seen, self._since = identity, time.monotonic()
        return (time.monotonic() - self._since) * 1000 > self.stale_ms

    def __exit__(self, *_):
        if self.rule == "formats" and self.read().get("token") != self._token:
            return  # somebody else's by now
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass


def rewrite(store, entries, pause):
    """Writes in place: empties the file, writes a half, pauses, writes the rest."""
    text = json.dumps(entries, indent=2)
    with open(store, "w", encoding="utf-8") as out:
        out.write(text[:len(text) // 2])
        out.flush()
        time.sleep(pause)
        out.write(text[len(text) // 2:])


def read_whole(store):
    """What the store holds, once it is there and whole."""
    while True:
        try:
            return json.loads(Path(store).read_bytes())
        except (FileNotFoundError, ValueError):
            time.sleep(0.001)


def replace(store, entries):
    temp = f"{store}.{os.getpid()}.{uuid.uuid4()}.tmp"
    with open(temp, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        json.dump(entries, out, indent=2)
    os.rename(temp, store)


class Turns:
    """Appends entries to a transcript, each behind the one that is last in the file then; the caller has its lock."""

    def __init__(self, transcript):
        self.file = open(transcript, "a+b", buffering=0)
        self.read, self.lines, self.last = 0, 0, b""

    def take(self, name):
        """The (seq, id) of the new entry."""
        self.file.seek(self.read)
        new = self.file.read()
        assert new.endswith(b"\n") or not new, "a torn line under the lock"
        self.read += len(new)
        self.lines += new.count(b"\n")
        self.last = new.splitlines()[-1] if new else self.last
        last = json.loads(self.last)
        entry = {"type": "message", "id": uuid.uuid4().hex[:8],
                 "parentId": None if last["type"] == "session" else last["id"],
                 "timestamp": iso(int(time.time() * 1000)), "message": {"role": "assistant", "content": name}}
        self.last = json.dumps(entry).encode()
        self.file.write(self.last + b"\n")
        self.read += len(self.last) + 1
        self.lines += 1
        return self.lines - 2, entry["id"]


class Churn:
    """Makes, changes and deletes entries of its own, and changes those of both; knows what must be there."""
    OWN = 40

    def __init__(self, name):
        self.name, self.made, self.deletions, self.undone = name, {}, 0, []

    def check(self, entries):
        """What is otherwise than this program left it."""
        for index in range(self.OWN):
            key = f"agent:main:churn:{index:02d}"
            there, wanted = entries.get(key), self.made.get(key)
            if (there is None) != (wanted is None):
                self.undone.append(f"{key} is {'gone' if there is None else 'there again'}")
            elif wanted and any(there.get(field) != value for field, value in wanted.items()):
                self.undone.append(f"{key} lacks {[f for f, v in wanted.items() if there.get(f) != v][:3]}")
            else:
                continue
            self.made[key] = there and {"sessionId": there["sessionId"]}  # told once

    def change(self, entries, number):
        self.check(entries)
        key = f"agent:main:churn:{random.randrange(self.OWN):02d}"
        now = int(time.time() * 1000)
        if number % 4 == 0:
            keys = sorted(key for key in entries if ":both:" in key)
            entries[keys[number // 4 % len(keys)]][f"{self.name}{number}"] = number
        elif key not in entries:
            self.made[key] = {"sessionId": str(uuid.uuid4()), f"n{number}": number}
            entries[key] = {**self.made[key], "updatedAt": now}
        elif random.random() < 0.5:
            del entries[key]
            self.made[key] = None
            self.deletions += 1
        else:
            self.made[key][f"n{number % 8}"] = number
            entries[key].update({**self.made[key], "updatedAt": max(now, entries[key].get("updatedAt", 0))})


class NoLock:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store")
    parser.add_argument("--rule", choices=(*RULES, "none"), default="formats")
    parser.add_argument("--name", default="t", help="first letter of its fields, and of its counter x-<name>")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first update")
    parser.add_argument("--stale-ms", type=int, default=30_000)
    parser.add_argument("--hold", choices=("stop", "die"))
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--present", action="store_true", help="changes any entry that is there")
    parser.add_argument("--pause-ms", type=float, help="writes in place, and pauses for so long at half")
    parser.add_argument("--churn", action="store_true", help="makes, changes and deletes entries")
    parser.add_argument("--transcript", help="takes turns at this transcript instead of changing the store")
    options = parser.parse_args()
    if options.transcript:
        lock, turns = Lock(options.transcript, options.rule, options.stale_ms, poll=0.005), Turns(options.transcript)
        for number in range(options.first, options.first + options.updates):
            with lock:
                seq, entry_id = turns.take(f"{options.name}{number}")
            print(seq, entry_id, flush=True)
        return
    if options.churn:
        lock, churn = Lock(options.store, options.rule, options.stale_ms, poll=0.005), Churn(options.name)
        for number in range(options.first, options.first + options.updates):
            with lock:
                entries = json.loads(Path(options.store).read_bytes())
                churn.change(entries, number)
                replace(options.store, entries)
            print(number, flush=True)
        print(json.dumps({"made": churn.made, "deletions": churn.deletions, "undone": churn.undone}), flush=True)
        return
    lock = NoLock() if options.rule == "none" else Lock(options.store, options.rule, options.stale_ms)
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))  # after the update that is being made
    for number in range(options.first, options.first + options.updates):
        if ended:
            break
        with lock:
            entries = read_whole(options.store) if options.pause_ms is not None else json.loads(Path(options.store).read_bytes())
            if options.hold and number % options.every == options.every - 1:
                if options.hold == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                print("holding", flush=True)
                os.kill(os.getpid(), signal.SIGSTOP)
            keys = sorted(key for key in entries if ":both:" in key)
            key = random.choice(keys) if options.present else keys[number % len(keys)]
            entry = entries[key]
            entry[f"{options.name}{number if options.present else number // len(keys)}"] = number
            entry["x-" + options.name] = entry.get("x-" + options.name, 0) + 1
            entry["updatedAt"] = max(int(time.time() * 1000), entry.get("updatedAt", 0))
            if options.pause_ms is not None:
                rewrite(options.store, entries, options.pause_ms / 1000 * random.uniform(0, 2))
            else:
                replace(options.store, entries)
        try:
            print(number, key, flush=True)
        except BrokenPipeError:
            return
        if isinstance(lock, NoLock):
            time.sleep(0.002)  # else nobody's version would stand long enough to be read
        if options.present:
            time.sleep(random.uniform(0, 0.05))  # else the daemon, which looks every 25 ms, would hardly get the lock


if __name__ == "__main__":
    main()

"""Opens what the daemon sealed (store/seal/README.md), with another library than the daemon's. The keys of tests follow from
their ids, so a file can be opened without its key file."""

import base64
import hashlib
import json
from pathlib import Path

HEADER = 2**64 - 1  # stands in the place of a header's seq


def secret_of(key):
    return hashlib.sha256(key.encode()).digest()


def write_keys(path, active, *others, secret=None):
    """A key file. `secret`: the active key is not the one that its id stands for."""
    keys = {name: base64.b64encode(secret_of(name)).decode() for name in (active, *others)}
    if secret:
        keys[active] = base64.b64encode(secret_of(secret)).decode()
    path = Path(path)
    fresh = path.with_name(path.name + ".new")  # replaced as a whole: the daemon may be reading it
    fresh.write_text(json.dumps({"active": active, "keys": keys}))
    fresh.chmod(0o600)
    fresh.rename(path)


def is_sealed(value):
    return isinstance(value, dict) and value.get("e") == 1 and set(value) == {"e", "k", "n", "c"}


def opened(sealed, *place):
    """The bytes that are sealed; raises InvalidTag if they are not of this place."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    *parts, number = place
    place = b"".join(str(part).encode() + b"\0" for part in parts) + (str(number).encode() if isinstance(number, int) else number.encode() + b"\0")
    return AESGCM(secret_of(sealed["k"])).decrypt(base64.b64decode(sealed["n"], validate=True),
                                                  base64.b64decode(sealed["c"], validate=True), place)


def plain_bytes(path):
    """The bytes of a transcript, an archive or the log of a session as they would be without encryption."""
    raw = Path(path).read_bytes()
    if b'{"e":1,"k":"' not in raw:
        return raw
    folder = Path(path).parent
    kind = "log" if folder.name == "logs" else "line"
    folder = folder.parent if kind == "log" else folder
    agent, stem = (folder.parent if folder.name == "sessions" else folder).name, Path(path).name.split(".jsonl")[0]
    lines, headers = [], 0
    for number, line in enumerate(raw.split(b"\n")):
        if line.startswith(b'{"e":1,"k":"'):
            sealed = json.loads(line)
            if number == 0:
                try:
                    line, headers = opened(sealed, kind, agent, stem, HEADER), 1
                except Exception:  # InvalidTag: it has no header
                    line = opened(sealed, kind, agent, stem, 0)
            else:
                line = opened(sealed, kind, agent, stem, number - headers)
        elif number == 0:
            headers = int(b'"type":"session"' in line)
        lines.append(line)
    return b"\n".join(lines)


def plain_store(raw):
    """The entries of a sessions.json, opened."""
    store = json.loads(raw)
    return {key: {name: json.loads(opened(value, "entry", key, name)) if is_sealed(value) else value for name, value in entry.items()}
            if isinstance(entry, dict) else entry for key, entry in store.items()}

"""The logs of runs and deliveries (daemon/ledger/book_log.hpp), as another program reads them."""

import json
import zlib


def read_log(file):
    """The last record of each key, {key: (order, value)}, and the last ending."""
    live, group, ending = {}, {}, None
    for line in file.read_bytes().splitlines(keepends=True):
        crc, body = line[:8], line[9:-1]
        if not line.endswith(b"\n") or line[8:9] != b" " or f"{zlib.crc32(body):08x}".encode() != crc:
            break
        told = json.loads(body)
        if "k" in told:
            group[told["k"]] = (told.get("n", 0), told["v"]) if "v" in told else None
        elif "end" in told:
            live.update(group)
            group, ending = {}, told
    return {key: record for key, record in live.items() if record}, ending


def with_crc(book):
    text = json.dumps(book, separators=(",", ":"))[:-1]
    return f'{text},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'


def outbox_before(file):
    """Puts the deliveries of a log into the one text that an earlier version wrote, and takes the log away."""
    records, ending = read_log(file)
    lists = {"unsent": [], "failed": [], "ended": []}
    for key, (_, state) in sorted((item for item in records.items() if item[0].startswith("d ")), key=lambda item: item[1][0]):
        delivery = {"fixed": records["t " + key[2:]][1], **state}
        code = (state.get("error") or {}).get("code")
        alarming = state["status"] == "failed" and code not in ("given_up", "purged")
        lists["unsent" if state["status"] in ("pending", "leased") else "failed" if alarming else "ended"].append(delivery)
    file.with_suffix(".json").write_text(with_crc({"seq": ending["end"], **lists}))
    file.unlink()


def runs_before(file):
    """The same of runs."""
    records, ending = read_log(file)
    sessions = {}
    for key, (_, head) in ((key, record) for key, record in records.items() if key.startswith("s ")):
        session = sessions[key[2:]] = {**head, "queued": [records[f"q {key[2:]} {id_}"][1] for id_ in head.get("queue", ())]}
        session.pop("queue", None)
    for kind, name in (("r", "ended"), ("f", "finished")):
        for key, (_, run) in sorted((item for item in records.items() if item[0][0] == kind), key=lambda item: item[1][0]):
            sessions[key[2:].rsplit(" ", 1)[0]].setdefault(name, []).append(run)
    file.with_suffix(".json").write_text(with_crc({"seq": ending["end"], "fenceFloor": ending["fenceFloor"], "sessions": sessions}))
    file.unlink()

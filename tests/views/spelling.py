"""Reads a row of view=llm in each spelling, apart from the daemon's own code: its calls, its results, its size."""

import json


def parts_of(row):
    content = row.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def calls_of(row):
    """[(id, name, arguments as they are counted)]"""
    if row.get("role") != "assistant":
        return []
    calls = [(p["id"], p["name"], p["arguments"] if p["type"] == "toolCall" else p["input"])
             for p in parts_of(row) if p.get("type") in ("toolCall", "tool_use")]
    calls = [(i, name, compact(arguments)) for i, name, arguments in calls]
    return calls + [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in row.get("tool_calls", [])]


def results_of(row):
    """[(id, content)]"""
    if row.get("role") in ("tool", "toolResult"):
        return [(row.get("toolCallId", row.get("tool_call_id")), row.get("content"))]
    if row.get("role") != "user":
        return []
    return [(p["tool_use_id"], p.get("content")) for p in parts_of(row) if p.get("type") == "tool_result"]


def is_results_only(row):
    parts = parts_of(row)
    return row.get("role") in ("tool", "toolResult") or (
        row.get("role") == "user" and bool(parts) and all(p.get("type") == "tool_result" for p in parts))


def is_person(row):
    return row.get("role") == "user" and not row.get("synthetic") and not row.get("summary") and not is_results_only(row)


def turn_starts(rows):
    """Where turns begin. A message that brings results of a call belongs to the turn of that call."""
    seen, persons = set(), []
    for row in rows:
        ids = tuple(row.get("entryIds", ()))
        split = bool(ids) and ids in seen  # the words of a message whose results went behind their calls
        persons.append(is_person(row) and not results_of(row) and not split)
        seen.add(ids)
    return [at for at, person in enumerate(persons) if person and not (at and persons[at - 1])]


def last_question(rows):
    """Where the words begin that are to be answered: a person's, or, behind an answer, a program's. Without such words, the
    model's last message."""
    starts = set(turn_starts(rows))
    for at in reversed(range(len(rows))):
        row, before = rows[at], rows[at - 1] if at else None
        is_word = row.get("role") == "user" and not results_of(row) and not row.get("summary") and row.get("entryIds")
        behind_answer = before is None or (before.get("role") == "assistant" and not calls_of(before))
        if is_word and (at in starts or (row.get("synthetic") and behind_answer)):
            return at
    return max((at for at, row in enumerate(rows) if row.get("role") == "assistant"), default=0)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def texts_of(content, into):
    """Adds the texts of a content to a list; returns its images."""
    if isinstance(content, str):
        into.append(content)
        return 0
    images = 0
    for part in content or []:
        into += [part[name] for name in ("text", "thinking") if isinstance(part.get(name), str)]
        if part.get("type") in ("image", "image_url"):
            images += 1
        if part.get("type") == "tool_result":
            images += texts_of(part.get("content"), into)
    return images


def said(row):
    """All that is counted of a row: (texts, images)."""
    texts = []
    images = texts_of(row.get("content", row.get("text")), texts)
    for _, name, arguments in calls_of(row):
        texts += [name, arguments]
    return texts, images


def estimate(row):
    texts, images = said(row)
    return (sum(map(len, texts)) + 3) // 4 + 2000 * images


def status_of(row):
    """The status of a result that is a message; None for other rows."""
    if row.get("role") not in ("tool", "toolResult"):
        return None
    texts = []
    texts_of(row["content"], texts)
    if not row.get("isError"):
        return "ok"
    if "".join(texts) == "Permission denied":
        return "denied"
    return "blocked" if "".join(texts).startswith("Blocked by hook: ") else "error"


def unmatched(rows):
    """What is wrong with calls and results: each call has one result, directly behind the message that made it."""
    wrong, waiting = [], []
    for at, row in enumerate(rows):
        for call, _ in results_of(row):
            if call in waiting:
                waiting.remove(call)
            else:
                wrong.append(f"row {at}: result of {call} without its call")
        if waiting and not is_results_only(row):
            wrong.append(f"row {at}: {row.get('role')} before the results of {waiting}")
            waiting = []
        waiting += [call for call, _, _ in calls_of(row)]
    return wrong + ([f"at the end: no results of {waiting}"] if waiting else [])

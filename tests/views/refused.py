"""What Anthropic, OpenAI and Gemini refuse, whatever body a runner makes of a view."""

import json
import re
from collections import Counter

from spelling import calls_of, parts_of, results_of, unmatched

THINKING = ("thinking", "redacted_thinking", "reasoning")


def is_blank(text):
    return not isinstance(text, str) or not text.strip()


def blank_in(content, where):
    if isinstance(content, str):
        return [f"{where}: blank"] if is_blank(content) else []
    if not content:
        return [f"{where}: without content"]
    return [f"{where}: a blank part" for part in content
            if isinstance(part, dict) and str(part.get("type", "")).endswith("text") and is_blank(part.get("text"))]


def refused(view, of_run=False):
    """Returns what is wrong. `of_run`: a model is to answer the view now."""
    rows = view["data"]
    wrong = unmatched(rows)
    for at, row in enumerate(view.get("system", []) + rows):
        where, content = f"row {at} ({row.get('role')} {row.get('entryIds')})", row.get("content")
        if not (row.get("tool_calls") and content is None):
            wrong += blank_in(content, where)
        for _, said in results_of(row):
            wrong += blank_in(said, where + " a result")
        order = [part.get("type") == "tool_result" for part in parts_of(row)]
        if row.get("role") == "user" and order != sorted(order, reverse=True):
            wrong.append(f"{where}: a result behind words")
        if row.get("role") not in ("user", "assistant", "tool", "toolResult", "system", "developer"):
            wrong.append(f"{where}: nobody's")
        if not isinstance(content, (str, list, type(None))):
            wrong.append(f"{where}: content that is {type(content)}")
        kinds = {part.get("type") for part in parts_of(row)}
        if row.get("role") == "assistant" and kinds and kinds <= set(THINKING) and not row.get("tool_calls"):
            wrong.append(f"{where}: thinking alone")
    calls = Counter(call for row in rows for call, _, _ in calls_of(row))
    wrong += [f"the call id {call!r} is there {count} times" for call, count in calls.items() if count > 1]
    wrong += [f"the call id {call!r}" for call in calls if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call)]
    if of_run and (not rows or rows[-1]["role"] == "assistant"):
        wrong.append("it does not end with words or a result")
    try:
        json.dumps(view, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        wrong.append(f"half a surrogate pair: {error}")
    return wrong


def bytes_of(view):
    """At most what the daemon counts: escapes may be shorter here."""
    plain = [{name: value for name, value in row.items() if name not in ("entryIds", "status")} for row in view["system"] + view["data"]]
    return sum(len(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")) for row in plain)

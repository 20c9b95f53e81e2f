"""Documents of other programs for the tests of export and import: seen, and at random."""

import json
import random

TIME = "2025-01-04T14:{:02d}:{:02d}.{:03d}Z"


def lines_of(*documents) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


def stored(session_id, *texts, **metadata):
    """A session of a command-line agent."""
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": text, "timestamp": TIME.format(0, i % 60, 0)}
                for i, text in enumerate(texts)]
    return {"metadata": {"id": session_id, "name": session_id, "createdAt": TIME.format(0, 0, 0),
                         "lastActivityAt": TIME.format(5, 0, 0), "messageCount": len(messages),
                         "firstMessage": texts[0] if texts else "", "provider": "", "model": "", **metadata},
            "messages": messages}


class Random:
    """Transcripts at random: tools, images, branches, compactions, unknown fields and types."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self):
        return self.random.choice(["hello", "", 'a "quote"\nand a line', "日本語 😀", "\u00e9" * 5, "</script>"])

    def message(self, call):
        pick = self.random.random()
        more = {"x": {"deep": [1, None]}} if self.random.random() < 0.3 else {}
        time = {"timestamp": 1736000000000 + self.random.randrange(10**7)} if self.random.random() < 0.8 else {}
        if call:
            return {"role": "toolResult", "toolCallId": call, "toolName": "ls", "isError": False,
                    "content": [{"type": "text", "text": self.text()}], **more, **time}
        if pick < 0.2:
            return {"role": "assistant", "content": [{"type": "text", "text": self.text()},
                    {"type": "toolCall", "id": "call", "name": "ls", "arguments": {"a": 1}}], **more, **time}
        if pick < 0.4:
            return {"role": "user", "content": [{"type": "image", "data": "iVBORw0=", "mimeType": "image/png"},
                                                {"type": "text", "text": self.text()}], **time}
        if pick < 0.6:
            return {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}],
                    "usage": {"input": 3, "output": 4, "cost": {"total": 0.5}}, "model": "m", **more, **time}
        return {"role": self.random.choice(["user", "assistant", "system"]), "content": self.text(), **more, **time}

    def transcript(self, session_id):
        lines = [{"type": "session", "version": 3, "id": session_id, "timestamp": TIME.format(1, 2, 3), "cwd": "/w",
                  "sessiond": {"entry": {"name": "n " + session_id, "description": "d"}}}]
        ids, call = [], None
        for n in range(self.random.randrange(12)):
            parent = ids[-1] if ids and self.random.random() < 0.85 else self.random.choice(ids or [None])
            entry = {"type": "message", "id": f"e{n}", "parentId": parent, "timestamp": TIME.format(2, n, 0)}
            pick = self.random.random()
            if pick < 0.08:
                entry.update({"type": "compaction", "summary": self.text(), "firstKeptEntryId": "e0", "tokensBefore": 1})
            elif pick < 0.16:
                entry.update({"type": "custom", "customType": "theirs", "data": {"n": n}})
            else:
                entry["message"] = self.message(call)
                call = "call" if "toolCall" in json.dumps(entry) and not call else None
            ids.append(entry["id"])
            lines.append(entry)
        return lines_of(*lines)

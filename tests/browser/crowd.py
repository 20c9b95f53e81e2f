"""A store of many sessions, written before the daemon starts."""

import json

CHANNELS = ("slack", "discord", "telegram", "whatsapp", "signal")
KINDS = ("direct", "group", "channel")
NOW = 1_767_225_600_000  # ms; the newest session was changed then


def write_crowd(state, count):
    """sessions.json of the agent `main`. Session 0 is the newest; its name ends in its number."""
    folder = state / "agents" / "main" / "sessions"
    folder.mkdir(mode=0o700, parents=True)
    with open(folder / "sessions.json", "w", encoding="ascii") as out:
        for n in range(count):
            channel, kind = CHANNELS[n % len(CHANNELS)], KINDS[n // 7 % len(KINDS)]
            entry = {"sessionId": f"{n:08x}-0000-4000-8000-000000000000", "updatedAt": NOW - n * 1000, "createdAt": NOW - n * 1000,
                     "channel": channel, "lastChannel": channel, "chatType": kind, "displayName": f"Somebody with the number {n}",
                     "inputTokens": 4812, "outputTokens": 931, "totalTokens": 5743, "contextTokens": 200000}
            key = f"agent:main:{channel}:{kind}:u{n:06}"
            out.write(("{" if n == 0 else ",") + f"\n{json.dumps(key)}: {json.dumps(entry, separators=(',', ':'))}")
        out.write("\n}\n")

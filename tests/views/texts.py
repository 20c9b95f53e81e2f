"""The text of random transcripts: what people and models say, code, and JSON, from this repository's own files.

MIXTURE is each kind's share of the texts: coding agents mostly read and write code and JSON, people write prose.
"""

import json
import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
MIXTURE = {"prose": 45, "code": 35, "json": 18, "other": 2}
OTHER = ["Grüße aus Köln – naïve café", "天気がいいから、散歩しましょう。", "👩‍🚀🎉 fertig!",
         "\\u0000 \"quoted\" \\ back\tslash\r\n", "Ωμέγα ≤ ∑ x²"]


def _prose():
    """Paragraphs of the documents: lines that begin a sentence, without tables, lists and code."""
    documents = [REPO / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")]
    documents += sorted(REPO.glob("[a-z]*/**/README.md"))
    lines = [line for file in documents if "build" not in file.relative_to(REPO).parts for line in file.read_text().splitlines()]
    return [line for line in lines if re.match(r"[A-Z][a-z]* ", line) and len(line) > 120]


def _code():
    files = sorted([*REPO.glob("policy/*.cpp"), *REPO.glob("tests/harness/*.py"), *REPO.glob("transcripts/*.hpp")])
    return [file.read_text() for file in files]


def _json():
    """What tools are called with and answer: the operations and schemas of the HTTP API."""
    api = json.loads((REPO / "web" / "openapi.json").read_text())
    return [one for path in api["paths"].values() for one in path.values() if isinstance(one, dict)] + list(
        api["components"]["schemas"].values())


PROSE, CODE, JSON = _prose(), _code(), _json()


def text(rng, kind=None):
    """A few hundred characters of a kind; of MIXTURE when none is given."""
    kind = kind or rng.choices(list(MIXTURE), MIXTURE.values())[0]
    if kind == "prose":
        return " ".join(rng.choice(PROSE) for _ in range(rng.randint(1, 2)))
    if kind == "code":
        lines = rng.choice(CODE).splitlines()
        begin = rng.randrange(max(1, len(lines) - 12))
        return "\n".join(lines[begin:begin + rng.randint(4, 20)]) or "return;"
    if kind == "json":
        return json.dumps(rng.choice(JSON), indent=rng.choice([None, 2]))[:1_500]
    return rng.choice(OTHER)


def arguments(rng, kind=None):
    """The arguments of a call."""
    word, number = rng.choice(["agent", "session", "Result"]), rng.randint(1, 400)
    shapes = [lambda: {"path": f"src/{word}.cpp", "limit": number},
              lambda: {"command": f"grep -rn '{word}' --include=*.hpp . | head -{number}"},
              lambda: {"path": "notes.md", "content": text(rng, kind)},
              lambda: {"filter": {"role": "user", "after": number << 32, "tags": ["a", "b"]}, "deep": None, "exact": 1.5},
              lambda: {}]
    return rng.choice(shapes)()

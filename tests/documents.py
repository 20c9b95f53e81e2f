#!/usr/bin/env python3
"""Holds documents and comments against the repository.

- Every file or folder that a document or a comment names exists: a link in Markdown, `store/lock/lock.hpp`, `lock.hpp`
  beside the file or anywhere, `daemon/ledger/`.
- Every anchor of a link to a Markdown file is a heading there.
- Nothing cites a text that is not in the repository.
- The table of folders in ARCHITECTURE.md has the arrows of CMakeLists.txt.
- ARCHITECTURE.md stays one page and CONTRIBUTING.md short.

Prints counts, and each wrong place on stderr.
"""

import io
import re
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path, PurePosixPath

import includes

ROOT = Path(__file__).resolve().parent.parent
WORDS = {"ARCHITECTURE.md": 900, "CONTRIBUTING.md": 800}
HISTORY = "CHANGELOG.md"  # names what was, too
CITED_ELSEWHERE = "FORMATS|API §|ARCHITECTURE §"
ENDINGS = "hpp|cpp|py|md|mjs|html|txt|service|socket|in|c|json"
NAMED = re.compile(rf"(?<![\w./<>{{}}$~*-])(?:\.\./)*[\w.-]*\w(?:/[\w.-]+)*\.(?:{ENDINGS})(?![\w/*<-]|\.\w)")
TOP = "|".join(sorted({folder.split("/")[0] for folder in includes.declared()} | {"web", "tests"}))
FOLDER = re.compile(rf"(?<![\w./<>{{}}$~*:-])(?:{TOP})(?:/[\w-]+)*/(?![\w<*.{{])")
# Files that the daemon, a build or another program makes: they are never in the repository.
MADE = {"sessions.json", "keys.json", "index.json", "policy.json", "tokens.json", "MANIFEST.json", "openclaw.json", "main.json", "x.json", "compile_commands.json"}
MADE_IN = ("build/", "proc/", "run/", "etc/", "dev/", "../shared/")


@cache
def files():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


@cache
def ends():
    """Every way to name a file by the end of its path, and every folder."""
    return {"/".join(PurePosixPath(name).parts[at:]) for name in files() for at in range(len(PurePosixPath(name).parts))}


@cache
def folders():
    return {str(parent) for name in files() for parent in PurePosixPath(name).parents}


def python_comments(text):
    docstring = True  # a string that begins a logical line
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and docstring):
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield number, line
        docstring = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT, tokenize.ENCODING)


def prose(name, text):
    """(line number, text) of what is written for people."""
    if name.endswith(".md"):
        yield from enumerate(text.splitlines(), 1)
    elif name.endswith(".py"):
        yield from python_comments(text)
    else:
        mark = "//" if name.endswith((".cpp", ".hpp", ".in", ".c", ".mjs")) else "#"
        for number, line in enumerate(text.splitlines(), 1):
            at = re.search(rf"(?:^|\s){mark}(?: |$)(.*)", line)
            if at:
                yield number, at[1]


def is_there(name, named):
    """Beside the file that names it, from the root, or, named by the end of its path, anywhere."""
    beside = Path(ROOT / name).parent / named
    return named in ends() or (beside.exists() and beside.resolve().is_relative_to(ROOT))


def heading(line):
    return re.sub(r"[^\w\- ]", "", re.sub(r"^#+ ", "", line).lower()).replace(" ", "-")


def link_fault(name, link):
    path, _, anchor = link.partition("#")
    if re.match(r"[a-z]+:", path):
        return None
    target = (ROOT / name).parent / path if path else ROOT / name
    if not target.exists() or not target.resolve().is_relative_to(ROOT):
        return "leads nowhere"
    if anchor and anchor not in {heading(line) for line in target.read_text().splitlines() if line.startswith("#")}:
        return "has no such heading"
    return None


def faults_of(name, text, counts):
    for number, line in prose(name, text):
        if name.endswith(".md"):
            for link in re.findall(r"\]\(([^)\s]+)\)", line):
                counts["links"] += 1
                if fault := link_fault(name, link):
                    yield f"{name}:{number}: the link {link} {fault}"
            line = re.sub(r"\]\([^)]*\)", "]", line)
        for named in NAMED.findall(line):
            if PurePosixPath(named).name in MADE or named.startswith(MADE_IN) or name == HISTORY:
                continue
            counts["files named"] += 1
            if not is_there(name, named):
                yield f"{name}:{number}: {named} is not in the repository"
        for named in FOLDER.findall(line):
            counts["folders named"] += 1
            if named.rstrip("/") not in folders():
                yield f"{name}:{number}: {named} is no folder of the repository"


def cited_elsewhere():
    found = subprocess.run(["git", "grep", "-nE", CITED_ELSEWHERE, "--", ".", f":!{HISTORY}", ":!tests/documents.py"],
                           cwd=ROOT, capture_output=True, text=True)
    return [f"{line}: cites a text that is not in the repository" for line in found.stdout.splitlines()]


def arrows_told():
    """{folder: the last names of the folders that the table says it includes}"""
    rows = re.findall(r"^\| `([a-z/]+)/` \| .* \| ([^|]*) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.M)
    return {folder: set() if told == "nothing" else set(told.split(", ")) for folder, told in rows}


def wrong_arrows():
    told, declared = arrows_told(), {folder: {link.split("/")[-1] for link in links} for folder, links in includes.declared().items()}
    for folder in sorted(told.keys() | declared.keys()):
        if told.get(folder) != declared.get(folder):
            yield (f"ARCHITECTURE.md: {folder} includes {', '.join(sorted(told.get(folder, {'(no row)'}))) or 'nothing'}; "
                   f"CMakeLists.txt: {', '.join(sorted(declared.get(folder, {'(no folder)'}))) or 'nothing'}")


def too_long(counts):
    for name, most in WORDS.items():
        words = counts[name] = sum(1 for word in (ROOT / name).read_text().split() if re.search(r"\w", word))
        if words > most:
            yield f"{name} has {words} words, and may have {most}"


def main():
    counts, wrong = {"documents": 0, "files with comments": 0, "links": 0, "files named": 0, "folders named": 0}, []
    for name in sorted(files()):
        if name.startswith("tests/data/") or not re.search(r"\.(md|py|cpp|hpp|in|c|mjs|service|socket|txt)$|(^|/)Makefile$", name):
            continue
        counts["documents" if name.endswith(".md") else "files with comments"] += 1
        wrong += faults_of(name, (ROOT / name).read_text(), counts)
    wrong += [*cited_elsewhere(), *wrong_arrows(), *too_long(counts)]
    print(" ".join(f"{what} {count}" for what, count in counts.items()), "wrong", len(wrong))
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

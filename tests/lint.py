#!/usr/bin/env python3
"""Holds the sources against clang-format, the compiler and clang-tidy.

1. Every file is formatted as .clang-format says.
2. Every source file compiles by itself: the other builds compile a folder as one unit, and miss a missing
   #include of ours. (Those of other libraries are precompiled.)
3. clang-tidy (.clang-tidy) finds nothing in the product. It spends most of its time in the headers of other libraries, once a unit:
   so the product is put into as many units as there are processors to use.

--quick makes the first check, a few seconds' work: make test runs it. The others take minutes when many files changed.

A check that passed is not made again while the files that it reads, its command and the compiler are the same: an empty file named
by their digest stands in ~/.cache/sessiond-lint ($XDG_CACHE_HOME), for all clones of this user, and goes when unused for 30 days.

Usage: lint.py [-j JOBS] [--quick] [--fix]; without --quick it needs a configured build/debug with its precompiled headers (make lint).
"""

import argparse
import concurrent.futures
import contextlib
import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import includes

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "debug"
CLEAN = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sessiond-lint"
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
PRODUCT = tuple(f"{folder}/" for folder in includes.declared())


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns], cwd=ROOT, text=True,
                         capture_output=True, check=True)
    return [name for name in out.stdout.split() if (ROOT / name).exists()]


def flags_of_files():
    """{file: its compiler flags}, without what names inputs and outputs."""
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        start = next(i for i, word in enumerate(words) if "clang++" in word) + 1
        end = words.index("-o")
        found[os.path.relpath(entry["file"], ROOT)] = words[start:end]
    return found


@functools.cache
def bytes_of(name):
    return (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""


def closure(name, found):
    """Adds to `found` the file and all files of ours that it includes, directly or not."""
    if name not in found:
        found.add(name)
        for included in INCLUDE.findall(bytes_of(name).decode()):
            closure(included, found)
    return found


@functools.cache
def surroundings():
    """What every check reads beside the sources."""
    compiler = subprocess.run(["clang++-19", "--version"], text=True, capture_output=True, check=True).stdout
    return compiler.encode() + b"".join(map(bytes_of, (".clang-format", ".clang-tidy", "CMakeLists.txt")))


def digest(command, files):
    """Changes with whatever a check of these files depends on, but not with the folder of the clone."""
    sums = [hashlib.sha256(name.encode() + b"\0" + bytes_of(name)).digest()
            for name in sorted(set().union(*(closure(name, set()) for name in files)))]
    return hashlib.sha256(shlex.join(command).replace(str(ROOT), "").encode() + surroundings() + b"".join(sums)).hexdigest()


def passed_before(known):
    """Whether a check with this digest has passed; if so, it is kept for another 30 days."""
    try:
        os.utime(CLEAN / known)
    except FileNotFoundError:
        return False
    return True


def forget_unused():
    for file in CLEAN.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another run was faster
            if file.stat().st_mtime < time.time() - 30 * 86400:
                file.unlink()


def run(command):
    """(whether all is well, what was printed)"""
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    return done.returncode == 0, (done.stdout + done.stderr).strip() or f"{command[0]} ended with {done.returncode}"


def units(flags, count):
    """Writes `count` files that include the product's, of about the same size. Folders stay together, in the order of the build."""
    files = [name for name in flags if name.startswith(PRODUCT) and not name.endswith("main.cpp") and (ROOT / name).exists()]
    total, sizes = sum((ROOT / name).stat().st_size for name in files), 0
    texts = [""] * count
    for name in files:
        texts[sizes * count // total] += f'#include "{name}"\n'
        sizes += (ROOT / name).stat().st_size
    folder = ROOT / "build" / "lint"
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        (folder / f"{number}.cpp").write_text(text)
        yield f"build/lint/{number}.cpp"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="only the format")
    parser.add_argument("--fix", action="store_true", help="let clang-tidy mend what it can")
    args = parser.parse_args()
    began, wrong = time.monotonic(), 0
    sources = tracked("*.cpp", "*.hpp")
    checks = [(["clang-format-19", "--dry-run", "--Werror", *sources], sources)]
    if not args.quick:
        flags = flags_of_files()
        # The units need what any folder needs; two names that meet are no fault of theirs.
        wide = next(words for name, words in flags.items() if name.startswith("daemon/api/")) + ["-Wno-shadow", "-Wno-deprecated-declarations"]
        checks += [(["clang-tidy-19", "-quiet", *(["--fix"] if args.fix else []), "--checks=-bugprone-suspicious-include", unit, "--", *wide], [unit])
                   for unit in units(flags, args.j)]
        checks += [(["clang++-19", *words, "-fsyntax-only", name], [name])
                   for name, words in flags.items() if name.endswith(".cpp") and "build/" not in name]
    CLEAN.mkdir(parents=True, exist_ok=True)
    forget_unused()
    wanted = [(command, digest(command, files)) for command, files in checks]
    due = [(command, known) for command, known in wanted if not passed_before(known)]
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for (command, known), (well, printed) in zip(due, pool.map(run, [command for command, _ in due])):
            if well:
                (CLEAN / known).touch()
            else:
                wrong += 1
                print(printed, file=sys.stderr)
    print(f"checks {len(wanted)} made {len(due)} wrong {wrong} in {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

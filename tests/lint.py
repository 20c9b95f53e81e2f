#!/usr/bin/env python3
"""Holds the sources against clang-format, the compiler and clang-tidy.

1. Every file is formatted as .clang-format says.
2. Every source file compiles by itself: the other builds compile a folder as one unit, and miss a missing
   #include of ours. (Those of other libraries are precompiled.)
3. clang-tidy (.clang-tidy) finds nothing in the product. It spends most of its time in the headers of other libraries, once a unit:
   so the product is put into as many units as there are processors to use.

Usage: lint.py [-j JOBS] [--fix]; needs a configured build/debug with its precompiled headers (make lint).
"""

import argparse
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "debug"
PRODUCT = ("config/", "store/", "transcripts/", "policy/", "daemon/")


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


def run(command):
    """Nothing when all is well, else what was printed."""
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip() or f"{command[0]} ended with {done.returncode}"


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
        yield folder / f"{number}.cpp"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("--fix", action="store_true", help="let clang-tidy mend what it can")
    args = parser.parse_args()
    began, flags, wrong = time.monotonic(), flags_of_files(), 0
    # The units need what any folder needs; two names that meet are no fault of theirs.
    wide = next(words for name, words in flags.items() if name.startswith("daemon/api/")) + ["-Wno-shadow", "-Wno-deprecated-declarations"]
    tidy = [["clang-tidy-19", "-quiet", *(["--fix"] if args.fix else []), "--checks=-bugprone-suspicious-include", str(unit), "--", *wide]
            for unit in units(flags, args.j)]
    alone = [["clang++-19", *words, "-fsyntax-only", name] for name, words in flags.items() if name.endswith(".cpp") and "build/" not in name]
    form = [["clang-format-19", "--dry-run", "--Werror", *tracked("*.cpp", "*.hpp")]]
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for problem in pool.map(run, form + tidy + alone):
            if problem:
                wrong += 1
                print(problem, file=sys.stderr)
    print(f"files compiled alone {len(alone)} units tidied {len(tidy)} wrong {wrong} in {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

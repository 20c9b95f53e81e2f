#!/usr/bin/env python3
"""Holds every #include of the product against CMakeLists.txt: a folder includes only what its sessiond_library line names.

Prints each folder with its arrows. Fails when an include follows no declared arrow, when a declared arrow is not used, or
when an arrow points up: to a folder that is declared further down. Fails too when a file's code is not in the namespace
of its folder, sessiond::<the folder's last name>, or of its own name (log::info). Fails too when a folder takes an agent
from the ledger without its gate.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OF_ALL = {"store/problem.hpp", "store/problem.cpp"}  # Result, Problem, Code, fail: in sessiond itself


def declared():
    """{folder: the folders that it may include}, in the order of CMakeLists.txt."""
    text = re.sub(r"#.*", "", (ROOT / "CMakeLists.txt").read_text())
    found = {line.split()[0]: set(line.split()[1:]) for line in re.findall(r"^sessiond_library\(([^)]*)\)", text, re.M)}
    return {folder: links & set(found) for folder, links in found.items()}


def included(folder):
    """{another folder: one of the includes that lead there, for the message}"""
    arrows = {}
    for file in sorted(p for p in (ROOT / folder).iterdir() if p.suffix in (".cpp", ".hpp", ".in")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            target = re.match(r'#include "([^"]+)/[^/"]+"', line)
            if target and target[1] != folder:
                arrows.setdefault(target[1], f"{file.relative_to(ROOT)}:{number}: {line}")
    return arrows


def misplaced(folder):
    """Files whose code is in a namespace of neither their folder nor their own name."""
    for file in sorted(p for p in (ROOT / folder).iterdir() if p.suffix in (".cpp", ".hpp")):
        name, lines = str(file.relative_to(ROOT)), file.read_text().splitlines()
        opened = {line[10:-2] for line in lines if line.startswith("namespace sessiond")}
        may = {f"sessiond::{own}" for own in (folder.rpartition("/")[2], file.stem)}
        if opened and not opened & ({"sessiond"} if name in OF_ALL else may):
            yield f"{name}: its code is in {', '.join(sorted(opened))}, not in {' or '.join(sorted(may))}"


def shown_past_the_gate(folder):
    """Places outside the ledger that take an agent from it in another way than by show(): its state may not be durable."""
    for file in sorted((ROOT / folder).iterdir()) if folder != "daemon/ledger" else ():
        if file.suffix in (".cpp", ".hpp"):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if re.search(r"parts\(\)\.agents\.", line):
                    yield f"{file.relative_to(ROOT)}:{number}: shows an agent past the gate: {line.strip()}"


def main():
    may, wrong, lower = declared(), [], []
    for folder, allowed in may.items():
        arrows = included(folder)
        print(f"{folder} -> {', '.join(sorted(arrows)) or 'nothing'}")
        wrong += [f"{where}: {folder} may not include {target}: CMakeLists.txt does not link it"
                  for target, where in arrows.items() if target not in allowed]
        wrong += [f"CMakeLists.txt: {folder} links {target} and includes nothing of it" for target in sorted(allowed - set(arrows))]
        wrong += [f"CMakeLists.txt: {folder} links {target}, which is declared below it" for target in sorted(allowed - set(lower))]
        wrong += misplaced(folder)
        wrong += shown_past_the_gate(folder)
        lower.append(folder)
    arrows = sum(len(included(folder)) for folder in may)
    print(f"folders {len(may)} arrows {arrows} wrong {len(wrong)}")
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

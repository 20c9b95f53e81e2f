#!/usr/bin/python3
"""Counts the data members and methods of every class of the product, as clang reads it: at most 20 of each.

Constructors, destructors, operators and defaulted or deleted functions are no methods; static members are no data members. Prints the
three largest classes. Fails when a class has more of either.

Usage: classes.py UNIT... -- FLAG...; tests/lint.py calls it. Needs Debian's python3-clang-19, so Debian's python3.
"""

import sys
from pathlib import Path

from clang.cindex import CursorKind, Index, TranslationUnit

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("config/", "store/", "transcripts/", "policy/", "daemon/")
MOST = 20
ASKED = {"config/syntax.cpp: Handler"}  # boost::json::basic_parser asks for these methods, 22
SCOPES = {CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC}
CLASSES = {CursorKind.CLASS_DECL, CursorKind.STRUCT_DECL, CursorKind.CLASS_TEMPLATE, CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION}
METHODS = {CursorKind.CXX_METHOD, CursorKind.FUNCTION_TEMPLATE}


def of_product(cursor):
    """Where in the repository the cursor is; nothing when it is of another library."""
    file = cursor.location.file
    path = Path(file.name).resolve() if file else ROOT
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
    return f"{name}:{cursor.location.line}" if name.startswith(PRODUCT) else ""


def is_method(cursor, of):
    if cursor.kind not in METHODS or cursor.spelling.startswith("operator") or cursor.spelling.split("<")[0] == of.spelling:
        return False
    return not (cursor.is_default_method() or cursor.is_deleted_method())


def classes(scope, name=""):
    """Yields (data members, methods, name, place) of the classes in a namespace or class, those within them too."""
    for cursor in scope.get_children():
        inner = f"{name}::{cursor.spelling}" if name else cursor.spelling
        if cursor.kind in SCOPES and (name or cursor.spelling == "sessiond"):
            yield from classes(cursor, inner)
        elif cursor.kind in CLASSES and cursor.is_definition() and (place := of_product(cursor)):
            members = list(cursor.get_children())
            yield sum(m.kind == CursorKind.FIELD_DECL for m in members), sum(is_method(m, cursor) for m in members), inner, place
            yield from classes(cursor, inner)


def main():
    at = sys.argv.index("--")
    found, errors = set(), []
    for name in sys.argv[1:at]:
        unit = Index.create().parse(name, args=[*sys.argv[at + 1:], "-w"], options=TranslationUnit.PARSE_SKIP_FUNCTION_BODIES)
        errors += [str(d) for d in unit.diagnostics if d.severity >= d.Error]
        found |= set(classes(unit.cursor))
    found = sorted(found, key=lambda c: (-max(c[:2]), c))
    for data, methods, name, place in found[:3]:
        print(f"{place}: {name} has {data} data members and {methods} methods")
    wrong = [c for c in found if max(c[:2]) > MOST and f"{c[3].split(':')[0]}: {c[2].split('::')[-1]}" not in ASKED]
    print(f"classes {len(found)} over {MOST} {len(wrong)}")
    for data, methods, name, place in wrong:
        print(f"{place}: {name} has {data} data members and {methods} methods; {MOST} are enough", file=sys.stderr)
    sys.exit("\n".join(errors[:5]) if errors or not found else 1 if wrong else 0)


if __name__ == "__main__":
    main()

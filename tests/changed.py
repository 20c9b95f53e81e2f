"""The API tests that concern what has changed since the last tree that passed `make landable`; `make check` runs them.

A folder of the product has a row. A changed module of tests/api is run itself. `make test` runs what is left: tests of the release alone, and
what a change elsewhere in tests/ concerns.
"""

import dataclasses
import subprocess
from pathlib import Path

import includes

ROOT = Path(__file__).resolve().parent.parent
LANDABLE = ROOT / "build" / "landable"
ALWAYS = ["health", "inbound"]
MODULES = {
    "config": ["config_cli", "reload", "limits"],
    "store/blobs": ["blobs"],
    "store/delivery": ["deliveries", "outbound"],
    "store/journal": ["durable", "journal_damage", "events"],
    "store/lock": ["locks", "lent_locks", "foreign"],
    "store/seal": ["encryption"],
    "store/sessions": ["stores", "foreign", "in_place", "sessions"],
    "store": ["idempotency", "files", "durable", "doctor"],
    "transcripts": ["messages", "transcripts", "trees", "lists"],
    "formats": ["export", "import", "portability", "claude_code", "workflow_export"],
    "policy/context": ["context", "compaction_time"],
    "policy/runs": ["run", "approvals", "entry_of_runs"],
    "policy": ["policy", "entry_fields", "retention", "secrets", "message_scan", "snapshots", "times"],
    "daemon/api": ["errors", "http", "openapi", "query", "lists", "sessions", "messages", "mcp", "schemas", "links", "ids", "outside"],
    "daemon/auth": ["auth", "login", "scope_writes", "session_role", "tickets", "token_life"],
    "daemon/backup": ["backup"],
    "daemon/cli": ["commands", "session_commands", "approvals_command", "portability_commands"],
    "daemon/decide": ["sessions", "sdk_sessions", "run", "outbound", "lifecycle", "bridges", "hooks", "guarded", "workspace", "spawn"],
    "daemon/doctor": ["doctor", "damage"],
    "daemon/http": ["http", "limits", "tls"],
    "daemon/leases": ["run", "deliveries", "hooks"],
    "daemon/ledger": ["durable", "degraded", "ephemeral", "idempotency", "session_life", "session_log", "session_streams", "snapshots"],
    "daemon/maintenance": ["retention", "release", "blobs"],
    "daemon/mcp": ["mcp"],
    "daemon/runtime": ["limits"],
    "daemon/search": ["search"],
    "daemon/serve": ["spawn", "reload", "clock"],
    "daemon/stream": ["events", "streams", "stream_crowd"],
    "web": ["openapi", "mcp"],
}


def folder_of(name):
    """The row of a file: its folder, or the nearest one above it."""
    return next((str(parent) for parent in Path(name).parents if str(parent) in MODULES), None)


def changed_files():
    """Since the last landable tree; all files when there is none."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)

    tree = LANDABLE.read_text().strip() if LANDABLE.exists() else ""
    since = git("diff", "--name-only", tree) if tree else None
    if since is None or since.returncode:
        print("no landable tree to compare with: the API tests of all folders run", flush=True)
        return git("ls-files").stdout.splitlines()
    return since.stdout.splitlines() + git("ls-files", "--others", "--exclude-standard").stdout.splitlines()


def modules_of(names):
    found = set(ALWAYS)
    for name in names:
        path = Path(name)
        if path.parts[:2] == ("tests", "api") and path.match("test_*.py"):
            found.add(path.stem.removeprefix("test_"))
        elif folder := folder_of(name):
            found.update(MODULES[folder])
    return found


def api_suite(suite):
    """The suite with the tests of what has changed."""
    if missing := [folder for folder in includes.declared() if not folder_of(f"{folder}/file")]:
        raise SystemExit(f"tests/changed.py has no row for {', '.join(missing)}")
    modules = sorted(modules_of(changed_files()))
    print("API tests of", *modules, flush=True)
    return dataclasses.replace(suite, command=" ".join([suite.command, *(f"-k 'test_{module}*.*.*'" for module in modules)]))

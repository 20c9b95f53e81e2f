"""A daemon whose journal's fdatasync can be held and made to fail, whose wall clock can be put elsewhere, and whose disk is full for
the index of the search (preload/preload.c, built when a test first asks for it)."""

import functools
import mmap
import shutil
import struct
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from harness.sessiond import eventually

SOURCE = Path(__file__).parent / "preload" / "preload.c"
WORDS = ("hold", "waiting", "fail", "wall_ms", "loaded", "full")
_building = threading.Lock()  # classes run side by side
_folder = tempfile.TemporaryDirectory(prefix="sd-preload-")  # gone with this process


@functools.cache
def _built() -> str:
    compiler = next(filter(None, map(shutil.which, ("clang-19", "clang", "cc", "gcc"))), None)
    if compiler is None:
        raise unittest.SkipTest("there is no C compiler")
    out = Path(_folder.name) / "preload.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(out), str(SOURCE)], check=True)
    return str(out)


def library() -> str:
    with _building:
        return _built()


class Page:
    """The words of the shared page, as attributes."""

    def __init__(self, path: Path):
        path.write_bytes(bytes(8 * len(WORDS)))
        with path.open("r+b") as file:
            object.__setattr__(self, "_page", mmap.mmap(file.fileno(), 8 * len(WORDS)))

    def __getattr__(self, name):
        return struct.unpack_from("<q", self._page, 8 * WORDS.index(name))[0]

    def __setattr__(self, name, value):
        struct.pack_into("<q", self._page, 8 * WORDS.index(name), value)

    def wait_held(self):
        eventually(lambda: self.waiting, what="an fdatasync of the journal")


def preload(daemon):
    """Of a daemon that has not been started: from its next start on. `daemon.page` controls it."""
    path = daemon.home / "page"
    daemon.page = Page(path)
    daemon.env.update({"LD_PRELOAD": library(), "SESSIOND_TEST_PAGE": str(path)})
    start = daemon.start

    def start_preloaded(*arguments, **named):
        daemon.page.loaded = 0
        started = start(*arguments, **named)
        assert daemon.page.loaded, "the library was not preloaded"
        return started

    daemon.start = start_preloaded
    return daemon

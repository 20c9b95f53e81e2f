"""A daemon on a disk that can fail: the preloaded library of tests/crash/shim, and the page by which it is told what to do (shim/control.hpp)."""

import mmap
import shutil
import struct
from pathlib import Path

from harness import sessiond
from harness.sessiond import Daemon

WORDS = ("calls", "fault_at", "fault", "lasting", "faults", "cut_at", "seed", "quota", "used")
FAULTS = {"ENOSPC": 1, "EIO": 2, "EINTR": 3, "short": 4}


def library() -> Path:
    return Path(sessiond.binary()).resolve().parent / "tests" / "crash" / "shim" / "libcrash_shim.so"


class Control:
    """The words of the shared page, as attributes."""

    def __init__(self, path: Path):
        path.write_bytes(bytes(8 * len(WORDS)))
        with path.open("r+b") as file:
            object.__setattr__(self, "_page", mmap.mmap(file.fileno(), 8 * len(WORDS)))

    def __getattr__(self, name):
        return struct.unpack_from("<Q", self._page, 8 * WORDS.index(name))[0]

    def __setattr__(self, name, value):
        struct.pack_into("<Q", self._page, 8 * WORDS.index(name), value)

    def mend(self):
        self.fault_at = 0


class ShimmedDaemon(Daemon):
    """`disk` controls it. start(shim=False) starts it on a good disk."""

    def __init__(self, config=None):
        super().__init__(config)
        self.keep = self.home / "keep"
        self.keep.mkdir()
        self.disk = Control(self.home / "control")
        self.trace = self.home / "trace"
        self._preload = {"LD_PRELOAD": str(library()), "CRASH_SHIM_DIR": str(self.state), "CRASH_SHIM_CONTROL": str(self.home / "control"),
                         "CRASH_SHIM_KEEP": str(self.keep), "CRASH_SHIM_TRACE": str(self.trace)}

    def start(self, timeout=30.0, shim=True):
        self.env = {k: v for k, v in self.env.items() if k not in self._preload} | (self._preload if shim else {})
        return super().start(timeout)

    def cli(self, *arguments, env=None, **more):
        return super().cli(*arguments, env={"LD_PRELOAD": "", **(env or {})}, **more)

    def wait_dead(self, timeout=30.0):
        self.process.wait(timeout * sessiond.SLOW)
        self._join()
        self.process = None
        shutil.rmtree(self.keep, ignore_errors=True)  # only names that nobody has any more
        self.keep.mkdir()

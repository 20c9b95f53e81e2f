"""The disk that is measured: which file system it is, and what one fdatasync takes on it."""

import os
import statistics
import time


def file_system(path):
    """(type, mount point) of the file system that holds `path`."""
    path = os.path.realpath(path)
    best = ("unknown", "")
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            mount_point, kind = line.split()[1:3]
            mount_point = mount_point.encode().decode("unicode_escape")
            inside = path == mount_point or path.startswith(mount_point.rstrip("/") + "/")
            if inside and len(mount_point) >= len(best[1]):
                best = (kind, mount_point)
    return best


def fdatasync_ms(directory, rounds=500):
    """Median and 99th percentile of: append 4 KiB, fdatasync."""
    path = os.path.join(directory, "fdatasync.probe")
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        block = b"x" * 4096
        took = []
        for _ in range(rounds):
            os.write(fd, block)
            start = time.perf_counter_ns()
            os.fdatasync(fd)
            took.append((time.perf_counter_ns() - start) / 1e6)
    finally:
        os.close(fd)
        os.unlink(path)
    took.sort()
    return statistics.median(took), took[int(len(took) * 0.99)]

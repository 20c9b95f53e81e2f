"""The suites of `make test` and `make soak`, and the builds that they need; tests/run.py runs them."""

from dataclasses import dataclass

API = "python3 tests/api/run.py -j {classes}"
CRASH = "python3 tests/crash/"
RELEASE = " --binary build/release/sessiond"


@dataclass(frozen=True)
class Build:
    name: str
    preset: str
    targets: str = ""  # of ninja; none: all


@dataclass(frozen=True)
class Suite:
    """A program that exits with 0 when its tests passed, and tells of them as harness/report.py says or not at all."""

    name: str
    command: str           # {jobs}: processors, {classes}: three times as many, {rounds}: of a soak
    needs: tuple = ()      # names of builds
    slow: int = 6          # by which time limits are multiplied: a sanitizer, three other suites beside it
    threads: int = 0       # of the network in each daemon; 0: the default


# In the order in which they are built.
BUILDS = [
    Build("asan", "asan", "sessiond read_requests"),
    Build("release", "release", "sessiond crash_shim"),
    Build("unit", "asan"),
    Build("tsan", "tsan", "sessiond"),
    Build("debug", "debug", "sessiond_precompiled sessiond_precompiled_asio"),
]

# What needs no build.
TIDY = [
    Suite("gate", "python3 tests/test_gate.py"),
    Suite("format", "python3 tests/lint.py --quick"),
    Suite("documents", "python3 tests/documents.py"),
    Suite("includes", "python3 tests/includes.py"),
    Suite("inventory", "python3 tests/seeds/inventory.py"),
]

UNIT = Suite("unit", "python3 tests/unit/run.py --build asan -j {jobs}", ("unit",))
API_ASAN = Suite("api-asan", f"{API} --build asan", ("asan",))

# The first suite whose builds are made begins. The longest of a build stand first.
TEST = [
    *TIDY,
    API_ASAN,
    Suite("edge", "python3 tests/edge/run.py --binary build/asan/sessiond", ("asan",)),
    Suite("points", f"{CRASH}points.py --binary build/asan/sessiond --without build/release/sessiond -j {{jobs}}", ("asan", "release")),
    UNIT,
    Suite("browser", f"python3 tests/browser/run.py{RELEASE}", ("release",)),
    Suite("api-release", f"{API} --build release", ("release",)),
    Suite("two-writers", f"{CRASH}two_writers.py{RELEASE} --updates 60", ("release",)),
    Suite("kill9", f"{CRASH}kill9.py{RELEASE} --rounds 30 --writers 32 --load 0.1", ("release",)),
    Suite("views", f"python3 tests/views/run.py{RELEASE} -j 2", ("release",)),
    Suite("crossings", f"python3 tests/crossings/run.py{RELEASE} --part 1/5 -j 2", ("release",)),
    Suite("search", f"python3 tests/search/run.py{RELEASE} -j 2", ("release",)),
    Suite("cost", "python3 tests/bench/cost.py --tolerance 25", ("release",)),
    Suite("damage", f"{CRASH}damage.py{RELEASE} -j {{jobs}}", ("release",)),
    Suite("loop", f"{CRASH}loop.py{RELEASE} --messages 200 --conversations 16 --kills 12 --runners 4 --bridges 2", ("release",)),
    Suite("faults", f"{CRASH}faults.py{RELEASE} --every 83", ("release",)),
    Suite("faults-write-through", f"{CRASH}faults.py{RELEASE} --write-through --faults EIO --every 53", ("release",)),
    Suite("powercut", f"{CRASH}powercut.py{RELEASE} --rounds 30", ("release",)),
    Suite("kill9-earlier-boot", f"{CRASH}kill9.py{RELEASE} --rounds 15 --writers 16 --load 0.1 --earlier-boot", ("release",)),
    Suite("powercut-earlier-boot", f"{CRASH}powercut.py{RELEASE} --rounds 12 --earlier-boot", ("release",)),
    Suite("two-writers-earlier-boot", f"{CRASH}two_writers.py{RELEASE} --updates 30 -k turns --earlier-boot", ("release",)),
    Suite("hostile", f"python3 tests/edge/hostile.py{RELEASE} --slice", ("release",)),
    Suite("full-disk", f"{CRASH}full_disk.py{RELEASE} --mib 24", ("release",)),
    Suite("flood", f"python3 tests/edge/flood.py{RELEASE} --slice --connections 500", ("release",)),
]

# Tests in which threads meet: `make tsan`.
TSAN = Suite("api-tsan", f"{API} --build tsan", ("tsan",), threads=3)

# All API tests of the release and under the thread sanitizer, the whole of lint, and the slices of `make test` whole. One after another.
SOAK = [
    Suite("lint", "python3 tests/lint.py -j {jobs}", ("debug",)),
    Suite("api-release-all", API + RELEASE, ("release",)),
    Suite("api-tsan-all", f"{API} --binary build/tsan/sessiond", ("tsan",), threads=3),
    Suite("crossings-whole", f"python3 tests/crossings/run.py{RELEASE} -j {{jobs}}", ("release",)),
    Suite("search-whole", f"python3 tests/search/run.py{RELEASE} --stores 1000 --kills 50 -j {{jobs}}", ("release",)),
    Suite("decide-lives", "env SESSIOND_TEST_LIVES=25 build/asan/tests/unit_daemon_decide", ("unit",)),
    Suite("kill9-whole", f"{CRASH}kill9.py{RELEASE} --rounds {{rounds}}", ("release",), 1),
    Suite("loop-whole", f"{CRASH}loop.py{RELEASE}", ("release",), 1),
    Suite("powercut-whole", f"{CRASH}powercut.py{RELEASE} --rounds {{rounds}}", ("release",), 1),
    Suite("kill9-earlier-boot-whole", f"{CRASH}kill9.py{RELEASE} --rounds {{rounds}} --earlier-boot", ("release",), 1),
    Suite("powercut-earlier-boot-whole", f"{CRASH}powercut.py{RELEASE} --rounds {{rounds}} --earlier-boot", ("release",), 1),
    Suite("faults-whole", f"{CRASH}faults.py{RELEASE}", ("release",), 1),
    Suite("full-disk-whole", f"{CRASH}full_disk.py{RELEASE}", ("release",), 1),
    Suite("two-writers-whole", f"{CRASH}two_writers.py{RELEASE} --updates 10000", ("release",), 1),
    Suite("two-writers-stopped", f"{CRASH}two_writers.py{RELEASE} -k 'daemon is stopped' --stale-ms 30000 --stop-seconds 10 --stops 1", ("release",), 1),
]

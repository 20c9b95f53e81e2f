#include "store/lock/lock.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <thread>
#include <utility>

#include "store/json/raw_json.hpp"
#include "store/lock/lock_file.hpp"
#include "store/process.hpp"
#include "tests/unit/store/child.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::lock;
using namespace std::chrono_literals;
using sessiond::testing::Child;
using sessiond::testing::Signal;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

constexpr LockOptions quick{.timeout = 60ms, .poll_interval = 2ms, .stale = 1h};
constexpr LockOptions patient{.timeout = 60s, .poll_interval = 1ms, .stale = 1h};

struct Place {
  TempDir dir;
  fs::path target = dir / "sessions.json";
  fs::path lock = dir / "sessions.json.lock";
  std::vector<Eviction> evictions{};

  void foreign_lock(std::string_view payload) const { std::ofstream(lock) << payload; }
  auto acquire(const LockOptions& options) { return FileLock::acquire(target, options, evictions); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()));
  }
};

// Makes link(2) fail in this process as on a file system that has no hard links.
bool without_hard_links() {
  const auto refuse = [](std::uint32_t call) {
    return std::array{sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)};
  };
  const auto at = refuse(SYS_linkat);
#ifdef SYS_link
  const auto plain = refuse(SYS_link);
#else
  const auto plain = at;
#endif
  std::array filter{sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                    at[0],
                    at[1],
                    plain[0],
                    plain[1],
                    sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

pid_t dead_pid() {
  Child child([] { return 0; });
  const pid_t pid = child.pid();
  child.wait();
  return pid;
}

}  // namespace

TEST_CASE("the lock appears with its payload and goes with its holder") {
  Place place;
  {
    auto lock = place.acquire(quick);
    REQUIRE(lock);
    const auto text = store::read_file(place.lock);
    REQUIRE(text);
    REQUIRE(json::check(*text));
    CHECK(json::int_at(*text, "pid") == ::getpid());
    CHECK(json::string_at(*text, "host") == store::host_identity());
    CHECK(json::int_at(*text, "starttime") == static_cast<std::int64_t>(store::process_status(::getpid()).starttime));
    CHECK(json::string_at(*text, "createdAt")->size() == 24);
    CHECK(json::string_at(*text, "createdAt")->back() == 'Z');
    CHECK(*json::int_at(*text, "startedAt") > 1'700'000'000'000);
    CHECK(json::string_at(*text, "token")->size() == 32);
    struct stat status{};
    REQUIRE(::stat(place.lock.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
    CHECK(place.files() == 1);  // no temp name is left
    const auto holder = lock_holder(place.target);
    REQUIRE(holder);
    CHECK(holder->pid == ::getpid());
    CHECK_FALSE(holder->stale);
  }
  CHECK(place.files() == 0);
  CHECK_FALSE(lock_holder(place.target));
}

TEST_CASE("a live holder is waited for until the timeout, which names it") {
  Place place;
  SUBCASE("another process of ours") {
    const Signal held;
    Child child([&] {
      std::vector<Eviction> none;
      const auto lock = FileLock::acquire(place.target, patient, none);
      held.give();
      ::pause();
      return 0;
    });
    held.await();
    const auto lock = place.acquire(quick);
    REQUIRE_FALSE(lock);
    CHECK(lock.error().code == Code::lock_timeout);
    CHECK(lock.error().retry_after_s);
    CHECK(lock.error().detail.contains(std::to_string(child.pid())));
  }
  SUBCASE("a program that writes no host") {
    place.foreign_lock(fmt::format(R"({{"pid":{},"startedAt":1}})", ::getpid()));
    CHECK(place.acquire(quick).error().code == Code::lock_timeout);
  }
  SUBCASE("a starttime without a host may be of another boot") {
    place.foreign_lock(fmt::format(R"({{"pid":{},"createdAt":"2026-11-21T22:00:00.000Z","starttime":1}})", ::getpid()));
    CHECK(place.acquire(quick).error().code == Code::lock_timeout);
  }
  SUBCASE("ourselves, in another place of the program") {
    const auto first = place.acquire(quick);
    REQUIRE(first);
    CHECK(place.acquire(quick).error().code == Code::lock_timeout);
  }
  SUBCASE("a dead pid of another host") {
    place.foreign_lock(fmt::format(R"({{"pid":{},"host":"elsewhere:1","token":"t"}})", dead_pid()));
    CHECK(place.acquire(quick).error().code == Code::lock_timeout);
  }
  SUBCASE("payloads that say nothing") {
    for (const std::string_view payload :
         {"", "garbage", "4711", "\"4711\"", "null", "{}", "[]", "   ", "{\"pid\":", R"({"pid":0})", R"({"pid":"x"})",
          R"({"pid":-5})", R"({"startedAt":1})", R"({"pid":99999999999999999999})"}) {
      CAPTURE(payload);
      place.foreign_lock(payload);
      CHECK(place.acquire({.timeout = 5ms, .poll_interval = 1ms, .stale = 1h}).error().code == Code::lock_timeout);
    }
  }
  SUBCASE("an old one: wall clocks evict nobody") {
    place.foreign_lock(fmt::format(R"({{"pid":{},"createdAt":"2001-01-01T00:00:00.000Z","startedAt":1}})", ::getpid()));
    const std::array<timespec, 2> past{timespec{1, 0}, timespec{1, 0}};
    REQUIRE(::utimensat(AT_FDCWD, place.lock.c_str(), past.data(), 0) == 0);
    CHECK(place.acquire(quick).error().code == Code::lock_timeout);
    const auto holder = lock_holder(place.target);
    REQUIRE(holder);
    CHECK(holder->age_ms > 1'000'000'000'000);
    CHECK_FALSE(holder->stale);
  }
  CHECK(place.evictions.empty());
}

TEST_CASE("a holder that is provably gone is evicted at once") {
  Place place;
  std::string payload;
  std::string reason;
  std::optional<Child> zombie;
  SUBCASE("dead, same host") {
    const pid_t pid = dead_pid();
    payload = fmt::format(R"({{"pid":{},"host":"{}","token":"t"}})", pid, store::host_identity());
    reason = fmt::format("holder {} is dead", pid);
  }
  SUBCASE("dead, a program that writes no host") {
    const pid_t pid = dead_pid();
    payload = fmt::format(R"({{"pid":{},"createdAt":"2026-11-21T22:00:00.000Z"}})", pid);
    reason = fmt::format("holder {} is dead", pid);
  }
  SUBCASE("dead, as OpenClaw 2026.1 writes it") {
    const pid_t pid = dead_pid();
    payload = fmt::format(R"({{"pid":{},"startedAt":1700000000000}})", pid);
    reason = fmt::format("holder {} is dead", pid);
  }
  SUBCASE("dead, as OpenClaw 2026.4 writes it") {
    const pid_t pid = dead_pid();
    payload =
        fmt::format("{{\n  \"pid\": {},\n  \"createdAt\": \"2026-11-21T22:00:00.000Z\",\n  \"starttime\": 77\n}}", pid);
    reason = fmt::format("holder {} is dead", pid);
  }
  SUBCASE("a zombie") {
    zombie.emplace([] {
      ::pause();
      return 0;
    });
    zombie->kill();
    payload = fmt::format(R"({{"pid":{},"host":"{}"}})", zombie->pid(), store::host_identity());
    reason = fmt::format("holder {} is dead", zombie->pid());
  }
  SUBCASE("its pid is another's now") {
    payload = fmt::format(R"({{"pid":{},"starttime":1,"host":"{}"}})", ::getpid(), store::host_identity());
    reason = fmt::format("pid {} was given to another process", ::getpid());
  }
  place.foreign_lock(payload);
  CHECK(lock_holder(place.target)->stale);
  const auto lock = place.acquire(quick);
  REQUIRE(lock);
  REQUIRE(place.evictions.size() == 1);
  CHECK(place.evictions[0].reason == reason);
  CHECK(place.evictions[0].holder == payload);
  CHECK(place.evictions[0].path == fs::canonical(place.lock));
  CHECK(place.files() == 1);
}

TEST_CASE("a killed holder is evicted at once") {
  Place place;
  const Signal held;
  Child child([&] {
    std::vector<Eviction> none;
    const auto lock = FileLock::acquire(place.target, patient, none);
    held.give();
    ::pause();
    return 0;
  });
  held.await();
  child.kill();
  child.wait();
  REQUIRE(place.acquire(quick));
  CHECK(place.evictions.size() == 1);
}

TEST_CASE("names that the dead left beside a lock go, also those without a payload; those of the living stay") {
  Place place;
  Child dead([] { return 0; });
  dead.kill();
  const auto beside = [&](pid_t pid, std::string_view payload) {
    const fs::path name = fmt::format("{}.{}.0123456789ab", place.lock.native(), pid);
    std::ofstream(name) << payload;
    return name;
  };
  const fs::path begun = beside(::getpid(), R"({"pid":)");
  for (const std::string_view payload : {"", R"({"pid":)", "null"}) {
    const fs::path left = beside(dead.pid(), payload);
    remove_left_lock_names(place.target.parent_path());
    CHECK_FALSE(fs::exists(left));
  }
  const fs::path no_pid = place.lock.native() + ".backup";
  std::ofstream(no_pid).flush();
  remove_left_lock_names(place.target.parent_path());
  CHECK(fs::exists(begun));
  CHECK(fs::exists(no_pid));
  CHECK(place.files() == 2);
}

namespace {

// The host of the same machine before it was started the last time; `machine` false: as 0.1.0 wrote it.
std::string host_of_earlier_boot(bool machine) {
  const std::string& ours = store::host_identity();
  const std::string boot = "01234567-89ab-cdef-0123-456789abcdef";
  return machine ? ours.substr(0, ours.find(':') + 1) + boot + ":4026531836" : boot + ":4026531836";
}

}  // namespace

TEST_CASE("a lock of an earlier boot of this machine is evicted at once") {
  Place place;
  std::string host;
  SUBCASE("with the machine id") { host = host_of_earlier_boot(true); }
  SUBCASE("without one, on a local disk") { host = host_of_earlier_boot(false); }
  // Its pid lives: it is another process's by now.
  place.foreign_lock(fmt::format(R"({{"pid":{},"host":"{}","token":"t"}})", ::getpid(), host));
  CHECK(lock_holder(place.target)->stale);
  REQUIRE(place.acquire(quick));
  REQUIRE(place.evictions.size() == 1);
  CHECK(place.evictions[0].reason == "its holder ended with an earlier boot of this machine");
  CHECK_FALSE(place.evictions[0].presumed);
}

TEST_CASE("a lock of another machine is kept, whatever its boot") {
  CHECK(store::where_ran(store::host_identity(), false) == store::Host::here);
  CHECK(store::where_ran(host_of_earlier_boot(true), false) ==
        (store::host_identity().starts_with("-:") ? store::Host::elsewhere : store::Host::earlier_boot));
  CHECK(store::where_ran(host_of_earlier_boot(false), false) ==
        store::Host::elsewhere);  // a disk that others write too
  CHECK(store::where_ran(host_of_earlier_boot(false), true) == store::Host::earlier_boot);
  CHECK(store::where_ran("fedcba98fedcba98fedcba98fedcba98:01234567-89ab-cdef-0123-456789abcdef:1", true) ==
        (store::host_identity().starts_with("-:") ? store::Host::earlier_boot : store::Host::elsewhere));
  CHECK(store::where_ran(store::host_identity() + "1", true) == store::Host::elsewhere);  // another pid namespace
  CHECK(store::where_ran("elsewhere:1", true) == store::Host::elsewhere);
  CHECK(store::where_ran("", true) == store::Host::elsewhere);
}

TEST_CASE("what does not say where it was written is judged by this boot's beginning") {
  TempDir dir;
  const auto seen_with = [&](std::string_view payload, std::int64_t ctime_ns) {
    std::ofstream(dir / "x.lock") << payload;
    auto seen = look_at_lock(dir / "x.lock");
    REQUIRE(seen);
    REQUIRE(*seen);
    (*seen)->id.ctime_ns = ctime_ns;
    return provably_gone(**seen);
  };
  const std::int64_t boot = store::boot_time_ns();
  const std::int64_t hour = 3'600'000'000'000;
  const std::string foreign = fmt::format(R"({{"pid":{},"createdAt":"2026-11-21T22:00:00.000Z"}})", ::getpid());
  for (const std::string& payload : {std::string(), std::string("{\"pid\":"), foreign}) {
    CAPTURE(payload);
    CHECK(seen_with(payload, boot - hour));
    CHECK_FALSE(seen_with(payload, boot));
    CHECK_FALSE(seen_with(payload, boot + 1));
  }
  // A payload that tells needs no clock.
  CHECK_FALSE(seen_with(fmt::format(R"({{"pid":{},"host":"{}"}})", ::getpid(), store::host_identity()), boot - hour));
}

TEST_CASE("an empty lock has lost its maker after seconds, not after `stale`") {
  Place place;
  place.foreign_lock("");
  const LockOptions options{.timeout = 60s, .poll_interval = 10ms, .stale = 1h};
  REQUIRE(place.acquire(options));
  REQUIRE(place.evictions.size() == 1);
  CHECK(place.evictions[0].reason == "empty for 5000 ms");
  CHECK(place.evictions[0].presumed);
}

TEST_CASE("lock names that kills left beside transcripts are swept with those of the store") {
  TempDir dir;
  const pid_t dead = dead_pid();
  const auto make = [&](std::string_view target, pid_t pid, std::string_view payload) {
    const fs::path name = dir / fmt::format("{}.lock.{}.0123456789abcdef01234567", target, pid);
    std::ofstream(name) << payload;
    return name;
  };
  const auto of_dead = fmt::format(R"({{"pid":{},"host":"{}"}})", dead, store::host_identity());
  const auto of_boot = fmt::format(R"({{"pid":{},"host":"{}"}})", ::getpid(), host_of_earlier_boot(true));
  const std::array left{make("a.jsonl", dead, of_dead), make("a-topic-1.jsonl", dead, ""),
                        make("b.jsonl", ::getpid(), of_boot), make("sessions.json", dead, of_dead)};
  const std::array kept{make("c.jsonl", ::getpid(), ""), make("notes.txt", dead, of_dead), dir / "a.jsonl"};
  std::ofstream(kept.back()) << "line";
  remove_left_lock_names(dir.path());
  for (const fs::path& name : left) CHECK_FALSE(fs::exists(name));
  for (const fs::path& name : kept) CHECK(fs::exists(name));
}

TEST_CASE("a lock that we see unchanged for long enough is evicted, however many calls that takes") {
  Place place;
  place.foreign_lock("");
  CHECK(place.acquire(quick).error().code == Code::lock_timeout);
  const LockOptions options{.timeout = 10ms, .poll_interval = 1ms, .stale = 100ms};
  Result<FileLock> lock = fail(Code::internal, "");
  for (int turn = 0; turn < 1000 && !lock; ++turn) lock = place.acquire(options);
  REQUIRE(lock);
  REQUIRE(place.evictions.size() == 1);
  CHECK(place.evictions[0].reason == "empty for 100 ms");
  CHECK(place.evictions[0].holder.empty());
}

TEST_CASE("a lock that changes hands all the time is never stale") {
  Place place;
  const LockOptions options{.timeout = 300ms, .poll_interval = 1ms, .stale = 150ms};
  std::atomic<bool> stop = false;
  place.foreign_lock("0");
  auto longest = std::chrono::steady_clock::duration::zero();
  std::thread others([&] {
    auto last = std::chrono::steady_clock::now();
    for (int turn = 1; !stop; ++turn) {
      std::ofstream(place.dir / "next") << turn;
      fs::rename(place.dir / "next", place.lock);
      const auto now = std::chrono::steady_clock::now();
      longest = std::max(longest, now - std::exchange(last, now));
      std::this_thread::sleep_for(5ms);
    }
  });
  const bool taken = place.acquire(options).has_value();
  stop = true;
  others.join();
  // On a machine so busy that the others stood still for as long, it was stale.
  if (longest < options.stale / 2) {
    CHECK_FALSE(taken);
    CHECK(place.evictions.empty());
  }
}

TEST_CASE("release leaves a lock alone that is not ours any more") {
  Place place;
  auto lock = place.acquire(quick);
  REQUIRE(lock);
  SUBCASE("evicted and taken") {
    fs::remove(place.lock);
    place.foreign_lock("theirs");
    lock->release();
    CHECK(*store::read_file(place.lock) == "theirs");
    CHECK(place.files() == 1);
  }
  SUBCASE("replaced by a rename") {
    REQUIRE(store::replace_file(place.lock, "theirs"));
    lock->release();
    CHECK(*store::read_file(place.lock) == "theirs");
  }
  SUBCASE("evicted and free") {
    fs::remove(place.lock);
    lock->release();
    CHECK(place.files() == 0);
  }
}

TEST_CASE("an admin evicts whoever holds it, but not this process and not nobody") {
  Place place;
  CHECK_FALSE(*evict_lock(place.target, "admin"));
  const std::string payload = fmt::format(R"({{"pid":{},"createdAt":"2026-11-21T22:00:00.000Z"}})", ::getppid());
  place.foreign_lock(payload);
  const auto evicted = evict_lock(place.target, "admin");
  REQUIRE(evicted);
  REQUIRE(*evicted);
  CHECK((*evicted)->reason == "admin");
  CHECK((*evicted)->holder == payload);
  CHECK(place.files() == 0);
  const auto report = lock_report(place.target);
  CHECK(report.path == fs::canonical(place.dir.path()) / "sessions.json.lock");
  CHECK_FALSE(report.holder);
  REQUIRE(report.last_eviction);
  CHECK(report.last_eviction->eviction.holder == payload);

  const auto ours = place.acquire(quick);
  REQUIRE(ours);
  CHECK(lock_report(place.target).holder->ours);
  CHECK(evict_lock(place.target, "admin").error().code == Code::session_busy);
  CHECK(fs::exists(place.lock));
}

TEST_CASE("one try takes what is free and does not wait for what is not") {
  Place place;
  const LockOptions options{.timeout = 0ms, .poll_interval = 1h, .stale = 1h};
  place.foreign_lock("x");
  CHECK(place.acquire(options).error().code == Code::lock_timeout);
  CHECK(lock_is_free(place.target, options, place.evictions).error().code == Code::lock_timeout);
  const auto waiting = lock_report(place.target).wait;
  REQUIRE(waiting);
  CHECK(waiting->attempts == 2);
  CHECK(waiting->since_ms > 1'700'000'000'000);
  CHECK(waiting->evict_in_ms > 3'000'000);
  fs::remove(place.lock);
  CHECK(lock_is_free(place.target, options, place.evictions));
  CHECK_FALSE(lock_report(place.target).wait);
  place.foreign_lock(fmt::format(R"({{"pid":{}}})", dead_pid()));
  CHECK(place.acquire(options));
  CHECK(place.evictions.size() == 1);
}

TEST_CASE("a lock that we may not read is waited for and stale like any other") {
  Place place;
  place.foreign_lock("secret");
  fs::permissions(place.lock, fs::perms::none);
  fs::permissions(place.dir.path(), fs::perms::all);
  Child nobody([&] {
    if (::getuid() == 0 && ::setuid(65534) != 0) return 1;
    std::vector<Eviction> evictions;
    if (FileLock::acquire(place.target, quick, evictions).error().code != Code::lock_timeout) return 2;
    const auto lock = FileLock::acquire(place.target, {.timeout = 60s, .poll_interval = 1ms, .stale = 80ms}, evictions);
    if (!lock) return 3;
    return evictions.size() == 1 && evictions[0].holder.empty() ? 0 : 4;
  });
  CHECK(nobody.wait() == 0);
}

TEST_CASE("where there are no hard links the lock still appears whole, and is evicted and released") {
  Place place;
  place.foreign_lock(fmt::format(R"({{"pid":{}}})", dead_pid()));
  Child child([&] {
    if (!without_hard_links()) return 1;
    std::vector<Eviction> evictions;
    auto lock = FileLock::acquire(place.target, quick, evictions);
    if (!lock || evictions.size() != 1) return 2;
    if (json::int_at(*store::read_file(place.lock), "pid") != ::getpid() || place.files() != 1) return 3;
    if (FileLock::acquire(place.target, quick, evictions)) return 4;
    lock->release();
    return place.files() == 0 ? 0 : 5;
  });
  CHECK(child.wait() == 0);
}

TEST_CASE("moving a lock moves the duty to release") {
  Place place;
  Place other;
  auto first = place.acquire(quick);
  REQUIRE(first);
  auto second = other.acquire(quick);
  REQUIRE(second);
  *first = std::move(*second);
  CHECK(place.files() == 0);
  CHECK(other.files() == 1);
  first->release();
  CHECK(other.files() == 0);
}

TEST_CASE("a directory that is a symbolic link has one lock") {
  Place place;
  const TempDir links;
  fs::create_directory_symlink(place.dir.path(), links / "alias");
  auto lock = FileLock::acquire(links / "alias" / "sessions.json", quick, place.evictions);
  REQUIRE(lock);
  CHECK(fs::exists(place.lock));
  CHECK(place.acquire(quick).error().code == Code::lock_timeout);
}

TEST_CASE("waiting ends when it is cancelled") {
  Place place;
  place.foreign_lock("x");
  const std::atomic<bool> cancel = true;
  const auto lock = FileLock::acquire(place.target, patient, place.evictions, &cancel);
  REQUIRE_FALSE(lock);
  CHECK(lock.error().code == Code::draining);
}

TEST_CASE("what cannot be a lock is a problem, not a wait") {
  Place place;
  fs::create_directory(place.lock);
  CHECK(place.acquire(patient).error().code == Code::internal);
  CHECK_FALSE(FileLock::acquire(place.dir / "none" / "sessions.json", patient, place.evictions));
}

TEST_CASE("processes that count under the lock lose nothing, though holders die") {
  Place place;
  const fs::path counter = place.dir / "counter";
  constexpr int each = 40;
  constexpr int lives = 4;
  const auto count_and_die = [&] {
    std::vector<Eviction> none;
    for (int turn = 0;; ++turn) {
      auto lock = FileLock::acquire(place.target, patient, none);
      if (!lock) ::_exit(1);
      int value = 0;
      std::ifstream(counter) >> value;
      std::ofstream(counter) << value + 1;
      if (turn + 1 == each) ::kill(::getpid(), SIGKILL);
    }
  };
  const auto live_again_and_again = [&] {
    for (int life = 0; life < lives; ++life) {
      const pid_t pid = ::fork();
      if (pid == 0) count_and_die();
      int status = 0;
      ::waitpid(pid, &status, 0);
      if (!WIFSIGNALED(status)) return 1;
    }
    return 0;
  };
  Child first(live_again_and_again);
  Child second(live_again_and_again);
  Child third(live_again_and_again);
  CHECK(first.wait() == 0);
  CHECK(second.wait() == 0);
  CHECK(third.wait() == 0);
  int value = 0;
  std::ifstream(counter) >> value;
  CHECK(value == 3 * lives * each);
}

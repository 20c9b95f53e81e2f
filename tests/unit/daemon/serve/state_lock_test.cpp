#include "daemon/serve/state_lock.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/doctor/state_owner.hpp"
#include "tests/unit/store/child.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::serve;
using sessiond::testing::Child;
using sessiond::testing::Signal;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

mode_t mode_of(const fs::path& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("the lock makes no directory, signs itself and is let go") {
  TempDir dir;
  const fs::path state = dir / "a/b";
  CHECK_FALSE(StateLock::acquire(state, "serve"));
  CHECK_FALSE(fs::exists(dir / "a"));
  REQUIRE(store::make_dirs(state));
  {
    const auto lock = StateLock::acquire(state, "serve");
    REQUIRE(lock);
    CHECK(mode_of(state) == 0700);
    CHECK(mode_of(state / "sessiond.lock") == 0600);
    const auto owner = doctor::state_owner(state);
    REQUIRE(owner);
    REQUIRE(*owner);
    CHECK((*owner)->pid == ::getpid());
    CHECK((*owner)->state() == doctor::StateOwner::State::alive);
    // Another open of the same file is another holder, also in one process.
    const auto second = StateLock::acquire(state, "serve");
    REQUIRE_FALSE(second);
    CHECK(second.error().code == Code::degraded);
    CHECK(second.error().detail == "state directory " + state.native() + " is in use by pid " +
                                       std::to_string(::getpid()) + " (sessiond serve)");
  }
  CHECK(StateLock::acquire(state, "serve"));
}

TEST_CASE("another process's lock names its pid and ends with it, however it ends") {
  TempDir dir;
  Signal taken;
  Child holder([&] {
    const auto lock = StateLock::acquire(dir.path(), "serve");
    taken.give();
    if (!lock) return 1;
    for (;;) ::pause();
  });
  taken.await();
  const auto refused = StateLock::acquire(dir.path(), "serve");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail.ends_with("is in use by pid " + std::to_string(holder.pid()) + " (sessiond serve)"));
  CHECK(doctor::state_owner(dir.path()).value()->state() == doctor::StateOwner::State::alive);

  holder.kill();
  CHECK(doctor::state_owner(dir.path()).value()->state() == doctor::StateOwner::State::gone);
  const auto lock = StateLock::acquire(dir.path(), "serve");
  REQUIRE(lock);
  CHECK(doctor::state_owner(dir.path()).value()->pid == ::getpid());
}

TEST_CASE("a lock file that somebody removed excludes nobody, and the next has one of its own") {
  TempDir dir;
  const auto first = StateLock::acquire(dir.path(), "serve");
  REQUIRE(first);
  fs::remove(dir / "sessiond.lock");
  const auto second = StateLock::acquire(dir.path(), "serve");
  REQUIRE(second);
  CHECK_FALSE(StateLock::acquire(dir.path(), "serve"));
}

TEST_CASE("whatever stands in the file, it is taken and written anew") {
  TempDir dir;
  for (const std::string_view text : {"", "4711\n", "{\"pid\":", "[]", "{\"pid\":\"x\"}"}) {
    std::ofstream(dir / "sessiond.lock") << text;
    CHECK_FALSE(doctor::state_owner(dir.path()).value());
    REQUIRE(StateLock::acquire(dir.path(), "serve"));
    CHECK(doctor::state_owner(dir.path()).value()->pid == ::getpid());
  }
}

TEST_CASE("a symbolic link in its place is not followed") {
  TempDir dir;
  std::ofstream(dir / "elsewhere") << "precious";
  fs::create_symlink(dir / "elsewhere", dir / "sessiond.lock");
  CHECK_FALSE(StateLock::acquire(dir.path(), "serve"));
  CHECK(fs::file_size(dir / "elsewhere") == 8);
}

TEST_CASE("a pid that was given to another process, or that is another host's, is not the owner") {
  doctor::StateOwner owner = doctor::this_process(0);
  CHECK(owner.state() == doctor::StateOwner::State::alive);
  ++owner.starttime;
  CHECK(owner.state() == doctor::StateOwner::State::gone);
  owner.host = "another";
  CHECK(owner.state() == doctor::StateOwner::State::elsewhere);
}

TEST_CASE("a daemon waits for a command that is none, and is told who that is; for another daemon it does not") {
  TempDir dir;
  std::vector<std::string> waited;
  std::optional<StateLock> held;
  {
    auto backup = StateLock::acquire(dir.path(), "backup");
    REQUIRE(backup);
    held.emplace(std::move(*backup));
  }
  // Whoever is told lets go: so the wait ends.
  const auto lock = StateLock::acquire_for_daemon(dir.path(), [&](const std::string& holder) {
    waited.push_back(holder);
    held.reset();
  });
  REQUIRE(lock);
  REQUIRE(waited.size() == 1);
  CHECK(waited[0] == "pid " + std::to_string(::getpid()) + " (sessiond backup)");
  CHECK(doctor::state_owner(dir.path()).value()->command == "serve");
  const auto second =
      StateLock::acquire_for_daemon(dir.path(), [&](const std::string& holder) { waited.push_back(holder); });
  REQUIRE_FALSE(second);
  CHECK(second.error().code == Code::degraded);
  CHECK(waited.size() == 1);
}

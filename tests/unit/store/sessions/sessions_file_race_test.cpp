// Several writers at once: those that take the lock and those that do not.
#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <random>

#include "tests/unit/store/child.hpp"
#include "tests/unit/store/sessions/model_daemon.hpp"
#include "tests/unit/store/sessions/store_fixture.hpp"
#include "tests/unit/store/stepped_child.hpp"

using namespace sessiond;
using namespace sessiond::sessions;
using namespace sessiond::testing;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view theirs = R"({"a":{"n":1,"their":1,"updatedAt":3},"t":{"n":9}})";

bool has_everything(const StoreFixture& at) {
  std::vector<std::string> oddities;
  const auto entries = parse_store(at.text(), oddities);
  if (!entries || entries->size() != 3) return false;
  for (const NamedEntry& one : *entries) {
    if (one.key == "a" && !(json::int_at(*one.entry, "ours") == 1 && json::int_at(*one.entry, "their") == 1))
      return false;
    if (one.key == "b" && json::int_at(*one.entry, "n") != 2) return false;
    if (one.key == "t" && json::int_at(*one.entry, "n") != 9) return false;
  }
  return true;
}

// Returns when a file written now has another mtime than the store, in ms: else a checkpoint makes two system calls
// more to move it, and the n-th call of one child is not the n-th of the next.
void await_next_millisecond(const StoreFixture& at) {
  const auto ms = [](const fs::path& path) {
    return std::chrono::floor<std::chrono::milliseconds>(fs::last_write_time(path));
  };
  const fs::path probe = at.dir / "probe";
  do {
    std::ofstream(probe) << "x";
  } while (ms(probe) == ms(at.path));
  fs::remove(probe);
}

void begin(const StoreFixture& at) {
  SessionsFile file(at.options());
  loaded(file);
  checkpointed(file, {named("a", R"({"n":0})")});
  checkpointed(file, {named("a", R"({"n":1,"updatedAt":1})")});
  await_next_millisecond(at);
}

bool write_ours(ModelDaemon& daemon) {
  daemon.set("a", json::apply(daemon.at("a"), {.set = {{"ours", "1"}, {"updatedAt", "2"}}}));
  daemon.set("b", R"({"n":2})");
  return daemon.settle();
}

}  // namespace

TEST_CASE(
    "a program that ignores the lock replaces the store before any system call of ours: nothing is lost, though we are "
    "killed") {
  const auto work = [](const StoreFixture& at) {
    ModelDaemon daemon(at.options());
    if (!daemon.load()) return 1;
    if (!write_ours(daemon)) return 2;
    return daemon.came_out() ? 10 : 0;
  };
  std::vector<int> raced;  // stops between our look and our exchange
  int replaced = 0;
  for (int stop = 1;; ++stop) {
    StoreFixture at(TempDir::On::memory);
    begin(at);
    SteppedChild child([&] { return work(at); });
    // Once ours is in the store, a program that has not read it since would be at fault itself.
    if (!child.advance(stop) || at.text().contains("ours")) break;
    at.replace(theirs);
    ++replaced;
    CAPTURE(stop);
    const int status = child.finish();
    CHECK((status == 0 || status == 10));
    if (status == 10) raced.push_back(stop);
    CHECK(has_everything(at));
    CHECK(at.names(at.sessions) == std::set<std::string>{"sessions.json"});
  }
  CHECK(replaced > 20);
  REQUIRE_FALSE(raced.empty());

  // Killed at any place after such an exchange, the next start finds what came out.
  bool ended = false;
  for (int more = 1; !ended; ++more) {
    StoreFixture at(TempDir::On::memory);
    begin(at);
    SteppedChild child([&] { return work(at); });
    REQUIRE(child.advance(raced.front()));
    at.replace(theirs);
    ended = !child.advance(more);
    if (!ended) child.kill();
    CAPTURE(more);
    ModelDaemon after(at.options());
    REQUIRE(after.load());
    REQUIRE(write_ours(after));
    CHECK(has_everything(at));
  }
}

TEST_CASE("another program's version that could not be read when it came out is not lost") {
  const auto work = [](const StoreFixture& at) {
    SessionsFile file(at.options());
    if (!file.load()) return 1;
    bool came_out = false;
    bool merged = false;
    for (int turn = 0; turn < 4; ++turn) {
      const auto written = file.checkpoint({named("b", R"({"n":2})")});
      if (written && written->foreign) merged = merged || keys(written->foreign->created) == "t ";
      if (written) continue;
      // It can be read again.
      for (const std::string& name : at.names(at.sessions)) {
        if (!fs::is_symlink(at.sessions / name)) continue;
        came_out = came_out || name != "sessions.json";
        fs::remove(at.sessions / name);
        std::ofstream(at.sessions / name) << theirs;
      }
    }
    return came_out ? (merged ? 10 : 11) : 0;
  };
  int came_out = 0;
  for (int stop = 1;; ++stop) {
    StoreFixture at(TempDir::On::memory);
    begin(at);
    SteppedChild child([&] { return work(at); });
    if (!child.advance(stop) || at.text().contains("\"b\"")) break;
    fs::create_symlink(at.dir / "elsewhere", at.dir / "link");
    fs::rename(at.dir / "link", at.path);
    CAPTURE(stop);
    const int status = child.finish();
    CHECK((status == 0 || status == 1 || status == 10));
    came_out += status == 10;
  }
  CHECK(came_out > 0);
}

TEST_CASE("writers that follow the protocol lose nothing, on the same entries and on their own") {
  for (const bool exchange : {true, false}) {
    StoreFixture at;
    at.exchange = exchange;
    constexpr int writers = 3;
    constexpr int turns = 60;
    const auto write = [&](int self) {
      auto options = at.options();
      options.previous = at.dir / fmt::format("journal{}/main.json", self);
      ModelDaemon daemon(options);
      if (!daemon.load()) return 1;
      std::mt19937 random(static_cast<unsigned>(self));
      for (int turn = 1; turn <= turns; ++turn) {
        // A field of its own in an entry that all change, and an entry of its own.
        const std::string shared = fmt::format("shared{}", random() % 2);
        const std::string held = daemon.has(shared) ? daemon.at(shared) : "{}";
        json::Edit edit;
        edit.put_int(fmt::format("w{}", self), turn);
        daemon.set(shared, json::apply(held, edit));
        daemon.set(fmt::format("own{}.{}", self, turn % 10), fmt::format(R"({{"turn":{}}})", turn));
        daemon.set(fmt::format("last{}", self), fmt::format(R"({{"{}":{}}})", shared, turn));
        if (!daemon.checkpoint()) return 2;
      }
      return daemon.settle() ? 0 : 3;
    };
    {
      Child first([&] { return write(0); });
      Child second([&] { return write(1); });
      Child third([&] { return write(2); });
      CHECK(first.wait() == 0);
      CHECK(second.wait() == 0);
      CHECK(third.wait() == 0);
    }
    std::map<std::string, std::string> entries;
    std::vector<std::string> oddities;
    const auto parsed = parse_store(at.text(), oddities);
    REQUIRE(parsed);
    for (const NamedEntry& one : *parsed) entries[one.key] = *one.entry;
    for (int self = 0; self < writers; ++self) {
      for (int turn = turns - 9; turn <= turns; ++turn) {
        CHECK(json::int_at(entries[fmt::format("own{}.{}", self, turn % 10)], "turn") == turn);
      }
      for (const json::Member& last : json::members(entries[fmt::format("last{}", self)])) {
        CHECK(json::int_at(entries[std::string(last.name)], fmt::format("w{}", self)) == json::as_int(last.value));
      }
    }
    CHECK(at.names(at.sessions) == std::set<std::string>{"sessions.json"});
  }
}

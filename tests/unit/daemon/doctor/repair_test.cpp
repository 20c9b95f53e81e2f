#include "daemon/doctor/repair.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include "store/sessions/sessions_file.hpp"
#include "tests/unit/daemon/doctor/tree.hpp"
#include "tests/unit/store/child.hpp"

using namespace sessiond;
using namespace sessiond::doctor;
using namespace sessiond::testing;

namespace {

// Exactly one thing was done, and a second run does nothing.
Step only_step(const Tree& tree) {
  const Report report = run_repair(config_of(tree));
  INFO(to_text(report));
  REQUIRE(report.findings().empty());
  REQUIRE(report.steps().size() == 1);
  const std::string before = fingerprint(tree.path());
  const Report again = run_repair(config_of(tree));
  CHECK(again.steps().empty());
  CHECK(again.findings().empty());
  CHECK(fingerprint(tree.path()) == before);
  return report.steps()[0];
}

std::string dead_pid() {
  Child child([] { return 0; });
  const pid_t pid = child.pid();
  child.wait();
  return std::to_string(pid);
}

}  // namespace

TEST_CASE("a sound tree is not touched by a repair or a migration") {
  Tree tree;
  tree.write_journal(20);
  const std::string before = fingerprint(tree.path());
  CHECK(run_repair(config_of(tree)).steps().empty());
  CHECK(run_migration(config_of(tree)).steps().empty());
  CHECK(fingerprint(tree.path()) == before);
}

TEST_CASE("modes") {
  Tree tree;
  SUBCASE("of files") {
    fs::permissions(tree.transcript(), fs::perms(0644));
    CHECK(only_step(tree).action == "modes");
    CHECK((fs::status(tree.transcript()).permissions() & fs::perms(0777)) == fs::perms(0600));
  }
  SUBCASE("of folders, and one that is closed to its owner") {
    fs::permissions(tree.sessions(), fs::perms(0755));
    fs::permissions(tree.transcript(), fs::perms(0400));
    run_repair(config_of(tree));
    CHECK((fs::status(tree.sessions()).permissions() & fs::perms(0777)) == fs::perms(0700));
    CHECK((fs::status(tree.transcript()).permissions() & fs::perms(0777)) == fs::perms(0600));
    CHECK(run_repair(config_of(tree)).steps().empty());
  }
  SUBCASE("of the state directory") {
    fs::permissions(tree.path(), fs::perms(0777));
    CHECK(only_step(tree).action == "state_dir");
  }
  SUBCASE("tokens.json") {
    Tree::write(tree.path() / "tokens.json", "{\"tokens\":[]}\n");
    fs::permissions(tree.path() / "tokens.json", fs::perms(0664));
    CHECK(only_step(tree).action == "tokens");
  }
  SUBCASE("a link's own mode means nothing, and nothing is done through it") {
    const fs::path other = tree.path() / "other.txt";
    Tree::write(other, "x");
    fs::permissions(other, fs::perms(0644));
    fs::create_symlink(other, tree.sessions() / "link.jsonl");
    CHECK(only_step(tree).action == "symlink");  // the link itself is moved away
    CHECK((fs::status(other).permissions() & fs::perms(0777)) == fs::perms(0644));
    CHECK(tree.examine().exit_code() == 0);
  }
}

TEST_CASE("what interrupted writes left is moved away, what lives or is needed stays") {
  Tree tree;
  const std::string dead = dead_pid();
  SUBCASE("of a store, of a lock, of tokens") {
    for (const fs::path& name : {tree.sessions() / ("sessions.json." + dead + ".0a1b.tmp"),
                                 tree.sessions() / ("sessions.json.lock." + dead + ".0a1b0c0d0e0f"),
                                 tree.path() / ("tokens.json." + dead + ".0a1b.tmp")}) {
      Tree::write(name, "left");
      const Step step = only_step(tree);
      CHECK(step.action == "temporary");
      CHECK_FALSE(fs::exists(name));
      CHECK(Tree::read(step.kept) == "left");
    }
  }
  SUBCASE("one in flight") {
    const fs::path name = tree.sessions() / ("sessions.json." + std::to_string(::getpid()) + ".0a1b.tmp");
    REQUIRE(store::replace_file(name, "{"));
    CHECK(run_repair(config_of(tree)).steps().empty());
    CHECK(fs::exists(name));
  }
  SUBCASE("one that the note of a checkpoint names may hold another program's version: the next start settles it") {
    REQUIRE(store::make_dirs(tree.journal() / "previous"));
    const std::string name = "sessions.json." + dead + ".0a1b.tmp";
    Tree::write(tree.journal() / "previous/main.note", "{\"temp\":\"" + name + "\"}");
    Tree::write(tree.sessions() / name, "{}");
    CHECK(run_repair(config_of(tree)).steps().empty());
    CHECK(fs::exists(tree.sessions() / name));
  }
}

TEST_CASE("a lock goes only when its holder is provably gone") {
  Tree tree;
  const fs::path lock = tree.sessions() / "sessions.json.lock";
  SUBCASE("gone") {
    Tree::write(lock, R"({"pid":)" + dead_pid() + "}");
    CHECK(only_step(tree).detail.contains("is dead"));
    CHECK_FALSE(fs::exists(lock));
  }
  SUBCASE("alive, unreadable, or of a host that we cannot see") {
    Child child([] {
      for (;;) ::pause();
      return 0;
    });
    for (const std::string& text : {R"({"pid":)" + std::to_string(child.pid()) + "}", std::string(),
                                    R"({"pid":)" + dead_pid() + R"(,"host":"another:1"})"}) {
      Tree::write(lock, text);
      CHECK(run_repair(config_of(tree)).steps().empty());
      CHECK(Tree::read(lock) == text);
    }
  }
}

TEST_CASE("the end of a transcript") {
  Tree tree;
  const std::string good = Tree::read(tree.transcript());
  SUBCASE("torn") {
    Tree::write(tree.transcript(), good + "{\"type\":\"mess");
    const Step step = only_step(tree);
    CHECK(Tree::read(tree.transcript()) == good);
    CHECK(Tree::read(step.kept) == "{\"type\":\"mess");
    CHECK(tree.examine().exit_code() == 1);  // what was put aside is told
  }
  SUBCASE("without its newline") {
    Tree::write(tree.transcript(), good.substr(0, good.size() - 1));
    CHECK(only_step(tree).detail.contains("newline"));
    CHECK(Tree::read(tree.transcript()) == good);
  }
  SUBCASE("held by another program: told, not touched") {
    Tree::write(tree.transcript(), good + "{\"type\":\"mess");
    Child child([] {
      for (;;) ::pause();
      return 0;
    });
    Tree::write(tree.transcript().native() + ".lock", R"({"pid":)" + std::to_string(child.pid()) + "}");
    const Report report = run_repair(config_of(tree));
    CHECK(report.steps().empty());
    CHECK(report.exit_code() == 2);
    CHECK(to_text(report).contains("not repaired"));
    CHECK(Tree::read(tree.transcript()) == good + "{\"type\":\"mess");
  }
  SUBCASE("lines that cannot be read between others stay") {
    const std::string text = good + "garbage\n" + std::string(10, '\0') + "\n";
    Tree::write(tree.transcript(), text);
    CHECK(run_repair(config_of(tree)).steps().empty());
    CHECK(Tree::read(tree.transcript()) == text);
  }
}

TEST_CASE("a damaged store is rebuilt from what was known of it, or left") {
  Tree tree;
  const fs::path store = tree.sessions() / "sessions.json";
  SUBCASE("nothing is known of it") {
    Tree::write(store, "");
    CHECK(run_repair(config_of(tree)).steps().empty());
    CHECK(tree.examine().exit_code() == 2);
    CHECK(Tree::read(store).empty());
  }
  SUBCASE("adopted once") {
    REQUIRE(store::make_dirs(tree.journal()));
    REQUIRE(sessions::SessionsFile({.path = store, .previous = tree.journal() / "previous/main.json"}).load());
    for (const std::string& damage :
         {std::string(), std::string(300, '\0'), std::string("{\"agent:"), std::string("[]")}) {
      Tree::write(store, damage);
      CHECK(tree.examine().exit_code() == 2);
      const Report report = run_repair(config_of(tree));
      INFO(to_text(report));
      CHECK(report.steps().size() >= 2);
      CHECK(report.findings().empty());
      CHECK(tree.examine().exit_code() == 1);
      CHECK(Tree::read(store).contains("agent:main:main"));
      CHECK(Tree::read(store).contains("agent:main:t:topic:7"));
      CHECK(run_repair(config_of(tree)).steps().empty());
    }
    std::size_t kept = 0;
    for (const auto& file : fs::directory_iterator(tree.sessions()))
      if (file.path().native().contains(".corrupt.")) ++kept;
    CHECK(kept == 4);
  }
}

TEST_CASE("old transcripts, kept when they are written anew") {
  Tree tree;
  const std::string old = "{\"type\":\"session\",\"id\":\"" + id_a + "\"}\n{\"role\":\"user\",\"content\":\"x\"}\n";
  Tree::write(tree.transcript(), old);
  CHECK(tree.examine().exit_code() == 0);
  CHECK(to_text(tree.examine()).contains("--migrate"));
  const Report report = run_migration(config_of(tree));
  INFO(to_text(report));
  REQUIRE(report.steps().size() == 1);
  CHECK(Tree::read(report.steps()[0].kept) == old);
  CHECK(Tree::read(tree.transcript()).contains("\"version\":3"));
  CHECK(run_migration(config_of(tree)).steps().empty());
  CHECK(tree.examine().exit_code() == 0);
}

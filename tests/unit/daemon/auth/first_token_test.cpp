#include "daemon/auth/first_token.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "tests/unit/daemon/auth/auth_fixture.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::auth;
namespace fs = std::filesystem;

namespace {

struct State {
  testing::TempDir dir;
  fs::path state = dir.path() / "state";
  Result<fs::path> file = dir.path() / "config" / "sessiond" / "admin.token";
  State() { fs::create_directory(state); }
  std::unique_ptr<Tokens> tokens() const { return std::move(Tokens::load(state / "tokens.json").value()); }
};

}  // namespace

TEST_CASE("made once, good, and for its owner only") {
  const State at;
  const auto tokens = at.tokens();
  const auto first = make_first_token(*tokens, at.file, at.state, now);
  REQUIRE(first);
  REQUIRE(*first);
  CHECK_FALSE((*first)->not_written);
  CHECK_FALSE((*first)->replaced);
  CHECK(contents(*at.file) == (*first)->token + "\n");
  CHECK(mode_of(*at.file) == 0600);
  CHECK(mode_of(at.file->parent_path()) == 0700);
  CHECK(mode_of(at.file->parent_path().parent_path()) == 0700);
  const auto again = at.tokens();
  CHECK(again->authenticate("Bearer " + (*first)->token, now).value().may(Permission::tokens));

  const auto second = make_first_token(*again, at.file, at.state, now);
  REQUIRE(second);
  CHECK_FALSE(*second);
  CHECK(contents(*at.file) == (*first)->token + "\n");
}

TEST_CASE("the token of another state directory is replaced, and that is said") {
  const State at;
  fs::create_directories(at.file->parent_path());
  put_file(*at.file, "sd_other\n");
  fs::permissions(*at.file, fs::perms::all);
  const auto first = make_first_token(*at.tokens(), at.file, at.state, now);
  REQUIRE(first);
  REQUIRE(*first);
  CHECK((*first)->replaced);
  CHECK(contents(*at.file) == (*first)->token + "\n");
  CHECK(mode_of(*at.file) == 0600);
}

TEST_CASE("a state that has tokens keeps the file as it is") {
  const State at;
  fs::create_directories(at.file->parent_path());
  put_file(*at.file, "mine");
  const auto tokens = at.tokens();
  REQUIRE(tokens->create({.role = "viewer"}, now));
  CHECK_FALSE(make_first_token(*tokens, at.file, at.state, now).value());
  CHECK(contents(*at.file) == "mine");
}

TEST_CASE("where the file cannot be, the token is good all the same") {
  const State at;
  put_file(at.dir.path() / "config", "a file where a directory should be");
  const auto tokens = at.tokens();
  const auto first = make_first_token(*tokens, at.file, at.state, now);
  REQUIRE(first);
  REQUIRE(*first);
  CHECK((*first)->not_written);
  CHECK(at.tokens()->authenticate("Bearer " + (*first)->token, now));

  const State homeless;
  const auto other = make_first_token(*homeless.tokens(), fail(Code::not_found, "no home"), homeless.state, now);
  REQUIRE(other);
  CHECK((*other)->not_written->detail == "no home");
}

TEST_CASE("never below the state directory, however that is spelled") {
  const State at;
  fs::create_symlink(at.state, at.dir.path() / "link");
  for (const fs::path& path : {at.state / "admin.token", at.state / "a" / "b" / "admin.token",
                               at.dir.path() / "link" / "admin.token", at.state / ".." / "state" / "admin.token"}) {
    CAPTURE(path.native());
    fs::remove(at.state / "tokens.json");
    const auto first = make_first_token(*at.tokens(), path, at.state, now);
    REQUIRE(first);
    REQUIRE(*first);
    CHECK((*first)->not_written);
    CHECK_FALSE(fs::exists(path));
  }
  fs::remove(at.state / "tokens.json");
  const auto beside = make_first_token(*at.tokens(), at.dir.path() / "state2" / "admin.token", at.state, now);
  CHECK_FALSE((*beside)->not_written);
}

TEST_CASE("when tokens.json cannot be written there is no token, and the next start makes another") {
  const State at;
  const auto tokens = at.tokens();
  fs::remove(at.state);
  CHECK_FALSE(make_first_token(*tokens, at.file, at.state, now));
  CHECK(tokens->empty());
  fs::create_directory(at.state);
  const auto first = make_first_token(*at.tokens(), at.file, at.state, now);
  REQUIRE(first);
  CHECK((*first)->replaced);
  CHECK(contents(*at.file) == (*first)->token + "\n");
}

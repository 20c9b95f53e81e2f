#include "daemon/auth/tokens.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "store/hex.hpp"
#include "tests/unit/daemon/auth/auth_fixture.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::auth;
namespace fs = std::filesystem;

namespace {

std::unique_ptr<Tokens> open(const fs::path& path) {
  auto tokens = Tokens::load(path);
  REQUIRE(tokens);
  return std::move(*tokens);
}

CreatedToken make(Tokens& tokens, NewToken wish = {.role = "viewer"}) {
  auto created = tokens.create(wish, now);
  REQUIRE(created);
  return *created;
}

Code refusal(Tokens& tokens, std::string_view header, std::int64_t time = now) {
  const auto who = tokens.authenticate(header, time);
  REQUIRE_FALSE(who);
  return who.error().code;
}

}  // namespace

TEST_CASE("no file is no tokens, and nobody gets in") {
  const testing::TempDir dir;
  const auto tokens = open(dir.path() / "tokens.json");
  CHECK(tokens->empty());
  CHECK_FALSE(tokens->unsaved());
  CHECK(refusal(*tokens, "Bearer " + random_token("abcd1234")) == Code::unauthorized);
  CHECK_FALSE(fs::exists(dir.path() / "tokens.json"));
}

TEST_CASE("made, saved, loaded: the same token is the same principal") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken made = make(*tokens, {.role = "bridge",
                                           .agents = {"main"},
                                           .key_prefix = "agent:main:slack:",
                                           .channel = "slack",
                                           .note = "the bridge",
                                           .expires_at = now + 1000});
  CHECK(tokens->unsaved());
  REQUIRE(tokens->save());
  CHECK_FALSE(tokens->unsaved());

  const auto again = open(path);
  for (int i = 0; i < 2; ++i) {  // hashed, then compared
    const auto who = again->authenticate("Bearer " + made.token, now);
    REQUIRE(who);
    CHECK(who->id == made.info.id);
    CHECK(who->role == Role::bridge);
    CHECK(who->agents == std::vector<std::string>{"main"});
    CHECK(who->key_prefix == "agent:main:slack:");
    CHECK(who->channel == "slack");
    CHECK(who->note == "the bridge");
  }
}

TEST_CASE("the file holds hashes, never tokens, and is for its owner only whatever the umask") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken made = make(*tokens);
  const mode_t before = ::umask(0);
  const auto saved = tokens->save();
  ::umask(before);
  REQUIRE(saved);
  CHECK(mode_of(path) == 0600);
  REQUIRE(tokens->authenticate("Bearer " + made.token, now));
  REQUIRE(tokens->save());
  const std::string text = contents(path);
  CHECK(text.find(made.token) == text.npos);
  CHECK(text.find(made.token.substr(12)) == text.npos);
  CHECK(text.find(store::to_hex(hash_token(made.token))) != text.npos);
}

TEST_CASE("the header: scheme in any case, spaces; nothing else") {
  const testing::TempDir dir;
  const auto tokens = open(dir.path() / "tokens.json");
  const std::string token = make(*tokens).token;
  for (const char* scheme : {"Bearer ", "bearer ", "BEARER ", "bEaReR    ", " Bearer "})
    CHECK(tokens->authenticate(scheme + token, now));
  for (const std::string& header :
       {std::string(), std::string("Bearer"), std::string("Bearer "), token, "Basic " + token, "Bearer" + token,
        "Bearer " + token + "x", "Bearer " + token.substr(0, 54), "Bearer " + token + " " + token,
        "Bearer \"" + token + "\"", "Bearer " + token + ",", std::string("Bearer ") + std::string(55, '\0'),
        "Bearer " + std::string(1'000'000, 'a')}) {
    CAPTURE(header.substr(0, 80));
    CHECK(refusal(*tokens, header) == Code::unauthorized);
  }
}

TEST_CASE("one character off is refused, before and after the token was proved") {
  const testing::TempDir dir;
  const auto tokens = open(dir.path() / "tokens.json");
  const std::string token = make(*tokens).token;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < token.size(); ++i) {
      std::string bad = token;
      bad[i] = bad[i] == 'A' ? 'B' : 'A';
      CHECK(refusal(*tokens, "Bearer " + bad) == Code::unauthorized);
    }
    REQUIRE(tokens->authenticate("Bearer " + token, now));
  }
}

TEST_CASE("the secret of one token does not open another") {
  const testing::TempDir dir;
  const auto tokens = open(dir.path() / "tokens.json");
  const CreatedToken a = make(*tokens);
  const CreatedToken b = make(*tokens, {.role = "admin"});
  REQUIRE(tokens->authenticate("Bearer " + a.token, now));
  REQUIRE(tokens->authenticate("Bearer " + b.token, now));
  const std::string mixed = b.token.substr(0, 12) + a.token.substr(12);
  CHECK(refusal(*tokens, "Bearer " + mixed) == Code::unauthorized);
}

TEST_CASE("revoked: refused at once, though it was proved; gone from the file; known to streams") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken kept = make(*tokens);
  const CreatedToken gone = make(*tokens);
  REQUIRE(tokens->authenticate("Bearer " + gone.token, now));
  REQUIRE(tokens->save());
  const std::uint64_t before = tokens->generation();
  CHECK(tokens->principal(gone.info.id, now));

  REQUIRE(tokens->revoke(gone.info.id));
  CHECK(tokens->generation() != before);
  CHECK(refusal(*tokens, "Bearer " + gone.token) == Code::unauthorized);
  CHECK_FALSE(tokens->principal(gone.info.id, now));
  CHECK(tokens->principal(kept.info.id, now));
  CHECK(tokens->revoke(gone.info.id).error().code == Code::not_found);
  REQUIRE(tokens->save());
  const auto again = open(path);
  CHECK(refusal(*again, "Bearer " + gone.token) == Code::unauthorized);
  CHECK(again->authenticate("Bearer " + kept.token, now));
}

TEST_CASE("expired: refused from that very ms on, though it was proved, and only to who has the secret it says so") {
  const testing::TempDir dir;
  const auto tokens = open(dir.path() / "tokens.json");
  const CreatedToken made = make(*tokens, {.role = "viewer", .expires_at = now + 1000});
  REQUIRE(tokens->authenticate("Bearer " + made.token, now + 999));
  CHECK(refusal(*tokens, "Bearer " + made.token, now + 1000) == Code::unauthorized);
  CHECK(tokens->principal(made.info.id, now + 999));
  CHECK_FALSE(tokens->principal(made.info.id, now + 1000));
  CHECK(tokens->authenticate("Bearer " + made.token, now + 1000).error().detail.find("expired") != std::string::npos);
  std::string guess = made.token;
  guess.back() = guess.back() == 'A' ? 'B' : 'A';
  CHECK(tokens->authenticate("Bearer " + guess, now + 1000).error().detail.find("expired") == std::string::npos);
}

TEST_CASE("what a connection keeps proves its own header only, until the token ends or any token changes") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken made = make(*tokens, {.role = "bridge", .expires_at = now + 1000});
  const std::string header = "Bearer " + made.token;
  Proof proof;
  const auto role = [&](std::int64_t time = now) { return tokens->authenticate(header, time, &proof).value().role; };
  for (int i = 0; i < 2; ++i) CHECK(role() == Role::bridge);
  CHECK(tokens->authenticate("Bearer " + random_token(made.info.id), now, &proof).error().code == Code::unauthorized);
  CHECK(role(now + 999) == Role::bridge);
  CHECK(tokens->list().front().last_used_at == now + 999);
  CHECK(tokens->authenticate(header, now + 1000, &proof).error().code == Code::unauthorized);

  REQUIRE(tokens->save());
  TokenRecord narrower{.info = made.info, .hash = hash_token(made.token)};
  narrower.info.role = Role::viewer;
  put_file(path, write_tokens({narrower}));
  REQUIRE(tokens->reload());
  CHECK(role() == Role::viewer);
  CHECK(tokens->list().front().last_used_at == now + 999);

  const auto rotated = tokens->rotate(made.info.id, 500, now);
  REQUIRE(rotated);
  CHECK(role(now + 499) == Role::viewer);
  CHECK(tokens->authenticate(header, now + 500, &proof).error().code == Code::unauthorized);
  CHECK(role(now + 499) == Role::viewer);
  REQUIRE(tokens->revoke(made.info.id));
  CHECK(tokens->authenticate(header, now + 499, &proof).error().code == Code::unauthorized);
}

TEST_CASE("lastUsedAt never goes back, is shown, and is kept by the next save") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken made = make(*tokens);
  REQUIRE(tokens->save());
  CHECK_FALSE(tokens->list().front().last_used_at);
  REQUIRE(tokens->authenticate("Bearer " + made.token, now + 50));
  REQUIRE(tokens->authenticate("Bearer " + made.token, now + 20));
  CHECK(tokens->list().front().last_used_at == now + 50);
  CHECK(tokens->unsaved());
  REQUIRE(tokens->save());
  CHECK(open(path)->list().front().last_used_at == now + 50);
}

TEST_CASE("list is oldest first") {
  const testing::TempDir dir;
  const auto tokens = open(dir.path() / "tokens.json");
  for (const int age : {5, 1, 3}) REQUIRE(tokens->create({.role = "viewer", .note = std::to_string(age)}, now - age));
  std::string order;
  for (const TokenInfo& info : tokens->list()) order += info.note;
  CHECK(order == "531");
}

TEST_CASE("an invalid wish makes nothing") {
  const testing::TempDir dir;
  const auto tokens = open(dir.path() / "tokens.json");
  const auto refused = tokens->create({.role = "root", .agents = {"../x"}}, now);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().errors.size() == 2);
  CHECK(tokens->empty());
  CHECK_FALSE(tokens->unsaved());
}

TEST_CASE("damage is named with the file, and left alone by save") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  put_file(path, "");
  const auto empty = Tokens::load(path);
  REQUIRE_FALSE(empty);
  CHECK(empty.error().code == Code::degraded);
  CHECK(empty.error().detail.find(path.native()) != std::string::npos);

  fs::remove(path);
  const auto tokens = open(path);
  const CreatedToken made = make(*tokens);
  REQUIRE(tokens->save());
  put_file(path, "{\"tokens\":[");
  CHECK_FALSE(tokens->reload());
  CHECK(tokens->authenticate("Bearer " + made.token, now));
  CHECK_FALSE(tokens->save());
  CHECK(contents(path) == "{\"tokens\":[");
}

TEST_CASE("in the place of the file: a directory, a link, a pipe are problems, not no tokens") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  fs::create_directory(path);
  CHECK_FALSE(Tokens::load(path));
  fs::remove(path);
  fs::create_symlink(dir.path() / "nowhere", path);
  CHECK_FALSE(Tokens::load(path));
  fs::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_FALSE(Tokens::load(path));
}

TEST_CASE("what another program removed from the file stays removed, also when we save without reload") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken gone = make(*tokens);
  const CreatedToken kept = make(*tokens);
  REQUIRE(tokens->save());

  const auto other = open(path);
  REQUIRE(other->revoke(gone.info.id));
  const CreatedToken theirs = make(*other);
  REQUIRE(other->save());

  // Known here only: made and used since.
  REQUIRE(tokens->authenticate("Bearer " + kept.token, now + 7));
  const CreatedToken ours = make(*tokens);
  REQUIRE(tokens->save());
  const auto fresh = open(path);
  CHECK(refusal(*fresh, "Bearer " + gone.token) == Code::unauthorized);
  CHECK(refusal(*tokens, "Bearer " + gone.token) == Code::unauthorized);
  for (const CreatedToken& good : {kept, theirs, ours}) {
    CHECK(fresh->authenticate("Bearer " + good.token, now));
    CHECK(tokens->authenticate("Bearer " + good.token, now));
  }
}

TEST_CASE("what was revoked here does not come back by reading a file that still has it") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken gone = make(*tokens);
  REQUIRE(tokens->save());
  const auto other = open(path);
  REQUIRE(tokens->revoke(gone.info.id));
  make(*other);
  REQUIRE(other->save());  // a new file, in which it still is
  REQUIRE(tokens->reload());
  CHECK(refusal(*tokens, "Bearer " + gone.token) == Code::unauthorized);
  REQUIRE(tokens->save());
  CHECK(refusal(*open(path), "Bearer " + gone.token) == Code::unauthorized);
}

TEST_CASE("a reload narrows at once, and what was proved stays proved only for the same hash") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken made = make(*tokens);
  REQUIRE(tokens->save());
  REQUIRE(tokens->authenticate("Bearer " + made.token, now));
  const std::uint64_t before = tokens->generation();

  TokenRecord record{.info = made.info, .hash = hash_token(made.token)};
  record.info.agents = {"codex"};
  put_file(path, write_tokens({record}));
  REQUIRE(tokens->reload());
  CHECK(tokens->generation() != before);
  CHECK(tokens->authenticate("Bearer " + made.token, now).value().agents == std::vector<std::string>{"codex"});

  record.hash = hash_token("another");
  put_file(path, write_tokens({record}) + " ");
  REQUIRE(tokens->reload());
  CHECK(refusal(*tokens, "Bearer " + made.token) == Code::unauthorized);
}

TEST_CASE("a reload of an unchanged file changes nothing") {
  const testing::TempDir dir;
  const auto tokens = open(dir.path() / "tokens.json");
  make(*tokens);
  REQUIRE(tokens->save());
  const std::uint64_t before = tokens->generation();
  REQUIRE(tokens->reload());
  CHECK(tokens->generation() == before);
}

TEST_CASE("a save that fails loses nothing: the next one writes it") {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "state";
  const fs::path path = folder / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken made = make(*tokens);
  CHECK_FALSE(tokens->save());  // there is no such directory
  CHECK(tokens->unsaved());
  CHECK(tokens->authenticate("Bearer " + made.token, now));
  fs::create_directory(folder);
  REQUIRE(tokens->save());
  CHECK_FALSE(tokens->unsaved());
  CHECK(open(path)->authenticate("Bearer " + made.token, now));
}

TEST_CASE("many threads at once: every token that was made is in the file, none that was revoked") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken used = make(*tokens);
  std::atomic<int> refused = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 10; ++i) {
          const auto kept = tokens->create({.role = "viewer", .note = "kept"}, now);
          const auto gone = tokens->create({.role = "viewer", .note = "gone"}, now);
          if (!kept || !gone || !tokens->save()) ++refused;
          if (!tokens->revoke(gone->info.id) || !tokens->save()) ++refused;
          if (!tokens->authenticate("Bearer " + used.token, now)) ++refused;
          if (!tokens->authenticate("Bearer " + kept->token, now)) ++refused;
        }
      });
    }
  }
  CHECK(refused == 0);
  REQUIRE(tokens->save());
  const auto again = open(path);
  CHECK(again->list().size() == 41);
  for (const TokenInfo& info : again->list()) CHECK(info.note != "gone");
}

TEST_CASE("rotated: the same role, scope, note and end under another id; the old one ends with the overlap") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken old = make(*tokens, {.role = "bridge",
                                          .agents = {"codex"},
                                          .key_prefix = "agent:codex:",
                                          .channel = "slack",
                                          .note = "n",
                                          .expires_at = now + 10'000});
  REQUIRE(tokens->authenticate("Bearer " + old.token, now));
  const std::uint64_t before = tokens->generation();
  const auto rotated = tokens->rotate(old.info.id, 1000, now + 5);
  REQUIRE(rotated);
  CHECK(tokens->generation() != before);
  const TokenInfo& info = rotated->made.info;
  CHECK(info.id != old.info.id);
  CHECK(info.role == Role::bridge);
  CHECK(info.agents == old.info.agents);
  CHECK(info.key_prefix == old.info.key_prefix);
  CHECK(info.channel == old.info.channel);
  CHECK(info.note == old.info.note);
  CHECK(info.expires_at == now + 10'000);
  CHECK(info.created_at == now + 5);
  CHECK_FALSE(info.last_used_at);
  CHECK(rotated->ends_at == now + 1005);
  CHECK_FALSE(rotated->revoked);
  REQUIRE(tokens->save());
  const auto again = open(path);
  for (Tokens* each : {tokens.get(), again.get()}) {
    CHECK(each->authenticate("Bearer " + old.token, now + 1004));
    CHECK(refusal(*each, "Bearer " + old.token, now + 1005) == Code::unauthorized);
    CHECK(each->authenticate("Bearer " + rotated->made.token, now + 9999));
  }
}

TEST_CASE("an overlap never lengthens a token's life; none ends it at once") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken brief = make(*tokens, {.role = "viewer", .expires_at = now + 100});
  CHECK(tokens->rotate(brief.info.id, 1000, now).value().ends_at == now + 100);
  CHECK(tokens->rotate(brief.info.id, 1000, now + 100).error().code == Code::validation_failed);
  CHECK(tokens->rotate("zzzzzzzz", 1000, now).error().code == Code::not_found);

  const CreatedToken gone = make(*tokens);
  REQUIRE(tokens->save());
  const auto rotated = tokens->rotate(gone.info.id, 0, now);
  REQUIRE(rotated);
  CHECK(rotated->revoked);
  CHECK(refusal(*tokens, "Bearer " + gone.token) == Code::unauthorized);
  REQUIRE(tokens->save());
  CHECK(refusal(*open(path), "Bearer " + gone.token) == Code::unauthorized);
  CHECK(open(path)->authenticate("Bearer " + rotated->made.token, now));
}

TEST_CASE("a rotation that could not be saved is undone: the old token goes on, the new one never was") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  for (const std::int64_t overlap : {0, 1000}) {
    CAPTURE(overlap);
    fs::remove(path);
    const auto tokens = open(path);
    const CreatedToken old = make(*tokens);
    REQUIRE(tokens->save());
    const auto rotated = tokens->rotate(old.info.id, overlap, now);
    REQUIRE(rotated);
    // The worst: it was written after all, and only the fsync behind it failed.
    if (overlap != 0) {
      put_file(path, write_tokens({{.info = rotated->made.info, .hash = hash_token(rotated->made.token)}}));
    }
    tokens->undo(*rotated);
    REQUIRE(tokens->save());
    const auto again = open(path);
    for (Tokens* each : {tokens.get(), again.get()}) {
      CHECK(each->authenticate("Bearer " + old.token, now + 5000));
      CHECK(refusal(*each, "Bearer " + rotated->made.token) == Code::unauthorized);
    }
  }
}

TEST_CASE("a rotation keeps what others changed in the file meanwhile, and its own end of the old token") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken old = make(*tokens);
  REQUIRE(tokens->save());
  const auto rotated = tokens->rotate(old.info.id, 1000, now);
  REQUIRE(rotated);
  TokenRecord theirs{.info = old.info, .hash = hash_token(old.token)};
  theirs.info.agents = {"codex"};
  put_file(path, write_tokens({theirs}));
  REQUIRE(tokens->save());
  const auto again = open(path);
  CHECK(again->authenticate("Bearer " + old.token, now).value().agents == std::vector<std::string>{"codex"});
  CHECK(refusal(*again, "Bearer " + old.token, now + 1000) == Code::unauthorized);
  CHECK(again->authenticate("Bearer " + rotated->made.token, now + 1000));
}

TEST_CASE("a look finds what was changed; damage changes nothing; a file that is gone counts at the second look") {
  const testing::TempDir dir;
  const fs::path path = dir.path() / "tokens.json";
  const auto tokens = open(path);
  const CreatedToken made = make(*tokens);
  REQUIRE(tokens->save());
  CHECK_FALSE(tokens->look().value());
  const std::string whole = contents(path);

  put_file(path, whole.substr(0, whole.size() / 2));
  CHECK_FALSE(tokens->look());
  CHECK(tokens->authenticate("Bearer " + made.token, now));

  const auto other = [&] {
    TokenRecord record{.info = made.info, .hash = hash_token(made.token)};
    record.info.channel = "slack";
    return record;
  };
  put_file(path, write_tokens({other()}));
  CHECK(tokens->look().value());
  CHECK(tokens->authenticate("Bearer " + made.token, now).value().channel == "slack");

  fs::remove(path);
  CHECK_FALSE(tokens->look().value());
  CHECK(tokens->authenticate("Bearer " + made.token, now));
  put_file(path, whole);  // it was only being replaced
  CHECK(tokens->look().value());
  CHECK(tokens->authenticate("Bearer " + made.token, now).value().channel.empty());
  fs::remove(path);
  CHECK_FALSE(tokens->look().value());
  CHECK(tokens->look().value());
  CHECK(refusal(*tokens, "Bearer " + made.token) == Code::unauthorized);
}

#include "daemon/auth/tickets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/auth/ticket.hpp"
#include "store/hex.hpp"
#include "tests/unit/daemon/auth/auth_fixture.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::auth;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t minute = 60'000;
const std::string secret(64, 'k');

struct World {
  testing::TempDir dir{};
  fs::path path = dir.path() / "tickets";
  std::unique_ptr<Tokens> tokens = std::move(Tokens::load(dir.path() / "tokens.json").value());
  Tickets tickets{path, secret, *tokens};

  Principal token(const NewToken& wish = {.role = "viewer"}) {
    const auto created = tokens->create(wish, now);
    REQUIRE(created);
    return principal_of(created->info);
  }
  std::string ticket(const Principal& principal, std::string_view filters = "{}") {
    const auto created = tickets.create(principal, filters, now);
    REQUIRE(created);
    CHECK(created->expires_at == now + minute);
    return created->ticket;
  }
  // As after a restart, with what was saved.
  std::unique_ptr<Tickets> again(std::size_t most = Tickets::most_used, bool damaged = false) const {
    auto read = std::make_unique<Tickets>(path, secret, *tokens, most);
    REQUIRE(read->load().has_value() != damaged);
    return read;
  }
};

std::size_t lines(const fs::path& path) {
  const std::string text = contents(path);
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

}  // namespace

TEST_CASE_FIXTURE(World, "a ticket is its token's principal as it is now, with its filters; no two are the same") {
  const Principal who =
      token({.role = "bridge", .agents = {"main"}, .key_prefix = "agent:main:slack:", .channel = "slack"});
  const std::string filters = R"({"types":"message.*"})";
  const std::string text = ticket(who, filters);
  CHECK(text != ticket(who, filters));
  CHECK(text.starts_with("sdt_"));
  CHECK(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == text.npos);
  const auto found = tickets.find(text, now);
  REQUIRE(found);
  CHECK(found->principal.id == who.id);
  CHECK(found->principal.role == Role::bridge);
  CHECK(found->principal.agents == std::vector<std::string>{"main"});
  CHECK(found->principal.key_prefix == "agent:main:slack:");
  CHECK(found->principal.channel == "slack");
  CHECK(found->filters == filters);
}

TEST_CASE_FIXTURE(World, "used within the minute it stays good; not used it does not, whatever else happens") {
  const std::string used = ticket(token());
  const std::string unused = ticket(token());
  REQUIRE(tickets.find(used, now + minute - 1));
  CHECK_FALSE(tickets.unsaved());
  tickets.use(used, now + minute - 1);
  CHECK(tickets.unsaved());
  CHECK(tickets.find(used, now + 1000 * minute));
  CHECK(tickets.find(unused, now + minute - 1));
  const auto late = tickets.find(unused, now + minute);
  REQUIRE_FALSE(late);
  CHECK(late.error().code == Code::unauthorized);
}

TEST_CASE_FIXTURE(World, "over a restart: unused it may still be used in its minute, used it stays good") {
  const std::string used = ticket(token());
  const std::string unused = ticket(token());
  tickets.use(used, now);
  REQUIRE(tickets.save(now));
  CHECK_FALSE(tickets.unsaved());
  CHECK(mode_of(path) == 0600);
  CHECK(contents(path).find(used) == std::string::npos);
  CHECK(contents(path).find(store::to_hex(hash_token(used))) != std::string::npos);

  const auto later = again();
  CHECK_FALSE(later->unsaved());
  CHECK(later->find(used, now + minute));
  CHECK(later->find(unused, now + minute - 1));
  CHECK_FALSE(later->find(unused, now + minute));
  later->use(used, now + 2 * minute);
  CHECK_FALSE(later->unsaved());  // it is known already
}

TEST_CASE_FIXTURE(World, "of a revoked, expired, narrowed or widened token no ticket is good, used or not") {
  const Principal who = token({.role = "viewer", .agents = {"main"}, .expires_at = now + 10 * minute});
  const std::string text = ticket(who);
  tickets.use(text, now);
  REQUIRE(tickets.find(text, now));
  SUBCASE("expired") { CHECK_FALSE(tickets.find(text, now + 10 * minute)); }
  SUBCASE("revoked") {
    REQUIRE(tokens->revoke(who.id));
    CHECK_FALSE(tickets.find(text, now));
    tickets.use(ticket(token()), now);
    REQUIRE(tickets.save(now));
    CHECK(lines(path) == 1);  // not kept for nothing
  }
  SUBCASE("changed in tokens.json") {
    REQUIRE(tokens->save());
    const fs::path file = dir.path() / "tokens.json";
    std::string json = contents(file);
    const auto put = [&](std::string_view from, std::string_view to) {
      const auto at = json.find(from);
      REQUIRE(at != json.npos);
      json.replace(at, from.size(), to);
      put_file(file, json);
      REQUIRE(tokens->reload());
    };
    SUBCASE("narrowed") { put(R"("agents":["main"])", R"("agents":["main"],"keyPrefix":"agent:main:x:")"); }
    SUBCASE("widened") { put(R"("agents":["main"])", R"("agents":[])"); }
    SUBCASE("another role") { put(R"("viewer")", R"("bridge")"); }
    REQUIRE(tokens->principal(who.id, now));
    CHECK_FALSE(tickets.find(text, now));
    CHECK(tickets.find(ticket(*tokens->principal(who.id, now)), now));
  }
}

TEST_CASE_FIXTURE(World, "one character off, cut, longer, of another key, of no token: refused, in the same words") {
  const std::string text = ticket(token(), R"({"agent":"main"})");
  const auto refusal = [&](std::string_view bad) {
    const auto found = tickets.find(bad, now);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == Code::unauthorized);
    return found.error().detail;
  };
  const std::string words = refusal("");
  for (std::size_t i = 0; i < text.size(); ++i) {
    CAPTURE(i);
    std::string bad = text;
    bad[i] = bad[i] == 'A' ? 'B' : 'A';
    CHECK(refusal(bad) == words);
    CHECK(refusal(text.substr(0, i)) == words);
  }
  CHECK(refusal(text + "A") == words);
  CHECK(refusal(text + "=") == words);
  CHECK(refusal("sdt_" + std::string(200'000, 'A')) == words);
  const Tickets other(path, std::string(64, 'x'), *tokens);
  CHECK_FALSE(other.find(text, now));
  Principal nobody{.id = "zzzzzzzz", .role = Role::admin};
  CHECK(refusal(ticket(nobody)) == words);
}

TEST_CASE_FIXTURE(World, "what has no token has no ticket") {
  for (const char* id : {"local", ""}) {
    const auto made = tickets.create({.id = id, .role = Role::admin}, "{}", now);
    REQUIRE_FALSE(made);
    CHECK(made.error().code == Code::forbidden);
  }
}

TEST_CASE_FIXTURE(World, "the bound: the oldest of the token that has most go, one with an open stream never") {
  const auto few = again(32);
  const Principal quiet = token();
  const Principal busy = token();
  const std::string lone = ticket(quiet);
  few->use(lone, now - 5);
  const std::string open = ticket(busy);
  Tickets::Handle stream = few->use(open, now - 4);
  std::vector<std::string> rest;
  for (int i = 0; i < 31; ++i) {
    rest.push_back(ticket(busy));
    few->use(rest.back(), now + i);
  }
  const std::int64_t later = now + minute;
  CHECK(few->find(lone, later));
  CHECK(few->find(open, later));
  CHECK_FALSE(few->find(rest[0], later));
  CHECK_FALSE(few->find(rest[2], later));
  CHECK(few->find(rest[3], later));
  CHECK(few->find(rest.back(), later));

  // It is as if used until it was closed, over a restart too.
  REQUIRE(few->save(now + 40));
  stream.reset();
  const auto after = again(30);
  after->use(ticket(quiet), now + 50);
  CHECK(after->find(open, later));
  CHECK_FALSE(after->find(rest[3], later));
}

TEST_CASE_FIXTURE(World, "when all have open streams none is forgotten") {
  const auto few = again(4);
  const Principal who = token();
  std::vector<std::string> all;
  std::vector<Tickets::Handle> streams;
  for (int i = 0; i < 9; ++i) {
    all.push_back(ticket(who));
    streams.push_back(few->use(all.back(), now));
  }
  for (const std::string& each : all) CHECK(few->find(each, now + minute));
}

TEST_CASE_FIXTURE(World, "a damaged line costs its own ticket; a file that cannot be read is told") {
  const std::string a = ticket(token());
  const std::string b = ticket(token());
  tickets.use(a, now);
  tickets.use(b, now);
  REQUIRE(tickets.save(now));
  std::string text = contents(path);
  const auto at = text.find(store::to_hex(hash_token(a)));
  REQUIRE(at != text.npos);
  text[at - 2] = '\0';
  put_file(path, text + "{\"hash\":\"00\n\n[]");
  const auto later = again(Tickets::most_used, true);
  CHECK_FALSE(later->find(a, now + minute));
  CHECK(later->find(b, now + minute));

  fs::remove(path);
  fs::create_directory(path);
  CHECK_FALSE(tickets.load());
  tickets.use(ticket(token()), now);
  CHECK_FALSE(tickets.save(now));
  CHECK(tickets.unsaved());  // tried again with the next
}

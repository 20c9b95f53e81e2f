#include "config/print.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "config/read.hpp"
#include "config/syntax.hpp"

using namespace sessiond;
using namespace sessiond::config;

namespace {

std::string shipped_file() {
  std::ifstream file(SESSIOND_SOURCE_DIR "/config/sessiond.json", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the shipped file is what the program prints") { CHECK(shipped_file() == print_defaults()); }

TEST_CASE("the shipped file is the defaults") {
  const auto config = parse_config(shipped_file());
  REQUIRE(config.has_value());
  CHECK(to_json(*config) == to_json(Config{}));
}

TEST_CASE("every key of the shipped file has an explanation above it") {
  std::istringstream lines(print_defaults());
  std::string before;
  for (std::string line; std::getline(lines, line); before = line) {
    CAPTURE(line);
    CHECK(line.size() <= 120);
    if (const std::size_t start = line.find_first_not_of(' '); start != std::string::npos && line[start] == '"')
      CHECK(before.find("// ") != std::string::npos);
  }
}

TEST_CASE("to_json is plain JSON that is read back as the same configuration") {
  Config config;
  CHECK(to_json(parse_config(to_json(config)).value()) == to_json(config));
  config.state_dir = "/tmp/quote\" back\\slash é";
  config.listen.unix.reset();
  config.listen.tcp = {};
  config.listen.hosts = {};
  CHECK_FALSE(parse_config(to_json(config)).has_value());  // nobody could reach it
  config.listen.tcp = {"127.0.0.1:0", "[::1]:0"};
  config.store.checkpoint_duty = 0.1 + 0.2;
  config.store.mode = Config::StoreMode::shared;
  config.journal.max_bytes = 1ULL << 50;
  config.session.identity_links = {{"alice", {"slack:U1", "a:\"{"}}, {"bob", {}}};
  config.session.reset.mode = Config::ResetMode::daily;
  config.session.reset_by_type.direct = Config::Reset{Config::ResetMode::idle, 7, 3};
  config.session.reset_by_type.thread = Config::Reset{};
  config.session.reset_by_channel = {{"a\"b/~", {Config::ResetMode::idle}}, {"slack", {}}};
  config.send_policy_json = R"({"rules":[{"action":"deny","match":{}}]})";
  config.log.level = Config::LogLevel::trace;
  const std::string text = to_json(config);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(to_json(parse_config(text).value()) == text);
}

TEST_CASE("what differs between two configurations is named by its pointer") {
  const Config before;
  Config after;
  CHECK(changed_keys(before, after).empty());
  after.listen.tcp = {"127.0.0.1:1"};
  after.network.threads += 1;
  after.store.lock.stale_ms += 1;
  CHECK(changed_keys(before, after) ==
        std::vector<std::string>{"/listen/tcp", "/network/threads", "/store/lock/staleMs"});
  Config grouped;
  grouped.session.reset_by_type.direct = Config::Reset{};
  const auto added = changed_keys(before, grouped);
  CHECK_FALSE(added.empty());
  CHECK(added.size() == changed_keys(grouped, before).size());
  Config named;
  named.session.reset_by_channel = {{"a/b", {.at_hour = 5}}};
  CHECK(changed_keys(before, named).front() == "/session/resetByChannel/a~1b/mode");
}

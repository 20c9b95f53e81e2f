#include "daemon/cli/command_line.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace sessiond;
using namespace sessiond::cli;

namespace {

std::variant<Command, Answered> parse(std::vector<std::string> arguments) { return parse_command_line(arguments); }

template <class Wanted>
Wanted as(std::vector<std::string> arguments) {
  const auto parsed = parse(std::move(arguments));
  REQUIRE(std::holds_alternative<Command>(parsed));
  const auto& command = std::get<Command>(parsed);
  REQUIRE(std::holds_alternative<Wanted>(command));
  return std::get<Wanted>(command);
}

Answered answered(std::vector<std::string> arguments) {
  const auto parsed = parse(std::move(arguments));
  REQUIRE(std::holds_alternative<Answered>(parsed));
  return std::get<Answered>(parsed);
}

}  // namespace

TEST_CASE("every subcommand becomes its command") {
  const auto serve = as<serve::ServeOptions>({"serve"});
  CHECK_FALSE(serve.config);
  CHECK_FALSE(serve.state_dir);
  CHECK_FALSE(serve.repair);
  const auto repair = as<serve::ServeOptions>({"serve", "--repair", "--config", "/c.json", "--state-dir=/var/lib/x"});
  CHECK(repair.config == "/c.json");
  CHECK(repair.state_dir == "/var/lib/x");
  CHECK(repair.repair);

  CHECK(as<ConfigShow>({"config", "--config", "/c.json"}).where.config == "/c.json");
  CHECK(as<ConfigCheck>({"config", "--check", "--state-dir", "/s"}).where.state_dir == "/s");
  as<ConfigDefaults>({"config", "--print-defaults"});
  as<VersionCommand>({"version"});
  CHECK(as<DoctorCommand>({"doctor", "--json"}).json);
  CHECK_FALSE(as<DoctorCommand>({"doctor"}).json);
  CHECK(as<BackupCommand>({"backup", "-"}).to == "-");
  CHECK(as<ExportCommand>({"export", "k", "--format", "jsonl", "--entry"}).entry);
  CHECK(as<ExportCommand>({"export", "/d", "--layout", "cli", "--agent", "a"}).layout == "cli");
  CHECK(as<ImportCommand>({"import", "/d/../x"}).path == "/x");
  CHECK(as<ImportCommand>({"import", "/d", "--from", "robota", "--if-exists", "continue", "--dry-run"}).dry_run);
  CHECK(answered({"import", "/d", "--from", "nothing"}).exit_code == 2);
  CHECK(answered({"import", "/d", "--format", "json", "--layout", "cli"}).exit_code == 2);
  CHECK(answered({"export", "/d", "--layout", "cli", "-o", "x"}).exit_code == 2);
  CHECK(as<BackupCommand>({"backup", "/b/c/../d", "--state-dir", "/s"}).to == "/b/d");
  CHECK(std::filesystem::path(as<BackupCommand>({"backup", "x"}).to).is_absolute());
  CHECK(as<RestoreCommand>({"restore", "-", "--force"}).force);
  CHECK_FALSE(as<RestoreCommand>({"restore", "/b.tar"}).force);
  CHECK(as<TokenList>({"token", "list", "--json"}).json);
  CHECK(as<TokenRevoke>({"token", "revoke", "abcd1234"}).id == "abcd1234");
  CHECK(as<TokenRotate>({"token", "rotate", "abcd1234"}).id == "abcd1234");
}

TEST_CASE("an overlap is a number and a unit, at most 7 days") {
  CHECK(as<TokenRotate>({"token", "rotate", "abcd1234"}).overlap_ms == 3'600'000);
  const auto overlap = [](const char* text) {
    return as<TokenRotate>({"token", "rotate", "abcd1234", "--overlap", text}).overlap_ms;
  };
  CHECK(overlap("0") == 0);
  CHECK(overlap("0s") == 0);
  CHECK(overlap("250ms") == 250);
  CHECK(overlap("90s") == 90'000);
  CHECK(overlap("15m") == 900'000);
  CHECK(overlap("7d") == 604'800'000);
  for (const char* text : {"", "1", "h", "-1h", "1.5h", "1 h", "1w", "8d", "99999999999999999999d", "9000000000000d"}) {
    CAPTURE(text);
    CHECK(answered({"token", "rotate", "abcd1234", "--overlap", text}).exit_code == 2);
  }
}

TEST_CASE("token create takes every limit, agents again and again") {
  const auto create = as<TokenCreate>({"token", "create", "--role", "bridge", "--agent", "main", "--agent", "codex",
                                       "--key-prefix", "agent:main:", "--channel", "slack", "--note", "a b",
                                       "--expires-at", "1795298400000", "--state-dir", "/s"});
  CHECK(create.wish.role == "bridge");
  CHECK(create.wish.agents == std::vector<std::string>{"main", "codex"});
  CHECK(create.wish.key_prefix == "agent:main:");
  CHECK(create.wish.channel == "slack");
  CHECK(create.wish.note == "a b");
  CHECK(create.wish.expires_at == 1'795'298'400'000);
  CHECK(create.where.state_dir == "/s");
  CHECK_FALSE(as<TokenCreate>({"token", "create", "--role", "viewer"}).wish.expires_at);
}

TEST_CASE("a state directory is made absolute, the home directory is left to the configuration") {
  CHECK(as<serve::ServeOptions>({"serve", "--state-dir", "x/../y"}).state_dir ==
        (std::filesystem::current_path() / "y").native());
  CHECK(as<DoctorCommand>({"doctor", "--state-dir", "~/.openclaw"}).where.state_dir == "~/.openclaw");
}

TEST_CASE("mistakes exit with 2 and tell what was meant") {
  struct Mistake {
    std::vector<std::string> arguments;
    std::string tells;
  };
  const std::vector<Mistake> mistakes = {
      {{}, "try: sessiond --help"},
      {{"sevre"}, "did you mean serve?"},
      {{"frobnicate"}, "there is no command frobnicate"},
      {{"serve", "--repare"}, "did you mean --repair?"},
      {{"serve", "--statedir=/x"}, "did you mean --state-dir?"},
      {{"serve", "more"}, "try: sessiond serve --help"},
      {{"serve", "--config"}, "try: sessiond serve --help"},
      {{"serve", "--state-dir", ""}, "is empty"},
      {{"serve", "--config", ""}, "is empty"},
      {{"token"}, "try: sessiond token --help"},
      {{"token", "crate"}, "did you mean create?"},
      {{"token", "create"}, "--role"},
      {{"token", "create", "--role", "boss"}, "boss"},
      {{"token", "create", "--role", "viewer", "--agent", ""}, "is empty"},
      {{"token", "create", "--role", "viewer", "--key-prefix", ""}, "is empty"},
      {{"token", "create", "--role", "viewer", "--expires-at", "tomorrow"}, "tomorrow"},
      {{"token", "create", "--role", "viewer", "--agent", "a", "b"}, "try: sessiond token create --help"},
      {{"token", "revoke"}, "id"},
      {{"config", "--check", "--print-defaults"}, "--print-defaults"},
      {{"doctor", "--fix"}, "try: sessiond doctor --help"},
  };
  for (const Mistake& mistake : mistakes) {
    const Answered answer = answered(mistake.arguments);
    INFO(answer.err);
    const bool told_by_2 = !mistake.arguments.empty() && mistake.arguments.front() == "doctor";  // of what it found
    CHECK(answer.exit_code == (told_by_2 ? 64 : 2));
    CHECK(answer.out.empty());
    CHECK(answer.err.contains(mistake.tells));
    CHECK(answer.err.ends_with("\n"));
  }
}

TEST_CASE("--help of each command teaches, on stdout") {
  const std::vector<std::vector<std::string>> commands = {
      {}, {"serve"}, {"token"}, {"token", "create"}, {"token", "list"}, {"token", "revoke"}, {"config"}, {"doctor"},
  };
  for (auto arguments : commands) {
    arguments.emplace_back("--help");
    const Answered answer = answered(arguments);
    INFO(answer.out);
    CHECK(answer.exit_code == 0);
    CHECK(answer.err.empty());
    CHECK((answer.out.contains("Exit codes:") || answer.out.contains("Roles:")));
  }
  CHECK(answered({"--help"}).out.contains("Examples:"));
  CHECK(answered({"--version"}).out == std::string("sessiond ") + SESSIOND_VERSION + "\n");
}

#include "config/locate.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "config/print.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::config;
namespace fs = std::filesystem;
using sessiond::testing::TempDir;

namespace {

using Pointers = std::vector<std::string>;

Pointers pointers_to(const std::vector<ConfigFault>& faults) {
  Pointers pointers;
  for (const ConfigFault& fault : faults) pointers.push_back(fault.pointer);
  return pointers;
}

}  // namespace

TEST_CASE("which file: option, variable, user's file, none") {
  const TempDir dir;
  const std::string in_home = dir.write("home/.config/sessiond/sessiond.json", "{}");
  const std::string in_xdg = dir.write("xdg/sessiond/sessiond.json", "{}");
  Environment environment{
      {"HOME", (dir / "home").native()}, {"XDG_CONFIG_HOME", (dir / "xdg").native()}, {"SESSIOND_CONFIG", "/named"}};

  CHECK(locate_config("given.json", environment) == "given.json");
  CHECK(locate_config("", environment) == "/named");
  CHECK(locate_config({}, environment) == "/named");  // although there is no such file
  environment["SESSIOND_CONFIG"] = "";
  CHECK(locate_config({}, environment) == in_xdg);
  environment["XDG_CONFIG_HOME"] = "relative/is/ignored";
  CHECK(locate_config({}, environment) == in_home);
  environment.erase("XDG_CONFIG_HOME");
  CHECK(locate_config({}, environment) == in_home);
  environment["XDG_CONFIG_HOME"] = (dir / "empty").native();  // set: the one in ~/.config does not count
  CHECK(locate_config({}, environment).empty());
  CHECK(locate_config({}, {}).empty());
  CHECK(locate_config({}, {{"HOME", (dir / "home/.config/sessiond/sessiond.json").native()}}).empty());
}

TEST_CASE("the folder of the user's configuration") {
  CHECK(user_config_dir({{"HOME", "/home/u"}, {"XDG_CONFIG_HOME", "/etc/xdg"}}) == "/etc/xdg/sessiond");
  for (const char* ignored : {"", "relative/path"})
    CHECK(user_config_dir({{"HOME", "/home/u"}, {"XDG_CONFIG_HOME", ignored}}) == "/home/u/.config/sessiond");
  CHECK_FALSE(user_config_dir({{"HOME", "relative"}}));
}

TEST_CASE("a file that is there but cannot be read is not passed over") {
  const TempDir dir;
  fs::create_directories(dir / ".config/sessiond");
  fs::create_symlink("gone.json", dir / ".config/sessiond/sessiond.json");
  const Environment environment{{"HOME", dir.path().native()}};
  const std::string located = locate_config({}, environment);
  CHECK(located == (dir / ".config/sessiond/sessiond.json").native());
  const auto config = load_config(located, environment);
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error() == std::vector<ConfigFault>{{"", "reading " + located + ": No such file or directory"}});
}

TEST_CASE("loading: unreadable, too large, not a file") {
  const TempDir dir;
  const Environment environment{{"HOME", "/home/u"}};
  CHECK_FALSE(load_config({(dir / "absent.json").native()}, environment).has_value());
  const auto directory = load_config({dir.path().native()}, environment);
  REQUIRE_FALSE(directory.has_value());
  CHECK(directory.error()[0].detail.find("Is a directory") != std::string::npos);
  const auto endless = load_config({"/dev/zero"}, environment);
  REQUIRE_FALSE(endless.has_value());
  CHECK(endless.error()[0].detail.find("larger than 1 MiB") != std::string::npos);
  CHECK(load_config({dir.write("full.json", "{}" + std::string((1U << 20) - 2, ' '))}, environment).has_value());
  CHECK_FALSE(load_config({dir.write("more.json", "{}" + std::string((1U << 20) - 1, ' '))}, environment).has_value());
}

TEST_CASE("loading: the file, then the environment, then the paths") {
  const TempDir dir;
  Environment environment{{"HOME", "/home/u"}, {"OPENCLAW_SESSION_CACHE_TTL_MS", "0"}};
  const auto defaults = load_config({}, environment);
  REQUIRE(defaults.has_value());
  CHECK(defaults->state_dir == "/home/u/.sessiond");
  CHECK(defaults->listen.unix == "/home/u/.sessiond/sessiond.sock");
  CHECK(defaults->store.cache_ttl_ms == 0);

  const std::string file = dir.write("c.json", R"({"stateDir":"/srv/s//","store":{"cacheTtlMs":5,"mode":"shared"},})");
  const auto config = load_config({file}, environment);
  REQUIRE(config.has_value());
  CHECK(config->state_dir == "/srv/s");
  CHECK(config->listen.unix == "/srv/s/sessiond.sock");
  CHECK(config->store.cache_ttl_ms == 0);
  CHECK(config->store.mode == Config::StoreMode::shared);
  environment.erase("OPENCLAW_SESSION_CACHE_TTL_MS");
  CHECK(load_config({file}, environment)->store.cache_ttl_ms == 5);
}

TEST_CASE("loading: faults of every step together") {
  const TempDir dir;
  const std::string file = dir.write("c.json", R"({"log":{"level":"loud"},"limits":{"connections":0}})");
  const auto config = load_config({file}, {{"OPENCLAW_SESSION_CACHE_TTL_MS", "soon"}});
  REQUIRE_FALSE(config.has_value());
  CHECK(pointers_to(config.error()) == Pointers{"/limits/connections", "/log/level", "/store/cacheTtlMs", "/stateDir"});
}

TEST_CASE("OPENCLAW_SESSION_CACHE_TTL_MS") {
  const auto with = [](const std::string& value, Config& config) {
    return apply_environment(config, {{"OPENCLAW_SESSION_CACHE_TTL_MS", value}});
  };
  Config config;
  CHECK(with("1234", config).empty());
  CHECK(config.store.cache_ttl_ms == 1234);
  CHECK(with("007", config).empty());
  CHECK(config.store.cache_ttl_ms == 7);
  CHECK(with("", config).empty());  // not set
  CHECK(apply_environment(config, {}).empty());
  for (const std::string value : {"-1", "+1", "1.5", "1e3", " 1", "1 ", "0x10", "abc", "1}", "86400001",
                                  "9223372036854775808", "99999999999999999999999999"}) {
    CAPTURE(value);
    const auto faults = with(value, config);
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].pointer == "/store/cacheTtlMs");
    CHECK(faults[0].detail.starts_with("OPENCLAW_SESSION_CACHE_TTL_MS must be a whole number"));
  }
  Config expected;
  expected.store.cache_ttl_ms = 7;
  CHECK(to_json(config) == to_json(expected));  // nothing else was touched
}

TEST_CASE("paths: ~, {stateDir}, and sockets the kernel would refuse") {
  const Environment environment{{"HOME", "/home/u"}};
  Config config;
  config.state_dir = "~";
  config.listen.unix = "~/s.sock";
  CHECK(resolve_paths(config, environment).empty());
  CHECK(config.state_dir == "/home/u");
  CHECK(config.listen.unix == "/home/u/s.sock");
  const Config once = config;
  CHECK(resolve_paths(config, environment).empty());
  CHECK(to_json(config) == to_json(once));

  Config no_socket;
  no_socket.listen.unix.reset();
  CHECK(resolve_paths(no_socket, environment).empty());
  CHECK_FALSE(no_socket.listen.unix.has_value());

  for (const std::size_t length : {107U, 108U}) {
    Config config_of_length;
    config_of_length.state_dir = "/" + std::string(length - 15, 'd');  // + "/sessiond.sock"
    const auto faults = resolve_paths(config_of_length, environment);
    CHECK(config_of_length.listen.unix->size() == length);
    CHECK(pointers_to(faults) == (length > 107 ? Pointers{"/listen/unix"} : Pointers{}));
  }

  Config homeless;
  homeless.listen.unix = "~/s.sock";
  CHECK(pointers_to(resolve_paths(homeless, {})) == Pointers{"/stateDir", "/listen/unix"});
  Config absolute;
  absolute.state_dir = "/srv";
  CHECK(resolve_paths(absolute, {}).empty());
}

TEST_CASE("search.path lies over nothing else") {
  const auto fault_of = [](std::string path, std::string stores = "agents/{agentId}/sessions/sessions.json") {
    Config config;
    config.state_dir = "/srv/state";
    config.store.search.path = std::move(path);
    config.store.path_template = std::move(stores);
    config.audit.path = "/var/log/audit";
    config.listen.tls.key = "{stateDir}/search/key";
    const auto faults = resolve_paths(config, {{"HOME", "/home/u"}});
    return faults.empty() ? config.store.search.path : faults.front().pointer + ": " + faults.front().detail;
  };
  CHECK(fault_of("{stateDir}/search/index.db") == "/srv/state/search/index.db");
  CHECK(fault_of("{stateDir}/search/./a/../i") == "/srv/state/search/i");
  CHECK(fault_of("{stateDir}/search/../../elsewhere") == "/srv/elsewhere");
  CHECK(fault_of("~/index") == "/home/u/index");
  CHECK(fault_of("/srv/stateful") == "/srv/stateful");
  for (const char* bad : {"{stateDir}/tokens.json", "{stateDir}/search/../journal/cursor.key", "/srv/state/search",
                          "{stateDir}/agents/main/sessions/sessions.json", "/srv/./state/policy.json"}) {
    CAPTURE(bad);
    CHECK(fault_of(bad).starts_with("/search/path: in the state directory"));
  }
  for (const char* bad : {"/var/log/audit", "/var/log/audit.4", "/var/log/x/../audit", "{stateDir}/search/key",
                          "{stateDir}/sessiond.sock"}) {
    CAPTURE(bad);
    CHECK(fault_of(bad).contains("is another file of this configuration"));
  }
  CHECK(fault_of("/data/a/i", "/data/{agentId}/s.json") ==
        "/search/path: must not be in /data/, where the agents' "
        "stores are");
  CHECK(fault_of("/database", "/data/{agentId}/s.json") == "/database");
  CHECK(fault_of("/index", "/srv/state/search/{agentId}/s.json").starts_with("/store/pathTemplate"));
}

TEST_CASE("the process's own environment has a home") {
  const Environment environment = process_environment();
  REQUIRE(environment.contains("HOME"));
  CHECK(environment.at("HOME").starts_with('/'));
}

TEST_CASE("SESSIOND_STATE_DIR stands before the file and behind --state-dir") {
  const Environment named{{"HOME", "/home/x"}, {"SESSIOND_STATE_DIR", "/srv/state"}};
  CHECK(load_config({}, named)->state_dir == "/srv/state");
  CHECK(load_config({}, named, "/option")->state_dir == "/option");
  CHECK(load_config({}, {{"HOME", "/home/x"}, {"SESSIOND_STATE_DIR", "~/state/"}})->state_dir == "/home/x/state");
  CHECK(load_config({}, {{"HOME", "/home/x"}, {"SESSIOND_STATE_DIR", ""}})->state_dir == "/home/x/.sessiond");
  CHECK(load_config({}, {{"HOME", "/home/x"}, {"SESSIOND_STATE_DIR", "state"}})->state_dir.ends_with("/state"));
  CHECK(load_config({}, {{"HOME", "/home/x"}, {"SESSIOND_STATE_DIR", "state"}})->state_dir.starts_with("/"));
}

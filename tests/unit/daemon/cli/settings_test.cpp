#include "daemon/serve/settings.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "daemon/cli/config_command.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::cli;
using sessiond::testing::TempDir;

namespace {

std::string write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path) << text;
  return path.native();
}

}  // namespace

TEST_CASE("--state-dir moves the socket with it") {
  TempDir dir;
  const std::string file = write(dir / "c.json", R"({"stateDir":"/somewhere","log":{"level":"warn"}})");
  const auto plain = serve::load_settings(file, {});
  REQUIRE(plain);
  CHECK(plain->config.listen.unix == "/somewhere/sessiond.sock");
  CHECK(plain->file == file);
  const auto moved = serve::load_settings(file, "/elsewhere/");
  REQUIRE(moved);
  CHECK(moved->config.state_dir == "/elsewhere");
  CHECK(moved->config.listen.unix == "/elsewhere/sessiond.sock");
  CHECK(moved->config.log.level == config::Config::LogLevel::warn);
}

TEST_CASE("every fault is told with file and pointer, those of the send policy too") {
  TempDir dir;
  const std::string broken = write(dir / "a.json", R"({"listen":{"tcp":"nonsense"},"colour":1})");
  const auto faults = serve::load_settings(broken, {});
  REQUIRE_FALSE(faults);
  CHECK(serve::to_text(faults.error()).contains(broken + ": /listen/tcp"));
  CHECK(serve::to_text(faults.error()).contains(broken + ": /colour: "));
  const std::string policy = write(dir / "b.json", R"({"sendPolicy":{"rules":[{"action":"perhaps"}],"x":1}})");
  const auto refused = serve::load_settings(policy, {});
  REQUIRE_FALSE(refused);
  CHECK(serve::to_text(refused.error()).contains(policy + ": /sendPolicy/rules/0/action: "));
  CHECK(serve::to_text(refused.error()).contains(policy + ": /sendPolicy/x: "));
  CHECK_FALSE(serve::load_settings((dir / "none.json").native(), {}));
}

TEST_CASE("exit codes of config --check and doctor") {
  TempDir dir;
  const std::string good = write(dir / "good.json", "{}");
  const std::string bad = write(dir / "bad.json", "{\"x\":1}");
  CHECK(run(ConfigCheck{.where = {.config = good}}) == 0);
  CHECK(run(ConfigCheck{.where = {.config = bad}}) == 1);
  CHECK(run(ConfigShow{.where = {.config = bad}}) == 1);
  CHECK(run(DoctorCommand{.where = {.config = good, .state_dir = (dir / "none").native()}}) == 2);
  CHECK(run(DoctorCommand{.where = {.config = bad}}) == 2);
}

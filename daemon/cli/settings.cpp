#include "daemon/cli/settings.hpp"

#include <fmt/format.h>

#include "config/locate.hpp"
#include "policy/send_policy.hpp"

namespace sessiond {
namespace {

std::vector<ConfigFault> send_policy_faults(std::string_view json) {
  std::vector<ConfigFault> faults;
  const auto policy = parse_send_policy(json, "/sendPolicy");
  if (policy) return faults;
  for (const Fault& fault : policy.error().errors) faults.push_back({fault.pointer, fault.detail});
  if (faults.empty()) faults.push_back({"/sendPolicy", policy.error().detail});
  return faults;
}

}  // namespace

std::expected<Settings, SettingsFaults> load_settings(const std::optional<std::string>& config_option,
                                                      const std::optional<std::string>& state_dir_option) {
  const Environment environment = process_environment();
  const Located located = locate_config(config_option, environment);
  SettingsFaults found{.file = located.path};
  auto config = load_config(located, environment, state_dir_option, send_policy_faults);
  if (!config) {
    found.faults = std::move(config.error());
    return std::unexpected(std::move(found));
  }
  return Settings{.config = std::move(*config), .file = located.path};
}

std::filesystem::path socket_of(const Config& config) {
  return config.listen.unix ? std::filesystem::path(*config.listen.unix)
                            : std::filesystem::path(config.state_dir) / "sessiond.sock";
}

std::string to_text(const SettingsFaults& faults) {
  const std::string file = faults.file.empty() ? "(no configuration file)" : faults.file;
  std::string text;
  for (const ConfigFault& fault : faults.faults)
    text += fmt::format("{}: {}: {}\n", file, fault.pointer.empty() ? "/" : fault.pointer, fault.detail);
  return text;
}

std::string origin_of(const Settings& settings) {
  return settings.file.empty() ? "the defaults (there is no configuration file)" : settings.file;
}

}  // namespace sessiond

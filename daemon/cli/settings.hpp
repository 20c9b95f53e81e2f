// The configuration as every subcommand sees it: found, read and checked, with --state-dir put over it. All faults at
// once, those of the send policy among them.
#pragma once

#include <expected>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace sessiond {

struct Settings {
  Config config{};
  std::string file{};  // empty: there is none, the defaults hold
};
struct SettingsFaults {
  std::string file{};
  std::vector<ConfigFault> faults{};
};

std::expected<Settings, SettingsFaults> load_settings(const std::optional<std::string>& config_option,
                                                      const std::optional<std::string>& state_dir_option);

// Where the daemon of this configuration listens for this user.
std::filesystem::path socket_of(const Config& config);

// One line a fault: "<file>: <pointer>: <detail>\n".
std::string to_text(const SettingsFaults& faults);
std::string origin_of(const Settings& settings);  // for people: the file, or that there is none

}  // namespace sessiond

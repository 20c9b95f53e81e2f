// The configuration as every subcommand sees it: found, read and checked, with --state-dir put over it. All faults at
// once, those of the send policy among them.
#pragma once

#include <cstdint>
#include <expected>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "daemon/http/tls_context.hpp"
#include "store/problem.hpp"

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

// The state directory that was named (--state-dir, else SESSIOND_STATE_DIR), whatever the configuration says.
std::optional<std::string> named_state_dir(const std::optional<std::string>& state_dir_option);
// not_found, naming the directory and how to name another, when there is none. Only serve and restore make one.
Result<void> require_state_dir(const Config& config);
inline constexpr std::string_view how_to_name_it =
    "name the one that the daemon uses (--state-dir, SESSIOND_STATE_DIR, or stateDir in the configuration); "
    "sessiond serve makes it";

// Where the daemon of this configuration listens for this user.
std::filesystem::path socket_of(const Config& config);

// What is wrong with the files that the configuration names: TLS files that cannot be used, an audit log that is no
// file. Valid keys may name files that are made later, so this is no part of load_settings.
std::vector<ConfigFault> file_faults(const Config& config);
TlsFiles tls_files(const Config& config);

std::string counted(std::uint64_t number, std::string_view noun);  // "1 file", "2 files"

// One line a fault: "<file>: <pointer>: <detail>\n".
std::string to_text(const SettingsFaults& faults);
std::string origin_of(const Settings& settings);  // for people: the file, or that there is none

}  // namespace sessiond

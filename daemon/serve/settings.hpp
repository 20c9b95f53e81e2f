// The configuration as every subcommand uses it: located, read and checked, with --state-dir applied. All faults are
// returned at once, those of the send policy included.
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

namespace sessiond::serve {

struct Settings {
  config::Config config{};
  std::string file{};  // empty when there is no file and the defaults apply
};
struct SettingsFaults {
  std::string file{};
  std::vector<config::ConfigFault> faults{};
};

std::expected<Settings, SettingsFaults> load_settings(const std::optional<std::string>& config_option,
                                                      const std::optional<std::string>& state_dir_option);

// Returns the state directory that --state-dir, else SESSIOND_STATE_DIR, names. Does not read the configuration.
std::optional<std::string> named_state_dir(const std::optional<std::string>& state_dir_option);
// Returns the path of the first admin token. Errors: not_found when the environment names no folder for it.
Result<std::filesystem::path> admin_token_path();
// Errors: not_found when the state directory does not exist; the detail says how to name another one. Only serve and
// restore create it.
Result<void> require_state_dir(const config::Config& config);

// Returns the unix socket of the daemon that has this configuration.
std::filesystem::path socket_of(const config::Config& config);

// Checks the files that the configuration names: TLS files that cannot be used, an audit log that is not a file.
// load_settings does not do this, since a valid configuration may name files that are created later.
std::vector<config::ConfigFault> file_faults(const config::Config& config);
http::TlsFiles tls_files(const config::Config& config);

std::string counted(std::uint64_t number, std::string_view noun);  // "1 file", "2 files"

// One line for each fault: "<file>: <pointer>: <detail>\n".
std::string to_text(const SettingsFaults& faults);
std::string origin_of(const Settings& settings);  // the file for people, or that there is none

// Takes over what a running daemon can change: all but the state directory, addresses, threads, store and journal.
void take_reloadable(config::Config& config, const config::Config& fresh);

}  // namespace sessiond::serve

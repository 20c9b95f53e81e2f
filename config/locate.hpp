// Locates the configuration file and applies environment variables to the configuration. Only process_environment()
// reads the real environment, so that tests can pass any other.
#pragma once

#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/read.hpp"

namespace sessiond::config {

using Environment = std::map<std::string, std::string, std::less<>>;  // an empty value means not set

// Returns the variables of this process. HOME comes from the user database if it is not an absolute path.
Environment process_environment();
inline constexpr std::string_view state_dir_variable = "SESSIOND_STATE_DIR";

// Returns the folder of the user's configuration, $XDG_CONFIG_HOME/sessiond (~/.config/sessiond); nothing when neither
// variable names an absolute path.
std::optional<std::string> user_config_dir(const Environment& environment);

// Returns the path of the configuration file; "" when there is none and the defaults apply. The path is --config, else
// SESSIOND_CONFIG, else $XDG_CONFIG_HOME/sessiond/sessiond.json (~/.config/…) if it exists. A file that is named
// explicitly is returned even if it does not exist; load_config then reports the fault.
std::string locate_config(const std::optional<std::string>& cli_option, const Environment& environment);

// Applies SESSIOND_STATE_DIR to stateDir (a relative path starts at the working directory), and
// OPENCLAW_SESSION_CACHE_TTL_MS to store.cacheTtlMs.
std::vector<ConfigFault> apply_environment(Config& config, const Environment& environment);

// Makes stateDir and listen.unix absolute: replaces ~ by HOME and {stateDir} by the state directory. Faults: HOME is
// not set; the socket path is longer than the kernel allows (107 bytes); search.path lies over something else.
std::vector<ConfigFault> resolve_paths(Config& config, const Environment& environment);

// Does all steps: reads the file (at most 1 MiB; "": none), parses it, and calls apply_environment and resolve_paths.
// Returns the faults of all steps. The state directory is `state_dir` (--state-dir), else SESSIOND_STATE_DIR, else the
// file's.
std::expected<Config, std::vector<ConfigFault>> load_config(const std::string& file, const Environment& environment,
                                                            const std::optional<std::string>& state_dir = {},
                                                            const SendPolicyCheck& check_send_policy = {});

}  // namespace sessiond::config

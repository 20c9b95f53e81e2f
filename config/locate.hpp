// Where the configuration comes from, and what the process's surroundings add to it. None of this reads the real
// environment but process_environment, so all of it can be tested with any.
#pragma once

#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/read.hpp"

namespace sessiond {

using Environment = std::map<std::string, std::string, std::less<>>;  // an empty value counts as not set

// The variables of this process; HOME comes from the user database where it is not set.
Environment process_environment();
inline constexpr std::string_view state_dir_variable = "SESSIOND_STATE_DIR";

struct Located {
  std::string path{};  // empty: there is no file, the defaults hold
  friend bool operator==(const Located&, const Located&) = default;
};

// --config, else SESSIOND_CONFIG, else $XDG_CONFIG_HOME/sessiond/sessiond.json (~/.config/…) if there is one. A file
// that was named is never passed over: that it cannot be read is load_config's fault.
Located locate_config(const std::optional<std::string>& cli_option, const Environment& environment);

// SESSIOND_STATE_DIR overrides stateDir (a relative one is below the working directory), OPENCLAW_SESSION_CACHE_TTL_MS
// store.cacheTtlMs.
std::vector<ConfigFault> apply_environment(Config& config, const Environment& environment);

// Makes stateDir and listen.unix absolute: ~ is HOME, {stateDir} the state directory. Faults: no HOME, a socket path
// that the kernel would not take (more than 107 bytes).
std::vector<ConfigFault> resolve_paths(Config& config, const Environment& environment);

// All of it: read the file (at most 1 MiB), parse, apply_environment, resolve_paths. All faults of all steps. The state
// directory is `state_dir` (--state-dir), else SESSIOND_STATE_DIR, else the file's.
std::expected<Config, std::vector<ConfigFault>> load_config(const Located& located, const Environment& environment,
                                                            const std::optional<std::string>& state_dir = {},
                                                            const SendPolicyCheck& check_send_policy = {});

}  // namespace sessiond

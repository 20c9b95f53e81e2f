// Parses a configuration: JSON with comments and trailing commas. Unknown keys and values out of range are faults, and
// all faults are returned at once. An absent key has its default. Reads nothing but the text.
#pragma once

#include <expected>
#include <functional>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace sessiond::config {

// `check_send_policy` checks send_policy_json, so that its faults are returned with all others. (The rules are in
// policy/, which config/ does not include.)
using SendPolicyCheck = std::function<std::vector<ConfigFault>(std::string_view json)>;
std::expected<Config, std::vector<ConfigFault>> parse_config(std::string_view text,
                                                             const SendPolicyCheck& check_send_policy = {});

// Sets the keys that `text` has and leaves the others as they are; a key with a fault keeps its value. Does not look
// for contradictions between keys.
void overlay(Config& config, std::string_view text, std::vector<ConfigFault>& faults);

}  // namespace sessiond::config

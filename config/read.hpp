// Reads a configuration: JSON with comments and trailing commas. Either every key is understood and every value in
// range, or the answer is all faults at once; what is left out has its default. Nothing is looked up outside the text.
#pragma once

#include <expected>
#include <functional>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace sessiond {

// `check_send_policy` is asked about send_policy_json, so that its faults come with all others; policy/ knows its
// rules.
using SendPolicyCheck = std::function<std::vector<ConfigFault>(std::string_view json)>;
std::expected<Config, std::vector<ConfigFault>> parse_config(std::string_view text,
                                                             const SendPolicyCheck& check_send_policy = {});

namespace config {

// Sets the keys that `text` gives and leaves the others; a key with a fault keeps its value. Contradictions between
// keys are not looked for.
void overlay(Config& config, std::string_view text, std::vector<ConfigFault>& faults);

}  // namespace config
}  // namespace sessiond

// Prints configurations: the annotated file that is shipped as config/sessiond.json, and the effective values as JSON.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace sessiond::config {

// Returns every key with its default, range and purpose, as JSON with comments. parse_config() of it returns Config{}.
std::string print_defaults();

// Returns every key as plain JSON on one line, which parse_config() can read. No key is secret: GET /v1/admin/config
// returns this.
std::string to_json(const Config& config);

// Returns the JSON pointers of the keys whose values differ, in the order of the file.
std::vector<std::string> changed_keys(const Config& before, const Config& after);

}  // namespace sessiond::config

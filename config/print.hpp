// Configurations as text: the annotated file that is shipped as config/sessiond.json, and the effective values as JSON.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace sessiond {

// Every key with its default, its range and what it is for, as JSON with comments; parse_config of it gives Config{}.
std::string print_defaults();

// Every key as plain JSON on one line (GET /v1/admin/config; nothing in it is secret today). parse_config reads it
// back.
std::string to_json(const Config& config);

// The keys whose values differ, as JSON pointers, in the order of the file.
std::vector<std::string> changed_keys(const Config& before, const Config& after);

}  // namespace sessiond

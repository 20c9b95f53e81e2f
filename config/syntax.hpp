// JSON with comments and trailing commas, read into a value together with the JSON pointer of every member that is
// given twice (Boost.JSON itself silently keeps the last). Depth at most 32.
#pragma once

#include <boost/json/value.hpp>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace sessiond::config {

struct Document {
  boost::json::value root;
  std::vector<std::string> duplicates;  // JSON pointers, in the order of the text
};

// The fault names line and column (from 1, in characters) and what stands there.
std::expected<Document, ConfigFault> parse_document(std::string_view text);

// "/limits" and "a/b" give "/limits/a~1b".
std::string pointer_to(std::string_view parent, std::string_view name);

}  // namespace sessiond::config

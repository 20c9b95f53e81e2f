// Parses JSON with comments and trailing commas, at most 32 levels deep. Also returns the JSON pointers of members that
// occur twice, which Boost.JSON itself does not report.
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

// The fault has line and column (from 1, in characters) and the text there.
std::expected<Document, ConfigFault> parse_document(std::string_view text);

// "/limits" and "a/b" give "/limits/a~1b".
std::string pointer_to(std::string_view parent, std::string_view name);

}  // namespace sessiond::config

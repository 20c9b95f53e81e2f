// Splits a request target (RFC 9112 §3.2, RFC 3986). The raw path is split at '/' before anything is decoded, and each
// segment is decoded exactly once: so %2F is a character of a name and never a separator. '+' stays '+'.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::http {

// Decodes percent escapes, once. bad_request: a % without two hex digits, or %00.
Result<std::string> percent_decode(std::string_view text);

// Returns the decoded segments of a raw path: "/v1/a%2Fb" is {"v1", "a/b"}, "/" is {""}, "/v1/" is {"v1", ""}.
// bad_request: as percent_decode, and a segment "." or "..", encoded or not.
Result<std::vector<std::string>> split_path(std::string_view raw_path);

// Returns the decoded parameters: "a=1&b" is {{"a","1"},{"b",""}}. Empty ones are skipped. bad_request: as
// percent_decode.
Result<std::vector<std::pair<std::string, std::string>>> split_query(std::string_view raw_query);

}  // namespace sessiond::http

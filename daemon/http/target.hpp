// Splits a request target (RFC 9112 §3.2, RFC 3986). The raw path is split at '/' before anything is decoded, and each
// segment is decoded exactly once: so %2F is a character of a name and never a separator. '+' stays '+'.
#pragma once

#include <boost/container/small_vector.hpp>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::http {

// Decodes percent escapes, once. bad_request: a % without two hex digits, or %00.
Result<std::string> percent_decode(std::string_view text);

// The decoded segments of a raw path: of "/v1/a%2Fb" {"v1", "a/b"}, of "/" {""}, of "/v1/" {"v1", ""}.
class PathSegments {
 public:
  // bad_request: as percent_decode, and a segment "." or "..", encoded or not. The views point into `raw_path`, which
  // outlives them, and for a segment with an escape into this object.
  Result<std::span<const std::string_view>> split(std::string_view raw_path);

 private:
  boost::container::small_vector<std::string_view, 12> segments_;
  std::list<std::string> decoded_;
};

// Returns the decoded parameters: "a=1&b" is {{"a","1"},{"b",""}}. Empty ones are skipped. bad_request: as
// percent_decode.
Result<std::vector<std::pair<std::string, std::string>>> split_query(std::string_view raw_query);

}  // namespace sessiond::http

// The header Range (RFC 9110 §14).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/message.hpp"

namespace sessiond::api {

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t length = 0;
  std::string header(std::uint64_t size) const;  // Content-Range, of a body of this size
};
// One range of bytes is supported. Returns nothing when there is no range or it must be ignored: for HEAD, and with
// If-Range. range_not_satisfiable, with what `what` has ("the transcript").
Result<std::optional<ByteRange>> byte_range(const http::Request& request, std::uint64_t size, std::string_view what);

}  // namespace sessiond::api

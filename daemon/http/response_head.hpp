// The status line and header fields of a reply, written by hand into one string that is used again and again. Adds
// Date, X-Request-Id, Cache-Control, Content-Length and Connection; a CR or LF in a value a handler gave cannot start a
// new field.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/message.hpp"

namespace sessiond {

// The value of Date (RFC 9110 §5.6.7), formatted once a second.
class DateText {
 public:
  std::string_view now();

 private:
  std::time_t second_ = -1;
  char text_[32] = {};
};

struct HeadOptions {
  bool close = false;                     // Connection: close
  bool old_keep_alive = false;            // HTTP/1.0 asked for keep-alive: says so
  std::optional<std::uint64_t> length{};  // Content-Length; none for streams, 204 and 304
};

// JSON ends with a newline, so that a terminal shows its prompt on a line of its own.
void end_with_newline(Response& response);

void write_head(std::string& out, const Response& response, std::string_view request_id, std::string_view date,
                const HeadOptions& options);

}  // namespace sessiond

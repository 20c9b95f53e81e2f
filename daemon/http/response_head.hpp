// Writes the status line and header fields of a reply into one string, whose memory is reused for the next reply. Adds
// Date, X-Request-Id, Cache-Control, Content-Length and Connection. Control characters in a handler's value become
// spaces, so that a value cannot start a new field.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/message.hpp"

namespace sessiond::http {

// The value of Date (RFC 9110 §5.6.7), formatted once a second.
class DateText {
 public:
  std::string_view now();

 private:
  std::time_t second_ = -1;
  std::string text_;
};

struct HeadOptions {
  bool close = false;                     // Connection: close
  bool old_keep_alive = false;            // Connection: keep-alive, which an HTTP/1.0 client has asked for
  std::optional<std::uint64_t> length{};  // Content-Length; not set for streams
};

// Ends a JSON body with a newline, so that a terminal shows its prompt on a line of its own.
void end_with_newline(Response& response);

void write_head(std::string& out, const Response& response, std::string_view request_id, std::string_view date,
                const HeadOptions& options);

}  // namespace sessiond::http

// What RFC 9112 says a server must refuse and Beast lets pass, refused in this one file: bare line feeds and obs-fold
// in the header block and the trailer; missing, doubled or malformed Host; doubled or listed Content-Length; a
// Transfer-Encoding that is not exactly one `chunked`, stands beside Content-Length or in HTTP/1.0; targets of the
// wrong form, with bytes outside ASCII or that no URI has; a second field of a kind that decides who asks or for what;
// control characters in chunk extensions. Every refusal is bad_request (414 and 431 for size), and the connection
// closes after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/message.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct HeaderLimits {
  std::size_t header_bytes = 16 << 10;  // the header fields, all lines together
  std::size_t target_bytes = 8 << 10;
};

// Finds the end of a header block as it comes in, each byte looked at once, and refuses it as soon as a line shows that
// it can never become a good one.
class HeaderScanner {
 public:
  // `received`: all bytes of the request so far. The length of the block with its empty line, 0 when more is needed.
  Result<std::size_t> scan(std::string_view received, const HeaderLimits& limits);

 private:
  std::size_t line_ = 0;        // where the line that is being read starts
  std::size_t looked_ = 0;      // bytes known to hold no further line feed
  std::size_t first_line_ = 0;  // length of the request line with its CRLF, once it is whole
  std::size_t fields_ = 0;
};

// How the rest of the message is framed, and whom it is for.
struct Framing {
  std::string host{};                     // lower-case, without port or brackets; empty: HTTP/1.0 without Host
  std::optional<std::uint64_t> length{};  // Content-Length
  bool chunked = false;
  bool https = false;  // the target is in absolute form and says so
  bool keep_alive = false;
  bool expects_continue = false;
  int minor = 1;  // of HTTP/1.1
};

// Judges a parsed head (names lower-case) and takes the target apart: fills target, path and query. `minor` is the 1 of
// HTTP/1.1.
Result<Framing> check_head(Request& request, int minor, const HeaderLimits& limits);

// Beast lets line feeds and other control characters stand in quoted chunk extensions.
bool chunk_extension_ok(std::string_view extension);

// Beast unfolds obs-fold in the trailer of a chunked body too. `trailer`: from the line after the last chunk's header.
bool trailer_ok(std::string_view trailer);

}  // namespace sessiond

// Refuses what RFC 9112 tells a server to refuse, in a head whose syntax is right and in what Beast accepts of chunks.
// When a proxy in front of the daemon and the daemon read the same bytes differently, a request can be smuggled past
// the proxy; so everything ambiguous is refused here:
// - bare line feeds and obs-fold in the header block and the trailer;
// - a missing, repeated or malformed Host;
// - a Content-Length that is repeated or a list;
// - a Transfer-Encoding that is not exactly one `chunked`, comes with Content-Length, or in HTTP/1.0;
// - targets of the wrong form, with bytes outside ASCII or with characters that a URI must encode;
// - a second Authorization, Content-Type, Idempotency-Key, If-Range, Last-Event-ID, Origin or Range, and more than 100
//   fields: stricter than the RFC;
// - control characters in chunk extensions.
// A refusal is bad_request (414 and 431 for size), is sent at the first byte that shows the fault, and closes the
// connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/head.hpp"
#include "store/problem.hpp"

namespace sessiond::http {

struct HeaderLimits {
  std::size_t header_bytes = 16 << 10;  // the header fields, all lines together
  std::size_t target_bytes = 8 << 10;
};

// Finds the end of a header block while it is being received. Looks at each byte once, and fails as soon as a line
// shows that the block cannot become valid.
class HeaderScanner {
 public:
  // Returns the length of the block with its empty line, 0 when more bytes are needed. `received` is everything that
  // was received of the request so far.
  Result<std::size_t> scan(std::string_view received, const HeaderLimits& limits);

 private:
  std::size_t line_ = 0;        // where the current line starts
  std::size_t looked_ = 0;      // bytes that were searched for a line feed
  std::size_t first_line_ = 0;  // length of the request line with its CRLF, once it is whole
  std::size_t fields_ = 0;
};

// How the rest of the message is framed, and the host it is for.
struct Framing {
  std::string host{};                     // lower-case, without port or brackets; empty: HTTP/1.0 without Host
  std::optional<std::uint64_t> length{};  // Content-Length
  bool chunked = false;
  bool https = false;  // the target is in absolute form, with the scheme https
  bool keep_alive = false;
  bool expects_continue = false;
  int minor = 1;  // of HTTP/1.1
};

// Checks a parsed head, splits the target into request.path and request.query, and joins Cookie fields. An absolute
// target becomes its path.
Result<Framing> check_head(Request& request, const RequestLine& line, const HeaderLimits& limits);

// False when a chunk extension holds a line feed or another control character, which Beast accepts in quotes.
bool chunk_extension_ok(std::string_view extension);

// False when the trailer of a chunked body has a folded line, which Beast accepts. `trailer` begins with the line after
// the last chunk's header.
bool trailer_ok(std::string_view trailer);

}  // namespace sessiond::http

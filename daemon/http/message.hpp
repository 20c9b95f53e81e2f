// HTTP as handlers see it: plain values, without Beast or a socket.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/auth/principal.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::http {

// Says whether a body is JSON of at most this depth, in UTF-8, with each name once an object.
struct JsonChecked {
  std::size_t max_depth = 0;
  std::expected<void, json::Error> result{};
  bool line_ends = false;               // as CheckOptions::line_ends
  std::vector<json::Member> members{};  // of a body that is an object and not long: views into it
};

// Looks at each byte of the body, so for a long one it is called on a disk thread.
JsonChecked check_json(std::string_view body, std::size_t max_depth);

struct Request {
  Request() = default;
  Request(Request&&) = default;  // a copy's headers would be those of the original
  Request& operator=(Request&&) = default;

  std::string method;                                                  // "GET"
  std::string path;                                                    // raw (still percent-encoded) path
  std::vector<std::pair<std::string, std::string>> query;              // decoded, in order
  std::vector<std::pair<std::string_view, std::string_view>> headers;  // names lower-case; point into `head`
  std::vector<char> head;                                              // as received, but for the names
  std::vector<char> cookies;                                           // the header of that name, if it came in parts
  std::string body;
  std::string request_id;           // the client's X-Request-Id, or a new one
  std::string peer;                 // "127.0.0.1:5123" or "unix:<uid>"
  bool local_admin = false;         // unix socket, peer of our own uid
  bool secure = false;              // over TLS
  std::string certificate;          // common name of the client's certificate, verified; "": none
  auth::Principal principal;        // set by the router before the handler runs
  std::string_view pattern;         // of the route, "/v1/agents/{agent}"; set by the router
  std::vector<std::string> params;  // decoded values of the pattern's {…}, in order; the audit log names them

  // Set by the handler, for the audit log:
  bool is_dry_run = false;  // it asked what would change, and changed nothing
  std::string person{};     // in whose name the token speaks; "": in none

  // Set for a request from the network:
  auth::Proof* proof = nullptr;  // what its connection keeps
  bool counted = false;          // limits.requestsPerSecond has counted it: once, however often it is authenticated
  std::function<bool(std::string_view token)> has_room{};  // in limits.bytesPerToken
  std::function<bool()> client_gone{};                     // the client has closed: a long handler can stop
  std::optional<JsonChecked> checked{};                    // of a long body, checked on a disk thread

  std::string_view header(std::string_view lower_name) const;   // "" when absent
  const std::string* query_value(std::string_view name) const;  // the last of that name, or null
};

// A number of the query; nothing when it is absent. bad_request, naming the parameter.
Result<std::optional<std::int64_t>> query_int(const Request& request, std::string_view name, std::int64_t least,
                                              std::int64_t most);
// The names in `text`, with commas between, each trimmed. bad_request, naming the parameter, when there are too many.
Result<std::vector<std::string>> names_in(std::string_view text, std::string_view parameter);

// The body of a reply without a length. Each write is sent at once.
class StreamWriter {
 public:
  virtual ~StreamWriter() = default;
  // Returns false when the client is gone, or read nothing for the stall timeout. The buffers live until it returns.
  virtual boost::asio::awaitable<bool> write(const std::vector<std::string_view>& buffers) = 0;
};

// The socket of a connection that its reply has taken over, after the head was sent. Non-blocking.
struct TakenSocket {
  store::Fd fd{};
  std::string peer{};
  std::shared_ptr<void> slot{};  // in limits.connections; destroying it returns the slot
};

struct Response {
  int status = 200;
  std::string_view content_type = "application/json";  // a literal
  std::vector<std::pair<std::string, std::string>>
      headers;  // besides Date, X-Request-Id, Content-Length and Cache-Control, which write_head adds
  std::string body;
  // Set: the body is this text, which is compiled in. It is not copied, so that a thousand clients that ask for it and
  // read nothing do not hold a thousand copies.
  std::string_view fixed{};
  bool cacheable = false;  // without Cache-Control: no-store
  bool verbatim = false;   // the body is not looked through for halves of surrogate pairs (json::mend_surrogates)
  // Set: the head is sent, then the socket is handed to this function, which may move it to another thread.
  std::function<void(TakenSocket)> take_over;
  // Set: the head is sent, then this writes the body until it returns.
  std::function<boost::asio::awaitable<void>(StreamWriter&)> stream;
  // With `stream`: what it will write, in bytes, where that is known: a client then sees whether all of it came.
  std::optional<std::uint64_t> stream_length{};
  // Set: the body is [offset, offset + length) of this file, read and sent piece by piece. session_reset: another file
  // has the name by now.
  struct FileBody {
    std::string path;
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  std::optional<FileBody> file;
};

// Returns the reply that reports a problem (problem+json, RFC 9457). Its status, title, `retryable` and the headers
// Retry-After, ETag and WWW-Authenticate follow from the code.
Response to_response(const Problem& problem, std::string_view path, std::string_view request_id);
inline Response to_response(const Problem& problem, const Request& request) {
  return to_response(problem, request.path, request.request_id);
}
int status_of(Code code);

using Handler = std::function<boost::asio::awaitable<Result<Response>>(Request&)>;

}  // namespace sessiond::http

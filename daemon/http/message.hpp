// What handlers see of HTTP: plain values. Only http/ and stream/ know Beast.
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

namespace sessiond {

// Whether a body is JSON, to this depth, in UTF-8, with each name once.
struct JsonChecked {
  std::size_t max_depth = 0;
  std::expected<void, json::Error> result{};
};

struct Request {
  std::string method;                                        // "GET"
  std::string target;                                        // as sent, after normalisation of absolute form
  std::string path;                                          // raw (still percent-encoded) path
  std::vector<std::pair<std::string, std::string>> query;    // decoded, in order
  std::vector<std::pair<std::string, std::string>> headers;  // names lower-case
  std::string body;
  std::string request_id;           // echoed or minted
  std::string peer;                 // "127.0.0.1:5123" or "unix:<uid>"
  bool local_admin = false;         // unix socket, peer of our own uid
  bool secure = false;              // over TLS
  std::string certificate;          // common name of the client's certificate, verified; "": none
  Principal principal;              // set by the router before the handler runs
  std::string pattern;              // of the route, "/v1/agents/{agent}"; set by the router
  std::vector<std::string> params;  // decoded values of the pattern's {…}, in order

  // Set for a request from the network:
  bool counted = false;  // by the limit of requests a second: once, however often it is authenticated
  std::function<bool(std::string_view token)> has_room{};  // in limits.bytesPerToken
  std::function<bool()> client_gone{};                     // for what takes long: nobody waits for the reply any more
  std::optional<JsonChecked> checked{};                    // of a long body, made on a disk thread

  std::string_view header(std::string_view lower_name) const;   // "" when absent
  const std::string* query_value(std::string_view name) const;  // the last of that name, or null
};

// The open end of a reply without a length: bytes go out as they are written, in one gather-write a call.
class StreamWriter {
 public:
  virtual ~StreamWriter() = default;
  // False: the client is gone, or took nothing for the stall timeout. The buffers live until it returns.
  virtual boost::asio::awaitable<bool> write(const std::vector<std::string_view>& buffers) = 0;
  virtual bool open() const = 0;
  // Called (on the connection's executor) when the client closes while nothing is being written.
  virtual void on_close(std::function<void()> call) = 0;
};

// A connection that its reply has taken over, the head being sent. Non-blocking.
struct TakenSocket {
  Fd fd{};
  std::string peer{};
  std::shared_ptr<void> slot{};  // in limits.connections, for as long as it lives
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>>
      headers;  // further ones; Date, X-Request-Id, Content-Length, Cache-Control come by themselves
  std::string body;
  // Set: the body is this, which outlives everything (assets compiled in): a thousand clients that ask for it and take
  // none of it must not hold a thousand copies.
  std::string_view fixed{};
  bool cacheable = false;  // assets: no Cache-Control: no-store
  // Set: the head is sent at once, then the connection is this call's, which may give it to another thread.
  std::function<void(TakenSocket)> take_over;
  // Set: the head is sent at once, then this runs until it returns.
  std::function<boost::asio::awaitable<void>(StreamWriter&)> stream;
  // Set: the body is this file's [offset, offset+length), sent piecewise (transcripts of any size).
  struct FileBody {
    std::string path;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  std::optional<FileBody> file;
};

// problem+json (API §2): status, title, retryable, headers (Retry-After, ETag, WWW-Authenticate) come from the code.
Response to_response(const Problem& problem, const Request& request);
int status_of(Code code);

using Handler = std::function<boost::asio::awaitable<Response>(Request&)>;

}  // namespace sessiond

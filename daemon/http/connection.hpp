// One HTTP/1.1 conversation over TCP or a unix socket: a coroutine that reads a request, checks it, lets the router
// answer it, and writes the reply. A deadline is a point in time that the server's tick compares, so a request needs no
// timer of its own. Belongs to the network thread.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "daemon/http/connection_quota.hpp"
#include "daemon/http/in_flight.hpp"
#include "daemon/http/options.hpp"
#include "daemon/http/request_reader.hpp"
#include "daemon/http/response_head.hpp"
#include "daemon/http/router.hpp"

namespace sessiond::http {

class Connection;

constexpr std::size_t file_piece_bytes = 256 << 10;  // of a file's reply, in memory at once

// The state that all connections of a server share. Lives until the last connection is gone.
struct Service {
  const Router& router;
  boost::asio::thread_pool& disk;  // file bodies are read there
  ServerOptions options{};
  Counters counters{};
  DateText date{};
  std::vector<Connection*> connections{};
  ConnectionQuota by_address{};
  InFlight in_flight{};
  std::unordered_set<std::string> addresses{};  // listened on, without port
  bool any_address = false;                     // a wildcard is listened on, so every IP literal is served
  bool draining = false;
  std::string id_prefix{};
  std::uint64_t next_id = 1;
  std::function<void()> on_empty{};  // the last connection is gone

  bool serves(const std::string& host) const;  // lower-case, without port
  // Returns `sent` if it is 1..128 characters of [A-Za-z0-9._-] and does not look like a token, else a new id.
  std::string request_id(std::string_view sent);
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::string name;  // "127.0.0.1:5123" or "unix:<uid>"
    bool unix_socket = false;
    bool local_admin = false;
    bool secure = false;                 // behind TlsFront: a target may have the scheme https
    boost::asio::ip::address address{};  // over TCP
    std::shared_ptr<void> slot{};        // in limits.connectionsPerAddress
    std::string certificate{};           // common name of the client's certificate, verified
  };

  Connection(std::shared_ptr<Service> service, Socket socket, Peer peer);
  ~Connection();

  boost::asio::awaitable<void> run();
  void tick(Clock::time_point now);  // ends a wait that is past its deadline
  void drain();                      // closes if no request is running, else after its reply
  void abort();                      // closes now

 private:
  friend class StreamReply;
  enum class Phase : std::uint8_t { idle, reading, answering, lingering };
  static constexpr auto never = Clock::time_point::max();

  boost::asio::awaitable<bool> receive(Request& request);
  boost::asio::awaitable<bool> may_send_body(Request& request);
  std::optional<Problem> arrived(Request& request);

  // Enforces limits.bytesPerToken on a reply. False: the connection ends without it.
  bool fit(const Request& request, Response& response);
  std::array<boost::asio::const_buffer, 2> prepare(Response& response);
  boost::asio::awaitable<bool> reply(Response& response);
  boost::asio::awaitable<bool> reply_file(const Request& request, Response& response);
  boost::asio::awaitable<bool> begin_stream(const Response& response);
  boost::asio::awaitable<void> reply_stream(Response& response);
  boost::asio::awaitable<void> hand_over(Response& response);
  boost::asio::awaitable<void> refuse(const Request& request, const Problem& problem);
  boost::asio::awaitable<void> linger();
  void head(const Response& response, std::optional<std::uint64_t> length);

  // Writes all of `buffers`. False: the connection is broken, or the client read nothing for the stall timeout.
  boost::asio::awaitable<bool> write(std::span<boost::asio::const_buffer> buffers);

  void arm(Clock::duration timeout);
  void arm_read();  // with the timeout that applies to what was received of the request

  std::shared_ptr<Service> service_;
  std::size_t index_;  // in service_->connections
  Socket socket_;
  Peer peer_;
  RequestReader reader_;
  std::string head_;
  Clock::time_point deadline_ = never;
  Clock::time_point began_{};  // when the wait for a request began, or its first byte was received
  Phase phase_ = Phase::idle;
  bool expired_ = false;    // the tick ended the wait
  bool close_ = false;      // after the current reply
  InFlight::Share body_{};  // of the current request
  auth::Proof proof_{};     // of the last one
  // Copied from the current request, since its handler may move values out of it.
  std::string request_id_;
  bool head_only_ = false;
  bool old_version_ = false;  // HTTP/1.0
};

}  // namespace sessiond::http

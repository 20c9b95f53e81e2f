// One HTTP/1.1 conversation over TCP or a unix socket, as one coroutine: read, check, route, write, time out. Deadlines
// are kept as a point in time that the server's tick looks at, so that a request costs no timer.
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

namespace sessiond {

class Connection;

// What all connections of a server share. Lives until the last of them is gone.
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
  bool any_address = false;                     // a wildcard is listened on: every IP literal is ours
  bool draining = false;
  std::string id_prefix{};
  std::uint64_t next_id = 1;
  std::function<void()> on_empty{};  // the last connection is gone

  bool serves(const std::string& host) const;  // lower-case, without port
  // The client's when it is 1..128 of [A-Za-z0-9._-] and no token by its looks, else a new one.
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
    bool secure = false;                 // TLS ends before us: a target may say https
    boost::asio::ip::address address{};  // over TCP
    std::shared_ptr<void> slot{};       // in limits.connectionsPerAddress
    std::string certificate{};           // common name of the client's certificate, verified
  };

  Connection(std::shared_ptr<Service> service, Socket socket, Peer peer);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  boost::asio::awaitable<void> run();
  void tick(Clock::time_point now);  // ends a wait that is past its deadline
  void drain();                      // closes if no request is running, else after its reply
  void abort();                      // closes now

 private:
  friend class StreamReply;
  enum class Phase : std::uint8_t { idle, reading, answering, lingering };

  boost::asio::awaitable<bool> receive(Request& request);
  boost::asio::awaitable<bool> may_send_body(Request& request);
  std::optional<Problem> arrived(Request& request);
  std::optional<Problem> count_body(const Request& request);
  boost::asio::awaitable<void> check_body(Request& request);
  // What is done with a reply for which the token has no room: false when the connection ends.
  bool fit(const Request& request, Response& response, InFlight::Share& share);
  boost::asio::awaitable<bool> reply(Response& response);
  boost::asio::awaitable<bool> reply_file(const Request& request, Response& response);
  boost::asio::awaitable<bool> begin_stream(const Response& response);
  boost::asio::awaitable<void> reply_stream(Response& response);
  boost::asio::awaitable<void> hand_over(Response& response);
  boost::asio::awaitable<void> refuse(const Request& request, const Problem& problem);
  boost::asio::awaitable<void> linger();
  void head(const Response& response, std::optional<std::uint64_t> length);

  // Takes what the socket takes without waiting from the front of `buffers`; false when the connection is broken.
  bool write_now(std::span<boost::asio::const_buffer>& buffers);
  // All of it, or false: broken, or nothing taken for the stall timeout.
  boost::asio::awaitable<bool> write(std::span<boost::asio::const_buffer> buffers);

  void arm(Clock::duration timeout);
  void arm_read();  // by what is known of the request
  void disarm() { deadline_ = Clock::time_point::max(); }

  std::shared_ptr<Service> service_;
  std::size_t place_;  // in service_->connections
  Socket socket_;
  Peer peer_;
  RequestReader reader_;
  std::string head_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point began_{};  // to wait for a request, or to read it when its first byte is here
  Phase phase_ = Phase::idle;
  bool expired_ = false;    // the tick ended the wait
  bool close_ = false;      // after the current reply
  InFlight::Share body_{};  // of the current request
  // Of the current request, which its handler may have moved from.
  std::string request_id_;
  bool head_only_ = false;
  bool old_version_ = false;  // HTTP/1.0
};

}  // namespace sessiond

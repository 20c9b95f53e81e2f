// Sends a request to a daemon. The daemon of this machine is asked over its unix socket and needs no token, since a
// process of the daemon's user is admin there. Any other is asked over TCP with a token. Blocks, for a bounded time.
#pragma once

#include <chrono>
#include <expected>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond::cli {

// Where a daemon listens.
struct Endpoint {
  Endpoint(std::filesystem::path socket_path) : socket(std::move(socket_path)) {}
  Endpoint(std::string tcp_host, std::string tcp_port, std::string api_token)
      : host(std::move(tcp_host)), port(std::move(tcp_port)), token(std::move(api_token)) {}

  std::filesystem::path socket{};  // empty: TCP
  std::string host{}, port{}, token{};
  bool local() const { return !socket.empty(); }
  std::string name() const {
    if (local()) return socket.native();
    return (host.contains(':') ? "[" + host + "]" : host) + ":" + port;
  }
};

struct DaemonReply {
  unsigned status = 0;
  std::string body{};
};

struct CallError {
  bool nobody_there = false;  // no socket, or nothing listens there: the daemon does not run
  std::string detail{};
};

struct CallOptions {
  std::chrono::milliseconds timeout{10'000};  // of each read and write
  std::size_t most_bytes = 64U << 20;         // of a reply
};

std::expected<DaemonReply, CallError> call_daemon(const Endpoint& daemon, std::string_view method,
                                                  std::string_view target, std::string_view body,
                                                  const CallOptions& options = {});

// Returns the problem that a reply other than 2xx describes. `local`: the daemon was asked over its unix socket.
Problem problem_of(const DaemonReply& reply, bool local = true);

// Sends a request whose reply may have any size: passes the body of a 2xx reply to `take` as it comes; the returned
// reply has no body. A body without a Content-Length ends when the daemon closes the connection, so its format must
// show whether it is complete. An error of `take` ends the call.
std::expected<DaemonReply, CallError> download(const Endpoint& daemon, std::string_view method, std::string_view target,
                                               const std::function<Result<void>(std::string_view)>& take,
                                               const CallOptions& options = {});

// Opens an event stream. Returns its socket, from which the reply comes, head included.
std::expected<store::Fd, CallError> open_stream(const Endpoint& daemon, std::string_view target);

// Parses a reply that was read to its end. Fails when it is not one or was cut short.
std::expected<DaemonReply, std::string> parse_reply(std::string_view text);

}  // namespace sessiond::cli

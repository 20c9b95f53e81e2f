// Sends a request to this machine's daemon over its unix socket. Sends no token: a process of the daemon's user is
// admin there. Blocks, for a bounded time.
#pragma once

#include <chrono>
#include <expected>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::cli {

struct DaemonReply {
  unsigned status = 0;
  std::string body{};
};

struct CallError {
  bool nobody_there = false;  // no socket, or nothing listens on it: the daemon does not run
  std::string detail{};
};

struct CallOptions {
  std::chrono::milliseconds timeout{10'000};  // of each read and write
  std::size_t most_bytes = 64U << 20;         // of a reply
};

std::expected<DaemonReply, CallError> call_daemon(const std::filesystem::path& socket, std::string_view method,
                                                  std::string_view target, std::string_view body,
                                                  const CallOptions& options = {});

// Returns the problem that a reply other than 2xx describes.
Problem problem_of(const DaemonReply& reply);

// Sends a POST whose reply may have any size: passes the body of a 2xx reply to `take` as it comes; the returned reply
// has no body. The body ends when the daemon closes the connection, so its format must show whether it is complete. An
// error of `take` ends the call.
std::expected<DaemonReply, CallError> download(const std::filesystem::path& socket, std::string_view target,
                                               const std::function<Result<void>(std::string_view)>& take,
                                               const CallOptions& options = {});

// Parses a reply that was read to its end. Fails when it is not one or was cut short.
std::expected<DaemonReply, std::string> parse_reply(std::string_view text);

}  // namespace sessiond::cli

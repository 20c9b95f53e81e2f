// A request to the daemon of this machine over its unix socket, answered or failed within seconds. Who runs as the
// daemon's user is admin there (API §7), so no token is sent. Blocks.
#pragma once

#include <chrono>
#include <expected>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond {

struct DaemonReply {
  int status = 0;
  std::string body{};
};

struct CallError {
  bool nobody_there = false;  // no socket, or one that nobody listens on: the daemon does not run
  std::string detail{};
};

struct CallOptions {
  std::chrono::milliseconds timeout{10'000};  // of each read and write
  std::size_t most_bytes = 64U << 20;         // of a reply
};

std::expected<DaemonReply, CallError> call_daemon(const std::filesystem::path& socket, std::string_view method,
                                                  std::string_view target, std::string_view body,
                                                  const CallOptions& options = {});

// What an answer that is no 2xx says.
Problem problem_of(const DaemonReply& reply);

// POST whose answer may have any size: the body of a 2xx answer goes to `take` as it comes and is not in the reply. It
// ends when the daemon closes, so what it is must say by itself whether it is whole. What `take` refuses ends the call.
std::expected<DaemonReply, CallError> download(const std::filesystem::path& socket, std::string_view target,
                                               const std::function<Result<void>(std::string_view)>& take,
                                               const CallOptions& options = {});

// Head and body of a whole reply, as it was read to its end; a detail when it is none or was cut off.
std::expected<DaemonReply, std::string> parse_reply(std::string_view text);

}  // namespace sessiond

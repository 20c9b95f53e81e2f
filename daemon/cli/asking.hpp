// Parts of the commands that ask a running daemon: which daemon, one request, and how a command ends.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/cli/client.hpp"
#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

int as_code(Exit code);

// The end of a command that could not be carried out; `detail` goes to stderr.
struct Ended {
  Exit code = Exit::failed;
  std::string detail{};
};
template <class Value>
using Answer = std::expected<Value, Ended>;

std::unexpected<Ended> ended(std::string detail, Exit code = Exit::failed);
// Prints why a command ended, and returns its exit code.
int told(std::string_view command, const Ended& end);

Answer<Endpoint> endpoint_of(const Asked& asked);
// Sends a request; the body of a 2xx.
Answer<std::string> answer_of(const Endpoint& daemon, std::string_view method, std::string_view target,
                              std::string_view body = {}, const CallOptions& options = {});

std::string in_url(std::string_view text);            // percent-encoded
std::string agent_in(std::string_view key);           // the agent that a key names, else main
std::string path_of(const NamedSession& session);     // /v1/agents/…/sessions/…
std::string time_of(std::optional<std::int64_t> ms);  // 2026-11-23 11:25, UTC; "-" for none
std::string text_at(std::string_view object, std::string_view name);

}  // namespace sessiond::cli

// The sender of a request and its rights: a role says what it may do; agents, an optional key prefix and an optional
// channel say in which sessions. A token of role session has one session instead, and all that descend from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::auth {

enum class Role : std::uint8_t { admin, operator_, bridge, runner, viewer, metrics, session };
std::string_view name(Role role);
std::optional<Role> role(std::string_view name);

// The permission that a route needs. Each route declares exactly one.
enum class Permission : std::uint8_t {
  open,         // no token: healthz, readyz, version, openapi, dashboard
  read,         // GET of sessions and messages
  stream,       // event streams: only these routes accept a ticket instead of a token
  ticket,       // making a ticket for them
  write,        // sessions
  append,       // messages
  spawn,        // children of a session
  bridge,       // inbound, route
  send,         // outbound
  deliver,      // deliveries: claim, ack, nack, extend
  run,          // runs: start, claim, tell, finish
  abort,        // stopping a run
  approvals,    // GET of approvals
  approve,      // answering them
  takeover,     // speaking in place of the agent; who was given it may send, too
  hook,         // answering calls of hooks
  policy,       // PUT of the send policy
  maintenance,  // checkpoint, locks, doctor, config
  tokens,       // making and revoking tokens
  metrics,      // /metrics
  self,         // whoami: any valid token
  mcp,          // the Model Context Protocol: any valid token, but as Authorization alone
};
std::string_view name(Permission permission);  // for `detail` of a 403

struct Principal {
  std::string id;  // token id, "local" for the unix socket, "" for an anonymous sender
  Role role = Role::viewer;
  std::vector<std::string> agents{};  // empty: all
  std::string key_prefix{};           // empty: all
  std::string channel{};              // empty: all
  std::string key{};                  // of role session: its session; else empty
  std::string note{};
  std::vector<std::string> permissions{};  // that the token has beside those of its role: approve, hook, takeover

  // Says whether the role or the permissions allow it. An anonymous sender may only use open routes. `tokens` also
  // requires sees_everything(), since a new token may have no limits. `policy` and `maintenance` are not restricted
  // here: routes that reach every agent check sees_everything() themselves.
  bool may(Permission permission) const;
  bool sees_agent(std::string_view agent) const;
  // `session_channel` is the session's committed channel. Of role session this tells only of its own session: those
  // that descend from it are known to api::sees and to stream::StreamView.
  bool sees(std::string_view agent, std::string_view session_key, std::string_view session_channel) const;
  bool sees_whole_agent(std::string_view agent) const;  // restricted by neither key prefix, channel nor session
  bool sees_everything() const;
};

// A connection keeps this of the token of its last request. The next request with the same header has the same sender,
// as long as no token has changed (Tokens::authenticate).
struct Proof {
  std::string authorization{};
  std::uint64_t generation = 0;  // Tokens::generation() then; 0: nothing is kept
  std::optional<std::int64_t> expires_at{};
  std::shared_ptr<std::atomic<std::int64_t>> used_at{};  // of the token
  Principal principal{};
};

}  // namespace sessiond::auth

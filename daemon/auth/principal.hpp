// Who asks, and what they may do (API §7): a role, times agents, times an optional key prefix and channel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond {

enum class Role : std::uint8_t { admin, operator_, bridge, runner, viewer, metrics };
std::string_view name(Role role);
std::optional<Role> role(std::string_view name);

// What a route needs. Each route declares exactly one.
enum class Permission : std::uint8_t {
  open,         // no token: healthz, readyz, version, openapi, dashboard
  read,         // GET of sessions and messages
  stream,       // event streams: these routes, and no others, take a ticket in the place of a token
  ticket,       // making a ticket for them: whoever may stream
  write,        // sessions and messages
  bridge,       // inbound, route
  send,         // outbound
  policy,       // PUT of the send policy
  maintenance,  // checkpoint, locks, doctor, config
  tokens,       // making and revoking tokens
  metrics,      // /metrics
  self,         // whoami: any valid token
};
std::string_view name(Permission permission);  // for `detail` of a 403

struct Principal {
  std::string id;  // token id, "local" for the unix socket, "" for nobody
  Role role = Role::viewer;
  std::vector<std::string> agents{};  // empty: all
  std::string key_prefix{};           // empty: all
  std::string channel{};              // empty: all
  std::string note{};

  // What the role allows; nobody (no id) may only what is open. `tokens` also needs sees_everything(): who makes tokens
  // can make one without limits. `policy` and `maintenance` are not narrowed here: routes that reach every agent ask
  // sees_everything() too.
  bool may(Permission permission) const;
  // Of an event that concerns the whole store (empty agent) only who sees all agents.
  bool sees_agent(std::string_view agent) const;
  // The session's committed channel; scope by key prefix and channel hides everything else.
  bool sees(std::string_view agent, std::string_view key, std::string_view session_channel) const;
  bool sees_whole_agent(std::string_view agent) const;  // neither key prefix nor channel
  bool sees_everything() const;
};

}  // namespace sessiond

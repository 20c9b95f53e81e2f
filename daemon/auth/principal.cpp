#include "daemon/auth/principal.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "store/names.hpp"

namespace sessiond::auth {
namespace {

// In the order of the enums.
constexpr std::array<std::string_view, 7> role_names{"admin",  "operator", "bridge", "runner",
                                                     "viewer", "metrics",  "session"};
constexpr std::array<std::string_view, 22> permission_names{
    "open",   "read",        "stream", "ticket",  "write",     "append",  "spawn",    "bridge",
    "send",   "deliver",     "run",    "abort",   "approvals", "approve", "takeover", "hook",
    "policy", "maintenance", "tokens", "metrics", "self",      "mcp"};
static_assert(role_names.size() == static_cast<std::size_t>(Role::session) + 1);
static_assert(permission_names.size() == static_cast<std::size_t>(Permission::mcp) + 1);

using Permissions = std::uint32_t;

constexpr Permissions bit(Permission permission) { return 1U << static_cast<unsigned>(permission); }

constexpr Permissions of(std::initializer_list<Permission> permissions) {
  Permissions all = bit(Permission::open) | bit(Permission::self) | bit(Permission::mcp);
  for (const Permission permission : permissions) all |= bit(permission);
  return all;
}

constexpr Permissions granted(Role role) {
  using enum Permission;
  switch (role) {
    case Role::admin:
      return of({read, stream, ticket, write, append, spawn, bridge, send, deliver, run, Permission::abort, approvals,
                 approve, takeover, hook, policy, maintenance, tokens, Permission::metrics});
    case Role::operator_:
      return of({read, stream, ticket, write, append, spawn, bridge, send, deliver, run, Permission::abort, approvals,
                 approve, takeover, hook, policy, maintenance, Permission::metrics});
    case Role::bridge:
      return of({read, stream, ticket, Permission::bridge, send, deliver, Permission::abort, approvals});
    case Role::runner:
      return of({read, stream, ticket, write, append, spawn, send, run, Permission::abort, approvals});
    case Role::viewer:
      return of({read, stream, ticket, approvals});
    case Role::metrics:
      return of({Permission::metrics});
    case Role::session:
      return of({read, stream, append, spawn, approvals});
  }
  return 0;
}

// An empty channel in the scope restricts nothing. A session without a channel matches no other scope.
bool channel_matches(std::string_view scope, std::string_view channel) {
  return scope.empty() || (scope.size() == channel.size() && store::starts_with_nocase(channel, scope));
}

}  // namespace

std::string_view name(Role role) { return role_names.at(static_cast<std::size_t>(role)); }

std::optional<Role> role(std::string_view text) {
  const auto found = std::ranges::find(role_names, text);
  if (found == role_names.end()) return std::nullopt;
  return static_cast<Role>(found - role_names.begin());
}

std::string_view name(Permission permission) { return permission_names.at(static_cast<std::size_t>(permission)); }

bool Principal::may(Permission permission) const {
  if (permission == Permission::open) return true;
  if (id.empty()) return false;
  if (permission == Permission::tokens && !sees_everything()) return false;
  if ((granted(role) & bit(permission)) != 0) return true;
  const auto is_given = [this](Permission given) {
    return std::ranges::find(permissions, name(given)) != permissions.end();
  };
  if (permission == Permission::hook) return is_given(Permission::hook);
  if (permission == Permission::takeover || permission == Permission::send) return is_given(Permission::takeover);
  const bool about_approvals = permission == Permission::approvals || permission == Permission::approve;
  return about_approvals && is_given(Permission::approve);
}

bool Principal::sees_agent(std::string_view agent) const {
  return agents.empty() || std::ranges::find(agents, agent) != agents.end();
}

bool Principal::sees(std::string_view agent, std::string_view session_key, std::string_view session_channel) const {
  return sees_agent(agent) && channel_matches(channel, session_channel) &&
         (key_prefix.empty() || store::key_has_prefix(session_key, key_prefix)) &&
         (key.empty() || store::folded_key(session_key) == store::folded_key(key));
}

bool Principal::sees_whole_agent(std::string_view agent) const {
  return sees_agent(agent) && key_prefix.empty() && channel.empty() && key.empty();
}

bool Principal::sees_everything() const {
  return agents.empty() && key_prefix.empty() && channel.empty() && key.empty();
}

}  // namespace sessiond::auth

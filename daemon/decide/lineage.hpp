// The sessions that a session descends from by spawnedBy, in any spelling of their keys: its parent, and so on. Foreign
// stores may have rings, and parents that are gone; a parent that is gone still counts as one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/agent_state.hpp"

namespace sessiond::decide {

// Tells whether the session descends from the one with this key, which need not exist.
bool descends_from(const AgentState& state, const Session& session, std::string_view key);
// Returns the session with this key, if it exists, and all that descend from it.
std::vector<const Session*> family_of(const AgentState& state, std::string_view key);

// Marks events with the sessions that theirs descends from. A subscriber may see a session without seeing its
// ancestors, so the marks do not tell their keys: each is a keyed hash.
class Lineage {
 public:
  explicit Lineage(std::string secret) : secret_(std::move(secret)) {}
  std::string tag(std::string_view agent, std::string_view key) const;  // 16 hex digits
  // The tags of a session's ancestors, nearest first, with spaces between; at most 64.
  std::string of(const AgentState& state, const Session& session) const;

 private:
  std::string secret_;
};

}  // namespace sessiond::decide

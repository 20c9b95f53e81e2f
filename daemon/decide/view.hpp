// Sessions as the API shows them: flat, {key,agent,rev,sessionId,createdAt,updatedAt,…fields of the entry…}, with
// legacy names replaced by the current ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/session.hpp"

namespace sessiond::decide {

struct SessionView {
  bool snapshots = true;              // include those of policy/snapshots.hpp
  std::vector<std::string> fields{};  // sorted; only these are shown, and key; empty: all
  bool parent = true;                 // include spawnedBy
  std::string takeover{};             // takeover_json() of the person who speaks in it; empty: the agent does
};
void append_session(std::string& out, std::string_view agent, const Session& session, const SessionView& view = {});
std::string session_json(std::string_view agent, const Session& session, const SessionView& view = {});
std::string etag(const Session& session);  // r<rev>

}  // namespace sessiond::decide

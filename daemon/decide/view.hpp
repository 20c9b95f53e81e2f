// Sessions as the API shows them (API §3): flat, `{key,agent,rev,sessionId,createdAt,updatedAt,…entry fields…}`, legacy
// names renamed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/session.hpp"

namespace sessiond {

struct SessionView {
  bool snapshots = true;              // skillsSnapshot, systemPromptReport
  std::vector<std::string> fields{};  // only these (key always), sorted; empty: all
};
std::string session_json(std::string_view agent, const Session& session, const SessionView& view = {});
std::string etag(const Session& session);  // r<rev>

}  // namespace sessiond

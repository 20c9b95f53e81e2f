// Which session ids are free. One rule for every path that makes or takes one: create, import, inbound, spawn, reset.
//   - An id is taken that a session has, by its id, by the key agent:<a>:session:<id> or by the name of its transcript.
//   - An id that only files without an entry bear is free for those who see the whole agent: they may adopt them.
//   - An id that only archives bear is free for those who see every one of these archives, and for the key they are of.
//   - A purged id is taken while the journal knows of the purge.
// The refusal is the same whichever it is.
#pragma once

#include <string>
#include <string_view>

#include "daemon/decide/decision.hpp"

namespace sessiond {

enum class IdKind : std::uint8_t { uuid, timestamp };
// An id that nothing bears. Looks at nothing but memory.
std::string fresh_session_id(const AgentState& state, const Context& context, IdKind kind = IdKind::uuid);

// May a client name this id for the session `key`, which is `self` if it is there? invalid_id, reserved_name,
// session_exists. When the folder has to be looked at first: sets builder.out.need, and the result is meaningless.
Result<void> claim_session_id(DecisionBuilder& builder, const std::string& id, std::string_view key,
                              const Session* self);

// What S/history shows of the earlier sessions of a key that is made again: a JSON array, empty when there is nothing.
std::string earlier_sessions(const DecisionBuilder& builder, std::string_view key);

}  // namespace sessiond

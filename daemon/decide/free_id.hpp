// Decides which session ids are free: one rule for create, import, inbound, spawn and reset.
//   - An id is taken if a session has it: as its id, in the key agent:<a>:session:<id>, or in the name of its
//     transcript, also if that is the name of a topic's.
//   - If only files without an entry have the id, it is free for tokens that see the whole agent: they may adopt the
//     files.
//   - If only archives have the id, it is free for tokens that see every one of these archives, and for the key that
//     the archives belong to.
//   - A purged id is taken as long as the journal holds the purge. But under the key that it had, a token that sees
//   that
//     session may use it again, unless changes of its messages were left for copies of them: everything else that
//     belonged to the id is forgotten.
// The refusal is the same in each case, so it does not reveal which one it is.
//
// An SDK session id is free if no other session of any agent is mapped to it (sdk_session.hpp). Archives hold none.
#pragma once

#include <string>
#include <string_view>

#include "daemon/decide/decision.hpp"

namespace sessiond::decide {

// Returns the key that a session gets when only its id is given.
std::string key_of_id(const AgentState& state, std::string_view id);

enum class IdKind : std::uint8_t { uuid, timestamp };
// Returns an id that is free by what is in memory.
std::string fresh_session_id(const AgentState& state, const Context& context, IdKind kind = IdKind::uuid);

// Checks whether a client may use this id for the session `key`; `self` is that session if it exists, else null.
// invalid_id, reserved_name, session_exists. If the folder has to be looked at first, sets builder.out.need; the result
// is then meaningless.
Result<void> claim_session_id(DecisionBuilder& builder, const std::string& id, std::string_view key,
                              const Session* self);

// Checks that `session`, as a decision leaves it, takes no SDK session id that another session has; `had` is its id
// before. Doubles that a foreign program wrote stay as they are. sdk_session_taken. If other agents have to be asked
// first, sets builder.out.need; the result is then meaningless.
Result<void> claim_sdk_session(DecisionBuilder& builder, const Session& session, std::string_view had);

// Returns what the history of a new session shows of earlier sessions with the same key: a JSON array, or "" if there
// is nothing. `except`: a session id that is left out.
std::string earlier_sessions(const DecisionBuilder& builder, std::string_view key, std::string_view except = {});

}  // namespace sessiond::decide

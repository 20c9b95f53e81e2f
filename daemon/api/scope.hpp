// The limits of what a token sees. A token may be confined to agents, to sessions whose key begins with a prefix, and
// to a channel, or to one session and its descendants (Principal). For such a token, a session outside its scope does
// not exist: each answer about it is, to the byte, the answer that a missing session gets. Every new answer that
// counts, lists or names something asks `sees`, `sees_whole_agent` or `sees_everything`; tests/api/test_scope.py tries
// all routes.
#pragma once

#include <concepts>
#include <string>

#include "daemon/decide/approval_commands.hpp"
#include "daemon/decide/session_log.hpp"
#include "daemon/decide/takeover_commands.hpp"
#include "daemon/http/message.hpp"
#include "daemon/ledger/ledger.hpp"
#include "store/try.hpp"

namespace sessiond::api {

// The problems of what is absent, and of what the token may not see.
std::unexpected<Problem> no_such_agent(std::string_view agent);
std::unexpected<Problem> no_such_session(std::string_view agent, std::string_view key);

// forbidden unless the token sees all agents and sessions. `action` completes "only a token that sees everything may".
Result<void> require_full_scope(const http::Request& request, std::string_view action);

// A handler fails with `internal` when a file cannot be read or written. That is `degraded`: nothing is acknowledged,
// and the same request may succeed later. The log names the file, the detail only for a token that sees everything. A
// token that sees only part of an agent must not learn whether the agent exists: for such tokens agent_not_found
// becomes session_not_found, and the detail of `degraded` names nothing.
Problem as_seen(Problem problem, const http::Request& request);

// Tells whether the token sees a session: one that lives, or that had this key and channel. A token of role session
// sees its own, and those that descend from it.
bool sees(const auth::Principal& principal, const decide::AgentState& state, const decide::Session& session);
bool sees(const auth::Principal& principal, const decide::AgentState& state, std::string_view key,
          std::string_view channel);
// An archive of a session that several channels reach is hidden as the session is, also if it is older than that.
bool sees(const auth::Principal& principal, const decide::AgentState& state, const decide::ArchiveRecord& record);
// Says whether the token may learn which session spawned this one, which it sees. Of the family of a session token only
// the session of its key has its parent outside.
bool sees_parent(const auth::Principal& principal, std::string_view agent, const decide::Session& session);

// Checks that a new session would lie within the token's scope: forbidden. `channel`: that it is given; empty: that of
// its key.
Result<void> may_create(const auth::Principal& principal, const std::string& agent, const std::string& key,
                        std::string_view channel);

// The session of a path; session_not_found when it is absent or the token may not see it. Never an archived transcript.
Result<const decide::Session*> visible(const decide::AgentState& state, const decide::Target& target,
                                       const auth::Principal& principal);
// The same; null when no session has the key, but archived transcripts that the token may see can have it as their
// session id.
Result<const decide::Session*> visible_or_archived(const decide::AgentState& state, const decide::Target& target,
                                                   const auth::Principal& principal);

// The session that a command is about; null when it is absent. For CreateSession: the session that has its key, as
// given or in canonical form.
const decide::Session* session_named(const decide::AgentState& state, const decide::Target& target);
const decide::Session* session_named(const decide::AgentState& state, const decide::CreateSession& command);

// Checks what a decision would do: forbidden when it makes or changes a session so that it lies outside the token's
// scope, is answered in another channel than the token's, or reaches another transcript through `sessionFile`.
// `admitted`: the command may be about a session outside (admits).
Result<decide::Decision> within_scope(Result<decide::Decision> decided, const auth::Principal& principal,
                                      const decide::AgentState& state, bool admitted);

// Returns whether a command is taken about a session that the token need not see, since several channels reach it: a
// person's message of the token's channel (which routing gives to that session), what was done to such a message later,
// and what the holder of a run's lease tells of the run. `there`: null when a message may make the session.
template <class Command>
bool admits(const auth::Principal& principal, const decide::AgentState& state, const decide::Session* there,
            const Command& command, std::string_view actor) {
  if constexpr (std::same_as<Command, decide::Inbound>)
    return principal.sees(state.id(), command.route.key, command.route.channel);
  if constexpr (std::same_as<Command, decide::ChangeMessage>)
    return there != nullptr && principal.sees(state.id(), there->key(), command.channel);
  if constexpr (requires { command.hold; })
    return there != nullptr && principal.sees(state.id(), there->key(), principal.channel) &&
           (decide::held_run(state, *there, command.hold, actor).has_value() ||
            decide::has_finished(state, *there, command.hold, actor));
  return false;
}

// The lease that a request names in X-Run: <runId>;<fence>. Nothing: it names none. bad_request.
Result<std::optional<decide::RunHold>> run_of(const http::Request& request);

// The name by which the requester's program asks to be remembered: Sessiond-Client. Empty: none. bad_request.
Result<std::string> client_of(const http::Request& request);
inline constexpr std::string_view client_rule = "must be 1 to 128 of A-Z a-z 0-9 . _ : -";

// Checks the lease that a request names in X-Run: it is of the session `there` that the command is about, or, where it
// makes or names another, of any session of the agent. lease_lost.
template <class Command>
Result<void> check_run(const decide::AgentState& state, const decide::Session* there, const Command& command,
                       const decide::RunHold& run, std::string_view actor) {
  if constexpr (requires { command.hold; }) {  // which is checked when it is decided
    if (run != command.hold) return decide::lease_lost(command.target.key, run);
  } else if (there == nullptr) {
    // A target that is not there is told as that.
    if constexpr (std::same_as<Command, decide::PutSession> || !requires { command.target; })
      if (!decide::holds_run(state, run, actor)) return decide::lease_lost("agent " + state.id(), run);
  } else {
    TRY(decide::held_run(state, *there, run, actor));
  }
  return {};
}

// The one front door of what requests change in sessions. Decides a command within the token's scope, and under the run
// that the request names in X-Run, if any: bad_request, lease_lost. A command about a session that the token may not
// see is decided on an agent without sessions, so the answer is that of an absent session; it is forbidden only when it
// would make a session whose key is taken. The checks are part of the decision, so no other commit can come between
// them.
// `request` outlives the decision.
template <class Command>
ledger::Decide scoped(Command command, const http::Request& request) {
  return [command = std::move(command), &request](const decide::AgentState& state, const decide::Context& context,
                                                  const decide::FetchedLines& lines) -> Result<decide::Decision> {
    const auth::Principal& principal = request.principal;
    TRY(const auto run, run_of(request));
    TRY(const auto client, client_of(request));
    decide::Context seen = context;
    seen.sight = {.whole_agent = principal.sees_whole_agent(state.id()),
                  .sees = [&](std::string_view of_key,
                              std::string_view channel) { return sees(principal, state, of_key, channel); },
                  .all = &state};
    seen.client = client;
    seen.sight.sets_policy = principal.may(auth::Permission::policy);
    const auto decided_on = [&](const decide::AgentState& known) -> Result<decide::Decision> {
      if constexpr (requires { decide::decide(known, command, seen, lines); }) {
        return decide::decide(known, command, seen, lines);
      } else {
        return decide::decide(known, command, seen);
      }
    };
    const decide::Session* there = nullptr;
    std::string_view key;
    if constexpr (std::same_as<Command, decide::PutSession>) {
      key = command.target.key;
      there = decide::put_target(state, command);
    } else if constexpr (requires { command.target; }) {
      key = command.target.key;
      there = session_named(state, command.target);
    } else if constexpr (requires { command.reuse; }) {
      key = command.key;
      there = session_named(state, command);
    }
    const bool admitted = admits(principal, state, there, command, context.actor);
    if (there != nullptr && !admitted && !sees(principal, state, *there)) {
      auto absent = decided_on(decide::AgentState(state.id()));
      if (!absent || absent->events.empty()) return absent;
      return fail(Code::forbidden, "this token may not make the session " + std::string(key));
    }
    if (run) {
      TRY(check_run(state, there, command, *run, context.actor));
      if constexpr (!requires { command.hold; }) seen.run = &*run;
    }
    return within_scope(decided_on(state), principal, state, admitted);
  };
}

}  // namespace sessiond::api

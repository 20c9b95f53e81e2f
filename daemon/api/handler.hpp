// What all handlers share: results to replies, the agent and session a path names, who may see them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <concepts>
#include <string>
#include <utility>

#include "daemon/api/api.hpp"
#include "daemon/decide/commands.hpp"
#include "daemon/ledger/show.hpp"
#include "store/names.hpp"

namespace sessiond {

// To who sees only a part of an agent, one that is not there is one whose sessions all lie outside: what is answered
// about a session must not tell the two apart.
Problem as_seen(Problem problem, const Request& request);

// A handler that answers a Response or a Problem, as the router wants it.
template <class Call>
Handler answering(Call call) {
  return [call](Request& request) -> asio::awaitable<Response> {
    Result<Response> result = co_await call(request);
    co_return result ? std::move(*result) : to_response(as_seen(std::move(result.error()), request), request);
  };
}

// What a route's handler is: `Served get(Api& api, Request& request)`.
using Served = asio::awaitable<Result<Response>>;

// How a file adds its routes: `const auto on = adding(router, api); on("GET", "/v1/whoami", Permission::self,
// whoami);`, with the names of the query parameters that the route knows behind it, as openapi.json has them.
inline auto adding(Router& router, Api& api) {
  return [&router, &api](const char* method, const std::string& pattern, Permission permission,
                         Served (*call)(Api&, Request&), QueryNames query = {}) {
    router.add(method, pattern, permission, answering([&api, call](Request& request) { return call(api, request); }),
               std::move(query));
  };
}

Response json_response(std::string body, int status = 200);
Response no_content();  // 204
Response to_response(Reply reply);

// {agent} of the path, normalised. forbidden when the token has not this agent.
Result<std::string> agent_param(const Request& request);
// {key} (or session id) of the path; an agent prefix of another agent is agent_mismatch.
// `match`: whether If-Match is looked at, and asked for where api.requireIfMatch is set.
enum class Match : std::uint8_t { ignored, honoured, required };
Result<Target> target_param(const Request& request, const Api& api, Match match);
// The session a path names as the token may see it: else session_not_found. Never for archived transcripts.
Result<const Session*> visible(const AgentState& state, const Target& target, const Principal& principal);
// `,"degraded":[…]` of a list over agents that lacks these, whose stores cannot be read; those of which the token sees
// only a part are not named. "" when there are none.
std::string degraded_member(const Principal& principal, const std::vector<std::string>& agents);
// Cache-Control: no-cache asks for a look at the disk.
bool wants_fresh(const Request& request);

// How a POST that commits is remembered: actor and Idempotency-Key (API §1). bad_request for a malformed key.
Result<Intent> intent_of(const Request& request, std::string_view body_key = {});

// The session that a command is about, if it is there. For a new one: whoever has its key, as given or as it would be
// made.
const Session* session_named(const AgentState& state, const Target& target);
const Session* session_named(const AgentState& state, const CreateSession& command);
// Whether a token may read the archived transcripts of a session id: all that are known of it lie in its scope.
bool sees_archives(const Principal& principal, const AgentState& state, std::string_view session_id);

// forbidden when a decision would make or change a session so that it lies outside the token's scope, is answered in
// another channel than the token's, or reaches another's transcript through `sessionFile`.
Result<Decision> within_scope(Result<Decision> decided, const Principal& principal);

// Decides a command within the token's scope, before and after. What it may not see is not there: the answer is the one
// that it would be then, to the letter; only what cannot be made because it is there is forbidden. Checks inside the
// decision, so nothing slips between look and act.
template <class Command>
Decide scoped(Command command, Principal principal) {
  return [command = std::move(command), principal = std::move(principal)](
             const AgentState& state, const Context& context, const FetchedLines& lines) -> Result<Decision> {
    Context seen = context;
    seen.sight = {.whole_agent = principal.sees_whole_agent(state.id()),
                  .sees = [&](std::string_view of_key,
                              std::string_view channel) { return principal.sees(state.id(), of_key, channel); },
                  .all = &state};
    const auto decided_on = [&](const AgentState& known) -> Result<Decision> {
      if constexpr (requires { decide(known, command, seen, lines); }) {
        return decide(known, command, seen, lines);
      } else {
        return decide(known, command, seen);
      }
    };
    const Session* there = nullptr;
    std::string_view key;
    if constexpr (std::same_as<Command, PutSession>) {
      key = command.target.key;
      there = put_target(state, command);
    } else if constexpr (requires { command.target; }) {
      key = command.target.key;
      there = session_named(state, command.target);
    } else if constexpr (requires { command.reuse; }) {
      key = command.key;
      there = session_named(state, command);
    }
    if (there != nullptr && !principal.sees(state.id(), there->key(), there->channel)) {
      auto absent = decided_on(AgentState(state.id()));
      if (!absent || absent->events.empty()) return absent;
      return fail(Code::forbidden, "this token may not make the session " + std::string(key));
    }
    return within_scope(decided_on(state), principal);
  };
}

std::string percent_encode(std::string_view text);

// Query parameters. bad_request naming the parameter.
Result<std::optional<std::int64_t>> query_int(const Request& request, std::string_view name, std::int64_t least,
                                              std::int64_t most);
Result<std::optional<bool>> query_bool(const Request& request, std::string_view name);
std::optional<std::string> query_text(const Request& request, std::string_view name);
// Names with commas between, sorted; empty: none. bad_request when they are more than store/limits.hpp allows.
Result<std::vector<std::string>> query_names(const Request& request, std::string_view name);

}  // namespace sessiond

// What all handlers share: results to replies, the agent and session a path names, who may see them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <concepts>
#include <string>
#include <utility>

#include "daemon/api/api.hpp"
#include "daemon/ledger/commands.hpp"
#include "store/names.hpp"

namespace sessiond {

// A handler that answers a Response or a Problem, as the router wants it.
template <class Call>
Handler answering(Call call) {
  return [call](Request& request) -> asio::awaitable<Response> {
    Result<Response> result = co_await call(request);
    co_return result ? std::move(*result) : to_response(result.error(), request);
  };
}

Response json_response(std::string body, int status = 200);
Response to_response(Reply reply);

// {agent} of the path, normalised. forbidden when the token has not this agent.
Result<std::string> agent_param(const Request& request);
// {key} (or session id) of the path; an agent prefix of another agent is agent_mismatch.
// `match`: whether If-Match is looked at, and asked for where api.requireIfMatch is set.
enum class Match : std::uint8_t { ignored, honoured, required };
Result<Target> target_param(const Request& request, const Api& api, Match match);
// The session a path names as the token may see it: else session_not_found. Never for archived transcripts.
Result<const Session*> visible(const AgentState& state, const Target& target, const Principal& principal);
// Cache-Control: no-cache asks for a look at the disk.
bool wants_fresh(const Request& request);

// How a POST that commits is remembered: actor and Idempotency-Key (API §1). bad_request for a malformed key.
Result<Intent> intent_of(const Request& request, std::string_view body_key = {});

// Decides a command that names a session, within the token's scope: what it may not see is not there. Checks again
// inside the decision, so nothing slips between look and act.
template <class Command>
Decide scoped(Command command, Principal principal) {
  return [command = std::move(command), principal = std::move(principal)](
             const AgentState& state, const Context& context, const FetchedLines& lines) -> Result<Decision> {
    if constexpr (requires { command.target; }) {
      const Session* there = state.find(command.target.key);
      if (there != nullptr && !principal.sees(state.id(), there->key(), there->channel)) {
        return fail(Code::session_not_found, "agent " + state.id() + " has no session " + command.target.key);
      }
    }
    if constexpr (requires { command.reuse; }) {  // by the key as given, or as it would be made
      const auto made = canonical_key(command.key, state.id());
      for (const std::string& key : {command.key, made.value_or("")}) {
        const Session* there = key.empty() ? nullptr : state.find_key(key);
        if (there != nullptr && !principal.sees(state.id(), there->key(), there->channel)) {
          return fail(Code::forbidden, "this token may not make the session " + command.key);
        }
      }
    }
    if constexpr (requires { decide(state, command, context, lines); }) {
      return decide(state, command, context, lines);
    } else {
      return decide(state, command, context);
    }
  };
}

std::int64_t wall_now();  // ms since the epoch
std::string percent_encode(std::string_view text);

// Query parameters. bad_request naming the parameter.
Result<std::optional<std::int64_t>> query_int(const Request& request, std::string_view name, std::int64_t least,
                                              std::int64_t most);
Result<std::optional<bool>> query_bool(const Request& request, std::string_view name);
std::optional<std::string> query_text(const Request& request, std::string_view name);
// bad_request for a query parameter that is none of these.
Result<void> known_query(const Request& request, std::initializer_list<std::string_view> names);

}  // namespace sessiond

// The agents.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/api/handler.hpp"

namespace sessiond::api {
namespace {

// {agent,sessions,bytes,updatedAt,checkpointLagMs,dirty}. For a token that sees only part of the agent, it counts that
// part only and has no bytes, checkpointLagMs and dirty; nothing when the token sees no session of the agent.
std::optional<std::string> agent_json(const Api& api, const decide::AgentState& state,
                                      const auth::Principal& principal) {
  std::size_t sessions = state.size();
  std::int64_t updated = state.by_updated().empty() ? 0 : (*state.by_updated().rbegin())->updated_at;
  const bool whole = principal.sees_whole_agent(state.id());
  if (!whole) {
    sessions = 0;
    updated = 0;
    const auto count = [&](const decide::Session* session) {
      if (!sees(principal, state, *session)) return;
      ++sessions;
      updated = std::max(updated, session->updated_at);
    };
    if (principal.key.empty())
      std::ranges::for_each(state.by_updated(), count);
    else
      std::ranges::for_each(decide::family_of(state, principal.key), count);
    if (sessions == 0) return {};
  }
  json::ObjectWriter writer;
  writer.string("agent", state.id());
  writer.integer("sessions", static_cast<std::int64_t>(sessions));
  const ledger::AgentFiles files = ledger::files_of(api.ledger.parts().agents, state.id());
  if (whole) writer.integer("bytes", static_cast<std::int64_t>(files.bytes));
  writer.raw("updatedAt", updated == 0 ? "null" : std::to_string(updated));
  if (whole) {
    writer.integer("checkpointLagMs", files.lag_ms);
    writer.boolean("dirty", files.dirty);
  }
  return writer.text();
}

HandlerResult list(Api& api, http::Request& request) {
  std::string body = "{\"data\":[";
  std::uint64_t last_seq = 0;
  std::vector<std::string> degraded;
  for (const std::string& agent : co_await api.ledger.agent_ids()) {
    if (!request.principal.sees_agent(agent)) continue;
    std::uint64_t seq = 0;
    const auto shown = co_await api.ledger.show(
        agent, wants_fresh(request),
        [&](const decide::AgentState& state, const ledger::Seen& seen) -> Result<std::optional<std::string>> {
          seq = seen.seq();
          return agent_json(api, state, request.principal);
        });
    if (!shown) {
      if (ledger::is_of_one_agent(shown.error().code)) degraded.push_back(agent);
      if (shown.error().code == Code::agent_not_found || ledger::is_of_one_agent(shown.error().code)) continue;
      co_return std::unexpected(shown.error());
    }
    if (!*shown) continue;
    last_seq = std::max(last_seq, seq);
    append_element(body, **shown);
  }
  body += fmt::format(R"(]{},"asOf":"{}"}})", degraded_member(request.principal, degraded), api.ledger.as_of(last_seq));
  co_return json_response(std::move(body));
}

HandlerResult get_agent(Api& api, http::Request& request) {
  CO_TRY(auto agent, agent_param(request));
  co_return co_await api.ledger.show(
      agent, wants_fresh(request),
      [&](const decide::AgentState& state, const ledger::Seen& seen) -> Result<http::Response> {
        auto body = agent_json(api, state, request.principal);
        if (!body) return no_such_agent(agent);
        return as_of_response(api, std::move(*body), seen.seq());
      });
}

}  // namespace

void add_agent_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/agents", auth::Permission::read, list);
  on("GET", "/v1/agents/{agent}", auth::Permission::read, get_agent);
}

}  // namespace sessiond::api

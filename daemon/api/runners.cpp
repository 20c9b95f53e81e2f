// Tells who takes runs, and which model a run would have (policy/runs/README.md).
#include <algorithm>
#include <ranges>

#include "daemon/api/handler.hpp"
#include "daemon/decide/run_commands.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t most_sessions_listed = 1'000;  // sessions of a runner

// Lists the runners of sessions that the token sees. Its last time is that of those sessions.
HandlerResult list_runners(Api& api, http::Request& request) {
  const auto& runners = api.work.runners.all();
  std::set<std::string> named;
  for (const auto& sessions : std::views::values(runners))
    for (const auto& [agent, key] : std::views::keys(sessions))
      if (request.principal.sees_agent(agent)) named.insert(agent);
  std::vector<std::string> degraded;
  co_return co_await api.ledger.show_all(
      {named.begin(), named.end()}, wants_fresh(request),
      [&](const ledger::Ledger::States& states, const ledger::Seen& seen) -> Result<http::Response> {
        const auto shows = [&](const leases::Runners::Place& place) {
          const decide::AgentState* state = api.ledger.parts().memory.holding(place.first, place.second);
          const auto stored =
              std::ranges::find(states, place.first, [](const decide::AgentState* each) { return each->id(); });
          if (state == nullptr && stored != states.end()) state = *stored;
          const decide::Session* session = state == nullptr ? nullptr : state->find_key(place.second);
          return session != nullptr && sees(request.principal, *state, *session);
        };
        std::string body = "{\"data\":[";
        for (const auto& [name, sessions] : runners) {
          std::int64_t last = 0;
          std::vector<std::string> keys;
          for (const auto& [place, taken] : sessions) {
            if (!request.principal.sees_agent(place.first) || !shows(place)) continue;
            last = std::max(last, taken.time);
            if (keys.size() < most_sessions_listed) keys.push_back(place.second);
          }
          if (keys.empty()) continue;
          json::ObjectWriter runner;
          runner.string("runner", name);
          runner.integer("lastAt", last);
          runner.raw("sessions", json::array_of(keys));
          append_element(body, runner.text());
        }
        body += "]" + degraded_member(request.principal, degraded) + "}";
        return as_of_response(std::move(body), api.ledger.as_of(seen.seq()));
      },
      &degraded);
}

HandlerResult get_model(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  co_return co_await show_session(
      api, request, path, wants_fresh(request),
      [&](const decide::Session& session, ledger::Seen& seen) -> Result<http::Response> {
        const auto choice = decide::model_of_next_run(
            session, path.agent, api.ledger.rules().runs,
            {query_text(request, "model").value_or(""), query_text(request, "provider").value_or("")});
        json::ObjectWriter model;
        const auto name_of = [&model](std::string_view member, const std::string& name) {
          model.raw(member, name.empty() ? "null" : json::quote(name));
        };
        name_of("provider", choice.names.provider);
        name_of("model", choice.names.model);
        model.string("source", runs::name(choice.source));
        return as_of_response(model.text(), api.ledger.as_of(seen.seq()));
      });
}

}  // namespace

void add_runner_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/runners", auth::Permission::read, list_runners);
  on("GET", "/v1/agents/{agent}/sessions/{key}/model", auth::Permission::read, get_model, {"model", "provider"});
}

}  // namespace sessiond::api

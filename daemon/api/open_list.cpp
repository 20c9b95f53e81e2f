#include "daemon/api/open_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <vector>

#include "store/names.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t most_listed = 1'000;

}  // namespace

HandlerResult list_open(
    Api& api, http::Request& request, std::set<std::pair<std::string, std::string>> places,
    std::function<void(const decide::AgentState&, const decide::Session&, const decide::SessionRuns&, const AddOpen&)>
        find) {
  std::optional<std::string> only;
  if (const auto named = query_text(request, "agent")) {
    only = store::normalize_agent_id(*named);
    if (!only) co_return fail(Code::bad_request, "agent: is not a valid agent id");
  }
  const auto channel = query_text(request, "channel");
  std::erase_if(places, [&](const auto& place) {
    return !request.principal.sees_agent(place.first) || (only && *only != place.first);
  });
  std::vector<std::string> agents;
  for (const auto& [agent, key] : places)
    if (agents.empty() || agents.back() != agent) agents.push_back(agent);
  const auto find_in = [&](const decide::AgentState& state, const std::string& key, const AddOpen& add) {
    const decide::Session* session = state.find_key(key);
    const decide::SessionRuns* runs = session == nullptr ? nullptr : state.runs.find(session->key());
    if (runs == nullptr || !sees(request.principal, state, *session)) return;
    if (!channel || store::equals_nocase(*channel, session->channel)) find(state, *session, *runs, add);
  };
  std::vector<std::string> degraded;
  co_return co_await api.ledger.show_all(
      agents, wants_fresh(request),
      [&](const ledger::Ledger::States& states, const ledger::Seen& seen) -> Result<http::Response> {
        std::vector<OpenItem> listed;
        const AddOpen add = [&listed](OpenItem item) { listed.push_back(std::move(item)); };
        for (const auto& [agent, key] : places) {
          const decide::AgentState* state = api.ledger.parts().memory.holding(agent, key);
          const auto stored =
              std::ranges::find(states, agent, [](const decide::AgentState* each) { return each->id(); });
          if (state == nullptr && stored != states.end()) state = *stored;
          if (state != nullptr) find_in(*state, key, add);
        }
        const auto shown = listed.begin() + static_cast<std::ptrdiff_t>(std::min(most_listed, listed.size()));
        std::ranges::partial_sort(listed, shown, {},
                                  [](const OpenItem& each) { return std::tie(each.since, each.id); });
        const bool more = shown != listed.end();
        std::string body = "{\"data\":[";
        for (auto each = listed.begin(); each != shown; ++each) append_element(body, each->json());
        body += fmt::format(R"(],"hasMore":{}{}}})", more, degraded_member(request.principal, degraded));
        return as_of_response(std::move(body), api.ledger.as_of(seen.seq()));
      },
      &degraded);
}

}  // namespace sessiond::api

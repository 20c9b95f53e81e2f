// Going on with a session: which one was used last, and the text that a person is shown.
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ranges>

#include "daemon/api/transcript_source.hpp"
#include "daemon/decide/last_session.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "daemon/decide/view.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "store/limits.hpp"
#include "transcripts/tally.hpp"

namespace sessiond::api {
namespace {

// How far a search through an agent's sessions has come: they are looked at newest first, a slice at a time.
struct Search {
  std::optional<std::pair<std::int64_t, std::string>> after{};  // updatedAt and key of the last one looked at
  std::optional<http::Response> found{};
  bool ended = false;
};

http::Response shown(Api& api, const http::Request& request, const decide::AgentState& state,
                     const decide::Session& session, const ledger::Seen& seen) {
  const bool parent = sees_parent(request.principal, state.id(), session);
  http::Response response = as_of_response(
      api,
      decide::session_json(state.id(), session, {.parent = parent, .takeover = decide::shown_takeover(state, session)}),
      seen.seq());
  set_etag(response, decide::etag(session));
  return response;
}

// Finds the session that the client used last, or anyone; else the one that was changed last.
Search look_for_last(Api& api, const http::Request& request, const std::string& list, const decide::AgentState& state,
                     const ledger::Seen& seen, Search search) {
  const decide::Sees visible = [&](const decide::Session& session) { return sees(request.principal, state, session); };
  const decide::Session* session = nullptr;
  if (!search.after) {
    if (!list.empty()) session = decide::first_open(state, state.last_used.of_client(list), visible);
    if (session == nullptr) session = decide::first_open(state, state.last_used.of_agent(), visible);
  }
  const auto look = [&](const decide::Session* one) {
    if (session == nullptr && decide::is_open_to(*one, visible)) session = one;
  };
  if (session == nullptr && !request.principal.key.empty()) {
    auto family = decide::family_of(state, request.principal.key);
    std::ranges::sort(family, std::ranges::greater(), &decide::ByUpdated::key_of);
    std::ranges::for_each(family, look);
    search.ended = true;
  }
  const auto& all = state.by_updated();
  std::size_t budget = limits::slice_sessions;
  for (auto at = std::make_reverse_iterator(
           search.after ? all.lower_bound(decide::ByUpdated::Key(search.after->first, search.after->second))
                        : all.end());
       session == nullptr && !search.ended; ++at) {
    search.ended = at == all.rend();
    if (search.ended || budget-- == 0) break;
    look(*at);
    search.after.emplace((*at)->updated_at, (*at)->key());
  }
  if (session != nullptr) search.found = shown(api, request, state, *session, seen);
  return search;
}

HandlerResult last(Api& api, http::Request& request) {
  CO_TRY(const auto agent, agent_param(request));
  request.params.emplace_back("-");  // as_seen() then takes a problem for one of a session
  const auto client = query_text(request, "client");
  if (client && !store::valid_entry_id(*client))
    co_return fail(Code::bad_request, "client " + std::string(client_rule));
  const auto& principal = request.principal;
  const std::string list =
      client ? decide::client_list(principal.sees_whole_agent(agent) ? "" : principal.id, *client) : "";
  for (Search search;;) {
    CO_TRY(search,
           co_await api.ledger.show(agent, wants_fresh(request) && !search.after,
                                    [&](const decide::AgentState& state, const ledger::Seen& seen) -> Result<Search> {
                                      return look_for_last(api, request, list, state, seen, search);
                                    }));
    if (search.found) co_return std::move(*search.found);
    if (search.ended) co_return no_such_session(agent, "-");
    co_await asio::post(api.ledger.parts().env.io, asio::use_awaitable);
  }
}

struct Resumed {
  std::string session_id;
  bool shows_parent;
};

HandlerResult resume(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  const auto client = fields.string("client", 128);
  if (client && !store::valid_entry_id(*client)) fields.fault("client", std::string(client_rule));
  CO_TRY(fields.done());
  if (client) request.headers.insert(request.headers.begin(), {"sessiond-client", *client});
  CO_TRY(const auto there,
         co_await show_session(
             api, request, path, false, [&](const decide::Session& session, const ledger::Seen&) -> Result<Resumed> {
               return Resumed{session.session_id, sees_parent(request.principal, path.agent, session)};
             }));
  CO_TRY(const auto source, co_await source_at(api, request, {.path = path, .guard = there.session_id}));
  const auto count = [](auto& transcript) { return transcripts::tally(transcript); };
  CO_TRY(auto said, co_await read_source(api, source, count));
  decide::ResumeSession command{.target = path.target,
                                .session_id = source.session_id,
                                .said = std::move(said),
                                .shows_parent = there.shows_parent};
  CO_TRY(auto response,
         co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request)));
  if (store::lower(request.header("accept")).starts_with("text/plain") && response.status == 200) {
    response.body = json::string_at(response.body, "resumeSummary").value_or("");
    response.content_type = "text/plain; charset=utf-8";
  }
  co_return response;
}

}  // namespace

void add_last_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/agents/{agent}/sessions/-/last", auth::Permission::read, last, {"client"});
  on("POST", "/v1/agents/{agent}/sessions/{key}/resume", auth::Permission::write, resume);
}

}  // namespace sessiond::api

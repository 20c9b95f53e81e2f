// Finding what was said: GET /v1/search. The index proposes, and each hit is held against what is there now before it
// is shown (search_hits.hpp). A page ends at a hit that is shown, or where the search had to stop, and its cursor is
// sealed: neither tells of hits outside the scope.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "daemon/api/cursor.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/search_hits.hpp"
#include "daemon/auth/secret.hpp"
#include "daemon/decide/lineage.hpp"
#include "daemon/ledger/show.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

using WhichArchived = search::Archived;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t usual_hits = 20, most_hits = 100;

struct SearchQuery {
  search::Asked asked{};
  std::optional<search::Place> from{};
  std::string filters{};  // filters_of()
};

std::string cursor_of(const Api& api, const SearchQuery& query, const search::Place& place) {
  json::ObjectWriter writer;
  writer.string("i", place.index);
  writer.integer("r", place.row);
  writer.string("f", query.filters);
  return seal_cursor(api, writer.text());
}

// Returns what a cursor is bound to: a hash of the token's id and of the question, in any order of its parameters.
std::string filters_of(const http::Request& request) {
  auto asked = request.query;
  std::erase_if(asked, [](const auto& one) { return one.first == "cursor" || one.first == "limit"; });
  std::ranges::stable_sort(asked, {}, &std::pair<std::string, std::string>::first);
  std::string text = request.principal.id;
  for (const auto& [name, value] : asked) text += fmt::format("\n{} {}:{}", name, value.size(), value);
  const auto hash = auth::hash_token(text);
  return "search " + auth::to_base64url({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

Result<SearchQuery> read_search(const Api& api, const http::Request& request) {
  SearchQuery query;
  search::Asked& asked = query.asked;
  const auto text = query_text(request, "q");
  if (!text) return fail(Code::bad_request, "q: is missing: the words to search for");
  TRY(asked.words, search::Words::parse(*text));
  if (const auto agent = query_text(request, "agent")) {
    asked.agent = store::normalize_agent_id(*agent).value_or("");
    if (asked.agent->empty()) return fail(Code::bad_request, "agent: is not an agent's id");
  }
  if (const auto key = query_text(request, "key")) asked.key = store::lower_key(*key);
  if (const auto channel = query_text(request, "channel")) asked.channel = store::lower(*channel);
  asked.from = query_text(request, "from").value_or("");
  for (const std::string_view name : {"key", "from"})
    if (query_text(request, name) == "") return fail(Code::bad_request, fmt::format("{}: is empty", name));
  if (const auto role = query_text(request, "role")) {
    asked.role = search::role_of(*role);
    if (!asked.role) return fail(Code::bad_request, "role: must be user, assistant, tool, note, name or label");
  }
  TRY(const auto since, query_int(request, "since", 0, store::last_time_ms));
  asked.since = since.value_or(0);
  TRY(const auto until, query_int(request, "until", 0, store::last_time_ms));
  asked.until = until.value_or(store::last_time_ms);
  TRY(const auto archived, query_choice(request, "archived", {"false", "true", "any"}));
  asked.archived = archived == "any"    ? WhichArchived::any
                   : archived == "true" ? WhichArchived::only
                                        : WhichArchived::no;
  TRY(const auto limit, query_int(request, "limit", 1, most_hits));
  asked.limit = static_cast<std::size_t>(limit.value_or(usual_hits));
  query.filters = filters_of(request);
  if (const auto cursor = query_text(request, "cursor")) {
    TRY(const auto at, open_cursor(api, *cursor, query.filters));
    query.from =
        search::Place{.index = json::string_at(at, "i").value_or(""), .row = json::int_at(at, "r").value_or(0)};
  }
  return query;
}

// The keys that a token of role session sees, by agent.
using Family = std::set<std::pair<std::string, std::string>, std::less<>>;

asio::awaitable<Result<Family>> family_keys(Api& api, const auth::Principal& principal) {
  Family keys;
  for (const std::string& agent : principal.agents) {
    keys.emplace(agent, principal.key);
    const auto collect = [&](const decide::AgentState& state, ledger::Seen&) -> Result<bool> {
      for (const decide::Session* session : decide::family_of(state, principal.key))
        keys.emplace(agent, session->key());
      return true;
    };
    auto done = co_await api.ledger.show(agent, false, collect);
    if (!done && done.error().code != Code::agent_not_found) co_return std::unexpected(std::move(done.error()));
  }
  co_return keys;
}

HandlerResult search_texts(Api& api, http::Request& request) {
  const search::SearchOptions& options = api.search.options();
  if (!options.enabled) co_return fail(Code::not_found, "there is no search: search.enabled is false");
  CO_TRY(auto query, read_search(api, request));
  CO_TRY(const auto under_way, api.search.begin_search());
  const auth::Principal& principal = request.principal;
  if (!principal.key.empty()) {
    CO_TRY(auto keys, co_await family_keys(api, principal));
    query.asked.sees = [keys = std::move(keys)](std::string_view agent, std::string_view key, std::string_view) {
      return keys.contains(std::pair(std::string(agent), std::string(key)));
    };
  } else {
    query.asked.sees = [principal](std::string_view agent, std::string_view key, std::string_view channel) {
      return principal.sees(agent, key, channel);
    };
  }
  const std::size_t limit = query.asked.limit++;  // one more says whether there are others
  const auto asked = std::make_shared<const search::Asked>(query.asked);
  const auto begun = Clock::now();
  const auto end = begun + std::chrono::milliseconds(options.timeout_ms);
  const auto end_of_looks =
      begun + std::chrono::milliseconds(options.timeout_ms * 3 / 4);  // then there are hits to read
  const search::SearchStatus status = api.search.status();
  bool partial = !status.caught_up || !status.problem.empty();
  std::vector<ShownHit> shown;
  std::optional<search::Place> from = query.from;
  std::optional<std::uint64_t> position;
  bool more = true;
  for (bool stopped = false; more && !stopped && shown.size() <= limit;) {
    search::Found found = co_await api.search.find(asked, from, end_of_looks);
    if (found.other_index && !position)
      co_return fail(Code::bad_cursor, "cursor: the index was made anew since; begin again without a cursor");
    partial = partial || found.partial || found.other_index;
    more = found.more && !found.other_index;
    stopped = found.stopped;
    if (!position) position = found.position;
    if (!found.other_index) from = found.next;
    CO_TRY(auto hits, co_await hits_as_shown(api, principal, asked, std::move(found), end));
    partial = partial || hits.partial || hits.unread > 0;
    std::ranges::move(hits.hits, std::back_inserter(shown));
    if (hits.unread > 0) from->row = hits.unread + 1;
    more = more || hits.unread > 0;
    stopped = stopped || hits.unread > 0 || Clock::now() > end_of_looks;
  }
  partial = partial || (more && shown.size() <= limit);
  if (shown.size() > limit) {
    shown.resize(limit);
    from->row = shown.back().row;
    more = true;
  }
  std::string body = "{\"data\":[";
  for (const ShownHit& hit : shown) append_element(body, hit.json);
  body += page_end(more ? cursor_of(api, query, *from) : "", more);
  body += fmt::format(",\"partial\":{}}}", partial);
  const std::string& epoch = api.ledger.parts().commits.journal().epoch();
  co_return as_of_response(std::move(body), fmt::format("{}-{}", epoch, position.value_or(0)));
}

}  // namespace

void add_search_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/search", auth::Permission::read, search_texts,
     {"q", "agent", "key", "channel", "role", "from", "since", "until", "limit", "cursor", "archived"});
}

}  // namespace sessiond::api

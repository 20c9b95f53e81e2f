// Finding what was said: GET /v1/search. The index tells candidates, and each is held against the state as it is now
// and the token's scope before it is shown. A page ends at a hit that is shown, so neither its length nor its cursor
// tells of hits outside the scope.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "daemon/api/cursor.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/decide/lineage.hpp"
#include "daemon/ledger/show.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

using search::Hit;
using WhichArchived = search::Archived;

struct SearchQuery {
  search::Asked asked{};
  std::optional<search::After> after{};
  std::string filters{};
};

std::string cursor_behind_hit(const Api& api, const SearchQuery& query, const Hit& hit) {
  json::ObjectWriter writer;
  writer.integer("t", hit.time);
  writer.string("a", hit.agent);
  writer.string("k", hit.key);
  writer.string("o", hit.topic);
  writer.string("r", hit.archive);
  writer.integer("s", static_cast<std::int64_t>(hit.seq));
  writer.string("f", query.filters);
  return seal_cursor(api, writer.text());
}

bool is_name(const Hit& hit) { return hit.role == search::Role::name || hit.role == search::Role::label; }

Result<SearchQuery> read_search(const Api& api, const http::Request& request) {
  SearchQuery query;
  const auto text = query_text(request, "q");
  if (!text) return fail(Code::bad_request, "q is missing: the words to search for");
  TRY(query.asked.words, search::Words::parse(*text));
  if (const auto agent = query_text(request, "agent")) {
    query.asked.agent = store::normalize_agent_id(*agent).value_or("");
    if (query.asked.agent->empty()) return fail(Code::bad_request, "agent is no agent's id");
  }
  if (const auto channel = query_text(request, "channel")) query.asked.channel = store::lower(*channel);
  if (const auto role = query_text(request, "role")) {
    query.asked.role = search::role_of(*role);
    if (!query.asked.role) return fail(Code::bad_request, "role must be user, assistant, tool, name or label");
  }
  TRY(const auto since, query_int(request, "since", 0, store::last_time_ms));
  query.asked.since = since.value_or(0);
  TRY(const auto archived, query_choice(request, "archived", {"false", "true", "any"}));
  query.asked.archived = archived == "any"    ? WhichArchived::any
                         : archived == "true" ? WhichArchived::only
                                              : WhichArchived::no;
  TRY(query.asked.limit, page_limit(request));
  query.filters = "search ";
  for (const auto& [name, value] : request.query)
    if (name != "cursor" && name != "limit") query.filters += name + "=" + value + "&";
  if (const auto cursor = query_text(request, "cursor")) {
    TRY(const auto at, open_cursor(api, *cursor, query.filters));
    const auto member = [&at](std::string_view name) { return json::string_at(at, name).value_or(""); };
    query.after = search::After{.time = json::int_at(at, "t").value_or(0),
                                .agent = member("a"),
                                .key = member("k"),
                                .topic = member("o"),
                                .archive = member("r"),
                                .seq = static_cast<std::uint64_t>(json::int_at(at, "s").value_or(0))};
    query.after->is_name = query.after->archive == "names";
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

// Tells whether a hit is there still, within the token's scope and as it was asked for. Its session may have been
// archived since by its mark alone, which the index does not know.
bool is_shown_hit(const Api& api, const auth::Principal& principal, const search::Asked& asked,
                  const decide::AgentState& state, const Hit& hit, std::uint64_t position) {
  if (!api.search.is_current(hit, position)) return false;
  if (!hit.archive.empty() && !is_name(hit)) {
    if (asked.archived == WhichArchived::no) return false;
    return std::ranges::any_of(state.archives.of_id(hit.session_id), [&](const decide::ArchiveRecord* record) {
      if (record->purged || std::ranges::find(record->archived_as, hit.archive) == record->archived_as.end())
        return false;
      return sees(principal, state, *record);
    });
  }
  const auto found = state.by_name().find(hit.key);
  if (found == state.by_name().end()) return false;
  const decide::Session& session = *found->second;
  if (!sees(principal, state, session)) return false;
  if (asked.channel && session.channel != *asked.channel) return false;
  if (asked.archived != WhichArchived::any &&
      (asked.archived == WhichArchived::only) != session.archived_at.has_value())
    return false;
  if (hit.role == search::Role::name) return session.name == hit.text;
  if (hit.role == search::Role::label) return session.label == hit.text;
  return session.session_id == hit.session_id;
}

std::string hit_json(const search::Asked& asked, const Hit& hit) {
  json::ObjectWriter writer;
  writer.string("key", hit.key);
  writer.string("agent", hit.agent);
  writer.string("sessionId", hit.session_id);
  if (!hit.topic.empty()) writer.string("topic", hit.topic);
  if (!hit.archive.empty() && !is_name(hit)) writer.string("archive", hit.archive);
  if (is_name(hit)) {
    writer.raw("seq", "null");
    writer.raw("id", "null");
  } else {
    writer.integer("seq", static_cast<std::int64_t>(hit.seq));
    writer.string("id", hit.entry);
  }
  writer.integer("timestamp", hit.time);
  writer.string("role", search::name(hit.role));
  writer.string("snippet", is_name(hit) ? asked.words.snippet(hit.text) : hit.text);
  return writer.text();
}

HandlerResult search_texts(Api& api, http::Request& request) {
  CO_TRY(auto query, read_search(api, request));
  if (!api.search.options().enabled)
    co_return json_response(R"({"data":[],"page":{"next":null,"hasMore":false},"enabled":false})");
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
  const std::size_t limit = query.asked.limit++;  // one more tells whether there are others
  const auto asked = std::make_shared<const search::Asked>(query.asked);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(api.search.options().timeout_ms);
  std::vector<Hit> shown;
  bool partial = false;
  std::optional<std::int64_t> before;
  for (bool more = true; more && shown.size() <= limit;) {
    CO_TRY(auto found, co_await api.search.find(asked, query.after, before, deadline));
    more = found.more;
    before = found.next;
    partial = partial || found.partial;
    std::vector<std::string> agents;
    agents.reserve(found.hits.size());
    for (const Hit& hit : found.hits) agents.push_back(hit.agent);
    std::ranges::sort(agents);
    agents.erase(std::ranges::unique(agents).begin(), agents.end());
    const auto check = [&](const ledger::Ledger::States& states, const ledger::Seen&) -> Result<std::vector<Hit>> {
      std::vector<Hit> good;
      for (const Hit& hit : found.hits) {
        const auto state = std::ranges::find(states, hit.agent, &decide::AgentState::id);
        if (state != states.end() && is_shown_hit(api, principal, *asked, **state, hit, found.position))
          good.push_back(hit);
      }
      return good;
    };
    std::vector<std::string> degraded;
    CO_TRY(auto good, co_await api.ledger.show_all(std::move(agents), false, check, &degraded));
    partial = partial || !degraded.empty();
    std::ranges::move(good, std::back_inserter(shown));
  }
  const bool has_more = shown.size() > limit;
  if (has_more) shown.resize(limit);
  std::string body = "{\"data\":[";
  for (const Hit& hit : shown) append_element(body, hit_json(*asked, hit));
  body += page_end(has_more ? cursor_behind_hit(api, query, shown.back()) : "", has_more);
  body += partial ? ",\"partial\":true}" : "}";
  co_return json_response(std::move(body));
}

}  // namespace

void add_search_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/search", auth::Permission::read, search_texts,
     {"q", "agent", "channel", "role", "since", "limit", "cursor", "archived"});
}

}  // namespace sessiond::api

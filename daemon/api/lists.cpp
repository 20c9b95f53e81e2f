// Lists of sessions: of one agent, or of all that the token may see. Pages stay consistent while sessions come and
// move: a cursor is a position in the order (updatedAt or key), signed, with the asOf of the first page.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <map>

#include "daemon/api/conversation_summary.hpp"
#include "daemon/api/cursor.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/snapshots.hpp"
#include "daemon/decide/string_map.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "daemon/decide/view.hpp"
#include "store/clock.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/utf8.hpp"

namespace sessiond::api {
namespace {

enum class Sort : std::uint8_t { newest_first, oldest_first, key };

struct Query {
  std::size_t limit = 50;
  Sort sort = Sort::newest_first;
  std::optional<std::string> channel, chat_type, key_prefix, label, name, spawned_by, sdk_session_id, text;
  std::optional<std::int64_t> updated_since;
  std::optional<bool> archived = false;  // nothing: both
  bool needs_answer = false;
  std::vector<std::string> status{};  // any of these; empty: all
  bool is_held = false;               // only those in which a person speaks
  decide::SessionView view{.snapshots = false};
  bool last_message = false;
  std::string filters;  // the query without cursor, limit and include; a cursor is valid for the same filters only
};

struct Position {
  std::int64_t updated_at = 0;
  std::string key;
  std::string agent;
};

std::string write_cursor(const Api& api, const Query& query, const Position& at, std::string_view as_of) {
  json::ObjectWriter writer;
  writer.integer("u", at.updated_at);
  writer.string("k", at.key);
  writer.string("a", at.agent);
  writer.string("s", as_of);
  writer.string("f", query.filters);
  return seal_cursor(api, writer.text());
}

struct Cursor {
  Position at;
  std::string as_of;
};
Result<Cursor> read_cursor(const Api& api, const Query& query, std::string_view cursor) {
  TRY(const auto text, open_cursor(api, cursor, query.filters));
  return Cursor{{json::int_at(text, "u").value_or(0), json::string_at(text, "k").value_or(""),
                 json::string_at(text, "a").value_or("")},
                json::string_at(text, "s").value_or("")};
}

Result<Query> read_query(const http::Request& request, std::int64_t now, bool over_agents) {
  Query query;
  TRY(query.limit, page_limit(request));
  TRY(const auto sort, query_choice(request, "sort", {"-updatedAt", "updatedAt", "key"}));
  query.sort = sort == "key" ? Sort::key : sort == "updatedAt" ? Sort::oldest_first : Sort::newest_first;
  const auto text = [&request](std::string_view name) { return query_text(request, name); };
  query.channel = text("channel");
  query.chat_type = text("chatType");
  if (query.chat_type == "dm") query.chat_type = "direct";
  if (query.chat_type && query.chat_type != "direct" && query.chat_type != "group" && query.chat_type != "channel") {
    return fail(Code::bad_request, "chatType must be direct, group or channel");
  }
  query.key_prefix = text("keyPrefix");
  query.label = text("label");
  query.name = text("name");
  query.spawned_by = text("spawnedBy");
  if (query.spawned_by) query.spawned_by = store::folded_key(*query.spawned_by);
  query.sdk_session_id = text("sdkSessionId");
  query.text = text("q");
  if (query.text) query.text = store::fold_case(*query.text);
  TRY(query.updated_since, query_int(request, "updatedSince", 0, INT64_MAX));
  TRY(auto active, query_int(request, "activeMinutes", 1, 10'000'000));
  if (active) query.updated_since = std::max(query.updated_since.value_or(0), now - *active * 60'000);
  TRY(const auto archived, query_choice(request, "archived", {"false", "true", "any"}));
  if (archived == "any") {
    query.archived.reset();
  } else {
    query.archived = archived == "true";
  }
  const auto needs = text("needs");
  if (needs && *needs != "answer") return fail(Code::bad_request, "needs may only be answer");
  query.needs_answer = needs.has_value();
  const auto held = text("held");
  if (held && *held != "takeover") return fail(Code::bad_request, "held may only be takeover");
  query.is_held = held.has_value();
  TRY(query.status, query_names(request, "status"));
  TRY(const Included included, included_in(request));
  if (included.message_counts) return fail(Code::bad_request, "include=messageCounts is for one session only");
  query.view.snapshots = included.snapshots;
  query.last_message = included.last_message;
  TRY(query.view.fields, query_names(request, "fields"));
  for (const auto& [name, value] : request.query) {
    if (name != "cursor" && name != "limit" && name != "include") query.filters += name + "=" + value + "&";
  }
  query.filters += over_agents ? "*" : request.params.at(0);
  return query;
}

// Of its last run; empty: it had none.
std::string status_of(const decide::Session& session) {
  return json::string_at(*session.entry(), "status").value_or("");
}

bool matches(const Query& query, const decide::Session& session) {
  if (query.archived && *query.archived != session.archived_at.has_value()) return false;
  if (query.needs_answer && session.needs.empty()) return false;
  if (query.channel && store::lower(*query.channel) != session.channel) return false;
  if (query.chat_type && *query.chat_type != session.chat_type) return false;
  if (query.key_prefix && !store::key_matches_prefix(session.key(), *query.key_prefix)) return false;
  if (query.label && *query.label != session.label) return false;
  if (query.name && *query.name != session.name) return false;
  if (query.spawned_by && (session.spawned_by.empty() || *query.spawned_by != store::folded_key(session.spawned_by)))
    return false;
  if (query.updated_since && session.updated_at < *query.updated_since) return false;
  if (!query.status.empty() && !std::ranges::binary_search(query.status, status_of(session))) return false;
  if (!query.text) return true;
  const auto holds = [&query](std::string_view text) {
    return store::fold_case(text).find(*query.text) != std::string::npos;
  };
  if (holds(session.key()) || holds(session.label) || holds(session.name) || holds(session.session_id)) return true;
  const sessions::RawEntry& entry = session.entry();
  return holds(json::string_at(*entry, "displayName").value_or("")) ||
         holds(json::string_at(*entry, "subject").value_or(""));
}

// Whether `at` comes strictly after `after` in the order of the list.
bool behind(Sort sort, const Position& at, const Position& after) {
  if (sort == Sort::key) return std::tie(at.key, at.agent) > std::tie(after.key, after.agent);
  const auto left = std::tie(at.updated_at, at.key, at.agent);
  const auto right = std::tie(after.updated_at, after.key, after.agent);
  return sort == Sort::oldest_first ? left > right : left < right;
}

// How far one agent's sessions were examined for a page.
struct Progress {
  std::optional<Position> after{};  // the last session examined
  std::vector<Position> found{};    // up to limit+1
  std::size_t looked = 0;           // examined sessions that the token may see
  bool ended = false;
  std::optional<Position> cut{};  // where the examination stopped at limits::list_scan
};

// Continues the examination of one agent, until `budget` sessions were examined or the page is full.
class Scanner {
 public:
  Scanner(const decide::AgentState& state, const Query& query, const auth::Principal& principal, Progress& progress,
          std::size_t& budget)
      : state_(state),
        query_(query),
        principal_(principal),
        progress_(progress),
        budget_(budget),
        after_(progress.after) {
    progress_.found.reserve(std::min(query_.limit + 1, state_.by_name().size()));
  }

  void run() {
    bool whole = true;
    if (query_.sdk_session_id) {
      whole = look_at(decide::of_sdk_session(state_, *query_.sdk_session_id));
    } else if (!principal_.key.empty()) {
      whole = look_at(decide::family_of(state_, principal_.key));
    } else if (query_.is_held) {
      whole = look_at(taken_over());
    } else {
      whole = look_at_all();
    }
    progress_.ended = progress_.ended || whole;
    if (last_ != nullptr) progress_.after = position_of(*last_);
  }

 private:
  // Examines all sessions in the order of the list. False when the examination stops before the end.
  bool look_at_all() {
    bool whole = true;
    switch (query_.sort) {
      case Sort::key: {
        const auto& all = state_.by_name();
        for (auto at = after_ ? all.lower_bound(after_->key) : all.begin(); whole && at != all.end(); ++at)
          whole = look(at->second);
        break;
      }
      case Sort::oldest_first: {
        const auto& all = state_.by_updated();
        for (auto at = after_ ? all.lower_bound(place()) : all.begin(); whole && at != all.end(); ++at)
          whole = look(*at);
        break;
      }
      case Sort::newest_first: {
        const auto& all = state_.by_updated();
        for (auto at = std::make_reverse_iterator(after_ ? all.upper_bound(place()) : all.end());
             whole && at != all.rend(); ++at)
          whole = look(*at);
        break;
      }
    }
    return whole;
  }

  std::vector<const decide::Session*> taken_over() const {
    std::vector<const decide::Session*> all;
    for (const std::string& key : state_.runs.taken_over())
      if (const decide::Session* session = state_.find_key(key)) all.push_back(session);
    return all;
  }

  // The same of a few sessions.
  bool look_at(std::vector<const decide::Session*> sessions) {
    std::ranges::sort(sessions, [this](const decide::Session* a, const decide::Session* b) {
      return behind(query_.sort, position_of(*b), position_of(*a));
    });
    return std::ranges::all_of(sessions, [this](const decide::Session* session) { return look(session); });
  }

  decide::ByUpdated::Key place() const { return {after_->updated_at, after_->key}; }
  Position position_of(const decide::Session& session) const {
    return {.updated_at = session.updated_at, .key = session.key(), .agent = state_.id()};
  }

  // Examines one session. Returns false when the examination stops here for now.
  bool look(const decide::Session* session) {
    if (budget_ == 0) return false;
    --budget_;
    if (after_ && !behind(query_.sort, position_of(*session), *after_)) return true;
    last_ = session;
    // Skips what the token may not see before counting, so that neither cursor nor page end depends on it.
    if (!sees(principal_, state_, *session)) return true;
    const bool by_parent = query_.spawned_by && !sees_parent(principal_, state_.id(), *session);
    const bool is_wanted = !query_.is_held || state_.runs.taken_over().contains(session->key());
    if (!by_parent && is_wanted && matches(query_, *session)) progress_.found.push_back(position_of(*session));
    if (progress_.found.size() > query_.limit) return !(progress_.ended = true);
    if (++progress_.looked < limits::list_scan) return true;
    progress_.cut = position_of(*session);
    return !(progress_.ended = true);
  }

  const decide::AgentState& state_;
  const Query& query_;
  const auth::Principal& principal_;
  Progress& progress_;
  std::size_t& budget_;
  const std::optional<Position> after_;
  const decide::Session* last_ = nullptr;  // the last one examined
};

using Progresses = std::map<std::string, Progress, std::less<>>;  // by agent; apart for its ephemeral sessions

constexpr std::int64_t most_last_messages_ms = 500;  // for which a page waits

// Where a session of the page stands, for what is added to it.
struct SessionRow {
  std::string agent{}, key{}, session_id{};
  std::size_t begin = 0, end = 0;  // of its object in SessionPage::body
};
struct SessionPage {
  std::string body = "{\"data\":[";  // of the reply, up to the last session
  std::vector<SessionRow> rows{};    // with include=lastMessage, else none
  std::string end{};                 // of the reply, behind the sessions
  std::string next{};                // the cursor of the page behind it; empty: there is none
};

SessionPage page_of(const Api& api, const http::Request& request, const Query& query, const std::string& as_of,
                    const ledger::Ledger::States& states, Progresses& progresses,
                    const std::vector<std::string>& degraded) {
  std::vector<Position> found;
  std::optional<Position> cut;
  if (progresses.size() == 1) found.swap(progresses.begin()->second.found);
  for (auto& [agent, progress] : progresses) {
    std::ranges::move(progress.found, std::back_inserter(found));
    if (progress.cut && (!cut || behind(query.sort, *cut, *progress.cut))) cut = progress.cut;
  }
  if (cut) std::erase_if(found, [&](const Position& at) { return behind(query.sort, at, *cut); });
  if (progresses.size() > 1) {
    const auto end = found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), query.limit + 1));
    std::ranges::partial_sort(found, end,
                              [&query](const Position& a, const Position& b) { return behind(query.sort, b, a); });
  }
  decide::StringMap<std::vector<const decide::AgentState*>> by_agent;
  for (const decide::AgentState* state : states) by_agent[state->id()].push_back(state);
  bool more = cut.has_value();
  const Position* end = cut ? &*cut : nullptr;
  SessionPage page;
  constexpr std::size_t usual_bytes = 512;  // of a session
  page.body.reserve((1 + std::min(found.size(), query.limit)) * usual_bytes);
  const std::vector<const decide::AgentState*>* of_agent = nullptr;  // of the last position
  std::size_t shown = 0;
  std::size_t read = 0;  // bytes of entries read
  for (const Position& at : found) {
    if (shown == query.limit || page.body.size() > limits::page_bytes || read > limits::list_read) {
      more = true;
      break;
    }
    ++shown;
    if (of_agent == nullptr || at.agent != end->agent) of_agent = &by_agent[at.agent];
    end = &at;
    // It may have been deleted or moved out of the token's scope since it was examined.
    const decide::Session* session = nullptr;
    decide::SessionView view = query.view;
    for (const decide::AgentState* state : *of_agent) {
      const decide::Session* there = state->find_key(at.key);
      if (there == nullptr || !sees(request.principal, *state, *there)) continue;
      session = there;
      view.parent = sees_parent(request.principal, at.agent, *there);
      view.takeover = decide::shown_takeover(*state, *there);
    }
    if (session == nullptr) continue;
    read += session->entry()->size();
    begin_element(page.body);
    const std::size_t begin = page.body.size();
    decide::append_session(page.body, at.agent, *session, view);
    if (query.last_message)
      page.rows.emplace_back(at.agent, session->key(), session->session_id, begin, page.body.size());
  }
  if (more && shown == found.size() && cut) end = &*cut;
  if (more && end != nullptr) page.next = write_cursor(api, query, *end, as_of);
  page.end = page_end(page.next, more) +
             fmt::format(R"({},"asOf":"{}"}})", degraded_member(request.principal, degraded), as_of);
  return page;
}

http::Response reply_of(const http::Request& request, SessionPage page) {
  http::Response response = json_response(std::move(page.body) + page.end);
  if (page.next.empty()) return response;
  std::string link = request.path + "?";
  for (const auto& [name, value] : request.query) {
    if (name != "cursor")
      link += fmt::format("{}={}&", name, boost::urls::encode(value, boost::urls::unreserved_chars + ':'));
  }
  response.headers.emplace_back("Link", fmt::format("<{}cursor={}>; rel=\"next\"", link, page.next));
  return response;
}

// Adds the last message of each session. A transcript that is not indexed takes long, and a message may be large: when
// time or room is used up, the rest of the sessions have none.
asio::awaitable<void> add_last_messages(Api& api, const http::Request& request, SessionPage& page) {
  const std::int64_t until = store::steady_ms() + most_last_messages_ms;
  std::string body;
  std::size_t copied = 0;  // of page.body
  for (SessionRow& row : page.rows) {
    if (store::steady_ms() > until || body.size() > limits::page_bytes ||
        (request.client_gone && request.client_gone()))
      break;
    SessionPath path{.agent = row.agent, .target = {.key = row.key}};
    const std::string said = co_await last_message(api, request, std::move(path), std::move(row.session_id));
    if (said.empty()) continue;
    const std::string_view shown = page.body;
    body += shown.substr(copied, row.begin - copied);
    body += json::apply(shown.substr(row.begin, row.end - row.begin), {.set = {{"lastMessage", said}}});
    copied = row.end;
  }
  page.body = std::move(body += std::string_view(page.body).substr(copied));
}

// The result of one turn: how far the examination came, or the page.
struct Turn {
  Progresses progresses{};
  std::string as_of{};
  std::optional<SessionPage> page{};
};

HandlerResult list(Api& api, http::Request& request, std::vector<std::string> agents, bool over_agents) {
  CO_TRY(auto query, read_query(request, store::unix_ms(), over_agents));
  std::optional<Position> after;
  std::string as_of;
  if (const auto text = query_text(request, "cursor")) {
    CO_TRY(auto cursor, read_cursor(api, query, *text));
    after = std::move(cursor.at);
    as_of = std::move(cursor.as_of);
  }
  // A token that sees only part of an agent must not learn whether the agent exists.
  const bool may_be_absent = over_agents || !request.principal.sees_whole_agent(agents.front());
  bool fresh = wants_fresh(request);
  // Examines limits::slice_sessions sessions at a time, so that other requests get their turn. A change in between is
  // newer than the page's asOf, so the client learns of it from an event.
  std::vector<std::string> degraded;
  for (Progresses progresses;;) {
    const auto examine = [&](ledger::Ledger::States states, const ledger::Seen& seen) -> Result<Turn> {
      const std::size_t durable = states.size();
      for (const std::string& agent : agents)
        if (const decide::AgentState* memory = api.ledger.parts().memory.of(agent)) states.push_back(memory);
      if (states.empty() && !may_be_absent) return no_such_agent(agents.front());
      Turn now{.progresses = progresses, .as_of = as_of.empty() ? api.ledger.as_of(seen.seq()) : as_of};
      std::size_t budget = limits::slice_sessions;
      bool ended = true;
      for (std::size_t index = 0; index < states.size(); ++index) {
        const decide::AgentState* state = states[index];
        const std::string name = index < durable ? state->id() : state->id() + " in memory";
        Progress& progress = now.progresses.try_emplace(name, Progress{.after = after}).first->second;
        if (!progress.ended) Scanner(*state, query, request.principal, progress, budget).run();
        ended = ended && progress.ended;
      }
      if (ended) now.page = page_of(api, request, query, now.as_of, states, now.progresses, degraded);
      return now;
    };
    CO_TRY(auto turn, co_await api.ledger.show_all(agents, fresh, examine, over_agents ? &degraded : nullptr));
    if (turn.page) {
      if (query.last_message) co_await add_last_messages(api, request, *turn.page);
      http::Response response = reply_of(request, *std::move(turn.page));
      if (query.view.snapshots) co_await show_snapshots(api, response, true);
      co_return response;
    }
    progresses = std::move(turn.progresses);
    as_of = std::move(turn.as_of);
    fresh = false;
    co_await asio::post(api.ledger.parts().env.io, asio::use_awaitable);
  }
}

HandlerResult of_agent(Api& api, http::Request& request) {
  CO_TRY(auto agent, agent_param(request));
  co_return co_await list(api, request, {agent}, false);
}

HandlerResult of_all(Api& api, http::Request& request) {
  auto agents = co_await api.ledger.agent_ids(query_text(request, "sdkSessionId"));
  for (std::string& agent : api.ledger.parts().memory.agents())
    if (std::ranges::find(agents, agent) == agents.end()) agents.push_back(std::move(agent));
  const auto only = query_text(request, "agent");
  std::erase_if(agents, [&](const std::string& agent) {
    return !request.principal.sees_agent(agent) || (only && *only != agent);
  });
  co_return co_await list(api, request, std::move(agents), true);
}

}  // namespace

void add_list_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  http::QueryNames query{"limit",  "cursor",    "sort",         "channel",      "chatType",      "keyPrefix", "label",
                         "name",   "spawnedBy", "sdkSessionId", "updatedSince", "activeMinutes", "archived",  "q",
                         "fields", "include",   "needs",        "held",         "status"};
  on("GET", "/v1/agents/{agent}/sessions", auth::Permission::read, of_agent, query);
  query.emplace_back("agent");
  on("GET", "/v1/sessions", auth::Permission::read, of_all, query);
}

}  // namespace sessiond::api

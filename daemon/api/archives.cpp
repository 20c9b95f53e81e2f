// Lists of archived transcripts: those of a key, whether its session exists or was deleted, and those of all deleted
// keys of an agent.
#include "daemon/api/archives.hpp"

#include <fmt/format.h>

#include <ranges>

#include "daemon/api/cursor.hpp"
#include "daemon/ledger/show.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"

namespace sessiond::api {
namespace {

using Order = decide::ArchiveIndex::Order;

// Which page of a list is asked for. Records are listed newest first.
struct Page {
  std::size_t limit = 50;
  std::optional<Order> after{};
  std::string what;  // names the list that the cursor is for
};

Result<Page> read_page(const Api& api, const http::Request& request) {
  Page page{.what = "archives of "};
  TRY(page.limit, page_limit(request));
  for (const std::string& param : request.params) page.what += param + " ";
  const auto cursor = query_text(request, "cursor");
  if (!cursor) return page;
  TRY(const auto text, open_cursor(api, *cursor, page.what));
  page.after =
      Order{json::int_at(text, "t").value_or(0), static_cast<std::uint64_t>(json::int_at(text, "q").value_or(0)),
            json::string_at(text, "i").value_or("")};
  return page;
}

Order order_of(const decide::ArchiveRecord& record) { return {record.time, record.seq, record.session_id}; }

std::string cursor_behind(const Api& api, const Page& page, const Order& at) {
  json::ObjectWriter writer;
  writer.integer("t", std::get<0>(at));
  writer.integer("q", static_cast<std::int64_t>(std::get<1>(at)));
  writer.string("i", std::get<2>(at));
  writer.string("f", page.what);
  return seal_cursor(api, writer.text());
}

std::string archive_json(const decide::ArchiveRecord& record) {
  return fmt::format(R"({{"key":{},"sessionId":{},"topic":{},{},"endedAt":{},"reason":{}}})",
                     record.key.empty() ? "null" : json::quote(record.key), json::quote(record.session_id),
                     record.topic ? json::quote(*record.topic) : "null", decide::archived_members(record), record.time,
                     json::quote(record.reason));
}

// `records`: pairs of a record and whether the token may see it, newest first. Of a record that it may not see, a
// cursor holds only the position.
http::Response answer_page(const Api& api, const Page& page, const auto& records, std::uint64_t last_seq) {
  std::string body = "{\"data\":[";
  std::size_t looked_at = 0;
  std::size_t count = 0;
  std::string next;
  std::optional<Order> last;  // the last record on the page
  for (const auto& [record, shown] : records) {
    if (!shown) continue;
    if (looked_at++ == limits::list_scan) {
      next = cursor_behind(api, page, {record->time, record->seq + 1, ""});  // the next page begins with this record
      break;
    }
    if (record->archived_as.empty() && record->entry_as.empty()) continue;
    // Ends the page only at a record that would be on the next one, so that there is a next page.
    if (last && (count == page.limit || body.size() > limits::page_bytes)) {
      next = cursor_behind(api, page, *last);
      break;
    }
    append_element(body, archive_json(*record));
    ++count;
    last = order_of(*record);
  }
  return as_of_response(api, body + page_end(next, !next.empty()) + "}", last_seq);
}

HandlerResult of_key(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto page, read_page(api, request));
  co_return co_await ledger::show_of(
      api.ledger, path.agent, path.target.key, wants_fresh(request),
      [&](const decide::AgentState& state, const ledger::Seen& seen) -> Result<http::Response> {
        const auto session = visible(state, path.target, request.principal);
        auto records = state.archives.of_key(session ? (*session)->key() : path.target.key);
        if (!session && records.empty())
          if (const auto made = store::canonical_key(path.target.key, path.agent))
            records = state.archives.of_key(*made);
        if (!session && records.empty() && request.principal.sees_whole_agent(path.agent))
          records = state.archives.of_id(path.target.key);
        std::erase_if(records, [&](const decide::ArchiveRecord* record) {
          return (record->archived_as.empty() && record->entry_as.empty()) || !sees(request.principal, state, *record);
        });
        if (!session && records.empty()) return std::unexpected(session.error());
        std::erase_if(records, [&](const decide::ArchiveRecord* record) {
          return page.after && order_of(*record) >= *page.after;
        });
        std::ranges::reverse(records);
        const auto all = [](const decide::ArchiveRecord* record) { return std::pair(record, true); };
        return answer_page(api, page, records | std::views::transform(all), seen.seq());
      });
}

HandlerResult of_deleted_keys(Api& api, http::Request& request) {
  CO_TRY(auto agent, agent_param(request));
  CO_TRY(auto page, read_page(api, request));
  const auth::Principal& principal = request.principal;
  co_return co_await api.ledger.show_all(
      {agent}, wants_fresh(request),
      [&](const ledger::Ledger::States& states, const ledger::Seen& seen) -> Result<http::Response> {
        if (states.empty() && principal.sees_whole_agent(agent)) return no_such_agent(agent);
        if (states.empty())  // a token that sees only part of an agent must not learn that the agent does not exist
          return answer_page(api, page, std::vector<std::pair<const decide::ArchiveRecord*, bool>>{}, seen.seq());
        const decide::AgentState& state = *states.front();
        const auto& all = state.archives.all();
        const auto end = page.after ? all.lower_bound(*page.after) : all.end();
        const auto shown = [&](const auto& pair) {
          const decide::ArchiveRecord& record = pair.second;
          const decide::Session* lives = record.key.empty() ? nullptr : state.find_key(record.key);
          const bool living = lives != nullptr && sees(principal, state, *lives);
          return std::pair(&record, !living && sees(principal, state, record));
        };
        return answer_page(api, page,
                           std::ranges::subrange(all.begin(), end) | std::views::reverse | std::views::transform(shown),
                           seen.seq());
      });
}

}  // namespace

asio::awaitable<Result<std::map<std::string, std::string>>> archives_of(Api& api, std::string agent, std::string id) {
  if (!store::check_session_id(id)) co_return no_such_session(agent, id);
  const auto dir = sessions_folder(api, agent);
  CO_TRY(co_await api.ledger.flusher().flush(agent, store::transcript_file(id, "")));
  CO_TRY(const auto names, co_await on_disk(api, [dir, id] { return transcripts::list_archives(dir, id); }));
  std::map<std::string, std::string> newest;
  std::map<std::string, std::int64_t> times;
  for (const std::string& name : names) {
    const auto parsed = transcripts::parse_file_name(name);
    if (!parsed) continue;
    const std::string topic = store::topic_of_file(id, fmt::format("{}.jsonl", parsed->stem)).value_or("");
    const auto [at, added] = times.try_emplace(topic, parsed->time);
    if (!added && at->second > parsed->time) continue;
    at->second = parsed->time;
    newest[topic] = name;
  }
  if (newest.empty()) co_return no_such_session(agent, id);
  co_return newest;
}

void add_archive_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/agents/{agent}/archives", auth::Permission::read, of_deleted_keys, {"limit", "cursor"});
  on("GET", "/v1/agents/{agent}/sessions/{key}/archives", auth::Permission::read, of_key, {"limit", "cursor"});
}

}  // namespace sessiond::api

// Which archived transcripts there are: of a key, living or deleted, and of an agent's deleted keys (API §3).
#include "daemon/api/archives.hpp"

#include <fmt/format.h>

#include <ranges>

#include "daemon/api/cursor.hpp"
#include "daemon/ledger/show.hpp"
#include "daemon/runtime/hop.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "transcripts/archive.hpp"

namespace sessiond {
namespace {

using Order = ArchiveIndex::Order;

// One page of records, the newest first.
struct Page {
  std::size_t limit = 50;
  std::optional<Order> after{};
  std::string what;  // the list that the cursor is of
};

Result<Page> read_page(const Api& api, const Request& request) {
  auto limit = query_int(request, "limit", 1, 200);
  if (!limit) return std::unexpected(std::move(limit.error()));
  Page page{.limit = static_cast<std::size_t>(limit->value_or(50)), .what = "archives of "};
  for (const std::string& param : request.params) page.what += param + " ";
  const auto cursor = query_text(request, "cursor");
  if (!cursor) return page;
  const auto text = open_cursor(api, *cursor);
  if (!text || json::string_at(*text, "f") != page.what) return fail(Code::bad_cursor, "cursor: not one of this list");
  page.after =
      Order{json::int_at(*text, "t").value_or(0), static_cast<std::uint64_t>(json::int_at(*text, "q").value_or(0)),
            json::string_at(*text, "i").value_or("")};
  return page;
}

Order order_of(const ArchiveRecord& record) { return {record.time, record.seq, record.session_id}; }

std::string cursor_behind(const Api& api, const Page& page, const Order& at) {
  std::string text;
  json::ObjectWriter writer(text);
  writer.integer("t", std::get<0>(at));
  writer.integer("q", static_cast<std::int64_t>(std::get<1>(at)));
  writer.string("i", std::get<2>(at));
  writer.string("f", page.what);
  writer.close();
  return seal_cursor(api, text);
}

std::string archive_json(const ArchiveRecord& record) {
  return fmt::format(R"({{"key":{},"sessionId":{},"topic":{},{},"endedAt":{},"reason":{}}})",
                     record.key.empty() ? "null" : json::quote(record.key), json::quote(record.session_id),
                     record.topic ? json::quote(*record.topic) : "null", archived_members(record), record.time,
                     json::quote(record.reason));
}

bool sees(const Principal& principal, const std::string& agent, const ArchiveRecord& record) {
  return principal.sees_whole_agent(agent) ||
         (!record.key.empty() && principal.sees(agent, record.key, record.channel));
}

// `records`: the newest first, and whether each is shown. A cursor holds nothing of one that is not but where it
// stands.
Response answer_page(const Api& api, const Page& page, auto records, std::uint64_t last_seq) {
  std::string body = "{\"data\":[";
  std::size_t looked_at = 0;
  std::size_t count = 0;
  std::string next;
  std::optional<Order> last;  // shown
  for (const auto& [record, shown] : records) {
    if (!shown) continue;
    if (looked_at++ == limits::list_scan) {
      next = cursor_behind(api, page, {record->time, record->seq + 1, ""});  // this one comes again
      break;
    }
    if (record->archived_as.empty()) continue;
    if (last && (count == page.limit || body.size() > limits::page_bytes)) {  // not before another one is there
      next = cursor_behind(api, page, *last);
      break;
    }
    if (body.back() != '[') body += ',';
    body += archive_json(*record);
    ++count;
    last = order_of(*record);
  }
  body += fmt::format(R"(],"page":{{"next":{},"hasMore":{}}},"asOf":"{}"}})", next.empty() ? "null" : json::quote(next),
                      !next.empty(), api.ledger.as_of(last_seq));
  return json_response(std::move(body));
}

Served of_key(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto target = target_param(request, api, Match::ignored);
  if (!target) co_return std::unexpected(std::move(target.error()));
  auto page = read_page(api, request);
  if (!page) co_return std::unexpected(std::move(page.error()));
  co_return co_await api.ledger.show(
      *agent, wants_fresh(request), [&](const AgentState& state, const Seen& seen) -> Result<Response> {
        const auto session = visible(state, *target, request.principal);
        std::string key = target->key;
        if (session) {
          key = (*session)->key();
        } else if (const auto made = canonical_key(target->key, *agent)) {
          key = *made;
        }
        auto records = state.archives.of_key(key);
        if (!session && records.empty() && request.principal.sees_whole_agent(*agent))
          records = state.archives.of_id(target->key);
        std::erase_if(records, [&](const ArchiveRecord* record) {
          return record->archived_as.empty() || !sees(request.principal, *agent, *record);
        });
        if (!session && records.empty()) return std::unexpected(session.error());
        std::erase_if(records,
                      [&](const ArchiveRecord* record) { return page->after && order_of(*record) >= *page->after; });
        std::ranges::reverse(records);
        const auto all = [](const ArchiveRecord* record) { return std::pair(record, true); };
        return answer_page(api, *page, records | std::views::transform(all), seen.seq());
      });
}

Served of_deleted_keys(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto page = read_page(api, request);
  if (!page) co_return std::unexpected(std::move(page.error()));
  const Principal& principal = request.principal;
  co_return co_await api.ledger.show_all(
      {*agent}, wants_fresh(request), [&](const Ledger::States& states, const Seen& seen) -> Result<Response> {
        if (states.empty() && principal.sees_whole_agent(*agent))
          return fail(Code::agent_not_found, fmt::format("there is no agent {}", *agent));
        if (states.empty())  // to who sees only a part of an agent, one that is not there is one without archives
          return answer_page(api, *page, std::vector<std::pair<const ArchiveRecord*, bool>>{}, seen.seq());
        const AgentState& state = *states.front();
        const auto& all = state.archives.all();
        const auto end = page->after ? all.lower_bound(*page->after) : all.end();
        const auto shown = [&](const auto& pair) {
          const ArchiveRecord& record = pair.second;
          const Session* lives = record.key.empty() ? nullptr : state.find_key(record.key);
          const bool living = lives != nullptr && principal.sees(*agent, lives->key(), lives->channel);
          return std::pair(&record, !living && sees(principal, *agent, record));
        };
        return answer_page(api, *page,
                           std::ranges::subrange(all.begin(), end) | std::views::reverse | std::views::transform(shown),
                           seen.seq());
      });
}

}  // namespace

asio::awaitable<Result<std::map<std::string, std::string>>> archives_of(Api& api, std::string agent, std::string id) {
  const auto missing = [&] {
    return fail(Code::session_not_found, fmt::format("agent {} has no session {}", agent, id));
  };
  if (!check_session_id(id)) co_return missing();
  const auto dir = api.ledger.paths().state_dir() / api.ledger.paths().sessions_dir(agent);
  if (auto flushed = co_await api.ledger.flush_transcript(agent, transcript_file(id, "")); !flushed)
    co_return std::unexpected(std::move(flushed.error()));
  const auto names = co_await hop(api.ledger.disk().get_executor(), [dir, id] { return list_archives(dir, id); });
  if (!names) co_return std::unexpected(names.error());
  std::map<std::string, std::string> newest;
  std::map<std::string, std::int64_t> times;
  for (const std::string& name : *names) {
    const auto parsed = parse_file_name(name);
    if (!parsed) continue;
    const std::string topic = topic_of_file(id, fmt::format("{}.jsonl", parsed->stem)).value_or("");
    const auto [at, added] = times.try_emplace(topic, parsed->time);
    if (!added && at->second > parsed->time) continue;
    at->second = parsed->time;
    newest[topic] = name;
  }
  if (newest.empty()) co_return missing();
  co_return newest;
}

void add_archive_routes(Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/agents/{agent}/archives", Permission::read, of_deleted_keys, {"limit", "cursor"});
  on("GET", "/v1/agents/{agent}/sessions/{key}/archives", Permission::read, of_key, {"limit", "cursor"});
}

}  // namespace sessiond

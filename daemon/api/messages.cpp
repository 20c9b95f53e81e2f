// Messages and transcripts of a session (API §4). {key} may also be the id of an archived transcript, read only.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "daemon/api/archives.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/ledger/reader.hpp"
#include "daemon/runtime/hop.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "transcripts/archive.hpp"

namespace sessiond {
namespace {

Result<std::optional<std::string>> topic_of(const Request& request) {
  auto topic = query_text(request, "topic");
  if (!topic) return topic;
  if (auto fine = check_topic(*topic); !fine) return std::unexpected(std::move(fine.error()));
  return topic;
}

// The file a GET reads.
struct Source {
  std::string agent;
  std::string session_id;
  std::string file;
  std::string as_of;
};

// A session id that only archived files remember, of this token's agent.
asio::awaitable<Result<Source>> archived_source(Api& api, std::string agent, std::string id,
                                                std::optional<std::string> topic) {
  auto archives = co_await archives_of(api, agent, id);
  if (!archives) co_return std::unexpected(std::move(archives.error()));
  const auto found = archives->find(topic.value_or(""));
  if (found == archives->end())
    co_return fail(Code::session_not_found, fmt::format("agent {} has no session {}", agent, id));
  co_return Source{std::move(agent), std::move(id), std::move(found->second), api.ledger.as_of(0)};
}

asio::awaitable<Result<Source>> source_of(Api& api, const Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto target = target_param(request, api, Match::ignored);
  if (!target) co_return std::unexpected(std::move(target.error()));
  auto topic = topic_of(request);
  if (!topic) co_return std::unexpected(std::move(topic.error()));
  auto source = co_await api.ledger.show(
      *agent, wants_fresh(request), [&](const AgentState& state, Seen& seen) -> Result<std::optional<Source>> {
        const auto session = visible(state, *target, request.principal);
        if (!session) {
          if (!sees_archives(request.principal, state, target->key) || state.find(target->key) != nullptr)
            return std::unexpected(session.error());
          return std::nullopt;  // archived, if at all
        }
        seen.only(**session, target->key);
        const std::string& id = (*session)->session_id;
        if (const auto guard = query_text(request, "sessionId"); guard && *guard != id) {
          return std::unexpected(Problem{.code = Code::session_reset,
                                         .detail = fmt::format("the session was reset; its id is {} now", id),
                                         .members = {{"sessionId", json::quote(id)}}});
        }
        std::string file = AgentState::file_of(**session, *topic);
        if (*topic && !state.may_use(**session, file))
          return fail(Code::not_found, fmt::format("{} has no topic {}", (*session)->key(), **topic));
        return Source{*agent, id, std::move(file), api.ledger.as_of(seen.seq())};
      });
  if (!source) co_return std::unexpected(std::move(source.error()));
  if (*source) co_return std::move(**source);
  if (const auto guard = query_text(request, "sessionId"); guard && *guard != target->key)
    co_return fail(Code::session_reset, fmt::format("{} is archived; it is not session {}", target->key, *guard));
  co_return co_await archived_source(api, *agent, target->key, *topic);
}

Served post(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto target = target_param(request, api, Match::ignored);
  if (!target) co_return std::unexpected(std::move(target.error()));
  auto topic = topic_of(request);
  if (!topic) co_return std::unexpected(std::move(topic.error()));
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  AppendMessages command{.target = *target, .append = {.topic = *topic}};
  if (json::kind(*body) == json::Kind::object && json::find(*body, "entries")) {
    auto fields = Fields::of(*body);
    if (!fields) co_return std::unexpected(std::move(fields.error()));
    const auto entries = fields->array("entries");
    if (const auto expected = fields->integer("expectedSeq"))
      command.append.expected_seq = static_cast<std::uint64_t>(*expected);
    if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
    for (const auto element : json::elements(entries.value_or("[]"))) {
      auto entry = parse_entry(element, fmt::format("/entries/{}", command.append.entries.size()));
      if (!entry) co_return std::unexpected(std::move(entry.error()));
      command.append.entries.push_back(std::move(*entry));
      if (command.append.entries.size() > limits::message_entries)
        co_return fail_at("/entries", fmt::format("more than {} entries", limits::message_entries));
    }
    if (command.append.entries.empty()) co_return fail_at("/entries", "is empty");
  } else {
    auto entry = parse_entry(*body, "");
    if (!entry) co_return std::unexpected(std::move(entry.error()));
    command.append.entries.push_back(std::move(*entry));
  }
  auto intent = intent_of(request);
  if (!intent) co_return std::unexpected(std::move(intent.error()));
  auto reply = co_await api.ledger.commit(*agent, std::move(*intent), scoped(std::move(command), request.principal));
  if (!reply) co_return std::unexpected(std::move(reply.error()));
  co_return to_response(std::move(*reply));
}

struct Reading {
  PageQuery page;
  View view = View::full;
};

Result<Reading> read_reading(const Request& request) {
  Reading reading;
  auto after = query_int(request, "after", -1, INT64_MAX);  // seq begins at 0: -1 is before the first
  if (!after) return std::unexpected(std::move(after.error()));
  if (*after && **after >= 0) reading.page.after = static_cast<std::uint64_t>(**after);
  auto before = query_int(request, "before", 0, INT64_MAX);
  if (!before) return std::unexpected(std::move(before.error()));
  if (*before) reading.page.before = static_cast<std::uint64_t>(**before);
  auto limit = query_int(request, "limit", 1, 200);
  if (!limit) return std::unexpected(std::move(limit.error()));
  reading.page.limit = static_cast<std::size_t>(limit->value_or(50));
  const std::string order = query_text(request, "order").value_or(reading.page.before && !*after ? "desc" : "asc");
  if (order != "asc" && order != "desc") return fail(Code::bad_request, "order must be asc or desc");
  reading.page.descending = order == "desc";
  auto types = query_names(request, "types");
  if (!types) return std::unexpected(std::move(types.error()));
  reading.page.types = std::move(*types);
  const std::string view = query_text(request, "view").value_or("full");
  if (view == "raw")
    reading.view = View::raw;
  else if (view == "chat")
    reading.view = View::chat;
  else if (view != "full")
    return fail(Code::bad_request, "view must be full, chat or raw");
  return reading;
}

Served get_page(Api& api, Request& request) {
  auto reading = read_reading(request);
  if (!reading) co_return std::unexpected(std::move(reading.error()));
  auto source = co_await source_of(api, request);
  if (!source) co_return std::unexpected(std::move(source.error()));
  auto body = co_await api.ledger.read_transcript(
      source->agent, source->file, [reading = *reading](Transcript& transcript) -> Result<std::string> {
        auto page = transcript.page(reading.page);
        if (!page) return std::unexpected(std::move(page.error()));
        std::string out = "{\"data\":[";
        for (const StoredLine& line : page->lines) {
          auto message = view_entry(line.line, line.seq, reading.view);
          if (!message) continue;
          if (out.back() != '[') out += ',';
          out += *message;
        }
        const std::string next = page->has_more && page->next ? std::to_string(*page->next) : "null";
        out += fmt::format(R"(],"page":{{"{}":{},"hasMore":{}}})", reading.page.descending ? "nextBefore" : "nextAfter",
                           next, page->has_more);
        return out;
      });
  if (!body) co_return std::unexpected(std::move(body.error()));
  *body += fmt::format(R"(,"sessionId":{},"asOf":"{}"}})", json::quote(source->session_id), source->as_of);
  co_return json_response(std::move(*body));
}

Served get_one(Api& api, Request& request) {
  const std::string id = request.params.at(2);
  auto source = co_await source_of(api, request);
  if (!source) co_return std::unexpected(std::move(source.error()));
  auto line = co_await api.ledger.read_transcript(source->agent, source->file,
                                                  [id](Transcript& transcript) { return transcript.find(id); });
  if (!line) co_return std::unexpected(std::move(line.error()));
  if (!*line) co_return fail(Code::message_not_found, fmt::format("there is no message {} in this transcript", id));
  const bool raw = query_text(request, "view") == "raw";
  std::string body = view_entry((*line)->line, (*line)->seq, raw ? View::raw : View::full).value_or("{}");
  body.pop_back();
  body += fmt::format("{}\"asOf\":\"{}\"}}", body.size() > 1 ? "," : "", source->as_of);
  co_return json_response(std::move(body));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// RFC 9110 §14: one range of bytes. Nothing: no range asked for, or one that is to be ignored, such as of HEAD, or with
// an If-Range, which can name none of our transcripts since we send no validator.
struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t length = 0;
};
Result<std::optional<ByteRange>> byte_range(const Request& request, std::uint64_t size) {
  std::string_view header = request.header("range");
  constexpr std::string_view unit = "bytes=";
  const bool bytes = std::ranges::equal(header.substr(0, unit.size()), unit, {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  });
  if (!bytes || header.contains(',') || request.method != "GET" || !request.header("if-range").empty()) {
    return std::optional<ByteRange>{};
  }
  header.remove_prefix(unit.size());
  const std::size_t dash = header.find('-');
  if (dash == std::string_view::npos) return std::optional<ByteRange>{};
  const std::string_view first_text = trim(header.substr(0, dash));
  const std::string_view last_text = trim(header.substr(dash + 1));
  if (!std::ranges::all_of(first_text, is_digit) || !std::ranges::all_of(last_text, is_digit)) {
    return std::optional<ByteRange>{};
  }
  const auto number = [](std::string_view text) -> std::optional<std::uint64_t> {
    if (text.empty()) return {};
    std::uint64_t value = 0;
    const auto error = std::from_chars(text.data(), text.data() + text.size(), value).ec;
    return error == std::errc{} ? value : std::numeric_limits<std::uint64_t>::max();  // behind every end
  };
  const auto first = number(first_text);
  const auto last = number(last_text);
  const auto unsatisfiable = [size] {
    return std::unexpected(
        Problem{.code = Code::range_not_satisfiable, .detail = fmt::format("the transcript has {} bytes", size)});
  };
  if (!first && !last) return std::optional<ByteRange>{};
  if (!first) {  // the last n bytes
    if (*last == 0 || size == 0) return unsatisfiable();
    const std::uint64_t length = std::min(*last, size);
    return ByteRange{size - length, length};
  }
  if (last && *last < *first) return std::optional<ByteRange>{};
  if (*first >= size) return unsatisfiable();
  return ByteRange{*first, std::min(last.value_or(size - 1), size - 1) - *first + 1};
}

Served get_transcript(Api& api, Request& request) {
  auto source = co_await source_of(api, request);
  if (!source) co_return std::unexpected(std::move(source.error()));
  auto tail = co_await api.ledger.read_transcript(
      source->agent, source->file, [](Transcript& transcript) -> Result<TranscriptTail> { return transcript.tail(); });
  if (!tail) co_return std::unexpected(std::move(tail.error()));
  if (!tail->exists) co_return fail(Code::not_found, "this session has no transcript yet");
  auto range = byte_range(request, tail->size);
  Response response;
  response.content_type = "application/x-ndjson";
  response.headers.emplace_back("Accept-Ranges", "bytes");
  if (!range) {
    Response problem = to_response(range.error(), request);
    problem.headers.emplace_back("Content-Range", fmt::format("bytes */{}", tail->size));
    co_return problem;
  }
  const ByteRange bytes = range->value_or(ByteRange{0, tail->size});
  if (*range) {
    response.status = 206;
    response.headers.emplace_back(
        "Content-Range", fmt::format("bytes {}-{}/{}", bytes.first, bytes.first + bytes.length - 1, tail->size));
  }
  const auto path = api.ledger.paths().state_dir() / api.ledger.paths().sessions_dir(source->agent) / source->file;
  response.file = Response::FileBody{.path = path.string(), .offset = bytes.first, .length = bytes.length};
  co_return response;
}

}  // namespace

void add_message_routes(Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/agents/{agent}/sessions/{key}";
  on("POST", one + "/messages", Permission::write, post, {"topic"});
  on("GET", one + "/messages", Permission::read, get_page,
     {"topic", "sessionId", "after", "before", "limit", "order", "types", "view"});
  on("GET", one + "/messages/{id}", Permission::read, get_one, {"topic", "sessionId", "view"});
  on("GET", one + "/transcript", Permission::read, get_transcript, {"topic", "sessionId"});
}

}  // namespace sessiond

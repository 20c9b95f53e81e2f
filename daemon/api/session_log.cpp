// The log of a session, which runners and the daemon write, and what a run asked of its model, rebuilt from it.
#include "daemon/decide/session_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/api/context.hpp"
#include "daemon/api/transcript_source.hpp"
#include "daemon/http/target.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "store/limits.hpp"
#include "store/utf8.hpp"

namespace sessiond::api {
namespace {

using LogMode = decide::LogRules::Mode;

// Members that say how the work went, and nothing of what was said: sessionLog meta keeps them.
constexpr auto logged_facts = std::to_array<std::string_view>({"provider",
                                                               "model",
                                                               "round",
                                                               "executionId",
                                                               "callId",
                                                               "tool",
                                                               "tools",
                                                               "mode",
                                                               "maxConcurrency",
                                                               "count",
                                                               "batchIndex",
                                                               "ownerPath",
                                                               "success",
                                                               "toolCallCount",
                                                               "webToolsEnabled",
                                                               "systemPromptLength",
                                                               "cwd",
                                                               "historyThroughSeq",
                                                               "messagesRef",
                                                               "reason",
                                                               "code"});

// The members of a kind that must have a type, where they are there.
struct Expected {
  std::string_view name;
  json::Kind kind;
};
constexpr std::array<Expected, 15> typed_members{{{"provider", json::Kind::string},
                                                  {"model", json::Kind::string},
                                                  {"tool", json::Kind::string},
                                                  {"callId", json::Kind::string},
                                                  {"executionId", json::Kind::string},
                                                  {"mode", json::Kind::string},
                                                  {"tools", json::Kind::array},
                                                  {"round", json::Kind::number},
                                                  {"maxConcurrency", json::Kind::number},
                                                  {"count", json::Kind::number},
                                                  {"batchIndex", json::Kind::number},
                                                  {"toolCallCount", json::Kind::number},
                                                  {"success", json::Kind::boolean},
                                                  {"webToolsEnabled", json::Kind::boolean},
                                                  {"messagesRef", json::Kind::object}}};

bool is_kind(std::string_view type) {
  return std::ranges::find(decide::log_kinds(), type) != decide::log_kinds().end();
}

// A value without its texts: a number, a boolean and null stay, anything else becomes its length in code points.
std::string length_of(std::string_view value) {
  const json::Kind kind = json::kind(value);
  if (kind != json::Kind::string && kind != json::Kind::array && kind != json::Kind::object) return std::string(value);
  const auto text = json::as_string(value);
  return fmt::format(R"({{"length":{}}})", store::count_code_points(text ? *text : json::compact(value)));
}

// A line as it was read. A view that it names is still to be told whole: what the entry decides of it.
struct ReadLine {
  decide::LogLine line{};
  std::string pointer{};
  struct Reference {
    std::int64_t through_seq = 0;
    std::string query{};
    std::size_t at = 0;  // its place in line.members
    std::string pointer{};
  };
  std::optional<Reference> reference{};
};

// Reads {throughSeq, query}.
Result<ReadLine::Reference> read_reference(std::string_view value, const std::string& pointer) {
  TRY(auto fields, Fields::of(value, pointer));
  const auto through = fields.integer("throughSeq");
  std::string query = fields.string("query").value_or("");
  if (!through) fields.fault("throughSeq", "is missing: the seq of the last entry that the view was made of");
  if (query != "view=llm" && !query.starts_with("view=llm&")) fields.fault("query", "must begin with view=llm");
  TRY(fields.done());
  return ReadLine::Reference{.through_seq = *through, .query = std::move(query), .pointer = pointer};
}

// Puts the reference of a line into it. The query gets what the entry decides of the view, so that the view can be made
// again. Checks the line's length.
Result<decide::LogLine> finished(const Api& api, ReadLine read, std::string_view agent, std::string_view entry) {
  if (read.reference) {
    auto whole = complete_view_query(api, read.reference->query, agent, entry);
    if (!whole) return fail_at(read.reference->pointer + "/query", std::move(whole.error().detail));
    json::ObjectWriter out;
    out.integer("throughSeq", read.reference->through_seq);
    out.string("query", *whole);
    read.line.members.insert(read.reference->at, out.text());
  }
  const std::uint64_t most = api.config.limits.log_entry_bytes;
  if (read.line.members.size() > most)
    return fail_at(read.pointer,
                   fmt::format("has {} bytes; limits.logEntryBytes is {}", read.line.members.size(), most));
  return std::move(read.line);
}

Result<ReadLine> read_line(std::string_view object, LogMode mode, const std::string& pointer) {
  if (json::kind(object) != json::Kind::object) return fail_at(pointer, "must be an object");
  ReadLine read{.pointer = pointer};
  decide::LogLine& line = read.line;
  line = {.type = json::string_at(object, "type").value_or("")};
  if (!is_kind(line.type))
    return fail_at(pointer + "/type", fmt::format("must be one of {}", fmt::join(decide::log_kinds(), ", ")));
  std::string text;
  json::ObjectWriter members(text);
  for (const json::Member& member : json::members(object)) {
    const std::string name = json::unescape(member.name);
    const std::string at = pointer + "/" + name;
    if (name == "type") continue;
    if (name == "seq" || name == "time" || name == "id") return fail_at(at, "is set by the daemon");
    if (name == "runId") {
      const auto id = json::as_string(member.value);
      if (!id || !store::valid_entry_id(*id)) return fail_at(at, "must be the id of a run");
      line.run_id = *id;
      continue;
    }
    const auto known = std::ranges::find(typed_members, name, &Expected::name);
    if (known != typed_members.end() && json::kind(member.value) != known->kind && member.value != "null")
      return fail_at(at, fmt::format("must be {}", known->kind == json::Kind::string    ? "a string"
                                                   : known->kind == json::Kind::number  ? "a number"
                                                   : known->kind == json::Kind::boolean ? "true or false"
                                                   : known->kind == json::Kind::array   ? "an array"
                                                                                        : "an object"));
    if (name == "messagesRef" && member.value != "null") {
      TRY(read.reference, read_reference(member.value, at));
      members.raw(name, "");
      read.reference->at = text.size() - 1;  // without the brace
      continue;
    }
    const bool whole = mode == LogMode::full || std::ranges::find(logged_facts, name) != logged_facts.end();
    members.raw(member.name, whole ? json::compact(member.value) : length_of(member.value));
  }
  line.members = text.substr(1);
  return read;
}

Result<std::vector<ReadLine>> read_lines(http::Request& request, const Limits& limits, LogMode mode) {
  TRY(const auto body, body_of(request, limits));
  std::vector<ReadLine> lines;
  const auto list = json::find(body, "entries");
  if (!list) {
    TRY(auto line, read_line(body, mode, ""));
    lines.push_back(std::move(line));
    return lines;
  }
  TRY(auto fields, Fields::of(body));
  const auto elements = fields.array("entries");
  TRY(fields.done());
  for (const auto element : json::elements(elements.value_or("[]"))) {
    if (lines.size() == limits::message_entries)
      return fail_at("/entries", fmt::format("more than {} entries", limits::message_entries));
    TRY(auto line, read_line(element, mode, "/entries/" + std::to_string(lines.size())));
    lines.push_back(std::move(line));
  }
  if (lines.empty()) return fail_at("/entries", "is empty");
  return lines;
}

HandlerResult post_log(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto lines, co_await off_the_loop(api, request, [&, mode = api.ledger.rules().log.mode](const Limits& limits) {
           return read_lines(request, limits, mode);
         }));
  std::string entry = "{}";
  if (std::ranges::any_of(lines, [](const ReadLine& line) { return line.reference.has_value(); })) {
    CO_TRY(const auto source, co_await source_at(api, request, {.path = path}));  // the view is the session's as it is
    if (source.entry) entry = *source.entry;
  }
  decide::AppendLog command{.target = path.target};
  for (ReadLine& line : lines) {
    CO_TRY(auto finished_line, finished(api, std::move(line), path.agent, entry));
    command.lines.push_back(std::move(finished_line));
  }
  co_return co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request));
}

// A line as it is shown: itself, if it is an object.
std::string shown_line(const transcripts::StoredLine& line) {
  if (json::kind(line.line) == json::Kind::object && json::check(line.line, {.max_depth = json::foreign_depth}))
    return line.line;
  return fmt::format(R"({{"seq":{},"type":"unreadable","bytes":{}}})", line.seq, line.line.size());
}

struct LogQuery {
  std::optional<std::uint64_t> after{};
  std::size_t limit = 50;
  std::vector<std::string> types{};  // empty: all
  std::string run_id{};              // empty: any
};

struct LogPage {
  std::string lines{};  // the elements of the array
  std::string next{};   // empty: it is the last page
};

// Reads a page of the lines that are of the kinds and the run that are asked for. Blocks.
Result<LogPage> read_log_page(transcripts::Transcript& log, const LogQuery& asked) {
  constexpr std::size_t most_scanned = 20'000;
  const auto is_wanted = [&asked](std::string_view line) {
    if (!asked.types.empty() &&
        std::ranges::find(asked.types, json::string_at(line, "type").value_or("")) == asked.types.end())
      return false;
    return asked.run_id.empty() || json::string_at(line, "runId") == asked.run_id;
  };
  LogPage out;
  transcripts::PageQuery query{.after = asked.after, .limit = 200};
  std::size_t found = 0;
  for (std::size_t scanned = 0;;) {
    TRY(const auto page, log.page(query));
    for (const transcripts::StoredLine& line : page.lines) {
      ++scanned;
      if (!is_wanted(line.line)) continue;
      if (found == asked.limit || out.lines.size() > limits::page_bytes) {
        out.next = std::to_string(line.seq - 1);
        return out;
      }
      out.lines.append(out.lines.empty() ? "" : ",").append(shown_line(line));
      ++found;
    }
    if (!page.has_more || !page.next) return out;
    query.after = page.next;
    if (scanned < most_scanned) continue;
    out.next = std::to_string(*page.next);
    return out;
  }
}

HandlerResult get_log(Api& api, http::Request& request) {
  LogQuery asked;
  CO_TRY(const auto after, query_int(request, "after", -1, INT64_MAX));
  if (after && *after >= 0) asked.after = static_cast<std::uint64_t>(*after);
  CO_TRY(asked.limit, page_limit(request));
  CO_TRY(asked.types, query_names(request, "types"));
  for (const std::string& type : asked.types)
    if (!is_kind(type))
      co_return fail(Code::bad_request, fmt::format("?types= names {}, which is no kind of line", type));
  asked.run_id = query_text(request, "runId").value_or("");
  TranscriptAsked of{.guard = query_text(request, "sessionId"), .fresh = wants_fresh(request)};
  CO_TRY(of.path, session_path(request, api));
  CO_TRY(const auto source, co_await source_at(api, request, std::move(of)));
  LogPage page;
  const bool in_memory = source.memory != nullptr;
  if (!in_memory && store::check_session_id(source.session_id)) {
    CO_TRY(page, co_await api.ledger.read_transcript(
                     source.agent, store::log_file(source.session_id),
                     [&](transcripts::Transcript& log) { return read_log_page(log, asked); }));
  }
  co_return json_response(fmt::format(
      R"({{"data":[{}],"page":{{"nextAfter":{},"hasMore":{}}},"enabled":{},"sessionId":{},"asOf":"{}"}})", page.lines,
      page.next.empty() ? "null" : page.next, !page.next.empty(),
      !in_memory && api.ledger.rules().log.mode != LogMode::off, json::quote(source.session_id), source.as_of));
}

// The lines of a run that tell what it asked and was answered.
struct RunLines {
  std::vector<std::string> requests{}, responses{}, tools{};
  std::uint64_t bytes = 0;
};

Result<RunLines> read_run(transcripts::Transcript& log, const std::string& run_id) {
  RunLines out;
  transcripts::PageQuery query{
      .limit = 1'000,
      .types = {"provider_request", "provider_response_normalized", "tool_execution_request", "tool_execution_result"}};
  for (;;) {
    TRY(const auto page, log.page(query));
    for (const transcripts::StoredLine& line : page.lines) {
      const json::Index members(line.line);
      if (members.string_at("runId") != run_id || !json::check(line.line, {.max_depth = json::foreign_depth})) continue;
      out.bytes += line.line.size();
      if (out.bytes > limits::view_bytes)
        return fail(
            Code::validation_failed,
            fmt::format("the lines of the run have more than {} bytes: read the log in pages", limits::view_bytes));
      const std::string type = members.string_at("type").value_or("");
      auto& list = type == "provider_request" ? out.requests : type.starts_with("provider") ? out.responses : out.tools;
      list.push_back(line.line);
    }
    if (!page.has_more || !page.next) return out;
    query.after = page.next;
  }
}

// A request with the messages that its messagesRef stands for.
asio::awaitable<Result<std::string>> rebuilt(Api& api, const http::Request& request, const SessionPath& path,
                                             std::string line) {
  const auto reference = json::find(line, "messagesRef");
  if (!reference || json::kind(*reference) != json::Kind::object) co_return line;
  CO_TRY(auto query, http::split_query(json::string_at(*reference, "query").value_or("")));
  TranscriptAsked asked{.path = path};
  const auto topic = std::ranges::find(query, "topic", &std::pair<std::string, std::string>::first);
  if (topic != query.end()) asked.topic = topic->second;
  CO_TRY(const auto source, co_await source_at(api, request, std::move(asked)));
  const auto through = static_cast<std::uint64_t>(json::int_at(*reference, "throughSeq").value_or(0));
  CO_TRY(const auto view, co_await view_then(api, source, std::move(query), through));
  json::Edit edit;
  edit.put("messages", view.data);
  if (view.system != "[]") edit.put("system", view.system);
  co_return json::apply(line, edit);
}

HandlerResult replay_run(Api& api, http::Request& request) {
  CO_TRY(const auto path, session_path(request, api));
  const std::string run_id = request.params.at(2);
  CO_TRY(const auto source, co_await source_at(api, request, {.path = path, .fresh = wants_fresh(request)}));
  RunLines run;
  if (source.memory == nullptr && store::check_session_id(source.session_id)) {
    CO_TRY(run,
           co_await api.ledger.read_transcript(source.agent, store::log_file(source.session_id),
                                               [&](transcripts::Transcript& log) { return read_run(log, run_id); }));
  }
  if (run.bytes == 0) co_return fail(Code::run_not_found, fmt::format("the log has no request of a run {}", run_id));
  std::uint64_t bytes = 0;
  for (std::string& line : run.requests) {
    CO_TRY(line, co_await rebuilt(api, request, path, std::move(line)));
    bytes += line.size();
    if (bytes > limits::view_bytes)
      co_return fail(
          Code::validation_failed,
          fmt::format("the requests of the run have more than {} bytes: read the log in pages", limits::view_bytes));
  }
  const auto list = [](const std::vector<std::string>& lines) {
    std::string all = "[";
    for (const std::string& line : lines) append_element(all, line);
    return all + "]";
  };
  json::ObjectWriter out;
  out.raw("requests", list(run.requests));
  out.raw("responses", list(run.responses));
  out.raw("tools", list(run.tools));
  out.string("sessionId", source.session_id);
  co_return as_of_response(out.text(), source.as_of);
}

}  // namespace

void add_session_log_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/agents/{agent}/sessions/{key}";
  on("POST", one + "/log", auth::Permission::append, words(post_log));
  on("GET", one + "/log", auth::Permission::read, get_log, {"types", "runId", "after", "limit", "sessionId"});
  on("GET", one + "/runs/{id}/replay", auth::Permission::read, replay_run);
}

}  // namespace sessiond::api

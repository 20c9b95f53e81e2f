// How full a model's window is, what the model is shown, and the compaction of what came before.
#include "daemon/api/context.hpp"

#include <fmt/format.h>

#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>

#include <algorithm>

#include "daemon/api/asked_view.hpp"
#include "daemon/api/asking.hpp"
#include "daemon/api/media.hpp"
#include "daemon/api/message_scan.hpp"
#include "daemon/api/transcript_source.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "policy/context/compaction.hpp"
#include "policy/context/window.hpp"
#include "store/limits.hpp"
#include "transcripts/conversation.hpp"

namespace sessiond::api {
namespace {

// The numbers that both S/context and view=llm show.
void write_context(json::ObjectWriter& out, const TranscriptSource& source, const context::Settings& settings,
                   const context::Window& window, const context::Meter& meter, std::int64_t used) {
  out.integer("window", window.tokens);
  out.string("windowSource", window.source);
  out.integer("used", used);
  const std::int64_t tenths = used > longest_window ? used / window.tokens * 1000 : used * 1000 / window.tokens;
  out.raw("percent", fmt::format("{}.{}", tenths / 10, tenths % 10));
  out.string("source", meter.reported ? "provider" : "estimate");
  const std::string exact = meter.reported ? std::to_string(*meter.reported) : "null";
  out.raw("last", std::string(json::find(entry_of(source), "contextLast")
                                  .value_or(fmt::format(R"({{"estimate":null,"exact":{}}})", exact))));
  out.integer("messages", meter.all_messages());
  out.integer("turns", meter.all_turns());
  if (meter.checkpoint.empty())
    out.raw("checkpoint", "null");
  else
    out.raw("checkpoint",
            fmt::format(R"({{"entryId":{},"at":{}}})", json::quote(meter.checkpoint), meter.checkpoint_at));
  const std::string_view due =
      context::due(meter.used(), meter.all_messages(), meter.all_turns(), window.tokens, settings.compaction);
  out.raw("due", fmt::format(R"({{"compaction":{},"reason":"{}"}})", due == "due", due));
}

// Measures what a view shows, where that is not the whole conversation or the meter has forgotten calls.
template <class Source>
Result<context::Meter> measure(Source& transcript, const TranscriptSource& source, const context::Settings& settings) {
  const bool of_run = !source.order.run.empty();
  TRY(context::Meter meter, transcripts::measure(transcript, settings.doom_count, source.order.waiting, source.name));
  if (!of_run && !meter.is_cut()) return meter;
  TRY(const auto conversation,
      transcripts::read_conversation(transcript,
                                     {.bytes = limits::view_bytes, .name = source.name, .order = source.order}));
  if (conversation.cut) return meter;
  meter = context::measure(conversation, settings.doom_count);
  const context::ViewOptions options{.prune = context::Prune::off, .of_run = of_run};
  meter.count(context::view_of(conversation, options, settings).whole);
  return meter;
}

// Returns whether a meter of the whole conversation stands for what the view shows. That of a run which has just begun
// its first attempt shows all but what waits, and ends with its input.
bool stands_for(const context::Meter& meter, const TranscriptSource& source) {
  if (meter.is_cut() || !meter.counts_as_last(source.order.waiting)) return false;
  const bool waits = !source.order.waiting.empty() || meter.held.count() > 0;
  return source.order.run.empty() || (source.first_attempt && !waits && meter.last.count() > 0);
}

asio::awaitable<Result<context::Meter>> meter_of(Api& api, const TranscriptSource& source,
                                                 const context::Settings& settings) {
  if (source.meter && stands_for(*source.meter, source)) co_return *source.meter;
  co_return co_await read_source(api, source, [&](auto& transcript) { return measure(transcript, source, settings); });
}

HandlerResult get_context(Api& api, http::Request& request) {
  CO_TRY(const auto asked, asked_window(request));
  CO_TRY(auto source, co_await source_of(api, request, true));
  source.first_attempt = false;  // it may have begun long ago
  const context::Settings settings = api.ledger.rules().context;
  const context::Window window = context::window_of(entry_of(source), settings, asked);
  CO_TRY(const context::Meter meter, co_await meter_of(api, source, settings));
  json::ObjectWriter out;
  write_context(out, source, settings, window, meter, meter.used());
  out.string("sessionId", source.session_id);
  if (source.memory != nullptr) out.boolean("durable", false);
  co_return as_of_response(out.text(), source.as_of);
}

std::string pruned_json(const context::View& view) {
  std::string out = "[";
  for (const context::Pruned& one : view.pruned) {
    begin_element(out);
    json::ObjectWriter writer(out);
    writer.string("entryId", one.entry_id);
    writer.string("tool", one.tool);
    writer.integer("from", one.from);
    writer.integer("to", one.to);
    writer.string("how", one.how);
    if (view.aggressive) writer.boolean("aggressive", true);
    writer.close();
  }
  return out + "]";
}

std::string repaired_json(const context::View& view) {
  std::string out = "[";
  for (const context::Repaired& one : view.repaired) {
    begin_element(out);
    json::ObjectWriter writer(out);
    if (one.entry_id.empty())
      writer.string("callId", one.call_id);
    else
      writer.string("entryId", one.entry_id);
    writer.string("why", one.why);
    if (!one.shown_as.empty()) writer.string("shownAs", one.shown_as);
    writer.close();
  }
  return out + "]";
}

// The rows between the last checkpoint and an entry: those that a summary is made from.
Result<std::string> summarized_rows(const context::Conversation& conversation, const std::string& until) {
  std::vector<context::Repaired> ignored;
  const context::Rows rows = context::rows_of(conversation, ignored);
  std::size_t end = rows.all.size();
  while (end > 0 && rows.all[end - 1].id != until) --end;
  if (end == 0)
    return fail(Code::message_not_found, fmt::format("there is no message {} behind the last compaction", until));
  std::string out = "{\"data\":[";
  for (std::size_t at = 0; at + 1 < end; ++at) append_element(out, context::to_json(rows.all[at]));
  return out + "]";
}

std::string view_json(const context::Conversation& conversation, const AskedView& asked,
                      const context::Settings& settings, const context::Window& window, const TranscriptSource& source,
                      context::Meter meter) {
  context::ViewOptions options = asked.options;
  options.window = window.tokens;
  const context::View view = context::view_of(conversation, options, settings);
  if (options.of_run) meter.count(view.whole);
  std::string out = "{\"system\":[";
  for (const std::string& message : view.system) append_element(out, message);
  out += "],\"data\":[";
  for (const context::Row& row : view.rows.all) append_element(out, context::to_json(row));
  json::ObjectWriter numbers;
  write_context(numbers, source, settings, window, meter, view.used);
  out.append("],\"context\":").append(numbers.text());
  out.append(",\"pruned\":").append(pruned_json(view));
  out.append(",\"repaired\":").append(repaired_json(view));
  if (view.aggressive) out += ",\"aggressive\":true";
  return out;
}

}  // namespace

HandlerResult get_model_view(Api& api, http::Request& request) {
  CO_TRY(auto asked, read_asked_view(request));
  CO_TRY(auto source, co_await source_of(api, request, true));
  if (asked.summarize) source.order.run.clear();  // a plan is of the conversation
  asked.options.of_run = !source.order.run.empty();
  if (auto& most = asked.options.max_messages; !most) most = api.ledger.rules().of_agent(source.agent).max_messages;
  // The last run failed because the model's window was full (policy/runs/README.md).
  if (!query_text(request, "prune") && json::find(entry_of(source), "contextExceeded") == "true")
    asked.options.prune = context::Prune::aggressive;
  const context::Settings settings = api.ledger.rules().context;
  const context::Window window = context::window_of(entry_of(source), settings, asked.window);
  const transcripts::ReadLimits limits{
      .bytes = limits::view_bytes, .messages = asked.options.max_messages, .name = source.name, .order = source.order};
  CO_TRY(auto body, co_await read_source(api, source, [&](auto& transcript) -> Result<std::string> {
           TRY(auto conversation, transcripts::read_conversation(transcript, limits));
           if (conversation.cut) return std::unexpected(too_long());
           if (asked.summarize) return summarized_rows(conversation, asked.until);
           show_signatures(conversation, source.signatures);
           if (asked.options.of_run)
             return view_json(conversation, asked, settings, window, source,
                              context::measure(conversation, settings.doom_count));
           TRY(const auto meter, measure(transcript, source, settings));
           return view_json(conversation, asked, settings, window, source, meter);
         }));
  body += fmt::format(R"(,"sessionId":{}{}}})", json::quote(source.session_id),
                      source.memory != nullptr ? R"(,"durable":false)" : "");
  if (asked.media != policy::MediaAs::handle) {
    auto shown = co_await on_disk(api, [&] { return shown_media(api, std::move(body), asked.media); });
    if (!shown.whole)
      co_return fail(Code::validation_failed,
                     fmt::format("the media of the conversation have more than {} bytes; compact "
                                 "it, give maxMessages, or ask for media=url",
                                 limits::inline_bytes));
    body = std::move(shown.json);
  }
  http::Response response = as_of_response(std::move(body), source.as_of);
  response.verbatim = true;  // it is long, and its messages were mended when they were read
  co_return response;
}

namespace {

std::string plan_json(const context::CompactionPlan& plan, const context::CompactionSettings& settings,
                      const std::string& instructions, std::int64_t used, const http::Request& request) {
  json::ObjectWriter range;
  range.string_or_null("previousSummary", plan.previous_summary);
  range.integer("count", static_cast<std::int64_t>(plan.count));
  std::string url = request.path.substr(0, request.path.rfind('/')) + "/messages?view=summarize&until=" +
                    boost::urls::encode(plan.first_kept, boost::urls::unreserved_chars);
  if (const auto topic = query_text(request, "topic"))
    url += "&topic=" + boost::urls::encode(*topic, boost::urls::unreserved_chars);
  range.string("url", url);
  json::ObjectWriter out;
  out.string("firstKeptEntryId", plan.first_kept);
  out.raw("summarize", range.text());
  out.integer("maxTokens", settings.max_tokens);
  out.raw("temperature", fmt::format("{}", settings.temperature));
  if (instructions.empty())
    out.raw("instructions", "null");
  else
    out.string("instructions", instructions);
  out.integer("tokensBefore", used);
  return out.text();
}

// Asks the handlers of PreCompact. Returns what they add; hook_blocked.
asio::awaitable<Result<std::string>> ask_before_plan(Api& api, const http::Request& request, const std::string& agent,
                                                     const std::string& instructions) {
  constexpr std::string_view event = "PreCompact";
  if (!api.work.hooks.list().is_wanted(agent, event)) co_return std::string();
  CO_TRY(const auto path, session_path(request, api));
  CO_TRY(const auto topic, topic_of(request));
  decide::AskPreCompact command{.target = path.target, .topic = topic, .instructions = instructions};
  runs::HookVerdict verdict;
  ledger::Requester requester{.actor = request.principal.id};
  requester.in_memory = is_in_memory(api, agent, command);
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines& lines, const decide::Asking& asking) {
    command.hooks = asking;
    if (asking.verdict) verdict = *asking.verdict;
    return scoped(command, request.principal)(state, context, lines);
  };
  CO_TRY(co_await commit_asking(api, {.agent = agent,
                                      .event = event,
                                      .requester = std::move(requester),
                                      .gone = has_gone(api, request),
                                      .decide = decide}));
  if (!verdict.blocked) co_return std::move(verdict.context);
  co_return std::unexpected(Problem{.code = Code::hook_blocked,
                                    .detail = "a hook has blocked the compaction: " + verdict.reason,
                                    .members = {{"reason", json::quote(verdict.reason)}}});
}

// Answers what a compaction would summarise.
HandlerResult plan(Api& api, http::Request& request, std::string instructions) {
  CO_TRY(auto source, co_await source_of(api, request, true));
  source.order.run.clear();  // a plan is of the conversation
  const context::Settings settings = api.ledger.rules().context;
  if (instructions.empty()) instructions = json::string_at(entry_of(source), "compactInstructions").value_or("");
  if (instructions.empty()) instructions = api.ledger.rules().of_agent(source.agent).compact_instructions;
  CO_TRY(auto conversation, co_await read_source(api, source, [&source](auto& transcript) {
           return transcripts::read_conversation(
               transcript, {.bytes = limits::view_bytes, .name = source.name, .order = source.order});
         }));
  if (conversation.cut) co_return std::unexpected(too_long());
  const auto plan = context::plan_compaction(conversation, settings.compaction, source.order);
  if (!plan)
    co_return fail(Code::nothing_to_compact,
                   fmt::format("a compaction keeps the last {} turns and needs {} messages",
                               settings.compaction.keep_turns, settings.compaction.min_messages));
  const std::int64_t used = context::measure(conversation, settings.doom_count).used();
  CO_TRY(const std::string more, co_await ask_before_plan(api, request, source.agent, instructions));
  json::ObjectWriter out;
  if (!more.empty()) out.string("additionalContext", more);
  out.raw("plan", plan_json(*plan, settings.compaction, instructions, used, request));
  co_return as_of_response(out.text(), source.as_of);
}

HandlerResult compact(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto topic, topic_of(request));
  CO_TRY(auto fields, body_fields(request, api, Body::optional));
  constexpr std::size_t longest = 1 << 20;
  const auto summary = fields.string("summary", longest);
  const auto first_kept = fields.string("firstKeptEntryId", 128);
  const auto instructions = fields.string("instructions", 64 << 10);
  const auto usage = fields.object("usage");
  const auto error = fields.raw("error");
  if (summary && summary->empty()) fields.fault("summary", "is empty");
  if (summary && !first_kept) fields.fault("firstKeptEntryId", "is missing; a plan names it");
  if (!summary && (first_kept || usage)) fields.fault("summary", "is missing");
  if (error && (summary || instructions)) fields.fault("error", "goes alone");
  if (error && error->size() > (64 << 10)) fields.fault("error", "is longer than 65536 bytes");
  CO_TRY(fields.done());
  if (error)
    co_return co_await commit(
        api, request, path.agent,
        decide::FailCompaction{.target = path.target, .topic = topic, .error = json::compact(*error)},
        requester_of(request));
  if (!summary) co_return co_await plan(api, request, instructions.value_or(""));
  co_return co_await commit(api, request, path.agent,
                            decide::CompactSession{.target = path.target,
                                                   .topic = topic,
                                                   .summary = *summary,
                                                   .first_kept = *first_kept,
                                                   .instructions = instructions.value_or(""),
                                                   .usage = usage ? json::compact(*usage) : ""},
                            requester_of(request));
}

HandlerResult repair(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto topic, topic_of(request));
  CO_TRY(auto fields, body_fields(request, api, Body::optional));
  const bool dry_run = fields.boolean("dryRun").value_or(false);
  CO_TRY(fields.done());
  co_return co_await commit(api, request, path.agent,
                            decide::RepairSession{.target = path.target, .topic = topic, .dry_run = dry_run},
                            requester_of(request));
}

}  // namespace

asio::awaitable<void> add_context(Api& api, const http::Request& request, const std::string& agent,
                                  http::Response& run) {
  const json::Index members(run.body);
  const auto source =
      co_await source_at(api, request,
                         {.path = {.agent = agent, .target = {.key = members.string_at("key").value_or("")}},
                          .topic = members.string_at("topic"),
                          .guard = members.string_at("sessionId"),
                          .by_runs = true,
                          .run = members.find("lease") ? members.string_at("runId") : std::nullopt});
  if (!source) co_return;
  const context::Settings settings = api.ledger.rules().context;
  const context::Window window = context::window_of(entry_of(*source), settings, {});
  const auto meter = co_await meter_of(api, *source, settings);
  if (!meter) co_return;
  json::ObjectWriter shown;
  write_context(shown, *source, settings, window, *meter, meter->used());
  const std::string_view due =
      settings.compaction.when == context::CompactionTime::after_turn
          ? "after_turn"
          : context::due(meter->used(), meter->all_messages(), meter->all_turns(), window.tokens, settings.compaction);
  run.body.pop_back();
  run.body +=
      fmt::format(R"(,"context":{},"compaction":{{"due":{},"reason":"{}"}}}})", shown.text(), due == "due", due);
}

void add_context_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/agents/{agent}/sessions/{key}";
  on("GET", one + "/context", auth::Permission::read, get_context, {"topic", "sessionId", "window", "run"});
  on("POST", one + "/compact", auth::Permission::append, scanned<compact>, {"topic"});
  on("POST", one + "/repair", auth::Permission::append, repair, {"topic"});
}

}  // namespace sessiond::api

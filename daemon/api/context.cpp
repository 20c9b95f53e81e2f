// How full a model's window is, what the model is shown, and the compaction of what came before.
#include "daemon/api/context.hpp"

#include <fmt/format.h>

#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>

#include <algorithm>

#include "daemon/api/asked_view.hpp"
#include "daemon/api/asking.hpp"
#include "daemon/api/media.hpp"
#include "daemon/api/transcript_source.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "policy/context/byte_limit.hpp"
#include "policy/context/compaction.hpp"
#include "policy/context/window.hpp"
#include "store/limits.hpp"
#include "transcripts/conversation.hpp"

namespace sessiond::api {
namespace {

// Whether a compaction is due, or why not.
struct ShownDue {
  bool compaction = false;
  std::string_view reason{};  // of context::Due, or "blocked": the window is full, and nothing can go
};

std::string to_json(const ShownDue& due) {
  json::ObjectWriter out;
  out.boolean("compaction", due.compaction);
  out.string("reason", due.reason);
  if (due.reason == "blocked") {
    json::ObjectWriter blocked;
    blocked.string("reason", "nothing_to_summarise");
    blocked.string(
        "remedy",
        "what cannot be summarised fills the window: the system messages, the last summary, the words of the "
        "last turn and its last steps. Ask a model with a larger window (contextTokens), shorten or delete a "
        "message, or reset the session");
    out.raw("blocked", blocked.text());
  }
  return out.text();
}

bool is_exceeded(const TranscriptSource& source) { return context::is_exceeded(entry_of(source), source.name); }

// A plan is of the conversation, whatever run asks.
context::OrderAsked order_of_conversation(const TranscriptSource& source) {
  context::OrderAsked order = source.order;
  order.run.clear();
  return order;
}

context::PlanAsked plan_asked(const TranscriptSource& source, const context::Settings& settings,
                              const context::Window& window, std::int64_t used) {
  return {.runs = order_of_conversation(source),
          .window = window.tokens,
          .is_full = is_exceeded(source) || context::is_full(used, window.tokens, settings.compaction)};
}

template <class Source>
Result<context::Conversation> read_conversation(Source& transcript, const TranscriptSource& source) {
  return transcripts::read_conversation(
      transcript, {.bytes = limits::view_bytes, .name = source.name, .order = order_of_conversation(source)});
}

// It is due only if there is a plan. `meter`: of the conversation. `conversation`: the whole one; null: it is read.
template <class Source>
Result<ShownDue> due_of(Source& transcript, const TranscriptSource& source, const context::Settings& settings,
                        const context::Window& window, const context::Meter& meter,
                        const context::Conversation* conversation = nullptr) {
  const context::Due due = context::due(meter, window.tokens, settings.compaction, is_exceeded(source));
  if (!due.compaction) return ShownDue{false, due.reason};
  context::Conversation read;
  if (conversation == nullptr) {
    TRY(read, read_conversation(transcript, source));
    conversation = &read;
  }
  if (!context::plan_compaction(*conversation, settings, plan_asked(source, settings, window, meter.used())))
    return ShownDue{false, "blocked"};
  return ShownDue{true, due.reason};
}

// The numbers that both S/context and view=llm show.
void write_context(json::ObjectWriter& out, const TranscriptSource& source, const context::Window& window,
                   const context::Meter& meter, const ShownDue& due, std::int64_t used) {
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
  out.raw("due", to_json(due));
}

// Measures the conversation. Where its meter has forgotten calls, a view knows better.
template <class Source>
Result<context::Meter> measure(Source& transcript, const TranscriptSource& source, const context::Settings& settings) {
  TRY(context::Meter meter, transcripts::measure(transcript, settings.doom_count, source.order.waiting, source.name));
  if (!meter.is_cut()) return meter;
  TRY(const auto conversation, read_conversation(transcript, source));
  if (conversation.cut) return meter;
  meter = context::measure(conversation, settings.doom_count);
  meter.count(context::view_of(conversation, {.prune = context::Prune::off}, settings).whole);
  return meter;
}

// Measures what the view of a run shows. Nothing: it is too long.
template <class Source>
Result<std::optional<context::Meter>> measure_run(Source& transcript, const TranscriptSource& source,
                                                  const context::Settings& settings) {
  TRY(const auto conversation,
      transcripts::read_conversation(transcript,
                                     {.bytes = limits::view_bytes, .name = source.name, .order = source.order}));
  if (conversation.cut) return std::nullopt;
  context::Meter meter = context::measure(conversation, settings.doom_count);
  meter.count(context::view_of(conversation, {.prune = context::Prune::off, .of_run = true}, settings).whole);
  return meter;
}

struct Measured {
  context::Meter meter{};  // of what the view shows
  ShownDue due{};
};
asio::awaitable<Result<Measured>> measured(Api& api, const TranscriptSource& source, const context::Settings& settings,
                                           const context::Window& window) {
  const context::Meter* kept = source.meter.get();
  if (kept != nullptr && (kept->is_cut() || !kept->counts_as_last(source.order.waiting))) kept = nullptr;
  // The view of a run that has just begun its first attempt shows all but what waits, and ends with its input.
  const bool is_whole =
      source.order.run.empty() || (kept != nullptr && source.first_attempt && source.order.waiting.empty() &&
                                   kept->held.count() == 0 && kept->last.count() > 0);
  if (kept != nullptr && is_whole) {
    const context::Due due = context::due(*kept, window.tokens, settings.compaction, is_exceeded(source));
    if (!due.compaction) co_return Measured{*kept, {false, due.reason}};
  }
  co_return co_await read_source(api, source, [&](auto& transcript) -> Result<Measured> {
    Measured out;
    if (kept != nullptr) {
      out.meter = *kept;
    } else {
      TRY(out.meter, measure(transcript, source, settings));
    }
    TRY(out.due, due_of(transcript, source, settings, window, out.meter));
    if (is_whole) return out;
    TRY(auto of_run, measure_run(transcript, source, settings));
    if (of_run) out.meter = *std::move(of_run);
    return out;
  });
}

HandlerResult get_context(Api& api, http::Request& request) {
  CO_TRY(const auto asked, asked_window(request));
  CO_TRY(auto source, co_await source_of(api, request, true));
  source.first_attempt = false;  // it may have begun long ago
  const context::Settings settings = api.ledger.rules().context;
  const context::Window window = context::window_of(entry_of(source), settings, asked);
  CO_TRY(const auto found, co_await measured(api, source, settings, window));
  json::ObjectWriter out;
  write_context(out, source, window, found.meter, found.due, found.meter.used());
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
    if (one.media.empty()) {
      writer.string("tool", one.tool);
      writer.integer("from", one.from);
      writer.integer("to", one.to);
    } else {
      writer.string("media", one.media);
      writer.integer("bytes", one.from);
    }
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

// Appends the elements of a list, and takes room for what stands behind it.
void append_rows(std::string& list, const context::Rows& rows) {
  constexpr std::size_t of_ids = 80, behind = 2 << 10;
  std::size_t bytes = list.size() + rows.all.size() * of_ids + behind;
  for (const context::Row& row : rows.all) bytes += row.entry.message.size();
  list.reserve(bytes);
  for (const context::Row& row : rows.all) {
    begin_element(list);
    context::append_json(list, row);
  }
}

// The rows between the last checkpoint and an entry: those that a summary is made from.
Result<std::string> summarized_rows(const context::Conversation& conversation, const context::Settings& settings,
                                    const AskedView& asked, std::int64_t window) {
  auto rows = context::rows_to_summarise(conversation, settings, asked.until, window);
  if (!rows)
    return fail(Code::message_not_found, fmt::format("there is no message {} behind the last compaction", asked.until));
  context::View view{.rows = *std::move(rows)};
  for (context::Row& row : view.rows.all) row.is_asked = false;  // it is asked of another model
  view.bytes = context::bytes_of(view.rows.all);
  context::keep_within(view.rows, 0, view.rows.all.size(), *asked.options.max_bytes, view.bytes, view.used,
                       settings.pruning);
  if (view.bytes > *asked.options.max_bytes) return std::unexpected(too_many_bytes(view, asked));
  std::string out = "{\"data\":[";
  append_rows(out, view.rows);
  return std::move(out) + "]";
}

Result<std::string> view_json(const context::Conversation& conversation, const AskedView& asked,
                              const context::Settings& settings, const context::Window& window,
                              const TranscriptSource& source, context::Meter meter, const ShownDue& due) {
  context::ViewOptions options = asked.options;
  options.window = window.tokens;
  const context::View view = context::view_of(conversation, options, settings);
  if (view.bytes > *options.max_bytes) return std::unexpected(too_many_bytes(view, asked));
  if (options.of_run) meter.count(view.whole);
  std::string out = "{\"system\":[";
  for (const std::string& message : view.system) append_element(out, message);
  out += "],\"data\":[";
  append_rows(out, view.rows);
  json::ObjectWriter numbers;
  write_context(numbers, source, window, meter, due, view.used);
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
  asked.options.of_run = !source.order.run.empty();
  if (auto& most = asked.options.max_messages; !most) most = api.ledger.rules().of_agent(source.agent).max_messages;
  if (auto& most = asked.options.max_bytes; !most) most = api.ledger.rules().context.view_bytes;
  // The last run failed because the model's window was full (policy/runs/README.md).
  if (!query_text(request, "prune") && is_exceeded(source)) asked.options.prune = context::Prune::aggressive;
  const context::Settings settings = api.ledger.rules().context;
  const context::Window window = context::window_of(entry_of(source), settings, asked.window);
  const transcripts::ReadLimits limits{
      .bytes = limits::view_bytes, .messages = asked.options.max_messages, .name = source.name, .order = source.order};
  CO_TRY(auto body, co_await read_source(api, source, [&](auto& transcript) -> Result<std::string> {
           if (asked.summarize) {
             TRY(const auto conversation, read_conversation(transcript, source));
             return summarized_rows(conversation, settings, asked, window.tokens);
           }
           TRY(auto conversation, transcripts::read_conversation(transcript, limits));
           if (conversation.cut) return std::unexpected(too_long());
           TRY(context::Meter meter, measure(transcript, source, settings));
           const bool is_whole = !asked.options.of_run && !asked.options.max_messages;
           TRY(const ShownDue due,
               due_of(transcript, source, settings, window, meter, is_whole ? &conversation : nullptr));
           show_signatures(conversation, source.signatures);
           if (asked.options.of_run) meter = context::measure(conversation, settings.doom_count);
           return view_json(conversation, asked, settings, window, source, meter, due);
         }));
  body += fmt::format(R"(,"sessionId":{}{}}})", json::quote(source.session_id),
                      source.memory != nullptr ? R"(,"durable":false)" : "");
  if (asked.media != policy::MediaAs::handle) {
    auto shown = co_await on_disk(api, [&] { return shown_media(api, std::move(body), asked.media); });
    if (!shown.whole)
      co_return fail(Code::view_too_large, fmt::format("the media of the conversation have more than {} bytes; compact "
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
                      const context::Window& window, const std::string& instructions, std::int64_t used,
                      const http::Request& request) {
  json::ObjectWriter range;
  range.string_or_null("previousSummary", plan.previous_summary);
  range.integer("count", static_cast<std::int64_t>(plan.count));
  std::string url = request.path.substr(0, request.path.rfind('/')) + "/messages?view=summarize&until=" +
                    boost::urls::encode(plan.first_kept, boost::urls::unreserved_chars);
  if (const auto topic = query_text(request, "topic"))
    url += "&topic=" + boost::urls::encode(*topic, boost::urls::unreserved_chars);
  url += fmt::format("&window={}", window.tokens);
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
    return scoped(command, request)(state, context, lines);
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
  CO_TRY(const auto asked_tokens, asked_window(request));
  CO_TRY(auto source, co_await source_of(api, request, true));
  const context::Settings settings = api.ledger.rules().context;
  if (instructions.empty()) instructions = json::string_at(entry_of(source), "compactInstructions").value_or("");
  if (instructions.empty()) instructions = api.ledger.rules().of_agent(source.agent).compact_instructions;
  const context::Window window = context::window_of(entry_of(source), settings, asked_tokens);
  std::int64_t used = 0;
  CO_TRY(const auto plan,
         co_await read_source(api, source, [&](auto& transcript) -> Result<std::optional<context::CompactionPlan>> {
           TRY(const context::Meter meter, measure(transcript, source, settings));
           used = meter.used();
           TRY(const auto conversation, read_conversation(transcript, source));
           return context::plan_compaction(conversation, settings, plan_asked(source, settings, window, used));
         }));
  if (!plan) {
    const context::CompactionSettings& compaction = settings.compaction;
    if (is_exceeded(source) || context::is_full(used, window.tokens, compaction))
      co_return fail(Code::nothing_to_compact, "the window is full, and nothing can go: S/context says more");
    co_return fail(Code::nothing_to_compact,
                   fmt::format("a compaction keeps the last {} turns and needs {} messages, below {} % of the window",
                               compaction.keep_turns, compaction.min_messages, compaction.force / 10));
  }
  CO_TRY(const std::string more, co_await ask_before_plan(api, request, source.agent, instructions));
  json::ObjectWriter out;
  if (!more.empty()) out.string("additionalContext", more);
  out.raw("plan", plan_json(*plan, settings.compaction, window, instructions, used, request));
  co_return as_of_response(out.text(), source.as_of);
}

HandlerResult compact(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(asked_window(request));
  CO_TRY(auto topic, topic_of(request));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
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
        co_await requester_of(api, request));
  if (!summary) co_return co_await plan(api, request, instructions.value_or(""));
  co_return co_await commit(api, request, path.agent,
                            decide::CompactSession{.target = path.target,
                                                   .topic = topic,
                                                   .summary = *summary,
                                                   .first_kept = *first_kept,
                                                   .instructions = instructions.value_or(""),
                                                   .usage = usage ? json::compact(*usage) : ""},
                            co_await requester_of(api, request));
}

HandlerResult repair(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto topic, topic_of(request));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  const bool dry_run = fields.boolean("dryRun").value_or(false);
  CO_TRY(fields.done());
  request.is_dry_run = dry_run;
  co_return co_await commit(api, request, path.agent,
                            decide::RepairSession{.target = path.target, .topic = topic, .dry_run = dry_run},
                            co_await requester_of(api, request));
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
  const auto found = co_await measured(api, *source, settings, window);
  if (!found) co_return;
  json::ObjectWriter shown;
  write_context(shown, *source, window, found->meter, found->due, found->meter.used());
  const bool is_told = settings.compaction.when != context::CompactionTime::after_turn;
  json::ObjectWriter compaction;
  compaction.boolean("due", is_told && found->due.compaction);
  compaction.string("reason", is_told ? found->due.reason : "after_turn");
  run.body.pop_back();
  run.body.append(",\"context\":").append(shown.text());
  run.body.append(",\"compaction\":").append(compaction.text()).append("}");
}

void add_context_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/agents/{agent}/sessions/{key}";
  on("GET", one + "/context", auth::Permission::read, get_context, {"topic", "sessionId", "window", "run"});
  on("POST", one + "/compact", auth::Permission::write, words(compact), {"topic", "window"});
  on("POST", one + "/repair", auth::Permission::append, repair, {"topic"});
}

}  // namespace sessiond::api

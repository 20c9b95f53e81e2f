// Decisions about messages that this side writes: a runner's append and a bridge's outbound.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/delivery_steps.hpp"
#include "daemon/decide/run_commands.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "policy/send_policy.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

// Returns the base name of a URL's path.
std::string file_name(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const std::size_t slash = url.find_last_of('/');
  return std::string(slash == std::string_view::npos || slash + 1 == url.size() ? url : url.substr(slash + 1));
}

// Returns the content that the transcript keeps of what is sent. Media appear by their file names, after the text.
std::string outbound_content(const Outbound& command) {
  std::string names;
  for (const std::string& url : command.media_urls) names += (names.empty() ? "" : ", ") + file_name(url);
  const std::string text = command.text.value_or("");
  if (text.empty() && command.content.empty()) return content_of_text(names);
  std::string parts;
  if (command.content.empty() || json::kind(command.content) != json::Kind::array) {
    parts = text_part(command.content.empty() ? text : json::as_string(command.content).value_or(""));
  } else {
    parts = command.content.substr(1, command.content.size() - 2);
  }
  if (command.media_urls.empty()) return command.content.empty() ? "[" + parts + "]" : command.content;
  return "[" + parts + (parts.empty() ? "" : ",") + text_part("[media: " + names + "]") + "]";
}

// With runs.exclusive only the active run's runner writes what is the agent's: all that is not of role user.
Result<void> check_exclusive(const DecisionBuilder& builder, const Session& session,
                             const std::vector<transcripts::NewEntry>& entries) {
  if (!builder.context().rules->runs.exclusive || builder.context().run != nullptr) return {};
  const bool of_people = !entries.empty() && std::ranges::all_of(entries, [](const transcripts::NewEntry& entry) {
    return entry.role == "user";
  });
  return of_people ? Result<void>{} : check_no_active_run(builder.state(), session);
}

// Adds to a reply what becomes of the messages: `delivery` of one, `deliveries` of a list.
void add_deliveries(std::string& body, const AppendRequest& append, const AppendResult& appended) {
  body.pop_back();
  if (append.in_list) {
    body.append(",\"deliveries\":").append(deliveries_json(append.deliveries, appended.ids)).append("}");
    return;
  }
  body.append(",\"delivery\":").append(first_offer_json(append.deliveries)).append("}");
}

// Returns whether a person says it in place of the agent. With mirrorOnly another program has sent it, and this does
// not know who said it.
bool is_said_by_person(const DecisionBuilder& builder, const Session& session, const Outbound& command) {
  if (command.takes_over) return true;
  const Takeover* takeover = takeover_of(builder.state(), session);
  return !command.mirror_only && takeover != nullptr && speaks_in(builder, *takeover);
}

// The takeover of the person who writes, who takes over now if the request says so. Nothing: no person writes.
Result<std::optional<Takeover>> person_of(DecisionBuilder& builder, Session& session, const Outbound& command) {
  if (!is_said_by_person(builder, session, command)) return std::nullopt;
  const Takeover* there = takeover_of(builder.state(), session);
  const TakeoverTerms terms{.name = command.name};
  if (there != nullptr && (!command.takes_over || is_of(builder, *there, terms))) return *there;
  TRY(auto takeover, take_over(builder, session, terms));
  return takeover;
}

// Says in the message who has written it in place of the agent.
void sign(transcripts::NewEntry& entry, const std::string& name) {
  json::ObjectWriter author;
  author.string("name", name);
  entry.body = json::apply(entry.body, {.set = {{"author", author.text()}}});
  entry.seen.reset();
}

Decision denied(DecisionBuilder& builder, const Session& session, const Outbound& command,
                const policy::SendDecision& send) {
  const std::string rule = send.rule ? std::to_string(*send.rule) : "null";
  std::string text = command.text.value_or("");
  std::size_t cut = std::min<std::size_t>(text.size(), 200);  // bytes, but no half character
  while (cut < text.size() && cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  json::ObjectWriter data;
  data.raw("rule", rule);
  data.string("source", policy::name(send.source));
  data.string("text", text.substr(0, cut));
  builder.emit(journal::EventType::policy_denied, session, data.text(), command.topic);
  builder.out.status = 403;
  json::ObjectWriter problem(builder.out.body);
  problem.string("type", "urn:sessiond:problem:policy_denied");
  problem.string("title", "Sending is denied");
  problem.integer("status", builder.out.status);
  problem.string("code", "policy_denied");
  problem.string("detail", fmt::format("the send policy denies sending into {}", session.key()));
  problem.string("instance", command.instance);
  problem.boolean("retryable", false);
  problem.string("requestId", command.request_id);
  problem.raw("rule", rule);
  problem.string("source", policy::name(send.source));
  problem.close();
  return std::move(builder.out);
}

}  // namespace

transcripts::NewEntry entry_of(const Outbound& command) {
  json::ObjectWriter writer;
  writer.string("role", "assistant");
  const auto or_else = [](const std::string& given, std::string_view mark) {
    return given.empty() ? mark : std::string_view(given);
  };
  writer.raw("content", outbound_content(command));
  if (!command.media_urls.empty()) writer.raw("mediaUrls", json::array_of(command.media_urls));
  writer.string("api", "openai-responses");
  // The values with which the OpenClaw family marks messages that were sent, not generated.
  writer.string("provider", or_else(command.provider, "openclaw"));
  writer.string("model", or_else(command.model, "delivery-mirror"));
  writer.raw(
      "usage",
      or_else(
          command.usage,
          R"({"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}})"));
  writer.string("stopReason", or_else(command.stop_reason, "stop"));
  return {.type = "message",
          .id = command.message_id,
          .body = writer.text(),
          .role = "assistant",
          .usage = command.usage,
          .stamp = true};
}

Result<Decision> decide(const AgentState& state, const AppendMessages& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve_open(state, command.target));
  const Session& session = *there;
  TRY(check_exclusive(builder, session, command.append.entries));
  if (command.deliver) TRY(check_agent_may_speak(state, session, context.run != nullptr));
  const SessionRuns* runs = state.runs.find(session.key());
  const bool is_superseded = context.run != nullptr && runs != nullptr && runs->active && runs->active->superseded;
  AppendRequest changed;  // a copy only where it is needed: entries may be large
  if (command.deliver || is_superseded) changed = command.append;
  if (is_superseded) std::ranges::for_each(changed.entries, mark_superseded);
  if (command.deliver) changed.deliveries = plan_deliveries(builder, session, "", *command.deliver, changed.entries);
  const AppendRequest& append = command.deliver || is_superseded ? changed : command.append;
  TRY(auto appended, append_entries(builder, session, append, lines, false));
  if (builder.out.need) return std::move(builder.out);
  builder.out.status = 201;
  builder.out.body = appended_json(builder, session, append, appended);
  if (!command.deliver) return std::move(builder.out);
  find_deliveries_made_before(state, session, changed, appended);
  add_deliveries(builder.out.body, changed, appended);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const Outbound& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve_open(state, command.target));
  Session session = *there;
  if (command.takes_over && context.run != nullptr) return fail_at("/takeover", "a run takes nothing over");
  if (!is_said_by_person(builder, session, command)) {
    TRY(check_exclusive(builder, session, {}));
    if (!command.mirror_only) TRY(check_agent_may_speak(state, session, context.run != nullptr));
  }
  const SendPlan plan = plan_send(builder, session, "", command.deliver);
  if (plan.send.action == policy::SendAction::deny && !command.mirror_only)
    return denied(builder, session, command, plan.send);
  TRY(const auto person, person_of(builder, session, command));
  if (builder.out.need) return std::move(builder.out);

  AppendRequest append{.topic = command.topic};
  append.entries.push_back(command.entry ? *command.entry : entry_of(command));
  if (person) sign(append.entries.front(), person->name);
  if (!command.mirror_only) append.deliveries = {plan_delivery(builder, session, plan, command.deliver)};
  append.told.media_urls = command.media_urls;
  append.told.to = command.deliver.to;
  append.told.mirrored = command.mirror_only && context.run != nullptr;
  if (person)
    say_as_person(builder, session, *person, {.reply_to = reply_to_of(plan.address), .seen_seq = command.seen_seq},
                  append);
  TRY(auto appended, append_entries(builder, session, append, lines, false));
  if (builder.out.need) return std::move(builder.out);
  if (person && appended.duplicates != 0) builder.out = {};  // it was said before: nothing comes of it
  find_deliveries_made_before(state, session, append, appended);
  builder.out.status = 201;
  json::ObjectWriter writer(builder.out.body);
  writer.string("sessionId", session.session_id);
  writer.string_or_null("topic", command.topic);
  writer.integer("seq", static_cast<std::int64_t>(appended.seq));
  writer.string("messageId", appended.ids.front());
  writer.raw("send", policy::to_json(plan.send));
  writer.boolean("deliver", !command.mirror_only);
  writer.raw("delivery", first_offer_json(append.deliveries));
  writer.string("asOf", builder.as_of());
  writer.close();
  return std::move(builder.out);
}

}  // namespace sessiond::decide

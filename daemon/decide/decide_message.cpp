// Decisions about messages: a runner's append, a bridge's inbound and outbound (API §§4, 5).
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/commands.hpp"
#include "daemon/decide/free_id.hpp"
#include "daemon/decide/view.hpp"
#include "policy/activation.hpp"
#include "policy/entry_size.hpp"
#include "policy/reset.hpp"
#include "policy/routing.hpp"
#include "policy/send_policy.hpp"
#include "store/delivery/delivery.hpp"
#include "store/names.hpp"

namespace sessiond {
namespace {

Result<void> check_open(const Session& session) {
  if (session.archived_at)
    return fail(Code::session_archived, fmt::format("{} is archived; unarchive it first", session.key()));
  return {};
}

std::string text_part(std::string_view text) { return R"({"type":"text","text":)" + json::quote(text) + "}"; }
std::string content_of_text(std::string_view text) { return "[" + text_part(text) + "]"; }

// `content` with `text` in the place of all that it said; empty when nothing is left.
std::string with_text(std::string_view content, std::string_view text) {
  if (json::kind(content) != json::Kind::array) return text.empty() ? "" : json::quote(text);
  std::string out = "[";
  bool said = text.empty();
  for (const std::string_view part : json::elements(content)) {
    const bool is_text = json::kind(part) == json::Kind::object && json::string_at(part, "type") == "text";
    if (is_text && std::exchange(said, true)) continue;
    if (out.size() > 1) out += ',';
    out += is_text ? text_part(text) : json::compact(part);
  }
  return out.size() == 1 ? "" : out + "]";
}

// The base name of a URL's path, for the transcript of media without text.
std::string file_name(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const std::size_t slash = url.find_last_of('/');
  return std::string(slash == std::string_view::npos || slash + 1 == url.size() ? url : url.substr(slash + 1));
}

void write_send(json::ObjectWriter& writer, const SendDecision& send) { writer.raw("send", to_json(send)); }

// --- inbound ---

class InboundDecision {
 public:
  InboundDecision(const AgentState& state, const Inbound& command, const Context& context, const FetchedLines& lines)
      : state_(state), command_(command), context_(context), lines_(lines), builder_(state, context) {}

  Result<Decision> run() {
    auto routed = route(context_.rules->routing, {.agent = state_.id(),
                                                  .channel = command_.channel,
                                                  .account_id = command_.account_id,
                                                  .chat_type = command_.chat_type,
                                                  .peer = command_.peer,
                                                  .thread_id = thread_text()});
    if (!routed) return std::unexpected(std::move(routed.error()));
    route_ = std::move(*routed);
    take_trigger();
    auto session = session_for_message();
    if (!session) return std::unexpected(std::move(session.error()));
    if (builder_.out.need) return std::move(builder_.out);
    return answer(*session);
  }

 private:
  std::string thread_text() const {
    if (command_.thread_id.empty()) return {};
    return json::as_string(command_.thread_id).value_or(command_.thread_id);
  }

  // Whether what was said begins with a trigger, and what is left of it then.
  void take_trigger() {
    const std::string said = command_.text ? *command_.text : text_of(command_.content);
    const std::string_view heard = command_.mentioned ? without_mention(said) : std::string_view(said);
    const auto rest = match_trigger(heard, context_.rules->reset_triggers);
    triggered_ = rest.has_value();
    text_ = command_.text.value_or("");
    content_ = command_.content;
    if (!rest) return;
    if (command_.text)
      text_ = std::string(*rest);
    else
      content_ = with_text(command_.content, *rest);
  }

  bool has_message() const { return !content_.empty() || !text_.empty() || !command_.attachments.empty(); }

  // Should the agent answer; never when only a trigger came.
  bool activates_on(std::string_view entry) const {
    return has_message() && activates({.entry = entry,
                                       .chat_type = route_.chat_type,
                                       .mentioned = command_.mentioned,
                                       .trigger = triggered_,
                                       .asked = command_.activate});
  }

  // When the session began: as its entry says, else its transcript's header. Asks for the file's end where that is not
  // known.
  std::optional<std::int64_t> started(const Session& session) {
    if (session.started_at || triggered_ || reset_rule().mode != ResetRule::Mode::daily) return session.started_at;
    const std::string file = AgentState::file_of(session, {});
    const TranscriptEnd* end = state_.transcripts.find(file);
    if (end != nullptr) return end->started;
    builder_.out.need = Need{Need::What::transcript_end, file};
    return {};
  }

  const ResetRule& reset_rule() const {
    const Rules& rules = *context_.rules;
    if (route_.thread && rules.reset_thread) return *rules.reset_thread;
    if (route_.chat_type == "direct" && rules.reset_direct) return *rules.reset_direct;
    if (route_.chat_type == "group" && rules.reset_group) return *rules.reset_group;
    if (route_.chat_type == "channel" && rules.reset_channel) return *rules.reset_channel;
    return rules.reset;
  }

  // route → key → reset or create → metadata, as one working copy with its events.
  Result<Session> session_for_message() {
    const Session* there = state_.find_key(route_.key);
    if (there == nullptr) {
      created_ = true;
      json::Edit entry = metadata("{}");
      const bool owes = wants_intro(route_.chat_type);
      activate_ = activates_on("{}");
      intro_ = owes && activate_;
      if (owes && !intro_) entry.put(std::string(intro_field), "true");
      return create_session(builder_, route_.key, fresh_session_id(state_, context_), std::move(entry), "inbound");
    }
    if (auto fine = check_open(*there); !fine) return std::unexpected(std::move(fine.error()));
    Session session = *there;
    const SessionTimes times{.started = started(session),
                             .last_interaction = session.last_interaction_at.value_or(session.updated_at)};
    if (builder_.out.need) return session;
    const ResetDue due = reset_due(reset_rule(), times, context_.now, context_.rules->utc_offset);
    if (triggered_ || due != ResetDue::none) {
      reset_reason_ = triggered_ ? "trigger" : std::string(name(due));
      auto done = reset_session(builder_, session, reset_reason_, true);
      if (!done) return std::unexpected(std::move(done.error()));
      previous_session_id_ = done->previous_session_id;
      if (builder_.out.need) return session;
    }
    json::Edit edit = metadata(*session.entry());
    activate_ = activates_on(*session.entry());
    intro_ = activate_ && owes_intro(*session.entry());
    if (intro_) edit.remove(std::string(intro_field));
    if (!has_message()) edit.put_int("lastInteractionAt", context_.now);  // else the message itself moves it
    const json::Index fields(*session.entry());
    json::Edit changed;
    for (auto& member : edit.set) {
      const auto held = fields.find(member.name);
      if (!held || !json::same(*held, member.value)) changed.put(std::move(member.name), std::move(member.value));
    }
    for (auto& gone : edit.unset) {
      if (fields.find(gone)) changed.remove(std::move(gone));
    }
    if (!changed.empty()) {
      changed.put_int("updatedAt", moved_to(session, context_.now));
      const RawEntry before = session.entry();
      builder_.update(session, std::move(changed));
      if (auto fine = check_entry_growth(builder_, *before, *session.entry(), ""); !fine)
        return std::unexpected(std::move(fine.error()));
    }
    return session;
  }

  // What a message tells about its conversation.
  json::Edit metadata(std::string_view entry) const {
    json::Edit edit;
    const auto put = [&edit](std::string_view field, std::string_view text) {
      if (!text.empty()) edit.put_string(std::string(field), text);
    };
    put("channel", route_.channel);
    put("chatType", route_.chat_type);
    if (!json::find(entry, "origin")) edit.put("origin", origin());
    if (route_.chat_type != "direct") {
      put("groupId", command_.peer);
      put("subject", command_.subject);
      put("groupChannel", command_.group_channel);
      put("space", command_.space);
    }
    if (!command_.display_name.empty()) {
      put("displayName", command_.display_name);
    } else if (!json::find(entry, "displayName")) {
      put("displayName", computed_name());
    }
    Delivery delivery{.channel = route_.channel, .to = route_.peer, .account_id = {}, .thread_id = {}};
    if (!command_.account_id.empty()) delivery.account_id = command_.account_id;
    if (!command_.thread_id.empty()) delivery.thread_id = command_.thread_id;
    write_delivery(edit, entry, delivery);
    if (entry == "{}") edit.put_int("lastInteractionAt", context_.now);
    return edit;
  }

  std::string origin() const {
    std::string out;
    json::ObjectWriter writer(out);
    const auto put = [&writer](std::string_view field, std::string_view text) {
      if (!text.empty()) writer.string(field, text);
    };
    put("label", !command_.label.empty() ? std::string_view(command_.label) : computed_name());
    put("provider", command_.provider.empty() ? route_.channel : command_.provider);
    put("surface", command_.surface.empty() ? route_.channel : command_.surface);
    put("chatType", route_.chat_type);
    put("from", command_.from.empty() ? route_.peer : command_.from);
    put("to", route_.peer);
    put("accountId", command_.account_id);
    if (!command_.thread_id.empty()) writer.raw("threadId", command_.thread_id);
    writer.close();
    return out;
  }

  std::string_view computed_name() const {
    if (!command_.subject.empty()) return command_.subject;
    if (!command_.group_channel.empty()) return command_.group_channel;
    if (!command_.label.empty()) return command_.label;
    if (route_.chat_type == "direct" && !command_.from.empty()) return command_.from;
    return route_.peer;
  }

  // The message as it goes into the transcript; nothing when only a trigger came.
  std::optional<NewEntry> draft() const {
    if (!has_message()) return {};
    std::string body;
    json::ObjectWriter writer(body);
    writer.string("role", "user");
    writer.raw("content", content_.empty() ? content_of_text(text_) : json::compact(content_));
    if (!command_.attachments.empty()) writer.raw("attachments", json::compact(command_.attachments));
    if (!command_.from.empty()) writer.string("from", command_.from);
    if (!command_.message_id.empty()) writer.string("messageId", command_.message_id);
    writer.close();
    NewEntry draft;
    draft.type = "message";
    draft.time = command_.timestamp;
    draft.body = std::move(body);
    draft.role = "user";
    draft.stamp = true;
    return draft;
  }

  Result<Decision> answer(Session& session) {
    const bool fresh = created_ || !reset_reason_.empty();
    std::optional<AppendResult> appended;
    AppendRequest append{.topic = command_.topic, .entries = {}, .expected_seq = {}, .event_extra = {}};
    if (auto message = draft()) {
      append.entries.push_back(std::move(*message));
      auto done = append_entries(builder_, session, append, lines_, fresh);
      if (!done) return std::unexpected(std::move(done.error()));
      if (builder_.out.need) return std::move(builder_.out);
      appended = std::move(*done);
    }
    const SendDecision send = evaluate(context_.rules->send_policy, send_question(session.key(), *session.entry(), {}));
    std::string& body = builder_.out.body;
    json::ObjectWriter writer(body);
    writer.string("sessionKey", session.key());
    writer.string("sessionId", session.session_id);
    writer.boolean("created", created_);
    if (reset_reason_.empty()) {
      writer.raw("reset", "null");
    } else {
      writer.raw("reset", fmt::format(R"({{"reason":{},"previousSessionId":{}}})", json::quote(reset_reason_),
                                      json::quote(previous_session_id_)));
    }
    writer.raw("topic", command_.topic ? json::quote(*command_.topic) : "null");
    writer.raw("seq", appended ? std::to_string(appended->last_seq) : "null");
    writer.raw("messageId", appended ? json::quote(appended->ids.front()) : "null");
    writer.boolean("activate", activate_);
    writer.boolean("systemIntro", intro_);
    write_send(writer, send);
    writer.string("asOf", builder_.as_of());
    writer.close();
    builder_.out.status = 201;
    return std::move(builder_.out);
  }

  const AgentState& state_;
  const Inbound& command_;
  const Context& context_;
  const FetchedLines& lines_;
  DecisionBuilder builder_;
  Route route_;
  std::string text_;     // without a trigger
  std::string content_;  // raw JSON, without a trigger; empty: text_ is all
  bool triggered_ = false;
  bool created_ = false;
  bool activate_ = false;
  bool intro_ = false;  // given with this message
  std::string reset_reason_;
  std::string previous_session_id_;
};

// --- outbound ---

// What is sent, as the transcript keeps it: media by their files' names, alone or behind what is said.
std::string outbound_content(const Outbound& command) {
  std::string names;
  for (const std::string& url : command.media_urls) names += (names.empty() ? "" : ", ") + file_name(url);
  const std::string text = command.text.value_or("");
  if (text.empty() && command.content.empty()) return content_of_text(names);
  std::string parts;
  if (command.content.empty() || json::kind(command.content) != json::Kind::array) {
    parts = text_part(command.content.empty() ? text : json::as_string(command.content).value_or(""));
  } else {
    const std::string content = json::compact(command.content);
    parts = content.substr(1, content.size() - 2);
  }
  if (command.media_urls.empty()) return command.content.empty() ? "[" + parts + "]" : json::compact(command.content);
  return "[" + parts + (parts.empty() ? "" : ",") + text_part("[media: " + names + "]") + "]";
}

NewEntry outbound_entry(const Outbound& command) {
  std::string body;
  json::ObjectWriter writer(body);
  writer.string("role", "assistant");
  const auto or_else = [](const std::string& given, std::string_view mark) {
    return given.empty() ? mark : std::string_view(given);
  };
  writer.raw("content", outbound_content(command));
  if (!command.media_urls.empty()) writer.raw("mediaUrls", json_array(command.media_urls));
  writer.string("api", "openai-responses");
  // As programs of this family mark what was sent, not generated.
  writer.string("provider", or_else(command.provider, "openclaw"));
  writer.string("model", or_else(command.model, "delivery-mirror"));
  writer.raw(
      "usage",
      or_else(
          command.usage,
          R"({"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}})"));
  writer.string("stopReason", or_else(command.stop_reason, "stop"));
  writer.close();
  NewEntry draft;
  draft.type = "message";
  draft.id = command.message_id;
  draft.usage = command.usage;
  draft.body = std::move(body);
  draft.role = "assistant";
  draft.stamp = true;
  return draft;
}

Decision denied(DecisionBuilder& builder, const Session& session, const Outbound& command, const SendDecision& send) {
  const std::string rule = send.rule ? std::to_string(*send.rule) : "null";
  std::string text = command.text.value_or("");
  std::size_t cut = std::min<std::size_t>(text.size(), 200);  // characters are what people count, but never half of one
  while (cut < text.size() && cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  std::string data;
  json::ObjectWriter writer(data);
  writer.raw("rule", rule);
  writer.string("source", name(send.source));
  writer.string("text", text.substr(0, cut));
  writer.close();
  builder.emit(EventType::policy_denied, session, data, command.topic);
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
  problem.string("source", name(send.source));
  problem.close();
  return std::move(builder.out);
}

}  // namespace

Result<Decision> decide(const AgentState& state, const AppendMessages& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  if (auto fine = check_open(**there); !fine) return std::unexpected(std::move(fine.error()));
  const Session& session = **there;
  auto appended = append_entries(builder, session, command.append, lines, false);
  if (!appended) return std::unexpected(std::move(appended.error()));
  if (builder.out.need) return std::move(builder.out);
  builder.out.status = 201;
  builder.out.body = appended_json(builder, session, command.append, *appended);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const Inbound& command, const Context& context,
                        const FetchedLines& lines) {
  return InboundDecision(state, command, context, lines).run();
}

Result<Decision> decide(const AgentState& state, const Outbound& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  if (auto fine = check_open(**there); !fine) return std::unexpected(std::move(fine.error()));
  const Session& session = **there;
  SendCall call;
  if (!command.to.empty()) call.to = command.to;
  const SendDecision send = evaluate(context.rules->send_policy, send_question(session.key(), *session.entry(), call));
  if (send.action == SendAction::deny && !command.mirror_only) return denied(builder, session, command, send);

  AppendRequest append{
      .topic = command.topic, .entries = {outbound_entry(command)}, .expected_seq = {}, .event_extra = {}};
  if (!command.mirror_only) append.event_extra = "\"deliver\":true";
  if (!command.media_urls.empty()) {
    append.event_extra += (append.event_extra.empty() ? "" : ",") + ("\"mediaUrls\":" + json_array(command.media_urls));
  }
  if (!command.to.empty())
    append.event_extra += (append.event_extra.empty() ? "" : ",") + ("\"to\":" + json::quote(command.to));
  auto appended = append_entries(builder, session, append, lines, false);
  if (!appended) return std::unexpected(std::move(appended.error()));
  if (builder.out.need) return std::move(builder.out);
  builder.out.status = 201;
  json::ObjectWriter writer(builder.out.body);
  writer.string("sessionId", session.session_id);
  writer.raw("topic", command.topic ? json::quote(*command.topic) : "null");
  writer.integer("seq", static_cast<std::int64_t>(appended->seq));
  writer.string("messageId", appended->ids.front());
  write_send(writer, send);
  writer.boolean("deliver", !command.mirror_only);
  writer.string("asOf", builder.as_of());
  writer.close();
  return std::move(builder.out);
}

}  // namespace sessiond

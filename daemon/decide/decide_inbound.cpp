// The decision about a message that a bridge received.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "daemon/decide/change_steps.hpp"
#include "daemon/decide/free_id.hpp"
#include "daemon/decide/inbound_run.hpp"
#include "daemon/decide/message_channels.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "policy/activation.hpp"
#include "policy/context/entry.hpp"
#include "policy/reset.hpp"
#include "policy/send_policy.hpp"
#include "store/delivery/delivery.hpp"
#include "store/number.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

class InboundDecision {
 public:
  InboundDecision(const AgentState& state, const Inbound& command, const Context& context, const FetchedLines& lines)
      : state_(state),
        command_(command),
        route_(command.route),
        context_(context),
        lines_(lines),
        builder_(state, context),
        words_(command.words) {
    assert(!route_.key.empty());
  }

  Result<Decision> run() {
    if (context_.told_before != nullptr) return answer_again(*context_.told_before);
    if (words_ == nullptr)
      words_ = std::make_shared<const InboundWords>(words_of(command_, context_.rules->reset_triggers));
    if (const Delivery* own = command_.from_me ? own_unsent() : nullptr) return answer_own(*own);
    said_ = words_->said;
    has_message_ = words_->entry.has_value();
    triggered_ = words_->has_trigger;
    if (!command_.message_id.empty()) told_early_ = foretold(context_, state_, names());
    if (told_early_.is_deleted()) return answer_deleted();
    TRY(auto session, session_for_message());
    if (builder_.out.need) return std::move(builder_.out);
    return answer(session);
  }

 private:
  // A delivery of this conversation that a bridge has taken and not acknowledged yet. Null: none has this text.
  const Delivery* own_unsent() const {
    const Session* session = state_.find_key(route_.key);
    if (session == nullptr) return nullptr;
    const std::string& text = words_->whole;
    if (store::trim(text).empty()) return nullptr;
    const auto conversation = [this](std::string_view channel, std::string_view account, std::string_view peer) {
      return platform_name(state_.id(), channel, account, peer, "");
    };
    return state_.deliveries.find_under_way(session->key(), [&](const Delivery& delivery) {
      if (delivery.channel != route_.channel) return false;
      const std::string fixed = "{" + delivery.fixed + "}";
      const json::Index about(fixed);
      if (conversation(delivery.channel, delivery.account_id, about.string_at("to").value_or("")) !=
          conversation(route_.channel, command_.account_id, route_.peer))
        return false;
      const auto said = about.string_at("text");
      return text == (said ? *said : transcripts::text_of(about.find("content").value_or("\"\"")));
    });
  }

  Result<Decision> answer_own(const Delivery& own) {
    builder_.out.body = own_message_json(place_of(own));
    return std::move(builder_.out);
  }

  // The message as its platform names it.
  EarlyChange names() const {
    return {.channel = route_.channel,
            .account_id = command_.account_id,
            .peer = route_.peer,
            .message_id = command_.message_id,
            .author = command_.from.has_id ? command_.from.id : "",
            .actor = std::string(context_.actor)};
  }

  // The message was deleted before it came: nothing of it is stored.
  Result<Decision> answer_deleted() {
    const Session* there = state_.find_key(route_.key);
    take_foretold(builder_, told_early_, about(there));
    json::ObjectWriter writer(builder_.out.body);
    writer.string("sessionKey", there != nullptr ? there->key() : route_.key);
    writer.string_or_null("sessionId", there != nullptr ? std::optional(there->session_id) : std::nullopt);
    writer.boolean("created", false);
    writer.raw("reset", "null");
    writer.string_or_null("topic", command_.topic);
    writer.raw("seq", "null");
    writer.raw("messageId", "null");
    writer.boolean("activate", false);
    writer.boolean("systemIntro", false);
    writer.raw("send", send_to(there));
    writer.raw("run", "null");
    writer.boolean("deleted", true);
    writer.string("asOf", builder_.as_of());
    writer.close();
    return std::move(builder_.out);
  }

  // Whether the agent may answer in the session, or in one that the message would make.
  std::string send_to(const Session* session) {
    const json::Index none("{}");
    const std::string& key = session != nullptr ? session->key() : route_.key;
    const json::Index& members = session != nullptr ? members_of(*session) : none;
    return policy::to_json(policy::evaluate(context_.rules->send_policy, key, members, {}));
  }

  // What an event about the message says of where it belongs.
  journal::Envelope about(const Session* there) const {
    journal::Envelope about{.channel = route_.channel, .chat_type = route_.chat_type, .topic = command_.topic};
    about.key = there != nullptr ? there->key() : route_.key;
    if (there == nullptr) return about;
    about.session_id = there->session_id;
    if (context_.lineage != nullptr) about.lineage = context_.lineage->of(state_, *there);
    return about;
  }

  // A message that came before, and that no run was to answer, addresses the agent now: it activates, once. Not one
  // that people deleted, or that lies in an archived transcript.
  Result<Decision> answer_again(const std::string& told) {
    builder_.out.body = told;
    const auto place = read_place(told);
    const Session* there = place ? state_.find_key(place->key) : nullptr;
    if (there == nullptr || place->session_id != there->session_id) return std::move(builder_.out);
    TRY(check_open(*there));
    const auto shown = lines_.find(shown_name(place->entry_id));
    if (shown == lines_.end()) {
      builder_.out.need = Need{.what = Need::What::shown,
                               .file = AgentState::file_of(*there, place->topic),
                               .ids = {place->entry_id},
                               .name = state_.transcript_name_of(AgentState::file_of(*there, place->topic))};
      return std::move(builder_.out);
    }
    const std::string_view message = json::find(shown->second.line, "message").value_or("");
    if (message.empty() || json::find(message, "deleted") == "true") return std::move(builder_.out);
    const auto author = json::string_at(json::find(message, "from").value_or("{}"), "id");
    if (author && !command_.from.id.empty() && *author != command_.from.id) return std::move(builder_.out);
    Session session = *there;
    has_message_ = true;
    if (!activates_on(members_of(session))) return std::move(builder_.out);
    const std::string said = transcripts::text_of(json::find(message, "content").value_or("\"\""));
    TRY(const auto activation,
        activate_late(builder_, session, {.place = *place, .text = said, .reply_to = reply_to()}));
    builder_.out.body = told_after(activation, told);
    return std::move(builder_.out);
  }

  // Tells whether the agent should answer. Not if the message is only a trigger.
  bool activates_on(const json::Index& entry) const {
    if (command_.from_me) return has_message_ && command_.activate.value_or(false);
    return has_message_ && policy::activates({.group_activation = entry.find("groupActivation"),
                                              .chat_type = route_.chat_type,
                                              .mentioned = command_.mentioned || told_early_.addresses(),
                                              .trigger = triggered_,
                                              .asked = command_.activate});
  }

  // Returns when the session began: by its entry, else by its transcript's header.
  std::optional<std::int64_t> started(const Session& session) {
    if (session.started_at || triggered_ || reset_rule().mode != policy::ResetRule::Mode::daily)
      return session.started_at;
    const std::string file = AgentState::file_of(session, {});
    const TranscriptEnd* end = state_.transcripts.find(file);
    if (end != nullptr) return end->started;
    builder_.out.need = Need{Need::What::transcript_end, file};
    return {};
  }

  const policy::ResetRule& reset_rule() const {
    return context_.rules->resets.choose(route_.channel, route_.chat_type, route_.thread).rule;
  }

  // Finds the session of the route, resets it if it is due or creates it, and updates its metadata.
  Result<Session> session_for_message() {
    const Session* there = state_.find_key(route_.key);
    if (there == nullptr) {
      created_ = true;
      const json::Index none("{}");
      json::Edit entry = metadata(none, nullptr);
      entry.put_int("lastInteractionAt", context_.now);
      const bool owes = policy::wants_intro(route_.chat_type);
      activate_ = activates_on(none);
      intro_ = owes && activate_;
      if (owes && !intro_) entry.put(std::string(policy::intro_field), "true");
      return create_session(builder_, route_.key, fresh_session_id(state_, context_), std::move(entry), "inbound");
    }
    TRY(check_open(*there));
    Session session = *there;
    const policy::SessionTimes times{.started = started(session),
                                     .last_interaction = session.last_interaction_at.value_or(session.updated_at)};
    if (builder_.out.need) return session;
    takeover_ = takeover_of(state_, session);
    const policy::ResetDue due = takeover_ != nullptr  // nobody has left the conversation
                                     ? policy::ResetDue::none
                                     : policy::reset_due(reset_rule(), times, context_.now, context_.rules->utc_offset);
    if (triggered_ || due != policy::ResetDue::none) {
      reset_reason_ = triggered_ ? "trigger" : std::string(policy::name(due));
      TRY(auto done, reset_session(builder_, session, {.reason = reset_reason_}));
      previous_session_id_ = done.previous_session_id;
      if (builder_.out.need) return session;
    }
    const json::Index& entry = members_of(session);
    json::Edit edit = metadata(entry, &session);
    activate_ = activates_on(entry);
    intro_ = activate_ && takeover_ == nullptr && policy::owes_intro(entry);
    if (intro_) edit.remove(std::string(policy::intro_field));
    json::Edit changes = changes_of(entry, std::move(edit), json::same);
    if (!has_message_ && session.last_interaction_at != context_.now)  // otherwise the message does that
      changes.put_int("lastInteractionAt", context_.now);
    TRY(change_entry(builder_, session, std::move(changes)));
    return session;
  }

  // Returns the members of the session's entry, but for the counters. Valid until the next call.
  const json::Index& members_of(const Session& session) {
    if (indexed_ != session.entry_with_old_counters()) {
      indexed_ = session.entry_with_old_counters();
      members_.emplace(*indexed_);
    }
    return *members_;
  }

  // Returns what the message says about its conversation.
  json::Edit metadata(const json::Index& entry, const Session* there) const {
    json::Edit edit;
    const auto put = [&edit](std::string_view field, std::string_view text) {
      if (!text.empty()) edit.put_string(std::string(field), text);
    };
    put("channel", route_.channel);
    put("chatType", route_.chat_type);
    if (!entry.find("origin")) edit.put("origin", origin());
    put_channels(edit, entry, there);
    if (route_.chat_type != "direct") {
      put("groupId", command_.peer);
      put("subject", command_.names.subject);
      put("groupChannel", command_.names.group_channel);
      put("space", command_.names.space);
    }
    if (!command_.names.display_name.empty()) {
      put("displayName", command_.names.display_name);
    } else if (!entry.find("displayName")) {
      put("displayName", computed_name());
    }
    delivery::Delivery delivery{.channel = route_.channel, .to = route_.peer, .account_id = {}, .thread_id = {}};
    if (!command_.account_id.empty()) delivery.account_id = command_.account_id;
    if (!command_.thread_id.empty()) delivery.thread_id = command_.thread_id;
    delivery::write_delivery(edit, entry, delivery);
    return edit;
  }

  // Names the channels whose messages reached the session, where origin and the last channel do not say the same.
  void put_channels(json::Edit& edit, const json::Index& entry, const Session* there) const {
    auto channels = there != nullptr ? channels_of(entry, there->channel) : std::vector<std::string>();
    if (std::ranges::find(channels, route_.channel) != channels.end()) return;
    const std::string provider = store::lower(store::trim(command_.provider));
    const bool other_provider = !provider.empty() && provider != route_.channel;
    channels.push_back(route_.channel);
    if (channels.size() > 1 || other_provider) edit.put("channels", json::array_of(channels));
  }

  std::string origin() const {
    json::ObjectWriter writer;
    const auto put = [&writer](std::string_view field, std::string_view text) {
      if (!text.empty()) writer.string(field, text);
    };
    put("label", !command_.names.label.empty() ? std::string_view(command_.names.label) : computed_name());
    put("provider", command_.provider.empty() ? route_.channel : command_.provider);
    put("surface", command_.surface.empty() ? route_.channel : command_.surface);
    put("chatType", route_.chat_type);
    put("from", command_.from.id.empty() || command_.from_me ? route_.peer : command_.from.id);
    put("to", route_.peer);
    put("accountId", command_.account_id);
    if (!command_.thread_id.empty()) writer.raw("threadId", command_.thread_id);
    return writer.text();
  }

  std::string_view computed_name() const {
    if (!command_.names.subject.empty()) return command_.names.subject;
    if (!command_.names.group_channel.empty()) return command_.names.group_channel;
    if (!command_.names.label.empty()) return command_.names.label;
    if (route_.chat_type == "direct" && !command_.from.id.empty() && !command_.from_me)
      return command_.from.shown_name();
    return route_.peer;
  }

  Result<Decision> answer(Session& session) {
    const bool fresh = created_ || !reset_reason_.empty();
    std::optional<AppendResult> appended;
    AppendRequest append{.topic = command_.topic};
    const std::string send = send_to(&session);
    if (has_message_) {
      append.needs_answer = activate_;
      TRY(note_persons_word(session, fresh, append));
      if (builder_.out.need) return std::move(builder_.out);
      append.entries.push_back(*words_->entry);
      first_event_ = builder_.out.events.size();
      builder_.about_channel = route_.channel;
      TRY(auto done, append_entries(builder_, session, append, lines_, fresh));
      builder_.about_channel.clear();
      if (builder_.out.need) return std::move(builder_.out);
      appended = std::move(done);
    }
    is_held_ = takeover_ != nullptr && appended && activate_;
    const bool answers = appended && activate_ && (context_.rules->runs.on_inbound || is_held_);
    const bool early_holds =
        appended && !told_early_.leaves_nothing(!command_.attachments.empty() || words_->has_files);
    const EarlyChange* edit = early_holds ? told_early_.edit() : nullptr;
    if (answers || edit != nullptr) take_counters(builder_, session, first_event_);  // the entry changes further
    if (edit != nullptr) {
      TRY(change_early(session, *edit, *appended, fresh));
      if (builder_.out.need) return std::move(builder_.out);
    }
    if (early_holds)
      take_foretold(builder_, told_early_, about(&session));
    else
      lose_foretold(builder_, told_early_);
    const std::string run =
        answers ? place_inbound_run(builder_, session, fresh ? nullptr : state_.runs.find(session.key()),
                                    {.ids = appended->ids,
                                     .texts = {(command_.from_me ? std::string(context::owner_mark) : "") + said_},
                                     .topic = command_.topic,
                                     .reply_to = reply_to()},
                                    appended->last_seq)
                : "null";
    if (builder_.out.need) return std::move(builder_.out);
    if (is_held_) activate_ = false;  // nobody but the person answers it
    if (appended) tell(send, run);
    std::string& body = builder_.out.body;
    body.reserve(512);
    json::ObjectWriter writer(body);
    writer.string("sessionKey", session.key());
    writer.string("sessionId", session.session_id);
    writer.boolean("created", created_);
    writer.raw("reset", reset_reason_.empty()
                            ? "null"
                            : fmt::format(R"({{"reason":{},"previousSessionId":{}}})", json::quote(reset_reason_),
                                          json::quote(previous_session_id_)));
    writer.string_or_null("topic", command_.topic);
    writer.raw("seq", appended ? store::decimal(appended->last_seq) : "null");
    writer.raw("messageId", appended ? json::quote(appended->ids.front()) : "null");
    writer.boolean("activate", activate_);
    writer.boolean("systemIntro", intro_);
    writer.raw("send", send);
    writer.raw("run", run);
    if (is_held_) writer.raw("held", held_by_takeover);
    writer.string("asOf", builder_.as_of());
    writer.close();
    builder_.out.status = 201;
    return std::move(builder_.out);
  }

  // The owner of the agent's account has typed the message by hand. If a person speaks in place of the agent, that
  // person has said it. If nobody does and takeover.fromMeMs is set, the owner takes over.
  Result<void> note_persons_word(Session& session, bool fresh, AppendRequest& append) {
    if (!command_.from_me || command_.activate.value_or(false)) return {};
    const std::int64_t from_me_ms = context_.rules->runs.takeover_from_me_ms;
    std::optional<Takeover> takeover;
    if (takeover_ != nullptr) {
      takeover = *takeover_;
    } else if (from_me_ms > 0) {
      const std::string name = command_.from.shown_name().empty() ? "the account's owner" : command_.from.shown_name();
      TRY(takeover,
          take_over(builder_, session, {.name = name, .for_ms = from_me_ms, .by_hand = true, .fresh = fresh}));
      if (builder_.out.need) return {};
    }
    if (takeover) say_as_person(builder_, session, *takeover, {.reply_to = reply_to(), .fresh = fresh}, append);
    return {};
  }

  // The message was edited before it came.
  Result<void> change_early(Session& session, const EarlyChange& edit, const AppendResult& appended, bool fresh) {
    const MessagePlace place{.key = session.key(),
                             .session_id = session.session_id,
                             .topic = command_.topic,
                             .entry_id = appended.ids.front(),
                             .seq = appended.last_seq};
    builder_.about_channel = route_.channel;
    TRY(change_foretold(builder_, session, edit, place, command_.topic, lines_, fresh));
    builder_.about_channel.clear();
    said_ = edit.text ? *edit.text : transcripts::text_of(edit.content);
    return {};
  }

  // Tells in the message's event what the reply tells of it.
  void tell(std::string_view send, std::string_view run) {
    auto& events = builder_.out.events;
    const auto event =
        std::ranges::find(events.begin() + static_cast<std::ptrdiff_t>(first_event_), events.end(),
                          journal::EventType::message_appended, [](const auto& each) { return each.envelope.type; });
    std::get<MessageAppended>(*event->payload).inbound = {.activate = activate_,
                                                          .system_intro = intro_,
                                                          .mentioned = command_.mentioned,
                                                          .send = std::string(send),
                                                          .run = std::string(run),
                                                          .held = is_held_ ? std::string(held_by_takeover) : ""};
  }

  std::string reply_to() const {
    return reply_address(route_.channel, route_.peer, command_.account_id, command_.thread_id);
  }

  const AgentState& state_;
  const Inbound& command_;
  const policy::Route& route_;
  const Context& context_;
  const FetchedLines& lines_;
  DecisionBuilder builder_;
  std::shared_ptr<const InboundWords> words_;  // null while it is not known
  std::string said_;                           // the text of the message, as an earlier edit left it
  Foretold told_early_{};
  bool has_message_ = false;  // more than a trigger
  bool triggered_ = false;
  bool created_ = false;
  bool activate_ = false;
  bool is_held_ = false;                // it waits for that person, or for the hand-back
  bool intro_ = false;                  // the introduction is due with this message
  const Takeover* takeover_ = nullptr;  // a person speaks in the session; null: the agent does
  std::size_t first_event_ = 0;         // of the message
  std::string reset_reason_;
  std::string previous_session_id_;
  sessions::RawEntry indexed_;  // what members_ views
  std::optional<json::Index> members_;
};

}  // namespace

InboundWords words_of(const Inbound& command, const std::vector<std::string>& reset_triggers) {
  InboundWords words{.whole = command.text ? *command.text : transcripts::text_of(command.content)};
  const std::string_view heard =
      command.mentioned ? policy::without_mention(words.whole) : std::string_view(words.whole);
  const bool addressed = command.mentioned || command.route.chat_type == "direct";
  auto rest = policy::match_trigger(heard, reset_triggers, addressed);
  if (command.from_me && !command.activate.value_or(false)) rest.reset();  // it is not said to the agent
  words.has_trigger = rest.has_value();
  words.has_files = !command.content.empty() && context::files_in(R"({"content":)" + command.content + "}") > 0;
  std::string content = command.content;
  if (rest && !command.text) content = transcripts::with_text(content, *rest);
  words.said = rest && command.text         ? std::string(*rest)
               : content == command.content ? words.whole
                                            : transcripts::text_of(content);
  if (content.empty() && words.said.empty() && command.attachments.empty()) return words;
  json::ObjectWriter writer;
  writer.string("role", "user");
  writer.raw("content", content.empty() ? content_of_text(words.said) : content);
  if (!command.attachments.empty()) writer.raw("attachments", command.attachments);
  if (!command.from.id.empty()) writer.raw("from", command.from.json);
  if (command.from_me) writer.boolean("fromMe", true);
  if (!command.message_id.empty()) writer.string("platformMessageId", command.message_id);
  words.entry = transcripts::NewEntry{.type = "message",
                                      .time = command.timestamp,
                                      .body = writer.text(),
                                      .role = "user",
                                      .plain = true,
                                      .stamp = true};
  return words;
}

Result<policy::Route> route_of(const policy::RouteSettings& settings, std::string_view agent, const Inbound& command) {
  const std::string thread =
      command.thread_id.empty() ? "" : json::as_string(command.thread_id).value_or(command.thread_id);
  return policy::route(settings, {.agent = agent,
                                  .channel = command.channel,
                                  .account_id = command.account_id,
                                  .chat_type = command.chat_type,
                                  .peer = command.peer,
                                  .thread_id = thread});
}

Result<Decision> decide(const AgentState& state, const Inbound& command, const Context& context,
                        const FetchedLines& lines) {
  return InboundDecision(state, command, context, lines).run();
}

}  // namespace sessiond::decide

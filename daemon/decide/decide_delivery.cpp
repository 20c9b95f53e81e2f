// Decisions about deliveries: claims, and what bridges and operators say of them.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/change_steps.hpp"
#include "daemon/decide/delivery_commands.hpp"
#include "daemon/decide/delivery_steps.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

using journal::EventType;

constexpr std::size_t most_claimed_bytes = 8U << 20;  // of one answer, which has one delivery at least

Result<const Delivery*> resolve_delivery(const AgentState& state, std::string_view id, const SeesDelivery& sees) {
  const Delivery* delivery = state.deliveries.find(id);
  if (delivery == nullptr || !sees(state, *delivery)) return no_such_delivery(id);
  return delivery;
}

// Answers with the delivery as the decision's events leave it.
Result<Decision> answer(DecisionBuilder& builder, const Delivery& delivery) {
  builder.out.status = 200;
  Delivery now = delivery;
  for (const Change& change : builder.out.events)
    if (const auto* told = change.as<DeliveryTold>(); told != nullptr && told->id == now.id)
      change_by(now, change.envelope, *told);
  std::string& body = builder.out.body;
  body = delivery_json(now);
  body.pop_back();
  body += fmt::format(R"(,"asOf":{}}})", json::quote(builder.as_of()));
  return std::move(builder.out);
}

// `try_error`: what the bridge said of the last try; empty: it said nothing.
void fail_after_attempts(DecisionBuilder& builder, const Delivery& delivery, std::string_view try_error) {
  const std::string_view last_error = try_error.empty() ? std::string_view(delivery.error) : try_error;
  std::string message = fmt::format("{} attempts, as many as deliveries.maxAttempts allows", delivery.tries());
  if (const auto last = json::string_at(last_error, "message"); last && !last->empty()) message += ": " + *last;
  emit_delivery(builder, EventType::delivery_failed, delivery,
                {.error = error_json("too_many_attempts", message), .try_error = std::string(try_error)});
}

Result<void> check_lease(const Delivery& delivery, std::int64_t attempt) {
  if (delivery.status == DeliveryStatus::leased && delivery.attempt == attempt) return {};
  return fail(Code::lease_lost, fmt::format("attempt {} has no lease of the delivery {}, which is {} with attempt {}",
                                            attempt, delivery.id, name(delivery.status), delivery.attempt));
}

// The topic whose transcript has the message, if it is one of the session's current ones.
std::optional<std::string> topic_of_sent(const DecisionBuilder& builder, const Session& session,
                                         const Delivery& delivery) {
  const MessagePlace place = place_of(delivery);
  const auto* topics = builder.state().transcripts.topics(session.session_id);
  const bool is_there =
      place.topic && place.session_id == session.session_id && topics != nullptr && topics->contains(*place.topic);
  return is_there ? place.topic : std::nullopt;
}

// Makes the changes that people made to a message before its bridge said how the platform names it, under the
// names of all its parts. If one part is deleted and another edited, the message is
// deleted.
Result<void> change_sent(DecisionBuilder& builder, Session& session, const Delivery& delivery,
                         const FetchedLines& lines) {
  const std::string to = json::string_at("{" + delivery.fixed + "}", "to").value_or("");
  Foretold told;
  for (const NamedMessage& named : builder.out.named)
    for (EarlyChange& change : foretold(builder.context(), builder.state(),
                                        {.channel = delivery.channel,
                                         .account_id = delivery.account_id,
                                         .peer = to,
                                         .message_id = named.id,
                                         .actor = std::string(builder.context().actor)})
                                   .changes)
      if (std::ranges::find(told.changes, change.id, &EarlyChange::id) == told.changes.end())
        told.changes.push_back(std::move(change));
  std::ranges::sort(told.changes, {}, &EarlyChange::at);
  if (told.changes.empty()) return {};
  if (!told.is_deleted() && told.leaves_nothing(false)) {
    lose_foretold(builder, told);
    return {};
  }
  const auto deletion = std::ranges::find_if(told.changes, &EarlyChange::deletes);
  const EarlyChange& change = deletion != told.changes.end() ? *deletion : *told.edit();
  TRY(change_foretold(builder, session, change, builder.out.named.front().place,
                      topic_of_sent(builder, session, delivery), lines));
  if (!builder.out.need) take_foretold(builder, told, builder.out.events.back().envelope);
  return {};
}

// Tells the session that a message of it was sent, so that what people do to it later finds it by its platform's id.
Result<void> note_sent(DecisionBuilder& builder, Session& session, const Delivery& delivery, const AckDelivery& command,
                       const FetchedLines& lines) {
  const std::string fixed = "{" + delivery.fixed + "}";
  const json::Index about(fixed);
  json::ObjectWriter target;
  for (const std::string_view member : {"sessionId", "seq", "topic", "messageId"})
    target.raw(member, about.find(member).value_or("null"));
  json::ObjectWriter data;
  data.raw("target", target.text());
  data.string("deliveryId", delivery.id);
  for (const std::string_view member : {"channel", "to", "accountId", "threadId"})
    data.raw(member, about.find(member).value_or("null"));
  data.raw("platformMessageId", command.platform_message_id.empty() ? "null" : command.platform_message_id);
  if (!command.parts.empty()) data.raw("parts", command.parts);
  json::ObjectWriter body;
  body.string("customType", "sessiond.delivered");
  body.raw("data", data.text());
  const std::string members = body.text();
  AppendRequest append{.topic = topic_of_sent(builder, session, delivery)};
  append.entries = {{.type = "custom", .body = members.substr(1, members.size() - 2)}};
  const std::size_t before = builder.out.events.size();
  TRY(append_entries(builder, session, append, lines, false));
  if (!builder.out.need) take_counters(builder, session, before);
  return {};
}

// Finds what a platform has shown the bridge of the agent's message before the bridge acknowledged it. What came before
// the delivery was made is not an echo: it is a message of a person, and the bridge tells a wrong id.
std::vector<MessagePlace> find_echoes(DecisionBuilder& builder, const Delivery& delivery) {
  std::vector<MessagePlace> echoes;
  if (!builder.context().find_echo) return echoes;
  for (NamedMessage& named : builder.out.named) {
    auto echo = builder.context().find_echo(named.name, delivery.key, delivery.order);
    if (!echo) continue;
    named.has_echo = true;
    echoes.push_back(*std::move(echo));
  }
  return echoes;
}

}  // namespace

std::int64_t retry_delay_ms(std::int64_t attempt) {
  constexpr std::int64_t longest_s = 300;
  const std::int64_t doublings = std::clamp<std::int64_t>(attempt - 1, 0, 9);
  return 1'000 * std::min(std::int64_t{1} << doublings, longest_s);
}

std::unexpected<Problem> no_such_delivery(std::string_view id) {
  return fail(Code::delivery_not_found, fmt::format("there is no delivery {}", id));
}

Result<Decision> decide(const AgentState& state, const ClaimDeliveries& command, const Context& context) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  std::string list = "[";
  std::size_t claimed = 0;
  for (const auto& [order, id] : state.deliveries.heads()) {
    if (claimed == command.limit) break;
    const Delivery& delivery = *state.deliveries.find(id);
    if (!command.wants(state, delivery) || command.waits(id)) continue;
    const std::size_t taken = command.taken_bytes + (claimed == 0 ? 0 : list.size());
    if (taken != 0 && taken + delivery.fixed.size() > most_claimed_bytes) break;
    Delivery next_try = delivery;
    ++next_try.attempt;
    emit_delivery(builder, EventType::delivery_leased, next_try,
                  {.lease_ms = command.lease_ms, .lease_until = context.now + command.lease_ms});
    Delivery now = delivery;
    const Change& change = builder.out.events.back();
    change_by(now, change.envelope, *change.as<DeliveryTold>());
    list.append(claimed++ == 0 ? "" : ",").append(delivery_json(now));
  }
  if (claimed == 0) return std::move(builder.out);
  builder.out.status = 200;
  builder.out.body = list + "]";
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const AckDelivery& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  TRY(const Delivery* delivery, resolve_delivery(state, command.id, command.sees));
  if (delivery->status == DeliveryStatus::sent) return answer(builder, *delivery);
  emit_delivery(builder, EventType::delivery_sent, *delivery,
                {.platform_message_id = command.platform_message_id, .parts = command.parts});
  builder.out.named = sent_names(state.id(), *delivery, command.platform_message_id, command.parts);
  const Session* there = state.find_key(delivery->key);
  if (there == nullptr || there->archived_at) return answer(builder, *delivery);
  Session session = *there;
  // It was sent, whether the transcript can take the notes or not.
  const auto if_possible = [&](auto step) {
    if (builder.out.need) return;
    Decision before = builder.out;
    Session untouched = session;
    if (step()) return;
    builder.out = std::move(before);
    session = std::move(untouched);
  };
  if_possible([&] { return note_sent(builder, session, *delivery, command, lines); });
  if (const auto echoes = find_echoes(builder, *delivery); !echoes.empty())
    if_possible([&] { return remove_echoes(builder, session, echoes, lines); });
  if (!state.early.empty()) if_possible([&] { return change_sent(builder, session, *delivery, lines); });
  if (builder.out.need) return std::move(builder.out);
  return answer(builder, *delivery);
}

Result<Decision> decide(const AgentState& state, const NackDelivery& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const Delivery* delivery, resolve_delivery(state, command.id, command.sees));
  TRY(check_lease(*delivery, command.attempt));
  if (command.final) {
    emit_delivery(builder, EventType::delivery_failed, *delivery, {.error = command.error, .is_final = true});
  } else if (delivery->tries() >= context.rules->deliveries.max_attempts) {
    fail_after_attempts(builder, *delivery, command.error);
  } else {
    const std::int64_t wait = command.retry_after_ms.value_or(retry_delay_ms(delivery->tries()));
    emit_delivery(builder, EventType::delivery_expired, *delivery,
                  {.wait_ms = wait, .next_at = context.now + wait, .error = command.error});
  }
  return answer(builder, *delivery);
}

Result<Decision> decide(const AgentState& state, const ExtendDelivery& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const Delivery* delivery, resolve_delivery(state, command.id, command.sees));
  TRY(check_lease(*delivery, command.attempt));
  emit_delivery(builder, EventType::delivery_leased, *delivery,
                {.lease_ms = command.lease_ms, .lease_until = context.now + command.lease_ms});
  return answer(builder, *delivery);
}

Result<Decision> decide(const AgentState& state, const RetryDelivery& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const Delivery* delivery, resolve_delivery(state, command.id, command.sees));
  const bool has_content = json::find("{" + delivery->fixed + "}", "text") ||
                           json::find("{" + delivery->fixed + "}", "content") ||
                           json::find("{" + delivery->fixed + "}", "mediaUrls");
  if (delivery->status == DeliveryStatus::failed && has_content)
    emit_delivery(builder, EventType::delivery_queued, *delivery, {.age_created_at = context.age_now});
  return answer(builder, *delivery);
}

Result<Decision> decide(const AgentState& state, const DropDelivery& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const Delivery* delivery, resolve_delivery(state, command.id, command.sees));
  if (delivery->is_unsent() || delivery->is_alarming())
    emit_delivery(builder, EventType::delivery_failed, *delivery,
                  {.error = error_json("given_up", "an operator dropped it")});
  return answer(builder, *delivery);
}

Result<Decision> decide(const AgentState& state, const ExpireDelivery& command, const Context& context) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  const Delivery* delivery = state.deliveries.find(command.id);
  if (delivery == nullptr || delivery->attempt != command.attempt) return std::move(builder.out);
  if (command.too_old && delivery->status == DeliveryStatus::pending) {
    emit_delivery(builder, EventType::delivery_failed, *delivery,
                  {.error = error_json("too_old", "no bridge has sent it within deliveries.maxAgeMs")});
  } else if (!command.too_old && delivery->status == DeliveryStatus::leased) {
    if (delivery->tries() >= context.rules->deliveries.max_attempts)
      fail_after_attempts(builder, *delivery, {});
    else
      emit_delivery(builder, EventType::delivery_expired, *delivery, {.next_at = context.now});
  }
  if (!builder.out.events.empty()) builder.out.status = 200;
  return std::move(builder.out);
}

}  // namespace sessiond::decide

#include "daemon/decide/delivery_steps.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "daemon/decide/adoptions.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "store/delivery/delivery.hpp"
#include "store/names.hpp"

namespace sessiond::decide {
namespace {

delivery::Delivery address_of(const DecisionBuilder& builder, const Session& session, const json::Index& entry,
                              std::string_view reply_to, const DeliverTo& wanted) {
  const SessionRuns* runs = builder.context().run == nullptr ? nullptr : builder.state().runs.find(session.key());
  if (reply_to.empty() && runs != nullptr && runs->active) reply_to = runs->active->reply_to;
  delivery::Delivery address;
  if (!reply_to.empty()) {
    address = {.channel = json::string_at(reply_to, "channel"),
               .to = json::string_at(reply_to, "to"),
               .account_id = json::string_at(reply_to, "accountId")};
    if (const auto thread = json::find(reply_to, "threadId"); thread && *thread != "null") address.thread_id = *thread;
  } else {
    address = delivery::read_delivery(entry);
  }
  if (!wanted.to.empty() && wanted.to != address.to) {
    address.to = wanted.to;
    address.thread_id.reset();  // it was one of the other receiver
  }
  if (!wanted.account_id.empty()) address.account_id = wanted.account_id;
  if (!wanted.thread_id.empty()) address.thread_id = wanted.thread_id;
  return address;
}

}  // namespace

SendPlan plan_send(const DecisionBuilder& builder, const Session& session, std::string_view reply_to,
                   const DeliverTo& to) {
  const json::Index entry(*session.entry_with_old_counters());
  SendPlan plan{.address = address_of(builder, session, entry, reply_to, to)};
  const policy::SendCall call{
      .channel = plan.address.channel, .chat_type = {}, .to = plan.address.to, .account_id = plan.address.account_id};
  const Takeover* takeover = takeover_of(builder.state(), session);
  if (takeover == nullptr || !takeover->policy_before) {
    plan.send = policy::evaluate(builder.context().rules->send_policy, session.key(), entry, call);
    return plan;
  }
  const std::string before = entry_before_takeover(builder.state(), session, *session.entry_with_old_counters());
  plan.send = policy::evaluate(builder.context().rules->send_policy, session.key(), json::Index(before), call);
  return plan;
}

DeliveryOffer plan_delivery(DecisionBuilder& builder, const Session& session, const SendPlan& plan,
                            const DeliverTo& to) {
  using enum DeliveryOffer::Status;
  const Context& context = builder.context();
  const delivery::Delivery& address = plan.address;
  const std::string channel = address.channel.value_or("");
  const bool is_denied = plan.send.action == policy::SendAction::deny;
  const bool is_kept =
      !is_denied && context.durable && !channel.empty() && context.orders.adoptions != nullptr &&
      context.orders.adoptions->covers(builder.state().id(), session.key(), channel, address.account_id.value_or(""));
  DeliveryOffer offer{.channel = address.channel,
                      .to = address.to,
                      .account_id = address.account_id,
                      .thread_id = address.thread_id.value_or(""),
                      .status = is_kept     ? pending
                                : is_denied ? denied
                                            : event,
                      .media_urls = to.media_urls};
  if (is_kept) offer.id = context.ids->entry_id() + delivery_id_ending(builder.state().id());
  if (is_denied) offer.rule = plan.send.rule ? std::to_string(*plan.send.rule) : "null";
  return offer;
}

std::vector<std::optional<DeliveryOffer>> plan_deliveries(DecisionBuilder& builder, const Session& session,
                                                          std::string_view reply_to, const DeliverTo& to,
                                                          const std::vector<transcripts::NewEntry>& entries) {
  std::vector<std::optional<DeliveryOffer>> deliveries(entries.size());
  const SendPlan plan = plan_send(builder, session, reply_to, to);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool says = entries[i].role == "assistant" && !transcripts::said_in(entries[i]).empty();
    if (says) deliveries[i] = plan_delivery(builder, session, plan, to);
  }
  return deliveries;
}

void find_deliveries_made_before(const AgentState& state, const Session& session, AppendRequest& append,
                                 const AppendResult& appended) {
  const std::set<std::string_view> again(appended.again.begin(), appended.again.end());
  for (std::size_t i = 0; i < append.deliveries.size(); ++i) {
    const std::string& id = appended.ids.at(i);
    if (!append.deliveries[i] || !again.contains(id)) continue;
    append.deliveries[i].reset();
    const Delivery* delivery = state.deliveries.find_of_message(message_name(session.session_id, append.topic, id));
    if (delivery == nullptr || delivery->key != session.key()) continue;
    auto made = json::from_json<DeliveryOffer>(delivery_json(*delivery));
    made.media_urls.clear();
    append.deliveries[i] = std::move(made);
  }
}

std::string deliveries_json(const std::vector<std::optional<DeliveryOffer>>& deliveries,
                            const std::vector<std::string>& ids) {
  std::string list;
  json::ArrayWriter array(list);
  for (std::size_t i = 0; i < deliveries.size(); ++i) {
    if (!deliveries[i]) continue;
    json::ObjectWriter out(array.next());
    json::write_fields(out, *deliveries[i]);
    out.string("messageId", ids.at(i));
    out.close();
  }
  array.close();
  return list;
}

std::string first_offer_json(const std::vector<std::optional<DeliveryOffer>>& deliveries) {
  return deliveries.empty() || !deliveries.front() ? "null" : json::to_json(*deliveries.front());
}

void emit_delivery(DecisionBuilder& builder, journal::EventType type, const Delivery& delivery, DeliveryTold told) {
  const Context& context = builder.context();
  const Session* session = builder.state().find_key(delivery.key);  // null: it is gone
  told.id = delivery.id;
  told.attempt = delivery.attempt;
  const std::string fixed = "{" + delivery.fixed + "}";
  builder.emit(
      {.type = type,
       .key = delivery.key,
       .session_id = json::string_at(fixed, "sessionId").value_or(""),
       .channel = delivery.channel,
       .chat_type = session == nullptr ? "" : session->chat_type,
       .lineage =
           session == nullptr || context.lineage == nullptr ? "" : context.lineage->of(builder.state(), *session),
       .topic = json::string_at(fixed, "topic")},
      std::move(told));
}

void fail_purged_deliveries(DecisionBuilder& builder, const Session& session) {
  for (const auto& [id, delivery] : builder.state().deliveries.all()) {
    if (delivery.status == DeliveryStatus::sent || delivery.key != session.key()) continue;
    emit_delivery(builder, journal::EventType::delivery_failed, delivery,
                  {.error = error_json("purged", "the session was purged")});
  }
}

}  // namespace sessiond::decide

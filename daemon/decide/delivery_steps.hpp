// Steps that the decisions about deliveries share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/steps.hpp"
#include "policy/send_policy.hpp"
#include "store/delivery/delivery.hpp"

namespace sessiond::decide {

// The address of a message, and the decision of the send policy.
struct SendPlan {
  delivery::Delivery address{};
  policy::SendDecision send{};
};
// `reply_to`: the address of the run that answers, a raw object; empty: that of the run whose lease the requester
// names, else the session's.
SendPlan plan_send(const DecisionBuilder& builder, const Session& session, std::string_view reply_to,
                   const DeliverTo& to);
// Plans the delivery of a message that is about to be appended.
DeliveryOffer plan_delivery(DecisionBuilder& builder, const Session& session, const SendPlan& plan,
                            const DeliverTo& to);
// As AppendRequest::deliveries: plans the delivery of each assistant entry that has text.
std::vector<std::optional<DeliveryOffer>> plan_deliveries(DecisionBuilder& builder, const Session& session,
                                                          std::string_view reply_to, const DeliverTo& to,
                                                          const std::vector<transcripts::NewEntry>& entries);
// A message that was there already gets no second delivery: puts the one that it has in place of the planned one, or
// nothing.
void find_deliveries_made_before(const AgentState& state, const Session& session, AppendRequest& append,
                                 const AppendResult& appended);
// Makes the array that a reply shows of deliveries, each with its messageId.
std::string deliveries_json(const std::vector<std::optional<DeliveryOffer>>& deliveries,
                            const std::vector<std::string>& ids);
// The delivery of a reply's only message, as it is shown; null: there is none.
std::string first_offer_json(const std::vector<std::optional<DeliveryOffer>>& deliveries);

// Emits an event of a delivery. Sets the id and the attempt of `told`.
void emit_delivery(DecisionBuilder& builder, journal::EventType type, const Delivery& delivery, DeliveryTold told);
// A purge destroys what a session said: its deliveries that are not sent fail, and forget their text.
void fail_purged_deliveries(DecisionBuilder& builder, const Session& session);

}  // namespace sessiond::decide

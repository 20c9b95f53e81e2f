// A delivery is an assistant message on its way to a channel (daemon/leases/README.md): made by the commit that appends
// the message, claimed by a bridge, and ended as sent or failed. These are the deliveries as an agent's state has them,
// and their JSON. Pure values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/events.hpp"

namespace sessiond::decide {

enum class DeliveryStatus : std::uint8_t { pending, leased, sent, failed };
std::string_view name(DeliveryStatus status);
std::optional<DeliveryStatus> delivery_status(std::string_view name);

// A try that did not bring the message out.
struct FailedTry {
  std::int64_t attempt = 0;
  std::int64_t at = 0;  // ms since the epoch: when the bridge said so, or its lease was over
  std::string error{};  // raw JSON; empty: the bridge said nothing
};

struct Delivery {
  static constexpr std::size_t most_failed_tries = 5;

  std::string id{};
  std::string key{};      // of the session
  std::string channel{};  // of its address, as the next two
  std::string account_id{};
  std::string conversation{};  // channel, accountId, to and threadId as one text
  std::string message{};       // message_name() of what it sends
  // The members that never change, of a JSON object: deliveryId, agent, key, sessionId, seq, topic, messageId,
  // runId, the address, text, content, mediaUrls, createdAt.
  std::string fixed{};
  std::uint64_t order = 0;          // the seq of the event that made it
  std::int64_t created_at = 0;      // ms since the epoch, as all below; of one that was queued again: when it was
  std::int64_t age_created_at = 0;  // the same by the clock of ages (store/journal/age_clock.hpp); 0: not known
  DeliveryStatus status = DeliveryStatus::pending;
  std::int64_t attempt = 0;                             // 1 at the first claim; no number comes twice
  std::int64_t given_up_at = 0;                         // the attempt after which it had failed, and was queued again
  std::int64_t lease_ms = 0, lease_until = 0;           // while leased
  std::int64_t wait_ms = 0, next_at = 0;                // while pending: not before; 0: at once
  std::string platform_message_id{}, parts{}, error{};  // raw JSON; empty: none
  std::string claimed_by{};                             // the token that claimed it last; empty: none did
  bool is_final = false;                                // failed: the bridge said that no try can help
  std::int64_t failed_at = 0;                           // failed: since when
  std::vector<FailedTry> failed_tries{};                // the newest, oldest first; those of a sent one are forgotten
  std::uint64_t ended_seq = 0;                          // of the event since which it is sent or failed; 0: it is not

  std::int64_t tries() const { return attempt - given_up_at; }  // since it was made or queued again
  bool is_unsent() const { return status == DeliveryStatus::pending || status == DeliveryStatus::leased; }
  // A failed one that somebody should look at: it was neither dropped nor purged.
  bool is_alarming() const;
  // Drops text, content and media.
  void forget_content();
};

// Names a message of an agent.
std::string message_name(std::string_view session_id, const std::optional<std::string>& topic,
                         std::string_view message_id);

// Makes the delivery of a message.appended; nothing if the event makes none.
std::optional<Delivery> made_delivery(const journal::Envelope& about, const MessageAppended& said);

// Applies an event to the delivery that it is about.
void change_by(Delivery& delivery, const journal::Envelope& about, const DeliveryTold& told);

// The delivery as the API shows it.
std::string delivery_json(const Delivery& delivery);
// The delivery as the book keeps it, but for `fixed` and `ended_seq`, and back. `fixed` is an object here.
std::string stored_delivery(const Delivery& delivery);
Delivery read_delivery(std::string_view stored, std::string_view fixed);

// The end of the ids that an agent's deliveries have, so that an id alone says whose it may be.
std::string delivery_id_ending(std::string_view agent);

}  // namespace sessiond::decide

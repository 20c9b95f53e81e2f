#include "daemon/decide/delivery.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "store/json/crc.hpp"
#include "store/utf8.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::decide {
namespace {

constexpr auto status_names = std::to_array<std::string_view>({"pending", "leased", "sent", "failed"});
constexpr std::array<std::string_view, 3> content_members{"text", "content", "mediaUrls"};

// A message's content as a bridge is given it: its text, and the parts if there are others than text to send.
// `media_note`: the last part only names the media, which the delivery has as mediaUrls.
struct Sendable {
  std::string text{};
  std::string content{};  // raw JSON array; empty: the text is all
};

Sendable sendable_of(std::string_view content, bool media_note) {
  if (json::kind(content) != json::Kind::array) return {.text = transcripts::text_of(content)};
  std::vector<std::string_view> parts;
  bool only_text = true;
  for (const std::string_view part : json::elements(content)) {
    const std::string type = json::string_at(part, "type").value_or("");
    const bool is_internal = type == "thinking" || type == "redacted_thinking" || type == "reasoning" ||
                             type == "toolCall" || type == "tool_use" || type == "toolResult";
    if (is_internal) continue;
    parts.push_back(part);
    only_text = only_text && type == "text";
  }
  if (media_note && !parts.empty()) parts.pop_back();
  std::string array = "[";
  for (const std::string_view part : parts) array.append(array.size() > 1 ? "," : "").append(part);
  array += ']';
  return {.text = transcripts::text_of(array), .content = only_text ? "" : array};
}

void put_raw(json::ObjectWriter& out, std::string_view name, std::string_view raw) {
  out.raw(name, raw.empty() ? "null" : raw);
}

std::string failed_tries_json(const std::vector<FailedTry>& tries) {
  std::string list = "[";
  for (const FailedTry& each : tries) {
    json::ObjectWriter one;
    one.integer("attempt", each.attempt);
    one.integer("at", each.at);
    if (!each.error.empty()) one.raw("error", each.error);
    list.append(list.size() > 1 ? "," : "").append(one.text());
  }
  return list + "]";
}

void put_state(json::ObjectWriter& out, const Delivery& delivery) {
  out.string("status", name(delivery.status));
  out.integer("attempt", delivery.attempt);
  if (delivery.status == DeliveryStatus::leased) out.integer("leaseUntil", delivery.lease_until);
  if (delivery.status == DeliveryStatus::pending && delivery.next_at != 0) out.integer("nextAt", delivery.next_at);
  if (!delivery.platform_message_id.empty()) out.raw("platformMessageId", delivery.platform_message_id);
  if (!delivery.parts.empty()) out.raw("parts", delivery.parts);
  if (!delivery.error.empty()) out.raw("error", delivery.error);
  if (!delivery.claimed_by.empty()) out.string("claimedBy", delivery.claimed_by);
  if (delivery.failed_at != 0) out.integer("failedAt", delivery.failed_at);
  if (delivery.is_final) out.boolean("final", true);
  if (!delivery.failed_tries.empty()) out.raw("failedTries", failed_tries_json(delivery.failed_tries));
}

std::vector<FailedTry> read_failed_tries(std::string_view list) {
  std::vector<FailedTry> tries;
  for (const std::string_view each : json::elements(list))
    tries.push_back({.attempt = json::int_at(each, "attempt").value_or(0),
                     .at = json::int_at(each, "at").value_or(0),
                     .error = std::string(json::find(each, "error").value_or(""))});
  return tries;
}

// Returns an error whose message is cut: a delivery keeps several, and is written with each try.
std::string cut_error(std::string error) {
  constexpr std::size_t most_code_points = 100;
  const std::string message = json::string_at(error, "message").value_or("");
  const std::size_t end = store::code_points_end(message, most_code_points);
  if (end == message.size()) return error;
  json::Edit edit;
  edit.put_string("message", message.substr(0, end));
  return json::apply(error, edit);
}

// Returns what the bridge said of the try that this event ends, raw JSON; empty: it said nothing. Nothing: it ends
// none.
std::optional<std::string> error_of_try(const Delivery& delivery, journal::EventType type, const DeliveryTold& told) {
  using journal::EventType;
  const bool ends = type == EventType::delivery_expired || type == EventType::delivery_failed;
  if (!ends || delivery.status != DeliveryStatus::leased) return {};
  if (type == EventType::delivery_expired || told.is_final) return told.error;
  const std::string code = json::string_at(told.error, "code").value_or("");
  if (code == "given_up" || code == "purged") return {};
  return told.try_error;
}

// Notes that the try that is under way has failed.
void note_failed_try(Delivery& delivery, std::int64_t at, std::string error) {
  while (delivery.failed_tries.size() >= Delivery::most_failed_tries)
    delivery.failed_tries.erase(delivery.failed_tries.begin());
  delivery.failed_tries.push_back({.attempt = delivery.attempt, .at = at, .error = cut_error(std::move(error))});
}

}  // namespace

std::string_view name(DeliveryStatus status) { return status_names.at(static_cast<std::size_t>(status)); }

std::optional<DeliveryStatus> delivery_status(std::string_view text) {
  const auto found = std::ranges::find(status_names, text);
  if (found == status_names.end()) return {};
  return static_cast<DeliveryStatus>(found - status_names.begin());
}

bool Delivery::is_alarming() const {
  if (status != DeliveryStatus::failed) return false;
  const std::string code = json::string_at(error, "code").value_or("");
  return code != "given_up" && code != "purged";
}

void Delivery::forget_content() {
  json::Edit edit;
  for (const std::string_view member : content_members) edit.remove(std::string(member));
  const std::string object = json::apply("{" + fixed + "}", edit);
  fixed = object.substr(1, object.size() - 2);
}

std::string message_name(std::string_view session_id, const std::optional<std::string>& topic,
                         std::string_view message_id) {
  return "[" + json::quote(session_id) + "," + (topic ? json::quote(*topic) : "null") + "," + json::quote(message_id) +
         "]";
}

std::optional<Delivery> made_delivery(const journal::Envelope& about, const MessageAppended& said) {
  if (!said.delivers || !said.offer || said.offer->id.empty()) return {};
  const DeliveryOffer& offer = *said.offer;
  const json::Index message(said.message);
  const auto raw = [](const std::optional<std::string>& text) { return text ? json::quote(*text) : "null"; };
  const std::string thread_id = offer.thread_id.empty() ? "null" : offer.thread_id;
  Delivery delivery{.id = offer.id,
                    .key = about.key,
                    .channel = offer.channel.value_or(""),
                    .account_id = offer.account_id.value_or(""),
                    .conversation = "[" + raw(offer.channel) + "," + raw(offer.account_id) + "," + raw(offer.to) + "," +
                                    thread_id + "]",
                    .message = message_name(about.session_id, about.topic, message.string_at("id").value_or("")),
                    .order = about.seq,
                    .created_at = about.time,
                    .age_created_at = said.age_created_at.value_or(0)};
  const Sendable sendable = sendable_of(message.find("content").value_or("\"\""), !said.media_urls.empty());
  json::ObjectWriter out;
  out.string("deliveryId", delivery.id);
  out.string("agent", about.agent);
  out.string("key", delivery.key);
  out.string("sessionId", about.session_id);
  put_raw(out, "seq", message.find("seq").value_or(""));
  out.string_or_null("topic", about.topic);
  put_raw(out, "messageId", message.find("id").value_or(""));
  if (!said.run_id.empty()) out.string("runId", said.run_id);
  out.string_or_null("channel", offer.channel);
  out.string_or_null("to", offer.to);
  out.string_or_null("accountId", offer.account_id);
  out.raw("threadId", thread_id);
  if (!sendable.text.empty()) out.string("text", sendable.text);
  if (!sendable.content.empty()) out.raw("content", sendable.content);
  const std::vector<std::string>& media_urls = said.media_urls.empty() ? offer.media_urls : said.media_urls;
  if (!media_urls.empty()) out.strings("mediaUrls", media_urls);
  out.integer("createdAt", delivery.created_at);
  const std::string object = out.text();
  delivery.fixed = object.substr(1, object.size() - 2);
  return delivery;
}

void change_by(Delivery& delivery, const journal::Envelope& about, const DeliveryTold& told) {
  using journal::EventType;
  if (auto error = error_of_try(delivery, about.type, told)) note_failed_try(delivery, about.time, *std::move(error));
  const bool is_new_try = told.attempt > delivery.attempt;
  delivery.attempt = told.attempt;
  delivery.is_final = false;
  const std::int64_t failed_before = std::exchange(delivery.failed_at, 0);
  delivery.wait_ms = delivery.next_at = delivery.lease_ms = delivery.lease_until = 0;
  switch (about.type) {
    case EventType::delivery_leased:
      delivery.status = DeliveryStatus::leased;
      delivery.lease_ms = told.lease_ms;
      delivery.lease_until = told.lease_until;
      if (is_new_try) delivery.claimed_by = about.actor;
      break;
    case EventType::delivery_expired:
      delivery.status = DeliveryStatus::pending;
      delivery.wait_ms = told.wait_ms.value_or(0);
      delivery.next_at = told.next_at;
      if (!told.error.empty()) delivery.error = told.error;
      break;
    case EventType::delivery_queued:
      delivery.status = DeliveryStatus::pending;
      delivery.created_at = about.time;
      delivery.age_created_at = told.age_created_at.value_or(0);
      delivery.given_up_at = delivery.attempt;
      delivery.error.clear();
      break;
    case EventType::delivery_sent:
      delivery.status = DeliveryStatus::sent;
      delivery.platform_message_id = told.platform_message_id;
      delivery.parts = told.parts;
      delivery.error.clear();
      delivery.failed_tries.clear();
      delivery.forget_content();
      break;
    default:
      delivery.status = DeliveryStatus::failed;
      delivery.error = told.error;
      delivery.failed_at = failed_before != 0 ? failed_before : about.time;
      delivery.is_final = told.is_final;
      if (json::string_at(delivery.error, "code") == "purged") {
        delivery.failed_tries.clear();
        delivery.forget_content();
      }
      break;
  }
}

std::string delivery_json(const Delivery& delivery) {
  json::ObjectWriter state;
  put_state(state, delivery);
  return "{" + delivery.fixed + "," + state.text().substr(1);
}

std::string stored_delivery(const Delivery& delivery) {
  json::ObjectWriter out;
  out.string("conversation", delivery.conversation);
  out.integer("order", static_cast<std::int64_t>(delivery.order));
  out.integer("queuedAt", delivery.created_at);
  if (delivery.age_created_at != 0) out.integer("ageQueuedAt", delivery.age_created_at);
  put_state(out, delivery);
  if (delivery.given_up_at != 0) out.integer("givenUpAt", delivery.given_up_at);
  if (delivery.lease_ms != 0) out.integer("leaseMs", delivery.lease_ms);
  if (delivery.wait_ms != 0) out.integer("waitMs", delivery.wait_ms);
  return out.text();
}

Delivery read_delivery(std::string_view stored, std::string_view fixed) {
  const json::Index members(stored);
  const auto number = [&members](std::string_view member) {
    return json::as_int(members.find(member).value_or("null")).value_or(0);
  };
  const auto raw = [&members](std::string_view member) { return std::string(members.find(member).value_or("")); };
  return {.id = json::string_at(fixed, "deliveryId").value_or(""),
          .key = json::string_at(fixed, "key").value_or(""),
          .channel = json::string_at(fixed, "channel").value_or(""),
          .account_id = json::string_at(fixed, "accountId").value_or(""),
          .conversation = members.string_at("conversation").value_or(""),
          .message = message_name(json::string_at(fixed, "sessionId").value_or(""), json::string_at(fixed, "topic"),
                                  json::string_at(fixed, "messageId").value_or("")),
          .fixed = std::string(fixed.substr(1, fixed.size() - 2)),
          .order = static_cast<std::uint64_t>(number("order")),
          .created_at = number("queuedAt"),
          .age_created_at = number("ageQueuedAt"),
          .status = delivery_status(members.string_at("status").value_or("")).value_or(DeliveryStatus::pending),
          .attempt = number("attempt"),
          .given_up_at = number("givenUpAt"),
          .lease_ms = number("leaseMs"),
          .lease_until = number("leaseUntil"),
          .wait_ms = number("waitMs"),
          .next_at = number("nextAt"),
          .platform_message_id = raw("platformMessageId"),
          .parts = raw("parts"),
          .error = raw("error"),
          .claimed_by = members.string_at("claimedBy").value_or(""),
          .is_final = members.find("final") == "true",
          .failed_at = number("failedAt"),
          .failed_tries = read_failed_tries(members.find("failedTries").value_or("[]"))};
}

std::string delivery_id_ending(std::string_view agent) { return json::crc_text(agent); }

}  // namespace sessiond::decide

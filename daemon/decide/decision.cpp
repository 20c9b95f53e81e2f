#include "daemon/decide/decision.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "daemon/decide/message_channels.hpp"
#include "store/hex.hpp"
#include "store/json/raw_json.hpp"
#include "store/number.hpp"

namespace sessiond::decide {

IdSource IdSource::secure() {
  return IdSource([](std::span<unsigned char> into) {
    if (RAND_bytes(into.data(), static_cast<int>(into.size())) != 1)
      throw std::runtime_error("OpenSSL could not make random bytes");
  });
}

std::uint64_t IdSource::next() {
  std::uint64_t value = 0;
  if (taken_ == pool_.size()) {
    bytes_(pool_);
    taken_ = 0;
  }
  std::memcpy(&value, pool_.data() + taken_, sizeof value);
  OPENSSL_cleanse(pool_.data() + taken_, sizeof value);
  taken_ += sizeof value;
  return value;
}

std::string IdSource::entry_id() {
  return store::to_hex(std::bit_cast<std::array<unsigned char, 8>>(std::byteswap(next())));
}

std::string IdSource::uuid() {
  const std::uint64_t high = (next() & 0xFFFFFFFFFFFF0FFFULL) | 0x4000ULL;
  const std::uint64_t low = (next() & 0x3FFFFFFFFFFFFFFFULL) | 0x8000000000000000ULL;
  std::string id =
      store::to_hex(std::bit_cast<std::array<unsigned char, 16>>(std::array{std::byteswap(high), std::byteswap(low)}));
  for (const std::size_t hyphen : {8U, 13U, 18U, 23U}) id.insert(hyphen, 1, '-');
  return id;
}

std::int64_t IdSource::archive_time(std::int64_t now) { return archived_ = std::max(now, archived_ + 1); }

std::string IdSource::timestamp_id(std::int64_t now) {
  constexpr std::size_t most = 1U << 15;  // of one ms: half of all random parts, so that few draws are repeated
  if (now > stamped_ || ends_.size() >= most) {
    stamped_ = std::max(now, stamped_ + 1);
    ends_.clear();
  }
  std::uint16_t end = 0;
  do {
    end = static_cast<std::uint16_t>(next());
  } while (!ends_.insert(end).second);
  std::string stamp = transcripts::iso_time(stamped_);  // 2025-01-04T14:32:15.001Z
  stamp.pop_back();
  for (char& c : stamp) {
    if (c == 'T' || c == ':' || c == '.') c = '-';
  }
  return fmt::format("{}-{:04x}", stamp, end);
}

ClientUse client_of(const Context& context) {
  return {.client = std::string(context.client), .is_own = !context.client.empty() && !context.sight.whole_agent};
}

const TranscriptEnd* DecisionBuilder::transcript_end(const std::string& file) const {
  const auto mine = std::ranges::find(out.transcript_updates, file, &TranscriptUpdate::file);
  return mine != out.transcript_updates.end() ? &mine->end : state_.transcripts.find(file);
}

std::string DecisionBuilder::as_of() const {
  if (!context_.as_of.empty()) return std::string(context_.as_of);
  const std::uint64_t last = out.events.empty() ? std::max(state_.last_seq, context_.next_seq - 1) : next_seq() - 1;
  return std::string(context_.epoch).append("-").append(store::decimal(last));
}

Change& DecisionBuilder::begin(journal::Envelope&& envelope) {
  envelope.seq = next_seq();
  envelope.time = context_.now;
  envelope.agent = state_.id();
  if (envelope.actor.empty()) envelope.actor = context_.actor;
  envelope.source = context_.source;
  Change& change = out.events.emplace_back();
  change.envelope = std::move(envelope);
  return change;
}

void DecisionBuilder::emit(journal::Envelope&& envelope, std::string_view data) {
  journal::write_event(begin(std::move(envelope)), data.size(), [data](std::string& json) { json += data; });
}

void DecisionBuilder::emit(journal::Envelope&& envelope, Payload payload) {
  Change& change = begin(std::move(envelope));
  change.payload = std::make_shared<Payload>(std::move(payload));
  change.edit.emplace();
}

journal::Envelope DecisionBuilder::envelope_about(const Session& session, journal::EventType type,
                                                  std::string_view channel,
                                                  const std::optional<std::string>& topic) const {
  using enum journal::EventType;
  const bool told =
      !session.channels.empty() && !channel.empty() &&
      (type == message_appended || type == message_edited || type == message_deleted || type == message_reacted);
  return {.type = type,
          .key = session.key(),
          .session_id = session.session_id,
          .channel = told ? std::string(channel) : session.channel,
          .channels = told ? "" : session.channels,
          .chat_type = session.chat_type,
          .lineage = context_.lineage != nullptr ? context_.lineage->of(state_, session) : "",
          .topic = topic};
}

void DecisionBuilder::emit(journal::EventType type, const Session& session, std::string_view data,
                           const std::optional<std::string>& topic, std::optional<json::Edit> edit) {
  emit(envelope_about(session, type, about_channel, topic), data);
  out.events.back().edit = std::move(edit);
}

void DecisionBuilder::emit(journal::EventType type, const Session& session, Payload payload,
                           const std::optional<std::string>& topic, json::Edit edit) {
  const auto* message = std::get_if<MessageAppended>(&payload);
  const bool delivers = message != nullptr && message->delivers && message->offer;
  const std::string to = delivers ? message->offer->channel.value_or("") : "";
  journal::Envelope envelope = envelope_about(session, type, delivers ? to : about_channel, topic);
  envelope.delivers = delivers;
  envelope.delivery_channel = to;
  emit(std::move(envelope), std::move(payload));
  out.events.back().edit = std::move(edit);
}

void DecisionBuilder::edit_with_rev(Session& session, json::Edit edit) const {
  edit.put_int("rev", static_cast<std::int64_t>(next_seq()));
  session.edit(edit);
}

void DecisionBuilder::update(Session& session, json::Edit edit, Payload payload) {
  keep_channels(session, edit, context_.source == "external");
  edit_with_rev(session, edit);
  emit(journal::EventType::session_updated, session, std::move(payload), {}, std::move(edit));
}

void DecisionBuilder::update(Session& session, json::Edit edit, journal::EventType type, std::string_view more) {
  keep_channels(session, edit, context_.source == "external");
  std::string data;
  json::ObjectWriter writer(data);
  if (!more.empty()) data.append(more).append(",");
  json::append_edit(writer, edit);
  writer.close();
  edit_with_rev(session, edit);
  emit(type, session, data, {}, std::move(edit));
}

std::int64_t moved_to(const Session& session, std::int64_t now) { return std::max(session.updated_at, now); }

}  // namespace sessiond::decide

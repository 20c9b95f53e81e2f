#include "daemon/decide/platform_message.hpp"

#include "daemon/decide/delivery.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::decide {
namespace {

void write_place(json::ObjectWriter& out, const MessagePlace& place) {
  out.string("sessionKey", place.key);
  out.string("sessionId", place.session_id);
  out.string_or_null("topic", place.topic);
  out.integer("seq", static_cast<std::int64_t>(place.seq));
  out.string("messageId", place.entry_id);
}

}  // namespace

std::string platform_name(std::string_view agent, std::string_view channel, std::string_view account,
                          std::string_view peer, std::string_view id) {
  json::ObjectWriter out;
  out.string("agent", agent);
  out.string("channel", store::lower(store::trim(channel)));
  if (const std::string_view name = store::trim(account); !name.empty()) out.string("account", store::lower(name));
  out.string("peer", store::trim(peer));
  out.string("id", id);
  return out.text();
}

std::string name_by(std::string_view name, std::string_view author) {
  json::ObjectWriter out;
  out.string("name", name);
  out.string("from", author);
  return out.text();
}

std::optional<MessagePlace> read_place(std::string_view answer) {
  const json::Index members(answer);
  const auto seq = json::as_int(members.find("seq").value_or("null"));
  MessagePlace place{.key = members.string_at("sessionKey").value_or(""),
                     .session_id = members.string_at("sessionId").value_or(""),
                     .topic = members.string_at("topic"),
                     .entry_id = members.string_at("messageId").value_or("")};
  if (!seq || place.key.empty() || place.session_id.empty() || place.entry_id.empty()) return {};
  place.seq = static_cast<std::uint64_t>(*seq);
  return place;
}

std::string place_json(const MessagePlace& place, std::string_view as_of) {
  json::ObjectWriter out;
  write_place(out, place);
  out.string("namedAsOf", as_of);
  return out.text();
}

std::string own_message_json(const MessagePlace& place) {
  json::ObjectWriter out;
  write_place(out, place);
  out.boolean("activate", false);
  out.raw("run", "null");
  out.boolean("own", true);
  out.boolean("duplicate", true);
  return out.text();
}

MessagePlace place_of(const Delivery& delivery) {
  const std::string fixed = "{" + delivery.fixed + "}";
  const json::Index about(fixed);
  return {.key = delivery.key,
          .session_id = about.string_at("sessionId").value_or(""),
          .topic = about.string_at("topic"),
          .entry_id = about.string_at("messageId").value_or(""),
          .seq = static_cast<std::uint64_t>(about.int_at("seq").value_or(0))};
}

std::vector<NamedMessage> sent_names(std::string_view agent, const Delivery& delivery, std::string_view id,
                                     std::string_view parts) {
  constexpr std::size_t most = 100;
  const MessagePlace place = place_of(delivery);
  const std::string to = json::string_at("{" + delivery.fixed + "}", "to").value_or("");
  std::vector<NamedMessage> names;
  const auto add = [&](std::string_view raw) {
    const auto text =
        json::kind(raw) == json::Kind::object ? json::string_at(raw, "platformMessageId") : json::as_string(raw);
    if (text && !text->empty() && names.size() < most)
      names.push_back({.name = platform_name(agent, delivery.channel, delivery.account_id, to, *text),
                       .id = *text,
                       .place = place});
  };
  if (!id.empty()) add(id);
  for (const std::string_view part : json::elements(parts.empty() ? "[]" : parts)) add(part);
  return names;
}

}  // namespace sessiond::decide

#include "store/journal/event.hpp"

#include <array>

#include "store/json/raw_json.hpp"

namespace sessiond::journal {
namespace {

constexpr std::array<std::string_view, 21> names{"session.created",       "session.updated",    "session.reset",
                                                 "session.archived",      "session.unarchived", "session.deleted",
                                                 "message.appended",      "topic.created",      "topic.deleted",
                                                 "policy.changed",        "policy.denied",      "lock.evicted",
                                                 "store.repaired",        "store.degraded",     "store.external_change",
                                                 "transcript.renumbered", "config.reloaded",    "token.created",
                                                 "token.revoked",         "session.typing",     "text.delta"};

}  // namespace

std::string_view name(EventType type) { return names.at(static_cast<std::size_t>(type)); }

std::optional<EventType> event_type(std::string_view text) {
  for (std::size_t index = 0; index < names.size(); ++index) {
    if (names[index] == text) return static_cast<EventType>(index);
  }
  return {};
}

Event make_event(Envelope envelope, std::string_view data) {
  auto json = std::make_shared<std::string>();
  json->reserve(data.size() + envelope.key.size() + 320);
  json::ObjectWriter out(*json);
  if (envelope.seq != 0) out.integer("seq", static_cast<std::int64_t>(envelope.seq));
  out.integer("time", envelope.time);
  out.raw("type", {});
  json->append("\"").append(name(envelope.type)).append("\"");
  const auto put = [&out](std::string_view field, std::string_view text) {
    if (!text.empty()) out.string(field, text);
  };
  put("agent", envelope.agent);
  put("key", envelope.key);
  put("sessionId", envelope.session_id);
  put("channel", envelope.channel);
  put("chatType", envelope.chat_type);
  if (envelope.topic) {
    out.string("topic", *envelope.topic);
  } else {
    out.raw("topic", "null");
  }
  put("actor", envelope.actor);
  put("source", envelope.source);
  out.raw("data", data);
  out.close();
  Event event{.envelope = std::move(envelope), .json = std::move(json), .data = {}};
  event.data = std::string_view(*event.json).substr(event.json->size() - 1 - data.size(), data.size());
  return event;
}

Result<Event> parse_event(std::string text) {
  Event event{.envelope = {}, .json = std::make_shared<const std::string>(std::move(text)), .data = {}};
  Envelope& envelope = event.envelope;
  bool typed = false;
  for (const json::Member& member : json::members(*event.json)) {
    const auto text_of = [&] { return json::as_string(member.value).value_or(""); };
    if (member.name == "seq")
      envelope.seq = static_cast<std::uint64_t>(json::as_int(member.value).value_or(0));
    else if (member.name == "time")
      envelope.time = json::as_int(member.value).value_or(0);
    else if (member.name == "type") {
      const auto type = event_type(text_of());
      if (!type) return fail(Code::bad_request, "unknown event type " + std::string(member.value));
      envelope.type = *type;
      typed = true;
    } else if (member.name == "agent")
      envelope.agent = text_of();
    else if (member.name == "key")
      envelope.key = text_of();
    else if (member.name == "sessionId")
      envelope.session_id = text_of();
    else if (member.name == "channel")
      envelope.channel = text_of();
    else if (member.name == "chatType")
      envelope.chat_type = text_of();
    else if (member.name == "topic")
      envelope.topic = json::as_string(member.value);
    else if (member.name == "actor")
      envelope.actor = text_of();
    else if (member.name == "source")
      envelope.source = text_of();
    else if (member.name == "data")
      event.data = member.value;
  }
  if (!typed || envelope.seq == 0) return fail(Code::bad_request, "not an event: " + event.json->substr(0, 120));
  return event;
}

}  // namespace sessiond::journal

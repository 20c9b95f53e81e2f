#include "store/journal/event.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "store/json/raw_json.hpp"

namespace sessiond::journal {
namespace {

constexpr auto names = std::to_array<std::string_view>(
    {"session.created",       "session.updated",    "session.reset",        "session.archived",
     "session.unarchived",    "session.deleted",    "message.appended",     "topic.created",
     "topic.deleted",         "policy.changed",     "policy.denied",        "lock.evicted",
     "lock.expired",          "store.repaired",     "store.degraded",       "store.external_change",
     "transcript.renumbered", "config.reloaded",    "token.created",        "token.revoked",
     "retention.notice",      "archive.destroyed",  "context.compacted",    "compaction.due",
     "compaction.failed",     "doom_loop.detected", "session.resumed",      "session.forked",
     "context.cleared",       "run.queued",         "run.started",          "run.progress",
     "run.aborting",          "run.finished",       "step.started",         "step.finished",
     "tool.started",          "tool.finished",      "directive.injected",   "approval.requested",
     "approval.resolved",     "session.takeover",   "session.handback",     "message.held",
     "hook.called",           "hook.answered",      "hook.expired",         "runner.evicted",
     "message.edited",        "message.deleted",    "message.reacted",      "delivery.leased",
     "delivery.sent",         "delivery.failed",    "delivery.expired",     "delivery.queued",
     "log.appended",          "cost.exceeded",      "message.change_early", "message.change_taken",
     "message.change_lost",   "session.typing",     "session.released",     "text.delta",
     "reasoning.delta",       "tool.progress",      "context.updated"});

struct Text {
  std::string_view name;
  std::string Envelope::* field;
};
// The members that are left out when they are empty: those before `topic`, and those after it.
constexpr std::array<Text, 9> texts{{{"agent", &Envelope::agent},
                                     {"key", &Envelope::key},
                                     {"sessionId", &Envelope::session_id},
                                     {"channel", &Envelope::channel},
                                     {"channels", &Envelope::channels},
                                     {"chatType", &Envelope::chat_type},
                                     {"lineage", &Envelope::lineage},
                                     {"actor", &Envelope::actor},
                                     {"source", &Envelope::source}}};
constexpr std::size_t before_topic = 7;

// Reads the members about the delivery. They come before the message, which may be long and is not read.
void read_delivery(Event& event) {
  for (const json::Member& member : json::members(event.data)) {
    if (member.name == "deliver") event.envelope.delivers = member.value == "true";
    if (member.name == "delivery" && event.envelope.delivers)
      event.envelope.delivery_channel = json::string_at(member.value, "channel").value_or("");
    if (member.name == "delivery" || member.name == "message") return;
  }
}

}  // namespace

std::string_view name(EventType type) { return names.at(static_cast<std::size_t>(type)); }

std::optional<EventType> event_type(std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) return {};
  return static_cast<EventType>(found - names.begin());
}

std::optional<EventType> type_of(std::string_view event) {
  constexpr std::string_view before = R"("type":")";
  const std::size_t begin = event.find(before);  // only numbers stand before it
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = event.substr(begin + before.size());
  return event_type(rest.substr(0, rest.find('"')));
}

void write_event(Event& event, std::size_t bytes, const std::function<void(std::string&)>& write_data) {
  const Envelope& envelope = event.envelope;
  auto json = std::make_shared<std::string>();
  json->reserve(bytes + envelope.key.size() + 320);
  json::ObjectWriter out(*json);
  if (envelope.seq != 0) out.integer("seq", static_cast<std::int64_t>(envelope.seq));
  out.integer("time", envelope.time);
  out.raw("type", {});
  json->append("\"").append(name(envelope.type)).append("\"");
  const auto put = [&out, &envelope](std::span<const Text> members) {
    for (const auto& [name, field] : members)
      if (!(envelope.*field).empty()) out.string(name, envelope.*field);
  };
  put(std::span(texts).first<before_topic>());
  out.string_or_null("topic", envelope.topic);
  put(std::span(texts).subspan<before_topic>());
  const std::size_t begin = out.value("data").size();
  write_data(*json);
  const std::size_t end = json->size();
  out.close();
  event.data = std::string_view(*json).substr(begin, end - begin);
  event.json = std::move(json);
}

Event make_event(Envelope&& envelope, std::string_view data) {
  Event event{.envelope = std::move(envelope), .json = {}, .data = {}};
  write_event(event, data.size(), [data](std::string& out) { out += data; });
  return event;
}

Result<Event> parse_event(std::string text) {
  Event event{.envelope = {}, .json = std::make_shared<const std::string>(std::move(text)), .data = {}};
  Envelope& envelope = event.envelope;
  bool typed = false;
  for (const json::Member& member : json::members(*event.json)) {
    if (const auto known = std::ranges::find(texts, member.name, &Text::name); known != texts.end()) {
      envelope.*(known->field) = json::as_string(member.value).value_or("");
    } else if (member.name == "seq") {
      envelope.seq = static_cast<std::uint64_t>(json::as_int(member.value).value_or(0));
    } else if (member.name == "time") {
      envelope.time = json::as_int(member.value).value_or(0);
    } else if (member.name == "type") {
      const auto type = event_type(json::as_string(member.value).value_or(""));
      if (!type) return fail(Code::bad_request, "unknown event type " + std::string(member.value));
      envelope.type = *type;
      typed = true;
    } else if (member.name == "topic") {
      envelope.topic = json::as_string(member.value);
    } else if (member.name == "data") {
      event.data = member.value;
    }
  }
  if (envelope.type == EventType::message_appended) read_delivery(event);
  if (!typed || envelope.seq == 0) return fail(Code::bad_request, "not an event: " + event.json->substr(0, 120));
  return event;
}

}  // namespace sessiond::journal

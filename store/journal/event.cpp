#include "store/journal/event.hpp"

#include <algorithm>
#include <array>
#include <cassert>
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

std::string client_list(std::string_view owner, std::string_view client) {
  return std::string(owner).append("\n").append(client);
}

void write_event(Event& event, std::string_view data) {
  const Envelope& envelope = event.envelope;
  auto json = std::make_shared<std::string>();
  json->reserve(data.size() + envelope.key.size() + 320);
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
  out.raw("data", data);
  out.close();
  event.data = std::string_view(*json).substr(json->size() - 1 - data.size(), data.size());
  event.json = std::move(json);
}

Event make_event(Envelope&& envelope, std::string_view data) {
  Event event{.envelope = std::move(envelope), .json = {}, .data = {}};
  write_event(event, data);
  return event;
}

void add_to_data(Event& event, std::string_view name, std::string_view value) {
  assert(event.data.size() > 2);
  const auto before = static_cast<std::size_t>(event.data.data() - event.json->data());
  auto json = std::make_shared<std::string>();
  json->reserve(event.json->size() + name.size() + value.size() + 4);
  json->append(*event.json, 0, event.json->size() - 2);  // the ends of the data and of the event
  json->append(",\"").append(name).append("\":").append(value).append("}}");
  event.data = std::string_view(*json).substr(before, json->size() - 1 - before);
  event.json = std::move(json);
}

std::string_view delivery_of(const Event& event) {
  for (const json::Member& member : json::members(event.data)) {
    if (member.name == "delivery") return member.value;
    if (member.name == "message") break;
  }
  return "{}";
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
  if (envelope.type == EventType::message_appended || envelope.type == EventType::session_resumed) {
    for (const json::Member& member : json::members(event.data)) {  // `deliver` stands before these
      if (member.name == "client") envelope.client_list = client_list("", json::as_string(member.value).value_or(""));
      if (member.name == "ownClient") envelope.client_list.insert(0, envelope.actor);
      if (member.name == "deliver") envelope.delivers = member.value == "true";
      if (member.name == "saidByRun") envelope.said_by_run = member.value == "true";
      if (member.name == "delivery" || member.name == "message") break;
    }
    if (envelope.delivers) envelope.delivery_channel = json::string_at(delivery_of(event), "channel").value_or("");
  }
  if (!typed || envelope.seq == 0) return fail(Code::bad_request, "not an event: " + event.json->substr(0, 120));
  return event;
}

}  // namespace sessiond::journal

#include "daemon/decide/events.hpp"

#include <utility>

namespace sessiond::decide {
namespace {

using journal::EventType;

// What an earlier version told of dropped inputs.
void read_old_overflow(std::string_view data, std::vector<DroppedInput>& overflow) {
  const auto texts = json::find(data, "dropped");
  if (!texts) return;
  for (const std::string_view text : json::elements(*texts))
    overflow.push_back({.text = json::as_string(text).value_or("")});
  auto each = overflow.begin();
  for (const std::string_view id : json::elements(json::find(data, "droppedIds").value_or("[]")))
    if (each != overflow.end()) (each++)->entry_id = json::as_string(id).value_or("");
}

Payload read_run_told(std::string_view data) {
  auto told = json::from_json<RunTold>(data);
  if (told.overflow.empty()) read_old_overflow(data, told.overflow);
  return told;
}

Payload read_held(const journal::Event& event) {
  auto held = json::from_json<MessageHeld>(event.data);
  held.message.topic = event.envelope.topic;
  return held;
}

Payload read_update(std::string_view data) {
  const auto first = json::members(data).begin();
  if (first == std::default_sentinel || first->name != "shutdown") return {};
  return json::from_json<ShutdownTold>(first->value);
}

Payload read(const journal::Event& event) {
  switch (event.envelope.type) {
    case EventType::run_queued:
    case EventType::run_started:
    case EventType::run_aborting:
    case EventType::run_finished:
      return read_run_told(event.data);
    case EventType::run_progress:
      return json::from_json<RunProgress>(event.data);
    case EventType::step_started:
    case EventType::step_finished:
    case EventType::tool_started:
    case EventType::tool_finished:
      return json::from_json<RunnerTold>(event.data);
    case EventType::directive_injected:
      return json::from_json<DirectiveInjected>(event.data);
    case EventType::approval_requested:
    case EventType::approval_resolved:
      return json::from_json<Approval>(event.data);
    case EventType::session_takeover:
      return json::from_json<TakeoverTold>(event.data);
    case EventType::session_handback:
      return json::from_json<HandbackTold>(event.data);
    case EventType::message_held:
      return read_held(event);
    case EventType::hook_called:
    case EventType::hook_answered:
    case EventType::hook_expired:
      return json::from_json<HookTold>(event.data);
    case EventType::delivery_leased:
    case EventType::delivery_expired:
    case EventType::delivery_queued:
    case EventType::delivery_sent:
    case EventType::delivery_failed:
      return json::from_json<DeliveryTold>(event.data);
    case EventType::session_updated:
      return read_update(event.data);
    default:
      return {};
  }
}

struct Writer {
  json::ObjectWriter& out;
  void operator()(Raw) const {}
  void operator()(const ShutdownTold& told) const { json::FieldWriter(out).record("shutdown", told); }
  template <class Record>
  void operator()(const Record& record) const {
    json::write_fields(out, record);
  }
};

}  // namespace

std::string data_of(const Payload& payload, const json::Edit& edit) {
  json::ObjectWriter out;
  std::visit(Writer{out}, payload);
  if (!edit.empty()) json::append_edit(out, edit);
  return out.text();
}

const Payload& Change::said() const {
  static const Payload raw;
  return payload == nullptr ? raw : *payload;
}

Change decode(journal::Event event) {
  Payload said = read(event);
  const bool is_raw = std::holds_alternative<Raw>(said);
  return {std::move(event), is_raw ? nullptr : std::make_shared<const Payload>(std::move(said))};
}

bool reads_back(const Change& change) {
  const Change stored = decode(static_cast<const journal::Event&>(change));
  return stored.said() == change.said() &&
         (change.payload == nullptr || data_of(change.said(), json::read_edit(change.data)) == change.data);
}

}  // namespace sessiond::decide

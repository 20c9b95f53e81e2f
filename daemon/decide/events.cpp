#include "daemon/decide/events.hpp"

#include <algorithm>
#include <utility>

namespace sessiond::decide {
namespace {

using journal::EventType;

constexpr auto offer_status_names =
    std::to_array<std::string_view>({"event", "denied", "pending", "leased", "sent", "failed"});

// Reads dropped inputs from the event of an earlier version.
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

// Reads what a message sets: first its counters, and then the rest.
json::Edit read_edit_of_message(std::string_view data, Counted& counted) {
  json::Edit edit = json::read_edit(data);
  edit.set.erase(edit.set.begin(), edit.set.begin() + static_cast<std::ptrdiff_t>(counted.read(edit.set)));
  return edit;
}

Payload read_message(std::string_view data, std::optional<json::Edit>& edit) {
  auto said = json::from_json<MessageAppended>(data);
  edit = read_edit_of_message(data, said.counted);
  said.delivers = said.delivers && said.offer;
  return said;
}

// Sets `edit` where the record has a part of it.
Payload read(const journal::Event& event, std::optional<json::Edit>& edit) {
  switch (event.envelope.type) {
    case EventType::run_queued:
      if (json::find(event.data, "joined")) return json::from_json<RunInputs>(event.data);
      [[fallthrough]];
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
    case EventType::session_resumed:
      return json::from_json<SessionResumed>(event.data);
    case EventType::message_appended:
      return read_message(event.data, edit);
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

// A message says first what it sets, and what it unsets only where there is something.
void write_edit_of(const MessageAppended& said, json::ObjectWriter& out, const json::Edit& edit) {
  json::ObjectWriter set(out.value("set"));
  said.counted.write(set);
  for (const json::Edit::Set& member : edit.set) set.raw(member.name, member.value);
  set.close();
  if (!edit.unset.empty()) out.strings("unset", edit.unset);
}

void write_data(std::string& data, const Payload& payload, const json::Edit& edit) {
  json::ObjectWriter out(data);
  const auto* said = std::get_if<MessageAppended>(&payload);
  if (said != nullptr) write_edit_of(*said, out, edit);
  std::visit(Writer{out}, payload);
  if (said == nullptr && !edit.empty()) json::append_edit(out, edit);
  out.close();
}

}  // namespace

std::string_view name(DeliveryOffer::Status status) { return offer_status_names.at(static_cast<std::size_t>(status)); }

std::optional<DeliveryOffer::Status> value_named(std::string_view text, DeliveryOffer::Status /*kind*/) {
  const auto found = std::ranges::find(offer_status_names, text);
  if (found == offer_status_names.end()) return {};
  return static_cast<DeliveryOffer::Status>(found - offer_status_names.begin());
}

std::string data_of(const Payload& payload, const json::Edit& edit) {
  std::string data;
  write_data(data, payload, edit);
  return data;
}

void encode(Change& change) {
  if (change.json != nullptr) return;
  const auto* appended = change.as<MessageAppended>();
  const json::Edit& edit = *change.edit;
  journal::write_event(change, appended == nullptr ? 256 : appended->message.size() + 512,
                       [&](std::string& data) { write_data(data, change.said(), edit); });
}

const json::Edit& edit_of(const Change& change, json::Edit& held) {
  if (change.edit) return *change.edit;
  Counted counted;
  const bool is_message = change.as<MessageAppended>() != nullptr;
  held = is_message ? read_edit_of_message(change.data, counted) : json::read_edit(change.data);
  return held;
}

const Payload& Change::said() const {
  static const Payload raw;
  return payload == nullptr ? raw : *payload;
}

void forget_text(Payload& payload) {
  if (auto* said = std::get_if<MessageAppended>(&payload)) said->message = {};
}

Change decode(journal::Event event) {
  std::optional<json::Edit> edit;
  Payload said = read(event, edit);
  const bool is_raw = std::holds_alternative<Raw>(said);
  return {std::move(event), is_raw ? nullptr : std::make_shared<Payload>(std::move(said)), std::move(edit)};
}

bool reads_back(const Change& change) {
  const Change stored = decode(static_cast<const journal::Event&>(change));
  json::Edit held, stored_held;
  const json::Edit& edit = edit_of(stored, stored_held);
  return stored.said() == change.said() && edit == edit_of(change, held) &&
         (change.payload == nullptr || data_of(stored.said(), edit) == change.data);
}

}  // namespace sessiond::decide

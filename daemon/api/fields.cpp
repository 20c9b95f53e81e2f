#include "daemon/api/fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "policy/pointer.hpp"
#include "store/delivery/delivery.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/time_range.hpp"
#include "store/try.hpp"

namespace sessiond::api {

Result<Fields> Fields::of(std::string_view object, std::string pointer) {
  Fields fields;
  fields.text_ = object;
  fields.pointer_ = std::move(pointer);
  if (object.empty()) return fields;
  if (json::kind(object) != json::Kind::object) return fail_at(fields.pointer_, "must be an object");
  constexpr std::size_t usual = 12;
  fields.members_.reserve(usual);
  for (const json::Member& member : json::members(object)) TRY(fields.add(member));
  return fields;
}

Result<Fields> Fields::of(std::string_view object, std::span<const json::Member> members) {
  if (members.empty()) return of(object);
  Fields fields;
  fields.text_ = object;
  fields.members_.reserve(std::min(members.size(), limits::command_members));
  for (const json::Member& member : members) TRY(fields.add(member));
  return fields;
}

Result<void> Fields::add(const json::Member& member) {
  if (members_.size() == limits::command_members)
    return fail_at(pointer_, fmt::format("has more than {} members", limits::command_members));
  members_.push_back({json::unescape(member.name), member.value});
  return {};
}

std::optional<std::string_view> Fields::take(std::string_view name) {
  const auto value = raw(name);
  return value == "null" ? std::nullopt : value;
}

std::optional<std::string_view> Fields::raw(std::string_view name) {
  const auto found = std::ranges::find(members_, name, &Member::name);
  if (found == members_.end()) return {};
  found->asked = true;
  return found->value;
}

bool Fields::has(std::string_view name) const {
  const auto found = std::ranges::find(members_, name, &Member::name);
  return found != members_.end() && found->value != "null";
}

std::optional<std::string> Fields::string(std::string_view name, std::size_t max_bytes) {
  const auto value = take(name);
  if (!value) return {};
  constexpr std::size_t most_escaped = 6;  // bytes as which one byte may be written: \u0061
  const bool is_too_long =
      json::kind(*value) == json::Kind::string && value->size() / most_escaped > max_bytes;  // without reading it
  auto text = is_too_long ? std::nullopt : json::as_string(*value);
  if (is_too_long) {
    fault(name, fmt::format("longer than {} bytes", max_bytes));
  } else if (!text) {
    fault(name, "must be a string");
  } else if (text->size() > max_bytes) {
    fault(name, fmt::format("longer than {} bytes", max_bytes));
    return {};
  }
  return text;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least) {
  const auto value = take(name);
  if (!value) return {};
  const auto number = json::as_int(*value);
  if (!number) {
    fault(name, "must be an integer");
  } else if (*number < least) {
    fault(name, fmt::format("must be at least {}", least));
    return {};
  }
  return number;
}

std::optional<std::int64_t> Fields::time(std::string_view name) {
  const auto ms = integer(name);
  if (!ms || *ms <= store::last_time_ms) return ms;
  fault(name, "is after the year 9999");
  return {};
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const auto value = take(name);
  if (!value) return {};
  const auto truth = json::as_bool(*value);
  if (!truth) fault(name, "must be true or false");
  return truth;
}

std::optional<std::string_view> Fields::object(std::string_view name) {
  return take(name, json::Kind::object, "must be an object");
}

std::optional<std::string_view> Fields::array(std::string_view name) {
  return take(name, json::Kind::array, "must be an array");
}

std::optional<std::string_view> Fields::take(std::string_view name, json::Kind kind, const char* otherwise) {
  const auto value = take(name);
  if (!value || json::kind(*value) == kind) return value;
  fault(name, otherwise);
  return {};
}

std::vector<std::string> Fields::strings(std::string_view name, std::size_t most) {
  std::vector<std::string> out;
  const auto list = array(name);
  if (!list) return out;
  for (const auto element : json::elements(*list)) {
    auto text = json::as_string(element);
    if (!text) {
      ++fault_count_;
      const std::string list_pointer = policy::pointer_to(pointer_, name);
      faults_.push_back({policy::pointer_to(list_pointer, std::to_string(out.size())), "must be a string"});
      return out;
    }
    out.push_back(std::move(*text));
    if (out.size() > most) {
      fault(name, fmt::format("more than {} elements", most));
      return out;
    }
  }
  return out;
}

std::optional<std::string> Fields::one_of(std::string_view name, std::initializer_list<std::string_view> texts) {
  auto text = string(name);
  if (!text || std::ranges::find(texts, *text) != texts.end()) return text;
  fault(name, fmt::format("must be one of {}", fmt::join(texts, ", ")));
  return {};
}

void Fields::fault(std::string_view name, std::string detail) {
  if (++fault_count_ > limits::faults) return;
  faults_.push_back({policy::pointer_to(pointer_, name), std::move(detail)});
}

Result<void> Fields::done() {
  for (const Member& member : members_) {
    if (!member.asked) fault(member.name, "is not a known field");
  }
  if (faults_.empty()) return {};
  return fail_with(std::move(faults_), fault_count_);
}

void read_thread(Fields& fields, std::string& into) {
  const auto thread = fields.raw("threadId");
  if (!thread || *thread == "null") return;
  if (auto why = delivery::thread_id_fault(*thread)) return fields.fault("threadId", std::move(*why));
  if (json::kind(*thread) == json::Kind::number && thread->find_first_not_of("-0123456789") != std::string_view::npos)
    return fields.fault("threadId", "is not an integer in digits; send it as a string");
  const auto text = json::as_string(*thread);
  if (!text)
    into = *thread;
  else if (!store::trim(*text).empty())
    into = json::quote(store::trim(*text));
}

json::Edit edit_of(std::string_view object) {
  json::Edit edit;
  for (const json::Member& member : json::members(object)) {
    std::string name = json::unescape(member.name);
    if (member.value == "null") {
      edit.unset.push_back(std::move(name));
    } else {
      edit.set.push_back({std::move(name), json::compact(member.value)});
    }
  }
  return edit;
}

Result<void> read_replacing_entry(transcripts::NewEntry& entry, std::string_view value, const std::string& pointer) {
  TRY(transcripts::parse_entry_into(entry, value, pointer));
  if (transcripts::is_of_daemon(entry))
    return fail_at(pointer + "/customType", "begins with sessiond.: only the daemon makes such entries");
  return {};
}

Result<void> read_client_entry(transcripts::NewEntry& entry, std::string_view value, const std::string& pointer) {
  TRY(read_replacing_entry(entry, value, pointer));
  if (entry.names_dropped)
    return fail_at(pointer + "/dropped", "names what a full queue has dropped: only the daemon says so");
  return {};
}

}  // namespace sessiond::api

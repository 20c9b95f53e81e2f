#include "store/delivery/forms.hpp"

#include <algorithm>
#include <utility>

#include "store/names.hpp"

namespace sessiond::delivery {
namespace {

bool is_string(std::optional<std::string_view> raw) { return raw && json::kind(*raw) == json::Kind::string; }

// Tells whether the text between the quotes of a value is normal as it is. False if it has escapes: they must be looked
// at with escapes resolved.
bool is_normal(std::size_t field, std::string_view inner) {
  if (inner.empty() || inner.contains('\\') || store::trim(inner).size() != inner.size()) return false;
  return field != channel || std::ranges::none_of(inner, [](char c) { return c >= 'A' && c <= 'Z'; });
}

// Tells whether normalized() would return the value as it is. May be false for one that it would, too.
bool is_normal_value(std::size_t field, std::string_view raw) {
  if (json::kind(raw) != json::Kind::string) return field == thread_id && json::kind(raw) == json::Kind::number;
  return is_normal(field, raw.substr(1, raw.size() - 2));
}

// Tells whether a value is of a type that the field never has.
bool is_odd(std::size_t field, std::optional<std::string_view> raw) {
  if (!raw || is_string(raw) || json::kind(*raw) == json::Kind::null) return false;
  return field != thread_id || json::kind(*raw) != json::Kind::number;
}

bool same_text(std::string_view a, std::string_view b) { return a == b || json::as_string(a) == json::as_string(b); }

RawDelivery last_of(const Stored& stored) {
  RawDelivery out;
  for (std::size_t f = 0; f < field_count; ++f) out[f] = normalized(f, stored.last[f]);
  if (moves(stored.last[channel], stored.last_provider)) out[channel] = normalized(channel, stored.last_provider);
  return out;
}

RawDelivery context_of(std::optional<std::string_view> context) {
  RawDelivery out;
  if (!context || json::kind(*context) != json::Kind::object) return out;
  const json::Index members(*context);
  for (std::size_t f = 0; f < field_count; ++f) out[f] = normalized(f, members.find(context_names[f]));
  return out;
}

// Returns `base`, if it is an object, with our four members as wanted; "" if it would be empty.
std::string context_with(std::optional<std::string_view> base, const RawDelivery& wanted, Odd odd) {
  const std::string_view object = base && json::kind(*base) == json::Kind::object ? *base : "{}";
  const json::Index members(object);
  json::Edit edit;
  for (std::size_t f = 0; f < field_count; ++f) {
    const auto present = members.find(context_names[f]);
    if (odd == Odd::removed || !wanted[f].empty() || !is_odd(f, present))
      settle(edit, context_names[f], present, wanted[f]);
  }
  if (edit.empty()) return members.size() == 0 ? std::string{} : std::string(object);
  std::string out = json::apply(object, edit);
  return out == "{}" ? std::string{} : out;
}

}  // namespace

std::string normalized(std::size_t field, std::optional<std::string_view> raw) {
  if (!raw) return {};
  if (is_normal_value(field, *raw)) return std::string(*raw);
  if (!is_string(raw)) return {};
  const std::string text = json::as_string(*raw).value_or("");
  const std::string_view trimmed = store::trim(text);
  const std::string wanted = field == channel ? store::lower(trimmed) : std::string(trimmed);
  if (wanted.empty()) return {};
  return wanted == text ? std::string(*raw) : json::quote(wanted);
}

bool is_settled(const Stored& stored) {
  if (stored.provider || stored.last_provider || stored.room) return false;
  const json::Index context(stored.context.value_or("{}"));
  if (stored.context && context.size() == 0) return false;
  for (std::size_t f = 0; f < field_count; ++f) {
    if (stored.last[f] != context.find(context_names[f])) return false;
    if (stored.last[f] && (!stored.last[channel] || !is_normal_value(f, *stored.last[f]))) return false;
  }
  return true;
}

Stored read_stored(const json::Index& entry) {
  Stored stored{.context = entry.find("deliveryContext"),
                .channel = entry.find("channel"),
                .provider = entry.find("provider"),
                .last_provider = entry.find("lastProvider"),
                .group_channel = entry.find("groupChannel"),
                .room = entry.find("room")};
  for (std::size_t f = 0; f < field_count; ++f) stored.last[f] = entry.find(last_names[f]);
  return stored;
}

bool moves(std::optional<std::string_view> now, std::optional<std::string_view> legacy) {
  return !is_string(now) && is_string(legacy);
}

bool other_channel(const RawDelivery& a, const RawDelivery& b) {
  return !a[channel].empty() && !b[channel].empty() && !same_text(a[channel], b[channel]);
}

RawDelivery merged(RawDelivery strong, const RawDelivery& weak) {
  if (other_channel(strong, weak)) return strong;
  for (std::size_t f = 0; f < field_count; ++f) {
    if (strong[f].empty()) strong[f] = weak[f];
  }
  return strong;
}

RawDelivery delivery_of(const Stored& stored, bool settled) {
  if (settled) return last_of(stored);
  RawDelivery out = merged(last_of(stored), context_of(stored.context));
  const bool somewhere = !out[to].empty() || !out[account_id].empty() || !out[thread_id].empty();
  if (out[channel].empty() && somewhere) {
    out[channel] = normalized(channel, moves(stored.channel, stored.provider) ? stored.provider : stored.channel);
  }
  return out;
}

void settle(json::Edit& edit, std::string_view name, std::optional<std::string_view> present,
            const std::string& value) {
  if (value.empty()) {
    if (present) edit.remove(std::string(name));
  } else if (present != std::string_view(value)) {
    edit.put(std::string(name), value);
  }
}

void write_forms(json::Edit& edit, const Stored& stored, std::optional<std::string_view> context,
                 const RawDelivery& wanted, Odd odd) {
  for (std::size_t f = 0; f < field_count; ++f) {
    if (odd == Odd::removed || !wanted[f].empty() || !is_odd(f, stored.last[f]))
      settle(edit, last_names[f], stored.last[f], wanted[f]);
  }
  const std::string made = context_with(context, wanted, odd);
  const bool no_object =
      stored.context && json::kind(*stored.context) != json::Kind::object && *stored.context != "null";
  if (odd == Odd::removed || !made.empty() || !no_object) settle(edit, "deliveryContext", stored.context, made);
  if (moves(stored.last[channel], stored.last_provider)) edit.remove("lastProvider");
}

}  // namespace sessiond::delivery

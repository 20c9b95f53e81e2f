// Checks a client's edit of the delivery fields and completes it so that both forms are written.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "store/delivery/delivery.hpp"
#include "store/delivery/forms.hpp"

namespace sessiond::delivery {
namespace {

// An edit of one member.
struct Named {
  bool named = false;
  std::optional<std::string> value{};  // nothing: it is removed
};

// Takes a member out of the edit. null means that it is removed.
Named take(json::Edit& edit, std::string_view name) {
  Named out;
  if (std::erase(edit.unset, name) > 0) out.named = true;
  const auto found = std::ranges::find(edit.set, name, &json::Edit::Set::name);
  if (found != edit.set.end()) {
    out.named = true;
    if (json::kind(found->value) != json::Kind::null) out.value = std::move(found->value);
    edit.set.erase(found);
  }
  return out;
}

void check_value(std::size_t field, std::string_view raw, std::string pointer, std::vector<Fault>& faults) {
  const json::Kind kind = json::kind(raw);
  if (kind == json::Kind::string || kind == json::Kind::null) return;
  if (field != thread_id)
    faults.push_back({std::move(pointer), "must be a string or null"});
  else if (auto why = thread_id_fault(raw))
    faults.push_back({std::move(pointer), std::move(*why)});
}

std::vector<Fault> check_named(const json::Edit& edit, std::string_view prefix) {
  std::vector<Fault> faults;
  for (const auto& [name, value] : edit.set) {
    const auto last = std::ranges::find(last_names, name);
    if (last != last_names.end()) {
      check_value(static_cast<std::size_t>(last - last_names.begin()), value, fmt::format("{}/{}", prefix, name),
                  faults);
    } else if (name == "channel" || name == "groupChannel") {
      check_value(channel, value, fmt::format("{}/{}", prefix, name), faults);
    } else if (name == "deliveryContext" && json::kind(value) == json::Kind::object) {
      for (std::size_t f = 0; f < field_count; ++f) {
        const auto member = json::find(value, context_names[f]);
        if (member) check_value(f, *member, fmt::format("{}/{}/{}", prefix, name, context_names[f]), faults);
      }
    } else if (name == "deliveryContext" && json::kind(value) != json::Kind::null) {
      faults.push_back({fmt::format("{}/{}", prefix, name), "must be an object or null"});
    }
  }
  return faults;
}

// The members that the client names, in both forms.
struct Write {
  std::array<Named, field_count> last{};
  std::array<Named, field_count> context{};
  Named context_object{};
};

Write take_write(json::Edit& edit, Nested nested) {
  Write write;
  for (std::size_t f = 0; f < field_count; ++f) write.last[f] = take(edit, last_names[f]);
  write.context_object = take(edit, "deliveryContext");
  if (!write.context_object.named) return write;
  const auto& object = write.context_object.value;
  for (std::size_t f = 0; f < field_count; ++f) {
    const auto member = object ? json::find(*object, context_names[f]) : std::nullopt;
    write.context[f].named = member || !object || nested == Nested::complete;
    if (member && json::kind(*member) != json::Kind::null) write.context[f].value = std::string(*member);
  }
  return write;
}

// Returns the delivery after the write. `now` is the delivery before it.
RawDelivery decide(const Write& write, const RawDelivery& now) {
  RawDelivery last;
  RawDelivery context;
  const auto raw = [](const Named& named) {
    return named.value ? std::optional<std::string_view>(*named.value) : std::nullopt;
  };
  for (std::size_t f = 0; f < field_count; ++f) {
    last[f] = normalized(f, raw(write.last[f]));
    context[f] = normalized(f, raw(write.context[f]));
  }
  RawDelivery out = merged(last, context);
  const bool foreign = other_channel(last, context);
  const bool moved = other_channel(out, now);
  for (std::size_t f = 0; f < field_count; ++f) {
    const bool named = write.last[f].named || (write.context[f].named && !foreign);
    if (!named && !moved) out[f] = now[f];
  }
  return out;
}

// Normalises `channel` if it is named, and removes the legacy names of `channel` and `groupChannel` if those are named.
void settle_entry_names(json::Edit& edit, const Stored& stored) {
  const Named named = take(edit, "channel");
  if (named.named) {
    settle(edit, "channel", stored.channel, normalized(channel, named.value));
    if (moves(stored.channel, stored.provider)) edit.remove("provider");
  }
  const bool group = std::ranges::find(edit.unset, "groupChannel") != edit.unset.end() ||
                     std::ranges::find(edit.set, "groupChannel", &json::Edit::Set::name) != edit.set.end();
  if (group && stored.room) edit.remove("room");
}

// Tells whether an edit names a member that normalize_patch looks at.
bool names_delivery(const json::Edit& edit) {
  const auto ours = [](std::string_view name) {
    return name == "channel" || name == "groupChannel" || name == "deliveryContext" ||
           std::ranges::find(last_names, name) != last_names.end();
  };
  return std::ranges::any_of(edit.set, ours, &json::Edit::Set::name) || std::ranges::any_of(edit.unset, ours);
}

}  // namespace

std::optional<std::string> thread_id_fault(std::string_view raw) {
  constexpr double most = 1LL << 53;  // greater integers may be rounded to it
  const json::Kind kind = json::kind(raw);
  if (kind == json::Kind::string) return {};
  if (kind != json::Kind::number) return "must be a string or a number";
  const double number = json::as_double(raw).value_or(most + 1);
  const bool is_kept = std::abs(number) < most || raw == "9007199254740992" || raw == "-9007199254740992";
  if (is_kept && !(number == 0 && raw.starts_with('-'))) return {};
  return "is -0, or not from -2^53 to 2^53; send it as a string";
}

Result<void> normalize_patch(json::Edit& edit, const json::Index& entry, std::string_view pointer_prefix,
                             Nested nested) {
  if (!names_delivery(edit)) return {};
  if (std::vector<Fault> faults = check_named(edit, pointer_prefix); !faults.empty()) {
    std::string detail = fmt::format("{}: {}", faults.front().pointer, faults.front().detail);
    return std::unexpected(
        Problem{.code = Code::validation_failed, .detail = std::move(detail), .errors = std::move(faults)});
  }
  const Stored stored = read_stored(entry);
  settle_entry_names(edit, stored);
  const Write write = take_write(edit, nested);
  const bool delivery_named =
      write.context_object.named || std::ranges::any_of(write.last, [](const Named& one) { return one.named; });
  if (!delivery_named) return {};
  std::string base;
  std::optional<std::string_view> context = stored.context;
  if (write.context_object.named) {
    const bool over = nested == Nested::patch && context && json::kind(*context) == json::Kind::object;
    if (write.context_object.value) base = json::merged(over ? *context : "{}", *write.context_object.value);
    context = base.empty() ? std::nullopt : std::optional<std::string_view>(base);
  }
  write_forms(edit, stored, context, decide(write, delivery_of(stored)));
  return {};
}

}  // namespace sessiond::delivery

#include "policy/entry_size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "policy/entry_rules.hpp"
#include "policy/pointer.hpp"
#include "store/limits.hpp"
#include "store/try.hpp"

namespace sessiond::policy {
namespace {

// `counts(name)`: whether a field counts.
template <class Counts>
EntrySize size_of(std::string_view entry, Counts counts) {
  EntrySize size;
  std::size_t most_members = 0;
  std::size_t most_bytes = 0;
  for (const json::Member& member : json::members(entry)) {
    const std::string name = json::unescape(member.name);
    if (!counts(name)) continue;
    const std::size_t members = 1 + json::count_members(member.value);
    const std::size_t bytes = member.name.size() + member.value.size() + std::string_view(R"("":,)").size();
    ++size.fields;
    size.members += members;
    size.bytes += bytes;
    if (members > most_members) {
      most_members = members;
      size.fullest = name;
    }
    if (bytes > most_bytes) {
      most_bytes = bytes;
      size.longest = name;
    }
  }
  return size;
}

// The size of an entry, without the fields that the daemon keeps.
EntrySize size_of(std::string_view entry) {
  return size_of(entry, [](std::string_view name) { return !read_only(name); });
}

std::unexpected<Problem> too_many_members(const EntrySize& size, std::string_view pointer_prefix) {
  return fail_at(pointer_to(pointer_prefix, size.fullest),
                 fmt::format("makes an entry of {} members, nested ones included; it may have {}", size.members,
                             limits::entry_all_members));
}
std::unexpected<Problem> too_many_bytes(const EntrySize& size, std::string_view pointer_prefix) {
  return fail_at(pointer_to(pointer_prefix, size.longest),
                 fmt::format("makes an entry of {} bytes; it may have {}", size.bytes, limits::entry_bytes));
}

// The shortest member, `"":0,`, has five bytes, so a shorter text cannot exceed a limit.
constexpr std::size_t surely_small = 5 * limits::entry_members;

}  // namespace

Result<void> check_entry_size(std::string_view before, std::string_view after, std::string_view pointer_prefix) {
  if (after.size() <= surely_small) return {};
  const EntrySize now = size_of(after);
  const bool fits = now.fields <= limits::entry_members && now.members <= limits::entry_all_members &&
                    now.bytes <= limits::entry_bytes;
  if (fits) return {};
  const EntrySize then = size_of(before);
  if (now.fields > std::max(limits::entry_members, then.fields)) {
    return fail_at(std::string(pointer_prefix),
                   fmt::format("makes an entry of {} fields; it may have {}", now.fields, limits::entry_members));
  }
  if (now.members > std::max(limits::entry_all_members, then.members)) return too_many_members(now, pointer_prefix);
  if (now.bytes > std::max(limits::entry_bytes, then.bytes)) return too_many_bytes(now, pointer_prefix);
  return {};
}

EntrySize size_of_named(std::string_view object) {
  return size_of(object, [](std::string_view) { return true; });
}

Result<void> check_named_size(const EntrySize& named, std::string_view before, std::string_view pointer_prefix) {
  TRY(check_edit_size(named.fields, before, pointer_prefix));
  // A patch may take as much away as there is, and name fields that do not count.
  constexpr std::size_t uncounted_members = 1'000;
  if (named.members > limits::entry_all_members + uncounted_members &&
      named.members > limits::entry_all_members + uncounted_members + json::count_members(before))
    return too_many_members(named, pointer_prefix);
  if (named.bytes > limits::entry_bytes + limits::previous_bytes + before.size())
    return too_many_bytes(named, pointer_prefix);
  return {};
}

Result<void> check_edit_size(std::size_t named, std::string_view before, std::string_view pointer_prefix) {
  if (named <= limits::entry_members) return {};
  if (named <= static_cast<std::size_t>(std::ranges::distance(json::members(before).begin(), std::default_sentinel)))
    return {};
  return fail_at(std::string(pointer_prefix),
                 fmt::format("names {} fields; an entry may have {}", named, limits::entry_members));
}

Result<void> check_previous_sessions(const json::Edit& edit, std::string_view pointer_prefix) {
  const auto found = std::ranges::find(edit.set, "previousSessions", &json::Edit::Set::name);
  if (found == edit.set.end() || found->value == "null") return {};
  const std::string pointer = pointer_to(pointer_prefix, found->name);
  if (json::kind(found->value) != json::Kind::array) return fail_at(pointer, "must be an array");
  const auto count = std::ranges::distance(json::elements(found->value).begin(), std::default_sentinel);
  if (static_cast<std::size_t>(count) > limits::previous_sessions || found->value.size() > limits::previous_bytes) {
    return fail_at(pointer, fmt::format("has {} elements and {} bytes; at most {} and {} are kept", count,
                                        found->value.size(), limits::previous_sessions, limits::previous_bytes));
  }
  std::size_t at = 0;
  for (const std::string_view element : json::elements(found->value)) {
    if (json::kind(element) != json::Kind::object)
      return fail_at(fmt::format("{}/{}", pointer, at), "must be an object");
    ++at;
  }
  return {};
}

}  // namespace sessiond::policy

// Finds what a foreign program changed in a store, and merges it into our entries.
#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <unordered_map>

#include "store/sessions/sessions_file.hpp"

namespace sessiond::sessions {
namespace {

// The members of an entry by name. Of duplicates the last one counts. A sorted vector: entries have only tens of
// members.
class OrderedMembers {
 public:
  explicit OrderedMembers(std::string_view object) {
    for (const json::Member& member : json::members(object)) {
      names_.push_back({json::unescape(member.name), member.value, names_.size()});
    }
    std::ranges::sort(names_,
                      [](const One& a, const One& b) { return std::tie(a.name, a.place) < std::tie(b.name, b.place); });
    std::vector<One> last;
    for (One& one : names_) {
      if (!last.empty() && last.back().name == one.name) {
        last.back().value = one.value;
      } else {
        last.push_back(std::move(one));
      }
    }
    names_ = std::move(last);
  }

  // Returns "" if there is none: no JSON value is empty.
  std::string_view value(std::string_view name) const {
    const auto found =
        std::ranges::lower_bound(names_, name, {}, [](const One& one) { return std::string_view(one.name); });
    return found != names_.end() && found->name == name ? found->value : std::string_view{};
  }

  // Returns the names in their order in the entry.
  std::vector<std::string_view> in_order() const {
    std::vector<const One*> order;
    order.reserve(names_.size());
    for (const One& one : names_) order.push_back(&one);
    std::ranges::sort(order, {}, &One::place);
    std::vector<std::string_view> names;
    names.reserve(order.size());
    for (const One* one : order) names.push_back(one->name);
    return names;
  }

 private:
  struct One {
    std::string name;
    std::string_view value;
    std::size_t place;
  };
  std::vector<One> names_;
};

// Compares members; layout and spelling do not count. "": there is no such member.
bool same(std::string_view a, std::string_view b) { return a.empty() == b.empty() && json::same(a, b); }

constexpr std::string_view rev = "rev";

json::Edit difference(std::string_view from, std::string_view to) {
  const OrderedMembers before(from);
  const OrderedMembers after(to);
  json::Edit edit;
  for (const std::string_view name : after.in_order()) {
    if (name == rev || same(before.value(name), after.value(name))) continue;
    edit.set.push_back({std::string(name), std::string(after.value(name))});
  }
  for (const std::string_view name : before.in_order()) {
    if (name != rev && after.value(name).empty()) edit.unset.emplace_back(name);
  }
  return edit;
}

// Fields that belong together: a mix of both sides' would be wrong for both.
constexpr auto session_group = std::to_array<std::string_view>(
    {"sessionId", "sessionFile", "sdkSessionId", "cliSessionIds", "claudeCliSessionId", "inputTokens", "outputTokens",
     "totalTokens", "contextTokens", "totalTokensFresh", "cacheRead", "cacheWrite", "compactionCount", "memoryFlushAt",
     "sessionStartedAt", "memoryFlushCompactionCount", "memoryFlushContextHash"});
constexpr auto delivery_group =
    std::to_array<std::string_view>({"channel", "provider", "lastChannel", "lastProvider", "lastTo", "lastAccountId",
                                     "lastThreadId", "deliveryContext"});

struct ThreeWays {
  OrderedMembers base;
  OrderedMembers ours;
  OrderedMembers theirs;
  bool theirs_is_later;

  // Takes all of these fields from `theirs`, or keeps all of ours.
  void merge(std::span<const std::string_view> names, json::Edit& edit) const {
    const auto changed = [&](const OrderedMembers& side) {
      return std::ranges::any_of(names,
                                 [&](std::string_view name) { return !same(base.value(name), side.value(name)); });
    };
    if (!changed(theirs) || (changed(ours) && !theirs_is_later)) return;
    for (const std::string_view name : names) {
      const std::string_view value = theirs.value(name);
      if (same(value, ours.value(name))) continue;
      if (value.empty()) {
        edit.unset.emplace_back(name);
      } else {
        edit.set.push_back({std::string(name), std::string(value)});
      }
    }
  }
};

bool is_object(const RawEntry& entry) { return entry && json::kind(*entry) == json::Kind::object; }

void compare(const NamedEntry& base, const NamedEntry& theirs, ForeignChange& change) {
  if (base.entry == theirs.entry || *base.entry == *theirs.entry) return;
  if (!is_object(theirs.entry)) {
    if (is_object(base.entry)) change.deleted.push_back(base.key);
    return;
  }
  if (!is_object(base.entry)) {
    change.created.push_back(theirs);
    return;
  }
  json::Edit edit = difference(*base.entry, *theirs.entry);
  if (edit.empty()) return;
  change.updated.push_back({.key = base.key,
                            .edit = std::move(edit),
                            .base = base.entry,
                            .theirs = theirs.entry,
                            .updated_at = json::int_at(*theirs.entry, "updatedAt").value_or(0)});
}

}  // namespace

ForeignChange diff_stores(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& theirs) {
  ForeignChange change;
  // Entries with the same position in both need no index; usually that is all of them.
  std::size_t front = 0;
  while (front < base.size() && front < theirs.size() && base[front].key == theirs[front].key) {
    compare(base[front], theirs[front], change);
    ++front;
  }
  std::unordered_map<std::string_view, const NamedEntry*> rest;
  for (std::size_t place = front; place < base.size(); ++place) rest.emplace(base[place].key, &base[place]);
  for (std::size_t place = front; place < theirs.size(); ++place) {
    const auto found = rest.find(theirs[place].key);
    if (found == rest.end()) {
      if (is_object(theirs[place].entry)) change.created.push_back(theirs[place]);
    } else {
      compare(*found->second, theirs[place], change);
      rest.erase(found);
    }
  }
  for (std::size_t place = front; place < base.size() && !rest.empty(); ++place) {
    if (rest.contains(base[place].key) && is_object(base[place].entry)) change.deleted.push_back(base[place].key);
  }
  return change;
}

json::Edit merge_entry(std::string_view base, std::string_view ours, std::string_view theirs) {
  const auto time = [](std::string_view entry) { return json::int_at(entry, "updatedAt").value_or(0); };
  const ThreeWays ways{.base = OrderedMembers(base),
                       .ours = OrderedMembers(ours),
                       .theirs = OrderedMembers(theirs),
                       .theirs_is_later = time(theirs) > time(ours)};
  json::Edit edit;
  ways.merge(session_group, edit);
  ways.merge(delivery_group, edit);
  const auto grouped = [](std::string_view name) {
    return name == rev || std::ranges::find(session_group, name) != session_group.end() ||
           std::ranges::find(delivery_group, name) != delivery_group.end();
  };
  const auto alone = [&](std::string_view name) {
    if (!grouped(name)) ways.merge(std::span(&name, 1), edit);
  };
  for (const std::string_view name : ways.theirs.in_order()) alone(name);
  for (const std::string_view name : ways.base.in_order()) {
    if (ways.theirs.value(name).empty()) alone(name);
  }
  return edit;
}

}  // namespace sessiond::sessions

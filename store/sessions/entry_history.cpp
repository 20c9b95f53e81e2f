#include "store/sessions/entry_history.hpp"

#include <algorithm>
#include <ranges>

#include "store/json/raw_json.hpp"
#include "store/sessions/disk.hpp"

namespace sessiond::sessions {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_bytes = 16U << 20;
constexpr std::size_t version_cost = 128;  // approximate bytes of one version beside its text

bool same(const RawEntry& a, const RawEntry& b) { return a == b || (a && b && json::same(*a, *b)); }

// Compares members. "": there is no such member.
bool same_member(std::string_view a, std::string_view b) { return a.empty() == b.empty() && json::same(a, b); }

using Members = std::unordered_map<std::string_view, std::string_view>;

Members members_of(const RawEntry& entry) {
  Members all;
  for (const json::Member& member : json::members(*entry)) all[member.name] = member.value;
  return all;
}

std::string_view value_of(const Members& members, std::string_view name) {
  const auto found = members.find(name);
  return found == members.end() ? std::string_view{} : found->second;
}

// Returns in how many members two entries differ.
std::size_t distance(const Members& from, const Members& to) {
  std::size_t different = 0;
  for (const auto& [name, value] : to) different += !same_member(value_of(from, name), value);
  for (const auto& [name, value] : from) different += !to.contains(name);
  return different;
}

// Tells whether `theirs` was made from the older version rather than from `base`: among the members in which these two
// differ, it has at least one as in the older version and none as in `base`. A program that follows the lock's protocol
// reads the base first and keeps what it does not change.
bool made_from(const Members& older, const Members& base, const Members& theirs) {
  bool as_it_was = false;
  const auto fits = [&](std::string_view name) {
    const std::string_view was = value_of(older, name);
    const std::string_view is = value_of(base, name);
    if (same_member(was, is)) return true;
    const std::string_view now = value_of(theirs, name);
    as_it_was = as_it_was || (!was.empty() && same_member(now, was));
    return !same_member(now, is);
  };
  return std::ranges::all_of(older | std::views::keys, fits) && std::ranges::all_of(base | std::views::keys, fits) &&
         as_it_was;
}

}  // namespace

void EntryHistory::begin_generation() {
  ++generation_;
  if (Clock::now() - distrusted_at_ > longest) distrusted_from_ = UINT64_MAX;
}

void EntryHistory::forget_oldest() {
  const auto now = Clock::now();
  while (!order_.empty() && (bytes_ > most_bytes || now - order_.front().time > longest)) {
    const auto found = versions_.find(order_.front().key);
    found->second.pop_front();
    if (found->second.empty()) versions_.erase(found);
    bytes_ -= order_.front().bytes;
    order_.pop_front();
  }
}

void EntryHistory::distrust() {
  distrusted_from_ = std::min(distrusted_from_, generation_ + 1);
  distrusted_at_ = Clock::now();
}

void EntryHistory::remember(const std::string& key, RawEntry entry, bool by_us) {
  const std::size_t bytes = (entry ? entry->size() : 0) + version_cost;
  versions_[key].push_back({generation_, std::move(entry), by_us});
  order_.push_back({key, bytes, Clock::now()});
  bytes_ += bytes;
}

void EntryHistory::changed(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& changes) {
  begin_generation();
  EntryIndex open = index_by_key(changes);
  for (const NamedEntry& entry : base) {
    const auto change = open.find(entry.key);
    if (change == open.end()) continue;
    if (!same(entry.entry, change->second->entry)) remember(entry.key, entry.entry, true);
    open.erase(change);
  }
  for (const auto& [key, change] : open) {
    if (change->entry) remember(change->key, nullptr, true);
  }
  forget_oldest();
}

void EntryHistory::replaced(const std::vector<NamedEntry>& before, const std::vector<NamedEntry>& after) {
  begin_generation();
  EntryIndex now = index_by_key(after);
  for (const NamedEntry& entry : before) {
    const auto found = now.find(entry.key);
    if (found == now.end() || !same(found->second->entry, entry.entry)) remember(entry.key, entry.entry, false);
    if (found != now.end()) now.erase(found);
  }
  for (const auto& [key, entry] : now) remember(entry->key, nullptr, false);
  forget_oldest();
}

// Returns the older version from which `theirs` was made, of several the nearest; null: it was made from `base`.
// Foreign programs keep `rev`, which tells versions apart that differ in nothing else.
const EntryHistory::Version* EntryHistory::origin(std::string_view key, const RawEntry& base,
                                                  const RawEntry& theirs) const {
  const auto known = versions_.find(std::string(key));
  if (known == versions_.end()) return nullptr;
  const Members now = members_of(theirs);
  const Members current = base ? members_of(base) : Members{};
  if (!base && !known->second.back().by_us) return nullptr;  // a foreign program deleted it, so this is a new entry
  const Version* nearest = nullptr;
  std::size_t least = SIZE_MAX;
  bool ours_since = false;  // versions that only foreign programs replaced do not concern us
  for (const Version& version : known->second | std::views::reverse) {
    ours_since = ours_since || version.by_us;
    if (!ours_since || !version.entry || json::kind(*version.entry) != json::Kind::object) continue;
    const Members older = members_of(version.entry);
    if (base && !made_from(older, current, now)) continue;
    const std::size_t far = distance(older, now);
    if (far >= least) continue;
    least = far;
    nearest = &version;
  }
  return nearest;
}

bool EntryHistory::was_absent_since(std::string_view key, std::uint64_t generation) const {
  const auto known = versions_.find(std::string(key));
  return known != versions_.end() && std::ranges::any_of(known->second, [&](const Version& version) {
           return !version.entry && version.until >= generation;
         });
}

ForeignChange EntryHistory::diff(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& theirs) const {
  if (versions_.empty()) return diff_stores(base, theirs);
  const EntryIndex now = index_by_key(base);
  std::vector<NamedEntry> started = base;  // the version that they had read
  std::unordered_map<std::string_view, NamedEntry*> place;
  for (NamedEntry& entry : started) place.emplace(entry.key, &entry);
  std::vector<std::string> overwritten;
  std::vector<NamedEntry> again;
  std::uint64_t read_before = distrusted_from_;  // the first generation that they had not read
  for (const NamedEntry& entry : theirs) {
    if (json::kind(*entry.entry) != json::Kind::object) continue;
    const auto found = now.find(entry.key);
    const RawEntry ours = found == now.end() ? nullptr : found->second->entry;
    if (same(ours, entry.entry) || (ours && json::kind(*ours) != json::Kind::object)) continue;
    const Version* from = origin(entry.key, ours, entry.entry);
    if (from == nullptr) continue;
    // We deleted it. An entry with another session id is a new session.
    if (!ours && json::string_at(*from->entry, "sessionId") != json::string_at(*entry.entry, "sessionId")) continue;
    read_before = std::min(read_before, from->until);
    overwritten.push_back(entry.key);
    if (ours) {
      place.at(entry.key)->entry = from->entry;
    } else {
      again.push_back({.key = entry.key, .entry = from->entry, .raw_name = entry.raw_name});
    }
  }
  std::ranges::move(again, std::back_inserter(started));
  ForeignChange change = diff_stores(started, theirs);
  std::erase_if(change.deleted, [&](const std::string& key) {
    if (!was_absent_since(key, read_before)) return false;
    overwritten.push_back(key);
    return true;
  });
  change.overwritten = std::move(overwritten);
  return change;
}

}  // namespace sessiond::sessions

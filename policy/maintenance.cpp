#include "policy/maintenance.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace sessiond::policy {
namespace {

// The indexes of a list, in the order of what `by` makes of its elements, and then of the list.
template <class Element, class By>
std::vector<std::size_t> sorted_indexes(const std::vector<Element>& list, By by) {
  std::vector<std::size_t> indexes(list.size());
  std::iota(indexes.begin(), indexes.end(), std::size_t{0});
  std::ranges::sort(indexes, {}, [&](std::size_t at) { return std::pair(by(list[at]), at); });
  return indexes;
}

class Selector {
 public:
  Selector(const StoredAgent& agent, const RetentionLimits& limits, std::int64_t now)
      : agent_(agent),
        limits_(limits),
        now_(now),
        sessions_(sorted_indexes(agent.sessions,
                                 [](const StoredSession& one) { return std::tuple(one.last_interaction, one.key); })),
        archives_(sorted_indexes(agent.archives, [](const StoredArchive& one) { return one.ended; })),
        selected_(agent.sessions.size()),
        reached_(agent.sessions.size()) {}

  Selection run() {
    by_age();
    by_count();
    by_disk();
    for (; next_archive_ < archives_.size(); ++next_archive_) {
      if (!older_than(agent_.archives[archives_[next_archive_]].ended, limits_.archive_retention_ms)) break;
      out_.items.push_back({Selection::Kind::archive, archives_[next_archive_], PruneReason::archive});
    }
    for (const std::size_t at : sorted_indexes(agent_.orphans, [](const StoredOrphan& one) { return one.written; }))
      if (older_than(agent_.orphans[at].written, limits_.prune_after_ms))
        out_.items.push_back({Selection::Kind::orphan, at, PruneReason::orphan});
    for (const std::size_t at : sessions_)
      if (reached_[at]) out_.kept.push_back(at);
    return std::move(out_);
  }

 private:
  bool older_than(std::int64_t time, const std::optional<std::int64_t>& age) const { return age && time < now_ - *age; }

  // Selects a session unless it is protected or selected already. Returns false in these cases.
  bool take(std::size_t at, PruneReason reason) {
    if (selected_[at]) return false;
    if (!agent_.sessions[at].protected_by.empty()) {
      reached_[at] = true;
      return false;
    }
    selected_[at] = true;
    out_.items.push_back({Selection::Kind::session, at, reason});
    return true;
  }

  void by_age() {
    for (const std::size_t at : sessions_) {
      if (!older_than(agent_.sessions[at].last_interaction, limits_.prune_after_ms)) break;
      take(at, PruneReason::age);
    }
  }

  void by_count() {
    if (!limits_.max_entries) return;
    std::size_t left = agent_.sessions.size() - out_.items.size();
    for (const std::size_t at : sessions_) {
      if (left <= *limits_.max_entries) return;
      if (take(at, PruneReason::count)) --left;
    }
  }

  void by_disk() {
    if (!limits_.max_disk_bytes) return;
    std::uint64_t used = agent_.store_bytes;
    for (const StoredSession& session : agent_.sessions) used += session.bytes;
    for (const StoredArchive& archive : agent_.archives) used += archive.bytes;
    if (used <= *limits_.max_disk_bytes) return;
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(*limits_.max_disk_bytes) * limits_.high_water);
    for (; used > wanted && next_archive_ < archives_.size(); ++next_archive_) {
      const std::size_t at = archives_[next_archive_];
      out_.items.push_back({Selection::Kind::archive, at, PruneReason::disk});
      used -= agent_.archives[at].bytes;
    }
    for (const std::size_t at : sessions_) {
      if (used <= wanted) return;
      if (selected_[at] || take(at, PruneReason::disk)) used -= agent_.sessions[at].bytes;
    }
  }

  const StoredAgent& agent_;
  const RetentionLimits& limits_;
  const std::int64_t now_;
  std::vector<std::size_t> sessions_;  // indexes, the oldest first
  std::vector<std::size_t> archives_;  // the same
  std::size_t next_archive_ = 0;       // in archives_: those before it are selected
  std::vector<bool> selected_;         // sessions
  std::vector<bool> reached_;          // by a limit, and protected
  Selection out_;
};

}  // namespace

std::string_view name(PruneReason reason) {
  switch (reason) {
    case PruneReason::age:
      return "age";
    case PruneReason::count:
      return "count";
    case PruneReason::disk:
      return "disk";
    case PruneReason::archive:
      return "archive";
    case PruneReason::orphan:
      return "orphan";
  }
  return "";
}

Selection select_for_pruning(const StoredAgent& agent, const RetentionLimits& limits, std::int64_t now) {
  return Selector(agent, limits, now).run();
}

}  // namespace sessiond::policy

#include "policy/maintenance.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace sessiond::policy {
namespace {

class Selector {
 public:
  Selector(const StoredAgent& agent, const RetentionLimits& limits, std::int64_t now)
      : agent_(agent),
        limits_(limits),
        now_(now),
        oldest_first_(agent.sessions.size()),
        selected_(agent.sessions.size()),
        reached_(agent.sessions.size()) {
    std::iota(oldest_first_.begin(), oldest_first_.end(), std::size_t{0});
    std::ranges::sort(oldest_first_, {}, [&](std::size_t at) {
      return std::tuple(agent.sessions[at].last_interaction, agent.sessions[at].key);
    });
  }

  Selection run() {
    by_age();
    by_count();
    by_disk();
    for (const std::size_t at : oldest_first_)
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
    out_.sessions.push_back({at, reason});
    return true;
  }

  void by_age() {
    for (const std::size_t at : oldest_first_) {
      if (!older_than(agent_.sessions[at].last_interaction, limits_.prune_after_ms)) break;
      take(at, PruneReason::age);
    }
  }

  void by_count() {
    if (!limits_.max_entries) return;
    std::size_t left = agent_.sessions.size() - out_.sessions.size();
    for (const std::size_t at : oldest_first_) {
      if (left <= *limits_.max_entries) return;
      if (take(at, PruneReason::count)) --left;
    }
  }

  void by_disk() {
    if (!limits_.max_disk_bytes) return;
    std::uint64_t used = agent_.store_bytes;
    for (const StoredSession& session : agent_.sessions) used += session.bytes;
    if (used <= *limits_.max_disk_bytes) return;
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(*limits_.max_disk_bytes) * limits_.high_water);
    for (const std::size_t at : oldest_first_) {
      if (used <= wanted) return;
      if (take(at, PruneReason::disk)) used -= agent_.sessions[at].bytes;
    }
  }

  const StoredAgent& agent_;
  const RetentionLimits& limits_;
  const std::int64_t now_;
  std::vector<std::size_t> oldest_first_;  // indexes of sessions
  std::vector<bool> selected_;
  std::vector<bool> reached_;  // by a limit, and protected
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
  }
  return "";
}

Selection select_for_pruning(const StoredAgent& agent, const RetentionLimits& limits, std::int64_t now) {
  return Selector(agent, limits, now).run();
}

}  // namespace sessiond::policy

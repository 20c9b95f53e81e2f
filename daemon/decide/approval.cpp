#include "daemon/decide/approval.hpp"

#include <algorithm>

namespace sessiond::decide {
namespace {

constexpr std::size_t most_kept = 100;     // of runs that have ended
constexpr std::size_t most_of_run = 1000;  // while a run is active
constexpr std::size_t most_bytes = 4U << 20;

std::size_t bytes_of(const Approval& approval) { return approval.args.size() + approval.reason.size() + 512; }

}  // namespace

void Approval::resolve(bool allow, std::string_view how, std::int64_t now) {
  decision = allow ? "allow" : "deny";
  source = how;
  resolved_at = now;
}

std::string approval_json(std::string_view agent, std::string_view key, const Approval& approval) {
  json::ObjectWriter out;
  json::write_fields(out, approval, json::Show::clients);
  out.string("agent", agent);
  out.string("key", key);
  return out.text();
}

const Approval* ApprovalList::find(std::string_view id) const {
  const auto found = std::ranges::find(all_, id, &Approval::id);
  return found == all_.end() ? nullptr : &*found;
}

const Approval* ApprovalList::find_call(std::string_view run_id, std::string_view call_id) const {
  if (call_id.empty()) return nullptr;
  const auto found = std::ranges::find_if(
      all_, [&](const Approval& each) { return each.run_id == run_id && each.call_id == call_id; });
  return found == all_.end() ? nullptr : &*found;
}

std::size_t ApprovalList::open() const {
  return static_cast<std::size_t>(std::ranges::count_if(all_, &Approval::is_open));
}

bool ApprovalList::has_room_for(const Approval& approval) const {
  if (approval.call_id.empty()) return true;
  std::size_t count = 1;
  std::size_t bytes = bytes_of(approval);
  for (const Approval& each : all_) {
    if (each.run_id != approval.run_id || each.call_id.empty()) continue;
    ++count;
    bytes += bytes_of(each);
  }
  return count <= most_of_run && bytes <= most_bytes;
}

void ApprovalList::put(Approval approval) {
  if (const auto there = std::ranges::find(all_, approval.id, &Approval::id); there != all_.end()) {
    *there = std::move(approval);
    return;
  }
  const std::string run_id = approval.run_id;
  all_.push_back(std::move(approval));
  drop_old(most_of_run, run_id);
}

void ApprovalList::end_run() {
  for (Approval& each : all_) {
    if (!each.is_open()) continue;
    each.decision = "deny";
    each.source = "run_ended";
  }
  drop_old(most_kept, {});
}

void ApprovalList::drop_old(std::size_t most, std::string_view active_run) {
  std::size_t count = all_.size();
  std::size_t bytes = 0;
  for (const Approval& each : all_) bytes += bytes_of(each);
  if (count <= most && bytes <= most_bytes) return;
  std::erase_if(all_, [&](const Approval& each) {
    const bool stays = each.is_open() || (!each.call_id.empty() && each.run_id == active_run);
    if (stays || &each == &all_.back() || (count <= most && bytes <= most_bytes)) return false;
    --count;
    bytes -= bytes_of(each);
    return true;
  });
}

}  // namespace sessiond::decide

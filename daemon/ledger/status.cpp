#include <fmt/format.h>

#include "daemon/ledger/ledger.hpp"

namespace sessiond::ledger {

LedgerPulse pulse_of(const LedgerParts& parts) {
  LedgerPulse out{.counters = parts.commits.counters()};
  for (const auto& [id, agent] : parts.agents.all()) {
    if (agent->degraded.empty()) out.checkpoint_lag_ms = std::max(out.checkpoint_lag_ms, agent->checkpoint.lag_ms());
    if (agent->checkpoint.lock_wanted != 0) ++out.lock_waits;
  }
  for (const auto& [file, held] : parts.flusher.locked())
    if (held.why.empty()) ++out.lock_waits;
  return out;
}

LedgerStatus status_of(const LedgerParts& parts) {
  LedgerStatus out;
  const LedgerPulse pulse = pulse_of(parts);
  out.counters = pulse.counters;
  out.checkpoint_lag_ms = pulse.checkpoint_lag_ms;
  out.lock_waits = pulse.lock_waits;
  out.checkpoints = parts.checkpointer.checkpoints();
  out.evictions = parts.notices.evictions();
  out.head = parts.commits.last();
  out.durable = parts.commits.durable();
  out.oldest = parts.commits.journal().oldest();
  const std::int64_t now = store::steady_ms();
  out.refusal = parts.commits.refusal();
  if (out.refusal.empty() && parts.flusher.facts().failing) out.refusal = "transcripts cannot be written (see the log)";
  out.repairs = parts.notices.repairs();
  out.damage = parts.journal_files.damage();
  out.journal_check = parts.journal_files.check();
  out.unwatched = parts.follower.unwatched();
  out.answers_truncated = parts.commits.answers().truncated();
  for (const std::string& path : parts.follower.databases())
    out.degraded.push_back(path + ": sessions that OpenClaw 2026.8 or later keeps there are not served");
  if (!parts.checkpointer.trouble().empty()) out.lagging.push_back(parts.checkpointer.trouble());
  for (const auto& [id, agent] : parts.agents.all()) {
    if (agent->state) ++out.agents;
    if (!agent->degraded.empty()) {
      out.degraded.push_back(fmt::format("agent {}: {}; the journal keeps {} KiB for it", id, agent->degraded,
                                         agent->rebuild || agent->checkpoint.dirty_since != 0
                                             ? parts.commits.journal().bytes_after(agent->reached.store) >> 10
                                             : 0));
    }
    for (const MissingTranscript& one : agent->missing)
      if (agent->state && agent->state->find_key(one.key) != nullptr) out.missing.push_back(one);
    for (const MissingTranscript& one : agent->missing_topics) {
      const auto owner = agent->state ? agent->state->owner_of(one.path.filename().native()) : std::nullopt;
      if (owner && owner->session->key() == one.key) out.missing.push_back(one);  // else it was reset or deleted since
    }
    if (agent->loading_bytes != 0)
      out.loading.push_back(fmt::format("agent {}: {} MiB", id, agent->loading_bytes >> 20));
    if (!agent->starting.empty()) out.loading.push_back(fmt::format("agent {}: {}", id, agent->starting));
    if (!agent->checkpoint.trouble.empty()) out.lagging.push_back(fmt::format("{}: {}", id, agent->checkpoint.trouble));
  }
  for (const auto& [file, held] : parts.flusher.locked()) {
    if (!held.why.empty()) {
      if (is_log_path(file)) out.logs.push_back(held.why);
      out.degraded.push_back(held.why);
      continue;
    }
    if (now - held.since > transcript_lock_timeout_ms)
      out.lagging.push_back(fmt::format("{} waits {} s for its lock", file, (now - held.since) / 1000));
  }
  for (const auto& [path, why] : parts.readers.refused()) out.degraded.push_back(why);
  out.recovering.assign(parts.flusher.recovering().begin(), parts.flusher.recovering().end());
  return out;
}

}  // namespace sessiond::ledger

#include "daemon/ledger/archive_log.hpp"

#include <algorithm>
#include <filesystem>

#include "daemon/decide/archive_records.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {

Result<ArchiveLog::Records*> ArchiveLog::records(const std::string& agent) {
  const auto known = records_.find(agent);
  if (known != records_.end()) return &known->second;
  const auto path = paths_.archive_records(agent);
  TRY(const auto read, decide::read_archive_records(path));
  Records& records = records_[agent];
  for (const decide::ArchiveRecord& record : read) records.seqs.insert(record.seq);
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  if (!none) records.size = size;
  return &records;
}

Result<bool> ArchiveLog::contains(const std::string& agent, std::uint64_t seq) {
  TRY(const auto* known, records(agent));
  return known->seqs.contains(seq);
}

// Drops records of archives that are gone and of purges that the journal has forgotten.
Result<void> ArchiveLog::compact(const std::string& agent, std::uint64_t size) {
  const auto dir = paths_.root() / paths_.sessions_dir(agent);
  const std::uint64_t oldest = oldest_ ? oldest_() : 0;
  const auto is_needed = [&](const decide::ArchiveRecord& record) {
    std::error_code ignored;
    if (!record.entry_as.empty() && std::filesystem::exists(dir / record.entry_as, ignored)) return true;
    return record.seq >= oldest || std::ranges::any_of(record.archived_as, [&](const std::string& name) {
             return std::filesystem::exists(dir / name, ignored);
           });
  };
  TRY(const std::uint64_t left, decide::compact_archive_records(paths_.archive_records(agent), is_needed));
  Records& known = records_[agent];
  known.size = left;
  known.compact_at = std::max(known.compact_at, 2 * std::max(size, left));
  while (!known.seqs.empty() && *known.seqs.begin() < oldest) known.seqs.erase(known.seqs.begin());
  return {};
}

Result<void> ArchiveLog::write() {
  while (!unwritten_.empty()) {
    const std::string agent = *unwritten_.begin();
    Records& known = records_[agent];
    TRY(decide::append_archive_records(paths_.archive_records(agent), known.unwritten, false));
    unwritten_.erase(agent);
    known.size += std::exchange(known.unwritten, {}).size();
    known.unsynced = true;
    if (known.size < known.compact_at) continue;
    TRY(compact(agent, known.size));
  }
  return {};
}

Result<void> ArchiveLog::add(const journal::Event& event, std::span<const std::pair<std::string, std::string>> files,
                             bool durable) {
  auto record = decide::archive_record(event);
  if (!record) return {};
  if (!record->purged) {  // the event only counts those beyond the first
    record->archived_as.clear();
    record->more = 0;
    for (const auto& [file, name] : files) record->archived_as.push_back(name);
  }
  const std::string& agent = event.envelope.agent;
  Records& known = records_[agent];
  known.unwritten += decide::to_line(*record);
  unwritten_.insert(agent);
  if (durable) {
    TRY(decide::append_archive_records(paths_.archive_records(agent), known.unwritten, true));
    known.size += std::exchange(known.unwritten, {}).size();
    unwritten_.erase(agent);
  }
  known.seqs.insert(event.envelope.seq);
  return {};
}

Result<void> ArchiveLog::sync() {
  for (auto& [agent, known] : records_) {
    if (!known.unsynced) continue;
    TRY(decide::append_archive_records(paths_.archive_records(agent), "", true));
    known.unsynced = false;
  }
  return {};
}

void ArchiveLog::unload(const std::string& agent) {
  const auto of = records_.find(agent);
  if (of != records_.end() && !of->second.unsynced && !unwritten_.contains(agent)) records_.erase(of);
}

}  // namespace sessiond::ledger

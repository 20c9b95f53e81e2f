#include "daemon/decide/archive_index.hpp"

#include <algorithm>

namespace sessiond::decide {
namespace {

std::vector<const ArchiveRecord*> sorted_records(auto range) {
  std::vector<const ArchiveRecord*> out;
  for (auto at = range.first; at != range.second; ++at) out.push_back(at->second);
  std::ranges::sort(out, {}, [](const ArchiveRecord* record) { return std::pair(record->time, record->seq); });
  return out;
}

}  // namespace

std::vector<const ArchiveRecord*> ArchiveIndex::of_id(std::string_view session_id) const {
  return sorted_records(by_id_.equal_range(session_id));
}

std::vector<const ArchiveRecord*> ArchiveIndex::of_key(std::string_view key) const {
  return sorted_records(by_key_.equal_range(key));
}

void ArchiveIndex::remove(std::string_view session_id, std::string_view ending) {
  for (const ArchiveRecord* record : of_id(session_id)) {
    if (ending.empty() || ending_of(*record) != ending) continue;
    erase_pair(by_id_, record->session_id, record);
    if (!record->key.empty()) erase_pair(by_key_, record->key, record);
    all_.erase(all_.find({record->time, record->seq, record->session_id}));
  }
}

void ArchiveIndex::forget_files(std::string_view session_id, std::string_view ending) {
  for (const ArchiveRecord* known : of_id(session_id)) {
    if (ending.empty() || ending_of(*known) != ending) continue;
    ArchiveRecord& record = all_.at({known->time, known->seq, known->session_id});
    std::erase_if(record.archived_as, [ending](const std::string& name) { return name.ends_with(ending); });
    record.entry_as.clear();
    record.more = 0;
  }
}

bool ArchiveIndex::has_archives(std::string_view session_id, const ArchiveRecord* except) const {
  return std::ranges::any_of(of_id(session_id),
                             [&](const ArchiveRecord* record) { return record != except && !record->purged; });
}

void ArchiveIndex::add(ArchiveRecord record) {
  if (record.seq != 0) {
    for (const ArchiveRecord* known : of_id(record.session_id)) {
      const auto is_of_record = [&record](const std::string& name) {
        return std::ranges::find(record.archived_as, name) != record.archived_as.end();
      };
      if (known->seq != 0 || std::ranges::none_of(known->archived_as, is_of_record)) continue;
      erase_pair(by_id_, known->session_id, known);
      all_.erase(all_.find({known->time, known->seq, known->session_id}));
    }
  }
  const auto [at, added] = all_.try_emplace({record.time, record.seq, record.session_id}, std::move(record));
  if (!added && at->second.seq == 0) std::ranges::copy(record.archived_as, std::back_inserter(at->second.archived_as));
  if (!added) return;
  const ArchiveRecord& kept = at->second;
  by_id_.emplace(kept.session_id, &kept);
  if (!kept.key.empty()) by_key_.emplace(kept.key, &kept);
}

}  // namespace sessiond::decide

// The records of the transcripts that resets and deletions have archived, one file an agent
// (daemon/decide/archive_records.hpp). A recorded event is done: a file that bears one of its old names is a newer
// file, and is not renamed when the event is replayed. Thread: the one of Projection; blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "daemon/ledger/paths.hpp"
#include "store/journal/event.hpp"
#include "store/problem.hpp"

namespace sessiond::ledger {

class ArchiveLog {
 public:
  explicit ArchiveLog(const Paths& paths) : paths_(paths) {}
  // Sets how to ask for the oldest seq that the journal has; records of older purges are dropped.
  void on_oldest(std::function<std::uint64_t()> call) { oldest_ = std::move(call); }

  // Says whether the files of the event `seq` have been archived.
  Result<bool> contains(const std::string& agent, std::uint64_t seq);
  // Adds an event whose `files` (file, archive name) have their new names. `durable`: the record is on disk when this
  // returns, because the archives are destroyed next; else it is after write() and sync().
  Result<void> add(const journal::Event& event, std::span<const std::pair<std::string, std::string>> files,
                   bool durable);
  Result<void> write();
  Result<void> sync();
  void unload(const std::string& agent);  // an agent leaves memory

 private:
  struct Records {
    std::set<std::uint64_t> seqs{};  // of the newest ones, and at least of all beyond CHECKPOINT
    std::string unwritten{};
    bool unsynced = false;
    std::uint64_t size = 0;                  // of the file
    std::uint64_t compact_at = 1ULL << 20U;  // the size at which dead ones are looked for
  };
  Result<Records*> records(const std::string& agent);
  Result<void> compact(const std::string& agent, std::uint64_t size);

  const Paths& paths_;
  std::map<std::string, Records, std::less<>> records_{};  // by agent
  std::set<std::string> unwritten_{};                      // agents that have records to be written
  std::function<std::uint64_t()> oldest_{};
};

}  // namespace sessiond::ledger

// The transcripts of all agents as files: durable commits become lines, renames and records of how far each file is
// known. It lives on one strand of the disk threads (OnStrand) and blocks.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/ledger/projection.hpp"
#include "store/journal/journal.hpp"

namespace sessiond::ledger {

// Transcripts that lack durable lines: what stands in their place, "" where a foreign program holds their lock.
using LockedTranscripts = std::map<std::string, std::string, std::less<>>;

// Findings of writing, since they were last taken.
struct TranscriptNews {
  std::vector<std::string> displaced{};               // files where a foreign line stood at the place of ours
  std::map<std::string, std::uint64_t> renumbered{};  // files, and the least seq that was told and is wrong
  std::vector<transcripts::TranscriptWriter::DuplicateId> doubled{};  // entries whose id a foreign entry has too
  std::vector<lock::Eviction> evictions{};
  bool empty() const { return displaced.empty() && renumbered.empty() && doubled.empty() && evictions.empty(); }
};

// Facts that any thread may ask for while the strand writes.
struct TranscriptFacts {
  std::atomic<bool> failing{false};  // the last write of lines failed, and will be tried again
  FlushedSizes sizes{};
};

class TranscriptFiles {
 public:
  // `adopting`: see Projection. `on_repair` is called on the strand.
  TranscriptFiles(const Paths& paths, std::optional<lock::LockOptions> locks, const std::atomic<bool>& adopting,
                  std::shared_ptr<TranscriptFacts> facts, std::function<void(std::string)> on_repair);

  // Takes durable commits, in journal order. Their lines reach the files at the next flush, or at once when there are
  // many.
  void take(std::vector<journal::Commit> commits);
  // Writes the lines of one file (path below the state directory), or of all when it is empty. lock_timeout or degraded
  // when the one that was asked for cannot be written now; the others are then in locked().
  Result<void> flush(const std::string& file = {});
  // The same, and the lines of the files in a folder (with its '/').
  Result<void> flush(const std::string& file, const std::string& folder);
  LockedTranscripts locked() const;
  TranscriptNews take_news();
  // Takes the file's lock, writes its lines under it, and says whether a foreign program has written to it. The lock is
  // held until Projection::release(), unless this fails. lock_timeout when a foreign program holds it now.
  Result<bool> hold(const std::string& agent, const std::string& file);
  Projection& projection() { return projection_; }

 private:
  Result<void> pass_on();

  std::shared_ptr<TranscriptFacts> facts_;
  const Paths& paths_;
  Projection projection_;
  std::deque<journal::Commit> commits_;  // not yet passed on to the projection
  LockedTranscripts blocked_{};          // files of commits that wait for a lock
};

}  // namespace sessiond::ledger

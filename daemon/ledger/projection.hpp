// Makes the files from the journal: transcript lines at their positions (store/journal/line_position.hpp), archives by
// reset and deletion. Live batches and recovery come through the same code, so repeating a batch changes nothing. One
// disk thread at a time; blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ledger/archive_log.hpp"
#include "daemon/ledger/flushed_sizes.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/journal/event.hpp"
#include "store/journal/journal.hpp"
#include "store/problem.hpp"
#include "transcripts/known_ends.hpp"
#include "transcripts/transcript_writer.hpp"

namespace sessiond::ledger {

// Does an event of this type (or this event, as JSON) archive transcripts, by renaming their files?
bool archives_files(journal::EventType type);
bool archives_files(std::string_view event);
// Which ones: (file, archive name). `positions`: of the event's commit or batch; they name the archives that the event
// only counts.
std::vector<std::pair<std::string, std::string>> archived_files(const journal::Event& event,
                                                                std::span<const journal::LinePosition> positions);
// Does the event destroy the archives that it makes?
bool purges_files(const journal::Event& event);

class Projection {
 public:
  // `locks`: of transcripts, in shared mode (transcript_writer.hpp). `adopting`: what stands in a folder that is seen
  // for the first time is taken as known. `on_repair` is told of a damaged record of that, on this thread.
  Projection(const Paths& paths, std::optional<lock::LockOptions> locks, const std::atomic<bool>& adopting,
             FlushedSizes& sizes, std::function<void(std::string)> on_repair = {});

  // Where a line of the event `seq` goes instead of `file` (below the state directory); nothing: nowhere.
  using Redirect = std::function<std::optional<std::string>(std::uint64_t seq, const std::string& file)>;
  // What one durable commit (or batch) says about files. Lines are remembered until flush; renames are made at once.
  // lock_timeout when another program holds the lock of a file that is to be renamed: to be called again. Recovery
  // (`redirect`) ends a rename that a crash interrupted, whoever holds the file by now.
  Result<void> add(std::uint64_t first_seq, std::span<const journal::Bytes> events,
                   std::span<const journal::LinePosition> positions, const Redirect& redirect = {});

  ArchiveLog& archives() { return archives_; }
  // The lines that were added and are not written yet, and the locks of their files.
  transcripts::TranscriptWriter& writer() { return writer_; }
  const transcripts::TranscriptWriter& writer() const { return writer_; }
  Result<void> sync();  // then all that was added is on disk, and how far each transcript is known
  // The transcripts (below the state directory) that a commit touches.
  std::set<std::string, std::less<>> files_of(const journal::Commit& commit) const;

  // What other programs did to an agent's transcripts (all of them, where none is named) beyond what was added.
  Result<std::vector<transcripts::ForeignEdit>> foreign(const std::string& agent, const std::set<std::string>& files);
  // All transcripts of an agent that foreign() would look at: to look at a few at a time.
  Result<std::set<std::string, std::less<>>> names(const std::string& agent);
  // All of a transcript is known, whoever wrote it.
  Result<void> take_as_known(const std::string& agent, const transcripts::ForeignEdit& edit);
  // Forgets a transcript that belongs to no session and no longer exists.
  Result<void> forget_deleted(const std::string& agent, const std::string& file);
  // An agent leaves memory: how far its transcripts are known is read again when it is wanted.
  void unload_agent(const std::string& agent);

 private:
  // The lines from `next` on that belong to events before the seq `before`.
  Result<void> add_lines(std::uint64_t first_seq, std::span<const journal::Bytes> events,
                         std::span<const journal::LinePosition> positions, std::size_t& next, std::uint64_t before,
                         const Redirect& redirect);
  Result<void> archive_files(std::string_view event, std::span<const journal::LinePosition> positions, bool locked);
  Result<bool> archive_some(const std::string& agent, std::span<const std::pair<std::string, std::string>> files,
                            bool locked, bool done);
  Result<transcripts::KnownEnds*> ends(const std::string& agent);
  void on_lines(std::string_view path, std::uint64_t inode, transcripts::ByteRange lines);

  const Paths& paths_;
  const std::atomic<bool>& adopting_;
  FlushedSizes& sizes_;
  std::function<void(std::string)> on_repair_;
  std::map<std::string, transcripts::KnownEnds, std::less<>> ends_;  // by sessions folder
  ArchiveLog archives_;
  transcripts::TranscriptWriter writer_;
};

}  // namespace sessiond::ledger

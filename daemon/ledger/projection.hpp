// Makes the files from the journal: transcript lines at their positions (store/journal/line_position.hpp), and archives
// when a session is reset or deleted. Live batches and recovery use the same code, and repeating a batch changes
// nothing. Blocks; used by one disk thread at a time.
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
#include "daemon/ledger/renames.hpp"
#include "store/journal/event.hpp"
#include "store/journal/journal.hpp"
#include "store/problem.hpp"
#include "transcripts/known_ends.hpp"
#include "transcripts/migrate.hpp"
#include "transcripts/transcript_writer.hpp"

namespace sessiond::ledger {

class Projection {
 public:
  // `locks`: how transcripts are locked in shared mode (transcript_writer.hpp); none in own mode. While `adopting`,
  // every line in a folder that is seen for the first time counts as known. `on_repair` is called on this thread when
  // the record of known lines was damaged.
  Projection(const Paths& paths, std::optional<lock::LockOptions> locks, const std::atomic<bool>& adopting,
             FlushedSizes& sizes, std::function<void(std::string)> on_repair = {});

  // Returns where a line of the event `seq` goes instead of `file` (below the state directory); nothing: the line is
  // dropped.
  using Redirect = std::function<std::optional<std::string>(std::uint64_t seq, const std::string& file)>;
  // Applies one durable commit (or batch) to the files. Lines are kept until the next flush; renames are made at once.
  // lock_timeout when a foreign program holds the lock of a file that is to be renamed: call again later. Recovery
  // (`redirect`) finishes a rename that a crash interrupted even when a foreign program holds the lock.
  Result<void> add(std::uint64_t first_seq, std::span<const journal::Bytes> events,
                   std::span<const journal::LinePosition> positions, const Redirect& redirect = {});

  ArchiveLog& archives() { return archives_; }
  Renames& renames() { return renames_; }
  // The lines that were added and are not written yet, and the locks of their files.
  transcripts::TranscriptWriter& writer() { return writer_; }
  const transcripts::TranscriptWriter& writer() const { return writer_; }
  Result<void> sync();  // then all that was added is on disk, and how far each transcript is known

  // Finds what foreign programs did to these transcripts of an agent (none named: to all) beyond what was added.
  Result<std::vector<transcripts::ForeignEdit>> foreign(const std::string& agent, const std::set<std::string>& files);
  // Lists the transcripts that foreign() would look at, for callers that look at a few at a time.
  Result<std::set<std::string, std::less<>>> names(const std::string& agent);
  // Lists the transcripts of an agent that foreign programs have removed. Costs no look at the folder.
  Result<std::vector<std::string>> lost(const std::string& agent);
  // Notes that nothing is known of these transcripts.
  Result<void> forget(const std::string& agent, const std::vector<std::string>& files);
  // Notes that every line of a transcript is known.
  Result<void> take_as_known(const std::string& agent, const transcripts::ForeignEdit& edit);
  // Notes that its lines up to `end` are known.
  Result<void> take_as_known(const std::string& agent, const transcripts::ForeignEdit& edit, std::uint64_t end);
  // Notes that the header is known, if it is all that a foreign program added.
  Result<void> take_header_as_known(const std::string& agent, const transcripts::ForeignEdit& edit);
  // Writes a transcript of an earlier version as version 3 (transcripts/migrate.hpp), and keeps the old file below
  // journal/kept. Nothing: it needed no change, or there is none. lock_timeout; session_busy when a foreign program
  // writes to it.
  Result<std::optional<transcripts::Migration>> migrate(const std::string& agent, const std::string& file,
                                                        const std::string& session_id);
  // Forgets a transcript that belongs to no session and no longer exists.
  Result<void> forget_deleted(const std::string& agent, const std::string& file);
  // An agent leaves memory: its known lines are read again from their record when they are asked for.
  void unload_agent(const std::string& agent);

 private:
  // Adds the lines from `next` on that belong to events before the seq `before`.
  Result<void> add_lines(std::uint64_t first_seq, std::span<const journal::Bytes> events,
                         std::span<const journal::LinePosition> positions, std::size_t& next, std::uint64_t before,
                         const Redirect& redirect);
  Result<transcripts::KnownEnds*> ends(const std::string& agent);
  void on_lines(std::string_view path, std::uint64_t inode, transcripts::ByteRange lines);
  void on_size(std::string_view path, std::optional<std::uint64_t> size);

  const Paths& paths_;
  const std::atomic<bool>& adopting_;
  FlushedSizes& sizes_;
  std::function<void(std::string)> on_repair_;
  std::map<std::string, transcripts::KnownEnds, std::less<>> ends_;  // by sessions folder
  ArchiveLog archives_;
  transcripts::TranscriptWriter writer_;
  Renames renames_;
};

// The transcripts (below the state directory) that a commit touches.
std::set<std::string, std::less<>> transcripts_of(const Paths& paths, const journal::Commit& commit);

}  // namespace sessiond::ledger

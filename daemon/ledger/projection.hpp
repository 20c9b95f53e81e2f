// Makes the files from the journal: transcript lines at their positions (store/journal/line_position.hpp), archives by
// reset and deletion. Live batches and recovery come through the same code, so repeating a batch changes nothing. One
// disk thread at a time; blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/decide/archive_records.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/journal/event.hpp"
#include "store/journal/journal.hpp"
#include "store/problem.hpp"
#include "transcripts/known_ends.hpp"
#include "transcripts/transcript_writer.hpp"

namespace sessiond {

class Projection {
 public:
  // `locks`: of transcripts, in shared mode (transcript_writer.hpp). `adopting`: what stands in a folder that is seen
  // for the first time is taken as known. `on_repair` is told of a damaged record of that, on this thread.
  Projection(const Paths& paths, std::optional<LockOptions> locks, const std::atomic<bool>& adopting,
             std::function<void(std::string)> on_repair = {});

  // Where a line of the event `seq` goes instead of `file` (below the state directory); nothing: nowhere.
  using Redirect = std::function<std::optional<std::string>(std::uint64_t seq, const std::string& file)>;
  // What one durable commit (or batch) says about files. Lines are remembered until flush; renames are made at once.
  // lock_timeout when another program holds the lock of a file that is to be renamed: to be called again. Recovery
  // (`redirect`) ends a rename that a crash interrupted, whoever holds the file by now.
  Result<void> add(std::uint64_t first_seq, std::span<const Bytes> events, std::span<const LinePosition> positions,
                   const Redirect& redirect = {});

  // Does this event archive transcripts, and if so which (file, archive name), and are they destroyed?
  static bool archives(EventType type);
  static bool archives(std::string_view event);
  // `positions`: of the event's commit or batch; they name the archives that the event only counts.
  static std::vector<std::pair<std::string, std::string>> archived_files(const Event& event,
                                                                         std::span<const LinePosition> positions);
  static bool purges(const Event& event);
  // Whether the files of the event `seq` have been archived, by what archive_records.hpp keeps. A file that bears one
  // of their old names is then a newer one.
  Result<bool> archived(const std::string& agent, std::uint64_t seq);
  // The oldest seq that the journal has; records of older purges are dropped. Called on this thread.
  void on_oldest(std::function<std::uint64_t()> call) { oldest_ = std::move(call); }
  Result<void> flush() { return appender_.flush(); }
  Result<void> flush(const std::string& file) { return appender_.flush(file); }
  Result<void> sync();  // then all that was added is on disk, and how far each transcript is known
  const std::set<std::string, std::less<>>& waiting() const { return appender_.waiting(); }
  const std::map<std::string, std::string, std::less<>>& stuck() const { return appender_.stuck(); }
  std::vector<Eviction> take_evictions() { return appender_.take_evictions(); }
  // The transcripts (below the state directory) that a commit touches.
  std::set<std::string, std::less<>> files_of(const Commit& commit) const;
  std::size_t pending_bytes() const { return appender_.pending_bytes(); }
  // Transcripts (relative to the state directory) where another program's line stood at the place of ours.
  std::vector<std::string> take_displaced() { return appender_.take_displaced(); }

  std::map<std::string, std::uint64_t> take_renumbered() { return appender_.take_renumbered(); }
  std::vector<TranscriptWriter::DuplicateId> take_duplicate_ids() { return appender_.take_duplicate_ids(); }
  Result<void> hold(const std::string& path) { return appender_.hold(path); }
  void release(const std::string& path) { appender_.release(path); }
  // How long a transcript was after our last flush of it; nothing when that is not known, or another program wrote to
  // it meanwhile. Any thread.
  std::optional<std::uint64_t> written(std::string_view path) const;

  // What other programs did to an agent's transcripts (all of them, where none is named) beyond what was added.
  Result<std::vector<ForeignEdit>> foreign(const std::string& agent, const std::set<std::string>& files);
  // All transcripts of an agent that foreign() would look at: to look at a few at a time.
  Result<std::set<std::string, std::less<>>> names(const std::string& agent);
  // All of a transcript is known, whoever wrote it.
  Result<void> take_as_known(const std::string& agent, const ForeignEdit& edit);
  // Nobody's transcript that is gone is nobody's concern.
  Result<void> forget_deleted(const std::string& agent, const std::string& file);
  // An agent leaves memory: how far its transcripts are known is read again when it is wanted.
  void unload_agent(const std::string& agent);

 private:
  // The lines from `next` on that belong to events before the seq `before`.
  Result<void> add_lines(std::uint64_t first_seq, std::span<const Bytes> events,
                         std::span<const LinePosition> positions, std::size_t& next, std::uint64_t before,
                         const Redirect& redirect);
  Result<void> archive_files(std::string_view event, std::span<const LinePosition> positions, bool locked);
  Result<bool> archive_some(const std::string& agent, std::span<const std::pair<std::string, std::string>> files,
                            bool locked, bool done);
  Result<void> record(const Event& event, std::span<const std::pair<std::string, std::string>> files, bool durable);
  Result<void> write_records();
  Result<void> compact_records(const std::string& agent, std::uint64_t size);

  // Of one agent's archives.
  struct Records {
    std::set<std::uint64_t> seqs{};  // of the newest ones, and at least of all beyond CHECKPOINT
    std::string unwritten{};
    bool unsynced = false;
    std::uint64_t size = 0;                  // of the file
    std::uint64_t compact_at = 1ULL << 20U;  // the size at which dead ones are looked for
  };
  Result<Records*> records(const std::string& agent);
  Result<KnownEnds*> ends(const std::string& agent);
  void on_lines(std::string_view path, std::uint64_t inode, ByteRange lines);
  void on_size(std::string_view path, std::optional<std::uint64_t> size);

  const Paths& paths_;
  const std::atomic<bool>& adopting_;
  std::function<void(std::string)> on_repair_;
  std::map<std::string, KnownEnds, std::less<>> ends_;  // by sessions folder
  mutable std::mutex written_mutex_;
  std::map<std::string, std::unordered_map<std::string, std::uint64_t>, std::less<>> written_;  // by folder, name
  std::map<std::string, Records, std::less<>> records_;                                         // by agent
  std::set<std::string> unwritten_;  // agents that have records to be written
  std::function<std::uint64_t()> oldest_{};
  TranscriptWriter appender_;
};

}  // namespace sessiond

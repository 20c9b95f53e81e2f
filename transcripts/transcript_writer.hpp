// Writes transcript lines where the journal says they belong, in batches: the lines of one file are written with one
// write.
//
// Live appends and recovery follow the same rule, so recovery may repeat any of it:
//   - A line goes to its recorded offset. If it is there already, nothing is written; if it is torn at the end of
//     the file, it is completed.
//   - If something else is at that offset (a foreign program's line), the line is appended, unless the file has it
//     already.
//   - A missing last newline is written first. A header is written at the beginning of a file or not at all.
//   - NULs at the offset of a line of ours are pages that were lost in a power cut or a failed fsync: the line is
//     written there again.
// With locks (shared mode), <transcript>.jsonl.lock is held for each write. Nothing here waits for a lock: if a foreign
// program holds it, the file's lines are kept for the next flush, and other files are written.
// One thread at a time; blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "store/lock/lock.hpp"
#include "store/problem.hpp"
#include "transcripts/known_ends.hpp"

namespace sessiond::transcripts {

// Where a line belongs.
struct LineTarget {
  std::string file;                    // path below the state directory
  std::uint64_t offset = 0;            // where the line should begin, as it was committed
  std::optional<std::uint64_t> seq{};  // of the entry, as clients were told; nothing: a header
};

class TranscriptWriter {
 public:
  // Called for lines that are in their file: `lines` is their range in the file with that inode.
  using OnLines = std::function<void(const std::string& file, std::uint64_t inode, ByteRange lines)>;
  // Called after each flush with the size of the file; nothing: a foreign program wrote to it, or it is closed.
  using OnSize = std::function<void(const std::string& file, std::optional<std::uint64_t> size)>;
  explicit TranscriptWriter(std::filesystem::path state_dir, std::optional<lock::LockOptions> locks = {},
                            OnLines on_lines = {}, OnSize on_size = {});
  ~TranscriptWriter();
  TranscriptWriter(const TranscriptWriter&) = delete;
  TranscriptWriter& operator=(const TranscriptWriter&) = delete;

  // Takes a line with its '\n'. `id` is its entry id, "" for a header. It is written at the next flush.
  void add(const LineTarget& place, std::string_view line, std::string_view id);
  std::size_t pending_bytes() const;
  // Names files whose lines wait alone when the file cannot be opened for whatever reason: see stuck().
  void let_wait(std::function<bool(std::string_view file)> which);
  // From now on, where a line belongs behind the end of one of these files, the lines between are made up as lines that
  // cannot be read (lost_lines.hpp), so that each line stands at the offset and the seq that were told of it. Empty: no
  // more.
  void make_up_lost_lines(std::function<bool(std::string_view file)> where);
  bool makes_up_lost_lines(std::string_view file) const;  // whether it does in this file
  // Makes no file in `folder` (below the state directory, ends in '/') as long as `until` is gone or empty: the lines
  // of its files wait alone (stuck()).
  void keep_absent(std::string folder, std::filesystem::path until);
  void make_again(const std::filesystem::path& until);  // takes that back
  // Forgets a file that is to be removed, with the lines that wait for it.
  void discard(std::string_view file);
  bool has_pending_below(std::string_view dir) const;  // `dir` must end in '/'
  // Writes the lines of one file. lock_timeout if a foreign program holds its lock. After a failure the lines are kept
  // for the next flush.
  Result<void> flush(std::string_view file);
  // Writes the lines of all files. Skips, without a problem, files whose lock is held (see waiting()) and files that
  // cannot be opened because something else has their name (see stuck(); flush(file) reports `degraded`).
  Result<void> flush();
  Result<void> flush_below(std::string_view dir);  // the same of the files below it; "" or a name that ends in '/'
  // Flushes, then syncs each file written since the last sync, and the folders of new files.
  Result<void> sync();
  const std::set<std::string, std::less<>>& waiting() const;             // files whose lines wait for a lock
  const std::map<std::string, std::string, std::less<>>& stuck() const;  // file -> what has its name
  std::vector<lock::Eviction> take_evictions();  // stale locks that were removed since the last call
  // Returns the files that a foreign program was found to have changed since the last call: known positions are wrong.
  std::vector<std::string> take_displaced();
  // Returns the files where lines came later than clients were told, since the last call, with the lowest seq
  // concerned.
  std::map<std::string, std::uint64_t> take_renumbered();
  // Lines that were written although a foreign line has the same id.
  struct DuplicateId {
    std::string file;
    std::string id;
  };
  std::vector<DuplicateId> take_duplicate_ids();  // since the last call
  // Takes the file's lock and keeps it until release(): all flushes of the file use it. lock_timeout if a foreign
  // program holds it. Does nothing without locks.
  Result<void> hold(const std::string& file);
  void release(const std::string& file);
  // Flushes and syncs a file and forgets its descriptor. To be called before the file is renamed or removed; the caller
  // keeps the returned lock until that is done. lock_timeout if a foreign program holds it. `locked` false: takes no
  // lock.
  Result<std::optional<lock::FileLock>> close(std::string_view file, bool locked);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond::transcripts

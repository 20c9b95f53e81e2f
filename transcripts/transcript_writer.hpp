// Puts transcript lines where the journal says they belong, in batches: lines for one file are gathered and written
// with one write. The same rule serves live appends and recovery (FORMATS §2 "Recovery"): a line goes to its recorded
// offset; if it already stands there it is left; a torn beginning of it at the end of the file is completed; if
// something else stands there (another program's line) it follows at the end, unless it is already in the file. A
// missing last newline is put first. One thread at a time; blocks.
// Bytes that are NUL where a line of ours belongs are pages that a power cut took, or a failed fsync: the line is
// written there again. A header goes to the beginning of a file or nowhere. What was written since the last sync is
// held in memory, because after a failed fsync the kernel may have dropped it: the next sync writes it again.
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

namespace sessiond {

struct LineTarget {
  std::string file;                    // path below the state directory
  std::uint64_t offset = 0;            // where the line was to begin when it was committed
  std::optional<std::uint64_t> seq{};  // its place among the entries, as it was told; none: a header
};

class TranscriptWriter {
 public:
  // Told of every line that stands in its file: [lines.begin, lines.end) of the file with that inode.
  using OnLines = std::function<void(const std::string& file, std::uint64_t inode, ByteRange lines)>;
  // Told after each flush how long the file is when nobody else wrote to it; nothing: somebody did, or the file goes.
  using OnSize = std::function<void(const std::string& file, std::optional<std::uint64_t> size)>;
  // With `locks` (shared mode) <transcript>.jsonl.lock is held around each write (FORMATS §3). Nothing waits here: a
  // file whose lock another program holds keeps its lines for the next flush, and holds up no other file.
  explicit TranscriptWriter(std::filesystem::path state_dir, std::optional<LockOptions> locks = {},
                            OnLines on_lines = {}, OnSize on_size = {});
  ~TranscriptWriter();
  TranscriptWriter(const TranscriptWriter&) = delete;
  TranscriptWriter& operator=(const TranscriptWriter&) = delete;

  // Remembers a line (with its '\n'; `id` is its entry id, empty for a header). Nothing is written until flush.
  void add(const LineTarget& place, std::string_view line, std::string_view id);
  std::size_t pending_bytes() const;
  bool has_pending_below(std::string_view dir) const;  // `dir` ends in '/'
  // Writes what is remembered; of one file, or of all. A failure keeps the lines for the next try and names the file.
  Result<void> flush(std::string_view file);  // lock_timeout when its lock is held now
  // Leaves out those whose lock is held (waiting() has them then) and those in whose place something else stands
  // (stuck()): `degraded`, when one is asked for. Their lines are kept.
  Result<void> flush();
  // fsyncs every file written since the last sync, and the directories of new ones. Flushes first.
  Result<void> sync();
  const std::set<std::string, std::less<>>& waiting() const;  // files whose lines wait for another program's lock
  const std::map<std::string, std::string, std::less<>>& stuck() const;  // file -> what stands in its way
  std::vector<Eviction> take_evictions();                                // stale locks taken away since the last call
  // Files where something else stood at the place since the last call: whoever keeps positions must look at them again.
  std::vector<std::string> take_displaced();
  // Files where lines stand further behind than was told since the last call, with the least place that was told.
  std::map<std::string, std::uint64_t> take_renumbered();
  // Lines that were written although a line of another program has their id, since the last call.
  struct DuplicateId {
    std::string file;
    std::string id;
  };
  std::vector<DuplicateId> take_duplicate_ids();
  // Takes the file's lock for more than one flush: until release, all that is written to the file is written under it.
  // lock_timeout when another program holds it now. Nothing where no locks are taken.
  Result<void> hold(const std::string& file);
  void release(const std::string& file);
  // Must be called before a file is renamed or removed: flushes it and forgets its descriptor. The lock is to be kept
  // until that is done; lock_timeout when another program holds it now. `locked` false: whoever holds it.
  Result<std::optional<FileLock>> close(std::string_view file, bool locked);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond

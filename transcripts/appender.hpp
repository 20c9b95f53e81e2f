// Puts transcript lines where the journal says they belong, in batches: lines for one file are gathered and written
// with one write. The same rule serves live appends and recovery (FORMATS §2 "Recovery"): a line goes to its recorded
// offset; if it already stands there it is left; a torn beginning of it at the end of the file is completed; if
// something else stands there (another program's line) it follows at the end, unless its id is already in the file. A
// missing last newline is put first. One thread at a time; blocks.
// A header goes to the beginning of a file or nowhere. After a failed fsync of a file sync() goes on failing for it:
// the kernel may have dropped its pages, and only the journal has its lines for certain.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

struct Place {
  std::string file;          // path below the state directory
  std::uint64_t offset = 0;  // where the line was to begin when it was committed
};

class TranscriptAppender {
 public:
  explicit TranscriptAppender(std::filesystem::path state_dir);
  ~TranscriptAppender();
  TranscriptAppender(const TranscriptAppender&) = delete;
  TranscriptAppender& operator=(const TranscriptAppender&) = delete;

  // Remembers a line (with its '\n'; `id` is its entry id, empty for a header). Nothing is written until flush.
  void add(const Place& place, std::string_view line, std::string_view id);
  std::size_t pending_bytes() const;
  // Writes what is remembered; of one file, or of all. A failure keeps the lines for the next try and names the file.
  Result<void> flush(std::string_view file);
  Result<void> flush();
  // fsyncs every file written since the last sync, and the directories of new ones. Flushes first.
  Result<void> sync();
  // Files where something else stood at the place since the last call: whoever keeps positions must look at them again.
  std::vector<std::string> take_displaced();
  // Must be called before a file is renamed or removed: flushes it and forgets its descriptor.
  Result<void> close(std::string_view file);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond

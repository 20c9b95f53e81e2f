// Makes the files from the journal: transcript lines at their places, archives by reset and deletion. Live batches and
// recovery come through the same code, so repeating a batch changes nothing. One disk thread at a time; blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ledger/paths.hpp"
#include "store/event.hpp"
#include "store/journal.hpp"
#include "store/problem.hpp"
#include "transcripts/appender.hpp"

namespace sessiond {

class Projection {
 public:
  explicit Projection(const Paths& paths) : paths_(paths), appender_(paths.state_dir()) {}

  // Where a line of the event `seq` goes instead of `file` (below the state directory); nothing: nowhere.
  using Redirect = std::function<std::optional<std::string>(std::uint64_t seq, const std::string& file)>;
  // What one durable commit (or batch) says about files. Lines are remembered until flush; renames are made at once.
  Result<void> add(std::uint64_t first_seq, std::span<const Bytes> events, std::span<const std::string> places,
                   const Redirect& redirect = {});

  // Does this event archive transcripts, and if so which (file, archive name), and are they destroyed?
  static bool archives(EventType type);
  static bool archives(std::string_view event);
  static std::vector<std::pair<std::string, std::string>> archived_files(const Event& event);
  static bool purges(const Event& event);
  Result<void> flush() { return appender_.flush(); }
  Result<void> flush(const std::string& file) { return appender_.flush(file); }
  Result<void> sync() { return appender_.sync(); }
  std::size_t pending_bytes() const { return appender_.pending_bytes(); }
  // Transcripts (relative to the state directory) where another program's line stood at the place of ours.
  std::vector<std::string> take_displaced() { return appender_.take_displaced(); }

 private:
  // The lines from `next` on that belong to events before the seq `before`.
  Result<void> add_lines(std::uint64_t first_seq, std::span<const Bytes> events, std::span<const std::string> places,
                         std::size_t& next, std::uint64_t before, const Redirect& redirect);
  Result<void> archive_files(std::string_view event);

  const Paths& paths_;
  TranscriptAppender appender_;
};

}  // namespace sessiond

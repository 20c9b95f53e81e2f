// Opens a journal: finds its segments, where each ends and what is damaged, and repairs it on request.
//
// Starting must not take longer the larger the journal is. So only the last segment is read completely, and sealed ones
// without an index that recovery needs. Other sealed segments are trusted by their index, or by their first and last
// line; their lines are verified when they are read, and by the check (check.hpp). A repair reads all of them.
#pragma once

#include <string>
#include <vector>

#include "store/journal/file_journal.hpp"
#include "store/journal/scan.hpp"
#include "store/journal/segment.hpp"

namespace sessiond::journal {

// The file EPOCH: {"epoch":"<8 hex>","holes":[[from,to],…]}. Seqs [from, to) are lost, and a repair has accepted that.
struct Epoch {
  struct Hole {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    friend bool operator==(const Hole&, const Hole&) = default;
  };
  std::string epoch{};
  std::vector<Hole> holes{};

  bool accepts(const Hole& hole) const;  // whether all of it is known to be lost
};

struct Recovered {
  std::vector<Segment> segments{};  // in order; the last is the live one; empty: a new journal
  std::string epoch{};
  std::vector<Epoch::Hole> lost{};  // between them; earlier repairs have accepted it
  JournalReport report{};
};
// degraded: damage that recovery cannot do without; names the file and offset. Blocks.
Result<Recovered> recover(const JournalOptions& options);

std::optional<Epoch> load_epoch(const std::filesystem::path& dir);  // nothing when it is missing or damaged
Result<void> save_epoch(const std::filesystem::path& dir, const Epoch& epoch);
std::string mint_epoch();

// A segment whose scan found damage.
struct DamagedSegment {
  SegmentName name{};
  bool last = false;
  Scan scan{};
};
// Copies the damaged bytes to <segment>.damaged.<time>, leaves the first run of good batches in the segment and moves
// every other run to a segment of its own. It can be killed at any point and done again. Returns one sentence that says
// what was done.
Result<std::string> repair_segment(const std::filesystem::path& dir, const DamagedSegment& damaged);
// Cuts a torn batch off the end, and keeps it in <segment>.torn.<time>. Returns one sentence that says so.
Result<std::string> cut_torn(int fd, const std::filesystem::path& segment, const Damage& torn);

}  // namespace sessiond::journal

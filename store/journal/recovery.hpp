// Opening a journal: which segments there are, where they end, what is damaged, and what a repair makes of it (FORMATS
// §1 "Opening"). The last segment is read through, and what recovery needs of those without an index; other sealed ones
// are taken by their index or by their two ends, their lines are verified when they are read and by the check
// (journal_check.hpp). A repair believes nothing and reads all of them.
#pragma once

#include <string>
#include <vector>

#include "store/journal/journal.hpp"
#include "store/journal/scan.hpp"
#include "store/journal/segment.hpp"

namespace sessiond::journal {

// EPOCH: {"epoch":"<8 hex>","holes":[[from,to],…]}; seqs [from, to) were lost.
struct Epoch {
  struct Hole {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    friend bool operator==(const Hole&, const Hole&) = default;
  };
  std::string epoch{};
  std::vector<Hole> holes{};
};

struct Recovered {
  std::vector<Segment> segments{};  // in order; the last is live; empty: nothing there yet
  std::string epoch{};
  std::vector<Epoch::Hole> lost{};  // between them, as earlier repairs have accepted
  JournalReport report{};
};
Result<Recovered> recover(const JournalOptions& options);

std::optional<Epoch> load_epoch(const std::filesystem::path& dir);  // nothing when missing or no epoch
Result<void> save_epoch(const std::filesystem::path& dir, const Epoch& epoch);
std::string mint_epoch();

// A segment whose scan found damage.
struct DamagedSegment {
  SegmentName name{};
  bool last = false;
  Scan scan{};
};
// Puts the damage aside into <segment>.damaged.<time>, leaves the first run in the segment and gives every other one a
// segment of its own. May be interrupted at any point and done again. One sentence of what was done.
Result<std::string> repair_segment(const std::filesystem::path& dir, const DamagedSegment& damaged);
// Cuts a torn batch off the end, kept in <segment>.torn.<time>. One sentence.
Result<std::string> cut_torn(int fd, const std::filesystem::path& segment, const Damage& torn);

}  // namespace sessiond::journal

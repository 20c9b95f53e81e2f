// Reads a whole segment and says what in it is good: runs of consecutive batches, and the damage between them. Used for
// the last segment at every start and for sealed ones whose index is missing; never stops at damage, so that a repair
// can keep what lies behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "store/journal/index.hpp"
#include "store/problem.hpp"

namespace sessiond::journal {

struct Run {
  std::uint64_t offset = 0;  // bytes [offset, end)
  std::uint64_t end = 0;
  std::uint64_t first = 0;  // seqs [first, next)
  std::uint64_t next = 0;
  SparseIndex index{};
};
struct Damage {
  std::uint64_t offset = 0;  // bytes [offset, end)
  std::uint64_t end = 0;
  bool one_line = true;  // it can be a batch that was never completely written
};
struct Scan {
  std::vector<Run> runs{};
  std::vector<Damage> damages{};
  std::uint64_t size = 0;  // of the file

  // The only damage is a batch at the very end that was not completely written.
  bool torn_only() const { return damages.size() == 1 && damages[0].one_line && damages[0].end == size; }
};

// A look at the lines alone, as fast as their CRCs can be computed: where they begin, and which are damaged. For sealed
// segments of which it is known what they hold. Ends early, with what it has, when `stop` is set.
struct CheckedLines {
  SparseIndex index{};
  std::vector<Damage> damages{};
};
Result<CheckedLines> check_lines(int fd, const std::string& name, std::uint64_t end, const std::atomic<bool>& stop);

// The segment's batches have seqs [first, until): what comes at or after `until` is void and not looked at.
Result<Scan> scan_segment(int fd, const std::string& name, std::uint64_t first, std::uint64_t until);

}  // namespace sessiond::journal

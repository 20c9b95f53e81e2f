// Reads a whole segment and finds the runs of consecutive good batches and the damage between them. It does not stop at
// damage, so that a repair can keep what is behind it. Blocks.
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
  bool one_line = true;  // it may be a batch that was not completely written
};
struct Scan {
  std::vector<Run> runs{};
  std::vector<Damage> damages{};
  std::uint64_t size = 0;  // of the file, without the zeros at its end

  // Whether the only damage is one batch at the very end that was not completely written.
  bool torn_only() const { return damages.size() == 1 && damages[0].one_line && damages[0].end == size; }
};

std::string damaged_at(const std::filesystem::path& segment, std::uint64_t offset);  // the sentence that reports damage

// Checks the CRCs of the lines alone, and makes an index. For sealed segments whose seqs are known. Returns early, with
// what it has, when `stop` is set.
struct CheckedLines {
  SparseIndex index{};
  std::vector<Damage> damages{};
};
Result<CheckedLines> check_lines(int fd, const std::string& name, std::uint64_t end, const std::atomic<bool>& stop);

// The segment's batches have seqs [first, until). A later segment overrides what comes at or after `until`; that is
// ignored.
Result<Scan> scan_segment(int fd, const std::string& name, std::uint64_t first, std::uint64_t until);

}  // namespace sessiond::journal

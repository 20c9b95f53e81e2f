// Collects the lines of one page of a transcript, in a file or in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "store/limits.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::transcripts {

// The seqs [low, high) that a query asks for, of a transcript with `count` entries. low >= high: none.
struct PageRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};
inline PageRange page_range(const PageQuery& query, std::uint64_t count) {
  const std::uint64_t high = std::min(count, query.before.value_or(count));
  const bool none_after = query.after == std::numeric_limits<std::uint64_t>::max();
  return {.low = none_after ? high : query.after ? *query.after + 1 : 0, .high = high};
}

class PageBuilder {
 public:
  explicit PageBuilder(const PageQuery& query) : query_(query) {}

  // Returns false if the page is full; the line was then not looked at.
  bool take(std::uint64_t seq, std::string_view line) {
    if (page_.lines.size() >= query_.limit ||
        (!query_.types.empty() && looked_ >= std::max<std::size_t>(query_.scan_limit, 1)))
      return false;
    if (query_.types.empty() || std::ranges::find(query_.types, entry_type(line)) != query_.types.end()) {
      if (!page_.lines.empty() && bytes_ + line.size() > limits::page_bytes) return false;
      bytes_ += line.size();
      page_.lines.push_back({.seq = seq, .line = std::string(line)});
    }
    ++looked_;
    page_.next = seq;
    return true;
  }
  bool full() const { return page_.lines.size() >= query_.limit; }
  TranscriptPage finish(bool has_more) && {
    page_.has_more = has_more;
    return std::move(page_);
  }

 private:
  const PageQuery& query_;
  TranscriptPage page_;
  std::size_t bytes_ = 0;
  std::size_t looked_ = 0;
};

}  // namespace sessiond::transcripts

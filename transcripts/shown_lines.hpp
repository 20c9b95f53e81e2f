// Remembers how the lines of the newest pages were shown.
//
// Clients read the newest page of a transcript again and again, and nearly all of its lines are those of the last time.
// Taking a line apart costs twenty times as much as comparing it. So a line is shown from memory if all its bytes are
// the same as then: a foreign program may have changed them. Keeps at most 64 lines of up to 1 KiB, some 40 KiB of
// usual messages. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::transcripts {

class ShownLines {
 public:
  // view_entry() with View::full. Valid until the next call.
  std::string_view show(std::string_view line, std::uint64_t seq);

 private:
  static constexpr std::size_t most_lines = 64;
  static constexpr std::size_t longest = 1 << 10;  // bytes; a longer line is not kept
  struct Kept {
    std::uint64_t seq = 0;
    std::string line{};
    std::string shown{};  // empty: there is none
  };

  std::vector<Kept> kept_{};  // by seq % most_lines
  std::string not_kept_;
};

}  // namespace sessiond::transcripts

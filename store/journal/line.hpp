// One journal line (FORMATS §1) as bytes: making it from commits, and taking it apart again without converting a value.
//   <CRC-32 of what follows the space, 8 hex> {"seq":<first>,"events":[…],"answers":[…],"places":[…]}\n
// The first line of a segment that overrides older ones holds no commit and has "overrides":true.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/journal/journal.hpp"

namespace sessiond::journal {

// Replaces `out` by the line of consecutive commits. A raw newline (legal JSON whitespace, but our line end) becomes a
// space.
void build_line(std::string& out, std::span<const Commit> commits);
std::string override_line(std::uint64_t seq);

// A line whose CRC fits; views into the text it was made from.
struct Line {
  std::uint64_t first = 0;
  std::uint64_t next = 0;  // first + number of events
  std::vector<std::string_view> events{};
  std::string_view answers{};
  std::string_view line_positions{};
};
// `text` without its '\n'. Nothing when it is damaged: CRC, shape, or no seq. `events`: the rest of a line that we
// wrote is not looked at.
enum class Parts : std::uint8_t { all, events };
std::optional<Line> parse_line(std::string_view text, Parts parts = Parts::all);
// The first seq of a line whose CRC fits, without looking at its events; nothing when it is damaged.
std::optional<std::uint64_t> seq_of_line(std::string_view text);
// The same of how a line begins, its CRC not looked at.
std::optional<std::uint64_t> first_seq_in(std::string_view beginning);
StoredBatch to_batch(const Line& line, std::uint64_t from);  // events before `from` are dropped

// Where inside `text` another line seems to begin; npos if nowhere. What we write can have these bytes only at the
// start of a line, so a damaged line that holds them is two lines whose newline was lost, not one torn batch.
std::size_t line_start_within(std::string_view text);

}  // namespace sessiond::journal

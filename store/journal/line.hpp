// One line of the journal is one batch. This makes the line of commits, and takes it apart again without converting a
// value.
//   <CRC-32 of what follows the space, 8 hex> {"seq":<first>,"events":[…],"answers":[…],"places":[…]}\n
// With encryption, what follows the seq is sealed for this seq (store/seal/sealed.hpp); it is the same object:
//   <CRC-32> {"seq":<first>,"e":1,"k":"<key id>","n":"…","c":"…"}\n
// The first line of a segment that overrides older ones has no commit, but "overrides":true.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/journal/journal.hpp"

namespace sessiond::journal {

// Replaces `out` by the line of consecutive commits, at least one. With encryption it is sealed: call seal::reserve()
// before. A newline between JSON tokens becomes a space.
void build_line(std::string& out, std::span<const Commit> commits);
std::string override_line(std::uint64_t seq);

// A line whose CRC fits, as views into its text or into what was sealed in it.
struct Line {
  std::uint64_t first = 0;
  std::uint64_t next = 0;  // first + number of events
  std::vector<std::string_view> events{};
  std::string_view answers{};
  std::string_view line_positions{};
  std::shared_ptr<const std::string> opened{};  // what was sealed
};
// `text` is without its '\n'. Nothing when it is damaged: the CRC or the shape is wrong, or it does not open.
// Parts::events skips answers and line positions where it can.
enum class Parts : std::uint8_t { all, events };
std::optional<Line> parse_line(std::string_view text, Parts parts = Parts::all);
// The id of the key with which a line is sealed; "" if it is not.
std::string_view key_of_line(std::string_view text);
// The first seq of a line, from the line alone; nothing when its CRC does not fit.
std::optional<std::uint64_t> seq_of_line(std::string_view text);
// The first seq from the beginning of a line, without its CRC being checked.
std::optional<std::uint64_t> first_seq_in(std::string_view beginning);
StoredBatch to_batch(const Line& line, std::uint64_t from);  // leaves out events before `from`

// Where inside `text` another line seems to begin; npos: nowhere. A line can have these bytes only at its start. So a
// damaged line that has them inside is two lines whose newline was lost, not one torn batch.
std::size_t line_start_within(std::string_view text);

}  // namespace sessiond::journal

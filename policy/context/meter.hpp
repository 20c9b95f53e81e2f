// Measures how full a model's window is, one entry at a time, so that an append costs what the entry costs. A Meter
// stands for all entries from the last checkpoint's first kept one to the leaf, and the system messages before them.
//
// Not known to a Meter: a branch and a new checkpoint. After one of them the entries are measured anew.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/context/call_book.hpp"
#include "policy/context/entry.hpp"
#include "policy/context/settings.hpp"

namespace sessiond::context {

// More calls that wait for their results are not remembered, the oldest are forgotten.
inline constexpr std::size_t most_open = 1'000;
// Nor are ids and names of calls that are longer, in bytes.
inline constexpr std::size_t most_remembered = 1024;
// The calls of a message are compared with others (doom_loop.hpp) if they are no more.
inline constexpr std::size_t most_compared = 64;

// The last calls, as far as they are identical (doom_loop.hpp).
struct Repeated {
  std::string call{};  // hash of name and arguments; empty: there was no call
  std::int64_t count = 0;
  std::vector<std::string> ids{};  // of the calls since the last warning
  std::string tool{};
};
// A warning that is due once all open calls have results.
struct DoomLoop {
  std::string tool{};
  std::int64_t count = 0;
  std::vector<std::string> call_ids{};
};

struct Meter {
  std::string checkpoint{};        // id of the last checkpoint; empty: there is none
  std::int64_t checkpoint_at = 0;  // its time, ms since the epoch
  std::uint64_t branches = 0;      // of the transcript, not only of the path
  std::int64_t messages = 0;       // since the checkpoint; neither system, synthetic nor summary
  std::int64_t turns = 0;          // since the checkpoint
  bool after_person = false;       // the last message is a person's
  // The last message is what a run had said when it ended, of so many tokens; it goes when another attempt follows.
  std::optional<std::int64_t> interrupted{};
  bool person_before = false;              // and it follows a person's message,
  bool follows_before = false;             // or one with calls: CallBook::follows()
  std::optional<std::int64_t> reported{};  // tokens that the model's last reply reported
  std::int64_t estimated = 0;              // tokens of what came since that reply; of everything if there is none
  CallBook calls{{.most = most_open, .longest = most_remembered}};
  std::uint64_t turn = 0;  // of the messages with calls, the first one of this turn
  Repeated repeated{};
  std::optional<DoomLoop> doom{};

  std::int64_t used() const { return reported.value_or(0) + estimated; }
  // The calls were more than are remembered: a view may show results that were not counted.
  bool is_cut() const { return calls.is_cut(); }
  // Begins anew behind a checkpoint: its id and time, and the tokens of its summary.
  void begin(std::string id, std::int64_t at, std::int64_t tokens);
  // Adds an entry as a view shows it (sendable.hpp, tool_pairs.hpp), and returns what became of its results. Nothing
  // for a part of a summary. `counts_usage`: false for kept entries before the checkpoint, whose replies reported what
  // was summarised since.
  Taken add(const Entry& entry, std::int64_t doom_count, bool counts_usage = true);
  // Returns the warning that is due, once no call waits for its result.
  std::optional<DoomLoop> take_doom();
};

// Says whether a compaction is due, or why not: "due", "below_threshold", "too_few_messages", "too_few_turns".
std::string_view due(std::int64_t used, std::int64_t messages, std::int64_t turns, std::int64_t window,
                     const CompactionSettings& settings);

// A meter as text, to be kept in a file, and back. Nothing if the text is not one.
std::string to_text(const Meter& meter);
std::optional<Meter> meter_of(std::string_view text);

}  // namespace sessiond::context

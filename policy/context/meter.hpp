// Measures how full a model's window is, one entry at a time, so that an append costs what the entry costs. A Meter
// stands for all entries from the last checkpoint's first kept one to the leaf, and the system messages before them.
//
// It takes entries in the file's order and counts them in the order of runs (run_order.hpp). Not known to it: a branch,
// a new checkpoint, and a word that goes to another place than the last one. After one of them the entries are measured
// anew, in the order of runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/context/call_book.hpp"
#include "policy/context/entry.hpp"
#include "policy/context/open_runs.hpp"
#include "policy/context/settings.hpp"

namespace sessiond::context {

// More calls that wait for their results are not remembered, the oldest are forgotten.
inline constexpr std::size_t most_open = 1'000;
// Nor are ids and names of calls that are longer, in bytes.
inline constexpr std::size_t most_remembered = 1024;
// The calls of a message are compared with others (doom_loop.hpp) if they are no more.
inline constexpr std::size_t most_compared = 64;

// Of the words that may go to another place, more are not remembered by their ids.
inline constexpr std::size_t most_loose = 64;

// Words of which a run may be handed some. Beyond most_loose the ids of the oldest are forgotten. Appends copy it, so
// ids are kept as numbers.
class LooseWords {
 public:
  struct Word {
    std::uint64_t id = 0;  // number_of()
    std::int64_t tokens = 0;
    bool put_last = false;  // it stands elsewhere once it waits no more
  };
  static std::uint64_t number_of(std::string_view id);  // the same on every machine
  void add(Word word);
  // Takes one out. Nothing: it is not among them, or its id is forgotten.
  std::optional<Word> take(std::string_view id);
  bool contains(std::string_view id) const;
  bool is_put_last(std::string_view id) const;
  std::int64_t tokens() const { return tokens_; }
  std::int64_t count() const { return count_; }
  const std::vector<Word>& known() const { return known_; }
  // Makes words go on as they were.
  static LooseWords resumed(std::vector<Word> known, std::int64_t tokens, std::int64_t count);

 private:
  std::vector<Word> known_{};
  std::int64_t tokens_ = 0, count_ = 0;
};

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
  std::int64_t messages = 0;       // since the checkpoint; neither system, synthetic, summary nor held
  std::int64_t turns = 0;          // since the checkpoint, without those of words that are held
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
  OpenRuns runs{};
  LooseWords held{};  // people's, that came while a run was under way and that no run was handed: they come last
  LooseWords last{};  // behind which nothing else has come
  // A word was handed over that stands elsewhere: what was measured is not what a view shows.
  bool misplaced = false;

  std::int64_t used() const { return reported.value_or(0) + estimated + held.tokens(); }
  // Makes it say that so many tokens are used: where it has forgotten calls, a view knows better.
  void count(std::int64_t used) { estimated += used - this->used(); }
  // Returns whether all of these words, which wait, count as the last ones, as in a view.
  bool counts_as_last(const std::vector<std::string>& waiting) const;
  std::int64_t all_messages() const { return messages + held.count(); }
  std::int64_t all_turns() const { return turns + (held.count() > 0 && !after_person ? 1 : 0); }
  // The calls were more than are remembered: a view may show results that were not counted.
  bool is_cut() const { return calls.is_cut(); }
  // Begins anew behind a checkpoint: its id and time, and the tokens of its summary.
  void begin(std::string id, std::int64_t at, std::int64_t tokens);
  // Adds an entry as a view shows it (sendable.hpp, tool_pairs.hpp), and returns what became of its results. Nothing
  // for a part of a summary. `counts_usage`: false for kept entries before the checkpoint, whose replies reported what
  // was summarised since. `put_last`: a word that came earlier, and waits.
  Taken add(std::string_view id, const Entry& entry, std::int64_t doom_count, bool counts_usage = true,
            bool put_last = false);
  // Returns the warning that is due, once no call waits for its result.
  std::optional<DoomLoop> take_doom();

 private:
  void take_note(const RunNote& note);
  void count_words(std::int64_t tokens, std::int64_t count, bool of_people);
};

// Whether so many tokens fill the window: from there on the limits of messages and turns do not count.
bool is_full(std::int64_t used, std::int64_t window, const CompactionSettings& settings);

// Whether a compaction is due, by the numbers alone, and why: "due", or "window_full"; or why not: "below_threshold",
// "too_few_messages", "too_few_turns".
struct Due {
  bool compaction = false;
  std::string_view reason = "below_threshold";
};
// `exceeded`: a provider has refused the conversation, since it was longer than the window.
Due due(const Meter& meter, std::int64_t window, const CompactionSettings& settings, bool exceeded = false);

// A meter as text, to be kept in a file, and back. Nothing if the text is not one.
std::string to_text(const Meter& meter);
std::optional<Meter> meter_of(std::string_view text);

}  // namespace sessiond::context

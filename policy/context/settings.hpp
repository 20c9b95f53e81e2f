// The numbers of this folder's rules, from the configuration keys context.* and doomLoop.*.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sessiond::context {

// A share of the window, in thousandths.
using PerMille = std::int64_t;
inline bool is_beyond(std::int64_t used, std::int64_t window, PerMille share) { return used * 1000 > window * share; }

enum class CompactionTime : std::uint8_t { both, run_start, after_turn };

struct CompactionSettings {
  CompactionTime when = CompactionTime::both;  // told by the Run that starts, or by compaction.due behind a message
  PerMille threshold = 800;                    // due from this share of the window on
  PerMille force = 950;                        // and from here on with fewer messages and turns, too
  std::int64_t min_messages = 6;               // since the last checkpoint
  std::int64_t keep_turns = 4;                 // kept behind the summary
  std::int64_t max_tokens = 4096;
  double temperature = 0.3;
};

struct PruningSettings {
  PerMille soft = 300, hard = 500;
  std::int64_t min_chars = 50'000;  // shorter results stay
  std::int64_t keep_chars = 1'500;  // at each end, when a result is trimmed
  std::int64_t keep_assistants = 3;
  std::vector<std::string> exclude_tools{"skill*"};  // in lower case; a * at the end stands for anything
};

enum class PairRule : std::uint8_t { off, warn, strict };

struct Settings {
  std::int64_t window = 200'000;
  std::map<std::string, std::int64_t, std::less<>> windows{};  // by model
  CompactionSettings compaction{};
  PruningSettings pruning{};
  std::int64_t files_per_message = 10;
  std::int64_t view_bytes = 24 << 20;  // of what a model is shown
  std::int64_t doom_count = 3;         // identical calls in a row
  bool doom_inject = true;             // append the warning, not only tell it
  PairRule pairs = PairRule::warn;
};

// How large the window is, and what says so: "query", "entry", "model" or "config".
struct Window {
  std::int64_t tokens = 0;
  const char* source = "config";
};

}  // namespace sessiond::context

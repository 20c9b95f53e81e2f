// The caps that keep an agent from working without end: maxSteps limits one run, turnCap one session.
//
// A cap is read from JSON that a client or a foreign program wrote. The `…_fault` functions say what is wrong with a
// client's value. The reading functions take any value, and one that they cannot read counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::runs {

// The largest number that is allowed; nothing: any number is.
using Cap = std::optional<std::int64_t>;

inline constexpr std::int64_t default_turn_cap = 50;
inline constexpr std::int64_t default_max_steps = 10;

// turnCap of an entry or of the configuration: a positive integer; "unlimited"; absent, 0 and null are the default.
std::optional<std::string> turn_cap_fault(std::string_view raw);
// `raw` is JSON, or empty when turnCap is absent. `fallback` of an entry is runs.turnCap.
Cap turn_cap(std::string_view raw, Cap fallback = default_turn_cap);

// maxSteps of a request or of the configuration: a positive integer; 0 is no cap; absent and null are the default.
std::optional<std::string> max_steps_fault(std::string_view raw);
// `raw` is JSON, or empty when maxSteps is absent. `fallback` of a request is runs.maxSteps.
Cap max_steps(std::string_view raw, Cap fallback = default_max_steps);

// Says whether one more turn or step, after `done` of them, is beyond the cap.
inline bool is_reached(Cap cap, std::int64_t done) { return cap && done >= *cap; }

// Says whether a run that ended counts for turnCap. An interrupted run does not, nor one that failed before its first
// step.
inline bool counts_as_turn(std::string_view status, std::int64_t steps) {
  return steps > 0 && (status == "done" || status == "failed");
}

}  // namespace sessiond::runs

// How a model is told of messages that a full queue has dropped (policy/runs/README.md):
//   [Queue overflow] Dropped 3 messages.
//   - the first of those that are told begins so
//   - and the second
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::policy {

struct OverflowText {
  std::int64_t dropped = 0;          // messages: as many as there are lines, or more
  std::vector<std::string> lines{};  // overflow_line() of each

  std::string text() const;
  // Nothing: it is another text.
  static std::optional<OverflowText> read(std::string_view text);
};

// Returns the line of a message: its first 140 code points, with a space for each newline. `text` is UTF-8.
std::string overflow_line(std::string_view text);

}  // namespace sessiond::policy

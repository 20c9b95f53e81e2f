// Counts what the entries of a transcript that is copied, or comes whole, add to the counters of its session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transcripts/counts.hpp"

namespace sessiond::transcripts {

struct EntrySums {
  Counts counts{};
  std::int64_t compactions = 0;
  std::int64_t input = 0, output = 0, total = 0;  // tokens, of the usage of assistants
  std::int64_t cost = 0;                          // microcents, of the same
  // Tokens of the prompt of the last reply. Nothing: unknown, or a compaction follows the reply.
  std::optional<std::int64_t> last_prompt{};
  // beginning_of() the first message of a person, and its entry id; empty: there is none
  std::string first_message{}, first_id{};

  void add(std::string_view line);  // an entry, without its line break
};

// Returns the first 200 code points of the text of a content (raw JSON).
std::string beginning_of(std::string_view content);

}  // namespace sessiond::transcripts

// The index of a folder of sessions: {"version":"1.0","sessions":{"<id>":{metadata as formats/json.hpp has it}},
// "updatedAt"}. It holds no messages, so an import of it only names sessions. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.hpp"

namespace sessiond::formats {

struct IndexedSession {
  std::string id{};
  std::optional<std::string> name{}, description{};
};
// The sessions of an index, in its order. validation_failed with a pointer.
Result<std::vector<IndexedSession>> read_index(std::string_view document);

inline constexpr std::string_view index_begin = R"({"version":"1.0","sessions":{)";
// A session of an index, without a comma. `message_count`, and the first message, are those of its entry.
std::string index_element(const SessionFacts& facts);
std::int64_t last_activity(std::string_view entry);  // of an entry, ms since the epoch
std::string index_end(std::int64_t updated_at);      // ms since the epoch

}  // namespace sessiond::formats

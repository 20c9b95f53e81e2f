// Mends the end of a transcript before a line is written behind it.
//
// If the last line has no newline and is an entry, it gets its newline. If it is not an entry, it was torn: it gets its
// newline too, and is an unreadable entry from then on; or it is moved to <file>.torn.<time>, which is on disk before
// the file is cut, so an interrupted call can be repeated. The caller must keep foreign programs from writing (the
// lock), and must have written what the journal has, because that completes torn lines of ours. Blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "store/problem.hpp"

namespace sessiond::transcripts {

enum class TornLine : std::uint8_t { move_aside, keep };
struct MendedEnd {
  std::uint64_t offset = 0;      // of the last line
  std::uint64_t bytes = 0;       // of the last line
  std::filesystem::path torn{};  // where it was moved to; empty: it got its newline
};
// Returns nothing if the file ends with a newline, is empty or does not exist.
Result<std::optional<MendedEnd>> mend_end(const std::filesystem::path& path, TornLine torn = TornLine::move_aside);

}  // namespace sessiond::transcripts

// Rewrites a transcript of version 1 or 2, or with flat or bare lines, as version 3.
//
// Clients see no change: an entry keeps its seq, and the id that was derived for it is now stored. An entry
// without a parent follows the one before it. Unknown members stay, values keep their bytes, and unreadable lines stay
// as they are. What newer versions renamed is renamed: a compaction's firstKeptEntryIndex is repeated as
// firstKeptEntryId, and the role hookMessage becomes custom.
//
// The new file is on disk before it replaces the old one by rename, so an interrupted call changes nothing. Reads line
// by line. The caller must keep others from writing the file. Blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::transcripts {

struct Migration {
  std::uint64_t entries = 0;
  std::uint64_t changed = 0;    // entries; 0 with header_changed false: the file was not rewritten
  std::int64_t version = 0;     // of the old header; 0: there was none, 1: it did not say
  bool header_changed = false;  // it got a new version, or was made
};

// `session_id` is for the header if there is none. `keep` is called once, after the new file was written and before it
// replaces the old one, to keep the old one (a link or a copy). If it fails, nothing has changed.
Result<Migration> migrate_transcript(const std::filesystem::path& path, std::string_view session_id,
                                     const std::function<Result<void>()>& keep);

// Returns one line of a transcript of `version` as version 3 has it, or the line itself if it needs no change.
// `parent_id` is the id of the entry before, or "". Without newline.
std::string migrate_line(std::string_view line, std::uint64_t seq, std::string_view parent_id, std::int64_t version);

}  // namespace sessiond::transcripts

// Transcripts of versions 1 and 2, and flat or bare lines (FORMATS §4), written as version 3. Nothing that is served
// changes: an entry has the seq it had and the id that was derived for it while reading, now stored; entries without a
// parent follow the one before them. Members that we do not know stay, values keep their bytes, lines that cannot be
// read stay as they are. What versions 2 and 3 renamed is renamed: a compaction's firstKeptEntryIndex names its entry
// in firstKeptEntryId as well, and the role hookMessage is custom.
// The new file is written beside, on disk before it takes the old one's place by rename: interrupted anywhere, the old
// one stands there. Reads line by line. Blocks; nobody may write the file meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond {

struct Migration {
  std::uint64_t entries = 0;
  std::uint64_t changed = 0;    // of them; 0 and no header changed: the file is as it was
  std::int64_t version = 0;     // that the header had: 0 where there was none, 1 where it did not say
  bool header_changed = false;  // its version, or it was made
};

// `session_id` is for a header where there is none. `keep` is called once, when the new file is written and before it
// is put in place: it keeps the old one (by a link to it, or a copy); when it fails nothing has changed.
Result<Migration> migrate_transcript(const std::filesystem::path& path, std::string_view session_id,
                                     const std::function<Result<void>()>& keep);

// One line of a transcript of `version` as version 3 has it; the line itself where it needs no change. `parent_id` is
// that of the entry before, or "". Without newline.
std::string migrate_line(std::string_view line, std::uint64_t seq, std::string_view parent_id, std::int64_t version);

}  // namespace sessiond

// Sessions of the Codex CLI: ~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl and ~/.codex/archived_sessions.
// OTHER_PROGRAMS.md says what becomes what. Blocks.
#pragma once

#include <filesystem>

#include "formats/reader.hpp"

namespace sessiond::formats {

// `root`: ~/.codex, a folder of rollouts, or one file.
Result<void> read_codex(const std::filesystem::path& root, Sink& sink);

}  // namespace sessiond::formats

// Sessions of Goose: ~/.local/share/goose/sessions, as sessions.db (since version 1.10) and as one .jsonl file each
// (before). OTHER_PROGRAMS.md says what becomes what. Blocks.
#pragma once

#include <filesystem>

#include "formats/reader.hpp"

namespace sessiond::formats {

// `root`: ~/.local/share/goose, its folder sessions, or one file. A session that is in the database and in a .jsonl
// file is read from the database.
Result<void> read_goose(const std::filesystem::path& root, Sink& sink);

}  // namespace sessiond::formats

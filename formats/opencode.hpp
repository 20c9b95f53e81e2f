// Sessions of opencode: ~/.local/share/opencode, as opencode.db (since version 1.2) and as the folder storage (before).
// OTHER_PROGRAMS.md says what becomes what. Blocks.
#pragma once

#include <filesystem>

#include "formats/reader.hpp"

namespace sessiond::formats {

// `root`: ~/.local/share/opencode, its folder storage, or a database file. A session that is in the database and in the
// folder is read from the database.
Result<void> read_opencode(const std::filesystem::path& root, Sink& sink);

}  // namespace sessiond::formats

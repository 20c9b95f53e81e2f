// Where `sessiond import` reads sessions from. A further program is one more row in import_sources.cpp: its name, and
// the function of formats/ that reads its store.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "formats/reader.hpp"

namespace sessiond::cli {

struct ImportSource {
  std::string_view name;
  std::string_view about;  // what the path names
  // Reads a file or a folder, one session at a time.
  Result<void> (*read)(const std::filesystem::path& path, formats::Sink& sink);
};
std::span<const ImportSource> import_sources();

// Returns the source of this name, or, when it is empty, the one that the path looks like. A path that is in no known
// format is a problem that names the formats.
Result<const ImportSource*> import_source(std::string_view name, const std::filesystem::path& path);

}  // namespace sessiond::cli

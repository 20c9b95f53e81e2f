// Archived transcripts. A reset or deletion destroys nothing: it renames a session's files.
//   x.jsonl -> x.jsonl.reset.2026-02-21T21-31-50.885Z   (ISO time with '-' for ':'), or .deleted. or .pruned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"
#include "store/seal/sealed.hpp"

namespace sessiond::transcripts {

// Beside the archives of a session that ended stands its entry of sessions.json, one line of JSON:
//   x.jsonl.reset.2026-02-21T21-31-50.885Z.entry
inline constexpr std::string_view entry_suffix = ".entry";

// Where such an entry is sealed: in the file of this path.
seal::Place entry_place(std::string_view path);

// Returns what the archives of one event have in common: ".deleted.<time>". "" if `name` is no archive or its entry.
std::string_view archive_ending(std::string_view name);

// `reason` is "reset", "deleted" or "pruned" (by maintenance).
std::string archive_name(std::string_view file, std::string_view reason, std::int64_t time_ms);

// Renames `file` to `archived` within `dir` and never replaces a file. The rename is durable after sync_dir(dir), which
// many renames can share. Returns false if there is no such file: recovery may repeat a rename. A Problem if both
// exist, or if a name is not a plain file name. Blocks.
Result<bool> archive(const std::filesystem::path& dir, std::string_view file, std::string_view archived);

// Tells by its name what a file in a sessions folder is.
struct NamedFile {
  enum class Kind : std::uint8_t { transcript, archive, aside };  // aside: a part of a transcript that a repair kept
  Kind kind = Kind::transcript;
  std::string_view stem{};  // <session id> or <session id>-topic-<topic>
  std::int64_t time = 0;    // of an archive: ms since the epoch

  bool is_of(std::string_view session_id) const;
};
// Returns nothing for all other files: the store, locks, temporary files.
std::optional<NamedFile> parse_file_name(std::string_view name);

// Returns whether a folder holds sessions.json or a transcript. If not, it may be where a volume is to be mounted.
// Blocks.
bool holds_sessions(const std::filesystem::path& folder);

// Lists the archived transcripts of a session and its topics, sorted by name. An absent folder has none. Blocks.
Result<std::vector<std::string>> list_archives(const std::filesystem::path& dir, std::string_view session_id);

}  // namespace sessiond::transcripts

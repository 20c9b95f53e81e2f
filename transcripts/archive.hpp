// Archived transcripts: a reset or deletion renames a session's files, it destroys nothing (FORMATS "On-disk formats").
//   x.jsonl -> x.jsonl.reset.2026-02-21T21-31-50.885Z   (ISO time, ':' as '-'); `.deleted.` likewise
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

std::string archive_name(std::string_view file, std::string_view reason, std::int64_t time_ms);  // "reset" | "deleted"

// Renames `file` to `archived` within `dir`; never replaces. Durable after a sync of `dir` (sync_dir), of which many
// renames need one. False when there is no such file: it is done already, as when recovery repeats it. A Problem when
// both exist, and when a name is not a plain file name.
Result<bool> archive(const std::filesystem::path& dir, std::string_view file, std::string_view archived);

// What a file in a sessions folder is, by its name alone.
struct NamedFile {
  enum class Kind : std::uint8_t { transcript, archive, aside };  // aside: what a repair kept of a transcript
  Kind kind = Kind::transcript;
  std::string_view stem{};  // <session id> or <session id>-topic-<topic>
  std::int64_t time = 0;    // of an archive: ms since the epoch

  bool is_of(std::string_view session_id) const;
};
// Nothing for what is none of these: the store, locks, temporary files.
std::optional<NamedFile> parse_file_name(std::string_view name);

// The archived transcripts of a session, topics included, by name. An absent directory has none.
Result<std::vector<std::string>> list_archives(const std::filesystem::path& dir, std::string_view session_id);

}  // namespace sessiond

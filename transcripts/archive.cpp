#include "transcripts/archive.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/names.hpp"
#include "store/new_file.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/sealed_lines.hpp"

namespace sessiond::transcripts {
namespace fs = std::filesystem;
namespace {

bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && !name.contains('/') && !name.contains('\0');
}

struct ArchivedFile {
  std::string_view file;  // name of the transcript; empty: not an archive
  std::int64_t time = 0;
};

// <file>.reset.<time> | <file>.deleted.<time> | <file>.pruned.<time>
ArchivedFile archived_file(std::string_view name) {
  for (const std::string_view infix : {".jsonl.reset.", ".jsonl.deleted.", ".jsonl.pruned."}) {
    const std::size_t at = name.rfind(infix);
    if (at == std::string_view::npos) continue;
    std::string time(name.substr(at + infix.size()));
    for (const std::size_t colon : {13U, 16U})
      if (time.size() > colon && time[colon] == '-') time[colon] = ':';
    if (const auto ms = parse_iso_time(time)) return {name.substr(0, at + std::string_view(".jsonl").size()), *ms};
  }
  return {};
}

}  // namespace

std::string archive_name(std::string_view file, std::string_view reason, std::int64_t time_ms) {
  std::string time = iso_time(time_ms);
  std::ranges::replace(time, ':', '-');
  return fmt::format("{}.{}.{}", file, reason, time);
}

seal::Place entry_place(std::string_view path) { return {seal_scope(path), header_seq - 1}; }

std::string_view archive_ending(std::string_view name) {
  if (name.ends_with(entry_suffix)) name.remove_suffix(entry_suffix.size());
  const ArchivedFile archived = archived_file(name);
  return archived.file.empty() ? std::string_view() : name.substr(archived.file.size());
}

Result<bool> archive(const fs::path& dir, std::string_view file, std::string_view archived) {
  for (const std::string_view name : {file, archived})
    if (!is_file_name(name)) return fail(Code::invalid_id, fmt::format("\"{}\" is not a file name", name));
  const fs::path from = dir / file;
  const fs::path to = dir / archived;
  const bool renamed = store::rename_without_replacing(from, to) == 0;
  if (!renamed && errno == EEXIST)
    return fail(Code::internal, fmt::format("archive {}: {} already exists", from.native(), to.native()));
  if (!renamed && errno != ENOENT) return io_fail("archive", from.native());
  if (renamed) store::fault_point("archive.renamed");
  return renamed;
}

bool NamedFile::is_of(std::string_view session_id) const {
  if (!stem.starts_with(session_id)) return false;
  return stem.size() == session_id.size() || stem.substr(session_id.size()).starts_with("-topic-");
}

bool holds_sessions(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name == "sessions.json" || name.contains(".jsonl")) return true;
  }
  // One that cannot be listed is there: what reads it says why.
  return error && error != std::errc::no_such_file_or_directory;
}

std::optional<NamedFile> parse_file_name(std::string_view name) {
  constexpr std::string_view extension = ".jsonl";
  if (store::is_passing(name) || name.ends_with(entry_suffix)) return {};
  if (const ArchivedFile archived = archived_file(name); !archived.file.empty())
    return NamedFile{NamedFile::Kind::archive, archived.file.substr(0, archived.file.size() - extension.size()),
                     archived.time};
  if (name.ends_with(extension))
    return NamedFile{NamedFile::Kind::transcript, name.substr(0, name.size() - extension.size())};
  const std::size_t at = name.rfind(".jsonl.");
  if (at == std::string_view::npos) return {};
  return NamedFile{NamedFile::Kind::aside, name.substr(0, at)};
}

Result<std::vector<std::string>> list_archives(const fs::path& dir, std::string_view session_id) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(dir, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  const std::string own = store::transcript_file(session_id, "");
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::string name = at->path().filename().native();
    const std::string_view file = archived_file(name).file;
    if (!file.empty() && (file == own || store::topic_of_file(session_id, file))) names.push_back(std::move(name));
  }
  if (error) return std::unexpected(io_problem("list", dir.native(), error.value()));
  std::ranges::sort(names);
  return names;
}

}  // namespace sessiond::transcripts

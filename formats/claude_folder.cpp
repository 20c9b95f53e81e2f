// Writes conversations into the folder of Claude Code.
#include <fmt/format.h>

#include "formats/claude_code.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::formats {

namespace fs = std::filesystem;

Result<void> ClaudeCodeFolder::begin(SessionHead head) {
  if (!head.topic || head.id != head_.id) cwd_.clear();
  head_ = std::move(head);
  file_.reset();
  is_empty_ = true;
  for (const std::string_view from : {std::string_view(head_.entry), std::string_view(head_.header)})
    if (cwd_.empty()) cwd_ = json::string_at(from, "cwd").value_or("");
  if (!options().cwd.empty()) cwd_ = options().cwd;
  if (!cwd_.starts_with('/')) {
    skip({.id = head_.key, .why = "its transcript names no working directory: give one with --cwd"});
    return {};
  }
  lines_.emplace(head_.topic ? fmt::format("{}-topic-{}", head_.id, *head_.topic) : head_.id, cwd_);
  const fs::path file = options().dir / lines_->path();
  if (!options().replaces && store::stat_of(file)) {
    skip({.id = head_.key, .why = file.native() + ": is there already"});
    return {};
  }
  TRY(store::make_dirs(file.parent_path()));
  TRY(auto begun, store::NewFile::begin(file));
  file_.emplace(std::move(begun));
  return {};
}

Result<void> ClaudeCodeFolder::put(const std::string& line) {
  if (!file_) return {};
  const std::string lines = lines_->lines(line);
  is_empty_ = is_empty_ && lines.empty();
  return file_->write(lines);
}

Result<void> ClaudeCodeFolder::place() {
  if (!file_) return {};
  store::NewFile file = *std::exchange(file_, std::nullopt);
  if (is_empty_) {
    skip({.id = head_.key, .why = "has no messages"});
    return {};
  }
  const auto placed =
      file.place(options().replaces ? store::NewFile::IfThere::is_replaced : store::NewFile::IfThere::stays);
  if (!placed && placed.error().code != Code::session_exists) return placed;
  if (!placed) {
    skip({.id = head_.key, .why = placed.error().detail});
    return {};
  }
  for (const auto& [kind, count] : lines_->left_out()) left_out()[kind] += count;
  tell_written(head_.topic ? fmt::format("{} topic {}", head_.key, *head_.topic) : head_.key,
               options().dir / lines_->path());
  return {};
}

}  // namespace sessiond::formats

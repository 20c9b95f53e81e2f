#include "formats/folder_writer.hpp"

#include <fmt/format.h>

#include "formats/claude_code.hpp"
#include "formats/openclaw.hpp"

namespace sessiond::formats {

Result<void> FolderWriter::session(SessionHead head) {
  left_out_.clear();
  is_whole_ = false;
  id_ = head.id;
  return begin(std::move(head));
}

Result<void> FolderWriter::entry(std::string line) {
  auto last = read_end(line);
  if (!last) return put(line);
  is_whole_ = true;
  left_out_ = std::move(last->left_out);
  more_ = last->more;
  return {};
}

Result<void> FolderWriter::end() {
  if (!is_whole_) return fail(Code::session_reset, fmt::format("the conversation of session {} broke off", id_));
  return place();
}

Result<void> FolderWriter::end_session() const {
  if (more_ == 0) return {};
  return fail(Code::session_reset, fmt::format("{} topics of session {} could not be read", more_, id_));
}

void FolderWriter::skip(Skipped skipped) {
  ++skipped_;
  if (options_.on_skip) options_.on_skip(skipped);
}

void FolderWriter::tell_written(const std::string& session, const std::filesystem::path& file) {
  ++written_;
  if (options_.on_file) options_.on_file(session, file);
  std::string text;
  for (const auto& [kind, count] : left_out_) text += fmt::format("{}{} × {}", text.empty() ? "" : ", ", count, kind);
  if (!text.empty() && options_.on_left_out) options_.on_left_out(session, text);
}

std::unique_ptr<FolderWriter> folder_writer(std::string_view program, FolderOptions options) {
  if (program == "claude-code") return std::make_unique<ClaudeCodeFolder>(std::move(options));
  if (program == "openclaw") return std::make_unique<OpenclawFolder>(std::move(options));
  return nullptr;
}

}  // namespace sessiond::formats

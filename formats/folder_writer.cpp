#include "formats/folder_writer.hpp"

#include <fmt/format.h>

#include "formats/claude_code.hpp"
#include "formats/openclaw.hpp"

namespace sessiond::formats {

void FolderWriter::skip(Skipped skipped) {
  ++skipped_;
  if (options_.on_skip) options_.on_skip(skipped);
}

void FolderWriter::tell_written(const std::string& session, const std::filesystem::path& file) {
  ++written_;
  if (options_.on_file) options_.on_file(session, file);
}

void FolderWriter::tell_left_out(const std::string& session, const LeftOut& counts) {
  std::string text;
  for (const auto& [kind, count] : counts) text += fmt::format("{}{} × {}", text.empty() ? "" : ", ", count, kind);
  if (!text.empty() && options_.on_left_out) options_.on_left_out(session, text);
}

std::unique_ptr<FolderWriter> folder_writer(std::string_view program, FolderOptions options) {
  if (program == "claude-code") return std::make_unique<ClaudeCodeFolder>(std::move(options));
  if (program == "openclaw") return std::make_unique<OpenclawFolder>(std::move(options));
  return nullptr;
}

}  // namespace sessiond::formats

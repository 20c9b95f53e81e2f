// Sessions of Claude Code: ~/.claude/projects/<folder>/<sessionId>.jsonl, and those of its subagents. OTHER_PROGRAMS.md
// says what becomes what. Blocks.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "formats/foreign.hpp"
#include "formats/reader.hpp"

namespace sessiond::formats {

// `root`: ~/.claude, its folder projects, the folder of one project, or one file.
Result<void> read_claude_code(const std::filesystem::path& root, Sink& sink);

// Writes a transcript as the file of a session that `claude --resume` continues, entry by entry.
class ClaudeCodeFile {
 public:
  // `cwd`: the folder that Claude Code is started in; it lists the sessions of that folder.
  ClaudeCodeFile(std::string_view session_id, std::string cwd);
  const std::string& session_id() const { return session_id_; }  // a UUID: the session's own, or one derived of it
  std::filesystem::path path() const;  // below ~/.claude: projects/<folder>/<session id>.jsonl
  // The lines, with line breaks, that an entry of the transcript becomes; "" for one that Claude Code has no use for.
  // Branches stay: an entry's line names that of its parent.
  std::string lines(std::string_view entry);

 private:
  std::string head(std::string_view type, std::string_view id, std::string_view time);
  std::string user_line(std::string_view message, std::string_view id, std::string_view time);
  std::string assistant_line(std::string_view message, std::string_view id, std::string_view time);
  std::string result_line(std::string_view message, std::string_view id, std::string_view time);
  std::string compaction_lines(std::string_view entry, std::string_view id, std::string_view time);
  std::string written(std::string_view entry, std::string_view id, std::string_view time);
  std::string uuid_of(std::string_view id) const;

  std::string session_id_;
  std::string cwd_;
  std::string parent_{};  // uuid of the line that the next one follows
  std::map<std::string, std::string, std::less<>>
      lines_{};  // by entry: uuid of its line, or of the nearest one before it
};

}  // namespace sessiond::formats

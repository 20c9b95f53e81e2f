// Sessions of Claude Code: ~/.claude/projects/<folder>/<sessionId>.jsonl, and those of its subagents. OTHER_PROGRAMS.md
// says what becomes what. Blocks.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/folder_writer.hpp"
#include "formats/foreign.hpp"
#include "formats/reader.hpp"
#include "store/new_file.hpp"

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
  // What the file does not have, by kind: "thinking" 3.
  const std::map<std::string, std::size_t, std::less<>>& left_out() const { return left_out_; }

 private:
  std::string blocks_of(std::string_view content);
  void leave_out(std::string_view kind) { ++left_out_[std::string(kind)]; }
  std::string head(std::string_view type, std::string_view id, std::string_view time);
  std::string user_line(std::string_view message, std::string_view id, std::string_view time);
  std::string assistant_line(std::string_view message, std::string_view id, std::string_view time);
  std::string result_line(std::string_view message, std::string_view id, std::string_view time);
  std::string compaction_lines(std::string_view entry, std::string_view id, std::string_view time);
  std::string note_line(std::string_view type, std::string_view entry, std::string_view id, std::string_view time);
  std::string preserved(std::string_view kept_entry, std::string_view id) const;
  std::string written(std::string_view entry, std::string_view id, std::string_view time);
  std::string uuid_of(std::string_view id) const;

  std::string session_id_;
  std::string cwd_;
  std::string parent_{};              // uuid of the line that the next one follows
  std::vector<std::string> uuids_{};  // of all lines
  std::size_t behind_summary_ = 0;    // the first of them behind the last summary
  // The lines of an entry, by their numbers: `first` is the next one if it has none.
  struct Lines {
    std::size_t first = 0, end = 0;
  };
  std::map<std::string, Lines, std::less<>> lines_{};
  std::map<std::string, std::size_t, std::less<>> left_out_{};
};

// Writes conversations as files of Claude Code, below ~/.claude or a folder like it: each session and each topic is
// one, in projects/<folder of its working directory>. A session without a working directory is skipped.
class ClaudeCodeFolder final : public FolderWriter {
 public:
  using FolderWriter::FolderWriter;

 private:
  Result<void> begin(SessionHead head) override;
  Result<void> put(const std::string& line) override;
  Result<void> place() override;

  SessionHead head_{};
  std::string cwd_{};
  std::optional<ClaudeCodeFile> lines_{};
  std::optional<store::NewFile> file_{};  // nothing: the session is skipped
  bool is_empty_ = true;
};

}  // namespace sessiond::formats

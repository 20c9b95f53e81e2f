// Sessions of OpenClaw: agents/<agent>/agent/openclaw-agent.sqlite (since version 2026.8), and agents/<agent>/sessions
// with sessions.json and one .jsonl file a transcript (before). OTHER_PROGRAMS.md says what is taken. Blocks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "formats/folder_writer.hpp"
#include "store/json/raw_json.hpp"
#include "store/new_file.hpp"

namespace sessiond::formats {

// `root`: ~/.openclaw, its folder agents, the folder of one agent, or one database. An agent that has a database is
// read from it alone.
Result<void> read_openclaw(const std::filesystem::path& root, Sink& sink);

// Writes conversations of one agent as OpenClaw kept them before version 2026.8, into <dir>/agents/<agent>/sessions.
// Later versions import that folder: `openclaw doctor --fix`. A sessions.json that is there stays, and nothing is
// written, unless files may be replaced: then it keeps the entries of other keys.
class OpenclawFolder final : public FolderWriter {
 public:
  using FolderWriter::FolderWriter;
  Result<void> finish() override;  // writes sessions.json

 private:
  Result<void> begin(SessionHead head) override;
  Result<void> put(const std::string& line) override;
  Result<void> place() override;
  Result<void> begin_folder();

  std::filesystem::path sessions_{};  // empty: nothing came yet
  json::Edit entries_{};
  SessionHead head_{};
  bool lost_ = false;                     // the session that is being read is not written
  std::optional<store::NewFile> file_{};  // the transcript that is being written
};

}  // namespace sessiond::formats

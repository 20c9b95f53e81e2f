// Sessions of OpenClaw: agents/<agent>/agent/openclaw-agent.sqlite (since version 2026.8), and agents/<agent>/sessions
// with sessions.json and one .jsonl file a transcript (before). OTHER_PROGRAMS.md says what is taken. Blocks.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "formats/reader.hpp"

namespace sessiond::formats {

// `root`: ~/.openclaw, its folder agents, the folder of one agent, or one database. An agent that has a database is
// read from it alone.
Result<void> read_openclaw(const std::filesystem::path& root, Sink& sink);

// Writes sessions of one agent as OpenClaw kept them before version 2026.8, into <dir>/agents/<agent>/sessions. Later
// versions import that folder: `openclaw doctor --fix`.
class OpenclawFolder {
 public:
  // already_there is `session_exists`: the folder has a sessions.json, or a transcript of a session's name.
  static Result<OpenclawFolder> create(const std::filesystem::path& dir, std::string_view agent);
  // Writes a session. `key`: its whole key; `entry`: its entry of sessions.json, a JSON object with a sessionId;
  // `lines`: the transcript with its header, every line ended; "": it has none.
  Result<void> add(std::string_view key, std::string_view entry, std::string_view lines);
  Result<void> finish();  // writes sessions.json

 private:
  std::filesystem::path sessions_{};
  std::string entries_{};
};

}  // namespace sessiond::formats

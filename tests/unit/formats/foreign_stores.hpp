// Stores of other programs for tests: those of tests/data, and databases made of SQL.
#pragma once

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "formats/claude_code.hpp"
#include "formats/codex.hpp"
#include "formats/goose.hpp"
#include "formats/openclaw.hpp"
#include "formats/opencode.hpp"
#include "sink.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "tests/unit/temp_dir.hpp"

namespace sessiond::testing {

inline const std::filesystem::path foreign_data = std::filesystem::path(SESSIOND_SOURCE_DIR) / "tests/data";

inline std::string text_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct CloseDatabase {
  void operator()(sqlite3* database) const { ::sqlite3_close_v2(database); }
};
using OpenDatabase = std::unique_ptr<sqlite3, CloseDatabase>;

// Runs SQL on a database, and returns it open.
inline OpenDatabase run_sql(const std::filesystem::path& file, const std::string& sql) {
  std::filesystem::create_directories(file.parent_path());
  sqlite3* opened = nullptr;
  REQUIRE(::sqlite3_open(file.c_str(), &opened) == SQLITE_OK);
  OpenDatabase database(opened);
  char* error = nullptr;
  ::sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, &error);
  REQUIRE_MESSAGE(error == nullptr, error);
  return database;
}

using ReadStore = Result<void> (*)(const std::filesystem::path&, formats::Sink&);

// A store of each program, in `dir`, with what its programs wrote (tests/data/README.md).
struct ForeignStore {
  const char* program;
  ReadStore read;
  std::filesystem::path root;
};
inline std::vector<ForeignStore> foreign_stores(const TempDir& dir) {
  run_sql(dir / "opencode/opencode.db", text_of_file(foreign_data / "opencode/opencode.sql"));
  run_sql(dir / "openclaw/agents/main/agent/openclaw-agent.sqlite",
          text_of_file(foreign_data / "openclaw/openclaw-agent.sql"));
  run_sql(dir / "goose/sessions/sessions.db", text_of_file(foreign_data / "goose/sessions.sql"));
  std::filesystem::copy(foreign_data / "goose/sessions", dir / "goose/sessions",
                        std::filesystem::copy_options::recursive);
  return {{"claude-code", formats::read_claude_code, foreign_data / "claude-code"},
          {"codex", formats::read_codex, foreign_data / "codex"},
          {"opencode", formats::read_opencode, dir / "opencode"},
          {"openclaw", formats::read_openclaw, dir / "openclaw"},
          {"goose", formats::read_goose, dir / "goose"}};
}

inline CollectingSink collected(ReadStore read, const std::filesystem::path& root) {
  CollectingSink sink;
  const auto done = read(root, sink);
  CHECK_MESSAGE(done.has_value(), (done ? "" : done.error().detail));
  return sink;
}

// The entries from the first to the last one by parentId.
inline std::vector<std::string> path_to_leaf(const CollectedSession& session) {
  std::map<std::string, std::string> lines;
  for (const std::string& line : session.lines) lines[*json::string_at(line, "id")] = line;
  std::vector<std::string> path;
  if (session.lines.empty()) return path;
  std::string at = *json::string_at(session.lines.back(), "id");
  while (!at.empty()) {
    path.insert(path.begin(), lines[at]);
    at = json::string_at(lines[at], "parentId").value_or("");
  }
  return path;
}

// "user assistant toolResult compaction …" of the messages and compactions among lines.
inline std::string roles_of(const std::vector<std::string>& lines) {
  std::string roles;
  for (const std::string& line : lines) {
    std::string said = *json::string_at(line, "type");
    if (said == "message")
      said = *json::string_at(*json::find(line, "message"), "role");
    else if (said != "compaction")
      continue;
    roles.append(roles.empty() ? "" : " ").append(said);
  }
  return roles;
}

}  // namespace sessiond::testing

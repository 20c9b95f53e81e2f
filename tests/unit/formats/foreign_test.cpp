// What holds of every reader of another program's store.
#include <fmt/format.h>

#include "foreign_stores.hpp"
#include "transcripts/entry.hpp"

using namespace sessiond;
using namespace sessiond::testing;

namespace {

// Every file below a folder with its bytes.
std::map<std::string, std::string> files_below(const std::filesystem::path& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir))
    if (entry.is_regular_file()) files[entry.path().native()] = text_of_file(entry.path());
  return files;
}

}  // namespace

TEST_CASE("every line is an entry that can be appended, with an id of its own and a parent that stands before it") {
  const TempDir dir;
  for (const ForeignStore& store : foreign_stores(dir)) {
    INFO(store.program);
    const CollectingSink sink = collected(store.read, store.root);
    CHECK(sink.skips.empty());
    REQUIRE(!sink.sessions.empty());
    for (const CollectedSession& session : sink.sessions) {
      CHECK(session.ended);
      CHECK(store::check_new_session_id(session.head.id));
      CHECK(json::check(session.head.entry));
      CHECK(json::string_at(session.head.header, "id") == session.head.id);
      CHECK(json::int_at(session.head.header, "version") == 3);
      std::set<std::string> ids;
      for (const std::string& line : session.lines) {
        INFO(line);
        CHECK(line.find('\n') == std::string::npos);
        CHECK(json::check(line, {.utf8 = true}));
        const auto entry = transcripts::parse_entry(line, "");
        REQUIRE_MESSAGE(entry.has_value(), (entry ? "" : entry.error().detail));
        CHECK(entry->time);
        const std::string parent = json::string_at(line, "parentId").value_or("");
        CHECK((parent.empty() || ids.contains(parent)));
        CHECK(ids.insert(entry->id).second);
      }
    }
  }
}

TEST_CASE("a second reading gives the same bytes, and nothing is written") {
  const TempDir dir;
  for (const ForeignStore& store : foreign_stores(dir)) {
    INFO(store.program);
    const auto before = files_below(store.root);
    const std::string first = collected(store.read, store.root).text();
    CHECK(collected(store.read, store.root).text() == first);
    CHECK(files_below(store.root) == before);
  }
}

TEST_CASE("a call's result names it, the model's tokens are known, pictures and thoughts come along") {
  const TempDir dir;
  for (const ForeignStore& store : foreign_stores(dir)) {
    INFO(store.program);
    const std::string text = collected(store.read, store.root).text();
    if (std::string(store.program) != "openclaw") {  // this run called no tool
      CHECK(text.contains(R"("type":"toolCall")"));
      CHECK(text.contains(R"("role":"toolResult")"));
      CHECK(text.contains("out42"));
      CHECK(!text.contains(R"("toolName":"")"));
      CHECK(text.contains(R"("mimeType":"image/png")"));
    }
    if (std::string(store.program) != "goose") {  // it does not store them
      CHECK(text.contains(R"("usage":{)"));
      CHECK(text.contains(R"("output":7)"));
    }
  }
}

TEST_CASE("a database that its program has open is read, with what is only in its write-ahead log") {
  const TempDir dir;
  const auto file = dir / "sessions.db";
  const auto open = run_sql(file, "PRAGMA journal_mode=WAL;" + text_of_file(foreign_data / "goose/sessions.sql"));
  const CollectingSink sink = collected(formats::read_goose, file);
  REQUIRE(sink.sessions.size() == 1);
  CHECK(sink.sessions.front().lines.size() == 8);
}

TEST_CASE("a database in WAL mode that nobody has open gets no file beside it") {
  const TempDir dir;
  run_sql(dir / "sessions.db", "PRAGMA journal_mode=WAL;" + text_of_file(foreign_data / "goose/sessions.sql"));
  CHECK(files_below(dir.path()).size() == 1);
  CHECK(collected(formats::read_goose, dir / "sessions.db").sessions.size() == 1);
  CHECK(files_below(dir.path()).size() == 1);
}

TEST_CASE("a database that is damaged, cut off, empty, a folder or another program's is a named error") {
  const TempDir dir;
  run_sql(dir / "whole.db", text_of_file(foreign_data / "opencode/opencode.sql"));
  const std::string bytes = dir.read("whole.db");
  std::string flipped = bytes;
  flipped.replace(0, 6, "sqlite");
  dir.write("flipped.db", flipped);
  std::string scrambled = bytes;
  for (std::size_t at = 4096; at + 64 < scrambled.size(); at += 512) scrambled.replace(at, 64, std::string(64, '\xff'));
  dir.write("scrambled.db", scrambled);
  dir.write("cut.db", bytes.substr(0, bytes.size() / 2));
  dir.write("empty.db", "");
  run_sql(dir / "other.db", "CREATE TABLE x (y);");
  std::filesystem::create_directory(dir / "folder.db");
  for (const char* name : {"flipped.db", "scrambled.db", "cut.db", "empty.db", "other.db", "folder.db", "absent.db"})
    for (const ReadStore read : {formats::read_goose, formats::read_opencode, formats::read_openclaw}) {
      INFO(name);
      CollectingSink sink;
      const auto done = read(dir / name, sink);
      if (std::string(name) == "folder.db" && done) continue;  // a folder without sessions
      REQUIRE(!done.has_value());
      CHECK(done.error().detail.contains(name));
    }
}

TEST_CASE("a root that is not there is an error, an empty folder holds nothing") {
  const TempDir dir;
  for (const ForeignStore& store : foreign_stores(dir)) {
    CollectingSink sink;
    CHECK(!store.read(dir / "absent", sink));
    std::filesystem::create_directories(dir / "empty");
    (void)store.read(dir / "empty", sink);
    CHECK(sink.sessions.empty());
  }
}

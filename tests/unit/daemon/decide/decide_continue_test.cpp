#include <fmt/format.h>

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

std::string line_of(std::string_view id, std::string_view parent, std::string_view more = "") {
  return R"({"type":"message","id":")" + std::string(id) + R"(","parentId":")" + std::string(parent) +
         R"(","timestamp":"2026-11-21T21:00:00.000Z","message":{"role":"user","content":")" + std::string(id) + "\"" +
         std::string(more) + "}}";
}

ContinueTranscript go_on(const std::vector<std::string>& lines, const std::optional<std::string>& topic = {}) {
  ContinueTranscript command{.target = {.key = main_key}, .session_id = "s1", .topic = topic};
  command.header = R"({"type":"session","version":3,"id":"s1"})";
  for (const std::string& line : lines) command.lines.push_back(imported_line(line));
  return command;
}

World with_session() {
  World world;
  world.run(CreateSession{.key = main_key, .session_id = "s1"});
  return world;
}

}  // namespace

TEST_CASE("an imported transcript goes on with what it does not have") {
  World world = with_session();
  const std::vector<std::string> first{line_of("a", "x"), line_of("b", "a")};
  CHECK(at(world.run(go_on(first)).body, "appended") == "2");
  CHECK(at(world.run(go_on(first)).body, "appended") == "0");
  const std::vector<std::string> grown{line_of("b", "a"), line_of("c", "b", R"(,"usage":{"input":1,"output":2})")};
  CHECK(at(world.run(go_on(grown)).body, "appended") == "1");
  CHECK(world.entries("s1.jsonl") == std::vector{first[0], first[1], grown[1]});
  CHECK(world.lines("s1.jsonl").front() == R"({"type":"session","version":3,"id":"s1"})");
  const Session* session = world.state.find_key(main_key);
  CHECK(at(*session->entry(), "messageCount") == "3");
  CHECK(session->updated_at == world.now);  // the entries are older than the session
}

TEST_CASE("entries are stored as they are, also those that cannot be read") {
  World world = with_session();
  const std::vector<std::string> odd{line_of("a", "x"), "not JSON", R"({ "type" : "theirs", "id":"b" })", ""};
  world.run(go_on(odd));
  CHECK(world.entries("s1.jsonl") == odd);
  CHECK(world.run(go_on(odd)).events.empty());
}

TEST_CASE("lines without an id belong to the entry before them") {
  World world = with_session();
  world.run(go_on({line_of("a", "x"), "one"}));
  world.run(go_on({"one", line_of("a", "x"), "one", line_of("b", "a"), "two"}));
  CHECK(world.entries("s1.jsonl") == std::vector<std::string>{line_of("a", "x"), "one", line_of("b", "a"), "two"});
}

TEST_CASE("bytes that are not UTF-8 are repaired before they are journaled") {
  World world = with_session();
  world.run(go_on({"bad \xff"}));
  CHECK(world.entries("s1.jsonl") == std::vector<std::string>{"bad \xEF\xBF\xBD"});
}

TEST_CASE("the entry forgets the first message when an edit or a deletion of it comes later") {
  for (const char* what : {"sessiond.edit", "sessiond.delete", "sessiond.reaction"}) {
    World world = with_session();
    world.run(go_on({line_of("a", "x"), line_of("b", "a")}));
    json::Edit edit;
    edit.put_string("firstMessage", "a");
    edit.put_string("firstMessageId", "a");
    world.run(PutSession{.target = {.key = main_key}, .entry = edit});
    const auto change = [what](std::string_view id) {
      return fmt::format(
          R"({{"type":"custom","id":"c{0}","parentId":"b","customType":"{1}","data":{{"target":{{"sessionId":"s1","id":"{0}"}},"emoji":"x","text":"new"}}}})",
          id, what);
    };
    world.run(go_on({change("b")}));
    CHECK(at(*world.state.find_key(main_key)->entry(), "firstMessage") == R"("a")");
    world.run(go_on({change("a")}));
    CHECK(at(*world.state.find_key(main_key)->entry(), "firstMessage") ==
          (what == std::string_view("sessiond.reaction") ? R"("a")" : "-"));
  }
}

TEST_CASE("a topic goes on beside its session") {
  World world = with_session();
  world.run(go_on({line_of("a", "x")}));
  world.run(go_on({line_of("a", "x")}, "42"));
  CHECK(world.entries("s1-topic-42.jsonl").size() == 1);
  CHECK(world.entries("s1.jsonl").size() == 1);
}

TEST_CASE("another session's transcript does not go on") {
  World world = with_session();
  ContinueTranscript command = go_on({line_of("a", "x")});
  command.session_id = "s2";
  const auto refused = world.ask(command);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::session_exists);
}

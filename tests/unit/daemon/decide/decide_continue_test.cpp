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

// A reply of a model with these parts.
std::string reply(std::string_view id, std::string_view parent, const std::vector<std::string>& parts) {
  std::string content;
  for (const std::string& part : parts)
    content += fmt::format(R"({}{{"type":"text","text":"{}"}})", content.empty() ? "" : ",", part);
  return fmt::format(
      R"({{"type":"message","id":"{}","parentId":"{}","timestamp":"2026-11-21T21:00:00.000Z","message":{{"role":"assistant","content":[{}],"usage":{{"input":5,"output":2}},"responseId":"r-{}"}}}})",
      id, parent, content, id.substr(0, id.find('.')));
}

std::string note(std::string_view id, std::string_view parent) {
  return fmt::format(R"({{"type":"custom","id":"{}","parentId":"{}","customType":"claude-code.progress","data":{{}}}})",
                     id, parent);
}

// The entries as "id<parent:texts".
std::vector<std::string> short_of(const World& world) {
  std::vector<std::string> out;
  for (const std::string& line : world.entries("s1.jsonl")) {
    std::string text = json::string_at(line, "id").value_or("") + "<" + json::string_at(line, "parentId").value_or("");
    const std::string_view message = json::find(line, "message").value_or("{}");
    for (const std::string_view part : json::elements(json::find(message, "content").value_or("[]")))
      text += ":" + json::string_at(part, "text").value_or("");
    out.push_back(text);
  }
  return out;
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

TEST_CASE("a message that grew is completed by an entry of its own, and what follows it follows that") {
  World world = with_session();
  world.run(go_on({line_of("q", ""), reply("a", "q", {"1"}), note("n", "a")}));
  const std::vector<std::string> grown{line_of("q", ""), reply("a", "q", {"1", "2"}), note("n", "a")};
  CHECK(world.run(go_on(grown)).body == R"({"appended":1,"left":null})");
  CHECK(short_of(world) == std::vector<std::string>{"q<", "a<q:1", "n<a", "a.2<n:2"});
  CHECK_FALSE(world.entries("s1.jsonl").back().contains("usage"));
  CHECK(world.run(go_on(grown)).events.empty());
  const std::vector<std::string> more{reply("a", "q", {"1", "2", "3", "4"}), note("n", "a")};
  CHECK(at(world.run(go_on(more)).body, "appended") == "1");
  CHECK(at(world.run(go_on({note("m", "n")})).body, "appended") == "1");
  CHECK(at(world.run(go_on({more[0], line_of("b", "a"), line_of("c", "b")})).body, "appended") == "2");
  CHECK(short_of(world) ==
        std::vector<std::string>{"q<", "a<q:1", "n<a", "a.2<n:2", "a.3<a.2:3:4", "m<a.3", "b<a.3", "c<b"});
  CHECK(world.run(go_on({more[0], line_of("b", "a")})).events.empty());
}

TEST_CASE("what follows the entry before a further part follows the part, also in a later step") {
  for (const bool at_once : {true, false}) {
    World world = with_session();
    world.run(go_on({reply("a", "q", {"1"}), note("n", "a")}));
    std::vector<std::string> grown{reply("a", "q", {"1", "2"}), note("n", "a")};
    if (!at_once) world.run(go_on(grown));
    if (!at_once) grown.clear();
    grown.push_back(line_of("b", "n"));
    world.run(go_on(grown));
    CHECK(short_of(world) == std::vector<std::string>{"a<q:1", "n<a", "a.2<n:2", "b<a.2"});
  }
}

TEST_CASE("a message that grew where people went on is named and left, with what comes behind it") {
  World world = with_session();
  world.run(go_on({reply("a", "q", {"1"}), note("n", "a")}));
  world.run(go_on({line_of("ours", "n")}));
  const auto before = world.entries("s1.jsonl");
  CHECK(world.run(go_on({reply("a", "q", {"1", "2"}), note("n", "a"), line_of("b", "a")})).body ==
        R"({"appended":0,"left":"a"})");
  CHECK(world.entries("s1.jsonl") == before);
  // Where nothing grew, what is new is appended.
  CHECK(world.run(go_on({reply("a", "q", {"1"}), line_of("b", "a")})).body == R"({"appended":1,"left":null})");
}

TEST_CASE("a message that is another one by now stays as it is") {
  World world = with_session();
  world.run(go_on({reply("a", "q", {"1", "2"}), line_of("b", "a")}));
  for (const std::string& other : {reply("a", "q", {"1"}), reply("a", "q", {"x", "2", "3"}), line_of("a", "q")})
    CHECK(world.run(go_on({other})).events.empty());
}

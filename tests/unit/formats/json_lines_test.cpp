// JSON lines as other programs leave them: with a byte order mark, in UTF-16, several objects on one line.
#include "formats/json_lines.hpp"

#include <fmt/format.h>

#include "foreign_stores.hpp"
#include "formats/document.hpp"
#include "formats/jsonl.hpp"

using namespace sessiond;
using namespace sessiond::testing;

namespace {

using Parts = std::vector<std::string_view>;

const std::string header = R"({"type":"session","version":3,"id":"s1"})";
const std::string entry = R"({"type":"message","id":"e0","message":{"role":"user","content":"hi"}})";

CollectingSink read(const std::string& text) {
  CollectingSink sink;
  CHECK(formats::read_jsonl(text, sink).has_value());
  return sink;
}

std::string claude_line(const char* uuid, const char* parent, const char* text) {
  return fmt::format(
      R"({{"type":"user","uuid":"{}","parentUuid":{},"timestamp":"2026-11-23T21:00:00.000Z","message":{{"role":"user","content":"{}"}}}})",
      uuid, parent, text);
}

std::string utf16(std::string_view text, bool little) {
  std::string out = little ? "\xFF\xFE" : "\xFE\xFF";
  for (const char c : text) out.append(little ? std::string{c, '\0'} : std::string{'\0', c});
  return out;
}

}  // namespace

TEST_CASE("objects on one line are taken apart where each of them parses") {
  CHECK(formats::objects_on(R"({"a":1}{"b":{}}{"c":"}{"})") == Parts{R"({"a":1})", R"({"b":{}})", R"({"c":"}{"})"});
  CHECK(formats::objects_on("{\"a\":1} \t {\"b\":2} \r") == Parts{R"({"a":1})", R"({"b":2})"});
  for (const char* whole :
       {R"({"a":"}{"})", R"({"a":1})", "", "x", R"({"a":1}{"b":)", R"({"a":{"b":1})", R"({"a":1}{"b":2}x)",
        R"({"a":{"b":1}{"c":2})", R"({"a":1},{"b":2})", R"([{}{}])", "{}[]{}", R"(1{}{})", "} {"})
    CHECK(formats::objects_on(whole) == Parts{whole});
  std::string many;
  for (int at = 0; at < 1000; ++at) many += "{}";
  CHECK(formats::objects_on(many).size() == 1000);
  many += "{}";
  CHECK(formats::objects_on(many) == Parts{many});
}

TEST_CASE("a byte order mark before transcripts is skipped") {
  const CollectingSink sink = read("\xEF\xBB\xBF" + header + "\r\n" + entry + "\r\n");
  CHECK(sink.skips.empty());
  REQUIRE(sink.sessions.size() == 1);
  CHECK(sink.sessions[0].head.id == "s1");
  CHECK(sink.sessions[0].lines.size() == 1);
}

TEST_CASE("a byte order mark before documents is skipped") {
  const auto documents = formats::documents_in("\xEF\xBB\xBF{\"a\":1}\n{\"b\":2}\n");
  REQUIRE(documents.size() == 2);
  CHECK(documents[0].text == R"({"a":1})");
  CHECK(formats::documents_in("\xEF\xBB\xBF{\n\"a\":1}").front().text == "{\n\"a\":1}");
}

TEST_CASE("UTF-16 is named as such, not as a fault of JSON") {
  for (const bool little : {true, false}) {
    const CollectingSink sink = read(utf16(header + "\n" + entry + "\n", little));
    CHECK(sink.sessions.empty());
    REQUIRE(sink.skips.size() == 1);
    CHECK(sink.skips[0].why.starts_with("is UTF-16"));
    const auto checked = formats::check_document(utf16("{}", little));
    REQUIRE(!checked.has_value());
    CHECK(checked.error().detail.starts_with("is UTF-16"));
    const TempDir dir(TempDir::On::memory);
    const auto file = dir.write("projects/p/a.jsonl", utf16(claude_line("a", "null", "one"), little));
    const CollectingSink foreign = collected(formats::read_claude_code, dir.path());
    CHECK(foreign.sessions.empty());
    REQUIRE(foreign.skips.size() == 1);
    CHECK(foreign.skips[0].why.starts_with(file.native() + ": is UTF-16"));
  }
}

TEST_CASE("lines of another program that were written without a line break between them are taken") {
  const TempDir dir(TempDir::On::memory);
  dir.write("projects/p/01165fb3-732a-8968-b58f-6f573df34230.jsonl",
            claude_line("a", "null", "one") + claude_line("b", "\"a\"", "two") + "\n" + R"({"type":"us)" +
                claude_line("c", "\"b\"", "lost") + "\n" + claude_line("d", "\"b\"", "three") + "\n");
  const CollectingSink sink = collected(formats::read_claude_code, dir.path());
  REQUIRE(sink.sessions.size() == 1);
  CHECK(roles_of(path_to_leaf(sink.sessions[0])) == "user user user");
  REQUIRE(sink.skips.size() == 1);  // a line that was torn before the next one is named as it is
  CHECK(sink.skips[0].why.contains(", line 2: is not JSON"));
}

TEST_CASE("a transcript's header is found where it shares its line") {
  const std::string second = R"({"type":"session","version":3,"id":"s2"})";
  const CollectingSink sink = read(header + entry + "\n" + entry + second + "\n" + entry + "\n");
  CHECK(sink.skips.empty());
  REQUIRE(sink.sessions.size() == 2);
  CHECK(sink.sessions[0].lines == std::vector{entry, entry});
  CHECK(sink.sessions[1].head.id == "s2");
  CHECK(sink.sessions[1].lines == std::vector{entry});
}

TEST_CASE("entries that share a line in a transcript stay as they are stored") {
  const CollectingSink sink = read(header + "\n" + entry + entry + "\n");
  REQUIRE(sink.sessions.size() == 1);
  CHECK(sink.sessions[0].lines == std::vector{entry + entry});
}

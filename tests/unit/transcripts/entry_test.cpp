#include "transcripts/entry.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;

namespace {

constexpr std::int64_t now = 1'795'298'400'000;  // 2026-11-21T22:00:00.000Z

NewEntry parsed(std::string_view text) {
  auto draft = parse_entry(text, "");
  REQUIRE_MESSAGE(draft.has_value(), text, " ", draft ? "" : draft.error().detail);
  return *draft;
}

Problem refused(std::string_view text, std::string_view pointer = "") {
  auto draft = parse_entry(text, pointer);
  REQUIRE_MESSAGE(!draft.has_value(), text);
  return draft.error();
}

std::string fault_at(std::string_view text, std::string_view pointer = "") {
  const Problem problem = refused(text, pointer);
  REQUIRE(problem.errors.size() == 1);
  return problem.errors.front().pointer;
}

// Checks what must hold of every line we write, whatever was in the entry.
Written written(const NewEntry& draft, std::string_view parent = "0badcafe", std::uint64_t seq = 7) {
  Written made = write_entry(draft, draft.id.empty() ? "1a2b3c4d" : draft.id,
                             draft.parent_id.value_or(std::string(parent)), seq, now);
  CHECK(made.line.ends_with('\n'));
  CHECK(made.line.find('\n') == made.line.size() - 1);
  const std::string_view line = std::string_view(made.line).substr(0, made.line.size() - 1);
  CHECK(json::check(line, {.max_depth = json::foreign_depth}).has_value());
  CHECK(json::check(made.message, {.max_depth = json::foreign_depth}).has_value());
  std::string held;
  CHECK(view_entry(line, seq, View::full) == json::as_sent(made.message, held));
  CHECK(made.exact == (line_of(made.message, made.unstamped) == made.line));
  return made;
}

}  // namespace

TEST_CASE("the short form becomes a message with its text as a part and the time last") {
  const Written made = written(parsed(R"({"role":"user","text":"hé\n"})"), "");
  CHECK(made.line == R"({"type":"message","id":"1a2b3c4d","parentId":null,"timestamp":"2026-11-21T22:00:00.000Z",)"
                     R"("message":{"role":"user","content":[{"type":"text","text":"hé\n"}],"timestamp":1795298400000}})"
                     "\n");
  CHECK(made.message == R"({"seq":7,"id":"1a2b3c4d","parentId":null,"type":"message","timestamp":1795298400000,)"
                        R"("role":"user","content":[{"type":"text","text":"hé\n"}]})");
  CHECK(made.exact);
}

TEST_CASE("short form: id, parentId and timestamp are the entry's, the rest is the message's") {
  const NewEntry draft = parsed(
      R"({"timestamp":"2026-01-02T03:04:05.678Z","model":"m","usage":{"input":1},"role":"assistant","content":"x","id":"a:b","parentId":null,"n":12345678901234567890123})");
  CHECK(draft.id == "a:b");
  CHECK(draft.parent_id == "");
  CHECK(draft.time == 1767323045678);
  CHECK(draft.role == "assistant");
  CHECK(draft.usage == R"({"input":1})");
  CHECK(draft.body ==
        R"({"role":"assistant","content":"x","model":"m","usage":{"input":1},"n":12345678901234567890123})");
  CHECK(written(draft).exact);
}

TEST_CASE("the flat form of old transcripts is taken as a message") {
  const NewEntry draft =
      parsed(R"({"type":"assistant","content":[{"type":"text","text":"Hi"}],"timestamp":1234567891})");
  CHECK(draft.type == "message");
  CHECK(draft.role == "assistant");
  CHECK(draft.body == R"({"role":"assistant","content":[{"type":"text","text":"Hi"}]})");
  CHECK(written(draft).exact);
}

TEST_CASE("full entries keep their bytes and become one line") {
  const NewEntry draft = parsed(
      "{\"type\" : \"message\",\n \"message\": {\"role\": \"user\",\r\n\t\"content\": \"a  b\", \"x\": 1e400, \"s\": "
      "\"\\ud800\"}}");
  CHECK(draft.body == R"({"role":"user","content":"a  b","x":1e400,"s":"\ud800"})");
  const Written made = written(draft);
  CHECK(made.exact);
  CHECK(made.unstamped);  // no timestamp is added to a message that came whole
  CHECK(line_of(made.message) != made.line);
  CHECK(made.line.find(R"("message":{"role":"user","content":"a  b","x":1e400,"s":"\ud800"}})") != std::string::npos);
  CHECK(made.message.find(R"("x":1e400,"s":"\ud800")") != std::string::npos);
}

TEST_CASE("an entry without a time of its own takes its message's last member timestamp") {
  const Written made =
      written(parsed(R"({"type":"message","message":{"role":"user","content":"","timestamp":1795000000001}})"));
  CHECK(made.exact);
  CHECK(made.line.find("\"timestamp\":\"" + iso_time(1795000000001) + "\"") != std::string::npos);
  CHECK(line_of(made.message) == made.line);
  const Written given = written(parsed(
      R"({"type":"message","timestamp":1795000000002,"message":{"role":"user","content":"","timestamp":1795000000001}})"));
  CHECK_FALSE(given.exact);
  CHECK(given.line.find("\"timestamp\":\"" + iso_time(1795000000002) + "\"") != std::string::npos);
}

TEST_CASE("a message that came without a timestamp is stored without one") {
  for (const std::string& body : std::vector<std::string>{
           R"({"role":"user","content":"c"})",
           R"({"role":"user","content":"","x":{"timestamp":1}})",
           R"({"role":"user","content":"\"timestamp\":1}"})",
           R"({"role":"assistant","content":[]})",
       }) {
    CAPTURE(body);
    const Written made = written(parsed(R"({"type":"message","message":)" + body + "}"));
    CHECK(made.exact);
    CHECK(made.unstamped);
    CHECK(made.line.ends_with("\"message\":" + body + "}\n"));
  }
}

TEST_CASE("a timestamp of the message's own is exact only when it is the entry's and last") {
  const std::string same = std::to_string(now);
  CHECK(written(parsed(R"({"type":"message","message":{"role":"user","content":"","timestamp":)" + same + "}}")).exact);
  for (const std::string& body : std::vector<std::string>{
           R"({"role":"user","content":"","timestamp":"2026-11-21T22:00:00.000Z"})",
           R"({"role":"user","timestamp":)" + same + R"(,"content":""})",
           R"({"timestamp":)" + same + R"(,"role":"user","content":"","timestamp":)" + same + "}",
           R"({"role":"user","content":"","\u0074imestamp":)" + same + "}",
           R"({"role":"user","content":"","timestamp":1795298400000.0})",
       }) {
    CAPTURE(body);
    const Written made = written(parsed(R"({"type":"message","message":)" + body + "}"));
    CHECK_FALSE(made.exact);
    CHECK(made.line.find(body) != std::string::npos);  // its bytes are kept
  }
}

TEST_CASE("members that collide with the Message's own are in the line, not in the Message") {
  for (const std::string& member :
       std::vector<std::string>{R"("id":"x")", R"("seq":3)", R"("type":"t")", R"("parentId":"p")", R"("\u0069d":"x")",
                                R"("id":{"id":[1,"id"]})"}) {
    CAPTURE(member);
    for (const std::string& body :
         {R"({"role":"user","content":"c",)" + member + "}", "{" + member + R"(,"role":"user","content":"c"})",
          R"({"role":"user",)" + member + R"(,"content":"c"})"}) {
      const Written made = written(parsed(R"({"type":"message","message":)" + body + "}"));
      CHECK_FALSE(made.exact);
      CHECK(made.line.find(member) != std::string::npos);
      CHECK(made.message.find(R"("role":"user","content":"c"})") != std::string::npos);
    }
  }
  // Inside values the same names are nobody's business; duplicates of other names go through as they are.
  for (const std::string_view body : {R"({"role":"user","content":[{"id":1,"type":"t","seq":2,"timestamp":3}]})",
                                      R"({"role":"a","role":"user","content":"c"})"}) {
    NewEntry draft;
    draft.type = "message";
    draft.body = body;
    draft.stamp = true;
    CHECK(written(draft).exact);
  }
}

TEST_CASE("further members beside the message are kept in the line") {
  const NewEntry draft = parsed(R"({"type":"message","x":[1, 2],"message":{"role":"user","content":"c"},"y":"}"})");
  CHECK(draft.extra == R"("x":[1,2],"y":"}")");
  const Written made = written(draft);
  CHECK_FALSE(made.exact);
  CHECK(made.line.ends_with("\"x\":[1,2],\"y\":\"}\"}\n"));
}

TEST_CASE("other types keep their members") {
  const NewEntry draft = parsed(
      R"({"summary":"s\u00e9","type":"compaction","tokensBefore":172139,"id":"c1","message":{"role":"x"},"role":"y"})");
  CHECK(draft.body == R"("summary":"s\u00e9","tokensBefore":172139,"message":{"role":"x"},"role":"y")");
  const Written made = written(draft);
  CHECK(made.exact);
  CHECK(made.line == R"({"type":"compaction","id":"c1","parentId":"0badcafe","timestamp":"2026-11-21T22:00:00.000Z",)"
                     R"("summary":"s\u00e9","tokensBefore":172139,"message":{"role":"x"},"role":"y"})"
                     "\n");
  CHECK(written(parsed(R"({"type":"never \"heard\" of"})")).exact);  // nothing but its own members
  CHECK_FALSE(written(parsed(R"({"type":"custom","seq":1})")).exact);
  CHECK(written(parsed(R"({"type":"user","note":"no content"})")).exact);
}

TEST_CASE("parents may have ids that we would not give, and an empty message is no trouble") {
  const NewEntry draft = parsed(R"({"role":"user","text":"t"})");
  const Written made = written(draft, "odd \" id \\ \xC3\xA9");
  CHECK(made.exact);
  CHECK(written(NewEntry{.type = "message", .body = "{}"}).exact);
  CHECK(written(NewEntry{.type = "message", .body = "{}", .stamp = true}).exact);
  CHECK(written(NewEntry{.type = "custom"}).exact);
  CHECK(line_of("").empty());
  CHECK(line_of("{}").empty());
  CHECK(line_of(R"({"seq":1,"id":"a"})").empty());
}

TEST_CASE("what is no entry is refused with the place of the fault") {
  CHECK(fault_at("[]", "/entries/3") == "/entries/3");
  CHECK(fault_at("{}", "/entries/3") == "/entries/3/type");
  CHECK(fault_at(R"({"type":5})") == "/type");
  CHECK(fault_at(R"({"type":""})") == "/type");
  CHECK(fault_at(R"({"type":"a\nb"})") == "/type");
  CHECK(fault_at(R"({"type":"session","id":"x"})") == "/type");
  CHECK(fault_at(R"({"type":"unreadable"})") == "/type");
  CHECK(fault_at(R"({"type":"message"})") == "/message");
  CHECK(fault_at(R"({"type":"message","message":"hi"})") == "/message");
  CHECK(fault_at(R"({"type":"message","message":{"content":"x"}})") == "/message/role");
  CHECK(fault_at(R"({"type":"message","message":{"role":7,"content":"x"}})") == "/message/role");
  CHECK(fault_at(R"({"type":"message","message":{"role":"user"}})") == "/message/content");
  CHECK(fault_at(R"({"type":"message","message":{"role":"user","timestamp":1}})") == "/message/content");
  CHECK(fault_at(R"({"type":"message","message":{"role":"user","content":null}})") == "/message/content");
  CHECK(fault_at(R"({"type":"message","message":{"role":"user","content":["x"]}})") == "/message/content/0");
  CHECK(fault_at(R"({"type":"message","message":{"role":"user","content":[{},{},4]}})") == "/message/content/2");
  CHECK(fault_at(R"({"role":"user"})") == "/text");
  CHECK(fault_at(R"({"role":"user","text":5})") == "/text");
  CHECK(fault_at(R"({"role":"user","text":"a","content":"b"})") == "/text");
  CHECK(fault_at(R"({"role":"robot","text":"a"})") == "/role");
  CHECK(fault_at(R"({"role":"","content":"a"})") == "/role");
  CHECK(fault_at(R"({"role":"user","text":"a","timestamp":"yesterday"})") == "/timestamp");
  CHECK(fault_at(R"({"role":"user","text":"a","timestamp":1.5})") == "/timestamp");
  CHECK(fault_at(R"({"role":"user","text":"a","timestamp":-1})") == "/timestamp");
  CHECK(fault_at(R"({"role":"user","text":"a","timestamp":1e18})") == "/timestamp");
  for (const std::string& id :
       std::vector<std::string>{R"("")", "5", "null", R"("a b")", R"("a/b")", '"' + std::string(129, 'a') + '"'}) {
    const Problem problem = refused(R"({"role":"user","text":"a","id":)" + id + "}", "/e");
    CHECK(problem.code == Code::invalid_id);
    REQUIRE(problem.errors.size() == 1);
    CHECK(problem.errors[0].pointer == "/e/id");
  }
  CHECK(refused(R"({"type":"custom","parentId":"a\u0000b"})").code == Code::invalid_id);
  // Another role's shape needs no content.
  CHECK(parsed(R"({"type":"message","message":{"role":"bashExecution","command":"ls"}})").role == "bashExecution");
  CHECK(parsed(R"({"type":"message","message":{"role":"toolResult","content":[],"toolCallId":"x"}})").role ==
        "toolResult");
}

TEST_CASE("old shapes are read") {
  CHECK(
      view_entry(R"({"type":"user","content":[{"type":"text","text":"Hello"}],"timestamp":1234567890})", 0,
                 View::full) ==
      R"({"seq":0,"id":")" +
          derived_id(R"({"type":"user","content":[{"type":"text","text":"Hello"}],"timestamp":1234567890})", 0) +
          R"(","parentId":null,"type":"message","timestamp":1234567890,"role":"user","content":[{"type":"text","text":"Hello"}]})");
  CHECK(
      view_entry(R"({"role":"assistant","id":"q","content":"Hi","timestamp":5.0,"api":"x"})", 3, View::full) ==
      R"({"seq":3,"id":"q","parentId":null,"type":"message","timestamp":5,"role":"assistant","content":"Hi","api":"x"})");
  // Version 1: no ids. The time may be the message's only.
  const std::string v1 = R"({"type":"message","message":{"role":"user","content":"x","timestamp":9}})";
  CHECK(view_entry(v1, 1, View::full) ==
        R"({"seq":1,"id":")" + derived_id(v1, 1) +
            R"(","parentId":null,"type":"message","timestamp":9,"role":"user","content":"x"})");
  CHECK(entry_id(v1, 1) != entry_id(v1, 2));
  CHECK(entry_id(v1, 1).size() == 8);
  CHECK(view_entry(R"({"id":7,"x":1})", 0, View::full)->starts_with(R"({"seq":0,"id":")"));
  CHECK(view_entry(R"({"id":"a","x":1})", 0, View::full) ==
        R"({"seq":0,"id":"a","parentId":null,"type":"unknown","timestamp":null,"x":1})");
  CHECK(entry_type(R"({"role":"user"})") == "message");
  CHECK(entry_type(R"({"type":"user","content":""})") == "message");
  CHECK(entry_type(R"({"type":"label"})") == "label");
  CHECK(entry_type(R"({"type":"message","message":5})") == "message");
}

TEST_CASE("chat shows what users and assistants said") {
  const auto chat = [](std::string_view line) { return view_entry(line, 2, View::chat); };
  CHECK(
      chat(
          R"({"type":"message","id":"a","timestamp":"2026-11-21T22:00:00Z","message":{"role":"user","content":[{"type":"text","text":"a\"b"},{"type":"image"},{"type":"text","text":"c"},7]}})") ==
      R"({"seq":2,"id":"a","timestamp":1795298400000,"role":"user","text":"a\"b\nc","attachments":[{"type":"image"}]})");
  CHECK(chat(R"({"role":"assistant","id":"a","content":"x","timestamp":1})") ==
        R"({"seq":2,"id":"a","timestamp":1,"role":"assistant","text":"x"})");
  CHECK(
      chat(
          R"({"role":"user","id":"a","content":"","timestamp":1,"attachments":[{"type":"photo","url":"u"},{"type":"image","fileName":"b.png"},"x"]})") ==
      R"({"seq":2,"id":"a","timestamp":1,"role":"user","text":"","attachments":[{"type":"file"},{"type":"image","name":"b.png"},{"type":"file"}]})");
  CHECK(chat(R"({"role":"assistant","id":"a","content":"x","timestamp":1,"state":"interrupted"})") ==
        R"({"seq":2,"id":"a","timestamp":1,"role":"assistant","text":"x","interrupted":true})");
  CHECK(chat(R"({"role":"user","id":"a","content":"x","timestamp":1,"state":"interrupted"})") ==
        R"({"seq":2,"id":"a","timestamp":1,"role":"user","text":"x"})");
  CHECK_FALSE(chat(R"({"type":"message","message":{"role":"toolResult","content":"x"}})"));
  CHECK_FALSE(chat(R"({"type":"message","message":{"role":"assistant","content":[{"type":"toolCall"}]}})"));
  CHECK_FALSE(chat(R"({"type":"message","message":{"role":"assistant","content":""}})"));
  CHECK_FALSE(chat(R"({"type":"compaction","summary":"x"})"));
  CHECK_FALSE(chat("garbage"));
}

TEST_CASE("chat shows notes") {
  const auto chat = [](std::string_view line) { return view_entry(line, 2, View::chat); };
  CHECK(
      chat(
          R"({"type":"custom","id":"a","timestamp":"2026-11-21T22:00:00Z","customType":"note","data":{"text":"a\"b","by":"t1"}})") ==
      R"({"seq":2,"id":"a","timestamp":1795298400000,"role":"note","by":"t1","text":"a\"b"})");
  CHECK(chat(R"({"type":"custom","id":"a","customType":"note","data":{"text":"x"}})") ==
        R"({"seq":2,"id":"a","timestamp":null,"role":"note","by":"","text":"x"})");
  for (const std::string_view other : {R"({"type":"custom","id":"a","customType":"note","data":{"text":""}})",
                                       R"({"type":"custom","id":"a","customType":"note","data":7})",
                                       R"({"type":"custom","id":"a","customType":"note"})",
                                       R"({"type":"custom","id":"a","customType":"other","data":{"text":"x"}})",
                                       R"({"type":"label","id":"a","customType":"note","data":{"text":"x"}})"})
    CHECK_FALSE(chat(other));
}

TEST_CASE("damaged lines are shown, not hidden") {
  const std::vector<std::string> damaged = {"",
                                            "   ",
                                            "garbage",
                                            "42",
                                            "[1]",
                                            "\"{}\"",
                                            "{",
                                            R"({"a":1)",
                                            R"({"a":1}})",
                                            std::string(3, '\0'),
                                            std::string("{\"a\":\"\0\"}", 9),
                                            R"({"a":01})"};
  for (const std::string& line : damaged) {
    CAPTURE(line);
    CHECK(entry_type(line) == "unreadable");
    const auto full = view_entry(line, 4, View::full);
    REQUIRE(full);
    CHECK(json::check(*full, {.utf8 = true}).has_value());
    CHECK(json::string_at(*full, "type") == "unreadable");
    CHECK(json::string_at(*full, "id") == entry_id(line, 4));
    CHECK(json::int_at(*full, "bytes") == static_cast<std::int64_t>(line.size()));
    const auto raw = view_entry(line, 4, View::raw);
    REQUIRE(raw);
    CHECK(json::string_at(*raw, "line") == line);
    CHECK_FALSE(view_entry(line, 4, View::chat));
  }
  // The beginning of a long one, cut between characters.
  std::string wide = "x";
  while (wide.size() < 300) wide += "天";
  const auto shown = json::string_at(*view_entry(wide, 0, View::full), "text");
  REQUIRE(shown);
  CHECK(wide.starts_with(*shown));
  CHECK(shown->size() > 196);
}

TEST_CASE("values keep their bytes; what is not Unicode is made so") {
  const std::string line =
      R"( {"type" : "custom", "id":"a","n":123456789012345678901234567890,"e":1e400,"s":"\ud83d","z":-0.0} )";
  const auto full = view_entry(line, 0, View::full);
  CHECK(full->ends_with(R"("n":123456789012345678901234567890,"e":1e400,"s":"\ufffd","z":-0.0})"));
  CHECK(view_entry(line, 0, View::raw) == R"({"seq":0,"line":)" + line + "}");
  for (const std::string& bad : std::vector<std::string>{"\xFF", "\xE5\xA4", "\xC3", "\xED\xA0\x80", "\xF0\x9F\x98"}) {
    for (const std::string& entry : {R"({"type":"message","message":{"role":"user","content":"a)" + bad + "\"}}",
                                     R"({"type":")" + bad + R"(","id":")" + bad + "\"}", "x" + bad}) {
      for (const View view : {View::full, View::raw, View::chat}) {
        const auto shown = view_entry(entry, 0, view);
        if (shown) CHECK_MESSAGE(json::check(*shown, {.utf8 = true}).has_value(), *shown);
      }
      CHECK_FALSE(store::invalid_utf8(entry_id(entry, 0)).has_value());
      CHECK(json::string_at(*view_entry(entry, 0, View::full), "id") == entry_id(entry, 0));
    }
  }
}

TEST_CASE("a time outside 1970 to 9999 is refused in a request, and written as the nearer end otherwise") {
  for (const char* bad : {"-1", "253402300800000", "9223372036854775807", "1.5"}) {
    CAPTURE(bad);
    CHECK(fault_at(R"({"role":"user","text":"x","timestamp":)" + std::string(bad) + "}") == "/timestamp");
    CHECK(fault_at(R"({"type":"message","message":{"role":"user","content":"x","timestamp":)" + std::string(bad) +
                   "}}") == "/message/timestamp");
  }
  CHECK(iso_time(-1) == "1970-01-01T00:00:00.000Z");
  CHECK(iso_time(253'402'300'800'000) == "9999-12-31T23:59:59.999Z");
  CHECK(iso_time(std::numeric_limits<std::int64_t>::max()) == "9999-12-31T23:59:59.999Z");
}

TEST_CASE("times") {
  CHECK(iso_time(0) == "1970-01-01T00:00:00.000Z");
  CHECK(iso_time(now) == "2026-11-21T22:00:00.000Z");
  CHECK(iso_time(951'782'399'999) == "2000-02-28T23:59:59.999Z");
  for (const std::int64_t ms : {std::int64_t{0}, now, std::int64_t{951'868'799'999}, std::int64_t{253'402'300'799'999}})
    CHECK(parse_iso_time(iso_time(ms)) == ms);
  CHECK(parse_iso_time("2026-11-21T22:00:00Z") == now);
  CHECK(parse_iso_time("2026-11-21T22:00Z") == now);
  CHECK(parse_iso_time("2026-11-21T23:30:00.0+01:30") == now);
  CHECK(parse_iso_time("2026-11-21T21:00:00-0100") == now);
  CHECK(parse_iso_time("2026-11-21 22:00:00.000000000") == now);
  CHECK(parse_iso_time("2026-11-21T22:00:00.1239Z") == now + 123);
  for (const char* bad :
       {"", "2026", "2026-11-21", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-11-21T24:00:00Z",
        "2026-11-21T22:00:60Z", "2026-11-21T22:00:00.Z", "2026-11-21T22:00:00Zx", "2026-11-21T22:00:00+1",
        "2026-11-21T22:00:00+25:00", "+026-11-21T22:00:00Z", "2026-11-21T22"})
    CHECK_MESSAGE(!parse_iso_time(bad), bad);
}

TEST_CASE("the header") {
  CHECK(header_line("s-1", now, "/home/a \"b\"", "") ==
        "{\"type\":\"session\",\"version\":3,\"id\":\"s-1\",\"timestamp\":\"2026-11-21T22:00:00.000Z\",\"cwd\":\"/home/"
        "a \\\"b\\\"\"}\n");
  CHECK(header_line("s-1", now, "/", "p.jsonl").ends_with("\"parentSession\":\"p.jsonl\"}\n"));
}

// Conversations as other programs are to go on with them.
#include "formats/conversation.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "store/json/raw_json.hpp"

namespace sessiond {
namespace {

using formats::LeftOut;
using formats::StoredEntry;

std::string message(const std::string& id, const std::string& parent, const std::string& body) {
  return fmt::format(
      R"({{"type":"message","id":"{}","parentId":{},"timestamp":"2026-01-01T00:00:00.000Z","message":{{{}}}}})", id,
      parent.empty() ? "null" : json::quote(parent), body);
}
std::string said(const std::string& role, const std::string& text) {
  return fmt::format(R"("role":"{}","content":[{{"type":"text","text":"{}"}}])", role, text);
}
std::string call(const std::string& id) {
  return fmt::format(R"("role":"assistant","content":[{{"type":"toolCall","id":"{}","name":"ls","arguments":{{}}}}])",
                     id);
}
std::string result(const std::string& id, const std::string& text) {
  return fmt::format(R"("role":"toolResult","toolCallId":"{}","content":[{{"type":"text","text":"{}"}}])", id, text);
}

struct Written {
  std::vector<std::string> lines{};  // without header and end
  LeftOut left_out{};
  bool is_whole = false;

  std::string ids() const {
    std::string out;
    for (const std::string& line : lines) out += (out.empty() ? "" : " ") + json::string_at(line, "id").value_or("-");
    return out;
  }
  // Whether each entry has the one before as its parent.
  bool is_chain() const {
    std::string before = "null";
    for (const std::string& line : lines) {
      if (json::find(line, "parentId") != before) return false;
      before = json::quote(json::string_at(line, "id").value_or(""));
    }
    return true;
  }
};

Written written(const std::vector<StoredEntry>& entries) {
  const auto writer = formats::write_conversation(
      {.id = "s", .header = R"({"type":"session","version":3,"id":"s","copied":[]})", .key = "agent:main:x"});
  for (const StoredEntry& entry : entries) writer->survey(entry);
  std::string text = writer->begin().value();
  for (const StoredEntry& entry : entries)
    if (entry.on_path) writer->message(text, entry);
  text += writer->middle() + writer->end();
  Written out;
  bool is_header = true;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    if (is_header) {
      CHECK(json::string_at(json::find(line, "sessiond").value_or("{}"), "key") == "agent:main:x");
      CHECK_FALSE(json::find(line, "copied").has_value());
    } else if (auto end = formats::read_end(line)) {
      out.left_out = std::move(end->left_out);
      out.is_whole = true;
    } else {
      out.lines.push_back(line);
    }
    is_header = false;
  }
  CHECK(out.is_whole);
  CHECK(out.is_chain());
  return out;
}

Written written(const std::vector<std::string>& lines) {
  std::vector<StoredEntry> entries;
  for (const std::string& line : lines) entries.push_back({.seq = entries.size(), .line = line});
  return written(entries);
}

}  // namespace

TEST_CASE("an entry that needs no change keeps its bytes") {
  const std::vector<std::string> lines{
      message("a", "", said("user", "hi") + R"(,"n":1e400 , "x" : 1)"), message("b", "a", call("c")),
      message("c", "b", result("c", "bin")),
      R"({"type":"model_change","id":"d","parentId":"c","timestamp":"2026-01-01T00:00:00.000Z","modelId":"m"})",
      message("e", "d", said("assistant", "ok"))};
  const Written out = written(lines);
  CHECK(out.lines == lines);
  CHECK(out.left_out.empty());
}

TEST_CASE("each call of a written conversation has one result, directly behind it") {
  const Written out = written({message("a", "", said("user", "go")),
                               message("b", "a",
                                       R"("role":"assistant","content":[{"type":"toolCall","id":"c1","name":"ls",)"
                                       R"("arguments":{}},{"type":"toolCall","id":"c2","name":"ls","arguments":{}}])"),
                               message("c", "b", said("user", "stop")), message("d", "c", result("c1", "late")),
                               message("e", "d", result("c1", "again")), message("f", "e", said("user", "  ")),
                               message("g", "f", result("none", "x")), message("h", "g", said("assistant", "ok"))});
  CHECK(out.ids() == "a b d b.2 c h");
  CHECK(out.lines[3].contains(R"("toolCallId":"c2")"));
  CHECK(out.left_out ==
        LeftOut{{"message with nothing in it", 1}, {"result without a call", 1}, {"second result of a call", 1}});
}

TEST_CASE("calls and results are matched across entries that no model is shown") {
  const std::vector<std::string> lines{
      message("a", "", said("user", "go")), message("b", "a", call("c")),
      R"({"type":"label","id":"l","parentId":"b","timestamp":"2026-01-01T00:00:00.000Z","targetId":"a"})",
      message("r", "l", result("c", "bin"))};
  CHECK(written(lines).ids() == "a b r l");
}

TEST_CASE("what people deleted or edited is written as they left it") {
  const std::string first = message("a", "", said("user", "secret")), second = message("b", "a", said("user", "wrnog"));
  const transcripts::ShownChange deleted{.deleted = true};
  const transcripts::ShownChange edited{.edit = R"({"text":"right"})"};
  const Written out = written(std::vector<StoredEntry>{{.seq = 0, .line = first, .change = &deleted},
                                                       {.seq = 1, .line = second, .change = &edited},
                                                       {.seq = 2, .line = second, .on_path = false}});
  REQUIRE(out.ids() == "b");
  CHECK(out.lines[0].contains("right"));
  CHECK_FALSE(out.lines[0].contains("wrnog"));
  CHECK(out.left_out == LeftOut{{"entry of another branch", 1}, {"message that was deleted", 1}});
}

TEST_CASE("what the daemon notes for itself is left out, and what a run said before it was tried again") {
  const Written out = written(
      {message("a", "", said("user", "q")),
       R"({"type":"custom","customType":"sessiond.input","id":"i","parentId":"a","data":{"runId":"r","entries":["a"]}})",
       message("p", "i", said("assistant", "I beg") + R"(,"stopReason":"aborted","state":"interrupted")"),
       R"({"type":"custom","customType":"sessiond.run","id":"e","parentId":"p","data":{"runId":"r","retried":true}})",
       R"({"type":"custom","customType":"other","id":"o","parentId":"e","timestamp":"2026-01-01T00:00:00.000Z"})",
       message("b", "o", said("assistant", "I began"))});
  CHECK(out.ids() == "a o b");
  CHECK(out.left_out == LeftOut{{"entry of type sessiond.input", 1},
                                {"entry of type sessiond.run", 1},
                                {"text of a run that was tried again", 1}});
}

TEST_CASE("the first kept entry of a checkpoint is named as the written conversation has it") {
  const auto compaction = [](const std::string& members) {
    return R"({"type":"compaction","id":"k","parentId":"d","timestamp":"2026-01-01T00:00:00.000Z","summary":"s",)" +
           members + "}";
  };
  struct Case {
    std::string members, kept, details;
  };
  const std::vector<Case> cases{
      {R"("firstKeptEntryId":"c")", "c", ""},
      // The blank message is not there: what comes behind it.
      {R"("firstKeptEntryId":"blank")", "c", ""},
      {R"("firstKeptEntryIndex":3)", "c", ""},
      {R"("firstKeptEntryId":"b","details":{"firstShown":"c","x":1})", "c", R"({"x":1})"},
      {R"("firstKeptEntryId":"a","details":{"firstShown":"d","words":["c"],"firstBehindWords":"d"})", "c", ""},
      {R"("firstKeptEntryId":"b","details":{"firstShown":"late","runs":["i"]})", "b", ""},  // it stands behind
      {R"("firstKeptEntryId":"gone")", "gone", ""},
  };
  for (const Case& one : cases) {
    CAPTURE(one.members);
    const Written out = written({message("a", "", said("user", "1")), message("blank", "a", said("user", " ")),
                                 message("c", "blank", said("user", "2")), message("d", "c", said("assistant", "3")),
                                 compaction(one.members), message("late", "k", said("user", "4"))});
    REQUIRE(out.ids() == "a c d k late");
    CHECK(json::string_at(out.lines[3], "firstKeptEntryId") == one.kept);
    CHECK_FALSE(json::find(out.lines[3], "firstKeptEntryIndex").has_value());
    CHECK(json::find(out.lines[3], "details").value_or("") == one.details);
  }
}

TEST_CASE("a checkpoint keeps a call with the result that was made for it") {
  const Written out = written(
      {message("a", "", said("user", "1")), message("b", "a", call("c1")), message("c", "b", said("user", "2")),
       R"({"type":"compaction","id":"k","parentId":"c","timestamp":"2026-01-01T00:00:00.000Z","firstKeptEntryId":"b"})"});
  REQUIRE(out.ids() == "a b b.2 c k");
  CHECK(json::string_at(out.lines[4], "firstKeptEntryId") == "b");
}

TEST_CASE("lines that would part the conversation for its reader do not") {
  const std::string end_like =
      R"({"type":"custom_message","customType":"sessiond.end","id":"m","parentId":"a","timestamp":"2026-01-01T00:00:00.000Z","content":"x"})";
  const Written out = written({message("a", "", said("user", "1")), end_like, R"({"type":"session","id":"other"})",
                               message("b", "m", said("assistant", "2"))});
  CHECK(out.ids() == "a m b");
  CHECK(out.lines[1] == end_like);
  CHECK(out.left_out == LeftOut{{"second header", 1}});
}

TEST_CASE("a last line that breaks off is not the end") {
  const std::string last = R"({"type":"custom","customType":"sessiond.end","data":{"leftOut":{"x":2},"more":3}})";
  REQUIRE(formats::read_end(last).has_value());
  CHECK(formats::read_end(last)->more == 3);
  for (std::size_t size = 0; size < last.size(); ++size)
    CHECK_FALSE(formats::read_end(last.substr(0, size)).has_value());
}

TEST_CASE("a blank part of a message of OpenClaw is left out") {
  const Written out = written({R"({"type":"custom_message","customType":"x","id":"m","parentId":null,)"
                               R"("timestamp":"2026-01-01T00:00:00.000Z","content":[{"type":"text","text":"  "},)"
                               R"({"type":"text","text":"y"}]})"});
  REQUIRE(out.ids() == "m");
  CHECK(json::find(out.lines[0], "content") == R"([{"type":"text","text":"y"}])");
  CHECK(json::string_at(out.lines[0], "type") == "custom_message");
}

TEST_CASE("a transcript of an old version is written as version 3") {
  const auto writer = formats::write_conversation(
      {.id = "s", .header = R"({"type":"session","id":"s","parentSession":"p"})", .key = ""});
  CHECK(writer->begin().value() == "{\"type\":\"session\",\"id\":\"s\",\"version\":3}\n");
  std::string out;
  writer->message(out, {.line = R"({"type":"message","message":{"role":"hookMessage","content":"x"}})"});
  CHECK(writer->end().contains(R"("role":"custom")"));
}

TEST_CASE("entries with one id get ids of their own") {
  const Written out = written({message("a", "", said("user", "1")), message("a", "a", said("assistant", "2")),
                               message("a.2", "a", said("user", "3")), R"({"role":"assistant","content":"4"})"});
  CHECK(out.ids().starts_with("a a.2 a.2.2 "));
}

TEST_CASE("a call that providers would refuse is renamed in all of a long conversation") {
  std::vector<std::string> lines;
  std::string last;
  const auto add = [&](const std::string& body) {
    const std::string id = fmt::format("e{}", lines.size());
    lines.push_back(message(id, last, body));
    last = id;
  };
  const std::string long_text(3 << 20, 'x');
  for (int turn = 0; turn < 6; ++turn) {
    add(said("user", "again"));
    add(call("exec_0"));
    add(result("exec_0", long_text));
  }
  const Written out = written(lines);
  REQUIRE(out.lines.size() == lines.size());
  CHECK(out.lines[1] == lines[1]);
  for (int turn = 1; turn < 6; ++turn) {
    const std::string id = fmt::format("\"exec_0-{}\"", turn + 1);
    CHECK(out.lines[static_cast<std::size_t>(3 * turn + 1)].contains(id));
    CHECK(out.lines[static_cast<std::size_t>(3 * turn + 2)].contains(id));
  }
}

}  // namespace sessiond

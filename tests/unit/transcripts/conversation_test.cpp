#include "transcripts/conversation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "store/json/raw_json.hpp"
#include "tests/unit/temp_dir.hpp"
#include "tests/unit/transcripts/conversation_lines.hpp"

using namespace sessiond;
using namespace sessiond::testing;
using sessiond::transcripts::MemoryTranscript;
using sessiond::transcripts::Transcript;

namespace {

std::unique_ptr<Transcript> open_transcript(const std::filesystem::path& path,
                                            const std::filesystem::path& sidecar = {}) {
  auto transcript = Transcript::open(path, sidecar);
  REQUIRE(transcript.has_value());
  return std::move(*transcript);
}

// The same lines in memory. A last line without a newline gets one.
MemoryTranscript in_memory(std::string_view lines) {
  MemoryTranscript transcript;
  transcript.add_header(transcript_header);
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    transcript.add(std::string(lines.substr(0, end)) + "\n", 1);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return transcript;
}

// Reads the ids of these lines that a model is shown, from a file and from memory, and checks their measure.
std::string shown(const std::string& lines) {
  TempDir dir(TempDir::On::memory);
  const auto transcript = open_transcript(dir.write("t.jsonl", transcript_header + lines));
  const context::Conversation conversation = conversation_of(*transcript);
  const std::string ids = shown_ids(conversation);
  const MemoryTranscript memory = in_memory(lines);
  CHECK(shown_ids(conversation_of(memory)) == ids);
  auto meter = transcripts::measure(*transcript, 3);
  REQUIRE(meter.has_value());
  meter->branches = 0;
  context::Meter expected = context::measure(conversation, 3);
  expected.checkpoint_at = meter->checkpoint_at;
  CHECK(context::to_text(*meter) == context::to_text(expected));
  CHECK_FALSE(conversation.cut);
  return ids;
}

std::string chain(std::size_t from, std::size_t count) {
  std::string lines;
  for (std::size_t i = from; i < from + count; ++i)
    lines += said_line(fmt::format("e{}", i), i == 0 ? "null" : fmt::format("\"e{}\"", i - 1),
                       i % 2 == 0 ? "user" : "assistant");
  return lines;
}

}  // namespace

TEST_CASE("a model is shown the path to the last entry") {
  struct Case {
    std::string_view name;
    std::string lines, ids;
  };
  const std::string three = chain(0, 3);
  const std::string system = entry_line("s", R"("e2")", R"({"role":"system","content":"be kind"})");
  const std::vector<Case> cases{
      {"empty", "", ""},
      {"a line", three, "e0 e1 e2"},
      {"a branch", three + said_line("b", R"("e0")"), "e0 b"},
      {"the entry before", three + said_line("b", R"("e2")"), "e0 e1 e2 b"},
      {"a new beginning", three + said_line("b", "null") + said_line("c", R"("b")"), "b c"},
      {"an unknown parent", three + said_line("b", R"("nowhere")"), "e0 e1 e2 b"},
      {"an unknown parent of the first", said_line("b", R"("nowhere")") + said_line("c", R"("b")"), "b c"},
      {"itself", three + said_line("b", R"("b")"), "e0 e1 e2 b"},
      {"itself at first", said_line("b", R"("b")") + said_line("c", R"("b")"), "b c"},
      {"a later entry", three + said_line("b", R"("c")") + said_line("c", R"("b")"), "e0 e1 e2 b c"},
      {"each other", said_line("b", R"("c")") + said_line("c", R"("b")"), "b c"},
      {"a parent that is no string", three + said_line("b", "7"), "e0 e1 e2 b"},
      {"an empty parent", three + said_line("b", R"("")"), "e0 e1 e2 b"},
      {"two branches", three + said_line("b", R"("e0")") + said_line("c", R"("b")") + said_line("d", R"("e1")"),
       "e0 e1 d"},
      {"a branch of a branch", three + said_line("b", R"("e0")") + said_line("c", R"("b")") + said_line("d", R"("b")"),
       "e0 b d"},
      {"back on the first branch", three + said_line("b", R"("e0")") + said_line("c", R"("e2")"), "e0 e1 e2 c"},
      {"an unknown parent on a branch", three + said_line("b", R"("e0")") + said_line("c", R"("nowhere")"), "e0 b c"},
      {"an unreadable line", three + "no json\n" + said_line("b", R"("e2")"), "e0 e1 e2 b"},
      {"an empty line", three + "\n" + said_line("b", R"("e2")"), "e0 e1 e2 b"},
      {"the last line is unreadable", three + "{\"type\":", "e0 e1 e2"},
      {"the last line has no newline",
       three + R"({"type":"message","id":"b","parentId":"e2","message":{"role":"user","content":"b"}})", "e0 e1 e2 b"},
      {"the last line branches and has no newline",
       three + R"({"type":"message","id":"b","parentId":"e0","message":{"role":"user","content":"b"}})", "e0 b"},
      {"a label is on the path",
       three + R"({"type":"label","id":"l","parentId":"e2","label":"x"})" + "\n" + said_line("b", R"("l")"),
       "e0 e1 e2 b"},
      {"a system message on the path", three + system + said_line("b", R"("s")"), "<s> e0 e1 e2 b"},
      {"a system message off the path", three + system + said_line("b", R"("e1")"), "e0 e1 b"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.name);
    CHECK(shown(one.lines) == one.ids);
  }
}

TEST_CASE("flat and bare lines, and those of older versions, follow each other") {
  for (const std::string_view header : {"", "{\"type\":\"session\",\"version\":1,\"id\":\"s\"}\n",
                                        "{\"type\":\"session\",\"version\":2,\"id\":\"s\"}\n"}) {
    CAPTURE(header);
    TempDir dir(TempDir::On::memory);
    const auto transcript =
        open_transcript(dir.write("t.jsonl", std::string(header) + R"({"type":"user","content":"flat"})" + "\n" +
                                                 R"({"role":"assistant","content":"bare"})" + "\n" +
                                                 R"({"type":"message","message":{"role":"user","content":"nested"}})" +
                                                 "\n" + R"({"role":"system","content":"rules"})" + "\n"));
    const context::Conversation read = conversation_of(*transcript);
    REQUIRE(read.after.size() == 3);
    std::vector<std::string> texts;
    for (const context::Line& line : read.after) {
      CHECK(line.type == "message");
      texts.push_back(json::string_at(line.body, "content").value_or(""));
    }
    CHECK(texts == std::vector<std::string>{"flat", "bare", "nested"});
    REQUIRE(read.system.size() == 1);
    CHECK(json::string_at(read.system[0].body, "content") == "rules");
  }
}

TEST_CASE("a checkpoint stands for what came before its first kept entry") {
  struct Case {
    std::string_view name;
    std::string lines, ids;
  };
  const std::string six = chain(0, 6);
  const std::string system = entry_line("s", "null", R"({"role":"system","content":"be kind"})");
  const std::string pair =
      entry_line("p", R"("e5")", R"({"role":"user","content":"summarized","synthetic":true,"summary":true})") +
      entry_line("q", R"("p")", R"({"role":"assistant","content":"[Context Summary] S","summary":true})");
  const std::vector<Case> cases{
      {"it keeps two", six + compaction_entry("c", R"("e5")", "e4") + said_line("b", R"("c")"), "[c] e4 e5 b"},
      {"it keeps all", six + compaction_entry("c", R"("e5")", "e0"), "[c] e0 e1 e2 e3 e4 e5"},
      {"it is last", six + compaction_entry("c", R"("e5")", "e5"), "[c] e5"},
      {"it keeps an unknown entry", six + compaction_entry("c", R"("e5")", "x") + said_line("b", R"("c")"), "[c] b"},
      {"it keeps itself", six + compaction_entry("c", R"("e5")", "c") + said_line("b", R"("c")"), "[c] b"},
      {"it keeps what follows", six + compaction_entry("c", R"("e5")", "b") + said_line("b", R"("c")"), "[c] b"},
      {"it keeps an entry off the path",
       six + said_line("b", R"("e1")") + compaction_entry("c", R"("b")", "e4") + said_line("d", R"("c")"), "[c] d"},
      {"two of them: the last counts",
       six + compaction_entry("c", R"("e5")", "e1") + said_line("b", R"("c")") + compaction_entry("d", R"("b")", "e5") +
           said_line("f", R"("d")"),
       "[d] e5 b f"},
      {"the second keeps from behind the first",
       six + compaction_entry("c", R"("e5")", "e1") + said_line("b", R"("c")") + compaction_entry("d", R"("b")", "b"),
       "[d] b"},
      {"a branch from before it", six + compaction_entry("c", R"("e5")", "e4") + said_line("b", R"("e1")"), "e0 e1 b"},
      {"a branch from between two of them",
       six + compaction_entry("c", R"("e5")", "e4") + said_line("b", R"("c")") + compaction_entry("d", R"("b")", "b") +
           said_line("f", R"("b")"),
       "[c] e4 e5 b f"},
      {"a branch within what it keeps",
       six + said_line("b", R"("e3")") + compaction_entry("c", R"("b")", "e2") + said_line("d", R"("c")"),
       "[c] e2 e3 b d"},
      {"half of a pair", six + pair.substr(0, pair.find('\n') + 1) + said_line("b", R"("p")"), "e0 e1 e2 e3 e4 e5 p b"},
      {"a pair of messages", six + pair + said_line("b", R"("q")"), "[q] b"},
      {"a pair behind a compaction", compaction_entry("c", "null", "x") + six + pair + said_line("b", R"("q")"),
       "[q] b"},
      {"a system message before it",
       system + said_line("e", R"("s")") + compaction_entry("c", R"("e")", "x") + said_line("b", R"("c")"),
       "<s> [c] b"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.name);
    CHECK(shown(one.lines) == one.ids);
  }
}

TEST_CASE("whatever the tree, the path is that of its parents") {
  std::mt19937 random(11);
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int round = 0; round < 400; ++round) {
    std::string lines;
    std::vector<std::size_t> parent;  // + 1; 0: none
    std::vector<std::string> kinds;   // "user", "system", "compaction"
    std::vector<std::size_t> kept;
    const std::size_t count = 1 + below(24);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string id = fmt::format("n{}", i);
      std::size_t of = i;  // the one before
      std::string named = i == 0 ? "null" : fmt::format("\"n{}\"", i - 1);
      const std::size_t how = below(12);
      if (how == 0 && i > 0) {
        of = 0;
        named = "null";
      } else if (how < 4 && i > 0) {
        of = 1 + below(i);
        named = fmt::format("\"n{}\"", of - 1);
      } else if (how == 4) {
        named = fmt::format("\"n{}\"", i + below(3));  // itself, or a later one
      }
      parent.push_back(of);
      kept.push_back(below(i + 1));
      const std::size_t kind = below(8);
      kinds.push_back(kind == 0 ? "compaction" : kind == 1 ? "system" : kind % 2 == 0 ? "user" : "assistant");
      lines +=
          kind == 0 ? compaction_entry(id, named, fmt::format("n{}", kept.back())) : said_line(id, named, kinds.back());
    }
    std::vector<std::size_t> path;
    for (std::size_t at = count; at != 0; at = parent[at - 1]) path.push_back(at - 1);
    std::ranges::reverse(path);
    std::size_t begin = 0;
    std::string expected;
    const auto put = [&expected](const std::string& text) { expected += (expected.empty() ? "" : " ") + text; };
    for (const std::size_t at : path)
      if (kinds[at] == "system") put(fmt::format("<n{}>", at));
    for (std::size_t i = path.size(); i-- > 0;) {
      if (kinds[path[i]] != "compaction") continue;
      put(fmt::format("[n{}]", path[i]));
      const auto first = std::ranges::find(path, kept[path[i]]);
      const auto place = static_cast<std::size_t>(first - path.begin());
      begin = first == path.end() || place >= i ? i + 1 : place;
      break;
    }
    for (std::size_t i = begin; i < path.size(); ++i)
      if (kinds[path[i]] == "user" || kinds[path[i]] == "assistant") put(fmt::format("n{}", path[i]));
    CAPTURE(lines);
    CHECK(shown(lines) == expected);
  }
}

TEST_CASE("a conversation over the limit is cut, unless only its last messages are wanted") {
  std::string lines;
  for (int i = 0; i < 3000; ++i)
    lines += said_line(fmt::format("e{}", i), i == 0 ? "null" : fmt::format("\"e{}\"", i - 1),
                       i % 2 == 0 ? "user" : "assistant");
  TempDir dir(TempDir::On::memory);
  const auto transcript = open_transcript(dir.write("t.jsonl", transcript_header + lines));
  CHECK(conversation_of(*transcript, {.bytes = 20'000}).cut);
  CHECK_FALSE(conversation_of(*transcript, {.bytes = 2'000'000}).cut);

  const context::Conversation last = conversation_of(*transcript, {.bytes = 200'000, .messages = 10});
  CHECK_FALSE(last.cut);
  REQUIRE(last.after.size() >= 10);
  CHECK(last.after.back().id == "e2999");
  for (std::size_t i = 0; i < last.after.size(); ++i) CHECK(last.after[i].seq == 3000 - last.after.size() + i);

  const context::Conversation whole = conversation_of(*transcript, {.bytes = 2'000'000, .messages = 10});
  CHECK(whole.after.size() == 3000);
}

TEST_CASE("the last messages are those before the checkpoint too") {
  std::string lines = chain(0, 40);
  lines += compaction_entry("c", R"("e39")", "e2") + said_line("b", R"("c")");
  TempDir dir(TempDir::On::memory);
  const auto transcript = open_transcript(dir.write("t.jsonl", transcript_header + lines));
  const context::Conversation last = conversation_of(*transcript, {.bytes = 2'000, .messages = 5});
  CHECK_FALSE(last.cut);
  REQUIRE(last.checkpoint.has_value());
  CHECK(last.after.size() == 1);
  CHECK(last.before.size() >= 4);
  REQUIRE_FALSE(last.before.empty());
  CHECK(last.before.back().id == "e39");
}

TEST_CASE("an entry that alone exceeds half of the limit is not left out silently") {
  TempDir dir(TempDir::On::memory);
  const auto transcript = open_transcript(dir.write(
      "t.jsonl", transcript_header + chain(0, 40) +
                     entry_line("b", R"("e39")", R"({"role":"user","content":")" + std::string(1500, 'x') + "\"}")));
  const context::Conversation last = conversation_of(*transcript, {.bytes = 2'000, .messages = 1});
  CHECK((last.cut || (!last.after.empty() && last.after.back().id == "b")));
}

TEST_CASE("of several entries with one id the one on the path counts") {
  const std::string four = chain(0, 4);
  struct Case {
    std::string_view name;
    std::string lines, ids;
  };
  const std::vector<Case> cases{
      {"the other one is on another branch",
       four + said_line("e1", R"("e0")") + said_line("b", R"("e3")") + compaction_entry("c", R"("b")", "e1"),
       "[c] e1 e2 e3 b"},
      {"the other one follows the checkpoint",
       four + compaction_entry("c", R"("e3")", "e2") + said_line("e2", R"("c")"), "[c] e2 e3 e2"},
      {"both are on the path: the last one",
       four + said_line("e1", R"("e3")") + said_line("b", R"("e1")") + compaction_entry("c", R"("b")", "e1"),
       "[c] e1 b"},
      {"as a parent, the last one before the branch",
       four + said_line("b", R"("e1")") + said_line("e1", R"("b")") + said_line("d", R"("e1")"), "e0 e1 b e1 d"},
      {"as the parent of two branches",
       four + said_line("b", R"("e0")") + said_line("e0", R"("e3")") + said_line("d", "7") + said_line("f", R"("e0")"),
       "e0 e1 e2 e3 e0 f"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.name);
    CHECK(shown(one.lines) == one.ids);
  }
}

TEST_CASE("a plan's first kept entry is one that the commit accepts") {
  std::string lines = chain(0, 14);
  lines += said_line("e6", R"("e4")") + said_line("x", R"("e6")") + said_line("b", R"("e13")");
  const MemoryTranscript memory = in_memory(lines);
  TempDir dir(TempDir::On::memory);
  const auto file = open_transcript(dir.write("t.jsonl", transcript_header + lines));
  for (const auto& kept : {transcripts::look_up_kept(*file, "e6"), transcripts::look_up_kept(memory, "e6")}) {
    REQUIRE(kept.has_value());
    CHECK(kept->on_path);
    CHECK(kept->beyond_last);
  }
}

TEST_CASE("what a compaction would keep first is looked up on the path") {
  const std::string lines = chain(0, 6) + said_line("b", R"("e3")") + compaction_entry("c", R"("b")", "e2") +
                            said_line("d", R"("c")") + said_line("f", R"("d")");
  TempDir dir(TempDir::On::memory);
  const auto transcript = open_transcript(dir.write("t.jsonl", transcript_header + lines));
  struct Case {
    std::string id;
    bool on_path, beyond_last;
  };
  for (const Case& one : std::vector<Case>{{"e1", true, false},
                                           {"e2", true, false},
                                           {"e3", true, false},  // e2 stays, the words that it answers
                                           {"b", true, true},
                                           {"d", true, true},
                                           {"f", true, true},
                                           {"e4", false, true},
                                           {"x", false, false}}) {
    CAPTURE(one.id);
    const auto kept = transcripts::look_up_kept(*transcript, one.id);
    REQUIRE(kept.has_value());
    CHECK(kept->on_path == one.on_path);
    if (one.on_path) CHECK(kept->beyond_last == one.beyond_last);
    CHECK(kept->checkpoint == "c");
    CHECK(kept->branches == 1);
  }
}

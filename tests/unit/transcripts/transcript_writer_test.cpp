#include "transcripts/transcript_writer.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/temp_dir.hpp"
#include "transcripts/entry.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

const std::string file = "agents/main/sessions/s.jsonl";
const std::string our_header = header_line("s", 0, "/", "");

std::string line_with(const std::string& id, const std::string& parent = {}) {
  return write_entry(*parse_entry(R"({"role":"user","text":"text of )" + id + "\"}", ""), id, parent, 0, 0).line;
}

struct Line {
  std::uint64_t offset;
  std::string text;
  std::string id;
};

// A our_header and lines, one behind the other from the beginning of the file.
std::vector<Line> plan(const std::vector<std::string>& ids, std::uint64_t begin = 0) {
  std::vector<Line> lines;
  if (begin == 0) lines.push_back({0, our_header, ""});
  for (const std::string& id : ids) {
    const std::uint64_t offset = lines.empty() ? begin : lines.back().offset + lines.back().text.size();
    lines.push_back({offset, line_with(id), id});
  }
  return lines;
}

std::string joined(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) text += line.text;
  return text;
}

void add(TranscriptWriter& appender, const std::vector<Line>& lines, const std::string& to = file) {
  for (const Line& line : lines) appender.add({.file = to, .offset = line.offset}, line.text, line.id);
}

void add_and_flush(const TempDir& dir, const std::vector<Line>& lines, bool displaced = false) {
  TranscriptWriter appender(dir.path());
  add(appender, lines);
  REQUIRE(appender.flush());
  CHECK(appender.take_displaced() == (displaced ? std::vector<std::string>{file} : std::vector<std::string>{}));
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("lines are written when flushed, private, in directories made for them") {
  TempDir dir;
  const mode_t old_mask = ::umask(0);
  TranscriptWriter appender(dir.path());
  const auto lines = plan({"a", "b"});
  add(appender, lines);
  CHECK(appender.pending_bytes() == joined(lines).size());
  CHECK_FALSE(fs::exists(dir.path() / file));
  REQUIRE(appender.flush("another"));
  CHECK_FALSE(fs::exists(dir.path() / file));
  REQUIRE(appender.flush(file));
  CHECK(appender.pending_bytes() == 0);
  CHECK(dir.read(file) == joined(lines));
  REQUIRE(appender.sync());
  ::umask(old_mask);
  CHECK(fs::status(dir.path() / file).permissions() == static_cast<fs::perms>(0600));
  CHECK(fs::status(dir.path() / "agents/main").permissions() == static_cast<fs::perms>(0700));
  CHECK(appender.take_displaced().empty());
  auto more = plan({"c"}, joined(lines).size());
  add(appender, more);
  REQUIRE(appender.sync());  // flushes first
  CHECK(dir.read(file) == joined(lines) + joined(more));
}

TEST_CASE("cut at every byte of an append, the lines put back give the uninterrupted file") {
  TempDir dir;
  const auto first = plan({"first"});
  const auto lines = plan({"line-1", "line-2", "line-3"}, joined(first).size());
  const std::string whole = joined(first) + joined(lines);
  fs::create_directories((dir.path() / file).parent_path());
  SUBCASE("lines behind others") {
    for (std::size_t size = joined(first).size(); size <= whole.size(); ++size) {
      CAPTURE(size);
      dir.write(file, whole.substr(0, size));
      add_and_flush(dir, lines);
      CHECK(dir.read(file) == whole);
      add_and_flush(dir, lines);  // recovery may itself be interrupted and begin again
      CHECK(dir.read(file) == whole);
    }
  }
  SUBCASE("everything, with the our_header") {
    auto all = first;
    all.insert(all.end(), lines.begin(), lines.end());
    for (std::size_t size = 0; size <= whole.size(); ++size) {
      CAPTURE(size);
      dir.write(file, whole.substr(0, size));
      add_and_flush(dir, all);
      CHECK(dir.read(file) == whole);
    }
  }
}

TEST_CASE("behind a last line without its newline, cut at every byte") {
  TempDir dir;
  const std::string foreign = our_header + R"({"type":"label","id":"foreign"})";
  fs::create_directories((dir.path() / file).parent_path());
  for (const std::uint64_t ahead : {0U, 1U}) {  // whoever committed it may have counted the newline or not
    const auto lines = plan({"a", "b"}, foreign.size() + ahead);
    const std::string whole = foreign + "\n" + joined(lines);
    for (std::size_t size = foreign.size(); size <= whole.size(); ++size) {
      CAPTURE(size);
      dir.write(file, whole.substr(0, size));
      add_and_flush(dir, lines, ahead == 0);
      CHECK(dir.read(file) == whole);
    }
  }
}

TEST_CASE("where a foreign line stands in the place, ours follow, each once, cut at every byte") {
  TempDir dir;
  const auto first = plan({"first"});
  const auto lines = plan({"line-1", "line-2", "line-3"}, joined(first).size());
  fs::create_directories((dir.path() / file).parent_path());
  for (const std::string& foreign :
       {std::string(R"({"type":"label","id":"foreign","label":"x"})") + "\n", line_with("line-0"),
        std::string("garbage\n"), std::string("\n"), joined(plan({"f1", "f2", "f3", "f4", "f5"}, 1))}) {
    const std::string before = joined(first) + foreign;
    const std::string whole = before + joined(lines);
    for (std::size_t size = before.size(); size <= whole.size(); ++size) {
      CAPTURE(size);
      dir.write(file, whole.substr(0, size));
      add_and_flush(dir, lines, true);
      CHECK(dir.read(file) == whole);
    }
  }
}

TEST_CASE("a foreign line between ours") {
  TempDir dir;
  const auto lines = plan({"a", "b", "c"});
  const std::string foreign = "{\"type\":\"label\",\"id\":\"f\"}\n";
  SUBCASE("live: the lines after it are put behind it") {
    TranscriptWriter appender(dir.path());
    add(appender, {lines[0], lines[1]});
    REQUIRE(appender.flush());
    dir.append(file, foreign);
    add(appender, {lines[2]});
    add(appender, {lines[3]});
    REQUIRE(appender.flush());
    CHECK(dir.read(file) == our_header + lines[1].text + foreign + lines[2].text + lines[3].text);
    CHECK(appender.take_displaced() == std::vector<std::string>{file});
    CHECK(appender.take_displaced().empty());
  }
  SUBCASE("recovery finds each where it is, reformatted or not") {
    fs::create_directories((dir.path() / file).parent_path());
    std::string reformatted = "{ " + lines[2].text.substr(1);  // another layout, other escapes, another parent
    reformatted.replace(reformatted.find("text of b"), 4, "\\u0074ext");
    reformatted.replace(reformatted.find("\"parentId\":null"), 15, "\"parentId\":\"a\"");
    for (const std::string& b : {lines[2].text, reformatted}) {
      const std::string text = our_header + foreign + lines[1].text + b + foreign;
      dir.write(file, text);
      add_and_flush(dir, lines, true);
      CHECK(dir.read(file) == text + lines[3].text);
    }
  }
  SUBCASE("lines that another program moved before their place are not written twice") {
    fs::create_directories((dir.path() / file).parent_path());
    const std::string rewritten = lines[3].text + lines[1].text;
    dir.write(file, rewritten);
    add_and_flush(dir, {lines[1], lines[2], lines[3]}, true);
    CHECK(dir.read(file) == rewritten + lines[2].text);
  }
  SUBCASE("an id in an unreadable line or inside a message is not the line") {
    fs::create_directories((dir.path() / file).parent_path());
    const std::string text =
        our_header + "{\"type\":\"message\",\"id\":\"a\",\"mess\n{\"type\":\"x\",\"message\":{\"id\":\"a\"}}\n";
    dir.write(file, text);
    add_and_flush(dir, {lines[1]}, true);
    CHECK(dir.read(file) == text + lines[1].text);
  }
}

TEST_CASE("a file that was cut by somebody is appended to at its end") {
  TempDir dir;
  TranscriptWriter appender(dir.path());
  const auto lines = plan({"a", "b"});
  add(appender, {lines[0], lines[1]});
  REQUIRE(appender.flush());
  fs::resize_file(dir.path() / file, our_header.size() - 5);
  add(appender, {lines[2]});
  REQUIRE(appender.flush());
  CHECK(dir.read(file) == our_header.substr(0, our_header.size() - 5) + "\n" + lines[2].text);
  CHECK(appender.take_displaced() == std::vector<std::string>{file});
}

TEST_CASE("headers are for the beginning of a file only") {
  TempDir dir;
  fs::create_directories((dir.path() / file).parent_path());
  const auto lines = plan({"a"});
  const std::string other = "{\"type\":\"session\",\"id\":\"theirs\"}\n";
  dir.write(file, other);
  add_and_flush(dir, lines, true);
  CHECK(dir.read(file) == other + lines[1].text);
}

TEST_CASE("the same line twice is written once") {
  TempDir dir;
  const auto lines = plan({"a", "b"});
  auto twice = lines;
  twice.insert(twice.end(), lines.begin(), lines.end());
  add_and_flush(dir, twice);
  CHECK(dir.read(file) == joined(lines));
  dir.append(file, "{\"type\":\"label\",\"id\":\"f\"}\n");
  const auto late = plan({"c"}, joined(lines).size());
  add_and_flush(dir, {late[0], late[0]}, true);
  CHECK(count_of(dir.read(file), "\"id\":\"c\"") == 1);
}

TEST_CASE("a file that is removed, replaced or renamed under us is noticed") {
  TempDir dir;
  TranscriptWriter appender(dir.path());
  const auto lines = plan({"a", "b", "c"});
  add(appender, {lines[0], lines[1]});
  REQUIRE(appender.flush());
  dir.write("copy", dir.read(file));
  fs::rename(dir.path() / "copy", dir.path() / file);
  add(appender, {lines[2]});
  REQUIRE(appender.flush());
  CHECK(dir.read(file) == our_header + lines[1].text + lines[2].text);
  CHECK(appender.take_displaced() == std::vector<std::string>{file});
  fs::rename(dir.path() / file, dir.path() / "renamed");
  add(appender, {lines[3]});
  REQUIRE(appender.sync());
  CHECK(dir.read(file) == lines[3].text);
  CHECK(dir.read("renamed") == our_header + lines[1].text + lines[2].text);
}

TEST_CASE("close flushes, and the next line makes a new file") {
  TempDir dir;
  TranscriptWriter appender(dir.path());
  const auto lines = plan({"a"});
  add(appender, lines);
  REQUIRE(appender.close(file, false));
  CHECK(dir.read(file) == joined(lines));
  fs::rename(dir.path() / file, dir.path() / "archived");
  add(appender, lines);
  REQUIRE(appender.sync());
  CHECK(dir.read(file) == joined(lines));
  CHECK(appender.take_displaced().empty());
  CHECK(appender.close("never/seen", false).has_value());
}

TEST_CASE("names that leave the state directory are refused, the rest is written") {
  TempDir dir;
  TempDir outside;
  fs::create_symlink(outside.path(), dir.path() / "out");
  dir.write("real", "");
  fs::create_symlink(dir.path() / "real", dir.path() / "link.jsonl");
  TranscriptWriter appender(dir.path());
  const auto lines = plan({"a"});
  for (const std::string& bad :
       {std::string("../x.jsonl"), std::string("out/x.jsonl"), std::string("link.jsonl"), std::string("/etc/x.jsonl")})
    add(appender, lines, bad);
  add(appender, lines);
  CHECK(appender.flush().has_value());  // nobody waits for them: they are told
  CHECK(appender.stuck().size() == 4);
  CHECK(appender.flush("link.jsonl").error().code == Code::degraded);
  CHECK(dir.read(file) == joined(lines));
  CHECK(fs::is_empty(outside.path()));
  CHECK(dir.read("real").empty());
  CHECK(appender.pending_bytes() == 4 * joined(lines).size());
  CHECK(appender.sync().has_value());
  CHECK(appender.pending_bytes() == 4 * joined(lines).size());
}

TEST_CASE("a disk that fills in the middle of a write: nothing half is left, nothing is lost") {
  TempDir dir;
  TranscriptWriter appender(dir.path());
  const auto first = plan({"first"});
  const auto lines = plan({"line-1", "line-2", "line-3"}, joined(first).size());
  add(appender, first);
  REQUIRE(appender.flush());
  struct rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  add(appender, lines);
  for (const bool foreign : {false, true}) {
    std::string before = joined(first);
    if (foreign) {  // the slow way, too
      dir.append(file, "{\"type\":\"label\",\"id\":\"f\"}");
      before = dir.read(file);
    }
    for (std::size_t room = 0; room < joined(lines).size(); room += 13) {
      const struct rlimit small{.rlim_cur = before.size() + room, .rlim_max = old.rlim_max};
      REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
      const auto flushed = appender.flush();
      REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
      REQUIRE_FALSE(flushed.has_value());
      CHECK(flushed.error().detail.find("s.jsonl") != std::string::npos);
      REQUIRE(dir.read(file) == before);
      CHECK(appender.pending_bytes() == joined(lines).size());
    }
  }
  std::signal(SIGXFSZ, old_handler);
  REQUIRE(appender.flush());
  CHECK(dir.read(file) == joined(first) + "{\"type\":\"label\",\"id\":\"f\"}\n" + joined(lines));
  CHECK(appender.pending_bytes() == 0);
}

TEST_CASE("pages that a power cut took are filled again, whichever they were and wherever the file ends") {
  const auto lines = plan({"line-1", "line-2", "line-3", "line-4"});
  const std::string whole = joined(lines);
  TempDir dir;
  fs::create_directories((dir.path() / file).parent_path());
  const std::size_t page = whole.size() / 7;  // some hold parts of two lines
  const std::size_t pages = (whole.size() + page - 1) / page;
  for (std::size_t taken = 0; taken < (1U << pages); ++taken) {
    for (const std::size_t end : {whole.size(), whole.size() - 1, whole.size() / page * page, page}) {
      CAPTURE(taken);
      CAPTURE(end);
      std::string left = whole.substr(0, end);
      for (std::size_t at = 0; at < left.size(); ++at)
        if ((taken >> (at / page) & 1U) != 0) left[at] = '\0';
      dir.write(file, left);
      TranscriptWriter appender(dir.path());
      add(appender, lines);
      REQUIRE(appender.flush());
      REQUIRE(dir.read(file) == whole);
    }
  }
}

TEST_CASE("a hole is filled only where nothing but ours can have been") {
  TempDir dir;
  const auto lines = plan({"line-1", "line-2"});
  fs::create_directories((dir.path() / file).parent_path());
  std::string left = joined(lines);
  left.replace(lines[1].offset, 3, std::string("\0\0f", 3));  // somebody else's bytes
  dir.append(file, left);
  add_and_flush(dir, lines, true);
  CHECK(dir.read(file) == left + lines[1].text);
}

TEST_CASE("more files than descriptors") {
  TempDir dir;
  TranscriptWriter appender(dir.path());
  const auto lines = plan({"a", "b", "c"});
  for (const Line& line : lines) {
    for (int i = 0; i < 600; ++i) add(appender, {line}, "s/" + std::to_string(i) + ".jsonl");
    REQUIRE(appender.flush());
    const auto open = std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
    CHECK(open < 300);
  }
  REQUIRE(appender.sync());
  for (int i = 0; i < 600; ++i) CHECK(dir.read("s/" + std::to_string(i) + ".jsonl") == joined(lines));
  CHECK(appender.take_displaced().empty());
}

TEST_CASE("random foreign writers and crashes: every line is there once, in order, and no foreign byte is lost") {
  std::mt19937 random(42);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    TempDir dir;
    fs::create_directories((dir.path() / file).parent_path());
    std::vector<Line> journal = {{0, our_header, ""}};
    std::vector<std::string> foreign;
    auto appender = std::make_unique<TranscriptWriter>(dir.path());
    add(*appender, journal);
    REQUIRE(appender->flush());
    std::uint64_t next = our_header.size();
    for (int step = 0; step < 40; ++step) {
      switch (random() % 6) {
        case 0: {  // another program appends
          foreign.push_back("{\"type\":\"label\",\"id\":\"foreign-" + std::to_string(step) + "\"}\n");
          dir.append(file, foreign.back());
          break;
        }
        case 1: {  // a crash: what was not flushed is gone, and the journal is played again
          appender = std::make_unique<TranscriptWriter>(dir.path());
          add(*appender, journal);
          REQUIRE(appender->flush());
          break;
        }
        case 2: {  // the owner looks at the file again
          REQUIRE(appender->flush());
          if (!appender->take_displaced().empty()) next = fs::file_size(dir.path() / file);
          break;
        }
        default: {
          const std::string id = "line-" + std::to_string(step) + "x";
          journal.push_back({next, line_with(id, "elsewhere"), id});  // kept as it is wherever it comes to stand
          next += journal.back().text.size();
          add(*appender, {journal.back()});
          if (random() % 2 == 0) REQUIRE(appender->flush());
        }
      }
    }
    REQUIRE(appender->flush());
    const std::string text = dir.read(file);
    std::size_t expected = 0;
    std::size_t last = 0;
    for (const Line& line : journal) {
      CHECK(count_of(text, line.text) == 1);
      const std::size_t at = text.find(line.text);
      CHECK(at >= last);
      last = at;
      expected += line.text.size();
    }
    for (const std::string& line : foreign) {
      CHECK(count_of(text, line) == 1);
      expected += line.size();
    }
    CHECK(text.size() == expected);
  }
}

TEST_CASE("another program's entry that came between stays in the chain of parents") {
  TempDir dir;
  const auto first = plan({"a"});
  add_and_flush(dir, first);
  const std::uint64_t end = joined(first).size();
  const std::string foreign = R"({"type":"message","id":"f","parentId":"a","message":{}})"
                              "\n";
  dir.append(file, foreign);

  const std::string next = line_with("b", "a");
  TranscriptWriter appender(dir.path());
  SUBCASE("what was to follow the last entry follows the one that is last now") {
    add(appender, {{end, next, "b"}, {end + next.size(), line_with("c", "b"), "c"}});
    REQUIRE(appender.flush());
    const std::string text = dir.read(file);
    CHECK(text == joined(first) + foreign + line_with("b", "f") + line_with("c", "b"));
    // And again, as recovery does.
    TranscriptWriter after(dir.path());
    add(after, {{end, next, "b"}, {end + next.size(), line_with("c", "b"), "c"}});
    REQUIRE(after.flush());
    CHECK(dir.read(file) == text);
  }
  SUBCASE("a parent that was chosen otherwise stays") {
    add(appender, {{end, line_with("b", "elsewhere"), "b"}});
    REQUIRE(appender.flush());
    CHECK(dir.read(file).ends_with(line_with("b", "elsewhere")));
  }
}

TEST_CASE("a transcript that another program has locked waits, the others do not") {
  TempDir dir;
  const std::string other = "agents/main/sessions/other.jsonl";
  TranscriptWriter appender(dir.path(), lock::LockOptions{.timeout = std::chrono::milliseconds(0)});
  const auto lines = plan({"a"});
  fs::create_directories((dir.path() / file).parent_path());
  const fs::path lock = dir.path() / (file + ".lock");
  dir.write(file + ".lock", R"({"pid":)" + std::to_string(::getppid()) + "}");
  add(appender, lines);
  add(appender, lines, other);
  REQUIRE(appender.flush());
  CHECK(appender.flush(file).error().code == Code::lock_timeout);
  REQUIRE(appender.sync());
  CHECK(appender.close(file, true).error().code == Code::lock_timeout);
  CHECK_FALSE(fs::exists(dir.path() / file));
  CHECK(appender.waiting() == std::set<std::string, std::less<>>{file});
  CHECK(dir.read(other) == joined(lines));
  fs::remove(lock);
  {
    const auto held = appender.close(file, true);
    REQUIRE(held);
    CHECK(fs::exists(lock));  // until what it is closed for is done
  }
  CHECK(dir.read(file) == joined(lines));
  CHECK(appender.waiting().empty());
  CHECK_FALSE(fs::exists(lock));
}

TEST_CASE("the header is no entry, whatever its id") {
  TempDir dir;
  fs::create_directories((dir.path() / file).parent_path());
  const auto lines = plan({"s"});  // the header's id is s
  const std::string theirs = "{\"type\":\"label\",\"id\":\"f\"}\n";
  dir.write(file, our_header + theirs);
  add_and_flush(dir, lines, true);
  CHECK(count_of(dir.read(file), "text of s") == 1);
  add_and_flush(dir, lines, true);  // and once only
  CHECK(count_of(dir.read(file), "text of s") == 1);
}

TEST_CASE("a foreign line with the id of ours keeps ours not out, and is told") {
  TempDir dir;
  fs::create_directories((dir.path() / file).parent_path());
  const auto lines = plan({"a", "b"});
  const std::string theirs = line_with("other");
  std::string same_id = theirs;
  same_id.replace(same_id.find("\"other\""), 7, "\"a\"");
  dir.write(file, our_header + same_id);
  for (const bool first : {true, false}) {
    TranscriptWriter appender(dir.path());
    add(appender, lines);
    REQUIRE(appender.flush());
    const auto doubled = appender.take_duplicate_ids();
    CHECK(doubled.size() == (first ? 1 : 0));
    if (first) CHECK(doubled[0].id == "a");
    const std::string text = dir.read(file);
    CHECK(count_of(text, "\"id\":\"a\"") == 2);
    CHECK(count_of(text, "text of other") == 1);
    CHECK(count_of(text, "text of a") == 1);
    CHECK(count_of(text, "text of b") == 1);
  }
}

TEST_CASE("lines that come further behind than was told are told") {
  TempDir dir;
  TranscriptWriter appender(dir.path());
  const auto lines = plan({"a", "b", "c"});
  appender.add({.file = file, .offset = 0}, lines[0].text, "");
  appender.add({.file = file, .offset = lines[1].offset, .seq = 0}, lines[1].text, "a");
  REQUIRE(appender.flush());
  CHECK(appender.take_renumbered().empty());
  dir.append(file, "{\"type\":\"label\",\"id\":\"f\"}\n");
  appender.add({.file = file, .offset = lines[2].offset, .seq = 1}, lines[2].text, "b");
  appender.add({.file = file, .offset = lines[3].offset, .seq = 2}, lines[3].text, "c");
  REQUIRE(appender.flush());
  CHECK(appender.take_renumbered() == std::map<std::string, std::uint64_t>{{file, 1}});
  CHECK(appender.take_renumbered().empty());
}

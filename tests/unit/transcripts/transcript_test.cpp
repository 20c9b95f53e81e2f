#include "transcripts/transcript.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/temp_dir.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_index.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

const std::string header = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n";

std::unique_ptr<Transcript> opened(const fs::path& path, const fs::path& sidecar = {}) {
  auto transcript = Transcript::open(path, sidecar);
  REQUIRE_MESSAGE(transcript.has_value(), (transcript ? "" : transcript.error().detail));
  return std::move(*transcript);
}

// Reads what the file holds, the plain way.
struct Model {
  bool has_header = false;
  std::vector<std::string> lines;
  std::string last_id;

  explicit Model(std::string_view text) {
    std::vector<std::string> all;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string line(text.substr(0, end));
      if (line.ends_with('\r')) line.pop_back();
      if (all.empty() && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
      all.push_back(line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    has_header = !all.empty() && entry_type(all.front()) == "session";
    lines.assign(all.begin() + (has_header ? 1 : 0), all.end());
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (entry_type(lines[i]) != "unreadable" && entry_type(lines[i]) != "session") last_id = entry_id(lines[i], i);
  }
};

void check_tail(const Transcript& transcript, const Model& model, std::string_view text) {
  const TranscriptTail& tail = transcript.tail();
  CHECK(tail.exists);
  CHECK(tail.has_header == model.has_header);
  CHECK(tail.count == model.lines.size());
  CHECK(tail.size == text.size());
  CHECK(tail.ends_in_newline == (text.empty() || text.ends_with('\n')));
  CHECK(tail.last_id == model.last_id);
}

// Follows `next` until there is no more; the lines in file order.
std::vector<StoredLine> all_pages(Transcript& transcript, PageQuery query) {
  std::vector<StoredLine> all;
  for (;;) {
    auto page = transcript.page(query);
    REQUIRE_MESSAGE(page.has_value(), (page ? "" : page.error().detail));
    CHECK(page->lines.size() <= query.limit);
    for (StoredLine& line : page->lines) all.push_back(std::move(line));
    if (!page->has_more) break;
    REQUIRE(page->next.has_value());
    (query.descending ? query.before : query.after) = page->next;
  }
  if (query.descending) std::ranges::reverse(all);
  return all;
}

void check_lines(const std::vector<StoredLine>& lines, const Model& model, std::uint64_t low, std::uint64_t high) {
  REQUIRE(lines.size() == (high > low ? high - low : 0));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    REQUIRE(lines[i].seq == low + i);
    REQUIRE(lines[i].line == model.lines[low + i]);
  }
}

std::string random_line(std::mt19937& random, std::size_t number) {
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string id = "id" + std::to_string(number);
  switch (below(12)) {
    case 0:
      return "";
    case 1:
      return "not json";
    case 2:
      return std::string(below(5), '\0') + "x";
    case 3:
      return R"({"type":"label","id":")" + id + "\"}\r";
    case 4:
      return R"({"role":"user","content":"no id )" + std::to_string(number) + "\"}";
    case 5:
      return R"({"type":"message","id":")" + id + R"(","message":{"role":"user","content":")" +
             std::string(below(20'000), 'x') + "\"}}";
    default:
      return R"({"type":"message","id":")" + id + R"(","message":{"role":"user","content":")" +
             std::string(below(300), 'y') + "\"}}";
  }
}

std::string random_file(std::mt19937& random, std::size_t lines) {
  std::string text;
  if (random() % 4 == 0) text += "\xEF\xBB\xBF";
  if (random() % 4 != 0) text += header;
  for (std::size_t i = 0; i < lines; ++i) text += random_line(random, i) + "\n";
  if (random() % 3 == 0) text += R"({"type":"label","id":"open"})";
  return text;
}

}  // namespace

TEST_CASE("an absent file is empty, and is seen when it comes") {
  TempDir dir;
  auto transcript = opened(dir.path() / "t.jsonl");
  CHECK_FALSE(transcript->tail().exists);
  CHECK(transcript->page({})->lines.empty());
  CHECK_FALSE(transcript->find("x")->has_value());
  dir.write("t.jsonl", header + "{\"type\":\"label\",\"id\":\"a\"}\n");
  REQUIRE(transcript->refresh());
  CHECK(transcript->tail().count == 1);
  CHECK(transcript->tail().last_id == "a");
  fs::remove(dir.path() / "t.jsonl");
  REQUIRE(transcript->refresh());
  CHECK_FALSE(transcript->tail().exists);
  CHECK(transcript->tail().count == 0);
}

TEST_CASE("beginnings and ends of every kind") {
  TempDir dir;
  const std::string label = R"({"type":"label","id":"a"})";
  const std::vector<std::string> files = {
      "",
      "\n",
      "\n\n",
      header,
      header.substr(0, header.size() - 1),
      header.substr(0, 20),
      header.substr(0, 20) + "\n" + label + "\n",
      "\xEF\xBB\xBF" + header + label + "\n",
      "\xEF\xBB\xBF" + label + "\n",
      header + label,
      header + label + "\n{\"type\":\"mess",
      header + label + "\r\n" + label + "\r",
      label,
      label + "\n" + header,
      header + header + label + "\n" + header,
      header + std::string(10, '\0'),
      header + "\n\n" + label + "\n\n",
      header + "garbage\n",
  };
  for (const std::string& text : files) {
    CAPTURE(text);
    dir.write("t.jsonl", text);
    auto transcript = opened(dir.path() / "t.jsonl");
    const Model model(text);
    check_tail(*transcript, model, text);
    check_lines(all_pages(*transcript, {.limit = 2}), model, 0, model.lines.size());
    check_lines(all_pages(*transcript, {.limit = 2, .descending = true}), model, 0, model.lines.size());
  }
}

TEST_CASE("pages from both ends of random files are what a plain reading gives") {
  TempDir dir;
  std::mt19937 random(20'261'121);
  for (int round = 0; round < 25; ++round) {
    CAPTURE(round);
    const std::string text = random_file(random, random() % 700);
    const fs::path path = dir.write("t" + std::to_string(round) + ".jsonl", text);
    const Model model(text);
    auto transcript = opened(path);
    check_tail(*transcript, model, text);
    const std::uint64_t count = model.lines.size();
    for (const bool descending : {false, true}) {
      const PageQuery all{.limit = 1 + random() % 200, .descending = descending};
      check_lines(all_pages(*transcript, all), model, 0, count);
      for (int i = 0; i < 10; ++i) {
        PageQuery part{.limit = 1 + random() % 90, .descending = descending};
        std::uint64_t low = 0;
        std::uint64_t high = count;
        if (random() % 2 != 0) {
          part.after = random() % (count + 3);
          low = *part.after + 1;
        }
        if (random() % 2 != 0) {
          part.before = random() % (count + 3);
          high = std::min(count, *part.before);
        }
        check_lines(all_pages(*transcript, part), model, low, high);
      }
    }
    for (std::size_t seq = 0; seq < model.lines.size(); seq += 37) {
      const auto found = transcript->find(entry_id(model.lines[seq], seq));
      REQUIRE(found.has_value());
      REQUIRE(found->has_value());
      CHECK((*found)->seq == seq);
      CHECK((*found)->line == model.lines[seq]);
    }
    CHECK_FALSE(transcript->find("nowhere")->has_value());
    CHECK_FALSE(transcript->find("00000000")->has_value());
  }
}

TEST_CASE("a growing file is followed, wherever the writes end") {
  TempDir dir;
  std::mt19937 random(7);
  const std::string text = random_file(random, 400);
  dir.write("t.jsonl", "");
  auto transcript = opened(dir.path() / "t.jsonl");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::min<std::size_t>(text.size() - at, 1 + random() % 3000);
    dir.append("t.jsonl", text.substr(at, length));
    at += length;
    REQUIRE(transcript->refresh());
    const std::string so_far = text.substr(0, at);
    const Model model(so_far);
    check_tail(*transcript, model, so_far);
  }
  const Model model(text);
  check_lines(all_pages(*transcript, {}), model, 0, model.lines.size());
}

TEST_CASE("a replaced, cut or rewritten file is read anew") {
  TempDir dir;
  std::mt19937 random(8);
  dir.write("t.jsonl", random_file(random, 300));
  auto transcript = opened(dir.path() / "t.jsonl");
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    const std::string text = random_file(random, 100 + random() % 400);
    if (round % 3 == 0) {
      dir.write("other", text);
      fs::rename(dir.path() / "other", dir.path() / "t.jsonl");
    } else {
      dir.write("t.jsonl", text);  // the same inode
    }
    const Model model(text);
    if (round % 2 == 0) {
      REQUIRE(transcript->refresh());
      check_tail(*transcript, model, text);
    } else {
      // Without a look first: never a crash, and right again after one.
      for (const bool descending : {false, true}) (void)transcript->page({.after = 90, .descending = descending});
      REQUIRE(transcript->refresh());
    }
    check_lines(all_pages(*transcript, {}), model, 0, model.lines.size());
  }
}

TEST_CASE("types filter, and look at a bounded number of lines") {
  TempDir dir;
  std::string text = header;
  for (int i = 0; i < 1000; ++i)
    text += i % 100 == 50 ? "{\"type\":\"label\",\"id\":\"l\"}\n"
            : i % 10 == 0 ? "broken\n"
                          : "{\"role\":\"user\",\"content\":\"x\"}\n";
  dir.write("t.jsonl", text);
  auto transcript = opened(dir.path() / "t.jsonl");
  for (const bool descending : {false, true}) {
    const auto labels =
        all_pages(*transcript, {.limit = 3, .descending = descending, .types = {"label"}, .scan_limit = 64});
    REQUIRE(labels.size() == 10);
    for (std::size_t i = 0; i < labels.size(); ++i) CHECK(labels[i].seq == 100 * i + 50);
    CHECK(all_pages(*transcript, {.descending = descending, .types = {"unreadable", "label"}}).size() == 100);
    CHECK(all_pages(*transcript, {.descending = descending, .types = {"none"}, .scan_limit = 0}).empty());
  }
  const auto page = transcript->page({.types = {"none"}, .scan_limit = 10});
  CHECK(page->lines.empty());
  CHECK(page->has_more);
  CHECK(page->next == 9);
  CHECK(transcript->page({.limit = 0})->has_more);
}

TEST_CASE("huge lines: pages stay bounded and whole") {
  TempDir dir;
  std::string text = header;
  for (int i = 0; i < 12; ++i) {
    text += R"({"type":"custom","id":"big)" + std::to_string(i) + R"(","d":")" + std::string(3'000'000, 'a') + "\"}\n";
    text += R"({"type":"label","id":"small)" + std::to_string(i) + "\"}\n";
  }
  text += R"({"type":"custom","id":"huge","d":")" + std::string(20'000'000, 'b') + "\"}\n";
  dir.write("t.jsonl", text);
  auto transcript = opened(dir.path() / "t.jsonl");
  const Model model(text);
  check_tail(*transcript, model, text);
  for (const bool descending : {false, true}) {
    const auto page = transcript->page({.limit = 200, .descending = descending});
    std::size_t bytes = 0;
    for (const StoredLine& line : page->lines) bytes += line.line.size();
    CHECK(page->has_more);
    CHECK(page->lines.size() == 1);  // one that is larger than a page is one
    CHECK(bytes < 21'000'000);
    check_lines(all_pages(*transcript, {.limit = 200, .descending = descending}), model, 0, model.lines.size());
  }
  CHECK((*transcript->find("big0"))->seq == 0);
}

TEST_CASE("a line beyond all bounds is given cut, as unreadable") {
  TempDir dir;
  const fs::path path = dir.write("t.jsonl", header);
  fs::resize_file(path, (70 << 20));  // a hole: NULs
  dir.append("t.jsonl", "\n{\"type\":\"label\",\"id\":\"a\"}\n");
  auto transcript = opened(path);
  CHECK(transcript->tail().count == 2);
  CHECK(transcript->tail().last_id == "a");
  const auto page = transcript->page({});
  REQUIRE(page->lines.size() == 1);
  CHECK(page->lines[0].line.size() == (64 << 20));
  CHECK(entry_type(page->lines[0].line) == "unreadable");
  CHECK(transcript->page({.descending = true})->lines[0].seq == 1);
}

TEST_CASE("what is no regular file is refused") {
  TempDir dir;
  dir.write("real.jsonl", header);
  fs::create_symlink(dir.path() / "real.jsonl", dir.path() / "link.jsonl");
  fs::create_directory(dir.path() / "dir.jsonl");
  CHECK_FALSE(Transcript::open(dir.path() / "link.jsonl", {}).has_value());
  CHECK_FALSE(Transcript::open(dir.path() / "dir.jsonl", {}).has_value());
}

namespace {

std::string labels(std::size_t from, std::size_t count) {
  std::string text;
  for (std::size_t i = from; i < from + count; ++i)
    text +=
        R"({"type":"label","id":"label-)" + std::to_string(i) + R"(","label":"some text to make it longer"})" + "\n";
  return text;
}

}  // namespace

TEST_CASE("sidecar: written for large files, used when it fits, otherwise not believed") {
  TempDir dir;
  const fs::path sidecar = dir.path() / "index" / "t.idx";
  std::string text = header + labels(0, 10);
  dir.write("t.jsonl", text);
  {
    auto transcript = opened(dir.path() / "t.jsonl", sidecar);
    REQUIRE(transcript->save_sidecars());
    CHECK_FALSE(fs::exists(sidecar));  // small: none
    text += labels(10, 10'000);
    dir.write("t.jsonl", text);
    REQUIRE(transcript->refresh());
    REQUIRE(transcript->save_sidecars());
    CHECK(fs::exists(sidecar));
  }
  const std::string stored = dir.read("index/t.idx");
  struct stat status{};
  REQUIRE(::stat((dir.path() / "t.jsonl").c_str(), &status) == 0);
  const auto index = decode_sidecar(stored, status.st_ino);
  REQUIRE(index.has_value());
  CHECK(index->lines == 10'010);
  CHECK(index->last_id == "label-10009");
  CHECK_FALSE(decode_sidecar(stored, status.st_ino + 1).has_value());
  for (std::size_t i = 0; i < stored.size(); i += 7) {
    std::string damaged = stored;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    CHECK_FALSE(decode_sidecar(damaged, status.st_ino).has_value());
    CHECK_FALSE(decode_sidecar(stored.substr(0, i), status.st_ino).has_value());
  }
  const auto check_now = [&] {
    auto transcript = opened(dir.path() / "t.jsonl", sidecar);
    const std::string now = dir.read("t.jsonl");
    const Model model(now);
    check_tail(*transcript, model, now);
    check_lines(all_pages(*transcript, {.limit = 200}), model, 0, model.lines.size());
  };
  SUBCASE("appended since") {
    dir.append("t.jsonl", labels(20'000, 130) + "{\"type\":\"label\",\"id\":\"open\"}");
    check_now();
  }
  SUBCASE("it is really used: a sidecar that tells a story is believed") {
    LineIndex other = *index;
    other.last_id = "from-the-sidecar";
    dir.write("index/t.idx", encode_sidecar(other, status.st_ino));
    CHECK(opened(dir.path() / "t.jsonl", sidecar)->tail().last_id == "from-the-sidecar");
  }
  SUBCASE("another file, same content but for one line") {
    std::string other = text;
    other[header.size() + 20] = 'X';
    dir.write("other", other);
    fs::rename(dir.path() / "other", dir.path() / "t.jsonl");
    check_now();
  }
  SUBCASE("cut") {
    fs::resize_file(dir.path() / "t.jsonl", text.size() - 10);
    check_now();
  }
  SUBCASE("the same inode with other content") {
    dir.write("t.jsonl", header + labels(500, 20'000));
    check_now();
  }
  SUBCASE("an index that points into the middle of lines is found out on the page") {
    LineIndex other = *index;
    for (std::uint64_t& offset : other.offsets) offset += offset > header.size() ? 1 : 0;
    dir.write("index/t.idx", encode_sidecar(other, status.st_ino));
    check_now();
  }
  SUBCASE("garbage, empty, a directory") {
    dir.write("index/t.idx", "garbage");
    check_now();
    dir.write("index/t.idx", "");
    check_now();
    fs::remove(sidecar);
    fs::create_directory(sidecar);
    check_now();
  }
}

TEST_CASE("whole lines by their place, with the seq they have") {
  const TempDir temp;
  std::string bytes = R"({"type":"session","version":3,"id":"s"})"
                      "\n";
  std::vector<std::uint64_t> begins;
  for (int i = 0; i < 300; ++i) {
    begins.push_back(bytes.size());
    bytes += "{\"type\":\"x\",\"n\":" + std::to_string(i) + "}\n";
  }
  const std::uint64_t whole = bytes.size();
  auto transcript = Transcript::open(temp.write("t.jsonl", bytes + "{\"torn"), {});
  REQUIRE(transcript);
  for (const std::size_t from : {0U, 1U, 63U, 64U, 65U, 128U, 299U}) {
    const auto lines = (*transcript)->whole_lines(begins[from], UINT64_MAX, 1 << 20);
    REQUIRE(lines);
    REQUIRE(lines->size() == 300 - from);
    CHECK(lines->front().stored.seq == from);
    CHECK(lines->front().stored.line == "{\"type\":\"x\",\"n\":" + std::to_string(from) + "}");
    CHECK(lines->back().end == whole);
  }
  CHECK((*transcript)->whole_lines(0, whole, 1 << 20)->size() == 300);  // without the header
  CHECK((*transcript)->whole_lines(begins[7], begins[9], 1 << 20)->size() == 2);
  CHECK((*transcript)->whole_lines(begins[7], whole, 1)->size() == 1);
  CHECK((*transcript)->whole_lines(whole, whole + 6, 1 << 20)->empty());
  auto empty = Transcript::open(temp.path() / "none", {});
  REQUIRE(empty);
  CHECK((*empty)->whole_lines(0, 10, 10)->empty());
}

TEST_CASE("a transcript parses no more than it is allowed to") {
  TempDir dir;
  std::string text = header;
  for (int i = 0; i < 1000; ++i)
    text += "{\"type\":\"message\",\"id\":\"e" + std::to_string(i) +
            "\",\"message\":{\"role\":\"user\",\"content\":\"" + std::string(1000, 'x') + "\"}}\n";
  const auto transcript = opened(dir.write("t.jsonl", text));
  const std::vector<SeqSpan> all{{0, 999}};
  int taken = 0;
  const auto take = [&taken](std::uint64_t, std::string_view) { return ++taken != 0; };
  transcript->allow(100'000);
  CHECK_FALSE(transcript->landmarks().has_value());
  CHECK(transcript->was_stopped());
  transcript->allow(100'000);
  CHECK_FALSE(transcript->was_stopped());
  CHECK(transcript->page({.limit = 50})->lines.size() == 50);
  CHECK_FALSE(transcript->each(all, take).has_value());
  CHECK(transcript->was_stopped());
  CHECK(taken < 100);
  transcript->allow(100'000);
  CHECK_FALSE(transcript->find("e1").has_value());
  CHECK(transcript->was_stopped());
  transcript->allow(Transcript::whole);
  CHECK((*transcript->landmarks())->lines == 1000);
  CHECK(transcript->find("e1")->has_value());
  CHECK(transcript->each(all, take).has_value());
  transcript->allow(100'000);
  CHECK(transcript->landmarks().has_value());
  CHECK(transcript->find("e1")->has_value());
  CHECK_FALSE(transcript->was_stopped());
}

#include "transcripts/landmarks.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/temp_dir.hpp"
#include "tests/unit/transcripts/conversation_lines.hpp"
#include "transcripts/transcript.hpp"

using namespace sessiond;
using namespace sessiond::testing;
using namespace sessiond::transcripts;

namespace {

// Text of all that landmarks say.
std::string text_of(const Landmarks& marks) {
  std::string text = fmt::format("{} lines to {}, systems {}, checkpoints {}, meter {}", marks.lines, marks.last_id,
                                 fmt::join(marks.systems, ","), fmt::join(marks.checkpoints, ","),
                                 marks.meter ? context::to_text(*marks.meter) : "none");
  for (const Landmarks::Branch& branch : marks.branches)
    text += fmt::format(" branch {} {}", branch.seq, branch.parent);
  return text;
}
std::string marks_of(Transcript& transcript) {
  const auto marks = transcript.landmarks();
  REQUIRE_MESSAGE(marks.has_value(), (marks ? "" : marks.error().detail));
  return text_of(**marks);
}
std::string freshly_read(const std::filesystem::path& path) {
  auto transcript = Transcript::open(path, {});
  REQUIRE(transcript.has_value());
  return marks_of(**transcript);
}
std::string long_chain(std::size_t from, std::size_t count) {
  std::string lines;
  for (std::size_t i = from; i < from + count; ++i)
    lines += said_line(fmt::format("e{}", i), i == 0 ? "null" : fmt::format("\"e{}\"", i - 1),
                       i % 2 == 0 ? "user" : "assistant");
  return lines;
}

// A transcript of more than 256 KiB with a branch, system messages and checkpoints, and where its sidecar is.
struct LongTranscript {
  TempDir dir{TempDir::On::memory};
  std::filesystem::path path;
  std::filesystem::path sidecar = dir / "index/t.idx";
  std::filesystem::path marks = Transcript::landmarks_sidecar(sidecar);

  explicit LongTranscript(std::size_t lines = 4000) {
    const std::string last = fmt::format("\"e{}\"", lines - 1);
    path = dir.write("t.jsonl", transcript_header + said_line("s", "null", "system") + long_chain(0, lines) +
                                    compaction_entry("c", last, fmt::format("e{}", lines - 3)) +
                                    said_line("b1", R"("c")") + said_line("b2", R"("c")", "system") +
                                    said_line("b3", R"("b2")"));
  }
  std::unique_ptr<Transcript> open() const {
    auto transcript = Transcript::open(path, sidecar);
    REQUIRE(transcript.has_value());
    return std::move(*transcript);
  }
};

}  // namespace

TEST_CASE("landmarks are branches, system messages and checkpoints") {
  Landmarks marks;
  const auto add = [&marks](std::string line) {
    line.pop_back();
    marks.add(line);
  };
  add(said_line("a", "null"));
  add(said_line("b", R"("a")", "system"));
  add(said_line("c", R"("b")", "assistant"));
  CHECK(marks.branches.empty());
  CHECK(marks.meter.has_value());
  add("no json\n");
  add(said_line("d", R"("c")"));
  CHECK(marks.branches.empty());
  add(said_line("e", R"("a")"));
  CHECK_FALSE(marks.meter.has_value());
  add(said_line("f", "null"));
  add(compaction_entry("g", R"("f")", "f"));
  add(said_line("h", R"("nowhere")"));
  add("{\"type\":\"user\",\"content\":\"flat\"}\n");
  CHECK(marks.lines == 10);
  CHECK(marks.systems == std::vector<std::uint64_t>{1});
  CHECK(marks.checkpoints == std::vector<std::uint64_t>{7});
  std::vector<std::uint64_t> branches;
  for (const Landmarks::Branch& branch : marks.branches) branches.push_back(branch.seq);
  CHECK(branches == std::vector<std::uint64_t>{5, 6, 8});
  std::vector<std::string> unresolved;
  for (const Landmarks::Unresolved& one : marks.unresolved)
    unresolved.push_back(fmt::format("{} {}", one.branch, one.parent));
  CHECK(unresolved == std::vector<std::string>{"0 a", "2 nowhere"});
}

TEST_CASE("landmarks grow with the file") {
  TempDir dir(TempDir::On::memory);
  const auto path = dir.write("t.jsonl", transcript_header);
  auto transcript = Transcript::open(path, {});
  REQUIRE(transcript.has_value());
  Transcript& growing = **transcript;
  const std::vector<std::string> lines{said_line("a", "null"),
                                       said_line("b", R"("a")", "assistant"),
                                       "no json\n",
                                       said_line("c", R"("a")"),
                                       said_line("s", R"("c")", "system"),
                                       compaction_entry("k", R"("s")", "c"),
                                       said_line("d", R"("k")"),
                                       said_line("e", "null")};
  for (const std::string& line : lines) {
    // The line comes in two parts: the first is a last line without a newline.
    for (const std::string_view part :
         {std::string_view(line).substr(0, line.size() / 2),
          std::string_view(line).substr(line.size() / 2, line.size() - line.size() / 2 - 1), std::string_view("\n")}) {
      dir.append("t.jsonl", part);
      REQUIRE(growing.refresh().has_value());
      CHECK(marks_of(growing) == freshly_read(path));
    }
  }
}

TEST_CASE("a file that is replaced or cut is read anew") {
  LongTranscript own;
  const auto transcript = own.open();
  const std::string before = marks_of(*transcript);
  CHECK(before == freshly_read(own.path));
  REQUIRE(transcript->save_sidecars().has_value());

  std::filesystem::resize_file(own.path, 200'000);  // within a line
  REQUIRE(transcript->refresh().has_value());
  CHECK(marks_of(*transcript) == freshly_read(own.path));
  CHECK(marks_of(*own.open()) == freshly_read(own.path));

  own.dir.write("other", transcript_header + long_chain(7, 5000));
  std::filesystem::rename(own.dir / "other", own.path);
  REQUIRE(transcript->refresh().has_value());
  CHECK(marks_of(*transcript) == freshly_read(own.path));
  CHECK(marks_of(*own.open()) == freshly_read(own.path));

  std::filesystem::remove(own.path);
  REQUIRE(transcript->refresh().has_value());
  CHECK(marks_of(*transcript) == text_of(Landmarks{}));
}

TEST_CASE("the sidecar is used after the file is opened again") {
  LongTranscript own(20'000);
  std::string expected;
  std::string meter;
  {
    const auto transcript = own.open();
    const auto measured = measure(*transcript, 3);
    REQUIRE(measured.has_value());
    meter = context::to_text(*measured);
    expected = marks_of(*transcript);
    REQUIRE(transcript->save_sidecars().has_value());
  }
  REQUIRE(std::filesystem::exists(own.marks));
  const std::uint64_t size = std::filesystem::file_size(own.path);
  const std::uint64_t read_before = bytes_read();
  const auto transcript = own.open();
  CHECK(marks_of(*transcript) == expected);
  const auto measured = measure(*transcript, 3);
  REQUIRE(measured.has_value());
  CHECK(context::to_text(*measured) == meter);
  CHECK(bytes_read() - read_before < size / 4);

  own.dir.append("t.jsonl", said_line("more", R"("b3")", "assistant"));
  const auto grown = own.open();
  const auto grown_meter = measure(*grown, 3);
  REQUIRE(grown_meter.has_value());
  auto fresh = Transcript::open(own.path, {});
  REQUIRE(fresh.has_value());
  const auto fresh_meter = measure(**fresh, 3);
  REQUIRE(fresh_meter.has_value());
  CHECK(context::to_text(*grown_meter) == context::to_text(*fresh_meter));
}

TEST_CASE("a damaged sidecar is ignored") {
  LongTranscript own;
  std::string expected;
  {
    const auto transcript = own.open();
    expected = marks_of(*transcript);
    REQUIRE(transcript->save_sidecars().has_value());
  }
  const std::string relative = std::filesystem::relative(own.marks, own.dir.path()).native();
  const std::string bytes = own.dir.read(relative);
  REQUIRE_FALSE(bytes.empty());
  struct stat status{};
  REQUIRE(::stat(own.path.c_str(), &status) == 0);
  REQUIRE(Landmarks::decode(bytes, status.st_ino).has_value());
  CHECK_FALSE(Landmarks::decode(bytes, status.st_ino + 1).has_value());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int bit : {1, 128}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      CHECK_FALSE(Landmarks::decode(damaged, status.st_ino).has_value());
    }
    CHECK_FALSE(Landmarks::decode(bytes.substr(0, at), status.st_ino).has_value());
  }
  CHECK_FALSE(Landmarks::decode(bytes + '\0', status.st_ino).has_value());
  for (const std::size_t at : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    own.dir.write(relative, damaged);
    CHECK(marks_of(*own.open()) == expected);
  }
}

TEST_CASE("files below 256 KiB have no sidecar of landmarks") {
  LongTranscript own(100);
  const auto transcript = own.open();
  (void)marks_of(*transcript);
  REQUIRE(transcript->save_sidecars().has_value());
  CHECK_FALSE(std::filesystem::exists(own.marks));
}

TEST_CASE("measuring after an append reads only the end of the file") {
  LongTranscript own(100'000);
  const auto transcript = own.open();
  REQUIRE(measure(*transcript, 3).has_value());
  std::string parent = "\"b3\"";
  for (int i = 0; i < 5; ++i) {
    const std::string id = fmt::format("more{}", i);
    own.dir.append("t.jsonl", said_line(id, parent, i % 2 == 0 ? "assistant" : "user"));
    parent = in_quotes(id);
    const std::uint64_t before = bytes_read();
    REQUIRE(transcript->refresh().has_value());
    REQUIRE(measure(*transcript, 3).has_value());
    CHECK(bytes_read() - before < 400'000);
  }
}

TEST_CASE("the view of a hundred entries behind a hundred thousand reads a few pages") {
  TempDir dir(TempDir::On::memory);
  const auto path = dir.write("t.jsonl", transcript_header + long_chain(0, 100'000) +
                                             compaction_entry("c", "\"e99999\"", "e99950") + said_line("b0", "\"c\""));
  auto transcript = Transcript::open(path, {});
  REQUIRE(transcript.has_value());
  CHECK(conversation_of(**transcript).before.size() == 50);
  const std::uint64_t before = bytes_read();
  CHECK(conversation_of(**transcript).after.size() == 1);
  CHECK(bytes_read() - before < 2'000'000);
}

TEST_CASE("entries of a view that stand alone are read at the cost of their neighbourhood") {
  TempDir dir(TempDir::On::memory);
  std::string lines;
  std::string parent = "null";
  for (int i = 0; i < 20'000; ++i) {
    const std::string id = fmt::format("e{}", i);
    lines += said_line(id, parent, i % 400 == 0 ? "system" : "user");
    parent = in_quotes(id);
  }
  const auto path = dir.write("t.jsonl", transcript_header + lines + compaction_entry("c", parent, "e19990"));
  auto transcript = Transcript::open(path, {});
  REQUIRE(transcript.has_value());
  CHECK(conversation_of(**transcript).system.size() == 50);
  const std::uint64_t before = bytes_read();
  CHECK(conversation_of(**transcript).before.size() == 10);
  CHECK(bytes_read() - before < 2'000'000);
}

TEST_CASE("reading a conversation leaves the measure as it is, whatever the count of doom loops") {
  LongTranscript own;
  const auto transcript = own.open();
  REQUIRE(measure(*transcript, 5).has_value());
  (void)conversation_of(*transcript);
  const auto marks = transcript->landmarks(5);
  REQUIRE(marks.has_value());
  CHECK((*marks)->meter.has_value());
}

// Sessions that come with a transcript that was staged before their commit (transcripts/staged.hpp).
#include "transcripts/staged.hpp"
#include "tests/unit/daemon/ledger/ledger_fixture.hpp"
#include "transcripts/archive.hpp"

using namespace sessiond;
using sessiond::testing::LedgerFixture;

namespace {

const std::string travelled = "agent:main:travelled";

std::size_t staged_files(LedgerFixture& fixture) {
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(fixture.in_agent("")))
    if (!transcripts::staged_for(file.path().filename().native()).empty()) ++count;
  return count;
}

}  // namespace

TEST_CASE("an imported session has its transcript, and grows like any other") {
  LedgerFixture fixture;
  REQUIRE(fixture.import(travelled, "t", {"one", "two"})->status == 201);
  CHECK(fixture.lines("t.jsonl")->size() == 2);
  REQUIRE(fixture.append(travelled, "three"));
  CHECK(fixture.lines("t.jsonl")->size() == 3);
  CHECK(fixture.entry(travelled)->contains("\"messageCount\":3"));
  fixture.close();
  fixture.open();
  CHECK(fixture.lines("t.jsonl")->size() == 3);
  CHECK(staged_files(fixture) == 0);
}

TEST_CASE("a session that is there stays, or is replaced and its transcript archived") {
  LedgerFixture fixture;
  REQUIRE(fixture.import(travelled, "t", {"one", "two"}));
  CHECK(fixture.import(travelled, "t", {"other"})->status == 200);
  CHECK(fixture.lines("t.jsonl")->size() == 2);
  CHECK(fixture.import(travelled, "t", {"other"}, true)->status == 200);
  REQUIRE(fixture.lines("t.jsonl")->size() == 1);
  CHECK(fixture.lines("t.jsonl")->front().contains("other"));
  CHECK(transcripts::list_archives(fixture.in_agent(""), "t")->size() == 1);
  CHECK(fixture.import("agent:main:else", "t", {"no"}).error().code == Code::session_exists);
  CHECK(fixture.import(travelled, "u", {"no"}).error().code == Code::session_exists);
}

TEST_CASE("a staged transcript that no commit took goes: at once, or at the next start") {
  LedgerFixture fixture;
  REQUIRE(fixture.create(travelled, "t"));
  REQUIRE(fixture.append(travelled, "one"));
  {
    const auto staged = fixture.stage("left", {"one"});
    CHECK(staged_files(fixture) == 1);
  }
  CHECK(staged_files(fixture) == 0);
  LedgerFixture::write_file(fixture.in_agent("old.jsonl.01234567.1.staged.tmp"), "{}\n");
  CHECK(transcripts::is_left_staged("old.jsonl.01234567.1.staged.tmp"));
  fixture.close();
  fixture.open();
  CHECK(fixture.shown().size() == 1);
  CHECK(staged_files(fixture) == 0);
}

TEST_CASE("the temporary files of a killed daemon go at the next start, in every folder of the journal") {
  LedgerFixture fixture;
  REQUIRE(fixture.create(travelled, "t"));
  fixture.close();
  const ledger::Paths paths(fixture.in_agent("").parent_path().parent_path().parent_path().parent_path(),
                            config::Config().store.path_template);
  std::vector<std::filesystem::path> left{paths.agents_dir() / "main" / "last_session.9.f.tmp"};
  for (const std::string_view folder : ledger::journal_folders)
    if (folder != "kept") left.push_back(paths.journal_dir() / folder / "main.json.9.f.tmp");
  for (const std::filesystem::path& file : left) LedgerFixture::write_file(file, "half");
  fixture.open();
  for (const std::filesystem::path& file : left) CHECK_MESSAGE(!std::filesystem::exists(file), file.native());
}

TEST_CASE("a foreign program's transcript is not replaced by a staged one") {
  LedgerFixture fixture;
  REQUIRE(fixture.create(travelled, "t"));
  const std::string theirs = R"({"type":"session","version":3,"id":"u"})"
                             "\n";
  LedgerFixture::write_file(fixture.in_agent("u.jsonl"), theirs);
  CHECK(fixture.import("agent:main:u", "u", {"mine"}).error().code == Code::session_exists);
  CHECK(LedgerFixture::text_of(fixture.in_agent("u.jsonl")) == theirs);
}

// The ledger in a process of its own that is killed at a named point (store/fault_point.hpp): whatever it had
// acknowledged is there when the state directory is opened again, and opening it a second time changes nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "tests/unit/daemon/ledger/ledger_fixture.hpp"

using namespace sessiond;
using sessiond::testing::LedgerFixture;
using sessiond::testing::TempDir;

#ifdef SESSIOND_FAULT_POINTS

namespace {

const std::string main_session = "agent:main:main";
const std::string imported = "agent:main:imported";

// Everything acknowledged is noted in <dir>.acknowledged, one word a line, before the next step begins.
void work(const std::string& dir) {
  LedgerFixture fixture({}, dir);
  const auto note = [&dir](std::string_view what) {
    LedgerFixture::write_file(dir + ".acknowledged", std::string(what) + "\n", std::ios::app);
  };
  if (fixture.create(main_session, "s")) note("created");
  if (fixture.append(main_session, "one")) note("one");
  if (fixture.checkpoint()) note("checkpoint");
  if (fixture.append(main_session, "two")) note("two");
  if (fixture.create("agent:main:gone", "g")) note("made");
  if (fixture.append("agent:main:gone", "archived")) note("archived");
  if (fixture.run(decide::DeleteSession{.target = {.key = "agent:main:gone"}})) note("deleted");
  if (fixture.checkpoint()) note("checkpoint");
  if (fixture.import(imported, "i", {"first"})) note("imported");
  if (fixture.append(imported, "more")) note("more");
  if (fixture.import(imported, "i", {"x", "y", "z"}, true)) note("replaced");
  if (fixture.append(imported, "last")) note("last");
  fixture.close();
  fixture.open();
}

bool was_killed_at(const std::string& point, const std::string& dir) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setenv("SESSIOND_FAULT", (point + "=kill").c_str(), 1);
    ::setenv("SESSIOND_TEST_DIR", dir.c_str(), 1);
    ::execl("/proc/self/exe", "unit_daemon_ledger", "-tc=child of a kill", "--no-skip", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

// The transcript of the import has what its last acknowledged step left, or that and the next step.
void check_imported(LedgerFixture& fixture, const std::string& acknowledged) {
  constexpr std::array steps{"imported", "more", "replaced", "last"};
  constexpr std::array<std::size_t, 5> lines_after{0, 1, 2, 3, 4};
  std::size_t done = 0;
  while (done < steps.size() && acknowledged.contains(steps.at(done))) ++done;
  const auto entry = fixture.entry(imported);
  const auto lines = fixture.lines("i.jsonl");
  if (done > 0) REQUIRE(entry);
  REQUIRE(lines);
  CAPTURE(done);
  CHECK(lines->size() >= lines_after.at(done));
  CHECK(lines->size() <= lines_after.at(std::min(done + 1, steps.size())));
  if (entry) CHECK(entry->contains("\"messageCount\":" + std::to_string(lines->size())));
  if (done >= 3) CHECK(lines->front().contains("\"content\":\"x\""));
  store::each_in(fixture.in_agent(""), [](const std::filesystem::directory_entry& file) {
    CHECK_MESSAGE(!file.path().native().ends_with(".staged.tmp"), file.path().native());
  });
}

}  // namespace

TEST_CASE("child of a kill" * doctest::skip()) {
  if (const char* const dir = std::getenv("SESSIOND_TEST_DIR")) work(dir);
}

TEST_CASE("what was acknowledged is there after a kill at any step of a commit, a checkpoint or a start") {
  constexpr std::array points{
      "journal.written",   "journal.synced",         "transcript.created", "transcript.written",
      "transcript.synced", "archive.closed",         "archive.renamed",    "archive.recorded",
      "checkpoint.noted",  "checkpoint.temp_synced", "checkpoint.locked",  "checkpoint.exchanged",
      "checkpoint.linked", "checkpoint.released",    "marks.files_synced", "marks.answers_synced",
      "marks.written",     "replace.temp_synced",    "recovery.replayed",  "staged.written",
      "staged.synced",     "staged.renamed"};
  for (const std::string point : points) {
    CAPTURE(point);
    const TempDir temp(TempDir::On::memory);
    const std::string dir = (temp / "state").native();
    std::filesystem::create_directory(dir);
    REQUIRE(was_killed_at(point, dir));
    const std::string acknowledged = LedgerFixture::text_of(dir + ".acknowledged");
    LedgerFixture fixture({}, dir);
    std::string first;
    for (int opens = 0; opens < 2; ++opens) {
      const auto entry = fixture.entry(main_session);
      if (acknowledged.contains("created")) REQUIRE(entry);
      const auto lines = fixture.lines("s.jsonl");
      const std::size_t said = (acknowledged.contains("one") ? 1U : 0U) + (acknowledged.contains("two") ? 1U : 0U);
      REQUIRE(lines);
      CHECK(lines->size() >= said);
      CHECK(lines->size() <= said + 1);
      const auto gone = fixture.entry("agent:main:gone");
      if (acknowledged.contains("made") && !acknowledged.contains("archived")) CHECK(gone);
      if (acknowledged.contains("deleted")) CHECK(!gone);
      check_imported(fixture, acknowledged);
      if (opens == 0) first = entry.value_or("");
      CHECK(entry.value_or("") == first);
      fixture.kill();
      fixture.open();
    }
  }
}

#endif

// Disks that fail at any write, sync, creation: whatever was told must be true after a restart.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <set>

#include "store/journal/journal.hpp"
#include "tests/unit/store/journal/journal_fixture.hpp"

namespace sessiond::journal {
namespace {

using namespace journal_test;

// A disk that fails at the n-th thing asked of it, for `times` things; -1 in `fail_at`: never.
struct Disk {
  int fail_at = -1;
  int times = 1;
  int error = EIO;
  bool half = false;  // a failing write leaves half of it
  int asked = 0;

  bool fails() {
    const int at = asked++;
    return fail_at >= 0 && at >= fail_at && at < fail_at + times;
  }
};

std::shared_ptr<const JournalFileOps> ops_on(Disk& disk) {
  auto ops = std::make_shared<JournalFileOps>();
  ops->write = [&disk](int fd, const void* bytes, std::size_t length, off_t at) -> ssize_t {
    if (!disk.fails()) return ::pwrite(fd, bytes, length, at);
    if (disk.half) static_cast<void>(!::pwrite(fd, bytes, length / 2, at));
    errno = disk.error;
    return -1;
  };
  ops->sync = [&disk](int) {
    if (!disk.fails()) return 0;  // a killed process loses nothing that was written; the real call only takes time
    errno = disk.error;
    return -1;
  };
  ops->write_zeros = [](int fd, std::uint64_t offset, std::uint64_t end) {
    return ::ftruncate(fd, static_cast<off_t>(end)) == 0 && offset < end;
  };
  ops->create = [&disk](const fs::path& path) -> Result<store::Fd> {
    if (disk.fails()) return std::unexpected(io_problem("create", path.native(), disk.error));
    return store::open_file(path, O_RDWR | O_CREAT | O_EXCL);
  };
  ops->sync_dir = [&disk](const fs::path& path) -> Result<void> {
    if (disk.fails()) return std::unexpected(io_problem("fsync", path.native(), disk.error));
    return {};
  };
  return ops;
}

struct Told {
  std::map<std::uint64_t, std::string> durable;  // seq -> event
  std::set<std::string> not_stored;              // events
  std::set<std::string> unknown;
  bool failed = false;
};

// Commits in small segments, as a ledger would make them: after a failure back to the head, resume, on. With long texts
// most lines overwrite zeros.
Told run(const fs::path& dir, Disk& disk, std::size_t text_bytes = 0) {
  Told told;
  TestJournal journal({.dir = dir, .segment_bytes = text_bytes == 0 ? 400U : 60'000U, .file_ops = ops_on(disk)});
  if (!journal.ok()) {
    told.failed = true;
    return told;
  }
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t seq = journal->head() + 1;
    const BatchOutcome outcome = journal.put(commit(seq, 2, fmt::format("try {} {}", i, std::string(text_bytes, 't'))));
    for (const Bytes& event : outcome.commits.at(0).events) {
      if (outcome.kind == BatchOutcome::Kind::durable) {
        CHECK(told.durable.emplace(told.durable.size() + 1, *event).second);
      } else if (outcome.kind == BatchOutcome::Kind::not_stored) {
        CHECK(told.not_stored.insert(*event).second);
      } else {
        CHECK(told.unknown.insert(*event).second);
      }
    }
    if (outcome.kind == BatchOutcome::Kind::durable) continue;
    told.failed = true;
    CHECK(journal->head() == told.durable.size());
    CHECK(outcome.problem.code == (outcome.kind == BatchOutcome::Kind::outcome_unknown ? Code::outcome_unknown
                                   : disk.error == ENOSPC                              ? Code::storage_full
                                                                                       : Code::degraded));
    // Commits that are appended meanwhile come back the same way.
    const BatchOutcome behind = journal.put(commit(seq + 2, 1, "behind"));
    CHECK(behind.kind == outcome.kind);
    for (int tries = 0; tries < 20 && !journal->resume(); ++tries)
      CHECK(outcome.kind == BatchOutcome::Kind::outcome_unknown);
  }
  CHECK(read_all(*journal, 1) == told.durable);
  return told;
}

void check_after_restart(const fs::path& dir, const Told& told) {
  TestJournal journal({.dir = dir, .segment_bytes = 400});
  REQUIRE_MESSAGE(journal.ok(), journal.problem().detail);
  const auto all = read_all(*journal, 1);
  for (const auto& [seq, event] : told.durable) {
    REQUIRE(all.contains(seq));
    CHECK(all.at(seq) == event);
  }
  for (const auto& [seq, event] : all) {
    CHECK_FALSE(told.not_stored.contains(event));
    if (!told.durable.contains(seq)) CHECK(told.unknown.contains(event));
  }
  CHECK(journal.put(commit(journal->head() + 1)).kind == BatchOutcome::Kind::durable);
}

TEST_CASE("one failure at any place: nothing durable is lost, nothing that was not stored comes back") {
  for (const std::size_t text_bytes : {0U, 3000U}) {
    Disk counting;
    {
      const TempDir dir;
      run(dir.path(), counting, text_bytes);
    }
    REQUIRE(counting.asked > 40);
    for (const bool half : {false, true}) {
      for (int n = 0; n < counting.asked; ++n) {
        CAPTURE(n);
        CAPTURE(half);
        CAPTURE(text_bytes);
        const TempDir dir;
        Disk disk{.fail_at = n, .error = half ? ENOSPC : EIO, .half = half};
        const Told told = run(dir.path(), disk, text_bytes);
        CHECK(told.failed);
        check_after_restart(dir.path(), told);
      }
    }
  }
}

TEST_CASE("failures that go on: the override fails too, the probe succeeds when the disk is back") {
  for (const int times : {2, 3, 4, 5, 9}) {
    for (int n = 0; n < 30; ++n) {
      CAPTURE(n);
      CAPTURE(times);
      const TempDir dir;
      Disk disk{.fail_at = n, .times = times, .error = ENOSPC, .half = true};
      const Told told = run(dir.path(), disk);
      check_after_restart(dir.path(), told);
    }
  }
}

TEST_CASE(
    "a full disk: every batch is told not stored, needs no room for it, and the segment goes on when there is room") {
  const TempDir dir;
  Disk disk{.error = ENOSPC, .half = true};
  TestJournal journal({.dir = dir.path(), .file_ops = ops_on(disk)});
  journal.put(commit(1));
  for (int round = 0; round < 3; ++round) {
    disk.asked = 0;
    disk.fail_at = 0;  // the write; there would be no room for another segment either
    CHECK(journal.put(commit(2, 1, "void")).kind == BatchOutcome::Kind::not_stored);
    REQUIRE(journal->resume().has_value());
  }
  CHECK(journal.put(commit(2, 1, "new")).kind == BatchOutcome::Kind::durable);
  CHECK(segments(dir.path()).size() == 1);
  TestJournal again({.dir = dir.path()});
  CHECK(again->report().repairs.empty());
  CHECK(read_all(*again, 1).at(2) == event_json(2, "new"));
}

TEST_CASE("a killed process after a failed batch whose bytes all reached the file: not stored stays not stored") {
  const TempDir dir;
  Disk disk;
  TestJournal journal({.dir = dir.path(), .file_ops = ops_on(disk)});
  journal.put(commit(1));
  disk.asked = 0;
  disk.fail_at = 1;  // the fdatasync: the line is written
  CHECK(journal.put(commit(2, 1, "void")).kind == BatchOutcome::Kind::not_stored);
  CHECK(segments(dir.path()).size() == 2);
  // As if the failed line had come back: the segment that overrides it is what counts.
  const fs::path old = dir.path() / "00000000000000000001.jsonl";
  {
    const TempDir other;
    TestJournal whole({.dir = other.path()});
    whole.put(commit(1));
    whole.put(commit(2, 1, "void"));
    write_file(old, *store::read_file(other.path() / "00000000000000000001.jsonl"));
  }
  const TempDir copy;
  fs::copy(dir.path(), copy.path(), fs::copy_options::recursive);
  for (const bool index : {true, false}) {
    if (!index) fs::remove(copy.path() / "00000000000000000001.idx");
    TestJournal again({.dir = copy.path()});
    REQUIRE(again.ok());
    CHECK(again->head() == 1);
    CHECK(read_all(*again, 1).size() == 1);
  }
}

TEST_CASE("everything that waits behind a failure is given back, in order, once") {
  const TempDir dir;
  std::atomic<int> writes = 0;
  std::atomic<bool> hold = true;
  auto ops = std::make_shared<JournalFileOps>();
  ops->write = [&](int fd, const void* bytes, std::size_t length, off_t at) -> ssize_t {
    if (++writes != 2) return ::pwrite(fd, bytes, length, at);
    hold.wait(true);
    errno = ENOSPC;
    return -1;
  };
  TestJournal journal({.dir = dir.path(), .file_ops = ops});
  journal.put(commit(1));
  for (std::uint64_t seq = 2; seq <= 9000; ++seq) journal.append(commit(seq));
  hold = false;
  hold.notify_all();
  journal.drain();
  std::uint64_t next = 1;
  for (const BatchOutcome& outcome : journal.outcomes()) {
    CHECK(outcome.kind == (outcome.first == 1 ? BatchOutcome::Kind::durable : BatchOutcome::Kind::not_stored));
    if (outcome.first > 1) CHECK(outcome.problem.code == Code::storage_full);
    CHECK(outcome.first == next);
    next = outcome.last + 1;
  }
  CHECK(next == 9001);
  CHECK(journal->head() == 1);
  REQUIRE(journal->resume().has_value());
  CHECK(journal.put(commit(2, 1, "new")).kind == BatchOutcome::Kind::durable);
  CHECK(read_all(*journal, 1).at(2) == event_json(2, "new"));
}

TEST_CASE("a durable answer without events outlives the override of its segment") {
  const TempDir dir;
  Disk disk;
  TestJournal journal({.dir = dir.path(), .file_ops = ops_on(disk)});
  journal.put({.first_seq = 1, .events = {}, .answers = {"\"kept\""}, .line_positions = {}});
  for (int round = 0; round < 3; ++round) {
    disk.asked = 0;
    disk.fail_at = 0;
    CHECK(journal.put(commit(1)).kind == BatchOutcome::Kind::not_stored);
    REQUIRE(journal->resume().has_value());
  }
  CHECK(segments(dir.path()) == std::vector<std::string>{"00000000000000000001-3.jsonl"});
  const TempDir copy;
  fs::copy(dir.path(), copy.path(), fs::copy_options::recursive);
  TestJournal again({.dir = copy.path()});
  REQUIRE(again.ok());
  again.put(commit(1));
  const auto page = again->read(1, 1000);
  REQUIRE(page->batches.size() == 2);
  CHECK(page->batches[0].answers == std::vector<std::string>{"\"kept\""});
}

TEST_CASE("short writes and EINTR are carried through") {
  const TempDir dir;
  int calls = 0;
  auto ops = std::make_shared<JournalFileOps>();
  ops->write = [&](int fd, const void* bytes, std::size_t length, off_t at) -> ssize_t {
    if (++calls % 3 == 0) {
      errno = EINTR;
      return -1;
    }
    return ::pwrite(fd, bytes, std::min<std::size_t>(length, 7), at);
  };
  {
    TestJournal journal({.dir = dir.path(), .file_ops = ops});
    for (std::uint64_t seq = 1; seq <= 20; ++seq) CHECK(journal.put(commit(seq)).kind == BatchOutcome::Kind::durable);
  }
  TestJournal again({.dir = dir.path()});
  CHECK(read_all(*again, 1).size() == 20);
}

}  // namespace
}  // namespace sessiond::journal

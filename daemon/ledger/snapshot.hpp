// Which files make up a state directory, and how a consistent set of them is had while the daemon writes. They are what
// a power cut at the end of the cut would have left, so recovery makes one state of them. In this order:
//   1. CHECKPOINT, then answers, previous generations and every sessions.json: on the strand that replaces them.
//   2. Transcripts and archives, agent by agent: on the strand that appends to and renames them, so none is missed
//      between two names.
//   3. The journal to its last durable batch, N.
// Nothing reaches a file of 1 or 2 before it is durable in the journal, so no file is newer than N; no file is older
// than the CHECKPOINT, which was taken first; the events between are in 3, since the ledger holds retention off
// meanwhile. So an entry is never ahead of the journal, and replay brings up what is behind it.
// A file is taken by a hard link in a directory of the cut's own and by its size then. What happens to it afterwards
// does not matter: segments and transcripts only grow, a replaced or purged one lives on under the link, a reset
// renames the other name. (The link moves ctime: the ledger looks at each sessions.json once more.) A program that
// shortens a transcript or writes a sessions.json in place meanwhile makes the copy fail, never wrong.
// Not taken: locks, sockets, temporary files, indexes that are made again, torn batches (journal/*.torn.*), and what
// speaks of inodes (previous/*.note,
// *.current.json: the last generation by another name). Of an OpenClaw tree only the sessions folders, whole: the rest
// (its configuration, credentials, workspaces) is not ours.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/ledger/paths.hpp"
#include "store/journal/file_journal.hpp"
#include "store/problem.hpp"

namespace sessiond::ledger {

struct SnapshotFile {
  std::string name{};  // below the state directory
  std::string path{};  // where its bytes are read
  std::uint64_t size = 0;
  std::int64_t mtime = 0;  // s since the epoch
  // Of a file that is replaced, never appended to: when it was written. Written since, the copy would be of two
  // versions.
  std::optional<std::int64_t> written_ns{};
};

// A directory of hard links, journal/backup.<pid>.<random>.tmp; removed with the object (blocks).
class LinkDir {
 public:
  static Result<std::unique_ptr<LinkDir>> make(const std::filesystem::path& journal_dir);
  ~LinkDir();
  LinkDir(const LinkDir&) = delete;
  LinkDir& operator=(const LinkDir&) = delete;

  // Another name of the file; a copy where it lies on another file system. not_found when it is gone.
  Result<std::filesystem::path> add(const std::filesystem::path& file);

  // Those that a killed daemon left. The state lock is held.
  static void remove_left(const std::filesystem::path& journal_dir);

 private:
  explicit LinkDir(std::filesystem::path dir) : dir_(std::move(dir)) {}
  std::filesystem::path dir_;
  std::uint64_t count_ = 0;
};

struct StateSnapshot {
  std::vector<SnapshotFile> files{};
  std::string as_of{};               // "<epoch>-<N>"; empty when no daemon runs
  std::unique_ptr<LinkDir> links{};  // null: files are read where they lie, and nobody may write them
};

// The three steps; block.
Result<void> take_stores(StateSnapshot& cut, const Paths& paths);
Result<void> take_transcripts(StateSnapshot& cut, const Paths& paths, const std::string& agent);
Result<void> take_journal(StateSnapshot& cut, const journal::FileJournal& journal);
// All of a state directory that nobody writes.
Result<StateSnapshot> snapshot_at_rest(const Paths& paths);

}  // namespace sessiond::ledger

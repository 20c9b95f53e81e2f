// Takes a consistent set of the files of a state directory while the daemon writes them. The set is one that a power
// cut could have left, so recovery makes one state of it. The files are taken in this order:
//   1. CHECKPOINT, then answers, previous generations and every sessions.json: on the strand that replaces them.
//   2. Transcripts and archives, agent by agent: on the strand that appends to and renames them, so none is missed
//      between two names.
//   3. The journal to its last durable batch, N.
//   4. Transcripts that were staged and got their names since 2 (transcripts/staged.hpp): the journal has not their
//      lines.
//   5. Blobs. A blob is on disk before the commit that names it, and none is removed meanwhile that anything names
//      (daemon/maintenance/blobs.hpp).
// Nothing reaches a file of 1 or 2 before it is durable in the journal, so no file is newer than N. No file is older
// than CHECKPOINT, which was taken first. The events between are in 3, because the ledger pauses retention meanwhile.
// So no file is ahead of the journal, and replay updates those that are behind it.
//
// A file is taken by a hard link in a directory of the snapshot's own, and by its size at that moment. Later changes do
// not matter: segments and transcripts only grow, a replaced or purged file lives on under the link, and a reset
// renames the other name. (The link changes ctime: the ledger looks at each sessions.json once more.) A foreign program
// that shortens a transcript or writes a sessions.json in place meanwhile makes the copy fail; it never makes it wrong.
//
// Not taken: locks, sockets, temporary files, indexes that are made again, torn batches (journal/*.torn.*), and files
// that name inodes (previous/*.note) or are the last generation under a second name (*.current.json). From an OpenClaw
// tree only the sessions folders are taken, whole: its configuration, credentials and workspaces are not the daemon's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/ledger/paths.hpp"
#include "daemon/ledger/placed_file.hpp"
#include "store/journal/file_journal.hpp"
#include "store/problem.hpp"

namespace sessiond::ledger {

struct SnapshotFile {
  std::string name{};  // below the state directory
  std::string path{};  // where its bytes are read
  std::uint64_t size = 0;
  std::int64_t mtime = 0;  // s since the epoch
  // When a file that is replaced, never appended to, was written. If it was written since, a copy could mix versions.
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

  // Removes those that a killed daemon left. The state lock must be held.
  static void remove_left(const std::filesystem::path& journal_dir);

 private:
  explicit LinkDir(std::filesystem::path dir) : dir_(std::move(dir)) {}
  std::filesystem::path dir_;
  std::uint64_t count_ = 0;
};

struct StateSnapshot {
  std::vector<SnapshotFile> files{};
  std::string as_of{};               // "<epoch>-<N>"; empty when no daemon runs
  std::unique_ptr<LinkDir> links{};  // null: files are read in place, and must not be written
};

// The steps above. Block.
Result<void> take_stores(StateSnapshot& cut, const Paths& paths);
Result<void> take_transcripts(StateSnapshot& cut, const Paths& paths, const std::string& agent);
Result<void> take_journal(StateSnapshot& cut, const journal::FileJournal& journal);
Result<void> take_placed(StateSnapshot& cut, const Paths& paths, const std::vector<PlacedFile>& placed);
Result<void> take_blobs(StateSnapshot& cut, const Paths& paths);
// Takes a state directory in which nothing is being written. Blocks.
Result<StateSnapshot> snapshot_at_rest(const Paths& paths);

}  // namespace sessiond::ledger

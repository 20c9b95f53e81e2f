// The implementation of SessionsFile: its state, and the steps of load, poll and checkpoint. load.cpp and write.cpp
// have the steps.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/sessions/disk.hpp"
#include "store/sessions/entry_history.hpp"
#include "store/sessions/left_files.hpp"

namespace sessiond::sessions {

constexpr std::string_view vanished = "it vanished";  // the `damage` of a store that is gone

struct SessionsFile::Impl {
  explicit Impl(Options given)
      : options(std::move(given)),
        files(options.previous),
        exchange(options.exchange),
        history(options.history ? options.history : std::make_shared<EntryHistory>()),
        unfinished(options.unfinished ? options.unfinished : std::make_shared<Unfinished>(options.patience)),
        left(options.patience) {}

  Options options;
  GenerationFiles files;
  bool exchange;
  bool loaded = false;

  std::vector<NamedEntry> base;           // what we last read or wrote; callers share the entries
  std::shared_ptr<EntryHistory> history;  // earlier versions of the base's entries
  Snapshot snapshot;                      // the file of the base, or the damaged one that is there now
  std::string
      damage;  // why `snapshot` cannot be the base; the next checkpoint moves it to .corrupt. "": it is the base
  std::shared_ptr<Unfinished> unfinished;  // the file at the store's place, if it was not whole
  LeftFiles left;                          // files that checkpoints took out of it
  // A foreign version that an exchange brought out and that could not be read yet, or was not whole. It is at `path`,
  // and the note names it. Nothing is written before it is handled. `base`: the version that it had replaced.
  struct CameOut {
    std::filesystem::path path;
    std::vector<NamedEntry> base;
    Unfinished unfinished;
    int tries = 0;
  };
  std::optional<CameOut> came_out;
  std::optional<lock::FileLock> held;  // by hold_if_free()
  std::vector<std::string> repairs;
  std::vector<lock::Eviction> evictions;

  // Returns whether the file is still the one of `snapshot`.
  bool unchanged() const;
  // Returns whether the file of `snapshot` may be written again: a damaged one only when nobody writes it any more.
  bool is_settled() const { return damage.empty() || damage == vanished || unfinished->is_damage(); }
  Problem busy() const;  // while it is not
  // Makes `theirs` the base and returns what that changed. Equal entries stay shared.
  ForeignChange adopt(StoreRead theirs);
  // Reads a file that is not `snapshot`, or was not whole. If it is damaged or gone, only notes that; the base stays.
  Result<ForeignChange> reread();
  Result<std::optional<ForeignChange>> poll();
  // Returns what foreign programs made of a file that has left the store's place.
  std::optional<ForeignChange> look_at_left();

  // load.cpp
  Result<LoadReport> load();
  // Called with a file that is not whole: `starting` until it is damage.
  Result<void> wait_until_damage(const StoreRead& read) const;
  Result<void> settle(StoreNote& note);
  void rebuild(LoadReport& report);
  Result<void> adopt_first();
  Result<void> find_foreign(LoadReport& report, const std::optional<StoreNote>& note);
  void compare(LoadReport& report, const std::vector<NamedEntry>& started);
  std::optional<std::vector<NamedEntry>> last_written(const Snapshot& other_than) const;

  // write.cpp
  void let_go();
  struct Temp;
  enum class Placed {
    done,
    again,    // the store appeared or vanished meanwhile: try again
    foreign,  // ours is in place, but the file that it replaced is not the one that we had read
  };
  Result<CheckpointResult> checkpoint(const std::vector<NamedEntry>& changes);
  Result<Temp> write_temp(const std::vector<NamedEntry>& changes);
  Result<Placed> place(Temp& temp);
  Result<Placed> place_by_rename(Temp& temp);
  // Puts the file that an exchange brought out, the one of `snapshot`, where it belongs.
  Result<void> keep_old(const std::filesystem::path& old);
  // The same of a foreign version, `came_out`. Returns what it changed. lock_timeout while it is not whole.
  Result<ForeignChange> keep_came_out();
  // `back`: as for LeftFiles::add.
  Result<void> put_aside(const std::filesystem::path& damaged, std::string_view why, std::vector<NamedEntry> back = {});
  Result<void> sync_dirs() const;
};

}  // namespace sessiond::sessions

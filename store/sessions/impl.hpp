// The inside of SessionsFile: what it remembers, and the steps that load, poll and checkpoint are made of.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/sessions/disk.hpp"
#include "store/sessions/entry_history.hpp"

namespace sessiond {

constexpr std::string_view vanished = "it vanished";  // the damage of a store that is gone

struct SessionsFile::Impl {
  explicit Impl(Options given)
      : options(std::move(given)),
        files(options.previous),
        exchange(options.exchange),
        history(options.history ? options.history : std::make_shared<EntryHistory>()) {}

  Options options;
  GenerationFiles files;
  bool exchange;
  bool loaded = false;

  std::vector<NamedEntry> base;  // what we last read or wrote; the entries are shared with whoever got them from us
  std::shared_ptr<EntryHistory> history;  // what the entries of the base were before
  Snapshot snapshot;                      // the file that this was, or the damaged one that stands there now
  std::string damage;  // why the file at `snapshot` cannot be the base; it goes to .corrupt at the next checkpoint
  // A version of another program that an exchange brought out and that could not be read: it lies at `path`, the note
  // names it, and nothing is written before it is settled. `base`: what it took the place of.
  struct Left {
    std::filesystem::path path;
    std::vector<NamedEntry> base;
    int tries = 0;
  };
  std::optional<Left> came_out;
  std::vector<std::string> repairs;
  std::vector<Eviction> evictions;

  // Is the file at the path still the one of `snapshot`?
  bool unchanged() const;
  // Makes theirs the base and says what that changed. Equal entries stay shared.
  ForeignChange adopt(StoreRead theirs);
  // Looks at a file that is not `snapshot`. A damaged or vanished one is only remembered: nothing changed in the base.
  Result<ForeignChange> reread();

  // sessions_file_load.cpp
  Result<LoadReport> load();
  Result<void> settle(StoreNote& note);
  void rebuild(LoadReport& report);
  Result<void> adopt_first();
  Result<void> find_foreign(LoadReport& report, const std::optional<StoreNote>& note);
  std::optional<std::vector<NamedEntry>> last_written(const Snapshot& other_than) const;

  // sessions_file_write.cpp
  struct Temp;
  enum class Placed {
    done,
    again,    // the store appeared or vanished while we looked: go round
    foreign,  // ours is in place, but what came out is not what we had read
  };
  Result<CheckpointResult> checkpoint(const std::vector<NamedEntry>& changes);
  Result<Temp> write_temp(const std::vector<NamedEntry>& changes);
  Result<Placed> place(Temp& temp);
  Result<Placed> place_by_rename(Temp& temp);
  // What came out of the exchange, put where it belongs; what it changed against `before`.
  Result<ForeignChange> keep_old(const std::filesystem::path& old, bool is_foreign,
                                 const std::vector<NamedEntry>& before);
  Result<void> put_aside(const std::filesystem::path& damaged, std::string_view why);
  Result<void> sync_dirs() const;
};

}  // namespace sessiond

// sessions.json of one agent on disk. It is read, merged with what foreign programs wrote, and replaced atomically
// under its lock.
//
// A SessionsFile remembers the version that it last read or wrote (the base). A checkpoint therefore needs only the
// changed entries, and what a foreign program did is the difference from the base. The format and
// the steps of a checkpoint: store/sessions/README.md. One thread at a time; blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/lock/lock.hpp"
#include "store/problem.hpp"
#include "store/sessions/unfinished.hpp"

namespace sessiond::sessions {

class EntryHistory;  // entry_history.hpp

using RawEntry = std::shared_ptr<const std::string>;  // one entry, a compact JSON object

struct NamedEntry {
  std::string key;
  RawEntry
      entry;  // null in a change: deleted. From a file it may be another JSON value: it is kept, and is not a session
  // The key as the file has it between the quotes, if quoting `key` gives something else; else "".
  std::string raw_name{};
  // The entry as the file has it, where that differs: with members that are sealed. Null: it is made when it is
  // written.
  RawEntry stored{};
  bool seal_again = false;  // `stored` has members that are sealed with a key which is not the active one
};

// The changes that a foreign program made since the base, by entry and field.
struct ForeignChange {
  struct Changed {
    std::string key;
    json::Edit edit;  // from base to theirs; without `rev`, which only we change
    RawEntry base;
    RawEntry theirs;
    std::int64_t updated_at = 0;  // theirs
  };
  std::vector<NamedEntry> created;
  std::vector<Changed> updated;
  std::vector<std::string> deleted;
  // Keys of entries of ours that the foreign program overwrote, because it had read the file before: to be written
  // again.
  std::vector<std::string> overwritten{};
  bool empty() const { return created.empty() && updated.empty() && deleted.empty() && overwritten.empty(); }
};

struct LoadReport {
  std::vector<NamedEntry> entries;   // in the order of the file; with our version of entries that were overwritten
  std::vector<std::string> repairs;  // what was wrong and where the original is now, one sentence each
  // The store is damaged, and the entries are those of an earlier generation. The caller must replay the journal over
  // them, from the checkpoint before the last, and then make a checkpoint, which moves the damaged store aside.
  bool rebuilt = false;
  enum class Base : std::uint8_t { nothing, written, previous };
  Base base =
      Base::nothing;      // the generation that it was rebuilt from: none, the last that we wrote, or the one before
  bool vanished = false;  // it was rebuilt because the file is gone
  bool first = false;     // the store is new to us
  // The file is not the one that our last checkpoint wrote.
  bool changed_while_down = false;
  // The changes of foreign programs since the last generation that we wrote, if that is still known. `entries` may lack
  // a part of it, so it must be committed before the first checkpoint.
  std::optional<ForeignChange> foreign;
  // What foreign programs have made of the store, if the last generation is not known: they wrote it in place, and its
  // second name is of the same file. The caller should make that generation of an earlier one and the journal, and call
  // compare().
  std::optional<std::vector<NamedEntry>> uncompared{};
};

struct CheckpointResult {
  // If set, nothing is finished: commit this, then call again with the same changes and those that follow from it.
  std::optional<ForeignChange> foreign;
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds took{0};
};

class SessionsFile {
 public:
  struct Options {
    std::filesystem::path path;      // …/sessions.json
    std::filesystem::path previous;  // journal/previous/<agent>.json
    lock::LockOptions lock{};
    bool exchange = true;  // false: work as on a file system without RENAME_EXCHANGE
    bool known = false;    // the journal knows the agent, so a missing store is damage
    // history() of the object that had this store before: foreign programs may still write what they read then.
    std::shared_ptr<EntryHistory> history{};
    Patience patience{};  // with a file that a foreign program may be writing in place
    // How long the file has not been whole. An agent whose load is tried again hands it on, so that waiting goes on.
    std::shared_ptr<Unfinished> unfinished{};
  };
  explicit SessionsFile(Options options);
  ~SessionsFile();
  SessionsFile(SessionsFile&&) noexcept;

  // Tells whether the file is as we left it, by two stats. False if that is not certain.
  static bool untouched(const Options& options);
  // Reads the store. Must be called before poll and checkpoint. An absent store is empty if it is new to us;
  // otherwise it is damaged, like one that is not a JSON object: the last generation is read, and the first checkpoint
  // moves the file to sessions.json.corrupt.<time>. `degraded` if something else has its name and cannot be read;
  // `starting` while a foreign program may be writing it in place: nothing was written, call it again.
  Result<LoadReport> load();
  // To be called after a load that left `uncompared`: finds `foreign`. `started`: the last generation that we wrote.
  void compare(LoadReport& report, const std::vector<NamedEntry>& started);
  // To be called after a load that found the store gone, if the journal says that it had no sessions.
  void accept_absent();
  // Returns after how long poll should be called again, because a foreign program may be writing the file, or one that
  // a checkpoint took out of its place; or because it is damaged, which the next poll repairs. Nothing: it need not.
  std::optional<std::chrono::milliseconds> look_again_in() const;
  // Returns what foreign programs changed in the file since we read or wrote it, and makes that the base. Costs one
  // stat if the file is unchanged. While the file is not whole (unfinished.hpp) the base stays. Also returns what they
  // changed in a file that a checkpoint took out of its place (left_files.hpp).
  Result<std::optional<ForeignChange>> poll();
  // Writes base + changes: entries keep their order, new ones come last. lock_timeout if a foreign program holds the
  // lock for longer than `lock.timeout`, or may be writing the file in place; then nothing has changed.
  Result<CheckpointResult> checkpoint(const std::vector<NamedEntry>& changes);
  // The same, but fails with lock_timeout at once, before it writes anything, if the lock is held.
  Result<CheckpointResult> checkpoint_if_free(const std::vector<NamedEntry>& changes);
  // Takes the file's lock and keeps it, so that foreign programs change nothing between a poll and a checkpoint, which
  // goes on under it. lock_timeout at once if the lock is held, also by an earlier call.
  Result<void> hold_if_free();
  void let_go();  // of the lock, if it is kept
  // Returns the damage that poll or checkpoint found since the last call, and what they did about it, one sentence
  // each.
  std::vector<std::string> take_repairs();
  std::vector<lock::Eviction>
  take_evictions();  // locks that were taken away since the last call, also by calls that failed
  std::shared_ptr<EntryHistory> history() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads {"<key>":{…},…}; the entries are compacted. bad_request, with the offset, if it is not a JSON object. Entries
// that are not objects, and duplicate keys (the last value counts, at the first's position), are reported in
// `oddities`.
Result<std::vector<NamedEntry>> parse_store(std::string_view text, std::vector<std::string>& oddities);
// Writes {\n"<key>": {…},\n…\n}\n
std::string format_store(const std::vector<NamedEntry>& entries);
// Sets `stored` where encryption is on: seals the members that tell what people said or who they are (sealed_members).
// A member that is sealed already keeps its bytes. Call seal::reserve() before the entries are written.
void seal_entry(NamedEntry& entry);
// Calls with the value of each of those members, as the file has it.
void each_sealed_member(const NamedEntry& entry, const std::function<void(std::string_view)>& call);
// Appends the line of one entry, without the braces around all.
void append_store_line(std::string& out, const NamedEntry& entry, bool first);
// Returns what `theirs` changed compared with `base`.
ForeignChange diff_stores(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& theirs);

// Merges one entry: returns the edit of `ours` that brings in what `theirs` changed since `base`. Fields that belong
// together are taken together. What both changed is taken from the entry with the later updatedAt, or from ours if they
// are equal.
json::Edit merge_entry(std::string_view base, std::string_view ours, std::string_view theirs);

}  // namespace sessiond::sessions

// sessions.json of one agent on disk (FORMATS §2): read, merged with what others wrote, and replaced atomically under
// its lock. It remembers the version it last read or wrote (the base), so a write costs what the file costs and nothing
// on the network thread. One thread at a time; blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/lock/lock.hpp"
#include "store/problem.hpp"

namespace sessiond {

class EntryHistory;  // entry_history.hpp

using RawEntry = std::shared_ptr<const std::string>;  // one entry, compact JSON object

struct NamedEntry {
  std::string key;
  RawEntry entry;  // null in a change: deleted. One read from a file may be no object: it is kept, and is no session
  // The key as the file has it between the quotes, where quoting `key` would give something else; else empty.
  std::string raw_name{};
};

// What another program changed since the base, entry by entry, field by field.
struct ForeignChange {
  struct Changed {
    std::string key;
    json::Edit edit;  // base -> theirs; never `rev`, which is ours
    RawEntry base;
    RawEntry theirs;
    std::int64_t updated_at = 0;  // theirs
  };
  std::vector<NamedEntry> created;
  std::vector<Changed> updated;
  std::vector<std::string> deleted;
  // They wrote what they had read before we wrote these: the file lacks ours, which must be written again.
  std::vector<std::string> overwritten{};
  bool empty() const { return created.empty() && updated.empty() && deleted.empty() && overwritten.empty(); }
};

struct LoadReport {
  std::vector<NamedEntry> entries;   // in the file's order; ours where they overwrote what we wrote
  std::vector<std::string> repairs;  // what was wrong and where the original was put, one sentence each
  // The store is damaged and still stands; the entries are those of an earlier generation. Replay the journal since the
  // checkpoint before the last over them, then checkpoint: that puts the damaged one aside.
  bool rebuilt = false;
  enum class Base : std::uint8_t { nothing, written, previous };
  Base base = Base::nothing;  // of what it was rebuilt: no generation, the last that we wrote, or the one before
  bool vanished = false;      // rebuilt, because there is no file where one was
  bool first = false;         // nothing was known of this store before
  // The file is not the one that our last checkpoint wrote.
  bool changed_while_down = false;
  // What others changed against the last generation that we wrote, where that is still known; `entries` may lack a part
  // of it, so commit it before the first checkpoint.
  std::optional<ForeignChange> foreign;
};

struct CheckpointResult {
  // Set: commit this first, then call again with the same changes and those that follow from it.
  std::optional<ForeignChange> foreign;
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds took{0};
};

class SessionsFile {
 public:
  struct Options {
    std::filesystem::path path;      // …/sessions.json
    std::filesystem::path previous;  // journal/previous/<agent>.json
    LockOptions lock{};
    bool exchange = true;  // false: as on a file system without RENAME_EXCHANGE
    bool known = false;    // the journal knows the agent: a store that is missing is damage, whatever lies beside it
    // history() of the object that had this store before: what others still hold of then is told from what they change.
    std::shared_ptr<EntryHistory> history{};
  };
  explicit SessionsFile(Options options);
  ~SessionsFile();
  SessionsFile(SessionsFile&&) noexcept;

  // Is the file there as we left it? Two stats, nothing is loaded; false when that cannot be said.
  static bool untouched(const Options& options);
  // Reads the store. An absent one is empty when nothing was ever known of it; else it is read as the last generation,
  // like one that is no JSON object, which the first checkpoint moves to sessions.json.corrupt.<time>. `degraded`:
  // something stands there that cannot be read at all.
  Result<LoadReport> load();
  // After a load that found the store gone: the journal says that it had no sessions left, so nothing is missing.
  void accept_absent();
  bool damaged() const;  // as of the last look; the next one that finds the same writes it again
  // Has another program replaced or changed the file since we read or wrote it? Cheap (one stat); then reads and
  // compares. The base becomes theirs.
  Result<std::optional<ForeignChange>> poll();
  // Writes base + changes (order: existing places kept, new ones last). See FORMATS §2 "Checkpoint". lock_timeout when
  // another program holds the lock for longer than `lock.timeout`; then nothing has changed.
  Result<CheckpointResult> checkpoint(const std::vector<NamedEntry>& changes);
  // The same, but lock_timeout at once, and no file written to wait with, when the lock is held now.
  Result<CheckpointResult> checkpoint_if_free(const std::vector<NamedEntry>& changes);
  // Damage found since the last call, by poll or checkpoint, and what was done about it, one sentence each
  // (`store.repaired`).
  std::vector<std::string> take_repairs();
  std::vector<Eviction>
  take_evictions();  // locks taken away since the last call, whatever the call that did it returned
  std::shared_ptr<EntryHistory> history() const;
  bool exchange_supported() const;  // false: the file system has no RENAME_EXCHANGE, check-and-rename is used

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// {"<key>":{…},…} -> entries, compact; a problem (bad_request) naming the offset when it is no JSON object of objects.
// Entries that are no objects and duplicate keys (last wins, in the first's place) are reported in `oddities`.
Result<std::vector<NamedEntry>> parse_store(std::string_view text, std::vector<std::string>& oddities);
// The layout we write: {\n"<key>": {…},\n…\n}\n
std::string format_store(const std::vector<NamedEntry>& entries);
void append_store_line(std::string& out, const NamedEntry& entry,
                       bool first);  // one line of it, without what ends the object
ForeignChange diff_stores(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& theirs);

// Merge of one entry (FORMATS §2 "Merge"): what to set and unset in `ours` so that their change since `base` is in it.
// Fields that belong together move together; what both changed goes to the later updatedAt, ours on a tie.
json::Edit merge_entry(std::string_view base, std::string_view ours, std::string_view theirs);

}  // namespace sessiond

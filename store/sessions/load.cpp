// Loading: puts the files of a killed checkpoint where they belong, rebuilds a damaged store, and finds what foreign
// programs changed while the daemon was down.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/fault_point.hpp"
#include "store/seal/keys.hpp"
#include "store/sessions/impl.hpp"
#include "store/try.hpp"

namespace sessiond::sessions {
namespace fs = std::filesystem;
namespace {

using Entries = std::vector<NamedEntry>;

std::optional<StoreRead> good_store(const fs::path& path) {
  auto read = read_store(path);
  if (!read || read->kind != StoreRead::Kind::good) return {};
  return std::move(*read);
}

// Returns the changes of `ours` that merge into it what `theirs` changed since `base`.
Entries merged_changes(const Entries& base, const Entries& ours, const Entries& theirs) {
  const ForeignChange change = diff_stores(base, theirs);
  const EntryIndex held = index_by_key(ours);
  const EntryIndex started = index_by_key(base);
  Entries changes;
  for (const NamedEntry& created : change.created) {
    if (!held.contains(created.key)) changes.push_back(created);
  }
  for (const ForeignChange::Changed& updated : change.updated) {
    const auto mine = held.find(updated.key);
    if (mine == held.end()) continue;
    const json::Edit edit = merge_entry(*updated.base, *mine->second->entry, *updated.theirs);
    if (edit.empty()) continue;
    changes.push_back({updated.key, std::make_shared<const std::string>(json::apply(*mine->second->entry, edit))});
  }
  for (const std::string& key : change.deleted) {
    const auto mine = held.find(key);
    // An entry that we changed, too, stays.
    if (mine != held.end() && json::same(*mine->second->entry, *started.at(key)->entry))
      changes.push_back({key, nullptr});
  }
  return changes;
}

}  // namespace

// Returns the last generation that we wrote, unless it is the file `other_than`.
std::optional<Entries> SessionsFile::Impl::last_written(const Snapshot& other_than) const {
  auto read = good_store(files.current);
  if (!read) return {};
  if (other_than.fd && read->snapshot.device == other_than.device && read->snapshot.id.inode == other_than.id.inode)
    return {};
  return std::move(read->entries);
}

Result<void> SessionsFile::Impl::wait_until_damage(const StoreRead& read) const {
  unfinished->saw(read);
  if (unfinished->is_damage()) return {};
  Problem why{.code = Code::starting,
              .detail = fmt::format("{} is not whole ({}): a foreign program may be writing it in place. It counts as "
                                    "damaged when it has not changed for store.damageAfterMs ({} ms)",
                                    options.path.native(), read.damage, options.patience.unchanged.count()),
              .retry_after_s = 1};
  return std::unexpected(std::move(why));
}

// Ends the last checkpoint. The note names its temp file: if that still exists, the checkpoint was killed.
Result<void> SessionsFile::Impl::settle(StoreNote& note) {
  if (note.temp.empty() || fs::path(note.temp).filename() != note.temp) return {};
  const fs::path temp = options.path.parent_path() / note.temp;
  for (const char* ending : {".old", ".old.tmp"}) {  // from file systems where files cannot be exchanged
    ::unlink((temp.native() + ending).c_str());
  }
  const auto left = store::stat_of(temp);
  if (!left) return {};
  if (!note.next || stamp_of(*left) == *note.next) {  // it did not replace the store
    ::unlink(temp.c_str());
    store::fault_point("settle.removed");
    note.next.reset();
    return {};
  }
  // The exchange was made, and this is the file that it brought out.
  const auto read = read_store(temp);
  if (!read || read->kind != StoreRead::Kind::good) {
    if (read) TRY(wait_until_damage(*read));
    TRY(put_aside(temp, "found at the last exchange"));
  } else {
    const bool ours = note.current && stamp_of(*left) == *note.current;
    TRY(move_file(temp, ours ? files.previous : files.foreign));
  }
  store::fault_point("settle.kept");
  return sync_dirs();
}

// For a store that is new to us: makes it the first generation.
Result<void> SessionsFile::Impl::adopt_first() {
  if (!snapshot.fd) return {};
  TRY(store::make_dirs(files.previous.parent_path()));
  const std::string text = format_store(base);
  TRY(seal::reserve());
  TRY(store::replace_file(files.previous, text));
  store::fault_point("adopt.copied");
  if (link_open_file(snapshot.fd.get(), files.current)) {
    store::fault_point("adopt.linked");
    struct stat status{};
    if (::fstat(snapshot.fd.get(), &status) == 0)
      snapshot.id.ctime_ns = store::identity(status).ctime_ns;  // moved by the link
  }
  auto noted = write_note(files.note, {.temp = {}, .current = snapshot.stamp(), .next = {}});
  store::fault_point("adopt.noted");
  return noted;
}

// For a damaged store: takes an earlier generation as the base and writes nothing. If it were written before the
// journal was replayed over it, a crash would leave an incomplete store that looks whole.
void SessionsFile::Impl::rebuild(LoadReport& report) {
  std::string from = "nothing, because no earlier generation can be read";
  if (auto last = last_written(snapshot)) {
    base = std::move(*last);
    from = "the last generation that we wrote";
    report.base = LoadReport::Base::written;
  } else if (auto before = good_store(files.previous)) {
    base = std::move(before->entries);
    from = fmt::format("the generation in {}", files.previous.native());
    report.base = LoadReport::Base::previous;
  }
  report.rebuilt = true;
  report.repairs.push_back(fmt::format("{}{} is rebuilt from {}: {} entries; the journal is replayed over it",
                                       options.path.native(), report.vanished ? " had vanished and" : "", from,
                                       base.size()));
}

Result<void> SessionsFile::Impl::find_foreign(LoadReport& report, const std::optional<StoreNote>& note) {
  bool ours = true;
  if (note && !snapshot.fd) {
    ours = !note->current && !note->next;
  } else if (note) {
    const Stamp now = snapshot.stamp();
    ours = (note->next && *note->next == now) || (note->current && *note->current == now);
  } else if (auto link = store::stat_of(files.current)) {
    ours = snapshot.fd && link->st_ino == snapshot.id.inode && link->st_dev == snapshot.device;
  }
  std::optional<Entries> started;
  if (!ours) started = last_written(snapshot);
  const bool foreign_there = store::stat_of(files.foreign).has_value();
  if (ours && !foreign_there) return {};  // as usual: nothing to compare
  Entries merged = base;

  if (auto foreign = good_store(files.foreign)) {
    std::optional<Entries> before = last_written(foreign->snapshot);
    if (!before) {
      if (auto previous = good_store(files.previous)) before = std::move(previous->entries);
    }
    if (before) apply_changes(merged, merged_changes(*before, base, foreign->entries));
    if (ours) started = base;
    ours = false;
  }
  if (ours) return {};
  report.changed_while_down = true;
  report.uncompared = std::move(merged);
  if (started) compare(report, *started);
  return {};
}

void SessionsFile::Impl::compare(LoadReport& report, const Entries& started) {
  ForeignChange change = history->diff(started, *report.uncompared);
  report.uncompared.reset();
  history->replaced(started, base);
  Entries again;
  const EntryIndex mine = index_by_key(started);
  for (const std::string& key : change.overwritten) {
    const auto was = mine.find(key);
    again.push_back({.key = key, .entry = was == mine.end() ? nullptr : was->second->entry});
  }
  apply_changes(report.entries, again);
  if (change.empty()) {
    report.changed_while_down = false;
  } else {
    report.foreign = std::move(change);
  }
}

bool SessionsFile::untouched(const Options& options) {
  const GenerationFiles files(options.previous);
  const auto status = store::stat_of(options.path);
  const auto note = read_note(files.note);
  if (!note) return !status && !store::stat_of(files.previous);
  if (store::stat_of(files.foreign)) return false;
  if (!status) return !note->current && !note->next;
  const Stamp now = stamp_of(*status);
  return (note->next && *note->next == now) || (note->current && *note->current == now);
}

Result<LoadReport> SessionsFile::Impl::load() {
  LoadReport report;
  const std::vector<NamedEntry> earlier = loaded && !left.empty() ? base : std::vector<NamedEntry>{};
  lock::remove_left_lock_names(options.path.parent_path());
  lock::evict_gone(options.path, evictions);  // such as our own, of a daemon that was killed
  std::optional<StoreNote> note = read_note(files.note);
  if (note) {
    TRY(settle(*note));
  }
  report.first = !note && !store::stat_of(files.current) && !store::stat_of(files.previous);

  TRY(auto read, read_store(options.path));
  if (read.kind == StoreRead::Kind::damaged) {
    TRY(wait_until_damage(read));
  } else {
    unfinished->forget();
  }
  for (const std::string& oddity : read.oddities) {
    report.repairs.push_back(fmt::format("{}: {}", options.path.native(), oddity));
  }
  // A store that is gone does not mean that all its sessions were deleted.
  report.vanished = read.kind == StoreRead::Kind::absent && (!report.first || options.known);
  const bool damaged = read.kind == StoreRead::Kind::damaged || report.vanished;
  damage = report.vanished ? std::string(vanished) : read.damage;
  snapshot = std::move(read.snapshot);
  base = std::move(read.entries);
  report.entries = base;
  if (damaged) {
    rebuild(report);
    report.entries = base;
  } else if (!report.first) {
    TRY(find_foreign(report, note));
  } else if (auto adopted = adopt_first(); !adopted) {
    // A good store is served also if the disk is full.
    report.repairs.push_back(fmt::format("{} could not be copied before its first write: {}", options.path.native(),
                                         adopted.error().detail));
  }
  for (std::string& repair : repairs) report.repairs.push_back(std::move(repair));
  repairs.clear();
  if (!loaded) left.clear();  // of the last checkpoint of another process: what it was made from is not known
  if (!left.empty()) left.base_changed(differences(base, earlier));
  loaded = true;
  return report;
}

}  // namespace sessiond::sessions

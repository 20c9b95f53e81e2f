#include "store/sessions/sessions_file.hpp"

#include <fmt/format.h>

#include "store/sessions/impl.hpp"
#include "store/try.hpp"

namespace sessiond::sessions {

SessionsFile::SessionsFile(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
SessionsFile::~SessionsFile() = default;
SessionsFile::SessionsFile(SessionsFile&&) noexcept = default;

bool SessionsFile::Impl::unchanged() const {
  const auto status = store::stat_of(options.path);
  if (!status || !snapshot.fd) return !status && !snapshot.fd;
  return status->st_dev == snapshot.device && store::identity(*status) == snapshot.id;
}

ForeignChange SessionsFile::Impl::adopt(StoreRead theirs) {
  if (!left.empty()) left.base_changed(differences(theirs.entries, base));
  ForeignChange change = history->diff(base, theirs.entries);
  history->replaced(base, theirs.entries);
  const EntryIndex known = index_by_key(base);
  for (NamedEntry& entry : theirs.entries) {
    const auto same = known.find(entry.key);
    if (same != known.end() && *same->second->entry == *entry.entry) entry.entry = same->second->entry;
  }
  base = std::move(theirs.entries);
  snapshot = std::move(theirs.snapshot);
  damage.clear();
  return change;
}

Problem SessionsFile::Impl::busy() const {
  return {.code = Code::lock_timeout,
          .detail = fmt::format("{} is not whole ({}): a foreign program may be writing it in place",
                                options.path.native(), damage),
          .retry_after_s = 1};
}

Result<ForeignChange> SessionsFile::Impl::reread() {
  TRY(auto theirs, read_store(options.path));
  // An empty object may be the first thing that a program writes into a file that it fills later.
  const bool emptied = theirs.kind == StoreRead::Kind::good && theirs.entries.empty() && !base.empty() && snapshot.fd &&
                       theirs.snapshot.device == snapshot.device && theirs.snapshot.id.inode == snapshot.id.inode;
  if (emptied) {
    unfinished->saw(theirs);
    theirs.damage = "all sessions were taken out of it";
  }
  if (theirs.kind == StoreRead::Kind::good && (!emptied || unfinished->is_damage())) {
    unfinished->forget();
    return adopt(std::move(theirs));
  }
  // A store that is gone or damaged does not mean that all its sessions were deleted.
  damage = theirs.kind == StoreRead::Kind::absent ? vanished : theirs.damage;
  if (theirs.kind == StoreRead::Kind::damaged) unfinished->saw(theirs);
  snapshot = std::move(theirs.snapshot);
  return ForeignChange{};
}

std::optional<ForeignChange> SessionsFile::Impl::look_at_left() {
  if (left.empty()) return {};
  LeftFiles::Look seen = left.look(base);
  for (const std::string& text : seen.damaged) {
    const std::filesystem::path name = name_aside(options.path);
    const auto kept = store::replace_file(name, text);
    repairs.push_back(fmt::format("a foreign program began to write an earlier {} and did not end: {}",
                                  options.path.native(),
                                  kept ? "what it wrote is now " + name.filename().native() : kept.error().detail));
  }
  if (!seen.finished) return {};
  ForeignChange change = history->diff(seen.finished->before, seen.finished->theirs);
  // An entry that has changed since the file left its place is kept: the other program deleted an older version of it.
  const EntryIndex before = index_by_key(seen.finished->before);
  const EntryIndex now = index_by_key(base);
  std::erase_if(change.deleted, [&](const std::string& key) {
    const auto was = before.find(key);
    const auto is = now.find(key);
    return was != before.end() && is != now.end() && !json::same(*was->second->entry, *is->second->entry);
  });
  return change;
}

Result<std::optional<ForeignChange>> SessionsFile::Impl::poll() {
  if (auto change = look_at_left(); change && !change->empty()) return change;
  const bool as_it_was = unchanged();
  if (as_it_was && damage.empty()) return std::nullopt;
  if (as_it_was && is_settled()) {
    auto repaired = checkpoint({});
    if (!repaired && repaired.error().code == Code::lock_timeout) return std::nullopt;  // at the next poll
    if (!repaired) return std::unexpected(repaired.error());
    return std::move(repaired->foreign);
  }
  if (as_it_was && !unfinished->is_due()) return std::nullopt;
  TRY(auto change, reread());
  if (change.empty()) return std::nullopt;
  return std::move(change);
}

Result<LoadReport> SessionsFile::load() { return impl_->load(); }

void SessionsFile::compare(LoadReport& report, const std::vector<NamedEntry>& started) {
  impl_->compare(report, started);
}

Result<std::optional<ForeignChange>> SessionsFile::poll() {
  if (!impl_->loaded) return fail(Code::internal, "poll before load");
  return impl_->poll();
}

Result<CheckpointResult> SessionsFile::checkpoint(const std::vector<NamedEntry>& changes) {
  if (!impl_->loaded) return fail(Code::internal, "checkpoint before load");
  return impl_->checkpoint(changes);
}

Result<CheckpointResult> SessionsFile::checkpoint_if_free(const std::vector<NamedEntry>& changes) {
  if (!impl_->held || !impl_->held->held())
    TRY(lock::lock_is_free(impl_->options.path, impl_->options.lock, impl_->evictions));
  return checkpoint(changes);
}

Result<void> SessionsFile::hold_if_free() {
  TRY(lock::lock_is_free(impl_->options.path, impl_->options.lock, impl_->evictions));
  TRY(impl_->held, lock::FileLock::acquire(impl_->options.path, impl_->options.lock, impl_->evictions));
  if (impl_->held->predecessor_may_wake()) impl_->history->distrust();
  return {};
}

void SessionsFile::let_go() { impl_->let_go(); }

void SessionsFile::accept_absent() {
  impl_->base.clear();
  impl_->damage.clear();
}

std::optional<std::chrono::milliseconds> SessionsFile::look_again_in() const {
  constexpr std::chrono::milliseconds soon{100};
  constexpr std::chrono::milliseconds later{500};
  if (!impl_->damage.empty() || impl_->came_out || impl_->left.is_pressing()) return soon;
  if (!impl_->left.empty()) return later;
  return {};
}

std::vector<lock::Eviction> SessionsFile::take_evictions() { return std::exchange(impl_->evictions, {}); }

std::vector<std::string> SessionsFile::take_repairs() { return std::exchange(impl_->repairs, {}); }

std::shared_ptr<EntryHistory> SessionsFile::history() const { return impl_->history; }

}  // namespace sessiond::sessions

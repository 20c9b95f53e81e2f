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

Result<ForeignChange> SessionsFile::Impl::reread() {
  TRY(auto theirs, read_store(options.path));
  if (theirs.kind == StoreRead::Kind::good) return adopt(std::move(theirs));
  // A store that is gone or damaged does not mean that all its sessions were deleted.
  damage = theirs.kind == StoreRead::Kind::absent ? vanished : theirs.damage;
  snapshot = std::move(theirs.snapshot);
  return ForeignChange{};
}

Result<LoadReport> SessionsFile::load() { return impl_->load(); }

Result<std::optional<ForeignChange>> SessionsFile::poll() {
  if (!impl_->loaded) return fail(Code::internal, "poll before load");
  if (impl_->unchanged()) {
    if (impl_->damage.empty()) return std::nullopt;
    // Damaged, and unchanged since the last poll: no program is still writing it.
    auto repaired = impl_->checkpoint({});
    if (!repaired && repaired.error().code == Code::lock_timeout) return std::nullopt;  // at the next poll
    if (!repaired) return std::unexpected(repaired.error());
    return std::move(repaired->foreign);
  }
  TRY(auto change, impl_->reread());
  if (change.empty()) return std::nullopt;
  return std::move(change);
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

bool SessionsFile::damaged() const { return !impl_->damage.empty(); }

std::vector<lock::Eviction> SessionsFile::take_evictions() { return std::exchange(impl_->evictions, {}); }

std::vector<std::string> SessionsFile::take_repairs() { return std::exchange(impl_->repairs, {}); }

std::shared_ptr<EntryHistory> SessionsFile::history() const { return impl_->history; }

}  // namespace sessiond::sessions

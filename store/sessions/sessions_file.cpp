#include "store/sessions/sessions_file.hpp"

#include <fmt/format.h>

#include "store/sessions/impl.hpp"

namespace sessiond {

SessionsFile::SessionsFile(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
SessionsFile::~SessionsFile() = default;
SessionsFile::SessionsFile(SessionsFile&&) noexcept = default;

bool SessionsFile::Impl::unchanged() const {
  const auto status = stat_of(options.path);
  if (!status || !snapshot.fd) return !status && !snapshot.fd;
  return status->st_dev == snapshot.device && identity(*status) == snapshot.id;
}

ForeignChange SessionsFile::Impl::adopt(StoreRead theirs) {
  ForeignChange change = history->diff(base, theirs.entries);
  history->replaced(base, theirs.entries);
  std::unordered_map<std::string_view, const NamedEntry*> known;
  for (const NamedEntry& entry : base) known.emplace(entry.key, &entry);
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
  auto theirs = read_store(options.path);
  if (!theirs) return std::unexpected(theirs.error());
  if (theirs->kind == StoreRead::Kind::good) return adopt(std::move(*theirs));
  // A store that vanished is no more a deletion of every session than a damaged one is.
  damage = theirs->kind == StoreRead::Kind::absent ? vanished : theirs->damage;
  snapshot = std::move(theirs->snapshot);
  return ForeignChange{};
}

Result<LoadReport> SessionsFile::load() { return impl_->load(); }

Result<std::optional<ForeignChange>> SessionsFile::poll() {
  if (!impl_->loaded) return fail(Code::internal, "poll before load");
  if (impl_->unchanged()) {
    if (impl_->damage.empty()) return std::nullopt;
    // Damaged at the last look and still the same: nobody is about to finish writing it.
    auto repaired = impl_->checkpoint({});
    if (!repaired && repaired.error().code == Code::lock_timeout) return std::nullopt;  // at the next look then
    if (!repaired) return std::unexpected(repaired.error());
    return std::move(repaired->foreign);
  }
  auto change = impl_->reread();
  if (!change) return std::unexpected(change.error());
  if (change->empty()) return std::nullopt;
  return std::move(*change);
}

Result<CheckpointResult> SessionsFile::checkpoint(const std::vector<NamedEntry>& changes) {
  if (!impl_->loaded) return fail(Code::internal, "checkpoint before load");
  return impl_->checkpoint(changes);
}

Result<CheckpointResult> SessionsFile::checkpoint_if_free(const std::vector<NamedEntry>& changes) {
  auto free = lock_is_free(impl_->options.path, impl_->options.lock, impl_->evictions);
  if (!free) return std::unexpected(free.error());
  return checkpoint(changes);
}

void SessionsFile::accept_absent() {
  impl_->base.clear();
  impl_->damage.clear();
}

bool SessionsFile::damaged() const { return !impl_->damage.empty(); }

std::vector<Eviction> SessionsFile::take_evictions() { return std::exchange(impl_->evictions, {}); }

std::vector<std::string> SessionsFile::take_repairs() { return std::exchange(impl_->repairs, {}); }

std::shared_ptr<EntryHistory> SessionsFile::history() const { return impl_->history; }

bool SessionsFile::exchange_supported() const { return impl_->exchange; }

}  // namespace sessiond

// The checkpoint: write the new store beside the old one, take the lock, check that the store is unchanged, exchange
// the two files, and check the file that came out.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "store/fault_point.hpp"
#include "store/seal/keys.hpp"
#include "store/sessions/impl.hpp"
#include "store/try.hpp"

namespace sessiond::sessions {
namespace fs = std::filesystem;

// The new store beside the old one. The destructor removes the file that has its name.
struct SessionsFile::Impl::Temp {
  fs::path path;
  Snapshot snapshot;
  std::uint64_t bytes = 0;

  explicit Temp(fs::path name) : path(std::move(name)) {}
  Temp(Temp&& other) noexcept
      : path(std::exchange(other.path, {})), snapshot(std::move(other.snapshot)), bytes(other.bytes) {}
  Temp& operator=(Temp&&) = delete;
  ~Temp() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

namespace {

using Clock = std::chrono::steady_clock;

// Foreign programs compare the mtime in whole ms.
bool same_millisecond(const store::FileIdentity& a, const store::FileIdentity& b) {
  return a.mtime_ns / 1'000'000 == b.mtime_ns / 1'000'000;
}

Result<void> move_mtime(int fd, std::int64_t from_ns, const fs::path& path) {
  const std::int64_t ns = (from_ns / 1'000'000 + 1) * 1'000'000;
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                             {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000}};
  if (::futimens(fd, times) != 0) return io_fail("set the time of", path.native());
  return {};
}

}  // namespace

Result<SessionsFile::Impl::Temp> SessionsFile::Impl::write_temp(const std::vector<NamedEntry>& changes) {
  const fs::path dir = options.path.parent_path();
  TRY(store::make_dirs(dir));
  TRY(store::make_dirs(files.previous.parent_path()));
  Temp temp(options.path.native() + fmt::format(".{}.{}.tmp", ::getpid(), store::random_uuid()));
  StoreNote note{.temp = temp.path.filename().native()};
  if (snapshot.fd && damage.empty()) note.current = snapshot.stamp();
  TRY(write_note(files.note, note));

  store::fault_point("checkpoint.noted");
  TRY(auto fd, store::open_file(temp.path, O_WRONLY | O_CREAT | O_EXCL));
  TRY(auto bytes, write_merged(fd.get(), temp.path.native(), base, changes));
  TRY(auto status, store::status_of(fd.get(), temp.path.native()));
  if (snapshot.fd && same_millisecond(store::identity(status), snapshot.id)) {
    TRY(move_mtime(fd.get(), snapshot.id.mtime_ns, temp.path));
    TRY(status, store::status_of(fd.get(), temp.path.native()));
  }
  store::fault_point("checkpoint.temp_written");
  TRY(store::sync_file(fd.get(), temp.path));
  store::fault_point("checkpoint.temp_synced");
  temp.bytes = bytes;
  temp.snapshot = snapshot_of(std::move(fd), status);
  note.next = temp.snapshot.stamp();
  TRY(write_note(files.note, note));
  store::fault_point("checkpoint.temp_noted");
  return temp;
}

Result<SessionsFile::Impl::Placed> SessionsFile::Impl::place(Temp& temp) {
  const unsigned flag = snapshot.fd ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (exchange && ::renameat2(AT_FDCWD, temp.path.c_str(), AT_FDCWD, options.path.c_str(), flag) != 0) {
    const int error = errno;
    if (error == EEXIST || error == ENOENT) return Placed::again;
    if (error != EINVAL && error != ENOSYS) return std::unexpected(io_problem("replace", options.path.native(), error));
    exchange = false;
  }
  if (!exchange) return place_by_rename(temp);
  if (!snapshot.fd) return Placed::done;
  const auto old = store::stat_of(temp.path);
  const bool expected = old && old->st_dev == snapshot.device && stamp_of(*old) == snapshot.stamp();
  return expected ? Placed::done : Placed::foreign;
}

Result<SessionsFile::Impl::Placed> SessionsFile::Impl::place_by_rename(Temp& temp) {
  if (!snapshot.fd) {
    if (::link(temp.path.c_str(), options.path.c_str()) == 0) {
      ::unlink(temp.path.c_str());
      return Placed::done;
    }
    if (store::stat_of(options.path)) return Placed::again;
    if (::rename(temp.path.c_str(), options.path.c_str()) != 0) return io_fail("replace", options.path.native());
    return Placed::done;
  }
  // The old file gets a second name first. On file systems without hard links the base is written out instead.
  const fs::path old = temp.path.native() + ".old";
  const bool linked = link_open_file(snapshot.fd.get(), old);
  const auto now = store::stat_of(options.path);
  if (!now || now->st_dev != snapshot.device ||
      stamp_of(*now) != snapshot.stamp()) {  // not compared by ctime, which the link changed
    ::unlink(old.c_str());
    return Placed::again;
  }
  if (!linked) {
    TRY(damage.empty() ? store::replace_file(files.previous, format_store(base)) : put_aside(options.path, damage));
  }
  if (::rename(temp.path.c_str(), options.path.c_str()) != 0) return io_fail("replace", options.path.native());
  if (linked && ::rename(old.c_str(), temp.path.c_str()) != 0) return io_fail("rename", old.native());
  return Placed::done;
}

Result<void> SessionsFile::Impl::put_aside(const fs::path& damaged, std::string_view why,
                                           std::vector<NamedEntry> back) {
  TRY(auto aside, set_aside(damaged, options.path));
  if (auto file = store::open_file(aside, O_RDONLY | O_NONBLOCK))
    left.add(std::move(*file), false, true, std::move(back));
  repairs.push_back(
      fmt::format("{} was damaged ({}): it was moved to {}", options.path.native(), why, aside.filename().native()));
  return {};
}

Result<void> SessionsFile::Impl::keep_old(const fs::path& old) {
  if (!store::stat_of(old)) return {};
  if (!damage.empty()) return put_aside(old, damage);
  if (auto file = store::open_file(old, O_RDONLY | O_NONBLOCK)) left.add(std::move(*file), true, false);
  return move_file(old, files.previous);
}

Result<ForeignChange> SessionsFile::Impl::keep_came_out() {
  ForeignChange change;
  const fs::path& old = came_out->path;
  if (!store::stat_of(old)) return change;
  TRY(auto theirs, read_store(old));
  if (theirs.kind == StoreRead::Kind::damaged) {
    came_out->unfinished.saw(theirs);
    if (!came_out->unfinished.is_damage())
      return fail(Code::lock_timeout, fmt::format("{} is not whole ({}): a foreign program may be writing it in place",
                                                  old.native(), theirs.damage));
    TRY(put_aside(old, theirs.damage, differences(base, came_out->base)));
    return change;
  }
  if (theirs.kind == StoreRead::Kind::good) {
    change = history->diff(came_out->base, theirs.entries);
    left.add(std::move(theirs.snapshot.fd), true, false, differences(base, theirs.entries));
  }
  // The file is needed only after a crash before the change is committed.
  if (const auto kept = move_file(old, files.foreign); !kept)
    repairs.push_back(fmt::format("a foreign version stays at {}: {}", old.native(), kept.error().detail));
  return change;
}

void SessionsFile::Impl::let_go() {
  if (held && !held->held()) history->distrust();  // it was taken from us while we were stopped
  held.reset();
}

Result<void> SessionsFile::Impl::sync_dirs() const {
  TRY(store::sync_dir(options.path.parent_path()));
  return store::sync_dir(files.previous.parent_path());
}

Result<CheckpointResult> SessionsFile::Impl::checkpoint(const std::vector<NamedEntry>& given) {
  std::vector<NamedEntry> sealed;
  if (seal::on()) {
    sealed = given;
    for (NamedEntry& entry : sealed) seal_entry(entry);
    for (NamedEntry& entry : base) seal_entry(entry);  // once: from then on they have their sealed text
    TRY(seal::reserve());
  }
  const std::vector<NamedEntry>& changes = seal::on() ? sealed : given;
  auto begin = Clock::now();  // without the time for which the lock was waited for
  CheckpointResult result;
  if (came_out) {
    constexpr int most_tries = 10;
    auto change = keep_came_out();
    const bool wait = !change && (change.error().code == Code::lock_timeout || ++came_out->tries < most_tries);
    if (wait) return std::unexpected(change.error());
    if (!change) {  // it is kept and reported, so that the store can be written again
      TRY(put_aside(came_out->path, change.error().detail, differences(base, came_out->base)));
      change = ForeignChange{};
    }
    came_out.reset();
    if (!change->empty()) {
      result.foreign = std::move(*change);
      return result;
    }
  }
  if (!is_settled()) {
    if (unchanged() && !unfinished->is_due()) return std::unexpected(busy());
    TRY(auto change, reread());
    if (!change.empty()) {
      result.foreign = std::move(change);
      return result;
    }
    if (!is_settled()) return std::unexpected(busy());
  }
  constexpr int rounds = 20;
  for (int round = 0; round < rounds; ++round) {
    TRY(auto temp, write_temp(changes));
    const auto wanted = Clock::now();
    if (held && !held->held()) let_go();
    std::optional<lock::FileLock> taken;
    if (!held) {
      TRY(taken, lock::FileLock::acquire(options.path, options.lock, evictions));
    }
    const lock::FileLock& lock = held ? *held : *taken;
    store::fault_point("checkpoint.locked");
    begin += Clock::now() - wanted;
    // A holder that is not provably gone may continue and write what it had read.
    if (lock.predecessor_may_wake()) history->distrust();

    if (!unchanged()) {
      if (taken) taken->release();
      TRY(auto change, reread());
      if (!is_settled()) return std::unexpected(busy());
      if (change.empty()) continue;  // only the layout changed, or it is damaged: the next round moves it aside
      result.foreign = std::move(change);
      result.took = Clock::now() - begin;
      return result;
    }
    store::fault_point("checkpoint.unchanged");
    auto placed = place(temp);
    if (!lock.held()) history->distrust();  // it was taken from us while we were stopped
    if (!placed) return std::unexpected(placed.error());
    store::fault_point("checkpoint.exchanged");
    if (*placed == Placed::again) {
      if (taken) taken->release();
      continue;
    }
    // Now the store is ours, whatever fails: the base becomes it, and a repeated call writes the same again.
    Result<ForeignChange> foreign;
    if (*placed == Placed::foreign) {
      came_out.emplace(temp.path, base, Unfinished(options.patience));
      foreign = keep_came_out();
      if (foreign) came_out.reset();
    } else if (auto kept = keep_old(temp.path); !kept) {
      foreign = std::unexpected(kept.error());
    }
    store::fault_point("checkpoint.old_kept");
    if (*placed == Placed::done && foreign) {
      link_open_file(temp.snapshot.fd.get(), files.current);
      store::fault_point("checkpoint.linked");
      ::unlink(files.foreign.c_str());  // its changes were committed before this call
    }
    struct stat status{};
    if (::fstat(temp.snapshot.fd.get(), &status) == 0) temp.snapshot.id.ctime_ns = store::identity(status).ctime_ns;
    if (taken) taken->release();
    store::fault_point("checkpoint.released");
    history->changed(base, changes);
    left.base_changed(undoing(base, changes));
    apply_changes(base, changes);
    snapshot = std::move(temp.snapshot);
    if (damage == vanished)
      repairs.push_back(fmt::format("{} had vanished and was written again", options.path.native()));
    damage.clear();
    unfinished->forget();
    temp.path.clear();  // if the file that came out still has this name, the next start finds it by the note
    if (!foreign) return std::unexpected(foreign.error());
    if (!foreign->empty()) result.foreign = std::move(*foreign);
    TRY(sync_dirs());
    store::fault_point("checkpoint.dirs_synced");
    result.bytes = temp.bytes;
    result.took = Clock::now() - begin;
    return result;
  }
  Problem busy{.code = Code::lock_timeout,
               .detail = fmt::format("{} was replaced {} times by foreign programs during one checkpoint",
                                     options.path.native(), rounds),
               .retry_after_s = 1};
  return std::unexpected(std::move(busy));
}

}  // namespace sessiond::sessions

#include "store/sessions/left_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace sessiond::sessions {
namespace {

// A program that looked the name up before the exchange has opened the file by then.
constexpr std::chrono::milliseconds opened_by_then{50};

// Returns whether a process has the file open for writing; nothing if the file system does not tell. A lease that is
// given back at once tells: there is none on a file with writers.
std::optional<bool> is_open_for_writing(int fd) {
  ::fcntl(fd, F_SETSIG, SIGURG);  // what a program that opens the file meanwhile sends us; it is ignored
  if (::fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
    ::fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
  }
  if (errno == EAGAIN) return true;
  return {};
}

}  // namespace

void LeftFiles::add(store::Fd file, bool whole, bool set_aside, std::vector<NamedEntry> back) {
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return;
  // In a burst of checkpoints most of them are open nowhere else.
  if (files_.size() >= most)
    std::erase_if(files_, [](const File& one) { return one.whole && is_open_for_writing(one.fd.get()) == false; });
  if (files_.size() >= most) {
    const auto idle =
        std::ranges::find_if(files_, [](const File& one) { return one.whole && one.left == one.changed; });
    files_.erase(idle == files_.end() ? files_.begin() : idle);
  }
  const auto now = Unfinished::Clock::now();
  files_.push_back({.fd = std::move(file),
                    .stamp = stamp_of(status),
                    .whole = whole,
                    .set_aside = set_aside,
                    .unfinished = Unfinished(patience_),
                    .left = now,
                    .changed = now});
  for (NamedEntry& entry : back) files_.back().back.emplace(entry.key, std::move(entry));
}

void LeftFiles::base_changed(const std::vector<NamedEntry>& back) {
  for (File& file : files_)
    for (const NamedEntry& entry : back) file.back.try_emplace(entry.key, entry);  // an earlier change is the one
}

std::vector<NamedEntry> LeftFiles::before(const File& file, const std::vector<NamedEntry>& base) const {
  std::vector<NamedEntry> entries = base;
  std::vector<NamedEntry> back;
  for (const auto& [key, entry] : file.back) back.push_back(entry);
  apply_changes(entries, back);
  return entries;
}

bool LeftFiles::is_over(const File& file, Unfinished::Clock::time_point now) const {
  if (now - file.left >= patience_.longest) return true;
  const auto writing = is_open_for_writing(file.fd.get());
  if (writing == true) return false;
  const bool settled = file.whole ? now - file.changed >= patience_.unchanged : file.unfinished.is_damage();
  return settled || (writing == false && file.whole && now - file.left >= opened_by_then);
}

LeftFiles::Look LeftFiles::look(const std::vector<NamedEntry>& base) {
  Look found;
  const auto now = Unfinished::Clock::now();
  for (auto file = files_.begin(); file != files_.end();) {
    const bool over = is_over(*file, now);  // asked first: what a writer wrote last is seen by the look
    struct stat status{};
    if (::fstat(file->fd.get(), &status) != 0) {
      file = files_.erase(file);
      continue;
    }
    const bool changed = stamp_of(status) != file->stamp;
    std::string text;
    if (changed || !file->whole) {
      auto read = read_open_store(file->fd.get(), "an earlier sessions.json", text);
      if (!read) {
        file = files_.erase(file);
        continue;
      }
      if (changed) {
        file->stamp = read->snapshot.stamp();
        file->changed = now;
      }
      file->whole = read->kind == StoreRead::Kind::good;
      std::vector<NamedEntry> started;
      if (file->whole && changed) started = before(*file, base);
      // An empty object may be the first thing that a program writes into a file that it fills later.
      if (file->whole && changed && read->entries.empty() && !started.empty()) file->whole = false;
      if (file->whole && changed) {
        file->back.clear();
        for (NamedEntry& entry : differences(base, read->entries)) file->back.emplace(entry.key, std::move(entry));
        file->unfinished.forget();
        found.finished = Finished{.before = std::move(started), .theirs = std::move(read->entries)};
        return found;
      }
      file->unfinished.saw(*read, now);
    }
    if (!over || changed) {
      ++file;
      continue;
    }
    if (!file->whole && !file->set_aside) found.damaged.push_back(std::move(text));
    file = files_.erase(file);
  }
  return found;
}

bool LeftFiles::is_pressing() const {
  constexpr std::chrono::seconds just{1};
  const auto then = Unfinished::Clock::now() - just;
  return std::ranges::any_of(files_, [then](const File& file) { return !file.whole || file.left > then; });
}

std::vector<NamedEntry> differences(const std::vector<NamedEntry>& from, const std::vector<NamedEntry>& to) {
  std::vector<NamedEntry> changes;
  EntryIndex now = index_by_key(to);
  for (const NamedEntry& entry : from) {
    const auto other = now.find(entry.key);
    if (other == now.end())
      changes.push_back({.key = entry.key, .entry = nullptr});
    else if (other->second->entry != entry.entry && *other->second->entry != *entry.entry)
      changes.push_back(*other->second);
    if (other != now.end()) now.erase(other);
  }
  for (const NamedEntry& entry : to)
    if (now.contains(entry.key)) changes.push_back(entry);
  return changes;
}

std::vector<NamedEntry> undoing(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& changes) {
  std::vector<NamedEntry> back;
  if (changes.empty()) return back;
  EntryIndex open = index_by_key(changes);
  for (const NamedEntry& entry : base)
    if (open.erase(entry.key) != 0) back.push_back(entry);
  for (const auto& [key, change] : open) back.push_back({.key = std::string(key), .entry = nullptr});
  return back;
}

}  // namespace sessiond::sessions

#include "tests/crash/shim/power.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "tests/crash/shim/control.hpp"

namespace crash {
namespace {

constexpr std::uint64_t page_bytes = 4096;

using Inode = std::uint64_t;  // 0: no file
using Pages =
    std::map<std::uint64_t, std::string>;  // number of the page -> what it held before; shorter at the end of the file

struct File {
  int fd = -1;  // our own, so that the inode is given to nobody else
  std::uint64_t durable_size = 0;
  std::array<timespec, 2> durable_times{};
  Pages dirty{};
  Pages lost{};  // by a failed fsync
};

struct Change {
  std::string path;
  Inode before = 0;
  Inode after = 0;
};
using Step = std::vector<Change>;  // whole or not at all

struct Disk {
  std::map<Inode, File> files{};
  std::vector<Step> steps{};  // not durable yet, in order
  std::uint64_t kept = 0;     // names given in the keep directory
  std::map<Inode, std::string> graves{};
};
Disk& disk() {
  static Disk* const held = new Disk;  // outlives every destructor
  return *held;
}

std::string keep_name() {
  static const char* const dir = std::getenv("CRASH_SHIM_KEEP");
  return std::string(dir) + '/' + std::to_string(::getpid()) + '.' + std::to_string(++disk().kept);
}

Inode inode_at(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

bool is_directory(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

File& file_of(int fd) {
  struct stat status{};
  ::fstat(fd, &status);
  File& file = disk().files[status.st_ino];
  if (file.fd < 0) {
    const std::string again = "/proc/self/fd/" + std::to_string(fd);
    file.fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, again.c_str(), O_RDWR | O_CLOEXEC));
    file.durable_size = static_cast<std::uint64_t>(status.st_size);
    file.durable_times = {status.st_atim, status.st_mtim};
  }
  return file;
}

// --- the cut ---

using Dice = std::mt19937_64;
bool coin(Dice& dice) { return (dice() & 1U) != 0; }
enum class Luck : std::uint8_t { nothing, some, everything };
Luck luck(Dice& dice) { return static_cast<Luck>(dice() % 3); }
bool kept(Luck luck, Dice& dice) { return luck == Luck::everything || (luck == Luck::some && coin(dice)); }

// Shuts every socket of the process. Calls that only read do not wait for the cut: a thread could see files that are
// half cut, and answer a client from them. Twice, for a connection that was just being accepted.
void cut_network() {
  for (int round = 0; round < 2; ++round)
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      ::shutdown(std::atoi(entry.path().filename().c_str()), SHUT_RDWR);  // does nothing to a file
}

void put_back(const File& file, std::uint64_t page, std::string old) {
  old.resize(page_bytes, '\0');
  static_cast<void>(::syscall(SYS_pwrite64, file.fd, old.data(), old.size(), page * page_bytes) < 0);
}

void cut_file(const File& file, Dice& dice) {
  struct stat status{};
  ::fstat(file.fd, &status);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const Luck pages = luck(dice);
  std::uint64_t end = pages == Luck::nothing ? file.durable_size : size;
  if (pages == Luck::some) {
    const auto [low, high] = std::minmax(size, file.durable_size);
    std::vector<std::uint64_t> ends{low, high};
    for (std::uint64_t at = (low / page_bytes + 1) * page_bytes; at < high; at += page_bytes) ends.push_back(at);
    end = ends[dice() % ends.size()];
  }
  for (const auto& [page, old] : file.dirty)
    if (!kept(pages, dice)) put_back(file, page, old);
  for (const auto& [page, old] : file.lost) put_back(file, page, old);
  syscall(SYS_ftruncate, file.fd, end);
  const bool old_times = pages == Luck::nothing || (pages == Luck::some && coin(dice));
  const std::array<timespec, 2> times = old_times ? file.durable_times : std::array{status.st_atim, status.st_mtim};
  ::futimens(file.fd, times.data());
}

// What every name that is not durable leads to after the cut.
std::map<std::string, Inode> cut_names(Dice& dice) {
  std::map<std::string, Inode> names;
  for (const Step& step : disk().steps)
    for (const Change& change : step) names.emplace(change.path, change.before);
  const Luck which = luck(dice);
  const bool in_order = coin(dice);  // as a journaling file system keeps them
  for (const Step& step : disk().steps) {
    if (!kept(which, dice)) {
      if (in_order) break;
      continue;
    }
    if (!std::ranges::all_of(step, [&](const Change& change) { return names[change.path] == change.before; })) continue;
    for (const Change& change : step) names[change.path] = change.after;
  }
  return names;
}

// Everything out of the way first, those below a directory before it, then to where it belongs.
void place_names(const std::map<std::string, Inode>& names) {
  auto& places = disk().graves;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const Inode inode = inode_at(name->first);
    if (inode == 0) continue;
    const std::string place = keep_name();
    syscall(SYS_rename, name->first.c_str(), place.c_str());
    places[inode] = place;
  }
  for (const auto& [path, inode] : names) {
    if (inode == 0) continue;
    const std::string& place = places[inode];
    if (is_directory(place)) {
      syscall(SYS_rename, place.c_str(), path.c_str());
    } else {
      syscall(SYS_link, place.c_str(), path.c_str());  // fails where its directory is gone, and so is the file
    }
  }
}

}  // namespace

void before_change(int fd, std::uint64_t offset, std::uint64_t end) {
  if (offset >= end) return;
  File& file = file_of(fd);
  for (std::uint64_t page = offset / page_bytes; page * page_bytes < end; ++page) {
    if (file.dirty.contains(page)) continue;
    if (auto lost = file.lost.extract(page)) {
      file.dirty.insert(std::move(lost));
      continue;
    }
    std::string old(page_bytes, '\0');
    const ssize_t got = ::pread(file.fd, old.data(), old.size(), static_cast<off_t>(page * page_bytes));
    old.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    file.dirty.emplace(page, std::move(old));
  }
}

void file_synced(int fd) {
  struct stat status{};
  ::fstat(fd, &status);
  const auto known = disk().files.find(status.st_ino);
  if (known == disk().files.end()) return;
  File& file = known->second;
  file.dirty.clear();
  file.durable_size = static_cast<std::uint64_t>(status.st_size);
  file.durable_times = {status.st_atim, status.st_mtim};
  if (!file.lost.empty()) return;
  syscall(SYS_close, file.fd);
  disk().files.erase(known);
}

void sync_failed(int fd) {
  struct stat status{};
  ::fstat(fd, &status);
  const auto known = disk().files.find(status.st_ino);
  if (known == disk().files.end()) return;
  known->second.lost.merge(known->second.dirty);
  known->second.dirty.clear();
}

void directory_synced(const std::string& path) {
  auto& steps = disk().steps;
  std::set<std::string> names;
  // What a durable change builds on is durable too: from the last to the first.
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const bool durable = std::ranges::any_of(
        *step, [&](const Change& change) { return parent_of(change.path) == path || names.contains(change.path); });
    if (!durable) continue;
    for (const Change& change : *step) names.insert(change.path);
    step->clear();
  }
  std::erase_if(steps, [](const Step& step) { return step.empty(); });
}

NameChange::NameChange(std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    const Inode inode = inode_at(name);
    before_.emplace_back(name, inode);
    if (inode == 0 || disk().graves.contains(inode) || is_directory(name)) continue;
    const std::string grave = keep_name();
    if (syscall(SYS_link, name.c_str(), grave.c_str()) == 0) disk().graves[inode] = grave;
  }
}

void NameChange::done() {
  Step step;
  for (const auto& [path, before] : before_)
    if (const Inode after = inode_at(path); after != before) step.push_back({path, before, after});
  if (!step.empty()) disk().steps.push_back(std::move(step));
}

void cut_power() {
  cut_network();
  Dice dice(control().seed);
  for (const auto& [inode, file] : disk().files) cut_file(file, dice);
  place_names(cut_names(dice));
  for (;;) syscall(SYS_kill, ::getpid(), SIGKILL);
}

}  // namespace crash

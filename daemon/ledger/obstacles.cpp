#include "daemon/ledger/obstacles.hpp"

#include <sys/stat.h>

#include <array>

#include "store/files.hpp"

namespace sessiond::ledger {
namespace fs = std::filesystem;
namespace {

constexpr std::array single_files{"CHECKPOINT", "adoptions", "EPOCH",     "clock",  "cursor.key",
                                  "hooks",      "logouts",   "retention", "tickets"};
constexpr std::array folders{"archives", "early",    "ends",   "index",    "keys",     "kept",
                             "last",     "messages", "outbox", "policies", "previous", "runs"};
constexpr std::array flat_folders{"archives", "early",    "ends",     "keys", "last", "messages",
                                  "outbox",   "policies", "previous", "runs"};  // that hold files and nothing else

bool is_ours(const fs::path& path) {
  const fs::path ending = path.extension();
  return ending == ".json" || ending == ".jsonl" || ending == ".log" || ending == ".idx" || ending == ".note";
}

}  // namespace

std::vector<Obstacle> find_obstacles(const fs::path& journal_dir) {
  std::vector<Obstacle> found;
  const auto wants_file = [&found](const fs::path& path) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
    found.push_back({.path = path,
                     .what = S_ISDIR(status.st_mode) ? "is a folder where a file should be" : "is not a regular file"});
  };
  for (const char* name : single_files) wants_file(journal_dir / name);
  store::each_in(journal_dir, [&](const fs::directory_entry& entry) {
    if (entry.path().extension() == ".idx") wants_file(entry.path());
  });
  for (const char* name : folders) {
    struct stat status{};
    const fs::path path = journal_dir / name;
    if (::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
      found.push_back({.path = path, .what = "is a file where a folder should be"});
  }
  for (const char* name : flat_folders) {
    if (fs::is_symlink(journal_dir / name)) continue;  // the parts that use it judge whether it may be a link
    store::each_in(journal_dir / name, [&](const fs::directory_entry& entry) {
      if (is_ours(entry.path())) wants_file(entry.path());
    });
  }
  return found;
}

}  // namespace sessiond::ledger

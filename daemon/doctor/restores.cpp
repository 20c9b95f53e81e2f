#include "daemon/doctor/restores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include "daemon/doctor/state_owner.hpp"
#include "store/files.hpp"
#include "store/process.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
namespace {

Finding finding(Level level, const fs::path& path, std::string detail, std::string advice = {}) {
  return {.level = level,
          .check = "restore",
          .path = path.native(),
          .detail = std::move(detail),
          .advice = std::move(advice)};
}

bool there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

bool is_running(std::string_view name, std::string_view prefix) {
  std::int64_t pid = 0;
  const std::string_view rest = name.substr(prefix.size());
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), pid);
  return error == std::errc() && pid > 0 && !store::process_status(pid).dead;
}

Finding judge_aside(const fs::path& path, const fs::path& state_dir) {
  const bool whole = there(state_dir);
  if (there(path / "MANIFEST.json"))
    return finding(Level::warning, path, "a restore was killed before it put this copy in place",
                   whole ? fmt::format("restore again if needed; then remove it: rm -r {}", path.native())
                         : fmt::format("finish it: mv {} {}", path.native(), state_dir.native()));
  if (!whole)
    return finding(Level::error, path, "a restore was killed while it moved the state directory aside to this name",
                   fmt::format("put it back: mv {} {}", path.native(), state_dir.native()));
  return finding(Level::ok, path, "the state before a restore; remove it when you do not need it any more");
}

Finding judge_scratch(const fs::path& path, const fs::path& state_dir) {
  std::error_code ignored;
  if (is_running(path.filename().native(), state_dir.filename().native() + ".restore."))
    return finding(Level::ok, path, "a restore is under way");
  if (there(state_lock_file(path)))
    return finding(Level::error, path,
                   "a restore was killed before it renamed this directory: it is the state before the restore",
                   fmt::format("keep it under a name of its own: mv {} {}.before-restore.{}", path.native(),
                               state_dir.native(), store::time_for_names()));
  return finding(Level::warning, path, "a restore was killed while it unpacked a backup here",
                 fmt::format("remove it: rm -r {}", path.native()));
}

}  // namespace

std::vector<Finding> find_left_restores(const fs::path& named) {
  std::vector<Finding> found;
  std::error_code error;
  fs::path state_dir = fs::weakly_canonical(named, error);
  if (error) state_dir = named;
  if (!state_dir.has_filename()) state_dir = state_dir.parent_path();
  const std::string name = state_dir.filename().native();
  store::each_in(state_dir.parent_path(), [&](const fs::directory_entry& entry) {
    const std::string other = entry.path().filename().native();
    if (other.starts_with(name + ".before-restore.")) found.push_back(judge_aside(entry.path(), state_dir));
    if (other.starts_with(name + ".restore.") && other.ends_with(".tmp"))
      found.push_back(judge_scratch(entry.path(), state_dir));
  });
  std::ranges::sort(found, {}, &Finding::path);
  return found;
}

}  // namespace sessiond::doctor

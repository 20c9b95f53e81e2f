#include "daemon/ledger/start_files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/ledger/obstacles.hpp"
#include "daemon/runtime/log.hpp"
#include "store/files.hpp"
#include "store/journal/segment.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

// Finds the highest rev in any store. A journal that was lost, or whose end was, must continue above it: no version may
// be given twice.
Result<std::uint64_t> highest_rev(const Paths& paths) {
  std::int64_t most = 0;
  for (const std::string& agent : paths.agents()) {
    auto text = store::read_file(paths.store_file(agent));
    if (!text && text.error().code != Code::not_found)
      log::warn("store_not_read", {{"agent", agent}, {"error", text.error().detail}});
    if (!text || text->find("\"rev\"") == std::string::npos || !json::check(*text, {.max_depth = json::foreign_depth}))
      continue;
    for (const json::Member& entry : json::members(*text))
      most = std::max(most, json::int_at(entry.value, "rev").value_or(0));
  }
  return static_cast<std::uint64_t>(most);
}

}  // namespace

Result<std::string> journal_secret(const std::filesystem::path& path) {
  auto kept = store::read_file(path);
  if (kept && kept->size() == 64) return kept;
  if (!kept && kept.error().code != Code::not_found) return kept;
  if (kept)
    log::warn("cursor_key_replaced", {{"path", path.string()},
                                      {"why", "it was damaged"},
                                      {"next",
                                       "list cursors and stream tickets given out before are refused; a replay does "
                                       "not show older events of spawned "
                                       "sessions to tokens of role session"}});
  std::string fresh = store::random_hex(64);
  TRY(store::replace_file(path, fresh));
  return fresh;
}

Result<JournalBounds> journal_bounds(const Paths& paths, const Checkpoint& checkpoint, bool repair) {
  TRY(auto segments, journal::list_segments(paths.journal_dir()));
  JournalBounds files{.first_seq = checkpoint.seq + 1, .least_head = checkpoint.seq};
  if (!segments.empty() && checkpoint.known && !repair)
    return files;  // reading every store takes long, and is not needed here
  TRY(const auto rev, highest_rev(paths));
  files.first_seq = std::max(files.first_seq, rev + 1);
  if (!segments.empty()) files.least_head = std::max(files.least_head, rev);
  return files;
}

std::vector<std::string> clear_the_way(const Paths& paths) {
  std::vector<std::string> told;
  for (const Obstacle& obstacle : find_obstacles(paths.journal_dir())) {
    const auto aside = store::put_aside(obstacle.path);
    told.push_back(fmt::format("{} {}; {}", obstacle.path.native(), obstacle.what,
                               aside ? "moved to " + aside->filename().native() : aside.error().detail));
  }
  return told;
}

// Removes the files that a killed process was about to rename. The journal's folder is the daemon's alone; in the state
// directory foreign programs may have files.
void remove_left_temps(const Paths& paths) {
  std::error_code error;  // a file that cannot be removed only takes space
  const auto remove = [&error](const std::filesystem::directory_entry& entry) {
    if (entry.path().extension() == ".tmp") std::filesystem::remove(entry.path(), error);
  };
  store::each_in(paths.journal_dir(), remove);
  for (const std::string_view folder : journal_folders)
    if (folder != "kept") store::each_in(paths.journal_dir() / folder, remove);
  store::each_in(paths.journal_dir() / "index", [&](const std::filesystem::directory_entry& agent) {
    if (!agent.is_symlink(error) && agent.is_directory(error)) store::each_in(agent.path(), remove);
  });
  store::each_in(paths.state_dir(), [&](const std::filesystem::directory_entry& entry) {
    const std::string name = entry.path().filename().native();
    if (name.starts_with("tokens.json.") || name.starts_with("policy.json.")) remove(entry);
  });
  for (const std::string& agent : paths.agents()) {
    store::each_in(paths.agents_dir() / agent, [&](const std::filesystem::directory_entry& entry) {
      if (entry.path().filename().native().starts_with("last_session.")) remove(entry);
    });
  }
}

}  // namespace sessiond::ledger

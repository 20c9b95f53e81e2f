#include "daemon/ledger/renames.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "store/clock.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/seal/sealed.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/staged.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::size_t renames_synced_at_once = 256;  // in shared mode each holds a lock until then

// Writes the entry of a session that ends beside its archives. The name is durable after a sync of the folder. A file
// that a kill has torn is written again by the replay.
Result<void> keep_entry(const std::filesystem::path& folder, const journal::LinePosition& position) {
  const std::filesystem::path path = folder / position.file;
  TRY(store::make_dirs(folder));
  TRY(auto fd, store::open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  TRY(seal::reserve());
  const std::string stored = seal::seal(position.entry, transcripts::entry_place(path.native())) + "\n";
  TRY(store::write_all(fd.get(), stored, path.native()));
  return store::sync_file(fd.get(), path);
}

// Returns whether a file with changes says that the messages were copied. One that cannot be read stays.
bool has_copies(const std::filesystem::path& file) {
  const auto changes = transcripts::Transcript::open(file, {});
  if (!changes) return true;
  const auto marks = (*changes)->landmarks();
  return !marks || (*marks)->changes.has_copies();
}

void remove_indexes(const Paths& paths, const std::string& agent, const std::string& file) {
  const auto sidecar = paths.sidecar(agent, file);
  std::error_code ignored;  // an index that stays only takes space
  std::filesystem::remove(sidecar, ignored);
  std::filesystem::remove(transcripts::Transcript::id_sidecar(sidecar), ignored);
  std::filesystem::remove(transcripts::Transcript::landmarks_sidecar(sidecar), ignored);
}

}  // namespace

Result<void> Renames::place(const journal::LinePosition& position, const std::string& path, bool locked) {
  const std::filesystem::path folder = paths_.root() / paths_.sessions_dir(position.agent);
  const std::string file = path.substr(path.find_last_of('/') + 1);
  if (transcripts::staged_for(position.staged).empty() || !store::stat_of(folder / position.staged)) return {};
  TRY(const auto held, writer_.close(path, locked));
  if (store::stat_of(folder / file)) {  // a foreign program was faster: what was imported is kept as an archive
    const std::string kept = transcripts::archive_name(file, "reset", store::unix_ms());
    TRY(transcripts::archive(folder, position.staged, kept));
    if (on_repair_)
      on_repair_(
          fmt::format("{} was written by another program while a transcript was imported in its place; the "
                      "imported one is {}",
                      (folder / file).native(), kept));
    return store::sync_dir(folder);
  }
  TRY(transcripts::archive(folder, position.staged, file));
  store::fault_point("staged.renamed");
  remove_indexes(paths_, position.agent, file);
  TRY(auto* known, ends_(position.agent));
  if (const auto status = store::stat_within(folder / file)) {
    const auto size = static_cast<std::uint64_t>(status->st_size);
    known->replace(file, status->st_ino, size);
    if (placed_) placed_->push_back({.agent = position.agent, .name = file, .size = size});
  }
  return store::sync_dir(folder);
}

// Gives every file its new name, then records that, then destroys what is purged. After a kill at any step, an archive
// that exists was renamed, and a recorded event renames nothing any more.
Result<void> Renames::apply(std::string_view text, std::span<const journal::LinePosition> positions, bool locked) {
  TRY(auto event, journal::parse_event(std::string(text)));
  if (restores_files(event)) return restore_files(event, positions, locked);
  if (event.envelope.type == journal::EventType::archive_destroyed) return destroy_archives(event, positions);
  const std::string& agent = event.envelope.agent;
  const std::filesystem::path folder = paths_.root() / paths_.sessions_dir(agent);
  if (purges_files(event)) {
    TRY(remove_beside(event, json::find(event.data, "changes") == "true"));
    TRY(auto* known, ends_(agent));
    if (!event.envelope.session_id.empty()) known->forget_lost(event.envelope.session_id);
  }
  const auto files = archived_files(event, positions);
  TRY(const bool done, archives_.contains(agent, event.envelope.seq));
  for (const journal::LinePosition& position : positions) {
    if (position.entry.empty() || position.seq != event.envelope.seq || done) continue;
    TRY(keep_entry(folder, position));
    store::fault_point("archive.entry_kept");
    if (files.empty()) TRY(store::sync_dir(folder));  // else with the new names
  }
  bool whole = true;
  for (std::size_t at = 0; at < files.size(); at += renames_synced_at_once) {
    const auto some = std::span(files).subspan(at, std::min(renames_synced_at_once, files.size() - at));
    TRY(const bool renamed, archive_some(agent, some, locked, done));
    whole = whole && renamed;
  }
  if (!whole) return {};  // not recorded: the next start does it
  const bool destroys = purges_files(event) && !files.empty();
  if (!done) TRY(archives_.add(event, files, destroys));
  store::fault_point("archive.recorded");
  if (!destroys) return {};
  std::error_code ignored;  // a file that is gone already is no error
  for (const auto& [file, name] : files) {
    const auto status = store::stat_of(folder / name);
    if (status && S_ISLNK(status->st_mode) && on_repair_)
      on_repair_(fmt::format("{} was a link: the file that it named was not destroyed", (folder / name).native()));
    std::filesystem::remove(folder / name, ignored);
    store::fault_point("archive.purged");
  }
  auto synced = store::sync_dir(folder);  // or a power cut brings it back
  return synced || !std::filesystem::exists(folder, ignored) ? Result<void>{} : synced;
}

// Removes what lies beside the transcripts of the session that an event names: its log, and if no archive of it is left
// the changes of its messages, unless copies of these are there. A replay writes the lines of a later session with that
// id again.
Result<void> Renames::remove_beside(const journal::Event& event, bool is_last) {
  const std::string& id = event.envelope.session_id;
  if (!store::check_session_id(id)) return {};
  const std::string& agent = event.envelope.agent;
  std::vector<std::string> names{store::log_file(id)};
  const auto folder = paths_.root() / dir_beside(paths_, agent, "changes");
  if (is_last) TRY(writer_.flush_below(dir_beside(paths_, agent, "changes")));  // a file may not be written yet
  store::each_in(folder, [&](const std::filesystem::directory_entry& at) {
    const std::string file = at.path().filename().string();
    if (!is_last) return;
    if (file == store::transcript_file(id, "") || store::topic_of_file(id, file))
      names.push_back(store::changes_file(id, store::topic_of_file(id, file).value_or("")));
  });
  for (const std::string& name : names) TRY(remove_file_beside(agent, name));
  return {};
}

Result<void> Renames::remove_file_beside(const std::string& agent, const std::string& name) {
  const std::string path = file_path(paths_, agent, name);
  if (!store::resolve_below(paths_.root(), path)) return {};  // gone, or a link to what is not ours
  const std::filesystem::path file = paths_.root() / path;
  if (!store::is_log_file(name)) {
    if (!writer_.flush(path) || has_copies(file)) return {};
  }
  writer_.discard(path);
  const auto status = store::stat_of(file);
  if (!status || !S_ISREG(status->st_mode)) return {};
  std::error_code error;
  std::filesystem::remove(file, error);
  remove_indexes(paths_, agent, name);
  store::fault_point("log.purged");
  if (!error) return store::sync_dir(file.parent_path());
  if (on_repair_) on_repair_(fmt::format("{} was not removed with its session: {}", file.native(), error.message()));
  return {};
}

// Removes archives, and the entry that was kept with them. Anything else that has the name of one stays. A replay must
// not take a newer transcript for the one that became the archive, so the record of that is on disk first.
Result<void> Renames::destroy_archives(const journal::Event& event, std::span<const journal::LinePosition> positions) {
  const std::string dir = paths_.sessions_dir(event.envelope.agent);
  const std::filesystem::path folder = paths_.root() / dir;
  TRY(archives_.write());
  TRY(archives_.sync());
  if (!store::resolve_below(paths_.root(), dir)) return {};  // gone, or a link to what is not ours
  if (json::find(event.data, "log") == "true") TRY(remove_beside(event, true));
  std::vector<std::string> names;
  for (auto& [file, name] : archived_files(event, positions)) names.push_back(std::move(name));
  if (auto entry = json::string_at(event.data, "entryAs")) names.push_back(std::move(*entry));
  std::error_code ignored;  // a file that cannot be removed is found again when the agent is loaded
  for (const std::string& name : names) {
    if (name.contains('/') || transcripts::archive_ending(name).empty()) continue;
    TRY(const auto written, writer_.close(dir + name, false));  // a start may have sent lines there
    const auto status = store::stat_of(folder / name);
    if (!status) continue;
    if (S_ISREG(status->st_mode))
      std::filesystem::remove(folder / name, ignored);
    else if (on_repair_)
      on_repair_(fmt::format("{} was not destroyed: it is not a regular file", (folder / name).native()));
    remove_indexes(paths_, event.envelope.agent, name);
    store::fault_point("archive.unlinked");
  }
  auto synced = store::sync_dir(folder);
  return synced || !std::filesystem::exists(folder, ignored) ? Result<void>{} : synced;
}

// Gives archives the names of transcripts again. A name that a newer file has meanwhile stays with that file. How far a
// transcript is known, its position says, whenever this is repeated: a foreign program may have added lines since. An
// archive that could not be read has none, and is known as it is now.
Result<void> Renames::restore_files(const journal::Event& event, std::span<const journal::LinePosition> positions,
                                    bool locked) {
  const std::string& agent = event.envelope.agent;
  const std::string dir = paths_.sessions_dir(agent);
  const std::filesystem::path folder = paths_.root() / dir;
  for (const auto& [file, name] : archived_files(event, positions)) {
    TRY(const auto held, writer_.close(dir + file, locked));
    TRY(const auto written, writer_.close(dir + name, false));  // a start may have sent lines there
    TRY(auto* known, ends_(agent));
    struct stat status{};
    const bool taken = ::lstat((folder / file).c_str(), &status) == 0;
    if (taken && ::lstat((folder / name).c_str(), &status) == 0) {
      if (on_repair_) on_repair_(fmt::format("{} was not restored: {} is there", (folder / name).native(), file));
      continue;
    }
    if (!taken) TRY(transcripts::archive(folder, name, file));
    store::fault_point("restore.renamed");
    const bool has_position = std::ranges::any_of(positions, [&](const journal::LinePosition& position) {
      return position.seq == event.envelope.seq && position.length && position.file == file;
    });
    if (const auto now = store::stat_within(folder / file); now && !has_position)
      known->replace(file, now->st_ino, static_cast<std::uint64_t>(now->st_size));
  }
  std::error_code ignored;
  if (const auto entry = json::string_at(event.data, "entryAs"); entry && !entry->contains('/'))
    std::filesystem::remove(folder / *entry, ignored);
  auto synced = store::sync_dir(folder);
  return synced || !std::filesystem::exists(folder, ignored) ? Result<void>{} : synced;
}

// Renames files and makes that durable by one sync of their folder. `done`: they were renamed before. Returns false
// when a file was left where it is.
Result<bool> Renames::archive_some(const std::string& agent, std::span<const std::pair<std::string, std::string>> files,
                                   bool locked, bool done) {
  const std::string dir = paths_.sessions_dir(agent);
  const std::filesystem::path folder = paths_.root() / dir;
  std::vector<std::optional<lock::FileLock>> held;  // until the new names are durable
  std::error_code ignored;
  bool whole = true;
  for (const auto& [file, name] : files) {
    auto closed = writer_.close(dir + file, locked);
    // A start does not wait for one file: CHECKPOINT keeps this event for the next start.
    if (!closed && !locked && closed.error().code == Code::degraded) {
      whole = false;
      continue;
    }
    if (!closed) return std::unexpected(closed.error());
    held.push_back(std::move(*closed));
    store::fault_point("archive.closed");
    TRY(auto* known, ends_(agent));
    known->forget(file);
    // An archive that exists was renamed before a crash. A file with the old name is then a newer file.
    if (done || std::filesystem::exists(folder / name, ignored)) continue;
    TRY(transcripts::archive(folder, file, name));
  }
  // Synced also when all was renamed before: that may have been just before a crash.
  if (auto synced = store::sync_dir(folder); !synced && std::filesystem::exists(folder, ignored))
    return std::unexpected(std::move(synced.error()));
  store::fault_point("archive.synced");
  for (const auto& [file, name] : files) remove_indexes(paths_, agent, file);
  return whole;
}

}  // namespace sessiond::ledger

#include "daemon/ledger/snapshot.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>

#include "store/files.hpp"
#include "store/journal/segment.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/staged.hpp"

namespace sessiond::ledger {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view links_prefix = "backup.";

bool is_made_again(std::string_view name) {
  return name.ends_with(".idx") || name.ends_with(".note") || name.ends_with(".current.json");
}

bool is_segment(const fs::path& file) { return journal::parse_segment_name(file.filename().native()).has_value(); }

enum class Kind : std::uint8_t { any, replaced };

// Takes one file, if it exists and is a regular one, and at most `most` bytes of it.
Result<void> take(StateSnapshot& cut, std::string name, const fs::path& named, Kind kind = Kind::any,
                  std::uint64_t most = UINT64_MAX) {
  // A transcript that is a link within the state directory is a file in the snapshot.
  const fs::path path = named.native().contains(".jsonl") ? store::path_within(named) : named;
  SnapshotFile file{.name = std::move(name), .path = path.native()};
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0)
    return errno == ENOENT ? Result<void>{} : std::unexpected(io_problem("stat", path.native(), errno));
  if (!S_ISREG(status.st_mode)) return {};
  if (cut.links) {
    auto link = cut.links->add(path);
    if (!link) return link.error().code == Code::not_found ? Result<void>{} : std::unexpected(std::move(link.error()));
    file.path = link->native();
    // Asks about the link: another file may have stood at the path a moment before.
    if (::lstat(file.path.c_str(), &status) != 0) return std::unexpected(io_problem("stat", path.native(), errno));
  }
  file.size = std::min(static_cast<std::uint64_t>(status.st_size), most);
  file.mtime = status.st_mtim.tv_sec;
  if (kind == Kind::replaced) file.written_ns = store::identity(status).mtime_ns;
  cut.files.push_back(std::move(file));
  return {};
}

enum class Depth : std::uint8_t { flat, deep };

// Takes the files of one folder that are `wanted`, in order of their names, and those of its subfolders if deep. An
// absent folder has none.
Result<void> take_folder(StateSnapshot& cut, const std::string& folder, const fs::path& dir, Depth depth,
                         const std::function<bool(const fs::path&)>& wanted) {
  std::vector<std::pair<std::string, bool>> entries;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().native();
    std::error_code gone;
    const bool is_folder = it->symlink_status(gone).type() == fs::file_type::directory;
    const bool stays = !store::is_passing(name) || !transcripts::staged_for(name).empty();
    if (stays && wanted(it->path())) entries.emplace_back(std::move(name), is_folder);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return std::unexpected(io_problem("list", dir.native(), error.value()));
  std::ranges::sort(entries);
  Result<void> taken;
  for (const auto& [name, is_folder] : entries) {
    if (!is_folder) taken = take(cut, folder + name, dir / name);
    if (is_folder && depth == Depth::deep) taken = take_folder(cut, folder + name + "/", dir / name, depth, wanted);
    if (!taken) return taken;
  }
  return taken;
}

}  // namespace

Result<std::unique_ptr<LinkDir>> LinkDir::make(const fs::path& journal_dir) {
  const fs::path dir = journal_dir / fmt::format("{}{}.{}.tmp", links_prefix, ::getpid(), store::random_uuid());
  if (::mkdir(dir.c_str(), 0700) != 0) return std::unexpected(io_problem("create directory", dir.native(), errno));
  return std::unique_ptr<LinkDir>(new LinkDir(dir));
}

LinkDir::~LinkDir() {
  std::error_code ignored;  // the next start removes the rest
  fs::remove_all(dir_, ignored);
}

Result<fs::path> LinkDir::add(const fs::path& file) {
  fs::path link = dir_ / std::to_string(count_++);
  if (::link(file.c_str(), link.c_str()) == 0) return link;
  if (errno == ENOENT) return fail(Code::not_found, fmt::format("{} is gone", file.native()));
  if (errno != EXDEV && errno != EPERM && errno != EMLINK)
    return std::unexpected(io_problem("link", file.native(), errno));
  std::error_code error;
  fs::copy_file(file, link, error);
  if (error) return std::unexpected(io_problem("copy", file.native(), error.value()));
  return link;
}

void LinkDir::remove_left(const fs::path& journal_dir) {
  std::error_code error;  // left folders only take space, and doctor reports them
  std::vector<fs::path> left;
  for (fs::directory_iterator it(journal_dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().native();
    if (name.starts_with(links_prefix) && name.ends_with(".tmp")) left.push_back(it->path());
  }
  for (const fs::path& dir : left) fs::remove_all(dir, error);
}

Result<void> take_stores(StateSnapshot& cut, const Paths& paths) {
  const fs::path journal = paths.journal_dir();
  const fs::path checkpoint = journal / "CHECKPOINT";
  auto taken = take(cut, "journal/CHECKPOINT", checkpoint);
  if (taken)
    taken = take_folder(cut, "journal/", journal, Depth::flat, [&](const fs::path& file) {
      return file != checkpoint && !is_made_again(file.native()) && !is_segment(file) && !journal::is_torn_name(file);
    });
  for (const std::string folder : {"early", "keys", "last", "messages", "outbox", "policies", "previous", "runs"}) {
    if (!taken) return taken;
    taken = take_folder(cut, "journal/" + folder + "/", journal / folder, Depth::flat,
                        [](const fs::path& file) { return !is_made_again(file.native()); });
  }
  // A log may have taken the place of an older file (book_files.hpp) after its folder was listed.
  for (const std::string folder : {"outbox", "runs"}) {
    if (!taken) return taken;
    taken = take_folder(cut, "journal/" + folder + "/", journal / folder, Depth::flat, [&](const fs::path& file) {
      const std::string name = "journal/" + folder + "/" + file.filename().native();
      return file.extension() == ".log" && std::ranges::find(cut.files, name, &SnapshotFile::name) == cut.files.end();
    });
  }
  for (const std::string& agent : paths.agents()) {
    if (!taken) return taken;
    const fs::path store = paths.store_file(agent);
    taken = take(cut, paths.sessions_dir_in_backup(agent) + store.filename().native(), store, Kind::replaced);
  }
  for (const std::string name : {"policy.json", "tokens.json"}) {
    if (!taken) return taken;
    taken = take(cut, name, paths.state_dir() / name);
  }
  return taken;
}

Result<void> take_transcripts(StateSnapshot& cut, const Paths& paths, const std::string& agent) {
  const std::string folder = paths.sessions_dir_in_backup(agent);
  // The record of archived files is taken with the transcripts, on the thread that writes both.
  TRY(take(cut, "journal/archives/" + agent + ".jsonl", paths.archive_records(agent)));
  TRY(take_folder(cut, folder, paths.store_file(agent).parent_path(), Depth::deep,
                  [store = paths.store_file(agent)](const fs::path& file) { return file != store; }));
  for (const std::string_view kind : folders_beside) {
    const std::string beside = dir_beside_in_backup(paths, agent, kind);
    const fs::path dir = paths.root() / dir_beside(paths, agent, kind);
    std::error_code ignored;
    if (beside.starts_with(folder) || !fs::is_directory(fs::symlink_status(dir, ignored))) continue;
    TRY(take_folder(cut, beside, dir, Depth::flat, [](const fs::path&) { return true; }));
  }
  return {};
}

Result<void> take_journal(StateSnapshot& cut, const journal::FileJournal& journal) {
  TRY(const std::uint64_t last, journal.each_segment([&cut](const fs::path& path, std::uint64_t bytes) {
    return take(cut, "journal/" + path.filename().native(), path, Kind::any, bytes);
  }));
  cut.as_of = fmt::format("{}-{}", journal.epoch(), last);
  return {};
}

Result<void> take_placed(StateSnapshot& cut, const Paths& paths, const std::vector<PlacedFile>& placed) {
  for (const PlacedFile& file : placed) {
    std::string name = paths.sessions_dir_in_backup(file.agent) + file.name;
    if (std::ranges::find(cut.files, name, &SnapshotFile::name) != cut.files.end()) continue;
    TRY(take(cut, std::move(name), paths.store_file(file.agent).parent_path() / file.name, Kind::any, file.size));
  }
  return {};
}

Result<void> take_blobs(StateSnapshot& cut, const Paths& paths) {
  return take_folder(cut, "blobs/sha256/", paths.state_dir() / "blobs" / "sha256", Depth::deep,
                     [](const fs::path&) { return true; });
}

Result<StateSnapshot> snapshot_at_rest(const Paths& paths) {
  StateSnapshot cut;
  auto taken = take_stores(cut, paths);
  for (const std::string& agent : paths.agents()) {
    if (taken) taken = take_transcripts(cut, paths, agent);
  }
  if (taken) taken = take_folder(cut, "journal/", paths.journal_dir(), Depth::flat, is_segment);
  if (taken) taken = take_blobs(cut, paths);
  if (!taken) return std::unexpected(std::move(taken.error()));
  return cut;
}

}  // namespace sessiond::ledger

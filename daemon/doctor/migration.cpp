// doctor --migrate: rewrites every agent's transcripts, one after another.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/doctor/examination.hpp"
#include "daemon/doctor/inspect_transcript.hpp"
#include "daemon/doctor/repair.hpp"
#include "store/files.hpp"
#include "store/lock/lock.hpp"
#include "store/names.hpp"
#include "store/seal/sealed.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/migrate.hpp"

namespace sessiond::doctor {
namespace {

namespace fs = std::filesystem;

class TranscriptMigration {
 public:
  TranscriptMigration(Examination& exam, const std::string& agent)
      : exam_(exam), dir_(exam.paths.store_file(agent).parent_path()) {
    if (const auto read = sessions::read_store(exam.paths.store_file(agent));
        read && read->kind == sessions::StoreRead::Kind::good)
      owners_ = transcript_owners(read->entries);
  }

  void run() {
    for (const Listed& file : list_dir(exam_, "migrate", dir_)) {
      if (!S_ISREG(file.status.st_mode)) continue;
      if (file.name.ends_with(transcripts::entry_suffix)) {
        if (auto done = seal_entry_of_archive(dir_ / file.name); !done)
          exam_.report.error("migrate", (dir_ / file.name).native(),
                             fmt::format("was not changed: {}", done.error().detail), "correct this and run it again");
        continue;
      }
      if (!is_wanted(file.name) || !is_old(file)) continue;
      if (auto done = migrate(file); !done)
        exam_.report.error("migrate", (dir_ / file.name).native(),
                           fmt::format("was not changed: {}", done.error().detail), "correct this and run it again");
    }
  }

 private:
  // Archives stay as they are, but for what is to be sealed.
  static bool is_wanted(std::string_view file) {
    if (is_transcript(file)) return true;
    const auto named = transcripts::parse_file_name(file);
    return seal::on() && named && named->kind == transcripts::NamedFile::Kind::archive;
  }

  // Seals the entry beside an archive with the active key, where encryption is on.
  Result<void> seal_entry_of_archive(const fs::path& path) {
    if (!seal::on()) return {};
    TRY(auto stored, store::read_file(path));
    if (seal::key_of(stored) == seal::keys()->active().id()) return {};
    const seal::Place place = transcripts::entry_place(path.native());
    TRY(const auto text, seal::open_if_sealed(std::move(stored), place));
    TRY(seal::reserve());
    TRY(const auto kept, exam_.keep_copy(path));
    TRY(store::replace_file(path, seal::seal(std::string(store::trim(text)), place) + "\n"));
    exam_.report.step({.action = "migrate", .path = path.native(), .detail = "sealed", .kept = kept.native()});
    return {};
  }

  // Checks without the lock first, since most transcripts need no migration.
  bool is_old(const Listed& file) const {
    const auto state = inspect_transcript(dir_ / file.name);
    if (!state || state->to_seal) return true;
    if (!is_transcript(file.name)) return false;
    return state->old > 0 || (state->has_header ? state->version < 3 : state->entries > state->unreadable);
  }

  Result<void> migrate(const Listed& file) {
    const fs::path path = dir_ / file.name;
    std::vector<lock::Eviction> evictions;
    TRY(const auto lock, lock::FileLock::acquire(path, {.timeout = foreign_lock_wait}, evictions));
    fs::path kept;
    TRY(const auto done, transcripts::migrate_transcript(path, session_of(file.name), [&]() -> Result<void> {
          TRY(auto copy, exam_.keep_copy(path));
          kept = std::move(copy);
          return {};
        }));
    if (kept.empty()) return {};
    const std::string was = done.version == 0 ? "had no header" : fmt::format("was of version {}", done.version);
    exam_.report.step(
        {.action = "migrate",
         .path = path.native(),
         .detail = fmt::format("{}: {} of {} entries rewritten, now version 3", was, done.changed, done.entries),
         .kept = kept.native()});
    return {};
  }

  // Returns the session id of the entry that names the file; else the one in the file name.
  std::string session_of(std::string_view file) const {
    if (const auto owner = owners_.find(file); owner != owners_.end()) return owner->second;
    file = file.substr(0, file.find(".jsonl"));
    return std::string(file.substr(0, file.find("-topic-")));
  }

  Examination& exam_;
  fs::path dir_;
  std::map<std::string, std::string, std::less<>> owners_{};
};

}  // namespace

Report run_migration(const config::Config& config) {
  const DoctorOptions options{.state_dir = config.state_dir,
                              .path_template = config.store.path_template,
                              .damage_after = std::chrono::milliseconds(config.store.damage_after_ms),
                              .lock_held = true};
  Examination exam(options);
  for (const std::string& agent : exam.paths.agents())
    if (store::resolve_below(exam.paths.root(), exam.paths.sessions_dir(agent))) TranscriptMigration(exam, agent).run();
  return std::move(exam.report);
}

}  // namespace sessiond::doctor

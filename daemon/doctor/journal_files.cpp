// The files of journal/ beside the segments: keys, indexes, earlier generations, and what starts and repairs put aside.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/decide/delivery_book.hpp"
#include "daemon/decide/run_book.hpp"
#include "daemon/doctor/examination.hpp"
#include "daemon/ledger/book_log.hpp"
#include "store/answers/sealed.hpp"
#include "store/files.hpp"
#include "store/journal/recovery.hpp"
#include "store/journal/segment.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"
#include "transcripts/known_ends.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
using namespace sessiond::journal;
namespace {

constexpr off_t cursor_key_bytes = 64;
constexpr std::array<std::string_view, 10> expected{"EPOCH", "CHECKPOINT", "cursor.key", "tickets",   "adoptions",
                                                    "clock", "hooks",      "logouts",    "retention", "seals"};

class JournalFiles {
 public:
  JournalFiles(Examination& exam, const std::set<fs::path>& obstacles)
      : exam_(exam), dir_(exam.paths.journal_dir()), obstacles_(obstacles) {}

  void run(const std::vector<Listed>& listed) {
    ModeCheck modes(exam_);
    if (const auto status = store::stat_of(dir_)) modes.look(dir_, *status);
    for (const Listed& file : listed) {
      const fs::path path = dir_ / file.name;
      if (obstacles_.contains(path) || (parse_segment_name(file.name) && !S_ISREG(file.status.st_mode))) continue;
      modes.look(path, file.status);
      if (tell_quarantined(path, file)) continue;
      const bool folder = std::ranges::find(ledger::journal_folders, file.name) != ledger::journal_folders.end() ||
                          file.name.ends_with(".tmp");
      if (!folder && check_kind(exam_, path, file.status)) continue;
      if (file.name == "cursor.key" && file.status.st_size != cursor_key_bytes)
        exam_.report.warning("cursor_key", path.native(), "is damaged",
                             "nothing to do: the next start makes a new one; list cursors and stream tickets that were "
                             "given out before are refused");
      if (std::ranges::find(expected, file.name) != expected.end() || file.name.ends_with(".idx")) continue;
      if (parse_segment_name(file.name)) continue;
      if (file.name == "keys" || file.name == "messages") {
        look_at_keys(path, modes);
      } else if (file.name == "archives" || file.name == "ends" || file.name == "index" || file.name == "kept" ||
                 file.name == "runs" || file.name == "outbox" || file.name == "last" || file.name == "early" ||
                 file.name == "policies") {
        count_folder(path, file.name, modes);
      } else if (file.name == "previous") {
        look_at_previous(path, modes);
      } else if (file.name.ends_with(".tmp")) {
        check_temporary(exam_, path, file.status);
      } else if (is_torn_name(file.name)) {
        exam_.report.ok(
            "quarantine", path.native(),
            fmt::format("a batch that a kill cut short, {}: no client was told that it is stored; goes with "
                        "journal.retention",
                        in_bytes(static_cast<std::uint64_t>(file.status.st_size))));
      } else {
        exam_.report.warning("foreign_file", path.native(), "is not a sessiond file", "move it out of journal/");
      }
    }
    modes.tell(dir_);
  }

 private:
  // Reports a file that a start or a repair has put aside. Returns whether it was one.
  bool tell_quarantined(const fs::path& path, const Listed& file) {
    const bool torn = file.name.contains(".torn.") && !is_torn_name(file.name);
    if (!torn && !file.name.contains(".damaged.")) return false;
    exam_.report.warning("quarantine", path.native(),
                         fmt::format("put aside {} ago by a start, {}", in_time(age_ms(file.status)),
                                     in_bytes(static_cast<std::uint64_t>(file.status.st_size))),
                         fmt::format("look at it, then run: rm -r '{}'", path.native()));
    return true;
  }

  // Checks every line of the idempotency answers. A damaged line only means that its key is forgotten.
  void look_at_keys(const fs::path& dir, ModeCheck& modes) {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    for (const Listed& file : list_dir(exam_, "journal", dir)) {
      const fs::path path = dir / file.name;
      if (tell_quarantined(path, file) || obstacles_.contains(path)) continue;
      modes.look(path, file.status);
      bytes += static_cast<std::uint64_t>(file.status.st_size);
      if (file.name.ends_with(".tmp")) check_temporary(exam_, path, file.status);
      if (check_kind(exam_, path, file.status)) continue;
      if (!file.name.ends_with(".jsonl") || exam_.cancelled()) continue;
      std::vector<std::string> damages;
      const auto fd = store::open_file(path, O_RDONLY | O_NONBLOCK);
      const auto scanned =
          fd ? answers::scan_answers(fd->get(), path, damages, [&](const answers::Answer&, auto, auto) { ++count; })
             : std::unexpected(fd.error());
      if (!scanned) damages.push_back(scanned.error().detail);
      if (exam_.daemon_running) continue;  // the daemon may be writing the last line
      for (std::string& damage : damages)
        exam_.report.warning("idempotency", path.native(), std::move(damage),
                             "a repeated request with one of those keys is not recognised; nothing to do");
    }
    exam_.report.ok("idempotency", dir.native(), fmt::format("{} answers, {}", count, in_bytes(bytes)));
  }

  void look_at_ends(const fs::path& path) {
    const auto text = path.extension() == ".jsonl" ? store::read_file(path) : Result<std::string>("");
    if (exam_.daemon_running || path.extension() != ".jsonl" || (text && transcripts::KnownEnds::is_sound(*text)))
      return;
    exam_.report.warning("known_ends", path.native(), text ? "is damaged" : text.error().detail,
                         "nothing to do: the next start makes it anew from the transcripts");
  }

  template <class Book>
  void look_at_book(const fs::path& path) {
    if (exam_.daemon_running || path.extension() != ".log") return;
    const auto read = ledger::BookLog(path).read();
    const auto book = read ? Book::from_records(read->records, read->ending) : std::unexpected(read.error());
    if (book) return;
    exam_.report.warning("book", path.native(), book.error().detail,
                         book.error().code == Code::degraded
                             ? "nothing to do: the next start moves it away, and makes it anew from the journal"
                             : "make the file readable: until then the agent answers 503");
  }

  // Checks the folders of known transcript ends, of archives, of line indexes (which are made anew when missing) and of
  // what repairs removed.
  void count_folder(const fs::path& dir, std::string_view name, ModeCheck& modes) {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
    std::error_code error;
    std::vector<fs::path> odd;  // checked after the listing, since a repair moves them
    for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
      const auto status = store::stat_of(it->path());
      if (!status) continue;
      const Listed listed{.name = it->path().filename().native(), .status = *status};
      if (name != "kept" && (tell_quarantined(it->path(), listed) || obstacles_.contains(it->path()))) {
        if (S_ISDIR(status->st_mode)) it.disable_recursion_pending();
        continue;
      }
      modes.look(it->path(), *status);
      if (!S_ISREG(status->st_mode) && name != "kept" && (name != "index" || it.depth() != 0)) {
        odd.push_back(it->path());
        if (it->is_directory(error)) it.disable_recursion_pending();
      }
      if (!S_ISREG(status->st_mode)) continue;
      ++files;
      bytes += static_cast<std::uint64_t>(status->st_size);
      if (name == "ends") look_at_ends(it->path());
      if (name == "runs") look_at_book<decide::RunBook>(it->path());
      if (name == "outbox") look_at_book<decide::DeliveryBook>(it->path());
      if (name == "index" && it->path().native().ends_with(".tmp")) check_temporary(exam_, it->path(), *status);
    }
    for (const fs::path& path : odd)
      if (const auto status = store::stat_of(path)) check_kind(exam_, path, *status);
    if (error)
      exam_.report.error("journal", dir.native(), fmt::format("cannot be read: {}", error.message()),
                         "run the doctor as the user that the daemon runs as; check the disk");
    if (name == "kept")
      exam_.report.ok("kept", dir.native(),
                      fmt::format("{} files that repairs and migrations removed, {}; delete what you do not need",
                                  files, in_bytes(bytes)));
  }

  void look_at_previous(const fs::path& dir, ModeCheck& modes) {
    for (const Listed& file : list_dir(exam_, "journal", dir)) {
      const fs::path path = dir / file.name;
      if (tell_quarantined(path, file) || obstacles_.contains(path)) continue;
      modes.look(path, file.status);
      if (file.name.ends_with(".tmp")) check_temporary(exam_, path, file.status);
      if (check_kind(exam_, path, file.status)) continue;
      if (!file.name.ends_with(".json") || exam_.cancelled()) continue;
      const auto read = sessions::read_store(path);
      if (!read) {
        exam_.report.warning("previous", path.native(), read.error().detail, "make it readable for the daemon's user");
      } else if (read->kind == sessions::StoreRead::Kind::damaged) {
        exam_.fault({Level::warning, "previous", path.native(),
                     fmt::format("the copy of an earlier generation is damaged: {}", read->damage),
                     "it is needed only when sessions.json is damaged too, and checkpoints make it anew; "
                     "sessiond doctor --repair moves it away"},
                    [&] { return exam_.move_away(path); });
      }
    }
  }

  Examination& exam_;
  fs::path dir_;
  const std::set<fs::path>& obstacles_;
};

}  // namespace

void check_journal_files(Examination& exam, const std::vector<Listed>& files, const std::set<fs::path>& obstacles) {
  JournalFiles(exam, obstacles).run(files);
}

}  // namespace sessiond::doctor

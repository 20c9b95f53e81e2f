// The journal, read only: every segment is read through and its CRCs computed, while opening it would repair what can
// be repaired. The rules are those of store/journal/recovery.cpp.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

#include "daemon/doctor/examination.hpp"
#include "daemon/ledger/obstacles.hpp"
#include "store/answers/sealed.hpp"
#include "store/files.hpp"
#include "store/journal/recovery.hpp"
#include "store/journal/scan.hpp"
#include "store/journal/segment.hpp"
#include "store/json/crc.hpp"
#include "store/json/raw_json.hpp"
#include "store/sessions/disk.hpp"
#include "transcripts/known_ends.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
using namespace sessiond::journal;
namespace {

constexpr std::uint64_t open_end = std::numeric_limits<std::uint64_t>::max();
constexpr std::string_view repair_advice =
    "start once with sessiond serve --repair, or run sessiond doctor --repair: the damage is put aside, what is lost "
    "is "
    "reported, subscribers resync. Copy the journal first";
constexpr off_t cursor_key_bytes = 64;
constexpr std::array<std::string_view, 6> folders{"archives", "ends", "index", "kept", "keys", "previous"};
constexpr std::string_view move_advice = "start sessiond serve, or run sessiond doctor --repair: it is moved aside";

class JournalCheck {
 public:
  explicit JournalCheck(Examination& exam) : exam_(exam), dir_(exam.paths.journal_dir()) {}

  void run() {
    // Before the journal: what a running daemon writes meanwhile is then never behind it.
    tell_obstacles();
    exam_.checkpoint = read_checkpoint();
    const auto listed = list_dir(exam_, "journal", dir_);
    if (listed.empty()) {
      exam_.report.ok("journal", dir_.native(), "none yet: no sessiond has written here");
      return;
    }
    look_at_files(listed);
    auto names = list_segments(dir_);
    if (!names) {
      exam_.report.error("journal", dir_.native(), names.error().detail, "check the disk");
      return;
    }
    if (names->empty()) {
      if (exam_.checkpoint)
        tell_broken(dir_.native(), "there is a CHECKPOINT, but not one segment: events may be lost");
      return;
    }
    epoch_ = load_epoch(dir_);
    if (!epoch_)
      exam_.report.warning("journal", (dir_ / "EPOCH").native(), "missing or unreadable",
                           "the next start mints a new epoch: subscribers resync");
    look_at_segments(*names);
    if (exam_.cancelled()) return;
    exam_.head = next_ - 1;
    if (exam_.checkpoint) {
      look_at_checkpoint(*exam_.checkpoint);
    } else if (!stat_of(dir_ / "CHECKPOINT")) {
      exam_.report.ok("checkpoint", (dir_ / "CHECKPOINT").native(),
                      "there is none: the next start goes through the whole journal");
    }
    exam_.report.ok("journal", dir_.native(),
                    fmt::format("{} segment{}, {}, seqs {} to {}, epoch {}", segments_, segments_ == 1 ? "" : "s",
                                in_bytes(bytes_), first_, next_ - 1, epoch_ ? epoch_->epoch : "unknown"));
  }

 private:
  void tell_broken(const std::string& path, std::string detail) {
    exam_.damaged_journal = true;
    exam_.report.error("journal", path, std::move(detail), std::string(repair_advice));
  }

  // What the next start moves out of the way.
  void tell_obstacles() {
    for (const Obstacle& obstacle : find_obstacles(dir_)) {
      obstacles_.insert(obstacle.path);
      exam_.fault({.level = Finding::Level::error,
                   .check = "journal",
                   .path = obstacle.path.native(),
                   .detail = obstacle.what,
                   .advice = std::string(move_advice)},
                  [&]() -> Result<Step> {
                    const auto aside = put_aside(obstacle.path);
                    if (!aside) return std::unexpected(aside.error());
                    return Step{.path = obstacle.path.native(), .detail = "moved aside", .kept = aside->native()};
                  });
    }
  }

  std::optional<CheckpointFile> read_checkpoint() {
    const fs::path path = dir_ / "CHECKPOINT";
    if (obstacles_.contains(path)) return {};
    const auto text = read_file(path);
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return {};  // told with the files
    if (!text) {
      if (text.error().code != Code::not_found)
        exam_.report.error("checkpoint", path.native(), text.error().detail, "make it readable for the daemon's user");
      return {};
    }
    const bool sound = json::check(*text) && text->starts_with('{') && crc_fits(*text);
    const auto seq = sound ? json::int_at(*text, "seq") : std::nullopt;
    if (!seq || *seq < 0) {
      exam_.report.warning("checkpoint", path.native(), "is damaged",
                           "nothing is lost: the next start goes through the whole journal");
      return {};
    }
    CheckpointFile checkpoint{.epoch = json::string_at(*text, "epoch").value_or(""),
                              .seq = static_cast<std::uint64_t>(*seq)};
    for (const json::Member& member : json::members(json::find(*text, "agents").value_or("{}")))
      checkpoint.agents[json::unescape(member.name)] =
          static_cast<std::uint64_t>(json::as_int(member.value).value_or(0));
    return checkpoint;
  }

  void look_at_checkpoint(const CheckpointFile& checkpoint) {
    const std::string path = (dir_ / "CHECKPOINT").native();
    std::uint64_t most = checkpoint.seq;
    for (const auto& [agent, reached] : checkpoint.agents) most = std::max(most, reached);
    if (most > next_ - 1) {
      exam_.damaged_journal = true;
      exam_.report.error("checkpoint", path,
                         fmt::format("the files hold events to seq {}, the journal ends at {}: its end was lost, or an "
                                     "old one was put here",
                                     most, next_ - 1),
                         "put back the newer one if there is one; else " + std::string(repair_advice));
    } else if (epoch_ && !checkpoint.epoch.empty() && checkpoint.epoch != epoch_->epoch) {
      exam_.report.warning("checkpoint", path,
                           fmt::format("is of epoch {}, the journal of {}", checkpoint.epoch, epoch_->epoch),
                           "settled with the next checkpoint of a running daemon");
    }
    std::uint64_t least = checkpoint.seq;
    for (const auto& [agent, reached] : checkpoint.agents) least = std::min(least, reached);
    if (least < next_ - 1)
      exam_.report.ok("checkpoint", path,
                      fmt::format("the files hold events to seq {}; the next start brings those up to {} from the "
                                  "journal",
                                  least, next_ - 1));
  }

  void look_at_segments(std::vector<SegmentName> names) {
    // A segment that a later one overrides as a whole holds nothing; the next start removes it.
    std::uint64_t until = open_end;
    for (std::size_t i = names.size(); i-- > 0;) {
      if (names[i].first >= until) {
        names.erase(names.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        until = names[i].first;
      }
    }
    first_ = next_ = names.front().first;
    for (std::size_t i = 0; i < names.size() && !exam_.cancelled(); ++i)
      look_at_segment(names[i], i + 1 == names.size() ? open_end : names[i + 1].first);
  }

  void look_at_segment(const SegmentName& name, std::uint64_t until) {
    const fs::path path = dir_ / to_string(name);
    if (const auto status = stat_of(path); status && !S_ISREG(status->st_mode))
      return tell_broken(path.native(), "is no file: the segment that stood here is gone");
    const auto file = open_file(path, O_RDONLY | O_NONBLOCK);
    if (!file) {
      // Retention took it meanwhile, which begins with the oldest.
      if (file.error().code == Code::not_found && exam_.daemon_running && segments_ == 0 && until != open_end) {
        first_ = next_ = until;
      } else {
        exam_.report.error("journal", path.native(), file.error().detail, "make it readable; check the disk");
      }
      return;
    }
    const auto scan = scan_segment(file->get(), path.native(), name.first, until);
    if (!scan) {
      exam_.report.error("journal", path.native(), scan.error().detail, "check the disk; keep a copy of the journal");
      return;
    }
    ++segments_;
    bytes_ += scan->size;
    if (name.first > next_) tell_hole(next_, name.first);
    next_ = std::max(next_, name.first);
    for (const Run& run : scan->runs) {
      if (run.first > next_) tell_hole(next_, run.first);
      next_ = run.next;
    }
    tell_damage(path, *scan, until == open_end);
    if (until != open_end && scan->damages.empty()) compare_index(path, *scan, name.first, until);
  }

  void tell_damage(const fs::path& path, const Scan& scan, bool last) {
    if (last && scan.torn_only()) {
      const Damage& torn = scan.damages.front();
      if (!exam_.daemon_running)
        exam_.report.ok("journal", path.native(),
                        fmt::format("ends in a torn batch at offset {} ({}), as a kill leaves it: nobody was told that "
                                    "it was stored, the next start cuts it off",
                                    torn.offset, in_bytes(torn.end - torn.offset)));
      return;
    }
    for (const Damage& damage : scan.damages)
      tell_broken(path.native(),
                  fmt::format("is damaged at offset {} ({})", damage.offset, in_bytes(damage.end - damage.offset)));
  }

  void tell_hole(std::uint64_t from, std::uint64_t to) {
    const std::string range =
        from + 1 == to ? fmt::format("seq {} is", from) : fmt::format("seqs {} to {} are", from, to - 1);
    const bool known = epoch_ && std::ranges::any_of(epoch_->holes, [&](const Epoch::Hole& lost) {
                         return lost.from <= from && to <= lost.to;
                       });
    if (known) {
      exam_.report.ok("journal", dir_.native(), fmt::format("{} known to be lost, from an earlier repair", range));
    } else {
      tell_broken(dir_.native(), fmt::format("{} missing", range));
    }
  }

  // A start believes an index that fits by its own account.
  void compare_index(const fs::path& path, const Scan& scan, std::uint64_t first, std::uint64_t until) {
    const auto sealed = load_index(path);
    if (!sealed || sealed->first != first || sealed->next != until) return;  // is made again
    const std::uint64_t end = scan.runs.empty() ? 0 : scan.runs.back().end;
    const std::uint64_t next = scan.runs.empty() ? first : scan.runs.back().next;
    if (next != until || sealed->end > scan.size || (sealed->end < end && sealed->end != 0))
      exam_.fault({.level = Finding::Level::warning,
                   .check = "journal",
                   .path = index_path(path).native(),
                   .detail = "does not say what its segment holds",
                   .advice = "remove it while no daemon runs, or run sessiond doctor --repair: it is made again"},
                  [&]() -> Result<Step> {
                    auto kept = exam_.put_away(index_path(path));
                    if (!kept) return std::unexpected(kept.error());
                    return Step{.path = index_path(path).native(), .detail = "moved away", .kept = kept->native()};
                  });
  }

  void look_at_files(const std::vector<Listed>& listed) {
    ModeCheck modes(exam_);
    if (const auto status = stat_of(dir_)) modes.look(dir_, *status);
    for (const Listed& file : listed) {
      const fs::path path = dir_ / file.name;
      if (obstacles_.contains(path) || (parse_segment_name(file.name) && !S_ISREG(file.status.st_mode))) continue;
      modes.look(path, file.status);
      if (tell_quarantined(path, file)) continue;
      const bool folder = std::ranges::find(folders, file.name) != folders.end() || file.name.ends_with(".tmp");
      if (!folder && check_kind(exam_, path, file.status)) continue;
      if (file.name == "cursor.key" && file.status.st_size != cursor_key_bytes)
        exam_.report.warning("cursor_key", path.native(), "is damaged",
                             "nothing to do: the next start makes a new one; list cursors and stream tickets that were "
                             "given out before are refused");
      if (file.name == "EPOCH" || file.name == "CHECKPOINT" || file.name == "cursor.key" || file.name == "tickets" ||
          file.name == "clock" || file.name == "logouts" || file.name.ends_with(".idx"))
        continue;
      if (parse_segment_name(file.name)) continue;
      if (file.name == "keys") {
        look_at_keys(path, modes);
      } else if (file.name == "archives" || file.name == "ends" || file.name == "index" || file.name == "kept") {
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

  // What a start or a repair put aside.
  bool tell_quarantined(const fs::path& path, const Listed& file) {
    const bool torn = file.name.contains(".torn.") && !is_torn_name(file.name);
    if (!torn && !file.name.contains(".damaged.")) return false;
    exam_.report.warning("quarantine", path.native(),
                         fmt::format("put aside {} ago by a start, {}", in_time(age_ms(file.status)),
                                     in_bytes(static_cast<std::uint64_t>(file.status.st_size))),
                         fmt::format("look at it, then run: rm -r '{}'", path.native()));
    return true;
  }

  // Idempotency answers: every line's form. A damaged one only means that its key is not known any more.
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
      const auto fd = open_file(path, O_RDONLY | O_NONBLOCK);
      const auto scanned =
          fd ? answers::scan_answers(fd->get(), path, damages, [&](const Answer&, auto, auto) { ++count; })
             : std::unexpected(fd.error());
      if (!scanned) damages.push_back(scanned.error().detail);
      if (exam_.daemon_running) continue;  // its last line may be in flight
      for (std::string& damage : damages)
        exam_.report.warning("idempotency", path.native(), std::move(damage),
                             "requests of those keys are not recognised when they come again; nothing to do");
    }
    exam_.report.ok("idempotency", dir.native(), fmt::format("{} answers, {}", count, in_bytes(bytes)));
  }

  void look_at_ends(const fs::path& path) {
    const auto text = path.extension() == ".jsonl" ? read_file(path) : Result<std::string>("");
    if (exam_.daemon_running || path.extension() != ".jsonl" || (text && KnownEnds::is_sound(*text))) return;
    exam_.report.warning("known_ends", path.native(), text ? "is damaged" : text.error().detail,
                         "nothing to do: the next start makes it anew with all that stands in the transcripts by then");
  }

  // How far transcripts are known; line indexes, which are made again; and what repairs took away.
  void count_folder(const fs::path& dir, std::string_view name, ModeCheck& modes) {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
    std::error_code error;
    std::vector<fs::path> odd;  // looked at when the folder is no longer being listed: a repair moves them
    for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
      const auto status = stat_of(it->path());
      if (!status) continue;
      const Listed listed{.name = it->path().filename().native(), .status = *status};
      if (name != "kept" && (tell_quarantined(it->path(), listed) || obstacles_.contains(it->path()))) {
        if (S_ISDIR(status->st_mode)) it.disable_recursion_pending();
        continue;
      }
      modes.look(it->path(), *status);
      const bool expected = S_ISREG(status->st_mode) || name == "kept" || (name == "index" && it.depth() == 0);
      if (!expected) {
        odd.push_back(it->path());
        if (it->is_directory(error)) it.disable_recursion_pending();
      }
      if (!S_ISREG(status->st_mode)) continue;
      ++files;
      bytes += static_cast<std::uint64_t>(status->st_size);
      if (name == "ends") look_at_ends(it->path());
      if (name == "index" && it->path().native().ends_with(".tmp")) check_temporary(exam_, it->path(), *status);
    }
    for (const fs::path& path : odd)
      if (const auto status = stat_of(path)) check_kind(exam_, path, *status);
    if (error)
      exam_.report.error("journal", dir.native(), fmt::format("cannot be read: {}", error.message()),
                         "run the doctor as the user that the daemon runs as; check the disk");
    if (name == "kept")
      exam_.report.ok("kept", dir.native(),
                      fmt::format("{} files that repairs and migrations took away, {}; remove what nobody needs", files,
                                  in_bytes(bytes)));
  }

  void look_at_previous(const fs::path& dir, ModeCheck& modes) {
    for (const Listed& file : list_dir(exam_, "journal", dir)) {
      const fs::path path = dir / file.name;
      if (tell_quarantined(path, file) || obstacles_.contains(path)) continue;
      modes.look(path, file.status);
      if (file.name.ends_with(".tmp")) check_temporary(exam_, path, file.status);
      if (check_kind(exam_, path, file.status)) continue;
      if (!file.name.ends_with(".json") || exam_.cancelled()) continue;
      const auto read = read_store(path);
      if (!read) {
        exam_.report.warning("previous", path.native(), read.error().detail, "make it readable for the daemon's user");
      } else if (read->kind == StoreRead::Kind::damaged) {
        exam_.fault({.level = Finding::Level::warning,
                     .check = "previous",
                     .path = path.native(),
                     .detail = fmt::format("the copy of an earlier generation is damaged: {}", read->damage),
                     .advice = "it is only needed when sessions.json is damaged too, and made again with checkpoints; "
                               "sessiond doctor --repair moves it away"},
                    [&]() -> Result<Step> {
                      auto kept = exam_.put_away(path);
                      if (!kept) return std::unexpected(kept.error());
                      return Step{.path = path.native(), .detail = "moved away", .kept = kept->native()};
                    });
      }
    }
  }

  Examination& exam_;
  fs::path dir_;
  std::set<fs::path> obstacles_{};
  std::optional<Epoch> epoch_{};
  std::size_t segments_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t first_ = 1;
  std::uint64_t next_ = 1;
};

}  // namespace

void check_journal(Examination& exam) { JournalCheck(exam).run(); }

}  // namespace sessiond::doctor

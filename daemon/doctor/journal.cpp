// Checks the journal without changing it: reads every segment and verifies its CRCs. Opening the journal would repair
// it. The rules are those of store/journal/recovery.cpp.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "daemon/doctor/examination.hpp"
#include "daemon/ledger/obstacles.hpp"
#include "store/files.hpp"
#include "store/journal/recovery.hpp"
#include "store/journal/scan.hpp"
#include "store/journal/segment.hpp"
#include "store/json/crc.hpp"
#include "store/json/raw_json.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
using namespace sessiond::journal;
namespace {

constexpr std::uint64_t open_end = std::numeric_limits<std::uint64_t>::max();
constexpr std::string_view repair_advice =
    "start once with sessiond serve --repair, or run sessiond doctor --repair: the damage is put aside, what is lost "
    "is reported, subscribers resync. Copy the journal first";
constexpr std::string_view move_advice = "start sessiond serve, or run sessiond doctor --repair: it is moved aside";

class JournalCheck {
 public:
  explicit JournalCheck(Examination& exam) : exam_(exam), dir_(exam.paths.journal_dir()) {}

  void run() {
    // Reads CHECKPOINT before the segments: what a running daemon writes meanwhile then cannot look lost.
    tell_obstacles();
    exam_.checkpoint = read_checkpoint();
    const auto listed = list_dir(exam_, "journal", dir_);
    if (listed.empty()) {
      exam_.report.ok("journal", dir_.native(), "none yet: no sessiond has written here");
      return;
    }
    check_journal_files(exam_, listed, obstacles_);
    auto names = list_segments(dir_);
    if (!names) {
      exam_.report.error("journal", dir_.native(), names.error().detail, "check the disk");
      return;
    }
    if (names->empty()) {
      if (exam_.checkpoint) tell_broken(dir_.native(), "there is a CHECKPOINT but no segment: events may be lost");
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
    } else if (!store::stat_of(dir_ / "CHECKPOINT")) {
      exam_.report.ok("checkpoint", (dir_ / "CHECKPOINT").native(),
                      "there is none: the next start reads the whole journal");
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

  // Reports what the next start moves out of its way.
  void tell_obstacles() {
    for (const ledger::Obstacle& obstacle : ledger::find_obstacles(dir_)) {
      obstacles_.insert(obstacle.path);
      exam_.fault({Level::error, "journal", obstacle.path.native(), obstacle.what, std::string(move_advice)},
                  [&]() -> Result<Step> {
                    TRY(const auto aside, store::put_aside(obstacle.path));
                    return Step{.path = obstacle.path.native(), .detail = "moved aside", .kept = aside.native()};
                  });
    }
  }

  std::optional<CheckpointFile> read_checkpoint() {
    const fs::path path = dir_ / "CHECKPOINT";
    if (obstacles_.contains(path)) return {};
    const auto text = store::read_file(path);
    if (const auto status = store::stat_of(path); status && !S_ISREG(status->st_mode))
      return {};  // check_journal_files reports it
    if (!text) {
      if (text.error().code != Code::not_found)
        exam_.report.error("checkpoint", path.native(), text.error().detail, "make it readable for the daemon's user");
      return {};
    }
    const bool sound = json::check(*text) && text->starts_with('{') && json::crc_fits(*text);
    const auto seq = sound ? json::int_at(*text, "seq") : std::nullopt;
    if (!seq || *seq < 0) {
      exam_.report.warning("checkpoint", path.native(), "is damaged",
                           "nothing is lost: the next start reads the whole journal");
      return {};
    }
    CheckpointFile checkpoint{.epoch = json::string_at(*text, "epoch").value_or(""),
                              .seq = static_cast<std::uint64_t>(*seq)};
    for (const json::Member& member : json::members(json::find(*text, "agents").value_or("{}")))
      checkpoint.agents[json::unescape(member.name)] =
          static_cast<std::uint64_t>(json::as_int(member.value).value_or(0));
    for (const json::Member& member : json::members(json::find(*text, "written").value_or("{}")))
      if (json::as_int(member.value).value_or(0) > 0) checkpoint.written.insert(json::unescape(member.name));
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
                         "put the newer one back if there is one; else " + std::string(repair_advice));
    } else if (epoch_ && !checkpoint.epoch.empty() && checkpoint.epoch != epoch_->epoch) {
      exam_.report.warning("checkpoint", path,
                           fmt::format("is of epoch {}, the journal of {}", checkpoint.epoch, epoch_->epoch),
                           "the next checkpoint of a running daemon corrects it");
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
    static_cast<void>(take_overridden(names));  // the next start removes them
    first_ = next_ = names.front().first;
    for (std::size_t i = 0; i < names.size() && !exam_.cancelled(); ++i)
      look_at_segment(names[i], i + 1 == names.size() ? open_end : names[i + 1].first);
  }

  void look_at_segment(const SegmentName& name, std::uint64_t until) {
    const fs::path path = dir_ / to_string(name);
    if (const auto status = store::stat_of(path); status && !S_ISREG(status->st_mode))
      return tell_broken(path.native(), "is not a file: the segment that was here is gone");
    const auto file = store::open_file(path, O_RDONLY | O_NONBLOCK);
    if (!file) {
      // Retention has deleted it, which begins with the oldest segment.
      if (file.error().code == Code::not_found && exam_.daemon_running && segments_ == 0 && until != open_end) {
        first_ = next_ = until;
      } else {
        exam_.report.error("journal", path.native(), file.error().detail, "make it readable; check the disk");
      }
      return;
    }
    const auto scan = scan_live_or_sealed(file->get(), path, name.first, until);
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

  // A running daemon writes lines over zeros while they are read, so lines may seem to follow zeros. Damage stays where
  // it is.
  Result<Scan> scan_live_or_sealed(int fd, const fs::path& path, std::uint64_t first, std::uint64_t until) const {
    constexpr int most = 4;
    auto scan = scan_segment(fd, path.native(), first, until);
    const bool live = exam_.daemon_running && until == open_end;
    for (int scans = 1; live && scan && !scan->damages.empty() && scans < most; ++scans)
      scan = scan_segment(fd, path.native(), first, until);
    return scan;
  }

  void tell_damage(const fs::path& path, const Scan& scan, bool last) {
    if (last && scan.torn_only()) {
      const Damage& torn = scan.damages.front();
      if (!exam_.daemon_running)
        exam_.report.ok("journal", path.native(),
                        fmt::format("ends in a torn batch at offset {} ({}), as after a kill: no client was told that "
                                    "it was stored; the next start cuts it off",
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
    if (epoch_ && epoch_->accepts({.from = from, .to = to})) {
      exam_.report.ok("journal", dir_.native(), fmt::format("{} known to be lost, from an earlier repair", range));
    } else {
      tell_broken(dir_.native(), fmt::format("{} missing", range));
    }
  }

  // A start trusts an index whose own fields are consistent, so it is compared with the segment here.
  void compare_index(const fs::path& path, const Scan& scan, std::uint64_t first, std::uint64_t until) {
    const auto sealed = load_index(path);
    if (!sealed || sealed->first != first || sealed->next != until) return;  // the next start makes it anew
    const std::uint64_t end = scan.runs.empty() ? 0 : scan.runs.back().end;
    const std::uint64_t next = scan.runs.empty() ? first : scan.runs.back().next;
    if (next != until || sealed->end > scan.size || (sealed->end < end && sealed->end != 0))
      exam_.fault({Level::warning, "journal", index_path(path).native(), "does not describe what its segment holds",
                   "remove it while no daemon runs, or run sessiond doctor --repair: it is made again"},
                  [&] { return exam_.move_away(index_path(path)); });
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

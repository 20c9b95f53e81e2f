#include "store/journal/recovery.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "store/clock.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/journal/line.hpp"

namespace sessiond::journal {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t open_end = std::numeric_limits<std::uint64_t>::max();

struct Findings {
  std::vector<Segment> segments{};
  std::vector<DamagedSegment> damaged{};
  std::vector<SegmentName> obstacles{};  // folders and links where a segment should be
  std::vector<Epoch::Hole> holes{};      // between what is readable
  std::vector<std::string> tolerated{};  // damage that recovery does not need
  bool end_lost = false;                 // how much is missing at the end cannot be known
};

// After a crash of the process the last batches may be in memory only; after a failed fsync memory may hold what the
// disk does not. So: to the disk with what is dirty, away with what is cached, and only then is it read.
Result<void> settle(int fd, const fs::path& path) {
  if (::fdatasync(fd) != 0) return std::unexpected(io_problem("fdatasync", path.native(), errno));
  if (const int error = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); error != 0)
    return std::unexpected(io_problem("fadvise", path.native(), error));
  return {};
}

std::optional<SealedIndex> fitting_index(const fs::path& path, std::uint64_t first, std::uint64_t until) {
  auto sealed = load_index(path);
  struct stat status{};
  if (!sealed || sealed->first != first || sealed->next != until || ::stat(path.c_str(), &status) != 0 ||
      static_cast<std::uint64_t>(status.st_size) < sealed->end)
    return std::nullopt;
  return sealed;
}

bool is_file(const fs::path& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// What a sealed segment holds, when its first and its last line say that it is seqs [first, until) and nothing else.
// So an old journal without indexes is not read through before anybody is served. No index: the check makes it.
std::optional<Segment> by_its_ends(const SegmentName& name, const fs::path& path, std::uint64_t until) {
  constexpr std::size_t head_bytes = 64;
  constexpr std::uint64_t most = 16ULL << 20;  // of the last line
  const auto file = open_file(path, O_RDONLY | O_NONBLOCK);
  struct stat status{};
  if (!file || ::fstat(file->get(), &status) != 0) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const auto head = read_at(file->get(), 0, head_bytes, path.native());
  if (!head || first_seq_in(*head) != name.first) return std::nullopt;
  for (std::uint64_t bytes = 64 << 10; bytes <= most; bytes *= 2) {
    const std::uint64_t from = size - std::min(bytes, size);
    const auto tail = read_at(file->get(), from, static_cast<std::size_t>(size - from), path.native());
    if (!tail || !tail->ends_with('\n')) return std::nullopt;
    const std::string_view text = std::string_view(*tail).substr(0, tail->size() - 1);
    const std::size_t before = text.rfind('\n');
    if (before == std::string_view::npos && from != 0) continue;
    const auto line = parse_line(text.substr(before + 1), Parts::events);
    if (!line || line->next != until || line->first == until) return std::nullopt;
    return Segment{.name = name, .path = path, .next = until, .end = size};
  }
  return std::nullopt;
}

class Recovery {
 public:
  explicit Recovery(const JournalOptions& options) : options_(options) {}

  Result<Recovered> run() {
    if (auto made = make_dirs(options_.dir); !made) return std::unexpected(made.error());
    remove_old_torn();
    const auto epoch = load_epoch(options_.dir);
    auto names = list_segments(options_.dir);
    if (!names) return std::unexpected(names.error());
    epoch_ = epoch.value_or(Epoch{});
    if (names->empty()) return create();
    if (!epoch) {
      epoch_.epoch = mint_epoch();
      if (auto saved = save_epoch(options_.dir, epoch_); !saved) return std::unexpected(saved.error());
      report_.repairs.push_back(fmt::format("journal/EPOCH was missing or unreadable: new epoch {}", epoch_.epoch));
    }
    // A repair changes which segments there are: look again after one. It converges at once unless the disk goes on
    // failing.
    for (int round = 0; round < 4; ++round) {
      auto findings = look();
      if (!findings) return std::unexpected(findings.error());
      if (sound(*findings)) {
        report_.damage = std::move(findings->tolerated);
        return Recovered{.segments = std::move(findings->segments),
                         .epoch = epoch_.epoch,
                         .lost = std::move(epoch_.holes),
                         .report = std::move(report_)};
      }
      if (!options_.repair) return fail(Code::degraded, describe(*findings));
      if (auto repaired = repair(*findings); !repaired) return std::unexpected(repaired.error());
    }
    return fail(Code::degraded, "the journal is damaged again after each repair");
  }

 private:
  // Nothing there: a new journal, or one that was lost. Either way what is written from now on is another history.
  Result<Recovered> create() {
    if (options_.least_head != 0 && !options_.repair)
      return fail(Code::degraded,
                  fmt::format("{} has a CHECKPOINT of seq {} and not one segment; start with --repair to "
                              "go on from the files alone",
                              options_.dir.native(), options_.least_head));
    report_.created = true;
    Epoch fresh{.epoch = mint_epoch()};
    if (options_.needed_from > 1 && options_.needed_from < options_.first_seq)
      fresh.holes.push_back({.from = options_.needed_from, .to = options_.first_seq});
    if (options_.least_head != 0)
      report_.repairs.push_back(fmt::format("the journal was lost: it goes on at seq {} under the new epoch {}",
                                            options_.first_seq, fresh.epoch));
    if (auto saved = save_epoch(options_.dir, fresh); !saved) return std::unexpected(saved.error());
    return Recovered{.epoch = fresh.epoch, .lost = std::move(fresh.holes), .report = std::move(report_)};
  }

  Result<Findings> look() {
    auto names = list_segments(options_.dir);
    if (!names) return std::unexpected(names.error());
    remove_void(*names);
    Findings findings;
    if (names->empty()) return findings;
    // What was not in the files yet and is older than all that is there.
    if (options_.needed_from > 1 && options_.needed_from < names->front().first)
      findings.holes.push_back({.from = options_.needed_from, .to = names->front().first});
    for (std::size_t i = 0; i < names->size(); ++i) {
      const bool last = i + 1 == names->size();
      const auto looked = look_at((*names)[i], last ? open_end : (*names)[i + 1].first, findings);
      if (!looked) return std::unexpected(looked.error());
    }
    // Its seqs are in files and in readers' hands: they are not given out again.
    if (const std::uint64_t next = findings.segments.empty() ? names->front().first : findings.segments.back().next;
        next <= options_.least_head) {
      findings.holes.push_back({.from = next, .to = options_.least_head + 1});
      findings.end_lost = true;
    }
    for (std::size_t i = 0; i + indexes_kept < findings.segments.size(); ++i) findings.segments[i].index.reset();
    return findings;
  }

  // Torn batches go with their segment, and after journal.retention at the latest.
  void remove_old_torn() {
    std::vector<fs::path> old;
    each_in(options_.dir, [&](const fs::directory_entry& entry) {
      struct stat status{};
      if (!is_torn_name(entry.path()) || ::lstat(entry.path().c_str(), &status) != 0) return;
      const std::int64_t written_ms = status.st_mtim.tv_sec * 1000;
      if (unix_ms() - written_ms > options_.torn_kept_ms) old.push_back(entry.path());
    });
    std::error_code ignored;
    for (const fs::path& path : old) fs::remove(path, ignored);
  }

  // Segments wholly overridden by later ones. They hold only what callers were told is not stored.
  void remove_void(std::vector<SegmentName>& names) {
    std::uint64_t until = open_end;
    for (std::size_t i = names.size(); i-- > 0;) {
      if (names[i].first >= until) {
        std::error_code ignored;  // one that stays is void the next time too
        const fs::path path = options_.dir / to_string(names[i]);
        fs::remove(path, ignored);
        fs::remove(index_path(path), ignored);
        names.erase(names.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        until = names[i].first;
      }
    }
  }

  Result<void> look_at(const SegmentName& name, std::uint64_t until, Findings& findings) {
    const bool last = until == open_end;
    Segment segment{.name = name, .path = options_.dir / to_string(name), .next = name.first};
    if (!is_file(segment.path)) {
      findings.obstacles.push_back(name);
      findings.end_lost = findings.end_lost || last;
      return {};
    }
    if (last) {
      std::error_code ignored;  // an index of what will be written on; it would not fit and be made again
      fs::remove(index_path(segment.path), ignored);
    } else if (!options_.repair) {
      if (auto sealed = fitting_index(segment.path, name.first, until)) {
        segment.next = sealed->next;
        segment.end = sealed->end;
        segment.index = std::move(sealed->index);
        add(std::move(segment), findings);
        return {};
      }
      if (until <= options_.needed_from) {
        if (auto known = by_its_ends(name, segment.path, until)) {
          add(std::move(*known), findings);
          return {};
        }
      }
    }
    const auto file = open_file(segment.path, O_RDWR);
    if (!file) return std::unexpected(file.error());
    if (auto settled = settle(file->get(), segment.path); !settled) return settled;
    auto scan = scan_segment(file->get(), segment.path.native(), name.first, until);
    if (!scan) return std::unexpected(scan.error());
    if (last && scan->torn_only()) {
      const auto cut = cut_torn(file->get(), segment.path, scan->damages.front());
      if (!cut) return std::unexpected(cut.error());
      report_.repairs.push_back(*cut);
      scan->damages.clear();
    }
    if (!scan->damages.empty() && can_wait(*scan, last, until)) {
      for (const Damage& damage : scan->damages)
        findings.tolerated.push_back(fmt::format("{} is damaged at offset {}", segment.path.native(), damage.offset));
      take_runs(segment, *scan);
      if (!last) segment.next = until;
      add(std::move(segment), findings);
      return {};
    }
    if (!scan->damages.empty()) {
      for (const Run& run : scan->runs)
        add({.name = {.first = run.first}, .path = segment.path, .next = run.next}, findings);
      findings.damaged.push_back({.name = name, .last = last, .scan = std::move(*scan)});
      return {};
    }
    take_run(segment, *scan);
    if (!last) save_rebuilt(segment);
    add(std::move(segment), findings);
    return {};
  }

  // Recovery needs nothing of what is damaged: it ends before `needed_from`, and what follows says where.
  bool can_wait(const Scan& scan, bool last, std::uint64_t until) const {
    if (options_.repair) return false;
    return std::ranges::all_of(scan.damages, [&](const Damage& damage) {
      const auto behind = std::ranges::find_if(scan.runs, [&](const Run& run) { return run.offset >= damage.end; });
      if (behind == scan.runs.end()) return !last && until <= options_.needed_from;
      return behind->first <= options_.needed_from;
    });
  }

  // With the damage between them: readers step over it.
  static void take_runs(Segment& segment, const Scan& scan) {
    segment.index.emplace();
    segment.end = std::max(scan.runs.empty() ? 0 : scan.runs.back().end, scan.damages.back().end);
    for (const Run& run : scan.runs) {
      segment.next = run.next;
      for (const auto& [seq, offset] : run.index.entries) segment.index->add(seq, run.offset + offset);
    }
  }

  static void take_run(Segment& segment, Scan& scan) {
    segment.index.emplace();
    if (scan.runs.empty()) return;
    segment.next = scan.runs.front().next;
    segment.end = scan.runs.front().end;
    segment.index = std::move(scan.runs.front().index);
  }

  void save_rebuilt(const Segment& segment) {
    const auto saved = save_index(
        segment.path, {.first = segment.name.first, .next = segment.next, .end = segment.end, .index = *segment.index});
    if (!saved) report_.repairs.push_back("the index could not be written: " + saved.error().detail);
  }

  static void add(Segment segment, Findings& findings) {
    if (!findings.segments.empty() && findings.segments.back().next < segment.name.first)
      findings.holes.push_back({.from = findings.segments.back().next, .to = segment.name.first});
    findings.segments.push_back(std::move(segment));
  }

  bool known(const Epoch::Hole& hole) const {
    return std::ranges::any_of(epoch_.holes,
                               [&](const Epoch::Hole& lost) { return lost.from <= hole.from && hole.to <= lost.to; });
  }
  bool can_wait(const Epoch::Hole& hole) const { return !options_.repair && hole.to <= options_.needed_from; }
  // Without `repair` what recovery does not need is no obstacle, but for an end of which nobody knows how long it was.
  bool sound(Findings& findings) const {
    if (!findings.damaged.empty() || (options_.repair && !findings.obstacles.empty())) return false;
    std::vector<std::string> missing;
    for (const Epoch::Hole& hole : findings.holes) {
      if (known(hole)) continue;
      if (findings.end_lost || !can_wait(hole)) return false;
      missing.push_back(describe(hole, findings));
    }
    if (findings.end_lost && !findings.obstacles.empty()) return false;
    for (const SegmentName& name : findings.obstacles)
      missing.push_back(fmt::format("{} is no file", (options_.dir / to_string(name)).native()));
    std::ranges::move(missing, std::back_inserter(findings.tolerated));
    return true;
  }

  // Names the file to look at: the one that ends too early, or the one that would begin there.
  std::string describe(const Epoch::Hole& hole, const Findings& findings) const {
    const auto before = std::ranges::find(findings.segments, hole.from, &Segment::next);
    const bool cut = before != findings.segments.end() && before->name.first < hole.from;
    const fs::path gone = options_.dir / to_string({.first = hole.from, .turn = 0});
    return fmt::format("seqs {} to {} are missing: {} is gone or empty{}", hole.from, hole.to - 1, gone.native(),
                       cut ? ", or the end of " + before->path.native() + " is" : "");
  }

  std::string describe(const Findings& findings) const {
    std::vector<std::string> all;
    for (const DamagedSegment& damaged : findings.damaged)
      all.push_back(fmt::format("{} is damaged at offset {}", (options_.dir / to_string(damaged.name)).native(),
                                damaged.scan.damages.front().offset));
    for (const SegmentName& name : findings.obstacles)
      all.push_back(fmt::format("{} is no file", (options_.dir / to_string(name)).native()));
    for (const Epoch::Hole& hole : findings.holes)
      if (!known(hole)) all.push_back(describe(hole, findings));
    return fmt::format("{}; start with --repair to go on without what is lost", fmt::join(all, "; "));
  }

  // Whatever stands there keeps its content under another name.
  Result<void> put_aside(const SegmentName& name) {
    const fs::path path = options_.dir / to_string(name);
    const fs::path aside = fmt::format("{}.damaged.{}", path.native(), time_for_names());
    if (::rename(path.c_str(), aside.c_str()) != 0) return std::unexpected(io_problem("move", path.native(), errno));
    report_.repairs.push_back(
        fmt::format("{} was no file; moved to {}", path.filename().native(), aside.filename().native()));
    return sync_dir(options_.dir);
  }

  // The new epoch and the holes come first: interrupted, the repair is made again under one more epoch.
  Result<void> repair(const Findings& findings) {
    epoch_ = {.epoch = mint_epoch(), .holes = findings.holes};
    if (auto saved = save_epoch(options_.dir, epoch_); !saved) return saved;
    fault_point("repair.epoch");
    for (const SegmentName& name : findings.obstacles)
      if (auto moved = put_aside(name); !moved) return moved;
    for (const DamagedSegment& damaged : findings.damaged) {
      auto done = repair_segment(options_.dir, damaged);
      if (!done) return std::unexpected(done.error());
      report_.repairs.push_back(std::move(*done));
    }
    if (!findings.holes.empty() && findings.holes.back().to == options_.least_head + 1) {
      const fs::path path = options_.dir / to_string({.first = options_.least_head + 1, .turn = 0});
      if (auto file = open_file(path, O_RDWR | O_CREAT); !file) return std::unexpected(file.error());
      if (auto synced = sync_dir(options_.dir); !synced) return synced;
    }
    for (const Epoch::Hole& hole : findings.holes)
      report_.repairs.push_back(fmt::format("seqs {} to {} are lost", hole.from, hole.to - 1));
    report_.repairs.push_back(fmt::format("new epoch {}", epoch_.epoch));
    return {};
  }

  const JournalOptions& options_;
  Epoch epoch_{};
  JournalReport report_{};
};

}  // namespace

Result<Recovered> recover(const JournalOptions& options) { return Recovery(options).run(); }

}  // namespace sessiond::journal

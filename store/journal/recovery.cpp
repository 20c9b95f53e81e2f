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
#include "store/try.hpp"

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

// Makes the following reads come from the disk. After a crash of the process the last batches may be in memory only,
// and after a failed fsync memory may have what the disk has not: so writes what is dirty, then drops the cache.
Result<void> settle(int fd, const fs::path& path) {
  if (::fdatasync(fd) != 0) return io_fail("fdatasync", path.native());
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

// The content of a sealed segment, when its first and last line show that it has exactly the seqs [first, until). So a
// journal without indexes need not be read before the daemon serves. The check makes the index later.
std::optional<Segment> by_its_ends(const SegmentName& name, const fs::path& path, std::uint64_t until) {
  constexpr std::size_t head_bytes = 64;
  constexpr std::uint64_t most = 16ULL << 20;  // of the last line
  const auto file = store::open_file(path, O_RDONLY | O_NONBLOCK);
  struct stat status{};
  if (!file || ::fstat(file->get(), &status) != 0) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const auto head = store::read_at(file->get(), 0, head_bytes, path.native());
  if (!head || first_seq_in(*head) != name.first) return std::nullopt;
  for (std::uint64_t bytes = 64 << 10; bytes <= most; bytes *= 2) {
    const std::uint64_t from = size - std::min(bytes, size);
    const auto tail = store::read_at(file->get(), from, static_cast<std::size_t>(size - from), path.native());
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
    TRY(store::make_dirs(options_.dir));
    remove_old_torn();
    const auto epoch = load_epoch(options_.dir);
    TRY(auto names, list_segments(options_.dir));
    epoch_ = epoch.value_or(Epoch{});
    if (names.empty()) return create();
    if (!epoch) {
      epoch_.epoch = mint_epoch();
      TRY(save_epoch(options_.dir, epoch_));
      report_.repairs.push_back(fmt::format("journal/EPOCH was missing or unreadable: new epoch {}", epoch_.epoch));
    }
    // A repair changes the segments, so they are examined again after it. One round is enough unless the disk keeps
    // failing.
    for (int round = 0; round < 4; ++round) {
      TRY(auto findings, look());
      if (sound(findings)) {
        report_.damage = std::move(findings.tolerated);
        return Recovered{.segments = std::move(findings.segments),
                         .epoch = epoch_.epoch,
                         .lost = std::move(epoch_.holes),
                         .report = std::move(report_)};
      }
      if (!options_.repair) return fail(Code::degraded, describe(findings));
      TRY(repair(findings));
    }
    return fail(Code::degraded, "the journal is damaged again after each repair");
  }

 private:
  // There is no segment: a new journal, or one that was lost. Both begin a new history.
  Result<Recovered> create() {
    if (options_.least_head != 0 && !options_.repair)
      return fail(Code::degraded, fmt::format("{} has a CHECKPOINT of seq {} but no segment; start with --repair to "
                                              "continue from the files alone",
                                              options_.dir.native(), options_.least_head));
    report_.created = true;
    Epoch fresh{.epoch = mint_epoch()};
    if (options_.needed_from > 1 && options_.needed_from < options_.first_seq)
      fresh.holes.push_back({.from = options_.needed_from, .to = options_.first_seq});
    if (options_.least_head != 0)
      report_.repairs.push_back(fmt::format("the journal was lost: it continues at seq {} under the new epoch {}",
                                            options_.first_seq, fresh.epoch));
    TRY(save_epoch(options_.dir, fresh));
    return Recovered{.epoch = fresh.epoch, .lost = std::move(fresh.holes), .report = std::move(report_)};
  }

  Result<Findings> look() {
    TRY(auto names, list_segments(options_.dir));
    for (const SegmentName& name : take_overridden(names)) remove_files(options_.dir / to_string(name));
    Findings findings;
    if (names.empty()) return findings;
    // Events that the files need and that are older than the first segment.
    if (options_.needed_from > 1 && options_.needed_from < names.front().first)
      findings.holes.push_back({.from = options_.needed_from, .to = names.front().first});
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool last = i + 1 == names.size();
      TRY(look_at(names[i], last ? open_end : names[i + 1].first, findings));
    }
    // The files and readers have these seqs: they are not assigned again.
    if (const std::uint64_t next = findings.segments.empty() ? names.front().first : findings.segments.back().next;
        next <= options_.least_head) {
      findings.holes.push_back({.from = next, .to = options_.least_head + 1});
      findings.end_lost = true;
    }
    for (std::size_t i = 0; i + indexes_kept < findings.segments.size(); ++i) findings.segments[i].index.reset();
    return findings;
  }

  // Torn batches are removed with their segment, and at the latest after journal.retention.
  void remove_old_torn() {
    std::vector<fs::path> old;
    store::each_in(options_.dir, [&](const fs::directory_entry& entry) {
      const auto status = is_torn_name(entry.path()) ? store::stat_of(entry.path()) : std::nullopt;
      if (status && store::unix_ms() - status->st_mtim.tv_sec * 1000 > options_.torn_kept_ms)
        old.push_back(entry.path());
    });
    std::error_code ignored;
    for (const fs::path& path : old) fs::remove(path, ignored);
  }

  Result<void> look_at(const SegmentName& name, std::uint64_t until, Findings& findings) {
    const bool last = until == open_end;
    Segment segment{.name = name, .path = options_.dir / to_string(name), .next = name.first};
    if (const auto status = store::stat_of(segment.path); !status || !S_ISREG(status->st_mode)) {
      findings.obstacles.push_back(name);
      findings.end_lost = findings.end_lost || last;
      return {};
    }
    if (last) {
      std::error_code ignored;  // it would not fit once the segment grows
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
    TRY(const auto file, store::open_file(segment.path, O_RDWR));
    TRY(settle(file.get(), segment.path));
    TRY(auto scan, scan_segment(file.get(), segment.path.native(), name.first, until));
    if (last && scan.torn_only()) {
      TRY(const auto cut, cut_torn(file.get(), segment.path, scan.damages.front()));
      report_.repairs.push_back(cut);
      scan.damages.clear();
    }
    if (!scan.damages.empty() && can_wait(scan, last, until)) {
      for (const Damage& damage : scan.damages) findings.tolerated.push_back(damaged_at(segment.path, damage.offset));
      take_runs(segment, scan);
      if (!last) segment.next = until;
      add(std::move(segment), findings);
      return {};
    }
    if (!scan.damages.empty()) {
      for (const Run& run : scan.runs)
        add({.name = {.first = run.first}, .path = segment.path, .next = run.next}, findings);
      findings.damaged.push_back({.name = name, .last = last, .scan = std::move(scan)});
      return {};
    }
    take_run(segment, scan);
    if (!last) save_rebuilt(segment);
    add(std::move(segment), findings);
    return {};
  }

  // Whether recovery can do without the damaged batches: they end before `needed_from`, as the next good batch shows.
  bool can_wait(const Scan& scan, bool last, std::uint64_t until) const {
    if (options_.repair) return false;
    return std::ranges::all_of(scan.damages, [&](const Damage& damage) {
      const auto behind = std::ranges::find_if(scan.runs, [&](const Run& run) { return run.offset >= damage.end; });
      if (behind == scan.runs.end()) return !last && until <= options_.needed_from;
      return behind->first <= options_.needed_from;
    });
  }

  // Keeps the damage between the runs; readers skip it.
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

  bool can_wait(const Epoch::Hole& hole) const { return !options_.repair && hole.to <= options_.needed_from; }
  // Whether the journal can be used as it is. Without `repair` it may miss events that recovery does not need, but not
  // its end: how many events that had is unknown.
  bool sound(Findings& findings) const {
    if (!findings.damaged.empty() || (options_.repair && !findings.obstacles.empty())) return false;
    std::vector<std::string> missing;
    for (const Epoch::Hole& hole : findings.holes) {
      if (epoch_.accepts(hole)) continue;
      if (findings.end_lost || !can_wait(hole)) return false;
      missing.push_back(describe(hole, findings));
    }
    if (findings.end_lost && !findings.obstacles.empty()) return false;
    for (const SegmentName& name : findings.obstacles)
      missing.push_back(fmt::format("{} is not a file", (options_.dir / to_string(name)).native()));
    std::ranges::move(missing, std::back_inserter(findings.tolerated));
    return true;
  }

  // Names the file that an operator should look at: the one that ends too early, or the one that is missing.
  std::string describe(const Epoch::Hole& hole, const Findings& findings) const {
    const auto before = std::ranges::find(findings.segments, hole.from, &Segment::next);
    const bool cut = before != findings.segments.end() && before->name.first < hole.from;
    const fs::path gone = options_.dir / to_string({.first = hole.from, .turn = 0});
    return fmt::format("seqs {} to {} are missing: {} is gone or empty{}", hole.from, hole.to - 1, gone.native(),
                       cut ? ", or the end of " + before->path.native() + " is" : "");
  }

  std::string describe(const Findings& findings) const {
    std::vector<std::string> all;
    all.reserve(findings.damaged.size() + findings.obstacles.size() + findings.holes.size());
    for (const DamagedSegment& damaged : findings.damaged)
      all.push_back(damaged_at(options_.dir / to_string(damaged.name), damaged.scan.damages.front().offset));
    for (const SegmentName& name : findings.obstacles)
      all.push_back(fmt::format("{} is not a file", (options_.dir / to_string(name)).native()));
    for (const Epoch::Hole& hole : findings.holes)
      if (!epoch_.accepts(hole)) all.push_back(describe(hole, findings));
    return fmt::format("{}; start with --repair to continue without the lost events", fmt::join(all, "; "));
  }

  // Saves the new epoch and the holes first: a repair that is killed is done again under yet another epoch.
  Result<void> repair(const Findings& findings) {
    epoch_ = {.epoch = mint_epoch(), .holes = findings.holes};
    TRY(save_epoch(options_.dir, epoch_));
    store::fault_point("repair.epoch");
    for (const SegmentName& name : findings.obstacles) {
      TRY(const auto aside, store::put_aside(options_.dir / to_string(name)));
      report_.repairs.push_back(
          fmt::format("{} was not a file; moved to {}", to_string(name), aside.filename().native()));
    }
    for (const DamagedSegment& damaged : findings.damaged) {
      TRY(auto done, repair_segment(options_.dir, damaged));
      report_.repairs.push_back(std::move(done));
    }
    if (!findings.holes.empty() && findings.holes.back().to == options_.least_head + 1) {
      const fs::path path = options_.dir / to_string({.first = options_.least_head + 1, .turn = 0});
      TRY(const auto made, store::open_file(path, O_RDWR | O_CREAT));
      TRY(store::sync_dir(options_.dir));
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

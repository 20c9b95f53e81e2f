#include "store/journal_recovery.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "store/fault_point.hpp"
#include "store/files.hpp"

namespace sessiond::journal {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t open_end = std::numeric_limits<std::uint64_t>::max();

struct Findings {
  std::vector<Segment> segments{};
  std::vector<DamagedSegment> damaged{};
  std::vector<Epoch::Hole> holes{};  // between what is readable
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

class Recovery {
 public:
  explicit Recovery(const JournalOptions& options) : options_(options) {}

  Result<Recovered> run() {
    if (auto made = make_dirs(options_.dir); !made) return std::unexpected(made.error());
    const auto epoch = load_epoch(options_.dir);
    auto names = list_segments(options_.dir);
    if (!names) return std::unexpected(names.error());
    if (names->empty()) return create();
    epoch_ = epoch.value_or(Epoch{});
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
      if (sound(*findings))
        return Recovered{
            .segments = std::move(findings->segments), .epoch = epoch_.epoch, .report = std::move(report_)};
      if (!options_.repair) return fail(Code::degraded, describe(*findings));
      if (auto repaired = repair(*findings); !repaired) return std::unexpected(repaired.error());
    }
    return fail(Code::degraded, "the journal is damaged again after each repair");
  }

 private:
  // Nothing there: a new journal, or one that was lost. Either way what is written from now on is another history.
  Result<Recovered> create() {
    report_.created = true;
    const Epoch fresh{.epoch = mint_epoch()};
    if (auto saved = save_epoch(options_.dir, fresh); !saved) return std::unexpected(saved.error());
    return Recovered{.epoch = fresh.epoch, .report = std::move(report_)};
  }

  Result<Findings> look() {
    auto names = list_segments(options_.dir);
    if (!names) return std::unexpected(names.error());
    remove_void(*names);
    Findings findings;
    for (std::size_t i = 0; i < names->size(); ++i) {
      const bool last = i + 1 == names->size();
      const auto looked = look_at((*names)[i], last ? open_end : (*names)[i + 1].first, findings);
      if (!looked) return std::unexpected(looked.error());
    }
    // Its seqs are in files and in readers' hands: they are not given out again.
    if (const std::uint64_t next = findings.segments.empty() ? 0 : findings.segments.back().next;
        next != 0 && next <= options_.least_head)
      findings.holes.push_back({.from = next, .to = options_.least_head + 1});
    for (std::size_t i = 0; i + indexes_kept < findings.segments.size(); ++i) findings.segments[i].index.reset();
    return findings;
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
    if (last) {
      std::error_code ignored;  // an index of what will be written on; it would not fit and be made again
      fs::remove(index_path(segment.path), ignored);
    } else {
      if (auto sealed = fitting_index(segment.path, name.first, until)) {
        segment.next = sealed->next;
        segment.end = sealed->end;
        segment.index = std::move(sealed->index);
        add(std::move(segment), findings);
        return {};
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

  bool known(const Epoch::Hole& hole) const { return std::ranges::find(epoch_.holes, hole) != epoch_.holes.end(); }
  bool sound(const Findings& findings) const {
    return findings.damaged.empty() &&
           std::ranges::all_of(findings.holes, [&](const auto& hole) { return known(hole); });
  }

  std::string describe(const Findings& findings) const {
    std::string text;
    for (const DamagedSegment& damaged : findings.damaged)
      text += fmt::format("{}{} is damaged at offset {}", text.empty() ? "" : "; ",
                          (options_.dir / to_string(damaged.name)).native(), damaged.scan.damages.front().offset);
    for (const Epoch::Hole& hole : findings.holes)
      if (!known(hole))
        text += fmt::format("{}seqs {} to {} are missing in {}", text.empty() ? "" : "; ", hole.from, hole.to - 1,
                            options_.dir.native());
    return text + "; start with --repair to go on without what is lost";
  }

  // The new epoch and the holes come first: interrupted, the repair is made again under one more epoch.
  Result<void> repair(const Findings& findings) {
    epoch_ = {.epoch = mint_epoch(), .holes = findings.holes};
    if (auto saved = save_epoch(options_.dir, epoch_); !saved) return saved;
    fault_point("repair.epoch");
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

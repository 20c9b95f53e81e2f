#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <system_error>

#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/journal/recovery.hpp"
#include "store/try.hpp"

namespace sessiond::journal {
namespace fs = std::filesystem;
namespace {

Result<void> truncate_to(int fd, const fs::path& path, std::uint64_t end) {
  if (::ftruncate(fd, static_cast<off_t>(end)) != 0) return io_fail("truncate", path.native());
  return store::sync_file(fd, path);
}

Result<fs::path> copy_aside(int fd, const fs::path& segment, std::string_view kind, std::span<const Damage> damages) {
  fs::path target = segment;
  target += fmt::format(".{}.{}", kind, store::time_for_names());
  TRY(const auto file, store::open_file(target, O_WRONLY | O_CREAT | O_APPEND));
  for (const Damage& damage : damages)
    TRY(store::copy_range(fd, segment, damage.offset, damage.end, file.get(), target));
  TRY(store::sync_file(file.get(), target));
  TRY(store::sync_dir(segment.parent_path()));
  return target;
}

// Copies a run to a segment of its own, which appears whole or not at all. Replaces one that a killed repair left.
Result<void> split_off(int fd, const fs::path& segment, const Run& run) {
  const fs::path target = segment.parent_path() / to_string({.first = run.first, .turn = 0});
  fs::path temp = target;
  temp += ".tmp";
  TRY(const auto file, store::open_file(temp, O_WRONLY | O_CREAT | O_TRUNC));
  TRY(store::copy_range(fd, segment, run.offset, run.end, file.get(), temp));
  TRY(store::sync_file(file.get(), temp));
  if (::rename(temp.c_str(), target.c_str()) != 0) return io_fail("rename", temp.native());
  return store::sync_dir(segment.parent_path());
}

std::string describe(const DamagedSegment& damaged) {
  std::string text;
  for (const Damage& damage : damaged.scan.damages)
    text += fmt::format("{}bytes {}..{}", text.empty() ? "" : ", ", damage.offset, damage.end);
  std::string kept;
  for (const Run& run : damaged.scan.runs)
    if (run.next > run.first) kept += fmt::format("{}{}..{}", kept.empty() ? "" : ", ", run.first, run.next - 1);
  return fmt::format("{} damaged ({}); kept seqs {}", to_string(damaged.name), text, kept.empty() ? "none" : kept);
}

}  // namespace

Result<std::string> cut_torn(int fd, const fs::path& segment, const Damage& torn) {
  const auto aside = copy_aside(fd, segment, "torn", {&torn, 1});
  // A torn batch was never told as durable: a disk without room for its copy must not keep the daemon from starting.
  if (!aside && aside.error().code != Code::storage_full) return std::unexpected(aside.error());
  store::fault_point("torn.kept");
  TRY(truncate_to(fd, segment, torn.offset));
  store::fault_point("torn.cut");
  return fmt::format("{} ended in a torn batch at offset {} ({} bytes), {}", segment.filename().native(), torn.offset,
                     torn.end - torn.offset,
                     aside ? "cut off into " + aside->filename().native() : "cut off; no room to keep it");
}

Result<std::string> repair_segment(const fs::path& dir, const DamagedSegment& damaged) {
  const fs::path segment = dir / to_string(damaged.name);
  TRY(const auto file, store::open_file(segment, O_RDWR));
  TRY(const auto aside, copy_aside(file.get(), segment, "damaged", damaged.scan.damages));

  store::fault_point("repair.kept");
  const auto& runs = damaged.scan.runs;
  const bool starts_good = !runs.empty() && runs.front().offset == 0;
  for (std::size_t i = starts_good ? 1 : 0; i < runs.size(); ++i) {
    TRY(split_off(file.get(), segment, runs[i]));
    store::fault_point("repair.split");
  }

  std::error_code ignored;  // if it stays, it does not fit the segment any more and is made again
  fs::remove(index_path(segment), ignored);
  const bool name_reused =
      !starts_good && !runs.empty() && runs.front().first == damaged.name.first && damaged.name.turn == 0;
  if (starts_good || (runs.empty() && damaged.last)) {
    // The last segment keeps its name even when it is empty, so that no seq before it is assigned again.
    TRY(truncate_to(file.get(), segment, starts_good ? runs.front().end : 0));
  } else if (!name_reused) {
    if (::unlink(segment.c_str()) != 0) return io_fail("remove", segment.native());
    TRY(store::sync_dir(dir));
  }
  store::fault_point("repair.cut");
  return fmt::format("{}; the damage is in {}", describe(damaged), aside.filename().native());
}

}  // namespace sessiond::journal

#include "daemon/doctor/doctor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "daemon/doctor/examination.hpp"
#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"

namespace sessiond::doctor {

namespace fs = std::filesystem;

namespace {

mode_t wanted_mode(mode_t mode) { return (mode & 0700) | (S_ISDIR(mode) ? 0700U : 0600U); }

}  // namespace

void Examination::fault(Finding finding, const Mend& mend) {
  if (!repair) return report.add(std::move(finding));
  auto step = mend();
  if (step) {
    step->action = std::move(finding.check);
    report.step(std::move(*step));
  } else {
    report.error("repair", finding.path, fmt::format("{}; not repaired: {}", finding.detail, step.error().detail),
                 finding.advice);
  }
}

Result<fs::path> Examination::place_to_keep(const fs::path& path) {
  if (kept_.empty()) kept_ = paths.journal_dir() / "kept" / store::time_for_names();
  fs::path to = kept_ / ledger::relative(paths, path);
  TRY(store::make_dirs(to.parent_path()));
  return to;
}

Result<fs::path> Examination::put_away(const fs::path& path) {
  TRY(auto to, place_to_keep(path));
  TRY(sessions::move_file(path, to));
  const auto status = store::stat_of(to);
  const bool plain = status && (S_ISREG(status->st_mode) || S_ISDIR(status->st_mode));
  if (plain && ::chmod(to.c_str(), S_ISDIR(status->st_mode) ? 0700 : 0600) != 0) return io_fail("chmod", to.native());
  for (const fs::path& dir : {to.parent_path(), path.parent_path()}) TRY(store::sync_dir(dir));
  return to;
}

Result<Step> Examination::move_away(const fs::path& path) {
  TRY(const auto kept, put_away(path));
  return Step{.path = path.native(), .detail = "moved away", .kept = kept.native()};
}

Result<fs::path> Examination::keep_copy(const fs::path& path) {
  TRY(auto to, place_to_keep(path));
  TRY(store::keep_copy(path, to));
  return to;
}

void Examination::note_names(std::string_view text, policy::NamedBy by, const fs::path& file) {
  policy::names_in(text, by, [&](std::string_view hash) {
    if (!named_blobs.contains(hash)) named_blobs.emplace(hash, file);
  });
}

void ModeCheck::look(const fs::path& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return;
  const mode_t mode = status.st_mode & 0777;
  if (mode != wanted_mode(status.st_mode)) wrong_.push_back({.path = path, .mode = mode});
  if ((mode & 0077) != 0) ++open_;
  if (status.st_uid != exam_.owner && foreign_++ == 0)
    foreign_example_ =
        fmt::format("{} (uid {}, the state directory has uid {})", path.native(), status.st_uid, exam_.owner);
}

Result<Step> ModeCheck::correct(const fs::path& dir) const {
  for (const Wrong& each : wrong_) {
    const auto status = store::stat_of(each.path);
    if (!status || S_ISLNK(status->st_mode)) continue;
    if (::chmod(each.path.c_str(), wanted_mode(status->st_mode)) != 0) return io_fail("chmod", each.path.native());
  }
  return Step{.path = dir.native(),
              .detail = fmt::format("{} file{} restricted to their owner (0600, directories 0700), e.g. {} ({:04o})",
                                    wrong_.size(), wrong_.size() == 1 ? "" : "s", wrong_.front().path.native(),
                                    wrong_.front().mode)};
}

void ModeCheck::tell(const fs::path& dir) {
  if (!wrong_.empty()) {
    const Wrong& first = wrong_.front();
    exam_.fault({Level::warning, "modes", dir.native(),
                 fmt::format("{} file{} can be {}, e.g. {} ({:04o})", wrong_.size(), wrong_.size() == 1 ? "" : "s",
                             open_ > 0 ? "reached by other users" : "read only by their owner", first.path.native(),
                             first.mode),
                 fmt::format("chmod -R u=rwX,go= {}; or doctor --repair", dir.native())},
                [&] { return correct(dir); });
  }
  if (foreign_ > 0)
    exam_.report.warning(
        "owner", dir.native(),
        fmt::format("{} file{} of another user, e.g. {}", foreign_, foreign_ == 1 ? " is" : "s are", foreign_example_),
        "give them to the user that the daemon runs as (chown)");
}

std::vector<Listed> list_dir(Examination& exam, std::string_view check, const fs::path& dir) {
  std::vector<Listed> listed;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    Listed entry{.name = it->path().filename().native()};
    if (::lstat(it->path().c_str(), &entry.status) == 0) listed.push_back(std::move(entry));
  }
  if (error && error != std::errc::no_such_file_or_directory)
    exam.report.error(check, dir.native(), fmt::format("cannot be read: {}", error.message()),
                      "run the doctor as the user that the daemon runs as; check the disk");
  std::ranges::sort(listed, {}, &Listed::name);
  return listed;
}

std::string in_bytes(std::uint64_t bytes) {
  constexpr std::string_view units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double number = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < std::size(units); ++unit) number /= 1024;
  return fmt::format("{:.1f} {}", number, units[unit]);
}

std::string in_time(std::int64_t ms) {
  if (ms < 1000) return fmt::format("{} ms", ms);
  if (ms < 120'000) return fmt::format("{} s", ms / 1000);
  if (ms < 7'200'000) return fmt::format("{} min", ms / 60'000);
  if (ms < 172'800'000) return fmt::format("{} h", ms / 3'600'000);
  return fmt::format("{} days", ms / 86'400'000);
}

std::int64_t age_ms(const struct stat& status) {
  return std::max<std::int64_t>(0,
                                store::unix_ms() - (status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000));
}

void examine(Examination& exam) {
  if (check_place(exam)) {
    check_tokens(exam);
    check_journal(exam);
    check_agents(exam);
    check_blobs(exam);
    check_search(exam);
    check_encryption(exam);
    check_gateways(exam);
  }
  if (exam.cancelled())
    exam.report.warning("doctor", "", "the examination was interrupted: some checks were not made", "run it again");
}

Report run_doctor(const DoctorOptions& options) {
  Examination exam(options);
  examine(exam);
  return std::move(exam.report);
}

}  // namespace sessiond::doctor

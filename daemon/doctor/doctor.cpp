#include "daemon/doctor/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "daemon/doctor/examination.hpp"

namespace sessiond {
namespace doctor {

namespace fs = std::filesystem;

void ModeCheck::look(const fs::path& path, const struct stat& status, uid_t owner) {
  if ((status.st_mode & 0077) != 0 && open_++ == 0)
    open_example_ = fmt::format("{} ({:04o})", path.native(), status.st_mode & 07777);
  if (status.st_uid != owner && foreign_++ == 0)
    foreign_example_ = fmt::format("{} (uid {}, the state directory has uid {})", path.native(), status.st_uid, owner);
}

void ModeCheck::tell(Report& report, const fs::path& dir) const {
  if (open_ > 0)
    report.warning(
        "modes", dir.native(),
        fmt::format("{} file{} can be reached by other users, e.g. {}", open_, open_ == 1 ? "" : "s", open_example_),
        fmt::format("chmod -R go= {}", dir.native()));
  if (foreign_ > 0)
    report.warning(
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
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return std::max<std::int64_t>(0, now_ms - (status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000));
}

}  // namespace doctor

Report run_doctor(const DoctorOptions& options) {
  doctor::Examination exam(options);
  if (doctor::check_place(exam)) {
    doctor::check_tokens(exam);
    doctor::check_journal(exam);
    doctor::check_agents(exam);
  }
  if (exam.cancelled())
    exam.report.warning("doctor", "", "the examination was broken off: not everything was looked at", "run it again");
  return std::move(exam.report);
}

}  // namespace sessiond

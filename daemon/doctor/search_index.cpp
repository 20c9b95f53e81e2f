// Checks the folder of the search's index (daemon/search/README.md). The index itself is made anew when it is damaged,
// so nothing in it is repaired here. An index that search.path has elsewhere is not looked at.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "daemon/doctor/examination.hpp"
#include "store/files.hpp"

namespace sessiond::doctor {
namespace {

constexpr std::string_view magic = "SQLite format 3";

bool is_database(const std::filesystem::path& path) {
  const auto fd = store::open_file(path, O_RDONLY | O_NONBLOCK);
  if (!fd) return false;
  std::array<char, magic.size()> head{};
  const ssize_t read = ::read(fd->get(), head.data(), head.size());
  return read >= 0 && std::string_view(head.data(), static_cast<std::size_t>(read)) == magic;
}

}  // namespace

void check_search(Examination& exam) {
  const std::filesystem::path dir = exam.options.state_dir / "search";
  const auto status = store::stat_of(dir);
  if (!status) return;
  if (!S_ISDIR(status->st_mode)) {
    exam.fault({Level::error, "search", dir.native(), "is no folder, so nothing that was said can be searched",
                fmt::format("run: mv '{0}' '{0}.damaged'; or doctor --repair", dir.native())},
               [&] { return exam.move_away(dir); });
    return;
  }
  ModeCheck modes(exam);
  modes.look(dir, *status);
  std::uint64_t bytes = 0;
  bool sound = true;
  for (const Listed& file : list_dir(exam, "search", dir)) {
    const std::filesystem::path path = dir / file.name;
    modes.look(path, file.status);
    if (check_kind(exam, path, file.status)) {
      sound = false;
      continue;
    }
    bytes += static_cast<std::uint64_t>(file.status.st_size);
    const bool of_sqlite =
        file.name.ends_with("-wal") || file.name.ends_with("-shm") || file.name.ends_with("-journal");
    if (of_sqlite || file.status.st_size == 0) continue;
    if (is_database(path)) continue;
    sound = false;
    exam.report.warning("search", path.native(), "is damaged", "nothing to do: the daemon makes it anew");
  }
  modes.tell(dir);
  if (sound) exam.report.ok("search", dir.native(), fmt::format("an index of {}", in_bytes(bytes)));
}

}  // namespace sessiond::doctor

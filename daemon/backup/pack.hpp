// A cut as a tar archive, made piece by piece: what is held is one piece and the list of files, whatever their sizes.
// The same for the daemon's reply, for a backup without a daemon, and for a backup directory that is restored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "daemon/backup/manifest.hpp"
#include "daemon/ledger/state_cut.hpp"
#include "store/files.hpp"

namespace sessiond {

class Packer {
 public:
  // The archive ends with a manifest of what was read, made at `now` (ms since the epoch).
  Packer(StateCut cut, const std::string& path_template, std::int64_t now);
  // A backup's own files, its manifest among them.
  explicit Packer(StateCut cut);

  // The next bytes, about 1 MiB; none at the end. Blocks. A file that is shorter than when it was cut is a problem, and
  // the archive is not to be ended.
  Result<std::string> next();

 private:
  void open_folders(std::string& out, const std::string& name);
  Result<void> pack(std::string& out);  // more of the file that is at turn
  void end(std::string& out);

  StateCut cut_;
  std::optional<Manifest> manifest_{};
  std::set<std::string, std::less<>> folders_{};
  std::size_t at_ = 0;  // in cut_.files
  Fd fd_{};             // of that file, once it is begun
  std::uint64_t offset_ = 0;
  std::uint32_t crc_ = 0;
  bool ended_ = false;
};

// All files of a backup directory; symbolic links and whatever else is no file are a problem.
Result<StateCut> cut_of_backup(const std::filesystem::path& dir);

}  // namespace sessiond

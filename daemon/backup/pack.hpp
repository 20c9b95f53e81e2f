// Makes a tar archive of a snapshot, piece by piece: memory holds one piece and the list of files. Used for the
// daemon's reply, for a backup without a daemon, and to read a backup directory that is restored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "daemon/backup/manifest.hpp"
#include "daemon/ledger/snapshot.hpp"
#include "store/files.hpp"

namespace sessiond::backup {

class Packer {
 public:
  // The archive will end with a manifest of the files as they were read. `now`: ms since the epoch.
  Packer(ledger::StateSnapshot cut, const std::string& path_template, std::int64_t now);
  // For the files of a backup, which have a manifest already.
  explicit Packer(ledger::StateSnapshot cut);

  // Returns the next bytes, about 1 MiB; "" at the end. Blocks. Fails when a file is shorter than it was in the
  // snapshot: the archive then stays without its end.
  Result<std::string> next();
  // Passes all bytes to `take`, piece by piece.
  Result<void> pack_all(const std::function<Result<void>(std::string_view)>& take);

 private:
  void open_folders(std::string& out, const std::string& name);
  Result<void> pack(std::string& out);  // the next piece of the current file
  void end(std::string& out);

  ledger::StateSnapshot cut_;
  std::optional<Manifest> manifest_{};
  std::set<std::string, std::less<>> folders_{};
  std::size_t at_ = 0;  // in cut_.files
  store::Fd fd_{};      // the current file, once it is open
  std::uint64_t offset_ = 0;
  std::uint32_t crc_ = 0;
  bool ended_ = false;
};

// Returns all files of a backup directory. Fails on symbolic links and anything else that is not a regular file.
Result<ledger::StateSnapshot> cut_of_backup(const std::filesystem::path& dir);

}  // namespace sessiond::backup

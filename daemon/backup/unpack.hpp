// A backup's archive, looked at as it comes and, where a directory is given, unpacked there: files 0600, folders 0700,
// with their times. Whatever cuts it short or changes a byte of it is found by its manifest (manifest.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "daemon/backup/manifest.hpp"
#include "daemon/backup/tar.hpp"
#include "store/files.hpp"

namespace sessiond {

class Unpacker {
 public:
  // `dir` is there and empty, and whoever may write it is trusted. Empty: nothing is written.
  explicit Unpacker(std::filesystem::path dir = {});

  // The next bytes of the archive. validation_failed: it is none, or a hostile one.
  Result<void> feed(std::string_view bytes);
  // After the last: everything the manifest names is there as it says, and nothing else; what was written is on disk,
  // but for the manifest itself: whoever makes a backup writes that last. validation_failed otherwise.
  Result<Manifest> finish();
  const std::string& manifest_text() const { return manifest_; }  // as it came
  // Where the state lies in `dir`: in it, or, of an archive of a backup directory (tar c backup-1), one below.
  const std::filesystem::path& root() const { return root_; }

 private:
  Result<void> start(const TarMember& member);
  Result<void> take(std::string_view bytes);
  Result<void> close_file();
  Result<void> check(const Manifest& manifest, const std::string& prefix) const;

  std::filesystem::path dir_;
  std::filesystem::path root_;
  TarReader reader_;
  std::set<std::filesystem::path> made_{};
  std::map<std::string, Manifest::File, std::less<>> files_{};
  std::string name_{};  // of the file that comes; empty: none
  bool is_manifest_ = false;
  Fd fd_{};
  std::int64_t mtime_ = 0;
  Manifest::File file_{};
  std::string manifest_{};
  std::string manifest_at_{};  // its name in the archive
};

}  // namespace sessiond

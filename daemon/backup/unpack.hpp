// Checks a backup's archive as its bytes come, and unpacks it if a directory is given: files with mode 0600, folders
// with 0700, with their times. The manifest (manifest.hpp) reveals an archive that is cut short or has a changed byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "daemon/backup/manifest.hpp"
#include "daemon/backup/tar.hpp"
#include "store/files.hpp"

namespace sessiond::backup {

class Unpacker {
 public:
  // `dir` exists, is empty, and can be written only by trusted users. An empty path: only checks, writes nothing.
  explicit Unpacker(std::filesystem::path dir = {});

  // Takes the next bytes of the archive. Errors: validation_failed when it is no archive or is refused (tar.hpp).
  Result<void> feed(std::string_view bytes);
  // Call it after the last bytes. Checks that the files are those of the manifest, and syncs them to disk. Does not
  // write the manifest itself: the caller of a backup writes it last. Errors: validation_failed.
  Result<Manifest> finish();
  const std::string& manifest_text() const { return manifest_; }  // as it is in the archive
  // The folder that has the state: `dir`, or one folder below when the archive is of a backup directory (tar c
  // backup-1).
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
  std::string name_{};  // of the file whose bytes come; empty between files
  bool is_manifest_ = false;
  store::Fd fd_{};
  std::int64_t mtime_ = 0;
  Manifest::File file_{};
  std::string manifest_{};
  std::string manifest_at_{};  // its name in the archive
};

// Syncs the whole file system that has `dir`: an fsync of each of a hundred thousand transcripts would take minutes.
Result<void> sync_file_system(const std::filesystem::path& dir);

}  // namespace sessiond::backup

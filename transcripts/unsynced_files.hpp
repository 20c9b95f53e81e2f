// Keeps what was written to transcripts since their last fsync.
//
// After a failed fsync the kernel may have dropped the written pages, and the next fsync succeeds although they are
// lost. So the bytes are kept in memory until an fsync succeeded; if one failed, they are written again before the next
// one. Only bytes of ours are written again: a file that a foreign program replaced, cut or wrote over is left as it
// is. One thread at a time; blocks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::transcripts {

class UnsyncedFiles {
 public:
  struct Written {
    struct Piece {
      std::uint64_t offset = 0;
      std::string bytes;
    };
    dev_t device = 0;
    ino_t inode = 0;
    std::vector<Piece> pieces{};
    bool lost = false;  // an fsync failed
  };
  explicit UnsyncedFiles(std::filesystem::path state_dir) : state_dir_(std::move(state_dir)) {}

  // Returns what was written to this file (a path below the state directory), for the caller to add to. Forgets what
  // was written to another file of that name.
  Written& written(const std::string& file, dev_t device, ino_t inode);
  // Remembers a folder in which a file was made: its entry has to be synced, too.
  void add_folder(std::filesystem::path folder) { folders_.insert(std::move(folder)); }

  // Returns the descriptor of a file if it is open, else -1.
  using Descriptor = std::function<int(const std::string& file)>;
  // Syncs one file; does nothing if nothing was written to it.
  Result<void> sync(std::string_view file, const Descriptor& descriptor);
  // Syncs all files and folders. Returns the first problem; what could not be synced is tried again next time.
  Result<void> sync(const Descriptor& descriptor);

 private:
  Result<void> sync_one(const std::string& file, Written& written, const Descriptor& descriptor) const;

  std::filesystem::path state_dir_;
  std::map<std::string, Written, std::less<>> files_;
  std::set<std::filesystem::path> folders_;
};

}  // namespace sessiond::transcripts

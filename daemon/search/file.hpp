// The file of the index. It is removed at will, so it must never be another program's: outside of its own folder only a
// file with the marks of an index is touched. Blocks. The index's thread.
#pragma once

#include <cstdint>
#include <filesystem>

#include "store/problem.hpp"

namespace sessiond::search {

class IndexFile {
 public:
  // `own_folder`: whatever lies at `path` belongs to the daemon.
  IndexFile(std::filesystem::path path, bool own_folder) : path_(std::move(path)), own_folder_(own_folder) {}

  enum class Content : std::uint8_t { none, some };
  // Makes the file where there is none, readable by nobody else, and its folder. degraded: something else lies there,
  // or it cannot be made.
  Result<Content> prepare();
  bool is_there() const;  // it is still the file that prepare() found or made
  // Returns whether its disk has more than 256 MiB left, or a quarter of a small one. What is left then is for the
  // store.
  bool has_room() const;
  // Removes it with what SQLite has beside it. What is not ours stays.
  void remove();

 private:
  std::filesystem::path beside(const char* suffix) const;
  void remove_beside();

  std::filesystem::path path_;
  bool own_folder_;
  std::uint64_t inode_ = 0;  // of the file that prepare() saw
};

}  // namespace sessiond::search

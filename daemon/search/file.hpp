// The file of the index. It is removed at will, so it must never be another program's: outside of its own folder only a
// file with the marks of an index is touched. Blocks. The index's thread.
#pragma once

#include <array>
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
  // Notes that the index has opened the files: others in their places are not its own.
  void note_opened();
  // Notes how they look: what is changed by now, the index has changed.
  void note();
  // The same of what is written ahead. The index itself must look as it was noted: only a checkpoint changes it.
  void note_wal();
  std::uint64_t noted_bytes() const { return static_cast<std::uint64_t>(noted_.front().size); }
  // Returns whether they are the prepared and opened ones, and look as they were noted. What others write while the
  // index does may be missed.
  bool is_untouched() const;
  // Returns whether its disk has more than 256 MiB left, or a quarter of a small one. What is left then is for the
  // store.
  bool has_room() const;
  // Removes it with what SQLite has beside it. What is not ours stays.
  void remove();

 private:
  // How a file looks from outside.
  struct Look {
    std::uint64_t inode = 0;
    std::int64_t size = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Look&) const = default;
  };
  using Looks = std::array<Look, 2>;  // the index, and what is written ahead

  std::filesystem::path beside(const char* suffix) const;
  bool is_there() const;  // it is still the file that prepare() found or made
  Looks look() const;
  void remove_beside();

  std::filesystem::path path_;
  bool own_folder_;
  std::uint64_t inode_ = 0;  // of the file that prepare() saw
  Looks opened_{}, noted_{};
};

}  // namespace sessiond::search

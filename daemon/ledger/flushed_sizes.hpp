// The size of each transcript after our last flush of it; not known once a foreign program wrote to it. The strand that
// writes sets it; the loop compares it with the file before it decides on an append, and when inotify tells that the
// file changed. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/decide/string_map.hpp"

namespace sessiond::ledger {

class FlushedSizes {
 public:
  // `path` is below the state directory; no size: it is not known. `inode`: the file's, when every line of it is ours
  // or published; else 0.
  void set(std::string_view path, std::optional<std::uint64_t> size, std::uint64_t inode = 0) {
    const std::size_t name = path.find_last_of('/') + 1;
    const std::lock_guard guard(mutex_);
    auto& files = sizes_[std::string(path.substr(0, name))];
    const auto known = files.find(path.substr(name));
    if (!size) {
      if (known != files.end()) files.erase(known);
    } else if (known != files.end()) {
      known->second = {*size, inode};
    } else {
      files.emplace(path.substr(name), Flushed{*size, inode});
    }
  }
  std::optional<std::uint64_t> find(std::string_view path) const {
    const auto flushed = find_flushed(path);
    return flushed ? std::optional(flushed->size) : std::nullopt;
  }
  // Tells whether a file with this inode and size is as our last flush left it, and has no line that is unknown.
  bool is_known(std::string_view path, std::uint64_t inode, std::uint64_t size) const {
    const auto flushed = find_flushed(path);
    return flushed && inode != 0 && flushed->inode == inode && flushed->size == size;
  }
  void forget_folder(const std::string& folder) {
    const std::lock_guard guard(mutex_);
    sizes_.erase(folder);
  }

 private:
  struct Flushed {
    std::uint64_t size = 0;
    std::uint64_t inode = 0;
  };
  std::optional<Flushed> find_flushed(std::string_view path) const {
    const std::size_t name = path.find_last_of('/') + 1;
    const std::lock_guard guard(mutex_);
    const auto files = sizes_.find(path.substr(0, name));
    if (files == sizes_.end()) return {};
    const auto file = files->second.find(path.substr(name));
    return file == files->second.end() ? std::nullopt : std::optional(file->second);
  }

  mutable std::mutex mutex_;
  std::map<std::string, decide::StringMap<Flushed>, std::less<>> sizes_{};  // by folder, name
};

}  // namespace sessiond::ledger

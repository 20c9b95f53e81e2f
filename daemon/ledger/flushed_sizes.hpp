// The size of each transcript after our last flush of it; not known once a foreign program wrote to it. The strand that
// writes sets it; the loop compares it with the file before it decides on an append. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sessiond::ledger {

class FlushedSizes {
 public:
  // `path` is below the state directory; no size: it is not known.
  void set(std::string_view path, std::optional<std::uint64_t> size) {
    const std::size_t name = path.find_last_of('/') + 1;
    const std::lock_guard guard(mutex_);
    auto& files = sizes_[std::string(path.substr(0, name))];
    if (size) {
      files[std::string(path.substr(name))] = *size;
    } else {
      files.erase(std::string(path.substr(name)));
    }
  }
  std::optional<std::uint64_t> find(std::string_view path) const {
    const std::size_t name = path.find_last_of('/') + 1;
    const std::lock_guard guard(mutex_);
    const auto files = sizes_.find(path.substr(0, name));
    if (files == sizes_.end()) return {};
    const auto file = files->second.find(std::string(path.substr(name)));
    return file == files->second.end() ? std::nullopt : std::optional(file->second);
  }
  void forget_folder(const std::string& folder) {
    const std::lock_guard guard(mutex_);
    sizes_.erase(folder);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unordered_map<std::string, std::uint64_t>, std::less<>> sizes_{};  // by folder, name
};

}  // namespace sessiond::ledger

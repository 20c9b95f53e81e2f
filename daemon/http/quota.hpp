// Counts how many slots each key holds, so that one key cannot take more than a limit. Any thread may take and return
// slots, also after the quota is gone.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace sessiond::http {

template <class Key>
class Quota {
 public:
  using Slot = std::shared_ptr<void>;

  // Returns a slot, or nothing when `limit` slots (0: no limit) of this key are taken. The slot is returned when its
  // last copy is destroyed.
  std::optional<Slot> take(const Key& key, std::size_t limit) {
    {
      const std::lock_guard guard(held_->mutex);
      std::size_t& count = held_->counts[key];
      if (limit != 0 && count >= limit) return std::nullopt;
      ++count;
    }
    return Slot(held_.get(), [held = held_, key](void*) {
      const std::lock_guard guard(held->mutex);
      const auto at = held->counts.find(key);
      if (--at->second == 0) held->counts.erase(at);
    });
  }

 private:
  struct Held {
    std::mutex mutex{};
    std::map<Key, std::size_t> counts{};
  };
  std::shared_ptr<Held> held_ = std::make_shared<Held>();
};

}  // namespace sessiond::http

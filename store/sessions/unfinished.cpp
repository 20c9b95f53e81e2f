#include "store/sessions/unfinished.hpp"

#include "store/sessions/disk.hpp"

namespace sessiond::sessions {

void Unfinished::saw(const StoreRead& read, Clock::time_point now) {
  const store::FileIdentity& id = read.snapshot.id;
  const bool same = inode_ == id.inode && mtime_ns_ == id.mtime_ns && size_ == id.size && content_ == read.content_hash;
  if (!first_) first_ = now;
  if (*first_ == now || !same) changed_ = now;
  last_ = now;
  inode_ = id.inode;
  mtime_ns_ = id.mtime_ns;
  size_ = id.size;
  content_ = read.content_hash;
}

bool Unfinished::is_damage() const {
  return first_ && (last_ - changed_ >= patience_.unchanged || last_ - *first_ >= patience_.longest);
}

bool Unfinished::is_due(Clock::time_point now) const {
  constexpr std::chrono::milliseconds pause{50};
  return !first_ || now - last_ >= pause || is_damage();
}

}  // namespace sessiond::sessions

// Judges a store that cannot be read: is it damaged, or is a foreign program just writing it?
//
// A foreign program may write a store in place. It empties the file, fills it again, and pauses in between for as long
// as it likes. Such a file is damage only after it has stayed as it is for Patience::unchanged, or after
// Patience::longest in all. Until then the store is served from memory, and nothing takes its place.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace sessiond::sessions {

struct StoreRead;  // disk.hpp

struct Patience {
  std::chrono::milliseconds unchanged{5000};
  std::chrono::milliseconds longest{60'000};
};

// Remembers how long one file has not been whole. Not thread-safe.
class Unfinished {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Unfinished(Patience patience) : patience_(patience) {}
  // Notes what a look found. The file counts as changed if its size, mtime, inode or content did.
  void saw(const StoreRead& read, Clock::time_point now = Clock::now());
  void forget() { first_.reset(); }  // it is whole, or another one
  // Returns whether the file was damaged at the last look. False also if it was never seen.
  bool is_damage() const;
  // Returns whether the last look is long enough ago for another one: reading a large file takes time.
  bool is_due(Clock::time_point now = Clock::now()) const;
  const Patience& patience() const { return patience_; }

 private:
  Patience patience_;
  std::optional<Clock::time_point> first_{};  // nothing: it was whole at the last look
  Clock::time_point changed_{};
  Clock::time_point last_{};
  std::uint64_t inode_ = 0;
  std::int64_t mtime_ns_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t content_ = 0;  // hash
};

}  // namespace sessiond::sessions

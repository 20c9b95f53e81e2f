// Which segments there are and how far they are durable: what the journal's thread moves on and readers look at. Any
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/journal/segment.hpp"

namespace sessiond::journal {

class Catalog {
 public:
  explicit Catalog(std::vector<Segment> segments);  // at least one; the last is live

  std::uint64_t head() const { return head_.load(std::memory_order_acquire); }
  std::uint64_t oldest() const { return oldest_.load(std::memory_order_acquire); }
  std::uint64_t bytes_after(std::uint64_t seq) const;  // exact to an index entry in newest segments, else in proportion

  Segment live() const;  // without its index

  // A batch [first, next) of `bytes` is durable at the end of the live segment.
  void extend(std::uint64_t first, std::uint64_t next, std::uint64_t bytes);
  // A new segment, durable, goes on at its first seq. The live one is sealed, with its index; what is wholly overridden
  // is removed.
  void begin(Segment segment);

  // How far the log is durable at one moment: what a reader takes as its end, however fast it is written meanwhile.
  struct End {
    std::uint64_t serial = 0;  // of the live segment
    std::uint64_t bytes = 0;   // in it
    std::uint64_t head = 0;
  };
  End end() const;

  // Where in which file to look for `from`: bytes [offset, end) of one segment.
  struct Stretch {
    std::filesystem::path path{};
    std::uint64_t offset = 0;
    std::uint64_t end = 0;
    std::uint64_t serial = 0;
  };
  // Both not beyond `until`; nothing when there is nothing more.
  std::optional<Stretch> locate(std::uint64_t from, const End& until) const;
  std::optional<Stretch> following(std::uint64_t serial, const End& until) const;

  bool holds(std::uint64_t serial) const;  // the segment is still part of the log
  std::vector<Segment> sealed() const;     // without their indexes

  // Remembers what is wrong with a segment, one sentence each, until retention takes it. An empty path is never taken.
  void note_damage(const std::filesystem::path& segment, std::string what) const;
  std::vector<std::string> damage() const;

  // Every segment in order, each with how many of its bytes are durable; none is removed before this returns. The last
  // durable seq in them.
  using OnSegment = std::function<Result<void>(const std::filesystem::path&, std::uint64_t bytes)>;
  Result<std::uint64_t> each(const OnSegment& call) const;

  // Removes the oldest sealed segments that hold nothing after `released` and are old (nothing after `old`) or too
  // many.
  void retain(std::uint64_t released, std::uint64_t old, std::uint64_t max_bytes);

 private:
  mutable std::mutex mutex_;
  mutable std::mutex removing_;  // held while files are removed, or must not be; mutex_ never is over the disk's work
  std::vector<Segment> segments_;
  std::uint64_t last_serial_ = 0;
  std::vector<std::filesystem::path> to_remove_;  // retention's, that could not be removed yet; under removing_
  mutable std::map<std::filesystem::path, std::set<std::string>> damage_;  // under mutex_
  std::atomic<std::uint64_t> head_;
  std::atomic<std::uint64_t> oldest_;
};

}  // namespace sessiond::journal

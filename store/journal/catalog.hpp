// The list of segments and how far they are durable. The journal's thread extends it after each batch; readers on any
// thread look up where to read. A reader never sees bytes that are not durable.
//
// extend() and begin() belong to the journal's thread. All other calls may come from any thread.
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
  explicit Catalog(std::vector<Segment> segments);  // at least one; the last is the live one

  std::uint64_t head() const { return head_.load(std::memory_order_acquire); }
  std::uint64_t oldest() const { return oldest_.load(std::memory_order_acquire); }
  std::uint64_t bytes_after(std::uint64_t seq) const;  // exact to 64 KiB in the newest segments, else estimated

  Segment live() const;  // without its index

  // A batch of `bytes` with the seqs [first, next) is durable at the end of the live segment.
  void extend(std::uint64_t first, std::uint64_t next, std::uint64_t bytes);
  // Makes `segment`, which is durable, the live one. Writes the index of the one before it. Removes segments that begin
  // at its first seq or later: it overrides them.
  void begin(Segment segment);

  // How far the log is durable at one moment. A reader takes it once as its end, so that a fast writer cannot keep it
  // reading for ever.
  struct End {
    std::uint64_t serial = 0;  // of the live segment
    std::uint64_t bytes = 0;   // durable bytes in it
    std::uint64_t head = 0;    // last durable seq
  };
  End end() const;

  // Bytes [offset, end) of one segment.
  struct SegmentPart {
    std::filesystem::path path{};
    std::uint64_t offset = 0;
    std::uint64_t end = 0;
    std::uint64_t serial = 0;
  };
  // Where to begin to read for seq `from`, and the segment after the one with this serial. Never beyond `until`;
  // nothing when there is no more.
  std::optional<SegmentPart> locate(std::uint64_t from, const End& until) const;
  std::optional<SegmentPart> following(std::uint64_t serial, const End& until) const;

  bool holds(std::uint64_t serial) const;  // whether the segment is still part of the log
  std::vector<Segment> sealed() const;     // without their indexes

  // Records damage, one sentence, until retention removes the segment. With an empty path it is kept for ever.
  void note_damage(const std::filesystem::path& segment, std::string what) const;
  std::vector<std::string> damage() const;

  // Calls with every segment in order and how many of its bytes are durable. No segment is removed before this returns.
  // Returns the last durable seq in them.
  using OnSegment = std::function<Result<void>(const std::filesystem::path&, std::uint64_t bytes)>;
  Result<std::uint64_t> each(const OnSegment& call) const;

  // Removes the oldest sealed segments without events after `released`, as long as they have no events after `old` or
  // all segments together are larger than `max_bytes`.
  void retain(std::uint64_t released, std::uint64_t old, std::uint64_t max_bytes);

 private:
  mutable std::mutex mutex_;
  // Held while segment files are deleted, and by backups to keep them from being deleted. `mutex_` is never held during
  // disk I/O.
  mutable std::mutex removing_;
  std::vector<Segment> segments_;
  std::uint64_t last_serial_ = 0;
  std::vector<std::filesystem::path> to_remove_;  // retention could not remove them yet; under removing_
  mutable std::map<std::filesystem::path, std::set<std::string>> damage_;  // under mutex_
  std::atomic<std::uint64_t> head_;
  std::atomic<std::uint64_t> oldest_;
};

}  // namespace sessiond::journal

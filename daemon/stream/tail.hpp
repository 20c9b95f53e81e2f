// The newest durable events, in memory, in the form that streams send: each event is made into a frame once, whatever
// the number of clients, and not at all while nobody reads. The tail is bounded by bytes; older events are read from
// the journal.
//
// A batch is shared between threads. A tail belongs to one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/journal/event.hpp"

namespace sessiond::stream {

// Where the frame of the event `seq` ends in a text of frames.
struct FrameEnd {
  std::uint64_t seq;
  std::size_t end;
};

// Either the events that became durable together, whose seqs follow each other; or ephemeral events, whose seq is 0.
// Their frames are written when they are first asked for.
class StreamBatch {
 public:
  // At least one event. `epoch` outlives the batch.
  StreamBatch(std::string_view epoch, std::vector<journal::Event> events);

  std::uint64_t first() const { return events_.front().envelope.seq; }
  std::uint64_t last() const { return events_.back().envelope.seq; }
  const journal::Envelope& envelope(std::uint64_t seq) const { return events_[seq - first()].envelope; }
  // The frames of the events [from, to], one after the other.
  std::string_view frames(std::uint64_t from, std::uint64_t to) const;
  std::span<const FrameEnd> ends(std::uint64_t from, std::uint64_t to) const;
  const std::string& text() const { return written().text; }
  // By index, for ephemeral events.
  std::size_t size() const { return events_.size(); }
  const journal::Envelope& envelope_at(std::size_t index) const { return events_[index].envelope; }
  std::string_view frame_at(std::size_t index) const;
  std::span<const FrameEnd> ends_at(std::size_t index) const { return std::span(written().ends).subspan(index, 1); }
  std::size_t bytes() const { return bytes_; }  // of memory, approximately

 private:
  struct Frames {
    std::string text{};
    std::vector<FrameEnd> ends{};
  };
  const Frames& written() const {
    if (!is_written_.load(std::memory_order_acquire)) write();
    return frames_;
  }
  void write() const;

  std::string_view epoch_;
  mutable std::vector<journal::Event> events_;  // without their JSON once the frames are written
  std::size_t bytes_ = 0;
  mutable std::mutex mutex_{};  // held while the frames are written
  mutable Frames frames_{};
  mutable std::atomic<bool> is_written_ = false;
};
using SharedBatch = std::shared_ptr<const StreamBatch>;

class Tail {
 public:
  Tail(std::uint64_t head, std::size_t max_bytes) : head_(head), max_bytes_(max_bytes) {}

  void push(SharedBatch batch);  // continues the tail: its first seq is head() + 1
  void limit(std::size_t max_bytes);
  std::uint64_t head() const { return head_; }        // seq of the newest event, held or not
  std::uint64_t oldest() const;                       // seq of the first event held; head() + 1: none is
  const SharedBatch& batch(std::uint64_t seq) const;  // the batch that holds `seq`, which is in [oldest(), head()]

 private:
  void trim();

  std::deque<SharedBatch> batches_;
  std::uint64_t head_;
  std::size_t bytes_ = 0;
  std::size_t max_bytes_;
};

}  // namespace sessiond::stream

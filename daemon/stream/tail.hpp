// The newest durable events, in memory, in the form that streams send: each event is made into a frame once, whatever
// the number of clients. The tail is bounded by bytes; older events are read from the journal.
//
// A batch never changes and is shared between threads. A tail belongs to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
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
class StreamBatch {
 public:
  StreamBatch(std::string_view epoch, std::vector<journal::Event> events);  // at least one

  std::uint64_t first() const { return ends_.front().seq; }
  std::uint64_t last() const { return ends_.back().seq; }
  const journal::Envelope& envelope(std::uint64_t seq) const { return envelopes_[seq - first()]; }
  // The frames of the events [from, to], one after the other.
  std::string_view frames(std::uint64_t from, std::uint64_t to) const;
  std::span<const FrameEnd> ends(std::uint64_t from, std::uint64_t to) const;
  const std::string& text() const { return text_; }
  // By index, for ephemeral events.
  std::size_t size() const { return ends_.size(); }
  const journal::Envelope& envelope_at(std::size_t index) const { return envelopes_[index]; }
  std::string_view frame_at(std::size_t index) const;
  std::span<const FrameEnd> ends_at(std::size_t index) const { return std::span(ends_).subspan(index, 1); }
  std::size_t bytes() const;  // of memory, approximately

 private:
  std::string text_;
  std::vector<FrameEnd> ends_;
  std::vector<journal::Envelope> envelopes_;
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

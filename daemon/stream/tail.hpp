// The newest durable events in memory, as streams send them: each serialised once. Bounded by bytes; who needs what is
// older reads the journal. Batches never change and are shared between threads, a Tail belongs to one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/journal/event.hpp"

namespace sessiond {

// Where the frame of an event ends in a text of frames.
struct FrameEnd {
  std::uint64_t seq;
  std::size_t end;
};

// The events that became durable at once, their seqs without a gap; or events without a seq, which are not kept.
class StreamBatch {
 public:
  StreamBatch(std::string_view epoch, std::vector<Event> events);  // at least one

  std::uint64_t first() const { return ends_.front().seq; }
  std::uint64_t last() const { return ends_.back().seq; }
  const Envelope& envelope(std::uint64_t seq) const { return envelopes_[seq - first()]; }
  // The frames of the events [from, to], one after the other.
  std::string_view frames(std::uint64_t from, std::uint64_t to) const;
  std::span<const FrameEnd> ends(std::uint64_t from, std::uint64_t to) const;
  const std::string& text() const { return text_; }
  // By place, for events without a seq.
  std::size_t size() const { return ends_.size(); }
  const Envelope& envelope_at(std::size_t index) const { return envelopes_[index]; }
  std::string_view frame_at(std::size_t index) const;
  std::span<const FrameEnd> ends_at(std::size_t index) const { return std::span(ends_).subspan(index, 1); }
  std::size_t bytes() const;  // of memory, about

 private:
  std::string text_;
  std::vector<FrameEnd> ends_;
  std::vector<Envelope> envelopes_;
};
using SharedBatch = std::shared_ptr<const StreamBatch>;

class Tail {
 public:
  Tail(std::uint64_t head, std::size_t max_bytes) : head_(head), max_bytes_(max_bytes) {}

  void push(SharedBatch batch);       // first() == head() + 1
  void limit(std::size_t max_bytes);  // from now on
  std::uint64_t head() const { return head_; }
  std::uint64_t oldest() const;                       // first seq held; head()+1 when empty
  const SharedBatch& batch(std::uint64_t seq) const;  // that holds it; oldest() <= seq <= head()

 private:
  void trim();

  std::deque<SharedBatch> batches_;
  std::uint64_t head_;
  std::size_t bytes_ = 0;
  std::size_t max_bytes_;
};

}  // namespace sessiond

#include "daemon/stream/tail.hpp"

#include <algorithm>
#include <cassert>

#include "daemon/stream/frames.hpp"

namespace sessiond::stream {

StreamBatch::StreamBatch(std::string_view epoch, std::vector<journal::Event> events)
    : epoch_(epoch), events_(std::move(events)), bytes_(sizeof(StreamBatch)) {
  for (const journal::Event& event : events_)
    bytes_ += event.json->size() + frames::event_overhead + sizeof(FrameEnd) + sizeof(journal::Event);
}

void StreamBatch::write() const {
  const std::scoped_lock lock(mutex_);
  if (is_written_.load(std::memory_order_relaxed)) return;  // by another thread
  frames_.ends.reserve(events_.size());
  std::size_t size = 0;
  for (const journal::Event& event : events_) size += event.json->size() + frames::event_overhead;
  frames_.text.reserve(size);
  for (journal::Event& event : events_) {
    frames::append_event(frames_.text, epoch_, event.envelope.seq, journal::name(event.envelope.type), *event.json);
    frames_.ends.push_back({event.envelope.seq, frames_.text.size()});
    event.data = {};
    event.json.reset();
  }
  is_written_.store(true, std::memory_order_release);
}

std::string_view StreamBatch::frames(std::uint64_t from, std::uint64_t to) const {
  const auto& [text, ends] = written();
  const std::size_t begin = from == first() ? 0 : ends[from - first() - 1].end;
  return std::string_view(text).substr(begin, ends[to - first()].end - begin);
}

std::string_view StreamBatch::frame_at(std::size_t index) const {
  const auto& [text, ends] = written();
  const std::size_t begin = index == 0 ? 0 : ends[index - 1].end;
  return std::string_view(text).substr(begin, ends[index].end - begin);
}

std::span<const FrameEnd> StreamBatch::ends(std::uint64_t from, std::uint64_t to) const {
  return std::span(written().ends).subspan(from - first(), to - from + 1);
}

void Tail::push(SharedBatch batch) {
  assert(batch->first() == head_ + 1);
  head_ = batch->last();
  bytes_ += batch->bytes();
  batches_.push_back(std::move(batch));
  trim();
}

void Tail::limit(std::size_t max_bytes) {
  max_bytes_ = max_bytes;
  trim();
}

void Tail::trim() {
  while (bytes_ > max_bytes_ && batches_.size() > 1) {
    bytes_ -= batches_.front()->bytes();
    batches_.pop_front();
  }
}

std::uint64_t Tail::oldest() const { return batches_.empty() ? head_ + 1 : batches_.front()->first(); }

const SharedBatch& Tail::batch(std::uint64_t seq) const {
  assert(seq >= oldest() && seq <= head_);
  const auto after = std::ranges::upper_bound(batches_, seq, {}, [](const SharedBatch& one) { return one->first(); });
  return *std::prev(after);
}

}  // namespace sessiond::stream

#include "daemon/stream/tail.hpp"

#include <algorithm>
#include <cassert>

#include "daemon/stream/frames.hpp"

namespace sessiond::stream {

StreamBatch::StreamBatch(std::string_view epoch, std::vector<journal::Event> events) {
  ends_.reserve(events.size());
  envelopes_.reserve(events.size());
  std::size_t size = 0;
  for (const journal::Event& event : events) size += event.json->size() + frames::event_overhead;
  text_.reserve(size);
  for (journal::Event& event : events) {
    frames::append_event(text_, epoch, event.envelope.seq, journal::name(event.envelope.type), *event.json);
    ends_.push_back({event.envelope.seq, text_.size()});
    envelopes_.push_back(std::move(event.envelope));
  }
}

std::string_view StreamBatch::frames(std::uint64_t from, std::uint64_t to) const {
  const std::size_t begin = from == first() ? 0 : ends_[from - first() - 1].end;
  return std::string_view(text_).substr(begin, ends_[to - first()].end - begin);
}

std::string_view StreamBatch::frame_at(std::size_t index) const {
  const std::size_t begin = index == 0 ? 0 : ends_[index - 1].end;
  return std::string_view(text_).substr(begin, ends_[index].end - begin);
}

std::span<const FrameEnd> StreamBatch::ends(std::uint64_t from, std::uint64_t to) const {
  return std::span(ends_).subspan(from - first(), to - from + 1);
}

std::size_t StreamBatch::bytes() const {
  return text_.capacity() + ends_.size() * (sizeof(FrameEnd) + sizeof(journal::Envelope)) + sizeof(StreamBatch);
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

#include "tests/bench/stream/event_log.hpp"

namespace sessiond::bench::stream {

std::uint64_t EventLog::position(std::uint64_t number) {
  if (given_) return number;
  return positions_.try_emplace(number, positions_.size()).first->second;
}

const EventLog::Event* EventLog::same(std::uint64_t position, std::string_view block) {
  if (events_.empty()) first_ = position;
  if (position < first_) return nullptr;
  const auto index = static_cast<std::size_t>(position - first_);
  if (index >= events_.size()) events_.resize(index + 1);
  Event& event = events_[index];
  if (!event.seen) {
    event.seen = true;
    const std::size_t at = find_mark(block);
    if (at == block.npos) return &event;
    const Mark mark = read_mark(block, at);
    event = {.sent_ns = mark.sent_ns, .number = mark.number, .mark_at = static_cast<std::uint32_t>(at), .seen = true};
    return &event;
  }
  if (event.sent_ns == 0) return &event;
  if (event.mark_at >= block.size() || read_mark(block, event.mark_at).number != event.number) return nullptr;
  return &event;
}

}  // namespace sessiond::bench::stream

#include "daemon/stream/coalescer.hpp"

#include <algorithm>
#include <utility>

#include "store/json/raw_json.hpp"

namespace sessiond::stream {

namespace {
constexpr std::size_t most_waiting = 1000;
constexpr std::size_t most_waiting_bytes = 1 << 20;
}  // namespace

Coalescer::Coalescer(boost::asio::io_context& io, Send send) : send_(std::move(send)), timer_(io) {}

bool Coalescer::add(Ephemeral event, std::chrono::milliseconds interval) {
  const auto same = std::ranges::find_if(waiting_, [&](const Ephemeral& one) {
    return one.type == event.type && one.envelope.key == event.envelope.key &&
           one.envelope.topic == event.envelope.topic && one.envelope.actor == event.envelope.actor &&
           one.run_id == event.run_id && one.from == event.from;
  });
  if (bytes_ + event.text.size() > most_waiting_bytes || (same == waiting_.end() && waiting_.size() >= most_waiting))
    return false;
  bytes_ += event.text.size();
  if (same == waiting_.end()) {
    waiting_.push_back(std::move(event));
  } else {
    same->text += event.text;
  }
  if (std::exchange(scheduled_, true)) return true;
  timer_.expires_at(sent_ + interval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) send_waiting();
  });
  return true;
}

void Coalescer::before(const std::vector<journal::Event>& committed) {
  if (waiting_.empty()) return;
  bool at_once = false;
  for (const journal::Event& event : committed) {
    using enum journal::EventType;
    if (event.envelope.type != message_appended && event.envelope.type != run_finished) continue;
    const auto is_its = [&event](const Ephemeral& one) { return one.envelope.key == event.envelope.key; };
    std::erase_if(waiting_, [&](const Ephemeral& one) { return one.type == session_typing && is_its(one); });
    at_once = at_once || std::ranges::any_of(waiting_, is_its);
  }
  if (!at_once) return;
  timer_.cancel();
  send_waiting();
}

void Coalescer::send_waiting() {
  scheduled_ = false;
  sent_ = std::chrono::steady_clock::now();
  bytes_ = 0;
  std::vector<journal::Event> events;
  for (Ephemeral& one : std::exchange(waiting_, {})) {
    json::ObjectWriter out;
    if (!one.run_id.empty()) out.string("runId", one.run_id);
    if (one.type == journal::EventType::text_delta) out.string("text", one.text);
    if (!one.from.empty()) out.raw("from", one.from);
    events.push_back(journal::make_event(std::move(one.envelope), out.text()));
  }
  if (!events.empty()) send_(std::move(events));
}

}  // namespace sessiond::stream

// The part of a hub that goes by the clock: keep-alives, stalled readers, tokens that lost their right; and what it
// tells of its readers.
#include <algorithm>

#include "daemon/runtime/log.hpp"
#include "daemon/stream/frames.hpp"
#include "daemon/stream/hub.hpp"

namespace sessiond {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds longest_tick{1000};
constexpr milliseconds shortest_tick{20};
constexpr std::chrono::seconds token_check_interval{1};
constexpr std::chrono::seconds linger_time{2};  // for the other side to close, when all is said
constexpr std::chrono::seconds page_time{1};    // a page is kept for a blocked reader; it is read again then

bool same_scope(const Principal& a, const Principal& b) {
  return a.role == b.role && a.agents == b.agents && a.key_prefix == b.key_prefix && a.channel == b.channel;
}

std::int64_t ms(Reader::Clock::duration time) { return std::chrono::duration_cast<milliseconds>(time).count(); }

std::string_view name(Reader::State state) {
  switch (state) {
    case Reader::State::ready:
    case Reader::State::reading:
      return "catching_up";
    case Reader::State::live:
      return "live";
    case Reader::State::blocked:
      return "blocked";
    case Reader::State::closing:
    case Reader::State::closed:
      return "closing";
  }
  return {};
}

}  // namespace

void Hub::check_tokens() {
  generation_ = context_.token_generation();
  checked_ = Clock::now();
  for (const auto& audience : audiences_.all()) {
    const auto principal = context_.again(audience->view->principal);
    if (principal && same_scope(*principal, audience->view->principal)) continue;
    // With another scope it comes back, from where it was.
    const std::string_view reason = principal ? "token_changed" : "token";
    for (const auto& reader : all_) {
      if (reader->audience == audience && reader->end.empty()) finish(*reader, reason);
    }
  }
}

// Runs only while there are readers: an idle daemon sleeps.
void Hub::arm_tick() {
  const auto period = std::clamp<Clock::duration>(
      milliseconds(std::min(shortest_heartbeat_ms_, settings_.stall_timeout_ms) / 4), shortest_tick, longest_tick);
  const Clock::time_point at = Clock::now() + period;
  if (ticking_ && tick_timer_.expiry() <= at) return;
  ticking_ = true;
  tick_timer_.expires_at(at);
  tick_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    ticking_ = false;
    tick();
  });
}

void Hub::tick() {
  const Clock::time_point now = Clock::now();
  if (now >= checked_ + token_check_interval) check_tokens();
  for (std::size_t place = all_.size(); place > 0; --place) {  // backwards: who leaves is replaced by one already seen
    if (place <= all_.size()) tick(*all_[place - 1], now);
  }
  if (!all_.empty()) arm_tick();
}

void Hub::tick(Reader& reader, Clock::time_point now) {
  if (reader.state == Reader::State::closing) {
    if (now >= reader.moved + linger_time) over(reader, reader.end);
    return;
  }
  if (reader.state == Reader::State::blocked) {
    if (now >= reader.moved + page_time) {
      reader.page.reset();
      reader.page_ahead.reset();
      reader.ahead_from = 0;
    }
    if (now < reader.moved + milliseconds(settings_.stall_timeout_ms)) return;
    ++counters_.stalled;
    return over(reader, reader.end.empty() ? "stalled" : reader.end);
  }
  const bool quiet = reader.state == Reader::State::live && !reader.has_rest();
  if (!quiet || now < reader.spoke + milliseconds(reader.wish.options.heartbeat_ms)) return;
  std::string text = frames::ping(reader.wish.options.ping_event);
  if (reached(reader) > reader.said) {
    reader.said = reached(reader);
    text += frames::position(id(reader.said));
  }
  const Reader::Sent sent = reader.say(text, now);
  if (sent == Reader::Sent::all) return;
  leave(reader);
  after(reader, sent);
}

std::vector<StreamInfo> Hub::describe() const {
  std::vector<StreamInfo> out;
  out.reserve(all_.size());
  const Clock::time_point now = Clock::now();
  for (const auto& reader : all_) {
    const std::uint64_t at = reached(*reader);
    const StreamView& view = *reader->audience->view;
    out.push_back({.id = reader->wish.id,
                   .token = view.principal.id,
                   .peer = reader->peer,
                   .request_id = reader->wish.request_id,
                   .filters = view.filter.json(view.scope),
                   .state = name(reader->state),
                   .position = at,
                   .lag_events = tail_.head() - std::min(at, tail_.head()),
                   .lag_bytes = at < tail_.head() ? context_.journal.bytes_after(at) : 0,
                   .sent_bytes = reader->bytes,
                   .open_ms = ms(now - reader->opened),
                   .waits_ms = reader->state == Reader::State::blocked ? ms(now - reader->moved) : 0});
  }
  return out;
}

}  // namespace sessiond

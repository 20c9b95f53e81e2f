#include "daemon/stream/rounds.hpp"

#include <utility>

namespace sessiond::stream {
namespace {

constexpr std::size_t sends_at_once = 256;
constexpr std::size_t most_ephemeral_bytes = 4 << 20;
constexpr std::chrono::milliseconds busy_window{100};  // as many batches as arrivals_ holds within it: under load

}  // namespace

void Rounds::request() {
  due_ = true;
  hub_.wake();
}

void Rounds::batch_arrived() {
  const auto now = StreamClient::Clock::now();
  const bool busy = now - std::exchange(arrivals_.at(arrival_), now) < busy_window;
  arrival_ = (arrival_ + 1) % arrivals_.size();
  if (clients_.all().empty() || coalescing_) return;
  const auto earliest = last_round_ + std::chrono::milliseconds(hub_.settings.coalesce_ms);
  if (!busy || now >= earliest) return request();
  coalescing_ = true;
  coalesce_timer_.expires_at(earliest);
  coalesce_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;  // the hub is gone
    coalescing_ = false;
    request();
  });
}

void Rounds::add_ephemeral(SharedBatch batch) {
  if (clients_.all().empty()) return;
  if (ephemeral_bytes_ + batch->bytes() > most_ephemeral_bytes) {
    ++hub_.counters.dropped;
    return;
  }
  ephemeral_bytes_ += batch->bytes();
  next_ephemeral_.push_back({std::move(batch), hub_.tail.head()});
  if (!coalescing_) request();
}

void Rounds::begin() {
  last_round_ = StreamClient::Clock::now();
  to_ = hub_.tail.head();
  audience_at_ = 0;
  ephemeral_ = std::exchange(next_ephemeral_, {});
  ephemeral_bytes_ = 0;
  for (const auto& [key, audience] : clients_.audiences().by_view()) {
    const bool behind = audience->reached() < to_ || !ephemeral_.empty();
    if (!audience->nobody_live() && behind) audiences_.push_back(audience);
  }
}

// Collects the next run of frames for an audience. Ephemeral events that came before its durable events go first, the
// others into the run that ends the round.
void Rounds::collect(const Audience& audience) {
  const auto add = [&](bool early) {
    for (const EphemeralBatch& ephemeral : ephemeral_) {
      if ((ephemeral.after <= *audience_from_) == early) gather(frames_, ephemeral.batch, *audience.view);
    }
  };
  if (!audience_from_) {
    audience_from_ = audience.reached();
    add(true);
  }
  gather(frames_, hub_.tail, *audience.view, audience.reached() + 1, to_);
  if (frames_.next > to_) add(false);
}

void Rounds::serve(StreamClient::Clock::time_point now) {
  if (audiences_.empty() && std::exchange(due_, false)) begin();
  std::size_t budget = sends_at_once;
  while (budget > 0 && audience_at_ < audiences_.size()) {
    Audience& audience = *audiences_[audience_at_];
    if (!audience.being_served()) {
      if (audience.reached() + 1 < hub_.tail.oldest()) {  // a burst larger than the tail: each reads the journal itself
        while (!audience.nobody_live()) clients_.enter(*audience.live().back(), StreamClient::State::ready);
        next_audience();
        continue;
      }
      audience.begin_serving();
      collect(audience);
      --budget;
      if (frames_.empty()) {
        finish_audience(audience);
        continue;
      }
    }
    for (; client_at_ < audience.live().size() && budget > 0; ++client_at_) {
      StreamClient* const client = audience.live()[client_at_];
      if (client == nullptr) continue;
      --budget;
      if (const auto sent = client->send(frames_, now); sent != StreamClient::Sent::all)
        clients_.after_send(*client, sent);
    }
    if (client_at_ == audience.live().size()) finish_audience(audience);
  }
  if (audience_at_ == audiences_.size()) audiences_.clear();
}

// The run was sent to all. Goes on to the next audience unless the round has more for this one.
void Rounds::finish_audience(Audience& audience) {
  audience.end_serving(frames_.next - 1);
  frames_.clear();
  client_at_ = 0;
  if (audience.reached() >= to_ || audience.nobody_live()) next_audience();
}

void Rounds::next_audience() {
  ++audience_at_;
  audience_from_.reset();
}

}  // namespace sessiond::stream

// The part of a hub that serves those who have everything: a batch comes, a round goes out.
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/stream/hub.hpp"

namespace sessiond {

namespace asio = boost::asio;

namespace {

constexpr std::size_t sends_at_once = 256;  // of a round, before the thread's other work gets its turn
constexpr std::size_t steps_at_once = 16;   // of readers that catch up: each up to a quarter of a MiB
constexpr std::size_t most_passing_bytes = 4 << 20;
constexpr std::chrono::milliseconds busy_window{100};  // as many batches as arrivals_ holds within it: under load

}  // namespace

void Hub::schedule() {
  if (std::exchange(scheduled_, true)) return;
  asio::post(executor_, [this] { run(); });
}

// One batch wakes the thread once. When they come faster than a hundred a second they gather for a moment.
void Hub::deliver(SharedBatch batch) {
  tail_.push(std::move(batch));
  const Clock::time_point now = Clock::now();
  const bool busy = now - std::exchange(arrivals_.at(arrival_), now) < busy_window;
  arrival_ = (arrival_ + 1) % arrivals_.size();
  if (all_.empty() || coalescing_) return;
  const Clock::time_point earliest = last_round_ + std::chrono::milliseconds(settings_.coalesce_ms);
  if (!busy || now >= earliest) {
    round_due_ = true;
    return schedule();
  }
  coalescing_ = true;
  coalesce_timer_.expires_at(earliest);
  coalesce_timer_.async_wait([this](const boost::system::error_code&) {
    coalescing_ = false;
    round_due_ = true;
    schedule();
  });
}

void Hub::publish(SharedBatch ephemeral) {
  if (all_.empty()) return;
  passing_bytes_ += ephemeral->bytes();
  if (passing_bytes_ > most_passing_bytes) {
    passing_bytes_ -= ephemeral->bytes();
    ++counters_.dropped;
    return;
  }
  next_passing_.push_back({std::move(ephemeral), tail_.head()});
  if (coalescing_) return;
  round_due_ = true;
  schedule();
}

void Hub::run() {
  scheduled_ = false;
  const Clock::time_point now = Clock::now();
  if (round_.empty() && std::exchange(round_due_, false)) begin_round();
  std::size_t budget = sends_at_once;
  serve_round(budget, now);
  if (draining_ && round_.empty() && !round_due_) dismiss();
  for (std::size_t steps = 0; steps < steps_at_once && !ready_.empty(); ++steps) {
    const auto reader = std::move(ready_.front());
    ready_.pop_front();
    if (reader->state == Reader::State::ready) step(*reader, now);
  }
  if (round_due_ || !round_.empty() || !ready_.empty()) schedule();
}

void Hub::begin_round() {
  last_round_ = Clock::now();
  if (context_.token_generation() != generation_) check_tokens();  // nothing more for who lost the right to it
  round_to_ = tail_.head();
  round_at_ = 0;
  passing_ = std::exchange(next_passing_, {});
  passing_bytes_ = 0;
  for (auto& audience : audiences_.all()) {
    const bool behind = audience->reached < round_to_ || !passing_.empty();
    if (!audience->nobody_live() && behind) round_.push_back(std::move(audience));
  }
}

// What is not kept stays where it came between what is; in one write after all of that at the latest.
void Hub::gather_for(const Audience& audience) {
  const auto add = [&](bool early) {
    for (const Passing& passing : passing_) {
      if ((passing.after <= turn_from_) == early) gather(gathered_, passing.batch, *audience.view);
    }
  };
  if (!std::exchange(turn_begun_, true)) {
    turn_from_ = audience.reached;
    add(true);
  }
  gather(gathered_, tail_, *audience.view, audience.reached + 1, round_to_);
  if (gathered_.next > round_to_) add(false);
}

void Hub::serve_round(std::size_t& budget, Clock::time_point now) {
  while (budget > 0 && round_at_ < round_.size()) {
    Audience& audience = *round_[round_at_];
    if (serving_ == nullptr) {
      if (audience.reached + 1 < tail_.oldest()) {  // a burst bigger than the tail: each by itself, from the disk
        while (!audience.nobody_live()) {
          Reader& reader = *audience.live.back();
          leave(reader);
          make_ready(reader);
        }
        ++round_at_;
        turn_begun_ = false;
        continue;
      }
      gather_for(audience);
      --budget;
      if (gathered_.empty()) {
        finish_audience(audience);
        continue;
      }
      serving_ = &audience;
    }
    for (; reader_at_ < audience.live.size() && budget > 0; ++reader_at_) {
      Reader* const reader = audience.live[reader_at_];
      if (reader == nullptr) continue;
      --budget;
      reader->next = audience.reached + 1;
      const Reader::Sent sent = reader->send(gathered_, now);
      if (sent == Reader::Sent::all) continue;
      const std::uint64_t next = reader->next;  // leaving sets it to its audience's
      leave(*reader);
      reader->next = next;
      after(*reader, sent);
    }
    if (reader_at_ == audience.live.size()) finish_audience(audience);
  }
  if (round_at_ == round_.size()) round_.clear();
}

// What was gathered is sent; there may be more of this round for it.
void Hub::finish_audience(Audience& audience) {
  audience.reached = gathered_.next - 1;
  audience.settle();
  gathered_.clear();
  serving_ = nullptr;
  reader_at_ = 0;
  if (audience.reached < round_to_ && !audience.nobody_live()) return;
  ++round_at_;
  turn_begun_ = false;
}

}  // namespace sessiond

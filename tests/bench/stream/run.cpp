#include "tests/bench/stream/run.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bench/clocks.hpp"
#include "tests/bench/stream/net.hpp"
#include "tests/bench/stream/publishers.hpp"
#include "tests/bench/stream/reader.hpp"

namespace sessiond::bench::stream {
namespace {

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t stall_ns = 30 * second;  // nothing at all came for so long: over
constexpr std::uint64_t look_ns = second / 200;  // how often all readers are looked at

class Run {
 public:
  explicit Run(const Plan& plan) : plan_(plan), reading_(plan, poller_) {}

  Outcome run() {
    raise_descriptor_limit(plan_.readers + plan_.stalled + plan_.publishers + 64);
    outcome_.before = memory(plan_.pids);
    if (plan_.mode == Mode::replay) begin_window();
    const std::uint64_t start = now_ns();
    open_all();
    outcome_.open_seconds = since(start);
    if (plan_.mode == Mode::idle) {
      wait(plan_.seconds);
    } else if (plan_.mode == Mode::replay) {
      outcome_.complete = until([this] { return all_have(nullptr); }, plan_.seconds);
      end_window();
    } else {
      publish();
    }
    outcome_.after = memory(plan_.pids);
    account();
    return std::move(outcome_);
  }

 private:
  static double since(std::uint64_t start) { return static_cast<double>(now_ns() - start) / 1e9; }

  void turn(std::uint64_t most_ns) {
    const std::uint64_t now = now_ns();
    std::uint64_t wait_ns = std::min(most_ns, look_ns);
    if (publishers_) wait_ns = std::min(wait_ns, publishers_->turn(now));
    poller_.wait(static_cast<int>(wait_ns / 1'000'000));
  }
  void wait(double seconds) {
    const std::uint64_t start = now_ns();
    while (since(start) < seconds) turn(look_ns);
  }
  // False: after so many seconds (0: no limit), or when nothing has moved for half a minute.
  template <class Predicate>
  bool until(Predicate done, double seconds = 0) {
    const std::uint64_t start = now_ns();
    std::uint64_t looked = 0;
    std::uint64_t moved = start;
    std::uint64_t last = 0;
    for (;;) {
      turn(look_ns);
      const std::uint64_t now = now_ns();
      if (now < looked + look_ns) continue;
      looked = now;
      if (done()) return true;
      const std::uint64_t sum = look_at_readers(now);
      if (sum != last) moved = now;
      last = sum;
      if (now > moved + stall_ns || (seconds > 0 && since(start) > seconds)) return false;
    }
  }
  // Reconnects those that are due, holds the publishers while one is too far behind; everything received so far.
  std::uint64_t look_at_readers(std::uint64_t now) {
    std::uint64_t sum = 0;
    std::uint64_t slowest = UINT64_MAX;
    for (const auto& reader : readers_) {
      reader->reconnect_when_due(now);
      sum += reader->received();
      if (!reader->stalls()) slowest = std::min(slowest, reader->order().next());
    }
    if (publishers_ && plan_.most_behind > 0) publishers_->hold(publishers_->head() > slowest + plan_.most_behind);
    return sum + (publishers_ ? publishers_->acknowledged() : 0);
  }

  void open_all() {
    const std::size_t count = plan_.readers + plan_.stalled;
    readers_.reserve(count);
    std::uint64_t moved = now_ns();
    std::size_t opened = 0;  // those before it are open
    while (opened < count) {
      while (readers_.size() < count && readers_.size() - opened < plan_.opening) {
        readers_.push_back(std::make_unique<Reader>(reading_, readers_.size() >= plan_.readers));
        readers_.back()->open();
      }
      turn(look_ns);
      const std::uint64_t now = now_ns();
      while (opened < readers_.size() && (readers_[opened]->is_open() || readers_[opened]->received() > 0)) {
        ++opened;
        moved = now;
      }
      if (now > moved + stall_ns) throw std::runtime_error("only " + std::to_string(opened) + " streams were opened");
    }
  }

  void publish() {
    publishers_.emplace(plan_, poller_);
    wait(0.5);
    begin_window();
    publishers_->begin(now_ns());
    const bool sent = until([this] { return publishers_->done(now_ns()); });
    outcome_.complete = sent && until([this] { return all_have(end(), false); });
    end_window();
    outcome_.published = publishers_->acknowledged();
    outcome_.unacknowledged = publishers_->sent() - publishers_->acknowledged();
    outcome_.retries = publishers_->retries();
    outcome_.late_ms = static_cast<double>(publishers_->late_ns()) / 1e6;
    if (plan_.stalled == 0) return;
    const std::uint64_t start = now_ns();
    for (const auto& reader : readers_) reader->resume();
    until([this] { return all_have(end(), true); });
    outcome_.drain_seconds = since(start);
  }
  // The position behind the last event published.
  std::uint64_t end() const {
    return plan_.server == Server::sessiond ? publishers_->head() + 1 : publishers_->acknowledged();
  }
  bool all_have(std::uint64_t end, bool stalled_too) const {
    return std::ranges::all_of(readers_, [&](const auto& reader) {
      return reader->order().next() >= end || (reader->stalls() && !stalled_too);
    });
  }
  bool all_have(std::nullptr_t) const {
    return std::ranges::all_of(readers_, [](const auto& reader) { return reader->order().next() > reader->head(); });
  }

  void begin_window() {
    begun_at_ = now_ns();
    client_cpu_ = own_cpu_s();
    server_cpu_ = cpu_ns(plan_.pids);
    reading_.measuring = true;
  }
  void end_window() {
    reading_.measuring = false;
    outcome_.server_cpu_ns = cpu_ns(plan_.pids) - server_cpu_;
    outcome_.client_cpu_ns = static_cast<std::uint64_t>((own_cpu_s() - client_cpu_) * 1e9);
    outcome_.seconds = since(begun_at_);
    outcome_.delivered = reading_.delivered;
    outcome_.bytes = reading_.bytes;
    outcome_.latency = reading_.latency;
  }

  void account() {
    outcome_.reconnects = reading_.reconnects;
    outcome_.faults = reading_.faults;
    if (!publishers_) return;
    for (const auto& reader : readers_) reader->order().end(end(), outcome_.faults);
    account_for_acknowledged();
  }
  // What all readers agree on must hold every acknowledged event once, each publisher's in the order it sent them.
  // (Elsewhere than in sessiond the publishers' order is the server's business.)
  void account_for_acknowledged() {
    std::vector<bool> seen(publishers_->sent());
    std::vector<std::uint64_t> latest(plan_.publishers);
    for (const EventLog::Event& event : reading_.log.events()) {
      if (event.sent_ns == 0 || event.number >= seen.size()) continue;
      const auto number = static_cast<std::size_t>(event.number);
      if (seen[number]) ++outcome_.faults.doubled;
      seen[number] = true;
      std::uint64_t& last = latest[publishers_->publisher_of(event.number)];
      if (last > event.number) ++outcome_.faults.out_of_order;
      last = event.number;
    }
    const auto missing = static_cast<std::uint64_t>(std::ranges::count(seen, false));
    outcome_.faults.lost += missing - std::min(missing, outcome_.unacknowledged);
  }

  const Plan& plan_;
  Poller poller_{};
  Reading reading_;
  std::vector<std::unique_ptr<Reader>> readers_{};
  std::optional<Publishers> publishers_{};
  Outcome outcome_{};
  std::uint64_t begun_at_ = 0;
  double client_cpu_ = 0;
  std::uint64_t server_cpu_ = 0;
};

}  // namespace

Outcome run(const Plan& plan) { return std::make_unique<Run>(plan)->run(); }

}  // namespace sessiond::bench::stream

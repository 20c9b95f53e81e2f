#include "daemon/leases/runners.hpp"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <vector>

#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t looks_in_idle_time = 10;
constexpr std::int64_t longest_pause_ms = 60'000;

}  // namespace

Runners::Runners(ledger::Ledger& ledger)
    : ledger_(ledger), timer_(ledger.parts().env.io), background_(ledger.parts().env.io) {}

void Runners::start() { background_.run(run(), "runners"); }

asio::awaitable<void> Runners::stop() {
  stopping_ = true;
  timer_.cancel();
  co_await background_.wait_until_all_ended();
}

void Runners::see(const journal::Event& event) {
  using journal::EventType;
  const bool deletes = event.envelope.type == EventType::session_deleted;
  if (!deletes && event.envelope.type != EventType::run_started) return;
  const Place place{event.envelope.agent, event.envelope.key};
  if (deletes) {
    for (auto& [runner, sessions] : all_) sessions.erase(place);
    return;
  }
  const std::string runner = json::string_at(event.data, "runner").value_or("");
  all_[runner][place] = {.time = store::unix_ms(), .steady_ms = store::steady_ms()};
}

asio::awaitable<void> Runners::run() {
  while (!stopping_) {
    const std::int64_t idle_ms = ledger_.rules().runs.runner_idle_ms;
    timer_.expires_after(std::chrono::milliseconds(std::min(idle_ms / looks_in_idle_time, longest_pause_ms)));
    boost::system::error_code woken;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (!stopping_) co_await evict_idle();
  }
}

asio::awaitable<void> Runners::evict_idle() {
  const std::int64_t oldest = store::steady_ms() - ledger_.rules().runs.runner_idle_ms;
  std::vector<std::pair<std::string, std::int64_t>> evicted;  // with the time at which each took its last run
  for (auto runner = all_.begin(); runner != all_.end();) {
    auto& [name, sessions] = *runner;
    std::int64_t last = 0;
    for (const auto& [place, taken] : sessions) last = std::max(last, taken.time);
    std::erase_if(sessions, [oldest](const auto& session) { return session.second.steady_ms < oldest; });
    if (sessions.empty() && last != 0) evicted.emplace_back(name, last);
    runner = sessions.empty() ? all_.erase(runner) : std::next(runner);
  }
  for (const auto& [name, last] : evicted) {
    json::ObjectWriter data;
    data.string("runner", name);
    data.integer("lastAt", last);
    const auto told = co_await ledger_.announce(journal::EventType::runner_evicted, data.text(), "sessiond");
    if (!told) log::warn("eviction_not_told", {{"runner", name}, {"error", told.error().detail}});
  }
}

}  // namespace sessiond::leases

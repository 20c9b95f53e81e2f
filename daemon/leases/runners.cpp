#include "daemon/leases/runners.hpp"

#include <algorithm>
#include <vector>

#include "daemon/runtime/log.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t looks_in_idle_time = 10;
constexpr std::int64_t longest_pause_ms = 60'000;

}  // namespace

Runners::Runners(ledger::Ledger& ledger)
    : ledger_(ledger),
      clock_(ledger.parts().env.clock),
      background_(ledger.parts().env.io),
      next_look_(ledger.parts().env.io, clock_, [this](std::monostate) {
        background_.run(evict_idle(), "evict_idle_runners");
        look_for_idle_later();
      }) {}

void Runners::start() {
  look_for_idle_later();
  background_.run(next_look_.run(), "runners");
}

asio::awaitable<void> Runners::stop() {
  next_look_.stop();
  co_await background_.wait_until_all_ended();
}

void Runners::look_for_idle_later() {
  const std::int64_t idle_ms = ledger_.rules().runs.runner_idle_ms;
  next_look_.set({}, next_look_.now() + std::min(idle_ms / looks_in_idle_time, longest_pause_ms));
}

void Runners::see(const decide::Change& event) {
  using journal::EventType;
  const bool deletes = event.envelope.type == EventType::session_deleted;
  if (!deletes && event.envelope.type != EventType::run_started) return;
  const Place place{event.envelope.agent, event.envelope.key};
  if (deletes) {
    for (auto& [runner, sessions] : all_) sessions.erase(place);
    return;
  }
  if (const auto* told = event.as<decide::RunTold>())
    all_[told->run.runner][place] = {.time = clock_.wall_ms(), .steady_ms = clock_.steady_ms()};
}

asio::awaitable<void> Runners::evict_idle() {
  const std::int64_t oldest = clock_.steady_ms() - ledger_.rules().runs.runner_idle_ms;
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

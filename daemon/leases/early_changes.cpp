#include "daemon/leases/early_changes.hpp"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "daemon/decide/commands.hpp"
#include "daemon/leases/take_up.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t tell_again_ms = 1'000;  // when the loss could not be told
constexpr std::int64_t longest_nap_ms = 60'000;

}  // namespace

EarlyChanges::EarlyChanges(ledger::Ledger& ledger)
    : ledger_(ledger), timer_(ledger.parts().env.io), background_(ledger.parts().env.io) {}

void EarlyChanges::start() {
  background_.run(take_up(ledger::all_in_memory(ledger_.parts().agents)), "take_up_early_changes");
  background_.run(run(), "early_changes");
}

asio::awaitable<void> EarlyChanges::stop() {
  stopping_ = true;
  timer_.cancel();
  co_await background_.wait_until_all_ended();
}

asio::awaitable<void> EarlyChanges::take_up(std::set<std::string> recovered) {
  const auto may_be_open = [&paths = ledger_.parts().env.paths](const std::string& agent) {
    return ledger::may_have_early_changes(ledger::early_file(paths, agent));
  };
  const auto take = [this](const decide::AgentState& state) {
    const journal::AgeClock& clock = ledger_.parts().commits.clock();
    for (const decide::EarlyChange* change : state.early.all())
      if (!kept_.contains(change->id))
        keep(state.id(), *change, clock.rest_of(change->until - change->at, change->at, change->age_at));
  };
  co_await take_up_open(
      ledger_, {.what = "early changes", .recovered = std::move(recovered), .may_be_open = may_be_open, .take = take},
      stopping_);
}

void EarlyChanges::keep(const std::string& agent, const decide::EarlyChange& change, std::int64_t rest) {
  const std::int64_t most = std::max<std::int64_t>(change.until - change.at, 0);
  kept_[change.id].agent = agent;
  set_until(change.id, store::steady_ms() + std::clamp<std::int64_t>(rest, 0, most));
  timer_.cancel();
}

void EarlyChanges::set_until(const std::string& id, std::int64_t until) {
  Kept& kept = kept_.at(id);
  due_.erase({kept.until, id});
  kept.until = until;
  due_.emplace(until, id);
}

void EarlyChanges::forget(const std::string& id) {
  if (const auto known = kept_.extract(id)) due_.erase({known.mapped().until, id});
}

void EarlyChanges::see(const journal::Event& event) {
  using journal::EventType;
  const EventType type = event.envelope.type;
  if (type == EventType::message_change_taken || type == EventType::message_change_lost)
    return forget(json::string_at(event.data, "changeId").value_or(""));
  if (type != EventType::message_change_early) return;
  const decide::EarlyChange change = decide::read_early(event.data);
  keep(event.envelope.agent, change, change.until - change.at);
}

asio::awaitable<void> EarlyChanges::run() {
  while (!stopping_) {
    const std::int64_t now = store::steady_ms();
    const std::int64_t next = std::min(look(now), now + longest_nap_ms);
    timer_.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(next - now, 1)));
    boost::system::error_code woken;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

std::int64_t EarlyChanges::look(std::int64_t now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const std::string id = due_.begin()->second;
    set_until(id, now + tell_again_ms);  // its event comes before
    background_.run(lose(kept_.at(id).agent, id), "lose_early_change");
  }
  return due_.empty() ? INT64_MAX : due_.begin()->first;
}

asio::awaitable<void> EarlyChanges::lose(std::string agent, std::string id) {
  const auto lost = co_await ledger_.commit(
      agent, {.actor = "sessiond"},
      [&id](const decide::AgentState& state, const decide::Context& context, const decide::FetchedLines&) {
        return decide::decide(state, decide::LoseChange{.id = id}, context);
      });
  if (lost || lost.error().code == Code::agent_not_found) co_return forget(id);
  log::warn("loss_of_change_not_told",
            {{"agent", agent}, {"change", id}, {"error", lost.error().detail}, {"next", "trying again"}});
}

}  // namespace sessiond::leases

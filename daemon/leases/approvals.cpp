#include "daemon/leases/approvals.hpp"

#include <algorithm>

#include "daemon/decide/approval_commands.hpp"
#include "daemon/leases/take_up.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t deny_again_ms = 1'000;  // when an approval could not be denied

}  // namespace

Approvals::Approvals(ledger::Ledger& ledger)
    : ledger_(ledger),
      clock_(ledger.parts().env.clock),
      background_(ledger.parts().env.io),
      deadlines_(ledger.parts().env.io, clock_,
                 [this](const std::string& id) {
                   deadlines_.set(id, deadlines_.now() + deny_again_ms);  // its event comes before
                   background_.run(expire(open_.at(id), id), "expire_approval");
                 }),
      polls_(ledger.parts().env.io, clock_) {}

void Approvals::start() {
  background_.run(take_up(ledger::all_in_memory(ledger_.parts().agents)), "take_up_approvals");
  background_.run(deadlines_.run(), "approvals");
}

asio::awaitable<void> Approvals::stop() {
  deadlines_.stop();
  co_await background_.wait_until_all_ended();
}

asio::awaitable<void> Approvals::take_up(std::set<std::string> recovered) {
  co_await take_up_open(ledger_,
                        {.what = "approvals",
                         .recovered = std::move(recovered),
                         .may_be_open = may_have_runs(ledger_),  // only an active run has open approvals
                         .take = [this](const decide::AgentState& state) { take_up_agent(state); }},
                        deadlines_.is_stopped());
  is_taken_up_ = true;
  taken_up_.release(UINT64_MAX);
}

void Approvals::take_up_agent(const decide::AgentState& state) {
  const std::int64_t wall = clock_.wall_ms();
  const std::int64_t age = ledger_.parts().commits.clock().now();
  for (const auto& [key, runs] : state.runs.sessions()) {
    for (const decide::Approval& approval : runs.approvals.all()) {
      if (!approval.is_open() || open_.contains(approval.id)) continue;
      const std::int64_t rest = std::max(approval.deadline - wall, approval.age_deadline - age);
      keep({state.id(), key}, approval, rest);
    }
  }
}

void Approvals::keep(const Place& place, const decide::Approval& approval, std::int64_t rest) {
  const std::int64_t most = std::max<std::int64_t>(approval.deadline - approval.asked_at, 0);
  open_[approval.id] = place;
  deadlines_.set(approval.id, deadlines_.now() + std::clamp<std::int64_t>(rest, 0, most));
}

void Approvals::forget(const std::string& id) {
  open_.erase(id);
  deadlines_.erase(id);
  polls_.wake([&id](const std::string& of) { return of == id; });
}

void Approvals::see(const decide::Change& event) {
  const auto* approval = event.as<decide::Approval>();
  if (approval == nullptr) return;
  if (!approval->is_open()) return forget(approval->id);
  keep({event.envelope.agent, event.envelope.key}, *approval, approval->deadline - approval->asked_at);
}

asio::awaitable<void> Approvals::expire(Place place, std::string id) {
  const auto& [agent, key] = place;
  ledger::Requester by{.actor = "sessiond"};
  by.in_memory = ledger_.parts().memory.holding(agent, key) != nullptr;
  const decide::ExpireApproval command{.target = {.key = key}, .id = id};
  const auto denied = co_await ledger_.commit(
      agent, std::move(by),
      [&command](const decide::AgentState& state, const decide::Context& context, const decide::FetchedLines&) {
        return decide::decide(state, command, context);
      });
  if (denied) co_return forget(id);
  log::warn(
      "approval_not_denied",
      {{"agent", agent}, {"key", key}, {"approval", id}, {"error", denied.error().detail}, {"next", "trying again"}});
}

asio::awaitable<std::set<Approvals::Place>> Approvals::places() {
  if (!is_taken_up_) co_await taken_up_.wait(1);
  std::set<Place> places;
  for (const auto& [id, place] : open_) places.insert(place);
  co_return places;
}

asio::awaitable<Result<void>> Approvals::follow(Wish wish) {
  runtime::LongPoll<std::string>::Place place(polls_, wish.id, clock_.steady_ms() + wish.wait_ms, wish.gone);
  for (;;) {
    CO_TRY(const bool decided, co_await wish.look());
    if (decided && !place.is_gone()) co_return Result<void>{};
    const auto woken = co_await place.wait();
    if (woken == runtime::Woken::gone) co_return runtime::client_has_gone();
    if (woken != runtime::Woken::news) co_return Result<void>{};
  }
}

}  // namespace sessiond::leases

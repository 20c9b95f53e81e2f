#include "daemon/leases/approvals.hpp"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <vector>

#include "daemon/decide/approval_commands.hpp"
#include "daemon/leases/take_up.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t deny_again_ms = 1'000;  // when an approval could not be denied
constexpr std::int64_t longest_look_ms = 60'000;

}  // namespace

Approvals::Approvals(ledger::Ledger& ledger)
    : ledger_(ledger), timer_(ledger.parts().env.io), background_(ledger.parts().env.io) {}

void Approvals::start() {
  background_.run(take_up(ledger::all_in_memory(ledger_.parts().agents)), "take_up_approvals");
  background_.run(run(), "approvals");
}

asio::awaitable<void> Approvals::stop() {
  stopping_ = true;
  timer_.cancel();
  co_await background_.wait_until_all_ended();
}

void Approvals::drain() {
  for (Waiter& waiter : waiting_) waiter.timer.cancel();
}

asio::awaitable<void> Approvals::take_up(std::set<std::string> recovered) {
  co_await take_up_open(ledger_,
                        {.what = "approvals",
                         .recovered = std::move(recovered),
                         .may_be_open = may_have_runs(ledger_),  // only an active run has open approvals
                         .take = [this](const decide::AgentState& state) { take_up_agent(state); }},
                        stopping_);
  is_taken_up_ = true;
  taken_up_.release(UINT64_MAX);
}

void Approvals::take_up_agent(const decide::AgentState& state) {
  const std::int64_t wall = store::unix_ms();
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
  open_[approval.id].place = place;
  set_until(approval.id, store::steady_ms() + std::clamp<std::int64_t>(rest, 0, most));
  timer_.cancel();
}

void Approvals::set_until(const std::string& id, std::int64_t until) {
  Open& open = open_.at(id);
  due_.erase({open.until, id});
  open.until = until;
  due_.emplace(until, id);
}

void Approvals::forget(const std::string& id) {
  if (const auto known = open_.extract(id)) due_.erase({known.mapped().until, id});
  for (Waiter& waiter : waiting_) {
    if (waiter.id != id) continue;
    waiter.decided = true;
    waiter.timer.cancel();
  }
}

void Approvals::see(const journal::Event& event) {
  using journal::EventType;
  const EventType type = event.envelope.type;
  if (type == EventType::approval_resolved) return forget(json::string_at(event.data, "id").value_or(""));
  if (type != EventType::approval_requested) return;
  const decide::Approval approval = decide::read_approval(event.data);
  keep({event.envelope.agent, event.envelope.key}, approval, approval.deadline - approval.asked_at);
}

asio::awaitable<void> Approvals::run() {
  while (!stopping_) {
    const std::int64_t now = store::steady_ms();
    const std::int64_t next = std::min(look(now), now + longest_look_ms);
    timer_.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(next - now, 1)));
    boost::system::error_code woken;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

std::int64_t Approvals::look(std::int64_t now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const std::string id = due_.begin()->second;
    set_until(id, now + deny_again_ms);  // its event comes before
    background_.run(expire(open_.at(id).place, id), "expire_approval");
  }
  return due_.empty() ? INT64_MAX : due_.begin()->first;
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
  for (const auto& [id, open] : open_) places.insert(open.place);
  co_return places;
}

asio::awaitable<Result<void>> Approvals::follow(Wish wish, const bool& draining) {
  const std::int64_t deadline = store::steady_ms() + wish.wait_ms;
  // It stands in the list before it looks, so that no answer passes in between.
  const auto waiter = waiting_.insert(
      waiting_.end(), {.id = wish.id, .timer = asio::steady_timer(ledger_.parts().env.io), .decided = false});
  const std::shared_ptr<void> leave(nullptr, [this, waiter](void*) { waiting_.erase(waiter); });
  for (;;) {
    waiter->decided = false;
    CO_TRY(const bool decided, co_await wish.look());
    if (wish.gone && wish.gone())
      co_return fail(Code::request_timeout, "the client has gone, or its token is not valid any more");
    if (decided || draining || store::steady_ms() >= deadline) co_return Result<void>{};
    if (waiter->decided) continue;
    waiter->timer.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(deadline - store::steady_ms(), 1)));
    boost::system::error_code woken;
    co_await waiter->timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

}  // namespace sessiond::leases

#include "daemon/leases/claims.hpp"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "daemon/ledger/show.hpp"
#include "store/clock.hpp"
#include "store/try.hpp"

namespace sessiond::leases {

std::optional<std::pair<std::string, std::string>> Claims::find(const decide::AgentState& state, const Wish& wish,
                                                                const std::set<std::string>& passed_over) const {
  for (const auto& [since, key] : state.runs.waiting()) {
    const decide::Session* session = state.find_key(key);
    const bool is_free = !offered_.contains({state.id(), key}) && !held_.contains({state.id(), key});
    if (session == nullptr || session->archived_at || !is_free || passed_over.contains(key)) continue;
    const decide::Run& first = state.runs.find(key)->queued.front();
    if (leases_.is_debounced(state.id(), key, first.id) || !wish.wants(state, *session)) continue;
    return std::pair(key, first.id);
  }
  return {};
}

void Claims::ready(const std::string& agent, const std::string& key) {
  if (waiting_.empty()) return;
  const decide::AgentState* state = ledger::loaded_state(ledger_.parts(), agent, key);
  const decide::Session* session = state == nullptr ? nullptr : state->find_key(key);
  const decide::SessionRuns* runs = state == nullptr ? nullptr : state->runs.find(key);
  const bool waits = session != nullptr && runs != nullptr && runs->may_start() &&
                     !leases_.is_debounced(agent, key, runs->queued.front().id) && !offered_.contains({agent, key}) &&
                     !held_.contains({agent, key});
  if (!waits) return;
  Waiter* best = nullptr;
  for (Waiter& waiter : waiting_) {
    const Wish& wish = *waiter.wish;
    if (waiter.offer || wish.agent != agent || (wish.gone && wish.gone()) || !wish.wants(*state, *session)) continue;
    if (best == nullptr) best = &waiter;
    if (wish.runner != runs->last_runner) continue;
    best = &waiter;
    break;
  }
  if (best == nullptr) return;
  best->offer = key;
  offered_.insert({agent, key});
  best->timer.cancel();
}

// An offer is over. If the run still waits, another runner gets it.
void Claims::free(const std::string& agent, const std::string& key) {
  offered_.erase({agent, key});
  ready(agent, key);
}

asio::awaitable<Result<std::optional<ledger::Reply>>> Claims::claim(Wish wish, const bool& draining) {
  using Found = std::optional<std::pair<std::string, std::string>>;
  const std::int64_t deadline = store::steady_ms() + wish.wait_ms;
  std::set<std::string> passed_over;  // keys of sessions whose run could not be taken
  std::optional<Problem> failed;
  // Listed before the first look: a run that is queued between a look and the wait is offered, and not missed.
  const auto place =
      waiting_.insert(waiting_.end(), {.wish = &wish, .timer = asio::steady_timer(ledger_.parts().env.io)});
  const std::shared_ptr<void> leave(nullptr, [&](void*) {
    const std::optional<std::string> offer = place->offer;
    waiting_.erase(place);
    if (offer) free(wish.agent, *offer);
  });
  for (;;) {
    if (place->offer) offered_.erase({wish.agent, *std::exchange(place->offer, {})});  // looked for just below
    auto looked =
        co_await ledger_.show(wish.agent, false, [&](const decide::AgentState& state, ledger::Seen&) -> Result<Found> {
          return find(state, wish, passed_over);
        });
    const bool absent = !looked && looked.error().code == Code::agent_not_found;  // it has no run yet
    if (!looked && !absent) co_return std::unexpected(std::move(looked.error()));
    Found found = absent ? Found() : std::move(*looked);
    const decide::AgentState* ephemeral = ledger_.parts().memory.of(wish.agent);
    if (!found && ephemeral != nullptr) found = find(*ephemeral, wish, passed_over);
    if (wish.gone && wish.gone())
      co_return fail(Code::request_timeout, "the client has gone, or its token is not valid any more");
    const bool waits = found && leases_.is_debounced(wish.agent, found->first, found->second);  // it was just queued
    if (found && !waits && !offered_.contains({wish.agent, found->first}) &&
        !held_.contains({wish.agent, found->first})) {
      const Place taken{wish.agent, found->first};
      offered_.insert(taken);
      const std::shared_ptr<void> over(nullptr, [this, &taken](void*) { free(taken.first, taken.second); });
      auto reply = co_await wish.take(found->first, found->second);
      if (reply && *reply) co_return reply;
      if (!reply) {  // the others go on
        failed = std::move(reply.error());
        passed_over.insert(found->first);
      }
      if (!draining) continue;
    }
    if (draining || store::steady_ms() >= deadline) {
      if (failed) co_return std::unexpected(std::move(*failed));
      co_return std::nullopt;
    }
    if (place->offer) continue;
    place->timer.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(deadline - store::steady_ms(), 1)));
    boost::system::error_code woken;
    co_await place->timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

std::shared_ptr<void> Claims::hold(const std::string& agent, const std::string& key, Hold hold) {
  const Place place{agent, key};
  held_[place] = std::move(hold);
  return {nullptr, [this, place](void*) {
            held_.erase(place);
            ready(place.first, place.second);
          }};
}

const Claims::Hold* Claims::held(const std::string& agent, const std::string& key) const {
  const auto found = held_.find({agent, key});
  return found == held_.end() ? nullptr : &found->second;
}

void Claims::drain() {
  for (Waiter& waiter : waiting_) waiter.timer.cancel();
}

}  // namespace sessiond::leases

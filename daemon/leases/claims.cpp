#include "daemon/leases/claims.hpp"

#include "daemon/ledger/show.hpp"
#include "store/try.hpp"

namespace sessiond::leases {

bool Claims::is_free(const std::string& agent, const std::string& key, const std::string& run_id) const {
  return !leases_.is_debounced(agent, key, run_id) && !offered_.contains({agent, key}) && !held_.contains({agent, key});
}

Claims::Found Claims::find(const decide::AgentState& state, const Wish& wish,
                           const std::set<std::string>& passed_over) const {
  for (const auto& [since, key] : state.runs.waiting()) {
    const decide::Session* session = state.find_key(key);
    if (session == nullptr || session->archived_at || passed_over.contains(key)) continue;
    const decide::Run& first = state.runs.find(key)->queued.front();
    if (is_free(state.id(), key, first.id) && wish.wants(state, *session)) return std::pair(key, first.id);
  }
  return {};
}

void Claims::ready(const std::string& agent, const std::string& key) {
  if (polls_.places().empty()) return;
  const decide::AgentState* state = ledger::loaded_state(ledger_.parts(), agent, key);
  const decide::Session* session = state == nullptr ? nullptr : state->find_key(key);
  const decide::SessionRuns* runs = state == nullptr ? nullptr : state->runs.find(key);
  if (session == nullptr || runs == nullptr || !runs->may_start() || !is_free(agent, key, runs->queued.front().id))
    return;
  Polls::Place* best = nullptr;
  for (Polls::Place* place : polls_.places()) {
    const auto& [wish, offer] = place->topic;
    if (*offer || wish->agent != agent || place->is_gone() || !wish->wants(*state, *session)) continue;
    if (best == nullptr) best = place;
    if (wish->runner != runs->last_runner) continue;
    best = place;
    break;
  }
  if (best == nullptr) return;
  *best->topic.key = key;
  offered_.insert({agent, key});
  best->tell();
}

// An offer is over. If the run still waits, another runner gets it.
void Claims::free(const std::string& agent, const std::string& key) {
  offered_.erase({agent, key});
  ready(agent, key);
}

asio::awaitable<Result<Claims::Found>> Claims::look(const Wish& wish, const std::set<std::string>& passed_over) {
  auto looked = co_await ledger_.show(
      wish.agent, false,
      [&](const decide::AgentState& state, ledger::Seen&) -> Result<Found> { return find(state, wish, passed_over); });
  const bool absent = !looked && looked.error().code == Code::agent_not_found;  // it has no run yet
  if (!looked && !absent) co_return looked;
  Found found = absent ? Found() : std::move(*looked);
  const decide::AgentState* ephemeral = ledger_.parts().memory.of(wish.agent);
  if (!found && ephemeral != nullptr) found = find(*ephemeral, wish, passed_over);
  co_return found;
}

asio::awaitable<Result<std::optional<ledger::Reply>>> Claims::claim(Wish wish) {
  std::set<std::string> passed_over;  // keys of sessions whose run could not be taken
  std::optional<Problem> failed;
  std::optional<std::string> offer;  // a key
  // Called when the place is given up: another gets what was offered last.
  const std::shared_ptr<void> leave(nullptr, [&](void*) {
    if (offer) free(wish.agent, *offer);
  });
  Polls::Place place(polls_, {.wish = &wish, .key = &offer}, ledger_.parts().env.clock.steady_ms() + wish.wait_ms,
                     wish.gone);
  for (;;) {
    if (offer) offered_.erase({wish.agent, *std::exchange(offer, {})});  // looked for just below
    CO_TRY(const Found found, co_await look(wish, passed_over));
    if (place.is_gone()) co_return runtime::client_has_gone();
    if (found && is_free(wish.agent, found->first, found->second)) {  // it may have been offered meanwhile
      const Place taken{wish.agent, found->first};
      offered_.insert(taken);
      const std::shared_ptr<void> over(nullptr, [this, &taken](void*) { free(taken.first, taken.second); });
      auto reply = co_await wish.take(found->first, found->second);
      if (reply && *reply) co_return reply;
      if (!reply) {  // the others go on
        failed = std::move(reply.error());
        passed_over.insert(found->first);
      }
      if (!polls_.is_draining()) continue;
    }
    const auto woken = co_await place.wait();
    if (woken == runtime::Woken::news) continue;
    if (woken == runtime::Woken::gone) co_return runtime::client_has_gone();
    if (failed) co_return std::unexpected(std::move(*failed));
    co_return std::nullopt;
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

}  // namespace sessiond::leases

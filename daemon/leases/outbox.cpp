#include "daemon/leases/outbox.hpp"

#include <algorithm>

#include "daemon/leases/take_up.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/ledger/show.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t least_rest_of_lease_ms = 10'000;  // after a restart, if it was as long
constexpr std::int64_t end_again_ms = 1'000;             // when a delivery could not be ended
constexpr std::int64_t most_between_looks_ms = 60'000;   // at adoptions
constexpr auto adoptions_look = "adoptions";             // no delivery has this id

template <class Command>
ledger::Decide decide_by(Command command) {
  return
      [command = std::move(command)](const decide::AgentState& state, const decide::Context& context,
                                     const decide::FetchedLines&) { return decide::decide(state, command, context); };
}

}  // namespace

Outbox::Outbox(ledger::Ledger& ledger)
    : ledger_(ledger),
      clock_(ledger.parts().env.clock),
      adopter_(ledger),
      background_(ledger.parts().env.io),
      deadlines_(ledger.parts().env.io, clock_,
                 [this](const std::string& id) {
                   if (id != adoptions_look) return delivery_is_due(id);
                   background_.run(look_at_adoptions(), "adoptions");
                   look_at_adoptions_later();
                 }),
      polls_(ledger.parts().env.io, clock_) {}

void Outbox::start() {
  background_.run(take_up(ledger::all_in_memory(ledger_.parts().agents)), "take_up_deliveries");
  look_at_adoptions_later();
  background_.run(deadlines_.run(), "outbox");
}

asio::awaitable<void> Outbox::stop() {
  deadlines_.stop();
  polls_.drain();
  taken_up_.release(UINT64_MAX);
  co_await background_.wait_until_all_ended();
}

asio::awaitable<void> Outbox::take_up(std::set<std::string> recovered) {
  const auto file_of = [this](const std::string& agent) {
    return ledger::outbox_file(ledger_.parts().env.paths, agent);
  };
  const auto known = ledger::agents_with_book(ledger_.parts().agents, &ledger::BooksOnDisk::outbox);
  auto agents = co_await ledger_.agent_ids();
  agents = co_await runtime::run_on(ledger_.parts().env.disk.get_executor(), [&] {
    std::erase_if(agents,
                  [&](const std::string& agent) { return !known.contains(agent) && !store::stat_of(file_of(agent)); });
    return std::move(agents);
  });
  for (const std::string& agent : agents) agents_[agent];
  co_await take_up_open(ledger_,
                        {.what = "deliveries",
                         .recovered = std::move(recovered),
                         .may_be_open =
                             [&](const std::string& agent) {
                               return ledger::may_have_open_deliveries(file_of(agent), ledger::seq_of(known, agent));
                             },
                         .take =
                             [this](const decide::AgentState& state) {
                               if (state.deliveries.all().empty()) return;
                               agents_[state.id()] = state.deliveries.counts();
                               for (const auto& [id, delivery] : state.deliveries.all())
                                 if (delivery.is_unsent() && !kept_.contains(id)) take_up_one(state, delivery);
                             },
                         .on_failure = [this](const std::string& agent) { agents_[agent]; }},
                        deadlines_.is_stopped());
  is_taken_up_ = !deadlines_.is_stopped();
  taken_up_.release(UINT64_MAX);
}

void Outbox::take_up_one(const decide::AgentState& state, const decide::Delivery& delivery) {
  const std::int64_t now = clock_.steady_ms();
  const std::int64_t wall = clock_.wall_ms();
  const std::int64_t most = ledger_.rules().deliveries.max_age_ms;
  const std::int64_t rest = ledger_.parts().commits.clock().rest_of(most, delivery.created_at, delivery.age_created_at);
  Kept& kept = kept_[delivery.id];
  kept = {.place = {.agent = state.id(),
                    .key = delivery.key,
                    .channel = delivery.channel,
                    .account_id = delivery.account_id},
          .attempt = delivery.attempt};
  kept.too_old = now + rest;
  if (delivery.status == decide::DeliveryStatus::leased)
    kept.lease_until = now + std::clamp(delivery.lease_until - wall,
                                        std::min(delivery.lease_ms, least_rest_of_lease_ms), delivery.lease_ms);
  // A clock that was set back must not make it wait for longer than it was to wait at first.
  if (delivery.next_at > wall) kept.ready = now + std::min(delivery.next_at - wall, delivery.wait_ms);
  schedule(delivery.id, kept);
}

// Looks at the state for what has become of a delivery that could not be ended.
asio::awaitable<void> Outbox::take_up_again(std::string agent, std::string id) {
  static_cast<void>(
      co_await ledger_.show(agent, false, [&](const decide::AgentState& state, ledger::Seen&) -> Result<bool> {
        agents_[agent] = state.deliveries.counts();
        const decide::Delivery* delivery = state.deliveries.find(id);
        if (delivery == nullptr || !delivery->is_unsent())
          forget(id);
        else
          take_up_one(state, *delivery);
        return true;
      }));
}

asio::awaitable<void> Outbox::wait_until_taken_up() {
  if (!is_taken_up_ && !deadlines_.is_stopped()) co_await taken_up_.wait(1);
}

asio::awaitable<std::vector<std::string>> Outbox::agents_with(std::string_view id) {
  const std::string wanted(id);
  co_await wait_until_taken_up();
  std::vector<std::string> agents;
  for (const auto& [agent, counts] : agents_)
    if (wanted.empty() || wanted.ends_with(decide::delivery_id_ending(agent))) agents.push_back(agent);
  co_return agents;
}

decide::DeliveryBook::Counts Outbox::counts() const {
  decide::DeliveryBook::Counts all;
  for (const auto& [agent, counts] : agents_) {
    all.pending += counts.pending;
    all.leased += counts.leased;
    all.failed += counts.failed;
    if (counts.oldest != 0 && (all.oldest == 0 || counts.oldest < all.oldest)) all.oldest = counts.oldest;
  }
  return all;
}

void Outbox::see(const decide::Change& event) {
  using journal::EventType;
  if (event.envelope.seq == 0) return;
  const std::string& agent = event.envelope.agent;
  const auto* message = event.as<decide::MessageAppended>();
  const decide::DeliveryOffer* offer =
      message != nullptr && message->offer && message->delivers ? &*message->offer : nullptr;
  static const decide::DeliveryTold nothing_yet;
  const auto* since = event.as<decide::DeliveryTold>();
  const decide::DeliveryTold& told = since != nullptr ? *since : nothing_yet;
  const std::string& id = offer != nullptr ? offer->id : told.id;
  if (id.empty()) return;  // it is not about a delivery, or the event is all of it
  const decide::AgentState* state = ledger::loaded_state(ledger_.parts(), agent, {});
  if (state != nullptr) agents_[agent] = state->deliveries.counts();
  const std::int64_t now = clock_.steady_ms();
  if (event.envelope.type == EventType::delivery_sent || event.envelope.type == EventType::delivery_failed) {
    const auto known = kept_.extract(id);
    if (known.empty()) return;  // it had ended before
    deadlines_.erase(id);
    return wake_claims(known.mapped().place);  // the next of the conversation
  }
  Kept& kept = kept_[id];
  if (kept.place.agent.empty()) {
    const decide::Delivery* delivery = state == nullptr ? nullptr : state->deliveries.find(id);
    kept.place = {.agent = agent,
                  .key = event.envelope.key,
                  .channel = event.envelope.about_channel(),
                  .account_id = delivery != nullptr ? delivery->account_id
                                : offer != nullptr  ? offer->account_id.value_or("")
                                                    : ""};
  }
  kept.attempt = told.attempt;
  kept.lease_until = kept.ready = 0;
  if (event.envelope.type == EventType::delivery_leased) kept.lease_until = now + told.lease_ms;
  if (told.wait_ms.value_or(0) != 0) kept.ready = now + *told.wait_ms;
  if (offer != nullptr || event.envelope.type == EventType::delivery_queued || kept.too_old == 0)
    kept.too_old = now + ledger_.rules().deliveries.max_age_ms;
  schedule(id, kept);
  if (event.envelope.type != EventType::delivery_leased) wake_claims(kept.place);
}

void Outbox::forget(const std::string& id) {
  kept_.erase(id);
  deadlines_.erase(id);
}

void Outbox::schedule(const std::string& id, const Kept& kept) {
  deadlines_.set(id, kept.lease_until != 0 ? kept.lease_until
                     : kept.ready != 0     ? std::min(kept.ready, kept.too_old)
                                           : kept.too_old);
}

bool Outbox::waits(const std::string& id) const {
  const auto found = kept_.find(id);
  return found != kept_.end() && found->second.ready > clock_.steady_ms();
}

void Outbox::wake_claims(const Place& place) {
  polls_.wake([&place](const decide::Adoption& part) {
    return part.covers(place.agent, place.key, place.channel, place.account_id);
  });
}

void Outbox::look_at_adoptions_later() {
  const std::int64_t in = ledger_.rules().deliveries.adopt_ms / 10;
  deadlines_.set(adoptions_look, deadlines_.now() + std::clamp<std::int64_t>(in, 100, most_between_looks_ms));
}

// The adoption of a claim that waits does not grow old.
asio::awaitable<void> Outbox::look_at_adoptions() {
  for (const auto* place : polls_.places())
    if (!place->is_gone()) adopter_.renew(place->topic);
  co_await adopter_.drop_old();
}

void Outbox::delivery_is_due(const std::string& id) {
  const std::int64_t now = clock_.steady_ms();
  Kept& kept = kept_.at(id);
  const bool is_leased = kept.lease_until != 0;
  const bool is_too_old = !is_leased && kept.too_old <= now;
  if (is_leased) kept.lease_until = now + end_again_ms;  // its event comes before
  if (is_too_old) kept.too_old = now + end_again_ms;
  if (!is_leased) kept.ready = 0;
  schedule(id, kept);
  if (is_leased || is_too_old)
    background_.run(end(id, kept.place.agent, kept.attempt, is_too_old), "end_delivery");
  else
    wake_claims(kept.place);
}

asio::awaitable<void> Outbox::end(std::string id, std::string agent, std::int64_t attempt, bool too_old) {
  const auto ended =
      co_await ledger_.commit(agent, ledger::Requester{.actor = "sessiond"},
                              decide_by(decide::ExpireDelivery{.id = id, .attempt = attempt, .too_old = too_old}));
  if (ended && ended->status != 204) co_return;
  if (ended) co_return co_await take_up_again(agent, id);
  if (ended.error().code == Code::agent_not_found) co_return forget(id);
  log::warn("delivery_not_ended",
            {{"agent", agent}, {"delivery", id}, {"error", ended.error().detail}, {"next", "trying again"}});
}

// Claims what there is now for this wish, of one agent after the other. Empty: nothing.
asio::awaitable<Result<std::vector<std::string>>> Outbox::claim_now(const Wish& wish) {
  const auto wants = [&wish](const decide::AgentState& state, const decide::Delivery& delivery) {
    return wish.part.covers(state.id(), delivery.key, delivery.channel, delivery.account_id) &&
           wish.sees(state, delivery);
  };
  std::vector<std::string> claimed;
  std::size_t left = wish.limit;
  std::size_t bytes = 0;
  std::vector<std::string> agents;
  for (const auto& [agent, counts] : agents_)
    if (counts.pending != 0) agents.push_back(agent);
  for (const std::string& agent : agents) {
    if (left == 0) break;
    if (!wish.part.agents.empty() && std::ranges::find(wish.part.agents, agent) == wish.part.agents.end()) continue;
    if (wish.gone && wish.gone()) break;
    const decide::ClaimDeliveries command{.wants = wants,
                                          .waits = [this](const std::string& id) { return waits(id); },
                                          .limit = left,
                                          .taken_bytes = bytes,
                                          .lease_ms = wish.lease_ms};
    auto reply = co_await ledger_.commit(agent, ledger::Requester{.actor = wish.actor}, decide_by(command));
    if (!reply && wish.tells_failure) co_return std::unexpected(std::move(reply.error()));
    if (!reply || reply->status == 204) continue;  // an agent that cannot be served holds up no other one
    for ([[maybe_unused]] const std::string_view each : json::elements(reply->body)) --left;
    bytes += reply->body.size();
    claimed.push_back(std::move(reply->body));
  }
  co_return claimed;
}

asio::awaitable<Result<std::vector<std::string>>> Outbox::claim(Wish wish) {
  const std::int64_t deadline = clock_.steady_ms() + wish.wait_ms;
  CO_TRY(co_await adopter_.adopt(wish.part));
  co_await wait_until_taken_up();
  runtime::LongPoll<decide::Adoption>::Place place(polls_, wish.part, deadline, wish.gone);
  for (;;) {
    CO_TRY(auto claimed, co_await claim_now(wish));
    if (!claimed.empty()) co_return claimed;
    const auto woken = co_await place.wait();
    if (woken == runtime::Woken::gone) co_return runtime::client_has_gone();
    if (woken != runtime::Woken::news) co_return claimed;
  }
}

}  // namespace sessiond::leases

#include "daemon/leases/early_changes.hpp"

#include <algorithm>

#include "daemon/decide/commands.hpp"
#include "daemon/leases/take_up.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t tell_again_ms = 1'000;  // when the loss could not be told

}  // namespace

EarlyChanges::EarlyChanges(ledger::Ledger& ledger)
    : ledger_(ledger),
      background_(ledger.parts().env.io),
      deadlines_(ledger.parts().env.io, ledger.parts().env.clock, [this](const std::string& id) {
        deadlines_.set(id, deadlines_.now() + tell_again_ms);  // its event comes before
        background_.run(lose(agents_.at(id), id), "lose_early_change");
      }) {}

void EarlyChanges::start() {
  background_.run(take_up(ledger::all_in_memory(ledger_.parts().agents)), "take_up_early_changes");
  background_.run(deadlines_.run(), "early_changes");
}

asio::awaitable<void> EarlyChanges::stop() {
  deadlines_.stop();
  co_await background_.wait_until_all_ended();
}

asio::awaitable<void> EarlyChanges::take_up(std::set<std::string> recovered) {
  const auto may_be_open = [&paths = ledger_.parts().env.paths](const std::string& agent) {
    return ledger::may_have_early_changes(ledger::early_file(paths, agent));
  };
  const auto take = [this](const decide::AgentState& state) {
    const journal::AgeClock& clock = ledger_.parts().commits.clock();
    for (const decide::EarlyChange* change : state.early.all())
      if (!agents_.contains(change->id))
        keep(state.id(), *change, clock.rest_of(change->until - change->at, change->at, change->age_at));
  };
  co_await take_up_open(
      ledger_, {.what = "early changes", .recovered = std::move(recovered), .may_be_open = may_be_open, .take = take},
      deadlines_.is_stopped());
}

void EarlyChanges::keep(const std::string& agent, const decide::EarlyChange& change, std::int64_t rest) {
  const std::int64_t most = std::max<std::int64_t>(change.until - change.at, 0);
  agents_[change.id] = agent;
  deadlines_.set(change.id, deadlines_.now() + std::clamp<std::int64_t>(rest, 0, most));
}

void EarlyChanges::forget(const std::string& id) {
  agents_.erase(id);
  deadlines_.erase(id);
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

#include "daemon/leases/takeovers.hpp"

#include <algorithm>

#include "daemon/decide/takeover_commands.hpp"
#include "daemon/leases/take_up.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t expire_again_ms = 1'000;  // when the hand-back failed

}  // namespace

Takeovers::Takeovers(ledger::Ledger& ledger)
    : ledger_(ledger),
      background_(ledger.parts().env.io),
      deadlines_(ledger.parts().env.io, ledger.parts().env.clock, [this](const Place& place) {
        deadlines_.set(place, deadlines_.now() + expire_again_ms);  // its event comes before
        background_.run(expire(place), "expire_takeover");
      }) {}

void Takeovers::start() {
  background_.run(take_up(ledger::all_in_memory(ledger_.parts().agents)), "take_up_takeovers");
  background_.run(deadlines_.run(), "takeovers");
}

asio::awaitable<void> Takeovers::stop() {
  deadlines_.stop();
  co_await background_.wait_until_all_ended();
}

asio::awaitable<void> Takeovers::take_up(std::set<std::string> recovered) {
  const auto take = [this](const decide::AgentState& state) {
    const std::int64_t wall = ledger_.parts().env.clock.wall_ms();
    const std::int64_t age = ledger_.parts().commits.clock().now();
    for (const std::string& key : state.runs.taken_over()) {
      const decide::Takeover& takeover = *state.runs.find(key)->takeover;
      if (!for_ms_.contains({state.id(), key}))
        keep({state.id(), key}, takeover, std::max(takeover.until - wall, takeover.age_until - age));
    }
  };
  co_await take_up_open(
      ledger_,
      {.what = "takeovers", .recovered = std::move(recovered), .may_be_open = may_have_runs(ledger_), .take = take},
      deadlines_.is_stopped());
}

void Takeovers::keep(const Place& place, const decide::Takeover& takeover, std::int64_t rest) {
  for_ms_[place] = takeover.for_ms;
  deadlines_.set(place, deadlines_.now() + std::clamp<std::int64_t>(rest, 0, takeover.for_ms));
}

void Takeovers::forget(const Place& place) {
  for_ms_.erase(place);
  deadlines_.erase(place);
}

void Takeovers::see(const decide::Change& event) {
  using journal::EventType;
  const EventType type = event.envelope.type;
  const auto* said = event.as<decide::MessageAppended>();
  const bool is_word = said != nullptr && said->word;
  if (type != EventType::session_takeover && type != EventType::session_handback &&
      type != EventType::session_deleted && !is_word)
    return;
  const Place place{event.envelope.agent, event.envelope.key};
  if (is_word) {
    const auto known = for_ms_.find(place);
    if (known != for_ms_.end()) deadlines_.set(place, deadlines_.now() + known->second);
    return;
  }
  if (type != EventType::session_takeover) return forget(place);
  if (const auto* told = event.as<decide::TakeoverTold>()) keep(place, told->takeover, told->takeover.for_ms);
}

asio::awaitable<void> Takeovers::expire(Place place) {
  const auto& [agent, key] = place;
  ledger::Requester by{.actor = "sessiond"};
  by.in_memory = ledger_.parts().memory.holding(agent, key) != nullptr;
  const decide::HandBack command{.target = {.key = key}, .reason = decide::HandBack::Reason::expired};
  // The person may have said something while this waited for its turn.
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines& lines) -> Result<decide::Decision> {
    const decide::SessionRuns* runs = state.runs.find(key);
    const bool is_renewed = runs != nullptr && runs->takeover && runs->takeover->until > context.now &&
                            runs->takeover->age_until > context.age_now;
    decide::Decision nothing;
    nothing.status = 204;
    if (is_renewed) return nothing;
    return decide::decide(state, command, context, lines);
  };
  const auto done = co_await ledger_.commit(agent, std::move(by), decide);
  if (done) co_return;
  if (done.error().code == Code::session_not_found) co_return forget(place);
  log::warn("takeover_not_ended",
            {{"agent", agent}, {"key", key}, {"error", done.error().detail}, {"next", "trying again"}});
}

}  // namespace sessiond::leases

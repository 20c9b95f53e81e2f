#include "daemon/leases/takeovers.hpp"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "daemon/decide/takeover_commands.hpp"
#include "daemon/leases/take_up.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t expire_again_ms = 1'000;  // when the hand-back failed
constexpr std::int64_t longest_wait_ms = 60'000;

}  // namespace

Takeovers::Takeovers(ledger::Ledger& ledger)
    : ledger_(ledger), timer_(ledger.parts().env.io), background_(ledger.parts().env.io) {}

void Takeovers::start() {
  background_.run(take_up(ledger::all_in_memory(ledger_.parts().agents)), "take_up_takeovers");
  background_.run(run(), "takeovers");
}

asio::awaitable<void> Takeovers::stop() {
  stopping_ = true;
  timer_.cancel();
  co_await background_.wait_until_all_ended();
}

asio::awaitable<void> Takeovers::take_up(std::set<std::string> recovered) {
  const auto take = [this](const decide::AgentState& state) {
    const std::int64_t wall = store::unix_ms();
    const std::int64_t age = ledger_.parts().commits.clock().now();
    for (const std::string& key : state.runs.taken_over()) {
      const decide::Takeover& takeover = *state.runs.find(key)->takeover;
      if (!until_.contains({state.id(), key}))
        keep({state.id(), key}, takeover, std::max(takeover.until - wall, takeover.age_until - age));
    }
  };
  co_await take_up_open(
      ledger_,
      {.what = "takeovers", .recovered = std::move(recovered), .may_be_open = may_have_runs(ledger_), .take = take},
      stopping_);
}

void Takeovers::keep(const Place& place, const decide::Takeover& takeover, std::int64_t rest) {
  set_until(place, store::steady_ms() + std::clamp<std::int64_t>(rest, 0, takeover.for_ms), takeover.for_ms);
  timer_.cancel();
}

void Takeovers::set_until(const Place& place, std::int64_t until, std::int64_t for_ms) {
  forget(place);
  until_.emplace(place, Kept{.until = until, .for_ms = for_ms});
  due_.emplace(until, place);
}

void Takeovers::forget(const Place& place) {
  if (const auto known = until_.extract(place)) due_.erase({known.mapped().until, place});
}

void Takeovers::see(const journal::Event& event) {
  using journal::EventType;
  const EventType type = event.envelope.type;
  const bool is_word = type == EventType::message_appended && !until_.empty();
  if (type != EventType::session_takeover && type != EventType::session_handback &&
      type != EventType::session_deleted && !is_word)
    return;
  const Place place{event.envelope.agent, event.envelope.key};
  if (is_word) {
    const auto known = until_.find(place);
    if (known != until_.end() && json::find(event.data, "word"))
      set_until(place, store::steady_ms() + known->second.for_ms, known->second.for_ms);
    return;
  }
  if (type != EventType::session_takeover) return forget(place);
  const decide::Takeover takeover = decide::read_takeover(event.data);
  keep(place, takeover, takeover.for_ms);
}

asio::awaitable<void> Takeovers::run() {
  while (!stopping_) {
    const std::int64_t now = store::steady_ms();
    const std::int64_t next = std::min(look(now), now + longest_wait_ms);
    timer_.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(next - now, 1)));
    boost::system::error_code woken;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

std::int64_t Takeovers::look(std::int64_t now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const Place place = due_.begin()->second;
    set_until(place, now + expire_again_ms, until_.at(place).for_ms);  // its event comes before
    background_.run(expire(place), "expire_takeover");
  }
  return due_.empty() ? INT64_MAX : due_.begin()->first;
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

#include "daemon/ledger/last_session_files.hpp"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/decide/last_session.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/run_on.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::chrono::milliseconds look_interval{250};

struct LastSessionChange {
  std::shared_ptr<Agent> agent;
  std::uint64_t seq = 0;  // of the agent's last event
  std::string last{};     // the session id
  bool written = false;
};

}  // namespace

asio::awaitable<Result<void>> LastSessionFiles::follow_now() {
  std::vector<LastSessionChange> changes;
  std::uint64_t newest = 0;
  for (const auto& [id, agent] : agents_.all()) {
    if (!agent->state || agent->gone || !agent->degraded.empty()) continue;
    const std::uint64_t seq = agent->state->last_seq;
    const bool is_changed = seq != 0;  // since it is ours: reading what another program made writes no file
    if (!is_changed || agent->last_session.looked_at == seq) continue;
    std::string last = decide::last_session_id(*agent->state);
    if (last == agent->last_session.written) {
      agent->last_session.looked_at = seq;
      continue;
    }
    newest = std::max(newest, seq);
    changes.push_back({.agent = agent, .seq = seq, .last = std::move(last)});
  }
  if (changes.empty()) co_return Result<void>{};
  CO_TRY(co_await commits_.wait_until_durable(newest));
  changes =
      co_await runtime::run_on(env_.disk.get_executor(), [&paths = env_.paths, changes = std::move(changes)]() mutable {
        for (LastSessionChange& change : changes)
          change.written = write_last_session(paths, change.agent->id, change.last);
        return std::move(changes);
      });
  for (LastSessionChange& change : changes)
    if (change.written) change.agent->last_session = {.looked_at = change.seq, .written = std::move(change.last)};
  co_return Result<void>{};
}

asio::awaitable<void> LastSessionFiles::run() {
  while (!env_.stopping) {
    if (!commits_.failed()) static_cast<void>(co_await follow());  // a failure is told by the commits
    boost::system::error_code woken;
    timer_.expires_after(look_interval);
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

}  // namespace sessiond::ledger

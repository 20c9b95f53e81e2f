#include "daemon/leases/take_up.hpp"

#include <fmt/format.h>

#include "daemon/ledger/book_files.hpp"
#include "daemon/ledger/show.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"

namespace sessiond::leases {

std::function<bool(const std::string& agent)> may_have_runs(ledger::Ledger& ledger) {
  return
      [&paths = ledger.parts().env.paths,
       known = ledger::agents_with_book(ledger.parts().agents, &ledger::BooksOnDisk::runs)](const std::string& agent) {
        return ledger::may_have_open_runs(ledger::runs_file(paths, agent), ledger::seq_of(known, agent));
      };
}

asio::awaitable<void> take_up_open(ledger::Ledger& ledger, TakeUp how, const bool& stopping) {
  for (const std::string& agent : co_await ledger.agent_ids()) {
    if (stopping) co_return;
    const bool open =
        how.recovered.contains(agent) || co_await runtime::run_on(ledger.parts().env.disk.get_executor(),
                                                                  [&how, &agent] { return how.may_be_open(agent); });
    if (!open) continue;
    const auto taken = co_await ledger.show(agent, false, [&how](const decide::AgentState& state, ledger::Seen&) {
      how.take(state);
      return Result<bool>(true);
    });
    if (taken) continue;
    log::error("not_taken_up", {{"agent", agent},
                                {"what", how.what},
                                {"error", taken.error().detail},
                                {"next", "its deadlines do not pass; mend the agent's store and restart"}});
    if (how.on_failure) how.on_failure(agent);
  }
}

}  // namespace sessiond::leases

#include "daemon/ledger/staging.hpp"

#include <utility>

#include "daemon/ledger/fetch.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
Result<transcripts::StagedTranscript> write_staged(const Paths& paths, const std::string& agent,
                                                   const std::string& file, const WriteStaged& write) {
  TRY(store::resolve_below(paths.root(), paths.sessions_dir(agent)));
  TRY(auto staged, transcripts::StagedTranscript::create(paths.root() / paths.sessions_dir(agent), file));
  TRY(write(staged));
  store::fault_point("staged.written");
  TRY(staged.finish());
  store::fault_point("staged.synced");
  return staged;
}

asio::awaitable<Result<transcripts::StagedTranscript>> stage(Ledger& ledger, std::string agent, std::string file,
                                                             WriteStaged write) {
  const LedgerEnv& env = ledger.parts().env;
  return runtime::run_on(env.disk.get_executor(),
                         [&env, agent = std::move(agent), file = std::move(file), write = std::move(write)] {
                           return write_staged(env.paths, agent, file, write);
                         });
}

asio::awaitable<Result<decide::FetchedIds>> files_of(Ledger& ledger, std::string agent, std::vector<std::string> ids) {
  CO_TRY(co_await ledger.wait_until_durable(ledger.parts().commits.last()));
  co_return co_await fetch_ids(ledger.parts().env, ledger.flusher(), std::move(agent), std::move(ids));
}

asio::awaitable<Result<std::vector<std::string>>> ids_in_memory(
    Ledger& ledger, const std::vector<std::string>& ids, const std::function<bool(const std::string& agent)>& asked) {
  std::vector<std::string> found;
  for (const auto& [agent, loaded] : ledger.parts().agents.all()) {
    if (!loaded->state || !asked(agent)) continue;
    for (const std::string& id : ids)
      if (loaded->state->find_session_id(id) != nullptr) found.push_back(id);
  }
  CO_TRY(co_await ledger.wait_until_durable(ledger.parts().commits.last()));
  co_return found;
}

Decide keeping(StagedFiles staged, Decide decide) {
  return [staged = std::move(staged), decide = std::move(decide)](
             const decide::AgentState& state, const decide::Context& context, const decide::FetchedLines& lines) {
    auto decision = decide(state, context, lines);
    if (decision && !decision->need && !decision->events.empty())
      for (transcripts::StagedTranscript& file : *staged) file.keep();
    return decision;
  };
}

}  // namespace sessiond::ledger

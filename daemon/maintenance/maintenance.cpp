#include "daemon/maintenance/maintenance.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/decide/commands.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/clock.hpp"
#include "store/try.hpp"

namespace sessiond::maintenance {
namespace {

constexpr std::size_t taken_at_once = 100;

policy::StoredAgent stored_agent(const Stock& stock) {
  policy::StoredAgent agent{.store_bytes = stock.store_bytes};
  agent.sessions.reserve(stock.sessions.size());
  for (const StockedSession& session : stock.sessions)
    agent.sessions.push_back({.key = session.key,
                              .last_interaction = session.last_interaction,
                              .bytes = session.bytes,
                              .protected_by = session.protected_by});
  for (const StockedArchive& archive : stock.archives)
    agent.archives.push_back({.ended = archive.ended, .bytes = archive.bytes});
  for (const Orphan& orphan : stock.orphans) agent.orphans.push_back({.written = orphan.written});
  return agent;
}

Taken taken_of(const std::string& agent, Stock& stock, const policy::Selection::Item& item) {
  Taken taken{.agent = agent, .kind = item.kind, .reason = item.reason};
  switch (item.kind) {
    case Taken::Kind::session: {
      StockedSession& session = stock.sessions[item.index];
      taken.key = session.key;
      taken.session_id = std::move(session.session_id);
      taken.time = session.last_interaction;
      taken.bytes = session.bytes;
      taken.last_seq = session.last_seq;
      taken.updated_at = session.updated_at;
      break;
    }
    case Taken::Kind::archive: {
      StockedArchive& archive = stock.archives[item.index];
      taken.key = std::move(archive.key);
      taken.session_id = std::move(archive.session_id);
      taken.time = archive.ended;
      taken.bytes = archive.bytes;
      taken.ending = std::move(archive.ending);
      taken.files = std::move(archive.files);
      taken.entry_as = std::move(archive.entry_as);
      break;
    }
    case Taken::Kind::orphan: {
      Orphan& orphan = stock.orphans[item.index];
      taken.key = decide::recovered_key(agent, orphan.session_id).value_or("");
      taken.session_id = std::move(orphan.session_id);
      taken.time = orphan.written;
      taken.bytes = orphan.bytes;
      taken.files = std::move(orphan.files);
      break;
    }
  }
  return taken;
}

Result<decide::Decision> decide_one(const Taken& one, const decide::Protection& protection,
                                    const decide::AgentState& state, const decide::Context& context) {
  const std::string reason(policy::name(one.reason));
  switch (one.kind) {
    case Taken::Kind::session:
      return decide::decide(state,
                            decide::PruneSession{.key = one.key,
                                                 .protection = &protection,
                                                 .last_seq = one.last_seq,
                                                 .updated_at = one.updated_at,
                                                 .reason = reason,
                                                 .purge = one.reason == policy::PruneReason::disk},
                            context);
    case Taken::Kind::archive:
      return decide::decide(state,
                            decide::DestroyArchive{.session_id = one.session_id,
                                                   .ending = one.ending,
                                                   .archives = one.files,
                                                   .entry_as = one.entry_as,
                                                   .reason = reason},
                            context);
    case Taken::Kind::orphan:
      return decide::decide(state, decide::PruneOrphan{.session_id = one.session_id, .files = one.files}, context);
  }
  return decide::Decision{};
}

// Returns whether it went. `one` and `protection` outlive the call.
asio::awaitable<Result<bool>> take_one(ledger::Ledger& ledger, std::string actor, const Taken& one,
                                       const decide::Protection& protection) {
  const auto decided = [&](const decide::AgentState& state, const decide::Context& context,
                           const decide::FetchedLines&) { return decide_one(one, protection, state, context); };
  CO_TRY(const auto reply, co_await ledger.commit(one.agent, {.actor = std::move(actor)}, decided));
  co_return reply.status == 204;
}

// Takes those in [begin, end) side by side, so that they share a batch of the journal. Notes in `went` which went.
asio::awaitable<Result<void>> take_some(ledger::Ledger& ledger, const std::string& actor,
                                        const std::vector<Taken>& taken, std::size_t begin, std::size_t end,
                                        const decide::Protection& protection, std::vector<bool>& went) {
  asio::io_context& io = ledger.parts().env.io;
  asio::steady_timer all(io, asio::steady_timer::time_point::max());
  std::size_t running = end - begin;
  Result<void> outcome;
  for (std::size_t at = begin; at < end; ++at) {
    asio::co_spawn(io, take_one(ledger, actor, taken[at], protection),
                   [&, at](const std::exception_ptr& thrown, const Result<bool>& done) {
                     if (thrown) std::rethrow_exception(thrown);
                     went[at] = done && *done;
                     if (!done && outcome) outcome = std::unexpected(done.error());
                     if (--running == 0) all.cancel();
                   });
  }
  boost::system::error_code cancelled;
  while (running > 0) co_await all.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  co_return outcome;
}

}  // namespace

policy::RetentionLimits limits_of(const config::Config::Session& config) {
  const config::Config::Maintenance& limits = config.maintenance;
  return {.prune_after_ms = limits.prune_after_ms,
          .max_entries = config.most_sessions(),
          .max_disk_bytes = limits.max_disk_bytes,
          .high_water = limits.high_water,
          .archive_retention_ms = limits.archive_retention_ms};
}

asio::awaitable<Result<Selected>> select(ledger::Ledger& ledger, std::string agent, policy::RetentionLimits limits,
                                         const decide::Protection& protection) {
  CO_TRY(auto stock, co_await take_stock(ledger, agent, protection));
  co_return co_await runtime::run_on(
      ledger.parts().env.disk.get_executor(), [agent, limits, stock = std::move(stock)]() mutable -> Result<Selected> {
        const policy::Selection selection = policy::select_for_pruning(stored_agent(stock), limits, store::unix_ms());
        Selected out;
        out.taken.reserve(selection.items.size());
        for (const auto& item : selection.items) out.taken.push_back(taken_of(agent, stock, item));
        for (const std::size_t at : selection.kept)
          out.kept.push_back(
              {.agent = agent, .key = stock.sessions[at].key, .because = stock.sessions[at].protected_by});
        return out;
      });
}

asio::awaitable<Result<void>> take(ledger::Ledger& ledger, std::string actor, std::vector<Taken>& taken,
                                   const decide::Protection& protection) {
  std::vector<bool> went(taken.size());
  Result<void> done;
  for (std::size_t begin = 0; begin < taken.size(); begin += taken_at_once) {
    // A foreign program is kept from sessions.json from when it was read until these sessions have gone from it.
    const std::string& agent = taken[begin].agent;
    ledger::Checkpointer& checkpointer = ledger.checkpointer();
    const auto held = ledger.parts().env.draining ? fail(Code::draining, "the daemon is shutting down")
                                                  : co_await checkpointer.hold(agent);
    if (!held) {
      if (done) done = held;
      break;
    }
    // A session that cannot be archived keeps none of the others.
    const auto some = co_await take_some(ledger, actor, taken, begin, std::min(begin + taken_at_once, taken.size()),
                                         protection, went);
    const auto written = co_await checkpointer.write_until(agent, ledger.parts().commits.durable());
    co_await checkpointer.let_go(agent);
    if (done) done = some ? written : some;
  }
  std::size_t index = 0;
  std::erase_if(taken, [&](const Taken&) { return !went[index++]; });
  co_return done;
}

}  // namespace sessiond::maintenance

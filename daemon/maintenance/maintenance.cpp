#include "daemon/maintenance/maintenance.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

#include "daemon/decide/commands.hpp"
#include "daemon/decide/string_map.hpp"
#include "daemon/ledger/show.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"

namespace sessiond::maintenance {
namespace {

constexpr std::size_t taken_at_once = 100;

// The facts about a session, copied out of the ledger's state.
struct Row {
  std::string key, session_id;
  std::int64_t last_interaction = 0;
  std::uint64_t last_seq = 0;
  std::int64_t updated_at = 0;
  std::string_view protected_by{};
};

struct Slice {
  std::vector<Row> rows{};
  std::optional<std::string> next{};  // the key with which the next slice begins; nothing: that was all
};

std::string_view protection(const Order& order, const std::string& main_key, const decide::AgentState& state,
                            const decide::Session& session) {
  const std::string& key = session.key();
  if (store::equals_nocase(key, main_key)) return "main";
  if (order.streamed.contains({state.id(), key})) return "stream";
  if (std::ranges::any_of(order.preserve,
                          [&key](const std::string& prefix) { return store::starts_with_nocase(key, prefix); }))
    return "preserve";
  const auto pinned = json::find(*session.entry_with_old_counters(), "pinnedAt");
  if (pinned && *pinned != "null") return "pinned";
  if (!state.children(key).empty()) return "children";
  return {};
}

Slice slice_of(const Order& order, const std::string& main_key, const decide::AgentState& state,
               const std::string& from) {
  Slice slice;
  std::size_t read = 0;  // bytes of entries
  const auto& all = state.by_name();
  for (auto at = all.lower_bound(from); at != all.end(); ++at) {
    const decide::Session& session = *at->second;
    if (slice.rows.size() == limits::slice_sessions || read > limits::slice_bytes) {
      slice.next = session.key();
      break;
    }
    read += session.entry_with_old_counters()->size();
    slice.rows.push_back({.key = session.key(),
                          .session_id = session.session_id,
                          .last_interaction = session.last_interaction_at.value_or(session.updated_at),
                          .last_seq = session.last_seq,
                          .updated_at = session.updated_at,
                          .protected_by = protection(order, main_key, state, session)});
  }
  return slice;
}

// The sizes of the files in an agent's folder.
struct Folder {
  decide::StringMap<std::uint64_t> transcripts{};  // by session id, topics included
  std::uint64_t store_bytes = 0;
};

Folder look(const std::filesystem::path& dir, const std::filesystem::path& store) {
  Folder folder;
  struct stat status{};
  store::each_in(dir, [&](const std::filesystem::directory_entry& entry) {
    const std::string file = entry.path().filename().string();
    const auto named = transcripts::parse_file_name(file);
    if (!named || named->kind != transcripts::NamedFile::Kind::transcript) return;
    if (::lstat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    const std::string_view id = named->stem.substr(0, named->stem.find(decide::topic_mark));
    folder.transcripts[std::string(id)] += static_cast<std::uint64_t>(status.st_size);
  });
  if (::lstat(store.c_str(), &status) == 0) folder.store_bytes = static_cast<std::uint64_t>(status.st_size);
  return folder;
}

// Maintains one agent.
class Agent {
 public:
  Agent(ledger::Ledger& ledger, const Order& order, std::string id, Outcome& outcome)
      : ledger_(ledger), order_(order), id_(std::move(id)), outcome_(outcome) {}

  asio::awaitable<Result<void>> run() {
    CO_TRY(co_await read_rows());
    co_await select();
    if (!order_.dry_run) CO_TRY(co_await take());
    co_return Result<void>{};
  }

 private:
  asio::awaitable<void> pause() { return asio::post(ledger_.parts().env.io, asio::use_awaitable); }

  asio::awaitable<Result<void>> read_rows() {
    const std::string main_key = "agent:" + id_ + ":" + ledger_.rules().routing.main_key;
    for (std::optional<std::string> from = ""; from; co_await pause()) {
      const auto read = [&](const decide::AgentState& state, const ledger::Seen&) -> Result<Slice> {
        return slice_of(order_, main_key, state, *from);
      };
      CO_TRY(auto slice, co_await ledger_.show(id_, from->empty(), read));
      std::ranges::move(slice.rows, std::back_inserter(rows_));
      from = std::move(slice.next);
    }
    co_return Result<void>{};
  }

  asio::awaitable<void> select() {
    const ledger::Paths& paths = ledger_.parts().env.paths;
    const auto selected = co_await runtime::run_on(
        ledger_.parts().env.disk.get_executor(),
        [&, dir = paths.state_dir() / paths.sessions_dir(id_), store = paths.store_file(id_)] {
          const Folder folder = look(dir, store);
          policy::StoredAgent agent{.store_bytes = folder.store_bytes};
          agent.sessions.reserve(rows_.size());
          for (const Row& row : rows_) {
            const auto size = folder.transcripts.find(row.session_id);
            agent.sessions.push_back({.key = row.key,
                                      .last_interaction = row.last_interaction,
                                      .bytes = size == folder.transcripts.end() ? 0 : size->second,
                                      .protected_by = row.protected_by});
          }
          policy::Selection selection = policy::select_for_pruning(agent, order_.limits, store::unix_ms());
          std::vector<Taken> taken;
          taken.reserve(selection.sessions.size());
          for (const auto& [index, reason] : selection.sessions) {
            const Row& row = rows_[index];
            taken.push_back({.agent = id_,
                             .key = row.key,
                             .session_id = row.session_id,
                             .reason = reason,
                             .last_interaction = row.last_interaction,
                             .bytes = agent.sessions[index].bytes,
                             .last_seq = row.last_seq,
                             .updated_at = row.updated_at});
          }
          return std::pair(std::move(taken), std::move(selection.kept));
        });
    first_ = outcome_.taken.size();
    std::ranges::move(selected.first, std::back_inserter(outcome_.taken));
    for (const std::size_t index : selected.second)
      outcome_.kept.push_back({.agent = id_, .key = rows_[index].key, .because = rows_[index].protected_by});
  }

  // Takes what was selected, some at a time. A session that was used or changed since then stays, also by a foreign
  // program: it is kept from the file from when it was read until these sessions have gone from it.
  asio::awaitable<Result<void>> take() {
    std::vector<bool> stays(outcome_.taken.size());
    Result<void> done;
    std::size_t end = first_;
    while (done && end < outcome_.taken.size()) {
      const std::size_t begin = end;
      end = std::min(begin + taken_at_once, outcome_.taken.size());
      ledger::Checkpointer& checkpointer = ledger_.checkpointer();
      CO_TRY(co_await checkpointer.hold(id_));
      done = co_await take(begin, end, stays);
      co_await checkpointer.let_go(id_);
    }
    std::size_t index = 0;
    std::erase_if(outcome_.taken, [&](const Taken&) {
      const std::size_t at = index++;
      return at >= end || stays[at];
    });
    co_return done;
  }

  asio::awaitable<Result<void>> take(std::size_t begin, std::size_t end, std::vector<bool>& stays) {
    asio::steady_timer all(ledger_.parts().env.io, asio::steady_timer::time_point::max());
    std::size_t running = end - begin;
    Result<void> outcome;
    for (std::size_t at = begin; at < end; ++at) {
      asio::co_spawn(ledger_.parts().env.io, take_one(outcome_.taken[at]),
                     [&, at](const std::exception_ptr& thrown, const Result<bool>& taken) {
                       if (thrown) std::rethrow_exception(thrown);
                       stays[at] = !taken || !*taken;
                       if (!taken && outcome) outcome = std::unexpected(taken.error());
                       if (--running == 0) all.cancel();
                     });
    }
    boost::system::error_code cancelled;
    while (running > 0) co_await all.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    co_return outcome;
  }

  asio::awaitable<Result<bool>> take_one(const Taken& one) {
    decide::PruneSession command{.key = one.key,
                                 .last_seq = one.last_seq,
                                 .updated_at = one.updated_at,
                                 .reason = std::string(policy::name(one.reason)),
                                 .purge = one.reason == policy::PruneReason::disk};
    const auto decided = [command = std::move(command)](const decide::AgentState& state, const decide::Context& context,
                                                        const decide::FetchedLines&) {
      return decide::decide(state, command, context);
    };
    CO_TRY(const auto reply, co_await ledger_.commit(one.agent, {.actor = order_.actor}, decided));
    co_return reply.status == 204;
  }

  ledger::Ledger& ledger_;
  const Order& order_;
  const std::string id_;
  Outcome& outcome_;
  std::vector<Row> rows_{};
  std::size_t first_ = 0;  // of this agent in outcome_.taken
};

}  // namespace

asio::awaitable<Result<Outcome>> carry_out(ledger::Ledger& ledger, Order order) {
  Outcome outcome;
  for (const std::string& id : order.agents) {
    Agent agent(ledger, order, id, outcome);
    CO_TRY(co_await agent.run());
  }
  co_return outcome;
}

}  // namespace sessiond::maintenance

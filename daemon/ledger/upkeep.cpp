// The part of the ledger that keeps agents in order: who leaves memory, what is mended, what is told of repairs and
// locks.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "daemon/decide/commands.hpp"
#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/reader.hpp"
#include "daemon/runtime/hop.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/limits.hpp"
#include "store/sessions/entry_history.hpp"
#include "transcripts/mend.hpp"

namespace sessiond {

void Ledger::in_background(asio::awaitable<void> task, std::string_view name) {
  ++background_;
  asio::co_spawn(io_, std::move(task), [this, ended = or_terminate(name)](std::exception_ptr thrown) {
    ended(std::move(thrown));
    --background_;
    background_ended_.release(0);
  });
}

void Ledger::tell(EventType type, std::string data, std::string agent) {
  in_background(
      [](Ledger& ledger, EventType event, std::string json, std::string of) -> asio::awaitable<void> {
        const auto told = co_await ledger.announce(event, std::move(json), "sessiond", std::move(of));
        if (!told && !ledger.stopping_) log::warn("event_not_stored", {{"error", told.error().detail}});
      }(*this, type, std::move(data), std::move(agent)),
      "tell");
}

// How old the cache may get; where every read looks, whoever does not read waits for the usual time.
std::int64_t Ledger::ttl_ms() const {
  constexpr std::int64_t usual = 45'000;
  return config_.store.cache_ttl_ms == 0 ? usual : config_.store.cache_ttl_ms;
}

// Before we first write behind a transcript's end: all that the journal has is there, so what is torn is nobody's.
// Where others write too it may be under their hands, and stays: the next line begins on a line of its own.
asio::awaitable<Result<void>> Ledger::mend_transcript(const std::string& agent, const std::string& file) {
  if (rules_.shared) co_return Result<void>{};
  if (auto flushed = co_await flush_transcript(agent, file); !flushed) co_return flushed;
  auto path = resolve_below(paths_.state_dir(), paths_.sessions_dir(agent) + file);
  if (!path) co_return std::unexpected(std::move(path.error()));
  auto mended = co_await hop(files_, [path = *path] { return mend_end(path); });
  if (!mended) co_return std::unexpected(std::move(mended.error()));
  if (*mended && !(*mended)->torn.empty())
    tell_repairs(agent,
                 {fmt::format("{} ended in a torn line: {} bytes were cut off into {}", path->native(),
                              (*mended)->bytes, (*mended)->torn.filename().native())},
                 path->native());
  co_return Result<void>{};
}

// An agent that nobody touched for longer than the TTL, with nothing on its way, leaves memory.
void Ledger::evict_idle() {
  const std::int64_t now = steady_ms();
  for (auto& [id, agent] : agents_) {
    if (agent->history && !agent->loading && now > agent->history_until)
      asio::post(disk_, [gone = std::exchange(agent->history, {})] {});
    const bool busy = !agent->state || agent->loading || agent->looking || agent->checkpointing || agent->following ||
                      !agent->publishing.empty() || agent->dirty_since != 0 || !agent->state->dirty.empty() ||
                      !agent->degraded.empty() || agent->state->last_seq > backlog_from_ ||
                      now - agent->touched < ttl_ms();
    if (busy || !agent->waiting.empty()) continue;
    agent->history = agent->file->history();
    agent->empty = agent->state->size() == 0;
    agent->history_until = now + std::chrono::milliseconds(EntryHistory::longest).count();
    asio::post(disk_,
               [gone = std::exchange(agent->state, {}), file = std::exchange(agent->file, {})] {});  // it takes time
    agent->file_seq = std::max(agent->file_seq, durable_);
    const std::string dir = paths_.sessions_dir(id);
    std::erase_if(readers_,
                  [&](const auto& open) { return open.first.starts_with(dir) && open.second.use_count() == 1; });
    asio::post(files_, [this, name = id] { projection_.unload_agent(name); });
  }
}

// Sessions that were to live no longer than the daemon that made them.
asio::awaitable<void> Ledger::purge_ephemeral(std::string id) {
  const auto state = slot(id).state;  // none: it left memory, or is read again
  std::vector<std::string> keys;
  if (!state) co_return;
  for (const auto& [key, session] : state->by_name()) {
    if (session->ephemeral && session->created_at < started_) keys.emplace_back(key);
  }
  for (const std::string& key : keys) {
    DeleteSession command{.target = {.key = key}, .purge = true, .missing_ok = true};
    const auto done = co_await commit(id, {.actor = "sessiond"},
                                      [command](const AgentState& state, const Context& context, const FetchedLines&) {
                                        return decide(state, command, context);
                                      });
    if (!done) log::warn("ephemeral_session_stays", {{"agent", id}, {"key", key}, {"error", done.error().detail}});
  }
}

void Ledger::note_repair(std::string what) {
  log::warn("journal_repaired", {{"what", what}});
  repairs_.push_back(std::move(what));
}

void Ledger::tell_repairs(const std::string& agent, const std::vector<std::string>& repairs, const std::string& path) {
  for (const std::string& what : repairs) {
    // An odd store that nobody writes again is found odd each time it is read: told once.
    if (std::ranges::find(repairs_, agent + ": " + what) != repairs_.end()) continue;
    log::warn("store_repaired", {{"agent", agent}, {"what", what}});
    if (repairs_.size() >= limits::repairs_told) continue;  // only logged
    repairs_.push_back(agent + ": " + what);
    std::string data;
    json::ObjectWriter writer(data);
    writer.string("path", path.empty() ? paths_.store_file(agent).string() : path);
    writer.string("what", what);
    writer.boolean("kept", true);
    writer.close();
    tell(EventType::store_repaired, std::move(data), agent);
  }
}

void Ledger::tell_evictions(const std::string& agent, const std::vector<Eviction>& evictions) {
  for (const Eviction& eviction : evictions) {
    ++counters_.evictions;
    log::warn("lock_evicted", {{"agent", agent}, {"path", eviction.path}, {"reason", eviction.reason}});
    std::string data;
    json::ObjectWriter writer(data);
    writer.string("path", eviction.path);
    writer.string("reason", eviction.reason);
    writer.raw("holder", json::check(eviction.holder) ? json::compact(eviction.holder) : json::quote(eviction.holder));
    writer.close();
    tell(EventType::lock_evicted, std::move(data), agent);
  }
}

}  // namespace sessiond

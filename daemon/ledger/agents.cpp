#include "daemon/ledger/agents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>
#include <filesystem>

#include "daemon/decide/foreign.hpp"
#include "daemon/decide/protection.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/sessions/entry_history.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::uint64_t big_store =
    8ULL << 20;                             // bytes; read one at a time, which leaves disk threads for other agents
constexpr std::size_t most_released = 256;  // transcripts in one sweep
constexpr std::chrono::milliseconds starting_pause{100};  // between two looks at a store that is not whole

// Frees the state of an agent that has left memory on a disk thread, since that takes time, and keeps the hashes of its
// SDK session ids, unless it has come and gone meanwhile: `times` is how often it had left.
asio::awaitable<void> free_memory(LedgerEnv& env, std::shared_ptr<Agent> agent, std::uint64_t times,
                                  std::shared_ptr<decide::AgentState> state,
                                  std::shared_ptr<sessions::SessionsFile> file, std::shared_ptr<BookLogs> logs) {
  auto hashes = co_await runtime::run_on(
      env.disk.get_executor(), [state = std::move(state), file = std::move(file), logs = std::move(logs)]() mutable {
        std::vector<std::size_t> found = decide::sdk_hashes(*state);
        state.reset();
        file.reset();
        logs.reset();
        return found;
      });
  if (!agent->state && agent->left.times == times) agent->left.sdk_hashes = std::move(hashes);
}

}  // namespace

void note_usable(Agent& agent) {
  if (agent.degraded.empty()) return;
  agent.degraded.clear();
  log::info("agent_mended", {{"agent", agent.id}});
}

Problem degraded_problem(const std::string& agent, std::string_view why) {
  return {
      .code = Code::degraded, .detail = fmt::format("agent {} cannot be served: {}", agent, why), .retry_after_s = 5};
}

TurnGuard::TurnGuard(asio::io_context& loop, std::shared_ptr<Agent> agent, Turn what)
    : loop_(&loop), agent_(std::move(agent)) {
  assert(agent_->turn == Turn::none);
  agent_->turn = what;
}

void TurnGuard::end() {
  if (!agent_) return;
  agent_->turn = Turn::none;
  if (agent_->waiting.empty()) {
    agent_.reset();
    return;
  }
  asio::post(*loop_, [agent = std::exchange(agent_, nullptr)] { agent->waiting.release(0); });
}

Agents::~Agents() {
  for (const auto& [id, agent] : agents_) agent->waiting.abandon();
}

asio::awaitable<TurnGuard> Agents::take_turn(std::string id, Turn what) {
  const auto agent = find_or_add(id).shared_from_this();
  while (agent->turn != Turn::none) co_await agent->waiting.wait(0);
  co_return TurnGuard(env_.io, agent, what);
}

void Agents::mark_dirty(Agent& agent) {
  if (agent.checkpoint.dirty_since != 0) return;
  agent.checkpoint.dirty_since = store::steady_ms();
  hooks_.on_dirty();
}

void Agents::look_again(Agent& agent, std::optional<std::chrono::milliseconds> in) {
  agent.following.look_at = in ? store::steady_ms() + in->count() : 0;
  if (in) hooks_.on_unsettled(agent);
}

Agent& Agents::find_or_add(const std::string& id) {
  assert(env_.loop.is_current());
  auto found = agents_.find(id);
  if (found == agents_.end()) {
    found = agents_.emplace(id, std::make_shared<Agent>(id, env_.disk)).first;
  }
  return *found->second;
}

// Reads the store on the agent's own strand. Big stores are read one after another.
asio::awaitable<Result<Loaded>> Agents::read(std::shared_ptr<Agent> agent) {
  const std::string id = agent->id;
  const bool known = agent->reached.store != 0 && !agent->empty;
  if (!agent->unfinished) agent->unfinished = std::make_shared<sessions::Unfinished>(store_patience(env_.config));
  LoadRequest request{.file = agent->file,
                      .history = agent->left.history,
                      .unfinished = agent->unfinished,
                      .replay_from = agent->rebuild ? agent->reached.store + 1 : 0,
                      .archived_from = hooks_.archived_from(id),
                      .known_to = known ? agent->reached.store : 0,
                      .folder_gone = agent->gone ? FolderGone::refuse : FolderGone::rebuild,
                      .generations = {.written = agent->reached.ours, .previous = agent->reached.previous},
                      .books = agent->reached.books,
                      .staged = env_.staged_before};
  const std::uint64_t bytes = co_await runtime::run_on(agent->strand, [path = env_.paths.store_file(id)] {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    return error ? 0 : static_cast<std::uint64_t>(size);
  });
  const bool big = bytes >= big_store;
  const std::int64_t begin = store::steady_ms();
  if (big) {
    agent->loading_bytes = bytes;
    log::info("agent_loading", {{"agent", id}, {"bytes", bytes}});
  }
  auto load = runtime::run_on(agent->strand, [this, id, request] {
    return load_store(env_.config, env_.paths, commits_.journal(), adopting_, id, request);
  });
  auto loaded = co_await (big ? big_loads_.run(std::move(load)) : std::move(load));
  if (big) {
    agent->loading_bytes = 0;
    log::info("agent_loaded",
              {{"agent", id}, {"sessions", loaded ? loaded->state->size() : 0}, {"ms", store::steady_ms() - begin}});
  }
  co_return loaded;
}

Problem Agents::degrade(Agent& agent, const Problem& why) {
  const bool transient = why.code == Code::storage_full || why.code == Code::lock_timeout ||
                         why.code == Code::draining || why.code == Code::starting;
  if (transient) return why;
  if (agent.degraded != why.detail) {
    log::error("agent_degraded", {{"agent", agent.id},
                                  {"error", why.detail},
                                  {"next",
                                   "only this agent answers 503. Put back what is missing, or move away what is in "
                                   "its place: it is looked at again at the next request"}});
    notices_.degraded(why.detail, agent.id);
  }
  agent.degraded = why.detail;
  return degraded_problem(agent.id, why.detail);
}

asio::awaitable<Result<void>> Agents::load(std::string id, bool create) {
  Agent& agent = find_or_add(id);
  agent.touched = store::steady_ms();
  bool waited = false;
  // The state may be there already while foreign changes are being merged into it.
  for (; agent.turn == Turn::loading; waited = true) co_await agent.waiting.wait(0);
  if (waited && !agent.state && !agent.degraded.empty())
    co_return std::unexpected(degraded_problem(id, agent.degraded));
  if (!create && agent.is_unused() && agent.turn == Turn::none)
    agent.state.reset();  // a foreign program may have made one by now
  if (agent.state) co_return Result<void>{};
  TurnGuard turn(env_.io, agent.shared_from_this(), Turn::loading);
  const bool first = !agent.file && !agent.rebuild;
  auto loaded = co_await read(agent.shared_from_this());
  Result<void> outcome;
  bool room = true;
  agent.starting = !loaded && loaded.error().code == Code::starting ? loaded.error().detail : "";
  if (!agent.starting.empty()) look_again(agent, starting_pause);
  if (loaded && create && !loaded->exists && loaded->state->size() == 0 && !agent.rebuild) {
    const auto there = co_await runtime::run_on(env_.disk.get_executor(), [this] { return env_.paths.agents(); });
    room = there.size() < env_.rules.agents;
  }
  if (!loaded) {
    outcome = std::unexpected(degrade(agent, loaded.error()));
  } else if (!room) {
    outcome = fail_at("/agent", fmt::format("there are {} agents, as many as limits.agents allows", env_.rules.agents));
  } else if (!loaded->exists && loaded->state->size() == 0 && !create) {
    agent.empty = true;
    note_usable(agent);
    outcome = fail(Code::agent_not_found, fmt::format("there is no agent {}", id));
  } else {
    note_usable(agent);
    outcome = co_await install(id, std::move(*loaded));
  }
  turn.end();
  const bool known = agent.rebuild || agent.state || agent.reached.store != 0 || agent.reached.previous != 0 ||
                     agent.reached.books.runs || agent.reached.books.outbox;
  const bool absent = !outcome && (outcome.error().code == Code::agent_not_found || !room);
  if (absent && !known && agent.waiting.empty()) {
    agents_.erase(id);
    co_return outcome;
  }
  if (outcome && first) co_await hooks_.on_first_load(id);
  co_return outcome;
}

asio::awaitable<Result<void>> Agents::install(std::string id, Loaded loaded) {
  Agent& agent = find_or_add(id);
  const bool first = !agent.file && !agent.rebuild;
  agent.rebuild = agent.gone = false;
  if (first) {  // the file holds all durable changes of this agent, or the replay added them
    agent.reached.store =
        std::max(agent.reached.store, !loaded.state->is_dirty() ? commits_.durable() : agent.reached.store);
    if (agent.reached.previous == 0) agent.reached.previous = agent.reached.store;
  }
  agent.file = std::move(loaded.file);
  agent.logs = std::move(loaded.logs);
  agent.unfinished.reset();
  agent.left.history.reset();
  agent.left.sdk_hashes.reset();
  agent.state = std::move(loaded.state);
  agent.on_disk = loaded.exists;
  agent.looked = agent.touched = store::steady_ms();
  if (agent.state->is_dirty()) mark_dirty(agent);
  hooks_.on_loaded(agent);
  look_again(agent, agent.file->look_again_in());
  notices_.repaired(id, loaded.repairs);
  agent.missing = std::move(loaded.missing);
  notices_.evicted(id, loaded.evictions);
  decide::note_lost_sessions(*agent.state, loaded.foreign);
  if (loaded.foreign) CO_TRY(co_await merge_foreign(id, std::move(*loaded.foreign), true));
  co_return Result<void>{};
}

asio::awaitable<Result<const decide::AgentState*>> Agents::get(std::string id, bool fresh) {
  for (;;) {
    CO_TRY(co_await load(id, false));
    if (!find_or_add(id).state) continue;
    if (const decide::AgentState* state = fresh ? nullptr : at_hand(id)) co_return state;
    CO_TRY(co_await reload_if_changed(id));
    if (fresh) co_await hooks_.publish_foreign_lines(id);
    fresh = false;
    if (find_or_add(id).state) co_return find_or_add(id).state.get();
  }
}

const decide::AgentState* Agents::at_hand(std::string_view id) {
  const auto found = agents_.find(id);
  if (found == agents_.end()) return nullptr;
  Agent& agent = *found->second;
  const std::int64_t now = store::steady_ms();
  // A running checkpoint does not delay reads: it looks at the file itself, and usually it is what made it suspect.
  const bool looked_at = agent.turn == Turn::checkpointing ||
                         (!agent.following.suspect && now - agent.looked < env_.config.store.cache_ttl_ms);
  if (!agent.state || agent.turn == Turn::loading || agent.is_unused() || !looked_at || !agent.degraded.empty())
    return nullptr;
  agent.touched = now;
  return agent.state.get();
}

asio::awaitable<Result<void>> Agents::reload_if_changed(std::string id) {
  Agent& agent = find_or_add(id);
  auto turn = co_await take_turn(id, Turn::looking);
  if (!agent.state || agent.lent) co_return Result<void>{};
  agent.following.suspect = false;
  auto [polled, repairs, evictions, again] = co_await runtime::run_on(agent.strand, [file = agent.file] {
    auto found = file->poll();
    return std::tuple(std::move(found), file->take_repairs(), file->take_evictions(), file->look_again_in());
  });
  look_again(agent, again);
  notices_.evicted(id, evictions);
  agent.looked = store::steady_ms();
  notices_.repaired(id, repairs);
  // Merged before the file is written again: a checkpoint writes whole entries and would undo the foreign change.
  Result<void> outcome;
  if (!polled) {
    outcome = std::unexpected(degrade(agent, polled.error()));
  } else {
    note_usable(agent);
    if (*polled && !(*polled)->empty()) outcome = co_await merge_foreign(id, std::move(**polled));
  }
  co_return outcome;
}

// Merges a few entries at a time, because the loop has other requests to serve. The agent's turn keeps the file from
// being read or written until the last entry is committed.
asio::awaitable<Result<void>> Agents::merge_foreign(std::string id, sessions::ForeignChange change, bool at_load) {
  Agent& agent = find_or_add(id);
  std::uint64_t last = 0;
  for (decide::ForeignSlices slices(change);;) {
    if (commits_.failed()) commits_.reload_after_failure(id);  // the reload merges the foreign changes
    if (commits_.failed() || !agent.state)
      co_return fail(Code::degraded, "the journal cannot be written; the foreign changes are merged later");
    const sessions::ForeignChange slice = slices.next();
    for (const decide::LeftRun& left : decide::runs_left_behind(*agent.state, slice)) {
      const auto ended = co_await hooks_.end_left_run(id, left);
      if (!ended)
        log::warn("run_words_lost", {{"agent", id},
                                     {"session", left.key},
                                     {"error", ended.error().detail},
                                     {"why", "another program has taken the session's transcript during a run"}});
      if (commits_.failed() || !agent.state)
        co_return fail(Code::degraded, "the journal cannot be written; the foreign changes are merged later");
    }
    decide::Decision decision =
        decide::decide_foreign_change(*agent.state, slice, commits_.context("external", "external"), at_load);
    last = stage(*agent.state, decision);
    const auto tell = [&](const std::string& key) {
      if (const decide::Session* session = agent.state->find_key(key)) hooks_.on_foreign(id, *session);
    };
    for (const sessions::NamedEntry& entry : slice.created) tell(entry.key);
    for (const auto& entry : slice.updated) tell(entry.key);
    if (slices.done()) break;
    co_await asio::post(env_.io, asio::use_awaitable);
  }
  agent.state->dirty.insert(change.overwritten.begin(), change.overwritten.end());
  if (!change.overwritten.empty()) mark_dirty(agent);
  log::info("external_change", {{"agent", id},
                                {"created", change.created.size()},
                                {"updated", change.updated.size()},
                                {"overwritten", change.overwritten.size()},
                                {"deleted", change.deleted.size()}});
  co_return co_await commits_.wait_until_durable(last);
}

asio::awaitable<std::vector<std::string>> Agents::ids() {
  auto ids = co_await runtime::run_on(env_.disk.get_executor(), [this] { return env_.paths.agents(); });
  std::vector<std::pair<std::string, std::uint64_t>> only_here;  // with their last seq
  for (const auto& [id, agent] : agents_) {
    const bool known = (agent->state && !agent->is_unused()) || !agent->degraded.empty() ||
                       (!agent->state && agent->reached.store != 0 && !agent->empty);
    if (known && std::ranges::find(ids, id) == ids.end())
      only_here.emplace_back(id, agent->state ? agent->state->last_seq : 0);
  }
  for (auto& [id, last_seq] : only_here) {
    if (co_await commits_.wait_until_durable(last_seq)) ids.push_back(std::move(id));
  }
  std::ranges::sort(ids);
  co_return ids;
}

void Agents::unload_idle(std::uint64_t seq) {
  const std::int64_t now = store::steady_ms();
  for (auto& [id, agent] : agents_) {
    if (agent->left.history && agent->turn != Turn::loading && now > agent->left.history_until)
      asio::post(env_.disk, [gone = std::exchange(agent->left.history, {})] {});
    if (now - agent->touched >= env_.ttl_ms()) unload(id, seq);
  }
  // The end that is forgotten is read again by the next append.
  for (const auto& [id, file] : readers_.take_idle(now - env_.ttl_ms(), most_released)) {
    const auto found = agents_.find(id);
    if (found == agents_.end() || !found->second->state) continue;
    decide::AgentState& state = *found->second->state;
    const decide::TranscriptEnd* end = state.transcripts.find(file);
    const decide::Session* session = state.owner_of_own(file);
    const bool works = session != nullptr && !decide::work_in(state, *session).empty();
    if (works || (end != nullptr && end->last_seq > commits_.durable())) {
      readers_.touch(id, file);
      continue;
    }
    readers_.unload(id, file);
    if (end == nullptr) continue;
    state.transcripts.forget(file);
    if (session != nullptr) notices_.released(id, *session, env_.lineage.of(state, *session));
  }
}

void Agents::unload(const std::string& id, std::uint64_t seq) {
  const auto found = agents_.find(id);
  if (found == agents_.end()) return;
  const std::shared_ptr<Agent>& agent = found->second;
  agent->touched = 0;
  const bool busy = !agent->state || agent->following.look_at != 0 || agent->turn != Turn::none || agent->lent ||
                    agent->following.active || !agent->following.publishing.empty() ||
                    agent->checkpoint.dirty_since != 0 || agent->state->is_dirty() || !agent->degraded.empty() ||
                    agent->state->last_seq > seq || agent->state->runs.has_open() ||
                    agent->state->policies.has_passing();
  if (busy || !agent->waiting.empty()) return;
  for (const auto& [file, end] : agent->state->transcripts.all())
    if (const decide::Session* session = agent->state->owner_of_own(file))
      notices_.released(id, *session, env_.lineage.of(*agent->state, *session));
  agent->left.history = agent->file->history();
  agent->empty = agent->state->size() == 0;
  agent->left.history_until = store::steady_ms() + std::chrono::milliseconds(sessions::EntryHistory::longest).count();
  const std::uint64_t times = ++agent->left.times;
  auto gone = free_memory(env_, agent, times, std::exchange(agent->state, {}), std::exchange(agent->file, {}),
                          std::exchange(agent->logs, {}));
  env_.background.run(std::move(gone), "free_memory");
  agent->reached.store = std::max(agent->reached.store, commits_.durable());
  readers_.unload(id);
  flusher_.unload(id);
}

std::uint64_t Agents::stage(decide::AgentState& state, decide::Decision& decision,
                            std::vector<answers::Answer> answers) {
  for (const decide::TranscriptUpdate& update : decision.transcript_updates) readers_.touch(state.id(), update.file);
  const std::uint64_t last = commits_.stage(state, decision, std::move(answers));
  if (state.is_dirty()) mark_dirty(find_or_add(state.id()));
  return last;
}

asio::awaitable<bool> Agents::forget(std::string id) {
  const auto found = agents_.find(id);
  if (found == agents_.end()) co_return false;  // the event was of no agent, or of one that is not in memory
  const auto agent = found->second;
  while (agent->turn != Turn::none) co_await agent->waiting.wait(0);
  agent->state.reset();
  agent->left.sdk_hashes.reset();
  ++agent->left.times;
  agent->rebuild = true;
  co_return true;
}

AgentFiles files_of(const Agents& agents, std::string_view id) {
  const auto found = agents.all().find(id);
  if (found == agents.all().end()) return {};
  const Agent& agent = *found->second;
  return {.bytes = agent.bytes, .lag_ms = agent.checkpoint.lag_ms(), .dirty = agent.checkpoint.dirty_since != 0};
}

bool is_in_memory(const Agents& agents, std::string_view id) {
  const auto found = agents.all().find(id);
  return found != agents.all().end() && found->second->state;
}

std::set<std::string> all_in_memory(const Agents& agents) {
  std::set<std::string> ids;
  for (const auto& [id, agent] : agents.all())
    if (agent->state) ids.insert(id);
  return ids;
}

}  // namespace sessiond::ledger

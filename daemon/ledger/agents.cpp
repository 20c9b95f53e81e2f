// The part of the ledger that brings agents into memory: loading, looking again for what other programs wrote, facts
// about transcripts.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <filesystem>

#include "daemon/decide/apply.hpp"
#include "daemon/decide/foreign.hpp"
#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/reader.hpp"
#include "daemon/runtime/hop.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/names.hpp"
#include "store/process.hpp"
#include "store/sessions/disk.hpp"
#include "store/sessions/entry_history.hpp"
#include "transcripts/archive.hpp"

namespace sessiond {
namespace {

// How long a disk thread may wait for a lock that was free a moment ago; whoever needs it longer asks again.
constexpr std::chrono::milliseconds lock_patience{200};
constexpr std::uint64_t big_store = 8ULL << 20;  // bytes; reading one takes so long that others must not wait behind it

// `<store>.<pid>.<…>.tmp` of a process that is no more. The note of a checkpoint has settled its own; this one's note
// was lost.
bool is_left_temp(std::string_view file, std::string_view store) {
  if (!file.starts_with(store) || !file.ends_with(".tmp")) return false;
  const std::string_view rest = file.substr(store.size());
  std::int64_t pid = 0;
  const auto [stop, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), pid);
  return rest.starts_with('.') && error == std::errc() && *stop == '.' && pid > 0 && process_status(pid).dead;
}

// By one listing of the folder: which topics there are, which session ids its files bear, and which archives. Of an
// archive that no record names (another program's, or of an earlier version) nothing is known but its name; a record's
// archive that is gone is not told any more. `left`: temporary files that nobody will name again. With `files`, the
// names of all.
void find_files(AgentState& state, const std::filesystem::path& dir, std::vector<ArchiveRecord> records,
                std::string_view store, std::vector<std::filesystem::path>& left, std::set<std::string>* files) {
  std::unordered_map<std::string, std::int64_t> archives;  // and their times
  each_in(dir, [&](const std::filesystem::directory_entry& entry) {
    std::string file = entry.path().filename().string();
    if (is_left_temp(file, store)) left.push_back(entry.path());
    if (files != nullptr) files->insert(file);
    const auto named = parse_file_name(file);
    if (!named) return;
    const std::size_t at = named->stem.find("-topic-");
    const std::string session_id(named->stem.substr(0, at));
    if (named->kind == NamedFile::Kind::archive) {
      archives.emplace(std::move(file), named->time);
      return;
    }
    state.archives.add_found(session_id);
    if (at == std::string_view::npos || named->kind != NamedFile::Kind::transcript) return;
    if (auto topic = topic_of_file(session_id, file)) state.transcripts.add_topic(session_id, std::move(*topic));
  });
  for (ArchiveRecord& record : records) {
    std::erase_if(record.archived_as, [&](const std::string& name) { return archives.erase(name) == 0; });
    state.archives.add(std::move(record));
  }
  for (const auto& [name, time] : archives) {
    const auto named = parse_file_name(name);
    state.archives.add({.time = time,
                        .session_id = std::string(named->stem.substr(0, named->stem.find("-topic-"))),
                        .reason = name.contains(".jsonl.reset.") ? "reset" : "deleted",
                        .archived_as = {name}});
  }
}

// What lies in the folder under one session id.
Result<FilesOfId> files_of_id(const std::filesystem::path& dir, std::string_view id) {
  FilesOfId out;
  std::error_code error;
  std::filesystem::directory_iterator at(dir, error);
  if (error == std::errc::no_such_file_or_directory) return out;
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string& name = at->path().native();
    const std::string_view file = std::string_view(name).substr(name.find_last_of('/') + 1);
    if (!file.starts_with(id)) continue;
    const auto named = parse_file_name(file);
    if (!named || !named->is_of(id)) continue;
    if (named->kind == NamedFile::Kind::archive) {
      out.archives.emplace_back(file);
    } else {
      out.transcripts = true;
    }
  }
  if (error) return std::unexpected(io_problem("list", dir.native(), error.value()));
  return out;
}

// What is to be said of a store that was gone, beside what it was rebuilt from.
std::string about_vanished(const AgentState& state, const std::set<std::string>& files) {
  std::size_t lost = 0;
  std::string example;
  for (const auto& [key, session] : state.by_name()) {
    if (session->message_count.value_or(0) == 0 || files.contains(AgentState::file_of(*session, {}))) continue;
    if (lost++ == 0) example = AgentState::file_of(*session, {});
  }
  std::string text =
      lost == 0 ? std::string("all transcripts are there")
                : fmt::format("{} of {} sessions lost their transcript with it, e.g. {}", lost, state.size(), example);
  return fmt::format(
      "of agent {}: {}. To remove an agent, first delete its sessions (DELETE, or put {{}} into its "
      "sessions.json), then its folder",
      state.id(), text);
}

// The store as we left it: what others changed meanwhile is then committed like any other change.
void undo_foreign_changes(AgentState& state, const ForeignChange& change) {
  for (const NamedEntry& entry : change.created) {
    if (const Session* session = state.find_key(entry.key); session != nullptr && session->key() == entry.key)
      state.erase(*session);
  }
  const std::set<std::string_view> ours(change.overwritten.begin(), change.overwritten.end());  // is what was loaded
  for (const auto& entry : change.updated) {
    if (ours.contains(entry.key)) continue;
    if (json::kind(*entry.base) == json::Kind::object) state.insert(entry.key, entry.base);
  }
}

}  // namespace

// It may hold the only copy of another program's version, so it is kept.
void Ledger::keep_away(const std::filesystem::path& temp, std::vector<std::string>& told) const {
  const auto kept = paths_.journal_dir() / "kept" / time_for_names() / temp.lexically_relative(paths_.state_dir());
  auto moved = make_dirs(kept.parent_path());
  if (moved) moved = move_file(temp, kept);
  if (moved) static_cast<void>(::chmod(kept.c_str(), 0600));  // as all of ours
  told.push_back(moved ? fmt::format("{} was left by an interrupted write; it is now {}", temp.native(), kept.native())
                       : moved.error().detail);
}

Ledger::Agent& Ledger::slot(const std::string& id) {
  auto found = agents_.find(id);
  if (found == agents_.end()) {
    found = agents_.emplace(id, std::make_shared<Agent>(id, disk_)).first;
  }
  return *found->second;
}

SessionsFile::Options Ledger::store_options(const std::string& id) const {
  const auto& lock = config_.store.lock;
  return {.path = paths_.store_file(id),
          .previous = paths_.previous(id),
          .lock = {.timeout = lock_patience,
                   .poll_interval = std::chrono::milliseconds(lock.poll_interval_ms),
                   .stale = std::chrono::milliseconds(lock.stale_ms)}};
}

// Applies this agent's journal events from seq `from` on (0: none) and passes each to `seen`. Of the events before,
// from `archived_from` on, only the archives count: a record of one may not be in its file yet.
template <class Seen>
Result<void> Ledger::replay_agent(AgentState& state, std::uint64_t from, std::uint64_t archived_from, Seen seen) const {
  const std::uint64_t state_from = from;
  if (from != 0) from = std::min(from, archived_from);
  while (from != 0 && from <= journal_->head()) {
    auto page = journal_->read(std::max(from, journal_->oldest()), replay_page_bytes);
    if (!page) return std::unexpected(std::move(page.error()));
    for (const StoredBatch& batch : page->batches) {
      for (const Bytes& bytes : batch.events) {
        auto event = parse_event(*bytes);
        if (!event || event->envelope.agent != state.id()) continue;
        if (event->envelope.seq < state_from) {
          if (auto record = archive_record(*event)) state.archives.add(std::move(*record));
          continue;
        }
        apply(state, *event, Replay::yes);
        seen(*event);
      }
    }
    from = page->next;
  }
  return {};
}

Result<Ledger::Loaded> Ledger::load_from_disk(const std::string& id, LoadWish wish) const {
  const auto dir = paths_.state_dir() / paths_.sessions_dir(id);
  if (auto below = resolve_below(paths_.state_dir(), paths_.sessions_dir(id)); !below)
    return std::unexpected(std::move(below.error()));
  Loaded loaded{.state = std::make_shared<AgentState>(id),
                .file = std::move(wish.file),
                .repairs = {},
                .evictions = {},
                .foreign = {},
                .exists = false};
  std::error_code error;
  loaded.exists = std::filesystem::exists(dir, error);
  if (!loaded.file) {
    auto options = store_options(id);
    options.history = std::move(wish.history);
    options.known = wish.known_to != 0;
    loaded.file = std::make_shared<SessionsFile>(std::move(options));
  }
  auto report = loaded.file->load();
  if (!report) return std::unexpected(std::move(report.error()));
  loaded.state->reserve(report->entries.size());
  for (const NamedEntry& entry : report->entries) {
    if (json::kind(*entry.entry) == json::Kind::object) loaded.state->insert(entry.key, entry.entry);
  }
  loaded.repairs = std::move(report->repairs);
  loaded.foreign = std::move(report->foreign);
  if (report->first && !adopting_ && !report->entries.empty()) loaded.foreign.emplace().created = report->entries;
  if (loaded.foreign) undo_foreign_changes(*loaded.state, *loaded.foreign);
  std::uint64_t replay_from = wish.replay_from;
  // From where the generation ends of which it was made: what is older is not needed, damaged or not.
  if (report->rebuilt) {
    using Base = LoadReport::Base;
    const std::uint64_t held = report->base == Base::written    ? wish.hold.written
                               : report->base == Base::previous ? wish.hold.previous
                                                                : 0;
    replay_from = std::max<std::uint64_t>(journal_->oldest(), held + 1);
  }
  auto records = read_archive_records(paths_.archive_records(id));
  if (!records) return std::unexpected(std::move(records.error()));
  const std::string store = paths_.store_file(id).filename().native();
  std::set<std::string> files;
  std::vector<std::filesystem::path> left;
  find_files(*loaded.state, dir, *records, store, left, report->vanished ? &files : nullptr);
  for (const std::filesystem::path& temp : left) keep_away(temp, loaded.repairs);
  OwnVersions own(loaded.foreign);
  bool had_sessions = loaded.state->size() != 0;  // the file that is gone, by what it held up to known_to
  auto replayed = replay_agent(*loaded.state, replay_from, wish.archived_from, [&](const Event& event) {
    own.applied(*loaded.state, event);
    if (event.envelope.seq <= wish.known_to) had_sessions = loaded.state->size() != 0;
  });
  if (!replayed) return std::unexpected(std::move(replayed.error()));
  own.remove_own(loaded.foreign);
  if (report->vanished && (!had_sessions || loaded.state->size() == 0)) {  // it was never written, or holds nothing
    report->rebuilt = false;
    loaded.file->accept_absent();
    loaded.repairs.clear();
    loaded.state = std::make_shared<AgentState>(id);
    find_files(*loaded.state, dir, std::move(*records), store, left, nullptr);
    replayed = replay_agent(*loaded.state, wish.replay_from, wish.archived_from, [](const Event&) {});
    if (!replayed) return std::unexpected(std::move(replayed.error()));
  } else if (report->vanished) {
    loaded.repairs.push_back(about_vanished(*loaded.state, files));
  }
  if (report->rebuilt) {  // the first thing that stands there again is all that is durable
    fault_point("rebuild.replayed");
    std::vector<DirtyEntry> dirty;
    for (const std::string& key : loaded.state->dirty) dirty.push_back(dirty_entry(*loaded.state, key));
    auto written = loaded.file->checkpoint(in_order(std::move(dirty)));
    // Whoever holds the lock keeps nobody from reading: it is written at the next checkpoint.
    if (!written && written.error().code != Code::lock_timeout) return std::unexpected(std::move(written.error()));
    std::ranges::move(loaded.file->take_repairs(), std::back_inserter(loaded.repairs));
    if (written && written->foreign) {
      loaded.foreign = std::move(written->foreign);
    } else if (written) {
      loaded.state->dirty.clear();
      loaded.state->changed_by_us.clear();
    }
  }
  loaded.exists = loaded.exists || report->rebuilt;
  loaded.evictions = loaded.file->take_evictions();
  return loaded;
}

// On the agent's own strand; big ones one after another.
asio::awaitable<Result<Ledger::Loaded>> Ledger::load_in_turn(std::shared_ptr<Agent> agent) {
  const std::string id = agent->id;
  const bool known = agent->file_seq != 0 && !agent->empty;
  LoadWish wish{.file = agent->file,
                .history = agent->history,
                .replay_from = agent->rebuild ? agent->file_seq + 1 : 0,
                .archived_from = (any_held(paths_.sessions_dir(id)) ? checkpointed_ : synced_) + 1,
                .known_to = known ? agent->file_seq : 0,
                .hold = {.written = agent->written_seq, .previous = agent->previous_seq}};
  const std::uint64_t bytes = co_await hop(agent->turn, [path = paths_.store_file(id)] {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    return error ? 0 : static_cast<std::uint64_t>(size);
  });
  const bool big = bytes >= big_store;
  const std::int64_t begin = steady_ms();
  if (big) {
    agent->loading_bytes = bytes;
    log::info("agent_loading", {{"agent", id}, {"bytes", bytes}});
    while (big_load_) co_await big_load_ended_.wait(0);
    big_load_ = true;
  }
  auto loaded = co_await hop(agent->turn, [this, id, wish] { return load_from_disk(id, wish); });
  if (big) {
    big_load_ = false;
    big_load_ended_.release(0);
    agent->loading_bytes = 0;
    log::info("agent_loaded",
              {{"agent", id}, {"sessions", loaded ? loaded->state->size() : 0}, {"ms", steady_ms() - begin}});
  }
  co_return loaded;
}

Problem Ledger::degrade(Agent& agent, const Problem& why) {
  const bool transient = why.code == Code::storage_full || why.code == Code::lock_timeout || why.code == Code::draining;
  if (transient) return why;
  if (agent.degraded != why.detail) {
    log::error("agent_degraded", {{"agent", agent.id},
                                  {"error", why.detail},
                                  {"next",
                                   "only this agent answers 503. Put the file back, or move away what is in its "
                                   "place: it is then rebuilt at the next request"}});
    std::string data;
    json::ObjectWriter writer(data);
    writer.string("reason", why.detail);
    writer.close();
    if (!failed_ && !stopping_) tell(EventType::store_degraded, std::move(data), agent.id);
  }
  agent.degraded = why.detail;
  return degraded_problem(agent.id, why.detail);
}

void Ledger::mended(Agent& agent) {
  if (agent.degraded.empty()) return;
  agent.degraded.clear();
  log::info("agent_mended", {{"agent", agent.id}});
}

asio::awaitable<Result<void>> Ledger::ensure_loaded(std::string id, bool create) {
  Agent& agent = slot(id);
  agent.touched = steady_ms();
  bool waited = false;
  // What others changed is being merged, if it is there already.
  for (; agent.loading; waited = true) co_await agent.waiting.wait(0);
  if (waited && !agent.state && !agent.degraded.empty())
    co_return std::unexpected(degraded_problem(id, agent.degraded));
  if (!create && agent.nobody() && !agent.looking && !agent.checkpointing) agent.state.reset();  // is there one by now?
  if (agent.state) co_return Result<void>{};
  agent.loading = true;
  const bool first = !agent.file && !agent.rebuild;
  auto loaded = co_await load_in_turn(agents_.at(id));
  Result<void> outcome;
  bool room = true;
  if (loaded && create && !loaded->exists && loaded->state->size() == 0 && !agent.rebuild) {
    const auto there = co_await hop(disk_.get_executor(), [this] { return paths_.agents(); });
    room = there.size() < rules_.agents;
  }
  if (!loaded) {
    outcome = std::unexpected(degrade(agent, loaded.error()));
  } else if (!room) {
    outcome = fail_at("/agent", fmt::format("there are {} agents, as many as limits.agents allows", rules_.agents));
  } else if (!loaded->exists && loaded->state->size() == 0 && !create) {
    agent.empty = true;
    mended(agent);
    outcome = fail(Code::agent_not_found, fmt::format("there is no agent {}", id));
  } else {
    mended(agent);
    outcome = co_await install(id, std::move(*loaded));
  }
  agent.loading = false;
  agent.waiting.release(0);  // resumes them here; one may be loading again by now
  const bool known = agent.rebuild || agent.state || agent.loading || agent.file_seq != 0 || agent.previous_seq != 0;
  const bool absent = !outcome && (outcome.error().code == Code::agent_not_found || !room);
  if (absent && !known && agent.waiting.empty()) {
    agents_.erase(id);
    co_return outcome;
  }
  if (outcome && first) co_await purge_ephemeral(id);
  co_return outcome;
}

asio::awaitable<Result<void>> Ledger::install(std::string id, Loaded loaded) {
  Agent& agent = slot(id);
  const bool first = !agent.file && !agent.rebuild;
  agent.rebuild = false;
  if (first) {  // the file holds all that is durable of this agent, or the replay made it so
    agent.file_seq = std::max(agent.file_seq, loaded.state->dirty.empty() ? durable_ : agent.file_seq);
    if (agent.previous_seq == 0) agent.previous_seq = agent.file_seq;
  }
  agent.file = std::move(loaded.file);
  agent.history.reset();
  agent.state = std::move(loaded.state);
  agent.on_disk = loaded.exists;
  agent.looked = agent.touched = steady_ms();
  if (!agent.state->dirty.empty() && agent.dirty_since == 0) {
    agent.dirty_since = steady_ms();
    checkpoint_timer_.cancel();
  }
  watch(agent);
  tell_repairs(id, loaded.repairs);
  tell_evictions(id, loaded.evictions);
  if (loaded.foreign) {
    if (auto merged = co_await commit_external(id, std::move(*loaded.foreign), true); !merged) co_return merged;
  }
  co_return Result<void>{};
}

asio::awaitable<Result<const AgentState*>> Ledger::agent(std::string id, bool fresh) {
  for (;;) {
    if (auto loaded = co_await ensure_loaded(id, false); !loaded) co_return std::unexpected(std::move(loaded.error()));
    const Agent& agent = slot(id);
    if (!agent.state) continue;
    // A checkpoint looks at the file itself, and most that makes it suspect is one of ours: reads do not wait for it.
    const bool looked_at =
        agent.degraded.empty() &&
        (agent.checkpointing || (!agent.suspect && steady_ms() - agent.looked < config_.store.cache_ttl_ms));
    if (looked_at && !fresh) co_return agent.state.get();
    if (auto looked = co_await look_again(id); !looked) co_return std::unexpected(std::move(looked.error()));
    if (fresh) co_await look_at_lines(id, {});
    fresh = false;
    if (slot(id).state) co_return slot(id).state.get();
  }
}

const AgentState* Ledger::at_hand(std::string_view id) {
  const auto found = agents_.find(id);
  if (found == agents_.end()) return nullptr;
  Agent& agent = *found->second;
  const std::int64_t now = steady_ms();
  const bool looked_at = agent.checkpointing || (!agent.suspect && now - agent.looked < config_.store.cache_ttl_ms);
  if (!agent.state || agent.loading || agent.nobody() || !looked_at || !agent.degraded.empty()) return nullptr;
  agent.touched = now;
  return agent.state.get();
}

const AgentState* Ledger::in_memory(std::string_view id) const {
  const auto found = agents_.find(id);
  return found == agents_.end() ? nullptr : found->second->state.get();
}

asio::awaitable<Result<void>> Ledger::load(std::string id) { co_return co_await ensure_loaded(std::move(id), false); }

asio::awaitable<Result<void>> Ledger::look_again(std::string id) {
  Agent& agent = slot(id);
  while (agent.looking || agent.checkpointing || agent.loading) co_await agent.waiting.wait(0);
  if (!agent.state) co_return Result<void>{};
  agent.looking = true;
  agent.suspect = false;
  auto [polled, repairs, evictions, damaged] = co_await hop(agent.turn, [file = agent.file] {
    auto found = file->poll();
    return std::tuple(std::move(found), file->take_repairs(), file->take_evictions(), file->damaged());
  });
  agent.damaged = damaged;
  tell_evictions(id, evictions);
  agent.looked = steady_ms();
  tell_repairs(id, repairs);
  // Merged before anybody writes the file again: what is written is whole entries, theirs included.
  Result<void> outcome;
  if (!polled) {
    outcome = std::unexpected(degrade(agent, polled.error()));
  } else {
    mended(agent);
    if (*polled && !(*polled)->empty()) outcome = co_await commit_external(id, std::move(**polled));
  }
  agent.looking = false;
  agent.waiting.release(0);
  co_return outcome;
}

// A few entries at a time: the network thread has others to serve. `looking`, `loading` or `checkpointing` keeps
// whoever reads or writes the file away until the last one is committed.
asio::awaitable<Result<void>> Ledger::commit_external(std::string id, ForeignChange change, bool at_load) {
  Agent& agent = slot(id);
  const Requester intent{.actor = "external"};
  std::uint64_t last = 0;
  for (ForeignSlices slices(change);;) {
    if (failed_) touched_by_failure_.push_back(id);  // read again with all the others, theirs included
    if (failed_ || !agent.state)
      co_return fail(Code::degraded, "the journal cannot be written; the other program's changes are merged later");
    const ForeignChange slice = slices.next();
    Decision decision = decide_foreign_change(*agent.state, slice, context(intent, "external"), at_load);
    auto staged = stage(*agent.state, decision);
    if (!staged) co_return std::unexpected(std::move(staged.error()));
    last = *staged;
    // Transcripts that were nobody's until now.
    const auto follow_key = [&](const std::string& key) {
      if (const Session* session = agent.state->find_key(key)) follow(id, AgentState::file_of(*session, {}));
    };
    for (const NamedEntry& entry : slice.created) follow_key(entry.key);
    for (const auto& entry : slice.updated) follow_key(entry.key);
    if (slices.done()) break;
    co_await asio::post(io_, asio::use_awaitable);
  }
  agent.state->dirty.insert(change.overwritten.begin(), change.overwritten.end());
  if (!change.overwritten.empty() && agent.dirty_since == 0) {
    agent.dirty_since = steady_ms();
    checkpoint_timer_.cancel_one();
  }
  log::info("external_change", {{"agent", id},
                                {"created", change.created.size()},
                                {"updated", change.updated.size()},
                                {"overwritten", change.overwritten.size()},
                                {"deleted", change.deleted.size()}});
  co_return co_await settled(last);
}

asio::awaitable<std::vector<std::string>> Ledger::agent_ids() {
  auto ids = co_await hop(disk_.get_executor(), [this] { return paths_.agents(); });
  std::vector<std::pair<std::string, std::uint64_t>> only_here;  // and the last seq of it
  for (const auto& [id, agent] : agents_) {
    const bool known = (agent->state && !agent->nobody()) || !agent->degraded.empty() ||
                       (!agent->state && agent->file_seq != 0 && !agent->empty);
    if (known && std::ranges::find(ids, id) == ids.end())
      only_here.emplace_back(id, agent->state ? agent->state->last_seq : 0);
  }
  for (auto& [id, last_seq] : only_here) {
    if (co_await settled(last_seq)) ids.push_back(std::move(id));
  }
  std::ranges::sort(ids);
  co_return ids;
}

asio::awaitable<std::shared_ptr<Ledger::OpenTranscript>> Ledger::reader(const std::string& agent,
                                                                        const std::string& file) {
  const std::string path = paths_.sessions_dir(agent) + file;
  auto& reader = readers_[path];
  if (!reader) {
    if (readers_.size() > OpenTranscript::most)
      std::erase_if(readers_, [&](const auto& pair) { return pair.first != path && pair.second.use_count() == 1; });
    reader = std::make_shared<OpenTranscript>(disk_, paths_.state_dir() / path, paths_.sidecar(agent, file));
  }
  co_return reader;
}

asio::awaitable<Result<void>> Ledger::fetch(const std::string& agent, const Need& need, FetchedLines& lines,
                                            FetchedIds& ids) {
  // What renames or extends the file must have reached it.
  if (auto fine = co_await settled(next_seq_ - 1); !fine) co_return fine;
  if (need.what == Need::What::id_files) {
    // What renames files of this id must have reached them.
    if (auto flushed = co_await flush_transcript(agent, transcript_file(need.file, "")); !flushed) co_return flushed;
    auto files = co_await hop(disk_.get_executor(), [dir = paths_.state_dir() / paths_.sessions_dir(agent),
                                                     id = need.file] { return files_of_id(dir, id); });
    if (!files) co_return std::unexpected(std::move(files.error()));
    ids[need.file] = std::move(*files);
    co_return Result<void>{};
  }
  if (rules_.shared) {
    if (auto written = co_await lines_written(agent, need.file); !written) co_return written;
  }
  switch (need.what) {
    case Need::What::transcript_end: {
      if (auto mended = co_await mend_transcript(agent, need.file); !mended) co_return mended;
      std::optional<std::int64_t> started;
      auto tail = co_await read_transcript(agent, need.file, [&started](Transcript& transcript) {
        started = transcript.started();
        return Result<TranscriptTail>(transcript.tail());
      });
      if (!tail) co_return std::unexpected(std::move(tail.error()));
      Agent& slot_now = slot(agent);
      if (!slot_now.state || slot_now.state->transcripts.find(need.file) != nullptr) co_return Result<void>{};
      TranscriptEnd& end = slot_now.state->transcripts.find_or_add(need.file);
      end.size = tail->size;
      end.count = tail->count;
      end.has_header = tail->has_header;
      end.ends_in_newline = tail->ends_in_newline;
      end.last_id = tail->last_id;
      end.read_size = tail->size;
      end.started = started;
      co_return Result<void>{};
    }
    case Need::What::entry_ids: {
      using CountedIds = std::pair<std::uint64_t, std::shared_ptr<IdSet>>;
      auto read = co_await read_transcript(agent, need.file, [](Transcript& transcript) -> Result<CountedIds> {
        auto ids = transcript.ids();
        if (!ids) return std::unexpected(std::move(ids.error()));
        return CountedIds{transcript.tail().count, std::make_shared<IdSet>(std::move(*ids))};
      });
      if (!read) co_return std::unexpected(std::move(read.error()));
      Agent& slot_now = slot(agent);
      if (!slot_now.state || slot_now.state->transcripts.find(need.file) == nullptr) co_return Result<void>{};
      TranscriptEnd& end = slot_now.state->transcripts.find_or_add(need.file);
      if (read->first == end.count) end.ids = std::move(read->second);  // else it has grown meanwhile: asked for again
      co_return Result<void>{};
    }
    case Need::What::id_files:
      break;  // fetched above
    case Need::What::lines: {
      auto found = co_await read_transcript(agent, need.file,
                                            [ids = need.ids](Transcript& transcript) { return transcript.find(ids); });
      if (!found) co_return std::unexpected(std::move(found.error()));
      for (const std::string& id : need.ids) lines[id] = std::move((*found)[id]);
      co_return Result<void>{};
    }
  }
  co_return Result<void>{};
}

}  // namespace sessiond

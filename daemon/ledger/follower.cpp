#include "daemon/ledger/follower.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <cassert>

#include "daemon/decide/foreign.hpp"
#include "daemon/decide/steps.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::chrono::milliseconds settle_delay{
    20};                                       // one look for all that is appended meanwhile, our lines included
constexpr std::int64_t later_ms = 500;         // until a store that cannot be looked at now is
constexpr std::size_t looked_at_on_loop = 16;  // transcripts; more would hold up requests
constexpr std::size_t looked_at_once = 512;    // transcripts: about a millisecond
constexpr std::size_t page_bytes = 1U << 20;   // of foreign lines in one commit
constexpr std::size_t most_missing = 20;       // transcripts that are named of an agent

bool is_transcript(std::string_view name) { return name.ends_with(".jsonl"); }

void tell_doubled(Notices& notices, const std::string& id, const std::string& file, const std::string& entry) {
  const std::string reason = fmt::format(
      "{}: a foreign program wrote an entry with the id {}, which one of ours has; both stand", file, entry);
  log::warn("entry_id_doubled", {{"agent", id}, {"file", file}, {"id", entry}});
  notices.degraded(reason, id);
}

void log_load_failure(const LedgerEnv& env, const std::string& id, const Problem& why) {
  if (env.stopping) return;
  log::warn("store_not_read", {{"agent", id}, {"error", why.detail}, {"next", "looking again when it is used"}});
}

// Reads the first lines of an edit that are not known yet: a page of them.
asio::awaitable<Result<decide::ForeignLines>> first_lines(TranscriptReaders& readers, std::string id,
                                                          transcripts::ForeignEdit edit) {
  decide::ForeignLines theirs{.file = edit.file, .inode = edit.inode, .size = edit.size};
  for (const transcripts::ByteRange& stretch : edit.unknown) {
    CO_TRY(theirs.lines, co_await readers.read(id, edit.file, [stretch](transcripts::Transcript& transcript) {
      return transcript.whole_lines(stretch.begin, stretch.end, page_bytes);
    }));
    theirs.begin = stretch.begin;
    if (!theirs.lines.empty()) break;
  }
  co_return theirs;
}

}  // namespace

Follower::Follower(LedgerEnv& env, Commits& commits, Notices& notices, Agents& agents, TranscriptFlusher& flusher,
                   TranscriptReaders& readers, std::atomic<bool>& adopting)
    : env_(env),
      commits_(commits),
      notices_(notices),
      agents_(agents),
      flusher_(flusher),
      readers_(readers),
      adopting_(adopting),
      watch_(env.io, [this](Watch::Changes changes) { on_inotify(std::move(changes)); }),
      follow_timer_(env.io) {}

void Follower::stop() {
  watch_.stop();
  follow_timer_.cancel();
  for (asio::steady_timer* pause : pauses_) pause->cancel();
}

void Follower::check_all_if_due() {
  const std::int64_t now = store::steady_ms();
  if (next_look_ > now) return;
  next_look_ = now + env_.ttl_ms();
  env_.background.run(check_all_agents(), "check_all_agents");
}

// Looks at the folder once: inotify says nothing of what happened there before.
void Follower::watch(Agent& agent) {
  if (agent.following.watched || env_.stopping) return;
  agent.following.watched = take_watched(watch_.add(agent.id, env_.paths.root() / env_.paths.sessions_dir(agent.id)));
  if (agent.following.watched) env_.background.run(check_agent(agent.id, {}), "check_agent");
}

// Logs a failed watch and goes on: everything is looked at when the TTL is over.
bool Follower::take_watched(const Result<bool>& added) {
  if (added) return *added;
  if (unwatched_.empty())
    log::warn("not_watched",
              {{"error", added.error().detail}, {"next", "looking at every file when store.cacheTtlMs is over"}});
  unwatched_ = still_unwatched_ = added.error().detail;
  return false;
}

// Looks at the files that were written, by a foreign program or by this daemon.
void Follower::on_inotify(Watch::Changes changes) {
  if (env_.stopping) return;
  if (changes.lost) {
    log::warn("inotify_overflow", {{"next", "looking at every file"}});
    notices_.degraded("inotify dropped events: every file is looked at instead");
  }
  for (const std::string& id : changes.gone) {
    agents_.find_or_add(id).following.watched = false;
    changes.touched[id].insert(env_.paths.store_file(id).filename().string());
  }
  for (auto& [id, names] : changes.touched) {
    const bool store = names.contains(env_.paths.store_file(id).filename().string());
    std::erase_if(names, [](const std::string& name) { return !is_transcript(name); });
    if (!agents_.find_or_add(id).state) {
      if (store || !names.empty()) env_.background.run(check_agent(id, std::move(names)), "check_agent");
      continue;
    }
    if (store) mark_suspect(id);
    const bool few = names.size() <= looked_at_on_loop;
    for (const std::string& name : names) {
      if (!few || !is_as_flushed(id, name)) follow(id, name);
    }
  }
  if (changes.lost || changes.agents) env_.background.run(check_all_agents(), "check_all_agents");
}

// Returns whether inotify reports only our own write. Costs a stat; following the file costs two hops to the disk.
bool Follower::is_as_flushed(const std::string& id, const std::string& file) const {
  const std::string path = env_.paths.sessions_dir(id) + file;
  struct stat status{};
  if (::stat((env_.paths.root().native() + '/' + path).c_str(), &status) != 0) return false;
  return flusher_.facts().sizes.is_known(path, status.st_ino, static_cast<std::uint64_t>(status.st_size));
}

void Follower::mark_suspect(const std::string& id) {
  Agent& agent = agents_.find_or_add(id);
  if (!agent.state || agent.following.suspect) return;
  agent.following.suspect = true;
  env_.background.run(reload_in_background(id), "reload_in_background");
}

asio::awaitable<void> Follower::reload_in_background(std::string id) {
  auto looked = co_await agents_.reload_if_changed(id);
  if (!looked) log_load_failure(env_, id, looked.error());
}

void Follower::look_again(Agent& agent) {
  if (env_.stopping || std::exchange(agent.following.looking_again, true)) return;
  env_.background.run(keep_looking(agent.id), "keep_looking");
}

asio::awaitable<void> Follower::keep_looking(std::string id) {
  const auto agent = agents_.find_or_add(id).shared_from_this();
  while (!env_.stopping && agent->following.look_at != 0) {
    const std::int64_t rest = agent->following.look_at - store::steady_ms();
    if (rest > 0) {
      boost::system::error_code stopped;
      asio::steady_timer pause(env_.io, std::chrono::milliseconds(rest));
      pauses_.insert(&pause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, stopped));
      pauses_.erase(&pause);
      continue;  // it may have been looked at meanwhile
    }
    agent->following.look_at = store::steady_ms() + later_ms;  // if the look does not say otherwise
    const auto looked = agent->state ? co_await agents_.reload_if_changed(id) : co_await agents_.load(id, false);
    if (looked || looked.error().code == Code::starting) continue;
    agent->following.look_at = 0;
    log_load_failure(env_, id, looked.error());
  }
  agent->following.looking_again = false;
}

void Follower::follow(const std::string& id, const std::string& file) {
  assert(env_.loop.is_current());
  if (env_.stopping) return;
  to_follow_[id].insert(file);
  if (std::exchange(follow_scheduled_, true)) return;
  follow_timer_.expires_after(settle_delay);
  follow_timer_.async_wait([this](const boost::system::error_code&) {
    follow_scheduled_ = false;
    for (auto& [agent, files] : std::exchange(to_follow_, {}))
      env_.background.run(publish_foreign_lines(agent, std::move(files)), "publish_foreign_lines");
  });
}

// Checks all agents, in memory or not, and watches the folders in which agents are made.
asio::awaitable<void> Follower::check_all_agents() {
  everywhere_wanted_ = true;
  if (std::exchange(looking_everywhere_, true)) co_return;
  while (!env_.stopping && std::exchange(everywhere_wanted_, false)) {
    still_unwatched_.clear();
    for (const auto& dir :
         co_await runtime::run_on(env_.disk.get_executor(), [this] { return env_.paths.agent_parent_dirs(); }))
      take_watched(watch_.add_parent(dir));
    set_databases(co_await runtime::run_on(env_.disk.get_executor(), [this] { return env_.paths.databases(); }));
    for (const std::string& id : co_await agents_.ids()) co_await check_agent(id, {});
    unwatched_ = still_unwatched_;
  }
  adopting_ = false;
  looking_everywhere_ = false;
}

// Reports each database once in which a foreign program keeps sessions that are not served.
void Follower::set_databases(const std::vector<std::filesystem::path>& found) {
  for (const auto& path : found) {
    if (!databases_.insert(path.native()).second) continue;
    log::warn("sqlite_state",
              {{"path", path.native()}, {"why", "OpenClaw 2026.8 or later keeps sessions there: they are not served"}});
    notices_.degraded(path.native() + ": sessions that OpenClaw 2026.8 or later keeps there are not served");
  }
  std::erase_if(databases_, [&](const std::string& path) {
    return std::ranges::find(found, std::filesystem::path(path)) == found.end();
  });
}

// Checks the store and the transcripts. Loads an agent that is not in memory only when something changed.
asio::awaitable<void> Follower::check_agent(std::string id, std::set<std::string> files) {
  if (env_.stopping) co_return;
  // Watched again, because the folder may be another one by now.
  agents_.find_or_add(id).following.watched =
      take_watched(watch_.add(id, env_.paths.root() / env_.paths.sessions_dir(id)));
  Result<void> looked;
  if (agents_.find_or_add(id).state) {
    looked = co_await agents_.reload_if_changed(id);
  } else {
    const auto [untouched, evictions] =
        co_await runtime::run_on(agents_.find_or_add(id).strand,
                                 [options = store_options(env_.config, env_.paths, id), first = adopting_.load()] {
                                   std::vector<lock::Eviction> evicted;
                                   if (first) {  // loading does it, but this agent may not be loaded
                                     lock::remove_left_lock_names(options.path.parent_path());
                                     lock::evict_gone(options.path, evicted);
                                   }
                                   return std::pair(sessions::SessionsFile::untouched(options), std::move(evicted));
                                 });
    notices_.evicted(id, evictions);
    const auto edit = co_await foreign_edits(id, files);
    if (untouched && edit && edit->empty()) {
      if (!agents_.find_or_add(id).state) flusher_.unload(id);  // else it came meanwhile
      co_return;
    }
    looked = co_await agents_.load(id, false);
    if (!looked && looked.error().code == Code::agent_not_found) co_return;  // a folder without a store
  }
  if (!looked) log_load_failure(env_, id, looked.error());
  co_await publish_foreign_lines(id, std::move(files));
}

// Finds what foreign programs did to these transcripts (none named: to all). Looks at a few files at a time, because
// all agents share the strand.
asio::awaitable<Result<std::vector<transcripts::ForeignEdit>>> Follower::foreign_edits(std::string id,
                                                                                       std::set<std::string> files) {
  std::vector<transcripts::ForeignEdit> found;
  if (files.empty()) {
    CO_TRY(const auto names,
           co_await flusher_.on_files([id](TranscriptFiles& all) { return all.projection().names(id); }));
    files.insert(names.begin(), names.end());
  }
  while (!files.empty() && !env_.stopping) {
    std::set<std::string> some;
    while (!files.empty() && some.size() < looked_at_once) some.insert(files.extract(files.begin()));
    CO_TRY(auto edits, co_await flusher_.on_files([id, some = std::move(some)](TranscriptFiles& all) {
      return all.projection().foreign(id, some);
    }));
    std::ranges::move(edits, std::back_inserter(found));
  }
  co_return found;
}

asio::awaitable<void> Follower::publish_foreign_lines(std::string id, std::set<std::string> files) {
  const auto agent = agents_.find_or_add(id).shared_from_this();
  while (agent->following.active) co_await agent->waiting.wait(0);
  if (env_.stopping || !agent->state) co_return;
  agent->following.active = true;
  const auto found = co_await foreign_edits(id, files);
  Result<void> outcome;
  if (!found) {
    outcome = std::unexpected(found.error());
  } else {
    bool some_went = files.empty();
    for (const transcripts::ForeignEdit& edit : *found) {
      outcome = co_await publish(id, edit.file);
      if (!outcome) break;
      some_went = some_went || edit.kind == transcripts::ForeignEdit::Kind::removed;
    }
    if (some_went) co_await note_missing(id);
  }
  if (!outcome && !env_.stopping) {
    log::warn(
        "transcripts_not_followed",
        {{"agent", id}, {"error", outcome.error().detail}, {"next", "looking again when store.cacheTtlMs is over"}});
  }
  agent->following.active = false;
  agent->waiting.release(0);
}

asio::awaitable<void> Follower::note_missing(std::string id) {
  if (env_.stopping || !agents_.find_or_add(id).state) co_return;
  const auto lost = co_await flusher_.on_files([id](TranscriptFiles& all) { return all.projection().lost(id); });
  Agent& agent = agents_.find_or_add(id);
  if (!agent.state) co_return flusher_.unload(id);
  agent.missing_topics.clear();
  if (!lost) co_return;
  std::vector<std::string> of_none;  // of sessions that were reset or deleted since
  for (const std::string& file : *lost) {
    const auto owner = agent.state->owner_of(file);
    if (!owner) of_none.push_back(file);
    if (!owner || !owner->topic || agent.missing_topics.size() == most_missing) continue;
    agent.missing_topics.push_back({.path = env_.paths.root() / env_.paths.transcript(id, file),
                                    .key = owner->session->key(),
                                    .topic = owner->topic});
  }
  if (of_none.empty()) co_return;
  static_cast<void>(co_await flusher_.on_files(
      [id, of_none = std::move(of_none)](TranscriptFiles& all) { return all.projection().forget(id, of_none); }));
}

// Publishes one file at a time: two calls that find the same lines would publish them twice.
asio::awaitable<Result<void>> Follower::publish(std::string id, std::string file) {
  const auto agent = agents_.find_or_add(id).shared_from_this();
  while (agent->following.publishing.contains(file)) co_await agent->waiting.wait(0);
  agent->following.publishing.insert(file);
  auto outcome = co_await publish_lines(id, file);
  agent->following.publishing.erase(file);
  agent->waiting.release(0);
  const auto owner = outcome && agent->state ? agent->state->owner_of(file) : std::nullopt;
  if (owner) put_counts_right_soon(id, *owner->session);
  co_return outcome;
}

namespace {

// A transcript that the record of known ends has lost: its first lines were counted, and told, before.
struct LostRecord {
  std::int64_t counted = 0;    // entries
  bool has_topics = false;     // `counted` is of their entries, too, so it says only whether all lines are among them
  std::uint64_t known_to = 0;  // where the lines end that are known again

  // Returns where the counted ones of the next lines end. 0: none of them is.
  std::uint64_t end_in(const std::vector<transcripts::WholeLine>& lines) const {
    const auto end = std::ranges::find_if_not(
        lines, [this](const auto& line) { return static_cast<std::int64_t>(line.stored.seq) < counted; });
    return end == lines.begin() || (has_topics && end != lines.end()) ? 0 : std::prev(end)->end;
  }
};

}  // namespace

// Ends when every line of the file is ours or published. Lines of a transcript that belongs to no session wait until
// there is one.
asio::awaitable<Result<void>> Follower::publish_lines(std::string id, std::string file) {
  std::optional<LostRecord> lost;
  for (;;) {
    if (env_.stopping || commits_.failed() || !agents_.find_or_add(id).state) co_return Result<void>{};
    const auto before = agents_.find_or_add(id).state->owner_of(file);
    if (!before)
      co_return co_await flusher_.on_files(
          [id, file](TranscriptFiles& files) { return files.projection().forget_deleted(id, file); });
    // What is counted now is in the file, and known, after the flush: unless the record has lost the file.
    LostRecord now;
    if (!before->topic) {
      const auto* topics = agents_.find_or_add(id).state->transcripts.topics(before->session->session_id);
      now = {.counted = before->session->entries(), .has_topics = topics != nullptr && !topics->empty()};
    }
    // Every append reads the end again from here on. Lines that were decided on the old end are placed behind the
    // foreign ones.
    agents_.find_or_add(id).state->transcripts.forget(file);
    CO_TRY(co_await commits_.wait_until_durable(commits_.last()));
    CO_TRY(co_await flusher_.flush(id, file));
    CO_TRY(const auto found, co_await flusher_.on_files([id, file](TranscriptFiles& files) {
      return files.projection().foreign(id, {file});
    }));
    if (found.empty()) co_return Result<void>{};
    const transcripts::ForeignEdit& edit = found.front();
    decide::ForeignLines theirs{.file = file, .inode = edit.inode, .size = edit.size};
    if (edit.kind == transcripts::ForeignEdit::Kind::appended) {
      CO_TRY(theirs, co_await first_lines(readers_, id, edit));
      if (theirs.lines.empty())  // a torn line, or a header alone
        co_return co_await flusher_.on_files(
            [id, edit](TranscriptFiles& files) { return files.projection().take_header_as_known(id, edit); });
    }
    if (commits_.failed() || !agents_.find_or_add(id).state) co_return Result<void>{};
    decide::AgentState& state = *agents_.find_or_add(id).state;
    const auto owner = state.owner_of(file);
    if (!owner) co_return Result<void>{};
    if (edit.kind == transcripts::ForeignEdit::Kind::appended) {
      const transcripts::ByteRange& unknown = edit.unknown.front();
      if (unknown == transcripts::ByteRange{0, edit.size}) lost = now;
      const bool goes_on = lost && unknown.begin == lost->known_to;
      if (const std::uint64_t end = goes_on ? lost->end_in(theirs.lines) : 0; end != 0) {
        lost->known_to = end;
        CO_TRY(co_await flusher_.on_files(
            [id, edit, end](TranscriptFiles& files) { return files.projection().take_as_known(id, edit, end); }));
        continue;
      }
      lost.reset();
    }
    decide::Decision decision =
        decide::decide_foreign_lines(state, *owner, theirs, commits_.context("external", "external"));
    const std::uint64_t last = agents_.stage(state, decision);
    if (theirs.lines.empty())
      log::info("transcript_rewritten", {{"agent", id}, {"file", file}, {"bytes", theirs.size}});
    CO_TRY(co_await commits_.wait_until_durable(last));
  }
}

asio::awaitable<Result<transcripts::Counts>> Follower::count(std::string id, std::vector<std::string> files) {
  transcripts::Counts counts;
  for (const std::string& file : files) {
    auto read = co_await readers_.read(
        id, file, [](transcripts::Transcript& transcript) { return transcripts::counts_of(transcript); });
    if (read)
      counts.add(*read);
    else if (read.error().lasting)
      log::warn("transcript_not_counted", {{"agent", id}, {"file", file}, {"error", read.error().detail}});
    else
      co_return std::unexpected(std::move(read.error()));
  }
  co_return counts;
}

// Publishes lines that were counted with the transcripts, and would be counted again. Returns whether there were any.
asio::awaitable<Result<bool>> Follower::publish_uncounted(std::string id, std::vector<std::string> files) {
  CO_TRY(const auto edits, co_await foreign_edits(id, {files.begin(), files.end()}));
  bool published = false;
  for (const transcripts::ForeignEdit& edit : edits) {
    if (edit.kind == transcripts::ForeignEdit::Kind::appended) {
      CO_TRY(const auto theirs, co_await first_lines(readers_, id, edit));
      if (theirs.lines.empty()) continue;  // a torn line, or a header alone
    }
    CO_TRY(co_await publish(id, edit.file));
    published = true;
  }
  co_return published;
}

asio::awaitable<Result<void>> Follower::put_counts_right(std::string id, std::string key) {
  constexpr int most_tries = 8;
  for (int tries = 0; tries < most_tries; ++tries) {
    const auto state = agents_.find_or_add(id).state;
    const decide::Session* session = state ? state->find_key(key) : nullptr;
    if (session == nullptr || session->entry_count) co_return Result<void>{};
    const std::vector<std::string> files = decide::counted_files(*state, *session);
    const std::uint64_t counted_at = session->last_seq;
    CO_TRY(co_await commits_.wait_until_durable(commits_.last()));
    CO_TRY(const auto counts, co_await count(id, files));
    CO_TRY(const bool published, co_await publish_uncounted(id, files));
    if (env_.stopping) co_return fail(Code::draining, "the daemon is shutting down");
    if (commits_.failed()) co_return commits_.failure();
    session = agents_.find_or_add(id).state == state ? state->find_key(key) : nullptr;
    if (published || session == nullptr || session->last_seq != counted_at) continue;
    decide::Decision decision = decide::decide_counts(*state, *session, counts, commits_.context("sessiond", "api"));
    agents_.stage(*state, decision);
    co_return Result<void>{};
  }
  co_return fail(Code::session_busy, "the transcript keeps changing; try again");
}

void Follower::put_counts_right_soon(const std::string& id, const decide::Session& session) {
  if (session.entry_count || session.ephemeral) return;
  env_.background.run(put_counts_right_in_background(id, session.key()), "put_counts_right");
}

asio::awaitable<void> Follower::put_counts_right_in_background(std::string id, std::string key) {
  static_cast<void>(co_await put_counts_right(id, key));  // else when a transcript is opened the next time
}

void Follower::tell_news(const TranscriptNews& news) {
  for (auto& [id, agent] : agents_.all()) {
    const std::string dir = env_.paths.sessions_dir(id);
    for (const auto& [path, from] : news.renumbered) {
      if (path.starts_with(dir))
        env_.background.run(tell_renumbered(id, path.substr(dir.size()), from), "tell_renumbered");
    }
    for (const auto& [path, entry] : news.doubled) {
      if (path.starts_with(dir)) tell_doubled(notices_, id, path.substr(dir.size()), entry);
    }
    for (const std::string& path : news.displaced) {
      if (!agent->state || !path.starts_with(dir)) continue;
      agent->state->transcripts.forget(path.substr(dir.size()));
      follow(id, path.substr(dir.size()));
    }
    for (const std::string_view folder : folders_beside) {
      const std::string beside = dir_beside(env_.paths, id, folder);
      for (const std::string& path : news.displaced)
        if (agent->state && path.starts_with(beside))
          agent->state->transcripts.forget(std::string(folder) + "/" + path.substr(beside.size()));
    }
    std::vector<lock::Eviction> own;
    for (const lock::Eviction& eviction : news.evictions) {
      if (eviction.path.contains("/" + dir)) own.push_back(eviction);
    }
    notices_.evicted(id, own);
  }
}

// Foreign lines stand where ours were to stand: the seqs that were told of ours are wrong.
asio::awaitable<void> Follower::tell_renumbered(std::string id, std::string file, std::uint64_t from) {
  if (auto loaded = co_await agents_.load(id, false); !loaded) co_return log_load_failure(env_, id, loaded.error());
  if (env_.stopping || commits_.failed() || !agents_.find_or_add(id).state) co_return;
  decide::AgentState& state = *agents_.find_or_add(id).state;
  const auto owner = state.owner_of(file);
  if (!owner) co_return;  // archived meanwhile
  decide::Decision decision = decide::decide_renumbered(state, *owner, from, commits_.context("external", "external"));
  co_await commits_.wait_until_durable(agents_.stage(state, decision));
}

}  // namespace sessiond::ledger

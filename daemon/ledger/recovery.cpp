// Opens the ledger and brings the files up to the journal. Reads the journal twice from the checkpoint on: for the
// archives that were made, then for everything. Repeating either changes nothing, so a start that is killed is simply
// done again.

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "daemon/decide/apply.hpp"
#include "daemon/decide/commands.hpp"
#include "daemon/decide/foreign.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/ledger/start_files.hpp"
#include "daemon/runtime/log.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/names.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/lost_lines.hpp"

namespace sessiond::ledger {
namespace {

// Deletes the sessions that were to live no longer than the daemon that made them.
asio::awaitable<void> purge_ephemeral(Ledger& ledger, std::string id) {
  const auto& agents = ledger.parts().agents.all();
  const auto agent = agents.find(id);
  if (agent == agents.end() || !agent->second->state) co_return;  // it left memory, or is read again
  std::vector<std::string> keys;
  for (const auto& [key, session] : agent->second->state->by_name()) {
    if (session->ephemeral && session->created_at < ledger.parts().env.started) keys.emplace_back(key);
  }
  for (const std::string& key : keys) {
    decide::DeleteSession command{.target = {.key = key}, .purge = true, .missing_ok = true};
    const auto done = co_await ledger.commit(
        id, {.actor = "sessiond"},
        [command](const decide::AgentState& state, const decide::Context& context, const decide::FetchedLines&) {
          return decide::decide(state, command, context);
        });
    if (!done) log::warn("ephemeral_session_stays", {{"agent", id}, {"key", key}, {"error", done.error().detail}});
  }
}

// Reads agents again after a failed batch: one that no request asks for would hold CHECKPOINT back.
asio::awaitable<void> reload(Agents& agents, std::set<std::string> ids) {
  for (const std::string& id : ids) {
    if (auto loaded = co_await agents.load(id, true); !loaded) {
      log::error("agent_not_rebuilt",
                 {{"agent", id}, {"error", loaded.error().detail}, {"next", "tried again when it is used"}});
    }
  }
}

void log_check(const journal::JournalCheck& check) {
  constexpr std::uint64_t told_every = 8;  // segments
  if (!check.damage.empty())
    log::warn("journal_damaged", {{"what", check.damage}, {"next", "serve --repair puts the damage aside"}});
  if (check.done() || check.segments % told_every == 0)
    log::info(check.done() ? "journal_checked" : "journal_check", {{"segments", check.segments},
                                                                   {"of", check.of_segments},
                                                                   {"bytes", check.bytes},
                                                                   {"indexes_made", check.indexes_made}});
}

// Goes through what the journal has beyond the checkpoint: makes files from it, and collects each agent's events.
class Recovery {
 public:
  // `repair`: agents whose folder is gone are made again.
  Recovery(LedgerParts& parts, Checkpoint checkpoint, bool repair)
      : parts_(parts), checkpoint_(std::move(checkpoint)), repair_(repair) {}

  Result<void> run() {
    parts_.checkpointer.start_from(checkpoint_.least());
    keep_gone_folders();
    TRY(find_archives());
    TRY(replay());
    TRY(projection_.writer().flush());
    projection_.writer().make_up_lost_lines({});
    parts_.flusher.set_recovering(projection_.writer().waiting());
    parts_.flusher.set_locked(parts_.flusher.before_first_call().locked());
    for (const std::string& file : parts_.flusher.recovering())
      log::warn("recovery_waits", {{"file", file}, {"why", "a foreign program holds its lock"}});
    store::fault_point("recovery.replayed");
    for (const std::string& id : vanished()) events_[id];
    for (const std::string& id : checkpoint_.add_books(books_on_disk(parts_.env.paths))) events_[id];
    for (const auto& [id, books] : checkpoint_.books) parts_.agents.find_or_add(id).reached.books = books;
    for (const auto& [id, seq] : checkpoint_.previous) parts_.agents.find_or_add(id).reached = checkpoint_.reached(id);
    for (auto& [id, events] : events_) agent(id, events);
    return {};
  }

  // Merges the foreign changes that loading found. Not part of run(), because it commits.
  asio::awaitable<Result<void>> merge_foreign() {
    for (auto& [id, change] : foreign_) {
      auto merged = co_await parts_.agents.merge_foreign(id, std::move(change), true);
      turns_.erase(id);
      if (!merged) co_return merged;
      store::fault_point("recovery.merged");
    }
    parts_.flusher.flush_soon();  // writes the lines whose file was locked
    // Starts after the merge, because a checkpoint writes whole entries and would undo a foreign change.
    parts_.env.background.run(parts_.checkpointer.run(), "checkpointer");
    parts_.env.background.run(parts_.checkpointer.last_sessions().run(), "last_sessions");
    co_return Result<void>{};
  }

  // The agents of which the journal had something beyond the checkpoint.
  std::vector<std::string> replayed() const {
    std::vector<std::string> out;
    out.reserve(events_.size());
    for (const auto& [id, events] : events_) out.push_back(id);
    return out;
  }

 private:
  // A transcript that a reset or deletion beyond the checkpoint archives, or that is restored.
  struct Archived {
    std::uint64_t seq;
    std::string name;  // below the state directory
    bool purged;
    bool done;      // before the crash: a file with the old name is a newer one
    bool restored;  // the other way round: the archive became the transcript again
  };

  template <class Take>
  Result<void> each_batch(Take call) {
    std::uint64_t from = std::max(checkpoint_.least() + 1, parts_.commits.journal().oldest());
    while (from <= parts_.commits.journal().head()) {
      auto page = parts_.commits.journal().read(from, decide::replay_page_bytes);
      if (!page && page.error().code == Code::degraded)
        return fail(Code::degraded, page.error().detail + "; start with --repair to go on without what is lost");
      if (!page) return std::unexpected(std::move(page.error()));
      for (const journal::StoredBatch& batch : page->batches) {
        TRY(call(batch));
      }
      from = page->next;
    }
    return {};
  }

  Result<void> find_archives() {
    return each_batch([this](const journal::StoredBatch& batch) -> Result<void> {
      for (const journal::LinePosition& position : batch.line_positions)
        if (!position.staged.empty())
          parts_.env.staged_before.insert(parts_.env.paths.sessions_dir(position.agent) + position.staged);
      for (const journal::Bytes& bytes : batch.events) {
        if (!renames_files(*bytes)) continue;
        TRY(auto event, journal::parse_event(*bytes));
        for (auto& [file, name] : archived_files(event, batch.line_positions)) {
          const std::string dir = parts_.env.paths.sessions_dir(event.envelope.agent);
          if (event.envelope.type == journal::EventType::archive_destroyed) {
            destroyed_.insert(dir + name);
            continue;
          }
          TRY(const bool done, projection_.archives().contains(event.envelope.agent, event.envelope.seq));
          archived_[dir + file].push_back(
              {event.envelope.seq, dir + name, purges_files(event), done, restores_files(event)});
        }
      }
      return {};
    });
  }

  // Says where a line of the event `seq` belongs by now: its file, the archive that the file has become, or nothing
  // (purged, or an archive that was destroyed).
  std::optional<std::string> place_of(std::uint64_t seq, const std::string& file) const {
    const auto found = archived_.find(file);
    if (found == archived_.end()) return file;
    const std::vector<Archived>& all = found->second;
    for (const Archived& archived : all) {
      if (archived.seq <= seq || archived.restored) continue;  // what an event brings is no part of what it archives
      if (archived.purged || destroyed_.contains(archived.name)) return std::nullopt;
      std::error_code error;
      if (std::filesystem::exists(parts_.env.paths.root() / archived.name, error)) return archived.name;
      const bool restored_later = std::ranges::any_of(all, [&archived](const Archived& later) {
        return later.restored && later.seq > archived.seq && later.name == archived.name;
      });
      if (restored_later) continue;
      return archived.done ? std::nullopt : std::optional(file);  // a foreign program removed the archive
    }
    return file;
  }

  Result<void> replay() {
    std::uint64_t count = 0;
    auto read = each_batch([this, &count](const journal::StoredBatch& batch) {
      count += batch.events.size();
      return take(batch);
    });
    if (!read) return read;
    if (count != 0)
      log::info("recovered", {{"events", count}, {"from", checkpoint_.least() + 1}, {"agents", events_.size()}});
    return {};
  }

  Result<void> take(const journal::StoredBatch& batch) {
    const auto where = [this](std::uint64_t seq, const std::string& file) { return place_of(seq, file); };
    TRY(projection_.add(batch.first, batch.events, batch.line_positions, where));
    if (projection_.writer().pending_bytes() > (8U << 20)) {
      TRY(projection_.writer().flush());
    }
    for (const std::string& text : batch.answers) {
      TRY(auto answer, answers::answer_from_json(text));
      parts_.commits.answers().put(answer);
    }
    for (const journal::Bytes& bytes : batch.events) {
      TRY(auto event, journal::parse_event(*bytes));
      const std::string id = event.envelope.agent;
      if (!id.empty() && event.envelope.seq > checkpoint_.reached(id).store) events_[id].push_back(std::move(event));
    }
    return {};
  }

  // Has nothing written into folders that are gone or empty: they may be on a volume that is not mounted. Of an agent
  // whose store was never written it is not known that there was one.
  void keep_gone_folders() {
    const Paths& paths = parts_.env.paths;
    for (const std::string& id : paths.agents())
      if (transcripts::holds_sessions(paths.store_file(id).parent_path())) there_.insert(paths.sessions_dir(id));
    if (repair_) {
      projection_.writer().make_up_lost_lines([this](std::string_view file) {
        return !is_log_path(file) && !there_.contains(file.substr(0, file.find_last_of('/') + 1));
      });
      return;
    }
    std::set<std::string> written;
    for (std::string& id : paths.kept_agents()) written.insert(std::move(id));
    for (const auto& [id, seq] : checkpoint_.written)
      if (seq != 0 && checkpoint_.agents.contains(id)) written.insert(id);
    for (const std::string& id : written) {
      const auto dir = paths.store_file(id).parent_path();
      if (there_.contains(paths.sessions_dir(id))) continue;
      gone_.insert(id);
      projection_.writer().keep_absent(paths.sessions_dir(id), dir);
      for (const std::string_view beside : folders_beside)
        projection_.writer().keep_absent(dir_beside(paths, id, beside), dir);
    }
  }

  // Agents that CHECKPOINT or an earlier generation knows, and whose store is gone.
  std::set<std::string> vanished() const {
    std::set<std::string> out;
    std::set<std::string> known;
    for (std::string& id : parts_.env.paths.kept_agents()) known.insert(std::move(id));
    for (const auto& [id, seq] : checkpoint_.agents) known.insert(id);
    std::error_code error;
    for (const std::string& id : known) {
      const auto status = std::filesystem::symlink_status(parts_.env.paths.store_file(id), error);
      if (status.type() == std::filesystem::file_type::not_found) out.insert(id);
    }
    return out;
  }

  // Rebuilds one agent. A store that cannot be read does not keep the daemon from starting: the agent's events stay in
  // the journal, and it is read again later.
  void agent(const std::string& id, const std::vector<journal::Event>& events) {
    const FilesReached reached = checkpoint_.reached(id);
    auto loaded = load_store(
        parts_.env.config, parts_.env.paths, parts_.commits.journal(), true, id,
        {.known_to = checkpoint_.agents.contains(id) ? reached.store : 0,
         .folder_gone = gone_.contains(id) ? FolderGone::judge : FolderGone::rebuild,
         .generations = {.written = reached.ours, .previous = checkpoint_.previous.contains(id) ? reached.previous : 0},
         .books = reached.books,
         .staged = parts_.env.staged_before});
    if (!loaded) {
      Agent& slot = parts_.agents.find_or_add(id);
      slot.rebuild = true;
      slot.gone = gone_.contains(id);
      slot.reached = reached;
      slot.checkpoint.dirty_since = store::steady_ms();  // tried again with the checkpoints
      parts_.agents.degrade(slot, loaded.error());
      return;
    }
    // It has no sessions, so its folder may be made again.
    if (gone_.contains(id)) projection_.writer().make_again(parts_.env.paths.store_file(id).parent_path());
    if (events.empty() && loaded->state->size() == 0 && !loaded->state->is_dirty()) return;  // it had no sessions
    decide::OwnVersions own(loaded->foreign);
    for (const journal::Event& event : events) {
      const decide::Change change = decide::decode(event);
      decide::apply(*loaded->state, change, decide::Replay::yes);
      own.applied(*loaded->state, change);
    }
    own.remove_own(loaded->foreign);
    decide::note_lost_sessions(*loaded->state, loaded->foreign);
    if (repair_ && !there_.contains(parts_.env.paths.sessions_dir(id))) make_up_transcripts(*loaded);
    Agent& slot = parts_.agents.find_or_add(id);
    slot.file = std::move(loaded->file);
    slot.logs = std::move(loaded->logs);
    slot.state = std::move(loaded->state);
    slot.reached = reached;
    slot.touched = slot.looked = slot.checkpoint.dirty_since = store::steady_ms();
    parts_.follower.watch(slot);
    parts_.notices.repaired(id, loaded->repairs);
    slot.missing = std::move(loaded->missing);
    parts_.notices.evicted(id, loaded->evictions);
    if (!loaded->foreign) return;
    // The turn keeps the file from being looked at until the change is merged.
    turns_.emplace(id, TurnGuard(parts_.env.io, slot.shared_from_this(), Turn::loading));
    foreign_[id] = std::move(*loaded->foreign);
  }

  // Makes transcripts that are gone, and of which the journal has nothing, as entries that cannot be read: what is
  // appended later must not get a seq that was told of another entry.
  void make_up_transcripts(Loaded& loaded) const {
    const auto dir = parts_.env.paths.root() / parts_.env.paths.sessions_dir(loaded.state->id());
    std::size_t made = 0;
    for (const auto& [key, session] : loaded.state->by_name()) {
      const auto path = dir / decide::AgentState::file_of(*session, {});
      const std::int64_t count = session->entries();
      if (count <= 0 || store::stat_of(path)) continue;
      const std::string text = transcripts::lost_transcript(session->session_id, static_cast<std::uint64_t>(count));
      if (auto written = store::replace_file(path, text); !written) {
        loaded.repairs.push_back(written.error().detail);
        return;
      }
      ++made;
    }
    if (made != 0)
      loaded.repairs.push_back(fmt::format(
          "of {} sessions the journal has no entries: they are shown as unreadable, so that seqs mean the same", made));
  }

  LedgerParts& parts_;
  Projection& projection_ = parts_.flusher.before_first_call().projection();
  Checkpoint checkpoint_;
  bool repair_;
  std::set<std::string, std::less<>> there_{};  // folders with sessions at the start, as Paths::sessions_dir
  std::set<std::string> gone_{};                // agents whose folder is not there, or holds nothing
  std::map<std::string, std::vector<journal::Event>> events_;
  std::map<std::string, sessions::ForeignChange> foreign_;
  std::map<std::string, TurnGuard> turns_;                 // of the agents in foreign_
  std::map<std::string, std::vector<Archived>> archived_;  // by file below the state directory, in journal order
  std::set<std::string> destroyed_;                        // archives, below the state directory
};

}  // namespace

Ledger::Ledger(asio::io_context& io, asio::thread_pool& disk, const config::Config& config, decide::Rules rules,
               std::unique_ptr<journal::FileJournal> journal, std::unique_ptr<answers::KeptAnswers> answers,
               std::unique_ptr<journal::AgeClock> clock, std::string secret)
    : parts_{.env = {io, disk, config, std::move(rules), std::move(secret)},
             .journal_files = *journal,
             .commits = {parts_.env, std::move(journal), std::move(answers), std::move(clock)}} {
  parts_.commits.set_hooks(
      {.on_durable =
           [this](journal::BatchOutcome batch, std::vector<decide::Change> changes, bool archives) {
             parts_.checkpointer.backlog().measure();
             parts_.flusher.add(std::move(batch.commits), archives, batch.bytes);
             tell(std::move(changes), on_durable_events_);
           },
       .forget = [this](std::string id) { return parts_.agents.forget(std::move(id)); },
       .reload = [this](std::set<std::string> ids) { return reload(parts_.agents, std::move(ids)); }});
  parts_.env.on_passing_events = [this](std::vector<decide::Change> changes) {
    tell(std::move(changes), on_passing_events_);
  };
  parts_.flusher.on_news([this](const TranscriptNews& news) { parts_.follower.tell_news(news); });
  parts_.agents.set_hooks(
      {.on_dirty = [this] { parts_.checkpointer.wake(); },
       .on_loaded =
           [this](Agent& agent) {
             parts_.follower.watch(agent);
             parts_.follower.note_missing_soon(agent.id);
             parts_.memory.give_way(*agent.state);  // of a store that was written in place, no change is known
           },
       .on_unsettled = [this](Agent& agent) { parts_.follower.look_again(agent); },
       .on_first_load = [this](std::string id) { return purge_ephemeral(*this, std::move(id)); },
       .on_foreign =
           [this](const std::string& id, const decide::Session& session) {
             // Its transcript may have had no session until now.
             parts_.follower.follow(id, decide::AgentState::file_of(session, {}));
             parts_.memory.give_way(id, session);
           },
       .publish_foreign_lines =
           [this](std::string id) { return parts_.follower.publish_foreign_lines(std::move(id), {}); },
       .end_left_run = [this](std::string agent, decide::LeftRun left) -> asio::awaitable<Result<void>> {
         // The transcript may have gone in the same moment: its end is read again.
         CO_TRY(co_await parts_.follower.publish(agent, left.file));
         const auto decide = [&left](const decide::AgentState& state, const decide::Context& context,
                                     const decide::FetchedLines&) {
           return decide::decide_left_behind(state, left, context);
         };
         CO_TRY(co_await commit(agent, {.actor = "external", .in_turn = true, .source = "external"}, decide));
         co_return Result<void>{};
       },
       .archived_from = [this](const std::string& id) { return parts_.checkpointer.archived_from(id); }});
  parts_.checkpointer.set_hooks({.on_written = [this](Agent& agent) { parts_.follower.watch(agent); },
                                 .on_round =
                                     [this] {
                                       parts_.follower.check_all_if_due();
                                       parts_.agents.unload_idle(parts_.checkpointer.backlog().from());
                                     }});
}

Ledger::~Ledger() = default;

void Ledger::tell(std::vector<decide::Change> changes, const OnEvents& on_events) const {
  if (observer_)
    for (const decide::Change& change : changes) observer_(change);
  if (!on_events || changes.empty()) return;
  on_events({std::move_iterator(changes.begin()), std::move_iterator(changes.end())});
}

Result<std::unique_ptr<Ledger>> Ledger::open(asio::io_context& io, asio::thread_pool& disk,
                                             const config::Config& config, decide::Rules rules, bool repair,
                                             std::shared_ptr<const journal::JournalFileOps> file_ops) {
  const Paths paths(config.state_dir, config.store.path_template);
  store::set_key_rules({.case_sensitive = config.routing.case_sensitive,
                        .all_letters = config.store.mode == config::Config::StoreMode::shared});
  TRY(store::make_dirs(paths.journal_dir()));
  TRY(store::make_dirs(paths.root()));
  remove_left_temps(paths);
  LinkDir::remove_left(paths.journal_dir());
  if (!store::can_exchange(paths.journal_dir()))
    log::warn("no_exchange",
              {{"path", config.state_dir},
               {"why", "this file system cannot exchange two files"},
               {"next",
                "sessions.json is looked at, then renamed over: what a program that ignores its lock writes in "
                "between is lost"}});
  const std::vector<std::string> moved = clear_the_way(paths);
  TRY(auto secret, journal_secret(paths.journal_dir() / "cursor.key"));
  TRY(auto checkpoint, read_checkpoint(paths.journal_dir() / "CHECKPOINT"));
  TRY(const auto files, journal_bounds(paths, checkpoint, repair));
  TRY(auto journal, journal::FileJournal::open({.dir = paths.journal_dir(),
                                                .segment_bytes = config.journal.segment_bytes,
                                                .max_bytes = config.journal.max_bytes,
                                                .torn_kept_ms = config.journal.retention_ms,
                                                .repair = repair,
                                                .needed_from = checkpoint.least() + 1,
                                                .first_seq = files.first_seq,
                                                .least_head = files.least_head,
                                                .file_ops = std::move(file_ops),
                                                .on_check = [&io](const journal::JournalCheck& check) {
                                                  asio::post(io, [check] { log_check(check); });
                                                }}));
  TRY(auto answers, answers::KeptAnswers::open({.dir = paths.journal_dir(),
                                                .key_retention_ms = config.idempotency.retention_ms,
                                                .message_retention_ms = config.journal.retention_ms,
                                                .max_bytes = config.idempotency.max_bytes}));
  std::vector<std::string> repairs;
  TRY(auto adoptions, read_adoptions(adoptions_file(paths), repairs));
  TRY(auto hooks, read_hooks(hooks_file(paths), repairs));
  auto clock = journal::AgeClock::open(paths.journal_dir() / "clock", std::max(answers->newest(), adoptions.newest()),
                                       journal->head());
  std::unique_ptr<Ledger> ledger(new Ledger(io, disk, config, std::move(rules), std::move(journal), std::move(answers),
                                            std::move(clock), std::move(secret)));
  LedgerParts& parts = ledger->parts_;
  parts.commits.journal().tail([&io, commits = &parts.commits](journal::BatchOutcome outcome) {
    asio::post(io, [commits, outcome = std::move(outcome)]() mutable { commits->on_outcome(std::move(outcome)); });
  });
  parts.flusher.before_first_call().projection().archives().on_oldest(
      [&all = parts.commits.journal()] { return all.oldest(); });
  for (const std::string& what : moved) parts.notices.journal_repaired("journal: " + what);
  if (checkpoint.damaged)
    parts.notices.journal_repaired("journal: CHECKPOINT was damaged; the whole journal is gone through");
  for (const std::string& what : parts.journal_files.report().repairs)
    parts.notices.journal_repaired("journal: " + what);
  for (const std::string& what : parts.journal_files.report().damage)
    log::warn("journal_damaged", {{"what", what}, {"next", "serve --repair puts the damage aside"}});
  for (std::string& what : parts.commits.answers().take_repairs())
    parts.notices.journal_repaired("idempotency: " + what);
  *parts.env.adoptions = std::move(adoptions);
  *parts.env.hooks = std::move(hooks);
  for (const std::string& what : repairs) parts.notices.journal_repaired(what);
  Recovery recovery(parts, std::move(checkpoint), repair);
  TRY(recovery.run());
  std::optional<Result<void>> done;
  const auto finish = [](Ledger& self, Recovery& from) -> asio::awaitable<Result<void>> {
    CO_TRY(co_await from.merge_foreign());
    for (const std::string& id : from.replayed()) co_await purge_ephemeral(self, id);
    co_return Result<void>{};
  };
  asio::co_spawn(io, finish(*ledger, recovery), [&done](const std::exception_ptr& thrown, Result<void> outcome) {
    if (thrown) std::rethrow_exception(thrown);
    done = std::move(outcome);
  });
  const auto work = asio::make_work_guard(io);
  while (!done) io.run_one();
  TRY(std::move(*done));
  return ledger;
}

}  // namespace sessiond::ledger

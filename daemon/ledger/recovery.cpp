// Opening the ledger: what the checkpoint has not is taken from the journal (FORMATS §2 "Recovery").
#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "daemon/decide/apply.hpp"
#include "daemon/decide/foreign.hpp"
#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/ledger/obstacles.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/journal/segment.hpp"
#include "store/json/crc.hpp"
#include "store/names.hpp"

namespace sessiond {
namespace {

// CHECKPOINT: {"epoch","seq","agents":{"<id>":<seq>},"previous":{…},"written":{…},"crc"}. Agents that are not named
// have everything up to `seq`.
struct Checkpoint {
  std::uint64_t seq = 0;
  std::map<std::string, std::uint64_t> agents;
  std::map<std::string, std::uint64_t> previous;
  std::map<std::string, std::uint64_t> written;
  bool known = false;    // it was there, and sound
  bool damaged = false;  // it was there

  std::uint64_t reached(const std::string& agent) const {
    const auto found = agents.find(agent);
    return found == agents.end() ? seq : found->second;
  }
  std::uint64_t written_by_us(const std::string& agent) const {
    const auto found = written.find(agent);
    return found == written.end() ? 0 : found->second;
  }
  std::uint64_t least() const {
    std::uint64_t out = seq;
    for (const auto& [id, reached] : agents) out = std::min(out, reached);
    return out;
  }
};

Result<Checkpoint> read_checkpoint(const std::filesystem::path& path) {
  Checkpoint out;
  auto text = read_file(path);
  if (!text) {
    if (text.error().code == Code::not_found) return out;
    return std::unexpected(std::move(text.error()));
  }
  if (!json::check(*text) || !crc_fits(*text) || json::int_at(*text, "seq").value_or(-1) < 0) {
    log::warn("checkpoint_damaged", {{"path", path.string()}, {"next", "replaying the whole journal"}});
    out.damaged = true;
    return out;
  }
  out.known = true;
  out.seq = static_cast<std::uint64_t>(json::int_at(*text, "seq").value_or(0));
  const auto read = [&text](std::string_view name, std::map<std::string, std::uint64_t>& into) {
    for (const json::Member& member : json::members(json::find(*text, name).value_or("{}"))) {
      into[json::unescape(member.name)] = static_cast<std::uint64_t>(json::as_int(member.value).value_or(0));
    }
  };
  read("agents", out.agents);
  read("previous", out.previous);
  read("written", out.written);
  return out;
}

std::optional<LockOptions> transcript_locks(const Config& config) {
  if (config.store.mode != Config::StoreMode::shared) return {};
  return LockOptions{.timeout = std::chrono::milliseconds(0), .stale = std::chrono::minutes(30)};
}

}  // namespace

Ledger::Ledger(asio::io_context& io, asio::thread_pool& disk, const Config& config, Rules rules,
               std::unique_ptr<FileJournal> journal, std::unique_ptr<AnswerStore> answers,
               std::unique_ptr<AgeClock> clock)
    : io_(io),
      disk_(disk),
      config_(config),
      rules_(std::move(rules)),
      paths_(config.state_dir, config.store.path_template),
      epoch_(journal->epoch()),
      ids_(IdSource::secure()),
      files_(asio::make_strand(disk.get_executor())),
      marks_(asio::make_strand(disk.get_executor())),
      projection_(paths_, transcript_locks(config), adopting_,
                  [this](std::string what) { asio::post(io_, [this, what] { note_repair("journal: " + what); }); }),
      next_seq_(journal->head() + 1),
      durable_(journal->head()),
      answers_(std::move(answers)),
      clock_(std::move(clock)),
      watch_(io, [this](Watch::Seen what) { seen(std::move(what)); }),
      follow_timer_(io),
      started_(unix_ms()),
      flush_timer_(io),
      checkpoint_timer_(io),
      journal_files_(*journal),
      journal_(std::move(journal)) {}

Ledger::~Ledger() = default;

// Goes once through what the journal has beyond the checkpoint: files are made from it, and each agent's events are
// collected.
class Recovery {
 public:
  Recovery(Ledger& ledger, Checkpoint checkpoint) : ledger_(ledger), checkpoint_(std::move(checkpoint)) {}

  Result<void> run() {
    ledger_.checkpointed_ = ledger_.backlog_from_ = ledger_.synced_ = checkpoint_.least();
    if (auto read = find_archives(); !read) return read;
    if (auto read = replay(); !read) return read;
    if (auto flushed = ledger_.projection_.flush(); !flushed) return flushed;
    ledger_.recovered_ = ledger_.projection_.waiting();
    ledger_.note_held(ledger_.held_files());
    for (const std::string& file : ledger_.recovered_)
      log::warn("recovery_waits", {{"file", file}, {"why", "another program holds its lock"}});
    fault_point("recovery.replayed");
    for (const std::string& id : vanished()) events_[id];
    for (auto& [id, events] : events_) agent(id, events);
    for (const auto& [id, seq] : checkpoint_.previous) {
      Ledger::Agent& slot = ledger_.slot(id);
      if (slot.previous_seq == 0) slot.previous_seq = seq;
      if (slot.written_seq == 0) slot.written_seq = checkpoint_.written_by_us(id);
      if (slot.file_seq == 0) slot.file_seq = checkpoint_.reached(id);
    }
    return {};
  }

  // What could not be done before the journal was read: it commits.
  asio::awaitable<Result<void>> afterwards() {
    for (auto& [id, change] : foreign_) {
      auto merged = co_await ledger_.commit_external(id, std::move(change), true);
      Ledger::Agent& slot = ledger_.slot(id);
      slot.loading = false;
      slot.waiting.release(0);
      if (!merged) co_return merged;
      fault_point("recovery.merged");
    }
    ledger_.schedule_flush();  // for lines that found their file locked
    // Not before: what it writes is whole entries.
    ledger_.in_background(ledger_.checkpoint_loop(), "checkpoint_loop");
    for (const auto& [id, events] : events_) co_await ledger_.purge_ephemeral(id);
    co_return Result<void>{};
  }

 private:
  // A transcript that a reset or deletion beyond the checkpoint archives.
  struct Archived {
    std::uint64_t seq;
    std::string name;  // below the state directory
    bool purged;
    bool done;  // before the crash: what bears the old name now is a newer file
  };

  template <class Take>
  Result<void> each_batch(Take call) {
    std::uint64_t from = std::max(checkpoint_.least() + 1, ledger_.journal_->oldest());
    while (from <= ledger_.journal_->head()) {
      auto page = ledger_.journal_->read(from, replay_page_bytes);
      if (!page && page.error().code == Code::degraded)
        return fail(Code::degraded, page.error().detail + "; start with --repair to go on without what is lost");
      if (!page) return std::unexpected(std::move(page.error()));
      for (const StoredBatch& batch : page->batches) {
        if (auto fine = call(batch); !fine) return fine;
      }
      from = page->next;
    }
    return {};
  }

  Result<void> find_archives() {
    return each_batch([this](const StoredBatch& batch) -> Result<void> {
      for (const Bytes& bytes : batch.events) {
        if (!Projection::archives(*bytes)) continue;
        auto event = parse_event(*bytes);
        if (!event) return std::unexpected(std::move(event.error()));
        for (auto& [file, name] : Projection::archived_files(*event, batch.line_positions)) {
          const std::string dir = ledger_.paths_.sessions_dir(event->envelope.agent);
          const auto done = ledger_.projection_.archived(event->envelope.agent, event->envelope.seq);
          if (!done) return std::unexpected(done.error());
          archived_[dir + file].push_back({event->envelope.seq, dir + name, Projection::purges(*event), *done});
        }
      }
      return {};
    });
  }

  // Where a line of the event `seq` belongs by now: into its file, into the archive that the file has become, or
  // nowhere (purged).
  std::optional<std::string> place_of(std::uint64_t seq, const std::string& file) const {
    const auto found = archived_.find(file);
    if (found == archived_.end()) return file;
    for (const Archived& archived : found->second) {
      if (archived.seq < seq) continue;
      if (archived.purged) return std::nullopt;
      std::error_code error;
      if (std::filesystem::exists(ledger_.paths_.state_dir() / archived.name, error)) return archived.name;
      return archived.done ? std::nullopt : std::optional(file);  // an archive that another program removed
    }
    return file;
  }

  Result<void> replay() {
    std::uint64_t count = 0;
    auto read = each_batch([this, &count](const StoredBatch& batch) {
      count += batch.events.size();
      return take(batch);
    });
    if (!read) return read;
    if (count != 0)
      log::info("recovered", {{"events", count}, {"from", checkpoint_.least() + 1}, {"agents", events_.size()}});
    return {};
  }

  Result<void> take(const StoredBatch& batch) {
    const auto where = [this](std::uint64_t seq, const std::string& file) { return place_of(seq, file); };
    if (auto made = ledger_.projection_.add(batch.first, batch.events, batch.line_positions, where); !made) return made;
    if (ledger_.projection_.pending_bytes() > (8U << 20)) {
      if (auto flushed = ledger_.projection_.flush(); !flushed) return flushed;
    }
    for (const std::string& text : batch.answers) {
      auto answer = answer_from_json(text);
      if (!answer) return std::unexpected(std::move(answer.error()));
      ledger_.answers_->put(*answer);
    }
    for (const Bytes& bytes : batch.events) {
      auto event = parse_event(*bytes);
      if (!event) return std::unexpected(std::move(event.error()));
      const std::string id = event->envelope.agent;
      if (!id.empty() && event->envelope.seq > checkpoint_.reached(id)) events_[id].push_back(std::move(*event));
    }
    return {};
  }

  // Agents that CHECKPOINT or an earlier generation knows, and whose store is gone.
  std::set<std::string> vanished() const {
    std::set<std::string> out;
    std::set<std::string> known;
    for (std::string& id : ledger_.paths_.kept_agents()) known.insert(std::move(id));
    for (const auto& [id, seq] : checkpoint_.agents) known.insert(id);
    std::error_code error;
    for (const std::string& id : known) {
      const auto status = std::filesystem::symlink_status(ledger_.paths_.store_file(id), error);
      if (status.type() == std::filesystem::file_type::not_found) out.insert(id);
    }
    return out;
  }

  // One agent whose store cannot be read keeps nobody else from starting: its events stay in the journal, and it is
  // read when it can be.
  void agent(const std::string& id, const std::vector<Event>& events) {
    const bool known = checkpoint_.agents.contains(id);
    const auto previous = checkpoint_.previous.find(id);
    const std::uint64_t written = checkpoint_.written_by_us(id);
    auto loaded = ledger_.load_from_disk(
        id, {.known_to = known ? checkpoint_.reached(id) : 0,
             .hold = {.written = written, .previous = previous == checkpoint_.previous.end() ? 0 : previous->second}});
    if (!loaded) {
      Ledger::Agent& slot = ledger_.slot(id);
      slot.rebuild = true;
      slot.file_seq = slot.lines_seq = checkpoint_.reached(id);
      slot.written_seq = written;
      slot.previous_seq = previous == checkpoint_.previous.end() ? slot.file_seq : previous->second;
      slot.dirty_since = steady_ms();  // tried again with the checkpoints
      ledger_.degrade(slot, loaded.error());
      return;
    }
    if (events.empty() && loaded->state->size() == 0) return;  // it had no sessions
    OwnVersions own(loaded->foreign);
    for (const Event& event : events) {
      apply(*loaded->state, event, Replay::yes);
      own.applied(*loaded->state, event);
    }
    own.remove_own(loaded->foreign);
    Ledger::Agent& slot = ledger_.slot(id);
    slot.file = std::move(loaded->file);
    slot.state = std::move(loaded->state);
    slot.file_seq = slot.lines_seq = checkpoint_.reached(id);
    slot.written_seq = written;
    slot.previous_seq = previous == checkpoint_.previous.end() ? slot.file_seq : previous->second;
    slot.touched = slot.looked = slot.dirty_since = steady_ms();
    slot.loading = loaded->foreign.has_value();  // until it is merged nobody looks at the file
    ledger_.watch(slot);
    ledger_.tell_repairs(id, loaded->repairs);
    ledger_.tell_evictions(id, loaded->evictions);
    if (loaded->foreign) foreign_[id] = std::move(*loaded->foreign);
  }

  Ledger& ledger_;
  Checkpoint checkpoint_;
  std::map<std::string, std::vector<Event>> events_;
  std::map<std::string, ForeignChange> foreign_;
  std::map<std::string, std::vector<Archived>> archived_;  // by file below the state directory, in journal order
};

namespace {

// The highest rev that a store has: a journal that was lost, or whose end was, must go on above it, or versions would
// come twice.
Result<std::uint64_t> highest_rev(const Paths& paths) {
  std::int64_t most = 0;
  for (const std::string& agent : paths.agents()) {
    auto text = read_file(paths.store_file(agent));
    if (!text && text.error().code != Code::not_found)
      log::warn("store_not_read", {{"agent", agent}, {"error", text.error().detail}});
    if (!text || text->find("\"rev\"") == std::string::npos || !json::check(*text, {.max_depth = json::foreign_depth}))
      continue;
    for (const json::Member& entry : json::members(*text))
      most = std::max(most, json::int_at(entry.value, "rev").value_or(0));
  }
  return static_cast<std::uint64_t>(most);
}

// What opening the journal must know of the files beside it.
struct Files {
  std::uint64_t first_seq = 1;   // of a new journal
  std::uint64_t least_head = 0;  // of one that is there
};
Result<Files> look_at_files(const Paths& paths, const Checkpoint& checkpoint, bool repair) {
  auto segments = journal::list_segments(paths.journal_dir());
  if (!segments) return std::unexpected(std::move(segments.error()));
  Files files{.first_seq = checkpoint.seq + 1, .least_head = checkpoint.seq};
  if (!segments->empty() && checkpoint.known && !repair) return files;  // every store read: only where it is needed
  const auto rev = highest_rev(paths);
  if (!rev) return std::unexpected(rev.error());
  files.first_seq = std::max(files.first_seq, *rev + 1);
  if (!segments->empty()) files.least_head = std::max(files.least_head, *rev);
  return files;
}

std::vector<std::string> clear_the_way(const Paths& paths) {
  std::vector<std::string> told;
  for (const Obstacle& obstacle : find_obstacles(paths.journal_dir())) {
    const auto aside = put_aside(obstacle.path);
    told.push_back(fmt::format("{} {}; {}", obstacle.path.native(), obstacle.what,
                               aside ? "moved to " + aside->filename().native() : aside.error().detail));
  }
  return told;
}

void log_check(const JournalCheck& check) {
  constexpr std::uint64_t told_every = 8;  // segments
  if (!check.damage.empty())
    log::warn("journal_damaged", {{"what", check.damage}, {"next", "serve --repair puts the damage aside"}});
  if (check.done() || check.segments % told_every == 0)
    log::info(check.done() ? "journal_checked" : "journal_check", {{"segments", check.segments},
                                                                   {"of", check.of_segments},
                                                                   {"bytes", check.bytes},
                                                                   {"indexes_made", check.indexes_made}});
}

// What a killed process was about to rename. The journal's folder is ours alone; in the state directory others may have
// files.
void remove_left_temps(const Paths& paths) {
  std::error_code error;  // what cannot be seen or removed is only untidy
  const auto remove = [&error](const std::filesystem::directory_entry& entry) {
    if (entry.path().extension() == ".tmp") std::filesystem::remove(entry.path(), error);
  };
  for (const std::string_view folder :
       {"", "archives", "ends", "index", "keys", "previous"}) {  // what doctor kept stays
    each_in(paths.journal_dir() / folder, remove);
  }
  each_in(paths.journal_dir() / "index", [&](const std::filesystem::directory_entry& agent) {
    if (!agent.is_symlink(error) && agent.is_directory(error)) each_in(agent.path(), remove);
  });
  each_in(paths.state_dir(), [&](const std::filesystem::directory_entry& entry) {
    const std::string name = entry.path().filename().native();
    if (name.starts_with("tokens.json.") || name.starts_with("policy.json.")) remove(entry);
  });
}

}  // namespace

Result<std::unique_ptr<Ledger>> Ledger::open(asio::io_context& io, asio::thread_pool& disk, const Config& config,
                                             Rules rules, bool repair) {
  const Paths paths(config.state_dir, config.store.path_template);
  set_case_sensitive_channels(config.routing.case_sensitive);
  if (auto made = make_dirs(paths.journal_dir()); !made) return std::unexpected(std::move(made.error()));
  remove_left_temps(paths);
  LinkDir::remove_left(paths.journal_dir());
  if (!can_exchange(paths.journal_dir()))
    log::warn("no_exchange",
              {{"path", config.state_dir},
               {"why", "this file system cannot exchange two files"},
               {"next",
                "sessions.json is looked at, then renamed over: what a program that ignores its lock writes in "
                "between is lost"}});
  const std::vector<std::string> moved = clear_the_way(paths);
  auto checkpoint = read_checkpoint(paths.journal_dir() / "CHECKPOINT");
  if (!checkpoint) return std::unexpected(std::move(checkpoint.error()));
  const auto files = look_at_files(paths, *checkpoint, repair);
  if (!files) return std::unexpected(files.error());
  auto journal = FileJournal::open(
      {.dir = paths.journal_dir(),
       .segment_bytes = config.journal.segment_bytes,
       .max_bytes = config.journal.max_bytes,
       .torn_kept_ms = config.journal.retention_ms,
       .repair = repair,
       .needed_from = checkpoint->least() + 1,
       .first_seq = files->first_seq,
       .least_head = files->least_head,
       .on_check = [&io](const JournalCheck& check) { asio::post(io, [check] { log_check(check); }); }});
  if (!journal) return std::unexpected(std::move(journal.error()));
  auto answers =
      AnswerStore::open({.dir = paths.journal_dir() / "keys",
                         .retention_ms = config.idempotency.retention_ms,
                         .max_bytes = config.idempotency.max_bytes,
                         .segment_bytes = std::min<std::uint64_t>(16ULL << 20, config.idempotency.max_bytes / 16)});
  if (!answers) return std::unexpected(std::move(answers.error()));
  auto clock = AgeClock::open(paths.journal_dir() / "clock", (*answers)->newest(), (*journal)->head());
  std::unique_ptr<Ledger> ledger(
      new Ledger(io, disk, config, std::move(rules), std::move(*journal), std::move(*answers), std::move(clock)));
  ledger->journal_->tail([&io, self = ledger.get()](BatchOutcome outcome) {
    asio::post(io, [self, outcome = std::move(outcome)]() mutable { self->on_outcome(std::move(outcome)); });
  });
  ledger->projection_.on_oldest([journal = ledger->journal_.get()] { return journal->oldest(); });
  for (const std::string& what : moved) ledger->note_repair("journal: " + what);
  if (checkpoint->damaged) ledger->note_repair("journal: CHECKPOINT was damaged; the whole journal is gone through");
  for (const std::string& what : ledger->journal_files_.report().repairs) ledger->note_repair("journal: " + what);
  for (const std::string& what : ledger->journal_files_.report().damage)
    log::warn("journal_damaged", {{"what", what}, {"next", "serve --repair puts the damage aside"}});
  for (std::string& what : ledger->answers_->take_repairs()) ledger->note_repair("idempotency: " + what);
  Recovery recovery(*ledger, std::move(*checkpoint));
  if (auto recovered = recovery.run(); !recovered) return std::unexpected(std::move(recovered.error()));
  std::optional<Result<void>> done;
  asio::co_spawn(io, recovery.afterwards(), [&done](const std::exception_ptr& thrown, Result<void> outcome) {
    if (thrown) std::rethrow_exception(thrown);
    done = std::move(outcome);
  });
  const auto work = asio::make_work_guard(io);
  while (!done) io.run_one();
  if (!*done) return std::unexpected(std::move(done->error()));
  return ledger;
}

}  // namespace sessiond

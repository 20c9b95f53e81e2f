#include "daemon/ledger/store_loading.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <charconv>
#include <filesystem>
#include <set>
#include <utility>

#include "daemon/decide/apply.hpp"
#include "daemon/decide/foreign.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/ledger/dirty_entry.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/names.hpp"
#include "store/process.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/staged.hpp"

namespace sessiond::ledger {
namespace {

// How long a disk thread may wait for a lock that was free a moment ago. A call that needs it longer asks again.
constexpr std::chrono::milliseconds lock_patience{200};

// Recognizes `<store>.<pid>.<…>.tmp` of a process that has ended. A checkpoint's note says what to do with its
// temporary file; the note of this one was lost.
bool is_left_temp(std::string_view file, std::string_view store) {
  if (!file.starts_with(store) || !file.ends_with(".tmp")) return false;
  const std::string_view rest = file.substr(store.size());
  std::int64_t pid = 0;
  const auto [stop, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), pid);
  return rest.starts_with('.') && error == std::errc() && *stop == '.' && pid > 0 && store::process_status(pid).dead;
}

// The same of a migration (transcripts/migrate.hpp) that was killed: its transcript is as it was.
bool is_left_migration(std::string_view file) {
  constexpr std::string_view mark = ".jsonl";
  const std::size_t at = file.find(mark);
  return at != file.npos && file.ends_with(".migrate.tmp") && is_left_temp(file, file.substr(0, at + mark.size()));
}

// Lists what a listing of an agent's folder finds beside transcripts.
struct Leftovers {
  const std::set<std::string, std::less<>>& staged;  // below the state directory: the journal names them
  std::vector<std::filesystem::path> temps{};        // that ended processes left beside the store
};

// Finds topics, session ids and archives by one listing of the folder. An archive without a record (of a foreign
// program or an earlier version) is known by its name only; an archive that is gone is dropped from its record. Staged
// transcripts that no commit took are removed. `files` (if given) receives the names of all files.
void find_files(decide::AgentState& state, const std::filesystem::path& dir, std::vector<decide::ArchiveRecord> records,
                std::string_view store, const std::string& below, Leftovers& left, std::set<std::string>* files) {
  std::unordered_map<std::string, std::int64_t> archives;  // name and time
  std::set<std::string, std::less<>> entries;              // files that keep the entry of an ended session
  store::each_in(dir, [&](const std::filesystem::directory_entry& entry) {
    std::string file = entry.path().filename().string();
    if (is_left_temp(file, store)) left.temps.push_back(entry.path());
    if (is_left_migration(file) || (transcripts::is_left_staged(file) && !left.staged.contains(below + file))) {
      std::error_code ignored;
      std::filesystem::remove(entry.path(), ignored);
      return;
    }
    if (files != nullptr) files->insert(file);
    if (file.ends_with(transcripts::entry_suffix)) entries.insert(file);
    const auto named = transcripts::parse_file_name(file);
    if (!named) return;
    const std::size_t at = named->stem.find("-topic-");
    const std::string session_id(named->stem.substr(0, at));
    if (named->kind == transcripts::NamedFile::Kind::archive) {
      archives.emplace(std::move(file), named->time);
      return;
    }
    state.archives.add_found(session_id);
    if (at == std::string_view::npos || named->kind != transcripts::NamedFile::Kind::transcript) return;
    if (auto topic = store::topic_of_file(session_id, file)) state.transcripts.add_topic(session_id, std::move(*topic));
  });
  for (decide::ArchiveRecord& record : records) {
    if (!entries.contains(record.entry_as)) record.entry_as.clear();
    std::erase_if(record.archived_as, [&](const std::string& name) { return archives.erase(name) == 0; });
    state.archives.add(std::move(record));
  }
  for (const auto& [name, time] : archives) {
    const auto named = transcripts::parse_file_name(name);
    state.archives.add({.time = time,
                        .session_id = std::string(named->stem.substr(0, named->stem.find("-topic-"))),
                        .reason = name.contains(".jsonl.reset.")    ? "reset"
                                  : name.contains(".jsonl.pruned.") ? "pruned"
                                                                    : "deleted",
                        .archived_as = {name}});
  }
}

// Describes what else was lost with a store that was gone.
std::string about_vanished(const decide::AgentState& state, const std::set<std::string>& files) {
  std::size_t lost = 0;
  std::string example;
  for (const auto& [key, session] : state.by_name()) {
    if (session->entries() == 0 || files.contains(decide::AgentState::file_of(*session, {}))) continue;
    if (lost++ == 0) example = decide::AgentState::file_of(*session, {});
  }
  std::string text =
      lost == 0 ? std::string("all transcripts are there")
                : fmt::format("{} of {} sessions lost their transcript with it, e.g. {}", lost, state.size(), example);
  return fmt::format(
      "of agent {}: {}. To remove an agent, first delete its sessions (DELETE, or put {{}} into its "
      "sessions.json), then its folder",
      state.id(), text);
}

// Returns whether a session has messages. If none has, an empty folder lacks sessions.json alone.
bool has_messages(const decide::AgentState& state) {
  return std::ranges::any_of(state.by_name(),
                             [](const auto& one) { return one.second->message_count.value_or(0) != 0; });
}

// Finds transcripts of sessions with messages that are not there.
std::vector<MissingTranscript> missing_transcripts(const decide::AgentState& state, const std::set<std::string>& files,
                                                   const std::filesystem::path& dir) {
  constexpr std::size_t most = 20;
  std::vector<MissingTranscript> missing;
  for (const auto& [key, session] : state.by_name()) {
    const std::string file = decide::AgentState::file_of(*session, {});
    const auto* topics = state.transcripts.topics(session->session_id);
    const bool may_be_in_topics = topics != nullptr && !std::ranges::all_of(*topics, store::is_stream_topic);
    if (session->message_count.value_or(0) == 0 || files.contains(file) || may_be_in_topics) continue;
    missing.push_back({.path = dir / file, .key = session->key(), .messages = *session->message_count});
    if (missing.size() == most) break;
  }
  return missing;
}

// Takes foreign changes out of the state, so that it is the store as we left it. They are then committed like any other
// foreign change.
void undo_foreign_changes(decide::AgentState& state, const sessions::ForeignChange& change) {
  for (const sessions::NamedEntry& entry : change.created) {
    if (const decide::Session* session = state.find_key(entry.key); session != nullptr && session->key() == entry.key)
      state.erase(*session);
  }
  const std::set<std::string_view> ours(change.overwritten.begin(),
                                        change.overwritten.end());  // the state holds our version of these already
  for (const auto& entry : change.updated) {
    if (ours.contains(entry.key)) continue;
    if (json::kind(*entry.base) == json::Kind::object) state.insert(entry.key, entry.base);
  }
}

// Notes entries with other guardrails or another turnCap than an operator has set under their keys. Another program
// wrote them, but the store cannot be compared with our last one any more.
void note_other_policies(const decide::AgentState& state, std::optional<sessions::ForeignChange>& foreign) {
  for (const auto& [key, kept] : state.policies.all()) {
    const decide::Session* session = state.find_key(key);
    json::Edit edit;
    if (session == nullptr || !kept.by_operator || !decide::keep_policy(kept.policy, *session->entry(), edit)) continue;
    if (!foreign) foreign.emplace();
    const auto is_it = [&](const auto& entry) { return entry.key == session->key(); };
    if (std::ranges::none_of(foreign->updated, is_it))
      foreign->updated.push_back(
          {.key = session->key(), .edit = {}, .base = session->entry(), .theirs = session->entry()});
  }
}

// Moves a temporary file into journal/kept: it may hold the only copy of a foreign program's version.
void keep_away(const Paths& paths, const std::filesystem::path& temp, std::vector<std::string>& told) {
  const auto kept = paths.journal_dir() / "kept" / store::time_for_names() / relative(paths, temp);
  auto moved = store::make_dirs(kept.parent_path());
  if (moved) moved = sessions::move_file(temp, kept);
  if (moved) static_cast<void>(::chmod(kept.c_str(), 0600));  // as all files of the daemon
  told.push_back(moved ? fmt::format("{} was left by an interrupted write; it is now {}", temp.native(), kept.native())
                       : moved.error().detail);
}

// Applies this agent's journal events from seq `from` on (0: none) to `to`, and passes each to `call`. From
// `archived_from` to there it takes only the archive records, which may not be in their file yet.
template <class Call>
Result<void> replay_agent(const journal::Journal& journal, decide::AgentState& state, std::uint64_t from,
                          std::uint64_t archived_from, Call call, std::uint64_t to = UINT64_MAX) {
  const std::uint64_t state_from = from;
  if (from != 0) from = std::min(from, archived_from);
  while (from != 0 && from <= std::min(journal.head(), to)) {
    TRY(auto page, journal.read(std::max(from, journal.oldest()), decide::replay_page_bytes));
    for (const journal::StoredBatch& batch : page.batches) {
      for (const journal::Bytes& bytes : batch.events) {
        auto event = journal::parse_event(*bytes);
        if (!event || event->envelope.agent != state.id() || event->envelope.seq > to) continue;
        if (event->envelope.seq < state_from) {
          decide::apply_to_archives(state, *event);
          continue;
        }
        const decide::Change change = decide::decode(*std::move(event));
        decide::apply(state, change, decide::Replay::yes);
        call(change);
      }
    }
    from = page.next;
  }
  return {};
}

// Makes the last generation of a store that we wrote of the one before it and the journal. Nothing: we have not written
// it, or the journal or that generation cannot be read.
std::optional<std::vector<sessions::NamedEntry>> last_generation(const journal::Journal& journal, const Paths& paths,
                                                                 const std::string& id,
                                                                 const Generations& generations) {
  using Kind = sessions::StoreRead::Kind;
  if (generations.written == 0) return std::nullopt;
  auto before = sessions::read_store(paths.previous(id));
  if (!before || before->kind == Kind::damaged) return std::nullopt;
  // A store that we made and wrote once has none before it.
  const std::uint64_t from = before->kind == Kind::absent ? 1 : generations.previous + 1;
  if (journal.oldest() > from || (before->kind == Kind::good && generations.previous == 0)) return std::nullopt;
  decide::AgentState state(id);
  std::vector<sessions::NamedEntry> entries;
  for (sessions::NamedEntry& entry : before->entries) {
    if (json::kind(*entry.entry) == json::Kind::object)
      state.insert(entry.key, entry.entry);
    else
      entries.push_back(std::move(entry));
  }
  const auto replayed =
      replay_agent(journal, state, from, UINT64_MAX, [](const journal::Event&) {}, generations.written);
  if (!replayed) return std::nullopt;  // of a part of the journal that the load does not need
  for (const auto& [key, session] : state.by_name())
    entries.push_back({.key = session->key(), .entry = session->entry()});
  return entries;
}

}  // namespace

Result<decide::FetchedIds> files_of_ids(const std::filesystem::path& dir, const std::vector<std::string>& ids,
                                        const std::filesystem::path& beside) {
  decide::FetchedIds out;
  std::error_code error;
  for (const std::string& id : ids)
    out[id].log = !beside.empty() && std::filesystem::exists(beside / store::log_file(id), error);
  if (!beside.empty())
    store::each_in(beside / "changes", [&](const std::filesystem::directory_entry& at) {
      const std::string file = at.path().filename().string();
      for (auto& [id, files] : out)
        files.changes = files.changes || file == store::transcript_file(id, "") || store::topic_of_file(id, file);
    });
  error.clear();
  std::filesystem::directory_iterator at(dir, error);
  if (error == std::errc::no_such_file_or_directory) return out;
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string& name = at->path().native();
    const std::string_view file = std::string_view(name).substr(name.find_last_of('/') + 1);
    const auto named = transcripts::parse_file_name(file);
    if (!named) continue;
    // An id may have "-topic-" in it, too.
    for (std::size_t end = named->stem.find("-topic-");; end = named->stem.find("-topic-", end + 1)) {
      const auto found = out.find(named->stem.substr(0, end));
      if (found != out.end() && named->kind == transcripts::NamedFile::Kind::archive)
        found->second.archives.emplace_back(file);
      else if (found != out.end())
        found->second.transcripts = true;
      if (end == std::string_view::npos) break;
    }
  }
  if (error) return std::unexpected(io_problem("list", dir.native(), error.value()));
  return out;
}

std::unexpected<Problem> folder_is_gone(const std::filesystem::path& dir) {
  return fail(
      Code::degraded,
      fmt::format("its folder {} is gone or empty, and it has sessions. The folder may be on a volume that is not "
                  "mounted, so nothing is written there. Put the folder back, which is noticed by itself; or "
                  "stop the daemon and run sessiond doctor --repair, which rebuilds what the journal has",
                  dir.native()));
}

sessions::Patience store_patience(const config::Config& config) {
  return {.unchanged = std::chrono::milliseconds(config.store.damage_after_ms)};
}

sessions::SessionsFile::Options store_options(const config::Config& config, const Paths& paths, const std::string& id) {
  const auto& lock = config.store.lock;
  return {.path = paths.store_file(id),
          .previous = paths.previous(id),
          .lock = {.timeout = lock_patience,
                   .poll_interval = std::chrono::milliseconds(lock.poll_interval_ms),
                   .stale = std::chrono::milliseconds(lock.stale_ms)},
          .patience = store_patience(config)};
}

Result<Loaded> load_store(const config::Config& config, const Paths& paths, const journal::Journal& journal,
                          bool adopting, const std::string& id, LoadRequest request) {
  const auto dir = paths.root() / paths.sessions_dir(id);
  TRY(store::resolve_below(paths.root(), paths.sessions_dir(id)));
  Loaded loaded{.state = std::make_shared<decide::AgentState>(id),
                .file = std::move(request.file),
                .logs = std::make_shared<BookLogs>(paths, id),
                .repairs = {},
                .evictions = {},
                .foreign = {},
                .exists = false};
  std::error_code error;
  loaded.exists = std::filesystem::exists(dir, error);
  const bool is_gone = request.folder_gone != FolderGone::rebuild && !transcripts::holds_sessions(dir);
  if (request.folder_gone == FolderGone::refuse && is_gone) return folder_is_gone(paths.store_file(id).parent_path());
  if (!loaded.file) {
    auto options = store_options(config, paths, id);
    options.history = std::move(request.history);
    options.unfinished = std::move(request.unfinished);
    options.known = request.known_to != 0;
    loaded.file = std::make_shared<sessions::SessionsFile>(std::move(options));
  }
  TRY(auto report, loaded.file->load());
  if (report.uncompared) {
    const auto started = last_generation(journal, paths, id, request.generations);
    if (started) loaded.file->compare(report, *started);
    // The generation before may be of a program that had written older versions of entries back. What is newer than
    // these is ours, if it is older than that generation.
    const auto is_ours = [&request](const sessions::ForeignChange::Changed& entry) {
      const std::int64_t rev = json::int_at(*entry.theirs, "rev").value_or(0);
      return json::int_at(*entry.base, "rev").value_or(0) < rev &&
             std::cmp_less_equal(rev, request.generations.previous);
    };
    if (report.foreign) std::erase_if(report.foreign->updated, is_ours);
    if (report.foreign && report.foreign->empty()) report.foreign.reset();
  }
  loaded.state->reserve(report.entries.size());
  for (const sessions::NamedEntry& entry : report.entries) {
    if (json::kind(*entry.entry) == json::Kind::object) loaded.state->insert(entry.key, entry.entry);
  }
  loaded.repairs = std::move(report.repairs);
  loaded.foreign = std::move(report.foreign);
  if (report.first && !adopting && !report.entries.empty()) loaded.foreign.emplace().created = report.entries;
  if (loaded.foreign) undo_foreign_changes(*loaded.state, *loaded.foreign);
  std::vector<std::string> of_books;
  TRY(read_books(*loaded.state, *loaded.logs, paths, journal, request.books, of_books));
  loaded.state->runs.keep(config.work.runs.keep);
  std::uint64_t replay_from = request.replay_from;
  // Replays from the end of the generation that it was rebuilt from. Older events are not needed, damaged or not.
  if (report.rebuilt) {
    using Base = sessions::LoadReport::Base;
    const std::uint64_t held = report.base == Base::written    ? request.generations.written
                               : report.base == Base::previous ? request.generations.previous
                                                               : 0;
    replay_from = std::max<std::uint64_t>(journal.oldest(), held + 1);
  }
  TRY(auto records, decide::read_archive_records(paths.archive_records(id)));
  const std::string store = paths.store_file(id).filename().native();
  std::set<std::string> files;  // in the folder
  Leftovers left{.staged = request.staged};
  find_files(*loaded.state, dir, records, store, paths.sessions_dir(id), left, &files);
  for (const std::filesystem::path& temp : left.temps) keep_away(paths, temp, loaded.repairs);
  decide::OwnVersions own(loaded.foreign);
  bool had_sessions = loaded.state->size() != 0;  // whether the file had any at known_to, if it is gone
  TRY(replay_agent(journal, *loaded.state, replay_from, request.archived_from, [&](const journal::Event& event) {
    own.applied(*loaded.state, event);
    if (event.envelope.seq <= request.known_to) had_sessions = loaded.state->size() != 0;
  }));
  own.remove_own(loaded.foreign);
  note_other_policies(*loaded.state, loaded.foreign);
  if (report.vanished && (!had_sessions || loaded.state->size() == 0)) {  // it was never written, or no session is left
    report.rebuilt = false;
    loaded.file->accept_absent();
    loaded.repairs.clear();
    auto deliveries = std::move(loaded.state->deliveries);  // they do not end with their sessions
    auto policies = std::move(loaded.state->policies);
    loaded.state = std::make_shared<decide::AgentState>(id);
    loaded.state->deliveries = std::move(deliveries);
    loaded.state->policies = std::move(policies);
    loaded.state->runs.keep(config.work.runs.keep);
    find_files(*loaded.state, dir, std::move(records), store, paths.sessions_dir(id), left, nullptr);
    TRY(replay_agent(journal, *loaded.state, request.replay_from, request.archived_from, [](const journal::Event&) {}));
  } else if (report.vanished && request.folder_gone == FolderGone::judge && is_gone &&
             (!loaded.exists || has_messages(*loaded.state))) {
    return folder_is_gone(paths.store_file(id).parent_path());
  } else if (report.vanished) {
    loaded.repairs.push_back(about_vanished(*loaded.state, files));
  }
  loaded.missing = missing_transcripts(*loaded.state, files, dir);
  if (report.rebuilt) {  // the new file holds all that is durable from the start
    store::fault_point("rebuild.replayed");
    std::vector<DirtyEntry> dirty;
    for (const std::string& key : loaded.state->dirty) dirty.push_back(dirty_entry(*loaded.state, key));
    auto written = loaded.file->checkpoint(in_order(std::move(dirty)));
    // A foreign lock does not prevent reading: the file is then written at the next checkpoint.
    if (!written && written.error().code != Code::lock_timeout) return std::unexpected(std::move(written.error()));
    std::ranges::move(loaded.file->take_repairs(), std::back_inserter(loaded.repairs));
    if (written && written->foreign) {
      loaded.foreign = std::move(written->foreign);
    } else if (written) {
      loaded.state->dirty.clear();
      loaded.state->changed_by_us.clear();
    }
  }
  std::ranges::move(of_books, std::back_inserter(loaded.repairs));
  loaded.exists = loaded.exists || report.rebuilt;
  loaded.evictions = loaded.file->take_evictions();
  return loaded;
}

}  // namespace sessiond::ledger

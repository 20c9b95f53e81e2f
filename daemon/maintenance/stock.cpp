#include "daemon/maintenance/stock.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

#include "daemon/decide/string_map.hpp"
#include "daemon/ledger/show.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"

namespace sessiond::maintenance {
namespace {

// Copies sessions from the key `from` on, some of them. Returns the key to go on with; nothing: that was all.
std::optional<std::string> copy_sessions(const decide::Protection& protection, const decide::AgentState& state,
                                         const std::string& from, std::vector<StockedSession>& out) {
  std::size_t count = 0;
  std::size_t read = 0;  // bytes of entries
  const auto& all = state.by_name();
  for (auto at = all.lower_bound(from); at != all.end(); ++at) {
    const decide::Session& session = *at->second;
    if (count++ == limits::slice_sessions || read > limits::slice_bytes) return session.key();
    read += session.entry_with_old_counters()->size();
    out.push_back({.key = session.key(),
                   .session_id = session.session_id,
                   .file = decide::AgentState::file_of(session, {}),
                   .last_interaction = session.last_interaction_at.value_or(session.updated_at),
                   .last_seq = session.last_seq,
                   .updated_at = session.updated_at,
                   .protected_by = protection.keeps(state, session)});
  }
  return std::nullopt;
}

using ArchiveOrder = decide::ArchiveIndex::Order;

// The same for records of archives.
std::optional<ArchiveOrder> copy_archives(const decide::AgentState& state, const ArchiveOrder& from,
                                          std::vector<StockedArchive>& out) {
  std::size_t count = 0;
  const auto& all = state.archives.all();
  for (auto at = all.lower_bound(from); at != all.end(); ++at) {
    const decide::ArchiveRecord& record = at->second;
    if (count++ == limits::slice_sessions) return at->first;
    const std::string_view ending = decide::ending_of(record);
    if (ending.empty()) continue;  // purged, destroyed or removed
    out.push_back({.key = record.key,
                   .session_id = record.session_id,
                   .ending = std::string(ending),
                   .ended = std::max<std::int64_t>(record.time, 0),
                   .files = record.archived_as,
                   .entry_as = record.entry_as});
  }
  return std::nullopt;
}

struct File {
  std::string name;
  std::uint64_t bytes;
  std::int64_t written;  // ms since the epoch
};

// The files of an agent's folder that are transcripts, or archives with the entries beside them.
struct Folder {
  std::vector<File> transcripts{};
  decide::StringMap<std::vector<File>> archives{};  // by the ending of their names
};

Folder read_folder(const std::filesystem::path& dir) {
  Folder folder;
  store::each_in(dir, [&](const std::filesystem::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    const std::string_view ending = transcripts::archive_ending(name);
    const auto named = transcripts::parse_file_name(name);
    if (ending.empty() && (!named || named->kind != transcripts::NamedFile::Kind::transcript)) return;
    const auto status = store::stat_of(entry.path());
    if (!status || !S_ISREG(status->st_mode)) return;
    File file{
        .name = name,
        .bytes = static_cast<std::uint64_t>(status->st_size),
        .written = std::max<std::int64_t>(status->st_mtim.tv_sec * 1000 + status->st_mtim.tv_nsec / 1'000'000, 0)};
    (ending.empty() ? folder.transcripts : folder.archives[std::string(ending)]).push_back(std::move(file));
  });
  return folder;
}

// Finds the files of an archive, of which the record may name only the first.
void find_files(StockedArchive& archive, const Folder& folder) {
  const std::vector<std::string> told = std::exchange(archive.files, {});
  std::string entry = std::exchange(archive.entry_as, {});
  if (entry.empty() && !told.empty()) entry = told.front() + std::string(transcripts::entry_suffix);
  const auto there = folder.archives.find(archive.ending);
  if (there == folder.archives.end()) return;
  for (const File& file : there->second) {
    const auto named = transcripts::parse_file_name(file.name);
    const bool own = std::ranges::find(told, file.name) != told.end() || (named && named->is_of(archive.session_id));
    if (file.name == entry)
      archive.entry_as = file.name;
    else if (own)
      archive.files.push_back(file.name);
    else
      continue;
    archive.bytes += file.bytes;
  }
  std::ranges::sort(archive.files);
}

// Adds each transcript to the session that has it, or else to the orphans.
void sort_transcripts(Stock& stock, std::vector<File> files) {
  decide::StringMap<StockedSession*> by_file;
  decide::StringMap<StockedSession*> by_id;
  for (StockedSession& session : stock.sessions) {
    by_file.emplace(session.file, &session);
    by_id.emplace(session.session_id, &session);
  }
  const auto owner_of = [&](std::string_view file) -> StockedSession* {
    if (const auto own = by_file.find(file); own != by_file.end()) return own->second;
    const std::size_t end = file.size() - std::string_view(".jsonl").size();
    if (const auto own = by_id.find(file.substr(0, end)); own != by_id.end()) return own->second;
    for (std::size_t at = file.find(decide::topic_mark); at != file.npos; at = file.find(decide::topic_mark, at + 1))
      if (const auto own = by_id.find(file.substr(0, at)); own != by_id.end()) return own->second;
    return nullptr;
  };
  decide::StringMap<std::size_t> orphans;  // by session id: their index
  std::ranges::sort(files, {}, [](const File& file) { return std::pair(file.name.size(), file.name); });
  for (File& file : files) {
    if (StockedSession* owner = owner_of(file.name)) {
      owner->bytes += file.bytes;
      continue;
    }
    const std::size_t end = std::min(file.name.find(decide::topic_mark), file.name.rfind(".jsonl"));
    std::string id = file.name.substr(0, end);
    if (!store::check_session_id(id)) continue;
    const auto [at, added] = orphans.try_emplace(id, stock.orphans.size());
    if (added) stock.orphans.push_back({.session_id = std::move(id)});
    Orphan& orphan = stock.orphans[at->second];
    orphan.written = std::max(orphan.written, file.written);
    orphan.bytes += file.bytes;
    orphan.files.push_back(std::move(file.name));
  }
  std::ranges::sort(stock.orphans, {}, &Orphan::session_id);
}

// Counts the log of each session id: with its session, else with the archive that ended last, which takes it along.
void add_logs(Stock& stock, const std::filesystem::path& dir) {
  decide::StringMap<std::uint64_t> logs;
  store::each_in(dir, [&](const std::filesystem::directory_entry& entry) {
    const auto status = store::stat_of(entry.path());
    if (entry.path().extension() == ".jsonl" && status && S_ISREG(status->st_mode))
      logs[entry.path().stem().string()] = static_cast<std::uint64_t>(status->st_size);
  });
  if (logs.empty()) return;
  decide::StringMap<StockedArchive*> last;
  for (StockedArchive& archive : stock.archives) {
    StockedArchive*& known = last[archive.session_id];
    if (known == nullptr || known->ended <= archive.ended) known = &archive;
  }
  for (StockedSession& session : stock.sessions) {
    const auto log = logs.find(session.session_id);
    if (log == logs.end()) continue;
    session.bytes += log->second;
    last.erase(session.session_id);
  }
  for (const auto& [id, archive] : last)
    if (const auto log = logs.find(id); log != logs.end()) archive->bytes += log->second;
}

}  // namespace

asio::awaitable<Result<Stock>> take_stock(ledger::Ledger& ledger, std::string agent,
                                          const decide::Protection& protection) {
  Stock stock;
  const auto& env = ledger.parts().env;
  for (std::optional<std::string> from = ""; from; co_await asio::post(env.io, asio::use_awaitable)) {
    std::vector<StockedSession> slice;
    CO_TRY(from, co_await ledger.show(
                     agent, from->empty(),
                     [&](const decide::AgentState& state, const ledger::Seen&) -> Result<std::optional<std::string>> {
                       slice.clear();
                       return copy_sessions(protection, state, *from, slice);
                     }));
    std::ranges::move(slice, std::back_inserter(stock.sessions));
  }
  std::optional<ArchiveOrder> next{{INT64_MIN, 0, ""}};
  for (; next; co_await asio::post(env.io, asio::use_awaitable)) {
    std::vector<StockedArchive> slice;
    CO_TRY(next, co_await ledger.show(
                     agent, false,
                     [&](const decide::AgentState& state, const ledger::Seen&) -> Result<std::optional<ArchiveOrder>> {
                       slice.clear();
                       return copy_archives(state, *next, slice);
                     }));
    std::ranges::move(slice, std::back_inserter(stock.archives));
  }
  // Renames that are durable are made first: the transcript of a session that was deleted just now is no orphan.
  CO_TRY(co_await ledger.flusher().flush(agent, ""));
  const std::string folder_path = env.paths.sessions_dir(agent);
  stock = co_await runtime::run_on(
      env.disk.get_executor(), [stock = std::move(stock), dir = env.paths.root() / folder_path,
                                logs = env.paths.root() / ledger::dir_beside(env.paths, agent, "logs"),
                                store = env.paths.store_file(agent)]() mutable {
        Folder folder = read_folder(dir);
        for (StockedArchive& archive : stock.archives) find_files(archive, folder);
        std::erase_if(stock.archives,
                      [](const StockedArchive& one) { return one.files.empty() && one.entry_as.empty(); });
        sort_transcripts(stock, std::move(folder.transcripts));
        add_logs(stock, logs);
        if (const auto status = store::stat_of(store)) stock.store_bytes = static_cast<std::uint64_t>(status->st_size);
        return std::move(stock);
      });
  // A rename that waits for a foreign lock is still to come.
  std::erase_if(stock.orphans, [&](const Orphan& orphan) {
    return std::ranges::any_of(
        orphan.files, [&](const std::string& file) { return ledger.parts().flusher.is_locked(folder_path + file); });
  });
  co_return stock;
}

}  // namespace sessiond::maintenance

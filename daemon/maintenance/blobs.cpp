#include "daemon/maintenance/blobs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "policy/media.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/seal/sealed.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/line_reader.hpp"
#include "transcripts/sealed_lines.hpp"

namespace sessiond::maintenance {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t piece_bytes = 1 << 20;

// The session id of a transcript, an archive or the entry beside one; "" for other files.
std::string session_of(std::string_view name) {
  if (name.ends_with(transcripts::entry_suffix)) name.remove_suffix(transcripts::entry_suffix.size());
  const auto file = transcripts::parse_file_name(name);
  if (!file) return {};
  constexpr std::string_view topic = "-topic-";
  return std::string(file->stem.substr(0, file->stem.find(topic)));
}

}  // namespace

struct Blobs::Files {
  struct Known {
    store::FileIdentity identity{};
    std::set<std::pair<std::string, BlobName>> named{};
    std::uint64_t round = 0;
    std::uint64_t end = 0;       // of the last whole line that was read, where encryption is on
    std::uint64_t next_seq = 0;  // of the entry behind it
  };
  std::map<std::string, Known> known{};
  std::uint64_t round = 0;

  // Reads an agent's folder, as far as it changed since it was read last. Returns what could not be read, or "". A file
  // that is gone before it is read is a fault only if `again`.
  std::string look(const fs::path& dir, const std::string& agent, const fs::path& store_file, bool again) {
    std::string fault;
    std::error_code error;
    for (fs::recursive_directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
      std::string why = look_at(at->path(), agent, store_file, again);
      if (fault.empty()) fault = std::move(why);
    }
    if (error && error != std::errc::no_such_file_or_directory)
      fault = fmt::format("{}: {}", dir.native(), error.message());
    return fault;
  }
  // The same of one file.
  std::string look_at(const fs::path& path, const std::string& agent, const fs::path& store_file, bool again,
                      bool is_log = false) {
    const auto status = store::stat_within(path);
    if (!status || !S_ISREG(status->st_mode)) return {};
    Known& file = known[path.native()];
    file.round = round;
    const store::FileIdentity now = store::identity(*status);
    if (file.identity == now) return {};
    const bool is_store = path == store_file;
    const bool grown = !is_store && !is_log && file.identity.inode == now.inode && file.identity.size < now.size;
    if (!grown) file.named.clear();
    const std::uint64_t from = grown ? file.identity.size - std::min(file.identity.size, overlap) : 0;
    const auto read = is_store     ? read_store(file, path, agent)
                      : is_log     ? read_log(file, path, agent)
                      : seal::on() ? read_sealed(file, path, agent, grown)
                                   : read_lines(file, path, agent, from);
    file.identity = read ? now : store::FileIdentity{};
    return read || (!again && read.error().code == Code::not_found) ? std::string() : read.error().detail;
  }

 private:
  static constexpr std::uint64_t overlap = policy::longest_name;

  static Result<void> read_lines(Known& into, const fs::path& path, const std::string& agent, std::uint64_t from) {
    TRY(const auto fd, store::open_within(path, O_RDONLY | O_NONBLOCK));
    const std::string file_name = path.filename().native();
    const BlobName name{.agent = agent, .name = session_of(file_name)};
    const auto by = name.name.empty()                                ? policy::NamedBy::either
                    : file_name.ends_with(transcripts::entry_suffix) ? policy::NamedBy::entry
                                                                     : policy::NamedBy::message;
    for (std::string piece;;) {
      TRY(piece, store::read_at(fd.get(), from, piece_bytes, path.native()));
      policy::names_in(piece, by, [&](std::string_view hash) { into.named.emplace(hash, name); });
      if (piece.size() < piece_bytes) return {};
      from += piece.size() - overlap;
    }
  }
  // The same where encryption is on. What does not open may name any blob, and is a fault.
  static Result<void> read_sealed(Known& into, const fs::path& path, const std::string& agent, bool grown) {
    const std::string file_name = path.filename().native();
    const BlobName name{.agent = agent, .name = session_of(file_name)};
    const bool entry = file_name.ends_with(transcripts::entry_suffix);
    const auto by = name.name.empty() ? policy::NamedBy::either
                    : entry           ? policy::NamedBy::entry
                                      : policy::NamedBy::message;
    const auto take = [&](std::string_view text) {
      policy::names_in(text, by, [&](std::string_view hash) { into.named.emplace(hash, name); });
    };
    if (entry || !file_name.contains(".jsonl")) {
      TRY(auto stored, store::read_file(path));
      TRY(const auto text, entry ? seal::open_if_sealed(std::move(stored), transcripts::entry_place(path.native()))
                                 : ledger::open_book(std::move(stored), path));
      take(text);
      return {};
    }
    TRY(const auto fd, store::open_within(path, O_RDONLY | O_NONBLOCK));
    TRY(const auto status, store::status_of(fd.get(), path.native()));
    const auto size = static_cast<std::uint64_t>(status.st_size);
    transcripts::LineReader lines(fd.get(), size, path.native());
    if (!grown) into.end = into.next_seq = 0;
    while (into.end < size) {
      TRY(const auto end, lines.end_of(into.end));
      TRY(const bool whole, lines.begins_line(end));
      TRY(auto line, lines.line(into.end, end, into.end == 0 ? transcripts::header_seq : into.next_seq));
      const bool header = into.end == 0 && transcripts::is_header(line);
      if (into.end == 0 && !header) {
        TRY(line, lines.line(into.end, end, 0));
      }
      if (line == transcripts::closed_line && whole)
        return fail(Code::degraded, fmt::format("{}: the line at offset {} does not open", path.native(), into.end));
      take(line);
      if (!whole) return {};
      into.end = end;
      into.next_seq += header ? 0 : 1;
    }
    return {};
  }
  // What a log has forgotten names nothing any more.
  static Result<void> read_log(Known& into, const fs::path& path, const std::string& agent) {
    TRY(const auto content, ledger::BookLog(path).read());
    for (const decide::BookRecord& record : content.records)
      policy::names_in(*record.value, policy::NamedBy::either,
                       [&](std::string_view hash) { into.named.emplace(hash, BlobName{.agent = agent}); });
    return {};
  }
  static Result<void> read_store(Known& into, const fs::path& path, const std::string& agent) {
    TRY(const std::string text, store::read_file(path));
    const auto take = [&](std::string_view part, const BlobName& name) {
      const auto by = name.of_entry ? policy::NamedBy::entry : policy::NamedBy::either;
      policy::names_in(part, by, [&](std::string_view hash) { into.named.emplace(hash, name); });
    };
    take(text, {.agent = agent});  // also of what is no entry
    if (seal::on()) {
      TRY(const auto read, sessions::read_store(path));
      if (read.kind == sessions::StoreRead::Kind::damaged)
        return fail(Code::degraded, fmt::format("{} is damaged: {}", path.native(), read.damage));
      for (const sessions::NamedEntry& entry : read.entries) {
        for (const json::Member& member : json::members(*entry.entry))
          if (seal::is_sealed(member.value))
            return fail(Code::degraded,
                        fmt::format("{}: {} of {} does not open", path.native(), member.name, entry.key));
        take(*entry.entry, {.agent = agent, .name = entry.key, .of_entry = true});
      }
      return {};
    }
    if (!json::check(text, {.max_depth = json::foreign_depth})) return {};
    for (const json::Member& member : json::members(store::trim(text)))
      take(member.value, {.agent = agent, .name = json::unescape(member.name), .of_entry = true});
    return {};
  }
};

Blobs::Blobs(ledger::Ledger& ledger, const config::Config& config)
    : ledger_(ledger),
      config_(config),
      store_(std::make_shared<blobs::BlobStore>(config.state_dir)),
      files_(std::make_shared<Files>()),
      active_(store_->any()) {
  loaded_ = !active_;
  if (active_) store_->remove_leftovers();
}

Blobs::~Blobs() = default;

asio::awaitable<void> Blobs::count() {
  if (!active_) co_return;
  co_await runtime::run_on(ledger_.parts().env.disk.get_executor(), [store = store_] {
    store->each([](const fs::path&, bool) {});
    return store->totals();
  });
}

asio::awaitable<void> Blobs::load() {
  if (loaded_) co_return;
  co_await turn_.run([](Blobs& self) -> asio::awaitable<bool> {
    if (self.loaded_) co_return true;
    self.loaded_ = co_await self.read_files();
    co_return true;
  }(*this));
}

void Blobs::see(const journal::Event& event) {
  using journal::EventType;
  const journal::Envelope& about = event.envelope;
  if (about.type == EventType::session_deleted && json::find(event.data, "purged") == "true") {
    for (auto& [hash, names] : names_)
      std::erase_if(names,
                    [&](const BlobName& name) { return name.agent == about.agent && name.name == about.session_id; });
    return;
  }
  if (!active_ || event.data.size() < policy::longest_name - 16) return;
  const bool of_entry = about.type != EventType::message_appended;
  policy::names_in(
      event.data, of_entry ? policy::NamedBy::entry : policy::NamedBy::message, [&](std::string_view hash) {
        note(std::string(hash),
             {.agent = about.agent, .name = of_entry ? about.key : about.session_id, .of_entry = of_entry});
      });
}

void Blobs::note(const std::string& hash, BlobName name) {
  if (reading_) since_.emplace_back(hash, name);
  names_[hash].insert(std::move(name));
}

std::vector<BlobName> Blobs::names_of(const std::string& hash) const {
  const auto found = names_.find(hash);
  if (found == names_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

// Makes names_ anew from the files, and from what was named meanwhile. False: not all could be read, and nothing
// changes.
asio::awaitable<bool> Blobs::read_files() {
  reading_ = true;
  since_.clear();
  // The files hold what was committed before.
  const auto written = co_await ledger_.checkpointer().write_all();
  const auto synced = co_await ledger_.flusher().sync();
  std::string fault = !written ? written.error().detail : !synced ? synced.error().detail : "";
  if (fault.empty() && !ledger_.flusher().locked().empty()) fault = "a foreign program has locked a transcript";
  const std::vector<std::string> agents = co_await ledger_.agent_ids();
  if (fault.empty()) ++files_->round;
  // A file that is renamed while its folder is listed may be missed. The second listing sees it, and reads only what
  // changed since the first.
  const ledger::Paths& paths = ledger_.parts().env.paths;
  for (const bool again : {false, true}) {
    for (const std::string& agent : agents) {
      if (!fault.empty()) break;
      fault = co_await runtime::run_on(ledger_.parts().env.disk.get_executor(), [files = files_, &paths, agent, again] {
        const fs::path store = paths.store_file(agent);
        std::string why = files->look(store.parent_path(), agent, store, again);
        if (why.empty()) why = files->look(paths.state_dir() / "agents" / agent / "streams", agent, store, again);
        for (const std::string_view side : ledger::folders_beside)
          if (why.empty())
            why = files->look(paths.root() / ledger::dir_beside(paths, agent, side), agent, store, again);
        for (const fs::path& book : {ledger::runs_file(paths, agent), ledger::outbox_file(paths, agent)})
          for (const bool is_log : {false, true})
            if (why.empty())
              why = files->look_at(is_log ? book : ledger::file_before(book), agent, store, again, is_log);
        return why;
      });
    }
  }
  reading_ = false;
  if (!fault.empty()) {
    log::warn("blob_names_not_read", {{"error", fault}, {"next", "no blob is removed before they can be read"}});
    co_return false;
  }
  Names names;
  std::erase_if(files_->known, [&](const auto& file) { return file.second.round != files_->round; });
  for (const auto& [path, file] : files_->known)
    for (const auto& [hash, name] : file.named) names[hash].insert(name);
  for (auto& [hash, name] : since_) names[hash].insert(std::move(name));
  since_.clear();
  names_ = std::move(names);
  co_return true;
}

asio::awaitable<Swept> Blobs::sweep() {
  if (!active_) active_ = store_->any();
  if (!active_) co_return Swept{};
  co_return co_await turn_.run(mark_and_sweep());
}

asio::awaitable<Swept> Blobs::mark_and_sweep() {
  store_->begin_sweep();
  const std::shared_ptr<void> end(nullptr, [store = store_](void*) { store->end_sweep(); });
  if (!co_await read_files()) co_return Swept{.skipped = "not all files could be read; the log says why"};
  loaded_ = true;
  auto marked = std::make_shared<std::set<std::string>>();
  for (const auto& [hash, names] : names_)
    if (!names.empty()) marked->insert(hash);
  // A backup that began before the names were read may hold sessions which are gone since.
  if (ledger_.checkpointer().snapshots_under_way() > 0) co_return Swept{.skipped = "a backup is being taken"};
  const auto swept = co_await runtime::run_on(ledger_.parts().env.disk.get_executor(),
                                              [store = store_, marked, grace = config_.content.blobs.grace_ms] {
                                                Swept out;
                                                store->each([&](const fs::path& path, bool is_blob) {
                                                  const std::string name = path.filename().native();
                                                  if (!is_blob || marked->contains(name)) return;
                                                  store::fault_point("blob.unnamed");
                                                  const std::uint64_t size = store->remove(name, grace);
                                                  if (size == 0) return;
                                                  ++out.count;
                                                  out.bytes += size;
                                                });
                                                return out;
                                              });
  swept_ += swept.count;
  if (swept.count > 0) log::info("blobs_removed", {{"count", swept.count}, {"bytes", swept.bytes}});
  co_return swept;
}

}  // namespace sessiond::maintenance

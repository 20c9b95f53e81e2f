#include "daemon/ledger/projection.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemon/ledger/lost_copies.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/journal/event.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/sealed_lines.hpp"
#include "transcripts/staged.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::ledger {
namespace {

// Finds the seq that was told for a message: its first member. The message may have another member of that name.
std::optional<std::uint64_t> told_seq(std::string_view message) {
  const json::MemberIterator first(message);
  if (first == std::default_sentinel || first->name != "seq") return {};
  return static_cast<std::uint64_t>(json::as_int(first->value).value_or(0));
}

// Makes the line of a position that was read from the journal.
Result<journal::MadeLine> make_line(const journal::LinePosition& position, std::uint64_t first_seq,
                                    std::span<const journal::Bytes> events) {
  if (!position.line.empty() && transcripts::entry_type(position.line) == "session")
    return journal::MadeLine{.text = position.line};
  const std::uint64_t index = position.seq - first_seq;
  if (index >= events.size())
    return fail(Code::internal, fmt::format("a line of {} belongs to event {}, which is not in its batch",
                                            position.file, position.seq));
  const auto data = json::find(*events[index], "data").value_or("{}");
  if (store::is_log_file(position.file)) {
    const auto entry = json::find(data, "entry").value_or("{}");
    return journal::MadeLine{
        .text = std::string(entry) + '\n', .id = json::string_at(entry, "id").value_or(""), .seq = told_seq(entry)};
  }
  const auto message = json::find(data, "message").value_or("{}");
  const bool kept = !position.line.empty();
  journal::MadeLine made{.text = kept ? position.line : transcripts::line_of(message, position.unstamped)};
  made.id = json::string_at(kept ? std::string_view(position.line) : message, "id").value_or("");
  made.seq = told_seq(message);
  return made;
}

}  // namespace

Projection::Projection(const Paths& paths, std::optional<lock::LockOptions> locks, const std::atomic<bool>& adopting,
                       FlushedSizes& sizes, std::function<void(std::string)> on_repair)
    : paths_(paths),
      adopting_(adopting),
      sizes_(sizes),
      on_repair_(std::move(on_repair)),
      archives_(paths),
      writer_(
          paths.root(), locks,
          [this](const std::string& path, std::uint64_t inode, transcripts::ByteRange lines) {
            on_lines(path, inode, lines);
          },
          [this](const std::string& path, std::optional<std::uint64_t> size) { on_size(path, size); }),
      renames_(paths, archives_, writer_, [this](const std::string& agent) { return ends(agent); }, on_repair_) {
  writer_.let_wait(is_log_path);
}

Result<transcripts::KnownEnds*> Projection::ends(const std::string& agent) {
  const std::string dir = paths_.sessions_dir(agent);
  if (const auto known = ends_.find(dir); known != ends_.end()) return &known->second;
  // Nothing is adopted from a folder that leads out of the state directory; its lines wait until it is put right.
  const bool adopt = adopting_ && store::resolve_below(paths_.root(), dir).has_value();
  TRY(auto opened, transcripts::KnownEnds::open(paths_.root() / dir, paths_.known_ends(agent), adopt));
  if (opened.was_damaged() && on_repair_)
    on_repair_(fmt::format("{} was damaged: every line that stands in the agent's transcripts now counts as known",
                           paths_.known_ends(agent).native()));
  return &ends_.emplace(dir, std::move(opened)).first->second;
}

Result<std::set<std::string, std::less<>>> Projection::names(const std::string& agent) {
  TRY(store::resolve_below(paths_.root(), paths_.sessions_dir(agent)));
  TRY(auto* known, ends(agent));
  return known->names();
}

Result<std::vector<std::string>> Projection::lost(const std::string& agent) {
  TRY(store::resolve_below(paths_.root(), paths_.sessions_dir(agent)));
  TRY(auto* known, ends(agent));
  return known->lost();
}

Result<void> Projection::forget(const std::string& agent, const std::vector<std::string>& files) {
  TRY(auto* known, ends(agent));
  for (const std::string& file : files) known->forget(file);
  return {};
}

Result<void> Projection::take_as_known(const std::string& agent, const transcripts::ForeignEdit& edit) {
  TRY(auto* known, ends(agent));
  known->replace(edit.file, edit.inode, edit.size);
  return {};
}

Result<void> Projection::take_as_known(const std::string& agent, const transcripts::ForeignEdit& edit,
                                       std::uint64_t end) {
  TRY(auto* known, ends(agent));
  known->add(edit.file, edit.inode, {.begin = 0, .end = end});
  return {};
}

Result<void> Projection::take_header_as_known(const std::string& agent, const transcripts::ForeignEdit& edit) {
  const transcripts::ByteRange added = edit.unknown.front();
  if (edit.unknown.size() != 1 || added.begin != 0 || added.end > transcripts::longest_header) return {};
  const auto path = paths_.root() / paths_.sessions_dir(agent) / edit.file;
  TRY(const auto fd, store::open_within(path, O_RDONLY | O_NONBLOCK));
  TRY(const auto status, store::status_of(fd.get(), path.native()));
  TRY(const auto text, store::read_at(fd.get(), 0, added.end, path.native()));
  if (status.st_ino != edit.inode || text.find('\n') + 1 != added.end || !transcripts::is_header(text)) return {};
  TRY(auto* known, ends(agent));
  known->add(edit.file, edit.inode, added);
  return {};
}

void Projection::on_lines(std::string_view path, std::uint64_t inode, transcripts::ByteRange lines) {
  const std::size_t name = path.find_last_of('/') + 1;
  const auto known = ends_.find(path.substr(0, name));
  if (known != ends_.end() && path.ends_with(".jsonl")) known->second.add(path.substr(name), inode, lines);
}

void Projection::on_size(std::string_view path, std::optional<std::uint64_t> size) {
  const std::size_t name = path.find_last_of('/') + 1;
  const auto known = ends_.find(path.substr(0, name));
  const bool counts = size && known != ends_.end();
  sizes_.set(path, size, counts ? known->second.inode_if_known(path.substr(name), *size) : 0);
}

Result<std::vector<transcripts::ForeignEdit>> Projection::foreign(const std::string& agent,
                                                                  const std::set<std::string>& files) {
  TRY(store::resolve_below(paths_.root(), paths_.sessions_dir(agent)));
  TRY(auto* known, ends(agent));
  if (files.empty()) return known->look();
  std::vector<transcripts::ForeignEdit> found;
  for (const std::string& file : files) {
    TRY(auto edit, known->look(file));
    if (edit) found.push_back(std::move(*edit));
  }
  return found;
}

Result<std::optional<transcripts::Migration>> Projection::migrate(const std::string& agent, const std::string& file,
                                                                  const std::string& session_id) {
  const std::string path = paths_.transcript(agent, file);
  TRY(const auto whole, store::resolve_below(paths_.root(), path));
  // A link stays one: what it names is not rewritten.
  if (const auto status = store::stat_of(whole); !status || S_ISLNK(status->st_mode)) return std::nullopt;
  TRY(const auto lock, writer_.close(path, true));
  TRY(auto* known, ends(agent));
  TRY(const auto edit, known->look(file));
  if (edit) return fail(Code::session_busy, path + " is being written by a foreign program; try again");
  bool kept = false;
  TRY(const auto done, transcripts::migrate_transcript(whole, session_id, [&]() -> Result<void> {
        const auto to = paths_.journal_dir() / "kept" / store::time_for_names() / path;
        TRY(store::make_dirs(to.parent_path()));
        kept = true;
        return store::keep_copy(whole, to);
      }));
  if (!kept) return std::nullopt;
  sizes_.set(path, std::nullopt);
  if (const auto now = store::stat_of(whole))
    known->replace(file, now->st_ino, static_cast<std::uint64_t>(now->st_size));
  TRY(known->save());  // or the next start takes it for a foreign program's
  return done;
}

Result<void> Projection::forget_deleted(const std::string& agent, const std::string& file) {
  TRY(const auto edit, foreign(agent, {file}));
  if (!edit.empty() && edit.front().kind == transcripts::ForeignEdit::Kind::removed) {
    const std::string dir = paths_.sessions_dir(agent);
    ends_.at(dir).forget(file);
    sizes_.set(dir + file, {});
  }
  return {};
}

// Keeps the ends while lines are pending: they are needed to note these lines as ours when they are written.
void Projection::unload_agent(const std::string& agent) {
  archives_.unload(agent);
  const auto known = ends_.find(paths_.sessions_dir(agent));
  if (known == ends_.end() || !known->second.saved() || writer_.has_pending_below(known->first)) return;
  ends_.erase(known);
  sizes_.forget_folder(paths_.sessions_dir(agent));
  for (const std::string_view folder : folders_beside)
    if (const std::string dir = dir_beside(paths_, agent, folder); !writer_.has_pending_below(dir))
      sizes_.forget_folder(dir);
}

Result<void> Projection::sync() {
  TRY(writer_.sync());
  TRY(archives_.sync());
  for (auto& [dir, known] : ends_) {
    if (known.saved()) continue;
    TRY(known.save());
  }
  return {};
}

Result<void> Projection::add(std::uint64_t first_seq, std::span<const journal::Bytes> events,
                             std::span<const journal::LinePosition> positions, const Redirect& redirect) {
  // Keeps the order: lines of events before a rename go first.
  std::size_t next = 0;
  for (std::size_t index = 0; index < events.size(); ++index) {
    if (!renames_files(*events[index])) continue;
    TRY(add_lines(first_seq, events, positions, next, first_seq + index, redirect));
    TRY(renames_.apply(*events[index], positions, !redirect));
  }
  TRY(archives_.write());
  return add_lines(first_seq, events, positions, next, UINT64_MAX, redirect);
}

Result<void> Projection::add_lines(std::uint64_t first_seq, std::span<const journal::Bytes> events,
                                   std::span<const journal::LinePosition> positions, std::size_t& next,
                                   std::uint64_t before, const Redirect& redirect) {
  for (; next < positions.size(); ++next) {
    const journal::LinePosition& position = positions[next];
    if (position.seq >= before) return {};
    if (position.is_of_archive()) continue;
    if (position.seq < first_seq) continue;  // the batch is read from its middle on, and the file has this line
    TRY(auto* known, ends(position.agent));  // before its files change
    if (!position.staged.empty()) {
      std::optional<std::string> path = paths_.transcript(position.agent, position.file);
      if (redirect) path = redirect(position.seq, *path);
      if (!path) continue;
      journal::LinePosition taken = position;
      std::error_code ignored;
      const auto folder = paths_.root() / paths_.sessions_dir(position.agent);
      if (redirect && writer_.makes_up_lost_lines(*path) &&
          !std::filesystem::exists(folder / position.staged, ignored) &&
          !std::filesystem::exists(paths_.root() / *path, ignored) && position.seq - first_seq < events.size()) {
        TRY(const auto event, journal::parse_event(std::string(*events[position.seq - first_seq])));
        taken.staged = stage_lost_copy(paths_, writer_, event, position, positions);
      }
      TRY(renames_.place(taken, *path, !redirect));
      continue;
    }
    if (position.length) {
      if (position.at) {
        known->add(position.file, position.inode, {*position.at, *position.at + *position.length});
      } else {
        known->replace(position.file, position.inode, *position.length);
      }
      continue;
    }
    std::optional<journal::MadeLine> again;
    if (!position.made) {
      TRY(again, make_line(position, first_seq, events));
    }
    const journal::MadeLine& line = position.made ? *position.made : *again;
    std::optional<std::string> path = file_path(paths_, position.agent, position.file);
    if (redirect) path = redirect(position.seq, *path);
    if (!path) continue;
    std::string sealed;
    if (position.draw) {
      const std::string scope = transcripts::seal_scope(paths_.sessions_dir(position.agent) + position.file);
      transcripts::append_line(sealed, line.text, position.draw, scope, line.seq.value_or(transcripts::header_seq));
    }
    writer_.add({.file = std::move(*path), .offset = position.at.value_or(0), .seq = line.seq},
                position.draw ? std::string_view(sealed) : line.text, line.id);
  }
  return {};
}

std::set<std::string, std::less<>> transcripts_of(const Paths& paths, const journal::Commit& commit) {
  std::set<std::string, std::less<>> files;
  for (const journal::LinePosition& position : commit.line_positions)
    if (!position.is_of_archive()) files.insert(file_path(paths, position.agent, position.file));  // archives: below
  for (const journal::Bytes& bytes : commit.events) {
    if (!renames_files(*bytes)) continue;
    const auto event = journal::parse_event(*bytes);
    if (!event) continue;  // add() says so
    for (const auto& [file, name] : archived_files(*event, commit.line_positions))
      files.insert(paths.transcript(event->envelope.agent, file));
  }
  return files;
}

}  // namespace sessiond::ledger

#include "daemon/ledger/book_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "daemon/decide/apply.hpp"
#include "daemon/ledger/agents.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/names.hpp"
#include "store/number.hpp"
#include "store/seal/sealed.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

Result<std::string> read_text(const std::filesystem::path& file) {
  TRY(auto text, store::read_file(file));
  return open_book(std::move(text), file);
}

template <class Book>
Result<Book> parse(std::string_view text) {
  text = store::trim(text);
  if (!json::check(text, {.max_depth = json::foreign_depth})) return fail(Code::degraded, "it is no JSON");
  if (!json::find(text, "crc") || !json::crc_fits(text)) return fail(Code::degraded, "its checksum does not fit");
  return Book::from_json(text);
}

// Moves a damaged file away. `instead` says what holds then.
Result<void> move_away(const std::filesystem::path& file, const Problem& damage, std::string_view instead,
                       std::vector<std::string>& repairs) {
  const std::filesystem::path kept = file.native() + ".damaged." + store::time_for_names();
  TRY(sessions::move_file(file, kept));
  repairs.push_back(
      fmt::format("{} was damaged ({}): it is now {}, and {}", file.native(), damage.detail, kept.native(), instead));
  return {};
}

// Reads a file of ours; nothing if there is none. A damaged one is moved away.
template <class Book>
Result<std::optional<Book>> read(const std::filesystem::path& file, std::string_view instead, bool& damaged,
                                 std::vector<std::string>& repairs) {
  const auto stored = store::read_file(file);
  if (!stored && stored.error().code == Code::not_found) return std::nullopt;
  if (!stored) return std::unexpected(stored.error());
  const auto text = seal::open_if_sealed(*stored, place_of_book(file));
  auto book = text ? parse<Book>(*text) : std::unexpected(text.error());
  if (book) return std::move(*book);
  TRY(move_away(file, book.error(), instead, repairs));
  damaged = true;
  return std::nullopt;
}

// Lets a book take in all events of an agent that the journal has.
template <class Book>
Result<Book> made_from(const journal::Journal& journal, const std::string& agent, Book book = {}) {
  for (std::uint64_t from = journal.oldest(); from <= journal.head();) {
    TRY(auto page, journal.read(from, decide::replay_page_bytes));
    for (const journal::StoredBatch& batch : page.batches) {
      for (const journal::Bytes& bytes : batch.events) {
        auto event = journal::parse_event(*bytes);
        if (event && event->envelope.agent == agent) book.apply(decide::decode(*std::move(event)));
      }
    }
    from = page.next;
  }
  return book;
}

template <class Book>
Result<Book> read_book(const std::filesystem::path& file, const std::string& agent, const journal::Journal& journal,
                       std::string_view instead, std::vector<std::string>& repairs) {
  bool damaged = false;
  TRY(auto there, read<Book>(file, instead, damaged, repairs));
  if (there) return std::move(*there);
  if (!damaged) return Book();
  TRY(auto book, made_from<Book>(journal, agent));
  book.mark_dirty();
  return book;
}

template <class Book>
Result<Book> read_book(BookLog& log, const std::filesystem::path& file, std::optional<std::uint64_t> known,
                       const std::string& agent, const journal::Journal& journal, std::string_view instead,
                       std::vector<std::string>& repairs) {
  const auto stored = log.read(known.value_or(0));
  const bool is_there = stored || stored.error().code != Code::not_found;
  if (!stored && is_there && stored.error().code != Code::degraded) return std::unexpected(stored.error());
  auto book = stored ? Book::from_records(stored->records, stored->ending) : std::unexpected(stored.error());
  bool damaged = false;
  auto older = read<Book>(file_before(file), book ? "the log beside it counts" : instead, damaged, repairs);
  if (!older && !book) return std::unexpected(older.error());
  std::optional<Book> before = older ? std::move(*older) : std::nullopt;
  if (stored) TRY(log.make_durable());
  if (book && before && before->seq() > book->seq()) {  // a downgrade came between
    before->unwritten().mark_dirty();
    return std::move(*before);
  }
  if (book) {
    std::error_code ignored;
    std::filesystem::remove(file_before(file), ignored);  // a kill has left it
    if (log.is_rewrite_due()) book->unwritten().mark_dirty();
    return std::move(*book);
  }
  const bool is_older = before && before->seq() < known.value_or(0);  // than the log was
  if (!is_there && before && !is_older) return std::move(*before);
  if (is_there) TRY(move_away(file, book.error(), instead, repairs));
  if (!is_there && !damaged && !known) return Book();
  if (!is_there && !damaged) repairs.push_back(fmt::format("{} is gone: {}", file.native(), instead));
  const bool is_whole = before && known.value_or(0) != 0 && !is_older;              // as far as CHECKPOINT knows
  if (before && !is_whole && before->seq() + 1 < journal.oldest()) before.reset();  // the events between are gone
  TRY(auto made, made_from<Book>(journal, agent, before ? std::move(*before) : Book()));
  made.unwritten().mark_dirty();
  return made;
}

Result<void> write(const std::filesystem::path& file, std::string json) {
  TRY(store::make_dirs(file.parent_path()));
  TRY(seal::reserve());
  return store::replace_file(file, seal::seal(json::with_crc(std::move(json)), place_of_book(file)) + "\n");
}

}  // namespace

std::filesystem::path runs_file(const Paths& paths, std::string_view agent) {
  return paths.journal_dir() / "runs" / (std::string(agent) + ".log");
}

std::filesystem::path outbox_file(const Paths& paths, std::string_view agent) {
  return paths.journal_dir() / "outbox" / (std::string(agent) + ".log");
}

std::filesystem::path file_before(const std::filesystem::path& log) {
  return std::filesystem::path(log).replace_extension(".json");
}

std::filesystem::path last_used_file(const Paths& paths, std::string_view agent) {
  return paths.journal_dir() / "last" / (std::string(agent) + ".json");
}

std::filesystem::path early_file(const Paths& paths, std::string_view agent) {
  return paths.journal_dir() / "early" / (std::string(agent) + ".json");
}

std::filesystem::path policies_file(const Paths& paths, std::string_view agent) {
  return paths.journal_dir() / "policies" / (std::string(agent) + ".json");
}

std::filesystem::path last_session_file(const Paths& paths, std::string_view agent) {
  return paths.agents_dir() / agent / "last_session";
}

std::filesystem::path adoptions_file(const Paths& paths) { return paths.journal_dir() / "adoptions"; }

std::filesystem::path hooks_file(const Paths& paths) { return paths.journal_dir() / "hooks"; }

std::map<std::string, BooksOnDisk> books_on_disk(const Paths& paths) {
  std::map<std::string, BooksOnDisk> found;
  const auto look = [&](std::string_view folder, BooksOnDisk::Book book) {
    store::each_in(paths.journal_dir() / folder, [&](const std::filesystem::directory_entry& entry) {
      const std::filesystem::path ending = entry.path().extension();
      if (ending == ".log" || ending == ".json") found[entry.path().stem().native()].*book = 0;
    });
  };
  look("runs", &BooksOnDisk::runs);
  look("outbox", &BooksOnDisk::outbox);
  return found;
}

void put_books_on_disk(json::ObjectWriter& checkpoint, const Agents& agents) {
  for (const auto& [name, book] : {std::pair("runs", &BooksOnDisk::runs), std::pair("outbox", &BooksOnDisk::outbox)}) {
    json::Edit seqs;
    for (const auto& [id, agent] : agents.all())
      if (const auto& seq = agent->reached.books.*book) seqs.set.push_back({id, store::decimal(*seq)});
    checkpoint.raw(name, json::apply("{}", seqs));
  }
}

std::map<std::string, std::uint64_t> agents_with_book(const Agents& agents, BooksOnDisk::Book book) {
  std::map<std::string, std::uint64_t> seqs;
  for (const auto& [id, agent] : agents.all())
    if (const auto& seq = agent->reached.books.*book) seqs.emplace(id, *seq);
  return seqs;
}

Result<void> read_books(decide::AgentState& state, BookLogs& logs, const Paths& paths, const journal::Journal& journal,
                        const BooksOnDisk& known, std::vector<std::string>& repairs) {
  const std::string& id = state.id();
  TRY(state.runs, read_book<decide::RunBook>(logs.runs, runs_file(paths, id), known.runs, id, journal,
                                             "the runs are those that the journal tells of", repairs));
  TRY(state.deliveries,
      read_book<decide::DeliveryBook>(logs.deliveries, outbox_file(paths, id), known.outbox, id, journal,
                                      "the deliveries are those that the journal tells of", repairs));
  // Not noted in CHECKPOINT: without the file the session that was changed last counts as the last one.
  TRY(state.last_used, read_book<decide::LastUsed>(last_used_file(paths, id), id, journal,
                                                   "the last sessions are those that the journal tells of", repairs));
  TRY(state.early, read_book<decide::EarlyChanges>(early_file(paths, id), id, journal,
                                                   "early changes are those that the journal tells of", repairs));
  TRY(state.policies, read_book<decide::KeyPolicies>(policies_file(paths, id), id, journal,
                                                     "guardrails of keys without a session are those that the journal "
                                                     "tells of",
                                                     repairs));
  for (const auto& [key, session] : state.by_name()) state.policies.take(id, *session);
  return {};
}

Result<std::string> open_book(std::string text, const std::filesystem::path& file) {
  return seal::open_if_sealed(std::move(text), place_of_book(file));
}

namespace {

// What the end of the log says, and of a file that an earlier version wrote what `is_open` does.
template <class Book>
bool may_have_open(const std::filesystem::path& file, std::optional<std::uint64_t> known,
                   bool (*is_open)(const Book&)) {
  const auto open = BookLog::open_count(file, known.value_or(0));
  if (open && open->value_or(1) != 0) return true;
  if (!open && open.error().code != Code::not_found) return true;
  const auto text = read_text(file_before(file));
  if (!text) return text.error().code != Code::not_found || (!open && known);
  const auto book = parse<Book>(*text);
  return !book || is_open(*book);
}

}  // namespace

bool may_have_open_runs(const std::filesystem::path& file, std::optional<std::uint64_t> known) {
  return may_have_open<decide::RunBook>(file, known, [](const decide::RunBook& book) {
    return std::ranges::any_of(book.sessions(), [](const auto& session) {
      return session.second.active || !session.second.queued.empty() || session.second.takeover;
    });
  });
}

bool may_have_open_deliveries(const std::filesystem::path& file, std::optional<std::uint64_t> known) {
  return may_have_open<decide::DeliveryBook>(file, known, [](const decide::DeliveryBook& book) {
    const decide::DeliveryBook::Counts counts = book.counts();
    return counts.pending + counts.leased + counts.failed != 0;
  });
}

bool may_have_early_changes(const std::filesystem::path& file) {
  const auto text = read_text(file);
  if (!text) return text.error().code != Code::not_found;
  const auto book = parse<decide::EarlyChanges>(*text);
  return !book || !book->empty();
}

bool take_changed_books(decide::AgentState& state, ChangedBooks& books) {
  const auto take = [](auto& book, std::optional<decide::BookChanges>& changes) {
    if (!book.unwritten().is_dirty()) return true;
    if (!changes) changes.emplace();
    return book.take_changes(*changes);
  };
  if (!take(state.runs, books.runs) || !take(state.deliveries, books.deliveries)) return false;
  if (state.last_used.is_dirty()) books.last_used = state.last_used.to_json();
  if (state.early.is_dirty()) books.early = state.early.to_json();
  if (state.policies.is_dirty()) books.policies = state.policies.to_json();
  return true;
}

bool note_unfinished(decide::AgentState& state, const BookLogs& logs) {
  const auto note = [](auto& book, const BookLog& log) {
    if (!log.is_rewrite_due()) return false;
    if (log.is_lost())
      book.unwritten().start_over();
    else
      book.unwritten().mark_dirty();
    return true;
  };
  const bool of_runs = note(state.runs, logs.runs);
  return note(state.deliveries, logs.deliveries) || of_runs;
}

bool give_back(decide::AgentState& state, ChangedBooks& books, const BookLogs& logs) {
  constexpr std::size_t at_once = 256;
  const auto give = [](auto& book, std::optional<decide::BookChanges>& changes, const BookLog& log) {
    if (!changes) return true;
    if (log.is_lost()) book.unwritten().start_over();
    if (!log.is_lost() && !book.unwritten().give_back(*changes, at_once)) return false;
    changes.reset();
    return true;
  };
  if (!give(state.runs, books.runs, logs.runs) || !give(state.deliveries, books.deliveries, logs.deliveries))
    return false;
  if (books.last_used) state.last_used.mark_dirty();
  if (books.early) state.early.mark_dirty();
  if (books.policies) state.policies.mark_dirty();
  return true;
}

void note_written(BooksOnDisk& known, const ChangedBooks& books) {
  const auto end = [](const decide::BookChanges& changes) {
    return static_cast<std::uint64_t>(json::int_at(changes.ending, "end").value_or(0));
  };
  if (books.runs) known.runs = end(*books.runs);
  if (books.deliveries) known.outbox = end(*books.deliveries);
}

namespace {

Result<void> write_log(BookLog& log, const std::filesystem::path& file, const decide::BookChanges& changes) {
  TRY(log.write(changes));
  if (!changes.is_whole) return {};
  std::error_code error;
  if (!std::filesystem::remove(file_before(file), error) || error) return {};
  return store::sync_dir(file.parent_path());
}

}  // namespace

Result<void> write_books(const Paths& paths, const std::string& agent, BookLogs& logs, const ChangedBooks& books) {
  if (books.runs) {
    TRY(write_log(logs.runs, runs_file(paths, agent), *books.runs));
    store::fault_point("runs.written");
  }
  if (books.deliveries) {
    TRY(write_log(logs.deliveries, outbox_file(paths, agent), *books.deliveries));
    store::fault_point("outbox.written");
  }
  if (books.last_used) {
    TRY(write(last_used_file(paths, agent), *books.last_used));
    store::fault_point("last.written");
  }
  if (books.early) {
    TRY(write(early_file(paths, agent), *books.early));
    store::fault_point("early.written");
  }
  if (books.policies) {
    TRY(write(policies_file(paths, agent), *books.policies));
    store::fault_point("policies.written");
  }
  return {};
}

bool write_last_session(const Paths& paths, const std::string& agent, const std::string& id) {
  const std::filesystem::path file = last_session_file(paths, agent);
  std::error_code error;
  if (id.empty()) {
    std::filesystem::remove(file, error);
    return !error;
  }
  const auto there = store::read_file(file);
  return (there && *there == id) || store::replace_file(file, id);
}

Result<decide::Adoptions> read_adoptions(const std::filesystem::path& file, std::vector<std::string>& repairs) {
  bool damaged = false;
  TRY(auto there,
      read<decide::Adoptions>(file, "deliveries are kept again when bridges claim again", damaged, repairs));
  return there ? std::move(*there) : decide::Adoptions();
}

Result<void> write_adoptions(const std::filesystem::path& file, const std::string& json) { return write(file, json); }

Result<runs::HookList> read_hooks(const std::filesystem::path& file, std::vector<std::string>& repairs) {
  bool damaged = false;
  TRY(auto there,
      read<runs::HookList>(file, "no hook is called until clients PUT their hooks again", damaged, repairs));
  return there ? std::move(*there) : runs::HookList();
}

Result<void> write_hooks(const std::filesystem::path& file, const std::string& json) { return write(file, json); }

}  // namespace sessiond::ledger

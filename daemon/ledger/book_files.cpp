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
#include "store/seal/sealed.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

seal::Place place_of(const std::filesystem::path& file) {
  return {"book", file.parent_path().filename().native(), file.filename().native()};
}

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

// Reads a file of ours; nothing if there is none. A damaged one is moved away. `instead` says what holds then.
template <class Book>
Result<std::optional<Book>> read(const std::filesystem::path& file, std::string_view instead, bool& damaged,
                                 std::vector<std::string>& repairs) {
  const auto stored = store::read_file(file);
  if (!stored && stored.error().code == Code::not_found) return std::nullopt;
  if (!stored) return std::unexpected(stored.error());
  const auto text = seal::open_if_sealed(*stored, place_of(file));
  auto book = text ? parse<Book>(*text) : std::unexpected(text.error());
  if (book) return std::move(*book);
  const std::filesystem::path kept = file.native() + ".damaged." + store::time_for_names();
  TRY(sessions::move_file(file, kept));
  repairs.push_back(fmt::format("{} was damaged ({}): it is now {}, and {}", file.native(), book.error().detail,
                                kept.native(), instead));
  damaged = true;
  return std::nullopt;
}

template <class Book>
Result<Book> read_book(const std::filesystem::path& file, bool known, const std::string& agent,
                       const journal::Journal& journal, std::string_view instead, std::vector<std::string>& repairs) {
  bool damaged = false;
  TRY(auto there, read<Book>(file, instead, damaged, repairs));
  if (there) return std::move(*there);
  Book book;
  if (!damaged && !known) return book;
  if (!damaged) repairs.push_back(fmt::format("{} is gone: {}", file.native(), instead));
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
  book.mark_dirty();
  return book;
}

Result<void> write(const std::filesystem::path& file, std::string json) {
  TRY(store::make_dirs(file.parent_path()));
  TRY(seal::reserve());
  return store::replace_file(file, seal::seal(json::with_crc(std::move(json)), place_of(file)) + "\n");
}

}  // namespace

std::filesystem::path runs_file(const Paths& paths, std::string_view agent) {
  return paths.journal_dir() / "runs" / (std::string(agent) + ".json");
}

std::filesystem::path outbox_file(const Paths& paths, std::string_view agent) {
  return paths.journal_dir() / "outbox" / (std::string(agent) + ".json");
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
  const auto look = [&](std::string_view folder, bool BooksOnDisk::* book) {
    store::each_in(paths.journal_dir() / folder, [&](const std::filesystem::directory_entry& entry) {
      if (entry.path().extension() == ".json") found[entry.path().stem().native()].*book = true;
    });
  };
  look("runs", &BooksOnDisk::runs);
  look("outbox", &BooksOnDisk::outbox);
  return found;
}

void put_books_on_disk(json::ObjectWriter& checkpoint, const Agents& agents) {
  for (const auto& [name, book] : {std::pair("runs", &BooksOnDisk::runs), std::pair("outbox", &BooksOnDisk::outbox)}) {
    std::vector<std::string> ids;
    for (const auto& [id, agent] : agents.all())
      if (agent->reached.books.*book) ids.push_back(id);
    checkpoint.raw(name, json::array_of(ids));
  }
}

std::set<std::string> agents_with_book(const Agents& agents, bool BooksOnDisk::* book) {
  std::set<std::string> ids;
  for (const auto& [id, agent] : agents.all())
    if (agent->reached.books.*book) ids.insert(id);
  return ids;
}

Result<void> read_books(decide::AgentState& state, const Paths& paths, const journal::Journal& journal,
                        BooksOnDisk known, std::vector<std::string>& repairs) {
  const std::string& id = state.id();
  TRY(state.runs, read_book<decide::RunBook>(runs_file(paths, id), known.runs, id, journal,
                                             "the runs are those that the journal tells of", repairs));
  TRY(state.deliveries, read_book<decide::DeliveryBook>(outbox_file(paths, id), known.outbox, id, journal,
                                                        "the deliveries are those that the journal tells of", repairs));
  // Not noted in CHECKPOINT: without the file the session that was changed last counts as the last one.
  TRY(state.last_used, read_book<decide::LastUsed>(last_used_file(paths, id), false, id, journal,
                                                   "the last sessions are those that the journal tells of", repairs));
  TRY(state.early, read_book<decide::EarlyChanges>(early_file(paths, id), false, id, journal,
                                                   "early changes are those that the journal tells of", repairs));
  TRY(state.policies, read_book<decide::KeyPolicies>(policies_file(paths, id), false, id, journal,
                                                     "guardrails of keys without a session are those that the journal "
                                                     "tells of",
                                                     repairs));
  for (const auto& [key, session] : state.by_name()) state.policies.take(id, *session);
  return {};
}

Result<std::string> open_book(std::string text, const std::filesystem::path& file) {
  return seal::open_if_sealed(std::move(text), place_of(file));
}

bool may_have_open_runs(const std::filesystem::path& file, bool known) {
  const auto text = read_text(file);
  if (!text) return known || text.error().code != Code::not_found;
  const auto book = parse<decide::RunBook>(*text);
  return !book || std::ranges::any_of(book->sessions(), [](const auto& session) {
    return session.second.active || !session.second.queued.empty() || session.second.takeover;
  });
}

bool may_have_open_deliveries(const std::filesystem::path& file, bool known) {
  const auto text = read_text(file);
  if (!text) return known || text.error().code != Code::not_found;
  const auto book = parse<decide::DeliveryBook>(*text);
  if (!book) return true;
  const decide::DeliveryBook::Counts counts = book->counts();
  return counts.pending + counts.leased + counts.failed != 0;
}

bool may_have_early_changes(const std::filesystem::path& file) {
  const auto text = read_text(file);
  if (!text) return text.error().code != Code::not_found;
  const auto book = parse<decide::EarlyChanges>(*text);
  return !book || !book->empty();
}

ChangedBooks take_changed_books(decide::AgentState& state) {
  ChangedBooks books;
  if (state.runs.is_dirty()) books.runs = state.runs.to_json();
  if (state.deliveries.is_dirty()) books.deliveries = state.deliveries.to_json();
  if (state.last_used.is_dirty()) books.last_used = state.last_used.to_json();
  if (state.early.is_dirty()) books.early = state.early.to_json();
  if (state.policies.is_dirty()) books.policies = state.policies.to_json();
  return books;
}

void take_again(decide::AgentState& state, const ChangedBooks& books) {
  if (books.runs) state.runs.mark_dirty();
  if (books.deliveries) state.deliveries.mark_dirty();
  if (books.last_used) state.last_used.mark_dirty();
  if (books.early) state.early.mark_dirty();
  if (books.policies) state.policies.mark_dirty();
}

Result<void> write_books(const Paths& paths, const std::string& agent, ChangedBooks books) {
  if (books.runs) {
    TRY(write(runs_file(paths, agent), std::move(*books.runs)));
    store::fault_point("runs.written");
  }
  if (books.deliveries) {
    TRY(write(outbox_file(paths, agent), std::move(*books.deliveries)));
    store::fault_point("outbox.written");
  }
  if (books.last_used) {
    TRY(write(last_used_file(paths, agent), std::move(*books.last_used)));
    store::fault_point("last.written");
  }
  if (books.early) {
    TRY(write(early_file(paths, agent), std::move(*books.early)));
    store::fault_point("early.written");
  }
  if (books.policies) {
    TRY(write(policies_file(paths, agent), std::move(*books.policies)));
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

// The books of an agent, beside the journal and not in the agent's folder, which foreign programs clean up:
//   journal/runs/<agent>.log       its runs (decide/run_book.hpp)
//   journal/outbox/<agent>.log     its deliveries (decide/delivery_book.hpp)
//   journal/last/<agent>.json      which sessions people used last (decide/last_used.hpp)
//   journal/early/<agent>.json     what is told of messages that have not come (decide/early_changes.hpp)
//   journal/policies/<agent>.json  what operators allow under keys (decide/key_policies.hpp)
// The first two grow by what has changed (book_log.hpp). Earlier versions wrote them whole, as <agent>.json. Where both
// files are, the one counts that was written at the later event: an earlier version may have run meanwhile. The older
// one goes when the other was read. The others are one line with a checksum each. They are written whole. All of them
// are written with each checkpoint in which they changed.
//
// journal/adoptions says which deliveries are kept (decide/adoptions.hpp). It is written when that changes, before
// it holds. journal/hooks has the handlers that clients have made (policy/runs/hooks.hpp). All of this blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/hooks.hpp"
#include "daemon/ledger/book_log.hpp"
#include "daemon/ledger/checkpoint_file.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/journal/journal.hpp"

namespace sessiond::ledger {

class Agents;

std::filesystem::path runs_file(const Paths& paths, std::string_view agent);
std::filesystem::path outbox_file(const Paths& paths, std::string_view agent);
// The file in which an earlier version kept what is in such a log.
std::filesystem::path file_before(const std::filesystem::path& log);
std::filesystem::path last_used_file(const Paths& paths, std::string_view agent);
std::filesystem::path early_file(const Paths& paths, std::string_view agent);
std::filesystem::path policies_file(const Paths& paths, std::string_view agent);
// agents/<agent>/last_session: the id of the session that was used last, for scripts. Never read.
std::filesystem::path last_session_file(const Paths& paths, std::string_view agent);
std::filesystem::path adoptions_file(const Paths& paths);
std::filesystem::path hooks_file(const Paths& paths);

// Finds the files of all agents.
std::map<std::string, BooksOnDisk> books_on_disk(const Paths& paths);
// Puts the members into CHECKPOINT that name the agents with such files. Thread: the loop. Does not block.
void put_books_on_disk(json::ObjectWriter& checkpoint, const Agents& agents);
// The logs of an agent. Their calls block: they run on the agent's strand.
struct BookLogs {
  BookLogs(const Paths& paths, std::string_view agent)
      : runs(runs_file(paths, agent)), deliveries(outbox_file(paths, agent)) {}
  BookLog runs, deliveries;
};
// Reads the books of an agent. A file that is absent says that it never had any, unless `known` names it. A damaged one
// is moved away, and so is a log that ends before `known` says. That book, and one that is gone, is made from the
// events that the journal still has, and from the file of an earlier version if they follow it; `repairs` then says so.
// A book is dirty if its log is to be written anew.
Result<void> read_books(decide::AgentState& state, BookLogs& logs, const Paths& paths, const journal::Journal& journal,
                        const BooksOnDisk& known, std::vector<std::string>& repairs);

// The text of a book that was read from this file, opened if it is sealed. degraded if it does not open.
Result<std::string> open_book(std::string text, const std::filesystem::path& file);

// The agents that have such a file, or had one by CHECKPOINT, and the event that it was written at; 0: not known.
// Thread: the loop. Does not block.
std::map<std::string, std::uint64_t> agents_with_book(const Agents& agents, BooksOnDisk::Book book);
inline std::optional<std::uint64_t> seq_of(const std::map<std::string, std::uint64_t>& books,
                                           const std::string& agent) {
  const auto found = books.find(agent);
  return found == books.end() ? std::nullopt : std::optional(found->second);
}
// Return whether the book has a run that has not ended, or a delivery that is not sent or has failed. A damaged one
// may have. `known`: there was such a file, written at this event. So one that is gone, ends before or was moved away
// may have, too: it is made again when the agent is read. They read only the end of a log.
bool may_have_open_runs(const std::filesystem::path& file, std::optional<std::uint64_t> known);
bool may_have_early_changes(const std::filesystem::path& file);
bool may_have_open_deliveries(const std::filesystem::path& file, std::optional<std::uint64_t> known);

// What has changed in the books of an agent since it was taken last.
struct ChangedBooks {
  std::optional<decide::BookChanges> runs{}, deliveries{};
  std::optional<std::string> last_used{}, early{}, policies{};  // whole texts
};
// Takes some of it, in well under 5 ms. Returns whether that was the rest: `books` is then as the agent is now. Thread:
// the loop.
bool take_changed_books(decide::AgentState& state, ChangedBooks& books);
// The books are written. Marks those dirty whose log is to be written anew, which has failed. Returns whether there is
// one. Thread: the loop, when no call of `logs` is under way.
bool note_unfinished(decide::AgentState& state, const BookLogs& logs);
// What was not written is to be taken again. Gives some of it back, and returns whether that was the rest. Thread: the
// loop, when no call of `logs` is under way.
bool give_back(decide::AgentState& state, ChangedBooks& books, const BookLogs& logs);
// Notes how far the books on disk are when these are written.
void note_written(BooksOnDisk& known, const ChangedBooks& books);
Result<void> write_books(const Paths& paths, const std::string& agent, BookLogs& logs, const ChangedBooks& books);
// Makes last_session_file say this, or removes it if `id` is empty. Returns whether it does.
bool write_last_session(const Paths& paths, const std::string& agent, const std::string& id);

// A damaged file is moved away: nothing is kept until bridges claim again, which they do all the time.
Result<decide::Adoptions> read_adoptions(const std::filesystem::path& file, std::vector<std::string>& repairs);
Result<void> write_adoptions(const std::filesystem::path& file, const std::string& json);

// A damaged file is moved away: no handler is called until clients make their hooks again.
Result<runs::HookList> read_hooks(const std::filesystem::path& file, std::vector<std::string>& repairs);
Result<void> write_hooks(const std::filesystem::path& file, const std::string& json);

}  // namespace sessiond::ledger

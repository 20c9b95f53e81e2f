// journal/runs/<agent>.json keeps the runs of an agent (decide/run_book.hpp), and journal/outbox/<agent>.json its
// deliveries (decide/delivery_book.hpp), journal/last/<agent>.json which sessions people used last
// (decide/last_used.hpp), journal/early/<agent>.json what is told of messages that have not come
// (decide/early_changes.hpp), journal/policies/<agent>.json what operators allow under keys (decide/key_policies.hpp):
// one line with a checksum each, written whole with each checkpoint in which they changed. They lie beside the journal
// and not in the agent's folder, which foreign programs clean up.
//
// journal/adoptions says which deliveries are kept (decide/adoptions.hpp). It is written when that changes, before
// it holds. journal/hooks has the handlers that clients have made (policy/runs/hooks.hpp). All of this blocks.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/hooks.hpp"
#include "daemon/ledger/checkpoint_file.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/journal/journal.hpp"

namespace sessiond::ledger {

class Agents;

std::filesystem::path runs_file(const Paths& paths, std::string_view agent);
std::filesystem::path outbox_file(const Paths& paths, std::string_view agent);
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
// Reads the books of an agent. A file that is absent says that it never had any, unless `known` names it. A damaged one
// is moved away. That book, and one that is gone, is made from the events that the journal still has; `repairs` then
// says so.
Result<void> read_books(decide::AgentState& state, const Paths& paths, const journal::Journal& journal,
                        BooksOnDisk known, std::vector<std::string>& repairs);

// The text of a book that was read from this file, opened if it is sealed. degraded if it does not open.
Result<std::string> open_book(std::string text, const std::filesystem::path& file);

// The agents that have such a file, or had one by CHECKPOINT. Thread: the loop. Does not block.
std::set<std::string> agents_with_book(const Agents& agents, bool BooksOnDisk::* book);
// Returns whether the book has a run that has not ended, or a delivery that is not sent or has failed. A damaged one
// may have. `known`: there was such a file, so one that is gone or was moved away may have, too: it is made again when
// the agent is read.
bool may_have_open_runs(const std::filesystem::path& file, bool known);
bool may_have_early_changes(const std::filesystem::path& file);
bool may_have_open_deliveries(const std::filesystem::path& file, bool known);

// The texts of those books of an agent that have changed since they were taken last.
struct ChangedBooks {
  std::optional<std::string> runs{}, deliveries{}, last_used{}, early{}, policies{};
};
ChangedBooks take_changed_books(decide::AgentState& state);
// They are to be taken again: they were not written.
void take_again(decide::AgentState& state, const ChangedBooks& books);
// Makes last_session_file say this, or removes it if `id` is empty. Returns whether it does.
bool write_last_session(const Paths& paths, const std::string& agent, const std::string& id);
Result<void> write_books(const Paths& paths, const std::string& agent, ChangedBooks books);

// A damaged file is moved away: nothing is kept until bridges claim again, which they do all the time.
Result<decide::Adoptions> read_adoptions(const std::filesystem::path& file, std::vector<std::string>& repairs);
Result<void> write_adoptions(const std::filesystem::path& file, const std::string& json);

// A damaged file is moved away: no handler is called until clients make their hooks again.
Result<runs::HookList> read_hooks(const std::filesystem::path& file, std::vector<std::string>& repairs);
Result<void> write_hooks(const std::filesystem::path& file, const std::string& json);

}  // namespace sessiond::ledger

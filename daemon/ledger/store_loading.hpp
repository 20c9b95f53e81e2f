// Reading one agent from disk: sessions.json, the names in its folder, and what the journal has beyond the file.
// Blocks; disk threads, one call for an agent at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/decision.hpp"
#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/checkpoint_file.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/journal/journal.hpp"
#include "store/sessions/sessions_file.hpp"

namespace sessiond::ledger {

// The seqs up to which the generations of a store surely hold the journal's events; 0: not known.
struct Generations {
  std::uint64_t written = 0;   // the last that we wrote
  std::uint64_t previous = 0;  // the one before it
};

// How an agent is loaded whose folder is gone, or holds nothing.
enum class FolderGone : std::uint8_t {
  rebuild,  // it is made again, as a store that vanished
  judge,    // if it has sessions it is refused: the folder may be on a volume that is not mounted
  refuse,   // the same of an agent that is known to have some
};

// How an agent is to be loaded.
struct LoadRequest {
  std::shared_ptr<sessions::SessionsFile> file{};      // the agent's, if it was in memory before
  std::shared_ptr<sessions::EntryHistory> history{};   // else of the one that left memory
  std::shared_ptr<sessions::Unfinished> unfinished{};  // what earlier calls saw of a store that was not whole
  std::uint64_t replay_from = 0;                       // of the journal; 0: the file has it all
  std::uint64_t archived_from = UINT64_MAX;            // archives made since are read from the journal as well
  std::uint64_t known_to = 0;  // the file held everything up to here: if it is gone with sessions, that is damage
  FolderGone folder_gone = FolderGone::rebuild;
  Generations generations{};
  BooksOnDisk books{};                               // that must be there
  const std::set<std::string, std::less<>>& staged;  // LedgerEnv::staged_before
};

// The result of loading an agent.
struct Loaded {
  std::shared_ptr<decide::AgentState> state;
  std::shared_ptr<sessions::SessionsFile> file;
  std::shared_ptr<BookLogs> logs;
  std::vector<std::string> repairs;
  std::vector<lock::Eviction> evictions;
  std::optional<sessions::ForeignChange> foreign;  // to be merged before the file is written
  bool exists = false;                             // its folder, on disk
  std::vector<MissingTranscript> missing{};        // the first 20
};

// `degraded`, says that the folder of an agent with sessions is gone or empty, and what can be done.
std::unexpected<Problem> folder_is_gone(const std::filesystem::path& dir);
// How long a store that is not whole is waited for.
sessions::Patience store_patience(const config::Config& config);
sessions::SessionsFile::Options store_options(const config::Config& config, const Paths& paths,
                                              const std::string& agent);
// While `adopting`, the content of a store that is seen for the first time is no foreign change.
Result<Loaded> load_store(const config::Config& config, const Paths& paths, const journal::Journal& journal,
                          bool adopting, const std::string& agent, LoadRequest request);
// Finds the files of some session ids by one listing of the folder.
// `beside`: the folder of the folders beside it, logs and changes; empty: they are not looked at.
Result<decide::FetchedIds> files_of_ids(const std::filesystem::path& dir, const std::vector<std::string>& ids,
                                        const std::filesystem::path& beside = {});

}  // namespace sessiond::ledger

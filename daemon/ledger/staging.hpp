// The facts for a commit that brings a transcript with it (transcripts/staged.hpp): the staged file, and what is known
// of the session ids in the agent's folder. Thread: the loop.
//   CO_TRY(auto staged, co_await stage(ledger, "main", "s1.jsonl", [](transcripts::StagedTranscript& to) { … }));
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/ledger/ledger.hpp"
#include "transcripts/staged.hpp"

namespace sessiond::ledger {

// Runs `write`, and makes what it added durable. `file`: the name of the transcript. write_staged() blocks; stage()
// does it on a disk thread.
using WriteStaged = std::function<Result<void>(transcripts::StagedTranscript&)>;
Result<transcripts::StagedTranscript> write_staged(const Paths& paths, const std::string& agent,
                                                   const std::string& file, const WriteStaged& write);
asio::awaitable<Result<transcripts::StagedTranscript>> stage(Ledger& ledger, std::string agent, std::string file,
                                                             WriteStaged write);

// Finds the files of some session ids by one look at the agent's folder, for decide::ImportSession.
asio::awaitable<Result<decide::FetchedIds>> files_of(Ledger& ledger, std::string agent, std::vector<std::string> ids);

// Answers the ids among these that a loaded agent has, once what it is made of is durable. `asked` picks the agents.
asio::awaitable<Result<std::vector<std::string>>> ids_in_memory(
    Ledger& ledger, const std::vector<std::string>& ids, const std::function<bool(const std::string& agent)>& asked);

// Returns a decide that has staged files stay once a decision takes them. Else they go with `staged`: the decision
// refused them, or did nothing.
using StagedFiles = std::shared_ptr<std::vector<transcripts::StagedTranscript>>;
Decide keeping(StagedFiles staged, Decide decide);

}  // namespace sessiond::ledger

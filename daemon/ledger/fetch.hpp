// Reads from disk the facts that a decision asks for and that are not in memory. Thread: the loop.
#pragma once

#include <string>
#include <vector>

#include "daemon/decide/decision.hpp"
#include "daemon/ledger/parts.hpp"
#include "transcripts/mend.hpp"

namespace sessiond::ledger {

// Puts what `need` asks for into `lines`, `ids`, `kept` or the agent's state. The state may change meanwhile: the
// caller decides again, and may then need another fact.
asio::awaitable<Result<void>> fetch(LedgerParts& parts, const std::string& agent, const decide::Need& need,
                                    decide::FetchedLines& lines, decide::FetchedIds& ids, decide::FetchedKept& kept);

// Finds the files of some session ids of an agent. All that was committed is durable: renames are done first.
asio::awaitable<Result<decide::FetchedIds>> fetch_ids(const LedgerEnv& env, TranscriptFlusher& flusher,
                                                      std::string agent, std::vector<std::string> ids);

// Ends the last line of a transcript before a line is written behind it, when all lines of the journal are in the file:
// a torn line is not one of ours then. In shared mode the caller has the transcript's lock.
asio::awaitable<Result<void>> mend_transcript(LedgerParts& parts, std::string agent, std::string file,
                                              transcripts::TornLine torn);

}  // namespace sessiond::ledger

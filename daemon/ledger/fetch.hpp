// Reads from disk the facts that a decision asks for and that are not in memory. Thread: the loop.
#pragma once

#include <string>

#include "daemon/decide/decision.hpp"
#include "daemon/ledger/parts.hpp"

namespace sessiond::ledger {

// Puts what `need` asks for into `lines`, `ids` or the agent's state. The state may change meanwhile: the caller
// decides again, and may then need another fact.
asio::awaitable<Result<void>> fetch(LedgerParts& parts, const std::string& agent, const decide::Need& need,
                                    decide::FetchedLines& lines, decide::FetchedIds& ids);

}  // namespace sessiond::ledger

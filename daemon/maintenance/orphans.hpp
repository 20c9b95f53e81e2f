// Makes sessions of orphans (stock.hpp). Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "daemon/ledger/ledger.hpp"
#include "daemon/maintenance/stock.hpp"

namespace sessiond::maintenance {

// Makes a session of each orphan and returns those of which it made one. What can be told of the session is read from
// its transcript: its times, its name, its number of entries and the first message of a user. The others belong to a
// session by now, or to one with the key that they would get. Errors: those of Ledger::read_transcript and
// Ledger::commit; what was adopted before stays so.
asio::awaitable<Result<std::vector<Orphan>>> adopt(ledger::Ledger& ledger, std::string actor, std::string agent,
                                                   std::vector<Orphan> orphans);

}  // namespace sessiond::maintenance

// Makes sessions of orphans (stock.hpp). Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "daemon/ledger/ledger.hpp"
#include "daemon/maintenance/stock.hpp"

namespace sessiond::maintenance {

// The outcome of adopt(). An orphan in neither list has a session by now.
struct Adopted {
  std::vector<Orphan> orphans{};  // of which sessions were made
  struct Failed {
    std::string session_id, detail;
  };
  std::vector<Failed> failed{};
};

// Makes a session of each orphan. Its times, its name, its number of entries and the first message of a user are read
// from the transcript; a time before 1970 or after now is none, and the file's time counts instead. An orphan that
// cannot be adopted is named in `failed`, and the others are adopted. Errors: draining, and those of
// TranscriptFlusher::take_as_known.
asio::awaitable<Result<Adopted>> adopt(ledger::Ledger& ledger, std::string actor, std::string agent,
                                       std::vector<Orphan> orphans);

}  // namespace sessiond::maintenance

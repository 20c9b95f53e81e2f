// The stock of an agent: its sessions, the archives of sessions that ended, and its orphans. An orphan is a
// transcript in the agent's folder that belongs to no session: a foreign program wrote it, or sessions.json was lost.
//
// Read from the state first and from the folder then, with other requests between: what is committed meanwhile may be
// missing. A command that acts on it checks again (daemon/decide/decide_maintenance.cpp). Files that do not have the
// name of a transcript or an archive, and whatever is no regular file, are never in it. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/decide/protection.hpp"
#include "daemon/ledger/ledger.hpp"

namespace sessiond::maintenance {

struct StockedSession {
  std::string key, session_id;
  std::string file;  // its transcript
  std::int64_t last_interaction = 0;
  std::uint64_t last_seq = 0;  // Session::last_seq, updated_at
  std::int64_t updated_at = 0;
  std::string_view protected_by{};  // decide::Protection::keeps; empty: nothing
  std::uint64_t bytes = 0;          // of its transcripts and its log
};
// The archives of one event, and the entry beside them.
struct StockedArchive {
  std::string key, session_id;  // the key is empty if no record names it
  std::string ending;           // of their names
  std::int64_t ended = 0;
  std::vector<std::string> files{};
  std::string entry_as{};  // the file with the entry; empty: none
  std::uint64_t bytes = 0;
};
// The transcripts of one session id.
struct Orphan {
  std::string session_id;
  std::vector<std::string> files{};  // its own first, then those of topics
  std::int64_t written = 0;          // the last write to any of them
  std::uint64_t bytes = 0;
};
struct Stock {
  std::vector<StockedSession> sessions{};
  std::vector<StockedArchive> archives{};
  std::vector<Orphan> orphans{};
  std::uint64_t store_bytes = 0;  // of sessions.json
};

// Errors: those of Ledger::show. `protection` outlives the call.
asio::awaitable<Result<Stock>> take_stock(ledger::Ledger& ledger, std::string agent,
                                          const decide::Protection& protection);

}  // namespace sessiond::maintenance

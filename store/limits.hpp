// The limits on what a client can make the daemon store or compute, in one table. Limits that operators may want to
// change are configuration keys instead (`limits.*`, `session.spawn.*`, `idempotency.*`: config/config.hpp).
//
// Every loop on the network thread over data of a client ends at one of these limits, or at a key
// of `limits.*`, whose upper bound keeps it short too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sessiond::limits {

// --- what is stored ---
// An entry of sessions.json, without the fields that the daemon keeps itself (rev, times, counters, previousSessions).
// A larger entry that a foreign program wrote is served, and may be made smaller.
inline constexpr std::size_t entry_members = 1'000;       // at the top level
inline constexpr std::size_t entry_all_members = 20'000;  // of objects at all depths
inline constexpr std::size_t entry_bytes = 1 << 20;       // as stored: without whitespace
inline constexpr std::size_t previous_sessions = 50;      // in the list of an entry's earlier session ids
inline constexpr std::size_t previous_bytes = 256 << 10;  // of that list; the oldest ids are dropped
inline constexpr std::size_t topics = 1'000;              // of one session; more that foreign programs made are served
inline constexpr std::size_t log_history = 200;           // messages in historyStructure of a line of a log
inline constexpr std::size_t archive_names = 100;         // listed in one reset or deletion; more are only counted
inline constexpr std::size_t policy_rules = 1'000;        // of the send policy
inline constexpr std::size_t policy_bytes = 256 << 10;    // of its JSON
inline constexpr std::size_t token_agents = 1'000;        // that one token may name

// --- what one request may ask for ---
inline constexpr std::size_t page_bytes = 1 << 20;  // of a page of a list, of messages or of events, plus one item
inline constexpr std::size_t media_page_bytes = 16 << 20;  // of a page with media=inline, plus one entry
inline constexpr std::size_t inline_bytes = 64 << 20;      // of the media that one entry or view shows
inline constexpr std::size_t signature_bytes = 16 << 20;   // of messages whose signatures are kept for running runs
inline constexpr std::size_t listed_names = 64;            // in ?fields= and ?types=
inline constexpr std::size_t listed_bytes = 4 << 10;       // of such a parameter
inline constexpr std::size_t command_members = 1'000;      // of a command's object
inline constexpr std::size_t if_match_tags = 64;           // in one If-Match
inline constexpr std::size_t message_entries = 1'000;      // in one POST of messages
inline constexpr std::size_t evaluated_cases = 1'000;      // of POST /v1/policy/evaluate
inline constexpr std::size_t evaluated_rules = 100'000;    // rules times cases
inline constexpr std::size_t traced_rules = 2'000;         // rules times cases when a trace is asked for
inline constexpr std::size_t list_read = 4 << 20;    // bytes of entries read for one page of a list, plus one entry
inline constexpr std::size_t view_bytes = 64 << 20;  // of entries read for one view=llm
inline constexpr std::size_t list_scan = 50'000;     // sessions examined for one page of a list

// --- what one answer may tell ---
inline constexpr std::size_t noticed = 1'000;         // sessions and files that one retention.notice names
inline constexpr std::size_t maintained = 10'000;     // sessions that one maintenance names; more are only counted
inline constexpr std::size_t faults = 20;             // in the `errors` of a problem; more are only counted
inline constexpr std::size_t fault_bytes = 512;       // of each of their texts
inline constexpr std::size_t detail_bytes = 2 << 10;  // of a problem's `detail`
inline constexpr std::size_t repairs_told = 100;      // kept for /readyz and doctor; more are only logged
inline constexpr std::size_t agents_told = 100;       // in a list of /readyz

// --- how much of one request the network thread does before it serves others ---
inline constexpr std::size_t slice_sessions = 1'000;   // examined
inline constexpr std::size_t slice_bytes = 1 << 20;    // of entries read for the send policy
inline constexpr std::size_t slice_rules = 5'000;      // of the send policy evaluated
inline constexpr std::size_t checked_here = 64 << 10;  // bytes; the JSON of a longer body is checked on a disk thread

}  // namespace sessiond::limits

// The bounds of what a client can make the daemon hold or do, in one table. A bound that operators may want to change
// is a key of the configuration instead (`limits.*`, `session.spawn.*`, `idempotency.*`: config/config.hpp).
//
// Each loop on the network thread over something that a client sent, stored or asked for ends at one of these.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sessiond::limits {

// --- what is stored ---
// An entry of sessions.json, without the fields that the daemon keeps itself (rev, times, counters, previousSessions).
// A larger one that another program wrote is served, and may shrink.
inline constexpr std::size_t entry_members = 1'000;       // at the top level
inline constexpr std::size_t entry_all_members = 20'000;  // of objects at all depths
inline constexpr std::size_t entry_bytes = 1 << 20;       // as stored: without whitespace
inline constexpr std::size_t previous_sessions = 50;      // session ids that an entry remembers for S/history
inline constexpr std::size_t previous_bytes = 256 << 10;  // and bytes of that list; the oldest leave it
inline constexpr std::size_t topics = 1'000;              // of one session; further ones of other programs are served
inline constexpr std::size_t archive_names = 100;         // told of one reset or deletion; further ones are counted
inline constexpr std::size_t policy_rules = 1'000;        // of the send policy
inline constexpr std::size_t policy_bytes = 256 << 10;    // of its JSON
inline constexpr std::size_t token_agents = 1'000;        // that one token may name

// --- what one request may ask for ---
inline constexpr std::size_t page_bytes = 1 << 20;       // of a page of a list, of messages or of events; one item more
inline constexpr std::size_t listed_names = 64;          // in ?fields= and ?types=
inline constexpr std::size_t listed_bytes = 4 << 10;     // of such a parameter
inline constexpr std::size_t command_members = 1'000;    // of the object that a command is
inline constexpr std::size_t if_match_tags = 64;         // in one If-Match
inline constexpr std::size_t message_entries = 1'000;    // in one POST of messages
inline constexpr std::size_t evaluated_cases = 1'000;    // of POST /v1/policy/evaluate
inline constexpr std::size_t evaluated_rules = 100'000;  // rules times cases
inline constexpr std::size_t traced_rules = 2'000;       // rules times cases when a trace is asked for
inline constexpr std::size_t list_read = 4 << 20;        // bytes of entries read for one page of a list; one entry more
inline constexpr std::size_t list_scan = 50'000;         // sessions looked at for one page of a list

// --- what one answer may tell ---
inline constexpr std::size_t faults = 20;             // in the `errors` of a problem; further ones are counted
inline constexpr std::size_t fault_bytes = 512;       // of each of their texts
inline constexpr std::size_t detail_bytes = 2 << 10;  // of a problem's `detail`
inline constexpr std::size_t repairs_told = 100;      // kept for /readyz and doctor; further ones are only logged

// --- how long the network thread stays with one request before others get their turn ---
inline constexpr std::size_t slice_sessions = 1'000;   // looked at
inline constexpr std::size_t slice_bytes = 1 << 20;    // of entries read for the send policy
inline constexpr std::size_t slice_rules = 5'000;      // of the send policy evaluated
inline constexpr std::size_t checked_here = 64 << 10;  // a longer body is checked to be JSON on a disk thread

}  // namespace sessiond::limits

// Checks what a client writes into an entry: values of known fields, and of the members of origin and cliSessionIds,
// must have their type, read-only fields are refused, unknown fields are accepted. Delivery fields are checked and
// completed by normalize_patch (store/delivery/delivery.hpp).
#pragma once

#include <string_view>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::policy {

enum class Import : bool {
  no,   // PATCH, POST, spawn: read-only fields are refused
  yes,  // PUT: sessionId, times and counters may be set, and a known field may be null, as it may be in a store
};

// Fails with every fault of an edit (validation_failed). Pointers begin with `pointer_prefix`: "" for a PATCH body,
// "/entry" for POST. rev, key, agent, ephemeral, durable, paths and slug are always refused: where a client sends a
// whole Session back, remove them with take_identity first. So are the fields that the daemon keeps of runs (status,
// activeRun, runCount, turnCount, allowedTools); for a PUT, use drop_unchanged_run_fields first. `faults`: those found
// already.
Result<void> check_entry_edit(const json::Edit& edit, Import import, std::string_view pointer_prefix,
                              std::vector<Fault> faults = {});

// For a PUT that sends back a Session as GET returned it: removes from the edit the fields of runs that have the value
// of the entry `before` ({} for a new session). The entry keeps them.
void drop_unchanged_run_fields(json::Edit& edit, std::string_view before);

// Replaces values by the spelling that is stored: chatType dm becomes direct. For an edit that check_entry_edit
// accepted.
void normalize_entry_edit(json::Edit& edit);

// For a PUT that sends back a Session as GET returned it: removes key, agent, rev, asOf and what else is never written
// from the edit. key and agent of another session are refused (validation_failed, agent_mismatch). rev is ignored:
// If-Match checks it.
Result<void> take_identity(json::Edit& edit, std::string_view key, std::string_view agent,
                           std::string_view pointer_prefix);

bool read_only(std::string_view field);
// Tells whether even an import cannot set the field: the daemon keeps it by itself.
bool never_imported(std::string_view field);

}  // namespace sessiond::policy

// What a client may write into an entry (API §3): known enums and types are checked, read-only fields refused, unknown
// fields pass untouched. Delivery fields are checked by normalize_patch (store/delivery/delivery.hpp), which completes
// them too.
#pragma once

#include <string_view>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond {

enum class Import : bool {
  no,   // PATCH, POST, spawn: read-only fields are refused
  yes,  // PUT: sessionId, times and counters may be set, and null may stand for a known field as stores have it
};

// Every fault of an edit as validation_failed, pointers below `pointer_prefix` ("" for a PATCH body, "/entry" for
// POST). rev, key and agent are always refused: take them out with take_identity first where a whole Session is sent
// back.
Result<void> check_entry_edit(const json::Edit& edit, Import import, std::string_view pointer_prefix);

// Spells what has several spellings in the one we store: chatType dm -> direct. For an edit that check_entry_edit has
// passed.
void normalize_entry_edit(json::Edit& edit);

// PUT of a Session as GET gave it: takes key, agent, rev and asOf out of the edit. Names of another session are refused
// (agent_mismatch, validation_failed); rev is If-Match's business and dropped.
Result<void> take_identity(json::Edit& edit, std::string_view key, std::string_view agent,
                           std::string_view pointer_prefix);

bool read_only(std::string_view field);

}  // namespace sessiond

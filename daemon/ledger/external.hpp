// What another program wrote into sessions.json, as events (FORMATS §2 "Merge").
#pragma once

#include "daemon/ledger/decision.hpp"
#include "store/sessions_file.hpp"

namespace sessiond {

// Created, updated and deleted sessions with source "external", and one store.external_change that tells subscribers to
// look again. A deletion stands unless we hold an unwritten change of the entry; what both changed is merged field by
// field.
// `at_load`: the state is the store as we left it, but for what was deleted.
Decision decide_external(const AgentState& state, const ForeignChange& change, const Context& context, bool at_load);

}  // namespace sessiond

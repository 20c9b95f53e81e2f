// The size of a model's window, and the model.
#pragma once

#include <optional>
#include <string_view>

#include "policy/context/entry.hpp"
#include "policy/context/settings.hpp"

namespace sessiond::context {

// Returns the window of a session, by its entry (JSON): its contextTokens, else that of its model in context.windows,
// else context.window. A window that the request gives counts before all of them.
Window window_of(std::string_view entry, const Settings& settings, std::optional<std::int64_t> asked = {});
// The same where contextTokens of the entry is known already; 0: it has none.
Window window_of(std::int64_t own, std::string_view entry, const Settings& settings);

// Returns whether a model has refused a transcript since it was longer than its window: `contextExceeded` of the
// session's entry names it (transcripts/origins.hpp).
bool is_exceeded(std::string_view entry, std::string_view transcript);

// Tells whether a JSON value may be the name of a model or a provider: a string that is neither empty nor long.
bool is_name(std::string_view value);

// Tells whether a reply says which model wrote it. One whose usage is all zeros was not written by a model.
bool tells_model(const Entry& reply);

}  // namespace sessiond::context

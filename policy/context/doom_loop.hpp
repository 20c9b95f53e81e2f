// Notices a model that calls a tool again and again with the same arguments. Calls are identical if the tool and the
// value of the arguments are: the order of members and the spelling of numbers do not matter. What the model says
// between them, and the results, do not matter either; another call or a person's message begins anew.
#pragma once

#include <optional>
#include <string>

#include "policy/context/meter.hpp"

namespace sessiond::context {

// Counts a call. Returns a warning when it is the `every`th identical one, or a multiple of that. every < 1: never.
std::optional<DoomLoop> repeat(Repeated& repeated, const ToolCall& call, std::int64_t every);

// The text of the warning that the model is shown.
std::string warning_of(const DoomLoop& loop);

}  // namespace sessiond::context

// Shortens old, long results of tools when the window fills up: first to their beginning and end (soft), then to a
// notice (hard). Results behind the third-last message of the model stay, and so do those of excluded tools.
#pragma once

#include "policy/context/view.hpp"

namespace sessiond::context {

// Prunes rows. `used` is lowered by what was removed.
std::vector<Pruned> prune(Rows& rows, std::int64_t& used, const ViewOptions& options, PruningSettings settings);

// Cuts every result to its first `chars` code points.
void cut_results(Rows& rows, std::int64_t& used, std::int64_t chars);

// Tells whether a pattern in lower case stands for the tool.
bool excludes(std::string_view pattern, std::string_view tool);

}  // namespace sessiond::context

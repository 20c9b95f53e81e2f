// Shortens old, long results of tools when the window fills up: first to their beginning and end (soft), then to a
// notice (hard). Prune::hard and Prune::aggressive also put a notice in the place of old images and files. What
// stands behind the last keepAssistants messages of the model stays, and so do results of excluded tools and what is
// asked.
#pragma once

#include "policy/context/view.hpp"

namespace sessiond::context {

// Prunes rows. `used` is lowered by what was removed.
std::vector<Pruned> prune(Rows& rows, std::int64_t& used, const ViewOptions& options, PruningSettings settings);

// Makes each message shorter that takes more tokens, but for calls and their arguments: of its text the beginning and
// the end stay, notices stand for images and files, and its thinking goes.
void cut_long(Rows& rows, std::int64_t tokens);

// Cuts every result to its first `chars` code points.
void cut_results(Rows& rows, std::int64_t& used, std::int64_t chars);

// Returns whether a pattern in lower case stands for the tool.
bool excludes(std::string_view pattern, std::string_view tool);
// Returns whether the results of a tool stay.
bool excludes(const PruningSettings& settings, std::string_view tool);

}  // namespace sessiond::context

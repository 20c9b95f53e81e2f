// Holds what a model is shown within a number of bytes, since providers refuse a request that is longer, however much
// room the window has. Media count as they are sent, in base64, also those of which the view shows only a handle.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/context/view.hpp"

namespace sessiond::context {

// Returns the bytes of messages.
std::int64_t bytes_of(const std::vector<Row>& rows);

// While there are more than `most` bytes, puts notices in the place of media, then of results of tools, the oldest
// first, in the rows from `first` to before `last`. What a run was asked and results of excluded tools stay. `bytes`
// and `used` are lowered by what is left out.
std::vector<Pruned> keep_within(Rows& rows, std::size_t first, std::size_t last, std::int64_t most, std::int64_t& bytes,
                                std::int64_t& used, const PruningSettings& settings);

}  // namespace sessiond::context

// A message of a model that was imported while its program still wrote it, and is imported again with more parts. A
// transcript only grows, so the new parts become an entry of their own, <id>.2, then <id>.3 and so on. A view shows
// them as one message (policy/context/view.hpp). Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::decide {

// The id of a message's further entry; `number` is 2 or more.
std::string part_id(std::string_view id, std::size_t number);
// Returns whether an entry holds further parts of the message of another one: both are of one response of a model.
// "": there is no such entry.
bool is_part_of(std::string_view part, std::string_view first);

// Returns the entry `id` with the parts of a message that `stored` does not have, the entries of it that are there.
// Nothing: it has no further parts, or is not of the same response. It counts no tokens: the first entry has those of
// the response.
std::optional<std::string> further_part(std::string_view message, const std::vector<std::string_view>& stored,
                                        std::string_view id, std::string_view parent);

}  // namespace sessiond::decide

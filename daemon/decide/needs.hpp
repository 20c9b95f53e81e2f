// Keeps which messages of a session wait for an answer. The entry's member `needs` names them, so a list of sessions
// reads no transcript: [{"seq","topic","since"}], at most one for the main conversation and each topic. It is the first
// activated message after which no answer came: no assistant's entry with a text that was not interrupted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::decide {

// Returns the list with this message; the same list if one of its topic waits already. `needs` is raw, empty: no list.
std::string with_need(std::string_view needs, const std::optional<std::string>& topic, std::uint64_t seq,
                      std::int64_t since);
// Returns the list without what waits in a topic; empty if nothing waits any more.
std::string without_need(std::string_view needs, const std::optional<std::string>& topic);
// The deletion of a message.
struct NeedsChange {
  std::optional<std::string> topic{};
  std::uint64_t deleted = 0;
  std::optional<std::uint64_t> next{};  // the message that waits then; nothing: none is known
};
// Returns the list after it; the same list if it does not have the message.
std::string after_deletion(std::string_view needs, const NeedsChange& change, std::int64_t since);

}  // namespace sessiond::decide

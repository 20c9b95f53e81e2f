// A message by the id that its chat platform gave it. Such an id is unique in a conversation: an agent, a channel, an
// account (none is one of its own) and a peer.
//
// The ledger keeps an answer under this name, as long as the journal (store/answers/kept_answers.hpp). It is the answer
// to a message that comes a second time, and says where the message is, so that it can be found, edited and deleted.
// What a bridge receives is named by its request (ledger::Requester); a decision names messages that went out
// (Decision::named).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::decide {

// The name as one text: two texts are the same if the messages are. `channel` and `account` in any case.
std::string platform_name(std::string_view agent, std::string_view channel, std::string_view account,
                          std::string_view peer, std::string_view id);

// Where a message is.
struct MessagePlace {
  std::string key{}, session_id{};
  std::optional<std::string> topic{};
  std::string entry_id{};
  std::uint64_t seq = 0;
};
// Reads it from an answer. Nothing: no message was stored, as of a command alone.
std::optional<MessagePlace> read_place(std::string_view answer);
// The answer that names a message which went out, and nothing more.
std::string place_json(const MessagePlace& place);

}  // namespace sessiond::decide

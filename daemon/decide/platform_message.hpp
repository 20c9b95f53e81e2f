// A message by the id that its chat platform gave it. Such an id is unique in a conversation: an agent, a channel, an
// account (none is one of its own) and a peer; but where a platform names messages by their time, two authors may have
// said something under one id.
//
// The ledger keeps an answer under this name, as long as the journal (store/answers/kept_answers.hpp). It is the answer
// to a message that comes a second time, and says where the message is, so that it can be found, edited and deleted.
// What a bridge receives is named by its request (ledger::Requester); a decision names messages that went out
// (Decision::named). The name tells neither the chat's type nor its thread: daemon/ledger/known_messages.hpp keeps
// apart what belongs to different sessions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::decide {

// The name as one text: two texts are the same if the messages are. `channel` and `account` in any case.
std::string platform_name(std::string_view agent, std::string_view channel, std::string_view account,
                          std::string_view peer, std::string_view id);

// The name of another message under that name, which this author said.
std::string name_by(std::string_view name, std::string_view author);

// The place of a message.
struct MessagePlace {
  std::string key{}, session_id{};
  std::optional<std::string> topic{};
  std::string entry_id{};
  std::uint64_t seq = 0;
};
// Reads it from an answer. Nothing: no message was stored, as of a command alone.
std::optional<MessagePlace> read_place(std::string_view answer);
// The answer that names a message which went out, and nothing more. `as_of`: the position of its event, as asOf has it.
std::string place_json(const MessagePlace& place, std::string_view as_of);
// The reply to a request that brings such a message back.
std::string own_message_json(const MessagePlace& place);

// A message that went out, by a name that its platform gave it: it is then found, edited and deleted as those that
// came in.
struct NamedMessage {
  std::string name{};  // platform_name()
  std::string id{};    // that the platform gave it
  MessagePlace place{};
  bool has_echo = false;  // a message came in under the name, and was this one
};
struct Delivery;
MessagePlace place_of(const Delivery& delivery);  // of the message that it sends
// Names a message that was sent: by its id (a raw JSON string; empty: none), and by those of its parts (a raw JSON
// array of strings, or of objects with platformMessageId; empty: none).
std::vector<NamedMessage> sent_names(std::string_view agent, const Delivery& delivery, std::string_view id,
                                     std::string_view parts);

}  // namespace sessiond::decide

// Finds what was answered to a message that its platform has named (daemon/decide/platform_message.hpp).
//
// A token that may not see the session of that answer gets it not. It has a name of its own for the message, so to such
// a token nothing was ever said. Thread: the loop. May read the disk, as for an Idempotency-Key.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/ledger/parts.hpp"

namespace sessiond::ledger {

// The name under which a requester asks for a message. Empty: for none.
struct MessageName {
  std::string name{};  // decide::platform_name
  std::string actor{};
  std::function<bool(std::string_view answer)> sees{};  // tells whether the requester may see an answer
};

struct KnownMessage {
  answers::Digest scope{};                  // under which the answer is kept, or is to be kept
  std::optional<answers::Answer> answer{};  // durable; nothing: there is none
};
KnownMessage known_message(const LedgerParts& parts, const MessageName& wanted);

// Finds where such a message is. Nothing: none is known, or the requester may not see what was answered to it.
std::optional<decide::MessagePlace> find_message(const LedgerParts& parts, const MessageName& wanted);

// Under what an answer is kept.
struct KeptUnder {
  std::vector<answers::Digest> scopes{};  // of the Idempotency-Key; an answer is looked for under the first
  answers::Digest request{};
  std::optional<answers::Digest> message{};  // as its platform has named it
};

// Makes the answers to keep: the same one under each scope, and those that name messages.
std::vector<answers::Answer> answers_of(const KeptUnder& under, const decide::Decision& decision,
                                        const journal::AgeClock& clock);

}  // namespace sessiond::ledger

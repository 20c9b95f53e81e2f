// Finds what was answered to a message that its platform has named (daemon/decide/platform_message.hpp).
//
// The platform's name says neither the chat's type nor its thread, so it may stand for messages of several sessions,
// and a token that is limited to one of them may be the first to use it. An answer is therefore kept under one of three
// scopes: the shared one, as long as no other session has it, else that of the session and that of the token. A message
// is a duplicate only of one that belongs to the same session. Messages that went out have the same scopes, and never
// replace one that is there.
// Thread: the loop. May read the disk, as for an Idempotency-Key.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "daemon/ledger/parts.hpp"

namespace sessiond::ledger {

// The scopes of requests and messages that are being committed. Takes its own out when the commit ends, however it
// ends.
class InFlight {
 public:
  using Table = std::unordered_set<std::string>;

  explicit InFlight(Table& table) : table_(table) {}
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight();

  bool has(const answers::Digest& scope) const;  // of any commit
  void add(const answers::Digest& scope);

 private:
  Table& table_;
  std::vector<std::string> own_{};
};

// A message that a requester brings.
struct MessageName {
  std::string name{};       // decide::platform_name; empty: it has none
  std::string key{};        // of the session that the message belongs to
  std::string other_key{};  // of one that may have had the same conversation; empty: none
  std::string actor{};      // token id
  bool addresses = false;  // it addresses the agent: one that came before without that, and began no run, may begin one
};
struct KnownMessage {
  std::optional<answers::Answer> answer{};  // durable; nothing: the message is new
  bool own = false;                         // it is a message of the agent, which went out
  bool is_open = false;                     // it addressed nobody, and does now: the answer is made again
  std::vector<answers::Digest> scopes{};    // under which its answer is to be kept
};
// idempotency_in_flight when the same message is being committed. Marks the scopes of a new one as in flight.
Result<KnownMessage> known_message(const LedgerParts& parts, const MessageName& wanted, InFlight& in_flight);

// Finds a message that came into the session `key`, behind the event `after`, under a name which a message that went
// out gets now.
std::optional<decide::MessagePlace> find_echo(const LedgerParts& parts, const std::string& name, std::string_view key,
                                              std::uint64_t after);

// A message that a requester looks for by its platform's name.
struct MessageSearch {
  std::string name{};
  std::vector<std::string> keys{};  // of sessions that may have it
  std::string actor{};
  std::function<bool(std::string_view answer)> sees{};  // tells whether the requester may see an answer
};
// Finds where such a message is: one of the requester's own, else another that it may see. Nothing: there is none.
std::optional<decide::MessagePlace> find_message(const LedgerParts& parts, const MessageSearch& wanted);

// Under what an answer is kept.
struct KeptUnder {
  std::vector<answers::Digest> scopes{};  // of the Idempotency-Key; an answer is looked for under the first
  answers::Digest request{};
  std::vector<answers::Digest> message{};                       // as its platform has named it
  std::vector<std::pair<answers::Digest, std::string>> sent{};  // messages that went out, each with its answer
};

// Returns whether a message with one of the names that a decision gives is being committed: it may be an echo of what
// went out, and is then found when its commit is over.
bool are_coming_in(const decide::Decision& decision, const InFlight& in_flight);

// Adds the messages that a decision names, and marks their scopes as in flight.
void keep_sent(const LedgerParts& parts, const decide::Decision& decision, const std::string& actor, KeptUnder& under,
               InFlight& in_flight);

// Makes the answers to keep: the same one under each scope, and those that name messages.
std::vector<answers::Answer> answers_of(const KeptUnder& under, const decide::Decision& decision,
                                        const journal::AgeClock& clock);

}  // namespace sessiond::ledger

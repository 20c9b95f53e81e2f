// Finds what was answered to a message that its platform has named (daemon/decide/platform_message.hpp).
//
// The platform's name says neither the chat's type nor its thread, so it may stand for messages of several sessions,
// and a token that is limited to one of them may be the first to use it. An answer is therefore kept under one of three
// scopes: the shared one, as long as no other session has it, else that of the session and that of the token. A message
// is a duplicate only of one that belongs to the same session. Messages that went out have the same scopes, and never
// replace one that is there.
//
// Some platforms name a message by its time, so two people may say something under one name. What comes from another
// person than the first message, and says something else, is another message: it is kept under its author's name
// (decide::name_by). The answer to the first message tells their authors, in its headers:
//   {"from":"U1","said":"<words_mark>","others":["U2"]}
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
  using Table = std::unordered_multiset<std::string>;

  explicit InFlight(Table& table) : table_(table) {}
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight();

  bool has(const answers::Digest& scope) const;  // of any commit
  void add(const answers::Digest& scope);
  // The same for the names of messages, in whichever session they belong.
  bool has_name(const std::string& name) const;
  void add_name(const std::string& name);

 private:
  Table& table_;
  std::vector<std::string> own_{};
};

// A message that a requester brings, or edits.
struct MessageName {
  std::string name{};       // decide::platform_name; empty: it has none
  std::string key{};        // of the session that the message belongs to
  std::string other_key{};  // of one that may have had the same conversation; empty: none
  std::string actor{};      // token id
  bool addresses = false;  // it addresses the agent: one that came before without that, and began no run, may begin one
  bool is_edit = false;    // it came before, and the request is not about its first telling
  std::string author{};    // the id of who says it; empty: it is not known as an id
  std::string said{};      // words_mark
};
// Stands for what a message says, to find out whether another one says the same: lengths and checksums.
std::string words_mark(std::string_view text, std::string_view content, std::string_view attachments);

struct KnownMessage {
  std::optional<answers::Answer> answer{};  // durable; nothing: the message is new
  bool own = false;                         // it is a message of the agent, which went out
  bool is_open = false;                     // it addressed nobody, and does now: the answer is made again
  std::vector<answers::Digest> scopes{};    // under which its answer is to be kept
  std::string headers{};                    // of this answer
  std::optional<answers::Answer> first{};  // to the first message of the name, if this is another: it tells of this one
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
  std::function<bool(std::string_view answer)> sees{};  // returns whether the requester may see an answer
  std::string author{};                                 // the id of who said it; empty: anybody
};
struct FoundMessage {
  std::optional<decide::MessagePlace> place{};  // nothing: it was not stored, as a command alone
  std::string name{};                           // under which it is kept
  std::string deleted{};                        // the answer to it, if it was deleted before it came; empty: it was not
};
// Finds where such a message is: one of the requester's own, else another that it may see. Several if several people
// said something under this name in one session, the first one first.
std::vector<FoundMessage> find_messages(const LedgerParts& parts, const MessageSearch& wanted);

// Under what an answer is kept.
struct KeptUnder {
  std::vector<answers::Digest> scopes{};  // of the Idempotency-Key; an answer is looked for under the first
  answers::Digest request{};
  std::vector<answers::Digest> message{};                       // as its platform has named it
  std::string message_headers{};                                // of the answers under these
  std::optional<answers::Answer> first_message{};               // KnownMessage::first
  bool is_edit = false;                                         // the answer is not that of the message
  std::vector<std::pair<answers::Digest, std::string>> sent{};  // messages that went out, each with its answer
};

// Returns whether a message with one of the names that a decision gives is being committed: it may be an echo of what
// went out, and is then found when its commit is over.
bool are_coming_in(const decide::Decision& decision, const InFlight& in_flight);

// Adds the messages that a decision names, and marks their scopes as in flight.
void keep_sent(const LedgerParts& parts, const decide::Decision& decision, const std::string& actor, KeptUnder& under,
               InFlight& in_flight);

// Returns whether an answer tells of a session that was purged since, and whose id another one has by now. As long as
// none has it, the answer stands: the request, or the message, may come again. The agent has to be loaded.
bool is_of_purged(const LedgerParts& parts, std::string_view agent, const answers::Answer& answer);

// Makes the answers to keep: the same one under each scope, and those that name messages.
std::vector<answers::Answer> answers_of(const KeptUnder& under, const decide::Decision& decision,
                                        const journal::AgeClock& clock);

}  // namespace sessiond::ledger

// The commands: what a client asks of one agent, already parsed and typed. `decide` says what follows from each, or why
// not (API §§3–5).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/decide/append.hpp"
#include "daemon/decide/decision.hpp"
#include "policy/entry_rules.hpp"

namespace sessiond {

// Which session, by key, dm alias or session id, and in which version (If-Match; empty: any).
struct Target {
  std::string key{};
  std::vector<std::string> if_match{};  // any of these versions (r17; "*": must exist); empty: whatever it is
};

// Which sessions whoever asks may name; empty: all.
using Sees = std::function<bool(const Session&)>;

struct CreateSession {
  std::string key{};  // empty: made from the session id
  std::string session_id{};
  bool timestamp_id = false;
  bool reuse = false;      // ifExists: an existing one is the answer, else session_exists
  bool ephemeral = false;  // purged when the daemon starts next
  json::Edit entry{};
  Sees sees{};
};
struct PutSession {
  Target target{};
  json::Edit entry{};  // the whole entry
  Sees sees{};         // empty: also spawnedBy and spawnDepth may be set anew
};
struct PatchSession {
  Target target{};
  std::string patch{};  // RFC 7396, an object
};
struct DeleteSession {
  Target target{};
  bool purge = false;
  bool missing_ok = false;
};
struct ResetSession {
  Target target{};
  std::string reason = "api";
  bool keep_metadata = true;
};
struct ArchiveSession {
  Target target{};
  bool archived = true;
};
struct SpawnSession {
  Target target{};  // the parent
  std::string label{};
  std::string task{};
  json::Edit entry{};
  bool below_parent = false;  // the child's key begins with its parent's, so that who sees only that one sees it too
};
struct DeleteTopic {
  Target target{};
  std::string topic{};
};
struct AppendMessages {
  Target target{};
  AppendRequest append{};
};
struct Inbound {
  std::string channel{}, account_id{}, chat_type{}, peer{}, from{}, surface{}, provider{}, label{}, subject{}, space{},
      group_channel{}, display_name{};
  std::string thread_id{};  // raw JSON: a string or a number; empty: none
  std::optional<std::string> topic{};
  std::optional<std::string> text{};
  std::string content{};      // raw JSON; exclusive with text
  std::string attachments{};  // raw JSON array, kept with the message
  std::string message_id{};
  std::optional<std::int64_t> timestamp{};
  bool mentioned = false;
  std::optional<bool> activate{};
};
struct Outbound {
  Target target{};
  std::optional<std::string> topic{};
  std::optional<std::string> text{};
  std::string content{};
  std::vector<std::string> media_urls{};
  std::string to{};
  std::string message_id{};
  std::string usage{};  // raw JSON object
  std::string model{}, provider{}, stop_reason{};
  bool mirror_only = false;
  std::string instance{}, request_id{};  // for the problem that a denial answers
};

Result<Decision> decide(const AgentState& state, const CreateSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const PutSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const PatchSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const DeleteSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ResetSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ArchiveSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const SpawnSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const DeleteTopic& command, const Context& context);
Result<Decision> decide(const AgentState& state, const AppendMessages& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const Inbound& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const Outbound& command, const Context& context,
                        const FetchedLines& lines);

// Shared by the decisions above.
// The session that a PUT would replace, however its key is spelt; null: it makes a new one.
const Session* put_target(const AgentState& state, const PutSession& command);
// The session of a target, its version checked: session_not_found, precondition_failed.
Result<const Session*> resolve(const AgentState& state, const Target& target);
// A new entry under a key: sessionId, times, then `edit`, which names each field once. Emits session.created.
// validation_failed below `pointer` when it would be larger than an entry may be.
Result<Session> create_session(DecisionBuilder& builder, const std::string& key, const std::string& session_id,
                               json::Edit edit, std::string_view reason, std::string_view pointer = "");
// validation_failed below `pointer` when an entry grows beyond what it may be, or its agent's entries together do.
Result<void> check_entry_growth(const DecisionBuilder& builder, std::string_view before, std::string_view after,
                                std::string_view pointer);
// The successor of a session: archives its transcripts, emits session.reset. Sets builder.out.need when a transcript's
// end is unknown.
struct ArchivedAs {
  std::vector<std::string> told{};  // names of archives
  std::vector<std::string> more{};  // those beyond what a client is told
  std::string members() const;      // "archivedAs":[…] and, where there are more, ,"archivedMore":<count>
};
struct ResetDone {
  std::string previous_session_id;
  ArchivedAs archived{};
};
Result<ResetDone> reset_session(DecisionBuilder& builder, Session& session, std::string_view reason,
                                bool keep_metadata);
// RFC 7396 as an edit of `entry`: only what really changes.
json::Edit merge_patch(std::string_view entry, std::string_view patch);
std::string json_array(const std::vector<std::string>& texts);

}  // namespace sessiond

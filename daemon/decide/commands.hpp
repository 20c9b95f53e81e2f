// The commands: what a client asks of one agent, parsed and typed. `decide` turns a command into a decision (the events
// to commit and the answer, decision.hpp) or into the problem that refuses it. Each `decide` is pure: it changes
// nothing, and reads only its arguments.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/decide/append.hpp"
#include "daemon/decide/decision.hpp"
#include "daemon/decide/protection.hpp"
#include "policy/entry_rules.hpp"
#include "policy/entry_size.hpp"
#include "policy/routing.hpp"
#include "policy/snapshots.hpp"
#include "transcripts/counts.hpp"
#include "transcripts/sums.hpp"
#include "transcripts/tally.hpp"

namespace sessiond::decide {

// Names a session.
struct Target {
  std::string key{};                    // a key, in its own or its dm/direct spelling, or a session id
  std::vector<std::string> if_match{};  // accepted versions (r17; "*": any, but the session must exist); empty: any
};

// Tells whether the requester may see a session. Empty: it may see all.
using Sees = std::function<bool(const Session&)>;

struct CreateSession {
  std::string key{};  // empty: made from the session id
  std::string session_id{};
  bool timestamp_id = false;
  bool reuse = false;  // answer with the session if it exists; otherwise that is session_exists
  json::Edit entry{};
  Sees sees{};
};
struct PutSession {
  Target target{};
  json::Edit entry{};        // the whole entry
  policy::EntrySize size{};  // of `entry`
  Sees sees{};               // empty: spawnedBy and spawnDepth may be set, too
};
struct PatchSession {
  Target target{};
  std::string patch{};       // RFC 7396, an object; but snapshots are replaced whole (policy/snapshots.hpp)
  policy::EntrySize size{};  // of `patch`
  policy::SnapshotMatch snapshot{};
};
struct DeleteSession {
  Target target{};
  bool purge = false;
  bool missing_ok = false;
};
// Takes a session out that maintenance has selected. It stays if any event was about it since then, or if anything
// keeps it by now.
struct PruneSession {
  std::string key{};
  const Protection* protection = nullptr;  // null: none beyond what every session has
  std::uint64_t last_seq = 0;              // Session::last_seq when it was selected
  std::int64_t updated_at = 0;
  std::string reason{};  // age, count or disk
  bool purge = false;    // else its transcripts are archived
};
// An archive as it was read: of what stands behind `size` nothing is known.
struct ReadArchive {
  std::string file{};  // the transcript that it becomes
  std::uint64_t inode = 0, size = 0;
};
// Brings back a session that was reset or deleted, with the transcripts and the entry that its archive record names.
struct RestoreSession {
  std::string key{};
  std::string session_id{};
  std::uint64_t seq = 0;                // of the record; session_not_found if it is not there any more
  std::vector<std::string> archives{};  // all that are there, in order
  std::vector<std::string> topics{};    // of these
  std::string entry_as{};               // the file that keeps the entry; empty: none
  std::string entry{};                  // its content; empty: a new entry is made
  std::string channels{};               // those whose messages are in the archives, with spaces between
  std::uint64_t taken_back = 0;         // AgentState::last_taken_back before these were read
  std::vector<ReadArchive> read{};      // those that could be read
  // What the archives hold, which a foreign program may have written to. Nothing: one of them could not be read.
  std::optional<transcripts::Counts> counts{};
};
// A transcript that was staged for a session (transcripts/staged.hpp), or for one of its topics.
struct StagedFile {
  std::optional<std::string> topic{};
  std::string name{};
};
// Makes a session that another program or another daemon had, with its transcripts. A session that is there stays, and
// the answer is 200 without a session, unless it is to be replaced: then its transcripts are archived. session_exists
// if the id or the key belongs to another session, or to one that the requester does not see.
struct ImportSession {
  std::string key{};  // empty: made from the session id
  std::string session_id{};
  json::Edit entry{};  // the whole entry, as for PutSession, with the counters of the transcripts
  std::vector<StagedFile> files{};
  bool replace = false;
  Sees sees{};                       // as in PutSession
  std::optional<FilesOfId> found{};  // what a look at the folder found; nothing: it is asked for (Need::What::id_files)
  std::optional<std::int64_t> last_prompt{};  // as in EntrySums, of the session's own transcript
};
// An entry of an imported transcript: the line as it is stored, and what is read from it.
struct ImportedLine {
  std::string line{};    // without its '\n'
  std::string id{};      // empty: it has none
  std::string parent{};  // its parentId; empty: it has none
  std::optional<std::int64_t> time{};
  bool person = false;  // a message that a person wrote
  std::optional<policy::TokenUsage> usage{};
  bool compaction = false;
  bool message = false;  // messageCount counts it
};
ImportedLine imported_line(std::string line);
// Appends to an imported session's transcript, as they are, the entries whose ids it does not have. Bytes that are not
// UTF-8 become U+FFFD. A line without an id belongs to the entry before it; the first lines belong to the entry behind
// them.
// A message of a model that has more parts than the stored one, in the same response (grown_message.hpp): these become
// the entry <id>.2, or the next free number, and what is appended behind the message follows that. Where messages stand
// behind it in the transcript, people went on there: neither it nor what comes behind it is appended.
// The answer is {"appended":<number>,"left":<the id of such a message, or null>}. session_exists if the session has
// another id.
struct ContinueTranscript {
  Target target{};
  std::string session_id{};
  std::optional<std::string> topic{};
  std::string header{};  // without its '\n', in case that there is no transcript yet
  std::vector<ImportedLine> lines{};
  bool counts_usage = true;  // adds the tokens of the entries to the session's counters
};
// Makes a session that begins as another one did: with a copy of its transcripts up to a message.
struct ForkSession {
  Target target{};           // the origin
  std::string origin_id{};   // the session id that was copied; session_busy if the origin has another one by now
  std::string key{};         // empty: made from the session id
  std::string session_id{};  // fresh
  std::optional<std::string> name{};
  std::string message_id{};  // the last message that was copied; empty: the transcript was empty
  std::vector<StagedFile> files{};
  std::vector<std::string> copied_from{};  // the session ids in which their messages were first written
  transcripts::EntrySums sums{};           // of these files
  std::uint64_t taken_back = 0;            // AgentState::last_taken_back before they were read
};
// Gives a session another transcript: it is reset with the reason "replace".
struct ReplaceTranscript {
  Target target{};
  std::string origin_id{};         // its session id; session_busy if it has another one by now
  std::uint64_t expected_seq = 0;  // the seq that the next entry would get, else precondition_failed
  std::string session_id{};        // fresh
  StagedFile file{};
  std::vector<std::string> copied_from{};  // the session ids in which its messages were first written
  transcripts::EntrySums sums{};
  std::uint64_t taken_back = 0;  // AgentState::last_taken_back before the messages were compared
};
// Destroys the archives of one event. They stay if they were restored or destroyed since they were selected.
struct DestroyArchive {
  std::string session_id{};
  std::string ending{};                 // of their names: transcripts::archive_ending
  std::vector<std::string> archives{};  // all that are there, in order
  std::string entry_as{};               // the file that keeps the entry; empty: none
  std::string reason{};                 // archive or disk
};
// Archives transcripts that have no session. They stay if a session has them meanwhile.
struct PruneOrphan {
  std::string session_id{};
  std::vector<std::string> files{};  // its own and those of topics, as far as they are there
};
// Makes a session of transcripts that have none. Does nothing if a session has them meanwhile. invalid_id or
// reserved_name if no new session may have the id; session_exists if another session has the key.
struct AdoptOrphan {
  std::string session_id{};
  std::vector<std::string> files{};
  json::Edit entry{};  // from the transcript
};
// The key that an orphan's session gets: agent:<agent>:recovered:<session id>.
Result<std::string> recovered_key(std::string_view agent, std::string_view session_id);

struct ResetSession {
  Target target{};
  std::string reason = "api";
  bool keep_metadata = true;
};
// Empties a session: archives its transcripts, and sets its counters to 0. Its id stays.
struct ClearSession {
  Target target{};
};
// Tells that a person goes on with a session, and what there is to go on with.
struct ResumeSession {
  Target target{};
  std::string session_id{};  // that the transcript was read of; session_busy if it is another one by now
  transcripts::Tally said{};
  bool shows_parent = true;  // the answer has spawnedBy
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
  bool below_parent = false;  // make a key that begins with the parent's: tokens that see the parent then see the child
};
struct DeleteTopic {
  Target target{};
  std::string topic{};
};
// The address that a request names for its message (delivery_steps.hpp). A part that it leaves out is that of the run's
// replyTo or the session has it.
struct DeliverTo {
  std::string to{}, account_id{};
  std::string thread_id{};                // raw JSON: a string or a number; empty: not said
  std::vector<std::string> media_urls{};  // that the message itself does not name
};
struct AppendMessages {
  Target target{};
  AppendRequest append{};
  std::optional<DeliverTo> deliver{};  // nothing: nowhere
};
// Appends the summary of what came before an entry: a compaction (policy/context/compaction.hpp).
struct CompactSession {
  Target target{};
  std::optional<std::string> topic{};
  std::string summary{};
  std::string first_kept{};    // entry id
  std::string instructions{};  // that the summary was made by
  std::string usage{};         // raw JSON object: of the call that made it; empty: none
};
// Tells that a compaction failed. Changes nothing.
struct FailCompaction {
  Target target{};
  std::optional<std::string> topic{};
  std::string error{};  // raw JSON
};
// Appends a result for each call of the last turn that waits for one.
struct RepairSession {
  Target target{};
  std::optional<std::string> topic{};
  bool dry_run = false;
};
// A person on a chat platform.
struct Person {
  std::string id{};     // or the name, if that is all that is known; empty: nobody is named
  std::string json{};   // as given: a string, or {"id","name"?,"username"?}
  bool has_id = false;  // the platform's id is known: an object gives it
  std::string name{}, username{};
  const std::string& shown_name() const { return !name.empty() ? name : !username.empty() ? username : id; }
};

// What a message says, without the trigger that it begins with.
struct InboundWords {
  std::string whole{};                           // its text, with the trigger
  std::string said{};                            // its text
  bool has_trigger = false;                      // of a reset
  bool has_files = false;                        // among the parts of its content
  std::optional<transcripts::NewEntry> entry{};  // nothing: it is a trigger alone
};

struct Inbound {
  std::string channel{}, account_id{}, chat_type{}, peer{}, surface{}, provider{};
  Person from{};
  struct Names {
    std::string label{}, subject{}, space{}, group_channel{}, display_name{};
  };
  Names names{};            // of the chat and the peer
  std::string thread_id{};  // raw JSON: a string or a number; empty: none
  std::optional<std::string> topic{};
  std::optional<std::string> text{};
  std::string content{};      // compact JSON; exclusive with text
  std::string attachments{};  // compact JSON array
  std::string message_id{};   // the platform's
  std::optional<std::int64_t> timestamp{};
  bool mentioned = false;
  bool from_me = false;  // the account that the bridge serves has sent it: the agent, or the account's owner by hand
  std::optional<bool> activate{};
  policy::Route route{};  // the session that the message belongs to: route_of() of the fields above
  std::shared_ptr<const InboundWords> words{};  // words_of() it; null: the decision reads them
};
// Reads the words of a message whose other fields are set; of a long one on a disk thread.
InboundWords words_of(const Inbound& command, const std::vector<std::string>& reset_triggers);
// Computes the route of an inbound message. Errors: those of policy::route().
Result<policy::Route> route_of(const policy::RouteSettings& settings, std::string_view agent, const Inbound& command);

// Tells that people changed a message later (transcripts/changes.hpp).
struct ChangeMessage {
  enum class What : std::uint8_t { edit, remove, react };
  What what = What::edit;
  Target target{};        // the session with the message's key, as it is now
  std::string channel{};  // of the message, in lower case
  std::string account_id{}, peer{};
  MessagePlace place{};
  std::optional<std::string> text{};  // of an edit
  std::string content{};              // compact JSON; exclusive with text
  std::string emoji{};                // of a reaction
  Person from{};
  bool removed = false;
  bool mentioned = false;  // the text of an edit addresses the agent: a message that addressed nobody activates, once
};

// Keeps an edit or a deletion whose message is not known. idempotency_in_flight if it is just coming in.
struct KeepChange {
  EarlyChange change{};  // its id and times are the decision's
  std::string name{};    // platform_name() of the message
};
// Tells that the message of a kept change did not come. Answers 204.
struct LoseChange {
  std::string id{};
};

struct Outbound {
  Target target{};
  std::optional<std::string> topic{};
  std::optional<std::string> text{};
  std::string content{};  // compact JSON; exclusive with text
  std::vector<std::string> media_urls{};
  DeliverTo deliver{};  // its media_urls are not used: they are above
  std::string message_id{};
  std::string usage{};  // raw JSON object
  std::string model{}, provider{}, stop_reason{};
  bool mirror_only = false;
  bool takes_over = false;                       // the requester says it in place of the agent, from now on
  std::string name{};                            // of that person; empty: the token's id
  std::optional<std::uint64_t> seen_seq{};       // the last message that this person has seen; nothing: all before
  std::string instance{}, request_id{};          // members of the problem that answers a denial
  std::optional<transcripts::NewEntry> entry{};  // entry_of() it; nothing: the decision makes it
};
// Makes the entry of what is sent; for a long one on a disk thread.
transcripts::NewEntry entry_of(const Outbound& command);

Result<Decision> decide(const AgentState& state, const CreateSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const PutSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ImportSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ContinueTranscript& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const ForkSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ReplaceTranscript& command, const Context& context);
Result<Decision> decide(const AgentState& state, const PatchSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const DeleteSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const RestoreSession& command, const Context& context);
// These three answer 204, or 200 if what they are about stays.
Result<Decision> decide(const AgentState& state, const PruneSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const DestroyArchive& command, const Context& context);
Result<Decision> decide(const AgentState& state, const PruneOrphan& command, const Context& context);
// Answers 201 with the session, or 200 without one.
Result<Decision> decide(const AgentState& state, const AdoptOrphan& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ResetSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ClearSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ResumeSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ArchiveSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const SpawnSession& command, const Context& context);
Result<Decision> decide(const AgentState& state, const DeleteTopic& command, const Context& context);
Result<Decision> decide(const AgentState& state, const AppendMessages& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const CompactSession& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const FailCompaction& command, const Context& context);
Result<Decision> decide(const AgentState& state, const RepairSession& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const Inbound& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const ChangeMessage& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const KeepChange& command, const Context& context);
Result<Decision> decide(const AgentState& state, const LoseChange& command, const Context& context);
Result<Decision> decide(const AgentState& state, const Outbound& command, const Context& context,
                        const FetchedLines& lines);

// Finds the session that a PUT would replace, in whichever spelling its key is given. Null if it would make a new one.
const Session* put_target(const AgentState& state, const PutSession& command);

}  // namespace sessiond::decide

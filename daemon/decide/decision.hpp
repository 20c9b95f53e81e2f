// A decision is the outcome of a command: the events to commit, where transcript lines go, and the answer to give
// once all of it is durable.
//
// Deciding is pure: no clock, no disk, no network. Time and ids come in the Context, and a fact that is not in memory
// is asked for with a Need: the ledger fetches it and decides again. So every rule is tested without a disk or a
// socket.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "daemon/decide/adoptions.hpp"
#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/events.hpp"
#include "daemon/decide/lineage.hpp"
#include "daemon/decide/platform_message.hpp"
#include "daemon/decide/rules.hpp"
#include "policy/runs/hooks.hpp"
#include "store/journal/line_position.hpp"
#include "store/problem.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::decide {

// Makes new ids from random bytes, so no id says anything about another one. Not thread-safe.
class IdSource {
 public:
  // Fills a buffer with random bytes. Tests use a source that repeats itself.
  using Bytes = std::function<void(std::span<unsigned char>)>;
  explicit IdSource(Bytes bytes) : bytes_(std::move(bytes)) {}
  // Uses the operating system's random source, through OpenSSL. Throws std::runtime_error if it fails.
  static IdSource secure();

  std::string entry_id();                       // 16 hex digits
  std::string uuid();                           // version 4
  std::int64_t archive_time(std::int64_t now);  // `now`, or the next free ms: never the same twice
  std::string timestamp_id(std::int64_t now);   // 2025-01-04-14-32-15-001-abcd, never the same twice

 private:
  std::uint64_t next();

  Bytes bytes_;
  std::array<unsigned char, 512> pool_{};  // bytes are wiped when they are used
  std::size_t taken_ = pool_.size();
  std::int64_t archived_ = 0;
  std::int64_t stamped_ = 0;                // the ms of the last timestamp id; never goes back
  std::unordered_set<std::uint16_t> ends_;  // the random parts of the timestamp ids of that ms
};

// The files of one session id in the agent's folder.
struct FilesOfId {
  bool transcripts = false;             // it has one: its own, a topic's, or one that a repair put aside
  std::vector<std::string> archives{};  // names
  bool log = false;                     // it has a log
  bool changes = false;                 // changes of its messages are kept beside its transcripts
};
using FetchedIds = std::map<std::string, FilesOfId, std::less<>>;

// By transcript file and entry id, with a newline between.
using FetchedKept = std::map<std::string, transcripts::KeptEntry, std::less<>>;

// How much of the agent the requester may see. Default: all, as for the daemon itself and for foreign changes.
struct Sight {
  bool whole_agent = true;
  std::function<bool(std::string_view key, std::string_view channel)> sees{};
  // Set if the decision is made on a state without what the requester may not see: the whole state.
  const AgentState* all = nullptr;
  bool sets_policy = true;  // may change what a session is allowed to do (auth::Permission::policy)
};

// Names a lease: the run, and the number that its runner was given.
struct RunHold {
  std::string run_id{};
  std::uint64_t fence = 0;
  friend bool operator==(const RunHold&, const RunHold&) = default;
};

// Requests of clients that hold until they are taken back.
struct Orders {
  const Adoptions* adoptions = nullptr;   // what is kept for bridges; null: nothing
  const runs::HookList* hooks = nullptr;  // handlers that are called; null: none
};

struct Context {
  std::uint64_t next_seq = 1;
  std::int64_t now = 0;      // ms since the epoch
  std::int64_t age_now = 0;  // by the clock of ages (store/journal/age_clock.hpp)
  std::string_view epoch;
  std::string_view actor;
  std::string_view source = "api";
  const Rules* rules = nullptr;
  IdSource* ids = nullptr;
  const Lineage* lineage = nullptr;  // marks events; null: they are not marked
  // Output: the transcript whose end the decision depends on. The ledger then makes sure that the file still ends
  // there, also if the decision is a refusal; otherwise it decides again.
  std::string* rests_on = nullptr;
  std::uint64_t oldest_seq = 0;         // the oldest seq that the journal still has
  const FetchedIds* on_disk = nullptr;  // the answers to Need::What::id_files
  const FetchedKept* kept = nullptr;    // the answers to Need::What::kept
  // Tells whether a session of another agent has this SDK session id. Nothing: Need::What::sdk_session finds out.
  // Empty: there is no other agent.
  std::function<std::optional<bool>(std::string_view id)> sdk_id_elsewhere{};
  // Finds a message that came into the session `key` under this name (platform_message.hpp), behind the event `after`.
  // Empty: none is known.
  std::function<std::optional<MessagePlace>(const std::string& name, std::string_view key, std::uint64_t after)>
      find_echo{};
  // Returns the part of a session's active run that is in memory only. Empty: there is none.
  std::function<RunPulse(const std::string& agent, const std::string& key, const RunHold& hold)> pulse_of{};
  // Returns whether a message of this platform name is being committed. Empty: none is.
  std::function<bool(const std::string& name)> is_coming_in{};
  const KeyPolicies* policies = nullptr;  // of the agent's keys; null: those of the state
  const EarlyChanges* early = nullptr;    // that messages take; null: those of the state
  // The reply to the first telling of an inbound message, which addressed nobody; it is told again, or edited, and does
  // now. Null: it is new, or has addressed the agent before.
  const std::string* told_before = nullptr;
  // Returns where the agent's transcripts lie, absolute and with its '/'. Empty: nobody else is to find them.
  std::function<std::string()> sessions_dir{};
  Sight sight{};
  // False: the state is that of ephemeral sessions, and the decision is not journaled. Nothing is archived then.
  bool durable = true;
  Orders orders{};
  const RunHold* run = nullptr;  // what a runner writes under; null: none
  std::string_view client{};     // that the requester says it is; empty: it says nothing
  std::string_view as_of{};      // the position that the answer names; empty: that of the decision's last event
};

// The requester's client, as its events name it.
ClientUse client_of(const Context& context);

// A fact that a decision needs and that is not in memory. The ledger fetches it and decides again.
struct Need {
  enum class What : std::uint8_t {
    transcript_end,  // where `file` ends
    entry_ids,       // the ids in `file`
    lines,           // the stored lines of `ids` in `file`
    meter,           // how full the window is at the end of `file`
    kept,            // what the path to the end of `file` says of the entry ids.front(): Context::kept
    id_files,        // the files of the session id `file`: Context::on_disk
    history,         // the structures of the last messages in `file`: history_name (session_log.hpp)
    shown,           // the message ids.front() in `file`, as people left it: a line of shown_name()
    calls,           // by which of `ids` messages in `file` call tools: lines of call_name()
    behind,          // whether a message stands behind the entry ids.front() in `file`: a line of behind_name()
    counts,          // what the session `file` (its key) counts: its entry says it then (decide_counts)
    sdk_session,     // which agents have the SDK session id `file`: Context::sdk_id_elsewhere
  };
  What what;
  std::string file;
  std::vector<std::string> ids{};
  context::OrderAsked order{};  // of transcript_end, meter and kept: the session's runs
  std::string name{};           // of shown and kept: the transcript's (transcripts/origins.hpp)
};

// Names the answer to Need::What::calls among the fetched lines: a line that is not empty says that there is a call.
inline std::string call_name(std::string_view id) { return std::string("/call ").append(id); }

// Names the answer to Need::What::behind among the fetched lines: a line that is not empty says that there is a
// message. Its seq is the number of entries that the transcript had.
inline std::string behind_name(std::string_view id) { return std::string("/behind ").append(id); }

// Names the answer to Need::What::shown among the fetched lines. An empty line: no entry has this id.
inline std::string shown_name(std::string_view id) { return std::string("/shown ").append(id); }

// The new end of a transcript after a decision appended to it.
struct TranscriptUpdate {
  std::string file;
  TranscriptEnd end;                 // after the append
  std::vector<std::uint32_t> ids{};  // hashes of the new entries' ids, if end.ids is set
};

struct Decision {
  std::vector<Change> events;
  std::vector<journal::LinePosition> line_positions;
  std::vector<TranscriptUpdate> transcript_updates;
  std::shared_ptr<Session> edited;  // the session as the last event leaves it, where it is at hand
  std::optional<Need> need;

  std::vector<NamedMessage> named{};
  // The reply that a further telling of the message gets from now on, where the request edits it. Empty: as before.
  std::string told_again{};
  std::vector<std::string> early_taken{};  // ids of early changes that a message in memory has taken
  // Transcripts that become archives for good: what foreign programs wrote to them is published first, and then it is
  // decided again.
  std::vector<std::string> ending{};
  std::vector<std::string> outdated{};  // other transcripts that are shown differently now: their ends are read again

  int status = 200;
  std::string body;      // JSON
  std::string etag;      // without quotes: r17
  std::string location;  // path
  // The commit is acknowledged only after sessions.json has it, too. In shared mode: resets and deletions.
  bool through_checkpoint = false;
};

// Collects the events of one decision.
class DecisionBuilder {
 public:
  DecisionBuilder(const AgentState& state, const Context& context) : state_(state), context_(context) {}

  const Context& context() const { return context_; }
  const AgentState& state() const { return state_; }
  std::uint64_t next_seq() const { return context_.next_seq + out.events.size(); }
  // Where a transcript ends after what this decision has appended. Null: it is not known.
  const TranscriptEnd* transcript_end(const std::string& file) const;
  std::string as_of() const;  // <epoch>-<last seq of this decision, or of the state if it has no event>

  // Adds an event. Its seq, time, agent and source are those of this decision, and its actor if it names none. The
  // bytes of one with a record are made when it is committed (encode).
  void emit(journal::Envelope&& envelope, std::string_view data);
  void emit(journal::Envelope&& envelope, Payload payload);
  // Adds an event about a session, with the channel, chat type and session id of `session`. `edit`: what `data` sets
  // and unsets, where it is at hand.
  void emit(journal::EventType type, const Session& session, std::string_view data,
            const std::optional<std::string>& topic = {}, std::optional<json::Edit> edit = {});
  // Adds an event that says this and sets `edit` in the session's entry. One of a message that is delivered is about
  // the channel that it goes to.
  void emit(journal::EventType type, const Session& session, Payload payload,
            const std::optional<std::string>& topic = {}, json::Edit edit = {});
  // Edits `session`, a copy of the stored one, and adds session.updated (or `type`). `more` are raw members that come
  // first in the event's data.
  void update(Session& session, json::Edit edit, journal::EventType type = journal::EventType::session_updated,
              std::string_view more = {});
  void update(Session& session, json::Edit edit, Payload payload);  // session.updated that says this

  Decision out;
  // While the events of a platform's message are made, its channel: tokens of that see them also in a session that
  // several channels reach, and that they do not see. Else empty.
  std::string about_channel{};

 private:
  Change& begin(journal::Envelope&& envelope);
  // `channel`: as about_channel.
  journal::Envelope envelope_about(const Session& session, journal::EventType type, std::string_view channel,
                                   const std::optional<std::string>& topic) const;
  void edit_with_rev(Session& session, json::Edit edit) const;  // the rev that the next event gives it

  const AgentState& state_;
  const Context& context_;
};

// The answers to Need::What::lines: stored lines by entry id. An empty line: no entry has this id.
using FetchedLines = std::unordered_map<std::string, transcripts::StoredLine>;

// Returns the session's new updatedAt, which never goes back.
std::int64_t moved_to(const Session& session, std::int64_t now);

}  // namespace sessiond::decide

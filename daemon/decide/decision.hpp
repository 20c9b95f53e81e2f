// What a command decides: events to commit, where their transcript lines go, and the answer to give once all is
// durable. Deciding is pure: no clock, no I/O, and ids come from the context, so every rule is tested without a disk or
// a socket.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/rules.hpp"
#include "store/journal/event.hpp"
#include "store/journal/line_position.hpp"
#include "store/problem.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond {

// Fresh ids, made of random bytes: no id says anything of another one.
class IdSource {
 public:
  // Fills a buffer with random bytes. Tests bring a source that repeats itself.
  using Bytes = std::function<void(std::span<unsigned char>)>;
  explicit IdSource(Bytes bytes) : bytes_(std::move(bytes)) {}
  // From the operating system's random source, by way of OpenSSL. Throws when there is none.
  static IdSource secure();

  std::string entry_id();                       // 16 hex digits
  std::string uuid();                           // version 4
  std::int64_t archive_time(std::int64_t now);  // `now`, or later: archive names never come twice
  std::string timestamp_id(std::int64_t now);   // 2025-01-04-14-32-15-001-abcd, never twice from one source

 private:
  std::uint64_t next();

  Bytes bytes_;
  std::array<unsigned char, 512> pool_{};  // what is taken of it is wiped
  std::size_t taken_ = pool_.size();
  std::int64_t archived_ = 0;
  std::int64_t stamped_ = 0;                // the millisecond of the last timestamp id; it never goes back
  std::unordered_set<std::uint16_t> ends_;  // of the timestamp ids with that millisecond
};

// What lies in the agent's folder under one session id.
struct FilesOfId {
  bool transcripts = false;             // its own or a topic's, or something put aside of one
  std::vector<std::string> archives{};  // names
};
using FetchedIds = std::map<std::string, FilesOfId, std::less<>>;

// How much of the agent the requester may see; by default (the daemon itself, another program) all of it.
struct Sight {
  bool whole_agent = true;
  std::function<bool(std::string_view key, std::string_view channel)> sees{};
  // The agent as it is, when the decision is made on one without what the requester may not see.
  const AgentState* all = nullptr;
};

struct Context {
  std::uint64_t next_seq = 1;
  std::int64_t now = 0;  // ms since the epoch
  std::string_view epoch;
  std::string_view actor;
  std::string_view source = "api";
  const Rules* rules = nullptr;
  IdSource* ids = nullptr;
  // Set by a decision that depends on where a transcript ends: its file. The ledger then makes sure that it ends there,
  // also when the decision is a refusal, or lets it decide again.
  std::string* rests_on = nullptr;
  std::uint64_t oldest_seq = 0;         // that the journal still has
  const FetchedIds* on_disk = nullptr;  // what the ledger found for Need::What::id_files
  Sight sight{};
};

// Facts a decision wants that are not in memory yet. The ledger fetches them and asks again.
struct Need {
  enum class What : std::uint8_t {
    transcript_end,  // where `file` ends
    entry_ids,       // the ids in `file`
    lines,           // the stored lines of `ids` in `file`
    id_files,        // what lies in the folder under the session id `file`: Context::on_disk
  };
  What what;
  std::string file;
  std::vector<std::string> ids{};
};

// What a decision appends to a transcript.
struct TranscriptUpdate {
  std::string file;
  TranscriptEnd end;                 // as it is then
  std::vector<std::uint32_t> ids{};  // hashes of the new entries' ids, where the set of them is held
};

struct Decision {
  std::vector<Event> events;
  std::vector<LinePosition> line_positions;
  std::vector<TranscriptUpdate> transcript_updates;
  std::optional<Need> need;

  int status = 200;
  std::string body;      // JSON
  std::string etag;      // without quotes: r17
  std::string location;  // path
  // The commit is only acknowledged when sessions.json has it too (shared mode: resets and deletions).
  bool through_checkpoint = false;
};

// Collects the events of one decision.
class DecisionBuilder {
 public:
  DecisionBuilder(const AgentState& state, const Context& context) : state_(state), context_(context) {}

  const Context& context() const { return context_; }
  const AgentState& state() const { return state_; }
  std::uint64_t next_seq() const { return context_.next_seq + out.events.size(); }
  std::string as_of() const;  // <epoch>-<last seq of this decision>

  // An event about a session; channel, chat type and session id are the session's.
  void emit(EventType type, const Session& session, std::string_view data,
            const std::optional<std::string>& topic = {});
  // Changes the working copy and emits session.updated (or `type`, with more members of data put first).
  void update(Session& session, json::Edit edit, EventType type = EventType::session_updated,
              std::string_view more = {});

  Decision out;

 private:
  const AgentState& state_;
  const Context& context_;
};

// Stored lines that the ledger fetched for this decision, by id; an empty one: there is none with this id.
using FetchedLines = std::unordered_map<std::string, StoredLine>;

std::int64_t moved_to(const Session& session, std::int64_t now);  // updatedAt never goes back

}  // namespace sessiond

// What a command decides: events to commit, where their transcript lines go, and the answer to give once all is
// durable. Deciding is pure: no clock, no I/O, and ids come from the context, so every rule is tested without a disk or
// a socket.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ledger/agent_state.hpp"
#include "daemon/ledger/rules.hpp"
#include "store/event.hpp"
#include "store/problem.hpp"
#include "transcripts/entry.hpp"

namespace sessiond {

// Fresh ids. Deterministic for a seed.
class IdSource {
 public:
  explicit IdSource(std::uint64_t seed) : state_(seed) {}
  std::string entry_id();                       // 16 hex digits, never twice from one source
  std::string uuid();                           // version 4 shape
  std::int64_t archive_time(std::int64_t now);  // `now`, or later: archive names never come twice
  std::string timestamp_id(std::int64_t now);   // 2025-01-04-14-32-15-001-abcd

 private:
  std::uint64_t next();
  std::uint64_t state_;
  std::int64_t archived_ = 0;
};

struct Context {
  std::uint64_t next_seq = 1;
  std::int64_t now = 0;  // ms since the epoch
  std::string_view epoch;
  std::string_view actor;
  std::string_view source = "api";
  const Rules* rules = nullptr;
  IdSource* ids = nullptr;
};

// Facts a decision wants that are not in memory yet. The ledger fetches them and asks again.
struct Need {
  enum class What : std::uint8_t {
    transcript_end,  // where `file` ends
    entry_ids,       // the ids in `file`
    line,            // the stored line of `id` in `file`
  };
  What what;
  std::string file;
  std::string id{};
};

struct Decision {
  std::vector<Event> events;
  std::vector<std::string> places;  // for Commit::places
  std::vector<std::pair<std::string, TranscriptEnd>> ends;
  std::optional<Need> need;

  int status = 200;
  std::string body;      // JSON
  std::string etag;      // without quotes: r17
  std::string location;  // path
  // The commit is only acknowledged when sessions.json has it too (shared mode: resets and deletions).
  bool through_checkpoint = false;
};

// Collects the events of one decision.
class Drafting {
 public:
  Drafting(const AgentState& state, const Context& context) : state_(state), context_(context) {}

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

// A stored line that the ledger fetched for this decision; empty: there is none with this id.
struct FetchedLine {
  std::string id;
  std::string line;
  std::uint64_t seq = 0;
};
using FetchedLines = std::vector<FetchedLine>;

std::int64_t moved_to(const Session& session, std::int64_t now);  // updatedAt never goes back

}  // namespace sessiond

// Decides which events a stream shows: those within the scope of its route, that match the filters of its query, and
// that its token may see. Every decision is made from the event's envelope as it was committed, so a replay shows
// exactly the events that a live stream showed.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/auth/principal.hpp"
#include "daemon/http/message.hpp"
#include "store/journal/event.hpp"
#include "store/problem.hpp"

namespace sessiond::stream {

// The agent and session that the path of the route names; empty: all. `key` is the session's full key, as it is in
// events.
struct StreamScope {
  std::string agent{};
  std::string key{};
  // Of a session whose id was purged before: the purge. Nothing up to it is the session's.
  std::uint64_t after = 0;
};

// The query's deliver, types, agent, keyPrefix, channel and topic. One that is absent or empty restricts nothing, but
// that log.appended is shown only where types names it: lines of logs are long, and few readers of events want them.
class EventFilter {
 public:
  using Types = std::bitset<static_cast<std::size_t>(journal::EventType::context_updated) + 1>;  // one bit for each
  static Types usual() { return ~Types().set(static_cast<std::size_t>(journal::EventType::log_appended)); }

  // validation_failed at "?types" for a pattern that no event can match. Names reserved for later versions are
  // accepted.
  static Result<EventFilter> parse(const http::Request& request);

  bool matches(const journal::Envelope& event) const;
  // Every event but log.appended.
  bool matches_all() const {
    return types_ == usual() && !deliveries_ && !agent_ && !key_prefix_ && !channel_ && !topic_;
  }
  // {"agent":…,"key":…,"types":[…],…}: the scope, then what was asked for.
  std::string json(const StreamScope& scope) const;

 private:
  bool deliveries_ = false;  // only what concerns deliveries
  Types types_ = usual();
  std::vector<std::string> patterns_{};
  std::optional<std::string> agent_{};
  std::optional<std::string> key_prefix_{};
  std::optional<std::string> channel_{};
  std::optional<std::string> topic_{};
};

// An event without a key is shown to tokens that see the whole agent, one without an agent to tokens that see
// everything.
struct StreamView {
  StreamScope scope{};
  EventFilter filter{};
  auth::Principal principal{};
  std::string lineage{};  // decide::Lineage::tag of the principal's session; empty: its role is another

  bool shows(const journal::Envelope& event) const;
  bool shows_all() const;  // every event but log.appended: filtering can be left out

 private:
  bool sees(const journal::Envelope& event) const;
};

}  // namespace sessiond::stream

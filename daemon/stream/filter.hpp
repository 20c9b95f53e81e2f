// Which events a stream shows: the scope of its route, the filters of its query (API §6), and what the token may see.
// All are judged by the envelope as it was committed, so replay and live cannot differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/auth/principal.hpp"
#include "daemon/http/message.hpp"
#include "store/journal/event.hpp"
#include "store/problem.hpp"

namespace sessiond {

// What the path names; empty: everything. A key is the session's full key as committed.
struct StreamScope {
  std::string agent{};
  std::string key{};
};

// The query's types, agent, keyPrefix, channel, topic; those absent or empty ask for nothing.
class EventFilter {
 public:
  // validation_failed at "?types" for a pattern that no event can ever match; names reserved for later are fine.
  static Result<EventFilter> parse(const Request& request);

  bool matches(const Envelope& event) const;
  bool matches_all() const { return types_ == UINT32_MAX && !agent_ && !key_prefix_ && !channel_ && !topic_; }
  // {"types":[…],"agent":…,…}: what was asked for, the scope's agent and key first.
  std::string json(const StreamScope& scope) const;

 private:
  std::uint32_t types_ = UINT32_MAX;  // a bit an EventType
  std::vector<std::string> patterns_{};
  std::optional<std::string> agent_{};
  std::optional<std::string> key_prefix_{};
  bool prefix_has_alias_ = false;  // may name the dm or direct part of a key
  std::optional<std::string> channel_{};
  std::optional<std::string> topic_{};
};

// May this token see the event? One without a key goes to tokens that see the whole agent, one without an agent to
// tokens that see everything.
bool sees(const Principal& principal, const Envelope& event);

struct StreamView {
  StreamScope scope{};
  EventFilter filter{};
  Principal principal{};

  bool shows(const Envelope& event) const;
  bool shows_all() const;  // every event there can be
};

}  // namespace sessiond

// A place in the event log, `<epoch>-<seq>` (API §6): 8 lower-case hex digits, '-', a decimal seq without leading
// zeros, at most 2^63-1. It is the place behind the event of that seq; seq 0 is the place before the first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/message.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct Position {
  std::string epoch;
  std::uint64_t seq = 0;
  friend bool operator==(const Position&, const Position&) = default;
};
std::string to_string(const Position& position);
std::optional<Position> parse_position(std::string_view text);

// Where a request wants to go on: its Last-Event-ID, else its `after`, else nothing. bad_request names the one that is
// malformed; an `after` that a Last-Event-ID overrules is not looked at, for browsers send the URL's again and again.
Result<std::optional<Position>> asked_position(const Request& request);

}  // namespace sessiond

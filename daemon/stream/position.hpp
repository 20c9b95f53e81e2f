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

// Why the log of this epoch and head cannot go on at a position: "epoch", "ahead"; nothing when it can (it may still be
// older than what is kept).
std::optional<std::string_view> gap_reason(const Position& position, std::string_view epoch, std::uint64_t head);
// The data of stream.gap, and of a page's `gap`: what lies between the two ids was not and will not be given.
std::string gap_data(std::string_view from, std::string_view to, std::string_view reason);

// Where a request wants to go on: its Last-Event-ID, else its `after`, else nothing. bad_request names the one that is
// malformed; an `after` that a Last-Event-ID overrules is not looked at, for browsers send the URL's again and again.
Result<std::optional<Position>> asked_position(const Request& request);

}  // namespace sessiond

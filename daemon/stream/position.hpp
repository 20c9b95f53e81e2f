// A position in the event log, as clients see it in event ids: `<epoch>-<seq>`, 8 lower-case hex digits, '-', and a
// decimal seq without leading zeros, at most 2^63-1. It lies behind the event `seq`; seq 0 lies before the first event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/message.hpp"
#include "store/problem.hpp"

namespace sessiond::stream {

struct Position {
  std::string epoch;
  std::uint64_t seq = 0;
  friend bool operator==(const Position&, const Position&) = default;
};
std::string to_string(const Position& position);
std::optional<Position> parse_position(std::string_view text);

// Returns why a log with this epoch and head cannot continue at a position: "epoch" or "ahead"; nothing when it can.
// Does not tell whether retention has deleted the events that follow.
std::optional<std::string_view> gap_reason(const Position& position, std::string_view epoch, std::uint64_t head);
// Returns the data of stream.gap, also used as the `gap` of a page: events between the two ids are not sent.
std::string gap_data(std::string_view from, std::string_view to, std::string_view reason);

// Returns the position that a request asks to continue from: its Last-Event-ID, else its `after`, else nothing.
// bad_request when the one that counts is malformed. With a Last-Event-ID, `after` is not looked at: a browser that
// reconnects sends both, and the one in the URL is old.
Result<std::optional<Position>> asked_position(const http::Request& request);

}  // namespace sessiond::stream

// How each server is spoken to, and what its events look like. Every published event carries a mark with its number and
// the time it was sent, at the beginning of its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tests/bench/stream/plan.hpp"

namespace sessiond::bench::stream {

struct Mark {
  std::uint64_t number = 0;
  std::uint64_t sent_ns = 0;
};
std::string mark_text(const Mark& mark, std::size_t payload);  // padded to so many bytes, more when it needs them
std::size_t find_mark(std::string_view block);                 // npos: none
Mark read_mark(std::string_view block, std::size_t at);

struct Block {
  enum class Kind : std::uint8_t {
    nothing,   // a comment, retry, stream.bye
    position,  // a bare id
    hello,
    gap,
    event,
  };
  Kind kind = Kind::nothing;
  std::uint64_t number = 0;  // sessiond: the id's seq; others: the mark's number
  std::string_view epoch{};  // sessiond: the id's
};
Block read_block(Server server, std::string_view block);
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name);  // the digits behind `name`

std::string subscribe_request(const Plan& plan, std::string_view last_event_id);
std::string publish_request(const Plan& plan, std::size_t publisher, const Mark& mark);

}  // namespace sessiond::bench::stream

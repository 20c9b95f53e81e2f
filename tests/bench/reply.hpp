// The least that must be read of a reply: was it good, and where does it end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/bench/workload.hpp"

namespace sessiond::bench {

struct Reply {
  enum class State : std::uint8_t {
    incomplete,
    good,        // 2xx, or no RESP error
    refused,     // complete, anything else
    unreadable,  // not a reply, or one without Content-Length
  };
  State state = State::incomplete;
  std::size_t size = 0;  // when complete
};

Reply read_reply(Protocol protocol, std::string_view bytes);

}  // namespace sessiond::bench

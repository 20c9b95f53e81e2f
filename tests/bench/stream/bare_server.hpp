// The floor that fan-out is measured against: an SSE server that does nothing for an event but one send() a reader.
#pragma once

#include <cstdint>

namespace sessiond::bench::stream {

// On 127.0.0.1, until the process is ended. GET makes a connection a reader; the body of a POST goes to every reader as
// it is, before the POST is answered. A reader whose socket does not take it whole is disconnected. Port 0: one that
// the kernel chooses; it is printed.
[[noreturn]] void serve_bare(std::uint16_t port);

}  // namespace sessiond::bench::stream

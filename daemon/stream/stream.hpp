// The event stream (API §6), Server-Sent Events. A subscriber is a cursor into the log and a view, not a queue: it
// reads the shared tail in memory and, where that does not reach, the journal, at its own pace; what it holds is
// bounded whatever it misses. Every durable event that its view shows comes once, in order, or a stream.gap says what
// is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/auth/principal.hpp"
#include "daemon/http/message.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/stream/filter.hpp"

namespace sessiond {

// What all streams share. Outlives them. After a change that streams must see at once (draining, tokens):
// ledger.tail().wake().
struct StreamContext {
  Ledger& ledger;
  std::int64_t heartbeat_ms = 15'000;
  std::int64_t retry_ms = 2'000;
  std::string version{};
  // Who the token is now. A problem (revoked, expired) or another scope ends the stream; it is asked every second and
  // whenever the generation changes.
  std::function<Result<Principal>(const Principal&)> again;
  std::function<std::uint64_t()> token_generation;
  const bool& draining;  // streams say stream.bye and end
};

// The answer to GET of an event route by request.principal. bad_request: a malformed position or parameter;
// validation_failed: a filter that makes no sense. Never 503: while draining the stream says bye and ends.
Result<Response> open_stream(StreamContext& context, const Request& request, StreamScope scope);

}  // namespace sessiond

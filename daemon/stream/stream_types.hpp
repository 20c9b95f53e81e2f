// The settings of streams, the parts of the daemon that they use, and what they report about themselves.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "daemon/auth/principal.hpp"
#include "store/journal/journal.hpp"
#include "store/problem.hpp"

namespace sessiond::stream {

struct StreamSettings {
  std::int64_t heartbeat_ms = 15'000;  // for clients that ask for no other
  std::int64_t retry_ms = 2'000;
  std::int64_t stall_timeout_ms = 60'000;
  std::int64_t coalesce_ms = 10;
  std::size_t tail_bytes = 16 << 20;
  std::uint64_t streams_per_token = 0;  // 0: no limit
};

// The parts of the daemon that all streams use. The functions may be called on any thread.
struct StreamContext {
  const journal::Journal& journal;
  boost::asio::thread_pool& disk;
  // Returns the token as it is now. A problem (revoked, expired) or another scope ends its streams. Asked every second,
  // and whenever the generation has changed.
  std::function<Result<auth::Principal>(const auth::Principal&)> again;
  std::function<std::uint64_t()> token_generation;
};

struct StreamCounters {
  std::atomic<std::uint64_t> bytes{0};    // sent
  std::atomic<std::uint64_t> stalled{0};  // streams closed because their client read nothing
  std::atomic<std::uint64_t> gaps{0};
  std::atomic<std::uint64_t> dropped{0};  // batches of ephemeral events for which there was no room
};

// One stream, for GET /v1/admin/streams and /metrics.
struct StreamInfo {
  std::uint64_t id = 0;
  std::string token{};
  std::string peer{};
  std::string request_id{};
  std::string filters{};  // JSON
  std::string_view state{};
  std::uint64_t position = 0;  // seq up to which everything was sent
  std::uint64_t lag_events = 0;
  std::uint64_t lag_bytes = 0;  // of journal, about
  std::uint64_t sent_bytes = 0;
  std::int64_t open_ms = 0;
  std::int64_t waits_ms = 0;  // how long the socket of a blocked stream has taken nothing
};

}  // namespace sessiond::stream

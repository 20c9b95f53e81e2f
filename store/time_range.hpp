// The times that clients may name and that ISO 8601 with four digits can write: 1970-01-01T00:00:00.000Z (0) to
// 9999-12-31T23:59:59.999Z, in ms since the epoch.
#pragma once

#include <cstdint>

namespace sessiond {

inline constexpr std::int64_t last_time_ms = 253'402'300'799'999;

}  // namespace sessiond

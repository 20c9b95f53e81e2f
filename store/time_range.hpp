// The range of times that clients may give: 0 (1970-01-01T00:00:00.000Z) to last_time_ms (9999-12-31T23:59:59.999Z), in
// ms since 1970. ISO 8601 with a year of four digits can write each of them.
#pragma once

#include <cstdint>

namespace sessiond::store {

inline constexpr std::int64_t last_time_ms = 253'402'300'799'999;

}  // namespace sessiond::store

// The moment at which the tests of tokens and tickets happen.
#pragma once

#include <cstdint>

inline constexpr std::int64_t now = 1'700'000'000'000;  // ms since the epoch

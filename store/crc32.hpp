// CRC-32 as zlib and gzip compute it (ITU-T V.42). Journal lines, indexes and transcript sidecars carry one.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string_view>

namespace sessiond::store {

// Continues a CRC: `before` is the CRC-32 of the preceding bytes; returns that of all of them.
inline std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before = 0) {
  if (bytes.empty()) return before;  // zlib starts from 0 at a null pointer
  return static_cast<std::uint32_t>(::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace sessiond::store

// CRC-32 as zlib and gzip compute it (ITU-T V.42). Journal lines, indexes and transcript sidecars carry one.
#pragma once

#include <libdeflate.h>

#include <cstdint>
#include <string_view>

namespace sessiond::store {

// Continues a CRC: `before` is the CRC-32 of the preceding bytes; returns that of all of them. libdeflate multiplies
// without carries where the processor can, which takes a tenth of the instructions of zlib's tables.
inline std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before = 0) {
  if (bytes.empty()) return before;  // libdeflate starts from 0 at a null pointer
  return ::libdeflate_crc32(before, bytes.data(), bytes.size());
}

}  // namespace sessiond::store

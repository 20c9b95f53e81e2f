// The CRC-32 of zlib and gzip (ITU-T V.42), which the journal's lines, its indexes and the sidecars of transcripts
// carry.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string_view>

namespace sessiond {

// Of what `before` was taken of, followed by `bytes`.
inline std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before = 0) {
  if (bytes.empty()) return before;  // zlib begins anew at a null pointer
  return static_cast<std::uint32_t>(::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace sessiond
